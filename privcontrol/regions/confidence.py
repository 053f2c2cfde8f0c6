"""Confidence intervals of linear regressions y = Phi theta + e with white Gaussian noise.

The size of the noise is unknown. All intervals of one regression hold together, for any
finite number of samples:

- `independent_intervals`, if Phi is independent of e;
- `sequential_intervals`, if each row of Phi comes from what was recorded before its e, as
  in a feedback loop.

References
----------
Z. Sidak, J. Am. Stat. Assoc. 62 (1967). L. Wasserman, A. Ramdas, S. Balakrishnan,
PNAS 117 (2020).
"""

from __future__ import annotations

import math

import numpy as np
import scipy.linalg
from numpy.typing import NDArray
from scipy.special import gammaln
from scipy.stats import beta, t as student

#: Residuals below this share of the data are taken for rounding.
_ROUNDING = 1e-9
#: Relative inflation of what is computed in double precision. The rounding of the data is
#: smaller beside noise that is above `_ROUNDING`.
_SLACK = 1e-6
#: Share of the error probability with which the bound of the noise's energy may fail.
_ENERGY_SHARE = 0.01
#: Weights are planned again after this share of the samples that are left.
_REPLANNED = 0.1
#: Condition number from which on regressors do not tell the parameters.
_MOST_CONDITION = 1e7


def independent_intervals(
    regressors: NDArray, targets: NDArray, miss: float
) -> tuple[NDArray, NDArray]:
    """Centres and half-widths (k,) if the regressors (N, k) are independent of the noise.

    They are those of least squares. Each ratio of an error to its estimated size has
    Student's distribution.
    """
    count, unknowns = regressors.shape
    centre, residue = _least_squares(regressors, targets)
    freedom = count - unknowns
    units = np.linalg.norm(regressors, axis=0)
    scaled = regressors / units
    inverse = np.linalg.inv(scaled.T @ scaled)
    variance = residue / freedom
    sizes = np.sqrt(variance * np.diag(inverse)) / units
    reach = _largest_t(unknowns, freedom, miss)
    return centre, reach * sizes * (1 + _SLACK)


def sequential_intervals(
    regressors: NDArray, targets: NDArray, miss: float
) -> tuple[NDArray, NDArray]:
    """Centres and half-widths (k,) if regressors (N, k) come from earlier targets (N,).

    The columns w of `predictable_weights` have norm one, and each entry comes from what
    was recorded before its e. Hence (w^T e)^2 / e^T e has exactly the beta distribution
    that it has for constant w, since E exp(s w_t e_t - r e_t^2) given the past depends on
    w_t^2 alone, and the squares add up to one. The energy e^T e is bounded by
    `energy_bound`. What is left is a parallelotope W^T (y - Phi theta), whose sides are
    nearly parallel to the axes, and the smallest box around it.
    """
    count, unknowns = regressors.shape
    first = first_samples(regressors)
    energy_share = _ENERGY_SHARE * miss
    energy = energy_bound(regressors, targets, first, energy_share)
    units = np.linalg.norm(regressors, axis=0)
    scaled = regressors / units
    weights = predictable_weights(scaled, first)
    slopes = weights.T @ scaled[first:]
    if not np.linalg.cond(slopes) < _MOST_CONDITION:
        raise ValueError(_TOO_LITTLE.format(count, unknowns))
    inverse = np.linalg.inv(slopes)
    centre = inverse @ (weights.T @ targets[first:])
    each = (miss - energy_share) / unknowns
    reach = beta.isf(each, 0.5, (count - first - 1) / 2) * energy
    widths = math.sqrt(reach) * np.abs(inverse).sum(axis=1)
    return centre / units, widths / units * (1 + _SLACK)


def predictable_weights(regressors: NDArray, first: int) -> NDArray:
    """Weights (N - first, k) for the samples from ``first`` on, with columns of norm one.

    Weights at a sample depend on the regressors (N, k) up to that sample alone. Column j
    follows the plan w = c^T phi that, if the samples to come are like those that were, is
    orthogonal to all regressors but j, and spends its norm. The plan is made again and
    again, so what it missed is made good. The last weight spends the rest.
    """
    count, unknowns = regressors.shape
    energy = regressors[:first].T @ regressors[:first]
    summed = np.zeros((unknowns, unknowns))  # regressors times weights so far
    rest = np.ones(unknowns)
    every = []
    start = first
    while start < count:
        left = count - start
        stop = start + max(1, int(left * _REPLANNED))
        block = regressors[start:stop]
        # least c with left energy c / start = gain I - summed, and the largest gain
        inverse = np.linalg.inv(energy / start)
        owed = inverse @ summed
        slope = np.diag(inverse)
        shift = np.diag(owed)
        offset = np.sum(summed * owed, axis=0) - left * rest
        gain = (shift + np.sqrt(np.maximum(shift**2 - slope * offset, 0))) / slope
        weights = block @ ((inverse * gain - owed) / left)
        if left == 1:
            weights = np.where(weights < 0, -np.sqrt(rest), np.sqrt(rest))
        else:
            spent = np.cumsum(weights**2, axis=0) - weights**2
            limit = np.sqrt(np.maximum(rest - spent, 0))
            weights = np.clip(weights, -limit, limit)
        every.append(weights)
        summed = summed + block.T @ weights
        rest = np.maximum(rest - np.sum(weights**2, axis=0), 0)
        energy = energy + block.T @ block
        start = stop
    return np.vstack(every)


def energy_bound(
    regressors: NDArray, targets: NDArray, first: int, miss: float
) -> float:
    """A bound of the noise's energy from sample ``first`` on, wrong with ``miss`` at most.

    The first samples give a first estimate. From there on each target is predicted from
    all earlier ones (Student's t of the conjugate prior). The product of the predicted
    densities over the likelihood of the true parameters has expectation one, so it
    exceeds 1 / miss with probability at most ``miss`` (Markov). The likelihood is bounded
    by its maximum over the size of the noise, which its energy tells.
    """
    count, unknowns = regressors.shape
    rest = count - first
    _, residue_before = _least_squares(regressors[:first], targets[:first])
    _, residue_after = _least_squares(regressors, targets)
    before = (first - unknowns) / 2
    after = (count - unknowns) / 2
    predicted = (
        0.5 * _log_volume(regressors[:first])
        - 0.5 * _log_volume(regressors)
        + before * math.log(residue_before / 2)
        - after * math.log(residue_after / 2)
        + gammaln(after)
        - gammaln(before)
        - rest / 2 * math.log(2 * math.pi)
    )
    exponent = -1 - 2 / rest * (math.log(miss) + predicted)
    return rest / (2 * math.pi) * math.exp(exponent)


def first_samples(regressors: NDArray) -> int:
    """How many samples at the start give a first estimate.

    They are a twentieth, and enough of them to tell all parameters.
    """
    count, unknowns = regressors.shape
    first = max(count // 20, 2 * unknowns + 4)
    while first < count // 2 and not _tells(regressors[:first]):
        first = min(2 * first, count // 2)
    return first


def least_samples(unknowns: int) -> int:
    """The least number of samples from which intervals are computed."""
    return 4 * (2 * unknowns + 4)


_TOO_LITTLE = (
    "data: {} samples do not tell {} parameters of one row; vary the inputs more, from "
    "the start on, record more samples, or name what is known"
)


def _tells(regressors: NDArray) -> bool:
    """Whether regressors (N, k) tell all parameters."""
    sizes = np.linalg.norm(regressors, axis=0)
    if not sizes.all():
        return False
    return bool(np.linalg.cond(regressors / sizes) < _MOST_CONDITION)


def _least_squares(regressors: NDArray, targets: NDArray) -> tuple[NDArray, float]:
    """The estimate (k,) and the energy of its residuals.

    Raises
    ------
    ValueError
        If the regressors do not tell the parameters, or nothing but rounding is left.
    """
    if not _tells(regressors):
        raise ValueError(_TOO_LITTLE.format(*regressors.shape))
    Q, triangle = scipy.linalg.qr(regressors, mode="economic")
    estimate = scipy.linalg.solve_triangular(triangle, Q.T @ targets)
    residue = float(np.sum((targets - regressors @ estimate) ** 2))
    parts = np.abs(regressors) @ np.abs(estimate) + np.abs(targets)
    if not residue > _ROUNDING**2 * float(np.sum(parts**2)):
        raise ValueError(
            "data: they follow the model to the last digits, so there is no noise to "
            "judge an error by; pass a PlantBox of what you know"
        )
    return estimate, residue


def _log_volume(regressors: NDArray) -> float:
    """log det(Phi^T Phi)."""
    triangle = np.linalg.qr(regressors, mode="r")
    return float(2 * np.sum(np.log(np.abs(np.diag(triangle)))))


def _largest_t(unknowns: int, freedom: int, miss: float) -> float:
    """A bound of the largest of several t ratios that fails with probability ``miss``.

    It is exact for uncorrelated ratios, and safe for others (Sidak 1967).
    """
    each = -math.expm1(math.log1p(-miss) / unknowns)
    return float(student.isf(each / 2, freedom))
