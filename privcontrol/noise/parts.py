"""The parts that output noise is a sum of.

A part is linear in independent standard entries eta. Some of them are drawn once, before
the first sample, and the others again at every sample. All parts answer the same
questions, so whoever uses output noise need not know what it is made of. `NoiseProcess` is
such a sum over a horizon, with its laws, draws and exact moments.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, reduce
from typing import Any, ClassVar, Protocol, Self, TypeAlias, TypeVar, runtime_checkable

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

from ..core.ball_noise import BallNoise, BlockNoise
from ..core.manifold import Moves
from ..core.noise import GaussianNoise, Noise, family_of
from ..numerics.checks import (
    instance_of,
    positive_integer,
    real_array,
)
from ..numerics.linalg import column_norms
from ..numerics.objects import ByContent
from ..numerics.saved import Saved
from ..privacy.law import BallLaw, BlockLaw
from ..privacy.loss import PrivacyLoss, composed
from ..secrets.disturbed import causal_map
from ..secrets.hiding import NoiseForm
from ..systems.linear import (
    LEAP,
    LinearSystem,
    Plant,
    VaryingSystem,
    mapped,
    reachability_gramian,
    root,
    sum_of,
    to_states,
)

#: Makes the next samples (count, p) of a stream from their fresh entries (count, width).
Stream: TypeAlias = Callable[[NDArray[np.float64]], NDArray[np.float64]]


class NoisePart(ByContent, Saved, ABC):
    """One summand of output noise.

    Entries that are drawn once come as ``first`` (trials, once), the others as ``fresh``
    (trials, T, width). A part that is a linear system says so in `model` and `state_root`,
    and everything else follows. Its name for users is its `str`.
    """

    #: Whether it is noise of many units, unit by unit, whose system is never formed whole.
    of_units: ClassVar[bool] = False

    @property
    @abstractmethod
    def model(self) -> LinearSystem | None:
        """xi+ = A xi + B eta, gamma = C xi + D eta of fresh entries, or None."""

    @property
    def _model(self) -> LinearSystem:
        """The `model` of a part that has one. The others answer for themselves."""
        if self.model is None:
            raise ValueError("correlated noise has no system of finite order")
        return self.model

    @property
    def state_root(self) -> NDArray[np.float64]:
        """R (k, once) with xi(0) = R times the entries that are drawn once."""
        return np.zeros((0 if self.model is None else self.model.order, 0))

    @property
    def once(self) -> int:
        """Number of entries that are drawn once."""
        return self.state_root.shape[1]

    @property
    def width(self) -> int:
        """Number of entries that are drawn at every sample."""
        return self._model.input_count

    def signal(
        self, first: NDArray[np.float64], fresh: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        """Return gamma as (trials, T, p)."""
        start = mapped(self.state_root, first)
        return self._model.run(start, fresh)[0]

    def stream(self, first: NDArray[np.float64]) -> Stream:
        """Begin a stream with the entries (once,) that are drawn once.

        It goes block by block, which is fifty times as fast as sample by sample.
        """
        state = self.state_root @ first
        outputs = self._model.output_count
        if self._model.varies:
            return self._varying_stream(state)

        def advance(fresh: NDArray[np.float64]) -> NDArray[np.float64]:
            nonlocal state
            gamma = []
            for begin in range(0, len(fresh), LEAP):
                entries = fresh[begin : begin + LEAP]
                is_whole = len(entries) == LEAP
                onward = self._block if is_whole else self._map(len(entries))
                block = onward @ np.append(state, entries)
                samples = block[: len(entries) * outputs]
                gamma.append(samples.reshape(-1, outputs))
                state = block[len(samples) :]
            return np.concatenate(gamma)

        return advance

    def streams(self, first: NDArray[np.float64]) -> Stream:
        """Begin streams of several units together, with entries (N, once) drawn once.

        They take fresh entries (N, count, width) to samples (N, count, p).
        """
        every = [self.stream(entries) for entries in first]

        def advance(fresh: NDArray[np.float64]) -> NDArray[np.float64]:
            units = zip(every, fresh, strict=True)
            return np.stack([unit(own) for unit, own in units])

        return advance

    def _varying_stream(self, state: NDArray[np.float64]) -> Stream:
        """Begin a stream of a part that varies, which goes sample by sample."""
        t = 0

        def advance(fresh: NDArray[np.float64]) -> NDArray[np.float64]:
            nonlocal state, t
            gamma, states = self._model.run(state[None], fresh[None], t)
            state = states[0]
            t += len(fresh)
            return gamma[0]

        return advance

    @cached_property
    def _block(self) -> NDArray[np.float64]:
        return self._map(LEAP)

    def _map(self, count: int) -> NDArray[np.float64]:
        """Map a state and the entries of some samples to their outputs and the next."""
        A, B, C, D = self._model.matrices
        order = len(A)
        size = order + count * self.width
        every = np.eye(size)
        state = every[:order]
        rows = []
        for entries in every[order:].reshape(count, self.width, size):
            rows.append(C @ state + D @ entries)
            state = A @ state + B @ entries
        return np.vstack([*rows, state])

    def _impulses(
        self, horizon: int
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Respond to entries at the first sample, (T, p, once) and (T, p, width)."""
        model = self._model
        once = model.free_response(self.state_root, horizon)
        return (
            once.reshape(horizon, model.output_count, -1),
            model.impulse_response(horizon),
        )

    def responses(self, horizon: int) -> NDArray[np.float64]:
        """Return the responses (T, p, R) of the outputs to each entry of eta.

        Entries that act on one output at one sample only stand in `white` instead.
        """
        once, fresh = self._impulses(horizon)
        later = causal_map(fresh).reshape(*once.shape[:2], -1)
        return np.concatenate([once, later], axis=2)

    @property
    def white(self) -> NDArray[np.float64]:
        """Sizes (p,) of the entries that act on one output at one sample only."""
        return np.zeros(self._model.output_count)

    def covariance(self, t: int, s: int) -> NDArray[np.float64]:
        """Return the covariance (p, p) of gamma(t) and gamma(s), of unit entries.

        It is C A^(t - s) P C^T with the covariance P of xi(s), and what gamma(s) shares
        with xi(s + 1) of the entries of sample s.
        """
        if t < s:
            return self.covariance(s, t).T
        model = self.model
        if model is None or model.varies:
            rows = self.responses(t + 1)
            return rows[t] @ rows[s].T + (t == s) * np.diag(self.white**2)
        A, B, C, D = model.matrices
        begun = np.linalg.matrix_power(A, s) @ self.state_root
        entered = to_states(model).free_response(B, s).reshape(s, *B.shape)
        P = begun @ begun.T + np.einsum("kiq,kjq->ij", entered, entered)
        if t == s:
            return C @ P @ C.T + D @ D.T
        onward = A @ P @ C.T + B @ D.T
        return C @ np.linalg.matrix_power(A, t - s - 1) @ onward

    def variances(self, horizon: int) -> NDArray[np.float64]:
        """Return the variances (T, p) of the outputs for entries of variance one."""
        if self.model is None or self.model.varies:
            return np.sum(self.responses(horizon) ** 2, axis=2) + self.white**2
        once, fresh = self._impulses(horizon)
        arrived = np.cumsum(np.sum(fresh**2, axis=2), axis=0)
        return np.sum(once**2, axis=2) + arrived

    @property
    def drive(self) -> tuple[LinearSystem | None, LinearSystem] | None:
        """(G, Q) of a part G Q nu with white nu and a square Q, whose D is nonsingular.

        G is a plant, or None for Q nu alone.
        """
        return None

    @abstractmethod
    def scaled(self, gain: float) -> NoisePart:
        """Return the same part, ``gain`` times as large."""


@dataclass(frozen=True, eq=False)
class Structured(NoisePart):
    """The plant's free response C A^t S eta from a random state that is drawn once."""

    plant: Plant
    factor: NDArray[np.float64]  # S (n, r)

    def __post_init__(self) -> None:
        object.__setattr__(self, "factor", real_array(self.factor, "factor", ndim=2))

    @property
    def model(self) -> LinearSystem:
        return self.plant.entered_by(())

    @property
    def state_root(self) -> NDArray[np.float64]:
        return self.factor

    def responses(self, horizon: int) -> NDArray[np.float64]:
        return self._impulses(horizon)[0]  # no entry is fresh

    def variances(self, horizon: int) -> NDArray[np.float64]:
        return np.sum(self.responses(horizon) ** 2, axis=2)

    def signal(
        self, first: NDArray[np.float64], fresh: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        responses = self.responses(fresh.shape[1])
        gamma = np.zeros((len(first), *responses.shape[:2]))
        # one term at a time: the same sums for any number of trials
        for k in range(self.once):
            gamma += first[:, k, None, None] * responses[:, :, k]
        return gamma

    def scaled(self, gain: float) -> Structured:
        return replace(self, factor=self.factor * gain)

    def __str__(self) -> str:
        return f"structured rank {self.once}"


@dataclass(frozen=True, eq=False)
class Radial(Structured):
    """Structured noise whose entries have the joint density exp(-|eta|).

    With a ``bound`` there is no eta beyond that radius.
    """

    bound: float = math.inf

    @property
    def law(self) -> BallLaw:
        """The law of the entries."""
        return BallLaw(self.once, self.bound)

    def __str__(self) -> str:
        cut = " within a bound" if self.law.is_cut else ""
        return f"structured rank {self.once}, radial{cut}"


@dataclass(frozen=True, eq=False)
class Blocks(Structured):
    """Structured noise whose entries are independent blocks, each of a radial law.

    The first ``sizes[0]`` entries are those of the first block. They have variance one.
    """

    sizes: tuple[int, ...]

    def __post_init__(self) -> None:
        super().__post_init__()
        for size in instance_of(self.sizes, tuple, "sizes", "(2, 1)"):
            positive_integer(size, "sizes")
        if sum(self.sizes) != self.once:
            raise ValueError(
                f"sizes: expected {self.once} entries in all, got {self.sizes}"
            )

    @property
    def law(self) -> BlockLaw:
        """The law of the entries."""
        return BlockLaw(self.sizes)

    def __str__(self) -> str:
        numbers = ", ".join(map(str, self.sizes))
        return f"structured rank {self.once}, radial in blocks of {numbers}"


@dataclass(frozen=True, eq=False)
class Driven(NoisePart):
    """The plant's response to fresh disturbances at all entries of a signal.

    gamma(t) = C xi(t) + F w(t), xi(t+1) = A xi(t) + E w(t), w = sizes * eta, from
    xi(0) = 0. E and F are the plant's own numbers, and only eta is scaled: the response to
    a change dw of the signal is then that of eta by dw / sizes, exactly.
    """

    response: LinearSystem  # from w to the outputs: A, E, C and F
    sizes: NDArray[np.float64]  # (q,)

    def __post_init__(self) -> None:
        sizes = real_array(self.sizes, "sizes", shape=(self.response.input_count,))
        object.__setattr__(self, "sizes", sizes)

    @property
    def model(self) -> LinearSystem:
        A, E, C, F = self.response.matrices
        return LinearSystem(A, E * self.sizes, C, F * self.sizes)

    @property
    def drive(self) -> tuple[LinearSystem, LinearSystem]:
        return self.response, LinearSystem.gain(np.diag(self.sizes))

    def scaled(self, gain: float) -> Driven:
        return replace(self, sizes=self.sizes * gain)

    def __str__(self) -> str:
        return "driven"


@dataclass(frozen=True, eq=False)
class Correlated(NoisePart):
    """Lambda eta with a lower triangular Lambda (T p, T p), time-major.

    It has one entry of eta for each sample and output, and no system of finite order.
    Samples are made as time goes on, so none may depend on entries of later ones.
    """

    root: NDArray[np.float64]
    outputs: int = 1

    def __post_init__(self) -> None:
        root = real_array(self.root, "root", ndim=2)
        object.__setattr__(self, "root", root)
        size, width = root.shape
        if size != width or size % self.outputs:
            raise ValueError(
                f"root: expected shape (T {self.outputs}, T {self.outputs}), got "
                f"{root.shape}"
            )
        for begin in range(0, size, self.outputs):
            end = begin + self.outputs
            if root[begin:end, end:].any():
                raise ValueError(
                    "root: expected a lower triangular matrix, got noise of a sample that "
                    "depends on entries of later ones"
                )

    @property
    def model(self) -> None:
        return None

    @property
    def width(self) -> int:
        return self.outputs

    @property
    def white(self) -> NDArray[np.float64]:
        return np.zeros(self.outputs)

    @property
    def by_output(self) -> NDArray[np.float64]:
        """The noise of each output at all samples (p, T T p), as it comes from eta."""
        rows = self.root.reshape(-1, self.outputs, len(self.root))
        return rows.transpose(1, 0, 2).reshape(self.outputs, -1)

    def signal(
        self, first: NDArray[np.float64], fresh: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        # trial by trial: the same sums for any number of trials
        return np.stack([self.stream(first)(drawn) for drawn in fresh])

    def stream(self, first: NDArray[np.float64]) -> Stream:
        past = np.zeros(0)

        def advance(fresh: NDArray[np.float64]) -> NDArray[np.float64]:
            nonlocal past
            begin = len(past)
            past = np.append(past, fresh)
            rows = self.root[begin : len(past), : len(past)]
            return (rows @ past).reshape(fresh.shape)

        return advance

    def responses(self, horizon: int) -> NDArray[np.float64]:
        size = horizon * self.outputs
        return self.root[:size].reshape(horizon, self.outputs, -1)

    def scaled(self, gain: float) -> Correlated:
        return replace(self, root=self.root * gain)

    def __str__(self) -> str:
        return "correlated"


@dataclass(frozen=True, eq=False)
class DrawnOnce(NoisePart):
    """Lambda eta with Lambda (T p, r), time-major, of entries that are drawn once."""

    columns: NDArray[np.float64]
    outputs: int = 1

    def __post_init__(self) -> None:
        columns = real_array(self.columns, "columns", ndim=2)
        object.__setattr__(self, "columns", columns)

    @cached_property
    def model(self) -> VaryingSystem:
        # the entries are a state that stays, and C_t the rows of sample t
        rows = self.columns.reshape(-1, self.outputs, self.once)
        samples = len(rows)
        stays = np.broadcast_to(np.eye(self.once), (samples, self.once, self.once))
        into, out = (np.zeros((samples, n, 0)) for n in (self.once, self.outputs))
        return VaryingSystem((stays, into, rows, out))

    @property
    def state_root(self) -> NDArray[np.float64]:
        return np.eye(self.once)

    @property
    def once(self) -> int:
        return self.columns.shape[1]

    @property
    def width(self) -> int:
        return 0

    @property
    def white(self) -> NDArray[np.float64]:
        return np.zeros(self.outputs)

    def signal(
        self, first: NDArray[np.float64], fresh: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        rows = self.columns[: fresh.shape[1] * self.outputs]
        # trial by trial: the same sums for any number of trials
        every = [(rows @ entries).reshape(-1, self.outputs) for entries in first]
        return np.stack(every)

    def stream(self, first: NDArray[np.float64]) -> Stream:
        samples = iter((self.columns @ first).reshape(-1, self.outputs))
        return lambda fresh: np.array([next(samples) for _ in fresh])

    def responses(self, horizon: int) -> NDArray[np.float64]:
        rows = self.columns[: horizon * self.outputs]
        return rows.reshape(horizon, self.outputs, -1)

    def scaled(self, gain: float) -> DrawnOnce:
        return replace(self, columns=self.columns * gain)

    def __str__(self) -> str:
        return f"rank {self.once} drawn once"


@dataclass(frozen=True, eq=False)
class White(NoisePart):
    """Independent noise of a size for each output, drawn again at each sample."""

    scale: NDArray[np.float64]  # (p,)

    def __post_init__(self) -> None:
        scale = real_array(self.scale, "scale", ndim=1)
        if (scale < 0).any():
            raise ValueError("scale: expected sizes that are not negative")
        object.__setattr__(self, "scale", scale)

    @property
    def model(self) -> LinearSystem:
        return LinearSystem.gain(np.diag(self.scale))

    def signal(
        self, first: NDArray[np.float64], fresh: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        return fresh * self.scale

    def stream(self, first: NDArray[np.float64]) -> Stream:
        return lambda fresh: fresh * self.scale

    def responses(self, horizon: int) -> NDArray[np.float64]:
        return np.empty((horizon, len(self.scale), 0))

    @property
    def white(self) -> NDArray[np.float64]:
        return self.scale

    def scaled(self, gain: float) -> White:
        return replace(self, scale=self.scale * gain)

    def __str__(self) -> str:
        return "white floor"


@dataclass(frozen=True, eq=False)
class Filtered(NoisePart):
    """White noise after a stable system, xi+ = A xi + B eta, gamma = C xi + D eta.

    It starts in its stationary law, unless it is to start at rest. Then a run that is
    interrupted and begun again leaves no old change less hidden than a new one.

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

    def __post_init__(self) -> None:
        for system in (self.shaping, self.response):
            for matrix in () if system is None else system.matrices:
                matrix.flags.writeable = False

    @cached_property
    def system(self) -> LinearSystem:
        """From eta to gamma."""
        if self.response is None:
            return self.shaping
        return self.response.after(self.shaping)

    @property
    def model(self) -> LinearSystem:
        return self.system

    @cached_property
    def state_covariance(self) -> NDArray[np.float64]:
        """Stationary covariance (n, n) of xi."""
        return reachability_gramian(self.system)

    @cached_property
    def state_root(self) -> NDArray[np.float64]:
        if not self.starts_stationary:
            return np.zeros((self.system.order, 0))
        return root(self.state_covariance)

    @property
    def drive(self) -> tuple[LinearSystem | None, LinearSystem]:
        return self.response, self.shaping

    def streams(self, first: NDArray[np.float64]) -> Stream:
        """Begin streams of several units, which go on sample by sample together."""
        states = mapped(self.state_root, first)

        def advance(fresh: NDArray[np.float64]) -> NDArray[np.float64]:
            nonlocal states
            gamma, states = self._model.run(states, fresh)
            return gamma

        return advance

    def scaled(self, gain: float) -> Filtered:
        return replace(self, shaping=self.shaping.scaled(gain))

    def __str__(self) -> str:
        order = self.system.order
        if order == 0:
            return "filtered without states"
        return f"filtered of order {order}"


# -- sums of parts -----------------------------------------------------------------------

PartT = TypeVar("PartT", bound=NoisePart)


@dataclass(frozen=True, eq=False)
class PartSum(NoisePart):
    """Several parts, which draw entries of their own; their sum is a part again."""

    parts: Sequence[NoisePart]

    def part(self, kind: type[PartT]) -> PartT | None:
        """Return the part of a kind, such as `Structured`, or None."""
        return next((part for part in self.parts if isinstance(part, kind)), None)

    def form(self, plant: Plant, horizon: int) -> NoiseForm | None:
        """Return structured noise, a floor, or both over a run, None with other parts."""
        structured, floor = self.part(Structured), self.part(White)
        if len(self.parts) > (structured is not None) + (floor is not None):
            return None
        scale = None if floor is None else floor.scale
        if structured is None:
            return NoiseForm(plant, horizon, None, scale)
        return NoiseForm(structured.plant, horizon, structured.factor, scale)

    def consists_of(self, *kinds: type[NoisePart]) -> bool:
        """Return whether all parts are of these kinds."""
        return all(isinstance(part, kinds) for part in self.parts)

    @cached_property
    def model(self) -> LinearSystem | None:
        models = [part.model for part in self.parts if part.model is not None]
        if len(models) < len(self.parts):
            return None
        return reduce(sum_of, models)

    @cached_property
    def state_root(self) -> NDArray[np.float64]:
        return scipy.linalg.block_diag(*(part.state_root for part in self.parts))

    @cached_property
    def once(self) -> int:
        return sum(part.once for part in self.parts)

    @cached_property
    def width(self) -> int:
        return sum(part.width for part in self.parts)

    def covariance(self, t: int, s: int) -> NDArray[np.float64]:
        if len(self.parts) == 1:
            return self.parts[0].covariance(t, s)
        return super().covariance(t, s)

    def variances(self, horizon: int) -> NDArray[np.float64]:
        if len(self.parts) == 1:
            return self.parts[0].variances(horizon)
        return super().variances(horizon)

    def signal(
        self, first: NDArray[np.float64], fresh: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        parts = shared_out(self.parts, first, fresh)
        return np.sum([part.signal(*own) for part, *own in parts], axis=0)

    def stream(self, first: NDArray[np.float64]) -> Stream:
        none = np.empty(0)
        parts = shared_out(self.parts, first, np.empty(self.width))
        streams = [part.stream(own) for part, own, _ in parts]

        def advance(fresh: NDArray[np.float64]) -> NDArray[np.float64]:
            entries = shared_out(self.parts, none, fresh)
            samples = [
                go(own) for go, (_, _, own) in zip(streams, entries, strict=True)
            ]
            return np.sum(samples, axis=0)

        return advance

    def responses(self, horizon: int) -> NDArray[np.float64]:
        every = [part.responses(horizon) for part in self.parts]
        return every[0] if len(every) == 1 else np.concatenate(every, axis=2)

    @property
    def white(self) -> NDArray[np.float64]:
        return reduce(np.hypot, [part.white for part in self.parts])

    def scaled(self, gain: float) -> PartSum:
        return PartSum(tuple(part.scaled(gain) for part in self.parts))

    def __str__(self) -> str:
        return " and ".join(map(str, self.parts))


class FlooredNoise(GaussianNoise):
    """gamma = structured eta + diag(floor) zeta for the core's mechanisms.

    Its factor (m, r + m) is formed on access.
    """

    structured: NDArray[np.float64]
    floor: NDArray[np.float64]

    def __init__(
        self, structured: NDArray[np.float64], floor: NDArray[np.float64]
    ) -> None:
        self._set(structured=structured, floor=floor)

    def __reduce__(self) -> tuple[object, ...]:
        return FlooredNoise, (self.structured, self.floor)

    @property
    def size(self) -> int:
        return len(self.floor)

    @property
    def factor(self) -> NDArray[np.float64]:  # type: ignore[override]
        return np.hstack([self.structured, np.diag(self.floor)])

    @property
    def is_independent(self) -> bool:
        return False

    @property
    def std(self) -> NDArray[np.float64]:
        return np.hypot(column_norms(self.structured.T), self.floor)


class FlooredBallNoise(BallNoise):
    """gamma = structured eta + diag(floor) zeta of radial eta and Gaussian zeta.

    Its factor (m, r + m) is that of entries of variance one.
    """

    structured: NDArray[np.float64]
    floor: NDArray[np.float64]

    def __init__(
        self,
        structured: NDArray[np.float64],
        floor: NDArray[np.float64],
        *,
        bound: float,
    ) -> None:
        self._set(structured=structured, floor=floor)  # `dimension` asks
        super().__init__(structured, rate=1.0, bound=bound)
        columns = structured * math.sqrt(self.law.unit_variance)
        factor = np.hstack([columns, np.diag(floor)])
        self._set(factor=factor)

    def __reduce__(self) -> tuple[object, ...]:
        return _floored_ball, (self.structured, self.floor, self.bound)

    @property
    def dimension(self) -> int:
        """Number of radial entries r."""
        return self.structured.shape[1]

    @property
    def unit_variance(self) -> float:  # type: ignore[override]
        return 1.0

    def scaled(self, gain: float) -> Self:
        return type(self)(self.structured * gain, self.floor * gain, bound=self.bound)

    def standard(  # type: ignore[override]
        self, rng: np.random.Generator, shape: tuple[int, ...]
    ) -> NDArray[np.float64]:
        *many, width = shape
        radial = self.law.standard(rng, (*many, self.dimension))
        unit = math.sqrt(self.law.unit_variance)
        rest = rng.standard_normal((*many, width - self.dimension))
        return np.concatenate([radial / unit, rest], axis=-1)

    def log_likelihood_ratio(  # type: ignore[override]
        self, eta: NDArray[np.float64], shift: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        unit = math.sqrt(self.law.unit_variance)
        drawn, rest = np.split(eta, [self.dimension])
        moved, rest_moved = np.split(shift, [self.dimension])
        radial = super().log_likelihood_ratio(drawn * unit, moved * unit)
        before = np.sum(rest**2, axis=0)
        after = np.sum((rest - rest_moved) ** 2, axis=0)
        return radial + (after - before) / 2

    def loss(  # type: ignore[override]
        self, shifts: NDArray[np.float64], moves: Moves, full_rank: bool = True
    ) -> PrivacyLoss:
        r = self.dimension
        unit = math.sqrt(self.law.unit_variance) * (1 + 1e-15)
        return self._loss_of(
            moves.worst_shift(shifts[:r], self.shift_norm) * unit,
            moves.worst_shift(shifts[r:], self.shift_norm),
        )

    def loss_of_size(  # type: ignore[override]
        self, size: float, attained: tuple[int, ...] = (), exact: bool = False
    ) -> PrivacyLoss:
        return self._loss_of(size * math.sqrt(self.law.unit_variance), size)

    def _loss_of(self, radial: float, gaussian: float) -> PrivacyLoss:
        """Return the loss of both shifts, of independent noise."""
        one = PrivacyLoss.radial(radial, self.dimension, self.bound, (), False)
        return composed(one, PrivacyLoss.gaussian(gaussian, (), False))

    def allowed_shift(self, budget: object, releases: int = 1) -> float:  # type: ignore[override]
        raise ValueError(
            "floor: radial noise with a floor is sized by design_output_noise"
        )


def _floored_ball(
    structured: NDArray[np.float64], floor: NDArray[np.float64], bound: float
) -> Noise:
    return FlooredBallNoise(structured, floor, bound=bound)


def noise_of_run(parts: Sequence[NoisePart], horizon: int, family: str) -> Noise:
    """Return the sum of parts over a run (T p,), for the core's mechanisms."""
    total = PartSum(parts)
    white = np.tile(total.white, horizon)
    factor = total.responses(horizon).reshape(len(white), -1)
    blocks = total.part(Blocks)
    if blocks is not None:
        return BlockNoise(factor, blocks.sizes)
    radial = total.part(Radial)
    if radial is not None and white.any():
        return FlooredBallNoise(factor, white, bound=radial.bound)
    if radial is not None:
        return BallNoise(factor, rate=1.0, bound=radial.bound)
    if not factor.size:
        return family_of(family)(white)
    if white.any():
        return FlooredNoise(factor, white)
    return family_of(family)(factor)


def shared_out(
    parts: Sequence[NoisePart], first: NDArray[np.float64], fresh: NDArray[np.float64]
) -> Iterator[tuple[NoisePart, NDArray[np.float64], NDArray[np.float64]]]:
    """Yield each part with its own entries, side by side on the last axis."""
    once = width = 0
    for part in parts:
        own_first = first[..., once : once + part.once]
        own_fresh = fresh[..., width : width + part.width]
        yield part, own_first, own_fresh
        once += part.once
        width += part.width


@runtime_checkable
class Pricing(Protocol):
    """Something that prices output noise, such as a `PrivateLoop`."""

    def noise_weight(self, horizon: float) -> Any:
        """Return the map from columns (T p, r) to H columns, a `LinearSystem` H without horizon."""
