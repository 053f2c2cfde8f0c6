"""The one door through which randomness enters, always an explicit generator."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

#: What `generator` takes. None asks the operating system.
Seed = (
    int
    | Sequence[int]
    | np.random.SeedSequence
    | np.random.BitGenerator
    | np.random.Generator
    | None
)


def generator(rng: Seed) -> np.random.Generator:
    """Return a numpy Generator from what ``np.random.default_rng`` accepts.

    A seed that is refused is never shown, because it determines the noise.
    """
    if isinstance(rng, np.random.RandomState):
        raise TypeError(
            "rng: expected a seed or a Generator, got the legacy RandomState; use "
            "np.random.default_rng(seed)"
        )
    try:
        return np.random.default_rng(rng)
    except (TypeError, ValueError) as error:
        kind = TypeError if isinstance(error, TypeError) else ValueError
    raise kind(  # outside, so numpy's error, which shows the seed, is not its context
        "rng: expected None, non-negative integers, a SeedSequence, BitGenerator or "
        f"Generator, got {type(rng).__name__} that numpy refuses; see np.random.default_rng"
    )
