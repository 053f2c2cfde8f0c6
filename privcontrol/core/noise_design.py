"""What a design of noise comes back with: the noise, its guarantee and its certificate.

The *certificate* bounds what any other noise of the same guarantee costs.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from decimal import ROUND_FLOOR
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..numerics.balls import rational_matrix
from ..numerics.checks import real_array
from ..numerics.thresholds import SMALLEST
from ..privacy.budget import (
    PrivacyBudget,
)
from ..privacy.guarantee import FALSE_ALARM, PrivacyGuarantee, shown
from ..privacy.least_variance import least_law_variance
from ..privacy.loss import detection
from ..privacy.radial_design import (
    least_radial_size,
    turning_point,
)
from ..privacy.release import Step, exact_product
from .ball_noise import BlockNoise
from .mechanism import Mechanism
from .noise import GaussianNoise, Noise

#: Part of the cost that another law has to save to be named.
_WORTH_A_LINE = 0.1


@dataclass(frozen=True)
class LawOption:
    """Hold what one law of noise costs under a budget, and what it reveals.

    Attributes
    ----------
    law : {"gaussian", "laplace", "ball", "truncated"}
    cost : float
        tr(W Gamma) of one release.
    std : float
        Largest standard deviation of an entry, in its unit.
    advantage : float
        By how much the power of a test exceeds its rate of false alarms at most, delta at
        epsilon = 0, over all releases.
    power : float
        Of a test with 5 % false alarms, at most, over all releases.
    dimension : int
        How many numbers r the noise has.
    budget : PrivacyBudget or None
        Over all releases.
    blocks : tuple of int
        How many numbers each independent block of radial noise has, where there are
        several.
    """

    law: str
    cost: float
    std: float
    advantage: float
    power: float
    dimension: int = 1
    budget: PrivacyBudget | None = None
    blocks: tuple[int, ...] = ()

    @classmethod
    def of(cls, law: str, design: NoiseDesign, releases: int) -> LawOption:
        """Return the row of a design of one law."""
        loss = design.guarantee.loss.released(releases)
        return cls(
            law,
            design.cost,
            float(design.noise.std.max()),
            float(loss.delta(0.0)),
            float(detection(loss, FALSE_ALARM)),
            design.noise.factor.shape[-1],
            design.budget,
            design.noise.sizes if isinstance(design.noise, BlockNoise) else (),
        )

    @cached_property
    def turns(self) -> int | None:
        """The number of releases from which Gaussian noise is smaller, up to 64.

        All releases share the budget, and noise of both laws has the same shape. None for
        Gaussian and Laplace noise, where more releases have no such number, for blocks, of
        which the best ones then differ, and for budgets that Gaussian noise cannot meet.
        """
        budget = self.budget
        if self.law not in ("ball", "truncated") or budget is None or self.blocks:
            return None
        if not (budget.epsilon and budget.delta):
            return None
        return turning_point(self.law, budget, self.dimension)

    def __str__(self) -> str:
        law = self.law
        if self.blocks:
            law += f" in blocks of {', '.join(map(str, self.blocks))}"
        line = (
            f"{law}: advantage {shown(100 * self.advantage)} %, std {self.std:.4g}, cost "
            f"{self.cost:.4g}, power {shown(100 * self.power)} % at 5 % false alarms"
        )
        if self.turns is None:
            return line
        return f"{line}, larger than Gaussian from {self.turns} releases"


class PricedByShape:
    """Base of designs that say what other shapes of the same change would cost."""

    #: Designs the noise of each shape and returns its standard deviations.
    shapes: Callable[[], dict[str, NDArray[np.float64]]] | None

    @cached_property
    def price(self) -> dict[str, NDArray[np.float64]]:
        """Standard deviations (p,) of noise for a level that is kept and for any shape.

        Both are for the same budget and the same ``duration``, as ``{"level": std, "any":
        std}``. The other noise is designed when this is asked for.

        Raises
        ------
        ValueError
            If the noise is not for changes of a signal that last.
        """
        if self.shapes is None:
            raise ValueError(
                "price: expected noise that design_output_noise made for changes that last "
                "(DisturbanceAdjacency with a duration)"
            )
        return self.shapes()


@dataclass(frozen=True)
class NoiseDesign(PricedByShape):
    """Hold a designed mechanism, its guarantee and its certificate of optimality.

    Attributes
    ----------
    mechanism : Mechanism
    guarantee : PrivacyGuarantee
        Of one release.
    cost : float
        tr(W Gamma), the weighted variance of the noise.
    lower_bound : float
        No noise of the family with the same guarantee costs less; NaN where no bound is
        known. With a floor, none that has this floor. Of radial noise in one block it
        bounds all in one block: independent blocks, which are tried under a weight, may
        cost less. For Laplace noise it is the least cost for a ball of moves, and else the
        cost of the cheapest ellipsoid around them, up to r times too low for r directions.
    attained : ndarray, shape (k, s), or None
        Tangent moves at which the guarantee is attained, where some are known.
        ``worst_moves`` (n, s) are the same as moves of the data.
    tangent_factor : ndarray, shape (k, columns of the factor), or None
        S with factor = G S, for structured noise of a plant, its response to a random
        tangent move S eta.
    unit_bound : float
        No Gaussian noise costs less that hides every move with a shift of one; NaN where
        that is not known.
    budget : PrivacyBudget or None
        The budget of the design, over all ``releases``.
    releases : int
    laws : tuple of LawOption
        The laws that were compared, cheapest first, where a design compared some.
    shapes : callable or None
        What `price` asks.

    See Also
    --------
    design_gaussian, design_laplace, core.design_noise

    Examples
    --------
    >>> from privcontrol.core import BallAdjacency, LinearQuery, PrivacyBudget
    >>> from privcontrol.core import design_gaussian
    >>> budget = PrivacyBudget(epsilon=1.0, delta=1e-2)
    >>> query = LinearQuery([[1.0, 1.0]])
    >>> design = design_gaussian(query, BallAdjacency(1.0), budget)
    >>> round(design.cost, 3), design.gap < 1e-9
    (7.053, True)
    >>> round(design.cost / design.universal_bound, 3)
    2.326
    """

    mechanism: Mechanism
    guarantee: PrivacyGuarantee
    cost: float = field(compare=False)
    lower_bound: float = field(compare=False)
    attained: NDArray[np.float64] | None = field(default=None, compare=False)
    tangent_factor: NDArray[np.float64] | None = field(default=None, compare=False)
    unit_bound: float = field(default=math.nan, compare=False)
    budget: PrivacyBudget | None = field(default=None, compare=False)
    releases: int = field(default=1, compare=False)
    laws: tuple[LawOption, ...] = field(default=(), compare=False)
    shapes: Callable[[], dict[str, NDArray[np.float64]]] | None = field(
        default=None, compare=False, repr=False
    )

    def __post_init__(self) -> None:
        for name in ("attained", "tangent_factor"):
            value = getattr(self, name)
            if value is not None:
                object.__setattr__(self, name, real_array(value, name))

    @property
    def worst_moves(self) -> NDArray[np.float64]:
        """Data-space moves (n, s) at which the guarantee is attained."""
        manifold = self.mechanism.query.manifold
        if self.attained is None:
            return np.empty((manifold.size, 0))
        moves = manifold.kernel @ self.attained
        moves.flags.writeable = False
        return moves

    @property
    def noise(self) -> Noise:
        """The noise of the mechanism."""
        return self.mechanism.noise

    @property
    def gap(self) -> float:
        """cost / lower_bound - 1, the largest possible gain of a better design.

        With a floor that is one with the same floor. NaN where no bound is known. Gaussian designs close the gap. The bound for Laplace
        noise around listed moves is not tight, and a gap of up to r - 1 may be left for r
        directions.
        """
        if not self.lower_bound > 0:
            return math.nan
        return self.cost / self.lower_bound - 1

    @cached_property
    def universal_bound(self) -> float:
        """No noise of any law that keeps the budget costs less; NaN where unknown.

        With an epsilon and a delta it is about all additive noise whose guarantee is its
        own, both orders of neighbours counted. Its projection w hides the projection of a
        move z, so its variance is at least V (w'z)^2 with `least_variance` V of a number
        that hides moves of exactly one. So the bound is V times `unit_bound`, more by the
        number of releases.

        With a ``gdp`` it is about all unbiased mechanisms that promise as much zCDP:
        lower_bound y^2 / (exp(y^2) - 1) for a design that is y-GDP, by the inequality of
        :cite:t:`ChapmanRobbins1951`. It compares all data of the manifold, of which any two
        neighbours may change places.
        """
        if self.budget is None:
            return math.nan
        if self.budget.epsilon is None:
            gdp = self.guarantee.gdp
            square = max(gdp * gdp, SMALLEST)
            if square > 700:  # beyond the range of a double
                return 0.0
            return self.unit_bound / math.expm1(square) * (1 - 1e-12)
        return float(self.unit_bound * least_law_variance(self.budget, self.releases))

    def explain(self) -> str:
        """Return the guarantee in words, with the costs of other laws.

        A table of laws where the design compared some. Of Gaussian noise there is one line
        where ``family="auto"`` would cost over 10 % less.

        Returns
        -------
        str
            Several lines.

        Examples
        --------
        >>> from privcontrol.core import *
        >>> budget = PrivacyBudget(epsilon=1.0, delta=1e-2)
        >>> design = design_gaussian(LinearQuery([[1.0, 1.0]]), BallAdjacency(1.0), budget)
        >>> print(design.explain().splitlines()[0])
        Budget:     epsilon = 1 at delta = 0.01 (0.5326-GDP, exact); Gaussian noise, 1 release
        """
        lines = [self.guarantee.explain()]
        if self.universal_bound > 0:
            share = shown(100 * self.universal_bound / self.cost, ROUND_FLOOR)
            lines.append(f"Every law:  none costs less than {share} % of this noise")
        lines += [f"Law:        {option}" for option in self.laws]
        saving = None if self.laws else self._saving
        if saving is not None:
            lines.append(f"Other law:  {saving}")
        return "\n".join(lines)

    @property
    def _saving(self) -> str | None:
        """What radial noise of the same shape would cost less, if that is over 10 %."""
        budget = self.budget
        tangent = self.tangent_factor
        shape = self.noise.factor if tangent is None else tangent
        is_gaussian = type(self.noise) is GaussianNoise and shape.ndim == 2
        if budget is None or not (budget.epsilon and budget.delta and is_gaussian):
            return None
        if not self.unit_bound > 0:
            return None
        rank = shape.shape[1]
        size = least_radial_size(budget, rank, self.releases)
        share = size.variance * self.guarantee.gdp**2
        if share > 1 - _WORTH_A_LINE:
            return None
        other = size.loss.released(self.releases)
        own = LawOption.of("gaussian", self, self.releases)
        option = replace(
            own,
            law=size.law.name,
            cost=self.cost * share,
            std=own.std * math.sqrt(share),
            advantage=float(other.delta(0.0)),
            power=float(detection(other, FALSE_ALARM)),
            dimension=rank,
        )
        return (
            f'family="auto" would cost at least {math.floor(100 * (1 - share))} % less, '
            f"{option}; this one: advantage {shown(100 * own.advantage)} %, power "
            f"{shown(100 * own.power)} %"
        )

    def release(
        self,
        x: ArrayLike,
        *,
        size: int | None = None,
        rng: int | np.random.SeedSequence | np.random.Generator | None = None,
        grid: Step | Sequence[Step] | None = None,
        resolution: Step | Sequence[Step] | None = None,
        counts: bool = False,
    ) -> NDArray[np.float64]:
        """Publish F x + gamma by `Mechanism.release`, whose arguments it takes.

        Without `rng` the release is exact, and structured noise of a plant is drawn as
        its response to a random tangent move, of which the guarantee is, not with the
        rounded factor. With `rng` it is simulated in double precision.

        Parameters
        ----------
        x : array_like, shape (n,)
            The private data, on the manifold.
        size, rng, grid, resolution, counts : optional
            As for `Mechanism.release`.

        Returns
        -------
        ndarray, shape (m,) or (size, m)
            In the units of the query.

        Examples
        --------
        >>> from privcontrol.core import *
        >>> budget = PrivacyBudget(epsilon=1.0, delta=1e-2)
        >>> design = design_gaussian(LinearQuery([[1.0, 1.0]]), BallAdjacency(1.0), budget)
        >>> design.release([3.0, 4.0], grid=0.5).shape
        (1,)
        """
        if rng is not None or self.tangent_factor is None:
            return self.mechanism.release(
                x, size=size, rng=rng, grid=grid, resolution=resolution, counts=counts
            )
        query = self.mechanism.query
        tangent = rational_matrix(self.tangent_factor)
        moves = exact_product(query.manifold.kernel, tangent)
        factor = exact_product(query.matrix, moves)
        return self.mechanism.release_exactly(
            x, factor, size=size, grid=grid, resolution=resolution, counts=counts
        )

    def __repr__(self) -> str:
        numbers = f"cost={self.cost:.6g}, gap={shown(self.gap)}"
        return f"NoiseDesign({self.noise!r}, {numbers})"


def quoted(guarantee: PrivacyGuarantee, budget: PrivacyBudget) -> PrivacyGuarantee:
    """Return the guarantee with its text quoting epsilon at the budget's delta."""
    if budget.delta is None:
        return guarantee
    return replace(guarantee, quoted_delta=budget.delta)


#: Laws of noise by name, those that are equally cheap in this order.
LAWS = ("gaussian", "laplace", "ball", "truncated")
