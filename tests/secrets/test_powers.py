"""Exact work on plants of many states and samples comes out whole, or stops.

The powers of a plant are known to 180 bits at every sample, never silently less.
"""

import operator
import re
from fractions import Fraction

import cases
import control as ct
import numpy as np
import pytest
from flint import fmpq, fmpq_mat
from repeats import few

import privcontrol as pc
from privcontrol.core import UncertifiableError
from privcontrol.designs import state_factor
from privcontrol.numerics.balls import (
    Ball,
    ball_matrix,
    is_accurate,
    midpoints,
    rational_matrix,
    upper_bounds,
    working_bits,
)
from privcontrol.secrets import modes
from privcontrol.systems import gramian, powers
from privcontrol.systems.linear import LinearSystem, Plant, VaryingSystem
from privcontrol.systems.powers import FreeResponse
from privcontrol.systems.transitions import (
    accurate_columns,
    forced_responses,
    run_responses,
)


@pytest.mark.parametrize("states, samples", [(3, 400), (30, 120)])
def test_every_sample_is_known_to_180_bits(states, samples):
    """Also where the interval bounds grow past the range of doubles while the response itself decays."""
    A = np.asarray(cases.random_plant(0, states=states).A)
    free = FreeResponse.of(A, np.eye(states)[:, :1], 1, samples)
    assert np.abs(A).sum(axis=1).max() > 1 > np.abs(np.linalg.eigvals(A)).max()
    for state in map(free.at, range(-1, samples + 1)):
        widths = max(float(2 * x.rad()) for x in state.entries())
        assert widths <= 2.0**-180 * upper_bounds(state).max()
    exact = fmpq_mat([[fmpq(*x.as_integer_ratio()) for x in row] for row in A.tolist()])
    column = fmpq_mat([[fmpq(int(i == 0))] for i in range(states)])
    for t in range(1, 31):
        column = exact * column
        assert all(
            (ball - entry).contains(0)
            for ball, entry in zip(free.at(t).entries(), column.entries())
        )


def test_outputs_of_a_large_plant_end_and_are_those_of_floating_point():
    plant = cases.random_plant(0, states=60, inputs=2, outputs=3)
    outputs = FreeResponse.of(np.asarray(plant.A), np.eye(60)[:, :1], 0, 300).outputs(
        np.asarray(plant.C)
    )
    state = np.eye(60)[:, :1]
    for t in range(40):
        np.testing.assert_allclose(
            outputs[t], plant.C @ state, atol=1e-10 * np.abs(outputs[t]).max()
        )
        state = plant.A @ state
    assert np.isfinite(outputs).all()


@pytest.mark.parametrize("states, width", [(1, 1), (3, 1), (4, 3)])
def test_long_runs_in_pairs_of_doubles_are_those_in_balls(states, width, monkeypatch):
    A = np.asarray(cases.random_plant(states, states=states, radius=0.99).A)
    V = np.eye(states)[:, :width]
    C = np.random.default_rng(0).normal(size=(2, states))
    times, sources = np.divmod(np.arange(31 * width), width)
    radii = 0.1 + np.arange(width)
    chosen = (
        np.array([30, 2, 1, 7, 2]),
        sources[[0, -1, 1, 0, 0]],
        radii[[0, -1, 0, 0, 0]],
    )

    def found():
        free = FreeResponse.of(A, V, 30, 50)
        return free.outputs(C), free.columns(-chosen[0], *chosen[1:]), free

    outputs, picked, balls = found()
    assert balls.nearest_past(radii) is None
    monkeypatch.setattr(powers, "_LONG", 1)
    long_outputs, long_picked, long_free = found()
    assert long_free.is_long
    assert not balls.is_long
    assert (long_outputs == outputs).all()
    assert (long_free.outputs(C, 4, 9) == outputs[26:40]).all()
    assert (balls.outputs(C, 4, 9) == outputs[26:40]).all()
    assert (midpoints(long_picked) == midpoints(picked)).all()
    assert accurate_columns(long_picked) == accurate_columns(picked) == 5
    assert long_free.past_places(times, sources) == slice(0, 31 * width)
    assert long_free.past_places(*chosen[:2]).tolist() == [
        time * width + source for time, source in zip(*chosen[:2])
    ]
    turned = np.array([0, 2, 1, 3])
    assert (long_free.past_places(turned, 0 * turned) == turned * width).all()
    with working_bits(balls.bits):
        matrix = ball_matrix(C)
        columns = balls.columns(-times, sources, radii[sources])
        assert (long_free.nearest_past(radii) == midpoints(columns)).all()
        parts = [
            long_free.read_past(matrix, radii, operator.attrgetter(name))
            for name in ("high", "low", "error")
        ]
        (high, bounds), (low, _), (error, _) = parts
        rest = matrix * columns - ball_matrix(high) - ball_matrix(low)
        assert (upper_bounds(rest) <= error).all()
        assert (bounds == error).all()
        assert (error < 1e-25 * np.abs(high).max()).all()
    assert (long_free.states() == balls.states()).all()
    assert "_known" not in vars(long_free)  # no ball for each sample


def test_many_columns_of_a_long_run_take_no_powers_of_large_matrices(monkeypatch):
    """Their outputs follow from the rows C A^t: 200 states took 46 s for 2 s."""
    monkeypatch.setattr(powers, "_LONG", 1)
    monkeypatch.setattr(powers, "LongOrbit", None)
    A = np.asarray(cases.random_plant(0, states=6).A)
    free = FreeResponse.of(A, np.eye(6), 0, 90)
    assert free.outputs(np.ones((1, 6))).shape == (91, 1, 6)


@pytest.mark.parametrize("back", [0, 5])
@pytest.mark.parametrize("seed", few(range(8), of=5))
def test_rounded_responses_are_those_in_balls(seed, back):
    plant = cases.random_plant(seed, states=1 + seed % 5, outputs=2, radius=0.8)
    A, C = np.asarray(plant.A), np.asarray(plant.C)
    request = A, np.eye(len(A)), back, 40
    rounded = FreeResponse.of(*request, rounded=True)
    balls = FreeResponse.of(*request)
    np.testing.assert_array_equal(rounded.outputs(C), balls.outputs(C))
    np.testing.assert_array_equal(rounded.states(), balls.states())
    assert "_known" not in vars(rounded)


def test_balls_are_taken_where_pairs_do_not_tell_the_powers(monkeypatch):
    """A mode that shrinks out of the doubles, and rows that cancel in the outputs."""
    monkeypatch.setattr(powers, "_LONG", 1)
    stiff = np.diag([1e-3, 0.5])
    free = FreeResponse.of(stiff, np.ones((2, 1)), 40, 1)
    assert not free.is_long
    assert free.at(-40).ncols() == 1
    free = FreeResponse.of(HIDDEN, SLOW, 0, 30)
    outputs = free.outputs(np.array([[2.0, -1.0], [1.0, 0.0]]))
    assert (outputs[:, 0] == 0).all()
    assert (outputs[:, 1] == 1).all()


#: Modes 2 and 1 that no zero tells apart, and a state of the slow one alone.
HIDDEN = np.array([[3.0, -1.0], [2.0, 0.0]])
SLOW = np.array([[1.0], [2.0]])


def test_a_horizon_beyond_all_digits_is_refused_at_once_and_the_one_named_is_within_reach(
    monkeypatch,
):
    monkeypatch.setattr(powers, "DECIDING_BITS", 1 << 10)
    monkeypatch.setattr(powers, "MOST_BITS", 320 << 4)
    with pytest.raises(
        UncertifiableError, match=r"t = \+1 .. \+1000000 .* the horizon is too long"
    ) as caught:
        FreeResponse.of(HIDDEN, SLOW, 1, 10**6)
    reach = int(re.search(r"reaches about \+(\d+)", str(caught.value))[1])
    within = int(0.9 * reach)
    assert len(FreeResponse.of(HIDDEN, SLOW, 1, within).states()) == within + 2
    with pytest.raises(UncertifiableError):
        FreeResponse.of(HIDDEN, SLOW, 1, int(1.1 * reach))


def test_a_transient_that_takes_many_digits_is_no_reason_to_refuse_a_long_horizon():
    A = np.diag([0.0, 0.0, 0.999])
    A[:2, :2] = 0.5 * np.array([[np.cos(1), -np.sin(1)], [np.sin(1), np.cos(1)]])
    free = FreeResponse.of(A, np.array([[1.0], [0.0], [1e-290]]), 0, 20_000)
    assert midpoints(free.at(20_000))[2, 0] == pytest.approx(
        1e-290 * 0.999**20_000, rel=1e-9
    )


def test_states_that_took_many_digits_are_kept_with_few():
    """Every state once took the memory of the digits that the last one needed."""
    free = FreeResponse.of(HIDDEN, SLOW, 0, 1000)
    assert free.bits > powers._KEPT_BITS
    mantissa, _ = free.at(1000)[0, 0].mid().man_exp()
    assert int(mantissa).bit_length() <= powers._KEPT_BITS
    np.testing.assert_array_equal(midpoints(free.at(1000)), SLOW)


def test_a_long_horizon_takes_no_more_digits_than_its_modes_differ_by():
    """Interval bounds of step after step once grew with every sample."""
    A = np.asarray(cases.random_plant(0, states=3).A)
    assert FreeResponse.of(A, np.eye(3)[:, :1], 0, 3000).bits == powers.FIRST_BITS


def test_all_states_of_fifty_are_hidden_in_one_exact_solve(monkeypatch):
    """A basis that no factor in doubles could carry is given up before it is solved for."""
    solves = []
    solve = state_factor._Problem.move_basis

    def counted(problem, horizon):
        found = solve(problem, horizon)
        if found is not None:
            solves.append(np.abs(found.coordinates).max())
        return found

    monkeypatch.setattr(state_factor._Problem, "move_basis", counted)
    noise = pc.design_output_noise(
        cases.random_plant(0, states=50),
        horizon=20,
        budget=cases.BUDGET,
        adjacency=pc.StateAdjacency(1.0),
        max_std=np.inf,
        models="exact",
    )
    assert len(solves) == 1
    assert solves[0] <= 10
    assert noise.design.gap < 1e-6
    assert noise.guarantee.satisfies(cases.BUDGET)


@pytest.mark.parametrize("back", [0, 3])
def test_outputs_of_many_columns_are_those_of_each_alone(back):
    """Rows C A^t are moved on for all of them at once, states A^t v for one alone."""
    plant = cases.random_plant(1, states=12, inputs=1, outputs=2)
    A, C = np.asarray(plant.A), np.asarray(plant.C)
    every = FreeResponse.of(A, np.eye(12), back, 90).outputs(C)
    assert every.shape == (back + 91, 2, 12)
    for k in range(12):
        alone = FreeResponse.of(A, np.eye(12)[:, [k]], back, 90).outputs(C)
        np.testing.assert_array_equal(every[:, :, [k]], alone)


def test_rows_that_lose_their_digits_are_moved_on_with_twice_as_many(monkeypatch):
    """Wide balls of rows are no reason to take all states, which take longer."""
    plant = cases.random_plant(1, states=12, inputs=1, outputs=2)
    A, C = np.asarray(plant.A), np.asarray(plant.C)
    wanted = FreeResponse.of(A, np.eye(12), 0, 90).outputs(C)
    known = []

    def judged(matrix):
        known.append(is_accurate(matrix))
        return known[-1]

    monkeypatch.setattr(powers, "is_accurate", judged)
    monkeypatch.setattr(powers, "FIRST_BITS", 90)
    found = FreeResponse.of(A, np.eye(12), 0, 90)
    np.testing.assert_array_equal(found.outputs(C), wanted)
    assert known == [False, True]
    assert "_blocks" not in vars(found)


def test_outputs_of_many_columns_keep_exact_zeros():
    """A response that cancels exactly is no small number."""
    A = np.diag([0.5, 0.5, 0.25, 0.25, 0.125, 0.125])
    V = np.array([[1.0, -1.0, 0, 0, 0, 0]] * 5 + [[0, 0, 1.0, 1.0, 0, 0]]).T
    outputs = FreeResponse.of(A, V, 0, 70).outputs(np.ones((1, 6)))
    assert not outputs[:, 0, :5].any()
    np.testing.assert_array_equal(outputs[:, 0, 5], 2 * 0.25 ** np.arange(71.0))


def test_rank_modulo_a_prime_never_exceeds_the_rank():
    """Two equal modes that one output cannot distinguish, and two different ones."""
    same = ct.ss(np.diag([0.3, 0.3]), np.ones((2, 1)), np.ones((1, 2)), 0, True)
    other = ct.ss(np.diag([0.3, 0.1]), np.ones((2, 1)), np.ones((1, 2)), 0, True)
    assert not powers.distinguishes_all(Plant.of(same), 2)
    assert powers.distinguishes_all(Plant.of(other), 2)
    assert not powers.distinguishes_all(Plant.of(other), 1)


@pytest.mark.parametrize("samples", [1, 2, 17, 80])
def test_exact_responses_are_the_same_from_rows_and_from_states(samples):
    plant = Plant.of(cases.random_plant(2, states=5, inputs=1, outputs=2))
    every = powers.rational_response(plant, rational_matrix(np.eye(5)), samples)
    for k in range(5):
        column = rational_matrix(np.eye(5)[:, [k]])
        alone = powers.rational_response(plant, column, samples)
        assert [row[k] for row in every.table()] == alone.entries()


@pytest.mark.parametrize("kind", ["free", "forced"])
def test_outputs_that_hardly_see_a_growing_state_are_known_like_doubles(kind):
    """x1 + x2 grows 16-fold at every sample, and y = x1 - x2 decays."""
    samples = 40
    own, other = 8.05, 7.95
    A = np.array([[own, other], [other, own]])
    one = LinearSystem(
        A, np.array([[1.0], [0]]), np.array([[1.0, -1]]), np.zeros((1, 1))
    )
    plant = VaryingSystem.of_samples([one] * samples)
    factor = Fraction(own) - Fraction(other)
    exact = [float(factor**t) for t in range(samples)]
    if kind == "free":
        found = run_responses(plant, one.B, np.zeros(1, int), samples).ravel()
    else:
        found = forced_responses(plant, samples, np.ones(1))[:, 0]
        exact = [0.0, *exact[:-1]]
    np.testing.assert_array_equal(found, exact)


@pytest.mark.parametrize("horizon", [1, 2, 40])
def test_gramians_are_those_of_a_sum_over_samples(monkeypatch, horizon):
    system = cases.random_plant(3, states=6, inputs=1, outputs=2)
    plant = Plant.of(system)
    A, C = np.asarray(system.A), np.asarray(system.C)
    weights = np.array([2.0, 5.0])
    wanted = np.zeros((6, 6))
    rows = C
    for _ in range(horizon):
        wanted += rows.T * weights @ rows
        rows = rows @ A
    with working_bits(200):
        balls = [Ball(weight) for weight in weights.tolist()]
        by_rows = gramian._gramian_of_rows(
            ball_matrix(A), ball_matrix(C), balls, horizon
        )
        monkeypatch.setattr(gramian, "_FEW_ROWS", 0)
        by_doubling = gramian.gramian(plant, balls, horizon)
    np.testing.assert_allclose(midpoints(by_rows), wanted, rtol=1e-12, atol=1e-14)
    np.testing.assert_array_equal(midpoints(by_rows), midpoints(by_doubling))


@pytest.mark.parametrize("ratio, named", [(4e-11, "1 (slow)"), (4e-10, "")])
def test_a_mode_is_unseen_below_a_ten_billionth_of_the_others(ratio, named):
    """The columns of [A - I; C] are orthogonal, so their lengths are its singular values."""
    A = np.diag([1.0, 0.5])
    C = np.diag([ratio * np.hypot(0.5, 1.0), 1.0])
    assert modes.unseen_mode(A, C, ["slow", "fast"]) == named
