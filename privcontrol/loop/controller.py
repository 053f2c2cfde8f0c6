"""Linear controllers in the cloud, brought to one form.

    x_c+ = A x_c + B s + E u + F r,    u = C x_c + D s + H r,    s = yhat - D_plant u

The controller reads what is published. It knows its own input u, so it can take the
feedthrough of u out of yhat. The difference s = C_plant x + (measurement noise) + gamma
does not depend on u(t), and no algebraic loop arises.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..core._files import Saved
from ..core._frozen import freeze_arrays
from ..core._linalg import product
from ..noise.iosystem import numbered
from .side import LinearSide


class Law(Saved, ABC):
    """A controller as the loop asks it, in deviations from its operating point.

    Attributes
    ----------
    states, references : tuple of str
        Labels of its states and of its references.
    is_function : bool
        Whether it is code of the user's own, which is called for one run at a time.
    estimates : bool
        Whether its first n states are an estimate of the plant's.
    recalls : bool
        Whether it holds all that was published, so it has no finite state.
    """

    states: tuple[str, ...]
    references: tuple[str, ...]
    is_function = False
    estimates = False
    recalls = False

    @property
    def order(self) -> int:
        """Number of states k."""
        return len(self.states)

    @property
    def varies(self) -> bool:
        """Whether its matrices vary from sample to sample, or it has none."""
        return self.is_function

    @property
    def followed(self) -> tuple[int, ...]:
        """The outputs that follow the references, one each, as far as that is known."""
        return ()

    @property
    def follows_states(self) -> bool:
        """Whether the reference is one for the plant's states (and inputs)."""
        return False

    @abstractmethod
    def decide(
        self, t: int, memory: NDArray, sensed: NDArray, reference: NDArray
    ) -> NDArray:
        """Return the inputs (m, q) that it asks for at sample t, from s (p, q)."""

    @abstractmethod
    def follow(
        self,
        t: int,
        memory: NDArray,
        sensed: NDArray,
        acting: NDArray,
        reference: NDArray,
    ) -> NDArray:
        """Return its next states (k, q), from the inputs that act."""

    def for_reference(self, reference: ArrayLike | None) -> Self:
        """Return the controller with a label for each reference of a run."""
        return self

    def check_linear(self) -> None:
        """Raise a `ValueError` where it is a function."""


@dataclass(frozen=True, eq=False)
class Controller(Law):
    """A linear controller: k states, p published outputs, m driven inputs, references.

    Attributes
    ----------
    A, B, E, F : ndarray, shapes (k, k), (k, p), (k, m), (k, r)
    C, D, H : ndarray, shapes (m, k), (m, p), (m, r)
    """

    A: NDArray
    B: NDArray
    E: NDArray
    F: NDArray
    C: NDArray
    D: NDArray
    H: NDArray
    states: tuple[str, ...]
    references: tuple[str, ...]

    @property
    def followed(self) -> tuple[int, ...]:
        """All outputs, where it takes yhat and references only as r - yhat."""
        if np.array_equal(self.F, -self.B) and np.array_equal(self.H, -self.D):
            return tuple(range(self.B.shape[1]))
        return ()

    def decide(
        self, t: int, memory: NDArray, sensed: NDArray, reference: NDArray
    ) -> NDArray:
        asked = product(self.C, memory) + product(self.D, sensed)
        return asked + self.H @ reference

    def follow(
        self,
        t: int,
        memory: NDArray,
        sensed: NDArray,
        acting: NDArray,
        reference: NDArray,
    ) -> NDArray:
        moved = product(self.A, memory) + product(self.B, sensed)
        return moved + product(self.E, acting) + self.F @ reference


class Gains(NamedTuple):
    """An observer as in `ObserverFeedback`, of the plant or of plant and noise."""

    A: NDArray
    C: NDArray
    correct: NDArray
    advance: NDArray
    recall: NDArray | None = None
    whiten: NDArray | None = None


@dataclass(frozen=True, eq=False)
class ObserverFeedback(Law):
    """An observer with the state feedback u = -K (estimate - xd) + ud.

    The observer predicts z = (x, xi), the plant's state and that of the noise if it
    knows its law. With the innovation i = s - C z its estimate is z + correct i, and
    its next prediction A z + B u + advance i. Gains may have a leading axis of samples.

    Attributes
    ----------
    A, B, C : ndarray, shapes (n + k, n + k), (n + k, m), (p, n + k)
        What is observed.
    through : ndarray, shape (p, m)
        D of the plant.
    K : ndarray, shape (m, n + j) or (T, m, n + j)
        State feedback of the plant's part, and of the sums z of r - yhat of j tracked
        outputs.
    correct, advance : ndarray, shape (n + k, p) or (T, n + k, p)
    order_of_plant : int
        n.
    states, references : tuple of str
        Labels of its states, without the innovations that it recalls.
    tracked : tuple of int
        The outputs with integral action. With any, references are theirs.
    recall : ndarray, shape (T, p, T p), or None
        What earlier innovations, of size one, tell about the noise of a reading. It is
        for noise without a finite state, and they are then part of the memory.
    whiten : ndarray, shape (T, p, p), or None
        Makes an innovation of size one.
    """

    A: NDArray
    B: NDArray
    C: NDArray
    through: NDArray
    K: NDArray
    correct: NDArray
    advance: NDArray
    order_of_plant: int
    states: tuple[str, ...]
    references: tuple[str, ...]
    tracked: tuple[int, ...] = ()
    recall: NDArray | None = None
    whiten: NDArray | None = None

    estimates = True

    def __post_init__(self) -> None:
        freeze_arrays(self)

    @classmethod
    def of(
        cls,
        side: LinearSide,
        K: NDArray,
        gains: Gains,
        form: str,
        tracked: tuple[int, ...] = (),
    ) -> ObserverFeedback:
        """Return the controller of a state feedback and an observer of a form."""
        n, m = side.B.shape
        known = len(gains.A) - n
        correct = gains.correct
        if form == "predictor":
            correct = np.zeros_like(correct)
        sums = indexed("z", len(tracked))
        references = (*indexed("xd", n), *indexed("ud", m))
        if tracked:
            references = indexed("r", len(tracked))
        return cls(
            A=gains.A,
            B=np.vstack([side.B, np.zeros((known, m))]),
            C=gains.C,
            through=side.through,
            K=K,
            correct=correct,
            advance=gains.advance,
            order_of_plant=n,
            states=(*indexed("xhat", n), *indexed("gammahat", known), *sums),
            references=references,
            tracked=tracked,
            recall=gains.recall,
            whiten=gains.whiten,
        )

    @property
    def varies(self) -> bool:
        """Whether a gain varies from sample to sample."""
        return self.K.ndim == 3 or self.advance.ndim == 3

    @property
    def recalls(self) -> bool:  # type: ignore[override]
        """Whether earlier innovations are part of its memory."""
        return self.recall is not None

    @property
    def order(self) -> int:
        """Number of states, sums and recalled innovations."""
        if self.recall is None:
            return len(self.states)
        return len(self.states) + self.recall.shape[2]

    @property
    def followed(self) -> tuple[int, ...]:
        """The outputs with integral action."""
        return self.tracked

    @property
    def follows_states(self) -> bool:
        """Whether no output has integral action."""
        return not self.tracked

    @cached_property
    def _onto(self) -> NDArray:
        return np.vstack([self.C, self.A])

    def expected(self, t: int, memory: NDArray) -> NDArray:
        """Return the reading (p, q) that is predicted."""
        seen = product(self.C, memory[: len(self.A)])
        if self.recall is None:
            return seen
        return seen + product(self.recall[t], memory[len(self.states) :])

    def estimate(self, t: int, memory: NDArray, sensed: NDArray) -> NDArray:
        """Return the plant's state (n, q) that is fed back."""
        n = self.order_of_plant
        innovation = sensed - self.expected(t, memory)
        return memory[:n] + product(gain_at(self.correct, t)[:n], innovation)

    def feedback(
        self, t: int, estimate: NDArray, memory: NDArray, reference: NDArray
    ) -> NDArray:
        """Return the inputs (m, q) that it asks for at an estimate."""
        K = gain_at(self.K, t)
        if self.tracked:
            sums = memory[len(self.A) : len(self.states)]
            return -product(K, np.concatenate([estimate, sums]))
        n = self.order_of_plant
        return product(K, reference[:n] - estimate) + reference[n:]

    def decide(
        self, t: int, memory: NDArray, sensed: NDArray, reference: NDArray
    ) -> NDArray:
        return self.feedback(t, self.estimate(t, memory, sensed), memory, reference)

    def follow(
        self,
        t: int,
        memory: NDArray,
        sensed: NDArray,
        acting: NDArray,
        reference: NDArray,
    ) -> NDArray:
        p, N = self.C.shape
        end = len(self.states)
        onto = product(self._onto, memory[:N])
        innovation = sensed - onto[:p]
        if self.recall is not None:
            innovation = innovation - product(self.recall[t], memory[end:])
        moved = onto[p:] + product(self.B, acting)
        moved += product(gain_at(self.advance, t), innovation)
        if N == len(memory):
            return moved
        after = memory.copy()
        after[:N] = moved
        if self.tracked:
            picked = list(self.tracked)
            read = sensed[picked] + product(self.through[picked], acting)
            after[N:end] += reference - read
        if self.whiten is not None:
            own = slice(end + t * p, end + (t + 1) * p)
            after[own] = product(self.whiten[t], innovation)
        return after


def gain_at(gain: NDArray, t: int) -> NDArray:
    """Return the gain of sample t, from one for all of them or from one for each."""
    return gain if gain.ndim == 2 else gain[t]


def answered(
    law: Law,
    t: int,
    memory: NDArray,
    yhat: NDArray,
    reference: NDArray,
    through: NDArray,
) -> NDArray:
    """Return the inputs (m, q) of a controller that reads yhat (p, q), D u included."""
    asked = law.decide(t, memory, yhat, reference)
    if not through.any():
        return asked
    direct = at_once(law, t, np.eye(len(yhat)))
    return np.linalg.solve(np.eye(len(asked)) + direct @ through, asked)


def at_once(law: Law, t: int, sensed: NDArray) -> NDArray:
    """Return what a controller at rest answers to s (p, q) alone."""
    count = sensed.shape[1]
    quiet = np.zeros((len(law.references), count))
    return law.decide(t, np.zeros((law.order, count)), sensed, quiet)


def indexed(name: str, count: int) -> tuple[str, ...]:
    """Return labels such as ``yhat[0]``, ``yhat[1]``."""
    return tuple(numbered(name, count))
