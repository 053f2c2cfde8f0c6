"""Loops and their controllers as systems of python-control.

Where gains vary they are a ``ct.nlsys`` that knows the time, else a ``ct.StateSpace``.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any, TypeAlias

import control as ct
import numpy as np
from numpy.typing import NDArray

from ..noise.iosystem import create_channel_iosystem
from ..systems.linear import LinearSystem, beside
from ._loop_data import LoopData
from .controller import answered, indexed

#: A loop, or its controller.
System: TypeAlias = ct.StateSpace | ct.NonlinearIOSystem


def input_labels(loop: LoopData) -> list[str]:
    """Return labels of references, then of free inputs, then ``eta[i]``."""
    labels = [*loop.law.references, *loop.side.free_labels]
    if loop.noise is not None:
        total = loop.noise.total
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
    inputs += indexed("gamma", len(loop.side.plant.C))
    signals = (inputs, output_labels(loop), state_labels(loop))
    return _named(loop, lambda t: _driven(loop, t), *signals, loop.name)


def whole_loop(loop: LoopData) -> System:
    """Return the loop after its noise model, from eta in the place of gamma."""
    noise = loop.noise
    signals = (input_labels(loop), output_labels(loop))
    known = len(input_labels(loop))
    states = state_labels(loop)
    p = len(loop.side.outputs)
    model = LinearSystem.gain(np.zeros((p, 0)))
    if noise is not None:
        gate = create_channel_iosystem(noise)
        known -= gate.ninputs - p
        model = LinearSystem(gate.A, gate.B[:, p:], gate.C, gate.D[:, p:])
        states += gate.state_labels
    source = beside(LinearSystem.gain(np.eye(known)), model)
    # the states of the noise come last
    order = np.roll(np.arange(loop.dynamics.size + model.order), -model.order)

    def at(t: int) -> LinearSystem:
        whole = _driven(loop, t).after(source)
        A = whole.A[np.ix_(order, order)]
        return LinearSystem(A, whole.B[order], whole.C[:, order], whole.D)

    return _named(loop, at, *signals, states, loop.name)


def controller(loop: LoopData) -> System:
    """Return the controller from yhat and references to the inputs that it drives."""
    law = loop.law
    if law.is_function:
        raise ValueError(
            "controller: this loop's controller is a function of the user's own, and "
            "no linear system; loop.online() runs it, one sample after the other"
        )
    order = law.order
    p = len(loop.side.plant.C)
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
    return _named(loop, at, *signals, f"{loop.side.plant.name}$controller")


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
    if not loop.law.varies:
        return ct.ss(*at(0).matrices, loop.side.plant.dt, **labels)
    kept = lru_cache(maxsize=2)(at)

    def system(time: float) -> LinearSystem:
        k = round(time / loop.side.plant.step)
        if loop.noise is not None:
            # python-control asks for the state after the last sample, too
            k = min(max(k, 0), int(loop.noise.horizon) - 1)
        return kept(k)

    def update(t: float, x: NDArray, u: NDArray, params: Any) -> NDArray:
        now = system(t)
        return now.A @ x + now.B @ u

    def read(t: float, x: NDArray, u: NDArray, params: Any) -> NDArray:
        now = system(t)
        return now.C @ x + now.D @ u

    return ct.nlsys(update, read, dt=loop.side.plant.dt, **labels)
