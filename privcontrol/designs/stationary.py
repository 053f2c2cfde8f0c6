"""Design noise without a horizon, a linear system whose guarantee holds for every run.

The noise is gamma = M nu with white nu, and M and its inverse are stable. The spectrum
M M^* is the cheapest one that hides the secret, up to a certified gap. Cost and privacy
shift are those of the M that is used, and the bound holds for any Gaussian noise.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterable
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from ..core._linalg import round_up
from ..core._progress import piece
from ..core.budget import scale_to_budget
from ..core.errors import PrivacyWarning, UncertifiableError
from ..noise._endless import shift_behind
from ..noise.parts import Filtered
from ..secrets.secret import SecretInputs
from ..systems.linear import (
    LinearSystem,
    frequency_response,
    impulse_energies,
    poles_of,
    spectral_radius,
)
from ._spectrum import (
    BestSpectrum,
    FrequencyGrid,
    Responses,
    balanced_realisation,
    best_spectrum,
    outer_factors,
    truncated,
    unwarped,
)

#: Orders from one up to below this are tried for changes at a distance.
_LOW_ORDERS = 5
#: Largest order that is looked for, and one up to which it mostly is found.
_MOST_STATES = 48
_USUAL_ORDER = 12
#: White noise added to a spectrum that almost vanishes somewhere, as a part of the gap.
_FLOOR = 0.1
#: Relative size of the last coefficients of a resolved factor, as a part of the gap.
_RESOLVED = 1e-5
#: Gap of the spectrum before it is realised, as a part of the whole gap.
_OPTIMAL = 0.02


@dataclass(frozen=True, eq=False)
class StationaryDesign:
    """Noise without a horizon as it is realised, with its certificate.

    ``response`` is the plant where the shaped noise enters it with the secret, and None
    where the shaped noise is the output noise.
    """

    shaping: LinearSystem  # square with a stable inverse, from white noise
    response: LinearSystem | None
    secret: LinearSystem  # from secret inputs in units of their radii to the outputs
    shift: float  # certified
    cost: float  # of a sample in the stationary law, in the mean
    lower_bound: float  # of the mean cost of any Gaussian noise of this shift
    multipliers: NDArray = field(default_factory=lambda: np.zeros(0))  # prove the bound

    @property
    def part(self) -> Filtered:
        """The noise as a part of output noise, in its stationary law."""
        return Filtered(self.shaping, self.response)

    @property
    def output(self) -> LinearSystem:
        """From white noise to the output noise gamma."""
        return self.part.system

    @property
    def gap(self) -> float:
        """cost / lower_bound - 1."""
        return self.cost / self.lower_bound - 1


def stationary_design(
    secret: SecretInputs,
    allowed: float,
    weight: LinearSystem,
    *,
    order: int | None = None,
    gap: float = 0.01,
) -> StationaryDesign:
    """The cheapest noise without a horizon for a secret and an allowed privacy shift.

    The cost is the mean square of H gamma, H the weight. The shaping has ``order`` states,
    by default the least number within ``gap`` of the bound. A `PrivacyWarning` says that no
    order reaches the gap. Changes at a distance may share less of a shaping of lower order,
    and the cheapest one is taken.
    """
    if secret.energies is not None:
        return _plant_driven(secret, secret.energies, allowed, weight)
    response = None
    problem = _Problem(secret, secret.system, weight)
    if secret.inputs < len(secret.system.C):  # the noise enters with the secret
        response = secret.system
        hidden = LinearSystem.gain(np.eye(secret.inputs))
        problem = _Problem(secret, hidden, weight.after(response))
    with piece(0, 3):
        grid, best, balanced = problem.optimum(min(gap, 1.0))
    orders = range(balanced.order + 1)
    if order is not None:
        orders = range(min(order, balanced.order), balanced.order + 1)[:1]
    candidates = (unwarped(truncated(balanced, k), grid.warp) for k in orders)
    with piece(1, 3):
        shaping = problem.cheapest(candidates, grid, best.lower_bound * (1 + gap))
    with piece(2, 3):
        sized = [problem.scaled(shaping, allowed)]
    apart = any(moves.separation and moves.events > 1 for moves in secret.signals)
    if order is None and apart:
        for k in range(1, min(shaping.order, _LOW_ORDERS)):
            lower = unwarped(truncated(balanced, k), grid.warp)
            try:
                lower = problem.cheapest([lower], grid, 0.0)
                sized.append(problem.scaled(lower, allowed))
            except UncertifiableError:
                continue
    shaping, shift = min(sized, key=lambda each: problem.cost(each[0]))
    cost = problem.cost(shaping)
    design = StationaryDesign(
        shaping,
        response,
        secret.scaled_system,
        shift,
        cost,
        min(best.lower_bound / allowed**2, cost),
        best.multipliers,
    )
    several = any(moves.events > 1 for moves in secret.signals)
    if order is None and not several and not design.gap <= gap:
        warnings.warn(
            f"the noise costs {design.gap:.2g} more than the lower bound, where gap={gap:g} was "
            f"asked for: no order up to {balanced.order} comes closer in double precision",
            PrivacyWarning,
            stacklevel=2,
        )
    return design


def _plant_driven(
    secret: SecretInputs, radii: NDArray, allowed: float, weight: LinearSystem
) -> StationaryDesign:
    """The plant's response to white noise mu / y, for all signals of bounded energy.

    Its spectrum G diag(mu / y)^2 G^* is what hiding the ball demands at every frequency.
    """
    sizes = round_up(radii / allowed, 2)
    shift = float(round_up((radii / sizes).max()))
    shaping = LinearSystem.gain(np.diag(sizes))
    cost = float(impulse_energies(weight.after(secret.system.after(shaping))).sum())
    bound = cost * (1 - 1e-12)
    return StationaryDesign(
        shaping, secret.system, secret.scaled_system, shift, cost, bound
    )


def white_design(
    secret: SecretInputs, allowed: float, weight: LinearSystem
) -> StationaryDesign:
    """Independent noise of one size, of whose optimum nothing is known."""
    system = secret.system
    problem = _Problem(secret, system, weight)
    shaping = LinearSystem.gain(np.eye(len(system.C)))
    unit = white_shift(secret, np.ones(len(system.C)))
    if secret.energies is not None:
        shaping = shaping.scaled(float(round_up(unit / allowed, 4)))
        shift = allowed
    else:
        shaping, shift = problem.scaled(shaping.scaled(unit * (1 + 1e-12)), allowed)
    cost = problem.cost(shaping)
    return StationaryDesign(shaping, None, secret.scaled_system, shift, cost, math.nan)


def white_shift(secret: SecretInputs, sizes: NDArray) -> float:
    """A number that no shift of independent noise of some sizes (p,) exceeds."""
    return shift_behind(LinearSystem.gain(np.diag(sizes)), secret)


@dataclass(frozen=True, eq=False)
class _Problem:
    """A secret, the system whose response shaped noise has to hide, and its price."""

    secret: SecretInputs
    hidden: LinearSystem
    price: LinearSystem

    def cost(self, shaping: LinearSystem) -> float:
        """Mean cost of a sample."""
        return float(impulse_energies(self.price.after(shaping)).sum())

    def certified_shift(self, shaping: LinearSystem) -> float:
        return shift_behind(shaping, replace(self.secret, system=self.hidden))

    def optimum(self, gap: float) -> tuple[FrequencyGrid, BestSpectrum, LinearSystem]:
        """The best spectrum, and a balanced system for it in the grid's variable."""
        poles = np.concatenate([poles_of(self.price), poles_of(self.hidden)])
        grid = FrequencyGrid.fitting(poles, self.secret.longest)
        price = frequency_response(self.price, grid.points)
        adjoint = price.conj().swapaxes(1, 2)
        weight = adjoint @ price
        responses = Responses.of(self.secret, self.hidden, grid.points)
        best = best_spectrum(grid, weight, responses, _OPTIMAL * gap)
        factor, phase = _resolved_factors(grid, best.spectrum, gap)
        negligible = _RESOLVED * gap
        balanced = balanced_realisation(factor, phase, _MOST_STATES, negligible)
        return grid, best, balanced

    def cheapest(
        self, shapings: Iterable[LinearSystem], grid: FrequencyGrid, enough: float
    ) -> LinearSystem:
        """The cheapest of some shapings, or the first that costs no more than enough.

        Each is scaled to a shift of one, which is a mean over the grid here.
        """
        least = np.inf
        best = None
        for shaping in shapings:
            with piece(shaping.order, _USUAL_ORDER):
                undone = shaping.inverse().after(self.hidden)
            if max(spectral_radius(shaping), spectral_radius(undone)) >= 1:
                continue
            left = Responses.of(self.secret, undone, grid.points)
            scaled = shaping.scaled(math.sqrt(left.largest_square(grid)))
            cost = self.cost(scaled)
            if cost < least:
                least = cost
                best = scaled
            if least <= enough:
                break
        if best is None:
            raise UncertifiableError(
                "order: no noise of this order hides the secret, since its inverse is not "
                "stable; ask for another order, or leave it out"
            )
        return best

    def scaled(
        self, shaping: LinearSystem, allowed: float
    ) -> tuple[LinearSystem, float]:
        """The shaping scaled until its certified shift is allowed, and that shift."""

        def evaluated(size: float) -> tuple[tuple[LinearSystem, float], float]:
            scaled = shaping.scaled(size)
            shift = self.certified_shift(scaled)
            return (scaled, shift), shift / allowed

        guess = float(round_up(1 / allowed, 2))
        found, _, excess = scale_to_budget(evaluated, guess)
        if excess > 1:
            raise UncertifiableError(
                "the noise does not meet its budget when evaluated back; ask for another "
                "order"
            )
        return found


def _resolved_factors(
    grid: FrequencyGrid, spectrum: NDArray, gap: float
) -> tuple[NDArray, NDArray]:
    """`outer_factors` that end within the grid.

    Where the spectrum almost vanishes, the coefficients decay slowly. If they do not end
    within the grid, white noise is added.
    """
    factor, phase = outer_factors(grid, spectrum)
    tail = max(_tail(factor), _tail(phase))
    if tail < _RESOLVED * gap:
        return factor, phase
    means = np.diag(grid.mean(spectrum))
    added = _FLOOR * gap * np.diag(means)
    return outer_factors(grid, spectrum + added)


def _tail(coefficients: NDArray) -> float:
    """Largest of the last coefficients relative to all."""
    if not np.isfinite(coefficients).all():
        return np.inf
    sizes = np.abs(coefficients)
    last = sizes[-len(sizes) // 16 :]
    return float(last.max() / sizes.max())
