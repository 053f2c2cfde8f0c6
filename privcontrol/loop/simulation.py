"""Runs of a loop: Monte-Carlo trials, and the loop as a system of python-control.

Trials are computed in blocks, from matrices that pickle. Systems of python-control are
those of loops and of their controllers. Where gains vary they are a ``ct.nlsys`` that
knows the time, else a ``ct.StateSpace``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import Executor
from contextlib import suppress
from dataclasses import dataclass, fields
from functools import lru_cache, partial
from typing import Any, TypeAlias

import control as ct
import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.stats import binom

from ..designs.output_noise import OutputNoise
from ..noise.iosystem import noise_system, numbered, varying_iosystem
from ..noise.process import NoiseProcess
from ..numerics.checks import Seed, real_array
from ..numerics.errors import warn_user
from ..numerics.linalg import ONE_THREAD, product
from ..numerics.thresholds import BLOCK, CACHED, ROUNDED
from ..response import PrivateResponse, run_trials
from ..systems.linear import LinearSystem, beside
from .controller import (
    BlockLaw,
    Law,
    UserLaw,
    answered,
    at_once,
    indexed,
)
from .data import LoopData, LoopSignals
from .dynamics import Drives, LoopDynamics
from .side import LinearSide, NonlinearSide, hidden_inputs
from .stepping import LinearRun, Source, has_form

#: Speed: trials whose noise is computed together, always as many.
_NOISE_GROUP = 32
#: Probability below which more trials have left the region than was stated.
_UNLIKELY = 0.01
#: Speed: states up to which one product for all samples beats stepping, for any noise's
#: rank.
_SMALL = 32


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
    task = _task(loop, law, signals, limits)
    out = run_trials(
        task,
        trials,
        rng=rng,
        executor=executor,
        progress=progress,
        block=_trials_at_once(task.held * loop.dynamics.size),
        data=signals.each,
    )
    left = out.get("left")
    if left is not None:
        _warn_of_left_region(left, loop)
    references = signals.shared["reference"][:, :, 0].T
    published = indexed("yhat", len(loop.side.outputs))
    response = PrivateResponse(
        signals.timepts,
        states=out["states"].transpose(1, 0, 2),
        outputs=out["published"].transpose(1, 0, 2),
        inputs=_inputs(loop, signals, out["eta"]),
        state_labels=state_labels(loop),
        output_labels=output_labels(loop),
        input_labels=input_labels(loop),
        aliases=dict(zip(loop.side.plant.outputs, published, strict=True)),
        plant_states=loop.side.order,
        reference=signals.target.T if loop.law.follows_states else None,
        guarantee=loop.private_noise.guarantee,
        sysname=loop.name,
        time_label=loop.side.plant.time_label,
        # no output follows where the references are of states, or that is not known
        output_references=dict(zip(loop.law.followed, references, strict=False)),
    )
    response.left_region = left
    return response


def _task(
    loop: LoopData, law: Law, signals: LoopSignals, limits: NDArray[np.float64] | None
) -> SuperposedTrials | StreamedTrials | SteppedTrials:
    """Return a function that computes a block of trials."""
    noise = loop.private_noise
    is_linear = loop.truth is None and law is loop.law and not law.is_function
    is_shared = limits is None and not signals.each and not signals.roots
    has_few_entries = noise.process.total.once <= max(loop.side.order, _SMALL)
    if is_linear and is_shared and not noise.process.total.width and has_few_entries:
        return SuperposedTrials.of(loop, noise, signals)
    side = loop.simulated
    if limits is None and has_form(side, law):
        return StreamedTrials.of(side, law, noise, signals)
    return SteppedTrials(LoopDynamics(side, law), noise, signals, limits)


def _warn_of_left_region(left: NDArray[np.bool_], loop: LoopData) -> None:
    """`PrivacyWarning` where more trials left the region than the guarantee counts."""
    request = loop.private_noise.request
    count = int(left.sum())
    if binom.sf(count - 1, len(left), request.miss) < _UNLIKELY:
        warn_user(
            f"{count} of {len(left)} trials left the region "
            f"{request.region.region.text()}: the guarantee counts such runs "
            f"with a probability of {request.miss:g}. Choose a larger region, limit "
            "the inputs with saturation=, make the region invariant, or state a larger "
            "probability (leaving=); response.left_region names the trials"
        )


def _inputs(
    loop: LoopData, signals: LoopSignals, eta: NDArray[np.float64]
) -> list[NDArray[np.float64]]:
    """The inputs of ``loop.system``, as references, exogenous signals and eta."""
    blocks = []
    if loop.law.references:
        blocks.append(signals.shared["reference"].transpose(1, 2, 0))
    if "exogenous" in signals.each:
        blocks.append(signals.each["exogenous"].transpose(2, 0, 1))
    elif loop.side.free:
        blocks.append(signals.shared["exogenous"].transpose(1, 2, 0))
    noise = loop.private_noise
    if not noise.process.total.width:
        return [*blocks, eta.T[:, :, None]]
    drawn = noise.process.inputs(eta).transpose(2, 0, 1)
    return [*blocks, drawn[:, :, : signals.samples]]


def _warn_of_published_secrets(loop: LoopData, signals: LoopSignals) -> None:
    """Warn where a secret signal is passed as the feedforward, which is published."""
    secret = hidden_inputs(loop.side.plant, loop.noise)
    told = []
    for name, signal in zip(
        loop.side.driven_labels, signals.feedforward.T, strict=True
    ):
        if name in secret and signal.any():
            told.append(name)
    if told:
        warn_user(
            f"feedforward: the noise hides a disturbance at {', '.join(told)}, but "
            "a feedforward there is public and published as it is. A secret signal w at input k enters as disturbance=plant.B[:, [k]] * w, or "
            "by name as exogenous= where controls= leaves that input free"
        )


def _replaced(loop: LoopData, controller: UserLaw) -> BlockLaw:
    """The law that asks a function in the place of -K (xhat - xd) + ud."""
    if not callable(controller) or isinstance(controller, (ct.InputOutputSystem, type)):
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
    known = {
        one.name: getattr(loop.observer, one.name) for one in fields(loop.observer)
    }
    return BlockLaw(**known, function=controller, step=loop.side.plant.step)


def _limits(saturation: ArrayLike, loop: LoopData) -> NDArray[np.float64]:
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
    maps: dict[str, NDArray[np.float64]]

    #: Samples whose states a cache should hold: products make many at once.
    held = 2

    @classmethod
    def of(
        cls, loop: LoopData, noise: OutputNoise, signals: LoopSignals
    ) -> SuperposedTrials:
        """The maps of a loop and what drives it."""
        samples = signals.samples
        count = signals.start.shape[1]
        rank = noise.process.responses.shape[2]
        only = np.eye(rank + count + 1)[-1:]  # the column that all have in common
        drives = {name: common * only for name, common in signals.shared.items()}
        responses = np.pad(
            noise.process.responses[:samples], ((0, 0), (0, 0), (0, count + 1))
        )
        drives["noise"] = drives.get("noise", 0.0) + responses
        start = signals.initial * only
        start[: len(signals.start), rank:-1] = signals.start
        states, published = loop.dynamics.run(start, drives, samples)
        shown = states[:samples, : len(state_labels(loop))]
        maps = {"states": shown, "published": published}
        for name, columns in maps.items():
            maps[name] = columns.transpose(1, 0, 2).copy()
        return cls(noise, signals, maps)

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Shapes of the arrays of one trial, by name."""
        return {name: onto.shape[:2] for name, onto in self.maps.items()}

    def __call__(
        self,
        generator: np.random.Generator,
        block: int,
        keep: int,
        out: dict[str, NDArray[np.float64]] | None = None,
    ) -> dict[str, NDArray[np.float64]]:
        eta = self.noise.process.draw(generator, block)
        begun = _drawn_start(generator, self.signals, block)
        drawn = np.hstack([eta, begun, np.ones((block, 1))])
        given = out or {}
        found = {"eta": eta[:keep]}
        # parts that `product` multiplies at once, and stay in the cache
        width = max(1, ONE_THREAD // drawn.size)
        for name, onto in self.maps.items():
            signals, samples, count = onto.shape
            rows = onto.reshape(-1, count)
            place = given.get(name)
            if place is None:
                place = np.empty((keep, signals, samples))
            answers = place.reshape(keep, -1)
            for start in range(0, len(rows), width):
                part = slice(start, start + width)
                if keep == block:
                    product(drawn, rows[part].T, out=answers[:, part])
                else:
                    answers[:, part] = product(drawn, rows[part].T)[:keep]
            found[name] = place
        return found


@dataclass(frozen=True, eq=False)
class StreamedTrials:
    """Trials of a loop of matrices, whose signals are drawn and used sample by sample.

    A block is stepped at its full width, so a trial has the same bits however many are
    kept. Only the kept ones are stored.
    """

    run: LinearRun
    noise: OutputNoise
    signals: LoopSignals

    #: Samples whose states a cache should hold.
    held = 1
    #: Whether the memory of the answers has samples first and trials last.
    time_first = True

    @classmethod
    def of(
        cls, side: LinearSide, law: Law, noise: OutputNoise, signals: LoopSignals
    ) -> StreamedTrials:
        """The trials of a plant and a controller that `has_form`."""
        entering = {**signals.each, **signals.roots, "noise": None}
        given = (tuple(entering), signals.shared, signals.samples)
        return cls(LinearRun(side, law, *given), noise, signals)

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Shapes of the arrays of one trial, by name."""
        samples = self.signals.samples
        side = self.run.side
        shown = side.order + len(self.run.law.states)
        count = len(side.outputs) + len(side.inputs)
        return {"states": (shown, samples), "published": (count, samples)}

    def __call__(
        self,
        generator: np.random.Generator,
        block: int,
        keep: int,
        out: dict[str, NDArray[np.float64]] | None = None,
        **data: NDArray[np.float64],
    ) -> dict[str, NDArray[np.float64]]:
        signals = self.signals
        eta = self.noise.process.draw(generator, keep)
        start = np.repeat(signals.initial, block, axis=1)
        begun = signals.start @ _drawn_start(generator, signals, block).T
        start[: len(begun)] += begun
        found = dict(out or {})
        for name, shape in self.shapes.items():
            if name not in found:
                found[name] = np.empty((*shape[::-1], keep)).T
        states, published = found["states"].T, found["published"].T
        shown = states.shape[1]
        taken = self.run.steps(start, self._told(generator, eta, block, data))
        for t, (state, told) in zip(range(signals.samples), taken, strict=False):
            states[t] = state[:shown, :keep]
            published[t] = told[:, :keep]
        return {**found, "eta": eta}

    def _told(
        self,
        generator: np.random.Generator,
        eta: NDArray[np.float64],
        block: int,
        data: dict[str, NDArray[np.float64]],
    ) -> dict[str, Source]:
        """Return what tells the drives of a block that differ between trials.

        Disturbances are drawn in time order for the whole block. Of noise and given
        signals only those of the kept trials are known.
        """
        known = {name: given.transpose(1, 2, 0) for name, given in data.items()}
        private = _noise_of(self.noise.process, eta, self.signals.samples)
        known["noise"] = known["noise"] + private if "noise" in known else private
        found: dict[str, Source] = {}
        for name, given in known.items():
            found[name] = given.__getitem__
        sources = _sources(generator)
        for name, factor in self.signals.roots.items():
            args = (sources[name], factor, known.get(name))
            found[name] = _drawing(*args, self.signals.samples, block)
        return found


def _trials_at_once(size: int) -> int:
    """Return how many trials fit in a cache with their states, whole lines of it."""
    return min(512, max(32, CACHED // size // 8 * 8))


def _sources(generator: np.random.Generator) -> dict[str, np.random.Generator]:
    """Return a generator for each kind of signals that is drawn."""
    names = ("gamma", "disturbance", "noise")
    return dict(zip(names, generator.spawn(3), strict=True))


def _drawing(
    source: np.random.Generator,
    factor: NDArray[np.float64],
    given: NDArray[np.float64] | None,
    samples: int,
    block: int,
) -> Source:
    """Return what draws signals of a root, and adds given ones of the first trials.

    A few samples are drawn at a time.
    """
    size, count = factor.shape[-2:]
    length = min(samples, 1 + CACHED // (1 + count * block))
    drawn = np.empty((length, count, block))
    scale = None
    mixed = drawn
    if factor.ndim == 2 and _is_diagonal(factor):
        scale = np.diag(factor)[:, None]
        if (scale == scale[0]).all():
            scale = scale[0]
    else:
        mixed = np.empty((length, size, block))

    def tell(t: int) -> NDArray[np.float64]:
        place = t % length
        if place:
            return mixed[place]
        part = slice(t, min(t + length, samples))
        fresh = drawn[: part.stop - t]
        answers = mixed[: len(fresh)]
        source.standard_normal(out=fresh)
        if scale is not None:
            np.multiply(fresh, scale, out=answers)
        else:
            factors = factor[part] if factor.ndim == 3 else factor
            product(factors, fresh, out=answers)
        if given is not None:
            answers[:, :, : given.shape[2]] += given[part]
        return answers[0]

    return tell


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
    limits: NDArray[np.float64] | None

    #: Samples whose states a cache should hold.
    held = 1

    def __call__(
        self,
        generator: np.random.Generator,
        block: int,
        keep: int,
        **data: NDArray[np.float64],
    ) -> dict[str, NDArray[Any] | None]:
        samples = self.signals.samples
        dynamics = self.dynamics
        side = dynamics.side
        n = side.order
        p = dynamics.outputs
        eta = self.noise.process.draw(generator, keep)
        now = np.repeat(self.signals.initial, block, axis=1)
        now[:n] += self.signals.start @ _drawn_start(generator, self.signals, block).T
        count = p + len(side.controls)
        length = samples
        if isinstance(side, LinearSide) and not dynamics.law.is_function:
            length = max(1, BLOCK // (block * (dynamics.size + count)))
        shown = n + len(dynamics.law.states)
        states = np.empty((samples, shown, keep))
        published = np.empty((samples, count, keep))
        out: dict[str, NDArray[Any] | None] = {"eta": eta, "left": None}
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
        eta: NDArray[np.float64],
        block: int,
        length: int,
        data: Drives,
    ) -> Iterator[tuple[slice, dict[str, NDArray[np.float64]]]]:
        """Yield stretches of the horizon, and what drives the trials of a block there.

        Drives are as `LoopDynamics.run` takes them. Disturbances are drawn in time
        order for the whole block. Of noise and given signals only the first trials are
        known, and the others repeat the last of them.
        """
        signals = self.signals
        sources = _sources(generator)
        gamma = _noise_of(self.noise.process, eta, signals.samples)
        for start in range(0, signals.samples, length):
            part = slice(start, min(start + length, signals.samples))
            drives = {name: common[part] for name, common in signals.shared.items()}
            for name, factor in signals.roots.items():
                shape = (part.stop - start, factor.shape[-1], block)
                drawn = sources[name].standard_normal(shape)
                if factor.ndim == 3:
                    drives[name] = factor[part] @ drawn
                elif _is_diagonal(factor):
                    drawn *= np.diag(factor)[:, None]
                    drives[name] = drawn
                else:
                    drives[name] = product(factor, drawn)
            for name, given in data.items():
                drives[name] = _widened(given[:, part].transpose(1, 2, 0), block)
            private = _widened(gamma[part], block)
            drives["noise"] = (
                drives["noise"] + private if "noise" in drives else private
            )
            yield part, drives

    def _run(
        self,
        now: NDArray[np.float64],
        drives: dict[str, NDArray[np.float64]],
        part: slice,
        keep: int,
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """States and published signals of a block, or of the kept trials."""
        dynamics = self.dynamics
        samples = part.stop - part.start

        def moved(trials: slice) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
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
        went, sent = zip(*(moved(slice(k, k + 1)) for k in range(keep)), strict=True)
        return np.concatenate(went, axis=2), np.concatenate(sent, axis=2)


def _agree(
    together: tuple[NDArray[np.float64], NDArray[np.float64]],
    alone: tuple[NDArray[np.float64], NDArray[np.float64]],
    trial: slice,
) -> bool:
    """Return whether a trial among many comes out as it does alone."""
    for found, expected in zip(together, alone, strict=True):
        size = ROUNDED * max(1.0, float(np.abs(expected).max(initial=0.0)))
        if not np.allclose(found[:, :, trial], expected, ROUNDED, size, equal_nan=True):
            return False
    return True


def _drawn_start(
    generator: np.random.Generator, signals: LoopSignals, block: int
) -> NDArray[np.float64]:
    """Standard entries (block, k) of the initial state, which disturb no other draw."""
    count = signals.start.shape[1]
    if not count:
        return np.empty((block, 0))
    return generator.spawn(1)[0].standard_normal((block, count))


def _noise_of(
    noise: NoiseProcess, eta: NDArray[np.float64], samples: int
) -> NDArray[np.float64]:
    """The output noise (T, p, trials) of entries eta.

    Products are of one size, so the last bits do not depend on the number of trials.
    """
    if noise.total.width:
        return noise.signal(eta)[:, :samples].transpose(1, 2, 0)
    p = noise.outputs
    responses = noise.responses[:samples].reshape(samples * p, -1)
    padded = np.pad(eta, ((0, -len(eta) % _NOISE_GROUP), (0, 0)))
    gamma = np.empty((samples * p, len(padded)))
    for start in range(0, len(padded), _NOISE_GROUP):
        group = slice(start, start + _NOISE_GROUP)
        product(responses, padded[group].T, out=gamma[:, group])
    return gamma.reshape(samples, p, -1)[:, :, : len(eta)]


def _is_diagonal(factor: NDArray[np.float64]) -> bool:
    """Return whether a factor (n, n) is a diagonal matrix."""
    rows, columns = factor.shape
    return rows == columns and not np.any(factor - np.diag(np.diag(factor)))


def _widened(given: NDArray[np.float64], block: int) -> NDArray[np.float64]:
    """Signals (T, size, keep) of the first trials as those of a block."""
    if given.shape[2] == block:
        return given
    missing = block - given.shape[2]
    return np.pad(given, ((0, 0), (0, 0), (0, missing)), mode="edge")


#: A loop, or its controller.
System: TypeAlias = ct.StateSpace | ct.NonlinearIOSystem


# -- as systems of python-control ------------------------------------------------------


def input_labels(loop: LoopData) -> list[str]:
    """Return labels of references, then of free inputs, then ``eta[i]``."""
    labels = [*loop.law.references, *loop.side.free_labels]
    if loop.noise is not None:
        total = loop.noise.process.total
        labels += indexed("eta", total.once + total.width)
    return labels


def output_labels(loop: LoopData) -> list[str]:
    """Return ``yhat[i]``, then the labels of the inputs that the controller drives."""
    return [*indexed("yhat", len(loop.side.outputs)), *loop.side.driven_labels]


def state_labels(loop: LoopData) -> list[str]:
    """Return the plant's labels, then the controller's (``xhat[i]`` of an observer)."""
    return [*loop.side.plant.states, *loop.law.states]


def closed_loop(loop: LoopData) -> System:
    """Return the loop from references, free inputs and gamma to what it publishes."""
    inputs = [*loop.law.references, *loop.side.free_labels]
    inputs += indexed("gamma", len(loop.side.outputs))
    outputs = output_labels(loop)
    at = partial(_driven, loop)
    varies = loop.dynamics.varies
    return _named(loop, at, inputs, outputs, state_labels(loop), loop.name, varies)


def whole_loop(loop: LoopData) -> System:
    """Return the loop after its noise model, from eta in the place of gamma."""
    inputs = input_labels(loop)
    states = state_labels(loop)
    model = LinearSystem.gain(np.zeros((len(loop.side.outputs), 0)))
    if loop.noise is not None:
        model = noise_system(loop.noise)
        states += numbered("xi", model.order)
    others = np.eye(len(inputs) - model.input_count)
    gain = LinearSystem.gain(others)
    # the states of the noise come last
    order = np.roll(np.arange(loop.dynamics.size + model.order), -model.order)

    def at(t: int) -> LinearSystem:
        whole = _driven(loop, t).after(beside(gain, model.at(t)))
        A = whole.A[np.ix_(order, order)]
        return LinearSystem(A, whole.B[order], whole.C[:, order], whole.D)

    varies = loop.dynamics.varies or model.varies
    return _named(loop, at, inputs, output_labels(loop), states, loop.name, varies)


def controller(loop: LoopData) -> System:
    """Return the controller from yhat and references to the inputs that it drives."""
    law = loop.law
    if law.is_function:
        raise ValueError(
            "controller: this loop's controller is a function of the user's own, and "
            "no linear system; loop.online() runs it, one sample after the other"
        )
    order = law.order
    p = loop.side.plant.output_count
    through = loop.dynamics.side.through
    units = np.eye(order + p + len(law.references))
    memory, yhat, reference = np.split(units, [order, order + p])

    def at(t: int) -> LinearSystem:
        asked = answered(law, t, memory, yhat, reference, through)
        sensed = yhat - through @ asked
        after = law.follow(t, memory, sensed, asked, reference)
        A, B = np.hsplit(after, [order])
        C, D = np.hsplit(asked, [order])
        return LinearSystem(A, B, C, D)

    inputs = [*indexed("yhat", p), *law.references]
    signals = (inputs, loop.side.driven_labels, list(law.states))
    name = f"{loop.side.plant.name}$controller"
    return _named(loop, at, *signals, name, law.varies)


def _driven(loop: LoopData, t: int) -> LinearSystem:
    """The loop at sample t from references, exogenous inputs and output noise."""
    dynamics = loop.dynamics
    return dynamics.at(t).entered_by(range(dynamics.places["noise"].stop))


def _named(
    loop: LoopData,
    at: Callable[[int], LinearSystem],
    inputs: list[str],
    outputs: list[str],
    states: list[str],
    name: str,
    varies: bool,
) -> System:
    """The system of matrices at each sample, with names."""
    loop.law.check_linear()
    if loop.law.recalls:
        raise ValueError(
            "this loop's noise has no finite state, and its controller recalls all "
            "that was published: it is no system of python-control; loop.online() runs "
            "it"
        )
    labels = {"inputs": inputs, "outputs": outputs, "states": states, "name": name}
    if not varies:
        return ct.ss(*at(0).matrices, loop.side.plant.dt, **labels)
    kept = lru_cache(maxsize=2)(at)
    return varying_iosystem(kept, loop.horizon, loop.side.plant, **labels)
