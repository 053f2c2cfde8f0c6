"""Circuits of Definition 4: time by size, against one null vector at a time in floating point with a tolerance."""

import tracemalloc
from itertools import combinations

import numpy as np
import scipy.linalg
from benchmarks.measure import Turns, duration

import privcontrol as pc
from privcontrol.core._balls import rational_matrix
from privcontrol.core.circuits import Component, blocks_of, rounded
from privcontrol.secrets.circuits import trajectory_circuit_moves


def circuit_moves(kernel, radius):
    """The moves of the manifold with this kernel, in doubles with error bounds."""
    table = rational_matrix(kernel)
    whole = Component(np.arange(len(kernel)), table, True, kernel.shape[1])
    moves = whole.worst_moves(np.full(len(kernel), radius))
    return (rounded(block, len(kernel)) for block in blocks_of(moves, len(kernel)))


def one_by_one(kernel, tolerance=1e-9):
    """The worst moves for radius 1, a null vector for every k - 1 rows; what counts as zero is a guess."""
    moves = []
    for rows in combinations(range(len(kernel)), kernel.shape[1] - 1):
        null = scipy.linalg.null_space(kernel[list(rows)])
        if null.shape[1] == 1:
            entries = np.abs(kernel @ null[:, 0])
            moves.append(null[:, 0] / entries[entries > tolerance].min())
    return np.array(moves).T


def stable_matrix(size, seed=0):
    A = np.random.default_rng(seed).standard_normal((size, size))
    return A / np.abs(np.linalg.eigvals(A)).max()


def shares(n):
    return pc.AffineManifold(np.ones((1, n)), [-1.0])


def counted(blocks):
    """Number of moves and the largest entry, holding one block at a time."""
    moves = (getattr(block, "columns", block) for block in blocks)
    found = [(some.shape[1], np.abs(some).max(initial=0.0)) for some in moves]
    return sum(count for count, _ in found), max(largest for _, largest in found)


def test_against_one_by_one(turns, table):
    kernel = np.random.default_rng(0).standard_normal((60, 3))
    timed = turns(
        {
            "privcontrol": lambda: counted(circuit_moves(kernel, 1.0)),
            "peer": lambda: one_by_one(kernel),
        }
    )
    out = table(
        "Circuits: against one null vector at a time",
        "All moves of Definition 4 of a random manifold with n = 60, k = 3. Ours decides every zero exactly.",
        *("", "wall", "processor", "ratio", "moves", "largest entry"),
    )
    peer_moves = timed.values["peer"]
    found = {
        "privcontrol": timed.values["privcontrol"],
        "peer": (peer_moves.shape[1], np.abs(kernel @ peer_moves).max()),
    }
    for name, (moves, largest) in found.items():
        label = "scipy null_space, set by set" if name == "peer" else name
        times = duration(timed.wall[name]), duration(timed.processor[name])
        out.add(
            label, *times, timed.ratio(name, "privcontrol"), moves, f"{largest:.9g}"
        )
    assert np.isclose(found["privcontrol"][1], found["peer"][1], rtol=1e-9)


def test_sizes(table):
    vehicle = pc.plants.vehicle().A
    cases = {
        "any manifold, k = 3, n = 100": (lambda: circuit_moves(kernels[3], 1.0), "5 s"),
        "any manifold, k = 4, n = 40": (lambda: circuit_moves(kernels[4], 1.0), "5 s"),
        "plant, 3 states, T = 100": (
            lambda: trajectory_circuit_moves(stable_matrix(3), 100, 1.0),
            "10 s",
        ),
        "vehicle, T = 1,000": (
            lambda: trajectory_circuit_moves(vehicle, 1000, 1.0),
            None,
        ),
        "shares of a sum, n = 20": (lambda: shares(20).circuits(1.0), "100 ms"),
        "shares of a sum, n = 100": (lambda: shares(100).circuits(1.0), "1 s"),
        "shares of a sum, n = 300": (lambda: shares(300).circuits(1.0), "5 s"),
        "two weighted sums, n = 100": (
            lambda: pc.AffineManifold(weights).circuits(1.0),
            None,
        ),
        "shares by a kernel, n = 100": (
            lambda: pc.AffineManifold.from_kernel(differences).circuits(1.0),
            "1 s",
        ),
        "8 constraints, n = 18": (lambda: pc.AffineManifold(signs).circuits(1.0), None),
    }
    weights = np.random.default_rng(1).uniform(1, 2, (2, 100))
    signs = np.random.default_rng(1).integers(-1, 2, (8, 18)).astype(float)
    differences = np.eye(100)[:, :-1] - np.eye(100)[:, 1:]
    kernels = {
        3: np.random.default_rng(1).standard_normal((100, 3)),
        4: np.random.default_rng(1).standard_normal((40, 4)),
    }
    out = table(
        "Circuits: sizes",
        "Enumerated in blocks, none of which is kept; peak memory of a pass of its own.",
        *("", "moves", "goal", "wall", "processor", "memory"),
    )
    for name, (blocks, goal) in cases.items():
        timed = Turns({"ours": lambda: counted(blocks())})  # noqa: B023
        tracemalloc.start()
        counted(blocks())
        peak = tracemalloc.get_traced_memory()[1] / 2**20
        tracemalloc.stop()
        moves = timed.values["ours"][0]
        out.add(
            name,
            moves,
            goal,
            duration(timed.wall["ours"]),
            duration(timed.processor["ours"]),
            f"{peak:.0f} MB",
        )
