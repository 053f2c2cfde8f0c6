"""Margins that a prediction's error exceeds in a run with at most a given probability.

The part of a prediction's error that the privacy noise causes is nearly one random
vector eta for the whole run, so its margin need not grow with the run. With F_t = I +
S' H_t S the vector F_t (eta - etahat_t) has independent increments and covariance F_t.
In an epoch in which F_t <= q F_start Levy's inequality bounds all samples by the last
one. The rest of the error counts by samples.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.stats import norm

from ..noise._rooms_of_runs import Once
from ..noise.parts import Structured, White
from ..noise.within import room_of
from ..numerics.checks import instance_of, positive_number, real_array, sample_count
from ..numerics.thresholds import FINE, LARGEST_SIZE, ROUGH, ROUNDED
from ..privacy.horizon import Run
from ..privacy.law import GaussianLaw
from .data import LoopData
from .kalman import Knowledge, Told
from .moments import knowledge
from .side import present

#: Shares of the probability for the privacy noise, and largest number of epochs, that
#: are tried.
_SHARES = np.linspace(0.01, 0.99, 99)
_EPOCHS = 12


def margins(
    loop: LoopData,
    direction: ArrayLike,
    probability: float,
    horizon: int | None,
    sure: bool,
) -> NDArray[np.float64]:
    """Return margins (T,) of `PrivateLoop.margins`, whose arguments are checked."""
    d = real_array(direction, "direction", shape=(loop.side.order,))
    tail = positive_number(probability, "probability")
    if not 1 / LARGEST_SIZE <= tail < 1:
        raise ValueError(
            f"probability: expected a number from {1 / LARGEST_SIZE:g} to below 1, got "
            f"{tail:g}"
        )
    longest = math.inf if loop.noise is None else loop.noise.horizon
    if horizon is None:
        horizon = loop.horizon.count(
            "horizon: the loop has no horizon, and margins hold for all samples of a "
            "run together; pass its number of samples, such as horizon=100"
        )
    samples = Run(sample_count(horizon, "horizon"))
    if samples > longest:
        raise ValueError(
            f"horizon: expected at most the {longest} samples of the noise, got "
            f"{samples}"
        )
    instance_of(sure, bool, "sure")
    find = _sure_margins if sure else _margins
    return find(loop, d, tail, samples)


def _margins(
    loop: LoopData, direction: NDArray[np.float64], probability: float, samples: Run
) -> NDArray[np.float64]:
    """Return margins (T,) by samples or by epochs, whichever have the smaller sum."""
    known = knowledge(loop)
    if loop.never_ends and isinstance(known, Knowledge):
        covariances = known.settling(samples)
    else:
        covariances = known.covariances(samples, predicted=True)
    variances = along(covariances, direction)
    noise = loop.noise
    law = GaussianLaw() if noise is None else noise.process.law
    entries = 0
    if noise is not None:
        entries = noise.process.total.once
        if not noise.process.is_mixed:  # a floor next to radial noise is Gaussian
            entries += samples * noise.process.total.width
    best = law.multiple(probability / samples, entries) * np.sqrt(variances)
    if noise is None or not noise.process.total.consists_of(Structured, White):
        return best
    if noise.factor is None:
        return best
    rest, caused, read = _apart(loop, direction, samples)
    rank = noise.factor.shape[1]
    by_sample = {}
    for share in _SHARES:
        spent = probability * (1 - share) / (2 * samples)
        by_sample[share] = norm.isf(spent) * rest
    for growth, epochs in _epochs(read):
        tails = probability * _SHARES / epochs
        radii = np.sqrt(growth) * law.radii(tails, rank, alone=epochs == 1)
        for own, radius in zip(by_sample.values(), radii, strict=True):
            found = own + radius * caused
            known = np.isfinite(found) & np.isfinite(best)
            if found[known].sum() < best[known].sum():
                best = found
    return best


def _sure_margins(
    loop: LoopData, direction: NDArray[np.float64], probability: float, samples: Run
) -> NDArray[np.float64]:
    """Return margins (T,) in which the privacy noise has its share for sure.

    The prediction's error is a'eta + r with eta in its ball of a radius R and r
    independent of it, so |a| R counts with certainty, and r by samples.
    """
    noise = loop.noise
    room = None
    if noise is not None and noise.kept is not None:
        room = room_of(noise.parts, noise.kept)
    if noise is None or noise.factor is None or not isinstance(room, Once):
        raise ValueError(
            "sure: expected structured noise within a bound (bound= of "
            "design_output_noise), got other noise; leave sure out"
        )
    fresh, caused, _ = _apart(loop, direction, samples)
    fixed = _share_of_entries(loop, direction, samples)
    rest = np.sqrt(np.maximum(fresh**2 + caused**2 - fixed**2, 0.0))
    tail = float(norm.isf(probability / (2 * samples)))
    return room.radius * fixed * (1 + ROUNDED) + tail * rest


def _share_of_entries(
    loop: LoopData, direction: NDArray[np.float64], samples: Run
) -> NDArray[np.float64]:
    """Return |a| (T,) of the prediction's error a'eta + r, eta drawn once."""
    noise = loop.private_noise
    factor = present(noise.factor, "factor")
    plant = loop.side.plant
    known = Knowledge.of(plant, loop.weights, noise, loop.known_design.P0, kind=White)
    shares = np.empty(samples)
    for t, (before, _) in enumerate(known.told_of(factor, samples)):
        errors, told = before
        turn, _ = told.halves()
        shares[t] = np.linalg.norm(turn @ (turn.T @ (direction @ errors)))
    return shares


class _Read(NamedTuple):
    """Hold what was read of the noise's vector, and V of its covariance V V'."""

    told: Told
    turn: NDArray[np.float64]  # (r, r)


def _apart(
    loop: LoopData, direction: NDArray[np.float64], samples: Run
) -> tuple[NDArray[np.float64], NDArray[np.float64], list[_Read]]:
    """Return what causes the error d'(x - prediction) of each sample.

    Deviations (T,) of what is drawn again, deviations (T,) that the noise's one vector
    causes, and what was read of it before each sample.
    """
    noise = loop.private_noise
    design = loop.known_design
    factor = present(noise.factor, "factor") * math.sqrt(
        noise.process.law.unit_variance
    )
    known = Knowledge.of(loop.side.plant, loop.weights, noise, design.P0, kind=White)
    rest = np.sqrt(along(known.covariances(samples, predicted=True), direction))
    caused = np.empty(samples)
    read = []
    for t, (before, _) in enumerate(known.told_of(factor, samples)):
        errors, told = before
        turn, _ = told.halves()
        read.append(_Read(told, turn))
        caused[t] = np.linalg.norm(direction @ errors @ turn)
    return rest, caused, read


def _epochs(read: Sequence[_Read]) -> list[tuple[float, float]]:
    """Growths q, and by what each multiplies the probability of a tail."""
    last = read[-1].told
    rank, unknown = last.open.shape
    if unknown == rank and np.linalg.norm(last.root) <= FINE:
        # one vector, whose law stays the same up to rounding: its estimate is hundreds
        # of times smaller than what is added here
        return [(1 + ROUNDED, 1.0)]
    high = _largest_growth(read) * (1 + ROUNDED)
    found = []
    for count in range(1, _EPOCHS + 1):
        if _count(read, high, count) > count:
            continue
        low = 1.0
        while count > 1 and high > low * (1 + ROUGH):
            tried = math.sqrt(low * high)
            if _count(read, tried, count) <= count:
                high = tried
            else:
                low = tried
        found.append((high, 2.0 * count))
    return found


def _largest_growth(read: Sequence[_Read]) -> float:
    """The largest growth between samples before and after which as much is exact."""
    largest = 1.0
    start = 0
    while start < len(read):
        known = read[start].told.open.shape[1]
        end = start
        while end + 1 < len(read) and read[end + 1].told.open.shape[1] == known:
            end += 1
        largest = max(largest, _growth(read[start], read[end]))
        start = end + 1
    return largest


def _count(read: Sequence[_Read], growth: float, most: int) -> int:
    """Number of epochs of a growth, as soon as it exceeds ``most``."""
    start = 0
    count = 0
    while start < len(read) and count <= most:
        count += 1
        grown = partial(_growth, read[start])
        start = bisect_right(read, growth, lo=start + 1, key=grown)
    return count


def _growth(first: _Read, last: _Read) -> float:
    """The least q with F of the last one at most q F of the first one.

    F is the information about the noise's vector. It is infinite where something is
    known exactly, so q is, where more of it is than before.
    """
    if last.told.open.shape[1] < first.told.open.shape[1]:
        return math.inf
    rows = np.vstack([first.turn, last.told.root @ first.turn])
    return float(np.linalg.norm(rows, 2) ** 2)


def along(
    covariances: NDArray[np.float64], direction: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Variances (T,) of one direction, infinite where something of it is unknown."""
    used = np.flatnonzero(direction)
    own = covariances[:, used[:, None], used]
    variances = own @ direction[used] @ direction[used]
    return np.where(np.isfinite(variances), variances, np.inf)
