"""Monte-Carlo trials of a private loop: whole blocks of trials at a time, from matrices that pickle."""

from dataclasses import dataclass

import numpy as np

from .._trials import block_size, run_trials
from ..core._linalg import positive_integer
from ..response import PrivateResponse, Pulse
from .dynamics import LoopDynamics
from .moments import respond
from .signals import LoopSignals

_PRODUCT = 2**18  # multiply-adds that BLAS gives to one thread, so that the bits do not depend on the threads
_ROWS = 16  # trials in a product, at least


def simulate(loop, signals, controller, trials, rng, executor, progress):
    """Trials of the loop as a `PrivateResponse`; see `PrivateLoop.simulate`."""
    trials = positive_integer(trials, "trials")
    task, data = SteppedTrials.of(loop, signals, controller), signals.of_each_trial()
    if controller is None and loop.noise.drawn_once and not data and not task.fresh:
        task = SuperposedTrials.of(loop, signals)
    out = run_trials(
        task,
        trials,
        rng=rng,
        executor=executor,
        progress=progress,
        block=block_size(len(loop.dynamics.A)),
        data=data,
    )
    plant, noise, eta = loop.plant, loop.noise, out["eta"]
    return PrivateResponse(
        signals.timepts,
        states=out["states"].transpose(1, 0, 2),
        outputs=out["published"].transpose(1, 0, 2),
        inputs=[
            signals.reference.T[:, None, :],
            signals.feedforward.T[:, None, :],
            Pulse(eta.T) if noise.drawn_once else noise.inputs(eta).transpose(2, 0, 1)[:, :, : signals.samples],
        ],
        state_labels=loop.state_labels,
        output_labels=loop.output_labels,
        input_labels=loop.input_labels,
        plant_states=plant.order,
        reference=signals.reference.T,
        guarantee=loop.guarantee,
        sysname=loop.name,
    )


@dataclass(frozen=True)
class SuperposedTrials:
    """All trials as one linear map of (eta, 1): structured noise in a linear loop.

    ``maps`` holds, for the states and for what is published, the responses to each entry of eta and, last, what all
    trials have in common, as (r + 1, signals T). One product with it writes a trial.
    """

    noise: object
    maps: dict
    samples: int

    @classmethod
    def of(cls, loop, signals):
        dynamics, samples = loop.dynamics, signals.samples
        common = respond(dynamics, signals.initial, signals.deterministic(), samples)
        each = respond(dynamics, np.zeros_like(signals.initial), {"noise": loop.noise.responses[:samples]}, samples)
        maps = {name: _rows(*parts) for name, *parts in zip(("states", "published"), each, common)}
        return cls(loop.noise, maps, samples)

    def __call__(self, generator, block):
        eta = self.noise.draw(generator, block)
        drawn = np.hstack([eta, np.ones((block, 1))])
        return {name: self._product(drawn, onto) for name, onto in self.maps.items()} | {"eta": eta}

    def _product(self, drawn, onto):
        out = np.empty((len(drawn), onto.shape[1]))
        rows = max(min(len(drawn), _ROWS), _PRODUCT // onto.size)  # so that large maps are not read for every trial
        columns = max(1, _PRODUCT // (rows * len(onto)))
        for i in range(0, len(drawn), rows):
            for j in range(0, onto.shape[1], columns):
                np.matmul(drawn[i : i + rows], onto[:, j : j + columns], out=out[i : i + rows, j : j + columns])
        return out.reshape(len(drawn), -1, self.samples)


def _rows(of_eta, of_all):
    """Responses (T, signals, r) and (T, signals, 1) as rows (r + 1, signals T)."""
    samples, signals, count = of_eta.shape
    rows = np.empty((count + 1, signals, samples))
    rows[:-1], rows[-1:] = of_eta.transpose(2, 1, 0), of_all.transpose(2, 1, 0)
    return rows.reshape(count + 1, -1)


@dataclass(frozen=True)
class SteppedTrials:
    """All trials of a block step by step: fresh noise, drawn or given disturbances, any controller."""

    plant: object
    dynamics: LoopDynamics
    noise: object
    signals: LoopSignals
    controller: object
    roots: dict  # name of a drawn disturbance -> square root (size, q) of its covariance

    @classmethod
    def of(cls, loop, signals, controller):
        return cls(loop.plant, loop.dynamics, loop.noise, signals, controller, signals.drawn(loop))

    @property
    def fresh(self):
        """Whether something but the output noise is random."""
        return bool(self.roots)

    def __call__(self, generator, block, **data):
        samples = self.signals.samples
        sources = dict(zip(("noise", "disturbance", "measurement"), generator.spawn(3)))
        eta = self.noise.draw(generator, block)
        drives = {"noise": self._noise(eta)}
        for name, root in self.roots.items():
            drawn = sources[name].standard_normal((block, samples, root.shape[1])) @ root.T
            drives[name] = drawn.transpose(1, 2, 0)
        for name, given in data.items():  # (block, T, size)
            drives[name] = given.transpose(1, 2, 0)
        for name, common in self.signals.deterministic().items():
            drives.setdefault(name, common)
        initial = np.broadcast_to(self.signals.initial, (len(self.dynamics.A), block))
        if self.controller is None:
            states, published = self.dynamics.step(initial, drives, samples)
        else:
            states, published = self._controlled(initial, drives, block)
        return {
            "states": states.transpose(2, 1, 0).copy(),
            "published": published.transpose(2, 1, 0).copy(),
            "eta": eta,
        }

    def _noise(self, eta):
        """gamma (T, p, block) of the drawn eta."""
        return self.noise.responses @ eta.T if self.noise.drawn_once else self.noise.signal(eta).transpose(1, 2, 0)

    def _controlled(self, initial, drives, block):
        """The loop with the user's controller in place of -K (xhat - xd) + ud."""
        A, B, C, D = self.plant.A, self.plant.B, self.plant.C, self.plant.D
        n, m, samples = len(A), B.shape[1], self.signals.samples
        states = np.empty((samples, 2 * n, block))
        published = np.empty((samples, len(C) + m, block))
        states[0] = initial
        noise = drives["noise"] + drives.get("measurement", 0.0)
        disturbance = drives.get("disturbance", np.zeros((samples, 1, 1)))
        for t, time in enumerate(self.signals.timepts):
            x, predicted = states[t, :n], states[t, n:]
            innovation = C @ (x - predicted) + noise[t]
            estimate = predicted + self.dynamics.correct @ innovation
            u = np.asarray(self.controller(time, estimate, self.signals.reference[t][:, None]), float)
            if u.shape != (m, block):
                raise ValueError(
                    f"controller: expected an array of shape ({m}, {block}) (inputs, trials), got {u.shape}"
                )
            published[t] = np.vstack([C @ x + D @ u + noise[t], u])
            if t + 1 < samples:
                states[t + 1, :n] = A @ x + B @ u + disturbance[t]
                states[t + 1, n:] = A @ predicted + B @ u + self.dynamics.advance @ innovation
        return states, published
