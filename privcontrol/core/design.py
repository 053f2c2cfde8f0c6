"""Noise design: the least costly noise of a given guarantee, with a certificate of how far from least it is.

The problem is an enclosing ellipsoid: the covariance must be large enough around every hidden move and cost as
little as possible. Moves enter in coordinates of a basis taken from the moves themselves, which keeps the problem
well scaled however far apart their sizes are.
"""

import math
from dataclasses import dataclass

import numpy as np
import scipy.linalg

from ._ellipsoid import enclosing_ellipsoid
from ._linalg import one_of, positive_integer, rank_tolerance, real_array, round_up
from .calibration import calibrated_y
from .errors import PrivacyError, UncertifiableError
from .guarantee import PrivacyGuarantee
from .mechanism import Mechanism
from .moves import EllipsoidMoves
from .noise import GaussianNoise

#: Relative size below which a direction that the weight does not price is priced all the same: an optimum that
#: is not attained is replaced by a nearby one that is.
_FREE_DIRECTION = 1e-7


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
    mechanism, guarantee, scale = _meet(query, adjacency, factor, shift)
    cost = float(np.sum(half(mechanism.noise.factor) ** 2))
    return NoiseDesign(
        mechanism,
        quoted(guarantee, budget),
        cost,
        min(lower_bound / shift**2, cost),
        worst_data_moves(query, moves, guarantee),
        tangent * scale,
    )


def allowed_shift(budget, method="analytic", releases=1):
    """y*, the largest privacy shift of one release under the budget, rounded down."""
    releases = positive_integer(releases, "releases")
    shift = calibrated_y(budget.epsilon, budget.delta, method)
    return shift if releases == 1 else shift / float(round_up(math.sqrt(releases), 2))


def half_weight(weight, size):
    """A function B -> H B with H^T H = W; the weight's own dimension squared is not formed for the identity."""
    if weight is None:
        return lambda columns: columns
    W = real_array(weight, "weight", shape=(size, size))
    if np.abs(W - W.T).max() > 1e-10 * np.abs(W).max():
        raise ValueError("weight: expected a symmetric matrix; pass (W + W.T) / 2")
    values, vectors = scipy.linalg.eigh(W)
    if values[0] < -1e-10 * max(values[-1], 0.0) or values[-1] <= 0:
        raise ValueError(f"weight: expected a positive semidefinite matrix, got smallest eigenvalue {values[0]:.3g}")
    half = np.sqrt(np.maximum(values, 0.0))[:, None] * vectors.T
    return lambda columns: half @ columns


@dataclass(frozen=True)
class Shape:
    """Factor (r, r) in a spanner's coordinates whose unit ball holds every move, and the least cost of any."""

    factor: np.ndarray
    lower_bound: float
    support: np.ndarray


def gaussian_shape(spanner, rows, tol=1e-9):
    """The cheapest ellipsoid around a spanner's moves, cost tr(W Gamma) with ``rows`` = H B, H^T H = W."""
    triangle = scipy.linalg.qr(rows, mode="r")[0][: rows.shape[1]]
    if len(triangle) < rows.shape[1]:
        triangle = np.vstack([triangle, np.zeros((rows.shape[1] - len(triangle), rows.shape[1]))])
    size = np.linalg.norm(triangle)
    if size == 0:
        raise ValueError(
            "weight: it prices no direction of the noise (W G z = 0 for every hidden move); use another weight"
        )
    singular = scipy.linalg.svdvals(triangle)
    free = singular[-1] < _FREE_DIRECTION * singular[0]
    priced = np.vstack([triangle, _FREE_DIRECTION * size * np.eye(len(triangle))]) if free else triangle
    found = enclosing_ellipsoid(spanner.coordinates, scipy.linalg.qr(priced, mode="r")[0][: len(triangle)].T, tol=tol)
    lower = found.lower_bound
    if free:  # the dual bound of the weight as the user gave it
        image = triangle @ spanner.coordinates[:, found.support]
        lower = np.linalg.norm(image * np.sqrt(found.weights), "nuc") ** 2 * (1 - 1e-12)
    return Shape(found.factor, lower, found.support)


def _ellipsoid_factor(query, moves):
    """The least covariance G E (G E)^T around an ellipsoid of moves; it is optimal for every weight."""
    U, s, vt = scipy.linalg.svd(query.response @ moves.factor, full_matrices=False)
    if not s[0] > 0:
        raise PrivacyError("no hidden move changes what is published: no noise is needed for this adjacency")
    rank = int(np.sum(s > rank_tolerance(query.response, s)))
    return U[:, :rank] * s[:rank], moves.factor @ vt[:rank].T


def _meet(query, adjacency, factor, shift):
    """Mechanism, guarantee and scale of the factor that, evaluated back with its error bound, meets the shift."""
    scale = float(round_up(1 / shift, 2))
    while True:
        mechanism = Mechanism(query, GaussianNoise(factor * scale))
        guarantee = mechanism.guarantee(adjacency)
        excess = guarantee.gdp / shift
        if excess <= 1:
            return mechanism, guarantee, scale
        if excess > 1 + 1e-4:
            raise UncertifiableError(
                f"the designed noise exceeds the allowed shift by {excess - 1:.1e} when evaluated back: the moves are too far "
                "apart in size for double precision; rescale the data, or protect fewer directions"
            )
        scale *= float(round_up(excess, 4))


def quoted(guarantee, budget):
    """The guarantee, quoting epsilon at the budget's delta in its text."""
    delta = budget.delta if budget.delta > 0 else guarantee.quoted_delta
    return PrivacyGuarantee(guarantee.loss, guarantee.scope, guarantee.releases, delta)


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
    family : {"gaussian"}, optional

    Returns
    -------
    NoiseDesign
        Without a lower bound: nothing was optimised.
    """
    one_of(family, "family", ("gaussian",))
    shift = allowed_shift(budget, method, releases)
    one_each = np.full(query.size, query.sensitivity(adjacency))
    mechanism, guarantee, scale = _meet(query, adjacency, one_each, shift)
    cost = query.size * (one_each[0] * scale) ** 2
    worst = worst_data_moves(query, adjacency.moves(query.manifold), guarantee)
    return NoiseDesign(mechanism, quoted(guarantee, budget), cost, math.nan, worst)


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
    """
    moves = adjacency.moves(mechanism.query.manifold)
    shifts, _ = mechanism.shifts(moves)
    # each move counts alike: a small one needs its direction as much as a large one
    U, s, _ = scipy.linalg.svd(shifts / np.maximum(np.linalg.norm(shifts, axis=0), 1e-300), full_matrices=False)
    rank = int(np.sum(s > rank_tolerance(shifts, s)))
    factor = mechanism.noise.factor
    projected = factor[:, None] * U[:, :rank] if factor.ndim == 1 else factor @ U[:, :rank]
    return Mechanism(mechanism.query, GaussianNoise(projected))
