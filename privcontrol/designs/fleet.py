"""Noise without a horizon for plants of many units, unit by unit or mode by mode.

Units that nothing connects are designed each by itself, and equal ones once. Of N units that
are coupled all to all alike, with one output each, some optimal spectrum is

    S = S_own (I - P) + S_mean P,

P the projection onto equal numbers. For weights of changes with the spectrum Q and a price w
it is S_k = sqrt(Q / (N w)) |g_k|, and all costs (mean sqrt(Q) f)^2 with

    f = sqrt(w) (|g_mean| + (N - 1) |g_own|) / sqrt(N),

so the weights are those of one scalar problem whose response is f. Units around a ring have
one response g_k for each wave, which comes m_k times, and f = sqrt(w / N) sum m_k |g_k|.
Waves G that share a filter have S^2 = Q / (N w) sum_G m_k |g_k|^2 / sum_G m_k.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache

import numpy as np
from numpy.typing import NDArray

from ..core.adjacency import Adjacency
from ..noise._endless import UNDAMPED, endless_secret
from ..noise.fleet import AlikeUnits, CoupledUnits, SeparateUnits, UnitNoise
from ..noise.parts import Correlated, Filtered, NoisePart, Pricing
from ..noise.ring import RingUnits
from ..numerics.errors import UncertifiableError
from ..numerics.linalg import float_above
from ..numerics.objects import ByContent
from ..numerics.progress import piece
from ..numerics.thresholds import ALIKE, THINNEST
from ..privacy.budget import scale_to_budget
from ..secrets.disturbance import is_dense
from ..secrets.fleet import Symmetric, Units, parted, symmetric_plant, whole_of
from ..secrets.ring import Ring
from ..systems.linear import (
    LinearSystem,
    Plant,
    frequency_response,
    poles_of,
    spectral_radius,
)
from .correlated import correlated
from .endless_design import endless
from .problem import DesignProblem, Proposal, StationaryDesign
from .realisation import NOT_STABLE, Realisation
from .request import Request
from .spectrum import FrequencyGrid, Responses, best_spectrum
from .windowed import BestSpectrum

#: States of the noise up to which it is one system, which gateways publish and files hold.
_ONE_SYSTEM = 200
_ONE_COUPLED = 64
#: Units that are designed without their symmetry where their modes fail.
_MOST_DENSE = 12
#: Dimensions of a run from which on units are designed apart.
_MANY = 128
#: Kinds of units that are named one by one.
_MOST_WORDS = 3
#: Share of the gap for each of two filters.
_OF_FILTER = 0.3
#: That for filters which several waves share.
_OF_SHARING = 0.1
#: Shares of white noise that are tried.
_ADDED = (0.0, 0.1, 1.0)


def is_fleet(problem: DesignProblem) -> bool:
    """Return whether a problem without a horizon is one of several units."""
    return not problem.request.horizon.ends and bool(_kinds(problem))


def is_fleet_of_run(problem: DesignProblem) -> bool:
    """Return whether a large problem over a horizon is one of several units."""
    request = problem.request
    if not (request.horizon.ends and is_dense(request.adjacency)):
        return False
    if problem.horizon * problem.plant.output_count < _MANY:
        return False
    return sum(kind.count for kind in _kinds(problem)) > 1


@dataclass(frozen=True, eq=False)
class _Prices(ByContent):
    """Prices (p, p) of a sample's outputs, None where all are one."""

    matrix: NDArray | None


@lru_cache(maxsize=4)  # a table asks whether it suits before it is designed
def _parted(adjacency: Adjacency, plant: Plant, prices: _Prices) -> list[Units] | None:
    return parted(adjacency, plant, prices.matrix)


def _kinds(problem: DesignProblem) -> tuple[Units, ...]:
    """Return the kinds of units, none where a problem is one of a single system."""
    request = problem.request
    if request.has_models or request.family != "gaussian":
        return ()
    options = (request.floor, request.resolution, request.factor)
    if any(option is not None for option in options):
        return ()
    if isinstance(problem.weight, Pricing):
        return ()
    prices = _Prices(_prices(problem))
    kinds = _parted(request.adjacency, problem.plant, prices)
    if not kinds:
        return ()
    several = sum(kind.count for kind in kinds) > 1
    if not several and (request.horizon.ends or _symmetric(kinds[0]) is None):
        return ()
    return tuple(kinds)


def _prices(problem: DesignProblem) -> NDArray | None:
    """Return the prices (p, p) of a sample's outputs, None where all are one."""
    if problem.weight is None:
        return None
    given = np.asarray(problem.weight, float)
    outputs = problem.plant.output_count
    if given.shape == (outputs,):
        return np.diag(given)
    if given.shape == (outputs, outputs):
        return given
    return np.ones((outputs, outputs))  # refused where it is read


def _symmetric(kind: Units) -> Symmetric | Ring | None:
    """Return the symmetric plant near to coupled units with equal prices."""
    near = symmetric_plant(kind.adjacency, kind.plant)
    if near is None:
        return None
    radius = max(map(spectral_radius, near.systems))
    if radius > 1 - UNDAMPED:
        return None
    if kind.prices is not None:
        price = kind.prices[0, 0]
        if not price > 0 or (kind.prices != price * np.eye(near.count)).any():
            return None
    return near


def fleet(problem: DesignProblem) -> Proposal:
    """Noise without a horizon for units that nothing connects, or that are coupled alike."""
    kinds = _kinds(problem)
    found = []
    for done, kind in enumerate(kinds):
        with piece(done, len(kinds)):
            found.append(_of_kind(problem, kind))
    counts = [kind.count for kind in kinds]
    cost = bound = 0.0
    groups = []
    for each, kind in zip(found, kinds, strict=True):
        cost += each.cost * kind.count
        bound += each.lower_bound * kind.count
        groups.append(UnitNoise(each.parts[0], kind.outputs))
    outputs = problem.plant.output_count
    is_one = sum(counts) == 1 and groups[0].places.size == outputs
    part = groups[0].part if is_one else SeparateUnits(tuple(groups), outputs)
    words = _words(kinds, groups)
    shift = problem.request.allowed_shift
    bound = min(bound, cost)
    secret = None
    whole = _as_one(part)
    if whole is not None:
        secret = endless_secret(problem.request.adjacency, problem.plant).scaled_system
        part = Filtered(whole)
    design = StationaryDesign(part, shift, cost, bound, secret, symmetry=words)
    return Proposal((part,), cost, bound, design, design.gap)


def fleet_of_run(
    problem: DesignProblem, sized: Callable[[DesignProblem], Proposal]
) -> Proposal:
    """Noise over a horizon for units that nothing connects, each kind ``sized`` once.

    The covariance of all units is one block for each. What noise must be there for a change
    of one unit it must be at the unit's own outputs, so bounds of the costs add up.
    """
    kinds = _kinds(problem)
    found = []
    for done, kind in enumerate(kinds):
        own = _of_unit(problem, kind)
        with piece(done, len(kinds)):
            each = sized(own)
            found.append(each if _is_correlated(each) else correlated(own))
    cost = sum(each.cost * kind.count for each, kind in zip(found, kinds, strict=True))
    bound = sum(
        each.lower_bound * kind.count for each, kind in zip(found, kinds, strict=True)
    )
    T, p = problem.horizon, problem.plant.output_count
    root = np.zeros((T, p, T, p))
    for each, kind in zip(found, kinds, strict=True):
        (part,) = each.parts
        own_root = part.responses(T).reshape(T, kind.outputs.shape[1], T, -1)
        for places in kind.outputs:
            root[:, places[:, None], :, places] = np.moveaxis(own_root, (1, 3), (0, 1))
    part = Correlated(root.reshape(T * p, T * p), p)
    return Proposal((part,), cost, bound, gap=cost / bound - 1)


def _is_correlated(proposal: Proposal) -> bool:
    (part, *others) = proposal.parts
    return isinstance(part, Correlated) and not others


def _of_unit(problem: DesignProblem, kind: Units) -> DesignProblem:
    """Return the problem of one unit of a kind."""
    request = replace(problem.request, adjacency=kind.adjacency)
    return replace(problem, plant=kind.plant, request=request, weight=kind.prices)


def _words(kinds: Sequence[Units], groups: Sequence[UnitNoise]) -> str:
    """Return what the design made use of."""
    words = []
    for kind, group in zip(kinds, groups, strict=True):
        if isinstance(group.part, CoupledUnits):
            own = group.part.phrase
            words.append(own if kind.count == 1 else f"{kind.count} times {own}")
        else:
            words.append(f"{kind.count} equal units" if kind.count > 1 else "1 unit")
    if len(words) > _MOST_WORDS:
        total = sum(kind.count for kind in kinds)
        return f"{total} units of {len(kinds)} kinds"
    return " and ".join(words)


def _as_one(part: NoisePart) -> LinearSystem | None:
    """Return noise of few units as one square system, None where it is too large for one."""
    if isinstance(part, CoupledUnits):
        return part.model if part.order <= _ONE_COUPLED else None
    if not isinstance(part, SeparateUnits):
        return None
    systems = []
    order = 0
    for group in part.groups:
        unit = group.part
        if isinstance(unit, CoupledUnits):
            own = unit.model if unit.order <= _ONE_COUPLED else None
        else:
            is_plain = isinstance(unit, Filtered) and unit.response is None
            own = unit.model if is_plain else None
        if own is None:
            return None
        order += group.count * own.order
        systems += [(own, places) for places in group.places]
    covered = sum(len(places) for _, places in systems)
    if order > _ONE_SYSTEM or covered < part.outputs:
        return None
    return whole_of(systems, part.outputs)


def _of_kind(problem: DesignProblem, kind: Units) -> Proposal:
    """Return noise of one unit, or of units that are coupled alike."""
    near = _symmetric(kind)
    request = problem.request
    if near is not None:
        price = 1.0 if kind.prices is None else float(kind.prices[0, 0])
        try:
            return _of_modes(request, kind, near, price)
        except UncertifiableError:
            if kind.count * near.count > _MOST_DENSE:
                raise
    own = _of_unit(problem, kind)
    found = endless(own)
    if found.cost > found.lower_bound * (1 + ALIKE):
        other = endless(
            replace(own, request=replace(own.request, family="iid-gaussian"))
        )
        if other.cost < found.cost:
            return other.bounded(found.lower_bound)
    return found


# -- units that are coupled alike -------------------------------------------------------------


def _of_modes(
    request: Request, kind: Units, near: Symmetric | Ring, price: float
) -> Proposal:
    """Return noise of N coupled units, from one scalar problem."""
    problem = _Modes(near, price, min(request.gap, 1.0), request.order)
    best = problem.spectrum
    bound = best.lower_bound * (1 - 1e-8) / request.allowed_shift**2
    least: tuple[CoupledUnits, float] | None = None
    refusal: UncertifiableError | None = None
    for added in _ADDED:
        try:
            made = _certified(request, kind, problem.noise(problem.filters(added)))
        except UncertifiableError as error:
            refusal = refusal or error
            continue
        cost = price * float(made.variances(1).sum())
        if least is None or cost < least[1]:
            least = made, cost
        if cost <= bound * (1 + request.gap):
            break
    if least is None or least[1] > bound * (1 + request.gap):
        white = [LinearSystem.gain(np.eye(1))] * len(problem.groups)
        try:
            made = _certified(request, kind, problem.noise(white))
            cost = price * float(made.variances(1).sum())
            if least is None or cost < least[1]:
                least = made, cost
        except UncertifiableError as error:
            refusal = refusal or error
    if least is None:
        raise refusal or UncertifiableError("order: no noise is certified")
    part, cost = least
    return Proposal((part,), cost, min(bound, cost))


def _certified(request: Request, kind: Units, unit: CoupledUnits) -> CoupledUnits:
    """Return noise that is scaled until its certified shift is allowed."""
    allowed = request.allowed_shift

    def evaluated(size: float) -> tuple[CoupledUnits, float]:
        scaled = unit.scaled(size)
        return scaled, scaled.shift(kind.adjacency, kind.plant) / allowed

    made, _, excess = scale_to_budget(evaluated, float_above(1 / allowed, 2))
    if not excess <= 1:
        raise UncertifiableError(
            "the noise does not meet its budget when evaluated back; ask for another order"
        )
    return made


@dataclass(frozen=True, eq=False)
class _Modes(ByContent):
    """The scalar problem of a symmetric plant of N units, and its filters."""

    near: Symmetric | Ring
    price: float
    gap: float
    order: int | None

    @cached_property
    def grid(self) -> FrequencyGrid:
        poles = np.concatenate([poles_of(system) for system in self.near.systems])
        return FrequencyGrid.fitting(poles, self.near.secret.longest)

    @cached_property
    def gains(self) -> NDArray:
        """|g_k| (K, N/2 + 1) of all modes, and no less than a part of the largest."""
        found = []
        for system in self.near.systems:
            response = frequency_response(system, self.grid.points)
            found.append(np.abs(response[:, 0, 0]))
        gains = np.array(found)
        return np.maximum(gains, THINNEST * gains.max())

    @cached_property
    def response(self) -> NDArray:
        """f (N/2 + 1,)."""
        return math.sqrt(self.price / self.near.count) * (self.near.sizes @ self.gains)

    @cached_property
    def plain(self) -> Responses:
        """The changes of one unit's input."""
        return Responses.of(self.near.secret, self.grid.points)

    @cached_property
    def responses(self) -> Responses:
        """The responses to the changes of one unit, as the scalar problem has them."""
        return self.plain.through(lambda stack: stack * self.response[:, None, None])

    @cached_property
    def spectrum(self) -> BestSpectrum:
        ones = np.ones((len(self.grid.points), 1, 1))
        return best_spectrum(self.grid, ones, self.responses, self.gap)

    @cached_property
    def root(self) -> NDArray:
        """sqrt(Q) (N/2 + 1,)."""
        return self.spectrum.spectrum[:, 0, 0].real / self.response

    def energy(self, group: NDArray) -> NDArray:
        """The sum of m_k |g_k|^2 (N/2 + 1,) of some modes."""
        return self.near.sizes[group] @ self.gains[group] ** 2

    @cached_property
    def groups(self) -> list[NDArray]:
        """Modes that share a filter: neighbours, in few groups that cost little.

        A group costs sqrt(sum m_k sum m_k |g_k|^2) in place of sum m_k |g_k|. The two modes
        of units that are all alike have a filter each.
        """
        sizes = self.near.sizes
        every = np.arange(len(sizes))
        if isinstance(self.near, Symmetric):
            return list(every[:, None])

        def loss(group: NDArray) -> float:
            together = np.sqrt(sizes[group].sum() * self.energy(group))
            apart = sizes[group] @ self.gains[group]
            return float(self.grid.mean(self.root * (together - apart)))

        best = float(self.grid.mean(self.root * (sizes @ self.gains)))
        groups = [every]
        losses = [loss(every)]
        while 2 * sum(losses) > _OF_SHARING * self.gap * best:
            worst = int(np.argmax(losses))
            half = len(groups[worst]) // 2
            halves = groups[worst][:half], groups[worst][half:]
            groups[worst : worst + 1] = halves
            losses[worst : worst + 1] = map(loss, halves)
        return groups

    @cached_property
    def shares(self) -> list[NDArray]:
        """The spectra (N/2 + 1,) of the groups."""
        size = 1 / math.sqrt(self.price * self.near.count)
        found = []
        for group in self.groups:
            count = self.near.sizes[group].sum()
            found.append(self.root * np.sqrt(self.energy(group) / count) * size)
        return found

    def noise(self, filters: Sequence[LinearSystem]) -> CoupledUnits:
        """Return noise with a filter for each group."""
        if isinstance(self.near, Symmetric):
            mean, own = filters
            return AlikeUnits(own, mean, self.near.count)
        homes = np.repeat(
            np.arange(len(filters)), [len(group) for group in self.groups]
        )
        return RingUnits(tuple(filters), homes, self.near.count)

    def excess(self, spectra: Sequence[NDArray]) -> tuple[float, float]:
        """Return the cost of spectra for a shift of one, and the square of their shift."""
        left = np.zeros(len(self.grid.points))
        priced = np.zeros(len(left))
        for group, spectrum in zip(self.groups, spectra, strict=True):
            left += self.energy(group) / spectrum
            priced += self.near.sizes[group].sum() * spectrum
        size = np.sqrt(left / self.near.count)
        seen = self.plain.through(lambda stack: stack * size[:, None, None])
        square = seen.largest_square(self.grid)
        cost = self.price * float(self.grid.mean(priced))
        return cost * square, square

    def filters(self, added: float) -> list[LinearSystem]:
        """Return filters of low order, each within its share of the gap."""
        found = []
        for place, spectrum in enumerate(self.shares):
            with piece(place, len(self.shares)):
                found.append(self._realised(place, spectrum, added))
        _, square = self.excess([self._spectrum_of(one) for one in found])
        return [one.scaled(math.sqrt(square)) for one in found]

    def _part_of(self, place: int) -> float:
        """Return the part of the gap that a filter may have, half of it by its cost."""
        costs = [
            self.near.sizes[group].sum() * float(self.grid.mean(spectrum))
            for group, spectrum in zip(self.groups, self.shares, strict=True)
        ]
        part = costs[place] / sum(costs) + 1 / len(costs)
        return _OF_FILTER * min(part, 1.0)

    def _spectrum_of(self, system: LinearSystem) -> NDArray:
        """Return |M|^2 (N/2 + 1,), as a sum over its poles: an estimate where two meet."""
        poles, vectors = np.linalg.eig(system.A)
        read = (system.C @ vectors)[0]
        entered = np.linalg.solve(vectors, system.B)[:, 0]
        fractions = 1 / (self.grid.points[:, None] - poles)
        response = system.D[0, 0] + fractions @ (read * entered)
        return np.abs(response) ** 2

    def _realised(self, place: int, spectrum: NDArray, added: float) -> LinearSystem:
        """Return the filter of least order that costs little beside the exact others."""
        stack = spectrum[:, None, None]
        realised = Realisation.of(self.grid, stack, self.gap, added * self.gap)
        most = realised.order if self.order is None else min(self.order, realised.order)
        best, _ = self.excess(self.shares)
        enough = best * (1 + self._part_of(place) * self.gap)
        least = math.inf
        kept: LinearSystem | None = None
        for tried in realised.stable(range(most + 1)):
            beside = list(self.shares)
            beside[place] = self._spectrum_of(tried)
            cost, _ = self.excess(beside)
            if cost < least:
                least, kept = cost, tried
            if least <= enough:
                break
        if kept is None:
            raise UncertifiableError(NOT_STABLE)
        return kept
