"""Le Ny, Pappas 2014, input perturbation.

White noise on every reading, of the size of the secret's largest l2 norm there. What is
published can be filtered by anybody.
"""

import math
import sys

import comparison
import numpy as np
from scipy.stats import norm

import privcontrol as pc

SOURCE = """Differentially private filtering, IEEE TAC 59(2), 341-354 (arXiv 1407.5553)
adjacency: one participant's signal in an l2 ball; adversary: sees all that is published"""


def design(plant, secret, budget):
    return plant.released(secret, budget)


def exact_delta(epsilon, mu):
    """delta of the Gaussian mechanism whose shift is mu, at epsilon."""
    far = math.exp(epsilon) * norm.cdf(-mu / 2 - epsilon / mu)
    return norm.cdf(mu / 2 - epsilon / mu) - far


def golden():
    """Their rule kappa solves Q(eps kappa - 1/(2 kappa)) = delta: safe, and loose."""
    epsilon, delta = math.log(3), 0.05
    kappa = pc.core.gaussian_std(epsilon, delta, method="lenypappas")
    tail = norm.sf(epsilon * kappa - 1 / (2 * kappa))
    textbook = math.sqrt(2 * math.log(1.25 / 0.2)) / 8
    # thirty users with filters a^t: kappa^2 sum of squared H2 norms, by their impulses
    poles = np.linspace(0.1, 0.9, 30)
    impulses = poles[:, None] ** np.arange(400)
    mse = kappa**2 * np.sum(impulses**2)
    return [
        ("Q(eps kappa - 1/(2 kappa)) at (ln 3, 0.05)", tail, "0.05"),
        ("exact delta there", exact_delta(epsilon, 1 / kappa), "0.00978"),
        ("exact delta of sqrt(2 ln(1.25/delta)) at (8, 0.2)",
         exact_delta(8.0, 1 / textbook), "0.477"),
        ("mean-square error of 30 users", mse,
         float(kappa**2 * np.sum(1 / (1 - poles**2)))),
    ]  # fmt: skip


if __name__ == "__main__":
    comparison.main(sys.modules[__name__])
