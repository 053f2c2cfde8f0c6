"""The parts that output noise is a sum of.

A part is linear in independent standard entries eta. Some of them are drawn once, before
the first sample, and the others afresh at every sample. All parts answer the same
questions, so that whoever uses output noise need not know what it is made of.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..core._frozen import ByContent
from ..core._linalg import real_array
from ..trajectory.disturbance import causal_map, forced_outputs
from ..trajectory.linear import LinearSystem
from ..trajectory.plant import Plant


class PartSystem(NamedTuple):
    """A part as xi+ = A xi + B eta, gamma = C xi + D eta, with xi = 0 at the start.

    The first columns of B and D belong to the entries that are drawn once. These are to
    enter at the first sample and to be zero after it.
    """

    A: NDArray
    B: NDArray
    C: NDArray
    D: NDArray

    def run(self, xi: NDArray, entering: NDArray) -> tuple[NDArray, NDArray]:
        """Outputs (trials, T, p), and the states (trials, n) after the last sample."""
        driven = _mapped(self.B, entering)
        states = np.empty_like(driven)
        for t in range(entering.shape[1]):
            states[:, t] = xi
            xi = _mapped(self.A, xi) + driven[:, t]
        from_states = _mapped(self.C, states)
        at_once = _mapped(self.D, entering)
        return from_states + at_once, xi


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
    @abstractmethod
    def model(self) -> LinearSystem | None:
        """xi+ = A xi + B eta, gamma = C xi + D eta of fresh entries, None without such a system."""

    @property
    def state_root(self) -> NDArray:
        """R (k, once) with xi(0) = R times the entries that are drawn once."""
        order = 0 if self.model is None else self.model.order
        return np.zeros((order, self.once))

    def statespace(self) -> PartSystem:
        """The part as a linear system that starts at zero.

        A part without a `model` is a unit gain for its own samples, see `inputs`.
        """
        model = self.model
        if model is None:
            model = LinearSystem.gain(np.eye(self.outputs))
        A, B, C, D = model.matrices
        root = self.state_root
        return PartSystem(A, np.hstack([A @ root, B]), C, np.hstack([C @ root, D]))

    def signal(self, first: NDArray, fresh: NDArray) -> NDArray:
        """gamma as (trials, T, p)."""
        return self._run(self._rest(first), fresh)[0]

    def start(self, first: NDArray) -> Any:
        """State of a stream, from the entries (once,) that are drawn once."""
        return self._rest(first[None])

    def advance(self, state: Any, fresh: NDArray) -> tuple[NDArray, Any]:
        """The next samples (count, p) of a stream, and its state after them.

        ``fresh`` holds the entries (count, width) of these samples.
        """
        gamma, state = self._run(state, fresh[None])
        return gamma[0], state

    def _rest(self, first: NDArray) -> tuple[NDArray, NDArray]:
        """States (trials, n) before the first sample, and what enters once."""
        return np.zeros((len(first), len(self.statespace().A))), first

    def _run(
        self, state: tuple[NDArray, NDArray], fresh: NDArray
    ) -> tuple[NDArray, tuple[NDArray, NDArray]]:
        xi, first = state
        trials, samples, _ = fresh.shape
        once = np.zeros((trials, samples, self.once))
        once[:, 0] = first
        entering = np.concatenate([once, fresh], axis=2)
        gamma, xi = self.statespace().run(xi, entering)
        return gamma, (xi, np.zeros_like(first))

    def _impulses(self, horizon: int) -> tuple[NDArray, NDArray]:
        """Responses (T, p, once) and (T, p, width) to entries at the first sample."""
        A, B, C, D = self.statespace()
        frames = np.empty((horizon, *D.shape))
        frames[0] = D
        for t in range(1, horizon):
            frames[t] = C @ B
            B = A @ B
        return frames[..., : self.once], frames[..., self.once :]

    def responses(self, horizon: int) -> NDArray:
        """What each entry of eta adds to the outputs, as (T, p, R).

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
    def scaled(self, gain: float) -> "NoisePart":
        """The same part, ``gain`` times as large."""

    @abstractmethod
    def label(self, alone: bool) -> str:
        """What the part is called, on its own or beside others."""


def _mapped(matrix: NDArray, vectors: NDArray) -> NDArray:
    """A matrix times vectors (..., k), in bits that do not depend on their number."""
    return np.einsum("ij,...j->...i", matrix, vectors)


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
        # one term at a time: the same sums whatever the number of trials
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

    def scaled(self, gain: float) -> "Structured":
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

    plant: Plant
    entry: NDArray  # E (n, q)
    through: NDArray  # F (p, q)
    sizes: NDArray  # (q,)

    def __post_init__(self) -> None:
        for name in ("entry", "through", "sizes"):
            object.__setattr__(self, name, real_array(getattr(self, name), name))

    @property
    def outputs(self) -> int:
        return len(self.plant.C)

    @property
    def width(self) -> int:
        return len(self.sizes)

    @property
    def model(self) -> LinearSystem:
        entry = self.entry * self.sizes
        through = self.through * self.sizes
        return LinearSystem(self.plant.A, entry, self.plant.C, through)

    def responses(self, horizon: int) -> NDArray:
        response, _ = self.drive
        forced = forced_outputs(response, horizon)
        forced = forced * np.tile(self.sizes, horizon)
        return forced.reshape(horizon, self.outputs, -1)

    @property
    def drive(self) -> tuple[LinearSystem, LinearSystem]:
        response = LinearSystem(self.plant.A, self.entry, self.plant.C, self.through)
        return response, LinearSystem.gain(np.diag(self.sizes))

    def scaled(self, gain: float) -> "Driven":
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
        # trial by trial: the same sums whatever the number of trials
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

    def scaled(self, gain: float) -> "Correlated":
        return replace(self, root=self.root * gain)

    def label(self, alone: bool) -> str:
        return "correlated"


@dataclass(frozen=True, eq=False)
class White(NoisePart):
    """Independent noise of the given size at each output, drawn afresh at each sample."""

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

    def scaled(self, gain: float) -> "White":
        return replace(self, scale=self.scale * gain)

    def label(self, alone: bool) -> str:
        return "independent" if alone else "white floor"
