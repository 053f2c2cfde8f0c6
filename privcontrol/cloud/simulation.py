"""Monte-Carlo trials of a private loop, in blocks, from matrices that pickle."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from concurrent.futures import Executor
from dataclasses import dataclass
from typing import TYPE_CHECKING

import control as ct
import numpy as np
from numpy.typing import ArrayLike, NDArray

from .._signals import Pulse
from .._trials import run_trials
from ..channel.output_noise import OutputNoise
from ..core._linalg import product, real_array
from ..core._random import Seed
from ..core.errors import PrivacyWarning
from ..response import PrivateResponse
from .checks import secret_inputs
from .controller import ObserverFeedback
from .dynamics import LoopDynamics
from .nonlinear import NonlinearTrials, warn_of_left_region
from .own_law import OwnLaw, OwnTrials
from .signals import LoopSignals, drawn_start, trial_drives

if TYPE_CHECKING:
    from .loop import PrivateLoop

#: A user's own control law, from the time, the estimates (n, trials) and the reference (n, 1) to the inputs.
UserLaw = Callable[[float, NDArray, NDArray], ArrayLike]

#: Numbers of one sample of a block, so that a step stays in the cache.
_CACHED = 2**13
#: States up to which one product for all samples beats stepping, whatever the noise's rank.
_SMALL = 32
#: Numbers of the states that are stepped at a time, about 2 MB.
_CHUNK = 250_000


def simulate(
    loop: PrivateLoop,
    signals: LoopSignals,
    controller: UserLaw | None,
    saturation: ArrayLike | None,
    trials: int,
    rng: Seed,
    executor: Executor | None,
    progress: bool,
) -> PrivateResponse:
    """Trials of `PrivateLoop.simulate` as a `PrivateResponse`."""
    task = _task(loop, signals, controller, saturation)
    _warn_of_published_secrets(loop, signals)
    order = loop.dynamics.size
    out = run_trials(
        task,
        trials,
        rng=rng,
        executor=executor,
        progress=progress,
        block=min(512, max(32, _CACHED // order)),
        data=signals.each,
    )
    left = out.get("left")
    if left is not None:
        warn_of_left_region(left, loop)
    response = PrivateResponse(
        signals.timepts,
        states=out["states"].transpose(1, 0, 2),
        outputs=out["published"].transpose(1, 0, 2),
        inputs=_inputs(loop, signals, out["eta"]),
        state_labels=loop.state_labels,
        output_labels=loop.output_labels,
        input_labels=loop.input_labels,
        aliases=dict(zip(loop.plant.outputs, loop.output_labels)),
        plant_states=loop.plant.order,
        reference=signals.target.T if loop.follows_states else None,
        guarantee=loop.guarantee,
        sysname=loop.name,
        time_label=loop.plant.time_label,
        output_references=_followed(loop, signals),
    )
    response.left_region = left
    return response


def _followed(loop: PrivateLoop, signals: LoopSignals) -> dict[int, NDArray]:
    """The references (T,) of the outputs that follow one."""
    references = signals.shared["reference"][:, :, 0].T
    return dict(zip(loop.followed_outputs, references))


def _task(
    loop: PrivateLoop,
    signals: LoopSignals,
    controller: UserLaw | None,
    saturation: ArrayLike | None,
) -> SuperposedTrials | SteppedTrials | NonlinearTrials | OwnTrials:
    """What computes a block of trials, by the kind of the plant and of the drives."""
    limits = None
    if saturation is not None:
        limits = _limits(saturation, len(loop.controls))
    if isinstance(loop.law, OwnLaw):
        if controller is not None:
            raise ValueError(
                "controller: this loop has a function of its own already, "
                "private_loop(controller=...); make another loop"
            )
        return OwnTrials(loop, loop.law, limits, signals)
    if loop.truth is not None:
        if controller is not None:
            raise ValueError(
                "controller: a loop around a nonlinear plant has a linear controller; "
                "make the loop with K and L, or with controller=..."
            )
        return NonlinearTrials(loop, loop.truth, limits, signals)
    actuation = _actuation(loop, signals, controller, limits)
    noise = loop.private_noise
    is_linear = actuation is None and not signals.each and not signals.roots
    has_few_entries = noise.channels < max(loop.plant.order, _SMALL + 1)
    if is_linear and noise.drawn_once and has_few_entries:
        return SuperposedTrials.of(loop, noise, signals)
    return SteppedTrials(loop.dynamics, noise, signals, actuation)


def _inputs(loop: PrivateLoop, signals: LoopSignals, eta: NDArray) -> list:
    """The inputs of ``loop.system``, as references, exogenous signals and eta."""
    blocks = []
    if loop.law.references:
        blocks.append(signals.shared["reference"].transpose(1, 2, 0))
    if "exogenous" in signals.each:
        blocks.append(signals.each["exogenous"].transpose(2, 0, 1))
    elif loop.exogenous:
        blocks.append(signals.shared["exogenous"].transpose(1, 2, 0))
    noise = loop.private_noise
    if noise.drawn_once:
        return [*blocks, Pulse(eta.T)]
    drawn = noise.inputs(eta).transpose(2, 0, 1)
    return [*blocks, drawn[:, :, : signals.samples]]


def _warn_of_published_secrets(loop: PrivateLoop, signals: LoopSignals) -> None:
    """Warn where a secret signal is passed as the feedforward, which is published."""
    secret = secret_inputs(loop.plant, loop.noise)
    driven = [loop.plant.inputs[k] for k in loop.controls]
    given = [driven[k] for k in np.flatnonzero(signals.feedforward.any(axis=0))]
    told = [name for name in given if name in secret]
    if told:
        warnings.warn(
            f"feedforward: the noise hides a disturbance at {', '.join(told)}, but "
            "what is passed as feedforward there is public and published as it is. A "
            "secret signal w at input k enters as disturbance=plant.B[:, [k]] * w, or "
            "by name as exogenous= where controls= leaves that input free",
            PrivacyWarning,
            stacklevel=5,
        )


@dataclass(frozen=True, eq=False)
class Actuation:
    """The inputs (m, q) that act in place of those that a linear controller asks for.

    A user's own ``law`` gets the estimates of the ``observer``; ``limits`` (m, 2) bound each input.
    """

    law: UserLaw | None
    limits: NDArray | None
    observer: ObserverFeedback | None
    timepts: NDArray
    target: NDArray

    def __call__(
        self, t: int, memory: NDArray, sensed: NDArray, asked: NDArray
    ) -> NDArray:
        """The inputs (m, q) at sample t, see `Actuator`."""
        if self.law is not None and self.observer is not None:
            estimate = self.observer.estimate(t, memory, sensed)
            asked = self._of_law(self.law, t, estimate, asked)
        if self.limits is None:
            return asked
        low, high = np.hsplit(self.limits, 2)
        return np.clip(asked, low, high)

    def _of_law(
        self, law: UserLaw, t: int, estimate: NDArray, asked: NDArray
    ) -> NDArray:
        """What the user's own law answers to the estimates."""
        answer = law(self.timepts[t], estimate, self.target[t][:, None])
        inputs = np.asarray(answer, float)
        m, block = asked.shape
        if inputs.shape in ((m,), (m, 1)):
            return np.broadcast_to(inputs.reshape(m, 1), asked.shape)
        if inputs.shape != asked.shape:
            raise ValueError(
                f"controller: expected an array of shape ({m}, {block}) (inputs, "
                f"trials), or ({m},) for all trials alike, got {inputs.shape}; it is "
                f"called for blocks of {block} trials at once, with xhat of shape "
                f"{estimate.shape}, however many trials are asked for"
            )
        return inputs


def _actuation(
    loop: PrivateLoop,
    signals: LoopSignals,
    controller: UserLaw | None,
    limits: NDArray | None,
) -> Actuation | None:
    """What changes the controller's inputs, or None where they act as they are."""
    if controller is None and limits is None:
        return None
    if controller is not None and not callable(controller):
        raise TypeError(
            "controller: expected a function controller(t, xhat, xd), got "
            f"{type(controller).__name__}; a gain K of your own goes to "
            "private_loop(sys, K, L, noise), a linear controller to "
            "private_loop(sys, controller=..., noise=noise)"
        )
    observer = loop.observer
    if controller is not None and observer is None:
        raise ValueError(
            "controller: this loop has a controller of its own, without an observer "
            "whose estimates a function could be given; make the loop with K and L"
        )
    through = loop.plant.D[:, loop.controls]
    if observer is None and _answers_at_once(loop, through):
        raise ValueError(
            "saturation: this controller answers the feedthrough of its own input at "
            "once, and its saturated input is not defined; delay it by one sample"
        )
    return Actuation(controller, limits, observer, signals.timepts, signals.target)


def _answers_at_once(loop: PrivateLoop, through: NDArray) -> bool:
    """Whether the controller answers the feedthrough of its own input at once."""
    law = loop.law
    count = through.shape[1]
    still = np.zeros((law.order, count))
    quiet = np.zeros((len(law.references), count))
    return bool(law.decide(0, still, through, quiet).any())


def _limits(saturation: ArrayLike, inputs: int) -> NDArray:
    """Least and largest value (m, 2) of each input, from sizes () or (m,), or from pairs (m, 2)."""
    given = real_array(saturation, "saturation")
    if given.shape in ((), (inputs,)):
        size = np.broadcast_to(given, inputs)
        limits = np.column_stack([-size, size])
    elif given.shape == (inputs, 2):
        limits = given
    else:
        raise ct.ControlDimension(
            f"saturation: expected a number, shape ({inputs},), or ({inputs}, 2) for "
            f"least and largest values, got {given.shape}"
        )
    if (limits[:, 0] >= limits[:, 1]).any():
        raise ValueError(
            "saturation: expected positive sizes, or least values below largest ones"
        )
    return limits


@dataclass(frozen=True, eq=False)
class SuperposedTrials:
    """All trials of a linear loop whose noise is drawn once, as one product.

    ``maps`` holds, for the states and for what is published, the responses (signals, T, r + 1)
    to each entry of eta and of the initial state and, last, to what all trials have in common. The vehicle's trials
    take a quarter of the time of `SteppedTrials`.
    """

    noise: OutputNoise
    start: NDArray
    maps: dict[str, NDArray]

    @classmethod
    def of(
        cls, loop: PrivateLoop, noise: OutputNoise, signals: LoopSignals
    ) -> SuperposedTrials:
        """The maps of a loop and what drives it."""
        samples = signals.samples
        shared = loop.dynamics.run(signals.initial, signals.shared, samples)
        order, count = signals.start.shape
        rank = noise.responses.shape[2]
        responses = np.pad(noise.responses[:samples], ((0, 0), (0, 0), (0, count)))
        start = np.zeros((loop.dynamics.size, rank + count))
        start[:order, rank:] = signals.start
        moved = loop.dynamics.run(start, {"noise": responses}, samples)
        maps = {}
        for name, own, common in zip(("states", "published"), moved, shared):
            columns = np.concatenate([own, common], axis=2)
            maps[name] = columns[:samples].transpose(1, 0, 2).copy()
        maps["states"] = maps["states"][: len(loop.state_labels)]
        return cls(noise, signals.start, maps)

    def __call__(
        self, generator: np.random.Generator, block: int, keep: int
    ) -> dict[str, NDArray]:
        eta = self.noise.draw(generator, block)
        begun = drawn_start(generator, self.start, block)
        drawn = np.hstack([eta, begun, np.ones((block, 1))])
        out = {"eta": eta[:keep]}
        width = _CHUNK // block
        for name, onto in self.maps.items():
            signals, samples, count = onto.shape
            rows = onto.reshape(-1, count)
            answers = np.empty((keep, len(rows)))
            for start in range(0, len(rows), width):
                part = slice(start, start + width)
                answered = product(drawn, rows[part].T)
                answers[:, part] = answered[:keep]
            out[name] = answers.reshape(keep, signals, samples)
        return out


@dataclass(frozen=True, eq=False)
class SteppedTrials:
    """Trials of a loop around a linear plant, step by step.

    A block is always stepped at its full width, so that a trial has the same bits however many are kept. Only the
    kept ones are stored, and only a stretch of the horizon is held at full width at a time.
    """

    dynamics: LoopDynamics
    noise: OutputNoise
    signals: LoopSignals
    actuation: Actuation | None

    def __call__(
        self, generator: np.random.Generator, block: int, keep: int, **data: NDArray
    ) -> dict[str, NDArray]:
        samples = self.signals.samples
        plant = self.dynamics.plant
        order = self.dynamics.size
        count = len(plant.C) + len(self.dynamics.controls)
        eta = self.noise.draw(generator, keep)
        shown = plant.order + len(self.dynamics.law.states)
        states = np.empty((samples, shown, keep))
        published = np.empty((samples, count, keep))
        now = np.repeat(self.signals.initial, block, axis=1)
        begun = drawn_start(generator, self.signals.start, block)
        now[: plant.order] += self.signals.start @ begun.T
        numbers = block * (order + count)
        length = max(1, _CHUNK // numbers)
        stretches = trial_drives(
            self.noise, self.signals, generator, eta, block, length, data
        )
        for part, drives in stretches:
            first = part.start
            went, sent = self.dynamics.run(
                now, drives, part.stop - first, self.actuation, first
            )
            states[part] = went[:-1, :shown, :keep]
            published[part] = sent[:, :, :keep]
            now = went[-1]
        return {"states": states.T, "published": published.T, "eta": eta}
