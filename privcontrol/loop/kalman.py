"""The Kalman filter that knows the prior of x(0) and the law of the noise.

The filter's model is that of plant and output noise together,

    z+ = A z + B u + G e,    s = C z + F e,    z(0) = mean + R a + U b,    z = (x, xi)

with independent standard a and e, and b of which nothing is known: it is the limit of a
covariance kappa I, taken exactly. The first n states are the plant's, the others those
of the noise. Covariances are kept as roots, so what is known exactly stays exact.
"""

from __future__ import annotations

import math
from collections.abc import Container, Iterator
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

from ..designs.output_noise import OutputNoise
from ..noise.parts import NoisePart
from ..numerics.balls import midpoints
from ..numerics.linalg import EPS, nonzero
from ..numerics.thresholds import SETTLING, SHARP, UNSEEN
from ..privacy.horizon import Horizon
from ..secrets.modes import unseen_mode
from ..systems.linear import (
    LinearSystem,
    Plant,
    VaryingSystem,
    narrowed,
    root,
    singular_root,
    sum_of,
)
from ..systems.varying import VaryingPlant
from ._exact_readings import ROUNDINGS, ExactReading, exact_readings, seen_exactly
from .controller import Gains
from .regulator import riccati
from .side import Weights, at_sample


@dataclass(frozen=True, eq=False)
class Knowledge:
    """Hold a filter's prior of plant and noise before the first reading.

    Attributes
    ----------
    system : LinearSystem
        A, G, C and F of plant and noise together, N states in all.
    start : ndarray, shape (N, k)
        Root of the covariance of z(0).
    unknown : ndarray, shape (N, b)
        Directions of z(0) of which nothing is known.
    plant : Plant
    """

    system: LinearSystem
    start: NDArray[np.float64]
    unknown: NDArray[np.float64]
    plant: Plant

    @classmethod
    def of(
        cls,
        plant: Plant,
        weights: Weights,
        noise: OutputNoise | None,
        P0: NDArray[np.float64] | None,
        kind: type = NoisePart,
    ) -> Knowledge:
        """Return the prior of a loop with disturbances of QN and RN, and P0 of x(0).

        Parts of the noise of another ``kind`` are left out.
        """
        n = plant.order
        system = _disturbed(plant, weights)
        start = np.zeros((n, 0)) if P0 is None else singular_root(P0)
        if noise is not None:
            for part in noise.parts:
                if isinstance(part, kind):
                    size = math.sqrt(noise.process.law_of(part).unit_variance)
                    unit = part.scaled(size)
                    system = sum_of(system, finite_model(unit))
                    start = scipy.linalg.block_diag(start, unit.state_root)
        unknown = np.eye(system.order, n if P0 is None else 0)
        if start.size:
            # large entries in columns of their own do not hide those next to them
            triangle, order = scipy.linalg.qr(start.T, mode="r", pivoting=True)
            rows = triangle[: system.order]
            start = np.zeros_like(rows.T)
            start[order] = rows.T
        return cls(system, start, unknown, plant)

    def steps(self, samples: int, lost: Container[int] = ()) -> Iterator[Step]:
        """The filter's steps, one for each sample. At ``lost`` ones nothing is read."""
        if self.reads_exactly:
            for reading in self._readings(samples, lost):
                yield Step.of(reading)
            return
        spread = self.start
        unknown = self.unknown
        for t in range(samples):
            step = self._read(spread, unknown, t in lost, t)
            yield step
            spread = step.ahead
            unknown = self.system.at(t).A @ step.unseen

    @cached_property
    def reads_exactly(self) -> bool:
        """Return whether some readings carry no fresh noise, and all of x(0) is known.

        The start is known as a covariance, that is.
        """
        if self.unknown.shape[1]:
            return False
        system = self.system
        if isinstance(system, VaryingSystem):
            every = system.along[3]
            return any(_is_singular(F) for F in np.unique(every, axis=0))
        return _is_singular(system.D)

    def _readings(
        self, samples: int, lost: Container[int] = ()
    ) -> Iterator[ExactReading]:
        return exact_readings(self.system, self.start, samples, lost)

    def _read(
        self,
        spread: NDArray[np.float64],
        unknown: NDArray[np.float64],
        lost: bool,
        t: int = 0,
    ) -> Step:
        """The gains of the reading at t, with the exact limit for what is unknown.

        They are zero where it is lost.
        """
        A, G, C, F = self.system.at(t).matrices
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
            units = nonzero(np.abs(C) @ np.linalg.norm(unknown, axis=1))
            left, values, right = scipy.linalg.svd(sight / units[:, None])
            rank = np.count_nonzero(values > UNSEEN)
            learned = right[:rank].T / values[:rank]
            inverse = learned @ left[:, :rank].T / units
            first = np.vstack([unknown, A @ unknown]) @ inverse
            unseen = unknown @ right[rank:].T
            told = left[:, rank:].T / units
        # what is told of other directions than the unknown ones is an ordinary reading
        inverse = _inverse(told @ seen, np.abs(told) @ terms)
        gain = first + (both - first @ seen) @ inverse @ told
        correct, advance = np.split(gain, 2)
        # the error of the prediction is that of the estimate, moved on
        after, ahead = np.split(both - gain @ seen, 2)
        terms = np.abs(A) @ sizes + np.linalg.norm(G, axis=1) + np.abs(advance) @ terms
        ahead = _compressed(ahead, terms)
        news = inverse @ told
        return Step(spread, unknown, correct, advance, after, ahead, unseen, news)

    def told_of(
        self, columns: NDArray[np.float64], samples: int
    ) -> Iterator[
        tuple[tuple[NDArray[np.float64], Told], tuple[NDArray[np.float64], Told]]
    ]:
        """Yield what each reading reveals of a vector eta that adds C A^t S eta to all.

        ``columns`` (N, r) are S. Before the reading and after it, there are the error
        (N, r) of the state by eta, and what is known of eta.
        """
        told = Told.nothing(columns.shape[1])
        if self.reads_exactly:
            readings = self._readings(samples)
            for seen in seen_exactly(self.system, columns, readings):
                before = (seen.before, told)
                told = told.more(seen.news).exactly(seen.exact)
                yield before, (seen.after, told)
            return
        response = columns
        moved = columns  # A^t S
        for t, step in enumerate(self.steps(samples)):
            A, _, C, _ = self.system.at(t).matrices
            before = (moved - response, told)
            read = C @ response
            told = told.more(step.news @ read)
            response = response - step.correct @ read
            yield before, (moved - response, told)
            response = A @ response
            moved = A @ moved

    def settled(self) -> Step:
        """The filter without a horizon.

        Noise may move its own state and the output at once, so process and measurement
        noise are correlated.
        """
        A, G, C, F = self.system.matrices
        entering = np.vstack([G, F])
        _, covariance, poles = riccati(A.T, C.T, entering @ entering.T)
        if not np.abs(poles).max(initial=0.0) < 1:
            count = len(A) - self.plant.order
            states = (*self.plant.states, *(f"noise {i}" for i in range(count)))
            unseen = unseen_mode(A, C, states)
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
                "be positive definite, at several outputs by more than some 1e-14 of "
                "the noise's variance"
            )
        return self._polished(self._read(root(covariance), self.unknown[:, :0], False))

    def _polished(self, step: Step) -> Step:
        """Go on with the filter until it stands still.

        Its roots keep digits that the Riccati equation, with their squares, loses.
        """
        for _ in range(SETTLING):
            after = step.ahead @ step.ahead.T
            sizes = nonzero(np.sqrt(np.diag(after)))
            drift = np.abs(after - step.covariance) / np.outer(sizes, sizes)
            if drift.max(initial=0.0) < SHARP:
                return step
            step = self._read(step.ahead, step.unknown, False)
        raise ValueError(
            "no Kalman gain in double precision: the noise, QN and RN are too far apart "
            "in size for a plant as slow as this one; hide less, or pass a larger RN"
        )

    def gains(self, samples: Horizon) -> Gains:
        """Return the observer with gains (T, N, p), or (N, p) without a horizon."""
        if not samples.ends:
            step = self.settled()
            return Gains.of(self.system, step.correct, step.advance)
        steps = list(self.steps(int(samples)))
        correct = np.array([step.correct for step in steps])
        advance = np.array([step.advance for step in steps])
        return Gains.of(self.system, correct, advance)

    def covariances(
        self, samples: Horizon, *, predicted: bool = False
    ) -> NDArray[np.float64]:
        """Error covariances (T, n, n) of x after the reading at t, or before it.

        They are (n, n) without a horizon. What is unknown has variance infinity, and
        nan as covariance.
        """
        if not samples.ends:
            return self.covariance(self.settled(), predicted=predicted)
        steps = self.steps(int(samples))
        return np.array([self.covariance(step, predicted=predicted) for step in steps])

    def settling(self, samples: int) -> NDArray[np.float64]:
        """Error covariances (T, n, n) of predictions with the gains of the steady state.

        The run begins with the prior, or without one as uncertain as in steady state,
        and the filter knows nothing of the noise's first state.
        """
        A, G, C, F = self.system.matrices
        n = self.plant.order
        step = self.settled()
        covariance = self.start @ self.start.T
        if self.unknown.size:
            covariance[:n, :n] = step.covariance[:n, :n]
        kept = A - step.advance @ C
        fresh = G - step.advance @ F
        found = np.empty((samples, n, n))
        for t in range(samples):
            found[t] = covariance[:n, :n]
            covariance = kept @ covariance @ kept.T + fresh @ fresh.T
        return found

    def covariance(self, step: Step, *, predicted: bool = False) -> NDArray[np.float64]:
        """Error covariance (n, n) of x after one reading, or before it."""
        n = self.plant.order
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
    news : ndarray, shape (k, p)
        A root of the information news' news that the innovation carries, which is its
        inverse covariance where all is known.
    """

    spread: NDArray[np.float64]
    unknown: NDArray[np.float64]
    correct: NDArray[np.float64]
    advance: NDArray[np.float64]
    after: NDArray[np.float64]
    ahead: NDArray[np.float64]
    unseen: NDArray[np.float64]
    news: NDArray[np.float64]

    @classmethod
    def of(cls, reading: ExactReading) -> Step:
        """Return a reading in doubles."""
        spread, after, ahead = (
            root(midpoints(covariance))
            for covariance in (reading.before, reading.after, reading.ahead)
        )
        correct = midpoints(reading.correct)
        advance = midpoints(reading.advance)
        known = spread[:, :0]
        news = midpoints(reading.news)
        return cls(spread, known, correct, advance, after, ahead, known, news)

    @property
    def covariance(self) -> NDArray[np.float64]:
        """Error covariance (N, N) of the prediction, where all of it is known."""
        return self.spread @ self.spread.T


@dataclass(frozen=True, eq=False)
class Told:
    """Hold what readings reveal of a vector eta (r,).

    Attributes
    ----------
    root : ndarray, shape (k, r)
        Root R of the information R'R, k <= r. In the squares a small part of it would
        vanish next to a large one.
    open : ndarray, shape (r, j)
        Orthonormal columns of the directions that are not known exactly. Of the others
        the information is infinite, and not part of R.
    """

    root: NDArray[np.float64]
    open: NDArray[np.float64]

    @classmethod
    def nothing(cls, size: int) -> Told:
        """Return what is known of a vector of a size before any reading."""
        return cls(np.zeros((0, size)), np.eye(size))

    def more(self, rows: NDArray[np.float64]) -> Told:
        """Return what is known after readings rows @ eta with noise of variance one."""
        return replace(self, root=np.linalg.qr(np.vstack([self.root, rows])).R)

    def exactly(self, rows: NDArray[np.float64]) -> Told:
        """Return what is known after readings rows @ eta, relative to their rounding."""
        _, values, right = np.linalg.svd(rows @ self.open)
        rank = np.count_nonzero(values > ROUNDINGS)
        return replace(self, open=self.open @ right[rank:].T)

    def halves(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return V (r, r) and d (r,) with V V' the covariance of eta ~ N(0, I) left.

        That is (I + R'R)^-1 where nothing is exact, and V'R'R V = diag(d). R may be of
        any size, so d are from 0 to 1. Of J in place of I it is V (V'J V + diag(d))^-1
        V', also where columns of V are zero, with d = 1.
        """
        _, values, right = np.linalg.svd(self.root @ self.open)
        sizes = np.zeros(len(right))
        sizes[: len(values)] = values
        lengths = np.hypot(1.0, sizes)
        size, left = self.open.shape
        turn = np.zeros((size, size))
        turn[:, :left] = self.open @ right.T / lengths
        shares = np.ones(size)
        shares[:left] = (sizes / lengths) ** 2
        return turn, shares


def _disturbed(plant: Plant, weights: Weights) -> LinearSystem:
    """Return the plant from what disturbs it and its readings, one after the other."""
    roots = weights.drive_roots

    def at(
        now: LinearSystem, disturbed: NDArray[np.float64], sensed: NDArray[np.float64]
    ) -> LinearSystem:
        n, p = now.order, now.output_count
        moved = np.hstack([disturbed, np.zeros((n, p))])
        silent = np.zeros((p, disturbed.shape[1]))
        return LinearSystem(now.A, moved, now.C, np.hstack([silent, sensed]))

    given = roots["disturbance"], roots["noise"]
    lengths = [len(each) for each in given if each.ndim == 3]
    if isinstance(plant, VaryingPlant):
        lengths.append(plant.samples)
    if not lengths:
        return at(plant, *given)
    every = []
    for t in range(min(lengths)):
        every.append(at(plant.at(t), *(at_sample(each, t) for each in given)))
    return VaryingSystem.of_samples(every)


def _is_singular(F: NDArray[np.float64]) -> bool:
    """Return whether some reading carries no fresh noise."""
    scaled = F / nonzero(np.linalg.norm(F, axis=1))[:, None]
    values = np.linalg.svd(scaled, compute_uv=False)
    return bool(np.count_nonzero(values > ROUNDINGS * EPS) < len(F))


def finite_model(part: NoisePart) -> LinearSystem:
    """The system of a part of noise. `ValueError` where it has no finite state."""
    if part.model is None:
        raise ValueError(
            "noise: it is correlated over the whole horizon, and has no finite state"
        )
    return part.model


def _inverse(
    rows: NDArray[np.float64], terms: NDArray[np.float64]
) -> NDArray[np.float64]:
    """The pseudo-inverse of rows that are sums of terms of some sizes."""
    sizes = nonzero(terms)
    scaled = rows / sizes[:, None]
    energy = float(np.sum(scaled**2))
    if len(rows) == 1 and energy > (ROUNDINGS * EPS) ** 2:
        return rows.T / (energy * sizes**2)  # a third of the time of a design
    return scipy.linalg.pinv(scaled, atol=ROUNDINGS * EPS, rtol=0) / sizes


def _compressed(
    columns: NDArray[np.float64], terms: NDArray[np.float64]
) -> NDArray[np.float64]:
    """A root with at most as many columns as rows, in which rounding is zero."""
    small = np.linalg.norm(columns, axis=1) <= ROUNDINGS * EPS * terms
    return narrowed(np.where(small[:, None], 0.0, columns))
