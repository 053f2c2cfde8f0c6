"""The algorithms of the literature to compare private consensus with.

All have one rule,

    y(t) = x(t) + w(t),    x(t+1) = x(t) + h (W y(t) - y(t) + s w(t)),

with the averaging matrix W = I - L of a network, a step h and a share s. They differ in
these two numbers and in the noise w, a linear map of standard noise. If one node's value
moves by d, then w(t) = -d |1 - h s|^t explains the same messages. Privacy against an
eavesdropper of all links is the norm of the standard noises that this takes, exactly. In the
docstrings d is the radius of a move and c the `scale` of the noise.
"""

from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from ..core._linalg import EPS, instance_of, positive_integer, positive_number
from ..core._random import Seed, generator
from ..core.guarantee import PrivacyGuarantee, Scope
from ..core.noise import Noise, family_of
from .adjacency import NodeAdjacency
from .network import Network, Values

#: Numbers that `run` may hold.
_LARGEST = 10**9


@dataclass(frozen=True)
class ConsensusAlgorithm:
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
    """

    network: Network
    steps: int
    scale: float = 1.0
    family: str = "laplace"

    # fields of those algorithms that let a user choose them
    step = 1.0  # h
    share = 0.0  # s
    decay = 1.0  # of the noise from one message to the next

    def __post_init__(self) -> None:
        instance_of(self.network, Network, "network", "read_network(graph)")
        if positive_integer(self.steps, "steps") * len(self.network) > _LARGEST:
            most = _LARGEST // len(self.network)
            raise ValueError(f"steps: expected at most {most}, got {self.steps}")
        positive_number(self.scale, "scale")
        family_of(self.family)

    def _noise(self, standard: NDArray, t: int) -> NDArray:
        """w(t) from all standard noise, which is drawn for every t."""
        return self.decay**t * standard[t]

    @property
    def shifts(self) -> NDArray:
        """Displacements (T,) of the standard noises by a unit move."""
        fading = abs(1 - self.step * self.share)
        ratio = fading / self.decay if fading else 0.0
        return ratio ** np.arange(self.steps)

    @property
    def _law(self) -> type[Noise]:
        return family_of(self.family)

    def run(self, initial: NDArray, noise: NDArray) -> tuple[NDArray, NDArray]:
        """All messages and states (T + 1, n, k) of k runs, linear in the arguments.

        They are x(0), shape (n, k), and the standard noise (T + 1, n, k) times `scale`, of
        which the last one serves the message at T that nobody needs to send.
        """
        messages = np.empty_like(noise)
        states = np.empty_like(noise)
        x = initial
        for t in range(self.steps + 1):
            w = self._noise(noise, t)
            y = x + w
            messages[t] = y
            states[t] = x
            x = x + self.step * (self.network.iteration @ y - y + self.share * w)
        return messages, states

    def guarantee(self, radius: float) -> PrivacyGuarantee:
        """What the messages y(0) .. y(T-1) promise for one node's move by `radius`."""
        radius = positive_number(radius, "radius")
        sizes = radius / self.scale * self.shifts * (1 + 4 * EPS)
        if not np.isfinite(sizes).all():
            raise ValueError(
                "radius: expected one that noise of this scale can hide, got a loss beyond "
                "the range of floats"
            )
        assumptions = (f"{self.steps} rounds of messages", "no state is published")
        scope = Scope.of(
            NodeAdjacency(radius), self.network.domain(), assumptions=assumptions
        )
        loss = self._law.loss_of_columns(sizes[:, None])
        return PrivacyGuarantee(loss, scope, quoted_delta=self._law.quoted_delta)

    def calibrated(self, shift: float, radius: float) -> Self:
        """The algorithm with the least noise for a privacy loss of all messages.

        The shift is the GDP parameter (Gaussian) or epsilon (Laplace).
        """
        allowed = positive_number(shift, "shift")
        radius = positive_number(radius, "radius")
        unit_loss = float(np.linalg.norm(self.shifts, self._law.shift_norm))
        scale = radius * unit_loss / allowed
        return replace(self, scale=scale * (1 + 1e-12))

    def squared_error(
        self, initial_values: Values, *, trials: int, rng: Seed = None
    ) -> dict[str, NDArray]:
        """sum_i (readout_i(T) - mean(x(0)))^2 of every trial (trials,), by readout.

        The readouts are the ``state``, the last ``message``, and the ``average`` of the
        states over the second half of the run. The same seed gives every algorithm the same
        draws.
        """
        x = self.network.initial_values(initial_values)
        trials = positive_integer(trials, "trials")
        shape = (trials, self.steps + 1, len(x))
        numbers = shape[1] * shape[2]
        if float(trials) * numbers > _LARGEST:
            raise ValueError(
                f"trials: expected at most {_LARGEST // numbers} of so many steps and "
                f"nodes, got {trials}"
            )
        standard = self._law.standard(generator(rng), shape)
        noise = self.scale * np.moveaxis(standard, 0, -1)
        readouts = self._readouts(np.repeat(x[:, None], trials, axis=1), noise)
        errors = {}
        for name, readout in readouts.items():
            errors[name] = ((readout - x.mean()) ** 2).sum(axis=0)
        return errors

    def mean_square_error(self, initial_values: Values) -> dict[str, float]:
        """Exact expectation of `squared_error`, by readout.

        It takes the response to each noise alone, for n T small.
        """
        x = self.network.initial_values(initial_values)
        n = len(x)
        times = self.steps + 1
        draws = times * n
        silence = np.zeros((times, n, 1))
        means = self._readouts(x[:, None], silence)
        each = np.eye(draws).reshape(times, n, draws)
        gains = self._readouts(np.zeros((n, draws)), each)
        variance = self._law.unit_variance * self.scale**2
        errors = {}
        for name, gain in gains.items():
            bias = means[name] - x.mean()
            total = (bias**2).sum() + variance * (gain**2).sum()
            errors[name] = float(total)
        return errors

    def _readouts(self, initial: NDArray, noise: NDArray) -> dict[str, NDArray]:
        """What an agent may use at the end of each run."""
        messages, states = self.run(initial, noise)
        late = states[(self.steps + 1) // 2 :].mean(axis=0)
        return {"state": states[-1], "message": messages[-1], "average": late}


class KeptNoise(ConsensusAlgorithm):
    """One draw of noise for all messages, as `private_consensus` has it.

    Rule: h = 1, s = 0, w(t) = eta. Privacy: epsilon = d / c, or y = d / c, for any number of
    rounds. Error: the messages agree on the average up to the variance v c^2 / n, with v = 1
    (Gaussian) or 2 (Laplace). Source: DPAM eq. (25) and Theorem 4.

    Examples
    --------
    >>> import privcontrol as pc
    >>> network = pc.consensus.read_network(pc.plants.ten_agent_graph())
    >>> round(pc.consensus.KeptNoise(network, 60, scale=2.0).guarantee(1.0).epsilon(0.0), 9)
    0.5
    """

    def _noise(self, standard: NDArray, t: int) -> NDArray:
        return standard[0]

    @property
    def shifts(self) -> NDArray:
        return np.ones(1)


class FreshNoise(ConsensusAlgorithm):
    """Independent noise of one size in every message.

    Rule: h = 1, s = 0, w(t) = eta(t). Privacy: a move displaces the noise of all T messages,
    so that y = sqrt(T) d / c (Gaussian) or epsilon = T d / c (Laplace). Error: the states
    keep the exact average and never settle.

    Examples
    --------
    >>> import privcontrol as pc
    >>> network = pc.consensus.read_network(pc.plants.ten_agent_graph())
    >>> round(pc.consensus.FreshNoise(network, 60, scale=2.0).guarantee(1.0).epsilon(0.0), 9)
    30.0
    """


@dataclass(frozen=True)
class HuangMitraDullerud(ConsensusAlgorithm):
    """Decaying Laplace noise q^t eta(t), and a step h towards the neighbours' average.

    Rule: x(t+1) = (1 - h) x(t) + h W y(t), which is s = 1, with the doubly stochastic weights
    W of the network in place of the paper's central server. Privacy: a move shrinks by 1 - h
    at every step, so that epsilon = d q / (c (q + h - 1)). Error: the average keeps the
    variance 2 h^2 c^2 / (n (1 - q^2)), which falls with h. At a given epsilon
    q = (1 - h)^(1/3) makes it least. Source: Huang, Mitra, Dullerud (2012), Differentially
    private iterative synchronous consensus, WPES.

    Parameters
    ----------
    network, steps, scale, family
        As for `ConsensusAlgorithm`.
    step : float, optional
        h, in (0, 1).
    decay : float, optional
        q, in (1 - h, 1); the best one by default.

    Examples
    --------
    >>> import privcontrol as pc
    >>> network = pc.consensus.read_network(pc.plants.ten_agent_graph())
    >>> huang = pc.consensus.HuangMitraDullerud(network, 60, step=0.5, decay=0.8)
    >>> round(huang.guarantee(1.0).epsilon(0.0), 6)  # q / (q + h - 1)
    2.666667
    """

    step: float = 0.5
    decay: Any = None
    share = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        _check_between(self.step, "step", 1)
        _check_decay(self, 1 - self.step)


@dataclass(frozen=True)
class NozariTallapragadaCortes(ConsensusAlgorithm):
    """Decaying Laplace noise q^t eta(t), a share s of which enters the agent's own state.

    Rule: h = 1. Privacy: epsilon = d q / (c (q - |s - 1|)). Error: agreement on the average
    up to the variance 2 s^2 c^2 / (n (1 - q^2)). The optimum at a given epsilon is s = 1,
    q = 0, the default: one draw of noise, and then plain averaging of the first messages.
    Only with s = 1 may the messages go on without noise. Source: Nozari, Tallapragada,
    Cortes (2017), Automatica 81, 221-231.

    Parameters
    ----------
    network, steps, scale, family
        As for `ConsensusAlgorithm`.
    share : float, optional
        s, in (0, 2).
    decay : float, optional
        q, in (|s - 1|, 1).

    Examples
    --------
    >>> import privcontrol as pc
    >>> network = pc.consensus.read_network(pc.plants.ten_agent_graph())
    >>> nozari = pc.consensus.NozariTallapragadaCortes(network, 60, share=0.9, decay=0.5)
    >>> round(nozari.guarantee(1.0).epsilon(0.0), 6)  # q / (q - |s - 1|)
    1.25
    """

    share: float = 1.0
    decay: Any = None

    def __post_init__(self) -> None:
        super().__post_init__()
        _check_between(self.share, "share", 2)
        _check_decay(self, abs(1 - self.share))


@dataclass(frozen=True)
class MoMurray(ConsensusAlgorithm):
    """Correlated Gaussian noise that sums to zero, so that the average is exact.

    Rule: x(t+1) = W y(t), which is h = s = 1, with w(0) = v(0) and
    w(t) = phi^t v(t) - phi^(t-1) v(t-1). Privacy: none of the differential kind against an
    eavesdropper of all links. The running sum of the noises leaves him the readings
    x(0) + phi^t v(t), so that y^2 = (d / c)^2 (phi^(-2T) - 1) / (phi^-2 - 1) for T rounds.
    (The paper protects against one curious agent, who does not see all links, and measures
    the covariance of its estimate.) Error: none in the limit. Source: Mo, Murray (2017),
    Privacy preserving average consensus, IEEE Transactions on Automatic Control 62(2),
    753-765.

    Parameters
    ----------
    network, steps, scale, family
        As for `ConsensusAlgorithm`.
    decay : float, optional
        phi, in (0, 1).

    Examples
    --------
    >>> from privcontrol.consensus import MoMurray, read_network
    >>> from privcontrol.plants import ten_agent_graph
    >>> network = read_network(ten_agent_graph())
    >>> [round(MoMurray(network, rounds).guarantee(1.0).gdp, 1) for rounds in (10, 30)]
    [5.5, 48.7]
    """

    family: str = "gaussian"
    decay: float = 0.9
    share = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        _check_between(self.decay, "decay", 1)

    def _noise(self, standard: NDArray, t: int) -> NDArray:
        w = self.decay**t * standard[t]
        if t:
            w = w - self.decay ** (t - 1) * standard[t - 1]
        return w

    @property
    def shifts(self) -> NDArray:
        with np.errstate(over="ignore"):
            return self.decay ** -np.arange(float(self.steps))


def _check_between(value: float, name: str, end: float) -> None:
    """Refuse what is no number strictly between 0 and an end."""
    if not positive_number(value, name) < end:
        raise ValueError(f"{name}: expected a number in (0, {end:g}), got {value}")


def _check_decay(algorithm: ConsensusAlgorithm, fading: float) -> None:
    """Set the best decay if none is given, and refuse noise that fades before a move."""
    if algorithm.decay is None:
        object.__setattr__(algorithm, "decay", fading ** (1 / 3))
    decay = positive_number(algorithm.decay, "decay", zero=True)
    is_one_shot = fading == 0 and decay == 0
    if not (fading < decay < 1 or is_one_shot):
        raise ValueError(
            f"decay: expected a number in ({fading:.6g}, 1), got {decay}; a move must "
            "fade faster"
        )
