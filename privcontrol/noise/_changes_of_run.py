"""Several changes of a run that ends, and changes of any shape.

The whitened responses to all changes are compared as they are.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from ..numerics.linalg import EPS
from ..numerics.objects import ByContent
from ..privacy.repetition import (
    Correlations,
    Deferred,
    Spacing,
    growth_apart,
    growth_of_run,
)
from ..secrets.secret import Apart
from ..secrets.secrets import Secrets
from ..systems.linear import Plant
from ._apart import products_by_lag
from ._patterns import largest_pattern
from ._windows import (
    product_error,
    search_in,
    squares_of,
    windows_by_lag,
)
from .parts import NoisePart
from .whitened import Whitening, dense_root


@dataclass(frozen=True, eq=False)
class ChangesOfRun(ByContent, Correlations):
    """Hold what is left of changes of a run, relative to the largest one.

    Attributes
    ----------
    products : ndarray, shape (T,)
        Bounds of the inner products of changes, for each lag and all later ones.
    shape : float
        A bound of the shift of a change of any shape.
    worst : ndarray, shape (k,)
        Its signs.
    sizes : ndarray, shape (T,), or None
        Bounds of the shifts of the changes that begin at each sample, none above one. None
        where only the largest one is known.
    several : float or None
        The shift that is promised of several changes. None where it is about one.
    """

    _omitted = ("sizes", "several")

    products: NDArray[np.float64]
    shape: float
    worst: NDArray[np.float64]
    sizes: NDArray[np.float64] | None = None
    several: float | None = None

    def promised(self, spacing: Spacing) -> float:
        bound = self.growth(spacing)
        return bound if self.several is None else min(bound, self.several)

    def growth(self, spacing: Spacing) -> float:
        products = self.products
        fitting = spacing.within(len(products) - 1)
        bound = growth_apart(fitting, lambda lag: float(products[lag]))
        if self.sizes is None:
            return bound
        return min(bound, growth_of_run(self.sizes, products, fitting))

    def any_shape(self) -> tuple[float, NDArray[np.float64]]:
        return self.shape, self.worst


@dataclass(frozen=True, eq=False)
class RunOfChanges(ByContent, Deferred):
    """Hold the noise, the secret and the plants of a run, until they are asked for."""

    parts: tuple[NoisePart, ...]
    secret: Secrets
    plants: tuple[Plant, ...]
    horizon: int
    several: float | None = None

    def settled(self) -> ChangesOfRun:
        return self._settled

    @cached_property
    def _settled(self) -> ChangesOfRun:
        root, error_bound = dense_root(self.parts, self.horizon)
        longest = self.secret.longest
        if root is None:  # too little is known of the responses to compare them
            return ChangesOfRun(np.ones(self.horizon), float(longest), np.ones(longest))
        whitened = Whitening(root)
        products = np.zeros(self.horizon)
        squares = np.zeros(self.horizon)
        least = largest_shape = 0.0
        worst = np.ones(longest)
        for plant in self.plants:
            later, square, each = self._products(plant, whitened)
            products[: len(later)] = np.maximum(products[: len(later)], later)
            squares = np.maximum(squares, each)
            least = max(least, square)
            for gram, error in self._grams(plant, whitened):
                if float(np.abs(gram).sum()) <= largest_shape:
                    continue
                found, signs = largest_pattern(gram, error, quick=True)
                if found > largest_shape:
                    largest_shape, worst = found, signs
        # both sides as wrong as the root
        doubt = ((1 + error_bound) / (1 - error_bound)) ** 2 * (1 + 1e-14)
        if not least > 0:
            return ChangesOfRun(np.ones(self.horizon), float(longest), np.ones(longest))
        shape = max(math.sqrt(largest_shape / least * doubt), 1.0)
        sizes = np.sqrt(np.minimum(squares / least * doubt, 1.0))
        several = self.several
        if several is not None:
            several /= math.sqrt(least * doubt)
        return ChangesOfRun(products / least * doubt, shape, worst, sizes, several)

    def _products(
        self, plant: Plant, whitened: Whitening
    ) -> tuple[NDArray[np.float64], float, NDArray[np.float64]]:
        """Bound the products of changes by their lag, and the squares by their starts (T,).

        Between them comes the largest square from below.
        """
        squares = np.zeros(self.horizon)
        if not self.secret.of_any_shape:
            columns, starts = self._levels(plant)
            solved, wrong = whitened(columns)
            later, square, largest = products_by_lag(solved, starts, wrong)
            own = np.einsum("ij,ij->j", solved, solved) + (largest - square)
            np.maximum.at(squares, starts, own)
            return later, square, squares
        later = np.zeros(self.horizon)
        square = 0.0
        for single in self.secret.one_by_one(plant, self.horizon):
            (windows,) = single.windows
            solved, wrong = whitened(windows.columns)
            error = product_error(solved, wrong)
            square = max(square, search_in(windows, solved, error).attained)
            own = windows_by_lag(windows, np.abs(solved.T @ solved) + error)
            later[: len(own)] = np.maximum(later[: len(own)], own)
            np.maximum.at(squares, windows.starts, squares_of(windows, solved, error))
        return later, square, squares

    def _levels(self, plant: Plant) -> tuple[NDArray[np.float64], NDArray[np.intp]]:
        """Return the responses (T p, M) to all changes of a plant, and their starts (M,)."""
        every: list[Apart] = []
        for single in self.secret.one_by_one(plant, self.horizon):
            every += single.apart
        return (
            np.hstack([apart.columns for apart in every]),
            np.concatenate([apart.starts for apart in every]),
        )

    def _grams(
        self, plant: Plant, whitened: Whitening
    ) -> Iterator[tuple[NDArray[np.float64], float]]:
        """Yield products of whitened responses to unit changes in a row, and their error."""
        for level in self.secret.levels(plant, self.horizon):
            solved, wrong = whitened(level.columns)
            size = float(np.linalg.norm(solved, axis=0).max())
            doubt = float(np.linalg.norm(wrong, axis=0).max())
            error = doubt * (2 * size + doubt) + (len(solved) + 4) * EPS * size**2
            at = solved.reshape(len(solved), self.horizon, -1)
            for start in level.starts.tolist():
                rows = at[:, start : start + level.duration]
                for signal in range(at.shape[2]):
                    row = rows[:, :, signal]
                    yield row.T @ row, error
