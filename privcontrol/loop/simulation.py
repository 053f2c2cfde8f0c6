"""Monte-Carlo trials of a private loop, in blocks, from matrices that pickle."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from concurrent.futures import Executor
from contextlib import suppress
from dataclasses import dataclass

import control as ct
import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.stats import binom

from .._trials import run_trials
from ..core._linalg import Seed, product, real_array
from ..core.errors import PrivacyWarning
from ..designs.output_noise import OutputNoise
from ..response import PrivateResponse
from ._loop_data import LoopData
from .checks import secret_inputs
from .cloud import input_labels, output_labels, state_labels
from .controller import BlockLaw, Law, UserLaw, at_once
from .dynamics import Drives, LoopDynamics
from .side import LinearSide, NonlinearSide
from .signals import LoopSignals

#: Trials whose noise is computed together, always as many.
_NOISE_GROUP = 32
#: How far a trial among many may be from the same trial alone.
_SAME = 1e-9
#: Probability below which more trials have left the region than was stated.
_UNLIKELY = 0.01
#: Numbers of one sample of a block, so a step stays in the cache.
_CACHED = 2**13
#: States up to which one product for all samples beats stepping, for any noise's rank.
_SMALL = 32
#: Numbers of the states that are stepped at a time, about 2 MB.
_CHUNK = 250_000


def simulate(
    loop: LoopData,
    signals: LoopSignals,
    controller: UserLaw | None,
    saturation: ArrayLike | None,
    trials: int,
    rng: Seed,
    executor: Executor | None,
    progress: bool,
) -> PrivateResponse:
    """Trials of `PrivateLoop.simulate` as a `PrivateResponse`."""
    law = loop.law
    if controller is not None:
        law = _replaced(loop, controller)
    limits = None
    if saturation is not None:
        limits = _limits(saturation, loop)
    _warn_of_published_secrets(loop, signals)
    out = run_trials(
        _task(loop, law, signals, limits),
        trials,
        rng=rng,
        executor=executor,
        progress=progress,
        block=min(512, max(32, _CACHED // loop.dynamics.size)),
        data=signals.each,
    )
    left = out.get("left")
    if left is not None:
        _warn_of_left_region(left, loop)
    references = signals.shared["reference"][:, :, 0].T
    response = PrivateResponse(
        signals.timepts,
        states=out["states"].transpose(1, 0, 2),
        outputs=out["published"].transpose(1, 0, 2),
        inputs=_inputs(loop, signals, out["eta"]),
        state_labels=state_labels(loop),
        output_labels=output_labels(loop),
        input_labels=input_labels(loop),
        aliases=dict(zip(loop.side.plant.outputs, output_labels(loop))),
        plant_states=loop.side.order,
        reference=signals.target.T if loop.law.follows_states else None,
        guarantee=loop.guarantee,
        sysname=loop.name,
        time_label=loop.side.plant.time_label,
        output_references=dict(zip(loop.law.followed, references)),
    )
    response.left_region = left
    return response


def _task(
    loop: LoopData, law: Law, signals: LoopSignals, limits: NDArray | None
) -> SuperposedTrials | SteppedTrials:
    """Return what computes a block of trials."""
    noise = loop.private_noise
    is_linear = loop.truth is None and law is loop.law and not law.is_function
    is_shared = limits is None and not signals.each and not signals.roots
    has_few_entries = noise.total.once < max(loop.side.order, _SMALL + 1)
    if is_linear and is_shared and not noise.total.width and has_few_entries:
        return SuperposedTrials.of(loop, noise, signals)
    return SteppedTrials(LoopDynamics(loop.simulated, law), noise, signals, limits)


def _warn_of_left_region(left: NDArray, loop: LoopData) -> None:
    """`PrivacyWarning` where more trials left the region than the guarantee counts."""
    request = loop.private_noise.request
    count = int(left.sum())
    if binom.sf(count - 1, len(left), request.miss) < _UNLIKELY:
        warnings.warn(
            f"{count} of {len(left)} trials left the region "
            f"{request.region.region.text()}: the guarantee counts such runs "
            f"with a probability of {request.miss:g}. Choose a larger region, limit "
            "the inputs with saturation=, make the region invariant, or state a larger "
            "probability (leaving=); response.left_region tells the trials",
            PrivacyWarning,
            stacklevel=5,
        )


def _inputs(loop: LoopData, signals: LoopSignals, eta: NDArray) -> list:
    """The inputs of ``loop.system``, as references, exogenous signals and eta."""
    blocks = []
    if loop.law.references:
        blocks.append(signals.shared["reference"].transpose(1, 2, 0))
    if "exogenous" in signals.each:
        blocks.append(signals.each["exogenous"].transpose(2, 0, 1))
    elif loop.side.free:
        blocks.append(signals.shared["exogenous"].transpose(1, 2, 0))
    noise = loop.private_noise
    if not noise.total.width:
        return [*blocks, eta.T[:, :, None]]
    drawn = noise.inputs(eta).transpose(2, 0, 1)
    return [*blocks, drawn[:, :, : signals.samples]]


def _warn_of_published_secrets(loop: LoopData, signals: LoopSignals) -> None:
    """Warn where a secret signal is passed as the feedforward, which is published."""
    secret = secret_inputs(loop.side.plant, loop.noise)
    told = []
    for name, signal in zip(loop.side.driven_labels, signals.feedforward.T):
        if name in secret and signal.any():
            told.append(name)
    if told:
        warnings.warn(
            f"feedforward: the noise hides a disturbance at {', '.join(told)}, but "
            "what is passed as feedforward there is public and published as it is. A "
            "secret signal w at input k enters as disturbance=plant.B[:, [k]] * w, or "
            "by name as exogenous= where controls= leaves that input free",
            PrivacyWarning,
            stacklevel=5,
        )


def _replaced(loop: LoopData, controller: UserLaw) -> BlockLaw:
    """The law that asks a function in the place of -K (xhat - xd) + ud."""
    if not callable(controller):
        raise TypeError(
            "controller: expected a function controller(t, xhat, xd), got "
            f"{type(controller).__name__}; a gain K of your own goes to "
            "private_loop(sys, K, L, noise), a linear controller to "
            "private_loop(sys, controller=..., noise=noise)"
        )
    if loop.law.is_function:
        raise ValueError(
            "controller: this loop has a function of its own already, "
            "private_loop(controller=...); make another loop"
        )
    if loop.observer is None or loop.truth is not None:
        raise ValueError(
            "controller: only loops of K and L around a linear plant have estimates "
            "that a function could be given here; private_loop(controller=...) takes "
            "a function for any plant"
        )
    observer = loop.observer
    names = (observer.states, observer.references)
    return BlockLaw(*names, observer, controller, loop.side.plant.step)


def _limits(saturation: ArrayLike, loop: LoopData) -> NDArray:
    """Least and largest values (m, 2), from sizes () or (m,), or pairs (m, 2)."""
    through = loop.side.through
    if through.any() and loop.observer is None and at_once(loop.law, 0, through).any():
        raise ValueError(
            "saturation: this controller answers the feedthrough of its own input at "
            "once, and its saturated input is not defined; delay it by one sample"
        )
    inputs = len(loop.side.controls)
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

    ``maps`` holds, for the states and for what is published, the responses (signals, T,
    r + 1) to each entry of eta and of the initial state and, last, to what all trials
    have in common. The vehicle's trials take a quarter of the time of `SteppedTrials`.
    """

    noise: OutputNoise
    signals: LoopSignals
    maps: dict[str, NDArray]

    @classmethod
    def of(
        cls, loop: LoopData, noise: OutputNoise, signals: LoopSignals
    ) -> SuperposedTrials:
        """The maps of a loop and what drives it."""
        samples = signals.samples
        shared = loop.dynamics.run(signals.initial, signals.shared, samples)
        order, count = signals.start.shape
        rank = noise.responses.shape[2]
        responses = np.pad(noise.responses[:samples], ((0, 0), (0, 0), (0, count)))
        start = np.hstack([np.zeros((order, rank)), signals.start])
        moved = loop.dynamics.run(start, {"noise": responses}, samples)
        maps = {}
        for name, own, common in zip(("states", "published"), moved, shared):
            columns = np.concatenate([own, common], axis=2)
            maps[name] = columns[:samples].transpose(1, 0, 2).copy()
        maps["states"] = maps["states"][: len(state_labels(loop))]
        return cls(noise, signals, maps)

    def __call__(
        self, generator: np.random.Generator, block: int, keep: int
    ) -> dict[str, NDArray]:
        eta = self.noise.draw(generator, block)
        begun = _drawn_start(generator, self.signals, block)
        drawn = np.hstack([eta, begun, np.ones((block, 1))])
        out = {"eta": eta[:keep]}
        width = _CHUNK // block
        for name, onto in self.maps.items():
            signals, samples, count = onto.shape
            rows = onto.reshape(-1, count)
            answers = np.empty((keep, len(rows)))
            for start in range(0, len(rows), width):
                part = slice(start, start + width)
                answers[:, part] = product(drawn, rows[part].T)[:keep]
            out[name] = answers.reshape(keep, signals, samples)
        return out


@dataclass(frozen=True, eq=False)
class SteppedTrials:
    """Trials of a loop, step by step.

    A block around a linear plant is always stepped at its full width, so a trial has
    the same bits however many are kept. Only the kept ones are stored, and only a
    stretch of the horizon is held at full width at a time. A controller that is a
    function is called for one kept trial after the other. The functions of a nonlinear
    plant are given whole columns of trials, and one trial at a time where they do not
    take columns, or mix them.
    """

    dynamics: LoopDynamics
    noise: OutputNoise
    signals: LoopSignals
    limits: NDArray | None

    def __call__(
        self, generator: np.random.Generator, block: int, keep: int, **data: NDArray
    ) -> dict[str, NDArray | None]:
        samples = self.signals.samples
        dynamics = self.dynamics
        side = dynamics.side
        n = side.order
        p = dynamics.outputs
        eta = self.noise.draw(generator, keep)
        now = np.repeat(self.signals.initial, block, axis=1)
        now[:n] += self.signals.start @ _drawn_start(generator, self.signals, block).T
        count = p + len(side.controls)
        length = samples
        if isinstance(side, LinearSide) and not dynamics.law.is_function:
            length = max(1, _CHUNK // (block * (dynamics.size + count)))
        shown = n + len(dynamics.law.states)
        states = np.empty((samples, shown, keep))
        published = np.empty((samples, count, keep))
        out: dict[str, NDArray | None] = {"eta": eta, "left": None}
        for part, drives in self._drives(generator, eta, block, length, data):
            went, sent = self._run(now, drives, part, keep)
            states[part] = went[:-1, :shown, :keep]
            published[part] = sent[:, :, :keep]
            now = went[-1]
            if isinstance(side, NonlinearSide):
                region = side.check_noise(self.noise)
                free = drives.get("exogenous", np.zeros((samples, 0, 1)))
                given = (went[:-1, :n], sent[:, p:], free[:, :, : sent.shape[2]])
                out["left"] = side.left(region, *given)[:keep]
        return {**out, "states": states.T, "published": published.T}

    def _drives(
        self,
        generator: np.random.Generator,
        eta: NDArray,
        block: int,
        length: int,
        data: Drives,
    ) -> Iterator[tuple[slice, dict[str, NDArray]]]:
        """Yield stretches of the horizon, and what drives the trials of a block there.

        Drives are as `LoopDynamics.run` takes them. Disturbances are drawn in time
        order for the whole block. Of noise and given signals only the first trials are
        known, and the others repeat the last of them.
        """
        signals = self.signals
        sources = dict(zip(("gamma", "disturbance", "noise"), generator.spawn(3)))
        gamma = _noise_of(self.noise, eta, signals.samples)
        for start in range(0, signals.samples, length):
            part = slice(start, min(start + length, signals.samples))
            drives = {name: common[part] for name, common in signals.shared.items()}
            for name, factor in signals.roots.items():
                shape = (part.stop - start, factor.shape[1], block)
                drives[name] = product(factor, sources[name].standard_normal(shape))
            for name, given in data.items():
                drives[name] = _widened(given[:, part].transpose(1, 2, 0), block)
            drives["noise"] = drives.get("noise", 0.0) + _widened(gamma[part], block)
            yield part, drives

    def _run(
        self, now: NDArray, drives: dict[str, NDArray], part: slice, keep: int
    ) -> tuple[NDArray, NDArray]:
        """States and published signals of a block, or of the kept trials."""
        dynamics = self.dynamics
        samples = part.stop - part.start

        def moved(trials: slice) -> tuple[NDArray, NDArray]:
            own = {}
            for name, drive in drives.items():
                own[name] = drive if drive.shape[2] == 1 else drive[:, :, trials]
            given = (now[:, trials], own, samples, self.limits, part.start)
            return dynamics.run(*given)

        if not dynamics.law.is_function:
            if isinstance(dynamics.side, LinearSide):
                return moved(slice(None))
            with suppress(Exception):  # the functions take one trial at a time only
                with np.errstate(all="ignore"):
                    together = moved(slice(None))
                ends = [slice(k, k + 1) for k in {0, keep - 1}]
                if all(_agree(together, moved(one), one) for one in ends):
                    return together
        went, sent = zip(*(moved(slice(k, k + 1)) for k in range(keep)))
        return np.concatenate(went, axis=2), np.concatenate(sent, axis=2)


def _agree(
    together: tuple[NDArray, NDArray], alone: tuple[NDArray, NDArray], trial: slice
) -> bool:
    """Whether a trial among many comes out as it does alone."""
    for found, expected in zip(together, alone):
        size = _SAME * max(1.0, float(np.abs(expected).max(initial=0.0)))
        if not np.allclose(found[:, :, trial], expected, _SAME, size, equal_nan=True):
            return False
    return True


def _drawn_start(
    generator: np.random.Generator, signals: LoopSignals, block: int
) -> NDArray:
    """Standard entries (block, k) of the initial state, which disturb no other draw."""
    count = signals.start.shape[1]
    if not count:
        return np.empty((block, 0))
    return generator.spawn(1)[0].standard_normal((block, count))


def _noise_of(noise: OutputNoise, eta: NDArray, samples: int) -> NDArray:
    """The output noise (T, p, trials) of entries eta.

    Products are of one size, so the last bits do not depend on the number of trials.
    """
    if noise.total.width:
        return noise.signal(eta)[:, :samples].transpose(1, 2, 0)
    p = noise.outputs
    responses = noise.responses[:samples].reshape(samples * p, -1)
    padded = np.pad(eta, ((0, -len(eta) % _NOISE_GROUP), (0, 0)))
    gamma = np.empty((samples, p, len(padded)))
    for start in range(0, len(padded), _NOISE_GROUP):
        group = slice(start, start + _NOISE_GROUP)
        drawn = product(responses, padded[group].T)
        gamma[:, :, group] = drawn.reshape(samples, p, -1)
    return gamma[:, :, : len(eta)]


def _widened(given: NDArray, block: int) -> NDArray:
    """Signals (T, size, keep) of the first trials as those of a block."""
    missing = block - given.shape[2]
    return np.pad(given, ((0, 0), (0, 0), (0, missing)), mode="edge")
