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
from .linear import (
    LinearSystem,
    frequency_response,
    orbit,
    output_variances,
    poles_of,
    spectral_radius,
    to_states,
)
from .plant import check_discrete

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
        energy = (
            float(output_variances(_balanced(system)).sum()) if system.order else 0.0
        )
        return math.sqrt(max(energy, 0.0))
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
    """Whether a state leads from an input to an output."""
    return bool(system.order and system.B.any() and system.C.any())


def _balanced(system: LinearSystem) -> LinearSystem:
    """The same system with its states scaled by powers of two, so units do not matter.

    It is returned as it was if entries underflow or overflow.
    """
    A, B, C, D = system.matrices
    scale = scipy.linalg.matrix_balance(A, permute=False, separate=True)[1][0]
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
    continuous = _cayley(system)
    level = hinf_estimate(continuous)
    states = hinf_estimate(to_states(continuous))
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
            if P is not None and _proven(system, P, bound):
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
    poles = poles_of(system)
    sizes = np.abs(poles)
    frequencies = np.concatenate([[0.0], sizes, np.abs(poles.imag)])
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
    responses = frequency_response(system, 1j * frequencies)
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


def _proven(system: LinearSystem, storage: NDArray, bound: float) -> bool:
    """Whether the bounded-real inequality is proven for the float matrices as given."""
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
        states = orbit(system, X, BLOCK)
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
