"""Runs of plants that change from sample to sample, by dense matrices."""

import numpy as np


def forced(vertices, sequences, column, start, values):
    """Outputs (T p, K) of K sequences after a change of an input that begins at a sample."""
    chosen = np.asarray(sequences)
    A, B, C, D = (np.array([getattr(v, name) for v in vertices]) for name in "ABCD")
    states = np.zeros((len(chosen), vertices[0].nstates, 1))
    outputs = []
    for t, k in enumerate(chosen.T):
        inside = start <= t < start + len(values)
        w = values[t - start] if inside else 0.0
        outputs.append(C[k] @ states + D[k][:, :, column, None] * w)
        states = A[k] @ states + B[k][:, :, column, None] * w
    return np.concatenate(outputs, axis=1)[:, :, 0].T


def impulses(vertices, sequence):
    """Outputs (T p, T m) after an impulse of each input at each sample."""
    m = vertices[0].ninputs
    states = np.zeros((vertices[0].nstates, len(sequence) * m))
    outputs = []
    for t, k in enumerate(sequence):
        plant, now = vertices[k], slice(t * m, (t + 1) * m)
        outputs.append(plant.C @ states)
        outputs[-1][:, now] += plant.D
        states = plant.A @ states
        states[:, now] += plant.B
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
        worst = max(worst, np.linalg.norm(root @ impulses(vertices, sequence), 2))
    return worst
