"""Sets of moves: enlarged shifts are at least as large as all within their errors."""

import numpy as np
import pytest

from privcontrol.core import LinearQuery
from privcontrol.core.moves import EllipsoidMoves, FiniteMoves, StreamedMoves


@pytest.mark.parametrize("norm", [1, 2])
def test_enlarged_shifts_of_single_moves_are_the_largest_within_the_errors(norm):
    rng = np.random.default_rng(0)
    shifts = rng.standard_normal((3, 4))
    errors = rng.random((3, 4))
    moves = FiniteMoves(np.eye(4))
    claimed = moves.worst_shift(moves.enlarged(shifts, errors), norm)
    corners = shifts + errors * rng.choice([-1.0, 1.0], (5000, 3, 4))
    sizes = np.linalg.norm(corners, ord=norm, axis=1)
    assert sizes.max() <= claimed <= sizes.max() * (1 + 1e-9)


@pytest.mark.parametrize("norm", [1, 2])
def test_enlarged_shifts_of_a_ball_hold_every_ball_within_the_errors(norm):
    rng = np.random.default_rng(1)
    shifts = rng.standard_normal((3, 4))
    errors = 0.1 * rng.random((3, 4))
    moves = EllipsoidMoves(np.eye(4))
    claimed = moves.worst_shift(moves.enlarged(shifts, errors), norm)
    units = rng.standard_normal((4, 300))
    units /= np.linalg.norm(units, axis=0)
    for signs in rng.choice([-1.0, 1.0], (200, 3, 4)):
        images = (shifts + errors * signs) @ units
        assert np.linalg.norm(images, ord=norm, axis=0).max() <= claimed
    assert moves.attaining(shifts) == ()


def test_a_stream_beyond_a_minutes_candidates_is_refused_before_it_starts():
    def blocks():
        raise AssertionError("started")

    moves = StreamedMoves(blocks, 10**9)
    query = LinearQuery(np.eye(2))
    with pytest.raises(ValueError, match="1,000,000,000 circuits"):
        moves.sensitivity(query)
    with pytest.raises(ValueError, match="DirectionAdjacency"):
        moves.vectors  # noqa: B018


def test_a_stream_is_as_sensitive_as_its_blocks_together():
    rng = np.random.default_rng(2)
    columns = rng.standard_normal((3, 40))
    blocks = [FiniteMoves(columns[:, i : i + 7]) for i in range(0, 40, 7)]
    query = LinearQuery(rng.standard_normal((2, 3)))
    stream = StreamedMoves(lambda: iter(blocks), 40)
    assert stream.sensitivity(query) == FiniteMoves(columns).sensitivity(query)
    assert stream.worst(query.response).value == pytest.approx(
        FiniteMoves(columns).worst(query.response).value
    )
