"""Linear controllers in the cloud, brought to one form.

    x_c+ = A x_c + B s + E u + F r,    u = C x_c + D s + H r,    s = yhat - D_plant u

The controller reads what is published. It knows its own input u, so it can take the
feedthrough of u out of yhat. The difference s = C_plant x + (measurement noise) + gamma
does not depend on u(t), and no algebraic loop arises.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Protocol, Self

import control as ct
import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..core._frozen import freeze_arrays
from ..core._linalg import EPS, product, real_array
from ..noise.iosystem import numbered
from ..systems.plant import Plant

#: Steps that a nonlinear system is given to settle, when it is asked for its linear
#: steady state.
_SETTLING = 20_000


class Law(Protocol):
    """A controller as the loop asks it, in deviations from its operating point.

    Attributes
    ----------
    order : int
        Number of states k.
    states, references : tuple of str
        Labels of its states and of its references.
    varies : bool
        Whether its matrices vary from sample to sample, or it has none.
    estimates : bool
        Whether its first n states are an estimate of the plant's.
    is_function : bool
        Whether it is code of the user's own, which is called for one run at a time.
    """

    @property
    def order(self) -> int: ...

    @property
    def states(self) -> tuple[str, ...]: ...

    @property
    def references(self) -> tuple[str, ...]: ...

    @property
    def varies(self) -> bool: ...

    @property
    def estimates(self) -> bool: ...

    @property
    def is_function(self) -> bool: ...

    def told(self, t: int, memory: NDArray, sensed: NDArray) -> NDArray:
        """Return what it takes from s (p, q) at sample t."""

    def decide(
        self, t: int, memory: NDArray, told: NDArray, reference: NDArray
    ) -> NDArray:
        """Return the inputs (m, q) that it asks for at sample t."""

    def follow(
        self,
        t: int,
        memory: NDArray,
        told: NDArray,
        acting: NDArray,
        reference: NDArray,
    ) -> NDArray:
        """Return its next states (k, q), from the inputs that act."""

    def for_reference(self, reference: ArrayLike | None) -> Law:
        """Return the controller with a label for each reference of a run."""

    def check_linear(self) -> None:
        """Raise a `ValueError` where it is a function."""


class BaseLaw:
    """What most controllers answer: all is told, and references are known."""

    is_function = False

    @property
    def varies(self) -> bool:
        """Whether its matrices vary from sample to sample."""
        return False

    @property
    def estimates(self) -> bool:
        """Whether its first n states are an estimate of the plant's."""
        return False

    def told(self, t: int, memory: NDArray, sensed: NDArray) -> NDArray:
        """Return all of the reading."""
        return sensed

    def for_reference(self, reference: ArrayLike | None) -> Self:
        """Return the controller itself."""
        return self

    def check_linear(self) -> None:
        """Accept, because it is linear."""


@dataclass(frozen=True, eq=False)
class Controller(BaseLaw):
    """A linear controller: k states, p published outputs, m driven inputs, references.

    Attributes
    ----------
    A, B, E, F : ndarray, shapes (k, k), (k, p), (k, m), (k, r)
    C, D, H : ndarray, shapes (m, k), (m, p), (m, r)
    states : tuple of str
        Labels of its states, (k,).
    references : tuple of str
        Labels of its references, (r,).
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
    def order(self) -> int:
        """Number of states k."""
        return len(self.A)

    @property
    def acts_on_errors(self) -> bool:
        """Whether it takes yhat and references only as r - yhat."""
        return np.array_equal(self.F, -self.B) and np.array_equal(self.H, -self.D)

    def decide(
        self, t: int, memory: NDArray, told: NDArray, reference: NDArray
    ) -> NDArray:
        """Return the inputs (m, q) that it asks for."""
        asked = product(self.C, memory) + product(self.D, told)
        return asked + self.H @ reference

    def follow(
        self,
        t: int,
        memory: NDArray,
        told: NDArray,
        acting: NDArray,
        reference: NDArray,
    ) -> NDArray:
        """Return its next states (k, q), from the inputs that act."""
        moved = product(self.A, memory) + product(self.B, told)
        return moved + product(self.E, acting) + self.F @ reference


@dataclass(frozen=True, eq=False)
class ObserverFeedback(BaseLaw):
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
    tracked: tuple[int, ...] = ()
    recall: NDArray | None = None
    whiten: NDArray | None = None

    estimates = True

    def __post_init__(self) -> None:
        freeze_arrays(self)

    @classmethod
    def of(
        cls,
        plant: Plant,
        controls: list[int],
        K: NDArray,
        L: NDArray,
        form: str,
        tracked: tuple[int, ...] = (),
    ) -> ObserverFeedback:
        """The controller of a state feedback K and an observer gain L of a form."""
        correct = np.zeros_like(L)
        advance = L
        if form == "filter":
            correct = L
            advance = plant.A @ L
        return cls.knowing(
            plant, controls, K, plant.A, plant.C, correct, advance, tracked
        )

    @classmethod
    def knowing(
        cls,
        plant: Plant,
        controls: list[int],
        K: NDArray,
        A: NDArray,
        C: NDArray,
        correct: NDArray,
        advance: NDArray,
        tracked: tuple[int, ...] = (),
    ) -> ObserverFeedback:
        """Return the controller whose observer estimates a noise's state too.

        A and C are those of plant and noise together.
        """
        B = np.zeros((len(A), len(controls)))
        B[: plant.order] = plant.B[:, controls]
        through = plant.D[:, controls]
        return cls(A, B, C, through, K, correct, advance, plant.order, tracked)

    @property
    def varies(self) -> bool:
        """Whether a gain varies from sample to sample."""
        return self.K.ndim == 3 or self.advance.ndim == 3

    @property
    def order(self) -> int:
        """Number of states, sums and recalled innovations."""
        recalled = 0 if self.recall is None else self.recall.shape[2]
        return len(self.A) + len(self.tracked) + recalled

    @property
    def states(self) -> tuple[str, ...]:
        """Labels of its states, without the innovations that it recalls."""
        n = self.order_of_plant
        known = indexed("gammahat", len(self.A) - n)
        sums = indexed("z", len(self.tracked))
        return (*indexed("xhat", n), *known, *sums)

    @property
    def references(self) -> tuple[str, ...]:
        """Labels of its references."""
        if self.tracked:
            return indexed("r", len(self.tracked))
        m = self.B.shape[1]
        return (*indexed("xd", self.order_of_plant), *indexed("ud", m))

    def expected(self, t: int, memory: NDArray) -> NDArray:
        """Return the reading (p, q) that is predicted."""
        N = len(self.A)
        seen = product(self.C, memory[:N])
        if self.recall is None:
            return seen
        return seen + product(self.recall[t], memory[N + len(self.tracked) :])

    def told(self, t: int, memory: NDArray, sensed: NDArray) -> NDArray:
        """Return the innovation (p, q), what a reading tells beyond the prediction."""
        return sensed - self.expected(t, memory)

    def estimate(self, t: int, memory: NDArray, told: NDArray) -> NDArray:
        """Return the plant's state (n, q) that is fed back."""
        n = self.order_of_plant
        correct = gain_at(self.correct, t)
        return memory[:n] + product(correct[:n], told)

    def feedback(
        self, t: int, estimate: NDArray, memory: NDArray, reference: NDArray
    ) -> NDArray:
        """Return the inputs (m, q) that it asks for at an estimate."""
        K = gain_at(self.K, t)
        if self.tracked:
            N = len(self.A)
            sums = memory[N : N + len(self.tracked)]
            return -product(K, np.concatenate([estimate, sums]))
        n = self.order_of_plant
        return product(K, reference[:n] - estimate) + reference[n:]

    def decide(
        self, t: int, memory: NDArray, told: NDArray, reference: NDArray
    ) -> NDArray:
        """Return the inputs (m, q) that it asks for."""
        return self.feedback(t, self.estimate(t, memory, told), memory, reference)

    def follow(
        self,
        t: int,
        memory: NDArray,
        told: NDArray,
        acting: NDArray,
        reference: NDArray,
    ) -> NDArray:
        """Return its next states (N, q), from the inputs that act."""
        advance = gain_at(self.advance, t)
        N = len(self.A)
        moved = product(self.A, memory[:N]) + product(self.B, acting)
        moved += product(advance, told)
        if N == len(memory):
            return moved
        end = N + len(self.tracked)
        after = memory.copy()
        after[:N] = moved
        if self.tracked:
            picked = list(self.tracked)
            sensed = told + self.expected(t, memory)
            read = sensed[picked] + product(self.through[picked], acting)
            after[N:end] += reference - read
        if self.whiten is not None:
            p = len(self.C)
            own = slice(end + t * p, end + (t + 1) * p)
            after[own] = product(self.whiten[t], told)
        return after


def gain_at(gain: NDArray, t: int) -> NDArray:
    """Return the gain of sample t, from one for all of them or from one for each."""
    return gain if gain.ndim == 2 else gain[t]


def general_controller(
    plant: Plant, controls: list[int], ctrl: ct.InputOutputSystem
) -> Controller:
    """The controller u = ctrl (yhat, r) of any linear discrete-time system."""
    system = linear_system(ctrl, "controller")
    for matrix in (system.A, system.B, system.C, system.D):
        real_array(matrix, "controller", copy=False)
    check_timebase(system, plant)
    inputs, outputs = wiring(system, plant, controls)
    system = ct.ss(
        system.A,
        system.B[:, inputs],
        system.C[outputs],
        system.D[np.ix_(outputs, inputs)],
        system.dt,
        states=system.state_labels,
    )
    p = len(plant.C)
    m = len(controls)
    B = system.B[:, :p]
    D = system.D[:, :p]
    through = plant.D[:, controls]
    algebraic = through @ D
    rounding = 8 * EPS * max(p, m) * np.abs(through) @ np.abs(D)
    if (np.abs(algebraic) > rounding).any():
        raise ValueError(
            "controller: the loop is not well posed, because the plant and the "
            "controller both pass their input on at once (D_plant D_controller is not "
            "zero): what is published at t would depend on itself. Delay the "
            "controller by one sample, or remove one feedthrough"
        )
    solved = np.linalg.inv(np.eye(m) - D @ through)
    states = tuple(system.state_labels)
    if set(states) & set(plant.states):
        states = indexed("xc", system.nstates)
    return Controller(
        A=system.A,
        B=B,
        E=B @ through,
        F=system.B[:, p:],
        C=solved @ system.C,
        D=solved @ D,
        H=solved @ system.D[:, p:],
        states=states,
        references=indexed("r", system.ninputs - p),
    )


def linear_system(ctrl: object, name: str) -> ct.StateSpace:
    """Return the StateSpace of a linear system, or of one that settles to one.

    ``ct.create_estimator_iosystem`` makes such ones.
    """
    if isinstance(ctrl, ct.StateSpace):
        return ctrl
    if isinstance(ctrl, ct.TransferFunction):
        return ct.ss(ctrl, inputs=ctrl.input_labels, outputs=ctrl.output_labels)
    if isinstance(ctrl, ct.NonlinearIOSystem):
        return _settled(ctrl, name)
    raise ct.ControlArgument(
        f"{name}: expected a StateSpace or a TransferFunction in discrete time, got "
        f"{type(ctrl).__name__}"
    )


def settled(ctrl: ct.NonlinearIOSystem) -> ct.StateSpace | None:
    """The linear system of one that carries a covariance, which is taken as settled.

    None if inputs reach all of its states, or if it is not linear. A warning says that
    the covariance's start counts for nothing.
    """
    if not ctrl.nstates or not ct.isdtime(ctrl, strict=True):
        return None
    system = _linear_at_rest(ctrl)
    if system is None or system.nstates == ctrl.nstates:
        return None
    warnings.warn(
        "controller: the covariance that it carries is taken as settled, and a P0 that "
        "was passed to ct.create_estimator_iosystem counts for nothing; "
        "private_lqg(P0=...) has the filter that starts from a prior",
        stacklevel=5,
    )
    return system


def _settled(ctrl: ct.NonlinearIOSystem, name: str) -> ct.StateSpace:
    """What a system with an autonomous covariance settles to, with zero input."""
    system = None
    if ct.isdtime(ctrl, strict=True):
        system = _linear_at_rest(ctrl)
    if system is None:
        raise ct.ControlArgument(
            f"{name}: expected a linear system in discrete time, got a "
            f"{type(ctrl).__name__} that does not behave as one; linearise it with "
            "ctrl.linearize and pass the result"
        )
    return system


def _linear_at_rest(ctrl: ct.NonlinearIOSystem) -> ct.StateSpace | None:
    """What inputs reach, linearised at rest, or None if it is not linear there."""
    rest = np.zeros(ctrl.nstates)
    silence = np.zeros(ctrl.ninputs)
    for _ in range(_SETTLING):
        before = rest
        rest = ctrl.dynamics(0, before, silence)
        change = np.abs(rest - before).max(initial=0.0)
        if change <= 4 * EPS * np.abs(rest).max(initial=0.0):
            break
    if not np.isfinite(rest).all():
        return None
    # differences of a linear map are exact for any step, so the step may be one
    linear = ctrl.linearize(rest, silence, eps=1.0)
    # the covariance settles by itself, for any inputs
    reached = linear.B.any(axis=1)
    for _ in range(ctrl.nstates):
        reached = reached | (linear.A[:, reached] != 0).any(axis=1)
    kept = np.flatnonzero(reached)
    system = ct.ss(
        linear.A[np.ix_(kept, kept)],
        linear.B[kept],
        linear.C[:, kept],
        linear.D,
        ctrl.dt,
        inputs=ctrl.input_labels,
        outputs=ctrl.output_labels,
        states=[ctrl.state_labels[k] for k in kept],
    )
    # random inputs from rest, past all transients of a few states
    rng = np.random.default_rng(0)
    state = rest
    followed = np.zeros(len(kept))
    for _ in range(3 + 2 * ctrl.nstates):
        sent = rng.normal(size=ctrl.ninputs)
        expected = ctrl.output(0, state, sent)
        answer = system.C @ followed + system.D @ sent
        if not np.allclose(answer, expected, 0, 1e-8 * np.abs(expected).max(initial=1)):
            return None
        state = ctrl.dynamics(0, state, sent)
        followed = system.A @ followed + system.B @ sent
    return system


def check_timebase(system: ct.InputOutputSystem, plant: Plant) -> None:
    """Refuse a controller whose sampling time is not the plant's."""
    if system.dt is None and not system.nstates:
        return  # a gain has no sampling time
    if system.dt is None or system.dt == 0:
        raise ct.ControlArgument(
            f"controller: expected discrete time with dt = {plant.dt}, got dt = "
            f"{system.dt}; discretise it with controller.sample({plant.step:g}), or "
            "state its dt when you make it"
        )
    if system.dt is True or plant.dt is True or np.isclose(system.dt, plant.dt, 1e-9):
        return
    ratio = system.dt / plant.step
    advice = "design it for the sampling time of the plant"
    if ratio > 1 and np.isclose(ratio, round(ratio), 1e-9):
        advice = (
            f"it runs {round(ratio)} times slower: such a loop is periodic, not time "
            f"invariant. Sample the plant with {system.dt:g} s, and design the noise "
            "for that plant"
        )
    raise ct.ControlArgument(
        f"controller: expected dt = {plant.dt} as the plant, got {system.dt}; {advice}"
    )


def wiring(
    system: ct.InputOutputSystem, plant: Plant, controls: list[int]
) -> tuple[list[int], list[int]]:
    """The system's inputs (published outputs, references) and outputs in the loop's order.

    They are found by name where the names tell, else they stay as given.
    """
    p = len(plant.C)
    m = len(controls)
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
    inputs = list(range(system.ninputs))
    outputs = list(range(m))
    published = indexed("yhat", p)
    for names in (published, plant.outputs):
        if set(names) <= set(system.input_labels):
            first = [system.input_labels.index(name) for name in names]
            inputs = first + [k for k in range(system.ninputs) if k not in first]
    driven = [plant.inputs[k] for k in controls]
    if set(driven) == set(system.output_labels):
        outputs = [system.output_labels.index(name) for name in driven]
    return inputs, outputs


def answered(
    law: Law,
    t: int,
    memory: NDArray,
    yhat: NDArray,
    reference: NDArray,
    through: NDArray,
) -> NDArray:
    """Return the inputs (m, q) of a controller that reads yhat (p, q), D u included."""
    asked = law.decide(t, memory, law.told(t, memory, yhat), reference)
    if not through.any():
        return asked
    direct = at_once(law, t, np.eye(len(yhat)))
    return np.linalg.solve(np.eye(len(asked)) + direct @ through, asked)


def at_once(law: Law, t: int, sensed: NDArray) -> NDArray:
    """Return what a controller at rest answers to s (p, q) alone."""
    count = sensed.shape[1]
    still = np.zeros((law.order, count))
    quiet = np.zeros((len(law.references), count))
    return law.decide(t, still, law.told(t, still, sensed), quiet)


def indexed(name: str, count: int) -> tuple[str, ...]:
    """Return labels such as ``yhat[0]``, ``yhat[1]``."""
    return tuple(numbered(name, count))
