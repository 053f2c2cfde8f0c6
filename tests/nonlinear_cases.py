"""Nonlinear plants of the literature for tests."""

import control as ct
import numpy as np

import privcontrol as pc

AREAS = np.array([28.0, 32.0, 28.0, 32.0])
HOLES = np.array([0.071, 0.057, 0.071, 0.057])


def tank_rates(t, h, v, params):
    """Levels [cm] of the quadruple tank, minimum phase (Johansson 2000, Table I)."""
    out = HOLES * np.sqrt(2 * 981 * h[:4]) if h.ndim == 1 else None
    if out is None:
        out = HOLES[:, None] * np.sqrt(2 * 981 * h)
    pumped = [
        0.7 * 3.33 * v[0],
        0.6 * 3.35 * v[1],
        0.4 * 3.35 * v[1],
        0.3 * 3.33 * v[0],
    ]
    return [
        (out[2] - out[0] + pumped[0]) / AREAS[0],
        (out[3] - out[1] + pumped[1]) / AREAS[1],
        (pumped[2] - out[2]) / AREAS[2],
        (pumped[3] - out[3]) / AREAS[3],
    ]


def tank_reads(t, h, v, params):
    """Sensors of the two lower levels [V]."""
    return [0.5 * h[0], 0.5 * h[1]]


TANK_REGION = {
    "h1": (7.6, 18.5, "cm"),
    "h2": (7.8, 19.5, "cm"),
    "h3": (1.05, 2.5, "cm"),
    "h4": (0.85, 2.15, "cm"),
    "v1": (2.5, 3.5, "V"),
    "v2": (2.5, 3.5, "V"),
}


def tank(step=5.0):
    """The quadruple tank in samples of 5 s."""
    continuous = ct.nlsys(
        tank_rates,
        tank_reads,
        states=["h1", "h2", "h3", "h4"],
        inputs=["v1", "v2"],
        outputs=["y1", "y2"],
        name="tank",
    )
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
