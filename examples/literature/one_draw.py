"""This library, one draw kept.

`pc.private_consensus`: one draw of noise that an agent keeps in all of its messages
(DPAM eq. 25). The messages agree on the average up to the noise's own mean.
"""

import sys

import averaging
import comparison
import numpy as np

import privcontrol as pc

SOURCE = """DPAM Theorem 4
adjacency: one initial value moves by d; adversary: sees all messages, of any number"""


def algorithm(rounds, family="laplace"):
    return averaging.Algorithm(np.ones((rounds + 1, 1)), family=family)


def design(plant, secret, budget):
    """With Laplace or Gaussian noise, whichever costs less at the budget."""
    laplace = algorithm(plant.rounds).entry(plant, secret, budget)
    if budget.pure:
        return laplace
    gaussian = algorithm(plant.rounds, "gaussian").entry(plant, secret, budget)
    return min(laplace, gaussian, key=lambda entry: entry.cost)


def golden():
    """The package's own consensus, its size of noise and its exact errors."""
    plant = averaging.ten_agents(12)
    rows = []
    for family, delta in (("gaussian", 1e-2), ("laplace", 0.0)):
        budget = pc.PrivacyBudget(epsilon=1.0, delta=delta)
        private = pc.private_consensus(
            pc.plants.ten_agent_graph(), budget, 1.0, family=family
        )
        rule = algorithm(plant.rounds, family).calibrated(budget, 1.0)
        error = private.mean_square_error(plant.values, plant.rounds, readout="message")
        rows += [
            (f"{family} scale", rule.scale, float(private.scales[0])),
            (f"{family} error", rule.errors(plant)["message"], float(error[-1])),
        ]
    return rows


if __name__ == "__main__":
    comparison.main(sys.modules[__name__])
