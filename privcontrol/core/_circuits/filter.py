"""The entries of many circuits, by the million under one error bound, or one by one.

The filter settles a circuit only if each of its entries is far above the error bound of
its group of rows. All others go to the `ExactCheck`, which decides every entry alone.
"""

from collections.abc import Iterator
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from .exact_rows import DECIDED, Cofactors, Entries, ExactRows, Targets

#: Entries in work at a time, 2 MB. Fewer take more calls, more leave the caches.
WORKING = 2**18


class FloatFilter:
    """Least sizes of the entries F_i v_i z over many rows, for the circuits z none of whose entries is near zero.

    Rows whose sizes F_i norm(v_i) lie within a factor of 2^4 and follow each other share an error bound.

    Parameters
    ----------
    targets : Targets
        The rows v_i and their factors F_i, best in the order of size.
    """

    def __init__(self, targets: Targets) -> None:
        self._value = targets.value * targets.factor[:, None]
        bound = targets.bound * targets.factor[:, None]
        octave = np.frexp(bound.max(axis=1, initial=0.0))[1] // 4
        starts = np.flatnonzero(np.diff(octave, prepend=octave[:1] - 1))
        self._groups = [np.s_[a:b] for a, b in zip(starts, [*starts[1:], len(octave)])]
        # 1.25: the roundings of the factors, of the scaled rows and of the bound itself
        self._reach = 1.25 * np.array(
            [bound[group].max(axis=0) for group in self._groups]
        ).reshape(-1, bound.shape[1])
        self._most = max(WORKING // (len(bound) + 1), 32)
        self._buffer = np.empty(
            (len(bound) + 1) * self._most
        )  # the last row takes what is written to place -1

    def least(self, cofactors: Cofactors, held: NDArray) -> NDArray:
        """Lower bounds (B,) of the least sizes of the entries, NaN for the circuits that are not settled.

        `held` (k - 1, B) are the places of the rows that define the circuits, -1 where they are no targets: these
        entries are zero.
        """
        count = cofactors.value.shape[1]
        least = np.empty((len(self._groups), count))
        cuts = np.linspace(0, count, -(-count // self._most) + 1).astype(int).tolist()
        for start, stop in pairwise(cuts):
            part, width = np.s_[start:stop], stop - start
            size = self._buffer[: (len(self._value) + 1) * width].reshape(-1, width)
            np.matmul(self._value, cofactors.value[:, part], out=size[:-1])
            np.abs(size[:-1], out=size[:-1])
            size[held[:, part], np.arange(width)] = np.inf
            for group, row in zip(self._groups, least):
                np.minimum.reduce(size[group], axis=0, out=row[part])
        doubt = self._reach @ cofactors.error
        with np.errstate(divide="ignore", invalid="ignore"):
            ratio = (least / doubt).min(axis=0, initial=np.inf)
        least = np.subtract(least, doubt, out=doubt).min(axis=0, initial=np.inf)
        settled = (ratio > DECIDED) & (least > 2.0**-900)  # far above what underflows
        settled &= (np.abs(cofactors.value) >= DECIDED * cofactors.error).all(axis=0)
        return np.where(settled, least, np.nan)


class ExactCheck:
    """Entries decided one by one, and the flats met on the way.

    A flat is a set of rows on which some circuit vanishes, larger than need be: its other subsets give the same
    circuit and are passed over.
    """

    def __init__(
        self, rows: ExactRows, targets: Targets, position: NDArray, labels: NDArray
    ) -> None:
        self._rows, self._targets, self._position, self._labels = (
            rows,
            targets,
            position,
            labels,
        )
        self._most = max(WORKING // (4 * len(targets.index)), 32)
        self._size, self._flats = (
            min(64, self._most),
            np.zeros((0, len(position)), bool),
        )

    def entries(
        self, base: NDArray, cofactors: Cofactors, rest: NDArray
    ) -> Iterator[tuple[NDArray, Entries]]:
        """Pairs of columns of `base` and their `Entries`, for the columns `rest`; each is valid until the next."""
        k = self._rows.dimension
        while rest.size:
            some, rest = rest[: self._size], rest[self._size :]
            self._size = min(2 * self._size, self._most)
            some = some[~self._flats[:, base[:, some]].all(axis=1).any(axis=0)]
            if some.size:
                entries = self._rows.entries(
                    self._targets, base[:, some], cofactors.part(some), self._position
                )
                if entries.resolved > len(some) and k > 2:
                    self._learn(entries.value[:-k] == 0)
                yield some, entries

    def _learn(self, zero: NDArray) -> None:
        """Adds the flats on which circuits with these zeros (targets, B) vanish; after news, goes on in small steps."""
        large = np.unique(zero[:, zero.sum(axis=0) > self._rows.dimension], axis=1).T
        if len(large):
            flats = np.zeros((len(large), len(self._position)), bool)
            flats[:, self._labels] = large
            self._flats, self._size = np.vstack([self._flats, flats]), 1
