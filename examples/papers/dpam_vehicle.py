"""The private vehicle of DPAM section 5.3.

Figures 2 and 3 share it. The paper's gains, reference and running time; its start,
which the text does not give, is that of its published code.
"""

import numpy as np

import privcontrol as pc

HORIZON, DELTA, RADIUS = 100, 1e-2, 1.0
K, L = [[3.4240, 4.3095]], [[0.8266], [0.6973]]
STEPS = np.arange(HORIZON)
REFERENCE = np.array([np.tanh(STEPS), 1 - np.abs(np.tanh(STEPS - 9))])
RUN = {"reference": REFERENCE, "initial_state": [-20.0, 0.0]}
STATES = (("position", "p", "m", "m²"), ("velocity", "v", "m/s", "m²/s²"))
RULES = {
    "lenypappas": ("paper's rule", "#CC79A7"),
    "analytic": ("exact rule", "#009E73"),
}


def private_vehicle(epsilon, method, family="gaussian"):
    """The loop with noise for a budget (epsilon, 1e-2), for one calibration rule and one shape of the noise."""
    vehicle = pc.plants.vehicle()
    budget = pc.PrivacyBudget(epsilon=epsilon)
    if "gaussian" in family:
        std = pc.core.gaussian_std(epsilon, DELTA, method=method)
        budget = pc.PrivacyBudget(gdp=1 / std)
    secret = pc.StateAdjacency({"position": RADIUS})
    noise = pc.design_output_noise(
        vehicle,
        horizon=HORIZON,
        budget=budget,
        adjacency=secret,
        family=family,
        models="exact",
        max_std=np.inf,  # epsilon = .01 of the paper asks for 230 m
    )
    return pc.private_loop(vehicle, K, L, noise)
