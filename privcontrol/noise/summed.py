"""Output noise as data: a sum of parts, what is drawn of it, and its exact moments.

What certifies, draws or saves noise needs no more than this. The doors to all that stand
on `OutputNoise`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Protocol, Self, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from ..core._linalg import Seed, check_memory, generator, positive_integer
from ..core._objects import ByContent
from ..core.errors import PrivacyError
from ..core.guarantee import PrivacyGuarantee
from ..core.noise import Noise, family_of
from ..systems.plant import Plant
from .parts import NoisePart, PartSum, White

_CHUNK = 1024  # samples that a stream draws at a time


@runtime_checkable
class Pricing(Protocol):
    """Something that prices output noise, such as a `PrivateLoop`."""

    def noise_weight(self, horizon: float) -> Any:
        """Return the map of `weight_root_of`, without a horizon a `LinearSystem`."""


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
    design: Any = field(compare=False)  # of the room above, None until certified
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
    def samples(self) -> int:
        """Number of samples T; a ``ValueError`` for noise without a horizon."""
        if self.horizon == math.inf:
            raise ValueError(
                "noise without a horizon needs a number of samples: pass the time points, "
                "use noise.over(T), or noise.sample(trials, horizon=T)"
            )
        return self.horizon

    def over(self, horizon: int) -> Self:
        """Return the noise of a run's first samples, with the same guarantee."""
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
    def total(self) -> PartSum:
        """The sum of all parts."""
        return PartSum(self.parts)

    @cached_property
    def responses(self) -> NDArray:
        """Response (T, p, R) of the outputs to each entry of eta.

        The entries of independent noise are left out. Their sizes are ``total.white``.
        """
        responses = self.total.responses(self.samples)
        responses.flags.writeable = False
        return responses

    @cached_property
    def stds(self) -> NDArray:
        """Standard deviations (p, T) of each output over the run, in its unit."""
        variances = self.total.variances(self.samples)
        stds = np.sqrt(self.law.unit_variance * variances).T
        stds.flags.writeable = False
        return stds

    @property
    def std(self) -> NDArray:
        """Largest standard deviation (p,) of each output over the run, in its unit."""
        run = self.over(1) if self.horizon == math.inf else self
        return run.stds.max(axis=1)

    def covariance(self, t: int = 0, s: int | None = None) -> NDArray:
        """Return the covariance (p, p) of gamma(t) and gamma(s) by sample index.

        By default s is t. Without a horizon t alone is a lag, which may be negative. A
        ``TypeError`` or ``ValueError`` refuses what is no index within the horizon.
        """
        t = _whole(t, "t")
        if s is None:
            t, s = (max(t, 0), max(-t, 0)) if self.horizon == math.inf else (t, t)
        t = sample_index(t, "t", self.horizon)
        s = sample_index(s, "s", self.horizon)
        return self.law.unit_variance * self.total.covariance(t, s)

    @property
    def law(self) -> type[Noise]:
        """The law of one entry of eta."""
        return family_of(self.family)

    def _drawn(self, rng: Seed, trials: int) -> tuple[NDArray, NDArray]:
        """Draw entries (trials, once) and (trials, T, width) in time order."""
        trials = positive_integer(trials, "trials")
        once, width = self.total.once, self.total.width
        count = once + self.samples * width
        check_memory(trials * max(count, self.samples * (once + width)), "trials")
        drawn = self.law.standard(generator(rng), (trials, count))
        return drawn[:, :once], drawn[:, once:].reshape(trials, self.horizon, width)

    def sample(
        self, trials: int = 1, rng: Seed = None, *, horizon: int | None = None
    ) -> NDArray:
        """Draw the noise of runs, as an array (p, trials, T).

        ``horizon`` is their number of samples T, by default that of the noise.
        """
        run = self if horizon is None else self.over(horizon)
        return np.moveaxis(run.total.signal(*run._drawn(rng, trials)), 2, 0)

    def stream(self, rng: Seed = None) -> Iterator[NDArray]:
        """Yield gamma(t), shape (p,), one sample at a time, until the horizon ends.

        For the same seed the values are those of ``sample(1, rng)``, up to rounding without
        a horizon. Memory is constant, except that a correlated part needs its whole past.
        """
        rng = generator(rng)
        going_on = self.total.stream(self.law.standard(rng, (self.total.once,)))
        left = self.horizon
        while left > 0:
            count = min(_CHUNK, left)
            left -= count
            fresh = self.law.standard(rng, (count, self.total.width))
            yield from going_on(fresh)

    def __repr__(self) -> str:
        parts = "independent" if self.total.consists_of(White) else str(self.total)
        plural = "s" * (self.outputs > 1)
        horizon = (
            "no horizon" if self.horizon == math.inf else f"horizon {self.horizon}"
        )
        return f"OutputNoise({self.family}, {parts}, {self.outputs} output{plural}, {horizon})"


def sample_index(index: int, name: str, horizon: float) -> int:
    """Return a sample index within a horizon."""
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
