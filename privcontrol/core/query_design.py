"""Designs of the least costly noise that meets a budget, with a certificate.

A design has three steps. A *shape* is a factor of noise that hides every move with a
shift of one. Its *size* meets the budget; it is found outwards and evaluated back. The
*certificate* bounds what any other noise of the same guarantee costs.

Shapes are enclosing ellipsoids (Gaussian noise) and cross-polytopes (Laplace noise).
Moves enter in a basis taken from the moves themselves, which keeps the problem well
scaled however far apart their sizes are.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
import scipy.linalg
from numpy.typing import ArrayLike, NDArray

from ..numerics.balls import rational_matrix
from ..numerics.checks import one_of, positive_integer, positive_number, real_array
from ..numerics.ellipsoid import gaussian_shape, weight_root
from ..numerics.errors import NotRealizableError, PrivacyError, UncertifiableError
from ..numerics.linalg import column_norms, float_above, rank_tolerance
from ..numerics.thresholds import ALIKE, LARGEST_EXCESS, ROUNDED
from ..privacy.budget import (
    PrivacyBudget,
    checked_budget,
    scale_to_budget,
)
from ..privacy.guarantee import FALSE_ALARM, PrivacyGuarantee, shown
from ..privacy.least_variance import least_law_variance
from ..privacy.loss import MOST_TRUNCATED, detection, worst_moves
from ..privacy.radial_design import (
    RadialSize,
    blocks_size,
    laplace_size,
    least_radial_size,
    radial_size,
    turning_point,
)
from ..privacy.release import Step, exact_product
from .adjacency import Adjacency, checked_adjacency
from .ball_noise import RADIAL_STEP, BallNoise, BlockNoise
from .blocks import blocks_under_weight
from .constraints import cheapest_factor
from .manifold import Moves
from .mechanism import Mechanism, guarantee_of
from .noise import GaussianNoise, LaplaceNoise, Noise, family_of, times
from .query import NO_NOISE, LinearQuery, checked_query

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
            f"{law}: advantage {100 * self.advantage:.3g} %, std {self.std:.4g}, cost "
            f"{self.cost:.4g}, power {100 * self.power:.3g} % at 5 % false alarms"
        )
        if self.turns is None:
            return line
        return f"{line}, larger than Gaussian from {self.turns} releases"


class PricedByShape:
    """Base of designs that say what other shapes of the same change would cost."""

    #: Designs the noise of each shape and returns its standard deviations.
    shapes: Callable[[], dict[str, NDArray]] | None

    @cached_property
    def price(self) -> dict[str, NDArray]:
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
        known. For Laplace noise it is the cost of the cheapest ellipsoid around the
        moves, up to r times too low for r directions.
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
        What the noise was designed for, over all ``releases``.
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
    attained: NDArray | None = field(default=None, compare=False)
    tangent_factor: NDArray | None = field(default=None, compare=False)
    unit_bound: float = field(default=math.nan, compare=False)
    budget: PrivacyBudget | None = field(default=None, compare=False)
    releases: int = field(default=1, compare=False)
    laws: tuple[LawOption, ...] = field(default=(), compare=False)
    shapes: Callable[[], dict[str, NDArray]] | None = field(
        default=None, compare=False, repr=False
    )

    def __post_init__(self) -> None:
        for name in ("attained", "tangent_factor"):
            value = getattr(self, name)
            if value is not None:
                object.__setattr__(self, name, real_array(value, name))

    @property
    def worst_moves(self) -> NDArray:
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
        """cost / lower_bound - 1, what a better design could still gain at most.

        NaN where no bound is known. Gaussian designs close the gap. The bound for Laplace
        noise is not tight, and a gap of up to r - 1 may be left for r directions.
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
            y = self.guarantee.gdp
            return self.unit_bound / y**2 * universal_share(y)
        return float(self.unit_bound * least_law_variance(self.budget, self.releases))

    def explain(self) -> str:
        """Return the guarantee in words, with what noise of other laws would cost.

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
            share = 100 * self.universal_bound / self.cost
            lines.append(
                f"Every law:  none costs less than {share:.3g} % of this noise"
            )
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
            f'family="auto" would cost at least {100 * (1 - share):.0f} % less, {option}; '
            f"this one: advantage {100 * own.advantage:.3g} %, power "
            f"{100 * own.power:.3g} %"
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
    ) -> NDArray:
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


# -- what is asked for, and what comes back ------------------------------------------


@dataclass(frozen=True)
class _Request:
    """A checked request for a design."""

    query: LinearQuery
    adjacency: Adjacency
    budget: PrivacyBudget
    weight_root: Callable[[NDArray], NDArray]
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
    ) -> _Request:
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

    def price(self, factor: NDArray) -> float:
        """Return tr(W factor factor^T)."""
        return float(np.sum(self.weight_root(factor) ** 2))

    def evaluate(self, noise: Noise) -> tuple[Mechanism, PrivacyGuarantee]:
        """Return the mechanism with this noise, and what it promises."""
        mechanism = Mechanism(self.query, noise)
        return mechanism, guarantee_of(mechanism, self.adjacency, self.moves)

    def sized(
        self,
        law: Callable[[NDArray], Noise],
        factor: NDArray,
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
        self, factor: NDArray, allowed: float, lower_bound: float = math.nan
    ) -> NoiseDesign:
        """Return Gaussian noise of a shape that hides every move with a shift of one.

        ``lower_bound`` is that of the cost of any noise.
        """

        def excess(guarantee: PrivacyGuarantee) -> float:
            return guarantee.gdp / allowed

        design = self.sized(GaussianNoise, factor, 1 / allowed, excess, lower_bound)
        unit_bound = lower_bound * allowed**2 * (1 - 1e-15)
        return replace(design, unit_bound=unit_bound)

    def laplace(self, factor: NDArray, lower_bound: float) -> NoiseDesign:
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
        self, factor: NDArray, size: RadialSize, lower_bound: float
    ) -> NoiseDesign:
        """Return radial noise of a shape that hides every move with a shift of one."""

        def law(factor: NDArray) -> Noise:
            return BallNoise(factor, rate=size.rate, bound=size.bound)

        def excess(guarantee: PrivacyGuarantee) -> float:
            ((shift, _, _), _) = guarantee.loss.rows[0].radial[0]
            if shift > size.rate * (1 + LARGEST_EXCESS):
                return shift / size.rate
            meets = guarantee.loss.released(self.releases).satisfies(self.budget)
            return 1.0 if meets else max(shift / size.rate, 1 + RADIAL_STEP)

        return self.sized(law, factor, 1.0, excess, lower_bound)

    def blocks(self, factor: NDArray, sizes: tuple[int, ...]) -> NoiseDesign:
        """Return radial noise in independent blocks of columns of a factor."""
        budget, releases = self.budget, self.releases
        _, unit = self.evaluate(BlockNoise(factor, sizes))

        def law(factor: NDArray) -> Noise:
            return BlockNoise(factor, sizes)

        def excess(guarantee: PrivacyGuarantee) -> float:
            meets = guarantee.loss.released(releases).satisfies(budget)
            return 1.0 if meets else 1 + RADIAL_STEP

        scale = blocks_size(unit.loss, budget, releases)
        return self.sized(law, factor, scale, excess, math.nan)


def universal_share(gdp: float) -> float:
    """Return y^2 / (exp(y^2) - 1), rounded down."""
    square = gdp * gdp
    if square > 700:  # beyond the range of a double
        return 0.0
    if square < 1e-16:
        return 1 - 1e-15
    return square / math.expm1(square) * (1 - 1e-12)


def _too_far_apart(what: str) -> UncertifiableError:
    return UncertifiableError(
        f"the designed noise {what} when evaluated back: the moves are too far apart in "
        "size for double precision; rescale the data, or protect fewer directions"
    )


def quoted(guarantee: PrivacyGuarantee, budget: PrivacyBudget) -> PrivacyGuarantee:
    """Return the guarantee with its text quoting epsilon at the budget's delta."""
    if budget.delta is None:
        return guarantee
    return replace(guarantee, quoted_delta=budget.delta)


# -- designs -------------------------------------------------------------------------


def design_gaussian(
    query: LinearQuery,
    adjacency: Adjacency,
    budget: PrivacyBudget,
    *,
    weight: ArrayLike | None = None,
    releases: int = 1,
    tol: float = 1e-9,
    constraints: Callable[[Any], Any] | None = None,
    basis: ArrayLike | None = None,
) -> NoiseDesign:
    """Design the Gaussian noise of least weighted variance that meets a budget.

    Minimises tr(W Gamma) over all covariances Gamma with z^T G^T Gamma^+ G z <= y*^2
    for every hidden move z, where y* is the privacy shift that the budget allows; see
    DPAM Theorem 1, with its Algorithm 1's matrix inequality solved to a certified
    optimum.

    Parameters
    ----------
    query, adjacency : LinearQuery, Adjacency
        What is published, and what it must hide.
    budget : PrivacyBudget
        With delta > 0.
    weight : array_like, shape (m, m), optional
        W, positive semidefinite; identity by default (the trace of the covariance).
    releases : int, optional
        The budget covers that many releases of the same secret.
    tol : float, optional
        Relative gap to reach.
    constraints : callable, optional
        A function from the covariance Gamma, a CVXPY expression (m, m), to a list of
        convex CVXPY constraints, such as ceilings ``Gamma[0, 0] <= 4`` or zeros
        ``Gamma[0, 1] == 0``. They are met to a relative 1e-6, the budget always. The
        lower bound is that without constraints. It takes seconds.
    basis : array_like, shape (m, r), optional
        Algorithm 1 of the short version of DPAM: Lambda = sigma basis, with the least
        sigma that meets the budget. The lower bound is still that of any noise.

    Returns
    -------
    NoiseDesign
        The noise, its guarantee, its cost, and a lower bound of any noise's cost.

    Raises
    ------
    NotRealizableError
        If a hidden move leaves the column space of the given basis.
    ValueError
        If delta is 0, the weight is not positive semidefinite, a constraint is not
        convex, the basis has another number of rows, or both are given.
    TypeError
        If an argument is of another type; says how to write it.
    PrivacyError
        If no hidden move changes what is published, or no noise of the budget satisfies
        the constraints.
    UncertifiableError
        If the moves are so far apart in size that double precision cannot certify a
        design.

    See Also
    --------
    design_laplace, design_iid, core.design_noise, Mechanism

    Examples
    --------
    >>> from privcontrol.core import *
    >>> query = LinearQuery([[1.0, 0.0], [0.0, 1.0]])
    >>> adjacency = DirectionAdjacency([[3.0, 0.0], [0.0, 1.0]])
    >>> budget = PrivacyBudget(epsilon=1, delta=1e-2)
    >>> design_gaussian(query, adjacency, budget).noise.covariance.round(3)
    array([[31.738,  0.   ],
           [ 0.   ,  3.526]])
    """
    request = _Request.of(query, adjacency, budget, weight, releases)
    if constraints is not None and basis is not None:
        raise ValueError("basis: leaves one number to choose; leave out constraints")
    tol = positive_number(tol, "tol")
    allowed = GaussianNoise.allowed_shift(budget, releases)
    shape, lower_bound = _cheapest(request, GaussianNoise, tol=tol)
    unconstrained = lower_bound / allowed / allowed
    if constraints is not None:
        return _constrained_design(request, allowed, constraints, unconstrained)
    if basis is not None:
        directions = real_array(basis, "basis", shape=(query.size, None))
        _, unit = request.evaluate(GaussianNoise(directions))
        shape = directions * unit.gdp
    return request.gaussian(shape, allowed, unconstrained)


def _constrained_design(
    request: _Request,
    allowed: float,
    constraints: Callable[[Any], Any],
    unconstrained: float,
) -> NoiseDesign:
    """Design the cheapest noise that satisfies constraints."""
    responses, _ = request.moves.output_responses(request.query)
    root = request.weight_root(np.eye(request.query.size))
    points = responses / allowed
    balls: list[NDArray] = []
    if request.moves.is_ball:
        balls = [points]
        points = points[:, :0]
    factor, check = cheapest_factor(points, balls, root.T @ root, constraints)
    design = request.gaussian(factor * allowed, allowed, unconstrained)
    check(design.noise.covariance)
    return design


def _cheapest(
    request: _Request, law: type[Noise], **options: Any
) -> tuple[NDArray, float]:
    """Find the cheapest shape of noise, and the least cost of any, NaN if not known.

    Around an ellipsoid of moves z = E u it is G E for every weight: (G E)(G E)^T is below
    every other covariance that hides the moves.
    """
    if not request.moves.is_ball:
        basis = request.query._move_basis(request.moves)
        found = law.shape(basis, request.weight_root(basis.responses), **options)
        return basis.responses @ found.factor, found.lower_bound
    axes = request.moves.vectors
    responses = request.query.response @ axes
    sizes = column_norms(responses.T)
    if not sizes.any():
        request.query._refuse_untold(request.moves)
    # which directions there are is no matter of the rows' units
    rows = responses[sizes > 0] / sizes[sizes > 0, None]
    _, s, vt = scipy.linalg.svd(rows, full_matrices=False)
    directions = vt[s > rank_tolerance(request.query.response, s)].T
    shape = responses @ directions
    least = request.price(shape) * (1 - 1e-12)
    is_known = law is GaussianNoise and request.moves.exact
    return shape, least if is_known else math.nan


def design_laplace(
    query: LinearQuery,
    adjacency: Adjacency,
    budget: PrivacyBudget,
    *,
    weight: ArrayLike | None = None,
    basis: str | ArrayLike = "optimal",
    releases: int = 1,
) -> NoiseDesign:
    """Design Laplace noise of little weighted variance that meets a budget.

    The factor's 1-ball must hold every hidden move: ||Lambda^+ G z||_1 <= epsilon (DPAM
    Theorem 2). The paper's Algorithm 2 scales a given basis. Here the directions are
    optimised too, by a local search. Where independent noise of one size is cheaper,
    the design returns that. The problem is not convex: the cost is no proven optimum,
    and the lower bound is not tight.

    Parameters
    ----------
    query, adjacency, weight, releases
        As in `design_gaussian`.
    budget : PrivacyBudget
        With delta = 0 for pure differential privacy; a delta above 0 is used to make the
        noise smaller.
    basis : "optimal" or array_like, shape (m, r), optional
        With an array: exactly Algorithm 2 (with its inverse where a transpose is
        printed), Lambda = sigma basis.

    Returns
    -------
    NoiseDesign

    Raises
    ------
    NotRealizableError
        If a hidden move leaves the column space of the given basis.
    ValueError, TypeError, PrivacyError
        As `design_gaussian` does; also if the basis has another number of rows, or
        epsilon is 0.

    See Also
    --------
    design_gaussian, design_iid, core.design_noise, Mechanism

    Examples
    --------
    >>> from privcontrol.core import *
    >>> manifold = AffineManifold([[2.0, -1.0]])
    >>> query = LinearQuery([[1.0, 0.0], [0.0, 1.0]], manifold)
    >>> budget = PrivacyBudget(epsilon=1.0)
    >>> design = design_laplace(query, ManifoldAdjacency(1.0), budget)
    >>> abs(design.noise.factor).round(6).tolist()
    [[1.0], [2.0]]
    >>> round(design.guarantee.epsilon(0.0), 6)
    1.0
    """
    request = _Request.of(query, adjacency, budget, weight, releases)
    LaplaceNoise.allowed_shift(budget)  # refuses epsilon = 0
    lower_bound = unit_bound = math.nan
    if isinstance(basis, str):
        one_of(basis, "basis", ("optimal",))
        shape, lower_bound = _cheapest(request, LaplaceNoise)
        unit_bound = lower_bound / LaplaceNoise.unit_variance
        if request.moves.is_ball:
            _, unit_bound = _cheapest(request, GaussianNoise)
        factors = [shape, np.ones(query.size)]
    else:
        directions = real_array(basis, "basis", shape=(query.size, None))
        factors = [directions]
    if budget.pure:
        share = budget.laplace_epsilon() / releases
        lower_bound = lower_bound / share / share
    else:
        lower_bound = math.nan  # it is for pure differential privacy
    design = _least_costly(request, factors, lower_bound)
    return replace(design, unit_bound=unit_bound)


def _least_costly(
    request: _Request, factors: list[NDArray], lower_bound: float
) -> NoiseDesign:
    """Return the design of the Laplace shape that is cheapest for a pure epsilon.

    The first of those that are equal is taken, and another one if double precision does
    not certify it.
    """
    costs = []
    hiding = []
    failure: PrivacyError = PrivacyError(NO_NOISE)
    for factor in factors:
        try:
            _, unit = request.evaluate(LaplaceNoise(factor))
            costs.append(request.price(factor * unit.loss.pure))
            hiding.append(factor)
        except (NotRealizableError, UncertifiableError) as error:
            failure = error
    least = min(costs, default=0.0) * (1 + ALIKE)
    for place in sorted(range(len(costs)), key=lambda place: costs[place] > least):
        try:
            return request.laplace(hiding[place], lower_bound)
        except (NotRealizableError, UncertifiableError) as error:
            failure = error
    raise failure


def design_iid(
    query: LinearQuery,
    adjacency: Adjacency,
    budget: PrivacyBudget,
    *,
    family: str = "gaussian",
    releases: int = 1,
) -> NoiseDesign:
    """Design independent noise of one size on every published entry, for comparison.

    Parameters
    ----------
    query, adjacency, budget, releases
        As in `design_gaussian`.
    family : {"gaussian", "laplace"}, optional

    Returns
    -------
    NoiseDesign
        Without a lower bound: nothing was optimised.

    Raises
    ------
    ValueError, TypeError, PrivacyError
        As `design_gaussian` does; Laplace noise needs no delta.

    See Also
    --------
    design_gaussian, design_laplace

    Examples
    --------
    >>> from privcontrol.core import *
    >>> import numpy as np
    >>> query = LinearQuery(np.eye(2), AffineManifold([[1.0, -1.0]]))
    >>> budget = PrivacyBudget(epsilon=1.0, delta=1e-2)
    >>> design = design_iid(query, ManifoldAdjacency(1.0), budget)
    >>> round(design.cost, 3), round(design.guarantee.gdp, 4)
    (14.106, 0.5325)
    """
    law = family_of(family)
    request = _Request.of(query, adjacency, budget, None, releases)
    allowed = law.allowed_shift(budget, releases)
    sensitivity = query.sensitivity(adjacency, law.shift_norm)
    if not sensitivity:
        raise PrivacyError(NO_NOISE)
    factor = np.full(query.size, sensitivity)
    if law is GaussianNoise:
        return request.gaussian(factor, allowed)
    return _least_costly(request, [factor], math.nan)


#: Laws of noise by name, those that are equally cheap in this order.
LAWS = ("gaussian", "laplace", "ball", "truncated")


def design_noise(
    query: LinearQuery,
    adjacency: Adjacency,
    budget: PrivacyBudget,
    *,
    family: str | None = None,
    weight: ArrayLike | None = None,
    releases: int = 1,
) -> NoiseDesign:
    """Design noise of a law, or of the cheapest one, that meets a budget.

    In few dimensions other laws need less noise than Gaussian noise for the same epsilon
    and delta, and reveal more to a typical test for that: ``NoiseDesign.laws`` has cost,
    advantage and power of each.

    Parameters
    ----------
    query, adjacency, budget, weight, releases
        As in `design_gaussian`.
    family : {None, "gaussian", "laplace", "ball", "truncated", "auto"}, optional
        "ball" is `BallNoise` whose rate is that of `ball_rate`, in the shape of the
        cheapest Gaussian noise, or independent blocks of it where the weight prices a
        direction below 1 % of the dearest one and they cost less. "truncated" is the same
        within the radius of `truncated_radius`, for moves in one or two directions and a
        delta above 0.
        "auto" is the cheapest of these four designs that keeps the budget as it was
        asked, and Gaussian noise for ``gdp``; blocks elsewhere may cost less. By default
        Gaussian noise, and for a pure budget the cheaper of "ball" and "laplace".

    Returns
    -------
    NoiseDesign

    Raises
    ------
    ValueError
        If the law cannot meet the budget, or is none of these.
    TypeError, PrivacyError
        As `design_gaussian` does.

    See Also
    --------
    design_gaussian, design_laplace, design_iid

    Examples
    --------
    >>> from privcontrol.core import *
    >>> query = LinearQuery([[1.0]])
    >>> budget = PrivacyBudget(epsilon=1.0, delta=1e-5)
    >>> design = design_noise(query, BallAdjacency(1.0), budget, family="auto")
    >>> for row in design.laws:
    ...     print(f"{row.law}: {row.cost:.2f}, advantage {row.advantage:.0%}")
    truncated: 2.00, advantage 39%
    ball: 2.00, advantage 39%
    laplace: 2.00, advantage 39%
    gaussian: 13.92, advantage 11%
    """
    request = _Request.of(query, adjacency, budget, weight, releases)
    if family is not None:
        one_of(family, "family", (*LAWS, "auto"))
    asked: tuple[str, ...]
    if family == "auto":
        asked = _possible_laws(request)
    elif family is not None:
        asked = (family,)
    else:
        asked = ("laplace", "ball") if budget.pure else ("gaussian",)
    found = {law: _of_law(request, law) for law in asked}
    options = [LawOption.of(law, design, releases) for law, design in found.items()]
    options.sort(key=lambda option: option.cost)
    least = options[0].cost * (1 + ALIKE)
    chosen = next(law for law in asked if found[law].cost <= least)
    _, unit_bound = _cheapest(request, GaussianNoise)
    return replace(found[chosen], laws=tuple(options), unit_bound=unit_bound)


def _possible_laws(request: _Request) -> tuple[str, ...]:
    """Return the laws that may keep the budget as it was asked."""
    budget = request.budget
    if budget.epsilon is None:
        return ("gaussian",)
    if budget.pure:
        return ("laplace", "ball")
    if not budget.epsilon:
        return ("gaussian", "ball")
    shape, _ = _cheapest(request, GaussianNoise)
    return LAWS if shape.shape[1] <= MOST_TRUNCATED else LAWS[:-1]


def _of_law(request: _Request, law: str) -> NoiseDesign:
    """Return the design of one law."""
    query, adjacency, budget = request.query, request.adjacency, request.budget
    weight, releases = request.weight, request.releases
    if law == "gaussian":
        return design_gaussian(
            query, adjacency, budget, weight=weight, releases=releases
        )
    if law == "laplace":
        return design_laplace(
            query, adjacency, budget, weight=weight, releases=releases
        )
    shape, lower_bound = _cheapest(request, GaussianNoise)
    size = radial_size(law, budget, shape.shape[1], request.releases)
    least = lower_bound * size.variance * (1 - 1e-12)
    found = [request.ball(shape, size, least)]
    if law == "ball":
        found += _in_blocks(request)
    return min(found, key=lambda design: design.cost)


def _in_blocks(request: _Request) -> list[NoiseDesign]:
    """Return designs of independent blocks, for a weight that hardly reads a direction."""
    if request.weight is None or request.moves.is_ball:
        return []
    basis = request.query._move_basis(request.moves)
    least = gaussian_shape(basis, basis.responses).factor
    shape = gaussian_shape(basis, request.weight_root(basis.responses)).factor
    inside = np.linalg.solve(shape, least)
    responses = basis.responses @ least
    designs = []
    for blocks in blocks_under_weight(
        np.linalg.solve(least, basis.coordinates),
        inside.T @ inside,
        request.weight_root(responses),
    ):
        factor = responses @ np.linalg.inv(blocks.rows)
        with suppress(NotRealizableError, UncertifiableError):
            designs.append(request.blocks(factor, blocks.sizes))
    return designs


def structured_equivalent(mechanism: Mechanism, adjacency: Adjacency) -> Mechanism:
    """Return the structured mechanism of the same guarantee and no larger covariance.

    With U a basis of the hidden moves' responses, U (U^T Gamma^+ U)^{-1} U^T has the same
    privacy shift for every hidden move as Gamma, and is below Gamma in the Loewner order:
    it disturbs no linear loop more, at any time and for any convex cost. Gamma may
    hide other moves as well, which this one does not.

    Parameters
    ----------
    mechanism : Mechanism
        With Gaussian noise that hides the adjacency.
    adjacency : Adjacency

    Returns
    -------
    Mechanism
        Of the same query.

    Raises
    ------
    TypeError
        If the mechanism is none, or has no Gaussian noise, or the adjacency is none.
    NotRealizableError
        If the mechanism does not hide the adjacency.
    PrivacyError
        If no hidden move changes what is published.

    See Also
    --------
    design_gaussian, design_iid

    Examples
    --------
    >>> from privcontrol.core import *
    >>> import numpy as np
    >>> query = LinearQuery(np.eye(2), AffineManifold([[1.0, -1.0]]))
    >>> adjacency = ManifoldAdjacency(1.0)
    >>> iid = design_iid(query, adjacency, PrivacyBudget(epsilon=1.0, delta=1e-2))
    >>> better = structured_equivalent(iid.mechanism, adjacency)
    >>> better.noise.covariance.round(3)
    array([[3.526, 3.526],
           [3.526, 3.526]])
    >>> round(better.guarantee(adjacency).gdp, 4)
    0.5325
    """
    if not isinstance(mechanism, Mechanism):
        raise TypeError(
            f"mechanism: expected a Mechanism, got {type(mechanism).__name__}; of a "
            "design it is design.mechanism"
        )
    noise = mechanism.noise
    if not isinstance(noise, GaussianNoise):
        raise TypeError(
            f"mechanism: expected Gaussian noise, got {type(noise).__name__}"
        )
    moves = checked_adjacency(adjacency).moves(mechanism.query.manifold)
    shifts, _ = mechanism.shifts(moves)
    if not shifts.any():
        raise PrivacyError(NO_NOISE)
    # each move counts alike: a small one needs its direction as much as a large one
    sizes = np.linalg.norm(shifts, axis=0)
    directions = shifts / np.where(sizes > 0, sizes, 1.0)
    U, s, _ = scipy.linalg.svd(directions, full_matrices=False)
    rank = int(np.sum(s > rank_tolerance(shifts, s)))
    projected = times(noise.factor, U[:, :rank])
    return Mechanism(mechanism.query, GaussianNoise(projected))
