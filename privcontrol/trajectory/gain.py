"""Gains of linear systems as sensitivities, from an input signal to an output signal.

A gain belongs to a pair of signal norms. One that is not certified is not called a
Lipschitz constant.
"""

import math
from typing import Any

import control as ct
import numpy as np
import scipy.linalg
from numpy.typing import NDArray

from privcontrol.core._linalg import one_of, real_array
from privcontrol.core.lipschitz import LipschitzBound, induced_norm
from privcontrol.core.lipschitz._bounded_real import Model, hinf_bound
from privcontrol.core.lipschitz._peak_gain import peak_bound


def system_gain(sys: ct.StateSpace, *, norm: str = "hinf") -> LipschitzBound | float:
    r"""The gain of a stable linear system from its input signal to its output signal.

    ======  ========================  ==============================================
    norm    Lipschitz constant for    value
    ======  ========================  ==============================================
    "hinf"  l2 -> l2 (L2 -> L2)       largest singular value over all frequencies
    "l1"    inf -> inf, peak to peak  largest row sum of the absolute impulse response
    "h2"    none                      root of the energy of the impulse response
    ======  ========================  ==============================================

    Signal norms are over time and channels together. Both bounds hold on every horizon, for
    one initial state. The peak-to-peak gain is that of sampled signals only.

    Parameters
    ----------
    sys : StateSpace
        A stable system, in discrete (``dt`` True or > 0) or continuous time (``dt`` 0).
    norm : {"hinf", "l1", "h2"}
        Which gain.

    Returns
    -------
    LipschitzBound or float
        A bound certified from above, for "hinf" by the bounded-real lemma and for "l1" with
        every neglected tail and round-off counted. For "h2" a plain float, which bounds no
        sensitivity, infinite for a continuous-time system with feedthrough.

    Raises
    ------
    control.ControlArgument
        If `sys` is not a ``StateSpace`` or its ``dt`` is None.
    ValueError
        If the system is not stable, the norm is not known, or "l1" meets continuous time.
    UncertifiableError
        If double precision cannot prove a bound.

    Examples
    --------
    >>> import control as ct, privcontrol as pc
    >>> lag = ct.ss(0.5, 1, 1, 0, True)
    >>> [round(float(pc.system_gain(lag, norm=norm)), 6) for norm in ("hinf", "l1", "h2")]
    [2.0, 2.0, 1.154701]

    Notes
    -----
    Boyd and Balakrishnan (1990); Bruinsma and Steinbuch (1990); Zhou, Doyle and Glover
    (1996); for the sensitivity of filters, Le Ny and Pappas (2014).
    """
    norm = one_of(norm, "norm", ("hinf", "l1", "h2"))
    matrices = _matrices(sys)
    discrete = sys.isdtime(strict=True)
    _require_stable(matrices[0], discrete)
    if norm == "h2":
        return _energy(*matrices, discrete=discrete)
    method = norm
    if not discrete:
        method += ", continuous time"
    if norm == "hinf":
        value = _hinf(matrices, discrete)
        return LipschitzBound(value, p=2, q=2, method=method)
    if _is_static(*matrices):
        value = float(induced_norm(matrices[3], math.inf, math.inf))
    elif discrete:
        value = peak_bound(*matrices)
    else:
        raise ValueError(
            "sys: expected discrete time for norm='l1', got dt=0; sample it with "
            "sys.sample(Ts)"
        )
    return LipschitzBound(value, p=math.inf, q=math.inf, method=method)


def _matrices(sys: Any) -> Model:
    """A, B, C and D, balanced."""
    if not isinstance(sys, ct.StateSpace):
        raise ct.ControlArgument(
            f"sys: expected a StateSpace, got {type(sys).__name__}; convert a transfer "
            "function with ct.ss, linearize a nonlinear system"
        )
    if sys.dt is None:
        raise ct.ControlArgument(
            "sys: expected dt = 0, True or a sampling time, got dt=None; set it in ct.ss"
        )
    A, B, C, D = (real_array(M, "sys") for M in (sys.A, sys.B, sys.C, sys.D))
    return _balanced(A, B, C, D)


def _balanced(A: NDArray, B: NDArray, C: NDArray, D: NDArray) -> Model:
    """The same system with its states scaled by powers of two, so that units do not matter.

    It is returned as it was if entries underflow or overflow.
    """
    if not len(A):
        return A, B, C, D
    scale = scipy.linalg.matrix_balance(A, permute=False, separate=True)[1][0]
    column = scale[:, None]
    scaled_A = A * scale / column
    scaled_B = B / column
    scaled_C = C * scale
    exact = (
        np.array_equal(scaled_A * column / scale, A)
        and np.array_equal(scaled_B * column, B)
        and np.array_equal(scaled_C / scale, C)
    )
    if not exact:
        return A, B, C, D
    return scaled_A, scaled_B, scaled_C, D


def _require_stable(A: NDArray, discrete: bool) -> None:
    if not len(A):
        return
    poles = np.linalg.eigvals(A)
    if discrete:
        worst = np.abs(poles).max()
        limit = 1
        expected = "spectral radius below 1"
    else:
        worst = poles.real.max()
        limit = 0
        expected = "spectral abscissa below 0"
    if worst >= limit:
        raise ValueError(
            f"sys: expected a stable system ({expected}), got {worst:.6g}; its gain is "
            "infinite: close a stabilising loop first"
        )


def _is_static(A: NDArray, B: NDArray, C: NDArray, D: NDArray) -> bool:
    """Whether no state leads from the input to the output."""
    return not (len(A) and B.any() and C.any())


def _hinf(matrices: Model, discrete: bool) -> float:
    if _is_static(*matrices):
        return float(induced_norm(matrices[3], 2, 2))
    return hinf_bound(*matrices, discrete=discrete)


def _energy(A: NDArray, B: NDArray, C: NDArray, D: NDArray, *, discrete: bool) -> float:
    """sqrt(tr(C X C' + DD')) with the controllability Gramian X.

    It is infinite for a continuous-time system with feedthrough.
    """
    if not discrete and D.any():
        return math.inf
    if not len(A):
        return float(np.linalg.norm(D))
    if discrete:
        gramian = scipy.linalg.solve_discrete_lyapunov(A, B @ B.T)
    else:
        gramian = scipy.linalg.solve_continuous_lyapunov(A, -B @ B.T)
    return math.sqrt(max(np.trace(C @ gramian @ C.T) + np.sum(D**2), 0.0))
