"""Exact second moments of a private loop over its horizon, without a single draw."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ..channel.endless_noise import Filtered
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


def mean_square_error(loop: PrivateLoop, signals: LoopSignals) -> NDArray:
    """E (x_i(t) - target_i(t))^2 as (n, T)."""
    quiet, noisy = _square_errors(loop, signals)
    return quiet + noisy


def _square_errors(
    loop: PrivateLoop, signals: LoopSignals, P0: NDArray | None = None
) -> tuple[NDArray, NDArray]:
    """Mean square errors (n, T) without the privacy noise, and what the noise adds."""
    n = loop.plant.order
    m = len(loop.controls)
    rows = np.eye(n, n + m)
    mean = _mean_errors(loop, signals, rows)
    quiet = mean**2
    quiet += _start_variances(loop, signals, rows, P0)
    quiet += _fresh_variances(loop, rows, signals.roots, signals.samples)
    return quiet.T, _noise_variances(loop, signals, rows).T


def expected_cost(
    loop: PrivateLoop, signals: LoopSignals, P0: NDArray | None = None
) -> LoopCost:
    """The cost over the signals' samples, with an initial state of covariance P0 (n, n)."""
    rows = loop.weights.cost_root
    calm = _mean_errors(loop, signals, rows, "reference")
    regulation = np.sum(calm**2)
    uncertain = _start_variances(loop, signals, rows, P0)
    drawn = _fresh_variances(loop, rows, signals.roots, signals.samples)
    disturbance = np.sum(drawn)
    if len(signals.shared) > 1:
        disturbed = _mean_errors(loop, signals, rows)
        disturbance += np.sum(disturbed**2) - regulation
    noisy = _noise_variances(loop, signals, rows)
    return LoopCost(
        regulation=float(regulation + np.sum(uncertain)),
        disturbance=float(disturbance),
        privacy=float(np.sum(noisy)),
    )


def _mean_errors(
    loop: PrivateLoop, signals: LoopSignals, rows: NDArray, *names: str
) -> NDArray:
    """Rows applied to (x - target, u - ud), as (T, k), for some or all drives that trials share."""
    drives = signals.shared
    if names:
        drives = {name: signals.shared[name] for name in names}
    runs = loop.dynamics.errors(rows, drives, signals.samples, signals.initial)
    followed = runs[:, :, 0]
    goal = np.hstack([signals.target, signals.feedforward])
    return followed - goal @ rows.T


def _start_variances(
    loop: PrivateLoop, signals: LoopSignals, rows: NDArray, P0: NDArray | None
) -> NDArray:
    """Variances (T, k) that the initial state's covariance causes."""
    if P0 is None:
        return np.zeros((signals.samples, len(rows)))
    n = len(P0)
    start = np.zeros((len(signals.initial), n))
    start[:n] = root(P0)
    errors = loop.dynamics.errors(rows, {}, signals.samples, start)
    return _squares(errors)


def _noise_variances(loop: PrivateLoop, signals: LoopSignals, rows: NDArray) -> NDArray:
    """Variances (T, k) that the output noise causes."""
    samples = signals.samples
    noise = loop.noise
    if noise is None:
        return np.zeros((samples, len(rows)))
    filtered = noise.part(Filtered)
    if isinstance(filtered, Filtered):
        total = _filtered_variances(loop, rows, filtered, samples)
    else:
        total = _response_variances(loop, rows, noise.responses[:samples])
    if noise.white.any():
        fresh = {"noise": np.diag(noise.white)}
        total += _fresh_variances(loop, rows, fresh, samples)
    return noise.unit_variance * total


def _filtered_variances(
    loop: PrivateLoop, rows: NDArray, part: Filtered, samples: int
) -> NDArray:
    """Variances (T, k) that noise of a linear system causes, by the covariance of loop and noise together."""
    both = loop.dynamics.sensed(rows).after(part.system)
    covariance = np.zeros((both.order, both.order))
    k = part.system.order
    covariance[:k, :k] = part.state_root @ part.state_root.T
    direct = np.sum(both.D**2, axis=1)
    fresh = both.B @ both.B.T
    A = both.A
    total = np.empty((samples, len(rows)))
    for t in range(samples):
        sensed = both.C @ covariance
        total[t] = np.sum(sensed * both.C, axis=1) + direct
        covariance = A @ covariance @ A.T
        covariance += fresh
    return total


def _response_variances(loop: PrivateLoop, rows: NDArray, columns: NDArray) -> NDArray:
    """Variances (T, k) that noise columns (T, p, q) of unit variance cause, a group of columns at a time."""
    samples = len(columns)
    numbers = samples * len(loop.dynamics.A)
    total = np.zeros((samples, len(rows)))
    width = max(1, _GROUP // numbers)
    for start in range(0, columns.shape[2], width):
        group = columns[:, :, start : start + width]
        errors = loop.dynamics.errors(rows, {"noise": group}, samples)
        total += _squares(errors)
    return total


def _fresh_variances(
    loop: PrivateLoop, rows: NDArray, factors: Mapping[str, NDArray], samples: int
) -> NDArray:
    """Variances (T, k) that drives cause of which each sample is drawn afresh, with covariances F F'."""
    if not factors:
        return np.zeros((samples, len(rows)))
    width = sum(factor.shape[1] for factor in factors.values())
    impulses = {}
    start = 0
    for name, factor in factors.items():
        size, count = factor.shape
        impulses[name] = np.zeros((samples, size, width))
        impulses[name][0, :, start : start + count] = factor
        start += count
    errors = loop.dynamics.errors(rows, impulses, samples)
    return np.cumsum(_squares(errors), axis=0)


def _squares(answers: NDArray) -> NDArray:
    """Sums of squares (T, k) over the runs of errors (T, k, q)."""
    return np.einsum("tkq,tkq->tk", answers, answers)


@dataclass(frozen=True)
class Expected:
    """An initial state of covariance P0 and the signals given to `PrivateLoop.cost`."""

    P0: NDArray
    given: dict[str, Any]

    @property
    def start_moment(self) -> NDArray:
        """E x(0) x(0)' (n, n)."""
        mean = self.given.get("initial_state")
        if mean is None:
            return self.P0
        return self.P0 + np.outer(mean, mean)

    def cost(self, loop: PrivateLoop) -> LoopCost:
        """The expected cost of a loop, over draws of the initial state too."""
        signals = LoopSignals.of(loop, **self.given, **_DRAWN)
        return expected_cost(loop, signals, self.P0)

    def errors(self, loop: PrivateLoop) -> tuple[NDArray, NDArray]:
        """E (x_i - xd_i)^2 (n, T) without the privacy noise, and what the noise adds."""
        signals = LoopSignals.of(loop, **self.given, **_DRAWN)
        return _square_errors(loop, signals, self.P0)
