"""Gains and noise shape designed for each other, in turns that never raise the exact cost.

For structured noise no Riccati equation applies: the noise is a free response of the plant that no observer tells
from the state, over a finite horizon. The gains follow the exact gradient of the cost instead, and stay stabilising.
"""

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from .checks import root
from .controller import ObserverFeedback
from .dynamics import ClosedLoop, march

_ROUNDS, _STEPS = 20, 200
_STEP_STALL = 1e-3  # a step that lowers the cost by less than this part of the tolerance ends a descent


def codesigned(loop, P0, observer_gain, tolerance=1e-3):
    """The loop with gains and noise chosen in turns; its history starts from the separate design.

    ``observer_gain`` (plant, G, QN, RN, noise, form) gives the Kalman gain that knows independent noise. The turns
    end when one lowers the cost by less than ``tolerance`` of it.

    Raises
    ------
    ValueError
        If the loop has no noise that remembers its request.
    """
    if loop.noise is None or loop.noise.request is None:
        raise ValueError(
            "codesign: expected noise from design_output_noise to start from, got none; pass noise=..."
        )
    separate = ("separate design", GainProblem(loop, P0).cost(loop.K, loop.L))
    starts = [(loop, [separate])]
    if loop.noise.factor is not None:
        independent = loop.noise.request.design(
            loop.plant, family=f"iid-{loop.noise.request.family}"
        )
        known = observer_gain(loop.plant, loop.weights, independent, loop.form)[0]
        other = _reshaped(loop.with_gains(loop.K, known))
        label = "gains tuned to independent noise, structured noise"
        starts.append(
            (other, [separate, (label, GainProblem(other, P0).cost(other.K, other.L))])
        )
    ends = [_alternated(start, P0, history, tolerance) for start, history in starts]
    return min(ends, key=lambda end: end.history[-1][1])


def _alternated(loop, P0, history, tolerance):
    """Gains and noise in turns until a round lowers the cost no more."""
    for _ in range(_ROUNDS):
        before = history[-1][1]
        run = descend(GainProblem(loop, P0), loop.K, loop.L, tolerance)
        if run.cost < history[-1][1]:
            loop, history = (
                loop.with_gains(run.K, run.L),
                [*history, ("gains", run.cost)],
            )
        if loop.noise.factor is not None:
            shaped = _reshaped(loop)
            cost = GainProblem(shaped, P0).cost(shaped.K, shaped.L)
            if cost < history[-1][1]:
                loop, history = shaped, [*history, ("noise shape", cost)]
        if history[-1][1] > before * (1 - tolerance):
            break
    return replace(loop, history=tuple(history))


def _reshaped(loop):
    return replace(loop, noise=loop.noise.request.design(loop.plant, weight=loop))


class GainProblem:
    """The expected cost of a loop over its noise's horizon as a function of the gains, with its exact gradient.

    Runs side by side, as columns: the initial state's root covariance, the disturbance's (which is an initial state
    one sample later), fresh measurement and output noise as an impulse, and structured noise. A column that recurs at
    every sample counts at age k as often as that age occurs in the horizon.
    """

    def __init__(self, loop, P0):
        self.loop, self.plant, noise = loop, loop.plant, loop.noise
        n, p, horizon = self.plant.order, len(self.plant.C), noise.horizon
        fresh = loop.RN + (
            0 if noise.scale is None else noise.unit_variance * np.diag(noise.scale**2)
        )
        structured = np.sqrt(noise.unit_variance) * noise.responses
        disturbed = loop.G @ root(loop.QN)
        widths = [n, disturbed.shape[1], p, structured.shape[2]]
        self.initial = np.hstack([root(P0), disturbed, np.zeros((n, p + widths[3]))])
        self.noise = np.zeros((horizon, p, sum(widths)))
        self.noise[0, :, sum(widths[:2]) : sum(widths[:3])] = root(fresh)
        self.noise[:, :, sum(widths[:3]) :] = structured
        age = np.arange(horizon)[:, None]
        often = [np.ones_like(age), horizon - 1 - age, horizon - age, np.ones_like(age)]
        self.counts = np.repeat(np.hstack(often), widths, axis=1)
        self.rows = loop.cost_root
        self.P0 = P0

    @cached_property
    def scales(self):
        """Typical sizes of the entries of K and L, so that units do not matter to the descent."""
        covariance = self.P0 + self.loop.G @ self.loop.QN @ self.loop.G.T
        state = np.sqrt(np.diag(covariance))
        state = (
            np.maximum(state, 1e-6 * state.max())
            if state.any()
            else np.ones_like(state)
        )
        output = np.sqrt(
            np.diag(self.plant.C @ covariance @ self.plant.C.T + self.loop.RN)
        )
        output = np.where(output > 0, output, 1.0)
        force = np.abs(self.loop.K) @ state
        force = np.where(force > 0, force, 1.0)
        return force[:, None] / state, state[:, None] / output

    def cost(self, K, L):
        """The expected cost of the gains."""
        return _Run(self, K, L).cost

    def gradient(self, K, L):
        """Cost, and its gradients with respect to K and L."""
        run = _Run(self, K, L)
        return run.cost, *run.gradient()


@dataclass(frozen=True, eq=False)
class _Run:
    """All columns of a `GainProblem` over the horizon under one pair of gains."""

    problem: GainProblem
    K: np.ndarray
    L: np.ndarray

    @cached_property
    def dynamics(self):
        loop = self.problem.loop
        driven = list(loop.controls)
        return ClosedLoop.of(loop.plant, driven, self.law)

    @cached_property
    def law(self):
        """The controller of these gains."""
        loop = self.problem.loop
        return ObserverFeedback.of(
            loop.plant, list(loop.controls), self.K, self.L, loop.form
        )

    @property
    def stable(self):
        """Whether the gains stabilise the loop."""
        return bool(
            np.isfinite(self.dynamics.A).all()
            and np.abs(np.linalg.eigvals(self.dynamics.A)).max() < 1
        )

    @property
    def act(self):
        """The inputs (m, 2n) that (x, xhat) gives rise to."""
        return self.dynamics.C[len(self.problem.plant.C) :]

    @cached_property
    def states(self):
        """(x, xhat) as (T, 2n, q)."""
        noise, initial = self.problem.noise, self.problem.initial
        states = np.zeros((len(noise), 2 * len(initial), initial.shape[1]))
        np.matmul(self.dynamics.B["noise"], noise[:-1], out=states[1:])
        states[0, : len(initial)] = initial
        return march(self.dynamics.A, states)

    @cached_property
    def errors(self):
        """Rows of the cost applied to (x, u) (T, k, q)."""
        problem, n = self.problem, self.problem.plant.order
        forces = (
            self.act @ self.states
            + self.dynamics.D["noise"][len(problem.plant.C) :] @ problem.noise
        )
        return problem.rows[:, :n] @ self.states[:, :n] + problem.rows[:, n:] @ forces

    @cached_property
    def cost(self):
        return float(
            np.einsum("tq,tkq,tkq->", self.problem.counts, self.errors, self.errors)
        )

    def gradient(self):
        """Gradients with respect to K and L, by the adjoint of the recursion."""
        plant, rows, n = self.problem.plant, self.problem.rows, self.problem.plant.order
        slope = 2 * self.problem.counts[:, None] * self.errors
        adjoint = (
            np.hstack([rows[:, :n], np.zeros_like(rows[:, :n])])
            + rows[:, n:] @ self.act
        ).T @ slope
        march(self.dynamics.A.T, adjoint[::-1])
        later = np.concatenate([adjoint[1:], np.zeros_like(adjoint[:1])])
        x, predicted = self.states[:, :n], self.states[:, n:]
        innovation = plant.C @ (x - predicted) + self.problem.noise
        u = rows[:, n:].T @ slope + plant.B[:, list(self.problem.loop.controls)].T @ (
            later[:, :n] + later[:, n:]
        )
        by_gain = -_summed(u, predicted + self.law.correct @ innovation)
        by_advance = _summed(later[:, n:], innovation)
        if self.problem.loop.form == "predictor":
            return by_gain, by_advance
        return by_gain, plant.A.T @ by_advance - self.K.T @ _summed(u, innovation)


def _summed(left, right):
    """Sum over times and columns of left right^T."""
    return np.tensordot(left, right, ((0, 2), (0, 2)))


def descend(problem, K, L, tolerance):
    """Quasi-Newton (BFGS) descent over stabilising gains; every step lowers the cost. Returns the last `_Run`."""
    split, scale = K.size, np.concatenate([part.ravel() for part in problem.scales])

    def run_at(point):
        entries = point * scale
        return _Run(
            problem, entries[:split].reshape(K.shape), entries[split:].reshape(L.shape)
        )

    def slope(run):
        return np.concatenate([part.ravel() for part in run.gradient()]) * scale

    point = np.concatenate([K.ravel(), L.ravel()]) / scale
    run = run_at(point)
    gradient = slope(run)
    inverse = (
        np.eye(len(point)) * 0.1 / max(np.linalg.norm(gradient), np.finfo(float).tiny)
    )
    for _ in range(_STEPS):
        direction = -inverse @ gradient
        expected = gradient @ direction
        step, moved = 1.0, None
        while moved is None and step > 1e-12:
            trial = run_at(point + step * direction)
            if trial.stable and trial.cost < run.cost + 1e-4 * step * expected:
                moved = trial
            else:
                step /= 4
        if moved is None:
            break
        following = slope(moved)
        inverse = _bfgs(inverse, step * direction, following - gradient)
        before, point, gradient, run = (
            run.cost,
            point + step * direction,
            following,
            moved,
        )
        if before - run.cost < _STEP_STALL * tolerance * run.cost:
            break
    return run


def _bfgs(inverse, step, change):
    """The inverse Hessian after a step, unchanged where the curvature along it is not positive."""
    curvature = step @ change
    if curvature <= 1e-12 * np.linalg.norm(step) * np.linalg.norm(change):
        return inverse
    left = np.eye(len(step)) - np.outer(step, change) / curvature
    return left @ inverse @ left.T + np.outer(step, step) / curvature
