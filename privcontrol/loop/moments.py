"""Exact second moments of a private loop, and margins that follow from them.

Moments are those over a horizon and in steady state. Margins of a prediction hold at
all samples of a run together.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.stats import norm

from ..noise._rooms_of_runs import Once
from ..noise.parts import Filtered, Structured, White
from ..noise.within import room_of
from ..numerics.thresholds import BLOCK, FINE, ROUGH, ROUNDED
from ..privacy.horizon import Run
from ..privacy.law import GaussianLaw
from ..systems.linear import output_variances, singular_root, stacks_of
from .data import LoopData, LoopSignals, over_run
from .dense_filter import DenseKnowledge
from .dynamics import AT_REST, Rows
from .kalman import Knowledge, Told, finite_model
from .lqg import knowledge_of
from .side import RunSignals, present


@dataclass(frozen=True)
class LoopCost:
    """Expected LQ cost of a loop over a horizon, as a sum over its causes.

    Attributes
    ----------
    regulation : float
        Of reference and initial state alone.
    disturbance : float
        What disturbances add. One that is given as an array acts together with
        reference and initial state, and may then lower the cost.
    privacy : float
        What the output noise adds behind this loop's filter. A filter that trusts noisy
        readings less lets more disturbances through, which counts as theirs: what
        privacy costs is ``loop.cost().total - loop.with_noise(None).cost().total``, with
        the same arguments.
    terminal : float
        E x_T' S x_T after the last sample, which is not part of the total. S is the
        design's ``terminal`` weight, zero without one.

    See Also
    --------
    PrivateLoop.cost, PrivateLoop.steady_state_cost

    Examples
    --------
    >>> from privcontrol.loop import LoopCost
    >>> LoopCost(regulation=2.0, disturbance=0.5, privacy=1.5).total
    4.0
    """

    regulation: float
    disturbance: float
    privacy: float
    terminal: float = 0.0

    def __repr__(self) -> str:
        return (
            f"LoopCost({self.total:.6g}: regulation={self.regulation:.6g}, "
            f"disturbance={self.disturbance:.6g}, privacy={self.privacy:.6g})"
        )

    @property
    def total(self) -> float:
        """The expected cost of all samples."""
        return self.regulation + self.disturbance + self.privacy


def mean_square_errors(loop: LoopData, signals: LoopSignals) -> tuple[NDArray, NDArray]:
    """Return E (x_i(t) - target_i(t))^2 (n, T) without the noise, and what it adds."""
    n = loop.side.plant.order
    rows = Rows(np.eye(n, n + len(loop.side.controls)), np.eye(n))
    quiet = _quiet_squares(loop, signals, rows)
    noisy = _noise_variances(loop, signals, rows)
    return quiet[:-1].T, noisy[:-1].T


def output_squares(loop: LoopData, signals: LoopSignals) -> NDArray:
    """Return E y_i^2 (p,) of the true outputs without the noise, the mean of a run."""
    _, _, C, D = stacks_of(loop.side.plant)
    through = D[..., list(loop.side.controls)]
    rows = Rows(np.concatenate([C, through], axis=-1), np.zeros(C.shape[-2:]))
    return _quiet_squares(loop, signals, rows)[:-1].mean(axis=0)


def _quiet_squares(loop: LoopData, signals: LoopSignals, rows: Rows) -> NDArray:
    """Return the mean squares of rows (T + 1, k) without the noise."""
    squares = _mean_errors(loop, signals, rows) ** 2
    squares += _start_variances(loop, signals, rows)
    squares += _fresh_variances(loop, rows, signals.roots, signals.samples)
    return squares


def expected_cost(loop: LoopData, signals: LoopSignals) -> LoopCost:
    """Return the cost over the signals' samples."""
    rows = loop.cost_rows
    regulation = _mean_errors(loop, signals, rows, "reference") ** 2
    drawn = _fresh_variances(loop, rows, signals.roots, signals.samples)
    if len(signals.shared) > 1:
        drawn += _mean_errors(loop, signals, rows) ** 2 - regulation
    regulation += _start_variances(loop, signals, rows)
    noisy = _noise_variances(loop, signals, rows)
    after = regulation[-1] + drawn[-1] + noisy[-1]
    return LoopCost(
        regulation=float(np.sum(regulation[:-1])),
        disturbance=float(np.sum(drawn[:-1])),
        privacy=float(np.sum(noisy[:-1])),
        terminal=float(np.sum(after)),
    )


def _mean_errors(
    loop: LoopData, signals: LoopSignals, rows: Rows, *names: str
) -> NDArray:
    """Rows of (x - target, u - ud) as (T + 1, k), for drives that trials share.

    After the run the last target counts.
    """
    drives = signals.shared
    if names:
        drives = {name: signals.shared[name] for name in names}
    runs = loop.dynamics.errors(rows, drives, signals.samples, signals.initial)
    errors = runs[:, :, 0]
    weighed = rows.weighed[: loop.side.plant.order] | rows.last.any(axis=0)
    open_ones = np.isnan(signals.target).any(axis=0) & weighed
    if open_ones.any():
        states = [loop.side.plant.states[k] for k in np.flatnonzero(open_ones)]
        raise ValueError(
            "target: this loop follows a reference, which fixes no goal for "
            f"{', '.join(states)}; pass target= with the goals of all "
            f"{loop.side.plant.order} states, (n,) or (n, T), to count errors from"
        )
    target = np.nan_to_num(signals.target)
    goal = np.hstack([target, signals.feedforward])
    each = rows.each if rows.each.ndim == 2 else rows.each[: len(goal)]
    errors[:-1] -= (
        (each @ goal[:, :, None])[:, :, 0] if each.ndim == 3 else goal @ each.T
    )
    errors[-1] -= rows.last @ target[-1]
    return errors


def _start_variances(loop: LoopData, signals: LoopSignals, rows: Rows) -> NDArray:
    """Variances (T + 1, k) that the initial state's covariance causes."""
    if not signals.start.size:
        return np.zeros((signals.samples + 1, rows.height))
    return _squares(loop.dynamics.errors(rows, {}, signals.samples, signals.start))


def _noise_variances(loop: LoopData, signals: LoopSignals, rows: Rows) -> NDArray:
    """Variances (T + 1, k) that the output noise causes."""
    samples = signals.samples
    if loop.noise is None:
        return np.zeros((samples + 1, rows.height))
    noise = loop.noise.process
    filtered = noise.total.part(Filtered)
    if isinstance(filtered, Filtered):
        known = {"noise": np.eye(noise.outputs)}
        total = loop.dynamics.variances(
            rows, known, samples, filtered.system, filtered.state_root
        )
    else:
        total = _response_variances(loop, rows, noise.responses[:samples])
    total = noise.law.unit_variance * total
    if noise.total.white.any():
        fresh = {"noise": np.diag(noise.total.white)}
        law = GaussianLaw() if noise.is_mixed else noise.law
        total += law.unit_variance * _fresh_variances(loop, rows, fresh, samples)
    return total


def _response_variances(
    loop: LoopData, rows: Rows, columns: NDArray, drive: str = "noise"
) -> NDArray:
    """Variances (T + 1, k) that columns (T, p, q) of a drive cause, of unit variance.

    They are computed a group of columns at a time.
    """
    samples = len(columns)
    held = samples * rows.height + loop.dynamics.size
    total = np.zeros((samples + 1, rows.height))
    width = max(1, BLOCK // held)
    for start in range(0, columns.shape[2], width):
        group = columns[:, :, start : start + width]
        errors = loop.dynamics.errors(rows, {drive: group}, samples)
        total += _squares(errors)
    return total


def _fresh_variances(
    loop: LoopData, rows: Rows, factors: Mapping[str, NDArray], samples: int
) -> NDArray:
    """Variances (T + 1, k) by drives drawn at each sample, of covariance F F'."""
    dynamics = loop.dynamics
    varies = dynamics.varies or loop.weights.samples is not None
    if factors and varies and not loop.law.recalls:
        return dynamics.variances(rows, factors, samples)
    total = np.zeros((samples + 1, rows.height))
    for name, factor in factors.items():
        if loop.law.recalls:
            stacked = np.broadcast_to(factor, (samples, *factor.shape[-2:]))
            columns = np.einsum("ts,tpq->tpsq", np.eye(samples), stacked)
            each = columns.reshape(samples, factor.shape[-2], -1)
            total += _response_variances(loop, rows, each, name)
            continue
        # a loop that stays the same answers all samples as it answers the first
        impulse = np.zeros((samples, *factor.shape))
        impulse[0] = factor
        states, published = dynamics.run(AT_REST, {name: impulse}, samples)
        answers = _squares(rows.during(states, published))
        total[:-1] += np.cumsum(answers, axis=0)
        total[-1] += np.sum(_squares(rows.after(states[1:])), axis=0)
    return total


def _squares(answers: NDArray) -> NDArray:
    """Sums of squares (T, k) over the runs of errors (T, k, q)."""
    return np.einsum("tkq,tkq->tk", answers, answers)


# -- in steady state, and under the law of the design ----------------------------------


def steady_state_cost(loop: LoopData) -> LoopCost:
    """Return the expected cost of a sample in steady state, with zero reference."""
    rows = loop.weights.cost_root
    quiet, noisy = (variances.sum() for variances in _steady_variances(loop, rows))
    return LoopCost(0.0, float(quiet), float(noisy))


def steady_state_errors(loop: LoopData) -> tuple[NDArray, NDArray]:
    """Return E x_i^2 (n,) in steady state without the noise, and what it adds."""
    n = loop.side.plant.order
    return _steady_variances(loop, np.eye(n, n + len(loop.side.controls)))


def output_variances_of(loop: LoopData) -> NDArray:
    """Return the variances (p,) of the true outputs in steady state, without the noise."""
    plant, dynamics = loop.side.plant, loop.dynamics
    factors = loop.weights.drive_roots
    if not factors or not dynamics.stable:
        raise ValueError(
            "loop: expected a stable loop with QN and RN, whose outputs have a variance; "
            "leave it out to compare the noise with the secret alone"
        )
    inputs = plant.D[:, list(loop.side.controls)]
    return output_variances(dynamics.steady(np.hstack([plant.C, inputs]), factors))


def _steady_variances(loop: LoopData, rows: NDArray) -> tuple[NDArray, NDArray]:
    """Variances (k,) of rows of (x, u) by QN and RN, and by the output noise."""
    dynamics = loop.dynamics
    sensed = dynamics.steady(rows, {"noise": np.eye(dynamics.outputs)})
    quiet = np.zeros(len(rows))
    noisy = np.zeros(len(rows))
    factors = loop.weights.drive_roots
    if factors:
        quiet = output_variances(dynamics.steady(rows, factors))
    if loop.noise is None:
        return quiet, noisy
    if loop.noise.horizon.ends:
        raise ValueError(
            f"noise: it ends after {loop.noise.horizon} samples, so the loop has no "
            "steady state; design noise with horizon=np.inf, or ask for cost() and "
            "mean_square_error()"
        )
    model = finite_model(loop.noise.process.total)
    return quiet, output_variances(sensed.after(model))


class Expected(ABC):
    """What costs of a loop are expected over, with disturbances of QN and RN."""

    @staticmethod
    def of(loop: LoopData, P0: NDArray | None = None) -> Expected:
        """Return what the costs of a loop with noise are expected over.

        That is a run of its horizon with the covariance P0 of x(0), or a sample in steady
        state where it never ends.
        """
        if loop.never_ends:
            return InSteadyState()
        return OverRun(P0, loop.private_noise.timepts)

    @abstractmethod
    def cost(self, loop: LoopData) -> LoopCost:
        """Return the expected cost of a loop, infinite without a steady state."""

    @abstractmethod
    def errors(self, loop: LoopData) -> tuple[NDArray, NDArray]:
        """Return E (x_i - xd_i)^2 (n, T) without the noise, and what it adds."""

    @abstractmethod
    def output_squares(self, loop: LoopData) -> NDArray:
        """Return E y_i^2 (p,) of the true outputs without the noise, the mean of a run."""

    @abstractmethod
    def is_known(self, loop: LoopData) -> bool:
        """Return whether a loop has such costs."""

    def total(self, loop: LoopData) -> float:
        """Return what a loop costs, with what its state costs after the run."""
        cost = self.cost(loop)
        return cost.total + cost.terminal


@dataclass(frozen=True)
class InSteadyState(Expected):
    """A sample of a loop that never stops, with zero reference."""

    def cost(self, loop: LoopData) -> LoopCost:
        if not self.is_known(loop):
            return LoopCost(0.0, math.inf, 0.0)
        return steady_state_cost(loop)

    def errors(self, loop: LoopData) -> tuple[NDArray, NDArray]:
        quiet, noisy = steady_state_errors(loop)
        return quiet[:, None], noisy[:, None]

    def output_squares(self, loop: LoopData) -> NDArray:
        return output_variances_of(loop)

    def is_known(self, loop: LoopData) -> bool:
        return loop.dynamics.stable


@dataclass(frozen=True)
class OverRun(Expected):
    """A run as `PrivateLoop.cost` takes it.

    The initial state has the covariance P0, and is known without one.
    """

    P0: NDArray | None
    timepts: NDArray
    reference: ArrayLike | None = None
    initial_state: ArrayLike | None = None

    def _run(self, loop: LoopData) -> tuple[LoopData, LoopSignals]:
        drawn: RunSignals = {"initial_state": self.initial_state}
        if loop.weights.QN is not None:
            drawn["disturbance"] = "design"
        if loop.weights.RN is not None:
            drawn["measurement_noise"] = "design"
        over, signals = over_run(loop, self.timepts, self.reference, **drawn)
        if self.P0 is not None:
            signals = replace(signals, start=singular_root(self.P0))
        return over, signals

    def cost(self, loop: LoopData) -> LoopCost:
        return expected_cost(*self._run(loop))

    def errors(self, loop: LoopData) -> tuple[NDArray, NDArray]:
        return mean_square_errors(*self._run(loop))

    def output_squares(self, loop: LoopData) -> NDArray:
        return output_squares(*self._run(loop))

    def is_known(self, loop: LoopData) -> bool:
        return True


@lru_cache(maxsize=2)  # a co-design asks again when it is asked how good it is
def expected_total(loop: LoopData) -> float:
    """Return the cost of a loop with its prior, QN and RN and zero reference.

    The terminal term counts. Without a horizon it is the cost of a sample.
    """
    return Expected.of(loop, loop.known_design.P0).total(loop)


# -- margins of a prediction -----------------------------------------------------------

# The part of a prediction's error that the privacy noise causes is nearly one random
# vector eta for the whole run, so its margin need not grow with the run. With F_t = I +
# S' H_t S the vector F_t (eta - etahat_t) has independent increments and covariance F_t.
# In an epoch in which F_t <= q F_start Levy's inequality bounds all samples by the last
# one. The rest of the error counts by samples.

#: Shares of the probability for the privacy noise, and largest number of epochs, that
#: are tried.
_SHARES = np.linspace(0.01, 0.99, 99)
_EPOCHS = 12


def margins(
    loop: LoopData, direction: NDArray, probability: float, samples: Run
) -> NDArray:
    """Margins (T,) of `PrivateLoop.margins`."""
    known = knowledge(loop)
    if loop.never_ends and isinstance(known, Knowledge):
        covariances = known.settling(samples)
    else:
        covariances = known.covariances(samples, predicted=True)
    variances = along(covariances, direction)
    noise = loop.noise
    law = GaussianLaw() if noise is None else noise.process.law
    entries = 0
    if noise is not None:
        entries = noise.process.total.once
        if not noise.process.is_mixed:  # a floor next to radial noise is Gaussian
            entries += samples * noise.process.total.width
    best = law.multiple(probability / samples, entries) * np.sqrt(variances)
    if noise is None or not noise.process.total.consists_of(Structured, White):
        return best
    if noise.factor is None:
        return best
    rest, caused, read = _apart(loop, direction, samples)
    rank = noise.factor.shape[1]
    by_sample = {}
    for share in _SHARES:
        spent = probability * (1 - share) / (2 * samples)
        by_sample[share] = norm.isf(spent) * rest
    for growth, epochs in _epochs(read):
        tails = probability * _SHARES / epochs
        radii = np.sqrt(growth) * law.radii(tails, rank, alone=epochs == 1)
        for own, radius in zip(by_sample.values(), radii, strict=True):
            found = own + radius * caused
            known = np.isfinite(found) & np.isfinite(best)
            if found[known].sum() < best[known].sum():
                best = found
    return best


def sure_margins(
    loop: LoopData, direction: NDArray, probability: float, samples: Run
) -> NDArray:
    """Margins (T,) in which the privacy noise has its share for sure.

    The prediction's error is a'eta + r with eta in its ball of a radius R and r
    independent of it, so |a| R counts with certainty, and r by samples.
    """
    noise = loop.noise
    room = None
    if noise is not None and noise.kept is not None:
        room = room_of(noise.parts, noise.kept)
    if noise is None or noise.factor is None or not isinstance(room, Once):
        raise ValueError(
            "sure: expected structured noise within a bound (bound= of "
            "design_output_noise), got other noise; leave sure out"
        )
    fresh, caused, _ = _apart(loop, direction, samples)
    fixed = _share_of_entries(loop, direction, samples)
    rest = np.sqrt(np.maximum(fresh**2 + caused**2 - fixed**2, 0.0))
    tail = float(norm.isf(probability / (2 * samples)))
    return room.radius * fixed * (1 + ROUNDED) + tail * rest


def _share_of_entries(loop: LoopData, direction: NDArray, samples: Run) -> NDArray:
    """Return |a| (T,) of the prediction's error a'eta + r, eta drawn once."""
    noise = loop.private_noise
    factor = present(noise.factor, "factor")
    plant = loop.side.plant
    known = Knowledge.of(plant, loop.weights, noise, loop.known_design.P0, kind=White)
    shares = np.empty(samples)
    for t, (before, _) in enumerate(known.told_of(factor, samples)):
        errors, told = before
        turn, _ = told.halves()
        shares[t] = np.linalg.norm(turn @ (turn.T @ (direction @ errors)))
    return shares


def knowledge(loop: LoopData) -> Knowledge | DenseKnowledge:
    """Return what a loop's filter knows.

    `ValueError` unless it knows prior and noise, if there is noise.
    """
    design = loop.design
    if design is None or not (loop.knows_noise or loop.noise is None):
        raise ValueError(
            "the errors of this loop's observer are not those that it computes: it does "
            "not know the noise; private_lqg(P0=...) has a filter that does, and "
            "mean_square_error() is exact for every linear loop"
        )
    if not {"noise", "disturbance"} <= loop.weights.drive_roots.keys():
        raise ValueError(
            "QN, RN: the loop was not given them, so nothing is known of the errors; "
            "pass QN and RN (and P0) to private_loop, which then gives the controller an "
            "estimate"
        )
    return knowledge_of(loop.side.plant, loop.weights, loop.noise, design.P0)


def error_covariances(loop: LoopData, *, predicted: bool = False) -> NDArray:
    """Return read-only covariances (T, n, n) after the reading at t, or before it.

    They are (n, n) in steady state where no horizon is known.
    """
    found = knowledge(loop).covariances(loop.horizon, predicted=predicted)
    found.setflags(write=False)
    return found


class _Read(NamedTuple):
    """Hold what was read of the noise's vector, and V of its covariance V V'."""

    told: Told
    turn: NDArray  # (r, r)


def _apart(
    loop: LoopData, direction: NDArray, samples: Run
) -> tuple[NDArray, NDArray, list[_Read]]:
    """Return what causes the error d'(x - prediction) of each sample.

    Deviations (T,) of what is drawn again, deviations (T,) that the noise's one vector
    causes, and what was read of it before each sample.
    """
    noise = loop.private_noise
    design = loop.known_design
    factor = present(noise.factor, "factor") * math.sqrt(
        noise.process.law.unit_variance
    )
    known = Knowledge.of(loop.side.plant, loop.weights, noise, design.P0, kind=White)
    rest = np.sqrt(along(known.covariances(samples, predicted=True), direction))
    caused = np.empty(samples)
    read = []
    for t, (before, _) in enumerate(known.told_of(factor, samples)):
        errors, told = before
        turn, _ = told.halves()
        read.append(_Read(told, turn))
        caused[t] = np.linalg.norm(direction @ errors @ turn)
    return rest, caused, read


def _epochs(read: Sequence[_Read]) -> list[tuple[float, float]]:
    """Growths q, and by what each multiplies the probability of a tail."""
    last = read[-1].told
    rank, unknown = last.open.shape
    if unknown == rank and np.linalg.norm(last.root) <= FINE:
        # one vector, whose law stays the same up to rounding: its estimate is hundreds
        # of times smaller than what is added here
        return [(1 + ROUNDED, 1.0)]
    high = _largest_growth(read) * (1 + ROUNDED)
    found = []
    for count in range(1, _EPOCHS + 1):
        if _count(read, high, count) > count:
            continue
        low = 1.0
        while count > 1 and high > low * (1 + ROUGH):
            tried = math.sqrt(low * high)
            if _count(read, tried, count) <= count:
                high = tried
            else:
                low = tried
        found.append((high, 2.0 * count))
    return found


def _largest_growth(read: Sequence[_Read]) -> float:
    """The largest growth between samples before and after which as much is exact."""
    largest = 1.0
    start = 0
    while start < len(read):
        known = read[start].told.open.shape[1]
        end = start
        while end + 1 < len(read) and read[end + 1].told.open.shape[1] == known:
            end += 1
        largest = max(largest, _growth(read[start], read[end]))
        start = end + 1
    return largest


def _count(read: Sequence[_Read], growth: float, most: int) -> int:
    """Number of epochs of a growth, as soon as it exceeds ``most``."""
    start = 0
    count = 0
    while start < len(read) and count <= most:
        count += 1
        grown = partial(_growth, read[start])
        start = bisect_right(read, growth, lo=start + 1, key=grown)
    return count


def _growth(first: _Read, last: _Read) -> float:
    """The least q with F of the last one at most q F of the first one.

    F is the information about the noise's vector. It is infinite where something is
    known exactly, so q is, where more of it is than before.
    """
    if last.told.open.shape[1] < first.told.open.shape[1]:
        return math.inf
    rows = np.vstack([first.turn, last.told.root @ first.turn])
    return float(np.linalg.norm(rows, 2) ** 2)


def along(covariances: NDArray, direction: NDArray) -> NDArray:
    """Variances (T,) of one direction, infinite where something of it is unknown."""
    used = np.flatnonzero(direction)
    own = covariances[:, used[:, None], used]
    variances = own @ direction[used] @ direction[used]
    return np.where(np.isfinite(variances), variances, np.inf)
