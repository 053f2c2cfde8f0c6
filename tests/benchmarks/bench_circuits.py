"""Circuits of Definition 4: time by size, against one null vector at a time in floating point with a tolerance."""

import tracemalloc
from itertools import combinations

import numpy as np
import pytest
import scipy.linalg
from benchmarks.measure import Turns, duration

import privcontrol as pc
from privcontrol.secrets.trajectory import trajectory_circuit_moves


def circuit_moves(manifold):
    """The moves for radius 1, in doubles with error bounds."""
    return manifold.circuit_moves(np.ones(manifold.size))


def of_plant(A, horizon):
    """The moves of its trajectories for radius 1."""
    return trajectory_circuit_moves(A, horizon, np.ones((horizon, len(A))))


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


def counted(moves):
    """Number of moves and the largest entry."""
    entries = moves.columns if moves.data is None else moves.data
    return entries.shape[1], np.abs(entries).max(initial=0.0)


@pytest.mark.peers
def test_against_one_by_one(turns, table):
    kernel = np.random.default_rng(0).standard_normal((60, 3))
    whole = pc.AffineManifold.from_kernel(kernel)
    timed = turns(
        {
            "privcontrol": lambda: counted(circuit_moves(whole)),
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
        "any manifold, k = 3, n = 60": (lambda: circuit_moves(kernels[3]), None),
        "any manifold, k = 4, n = 25": (lambda: circuit_moves(kernels[4]), None),
        "plant, 3 states, T = 100": (
            lambda: of_plant(stable_matrix(3), 100),
            "10 s",
        ),
        "vehicle, T = 1,000": (
            lambda: of_plant(vehicle, 1000),
            None,
        ),
        "shares of a sum, n = 20": (lambda: circuit_moves(shares(20)), "100 ms"),
        "shares of a sum, n = 100": (lambda: circuit_moves(shares(100)), "1 s"),
        "shares of a sum, n = 200": (lambda: circuit_moves(shares(200)), None),
        "two weighted sums, n = 60": (
            lambda: circuit_moves(pc.AffineManifold(weights)),
            None,
        ),
        "shares by a kernel, n = 100": (
            lambda: circuit_moves(pc.AffineManifold.from_kernel(differences)),
            "1 s",
        ),
        "8 constraints, n = 18": (
            lambda: circuit_moves(pc.AffineManifold(signs)),
            None,
        ),
    }
    weights = np.random.default_rng(1).uniform(1, 2, (2, 60))
    signs = np.random.default_rng(1).integers(-1, 2, (8, 18)).astype(float)
    differences = np.eye(100)[:, :-1] - np.eye(100)[:, 1:]
    kernels = {
        k: pc.AffineManifold.from_kernel(
            np.random.default_rng(1).standard_normal((n, k))
        )
        for k, n in ((3, 60), (4, 25))
    }
    out = table(
        "Circuits: sizes",
        "Peak memory of a pass of its own, with the moves that it returns.",
        *("", "moves", "goal", "wall", "processor", "memory"),
    )
    for name, (blocks, goal) in cases.items():
        timed = Turns({"ours": lambda: counted(blocks())}, rounds=1)  # noqa: B023
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
