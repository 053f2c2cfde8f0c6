"""Release number after number with noise that is drawn once.

All releases together are one, with their queries and their factors stacked.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ..numerics.balls import RationalMatrix
from ..numerics.checks import Seed, generator
from ..privacy.release import (
    ENTRIES,
    SYSTEM_BITS,
    BitSource,
    SeededBits,
    StandardEntry,
    Step,
    exact_data,
    exact_product,
    exact_release,
)
from .covered import padding_of
from .mechanism import Mechanism, beside
from .noise import Noise
from .query import LinearQuery


class OneDraw:
    """Hold standard entries eta that are drawn once, and all that was released with them.

    The entries are drawn with random bits of the operating system, or simulated with those
    of an ``rng``, but never both.
    """

    def __init__(self, family: type[Noise]) -> None:
        self._family = family
        self._eta: list[StandardEntry] = []
        self._source: BitSource = SYSTEM_BITS
        self._released: Mechanism | None = None

    def begin(self, noise: Noise, rng: Seed) -> None:
        """Draw eta before the first release, and check that later ones are of its kind."""
        if self._released is None:
            if rng is not None:
                self._source = SeededBits(generator(rng))
            entry = ENTRIES[self._family.family]
            self._eta = [entry(self._source) for _ in range(noise.factor.shape[-1])]
        if isinstance(self._source, SeededBits) != (rng is not None):
            raise ValueError(
                "rng: a run that draws its noise once is released exactly, without rng, "
                "or simulated with an rng in every release"
            )

    def stacked(self, release: Mechanism) -> Mechanism:
        """Return all releases so far, and this one, as one release of the same eta."""
        noise = release.noise
        before = self._released
        width = noise.factor.shape[-1]
        if before is not None:
            width = before.noise.factor.shape[-1]
        if noise.factor.ndim != 2 or noise.factor.shape[1] != width:
            raise ValueError(
                "noise: expected a factor Lambda_t (m, r) with the run's number of "
                f"columns, {width}, got shape {noise.factor.shape}; noise drawn once has "
                "one r"
            )
        if before is None:
            return release
        queries = np.vstack([before.query.matrix, release.query.matrix])
        factors = np.vstack([before.noise.factor, noise.factor])
        query = LinearQuery(queries, release.query.manifold)
        return Mechanism(query, self._family(factors))

    def release(
        self,
        stacked: Mechanism,
        F: NDArray[np.float64],
        noise: Noise,
        data: NDArray[np.float64],
        grid: Step | None,
    ) -> NDArray[np.float64]:
        """Publish F x + factor eta and the padding of the noise, rounded once.

        It is the last one of the releases that are ``stacked``. They count as published from
        here on, even where it fails.
        """
        self._released = stacked
        exact, _ = exact_data(data, "entries")
        column = RationalMatrix(len(exact), 1, exact)
        return exact_release(
            exact_product(F, column).entries(),
            beside(noise.factor, padding_of(noise)),
            noise.family,
            grid=grid,
            source=self._source,
            eta=self._eta,
        )
