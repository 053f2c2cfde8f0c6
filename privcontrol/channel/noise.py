"""Output noise: what is added to a plant's outputs over one horizon, in time order.

It is a sum of parts, each None where it is absent: structured noise, the plant's own free response C A^t S eta from a
random initial state drawn once; driven noise, its response to fresh disturbances; noise correlated in another causal
way; and independent noise, drawn afresh at each sample. None may be used beyond its horizon.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ..core._linalg import positive_integer, real_array
from ..core._random import generator
from ..core.design import NoiseDesign
from ..core.guarantee import PrivacyGuarantee
from ..core.noise import family_of
from ..trajectory.disturbance import forced_outputs
from ..trajectory.manifold import free_outputs
from ..trajectory.plant import Plant
from .iosystem import create_noise_iosystem
from .models import models_guarantee

_CHUNK = 1024  # samples that a stream draws at a time


@dataclass(frozen=True, repr=False)
class OutputNoise:
    """Noise for the outputs of a plant with its guarantee; made by `design_output_noise`.

    Attributes
    ----------
    factor : ndarray, shape (n, r), or None
        S of the structured part gamma(t) = C A^t S eta.
    scale : ndarray, shape (p,), or None
        Size of the independent part at each output: standard deviation (Gaussian) or scale (Laplace). Beside other
        parts it is their white floor.
    horizon : int
        Number of samples T that the guarantee covers.
    guarantee : PrivacyGuarantee
    design : NoiseDesign
        Cost, certified gap, and the moves at which the guarantee is attained.
    request : NoiseRequest or None
        What it was designed for; ``request.design(sys, weight=...)`` designs again.
    correlated : ndarray, shape (T p, T p), or None
        Lower triangular Lambda of the part Lambda eta, time-major, one entry of eta for each sample and output.
    drive : tuple of ndarray, shapes (n, q) and (p, q), or None
        E and F of the part C xi(t) + F eta(t), xi(t+1) = A xi(t) + E eta(t), from xi(0) = 0.

    Examples
    --------
    >>> import privcontrol as pc
    >>> noise = pc.design_output_noise(pc.plants.vehicle(), horizon=100, adjacency=pc.StateAdjacency({"position": 1.0}),
    ...                                budget=pc.PrivacyBudget(epsilon=1.0, delta=1e-2))
    >>> noise
    OutputNoise(gaussian, structured rank 1, 1 output, horizon 100)
    >>> noise.sample(trials=3, rng=0).shape
    (1, 3, 100)
    """

    plant: Plant
    horizon: int
    law: str
    factor: np.ndarray | None
    scale: np.ndarray | None
    guarantee: PrivacyGuarantee
    design: NoiseDesign
    request: object = None
    correlated: np.ndarray | None = None
    drive: tuple | None = None

    def __post_init__(self):
        for name in ("factor", "scale", "correlated"):
            if (
                getattr(self, name) is not None
            ):  # what is drawn must stay what was certified
                object.__setattr__(self, name, real_array(getattr(self, name), name))
        if self.drive is not None:
            object.__setattr__(
                self, "drive", tuple(real_array(part, "drive") for part in self.drive)
            )

    @property
    def unit_variance(self):
        """Variance of one entry of eta: 1 for Gaussian, 2 for Laplace noise of scale one."""
        return family_of(self.law).unit_variance

    @property
    def timepts(self):
        """Time points (T,) of the horizon in seconds."""
        return self.plant.step * np.arange(self.horizon)

    @property
    def widths(self):
        """Entries of eta at one sample that belong to the structured, driven, correlated and independent part."""
        p = len(self.plant.C)
        return (
            0 if self.factor is None else self.factor.shape[1],
            0 if self.drive is None else self.drive[0].shape[1],
            0 if self.correlated is None else p,
            0 if self.scale is None else p,
        )

    @property
    def channels(self):
        """Number of entries of eta at one sample: the inputs ``eta[i]`` of the python-control systems."""
        return sum(self.widths)

    @property
    def drawn_once(self):
        """Whether all of eta is drawn at the first sample: structured noise and nothing else."""
        return not any(self.widths[1:])

    @property
    def initial_state_covariance(self):
        """Covariance v S S^T (n, n) of the random initial state; None without a structured part."""
        return (
            None
            if self.factor is None
            else self.unit_variance * self.factor @ self.factor.T
        )

    @cached_property
    def responses(self):
        """What each entry of eta adds to the outputs, as (T, p, R), but for the independent part; None if that is all.

        First the r columns C A^t S, then the entries of driven and correlated noise over the whole horizon.
        """
        parts = (
            []
            if self.factor is None
            else [free_outputs(self.plant, self.factor, self.horizon)]
        )
        if self.drive is not None:
            parts.append(forced_outputs(self.plant, *self.drive, self.horizon))
        if self.correlated is not None:
            parts.append(self.correlated)
        if not parts:
            return None
        frames = np.hstack(parts).reshape(self.horizon, len(self.plant.C), -1)
        frames.flags.writeable = False
        return frames

    def covariance(self, t, s=None):
        """Covariance (p, p) of gamma(t) and gamma(s), by sample index; s = t by default.

        Raises
        ------
        ValueError
            If an index is outside the horizon.
        """
        s = t if s is None else s
        for index in (t, s):
            if not 0 <= index < self.horizon:
                raise ValueError(
                    f"t: expected a sample index in 0 .. {self.horizon - 1}, got {index}"
                )
        p = len(self.plant.C)
        total = (
            np.zeros((p, p))
            if self.responses is None
            else self.responses[t] @ self.responses[s].T
        )
        return self.unit_variance * (
            total if self.scale is None else total + np.diag(self.scale**2) * (t == s)
        )

    def draw(self, rng, trials):
        """Standard entries eta for some trials from a Generator: (trials, r) if drawn once, else (trials, T, channels).

        Then the entries of the structured part stand at the first sample. Trial by trial in time order, so that fewer
        trials are a prefix of more.
        """
        once, fresh = self.widths[0], sum(self.widths[1:])
        drawn = self._standard(rng, (trials, once + self.horizon * fresh))
        if self.drawn_once:
            return drawn
        later = drawn[:, once:].reshape(trials, self.horizon, fresh)
        if not once:
            return later
        eta = np.zeros((trials, self.horizon, once + fresh))
        eta[:, 0, :once], eta[:, :, once:] = drawn[:, :once], later
        return eta

    def _standard(self, rng, shape):
        return family_of(self.law).standard(rng, shape)

    def signal(self, eta):
        """gamma as (trials, T, p) of entries eta from `draw`."""
        p, trials = len(self.plant.C), len(eta)
        gamma = np.zeros((trials, self.horizon, p))
        if self.factor is not None:
            first = eta if self.drawn_once else eta[:, 0]
            for k in range(
                self.factor.shape[1]
            ):  # one term at a time: the same sums whatever the number of trials
                gamma += first[:, k, None, None] * self.responses[:, :, k]
        if not self.drawn_once:
            _, driven, correlated, independent = np.split(
                eta, np.cumsum(self.widths)[:-1], axis=2
            )
            if self.drive is not None:
                gamma += self._driven(driven, 0.0)[0]
            if self.correlated is not None:
                gamma += self._correlated(correlated)
            if self.scale is not None:
                gamma += independent * self.scale
        return gamma

    def _driven(self, eta, state):
        """Outputs (trials, samples, p) of the driven part from a state, and the state after them."""
        (entry, through), out = (
            self.drive,
            np.empty((*eta.shape[:2], len(self.plant.C))),
        )
        state = np.zeros((len(eta), self.plant.order)) + state
        for t in range(eta.shape[1]):
            out[:, t] = state @ self.plant.C.T + eta[:, t] @ through.T
            state = state @ self.plant.A.T + eta[:, t] @ entry.T
        return out, state

    def _correlated(self, eta):
        out = np.empty_like(eta)
        for drawn, gamma in zip(
            eta, out
        ):  # trial by trial: the same sums whatever the number of trials
            gamma[:] = (self.correlated @ drawn.ravel()).reshape(gamma.shape)
        return out

    def inputs(self, eta):
        """Inputs ``eta[i]`` of the python-control systems as (trials, T, channels), from entries of `draw`.

        They are eta itself, but for the correlated part, which has no system of finite order: there its samples.
        Noise that is drawn once stands at the first sample, with zeros after.
        """
        if self.drawn_once:
            return np.concatenate(
                [eta[:, None], np.zeros((len(eta), self.horizon - 1, self.channels))],
                axis=1,
            )
        if self.correlated is None:
            return eta
        inputs, start = eta.copy(), sum(self.widths[:2])
        part = slice(start, start + self.widths[2])
        inputs[:, :, part] = self._correlated(eta[:, :, part])
        return inputs

    def sample(self, trials=1, rng=None):
        """Draw the noise of whole horizons.

        Parameters
        ----------
        trials : int, optional
        rng : None, int, SeedSequence or Generator, optional

        Returns
        -------
        ndarray, shape (p, trials, T)
        """
        return np.moveaxis(
            self.signal(self.draw(generator(rng), positive_integer(trials, "trials"))),
            2,
            0,
        )

    def stream(self, rng=None):
        """Yield gamma(t), shape (p,), one sample at a time; ends after the horizon.

        For the same seed the values are those of ``sample(1, rng)``. Memory is constant, whatever the horizon, but for a
        correlated part, which needs its whole past.
        """
        rng, p, (once, *widths) = generator(rng), len(self.plant.C), self.widths
        free = driving = np.zeros(self.plant.order)
        if self.factor is not None:
            free = self.factor @ self._standard(rng, once)
        frames = free_outputs(
            self.plant, np.eye(self.plant.order), min(_CHUNK, self.horizon)
        ).reshape(-1, p, self.plant.order)
        leap, past = np.linalg.matrix_power(self.plant.A, _CHUNK), np.zeros(0)
        for start in range(0, self.horizon, _CHUNK):
            count = min(_CHUNK, self.horizon - start)
            drawn = self._standard(rng, (count, sum(widths)))
            driven, correlated, independent = np.split(
                drawn, np.cumsum(widths)[:-1], axis=1
            )
            gamma = frames[:count] @ free
            free = leap @ free
            if self.drive is not None:
                part, driving = self._driven(driven[None], driving)
                gamma += part[0]
            if self.correlated is not None:
                past = np.append(past, correlated)
                gamma += (
                    self.correlated[start * p : len(past), : len(past)] @ past
                ).reshape(count, p)
            if self.scale is not None:
                gamma += independent * self.scale
            yield from gamma

    def guarantee_for(self, models, *, adjacency=None):
        """The guarantee when the true plant is any of several models, for the noise as it is; see `models_guarantee`."""
        return models_guarantee(self, models, adjacency=adjacency)

    def to_statespace(self):
        """The noise as a python-control system from eta to gamma; see `create_noise_iosystem`."""
        return create_noise_iosystem(self)

    def __repr__(self):
        parts = [
            f"structured rank {self.widths[0]}" * (self.factor is not None),
            "driven" * (self.drive is not None),
            "correlated" * (self.correlated is not None),
        ]
        parts = [part for part in parts if part]
        if self.scale is not None:
            parts.append("white floor" if parts else "independent")
        outputs = len(self.plant.C)
        return f"OutputNoise({self.law}, {' and '.join(parts)}, {outputs} output{'s' * (outputs > 1)}, horizon {self.horizon})"
