"""What drives a loop in a simulation or moment computation, in one layout.

Inside, every signal is (time, signal, run), as `LoopDynamics.run` takes it. Runs are 1
where all trials share a signal.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar, Unpack

import control as ct
import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..core._linalg import real_array
from ._loop_data import LoopData
from .checks import RunSignals, matrix, root

LoopT = TypeVar("LoopT", bound=LoopData)


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

    timepts: NDArray
    initial: NDArray
    shared: dict[str, NDArray]
    each: dict[str, NDArray]
    roots: dict[str, NDArray]
    target: NDArray
    feedforward: NDArray
    start: NDArray

    @classmethod
    def of(
        cls,
        loop: LoopData,
        timepts: ArrayLike | None = None,
        reference: ArrayLike | None = None,
        *,
        target: ArrayLike | None = None,
        trials: int | None = None,
        **given: Unpack[RunSignals],
    ) -> LoopSignals:
        """Check the keywords of `PrivateLoop.simulate`.

        None of them may differ by trial without ``trials``.
        """
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
        disturbance = given.get("disturbance")
        measurement = given.get("measurement_noise")
        n = loop.side.order
        p = len(loop.side.outputs)
        for name, drive, source, size, value in (
            ("disturbance", "disturbance", "QN", n, disturbance),
            ("measurement_noise", "noise", "RN", p, measurement),
        ):
            if isinstance(value, str):
                _check_design(value, name)
                if drive not in loop.weights.drive_roots:
                    raise ValueError(
                        f'{name}="design" draws from {source}, which the loop was not '
                        f"given; pass {source} to it"
                    )
                roots[drive] = loop.weights.drive_roots[drive]
            elif value is not None:
                drives[drive] = _signal(value, name, (size,), samples, trials)
        exogenous = given.get("exogenous")
        if loop.side.free or exogenous:
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
    loop: LoopT,
    timepts: ArrayLike | None = None,
    reference: ArrayLike | None = None,
    *,
    target: ArrayLike | None = None,
    trials: int | None = None,
    **signals: Unpack[RunSignals],
) -> tuple[LoopT, LoopSignals]:
    """Return the loop for the samples of a run, with what drives it.

    Keywords are those of `PrivateLoop.simulate` and `PrivateLoop.cost`. No signal may
    differ by trial without ``trials``.
    """
    law = loop.law.for_reference(reference)
    if law is not loop.law:
        loop = replace(loop, law=law)
    run = LoopSignals.of(
        loop, timepts, reference, target=target, trials=trials, **signals
    )
    noise = loop.noise
    if noise is not None and noise.horizon == math.inf:
        return replace(loop, noise=noise.over(run.samples)), run
    if noise is None and loop.knows_noise:
        return replace(
            loop, law=loop.known_design.law(loop.side, loop.weights, None, run.samples)
        ), run
    return loop, run


def start_of(loop: LoopData) -> NDArray:
    """Return states (N,) of plant and controller at the mean of the prior."""
    n = loop.side.order
    start = np.zeros(loop.dynamics.size)
    start[:n] = prior_mean(loop)
    if loop.law.estimates:
        start[n : 2 * n] = start[:n] - loop.simulated.rest
    return start


def prior_mean(loop: LoopData) -> NDArray:
    """Return the public mean (n,) of x(0), the point at rest without one."""
    if loop.design is None or loop.design.initial_state is None:
        return loop.simulated.rest
    return loop.design.initial_state


def _start(loop: LoopData, given: RunSignals) -> tuple[NDArray, NDArray]:
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
        start = root(loop.design.P0)
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
) -> tuple[NDArray, NDArray]:
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
    followed = np.zeros(len(labels)) if reference is None else reference
    fed = np.zeros(len(loop.side.controls)) if feedforward is None else feedforward
    whose = f", one for each of {', '.join(labels)}"
    return (
        _signal(
            followed, "reference", (len(labels),), samples, constant=True, whose=whose
        ),
        _signal(fed, "feedforward", (len(loop.side.controls),), samples, constant=True),
    )


def _followed_states(loop: LoopData, reference: NDArray) -> NDArray:
    """What the states (T, n) are to be where outputs follow a reference (T, r).

    A state follows if an output with a reference of its own reads it alone. What the
    others are to be is not known, which is nan.
    """
    goal = np.full((len(reference), loop.side.plant.order), np.nan)
    for output, wanted in zip(loop.law.followed, reference.T):
        row = loop.side.plant.C[output]
        if np.count_nonzero(row) == 1:
            state = np.argmax(row != 0)
            goal[:, state] = wanted / row[state]
    return goal


def _timepts(loop: LoopData, timepts: ArrayLike | None) -> NDArray:
    plant = loop.side.plant
    noise = loop.noise
    if timepts is None:
        if noise is None:
            raise ValueError(
                "timepts: the loop has no noise and so no horizon; pass the time points"
            )
        return noise.timepts
    times = real_array(timepts, "timepts")
    if times.ndim != 1 or not times.size:
        raise ValueError(
            f"timepts: expected time points such as np.arange(50) * {plant.step:g}, "
            f"got an array of shape {times.shape}"
        )
    samples = len(times)
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
) -> NDArray:
    """A signal (T, size), or (trials, T, size) where trials differ.

    It is given as (*lead, T), as (*lead, trials, T) with ``trials``, or as lead if it
    may be constant. ``whose`` says in an error what its entries stand for.
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
) -> NDArray:
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
