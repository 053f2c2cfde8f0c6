"""Output noise for runs of any length, a linear system that is driven by white noise.

It starts in its stationary law. Then a run that is interrupted and begun again leaves no old
change less hidden than a new one.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from functools import cached_property
from pathlib import Path

import control as ct
import matplotlib.pyplot as plt
import numpy as np
import scipy.linalg
from matplotlib.axes import Axes
from numpy.typing import NDArray

from ..core._linalg import positive_integer
from ..core._random import Seed
from ..core._shown import with_units
from ..noise.iosystem import create_noise_iosystem, numbered
from ..noise.parts import NoisePart
from ..noise.summed import Pricing
from ..systems.linear import LinearSystem
from .output_noise import OutputNoise

#: Samples that a stream computes together.
_BLOCK = 64
#: Frequencies of a plot.
_PLOTTED = 400

_NEEDS_LENGTH = "{name}: noise without a horizon needs a number of samples; use noise.over(T).{name}"


@dataclass(frozen=True, eq=False)
class Filtered(NoisePart):
    """White noise after a stable linear system, xi+ = A xi + B eta, gamma = C xi + D eta.

    Attributes
    ----------
    shaping : LinearSystem
        System with a stable inverse that certifies the guarantee.
    response : LinearSystem or None
        The plant, where the shaped noise enters it with the secret. Its matrices are the
        plant's own numbers.
    starts_stationary : bool
        Whether xi(0) has its stationary law; it is zero otherwise.
    """

    shaping: LinearSystem
    response: LinearSystem | None = None
    starts_stationary: bool = True

    @cached_property
    def system(self) -> LinearSystem:
        """From eta to gamma."""
        if self.response is None:
            return self.shaping
        return self.response.after(self.shaping)

    @property
    def outputs(self) -> int:
        return len(self.system.D)

    @property
    def once(self) -> int:
        return self.system.order if self.starts_stationary else 0

    @property
    def width(self) -> int:
        return self.system.D.shape[1]

    @cached_property
    def state_covariance(self) -> NDArray:
        """Stationary covariance (n, n) of xi."""
        return self.system.reachability_gramian()

    @cached_property
    def state_root(self) -> NDArray:
        """R (n, once) with xi(0) = R times the entries that are drawn once."""
        if not self.once:
            return np.zeros((self.system.order, 0))
        values, vectors = scipy.linalg.eigh(self.state_covariance)
        variances = np.maximum(values, 0.0)
        return vectors * np.sqrt(variances)

    def start(self, first: NDArray) -> NDArray:
        return self.state_root @ first

    def advance(self, state: NDArray, fresh: NDArray) -> tuple[NDArray, NDArray]:
        """The next samples block by block, which makes a stream fifty times as fast."""
        gamma = []
        for begin in range(0, len(fresh), _BLOCK):
            entries = fresh[begin : begin + _BLOCK]
            is_whole = len(entries) == _BLOCK
            onward = self._block if is_whole else self._map(len(entries))
            block = onward @ np.append(state, entries)
            samples = block[: len(entries) * self.outputs]
            gamma.append(samples.reshape(-1, self.outputs))
            state = block[len(samples) :]
        return np.concatenate(gamma), state

    @cached_property
    def _block(self) -> NDArray:
        return self._map(_BLOCK)

    def _map(self, count: int) -> NDArray:
        """From a state and the entries of so many samples to their outputs and the next."""
        A, B, C, D = self.system.matrices
        order = self.system.order
        every = np.eye(order + count * self.width)
        state = every[:order]
        rows = []
        for entries in every[order:].reshape(count, self.width, -1):
            rows.append(C @ state + D @ entries)
            state = A @ state + B @ entries
        return np.vstack([*rows, state])

    def covariance(self, t: int, s: int) -> NDArray:
        if t < s:
            return self.covariance(s, t).T
        A, B, C, D = self.system.matrices
        lag = t - s
        impulse = D
        if lag > 0:
            impulse = C @ np.linalg.matrix_power(A, lag - 1) @ B
        later = np.linalg.matrix_power(A, lag) @ self._state_covariance(s)
        from_state = C @ later @ C.T
        return from_state + impulse @ D.T

    def _state_covariance(self, t: int) -> NDArray:
        """Covariance of xi(t), what is left of the start and what came since."""
        if self.starts_stationary:
            return self.state_covariance
        power = np.linalg.matrix_power(self.system.A, t)
        return self.state_covariance - power @ self.state_covariance @ power.T

    def variances(self, horizon: int) -> NDArray:
        if self.starts_stationary:
            covariance = self.covariance(0, 0)
            return np.tile(np.diag(covariance), (horizon, 1))
        impulse = self.system.impulse_response(horizon)
        energies = np.sum(impulse**2, axis=2)
        return np.cumsum(energies, axis=0)

    @property
    def model(self) -> LinearSystem:
        return self.system

    @property
    def square(self) -> LinearSystem | None:
        return self.shaping if self.response is None else None

    @property
    def drive(self) -> tuple[LinearSystem, LinearSystem] | None:
        return None if self.response is None else (self.response, self.shaping)

    def scaled(self, gain: float) -> Filtered:
        return replace(self, shaping=self.shaping.scaled(gain))

    def label(self, alone: bool) -> str:
        order = self.system.order
        if order == 0:
            return "filtered without states"
        return f"filtered of order {order}"


class RunNoise(OutputNoise):
    """The first samples of noise without a horizon, made by `EndlessNoise.over`."""

    def save(self, path: str | Path) -> None:
        """Refuse, because the noise of all runs is saved."""
        raise ValueError(
            "save: expected noise without a horizon, got that of one run; save the noise "
            "of which it is a run"
        )


@dataclass(frozen=True, repr=False, eq=False)
class EndlessNoise(OutputNoise):
    """Output noise whose guarantee holds for runs of any length.

    Made by ``design_output_noise(..., horizon=np.inf)``. `stream` never ends, `sample` takes
    the number of samples, and `over` is the noise of a run of so many samples, with the
    same guarantee.

    Attributes
    ----------
    horizon : float
        Infinity.
    design : StationaryDesign
        Mean cost of a sample, the lower bound of any Gaussian noise, and their gap.

    Examples
    --------
    >>> import control as ct, numpy as np, privcontrol as pc
    >>> names = dict(states=["air"], inputs=["people"], outputs=["temperature"])
    >>> room = ct.ss(0.9, 1, 1, 0, 300.0, **names)
    >>> noise = pc.design_output_noise(
    ...     room,
    ...     horizon=np.inf,
    ...     adjacency=pc.DisturbanceAdjacency({"people": 0.1}),
    ...     budget=pc.PrivacyBudget(epsilon=1.0, delta=1e-2),
    ... )
    >>> noise
    OutputNoise(gaussian, filtered of order 1, 1 output, no horizon)
    >>> noise.std.round(3), round(noise.design.gap, 4)
    (array([0.274]), 0.0091)
    >>> noise.sample(trials=2, rng=0, horizon=50).shape
    (1, 2, 50)
    """

    def over(self, horizon: int) -> OutputNoise:
        """The noise of a run of so many samples, from its start on."""
        held = {each.name: getattr(self, each.name) for each in fields(self)}
        held["horizon"] = positive_integer(horizon, "horizon")
        held["promised"] = None
        return RunNoise(**held)

    @property
    def timepts(self) -> NDArray:
        raise ValueError(
            "timepts: noise without a horizon has no last sample; pass the time points, such "
            f"as np.arange(100) * {self.plant_data.step:g}"
        )

    @property
    def responses(self) -> NDArray:
        raise ValueError(_NEEDS_LENGTH.format(name="responses"))

    @property
    def stds(self) -> NDArray:
        raise ValueError(_NEEDS_LENGTH.format(name="stds"))

    def draw(self, rng: Seed, trials: int) -> NDArray:
        raise ValueError(_NEEDS_LENGTH.format(name="draw"))

    def sample(
        self, trials: int = 1, rng: Seed = None, *, horizon: int | None = None
    ) -> NDArray:
        """Draw the noise of runs of ``horizon`` samples, shape (p, trials, T)."""
        if horizon is None:
            raise ValueError(
                "horizon: expected the number of samples to draw, since this noise has no "
                "horizon of its own; pass horizon=T, or use stream()"
            )
        return self.over(horizon).sample(trials, rng)

    def covariance(self, lag: int = 0, s: int | None = None) -> NDArray:
        """Covariance (p, p) of gamma(t + lag) and gamma(t), for any t.

        With s it is that of gamma(lag) and gamma(s), as for finite horizons.
        """
        for index, name in ((lag, "lag"), (s or 0, "s")):
            if isinstance(index, bool) or not isinstance(index, (int, np.integer)):
                raise TypeError(
                    f"{name}: expected a number of samples, got {type(index).__name__}"
                )
        if s is not None:
            lag = lag - s
        later = max(lag, 0)
        earlier = max(-lag, 0)
        return np.sum([part.covariance(later, earlier) for part in self.parts], axis=0)

    @property
    def std(self) -> NDArray:
        """Stationary standard deviations (p,) in the units of the outputs."""
        return np.sqrt(np.diag(self.covariance()))

    @cached_property
    def model(self) -> LinearSystem:
        """The noise from fresh standard entries to gamma, as plain matrices."""
        whole = create_noise_iosystem(self)
        fresh = list(range(self.once, self.channels))
        return LinearSystem(whole.A, whole.B[:, fresh], whole.C, whole.D[:, fresh])

    @property
    def system(self) -> ct.StateSpace:
        """The noise as a StateSpace from fresh standard entries to gamma, for analysis.

        In `create_noise_iosystem` the entries that make the first state are inputs too.
        """
        model = self.model
        return ct.ss(
            *model.matrices,
            self.plant_data.dt,
            inputs=numbered("eta", self.width),
            outputs=numbered("gamma", self.outputs),
            states=numbered("xi", model.order),
            name="noise",
        )

    def plot(  # type: ignore[override]
        self,
        ax: Axes | None = None,
        *,
        loop: Pricing | None = None,
        time_unit: str | None = None,
        units: Mapping[str, str] | None = None,
    ) -> ct.ControlPlot:
        """Plot the spectra of the noise and of what it hides, and what a loop lets pass.

        A secret that lasts is drawn at the length that shows most at each frequency.

        Parameters
        ----------
        ax : Axes, optional
        loop : PrivateLoop, optional
            With weights Q and R. Its curve is the root of the cost that noise of size one
            causes at each frequency.
        time_unit, units : optional
            Labels, as in `PrivateResponse.plot`: frequencies are per ``time_unit``, and the
            amplitude has the unit of the outputs where it is one.
        """
        if ax is None:
            ax = plt.subplots(figsize=(6.4, 4.0), layout="constrained")[1]
        secret = self.design.secret  # type: ignore[attr-defined]
        lasts = self._longest_change()
        hidden = "secret" if lasts == 1 else f"secret, up to {lasts} samples long"
        curves = {"noise": self.model, hidden: secret}
        if loop is not None:
            curves["loop, cost of unit noise"] = loop.noise_weight(math.inf)
        angles = np.geomspace(1e-3, np.pi, _PLOTTED)
        frequencies = angles / (2 * np.pi * self.plant_data.step)
        lines = []
        for label, curve in curves.items():
            responses = curve.frequency_response(np.exp(1j * angles))
            gains = np.linalg.norm(responses, axis=(1, 2))
            if label == hidden:
                delays = np.exp(-1j * np.outer(angles, np.arange(lasts)))
                gains = gains * np.abs(delays.cumsum(axis=1)).max(axis=1)
            style = "k" if label == "noise" else ""
            lines += ax.loglog(frequencies, gains, style, label=label)
        unit = "cycles per sample" if self.plant_data.dt is True else "Hz"
        if time_unit is not None:
            unit = f"cycles per {time_unit}"
        with_units(self.plant_data.outputs, units)
        one = set((units or {}).values())
        size = one.pop() if len(one) == 1 else "units of the outputs"
        ax.set(xlabel=f"Frequency [{unit}]", ylabel=f"Amplitude [{size}]")
        ax.grid(alpha=0.3, which="major")
        legend = ax.legend(fontsize="small")
        shown = np.array([[lines]], dtype=object)
        return ct.ControlPlot(shown, np.array([[ax]]), ax.figure, legend=legend)

    def _longest_change(self) -> int:
        """Samples of the longest hidden change that keeps its value."""
        adjacency = None if self.request is None else self.request.adjacency
        parts = () if adjacency is None else adjacency.parts
        return max([getattr(part, "duration", 1) for part in parts], default=1)

    def __repr__(self) -> str:
        return super().__repr__().replace("horizon inf", "no horizon")
