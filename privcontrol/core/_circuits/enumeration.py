"""Circuits of a manifold {x* + N z} in doubles with error bounds, in bounded memory.

An entry of a circuit is a k x k minor of N, and whether that minor is zero decides whether
a move exists at all. A float filter settles almost all circuits, and an exact check the
rest.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import chain, combinations, islice
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import UncertifiableError
from .exact_rows import UNIT, IntegerRows
from .filter import ExactCheck, FloatFilter


@dataclass(frozen=True)
class CircuitMoves:
    """A block of worst moves in tangent coordinates, one column per circuit.

    A circuit may come more than once.

    Attributes
    ----------
    moves : ndarray, shape (k, M)
        Tangent moves z, scaled so that some protected entry of N z moves by its radius,
        and no other protected entry of the support by less than its own.
    errors : ndarray, shape (k, M)
        Bounds of the errors of ``moves``. Some multiple, at least one, of every worst
        move lies within them.
    base, shift : ndarray, shapes (k - 1, B) and (M,)
        The rows that define the circuits and what is to be added to them, see `zeros`.
    column : ndarray, shape (M,)
        The column of `base` that belongs to each move.
    """

    moves: np.ndarray
    errors: np.ndarray
    base: np.ndarray
    shift: np.ndarray
    column: np.ndarray

    def __post_init__(self) -> None:
        if not np.isfinite(self.moves).all():
            raise UncertifiableError(
                "a move leaves the range of double precision; shorten the horizon"
            )

    @cached_property
    def zeros(self) -> NDArray:
        """Entries that each circuit leaves unchanged and that determine it (k - 1, M)."""
        return self.base[:, self.column] + self.shift


def enumerate_moves(
    rows: IntegerRows, radius: NDArray, block: int = 4000
) -> Iterator[CircuitMoves]:
    """Plain enumeration: every set of k - 1 pairwise independent rows among the first `len(radius)` ones.

    The last k of `rows` are the unit vectors, whose entries are those of z.
    """
    n, k = len(radius), rows.dimension
    classes = rows.classes(n)
    protected = _worst_of_parallel(rows, classes, radius)
    targets = rows.targets(
        np.r_[protected, n : n + k], np.r_[radius[protected], np.ones(k)]
    )
    position = np.full(n, -1)
    position[classes[protected]] = np.arange(len(protected))
    entry_filter, exact_check = (
        FloatFilter(targets.part(slice(None, -k))),
        ExactCheck(rows, targets, position, classes[protected]),
    )
    for base in row_sets(np.unique(classes[classes >= 0]), k - 1, block):
        base, cofactors = rows.cofactors(base)
        least = entry_filter.least(cofactors, position[base])
        moves = np.array(cofactors.value)
        errors = np.array(cofactors.error)
        for columns, entries in exact_check.entries(
            base, cofactors, np.flatnonzero(np.isnan(least))
        ):
            least[columns] = entries.low[:-k].min(axis=0, initial=np.inf)
            unit = targets.factor[-k:, None]
            moves[:, columns] = entries.value[-k:] * unit
            errors[:, columns] = entries.error[-k:] * unit
        moving = np.flatnonzero(np.isfinite(least))
        with np.errstate(over="ignore"):
            scale = (1 + 24 * UNIT) / least[moving]
            moves = moves.take(moving, axis=1) * scale
            errors = errors.take(moving, axis=1) * scale + 8 * UNIT * np.abs(moves)
        yield CircuitMoves(moves, errors, base, np.zeros(len(moving), int), moving)


def row_sets(labels: NDArray, width: int, size: int) -> Iterator[NDArray]:
    """Sets of `width` labels as arrays (width, at most `size`), in lexicographic order."""
    if width == 0:
        yield np.empty((0, 1), int)
        return
    count = len(labels)
    for head in chunks(
        combinations(range(count), width - 1),
        width - 1,
        max(1, 16 * size // max(count, 1)),
    ):
        more = count - 1 - head[-1] if width > 1 else np.array([count])
        last = np.arange(more.sum()) + np.repeat(count - more.cumsum(), more)
        sets = labels[np.vstack([head.repeat(more, axis=1), last])]
        for start in range(0, len(last), size):
            yield sets[:, start : start + size]


def _worst_of_parallel(rows: IntegerRows, classes: NDArray, radius: NDArray) -> NDArray:
    """Of each class of parallel rows the protected one with the least size over radius, which decides for all.

    They come in the order of these sizes.
    """
    candidates = np.flatnonzero((radius > 0) & (classes >= 0))
    size = np.abs(rows.value[candidates]).max(axis=1)
    order = candidates[
        np.argsort(
            np.ldexp(size, rows.exponent[candidates]) / radius[candidates],
            kind="stable",
        )
    ]
    return order[np.sort(np.unique(classes[order], return_index=True)[1])]


def chunks(
    tuples: Iterable[tuple[int, ...]], width: int, size: int
) -> Iterator[NDArray]:
    """Integer arrays (width, at most `size`) from an iterator of tuples; width 0 makes one empty column."""
    if width == 0:
        yield np.empty((0, 1), int)
        return
    while (flat := np.fromiter(chain.from_iterable(islice(tuples, size)), int)).size:
        yield np.ascontiguousarray(flat.reshape(-1, width).T)


def radii(radius: Any, shape: tuple[int, ...]) -> NDArray:
    """Radii broadcast to `shape`, zero where not protected."""
    radius = np.nan_to_num(np.asarray(radius, float), nan=0.0, posinf=np.inf)
    if not np.isfinite(radius).all() or (radius < 0).any():
        raise ValueError(
            "radius: expected finite numbers >= 0, NaN or 0 for an entry that is not protected"
        )
    try:
        return np.broadcast_to(radius, shape)
    except ValueError:
        raise ValueError(
            f"radius: expected a number or shape {shape}, got shape {radius.shape}"
        ) from None
