"""The H-infinity norm of a stable state-space model, certified from above: level sets of the Hamiltonian estimate it,
a Riccati solution proposes a storage matrix, and ball arithmetic proves the bounded-real inequality with it."""

import numpy as np
import scipy.linalg
from flint import arb, arb_mat

from privcontrol.core._balls import (
    ball_matrix,
    is_positive_definite,
    upper_float,
    working_bits,
)
from privcontrol.core._linalg import EPS
from privcontrol.core.errors import UncertifiableError

MARGINS = [
    10.0**-k for k in range(9, 0, -1)
]  # relative; the first that can be proven is taken
LEVELS = 50


def hinf_bound(A, B, C, D, *, discrete, estimate=None):
    """A proven upper bound of the l2 -> l2 gain, by the bounded-real lemma.

    For P > 0 and, in discrete time,
    [[P - A'PA - C'C, -(A'PB + C'D)], [., g^2 I - D'D - B'PB]] > 0, the model is stable and its gain is below g.
    `estimate` replaces the own estimate of the norm; a wrong one costs tightness, never validity.
    """
    continuous = _cayley(A, B, C, D) if discrete else (A, B, C, D)
    level = hinf_estimate(*continuous) if estimate is None else estimate
    states = hinf_estimate(*continuous[:2], np.eye(len(A)), np.zeros(B.shape))
    size = np.linalg.norm(B) * np.linalg.norm(
        C
    )  # a scale for gains that are zero or nearly so
    with working_bits():
        for excess in (
            margin * scale for scale in (level, size) if scale > 0 for margin in MARGINS
        ):
            bound = level + excess
            storage = _storage(
                *continuous,
                bound,
                excess * (level + excess / 2) / np.square(max(states, EPS)),
            )
            if storage is not None and _proven(A, B, C, D, storage, bound, discrete):
                return upper_float(arb(bound))
    raise UncertifiableError(
        "the gain of this model cannot be certified in double precision; its poles are too close to the boundary of "
        "stability or its states are badly scaled: rescale the states or use a minimal realisation"
    )


def hinf_estimate(A, B, C, D):
    """The H-infinity norm of a stable continuous-time model, from below: level sets (Bruinsma and Steinbuch, 1990)."""
    poles = np.linalg.eigvals(A)
    level = max(
        _gain(A, B, C, D, w) for w in (0.0, np.inf, *np.abs(poles), *np.abs(poles.imag))
    )
    if level == 0:  # a zero at all of these frequencies: generic ones decide
        level = max(_gain(A, B, C, D, w) for w in np.abs(poles) * 1.234)
    for _ in range(LEVELS):
        frequencies = _crossings(A, B, C, D, level * (1 + 1e-11))
        middles = (frequencies[1:] + frequencies[:-1]) / 2
        higher = max(
            (_gain(A, B, C, D, w) for w in (*frequencies, *middles)), default=level
        )
        if higher <= level * (1 + 1e-11):
            break
        level = higher
    return level


def _cayley(A, B, C, D):
    """The continuous-time model with the same norm, s = (z - 1)/(z + 1), and the same storage matrices."""
    inverse = np.linalg.inv(A + np.eye(len(A)))
    root = np.sqrt(2)
    return (
        inverse @ (A - np.eye(len(A))),
        root * inverse @ B,
        root * C @ inverse,
        D - C @ inverse @ B,
    )


def _gain(A, B, C, D, frequency):
    if np.isinf(frequency):
        return np.linalg.norm(D, 2)
    return np.linalg.norm(
        C @ np.linalg.solve(1j * frequency * np.eye(len(A)) - A, B) + D, 2
    )


def _crossings(A, B, C, D, level):
    """Frequencies where a singular value may equal `level`: the nearly imaginary eigenvalues of the Hamiltonian."""
    R = np.square(level) * np.eye(D.shape[1]) - D.T @ D
    try:
        gain = np.linalg.solve(R, np.hstack([D.T @ C, B.T]))
        F, G = A + B @ gain[:, : len(A)], B @ gain[:, len(A) :]
        lower = -C.T @ C - C.T @ D @ gain[:, : len(A)]
        eigenvalues = np.linalg.eigvals(np.block([[F, G], [lower, -F.T]]))
    except np.linalg.LinAlgError:
        return np.zeros(0)
    near = np.abs(eigenvalues.real) <= 1e-6 * np.abs(
        eigenvalues
    )  # too many only cost samples
    return np.unique(np.abs(eigenvalues[near].imag))


def _storage(A, B, C, D, bound, slack):
    """The stabilising Riccati solution with C'C + slack I in place of C'C; None where there is none."""
    try:
        P = scipy.linalg.solve_continuous_are(
            A,
            B,
            C.T @ C + slack * np.eye(len(A)),
            D.T @ D - np.square(bound) * np.eye(D.shape[1]),
            s=C.T @ D,
        )
    except (np.linalg.LinAlgError, ValueError):
        return None
    return (P + P.T) / 2 if np.isfinite(P).all() else None


def _proven(A, B, C, D, P, bound, discrete):
    """Whether the bounded-real inequality is proven for the float matrices as given."""
    A, B, C, D, P = map(ball_matrix, (A, B, C, D, P))
    state, cross = P * A, P * B
    if discrete:
        top = P - A.transpose() * state - C.transpose() * C
        side = A.transpose() * cross + C.transpose() * D
        corner = D.transpose() * D + B.transpose() * cross
    else:
        top = -state - state.transpose() - C.transpose() * C
        side = cross + C.transpose() * D
        corner = D.transpose() * D
    square = arb(bound) ** 2
    rows = [a + b for a, b in zip(top.tolist(), (-side).tolist())]
    for i, (a, b) in enumerate(zip((-side.transpose()).tolist(), (-corner).tolist())):
        b[i] += square
        rows.append(a + b)
    return is_positive_definite(P) and is_positive_definite(arb_mat(rows))
