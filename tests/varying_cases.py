"""Runs of plants that change from sample to sample, by dense matrices."""

import numpy as np


def forced(vertices, sequence, column, start, values):
    """Outputs (T p,) after a change of an input that begins at a sample."""
    state = np.zeros(vertices[0].nstates)
    outputs = []
    for t, k in enumerate(sequence):
        plant = vertices[k]
        inside = start <= t < start + len(values)
        w = values[t - start] if inside else 0.0
        outputs.append(plant.C @ state + plant.D[:, column] * w)
        state = plant.A @ state + plant.B[:, column] * w
    return np.concatenate(outputs)


def whitening(noise, horizon):
    """The inverse of a root of the covariance of a run."""
    run = noise.over(horizon) if hasattr(noise, "over") else noise
    dense = run.process.responses.reshape(horizon * noise.process.outputs, -1)
    white = np.diag(np.tile(run.process.total.white**2, horizon))
    return np.linalg.inv(np.linalg.cholesky(dense @ dense.T + white))


def worst_energy(noise, vertices, horizon):
    """The largest gain of whitened outputs from signals, over sampled sequences."""
    rng = np.random.default_rng(0)
    root = whitening(noise, horizon)
    constant = [np.full(horizon, k) for k in range(len(vertices))]
    drawn = rng.integers(len(vertices), size=(20, horizon))
    worst = 0.0
    for sequence in [*constant, *drawn]:
        columns = [
            forced(vertices, sequence, k, t, [1.0])
            for t in range(horizon)
            for k in range(vertices[0].ninputs)
        ]
        worst = max(worst, np.linalg.norm(root @ np.column_stack(columns), 2))
    return worst
