"""Noise without a horizon for units that are coupled alike, from one scalar problem.

Of N units that are coupled all to all alike, with one output each, some optimal spectrum is

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
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from ..noise.fleet import AlikeUnits, CoupledUnits
from ..noise.ring import RingUnits
from ..numerics.errors import UncertifiableError
from ..numerics.linalg import float_above
from ..numerics.objects import ByContent
from ..numerics.progress import piece
from ..numerics.thresholds import THINNEST
from ..privacy.budget import scale_to_budget
from ..secrets.fleet import Symmetric, Units
from ..secrets.ring import Ring
from ..systems.linear import (
    LinearSystem,
    frequency_response,
    poles_of,
)
from .cheapest import Cheapest
from .problem import Proposal
from .realisation import NOT_STABLE, Realisation, coarser
from .request import Request
from .spectrum import FrequencyGrid, Responses, best_spectrum
from .windowed import BestSpectrum

#: Share of the gap for each of two filters.
_OF_FILTER = 0.3
#: That for filters which several waves share.
_OF_SHARING = 0.1


def of_modes(
    request: Request, kind: Units, near: Symmetric | Ring, price: float
) -> Proposal:
    """Return noise of N coupled units, from one scalar problem."""
    problem = _Modes(near, price, min(request.gap, 1.0), request.order)
    bound = problem.spectrum.lower_bound * (1 - 1e-8) / request.allowed_shift**2

    def certified(filters: list[LinearSystem]) -> Proposal:
        part = _certified(request, kind, problem.noise(filters))
        cost = price * float(part.variances(1).sum())
        return Proposal((part,), cost, min(bound, cost))

    search = Cheapest[Proposal]()
    for added in (0.0, *coarser(problem.gap)):
        with search.noting_refusal():
            search.take(certified(problem.filters(added)))
        if search.cost <= bound * (1 + request.gap):
            break
    else:
        white = LinearSystem.gain(np.eye(1))
        with search.noting_refusal():
            search.take(certified([white] * len(problem.groups)))
    return search.result()


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
    def gains(self) -> NDArray[np.float64]:
        """|g_k| (K, N/2 + 1) of all modes, and no less than a part of the largest."""
        found = []
        for system in self.near.systems:
            response = frequency_response(system, self.grid.points)
            found.append(np.abs(response[:, 0, 0]))
        gains = np.array(found)
        return np.maximum(gains, THINNEST * gains.max())

    @cached_property
    def response(self) -> NDArray[np.float64]:
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
    def root(self) -> NDArray[np.float64]:
        """sqrt(Q) (N/2 + 1,)."""
        return self.spectrum.spectrum[:, 0, 0].real / self.response

    def energy(self, group: NDArray[np.intp]) -> NDArray[np.float64]:
        """The sum of m_k |g_k|^2 (N/2 + 1,) of some modes."""
        return self.near.sizes[group] @ self.gains[group] ** 2

    @cached_property
    def groups(self) -> list[NDArray[np.intp]]:
        """Modes that share a filter: neighbours, in few groups that cost little.

        A group costs sqrt(sum m_k sum m_k |g_k|^2) in place of sum m_k |g_k|. The two modes
        of units that are all alike have a filter each.
        """
        sizes = self.near.sizes
        every = np.arange(len(sizes))
        if isinstance(self.near, Symmetric):
            return list(every[:, None])

        def loss(group: NDArray[np.intp]) -> float:
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
    def shares(self) -> list[NDArray[np.float64]]:
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

    def excess(self, spectra: Sequence[NDArray[np.float64]]) -> tuple[float, float]:
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

    def _spectrum_of(self, system: LinearSystem) -> NDArray[np.float64]:
        """Return |M|^2 (N/2 + 1,), as a sum over its poles: an estimate where two meet."""
        poles, vectors = np.linalg.eig(system.A)
        read = (system.C @ vectors)[0]
        entered = np.linalg.solve(vectors, system.B)[:, 0]
        fractions = 1 / (self.grid.points[:, None] - poles)
        response = system.D[0, 0] + fractions @ (read * entered)
        return np.abs(response) ** 2

    def _realised(
        self, place: int, spectrum: NDArray[np.float64], added: float
    ) -> LinearSystem:
        """Return the filter of least order that costs little beside the exact others."""
        stack = spectrum[:, None, None]
        realised = Realisation.of(self.grid, stack, self.gap, added)
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
