"""Plants of noise and of regions are python-control systems."""

import pickle

import control as ct
import numpy as np
import pytest
from contract import table

import privcontrol as pc


def lags(**options):
    return pc.PlantPolytope([table.lag(0.4), table.lag(0.6)], **options)


def tank_region():
    region = {"level": (1.0, 4.0), "flow": (0.2, 0.4)}
    return pc.jacobian_polytope(table.tank(), region)


@pytest.mark.parametrize(
    "of",
    [
        lambda: table.designed("box, first").plant,
        lambda: pc.PlantBox(table.lag(0.5), A=[[0.1]]).nominal,
        lambda: lags().nominal,
        lambda: lags(nominal=table.lag(0.5)).nominal,
        lambda: tank_region().nominal,
    ],
)
def test_it_goes_into_python_control(of):
    plant = of()
    assert isinstance(plant, ct.StateSpace)
    assert np.abs(ct.poles(plant)).max() < 1
    assert plant.state_labels
    assert plant.input_labels
    assert plant.output_labels


def test_the_nominal_plant_of_a_polytope_is_the_mean_unless_it_is_given():
    assert lags().nominal.A[0, 0] == pytest.approx(0.5)
    given = lags(nominal=table.lag(0.45))
    assert given.nominal.A[0, 0] == 0.45
    assert given != lags()
    assert pickle.loads(pickle.dumps(given)) == given


def test_a_plant_without_inputs_has_none():
    def decay(t, x, u, params):
        return [-0.1 * x[0] ** 2]

    names = dict(states=["level"], inputs=0, outputs=["level_meter"])
    plant = pc.sample_nonlinear(ct.nlsys(decay, None, **names), 1.0)
    box = pc.jacobian_polytope(plant, {"level": (0.5, 1.0)})
    assert box.nominal.input_labels == []
    assert box.nominal.B.shape == (1, 0)
    assert box.contains(box.nominal)
    assert np.abs(ct.poles(box.nominal)).max() < 1
