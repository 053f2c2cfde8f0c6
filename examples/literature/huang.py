"""Huang et al. 2012, decaying noise.

Laplace noise q^t eta(t) and a step s towards the neighbours' average, with doubly
stochastic weights in place of the paper's server: h = s and share 1. A move shrinks by
1 - s a round. At a given epsilon q = (1 - s)^(1/3) is best.
"""

import sys

import averaging
import comparison
import numpy as np

SOURCE = """Differentially private iterative synchronous consensus, WPES (arXiv 1207.4262)
adjacency: one initial value moves by d; adversary: all messages, a corrupted subset"""


def algorithm(rounds, s=0.5, q=None):
    """Their rule; s in (0, 1) and q in (1 - s, 1)."""
    decay = (1 - s) ** (1 / 3) if q is None else q
    if not 0 < s < 1 or not 1 - s < decay < 1:
        raise ValueError(f"expected 0 < s < 1 and 1 - s < q < 1, got {s} and {decay}")
    mixing = np.diag(decay ** np.arange(rounds + 1))
    return averaging.Algorithm(mixing, step=s, share=1.0)


def design(plant, secret, budget):
    return algorithm(plant.rounds, s=0.9).entry(plant, secret, budget)


def golden():
    """epsilon = d q / (c (q + s - 1)), variance 2 s^2 c^2 / (n (1 - q^2))."""
    plant = averaging.ten_agents(150)
    rows = []
    for s, q in ((0.5, 0.8), (0.75, 0.6), (0.9, 0.5)):
        variance = 2 * s**2 / (1 - q**2)
        epsilon = q / (q + s - 1)
        rule = algorithm(plant.rounds, s, q)
        rows += averaging.closed_forms(rule, plant, variance, epsilon)
    return rows


if __name__ == "__main__":
    comparison.main(sys.modules[__name__])
