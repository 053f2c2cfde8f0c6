"""Sizes of noise: how large a factor must be to meet a budget, found outwards and evaluated back before it is used.

The shape of a factor is given; only its scale is chosen here, always on the private side.
"""

import math
from fractions import Fraction

from ._linalg import round_up
from .errors import NotRealizableError, UncertifiableError
from .mechanism import Mechanism, guarantee_of
from .noise import GaussianNoise, LaplaceNoise

_TOO_FAR_APART = (
    "the designed noise {what} when evaluated back: the moves are too far apart in size for double precision; rescale the "
    "data, or protect fewer directions"
)


allowed_shift = GaussianNoise.allowed_shift


def laplace_size(loss, budget, releases=1, limit=math.inf):
    """The smallest multiple of a Laplace factor, given its loss, that meets a budget for so many releases.

    None where with delta above 0 none below the limit does: asking takes one evaluation, the size some twenty.
    """
    pure = loss.pure * releases
    if budget.delta == 0:
        return float(round_up(pure / budget.epsilon, 2))

    def meets(size):
        return (
            loss.scaled(Fraction(1) / Fraction(size))
            .repeated(releases)
            .satisfies(budget)
        )

    high = min(float(pure / max(budget.epsilon, budget.delta)), limit)
    if high == limit and not meets(high):
        return None
    while not meets(high):
        high *= 2
    low = 0.0
    while high - low > 1e-6 * high:
        middle = 0.5 * (low + high)
        low, high = (low, middle) if meets(middle) else (middle, high)
    return high


def meet(query, adjacency, moves, law, factor, scale, excess):
    """Mechanism, guarantee and scale of the factor that, evaluated back with its error bound, meets the budget."""
    scale = float(round_up(scale, 2))
    while True:
        mechanism = Mechanism(query, law(factor * scale))
        try:
            guarantee = guarantee_of(mechanism, adjacency, moves)
        except (
            NotRealizableError
        ):  # a direction so thin that it was taken for a residue of rounding
            raise UncertifiableError(
                _TOO_FAR_APART.format(what="leaves a direction bare")
            ) from None
        over = excess(guarantee)
        if over <= 1:
            return mechanism, guarantee, scale
        if over > 1 + 1e-4:
            raise UncertifiableError(
                _TOO_FAR_APART.format(what=f"exceeds its budget by {over - 1:.1e}")
            )
        scale *= float(round_up(over, 4))


def meet_laplace(query, adjacency, moves, factor, budget, releases, limit=math.inf):
    """`meet` for a Laplace factor of any size; None where `laplace_size` is."""
    loss = guarantee_of(Mechanism(query, LaplaceNoise(factor)), adjacency, moves).loss
    size = laplace_size(loss, budget, releases, limit)
    if size is None:
        return None
    return meet(
        query,
        adjacency,
        moves,
        LaplaceNoise,
        factor,
        size,
        lambda found: _excess(found, budget, releases),
    )


def _excess(guarantee, budget, releases):
    """How many times too large a Laplace release's loss is; at most 1 where it meets the budget."""
    if budget.delta == 0:
        return guarantee.epsilon(0.0) * releases / budget.epsilon
    return 1.0 if guarantee.loss.repeated(releases).satisfies(budget) else 1 + 1e-6
