"""What drives a loop in one simulation or moment computation, checked and brought to one layout.

Inside, every signal is (time, signal, run), as `ClosedLoop.run` takes it. Runs are 1 where all trials share a
signal.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import control as ct
import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..channel.output_noise import OutputNoise
from ..core._linalg import product, real_array
from .checks import Weights, matrix, root

if TYPE_CHECKING:
    from .loop import PrivateLoop
    from .regulator import LqgDesign

#: Trials whose noise is computed together, always as many.
_NOISE_GROUP = 32


@dataclass(frozen=True, eq=False)
class LoopSignals:
    """Drives of a loop over T samples, and the goals that errors are counted from.

    Attributes
    ----------
    timepts : ndarray, shape (T,)
    initial : ndarray, shape (N, 1)
        Initial states of the plant, then of the controller.
    shared : dict of str to ndarray, shapes (T, size, 1)
        Drives that are the same in every trial, by the names of `ClosedLoop`. Measurement noise is ``noise``.
    each : dict of str to ndarray, shapes (trials, T, size)
        Drives that differ between trials.
    roots : dict of str to ndarray, shapes (size, q)
        Square roots of the covariances of drives that are drawn afresh at each sample.
    target, feedforward : ndarray, shapes (T, n), (T, m)
        What states and inputs are compared with.
    start : ndarray, shape (n, k)
        Root of the covariance of the plant's initial state, without columns where it is given.
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
        loop: PrivateLoop,
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
        """Signals from the keywords of `PrivateLoop.simulate`, None of them by trial without ``trials``."""
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
        mean = loop.prior_mean
        initial = np.zeros(loop.dynamics.size)
        initial[:n] = mean
        start = np.zeros((n, 0))
        if isinstance(initial_state, str):
            start = _drawn_start(initial_state, loop.design)
        elif initial_state is not None:
            initial[:n] = vector(initial_state, "initial_state", n)
        if loop.estimates:
            initial[n : 2 * n] = mean - loop.rest
        if initial_estimate is not None:
            if not loop.estimates:
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
                _check_design(value, name, source, loop.weights)
                signals.roots[drive] = loop.weights.noise_roots[source]
            elif value is not None:
                given = _disturbance(value, name, size, samples, trials)
                signals._add(drive, given)
        if loop.exogenous or exogenous:
            given = _exogenous(loop, exogenous, samples, trials)
            signals._add("exogenous", given)
        return signals

    def _add(self, name: str, array: NDArray) -> None:
        """File a given drive under what all trials share, (T, size), or what differs, (trials, T, size)."""
        if array.ndim == 2:
            self.shared[name] = array[:, :, None]
        else:
            self.each[name] = array

    @property
    def samples(self) -> int:
        """Number of samples T."""
        return len(self.timepts)


def trial_drives(
    noise: OutputNoise,
    signals: LoopSignals,
    generator: np.random.Generator,
    eta: NDArray,
    block: int,
    length: int,
    data: Mapping[str, NDArray],
) -> Iterator[tuple[slice, dict[str, NDArray]]]:
    """Stretches of the horizon, and what drives the trials of a block in them, as `ClosedLoop.run` takes it.

    Disturbances are drawn in time order for the whole block. Of noise and given signals only
    the first trials are known, and the others repeat the last of them.
    """
    sources = dict(zip(("gamma", "disturbance", "noise"), generator.spawn(3)))
    gamma = _noise_of(noise, eta, signals.samples)
    for start in range(0, signals.samples, length):
        stop = min(start + length, signals.samples)
        part = slice(start, stop)
        drives = {}
        for name, common in signals.shared.items():
            drives[name] = common[part]
        for name, factor in signals.roots.items():
            shape = (stop - start, factor.shape[1], block)
            drawn = sources[name].standard_normal(shape)
            drives[name] = product(factor, drawn)
        for name, given in data.items():
            by_trial = given[:, part]
            drives[name] = _widened(by_trial.transpose(1, 2, 0), block)
        noise_of_part = _widened(gamma[part], block)
        drives["noise"] = drives.get("noise", 0.0) + noise_of_part
        yield part, drives


def drawn_start(generator: np.random.Generator, start: NDArray, block: int) -> NDArray:
    """Standard entries (block, k) of the initial state's root, which disturb no other draw."""
    count = start.shape[1]
    if not count:
        return np.empty((block, 0))
    return generator.spawn(1)[0].standard_normal((block, count))


def _noise_of(noise: OutputNoise, eta: NDArray, samples: int) -> NDArray:
    """The output noise (T, p, trials) of entries eta, by groups of one size for the sake of the last bits."""
    p = noise.outputs
    gamma = np.empty((samples, p, len(eta)))
    for start in range(0, len(eta), _NOISE_GROUP):
        drawn = eta[start : start + _NOISE_GROUP]
        count = len(drawn)
        group = np.zeros((_NOISE_GROUP, *eta.shape[1:]))
        group[:count] = drawn
        if noise.drawn_once:
            responses = noise.responses[:samples].reshape(samples * p, -1)
            part = product(responses, group.T).reshape(samples, p, -1)
        else:
            part = noise.signal(group)[:, :samples].transpose(1, 2, 0)
        gamma[:, :, start : start + count] = part[:, :, :count]
    return gamma


def _widened(given: NDArray, block: int) -> NDArray:
    """Signals (T, size, keep) of the first trials as those of a block."""
    missing = block - given.shape[2]
    return np.pad(given, ((0, 0), (0, 0), (0, missing)), mode="edge")


def _references(
    loop: PrivateLoop,
    reference: ArrayLike | None,
    feedforward: ArrayLike | None,
    samples: int,
) -> tuple[NDArray, NDArray]:
    """The reference (T, n) or (T, r) and the feedforward (T, m), zero where they are not given."""
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
    followed = _signal(reference, "reference", size, samples)
    return followed, _signal(feedforward, "feedforward", len(loop.controls), samples)


def _followed_states(loop: PrivateLoop, reference: NDArray) -> NDArray:
    """What the states (T, n) are to be where outputs follow a reference (T, r).

    A state follows if an output with a reference of its own reads it alone. What the others
    are to be is not known, which is nan.
    """
    goal = np.full((len(reference), loop.plant.order), np.nan)
    for output, wanted in zip(loop.followed_outputs, reference.T):
        row = loop.plant.C[output]
        if np.count_nonzero(row) == 1:
            state = np.argmax(row != 0)
            goal[:, state] = wanted / row[state]
    return goal


def _timepts(loop: PrivateLoop, timepts: ArrayLike | None) -> NDArray:
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


def _signal(value: ArrayLike | None, name: str, size: int, samples: int) -> NDArray:
    """A signal (T, size) from (size,) or (size, T), zero for None."""
    if value is None:
        return np.zeros((samples, size))
    array = real_array(value, name)
    if array.shape == (size,):
        return np.broadcast_to(array, (samples, size))
    if array.shape == (size, samples):
        return array.T
    raise ct.ControlDimension(
        f"{name}: expected shape ({size},) or ({size}, {samples}), got {array.shape}"
    )


def vector(value: ArrayLike | None, name: str, size: int) -> NDArray:
    """A vector (size,), zero for None."""
    if value is None:
        return np.zeros(size)
    return matrix(value, name, (size,))


def _drawn_start(value: str, prior: LqgDesign | None) -> NDArray:
    """Root (n, n) of the prior's covariance, for "design"."""
    if value != "design":
        raise ValueError(
            'initial_state: expected an array, None or "design", got another text'
        )
    if prior is None or prior.P0 is None:
        raise ValueError(
            'initial_state="design" draws from the prior P0, which the loop was not '
            "given; pass P0 to private_lqg"
        )
    return root(prior.P0)


def _check_design(value: str, name: str, source: str, weights: Weights) -> None:
    """Refuse a text other than "design", and "design" without the covariance."""
    if value != "design":
        raise ValueError(
            f'{name}: expected an array, None or "design", got another text'
        )
    if source not in weights.noise_roots:
        raise ValueError(
            f'{name}="design" draws from {source}, which the loop was not given; pass '
            f"{source} to it"
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
    loop: PrivateLoop,
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
