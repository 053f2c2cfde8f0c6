"""The noise of a request that costs a loop least, when its filter knows the noise.

For secrets of the state it is C A^t xi with xi = U s, and the cost of privacy is a
convex function of the information J of s:

    f(J) = sum_t |D_t (J + H_t)^(-1/2)|^2,    c_i' J c_i <= y^2,    J >= rho I,

where the moves are U c_i. The least value without the last constraint is usually not
attained by finite noise. Newton's method on the logarithmic barrier finds the optimum,
and the dual of the linear problem at the point it reaches certifies the gap.

For other secrets filter and noise change in turns. The cost of privacy with the best
filter is a convex function of J, the inverse covariance of the noise. The noise that
costs the filter of another noise least never costs more. At any noise the dual of the
linear problem bounds the optimum from below:

    f - (y^2 sum lambda - tr Gr J),    Gr = Gamma W Gamma,    sum lambda_i s_i s_i' >=
    Gr,

where W prices the noise for its own filter, and s_i are what the moves add to the
outputs.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

import numpy as np
import scipy.linalg
import scipy.optimize
from numpy.typing import NDArray

from ..core.ball_noise import RADIAL_LAWS
from ..core.blocks import cheapest_blocks, cheapest_rows, rank_read
from ..core.noise import GaussianNoise
from ..designs.correlated import is_energy_ball
from ..designs.designed import designed
from ..designs.laws import laws_for
from ..designs.output_noise import OutputNoise
from ..designs.problem import DesignProblem
from ..designs.radial import radial_variance
from ..designs.structured import tangent_noise
from ..noise.parts import Blocks
from ..numerics.errors import UncertifiableError
from ..numerics.linalg import rank_tolerance
from ..numerics.progress import progress_bar
from ..numerics.thresholds import ALIKE, FINE, MOST_ROUNDS
from ..privacy.least_variance import least_law_variance
from ..privacy.radial_design import ball_rate_of
from ..secrets.hiding import coordinates_in
from ..secrets.secret import all_responses, secret_inputs
from ..systems.linear import LinearSystem, frequency_response, root
from .controller import ObserverFeedback
from .data import LoopData, regulation
from .dynamics import LoopDynamics
from .lqg import DenseKnowledge, Knowledge, finite_model, noise_covariance
from .moments import Expected, expected_total, knowledge, steady_state_cost

#: Largest noise of a co-design, relative to the noise of least variance.
CAP = 10.0
#: Relative gap at which the barrier ends.
_GAP = 2e-7
#: Both for large programs: the gap, and the part of it that the last weight aims at.
_GAP_OF_LARGE = 9e-7
_ENOUGH = 0.8
#: Times the gap at a minimum with the barrier that ends the steps to it, and the factor
#: by which its weight falls.
_CENTRAL = 1.2
_COOLING = 0.05
#: Decrement that ends Newton's steps for one weight of the barrier. Below the second one
#: the steps converge quadratically, and rounding hides what they gain.
_CONVERGED = 1e-15
_NEAR = 1e-3
#: Speed: the decrement that is small enough for a weight which is not the last one, and
#: the part of what is left to the bounds that a tangent may take beyond its share.
_ROUGH = 1.0
_BEYOND = 0.5
#: Speed: part of a tangent that is too short to be worth it.
_SHORT = 0.1
#: Speed: directions up to which Newton's equations, r^2 of them, are solved directly.
_MOST_DENSE = 16
#: Speed: products with the Hessian in a step at most, and the part of the first residual
#: that is enough.
_PRODUCTS = 300
_SOLVED = 1e-3
#: A barrier that explains less than this part of the gap has no more to give.
_LEAST = 1e-3
#: A gap above this part of the value says that rounding has led the search astray.
_LOST = 1e-2
#: Part of the way to the boundary where the search starts.
_INSIDE = 0.5
#: Frequencies at which the bound without a horizon is evaluated, and those next to the
#: peak of a pole, in widths of it.
_FREQUENCIES = 4096
_AROUND_PEAK = np.append(np.linspace(0, 4, 65), np.geomspace(4, 1000, 64)[1:])


@dataclass(frozen=True)
class Optimality:
    """Hold how far a loop is from the best one for its secret and budget.

    All costs are those of a run with the design's prior, QN and RN and zero reference,
    with the terminal term.

    Attributes
    ----------
    cost : float
        Expected cost of the loop.
    lower_bound : float
        Least cost of any noise of at most ``cap`` times the std, in every direction, of
        the request's noise of least variance. It is at most the loop's own. Of Laplace
        noise and of independent blocks of radial noise it is ``universal_bound``.
    excess : float
        The relative distance to any noise at all of the same law is at most this. Of
        radial noise in one block the others are in one block as well: independent
        blocks of it (``codesign=True``) may cost less.
    universal_bound : float
        Least cost of additive noise of any law that keeps the budget, with any linear
        filter; NaN where it is not known, as for a ``gdp`` and without a horizon.
    among : str
        The noise whose least cost ``lower_bound`` and ``excess`` are about, in words.
    """

    cost: float
    lower_bound: float
    excess: float
    universal_bound: float = math.nan
    among: str = "noise of this law"

    @classmethod
    def between(
        cls,
        cost: float,
        capped: float,
        uncapped: float,
        universal_bound: float = math.nan,
    ) -> Optimality:
        """Take a cost, and bounds of what it can be, up to rounding.

        `UncertifiableError` where a bound is above the cost by more than that.
        """
        if capped > cost + ALIKE * abs(cost):
            raise UncertifiableError(
                "optimality: double precision does not find how far this loop is from "
                "the best one; cost() is that of the loop"
            )
        # a cap leaves less to choose from, so the bound without it is the lower one
        capped = min(capped, cost)
        uncapped = min(uncapped, capped)
        excess = 0.0
        if cost > uncapped:
            excess = (cost - uncapped) / uncapped if uncapped > 0 else math.inf
        return cls(cost, capped, excess, min(universal_bound, cost))

    @property
    def gap(self) -> float:
        """(cost - lower_bound) / cost, 0 where nothing costs anything."""
        return (self.cost - self.lower_bound) / self.cost if self.cost else 0.0

    @property
    def universal_gap(self) -> float:
        """(cost - universal_bound) / cost: noise of no law saves a larger part."""
        if not self.cost:
            return 0.0
        return (self.cost - self.universal_bound) / self.cost

    def __str__(self) -> str:
        law = f"within {100 * self.gap:.2g} % of the least cost of {self.among}"
        if math.isnan(self.universal_bound):
            return law
        return f"{law}, {100 * self.universal_gap:.2g} % of every law"


def optimal_loop(
    loop: LoopData, cap: float, progress: bool, family: str | None = None
) -> LoopData:
    """The loop with the noise of its request that costs least with its filter.

    ``family`` is the law of that noise, by default that of the loop's.
    """
    if family is not None:
        return _of_laws(loop, cap, progress, family)
    if cap <= 1:
        raise ValueError(f"cap: expected a number above 1, got {cap:g}")
    loop = replace(loop, design=replace(loop.known_design, cap=cap))
    noise = loop.private_noise
    request = noise.request
    is_laplace = request.family == "laplace" and loop.hides_states
    if not is_laplace:
        _check_covered(noise)
    if request.family.startswith("iid-") or is_energy_ball(request.adjacency):
        return loop  # there is nothing to choose
    if not loop.hides_states:
        return _in_turns(loop, progress)
    if is_laplace:
        return _of_independent_numbers(loop, cap)
    program = NoiseProgram.of(loop)
    factor = program.factor(program.solved(cap).information)
    single = replace(request, factor=factor, scale=True, blocks=())
    noise = designed(single, loop.side.plant)
    tried = [loop.with_noise(noise), loop]  # the noise given may exceed the cap
    if request.family == "ball":
        tried += _in_blocks(loop, cap)
    return min(tried, key=expected_total)


def _of_laws(loop: LoopData, cap: float, progress: bool, family: str) -> LoopData:
    """Return the best loop with noise of a law, or of the cheapest of all for "auto"."""
    request = loop.private_noise.request
    plant = loop.side.plant
    laws: tuple[str, ...] = (family,)
    if family == "auto":
        laws = laws_for(request) or (request.family,)
    best = None
    for law in laws:
        try:
            asked = replace(request, family=law, factor=None, blocks=())
            noise = designed(asked, plant)
        except ValueError:
            if family != "auto":
                raise
            continue  # more directions than the law is for
        tried = optimal_loop(loop.with_noise(noise), cap, progress)
        if best is None or expected_total(tried) < expected_total(best):
            best = tried
    if best is None:
        raise UncertifiableError("family: no law's noise could be designed")
    return best


def _of_independent_numbers(loop: LoopData, cap: float) -> LoopData:
    """Return the loop with Laplace noise in the directions that cost it least.

    Each number of it is a block of its own, so a direction that the loop does not read
    leaves the others nearly all of epsilon. It is a local optimum.
    """
    noise = loop.private_noise
    request = noise.request
    plant = loop.side.plant
    allowed = DesignProblem(plant, request).allowed
    program = _of_pure_blocks(loop, allowed)
    if program is None:
        return loop
    try:
        shape = program.solved(cap).information
        rows, _ = cheapest_rows(program.priced, program.moves, shape, cap**-2)
        factor = program.basis @ np.linalg.inv(rows) / allowed
        best = designed(request, plant, factor=factor, scale=True)
    except (np.linalg.LinAlgError, UncertifiableError):
        return loop  # whose noise is that of least variance
    return min(loop.with_noise(best), loop, key=expected_total)


def _in_blocks(loop: LoopData, cap: float) -> list[LoopData]:
    """Return loops with radial noise in independent blocks, where there are any.

    Blocks of each kind are searched for, and the cheapest ones are certified.
    """
    if _shift_of_any_law(loop.private_noise) is None:
        return []  # nothing would be known of how good they are
    request = loop.private_noise.request
    plant = loop.side.plant
    allowed = ball_rate_of(request.budget, 1, request.releases)
    program = _of_pure_blocks(loop, allowed)
    if program is None:
        return []
    loops: list[LoopData] = []
    try:
        shape = program.solved(cap).information
        rank = rank_read(shape, cap)
        found = cheapest_blocks(program.priced, program.moves, shape, cap, rank)
    except (np.linalg.LinAlgError, UncertifiableError):
        return loops
    for blocks in found:
        factor = program.basis @ np.linalg.inv(blocks.rows) / allowed
        asked = replace(request, factor=factor, scale=True, blocks=blocks.sizes)
        with suppress(UncertifiableError):
            loops.append(loop.with_noise(designed(asked, plant)))
    return loops


def _of_pure_blocks(loop: LoopData, allowed: float) -> NoiseProgram | None:
    """Return the program of blocks of noise, None where there is nothing to choose.

    It is in units of one number, whose variance is 2 where the rate is one.
    """
    program = NoiseProgram.of(loop, allowed / math.sqrt(2))
    if program.is_ball or program.rest.size or not program.spread.any():
        return None
    return program if len(program.moves) > 1 else None


def _check_covered(noise: OutputNoise) -> None:
    if noise.family not in ("gaussian", *RADIAL_LAWS):
        raise ValueError(
            "noise: the optimum is known among Gaussian noises, and among those of a "
            f"radial law, and this one is {noise.family}"
        )


#: Speed: programs whose optimum is kept, by the digest of their arrays.
_KEPT = 4
_KNOWN: dict[bytes, Solved] = {}


@dataclass(frozen=True, eq=False)
class Solved:
    """A point of the program, and lower bounds of all points."""

    information: NDArray  # J / y^2, (r, r)
    value: float
    capped: float
    uncapped: float

    @property
    def gap(self) -> float:
        """Return how far the point may be above the least one."""
        return self.value - self.capped


@dataclass(frozen=True, eq=False)
class NoiseProgram:
    """The cost of privacy as a function of J / y^2.

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

    basis: NDArray
    rest: NDArray
    moves: NDArray
    shift: float
    turn: NDArray
    seen: NDArray
    spread: NDArray
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
        # moves of very different sizes are of size one in the least noise of the outputs
        factor = tangent_noise(problem, shift).factor
        moves = np.eye(factor.shape[1])
        rest = factor[:, :0]
        if not problem.moves.is_ball:
            moves = coordinates_in(factor, problem.moves) / shift
            left, values, _ = scipy.linalg.svd(moves)
            rank = np.count_nonzero(values > rank_tolerance(moves, values))
            rest = factor @ left[:, rank:]
            if rest.size:
                factor = factor @ left[:, :rank]
                moves = left[:, :rank].T @ moves
        basis = factor * shift
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
        return cls(basis, rest, moves, shift, turn, seen, spread, problem.moves.is_ball)

    def factor(self, information: NDArray) -> NDArray:
        """S (n, r + k) of the noise with the information J / y^2."""
        inverse = scipy.linalg.inv(information)
        shaped = self.basis @ root((inverse + inverse.T) / 2) / self.shift
        return np.hstack([shaped, self.rest])

    def value(self, X: NDArray) -> float:
        """The cost of privacy at J / y^2 = X."""
        columns = self.spread.transpose(0, 2, 1)
        return float(np.sum(columns * np.linalg.solve(self._turned(X), columns)))

    def _turned(self, X: NDArray) -> NDArray:
        """V' (X + H_t / y^2) V (T, r, r)."""
        turned = self.turn.transpose(0, 2, 1) @ X @ self.turn
        places = np.arange(len(X))
        turned[:, places, places] += self.seen
        return turned

    def _inverse(self, X: NDArray) -> NDArray:
        """V^-1 (X + H_t / y^2)^-1 V^-T (T, r, r)."""
        return np.linalg.inv(self._turned(X))

    def priced(self, X: NDArray) -> tuple[float, NDArray]:
        """The cost of privacy at J / y^2 = X, and minus its gradient."""
        inverse = self._inverse(X)
        passed = self.spread @ inverse @ self.turn.transpose(0, 2, 1)
        value = float(np.sum(self.spread @ inverse * self.spread))
        return value, np.einsum("tmi,tmj->ij", passed, passed)

    def slope(self, X: NDArray) -> tuple[NDArray, NDArray, NDArray]:
        """Gr (r, r), minus the gradient; (X + H_t / y^2)^-1 (T, r, r), and D_t times it."""
        half = self._inverse(X) @ self.turn.transpose(0, 2, 1)
        passed = self.spread @ half
        flat = passed.reshape(-1, len(X))
        return flat.T @ flat, self.turn @ half, passed

    def slope_and_hessian(self, X: NDArray) -> tuple[NDArray, NDArray]:
        """Gr (r, r), minus the gradient, and the Hessian (r r, r r)."""
        back = self.turn.transpose(0, 2, 1)
        inverse = self._inverse(X) @ back
        passed = self.spread @ inverse
        inverse = self.turn @ inverse
        bent = np.einsum("tmi,tmj->tij", passed, passed)
        size = X.size
        pairs = np.tensordot(inverse, bent, ([0], [0])).transpose(0, 2, 1, 3)
        curved = (pairs + pairs.transpose(1, 0, 3, 2)).reshape(size, size)
        return bent.sum(axis=0), curved

    def solved(self, cap: float) -> Solved:
        """The optimum over X >= I / cap^2, to a certified gap.

        A loop that was made asks for it again when it is asked how good it is.
        """
        arrays = (self.moves, self.turn, self.seen, self.spread, np.array([cap]))
        digest = hashlib.sha256()
        for array in arrays:
            digest.update(np.ascontiguousarray(array).tobytes())
        key = digest.digest()
        found = _KNOWN.pop(key, None) or self._solve(cap)
        _KNOWN[key] = found
        for oldest in list(_KNOWN)[:-_KEPT]:
            _KNOWN.pop(oldest, None)
        return found

    def _solve(self, cap: float) -> Solved:
        if self.is_ball or not self.spread.any():  # there is nothing to choose
            whole = np.eye(len(self.moves))
            value = self.value(whole)
            return Solved(whole, value, value, value)
        best = None
        # what is singular or not finite ends the search
        with suppress(np.linalg.LinAlgError, ValueError):
            for found in self._minima(cap**-2):
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

    def _minima(self, least: float) -> Iterator[Solved]:
        """Yield minima with the barrier, of smaller and smaller weights."""
        r, count = self.moves.shape
        X = (least + _INSIDE * (1 - least)) * np.eye(r)
        weight = max(self.value(X), np.finfo(float).tiny) / (count + r)
        if r > _MOST_DENSE:
            yield from self._large_minima(X, _COOLING * weight, least)
            return
        gap = 0.0
        while weight * (count + r) >= _LEAST * gap:
            for _ in range(MOST_ROUNDS):
                X, decrement = self._newton(X, weight, least)
                if decrement <= _CONVERGED:
                    break
            found = self._bounded(X, weight, least)
            yield found
            gap = found.gap
            if gap <= _GAP * found.value:
                return
            weight *= _COOLING

    def _large_minima(
        self, X: NDArray, weight: float, least: float
    ) -> Iterator[Solved]:
        """As `_minima`, which are found roughly as long as their gap is too large."""
        terms = sum(self.moves.shape)
        gap = 0.0
        while weight * terms >= _LEAST * gap:
            last = _ENOUGH * _GAP_OF_LARGE * self.value(X) / terms
            if weight > (1 + _NEAR) * last:
                X = self._descended(X, weight, least, _ROUGH)
                if weight * terms <= _LOST * self.value(X):
                    yield self._bounded(X, weight, least)  # if rounding ends the search
                X, weight = self._ahead(X, weight, least, max(_COOLING * weight, last))
                continue
            X = self._descended(X, weight, least, _NEAR)
            found = self._bounded(X, weight, least)
            yield found
            gap = found.gap
            if gap <= _GAP_OF_LARGE * found.value:
                return
            weight *= _COOLING

    def _ahead(
        self, X: NDArray, weight: float, least: float, lower: float
    ) -> tuple[NDArray, float]:
        """Go along the tangent of the minima towards a lower weight, and return both.

        What is left to the bounds falls as the weight does. The tangent ends where
        something falls to half of that.
        """
        step, _ = _NewtonSystem.of(self, X, weight, least, lower).solved()
        above = X - least * np.eye(len(X))
        lost = 1 - self.left(X + step) / self.left(X)
        most = max(-scipy.linalg.eigh(step, above, eigvals_only=True)[0], lost.max())
        fall = 1 - lower / weight
        length = 1.0
        if most > 1 - _BEYOND * (1 - fall):
            length = (1 - _BEYOND) / (most - _BEYOND * fall)
        if not length > _SHORT:
            return X, lower
        return X + length * step, weight * (1 - length * fall)

    def _descended(
        self, X: NDArray, weight: float, least: float, enough: float
    ) -> NDArray:
        """Go near the least value of the barrier, until its dual point is of use."""
        central = _CENTRAL * weight * sum(self.moves.shape)
        for _ in range(MOST_ROUNDS):
            step = _NewtonSystem.of(self, X, weight, least).solved()
            X, decrement = self._stepped(X, step, weight, least)
            if decrement > enough:
                continue
            if enough > _NEAR or decrement <= FINE:
                break
            if self._bounded(X, weight, least).gap <= central:
                break
        return X

    def left(self, X: NDArray) -> NDArray:
        """1 - c_i' X c_i (s,)."""
        return 1 - np.sum(self.moves * (X @ self.moves), axis=0)

    def _barrier(self, X: NDArray, weight: float, least: float) -> float:
        """f / weight plus the barrier, infinite outside."""
        inside = np.append(self.left(X), np.linalg.eigvalsh(X) - least)
        if inside.min() <= 0:
            return math.inf
        return self.value(X) / weight - np.log(inside).sum()

    def _newton(self, X: NDArray, weight: float, least: float) -> tuple[NDArray, float]:
        """A damped Newton step, and how far the barrier is from its least value."""
        left = self.left(X)
        above = np.linalg.inv(X - least * np.eye(len(X)))
        steep, curved = self.slope_and_hessian(X)
        outer = np.einsum("is,js->sij", self.moves, self.moves).reshape(len(left), -1)
        outer = outer / left[:, None]
        gradient = outer.sum(axis=0) - above.ravel() - steep.ravel() / weight
        hessian = curved / weight + outer.T @ outer + np.kron(above, above)
        step = -scipy.linalg.solve(hessian, gradient, assume_a="pos")
        direction = step.reshape(X.shape)
        direction = (direction + direction.T) / 2
        return self._stepped(X, (direction, float(-gradient @ step)), weight, least)

    def _stepped(
        self, X: NDArray, step: tuple[NDArray, float], weight: float, least: float
    ) -> tuple[NDArray, float]:
        """Go along a step as far as it is good, and return its decrement, 0 if nowhere."""
        direction, decrement = step
        before = self._barrier(X, weight, least)
        for length in 0.5 ** np.arange(40.0):
            tried = X + length * direction
            after = self._barrier(tried, weight, least)
            is_near = decrement < _NEAR and math.isfinite(after)
            if is_near or after <= before - 0.1 * length * decrement:
                return tried, decrement
        return X, 0.0

    def _bounded(self, X: NDArray, weight: float, least: float) -> Solved:
        """The point, and lower bounds from the dual of the linear problem there."""
        steep, _, _ = self.slope(X)
        value = self.value(X)
        prices = weight / self.left(X)
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

    back: NDArray
    gradient: NDArray
    moves: NDArray
    inverses: NDArray
    passed: NDArray
    weight: float

    @classmethod
    def of(
        cls,
        program: NoiseProgram,
        X: NDArray,
        weight: float,
        least: float,
        wanted: float | None = None,
    ) -> _NewtonSystem:
        """Take the equations at a point, or of the tangent to the weight wanted."""
        steep, inverses, passed = program.slope(X)
        values, turn = np.linalg.eigh(X - least * np.eye(len(X)))
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

    def hessian(self, S: NDArray) -> NDArray:
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

    def preconditioner(self) -> Callable[[NDArray], NDArray]:
        """Return what divides by the nearly diagonal part and the moves' (Woodbury)."""
        own = np.einsum("tii->ti", self.inverses)
        bent = own.T @ np.sum(self.passed**2, axis=2).T
        part = 1 / (1 + (bent + bent.T) / self.weight)
        pairs = self.moves[:, None] * self.moves
        rows = pairs.reshape(part.size, -1)
        inner = np.eye(rows.shape[1]) + rows.T @ (part.reshape(-1, 1) * rows)
        factor = scipy.linalg.cho_factor(inner)

        def divided(R: NDArray) -> NDArray:
            S = part * R
            seen = np.sum(self.moves * (S @ self.moves), axis=0)
            shares = scipy.linalg.cho_solve(factor, seen)
            return S - part * ((self.moves * shares) @ self.moves.T)

        return divided

    def solved(self) -> tuple[NDArray, float]:
        """Return the step of X, and how far the barrier is from its least value."""
        divided = self.preconditioner()
        found = np.zeros_like(self.gradient)
        left = -self.gradient
        along = ahead = divided(left)
        size = first = float(np.sum(left * ahead))
        for _ in range(_PRODUCTS):
            if size <= _SOLVED * first:
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


def optimality(loop: LoopData) -> Optimality:
    """Return how far a loop is from the optimum.

    `ValueError` without a prior, or where no optimum is known.
    """
    noise = loop.private_noise
    design = loop.known_design
    any_law = _shift_of_any_law(noise)
    if noise.family != "laplace" or any_law is None:
        _check_covered(noise)
    if design.lacks_start(noise.horizon):
        raise ValueError(
            "optimality: over a horizon it depends on what is known of x(0); pass the "
            "public covariance P0 to private_lqg"
        )
    cost = expected_total(loop)
    least = _without_noise(loop)
    if not loop.hides_states:
        # without noise it costs least of all, where no bound is known of noise
        lower = float(np.fmax(least_cost(loop), least))
        universal = math.nan
        if any_law is not None:
            universal = float(np.fmax(least_cost(loop, any_law), least))
        return Optimality.between(cost, lower, lower, universal)
    universal = math.nan
    if any_law is not None:
        program = NoiseProgram.of(loop, any_law)
        universal = least + max(program.solved(design.cap).uncapped, 0.0)
    is_in_blocks = any(isinstance(part, Blocks) for part in noise.parts)
    if noise.family == "laplace" or is_in_blocks:  # nothing else is known
        return Optimality.between(cost, universal, universal, universal)
    solved = NoiseProgram.of(loop).solved(design.cap)
    capped = least + max(solved.capped, 0.0)
    uncapped = least + max(solved.uncapped, 0.0)
    found = Optimality.between(cost, capped, uncapped, universal)
    if noise.family in RADIAL_LAWS:
        found = replace(found, among="radial noise of this law in one block")
    return found


def _shift_of_any_law(noise: OutputNoise) -> float | None:
    """Return the largest shift of a move in units of the noise's covariance.

    Whatever law keeps the budget, z' Cov^-1 z is at most one over the least variance that
    hides a move of one. None where no such bound is known.
    """
    request = noise.request
    is_bare = request.floor is None and not request.has_models
    if request.budget.epsilon is None or not noise.horizon.ends or not is_bare:
        return None
    variance = least_law_variance(request.budget, request.releases)
    return 1 / math.sqrt(variance) if variance > 0 else None


def _without_noise(loop: LoopData) -> float:
    """What the best loop costs that publishes the readings as they are."""
    design = loop.known_design
    samples = loop.private_noise.horizon
    law = design.law(loop.side, loop.weights, None, samples)
    return Expected.of(loop, design.P0).total(replace(loop, noise=None, law=law))


# -- filter and noise in turns ---------------------------------------------------------


def _in_turns(loop: LoopData, progress: bool) -> LoopData:
    """Choose noise and filter for each other, as long as the cost falls."""
    noise = loop.private_noise
    before = expected_total(loop)
    history = [("filter for the noise", before)]
    faster = "progress=True shows how far they are"
    with progress_bar(MOST_ROUNDS, progress, "turn", faster) as bar:
        for _ in range(MOST_ROUNDS):
            shaped = designed(noise.request, loop.side.plant, weight=loop)
            tried = loop.with_noise(shaped)
            after = expected_total(tried)
            bar.update(1)
            if not after < before:
                break
            loop = tried
            history.append(("noise and filter", after))
            if after > before * (1 - ALIKE):
                break
            before = after
    return replace(loop, history=tuple(history))


def least_cost(loop: LoopData, shift: float | None = None) -> float:
    """Bound the cost of loops with other noise for the same request from below.

    ``shift`` is the largest one of a move, by default what the budget allows. It is nan
    where no bound is known.
    """
    noise = loop.private_noise
    if loop.never_ends:
        return expected_total(loop) - _endless_excess(loop)
    if shift is None and is_energy_ball(noise.request.adjacency):
        return expected_total(loop)  # its noise is below every other one
    problem = DesignProblem(loop.side.plant, noise.request)
    responses = all_responses(noise.request.adjacency, problem.plants, noise.horizon)
    if responses.apart or responses.windows:
        return math.nan
    # what the noise is in the span of the moves alone costs no more
    design = loop.known_design
    total = noise_covariance(noise.process)
    sizes = np.sqrt(np.diag(total))
    units = np.where(sizes > 0, sizes, 1.0)[:, None]  # of the outputs
    points = responses.points / units
    balls = [ball / units for ball in responses.balls]
    basis = _basis(np.hstack([points, *balls]))
    total = total / units / units.T
    information = basis.T @ np.linalg.pinv(total, hermitian=True) @ basis
    values, turn = np.linalg.eigh((information + information.T) / 2)
    if values[0] <= rank_tolerance(information, values):
        return math.nan  # rounding hides how large the noise is
    spread = turn / np.sqrt(values)
    covariance = spread @ spread.T
    narrow = units * (basis @ covariance @ basis.T) * units.T
    plant = loop.side.plant
    known = DenseKnowledge.of(plant, loop.weights, narrow, design.P0)
    K = design.regulator(loop.side, loop.weights, noise.horizon)
    gains = known.gains(noise.horizon)
    law = ObserverFeedback.of(loop.side, K, gains, design.form)
    columns = (units * basis).reshape(noise.process.samples, noise.process.outputs, -1)
    dynamics = LoopDynamics(loop.dynamics.side, law)
    errors = dynamics.errors(loop.cost_rows, {"noise": columns}, noise.process.samples)
    passed = errors.reshape(-1, errors.shape[2]) @ covariance
    slope = passed.T @ passed
    axes = [_axes(basis.T @ ball, slope) for ball in balls]
    moves = np.hstack([basis.T @ points, *axes])
    spent = float(np.sum(slope * information))
    allowed = problem.allowed if shift is None else shift
    bound = allowed**2 * _price(slope, moves) - spent
    return expected_total(loop) - _saved(loop, known) - bound


def _saved(loop: LoopData, known: DenseKnowledge) -> float:
    """Return what a loop costs more than the one whose filter has other errors."""
    samples = loop.private_noise.horizon.count()
    predicted = loop.form == "predictor"
    _, prices = regulation(loop).gains(samples)
    mine = knowledge(loop).covariances(samples, predicted=predicted)
    others = known.covariances(samples, predicted=predicted)
    weighted = prices @ (mine - others)
    return float(np.sum(weighted * prices))


def _basis(columns: NDArray) -> NDArray:
    """Orthonormal columns of the span of others."""
    left, values, _ = scipy.linalg.svd(columns, full_matrices=False)
    return left[:, values > rank_tolerance(columns, values)]


def _axes(ball: NDArray, slope: NDArray) -> NDArray:
    """Moves U v_i of a ball U c, |c| <= 1, that price a slope as the ball does."""
    back = np.linalg.pinv(ball)
    _, turn = np.linalg.eigh(back @ slope @ back.T)
    return ball @ turn


def _price(slope: NDArray, moves: NDArray) -> float:
    """Nearly the least sum lambda, lambda >= 0, with sum lambda c c' >= slope."""
    size = len(slope)
    above = np.triu_indices(size)
    outer = np.array([np.outer(move, move)[above] for move in moves.T]).T
    prices, _ = scipy.optimize.nnls(outer, slope[above])
    left = slope - (moves * prices) @ moves.T
    share = scipy.linalg.eigh(left, moves @ moves.T, eigvals_only=True)[-1]
    return float(prices.sum()) + max(0.0, float(share)) * moves.shape[1]


def _angles(systems: Sequence[LinearSystem]) -> NDArray:
    """Return frequencies in [0, pi], close together where a system has a peak.

    A peak is as wide as its pole is away from the unit circle, which may be less than the
    distance of even frequencies.
    """
    found = [np.linspace(0, np.pi, _FREQUENCIES)]
    for system in systems:
        poles = np.linalg.eigvals(system.A)
        widths = np.abs(1 - np.abs(poles))
        steps = np.outer(widths, _AROUND_PEAK).ravel()
        centres = np.repeat(np.abs(np.angle(poles)), len(_AROUND_PEAK))
        found += [centres - steps, centres + steps]
    angles = np.unique(np.concatenate(found))
    return angles[(angles >= 0) & (angles <= np.pi)]


def _endless_excess(loop: LoopData) -> float:
    """Bound a sample's cost above the optimum, nan for several outputs."""
    noise = loop.private_noise
    request = noise.request
    secret = secret_inputs(request.adjacency, loop.side.plant)
    if noise.process.outputs > 1 or secret.balls or secret.energies is not None:
        return math.nan
    if secret.several or secret.windows:
        return math.nan
    weight = loop.dynamics.steady(loop.cost_rows.each, {"noise": np.eye(1)})
    model = finite_model(noise.process.total)
    angles = _angles([model, weight, secret.system])
    points = np.exp(1j * angles)
    spectrum, priced = (
        np.sum(np.abs(frequency_response(system, points)) ** 2, axis=(1, 2))
        for system in (model, weight)
    )
    response = frequency_response(secret.system, points)[:, 0]
    columns = []
    for moves in secret.signals:
        shaped = moves.radius * moves.transforms(points)
        columns.append(np.abs(response[:, [moves.column]] * shaped) ** 2)
    seen = np.hstack(columns)
    slope = spectrum**2 * priced
    if not slope.any():
        return 0.0  # the noise costs nothing
    unit = slope.max() / seen.max()
    prices = np.ones(seen.shape[1])
    rows = seen / seen.max()
    found = scipy.optimize.linprog(prices, A_ub=-rows, b_ub=-slope / slope.max())
    allowed = GaussianNoise.allowed_shift(request.budget, request.releases) ** 2
    return float(allowed * unit * found.fun - steady_state_cost(loop).privacy)
