"""A private loop as data, and the signals that drive it in a run.

Simulations, costs and figures of a loop need no more than this. The doors to all that
stand on `PrivateLoop`. Inside, every signal is (time, signal, run), as
`LoopDynamics.run` takes it. Runs are 1 where all trials share a signal.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from numbers import Real
from typing import Any, Self, Unpack

import control as ct
import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..designs.output_noise import OutputNoise
from ..numerics.checks import instance_of, one_of, real_array
from ..numerics.objects import ByContent, freeze_arrays
from ..numerics.saved import check_fields
from ..privacy.horizon import NO_HORIZON, Horizon, horizon_of
from ..systems.linear import LinearSystem, Plant, root, singular_root
from ..systems.varying import VaryingPlant
from .controller import Law, ObserverFeedback
from .dynamics import LoopDynamics, Rows
from .lqg import LqgDesign
from .regulator import Regulation
from .side import (
    LinearSide,
    NonlinearSide,
    RunSignals,
    Weights,
    check_noise,
    matrix,
)


@dataclass(frozen=True, repr=False, eq=False)
class LoopData(ByContent):
    """The parts of a `PrivateLoop`, with answers for its engine.

    Attributes
    ----------
    side : LinearSide
        Plant, and the m inputs of it that the controller drives. The others are
        exogenous.
    law : Controller or OwnLaw
        The controller in the form that the loop is computed with.
    noise : OutputNoise or None
    weights : Weights
        Cost weights and covariances.
    name : str
    form : {"predictor", "filter", ""}
    history : tuple of (str, float)
        Expected cost after each step of a co-design; empty without one.
    truth : NonlinearSide or None
        The nonlinear plant that is simulated, with its operating point. ``side`` has
        the linear plant for which the noise was designed.
    design : LqgDesign or None
        The request that the gains of `private_lqg` were designed for.
    """

    side: LinearSide
    law: Law
    noise: OutputNoise | None
    weights: Weights
    name: str
    form: str = ""
    history: tuple[tuple[str, float], ...] = ()
    truth: NonlinearSide | None = None
    design: LqgDesign | None = None

    def __post_init__(self) -> None:
        instance_of(self.side, LinearSide, "side", "loop.side")
        instance_of(self.law, Law, "law", "loop.law")
        instance_of(self.weights, Weights, "weights", "loop.weights")
        one_of(self.form, "form", ("predictor", "filter", ""))
        freeze_arrays(self)
        if self.noise is not None:
            instance_of(
                self.noise, OutputNoise, "noise", "design_output_noise(sys, ...)"
            )
            check_noise(self.side.plant, self.noise)
            if self.truth is not None:
                self.truth.check_noise(self.noise)

    def saved(self) -> dict[str, object]:
        """Return plant, controller, noise, weights and names, for a design file.

        Of gains that vary only their design is written.

        Raises
        ------
        ValueError
            If plant or controller are functions.
        """
        functions = ""
        if self.law.is_function:
            functions = "the controller's functions"
        elif self.truth is not None:
            functions = "the functions of a nonlinear plant"
        if functions:
            raise ValueError(
                f"save: {functions} cannot be written to a file; save the noise, "
                "loop.noise.save(path)"
            )
        is_designed = self.law.varies and self.design is not None
        return {
            "plant": self.side.plant,
            "controls": self.side.controls,
            "law": None if is_designed else self.law,
            "noise": self.noise,
            "weights": self.weights,
            "name": self.name,
            "form": self.form,
            "history": self.history,
            "design": self.design,
        }

    @classmethod
    def restored(cls, saved: dict[str, Any]) -> Self:
        """Return the loop that `saved` describes, checked."""
        side = LinearSide(saved.pop("plant"), saved.pop("controls"))
        n, design = side.order, saved["design"]
        shapes = {"P0": (n, n), "initial_state": (n,), "terminal": (n, n)}
        for name, shape in shapes.items():
            public = getattr(design, name, None)
            if public is not None:
                real_array(public, name, shape=shape)
        if saved["law"] is None:
            known = (side, saved["weights"], saved["noise"])
            saved["law"] = saved["design"].law(*known)
        data = cls(side, **saved)
        check_fields(data)
        return data

    @property
    def simulated(self) -> LinearSide | NonlinearSide:
        """The plant that is simulated, the nonlinear one where there is one."""
        return self.truth or self.side

    @property
    def private_noise(self) -> OutputNoise:
        """The noise. `ValueError` if the loop has none."""
        if self.noise is None:
            raise ValueError(
                "the loop has no noise, and so no guarantee: design some with "
                "design_output_noise and pass it to with_noise; the public loop is "
                ".system, for ct.forced_response"
            )
        return self.noise

    @property
    def horizon(self) -> Horizon:
        """Number of samples of a run, infinity where it is not known or there is none."""
        if self.noise is not None:
            return self.noise.horizon
        if isinstance(self.side.plant, VaryingPlant):
            return horizon_of(self.side.plant.samples)
        if self.design is None or not self.knows_noise:
            return NO_HORIZON
        return self.design.horizon

    @property
    def never_ends(self) -> bool:
        """Return whether the noise has no horizon."""
        return self.noise is not None and not self.noise.horizon.ends

    @property
    def hides_states(self) -> bool:
        """Return whether the secret of its noise is one of the state, over a horizon."""
        noise = self.private_noise
        return noise.horizon.ends and not noise.request.secret.disturbances

    @property
    def observer(self) -> ObserverFeedback | None:
        """The controller, where it is an observer with a state feedback."""
        return self.law if isinstance(self.law, ObserverFeedback) else None

    @property
    def known_design(self) -> LqgDesign:
        """The design of the loop. `ValueError` unless `private_lqg` made it."""
        if self.design is None:
            raise ValueError(
                "loop: expected one that private_lqg made, got one of gains or of a "
                "controller; private_lqg(sys, Q, R, QN, RN, noise) makes it"
            )
        return self.design

    @property
    def knows_noise(self) -> bool:
        """Return whether the design has another filter for each noise."""
        return self.design is not None and (self.design.is_kalman or self.never_ends)

    def with_noise(self, noise: OutputNoise | None) -> Self:
        """Return the loop of `PrivateLoop.with_noise`."""
        loop = replace(self, noise=noise)
        if not (loop.knows_noise or self.knows_noise):
            return loop
        if noise is None and self.noise is not None:
            design = replace(loop.known_design, horizon=self.noise.horizon)
            loop = replace(loop, design=design)
        law = loop.known_design.law(self.side, self.weights, noise)
        return replace(loop, law=law)

    @cached_property
    def dynamics(self) -> LoopDynamics:
        """The recursion of plant and controller."""
        return LoopDynamics(self.side, self.law)

    @cached_property
    def cost_rows(self) -> Rows:
        """Rows whose squares add up to the cost, and to that of the last state."""
        each = self.weights.cost_root
        n = self.side.order
        last = np.zeros((each.shape[-2], n))
        if self.design is not None:
            last[:n] = root(regulation(self).terminal[:n, :n]).T
        return Rows(each, last)

    def noise_weight(
        self, horizon: float
    ) -> Callable[[ArrayLike], NDArray[np.float64]] | LinearSystem:
        """Return the map of `PrivateLoop.noise_weight`."""
        self.law.check_linear()
        rows = self.cost_rows
        if not self.dynamics.varies:
            rows = Rows(rows.each, 0 * rows.last)
        samples = horizon_of(horizon)
        p = len(self.side.outputs)
        if not samples.ends:
            return self.dynamics.steady(rows.each, {"noise": np.eye(p)})

        def half(columns: ArrayLike) -> NDArray[np.float64]:
            gamma = np.asarray(columns).reshape(samples, p, -1)
            added = self.dynamics.errors(rows, {"noise": gamma}, samples)
            return added.reshape(-1, added.shape[2])

        return half


def regulation(loop: LoopData) -> Regulation:
    """Return the regulator's problem of a loop's design."""
    return loop.known_design.regulation(loop.side, loop.weights)


def refuse_moments(loop: LoopData, name: str) -> None:
    """Raise a `ValueError` if plant or controller are nonlinear."""
    loop.law.check_linear()
    if loop.truth is not None:
        raise ValueError(
            f"{name}: exact moments are those of a linear plant, and this one is "
            "nonlinear; estimate them, loop.simulate(trials=1000).mse(target), or "
            "make the loop of the linear plant that the noise was designed for"
        )


# -- signals of a run ------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class LoopSignals:
    """Drives of a loop over T samples, and the goals that errors are counted from.

    Attributes
    ----------
    timepts : ndarray, shape (T,)
    initial : ndarray, shape (N, 1)
        Initial states of the plant, then of the controller.
    shared : dict of str to ndarray, shapes (T, size, 1)
        Drives that are the same in every trial, by the names of `LoopDynamics`.
        Measurement noise is ``noise``.
    each : dict of str to ndarray, shapes (trials, T, size)
        Drives that differ between trials.
    roots : dict of str to ndarray, shapes (size, q)
        Square roots of the covariances of drives that are drawn again at each sample.
    target, feedforward : ndarray, shapes (T, n), (T, m)
        What states and inputs are compared with.
    start : ndarray, shape (n, k)
        Root of the covariance of the plant's initial state, without columns where it is
        given.
    """

    timepts: NDArray[np.float64]
    initial: NDArray[np.float64]
    shared: dict[str, NDArray[np.float64]]
    each: dict[str, NDArray[np.float64]]
    roots: dict[str, NDArray[np.float64]]
    target: NDArray[np.float64]
    feedforward: NDArray[np.float64]
    start: NDArray[np.float64]

    @classmethod
    def of(
        cls,
        loop: LoopData,
        timepts: ArrayLike | None,
        reference: ArrayLike | None,
        target: ArrayLike | None,
        trials: int | None,
        given: RunSignals,
    ) -> LoopSignals:
        """Check the keywords of `over_run`."""
        times = _timepts(loop, timepts)
        samples = len(times)
        followed, fed = _references(loop, reference, given.get("feedforward"), samples)
        public = followed
        goal = np.tile(loop.simulated.rest, (samples, 1))
        if loop.law.follows_states:
            public = np.hstack([followed, fed])
            goal = followed + goal
        elif followed.any():
            goal = _followed_states(loop, followed)
        if target is not None:
            goal = _signal(target, "target", (loop.side.order,), samples, constant=True)
        initial, start = _start(loop, given)
        roots = {}
        drives = {"reference": public}
        values: Mapping[str, Any] = given
        for name, drive, source, size in (
            ("disturbance", "disturbance", "QN", loop.side.order),
            ("measurement_noise", "noise", "RN", len(loop.side.outputs)),
        ):
            value = values.get(name)
            if isinstance(value, str):
                _check_design(value, name)
                if drive not in loop.weights.drive_roots:
                    raise ValueError(
                        f'{name}="design" draws from {source}, which the loop was not '
                        f"given; pass {source} to it"
                    )
                roots[drive] = loop.weights.drive_roots[drive]
            elif value is not None:
                drawn = f', or "design", which draws it from {source}'
                drives[drive] = _signal(
                    value, name, (size,), samples, trials, whose=drawn
                )
        exogenous = given.get("exogenous")
        is_left_out = exogenous is None or (
            isinstance(exogenous, Mapping) and not exogenous
        )
        if loop.side.free or not is_left_out:
            drives["exogenous"] = _exogenous(loop, exogenous, samples, trials)
        shared = {}
        each = {}
        for drive, array in drives.items():
            if array.ndim == 2:
                shared[drive] = array[:, :, None]
            else:
                each[drive] = array
        return cls(times, initial[:, None], shared, each, roots, goal, fed, start)

    @property
    def samples(self) -> int:
        """Number of samples T."""
        return len(self.timepts)


def over_run(
    loop: LoopData,
    timepts: ArrayLike | None = None,
    reference: ArrayLike | None = None,
    *,
    target: ArrayLike | None = None,
    trials: int | None = None,
    **signals: Unpack[RunSignals],
) -> tuple[LoopData, LoopSignals]:
    """Return the loop for the samples of a run, with what drives it.

    Keywords are those of `PrivateLoop.simulate` and `PrivateLoop.cost`. No signal may
    differ by trial without ``trials``.
    """
    law = loop.law.for_reference(reference)
    if law is not loop.law:
        loop = replace(loop, law=law)
    run = LoopSignals.of(loop, timepts, reference, target, trials, signals)
    noise = loop.noise
    if noise is not None and loop.never_ends:
        return replace(loop, noise=noise.over(run.samples)), run
    if noise is None and loop.knows_noise:
        design = loop.known_design
        if run.samples != design.horizon:
            samples = horizon_of(run.samples)
            law = design.law(loop.side, loop.weights, None, samples)
            loop = replace(loop, law=law)
    return loop, run


def start_of(loop: LoopData) -> NDArray[np.float64]:
    """Return states (N,) of plant and controller at the mean of the prior."""
    n = loop.side.order
    start = np.zeros(loop.dynamics.size)
    start[:n] = prior_mean(loop)
    if loop.law.estimates:
        start[n : 2 * n] = start[:n] - loop.simulated.rest
    return start


def prior_mean(loop: LoopData) -> NDArray[np.float64]:
    """Return the public mean (n,) of x(0), the point at rest without one."""
    if loop.design is None or loop.design.initial_state is None:
        return loop.simulated.rest
    return loop.design.initial_state


def _start(
    loop: LoopData, given: RunSignals
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Initial states (N,) of plant and controller, and the root of what is drawn."""
    n = loop.side.order
    initial = start_of(loop)
    start = np.zeros((n, 0))
    state = given.get("initial_state")
    estimate = given.get("initial_estimate")
    if isinstance(state, str):
        _check_design(state, "initial_state")
        if loop.design is None or loop.design.P0 is None:
            raise ValueError(
                'initial_state="design" draws from the prior P0, which the loop was '
                "not "
                "given; pass P0 to private_lqg"
            )
        start = singular_root(loop.design.P0)
    elif state is not None:
        initial[:n] = matrix(state, "initial_state", (n,))
    if estimate is not None:
        if not loop.law.estimates:
            raise ValueError(
                "initial_estimate: this loop has a controller of its own, without "
                "an observer; its states are zero at the start"
            )
        initial[n : 2 * n] = matrix(estimate, "initial_estimate", (n,))
    return initial, start


def _references(
    loop: LoopData,
    reference: ArrayLike | None,
    feedforward: ArrayLike | None,
    samples: int,
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The reference (T, n) or (T, r) and the feedforward (T, m), zero by default."""
    labels: Sequence[str] = loop.law.references
    if loop.law.follows_states:
        labels = loop.side.plant.states
    elif feedforward is not None:
        raise ValueError(
            "feedforward: only loops of an observer and a state feedback take one; "
            "give this loop's controller a reference for it"
        )
    if not labels and reference is not None:
        raise ValueError("reference: the controller of this loop takes none")
    if reference is None:
        reference = np.zeros(len(labels))
    elif isinstance(reference, Real) and not isinstance(reference, bool):
        # zero is the origin in any units; another number is in those of one signal
        if reference == 0 or len(labels) == 1:
            reference = np.full(len(labels), reference)
    fed = np.zeros(len(loop.side.controls)) if feedforward is None else feedforward
    whose = f", one for each of {', '.join(labels)}"
    return (
        _signal(
            reference, "reference", (len(labels),), samples, constant=True, whose=whose
        ),
        _signal(fed, "feedforward", (len(loop.side.controls),), samples, constant=True),
    )


def _followed_states(
    loop: LoopData, reference: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return what the states (T, n) are to be where outputs follow a reference (T, r).

    A state follows if an output with a reference of its own reads it alone. What the
    others are to be is not known, which is nan.
    """
    goal = np.full((len(reference), loop.side.plant.order), np.nan)
    # no output follows where that is not known of a law
    for output, wanted in zip(loop.law.followed, reference.T, strict=False):
        row = _readout(loop.side.plant, output)
        if np.count_nonzero(row) == 1:
            state = np.argmax(row != 0)
            goal[:, state] = wanted / row[state]
    return goal


def _readout(plant: Plant, output: int) -> NDArray[np.float64]:
    """Return a row of C (n,), no entries where it varies."""
    if not isinstance(plant, VaryingPlant):
        return plant.C[output]
    rows = plant.along[2][:, output]
    return rows[0] if (rows == rows[0]).all() else np.zeros(plant.order)


def _timepts(loop: LoopData, timepts: ArrayLike | None) -> NDArray[np.float64]:
    plant = loop.side.plant
    noise = loop.noise
    if timepts is None:
        if noise is not None:
            return noise.timepts
        every = loop.horizon.count(
            "timepts: the loop has no noise and so no horizon; pass the time points"
        )
        return plant.step * np.arange(every, dtype=float)
    times = real_array(timepts, "timepts")
    if times.ndim != 1 or not times.size:
        raise ValueError(
            f"timepts: expected time points such as np.arange(50) * {plant.step:g}, "
            f"got an array of shape {times.shape}"
        )
    samples = len(times)
    loop.weights.check_run(samples)
    step = plant.step
    if plant.dt is True and samples > 1:
        step = times[1] - times[0]
    if not np.allclose(times, step * np.arange(samples), 1e-6, 1e-6 * step):
        shown = ", ".join(f"{time:g}" for time in times[:3])
        raise ValueError(
            f"timepts: expected 0, dt, 2 dt, .. with dt = {plant.dt}, got {shown}, ..; "
            f"for the first {samples} samples pass np.arange({samples}) * "
            f"{plant.step:g}. The noise and its guarantee are counted from the start "
            "of the run"
        )
    if noise is None and loop.side.varies and samples > loop.horizon:
        raise ValueError(
            f"timepts: expected at most the {loop.horizon} samples of the list of plants, "
            f"got {samples}"
        )
    if noise is not None and samples > noise.horizon:
        raise ValueError(
            f"timepts: expected at most the {noise.horizon} samples of the noise's "
            f"horizon, got {samples}: later samples would be published without a "
            "guarantee; design the noise for a longer horizon"
        )
    return times


def _signal(
    value: ArrayLike,
    name: str,
    lead: tuple[int, ...],
    samples: int,
    trials: int | None = None,
    *,
    constant: bool = False,
    whose: str = "",
) -> NDArray[np.float64]:
    """A signal (T, size), or (trials, T, size) where trials differ.

    It is given as (*lead, T), as (*lead, trials, T) with ``trials``, or as lead if it
    may be constant. ``whose`` says in an error what its entries mean.
    """
    array = real_array(value, name)
    shapes = [(*lead, samples)]
    if constant:
        shapes.insert(0, lead)
    if trials is not None:
        shapes.append((*lead, trials, samples))
    if array.shape not in shapes:
        expected = " or ".join(map(str, shapes))
        raise ct.ControlDimension(
            f"{name}: expected shape {expected}{whose}, got {array.shape}"
        )
    if constant and array.shape == lead:
        return np.broadcast_to(array, (samples, *lead))
    if not lead:
        array = array[None]
    return np.moveaxis(array, 0, -1)


def _check_design(value: str, name: str) -> None:
    """Refuse a text other than "design"."""
    if value != "design":
        raise ValueError(
            f'{name}: expected an array, None or "design", got another text'
        )


def _exogenous(
    loop: LoopData,
    given: Mapping[str, ArrayLike] | None,
    samples: int,
    trials: int | None,
) -> NDArray[np.float64]:
    """The inputs that the controller does not drive, as (T, q) or (trials, T, q)."""
    names = loop.side.free_labels
    if not isinstance(given, Mapping | None):
        raise TypeError(
            "exogenous: expected a mapping of input names to signals, got "
            f"{type(given).__name__}"
        )
    columns = dict.fromkeys(names, np.zeros((samples, 1)))
    for name, value in (given or {}).items():
        if name not in names:
            raise ValueError(
                f"exogenous: {name!r} is no input that the controller leaves free; "
                f"these are {', '.join(names)}; controls=[...] names those that it "
                "drives"
            )
        columns[name] = _signal(value, f"exogenous {name!r}", (), samples, trials)
    return np.concatenate(np.broadcast_arrays(*columns.values()), axis=-1)
