"""Monte-Carlo trials of a private loop: whole blocks of trials at a time, from matrices that pickle."""

import warnings
from dataclasses import dataclass

import numpy as np

from .._trials import run_trials
from ..channel._images import disturbances
from ..core._linalg import ONE_THREAD, positive_integer, product
from ..core.errors import PrivacyWarning
from ..response import PrivateResponse, Pulse
from .dynamics import LoopDynamics
from .moments import respond
from .signals import LoopSignals

_CACHED = 2**13  # numbers of one sample of a block, so that a step stays in the cache
_ROWS = 16  # trials in a product of large maps, at least: fewer would read the maps too often
_SMALL = 32  # states up to which one product for all samples beats stepping, whatever the rank of the noise


def simulate(loop, signals, controller, trials, rng, executor, progress):
    """Trials of the loop as a `PrivateResponse`; see `PrivateLoop.simulate`."""
    trials = positive_integer(trials, "trials")
    if controller is not None and not callable(controller):
        raise TypeError(
            f"controller: expected a function controller(t, xhat, xd), got {type(controller).__name__}; a gain K of your own "
            "goes to private_loop(sys, K, L, noise)"
        )
    _warn_of_published_secrets(loop, signals)
    task, data = SteppedTrials.of(loop, signals, controller), signals.of_each_trial()
    once = controller is None and loop.noise.drawn_once and not data and not task.roots
    if once and loop.noise.channels < max(loop.plant.order, _SMALL + 1):
        task = SuperposedTrials.of(loop, signals)
    out = run_trials(
        task,
        trials,
        rng=rng,
        executor=executor,
        progress=progress,
        block=min(512, max(32, _CACHED // (2 * loop.plant.order))),
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
            Pulse(eta.T)
            if noise.drawn_once
            else noise.inputs(eta).transpose(2, 0, 1)[:, :, : signals.samples],
        ],
        state_labels=loop.state_labels,
        output_labels=loop.output_labels,
        input_labels=loop.input_labels,
        aliases=dict(zip(plant.outputs, loop.output_labels)),
        plant_states=plant.order,
        reference=signals.reference.T,
        guarantee=loop.guarantee,
        sysname=loop.name,
        time_label=plant.time_label,
    )


def _warn_of_published_secrets(loop, signals):
    """The feedforward is public: a secret signal that is passed as one is published as it is."""
    adjacency = None if loop.noise.request is None else loop.noise.request.adjacency
    secret = {
        name for part in disturbances(adjacency) for name in part.signals(loop.plant)
    }
    given = [
        name
        for name, sent in zip(loop.plant.inputs, signals.feedforward.any(axis=0))
        if sent and name in secret
    ]
    if given:
        warnings.warn(
            f"feedforward: the noise hides a disturbance at {', '.join(given)}, but what is passed as feedforward there is "
            "public and published as it is. A secret signal w at input k enters as disturbance=plant.B[:, [k]] * w",
            PrivacyWarning,
            stacklevel=4,
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
        each = respond(
            dynamics,
            np.zeros_like(signals.initial),
            {"noise": loop.noise.responses[:samples]},
            samples,
        )
        maps = {
            name: _rows(*parts)
            for name, *parts in zip(("states", "published"), each, common)
        }
        return cls(loop.noise, maps, samples)

    def __call__(self, generator, block):
        eta = self.noise.draw(generator, block)
        drawn = np.hstack([eta, np.ones((block, 1))])
        return {
            name: self._product(drawn, onto) for name, onto in self.maps.items()
        } | {"eta": eta}

    def _product(self, drawn, onto):
        out = np.empty((len(drawn), onto.shape[1]))
        rows = max(
            min(len(drawn), _ROWS), ONE_THREAD // onto.size
        )  # so that large maps are not read for every trial
        columns = max(1, ONE_THREAD // (rows * len(onto)))
        for i in range(0, len(drawn), rows):
            for j in range(0, onto.shape[1], columns):
                np.matmul(
                    drawn[i : i + rows],
                    onto[:, j : j + columns],
                    out=out[i : i + rows, j : j + columns],
                )
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
    K: np.ndarray
    dynamics: LoopDynamics
    noise: object
    signals: LoopSignals
    controller: object
    roots: (
        dict  # name of a drawn disturbance -> square root (size, q) of its covariance
    )

    @classmethod
    def of(cls, loop, signals, controller):
        return cls(
            loop.plant,
            loop.K,
            loop.dynamics,
            loop.noise,
            signals,
            controller,
            signals.drawn(loop),
        )

    def __call__(self, generator, block, **data):
        samples = self.signals.samples
        sources = dict(zip(("noise", "disturbance", "measurement"), generator.spawn(3)))
        eta = self.noise.draw(generator, block)
        drives = self.signals.deterministic()
        for name, root in self.roots.items():
            drives[name] = product(
                root, sources[name].standard_normal((samples, root.shape[1], block))
            )
        for name, given in data.items():  # (block, T, size)
            drives[name] = given.transpose(1, 2, 0)
        noise = self._noise(eta) + drives.get("measurement", 0.0)
        states, published = self._stepped(noise, drives.get("disturbance"), block)
        return {"states": states.T, "published": published.T, "eta": eta}

    def _noise(self, eta):
        """gamma (T, p, block) of the drawn eta."""
        if self.noise.drawn_once:
            responses = self.noise.responses[: self.signals.samples]
            return product(responses.reshape(-1, eta.shape[1]), eta.T).reshape(
                *responses.shape[:2], -1
            )
        return self.noise.signal(eta)[:, : self.signals.samples].transpose(1, 2, 0)

    def _stepped(self, noise, disturbance, block):
        """Plant and observer, side by side as (2, n, block) at every sample, and what is published."""
        (n, m), A, B, C, D = (
            self.plant.B.shape,
            self.plant.A,
            self.plant.B,
            self.plant.C,
            self.plant.D,
        )
        states = np.empty((self.signals.samples, 2 * n, block))
        published = np.empty((self.signals.samples, len(C) + m, block))
        states[0] = self.signals.initial
        for t, (now, out) in enumerate(zip(states.reshape(-1, 2, n, block), published)):
            x, predicted = now
            innovation = product(C, x - predicted)
            innovation += noise[t]
            u = self._control(t, predicted + product(self.dynamics.correct, innovation))
            out[: len(C)] = product(C, x) + product(D, u) + noise[t]
            out[len(C) :] = u
            if t + 1 < len(states):
                following = product(A, now, states[t + 1].reshape(2, n, block))
                following += product(B, u)
                following[1] += product(self.dynamics.advance, innovation)
                if disturbance is not None:
                    following[0] += disturbance[t]
        return states, published

    def _control(self, t, estimate):
        """The inputs (m, block) that the estimates (n, block) are answered with."""
        goal = self.signals.reference[t][:, None]
        if self.controller is None:
            return self.signals.feedforward[t][:, None] - product(
                self.K, estimate - goal
            )
        u = np.asarray(self.controller(self.signals.timepts[t], estimate, goal), float)
        inputs, block = len(self.K), estimate.shape[1]
        if u.shape in ((inputs,), (inputs, 1)):
            return np.broadcast_to(u.reshape(inputs, 1), (inputs, block))
        if u.shape != (inputs, block):
            raise ValueError(
                f"controller: expected an array of shape ({inputs}, {block}) (inputs, trials), or ({inputs},) for all trials "
                f"alike, got {u.shape}; it is called for blocks of {block} trials at once, with xhat of shape "
                f"{estimate.shape}, however many trials are asked for"
            )
        return u
