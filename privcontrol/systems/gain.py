"""Gains of systems, for a pair of signal norms, bounded from above.

Gains are sensitivities from an input signal to an output signal. A frequency response
estimates the H-infinity norm, a Riccati solution proposes a storage matrix, and balls prove
the bounded-real inequality with it. The impulse response is summed from balls; what a finite
horizon leaves out is bounded.
"""

from __future__ import annotations

import math

import control as ct
import numpy as np
import scipy.linalg
import scipy.optimize
from flint import arb
from numpy.typing import NDArray

from ..core.lipschitz import LipschitzBound, induced_norm
from ..numerics.balls import (
    ball_matrix,
    block_balls,
    identity_balls,
    is_positive_definite,
    row_sum_norm,
    upper_float,
    working_bits,
)
from ..numerics.checks import one_of, real_array
from ..numerics.errors import UncertifiableError
from ..numerics.linalg import EPS
from ..numerics.thresholds import LATEST, NEGLIGIBLE
from .linear import (
    LEAP,
    LinearSystem,
    check_discrete,
    frequency_response,
    output_variances,
    poles_of,
    spectral_radius,
    to_states,
)
from .powers import FreeResponse

#: Relative; the first that can be proven is taken.
MARGINS = [10.0**-k for k in range(9, 0, -1)]
#: Frequencies of a grid, on which the highest peak is found.
FREQUENCIES = 256
_TOO_CLOSE = (
    "the gain of this model cannot be certified in double precision; its poles are too "
    "close to the boundary of stability or its states are badly scaled: rescale the "
    "states or use a minimal realisation"
)


def system_gain(sys: ct.StateSpace, *, norm: str = "hinf") -> LipschitzBound | float:
    r"""Return the gain of a stable linear system from input signal to output signal.

    ======  ========================  ==============================================
    norm    Lipschitz constant for    value
    ======  ========================  ==============================================
    "hinf"  l2 -> l2                  largest singular value over all frequencies
    "l1"    inf -> inf, peak to peak  largest row sum of the absolute impulse response
    "h2"    none                      root of the energy of the impulse response
    ======  ========================  ==============================================

    Signal norms are over time and channels together. Both bounds hold on every horizon, for
    one initial state.

    Parameters
    ----------
    sys : StateSpace
        A stable system in discrete time.
    norm : {"hinf", "l1", "h2"}
        Which gain.

    Returns
    -------
    LipschitzBound or float
        A bound certified from above, for "hinf" by the bounded-real lemma and for "l1" with
        every neglected tail and round-off counted. For "h2" a plain float, which bounds no
        sensitivity.

    Raises
    ------
    control.ControlArgument
        If `sys` is not a discrete-time ``StateSpace``.
    ValueError
        If the system is not stable, or the norm is not known.
    UncertifiableError
        If double precision cannot prove a bound.

    See Also
    --------
    DisturbanceAdjacency, core.induced_norm

    Notes
    -----
    Boyd and Balakrishnan (1990); Bruinsma and Steinbuch (1990); Zhou, Doyle and Glover
    (1996); for the sensitivity of filters, Le Ny and Pappas (2014).

    Examples
    --------
    >>> import control as ct, privcontrol as pc
    >>> lag = ct.ss(0.5, 1, 1, 0, True)
    >>> [round(float(pc.system_gain(lag, norm=norm)), 6) for norm in ("hinf", "l1", "h2")]
    [2.0, 2.0, 1.154701]
    """
    norm = one_of(norm, "norm", ("hinf", "l1", "h2"))
    check_discrete(sys)
    matrices = (sys.A, sys.B, sys.C, sys.D)
    system = LinearSystem(*(real_array(matrix, "sys") for matrix in matrices))
    radius = spectral_radius(system)
    if radius >= 1:
        raise ValueError(
            "sys: expected a stable system (spectral radius below 1), got "
            f"{radius:.6g}; its gain is infinite: close a stabilising "
            "loop first"
        )
    if norm == "h2":
        if not _is_dynamic(system):
            return float(np.linalg.norm(system.D))
        return math.sqrt(output_variances(_balanced(system)).sum())
    if norm == "hinf":
        return LipschitzBound(largest_gain(system), p=2, q=2, method=norm)
    bound = _peak_bound(_balanced(system)) if _is_dynamic(system) else None
    if bound is None:
        bound = float(induced_norm(system.D, math.inf, math.inf))
    return LipschitzBound(bound, p=math.inf, q=math.inf, method=norm)


def largest_gain(system: LinearSystem) -> float:
    """Return a proven upper bound of the l2 -> l2 gain of a stable system."""
    if _is_dynamic(system):
        return _hinf_bound(_balanced(system))
    return float(induced_norm(system.D, 2, 2))


def _is_dynamic(system: LinearSystem) -> bool:
    """Return whether a state leads from an input to an output."""
    return bool(system.order and system.B.any() and system.C.any())


def _balanced(system: LinearSystem) -> LinearSystem:
    """The same system with its states scaled by powers of two, so units do not matter.

    Inputs of size one make states of size one. It is returned as it was if entries
    underflow or overflow.
    """
    A, B, C, D = system.matrices
    scale = scipy.linalg.matrix_balance(A, permute=False, separate=True)[1][0]
    size = np.linalg.norm(B / scale[:, None])
    scale = np.ldexp(scale, np.frexp(size)[1])
    column = scale[:, None]
    scaled = LinearSystem(A * scale / column, B / column, C * scale, D)
    back = LinearSystem(
        scaled.A * column / scale, scaled.B * column, scaled.C / scale, D
    )
    return scaled if back == system else system


# -- the H-infinity norm --------------------------------------------------------------


def _hinf_bound(system: LinearSystem) -> float:
    """A proven upper bound of the l2 -> l2 gain, by the bounded-real lemma.

    For P > 0 and [[P - A'PA - C'C, -(A'PB + C'D)], [., g^2 I - D'D -
    B'PB]] > 0, the system is stable and its gain is below g. A wrong estimate of the gain
    costs tightness, never validity.
    """
    level = _estimate(system)
    states = _estimate(to_states(system))
    # a scale for gains that are zero or nearly so
    size = float(np.linalg.norm(system.B) * np.linalg.norm(system.C))
    excesses = [margin * scale for scale in (level, size) for margin in MARGINS]
    with working_bits():
        for excess in excesses:
            if excess <= 0:
                continue
            bound = level + excess
            slack = excess * (level + excess / 2) / np.square(max(states, EPS))
            P = _storage(system, bound, slack)
            if P is not None and _proven(system, P, bound):
                return upper_float(arb(bound))
    raise UncertifiableError(_TOO_CLOSE)


def _estimate(system: LinearSystem) -> float:
    """The H-infinity norm of a stable system from below, at the highest peak of a grid."""

    def lost(angle: NDArray[np.float64] | float) -> NDArray[np.float64]:
        points = np.exp(1j * np.atleast_1d(angle))
        responses = frequency_response(system, points)
        return -np.linalg.norm(responses, 2, axis=(1, 2))

    poles = np.abs(np.angle(poles_of(system)))
    angles = np.unique(np.concatenate([poles, np.linspace(0, np.pi, FREQUENCIES)]))
    sizes = lost(angles)
    k = int(sizes.argmin())
    found = scipy.optimize.minimize_scalar(
        lambda angle: lost(angle)[0],
        bounds=(angles[max(k - 1, 0)], angles[min(k + 1, len(angles) - 1)]),
        options={"xatol": 1e-10},
    )
    return -float(min(sizes[k], found.fun))


def _storage(
    system: LinearSystem, bound: float, slack: float
) -> NDArray[np.float64] | None:
    """The stabilising Riccati solution with C'C + slack I in place of C'C, if any."""
    A, B, C, D = system.matrices
    C, D = C / bound, D / bound
    square = np.square(bound)
    state_cost = C.T @ C + slack / square * np.eye(system.order)
    input_cost = D.T @ D - np.eye(D.shape[1])
    try:
        P = scipy.linalg.solve_discrete_are(A, B, state_cost, input_cost, s=C.T @ D)
    except (np.linalg.LinAlgError, ValueError):
        return None
    if not np.isfinite(square * P).all():
        return None
    return square * (P + P.T) / 2


def _proven(system: LinearSystem, storage: NDArray[np.float64], bound: float) -> bool:
    """Return whether the bounded-real inequality is proven for the float matrices as given."""
    A, B, C, D = system.in_balls().matrices
    P = ball_matrix(storage)
    cross = A.transpose() * P * B + C.transpose() * D
    top = P - A.transpose() * P * A - C.transpose() * C
    square = identity_balls(D.ncols()) * arb(bound) ** 2
    corner = square - D.transpose() * D - B.transpose() * P * B
    inequality = block_balls([[top, -cross], [-cross.transpose(), corner]])
    return is_positive_definite(P) and is_positive_definite(inequality)


# -- the peak-to-peak gain ------------------------------------------------------------


def _peak_bound(system: LinearSystem) -> float:
    """A proven upper bound of the inf -> inf gain, the largest row sum of sum |C A^k B|.

    The first N samples are summed. Where the rows of |A^N| sum to at most r, the outputs
    of c that are left add at most ||c||_1 r / (1 - r) times the sum of ||A^k B||_inf.
    """
    A, B, C, D = system.matrices
    samples = LEAP
    with working_bits():
        power = ball_matrix(A) ** samples
        while (left := upper_float(row_sum_norm(power))) > NEGLIGIBLE:
            if samples >= LATEST:
                raise UncertifiableError(_TOO_CLOSE)
            power = power * power
            samples *= 2
    free = FreeResponse.of(A, B, 0, samples - 1)
    states = np.abs(free.states()).max(axis=1).sum(axis=0)
    tail = np.abs(C).sum(axis=1)[:, None] * states * (2 * left)
    total = np.abs(D) + np.abs(free.outputs(C)).sum(axis=0) + tail
    rounding = 4 * EPS * (samples + total.shape[1])
    return float(total.sum(axis=1).max() * (1 + rounding))
