"""Rounding-error bounds that make an enclosing ellipsoid safe: a factor that holds every point both in exact and in
floating-point arithmetic, and its cost and the dual bound rounded outwards.

The computed solution x of a triangular system S x = p solves (S + dS) x = p exactly with |dS| <= gamma(r) |S|, entry
by entry and whatever the scaling of the rows; `gamma` is twice the textbook constant r u / (1 - r u).
"""

import math

import flint
import numpy as np
from scipy.linalg import blas, qr
from scipy.linalg.lapack import dtrtri

from .._balls import working_bits
from .._linalg import EPS
from ..errors import UncertifiableError

_CHUNK = 16384
_PRECISION = 200  # bits
_EXACT_SIZE = 10**7  # products of numbers beyond which ball arithmetic takes too long
_NEGLIGIBLE = 1e-11  # relative enlargement of all directions that a thin one may cause before it is enlarged instead
_MAX_ERROR = (
    1e-2  # relative error of a coordinate of S^{-1} p beyond which nothing is certified
)


def gamma(operations):
    """Relative error bound of a chain of this many floating-point operations, with room for reorderings."""
    return (operations + 4) * EPS  # twice the textbook bound: EPS is two unit roundoffs


def row_permuted_triangle(basis):
    """(order, L) with L lower triangular, of positive diagonal, and L L^T = (basis basis^T)[order][:, order].

    Column pivoting sorts the rows by what each adds: no entry exceeds the diagonal entry of its column, so Gaussian
    elimination with partial pivoting of the factor is plain substitution in this order.
    """
    upper, order = qr(basis.T, mode="r", pivoting=True)
    return order, (upper * np.where(np.diag(upper) < 0, -1.0, 1.0)[:, None]).T


def solution_error(lower):
    """E, nonnegative (r, r), with |x - S^{-1} p| <= E |x| for the computed solution x of S x = p.

    Raises
    ------
    UncertifiableError
        If E exceeds one percent: the columns of S are nearly dependent for double precision.
    """
    size = len(lower)
    inverse, info = dtrtri(lower, lower=1)
    product = (
        np.abs(inverse) @ np.abs(lower) if info == 0 else np.full_like(lower, np.inf)
    )
    error = gamma(size) * product
    if not error.sum(1).max() <= _MAX_ERROR:  # also catches NaN
        raise UncertifiableError(
            f"points: expected {size} dimensions that double precision can separate, got points whose coordinates in "
            "their enclosing ellipsoid are uncertain by more than one percent; pass points in coordinates that "
            "separate their scales"
        )
    # |S^{-1}| <= (I - R)^{-1} |inverse| with R >= |I - inverse S|
    residual = np.abs(np.eye(size) - inverse @ lower) + gamma(size) * (
        product + np.eye(size)
    )
    return np.linalg.inv(np.eye(size) - residual) @ error * (1 + 1e-6)


def certified_factor(points, weight_factor, basis):
    """S with S S^T close to basis basis^T, enlarged so that ||S^{-1} p||_2 <= 1 for every point.

    Each column is first enlarged on account of its own rounding error (balanced against its share of the cost), so
    that a thin direction beside long ones does not enlarge the long ones; then all by the worst point.
    """
    order, lower = row_permuted_triangle(basis)
    error = solution_error(lower)
    enlarged = _enlargement(error, weight_factor[order].T @ lower)
    largest = _largest_norm(lower, points[order], error, enlarged)
    factor = np.empty_like(lower)
    factor[order] = lower * (enlarged * (largest * (1 + gamma(2 * len(lower) + 8))))
    return factor


def _enlargement(error, columns):
    """Factors by which to enlarge directions whose coordinates have relative errors (r, r), and weighted columns (m, r)."""
    price = np.einsum("ij,ij->j", columns, columns)
    doubt = np.linalg.norm(error, axis=1)
    share = np.sqrt(np.maximum(price / price.sum(), 1e-300))
    # enlarging squares by 1 + t costs share^2 t, and leaves the others to be enlarged by doubt^2 / t
    squares = 1 + np.minimum(doubt / share, doubt**2 / _NEGLIGIBLE)
    return np.maximum(1 + doubt, np.sqrt(squares))


def thickening(factor, weigh):
    """T (r, r), orthogonal but for its scales, with which factor @ T (m, r) hides what factor hides, however rounded.

    A direction that is thin beside others is tilted by rounding their entries; it is made so much thicker, at no cost
    that shows, that the tilt does not matter. None where nothing is that thin.

    Parameters
    ----------
    factor : ndarray, shape (m, r), m >= r
    weigh : callable
        Maps columns (m, r) to those whose squares sum to the cost.
    """
    size = factor.shape[1]
    upper = qr(factor.T, mode="r", pivoting=True)[0][:, :size]
    inverse, info = dtrtri(upper)
    error = gamma(0) * (np.abs(inverse).T @ np.abs(upper).T)  # of rounding each entry
    if info or not error.max() > _NEGLIGIBLE:
        return None
    rotation = qr(factor.T, mode="economic", pivoting=True)[0]
    return rotation * _enlargement(error, weigh(factor @ rotation))


def _largest_norm(lower, points, error, enlarged):
    """max ||diag(1 / enlarged) x|| over all x within the error bound of the computed S^{-1} p."""
    largest = 0.0
    for k in range(0, points.shape[1], _CHUNK):
        solution = np.abs(
            blas.dtrsm(
                1.0, lower, points[:, k : k + _CHUNK].T, side=1, lower=1, trans_a=1
            ).T
        )
        bound = (solution + error @ solution) / enlarged[:, None]
        largest = np.maximum(
            largest, np.einsum("ij,ij->j", bound, bound).max()
        )  # keeps a NaN
    if not np.isfinite(largest):
        raise UncertifiableError(
            "points: expected sizes that a double can hold, got an overflow; rescale them"
        )
    return math.sqrt(largest)


def _product(left, right):
    """left @ right and an entrywise bound of its error; in ball arithmetic where floating point cancels too much."""
    value = left @ right
    doubt = gamma(len(right)) * (np.abs(left) @ np.abs(right))
    if (
        np.linalg.norm(doubt) > _NEGLIGIBLE * np.linalg.norm(value)
        and value.size * len(right) <= _EXACT_SIZE
    ):
        with working_bits(_PRECISION):
            exact = flint.arb_mat(left.tolist()) * flint.arb_mat(right.tolist())
        value = np.array([float(entry.mid()) for entry in exact.entries()]).reshape(
            value.shape
        )
        doubt = np.array([float(entry.rad()) for entry in exact.entries()]).reshape(
            value.shape
        ) * (1 + EPS)
        doubt += EPS * np.abs(value)
    return value, doubt


def cost_above(weight_factor, factor):
    """||L^T S||_F^2 = tr(W S S^T), rounded up."""
    value, doubt = _product(weight_factor.T, factor)
    squares = ((np.abs(value) + doubt) ** 2).sum(axis=1)
    return float(math.fsum(squares.tolist()) * (1 + gamma(value.shape[1])))


def cost_below(weight_factor, points, weights):
    """||L^T P diag(sqrt(w))||_*^2, rounded down: <Y, A> / ||Y||_2 for Y close to the polar factor of A."""
    root = np.sqrt(weights)
    value, doubt = _product(weight_factor.T, points)
    matrix, doubt = value * root, doubt * root
    left, _, right = np.linalg.svd(matrix, full_matrices=False)
    polar = left @ right
    lost = np.abs(polar) * (doubt + gamma(len(polar)) * np.abs(matrix))
    inner = math.fsum(((polar * matrix).sum(axis=0) - lost.sum(axis=0)).tolist())
    bound = max(inner, 0.0) / _spectral_norm(left, right, polar)
    return float(bound * bound / math.fsum((root**2).tolist()) * (1 - 16 * EPS))


def _spectral_norm(left, right, polar):
    """Upper bound of ||polar||_2, polar = left @ right with nearly orthonormal columns and rows."""
    if len(left) == len(right):
        return math.sqrt(_norm_squared(polar))
    return math.sqrt(_norm_squared(left.T) * _norm_squared(right)) + len(right) * gamma(
        len(right)
    )


def _norm_squared(rows):
    """Upper bound of the squared spectral norm of a matrix with nearly orthonormal rows."""
    gram = rows @ rows.T
    error = (
        gamma(rows.shape[1]) * gram.trace()
    )  # of the Gram matrix, in the Frobenius norm
    return (float(np.abs(gram).sum(1).max()) + error) * (1 + gamma(rows.size))
