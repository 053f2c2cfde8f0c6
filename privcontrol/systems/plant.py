"""The plant as matrices, labels and sampling time.

python-control systems cannot be pickled and are mutable. Everything in this package holds a
`Plant` and builds python-control objects on access.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import control as ct
import numpy as np

from ..core._linalg import real_array
from ..core._objects import ByContent
from .linear import LinearSystem


@dataclass(frozen=True, eq=False, kw_only=True)
class SampledSystem(ByContent):
    """Sampling time and names of a plant in discrete time, linear or not."""

    dt: float | bool
    states: tuple[str, ...]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    name: str = field(compare=False)

    @property
    def order(self) -> int:
        """Number of states n."""
        return len(self.states)

    @property
    def step(self) -> float:
        """Length of one sample in seconds, one for ``dt=True``."""
        return 1.0 if self.dt is True else float(self.dt)

    @property
    def time_label(self) -> str:
        """Label of time axes in seconds, or in samples for ``dt=True``."""
        return "Time [samples]" if self.dt is True else "Time [s]"


@dataclass(frozen=True, eq=False)
class Plant(SampledSystem, LinearSystem):
    """A linear system of arrays with a sampling time and names."""

    @classmethod
    def of(cls, sys: ct.StateSpace | Plant) -> Plant:
        """The plant of a discrete-time StateSpace.

        Raises
        ------
        control.ControlArgument
            For transfer functions, nonlinear systems and continuous or unspecified time.
            The message says what to call.
        ValueError
            If a matrix is not finite, the sampling time is not positive and finite, the
            system has no state or no output, or two states, inputs or outputs have one
            name.
        """
        if isinstance(sys, Plant):
            return sys
        check_discrete(sys)
        if not sys.nstates or not sys.noutputs:
            raise ValueError(
                "sys: expected at least one state and one output, "
                f"got {sys.nstates} and {sys.noutputs}"
            )
        # python-control keeps only one of two equal names
        counts = {"state": sys.nstates, "input": sys.ninputs, "output": sys.noutputs}
        for kind, count in counts.items():
            if len(getattr(sys, f"{kind}_labels")) != count:
                raise ValueError(
                    f"sys: expected {count} different {kind} names, got fewer; "
                    f"rename the {kind}s"
                )
        return cls(
            A=real_array(sys.A, "sys.A", ndim=2),
            B=real_array(sys.B, "sys.B", ndim=2),
            C=real_array(sys.C, "sys.C", ndim=2),
            D=real_array(sys.D, "sys.D", ndim=2),
            dt=sys.dt,
            states=tuple(sys.state_labels),
            inputs=tuple(sys.input_labels),
            outputs=tuple(sys.output_labels),
            name=sys.name,
        )

    def _saved_fields(self) -> dict[str, object]:
        return super()._saved_fields() | {"fingerprint": self.fingerprint}

    @classmethod
    def _restored(cls, saved: dict[str, Any]) -> Plant:
        fingerprint = saved.pop("fingerprint")
        plant = cls(**saved)
        if plant.fingerprint != fingerprint:
            raise ValueError("path: a plant of the file does not match its fingerprint")
        return plant

    def statespace(self) -> ct.StateSpace:
        """Return the plant as a python-control system."""
        B, D = self.B, self.D
        if not self.inputs:  # python-control makes none of matrices without columns
            B = np.zeros((self.order, 1))
            D = np.zeros((len(self.outputs), 1))
        system = ct.ss(
            self.A,
            B,
            self.C,
            D,
            self.dt,
            states=list(self.states),
            inputs=list(self.inputs) or None,
            outputs=list(self.outputs),
            name=self.name,
        )
        if not self.inputs:
            system.B, system.D = self.B, self.D
            system.set_inputs(0)
        return system

    @cached_property
    def fingerprint(self) -> str:
        """Twelve hexadecimal digits that tell plants apart.

        The start of a SHA-256 sum of A, B, C, D, the sampling time and the names of
        states, inputs and outputs. The name of the system itself does not count.
        """
        digest = hashlib.sha256()
        for matrix in self.matrices:
            unsigned = np.ascontiguousarray(matrix + 0.0)  # -0.0 is 0.0
            digest.update(repr(matrix.shape).encode())
            digest.update(unsigned.tobytes())
        named = (self.dt, self.states, self.inputs, self.outputs)
        digest.update(repr(named).encode())
        return digest.hexdigest()[:12]

    def differences(self, other: Plant) -> list[str]:
        """List the matrices, times and names in which another plant differs."""
        found = []
        for name in ("A", "B", "C", "D"):
            if not np.array_equal(getattr(self, name), getattr(other, name)):
                found.append(name)
        if self.dt != other.dt:
            found.append(f"dt ({self.dt} in place of {other.dt})")
        for kind in ("states", "inputs", "outputs"):
            mine = getattr(self, kind)
            theirs = getattr(other, kind)
            if mine != theirs:
                found.append(
                    f"naming of {kind} ({', '.join(mine)} in place of "
                    f"{', '.join(theirs)})"
                )
        return found

    def check_outputs_of(self, nominal: Plant, name: str) -> None:
        """Make sure that outputs and sampling time are those of another plant.

        Raises
        ------
        control.ControlDimension
            If they are not.
        """
        if self.outputs != nominal.outputs or self.dt != nominal.dt:
            raise ct.ControlDimension(
                f"{name}: expected plants with outputs {', '.join(nominal.outputs)} and "
                f"dt = {nominal.dt}, got outputs {', '.join(self.outputs)} and "
                f"dt = {self.dt}"
            )


#: What to do with other systems.
_WAYS_TO_A_PLANT = {
    ct.TransferFunction: "convert it with ct.ss(sys)",
    ct.FrequencyResponseData: (
        "fit a model to the frequency responses (FRD) first, or to recorded data with "
        "identify_outputs"
    ),
    ct.NonlinearIOSystem: (
        "for a nonlinear system pass box.nominal, and models=box to the design of its "
        "noise, with box = jacobian_polytope(sys, region): a linearisation alone hides "
        "nothing"
    ),
}


def check_discrete(sys: object) -> None:
    """Refuse everything but a discrete-time StateSpace."""
    if not isinstance(sys, ct.StateSpace):
        way = "make one with ct.ss(A, B, C, D, dt, states=[...], inputs=[...], outputs=[...])"
        for kind, advice in _WAYS_TO_A_PLANT.items():
            if isinstance(sys, kind):
                way = advice
        raise ct.ControlArgument(
            f"sys: expected a StateSpace, got {type(sys).__name__}; {way}"
        )
    unspecified = {0: "continuous time (dt = 0)", None: "unspecified time (dt = None)"}
    if sys.dt in unspecified:
        raise ct.ControlArgument(
            f"sys: expected a discrete-time system, got {unspecified[sys.dt]}; "
            "discretise it with sys.sample(Ts), or state dt in ct.ss"
        )
    if sys.dt is not True and not 0 < sys.dt < np.inf:
        raise ct.ControlArgument(
            f"sys: expected a positive finite sampling time, got dt = {sys.dt}"
        )
