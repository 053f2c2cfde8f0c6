"""The H-infinity norm of a stable state-space model, certified from above.

Level sets of the Hamiltonian estimate it, a Riccati solution proposes a storage matrix,
and ball arithmetic proves the bounded-real inequality with it.
"""

import numpy as np
import scipy.linalg
from flint import arb
from numpy.typing import NDArray

from privcontrol.core._balls import (
    ball_matrix,
    block_balls,
    identity_balls,
    is_positive_definite,
    upper_float,
    working_bits,
)
from privcontrol.core._linalg import EPS
from privcontrol.core.errors import UncertifiableError

#: Relative; the first that can be proven is taken.
MARGINS = [10.0**-k for k in range(9, 0, -1)]
LEVELS = 50

Model = tuple[NDArray, NDArray, NDArray, NDArray]


def hinf_bound(
    A: NDArray, B: NDArray, C: NDArray, D: NDArray, *, discrete: bool
) -> float:
    """A proven upper bound of the l2 -> l2 gain, by the bounded-real lemma.

    For P > 0 and, in discrete time, [[P - A'PA - C'C, -(A'PB + C'D)], [., g^2 I - D'D -
    B'PB]] > 0, the model is stable and its gain is below g. A wrong estimate of the gain
    costs tightness, never validity.
    """
    model = (A, B, C, D)
    continuous = _cayley(*model) if discrete else model
    level = hinf_estimate(*continuous)
    states = hinf_estimate(*continuous[:2], np.eye(len(A)), np.zeros(B.shape))
    # a scale for gains that are zero or nearly so
    size = float(np.linalg.norm(B) * np.linalg.norm(C))
    excesses = [margin * scale for scale in (level, size) for margin in MARGINS]
    with working_bits():
        for excess in excesses:
            if excess <= 0:
                continue
            bound = level + excess
            slack = excess * (level + excess / 2) / np.square(max(states, EPS))
            P = _storage(*continuous, bound, slack)
            if P is not None and _proven(model, P, bound, discrete):
                return upper_float(arb(bound))
    raise UncertifiableError(
        "the gain of this model cannot be certified in double precision; its poles are "
        "too close to the boundary of stability or its states are badly scaled: rescale "
        "the states or use a minimal realisation"
    )


def hinf_estimate(A: NDArray, B: NDArray, C: NDArray, D: NDArray) -> float:
    """The H-infinity norm of a stable continuous-time model, from below.

    By level sets (Bruinsma and Steinbuch, 1990).
    """
    model = (A, B, C, D)
    poles = np.linalg.eigvals(A)
    frequencies = [0.0, np.inf, *np.abs(poles), *np.abs(poles.imag)]
    level = max(_gain(*model, w) for w in frequencies)
    if level == 0:  # a zero at all of these frequencies: generic ones decide
        level = max(_gain(*model, w) for w in np.abs(poles) * 1.234)
    for _ in range(LEVELS):
        crossed = _crossings(*model, level * (1 + 1e-11))
        middles = (crossed[1:] + crossed[:-1]) / 2
        gains = [_gain(*model, w) for w in (*crossed, *middles)]
        higher = max(gains, default=level)
        if higher <= level * (1 + 1e-11):
            break
        level = higher
    return level


def _cayley(A: NDArray, B: NDArray, C: NDArray, D: NDArray) -> Model:
    """The continuous-time model with the same norm and storage matrices.

    By s = (z - 1)/(z + 1).
    """
    eye = np.eye(len(A))
    inverse = np.linalg.inv(A + eye)
    root = np.sqrt(2)
    state = inverse @ (A - eye)
    entry = root * inverse @ B
    output = root * C @ inverse
    through = D - C @ inverse @ B
    return state, entry, output, through


def _gain(A: NDArray, B: NDArray, C: NDArray, D: NDArray, frequency: float) -> float:
    response = D
    if not np.isinf(frequency):
        shifted = 1j * frequency * np.eye(len(A)) - A
        resolvent = np.linalg.solve(shifted, B)
        response = C @ resolvent + D
    return float(np.linalg.norm(response, 2))


def _crossings(A: NDArray, B: NDArray, C: NDArray, D: NDArray, level: float) -> NDArray:
    """Frequencies where a singular value may equal `level`.

    They are the nearly imaginary eigenvalues of the Hamiltonian; too many cost samples
    only.
    """
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


def _storage(
    A: NDArray, B: NDArray, C: NDArray, D: NDArray, bound: float, slack: float
) -> NDArray | None:
    """The stabilising Riccati solution with C'C + slack I in place of C'C, if any."""
    state_cost = C.T @ C + slack * np.eye(len(A))
    input_cost = D.T @ D - np.square(bound) * np.eye(D.shape[1])
    try:
        P = scipy.linalg.solve_continuous_are(A, B, state_cost, input_cost, s=C.T @ D)
    except (np.linalg.LinAlgError, ValueError):
        return None
    if not np.isfinite(P).all():
        return None
    return (P + P.T) / 2


def _proven(model: Model, storage: NDArray, bound: float, discrete: bool) -> bool:
    """Whether the bounded-real inequality is proven for the float matrices as given."""
    A, B, C, D, P = (ball_matrix(matrix) for matrix in (*model, storage))
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
