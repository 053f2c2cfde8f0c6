"""Output noise as a random process: its laws, its draws and its exact moments.

`NoiseProcess` knows how many outputs the noise has and for how long, and nothing of a plant
or of a promise. `SummedNoise` joins it to both.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property, partial, reduce
from typing import Any, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from ..core.ball_noise import RADIAL_LAWS
from ..core.noise import family_of
from ..numerics.arguments import helpful_arguments
from ..numerics.checks import (
    Seed,
    check_memory,
    generator,
    instance_of,
    positive_integer,
    sample_index,
    whole_index,
)
from ..numerics.errors import PrivacyError
from ..numerics.objects import ByContent
from ..privacy.guarantee import PrivacyGuarantee
from ..privacy.horizon import Horizon, horizon_of
from ..privacy.law import GaussianLaw, Law
from ..systems.linear import Plant
from .bound import Bound
from .parts import Blocks, NoisePart, PartSum, Radial, Stream, White, shared_out
from .within import room_of

NoiseT = TypeVar("NoiseT", bound="SummedNoise")

#: Speed: samples that a stream draws at a time.
_CHUNK = 1024
#: What somebody wants who calls `draw` without arguments.
_DRAWN = (
    "they give standard entries; noise.sample(trials, rng=rng) draws the noise itself"
)


@dataclass(frozen=True, eq=False)
class NoiseProcess(ByContent):
    """A sum of parts at so many outputs, over a horizon or without one.

    ``kept`` is a bound that it never leaves, or None.
    """

    outputs: int
    horizon: Horizon
    family: str
    parts: tuple[NoisePart, ...]
    kept: Bound | None = None

    @property
    def samples(self) -> int:
        """Number of samples T; a ``ValueError`` for noise without a horizon."""
        return self.horizon.count(
            "noise without a horizon needs a number of samples: pass the time points, "
            "use noise.over(T), or noise.sample(trials, horizon=T)"
        )

    def over(self, horizon: int) -> NoiseProcess:
        """Return the first samples of the noise."""
        return replace(self, horizon=self.horizon.first(horizon))

    @cached_property
    def total(self) -> PartSum:
        """The sum of all parts."""
        return PartSum(self.parts)

    @cached_property
    def responses(self) -> NDArray[np.float64]:
        """Response (T, p, R) of the outputs to each entry of eta.

        The entries of independent noise are left out. Their sizes are ``total.white``.
        """
        responses = self.total.responses(self.samples)
        responses.flags.writeable = False
        return responses

    @property
    def scale(self) -> NDArray[np.float64] | None:
        """Size (p,) of the independent part at each output, None without one.

        It is a standard deviation for Gaussian noise and a scale for Laplace noise.
        """
        return getattr(self.total.part(White), "scale", None)

    @cached_property
    def stds(self) -> NDArray[np.float64]:
        """Standard deviations (p, T) of each output over the run, in its unit."""
        stds = np.sqrt(self._summed(lambda part: part.variances(self.samples))).T
        stds.flags.writeable = False
        return stds

    def covariance(self, t: int = 0, s: int | None = None) -> NDArray[np.float64]:
        """Return the covariance (p, p) of `SummedNoise.covariance`."""
        t = whole_index(t, "t")
        if s is None:
            t, s = self.horizon.pair(t)
        t = sample_index(t, "t", self.horizon)
        s = sample_index(s, "s", self.horizon)
        return self._summed(lambda part: part.covariance(t, s))

    @property
    def law(self) -> Law:
        """The law of the standard entries eta, of those that no floor has."""
        radial = self.total.part(Radial) or self.total.part(Blocks)
        return family_of(self.family).law if radial is None else radial.law

    def law_of(self, part: NoisePart) -> Law:
        """Return the law of the standard entries of one of the parts.

        A floor in addition to radial noise is Gaussian.
        """
        if self.is_mixed and not isinstance(part, Radial):
            return GaussianLaw()
        return self.law

    @property
    def is_mixed(self) -> bool:
        """Return whether the parts have two laws, radial noise in addition to a floor."""
        return self.family in RADIAL_LAWS and len(self.parts) > 1

    def _summed(
        self, moments: Callable[[NoisePart], NDArray[np.float64]]
    ) -> NDArray[np.float64]:
        """Return second moments of all parts, given those for entries of variance one."""
        if not self.is_mixed:
            return self.law.unit_variance * moments(self.total)
        every = [self.law_of(part).unit_variance * moments(part) for part in self.parts]
        return np.asarray(reduce(np.add, every))

    @partial(helpful_arguments, advice=_DRAWN)
    def draw(self, rng: Seed, trials: int) -> NDArray[np.float64]:
        """Draw eta (trials, T, channels), or (trials, channels) if drawn once.

        In the first shape the entries that are drawn once stand at the first sample, with
        zeros after. They are drawn trial by trial in time order, so fewer trials are a
        prefix of more. ``rng`` is a seed or a generator.
        """
        first, fresh = self._drawn(rng, trials)
        return _at_their_samples(first, fresh) if self.total.width else first

    def inputs(self, eta: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return inputs ``eta[i]`` of the python-control systems (trials, T, channels).

        They are the entries from `draw`, except that correlated noise, which has no system
        of finite order, enters with its samples.
        """
        first, fresh = self._entries(eta)
        signals = []
        for part, none, own in shared_out(self.parts, fresh[..., :0], fresh):
            signals.append(part.signal(none, own) if part.model is None else own)
        return _at_their_samples(first, np.concatenate(signals, axis=-1))

    def signal(self, eta: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return gamma (trials, T, p) of entries eta from `draw`."""
        return self.total.signal(*self._entries(eta))

    def _entries(
        self, eta: NDArray[np.float64]
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Split an array from `draw` into (trials, once) and (trials, T, width)."""
        once, width = self.total.once, self.total.width
        expected = ("trials", "T", once + width) if width else ("trials", once)
        is_array = isinstance(eta, np.ndarray) and eta.dtype.kind == "f"
        if not is_array or eta.ndim != len(expected) or eta.shape[-1] != expected[-1]:
            got = eta.shape if is_array else type(eta).__name__
            raise ValueError(
                f"eta: expected an array ({', '.join(map(str, expected))}) from `draw`, "
                f"got {got}"
            )
        if not self.total.width:
            return eta, np.empty((len(eta), self.samples, 0))
        return eta[:, 0, : self.total.once], eta[:, :, self.total.once :]

    def _drawn(
        self, rng: Seed, trials: int
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Draw entries (trials, once) and (trials, T, width) in time order."""
        trials = positive_integer(trials, "trials")
        once, width = self.total.once, self.total.width
        if self.kept is not None:
            return self._drawn_within(self.kept, generator(rng), trials)
        count = once + self.samples * width
        check_memory(trials * max(count, self.samples * (once + width)), "trials")
        if self.is_mixed:
            rng = generator(rng)
            first = self.law.standard(rng, (trials, once))
            shape = (trials, self.samples, width)
            return first, GaussianLaw().standard(rng, shape)
        drawn = self.law.standard(generator(rng), (trials, count))
        return drawn[:, :once], drawn[:, once:].reshape(trials, self.samples, width)

    def _drawn_within(
        self, kept: Bound, rng: np.random.Generator, trials: int
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Draw entries of runs that are kept within a bound, run by run."""
        room = room_of(self.parts, kept)
        firsts, runs = [], []
        for _ in range(trials):
            blocks = room.draws(lambda count: self.law.standard(rng, (count,)))
            first, fresh = next(blocks)
            found = [fresh]
            while sum(map(len, found)) < self.samples:
                found.append(next(blocks)[1])
            firsts.append(first)
            runs.append(np.concatenate(found)[: self.samples])
        return np.array(firsts), np.array(runs)

    def sample(self, trials: int, rng: Seed) -> NDArray[np.float64]:
        """Draw the noise of runs, as an array (p, trials, T)."""
        return np.moveaxis(self.total.signal(*self._drawn(rng, trials)), 2, 0)

    def stream(self, rng: Seed) -> Iterator[NDArray[np.float64]]:
        """Yield gamma(t), shape (p,), one sample at a time, until the horizon ends."""
        rng = generator(rng)
        if self.kept is not None:
            yield from self._stream_within(self.kept, rng)
            return
        going_on = self.total.stream(self.law.standard(rng, (self.total.once,)))
        of_samples = GaussianLaw() if self.is_mixed else self.law
        left: float = self.horizon
        while left > 0:
            count = int(min(_CHUNK, left))
            left -= count
            fresh = of_samples.standard(rng, (count, self.total.width))
            yield from going_on(fresh)

    def _stream_within(
        self, kept: Bound, rng: np.random.Generator
    ) -> Iterator[NDArray[np.float64]]:
        """Yield gamma(t) of noise that is kept within a bound."""
        room = room_of(self.parts, kept)
        blocks = room.draws(lambda count: self.law.standard(rng, (count,)))
        left: float = self.horizon
        going_on: Stream | None = None
        while left > 0:
            first, fresh = next(blocks)
            if going_on is None:
                going_on = self.total.stream(first)
            samples = going_on(fresh[: int(min(left, len(fresh)))])
            left -= len(samples)
            yield from samples


@dataclass(frozen=True, repr=False, eq=False)
class SummedNoise(ByContent):
    """Noise for the outputs of a plant, a sum of parts, with its guarantee.

    Two are equal if plant, horizon, parts and guarantee are.
    """

    plant_data: Plant
    horizon: Horizon
    family: str
    parts: tuple[NoisePart, ...]
    guarantee: PrivacyGuarantee
    design: Any = field(compare=False)  # of the room above, None until certified
    request: Any = field(default=None, compare=False)
    kept: Bound | None = field(default=None, kw_only=True)
    process: NoiseProcess = field(init=False, compare=False)
    _promised: tuple[Any, ...] | None = field(default=None, compare=False, kw_only=True)

    def __post_init__(self) -> None:
        """Bind the guarantee to what it is about.

        ``_promised`` holds what the guarantee was made for, so `dataclasses.replace`
        cannot keep it for other noise.
        """
        instance_of(self.plant_data, Plant, "plant_data", "noise.plant_data")
        for part in instance_of(self.parts, tuple, "parts", "noise.parts"):
            instance_of(part, NoisePart, "parts", "noise.parts")
        instance_of(self.family, str, "family", "noise.family")
        object.__setattr__(self, "horizon", horizon_of(self.horizon))
        instance_of(self.guarantee, PrivacyGuarantee, "guarantee", "noise.guarantee")
        if self.kept is not None:
            instance_of(self.kept, Bound, "kept", "noise.kept")
        if self._promised is not None and not _is_promise(self._promised):
            raise TypeError(
                "promised: expected none, since the design sets it; design_output_noise makes "
                "noise"
            )
        about: tuple[Any, ...] = (
            self.plant_data,
            self.horizon,
            self.family,
            self.parts,
        )
        about = (*about, self.guarantee, self.kept)
        known, request = self._promised or (about, self.request)
        object.__setattr__(self, "_promised", (known, request))
        is_same = self.request is None or self.request is request
        if not is_same and type(self.request) is type(request):
            is_same = self.request == request
        if known != about or not is_same:
            raise PrivacyError(
                "replace: the guarantee is about this plant, horizon, request and parts and "
                "does not hold for others; design it again, or scale with "
                "with_std"
            )
        process = NoiseProcess(
            self.plant_data.output_count,
            self.horizon,
            self.family,
            self.parts,
            self.kept,
        )
        object.__setattr__(self, "process", process)

    def over(self, horizon: int) -> Self:
        """Return the noise of a run's first samples, with the same guarantee.

        Parameters
        ----------
        horizon : int
            Number of samples T, at most the noise's horizon.

        Returns
        -------
        Self
            Over the horizon that was asked for.

        Examples
        --------
        >>> import numpy as np, privcontrol as pc
        >>> budget = pc.PrivacyBudget(epsilon=1.0, delta=1e-2)
        >>> noise = pc.design_output_noise(pc.plants.vehicle(), horizon=5, budget=budget,
        ...     adjacency=pc.StateAdjacency({"position": 1.0}), models="exact")
        >>> noise.over(3).horizon
        3
        """
        run = self.horizon.first(horizon)
        return self if run == self.horizon else promising(self, horizon=run)

    @property
    def timepts(self) -> NDArray[np.float64]:
        """Time points (T,) of the horizon in seconds."""
        return self.plant_data.step * np.arange(self.process.samples, dtype=float)

    @property
    def stds(self) -> NDArray[np.float64]:
        """Standard deviations (p, T) of each output over the run, in its unit."""
        return self.process.stds

    @property
    def std(self) -> NDArray[np.float64]:
        """Largest standard deviation (p,) of each output over the run, in its unit."""
        return self.process.over(self.horizon.distinct).stds.max(axis=1)

    def covariance(self, t: int = 0, s: int | None = None) -> NDArray[np.float64]:
        """Return the covariance (p, p) of gamma(t) and gamma(s) by sample index.

        By default s is t. Without a horizon t alone is a lag, which may be negative. A
        ``TypeError`` or ``ValueError`` refuses an index outside the horizon.

        Parameters
        ----------
        t, s : int, optional
            Sample indices, 0 and t by default.

        Returns
        -------
        ndarray, shape (p, p)
            In products of the units of two outputs.

        Examples
        --------
        >>> import numpy as np, privcontrol as pc
        >>> budget = pc.PrivacyBudget(epsilon=1.0, delta=1e-2)
        >>> noise = pc.design_output_noise(pc.plants.vehicle(), horizon=5, budget=budget,
        ...     adjacency=pc.StateAdjacency({"position": 1.0}), models="exact")
        >>> noise.covariance(0).shape, noise.covariance(0, 4).shape
        ((1, 1), (1, 1))
        """
        return self.process.covariance(t, s)

    def sample(
        self, trials: int = 1, rng: Seed = None, *, horizon: int | None = None
    ) -> NDArray[np.float64]:
        """Draw the noise of runs, as an array (p, trials, T).

        ``horizon`` is their number of samples T, by default the noise's horizon.

        Parameters
        ----------
        trials : int, optional
            Number of runs.
        rng : int, SeedSequence or Generator, optional
            For draws that can be repeated.
        horizon : int, optional
            Number of samples T, by default the noise's horizon; needed where it has
            none.

        Returns
        -------
        ndarray, shape (p, trials, T)
            In the units of the outputs.

        Examples
        --------
        >>> import numpy as np, privcontrol as pc
        >>> budget = pc.PrivacyBudget(epsilon=1.0, delta=1e-2)
        >>> noise = pc.design_output_noise(pc.plants.vehicle(), horizon=5, budget=budget,
        ...     adjacency=pc.StateAdjacency({"position": 1.0}), models="exact")
        >>> noise.sample(trials=3, rng=0).shape
        (1, 3, 5)
        """
        run = self.process if horizon is None else self.process.over(horizon)
        return run.sample(trials, rng)

    def stream(self, rng: Seed = None) -> Iterator[NDArray[np.float64]]:
        """Yield gamma(t), shape (p,), one sample at a time, until the horizon ends.

        For the same seed the values equal ``sample(1, rng)``, up to rounding. Memory
        is constant, except that a correlated part needs its whole past.

        Parameters
        ----------
        rng : int, SeedSequence or Generator, optional
            For a run that can be repeated.

        Yields
        ------
        ndarray, shape (p,)
            In the units of the outputs; endless without a horizon.

        Examples
        --------
        >>> import numpy as np, privcontrol as pc
        >>> budget = pc.PrivacyBudget(epsilon=1.0, delta=1e-2)
        >>> noise = pc.design_output_noise(pc.plants.vehicle(), horizon=5, budget=budget,
        ...     adjacency=pc.StateAdjacency({"position": 1.0}), models="exact")
        >>> samples = list(noise.stream(rng=0))
        >>> len(samples), np.allclose(np.array(samples).T, noise.sample(1, rng=0)[:, 0])
        (5, True)
        """
        yield from self.process.stream(rng)

    def __repr__(self) -> str:
        parts = (
            "independent"
            if self.process.total.consists_of(White)
            else str(self.process.total)
        )
        plural = "s" * (self.process.outputs > 1)
        return (
            f"OutputNoise({self.family}, {parts}, {self.process.outputs} output{plural}, "
            f"{self.horizon.text})"
        )


def promising(noise: NoiseT, **changes: Any) -> NoiseT:
    """Return noise with another promise, for which whoever calls this answers.

    `dataclasses.replace` keeps a promise only for the noise that it was made for.
    """
    return replace(noise, **changes, _promised=None)


def _is_promise(given: object) -> bool:
    """Return whether something may hold what a guarantee was made for, and the request."""
    return isinstance(given, tuple) and len(given) == 2 and isinstance(given[0], tuple)


def _at_their_samples(
    first: NDArray[np.float64], fresh: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return entries (trials, T, channels), those drawn once at the first sample."""
    trials, samples, _ = fresh.shape
    once = np.zeros((trials, samples, first.shape[1]))
    once[:, 0] = first
    return np.concatenate([once, fresh], axis=2)
