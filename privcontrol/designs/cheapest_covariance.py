"""The cheapest covariance around the outputs' responses to hidden moves, beyond a floor.

It is that of all samples of a run together: an ellipsoid that encloses the responses at the
least weighted variance. In hundreds of dimensions it is one within the gap of the request.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

from ..numerics.ellipsoid import rough_shape, rough_shape_over_time, weight_triangle
from ..numerics.errors import PrivacyError
from ..numerics.linalg import EPS, rank_tolerance
from ..numerics.thresholds import (
    LEAST_PRICE,
    MANY_DIMENSIONS,
    ROUNDED,
    SHORT_RUN,
    UNSEEN,
)
from ..secrets.secret import NO_NOISE, Apart, Responses, Windows
from .problem import DesignProblem
from .robust import covering_ellipsoid, remainder
from .windowed import Run, SpectrumProblem, WindowsOfRun

#: Relative gap of the shape. The padding and rounding cost about as much over long runs.
_GAP = 1e-7
#: Share of its gap at which a search ends, so rounding leaves it below that.
_TRIED = 0.9


class Cheapest(NamedTuple):
    """The cheapest noise of single changes beyond a floor.

    Attributes
    ----------
    root : ndarray, shape (m, r)
    lower_bound : float
    weights : ndarray, shape (M,), or None
        Those of single moves, where they are known.
    windows : tuple of ndarray
        Matrices of the weights of changes of any shape, in each window.
    holds : bool
        Whether it holds all moves with a margin for rounding, so certifying it will do.
    """

    root: NDArray[np.float64]
    lower_bound: float
    weights: NDArray[np.float64] | None = None
    windows: tuple[NDArray[np.float64], ...] = ()
    holds: bool = False

    def spread(self, changes: Apart | Windows) -> NDArray[np.float64] | None:
        """Return responses (m, N) times roots of weights of sum one, alike at each start.

        None where the search has none for these changes.
        """
        kinds = _places_among_equals(changes.starts)
        starts = len(np.unique(changes.starts))
        if isinstance(changes, Apart):
            if self.weights is None or len(self.weights) != len(kinds):
                return None
            shares = np.bincount(kinds, self.weights)
            if not shares.sum() > 0:
                return None
            shares = shares / (shares.sum() * starts)
            return changes.columns * np.sqrt(shares[kinds])
        longest = max(map(len, changes.index))
        sums = np.zeros((kinds.max() + 1, longest, longest))
        for kind, own in zip(kinds, self.windows, strict=True):
            if len(own) == longest:
                sums[kind] += own
        size = np.trace(sums, axis1=1, axis2=2).max()
        if not size > 0:
            return None
        sums += ROUNDED * size * np.eye(longest)  # which all signs have on average
        total = np.trace(sums, axis1=1, axis2=2).sum() / longest
        roots = np.linalg.cholesky(sums / (total * starts))
        columns = []
        for kind, places in zip(kinds, changes.index, strict=True):
            columns.append(changes.columns[:, places] @ roots[kind][: len(places)])
        return np.hstack(columns)


def _places_among_equals(values: NDArray[np.intp]) -> NDArray[np.intp]:
    """Return for each value how many equal ones come before it."""
    order = np.argsort(values, kind="stable")
    ordered = values[order]
    places = np.empty(len(values), int)
    places[order] = np.arange(len(values)) - np.searchsorted(ordered, ordered)
    return places


def cheapest_covariance(
    problem: DesignProblem, responses: Responses, rough: float = _GAP
) -> Cheapest:
    """A root (m, r) of the cheapest covariance beyond the floor, and its least cost.

    It is the cheapest one within the gap ``rough``, in hundreds of dimensions within that
    of the request.
    """
    if responses.windows:
        return _cheapest_in_windows(problem, responses)
    tol = max(_tolerance(problem, responses), rough)
    if problem.rough is not None:
        tol = max(tol, problem.rough.gap)
    if tol > _GAP:
        nearly = _nearly_cheapest(problem, responses, tol)
        if nearly is not None:
            return nearly
    allowed = problem.allowed_beside_grid
    covered = [responses.singles / allowed]
    covered += [ball / allowed for ball in responses.balls]
    has_floor = problem.floor.any()
    if has_floor:
        covered.append(np.diag(problem.floor))
    together = np.hstack(covered)
    basis = _basis(together)
    ends = np.cumsum([part.shape[1] for part in covered])
    every = scipy.linalg.lstsq(basis, together)[0]
    points, *balls = np.split(every, ends[:-1], axis=1)
    weight_factor = weight_triangle(problem.price.root(basis))
    found = covering_ellipsoid(
        points, balls, weight_factor, tol=tol, rough=problem.rough
    )
    factor = found.factor
    if has_floor:
        factor = remainder(factor, balls[-1])
    weights = None
    if not balls:
        weights = np.zeros(points.shape[1])
        weights[found.support] = found.weights
    return Cheapest(basis @ factor, found.lower_bound, weights)


def _cheapest_in_windows(problem: DesignProblem, responses: Responses) -> Cheapest:
    """The same for changes of any shape, within the gap of the request.

    Of several changes each counts as if the others shared nothing with it.
    """
    allowed = problem.allowed_beside_grid
    points = responses.singles / allowed
    balls = [ball / allowed for ball in responses.balls]
    has_floor = problem.floor.any()
    if has_floor:
        balls.append(np.diag(problem.floor))
    impulses: list[NDArray[np.float64]] = []
    index: list[NDArray[np.intp]] = []
    for several in responses.windows:
        before = sum(each.shape[1] for each in impulses)
        impulses.append(several.columns * (math.sqrt(several.spacing.events) / allowed))
        index += [before + own for own in several.index]
    every = np.hstack(impulses)
    hidden = [every[:, own.ravel()] for own in index]
    if not any(each.any() for each in (points, *hidden, *responses.balls)):
        raise PrivacyError(NO_NOISE)  # what moves is seen after the run, if at all
    span = _span(np.hstack([points, *balls, every]))
    moved = responses.moved | (problem.floor > 0)
    span[~moved] = 0.0  # no noise where rounding alone would put some
    price = problem.price.root(span)
    values, axes = np.linalg.eigh(price.T @ price)
    roots = np.sqrt(np.maximum(values, 0.0))
    raised = np.maximum(roots, LEAST_PRICE * roots.max())
    into = (axes * raised).T @ span.T

    def seen(columns: NDArray[np.float64]) -> NDArray[np.float64]:
        return (into @ columns)[None]

    spectrum = SpectrumProblem(
        Run(),
        seen(points),
        WindowsOfRun(seen(every), tuple(index)),
        tuple(map(seen, balls)),
    )
    found = spectrum.solve(problem.request.gap, np.diag(roots / raised)[None])
    values, vectors = np.linalg.eigh(found.spectrum[0])
    factor = vectors * np.sqrt(np.maximum(values, 0.0))
    out = span @ (axes / raised)
    if has_floor:
        factor = remainder(factor, spectrum.balls[-1][0])
    bound = found.lower_bound * (1 - ROUNDED)
    return Cheapest(out @ factor, bound, windows=found.weights.windows)


def _tolerance(problem: DesignProblem, responses: Responses) -> float:
    """The relative gap at which the search for a covariance ends."""
    size, moves = responses.singles.shape
    if size >= MANY_DIMENSIONS:
        return max(_GAP, _TRIED * problem.request.gap)
    is_of_several = len(problem.plants) > 1 and problem.floor.any()
    if moves > SHORT_RUN or is_of_several:
        return max(_GAP, 0.1 * problem.request.gap)
    return _GAP


def _nearly_cheapest(
    problem: DesignProblem, responses: Responses, tol: float
) -> Cheapest | None:
    """The same in many dimensions. None in few, or if it does not come within the gap."""
    size = len(responses.singles)
    level = _even_floor(problem)
    if level is None or (responses.balls and not level):
        return None
    points = responses.singles / problem.allowed_beside_grid
    balls = [ball / problem.allowed_beside_grid for ball in responses.balls]
    span = _span_of(responses)
    rank = span.shape[1]
    if rank < MANY_DIMENSIONS and not level:
        return None
    triangle = weight_triangle(problem.price.root(span))
    prices = np.abs(np.diag(triangle))
    if prices.min() < LEAST_PRICE * prices.max():
        return None
    coordinates = triangle.T @ (span.T @ points)
    roots = [triangle.T @ (span.T @ ball) for ball in balls]
    begun = problem.begun
    if balls or rank < MANY_DIMENSIONS:
        found = rough_shape(coordinates, tol, floor=level, balls=roots, begun=begun)
    else:
        period = max(points.shape[1] // problem.horizon, 1)  # with a change at any time
        found = rough_shape_over_time(
            coordinates, tol, period=period, floor=level, begun=begun
        )
    if not found.cost <= found.lower_bound * (1 + tol / _TRIED):
        return None
    variances = np.sum(found.factor**2, axis=0)
    margin = 1 + ROUNDED * (1 + size / MANY_DIMENSIONS)
    beyond = variances * margin**2 - level**2
    axes = found.factor * np.sqrt(beyond / variances)
    factor = scipy.linalg.solve_triangular(triangle.T, axes)
    lower_bound = found.lower_bound + (size - rank) * level**2
    weights = None
    if len(found.weights) == points.shape[1]:
        weights = found.weights
    return Cheapest(span @ factor, lower_bound * (1 - ROUNDED), weights, holds=True)


def _even_floor(problem: DesignProblem) -> float | None:
    """Root of what the floor costs in each direction, None if that is not the same in all.

    Then noise other than the floor is of use only in directions that hidden moves take.
    """
    if not problem.floor.any():
        return 0.0
    priced = problem.price.root(np.diag(problem.floor))
    costs = priced.T @ priced
    even = costs.trace() / len(costs)
    if np.abs(costs - even * np.eye(len(costs))).max() > EPS * len(costs) * even:
        return None
    return math.sqrt(even)


@lru_cache(maxsize=2)  # a search for a floor asks again and again
def _span_of(responses: Responses) -> NDArray[np.float64]:
    """Orthonormal columns (m, r) that span the responses to single moves and balls."""
    span = _span(np.hstack([responses.singles, *responses.balls]))
    span[~responses.moved] = 0.0  # no noise where rounding alone would put some
    return span


def _span(columns: NDArray[np.float64]) -> NDArray[np.float64]:
    """Orthonormal columns (m, r) that span the others.

    The first ones may do, as single changes do for those that last.
    """
    first = columns[:, : len(columns)]
    span, _ = _pivoted(first)
    outside = columns - span @ (span.T @ columns)
    if np.abs(outside).max() > UNSEEN * np.abs(columns).max():
        span, _ = _pivoted(columns)
    return span


def _basis(columns: NDArray[np.float64]) -> NDArray[np.float64]:
    """Columns that span the others with small coordinates."""
    _, chosen = _pivoted(columns)
    return columns[:, np.sort(chosen)]


def _pivoted(
    columns: NDArray[np.float64],
) -> tuple[NDArray[np.float64], NDArray[np.integer]]:
    """An orthonormal basis (m, r) of columns, and the indices (r,) of some that span it."""
    span, triangle, order = scipy.linalg.qr(columns, mode="economic", pivoting=True)
    pivots = np.abs(np.diag(triangle))
    rank = np.count_nonzero(pivots > rank_tolerance(columns, pivots))
    return np.asarray(span[:, :rank], float), order[:rank]
