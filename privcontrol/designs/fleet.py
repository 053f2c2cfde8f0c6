"""Noise for plants of many units, unit by unit or mode by mode.

Units that nothing connects are designed each by itself, and equal ones once. Units that are
coupled alike are one scalar problem, see ``coupled_units``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from ..core.adjacency import Adjacency
from ..noise.fleet import CoupledUnits, SeparateUnits, UnitNoise
from ..noise.parts import Correlated, Filtered, NoisePart, Pricing
from ..numerics.errors import UncertifiableError
from ..numerics.objects import ByContent
from ..numerics.progress import piece
from ..numerics.thresholds import (
    ALIKE,
    MANY_DIMENSIONS,
    MOST_NAMED,
    MOST_STATES_IN_BALLS,
    ROUNDED,
)
from ..secrets.decaying import endless_secret
from ..secrets.fleet import Symmetric, Units, parted, symmetric_plant, whole_of
from ..secrets.ring import Ring
from ..systems.linear import (
    LinearSystem,
    Plant,
    spectral_radius,
)
from .correlated import correlated
from .coupled_units import of_modes
from .endless_design import endless
from .problem import DesignProblem, Filter, Proposal

#: States of the noise up to which it is one system, which gateways publish and files hold.
_ONE_SYSTEM = 200
#: Units that are designed without their symmetry where their modes fail.
_MOST_DENSE = 12


def is_fleet(problem: DesignProblem) -> bool:
    """Return whether a problem without a horizon is one of several units."""
    return not problem.request.horizon.ends and bool(_kinds(problem))


def is_fleet_of_run(problem: DesignProblem) -> bool:
    """Return whether a large problem over a horizon is one of several units."""
    request = problem.request
    if not (request.horizon.ends and request.secret.is_dense):
        return False
    if problem.horizon * problem.plant.output_count < MANY_DIMENSIONS:
        return False
    return sum(kind.count for kind in _kinds(problem)) > 1


@dataclass(frozen=True, eq=False)
class _Prices(ByContent):
    """Prices (p, p) of a sample's outputs, None where all are one."""

    matrix: NDArray[np.float64] | None


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


def _prices(problem: DesignProblem) -> NDArray[np.float64] | None:
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
    if radius > 1 - ROUNDED:
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
    secret = None
    whole = _as_one(part)
    if whole is not None:
        secret = endless_secret(problem.request.secret, problem.plant).scaled_system
        part = Filtered(whole)
    known = Filter(secret, symmetry=words)
    return Proposal.filtered(part, cost, min(bound, cost), known)


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
    """Return the symmetry that the design used."""
    words = []
    for kind, group in zip(kinds, groups, strict=True):
        if isinstance(group.part, CoupledUnits):
            own = group.part.phrase
            words.append(own if kind.count == 1 else f"{kind.count} times {own}")
        else:
            words.append(f"{kind.count} equal units" if kind.count > 1 else "1 unit")
    if len(words) > MOST_NAMED:
        total = sum(kind.count for kind in kinds)
        return f"{total} units of {len(kinds)} kinds"
    return " and ".join(words)


def _as_one(part: NoisePart) -> LinearSystem | None:
    """Return noise of few units as one square system, None where it is too large for one."""
    if isinstance(part, CoupledUnits):
        return _coupled_as_one(part)
    if not isinstance(part, SeparateUnits):
        return None
    systems = []
    order = 0
    for group in part.groups:
        unit = group.part
        if isinstance(unit, CoupledUnits):
            own = _coupled_as_one(unit)
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


def _coupled_as_one(part: CoupledUnits) -> LinearSystem | None:
    """Return noise of coupled units as one system, None where that is too large."""
    return part.model if part.order <= MOST_STATES_IN_BALLS else None


def _of_kind(problem: DesignProblem, kind: Units) -> Proposal:
    """Return noise of one unit, or of units that are coupled alike."""
    near = _symmetric(kind)
    request = problem.request
    if near is not None:
        price = 1.0 if kind.prices is None else float(kind.prices[0, 0])
        try:
            return of_modes(request, kind, near, price)
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
