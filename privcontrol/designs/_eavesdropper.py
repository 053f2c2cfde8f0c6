"""Estimate the secret trajectory from everything that is published.

Whoever knows the model, the gains and all of yhat and u can subtract the response to u.
What remains is the free response of x(0) plus the output noise. The best linear estimate
from it, and its exact error, say in the units of the states what a privacy guarantee means.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from decimal import ROUND_FLOOR
from functools import cached_property
from typing import Any

import control as ct
import numpy as np
import scipy.linalg
from numpy.typing import ArrayLike, NDArray

from .._figures import AxesLike, control_style, panel_axes
from ..noise._varying import shift_between
from ..noise.parts import Filtered, Structured, White
from ..noise.shift import certified_shift
from ..numerics.checks import real_array, sample_index
from ..numerics.errors import UncertifiableError
from ..numerics.labels import time_axis, with_units
from ..numerics.linalg import EPS, nonzero, rank_tolerance
from ..numerics.objects import freeze_arrays
from ..numerics.thresholds import ROUNDED
from ..privacy.guarantee import shown
from ..privacy.repetition import ONCE
from ..secrets.disturbance import DisturbanceAdjacency
from ..secrets.secrets import Secrets
from ..systems.linear import (
    Plant,
    orbit,
    response_from_rest,
    root,
    semidefinite,
    to_states,
)
from .output_noise import OutputNoise

#: A covariance, or a mean and a covariance.
Prior = ArrayLike | tuple[ArrayLike, ArrayLike]


@dataclass(frozen=True, repr=False, eq=False)
class Eavesdropper:
    """The best linear estimate of x(0), ..., x(T-1) from all that is published.

    Made by `eavesdropper`. The error of the estimate of x(t) is A^t times that of x(0).

    Attributes
    ----------
    plant : Plant
    horizon : int
        Number of samples T.
    mean : ndarray, shape (n,)
        Prior mean of x(0); zero under the flat prior.
    gain : ndarray, shape (n, T p)
        The estimate of x(0) is mean + gain (v - O_T mean), v being the outputs less their
        response to u.
    factor : ndarray, shape (n, c)
        Root of the error covariance of x(0).
    blind : ndarray, shape (n, b)
        Columns that span what the outputs cannot see and no prior bounds.
    prior_factor : ndarray, shape (n, n), or None
        Root of the prior covariance of x(0); None under the flat prior.

    See Also
    --------
    eavesdropper, designs.ChangeEavesdropper

    Examples
    --------
    >>> import numpy as np, privcontrol as pc
    >>> budget = pc.PrivacyBudget(epsilon=1.0, delta=1e-2)
    >>> adjacency = pc.StateAdjacency({"position": 1.0})
    >>> noise = pc.design_output_noise(pc.plants.vehicle(), horizon=100,
    ...     budget=budget, adjacency=adjacency, models="exact")
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

    def __post_init__(self) -> None:
        freeze_arrays(self)

    def error_covariance(self, t: int) -> NDArray[np.float64]:
        """Return the covariance (n, n) of x(t) less its estimate, in the states' units.

        Under the flat prior a state that cannot be estimated has variance ``np.inf``, and
        its covariances are nan.

        Parameters
        ----------
        t : int
            Sample index within the horizon.

        Returns
        -------
        ndarray, shape (n, n)

        Raises
        ------
        ValueError
            If t is outside the horizon.

        Examples
        --------
        >>> import numpy as np, privcontrol as pc
        >>> budget = pc.PrivacyBudget(epsilon=1.0, delta=1e-2)
        >>> noise = pc.design_output_noise(pc.plants.vehicle(), horizon=5, budget=budget,
        ...     adjacency=pc.StateAdjacency({"position": 1.0}), models="exact")
        >>> pc.eavesdropper(noise).error_covariance(0).shape
        (2, 2)
        """
        t = sample_index(t, "t", self.horizon)
        errors = self._errors[t]
        unknown = self._unknown[t]
        covariance = errors @ errors.T
        covariance[unknown | unknown[:, None]] = np.nan
        covariance[unknown, unknown] = np.inf
        return covariance

    @cached_property
    def _errors(self) -> NDArray[np.float64]:
        return orbit(self.plant, self.factor, self.horizon)

    @cached_property
    def _unknown(self) -> NDArray[np.bool_]:
        """Which states (T, n) blind directions reach, beyond rounding."""
        frames = orbit(self.plant, self.blind, self.horizon)
        sizes = orbit(self.plant.without_signs(), np.abs(self.blind), self.horizon)
        is_reached = np.abs(frames) > ROUNDED * sizes
        return np.logical_or.reduce(is_reached, axis=2)

    @property
    def std(self) -> NDArray[np.float64]:
        """Standard deviation (n, T) of each state less its estimate, in its unit.

        It is inf where the state cannot be estimated.
        """
        std = np.linalg.norm(self._errors, axis=2)
        return np.where(self._unknown, np.inf, std).T

    @property
    def prior_std(self) -> NDArray[np.float64]:
        """Standard deviation (n, T) before anything is published, in the states' units.

        It is inf under the flat prior.
        """
        if self.prior_factor is None:
            return np.full((self.plant.order, self.horizon), np.inf)
        frames = orbit(self.plant, self.prior_factor, self.horizon)
        return np.linalg.norm(frames, axis=2).T

    def estimate(
        self,
        published: ct.TimeResponseData | ArrayLike,
        inputs: ArrayLike | None = None,
    ) -> NDArray[np.float64]:
        """Return the estimate of the states from what was published.

        Parameters
        ----------
        published : PrivateResponse or array_like, shape (p, T) or (p, trials, T)
            A loop's response, of which the outputs yhat and u are read, or yhat.
        inputs : array_like, shape (m, T) or (m, trials, T), optional
            The plant's inputs u, if yhat is an array; zero by default.

        Returns
        -------
        ndarray, shape (n, trials, T)

        Raises
        ------
        control.ControlDimension
            If a shape does not fit the plant and the horizon.

        Examples
        --------
        >>> import numpy as np, privcontrol as pc
        >>> budget = pc.PrivacyBudget(epsilon=1.0, delta=1e-2)
        >>> noise = pc.design_output_noise(pc.plants.vehicle(), horizon=5, budget=budget,
        ...     adjacency=pc.StateAdjacency({"position": 1.0}), models="exact")
        >>> who = pc.eavesdropper(noise)
        >>> who.estimate(np.zeros((1, 5))).shape
        (2, 1, 5)
        """
        plant = self.plant
        outputs, controls = plant.output_count, plant.input_count
        if hasattr(published, "outputs"):
            signals = np.asarray(published.outputs)
            published = signals[:outputs]
            inputs = signals[outputs:]
        if inputs is None:
            inputs = np.zeros((controls, 1, self.horizon))
        yhat = self._signals(published, "published", outputs)
        u = self._signals(inputs, "inputs", controls)
        driven = response_from_rest(to_states(plant), u)
        free = yhat - response_from_rest(plant, u)
        mean = self.mean[:, None]
        known = plant.free_response(mean, self.horizon)
        surprise = free.reshape(len(known), -1) - known
        start = mean + self.gain @ surprise
        states = driven + orbit(plant, start, self.horizon)
        return states.transpose(1, 2, 0)

    def _signals(self, value: ArrayLike, name: str, size: int) -> NDArray[np.float64]:
        """Return signals (T, size, trials)."""
        signals = real_array(value, name, copy=False)
        if signals.ndim == 2:
            signals = signals[:, None]
        samples = self.horizon
        if signals.ndim != 3 or signals.shape[::2] != (size, samples):
            raise ct.ControlDimension(
                f"{name}: expected shape ({size}, {samples}) or ({size}, trials, "
                f"{samples}), got {signals.shape}"
            )
        return signals.transpose(2, 0, 1)

    def plot(
        self,
        *,
        ax: AxesLike = None,
        time_unit: str | None = None,
        units: Mapping[str, str] | None = None,
    ) -> ct.ControlPlot:
        """Plot the error's standard deviation in each state, next to that of the prior.

        ``ax`` holds axes, one for each state, as in `OutputNoise.plot`; ``time_unit`` and
        ``units`` are labels.

        Parameters
        ----------
        ax : Axes or array of Axes, optional
            One for each state, new ones by default.
        time_unit, units : optional
            Labels, as in `PrivateResponse.plot`.

        Returns
        -------
        control.ControlPlot

        Examples
        --------
        >>> import numpy as np, privcontrol as pc
        >>> budget = pc.PrivacyBudget(epsilon=1.0, delta=1e-2)
        >>> noise = pc.design_output_noise(pc.plants.vehicle(), horizon=5, budget=budget,
        ...     adjacency=pc.StateAdjacency({"position": 1.0}), models="exact")
        >>> pc.eavesdropper(noise).plot().axes.size
        2
        """
        plant = self.plant
        time = plant.step * np.arange(self.horizon)
        names = with_units(plant.states, units)
        count = len(names)
        lines = np.empty((count, 1), object)
        title = "Standard deviation of an eavesdropper's errors"
        shown = self.std
        shown[np.isinf(shown)] = np.nan
        with control_style():
            axes = panel_axes(ax, count, 1, title)
            for k, axis in enumerate(axes[:, 0]):
                drawn = axis.plot(time, shown[k], label="eavesdropper", clip_on=False)
                if self.prior_factor is not None:
                    prior = self.prior_std[k]
                    drawn += axis.plot(time, prior, "k--", label="prior")
                lines[k, 0] = drawn
                label = f"error of\n{names[k]}"
                if np.isnan(shown[k]).all():
                    label += ", not estimable"
                elif not shown[k].any():
                    label += ",\nknown exactly"
                axis.set_ylabel(label)
                axis.set_ylim(bottom=0)
                axis.margins(x=0)
            clock = time_axis(plant.time_label, time_unit)
            axes[-1, 0].set_xlabel(clock)
            axes[0, 0].legend(loc="best")
        return ct.ControlPlot(lines, axes, axes[0, 0].figure)

    def __repr__(self) -> str:
        largest = zip(self.plant.states, self.std.max(axis=1), strict=True)
        errors = [f"{name} {shown(std, ROUND_FLOOR)}" for name, std in largest]
        worst = ", ".join(errors)
        return f"Eavesdropper(horizon {self.horizon}, largest error std: {worst})"


@dataclass(frozen=True, repr=False, eq=False)
class ChangeEavesdropper:
    """Say how well all that is published shows the size of one change of a signal.

    Made by `eavesdropper` for noise that hides a disturbance. The adversary knows the
    model, the gains, all of yhat and u, and of the change all but its size: its signal,
    when it begins and how long it lasts. The best linear unbiased estimate of the size has
    the standard deviation radius / y, y the privacy shift of the change. No process and
    measurement noise is counted, which makes any estimate worse.

    Attributes
    ----------
    signals : tuple of str
        Secret signals (q,).
    lengths : ndarray, shape (d,)
        Samples that the change lasts. Of profiles these are their lengths.
    radii : ndarray, shape (q,)
        Largest hidden change, in the signal's unit.
    std : ndarray, shape (q, d)
        Standard deviation of the estimate's error, in the signal's unit: at the beginning
        at which it is least, and at least this where the privacy shift is a bound.
    prior_std : ndarray, shape (q,), or None
        What is known of the size beforehand; None under the flat prior.

    See Also
    --------
    eavesdropper, designs.Eavesdropper

    Examples
    --------
    >>> import control as ct, numpy as np, privcontrol as pc
    >>> names = dict(states=["air"], inputs=["people"], outputs=["temperature"])
    >>> noise = pc.design_output_noise(ct.ss(0.9, 1, 1, 0, 300.0, **names),
    ...     horizon=np.inf, budget=pc.PrivacyBudget(gdp=0.5), models="exact",
    ...     adjacency=pc.DisturbanceAdjacency({"people": 1.0}, duration=3))
    >>> pc.eavesdropper(noise)
    ChangeEavesdropper(least error std: people 2)
    """

    signals: tuple[str, ...]
    lengths: NDArray[np.intp]
    radii: NDArray[np.float64]
    std: NDArray[np.float64]
    prior_std: NDArray[np.float64] | None

    def __post_init__(self) -> None:
        freeze_arrays(self)

    def plot(self, *, ax: AxesLike = None) -> ct.ControlPlot:
        """Plot the error's standard deviation against how long the change lasts.

        The dashed lines are the radii of what is hidden. ``ax`` holds one axis.

        Parameters
        ----------
        ax : Axes, optional
            A new one by default.

        Returns
        -------
        control.ControlPlot

        Examples
        --------
        >>> import control as ct, numpy as np, privcontrol as pc
        >>> names = dict(states=["air"], inputs=["people"], outputs=["temperature"])
        >>> noise = pc.design_output_noise(ct.ss(0.9, 1, 1, 0, 300.0, **names),
        ...     horizon=np.inf, budget=pc.PrivacyBudget(gdp=0.5), models="exact",
        ...     adjacency=pc.DisturbanceAdjacency({"people": 1.0}, duration=3))
        >>> pc.eavesdropper(noise).plot().axes.size
        1
        """
        with control_style():
            title = "What an eavesdropper learns about one change"
            axes = panel_axes(ax, 1, 1, title)
            axis = axes[0, 0]
            drawn = []
            for name, radius, std in zip(
                self.signals, self.radii, self.std, strict=True
            ):
                (line,) = axis.plot(self.lengths, std, "o-", label=f"error of {name}")
                hidden = f"hidden: {name} within {radius:g}"
                dashed = {"color": line.get_color(), "linestyle": "--"}
                axis.axhline(radius, label=hidden, **dashed)
                drawn.append(line)
            axis.set_ylim(bottom=0)
            axis.set_xlabel("Length of the change [samples]")
            axis.set_ylabel("Standard deviation\n[units of the signals]")
            axis.legend(loc="best")
        lines = np.empty((1, 1), object)
        lines[0, 0] = drawn
        return ct.ControlPlot(lines, axes, axis.figure)

    def __repr__(self) -> str:
        least = zip(self.signals, self.std.min(axis=1), strict=True)
        errors = [f"{name} {shown(std, ROUND_FLOOR)}" for name, std in least]
        return f"ChangeEavesdropper(least error std: {', '.join(errors)})"


def eavesdropper(
    noise_or_loop: Any, *, prior: Prior | None = None
) -> Eavesdropper | ChangeEavesdropper:
    """Return the adversary who knows the model, the gains, and all of yhat and u.

    Noise that hides a disturbance gives a `ChangeEavesdropper`, with or without a
    horizon, who estimates the size of one change. The rest of this text is about
    secrets of states.

    The published data are a function of v = O_T x(0) + gamma and of public signals.
    Structured noise gamma = O_T xi reveals x(0) + xi as far as it is observable, for
    any horizon. With independent noise the information on x(0) accumulates.

    The estimate is the best of all for Gaussian noise and prior, and the best linear one
    for every other law: the median of readings with independent Laplace noise may err less
    than their mean. Process and measurement disturbances are taken to be zero. Where they
    act, the error of any estimate, for other laws of any linear one, is at least the one
    stated here.

    Parameters
    ----------
    noise_or_loop : OutputNoise or PrivateLoop
    prior : float, array_like (n,) or (n, n), or pair of mean and covariance, optional
        Covariance of x(0) as the adversary knows it beforehand, about zero or about a
        mean (n,). A number is that multiple of the identity, (n,) are variances. None
        is the flat prior of the maximum-likelihood estimate. For a disturbance it is
        the variance of a change's size, a number or one for each of q secret signals.

    Returns
    -------
    Eavesdropper or ChangeEavesdropper

    Raises
    ------
    TypeError
        If there is no output noise.
    ValueError
        If the noise hides signals of bounded energy, several changes together over a
        horizon, or a disturbance in addition to other secrets, or if the prior is no
        covariance of the plant's states.
    UncertifiableError
        If double precision cannot determine the information in the outputs about x(0),
        as for fast modes over a long horizon.

    See Also
    --------
    designs.Eavesdropper, designs.ChangeEavesdropper, PrivacyGuarantee.detection

    References
    ----------
    DPAM Theorem 3 and eq. (22) for the structured noise.

    Examples
    --------
    With only the position private the velocity is published exactly:

    >>> import privcontrol as pc
    >>> noise = pc.design_output_noise(pc.plants.vehicle(), horizon=100,
    ...     budget=pc.PrivacyBudget(epsilon=1.0, delta=1e-2),
    ...     adjacency=pc.StateAdjacency({"position": 1.0}))
    >>> pc.eavesdropper(noise)
    Eavesdropper(horizon 100, largest error std: position 1.877, velocity 0)
    """
    noise = getattr(noise_or_loop, "noise", noise_or_loop)
    loop = getattr(noise_or_loop, "data", noise_or_loop)
    if getattr(loop, "truth", None) is not None:
        raise ValueError(
            "noise_or_loop: the best linear estimate is one of a linear plant, and this "
            "loop is around a nonlinear one; guarantee.detection bounds every test"
        )
    if not isinstance(noise, OutputNoise):
        raise TypeError(
            "noise_or_loop: expected an OutputNoise, or a loop with noise, got "
            f"{type(noise).__name__}"
        )
    plant = noise.plant_data
    if noise.request is not None and noise.request.secret.disturbances:
        return _of_changes(noise, plant, prior)
    if not noise.process.total.consists_of(Structured, White):
        raise ValueError(
            "noise_or_loop: expected noise for states over a horizon, or for a single "
            "disturbance, got other noise. What it promises stands in its .guarantee, and "
            "pc.audit(noise) attacks it"
        )
    gain, blind = _observed(plant, noise.process.samples)
    reading, error = _reading(plant, noise, gain)
    factor = gain @ error
    mean = np.zeros(plant.order)
    known = None
    if prior is not None:
        mean, known = _prior(prior, plant.order)
        gain, factor = _updated(known, gain.T @ known, error)
        blind = blind[:, :0]
    gain = gain @ reading
    return Eavesdropper(
        plant,
        noise.process.samples,
        mean,
        gain,
        factor,
        blind,
        known,
    )


def _prior(prior: Prior, order: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the mean (n,) and a root (n, n) of the covariance."""
    mean: ArrayLike = np.zeros(order)
    if isinstance(prior, (tuple, list)) and len(prior) == 2 and np.ndim(prior[1]) == 2:
        mean, prior = prior
    mean = real_array(mean, "prior mean", shape=(order,))
    covariance = semidefinite(real_array(prior, "prior"), "prior", order)
    return mean, root(covariance)


def _observed(
    plant: Plant, horizon: int
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Orthonormal bases of the observable directions of x(0), and of the rest.

    n samples see all that any number of samples sees, which spares the rank decision the
    growth of A^t. Of a plant that varies all samples count.
    """
    n = plant.order
    basis = np.eye(n)
    count = horizon if plant.varies else min(horizon, n)
    outputs = plant.free_response(basis, count)
    stack = outputs / _sizes(outputs, 1)
    units = _sizes(stack, 0)
    _, values, rows = scipy.linalg.svd(stack / units)
    tolerance = rank_tolerance(stack, values)
    rank = np.count_nonzero(values > tolerance)
    unseen = rows[rank:]
    unseen[np.abs(unseen) <= ROUNDED] = 0.0
    if rank < n:
        seen = rows[:rank] * units
        frame, _ = scipy.linalg.qr(seen.T, mode="economic")
        basis = np.asarray(frame, float)
    return basis, (unseen / units).T


def _reading(
    plant: Plant, noise: OutputNoise, seen: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Read seen^T x(0) from v by least squares (k, T p), with a root of the error."""
    columns = plant.free_response(seen, noise.process.samples)
    if noise.process.scale is None:
        # v is O_T x exactly, and rows of equal size spare the inverse the growth of A^t
        sizes = _sizes(columns, 1)
    else:
        sizes = np.tile(noise.process.scale, noise.process.samples)[:, None]
    weighted = columns / sizes
    units = _sizes(weighted, 0)
    left, values, right = scipy.linalg.svd(weighted / units, full_matrices=False)
    largest = values[0]
    tiny = np.finfo(float).tiny
    smallest = max(values[-1], tiny)
    if not smallest > ROUNDED * largest:  # errors would have fewer than six digits
        ratio = largest / smallest
        raise UncertifiableError(
            f"the outputs see some directions of x(0) {ratio:.1e} times better than "
            "others: double precision cannot resolve the error in the worst direction; "
            "shorten the horizon or rescale the states"
        )
    inverse = right.T / values / units.T
    errors = []
    std = math.sqrt(noise.process.law.unit_variance)
    if noise.factor is not None:
        errors.append(std * (seen.T @ noise.factor))
    if noise.process.scale is not None:  # the outputs are in units of it
        errors.append(inverse if noise.process.is_mixed else std * inverse)
    error = np.hstack(errors)
    reading = inverse @ left.T
    return reading / sizes.T, error


def _updated(
    known: NDArray[np.float64],
    seen_root: NDArray[np.float64],
    error: NDArray[np.float64],
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the Kalman gain (n, k) on a reading, and a root of the error after it.

    With x(0) - mean = known a the reading differs from its mean by seen_root a + error e,
    a and e standard. The root is [known - gain seen_root, gain error], in which rounding
    is set to zero, so what is published exactly has no error.
    """
    spread = np.hstack([seen_root, error])
    units = _sizes(spread, 1)
    rounding = 8 * EPS * max(spread.shape)
    scaled = spread / units
    inverse = np.linalg.pinv(scaled, rcond=rounding)
    onto_start = inverse[: len(seen_root.T)]
    gain = known @ onto_start / units.T
    unread = known - gain @ seen_root
    read_error = gain @ error
    left = np.hstack([unread, read_error])
    before = np.hstack([known, read_error])
    negligible = rounding * _sizes(before, 1)
    is_rounding = np.abs(left) <= negligible
    left[is_rounding] = 0.0
    return gain, left


def _sizes(array: NDArray[np.float64], axis: int) -> NDArray[np.float64]:
    """Return norms along an axis that stays, one where they are zero."""
    sizes = np.linalg.norm(array, axis=axis, keepdims=True)
    return nonzero(sizes)


# -- changes of a signal -----------------------------------------------------------------


def _of_changes(
    noise: OutputNoise, plant: Plant, prior: Prior | None
) -> ChangeEavesdropper:
    """Return the information about the size of one change of a signal."""
    secret = noise.request.adjacency
    is_one = len(secret.parts) == 1 and isinstance(secret, DisturbanceAdjacency)
    if not is_one or secret.norm != "single" or noise.family != "gaussian":
        raise ValueError(
            "noise_or_loop: expected Gaussian noise that hides single changes of signals, "
            "got one that hides signals of bounded energy, other secrets too, or "
            "Laplace noise; guarantee.detection bounds every test"
        )
    if secret.together:
        raise ValueError(
            "noise_or_loop: expected noise that hides one change in a run, got one for "
            "several signals at once; guarantee.detection bounds every test"
        )
    if secret.is_moving:
        raise ValueError(
            "noise_or_loop: expected noise that hides a change, got one that hides when or "
            "on which signal it is, of which no size is estimated; guarantee.detection "
            "bounds every test"
        )
    if secret.is_varying:  # levels are changes of any shape, and have one size
        secret = replace(secret, shape="level")
    lasting = not noise.horizon.ends or noise.process.total.part(Filtered) is not None
    shifts = (_lasting_shifts if lasting else _shifts_of_run)(noise, plant, secret)
    radii = secret.radii(plant)
    std = radii[:, None] / np.maximum(shifts, np.finfo(float).tiny)
    std[shifts == 0] = math.inf
    known = None
    if prior is not None:
        variances = real_array(prior, "prior")
        if variances.ndim > 1 or variances.size not in (1, len(radii)):
            raise ValueError(
                f"prior: expected the variance of a change's size, one or {len(radii)}, "
                f"got shape {variances.shape}"
            )
        if not (variances > 0).all():
            raise ValueError("prior: expected positive variances of a change's size")
        known = np.sqrt(np.broadcast_to(variances, radii.shape))
        std = 1 / np.hypot(1 / std, 1 / known[:, None])
    lengths = np.array([len(shape) for shape in secret.shapes])
    return ChangeEavesdropper(secret.signals(plant), lengths, radii, std, known)


def _lasting_shifts(
    noise: OutputNoise, plant: Plant, adjacency: DisturbanceAdjacency
) -> NDArray[np.float64]:
    """Return the privacy shifts (q, d) of changes in runs of any length."""
    if noise.parts[0].of_units:
        raise ValueError(
            "noise_or_loop: expected noise of one system, got that of many units; ask about "
            "noise that is designed for one of them"
        )
    (secret,) = Secrets(adjacency).under([plant])
    rows = []
    for moves in secret.signals:
        row = []
        for shape in adjacency.shapes:
            one = replace(moves, shapes=(shape,), lasting=False, spacing=ONCE)
            alone = replace(secret, signals=(one,))
            row.append(shift_between(noise.parts, [alone], math.inf))
        rows.append(row)
    return np.array(rows)


def _shifts_of_run(
    noise: OutputNoise, plant: Plant, secret: DisturbanceAdjacency
) -> NDArray[np.float64]:
    """Return the privacy shifts (q, d) of changes at their worst beginning in a run."""
    found = certified_shift(noise.parts, secret, [plant], noise.horizon)
    count = len(secret.signals(plant))
    beginnings = len(secret.starts(noise.process.samples))
    lengths = len(secret.shapes)
    if found.squares.size != lengths * beginnings * count:
        raise ValueError(
            "noise_or_loop: expected noise that hides one change in a run, got one for "
            "several together; guarantee.detection bounds every test"
        )
    squares = found.squares.reshape(lengths, beginnings, count)
    return np.sqrt(squares.max(axis=1)).T
