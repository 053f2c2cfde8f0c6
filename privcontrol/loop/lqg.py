"""From weights, a prior and noise to the gains of an LQG loop.

The regulator is that of the LQ recursion. The observer is the Kalman filter that knows
the prior of x(0) and the law of the noise, or that of the papers, with constant gains.
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
from ..noise.parts import NoisePart, White
from ..noise.process import NoiseProcess
from ..numerics.balls import midpoints
from ..numerics.errors import UncertifiableError, warn_user
from ..numerics.linalg import EPS
from ..numerics.objects import ByContent
from ..numerics.saved import Saved
from ..numerics.thresholds import SETTLING, SHARP, UNSEEN
from ..privacy.horizon import NO_HORIZON, Horizon, horizon_of
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
from .controller import FunctionLaw, Gains, Law, ObserverFeedback, OwnLaw
from .side import LinearSide, Weights, at_sample, present

#: Readings of a run up to which a filter of noise without a finite state is computed.
_DENSE = 6000
#: Noise drawn once that a filter knows, relative to what is uncertain at the outputs
#: without it, with a prior of x(0) and without one. Costs have five right digits there,
#: and covariances three.
_MOST = 1e13
_MOST_DIFFUSE = 1e8
#: Ratio of the largest to the least price or variance up to which a Riccati equation is
#: solved in the units that are given.
_NEAR_ONE = 1e6


# -- the regulator ---------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Regulation:
    """Pose the LQ problem of the plant and the sums of r - yhat of tracked outputs.

    ``cost`` is [[Q, N], [N', R]] of size n + j + m, ``weight`` that of the state after
    the run, None for the solution of the Riccati equation. Where plant or weights vary,
    ``every`` holds the problem of each sample, and the others are those of the last one.
    """

    A: NDArray
    B: NDArray
    cost: NDArray
    weight: NDArray | None
    every: tuple[Regulation, ...] = ()

    @classmethod
    def of(cls, side: LinearSide, weights: Weights, design: LqgDesign) -> Regulation:
        """Return the problem of a design."""
        count = weights.samples
        if isinstance(side.plant, VaryingPlant):
            count = side.plant.samples
        if count is None:
            return cls._of_sample(side, side.plant, weights.cost, design)
        constant = None if weights.samples is not None else weights.cost
        every = []
        for t in range(count):
            now = side.plant.at(t)
            cost = weights.at(t).cost if constant is None else constant
            every.append(cls._of_sample(side, now, cost, design))
        return replace(every[-1], every=tuple(every))

    def at(self, t: int) -> Regulation:
        """Return the problem of sample t."""
        return self.every[t] if self.every else self

    @classmethod
    def _of_sample(
        cls, side: LinearSide, plant: LinearSystem, cost: NDArray, design: LqgDesign
    ) -> Regulation:
        n = plant.order
        picked = list(design.tracked)
        j = len(picked)
        A = np.eye(n + j)
        A[:n, :n] = plant.A
        A[n:, :n] = -plant.C[picked]
        driven = plant.B[:, side.driven]
        B = np.vstack([driven, -side.through[picked]])
        if not j:
            return cls(A, B, cost, design.terminal)
        last = n + driven.shape[1]
        cost = scipy.linalg.block_diag(cost, np.diag(design.prices))
        # the sums stand between states and inputs
        order = np.r_[:n, last : last + j, n:last]
        return cls(A, B, cost[np.ix_(order, order)], design.terminal)

    @cached_property
    def settled(self) -> tuple[NDArray, NDArray]:
        """The gain (m, n + j) of ``ct.dlqr``, and its Riccati equation's solution."""
        n = len(self.A)
        gain, value, poles = _riccati(self.A, self.B, self.cost)
        if not np.abs(poles).max() < 1:
            names = [f"state {k}" for k in range(n)]
            unreached = unseen_mode(self.A.T, self.B.T, names)
            run = (
                ". A run with a horizon and a prior P0 needs none: pass terminal=0, the "
                "cost of the run alone, or another weight of x(T)"
            )
            if unreached:
                raise ValueError(
                    "no stabilising feedback gain: (A, B) is not stabilisable, as the "
                    f"inputs do not reach the mode {unreached}, which does not decay; "
                    "add an input, or let a local loop stabilise it (with_local_loop)"
                    f"{run}"
                )
            raise ValueError(
                "no stabilising feedback gain: (A, B) must be stabilisable, Q must "
                "weigh every mode that does not decay by itself, and R should be "
                f"positive definite{run}"
            )
        return gain, value

    @property
    def terminal(self) -> NDArray:
        """The weight (n + j, n + j) of the state after the run."""
        return self.settled[1] if self.weight is None else self.weight

    def gains(self, samples: int) -> tuple[NDArray, NDArray]:
        """Return gains K_t (T, m, n + j), and roots W_t of the price of an error.

        An error e of the estimate at t adds |W_t e|^2 to the cost of the rest of the
        run.
        """
        n, m = self.B.shape
        both = np.hstack([self.A, self.B])
        cost = self.cost
        gains = np.empty((samples, m, n))
        prices = np.empty((samples, m, n))
        value = self.terminal
        for t in reversed(range(samples)):
            if self.every:
                now = self.every[t]
                both = np.hstack([now.A, now.B])
                cost = now.cost
            stage = cost + both.T @ value @ both
            by_input = stage[n:, n:]
            sizes = _sizes(np.sqrt(np.maximum(np.diag(by_input), 0.0)))
            units = np.outer(sizes, sizes)
            inverse = _inverse_of(by_input / units) / units
            gains[t] = inverse @ stage[n:, :n]
            prices[t] = root(by_input).T @ gains[t]
            value = stage[:n, :n] - gains[t].T @ stage[n:, :n]
            value = (value + value.T) / 2
        return gains, prices


# -- the filter ------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Knowledge:
    """Hold what a filter knows of plant and noise before the first reading.

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
    start: NDArray
    unknown: NDArray
    plant: Plant

    @classmethod
    def of(
        cls,
        plant: Plant,
        weights: Weights,
        noise: OutputNoise | None,
        P0: NDArray | None,
        kind: type = NoisePart,
    ) -> Knowledge:
        """Return what is known of a loop with disturbances of QN and RN, and P0 of x(0).

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
            start = np.zeros((system.order, min(start.shape)))
            start[order] = triangle[: min(start.shape)].T
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

    def _read(self, spread: NDArray, unknown: NDArray, lost: bool, t: int = 0) -> Step:
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
            units = _sizes(np.abs(C) @ np.linalg.norm(unknown, axis=1))
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
        self, columns: NDArray, samples: int
    ) -> Iterator[tuple[tuple[NDArray, Told], tuple[NDArray, Told]]]:
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
        _, covariance, poles = _riccati(A.T, C.T, entering @ entering.T)
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
            sizes = _sizes(np.sqrt(np.diag(after)))
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

    def covariances(self, samples: Horizon, *, predicted: bool = False) -> NDArray:
        """Error covariances (T, n, n) of x after the reading at t, or before it.

        They are (n, n) without a horizon. What is unknown has variance infinity, and
        nan as covariance.
        """
        if not samples.ends:
            return self.covariance(self.settled(), predicted=predicted)
        steps = self.steps(int(samples))
        return np.array([self.covariance(step, predicted=predicted) for step in steps])

    def settling(self, samples: int) -> NDArray:
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

    def covariance(self, step: Step, *, predicted: bool = False) -> NDArray:
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

    spread: NDArray
    unknown: NDArray
    correct: NDArray
    advance: NDArray
    after: NDArray
    ahead: NDArray
    unseen: NDArray
    news: NDArray

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
    def covariance(self) -> NDArray:
        """Error covariance (N, N) of the prediction, where all of it is known."""
        return self.spread @ self.spread.T


def _disturbed(plant: Plant, weights: Weights) -> LinearSystem:
    """Return the plant from what disturbs it and its readings, one after the other."""
    roots = weights.drive_roots

    def at(now: LinearSystem, disturbed: NDArray, sensed: NDArray) -> LinearSystem:
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


def _is_singular(F: NDArray) -> bool:
    """Return whether some reading carries no fresh noise."""
    scaled = F / _sizes(np.linalg.norm(F, axis=1))[:, None]
    values = np.linalg.svd(scaled, compute_uv=False)
    return bool(np.count_nonzero(values > ROUNDINGS * EPS) < len(F))


def _riccati(A: NDArray, B: NDArray, cost: NDArray) -> tuple[NDArray, NDArray, NDArray]:
    """Gain (m, n), solution (n, n) and poles of an LQ problem, infinite without any.

    Where states or inputs are in units far apart it is solved again, in units in which
    the first solution is one.
    """
    n = len(A)
    both = np.hstack([A, B])
    units = np.ones(len(cost))
    for _ in range(2):
        near = both * units / units[:n, None]
        weights = cost * np.outer(units, units)
        try:
            value = scipy.linalg.solve_discrete_are(
                near[:, :n],
                near[:, n:],
                weights[:n, :n],
                weights[n:, n:],
                s=weights[:n, n:],
            )
            stage = weights + near.T @ value @ near
            gain = np.linalg.solve(stage[n:, n:], stage[n:, :n])
            poles = np.linalg.eigvals(near[:, :n] - near[:, n:] @ gain)
        except ValueError:  # also of a singular matrix, or of one that is not finite
            return cost[n:, :n], cost[:n, :n], np.full(1, np.inf)
        states, inputs = np.split(units, [n])
        found = value / states / states[:, None]
        gain = gain * inputs[:, None] / states
        sizes = _sizes(np.append(np.diag(value), np.diag(stage)[n:]))
        if sizes.max() < _NEAR_ONE * sizes.min():
            break
        units = units / np.sqrt(sizes)
    return gain, found, poles


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

    root: NDArray
    open: NDArray

    @classmethod
    def nothing(cls, size: int) -> Told:
        """Return what is known of a vector of a size before any reading."""
        return cls(np.zeros((0, size)), np.eye(size))

    def more(self, rows: NDArray) -> Told:
        """Return what is known after readings rows @ eta with noise of variance one."""
        return replace(self, root=np.linalg.qr(np.vstack([self.root, rows])).R)

    def exactly(self, rows: NDArray) -> Told:
        """Return what is known after readings rows @ eta, relative to their rounding."""
        _, values, right = np.linalg.svd(rows @ self.open)
        rank = np.count_nonzero(values > ROUNDINGS)
        return replace(self, open=self.open @ right[rank:].T)

    def halves(self) -> tuple[NDArray, NDArray]:
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


def _inverse(rows: NDArray, terms: NDArray) -> NDArray:
    """The pseudo-inverse of rows that are sums of terms of some sizes."""
    sizes = _sizes(terms)
    scaled = rows / sizes[:, None]
    energy = float(np.sum(scaled**2))
    if len(rows) == 1 and energy > (ROUNDINGS * EPS) ** 2:
        return rows.T / (energy * sizes**2)  # a third of the time of a design
    return scipy.linalg.pinv(scaled, atol=ROUNDINGS * EPS, rtol=0) / sizes


def _inverse_of(matrix: NDArray) -> NDArray:
    """The pseudo-inverse of a symmetric matrix, by hand for one number."""
    if matrix.shape == (1, 1):
        return 1 / matrix if matrix[0, 0] else matrix
    return np.linalg.pinv(matrix, hermitian=True)


def _compressed(columns: NDArray, terms: NDArray) -> NDArray:
    """A root with at most as many columns as rows, in which rounding is zero."""
    small = np.linalg.norm(columns, axis=1) <= ROUNDINGS * EPS * terms
    return narrowed(np.where(small[:, None], 0.0, columns))


def _sizes(sizes: NDArray) -> NDArray:
    """Sizes with one in the place of zero."""
    return np.where(sizes > 0, sizes, 1.0)


@dataclass(frozen=True, eq=False)
class DenseKnowledge:
    """Hold what all readings of a run reveal, where the noise has no finite state.

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
        """Take what is known of x(0), covariance P0, and noise of covariance (T p, T p).

        `ValueError` without P0, or if the readings are singular.
        """
        n = plant.order
        p = plant.output_count
        size = len(noise)
        samples = size // p
        if P0 is None:
            raise ValueError(
                "P0: this noise is correlated over the whole horizon; the filter that "
                "knows it needs a covariance of x(0)"
            )
        roots = weights.drive_roots
        variances = np.empty((samples, n, n))
        free = np.empty((samples, p, samples, p))
        sensed = []
        seen = np.zeros((samples, n, samples, p))
        now = P0
        for t in range(samples):
            A, _, C, _ = plant.at(t).matrices
            disturbed = at_sample(roots["disturbance"], t)
            variances[t] = now
            if t:
                before = plant.at(t - 1).A
                seen[t, :, :t] = np.tensordot(before, seen[t - 1, :, :t], 1)
            seen[t, :, t] = now @ C.T
            free[t] = np.tensordot(C, seen[t], 1)
            sensed.append(at_sample(present(weights.RN, "RN"), t))
            now = A @ now @ A.T + disturbed @ disturbed.T
        read = free.reshape(size, size)
        read += noise + scipy.linalg.block_diag(*sensed)
        try:
            lower = scipy.linalg.cholesky(read, lower=True)
        except np.linalg.LinAlgError:
            raise ValueError(
                "RN: the readings are singular together with this noise; pass RN > 0"
            ) from None
        columns = seen.reshape(samples * n, size).T
        solved = scipy.linalg.solve_triangular(lower, columns, lower=True)
        onto = solved.T.reshape(samples, n, size).copy()
        for t in range(samples):
            onto[t, :, (t + 1) * p :] = 0.0
        return cls(plant, lower, onto, variances)

    def gains(self, samples: Horizon) -> Gains:
        """Return the observer, which recalls all innovations."""
        count, n, size = self.onto.shape
        p = size // count
        correct = np.empty((count, n, p))
        recall = np.zeros((count, p, size))
        lower = self.lower.copy()
        onto = self.onto.copy()
        for t in range(count):
            own = slice(t * p, (t + 1) * p)
            past = slice(0, t * p)
            # from innovations as they are to those of size one
            whiten = np.linalg.inv(self.lower[own, own])
            lower[:, own] = self.lower[:, own] @ whiten
            onto[..., own] = self.onto[..., own] @ whiten
            correct[t] = onto[t, :, own]
            readout = self.plant.at(t).C
            recall[t, :, past] = lower[own, past] - readout @ onto[t, :, past]
        return Gains.of(self.plant, correct, recall=recall)

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


def finite_model(part: NoisePart) -> LinearSystem:
    """The system of a part of noise. `ValueError` where it has no finite state."""
    if part.model is None:
        raise ValueError(
            "noise: it is correlated over the whole horizon, and has no finite state"
        )
    return part.model


def is_dense(noise: NoiseProcess) -> bool:
    """Return whether a part of the noise has no finite state."""
    return any(part.model is None for part in noise.parts)


def noise_covariance(noise: NoiseProcess) -> NDArray:
    """Covariance (T p, T p) of all samples.

    `ValueError` if it takes too much memory.
    """
    size = noise.samples * noise.outputs
    if size > _DENSE:
        raise ValueError(
            "noise: it is correlated over the whole horizon, and a filter that knows "
            f"it takes matrices of ({size}, {size}); at most {_DENSE} are taken. "
            "Design "
            'noise of low order (horizon=np.inf), or pass estimator="observer"'
        )
    responses = noise.responses.reshape(size, -1)
    white = np.diag(np.tile(noise.total.white**2, noise.samples))
    return noise.law.unit_variance * (responses @ responses.T + white)


def knowledge_of(
    plant: Plant, weights: Weights, noise: OutputNoise | None, P0: NDArray | None
) -> Knowledge | DenseKnowledge:
    """Return what a filter knows that knows the noise, of any kind."""
    if noise is not None and is_dense(noise.process):
        return DenseKnowledge.of(plant, weights, noise_covariance(noise.process), P0)
    if noise is None or noise.horizon.ends:
        _check_sizes(plant, weights, noise, P0)
    return Knowledge.of(plant, weights, noise, P0)


def _check_sizes(
    plant: Plant, weights: Weights, noise: OutputNoise | None, P0: NDArray | None
) -> None:
    """Refuse sizes so large that what the readings reveal is lost in rounding."""
    p = plant.output_count

    def sizes(columns: NDArray) -> NDArray:
        """Sizes (p,) at the outputs of n samples of states that are drawn once."""
        count = plant.order
        if isinstance(plant, VaryingPlant):
            count = min(count, plant.samples)
        response = plant.free_response(columns, count)
        return np.linalg.norm(response.reshape(-1, p, columns.shape[1]), axis=(0, 2))

    roots = weights.at(0).drive_roots  # where they vary, those of the first sample
    read = np.linalg.norm(roots["noise"], axis=1)
    fresh = np.hypot(sizes(roots["disturbance"]), read)
    start = np.zeros(p)
    drawn = np.zeros(p)
    if P0 is not None:
        start = sizes(singular_root(P0))
    if noise is not None:
        fresh = np.hypot(fresh, noise.process.total.white)
        if noise.factor is not None:
            drawn = sizes(noise.factor)
    ratio = _times(drawn, np.hypot(start, fresh))
    if ratio > (_MOST_DIFFUSE if P0 is None else _MOST):
        raise UncertifiableError(
            f"noise: it is {ratio:.1e} times as large as what is uncertain at the outputs "
            "without it, and a filter that knows it subtracts numbers of that size; "
            f"double precision allows {_MOST:.0e} times ({_MOST_DIFFUSE:.0e} without P0). "
            "Moves at late times of a mode that decays make it so large: protect fewer "
            'times, StateAdjacency(times=...), or pass estimator="observer"'
        )
    ratio = _times(start, np.hypot(drawn, fresh))
    if ratio > _MOST:
        raise UncertifiableError(
            f"P0: x(0) is {ratio:.1e} times as uncertain at the outputs as the rest, and "
            f"double precision allows {_MOST:.0e} times. Where nothing is known of x(0) "
            'leave P0 out and pass estimator="kalman"; where disturbances and readings '
            "are exact pass QN=0 and RN=0"
        )


def _times(sizes: NDArray, others: NDArray) -> float:
    """How many times as large as others sizes are, where the others are not zero."""
    beside = others > 0
    return float(np.max(sizes[beside] / others[beside], initial=0.0))


# -- the design ------------------------------------------------------------------------


def constant_filter(
    side: LinearSide, weights: Weights, noise: OutputNoise | None
) -> Step:
    """Return the filter of ``ct.dlqe``, which knows independent noise and no other."""
    return Knowledge.of(side.plant, weights, noise, None, kind=White).settled()


@dataclass(frozen=True, eq=False)
class LqgDesign(ByContent, Saved):
    """Hold what an LQG loop was designed for, so it can be designed for other noise.

    Attributes
    ----------
    estimator : {"kalman", "observer"}
    form : {"filter", "predictor"}
    P0 : ndarray, shape (n, n), or None
        Public covariance of x(0).
    initial_state : ndarray, shape (n,), or None
        Public mean of x(0).
    terminal : ndarray, shape (n + j, n + j), or None
        Weight of the state after the run; None is the solution of the Riccati equation.
    tracked : tuple of int
        The outputs with integral action.
    prices : tuple of float
        Weights of their sums.
    cap : float
        Largest noise of a co-design, relative to the noise of least variance.
    horizon : float
        Samples of a run of a loop without noise, infinity where it is not known.
    """

    estimator: str
    form: str
    P0: NDArray | None = None
    initial_state: NDArray | None = None
    terminal: NDArray | None = None
    tracked: tuple[int, ...] = ()
    prices: tuple[float, ...] = ()
    cap: float = 10.0
    horizon: Horizon = NO_HORIZON

    def __post_init__(self) -> None:
        """Take a file's number of samples as the horizon that it is."""
        object.__setattr__(self, "horizon", horizon_of(self.horizon))

    def law(
        self,
        side: LinearSide,
        weights: Weights,
        noise: OutputNoise | None,
        samples: Horizon | None = None,
    ) -> Law:
        """Return the controller for a noise, or without it for some samples.

        They are those of the design's horizon if it has one.
        """
        samples = samples or self.horizon
        if noise is not None:
            samples = noise.horizon
        K = self.regulator(side, weights, samples)
        knows_noise = self.is_kalman if samples.ends else noise is not None
        if knows_noise:
            gains = knowledge_of(side.plant, weights, noise, self.P0).gains(samples)
        else:
            step = constant_filter(side, weights, noise)
            gains = Gains.of(side.plant, step.correct, step.advance)
        return ObserverFeedback.of(side, K, gains, self.form, self.tracked)

    def regulator(
        self,
        side: LinearSide,
        weights: Weights,
        samples: Horizon = NO_HORIZON,
    ) -> NDArray:
        """Return K (m, n + j), or (T, m, n + j) for another terminal weight.

        The weight of constant gains is the solution of the Riccati equation.
        """
        task = Regulation.of(side, weights, self)
        varies = self.terminal is not None and self.is_kalman
        varies = varies or bool(task.every)
        if not (varies and samples.ends):
            return task.settled[0]
        return task.gains(samples.count())[0]

    @property
    def is_kalman(self) -> bool:
        """Return whether its filter knows the prior and the noise."""
        return self.estimator == "kalman"

    def lacks_start(self, horizon: Horizon) -> bool:
        """Return whether the best noise depends on a prior of x(0) that is not there."""
        return horizon.ends and not (self.is_kalman and self.P0 is not None)


@dataclass(frozen=True, eq=False, kw_only=True)
class OwnDesign(LqgDesign):
    """Hold the public prior of a controller of the user's own, with its own gains."""

    own: OwnLaw

    def law(
        self,
        side: LinearSide,
        weights: Weights,
        noise: OutputNoise | None,
        samples: Horizon | None = None,
    ) -> Law:
        """Return it with the filter that knows the noise, given QN, RN and a prior."""
        is_unknown = weights.QN is None or weights.RN is None
        if self.P0 is not None and is_unknown:
            raise ValueError(
                "P0: the estimate that starts from it needs the covariances of the "
                "plant's disturbances and readings; pass QN and RN"
            )
        if noise is None or is_unknown:
            return self.own
        if self.P0 is None and is_dense(noise.process):
            if isinstance(self.own, FunctionLaw):
                warn_user(
                    "controller: its estimate is None, since with this noise an "
                    "estimate needs the public covariance of x(0); pass P0"
                )
            return self.own
        known = knowledge_of(side.plant, weights, noise, self.P0)
        none = np.zeros((len(side.controls), side.order))
        gains = known.gains(noise.horizon)
        return self.own.knowing(ObserverFeedback.of(side, none, gains, self.form))
