"""Confidence regions of linear regressions y = Phi theta + e with white Gaussian noise.

The size of the noise is unknown. Three regions hold for finite samples, each under its own
assumption on the regressors:

- `independent_region`, if Phi is independent of e: exact, by the F distribution;
- `instrumented_region`, if instruments Z are independent of e, whatever Phi is: exact, by
  the test of Anderson and Rubin (1949);
- `sequential_region`, if each row of Phi comes from what was recorded before its e, as
  under feedback: a bound, by a likelihood ratio with a predicted numerator.

References
----------
T. W. Anderson, H. Rubin, Ann. Math. Stat. 20 (1949). Y. Abbasi-Yadkori, D. Pal,
C. Szepesvari, NeurIPS 2011. L. Wasserman, A. Ramdas, S. Balakrishnan, PNAS 117 (2020).
"""

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import scipy.linalg
from numpy.typing import NDArray
from scipy.special import gammaln
from scipy.stats import binom, f as f_distribution, t as t_distribution

#: Draws by which the quantile of the largest of several t ratios is bounded, and the
#: probability with which they do not bound it. That is taken from the error probability.
_DRAWS = 100_000
_MISSED = 1e-4
#: Residuals below this share of the data are taken for rounding.
_ROUNDING = 1e-9
#: Relative inflation of what is computed in double precision.
_SLACK = 1e-9


@dataclass(frozen=True)
class ConfidenceRegion:
    """The set of theta with (theta - centre)^T shape (theta - centre) <= size.

    Attributes
    ----------
    centre : ndarray, shape (k,)
    shape : ndarray, shape (k, k)
    size : float
    widths : ndarray, shape (k,)
        Half-widths of a box with the same confidence. It holds the set, except for
        independent regressors, where the box has its own quantile.
    """

    centre: NDArray
    shape: NDArray
    size: float
    widths: NDArray

    def contains(self, theta: NDArray) -> bool:
        """Whether a parameter vector (k,) is in the set."""
        offset = theta - self.centre
        return bool(offset @ self.shape @ offset <= self.size)

    def box_contains(self, theta: NDArray) -> bool:
        """Whether a parameter vector (k,) is in the box."""
        return bool((np.abs(theta - self.centre) <= self.widths).all())


def independent_region(
    regressors: NDArray, targets: NDArray, miss: float
) -> ConfidenceRegion:
    """The exact region if the regressors (N, k) are independent of the noise.

    (theta - centre)^T Phi^T Phi (theta - centre) / (k s^2) has an F distribution. The box
    has the quantile of the largest t ratio, which is smaller than that of the ellipsoid.
    """
    count, unknowns = regressors.shape
    centre, residue = _least_squares(regressors, targets)
    freedom = count - unknowns
    variance = residue / freedom
    shape = regressors.T @ regressors
    quantile = float(f_distribution.isf(miss, unknowns, freedom))
    inverse = _inverse(shape)
    largest = _largest_t(inverse, freedom, miss)
    widths = largest * np.sqrt(variance * np.diag(inverse))
    size = unknowns * variance * quantile
    return ConfidenceRegion(centre, shape, size, widths * (1 + _SLACK))


def instrumented_region(
    regressors: NDArray, targets: NDArray, instruments: NDArray, miss: float
) -> ConfidenceRegion:
    """The exact region if the instruments (N, m) are independent of the noise.

    For the true theta the residuals are white. Hence their energies within and outside
    the column space of the instruments, over m and N - m, have a ratio with an F
    distribution. The set of theta that pass is an ellipsoid if the instruments tell all
    parameters.

    Raises
    ------
    ValueError
        If they do not, so that the set has no bounds.
    """
    count, width = instruments.shape
    _least_squares(regressors, targets)  # refuses data without noise
    Q, _ = scipy.linalg.qr(instruments, mode="economic")
    quantile = float(f_distribution.isf(miss, width, count - width))
    share = width / (count - width) * quantile
    inside, seen = Q.T @ regressors, Q.T @ targets
    shape = (1 + share) * inside.T @ inside - share * regressors.T @ regressors
    mixed = (1 + share) * inside.T @ seen - share * regressors.T @ targets
    energy = (1 + share) * seen @ seen - share * targets @ targets
    scale = np.sqrt(np.diag(regressors.T @ regressors))
    if not np.linalg.eigvalsh(shape / scale / scale[:, None])[0] > _SLACK:
        raise ValueError(
            "inputs: they excite the plant too little beside its noise for a bounded "
            'region; record more or larger inputs, or pass data="feedback"'
        )
    centre = np.linalg.solve(shape, mixed)
    size = float(centre @ shape @ centre - energy)
    return _with_box(centre, shape, size)


def sequential_region(
    regressors: NDArray, targets: NDArray, miss: float
) -> ConfidenceRegion:
    """A region that holds when regressors come from earlier targets.

    A part of the samples at the start gives a first estimate. From there on each target is
    predicted from all earlier ones (Student's t of the conjugate prior). The product of
    the predicted densities over the likelihood of the true parameters has expectation one,
    so that it exceeds 1 / miss with probability at most ``miss`` (Markov). The likelihood
    is bounded by its maximum over the size of the noise.
    """
    count, unknowns = regressors.shape
    first = first_samples(count, unknowns)
    rest = count - first
    _, residue_before = _least_squares(regressors[:first], targets[:first])
    _, residue_after = _least_squares(regressors, targets)
    centre, residue = _least_squares(regressors[first:], targets[first:])
    degrees = (first - unknowns) / 2, (count - unknowns) / 2
    predicted = (
        0.5 * _log_volume(regressors[:first])
        - 0.5 * _log_volume(regressors)
        + degrees[0] * math.log(residue_before / 2)
        - degrees[1] * math.log(residue_after / 2)
        + gammaln(degrees[1])
        - gammaln(degrees[0])
        - rest / 2 * math.log(2 * math.pi)
    )
    exponent = -1 - 2 / rest * (math.log(miss) + predicted)
    largest = rest / (2 * math.pi) * math.exp(exponent)
    shape = regressors[first:].T @ regressors[first:]
    return _with_box(centre, shape, largest - residue)


def first_samples(count: int, unknowns: int) -> int:
    """How many samples at the start give a first estimate: a tenth, and enough for it."""
    return max(count // 10, 2 * unknowns + 4)


def least_samples(unknowns: int) -> int:
    """The least number of samples from which a region is computed."""
    return 4 * (2 * unknowns + 4)


def _least_squares(regressors: NDArray, targets: NDArray) -> tuple[NDArray, float]:
    """The estimate (k,) and the energy of its residuals.

    Raises
    ------
    ValueError
        If the regressors do not tell the parameters, or nothing but rounding is left.
    """
    count, unknowns = regressors.shape
    Q, triangle = scipy.linalg.qr(regressors, mode="economic")
    sizes = np.linalg.norm(regressors, axis=0)
    if not sizes.all() or np.linalg.cond(triangle / sizes) > 1e7:
        raise ValueError(
            f"data: {count} samples do not tell {unknowns} parameters of one row; vary the "
            "inputs more, record more samples, or name what is known"
        )
    estimate = scipy.linalg.solve_triangular(triangle, Q.T @ targets)
    residue = float(np.sum((targets - regressors @ estimate) ** 2))
    parts = np.abs(regressors) @ np.abs(estimate) + np.abs(targets)
    if not residue > _ROUNDING**2 * float(np.sum(parts**2)):
        raise ValueError(
            "data: they follow the model to the last digits, so that there is no noise to "
            "judge an error by; pass a PlantBox of what you know"
        )
    return estimate, residue


def _with_box(centre: NDArray, shape: NDArray, size: float) -> ConfidenceRegion:
    """A region with the box around it."""
    size = max(size, 0.0) * (1 + _SLACK)
    widths = np.sqrt(size * np.diag(_inverse(shape)))
    return ConfidenceRegion(centre, shape, size, widths * (1 + _SLACK))


def _inverse(shape: NDArray) -> NDArray:
    scale = 1 / np.sqrt(np.diag(shape))
    return np.linalg.inv(shape * scale * scale[:, None]) * scale * scale[:, None]


def _log_volume(regressors: NDArray) -> float:
    """log det(Phi^T Phi)."""
    triangle = scipy.linalg.qr(regressors, mode="r")[0]
    width = regressors.shape[1]
    return float(2 * np.sum(np.log(np.abs(np.diag(triangle[:width])))))


def _largest_t(covariance: NDArray, freedom: int, miss: float) -> float:
    """A bound of the largest of several t ratios that fails with probability ``miss``.

    One ratio has Student's quantile. Of several the bound is an order statistic of many
    draws, high enough to be above the quantile but for a probability that is counted, and
    never above the bound for uncorrelated ones (Sidak 1967).
    """
    unknowns = len(covariance)
    each = -math.expm1(math.log1p(-miss) / unknowns)
    uncorrelated = float(t_distribution.isf(each / 2, freedom))
    if unknowns == 1 or miss < 50 * _MISSED:
        return uncorrelated
    wanted = 1 - (miss - _MISSED)
    rank = int(binom.isf(_MISSED, _DRAWS, wanted)) + 1
    if rank >= _DRAWS:
        return uncorrelated
    scale = 1 / np.sqrt(np.diag(covariance))
    correlation = covariance * scale * scale[:, None]
    ratios = _largest_draws(correlation.tobytes(), unknowns, freedom)
    return min(uncorrelated, float(np.partition(ratios, rank)[rank]))


@lru_cache(maxsize=4)  # all rows of a plant have the same regressors
def _largest_draws(correlation: bytes, unknowns: int, freedom: int) -> NDArray:
    root = np.linalg.cholesky(np.frombuffer(correlation).reshape(unknowns, unknowns))
    largest = np.abs(root @ _normal_draws(unknowns)).max(axis=0)
    return largest / _size_draws(freedom)


@lru_cache(maxsize=4)
def _normal_draws(unknowns: int) -> NDArray:
    return np.random.default_rng(0).standard_normal((unknowns, _DRAWS))


@lru_cache(maxsize=4)
def _size_draws(freedom: int) -> NDArray:
    """Estimates of the noise size over its true value."""
    rng = np.random.default_rng(1)
    return np.sqrt(rng.chisquare(freedom, _DRAWS) / freedom)
