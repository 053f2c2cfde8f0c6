"""Margins of a prediction that hold at all samples of a run together.

x(t) is predicted from what was published up to t - 1. The part of the error that the
privacy noise causes is nearly one random vector eta for the whole run, so its margin
need not grow with the run. With F_t = I + S' H_t S the vector F_t (eta - etahat_t) has
independent increments and covariance F_t. In an epoch in which F_t <= q F_start Levy's
inequality bounds all samples by the last one. The rest of the error counts by samples.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from functools import partial

import numpy as np
import scipy.linalg
from numpy.typing import NDArray
from scipy.stats import chi2, norm

from ..noise.parts import Structured, White
from ._loop_data import LoopData
from .checks import present
from .lqg import DenseKnowledge, Knowledge, knowledge_of

#: Shares of the probability for the privacy noise, and largest number of epochs, that
#: are tried.
_SHARES = np.linspace(0.01, 0.99, 99)
_EPOCHS = 12
#: Relative size to which the growth of so many epochs is found.
_SHARP = 1.001
#: What rounding may add to the growth of an epoch.
_ROUNDED = 1 + 1e-9


def margins(
    loop: LoopData, direction: NDArray, probability: float, samples: int
) -> NDArray:
    """Margins (T,) of `PrivateLoop.margins`."""
    horizon = math.inf if loop.never_ends else samples
    covariances = knowledge(loop).covariances(horizon, predicted=True)
    shape = (samples, *loop.side.plant.A.shape)
    variances = along(np.broadcast_to(covariances, shape), direction)
    best = norm.isf(probability / (2 * samples)) * np.sqrt(variances)
    noise = loop.noise
    if noise is None or not noise.total.consists_of(Structured, White):
        return best
    if noise.family != "gaussian" or noise.factor is None:
        return best
    rest, caused, seen = _apart(loop, direction, samples)
    rank = seen.shape[1]
    by_sample = {}
    for share in _SHARES:
        spent = probability * (1 - share) / (2 * samples)
        by_sample[share] = norm.isf(spent) * rest
    for growth, epochs in _epochs(seen):
        for share, own in by_sample.items():
            tail = probability * share / epochs
            radius = np.sqrt(growth * chi2.isf(tail, rank))
            found = own + radius * caused
            known = np.isfinite(found) & np.isfinite(best)
            if found[known].sum() < best[known].sum():
                best = found
    return best


def knowledge(loop: LoopData) -> Knowledge | DenseKnowledge:
    """What the filter of a loop knows. `ValueError` unless it knows prior and noise."""
    design = loop.design
    if design is None or not loop.knows_noise:
        raise ValueError(
            "the errors of this loop's observer are not what it believes: it does not "
            "know the noise; private_lqg(P0=...) has a filter that does, and "
            "mean_square_error() is exact for every linear loop"
        )
    return knowledge_of(loop.side.plant, loop.weights, loop.noise, design.P0)


def _apart(
    loop: LoopData, direction: NDArray, samples: int
) -> tuple[NDArray, NDArray, NDArray]:
    """What causes the error d'(x - prediction) of each sample.

    Deviations (T,) of what is drawn again, deviations (T,) that the noise's one vector
    causes, and F_t (T, r, r) of what was read before each sample.
    """
    noise = loop.private_noise
    design = loop.known_design
    factor = present(noise.factor, "factor")
    known = Knowledge.of(loop.side.plant, loop.weights, noise, design.P0, kind=White)
    rest = np.sqrt(along(known.covariances(samples, predicted=True), direction))
    prior = np.eye(factor.shape[1])
    caused = np.empty(samples)
    seen = np.empty((samples, *prior.shape))
    for t, (before, _) in enumerate(known.told_of(factor, samples)):
        errors, information = before
        seen[t] = prior + information
        error = direction @ errors
        caused[t] = np.sqrt(error @ np.linalg.solve(seen[t], error))
    return rest, caused, seen


def _epochs(seen: NDArray) -> list[tuple[float, float]]:
    """Growths q, and by what each multiplies the probability of a tail."""
    if np.array_equal(seen[-1], seen[0]):
        return [(1.0, 1.0)]  # one vector, whose law stays the same
    whole = _growth(seen, 0, len(seen) - 1) * _ROUNDED
    found = [(whole, 2.0)]
    for count in range(2, _EPOCHS + 1):
        low = 1.0
        high = found[-1][0]
        while high > low * _SHARP:
            tried = math.sqrt(low * high)
            if _count(seen, tried, count) <= count:
                high = tried
            else:
                low = tried
        found.append((high, 2.0 * count))
    return found


def _count(seen: NDArray, growth: float, most: int) -> int:
    """Number of epochs of a growth, as soon as it exceeds ``most``."""
    start = 0
    count = 0
    while start < len(seen) and count <= most:
        count += 1
        grown = partial(_growth, seen, start)
        start = bisect_right(range(len(seen)), growth, lo=start + 1, key=grown)
    return count


def _growth(seen: NDArray, start: int, t: int) -> float:
    """The least q with F_t <= q F_start."""
    if seen.shape[1] == 1:
        return float(seen[t, 0, 0] / seen[start, 0, 0])
    values = scipy.linalg.eigh(seen[t], seen[start], eigvals_only=True)
    return float(values[-1])


def along(covariances: NDArray, direction: NDArray) -> NDArray:
    """Variances (T,) of one direction, infinite where something of it is unknown."""
    used = np.flatnonzero(direction)
    own = covariances[:, used[:, None], used]
    variances = own @ direction[used] @ direction[used]
    return np.where(np.isfinite(variances), variances, np.inf)
