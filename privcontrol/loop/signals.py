"""What drives a loop in a simulation or moment computation, in one layout.

Inside, every signal is (time, signal, run), as `LoopDynamics.run` takes it. Runs are 1
where all trials share a signal.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import control as ct
import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..core._linalg import real_array
from ._loop_data import LoopData
from .checks import matrix, root
from .regulator import LqgDesign

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
        feedforward: ArrayLike | None = None,
        initial_state: ArrayLike | str | None = None,
        initial_estimate: ArrayLike | None = None,
        disturbance: ArrayLike | str | None = None,
        measurement_noise: ArrayLike | str | None = None,
        exogenous: Mapping[str, ArrayLike] | None = None,
    ) -> LoopSignals:
        """Check the keywords of `PrivateLoop.simulate`.

        None of them may differ by trial without ``trials``.
        """
        n = loop.plant.order
        p = len(loop.plant.C)
        times = _timepts(loop, timepts)
        samples = len(times)
        followed, fed = _references(loop, reference, feedforward, samples)
        public = followed
        goal = np.tile(loop.rest, (samples, 1))
        if loop.follows_states:
            public = np.hstack([followed, fed])
            goal = followed + loop.rest
        elif followed.any():
            goal = _followed_states(loop, followed)
        if target is not None:
            goal = _signal(target, "target", n, samples)
        initial = loop.start
        start = np.zeros((n, 0))
        if isinstance(initial_state, str):
            start = _drawn_start(initial_state, loop.design)
        elif initial_state is not None:
            initial[:n] = vector(initial_state, "initial_state", n)
        if initial_estimate is not None:
            if not loop.law.estimates:
                raise ValueError(
                    "initial_estimate: this loop has a controller of its own, without "
                    "an observer; its states are zero at the start"
                )
            initial[n : 2 * n] = vector(initial_estimate, "initial_estimate", n)
        signals = cls(
            timepts=times,
            initial=initial[:, None],
            shared={"reference": public[:, :, None]},
            each={},
            roots={},
            target=goal,
            feedforward=fed,
            start=start,
        )
        disturbances = (
            ("disturbance", "disturbance", disturbance, "QN", n),
            ("noise", "measurement_noise", measurement_noise, "RN", p),
        )
        for drive, name, value, source, size in disturbances:
            if isinstance(value, str):
                _check_design(value, name)
                if drive not in loop.weights.drive_roots:
                    raise ValueError(
                        f'{name}="design" draws from {source}, which the loop was not '
                        f"given; pass {source} to it"
                    )
                signals.roots[drive] = loop.weights.drive_roots[drive]
            elif value is not None:
                given = _disturbance(value, name, size, samples, trials)
                signals._add(drive, given)
        if loop.exogenous or exogenous:
            given = _exogenous(loop, exogenous, samples, trials)
            signals._add("exogenous", given)
        return signals

    def _add(self, name: str, array: NDArray) -> None:
        """File a drive that all trials share, (T, size), or (trials, T, size)."""
        if array.ndim == 2:
            self.shared[name] = array[:, :, None]
        else:
            self.each[name] = array

    @property
    def samples(self) -> int:
        """Number of samples T."""
        return len(self.timepts)


def over_run(
    loop: LoopT,
    timepts: ArrayLike | None = None,
    reference: ArrayLike | None = None,
    **signals: Any,
) -> tuple[LoopT, LoopSignals]:
    """Return the loop for the samples of a run, with what drives it.

    Further keywords are those of `LoopSignals.of`.
    """
    law = loop.law.for_reference(reference)
    if law is not loop.law:
        loop = replace(loop, law=law)
    run = LoopSignals.of(loop, timepts, reference, **signals)
    noise = loop.noise
    if noise is not None and noise.horizon == math.inf:
        return replace(loop, noise=noise.over(run.samples)), run
    if noise is None and loop.knows_noise:
        return replace(loop, law=loop.law_for(None, run.samples)), run
    return loop, run


def _references(
    loop: LoopData,
    reference: ArrayLike | None,
    feedforward: ArrayLike | None,
    samples: int,
) -> tuple[NDArray, NDArray]:
    """The reference (T, n) or (T, r) and the feedforward (T, m), zero by default."""
    size = len(loop.law.references)
    if loop.follows_states:
        size = loop.plant.order
    elif feedforward is not None:
        raise ValueError(
            "feedforward: only loops of an observer and a state feedback take one; "
            "give this loop's controller a reference for it"
        )
    if not size and reference is not None:
        raise ValueError("reference: the controller of this loop takes none")
    labels = loop.plant.states if loop.follows_states else loop.law.references
    whose = f"one for each of {', '.join(labels)}"
    followed = _signal(reference, "reference", size, samples, whose)
    return followed, _signal(feedforward, "feedforward", len(loop.controls), samples)


def _followed_states(loop: LoopData, reference: NDArray) -> NDArray:
    """What the states (T, n) are to be where outputs follow a reference (T, r).

    A state follows if an output with a reference of its own reads it alone. What the
    others are to be is not known, which is nan.
    """
    goal = np.full((len(reference), loop.plant.order), np.nan)
    for output, wanted in zip(loop.followed_outputs, reference.T):
        row = loop.plant.C[output]
        if np.count_nonzero(row) == 1:
            state = np.argmax(row != 0)
            goal[:, state] = wanted / row[state]
    return goal


def _timepts(loop: LoopData, timepts: ArrayLike | None) -> NDArray:
    plant = loop.plant
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
    if noise is not None and len(times) > noise.horizon:
        raise ValueError(
            f"timepts: expected at most the {noise.horizon} samples of the noise's "
            f"horizon, got {len(times)}: later samples would be published without a "
            "guarantee; design the noise for a longer horizon"
        )
    return times


def _signal(
    value: ArrayLike | None, name: str, size: int, samples: int, whose: str = ""
) -> NDArray:
    """A signal (T, size) from (size,) or (size, T), zero for None.

    ``whose`` says in an error what its entries stand for.
    """
    if value is None:
        return np.zeros((samples, size))
    array = real_array(value, name)
    if array.shape == (size,):
        return np.broadcast_to(array, (samples, size))
    if array.shape == (size, samples):
        return array.T
    entries = f", {whose}" if whose else ""
    raise ct.ControlDimension(
        f"{name}: expected shape ({size},) or ({size}, {samples}){entries}, got "
        f"{array.shape}"
    )


def vector(value: ArrayLike | None, name: str, size: int) -> NDArray:
    """A vector (size,), zero for None."""
    if value is None:
        return np.zeros(size)
    return matrix(value, name, (size,))


def _drawn_start(value: str, prior: LqgDesign | None) -> NDArray:
    """Root (n, n) of the prior's covariance, for "design"."""
    _check_design(value, "initial_state")
    if prior is None or prior.P0 is None:
        raise ValueError(
            'initial_state="design" draws from the prior P0, which the loop was not '
            "given; pass P0 to private_lqg"
        )
    return root(prior.P0)


def _check_design(value: str, name: str) -> None:
    """Refuse a text other than "design"."""
    if value != "design":
        raise ValueError(
            f'{name}: expected an array, None or "design", got another text'
        )


def _disturbance(
    value: ArrayLike, name: str, size: int, samples: int, trials: int | None
) -> NDArray:
    """A given signal as (T, size), or (trials, T, size) where trials differ."""
    array = real_array(value, name)
    if array.shape == (size, samples):
        return array.T
    shapes = f"({size}, {samples})"
    if trials is not None:
        if array.shape == (size, trials, samples):
            return array.transpose(1, 2, 0)
        shapes += f" or ({size}, {trials}, {samples})"
    raise ct.ControlDimension(f"{name}: expected shape {shapes}, got {array.shape}")


def _exogenous(
    loop: LoopData,
    given: Mapping[str, ArrayLike] | None,
    samples: int,
    trials: int | None,
) -> NDArray:
    """The inputs that the controller does not drive, as (T, q) or (trials, T, q)."""
    names = [loop.plant.inputs[k] for k in loop.exogenous]
    if not isinstance(given, Mapping | None):
        raise TypeError(
            "exogenous: expected a mapping of input names to signals, got "
            f"{type(given).__name__}"
        )
    arrays = {}
    for name, value in (given or {}).items():
        if name not in names:
            raise ValueError(
                f"exogenous: {name!r} is no input that the controller leaves free; "
                f"these are {', '.join(names)}; controls=[...] names those that it drives"
            )
        arrays[name] = real_array(value, f"exogenous {name!r}")
    signals = np.zeros((samples, len(names)))
    if trials is not None and any(array.ndim == 2 for array in arrays.values()):
        signals = np.zeros((trials, samples, len(names)))
    for name, array in arrays.items():
        if array.shape not in ((samples,), signals.shape[:-1]):
            raise ct.ControlDimension(
                f"exogenous {name!r}: expected shape ({samples},) for all trials, or "
                f"(trials, {samples}) in a simulation, got {array.shape}"
            )
        signals[..., names.index(name)] = array
    return signals
