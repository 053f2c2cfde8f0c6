"""How far noise hides a secret of a plant that changes from sample to sample.

Let z+ = A z + B w, v = C z + D w be what is left of a secret w after the noise is undone,
with matrices that may be those of any vertex at any sample. If a matrix P >= 0 obeys
P >= A^T P A + C^T C at every vertex, then the energy of v after a state z is at most
z^T P z, for any sequence of vertices, and so it is for everything between them (the
right side is convex in the matrices). Semidefinite programs find P. Ball arithmetic
verifies every inequality, and only what is verified is returned.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from importlib import import_module
from typing import Any

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

from ..core._balls import (
    Ball,
    BallMatrix,
    ball_matrix,
    block_balls,
    diagonal_balls,
    is_positive_definite,
    largest_eigenvalue,
    midpoints,
    upper_float,
    working_bits,
)
from ..core._linalg import round_up
from ..core.errors import UncertifiableError
from ..secrets.secret import SignalMoves
from ..systems.linear import (
    LinearSystem,
    block_diagonal,
    impulse_energies,
    observability_gramian,
    queue_of,
    reachability_gramian,
    transformed,
)

_BITS = 192
#: What every inequality is solved with to spare, in coordinates in which the mean plant has
#: the P of ones, and a privacy shift of one.
_MARGINS = (1e-9, 1e-7, 1e-5)
#: Size of directions of the state that the noise hardly lets through, in the coordinates.
_FAINT = 1e-7
#: Bounds of Y for the gains of free inputs.
_LARGEST = (1e5, 1e7, 1e4, 1e2)
#: Size of faint directions in the coordinates in which these gains are found.
_FAINT_OF_GAINS = 1e-2
#: What a bound of a finite horizon has to spare at each sample, relative to its trace.
_PADDING = 1e-13

_UNSTABLE = (
    "models: no bound for runs of any length exists or was found: the plant may vary so "
    "that a hidden change never dies out. Narrow the models, take out those that are "
    "unstable, or protect over a finite horizon with a white floor"
)


@dataclass(frozen=True, eq=False)
class VaryingSecret:
    """What is left of a secret after noise is undone, at each vertex.

    Attributes
    ----------
    vertices : tuple of LinearSystem
        In balls, with the same sizes.
    signals : tuple of SignalMoves
    balls : tuple of tuple of int
        Inputs of which any impulse of Euclidean norm one is hidden.
    energies : ndarray, shape (q,), or None
        Radii of the inputs if any signal is hidden whose weighted energy is at most one.
    free : int
        Number of last inputs that may be chosen to leave least of the secret. They enter
        alike at all vertices.
    """

    vertices: tuple[LinearSystem, ...]
    signals: tuple[SignalMoves, ...]
    balls: tuple[tuple[int, ...], ...] = ()
    energies: NDArray | None = None
    free: int = 0

    @property
    def order(self) -> int:
        return self.vertices[0].order

    @property
    def radii(self) -> NDArray:
        """Sizes (q,) of what is hidden at each input, one where any impulse is."""
        if self.energies is not None:
            return self.energies
        radii = np.ones(self.vertices[0].input_count - self.free)
        for moves in self.signals:
            longest = max(np.linalg.norm(shape) for shape in moves.shapes)
            radii[moves.column] = moves.radius * moves.events * longest
        return radii

    @property
    def mean(self) -> LinearSystem:
        """The mean of the vertices in doubles."""
        each = [tuple(map(midpoints, vertex.matrices)) for vertex in self.vertices]
        return LinearSystem(*(np.mean(matrices, axis=0) for matrices in zip(*each)))

    def closed(self, gains: Sequence[NDArray]) -> VaryingSecret:
        """The same with free inputs gains (f, n + q) times the state and the inputs.

        Each vertex has gains of its own. Between vertices the free inputs are the same
        weighted means as the matrices, so they still bound what is left.
        """
        vertices = []
        for vertex, gain in zip(self.vertices, gains):
            inputs = vertex.input_count - self.free
            A, B, C, D = vertex.entered_by(range(inputs)).matrices
            free = vertex.entered_by(range(inputs, vertex.input_count))
            of_state = ball_matrix(gain[:, : self.order])
            of_secret = ball_matrix(gain[:, self.order :])
            closed = LinearSystem(
                A + free.B * of_state,
                B + free.B * of_secret,
                C + free.D * of_state,
                D + free.D * of_secret,
            )
            vertices.append(closed)
        return replace(self, vertices=tuple(vertices), free=0)

    def transformed(self, basis: NDArray, size: float) -> VaryingSecret:
        """The same in coordinates z = basis z', and with all sizes divided by ``size``."""
        into = ball_matrix(basis)
        unit = 1 / Ball(size)
        moved = [transformed(vertex, into).scaled(unit) for vertex in self.vertices]
        return replace(self, vertices=tuple(moved))


def varying_shift(secret: VaryingSecret) -> float:
    """A number that no privacy shift exceeds, over runs of any length.

    Raises
    ------
    UncertifiableError
        If no bound is verified.
    """
    with working_bits(_BITS):
        basis, size = _coordinates(secret)
        scaled = secret.transformed(basis, size)
        program = Program.of(scaled)
        for margin in _MARGINS:
            found = program.solve(margin)
            if found is None:
                continue
            square = program.verified(found)
            if square is not None:
                shift = Ball(square).sqrt() * Ball(size)
                return float(round_up(upper_float(shift)))
    raise UncertifiableError(_UNSTABLE)


def _coordinates(secret: VaryingSecret) -> tuple[NDArray, float]:
    """Coordinates (n, n) in which the mean plant has P = I, and its privacy shift."""
    mean = secret.mean
    matrices = [midpoints(vertex.A) for vertex in secret.vertices]
    for matrix in (mean.A, *matrices):
        if not _is_stable(matrix):
            raise UncertifiableError(_UNSTABLE)
    gramian = observability_gramian(mean)
    basis = _orthonormal(gramian, 1 / _root_diagonal(gramian), _FAINT)
    energies = impulse_energies(mean) * secret.radii**2
    size = float(np.sqrt(energies.max()))
    return basis, size if size > 0 else 1.0


def _is_stable(A: NDArray) -> bool:
    """Whether all eigenvalues lie inside the unit circle, as far as doubles tell."""
    if not np.isfinite(A).all():
        return False
    sizes = np.abs(np.linalg.eigvals(A))
    return bool(sizes.max() < 1)


def _root_diagonal(form: NDArray) -> NDArray:
    """Roots (n,) of the diagonal of a quadratic form, one where it is zero."""
    diagonal = np.maximum(np.diag(form), 0.0)
    return np.where(diagonal > 0, np.sqrt(diagonal), 1.0)


def _orthonormal(form: NDArray, sizes: NDArray, faint: float) -> NDArray:
    """Coordinates (n, n) in which a quadratic form is the identity, up to faint directions.

    States of given sizes (n,) are alike.
    """
    vectors, roots = _principal_axes(form * np.outer(sizes, sizes), faint)
    return sizes[:, None] * vectors / roots


def _principal_axes(form: NDArray, faint: float) -> tuple[NDArray, NDArray]:
    """Directions (n, n) of a quadratic form and its roots (n,), faint ones made larger."""
    values, vectors = scipy.linalg.eigh(_symmetric(form))
    roots = np.sqrt(np.maximum(values, faint * values[-1]))
    return vectors, roots


# -- free inputs -------------------------------------------------------------------------


def good_gains(secret: VaryingSecret, start: NDArray) -> Iterator[list[NDArray]]:
    """Gains of the free inputs, for each vertex, with which little is left of a secret.

    They are those of H-infinity control with the state and the secret known. With P the
    inverse of Y and W = K Y, K the gains of the state, the demands are linear in Y, W and
    the gains L of the secret. Later ones are for a solver that had trouble with the first.
    ``start`` (f, q) are gains of the secret that choose the coordinates.
    """
    constant = np.hstack([np.zeros((secret.free, secret.order)), start])
    closed = secret.closed([constant] * len(secret.vertices))
    if not _is_stable(closed.mean.A):
        return
    basis, size = _coordinates_of_gains(closed)
    scaled = secret.transformed(basis, size)
    cp: Any = import_module("cvxpy")  # takes seconds
    Y = cp.Variable((secret.order, secret.order), symmetric=True)
    square = cp.Variable()
    constraints = []
    unknown = []
    for vertex in scaled.vertices:
        W = cp.Variable((secret.free, secret.order))
        L = cp.Variable(start.shape)
        unknown.append((W, L))
        constraints += _demands_on_gains(secret, vertex, (Y, W, L), square)
    for largest in _LARGEST:
        bound = Y << largest * np.eye(secret.order)
        problem = cp.Problem(cp.Minimize(square), [*constraints, bound])
        if _solve(problem, 1e-8):
            into = np.linalg.inv(basis @ Y.value)
            yield [np.hstack([W.value @ into, L.value]) for W, L in unknown]


def _coordinates_of_gains(closed: VaryingSecret) -> tuple[NDArray, float]:
    """Coordinates (n, n) and a size in which the gains are looked for."""
    mean = closed.mean
    weighted = mean.after(LinearSystem.gain(np.diag(closed.radii)))
    sizes = _root_diagonal(reachability_gramian(weighted))
    seen = observability_gramian(mean)
    basis = _orthonormal(seen, sizes, _FAINT_OF_GAINS)
    at_once = float(np.linalg.norm(weighted.D, 2))
    return basis, max(at_once, np.finfo(float).tiny)


def _demands_on_gains(
    secret: VaryingSecret,
    vertex: LinearSystem,
    unknown: tuple[Any, Any, Any],
    square: Any,
) -> list[Any]:
    """Demands on Y, W and L at a vertex, with at most ``square`` left of the secret."""
    cp: Any = import_module("cvxpy")
    Y, W, L = unknown
    A, B, C, D = map(midpoints, vertex.matrices)
    inputs = len(secret.radii)
    through = np.vstack([B, D])
    own = through[:, :inputs] * secret.radii
    free = through[:, inputs:]
    of_state = np.vstack([A, C]) @ Y + free @ W
    of_secret = own + free @ L @ np.diag(secret.radii)
    energy = square * np.eye(inputs)
    after = _diagonal([Y, np.eye(len(C))], cp.bmat)
    steps = [(Y, of_state), (energy, of_secret)]
    if secret.energies is not None:
        before = _diagonal([Y, energy], cp.bmat)
        steps = [(before, cp.hstack([of_state, of_secret]))]
    demands = []
    for before, step in steps:
        matrix = cp.bmat([[before, step.T], [step, after]])
        demands.append(matrix >> 0)
    return demands


# -- the semidefinite program ------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class _Demand:
    """target >= X^T value X + Y^T Y, for named symmetric matrices.

    ``target`` lists the blocks of a diagonal: names, or a number k for t times the
    identity of size k.
    """

    target: tuple[Any, ...]
    value: str
    X: BallMatrix
    Y: BallMatrix

    def blocks(self, named: Mapping[str, Any], shares: Callable[[int], Any]) -> list:
        """The blocks of the target, with ``shares(k)`` for t times the identity."""
        return [
            named[block] if isinstance(block, str) else shares(block)
            for block in self.target
        ]


@dataclass(frozen=True, eq=False)
class Program:
    """Demands on symmetric matrices, of which t, the squared shift, is to be least."""

    sizes: dict[str, int]
    demands: tuple[_Demand, ...]

    @classmethod
    def of(cls, secret: VaryingSecret) -> Program:
        sizes = {"P": secret.order}
        demands = []
        for vertex in secret.vertices:
            if secret.energies is None:
                demands.append(_Demand(("P",), "P", vertex.A, vertex.C))
                continue
            radii = diagonal_balls(secret.energies.tolist())
            X = block_balls([[vertex.A, vertex.B * radii]])
            Y = block_balls([[vertex.C, vertex.D * radii]])
            target = ("P", len(secret.energies))
            demands.append(_Demand(target, "P", X, Y))
        for index in secret.balls:
            for vertex in secret.vertices:
                _, B, _, D = vertex.entered_by(index).matrices
                demands.append(_Demand((len(index),), "P", B, D))
        for k, moves in enumerate(secret.signals):
            for i, shape in enumerate(moves.shapes):
                name = f"Q{k}.{i}."
                demands += _of_shape(secret, moves, shape, name, sizes)
        return cls(sizes, tuple(demands))

    def solve(self, margin: float) -> dict[str, NDArray] | None:
        """Matrices that meet every demand with so much to spare, as the solver says."""
        cp: Any = import_module("cvxpy")  # takes seconds
        t = cp.Variable()
        unknown = {
            name: cp.Variable((size, size), symmetric=True)
            for name, size in self.sizes.items()
        }
        constraints = []
        for name, size in self.sizes.items():
            constraints.append(unknown[name] >> margin * np.eye(size))
        for demand in self.demands:
            blocks = demand.blocks(unknown, lambda size: t * np.eye(size))
            target = _diagonal(blocks, cp.bmat)
            X = midpoints(demand.X)
            Y = midpoints(demand.Y)
            rest = target - X.T @ unknown[demand.value] @ X - Y.T @ Y
            constraints.append(rest >> margin * np.eye(Y.shape[1]))
        problem = cp.Problem(cp.Minimize(t), constraints)
        if not _solve(problem, 1e-11):
            return None
        found = {name: _symmetric(matrix.value) for name, matrix in unknown.items()}
        found["t"] = np.array([[float(t.value)]])
        return found

    def verified(self, found: dict[str, NDArray]) -> float | None:
        """t, if the matrices are proven to meet every demand."""
        square = float(found["t"][0, 0])
        balls = {name: ball_matrix(matrix) for name, matrix in found.items()}
        for name in self.sizes:
            if not is_positive_definite(balls[name]):
                return None
        for demand in self.demands:
            blocks = demand.blocks(balls, lambda size: diagonal_balls([square] * size))
            target = reduce(block_diagonal, blocks)
            if not _is_proven(target, balls[demand.value], demand.X, demand.Y):
                return None
        return square


def _is_proven(
    target: BallMatrix, value: BallMatrix, X: BallMatrix, Y: BallMatrix
) -> bool:
    """Whether target > X^T value X + Y^T Y is certain."""
    rest = target - X.transpose() * value * X - Y.transpose() * Y
    return is_positive_definite(rest)


def _solve(problem: Any, tolerance: float) -> bool:
    """Whether the solver of semidefinite programs returns numbers, good or not.

    What it calls inaccurate is verified, or solved again.
    """
    cp: Any = import_module("cvxpy")
    asked = dict(tol_gap_abs=tolerance, tol_gap_rel=tolerance, tol_feas=tolerance)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Solution may be inaccurate", UserWarning)
        try:
            problem.solve(solver=cp.CLARABEL, max_iter=200, **asked)
        except cp.SolverError:
            return False
    return problem.value is not None and np.isfinite(problem.value)


def _of_shape(
    secret: VaryingSecret,
    moves: SignalMoves,
    shape: NDArray,
    name: str,
    sizes: dict[str, int],
) -> list[_Demand]:
    """Demands for a change of one shape.

    The energy that is still to come with j values of the change left is a quadratic
    function of (z, 1), from j = 0, which is z^T P z, up to the start, where z = 0. Every
    stage where a change may start bounds t.
    """
    demands = []
    one = ball_matrix(np.ones((1, 1)))
    zeros = BallMatrix(1, secret.order)
    value = "P"
    last = len(shape)
    for j in range(1, last + 1):
        amplitude = Ball(float(shape[last - j]) * moves.radius * moves.events)
        own = f"{name}{j}"
        for vertex in secret.vertices:
            entered = vertex.entered_by([moves.column])
            B = entered.B * amplitude
            D = entered.D * amplitude
            start = B
            step = block_balls([[vertex.A, B]])
            if j > 1:
                start = block_balls([[B], [one]])
                step = block_balls([[vertex.A, B], [zeros, one]])
            if moves.lasting or j == last:
                demands.append(_Demand((1,), value, start, D))
            if j < last:
                read = block_balls([[vertex.C, D]])
                demands.append(_Demand((own,), value, step, read))
        if j < last:
            sizes[own] = secret.order + 1
            value = own
    return demands


def _diagonal(blocks: Sequence[Any], stack: Any) -> Any:
    """A block diagonal matrix of CVXPY expressions."""
    if len(blocks) == 1:
        return blocks[0]
    rows = []
    for i, block in enumerate(blocks):
        row = [np.zeros((block.shape[0], other.shape[1])) for other in blocks]
        row[i] = block
        rows.append(row)
    return stack(rows)


def _symmetric(matrix: NDArray) -> NDArray:
    return (matrix + matrix.T) / 2


# -- finite horizons ---------------------------------------------------------------------


def varying_shift_within(secret: VaryingSecret, horizon: int) -> float:
    """A number that no privacy shift exceeds over so many samples, for any vertices.

    Matrices P_j bound the energy of the last j samples, P_j >= A^T P_(j-1) A + C^T C at
    every vertex. Each is the last right side plus what the other ones exceed it by, in
    coordinates in which all states of the mean plant are alike.

    Raises
    ------
    UncertifiableError
        If an inequality is not verified.
    ValueError
        For signals of bounded energy.
    """
    if secret.energies is not None:
        raise ValueError(
            'adjacency: norm="l2" under a plant that varies needs a plant that forgets; '
            "protect single changes or a duration, or narrow the models"
        )
    with working_bits(_BITS):
        squares = [
            _square_within(_queued(secret, moves.column, shape), moves, shape, horizon)
            for moves in secret.signals
            for shape in moves.shapes
        ]
        for index in secret.balls:
            squares.append(_ball_within(secret, index, horizon))
        largest = max(squares, key=upper_float)
        return float(round_up(upper_float(largest.sqrt())))


def _queued(secret: VaryingSecret, column: int, shape: NDArray) -> VaryingSecret:
    """The vertices with a queue of the values of a change that are still to come."""
    queue = queue_of(len(shape)).in_balls()
    vertices = [vertex.entered_by([column]).after(queue) for vertex in secret.vertices]
    return VaryingSecret(tuple(vertices), ())


def _square_within(
    queued: VaryingSecret, moves: SignalMoves, shape: NDArray, horizon: int
) -> Ball:
    """The largest squared shift of a change of one input, and of its beginnings."""
    changes = moves.beginnings(shape)
    starts = np.zeros((queued.order, len(changes)))
    for k, values in enumerate(changes):
        starts[: len(values), k] = values
    # the move of a state is an impulse one sample before the run
    samples = horizon + 1 if moves.rounded else horizon
    size = Ball(moves.radius) * moves.events
    columns = ball_matrix(starts) * size
    largest = Ball(0)
    for energy in _energies(queued, starts, samples):
        form = _form_of(columns, *energy)
        own = [form[k, k] for k in range(len(changes))]
        largest = max([largest, *own], key=upper_float)
    return largest


def _ball_within(secret: VaryingSecret, index: tuple[int, ...], horizon: int) -> Ball:
    """The largest squared shift of an initial state in a ball."""
    B = secret.vertices[0].entered_by(index).B
    starts = midpoints(B)
    *_, last = _energies(secret, starts, horizon)
    form = _form_of(B, *last)
    largest = largest_eigenvalue(form)
    return Ball(upper_float(largest))


def _form_of(columns: BallMatrix, P: BallMatrix, into: BallMatrix) -> BallMatrix:
    """X^T P X of columns X, with P in the coordinates that ``into`` maps to."""
    moved = into * columns
    return moved.transpose() * P * moved


def _energies(
    secret: VaryingSecret, starts: NDArray, samples: int
) -> Iterator[tuple[BallMatrix, BallMatrix]]:
    """Verified P_j for j = 1 .. samples, and the map into their coordinates.

    The coordinates are those in which the states of the mean plant after the starts (n, k)
    have the identity as their sum of squares, up to faint directions.
    """
    states = _reached(secret.mean.A, starts, samples)
    vectors, roots = _principal_axes(states, _FAINT)
    basis = vectors * roots
    scaled = secret.transformed(basis, 1.0)
    into = ball_matrix(basis).inv()
    plain = [(midpoints(vertex.A), midpoints(vertex.C)) for vertex in scaled.vertices]
    P = np.zeros((secret.order, secret.order))
    for _ in range(samples):
        upper = _envelope([A.T @ P @ A + C.T @ C for A, C in plain])
        before = ball_matrix(P)
        P = upper + _PADDING * np.trace(upper) * np.eye(len(P))
        after = ball_matrix(P)
        for vertex in scaled.vertices:
            if not _is_proven(after, before, vertex.A, vertex.C):
                raise UncertifiableError(
                    "models: the bound over the horizon is lost to rounding; shorten the "
                    "horizon"
                )
        yield after, into


def _reached(A: NDArray, starts: NDArray, samples: int) -> NDArray:
    """Sum of squares (n, n) of the states after some starts (n, k)."""
    total = np.zeros_like(A)
    states = starts
    for _ in range(samples):
        total = total + states @ states.T
        states = A @ states
        if not np.isfinite(states).all():
            raise UncertifiableError(
                "models: the free response exceeds 1e308 within the horizon; shorten the "
                "horizon"
            )
    return _symmetric(total)


def _envelope(matrices: Sequence[NDArray]) -> NDArray:
    """A symmetric matrix that is at least each of several ones."""
    upper, *others = matrices
    for matrix in others:
        values, vectors = np.linalg.eigh(_symmetric(matrix - upper))
        upper = upper + (vectors * np.maximum(values, 0.0)) @ vectors.T
    return _symmetric(upper)


# -- what is attained --------------------------------------------------------------------
