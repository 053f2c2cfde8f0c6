"""The algorithm of Mo and Murray."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from .base import ConsensusAlgorithm, between


@dataclass(frozen=True)
class MoMurray(ConsensusAlgorithm):
    """Correlated Gaussian noise that sums to zero, so that the average is exact.

    Rule: y(t) = x(t) + w(t), x(t+1) = (I - L) y(t), with w(0) = v(0) and
    w(t) = phi^t v(t) - phi^(t-1) v(t-1). Privacy: none of the differential kind against an
    eavesdropper of all links. The running sum of the noises leaves him the readings
    x(0) + phi^t v(t), ever more exact ones. For T rounds
    y^2 = (d / sigma)^2 (phi^(-2T) - 1) / (phi^-2 - 1), without a bound in T. (The paper
    protects against one curious agent, who does not see all links, and measures the
    covariance of its estimate.) Error: none in the limit.

    Parameters
    ----------
    network, steps, scale, family
        As for `ConsensusAlgorithm`.
    decay : float, optional
        phi, in (0, 1).

    References
    ----------
    Mo, Murray (2017), Privacy preserving average consensus, IEEE Transactions on Automatic
    Control 62(2), 753-765.

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

    def __post_init__(self) -> None:
        super().__post_init__()
        between(self.decay, "decay", 1)

    @property
    def shifts(self) -> NDArray:
        with np.errstate(over="ignore"):
            return self.decay ** -np.arange(float(self.steps))

    def _step(self, x: NDArray, noise: NDArray, t: int) -> tuple[NDArray, NDArray]:
        w = self.decay**t * noise[t]
        if t:
            w = w - self.decay ** (t - 1) * noise[t - 1]
        y = x + w
        return y, self.network.iteration @ y
