"""Exact second moments of a private loop over its horizon, without a single draw."""

from dataclasses import dataclass

import numpy as np

_STEP = 20_000  # multiply-adds that take about as long as the overhead of a step


@dataclass(frozen=True)
class LoopCost:
    """Expected LQ cost of a loop over a horizon, by what causes it; the parts add up to the total.

    Attributes
    ----------
    regulation : float
        Of reference and initial state alone, without disturbances and privacy noise.
    disturbance : float
        What disturbances add. Drawn from QN and RN it is their expected cost; one given as an array acts together with
        reference and initial state, and may then lower the cost.
    privacy : float
        What the output noise adds.

    Examples
    --------
    >>> import privcontrol as pc
    >>> cost = pc.LoopCost(regulation=2.0, disturbance=0.5, privacy=1.5)
    >>> cost.total
    4.0
    """

    regulation: float
    disturbance: float
    privacy: float

    def __repr__(self):
        parts = f"regulation={self.regulation:.6g}, disturbance={self.disturbance:.6g}, privacy={self.privacy:.6g}"
        return f"LoopCost({self.total:.6g}: {parts})"

    @property
    def total(self):
        """The whole expected cost."""
        return self.regulation + self.disturbance + self.privacy


def respond(dynamics, initial, drives, samples):
    """States (T, 2n, q) and published signals (T, p + m, q) of a few runs side by side, whichever way is faster.

    Doubling forms log2(T) large products and stepping T small ones: which wins depends on the size of one step.
    """
    runs = max([initial.shape[1]] + [drive.shape[2] for drive in drives.values()])
    many = dynamics.A.size * runs > _STEP
    return (dynamics.step if many else dynamics.respond)(initial, drives, samples)


def errors(loop, rows, initial, drives, samples):
    """Rows (k, n + m) applied to (x, u), for runs side by side: (T, k, q)."""
    states, published = respond(loop.dynamics, initial, drives, samples)
    n, p = loop.plant.order, len(loop.plant.C)
    return rows[:, :n] @ states[:, :n] + rows[:, n:] @ published[:, p:]


def deterministic_errors(loop, signals, rows, drives):
    """Rows applied to (x - xd, u - ud), as (T, k), for what is the same in every trial."""
    n = loop.plant.order
    goal = signals.reference @ rows[:, :n].T + signals.feedforward @ rows[:, n:].T
    return errors(loop, rows, signals.initial, drives, signals.samples)[:, :, 0] - goal


def noise_variances(loop, signals, rows):
    """Variances (T, k) that the output noise causes."""
    noise, samples = loop.noise, signals.samples
    total = np.zeros((samples, len(rows)))
    if noise is None:
        return total
    if noise.responses.size:
        responses = errors(
            loop,
            rows,
            np.zeros_like(signals.initial),
            {"noise": noise.responses[:samples]},
            samples,
        )
        total += np.einsum("tkq,tkq->tk", responses, responses)
    if noise.scale is not None:
        total += _white(loop, rows, "noise", np.diag(noise.scale), samples)
    return noise.unit_variance * total


def disturbance_variances(loop, signals, rows):
    """Variances (T, k) that the disturbances drawn from QN and RN cause."""
    total = np.zeros((signals.samples, len(rows)))
    for name, root in signals.drawn(loop).items():
        total += _white(loop, rows, name, root, signals.samples)
    return total


def _white(loop, rows, name, root, samples):
    """Fresh draws of covariance root root' at every sample: sums of squared impulse responses."""
    impulse = np.zeros((samples, *root.shape))
    impulse[0] = root
    responses = errors(
        loop, rows, np.zeros((2 * loop.plant.order, 1)), {name: impulse}, samples
    )
    return np.cumsum(np.einsum("tkq,tkq->tk", responses, responses), axis=0)


def mean_square_error(loop, signals):
    """E (x_i(t) - xd_i(t))^2 as (n, T)."""
    n, m = loop.plant.order, loop.plant.B.shape[1]
    rows = np.eye(n, n + m)
    mean = deterministic_errors(loop, signals, rows, signals.deterministic())
    return (
        mean**2
        + noise_variances(loop, signals, rows)
        + disturbance_variances(loop, signals, rows)
    ).T


def expected_cost(loop, signals):
    """The cost of loop.cost_root over the signals' samples, as a `LoopCost`."""
    rows, common = loop.cost_root, signals.deterministic()
    undisturbed = {name: common[name] for name in ("reference", "feedforward")}
    regulation = float(
        np.sum(deterministic_errors(loop, signals, rows, undisturbed) ** 2)
    )
    disturbance = float(np.sum(disturbance_variances(loop, signals, rows)))
    if len(common) > len(undisturbed):
        disturbance += (
            float(np.sum(deterministic_errors(loop, signals, rows, common) ** 2))
            - regulation
        )
    return LoopCost(
        regulation, disturbance, float(np.sum(noise_variances(loop, signals, rows)))
    )
