"""The eavesdropper: how well the secret trajectory can be estimated from everything that is published.

Whoever knows the model, the gains and all of yhat and u can subtract the response to u; what remains is the free
response of x(0) plus the output noise. The best linear estimate from it, and its exact error, say in the units of the
states what a privacy guarantee means.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import control as ct
import matplotlib.pyplot as plt
import numpy as np
import scipy.linalg
from matplotlib.axes import Axes
from numpy.typing import ArrayLike, NDArray

from ..core._linalg import rank_tolerance, real_array
from ..core.errors import UncertifiableError
from ..trajectory.manifold import free_outputs
from ..trajectory.plant import Plant
from .output_noise import OutputNoise, sample_index
from .parts import Structured, White

#: A blind direction that reaches a state with less than this part of its size does not reach it.
_REACHES = 1e-9
#: A worse conditioned observation is not inverted: the errors stated would have fewer than six digits.
_CONDITION = 1e9


@dataclass(frozen=True, repr=False, eq=False)
class Eavesdropper:
    """The best linear estimate of x(0), ..., x(T-1) from all that is published; made by `eavesdropper`.

    The error of the estimate of x(t) is A^t times the error of that of x(0), so that everything is computed with n
    columns: ``factor`` F (n, c) is a root of the error covariance of x(0), ``blind`` (n, b) spans what the outputs
    cannot see and no prior bounds.

    Attributes
    ----------
    plant : Plant
    horizon : int
        Number of samples T.
    mean : ndarray, shape (n,)
        Prior mean of x(0); zero under the flat prior.
    gain : ndarray, shape (n, T p)
        The estimate of x(0) is mean + gain (v - O_T mean), v being the outputs less their response to u.
    factor, blind : ndarray
    prior_factor : ndarray, shape (n, n), or None
        Root of the prior covariance of x(0); None under the flat prior.

    Examples
    --------
    >>> import numpy as np, privcontrol as pc
    >>> noise = pc.design_output_noise(pc.plants.vehicle(), horizon=100, adjacency=pc.StateAdjacency({"position": 1.0}),
    ...                                budget=pc.PrivacyBudget(epsilon=1.0, delta=1e-2))
    >>> spy = pc.eavesdropper(noise, prior=np.diag([100.0, 1.0]))
    >>> spy.std[:, 0].round(3), spy.prior_std[:, 0]
    (array([1.846, 0.   ]), array([10.,  1.]))
    """

    plant: Plant
    horizon: int
    mean: np.ndarray
    gain: np.ndarray
    factor: np.ndarray
    blind: np.ndarray
    prior_factor: np.ndarray | None

    def error_covariance(self, t: int) -> NDArray:
        """Covariance (n, n) of x(t) less its estimate, in products of the units of the states.

        Under the flat prior what cannot be estimated has variance ``np.inf``, and covariance +-inf with whatever else
        moves along.

        Raises
        ------
        ValueError
            If t is outside the horizon.
        """
        t = sample_index(t, "t", self.horizon)
        covariance = self._errors[t] @ self._errors[t].T
        unseen, size = (
            self._blindness[t] @ self._blindness[t].T,
            np.linalg.norm(self._blindness[t], axis=1),
        )
        unseen[np.abs(unseen) <= _REACHES * np.outer(size, size)] = 0.0
        return np.where(unseen == 0, covariance, np.copysign(np.inf, unseen))

    @cached_property
    def _errors(self) -> NDArray:
        return _propagated(self.plant.A, self.factor, self.horizon)

    @cached_property
    def _blindness(self) -> NDArray:
        frames = _propagated(self.plant.A, self.blind, self.horizon)
        sizes = _propagated(np.abs(self.plant.A), np.abs(self.blind), self.horizon)
        return np.where(np.abs(frames) <= _REACHES * sizes, 0.0, frames)

    @cached_property
    def std(self) -> NDArray:
        """Standard deviation (n, T) of each state less its estimate, in the state's units; inf if not estimable."""
        std = np.linalg.norm(self._errors, axis=2)
        return np.where(self._blindness.any(axis=2), np.inf, std).T

    @cached_property
    def prior_std(self) -> NDArray:
        """Standard deviation (n, T) before anything is published, in the state's units; inf under the flat prior."""
        if self.prior_factor is None:
            return np.full((self.plant.order, self.horizon), np.inf)
        return np.linalg.norm(
            _propagated(self.plant.A, self.prior_factor, self.horizon), axis=2
        ).T

    def estimate(self, published: Any, inputs: ArrayLike | None = None) -> NDArray:
        """The estimate of the states from what was published.

        Parameters
        ----------
        published : PrivateResponse or array_like, shape (p, T) or (p, trials, T)
            A loop's response (its outputs yhat and u are read, nothing else), or yhat.
        inputs : array_like, shape (m, T) or (m, trials, T), optional
            The plant's inputs u beside an array yhat; zero by default.

        Returns
        -------
        ndarray, shape (n, trials, T)

        Raises
        ------
        control.ControlDimension
            If a shape does not fit the plant and the horizon.
        """
        m, p = self.plant.B.shape[1], len(self.plant.C)
        if hasattr(published, "outputs"):
            signals = np.asarray(published.outputs)
            published, inputs = signals[:p], signals[p:]
        yhat = self._signals(published, "published", p)
        u = (
            np.zeros((m, 1, self.horizon))
            if inputs is None
            else self._signals(inputs, "inputs", m)
        )
        A, B, C, D = (getattr(self.plant, name) for name in "ABCD")
        trials = np.broadcast_shapes(yhat.shape[1:2], u.shape[1:2])[0]
        state, forced = (
            np.zeros((len(A), u.shape[1])),
            np.empty((self.horizon, len(A), u.shape[1])),
        )
        free = np.empty((self.horizon, p, trials))
        for t in range(self.horizon):
            forced[t] = state
            free[t] = yhat[:, :, t] - C @ state - D @ u[:, :, t]
            state = A @ state + B @ u[:, :, t]
        known = free_outputs(self.plant, self.mean[:, None], self.horizon)
        state = self.mean[:, None] + self.gain @ (free.reshape(-1, trials) - known)
        estimate = forced + _propagated(A, state, self.horizon)
        return estimate.transpose(1, 2, 0)

    def _signals(self, value: ArrayLike, name: str, size: int) -> NDArray:
        value = real_array(value, name, copy=False)
        value = value[:, None] if value.ndim == 2 else value
        if value.ndim != 3 or value.shape[::2] != (size, self.horizon):
            raise ct.ControlDimension(
                f"{name}: expected shape ({size}, {self.horizon}) or ({size}, trials, {self.horizon}), got {value.shape}"
            )
        return value

    def plot(
        self,
        *,
        states: Sequence[str | int] | None = None,
        ax: Any = None,
        label: str = "eavesdropper",
        color: str | None = None,
    ) -> ct.ControlPlot:
        """Plot the standard deviation of the error in each state over time, beside that of the prior.

        Parameters
        ----------
        states : sequence of str or int, optional
            Which states, from top to bottom; all by default.
        ax : array of Axes, optional
            One for each state shown; a new figure by default.
        label, color : str, optional
            Legend entry and colour, to tell eavesdroppers on the same axes apart.

        Returns
        -------
        control.ControlPlot
        """
        shown = self.plant.state_index(
            range(self.plant.order)
            if states is None
            else np.atleast_1d(states).tolist()
        )
        n, time = len(shown), self.plant.step * np.arange(self.horizon)
        own = ax is None
        with plt.rc_context(ct.config.defaults["ctrlplot.rcParams"]):
            if own:
                size = (5.0, 0.9 + 1.5 * n)
                ax = plt.figure(figsize=size, layout="constrained").subplots(
                    n, 1, sharex=True, squeeze=False
                )
            axes = np.asarray(ax, object).reshape(-1, 1)
            if len(axes) != n:
                raise ValueError(
                    f"ax: expected {n} axes, one per state, got {len(axes)}"
                )
            lines = np.empty((n, 1), object)
            for row, (k, axis) in enumerate(zip(shown, axes[:, 0])):
                lines[row, 0] = _draw(
                    axis, time, self.std[k], self.prior_std[k], label, color
                )
                axis.set_ylabel(f"{self.plant.states[k]}\nerror std")
            axes[-1, 0].set_xlabel(self.plant.time_label)
            axes[0, 0].legend(loc="best")
            if own:
                axes[0, 0].figure.suptitle("What an eavesdropper does not know")
        return ct.ControlPlot(lines, axes, axes[0, 0].figure)

    def __repr__(self) -> str:
        worst = ", ".join(
            f"{name} {std.max():.4g}" for name, std in zip(self.plant.states, self.std)
        )
        return f"Eavesdropper(horizon {self.horizon}, largest error std: {worst})"


def eavesdropper(noise_or_loop: Any, *, prior: Any = None) -> Eavesdropper:
    """The adversary who knows the model, the gains, and all of yhat and u over the horizon.

    What is published is a function of v = O_T x(0) + gamma and of public signals. For structured noise
    gamma = O_T xi this is x(0) + xi as far as it is observable, whatever the horizon: with a Gaussian prior the error
    covariance of x(0) is (P^-1 + Sigma^-1)^-1, Sigma that of xi, and a direction without noise is known exactly.
    For independent noise the information on x(0) accumulates over the samples.

    The estimate is the best of all for Gaussian noise and prior, and the best linear one for Laplace noise. Process
    and measurement disturbances are taken to be zero, which is the strongest adversary: where they act, the error of
    any estimate is at least the one stated here.

    Parameters
    ----------
    noise_or_loop : OutputNoise or PrivateLoop
    prior : float, array_like (n,) or (n, n), or pair of mean (n,) and covariance (n, n), optional
        What the adversary knows of x(0) beforehand: a covariance about zero or about a mean, positive semidefinite. A
        number is that multiple of the identity, (n,) are the variances of the states. None is the flat prior: the
        maximum-likelihood estimate.

    Returns
    -------
    Eavesdropper

    Raises
    ------
    TypeError
        If there is no output noise.
    ValueError
        If the noise hides a disturbance, or the prior is no covariance of the plant's states.
    UncertifiableError
        If double precision cannot tell what the outputs say about x(0), as for fast modes over a long horizon.

    Examples
    --------
    With only the position private the velocity is published exactly:

    >>> import privcontrol as pc
    >>> noise = pc.design_output_noise(pc.plants.vehicle(), horizon=100, adjacency=pc.StateAdjacency({"position": 1.0}),
    ...                                budget=pc.PrivacyBudget(epsilon=1.0, delta=1e-2))
    >>> pc.eavesdropper(noise)
    Eavesdropper(horizon 100, largest error std: position 1.878, velocity 0)

    References
    ----------
    DPAM Theorem 3 and eq. (22) for the structured noise.
    """
    noise = getattr(noise_or_loop, "noise", noise_or_loop)
    plant: Any = getattr(noise_or_loop, "plant", None)
    if not isinstance(noise, OutputNoise):
        raise TypeError(
            f"noise_or_loop: expected an OutputNoise, or a loop with noise, got {type(noise).__name__}"
        )
    if not noise.consists_of(Structured, White):
        raise ValueError(
            "noise_or_loop: expected noise that was designed for a StateAdjacency or an InitialStateAdjacency, got noise that "
            "hides a disturbance during the run: the spy here estimates x(0). What such noise promises stands in its "
            ".guarantee, and pc.audit(noise) attacks it"
        )
    mean, root = _prior(prior, plant.order)
    seen, blind = _observed(plant, noise.horizon)
    reading, error = _reading(plant, noise, seen)
    if root is None:
        gain, factor = seen @ (seen.T @ reading), -seen @ (seen.T @ error)
    else:
        blind = blind[:, :0]
        step, factor = _shrunk(seen, error, root)
        gain = step @ (seen.T @ reading)
    return Eavesdropper(plant, noise.horizon, mean, gain, factor, blind, root)


def _prior(prior: Any, n: int) -> tuple[NDArray, NDArray | None]:
    """Mean (n,) and root (n, n) of the covariance, or None for the flat prior."""
    if prior is None:
        return np.zeros(n), None
    pair = (
        isinstance(prior, (tuple, list)) and len(prior) == 2 and np.ndim(prior[1]) == 2
    )
    mean, covariance = prior if pair else (np.zeros(n), prior)
    covariance = real_array(covariance, "prior")
    if np.ndim(covariance) < 2:
        covariance = (
            np.diag(np.broadcast_to(covariance, n))
            if np.shape(covariance) in ((), (n,))
            else covariance
        )
    mean = real_array(mean, "prior mean", shape=(n,))
    covariance = real_array(covariance, "prior", shape=(n, n))
    size = np.sqrt(np.maximum(np.diag(covariance), 0.0))
    scaled = covariance / np.outer(
        np.where(size > 0, size, 1.0), np.where(size > 0, size, 1.0)
    )
    values, vectors = scipy.linalg.eigh(scaled)
    if (
        not np.allclose(scaled, scaled.T, rtol=0, atol=1e-10)
        or values[0] < -1e-10
        or (np.diag(covariance) < 0).any()
    ):
        raise ValueError(
            "prior: expected a covariance, symmetric and positive semidefinite"
        )
    return mean, size[:, None] * vectors * np.sqrt(np.maximum(values, 0.0))


def _observed(plant: Plant, horizon: int) -> tuple[NDArray, NDArray]:
    """Orthonormal columns (n, q) that span what the outputs see of x(0), and columns that span what they do not.

    n samples see all that any number of samples sees, which spares the rank decision the growth of A^t.
    """
    n = plant.order
    stack = free_outputs(plant, np.eye(n), min(horizon, n))
    stack = stack / _sizes(stack, 1)[:, None]
    scale = _sizes(stack, 0)
    _, s, vt = scipy.linalg.svd(stack / scale)
    rank = int(np.sum(s > rank_tolerance(stack, s)))
    if rank == n:
        return np.eye(n), np.empty((n, 0))
    return scipy.linalg.qr(vt[:rank].T * scale[:, None], mode="economic")[0], vt[
        rank:
    ].T / scale[:, None]


def _reading(
    plant: Plant, noise: OutputNoise, seen: NDArray
) -> tuple[NDArray, NDArray]:
    """The least-squares reading (n, T p) of x(0) from v, and a root (n, c) of the covariance of its error."""
    columns = free_outputs(plant, seen, noise.horizon)
    # without independent noise v is O_T x exactly, and rows of equal size spare the inverse the growth of A^t
    weight = 1 / (
        _sizes(columns, 1)
        if noise.scale is None
        else np.tile(noise.scale, noise.horizon)
    )
    columns = weight[:, None] * columns
    scale = _sizes(columns, 0)
    U, s, vt = scipy.linalg.svd(columns / scale, full_matrices=False)
    if not s[0] < _CONDITION * s[-1]:
        raise UncertifiableError(
            f"the outputs see some directions of x(0) {s[0] / max(s[-1], np.finfo(float).tiny):.1e} times better than others: "
            "double precision cannot tell what they say about the worst; shorten the horizon or rescale the states"
        )
    inverse = seen @ (vt.T / s / scale[:, None])
    spread = np.sqrt(noise.unit_variance)
    error = (
        np.empty((plant.order, 0)) if noise.factor is None else spread * noise.factor
    )
    if noise.scale is not None:  # the weight is the reciprocal of its scale
        error = np.hstack([error, spread * inverse])
    return (inverse @ U.T) * weight, error


def _shrunk(seen: NDArray, error: NDArray, root: NDArray) -> tuple[NDArray, NDArray]:
    """The gain (n, q) on seen^T (reading - mean), and a root (n, n) of the error covariance, for a Gaussian prior.

    x(0) - mean = root a, and the reading is x(0) + error e, with uncorrelated standard a and e. What the reading
    leaves open of (a, e) is the null space of its map; x(0) follows from it either as root a or as the reading less
    error e, whichever is the smaller: the two agree, and the smaller loses fewer digits and keeps exact zeros.
    """
    reading = seen.T @ np.hstack([root, error])
    scale = _sizes(reading, 1)
    U, s, vt = scipy.linalg.svd(reading / scale[:, None], full_matrices=False)
    rank = int(np.sum(s > rank_tolerance(reading, s)))
    U, s, vt = U[:, :rank] / scale[:, None], s[:rank], vt[:rank]
    nothing = np.zeros_like
    hidden = (
        root - seen @ (seen.T @ root) if seen.shape[1] < len(seen) else nothing(root)
    )
    direct, through = (
        np.hstack([root, nothing(error)]),
        np.hstack([hidden, -seen @ (seen.T @ error)]),
    )
    smaller = np.linalg.norm(through, axis=1) < np.linalg.norm(direct, axis=1)
    chosen = np.where(smaller[:, None], through, direct)
    gain = np.where(smaller[:, None], seen, 0.0) + (chosen @ vt.T / s) @ U.T
    left = chosen - (chosen @ vt.T) @ vt
    triangle = scipy.linalg.qr(left.T, mode="r")[0][: len(left)]
    return gain, triangle.T


def _sizes(array: NDArray, axis: int) -> NDArray:
    """Norms along an axis, one where they are zero."""
    norms = np.sqrt(np.sum(array**2, axis=axis))
    return np.where(norms > 0, norms, 1.0)


def _propagated(A: NDArray, columns: NDArray, horizon: int) -> NDArray:
    """A^t X for t = 0 .. T-1, shape (T, n, c)."""
    frames = np.empty((horizon, *columns.shape))
    for t in range(horizon):
        frames[t] = columns
        columns = A @ columns
    return frames


def _draw(
    axis: Axes,
    time: NDArray,
    std: NDArray,
    prior: NDArray,
    label: str,
    color: str | None,
) -> list:
    """Lines of one state: the error, and the prior where it is finite."""
    lines = []
    if np.isfinite(std).any():
        lines += axis.plot(
            time,
            np.where(np.isfinite(std), std, np.nan),
            color=color,
            linewidth=1.6,
            label=label,
        )
    else:
        axis.text(
            0.5,
            0.5,
            "not estimable",
            transform=axis.transAxes,
            ha="center",
            va="center",
        )
    if np.isfinite(prior).all():
        named = (
            "_prior"
            if any(line.get_label() == "prior" for line in axis.lines)
            else "prior"
        )
        lines += axis.plot(
            time, prior, color="black", linestyle="--", linewidth=1.1, label=named
        )
    axis.set_ylim(bottom=0)
    axis.margins(x=0)
    return lines
