"""This library, noise that cancels.

`pc.private_consensus(pairwise_std=)`: neighbours draw common noise over a private
channel, which one adds and the other subtracts, in addition to noise of their own. The average
keeps the own noise alone (Sabater, Bellet, Ramon 2022).
"""

import sys

import comparison
import numpy as np

import privcontrol as pc

SOURCE = """Sabater, Bellet, Ramon 2022
adjacency: one value moves by d; adversary: all messages, but no private channel"""


def design(plant, secret, budget):
    """Common noise of 100 times the own noise."""
    weights = plant.network.iteration.toarray()
    np.fill_diagonal(weights, 0.0)
    private = pc.private_consensus(
        weights,
        budget,
        secret.radius,
        pairwise_std=100.0,
        coalition=0,
    )
    own = float(private.scales[0])
    return comparison.Entry(own**2, own, private.guarantee, "agreement in the limit")


def golden():
    """y_i^2 = mu^2 [(s_e^2 I + s_D^2 L_H)^-1]_ii of the ten agents, L_H of unit weights."""
    budget = pc.PrivacyBudget(gdp=1.0)
    private = pc.private_consensus(
        pc.plants.ten_agent_graph(), budget, 1.0, pairwise_std=3.0, coalition=0
    )
    own = float(private.scales[0])
    first, second = private.network.links
    graph = np.zeros((10, 10))
    graph[first, second] = graph[second, first] = 1.0
    laplacian = np.diag(graph.sum(axis=0)) - graph
    covariance = own**2 * np.eye(10) + 9.0 * laplacian
    shift = np.sqrt(np.diag(np.linalg.inv(covariance)).max())
    return [("gdp of the worst agent", private.guarantee.gdp, float(shift))]


if __name__ == "__main__":
    comparison.main(sys.modules[__name__])
