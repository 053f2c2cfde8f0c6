"""Draw the noise of the agents, their own and what neighbours share.

gamma = s eta + s_D B Delta, with independent standard entries. B (n, m) is the
incidence matrix of the network: of each shared draw one end adds what the other end
subtracts (Sabater, Bellet, Ramon 2022). Shared noise hides values and leaves their sum
alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import scipy.sparse as sparse
from numpy.typing import NDArray

from ..core.noise import GaussianNoise, Noise
from .network import Network, unit_graph

#: Shared draws are made for so many edges at a time that a part has this many numbers.
_PART_NUMBERS = 1 << 21


@dataclass(frozen=True, eq=False, repr=False)
class AgentNoise:
    """Noise of all agents, one draw each and one for each edge."""

    family: type[Noise]
    scales: NDArray  # (n,) of Gaussian or Laplace noise that agents draw alone
    pairwise_std: float  # of what two neighbours share
    network: Network

    @property
    def own_variance(self) -> NDArray:
        """Variance (n,) of what each agent draws alone."""
        return self.family.unit_variance * self.scales**2

    @property
    def variance(self) -> NDArray:
        """Variance (n,) of each agent's noise."""
        if not self.pairwise_std:
            return self.own_variance
        return self.own_variance + self.pairwise_std**2 * self.degrees

    @cached_property
    def degrees(self) -> NDArray:
        """Number (n,) of neighbours of each agent."""
        ends = np.concatenate(self.links)
        return np.bincount(ends, minlength=len(self.scales))

    @property
    def spread(self) -> float:
        """An upper bound of the largest eigenvalue of the covariance."""
        own = float(self.own_variance.max())
        if not self.pairwise_std:
            return own
        first, second = self.links
        of_links = self.degrees[first] + self.degrees[second]
        return own + self.pairwise_std**2 * float(of_links.max())

    def modal_variance(self, vectors: NDArray) -> NDArray:
        """Variances (k,) of the noise along the columns of a matrix (n, k)."""
        variance = self.own_variance @ vectors**2
        if self.pairwise_std:
            received = unit_graph(*self.links, len(self.scales)) @ vectors
            flows = self.degrees[:, None] * vectors - received
            shared = (vectors * flows).sum(axis=0)
            variance += self.pairwise_std**2 * np.maximum(shared, 0.0)
        return variance

    @cached_property
    def links(self) -> tuple[NDArray, NDArray]:
        """Positions of the two ends of every edge, of which the first one adds."""
        return self.network.links

    def without_weights(self) -> AgentNoise:
        """What `draw` needs: nothing of the network where no noise is shared."""
        if self.pairwise_std:
            return self
        n = len(self.scales)
        return replace(self, network=Network(range(n), sparse.csr_array((n, n))))

    def draw(
        self, rng: np.random.Generator, count: int, keep: bool = False
    ) -> tuple[NDArray, NDArray | None]:
        """Draw gamma (n, count), and standard entries (count, entries) to be kept."""
        noise = self.family.standard(rng, (len(self.scales), count))
        kept = []
        if keep:
            kept.append(noise.T.copy())
        noise *= self.scales[:, None]
        if self.pairwise_std:
            for delta in self._add_shared(noise, rng):
                if keep:
                    kept.append(delta.T.copy())
        if not keep:
            return noise, None
        return noise, np.hstack(kept)

    def _add_shared(
        self, noise: NDArray, rng: np.random.Generator
    ) -> Iterator[NDArray]:
        """Add what neighbours share, and yield its standard entries part by part."""
        first, second = self.links
        count = noise.shape[1]
        step = max(1, _PART_NUMBERS // count)
        for start in range(0, len(first), step):
            part = slice(start, start + step)
            incidence = self._incidence(first[part], second[part])
            delta = self.family.standard(rng, (incidence.shape[1], count))
            yield delta
            noise += self.pairwise_std * (incidence @ delta)

    def as_gaussian(self) -> AgentNoise:
        """Gaussian noise of the same variances."""
        return replace(self, family=GaussianNoise, scales=np.sqrt(self.own_variance))

    def factor(self) -> NDArray:
        """Dense (n, n + m), gamma = factor @ entries; (n,) for independent noise."""
        if not self.pairwise_std:
            return self.scales
        incidence = self._incidence(*self.links)
        shared = self.pairwise_std * incidence.toarray()
        return np.hstack([np.diag(self.scales), shared])

    def _incidence(self, first: NDArray, second: NDArray) -> sparse.csc_array:
        """Return the matrix (n, m) with 1 at (first[e], e) and -1 at (second[e], e)."""
        m = len(first)
        rows = np.stack([first, second], axis=1).ravel()
        entries = np.tile([1.0, -1.0], m)
        starts = np.arange(0, 2 * m + 1, 2, dtype=rows.dtype)
        return sparse.csc_array((entries, rows, starts), shape=(len(self.scales), m))
