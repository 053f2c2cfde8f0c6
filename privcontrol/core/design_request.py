"""A request for noise, and noise of a given shape that meets its budget.

The *size* of a shape is found outwards and evaluated back.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..numerics.checks import positive_integer
from ..numerics.ellipsoid import weight_root
from ..numerics.errors import NotRealizableError, UncertifiableError
from ..numerics.linalg import float_above
from ..numerics.thresholds import LARGEST_EXCESS, ROUNDED
from ..privacy.budget import (
    PrivacyBudget,
    checked_budget,
    scale_to_budget,
)
from ..privacy.guarantee import PrivacyGuarantee
from ..privacy.loss import worst_moves
from ..privacy.radial_design import (
    RadialSize,
    blocks_size,
    laplace_size,
)
from .adjacency import Adjacency, checked_adjacency
from .ball_noise import BallNoise, BlockNoise
from .manifold import Moves
from .mechanism import Mechanism, guarantee_of
from .noise import GaussianNoise, LaplaceNoise, Noise
from .noise_design import NoiseDesign, quoted
from .query import LinearQuery, checked_query


@dataclass(frozen=True)
class DesignRequest:
    """A checked request for a design."""

    query: LinearQuery
    adjacency: Adjacency
    budget: PrivacyBudget
    weight_root: Callable[[NDArray[np.float64]], NDArray[np.float64]]
    releases: int
    weight: ArrayLike | None = None

    @classmethod
    def of(
        cls,
        query: LinearQuery,
        adjacency: Adjacency,
        budget: PrivacyBudget,
        weight: ArrayLike | None,
        releases: int,
    ) -> DesignRequest:
        return cls(
            checked_query(query),
            checked_adjacency(adjacency),
            checked_budget(budget),
            weight_root(weight, query.size),
            positive_integer(releases, "releases"),
            weight,
        )

    @cached_property
    def moves(self) -> Moves:
        """The hidden moves."""
        return self.adjacency.moves(self.query.manifold)

    def price(self, factor: NDArray[np.float64]) -> float:
        """Return tr(W factor factor^T)."""
        return float(np.sum(self.weight_root(factor) ** 2))

    def evaluate(self, noise: Noise) -> tuple[Mechanism, PrivacyGuarantee]:
        """Return the mechanism with this noise, and what it promises."""
        mechanism = Mechanism(self.query, noise)
        return mechanism, guarantee_of(mechanism, self.adjacency, self.moves)

    def sized(
        self,
        law: Callable[[NDArray[np.float64]], Noise],
        factor: NDArray[np.float64],
        scale: float,
        excess: Callable[[PrivacyGuarantee], float],
        lower_bound: float,
    ) -> NoiseDesign:
        """Scale noise of a shape until it meets the budget, error bounds included.

        ``scale`` is a first guess. ``excess`` says how many times too small the noise of a
        guarantee is, at most 1 where it meets the budget. A shape that does not hide what
        it was made for is refused.
        """

        def evaluated(
            scale: float,
        ) -> tuple[tuple[Mechanism, PrivacyGuarantee], float]:
            mechanism, guarantee = self.evaluate(law(factor * scale))
            return (mechanism, guarantee), excess(guarantee)

        start = float_above(scale, 2)
        if not math.isfinite(float(np.abs(factor).max()) * start):
            raise UncertifiableError(
                "expected a noise size below 1.8e308, got more; rescale the data or relax "
                "the budget"
            )
        try:
            (mechanism, guarantee), scale, over = scale_to_budget(
                evaluated, start, largest_excess=1 + LARGEST_EXCESS
            )
        except NotRealizableError:
            # a direction so thin that it was taken for a residue of rounding
            raise _too_far_apart("does not cover a direction") from None
        if not over <= 1:
            raise _too_far_apart(f"exceeds its budget by {over - 1:.1e}")
        noise = mechanism.noise
        cost = noise.unit_variance * self.price(noise.factor)
        return NoiseDesign(
            mechanism,
            quoted(guarantee, self.budget),
            cost,
            # a bound that rounding has lifted above the cost has lost its digits
            math.nan if lower_bound > cost * (1 + ROUNDED) else min(lower_bound, cost),
            self.moves.attained(worst_moves(guarantee.loss)),
            budget=self.budget,
            releases=self.releases,
        )

    def gaussian(
        self, factor: NDArray[np.float64], allowed: float, lower_bound: float = math.nan
    ) -> NoiseDesign:
        """Return Gaussian noise of a shape that hides every move with a shift of one.

        ``lower_bound`` is that of the cost of any noise.
        """

        def excess(guarantee: PrivacyGuarantee) -> float:
            return guarantee.gdp / allowed

        design = self.sized(GaussianNoise, factor, 1 / allowed, excess, lower_bound)
        unit_bound = lower_bound * allowed**2 * (1 - 1e-15)
        return replace(design, unit_bound=unit_bound)

    def laplace(self, factor: NDArray[np.float64], lower_bound: float) -> NoiseDesign:
        """Return Laplace noise of any shape."""
        budget = self.budget
        releases = self.releases
        _, unit = self.evaluate(LaplaceNoise(factor))
        scale = laplace_size(unit.loss, budget, releases)

        def excess(guarantee: PrivacyGuarantee) -> float:
            if budget.pure and budget.epsilon is not None:
                return guarantee.epsilon(0.0) * releases / budget.epsilon
            meets = guarantee.loss.released(releases).satisfies(budget)
            return 1.0 if meets else 1 + 1e-6

        return self.sized(LaplaceNoise, factor, scale, excess, lower_bound)

    def ball(
        self, factor: NDArray[np.float64], size: RadialSize, lower_bound: float
    ) -> NoiseDesign:
        """Return radial noise of a shape that hides every move with a shift of one."""

        def law(factor: NDArray[np.float64]) -> Noise:
            return BallNoise(factor, rate=size.rate, bound=size.bound)

        def excess(guarantee: PrivacyGuarantee) -> float:
            ((shift, _, _), _) = guarantee.loss.rows[0].radial[0]
            if shift > size.rate * (1 + LARGEST_EXCESS):
                return shift / size.rate
            meets = guarantee.loss.released(self.releases).satisfies(self.budget)
            return 1.0 if meets else max(shift / size.rate, 1 + ROUNDED)

        return self.sized(law, factor, 1.0, excess, lower_bound)

    def blocks(
        self, factor: NDArray[np.float64], sizes: tuple[int, ...]
    ) -> NoiseDesign:
        """Return radial noise in independent blocks of columns of a factor."""
        budget, releases = self.budget, self.releases
        _, unit = self.evaluate(BlockNoise(factor, sizes))

        def law(factor: NDArray[np.float64]) -> Noise:
            return BlockNoise(factor, sizes)

        def excess(guarantee: PrivacyGuarantee) -> float:
            meets = guarantee.loss.released(releases).satisfies(budget)
            return 1.0 if meets else 1 + ROUNDED

        scale = blocks_size(unit.loss, budget, releases)
        return self.sized(law, factor, scale, excess, math.nan)


def _too_far_apart(what: str) -> UncertifiableError:
    return UncertifiableError(
        f"the designed noise {what} when evaluated back: the moves are too far apart in "
        "size for double precision; rescale the data, or protect fewer directions"
    )
