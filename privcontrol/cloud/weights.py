"""Cost weights, covariances and gains of a loop, checked: what was expected, what came."""

import control as ct
import numpy as np
import scipy.linalg

from ..core._linalg import real_array


def matrix(value, name, shape):
    """A finite read-only matrix of a shape, in which None is a free length.

    Raises
    ------
    control.ControlDimension
        If it has another shape.
    """
    value = np.asarray(value)
    if value.ndim != 2 or any(want not in (None, got) for want, got in zip(shape, value.shape)):
        want = ", ".join("any" if size is None else str(size) for size in shape)
        raise ct.ControlDimension(f"{name}: expected shape ({want}), got {value.shape}")
    return real_array(value, name)


def semidefinite(value, name, size):
    """A symmetric positive semidefinite matrix (size, size); a number is that multiple of the identity, None is None.

    Raises
    ------
    control.ControlDimension
        If it has another shape.
    ValueError
        If it is not symmetric or not positive semidefinite.
    """
    if value is None:
        return None
    value = np.asarray(value)
    value = matrix(value * np.eye(size) if value.ndim == 0 else value, name, (size, size))
    if np.abs(value - value.T).max() > 1e-10 * np.abs(value).max():
        raise ValueError(f"{name}: expected a symmetric matrix; pass ({name} + {name}.T) / 2")
    smallest = scipy.linalg.eigvalsh(value)[0]
    if smallest < -1e-10 * np.abs(value).max():
        raise ValueError(f"{name}: expected a positive semidefinite matrix, got smallest eigenvalue {smallest:.3g}")
    return value


def root(covariance):
    """A square root M (size, size) with M M^T = covariance."""
    values, vectors = scipy.linalg.eigh(covariance)
    return vectors * np.sqrt(np.maximum(values, 0.0))


def cross_weight(N, Q, R):
    """The cross weight N (n, m) of x'Q x + u'R u + 2 x'N u, or None.

    Raises
    ------
    control.ControlDimension
        If it has another shape.
    ValueError
        If the cost would not be convex, or there is no Q and R.
    """
    if N is None:
        return None
    if Q is None or R is None:
        raise ValueError("N: a cross weight belongs to Q and R; pass them too")
    N = matrix(N, "N", (len(Q), len(R)))
    semidefinite(np.block([[Q, N], [N.T, R]]), "[[Q, N], [N.T, R]]", len(Q) + len(R))
    return N
