"""This library, least noise.

`pc.design_output_noise`: the Gaussian noise of least trace that hides the secret, and
the horizon's own Kalman filter. It hides what is asked for and nothing else.
"""

import sys

import comparison
import numpy as np

import privcontrol as pc

SOURCE = "DPAM Theorem 3; any secret, the adversary sees all that is published"


def design(plant, secret, budget):
    noise = pc.design_output_noise(
        plant.sys,
        horizon=plant.horizon,
        budget=budget,
        adjacency=secret,
        models="exact",
        max_std=np.inf,
    )
    return plant.evaluated(secret, noise.design.noise.factor, known=noise.guarantee)


def golden():
    """The README's vehicle, and what its loop costs with a filter that knows the noise."""
    vehicle = pc.plants.vehicle()
    budget = pc.PrivacyBudget(epsilon=1.0, delta=1e-2)
    QN, RN = np.diag([1e-4, 1e-2]), np.array([[1e-2]])
    loop = comparison.LinearLoop(
        vehicle, 60, QN, RN, 4 * np.eye(2), Q=np.eye(2), R=np.array([[5.0]])
    )
    entry = design(loop, pc.StateAdjacency({"position": 1.0}), budget)
    public = loop.cost(np.zeros((60, 60)))
    return [("no noise", public, "371.84"), ("private", entry.cost, "440.39")]


if __name__ == "__main__":
    comparison.main(sys.modules[__name__])
