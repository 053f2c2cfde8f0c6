"""Design noise that hides secrets which arrive during the run.

It is correlated over the whole horizon, and still causal. The covariance of all samples
together is the cheapest ellipsoid around the outputs' responses to every hidden move. Its
lower triangular root makes gamma(t) from entries drawn up to t, and that root is certified
in floating point.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

from ..noise.parts import Correlated, Driven, NoisePart, White
from ..noise.whitened import Whitening, dense_root, shift_sizes
from ..numerics.errors import PrivacyError
from ..numerics.linalg import round_up
from ..numerics.progress import piece
from ..numerics.thresholds import FEW_ROUNDS, MANY_DIMENSIONS, ROUGH, ROUNDED
from ..secrets.secret import NO_NOISE, Apart, Responses, Windows
from .cheapest_covariance import Cheapest, cheapest_covariance
from .fitted import fitted, root_of, scaled_to_fit
from .long_design import root_from_rest
from .problem import DesignProblem, Proposal
from .sums import sums_of_run

#: Floors that are tried for changes that come apart, as shares of independent noise.
_SHARES = (0.03, 0.1, 0.3)
#: Speed: share of the largest square of a sum from which on sums are hidden least.
_NEARLY = 0.95
#: Speed: changes and sums of them above which no more sums are looked for.
_MOST_HIDDEN = 800


def correlated(problem: DesignProblem) -> Proposal:
    """The Gaussian noise of least weighted variance that hides disturbances."""
    responses = problem.responses
    found = cheapest_covariance(problem, responses)
    shape, lower_bound = found.root, found.lower_bound
    several: list[Apart | Windows] = [*responses.apart, *responses.windows]
    events = max([each.spacing.events for each in several], default=1)
    if events > 1:
        sized = _cheaper_apart(problem, shape, responses)
        # the bound is for all moves sqrt(k) times as large; any noise hides single ones
        lower_bound /= events
        of_sums = _bound_of_several(problem, responses, found)
        lower_bound = max(lower_bound, of_sums, problem.price.of_white(problem.floor))
        if len(shape) < MANY_DIMENSIONS and _come_apart(responses):
            sized, of_sums = _beside_sums(problem, responses, sized)
            lower_bound = max(lower_bound, of_sums)
    elif responses.windows:
        sized = dense_noise(
            problem, scaled_to_fit(problem, shape, responses), responses
        )
        lower_bound = min(lower_bound, sized.cost)
    elif found.holds and not problem.floor.any():
        # the certificate will do; beside a floor it may be far from that
        sized = noise_of_root(problem, root_of(shape))
    else:
        sized = dense_noise(problem, shape, responses)
    gap = sized.cost / lower_bound - 1
    return replace(sized, lower_bound=lower_bound, gap=gap)


def _bound_of_several(
    problem: DesignProblem, responses: Responses, found: Cheapest
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
    is_moving = any(part.is_moving for part in problem.request.secret.disturbances)
    if len(several) > 1 or len(problem.plants) > 1 or is_moving:
        return 0.0
    (changes,) = several
    columns = found.spread(changes)
    if columns is None:
        return 0.0
    times = np.unique(changes.starts)
    ends = np.searchsorted(times, times + changes.spacing.separation)
    together = (ends - np.arange(len(times))).max() / len(times)
    counted = min(changes.spacing.events, 1 / together)
    priced = problem.price.root(columns / problem.allowed_beside_grid)
    (triangle,) = scipy.linalg.qr(priced.T, mode="r", check_finite=False)
    sizes = scipy.linalg.svdvals(triangle[: len(priced)])
    return float(counted * sizes.sum() ** 2 * (1 - ROUNDED))


def _cheaper_apart(
    problem: DesignProblem, shape: NDArray[np.float64], responses: Responses
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


def _come_apart(responses: Responses) -> bool:
    """Return whether changes of one kind at a distance are all that is hidden."""
    if len(responses.apart) != 1 or responses.balls or responses.windows:
        return False
    (changes,) = responses.apart
    return changes.columns.shape == responses.singles.shape


def _beside_sums(
    problem: DesignProblem, responses: Responses, sized: Proposal
) -> tuple[Proposal, float]:
    """The cheapest noise found, at first ``sized``, and a bound, for sums of changes.

    Whatever hides several changes hides their sums, so the cheapest noise for some of these
    is a bound. It is mixed with the cheapest noise so far, of which the sums that the
    mixture hides least join the others. The bound is 0 where the noise is too narrow for
    double precision.
    """
    (changes,) = responses.apart
    hidden = changes.columns
    lower_bound = 0.0
    tried = sized
    for update in range(FEW_ROUNDS):
        sums = _worst_sums(problem, changes, tried)
        if sums is None:
            break
        hidden = np.hstack([hidden, sums])
        single = replace(responses, points=hidden, apart=())
        with piece(update, FEW_ROUNDS):
            found = cheapest_covariance(problem, single, ROUGH)
            lower_bound = max(lower_bound, found.lower_bound)
            shape = _mixed(found.root, sized)
            fitting = scaled_to_fit(problem, shape, responses)
            tried = dense_noise(problem, fitting, responses)
        sized = min(sized, tried, key=lambda each: each.cost)
        is_near = sized.cost <= lower_bound * (1 + problem.request.gap)
        if is_near or hidden.shape[1] > _MOST_HIDDEN:
            break
    return sized, lower_bound


def _worst_sums(
    problem: DesignProblem, changes: Apart, noise: Proposal
) -> NDArray[np.float64] | None:
    """The responses (m, S) to sums of changes that noise hides least, None if unknown."""
    root, _ = dense_root(noise.parts, problem.horizon)
    if root is None:
        return None
    whitened, _ = Whitening(root)(changes.columns)
    signs = sums_of_run(whitened, changes)
    squares = np.sum((whitened @ signs) ** 2, axis=0)
    is_hidden_least = squares >= _NEARLY * squares.max()
    return np.asarray(changes.columns @ signs[:, is_hidden_least])


def _mixed(root: NDArray[np.float64], noise: Proposal) -> NDArray[np.float64]:
    """The root of the mean of two covariances, apart from a floor."""
    roots = [root, *(part.root for part in noise.parts if isinstance(part, Correlated))]
    return np.hstack(roots) / math.sqrt(2)


def _with_larger_floors(
    problem: DesignProblem, shape: NDArray[np.float64], responses: Responses
) -> list[NDArray[np.float64]]:
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
            beyond = cheapest_covariance(larger, responses, ROUGH).root
        added = np.sqrt(larger.floor**2 - problem.floor**2)
        roots.append(np.hstack([beyond, np.diag(added)]))
    return roots


def dense_noise(
    problem: DesignProblem, shape: NDArray[np.float64], responses: Responses
) -> Proposal:
    """The noise of a root (m, r), enlarged by the rounding of its guarantee."""
    return noise_of_root(problem, fitted(problem, shape, responses))


def noise_of_root(problem: DesignProblem, lower: NDArray[np.float64]) -> Proposal:
    """The noise of a triangular root (m, m) beside the floor."""
    parts: list[NoisePart] = []
    if lower.any():
        parts.append(Correlated(lower, problem.plant.output_count))
    if problem.floor.any():
        parts.append(White(problem.floor_std))
    cost = problem.price.cost(lower) + problem.price.of_white(problem.floor)
    return Proposal(tuple(parts), cost)


def driven(problem: DesignProblem) -> Proposal:
    """The plant's response to white disturbances mu / y, for all signals of bounded energy.

    Gamma >= T_w diag(mu / y)^2 T_w^T is what hiding the ball demands, and this noise is
    that. A change dw of the signal is a shift of eta by dw / sizes, exactly, because E and
    F of the noise are the plant's own numbers.
    """
    (adjacency,) = problem.request.secret.disturbances
    radii = adjacency.radii(problem.plant)
    sizes = round_up(radii / problem.allowed, 2)
    part = Driven(adjacency.system(problem.plant), sizes)
    forced = part.responses(problem.horizon).reshape(problem.query.size, -1)
    if not forced.any():
        raise PrivacyError(NO_NOISE)
    cost = problem.price.cost(forced)
    return Proposal((part,), cost, cost * (1 - 1e-12))
