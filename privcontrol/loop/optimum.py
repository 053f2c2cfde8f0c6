"""The noise of a request that costs a loop least, when its filter knows the noise.

For secrets of the state it is C A^t xi with xi = U s, and the cost of privacy is a
convex function of the information J of s:

    f(J) = sum_t |D_t (J + H_t)^(-1/2)|^2,    c_i' J c_i <= y^2,    J >= rho I,

where the moves are U c_i. The least value without the last constraint is usually not
attained by finite noise. Newton's method on the logarithmic barrier finds the optimum,
and the dual of the linear problem at the point it reaches certifies the gap.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

from ..core._linalg import rank_tolerance
from ..designs.correlated import is_energy_ball
from ..designs.design import designed
from ..designs.output_noise import OutputNoise
from ..designs.problem import DesignProblem
from ..secrets.disturbance import disturbances
from ._loop_data import LoopData, regulation
from .checks import root
from .lqg import Knowledge
from .moments import expected_total
from .signals import LoopT
from .turns import in_turns, least_cost

#: Largest noise of a co-design, relative to what one move needs.
CAP = 10.0
#: Relative gap at which the barrier ends, and the factor by which its weight falls.
_GAP = 2e-7
_COOLING = 0.05
#: Newton steps for one weight of the barrier, and the decrement that ends them. Below
#: the second one the steps converge quadratically, and rounding hides what they gain.
_STEPS = 60
_CONVERGED = 1e-15
_NEAR = 1e-3
#: A barrier that explains less than this part of the gap has no more to give.
_LEAST = 1e-3
#: Part of the way to the boundary where the search starts.
_INSIDE = 0.5


@dataclass(frozen=True)
class Optimality:
    """How far a loop is from the best one for its secret and budget.

    All costs are those of a run with the design's prior, QN and RN and zero reference,
    with the terminal term.

    Attributes
    ----------
    cost : float
        Expected cost of the loop.
    lower_bound : float
        Least cost of any noise of std at most ``cap``/y in every direction.
    excess : float
        The relative distance to any noise at all is at most this.
    """

    cost: float
    lower_bound: float
    excess: float

    @property
    def gap(self) -> float:
        """(cost - lower_bound) / cost."""
        return (self.cost - self.lower_bound) / self.cost


def optimal_loop(loop: LoopT, cap: float, progress: bool) -> LoopT:
    """The loop with the noise of its request that costs least with its filter."""
    if cap <= 1:
        raise ValueError(f"cap: expected a number above 1, got {cap:g}")
    loop = replace(loop, design=replace(loop.known_design, cap=cap))
    noise = loop.private_noise
    request = noise.request
    _check_gaussian(noise)
    if request.family.startswith("iid-") or is_energy_ball(request.adjacency):
        return loop  # there is nothing to choose
    if not _hides_states(noise):
        return in_turns(loop, progress)
    program = NoiseProgram.of(loop)
    factor = program.factor(program.solved(cap).information)
    return loop.with_noise(designed(request, loop.side.plant, factor=factor))


def _check_gaussian(noise: OutputNoise) -> None:
    if noise.family != "gaussian":
        raise ValueError(
            "noise: the optimum is known among Gaussian noises, and this one is "
            f"{noise.family}"
        )


def _hides_states(noise: OutputNoise) -> bool:
    """Whether the secret is one of the state, over a horizon."""
    return noise.horizon != math.inf and not disturbances(noise.request.adjacency)


@dataclass(frozen=True, eq=False)
class Solved:
    """A point of the program, and lower bounds of all points."""

    information: NDArray  # J / y^2, (r, r)
    value: float
    capped: float
    uncapped: float


@dataclass(frozen=True, eq=False)
class NoiseProgram:
    """The cost of privacy as a function of J / y^2.

    Attributes
    ----------
    basis : ndarray, shape (n, r)
        U, of which every move is a combination with a coefficient vector of length at
        most 1.
    moves : ndarray, shape (r, s)
        The coefficients c_i.
    shift : float
        y, the largest shift that the budget allows.
    spread : ndarray, shape (T, m, r)
        D_t, which the noise's error passes on its way to the cost.
    seen : ndarray, shape (T, r, r)
        H_t / y^2, what the readings up to t tell about s by themselves.
    is_ball : bool
        Whether all moves U c with |c| <= 1 are hidden. The noise U / y is then below
        every other one, and X = I the optimum.
    """

    basis: NDArray
    moves: NDArray
    shift: float
    spread: NDArray
    seen: NDArray
    is_ball: bool = False

    @classmethod
    def of(cls, loop: LoopData) -> NoiseProgram:
        """The program of a loop with a prior, for the request of its noise."""
        noise = loop.private_noise
        design = loop.known_design
        plant = loop.side.plant
        problem = DesignProblem(plant, noise.request)
        basis = problem.moves.vectors
        moves = np.eye(basis.shape[1])
        if not problem.moves.is_ball:
            basis, moves = _basis_of_moves(basis)
        samples = noise.horizon
        _, prices = regulation(loop).gains(samples)
        known = Knowledge.of(plant, loop.weights, None, design.P0)
        r = basis.shape[1]
        spread = np.empty((samples, len(prices[0]), r))
        seen = np.empty((samples, r, r))
        for t, (_, after) in enumerate(known.told_of(basis, samples)):
            errors, seen[t] = after
            spread[t] = prices[t] @ errors
        shift = problem.allowed
        return cls(
            basis,
            moves,
            shift,
            spread / shift,
            seen / shift**2,
            problem.moves.is_ball,
        )

    def factor(self, information: NDArray) -> NDArray:
        """S (n, r) of the noise with the information J / y^2."""
        inverse = scipy.linalg.inv(information)
        return self.basis @ root((inverse + inverse.T) / 2) / self.shift

    def value(self, X: NDArray) -> float:
        """The cost of privacy at J / y^2 = X."""
        inverse = np.linalg.inv(X + self.seen)
        return float(np.sum(self.spread @ inverse * self.spread))

    def slope(self, X: NDArray) -> tuple[NDArray, NDArray]:
        """Gr (r, r), minus the gradient, and the Hessian (r r, r r)."""
        inverse = np.linalg.inv(X + self.seen)
        passed = self.spread @ inverse
        bent = np.einsum("tmi,tmj->tij", passed, passed)
        samples, r, _ = inverse.shape
        pairs = inverse.reshape(samples, -1).T @ bent.reshape(samples, -1)
        curved = pairs.reshape(r, r, r, r).transpose(0, 2, 1, 3)
        return bent.sum(axis=0), 2 * curved.reshape(r * r, r * r)

    def solved(self, cap: float) -> Solved:
        """The optimum over X >= I / cap^2, to a certified gap."""
        least = cap**-2
        r, count = self.moves.shape
        if self.is_ball:
            value = self.value(np.eye(r))
            return Solved(np.eye(r), value, value, value)
        X = (least + _INSIDE * (1 - least)) * np.eye(r)
        weight = max(self.value(X), np.finfo(float).tiny) / (count + r)
        every = np.eye(r * r).reshape(r * r, r, r)
        symmetric = every + every.transpose(0, 2, 1)
        rows, columns = np.triu_indices(r)
        basis = symmetric[rows * r + columns].reshape(len(rows), -1) / 2
        best = None
        while True:
            for _ in range(_STEPS):
                X, decrement = self._newton(X, weight, least, basis)
                if decrement <= _CONVERGED:
                    break
            found = self._bounded(X, weight, least)
            gap = found.value - found.capped
            if best is None or gap < best.value - best.capped:
                best = found
            if gap <= _GAP * found.value or weight * (count + r) < _LEAST * gap:
                return best
            weight *= _COOLING

    def _barrier(self, X: NDArray, weight: float, least: float) -> float:
        """f / weight plus the barrier, infinite outside."""
        left = 1 - np.sum(self.moves * (X @ self.moves), axis=0)
        values = np.linalg.eigvalsh(X) - least
        if min(left.min(), values.min()) <= 0:
            return math.inf
        return self.value(X) / weight - np.log(left).sum() - np.log(values).sum()

    def _newton(
        self, X: NDArray, weight: float, least: float, basis: NDArray
    ) -> tuple[NDArray, float]:
        """A damped Newton step, and how far the barrier is from its least value."""
        r = len(X)
        left = 1 - np.sum(self.moves * (X @ self.moves), axis=0)
        above = np.linalg.inv(X - least * np.eye(r))
        steep, curved = self.slope(X)
        outer = np.einsum("is,js->sij", self.moves, self.moves).reshape(len(left), -1)
        outer = outer / left[:, None]
        gradient = outer.sum(axis=0) - above.ravel() - steep.ravel() / weight
        hessian = curved / weight + outer.T @ outer + np.kron(above, above)
        descent = basis @ gradient
        curvature = basis @ hessian @ basis.T
        step = -scipy.linalg.solve(curvature, descent, assume_a="pos")
        decrement = float(-descent @ step)
        direction = (step @ basis).reshape(r, r)
        length = 1.0
        before = self._barrier(X, weight, least)
        if decrement < _NEAR and math.isfinite(
            self._barrier(X + direction, weight, least)
        ):
            return X + direction, decrement
        while length > 1e-12:
            tried = X + length * direction
            if self._barrier(tried, weight, least) <= before - 0.1 * length * decrement:
                return tried, decrement
            length /= 2
        return X, 0.0

    def _bounded(self, X: NDArray, weight: float, least: float) -> Solved:
        """The point, and lower bounds from the dual of the linear problem there."""
        steep, _ = self.slope(X)
        value = self.value(X)
        left = 1 - np.sum(self.moves * (X @ self.moves), axis=0)
        prices = weight / left
        covered = (self.moves * prices) @ self.moves.T
        share = scipy.linalg.eigh(steep, covered, eigvals_only=True)[-1]
        prices = prices * max(1.0, share)
        here = float(np.sum(steep * X))
        lengths = np.sum(self.moves**2, axis=0)
        capped = least * np.trace(steep) + prices @ (1 - least * lengths)
        return Solved(
            information=X,
            value=value,
            capped=value - (float(capped) - here),
            uncapped=value - (float(prices.sum()) - here),
        )


def _basis_of_moves(vectors: NDArray) -> tuple[NDArray, NDArray]:
    """Columns that span the moves, and coefficients of length at most one."""
    _, triangle, order = scipy.linalg.qr(vectors, mode="economic", pivoting=True)
    pivots = np.abs(np.diag(triangle))
    rank = np.count_nonzero(pivots > rank_tolerance(vectors, pivots))
    basis = vectors[:, np.sort(order[:rank])]
    moves = scipy.linalg.lstsq(basis, vectors)[0]
    longest = np.linalg.norm(moves, axis=0).max()
    return basis * longest, moves / longest


def optimality(loop: LoopData) -> Optimality:
    """How far a loop is from the optimum.

    `ValueError` without a prior, or where no optimum is known.
    """
    noise = loop.private_noise
    design = loop.known_design
    _check_gaussian(noise)
    if not loop.never_ends and (not design.is_kalman or design.P0 is None):
        raise ValueError(
            "optimality: over a horizon it depends on what is known of x(0); pass the "
            "public covariance P0 to private_lqg"
        )
    cost = expected_total(loop)
    if not _hides_states(noise):
        lower = least_cost(loop)
        return Optimality(cost, lower, (cost - lower) / lower)
    found = NoiseProgram.of(loop).solved(design.cap)
    least = expected_total(loop.with_noise(None), noise.timepts)
    uncapped = least + found.uncapped
    return Optimality(cost, least + found.capped, (cost - uncapped) / uncapped)
