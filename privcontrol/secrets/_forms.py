"""How far output noise hides moves of a state, in ball arithmetic.

Let Gamma = O S S^T O^T + F^2, with F the independent part of the noise, and let s = O' z be
the outputs of a plant with another A' and C'. Woodbury's identity makes s^T Gamma^-1 s a
quadratic form in z. Its Gramians are sums over time of n x n matrices, formed by doubling,
so no T x T matrix appears. Balls carry as many digits as the cancellation takes.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial, reduce

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

from ..core._balls import (
    Ball,
    BallMatrix,
    RationalMatrix,
    ball_matrix,
    diagonal_balls,
    identity_balls,
    largest_eigenvalue,
    rational_matrix,
    submatrix,
    upper_bounds,
    upper_float,
    working_bits,
)
from ..core.adjacency import Adjacency
from ..core.errors import NotRealizableError
from ..systems.plant import Plant
from ..systems.powers import exact_response, rational_response
from .manifold import TrajectoryManifold
from .secret import Secret, as_secret

_BITS = 320
_MOST_BITS = 1 << 12

#: Makes columns that span the moves, where they are asked for.
Spanning = Callable[[], RationalMatrix]

#: Maps moves Z (n, M) to U and V with y^2 = U^T V.
Sides = Callable[[BallMatrix], tuple[BallMatrix, BallMatrix]]

LEAVES = (
    "under the model {name} a hidden move leaves the column space of the noise, which "
    "covers the nominal plant's free responses alone, or may do so: it would be published "
    "exactly. Add a white floor (design_output_noise(..., floor=...)), which covers every "
    "direction"
)


def gramian(
    A: NDArray, C: NDArray, weights: Sequence[Ball], horizon: int
) -> BallMatrix:
    """sum over t < horizon of (C A^t)^T diag(weights) C A^t, by doubling."""
    outputs = ball_matrix(C)
    step = ball_matrix(A)
    part = outputs.transpose() * diagonal_balls(weights) * outputs
    total = 0 * part
    power = identity_balls(len(A))
    # part is the sum over 2^k samples, and step is A^(2^k)
    while horizon:
        if horizon & 1:
            total = total + power.transpose() * part * power
            power = power * step
        horizon >>= 1
        if horizon:
            part = part + step.transpose() * part * step
            step = step * step
    return total


@dataclass(frozen=True)
class NoiseForm:
    """The noise C A^t S eta + diag(scale) zeta(t) over a window of a run.

    ``factor`` S (n, r) and ``scale`` (p,) may be None, but not both. The window begins at
    sample ``start`` of the run.
    """

    plant: Plant
    horizon: int
    factor: NDArray | None
    scale: NDArray | None
    start: int = 0

    def sides_under(self, model: Plant, spanning: Spanning) -> Callable[[], Sides]:
        """Return what evaluates the map to `Sides` of moves of a model's state.

        It computes with balls of the working bits. Errors are those of `map_under`.
        """
        if self.scale is not None:
            return lambda: partial(_beside, self._beside_scale(model.A, model.C))
        shifts = self.map_under(model, spanning)
        return lambda: partial(_alone, shifts())

    def map_under(self, model: Plant, spanning: Spanning) -> Callable[[], BallMatrix]:
        """Return what evaluates L (r, n') with the shifts L z of least norm, without a scale.

        Two plants of orders n and n' whose outputs agree for n + n' samples agree for ever.

        Raises
        ------
        NotRealizableError
            If a spanning move leaves the column space of the noise, which is decided in
            rational numbers.
        """
        order = model.order
        samples = min(self.plant.order + order, self.horizon)
        factor = rational_matrix(np.asarray(self.factor))
        own = rational_response(self.plant, factor, samples)
        spans = rational_response(model, spanning(), samples)
        both = zip(own.table(), spans.table())
        if RationalMatrix([left + right for left, right in both]).rank() > own.rank():
            raise NotRealizableError(LEAVES.format(name=model.name))
        rows = _independent_rows(own)
        chosen = RationalMatrix([own.table()[row] for row in rows])
        transposed = chosen.transpose()
        inverse = transposed * (chosen * transposed).inv()

        def evaluate() -> BallMatrix:
            A = ball_matrix(model.A)
            outputs = exact_response(A, ball_matrix(model.C), A**0, samples)
            return BallMatrix(inverse) * submatrix(outputs, rows, range(order))

        return evaluate

    def _beside_scale(self, A: NDArray, C: NDArray) -> BallMatrix:
        """K of a plant (A, C) by Woodbury's identity."""
        scale = np.asarray(self.scale)
        precision = [1 / Ball(size) ** 2 for size in scale.tolist()]
        if self.factor is None or not self.factor.size:
            return gramian(A, C, precision, self.horizon)
        both = scipy.linalg.block_diag(self.plant.A, A)
        outputs = np.hstack([self.plant.C, C])
        total = gramian(both, outputs, precision, self.horizon)
        order = self.plant.order
        own = range(order)
        other = range(order, len(both))
        factor = ball_matrix(self.factor)
        across = factor.transpose()
        cross = across * submatrix(total, own, other)
        inner = across * submatrix(total, own, own) * factor
        inner = inner + identity_balls(inner.nrows())
        hidden = cross.transpose() * inner.solve(cross)
        return submatrix(total, other, other) - hidden


def _beside(form: BallMatrix, moves: BallMatrix) -> tuple[BallMatrix, BallMatrix]:
    return moves, form * moves


def _alone(shifts: BallMatrix, moves: BallMatrix) -> tuple[BallMatrix, BallMatrix]:
    shift = shifts * moves
    return shift, shift


def window_squares(
    windows: Sequence[NoiseForm], part: Adjacency, manifold: TrajectoryManifold
) -> NDArray:
    """Return certified y^2 of each move of a run, or of the worst one of a ball.

    The noises of windows are independent, so their squared shifts add up.
    """
    secret = as_secret(part)
    forms = []
    moved = []
    most = _BITS
    for window in windows:
        blocks, bits = secret.balls_from(manifold, window.start, window.horizon)
        spanning = partial(_spanning, secret, manifold, window.start)
        forms.append(window.sides_under(manifold.plant, spanning))
        moved.append(blocks)
        most = max(most, bits)
    is_ball = part.moves(manifold).is_ball

    def evaluate() -> Iterator[Ball]:
        every = [form() for form in forms]
        for block in zip(*(blocks() for blocks in moved)):
            found = [sides(vectors) for sides, vectors in zip(every, block)]
            if is_ball:
                grams = [left.transpose() * right for left, right in found]
                yield largest_eigenvalue(reduce(operator.add, grams))
                continue
            squares = [_inner_products(left, right) for left, right in found]
            for of_windows in zip(*squares):
                yield sum(of_windows, Ball(0))

    return certified(evaluate, most)


def _inner_products(left: BallMatrix, right: BallMatrix) -> list[Ball]:
    """Those of each column of one matrix with the same column of another."""
    count = left.ncols()
    products = [x * y for x, y in zip(left.entries(), right.entries())]
    rows = [products[first : first + count] for first in range(0, len(products), count)]
    return [sum(column, Ball(0)) for column in zip(*rows)]


def laplace_shifts(
    window: NoiseForm, part: Adjacency, manifold: TrajectoryManifold
) -> NDArray:
    """Return bounds of the sizes of the shifts (r, M) of noise without a scale.

    Raises
    ------
    ValueError
        If a ball of moves is hidden.
    """
    if part.moves(manifold).is_ball:
        raise ValueError(
            "models: expected an adjacency of single moves for Laplace noise"
        )
    secret = as_secret(part)
    blocks, bits = secret.balls_from(manifold, window.start, window.horizon)
    spanning = partial(_spanning, secret, manifold, window.start)
    shifts = window.map_under(manifold.plant, spanning)
    with working_bits(bits):
        shift = shifts()
        return np.hstack([upper_bounds(shift * vectors) for vectors in blocks()])


def certified(
    evaluate: Callable[[], Iterable[Ball]], bits: int = _BITS, tol: float = 1e-9
) -> NDArray:
    """Upper bounds of the balls that ``evaluate()`` returns, at a sharp precision."""
    while True:
        with working_bits(bits):
            try:
                bounds = np.fromiter(map(_bounds, evaluate()), np.dtype((float, 2)))
            except ZeroDivisionError:  # these are too few bits
                bounds = np.full((1, 2), np.inf)
        values, widths = bounds.T
        sharp = np.isfinite(values).all() and (widths <= tol * values.max()).all()
        if sharp or bits >= _MOST_BITS:
            return np.maximum(values, 0.0)
        bits *= 2


def _bounds(ball: Ball) -> tuple[float, float]:
    """The upper end of a ball, and its width."""
    return upper_float(ball), float((2 * ball.rad()).upper())


def _spanning(
    secret: Secret, manifold: TrajectoryManifold, start: int
) -> RationalMatrix:
    """Rational columns (n, k) whose span holds every move of the state at ``start``."""
    ahead = rational_matrix(manifold.plant.A) ** start
    return ahead * secret.spanning(manifold)


def _independent_rows(matrix: RationalMatrix) -> list[int]:
    """Indices of rows that span all rows, as few as there can be."""
    reduced, _ = matrix.transpose().rref()
    pivots = []
    for line in reduced.table():
        pivot = next((column for column, entry in enumerate(line) if entry != 0), None)
        if pivot is not None:
            pivots.append(pivot)
    return pivots
