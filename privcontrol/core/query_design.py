"""Designs of the least costly noise that meets a budget, with a certificate.

A design has three steps. A *shape* is a factor of noise that hides every move with a
shift of one. Its *size* meets the budget, see `DesignRequest`. The *certificate* bounds
what any other noise of the same guarantee costs, see `NoiseDesign`.

Shapes are enclosing ellipsoids (Gaussian noise) and cross-polytopes (Laplace noise).
Moves enter in a basis taken from the moves themselves, which keeps the problem well
scaled however far apart their sizes are.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from typing import Any

import numpy as np
import scipy.linalg
from numpy.typing import ArrayLike, NDArray

from ..numerics.checks import one_of, positive_number, real_array
from ..numerics.ellipsoid import gaussian_shape
from ..numerics.errors import NotRealizableError, PrivacyError, UncertifiableError
from ..numerics.linalg import column_norms, nonzero, rank_tolerance
from ..numerics.thresholds import ALIKE
from ..privacy.budget import (
    PrivacyBudget,
)
from ..privacy.loss import MOST_TRUNCATED
from ..privacy.radial_design import (
    radial_size,
)
from .adjacency import Adjacency, checked_adjacency
from .blocks import blocks_under_weight
from .constraints import cheapest_factor
from .design_request import DesignRequest
from .mechanism import Mechanism
from .noise import GaussianNoise, LaplaceNoise, Noise, around_ball, family_of, times
from .noise_design import LAWS, LawOption, NoiseDesign
from .query import NO_NOISE, LinearQuery


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
        The query to publish, and the secret.
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
        sigma that meets the budget. The lower bound still holds for any noise.

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
        If no hidden move changes the published data, or no noise of the budget
        satisfies the constraints.
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
    request = DesignRequest.of(query, adjacency, budget, weight, releases)
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
    request: DesignRequest,
    allowed: float,
    constraints: Callable[[Any], Any],
    unconstrained: float,
) -> NoiseDesign:
    """Design the cheapest noise that satisfies constraints."""
    responses, _ = request.moves.output_responses(request.query)
    root = request.weight_root(np.eye(request.query.size))
    points = responses / allowed
    balls: list[NDArray[np.float64]] = []
    if request.moves.is_ball:
        balls = [points]
        points = points[:, :0]
    factor, check = cheapest_factor(points, balls, root.T @ root, constraints)
    design = request.gaussian(factor * allowed, allowed, unconstrained)
    check(design.noise.covariance)
    return design


def _cheapest(
    request: DesignRequest, law: type[Noise], **options: Any
) -> tuple[NDArray[np.float64], float]:
    """Find the cheapest shape of noise, and the least cost of any, NaN if not known.

    Around an ellipsoid of moves z = E u Gaussian noise is G E for every weight:
    (G E)(G E)^T is below every other covariance that hides the moves.
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
    if law is LaplaceNoise:
        found = around_ball(request.weight_root(shape))
        shape, least = shape @ found.factor, found.lower_bound
    else:
        least = request.price(shape) * (1 - 1e-12)
    return shape, least if request.moves.exact else math.nan


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
    optimised too: around a ball of moves they are the best ones, elsewhere a local
    optimum. Where independent noise of one size is cheaper, the design returns that.
    But for a ball the cost is no proven optimum, and the lower bound is not tight.

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
    request = DesignRequest.of(query, adjacency, budget, weight, releases)
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
    request: DesignRequest, factors: list[NDArray[np.float64]], lower_bound: float
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
    request = DesignRequest.of(query, adjacency, budget, None, releases)
    allowed = law.allowed_shift(budget, releases)
    sensitivity = query.sensitivity(adjacency, law.shift_norm)
    if not sensitivity:
        raise PrivacyError(NO_NOISE)
    factor = np.full(query.size, sensitivity)
    if law is GaussianNoise:
        return request.gaussian(factor, allowed)
    return _least_costly(request, [factor], math.nan)


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
        "ball" is `BallNoise` with the rate of `ball_rate`, in the shape of the cheapest
        Gaussian noise, or independent blocks of it where the weight prices a direction
        below 1 % of the dearest one and they cost less. "truncated" is the same within
        the radius of `truncated_radius`, for moves in one or two directions and a delta
        above 0. "auto" is the cheapest of these four designs that keeps the budget as
        it was asked, and Gaussian noise for ``gdp``; blocks elsewhere may cost less. By
        default Gaussian noise, and for a pure budget the cheaper of "ball" and
        "laplace".

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
    request = DesignRequest.of(query, adjacency, budget, weight, releases)
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


def _possible_laws(request: DesignRequest) -> tuple[str, ...]:
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


def _of_law(request: DesignRequest, law: str) -> NoiseDesign:
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


def _in_blocks(request: DesignRequest) -> list[NoiseDesign]:
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
        np.asarray(np.linalg.solve(least, basis.coordinates), float),
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
        If no hidden move changes the published data.

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
    directions = shifts / nonzero(sizes)
    U, s, _ = scipy.linalg.svd(directions, full_matrices=False)
    rank = int(np.sum(s > rank_tolerance(shifts, s)))
    projected = times(noise.factor, U[:, :rank])
    return Mechanism(mechanism.query, GaussianNoise(projected))
