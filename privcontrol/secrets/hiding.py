"""Certify in ball arithmetic how far noise hides moves of a state.

What noise Gamma = O S S^T O^T + F^2 leaves of the outputs s = O' z of a plant with another
A' and C' is a quadratic form in z, by Woodbury's identity. Its Gramians are sums over time
of n x n matrices, formed by doubling, so no T x T matrix appears.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

from ..core.manifold import Moves
from ..numerics.balls import (
    Ball,
    BallMatrix,
    RationalMatrix,
    ball_matrix,
    identity_balls,
    inverse_balls,
    midpoints,
    rational_matrix,
    residue_rank,
    residues,
    submatrix,
    working_bits,
)
from ..numerics.errors import NotRealizableError
from ..systems.gramian import gramian
from ..systems.linear import Plant, sum_of
from ..systems.powers import (
    distinguishes_all,
    exact_response,
    rational_response,
    residue_response,
    seen_states,
    tell_apart,
)
from ..systems.varying import VaryingPlant

LEAVES = (
    "under the model {name} a hidden move leaves the column space of the noise, which "
    "covers the nominal plant's free responses alone, or may do so: it would be published "
    "exactly. Add a white floor (design_output_noise(..., floor=...)), which covers every "
    "direction"
)


def coordinates_in(factor: NDArray[np.float64], moves: Moves) -> NDArray[np.float64]:
    """Return S^-1 z (r, M) of every hidden move, S a structured factor."""
    rows = np.flatnonzero(factor.any(axis=1))
    with working_bits(moves.bits):
        return midpoints(
            ball_matrix(factor[rows]).solve(ball_matrix(moves.balls(rows)))
        )


#: From moves of a state to two matrices whose columns have the squared shifts as products.
Pairing = Callable[[BallMatrix], tuple[BallMatrix, BallMatrix]]


@dataclass(frozen=True)
class NoiseForm:
    """The noise C A^t S eta + diag(scale) zeta(t) over a run.

    ``factor`` S (n, r) and ``scale`` (p,) may be None, but not both.
    """

    plant: Plant
    horizon: int
    factor: NDArray[np.float64] | None
    scale: NDArray[np.float64] | None

    def pairing_under(self, hidden: Moves, model: Plant) -> Callable[[], Pairing]:
        """Return what evaluates a pairing of ``hidden`` moves of a model's state, in balls.

        It maps moves z to two matrices whose columns have the inner products y^2: to z and
        K z, or to the shifts L z twice, which keep more digits. It computes with balls of
        the working bits. Errors are those of `map_under`.
        """
        if self.scale is not None:

            def beside() -> Pairing:
                form = self._beside_scale(model)
                return lambda moves: (moves, form * moves)

            return beside
        shifts = self.map_under(hidden, model)

        def evaluate() -> Pairing:
            shift = shifts()

            def twice(moves: BallMatrix) -> tuple[BallMatrix, BallMatrix]:
                images = shift * moves
                return images, images

            return twice

        return evaluate

    def attains(self, model: Plant) -> bool:
        """Return whether squares are those of the least noise that makes up for a move.

        Of a plant that varies they are upper bounds where outputs do not distinguish the
        states with noise.
        """
        if not model.varies or self.scale is not None:
            return True
        noisy = np.flatnonzero(np.asarray(self.factor).any(axis=1))
        return tell_apart(model, noisy, self.horizon)

    def map_under(self, hidden: Moves, model: Plant) -> Callable[[], BallMatrix]:
        """Return what evaluates L (r, n') with the shifts L z of least norm, without a scale.

        Two plants of orders n and n' whose outputs agree for n + n' samples agree at all times.

        Raises
        ------
        NotRealizableError
            If a spanning move leaves the column space of the noise, which is decided in
            rational numbers.
        """
        if isinstance(model, VaryingPlant) or isinstance(self.plant, VaryingPlant):
            return self._varying_map(hidden, model)
        order = model.order
        samples = min(self.plant.order + order, self.horizon)
        if self._is_square_for(model):
            return partial(_inverse, np.asarray(self.factor))
        if self._is_short_for(model):
            return partial(self._map_of_all_rows, model)
        factor = rational_matrix(np.asarray(self.factor))
        told = self._told(model)
        if told == order == factor.rank():
            return partial(ball_matrix, _right_inverse(factor))
        own = rational_response(self.plant, factor, samples)
        reduced, rank = own.transpose().rref()
        rows = []
        for line in reduced.table()[:rank]:
            rows.append(next(k for k, entry in enumerate(line) if entry != 0))
        if told != rank:
            spans = rational_response(model, hidden.spanning(), samples)
            both = own.transpose().table() + spans.transpose().table()
            if RationalMatrix(both).rank() > rank:
                raise NotRealizableError(LEAVES.format(name=model.name))
        inverse = _right_inverse(RationalMatrix([own.table()[row] for row in rows]))

        def evaluate() -> BallMatrix:
            A = ball_matrix(model.A)
            outputs = exact_response(A, ball_matrix(model.C), A**0, samples)
            return BallMatrix(inverse) * submatrix(outputs, rows, range(order))

        return evaluate

    def _varying_map(self, hidden: Moves, model: Plant) -> Callable[[], BallMatrix]:
        """Return `map_under` for the plant of the noise, as it varies.

        The shift of z is the least w with S w = z, on the states that outputs see. Two
        plants that vary are not compared: their outputs may agree for any time, and then
        differ.
        """
        refused = NotRealizableError(LEAVES.format(name=model.name))
        if model != self.plant:
            raise refused
        factor = np.asarray(self.factor)
        noisy = factor.any(axis=1)
        rows = np.flatnonzero(noisy)
        bare = seen_states(model, self.horizon) & ~noisy
        if hidden.moved[bare].any():
            raise refused
        shape = rational_matrix(factor[rows])
        count = len(rows)
        if shape.rank() < count:
            spans = hidden.spanning()
            own = shape.transpose().table()
            moved = [[row[int(k)] for k in rows] for row in spans.transpose().table()]
            if RationalMatrix(own + moved).rank() > shape.rank():
                raise refused
            reduced, rank = shape.transpose().rref()
            chosen = []
            for line in reduced.table()[:rank]:
                chosen.append(next(k for k, entry in enumerate(line) if entry != 0))
            shape = RationalMatrix([shape.table()[k] for k in chosen])
            rows = rows[chosen]
        inverse = _right_inverse(shape)
        pick = rational_matrix(np.eye(model.order)[rows])
        return partial(ball_matrix, inverse * pick)

    def _is_of(self, model: Plant) -> bool:
        """Return whether the noise is of this plant, and not of another one."""
        A, C = self.plant.A, self.plant.C
        return np.array_equal(model.A, A) and np.array_equal(model.C, C)

    def _is_square_for(self, model: Plant) -> bool:
        """Return whether a quick proof shows that factor and outputs reveal all states."""
        factor = np.asarray(self.factor)
        if factor.shape != (model.order, model.order) or not self._is_of(model):
            return False
        entries = residues(factor).entries()
        if residue_rank(entries, model.order) < model.order:
            return False
        return distinguishes_all(model, min(model.order, self.horizon))

    def _is_short_for(self, model: Plant) -> bool:
        """Return whether it is proven quickly that the noise drives all T p outputs.

        The outputs then reveal no more of the state than of the noise.
        """
        rows = self.horizon * model.output_count
        if rows > model.order or not self._is_of(model):
            return False
        entries = residue_response(model, np.asarray(self.factor), self.horizon)
        width = np.asarray(self.factor).shape[1]
        return residue_rank(entries, width) == rows

    def _map_of_all_rows(self, model: Plant) -> BallMatrix:
        """Return L of `map_under` for outputs that are all independent."""
        A = ball_matrix(model.A)
        outputs = exact_response(A, ball_matrix(model.C), A**0, self.horizon)
        own = outputs * ball_matrix(np.asarray(self.factor))
        across = own.transpose()
        return across * (own * across).solve(outputs)

    def _told(self, model: Plant) -> int | None:
        """In how many directions outputs reveal the state, None for another plant."""
        if not self._is_of(model):
            return None
        every = rational_matrix(np.eye(model.order))
        return rational_response(model, every, min(model.order, self.horizon)).rank()

    def _beside_scale(self, model: Plant) -> BallMatrix:
        """K of a plant by Woodbury's identity."""
        scale = np.asarray(self.scale)
        precision = [1 / Ball(size) ** 2 for size in scale.tolist()]
        if self.factor is None or not self.factor.size:
            return gramian(model, precision, self.horizon)
        cross, inner, seen = self.gramians_beside(model)
        inner = inner + identity_balls(inner.nrows())
        return seen - cross.transpose() * inner.solve(cross)

    def gramians_beside(
        self, model: Plant
    ) -> tuple[BallMatrix, BallMatrix, BallMatrix]:
        """Return S'O'O_m (r, n'), S'O'O S (r, r) and O_m'O_m (n', n'), O in units of the scale.

        O_m is that of a plant.
        """
        precision = [1 / Ball(size) ** 2 for size in np.asarray(self.scale).tolist()]
        stays = not self.plant.varies and not model.varies
        if stays and self._is_of(model):
            alone = gramian(model, precision, self.horizon)
            factor = ball_matrix(np.asarray(self.factor))
            cross = factor.transpose() * alone
            return cross, cross * factor, alone
        both = sum_of(self.plant, model)
        total = gramian(both, precision, self.horizon)
        own = range(self.plant.order)
        other = range(self.plant.order, both.order)
        factor = ball_matrix(np.asarray(self.factor))
        across = factor.transpose()
        cross = across * submatrix(total, own, other)
        inner = across * submatrix(total, own, own) * factor
        return cross, inner, submatrix(total, other, other)


@dataclass(frozen=True)
class Split:
    """One of two shifts that make a move under structured noise and a scale.

    A move s of a plant's outputs is O S w and what is left of it, with the w of which least
    is left in units of the scale. ``left`` says which of the two its squares are of.
    """

    form: NoiseForm
    left: bool

    def pairing_under(self, hidden: Moves, model: Plant) -> Callable[[], Pairing]:
        """Return what evaluates pairings of moves as `NoiseForm.pairing_under` does."""

        def evaluate() -> Pairing:
            cross, inner, seen = self.form.gramians_beside(model)
            entries = inner.solve(cross)
            if self.left:
                rest = seen - cross.transpose() * entries
                return lambda moves: (moves, rest * moves)

            def twice(moves: BallMatrix) -> tuple[BallMatrix, BallMatrix]:
                images = entries * moves
                return images, images

            return twice

        return evaluate


def _inverse(factor: NDArray[np.float64]) -> BallMatrix:
    """The inverse of a matrix of doubles that has one, in balls."""
    try:
        return inverse_balls(factor)
    except ZeroDivisionError:  # at so few bits
        return ball_matrix(rational_matrix(factor).inv())


def _right_inverse(matrix: RationalMatrix) -> RationalMatrix:
    """The pseudoinverse of a matrix whose rows are independent."""
    transposed = matrix.transpose()
    return transposed * (matrix * transposed).inv()
