"""Design noise without a horizon, and noise of low order for a long one.

The noise is gamma = M nu with white nu, and M and its inverse are stable. It has a spectrum
S = M M^*, its cost is the mean of tr(W S) over the circle, and it hides a move with response
g(w) if the mean of g^* S^-1 g is at most y^2. This is the problem of the cheapest enclosing
ellipsoid at every frequency, coupled by the means. The best spectrum is factored, and the
Hankel matrix of the factor's phase gives a balanced realisation, of which the first states
are kept (Kung 1978; Moore 1981). Cost and privacy shift are those of the M that is used, and
the bound holds for any Gaussian noise.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache, partial
from typing import NamedTuple

import numpy as np
import scipy.fft
import scipy.linalg
import scipy.sparse.linalg
from numpy.typing import NDArray
from scipy.interpolate import CubicSpline

from ..noise._autoregression import (
    are_told_apart,
    autoregression_for,
    hides_by_correlations,
    shift_behind_autoregression,
)
from ..noise._endless import endless_secret, joint_shift, shift_behind
from ..noise._patterns import MOST_EXACT, MOST_RELAXED, largest_signs
from ..noise.parts import Filtered, NoisePart, White
from ..numerics.ellipsoid import rough_shape
from ..numerics.errors import PrivacyError, UncertifiableError
from ..numerics.linalg import EPS, float_above, round_up
from ..numerics.objects import ByContent
from ..numerics.progress import piece, search_round
from ..numerics.thresholds import ALIKE, FINE, LEAST_PRICE, ROUNDED
from ..privacy.budget import scale_to_budget
from ..secrets.disturbance import causal_map, is_plain
from ..secrets.secret import SecretInputs, as_secret
from ..systems.linear import (
    Autoregression,
    LinearSystem,
    frequency_response,
    impulse_energies,
    poles_of,
    response_from_rest,
    spectral_radius,
)
from .problem import (
    DesignProblem,
    Proposal,
    StationaryDesign,
    Weight,
    price_of,
    white_cost,
)
from .request import Request
from .sums import LevelSums, with_sums
from .windowed import (
    BestSpectrum,
    SpectrumProblem,
    WindowResponse,
    WindowsOnCircle,
)

#: Samples from which on noise of low order is tried before a dense design.
_LONG = 50
#: Dimensions up to which the bound for a run is searched for, and updates of the search.
_MOST_DIMENSIONS = 3000
_OF_A_BOUND = 24
#: Moves that a bound is made of. Of more only those count whose stationary weight is not
#: small compared with the largest.
_MOST_MOVES = 8000
_LEAST_SHARE = 1e-3
#: Largest shift of noise next to a floor that almost suffices, over the allowed one.
_MOST_LEFT = 1e3
#: Orders from one up to below this are tried for changes at a distance.
_LOW_ORDERS = 5
#: Why an event of secret time needs a signal for each output.
_NOT_EXACT = (
    "moved: the outputs outnumber the secret signals, and C (A - I) is rounded in double "
    "precision, so noise that enters the plant with the signal would leave a direction "
    "bare; publish as many outputs as there are secret signals"
)
#: The same of differences of two signals, and of states at a later time.
_ROUNDED = (
    "adjacency: the outputs outnumber the secret's moves, which are rounded in double "
    "precision, so noise that enters the plant with them would leave a direction bare; "
    "publish as many outputs as there are moves, or design for a finite horizon"
)
#: The gap that is asked for by default.
_USUAL_GAP = 0.01
#: Orders of autoregressions that are tried, relative to the longest change, and its length
#: from which on they are.
_AUTOREGRESSIVE = (2, 4)
_LONG_CHANGE = 32
#: Largest order that is looked for: in all, or for each output where that is more.
MOST_STATES = 48
_OF_OUTPUT = 12
#: Frequencies at which a plant is looked at, and its least relative gain for noise that
#: enters with the secret.
_LOOKED_AT = 33
_NEVER_SILENT = 1e-4
#: Orders without gain after which the search for one ends, for long changes of any shape,
#: and gaps beyond the one asked for at which their first realisation will do.
_PATIENCE = 40
_NEAR_ENOUGH = 2
#: Speed: problems whose shapings are kept.
_KEPT = 8
#: White noise added to a spectrum that almost vanishes somewhere, as a part of the gap,
#: and how many times the gap of a further attempt is that of the one before.
_FLOOR = 0.1
_COARSER = 10.0
#: Relative size of the last coefficients of a resolved factor, as a part of the gap.
RESOLVED = 1e-5
_SMALLEST_GRID = 2**9
_LARGEST_GRID = 2**16
#: Points for each oscillation of a shape's spectrum, and how many they may make.
_POINTS_OF_A_WAVE = 8
_MOST_FOR_SHAPES = 2**13
#: Largest size of a Hankel matrix; what comes later is cut off.
_LARGEST_HANKEL = 1200
#: Size of a Hankel matrix up to which all of its singular values are computed.
_DENSE = 500
#: Seed of the first vector of the search for the leading ones.
_START = 0


# -- designs -----------------------------------------------------------------------------


def endless(problem: DesignProblem) -> Proposal:
    """Noise without a horizon.

    A white floor hides as well. The filtered noise is the least one that is needed next to
    it, none where the floor suffices.
    """
    request = problem.request
    secret = endless_secret(request.adjacency, problem.plant)
    price = price_of(problem.weight, problem.plant.output_count)
    allowed = request.allowed_shift
    floor: tuple[NoisePart, ...] = ()
    own = math.inf
    own_cost = 0.0
    if request.floor is not None:
        own = white_shift(secret, request.floor)
        white = LinearSystem.gain(np.diag(request.floor))
        own_cost = _mean_cost(price, white)
        floor = (White(request.floor),)
    if own <= allowed:
        design = StationaryDesign(
            Filtered(white), own, own_cost, own_cost, secret.scaled_system
        )
        floor = ()
    else:
        left = _left_to_hide(allowed, own)
        if request.family == "iid-gaussian":
            design = white_design(secret, left, price)
        else:
            design = stationary_design(
                secret,
                left,
                price,
                order=request.order,
                gap=request.gap,
            )
    gap = design.gap
    if floor:
        bound = design.lower_bound * (design.shift / allowed) ** 2
        design = replace(
            design,
            shift=joint_shift(design.shift, own),
            cost=design.cost + own_cost,
            lower_bound=max(bound, own_cost),
        )
    parts = (design.part, *floor)
    return Proposal(parts, design.cost, design.lower_bound, design, gap)


def _left_to_hide(allowed: float, own: float) -> float:
    """Return the shift that is left to noise next to a floor with a shift of its own."""
    if own == math.inf:
        return allowed
    information = allowed**-2 - own**-2
    left = information**-0.5 * (1 - 1e-12)
    return min(left, _MOST_LEFT * allowed)


def long_noise(problem: DesignProblem) -> Proposal | None:
    """Noise of low order for a long but finite run, from rest.

    None if the run is short, or the noise is not certified to be within ``request.gap`` of
    the best, or there is no noise without a horizon.
    """
    request = problem.request
    if not _is_long_and_plain(request, problem.weight):
        return None
    found = _of_any_length(problem)
    if found is None:
        return None
    secret, price, design = found
    horizon = problem.horizon
    allowed = request.allowed_shift
    part = _from_rest(design)
    impulse = price.after(design.output).impulse_response(horizon)
    remaining = np.arange(horizon, 0, -1)
    energies = np.sum(impulse**2, axis=(1, 2))
    cost = float(remaining @ energies)
    enough = cost / (1 + request.gap) * allowed**2
    bound = _bound_of_run(secret, price, design.multipliers, horizon, enough)
    bound = bound / allowed**2
    if not cost <= bound * (1 + request.gap):
        return None
    return Proposal((part,), cost, min(bound, cost), design)


def least_cost_of_white(problem: DesignProblem) -> float:
    """No independent noise of one size that hides plain changes costs less over a horizon.

    It hides those at the first sample, in units of their norms.
    """
    horizon = problem.horizon
    norms = []
    for part in problem.request.adjacency.parts:
        inputs = as_secret(part).starting(problem.plant, horizon)
        norms.append(inputs.largest_norm(horizon))
    size = max(norms) / problem.allowed * (1 - ROUNDED)
    return white_cost(problem, np.full(problem.query.size, size))


def root_from_rest(problem: DesignProblem) -> NDArray | None:
    """A root (T p, T r) of noise without a horizon from rest, None if there is none."""
    found = _of_any_length(problem)
    if found is None:
        return None
    _, _, design = found
    responses = _from_rest(design).responses(problem.horizon)
    return responses.reshape(problem.query.size, -1)


def _from_rest(design: StationaryDesign) -> NoisePart:
    """Return the noise of a design, begun at rest."""
    part = design.part
    return (
        replace(part, starts_stationary=False) if isinstance(part, Filtered) else part
    )


def _of_any_length(
    problem: DesignProblem,
) -> tuple[SecretInputs, LinearSystem, StationaryDesign] | None:
    """The secret, the price and the design without a horizon, if there is one."""
    request = problem.request
    if problem.varies:
        return None
    try:
        price = price_of(problem.weight, problem.plant.output_count)
        secret = endless_secret(request.adjacency, problem.plant)
        design = stationary_design(
            secret, request.allowed_shift, price, gap=request.gap / 4
        )
    except (ValueError, PrivacyError, UncertifiableError):
        return None
    return secret, price, design


def _is_long_and_plain(request: Request, weight: Weight) -> bool:
    """Return whether a long run is asked for, with disturbances of at most some forty shapes."""
    if request.horizon < _LONG or request.has_models or request.family != "gaussian":
        return False
    options = (request.floor, request.resolution, request.factor)
    if any(option is not None for option in options):
        return False
    if isinstance(weight, (np.ndarray, list, tuple)) and len(weight) > _LONG:
        return False  # a weight of all samples
    return is_plain(request.adjacency)


def _bound_of_run(
    secret: SecretInputs,
    price: LinearSystem,
    multipliers: NDArray,
    horizon: int,
    enough: float,
) -> float:
    """No Gaussian noise of a finite run, for a shift of one, costs less than this.

    For probability weights of the moves it is the squared nuclear norm of their weighted
    responses. The stationary weights do in long runs. Otherwise a search for better ones
    ends at a bound of ``enough``.
    """
    relative = multipliers / multipliers.max()
    changes = secret.changes(horizon)
    if horizon * len(multipliers) > _MOST_MOVES:
        is_heavy = relative >= _LEAST_SHARE
        relative = relative[is_heavy]
        changes = changes[:, :, is_heavy]
    shares = np.maximum(relative, LEAST_PRICE)
    shares /= shares.sum()
    priced = price.after(secret.system)
    weighted = changes * np.sqrt(shares)
    bound = nuclear_norm_below(response_from_rest(priced, weighted))
    dimensions = horizon * min(secret.inputs, len(price.C))
    if bound >= enough or dimensions > _MOST_DIMENSIONS:
        return bound
    every = causal_map(priced.impulse_response(horizon))
    (responses,) = scipy.linalg.qr(every, mode="r")
    points = responses[: every.shape[1]] @ causal_map(changes)
    weights = np.tile(shares / horizon, horizon)
    found = rough_shape(
        points,
        0.0,
        weights=weights,
        enough=enough,
        updates=_OF_A_BOUND,
    )
    return found.lower_bound


def nuclear_norm_below(impulse: NDArray) -> float:
    """A bound of the squared nuclear norm of a causal map with weights of times.

    ``impulse`` (T, k, q) is the response to an impulse. The inner product with a matrix of
    norm one is below the nuclear norm. This one is a part of the circulant matrix whose
    blocks at each frequency are the polar factors of the map's. Its product with the
    responses to impulses at each time is h(t), and weights h(t)^2 with sum one give
    sum h(t)^2.
    """
    samples = len(impulse)
    count = scipy.fft.next_fast_len(2 * samples, real=True)
    values = np.fft.rfft(impulse, count, axis=0)
    left, _, right = np.linalg.svd(values, full_matrices=False)
    phases = np.fft.irfft(left @ right, count, axis=0)[:samples]
    by_sample = np.sum(phases * impulse, axis=(1, 2))
    products = np.maximum(np.cumsum(by_sample), 0.0)
    return float(products @ products) * (1 - ROUNDED)


# -- without a horizon -------------------------------------------------------------------


def stationary_design(
    secret: SecretInputs,
    allowed: float,
    weight: LinearSystem,
    *,
    order: int | None = None,
    gap: float,
) -> StationaryDesign:
    """The cheapest noise without a horizon for a secret and an allowed privacy shift.

    The cost is the mean square of H gamma, H the weight. The shaping has at most ``order``
    states, by default the least number within ``gap`` of the bound. It is the
    cheapest certified noise of all that was tried.
    """
    if secret.energies is not None:
        return _plant_driven(secret, secret.energies, allowed, weight)
    response = None
    problem = _Problem(secret, weight, order, gap)
    if _enters_with(secret):
        if secret.origin is not None:
            raise PrivacyError(_NOT_EXACT)
        entries = np.count_nonzero(
            np.vstack([secret.system.B, secret.system.D]), axis=0
        )
        if any(moves.rounded and entries[moves.column] > 1 for moves in secret.signals):
            raise PrivacyError(_ROUNDED)
        response = secret.system
        hidden = replace(secret, system=LinearSystem.gain(np.eye(secret.inputs)))
        problem = _Problem(hidden, weight.after(response), order, gap)
    driven = None
    if secret.windows and not secret.signals and not secret.balls:
        driven = _driven_in_windows(secret, allowed, weight)
        if max(window.size for window in secret.windows) > MOST_RELAXED:
            return driven
        if order is None:
            problem = replace(problem, enough=driven.cost * allowed**2 / (1 + gap))
    with piece(0, 2):
        best = _spectrum_for(problem)
    bound = best.lower_bound / allowed**2
    if driven is not None and order is None and driven.cost <= bound * (1 + gap):
        return replace(driven, lower_bound=min(bound, driven.cost))
    with piece(1, 2):
        found = _cheapest_certified(problem, allowed)
    if driven is not None and order is None and driven.cost < found.cost:
        return replace(driven, lower_bound=min(bound, driven.cost))
    return StationaryDesign(
        Filtered(found.shaping, response),
        found.shift,
        found.cost,
        min(bound, found.cost),
        secret.scaled_system,
        best.multipliers,
    )


class _Certified(NamedTuple):
    """A shaping with its certified shift, and its cost."""

    shaping: LinearSystem
    shift: float
    cost: float


def _cheapest_certified(problem: _Problem, allowed: float) -> _Certified:
    """The cheapest certified shaping of all that are tried.

    Where several changes miss a large gap, those of the usual gap are tried as well.
    """
    least = _cheapest_within(problem, allowed)
    if not problem.secret.several or problem.gap <= _USUAL_GAP:
        return least
    enough = _spectrum_for(problem).lower_bound / allowed**2 * (1 + problem.gap)
    if least.cost > enough:
        with suppress(UncertifiableError):
            finer = _cheapest_within(replace(problem, gap=_USUAL_GAP), allowed)
            least = min(least, finer, key=lambda each: each.cost)
    return least


def _cheapest_within(problem: _Problem, allowed: float) -> _Certified:
    """The cheapest certified shaping of those for a gap.

    They are realised from the best spectrum, then, as long as none is within the gap of
    the bound, from that with more and more white noise, and at last as for a larger gap.
    Where the best noise almost vanishes in some direction, double precision holds a
    realisation only of noise that does so less.
    """
    enough = _spectrum_for(problem).lower_bound / allowed**2 * (1 + problem.gap)
    least = _autoregressive(problem, allowed, enough)
    if least is not None and problem.sums is not None:
        return _no_dearer_than_once(problem, allowed, least)
    if least is not None and least.cost <= enough:
        return least
    refusal: UncertifiableError | None = None
    for asked, added in _attempts(problem):
        try:
            tried = _shapings_for(asked, added)
        except UncertifiableError as error:
            refusal = refusal or error
            continue
        for estimate, shaping in tried:
            if least is not None and estimate / allowed**2 >= least.cost * (1 - ALIKE):
                continue
            try:
                found = problem.certified(shaping, allowed)
            except UncertifiableError as error:
                refusal = refusal or error
                continue
            if least is None or found.cost < least.cost:
                least = found
        # an estimate counts several changes as if they shared nothing
        estimated, _ = tried[0]
        reached = estimated / allowed**2 if problem.secret.several else math.inf
        if least is not None and min(least.cost, reached) <= enough:
            break
        # other realisations of noise for changes of any shape take long, and are alike
        tolerable = enough * (1 + _NEAR_ENOUGH * problem.gap)
        if least is not None and problem.is_long and least.cost <= tolerable:
            break
    if least is None:
        raise refusal or UncertifiableError("order: no noise is certified")
    if problem.secret.several_apart:
        return _no_dearer_than_once(problem, allowed, least)
    return least


def _no_dearer_than_once(
    problem: _Problem, allowed: float, found: _Certified
) -> _Certified:
    """Return noise for several changes, or that for one of them, scaled, where it costs less."""
    alone = replace(problem, secret=problem.secret.once)
    shape = _cheapest_certified(alone, allowed).shaping
    is_long = isinstance(shape, Autoregression)
    if is_long and not hides_by_correlations(problem.secret):
        return found  # only the shift of one change is bounded
    try:
        scaled = problem.certified(shape, allowed)
    except UncertifiableError:
        return found
    return min(found, scaled, key=lambda each: each.cost)


def _autoregressive(
    problem: _Problem, allowed: float, enough: float
) -> _Certified | None:
    """The cheapest certified autoregression for one long change, None for other secrets.

    The spectrum of the best noise for a change of many samples takes as many states, and
    the inverse of an autoregression ends.
    """
    secret = problem.secret
    if not hides_by_correlations(secret) or secret.longest < _LONG_CHANGE:
        return None
    least = None
    for times in _AUTOREGRESSIVE:
        order = times * secret.longest
        if problem.order is not None and order > problem.order:
            break
        try:
            unit = autoregression_for(problem.covariances(order))
            shift = shift_behind_autoregression(unit, secret)
        except UncertifiableError:
            continue
        size = shift / allowed * (1 + 1e-12)  # above the roundings of the shift
        shaping = unit.scaled(size)
        found = _Certified(shaping, allowed, _mean_cost(problem.price, shaping))
        if least is None or found.cost < least.cost:
            least = found
        if least.cost <= enough:
            break
    return least


def _attempts(problem: _Problem) -> Iterator[tuple[_Problem, float]]:
    """The problem and shares of white noise, none at first; then for larger gaps."""
    gap = problem.gap
    yield problem, 0.0
    while gap <= 1:
        yield problem, _FLOOR * gap
        gap *= _COARSER
    gap = problem.gap * _COARSER
    while gap <= 1:
        yield replace(problem, gap=gap), 0.0
        gap *= _COARSER


def _plant_driven(
    secret: SecretInputs, radii: NDArray, allowed: float, weight: LinearSystem
) -> StationaryDesign:
    """The plant's response to white noise mu / y, for all signals of bounded energy.

    Its spectrum G diag(mu / y)^2 G^* is what hiding the ball demands at every frequency.
    """
    sizes = round_up(radii / allowed, 2)
    shift = float_above((radii / sizes).max())
    shaping = LinearSystem.gain(np.diag(sizes))
    cost = _mean_cost(weight, secret.system.after(shaping))
    bound = cost * (1 - 1e-12)
    part = Filtered(shaping, secret.system)
    return StationaryDesign(part, shift, cost, bound, secret.scaled_system)


def _enters_with(secret: SecretInputs) -> bool:
    """Return whether the noise enters the plant with the secret.

    It does where there are fewer signals than outputs. Noise for long changes of any shape
    is nearly what the plant makes of white noise, so that takes fewer states.
    """
    outputs = len(secret.system.C)
    longest = max([window.size for window in secret.windows], default=0)
    if longest > MOST_EXACT and secret.inputs == outputs:
        points = np.exp(1j * np.linspace(0, np.pi, _LOOKED_AT))
        response = frequency_response(secret.scaled_system, points)
        sizes = np.linalg.svd(response, compute_uv=False)
        return bool(sizes.min() > _NEVER_SILENT * sizes.max())
    return secret.inputs < outputs


def _driven_in_windows(
    secret: SecretInputs, allowed: float, weight: LinearSystem
) -> StationaryDesign:
    """The plant's response to white noise, for changes of any shape.

    k values within the radius mu are within the ball of energy k mu^2, and all such changes
    show alike. Nothing is known of the optimum.
    """
    sizes = np.zeros(secret.inputs)
    for window in secret.windows:
        times = window.events if window.separation == 0 else 1
        own = np.asarray(window.radii) * math.sqrt(window.size) * times
        sizes[list(window.columns)] = own

    def evaluated(size: float) -> tuple[tuple[LinearSystem, float], float]:
        shaping = LinearSystem.gain(np.diag(sizes * size))
        entry = replace(secret, system=LinearSystem.gain(np.eye(secret.inputs)))
        shift = shift_behind(shaping, entry)
        return (shaping, shift), shift / allowed

    (shaping, shift), _, _ = scale_to_budget(evaluated, float_above(1 / allowed, 2))
    cost = _mean_cost(weight, secret.system.after(shaping))
    part = Filtered(shaping, secret.system)
    return StationaryDesign(part, shift, cost, math.nan, secret.scaled_system)


def white_design(
    secret: SecretInputs, allowed: float, weight: LinearSystem
) -> StationaryDesign:
    """Independent noise of one size, of whose optimum nothing is known."""
    outputs = len(secret.system.C)
    unit = white_shift(secret, np.ones(outputs))
    size = float_above(unit / allowed, 4)
    shaping = LinearSystem.gain(size * np.eye(outputs))
    cost = _mean_cost(weight, shaping)
    part = Filtered(shaping)
    return StationaryDesign(part, allowed, cost, math.nan, secret.scaled_system)


def white_shift(secret: SecretInputs, sizes: NDArray) -> float:
    """A number that no shift of independent noise of some sizes (p,) exceeds."""
    return shift_behind(LinearSystem.gain(np.diag(sizes)), secret)


@lru_cache(maxsize=_KEPT)
def _spectrum_for(problem: _Problem) -> BestSpectrum:
    """The best spectrum, that of every budget, so a sweep over budgets finds it again."""
    return problem.optimum()


@lru_cache(maxsize=_KEPT)
def _shapings_for(problem: _Problem, added: float) -> list[tuple[float, LinearSystem]]:
    """Shapings for a shift of one and their estimated costs, the cheapest one first.

    They are realised from the best spectrum with a share of white noise that is added.
    Changes at a distance may share less of those of lower order, whose estimates say
    nothing.
    """
    best = _spectrum_for(problem)
    with piece(0, 2):
        balanced = problem.balanced(best, added)
    orders = range(balanced.order + 1)
    enough = best.lower_bound * (1 + problem.gap)
    if problem.order is not None:
        orders = orders[: problem.order + 1]
        enough = 0.0
    warp = problem.grid.warp
    candidates = (unwarped(truncated(balanced, k), warp) for k in orders)
    with piece(1, 2):
        found = [problem.cheapest(candidates, enough)]
    _, first = found[0]
    if problem.secret.several_apart:
        for k in range(1, min(first.order, _LOW_ORDERS)):
            lower = unwarped(truncated(balanced, k), warp)
            with suppress(UncertifiableError):
                _, shaping = problem.cheapest([lower], 0.0)
                found.append((0.0, shaping))
    return found


def _mean_cost(price: LinearSystem, shaping: LinearSystem) -> float:
    """Mean cost of a sample of shaped noise."""
    return float(impulse_energies(price.after(shaping)).sum())


@dataclass(frozen=True, eq=False)
class _Problem(ByContent):
    """A secret that shaped noise has to hide, the price of that noise, and its options."""

    secret: SecretInputs
    price: LinearSystem
    order: int | None
    gap: float
    enough: float = math.inf  # a bound at which the search for it ends

    @cached_property
    def grid(self) -> FrequencyGrid:
        """The frequencies at which the secret's responses and the price are resolved."""
        both = [poles_of(self.price), poles_of(self.secret.system)]
        poles = np.concatenate(both)
        if self.sums is not None:
            return FrequencyGrid.fitting_shapes(poles, self.sums.span)
        return FrequencyGrid.fitting(poles, self.secret.longest)

    @cached_property
    def sums(self) -> LevelSums | None:
        """The sums of long levels at a distance, None if the secret is another one."""
        secret = self.secret
        if not (secret.several_apart and are_told_apart(secret)):
            return None
        if secret.longest < _LONG_CHANGE or len(secret.signals) != 1:
            return None
        (moves,) = secret.signals
        return LevelSums(moves.longest, moves.events, moves.separation)

    @cached_property
    def responses(self) -> Responses:
        return Responses.of(self.secret, self.grid.points)

    @cached_property
    def prices(self) -> NDArray:
        """H (N/2 + 1, k, r) with the cost |H gamma|^2."""
        return frequency_response(self.price, self.grid.points)

    @property
    def is_long(self) -> bool:
        """Whether changes of any shape have so many values that each one takes a search."""
        return any(window.size > MOST_EXACT for window in self.secret.windows)

    def optimum(self) -> BestSpectrum:
        """The best spectrum."""
        gap = min(self.gap, 1.0)
        weight = _adjoint(self.prices) @ self.prices
        if self.sums is None:
            return best_spectrum(self.grid, weight, self.responses, gap, self.enough)

        def solved(columns: NDArray, start: NDArray | None) -> BestSpectrum:
            return best_spectrum(
                self.grid, weight, Responses(columns), gap, start=start
            )

        (moves,) = self.secret.signals
        response = frequency_response(self.secret.system, self.grid.points)
        impulse = response[:, 0, moves.column] * float(moves.radius)
        columns = self.responses.columns
        return with_sums(self.grid, impulse, self.sums, columns, solved, gap / 4)

    def covariances(self, lags: int) -> NDArray:
        """Covariances (lags + 1,) of the best noise with one output."""
        return self.grid.covariances(_spectrum_for(self).spectrum[:, 0, 0].real, lags)

    def balanced(self, best: BestSpectrum, added: float) -> LinearSystem:
        """A balanced system for a spectrum in the grid's variable.

        White noise of a share of each output's variance is added to the spectrum.
        """
        gap = min(self.gap, 1.0)
        factor, phase = _resolved_factors(self.grid, best.spectrum, gap, added)
        negligible = RESOLVED * gap
        most = max(MOST_STATES, _OF_OUTPUT * len(best.spectrum[0]))
        return balanced_realisation(factor, phase, most, negligible)

    def cheapest(
        self, shapings: Iterable[LinearSystem], enough: float
    ) -> tuple[float, LinearSystem]:
        """The cheapest of some shapings, or the first that costs no more than enough.

        Each is scaled to a shift of one. Its cost, which comes first, and its shift are
        means over the grid.
        """
        least = np.inf
        best = None
        best_order = 0
        for shaping in shapings:
            systems = (shaping, shaping.inverse())
            if max(map(spectral_radius, systems)) >= 1:
                continue
            with search_round(shaping.order):
                shaped = frequency_response(shaping, self.grid.points)
            left = self.responses.through(partial(np.linalg.solve, shaped))
            square = left.largest_square(self.grid)
            priced = np.abs(self.prices @ shaped) ** 2
            mean = self.grid.mean(priced.sum(axis=(1, 2)))
            cost = square * float(mean)
            if cost < least:
                least = cost
                best = shaping.scaled(math.sqrt(square))
                best_order = shaping.order
            if least <= enough:
                break
            if self.is_long and shaping.order > best_order + _PATIENCE:
                break
        if best is None:
            raise UncertifiableError(
                "order: no noise of this order hides the secret, since its inverse is not "
                "stable; ask for another order, or leave it out"
            )
        return least, best

    def certified(self, shaping: LinearSystem, allowed: float) -> _Certified:
        """The shaping scaled until its certified shift is allowed."""

        def evaluated(size: float) -> tuple[tuple[LinearSystem, float], float]:
            scaled = shaping.scaled(size)
            if isinstance(scaled, Autoregression) and hides_by_correlations(
                self.secret
            ):
                shift = shift_behind_autoregression(scaled, self.secret)
            else:
                shift = shift_behind(scaled, self.secret)
            return (scaled, shift), shift / allowed

        guess = float_above(1 / allowed, 2)
        found, _, excess = scale_to_budget(evaluated, guess)
        if not excess <= 1:
            raise UncertifiableError(
                "the noise does not meet its budget when evaluated back; ask for another "
                "order"
            )
        scaled, shift = found
        return _Certified(scaled, shift, _mean_cost(self.price, scaled))


def _resolved_factors(
    grid: FrequencyGrid, spectrum: NDArray, gap: float, added: float
) -> tuple[NDArray, NDArray]:
    """`outer_factors` that end within the grid.

    White noise of a share ``added`` of each output's variance is added to the spectrum.
    Where that almost vanishes, the coefficients decay slowly. If they do not end within
    the grid, more white noise is added.
    """
    means = np.diag(np.diag(grid.mean(spectrum)))
    factor, phase = outer_factors(grid, spectrum + added * means)
    tail = max(_tail(factor), _tail(phase))
    if tail < RESOLVED * gap or added >= _FLOOR * gap:
        return factor, phase
    return outer_factors(grid, spectrum + _FLOOR * gap * means)


def _tail(coefficients: NDArray) -> float:
    """Largest of the last coefficients relative to all."""
    if not np.isfinite(coefficients).all():
        return np.inf
    sizes = np.abs(coefficients)
    last = sizes[-len(sizes) // 16 :]
    return float(last.max() / sizes.max())


# -- points on the unit circle -----------------------------------------------------------


def _warped(poles: NDArray) -> tuple[NDArray, NDArray]:
    """Return warps (N,) that are tried, and the largest size of a pole under each."""
    warps = np.tanh(np.linspace(-6, 6, 601))
    every = np.append(poles, 0.0)
    moved = (every - warps[:, None]) / (1 - warps[:, None] * every)
    return warps, np.abs(moved).max(axis=1)


@dataclass(frozen=True)
class FrequencyGrid:
    """Points on the upper half of the unit circle, denser where slow poles need it.

    With z = (s + b) / (1 + b s), points even in s are dense in z around 1 for b > 0. The
    map sends the disc to itself, so causal stays causal and outer stays outer. A pole
    p becomes (p - b) / (1 - b p). One number b brings 0.999 and 0 to plus and minus 0.956.
    """

    warp: float  # b, between -1 and 1
    count: int  # N on the whole circle, a power of two

    @classmethod
    def fitting(cls, poles: NDArray, longest: int) -> FrequencyGrid:
        """Return the grid that resolves functions with these poles to double precision.

        So are the spectra of shapes of at most ``longest`` samples, which oscillate.
        """
        tries, radii = _warped(poles)
        best = int(radii.argmin())
        warp = float(tries[best])
        widest = (1 + abs(warp)) / (1 - abs(warp))  # distance of points, to the mean
        enough = min(_POINTS_OF_A_WAVE * longest * widest, _MOST_FOR_SHAPES)
        count = _SMALLEST_GRID
        while count < _LARGEST_GRID:
            if radii[best] ** count <= EPS and count >= enough:
                break
            count *= 2
        return cls(warp, count)

    @classmethod
    def fitting_shapes(cls, poles: NDArray, longest: int) -> FrequencyGrid:
        """Return the smallest grid that resolves poles and shapes all around the circle.

        It is less dense where slow poles are than that of `fitting`, and denser elsewhere.
        """
        tries, radii = _warped(poles)
        widest = (1 + np.abs(tries)) / (1 - np.abs(tries))
        count = _SMALLEST_GRID
        while count < _LARGEST_GRID:
            does = radii**count <= EPS
            does &= _POINTS_OF_A_WAVE * longest * widest <= count
            if does.any():
                radii = np.where(does, radii, np.inf)
                break
            count *= 2
        return cls(float(tries[radii.argmin()]), count)

    @property
    def points(self) -> NDArray:
        """z (N/2 + 1,) on the unit circle."""
        even = self._even
        return (even + self.warp) / (1 + self.warp * even)

    @property
    def _even(self) -> NDArray:
        """s (N/2 + 1,), at even distances on the unit circle."""
        steps = np.arange(self.count // 2 + 1)
        angles = 2 * np.pi * steps / self.count
        return np.exp(1j * angles)

    @cached_property
    def weights(self) -> NDArray:
        """Weights (N/2 + 1,), of sum one, of a real function's mean over the circle."""
        distances = np.abs(1 + self.warp * self._even)
        stretch = (1 - self.warp**2) / distances**2
        weights = stretch / self.count
        weights[1:-1] *= 2  # the lower half of the circle
        return weights

    def mean(self, values: NDArray) -> NDArray:
        """Return the mean over the circle of real parts, along the first axis."""
        return np.tensordot(self.weights, values.real, 1)

    def covariances(self, spectrum: NDArray, lags: int) -> NDArray:
        """Return the covariances (lags + 1,) of a positive spectrum (N/2 + 1,).

        Where slow poles make the points dense around 1 they are far apart around -1, so
        their own mean would miss what oscillates as much as the covariance of a long lag.
        """
        count = _LARGEST_GRID
        while count < _POINTS_OF_A_WAVE * lags:
            count *= 2
        z = np.exp(1j * np.linspace(0, np.pi, count // 2 + 1))
        places = np.angle((z - self.warp) / (1 - self.warp * z))
        angles = np.angle(self._even)
        between = CubicSpline(angles, np.log(spectrum), bc_type="clamped")
        values = np.exp(between(places.clip(angles[0], angles[-1])))
        return np.fft.irfft(values)[: lags + 1]

    def coefficients(self, values: NDArray) -> NDArray:
        """Return real coefficients (N, ...) of the powers s^-k, from values."""
        return np.fft.irfft(values, self.count, axis=0)

    def causal_coefficients(self, values: NDArray) -> NDArray:
        """Return those (N/2, ...) of the powers s^0, s^-1, ..."""
        return self.coefficients(values)[: self.count // 2]

    def values(self, coefficients: NDArray) -> NDArray:
        """Return values of a series in s^-1 with real coefficients (at most N, ...)."""
        return np.fft.rfft(coefficients, self.count, axis=0)


# -- the best spectrum -------------------------------------------------------------------


class Responses(NamedTuple):
    """Responses (N/2 + 1, r, K) to single moves, to the axes of each ball, and in windows.

    The columns O of a ball are those of its moves O a, |a| <= 1.
    """

    columns: NDArray
    balls: tuple[NDArray, ...] = ()
    windows: tuple[WindowResponse, ...] = ()

    @classmethod
    def of(cls, secret: SecretInputs, points: NDArray) -> Responses:
        """Return the responses to all moves at points z (N,).

        Several events count as if they were far apart, which they may be.
        """
        response = frequency_response(secret.system, points)
        columns = []
        for moves in secret.signals:
            size = moves.radius * np.sqrt(moves.events)
            column = size * response[:, :, [moves.column]]
            transforms = moves.transforms(points)
            columns.append(column * transforms[:, None])
        balls = tuple(response[:, :, list(index)] for index in secret.balls)
        windows = []
        for window in secret.windows:
            sizes = np.asarray(window.radii) * np.sqrt(window.events)
            powers = points[:, None] ** -np.arange(window.longest)
            own = response[:, :, list(window.columns)] * sizes
            windows.append(WindowResponse(own, powers))
        none = np.empty((*response.shape[:2], 0))
        every = np.concatenate([none, *columns], axis=2)
        return cls(every, balls, tuple(windows))

    def through(self, change: Callable[[NDArray], NDArray]) -> Responses:
        """Return the responses behind a linear map at each frequency."""
        windows = []
        for window in self.windows:
            windows.append(replace(window, columns=change(window.columns)))
        balls = tuple(map(change, self.balls))
        return Responses(change(self.columns), balls, tuple(windows))

    def largest_square(self, grid: FrequencyGrid) -> float:
        """Return the largest mean square of a move."""
        squares = grid.mean(np.sum(np.abs(self.columns) ** 2, axis=1)).tolist()
        for axes in self.balls:
            form = grid.mean(_adjoint(axes) @ axes)
            squares.append(np.linalg.eigvalsh(form)[-1])
        for window in self.windows:
            products = window.products(grid)
            values, _ = largest_signs(products, np.ones((1, len(products))))
            squares.append(values[0])
        return float(max(squares))


def best_spectrum(
    grid: FrequencyGrid,
    weight: NDArray,
    responses: Responses,
    gap: float,
    enough: float = np.inf,
    start: NDArray | None = None,
) -> BestSpectrum:
    """Return the spectrum of least mean tr(W S) that hides moves with some responses.

    With changes of any shape the search ends at a bound of ``enough``. It begins with
    weights ``start`` (K,) of single moves, by default all alike.
    """
    root, safe_root, inverse_root = _hermitian_roots(weight)
    priced = responses.through(partial(np.matmul, safe_root))
    windows = WindowsOnCircle(priced.windows)
    problem = SpectrumProblem(grid, priced.columns, windows, priced.balls)
    # the bound is that of the true price, whose small eigenvalues are not raised
    found = problem.solve(gap, root @ inverse_root, enough, start)
    spectrum = inverse_root @ found.spectrum @ inverse_root
    cost = float(grid.mean(np.einsum("kij,kji->k", weight, spectrum)))
    bound = min(found.lower_bound, cost)
    return found._replace(spectrum=spectrum, lower_bound=bound)


def _hermitian_roots(weight: NDArray) -> list[NDArray]:
    """Return W^1/2, the same with small eigenvalues raised, and the inverse of that."""
    values, vectors = np.linalg.eigh(weight)
    roots = np.sqrt(np.maximum(values, 0.0))
    raised = np.maximum(roots, LEAST_PRICE * roots.max())
    rows = _adjoint(vectors)
    every = (roots, raised, 1 / raised)
    return [_scaled(vectors, sizes) @ rows for sizes in every]


def _scaled(stack: NDArray, sizes: NDArray) -> NDArray:
    """Return a stack of matrices with columns multiplied by sizes (N, r)."""
    return stack * sizes[:, None, :]


def _adjoint(stack: NDArray) -> NDArray:
    """Return conjugate transposes of a stack of matrices."""
    return stack.conj().swapaxes(-1, -2)


# -- factors of a spectrum ---------------------------------------------------------------


def spectral_factor(grid: FrequencyGrid, spectrum: NDArray) -> NDArray:
    """Return coefficients (N/2, r, r) of the outer M with M M^* = S (Wilson 1972).

    M is a series in s^-1. It and its inverse are causal and stable. The iteration starts
    from the outer factors of the diagonal, so a scalar spectrum is factored at once.
    """
    identity = np.eye(spectrum.shape[1])
    diagonals = np.einsum("kii->ki", spectrum).real
    logarithms = grid.coefficients(np.log(diagonals))
    outer = np.exp(grid.values(_causal(logarithms)))
    factor = _scaled(identity, outer)
    for _ in range(60):
        left = np.linalg.solve(factor, spectrum)
        ratio = _adjoint(np.linalg.solve(factor, _adjoint(left)))
        residual = np.abs(ratio - identity).max()
        if residual < FINE:
            break
        sum_of_halves = grid.coefficients(ratio + identity)
        factor = factor @ grid.values(_causal(sum_of_halves))
    return grid.causal_coefficients(factor)


def _causal(coefficients: NDArray) -> NDArray:
    """Return the part with nonnegative powers of s^-1, and half of the constant."""
    part = coefficients.copy()
    part[0] *= 0.5
    half = len(part) // 2
    part[half] *= 0.5
    part[half + 1 :] = 0.0
    return part


def outer_factors(grid: FrequencyGrid, spectrum: NDArray) -> tuple[NDArray, NDArray]:
    """Factor a spectrum: the outer M (N/2, r, r), and the causal part of its phase.

    The phase is (W^*)^-1 M, with M M^* = S = W^* W.
    """
    factor = spectral_factor(grid, spectrum)
    transposed = spectral_factor(grid, spectrum.conj())
    right = grid.values(transposed.swapaxes(1, 2))
    values = grid.values(factor)
    phase = np.linalg.solve(_adjoint(right), values)
    return factor, grid.causal_coefficients(phase)


# -- systems of low order ----------------------------------------------------------------


def balanced_realisation(
    coefficients: NDArray, phase: NDArray, most: int, negligible: float
) -> LinearSystem:
    """Return a stochastically balanced realisation of the series M = sum of m_k s^-k.

    Truncating it errs little relative to M, at every frequency, and leaves M and its
    inverse stable. The phase is (W^*)^-1 M, with M M^* = W^* W and W outer. Its causal part
    has the A and B of M, and its Hankel singular values are the canonical correlations of
    past and future (Desai and Pal 1984; Green 1988). There are at most ``most`` states.
    """
    longest = max(_length(coefficients, negligible), _length(phase, negligible))
    length = min(longest, _LARGEST_HANKEL // phase.shape[1])
    padded = np.zeros((2 * length, *phase.shape[1:]))
    padded[: length - 1] = phase[1:length]
    steps = np.arange(length)
    places = np.add.outer(steps, steps)
    hankel = _block_matrix(padded[places])
    following = _block_matrix(padded[places + 1])
    constant = coefficients[0]
    if not hankel.any():
        return LinearSystem.gain(constant)
    left, values, right = _leading(hankel, most)
    kept = values > ROUNDED * values[0]
    root = np.sqrt(values[kept])
    rows = right[kept]
    reach = root[:, None] * rows
    onto_states = left[:, kept] / root
    from_inputs = rows.T / root
    later = np.hstack(list(coefficients[1:length]))
    A = onto_states.T @ following @ from_inputs
    _, inputs = constant.shape
    B = reach[:, :inputs]
    C = later @ from_inputs[: later.shape[1]]
    return LinearSystem(A, B, C, constant)


def _block_matrix(blocks: NDArray) -> NDArray:
    """Return the matrix (L p, L q) of blocks (L, L, p, q)."""
    rows, columns, outputs, inputs = blocks.shape
    return blocks.swapaxes(1, 2).reshape(rows * outputs, columns * inputs)


def _length(coefficients: NDArray, negligible: float) -> int:
    """Return the number of coefficients up to the last one that is not negligible."""
    sizes = np.abs(coefficients).max(axis=(1, 2))
    (large,) = np.nonzero(sizes > negligible * sizes.max())
    return 1 + int(large[-1])


def truncated(system: LinearSystem, order: int) -> LinearSystem:
    """Return the first states of a balanced realisation."""
    A, B, C, D = system.matrices
    return LinearSystem(A[:order, :order], B[:order], C[:, :order], D)


def unwarped(system: LinearSystem, warp: float) -> LinearSystem:
    """Return the system in z of a system in s, where z = (s + b) / (1 + b s)."""
    A, B, C, D = system.matrices
    identity = np.eye(system.order)
    inverse = np.linalg.inv(identity + warp * A)
    shifted = A + warp * identity
    dynamics = shifted @ inverse
    entry = (1 - warp**2) * inverse @ B
    reading = C @ inverse
    fed_through = warp * reading @ B
    return LinearSystem(dynamics, entry, reading, D - fed_through)


def _leading(matrix: NDArray, count: int) -> tuple[NDArray, NDArray, NDArray]:
    """Return the largest singular values and their vectors, in decreasing order."""
    size = min(matrix.shape)
    if size <= max(_DENSE, 2 * count):
        left, values, right = scipy.linalg.svd(matrix, full_matrices=False)
    else:
        # the same for every design, and generic: copies of one system are symmetric, and
        # a symmetric start would never leave what they have in common
        start = np.random.default_rng(_START).normal(size=size)
        left, values, right = scipy.sparse.linalg.svds(matrix, count, v0=start)
    largest = np.argsort(-values)[:count]
    return left[:, largest], values[largest], right[largest]
