"""What drives a loop in one simulation or moment computation, checked and brought to one shape."""

from dataclasses import dataclass

import control as ct
import numpy as np

from ..core._linalg import real_array
from .weights import root


@dataclass(frozen=True)
class LoopSignals:
    """Drives of a loop over T samples: ``reference`` (T, n), ``feedforward`` (T, m), initial values (n,), and
    ``disturbance``, ``measurement`` as None, ``"design"``, or arrays (T, size) or (trials, T, size)."""

    timepts: np.ndarray
    reference: np.ndarray
    feedforward: np.ndarray
    initial_state: np.ndarray
    initial_estimate: np.ndarray
    disturbance: object
    measurement: object

    @classmethod
    def of(
        cls,
        loop,
        timepts,
        reference,
        feedforward,
        initial_state,
        initial_estimate,
        disturbance,
        measurement_noise,
        trials=None,
    ):
        """Signals from the keywords of `PrivateLoop.simulate`; ``trials=None`` where one array serves all."""
        n, m, p = loop.plant.order, loop.plant.B.shape[1], len(loop.plant.C)
        timepts = _timepts(loop, timepts)
        samples = len(timepts)
        return cls(
            timepts,
            _signal(reference, "reference", n, samples),
            _signal(feedforward, "feedforward", m, samples),
            _vector(initial_state, "initial_state", n),
            _vector(initial_estimate, "initial_estimate", n),
            _disturbance(disturbance, "disturbance", n, samples, trials, loop.QN, "QN"),
            _disturbance(
                measurement_noise,
                "measurement_noise",
                p,
                samples,
                trials,
                loop.RN,
                "RN",
            ),
        )

    @property
    def samples(self):
        return len(self.timepts)

    @property
    def initial(self):
        """zeta(0) as a column (2n, 1)."""
        return np.concatenate([self.initial_state, self.initial_estimate])[:, None]

    def of_each_trial(self):
        """Given disturbances that differ between trials, as name -> (trials, T, size)."""
        given = {name: getattr(self, name) for name in ("disturbance", "measurement")}
        return {
            name: value
            for name, value in given.items()
            if isinstance(value, np.ndarray) and value.ndim == 3
        }

    def drawn(self, loop):
        """Disturbances drawn from the loop's design, as name -> square root (size, q) of their covariance."""
        roots = {}
        if isinstance(self.disturbance, str):
            roots["disturbance"] = loop.G @ root(loop.QN)
        if isinstance(self.measurement, str):
            roots["measurement"] = root(loop.RN)
        return roots

    def deterministic(self):
        """The drives that are the same in every trial, as `LoopDynamics.respond` takes them."""
        drives = {
            "reference": self.reference[:, :, None],
            "feedforward": self.feedforward[:, :, None],
        }
        for name in ("disturbance", "measurement"):
            signal = getattr(self, name)
            if isinstance(signal, np.ndarray) and signal.ndim == 2:
                drives[name] = signal[:, :, None]
        return drives


def _timepts(loop, timepts):
    plant, noise = loop.plant, loop.noise
    if timepts is None:
        if noise is None:
            raise ValueError(
                "timepts: the loop has no noise and so no horizon; pass the time points"
            )
        return noise.timepts
    if np.ndim(timepts) == 0:
        raise ValueError(
            f"timepts: expected time points such as np.arange(50) * {plant.step:g}, got the number {timepts}"
        )
    timepts = real_array(timepts, "timepts", ndim=1)
    if not timepts.size:
        raise ValueError("timepts: expected at least one time point, got none")
    steps = np.diff(timepts)
    step = steps[0] if plant.dt is True and len(steps) else plant.step
    if (steps <= 0).any() or not np.allclose(steps, step, rtol=1e-6, atol=0):
        got = f"{steps[0]:g}" if np.allclose(steps, steps[0]) else "unequal ones"
        raise ValueError(
            f"timepts: expected equal steps of dt = {plant.dt}, got {got}; for the first {len(timepts)} samples pass "
            f"np.arange({len(timepts)}) * {plant.step:g}"
        )
    if abs(timepts[0]) > 1e-6 * step:
        raise ValueError(
            f"timepts: expected times from 0 on, got {timepts[0]:g} first: the initial state, the noise and the protected times "
            "of its guarantee are counted from the start of the run"
        )
    if noise is not None and len(timepts) > noise.horizon:
        raise ValueError(
            f"timepts: expected at most the {noise.horizon} samples of the noise's horizon, got {len(timepts)}: later "
            "samples would be published without a guarantee; design the noise for a longer horizon"
        )
    return timepts


def _signal(value, name, size, samples):
    if value is None:
        return np.zeros((samples, size))
    value = real_array(value, name)
    if value.shape == (size,):
        return np.broadcast_to(value, (samples, size))
    if value.shape == (size, samples):
        return value.T
    raise ct.ControlDimension(
        f"{name}: expected shape ({size},) or ({size}, {samples}), got {value.shape}"
    )


def _vector(value, name, size):
    if value is None:
        return np.zeros(size)
    if np.shape(value) != (size,):
        raise ct.ControlDimension(
            f"{name}: expected shape ({size},), got {np.shape(value)}"
        )
    return real_array(value, name)


def _disturbance(value, name, size, samples, trials, covariance, source):
    if value is None:
        return None
    if isinstance(value, str):
        if value != "design":
            raise ValueError(
                f'{name}: expected an array, None or "design", got {value!r}'
            )
        if covariance is None:
            raise ValueError(
                f'{name}="design" draws from {source}, which the loop was not given; pass {source} to it'
            )
        return "design"
    value = real_array(value, name)
    if value.shape == (size, samples):
        return value.T
    if trials is not None and value.shape == (size, trials, samples):
        return value.transpose(1, 2, 0)
    shapes = f"({size}, {samples})" + (
        f" or ({size}, {trials}, {samples})" if trials is not None else ""
    )
    raise ct.ControlDimension(f"{name}: expected shape {shapes}, got {value.shape}")
