"""Gains of python-control systems as sensitivities: how far an output signal can move when the input signal moves. A
gain belongs to a pair of signal norms, and one that is not certified is not called a Lipschitz constant."""

import contextlib
import math
from typing import Any

import control as ct
import numpy as np
import scipy.linalg
from numpy.typing import NDArray

from privcontrol.core._linalg import one_of
from privcontrol.core.lipschitz import LipschitzBound, induced_norm
from privcontrol.core.lipschitz._bounded_real import hinf_bound
from privcontrol.core.lipschitz._peak_gain import peak_bound


def system_gain(sys: ct.StateSpace, *, norm: str = "hinf") -> LipschitzBound | float:
    r"""The gain of a stable linear system from its input signal to its output signal.

    ========  ==========================  =============================================================
    norm      Lipschitz constant for      value
    ========  ==========================  =============================================================
    "hinf"    l2 -> l2 (L2 -> L2)         the largest singular value over all frequencies
    "l1"      inf -> inf, peak to peak    the largest row sum of the time-summed absolute impulse response
    "h2"      none                        the root of the energy of the impulse response
    ========  ==========================  =============================================================

    Signal norms are over time and channels together: the Euclidean norm of all samples for "hinf", the largest
    absolute entry for "l1". Both hold on every horizon, since a causal system's output up to T depends on its
    input up to T only; the initial state is the same for both signals.

    Parameters
    ----------
    sys : StateSpace
        A stable system, in discrete (``dt`` True or > 0) or continuous time (``dt`` 0).
    norm : {"hinf", "l1", "h2"}
        Which gain.

    Returns
    -------
    LipschitzBound or float
        A bound certified from above, for "hinf" by the bounded-real lemma and for "l1" with every neglected tail
        and round-off counted. For "h2" a plain float: it is the output's standard deviation under white noise,
        or its energy under an impulse, and smaller than the l2 gain for some systems, so it bounds no
        sensitivity. It is infinite for a continuous-time system with feedthrough.

    Raises
    ------
    control.ControlArgument
        If `sys` is not a ``StateSpace`` or its ``dt`` is None.
    ValueError
        If the system is not stable, or the norm is not known.
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
    An estimate from slycot starts the H-infinity certificate where it is installed, an own level-set iteration on the
    Hamiltonian otherwise. Boyd and Balakrishnan (1990); Bruinsma and Steinbuch (1990); Zhou, Doyle and Glover
    (1996); for the sensitivity of filters, Le Ny and Pappas (2014).
    """
    norm = one_of(norm, "norm", ("hinf", "l1", "h2"))
    matrices, discrete = _matrices(sys)
    _require_stable(matrices[0], discrete)
    if norm == "h2":
        return _energy(*matrices, discrete=discrete)
    continuous = "" if discrete else ", continuous time"
    if norm == "hinf":
        return LipschitzBound(
            _hinf(matrices, sys.dt, discrete), p=2, q=2, method="hinf" + continuous
        )
    A, B, C, D = matrices
    if not (len(A) and B.any() and C.any()):
        value = float(induced_norm(D, math.inf, math.inf))
    else:
        value = peak_bound(A, B, C, D, discrete=discrete)
    return LipschitzBound(value, p=math.inf, q=math.inf, method="l1" + continuous)


def _matrices(sys: Any) -> tuple[tuple[NDArray, ...], bool]:
    if not isinstance(sys, ct.StateSpace):
        raise ct.ControlArgument(
            f"sys: expected a StateSpace, got {type(sys).__name__}; convert a transfer function with ct.ss, "
            "linearize a nonlinear system"
        )
    if sys.dt is None:
        raise ct.ControlArgument(
            "sys: expected dt = 0, True or a sampling time, got dt=None; set it in ct.ss"
        )
    matrices = tuple(
        np.asarray(matrix, float) for matrix in (sys.A, sys.B, sys.C, sys.D)
    )
    if not all(np.isfinite(matrix).all() for matrix in matrices):
        raise ValueError("sys: expected finite matrices, got NaN or infinity")
    return _balanced(*matrices), sys.isdtime(strict=True)


def _balanced(A: NDArray, B: NDArray, C: NDArray, D: NDArray) -> tuple[NDArray, ...]:
    """The same system with its states scaled by powers of two, which is exact, so that units do not matter."""
    if not len(A):
        return A, B, C, D
    scale = scipy.linalg.matrix_balance(A, permute=False, separate=True)[1][0]
    column = scale[:, None]
    scaled = A * scale / column, B / column, C * scale
    undone = scaled[0] * column / scale, scaled[1] * column, scaled[2] / scale
    exact = all(
        map(np.array_equal, undone, (A, B, C))
    )  # unless entries underflowed or overflowed
    return (*scaled, D) if exact else (A, B, C, D)


def _require_stable(A: NDArray, discrete: bool) -> None:
    if not len(A):
        return
    poles = np.linalg.eigvals(A)
    worst = np.abs(poles).max() if discrete else poles.real.max()
    if worst >= (1 if discrete else 0):
        what, below = ("spectral radius", 1) if discrete else ("spectral abscissa", 0)
        raise ValueError(
            f"sys: expected a stable system ({what} below {below}), got {worst:.6g}; its gain is infinite: "
            "close a stabilising loop first"
        )


def _hinf(matrices: tuple[NDArray, ...], dt: float | bool, discrete: bool) -> float:
    A, B, C, D = matrices
    if not (len(A) and B.any() and C.any()):
        return float(induced_norm(D, 2, 2))
    estimate = None
    if ct.slycot_check():
        with contextlib.suppress(
            ArithmeticError
        ):  # slycot gave up: the own iteration takes its place
            estimate = float(ct.linfnorm(ct.ss(*matrices, dt))[0])
    return hinf_bound(A, B, C, D, discrete=discrete, estimate=estimate)


def _energy(A: NDArray, B: NDArray, C: NDArray, D: NDArray, *, discrete: bool) -> float:
    """sqrt(tr(C X C' + DD')) with the controllability Gramian X; without DD' in continuous time, where it is zero."""
    if not discrete and D.any():
        return math.inf
    if not len(A):
        return float(np.linalg.norm(D))
    solve = (
        scipy.linalg.solve_discrete_lyapunov
        if discrete
        else scipy.linalg.solve_continuous_lyapunov
    )
    gramian = solve(A, B @ B.T if discrete else -B @ B.T)
    return math.sqrt(max(np.trace(C @ gramian @ C.T) + np.sum(D**2), 0.0))
