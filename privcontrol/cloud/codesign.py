"""Gains and noise shape designed for each other, in turns that never raise the exact cost.

For structured noise no Riccati equation applies: the noise is a free response of the plant that no observer tells
from the state, over a finite horizon. The gains follow the exact gradient of the cost instead, and stay stabilising.
"""

from dataclasses import replace
from functools import cached_property

import numpy as np

from .dynamics import LoopDynamics
from .weights import root

_ROUNDS, _STEPS = 20, 200
_STALL = 1e-6  # relative fall of the cost below which a round, or with 1e-2 of it a step, counts as none


def codesigned(loop, P0, observer_gain):
    """The loop with gains and noise chosen in turns; its history starts from the separate design.

    ``observer_gain`` (plant, G, QN, RN, noise, form) gives the Kalman gain that knows independent noise.

    Raises
    ------
    ValueError
        If the loop has no noise that remembers its request.
    """
    if loop.noise is None or loop.noise.request is None:
        raise ValueError("codesign: expected noise from design_output_noise to start from, got none; pass noise=...")
    separate = ("separate design", GainProblem(loop, P0).cost(loop.K, loop.L))
    starts = [(loop, [separate])]
    if loop.noise.factor is not None:
        independent = loop.noise.request.design(loop.plant, family=f"iid-{loop.noise.request.family}")
        known = observer_gain(loop.plant, loop.G, loop.QN, loop.RN, independent, loop.form)[0]
        other = _reshaped(replace(loop, L=known))
        label = "gains tuned to independent noise, structured noise"
        starts.append((other, [separate, (label, GainProblem(other, P0).cost(other.K, other.L))]))
    ends = [_alternated(start, P0, history) for start, history in starts]
    return min(ends, key=lambda end: end.history[-1][1])


def _alternated(loop, P0, history):
    """Gains and noise in turns until a round lowers the cost no more."""
    for _ in range(_ROUNDS):
        before = history[-1][1]
        problem = GainProblem(loop, P0)
        K, L, cost = descend(problem, loop.K, loop.L)
        if cost < history[-1][1]:
            loop, history = replace(loop, K=K, L=L), [*history, ("gains", cost)]
        if loop.noise.factor is not None:
            shaped = _reshaped(loop)
            cost = GainProblem(shaped, P0).cost(shaped.K, shaped.L)
            if cost < history[-1][1]:
                loop, history = shaped, [*history, ("noise shape", cost)]
        if history[-1][1] > before * (1 - _STALL):
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
        fresh = loop.RN + (0 if noise.scale is None else noise.variance * np.diag(noise.scale**2))
        structured = np.zeros((horizon, p, 0)) if noise.responses is None else np.sqrt(noise.variance) * noise.responses
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
        state = np.maximum(state, 1e-6 * state.max()) if state.any() else np.ones_like(state)
        output = np.sqrt(np.diag(self.plant.C @ covariance @ self.plant.C.T + self.loop.RN))
        output = np.where(output > 0, output, 1.0)
        force = np.abs(self.loop.K) @ state
        force = np.where(force > 0, force, 1.0)
        return force[:, None] / state, state[:, None] / output

    def stable(self, K, L):
        """Whether the gains stabilise the loop."""
        dynamics = LoopDynamics.of(self.plant, K, L, self.loop.form)
        return bool(np.isfinite(dynamics.A).all() and np.abs(np.linalg.eigvals(dynamics.A)).max() < 1)

    def cost(self, K, L):
        """The expected cost of the gains."""
        return self._forward(K, L)[0]

    def _injections(self, L):
        return (L, self.plant.A @ L) if self.loop.form == "filter" else (None, L)

    def _forward(self, K, L):
        A, B, C = self.plant.A, self.plant.B, self.plant.C
        correct, advance = self._injections(L)
        n, total, trace = len(A), 0.0, []
        x, predicted = self.initial, np.zeros_like(self.initial)
        for noise, count in zip(self.noise, self.counts):
            innovation = C @ (x - predicted) + noise
            estimate = predicted if correct is None else predicted + correct @ innovation
            u = -K @ estimate
            error = self.rows[:, :n] @ x + self.rows[:, n:] @ u
            total += float(np.sum(count * error**2))
            trace.append((innovation, estimate, 2 * count * error))
            push = B @ u
            x, predicted = A @ x + push, A @ predicted + push + advance @ innovation
        return total, trace

    def gradient(self, K, L):
        """Cost, and its gradients with respect to K and L, by the adjoint of the recursion."""
        total, trace = self._forward(K, L)
        A, B, C, n = self.plant.A, self.plant.B, self.plant.C, self.plant.order
        correct, advance = self._injections(L)
        by_gain, by_correct, by_advance = np.zeros_like(K), np.zeros_like(L), np.zeros_like(L)
        x, predicted = np.zeros_like(self.initial), np.zeros_like(self.initial)  # adjoints
        for innovation, estimate, error in reversed(trace):
            u = self.rows[:, n:].T @ error + B.T @ (x + predicted)
            by_gain -= u @ estimate.T
            by_advance += predicted @ innovation.T
            surprise, believed = advance.T @ predicted, -K.T @ u
            if correct is not None:
                by_correct += believed @ innovation.T
                surprise += correct.T @ believed
            seen = C.T @ surprise
            x = self.rows[:, :n].T @ error + A.T @ x + seen
            predicted = A.T @ predicted + believed - seen
        return total, by_gain, by_advance if correct is None else A.T @ by_advance + by_correct


def descend(problem, K, L):
    """Quasi-Newton (BFGS) descent over stabilising gains; every step lowers the cost. Returns K, L and the cost."""
    split, scale = K.size, np.concatenate([part.ravel() for part in problem.scales])

    def gains(point):
        entries = point * scale
        return entries[:split].reshape(K.shape), entries[split:].reshape(L.shape)

    def slope(point):
        cost, *parts = problem.gradient(*gains(point))
        return cost, np.concatenate([part.ravel() for part in parts]) * scale

    point = np.concatenate([K.ravel(), L.ravel()]) / scale
    cost, gradient = slope(point)
    inverse = np.eye(len(point)) * 0.1 / max(np.linalg.norm(gradient), np.finfo(float).tiny)
    for _ in range(_STEPS):
        direction = -inverse @ gradient
        expected = gradient @ direction
        step, moved = 1.0, None
        while moved is None and step > 1e-12:
            trial = point + step * direction
            if problem.stable(*gains(trial)) and problem.cost(*gains(trial)) < cost + 1e-4 * step * expected:
                moved = trial
            step /= 4
        if moved is None:
            break
        before, (cost, following) = cost, slope(moved)
        inverse = _bfgs(inverse, moved - point, following - gradient)
        point, gradient = moved, following
        if before - cost < 1e-2 * _STALL * cost:
            break
    return *gains(point), cost


def _bfgs(inverse, step, change):
    """The inverse Hessian after a step, unchanged where the curvature along it is not positive."""
    curvature = step @ change
    if curvature <= 1e-12 * np.linalg.norm(step) * np.linalg.norm(change):
        return inverse
    left = np.eye(len(step)) - np.outer(step, change) / curvature
    return left @ inverse @ left.T + np.outer(step, step) / curvature
