"""Noise design: the least costly noise of a given guarantee, with a certificate of how far from least it is.

The problem is an enclosing ellipsoid: the covariance must be large enough around every hidden move and cost as
little as possible. Moves enter in coordinates of a basis taken from the moves themselves, which keeps the problem
well scaled however far apart their sizes are.
"""

import math
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np
import scipy.linalg

from ._linalg import one_of, positive_integer, rank_tolerance, real_array, round_up
from ._shapes.certificate import thickening
from ._shapes.weighted import gaussian_shape, half_weight, laplace_shape
from .adjacency import checked_adjacency
from .budget import checked_budget
from .calibration import calibrated_y
from .errors import NotRealizableError, PrivacyError, UncertifiableError
from .guarantee import PrivacyGuarantee
from .mechanism import Mechanism, checked_query, guarantee_of
from .moves import EllipsoidMoves
from .noise import GaussianNoise, LaplaceNoise

_TOO_FAR_APART = (
    "the designed noise {what} when evaluated back: the moves are too far apart in size for double precision; rescale the "
    "data, or protect fewer directions"
)


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
        No Gaussian noise of the same guarantee costs less; NaN where no bound is known.
    worst_moves : ndarray, shape (n, s)
        Data-space moves at which the guarantee is attained.
    tangent_factor : ndarray, shape (k, r), or None
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
    worst_moves: np.ndarray
    tangent_factor: np.ndarray | None = None

    @property
    def noise(self):
        """The noise of the mechanism."""
        return self.mechanism.noise

    @property
    def gap(self):
        """Relative certified gap: cost / lower_bound - 1; NaN where no bound is known."""
        return self.cost / self.lower_bound - 1 if self.lower_bound > 0 else math.nan

    def __repr__(self):
        return f"NoiseDesign({self.noise!r}, cost={self.cost:.6g}, gap={self.gap:.1e})"


def design_gaussian(query, adjacency, budget, *, weight=None, method="analytic", releases=1, tol=1e-9):
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
    found = _meet(query, adjacency, moves, GaussianNoise, factor, 1 / shift, lambda guarantee: guarantee.gdp / shift)
    return _designed(query, moves, found, tangent, half, lower_bound / shift**2, budget)


def design_laplace(query, adjacency, budget, *, weight=None, basis="optimal", releases=1):
    """Laplace noise of little weighted variance that meets a budget.

    The factor's 1-ball must hold every hidden move: ||Lambda^+ G z||_1 <= epsilon (DPAM Theorem 2). The paper's
    Algorithm 2 scales a given basis, so that its noise depends on an arbitrary choice; here the directions are
    optimised too, by a local search that is never worse than its starts. A bound that holds for every factor is
    returned beside the cost, but the problem is not convex and the gap is not closed.

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

    Examples
    --------
    >>> from privcontrol.core import *
    >>> query = LinearQuery([[1.0, 0.0], [0.0, 1.0]], AffineManifold([[2.0, -1.0]]))
    >>> design = design_laplace(query, ManifoldAdjacency(1.0), PrivacyBudget(epsilon=1.0))
    >>> abs(design.noise.factor).round(6).tolist(), round(design.guarantee.epsilon(0.0), 6)
    ([[1.0], [2.0]], 1.0)
    """
    _check(query, adjacency, budget)
    half, releases = half_weight(weight, query.size), positive_integer(releases, "releases")
    moves = adjacency.moves(query.manifold)
    lower_bound = math.nan
    if not isinstance(basis, str):
        factor, tangent = real_array(basis, "basis", shape=(query.size, None)), None
    elif isinstance(moves, EllipsoidMoves):
        factor, tangent = _ellipsoid_factor(query, moves)
    else:
        one_of(basis, "basis", ("optimal",))
        spanner = query.spanner(moves)
        shape = laplace_shape(spanner, half(spanner.responses))
        factor, tangent = spanner.responses @ shape.factor, spanner.moves @ shape.factor
        lower_bound = shape.lower_bound
    size = laplace_size(guarantee_of(Mechanism(query, LaplaceNoise(factor)), adjacency, moves).loss, budget, releases)
    found = _meet(
        query, adjacency, moves, LaplaceNoise, factor, size, lambda guarantee: _excess(guarantee, budget, releases)
    )
    if budget.delta == 0:  # the bound is for pure differential privacy
        lower_bound *= (releases / budget.epsilon) ** 2
    return _designed(query, moves, found, tangent, half, lower_bound if budget.delta == 0 else math.nan, budget)


def _check(query, adjacency, budget):
    """The three arguments of a design, each by its own hint."""
    checked_query(query), checked_adjacency(adjacency), checked_budget(budget)


def laplace_size(loss, budget, releases=1):
    """The smallest multiple of a Laplace factor, given its loss, that meets a budget for so many releases."""
    pure = loss.pure * releases
    if budget.delta == 0:
        return float(round_up(pure / budget.epsilon, 2))

    def meets(size):
        return loss.scaled(Fraction(1) / Fraction(size)).repeated(releases).satisfies(budget)

    high = float(pure / max(budget.epsilon, budget.delta))
    while not meets(high):
        high *= 2
    low = 0.0
    while high - low > 1e-6 * high:
        middle = 0.5 * (low + high)
        low, high = (low, middle) if meets(middle) else (middle, high)
    return high


def _excess(guarantee, budget, releases):
    """How many times too large a Laplace release's loss is; at most 1 where it meets the budget."""
    if budget.delta == 0:
        return guarantee.epsilon(0.0) * releases / budget.epsilon
    return 1.0 if guarantee.loss.repeated(releases).satisfies(budget) else 1 + 1e-6


def allowed_shift(budget, method="analytic", releases=1):
    """y*, the largest privacy shift of one release under the budget, rounded down."""
    releases = positive_integer(releases, "releases")
    shift = calibrated_y(budget.epsilon, budget.delta, method)
    return shift if releases == 1 else shift / float(round_up(math.sqrt(releases), 2))


def _ellipsoid_factor(query, moves):
    """The least covariance G E (G E)^T around an ellipsoid of moves; it is optimal for every weight."""
    U, s, vt = scipy.linalg.svd(query.response @ moves.factor, full_matrices=False)
    if not s[0] > 0:
        raise PrivacyError("no hidden move changes what is published: no noise is needed for this adjacency")
    rank = int(np.sum(s > rank_tolerance(query.response, s)))
    return U[:, :rank] * s[:rank], moves.factor @ vt[:rank].T


def _meet(query, adjacency, moves, law, factor, scale, excess):
    """Mechanism, guarantee and scale of the factor that, evaluated back with its error bound, meets the budget."""
    scale = float(round_up(scale, 2))
    while True:
        mechanism = Mechanism(query, law(factor * scale))
        try:
            guarantee = guarantee_of(mechanism, adjacency, moves)
        except NotRealizableError:  # a direction so thin that it was taken for a residue of rounding
            raise UncertifiableError(_TOO_FAR_APART.format(what="leaves a direction bare")) from None
        over = excess(guarantee)
        if over <= 1:
            return mechanism, guarantee, scale
        if over > 1 + 1e-4:
            raise UncertifiableError(_TOO_FAR_APART.format(what=f"exceeds its budget by {over - 1:.1e}"))
        scale *= float(round_up(over, 4))


def _designed(query, moves, found, tangent, half, lower_bound, budget):
    mechanism, guarantee, scale = found
    cost = mechanism.noise.unit_variance * float(np.sum(half(mechanism.noise.factor) ** 2))
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
    columns = moves.factor if isinstance(moves, EllipsoidMoves) else moves.columns[:, list(guarantee.loss.active)]
    return query.manifold.kernel @ columns


def design_iid(query, adjacency, budget, *, family="gaussian", method="analytic", releases=1):
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

    Examples
    --------
    >>> from privcontrol.core import *
    >>> import numpy as np
    >>> query = LinearQuery(np.eye(2), AffineManifold([[1.0, -1.0]]))
    >>> design = design_iid(query, ManifoldAdjacency(1.0), PrivacyBudget(epsilon=1.0, delta=1e-2))
    >>> round(design.cost, 3), round(design.guarantee.gdp, 4)
    (14.106, 0.5325)
    """
    one_of(family, "family", ("gaussian", "laplace"))
    _check(query, adjacency, budget)
    moves = adjacency.moves(query.manifold)
    if family == "gaussian":
        shift = allowed_shift(budget, method, releases)
        ones = np.full(query.size, query.sensitivity(adjacency))
        found = _meet(query, adjacency, moves, GaussianNoise, ones, 1 / shift, lambda guarantee: guarantee.gdp / shift)
    else:
        releases = positive_integer(releases, "releases")
        ones = np.full(query.size, query.sensitivity(adjacency, 1))
        size = laplace_size(guarantee_of(Mechanism(query, LaplaceNoise(ones)), adjacency, moves).loss, budget, releases)
        found = _meet(
            query, adjacency, moves, LaplaceNoise, ones, size, lambda guarantee: _excess(guarantee, budget, releases)
        )
    mechanism, guarantee, _ = found
    cost = mechanism.noise.unit_variance * float(np.sum(mechanism.noise.factor**2))
    return NoiseDesign(mechanism, quoted(guarantee, budget), cost, math.nan, worst_data_moves(query, moves, guarantee))


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
        raise TypeError(f"mechanism: expected Gaussian noise, got {type(mechanism.noise).__name__}")
    moves = adjacency.moves(mechanism.query.manifold)
    shifts, _ = mechanism.shifts(moves)
    # each move counts alike: a small one needs its direction as much as a large one
    U, s, _ = scipy.linalg.svd(shifts / np.maximum(np.linalg.norm(shifts, axis=0), 1e-300), full_matrices=False)
    rank = int(np.sum(s > rank_tolerance(shifts, s)))
    factor = mechanism.noise.factor
    projected = factor[:, None] * U[:, :rank] if factor.ndim == 1 else factor @ U[:, :rank]
    return Mechanism(mechanism.query, GaussianNoise(projected))
