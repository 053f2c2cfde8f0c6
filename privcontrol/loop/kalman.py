"""The Kalman filter of a plant and its output noise together.

    z+ = A z + B u + G e,    s = C z + F e,    z(0) = mean + R a + U b,    z = (x, xi)

with independent standard a and e, and b of which nothing is known: it is the limit of a
covariance kappa I, taken exactly. The first n states are the plant's, the others those
of the noise. Covariances are kept as roots, so what is known exactly stays exact.
"""

from __future__ import annotations

import math
from collections.abc import Container, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

from ..core._linalg import EPS
from ..designs.output_noise import OutputNoise
from ..noise.parts import NoisePart
from ..secrets.modes import unseen_mode
from ..systems.linear import LinearSystem, sum_of
from ..systems.plant import Plant
from .checks import Weights, present, root
from .controller import ObserverFeedback
from .side import LinearSide

#: A part of a sum below this many roundings of its terms is zero.
_ROUNDINGS = 64
#: Readings of a run up to which a filter of noise without a finite state is computed.
_DENSE = 6000
#: A direction that outputs see less than this, relative to its size, they do not see.
_UNSEEN = 1e-10


def is_dense(noise: OutputNoise) -> bool:
    """Whether a part of the noise has no finite state."""
    return any(part.model is None for part in noise.parts)


def noise_covariance(noise: OutputNoise) -> NDArray:
    """Covariance (T p, T p) of all samples.

    `ValueError` if it takes too much memory.
    """
    size = noise.horizon * noise.outputs
    if size > _DENSE:
        raise ValueError(
            "noise: it is correlated over the whole horizon, and a filter that knows "
            f"it takes matrices of ({size}, {size}); at most {_DENSE} are taken. "
            "Design "
            'noise of low order (horizon=np.inf), or pass estimator="observer"'
        )
    responses = noise.responses.reshape(size, -1)
    white = np.diag(np.tile(noise.total.white**2, noise.horizon))
    return noise.law.unit_variance * (responses @ responses.T + white)


def noise_model(
    noise: OutputNoise | None, outputs: int, kind: type = NoisePart
) -> tuple[LinearSystem, NDArray]:
    """Return the noise as a system of fresh entries, and the root of its state.

    Parts of another ``kind`` are left out. `ValueError` for correlated noise, which has
    no finite state.
    """
    model = LinearSystem.gain(np.zeros((outputs, 0)))
    start = np.zeros((0, 0))
    if noise is None:
        return model, start
    for part in noise.parts:
        if not isinstance(part, kind):
            continue
        if part.model is None:
            raise ValueError(
                "noise: it is correlated over the whole horizon, and has no finite "
                "state"
            )
        model = sum_of(model, part.model)
        start = scipy.linalg.block_diag(start, part.state_root)
    size = np.sqrt(noise.law.unit_variance)
    return LinearSystem(model.A, size * model.B, model.C, size * model.D), size * start


@dataclass(frozen=True, eq=False)
class Knowledge:
    """What a filter knows of plant and noise before the first reading.

    Attributes
    ----------
    A, C : ndarray, shapes (N, N), (p, N)
        Plant and noise together.
    G, F : ndarray, shapes (N, q), (p, q)
        How fresh standard entries move the state, and what is read.
    start : ndarray, shape (N, k)
        Root of the covariance of z(0).
    unknown : ndarray, shape (N, b)
        Directions of z(0) of which nothing is known.
    order : int
        Number n of the plant's states.
    states : tuple of str
        Names (N,), for errors.
    """

    A: NDArray
    C: NDArray
    G: NDArray
    F: NDArray
    start: NDArray
    unknown: NDArray
    order: int
    states: tuple[str, ...]

    @classmethod
    def of(
        cls,
        plant: Plant,
        weights: Weights,
        noise: OutputNoise | None,
        P0: NDArray | None,
        kind: type = NoisePart,
    ) -> Knowledge:
        """What is known of a loop with disturbances of QN and RN, and P0 of x(0)."""
        n = plant.order
        p = len(plant.C)
        model, first = noise_model(noise, p, kind)
        k = model.order
        disturbed = weights.drive_roots["disturbance"]
        measured = weights.drive_roots["noise"]
        moved = np.zeros((n + k, disturbed.shape[1] + p + model.B.shape[1]))
        moved[:n, : disturbed.shape[1]] = disturbed
        moved[n:, disturbed.shape[1] + p :] = model.B
        read = np.hstack([np.zeros((p, disturbed.shape[1])), measured, model.D])
        known = np.zeros((n, 0))
        unknown = np.eye(n + k, n)
        if P0 is not None:
            known = root(P0)
            unknown = unknown[:, :0]
        return cls(
            A=scipy.linalg.block_diag(plant.A, model.A),
            C=np.hstack([plant.C, model.C]),
            G=moved,
            F=read,
            start=scipy.linalg.block_diag(known, first),
            unknown=unknown,
            order=n,
            states=(*plant.states, *(f"noise {i}" for i in range(k))),
        )

    def steps(self, samples: int, lost: Container[int] = ()) -> Iterator[Step]:
        """The filter's steps, one for each sample. At ``lost`` ones nothing is read."""
        spread = self.start
        unknown = self.unknown
        for t in range(samples):
            step = _reading(self, spread, unknown, t in lost)
            yield step
            spread = step.ahead
            unknown = self.A @ step.unseen

    def told_of(
        self, columns: NDArray, samples: int
    ) -> Iterator[tuple[tuple[NDArray, NDArray], tuple[NDArray, NDArray]]]:
        """Yield what each reading tells of a vector eta that adds C A^t S eta to all.

        ``columns`` (N, r) are S. Before the reading and after it, there are the error
        (N, r) of the state by eta, and the information (r, r) about eta.
        """
        response = columns
        moved = columns  # A^t S
        information = np.zeros((columns.shape[1], columns.shape[1]))
        for step in self.steps(samples):
            before = (moved - response, information)
            read = self.C @ response
            information = information + read.T @ step.weight @ read
            response = response - step.correct @ read
            yield before, (moved - response, information)
            response = self.A @ response
            moved = self.A @ moved

    def settled(self) -> Step:
        """The filter without a horizon.

        Noise may move its own state and the output at once, so process and measurement
        noise are correlated.
        """
        A = self.A
        C = self.C
        cross = self.G @ self.F.T
        measurement = self.F @ self.F.T
        try:
            covariance = scipy.linalg.solve_discrete_are(
                A.T, C.T, self.G @ self.G.T, measurement, s=cross
            )
        except np.linalg.LinAlgError:
            covariance = None
        is_stable = False
        if covariance is not None:
            weight = np.linalg.inv(C @ covariance @ C.T + measurement)
            advance = (A @ covariance @ C.T + cross) @ weight
            left = np.linalg.eigvals(A - advance @ C)
            is_stable = bool(np.abs(left).max(initial=0.0) < 1)
        if not is_stable:
            unseen = unseen_mode(A, C, self.states)
            if unseen:
                raise ValueError(
                    "no stabilising Kalman gain: (A, C) is not detectable, as the "
                    f"outputs do not see the mode {unseen}, which does not decay; "
                    "measure it, let a local loop stabilise it (with_local_loop), or "
                    "leave it out of the model"
                )
            raise ValueError(
                "no stabilising Kalman gain: (A, C) must be detectable, QN (with G) "
                "must excite every mode that does not decay by itself, and RN should "
                "be positive definite"
            )
        spread = root(covariance)
        correct = covariance @ C.T @ weight
        held = np.hstack([spread, np.zeros_like(self.G)])
        return Step(
            spread=spread,
            unknown=self.unknown[:, :0],
            correct=correct,
            advance=advance,
            after=held - correct @ np.hstack([C @ spread, self.F]),
            ahead=spread,
            unseen=self.unknown[:, :0],
            weight=weight,
        )

    def law(
        self,
        side: LinearSide,
        K: NDArray,
        form: str,
        tracked: tuple[int, ...],
        samples: float,
    ) -> ObserverFeedback:
        """Return the feedback K of the estimate, with gains (T, N, p).

        They are (N, p) without a horizon.
        """
        if samples == math.inf:
            settled = self.settled()
            correct = settled.correct
            advance = settled.advance
        else:
            steps = list(self.steps(int(samples)))
            correct = np.array([step.correct for step in steps])
            advance = np.array([step.advance for step in steps])
        if form == "predictor":
            correct = np.zeros_like(correct)
        return ObserverFeedback.knowing(
            side, K, self.A, self.C, correct, advance, tracked
        )

    def covariances(self, samples: float, *, predicted: bool = False) -> NDArray:
        """Error covariances (T, n, n) of x after the reading at t, or before it.

        They are (n, n) without a horizon. What is unknown has variance infinity, and
        nan as covariance.
        """
        if samples == math.inf:
            return self.covariance(self.settled(), predicted=predicted)
        samples = int(samples)
        found = np.empty((samples, self.order, self.order))
        for t, step in enumerate(self.steps(samples)):
            found[t] = self.covariance(step, predicted=predicted)
        return found

    def covariance(self, step: Step, *, predicted: bool = False) -> NDArray:
        """Error covariance (n, n) of x after one reading, or before it."""
        n = self.order
        spread = step.spread
        unknown = step.unknown
        if not predicted:
            spread = step.after
            unknown = step.unseen
        found = spread[:n] @ spread[:n].T
        reached = np.abs(unknown[:n]).max(axis=1, initial=0.0) > 0
        found[reached | reached[:, None]] = np.nan
        found[np.diag(reached)] = np.inf
        return found


@dataclass(frozen=True, eq=False)
class Step:
    """The reading at one sample.

    Attributes
    ----------
    spread, unknown : ndarray, shapes (N, k), (N, b)
        Root of the prediction's error covariance, and the directions that are unknown.
    correct : ndarray, shape (N, p)
        The estimate is the prediction + correct i, with the innovation i.
    advance : ndarray, shape (N, p)
        The next prediction is A z + B u + advance i.
    after, ahead : ndarray, shapes (N, .)
        Roots of the error covariances after the reading, and of the next prediction.
    unseen : ndarray, shape (N, b')
        The directions that are unknown still.
    weight : ndarray, shape (p, p)
        The information that the innovation carries, its inverse covariance where all is
        known.
    """

    spread: NDArray
    unknown: NDArray
    correct: NDArray
    advance: NDArray
    after: NDArray
    ahead: NDArray
    unseen: NDArray
    weight: NDArray

    @property
    def covariance(self) -> NDArray:
        """Error covariance (N, N) of the prediction, where all of it is known."""
        return self.spread @ self.spread.T


def _reading(known: Knowledge, spread: NDArray, unknown: NDArray, lost: bool) -> Step:
    """The gains of one reading, with the exact limit for what is unknown.

    They are zero where it is lost.
    """
    A = known.A
    C = known.C
    F = known.F
    G = known.G
    seen = np.hstack([C @ spread, F])
    held = np.hstack([spread, np.zeros_like(G)])
    both = np.vstack([held, np.hstack([A @ spread, G])])
    sizes = np.linalg.norm(spread, axis=1)
    terms = np.abs(C) @ sizes + np.linalg.norm(F, axis=1)
    told = np.eye(len(C))
    first = np.zeros((2 * len(A), len(C)))
    unseen = unknown
    if lost:
        told = told[:0]
    elif unknown.shape[1]:
        sight = C @ unknown
        units = _sizes(np.abs(C) @ np.linalg.norm(unknown, axis=1))
        left, values, right = scipy.linalg.svd(sight / units[:, None])
        rank = np.count_nonzero(values > _UNSEEN)
        learned = right[:rank].T / values[:rank]
        inverse = learned @ left[:, :rank].T / units
        first = np.vstack([unknown, A @ unknown]) @ inverse
        unseen = unknown @ right[rank:].T
        told = left[:, rank:].T / units
    # what is told beside the unknown directions is an ordinary reading
    inverse = _inverse(told @ seen, np.abs(told) @ terms)
    gain = first + (both - first @ seen) @ inverse @ told
    correct, advance = np.split(gain, 2)
    # the error of the prediction is that of the estimate, moved on
    after, ahead = np.split(both - gain @ seen, 2)
    terms = np.abs(A) @ sizes + np.linalg.norm(G, axis=1) + np.abs(advance) @ terms
    return Step(
        spread=spread,
        unknown=unknown,
        correct=correct,
        advance=advance,
        after=after,
        ahead=_compressed(ahead, terms),
        unseen=unseen,
        weight=told.T @ inverse.T @ inverse @ told,
    )


def _inverse(rows: NDArray, terms: NDArray) -> NDArray:
    """The pseudo-inverse of rows that are sums of terms of some sizes."""
    sizes = _sizes(terms)
    rounding = _ROUNDINGS * EPS
    if not len(rows):
        return rows.T
    if len(rows) == 1:
        energy = float(np.sum(rows**2))
        if energy <= (rounding * sizes[0]) ** 2:
            return np.zeros_like(rows.T)
        return rows.T / energy
    scaled = rows / sizes[:, None]
    left, values, right = scipy.linalg.svd(scaled, full_matrices=False)
    rank = np.count_nonzero(values > rounding)
    inverse = (right[:rank].T / values[:rank]) @ left[:, :rank].T
    return inverse / sizes


def _compressed(columns: NDArray, terms: NDArray) -> NDArray:
    """A root with at most as many columns as rows, in which rounding is zero."""
    small = np.linalg.norm(columns, axis=1) <= _ROUNDINGS * EPS * terms
    columns = np.where(small[:, None], 0.0, columns)
    if columns.shape[1] <= len(columns):
        return columns
    triangle: Any = np.linalg.qr(columns.T, mode="r")
    return triangle.T


def _sizes(sizes: NDArray) -> NDArray:
    """Sizes with one in the place of zero."""
    return np.where(sizes > 0, sizes, 1.0)


@dataclass(frozen=True, eq=False)
class DenseKnowledge:
    """What all readings of a run tell, where the noise has no finite state.

    The rows of the Cholesky factor L of Cov(s) are the causal innovations, s = L nu.

    Attributes
    ----------
    plant : Plant
    lower : ndarray, shape (T p, T p)
        L.
    onto : ndarray, shape (T, n, T p)
        Covariance of x(t) with nu(0), .., nu(t).
    variances : ndarray, shape (T, n, n)
        Of x(t), before any reading.
    """

    plant: Plant
    lower: NDArray
    onto: NDArray
    variances: NDArray

    @classmethod
    def of(
        cls,
        plant: Plant,
        weights: Weights,
        noise: NDArray,
        P0: NDArray | None,
    ) -> DenseKnowledge:
        """What is known of x(0) with covariance P0, and noise of covariance (T p, T p).

        `ValueError` without P0, or if the readings are singular.
        """
        n = plant.order
        p = len(plant.C)
        size = len(noise)
        samples = size // p
        if P0 is None:
            raise ValueError(
                "P0: this noise is correlated over the whole horizon; the filter that "
                "knows it needs a covariance of x(0)"
            )
        disturbed = weights.drive_roots["disturbance"]
        fresh = disturbed @ disturbed.T
        variances = np.empty((samples, n, n))
        seen = np.zeros((samples, n, samples, p))
        now = P0
        for t in range(samples):
            variances[t] = now
            if t:
                seen[t, :, :t] = np.tensordot(plant.A, seen[t - 1, :, :t], 1)
            seen[t, :, t] = now @ plant.C.T
            now = plant.A @ now @ plant.A.T + fresh
        free = np.tensordot(plant.C, seen, ((1,), (1,))).swapaxes(0, 1)
        read = free.reshape(size, size)
        for t in range(samples):
            own = slice(t * p, (t + 1) * p)
            read[own, own] += present(weights.RN, "RN")
        read += noise
        try:
            lower = scipy.linalg.cholesky(read, lower=True)
        except np.linalg.LinAlgError:
            lower = None
        if lower is None:
            raise ValueError(
                "RN: the readings are singular together with this noise; pass RN > 0"
            )
        columns = seen.reshape(samples * n, size).T
        solved = scipy.linalg.solve_triangular(lower, columns, lower=True)
        onto = solved.T.reshape(samples, n, size).copy()
        for t in range(samples):
            onto[t, :, (t + 1) * p :] = 0.0
        return cls(plant, lower, onto, variances)

    def law(
        self,
        side: LinearSide,
        K: NDArray,
        form: str,
        tracked: tuple[int, ...],
        samples: float,
    ) -> ObserverFeedback:
        """Return the feedback K of the estimate, which recalls all innovations."""
        count, n, size = self.onto.shape
        plant = self.plant
        p = size // count
        whiten = np.empty((count, p, p))
        correct = np.empty((count, n, p))
        recall = np.zeros((count, p, size))
        for t in range(count):
            own = slice(t * p, (t + 1) * p)
            past = slice(0, t * p)
            whiten[t] = np.linalg.inv(self.lower[own, own])
            correct[t] = self.onto[t, :, own] @ whiten[t]
            by_state = plant.C @ self.onto[t, :, past]
            recall[t, :, past] = self.lower[own, past] - by_state
        advance = plant.A @ correct
        if form == "predictor":
            correct = np.zeros_like(correct)
        law = ObserverFeedback.knowing(
            side, K, plant.A, plant.C, correct, advance, tracked
        )
        return replace(law, recall=recall, whiten=whiten)

    def covariances(self, samples: float, *, predicted: bool = False) -> NDArray:
        """Error covariances (T, n, n) of x after the reading at t, or before it."""
        samples = int(samples)
        found = np.empty_like(self.variances[:samples])
        p = self.onto.shape[2] // len(self.onto)
        for t in range(samples):
            count = t * p if predicted else (t + 1) * p
            told = self.onto[t, :, :count]
            found[t] = self.variances[t] - told @ told.T
        return found


def knowledge_of(
    plant: Plant, weights: Weights, noise: OutputNoise | None, P0: NDArray | None
) -> Knowledge | DenseKnowledge:
    """Return what a filter knows that knows the noise, of any kind."""
    if noise is not None and is_dense(noise):
        return DenseKnowledge.of(plant, weights, noise_covariance(noise), P0)
    return Knowledge.of(plant, weights, noise, P0)
