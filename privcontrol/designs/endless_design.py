"""Design noise without a horizon.

The noise is gamma = M nu with white nu, and M and its inverse are stable. It has a spectrum
S = M M^*, its cost is the mean of tr(W S) over the circle, and it hides a move with response
g(w) if the mean of g^* S^-1 g is at most y^2. This is the problem of the cheapest enclosing
ellipsoid at every frequency, coupled by the means. The best spectrum (`spectrum.py`) is
realised by systems of low order (`realisation.py`). Cost and privacy shift are those of the
M that is used. The bound holds for any Gaussian noise, but where a state at the start is
secret, for stationary noise only: noise that fades with the effect of that state costs
nothing in the mean of a long run.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from functools import partial

import numpy as np
from numpy.typing import NDArray

from ..noise._autoregression import (
    autoregression_for,
    hides_by_correlations,
    shift_behind_autoregression,
)
from ..noise._endless import shift_behind
from ..noise._patterns import MOST_EXACT, MOST_RELAXED
from ..noise.parts import Filtered, White
from ..numerics.errors import PrivacyError, UncertifiableError
from ..numerics.linalg import float_above, round_up
from ..numerics.progress import piece
from ..numerics.thresholds import ALIKE
from ..privacy.budget import scale_to_budget
from ..secrets.decaying import endless_secret
from ..secrets.secret import SecretInputs
from ..systems.gain import FREQUENCIES
from ..systems.linear import Autoregression, LinearSystem, frequency_response
from .cheapest import Cheapest
from .problem import DesignProblem, Filter, Proposal
from .realisation import coarser
from .request import Request
from .shaping_problem import (
    Certified,
    ShapingProblem,
    mean_cost,
    shapings_behind_price,
    shapings_for,
    spectrum_for,
)

#: Why an event of secret time needs a signal for each output.
_OUTNUMBERED = (
    "moved: the outputs outnumber the secret signals, and {reason}, so noise that enters "
    "the plant with the signal would leave a direction bare; publish as many outputs as "
    "there are secret signals"
)
_NOT_EXACT = _OUTNUMBERED.format(reason="C (A - I) is rounded in double precision")
_TAKEN_AWAY = _OUTNUMBERED.format(
    reason="the pole at one of a tank or a meter is taken away in rounded numbers"
)
#: The same of differences of two signals, and of states at a later time.
_ROUNDED = (
    "adjacency: the outputs outnumber the secret's moves, which are rounded in double "
    "precision, so noise that enters the plant with them would leave a direction bare; "
    "publish as many outputs as there are moves, or design for a finite horizon"
)
#: Length of a change from which on it is long.
_LONG_CHANGE = 32
#: Orders of autoregressions that are tried, relative to the longest change.
_AUTOREGRESSIVE = (2, 4)
#: Least relative gain of a plant for noise that enters with the secret.
_NEVER_SILENT = 1e-4


# -- designs -----------------------------------------------------------------------------


def endless(problem: DesignProblem) -> Proposal:
    """Noise without a horizon.

    A white floor hides as well. The filtered noise is the least one that is needed next to
    it, none where the floor suffices.
    """
    request = problem.request
    secret = endless_secret(request.secret, problem.plant)
    price = problem.price.of_sample
    allowed = request.allowed_shift
    own = math.inf
    own_cost = 0.0
    if request.floor is not None:
        own = white_shift(secret, request.floor)
        white = LinearSystem.gain(np.diag(request.floor))
        own_cost = mean_cost(price, white)
    if own <= allowed:
        known = Filter(secret.scaled_system)
        return Proposal.filtered(Filtered(white), own_cost, own_cost, known)
    left = _left_to_hide(allowed, own)
    if request.family == "iid-gaussian":
        found = white_design(secret, left, price)
    else:
        found = stationary_design(
            secret, left, price, order=request.order, gap=request.gap
        )
    if request.floor is None:
        return found
    bound = found.lower_bound * (left / allowed) ** 2
    return replace(
        found,
        parts=(*found.parts, White(request.floor)),
        cost=found.cost + own_cost,
        lower_bound=max(bound, own_cost),
    )


def _left_to_hide(allowed: float, own: float) -> float:
    """Return the shift that is left to noise next to a floor with a shift of its own."""
    if own == math.inf:
        return allowed
    information = allowed**-2 - own**-2
    left = information**-0.5 * (1 - 1e-12)
    return min(left, allowed / math.sqrt(ALIKE))  # noise that costs next to nothing


# -- without a horizon -------------------------------------------------------------------


def stationary_design(
    secret: SecretInputs,
    allowed: float,
    weight: LinearSystem,
    *,
    order: int | None = None,
    gap: float,
) -> Proposal:
    """The cheapest noise without a horizon for a secret and an allowed privacy shift.

    The cost is the mean square of H gamma, H the weight. The shaping has at most ``order``
    states, by default the least number within ``gap`` of the bound. It is the
    cheapest certified noise of all that was tried.
    """
    if secret.energies is not None:
        return _plant_driven(secret, secret.energies, allowed, weight)
    response = None
    problem = ShapingProblem(secret, weight, order, gap)
    if _enters_with(secret):
        if secret.origin is not None:
            raise PrivacyError(_TAKEN_AWAY if secret.without_one else _NOT_EXACT)
        entries = np.count_nonzero(
            np.vstack([secret.system.B, secret.system.D]), axis=0
        )
        if any(moves.rounded and entries[moves.column] > 1 for moves in secret.signals):
            raise PrivacyError(_ROUNDED)
        response = secret.system
        hidden = replace(secret, system=LinearSystem.gain(np.eye(secret.inputs)))
        problem = ShapingProblem(hidden, weight.after(response), order, gap)
    driven = None
    if secret.windows and not secret.signals and not secret.balls:
        driven = _driven_in_windows(secret, allowed, weight)
        if max(window.size for window in secret.windows) > MOST_RELAXED:
            return driven
        if order is None:
            problem = replace(problem, enough=driven.cost * allowed**2 / (1 + gap))
        else:
            driven = None  # its order is the plant's
    with piece(0, 2):
        best = spectrum_for(problem)
    bound = best.lower_bound / allowed**2
    found = driven
    if found is None or found.cost > bound * (1 + gap):
        with piece(1, 2):
            shaped = _cheapest_certified(problem, allowed)
        if found is None or shaped.cost <= found.cost:
            found = Proposal((Filtered(shaped.shaping, response),), shaped.cost)
    (part,) = found.parts
    known = Filter(secret.scaled_system, best.weights)
    return Proposal.filtered(part, found.cost, min(bound, found.cost), known)


def _cheapest_certified(problem: ShapingProblem, allowed: float) -> Certified:
    """The cheapest certified shaping of all that are tried.

    Where several changes miss a large gap, those of the usual gap are tried as well.
    """
    least = _cheapest_within(problem, allowed)
    if not problem.secret.several or problem.gap <= Request.gap:
        return least
    enough = spectrum_for(problem).lower_bound / allowed**2 * (1 + problem.gap)
    if least.cost > enough:
        with suppress(UncertifiableError):
            finer = _cheapest_within(replace(problem, gap=Request.gap), allowed)
            least = min(least, finer, key=lambda each: each.cost)
    return least


def _cheapest_within(problem: ShapingProblem, allowed: float) -> Certified:
    """The cheapest certified shaping of those for a gap.

    They are realised from the best spectrum. As long as none is within the gap of the
    bound, they are realised from that of the noise behind the price, and then with more and
    more white noise. Where the best noise almost vanishes in some direction, double
    precision holds a realisation only of noise that does so less.
    """
    enough = spectrum_for(problem).lower_bound / allowed**2 * (1 + problem.gap)
    least = _autoregressive(problem, allowed, enough)
    if least is not None and problem.sums is not None:
        return _no_dearer_than_once(problem, allowed, least)
    if least is not None and least.cost <= enough:
        return least
    search = Cheapest(least)
    for attempt in _attempts(problem):
        tried: list[tuple[float, LinearSystem]] = []
        with search.noting_refusal():
            tried = attempt()
        for estimate, shaping in tried:
            if estimate / allowed**2 >= search.cost * (1 - ALIKE):
                continue
            with search.noting_refusal():
                search.take(problem.certified(shaping, allowed))
        reached = search.cost
        if tried and problem.secret.several and search.least is not None:
            # an estimate counts several changes as if they shared nothing
            reached = min(reached, tried[0][0] / allowed**2)
        if reached <= enough:
            break
    if problem.sums is not None:
        with search.noting_refusal():
            apart = replace(problem, counts_apart=True)
            search.take(_cheapest_within(apart, allowed))
        return search.result()
    found = search.result()
    if problem.secret.several_apart:
        return _no_dearer_than_once(problem, allowed, found)
    return found


def _no_dearer_than_once(
    problem: ShapingProblem, allowed: float, found: Certified
) -> Certified:
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
    problem: ShapingProblem, allowed: float, enough: float
) -> Certified | None:
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
        found = Certified(shaping, mean_cost(problem.price, shaping))
        if least is None or found.cost < least.cost:
            least = found
        if least.cost <= enough:
            break
    return least


def _attempts(
    problem: ShapingProblem,
) -> Iterator[Callable[[], list[tuple[float, LinearSystem]]]]:
    """Functions that realise shapings, each in another way or with more white noise."""
    yield partial(shapings_for, problem, 0.0)
    if problem.price.order:
        yield partial(shapings_behind_price, problem)
    for added in coarser(problem.gap):
        yield partial(shapings_for, problem, added)


def _plant_driven(
    secret: SecretInputs,
    radii: NDArray[np.float64],
    allowed: float,
    weight: LinearSystem,
) -> Proposal:
    """The plant's response to white noise mu / y, for all signals of bounded energy.

    Its spectrum G diag(mu / y)^2 G^* is what hiding the ball demands at every frequency.
    """
    sizes = round_up(radii / allowed, 2)
    shaping = LinearSystem.gain(np.diag(sizes))
    cost = mean_cost(weight, secret.system.after(shaping))
    bound = cost * (1 - 1e-12)
    part = Filtered(shaping, secret.system)
    return Proposal.filtered(part, cost, bound, Filter(secret.scaled_system))


def _enters_with(secret: SecretInputs) -> bool:
    """Return whether the noise enters the plant with the secret.

    It does where there are fewer signals than outputs. Noise for long changes of any shape
    is nearly what the plant makes of white noise, so that takes fewer states.
    """
    outputs = len(secret.system.C)
    longest = max([window.size for window in secret.windows], default=0)
    if longest > MOST_EXACT and secret.inputs == outputs:
        points = np.exp(1j * np.linspace(0, np.pi, FREQUENCIES))
        response = frequency_response(secret.scaled_system, points)
        sizes = np.linalg.svd(response, compute_uv=False)
        return bool(sizes.min() > _NEVER_SILENT * sizes.max())
    return secret.inputs < outputs


def _driven_in_windows(
    secret: SecretInputs, allowed: float, weight: LinearSystem
) -> Proposal:
    """The plant's response to white noise, for changes of any shape.

    k values within the radius mu are within the ball of energy k mu^2, and all such changes
    show alike. Nothing is known of the optimum.
    """
    sizes = np.zeros(secret.inputs)
    for window in secret.windows:
        times = 1 if window.spacing.is_apart else window.spacing.events
        own = np.asarray(window.radii) * math.sqrt(window.size) * times
        sizes[list(window.columns)] = own

    def evaluated(size: float) -> tuple[LinearSystem, float]:
        shaping = LinearSystem.gain(np.diag(sizes * size))
        entry = replace(secret, system=LinearSystem.gain(np.eye(secret.inputs)))
        return shaping, shift_behind(shaping, entry) / allowed

    shaping, _, _ = scale_to_budget(evaluated, float_above(1 / allowed, 2))
    cost = mean_cost(weight, secret.system.after(shaping))
    part = Filtered(shaping, secret.system)
    return Proposal.filtered(part, cost, math.nan, Filter(secret.scaled_system))


def white_design(
    secret: SecretInputs, allowed: float, weight: LinearSystem
) -> Proposal:
    """Independent noise of one size, of whose optimum nothing is known."""
    outputs = len(secret.system.C)
    unit = white_shift(secret, np.ones(outputs))
    size = float_above(unit / allowed, 4)
    shaping = LinearSystem.gain(size * np.eye(outputs))
    cost = mean_cost(weight, shaping)
    part = Filtered(shaping)
    return Proposal.filtered(part, cost, math.nan, Filter(secret.scaled_system))


def white_shift(secret: SecretInputs, sizes: NDArray[np.float64]) -> float:
    """A number that no shift of independent noise of some sizes (p,) exceeds."""
    return shift_behind(LinearSystem.gain(np.diag(sizes)), secret)
