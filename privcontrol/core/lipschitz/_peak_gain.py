"""The peak-to-peak gain of a stable state-space model, certified from above: the impulse response is summed in floats,
and what floats and a finite horizon leave out is bounded by a Lyapunov function that ball arithmetic has proven."""

import warnings
from dataclasses import dataclass

import numpy as np
import scipy.linalg
from flint import arb, arb_mat

from privcontrol.core._balls import (
    ball_matrix,
    is_positive_definite,
    midpoints,
    upper_float,
    working_bits,
)
from privcontrol.core._linalg import EPS
from privcontrol.core.errors import UncertifiableError

BLOCK, BLOCKS = (
    512,
    1000,
)  # samples per block; after the last, the tail bound stands for the rest
TAIL = 1e-11  # relative size of the tail at which the sum stops
SPLIT, DEPTH = (
    8,
    3,
)  # an interval in which the response may change its sign is split so often
ORDER = 12  # of the Taylor polynomial that bounds the second derivative over one step


def peak_bound(A, B, C, D, *, discrete):
    """A proven upper bound of the inf -> inf gain: the largest row sum of |D| + sum |C A^k B|, or of the integral.

    With ||x||_P decaying at the rate r of ``_Decay``, an unknown state perturbation d, be it round-off or what is left
    at the horizon, adds at most ||c||_{1/P} ||d||_P / r to the absolute sum of c's output.
    """
    decay = _decay(A, C, discrete)
    advance = _Samples(A, C, decay) if discrete else _Intervals(A, C, decay)
    total, jumps, X, steps = np.abs(D), np.zeros(B.shape[1]), B, 0
    for _ in range(BLOCKS):
        states = np.empty((len(A), BLOCK, B.shape[1]))
        for k in range(BLOCK):
            states[:, k] = X
            X = advance.matrix @ X
        steps += BLOCK
        columns = states.reshape(len(A), -1)
        total = total + advance.pieces(columns).reshape(len(C), BLOCK, -1).sum(axis=1)
        jumps += decay.norm(advance.errors(columns)).reshape(BLOCK, -1).sum(axis=0)
        tail = decay.outputs[:, None] * (decay.norm(X) + jumps) / decay.rate
        if (decay.norm(X) * decay.outputs.max() / decay.rate).max() <= max(
            TAIL * total.max(), 1e-100
        ):
            break
    growth = 1 + 4 * (steps + len(A)) * EPS  # the sums themselves
    return float(np.max((total + tail * (1 + 1e-9)).sum(axis=1)) * growth)


@dataclass(frozen=True)
class _Decay:
    """||x_t||_P shrinks by 1 - rate per sample, or like exp(-rate t); `outputs` is ||c_i||_{1/P} of each output."""

    P: np.ndarray
    rate: float
    outputs: np.ndarray

    def norm(self, X):
        """At least the P-norm of every column of X, whatever its signs."""
        X = np.abs(X) + 1e-140  # more than what underflows
        return np.sqrt(np.sum(X * (np.abs(self.P) @ X), axis=0))


def _decay(A, C, discrete):
    eye = np.eye(len(A))
    poles = np.linalg.eigvals(A)
    margin = 1 - np.abs(poles).max() if discrete else -poles.real.max()
    with working_bits():
        for share in (0.5, 0.1, 0.01):
            rate = share * margin
            P = _lyapunov(A / (1 - rate) if discrete else A + rate * eye, discrete)
            P = (P + P.T) / 2
            if np.isfinite(P).all() and _proven(A, P, rate, discrete):
                return _Decay(P, rate, _dual_norms(ball_matrix(C), P))
    raise UncertifiableError(
        "the decay of this model cannot be certified in double precision; its poles are too close to the boundary of "
        "stability or its states are badly scaled: rescale the states or use a minimal realisation"
    )


def _lyapunov(A, discrete):
    """P with A'PA - P = -I, or A'P + PA = -I; what it is worth is proven later, so warnings say nothing."""
    with warnings.catch_warnings(action="ignore"):
        if discrete:
            return scipy.linalg.solve_discrete_lyapunov(
                A.T, np.eye(len(A)), method="bilinear"
            )
        return scipy.linalg.solve_continuous_lyapunov(A.T, -np.eye(len(A)))


def _proven(A, P, rate, discrete):
    A, P, rate = ball_matrix(A), ball_matrix(P), arb(rate)
    if discrete:
        shrunk = P * (1 - rate) ** 2 - A.transpose() * P * A
    else:
        shrunk = -(P * A + A.transpose() * P) - P * (2 * rate)
    return is_positive_definite(P) and is_positive_definite(shrunk)


def _dual_norms(rows, P):
    """sqrt(c_i P^{-1} c_i') of every row of a ball matrix, rounded up."""
    gram = rows * ball_matrix(P).solve(rows.transpose())
    return np.array([upper_float(abs(gram[i, i]).sqrt()) for i in range(rows.nrows())])


class _Samples:
    """Discrete time: |C x| at every sample."""

    def __init__(self, A, C, decay):
        self.matrix, self.C = A, C

    def errors(self, states):
        return (len(self.matrix) + 2) * EPS * (np.abs(self.matrix) @ np.abs(states))

    def pieces(self, states):
        return np.abs(self.C @ states) + (len(self.matrix) + 2) * EPS * (
            np.abs(self.C) @ np.abs(states)
        )


class _Intervals:
    """Continuous time: the integral of |C exp(A s) x| over one step h, exact where the sign cannot change.

    The response stays within h^2/8 max|g''| of its chord; where that cannot exclude a zero, the interval is split and
    at last the chord's integral plus that bound is taken.
    """

    def __init__(self, A, C, decay, step=None, depth=DEPTH):
        self.C, self.decay, self.roundoff = C, decay, 4 * (len(A) + 2) * EPS
        self.step = (
            2.0 ** np.floor(np.log2(0.5 / np.abs(np.linalg.eigvals(A)).max()))
            if step is None
            else step
        )
        self.matrix, self.matrix_radius, self.integral, self.integral_radius = (
            _exponential(A, self.step)
        )
        self.taylor, self.taylor_radius, self.remainder = _second_derivative(
            A, C, decay.P, self.step
        )
        self.finer = (
            _Intervals(A, C, decay, self.step / SPLIT, depth - 1) if depth else None
        )

    def errors(self, states):
        size = np.abs(states)
        return self.roundoff * (np.abs(self.matrix) @ size) + self.matrix_radius @ size

    def pieces(self, states):
        """Upper bounds of the integrals, (p, q) for the states (n, q) at the beginning of the step."""
        size, C = np.abs(states), np.abs(self.C)
        first, last = self.C @ states, self.C @ (self.matrix @ states)
        slack = (
            self.roundoff * (C @ (size + np.abs(self.matrix) @ size))
            + C @ self.matrix_radius @ size
        )
        bend = self._bend(states, size)
        ends = np.abs(first) + np.abs(last)
        chord = self.step * (ends / 2 + 2 / 3 * bend + slack)
        clear = (first * last > 0) & (
            np.minimum(np.abs(first), np.abs(last)) > bend + slack
        )
        whole = (
            np.abs(self.C @ (self.integral @ states)) + C @ self.integral_radius @ size
        )
        whole += self.roundoff * (C @ np.abs(self.integral) @ size)
        result = np.where(clear, np.minimum(whole, chord), chord)
        if self.finer is not None:
            worth = (
                1e-10
                * self.step
                * self.decay.outputs[:, None]
                * self.decay.norm(states)
            )
            self._refine(states, ~clear & (chord > worth), result)
        return result

    def _bend(self, states, size):
        """h^2/8 times a bound of |g''| over the step: a Taylor polynomial with its remainder in the P-norm."""
        terms = np.abs(self.taylor @ states).reshape(ORDER, len(self.C), -1).sum(axis=0)
        rest = self.taylor_radius @ size + self.remainder[:, None] * self.decay.norm(
            states
        )
        return self.step**2 / 8 * (terms + rest) * (1 + 1e-9)

    def _refine(self, states, unclear, result):
        """Replace the pieces of all columns with an unclear output by the sum of finer ones."""
        columns = np.flatnonzero(unclear.any(axis=0))
        if not len(columns):
            return
        X, drift, starts, drifts = states[:, columns], np.zeros(len(columns)), [], []
        for _ in range(SPLIT):
            starts.append(X)
            drifts.append(drift)
            drift = drift + self.decay.norm(self.finer.errors(X))
            X = self.finer.matrix @ X
        pieces = self.finer.pieces(np.hstack(starts)) + self.step * self.decay.outputs[
            :, None
        ] * np.hstack(drifts)
        pieces = pieces.reshape(len(self.C), SPLIT, -1).sum(axis=1)
        result[:, columns] = np.minimum(pieces, result[:, columns])


def _exponential(A, step):
    """exp(A h) and its integral over [0, h]: midpoints and radii."""
    n = len(A)
    with working_bits():
        block = ball_matrix(np.block([[A, np.eye(n)], [np.zeros((n, 2 * n))]])) * arb(
            step
        )
        rows = block.exp().tolist()
        parts = [
            arb_mat([row[:n] for row in rows[:n]]),
            arb_mat([row[n:] for row in rows[:n]]),
        ]
        return [half for part in parts for half in _halves(part)]


def _second_derivative(A, C, P, step):
    """C A^(2+l) h^l / l! for l < ORDER, stacked; the sum of their errors; the norms of the term for l = ORDER."""
    with working_bits():
        term, middles, radii = ball_matrix(C) * ball_matrix(A) * ball_matrix(A), [], 0.0
        for l in range(ORDER):
            middle, radius = _halves(term)
            middles.append(middle)
            radii = radii + radius + 4 * (len(A) + 2) * EPS * np.abs(middle)
            term = term * ball_matrix(A) * (arb(step) / (l + 1))
        return np.vstack(middles), radii, _dual_norms(term, P)


def _halves(matrix):
    """Midpoints and radii of a ball matrix, with the rounding of the midpoints in the radii."""
    middle = midpoints(matrix)
    radius = [
        upper_float(abs(entry)) for entry in (matrix - ball_matrix(middle)).entries()
    ]
    return middle, np.reshape(radius, middle.shape)
