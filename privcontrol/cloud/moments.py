"""Exact second moments of a private loop over its horizon, without a single draw."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ..channel.endless_noise import Filtered
from .checks import root
from .dynamics import Rows
from .signals import LoopSignals

if TYPE_CHECKING:
    from .loop import PrivateLoop

#: Numbers that the response of one group of columns may take, so that memory does not grow with their count.
_GROUP = 4_000_000
_DRAWN: dict[str, Any] = {"disturbance": "design", "measurement_noise": "design"}


@dataclass(frozen=True)
class LoopCost:
    """Expected LQ cost of a loop over a horizon, as a sum over its causes.

    Attributes
    ----------
    regulation : float
        Of reference and initial state alone.
    disturbance : float
        What disturbances add. One that is given as an array acts together with reference and initial state, and may then
        lower the cost.
    privacy : float
        What the output noise adds.
    terminal : float
        E x_T' S x_T after the last sample, which is not part of the total. S is the design's
        ``terminal`` weight, zero without one.

    Examples
    --------
    >>> from privcontrol.cloud import LoopCost
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


def mean_square_error(loop: PrivateLoop, signals: LoopSignals) -> NDArray:
    """E (x_i(t) - target_i(t))^2 as (n, T)."""
    quiet, noisy = _square_errors(loop, signals)
    return quiet + noisy


def _square_errors(loop: PrivateLoop, signals: LoopSignals) -> tuple[NDArray, NDArray]:
    """Mean square errors (n, T) without the privacy noise, and what the noise adds."""
    n = loop.plant.order
    m = len(loop.controls)
    rows = Rows(np.eye(n, n + m), np.eye(n))
    mean = _mean_errors(loop, signals, rows)
    quiet = mean**2
    quiet += _start_variances(loop, signals, rows)
    quiet += _fresh_variances(loop, rows, signals.roots, signals.samples)
    noisy = _noise_variances(loop, signals, rows)
    return quiet[:-1].T, noisy[:-1].T


def expected_cost(loop: PrivateLoop, signals: LoopSignals) -> LoopCost:
    """The cost over the signals' samples."""
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
    loop: PrivateLoop, signals: LoopSignals, rows: Rows, *names: str
) -> NDArray:
    """Rows applied to (x - target, u - ud), as (T + 1, k), for some or all drives that trials share.

    After the run the last target counts.
    """
    drives = signals.shared
    if names:
        drives = {name: signals.shared[name] for name in names}
    runs = loop.dynamics.errors(rows, drives, signals.samples, signals.initial)
    errors = runs[:, :, 0]
    target = _known_target(loop, signals, rows)
    goal = np.hstack([target, signals.feedforward])
    errors[:-1] -= goal @ rows.each.T
    errors[-1] -= rows.last @ target[-1]
    return errors


def _known_target(loop: PrivateLoop, signals: LoopSignals, rows: Rows) -> NDArray:
    """The target (T, n), refused where a state counts that has none."""
    weighed = rows.each[:, : loop.plant.order].any(axis=0) | rows.last.any(axis=0)
    open_ones = np.isnan(signals.target).any(axis=0) & weighed
    if open_ones.any():
        names = [loop.plant.states[k] for k in np.flatnonzero(open_ones)]
        raise ValueError(
            "target: this loop follows a reference, which does not say what "
            f"{', '.join(names)} is to be; pass target= with the goals of all "
            f"{loop.plant.order} states, (n,) or (n, T), to count errors from"
        )
    return np.nan_to_num(signals.target)


def _start_variances(loop: PrivateLoop, signals: LoopSignals, rows: Rows) -> NDArray:
    """Variances (T + 1, k) that the initial state's covariance causes."""
    if not signals.start.size:
        return np.zeros((signals.samples + 1, len(rows.each)))
    n, count = signals.start.shape
    start = np.zeros((loop.dynamics.size, count))
    start[:n] = signals.start
    errors = loop.dynamics.errors(rows, {}, signals.samples, start)
    return _squares(errors)


def _noise_variances(loop: PrivateLoop, signals: LoopSignals, rows: Rows) -> NDArray:
    """Variances (T + 1, k) that the output noise causes."""
    samples = signals.samples
    noise = loop.noise
    if noise is None:
        return np.zeros((samples + 1, len(rows.each)))
    filtered = noise.part(Filtered)
    if isinstance(filtered, Filtered):
        known = {"noise": np.eye(noise.outputs)}
        start = filtered.state_root @ filtered.state_root.T
        total = loop.dynamics.variances(rows, known, samples, filtered.system, start)
    else:
        total = _response_variances(loop, rows, noise.responses[:samples])
    if noise.white.any():
        fresh = {"noise": np.diag(noise.white)}
        total += _fresh_variances(loop, rows, fresh, samples)
    return noise.unit_variance * total


def _response_variances(
    loop: PrivateLoop, rows: Rows, columns: NDArray, drive: str = "noise"
) -> NDArray:
    """Variances (T + 1, k) that noise columns (T, p, q) of unit variance cause, a group of columns at a time."""
    samples = len(columns)
    numbers = samples * loop.dynamics.size
    total = np.zeros((samples + 1, len(rows.each)))
    width = max(1, _GROUP // numbers)
    for start in range(0, columns.shape[2], width):
        group = columns[:, :, start : start + width]
        errors = loop.dynamics.errors(rows, {drive: group}, samples)
        total += _squares(errors)
    return total


def _fresh_variances(
    loop: PrivateLoop, rows: Rows, factors: Mapping[str, NDArray], samples: int
) -> NDArray:
    """Variances (T + 1, k) that drives cause of which each sample is drawn afresh, with covariances F F'."""
    if not factors:
        return np.zeros((samples + 1, len(rows.each)))
    if loop.law.varies:
        if loop.observer is None or loop.observer.recall is None:
            return loop.dynamics.variances(rows, factors, samples)
        total = np.zeros((samples + 1, len(rows.each)))
        for name, factor in factors.items():
            columns = np.einsum("ts,pq->tpsq", np.eye(samples), factor)
            each = columns.reshape(samples, len(factor), -1)
            total += _response_variances(loop, rows, each, name)
        return total
    width = sum(factor.shape[1] for factor in factors.values())
    impulses = {}
    start = 0
    for name, factor in factors.items():
        size, count = factor.shape
        impulses[name] = np.zeros((samples, size, width))
        impulses[name][0, :, start : start + count] = factor
        start += count
    errors = loop.dynamics.errors(rows, impulses, samples)
    total = np.zeros((samples + 1, len(rows.each)))
    total[:-1] = np.cumsum(_squares(errors[:-1]), axis=0)
    if rows.last.any():
        states, _ = loop.dynamics.run(
            np.zeros((loop.dynamics.size, 1)), impulses, samples
        )
        final = rows.last @ states[1:, : loop.plant.order]
        total[-1] = np.sum(_squares(final), axis=0)
    return total


def _squares(answers: NDArray) -> NDArray:
    """Sums of squares (T, k) over the runs of errors (T, k, q)."""
    return np.einsum("tkq,tkq->tk", answers, answers)


@dataclass(frozen=True)
class Expected:
    """An initial state of covariance P0 and the signals given to `PrivateLoop.cost`."""

    P0: NDArray
    given: dict[str, Any]

    def _run(self, loop: PrivateLoop) -> tuple[PrivateLoop, LoopSignals]:
        loop, signals = loop._over_run(**self.given, **_DRAWN)
        return loop, replace(signals, start=root(self.P0))

    def cost(self, loop: PrivateLoop) -> LoopCost:
        """The expected cost of a loop, over draws of the initial state too."""
        return expected_cost(*self._run(loop))

    def errors(self, loop: PrivateLoop) -> tuple[NDArray, NDArray]:
        """E (x_i - xd_i)^2 (n, T) without the privacy noise, and what the noise adds."""
        return _square_errors(*self._run(loop))
