"""Noise of one size on every row of numbers: how large it has to be, and how it is drawn."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from ..numerics.balls import Rational
from ..numerics.checks import Seed, generator, one_of, positive_number
from ..numerics.errors import UncertifiableError
from ..numerics.linalg import EPS, float_above, round_up
from ..numerics.thresholds import ROUNDED
from ..privacy.budget import PrivacyBudget, scale_to_budget
from ..privacy.guarantee import PrivacyGuarantee, Scope
from ..privacy.radial_design import truncation_of
from ..privacy.release import StandardEntry, Step, exact_data, exact_release, on_grid
from .ball_noise import RADIAL_LAWS, BallNoise
from .noise import FAMILIES, Noise, family_of

#: The law of standard entries, which radial noise draws together for a row.
RowLaw: TypeAlias = type[Noise] | BallNoise
#: Steps of a grid on which rows are published, if there is one.
Grid: TypeAlias = Step | Sequence[Step] | None


def row_law(
    family: str, dimension: Callable[[], int], budget: PrivacyBudget, releases: int
) -> RowLaw:
    """Return the law of a family, which is asked for its dimension if it is radial."""
    one_of(family, "family", (*FAMILIES, *RADIAL_LAWS))
    if family in FAMILIES:
        return family_of(family)
    count = dimension()
    bound = math.inf
    if family == "truncated":
        size = truncation_of(budget, count, releases)
        bound = size.law.bound * (1 + 4 * EPS)
    return BallNoise(np.eye(count), rate=1.0, bound=bound)


@dataclass(frozen=True, eq=False)
class RowNoise:
    """Noise on every row of numbers.

    Attributes
    ----------
    family : str
    law : type of Noise, or BallNoise
    scale : float or ndarray, shape (m,)
        The size of the noise, or that of each entry of a row.
    """

    family: str
    law: RowLaw
    scale: float | NDArray[np.float64]

    def simulated(
        self, values: NDArray[np.float64], rng: Seed, grid: Grid
    ) -> NDArray[np.float64]:
        """Return values plus noise of a generator, in double precision."""
        shape = np.reshape(values, (-1, *self._of_row)).shape
        standard = self.law.standard(generator(rng), shape).reshape(values.shape)
        drawn = self._scales(values.size).reshape(values.shape) * standard
        noisy = (values + drawn).reshape(-1)
        return on_grid(noisy, grid).reshape(values.shape)

    def released(
        self, values: NDArray[np.float64], exact: list[Rational] | None, grid: Grid
    ) -> NDArray[np.float64]:
        """Return values plus noise, rounded once, of ``exact`` numbers if there are any."""
        if exact is None:
            exact, _ = exact_data(values, "model")
        if not exact:
            return values.copy()
        sizes = self._scales(len(exact))
        eta: list[StandardEntry] = []
        law = self.law
        if isinstance(law, BallNoise):
            for _ in range(len(exact) // law.dimension):
                eta += law.entries()
        family = "laplace" if eta else self.family
        released = exact_release(exact, sizes, family, grid=grid, eta=eta)
        return released.reshape(values.shape)

    def _scales(self, count: int) -> NDArray[np.float64]:
        """Return the size of each of so many numbers, which stand row by row."""
        of_row = np.atleast_1d(self.scale)
        return np.tile(of_row, count // len(of_row))

    @property
    def _of_row(self) -> tuple[int, ...]:
        """The entries of a row that are drawn together."""
        law = self.law
        return (law.dimension,) if isinstance(law, BallNoise) else ()


def size_for(
    law: RowLaw,
    sensitivity: float,
    budget: PrivacyBudget,
    releases: int,
    scope: Scope,
) -> tuple[float, PrivacyGuarantee]:
    """Return the size of noise that hides moves of a norm, and what it promises."""
    widest = positive_number(sensitivity, "sensitivity")
    scale = round_up(widest / law.allowed_shift(budget, releases))
    if not math.isfinite(scale):
        raise UncertifiableError(
            "expected a noise size below 1.8e308, got more; rescale the data or relax the "
            "budget"
        )
    quoted = budget.delta or PrivacyGuarantee.quoted_delta
    step = ROUNDED if isinstance(law, BallNoise) else EPS

    def evaluated(scale: float) -> tuple[PrivacyGuarantee, float]:
        loss = law.loss_of_size(float_above(widest / scale))
        guarantee = PrivacyGuarantee(loss, scope, 1, quoted)
        meets = guarantee.released(releases).satisfies(budget)
        return guarantee, 1.0 if meets else 1 + step

    guarantee, size, excess = scale_to_budget(evaluated, float(scale))
    if not excess <= 1:
        raise UncertifiableError(
            "the noise does not meet its budget when evaluated back; relax the budget"
        )
    return size, guarantee
