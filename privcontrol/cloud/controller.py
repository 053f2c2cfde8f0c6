"""Linear controllers in the cloud, brought to one form.

    x_c+ = A x_c + B s + E u + F r,    u = C x_c + D s + H r,    s = yhat - D_plant u

The controller reads what is published. It knows its own input u, so it can take the feedthrough of u out of yhat. The
difference s = C_plant x + (measurement noise) + gamma does not depend on u(t), and no algebraic loop arises.
"""

import warnings
from dataclasses import dataclass

import control as ct
import numpy as np
import scipy.linalg
from numpy.typing import NDArray

from ..core._linalg import EPS
from ..trajectory.plant import Plant

#: Steps that a nonlinear system is given to settle, when it is asked for its linear steady state.
_SETTLING = 20_000


@dataclass(frozen=True, eq=False)
class Controller:
    """A linear controller with k states, p published outputs, m inputs that it drives and references.

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

    def at(self, t: int) -> "Controller":
        """The controller itself, which does not vary."""
        return self

    def statespace(self, plant: Plant, controls: list[int]) -> ct.StateSpace:
        """The controller as a python-control system from (yhat, references) to the inputs that it drives."""
        through = plant.D[:, controls]
        m = len(controls)
        solved = np.linalg.inv(np.eye(m) + self.D @ through)
        from_state = solved @ self.C
        from_output = solved @ self.D
        from_reference = solved @ self.H
        by_input = self.E - self.B @ through
        of_output = self.B + by_input @ from_output
        of_reference = self.F + by_input @ from_reference
        return ct.ss(
            self.A + by_input @ from_state,
            np.hstack([of_output, of_reference]),
            from_state,
            np.hstack([from_output, from_reference]),
            plant.dt,
            inputs=[*_indexed("yhat", len(plant.C)), *self.references],
            outputs=[plant.inputs[k] for k in controls],
            states=list(self.states),
            name=f"{plant.name}$controller",
        )


@dataclass(frozen=True, eq=False)
class ObserverFeedback(Controller):
    """An observer with the state feedback u = -K (estimate - xd) + ud.

    Attributes
    ----------
    K, L : ndarray, shapes (m, n), (n, p)
    form : {"predictor", "filter"}
    correct : ndarray, shape (n, p)
        The estimate is xhat + correct i with the innovation i = s - C xhat.
    advance : ndarray, shape (n, p)
        The prediction moves on by xhat+ = A xhat + B u + advance i.
    sense : ndarray, shape (p, n)
        C. An observer that also estimates a noise's state has n + k columns here, and n + k
        rows in ``L`` and ``advance``.
    """

    K: NDArray
    L: NDArray
    form: str
    correct: NDArray
    advance: NDArray
    sense: NDArray

    @classmethod
    def of(
        cls, plant: Plant, controls: list[int], K: NDArray, L: NDArray, form: str
    ) -> "ObserverFeedback":
        """The controller of a state feedback K and an observer gain L of a form."""
        correct = np.zeros_like(L)
        advance = L
        if form == "filter":
            correct = L
            advance = plant.A @ L
        return cls.knowing(
            plant, controls, K, L, form, plant.A, plant.C, correct, advance, ()
        )

    @classmethod
    def knowing(
        cls,
        plant: Plant,
        controls: list[int],
        K: NDArray,
        L: NDArray,
        form: str,
        A: NDArray,
        C: NDArray,
        correct: NDArray,
        advance: NDArray,
        names: tuple[str, ...],
    ) -> "ObserverFeedback":
        """The controller whose observer also estimates a noise's state, called ``names``.

        A (n + k, n + k) and C (p, n + k) are those of plant and noise together, L, ``correct``
        and ``advance`` have n + k rows. The feedback K (m, n) acts on the plant's part.
        """
        n = plant.order
        m = len(controls)
        k = len(names)
        feedback = np.hstack([K, np.zeros((m, k))])
        silent = np.zeros((k, m))
        return cls(
            A=A - advance @ C,
            B=advance,
            E=np.vstack([plant.B[:, controls], silent]),
            F=np.zeros((n + k, n + m)),
            C=-feedback + K @ correct[:n] @ C,
            D=-K @ correct[:n],
            H=np.hstack([K, np.eye(m)]),
            states=(*_indexed("xhat", n), *names),
            references=(*_indexed("xd", n), *_indexed("ud", m)),
            K=K,
            L=L,
            form=form,
            correct=correct[:n],
            advance=advance,
            sense=C,
        )


def integral_controller(
    plant: Plant,
    controls: list[int],
    K: NDArray,
    L: NDArray,
    form: str,
    tracked: list[int],
) -> Controller:
    """Observer feedback u = -K (estimate, z) with z+ = z + r - yhat of tracked outputs."""
    n = plant.order
    k = len(tracked)
    observer = ObserverFeedback.of(plant, controls, K[:, :n], L, form)
    picked = np.eye(len(plant.C))[tracked]
    through = plant.D[:, controls]
    one = np.eye(k)
    return Controller(
        A=scipy.linalg.block_diag(observer.A, one),
        B=np.vstack([observer.B, -picked]),
        E=np.vstack([observer.E, -picked @ through]),
        F=np.vstack([np.zeros((n, k)), one]),
        C=np.hstack([observer.C, -K[:, n:]]),
        D=observer.D,
        H=np.zeros((len(controls), k)),
        states=(*observer.states, *_indexed("z", k)),
        references=_indexed("r", k),
    )


def general_controller(
    plant: Plant, controls: list[int], ctrl: ct.InputOutputSystem
) -> Controller:
    """The controller u = ctrl (yhat, r) of any linear discrete-time system."""
    system = linear_system(ctrl, "controller")
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
        states = _indexed("xc", system.nstates)
    return Controller(
        A=system.A,
        B=B,
        E=B @ through,
        F=system.B[:, p:],
        C=solved @ system.C,
        D=solved @ D,
        H=solved @ system.D[:, p:],
        states=states,
        references=_indexed("r", system.ninputs - p),
    )


def linear_system(ctrl: object, name: str) -> ct.StateSpace:
    """The StateSpace of a linear system, or of one that settles to it as ``ct.create_estimator_iosystem`` does."""
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

    None if inputs reach all of its states, or if it is not linear. A warning says that the
    covariance's start counts for nothing.
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
    """The linear system that a system with an autonomous covariance settles to, with zero input."""
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
    """What inputs reach, linearised where zero input leads to, or None if it answers otherwise."""
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
    # the covariance settles by itself, whatever the inputs
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
    published = _indexed("yhat", p)
    for names in (published, plant.outputs):
        if set(names) <= set(system.input_labels):
            first = [system.input_labels.index(name) for name in names]
            inputs = first + [k for k in range(system.ninputs) if k not in first]
    driven = [plant.inputs[k] for k in controls]
    if set(driven) == set(system.output_labels):
        outputs = [system.output_labels.index(name) for name in driven]
    return inputs, outputs


def _indexed(name: str, count: int) -> tuple[str, ...]:
    return tuple(f"{name}[{i}]" for i in range(count))
