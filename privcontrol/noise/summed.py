"""Output noise as data: a sum of parts, what is drawn of it, and its exact moments.

What certifies, draws or saves noise needs no more than this. The doors to all that stand
on `OutputNoise`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property, reduce
from typing import Any, Protocol, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from ..core._frozen import ByContent
from ..core._linalg import check_memory, positive_integer
from ..core._random import Seed, generator
from ..core.design import NoiseDesign
from ..core.errors import PrivacyError
from ..core.guarantee import PrivacyGuarantee
from ..core.noise import family_of
from ..secrets._forms import NoiseForm
from ..systems.linear import LinearSystem
from ..systems.plant import Plant
from .parts import NoisePart, Structured, White, responses_of, white_of

PartT = TypeVar("PartT", bound=NoisePart)

_CHUNK = 1024  # samples that a stream draws at a time


class Pricing(Protocol):
    """Something that prices output noise, such as a `PrivateLoop`."""

    def noise_weight(self, horizon: float) -> Any:
        """The map of `weight_root_of`, without a horizon a `LinearSystem`."""


@dataclass(frozen=True, repr=False, eq=False)
class SummedNoise(ByContent):
    """Noise for the outputs of a plant, a sum of parts, with its guarantee.

    Two are equal if plant, horizon, parts and guarantee are.
    """

    plant_data: Plant
    horizon: int
    family: str
    parts: tuple[NoisePart, ...]
    guarantee: PrivacyGuarantee
    design: NoiseDesign = field(compare=False)
    request: Any = field(default=None, compare=False)
    promised: tuple | None = field(default=None, compare=False, kw_only=True)

    def __post_init__(self) -> None:
        """Bind the guarantee to what it is about.

        ``promised`` holds what the guarantee was made for, so `dataclasses.replace`
        cannot keep it for other noise.
        """
        about = (self.plant_data, self.horizon, self.family, self.parts, self.guarantee)
        known, request = self.promised or (about, self.request)
        object.__setattr__(self, "promised", (known, request))
        if known != about or self.request not in (None, request):
            raise PrivacyError(
                "replace: the guarantee is about this plant, horizon, request and parts and "
                "does not hold for others; design it again, or scale with "
                "with_std"
            )

    @property
    def outputs(self) -> int:
        """Number of outputs p."""
        return len(self.plant_data.C)

    @property
    def unit_variance(self) -> float:
        """Variance of one entry of eta, 1 if Gaussian and 2 if Laplace of scale one."""
        return family_of(self.family).unit_variance

    @property
    def never_ends(self) -> bool:
        """Whether the guarantee holds for runs of any length."""
        return self.horizon == math.inf

    @property
    def samples(self) -> int:
        """Number of samples T; a ``ValueError`` for noise without a horizon."""
        if self.never_ends:
            raise ValueError(
                "noise without a horizon needs a number of samples: pass the time points, "
                "use noise.over(T), or noise.sample(trials, horizon=T)"
            )
        return self.horizon

    def over(self, horizon: int) -> Self:
        """The noise of the first samples of a run, with the same guarantee."""
        count = positive_integer(horizon, "horizon")
        if count > self.horizon:
            raise ValueError(
                f"horizon: expected at most the {self.horizon} samples that the guarantee "
                f"covers, got {count}"
            )
        return replace(self, horizon=count, promised=None)

    @property
    def timepts(self) -> NDArray:
        """Time points (T,) of the horizon in seconds."""
        return self.plant_data.step * np.arange(self.samples)

    @cached_property
    def model(self) -> LinearSystem:
        """The noise from the entries that are drawn at every sample to gamma."""
        models = [part.model for part in self.parts if part.model is not None]
        if len(models) < len(self.parts):
            raise ValueError("correlated noise has no system of finite order")
        return reduce(LinearSystem.plus, models)

    def part(self, kind: type[PartT]) -> PartT | None:
        """The part of a kind, such as `Structured`, or None."""
        for part in self.parts:
            if isinstance(part, kind):
                return part
        return None

    def consists_of(self, *kinds: type[NoisePart]) -> bool:
        """Return whether all parts are of these kinds."""
        return all(isinstance(part, kinds) for part in self.parts)

    @property
    def factor(self) -> NDArray | None:
        """S (n, r) of the structured part C A^t S eta, None without one."""
        return getattr(self.part(Structured), "factor", None)

    @property
    def scale(self) -> NDArray | None:
        """Size (p,) of the independent part at each output, None without one.

        It is a standard deviation for Gaussian noise and a scale for Laplace noise.
        """
        return getattr(self.part(White), "scale", None)

    @property
    def form(self) -> NoiseForm:
        """The structured and the independent part, for secrets about states."""
        return NoiseForm(self.plant_data, self.horizon, self.factor, self.scale)

    @property
    def once(self) -> int:
        """Number of entries of eta that are drawn once, before the first sample."""
        return sum(part.once for part in self.parts)

    @property
    def width(self) -> int:
        """Number of entries of eta that are drawn at every sample."""
        return sum(part.width for part in self.parts)

    @property
    def channels(self) -> int:
        """Number of inputs ``eta[i]`` of the python-control systems."""
        return self.once + self.width

    @property
    def drawn_once(self) -> bool:
        """Whether all of eta is drawn before the first sample."""
        return self.width == 0

    @property
    def initial_state_covariance(self) -> NDArray | None:
        """Covariance v S S^T (n, n) of the random initial state.

        v is 1 for Gaussian and 2 for Laplace noise. None without a structured part.
        """
        if self.factor is None:
            return None
        return self.unit_variance * self.factor @ self.factor.T

    @cached_property
    def responses(self) -> NDArray:
        """What each entry of eta adds to the outputs, as (T, p, R).

        The entries of independent noise are left out. Their sizes are `white`.
        """
        responses = responses_of(self.parts, self.samples)
        responses.flags.writeable = False
        return responses

    @property
    def white(self) -> NDArray:
        """Sizes (p,) of independent noise, zero without any."""
        return white_of(self.parts)

    @cached_property
    def stds(self) -> NDArray:
        """Standard deviations (p, T) of each output over the run, in its unit."""
        variances = sum(part.variances(self.samples) for part in self.parts)
        stds = np.sqrt(self.unit_variance * variances).T
        stds.flags.writeable = False
        return stds

    @property
    def std(self) -> NDArray:
        """Largest standard deviation (p,) of each output over the run, in its unit."""
        run = self.over(1) if self.never_ends else self
        return run.stds.max(axis=1)

    def covariance(self, t: int = 0, s: int | None = None) -> NDArray:
        """Covariance (p, p) of gamma(t) and gamma(s) by sample index.

        By default s is t. Without a horizon t alone is a lag, which may be negative. A
        ``TypeError`` or ``ValueError`` refuses what is no index within the horizon.
        """
        t = _whole(t, "t")
        if s is None:
            t, s = (max(t, 0), max(-t, 0)) if self.never_ends else (t, t)
        t = sample_index(t, "t", self.horizon)
        s = sample_index(s, "s", self.horizon)
        total = np.zeros((self.outputs, self.outputs))
        for part in self.parts:
            total += part.covariance(t, s)
        return self.unit_variance * total

    def draw(self, rng: Seed, trials: int) -> NDArray:
        """Standard entries eta, (trials, T, channels), or (trials, channels) if drawn once.

        In the first shape the entries that are drawn once stand at the first sample, with
        zeros after. They are drawn trial by trial in time order, so fewer trials are a
        prefix of more. ``rng`` is a seed or a generator.
        """
        trials = positive_integer(trials, "trials")
        once = self.once
        count = once + self.samples * self.width
        check_memory(trials * max(count, self.samples * self.channels), "trials")
        drawn = self._standard(generator(rng), (trials, count))
        if self.drawn_once:
            return drawn
        fresh = drawn[:, once:].reshape(trials, self.horizon, self.width)
        eta = np.zeros((trials, self.horizon, self.channels))
        eta[:, 0, :once] = drawn[:, :once]
        eta[:, :, once:] = fresh
        return eta

    def _standard(self, rng: np.random.Generator, shape: tuple[int, ...]) -> NDArray:
        return family_of(self.family).standard(rng, shape)

    def _first_and_fresh(self, eta: NDArray) -> tuple[NDArray, NDArray]:
        """Entries (trials, once) and (trials, T, width) of an array from `draw`."""
        if self.drawn_once:
            return eta, np.empty((len(eta), self.horizon, 0))
        return eta[:, 0, : self.once], eta[:, :, self.once :]

    def _split(self, first: NDArray, fresh: NDArray) -> Iterator[tuple]:
        """Each part with its own entries, which stand side by side on the last axis."""
        once = width = 0
        for part in self.parts:
            own_first = first[..., once : once + part.once]
            own_fresh = fresh[..., width : width + part.width]
            yield part, own_first, own_fresh
            once += part.once
            width += part.width

    def signal(self, eta: NDArray) -> NDArray:
        """gamma as (trials, T, p) of entries eta from `draw`."""
        first, fresh = self._first_and_fresh(eta)
        gamma = np.zeros((len(eta), self.samples, self.outputs))
        for part, own_first, own_fresh in self._split(first, fresh):
            gamma += part.signal(own_first, own_fresh)
        return gamma

    def inputs(self, eta: NDArray) -> NDArray:
        """Inputs ``eta[i]`` of the python-control systems as (trials, T, channels).

        They are the entries from `draw`, except that correlated noise, which has no system
        of finite order, enters with its samples.
        """
        first, fresh = self._first_and_fresh(eta)
        inputs = np.zeros((len(eta), self.horizon, self.channels))
        inputs[:, 0, : self.once] = first
        start = self.once
        for part, _, own_fresh in self._split(first, fresh):
            inputs[:, :, start : start + part.width] = part.inputs(own_fresh)
            start += part.width
        return inputs

    def sample(
        self, trials: int = 1, rng: Seed = None, *, horizon: int | None = None
    ) -> NDArray:
        """Draw the noise of runs, as an array (p, trials, T).

        ``horizon`` is their number of samples T, by default that of the noise.
        """
        run = self if horizon is None else self.over(horizon)
        return np.moveaxis(run.signal(run.draw(rng, trials)), 2, 0)

    def stream(self, rng: Seed = None) -> Iterator[NDArray]:
        """Yield gamma(t), shape (p,), one sample at a time, until the horizon ends.

        For the same seed the values are those of ``sample(1, rng)``, up to rounding without
        a horizon. Memory is constant, except that a correlated part needs its whole past.
        """
        rng = generator(rng)
        first = self._standard(rng, (self.once,))
        none = np.empty((0, self.width))
        states = [part.start(own) for part, own, _ in self._split(first, none)]
        left = self.horizon
        while left > 0:
            count = min(_CHUNK, left)
            left -= count
            fresh = self._standard(rng, (count, self.width))
            gamma = np.zeros((count, self.outputs))
            for k, (part, _, own_fresh) in enumerate(self._split(first, fresh)):
                samples, states[k] = part.advance(states[k], own_fresh)
                gamma += samples
            yield from gamma

    def check_plant(self, sys: Any) -> None:
        """Raise a ``ValueError`` unless a plant is the one that the noise was designed for.

        A, B, C, D, the sampling time and all names must agree, because the guarantee is
        about them.
        """
        plant = Plant.of(sys)
        different = self.plant_data.differences(plant)
        if different:
            raise ValueError(
                f"noise was designed for a plant with another {' and '.join(different)}:"
                f" its guarantee would not hold here; design it for {plant.name}"
            )

    def __repr__(self) -> str:
        alone = len(self.parts) == 1
        parts = " and ".join(part.label(alone) for part in self.parts)
        plural = "s" * (self.outputs > 1)
        horizon = "no horizon" if self.never_ends else f"horizon {self.horizon}"
        return f"OutputNoise({self.family}, {parts}, {self.outputs} output{plural}, {horizon})"


def sample_index(index: int, name: str, horizon: float) -> int:
    """A sample index within a horizon."""
    if not 0 <= _whole(index, name) < horizon:
        raise ValueError(
            f"{name}: expected a sample index in 0 .. {horizon - 1}, got {index}"
        )
    return int(index)


def _whole(index: int, name: str) -> int:
    if isinstance(index, bool) or not isinstance(index, (int, np.integer)):
        raise TypeError(
            f"{name}: expected a sample index, got {type(index).__name__}; "
            "to get indices from seconds divide by dt"
        )
    return int(index)
