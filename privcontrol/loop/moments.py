"""Exact second moments of a private loop, over a horizon and in steady state."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..noise.parts import Filtered
from ..numerics.thresholds import BLOCK
from ..privacy.law import GaussianLaw
from ..systems.linear import output_variances, singular_root, stacks_of
from .data import LoopData, LoopSignals, over_run
from .dense_filter import DenseKnowledge
from .dynamics import AT_REST, Rows
from .kalman import Knowledge, finite_model
from .lqg import knowledge_of
from .side import RunSignals


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


def mean_square_errors(
    loop: LoopData, signals: LoopSignals
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return E (x_i(t) - target_i(t))^2 (n, T) without the noise, and what it adds."""
    n = loop.side.plant.order
    rows = Rows(np.eye(n, n + len(loop.side.controls)), np.eye(n))
    quiet = _quiet_squares(loop, signals, rows)
    noisy = _noise_variances(loop, signals, rows)
    return quiet[:-1].T, noisy[:-1].T


def output_squares(loop: LoopData, signals: LoopSignals) -> NDArray[np.float64]:
    """Return E y_i^2 (p,) of the true outputs without the noise, the mean of a run."""
    _, _, C, D = stacks_of(loop.side.plant)
    through = D[..., list(loop.side.controls)]
    rows = Rows(np.concatenate([C, through], axis=-1), np.zeros(C.shape[-2:]))
    return _quiet_squares(loop, signals, rows)[:-1].mean(axis=0)


def _quiet_squares(
    loop: LoopData, signals: LoopSignals, rows: Rows
) -> NDArray[np.float64]:
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
) -> NDArray[np.float64]:
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


def _start_variances(
    loop: LoopData, signals: LoopSignals, rows: Rows
) -> NDArray[np.float64]:
    """Variances (T + 1, k) that the initial state's covariance causes."""
    if not signals.start.size:
        return np.zeros((signals.samples + 1, rows.height))
    return _squares(loop.dynamics.errors(rows, {}, signals.samples, signals.start))


def _noise_variances(
    loop: LoopData, signals: LoopSignals, rows: Rows
) -> NDArray[np.float64]:
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
    loop: LoopData, rows: Rows, columns: NDArray[np.float64], drive: str = "noise"
) -> NDArray[np.float64]:
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
    loop: LoopData, rows: Rows, factors: Mapping[str, NDArray[np.float64]], samples: int
) -> NDArray[np.float64]:
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


def _squares(answers: NDArray[np.float64]) -> NDArray[np.float64]:
    """Sums of squares (T, k) over the runs of errors (T, k, q)."""
    return np.einsum("tkq,tkq->tk", answers, answers)


# -- in steady state, and under the law of the design ----------------------------------


def steady_state_cost(loop: LoopData) -> LoopCost:
    """Return the expected cost of a sample in steady state, with zero reference."""
    rows = loop.weights.cost_root
    quiet, noisy = (variances.sum() for variances in _steady_variances(loop, rows))
    return LoopCost(0.0, float(quiet), float(noisy))


def steady_state_errors(
    loop: LoopData,
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return E x_i^2 (n,) in steady state without the noise, and what it adds."""
    n = loop.side.plant.order
    return _steady_variances(loop, np.eye(n, n + len(loop.side.controls)))


def output_variances_of(loop: LoopData) -> NDArray[np.float64]:
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


def _steady_variances(
    loop: LoopData, rows: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
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
    def of(loop: LoopData, P0: NDArray[np.float64] | None = None) -> Expected:
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
    def errors(self, loop: LoopData) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return E (x_i - xd_i)^2 (n, T) without the noise, and what it adds."""

    @abstractmethod
    def output_squares(self, loop: LoopData) -> NDArray[np.float64]:
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

    def errors(self, loop: LoopData) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        quiet, noisy = steady_state_errors(loop)
        return quiet[:, None], noisy[:, None]

    def output_squares(self, loop: LoopData) -> NDArray[np.float64]:
        return output_variances_of(loop)

    def is_known(self, loop: LoopData) -> bool:
        return loop.dynamics.stable


@dataclass(frozen=True)
class OverRun(Expected):
    """A run as `PrivateLoop.cost` takes it.

    The initial state has the covariance P0, and is known without one.
    """

    P0: NDArray[np.float64] | None
    timepts: NDArray[np.float64]
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

    def errors(self, loop: LoopData) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        return mean_square_errors(*self._run(loop))

    def output_squares(self, loop: LoopData) -> NDArray[np.float64]:
        return output_squares(*self._run(loop))

    def is_known(self, loop: LoopData) -> bool:
        return True


@lru_cache(maxsize=2)  # a co-design asks again when it is asked how good it is
def expected_total(loop: LoopData) -> float:
    """Return the cost of a loop with its prior, QN and RN and zero reference.

    The terminal term counts. Without a horizon it is the cost of a sample.
    """
    return Expected.of(loop, loop.known_design.P0).total(loop)


# -- what the filter knows --------------------------------------------------------------


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


def error_covariances(
    loop: LoopData, *, predicted: bool = False
) -> NDArray[np.float64]:
    """Return read-only covariances (T, n, n) after the reading at t, or before it.

    They are (n, n) in steady state where no horizon is known.
    """
    found = knowledge(loop).covariances(loop.horizon, predicted=predicted)
    found.setflags(write=False)
    return found
