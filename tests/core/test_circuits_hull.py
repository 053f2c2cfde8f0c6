"""The short list of extreme moves contains the whole stream of circuits, by linear programming and in many directions."""

import numpy as np
import pytest
import scipy.optimize

from privcontrol.core._circuits.enumeration import circuit_moves
from privcontrol.core._circuits.hull import extreme_moves
from privcontrol.core._circuits.trajectories import (
    count_trajectory_circuits,
    trajectory_circuit_moves,
)

ROTATION = np.array([[np.cos(1), -np.sin(1)], [np.sin(1), np.cos(1)]])


@pytest.mark.parametrize("n, k", [(6, 2), (12, 3), (9, 4)])
def test_extreme_moves_contain_every_move_and_are_moves(n, k):
    kernel = np.random.default_rng(k).standard_normal((n, k)) * np.logspace(0, 5, k)
    moves = np.hstack([block.moves for block in circuit_moves(kernel, 1.0)])
    extreme = extreme_moves(
        block.moves for block in circuit_moves(kernel, 1.0, block=5)
    )
    assert extreme.shape[1] < moves.shape[1]
    nearest = [
        np.abs(np.abs(moves) / np.abs(move)[:, None] - 1).max(axis=0).min()
        for move in extreme.T
    ]
    assert 0 < max(nearest) < 1e-8
    size = np.abs(moves).max(axis=1, keepdims=True)
    both = np.hstack([extreme, -extreme]) / size
    for move in (moves / size).T:  # the gauge of the hull, by linear programming
        gauge = scipy.optimize.linprog(np.ones(both.shape[1]), A_eq=both, b_eq=move)
        assert gauge.status == 0 and gauge.fun <= 1 + 1e-7
    for map_ in np.random.default_rng(0).standard_normal((50, 3, k)) / size.T:
        sizes = [np.linalg.norm(map_ @ z, axis=0).max() for z in (extreme, moves)]
        assert sizes[1] <= sizes[0] <= sizes[1] * (1 + 1e-8)


def test_extreme_moves_of_a_stream_that_is_reduced_many_times():
    A = ROTATION * 0.999
    A = np.block([[A, 0.1 * np.ones((2, 1))], [np.zeros((1, 2)), 0.97]])
    extreme = extreme_moves(
        block.moves for block in trajectory_circuit_moves(A, 100, 1.0)
    )
    assert extreme.shape[1] < 1000 < count_trajectory_circuits(3, 100)
    directions = np.random.default_rng(0).standard_normal((500, 3)) / np.abs(
        extreme
    ).max(axis=1)
    reach = np.max(
        [
            np.abs(directions @ b.moves).max(axis=1)
            for b in trajectory_circuit_moves(A, 100, 1.0)
        ],
        axis=0,
    )
    kept = np.abs(directions @ extreme).max(axis=1)
    assert (kept >= reach).all() and (kept <= reach * (1 + 1e-8)).all()


def test_too_many_extreme_moves_are_refused():
    with pytest.raises(ValueError, match="more than 3; raise the limit"):
        extreme_moves(
            (block.moves for block in trajectory_circuit_moves(ROTATION, 300, 1.0)),
            limit=3,
        )
