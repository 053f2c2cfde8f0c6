"""The algorithms of the literature to compare private consensus with, on one interface.

Every one is a linear map from the initial values and standard noise to messages and states (`_step`), and a sequence
of shifts: how far, in units of its noise, a node's move displaces each of the noises that explain the same messages.
Its privacy against an eavesdropper of all links is the norm of these shifts, exactly.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np

from ..core._linalg import one_of, positive_integer, positive_number
from ..core._losses.gaussian import GaussianLoss, root_up
from ..core._losses.laplace import LaplaceLoss
from ..core.guarantee import PrivacyGuarantee, Scope
from ..core.noise import GaussianNoise, LaplaceNoise
from ._propagation import STANDARD
from .adjacency import NodeAdjacency, initial_values as node_initial_values
from .weights import Network

#: What an agent may use: its state, its last message, or the average of its states over the second half of the run.
COMPARED_READOUTS = ("state", "message", "average")


@dataclass(frozen=True)
class ConsensusAlgorithm(ABC):
    """Average consensus on a network with noise of one size; subclasses are the algorithms.

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
    >>> from privcontrol.consensus import read_network
    >>> from privcontrol.plants import ten_agent_graph
    >>> network = read_network(ten_agent_graph())
    >>> for algorithm in (KeptNoise(network, 60), HuangMitraDullerud(network, 60), NozariTallapragadaCortes(network, 60)):
    ...     print(type(algorithm).__name__, round(algorithm.calibrated(1.0, radius=1.0).scale, 3))
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

    def __post_init__(self):
        positive_integer(self.steps, "steps")
        positive_number(self.scale, "scale")
        one_of(self.family, "family", ("gaussian", "laplace"))

    @property
    @abstractmethod
    def shifts(self):
        """Displacements (T,) of the noises, over their standard sizes, that a unit move of one node needs."""

    @abstractmethod
    def _step(self, x, noise, t):
        """Message y(t) and state x(t+1), from x(t) and all noise drawn until then."""

    def run(self, initial, noise):
        """All messages and states, a linear function of its arguments.

        Parameters
        ----------
        initial : ndarray, shape (n, k)
            x(0) of k runs.
        noise : ndarray, shape (T + 1, n, k)
            Standard noise times `scale`; the last one serves the message at T, which nobody needs to send.

        Returns
        -------
        messages, states : ndarray, shape (T + 1, n, k)
        """
        messages, states = np.empty_like(noise), np.empty_like(noise)
        x = initial
        for t in range(self.steps + 1):
            states[t] = x
            messages[t], x = self._step(x, noise, t)
        return messages, states

    def guarantee(self, radius):
        """What the messages y(0) .. y(T-1) promise, as a `PrivacyGuarantee` for one node's move by `radius`."""
        radius = positive_number(radius, "radius")
        sizes = (
            radius / self.scale * np.abs(self.shifts) * (1 + 4 * np.finfo(float).eps)
        )
        if self.family == "gaussian":
            loss = GaussianLoss(
                root_up(sum(Fraction(float(size)) ** 2 for size in sizes))
            )
        else:
            loss = LaplaceLoss.of(sizes[:, None])
        assumptions = (f"{self.steps} rounds of messages", "no state is published")
        scope = Scope.of(
            NodeAdjacency(radius),
            self.network.initial_values(),
            assumptions=assumptions,
        )
        return PrivacyGuarantee(
            loss, scope, quoted_delta=1e-5 if self.family == "gaussian" else 0.0
        )

    def calibrated(self, shift, radius):
        """The algorithm with the least noise whose guarantee has this GDP parameter (Gaussian) or epsilon (Laplace)."""
        norm = np.linalg.norm(self.shifts, 2 if self.family == "gaussian" else 1)
        return replace(self, scale=float(radius * norm / shift * (1 + 1e-12)))

    def squared_error(self, initial_values, *, trials, rng=None):
        """sum_i (readout_i(T) - mean(x(0)))^2 of every trial (trials,), by readout."""
        x = node_initial_values(self.network, initial_values)
        generator = np.random.default_rng(rng)
        shape = (
            positive_integer(trials, "trials"),
            self.steps + 1,
            len(x),
        )  # the same draws for every algorithm
        noise = np.moveaxis(STANDARD[self.family](generator, size=shape), 0, -1)
        errors = self._readouts(
            *self.run(np.repeat(x[:, None], trials, axis=1), self.scale * noise)
        )
        return {
            name: ((readout - x.mean()) ** 2).sum(axis=0)
            for name, readout in errors.items()
        }

    def mean_square_error(self, initial_values):
        """Exact E sum_i (readout_i(T) - mean(x(0)))^2, by readout: the response to each noise alone, for n T small."""
        x, n = node_initial_values(self.network, initial_values), len(self.network)
        mean = self._readouts(*self.run(x[:, None], np.zeros((self.steps + 1, n, 1))))
        unit = np.eye((self.steps + 1) * n).reshape(self.steps + 1, n, -1)
        gains = self._readouts(*self.run(np.zeros((n, unit.shape[-1])), unit))
        variance = {"gaussian": GaussianNoise, "laplace": LaplaceNoise}[
            self.family
        ].unit_variance * self.scale**2
        return {
            name: float(
                ((mean[name] - x.mean()) ** 2).sum()
                + variance * (gains[name] ** 2).sum()
            )
            for name in mean
        }

    def _readouts(self, messages, states):
        late = states[(self.steps + 1) // 2 :].mean(axis=0)
        return dict(zip(COMPARED_READOUTS, (states[-1], messages[-1], late)))


class KeptNoise(ConsensusAlgorithm):
    """One draw of noise for all messages: `private_consensus`, here to be compared (DPAM eq. (25), Theorem 4).

    Examples
    --------
    >>> from privcontrol.consensus import KeptNoise, read_network
    >>> from privcontrol.plants import ten_agent_graph
    >>> round(KeptNoise(read_network(ten_agent_graph()), 60, scale=2.0).guarantee(1.0).epsilon(0.0), 9)
    0.5
    """

    @property
    def shifts(self):
        return np.ones(1)

    def _step(self, x, noise, t):
        y = x + noise[0]
        return y, x - y + self.network.iteration @ y


class FreshNoise(ConsensusAlgorithm):
    """Independent noise of one size in every message.

    A node's move displaces the noise of all T messages, which costs sqrt(T) (Gaussian) or T (Laplace) in privacy.

    Examples
    --------
    >>> from privcontrol.consensus import FreshNoise, read_network
    >>> from privcontrol.plants import ten_agent_graph
    >>> network = read_network(ten_agent_graph())
    >>> round(FreshNoise(network, 60, scale=2.0).guarantee(1.0).epsilon(0.0), 9)
    30.0
    """

    @property
    def shifts(self):
        return np.ones(self.steps)

    def _step(self, x, noise, t):
        y = x + noise[t]
        return y, x - y + self.network.iteration @ y


@dataclass(frozen=True)
class HuangMitraDullerud(ConsensusAlgorithm):
    """Decaying Laplace noise c q^t, and a step s towards the neighbours' weighted average.

    theta(t+1) = (1 - s) theta(t) + s W y(t), y = theta + eta: a move of size d shrinks by 1 - s at every step, so that
    all messages together cost epsilon = d q / (c (q + s - 1)), and the average keeps the variance
    2 s^2 c^2 / (n (1 - q^2)). At a given epsilon q = (1 - s)^(1/3), the default, makes it least; it falls with s.
    W are the doubly stochastic weights of the network, in place of the paper's central server.

    References
    ----------
    Huang, Mitra, Dullerud (2012), Differentially private iterative synchronous consensus, WPES.

    Examples
    --------
    >>> from privcontrol.consensus import HuangMitraDullerud, read_network
    >>> from privcontrol.plants import ten_agent_graph
    >>> huang = HuangMitraDullerud(read_network(ten_agent_graph()), 60, step=0.5, decay=0.8)
    >>> round(huang.guarantee(1.0).epsilon(0.0), 6)  # q / (q + s - 1)
    2.666667
    """

    step: float = 0.5
    decay: float | None = None

    def __post_init__(self):
        super().__post_init__()
        if not 0 < self.step < 1:
            raise ValueError(f"step: expected a number in (0, 1), got {self.step}")
        _set_decay(self, 1 - self.step)

    @property
    def shifts(self):
        return ((1 - self.step) / self.decay) ** np.arange(self.steps)

    def _step(self, x, noise, t):
        y = x + self.decay**t * noise[t]
        return y, (1 - self.step) * x + self.step * (self.network.iteration @ y)


@dataclass(frozen=True)
class NozariTallapragadaCortes(ConsensusAlgorithm):
    """Decaying Laplace noise c q^t, a share s of which enters the agent's own state.

    z = x + eta, x(t+1) = x(t) - L z(t) + s eta(t): epsilon = d q / (c (q - |s - 1|)), and agreement on the average up
    to the variance 2 s^2 c^2 / (n (1 - q^2)). The optimum at a given epsilon is s = 1, q = 0, the default: one draw of
    noise, and then plain averaging of the first messages. (Only with s = 1 may the messages go on without noise.)

    References
    ----------
    Nozari, Tallapragada, Cortes (2017), Automatica 81, 221-231.

    Examples
    --------
    >>> from privcontrol.consensus import NozariTallapragadaCortes, read_network
    >>> from privcontrol.plants import ten_agent_graph
    >>> nozari = NozariTallapragadaCortes(read_network(ten_agent_graph()), 60, share=0.9, decay=0.5)
    >>> round(nozari.guarantee(1.0).epsilon(0.0), 6)  # q / (q - |s - 1|)
    1.25
    """

    share: float = 1.0
    decay: float | None = None

    def __post_init__(self):
        super().__post_init__()
        if not 0 < self.share < 2:
            raise ValueError(f"share: expected a number in (0, 2), got {self.share}")
        _set_decay(self, abs(1 - self.share))

    @property
    def shifts(self):
        t = np.arange(self.steps)
        return (
            (abs(1 - self.share) / self.decay) ** t
            if self.decay > 0
            else (t == 0).astype(float)
        )

    def _step(self, x, noise, t):
        eta = self.decay**t * noise[t]
        z = x + eta
        return z, x - z + self.network.iteration @ z + self.share * eta


def _set_decay(algorithm, contraction):
    """The decay q of the noise, above the contraction r of a move; by default r^(1/3), the least error of all."""
    decay = contraction ** (1 / 3) if algorithm.decay is None else algorithm.decay
    if not (contraction < decay < 1 or contraction == 0 == decay):
        raise ValueError(
            f"decay: expected a number in ({contraction:.6g}, 1), got {decay}; a move must fade faster"
        )
    object.__setattr__(algorithm, "decay", decay)


@dataclass(frozen=True)
class MoMurray(ConsensusAlgorithm):
    """Correlated Gaussian noise that sums to zero, so that the average is exact.

    w(0) = v(0), w(t) = phi^t v(t) - phi^(t-1) v(t-1). It has no differential privacy against an eavesdropper of all
    links: the running sum of the noises leaves him the readings x(0) + phi^t v(t), ever more exact ones. For T rounds
    y^2 = (d / sigma)^2 (phi^(-2T) - 1) / (phi^-2 - 1), without a bound in T. (The paper protects against one curious
    agent, who does not see all links, and measures the covariance of its estimate.)

    References
    ----------
    Mo, Murray (2017), Privacy preserving average consensus, IEEE Transactions on Automatic Control 62(2), 753-765.

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

    def __post_init__(self):
        super().__post_init__()
        if not 0 < self.decay < 1:
            raise ValueError(f"decay: expected a number in (0, 1), got {self.decay}")

    @property
    def shifts(self):
        return self.decay ** -np.arange(float(self.steps))

    def _step(self, x, noise, t):
        w = self.decay**t * noise[t] - (
            self.decay ** (t - 1) * noise[t - 1] if t else 0.0
        )
        y = x + w
        return y, self.network.iteration @ y
