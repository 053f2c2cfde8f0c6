"""Independent noise in every message."""

import numpy as np
from numpy.typing import NDArray

from .base import ConsensusAlgorithm


class FreshNoise(ConsensusAlgorithm):
    """Independent noise of one size in every message.

    Rule: y(t) = x(t) + eta(t), x(t+1) = x(t) - L y(t). Privacy: a move displaces the noise of
    all T messages, so that y = sqrt(T) d / c (Gaussian) or epsilon = T d / c (Laplace). Error:
    the states keep the exact average and never settle.

    Examples
    --------
    >>> from privcontrol.consensus import FreshNoise, read_network
    >>> from privcontrol.plants import ten_agent_graph
    >>> fresh = FreshNoise(read_network(ten_agent_graph()), 60, scale=2.0)
    >>> round(fresh.guarantee(1.0).epsilon(0.0), 9)
    30.0
    """

    @property
    def shifts(self) -> NDArray:
        return np.ones(self.steps)

    def _step(self, x: NDArray, noise: NDArray, t: int) -> tuple[NDArray, NDArray]:
        y = x + noise[t]
        return y, x - y + self.network.iteration @ y
