"""Farokhi, Sandberg 2019, Fisher information.

Bounded noise of least Fisher information: density (2/l) cos^2(pi w / l) on an interval
of length l. Here with the information per entry of the white Gaussian noise that meets
the budget. Bounded noise is never differentially private.
"""

import sys

import comparison
import numpy as np
from scipy.integrate import quad

SOURCE = """Automatica 99 (2019) (arXiv 1808.09565)
no adjacency; adversary: any unbiased estimator; measure: the trace of the information"""


def variance(length):
    """Variance of the density (2/l) cos^2(pi w / l)."""
    return length**2 * (1 / 12 - 1 / (2 * np.pi**2))


def information(length):
    """Its Fisher information about a shift."""
    return 4 * np.pi**2 / length**2


def design(plant, secret, budget):
    gaussian = plant.sensitivity(secret) / budget.shift()
    length = 2 * np.pi * gaussian
    std = np.sqrt(variance(length))
    entries = plant.horizon * plant.sys.noutputs
    cost = plant.cost(std**2 * np.eye(entries))
    promise = f"Fisher information {information(length):.3g} an entry"
    return comparison.Entry(cost, std, instead=promise)


def golden():
    """Variance and information by quadrature, and the Gaussian optimum with a penalty."""
    length, rho = 3.0, 0.4

    def density(w):
        return 2 / length * np.cos(np.pi * w / length) ** 2

    def score(w):
        slope = -2 * np.pi / length**2 * np.sin(2 * np.pi * w / length)
        return slope**2 / max(density(w), 1e-300)

    end = length / 2
    second = quad(lambda w: w**2 * density(w), -end, end)[0]
    trace = quad(score, -end, end)[0]
    gaussian = rho**-0.5
    return [
        ("variance, l = 3", second, float(variance(length))),
        ("information", trace, float(information(length))),
        (
            "Gaussian: 1/s^2 + rho s^2",
            1 / gaussian + rho * gaussian,
            float(2 * rho**0.5),
        ),
    ]


if __name__ == "__main__":
    comparison.main(sys.modules[__name__])
