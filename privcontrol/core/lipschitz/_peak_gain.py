"""The peak-to-peak gain of a stable discrete-time model, certified from above.

The impulse response is summed in floats. What floats and a finite horizon leave out is
bounded by a Lyapunov function that ball arithmetic has proven.
"""

import warnings
from dataclasses import dataclass

import numpy as np
import scipy.linalg
from flint import arb
from numpy.typing import NDArray

from privcontrol.core._balls import (
    ball_matrix,
    is_positive_definite,
    upper_float,
    working_bits,
)
from privcontrol.core._linalg import EPS
from privcontrol.core.errors import UncertifiableError

BLOCK = 512  # samples
BLOCKS = 1000  # after the last, the tail bound stands for the rest
TAIL = 1e-11  # relative size of the tail at which the sum stops


def peak_bound(A: NDArray, B: NDArray, C: NDArray, D: NDArray) -> float:
    """A proven upper bound of the inf -> inf gain.

    It is the largest row sum of |D| + sum |C A^k B|. With ||x||_P decaying at the rate r
    of `_Decay`, an unknown state perturbation d, be it round-off or what is left at the
    horizon, adds at most ||c||_{1/P} ||d||_P / r to the absolute sum of c's output.
    """
    decay = _decay(A, C)
    roundoff = (len(A) + 2) * EPS
    total = np.abs(D)
    jumps = np.zeros(B.shape[1])
    X = B
    steps = 0
    for _ in range(BLOCKS):
        columns, X = _block(A, X)
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


def _block(A: NDArray, X: NDArray) -> tuple[NDArray, NDArray]:
    """The columns of X, A X, A^2 X, .. for one block, and what follows them."""
    states = np.empty((len(A), BLOCK, X.shape[1]))
    for k in range(BLOCK):
        states[:, k] = X
        X = A @ X
    return states.reshape(len(A), -1), X


@dataclass(frozen=True)
class _Decay:
    """A norm ||x||_P that shrinks by 1 - rate per sample.

    `outputs` is ||c_i||_{1/P} of each output.
    """

    P: NDArray
    rate: float
    outputs: NDArray

    def norm(self, X: NDArray) -> NDArray:
        """At least the P-norm of every column of X, whatever its signs."""
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
