"""The cost of privacy as a convex function of the noise's information, and its least value.

For secrets of the state the noise is C A^t xi with xi = U s, and the cost of privacy is a
convex function of the information J of s:

    f(J) = sum_t |D_t (J + H_t)^(-1/2)|^2,    c_i' J c_i <= y^2,    J >= rho I,

where the moves are U c_i. The least value without the last constraint is usually not
attained by finite noise. Newton's method on the logarithmic barrier finds the optimum,
and the dual of the linear problem at the point it reaches certifies the gap.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np
import scipy.linalg
from numpy.typing import NDArray
from scipy.linalg import blas

from ..designs.problem import DesignProblem
from ..designs.radial import radial_variance
from ..designs.structured import tangent_noise
from ..numerics.errors import UncertifiableError
from ..numerics.linalg import rank_tolerance
from ..numerics.objects import ByContent
from ..numerics.thresholds import FINE, MOST_ROUNDS, ROUGH, ROUNDED
from ..secrets.hiding import coordinates_in
from ..systems.linear import root
from .data import LoopData, regulation
from .kalman import Knowledge

#: Certified relative gap that ends the search. The last weight aims at a quarter of it.
_GAP = 8e-7
#: Speed: factor by which weights fall.
_COOLING = 0.05
#: Speed: decrement that ends Newton's steps for a weight which is not the last one.
_DECREMENT = 1.0
#: A gap above this part of the value says that rounding has led the search astray.
_LOST = 1e-2


@dataclass(frozen=True, eq=False)
class Solved:
    """A point of the program, and lower bounds of all points."""

    information: NDArray[np.float64]  # J / y^2, (r, r)
    value: float
    capped: float
    uncapped: float

    @property
    def gap(self) -> float:
        """Return how far the point may be above the least one."""
        return self.value - self.capped


@dataclass(frozen=True, eq=False)
class NoiseProgram(ByContent):
    """Hold the cost of privacy as a function of J / y^2, and the moves to be hidden.

    Attributes
    ----------
    basis : ndarray, shape (n, r)
        U, of which every move is a combination with a coefficient vector of length at
        most 1. U / y is the noise of least variance.
    rest : ndarray, shape (n, k)
        Columns of the least noise that hide no move. They are as small as the rounding
        of the moves, which they keep within the noise.
    moves : ndarray, shape (r, s)
        The coefficients c_i.
    shift : float
        y, the largest shift that the budget allows.
    turn : ndarray, shape (T, r, r)
        V_t with V V' = (I + H_t / y^2)^-1 and V'H_t V diagonal, where H_t is what the
        readings up to t reveal about s by themselves. It may be far above y^2, and
        infinite in directions that readings without noise reveal exactly.
    seen : ndarray, shape (T, r)
        The diagonal of V'H_t V / y^2, and one for columns of V that are zero.
    spread : ndarray, shape (T, m, r)
        D_t V_t, with D_t which the noise's error passes on its way to the cost.
    is_ball : bool
        Whether all moves U c with |c| <= 1 are hidden. The noise U / y is then below
        every other one, and X = I the optimum.
    """

    basis: NDArray[np.float64]
    rest: NDArray[np.float64]
    moves: NDArray[np.float64]
    shift: float
    turn: NDArray[np.float64]
    seen: NDArray[np.float64]
    spread: NDArray[np.float64]
    is_ball: bool = False

    @classmethod
    def of(cls, loop: LoopData, shift: float | None = None) -> NoiseProgram:
        """The program of a loop with a prior, for the request of its noise.

        ``shift`` is the largest one of a move, by default what the budget allows.
        """
        noise = loop.private_noise
        design = loop.known_design
        plant = loop.side.plant
        problem = DesignProblem(plant, noise.request)
        if shift is not None:
            pass
        elif problem.is_radial:  # linear filters see covariances only
            rank = tangent_noise(problem, 1.0).factor.shape[1]
            shift = 1 / math.sqrt(radial_variance(problem, rank))
        else:
            shift = problem.allowed
        basis, rest, moves = _hidden_moves(loop)
        samples = noise.horizon.count()
        _, prices = regulation(loop).gains(samples)
        known = Knowledge.of(plant, loop.weights, None, design.P0)
        r = basis.shape[1]
        spread = np.empty((samples, len(prices[0]), r))
        turn = np.empty((samples, r, r))
        seen = np.empty((samples, r))
        for t, (before, after) in enumerate(known.told_of(basis / shift, samples)):
            # what the controller knows when it decides
            errors, told = before if loop.form == "predictor" else after
            turn[t], seen[t] = told.halves()
            spread[t] = prices[t] @ errors @ turn[t]
        is_ball = problem.moves.is_ball
        return cls(basis, rest / shift, moves, shift, turn, seen, spread, is_ball)

    def factor(self, information: NDArray[np.float64]) -> NDArray[np.float64]:
        """S (n, r + k) of the noise with the information J / y^2."""
        inverse = scipy.linalg.inv(information)
        shaped = self.basis @ root((inverse + inverse.T) / 2) / self.shift
        return np.hstack([shaped, self.rest])

    def value(self, X: NDArray[np.float64]) -> float:
        """The cost of privacy at J / y^2 = X."""
        _, passed = self._factored(X.tobytes())
        return float(np.sum(passed**2))

    def priced(self, X: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        """The cost of privacy at J / y^2 = X, and minus its gradient."""
        steep, _, _ = self.slope(X)
        return self.value(X), steep

    def slope(
        self, X: NDArray[np.float64]
    ) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
        """Gr (r, r), minus the gradient; (X + H_t / y^2)^-1 (T, r, r), and D_t times it."""
        lower, spread = self._factored(X.tobytes())
        half = _divided(lower, self.turn)
        transposed = half.transpose(0, 2, 1)
        passed = spread @ transposed
        flat = passed.reshape(-1, len(X))
        return flat.T @ flat, half @ transposed, passed

    @cached_property
    def _factored(
        self,
    ) -> Callable[[bytes], tuple[NDArray[np.floating], NDArray[np.float64]]]:
        """L_t (T, r, r) with L L' = V' (X + H_t / y^2) V, and D_t V L'^-1, of a point.

        A step looks at the points on both of its ends again.
        """

        @lru_cache(maxsize=2)
        def factored(point: bytes) -> tuple[NDArray[np.floating], NDArray[np.float64]]:
            r = len(self.moves)
            X = np.frombuffer(point).reshape(r, r)
            turned = self.turn.transpose(0, 2, 1) @ X @ self.turn
            places = np.arange(r)
            turned[:, places, places] += self.seen
            lower = np.linalg.cholesky(turned)
            return lower, _divided(lower, self.spread)

        return factored

    def left(self, X: NDArray[np.float64]) -> NDArray[np.float64]:
        """1 - c_i' X c_i (s,)."""
        return 1 - np.sum(self.moves * (X @ self.moves), axis=0)

    def solved(self, cap: float) -> Solved:
        """The optimum over X >= I / cap^2, to a certified gap.

        A loop that was made asks for it again when it is asked how good it is.
        """
        return _solved(self, cap)


@lru_cache(maxsize=2)  # the optimum of this law, and of any, are asked for
def _hidden_moves(
    loop: LoopData,
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    """Return U, what is left of it that hides no move, and the c_i, for a shift of one."""
    problem = DesignProblem(loop.side.plant, loop.private_noise.request)
    if problem.moves.is_ball:  # around which Laplace noise is wider
        basis = problem.moves.vectors
        return basis, basis[:, :0], np.eye(basis.shape[1])
    # moves of very different sizes are of size one in the least noise of the outputs
    basis = tangent_noise(problem, 1.0).factor
    moves = coordinates_in(basis, problem.moves)
    left, values, _ = scipy.linalg.svd(moves)
    rank = np.count_nonzero(values > rank_tolerance(moves, values))
    rest = basis @ left[:, rank:]
    if rest.size:
        basis = basis @ left[:, :rank]
        moves = left[:, :rank].T @ moves
    return basis, rest, moves


def _divided(
    lower: NDArray[np.floating], rows: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Rows (T, m, r) times L_t'^-1, with L_t lower triangular (T, r, r)."""
    found = np.empty_like(rows)
    for t, (triangle, right) in enumerate(zip(lower, rows, strict=True)):
        # of transposed views, which are columns in memory
        found[t] = blas.dtrsm(1.0, triangle.T, right.T, trans_a=1).T
    return found


@lru_cache(maxsize=4)
def _solved(program: NoiseProgram, cap: float) -> Solved:
    if program.is_ball or not program.spread.any():  # there is nothing to choose
        whole = np.eye(len(program.moves))
        value = program.value(whole)
        return Solved(whole, value, value, value)
    best = None
    # what is singular or not finite ends the search
    with suppress(np.linalg.LinAlgError, ValueError):
        for found in _minima(program, cap**-2):
            if best is None or found.gap < best.gap:
                best = found
    if best is None or best.gap > _LOST * best.value:
        raise UncertifiableError(
            "codesign: the hidden moves differ so much in size that double precision "
            "does not find the noise that costs least; protect fewer times, "
            "StateAdjacency(times=...), or shorten the horizon. codesign=False keeps "
            "the noise that is given"
        )
    return best


def _minima(program: NoiseProgram, least: float) -> Iterator[Solved]:
    """Yield points near minima with the barrier, of smaller and smaller weights."""
    r, count = program.moves.shape
    X = _centre(program.moves, least)
    weight = max(program.value(X), np.finfo(float).tiny) / (count + r)
    while True:
        last = _GAP / 4 * program.value(X) / (count + r)
        is_last = weight <= 2 * last
        barrier = _Barrier(program, weight, least)
        start = X
        for X, decrement in barrier.descent(start):
            if is_last or decrement <= _DECREMENT:
                found = barrier.bounded(X)
                yield found
                if not is_last or found.gap <= _GAP * found.value:
                    break
        if is_last:
            return
        X, weight = barrier.ahead(X, max(_COOLING * weight, last))


def _centre(moves: NDArray[np.float64], least: float) -> NDArray[np.float64]:
    """Nearly the centre of the barrier without f, for moves C (r, s): rho I + a (CC')^-1.

    There c_i'(CC')^-1 c_i <= 1, so it is inside. Thin directions begin less far out.
    """
    left, sizes, _ = np.linalg.svd(moves, full_matrices=False)
    sizes = np.maximum(sizes, ROUGH * sizes[0])
    wide = left / sizes**2 @ left.T
    return least * np.eye(len(moves)) + (1 - least) / 2 * wide


@dataclass(frozen=True, eq=False)
class _Barrier:
    """f / w - sum log (1 - c_i'X c_i) - log det (X - rho I), with w the ``weight``."""

    program: NoiseProgram
    weight: float
    least: float

    def __call__(self, X: NDArray[np.float64]) -> float:
        """The value, infinite outside."""
        above = np.linalg.eigvalsh(X) - self.least
        inside = np.append(self.program.left(X), above)
        if inside.min() <= 0:
            return math.inf
        return self.program.value(X) / self.weight - np.log(inside).sum()

    def descent(
        self, X: NDArray[np.float64]
    ) -> Iterator[tuple[NDArray[np.float64], float]]:
        """Yield points of Newton's steps, and their decrements, until nothing is left."""
        for _ in range(MOST_ROUNDS):
            X, decrement = self._stepped(X, *_NewtonSystem.of(self, X).solved())
            yield X, decrement
            if decrement <= FINE:
                return

    def ahead(
        self, X: NDArray[np.float64], lower: float
    ) -> tuple[NDArray[np.float64], float]:
        """Go along the tangent of the minima towards a lower weight, and return both.

        What is left to the bounds falls as the weight does. The tangent ends where
        something falls to half of that.
        """
        step, _ = _NewtonSystem.of(self, X, lower).solved()
        above = X - self.least * np.eye(len(X))
        lost = 1 - self.program.left(X + step) / self.program.left(X)
        most = max(-scipy.linalg.eigh(step, above, eigvals_only=True)[0], lost.max())
        fall = 1 - lower / self.weight
        length = 1.0
        if most > (1 + fall) / 2:
            length = 0.5 / (most - fall / 2)
        return X + length * step, self.weight * (1 - length * fall)

    def _stepped(
        self, X: NDArray[np.float64], direction: NDArray[np.float64], decrement: float
    ) -> tuple[NDArray[np.float64], float]:
        """Go along a step as far as it is good, and return its decrement, 0 if nowhere."""
        before = self(X)
        hidden = ROUNDED * abs(before)  # by rounding, of what a step gains
        for length in 0.5 ** np.arange(40.0):
            tried = X + length * direction
            if self(tried) <= before - 0.1 * length * decrement + hidden:
                return tried, decrement
        return X, 0.0

    def bounded(self, X: NDArray[np.float64]) -> Solved:
        """The point, and lower bounds from the dual of the linear problem there."""
        program, least = self.program, self.least
        steep, _, _ = program.slope(X)
        value = program.value(X)
        prices = self.weight / program.left(X)
        covered = (program.moves * prices) @ program.moves.T
        share = scipy.linalg.eigh(steep, covered, eigvals_only=True)[-1]
        prices = prices * max(1.0, share)
        here = float(np.sum(steep * X))
        lengths = np.sum(program.moves**2, axis=0)
        capped = least * np.trace(steep) + prices @ (1 - least * lengths)
        return Solved(
            information=X,
            value=value,
            capped=value - (float(capped) - here),
            uncapped=value - (float(prices.sum()) - here),
        )


@dataclass(frozen=True, eq=False)
class _NewtonSystem:
    """Newton's equations of the barrier at X, by conjugate gradients.

    In coordinates S = B S' B' with B'(X - rho I)^-1 B = I and B'Gr B diagonal the Hessian
    maps S' to

        S' + sum_i (c_i' S' c_i) c_i c_i' + sum_t (M_t S' a_t a_t' + a_t a_t' S' M_t) / w,

    with c_i B'c_i over the root of 1 - c_i'X c_i, M_t (X + H_t)^-1 and a_t = M_t d_t of
    the rows d_t of D_t. Its second sum without what is off the diagonal of M_t is the
    preconditioner. Where B'Gr B is below w the sum over t is small whatever B is, and B
    makes sum_t |a_t|^2 M_t diagonal there instead.

    Attributes
    ----------
    back : ndarray, shape (r, r)
        B.
    gradient : ndarray, shape (r, r)
        Of the barrier.
    moves : ndarray, shape (r, s)
        The c_i.
    inverses : ndarray, shape (T, r, r)
        The M_t.
    passed : ndarray, shape (r, T, m)
        The a_t.
    weight : float
        w.
    """

    back: NDArray[np.float64]
    gradient: NDArray[np.float64]
    moves: NDArray[np.float64]
    inverses: NDArray[np.float64]
    passed: NDArray[np.float64]
    weight: float

    @classmethod
    def of(
        cls, barrier: _Barrier, X: NDArray[np.float64], wanted: float | None = None
    ) -> _NewtonSystem:
        """Take the equations at a point, or of the tangent to the weight wanted."""
        program, weight = barrier.program, barrier.weight
        steep, inverses, passed = program.slope(X)
        values, turn = np.linalg.eigh(X - barrier.least * np.eye(len(X)))
        if values[0] <= 0:
            raise np.linalg.LinAlgError("X is at the boundary")
        half = turn * np.sqrt(values)
        priced = half.T @ steep @ half
        bends, turn = np.linalg.eigh((priced + priced.T) / 2)
        back = half @ turn
        flat = np.count_nonzero(bends < weight)
        shares = np.sum((passed @ back) ** 2, axis=(1, 2))
        mean = np.tensordot(shares, inverses, 1)
        still = back[:, :flat]
        back[:, :flat] = still @ np.linalg.eigh(still.T @ mean @ still)[1]
        moves = back.T @ program.moves / np.sqrt(program.left(X))
        gradient = moves @ moves.T - np.eye(len(X))
        if wanted is not None:
            gradient *= wanted / weight
        gradient -= back.T @ steep @ back / weight
        return cls(
            back,
            gradient,
            moves,
            back.T @ inverses @ back,
            np.moveaxis(passed @ back, 2, 0),
            weight,
        )

    def hessian(self, S: NDArray[np.float64]) -> NDArray[np.float64]:
        """The Hessian times S (r, r)."""
        size = len(S)
        flat = self.passed.reshape(size, -1)
        along = (S @ flat).reshape(self.passed.shape)
        along = np.moveaxis(along, 0, 1)
        moved = np.moveaxis(self.inverses @ along, 1, 0)
        bent = moved.reshape(size, -1) @ flat.T
        of_cost = (bent + bent.T) / self.weight
        seen = np.sum(self.moves * (S @ self.moves), axis=0)
        of_moves = (self.moves * seen) @ self.moves.T
        return of_cost + S + of_moves

    def preconditioner(self) -> Callable[[NDArray[np.float64]], NDArray[np.float64]]:
        """Return what divides by the nearly diagonal part and the moves' (Woodbury)."""
        own = np.einsum("tii->ti", self.inverses)
        bent = own.T @ np.sum(self.passed**2, axis=2).T
        part = 1 / (1 + (bent + bent.T) / self.weight)
        row, column = np.tril_indices(len(part))  # the others are the same
        rows = self.moves[row] * self.moves[column]
        shares = part[row, column] * np.where(row == column, 1.0, 2.0)
        inner = np.eye(rows.shape[1]) + rows.T @ (shares[:, None] * rows)
        factor = scipy.linalg.cho_factor(inner)

        def divided(R: NDArray[np.float64]) -> NDArray[np.float64]:
            S = part * R
            seen = np.sum(self.moves * (S @ self.moves), axis=0)
            prices = scipy.linalg.cho_solve(factor, seen)
            return S - part * ((self.moves * prices) @ self.moves.T)

        return divided

    def solved(self) -> tuple[NDArray[np.float64], float]:
        """Return the step of X, and how far the barrier is from its least value."""
        divided = self.preconditioner()
        found = np.zeros_like(self.gradient)
        left = -self.gradient
        along = ahead = divided(left)
        size = first = float(np.sum(left * ahead))
        for _ in range(2 * MOST_ROUNDS):  # a step that ends early is soon repeated
            if size <= ROUGH * first:
                break
            bent = self.hessian(along)
            length = size / float(np.sum(along * bent))
            found = found + length * along
            left = left - length * bent
            ahead = divided(left)
            before, size = size, float(np.sum(left * ahead))
            along = ahead + size / before * along
        found = (found + found.T) / 2
        return self.back @ found @ self.back.T, float(-np.sum(self.gradient * found))
