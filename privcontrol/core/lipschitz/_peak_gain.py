"""The peak-to-peak gain of a stable state-space model, certified from above.

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
    BallMatrix,
    ball_matrix,
    enclosure,
    is_positive_definite,
    submatrix,
    upper_float,
    working_bits,
)
from privcontrol.core._linalg import EPS
from privcontrol.core.errors import UncertifiableError

BLOCK = 512  # samples
BLOCKS = 1000  # after the last, the tail bound stands for the rest
TAIL = 1e-11  # relative size of the tail at which the sum stops
ORDER = 6  # of the Taylor polynomial that bounds the second derivative over one step
STEP = 1 / 16  # of continuous time, times the size of the fastest pole


def peak_bound(
    A: NDArray, B: NDArray, C: NDArray, D: NDArray, *, discrete: bool
) -> float:
    """A proven upper bound of the inf -> inf gain.

    It is the largest row sum of |D| + sum |C A^k B|, or of the integral. With ||x||_P
    decaying at the rate r of `_Decay`, an unknown state perturbation d, be it round-off
    or what is left at the horizon, adds at most ||c||_{1/P} ||d||_P / r to the absolute
    sum of c's output.
    """
    decay = _decay(A, C, discrete)
    kind = _Samples if discrete else _Intervals
    advance = kind(A, C, decay)
    total = np.abs(D)
    jumps = np.zeros(B.shape[1])
    X = B
    steps = 0
    for _ in range(BLOCKS):
        states = np.empty((len(A), BLOCK, B.shape[1]))
        for k in range(BLOCK):
            states[:, k] = X
            X = advance.matrix @ X
        steps += BLOCK
        columns = states.reshape(len(A), -1)
        pieces = advance.pieces(columns).reshape(len(C), BLOCK, -1)
        total = total + pieces.sum(axis=1)
        jumps += decay.norm(advance.errors(columns)).reshape(BLOCK, -1).sum(axis=0)
        left = decay.norm(X)
        if (left * decay.outputs.max() / decay.rate).max() <= max(
            TAIL * total.max(), 1e-100
        ):
            break
    tail = decay.outputs[:, None] * (left + jumps) / decay.rate
    growth = 1 + 4 * (steps + len(A)) * EPS  # the sums themselves
    return float(np.max((total + tail * (1 + 1e-9)).sum(axis=1)) * growth)


@dataclass(frozen=True)
class _Decay:
    """A norm ||x||_P that shrinks by 1 - rate per sample, or like exp(-rate t).

    `outputs` is ||c_i||_{1/P} of each output.
    """

    P: NDArray
    rate: float
    outputs: NDArray

    def norm(self, X: NDArray) -> NDArray:
        """At least the P-norm of every column of X, whatever its signs."""
        X = np.abs(X) + 1e-140  # more than what underflows
        return np.sqrt(np.sum(X * (np.abs(self.P) @ X), axis=0))


def _decay(A: NDArray, C: NDArray, discrete: bool) -> _Decay:
    poles = np.linalg.eigvals(A)
    margin = 1 - np.abs(poles).max() if discrete else -poles.real.max()
    with working_bits():
        for share in (0.5, 0.1, 0.01):
            rate = share * margin
            P = _lyapunov(A, rate, discrete)
            P = (P + P.T) / 2
            if np.isfinite(P).all() and _proven(A, P, rate, discrete):
                return _Decay(P, rate, _dual_norms(ball_matrix(C), P))
    raise UncertifiableError(
        "the decay of this model cannot be certified in double precision; its poles are "
        "too close to the boundary of stability or its states are badly scaled: rescale "
        "the states or use a minimal realisation"
    )


def _lyapunov(A: NDArray, rate: float, discrete: bool) -> NDArray:
    """P of the Lyapunov equation with the identity, for A enlarged by the rate.

    What it is worth is proven later, so warnings say nothing.
    """
    eye = np.eye(len(A))
    with warnings.catch_warnings(action="ignore"):
        if discrete:
            enlarged = A.T / (1 - rate)
            return scipy.linalg.solve_discrete_lyapunov(enlarged, eye, "bilinear")
        return scipy.linalg.solve_continuous_lyapunov(A.T + rate * eye, -eye)


def _proven(A: NDArray, P: NDArray, rate: float, discrete: bool) -> bool:
    """Whether ||x||_P is proven to decay at this rate."""
    exact = ball_matrix(A)
    norm = ball_matrix(P)
    if discrete:
        shrunk = norm * (1 - arb(rate)) ** 2 - exact.transpose() * norm * exact
    else:
        growth = norm * exact + exact.transpose() * norm
        shrunk = -growth - norm * (2 * arb(rate))
    return is_positive_definite(norm) and is_positive_definite(shrunk)


def _dual_norms(rows: BallMatrix, P: NDArray) -> NDArray:
    """sqrt(c_i P^{-1} c_i') of every row of a ball matrix, rounded up."""
    gram = rows * ball_matrix(P).solve(rows.transpose())
    squares = [abs(gram[i, i]) for i in range(rows.nrows())]
    return np.array([upper_float(square.sqrt()) for square in squares])


class _Samples:
    """The sum of |C x| over the samples of discrete time."""

    def __init__(self, A: NDArray, C: NDArray, decay: _Decay) -> None:
        self.matrix = A
        self.C = C
        self.roundoff = (len(A) + 2) * EPS

    def errors(self, states: NDArray) -> NDArray:
        return self.roundoff * (np.abs(self.matrix) @ np.abs(states))

    def pieces(self, states: NDArray) -> NDArray:
        slack = self.roundoff * (np.abs(self.C) @ np.abs(states))
        return np.abs(self.C @ states) + slack


class _Intervals:
    """The integral of |C exp(A s) x| over one step h of continuous time.

    The response stays within h^2/8 max|g''| of its chord. Where that excludes a zero, the
    integral is exact. Elsewhere it is that of the chord plus what that bound allows.
    """

    def __init__(self, A: NDArray, C: NDArray, decay: _Decay) -> None:
        self.C = C
        self.decay = decay
        self.roundoff = 4 * (len(A) + 2) * EPS
        fastest = np.abs(np.linalg.eigvals(A)).max()
        self.step = float(2.0 ** np.floor(np.log2(STEP / fastest)))
        advance, integral = _exponential(A, self.step)
        self.matrix, self.matrix_radius = enclosure(advance)
        self.integral, self.integral_radius = enclosure(integral)
        # terms C A^(2+l) h^l / l! of the second derivative, and the norms of the rest
        self.terms = []
        with working_bits():
            exact = ball_matrix(A)
            term = ball_matrix(C) * exact * exact
            for l in range(ORDER):
                self.terms.append(enclosure(term))
                term = term * exact * (arb(self.step) / (l + 1))
            self.remainder = _dual_norms(term, decay.P)

    def errors(self, states: NDArray) -> NDArray:
        size = np.abs(states)
        rounding = self.roundoff * (np.abs(self.matrix) @ size)
        return rounding + self.matrix_radius @ size

    def pieces(self, states: NDArray) -> NDArray:
        """Upper bounds (p, q) of the integrals for the states (n, q) at the start."""
        size = np.abs(states)
        C = np.abs(self.C)
        first = self.C @ states
        last = self.C @ (self.matrix @ states)
        slack = self.roundoff * (C @ (size + np.abs(self.matrix) @ size))
        slack = slack + C @ self.matrix_radius @ size
        bend = self._bend(states, size)
        least = np.minimum(np.abs(first), np.abs(last))
        clear = (first * last > 0) & (least > bend + slack)
        mean = (np.abs(first) + np.abs(last)) / 2
        chord = self.step * (mean + 2 / 3 * bend + slack)
        whole = np.abs(self.C @ (self.integral @ states))
        whole += C @ self.integral_radius @ size
        whole += self.roundoff * (C @ np.abs(self.integral) @ size)
        return np.where(clear, np.minimum(whole, chord), chord)

    def _bend(self, states: NDArray, size: NDArray) -> NDArray:
        """h^2/8 times a bound of |g''| over the step."""
        curvature = self.remainder[:, None] * self.decay.norm(states)
        for middle, radius in self.terms:
            rounding = radius + self.roundoff * np.abs(middle)
            curvature = curvature + np.abs(middle @ states) + rounding @ size
        return self.step**2 / 8 * curvature * (1 + 1e-9)


def _exponential(A: NDArray, step: float) -> tuple[BallMatrix, BallMatrix]:
    """exp(A h) and its integral over [0, h]."""
    n = len(A)
    with working_bits():
        augmented = np.block([[A, np.eye(n)], [np.zeros((n, 2 * n))]])
        whole = (ball_matrix(augmented) * arb(step)).exp()
        rows = range(n)
        return submatrix(whole, rows, rows), submatrix(whole, rows, range(n, 2 * n))
