"""Affine manifolds: the public constraints D x + b = 0 that the private data obey, and their tangent space.

Everything downstream works in tangent coordinates z, x = origin + N z, so that nothing of the data's own
dimension squared is ever formed. Which entries the manifold pins is decided here, and they are refused by name.
"""

import hashlib
import math
from functools import cached_property

import numpy as np
import scipy.linalg
import scipy.sparse

from ._balls import (
    RationalMatrix,
    ball_matrix,
    rational,
    rational_matrix,
    upper_bounds,
    working_bits,
)
from ._circuits.enumeration import radii
from ._frozen import Frozen, array_identity
from ._linalg import EPS, column_norms, one_of, rank_tolerance, real_array
from ._withheld import private_array
from .circuits import Component, refuse_long, rounded_block, split
from .moves import FiniteMoves

#: Entries of the constraints up to which the kernel's error is computed in balls.
_MOST_EXACT = 2_500


class AffineManifold(Frozen):
    """The set {x : D x + b = 0}, which an eavesdropper knows too (DPAM Definition 3).

    Parameters
    ----------
    D : array_like or sparse matrix, shape (q, n)
        Constraint matrix, one row a constraint. It need not have full row rank.
    b : array_like, shape (q,), optional
        Offset, zero by default. Mind the sign: a constraint D x = c has b = -c. It never enters a privacy guarantee.
    labels : sequence of str, optional
        Names of the n entries; ``x[0]``, ``x[1]``, ... by default.
    pinned : {"raise", "keep"}, optional
        What to do with entries that the constraints determine completely: such an entry is public.

    Attributes
    ----------
    kernel : ndarray, shape (n, k)
        N, a basis of the tangent space; orthonormal unless given to `from_kernel`.
    origin : ndarray, shape (n,)
        A point of the manifold.
    labels : tuple of str
    pinned : tuple of str
        Labels of the entries that the constraints determine.

    Raises
    ------
    ValueError
        If the constraints contradict each other, leave no freedom, or pin an entry (with ``pinned="raise"``).

    Examples
    --------
    Two salaries whose sum is known:

    >>> manifold = AffineManifold([[1.0, 1.0]], [-100.0])
    >>> manifold.size, manifold.dimension, manifold.contains([40.0, 60.0])
    (2, 1, True)
    """

    def __init__(self, D, b=None, *, labels=None, pinned="raise"):
        D = _rows(D.toarray() if scipy.sparse.issparse(D) else D)
        b = np.zeros(len(D)) if b is None else real_array(b, "b", shape=(len(D),))
        # the units of the constraints do not matter; powers of two change no digit
        rows = np.ldexp(D, -np.frexp(np.abs(D).max(axis=1, initial=0.0))[1][:, None])
        _, s, vt = scipy.linalg.svd(rows, full_matrices=True)
        rank = int(np.sum(s > rank_tolerance(D, s)))
        condition = float(s[0] / s[rank - 1]) if rank else 0.0
        self._set(_estimated_error=8 * EPS * math.sqrt(max(D.shape)) * condition)
        origin = -scipy.linalg.lstsq(D, b)[0]
        if np.linalg.norm(D @ origin + b) > 1e3 * EPS * max(D.shape) * (
            np.linalg.norm(b) + np.linalg.norm(D) * np.linalg.norm(origin)
        ):
            raise ValueError(
                "D x + b = 0 has no solution: the constraints contradict each other"
            )
        self._set(_constraint=(D, b))
        self._complete(vt[rank:].T, origin, labels, pinned)

    @classmethod
    def from_kernel(cls, N, origin=None, *, labels=None, pinned="raise"):
        """The manifold {origin + N z}, with the kernel basis N (n, k) kept as given.

        Raises
        ------
        ValueError
            If N does not have full column rank, or pins an entry (with ``pinned="raise"``).
        """
        self = cls.__new__(cls)
        N = real_array(N, "N", ndim=2)
        s = scipy.linalg.svdvals(
            N / np.maximum(np.linalg.norm(N, axis=0), np.finfo(float).tiny)
        )
        if len(s) < N.shape[1] or s[-1] <= rank_tolerance(N, s):
            raise ValueError(
                f"N: expected independent columns, got an array of shape {N.shape} with dependent ones"
            )
        origin = (
            np.zeros(len(N))
            if origin is None
            else real_array(origin, "origin", shape=(len(N),))
        )
        self._set(_constraint=None)
        self._complete(N, origin, labels, pinned)
        return self

    def _complete(self, N, origin, labels, pinned):
        one_of(pinned, "pinned", ("raise", "keep"))
        n = len(N)
        labels = (
            tuple(f"x[{i}]" for i in range(n))
            if labels is None
            else tuple(map(str, labels))
        )
        if len(labels) != n or len(set(labels)) != n:
            raise ValueError(
                f"labels: expected {n} different names, got {len(labels)} ({len(set(labels))} different)"
            )
        if not N.shape[1]:
            raise ValueError(
                "the constraints determine every entry: nothing is private on this manifold"
            )
        tolerance = 0.0 if self._constraint is None else 64 * EPS * n
        fixed = tuple(
            name for name, row in zip(labels, N) if np.abs(row).max() <= tolerance
        )
        if fixed and pinned == "raise":
            raise ValueError(
                f"the manifold determines {', '.join(fixed[:5])}{' ...' if len(fixed) > 5 else ''}: "
                'these entries are public; leave them out of the data, or pass pinned="keep"'
            )
        self._set(
            labels=labels,
            kernel=real_array(N, "N"),
            origin=real_array(origin, "origin"),
            pinned=fixed,
        )

    def _identity(self):
        if self._constraint is None:
            arrays = (self.kernel, self.origin)
        else:
            arrays = self._constraint
        given = self._constraint is None
        return (given, self.labels, *(array_identity(array) for array in arrays))

    @property
    def size(self):
        """Number of entries n of the data."""
        return len(self.kernel)

    @property
    def dimension(self):
        """Dimension k of the tangent space."""
        return self.kernel.shape[1]

    @cached_property
    def _orthonormal(self):
        scale = np.linalg.norm(self.kernel, axis=0)
        return scipy.linalg.qr(self.kernel / scale, mode="economic"), scale

    def tangent(self, moves):
        """Tangent coordinates z (k, M) of data-space moves N z (n, M).

        Raises
        ------
        ValueError
            If a move leaves the manifold; the message gives its column only.
        """
        (Q, _), _ = self._orthonormal
        left = column_norms(moves - Q @ (Q.T @ moves))
        bad = np.flatnonzero(left > 1e-9 * column_norms(moves))
        if len(bad):
            raise ValueError(
                f"directions: column {bad[0]} is not a move along the manifold (its constraints exclude it); "
                "two data sets on the manifold differ by N z only"
            )
        return self._coordinates(moves)

    def residual(self, x):
        """How far x (n,) is off the manifold: ||D x + b||, or the distance to origin + range N."""
        x = self._point(x)
        if self._constraint is not None:
            D, b = self._constraint
            return _length(D @ x + b)
        (Q, _), _ = self._orthonormal
        move = x - self.origin
        return _length(move - Q @ (Q.T @ move))

    def contains(self, x, *, rtol=1e-9):
        """Whether x (n,) lies on the manifold up to a relative tolerance."""
        x = self._point(x)
        scale = _length(x) + _length(self.origin)
        if self._constraint is not None:
            scale = np.linalg.norm(self._constraint[0]) * scale + np.linalg.norm(
                self._constraint[1]
            )
        return bool(self.residual(x) <= rtol * scale)

    def project(self, x):
        """The point of the manifold that is nearest to x in the 2-norm: data preparation, for data rounded off it.

        The guarantee is about what it returns: two projected data sets must be neighbours, not two raw ones. Points at
        a distance r are projected to points at most r apart, so that a `BallAdjacency` keeps its radius. A raw entry
        that moves alone comes to a move of several entries, which a `ManifoldAdjacency` need not hide.

        Parameters
        ----------
        x : array_like, shape (n,)
            Private data, in the data's units.

        Returns
        -------
        ndarray, shape (n,)
            x - D^+ (D x + b), private as x is; `contains` is true of it.

        Raises
        ------
        ValueError
            If x has the wrong length or is not finite; the message holds no entry of x.

        Examples
        --------
        >>> shares = AffineManifold([[1.0, 1.0, 1.0]], [-1.0])
        >>> rounded = [0.333, 0.333, 0.333]
        >>> shares.contains(rounded), shares.contains(shares.project(rounded))
        (False, True)
        """
        x, (Q, _) = self._point(x), self._orthonormal[0]
        return self.origin + Q @ (Q.T @ (x - self.origin))

    def _point(self, x):
        x = private_array(x, "x")
        if x.shape != (self.size,):
            raise ValueError(f"x: expected shape ({self.size},), got {x.shape}")
        return x

    @property
    def entries_per_move(self):
        """Numbers that are stored of a circuit: its data, their errors, coordinates."""
        return 2 * self.size + self.dimension

    def circuit_count(self):
        """Number of candidates that `circuits` goes through for all charts."""
        return sum(component.count for component in self._components)

    def circuits(self, radius, charts="all"):
        """Worst moves of DPAM Definition 4, as an iterator of tangent columns (k, B).

        The cost is that of the candidates, C(n, k - 1) = C(n, q + 1) for q constraints
        on n entries, summed over groups of entries that no constraint ties together.

        Parameters
        ----------
        radius : array_like, shape (n,)
            mu of every entry, 0 if it is not protected.
        charts : "all" or sequence of sets of k int, optional
            Free sets of entries, one of which moves while the others are held.

        Raises
        ------
        ValueError
            If all charts would take longer than some minutes, or a chart is not free.
        UncertifiableError
            If the constraints' rank in exact arithmetic is not their rank in floating
            point.
        """
        return (block.columns for block in self.circuit_moves(radius, charts))

    def circuit_moves(self, radius, charts="all"):
        """`circuits` as an iterator of `FiniteMoves`, with the errors of their entries."""
        radius = radii(radius, (self.size,))
        if isinstance(charts, str):
            refuse_long(self._components)
            for component in self._components:
                component.kernel_rows()  # refuses ranks that do not agree
            return self._component_moves(radius)
        exact = [rational(mu) for mu in radius.tolist()]
        moves = self._whole.chart_data(exact, charts)
        every = np.arange(self.size)
        return iter([self._embedded(every, rounded_block(moves, self.size))])

    def _component_moves(self, radius):
        for component in self._components:
            for block in component.blocks(radius[component.index]):
                yield self._embedded(component.index, block)

    def _embedded(self, index, block):
        """Moves of some entries as moves of all."""
        count = block.data.shape[1]
        data = np.zeros((self.size, count))
        data[index] = block.data
        errors = np.zeros((self.size, count))
        errors[index] = block.errors
        rationals = None
        if block.moves is not None:
            rationals = []
            for support, entries in block.moves:
                column = [rational(0)] * self.size
                for i, x in zip(support, entries, strict=True):
                    column[int(index[i])] = x
                rationals.append(column)
        columns = self._coordinates(data)
        return FiniteMoves(columns, data=data, errors=errors, rationals=rationals)

    def _coordinates(self, data):
        """Tangent coordinates (k, M) of tangent moves (n, M), up to rounding."""
        (Q, R), scale = self._orthonormal
        return scipy.linalg.solve_triangular(R, Q.T @ data) / scale[:, None]

    @cached_property
    def _components(self):
        given = None if self._constraint is None else self._constraint[0]
        return split(self.kernel, given)

    @cached_property
    def _whole(self):
        by_kernel = self._constraint is None
        table = rational_matrix(self.kernel if by_kernel else self._constraint[0])
        return Component(np.arange(self.size), table, by_kernel, self.dimension)

    @cached_property
    def domain(self):
        """One public line that tells manifolds apart: sizes and, in brackets, a fingerprint of constraints and labels.

        The fingerprint is the start of a SHA-256 sum of D (or of a given kernel) and the labels, not of the offset b:
        guarantees whose fingerprints differ are about different secrets and do not add. It names no entry.
        """
        source = self.kernel if self._constraint is None else self._constraint[0]
        named = repr((source.shape, self.labels)).encode()
        digest = hashlib.sha256(
            np.ascontiguousarray(source).tobytes() + named
        ).hexdigest()
        return (
            f"manifold of dimension {self.dimension} in R^{self.size} [{digest[:12]}]"
        )

    _constraint = None

    @cached_property
    def kernel_error(self):
        """Bound of the errors of the kernel's entries; zero where it is taken as given.

        The kernel less its part across the constraints is tangent. That part is computed
        in balls, or for large constraints estimated from their condition.
        """
        if self._constraint is None:
            return 0.0
        if self._constraint[0].size > _MOST_EXACT:
            return self._estimated_error
        echelon, rank = rational_matrix(self._constraint[0]).rref()
        if rank != self.size - self.dimension:
            return self._estimated_error
        with working_bits(256):
            ties = ball_matrix(RationalMatrix(echelon.table()[:rank]))
            across = ties.transpose()
            steps = (ties * across).solve(ties * ball_matrix(self.kernel))
            return float(upper_bounds(across * steps).max())

    #: Number of samples of a trajectory; None where the data are no trajectory.
    horizon = None

    def __repr__(self):
        return f"{type(self).__name__}(size={self.size}, dimension={self.dimension})"


def _rows(D):
    """D as an array (q, n)."""
    rows = real_array(D, "D")
    if rows.ndim != 2:
        raise ValueError(
            f"D: expected shape (q, n), got {rows.shape}; write a single constraint as "
            "[[...]]"
        )
    return rows


def _length(vector):
    """The 2-norm of a vector of any size that a double can hold."""
    return float(column_norms(vector[:, None])[0])
