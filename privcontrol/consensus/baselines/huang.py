"""The algorithm of Huang, Mitra and Dullerud."""

from dataclasses import dataclass
from typing import Any

from numpy.typing import NDArray

from .base import DecayingNoise, between


@dataclass(frozen=True)
class HuangMitraDullerud(DecayingNoise):
    """Decaying Laplace noise c q^t, and a step s towards the neighbours' average.

    Rule: y(t) = x(t) + eta(t), x(t+1) = (1 - s) x(t) + s W y(t), with the doubly stochastic
    weights W = I - L of the network in place of the paper's central server. Privacy: a move
    of size d shrinks by 1 - s at every step, so that all messages together cost
    epsilon = d q / (c (q + s - 1)). Error: the average keeps the variance
    2 s^2 c^2 / (n (1 - q^2)). At a given epsilon q = (1 - s)^(1/3), the default, makes it
    least; it falls with s.

    Parameters
    ----------
    network, steps, scale, family
        As for `ConsensusAlgorithm`.
    step : float, optional
        s, in (0, 1).
    decay : float, optional
        q, in (1 - s, 1).

    References
    ----------
    Huang, Mitra, Dullerud (2012), Differentially private iterative synchronous consensus,
    WPES.

    Examples
    --------
    >>> from privcontrol.consensus import HuangMitraDullerud, read_network
    >>> from privcontrol.plants import ten_agent_graph
    >>> network = read_network(ten_agent_graph())
    >>> huang = HuangMitraDullerud(network, 60, step=0.5, decay=0.8)
    >>> round(huang.guarantee(1.0).epsilon(0.0), 6)  # q / (q + s - 1)
    2.666667
    """

    step: float = 0.5
    decay: Any = None

    @property
    def contraction(self) -> float:
        between(self.step, "step", 1)
        return 1 - self.step

    def _step(self, x: NDArray, noise: NDArray, t: int) -> tuple[NDArray, NDArray]:
        y = x + self.decay**t * noise[t]
        return y, (1 - self.step) * x + self.step * (self.network.iteration @ y)
