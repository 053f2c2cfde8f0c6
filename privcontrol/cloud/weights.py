"""Cost weights, covariances, gains and noise of a loop, checked: what was expected, what came."""

import control as ct
import numpy as np
import scipy.linalg

from ..channel.output_noise import OutputNoise
from ..core._linalg import real_array
from ..trajectory.modes import warn_of_costly_modes

#: Name and hint of QN in messages.
DISTURBANCE = (
    "QN (covariance of w)",
    "; x+ = A x + B u + G w: pass G=sys.B for disturbances at the inputs",
)


def matrix(value, name, shape):
    """A finite read-only matrix of a shape, in which None is a free length.

    Raises
    ------
    control.ControlDimension
        If it has another shape.
    TypeError
        If it is what ``ct.dlqr`` or ``ct.dlqe`` returns as a whole.
    """
    if isinstance(value, tuple) and any(
        isinstance(part, np.ndarray) and part.ndim == 2 for part in value
    ):
        raise TypeError(
            f"{name}: expected an array, got a tuple; ct.dlqr and ct.dlqe return three things: take [0]"
        )
    value = np.asarray(value)
    if value.ndim != 2 or any(
        want not in (None, got) for want, got in zip(shape, value.shape)
    ):
        want = ", ".join("any" if size is None else str(size) for size in shape)
        raise ct.ControlDimension(f"{name}: expected shape ({want}), got {value.shape}")
    return real_array(value, name)


def semidefinite(value, name, size, hint=""):
    """A symmetric positive semidefinite matrix (size, size); a number is that multiple of the identity, None is None.

    ``hint`` ends the message about another shape.

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
    if value.ndim == 0:
        value = value * np.eye(size)
    if value.shape != (size, size):
        raise ct.ControlDimension(
            f"{name}: expected shape ({size}, {size}), got {value.shape}{hint}"
        )
    value = real_array(value, name)
    if np.abs(value - value.T).max() > 1e-10 * np.abs(value).max():
        raise ValueError(
            f"{name}: expected a symmetric matrix; pass ({name} + {name}.T) / 2"
        )
    smallest = scipy.linalg.eigvalsh(value)[0]
    if smallest < -1e-10 * np.abs(value).max():
        raise ValueError(
            f"{name}: expected a positive semidefinite matrix, got smallest eigenvalue {smallest:.3g}"
        )
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


def fitting_noise(plant, noise):
    """The noise, if it was designed for this plant; warns where it excites an unstable mode.

    Raises
    ------
    TypeError
        If it is no OutputNoise.
    ValueError
        If the plant is not the one that it was designed for.
    """
    if noise is None:
        return None
    if not isinstance(noise, OutputNoise):
        raise TypeError(
            f"noise: expected OutputNoise from design_output_noise, got {type(noise).__name__}"
        )
    noise.check_plant(plant)
    if noise.factor is not None and noise.request is not None:
        warn_of_costly_modes(
            plant, noise.request.adjacency, noise.horizon, ("unstable",), stacklevel=4
        )
    return noise
