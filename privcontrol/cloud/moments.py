"""Exact second moments of a private loop over its horizon, without a single draw."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ..channel.endless_noise import Filtered
from ..trajectory.plant import Plant
from .checks import root
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

    Examples
    --------
    >>> import privcontrol as pc
    >>> pc.LoopCost(regulation=2.0, disturbance=0.5, privacy=1.5).total
    4.0
    """

    regulation: float
    disturbance: float
    privacy: float

    def __repr__(self) -> str:
        return (
            f"LoopCost({self.total:.6g}: regulation={self.regulation:.6g}, "
            f"disturbance={self.disturbance:.6g}, privacy={self.privacy:.6g})"
        )

    @property
    def total(self) -> float:
        """The whole expected cost."""
        return self.regulation + self.disturbance + self.privacy


def errors(
    loop: PrivateLoop,
    rows: NDArray,
    drives: Mapping[str, NDArray],
    samples: int,
    initial: NDArray | None = None,
) -> NDArray:
    """Rows (k, n + m) applied to (x, u) of runs side by side, as (T, k, q), from rest by default."""
    if initial is None:
        initial = np.zeros((len(loop.dynamics.A), 1))
    states, published = loop.dynamics.run(initial, drives, samples)
    return applied(rows, loop.plant, states[:-1], published)


def applied(
    rows: NDArray, plant: Plant, states: NDArray, published: NDArray
) -> NDArray:
    """Rows (k, n + m) applied to the plant's states and inputs, as (T, k, q)."""
    n = plant.order
    inputs = published[:, len(plant.C) :]
    return rows[:, :n] @ states[:, :n] + rows[:, n:] @ inputs


def mean_errors(
    loop: PrivateLoop, signals: LoopSignals, rows: NDArray, *names: str
) -> NDArray:
    """Rows applied to (x - target, u - ud), as (T, k), for some or all drives that trials share."""
    n = loop.plant.order
    goal = signals.target @ rows[:, :n].T + signals.feedforward @ rows[:, n:].T
    drives = signals.drives(*names)
    followed = errors(loop, rows, drives, signals.samples, signals.initial)
    return followed[:, :, 0] - goal


def noise_variances(loop: PrivateLoop, samples: int, rows: NDArray) -> NDArray:
    """Variances (T, k) that the output noise causes."""
    total = np.zeros((samples, len(rows)))
    noise = loop.noise
    if noise is None:
        return total
    filtered = noise.part(Filtered)
    if isinstance(filtered, Filtered):
        total += _filtered_variances(loop, rows, filtered, samples)
    elif noise.responses.size:
        total += _squares(loop, rows, noise.responses[:samples])
    if noise.white.any():
        total += _white(loop, rows, "noise", np.diag(noise.white), samples)
    return noise.unit_variance * total


def _filtered_variances(
    loop: PrivateLoop, rows: NDArray, part: Filtered, samples: int
) -> NDArray:
    """Variances (T, k) that noise of a linear system causes, by the covariance of loop and noise together."""
    sensed = loop.dynamics.sensed(rows, loop.plant.order)
    both = sensed.after(part.system)
    covariance = np.zeros((both.order, both.order))
    k = part.system.order
    covariance[:k, :k] = part.state_root @ part.state_root.T
    direct = np.sum(both.D**2, axis=1)
    fresh = both.B @ both.B.T
    total = np.empty((samples, len(rows)))
    for t in range(samples):
        total[t] = np.sum((both.C @ covariance) * both.C, axis=1) + direct
        covariance = both.A @ covariance @ both.A.T + fresh
    return total


def disturbance_variances(
    loop: PrivateLoop, signals: LoopSignals, rows: NDArray
) -> NDArray:
    """Variances (T, k) that the disturbances drawn from QN and RN cause."""
    total = np.zeros((signals.samples, len(rows)))
    for name, factor in signals.roots.items():
        drive = "noise" if name == "measurement" else name
        total += _white(loop, rows, drive, factor, signals.samples)
    return total


def _squares(loop: PrivateLoop, rows: NDArray, columns: NDArray) -> NDArray:
    """Sums of squares (T, k) of the errors that noise columns (T, p, q) cause, a group of columns at a time."""
    samples = len(columns)
    total = np.zeros((samples, len(rows)))
    width = max(1, _GROUP // (samples * len(loop.dynamics.A)))
    for start in range(0, columns.shape[2], width):
        group = {"noise": columns[:, :, start : start + width]}
        answers = errors(loop, rows, group, samples)
        total += np.einsum("tkq,tkq->tk", answers, answers)
    return total


def _white(
    loop: PrivateLoop, rows: NDArray, name: str, factor: NDArray, samples: int
) -> NDArray:
    """Variances (T, k) that fresh draws of covariance F F' at every sample cause."""
    impulse = np.zeros((samples, *factor.shape))
    impulse[0] = factor
    answers = errors(loop, rows, {name: impulse}, samples)
    return np.cumsum(np.einsum("tkq,tkq->tk", answers, answers), axis=0)


def mean_square_error(loop: PrivateLoop, signals: LoopSignals) -> NDArray:
    """E (x_i(t) - target_i(t))^2 as (n, T)."""
    n = loop.plant.order
    m = len(loop.controls)
    rows = np.eye(n, n + m)
    mean = mean_errors(loop, signals, rows)
    spread = noise_variances(loop, signals.samples, rows)
    spread += disturbance_variances(loop, signals, rows)
    return (mean**2 + spread).T


def expected_cost(loop: PrivateLoop, signals: LoopSignals) -> LoopCost:
    """The cost of loop.cost_root over the signals' samples."""
    rows = loop.cost_root
    calm = mean_errors(loop, signals, rows, "reference")
    regulation = float(np.sum(calm**2))
    disturbance = float(np.sum(disturbance_variances(loop, signals, rows)))
    if len(signals.shared) > 1:
        disturbed = mean_errors(loop, signals, rows)
        disturbance += float(np.sum(disturbed**2)) - regulation
    privacy = float(np.sum(noise_variances(loop, signals.samples, rows)))
    return LoopCost(regulation, disturbance, privacy)


@dataclass(frozen=True)
class Expected:
    """An initial state of covariance P0 and the signals given to `PrivateLoop.cost`."""

    P0: NDArray
    given: dict

    @property
    def start_moment(self) -> NDArray:
        """E x(0) x(0)' (n, n)."""
        mean = self.given.get("initial_state")
        if mean is None:
            return self.P0
        return self.P0 + np.outer(mean, mean)

    def cost(self, loop: PrivateLoop) -> LoopCost:
        """The expected cost of a loop, over draws of the initial state too."""
        cost = loop.cost(**self.given, **_DRAWN)
        regulation = cost.regulation
        for column in root(self.P0).T:
            start = loop.cost(self.given["timepts"], initial_state=column)
            regulation += start.regulation
        return replace(cost, regulation=regulation)

    def errors(self, loop: PrivateLoop) -> tuple[NDArray, NDArray]:
        """E (x_i - xd_i)^2 (n, T) without the privacy noise, and what the noise adds."""
        times = self.given["timepts"]
        noisy = loop.mean_square_error(times)
        public = loop.with_noise(None)
        quiet = public.mean_square_error(**self.given, **_DRAWN)
        for column in root(self.P0).T:
            quiet += public.mean_square_error(times, initial_state=column)
        return quiet, noisy
