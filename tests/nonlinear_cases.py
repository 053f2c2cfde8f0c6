"""Nonlinear plants of the literature for tests."""

import sys
from pathlib import Path

import control as ct
import numpy as np

import privcontrol as pc

sys.path.insert(0, str(Path(__file__).parents[1] / "examples" / "studies"))
from quadruple_tank import REGION as TANK_REGION, TANK, rates, reads  # noqa: F401


def tank(step=5.0):
    """The quadruple tank of the study (Johansson 2000)."""
    signals = dict(
        states=TANK.state_labels, inputs=TANK.input_labels, outputs=TANK.output_labels
    )
    continuous = ct.nlsys(rates, reads, **signals, name="tank")
    return pc.sample_nonlinear(continuous, step)


def vehicle_rates(t, x, u, params):
    """Lateral offset [m] and heading [rad] of a kinematic bicycle at 10 m/s."""
    return [10.0 * np.sin(x[1]), 10.0 / 2.5 * np.tan(u[0])]


def vehicle(step=0.1):
    """A vehicle that is steered along a straight road."""
    continuous = ct.nlsys(
        vehicle_rates,
        lambda t, x, u, params: [x[0]],
        states=["offset", "heading"],
        inputs=["steer"],
        outputs=["camera"],
        name="bicycle",
    )
    return pc.sample_nonlinear(continuous, step)


VEHICLE_REGION = {"heading": (-0.3, 0.3, "rad"), "steer": (-0.1, 0.1, "rad")}


def glucose_rates(t, x, u, params):
    """Bergman's minimal model: glucose [mg/dL], insulin's action [1/min], insulin [mU/L].

    Inputs are the insulin infusion [mU/min] and the appearance of a meal's glucose in the
    blood [mg/dL/min]. Parameters of Lynch and Bequette (2001) and Fisher (1991).
    """
    glucose, action, insulin = x[0], x[1], x[2]
    return [
        -0.028735 * (glucose - 81.0) - action * glucose + u[1],
        -0.028344 * action + 5.035e-5 * (insulin - 15.0),
        -5 / 54 * insulin + u[0] / 12.0,
    ]


def glucose(step=5.0):
    """A patient with type 1 diabetes in samples of 5 minutes."""
    continuous = ct.nlsys(
        glucose_rates,
        lambda t, x, u, params: [x[0]],
        states=["glucose", "action", "insulin"],
        inputs=["infusion", "meal"],
        outputs=["sensor"],
        name="patient",
    )
    return pc.sample_nonlinear(continuous, step, substeps=2)


GLUCOSE_REGION = {
    "glucose": (50.0, 345.0, "mg/dL"),
    "action": (-0.01, 0.0146, "1/min"),
    "insulin": (9.5, 23.0, "mU/L"),
    "infusion": (11.0, 25.0, "mU/min"),
    "meal": (0.0, 4.0, "mg/dL/min"),
}


def crane_rates(t, x, u, params):
    """A load on a rope below a trolley: force on the trolley [N], push of the load."""
    _, speed, angle, turning = x
    mass, load, rope, g = 4.0, 1.0, 1.0, 9.81
    sine, cosine = np.sin(angle), np.cos(angle)
    pull = u[0] + load * sine * (rope * turning**2 + g * cosine)
    faster = (pull - 5.0 * speed) / (mass + load * sine**2)
    swing = -(faster * cosine + g * sine) / rope - 0.5 * turning + u[1]
    return [speed, faster, turning, swing]


def crane(step=0.05):
    """The crane, whose place is measured, by the default sampler."""
    continuous = ct.nlsys(
        crane_rates,
        lambda t, x, u, params: [x[0]],
        states=["place", "speed", "angle", "turning"],
        inputs=["force", "push"],
        outputs=["place"],
        name="crane",
    )
    return pc.sample_nonlinear(continuous, step)


CRANE_REGION = {
    "place": (-1.0, 1.0),
    "speed": (-0.1, 0.1),
    "angle": (-0.02, 0.02),
    "turning": (-0.02, 0.02),
    "force": (-0.5, 0.5),
    "push": (-0.1, 0.1),
}
