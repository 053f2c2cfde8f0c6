"""Controllers in the cloud, brought to one form.

    x_c+ = A x_c + B s + E u + F r,    u = C x_c + D s + H r,    s = yhat - D_plant u

The controller reads the published outputs. It knows its own input u, so it can take the
feedthrough of u out of yhat. The difference s = C_plant x + (measurement noise) + gamma
does not depend on u(t), and no algebraic loop arises.

Functions that a user gives, such as an MPC or a network, and a `ct.nlsys`, are called
once per run and sample, and one run follows the other. What they compute is
post-processing, so the guarantee of the noise is that of the loop. Exact moments, poles
and design files of such loops do not exist.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple, NoReturn, Self

import control as ct
import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..noise.iosystem import numbered
from ..numerics.checks import real_array
from ..numerics.errors import warn_user
from ..numerics.linalg import EPS, product
from ..numerics.objects import ByContent, freeze_arrays
from ..numerics.saved import Saved
from ..numerics.thresholds import ROUNDED, SETTLING
from ..systems.linear import LinearSystem, SampledSystem, reached_states, stacks_of
from ..systems.nonlinear import NonlinearPlant, is_nonlinear
from .side import LinearSide, NonlinearSide, at_sample

#: f(t, yhat, estimate, reference): the inputs (m,) at the time t in seconds.
Function = Callable[
    [
        float,
        NDArray[np.float64],
        NDArray[np.float64] | None,
        NDArray[np.float64] | None,
    ],
    ArrayLike,
]
#: From the time, the estimates (n, trials) and the reference (n, 1) to the inputs.
UserLaw = Callable[[float, NDArray[np.float64], NDArray[np.float64]], ArrayLike]


class Form(NamedTuple):
    """A linear controller of states z at some samples, with the innovation i = s - C z.

        z+ = A z + B u + advance i + F r,    u = G z + D i + H r

    Gains that may vary have a leading axis of samples, one where they do not.
    """

    A: NDArray[np.float64]  # (k, k)
    B: NDArray[np.float64]  # (k, m)
    C: NDArray[np.float64]  # (p, k)
    F: NDArray[np.float64]  # (k, r)
    advance: NDArray[np.float64]  # (T or 1, k, p)
    G: NDArray[np.float64]  # (T or 1, m, k)
    D: NDArray[np.float64]  # (T or 1, m, p)
    H: NDArray[np.float64]  # (T or 1, m, r)


class Law(ByContent, Saved, ABC):
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
    has_form : bool
        Whether it is a `Form` at all samples.
    """

    states: tuple[str, ...]
    references: tuple[str, ...]
    is_function = False
    estimates = False
    recalls = False
    has_form = False

    @property
    def order(self) -> int:
        """Number of states k."""
        return len(self.states)

    @property
    def varies(self) -> bool:
        """Return whether its matrices vary from sample to sample, or it has none."""
        return self.is_function

    @property
    def followed(self) -> tuple[int, ...]:
        """The outputs that follow the references, one each, as far as that is known."""
        return ()

    @property
    def follows_states(self) -> bool:
        """Return whether the reference is one for the plant's states (and inputs)."""
        return False

    @abstractmethod
    def decide(
        self,
        t: int,
        memory: NDArray[np.float64],
        sensed: NDArray[np.float64],
        reference: NDArray[np.float64],
    ) -> NDArray[np.float64]:
        """Return the inputs (m, q) that it asks for at sample t, from s (p, q)."""

    @abstractmethod
    def follow(
        self,
        t: int,
        memory: NDArray[np.float64],
        sensed: NDArray[np.float64],
        acting: NDArray[np.float64],
        reference: NDArray[np.float64],
    ) -> NDArray[np.float64]:
        """Return its next states (k, q), from the inputs that act."""

    def for_reference(self, reference: ArrayLike | None) -> Self:
        """Return the controller with a label for each reference of a run."""
        return self

    def form(self, samples: slice) -> Form:
        """Return its matrices at some samples. `ValueError` if it has no form."""
        raise ValueError(
            "this controller is no form of matrices, and is asked at each t"
        )

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

    A: NDArray[np.float64]
    B: NDArray[np.float64]
    E: NDArray[np.float64]
    F: NDArray[np.float64]
    C: NDArray[np.float64]
    D: NDArray[np.float64]
    H: NDArray[np.float64]
    states: tuple[str, ...]
    references: tuple[str, ...]

    has_form = True

    @property
    def followed(self) -> tuple[int, ...]:
        """All outputs, where it takes yhat and references only as r - yhat."""
        if np.array_equal(self.F, -self.B) and np.array_equal(self.H, -self.D):
            return tuple(range(self.B.shape[1]))
        return ()

    def decide(
        self,
        t: int,
        memory: NDArray[np.float64],
        sensed: NDArray[np.float64],
        reference: NDArray[np.float64],
    ) -> NDArray[np.float64]:
        asked = product(self.C, memory) + product(self.D, sensed)
        return asked + self.H @ reference

    def follow(
        self,
        t: int,
        memory: NDArray[np.float64],
        sensed: NDArray[np.float64],
        acting: NDArray[np.float64],
        reference: NDArray[np.float64],
    ) -> NDArray[np.float64]:
        moved = product(self.A, memory) + product(self.B, sensed)
        return moved + product(self.E, acting) + self.F @ reference

    def form(self, samples: slice) -> Form:
        return Form(
            A=self.A,
            B=self.E,
            C=np.zeros_like(self.B.T),
            F=self.F,
            advance=self.B[None],
            G=self.C[None],
            D=self.D[None],
            H=self.H[None],
        )


class Gains(NamedTuple):
    """An observer as in `ObserverFeedback`, of the plant or of plant and noise."""

    A: NDArray[np.float64]
    C: NDArray[np.float64]
    correct: NDArray[np.float64]
    advance: NDArray[np.float64]
    recall: NDArray[np.float64] | None = None

    @classmethod
    def of(
        cls,
        system: LinearSystem,
        correct: NDArray[np.float64],
        advance: NDArray[np.float64] | None = None,
        recall: NDArray[np.float64] | None = None,
    ) -> Gains:
        """Return the observer of a system, which may vary.

        What corrects an estimate advances the prediction by A times as much, unless that
        is given.
        """
        A, _, C, _ = stacks_of(system)
        if advance is None:
            advance = A @ correct
        return cls(A, C, correct, advance, recall)


@dataclass(frozen=True, eq=False)
class ObserverFeedback(Law):
    """An observer with the state feedback u = -K (estimate - xd) + ud.

    The observer predicts z = (x, xi), the plant's state and that of the noise if it
    knows its law. With the innovation i = s - C z its estimate is z + correct i, and
    its next prediction A z + B u + advance i. Gains may have a leading axis of samples.

    Attributes
    ----------
    A, B, C : ndarray, shapes (n + k, n + k), (n + k, m), (p, n + k)
        What is observed; with a leading axis of samples where the plant varies.
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
        What earlier innovations reveal of the noise of a reading. It is for noise
        without a finite state, and they are then part of the memory.
    """

    A: NDArray[np.float64]
    B: NDArray[np.float64]
    C: NDArray[np.float64]
    through: NDArray[np.float64]
    K: NDArray[np.float64]
    correct: NDArray[np.float64]
    advance: NDArray[np.float64]
    order_of_plant: int
    states: tuple[str, ...]
    references: tuple[str, ...]
    tracked: tuple[int, ...] = ()
    recall: NDArray[np.float64] | None = None

    estimates = True

    def __post_init__(self) -> None:
        freeze_arrays(self)

    @classmethod
    def of(
        cls,
        side: LinearSide,
        K: NDArray[np.float64],
        gains: Gains,
        form: str,
        tracked: tuple[int, ...] = (),
    ) -> ObserverFeedback:
        """Return the controller of a state feedback and an observer of a form."""
        n, m = side.order, len(side.controls)
        known = gains.A.shape[-1] - n
        correct = gains.correct
        if form == "predictor":
            correct = np.zeros_like(correct)
        sums = indexed("z", len(tracked))
        references = (*indexed("xd", n), *indexed("ud", m))
        if tracked:
            references = indexed("r", len(tracked))
        return cls(
            A=gains.A,
            B=_driving(side, known, gains.A),
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
        )

    @property
    def varies(self) -> bool:
        """Return whether a gain varies from sample to sample."""
        return 3 in (self.K.ndim, self.advance.ndim, self.A.ndim, self.B.ndim)

    @property
    def recalls(self) -> bool:  # type: ignore[override]
        """Return whether earlier innovations are part of its memory."""
        return self.recall is not None

    @property
    def has_form(self) -> bool:  # type: ignore[override]
        """Return whether nothing is recalled, and the plant does not vary."""
        return self.recall is None and 3 not in (self.A.ndim, self.B.ndim, self.C.ndim)

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
        """Return whether no output has integral action."""
        return not self.tracked

    @cached_property
    def _onto(self) -> NDArray[np.float64]:
        return np.concatenate([self.C, self.A], axis=-2)

    @property
    def observed(self) -> int:
        """Number N of states that are observed, those of the noise among them."""
        return self.A.shape[-1]

    def expected(self, t: int, memory: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the reading (p, q) that is predicted."""
        seen = product(at_sample(self.C, t), memory[: self.observed])
        if self.recall is None:
            return seen
        return seen + self._recalled(self.recall, t, memory)

    def _recalled(
        self, recall: NDArray[np.float64], t: int, memory: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        """Return what the innovations before sample t add to its reading (p, q)."""
        known = t * recall.shape[1]
        first = len(self.states)
        return product(recall[t, :, :known], memory[first : first + known])

    def estimate(
        self, t: int, memory: NDArray[np.float64], sensed: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        """Return the plant's state (n, q) that is fed back."""
        n = self.order_of_plant
        innovation = sensed - self.expected(t, memory)
        return memory[:n] + product(at_sample(self.correct, t)[:n], innovation)

    def feedback(
        self,
        t: int,
        estimate: NDArray[np.float64],
        memory: NDArray[np.float64],
        reference: NDArray[np.float64],
    ) -> NDArray[np.float64]:
        """Return the inputs (m, q) that it asks for at an estimate."""
        K = at_sample(self.K, t)
        if self.tracked:
            sums = memory[self.observed : len(self.states)]
            return -product(K, np.concatenate([estimate, sums]))
        n = self.order_of_plant
        return product(K, reference[:n] - estimate) + reference[n:]

    def decide(
        self,
        t: int,
        memory: NDArray[np.float64],
        sensed: NDArray[np.float64],
        reference: NDArray[np.float64],
    ) -> NDArray[np.float64]:
        return self.feedback(t, self.estimate(t, memory, sensed), memory, reference)

    def follow(
        self,
        t: int,
        memory: NDArray[np.float64],
        sensed: NDArray[np.float64],
        acting: NDArray[np.float64],
        reference: NDArray[np.float64],
    ) -> NDArray[np.float64]:
        p, N = self.C.shape[-2:]
        end = len(self.states)
        onto = product(at_sample(self._onto, t), memory[:N])
        innovation = sensed - onto[:p]
        if self.recall is not None:
            innovation = innovation - self._recalled(self.recall, t, memory)
        moved = onto[p:] + product(at_sample(self.B, t), acting)
        moved += product(at_sample(self.advance, t), innovation)
        if len(memory) == N:
            return moved
        after = memory.copy()
        after[:N] = moved
        if self.tracked:
            picked = list(self.tracked)
            read = sensed[picked] + product(self.through[picked], acting)
            after[N:end] += reference - read
        if self.recall is not None:
            after[end + t * p : end + (t + 1) * p] = innovation
        return after

    def form(self, samples: slice) -> Form:
        n = self.order_of_plant
        N = self.observed
        picked = list(self.tracked)
        sums = len(picked)
        K = _stack(self.K, samples)
        correct = _stack(self.correct, samples)
        advance = _stack(self.advance, samples)
        A = np.eye(N + sums)
        A[:N, :N] = self.A
        A[N:, :N] -= self.C[picked]  # sums lose what is read, C z + i + through u
        C = np.pad(self.C, ((0, 0), (0, sums)))
        entering = np.zeros((len(advance), N + sums, len(C)))
        entering[:, :N] = advance
        entering[:, N:] = -np.eye(len(C))[picked]
        G = np.zeros((len(K), K.shape[1], N + sums))
        G[..., :n] = -K[..., :n]
        G[..., N:] = -K[..., n:]
        F = np.zeros((N + sums, len(self.references)))
        H = np.zeros((len(K), K.shape[1], len(self.references)))
        if sums:
            F[N:] = np.eye(sums)
        else:
            H[..., :n] = K
            H[..., n:] = np.eye(K.shape[1])
        return Form(
            A=A,
            B=np.vstack([self.B, -self.through[picked]]),
            C=C,
            F=F,
            advance=entering,
            G=G,
            D=-K[..., :n] @ correct[:, :n],
            H=H,
        )


def _driving(
    side: LinearSide, known: int, like: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return B of plant and noise (N, m), or (T, N, m) of a plant that varies."""
    still = np.zeros((known, len(side.controls)))
    if like.ndim == 2:
        return np.vstack([side.B, still])
    count = len(like)
    return np.stack([np.vstack([side.driven_at(t), still]) for t in range(count)])


def _stack(gain: NDArray[np.float64], samples: slice) -> NDArray[np.float64]:
    """Return the gains of some samples, or the one for all of them, as a stack."""
    return gain[None] if gain.ndim == 2 else gain[samples]


def answered(
    law: Law,
    t: int,
    memory: NDArray[np.float64],
    yhat: NDArray[np.float64],
    reference: NDArray[np.float64],
    through: NDArray[np.float64],
) -> NDArray[np.float64]:
    """Return the inputs (m, q) of a controller that reads yhat (p, q), D u included."""
    asked = law.decide(t, memory, yhat, reference)
    if not through.any():
        return asked
    direct = at_once(law, t, np.eye(len(yhat)))
    found = np.linalg.solve(np.eye(len(asked)) + direct @ through, asked)
    return np.asarray(found, float)


def at_once(law: Law, t: int, sensed: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return what a controller at rest answers to s (p, q) alone."""
    count = sensed.shape[1]
    quiet = np.zeros((len(law.references), count))
    return law.decide(t, np.zeros((law.order, count)), sensed, quiet)


def indexed(name: str, count: int) -> tuple[str, ...]:
    """Return labels such as ``yhat[0]``, ``yhat[1]``."""
    return tuple(numbered(name, count))


# -- controllers of a user's own -------------------------------------------------------


@dataclass(frozen=True, eq=False)
class OwnLaw(Law):
    """A controller of the user's own, in deviations from the point of a side.

    The user's code is given, and gives, whole signals.
    """

    side: LinearSide | NonlinearSide
    states: tuple[str, ...] = ()
    references: tuple[str, ...] = ()

    is_function = True

    def check_linear(self) -> NoReturn:
        """Refuse to be one linear system."""
        raise ValueError(
            "this loop's controller is a function, and not a linear system: it has no "
            "poles, no closed_loop, no exact moments and no design file; estimate "
            "them, loop.simulate(trials=1000)"
        )

    def decide(
        self,
        t: int,
        memory: NDArray[np.float64],
        sensed: NDArray[np.float64],
        reference: NDArray[np.float64],
    ) -> NDArray[np.float64]:
        """Return the inputs (m, 1) that it asks for, from one run's reading."""
        given = self._answer(t, memory, sensed, reference)
        try:
            asked = np.asarray(given, float)
        except (TypeError, ValueError):
            asked = np.empty((0, 0))
        m = len(self.side.controls)
        if asked.size != m or asked.shape not in ((), (m,), (m, 1)):
            raise ValueError(
                f"controller: expected {m} inputs, shape ({m},), got "
                f"{type(given).__name__} of shape {np.shape(given)} at sample {t}"
            )
        if not np.isfinite(asked).all():
            raise ValueError(
                f"controller: expected finite inputs, got others at sample {t}; an "
                "optimisation may be infeasible there: soften its constraints"
            )
        return asked.reshape(m, 1) - self.side.inputs

    def knowing(self, observer: ObserverFeedback) -> OwnLaw:
        """Return the controller with an estimate, if it takes one."""
        return self

    @abstractmethod
    def _answer(
        self,
        t: int,
        memory: NDArray[np.float64],
        sensed: NDArray[np.float64],
        reference: NDArray[np.float64],
    ) -> ArrayLike:
        """Return the answer of the user's code."""


@dataclass(frozen=True, eq=False, kw_only=True)
class FunctionLaw(OwnLaw):
    """A function f(t, yhat, estimate, reference), and what makes its estimate."""

    function: Function
    observer: ObserverFeedback | None = None

    @property
    def estimates(self) -> bool:  # type: ignore[override]
        """Return whether the function is given an estimate."""
        return self.observer is not None

    @property
    def order(self) -> int:
        """Number of states of the observer."""
        return 0 if self.observer is None else self.observer.order

    def knowing(self, observer: ObserverFeedback) -> FunctionLaw:
        """Return the function with an estimate."""
        return replace(self, observer=observer, states=observer.states)

    def for_reference(self, reference: ArrayLike | None) -> Self:
        """The controller with a label for each reference of a run."""
        count = 0
        if reference is not None:
            count = len(np.atleast_1d(real_array(reference, "reference")))
        return replace(self, references=indexed("r", count))

    def _answer(
        self,
        t: int,
        memory: NDArray[np.float64],
        sensed: NDArray[np.float64],
        reference: NDArray[np.float64],
    ) -> ArrayLike:
        followed = reference[:, 0].copy() if self.references else None
        estimate = None
        if self.observer is not None:
            change = self.observer.estimate(t, memory, sensed)
            estimate = self.side.rest + change[:, 0]
        yhat = (sensed + self.side.outputs)[:, 0]
        return self.function(t * self.side.plant.step, yhat, estimate, followed)

    def follow(
        self,
        t: int,
        memory: NDArray[np.float64],
        sensed: NDArray[np.float64],
        acting: NDArray[np.float64],
        reference: NDArray[np.float64],
    ) -> NDArray[np.float64]:
        if self.observer is None:
            return memory
        return self.observer.follow(t, memory, sensed, acting, reference)


@dataclass(frozen=True, eq=False, kw_only=True)
class SystemLaw(OwnLaw):
    """A `ct.nlsys` from the published outputs, then references.

    ``reads`` and ``drives`` put its inputs and outputs in the loop's order.
    """

    system: NonlinearPlant
    reads: NDArray[np.intp]
    drives: list[int]

    @classmethod
    def of(
        cls, ctrl: ct.NonlinearIOSystem, side: LinearSide | NonlinearSide
    ) -> SystemLaw:
        """The controller of a system whose time is the plant's."""
        check_timebase(ctrl, side.plant)
        reads, drives = wiring(ctrl, side)
        states = state_names(ctrl, side.plant)
        references = indexed("r", ctrl.ninputs - len(side.outputs))
        system = NonlinearPlant.as_given(ctrl)
        places = np.argsort(reads)
        return cls(side, states, references, system=system, reads=places, drives=drives)

    def _given(
        self,
        t: int,
        memory: NDArray[np.float64],
        sensed: NDArray[np.float64],
        reference: NDArray[np.float64],
    ) -> tuple[float, NDArray[np.float64], NDArray[np.float64]]:
        """The time, the state and the inputs of the system at sample t."""
        given = np.concatenate([sensed + self.side.outputs, reference])[self.reads, 0]
        return t * self.side.plant.step, memory[:, 0], given

    def _answer(
        self,
        t: int,
        memory: NDArray[np.float64],
        sensed: NDArray[np.float64],
        reference: NDArray[np.float64],
    ) -> ArrayLike:
        given = self._given(t, memory, sensed, reference)
        return self.system.read_outputs(*given)[self.drives]

    def follow(
        self,
        t: int,
        memory: NDArray[np.float64],
        sensed: NDArray[np.float64],
        acting: NDArray[np.float64],
        reference: NDArray[np.float64],
    ) -> NDArray[np.float64]:
        if not self.states:
            return memory
        given = self._given(t, memory, sensed, reference)
        return self.system.next_states(*given)[:, None]


@dataclass(frozen=True, eq=False, kw_only=True)
class BlockLaw(ObserverFeedback):
    """A function of the estimates (n, trials), called for whole blocks of trials."""

    function: UserLaw
    step: float

    varies = True
    has_form = False

    def decide(
        self,
        t: int,
        memory: NDArray[np.float64],
        sensed: NDArray[np.float64],
        reference: NDArray[np.float64],
    ) -> NDArray[np.float64]:
        estimate = self.estimate(t, memory, sensed)
        n, block = estimate.shape
        m = len(self.through.T)
        answer = self.function(t * self.step, estimate, reference[:n])
        inputs = np.asarray(answer, float)
        if inputs.shape == (m,):
            inputs = inputs[:, None]
        if inputs.shape not in ((m, 1), (m, block)):
            raise ValueError(
                f"controller: expected an array of shape ({m}, {block}) (inputs, "
                f"trials), or ({m},) for every trial, got {inputs.shape}; it is "
                f"called for blocks of {block} trials at once, with xhat of shape "
                f"{estimate.shape}, however many trials are asked for"
            )
        return np.broadcast_to(inputs, (m, block))


def law_of(
    controller: ct.InputOutputSystem | Function,
    linear: LinearSide,
    side: LinearSide | NonlinearSide,
) -> Law:
    """The controller u = controller (yhat, r) of a system, or of a function.

    `ValueError` if what is published at a sample would depend on the answer to it.
    """
    if is_nonlinear(controller):
        controller = settled(controller) or controller
    is_system = isinstance(controller, ct.InputOutputSystem)
    is_class = isinstance(controller, type)
    is_function = callable(controller) and not is_system and not is_class
    if not is_function and not is_nonlinear(controller):
        return general_controller(linear, controller)
    if linear.through.any():
        raise ValueError(
            "controller: the plant has direct feedthrough from an input that the "
            "controller drives, so an output would depend on the controller's answer to "
            "it; delay that input by one sample (with_delays)"
        )
    if isinstance(controller, ct.NonlinearIOSystem):
        return SystemLaw.of(controller, side)
    return FunctionLaw(side, function=controller)


def general_controller(side: LinearSide, ctrl: ct.InputOutputSystem) -> Controller:
    """The controller u = ctrl (yhat, r) of any linear discrete-time system."""
    plant = side.plant
    system = linear_system(ctrl, "controller")
    for matrix in (system.A, system.B, system.C, system.D):
        real_array(matrix, "controller", copy=False)
    check_timebase(system, plant)
    inputs, outputs = wiring(system, side)
    through = side.through
    p, m = through.shape
    B, F = np.hsplit(system.B[:, inputs], [p])
    D, H = np.hsplit(system.D[np.ix_(outputs, inputs)], [p])
    rounding = 8 * EPS * max(p, m) * np.abs(through) @ np.abs(D)
    if (np.abs(through @ D) > rounding).any():
        raise ValueError(
            "controller: the loop is not well posed, because the plant and the "
            "controller both have direct feedthrough (D_plant D_controller is not zero): "
            "an output published at t would depend on itself. Delay the controller by one "
            "sample, or remove one feedthrough"
        )
    solved = np.linalg.inv(np.eye(m) - D @ through)
    return Controller(
        A=system.A,
        B=B,
        E=B @ through,
        F=F,
        C=solved @ system.C[outputs],
        D=solved @ D,
        H=solved @ H,
        states=state_names(system, plant),
        references=indexed("r", system.ninputs - p),
    )


def linear_system(ctrl: object, name: str) -> ct.StateSpace:
    """Return a linear system as a StateSpace."""
    if isinstance(ctrl, ct.StateSpace):
        return ctrl
    if isinstance(ctrl, ct.TransferFunction):
        return ct.ss(ctrl, inputs=ctrl.input_labels, outputs=ctrl.output_labels)
    raise ct.ControlArgument(
        f"{name}: expected a StateSpace or a TransferFunction in discrete time, got "
        f"{type(ctrl).__name__}; ctrl.linearize makes one of a nonlinear system"
    )


def settled(ctrl: ct.NonlinearIOSystem) -> ct.StateSpace | None:
    """The linear system of one that carries a covariance, which is taken as settled.

    None if inputs reach all of its states, or if it is not linear. A warning says that
    the covariance's start counts for nothing.
    """
    if not ctrl.nstates or not ct.isdtime(ctrl, strict=True):
        return None
    rest = np.zeros(ctrl.nstates)
    silence = np.zeros(ctrl.ninputs)
    for _ in range(SETTLING):
        before = rest
        rest = ctrl.dynamics(0, before, silence)
        if np.abs(rest - before).max() <= 4 * EPS * np.abs(rest).max():
            break
    if not np.isfinite(rest).all():
        return None
    # differences of a linear map are exact for any step, so the step may be one
    linear = ctrl.linearize(rest, silence, eps=1.0)
    reached = reached_states(linear.A != 0, linear.B.any(axis=1))
    if reached.all():
        return None
    A = linear.A[np.ix_(reached, reached)]
    B = linear.B[reached]
    C = linear.C[:, reached]
    names = [ctrl.state_labels[k] for k in np.flatnonzero(reached)]
    labels = {"inputs": ctrl.input_labels, "outputs": ctrl.output_labels}
    system = ct.ss(A, B, C, linear.D, ctrl.dt, states=names, **labels)
    # random inputs from rest, past all transients of a few states
    times = np.arange(3 + 2 * ctrl.nstates) * (1 if ctrl.dt is True else ctrl.dt)
    sent = np.random.default_rng(0).normal(size=(ctrl.ninputs, len(times)))
    expected = ct.input_output_response(ctrl, times, sent, rest, squeeze=False).outputs
    answer = ct.forced_response(system, times, sent, squeeze=False).outputs
    if not np.allclose(answer, expected, 0, 1e-8 * np.abs(expected).max(initial=1)):
        return None
    warn_user(
        "controller: the covariance that it carries is taken as settled, and a P0 that "
        "was passed to ct.create_estimator_iosystem counts for nothing; "
        "private_lqg(P0=...) has the filter that starts from a prior",
        UserWarning,
    )
    return system


def state_names(system: ct.InputOutputSystem, plant: SampledSystem) -> tuple[str, ...]:
    """Labels of a controller's states, others where the plant has one of them."""
    names = tuple(system.state_labels)
    if set(names) & set(plant.states):
        return indexed("xc", len(names))
    return names


def check_timebase(system: ct.InputOutputSystem, plant: SampledSystem) -> None:
    """Refuse a controller whose sampling time is not the plant's."""
    if system.dt is None and not system.nstates:
        return  # a gain has no sampling time
    if system.dt is None or system.dt == 0:
        raise ct.ControlArgument(
            f"controller: expected discrete time with dt = {plant.dt}, got dt = "
            f"{system.dt}; discretise it with controller.sample({plant.step:g}), or "
            "state its dt when you make it"
        )
    if (
        system.dt is True
        or plant.dt is True
        or np.isclose(system.dt, plant.dt, ROUNDED)
    ):
        return
    ratio = system.dt / plant.step
    advice = "design it for the sampling time of the plant"
    if ratio > 1 and np.isclose(ratio, round(ratio), ROUNDED):
        advice = (
            f"it runs {round(ratio)} times slower: such a loop is periodic, not time "
            f"invariant. Sample the plant with {system.dt:g} s, and design the noise "
            "for that plant"
        )
    raise ct.ControlArgument(
        f"controller: expected dt = {plant.dt} as the plant, got {system.dt}; {advice}"
    )


def wiring(
    system: ct.InputOutputSystem, side: LinearSide | NonlinearSide
) -> tuple[list[int], list[int]]:
    """The system's inputs (yhat, references) and outputs in the loop's order.

    They are found by name. Names that python-control gives by itself say nothing, so
    those stay as given. So does a single output.
    """
    p, m = side.through.shape
    if system.ninputs < p:
        raise ct.ControlDimension(
            f"controller: expected the {p} published outputs as inputs, then "
            f"references, got {system.ninputs} inputs"
        )
    if system.noutputs != m:
        raise ct.ControlDimension(
            f"controller: expected {m} outputs, one for each input that it drives, got "
            f"{system.noutputs}"
        )
    published = (side.plant.outputs, indexed("yhat", p))
    inputs = _with_first(system.input_labels, "u", *published)
    if inputs is None or _is_open(system.input_labels, side):
        raise ct.ControlArgument(_misnamed(system.input_labels, side))
    driven = side.driven_labels
    outputs = _with_first(system.output_labels, "y", driven, indexed("u", m))
    if outputs is None and m > 1:
        raise ct.ControlArgument(
            f"controller: expected outputs named like the plant's inputs, "
            f"{_listed(driven)}, got {_listed(system.output_labels)}; name them in "
            f"their order, controller.update_names(outputs={driven})"
        )
    return inputs, outputs or [0]


def _with_first(
    labels: list[str], unnamed: str, *known: Sequence[str]
) -> list[int] | None:
    """Places of labels, those of the first names that are all among them in front.

    As they are if they are python-control's own, such as ``u[0]``, for signals without
    a name. None if no names fit.
    """
    places = list(range(len(labels)))
    for names in known:
        if set(names) <= set(labels):
            first = [labels.index(name) for name in names]
            return first + [k for k in places if k not in first]
    if tuple(labels) == indexed(unnamed, len(labels)):
        return places
    return None


def _is_open(labels: list[str], side: LinearSide | NonlinearSide) -> bool:
    """Return whether an input is an estimate, or what the controller drives itself."""
    p = len(side.plant.outputs)
    if tuple(labels) == indexed("u", len(labels)):
        return False
    named = set(labels) - set(side.plant.outputs) - set(indexed("yhat", p))
    return _takes_estimate(labels) or bool(named & set(side.driven_labels))


def _takes_estimate(labels: Sequence[str]) -> bool:
    """Return whether an input has a name that python-control gives to estimates."""
    return any(label.startswith("xhat[") for label in labels)


def _misnamed(labels: list[str], side: LinearSide | NonlinearSide) -> str:
    """Say which inputs were expected, and what to join or to rename first."""
    outputs = list(side.plant.outputs)
    wanted = _listed(outputs)
    got = (
        f"controller: expected inputs named like the published outputs, {wanted} (or "
        f"yhat[0], ...), then references, got {_listed(labels)}"
    )
    if _takes_estimate(labels):
        given = [name for name in labels if not name.startswith("xhat[")]
        given = [name for name in given if name not in outputs]
        return (
            f"{got}: it feeds back an estimate. Join it with its estimator first, "
            f"ct.interconnect([estimator, controller], inputs={given + outputs}, "
            f"outputs={side.driven_labels}), where ct.create_estimator_iosystem gets "
            f"measurement_labels={outputs}; or pass the gains, private_loop(sys, K, L, "
            "noise)"
        )
    own = [name for name in labels if name in side.driven_labels]
    if own and set(outputs) <= set(labels):
        return (
            f"{got}: the controller drives {_listed(own)} itself. Join its "
            "output to that input first, with ct.interconnect; if it is a reference, "
            "give it another name by controller.update_names(inputs=[...])"
        )
    return (
        f"{got}. If they are these signals in this order, name them so: "
        f"controller.update_names(inputs=[{', '.join(map(repr, outputs))}, ...]). What "
        "is computed from them is joined first, with ct.interconnect; a controller of "
        "errors r - yhat goes into private_feedback(sys, controller, noise)"
    )


def _listed(names: Sequence[str]) -> str:
    """Return the first names with commas between them."""
    more = ", ..." if len(names) > 6 else ""
    return ", ".join(names[:6]) + more
