"""The plant as plain data: matrices, labels and sampling time of a python-control StateSpace.

python-control systems cannot be pickled and are mutable; everything in this package holds a `Plant` and builds
python-control objects on access.
"""

import hashlib
from dataclasses import dataclass
from functools import cached_property

import control as ct
import numpy as np

from ..core._linalg import real_array


@dataclass(frozen=True)
class Plant:
    """x(t+1) = A x(t) + B u(t), y(t) = C x(t) + D u(t), in discrete time."""

    A: np.ndarray
    B: np.ndarray
    C: np.ndarray
    D: np.ndarray
    dt: float | bool
    states: tuple
    inputs: tuple
    outputs: tuple
    name: str

    @classmethod
    def of(cls, sys):
        """The plant of a discrete-time StateSpace.

        Raises
        ------
        control.ControlArgument
            For transfer functions, nonlinear systems and continuous or unspecified time; says what to call.
        ValueError
            If a matrix is not finite, the sampling time is not positive and finite, the system has no state or no
            output, or two states, inputs or outputs have one name.
        """
        if isinstance(sys, Plant):
            return sys
        if isinstance(sys, ct.TransferFunction):
            raise ct.ControlArgument(
                "sys: expected a StateSpace, got a TransferFunction; convert it with ct.ss(sys)"
            )
        if not isinstance(sys, ct.StateSpace):
            raise ct.ControlArgument(
                f"sys: expected a StateSpace, got {type(sys).__name__}; linearise a nonlinear system with sys.linearize "
                "and pass the result of ct.ss"
            )
        if sys.dt is None or sys.dt == 0:
            kind = (
                "continuous time (dt = 0)"
                if sys.dt == 0
                else "unspecified time (dt = None)"
            )
            raise ct.ControlArgument(
                f"sys: expected a discrete-time system, got {kind}; discretise it with sys.sample(Ts), or state dt in ct.ss"
            )
        if not sys.nstates or not sys.noutputs:
            raise ValueError(
                f"sys: expected at least one state and one output, got {sys.nstates} and {sys.noutputs}"
            )
        if not (sys.dt is True or 0 < sys.dt < np.inf):
            raise ct.ControlArgument(
                f"sys: expected a positive finite sampling time, got dt = {sys.dt}"
            )
        for kind, count in (
            ("state", sys.nstates),
            ("input", sys.ninputs),
            ("output", sys.noutputs),
        ):
            if (
                len(getattr(sys, f"{kind}_labels")) != count
            ):  # python-control keeps one of equal names
                raise ValueError(
                    f"sys: expected {count} different {kind} names, got fewer; rename the {kind}s"
                )
        return cls(
            *(real_array(getattr(sys, name), f"sys.{name}", ndim=2) for name in "ABCD"),
            sys.dt,
            tuple(sys.state_labels),
            tuple(sys.input_labels),
            tuple(sys.output_labels),
            sys.name,
        )

    @cached_property
    def fingerprint(self):
        """Twelve hexadecimal digits that tell plants apart.

        The start of a SHA-256 sum of A, B, C, D, the sampling time and the names of states, inputs and outputs. The
        name of the system itself does not count.
        """
        digest = hashlib.sha256()
        for matrix in (self.A, self.B, self.C, self.D):
            unsigned = np.ascontiguousarray(matrix + 0.0)  # -0.0 is 0.0
            digest.update(repr(matrix.shape).encode() + unsigned.tobytes())
        named = (self.dt, self.states, self.inputs, self.outputs)
        digest.update(repr(named).encode())
        return digest.hexdigest()[:12]

    @property
    def order(self):
        """Number of states n."""
        return len(self.A)

    @property
    def step(self):
        """Length of one sample in seconds; one for ``dt=True``."""
        return 1.0 if self.dt is True else float(self.dt)

    @property
    def time_label(self):
        """Label of time axes: seconds, or samples for ``dt=True``."""
        return "Time [samples]" if self.dt is True else "Time [s]"

    def state_index(self, names, what="states"):
        """Positions of states given by name or index.

        Raises
        ------
        ValueError
            If a name is unknown, an index is out of range, or one appears twice.
        """
        index = []
        for name in names:
            if isinstance(name, str) and name in self.states:
                index.append(self.states.index(name))
            elif (
                isinstance(name, (int, np.integer))
                and not isinstance(name, bool)
                and 0 <= name < self.order
            ):
                index.append(int(name))
            else:
                raise ValueError(
                    f"{what}: {name!r} is no state of the plant; known states: {', '.join(self.states)}"
                )
        if len(set(index)) != len(index):
            raise ValueError(
                f"{what}: a state is named twice; name each protected state once"
            )
        return index
