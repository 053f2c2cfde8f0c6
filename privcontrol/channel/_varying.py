"""How far noise hides a secret of a plant that changes from sample to sample.

Let z+ = A z + B w, v = C z + D w be what is left of a secret w after the noise is undone,
with matrices that may be those of any vertex at any sample. If a matrix P >= 0 obeys
P >= A^T P A + C^T C at every vertex, then the energy of v after a state z is at most
z^T P z, whatever the sequence of vertices, and so it is for everything between them (the
right side is convex in the matrices). Semidefinite programs find P. Ball arithmetic
verifies every inequality, and only what is verified is returned.
"""

import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
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
    submatrix,
    upper_float,
    working_bits,
)
from ..core._linalg import round_up
from ..core._random import Seed, generator
from ..core.errors import UncertifiableError
from ._shift import BallSystem, SignalMoves

_BITS = 192
#: What every inequality is solved with to spare, in coordinates in which the mean plant has
#: the P of ones, and a privacy shift of one.
_MARGINS = (1e-9, 1e-8, 1e-7, 1e-6, 1e-5, 1e-4)
#: Size of directions of the state that the noise hardly lets through, in the coordinates.
_FAINT = 1e-7
#: Bounds of Y for the gains of free inputs.
_LARGEST = (1e5, 1e7, 1e4, 1e2)
#: Size of faint directions in the coordinates in which these gains are found.
_FAINT_OF_GAINS = 1e-2
#: Sampled sequences end where little is left of a change, or after so many samples.
_DIED_OUT = 1e-12
_MOST_LENGTH = 2000
#: How often a sampled sequence is improved.
_SWEEPS = 10
#: Samples of sequences under signals of bounded energy, and how many are drawn at most.
_GAIN_LENGTH = 100
_GAINS = 20
#: What a bound of a finite horizon has to spare at each sample, relative to its trace.
_PADDING = 1e-13

_UNSTABLE = (
    "models: no bound for runs of any length exists or was found: the plant may vary so "
    "that a hidden change never dies out. Narrow the polytope, take out vertices that are "
    "unstable, or protect over a finite horizon with a white floor"
)


@dataclass(frozen=True, eq=False)
class VaryingSecret:
    """What is left of a secret after noise is undone, at each vertex.

    Attributes
    ----------
    vertices : tuple of BallSystem
        With the same sizes.
    signals : tuple of SignalMoves
    balls : tuple of tuple of int
        Inputs of which any impulse of Euclidean norm one is hidden.
    energies : ndarray, shape (q,), or None
        Radii of the inputs if any signal is hidden whose weighted energy is at most one.
    free : int
        Number of last inputs that may be chosen to leave least of the secret. They enter
        alike at all vertices.
    """

    vertices: tuple[BallSystem, ...]
    signals: tuple[SignalMoves, ...]
    balls: tuple[tuple[int, ...], ...] = ()
    energies: NDArray | None = None
    free: int = 0

    @property
    def order(self) -> int:
        return self.vertices[0].A.nrows()

    @property
    def mean(self) -> tuple[NDArray, NDArray, NDArray, NDArray]:
        """The mean of the vertices in doubles."""
        every = zip(*(map(midpoints, vertex) for vertex in self.vertices))
        A, B, C, D = (np.mean(matrices, axis=0) for matrices in every)
        return A, B, C, D

    def closed(self, gains: Sequence[NDArray]) -> "VaryingSecret":
        """The same with free inputs gains (f, n + q) times the state and the inputs.

        Each vertex has gains of its own. Between vertices the free inputs are the same
        weighted means as the matrices, so that they still bound what is left.
        """
        vertices = []
        for vertex, gain in zip(self.vertices, gains):
            inputs = vertex.B.ncols() - self.free
            secret, free = range(inputs), range(inputs, inputs + self.free)
            B, D = self.columns(vertex, secret, 1.0)
            B_free, D_free = self.columns(vertex, free, 1.0)
            of_state = ball_matrix(gain[:, : self.order])
            of_secret = ball_matrix(gain[:, self.order :])
            closed = BallSystem(
                vertex.A + B_free * of_state,
                B + B_free * of_secret,
                vertex.C + D_free * of_state,
                D + D_free * of_secret,
            )
            vertices.append(closed)
        return replace(self, vertices=tuple(vertices), free=0)

    def transformed(self, basis: NDArray, size: float) -> "VaryingSecret":
        """The same in coordinates z = basis z', and with all sizes divided by ``size``."""
        into = ball_matrix(basis)
        back = into.inv()
        unit = 1 / Ball(size)
        vertices = []
        for A, B, C, D in self.vertices:
            moved = BallSystem(back * A * into, back * B, C * into * unit, D * unit)
            vertices.append(moved)
        return replace(self, vertices=tuple(vertices))

    def columns(self, vertex: BallSystem, index: Sequence[int], size: float) -> tuple:
        """Columns of B and D of some inputs, scaled."""
        B, D = vertex.B, vertex.D
        B = submatrix(B, range(B.nrows()), index) * Ball(size)
        D = submatrix(D, range(D.nrows()), index) * Ball(size)
        return B, D


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
    A, B, C, D = secret.mean
    matrices = [A, *(midpoints(vertex.A) for vertex in secret.vertices)]
    for matrix in matrices:
        if not np.abs(np.linalg.eigvals(matrix)).max() < 1:
            raise UncertifiableError(_UNSTABLE)
    gramian = scipy.linalg.solve_discrete_lyapunov(A.T, C.T @ C)
    sizes = np.sqrt(np.maximum(np.diag(gramian), 0.0))
    sizes = np.where(sizes > 0, sizes, 1.0)
    scaled = gramian / np.outer(sizes, sizes)
    values, vectors = scipy.linalg.eigh((scaled + scaled.T) / 2)
    roots = np.sqrt(np.maximum(values, _FAINT * values[-1]))
    basis = (vectors / roots) / sizes[:, None]
    energies = np.einsum("iq,ij,jq->q", B, gramian, B) + np.sum(D**2, axis=0)
    radii = np.ones(len(energies))
    for moves in secret.signals:
        longest = max(np.linalg.norm(shape) for shape in moves.shapes)
        radii[moves.column] = moves.radius * moves.events * longest
    if secret.energies is not None:
        radii = secret.energies
    size = float(np.sqrt((energies * radii**2).max()))
    return basis, size if size > 0 else 1.0


# -- free inputs -------------------------------------------------------------------------


def good_gains(secret: VaryingSecret, start: NDArray) -> Iterator[list[NDArray]]:
    """Gains of the free inputs, for each vertex, with which little is left of a secret.

    They are those of H-infinity control with the state and the secret known, in doubles.
    With P the inverse of Y and W = K Y, K the gains of the state, the demands are linear
    in Y, W and the gains L of the secret. Later ones are for a solver that had trouble
    with the first.

    ``start`` (f, q) are gains of the secret that choose the coordinates.
    """
    inputs = start.shape[1]
    radii = np.ones(inputs)
    for moves in secret.signals:
        radii[moves.column] = moves.radius
    if secret.energies is not None:
        radii = secret.energies
    constant = np.hstack([np.zeros((secret.free, secret.order)), start])
    A, B, C, D = secret.closed([constant] * len(secret.vertices)).mean
    if not np.abs(np.linalg.eigvals(A)).max() < 1:
        return
    basis = _balanced(A, B * radii, C)
    size = max(float(np.linalg.norm(D * radii, 2)), np.finfo(float).tiny)
    scaled = secret.transformed(basis, size)
    cp: Any = import_module("cvxpy")  # takes seconds
    Y = cp.Variable((secret.order, secret.order), symmetric=True)
    square = cp.Variable()
    constraints = []
    unknown = []
    for vertex in scaled.vertices:
        A, B, C, D = map(midpoints, vertex)
        W = cp.Variable((secret.free, secret.order))
        L = cp.Variable((secret.free, inputs))
        unknown.append((W, L))
        B_free = B[:, inputs:]
        D_free = D[:, inputs:]
        of_state = cp.vstack([A @ Y + B_free @ W, C @ Y + D_free @ W])
        of_secret = cp.vstack([B[:, :inputs] + B_free @ L, D[:, :inputs] + D_free @ L])
        of_secret = of_secret @ np.diag(radii)
        energy = square * np.eye(inputs)
        after = _diagonal([Y, np.eye(len(C))], cp.bmat)
        if secret.energies is None:
            steps = [(Y, of_state), (energy, of_secret)]
        else:
            before = _diagonal([Y, energy], cp.bmat)
            steps = [(before, cp.hstack([of_state, of_secret]))]
        for before, step in steps:
            constraints.append(cp.bmat([[before, step.T], [step, after]]) >> 0)
    for largest in _LARGEST:
        bounded = [*constraints, Y << largest * np.eye(secret.order)]
        if _solve(cp.Problem(cp.Minimize(square), bounded), 1e-8):
            into = np.linalg.inv(basis @ Y.value)
            yield [np.hstack([W.value @ into, L.value]) for W, L in unknown]


def _balanced(A: NDArray, B: NDArray, C: NDArray) -> NDArray:
    """Coordinates (n, n) of states that are reached, and mostly seen, alike."""
    reached = scipy.linalg.solve_discrete_lyapunov(A, B @ B.T)
    sizes = np.sqrt(np.maximum(np.diag(reached), 0.0))
    sizes = np.where(sizes > 0, sizes, 1.0)
    seen = scipy.linalg.solve_discrete_lyapunov(A.T, C.T @ C)
    values, vectors = scipy.linalg.eigh(seen * np.outer(sizes, sizes))
    roots = np.sqrt(np.maximum(values, _FAINT_OF_GAINS * values[-1]))
    return sizes[:, None] * vectors / roots


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


@dataclass(frozen=True, eq=False)
class Program:
    """Demands on symmetric matrices, of which t, the squared shift, is to be least."""

    sizes: dict[str, int]
    demands: tuple[_Demand, ...]

    @classmethod
    def of(cls, secret: VaryingSecret) -> "Program":
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
                B, D = secret.columns(vertex, index, 1.0)
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
            target = _diagonal(
                [
                    unknown[block] if isinstance(block, str) else t * np.eye(block)
                    for block in demand.target
                ],
                cp.bmat,
            )
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
            blocks = []
            for block in demand.target:
                if isinstance(block, str):
                    blocks.append(balls[block])
                else:
                    blocks.append(diagonal_balls([square] * block))
            rest = _diagonal_balls(blocks)
            rest = rest - demand.X.transpose() * balls[demand.value] * demand.X
            rest = rest - demand.Y.transpose() * demand.Y
            if not is_positive_definite(rest):
                return None
        return square


def _solve(problem: Any, tolerance: float) -> bool:
    """Whether the solver of semidefinite programs returns numbers, good or not.

    What it calls inaccurate is verified, or solved again.
    """
    cp: Any = import_module("cvxpy")
    asked = dict(tol_gap_abs=tolerance, tol_gap_rel=tolerance, tol_feas=tolerance)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
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
        amplitude = float(shape[last - j]) * moves.radius * moves.events
        own = f"{name}{j}"
        for vertex in secret.vertices:
            B, D = secret.columns(vertex, (moves.column,), amplitude)
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


def _diagonal_balls(blocks: Sequence[BallMatrix]) -> BallMatrix:
    if len(blocks) == 1:
        return blocks[0]
    rows = []
    for i, block in enumerate(blocks):
        row = [BallMatrix(block.nrows(), other.ncols()) for other in blocks]
        row[i] = block
        rows.append(row)
    return block_balls(rows)


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
            "protect single changes or a duration, or narrow the polytope"
        )
    with working_bits(_BITS):
        squares = [
            _square_within(_queued(secret, moves.column, shape), moves, shape, horizon)
            for moves in secret.signals
            for shape in moves.shapes
        ]
        for index in secret.balls:
            squares.append(_ball_within(secret, index, horizon))
        return float(round_up(upper_float(max(squares, key=upper_float).sqrt())))


def _queued(secret: VaryingSecret, column: int, shape: NDArray) -> VaryingSecret:
    """The vertices with a queue of the values of a change that are still to come."""
    count = len(shape)
    shift = ball_matrix(np.eye(count, k=1))
    vertices = []
    for vertex in secret.vertices:
        B, D = secret.columns(vertex, (column,), 1.0)
        later = BallMatrix(B.nrows(), count - 1)
        unread = BallMatrix(D.nrows(), count - 1)
        entry = block_balls([[B, later]]) if count > 1 else B
        through = block_balls([[D, unread]]) if count > 1 else D
        corner = BallMatrix(count, secret.order)
        A = block_balls([[vertex.A, entry], [corner, shift]])
        C = block_balls([[vertex.C, through]])
        vertices.append(BallSystem(A, BallMatrix(A.nrows(), 0), C, BallMatrix(0, 0)))
    return VaryingSecret(tuple(vertices), ())


def _square_within(
    queued: VaryingSecret, moves: SignalMoves, shape: NDArray, horizon: int
) -> Ball:
    """The largest squared shift of a change of one input, and of its beginnings."""
    count = len(shape)
    lengths = range(1, count + 1) if moves.lasting else (count,)
    starts = np.zeros((queued.order, len(lengths)))
    for k, length in enumerate(lengths):
        starts[queued.order - count : queued.order - count + length, k] = shape[:length]
    # the move of a state is an impulse one sample before the run
    samples = horizon + 1 if moves.rounded else horizon
    size = Ball(moves.radius) * moves.events
    columns = ball_matrix(starts) * size
    largest = Ball(0)
    for P, into in _energies(queued, starts, samples):
        moved = into * columns
        form = moved.transpose() * P * moved
        own = [form[k, k] for k in range(len(lengths))]
        largest = max([largest, *own], key=upper_float)
    return largest


def _ball_within(secret: VaryingSecret, index: tuple[int, ...], horizon: int) -> Ball:
    """The largest squared shift of an initial state in a ball."""
    B, _ = secret.columns(secret.vertices[0], index, 1.0)
    P, into = list(_energies(secret, midpoints(B), horizon))[-1]
    moved = into * B
    return Ball(upper_float(largest_eigenvalue(moved.transpose() * P * moved)))


def _energies(
    secret: VaryingSecret, starts: NDArray, samples: int
) -> Iterator[tuple[BallMatrix, BallMatrix]]:
    """Verified P_j for j = 1 .. samples, and the map into their coordinates.

    The coordinates are those in which the states of the mean plant after the starts (n, k)
    have the identity as their sum of squares, up to faint directions.
    """
    states = _reached(secret.mean[0], starts, samples)
    values, vectors = scipy.linalg.eigh(states)
    roots = np.sqrt(np.maximum(values, _FAINT * values[-1]))
    scaled = secret.transformed(vectors * roots, 1.0)
    into = ball_matrix(vectors * roots).inv()
    plain = [(midpoints(vertex.A), midpoints(vertex.C)) for vertex in scaled.vertices]
    P = np.zeros((secret.order, secret.order))
    for _ in range(samples):
        upper = _envelope([A.T @ P @ A + C.T @ C for A, C in plain])
        before = ball_matrix(P)
        P = upper + _PADDING * np.trace(upper) * np.eye(len(P))
        after = ball_matrix(P)
        for A, _, C, _ in scaled.vertices:
            rest = after - A.transpose() * before * A - C.transpose() * C
            if not is_positive_definite(rest):
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
        values, vectors = scipy.linalg.eigh(_symmetric(matrix - upper))
        upper = upper + (vectors * np.maximum(values, 0.0)) @ vectors.T
    return _symmetric(upper)


# -- what is attained --------------------------------------------------------------------


def attained_shift(
    secret: VaryingSecret, samples: int, rng: Seed, horizon: float
) -> float:
    """The largest shift of single changes over sampled sequences of vertices.

    At each sample a sequence takes the vertex after which most energy is to be expected,
    or, with a share of its own, any one. The worst sequence is then improved sample by
    sample until no other vertex does more.
    """
    draws = generator(rng)
    if secret.energies is not None or secret.free:
        return _attained_dense(secret, samples, draws, horizon)
    largest = 0.0
    with working_bits(_BITS):
        runs = list(_runs(secret))
    for vertices, start in runs:
        length = _length_of_run(vertices, start, horizon)
        sequence = _sampled_sequence(vertices, start, samples, draws, length)
        energy = 0.0
        for _ in range(_SWEEPS):
            better, sequence = _improved(vertices, start, sequence)
            if better <= energy * (1 + 1e-12):
                break
            energy = better
        largest = max(largest, energy)
    return float(np.sqrt(largest))


Vertices = list[tuple[NDArray, NDArray]]


def _runs(secret: VaryingSecret) -> Iterator[tuple[Vertices, NDArray]]:
    """(A, C) of all vertices with a state to start from, for every single change."""
    for index in secret.balls:
        B, _ = secret.columns(secret.vertices[0], index, 1.0)
        vertices = [(midpoints(v.A), midpoints(v.C)) for v in secret.vertices]
        energies = [_gramian(A, C, _MOST_LENGTH) for A, C in vertices]
        columns = midpoints(B)
        _, vectors = np.linalg.eigh(columns.T @ np.mean(energies, axis=0) @ columns)
        yield vertices, columns @ vectors[:, -1]
    for moves in secret.signals:
        for shape in moves.shapes:
            queued = _queued(secret, moves.column, shape)
            vertices = [(midpoints(v.A), midpoints(v.C)) for v in queued.vertices]
            first = queued.order - len(shape)
            lengths = range(1, len(shape) + 1) if moves.lasting else (len(shape),)
            for length in lengths:
                start = np.zeros(queued.order)
                start[first : first + length] = shape[:length]
                yield vertices, start * moves.radius * moves.events


def _gramian(A: NDArray, C: NDArray, samples: int) -> NDArray:
    """sum over t < samples of (C A^t)^T C A^t."""
    total = np.zeros_like(A)
    for _ in range(samples):
        total = C.T @ C + A.T @ total @ A
    return total


def _length_of_run(vertices: Vertices, start: NDArray, horizon: float) -> int:
    """Samples after which little is left of a change, at every vertex."""
    most = int(min(horizon, _MOST_LENGTH))
    largest = 1
    for A, C in vertices:
        state = start
        energy = 0.0
        for t in range(most):
            energy += float(np.sum((C @ state) ** 2))
            state = A @ state
            if np.sum((C @ state) ** 2) > _DIED_OUT * energy:
                largest = max(largest, t + 2)
    return min(2 * largest, most)


def _sampled_sequence(
    vertices: Vertices,
    start: NDArray,
    samples: int,
    rng: np.random.Generator,
    length: int,
) -> NDArray:
    """The worst of some sequences (length,) of vertices."""
    A = np.array([matrix for matrix, _ in vertices])
    C = np.array([matrix for _, matrix in vertices])
    later = _gramian(A.mean(axis=0), C.mean(axis=0), length)
    states = np.tile(start, (samples, 1))
    energies = np.zeros(samples)
    shares = np.linspace(0, 1, samples)
    sequences = np.empty((length, samples), int)
    each = np.arange(samples)
    for t in range(length):
        outputs = np.einsum("kij,sj->ski", C, states)
        moved = np.einsum("kij,sj->ski", A, states)
        now = np.sum(outputs**2, axis=2)
        chosen = np.argmax(now + np.einsum("ski,ij,skj->sk", moved, later, moved), 1)
        at_random = rng.random(samples) < shares
        drawn = rng.integers(len(vertices), size=samples)
        chosen = np.where(at_random, drawn, chosen)
        energies += now[each, chosen]
        states = moved[each, chosen]
        sequences[t] = chosen
    return sequences[:, int(np.argmax(energies))]


def _improved(
    vertices: Vertices, start: NDArray, sequence: NDArray
) -> tuple[float, NDArray]:
    """The energy after a sequence, and one that is at least as bad.

    Backwards in time each vertex is the worst one for the states so far and the vertices
    that follow.
    """
    states = [start]
    energy = 0.0
    for k in sequence:
        A, C = vertices[k]
        energy += float(np.sum((C @ states[-1]) ** 2))
        states.append(A @ states[-1])
    later = np.zeros((len(start), len(start)))
    worse = np.empty_like(sequence)
    for t in reversed(range(len(sequence))):
        gains = [
            float(np.sum((C @ states[t]) ** 2))
            + float((A @ states[t]) @ later @ (A @ states[t]))
            for A, C in vertices
        ]
        worse[t] = int(np.argmax(gains))
        A, C = vertices[worse[t]]
        later = C.T @ C + A.T @ later @ A
    return energy, worse


def _attained_dense(
    secret: VaryingSecret, samples: int, rng: np.random.Generator, horizon: float
) -> float:
    """The largest shift from dense maps, over constant and drawn vertices."""
    length = int(min(horizon, _GAIN_LENGTH))
    vertices = [tuple(map(midpoints, vertex)) for vertex in secret.vertices]
    count = len(vertices)
    constant = [np.full(length, k) for k in range(count)]
    drawn = [rng.integers(count, size=length) for _ in range(min(samples, _GAINS))]
    worst = 0.0
    for sequence in (*constant, *drawn):
        left = _least_left(vertices, sequence, secret.free)
        if secret.energies is not None:
            sizes = np.asarray(secret.energies)
            weighted = (left * sizes).reshape(len(left), -1)
            worst = max(worst, float(np.linalg.norm(weighted, 2)))
        for moves in secret.signals:
            for shape in moves.shapes:
                first = left[:, : len(shape), moves.column]
                size = moves.radius * moves.events
                worst = max(worst, float(np.linalg.norm(first @ shape) * size))
    return worst


def _least_left(vertices: list, sequence: NDArray, free: int) -> NDArray:
    """What is left of the secret (rows, T, q) if the free inputs are the best ones."""
    _, B, C, _ = vertices[0]
    length = len(sequence)
    width = B.shape[1]
    dense = np.zeros((length, len(C), length, width))
    states = np.zeros((len(B), length, width))
    for t, k in enumerate(sequence):
        A, B, C, D = vertices[k]
        dense[t] = np.tensordot(C, states, 1)
        dense[t, :, t] += D
        states = np.tensordot(A, states, 1)
        states[:, t] += B
    every = dense.reshape(-1, length, width)
    left = every[:, :, : width - free].reshape(len(every), -1)
    if free:
        chosen = every[:, :, width - free :].reshape(len(every), -1)
        basis, _ = np.linalg.qr(chosen)
        left = left - basis @ (basis.T @ left)
    return left.reshape(len(every), length, width - free)
