"""Gaussian and Laplace noise, a factor times independent standard entries.

A family of noise knows everything that depends on its distribution: the norm that its
privacy is measured in, the privacy loss, the variance and the sampler of a standard
entry, and the cheapest shape around moves. Nobody else asks which family it is.

Laplace noise takes the shape of a factor B (r, r) with its inverse C. A move p is the
combination C p of the columns of B, so ||C p||_1 is its epsilon. The problem is not
convex. A descent improves the best of some bases that Algorithm 2 of DPAM scales, and a
lower bound that holds for all factors says how much a better search could still gain.
Factors are proposals, which whoever makes noise of them evaluates.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from fractions import Fraction
from functools import cached_property
from types import MappingProxyType
from typing import ClassVar

import numpy as np
import scipy.linalg
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import minimize

from ..numerics.checks import generator, one_of, positive_integer, real_array
from ..numerics.ellipsoid import (
    MoveBasis,
    Shape,
    enclosing_ellipsoid,
    gaussian_shape,
    weight_triangle,
)
from ..numerics.linalg import EPS, column_norms, rank_tolerance
from ..numerics.objects import Frozen, array_identity
from ..numerics.thresholds import ALIKE, LEAST_PRICE
from ..privacy.budget import PrivacyBudget, laplace_scale
from ..privacy.law import GaussianLaw, LaplaceLaw, Law
from ..privacy.loss import GAUSSIAN, PrivacyLoss, Product, one_coordinate
from .manifold import Moves

#: Temperatures of a smoothed maximum or norm, one after the other, relative to its size.
TEMPERATURES = (0.3, 0.1, 0.03, 0.01, 0.003, 0.001, 0.0003)
#: Points that one step of a search looks at.
MOST_NEAR = 400


# -- shapes for the designs ----------------------------------------------------------


def laplace_shape(
    basis: MoveBasis, rows: NDArray[np.float64], *, counted: int | None = None
) -> Shape:
    """Find a cheap cross-polytope around the moves of a basis.

    ``rows`` and ``counted`` are those of `Noise.shape`. The variance 2 of a Laplace number
    is counted in the lower bound.
    """
    triangle, free = _priced(weight_triangle(rows))
    shape = enclosing_cross_polytope(basis.coordinates, triangle)
    if counted is None and not free:
        return shape
    ellipsoid = gaussian_shape(basis, rows, counted=counted)
    return Shape(shape.factor, 2 * ellipsoid.lower_bound)


def around_ball(rows: NDArray[np.float64]) -> Shape:
    """Find the cheapest cross-polytope around the unit ball of q coordinates.

    ``rows`` H (m, q) are those of a weight W = H^T H. Corners lie on its eigenvectors. The
    variance 2 of a Laplace number is counted in the lower bound.

    Let the ball be within the hull of +-v_j, and T = sum v_j v_j^T. Some law of points y
    with all |v_j^T y| <= 1 has E y y^T >= T^-1 (Ball and Prodromou, A sharp combinatorial
    version of Vaaler's theorem, 2009), and |y| <= 1, so tr T^-1 <= 1 and tr W T >=
    (tr W^1/2)^2 by Cauchy and Schwarz. So the bound holds for any number of corners.
    """
    count = rows.shape[1]
    padded = np.vstack([rows, np.zeros((count, count))])  # for fewer rows than axes
    _, sizes, axes = scipy.linalg.svd(padded, full_matrices=False)
    total = math.fsum(sizes)
    bound = 2 * total * total * (1 - 1e-12)
    return Shape(axes.T * corners(sizes), bound)


def corners(sizes: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the corners on q axes of the cheapest cross-polytope around the unit ball.

    ``sizes`` (q,) are what a unit on each axis costs, as roots. Free axes cost a little.
    """
    largest = sizes.max() or 1.0
    priced = np.maximum(sizes, LEAST_PRICE * largest)
    return np.sqrt(priced.sum() / priced)


def _priced(triangle: NDArray[np.float64]) -> tuple[NDArray[np.float64], bool]:
    """Price every direction in a weight's factor, and say whether one was free."""
    singular = scipy.linalg.svdvals(triangle)
    least = LEAST_PRICE * singular[0]
    if singular[-1] >= least:
        return triangle, False
    size = len(triangle)
    both = np.vstack([triangle.T, least * np.eye(size)])
    upper = scipy.linalg.qr(both, mode="r")[0]
    return upper[:size].T, True


def _cost(factor: NDArray[np.float64], weight_factor: NDArray[np.float64]) -> float:
    """Return 2 tr(L L^T B B^T), the weighted variance of Laplace noise."""
    return 2 * float(np.sum((weight_factor.T @ factor) ** 2))


# -- one column for each direction ---------------------------------------------------


def enclosing_cross_polytope(
    points: NDArray[np.float64], weight_factor: NDArray[np.float64]
) -> Shape:
    """Find a cheap factor B (r, r) with ||B^{-1} p||_1 <= 1 for all points p (r, M).

    With L ``weight_factor`` (r, q) the cost is 2 tr(L L^T B B^T) (DPAM Theorem 2, eq.
    (10)). Algorithm 2 of DPAM scales a given basis B, the columns of this one may point
    anywhere: a descent starts from the cheapest of some bases. A cross-polytope lies in
    an ellipsoid with the same B B^T, so 2 tr(L L^T Sigma) of the cheapest ellipsoid around
    the points is a lower bound.
    """
    ellipsoid = enclosing_ellipsoid(points, weight_factor)
    of_points, _, _ = np.linalg.svd(points, full_matrices=False)
    of_weight, _, _ = np.linalg.svd(weight_factor, full_matrices=False)
    vectors, lengths, _ = np.linalg.svd(ellipsoid.factor)
    inverses = [np.linalg.inv(ellipsoid.factor)]
    for basis in (np.eye(len(points)), of_points, of_weight, vectors * lengths):
        inverse = np.linalg.inv(basis)
        inverses.append(inverse)
        widths = np.abs(inverse @ points).max(axis=1)
        inverses.append(inverse / np.maximum(widths, EPS * widths.max())[:, None])
    factors = [_cut(inverse, points) for inverse in inverses]
    best = _cheapest(factors, weight_factor)
    if len(points) > 1:  # else every direction is the same
        found = _descend(inverses[best], ellipsoid.factor, points, weight_factor)
        if found is not None:
            factors = [factors[best], _cut(found, points)]
            best = _cheapest(factors, weight_factor)
    lower_bound = 2 * ellipsoid.lower_bound * (1 - 4 * EPS)
    return Shape(factors[best], float(lower_bound))


def _cheapest(
    factors: list[NDArray[np.float64]], weight_factor: NDArray[np.float64]
) -> int:
    """Return the place of the first factor that no other one beats clearly."""
    costs = np.array([_cost(factor, weight_factor) for factor in factors])
    return int(np.argmax(costs <= costs.min() * (1 + ALIKE)))


def _cut(
    inverse: NDArray[np.floating], points: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return the basis C^+ times the largest ||C p||_1 (DPAM Algorithm 2)."""
    size = np.linalg.norm(inverse, axis=0)
    scaled = scipy.linalg.pinv(inverse / size)
    pseudo_inverse = scaled / size[:, None]
    norms = np.abs(inverse @ points).sum(axis=0)
    return pseudo_inverse * norms.max()


# -- the search for directions -------------------------------------------------------


def _descend(
    start: NDArray[np.floating],
    ellipsoid: NDArray[np.floating],
    points: NDArray[np.float64],
    weight_factor: NDArray[np.float64],
) -> NDArray[np.float64] | None:
    """Return an inverse C that lowers tr(W (C^T C)^{-1}) max_i ||C p_i||_1^2, if any.

    Coordinates make the ellipsoid a ball. They, the points and the start are rounded
    first. Otherwise round-off in the data, amplified by hundreds of steps, would move the
    result by far more than the data moved.
    """
    scale = np.abs(points).max()
    unit_frame = _rounded(ellipsoid / scale, 20)
    frame = unit_frame * scale
    inside = np.round(np.linalg.solve(frame, points), 9)
    root = weight_factor.T @ unit_frame
    weight = root.T @ root
    weight = np.round(weight / np.trace(weight), 12)
    inverse = start @ frame
    for temperature in TEMPERATURES:
        norms = np.abs(inverse @ inside).sum(axis=0)
        inverse = np.round(inverse / norms.max(), 9)
        near = np.argsort(-norms, kind="stable")[:MOST_NEAR]
        try:
            result = minimize(
                _smoothed_cost,
                inverse.ravel(),
                (inside[:, near], weight, temperature),
                "BFGS" if inverse.size <= 64 else "L-BFGS-B",
                jac=True,
                options={"maxiter": 200, "gtol": 1e-6},
            )
        except np.linalg.LinAlgError:  # so skew that rounding made it singular
            return None
        inverse = result.x.reshape(inverse.shape)
    return inverse @ np.linalg.inv(frame)


def _rounded(matrix: NDArray[np.float64], bits: int) -> NDArray[np.float64]:
    """Round every entry to this many significant bits."""
    mantissa, exponent = np.frexp(matrix)
    integers = np.round(np.ldexp(mantissa, bits))
    return np.ldexp(integers, exponent - bits)


def _smoothed_cost(
    entries: NDArray[np.float64],
    points: NDArray[np.float64],
    weight: NDArray[np.float64],
    temperature: float,
) -> tuple[float, NDArray[np.float64]]:
    """Return log tr(W (C^T C)^{-1}) + 2 log max_i ||C p_i||_1 and its gradient in C."""
    C = entries.reshape(-1, len(points))
    inverse_gram = np.linalg.inv(C.T @ C)
    priced = inverse_gram @ weight
    cost = np.trace(priced)
    if not 0 < cost < np.inf:
        raise np.linalg.LinAlgError("C has lost its rank to rounding")
    images = C @ points
    smooth = np.hypot(images, temperature / len(C))
    norms = smooth.sum(axis=0)
    shares = np.exp((norms - norms.max()) / temperature)
    total = shares.sum()
    top = norms.max() + temperature * np.log(total)
    slopes = images / smooth * (shares / total)
    gradient = slopes @ points.T / top
    gradient -= C @ (priced @ inverse_gram) / cost
    value = np.log(cost) + 2 * np.log(top)
    return value, 2 * gradient.ravel()


# -- the shape of Laplace noise -----------------------------------------------------


class Noise(Frozen, ABC):
    """gamma = factor @ eta with independent standard entries eta.

    Noise is immutable, and equal to noise of the same family and factor.

    Parameters
    ----------
    factor : array_like, shape (m, r) or (m,)
        Lambda. A vector represents a diagonal matrix: independent noise of these
        sizes, never formed densely.

    Raises
    ------
    ValueError
        If the factor has another number of dimensions, no entries or entries that are
        not finite.
    TypeError
        If the factor is not real.
    """

    #: Law of the standard entries eta.
    law: ClassVar[Law]
    #: Name of the family, as in ``family="gaussian"``.
    family: ClassVar[str]
    #: Norm of a shift Lambda^+ G z that decides how well the noise hides the move z.
    shift_norm: ClassVar[int]
    #: Variance of one entry of eta; that of the noise is `covariance` or `std`.
    unit_variance: ClassVar[float]
    #: Delta at which guarantees are quoted where no budget names one.
    quoted_delta: ClassVar[float]
    #: Whether only budgets with a delta above 0 (or in GDP) can be met.
    needs_delta: ClassVar[bool]

    factor: NDArray[np.float64]

    def __init__(self, factor: ArrayLike) -> None:
        array = real_array(factor, "factor")
        if array.ndim not in (1, 2) or not array.size:
            raise ValueError(
                "factor: expected shape (m, r), or (m,) for independent entries, got "
                f"{array.shape}"
            )
        self._set(factor=array)

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self.factor,)

    def _identity(self) -> tuple[object, ...]:
        return array_identity(self.factor)

    @property
    def size(self) -> int:
        """Number of noisy entries m."""
        return len(self.factor)

    @property
    def is_independent(self) -> bool:
        """Return whether the factor is a vector, the diagonal of a matrix."""
        return self.factor.ndim == 1

    @property
    def covariance(self) -> NDArray[np.float64]:
        """Covariance (m, m) of gamma, formed on access."""
        if self.is_independent:
            return self.unit_variance * np.diag(self.factor**2)
        return self.unit_variance * self.factor @ self.factor.T

    @property
    def std(self) -> NDArray[np.float64]:
        """Standard deviation (m,) of each entry of gamma, in the published entry's unit.

        Examples
        --------
        >>> GaussianNoise([[3.0], [4.0]]).std, LaplaceNoise([3.0]).std.round(4)
        (array([3., 4.]), array([4.2426]))
        """
        if self.is_independent:
            sizes = np.abs(self.factor)
        else:
            sizes = column_norms(self.factor.T)
        return math.sqrt(self.unit_variance) * sizes

    # -- what each family knows ------------------------------------------------------

    @staticmethod
    @abstractmethod
    def standard(
        rng: np.random.Generator, shape: tuple[int, ...]
    ) -> NDArray[np.float64]:
        """Draw standard entries eta of a ``shape`` from the generator ``rng``."""

    @staticmethod
    @abstractmethod
    def log_likelihood_ratio(
        eta: NDArray[np.float64], shift: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        """Return log densities (M,) of ``eta`` (r, M) over those of eta - shift (r, 1)."""

    @classmethod
    @abstractmethod
    def loss(
        cls, shifts: NDArray[np.float64], moves: Moves, full_rank: bool = True
    ) -> PrivacyLoss:
        """Return the privacy loss of one release, rounded up.

        ``shifts`` (r, M) holds Lambda^+ G z of the ``moves``, and ``full_rank`` says
        whether the columns of the factor are independent.
        """

    @classmethod
    @abstractmethod
    def loss_of_columns(
        cls,
        shifts: NDArray[np.float64],
        moves: Iterable[int] | None = None,
        attained: tuple[int, ...] = (),
    ) -> PrivacyLoss:
        """Return the privacy loss of ``shifts`` (r, M) of candidates of the worst move.

        ``moves`` holds their indices (their own by default), and ``attained`` those of
        largest 2-norm.
        """

    @classmethod
    @abstractmethod
    def loss_of_size(
        cls, size: float, attained: tuple[int, ...] = (), exact: bool = False
    ) -> PrivacyLoss:
        """Return the loss of a ``size``, that of ``attained`` moves if ``exact``."""

    @classmethod
    @abstractmethod
    def allowed_shift(cls, budget: PrivacyBudget, releases: int = 1) -> float:
        """Return the largest norm of a shift that a budget allows, rounded down.

        The ``budget`` is for all ``releases`` together. Laplace noise makes no use of
        a delta. A ``ValueError`` says why no noise of the family meets the budget.
        """

    @staticmethod
    @abstractmethod
    def shape(
        basis: MoveBasis, rows: NDArray[np.float64], *, counted: int | None = None
    ) -> Shape:
        """Find a cheap factor whose unit ball holds every move of a ``basis``.

        ``rows`` (q, r) is H B for the basis responses B and the weight H^T H of the cost.
        The lower bound is for hiding the first ``counted`` moves, all by default.
        """

    # -- draws -----------------------------------------------------------------------

    def sample(
        self,
        size: int | None = None,
        rng: int | np.random.SeedSequence | np.random.Generator | None = None,
    ) -> NDArray[np.float64]:
        """Draw gamma (m,), or ``size`` draws (size, m), from a seed or generator ``rng``.

        Parameters
        ----------
        size : int, optional
            Number of draws; one without an axis of its own by default.
        rng : int, SeedSequence or Generator, optional
            For draws that can be repeated.

        Returns
        -------
        ndarray, shape (m,) or (size, m)
            In the units of the query.

        Raises
        ------
        TypeError
            If size is no integer.
        ValueError
            If size is negative, or too large to count.

        Examples
        --------
        >>> GaussianNoise([3.0, 4.0]).sample(5, rng=0).shape
        (5, 2)
        """
        count = 1 if size is None else positive_integer(size, "size", zero=True)
        eta = self.standard(generator(rng), (count, self.factor.shape[-1]))
        draws = eta * self.factor if self.is_independent else eta @ self.factor.T
        return draws[0] if size is None else draws

    @cached_property
    def _decomposition(
        self,
    ) -> tuple[
        NDArray[np.float64],
        NDArray[np.float64],
        NDArray[np.float64],
        NDArray[np.float64],
        NDArray[np.float64],
    ]:
        """Units of rows (m, 1) and columns (r, 1), and the SVD of the factor in them.

        Entries far apart in size are distinguished in units of their own. The columns' are
        one where columns depend on each other, because the least shift belongs to the
        factor as it is.
        """
        rows = column_norms(self.factor.T)[:, None]
        rows[rows == 0] = 1.0
        factor = self.factor / rows
        norms = column_norms(factor)[:, None]
        norms[norms == 0] = 1.0
        for columns in (norms, np.ones_like(norms)):
            U, s, vt = scipy.linalg.svd(factor / columns.T, full_matrices=False)
            large = s > rank_tolerance(factor, s)
            if np.count_nonzero(large) == len(columns):
                break
        return rows, columns, U[:, large], s[large], vt[large]

    def __repr__(self) -> str:
        draws = self.factor.shape[-1]
        return f"{type(self).__name__}(size={self.size}, draws={draws})"


class GaussianNoise(Noise):
    """Add gamma = factor @ eta, eta standard normal (DPAM Definition 6).

    Parameters
    ----------
    factor : array_like, shape (m, r), or (m,) for independent entries
        Lambda, in the unit of the published data.

    Raises
    ------
    ValueError, TypeError
        If the factor has another shape, or is not real and finite.

    See Also
    --------
    LaplaceNoise, core.BallNoise, Mechanism, core.gaussian_std

    Examples
    --------
    >>> noise = GaussianNoise([[1.0], [2.0]])
    >>> noise.covariance, noise.std
    (array([[1., 2.],
           [2., 4.]]), array([1., 2.]))
    >>> noise == GaussianNoise([[1.0], [2.0]])
    True
    """

    family = "gaussian"
    shift_norm = 2
    law = GaussianLaw()
    unit_variance = law.unit_variance
    standard = staticmethod(law.standard)
    quoted_delta = 1e-5
    needs_delta = True
    shape = staticmethod(gaussian_shape)

    @staticmethod
    def log_likelihood_ratio(
        eta: NDArray[np.float64], shift: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        return (shift * (shift / 2 - eta)).sum(axis=0)

    @classmethod
    def loss(
        cls, shifts: NDArray[np.float64], moves: Moves, full_rank: bool = True
    ) -> PrivacyLoss:
        # exactly y-GDP, y the largest 2-norm of a shift (DPAM Theorem 1)
        size = moves.worst_shift(shifts, cls.shift_norm)
        attained = moves.attaining(shifts, cls.shift_norm)
        return cls.loss_of_size(size, attained, moves.exact)

    @classmethod
    def loss_of_columns(
        cls,
        shifts: NDArray[np.float64],
        moves: Iterable[int] | None = None,
        attained: tuple[int, ...] = (),
    ) -> PrivacyLoss:
        norms = column_norms(shifts)
        longest = shifts[:, norms >= norms.max() * (1 - 1e-12)]
        squares = []
        for column in longest.T.tolist():
            squares.append(sum((Fraction(a) ** 2 for a in column), Fraction(0)))
        row = Product(square=max(squares))
        return PrivacyLoss((row,), (attained,), (GAUSSIAN,))

    @classmethod
    def loss_of_size(
        cls, size: float, attained: tuple[int, ...] = (), exact: bool = False
    ) -> PrivacyLoss:
        return PrivacyLoss.gaussian(size, attained, exact)

    @classmethod
    def allowed_shift(cls, budget: PrivacyBudget, releases: int = 1) -> float:
        return budget.shift(releases)


class LaplaceNoise(Noise):
    """Add gamma = factor @ eta, eta Laplace of scale one, variance two (DPAM Definition 6).

    Parameters
    ----------
    factor : array_like, shape (m, r), or (m,) for independent entries
        Lambda, in the unit of the published data. Errors as for `GaussianNoise`.

    See Also
    --------
    GaussianNoise, core.BallNoise, Mechanism, core.laplace_scale

    Examples
    --------
    >>> noise = LaplaceNoise([3.0])
    >>> noise.covariance, noise.std.round(3)
    (array([[18.]]), array([4.243]))
    """

    family = "laplace"
    shift_norm = 1
    law = LaplaceLaw()
    unit_variance = law.unit_variance
    standard = staticmethod(law.standard)
    quoted_delta = 0.0
    needs_delta = False
    shape = staticmethod(laplace_shape)

    @staticmethod
    def log_likelihood_ratio(
        eta: NDArray[np.float64], shift: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        return (np.abs(eta - shift) - np.abs(eta)).sum(axis=0)

    @classmethod
    def loss(
        cls, shifts: NDArray[np.float64], moves: Moves, full_rank: bool = True
    ) -> PrivacyLoss:
        # exact for full column rank (DPAM Theorem 2)
        if moves.is_ball:
            return cls.loss_of_size(moves.worst_shift(shifts, cls.shift_norm))
        return PrivacyLoss.laplace(shifts, exact=moves.exact and full_rank)

    @classmethod
    def loss_of_columns(
        cls,
        shifts: NDArray[np.float64],
        moves: Iterable[int] | None = None,
        attained: tuple[int, ...] = (),
    ) -> PrivacyLoss:
        return PrivacyLoss.laplace(shifts, moves=moves)

    @classmethod
    def loss_of_size(
        cls, size: float, attained: tuple[int, ...] = (), exact: bool = False
    ) -> PrivacyLoss:
        return one_coordinate(size)

    @classmethod
    def allowed_shift(cls, budget: PrivacyBudget, releases: int = 1) -> float:
        allowed = budget.laplace_epsilon(releases)
        laplace_scale(allowed)  # refuses epsilon = 0 and says why
        return allowed


#: The families by name.
FAMILIES: Mapping[str, type[Noise]] = MappingProxyType(
    {cls.family: cls for cls in (GaussianNoise, LaplaceNoise)}
)


def family_of(name: str) -> type[Noise]:
    """Return the family of noise of this name, or raise an error that lists them."""
    return FAMILIES[one_of(name, "family", tuple(FAMILIES))]


# -- shifts --------------------------------------------------------------------------


def times(
    factor: NDArray[np.float64], columns: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return Lambda u (m, M) for ``columns`` u (r, M), of a factor (m, r) or (m,)."""
    if factor.ndim == 1:
        return factor[:, None] * columns
    return factor @ columns


def whiten(noise: Noise, responses: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the least shifts Lambda^+ s (r, M) of ``responses`` s (m, M)."""
    if noise.is_independent:
        sizes = np.where(noise.factor == 0, np.inf, noise.factor)
        return responses / sizes[:, None]
    rows, columns, U, s, vt = noise._decomposition
    coordinates = U.T @ (responses / rows) / s[:, None]
    return vt.T @ coordinates / columns


def shifts_within(noise: Noise, bounds: NDArray[np.float64]) -> NDArray[np.float64]:
    """Bound the least shifts (r, M) of responses within ``bounds`` (m, M)."""
    if noise.is_independent:
        within = np.abs(whiten(noise, bounds)) * (1 + EPS)
        bare = noise.factor == 0
        within[bare] = np.where(bounds[bare] > 0, np.inf, 0.0)
        return within
    rows, columns, U, s, vt = noise._decomposition
    if len(s) < noise.size:  # rounding hides whether there is noise in some direction
        unknown = np.where(bounds.any(axis=0), np.inf, 0.0)
        return np.tile(unknown, (len(columns), 1))
    scaled = bounds / rows
    inverse = (vt.T / s) @ U.T
    condition = s[0] / s[-1]
    relative = 8 * EPS * (len(columns) + 8) * condition
    rounding = relative * column_norms(scaled) / s[-1]
    return (np.abs(inverse) @ scaled + rounding) / columns


def delta_to_quote(family: type[Noise], budgets: Iterable[PrivacyBudget]) -> float:
    """Return the delta at which a guarantee for these budgets is quoted."""
    if not family.needs_delta:
        return family.quoted_delta
    known = [budget.delta for budget in budgets if budget.delta is not None]
    return min(known, default=family.quoted_delta)
