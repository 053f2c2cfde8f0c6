"""Liu, Kawano, Cao 2025, pointwise maximal leakage under a prior.

The adversary knows that the secret x is Gaussian with covariance P. What one release z
reveals is sup over x of log p(z | x) / p(z). For z = G x + noise of covariance N it is half
of log det(I + P G'N^-1 G), plus half a chi-square number of rank G degrees of freedom.
"""

import sys

import comparison
import numpy as np
import scipy.stats

import privcontrol as pc

SOURCE = """arXiv 2511.10771; leakage of Saeidian et al. 2022
no adjacency, a prior of the secret; adversary: sees all releases and knows the prior"""


def leakage(response, noise, prior, delta):
    """The leakage that a share 1 - delta of the releases stays below, in nats."""
    information = response.T @ np.linalg.solve(noise, response)
    root = np.linalg.cholesky(prior)
    sizes = np.linalg.eigvalsh(root.T @ information @ root)
    rank = np.count_nonzero(sizes > 1e-12 * sizes[-1])
    spread = scipy.stats.chi2.ppf(1 - delta, rank)
    return np.log1p(sizes).sum() / 2 + spread / 2


def of_shift(shift, deviations, delta):
    """The leakage of one number behind a shift y, whose prior has k radii of std.

    y = radius / std of the noise, so P / N = (k y)^2: the prior's size in radii is all
    that the leakage asks in addition to the shift.
    """
    return (
        np.log1p((deviations * shift) ** 2) + scipy.stats.chi2.ppf(1 - delta, 1)
    ) / 2


def design(plant, secret, budget):
    """Our noise for the budget, and what it leaks to those who know the prior P0."""
    noise = pc.design_output_noise(
        plant.sys, horizon=plant.horizon, budget=budget, adjacency=secret, floor=1e-3,
        models="exact",
    )  # fmt: skip
    size = plant.horizon * plant.sys.noutputs
    rows = noise.process.responses.reshape(size, -1)
    covariance = rows @ rows.T + np.kron(
        np.eye(plant.horizon), np.diag(noise.process.total.white**2)
    )
    seen = pc.observability_stack(plant.sys, plant.horizon)
    nats = leakage(seen, covariance, plant.P0, 1e-2)
    promise = f"leaks at most {nats:.3g} nats of the prior in 99 % of releases"
    return comparison.Entry(
        plant.cost(covariance), noise.std.max(), noise.guarantee, promise
    )


def golden():
    """One number with a prior of 1 and 4 radii, y = 0.53252; simulated releases."""
    y = pc.core.kappa_inverse(1.0, 1e-2)
    z = np.random.default_rng(0).normal(size=400_000)
    drawn = np.log1p((4 * y) ** 2) / 2 + z**2 / 2
    told = of_shift(y, 4.0, 0.01)
    one = leakage(np.eye(1), np.eye(1) / y**2, 16 * np.eye(1), 0.01)
    return [
        ("prior of one radius, 99 %, in nats", of_shift(y, 1.0, 0.01), "3.4423"),
        ("prior of four radii", told, "4.1732"),
        ("the same by matrices", one, float(told)),
        ("share of simulated releases above it", np.mean(drawn > told), "0.010"),
    ]  # fmt: skip


if __name__ == "__main__":
    comparison.main(sys.modules[__name__])
