"""Sampled sequences of vertices, and the largest shift that one of them attains."""

from dataclasses import replace

import numpy as np

from privcontrol.core._balls import working_bits
from privcontrol.noise._shift import joint_shift
from privcontrol.regions._varying import _lengths
from privcontrol.regions.varying import VaryingProblem

#: Samples that a sampled sequence has at the most, and the bits of what is left.
MOST_LENGTH = 100
BITS = 192


def sampled_gap(noise, polytope, samples, rng):
    """Relative distance of the certified bound to the largest sampled shift."""
    adjacency = noise.request.adjacency
    problem = VaryingProblem.of(noise, polytope.plants(adjacency), adjacency)
    horizon = noise.guarantee.scope.horizon
    horizon = noise.horizon if horizon is None else horizon
    return problem.shift(horizon) / attained(problem, samples, rng, horizon) - 1


def attained(problem, samples, rng, horizon):
    """The largest shift over sampled sequences of vertices."""
    different = {secret.system: secret for secret in problem.secrets}
    with working_bits(BITS):
        left = replace(problem, secrets=tuple(different.values())).left()
    found = attained_shift(left, samples, rng, horizon)
    if problem.floor is None:
        return found
    return joint_shift(found, attained(problem.floor, samples, rng, horizon))


def attained_shift(secret, samples, rng, horizon):
    """The largest shift over constant and drawn sequences of vertices."""
    length = int(min(horizon, MOST_LENGTH))
    vertices = []
    for vertex in secret.vertices:
        vertices.append(vertex.in_doubles().matrices)
    count = len(vertices)
    constant = [np.full(length, k) for k in range(count)]
    rng = np.random.default_rng(rng)
    drawn = [_held_vertices(count, length, rng) for _ in range(samples)]
    worst = 0.0
    for sequence in (*constant, *drawn):
        left = _least_left(vertices, sequence, secret.free)
        worst = max(worst, _largest_of(secret, left))
    return worst


def _held_vertices(count, length, rng):
    """A sequence of vertices that are held for a while, short in some, long in others."""
    changes = rng.random(length) < rng.random() ** 3
    held = np.cumsum(changes)
    return rng.integers(count, size=held[-1] + 1)[held]


def _largest_of(secret, left):
    """The largest shift from what is left (rows, T, q) of each input's impulses."""
    if secret.energies is not None:
        weighted = (left * secret.energies).reshape(len(left), -1)
        return float(np.linalg.norm(weighted, 2))
    sizes = [np.linalg.norm(left[:, 0, index], 2) for index in secret.balls]
    for moves in secret.signals:
        impulses = left[:, :, moves.column]
        for shape in moves.shapes:
            for length in _lengths(moves, shape):
                change = impulses[:, :length] @ shape[:length]
                size = np.linalg.norm(change)
                sizes.append(size * moves.radius * moves.events)
    return float(max(sizes))


def _least_left(vertices, sequence, free):
    """What is left of the secret (rows, T, q) if the free inputs are the best ones."""
    _, B, C, _ = vertices[0]
    length = len(sequence)
    states = np.zeros((len(B), length, B.shape[1]))
    outputs = []
    for t, k in enumerate(sequence):
        A, B, C, D = vertices[k]
        now = np.tensordot(C, states, 1)
        now[:, t] += D
        outputs.append(now)
        states = np.tensordot(A, states, 1)
        states[:, t] += B
    every = np.concatenate(outputs)
    secrets = every.shape[2] - free
    left = every[:, :, :secrets].reshape(len(every), -1)
    if free:
        chosen = every[:, :, secrets:].reshape(len(every), -1)
        basis, _ = np.linalg.qr(chosen)
        left = left - basis @ (basis.T @ left)
    return left.reshape(len(every), length, secrets)
