"""Gaussian and Laplace noise: a factor times independent standard entries.

A family of noise knows everything that depends on its distribution: the norm that its
privacy is measured in, the privacy loss, the variance and the sampler of a standard
entry, and the cheapest shape around moves. Nobody else asks which family it is.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, ClassVar, Self

import numpy as np
import scipy.linalg
from numpy.typing import ArrayLike, NDArray

from ._balls import (
    BallMatrix,
    ball_matrix,
    enclosure,
    upper_bounds,
    working_bits,
)
from ._frozen import Frozen, array_identity
from ._linalg import (
    EPS,
    column_norms,
    one_of,
    positive_integer,
    rank_tolerance,
    real_array,
)
from ._random import generator
from .budget import PrivacyBudget
from .calibration import laplace_scale
from .ellipsoid import Shape, gaussian_shape
from .laplace_shape import laplace_shape
from .loss import GaussianLoss, LaplaceLoss, PrivacyLoss, one_coordinate
from .moves import Moves

_BALL_BITS = 400
#: Products of balls that take a few tenths of a second.
_MOST_BALL_PRODUCTS = 10**6


class Noise(Frozen, ABC):
    """gamma = factor @ eta with independent standard entries eta.

    Noise is immutable, and equal to noise of the same family and factor.

    Parameters
    ----------
    factor : array_like, shape (m, r) or (m,)
        Lambda. A vector stands for a diagonal matrix: independent noise of these
        sizes, never formed densely.

    Raises
    ------
    ValueError
        If the factor has another number of dimensions, no entries or entries that are
        not finite.
    TypeError
        If the factor is not real.
    """

    #: Name of the family, as in ``family="gaussian"``.
    family: ClassVar[str]
    #: Norm of a shift Lambda^+ G z that decides how well the noise hides the move z.
    shift_norm: ClassVar[int]
    #: Variance of one entry of eta; that of the noise is `covariance` or `std`.
    unit_variance: ClassVar[float]
    #: Delta at which guarantees are quoted where no budget names one.
    quoted_delta: ClassVar[float]

    factor: NDArray

    def __init__(self, factor: ArrayLike) -> None:
        array = real_array(factor, "factor")
        if array.ndim not in (1, 2) or not array.size:
            raise ValueError(
                "factor: expected shape (m, r), or (m,) for independent entries, got "
                f"{array.shape}"
            )
        self._set(factor=array)

    def __reduce__(self) -> tuple[type[Self], tuple[NDArray]]:
        return type(self), (self.factor,)

    def _identity(self) -> tuple:
        return array_identity(self.factor)

    @property
    def size(self) -> int:
        """Number of noisy entries m."""
        return len(self.factor)

    @property
    def covariance(self) -> NDArray:
        """Covariance (m, m) of gamma, formed on access."""
        if self.factor.ndim == 1:
            return self.unit_variance * np.diag(self.factor**2)
        return self.unit_variance * self.factor @ self.factor.T

    @property
    def std(self) -> NDArray:
        """Standard deviation (m,) of each entry of gamma, in the unit of the published entry.

        Examples
        --------
        >>> GaussianNoise([[3.0], [4.0]]).std, LaplaceNoise([3.0]).std.round(4)
        (array([3., 4.]), array([4.2426]))
        """
        if self.factor.ndim == 1:
            sizes = np.abs(self.factor)
        else:
            sizes = column_norms(self.factor.T)
        return math.sqrt(self.unit_variance) * sizes

    @staticmethod
    @abstractmethod
    def standard(rng: np.random.Generator, shape: tuple[int, ...]) -> NDArray:
        """Draw standard entries eta of a shape from the generator ``rng``."""

    @classmethod
    @abstractmethod
    def loss(
        cls,
        shifts: NDArray,
        moves: Moves,
        full_rank: bool = True,
    ) -> PrivacyLoss:
        """Privacy loss of one release, rounded up.

        Parameters
        ----------
        shifts : ndarray, shape (r, M)
            Lambda^+ G z of the moves z, or of the axes of an ellipsoid of moves.
        moves : Moves
            The hidden moves.
        full_rank : bool, optional
            Whether the factor has independent columns.
        """

    @classmethod
    @abstractmethod
    def loss_of_size(
        cls, size: float, attained: tuple[int, ...] = (), exact: bool = False
    ) -> PrivacyLoss:
        """Privacy loss of which only the largest norm of a shift is known.

        Parameters
        ----------
        size : float
            Largest norm of a shift.
        attained : tuple of int, optional
            Indices of the moves that attain it.
        exact : bool, optional
            Whether a hidden move attains it.
        """

    @classmethod
    @abstractmethod
    def allowed_shift(
        cls, budget: PrivacyBudget, method: str = "analytic", releases: int = 1
    ) -> float:
        """Largest norm of a shift that a budget allows in one release, rounded down.

        For Laplace noise it is pure epsilon; a delta of the budget is not used.

        Parameters
        ----------
        budget : PrivacyBudget
            Of all releases together.
        method : {"analytic", "lenypappas", "classical"}, optional
            Rule for Gaussian noise; ``analytic`` is exact.
        releases : int, optional

        Raises
        ------
        ValueError
            If no noise of the family meets the budget, or the method is not for it.
        """

    @staticmethod
    @abstractmethod
    def shape(basis: Any, rows: NDArray, *, counted: int | None = None) -> Shape:
        """Find a cheap factor whose unit ball holds every move of a basis.

        Parameters
        ----------
        basis : MoveBasis
            The moves in a basis of their own.
        rows : ndarray, shape (q, r)
            H B for the basis responses B, with H^T H = W the weight of the cost.
        counted : int, optional
            The lower bound is for hiding the first so many moves, all by default.
        """

    @staticmethod
    @abstractmethod
    def log_likelihood_ratio(eta: NDArray, shift: NDArray) -> NDArray:
        """Logarithm (M,) of the density of entries eta over that of eta - shift.

        Parameters
        ----------
        eta : ndarray, shape (r, M)
        shift : ndarray, shape (r, 1)
        """

    def sample(
        self,
        size: int | None = None,
        rng: int | np.random.SeedSequence | np.random.Generator | None = None,
    ) -> NDArray:
        """Draw gamma.

        Parameters
        ----------
        size : int, optional
            Number of draws; None gives one draw without the leading axis.
        rng : None, int, SeedSequence or Generator, optional

        Returns
        -------
        ndarray, shape (m,) or (size, m)

        Raises
        ------
        TypeError
            If size is no integer.
        ValueError
            If size is negative, or too large to count.
        """
        if size is None:
            return self._draws(1, rng)[0]
        if type(size) is int and size == 0:
            return np.empty((0, self.size))
        return self._draws(positive_integer(size, "size"), rng)

    def _draws(self, count: int, rng: Any) -> NDArray:
        eta = self.standard(generator(rng), (count, self.factor.shape[-1]))
        if self.factor.ndim == 1:
            return eta * self.factor
        return eta @ self.factor.T

    def whiten(
        self, images: NDArray, doubt: NDArray | None = None
    ) -> tuple[NDArray, NDArray | None, NDArray | None]:
        """Lambda^+ s, which is what the noise must hide of images s in units of its entries.

        Parameters
        ----------
        images : ndarray, shape (m, M)
            The images as columns.
        doubt : ndarray, shape (m, M), optional
            Bounds of their errors.

        Returns
        -------
        shifts : ndarray, shape (r, M)
            Of minimum norm.
        bare : ndarray, shape (m, M), or None
            |s - Lambda shifts|, what is left of each image. None if no error bounds
            are given.
        errors : ndarray, shape (r, M), or None
            Bounds of the errors of ``shifts``. None if no error bounds are given.
        """
        if self.factor.ndim == 1:
            return self._whiten_independent(images, doubt)
        scale, U, s, vt = self._decomposition()
        coordinates = (U.T @ images) / s[:, None]
        shifts = (vt.T @ coordinates) / scale[:, None]
        if doubt is None:
            return shifts, None, None
        inverse = (vt.T / s) @ U.T / scale[:, None]
        errors = np.abs(inverse) @ doubt
        if len(s):
            relative = 8 * EPS * (len(scale) + 8) * (s[0] / s[-1])
            errors += relative * column_norms(coordinates) / scale[:, None]
        bare = np.abs(images - self.factor @ shifts)
        return shifts, bare, errors

    def _whiten_independent(
        self, images: NDArray, doubt: NDArray | None
    ) -> tuple[NDArray, NDArray | None, NDArray | None]:
        """`whiten` for a diagonal factor."""
        silent = (self.factor == 0)[:, None]
        size = np.where(silent, np.inf, self.factor[:, None])
        shifts = images / size
        if doubt is None:
            return shifts, None, None
        bare = np.where(silent, np.abs(images), 0.0)
        errors = doubt / np.abs(size) + EPS * np.abs(shifts)
        return shifts, bare, errors

    def _decomposition(self) -> tuple[NDArray, NDArray, NDArray, NDArray]:
        """Column scales (r,) and the singular value decomposition of factor / scales.

        The scales are one where columns depend on each other: the minimum-norm shift
        belongs to the factor as it is.
        """
        scale = column_norms(self.factor)
        scale[scale == 0] = 1.0
        U, s, vt = scipy.linalg.svd(self.factor / scale, full_matrices=False)
        rank = int(np.sum(s > rank_tolerance(self.factor, s)))
        if rank < self.factor.shape[1]:
            scale = np.ones_like(scale)
            U, s, vt = scipy.linalg.svd(self.factor, full_matrices=False)
            rank = int(np.sum(s > rank_tolerance(self.factor, s)))
        return scale, U[:, :rank], s[:rank], vt[:rank]

    def whiten_in_balls(
        self, images: BallMatrix, error_bounds: NDArray
    ) -> tuple[NDArray, NDArray, NDArray] | None:
        """`whiten` in ball arithmetic, for a factor (m, r).

        A factor and moves of doubles are exact numbers, however thin their thinnest
        direction. Only what is computed from them is rounded.

        Parameters
        ----------
        images : BallMatrix, shape (m, M)
        error_bounds : ndarray, shape (m, M)
            Bounds of the errors of the images beyond their balls.

        Returns
        -------
        shifts : ndarray, shape (r, M)
            The nearest doubles.
        bare : ndarray, shape (m, M)
            What is certainly left of each image.
        errors : ndarray, shape (r, M)
            Bounds of the errors of ``shifts``.
        None
            If the columns of the factor are dependent, or the problem is so large that
            it takes more than a few tenths of a second.
        """
        m, r = self.factor.shape
        if m * r * (r + images.ncols()) > _MOST_BALL_PRODUCTS:
            return None
        with working_bits(_BALL_BITS):
            factor = ball_matrix(self.factor)
            transpose = factor.transpose()
            try:
                inverse = (transpose * factor).inv() * transpose
            except ZeroDivisionError:
                return None
            exact = inverse * images
            shifts, errors = enclosure(exact)
            left, rounding = enclosure(images - factor * exact)
            magnified = upper_bounds(inverse) @ error_bounds
        errors = (errors + magnified * (1 + 2 * EPS * m)) * (1 + 4 * EPS)
        if not np.isfinite(errors).all():
            return None
        return shifts, np.maximum(np.abs(left) - rounding, 0.0), errors

    def __repr__(self) -> str:
        draws = self.factor.shape[-1]
        return f"{type(self).__name__}(size={self.size}, draws={draws})"


class GaussianNoise(Noise):
    """gamma = factor @ eta, eta standard normal (DPAM Definition 6).

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
    unit_variance = 1.0
    quoted_delta = 1e-5

    @staticmethod
    def standard(rng: np.random.Generator, shape: tuple[int, ...]) -> NDArray:
        return rng.standard_normal(shape)

    @classmethod
    def loss(
        cls,
        shifts: NDArray,
        moves: Moves,
        full_rank: bool = True,
    ) -> GaussianLoss:
        # exactly y-GDP, y the largest 2-norm of a shift (DPAM Theorem 1)
        size = moves.worst_shift(shifts, cls.shift_norm)
        attained = moves.attaining(shifts, cls.shift_norm)
        return cls.loss_of_size(size, attained, moves.exact)

    @classmethod
    def loss_of_size(
        cls, size: float, attained: tuple[int, ...] = (), exact: bool = False
    ) -> GaussianLoss:
        return GaussianLoss(size, attained, exact)

    @classmethod
    def allowed_shift(
        cls, budget: PrivacyBudget, method: str = "analytic", releases: int = 1
    ) -> float:
        return budget.shift(method, releases)

    shape = staticmethod(gaussian_shape)

    @staticmethod
    def log_likelihood_ratio(eta: NDArray, shift: NDArray) -> NDArray:
        return (shift * (shift / 2 - eta)).sum(axis=0)


class LaplaceNoise(Noise):
    """gamma = factor @ eta, eta Laplace of scale one, hence of variance two (DPAM Definition 6).

    Examples
    --------
    >>> noise = LaplaceNoise([3.0])
    >>> noise.covariance, noise.std.round(3)
    (array([[18.]]), array([4.243]))
    """

    family = "laplace"
    shift_norm = 1
    unit_variance = 2.0
    quoted_delta = 0.0

    @staticmethod
    def standard(rng: np.random.Generator, shape: tuple[int, ...]) -> NDArray:
        return rng.laplace(size=shape)

    @classmethod
    def loss(
        cls,
        shifts: NDArray,
        moves: Moves,
        full_rank: bool = True,
    ) -> LaplaceLoss:
        # exact for full column rank (DPAM Theorem 2)
        if moves.is_ball:
            return cls.loss_of_size(moves.worst_shift(shifts, cls.shift_norm))
        return LaplaceLoss.of(shifts, exact=moves.exact and full_rank)

    @classmethod
    def loss_of_size(
        cls, size: float, attained: tuple[int, ...] = (), exact: bool = False
    ) -> LaplaceLoss:
        return one_coordinate(size)

    @classmethod
    def allowed_shift(
        cls, budget: PrivacyBudget, method: str = "analytic", releases: int = 1
    ) -> float:
        if method != "analytic":
            raise ValueError(
                f"method: Laplace noise has one rule, got {method!r}; leave it out"
            )
        allowed = budget.laplace_epsilon(releases)
        laplace_scale(allowed)  # refuses epsilon = 0 and says why
        return allowed

    shape = staticmethod(laplace_shape)

    @staticmethod
    def log_likelihood_ratio(eta: NDArray, shift: NDArray) -> NDArray:
        return (np.abs(eta - shift) - np.abs(eta)).sum(axis=0)


#: The families by name.
FAMILIES: Mapping[str, type[Noise]] = MappingProxyType(
    {cls.family: cls for cls in (GaussianNoise, LaplaceNoise)}
)


def family_of(name: str) -> type[Noise]:
    """The family of noise of this name, or a ``ValueError`` that lists them."""
    return FAMILIES[one_of(name, "family", tuple(FAMILIES))]
