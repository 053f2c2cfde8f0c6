"""Gains of linear systems as sensitivities, from an input signal to an output signal.

A gain belongs to a pair of signal norms. One that is not certified is not called a
Lipschitz constant. Level sets of the Hamiltonian estimate the H-infinity norm, a Riccati
solution proposes a storage matrix, and ball arithmetic proves the bounded-real inequality
with it. The impulse response is summed in floats; what floats and a finite horizon leave
out is bounded by a Lyapunov function that ball arithmetic has proven.
"""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass
from typing import Any

import control as ct
import numpy as np
import scipy.linalg
from flint import arb
from numpy.typing import NDArray

from ..core._balls import (
    ball_matrix,
    block_balls,
    identity_balls,
    is_positive_definite,
    upper_float,
    working_bits,
)
from ..core._linalg import EPS, one_of, real_array
from ..core.errors import UncertifiableError
from ..core.lipschitz import LipschitzBound, induced_norm
from .linear import LinearSystem

#: Relative; the first that can be proven is taken.
MARGINS = [10.0**-k for k in range(9, 0, -1)]
LEVELS = 50
BLOCK = 512  # samples
BLOCKS = 1000  # after the last, the tail bound stands for the rest
TAIL = 1e-11  # relative size of the tail at which the sum stops


def system_gain(sys: ct.StateSpace, *, norm: str = "hinf") -> LipschitzBound | float:
    r"""Return the gain of a stable linear system from input signal to output signal.

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
    system = _balanced(_system_of(sys))
    discrete = sys.isdtime(strict=True)
    _require_stable(system.A, discrete)
    if norm == "h2":
        return _energy(system, discrete)
    method = norm
    if not discrete:
        method += ", continuous time"
    # whether a state leads from the input to the output
    is_dynamic = system.order and system.B.any() and system.C.any()
    if norm == "hinf":
        value = float(induced_norm(system.D, 2, 2))
        if is_dynamic:
            value = hinf_bound(system, discrete)
        return LipschitzBound(value, p=2, q=2, method=method)
    if not is_dynamic:
        value = float(induced_norm(system.D, math.inf, math.inf))
    elif discrete:
        value = peak_bound(system)
    else:
        raise ValueError(
            "sys: expected discrete time for norm='l1', got dt=0; sample it with "
            "sys.sample(Ts)"
        )
    return LipschitzBound(value, p=math.inf, q=math.inf, method=method)


def _system_of(sys: Any) -> LinearSystem:
    """The matrices of a StateSpace with a time base."""
    if not isinstance(sys, ct.StateSpace):
        raise ct.ControlArgument(
            f"sys: expected a StateSpace, got {type(sys).__name__}; convert a transfer "
            "function with ct.ss, linearize a nonlinear system"
        )
    if sys.dt is None:
        raise ct.ControlArgument(
            "sys: expected dt = 0, True or a sampling time, got dt=None; set it in ct.ss"
        )
    matrices = (sys.A, sys.B, sys.C, sys.D)
    return LinearSystem(*(real_array(matrix, "sys") for matrix in matrices))


def _balanced(system: LinearSystem) -> LinearSystem:
    """The same system with its states scaled by powers of two, so units do not matter.

    It is returned as it was if entries underflow or overflow.
    """
    if not system.order:
        return system
    A, B, C, D = system.matrices
    scale = scipy.linalg.matrix_balance(A, permute=False, separate=True)[1][0]
    column = scale[:, None]
    scaled = LinearSystem(A * scale / column, B / column, C * scale, D)
    back = LinearSystem(
        scaled.A * column / scale, scaled.B * column, scaled.C / scale, D
    )
    return scaled if back == system else system


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


def _energy(system: LinearSystem, discrete: bool) -> float:
    """sqrt(tr(C X C' + DD')) with the controllability Gramian X.

    It is infinite for a continuous-time system with feedthrough.
    """
    A, B, C, D = system.matrices
    if not discrete and D.any():
        return math.inf
    if discrete or not system.order:
        return math.sqrt(max(float(system.variances().sum()), 0.0))
    gramian = scipy.linalg.solve_continuous_lyapunov(A, -B @ B.T)
    return math.sqrt(max(np.trace(C @ gramian @ C.T), 0.0))


# -- the H-infinity norm --------------------------------------------------------------


def hinf_bound(system: LinearSystem, discrete: bool) -> float:
    """A proven upper bound of the l2 -> l2 gain, by the bounded-real lemma.

    For P > 0 and, in discrete time, [[P - A'PA - C'C, -(A'PB + C'D)], [., g^2 I - D'D -
    B'PB]] > 0, the system is stable and its gain is below g. A wrong estimate of the gain
    costs tightness, never validity.
    """
    continuous = _cayley(system) if discrete else system
    level = hinf_estimate(continuous)
    states = hinf_estimate(continuous.states_out)
    # a scale for gains that are zero or nearly so
    size = float(np.linalg.norm(system.B) * np.linalg.norm(system.C))
    excesses = [margin * scale for scale in (level, size) for margin in MARGINS]
    with working_bits():
        for excess in excesses:
            if excess <= 0:
                continue
            bound = level + excess
            slack = excess * (level + excess / 2) / np.square(max(states, EPS))
            P = _storage(continuous, bound, slack)
            if P is not None and _proven(system, P, bound, discrete):
                return upper_float(arb(bound))
    raise UncertifiableError(
        "the gain of this model cannot be certified in double precision; its poles are "
        "too close to the boundary of stability or its states are badly scaled: rescale "
        "the states or use a minimal realisation"
    )


def hinf_estimate(system: LinearSystem) -> float:
    """The H-infinity norm of a stable continuous-time system, from below.

    By level sets (Bruinsma and Steinbuch, 1990).
    """
    sizes = np.abs(system.poles)
    frequencies = np.concatenate([[0.0], sizes, np.abs(system.poles.imag)])
    level = max(float(np.linalg.norm(system.D, 2)), _largest(system, frequencies))
    if level == 0:  # a zero at all of these frequencies: generic ones decide
        level = _largest(system, sizes * 1.234)
    for _ in range(LEVELS):
        crossed = _crossings(system, level * (1 + 1e-11))
        middles = (crossed[1:] + crossed[:-1]) / 2
        higher = _largest(system, np.concatenate([crossed, middles]))
        if higher <= level * (1 + 1e-11):
            break
        level = higher
    return level


def _largest(system: LinearSystem, frequencies: NDArray) -> float:
    """The largest gain of a continuous-time system at some frequencies, zero without any."""
    if not frequencies.size:
        return 0.0
    responses = system.frequency_response(1j * frequencies)
    return float(np.linalg.norm(responses, 2, axis=(1, 2)).max())


def _cayley(system: LinearSystem) -> LinearSystem:
    """The continuous-time system with the same norm and storage matrices.

    By s = (z - 1)/(z + 1).
    """
    A, B, C, D = system.matrices
    eye = np.eye(system.order)
    inverse = np.linalg.inv(A + eye)
    root = np.sqrt(2)
    through = D - C @ inverse @ B
    return LinearSystem(
        inverse @ (A - eye), root * inverse @ B, root * C @ inverse, through
    )


def _crossings(system: LinearSystem, level: float) -> NDArray:
    """Frequencies where a singular value may equal `level`.

    They are the nearly imaginary eigenvalues of the Hamiltonian; too many cost samples
    only.
    """
    A, B, C, D = system.matrices
    square = np.square(level) * np.eye(D.shape[1])
    R = square - D.T @ D
    cross = D.T @ C
    try:
        from_state = np.linalg.solve(R, cross)
        from_costate = np.linalg.solve(R, B.T)
        F = A + B @ from_state
        upper = B @ from_costate
        lower = -C.T @ C - cross.T @ from_state
        hamiltonian = np.block([[F, upper], [lower, -F.T]])
        eigenvalues = np.linalg.eigvals(hamiltonian)
    except np.linalg.LinAlgError:
        return np.zeros(0)
    near = np.abs(eigenvalues.real) <= 1e-6 * np.abs(eigenvalues)
    frequencies = np.abs(eigenvalues[near].imag)
    return np.unique(frequencies)


def _storage(system: LinearSystem, bound: float, slack: float) -> NDArray | None:
    """The stabilising Riccati solution with C'C + slack I in place of C'C, if any."""
    A, B, C, D = system.matrices
    state_cost = C.T @ C + slack * np.eye(system.order)
    input_cost = D.T @ D - np.square(bound) * np.eye(D.shape[1])
    try:
        P = scipy.linalg.solve_continuous_are(A, B, state_cost, input_cost, s=C.T @ D)
    except (np.linalg.LinAlgError, ValueError):
        return None
    if not np.isfinite(P).all():
        return None
    return (P + P.T) / 2


def _proven(
    system: LinearSystem, storage: NDArray, bound: float, discrete: bool
) -> bool:
    """Whether the bounded-real inequality is proven for the float matrices as given."""
    A, B, C, D = system.in_balls().matrices
    P = ball_matrix(storage)
    cross = P * B
    state_cost = C.transpose() * C
    mixed_cost = C.transpose() * D
    input_cost = D.transpose() * D
    if discrete:
        back = A.transpose()
        top = P - back * P * A - state_cost
        side = back * cross + mixed_cost
        input_cost = input_cost + B.transpose() * cross
    else:
        state = P * A
        top = -state - state.transpose() - state_cost
        side = cross + mixed_cost
    square = identity_balls(D.ncols()) * arb(bound) ** 2
    corner = square - input_cost
    inequality = block_balls([[top, -side], [-side.transpose(), corner]])
    return is_positive_definite(P) and is_positive_definite(inequality)


# -- the peak-to-peak gain ------------------------------------------------------------


def peak_bound(system: LinearSystem) -> float:
    """A proven upper bound of the inf -> inf gain.

    It is the largest row sum of |D| + sum |C A^k B|. With ||x||_P decaying at the rate r
    of `_Decay`, an unknown state perturbation d, be it round-off or what is left at the
    horizon, adds at most ||c||_{1/P} ||d||_P / r to the absolute sum of c's output.
    """
    A, B, C, D = system.matrices
    decay = _decay(A, C)
    roundoff = (len(A) + 2) * EPS
    total = np.abs(D)
    jumps = np.zeros(B.shape[1])
    X = B
    steps = 0
    for _ in range(BLOCKS):
        states = system.orbit(X, BLOCK)
        X = A @ states[-1]
        columns = states.swapaxes(0, 1).reshape(len(A), -1)
        steps += BLOCK
        sizes = roundoff * np.abs(columns)
        pieces = np.abs(C @ columns) + np.abs(C) @ sizes
        total = total + pieces.reshape(len(C), BLOCK, -1).sum(axis=1)
        errors = decay.norm(np.abs(A) @ sizes)
        jumps += errors.reshape(BLOCK, -1).sum(axis=0)
        left = decay.norm(X)
        tail = decay.outputs[:, None] * left / decay.rate
        if tail.max() <= max(TAIL * total.max(), 1e-100):
            break
    lost = left + jumps
    tail = decay.outputs[:, None] * lost / decay.rate
    growth = 1 + 4 * (steps + len(A)) * EPS  # the sums themselves
    rows = (total + tail * (1 + 1e-9)).sum(axis=1)
    return float(np.max(rows) * growth)


@dataclass(frozen=True)
class _Decay:
    """A norm ||x||_P that shrinks by 1 - rate per sample.

    `outputs` is ||c_i||_{1/P} of each output.
    """

    P: NDArray
    rate: float
    outputs: NDArray

    def norm(self, X: NDArray) -> NDArray:
        """At least the P-norm of every column of X, for any signs."""
        X = np.abs(X) + 1e-140  # more than what underflows
        return np.sqrt(np.sum(X * (np.abs(self.P) @ X), axis=0))


def _decay(A: NDArray, C: NDArray) -> _Decay:
    """Half of the slowest mode's decay, proven by a Lyapunov equation with the identity."""
    rate = (1 - np.abs(np.linalg.eigvals(A)).max()) / 2
    with warnings.catch_warnings(action="ignore"):  # what P is worth is proven below
        P = scipy.linalg.solve_discrete_lyapunov(
            A.T / (1 - rate), np.eye(len(A)), "bilinear"
        )
    P = (P + P.T) / 2
    with working_bits():
        if np.isfinite(P).all():
            exact = ball_matrix(A)
            norm = ball_matrix(P)
            shrunk = norm * (1 - arb(rate)) ** 2 - exact.transpose() * norm * exact
            if is_positive_definite(norm) and is_positive_definite(shrunk):
                rows = ball_matrix(C)
                gram = rows * norm.solve(rows.transpose())
                squares = [abs(gram[i, i]) for i in range(len(C))]
                outputs = [upper_float(square.sqrt()) for square in squares]
                return _Decay(P, rate, np.array(outputs))
    raise UncertifiableError(
        "the decay of this model cannot be certified in double precision; its poles are "
        "too close to the boundary of stability or its states are badly scaled: rescale "
        "the states or use a minimal realisation"
    )
