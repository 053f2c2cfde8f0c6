"""One noise of every kind, for tests of gateways and files."""

import warnings

import privcontrol as pc

HORIZON = 40
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


def noise(kind, horizon=HORIZON, plant=None):
    """Output noise of a kind for the vehicle."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", pc.PrivacyWarning)
        return pc.design_output_noise(
            pc.plants.vehicle() if plant is None else plant,
            horizon=horizon,
            budget=BUDGET,
            **REQUESTS[kind],
        )
