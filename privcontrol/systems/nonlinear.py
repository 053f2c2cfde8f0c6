"""Nonlinear plants as plain data: functions, labels and sampling time.

The functions stay the user's own. They are called with one state or with a column for
each trial, and with numbers that carry intervals and derivatives.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import control as ct
import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..core._frozen import comparable
from ..core._linalg import one_of, positive_integer, positive_number
from .plant import SampledSystem

_METHODS = ("rk4", "euler")


@dataclass(frozen=True, eq=False)
class NonlinearPlant(SampledSystem):
    """x(t+1) = update(t, x, u), y(t) = read(t, x, u), in discrete time.

    ``read`` is None where the outputs are the states. Two plants are equal if their
    functions are the same objects, and parameters, names and sampling time are equal.
    """

    update: Callable[..., Any]
    read: Callable[..., Any] | None
    params: Mapping[str, Any]

    @classmethod
    def of(cls, sys: ct.NonlinearIOSystem | NonlinearPlant) -> NonlinearPlant:
        """The plant of a discrete-time NonlinearIOSystem.

        Raises
        ------
        control.ControlArgument
            If it is linear, or not in discrete time.
        """
        if isinstance(sys, NonlinearPlant):
            return sys
        if not is_nonlinear(sys):
            raise ct.ControlArgument(
                f"sys: expected a NonlinearIOSystem, got {type(sys).__name__}"
            )
        if not ct.isdtime(sys, strict=True):
            raise ct.ControlArgument(
                "sys: expected a discrete-time system, got continuous time; sample it "
                "with sample_nonlinear(sys, Ts), so the Jacobians and the "
                "simulation are those of one and the same integrator"
            )
        if not sys.nstates or not sys.noutputs:
            raise ct.ControlArgument(
                "sys: expected the names of states and outputs; pass states= and "
                "outputs= to ct.nlsys"
            )
        return cls.as_given(sys)

    @classmethod
    def as_given(cls, sys: ct.NonlinearIOSystem) -> NonlinearPlant:
        """The functions and names of a system, which is not checked."""
        return cls(
            update=sys.updfcn,
            read=sys.outfcn,
            params=copy.deepcopy(dict(sys.params)),
            dt=sys.dt,
            states=tuple(sys.state_labels),
            inputs=tuple(sys.input_labels or ()),
            outputs=tuple(sys.output_labels),
            name=sys.name,
        )

    def _identity(self) -> tuple:
        params = [(name, self.params[name]) for name in sorted(self.params)]
        named = (self.dt, self.states, self.inputs, self.outputs)
        return self.update, self.read, comparable(params), *named

    @property
    def integrator(self) -> str:
        """How the plant was made from one in continuous time; empty if it was not."""
        if isinstance(self.update, _Integrated):
            return self.update.text
        return ""

    def next_states(self, t: float, states: NDArray, inputs: NDArray) -> NDArray:
        """x(t+1) (n,) or (n, trials) of states and inputs (m,) or (m, trials)."""
        given = self.called(self.update, t, states, inputs)
        return _rows(given, self.order, states.shape, "update function")

    def read_outputs(self, t: float, states: NDArray, inputs: NDArray) -> NDArray:
        """y(t) (p,) or (p, trials)."""
        count = len(self.outputs)
        if self.read is None:
            return states[:count].copy()
        given = self.called(self.read, t, states, inputs)
        return _rows(given, count, states.shape, "output function")

    def called(
        self, function: Callable[..., Any], t: float, states: NDArray, inputs: NDArray
    ) -> Any:
        """What the user's function returns for copies of its arguments."""
        return function(t, states.copy(), inputs.copy(), dict(self.params))


def is_nonlinear(sys: object) -> bool:
    """Whether a system is one of nonlinear functions."""
    if isinstance(sys, NonlinearPlant):
        return True
    linear = (ct.StateSpace, ct.TransferFunction)
    return isinstance(sys, ct.NonlinearIOSystem) and not isinstance(sys, linear)


def entries_of(values: ArrayLike) -> list:
    """What a function returned, as a list of numbers."""
    if np.ndim(values) == 0 and not isinstance(values, np.ndarray):
        return [values]
    return np.ravel(np.asarray(values, object)).tolist()


def _rows(given: ArrayLike, count: int, shape: tuple[int, ...], what: str) -> NDArray:
    """What a function returned as (count,) or (count, trials)."""
    if isinstance(given, (list, tuple)):
        given = np.stack([np.broadcast_to(row, shape[1:]) for row in given])
    rows = np.asarray(given, float)
    if rows.ndim < 2 and len(shape) == 1:
        rows = rows.reshape(-1)
    if rows.shape != (count, *shape[1:]):
        raise ct.ControlDimension(
            f"{what}: expected shape {(count, *shape[1:])}, got {rows.shape}"
        )
    return rows


@dataclass(frozen=True)
class _Integrated:
    """The update function of a continuous-time system over one sample, input held."""

    rate: Callable[..., Any]
    step: float
    substeps: int
    method: str

    @property
    def text(self) -> str:
        steps = "1 step" if self.substeps == 1 else f"{self.substeps} steps"
        return f"sampled every {self.step:g} by {self.method}, {steps} a sample"

    def __call__(
        self, t: float, x: NDArray, u: NDArray, params: Mapping[str, object]
    ) -> NDArray:
        def rate(time: float, state: NDArray) -> NDArray:
            values = self.rate(time, state, u, params)
            if state.dtype == object:
                return np.array(entries_of(values), object)
            return _rows(values, len(state), state.shape, "update function")

        h = self.step / self.substeps
        for _ in range(self.substeps):
            slope = rate(t, x)
            if self.method == "rk4":
                middle = t + h / 2
                second = rate(middle, x + h / 2 * slope)
                third = rate(middle, x + h / 2 * second)
                last = rate(t + h, x + h * third)
                slope = (slope + 2 * second + 2 * third + last) / 6
            x = x + h * slope
            t = t + h
        return x


def sample_nonlinear(
    sys: ct.NonlinearIOSystem, Ts: float, *, method: str = "rk4", substeps: int = 1
) -> ct.NonlinearIOSystem:
    """Sample a nonlinear system by an integrator of fixed step.

    Inputs are held over a sample. Guarantees and simulations are those of this system,
    so choose steps that are short enough for the continuous one.

    Parameters
    ----------
    sys : control.NonlinearIOSystem
        Continuous-time system with n states.
    Ts : float
        Sampling time in the plant's unit of time.
    method : {"rk4", "euler"}, optional
        Classical Runge-Kutta steps of fourth order, or Euler steps.
    substeps : int, optional
        Steps in a sample.

    Returns
    -------
    control.NonlinearIOSystem
        With the names of ``sys``.

    Raises
    ------
    control.ControlArgument
        If ``sys`` is linear or in discrete time.
    ValueError
        If the sampling time is not positive, or ``substeps`` no positive integer.

    Examples
    --------
    >>> import control as ct, numpy as np, privcontrol as pc
    >>> def level(t, x, u, params):
    ...     return [u[0] - 0.2 * np.sqrt(x[0])]
    >>> tank = ct.nlsys(level, None, states=["level"], inputs=["flow"], outputs=["level"])
    >>> sampled = pc.sample_nonlinear(tank, 1.0, substeps=2)
    >>> sampled.dynamics(0, [4.0], [0.4]).round(6)
    array([4.])
    """
    if not is_nonlinear(sys) or isinstance(sys, NonlinearPlant):
        raise ct.ControlArgument(
            f"sys: expected a NonlinearIOSystem, got {type(sys).__name__}; sample a "
            "linear one with sys.sample(Ts)"
        )
    if ct.isdtime(sys, strict=True):
        raise ct.ControlArgument(
            f"sys: expected continuous time, got discrete time with dt = {sys.dt}"
        )
    if not sys.nstates:
        raise ct.ControlArgument(
            "sys: expected the names of the states; pass states= to ct.nlsys"
        )
    update = _Integrated(
        sys.updfcn,
        positive_number(Ts, "Ts"),
        positive_integer(substeps, "substeps"),
        one_of(method, "method", _METHODS),
    )
    return ct.nlsys(
        update,
        sys.outfcn,
        params=sys.params,
        inputs=sys.input_labels,
        outputs=sys.output_labels,
        states=sys.state_labels,
        dt=float(Ts),
        name=sys.name,
    )
