"""Exact work on plants of many states and samples comes out whole, or stops.

The powers of a plant are known to 180 bits at every sample, never silently less.
"""

import re

import cases
import numpy as np
import pytest
from flint import fmpq, fmpq_mat

import privcontrol as pc
from privcontrol.core import UncertifiableError
from privcontrol.numerics.balls import midpoints, upper_bounds
from privcontrol.secrets import hiding
from privcontrol.systems import powers
from privcontrol.systems.powers import FreeResponse


@pytest.mark.parametrize("states, samples", [(3, 400), (30, 120)])
def test_every_sample_is_known_to_180_bits(states, samples):
    """Also where the interval bounds grow past the range of doubles while the response itself decays."""
    A = np.asarray(cases.random_plant(0, states=states).A)
    free = FreeResponse(A, np.eye(states)[:, :1], 1, samples)
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
    outputs = FreeResponse(np.asarray(plant.A), np.eye(60)[:, :1], 0, 300).outputs(
        np.asarray(plant.C)
    )
    state = np.eye(60)[:, :1]
    for t in range(40):
        np.testing.assert_allclose(
            outputs[t], plant.C @ state, atol=1e-10 * np.abs(outputs[t]).max()
        )
        state = plant.A @ state
    assert np.isfinite(outputs).all()


#: Modes 2 and 1 that no zero tells apart, and a state of the slow one alone.
HIDDEN = np.array([[3.0, -1.0], [2.0, 0.0]])
SLOW = np.array([[1.0], [2.0]])


def test_a_horizon_beyond_all_digits_is_refused_at_once_and_the_one_named_is_within_reach(
    monkeypatch,
):
    monkeypatch.setattr(powers, "_TELLING_BITS", 1 << 10)
    monkeypatch.setattr(powers, "MOST_BITS", 320 << 4)
    with pytest.raises(
        UncertifiableError, match=r"t = \+1 .. \+1000000 .* the horizon is too long"
    ) as caught:
        FreeResponse(HIDDEN, SLOW, 1, 10**6)
    reach = int(re.search(r"reaches about \+(\d+)", str(caught.value))[1])
    within = int(0.9 * reach)
    assert len(FreeResponse(HIDDEN, SLOW, 1, within).states()) == within + 2
    with pytest.raises(UncertifiableError):
        FreeResponse(HIDDEN, SLOW, 1, int(1.1 * reach))


def test_a_transient_that_takes_many_digits_is_no_reason_to_refuse_a_long_horizon():
    A = np.diag([0.0, 0.0, 0.999])
    A[:2, :2] = 0.5 * np.array([[np.cos(1), -np.sin(1)], [np.sin(1), np.cos(1)]])
    free = FreeResponse(A, np.array([[1.0], [0.0], [1e-290]]), 0, 20_000)
    assert midpoints(free.at(20_000))[2, 0] == pytest.approx(
        1e-290 * 0.999**20_000, rel=1e-9
    )


def test_states_that_took_many_digits_are_kept_with_few():
    """Every state once took the memory of the digits that the last one needed."""
    free = FreeResponse(HIDDEN, SLOW, 0, 1000)
    assert free.bits > powers._KEPT_BITS
    mantissa, _ = free.at(1000)[0, 0].mid().man_exp()
    assert int(mantissa).bit_length() <= powers._KEPT_BITS
    np.testing.assert_array_equal(midpoints(free.at(1000)), SLOW)


def test_a_long_horizon_takes_no_more_digits_than_its_modes_differ_by():
    """Interval bounds of step after step once grew with every sample."""
    A = np.asarray(cases.random_plant(0, states=3).A)
    assert FreeResponse(A, np.eye(3)[:, :1], 0, 3000).bits == powers.FIRST_BITS


def test_all_states_of_fifty_are_hidden_in_one_exact_solve(monkeypatch):
    """A basis that no factor in doubles could carry is given up before it is solved for."""
    solves = []
    solve = hiding._Problem.move_basis

    def counted(problem, horizon):
        found = solve(problem, horizon)
        if found is not None:
            solves.append(np.abs(found.coordinates).max())
        return found

    monkeypatch.setattr(hiding._Problem, "move_basis", counted)
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
