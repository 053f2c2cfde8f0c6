"""Shape noise without a horizon: its best spectrum, systems for it, and what they hide.

A `ShapingProblem` resolves the secret's responses and the price on a grid of frequencies. Its
best spectrum (`spectrum.py`) is realised by systems (`realisation.py`), which are scaled
until their certified shift is allowed.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache, partial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..noise._autoregression import (
    are_told_apart,
    hides_by_correlations,
    shift_behind_autoregression,
)
from ..noise._endless import shift_behind
from ..numerics.errors import UncertifiableError
from ..numerics.linalg import float_above
from ..numerics.objects import ByContent
from ..numerics.progress import piece, search_round
from ..privacy.budget import scale_to_budget
from ..secrets.secret import SecretInputs
from ..systems.linear import (
    Autoregression,
    LinearSystem,
    frequency_response,
    impulse_energies,
    poles_of,
)
from .realisation import NOT_STABLE, Realisation, outer_factor
from .spectrum import FrequencyGrid, Responses, adjoint, best_spectrum
from .sums import LevelSums, with_sums
from .windowed import BestSpectrum

#: Orders from one up to below this are tried for changes at a distance.
_LOW_ORDERS = 5
#: White noise that a price is given which vanishes at a frequency, over its root mean
#: square over all of them.
_NEVER_FREE = 0.03


class Certified(NamedTuple):
    """A shaping whose certified shift is allowed, and its cost."""

    shaping: LinearSystem
    cost: float


@dataclass(frozen=True, eq=False)
class ShapingProblem(ByContent):
    """A secret that shaped noise has to hide, the price of that noise, and its options."""

    secret: SecretInputs
    price: LinearSystem
    order: int | None
    gap: float
    enough: float = math.inf  # a bound at which the search for it ends
    counts_apart: bool = False  # several changes, as if they shared nothing

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
        """The sums of levels at a distance, None if the secret is another one."""
        secret = self.secret
        if self.counts_apart or len(secret.signals) != 1:
            return None
        if not (secret.several_apart and are_told_apart(secret)):
            return None
        (moves,) = secret.signals
        return LevelSums(moves.longest, moves.spacing)

    @cached_property
    def responses(self) -> Responses:
        return Responses.of(self.secret, self.grid.points)

    @cached_property
    def prices(self) -> NDArray[np.complex128]:
        """H (N/2 + 1, k, r) with the cost |H gamma|^2."""
        return frequency_response(self.price, self.grid.points)

    def optimum(self) -> BestSpectrum:
        """The best spectrum."""
        gap = min(self.gap, 1.0)
        weight = adjoint(self.prices) @ self.prices
        if self.sums is None:
            return best_spectrum(self.grid, weight, self.responses, gap, self.enough)

        def solved(
            columns: NDArray[np.inexact], start: NDArray[np.float64] | None
        ) -> BestSpectrum:
            return best_spectrum(
                self.grid, weight, Responses(columns), gap, start=start
            )

        (moves,) = self.secret.signals
        response = frequency_response(self.secret.system, self.grid.points)
        impulse = response[:, 0, moves.column] * float(moves.radius)
        columns = self.responses.columns
        return with_sums(self.grid, impulse, self.sums, columns, solved, gap / 4)

    def covariances(self, lags: int) -> NDArray[np.float64]:
        """Covariances (lags + 1,) of the best noise with one output."""
        return self.grid.covariances(spectrum_for(self).spectrum[:, 0, 0].real, lags)

    def realised(self, spectrum: NDArray[np.inexact], added: float) -> Realisation:
        """Systems for a spectrum and white noise of a share of each output's variance."""
        return Realisation.of(self.grid, spectrum, min(self.gap, 1.0), added)

    def cheapest(
        self, shapings: Iterable[LinearSystem], enough: float
    ) -> tuple[float, LinearSystem]:
        """The cheapest of some shapings, or the first that costs no more than enough.

        Each is scaled to a shift of one. Its cost, which comes first, and its shift are
        means over the grid.
        """
        least = np.inf
        best = None
        for shaping in shapings:
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
            if least <= enough:
                break
        if best is None:
            raise UncertifiableError(NOT_STABLE)
        return least, best

    def certified(self, shaping: LinearSystem, allowed: float) -> Certified:
        """The shaping scaled until its certified shift is allowed."""

        def evaluated(size: float) -> tuple[LinearSystem, float]:
            scaled = shaping.scaled(size)
            if isinstance(scaled, Autoregression) and hides_by_correlations(
                self.secret
            ):
                shift = shift_behind_autoregression(scaled, self.secret)
            else:
                shift = shift_behind(scaled, self.secret)
            return scaled, shift / allowed

        guess = float_above(1 / allowed, 2)
        scaled, _, excess = scale_to_budget(evaluated, guess)
        if not excess <= 1:
            raise UncertifiableError(
                "the noise does not meet its budget when evaluated back; ask for another "
                "order"
            )
        return Certified(scaled, mean_cost(self.price, scaled))


@lru_cache(maxsize=8)  # a sweep over budgets asks again and again
def spectrum_for(problem: ShapingProblem) -> BestSpectrum:
    """The best spectrum, that of every budget, so a sweep over budgets finds it again."""
    return problem.optimum()


@lru_cache(maxsize=8)  # a sweep over budgets asks again and again
def shapings_for(
    problem: ShapingProblem, added: float
) -> list[tuple[float, LinearSystem]]:
    """Shapings for a shift of one and their estimated costs, the cheapest one first.

    They are realised from the best spectrum with a share of white noise that is added.
    Changes at a distance may share less of those of lower order, whose estimates say
    nothing.
    """
    best = spectrum_for(problem)
    with piece(0, 2):
        realised = problem.realised(best.spectrum, added)
    orders = range(realised.order + 1)
    enough = best.lower_bound * (1 + problem.gap)
    if problem.order is not None:
        orders = orders[: problem.order + 1]
        enough = 0.0
    with piece(1, 2):
        found = [problem.cheapest(realised.stable(orders), enough)]
    _, first = found[0]
    if problem.secret.several_apart:
        for lower in realised.stable(range(1, min(first.order, _LOW_ORDERS))):
            _, shaping = problem.cheapest([lower], 0.0)
            found.append((0.0, shaping))
    return found


def shapings_behind_price(problem: ShapingProblem) -> list[tuple[float, LinearSystem]]:
    """The same, from the best spectrum of what the price makes of the noise.

    With the outer factor F of the price the noise gamma costs the power of F gamma. That is
    realised, and F undone. Where the price falls steeply, as a plant behind an actuator
    does, the best gamma rises as steeply, and F gamma does neither. It raises an
    ``UncertifiableError`` where F has no stable inverse, or too many states.
    """
    F = _factor_of(problem.price)
    order = None if problem.order is None else problem.order - F.order
    if order is not None and order < 0:
        raise UncertifiableError(NOT_STABLE)
    seen = replace(problem.secret, system=F.after(problem.secret.system))
    free = LinearSystem.gain(np.eye(F.output_count))
    behind = replace(problem, secret=seen, price=free, order=order)
    undone = F.inverse()
    return [(cost, undone.after(M)) for cost, M in shapings_for(behind, 0.0)]


def _factor_of(price: LinearSystem) -> LinearSystem:
    """Return the outer factor of a price, or nearly, of a price that vanishes somewhere.

    That of events whose time is secret vanishes at frequency zero, where the inverse of its
    own factor would be an integrator.
    """
    try:
        return outer_factor(price)
    except UncertifiableError:
        size = _NEVER_FREE * math.sqrt(impulse_energies(price).sum())
        return outer_factor(_never_free(price, size))


def _never_free(price: LinearSystem, size: float) -> LinearSystem:
    """Return a price that counts the noise itself as well, with a ``size``."""
    A, B, C, D = price.matrices
    inputs = B.shape[1]
    unread = np.zeros((inputs, price.order))
    own = size * np.eye(inputs)
    return LinearSystem(A, B, np.vstack([C, unread]), np.vstack([D, own]))


def mean_cost(price: LinearSystem, shaping: LinearSystem) -> float:
    """Mean cost of a sample of shaped noise."""
    return float(impulse_energies(price.after(shaping)).sum())
