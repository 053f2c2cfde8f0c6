"""The parts that output noise is a sum of.

A part is linear in independent standard entries eta. Some of them are drawn once, before
the first sample, and the others again at every sample. All parts answer the same
questions, so whoever uses output noise need not know what it is made of.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from ..core._frozen import ByContent
from ..core._linalg import real_array
from ..secrets.disturbance import causal_map, forced_outputs
from ..systems.linear import LinearSystem, mapped, sum_of
from ..systems.plant import Plant


class NoisePart(ByContent, ABC):
    """One summand of output noise.

    Entries that are drawn once come as ``first`` (trials, once), the others as ``fresh``
    (trials, T, width). A part that is a linear system says so in `model` and `state_root`, and
    everything else follows.
    """

    @property
    @abstractmethod
    def outputs(self) -> int:
        """Number of outputs p."""

    @property
    def once(self) -> int:
        """Number of entries that are drawn once."""
        return 0

    @property
    def width(self) -> int:
        """Number of entries that are drawn at every sample."""
        return 0

    @property
    def channels(self) -> int:
        """Number of inputs ``eta[i]`` of the python-control systems."""
        return self.once + self.width

    @property
    @abstractmethod
    def model(self) -> LinearSystem | None:
        """xi+ = A xi + B eta, gamma = C xi + D eta of fresh entries, None without such a system."""

    @property
    def _model(self) -> Any:
        """The `model` of a part that has one. The others answer for themselves."""
        return self.model

    @property
    def state_root(self) -> NDArray:
        """R (k, once) with xi(0) = R times the entries that are drawn once."""
        order = 0 if self.model is None else self.model.order
        return np.zeros((order, self.once))

    def statespace(self) -> LinearSystem:
        """The part as a linear system that starts at zero.

        The first columns of B and D belong to the entries that are drawn once. These are
        to enter at the first sample and to be zero after it. A part without a `model` is a
        unit gain for its own samples, see `inputs`.
        """
        if self.model is None:
            return LinearSystem.gain(np.eye(self.outputs))
        A, B, C, D = self.model.matrices
        root = self.state_root
        return LinearSystem(A, np.hstack([A @ root, B]), C, np.hstack([C @ root, D]))

    def signal(self, first: NDArray, fresh: NDArray) -> NDArray:
        """gamma as (trials, T, p)."""
        start = mapped(self.state_root, first)
        return self._model.run(start, fresh)[0]

    def start(self, first: NDArray) -> NDArray:
        """State of a stream, from the entries (once,) that are drawn once."""
        return mapped(self.state_root, first)

    def advance(self, state: NDArray, fresh: NDArray) -> tuple[NDArray, NDArray]:
        """The next samples (count, p) of a stream, and its state after them.

        ``fresh`` holds the entries (count, width) of these samples.
        """
        gamma, states = self._model.run(state[None], fresh[None])
        return gamma[0], states[0]

    def _impulses(self, horizon: int) -> tuple[NDArray, NDArray]:
        """Responses (T, p, once) and (T, p, width) to entries at the first sample."""
        model = self._model
        once = model.free_response(self.state_root, horizon)
        return (
            once.reshape(horizon, self.outputs, -1),
            model.impulse_response(horizon),
        )

    def responses(self, horizon: int) -> NDArray:
        """Response (T, p, R) of the outputs to each entry of eta.

        Entries that act on one output at one sample only stand in `white` instead.
        """
        once, fresh = self._impulses(horizon)
        later = causal_map(fresh).reshape(horizon, self.outputs, -1)
        return np.concatenate([once, later], axis=2)

    @property
    def white(self) -> NDArray:
        """Sizes (p,) of the entries that act on one output at one sample only."""
        return np.zeros(self.outputs)

    def covariance(self, t: int, s: int) -> NDArray:
        """Covariance (p, p) of gamma(t) and gamma(s) for entries of variance one."""
        samples = max(t, s) + 1
        shared = min(t, s)
        once, fresh = self._impulses(samples)
        at_t = fresh[t - shared : t + 1]
        at_s = fresh[s - shared : s + 1]
        since = np.einsum("kpq,krq->pr", at_t, at_s)
        from_start = once[t] @ once[s].T
        return from_start + since

    def variances(self, horizon: int) -> NDArray:
        """Variances (T, p) of the outputs for entries of variance one."""
        once, fresh = self._impulses(horizon)
        arrived = np.cumsum(np.sum(fresh**2, axis=2), axis=0)
        return np.sum(once**2, axis=2) + arrived

    def inputs(self, fresh: NDArray) -> NDArray:
        """What enters the system of `statespace` for ``fresh`` entries."""
        return fresh

    @property
    def square(self) -> LinearSystem | None:
        """M, square with a nonsingular D, if the part is M nu with white nu."""
        return None

    @property
    def drive(self) -> tuple[LinearSystem, LinearSystem] | None:
        """(G, Q) if the part is G Q nu with white nu and a square Q, G a plant."""
        return None

    @abstractmethod
    def scaled(self, gain: float) -> NoisePart:
        """The same part, ``gain`` times as large."""

    @abstractmethod
    def label(self, alone: bool) -> str:
        """What the part is called, on its own or beside others."""


@dataclass(frozen=True, eq=False)
class Structured(NoisePart):
    """The plant's free response C A^t S eta from a random state that is drawn once."""

    plant: Plant
    factor: NDArray  # S (n, r)

    def __post_init__(self) -> None:
        object.__setattr__(self, "factor", real_array(self.factor, "factor", ndim=2))

    @property
    def outputs(self) -> int:
        return len(self.plant.C)

    @property
    def once(self) -> int:
        return self.factor.shape[1]

    def signal(self, first: NDArray, fresh: NDArray) -> NDArray:
        responses = self.responses(fresh.shape[1])
        gamma = np.zeros((len(first), *responses.shape[:2]))
        # one term at a time: the same sums for any number of trials
        for k in range(self.once):
            gamma += first[:, k, None, None] * responses[:, :, k]
        return gamma

    @property
    def model(self) -> LinearSystem:
        n = self.plant.order
        return LinearSystem(
            self.plant.A, np.zeros((n, 0)), self.plant.C, np.zeros((self.outputs, 0))
        )

    @property
    def state_root(self) -> NDArray:
        return self.factor

    def scaled(self, gain: float) -> Structured:
        return replace(self, factor=self.factor * gain)

    def label(self, alone: bool) -> str:
        return f"structured rank {self.once}"


@dataclass(frozen=True, eq=False)
class Driven(NoisePart):
    """The plant's response to fresh disturbances at all entries of a signal.

    gamma(t) = C xi(t) + F w(t), xi(t+1) = A xi(t) + E w(t), w = sizes * eta, from
    xi(0) = 0. E and F are the plant's own numbers, and only eta is scaled: the response to
    a change dw of the signal is then that of eta by dw / sizes, exactly.
    """

    response: LinearSystem  # from w to the outputs: A, E, C and F
    sizes: NDArray  # (q,)

    def __post_init__(self) -> None:
        object.__setattr__(self, "sizes", real_array(self.sizes, "sizes"))

    @property
    def outputs(self) -> int:
        return len(self.response.C)

    @property
    def width(self) -> int:
        return len(self.sizes)

    @property
    def model(self) -> LinearSystem:
        A, E, C, F = self.response.matrices
        return LinearSystem(A, E * self.sizes, C, F * self.sizes)

    def responses(self, horizon: int) -> NDArray:
        forced = forced_outputs(self.response, horizon)
        forced = forced * np.tile(self.sizes, horizon)
        return forced.reshape(horizon, self.outputs, -1)

    @property
    def drive(self) -> tuple[LinearSystem, LinearSystem]:
        return self.response, LinearSystem.gain(np.diag(self.sizes))

    def scaled(self, gain: float) -> Driven:
        return replace(self, sizes=self.sizes * gain)

    def label(self, alone: bool) -> str:
        return "driven"


@dataclass(frozen=True, eq=False)
class Correlated(NoisePart):
    """Lambda eta with a lower triangular Lambda (T p, T p), time-major.

    It has one entry of eta for each sample and output, and no system of finite order.
    """

    root: NDArray
    outputs: int = 1

    def __post_init__(self) -> None:
        object.__setattr__(self, "root", real_array(self.root, "root", ndim=2))

    @property
    def width(self) -> int:
        return self.outputs

    @property
    def model(self) -> None:
        return None

    def inputs(self, fresh: NDArray) -> NDArray:
        return self.signal(fresh[:, 0, :0], fresh)

    def signal(self, first: NDArray, fresh: NDArray) -> NDArray:
        # trial by trial: the same sums for any number of trials
        return np.stack([self.advance(np.zeros(0), drawn)[0] for drawn in fresh])

    def start(self, first: NDArray) -> NDArray:
        return np.zeros(0)

    def advance(self, state: NDArray, fresh: NDArray) -> tuple[NDArray, NDArray]:
        past = np.append(state, fresh)
        rows = self.root[len(state) : len(past), : len(past)]
        return (rows @ past).reshape(fresh.shape), past

    def responses(self, horizon: int) -> NDArray:
        size = horizon * self.outputs
        return self.root[:size].reshape(horizon, self.outputs, -1)

    def covariance(self, t: int, s: int) -> NDArray:
        rows = self.responses(max(t, s) + 1)
        return rows[t] @ rows[s].T

    def variances(self, horizon: int) -> NDArray:
        return np.sum(self.responses(horizon) ** 2, axis=2)

    def scaled(self, gain: float) -> Correlated:
        return replace(self, root=self.root * gain)

    def label(self, alone: bool) -> str:
        return "correlated"


@dataclass(frozen=True, eq=False)
class White(NoisePart):
    """Independent noise of the given size at each output, drawn again at each sample."""

    scale: NDArray  # (p,)

    def __post_init__(self) -> None:
        object.__setattr__(self, "scale", real_array(self.scale, "scale", ndim=1))

    @property
    def outputs(self) -> int:
        return len(self.scale)

    @property
    def width(self) -> int:
        return len(self.scale)

    @property
    def model(self) -> LinearSystem:
        return LinearSystem.gain(np.diag(self.scale))

    def signal(self, first: NDArray, fresh: NDArray) -> NDArray:
        return fresh * self.scale

    def responses(self, horizon: int) -> NDArray:
        return np.empty((horizon, self.outputs, 0))

    @property
    def white(self) -> NDArray:
        return self.scale

    def variances(self, horizon: int) -> NDArray:
        return np.tile(self.scale**2, (horizon, 1))

    @property
    def square(self) -> LinearSystem:
        return LinearSystem.gain(np.diag(self.scale))

    def scaled(self, gain: float) -> White:
        return replace(self, scale=self.scale * gain)

    def label(self, alone: bool) -> str:
        return "independent" if alone else "white floor"


PartT = TypeVar("PartT", bound=NoisePart)


class PartSum(NoisePart):
    """Several parts, which draw entries of their own; their sum is a part again."""

    def __init__(self, parts: Sequence[NoisePart]) -> None:
        self.parts = tuple(parts)

    @property
    def outputs(self) -> int:
        return self.parts[0].outputs

    @property
    def once(self) -> int:
        return sum(part.once for part in self.parts)

    @property
    def width(self) -> int:
        return sum(part.width for part in self.parts)

    @property
    def model(self) -> LinearSystem | None:
        models = [part.model for part in self.parts if part.model is not None]
        if len(models) < len(self.parts):
            return None
        return reduce(sum_of, models)

    def statespace(self) -> LinearSystem:
        systems = [part.statespace() for part in self.parts]
        once: list[int] = []
        fresh: list[int] = []
        start = 0
        for part in self.parts:
            middle = start + part.once
            once += range(start, middle)
            start = middle + part.width
            fresh += range(middle, start)
        return reduce(sum_of, systems).entered_by(once + fresh)

    def part(self, kind: type[PartT]) -> PartT | None:
        """The part of a kind, such as `Structured`, or None."""
        for part in self.parts:
            if isinstance(part, kind):
                return part
        return None

    def consists_of(self, *kinds: type[NoisePart]) -> bool:
        """Return whether all parts are of these kinds."""
        return all(isinstance(part, kinds) for part in self.parts)

    def split(self, first: NDArray, fresh: NDArray) -> Iterator[tuple]:
        """Each part with its own entries, which stand side by side on the last axis."""
        once = width = 0
        for part in self.parts:
            own_first = first[..., once : once + part.once]
            own_fresh = fresh[..., width : width + part.width]
            yield part, own_first, own_fresh
            once += part.once
            width += part.width

    def signal(self, first: NDArray, fresh: NDArray) -> NDArray:
        gamma = np.zeros((*fresh.shape[:2], self.outputs))
        for part, own_first, own_fresh in self.split(first, fresh):
            gamma += part.signal(own_first, own_fresh)
        return gamma

    def inputs(self, fresh: NDArray) -> NDArray:
        none = fresh[..., :0]
        parts = [part.inputs(own) for part, _, own in self.split(none, fresh)]
        return np.concatenate(parts, axis=-1)

    def start(self, first: NDArray) -> Any:
        """The states of all parts."""
        none = np.empty((0, self.width))
        return [part.start(own) for part, own, _ in self.split(first, none)]

    def advance(self, state: Any, fresh: NDArray) -> tuple[NDArray, Any]:
        gamma = np.zeros((len(fresh), self.outputs))
        states = []
        none = np.empty(0)
        for (part, _, own), before in zip(self.split(none, fresh), state):
            samples, after = part.advance(before, own)
            gamma += samples
            states.append(after)
        return gamma, states

    def responses(self, horizon: int) -> NDArray:
        return np.concatenate([part.responses(horizon) for part in self.parts], axis=2)

    @property
    def white(self) -> NDArray:
        return np.sqrt(sum(part.white**2 for part in self.parts))

    def covariance(self, t: int, s: int) -> NDArray:
        return np.sum([part.covariance(t, s) for part in self.parts], axis=0)

    def variances(self, horizon: int) -> NDArray:
        return np.sum([part.variances(horizon) for part in self.parts], axis=0)

    def scaled(self, gain: float) -> PartSum:
        return PartSum([part.scaled(gain) for part in self.parts])

    def label(self, alone: bool) -> str:
        alone &= len(self.parts) == 1
        return " and ".join(part.label(alone) for part in self.parts)
