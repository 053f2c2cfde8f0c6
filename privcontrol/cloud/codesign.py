"""Gains and noise shape designed for each other, never worse than the loop that was given or than no control.

For structured noise no Riccati equation applies: the noise is a free response of the plant that no observer tells
from the state, over a finite horizon. The gains follow the exact gradient of the cost instead, and stay stabilising.
The cost is not convex, so that the descent starts from several points.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property, partial

import numpy as np
from numpy.typing import NDArray

from ..channel._lti import LinearSystem
from ..channel.design import designed
from ..core._progress import progress_bar
from .checks import present, root
from .controller import ObserverFeedback
from .dynamics import march
from .gains import feedback_gain_of, observer_gain
from .loop import PrivateLoop

#: Turns of gains and noise shape, and steps of one descent, at most.
_ROUNDS = 20
_STEPS = 200
#: A step that lowers the cost by less than this part of the tolerance ends a descent.
_STEP_STALL = 1e-2
#: Tolerance of the descents by which the starts are compared.
_ROUGH = 0.1
#: Weight of the barrier that keeps the poles inside the unit circle.
_BARRIER = 0.01
#: Prices of the inputs, relative to those given, of gains to start from.
_CALM = (1.0, 10.0, 100.0)
#: Starts that are followed to the end.
_KEPT = 2
#: How far outside the unit circle rounding may throw the poles of a chain of integrators.
_ROUNDED = 1e-6

Gains = tuple[NDArray, NDArray]


def codesigned(
    loop: PrivateLoop, P0: NDArray, tolerance: float = 1e-3, progress: bool = False
) -> PrivateLoop:
    """The loop with gains and noise chosen in turns.

    Its history starts from the separate design. The turns end when one lowers the cost
    by less than ``tolerance`` of it.
    """
    if loop.noise is None or loop.noise.request is None:
        raise ValueError(
            "codesign: expected noise from design_output_noise to start from, got none; "
            "pass noise=..."
        )
    separate = ("separate design", _cost_of(loop, P0))
    ends = [replace(loop, history=(separate,))]
    silent = silenced(loop)
    if silent is not None:
        without = ("no measurements", _cost_of(silent, P0))
        ends.append(replace(silent, history=(separate, without)))
    makers = _start_gains(loop)
    starts = []
    with progress_bar(len(makers) + _KEPT, progress, "start") as bar:
        for label, make in makers.items():
            K, L = make()
            shaped = reshaped(loop.with_gains(K, L))
            run = _descent(GainProblem(shaped, P0).at(K, L), _BARRIER, _ROUGH)
            history = (separate, (label, run.cost))
            starts.append(replace(run.loop, history=history))
            bar.update(1)
        starts.sort(key=_last_cost)
        for start in starts[:_KEPT]:
            ends.append(_alternated(start, P0, tolerance))
            bar.update(1)
    return min(ends, key=_last_cost)


def _last_cost(loop: PrivateLoop) -> float:
    """The cost at the end of a loop's history."""
    return loop.history[-1][1]


def _cost_of(loop: PrivateLoop, P0: NDArray) -> float:
    """The cost of a loop over its noise's horizon."""
    return GainProblem(loop, P0).at(*gains_of(loop)).cost


def _start_gains(loop: PrivateLoop) -> dict[str, Callable[[], Gains]]:
    """Functions that make gains K and L near good ones, by what they are."""
    plant = loop.plant
    weights = loop.weights
    noise = loop.private_noise
    covariance = np.einsum("tpq,trq->pr", noise.responses, noise.responses)
    average = noise.unit_variance * (
        covariance / noise.horizon + np.diag(noise.white**2)
    )
    noisy = replace(weights, RN=present(weights.RN, "RN") + average)

    def tuned() -> Gains:
        family = noise.request.family.removeprefix("iid-")
        independent = designed(noise.request, plant, family=f"iid-{family}")
        K, _ = gains_of(loop)
        L, _ = observer_gain(plant, weights, independent, loop.form)
        return K, L

    def calm(factor: float) -> Gains:
        price = factor * present(weights.R, "R")
        dearer = replace(weights, R=price, N=None)
        K = feedback_gain_of(plant, list(loop.controls), dearer)
        L, _ = observer_gain(plant, noisy, None, loop.form)
        return K, L

    makers: dict[str, Callable[[], Gains]] = {
        "gains of the separate design": lambda: gains_of(loop),
        "gains tuned to independent noise": tuned,
    }
    for factor in _CALM:
        label = f"gains for inputs {factor:g} times as dear"
        makers[label] = partial(calm, factor)
    return makers


def silenced(loop: PrivateLoop) -> PrivateLoop | None:
    """The observer loop with L = 0, or None if its plant is strictly unstable."""
    K, L = gains_of(loop)
    silent = loop.with_gains(K, np.zeros_like(L))
    if np.abs(silent.poles()).max() > 1 + _ROUNDED:
        return None
    return silent


def _alternated(loop: PrivateLoop, P0: NDArray, tolerance: float) -> PrivateLoop:
    """Gains and noise in turns until a round lowers the cost no more."""
    for _ in range(_ROUNDS):
        before = _last_cost(loop)
        run = descend(GainProblem(loop, P0), *gains_of(loop), tolerance)
        if run.cost < before:
            loop = replace(run.loop, history=(*loop.history, ("gains", run.cost)))
        shaped = reshaped(loop)
        if shaped is not loop:
            history = (*loop.history, ("noise shape", _cost_of(shaped, P0)))
            loop = min(loop, replace(shaped, history=history), key=_last_cost)
        if _last_cost(loop) > before * (1 - tolerance):
            break
    return loop


def reshaped(loop: PrivateLoop) -> PrivateLoop:
    """The loop with the noise of its request that costs this loop least."""
    noise = loop.private_noise
    if not noise.responses.size:
        return loop  # independent noise has no shape
    if not all(gain.any() for gain in gains_of(loop)):
        return loop  # no noise costs a loop that ignores its measurements
    return replace(loop, noise=designed(noise.request, loop.plant, weight=loop))


def gains_of(loop: PrivateLoop) -> Gains:
    """K and L of an observer loop."""
    law = _observer_of(loop)
    return law.K, law.L


def _observer_of(loop: PrivateLoop) -> ObserverFeedback:
    """The controller of an observer loop."""
    if not isinstance(loop.law, ObserverFeedback):
        raise TypeError("codesign: expected a loop of an observer and a state feedback")
    return loop.law


class GainProblem:
    """The expected cost of a loop over its noise's horizon as a function of the gains, with its exact gradient.

    Runs side by side, as columns: the initial state's root covariance, the disturbance's (which is an initial state
    one sample later), fresh measurement and output noise as an impulse, and structured noise. A column that recurs at
    every sample counts at age k as often as that age occurs in the horizon.

    Parameters
    ----------
    loop : PrivateLoop
    P0 : ndarray, shape (n, n)
        Covariance of the initial state.
    """

    def __init__(self, loop: PrivateLoop, P0: NDArray) -> None:
        noise = loop.private_noise
        horizon = noise.horizon
        n = loop.plant.order
        p = len(loop.plant.C)
        size = np.sqrt(noise.unit_variance)
        fresh = np.diag((size * noise.white) ** 2)
        fresh += present(loop.RN, "RN")
        structured = size * noise.responses
        impulse = np.zeros((horizon, p, p))
        impulse[0] = root(fresh)
        disturbed = loop.weights.noise_roots["QN"]
        starting = np.hstack([root(P0), disturbed])
        start = starting.shape[1]
        undriven = np.zeros((horizon, p, start))
        self.loop = loop
        self.P0 = P0
        self.noise = np.concatenate([undriven, impulse, structured], axis=2)
        columns = self.noise.shape[2]
        self.initial = np.zeros((2 * n, columns))
        self.initial[:n, :start] = starting
        left = np.arange(horizon, 0, -1)[:, None]
        self.counts = np.ones((horizon, columns))
        self.counts[:, n:start] = left - 1
        self.counts[:, start : start + p] = left

    @cached_property
    def scales(self) -> Gains:
        """Typical sizes of the entries of K and L, so that units do not matter to the descent."""
        C = self.loop.plant.C
        disturbed = self.loop.weights.noise_roots["QN"]
        covariance = self.P0 + disturbed @ disturbed.T
        state = np.sqrt(covariance.diagonal())
        state = np.maximum(state, 1e-6 * state.max())
        state = _positive(state)
        seen = C @ covariance @ C.T
        seen += present(self.loop.RN, "RN")
        output = np.sqrt(seen.diagonal())
        output = _positive(output)
        K, _ = gains_of(self.loop)
        force = _positive(np.abs(K) @ state)
        return force[:, None] / state, state[:, None] / output

    @cached_property
    def state_scales(self) -> NDArray:
        """Typical sizes (2n,) of plant states and their estimates."""
        state = self.scales[1][:, 0]
        return np.concatenate([state, state]) / np.linalg.norm(state)

    def at(self, K: NDArray, L: NDArray) -> GainRun:
        """The columns under some gains, with their ``cost`` and ``gradient()``."""
        return GainRun(self, self.loop.with_gains(K, L))


@dataclass(frozen=True, eq=False)
class GainRun:
    """All columns of a `GainProblem` over the horizon, in the loop of one pair of gains."""

    problem: GainProblem
    loop: PrivateLoop

    @cached_property
    def signals(self) -> tuple[NDArray, NDArray]:
        """(x, xhat) as (T + 1, 2n, q), and what is published (T, p + m, q)."""
        problem = self.problem
        drives = {"noise": problem.noise}
        return self.loop.dynamics.run(problem.initial, drives, len(problem.noise))

    @cached_property
    def errors(self) -> NDArray:
        """Rows of the cost applied to (x, u) (T, k, q)."""
        return self.loop.dynamics.weighted(self.loop.weights.cost_root, *self.signals)

    @cached_property
    def cost(self) -> float:
        """Sum of the squared errors, each as often as it occurs."""
        return float(np.sum(self.problem.counts[:, None] * self.errors**2))

    def gradient(self) -> Gains:
        """Gradients with respect to K and L, by the adjoint of the recursion."""
        plant = self.loop.plant
        law = _observer_of(self.loop)
        dynamics = self.loop.dynamics
        rows = self.loop.weights.cost_root
        n = plant.order
        by_input = rows[:, n:]
        slope = 2 * self.problem.counts[:, None] * self.errors
        adjoint = dynamics.sensed(rows).C.T @ slope
        march(dynamics.A.T, adjoint[::-1])
        later = np.zeros_like(adjoint)
        later[:-1] = adjoint[1:]
        of_state, of_prediction = np.split(later, [n], axis=1)
        states, _ = self.signals
        state, predicted = np.split(states[:-1], [n], axis=1)
        innovation = plant.C @ (state - predicted) + self.problem.noise
        estimate = predicted + law.correct @ innovation
        B = plant.B[:, list(self.loop.controls)]
        of_next = of_state + of_prediction
        of_input = by_input.T @ slope + B.T @ of_next
        of_advance = _summed(of_prediction, innovation)
        of_correction = _summed(of_input, innovation)
        of_observer = self._by_observer(of_advance, of_correction)
        return -_summed(of_input, estimate), of_observer

    def _by_observer(self, of_advance: NDArray, of_correction: NDArray) -> NDArray:
        """Gradient with respect to L, from those with respect to what it does."""
        if self.loop.form == "predictor":
            return of_advance
        law = _observer_of(self.loop)
        return self.loop.plant.A.T @ of_advance - law.K.T @ of_correction

    @cached_property
    def _spreading(self) -> LinearSystem:
        """The loop with unit noise on every state, and every state as output, in the states' scales."""
        scales = self.problem.state_scales
        into = np.diag(scales)
        onto = np.diag(1 / scales)
        through = np.zeros_like(into)
        return LinearSystem(self.loop.dynamics.A, into, onto, through)

    @cached_property
    def margin(self) -> float:
        """Energy of all states in steady state, which has no bound as a pole nears the unit circle."""
        return float(np.sum(self._spreading.variances()))

    def margin_gradient(self) -> Gains:
        """Gradients of `margin` with respect to K and L."""
        plant = self.loop.plant
        n = plant.order
        system = self._spreading
        transposed = LinearSystem(system.A.T, system.C.T, system.B.T, system.D.T)
        spread = system.reachability_gramian()
        later = transposed.reachability_gramian()
        of_states = 2 * later @ self.loop.dynamics.A @ spread
        of_state, of_prediction = np.split(of_states, [n])
        B = plant.B[:, list(self.loop.controls)]
        of_input = B.T @ (of_state + of_prediction)
        innovation = np.hstack([plant.C, -plant.C])
        law = _observer_of(self.loop)
        estimate = law.correct @ innovation
        estimate[:, n:] += np.eye(n)
        of_advance = of_prediction @ innovation.T
        of_correction = of_input @ innovation.T
        of_observer = self._by_observer(of_advance, of_correction)
        return -of_input @ estimate.T, of_observer


def _positive(sizes: NDArray) -> NDArray:
    """Sizes with one in the place of zero."""
    return np.where(sizes > 0, sizes, 1.0)


def _summed(left: NDArray, right: NDArray) -> NDArray:
    """Sum over times and columns of left right^T."""
    return np.tensordot(left, right, ((0, 2), (0, 2)))


def descend(problem: GainProblem, K: NDArray, L: NDArray, tolerance: float) -> GainRun:
    """The best gains that quasi-Newton descents from stabilising ones find, first with the barrier.

    Without it the descent would often end where the loop is about to drift apart slowly.
    """
    start = problem.at(K, L)
    kept_inside = _descent(start, _BARRIER, tolerance)
    best = min(start, kept_inside, key=lambda run: run.cost)
    return _descent(best, 0.0, tolerance)


def _descent(run: GainRun, barrier: float, tolerance: float) -> GainRun:
    """Lower log cost + barrier * log margin by BFGS, among stabilising gains."""
    problem = run.problem
    K, L = gains_of(run.loop)
    scale = np.concatenate([part.ravel() for part in problem.scales])

    def run_at(point: NDArray) -> GainRun:
        by_K, by_L = np.split(point * scale, [K.size])
        return problem.at(by_K.reshape(K.shape), by_L.reshape(L.shape))

    def value(run: GainRun) -> float:
        if barrier == 0:
            return np.log(run.cost)
        return np.log(run.cost) + barrier * np.log(run.margin)

    def slope(run: GainRun) -> NDArray:
        parts = []
        for of_cost, of_margin in zip(run.gradient(), run.margin_gradient()):
            part = of_cost / run.cost + barrier * of_margin / run.margin
            parts.append(part.ravel())
        return np.concatenate(parts) * scale

    if not run.loop.dynamics.stable or not run.cost > 0:
        return run
    point = np.concatenate([K.ravel(), L.ravel()]) / scale
    level = value(run)
    gradient = slope(run)
    steepness = max(np.linalg.norm(gradient), np.finfo(float).tiny)
    inverse = np.eye(len(point)) * 0.1 / steepness
    for _ in range(_STEPS):
        direction = -inverse @ gradient
        expected = gradient @ direction
        step = 1.0
        moved = None
        while moved is None and step > 1e-12:
            trial = run_at(point + step * direction)
            enough = level + 1e-4 * step * expected
            if trial.loop.dynamics.stable and value(trial) < enough:
                moved = trial
            else:
                step /= 4
        if moved is None:
            break
        following = slope(moved)
        inverse = _bfgs(inverse, step * direction, following - gradient)
        point = point + step * direction
        gradient = following
        run = moved
        before = level
        level = value(moved)
        if before - level < _STEP_STALL * tolerance:
            break
    return run


def _bfgs(inverse: NDArray, step: NDArray, change: NDArray) -> NDArray:
    """The inverse Hessian after a step, unchanged where the curvature along it is not positive."""
    curvature = step @ change
    least = 1e-12 * np.linalg.norm(step) * np.linalg.norm(change)
    if curvature <= least:
        return inverse
    left = np.eye(len(step))
    left -= np.outer(step, change) / curvature
    along = np.outer(step, step) / curvature
    return left @ inverse @ left.T + along
