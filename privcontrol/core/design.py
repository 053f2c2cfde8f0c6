"""Noise design: the least costly noise of a given guarantee, with a certificate of how far from least it is.

The problem is an enclosing ellipsoid: the covariance must be large enough around every hidden move and cost as
little as possible. Moves enter in coordinates of a basis taken from the moves themselves, which keeps the problem
well scaled however far apart their sizes are.
"""

import math
from dataclasses import dataclass, field, replace
from itertools import chain

import numpy as np
import scipy.linalg

from ._linalg import one_of, positive_integer, rank_tolerance, real_array
from ._shapes.certificate import thickening
from ._shapes.weighted import gaussian_shape, half_weight, laplace_factors
from ._sizing import (
    allowed_shift,
    laplace_size as laplace_size,
    meet,
    meet_laplace,
)  # as `allowed_shift`, for the designs of plants
from .adjacency import checked_adjacency
from .budget import checked_budget
from .errors import NotRealizableError, PrivacyError, UncertifiableError
from .guarantee import PrivacyGuarantee
from .mechanism import Mechanism, checked_query
from .moves import EllipsoidMoves
from .noise import GaussianNoise, LaplaceNoise, family_of
from .query import NO_NOISE


@dataclass(frozen=True)
class NoiseDesign:
    """A designed mechanism with its guarantee and its certificate of optimality.

    Attributes
    ----------
    mechanism : Mechanism
    guarantee : PrivacyGuarantee
        Of one release.
    cost : float
        tr(W Gamma), the weighted variance of the noise.
    lower_bound : float
        No Gaussian noise of the same guarantee costs less; of Laplace noise, no factor whatever. NaN where no bound is
        known. For Laplace noise it is the cost of the cheapest ellipsoid around the moves, in which the factor's
        1-ball must lie: attained where the moves are the axes, and up to r times too low for r directions.
    worst_moves : ndarray, shape (n, s)
        Data-space moves at which the guarantee is attained.
    tangent_factor : ndarray, shape (k, columns of the factor), or None
        S with factor = G S: the noise is the query's response to a random tangent move S eta. None where the
        noise was not built that way.

    Examples
    --------
    >>> from privcontrol.core import BallAdjacency, LinearQuery, PrivacyBudget, design_gaussian
    >>> design = design_gaussian(LinearQuery([[1.0, 1.0]]), BallAdjacency(1.0), PrivacyBudget(epsilon=1.0, delta=1e-2))
    >>> round(design.cost, 3), design.gap < 1e-9
    (7.053, True)
    """

    mechanism: Mechanism
    guarantee: PrivacyGuarantee
    cost: float
    lower_bound: float
    worst_moves: np.ndarray = field(compare=False)
    tangent_factor: np.ndarray | None = field(default=None, compare=False)

    def __post_init__(self):
        worst_moves = real_array(self.worst_moves, "worst_moves")
        object.__setattr__(self, "worst_moves", worst_moves)
        if self.tangent_factor is not None:
            tangent_factor = real_array(self.tangent_factor, "tangent_factor")
            object.__setattr__(self, "tangent_factor", tangent_factor)

    @property
    def noise(self):
        """The noise of the mechanism."""
        return self.mechanism.noise

    @property
    def gap(self):
        """cost / lower_bound - 1: what a better design could still gain at most, relatively; NaN where no bound is known.

        Gaussian designs close it. For Laplace noise a gap of 1.3 says that no factor costs less than 1 / 2.3 of this
        one, not that there is one: the bound is not tight, and up to r - 1 is left of it for r directions.
        """
        return self.cost / self.lower_bound - 1 if self.lower_bound > 0 else math.nan

    def release(self, x, *, size=None, rng=None):
        """`Mechanism.release` of the designed mechanism: F x + gamma.

        Examples
        --------
        >>> from privcontrol.core import BallAdjacency, LinearQuery, PrivacyBudget, design_laplace
        >>> design = design_laplace(LinearQuery([[1.0, 1.0]]), BallAdjacency(1.0), PrivacyBudget(epsilon=1.0))
        >>> design.release([20.0, 1.5], size=3, rng=0).shape
        (3, 1)
        """
        return self.mechanism.release(x, size=size, rng=rng)

    def __repr__(self):
        return f"NoiseDesign({self.noise!r}, cost={self.cost:.6g}, gap={self.gap:.1e})"


def design_gaussian(
    query, adjacency, budget, *, weight=None, method="analytic", releases=1, tol=1e-9
):
    """The Gaussian noise of least weighted variance that meets a budget.

    Minimises tr(W Gamma) over all covariances Gamma with z^T G^T Gamma^+ G z <= y*^2 for every hidden move z,
    where y* is the privacy shift that the budget allows; see DPAM Theorem 1, with its Algorithm 1's matrix
    inequality solved to a certified optimum.

    Parameters
    ----------
    query : LinearQuery
    adjacency : Adjacency
    budget : PrivacyBudget
        With delta > 0.
    weight : array_like, shape (m, m), optional
        W, positive semidefinite; identity by default (the trace of the covariance).
    method : {"analytic", "lenypappas", "classical"}, optional
        Rule that turns the budget into a noise size; ``analytic`` is exact.
    releases : int, optional
        The budget covers that many releases of the same secret.
    tol : float, optional
        Relative gap to reach.

    Returns
    -------
    NoiseDesign

    Raises
    ------
    ValueError
        If delta is 0, or the weight is not positive semidefinite.
    TypeError
        If query, adjacency or budget is of another type; says how to write it.
    PrivacyError
        If no hidden move changes what is published.
    UncertifiableError
        If the moves are so far apart in size that double precision cannot certify a design.

    Examples
    --------
    >>> from privcontrol.core import *
    >>> query = LinearQuery([[1.0, 0.0], [0.0, 1.0]])
    >>> design = design_gaussian(query, DirectionAdjacency([[3.0, 0.0], [0.0, 1.0]]), PrivacyBudget(epsilon=1, delta=1e-2))
    >>> design.noise.covariance.round(3)
    array([[31.738,  0.   ],
           [ 0.   ,  3.526]])
    """
    _check(query, adjacency, budget)
    shift = allowed_shift(budget, method, releases)
    half = half_weight(weight, query.size)
    moves = adjacency.moves(query.manifold)
    if isinstance(moves, EllipsoidMoves):
        factor, tangent = _ellipsoid_factor(query, moves)
        lower_bound = float(np.sum(half(factor) ** 2)) * (1 - 1e-12)
    else:
        spanner = query.spanner(moves)
        shape = gaussian_shape(spanner, half(spanner.responses), tol)
        factor, tangent = spanner.responses @ shape.factor, spanner.moves @ shape.factor
        lower_bound = shape.lower_bound
        if (thicker := thickening(factor, half)) is not None:
            factor, tangent = factor @ thicker, tangent @ thicker
    found = meet(
        query,
        adjacency,
        moves,
        GaussianNoise,
        factor,
        1 / shift,
        lambda guarantee: guarantee.gdp / shift,
    )
    return _designed(query, moves, found, half, budget, tangent, lower_bound / shift**2)


def design_laplace(
    query, adjacency, budget, *, weight=None, basis="optimal", releases=1
):
    """Laplace noise of little weighted variance that meets a budget.

    The factor's 1-ball must hold every hidden move: ||Lambda^+ G z||_1 <= epsilon (DPAM Theorem 2). The paper's
    Algorithm 2 scales a given basis, so that its noise depends on an arbitrary choice; here the directions are
    optimised too, by local searches over factors with one column for each hidden direction and over factors with one
    for each published entry. They are never worse than their starts, independent noise among them. (With delta above 0
    the cheaper one is found at that delta where it has up to 128 columns.) A factor with more columns than directions
    may cost less; its guarantee is a bound, and ``guarantee.exact`` is empty. The problem is not convex: the cost is
    no proven optimum, and the bound beside it, which holds for every factor, is not tight.

    Parameters
    ----------
    query : LinearQuery
    adjacency : Adjacency
    budget : PrivacyBudget
        With delta = 0 for pure differential privacy; a delta above 0 is used to make the noise smaller.
    weight : array_like, shape (m, m), optional
        W of the cost tr(W Gamma), positive semidefinite; identity by default.
    basis : "optimal" or array_like, shape (m, r), optional
        With an array: exactly Algorithm 2 (with its inverse where a transpose is printed), Lambda = sigma basis.
    releases : int, optional
        The budget covers that many releases of the same secret.

    Returns
    -------
    NoiseDesign

    Raises
    ------
    NotRealizableError
        If a hidden move leaves the column space of the given basis.
    ValueError
        If the weight is not positive semidefinite or the basis has another number of rows.
    TypeError
        If query, adjacency or budget is of another type; says how to write it.
    PrivacyError
        If no hidden move changes what is published.

    Examples
    --------
    >>> from privcontrol.core import *
    >>> query = LinearQuery([[1.0, 0.0], [0.0, 1.0]], AffineManifold([[2.0, -1.0]]))
    >>> design = design_laplace(query, ManifoldAdjacency(1.0), PrivacyBudget(epsilon=1.0))
    >>> abs(design.noise.factor).round(6).tolist(), round(design.guarantee.epsilon(0.0), 6)
    ([[1.0], [2.0]], 1.0)
    """
    _check(query, adjacency, budget)
    half, releases = (
        half_weight(weight, query.size),
        positive_integer(releases, "releases"),
    )
    moves = adjacency.moves(query.manifold)
    if isinstance(basis, str):
        one_of(basis, "basis", ("optimal",))
        factors, lower_bound, ordered = _laplace_factors(
            query, moves, half, weight is not None
        )
    else:
        basis = real_array(basis, "basis", shape=(query.size, None))
        factors, lower_bound, ordered = [(basis, None)], math.nan, True
    # order and bound are for pure differential privacy
    pure = budget.delta == 0
    lower_bound = lower_bound * (releases / budget.epsilon) ** 2 if pure else math.nan
    designs, failure, least = [], None, math.inf
    for factor, tangent in factors:
        if designs and ordered and not failure and (pure or tangent is None):
            break
        # round-off must not choose: the first one stays unless it is beaten clearly
        unit = LaplaceNoise.unit_variance * float(np.sum(half(factor) ** 2))
        limit = math.sqrt(least / unit) * (1 - 1e-6) if unit > 0 else math.inf
        try:
            found = meet_laplace(
                query, adjacency, moves, factor, budget, releases, limit
            )
        except (NotRealizableError, UncertifiableError) as error:
            failure = failure or error
            continue
        if found is not None:
            design = _designed(query, moves, found, half, budget, tangent, lower_bound)
            designs, least = [*designs, design], min(least, design.cost)
    if not designs:
        raise failure
    return next(design for design in designs if design.cost <= least * (1 + 1e-12))


def _laplace_factors(query, moves, half, weighted):
    """Factors with their tangent factors, the bound of every factor's cost at epsilon = 1, whether the first is cheapest.

    For finitely many moves the last is independent noise of one size, where double precision certifies no other one.
    """
    if isinstance(moves, EllipsoidMoves):
        factor, tangent = _ellipsoid_factor(query, moves)
        if (
            not weighted
        ):  # never above independent noise, as sup ||G E u||_1 >= ||G E||_F
            return [(factor, tangent)], math.nan, True
        cut = np.linalg.pinv(factor)  # independent noise, cut to the column space
        return [(factor, tangent), (factor @ cut, tangent @ cut)], math.nan, False
    spanner, independent = query.spanner(moves), np.ones(query.size)
    prices = np.atleast_2d(half(independent) ** 2).sum(axis=0)
    found, lower_bound = laplace_factors(spanner, half(spanner.responses), prices)
    factors = ((spanner.responses @ factor, spanner.moves @ factor) for factor in found)
    return chain(factors, [(independent, None)]), lower_bound, True


def _check(query, adjacency, budget):
    """The three arguments of a design, each by its own hint."""
    checked_query(query), checked_adjacency(adjacency), checked_budget(budget)


def _ellipsoid_factor(query, moves):
    """The least covariance G E (G E)^T around an ellipsoid of moves; it is optimal for every weight."""
    U, s, vt = scipy.linalg.svd(query.response @ moves.factor, full_matrices=False)
    if not s[0] > 0:
        raise PrivacyError(NO_NOISE)
    rank = int(np.sum(s > rank_tolerance(query.response, s)))
    return U[:, :rank] * s[:rank], moves.factor @ vt[:rank].T


def _designed(query, moves, found, half, budget, tangent=None, lower_bound=math.nan):
    mechanism, guarantee, scale = found
    cost = mechanism.noise.unit_variance * float(
        np.sum(half(mechanism.noise.factor) ** 2)
    )
    return NoiseDesign(
        mechanism,
        quoted(guarantee, budget),
        cost,
        min(lower_bound, cost) if lower_bound == lower_bound else math.nan,
        worst_data_moves(query, moves, guarantee),
        None if tangent is None else tangent * scale,
    )


def quoted(guarantee, budget):
    """The guarantee, quoting epsilon at the budget's delta in its text."""
    return replace(guarantee, quoted_delta=budget.delta)


def worst_data_moves(query, moves, guarantee):
    """Data-space moves (n, s) at which a guarantee is attained."""
    columns = (
        moves.factor
        if isinstance(moves, EllipsoidMoves)
        else moves.columns[:, list(guarantee.loss.active)]
    )
    return query.manifold.kernel @ columns


def design_iid(
    query, adjacency, budget, *, family="gaussian", method="analytic", releases=1
):
    """Independent noise of one size on every published entry: the comparator.

    Parameters
    ----------
    query, adjacency, budget, method, releases
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

    Examples
    --------
    >>> from privcontrol.core import *
    >>> import numpy as np
    >>> query = LinearQuery(np.eye(2), AffineManifold([[1.0, -1.0]]))
    >>> design = design_iid(query, ManifoldAdjacency(1.0), PrivacyBudget(epsilon=1.0, delta=1e-2))
    >>> round(design.cost, 3), round(design.guarantee.gdp, 4)
    (14.106, 0.5325)
    """
    law = family_of(family)
    _check(query, adjacency, budget)
    moves = adjacency.moves(query.manifold)
    size = query.sensitivity(adjacency, law.shift_norm)
    if not size:
        raise PrivacyError(NO_NOISE)
    ones = np.full(query.size, size)
    if law is GaussianNoise:
        shift = allowed_shift(budget, method, releases)
        found = meet(
            query,
            adjacency,
            moves,
            GaussianNoise,
            ones,
            1 / shift,
            lambda guarantee: guarantee.gdp / shift,
        )
    else:
        found = meet_laplace(
            query,
            adjacency,
            moves,
            ones,
            budget,
            positive_integer(releases, "releases"),
        )
    return _designed(query, moves, found, half_weight(None, query.size), budget)


def structured_equivalent(mechanism, adjacency):
    """The structured mechanism of the same guarantee and no larger covariance.

    With U a basis of the images of the hidden moves, U (U^T Gamma^+ U)^{-1} U^T has the same privacy shift for
    every hidden move as Gamma, and is below Gamma in the Loewner order: whatever linear loop, convex cost or time
    one looks at, it disturbs no more. (It is specific to its adjacency: Gamma may hide other moves as well.)

    Parameters
    ----------
    mechanism : Mechanism
        With Gaussian noise that hides the adjacency.
    adjacency : Adjacency

    Returns
    -------
    Mechanism

    Raises
    ------
    NotRealizableError
        If the mechanism does not hide the adjacency.

    Examples
    --------
    >>> from privcontrol.core import *
    >>> import numpy as np
    >>> query, adjacency = LinearQuery(np.eye(2), AffineManifold([[1.0, -1.0]])), ManifoldAdjacency(1.0)
    >>> iid = design_iid(query, adjacency, PrivacyBudget(epsilon=1.0, delta=1e-2))
    >>> better = structured_equivalent(iid.mechanism, adjacency)
    >>> better.noise.covariance.round(3)
    array([[3.526, 3.526],
           [3.526, 3.526]])
    >>> round(better.guarantee(adjacency).gdp, 4)
    0.5325
    """
    if not isinstance(mechanism.noise, GaussianNoise):
        raise TypeError(
            f"mechanism: expected Gaussian noise, got {type(mechanism.noise).__name__}"
        )
    moves = adjacency.moves(mechanism.query.manifold)
    shifts, _ = mechanism.shifts(moves)
    # each move counts alike: a small one needs its direction as much as a large one
    U, s, _ = scipy.linalg.svd(
        shifts / np.maximum(np.linalg.norm(shifts, axis=0), 1e-300), full_matrices=False
    )
    rank = int(np.sum(s > rank_tolerance(shifts, s)))
    factor = mechanism.noise.factor
    projected = (
        factor[:, None] * U[:, :rank] if factor.ndim == 1 else factor @ U[:, :rank]
    )
    return Mechanism(mechanism.query, GaussianNoise(projected))
