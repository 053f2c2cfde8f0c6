"""Dense noise as large as its budget demands, and no larger.

A root of a covariance is scaled until the certified shifts of all hidden moves are allowed.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import count

import numpy as np
import scipy.optimize
from numpy.typing import NDArray

from ..noise.whitened import floored_root, shift_sizes, triangular_root
from ..numerics.errors import UncertifiableError
from ..numerics.linalg import float_above
from ..numerics.progress import search_round
from ..numerics.thresholds import CERTAIN, LARGEST_EXCESS, ROUNDED, SMALLEST
from ..privacy.budget import scale_to_budget
from ..secrets.secret import Responses
from .problem import DesignProblem

#: The least scale, where the floor alone is nearly enough, and the largest logarithm of
#: one: squares of entries are doubles.
_LEAST = math.sqrt(SMALLEST)
_HIGHEST = -math.log(_LEAST)
#: Steps of its logarithm.
_STEP = math.log(4)
#: The triangular root, and the certified sizes of shifts.
Fitted = tuple[NDArray[np.float64], NDArray[np.float64]]


def fitted(
    problem: DesignProblem, factor: NDArray[np.float64], responses: Responses
) -> NDArray[np.float64]:
    """The triangular root, so large that no shift is above what the budget allows."""
    floored = problem.floor.any()
    most = 1 + LARGEST_EXCESS
    tries = count(1)

    def evaluate(size: float) -> tuple[Fitted, float]:
        found = evaluated(problem, factor * size, responses)
        excess = float(found[1].max()) / problem.allowed_beside_grid
        if floored and 1 < excess <= most:
            # a floor that hides nearly all leaves little to the size: steps double
            excess = min(excess ** (2 ** next(tries)), most)
        return found, excess

    if problem.rough is not None:
        found, excess = evaluate(1.0)
        if excess <= most:
            return found[0]
    found, _, excess = scale_to_budget(evaluate, 1.0, largest_excess=most)
    if not excess <= 1:
        ways = "protect fewer times or shorten the horizon"
        raise UncertifiableError(
            f"the noise exceeds its budget by {excess - 1:.1e} when evaluated back: "
            "the hidden moves are too far apart in size for double precision; "
            + (ways if floored else f"{ways}, or add a white floor")
        )
    return found[0]


def root_of(factor: NDArray[np.float64]) -> NDArray[np.float64]:
    """The triangular root of a factor.

    In directions that no hidden move takes what rounding leaves of a secret stays covered.
    """
    padding = np.diag(CERTAIN * np.linalg.norm(factor, axis=1))
    return triangular_root(np.hstack([factor, padding]))


def evaluated(
    problem: DesignProblem, factor: NDArray[np.float64], responses: Responses
) -> Fitted:
    """The triangular root of a factor, and the certified sizes next to the floor."""
    lower = root_of(factor)
    if not problem.floor.any():
        return lower, shift_sizes(lower, responses)
    total, error_bound = floored_root(lower, problem.floor)
    return lower, shift_sizes(total, responses) * (1 + error_bound)


def scaled_to_fit(
    problem: DesignProblem, shape: NDArray[np.float64], responses: Responses
) -> NDArray[np.float64]:
    """A root (m, r) of a shape as small as the budget allows."""

    def excess(scale: float) -> float:
        _, sizes = evaluated(problem, shape * scale, responses)
        return float(sizes.max()) / problem.allowed_beside_grid

    if problem.floor.any():
        return shape * least_scale(excess, np.abs(shape).max(initial=1.0))
    return shape * float_above(excess(1.0), 4)


def least_scale(excess: Callable[[float], float], largest: float = 1.0) -> float:
    """The least scale of a shape that meets a budget with a floor.

    ``excess`` says how many times too far noise of a scale shifts a move. No entry of the
    shape is above ``largest``, at least one.
    """
    numbers = count()
    highest = _HIGHEST - math.log(largest)

    def above(scale: float) -> float:
        with search_round(next(numbers)):
            return math.log(max(excess(math.exp(scale)), _LEAST))

    high = 0.0  # logarithms of scales
    while (left := above(high)) > 0:
        if high > highest:
            raise UncertifiableError(
                "factor: however large it is, some hidden move exceeds the budget: the "
                "shape and the floor do not cover it; raise the floor"
            )
        high = min(high + max(2 * left, _STEP), highest + _STEP)
    low = high
    while above(low) <= 0:
        low -= _STEP
        if low < -_HIGHEST:
            return _LEAST
    found = scipy.optimize.brentq(above, low, high, xtol=ROUNDED)
    while above(found) > 0:
        found += ROUNDED
    return math.exp(found)
