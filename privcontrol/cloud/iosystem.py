"""Loops whose gains vary as systems of python-control, which know the time."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import control as ct
import numpy as np
from numpy.typing import NDArray

from ..channel.iosystem import create_channel_iosystem
from .controller import answer

if TYPE_CHECKING:
    from .loop import PrivateLoop


def varying_loop(loop: PrivateLoop, *, with_noise: bool) -> ct.NonlinearIOSystem:
    """The loop from references, exogenous inputs and eta (or gamma) to what it publishes."""
    plant = loop.plant
    p = len(plant.C)
    size = loop.dynamics.size
    count = len(loop.law.references)
    free = len(loop.exogenous)
    inputs = [*loop.law.references, *(plant.inputs[k] for k in loop.exogenous)]
    states = list(loop.state_labels)
    gate = None
    if with_noise and loop.noise is not None:
        gate = create_channel_iosystem(loop.noise)
        inputs += [f"eta[{i}]" for i in range(loop.noise.channels)]
        states += gate.state_labels
    else:
        inputs += [f"gamma[{i}]" for i in range(p)]

    def moved(time: float, state: NDArray, given: NDArray) -> tuple[NDArray, NDArray]:
        k = _sample(loop, time)
        drives = {
            "reference": given[:count],
            "exogenous": given[count : count + free],
            "noise": given[count + free :],
        }
        xi = state[size:]
        if gate is not None:
            eta = drives["noise"]
            drives["noise"] = gate.C @ xi + gate.D[:, p:] @ eta
            xi = gate.A @ xi + gate.B[:, p:] @ eta
        columns = {name: drive.reshape(1, -1, 1) for name, drive in drives.items()}
        start = state[:size, None]
        went, sent = loop.dynamics.run(start, columns, 1, first=k)
        return np.concatenate([went[1, :, 0], xi]), sent[0, :, 0]

    return _system(loop, moved, inputs, loop.output_labels, states, loop.name)


def varying_controller(loop: PrivateLoop) -> ct.NonlinearIOSystem:
    """The controller from yhat and references to the inputs that it drives."""
    law = loop.law
    plant = loop.plant
    p = len(plant.C)
    driven = list(loop.controls)
    through = plant.D[:, driven]

    def moved(time: float, state: NDArray, given: NDArray) -> tuple[NDArray, NDArray]:
        k = _sample(loop, time)
        columns = (state[:, None], given[:p, None], given[p:, None])
        asked, after = answer(law, k, *columns, through)
        return after[:, 0], asked[:, 0]

    inputs = [*(f"yhat[{i}]" for i in range(p)), *law.references]
    outputs = [plant.inputs[k] for k in driven]
    name = f"{plant.name}$controller"
    return _system(loop, moved, inputs, outputs, list(law.states), name)


def fixed_controller(loop: PrivateLoop) -> ct.StateSpace:
    """The same where nothing varies, from its answers to units."""
    law = loop.law
    plant = loop.plant
    p = len(plant.C)
    driven = list(loop.controls)
    order = law.order
    units = np.eye(order + p + len(law.references))
    memory, yhat, reference = np.split(units, [order, order + p])
    asked, after = answer(law, 0, memory, yhat, reference, plant.D[:, driven])
    return ct.ss(
        after[:, :order],
        after[:, order:],
        asked[:, :order],
        asked[:, order:],
        plant.dt,
        inputs=[*(f"yhat[{i}]" for i in range(p)), *law.references],
        outputs=[plant.inputs[k] for k in driven],
        states=list(law.states),
        name=f"{plant.name}$controller",
    )


def _sample(loop: PrivateLoop, time: float) -> int:
    """The sample at a time. `ValueError` beyond the gains of the horizon."""
    k = round(time / loop.plant.step)
    if loop.noise is not None and not 0 <= k < loop.noise.horizon:
        # python-control asks for the state after the last sample, too
        k = min(max(k, 0), int(loop.noise.horizon) - 1)
    return k


def _system(
    loop: PrivateLoop,
    moved: Callable[[float, NDArray, NDArray], tuple[NDArray, NDArray]],
    inputs: list[str],
    outputs: list[str],
    states: list[str],
    name: str,
) -> ct.NonlinearIOSystem:
    def update(t: float, x: NDArray, u: NDArray, params: Any) -> NDArray:
        return moved(t, np.asarray(x, float), np.asarray(u, float))[0]

    def read(t: float, x: NDArray, u: NDArray, params: Any) -> NDArray:
        return moved(t, np.asarray(x, float), np.asarray(u, float))[1]

    return ct.nlsys(
        update,
        read,
        inputs=inputs,
        outputs=outputs,
        states=states,
        dt=loop.plant.dt,
        name=name,
    )
