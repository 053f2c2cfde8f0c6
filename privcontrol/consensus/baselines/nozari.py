"""The algorithm of Nozari, Tallapragada and Cortes."""

from dataclasses import dataclass
from typing import Any

from numpy.typing import NDArray

from .base import DecayingNoise, between


@dataclass(frozen=True)
class NozariTallapragadaCortes(DecayingNoise):
    """Decaying Laplace noise c q^t, a share s of which enters the agent's own state.

    Rule: z(t) = x(t) + eta(t), x(t+1) = x(t) - L z(t) + s eta(t). Privacy:
    epsilon = d q / (c (q - |s - 1|)). Error: agreement on the average up to the variance
    2 s^2 c^2 / (n (1 - q^2)). The optimum at a given epsilon is s = 1, q = 0, the default:
    one draw of noise, and then plain averaging of the first messages. Only with s = 1 may
    the messages go on without noise.

    Parameters
    ----------
    network, steps, scale, family
        As for `ConsensusAlgorithm`.
    share : float, optional
        s, in (0, 2).
    decay : float, optional
        q, in (|s - 1|, 1).

    References
    ----------
    Nozari, Tallapragada, Cortes (2017), Automatica 81, 221-231.

    Examples
    --------
    >>> from privcontrol.consensus import NozariTallapragadaCortes, read_network
    >>> from privcontrol.plants import ten_agent_graph
    >>> network = read_network(ten_agent_graph())
    >>> nozari = NozariTallapragadaCortes(network, 60, share=0.9, decay=0.5)
    >>> round(nozari.guarantee(1.0).epsilon(0.0), 6)  # q / (q - |s - 1|)
    1.25
    """

    share: float = 1.0
    decay: Any = None

    @property
    def contraction(self) -> float:
        between(self.share, "share", 2)
        return abs(1 - self.share)

    def _step(self, x: NDArray, noise: NDArray, t: int) -> tuple[NDArray, NDArray]:
        eta = self.decay**t * noise[t]
        z = x + eta
        return z, x - z + self.network.iteration @ z + self.share * eta
