"""Design noise that hides secrets which arrive during the run.

It is correlated over the whole horizon, and still causal. The covariance of all samples
together is the cheapest ellipsoid around the outputs' responses to every hidden move. Its
lower triangular root makes gamma(t) from entries drawn up to t, and that root is certified
in floating point.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from itertools import count
from typing import NamedTuple

import numpy as np
import scipy.linalg
import scipy.optimize
from numpy.typing import NDArray

from ..core.adjacency import Adjacency
from ..noise._endless import NO_NOISE
from ..noise.parts import Correlated, Driven, NoisePart, White
from ..noise.whitened import floored_root, shift_sizes, triangular_root
from ..numerics.ellipsoid import rough_shape, rough_shape_over_time, weight_triangle
from ..numerics.errors import PrivacyError, UncertifiableError
from ..numerics.linalg import EPS, float_above, rank_tolerance, round_up
from ..numerics.progress import piece, search_round
from ..numerics.thresholds import (
    LARGEST_EXCESS,
    LEAST_PRICE,
    MANY_DIMENSIONS,
    ROUNDED,
    UNSEEN,
)
from ..privacy.budget import scale_to_budget
from ..secrets.disturbance import (
    disturbances,
)
from ..secrets.secret import Apart, Responses, Windows, all_responses
from .long_design import root_from_rest
from .problem import DesignProblem, Proposal, white_cost
from .robust import covering_ellipsoid, remainder
from .windowed import Run, SpectrumProblem, WindowsOfRun

#: Relative size of the noise in directions that no hidden move takes. What rounding leaves
#: of a secret there stays covered, at a relative cost of its square.
_PADDING = 1e-6
#: Relative gap of the shape. The padding and rounding cost about as much over long runs.
_GAP = 1e-7
#: The least scale, where the floor alone is nearly enough, and the largest logarithm of one.
_LEAST = 1e-150
_HIGHEST = -math.log(_LEAST)
#: Steps of its logarithm.
_STEP = math.log(4)
#: Floors that are tried for changes that come apart, as shares of independent noise, and
#: the gap at which a search beside them ends.
_SHARES = (0.03, 0.1, 0.3)
_OF_A_TRY = 1e-3
#: Hidden moves, and axes of balls, from which on it ends at a tenth of that. So it does for
#: several plants beside a floor.
_MANY_MOVES = 1000
#: Share of its gap at which a search ends, so rounding leaves it below that.
_TRIED = 0.9
#: The triangular root, and the certified sizes of shifts.
Fitted = tuple[NDArray, NDArray]


class _Cheapest(NamedTuple):
    """The cheapest noise of single changes beyond a floor.

    Attributes
    ----------
    root : ndarray, shape (m, r)
    lower_bound : float
    weights : ndarray, shape (M,), or None
        Those of single moves, where they are known.
    windows : tuple of ndarray
        Matrices of the weights of changes of any shape, in each window.
    """

    root: NDArray
    lower_bound: float
    weights: NDArray | None = None
    windows: tuple[NDArray, ...] = ()

    def spread(self, changes: Apart | Windows) -> NDArray | None:
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
        for kind, own in zip(kinds, changes.index, strict=True):
            columns.append(changes.columns[:, own] @ roots[kind][: len(own)])
        return np.hstack(columns)


def _places_among_equals(values: NDArray) -> NDArray:
    """Return for each value how many equal ones come before it."""
    order = np.argsort(values, kind="stable")
    ordered = values[order]
    places = np.empty(len(values), int)
    places[order] = np.arange(len(values)) - np.searchsorted(ordered, ordered)
    return places


def is_energy_ball(adjacency: Adjacency) -> bool:
    """Return whether the secret is any signal of bounded energy over the whole horizon."""
    changes = disturbances(adjacency)
    if len(changes) != 1 or len(adjacency.parts) > 1:
        return False
    return changes[0].norm == "l2" and changes[0].times is None


def correlated(problem: DesignProblem) -> Proposal:
    """The Gaussian noise of least weighted variance that hides disturbances."""
    request = problem.request
    responses = all_responses(request.adjacency, problem.plants, problem.horizon)
    if not responses.moved.any():
        raise PrivacyError(NO_NOISE)
    found = _cheapest(problem, responses)
    shape, lower_bound = found.root, found.lower_bound
    events = max([each.events for each in responses.apart], default=1)
    events = max([events, *(each.events for each in responses.windows)])
    if events > 1:
        sized = _cheaper_apart(problem, shape, responses)
        # the bound is for all moves sqrt(k) times as large; any noise hides single ones
        lower_bound /= events
        of_sums = _bound_of_several(problem, responses, found)
        lower_bound = max(lower_bound, of_sums, white_cost(problem, problem.floor))
    elif responses.windows:
        sized = dense_noise(
            problem, scaled_to_fit(problem, shape, responses), responses
        )
        lower_bound = min(lower_bound, sized.cost)
    else:
        sized = dense_noise(problem, shape, responses)
    gap = sized.cost / lower_bound - 1
    return replace(sized, lower_bound=lower_bound, gap=gap)


def _bound_of_several(
    problem: DesignProblem, responses: Responses, found: _Cheapest
) -> float:
    """No Gaussian noise costs less that hides several changes at a distance, 0 if unknown.

    The changes of a sum have signs of their own, so on average over the signs k changes are
    hidden as well as if they shared nothing: the bound is k times that for weights of
    single changes. These must be a mean over sums of k. So they are if those that start
    within the separation have a k-th of all weights at most, wherever it begins, for the
    matrix of such intervals is totally unimodular. The weights of the search for single
    changes are spread evenly over all starts.
    """
    several: list[Apart | Windows] = [*responses.apart, *responses.windows]
    is_moving = any(p.is_moving for p in disturbances(problem.request.adjacency))
    if len(several) > 1 or len(problem.plants) > 1 or is_moving:
        return 0.0
    (changes,) = several
    columns = found.spread(changes)
    if columns is None:
        return 0.0
    times = np.unique(changes.starts)
    ends = np.searchsorted(times, times + changes.separation)
    together = (ends - np.arange(len(times))).max() / len(times)
    counted = min(changes.events, 1 / together)
    priced = problem.weight_root(columns / problem.allowed_beside_grid)
    (triangle,) = scipy.linalg.qr(priced.T, mode="r", check_finite=False)
    sizes = scipy.linalg.svdvals(triangle[: len(priced)])
    return float(counted * sizes.sum() ** 2 * (1 - ROUNDED))


def _cheaper_apart(
    problem: DesignProblem, shape: NDArray, responses: Responses
) -> Proposal:
    """The cheapest one of some shapes for changes that come apart, scaled to their sums.

    Changes share less of noise without a horizon, over long times, and of noise with a
    larger white part than of the noise that is the best for single changes.
    """
    shapes = [shape]
    lasting = root_from_rest(problem)
    if lasting is not None:
        shapes.append(lasting)
    shapes += _with_larger_floors(problem, shape, responses)
    sized = []
    for number, root in enumerate(shapes):
        with piece(number, len(shapes)):
            fitting = scaled_to_fit(problem, root, responses)
            sized.append(dense_noise(problem, fitting, responses))
    return min(sized, key=lambda each: each.cost)


def _with_larger_floors(
    problem: DesignProblem, shape: NDArray, responses: Responses
) -> list[NDArray]:
    """Roots (m, r) of the cheapest covariances for larger floors, and of what is added.

    The floors are shares of independent noise that hides the secret. In many dimensions,
    where each design takes seconds, they are added to the ``shape`` (m, r) of the floor
    that is there.
    """
    size = len(problem.floor)
    independent = shift_sizes(np.eye(size), responses).max() / problem.allowed
    roots = []
    for share in _SHARES:
        floor = np.maximum(problem.floor_std, share * independent)
        request = replace(problem.request, floor=floor)
        larger = replace(problem, request=request)
        beyond = shape
        if size < MANY_DIMENSIONS:
            beyond = _cheapest(larger, responses, _OF_A_TRY).root
        added = np.sqrt(larger.floor**2 - problem.floor**2)
        roots.append(np.hstack([beyond, np.diag(added)]))
    return roots


def dense_noise(
    problem: DesignProblem, shape: NDArray, responses: Responses
) -> Proposal:
    """The noise of a root (m, r), enlarged by what rounding takes from its guarantee."""
    lower = _fitted(problem, shape, responses)
    parts: list[NoisePart] = []
    if lower.any():
        parts.append(Correlated(lower, problem.plant.output_count))
    if problem.floor.any():
        parts.append(White(problem.floor_std))
    cost = problem.cost(lower) + white_cost(problem, problem.floor)
    return Proposal(tuple(parts), cost)


def _cheapest(
    problem: DesignProblem, responses: Responses, rough: float = _GAP
) -> _Cheapest:
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
    covered = [responses.points / allowed]
    covered += [ball / allowed for ball in responses.balls]
    has_floor = problem.floor.any()
    if has_floor:
        covered.append(np.diag(problem.floor))
    together = np.hstack(covered)
    basis = _basis(together)
    ends = np.cumsum([part.shape[1] for part in covered])
    every = scipy.linalg.lstsq(basis, together)[0]
    points, *balls = np.split(every, ends[:-1], axis=1)
    weight_factor = weight_triangle(problem.weight_root(basis))
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
    return _Cheapest(basis @ factor, found.lower_bound, weights)


def _cheapest_in_windows(problem: DesignProblem, responses: Responses) -> _Cheapest:
    """The same for changes of any shape, within the gap of the request.

    Of several changes each counts as if the others shared nothing with it.
    """
    allowed = problem.allowed_beside_grid
    points = responses.points / allowed
    balls = [ball / allowed for ball in responses.balls]
    has_floor = problem.floor.any()
    if has_floor:
        balls.append(np.diag(problem.floor))
    impulses: list[NDArray] = []
    index: list[NDArray] = []
    for several in responses.windows:
        before = sum(each.shape[1] for each in impulses)
        impulses.append(several.columns * (math.sqrt(several.events) / allowed))
        index += [before + own for own in several.index]
    every = np.hstack(impulses)
    hidden = [every[:, own.ravel()] for own in index]
    if not any(each.any() for each in (points, *hidden, *responses.balls)):
        raise PrivacyError(NO_NOISE)  # what moves is seen after the run, if at all
    span = _span(np.hstack([points, *balls, every]))
    moved = responses.moved | (problem.floor > 0)
    span[~moved] = 0.0  # no noise where rounding alone would put some
    price = problem.weight_root(span)
    values, axes = np.linalg.eigh(price.T @ price)
    roots = np.sqrt(np.maximum(values, 0.0))
    raised = np.maximum(roots, LEAST_PRICE * roots.max())
    into = (axes * raised).T @ span.T

    def seen(columns: NDArray) -> NDArray:
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
    return _Cheapest(out @ factor, bound, windows=found.weights.windows)


def _tolerance(problem: DesignProblem, responses: Responses) -> float:
    """The relative gap at which the search for a covariance ends."""
    size, moves = responses.points.shape
    if size >= MANY_DIMENSIONS:
        return max(_GAP, _TRIED * problem.request.gap)
    is_of_several = len(problem.plants) > 1 and problem.floor.any()
    if moves >= _MANY_MOVES or is_of_several:
        return max(_GAP, 0.1 * problem.request.gap)
    return _GAP


def _nearly_cheapest(
    problem: DesignProblem, responses: Responses, tol: float
) -> _Cheapest | None:
    """The same in many dimensions. None in few, or if it does not come within the gap."""
    size = len(responses.points)
    level = _even_floor(problem)
    if level is None or (responses.balls and not level):
        return None
    points = responses.points / problem.allowed_beside_grid
    balls = [ball / problem.allowed_beside_grid for ball in responses.balls]
    span = _span(np.hstack([points, *balls]))
    span[~responses.moved] = 0.0  # no noise where rounding alone would put some
    rank = span.shape[1]
    if rank < MANY_DIMENSIONS and not level:
        return None
    triangle = weight_triangle(problem.weight_root(span))
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
    beyond = variances * (1 + ROUNDED) ** 2 - level**2  # the first evaluation will do
    axes = found.factor * np.sqrt(beyond / variances)
    factor = scipy.linalg.solve_triangular(triangle.T, axes)
    lower_bound = found.lower_bound + (size - rank) * level**2
    weights = None
    if len(found.weights) == points.shape[1]:
        weights = found.weights
    return _Cheapest(span @ factor, lower_bound * (1 - ROUNDED), weights)


def _even_floor(problem: DesignProblem) -> float | None:
    """Root of what the floor costs in each direction, None if that is not the same in all.

    Then noise other than the floor is of use only in directions that hidden moves take.
    """
    if not problem.floor.any():
        return 0.0
    priced = problem.weight_root(np.diag(problem.floor))
    costs = priced.T @ priced
    even = costs.trace() / len(costs)
    if np.abs(costs - even * np.eye(len(costs))).max() > EPS * len(costs) * even:
        return None
    return math.sqrt(even)


def _span(columns: NDArray) -> NDArray:
    """Orthonormal columns (m, r) that span the others.

    The first ones may do, as single changes do for those that last.
    """
    first = columns[:, : len(columns)]
    span, _ = _pivoted(first)
    outside = columns - span @ (span.T @ columns)
    if np.abs(outside).max() > UNSEEN * np.abs(columns).max():
        span, _ = _pivoted(columns)
    return span


def _basis(columns: NDArray) -> NDArray:
    """Columns that span the others with small coordinates."""
    _, chosen = _pivoted(columns)
    return columns[:, np.sort(chosen)]


def _pivoted(columns: NDArray) -> tuple[NDArray, NDArray]:
    """An orthonormal basis (m, r) of columns, and the indices (r,) of some that span it."""
    span, triangle, order = scipy.linalg.qr(columns, mode="economic", pivoting=True)
    pivots = np.abs(np.diag(triangle))
    rank = np.count_nonzero(pivots > rank_tolerance(columns, pivots))
    return span[:, :rank], order[:rank]


def _fitted(problem: DesignProblem, factor: NDArray, responses: Responses) -> NDArray:
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


def evaluated(problem: DesignProblem, factor: NDArray, responses: Responses) -> Fitted:
    """The triangular root of a factor, and the certified sizes next to the floor."""
    padding = np.diag(_PADDING * np.linalg.norm(factor, axis=1))
    lower = triangular_root(np.hstack([factor, padding]))
    if not problem.floor.any():
        return lower, shift_sizes(lower, responses)
    total, error_bound = floored_root(lower, problem.floor)
    return lower, shift_sizes(total, responses) * (1 + error_bound)


def scaled_to_fit(
    problem: DesignProblem, shape: NDArray, responses: Responses
) -> NDArray:
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


def driven(problem: DesignProblem) -> Proposal:
    """The plant's response to white disturbances mu / y, for all signals of bounded energy.

    Gamma >= T_w diag(mu / y)^2 T_w^T is what hiding the ball demands, and this noise is
    that. A change dw of the signal is a shift of eta by dw / sizes, exactly, because E and
    F of the noise are the plant's own numbers.
    """
    (adjacency,) = disturbances(problem.request.adjacency)
    radii = adjacency.radii(problem.plant)
    sizes = round_up(radii / problem.allowed, 2)
    part = Driven(adjacency.system(problem.plant), sizes)
    forced = part.responses(problem.horizon).reshape(problem.query.size, -1)
    if not forced.any():
        raise PrivacyError(NO_NOISE)
    cost = problem.cost(forced)
    return Proposal((part,), cost, cost * (1 - 1e-12))
