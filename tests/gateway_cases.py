"""One noise of every kind, for tests of gateways and files."""

import warnings

import control as ct
import numpy as np

import privcontrol as pc

HORIZON = 40
ENDLESS = {"endless": None, "endless floored": 0.01}
BUDGET = pc.PrivacyBudget(epsilon=1.0, delta=1e-2)
POSITION = pc.StateAdjacency({"position": 1.0})
GUST = pc.DisturbanceAdjacency({"velocity": 0.3})

REQUESTS = {
    "structured": {"adjacency": POSITION},
    "floored": {"adjacency": POSITION, "floor": 0.1},
    "driven": {"adjacency": pc.DisturbanceAdjacency({"velocity": 0.3}, norm="l2")},
    "correlated": {"adjacency": [POSITION, GUST]},
    "correlated and floored": {"adjacency": [POSITION, GUST], "floor": 0.1},
    "independent": {"adjacency": POSITION, "family": "iid-gaussian"},
    "laplace": {"adjacency": POSITION, "family": "laplace"},
    "independent laplace": {"adjacency": POSITION, "family": "iid-laplace"},
    "ball": {"adjacency": pc.InitialStateAdjacency(1.0)},
}
#: Noise of one number whose law is radial, whole and cut off.
RADIAL = {
    "radial": {"adjacency": POSITION, "family": "ball"},
    "truncated": {"adjacency": POSITION, "family": "truncated"},
}


def endless(kind):
    """Noise without a horizon, for the people in a room."""
    room = ct.ss(0.9, 1, 1, 0, 300.0, states=["air"], inputs=["people"], outputs=["t"])
    return pc.design_output_noise(
        room,
        horizon=np.inf,
        budget=BUDGET,
        adjacency=pc.DisturbanceAdjacency({"people": 0.1}),
        floor=ENDLESS[kind] or 0.0,
    )


def noise(kind, horizon=HORIZON, plant=None):
    """Output noise of a kind for the vehicle."""
    if kind in ENDLESS:
        return endless(kind)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", pc.PrivacyWarning)
        return pc.design_output_noise(
            pc.plants.vehicle() if plant is None else plant,
            horizon=horizon,
            budget=BUDGET,
            **(REQUESTS | RADIAL)[kind],
        )


def published_in_two_runs(noise, path):
    """Three samples of zeros, of which a second process publishes the last."""
    zeros = np.zeros(len(noise.std))
    with pc.Gateway(noise, path=path, resolution=1e-3) as gateway:
        published = [gateway.publish(zeros) for _ in range(2)]
    with pc.Gateway.resume(path) as gateway:
        published.append(gateway.publish(zeros, index=2))
    return published
