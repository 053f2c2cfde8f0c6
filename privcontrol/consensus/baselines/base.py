"""Compare algorithms of the literature by what they have in common.

Every one is a linear map from the initial values and standard noise to messages and states
(`_step`), and a sequence of shifts: how far, in units of its noise, a node's move displaces
each of the noises that explain the same messages. Its privacy against an eavesdropper of all
links is the norm of these shifts, exactly.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...core._linalg import instance_of, positive_integer, positive_number
from ...core._random import generator
from ...core.guarantee import PrivacyGuarantee, Scope
from ...core.noise import family_of
from ..adjacency import NodeAdjacency
from ..network import Network, Values

#: What an agent may use: its state, its last message, or the average of its states over the
#: second half of the run.
COMPARED_READOUTS = ("state", "message", "average")

#: Numbers that `run` may hold.
_LARGEST = 10**9


@dataclass(frozen=True)
class ConsensusAlgorithm(ABC):
    """Average consensus on a network with noise of one size, of which algorithms derive.

    Parameters
    ----------
    network : Network
    steps : int
        T: messages y(0) .. y(T-1) are sent, and the readouts are those at time T.
    scale : float, optional
        Standard deviation of Gaussian, or scale of Laplace noise, at the first step.
    family : {"gaussian", "laplace"}, optional

    Examples
    --------
    >>> from privcontrol.consensus import *
    >>> from privcontrol.plants import ten_agent_graph
    >>> network = read_network(ten_agent_graph())
    >>> for kind in (KeptNoise, HuangMitraDullerud, NozariTallapragadaCortes):
    ...     algorithm = kind(network, 60).calibrated(1.0, radius=1.0)
    ...     print(type(algorithm).__name__, round(algorithm.scale, 3))
    KeptNoise 1.0
    HuangMitraDullerud 2.702
    NozariTallapragadaCortes 1.0
    >>> [round(MoMurray(network, rounds).guarantee(1.0).gdp, 1) for rounds in (10, 30, 60)]
    [5.5, 48.7, 1149.0]
    """

    network: Network
    steps: int
    scale: float = 1.0
    family: str = "laplace"

    def __post_init__(self) -> None:
        instance_of(self.network, Network, "network", "read_network(graph)")
        if positive_integer(self.steps, "steps") * len(self.network) > _LARGEST:
            raise ValueError(
                f"steps: expected at most {_LARGEST // len(self.network)}, got {self.steps}"
            )
        positive_number(self.scale, "scale")
        family_of(self.family)

    @property
    @abstractmethod
    def shifts(self) -> NDArray:
        """Displacements (T,) of the noises, over their standard sizes, by a unit move."""

    @abstractmethod
    def _step(self, x: NDArray, noise: NDArray, t: int) -> tuple[NDArray, NDArray]:
        """Message y(t) and state x(t+1), from x(t) and all noise drawn until then."""

    def run(self, initial: NDArray, noise: NDArray) -> tuple[NDArray, NDArray]:
        """All messages and states (T + 1, n, k) of k runs, linear in the arguments.

        They are x(0), shape (n, k), and the standard noise (T + 1, n, k) times `scale`, of
        which the last one serves the message at T that nobody needs to send.
        """
        messages = np.empty_like(noise)
        states = np.empty_like(noise)
        x = initial
        for t in range(self.steps + 1):
            states[t] = x
            messages[t], x = self._step(x, noise, t)
        return messages, states

    def guarantee(self, radius: float) -> PrivacyGuarantee:
        """What the messages y(0) .. y(T-1) promise for one node's move by `radius`."""
        radius = positive_number(radius, "radius")
        rounding = 1 + 4 * np.finfo(float).eps
        sizes = radius / self.scale * np.abs(self.shifts) * rounding
        if not np.isfinite(sizes).all():
            raise ValueError(
                "radius: expected one that noise of this scale can hide, got a loss beyond "
                "the range of floats"
            )
        loss = family_of(self.family).loss_of_columns(sizes[:, None])
        scope = Scope.of(
            NodeAdjacency(radius),
            self.network.domain(),
            assumptions=(f"{self.steps} rounds of messages", "no state is published"),
        )
        quoted = family_of(self.family).quoted_delta
        return PrivacyGuarantee(loss, scope, quoted_delta=quoted)

    def calibrated(self, shift: float, radius: float) -> "ConsensusAlgorithm":
        """The algorithm with the least noise for a privacy loss of all messages.

        The shift is the GDP parameter (Gaussian) or epsilon (Laplace).
        """
        shift = positive_number(shift, "shift")
        radius = positive_number(radius, "radius")
        norm = np.linalg.norm(self.shifts, family_of(self.family).shift_norm)
        return replace(self, scale=float(radius * norm / shift * (1 + 1e-12)))

    def squared_error(
        self,
        initial_values: Values,
        *,
        trials: int,
        rng: int | np.random.Generator | None = None,
    ) -> dict[str, NDArray]:
        """sum_i (readout_i(T) - mean(x(0)))^2 of every trial (trials,), by readout.

        The same seed gives every algorithm the same draws.
        """
        x = self.network.initial_values(initial_values)
        trials = positive_integer(trials, "trials")
        shape = (trials, self.steps + 1, len(x))
        if float(trials) * shape[1] * shape[2] > _LARGEST:
            raise ValueError(
                f"trials: expected at most {_LARGEST // (shape[1] * shape[2])} of so many "
                f"steps and nodes, got {trials}"
            )
        standard = family_of(self.family).standard(generator(rng), shape)
        noise = self.scale * np.moveaxis(standard, 0, -1)
        start = np.repeat(x[:, None], trials, axis=1)
        readouts = self._readouts(*self.run(start, noise))
        errors = {}
        for name, readout in readouts.items():
            errors[name] = ((readout - x.mean()) ** 2).sum(axis=0)
        return errors

    def mean_square_error(self, initial_values: Values) -> dict[str, float]:
        """Exact E sum_i (readout_i(T) - mean(x(0)))^2, by readout.

        It takes the response to each noise alone, for n T small.
        """
        x = self.network.initial_values(initial_values)
        n = len(x)
        silence = np.zeros((self.steps + 1, n, 1))
        mean = self._readouts(*self.run(x[:, None], silence))
        unit = np.eye((self.steps + 1) * n).reshape(self.steps + 1, n, -1)
        gains = self._readouts(*self.run(np.zeros((n, unit.shape[-1])), unit))
        variance = family_of(self.family).unit_variance * self.scale**2
        errors = {}
        for name in COMPARED_READOUTS:
            bias = ((mean[name] - x.mean()) ** 2).sum()
            errors[name] = float(bias + variance * (gains[name] ** 2).sum())
        return errors

    def _readouts(self, messages: NDArray, states: NDArray) -> dict[str, NDArray]:
        late = states[(self.steps + 1) // 2 :].mean(axis=0)
        return {"state": states[-1], "message": messages[-1], "average": late}


class DecayingNoise(ConsensusAlgorithm):
    """Noise c q^t, q above the contraction r of a move, r^(1/3) by default.

    That decay has the least error of all.
    """

    decay: Any

    @property
    @abstractmethod
    def contraction(self) -> float:
        """Factor r by which a move shrinks at every step."""

    def __post_init__(self) -> None:
        super().__post_init__()
        slowest = self.contraction
        if self.decay is None:
            object.__setattr__(self, "decay", slowest ** (1 / 3))
        decay = positive_number(self.decay, "decay", zero=True)
        is_one_shot = slowest == 0 and decay == 0
        if not (slowest < decay < 1 or is_one_shot):
            raise ValueError(
                f"decay: expected a number in ({slowest:.6g}, 1), got {decay}; a move must "
                "fade faster"
            )

    @property
    def shifts(self) -> NDArray:
        t = np.arange(self.steps)
        if self.decay == 0:
            return (t == 0).astype(float)
        return (self.contraction / self.decay) ** t


def between(value: float, name: str, end: float) -> None:
    """Refuse what is no number strictly between 0 and an end."""
    if not positive_number(value, name) < end:
        raise ValueError(f"{name}: expected a number in (0, {end:g}), got {value}")
