"""Nozari et al. 2017, noise in part.

Laplace noise q^t eta(t), a share s of which enters the agent's own state. At a given
epsilon s = 1, q = 0 is best: one draw, then plain averaging of the first messages.
Only with s = 1 may messages go on without noise.
"""

import sys

import averaging
import comparison
import numpy as np

SOURCE = """Automatica 81 (2017) 221-231 (arXiv 1512.09039)
adjacency: one initial value moves by d; adversary: sees all messages"""


def algorithm(rounds, s=1.0, q=0.0):
    """Their rule; s in (0, 2) and q in (|s - 1|, 1), or s = 1 and q = 0."""
    if s == 1 and q == 0:
        mixing = np.eye(rounds + 1, 1)
    elif not abs(s - 1) < q < 1:
        raise ValueError(f"expected |s - 1| < q < 1, got s = {s} and q = {q}")
    else:
        mixing = np.diag(q ** np.arange(rounds + 1))
    return averaging.Algorithm(mixing, share=s)


def design(plant, secret, budget):
    return algorithm(plant.rounds).entry(plant, secret, budget)


def golden():
    """epsilon = d q / (c (q - |s - 1|)), variance 2 s^2 c^2 / (n (1 - q^2))."""
    plant = averaging.ten_agents(150)
    rows = []
    for s, q in ((0.6, 0.7), (1.0, 0.5), (1.3, 0.6)):
        variance = 2 * s**2 / (1 - q**2)
        epsilon = q / (q - abs(s - 1))
        rule = algorithm(plant.rounds, s, q)
        rows += averaging.closed_forms(rule, plant, variance, epsilon)
    one_shot = algorithm(plant.rounds)
    return rows + averaging.closed_forms(one_shot, plant, 2.0, 1.0)


if __name__ == "__main__":
    comparison.main(sys.modules[__name__])
