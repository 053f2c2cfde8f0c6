"""Circuits of Definition 4: time by size, against one null vector at a time in floating point with a tolerance."""

import time
import tracemalloc
from itertools import combinations

import numpy as np
import scipy.linalg
from benchmarks.measure import Turns, duration

import privcontrol as pc
from privcontrol.core import _circuit_rows
from privcontrol.core._balls import rational_matrix
from privcontrol.core.circuits import matrix_moves
from privcontrol.trajectory.circuits import trajectory_circuit_moves


def circuit_moves(kernel, radius):
    """The moves of the manifold with this kernel, in doubles with error bounds."""
    return matrix_moves(rational_matrix(kernel), np.full(len(kernel), radius))


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
    moves = (getattr(block, "moves", block) for block in blocks)
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
        "any manifold, k = 3, n = 300": (
            lambda: circuit_moves(kernels[3], 1.0),
            "100 ms",
        ),
        "any manifold, k = 4, n = 100": (lambda: circuit_moves(kernels[4], 1.0), "2 s"),
        "plant, 3 states, T = 100": (
            lambda: trajectory_circuit_moves(stable_matrix(3), 100, 1.0),
            "20 ms",
        ),
        "plant, 3 states, T = 300": (
            lambda: trajectory_circuit_moves(stable_matrix(3), 300, 1.0),
            None,
        ),
        "plant, 4 states, T = 100": (
            lambda: trajectory_circuit_moves(stable_matrix(4), 100, 1.0),
            "2 s",
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
        3: np.random.default_rng(1).standard_normal((300, 3)),
        4: np.random.default_rng(1).standard_normal((100, 4)),
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


def test_where_the_time_goes(table, monkeypatch):
    """Processor time of the parts of a pass over a manifold with n = 300, k = 3, as medians."""
    parts = {
        "rows as doubles and bounds": (_circuit_rows.MatrixRows, "__init__"),
        "cofactors": (_circuit_rows.MatrixRows, "cofactors"),
        "entries, and exact ones near zero": (_circuit_rows.MatrixRows, "entries"),
    }
    spent = dict.fromkeys(parts, 0.0)
    for name, (owner, attribute) in parts.items():
        monkeypatch.setattr(
            owner, attribute, clocked(getattr(owner, attribute), spent, name)
        )
    kernel, passes = np.random.default_rng(1).standard_normal((300, 3)), []
    for _ in range(21):
        spent.update(dict.fromkeys(parts, 0.0))
        start = time.process_time()
        counted(circuit_moves(kernel, 1.0))
        passes.append({**spent, "whole": time.process_time() - start})
    whole = float(np.median([one["whole"] for one in passes]))
    out = table(
        "Circuits: where the time goes",
        "Any manifold, k = 3, n = 300: medians.",
        "",
        "processor",
        "share",
    )
    medians = {name: float(np.median([one[name] for one in passes])) for name in parts}
    for name, seconds in {
        **medians,
        "the rest": whole - sum(medians.values()),
        "whole": whole,
    }.items():
        out.add(name, duration(seconds), f"{seconds / whole:.0%}")


def clocked(function, spent, name):
    """The function, or what the generator that it returns does, adding its processor time to `spent`."""

    def steps(generator):
        while True:
            start = time.process_time()
            try:
                value = next(generator)
            except StopIteration:
                return
            finally:
                spent[name] += time.process_time() - start
            yield value

    def timed(*args):
        start = time.process_time()
        value = function(*args)
        spent[name] += time.process_time() - start
        return steps(value) if hasattr(value, "__next__") else value

    return timed
