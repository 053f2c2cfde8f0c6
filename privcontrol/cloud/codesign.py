"""Gains and noise shape designed for each other, never worse than the loop that was given or than no control.

For structured noise no Riccati equation applies: the noise is a free response of the plant that no observer tells
from the state, over a finite horizon. The gains follow the exact gradient of the cost instead, and stay stabilising.
The cost is not convex. So the descent starts from several points, one of which comes from a much larger noise: there
the best loop hardly uses its measurements, and the noise is brought down to its size step by step.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property, partial

import numpy as np
from numpy.typing import NDArray

from ..core._progress import progress_bar
from .checks import Weights, present, root
from .controller import ObserverFeedback
from .dynamics import ClosedLoop, march
from .gains import feedback_gain_of, observer_gain
from .loop import PrivateLoop

#: Turns of gains and noise shape, and steps of one descent, at most.
_ROUNDS = 20
_STEPS = 200
#: A step that lowers the cost by less than this part of the tolerance ends a descent.
_STEP_STALL = 1e-2
#: Sizes of the noise that lead from a loop that ignores its measurements to the one that is wanted.
_SCALES = (64.0, 32.0, 16.0, 8.0, 4.0, 2.0, 1.4)
#: Tolerance of the steps on the way, which only have to stay near the best gains.
_ROUGH = 0.1
#: Weights of the barrier, from one descent to the next.
_BARRIERS = (0.1, 0.01, 0.001, 0.0)
_ROUGH_BARRIERS = (0.1, 0.01)
#: Doublings of the time over which a gramian is summed.
_DOUBLINGS = 40
#: Prices of the inputs, relative to those given, of gains to start from.
_CALM = (1.0, 10.0, 100.0)
#: Starts that are followed to the end.
_KEPT = 2
#: How far outside the unit circle rounding may throw the poles of a chain of integrators.
_ROUNDED = 1e-6


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
    makers = _start_gains(loop, P0)
    starts = []
    with progress_bar(len(makers) + _KEPT, progress, "start") as bar:
        for label, make in makers.items():
            K, L = make()
            shaped = reshaped(loop.with_gains(K, L))
            run = descend(GainProblem(shaped, P0), K, L, _ROUGH, _ROUGH_BARRIERS)
            history = (separate, (label, run.cost))
            starts.append(replace(shaped.with_gains(run.K, run.L), history=history))
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


Gains = tuple[NDArray, NDArray]


def _start_gains(loop: PrivateLoop, P0: NDArray) -> dict[str, Callable[[], Gains]]:
    """Functions that make gains K and L near good ones, by what they are."""
    plant = loop.plant
    weights = loop.weights
    driven = list(loop.controls)
    averaged = _averaged(loop, 1.0)

    def tuned() -> Gains:
        request = loop._private("a co-design").request
        family = request.family.removeprefix("iid-")
        independent = request.design(plant, family=f"iid-{family}")
        K, _ = gains_of(loop)
        return K, observer_gain(plant, weights, independent, loop.form)[0]

    def calm(factor: float) -> Gains:
        dearer = replace(weights, R=factor * present(weights.R, "R"), N=None)
        K = feedback_gain_of(plant, driven, dearer)
        return K, observer_gain(plant, averaged, None, loop.form)[0]

    makers: dict[str, Callable[[], Gains]] = {
        "gains of the separate design": lambda: gains_of(loop),
        "gains tuned to independent noise": tuned,
        "noise brought down": lambda: _brought_down(loop, P0),
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


def _averaged(loop: PrivateLoop, scale: float) -> Weights:
    """Weights with the noise's average covariance over the horizon, times scale^2, in RN."""
    noise = loop._private("a co-design")
    responses = noise.responses
    covariance = np.einsum("tpq,trq->pr", responses, responses) / noise.horizon
    covariance += np.diag(noise.white**2)
    added = scale**2 * noise.unit_variance * covariance
    return replace(loop.weights, RN=present(loop.weights.RN, "RN") + added)


def _brought_down(loop: PrivateLoop, P0: NDArray) -> tuple[NDArray, NDArray]:
    """Gains that follow the noise from a large size down to its own."""
    K = gains_of(loop)[0]
    L = observer_gain(loop.plant, _averaged(loop, _SCALES[0]), None, loop.form)[0]
    for scale in _SCALES:
        problem = GainProblem(loop, P0, scale)
        run = descend(problem, K, L, _ROUGH, _ROUGH_BARRIERS)
        K = run.K
        L = run.L
    return K, L


def _alternated(loop: PrivateLoop, P0: NDArray, tolerance: float) -> PrivateLoop:
    """Gains and noise in turns until a round lowers the cost no more."""
    barriers: tuple[float, ...] = _BARRIERS
    for _ in range(_ROUNDS):
        before = _last_cost(loop)
        run = descend(GainProblem(loop, P0), *gains_of(loop), tolerance, barriers)
        barriers = _BARRIERS[-1:]
        if run.cost < before:
            history = (*loop.history, ("gains", run.cost))
            loop = replace(loop.with_gains(run.K, run.L), history=history)
        shaped = reshaped(loop)
        if shaped is not loop:
            history = (*loop.history, ("noise shape", _cost_of(shaped, P0)))
            loop = min(loop, replace(shaped, history=history), key=_last_cost)
        if _last_cost(loop) > before * (1 - tolerance):
            break
    return loop


def reshaped(loop: PrivateLoop) -> PrivateLoop:
    """The loop with the noise of its request that costs this loop least."""
    noise = loop._private("a co-design")
    if not noise.responses.size:
        return loop  # independent noise has no shape
    if not all(gain.any() for gain in gains_of(loop)):
        return loop  # no noise costs a loop that ignores its measurements
    return replace(loop, noise=noise.request.design(loop.plant, weight=loop))


def gains_of(loop: PrivateLoop) -> tuple[NDArray, NDArray]:
    """K and L of an observer loop."""
    if loop.K is None or loop.L is None:
        raise TypeError("codesign: expected a loop of an observer and a state feedback")
    return loop.K, loop.L


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
    scale : float, optional
        The output noise is taken this many times as large.
    """

    def __init__(self, loop: PrivateLoop, P0: NDArray, scale: float = 1.0):
        self.loop = loop
        self.plant = loop.plant
        self.P0 = P0
        self.rows = loop.weights.cost_root
        self.driven = list(loop.controls)
        noise = loop._private("a co-design")
        n = self.plant.order
        p = len(self.plant.C)
        horizon = noise.horizon
        size = scale * np.sqrt(noise.unit_variance)
        fresh = present(loop.RN, "RN") + np.diag((size * noise.white) ** 2)
        structured = size * noise.responses
        disturbed = loop.G @ root(present(loop.QN, "QN"))
        widths = [n, disturbed.shape[1], p, structured.shape[2]]
        self.initial = np.hstack([root(P0), disturbed, np.zeros((n, p + widths[3]))])
        self.noise = np.zeros((horizon, p, sum(widths)))
        self.noise[0, :, sum(widths[:2]) : sum(widths[:3])] = root(fresh)
        self.noise[:, :, sum(widths[:3]) :] = structured
        age = np.arange(horizon)[:, None]
        often = [np.ones_like(age), horizon - 1 - age, horizon - age, np.ones_like(age)]
        self.counts = np.repeat(np.hstack(often), widths, axis=1)

    @cached_property
    def scales(self) -> tuple[NDArray, NDArray]:
        """Typical sizes of the entries of K and L, so that units do not matter to the descent."""
        QN = present(self.loop.QN, "QN")
        covariance = self.P0 + self.loop.G @ QN @ self.loop.G.T
        state = np.sqrt(np.diag(covariance))
        if state.any():
            state = np.maximum(state, 1e-6 * state.max())
        else:
            state = np.ones_like(state)
        seen = self.plant.C @ covariance @ self.plant.C.T
        seen = seen + present(self.loop.RN, "RN")
        output = np.sqrt(np.diag(seen))
        output = np.where(output > 0, output, 1.0)
        force = np.abs(gains_of(self.loop)[0]) @ state
        force = np.where(force > 0, force, 1.0)
        return force[:, None] / state, state[:, None] / output

    @cached_property
    def state_scales(self) -> NDArray:
        """Typical sizes (2n,) of plant states and their estimates."""
        state = self.scales[1][:, 0]
        return np.concatenate([state, state]) / np.sqrt(np.sum(state**2))

    def at(self, K: NDArray, L: NDArray) -> _Run:
        """The columns under some gains, with their ``cost`` and ``gradient()``."""
        return _Run(self, K, L)


@dataclass(frozen=True, eq=False)
class _Run:
    """All columns of a `GainProblem` over the horizon under one pair of gains."""

    problem: GainProblem
    K: NDArray
    L: NDArray

    @cached_property
    def law(self) -> ObserverFeedback:
        """The controller of these gains."""
        problem = self.problem
        return ObserverFeedback.of(
            problem.plant, problem.driven, self.K, self.L, problem.loop.form
        )

    @cached_property
    def dynamics(self) -> ClosedLoop:
        """The closed loop of these gains."""
        return ClosedLoop.of(self.problem.plant, self.problem.driven, self.law)

    @property
    def act(self) -> NDArray:
        """The inputs (m, 2n) that (x, xhat) gives rise to."""
        return self.dynamics.C[len(self.problem.plant.C) :]

    @cached_property
    def signals(self) -> tuple[NDArray, NDArray]:
        """(x, xhat) as (T + 1, 2n, q), and what is published (T, p + m, q)."""
        problem = self.problem
        start = np.vstack([problem.initial, np.zeros_like(problem.initial)])
        drives = {"noise": problem.noise}
        return self.dynamics.run(start, drives, len(problem.noise))

    @cached_property
    def errors(self) -> NDArray:
        """Rows of the cost applied to (x, u) (T, k, q)."""
        return self.dynamics.weighted(self.problem.rows, *self.signals)

    @cached_property
    def cost(self) -> float:
        """Sum of the squared errors, each as often as it occurs."""
        return float(np.sum(self.problem.counts[:, None] * self.errors**2))

    def gradient(self) -> tuple[NDArray, NDArray]:
        """Gradients with respect to K and L, by the adjoint of the recursion."""
        problem = self.problem
        plant = problem.plant
        n = plant.order
        by_state = problem.rows[:, :n]
        by_input = problem.rows[:, n:]
        errors_of_loop = np.hstack([by_state, np.zeros_like(by_state)])
        errors_of_loop = errors_of_loop + by_input @ self.act
        slope = 2 * problem.counts[:, None] * self.errors
        adjoint = errors_of_loop.T @ slope
        march(self.dynamics.A.T, adjoint[::-1])
        after_last = np.zeros_like(adjoint[:1])
        later = np.concatenate([adjoint[1:], after_last])
        later_of_plant = later[:, :n]
        later_of_observer = later[:, n:]
        states = self.signals[0][:-1]
        predicted = states[:, n:]
        innovation = plant.C @ (states[:, :n] - predicted) + problem.noise
        estimate = predicted + self.law.correct @ innovation
        B = plant.B[:, problem.driven]
        of_input = by_input.T @ slope + B.T @ (later_of_plant + later_of_observer)
        of_advance = _summed(later_of_observer, innovation)
        of_correction = _summed(of_input, innovation)
        of_observer = self._by_observer(of_advance, of_correction)
        return -_summed(of_input, estimate), of_observer

    def _by_observer(self, by_advance: NDArray, by_innovation: NDArray) -> NDArray:
        """Gradient with respect to L, from those with respect to what it does."""
        if self.problem.loop.form == "predictor":
            return by_advance
        return self.problem.plant.A.T @ by_advance - self.K.T @ by_innovation

    @cached_property
    def _gramian(self) -> NDArray:
        """Covariance P (2n, 2n) that unit noise on every state, in its own scale, builds up without end."""
        size = self.problem.state_scales**2
        return _gramian(self.dynamics.A, np.diag(size))

    @property
    def margin(self) -> float:
        """tr P in the states' scales, which has no bound as a pole nears the unit circle."""
        return float(np.sum(np.diag(self._gramian) / self.problem.state_scales**2))

    def margin_gradient(self) -> tuple[NDArray, NDArray]:
        """Gradients of `margin` with respect to K and L."""
        plant = self.problem.plant
        n = self.problem.plant.order
        A = self.dynamics.A
        weight = np.diag(self.problem.state_scales**-2)
        adjoint = _gramian(A.T, weight)
        by_A = 2 * adjoint @ A @ self._gramian
        B = plant.B[:, self.problem.driven]
        by_act = B.T @ (by_A[:n] + by_A[n:])
        difference = np.hstack([plant.C, -plant.C])
        estimate = np.hstack([np.zeros((n, n)), np.eye(n)])
        estimate += self.law.correct @ difference
        by_gain = -by_act @ estimate.T
        by_advance = by_A[n:] @ difference.T
        return by_gain, self._by_observer(by_advance, by_act @ difference.T)


def _gramian(A: NDArray, added: NDArray) -> NDArray:
    """The sum of A^t added A'^t over all t, by doubling."""
    total = added
    power = A
    for _ in range(_DOUBLINGS):
        later = power @ total @ power.T
        total = total + later
        if np.abs(later).max() <= 1e-12 * np.abs(total).max():
            break
        power = power @ power
    return total


def _summed(left: NDArray, right: NDArray) -> NDArray:
    """Sum over times and columns of left right^T."""
    return np.tensordot(left, right, ((0, 2), (0, 2)))


def descend(
    problem: GainProblem,
    K: NDArray,
    L: NDArray,
    tolerance: float,
    barriers: tuple[float, ...] = _BARRIERS,
) -> _Run:
    """The best stabilising gains that quasi-Newton descents from K and L find.

    The best gains over a finite horizon would often let the loop drift apart slowly. So a barrier keeps the poles
    inside the unit circle, and is made weaker from one descent to the next.
    """
    run = problem.at(K, L)
    best = run
    for barrier in barriers:
        if barrier == 0:
            run = best
        run = _descent(run, barrier, tolerance)
        if run.cost < best.cost:
            best = run
    return best


def _descent(run: _Run, barrier: float, tolerance: float) -> _Run:
    """Lower log cost + barrier * log margin by BFGS, among stabilising gains."""
    problem = run.problem
    split = run.K.size
    scale = np.concatenate([part.ravel() for part in problem.scales])

    def run_at(point: NDArray) -> _Run:
        entries = point * scale
        K = entries[:split].reshape(run.K.shape)
        return problem.at(K, entries[split:].reshape(run.L.shape))

    def value(at: _Run) -> float:
        if barrier == 0:
            return np.log(at.cost)
        return np.log(at.cost) + barrier * np.log(at.margin)

    def slope(at: _Run) -> NDArray:
        parts = []
        for of_cost, of_margin in zip(at.gradient(), at.margin_gradient()):
            parts.append((of_cost / at.cost + barrier * of_margin / at.margin).ravel())
        return np.concatenate(parts) * scale

    if not run.dynamics.stable or not run.cost > 0:
        return run
    point = np.concatenate([run.K.ravel(), run.L.ravel()]) / scale
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
            if trial.dynamics.stable and value(trial) < level + 1e-4 * step * expected:
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
    if curvature <= 1e-12 * np.linalg.norm(step) * np.linalg.norm(change):
        return inverse
    left = np.eye(len(step)) - np.outer(step, change) / curvature
    return left @ inverse @ left.T + np.outer(step, step) / curvature
