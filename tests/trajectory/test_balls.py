"""The powers of a plant are known to 180 bits at every sample, or the work stops; never silently less."""

import cases
import numpy as np
import pytest
from flint import arb_mat, fmpq, fmpq_mat

from privcontrol.trajectory._balls import FreeResponse, midpoints, upper_bounds


@pytest.mark.parametrize("states, samples", [(3, 400), (30, 120)])
def test_every_sample_is_known_to_180_bits(states, samples):
    """Also where the interval bounds grow past the range of doubles while the response itself decays."""
    A = np.asarray(cases.random_plant(0, states=states).A)
    free = FreeResponse(A, np.eye(states)[:, :1], 1, samples)
    assert np.abs(A).sum(axis=1).max() > 1 > np.abs(np.linalg.eigvals(A)).max()
    for state in free.states:
        widths = max(float(2 * x.rad()) for x in state.entries())
        assert widths <= 2.0**-180 * upper_bounds(state).max()
    exact = fmpq_mat([[fmpq(*x.as_integer_ratio()) for x in row] for row in A.tolist()])
    column = fmpq_mat([[fmpq(int(i == 0))] for i in range(states)])
    for t in range(1, 31):
        column = exact * column
        assert all((ball - entry).contains(0) for ball, entry in zip(free.at(t).entries(), column.entries()))


def test_outputs_of_a_large_plant_end_and_are_those_of_floating_point():
    plant = cases.random_plant(0, states=60, inputs=2, outputs=3)
    outputs = FreeResponse(np.asarray(plant.A), np.eye(60)[:, :1], 0, 300).outputs(np.asarray(plant.C))
    state = np.eye(60)[:, :1]
    for t in range(40):
        np.testing.assert_allclose(outputs[t], plant.C @ state, atol=1e-10 * np.abs(outputs[t]).max())
        state = plant.A @ state
    assert np.isfinite(outputs).all() and isinstance(midpoints(arb_mat([[1]])), np.ndarray)
