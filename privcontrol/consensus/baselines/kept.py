"""One draw of noise for all messages."""

import numpy as np
from numpy.typing import NDArray

from .base import ConsensusAlgorithm


class KeptNoise(ConsensusAlgorithm):
    """One draw of noise for all messages, as `private_consensus` has it.

    Rule: y(t) = x(t) + eta, x(t+1) = x(t) - L y(t). Privacy: epsilon = d / c, or y = d / c,
    for any number of rounds. Error: the messages agree on the average up to the variance
    v c^2 / n, with v = 1 (Gaussian) or 2 (Laplace).

    References
    ----------
    DPAM eq. (25) and Theorem 4.

    Examples
    --------
    >>> from privcontrol.consensus import KeptNoise, read_network
    >>> from privcontrol.plants import ten_agent_graph
    >>> kept = KeptNoise(read_network(ten_agent_graph()), 60, scale=2.0)
    >>> round(kept.guarantee(1.0).epsilon(0.0), 9)
    0.5
    """

    @property
    def shifts(self) -> NDArray:
        return np.ones(1)

    def _step(self, x: NDArray, noise: NDArray, t: int) -> tuple[NDArray, NDArray]:
        y = x + noise[0]
        return y, x - y + self.network.iteration @ y
