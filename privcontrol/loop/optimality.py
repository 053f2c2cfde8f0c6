"""How far a loop is from the best one for its secret and budget.

For secrets of the state the bound is that of the convex program of `noise_program`. For
others the dual of the linear problem at the loop's own noise bounds the optimum from below:

    f - (y^2 sum lambda - tr Gr J),    Gr = Gamma W Gamma,    sum lambda_i s_i s_i' >=
    Gr,

where J is the inverse covariance of the noise, W prices the noise for its own filter, and
s_i are what the moves add to the outputs.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import scipy.linalg
import scipy.optimize
from numpy.typing import NDArray

from ..core.ball_noise import RADIAL_LAWS
from ..core.noise import GaussianNoise
from ..designs.output_noise import OutputNoise
from ..designs.problem import DesignProblem
from ..noise.parts import Blocks
from ..noise.process import NoiseProcess
from ..numerics.errors import UncertifiableError
from ..numerics.linalg import nonzero, rank_tolerance
from ..numerics.thresholds import ALIKE
from ..privacy.guarantee import shown
from ..privacy.least_variance import least_law_variance
from ..secrets.secret import Responses
from ..systems.linear import LinearSystem, frequency_response
from .controller import ObserverFeedback
from .data import LoopData, regulation
from .dense_filter import DenseKnowledge, noise_covariance
from .dynamics import LoopDynamics
from .kalman import finite_model
from .moments import Expected, expected_total, knowledge, steady_state_cost
from .noise_program import NoiseProgram

#: Comparison of costs where no bound of noise is known.
_WITHOUT_NOISE = "a loop without noise, the only bound known for this secret"

#: Frequencies at which the bound without a horizon is evaluated, and those next to the
#: peak of a pole, in widths of it.
_FREQUENCIES = 4096
_AROUND_PEAK = np.append(np.linspace(0, 4, 65), np.geomspace(4, 1000, 64)[1:])


@dataclass(frozen=True)
class Optimality:
    """Hold how far a loop is from the best one for its secret and budget.

    All costs are those of a run with the design's prior, QN and RN and zero reference,
    with the terminal term. Without a horizon they are those of a sample in steady state,
    and where the initial state is secret the bounds are those of stationary noise, as
    ``among`` says: noise that fades with the effect of that state costs nothing there.

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
        The noise whose least cost ``excess`` is about, in words. Where no bound of noise
        is known, it is a loop without noise, and the distance to the best noise may be
        far less than ``excess``. As a text the object says `excess`, which counts noise
        of any size.
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
        excess = _excess(cost, uncapped)
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
        law = f"within {shown(100 * self.excess)} % of the least cost of {self.among}"
        if math.isnan(self.universal_bound) or self.among == _WITHOUT_NOISE:
            return law
        excess = _excess(self.cost, self.universal_bound)
        return f"{law}, {shown(100 * excess)} % of that of every law"


def _excess(cost: float, least: float) -> float:
    """Return how much more than a bound of the least cost something costs at most."""
    if cost <= least:
        return 0.0
    return (cost - least) / least if least > 0 else math.inf


def optimality(loop: LoopData) -> Optimality:
    """Return how far a loop is from the optimum.

    `ValueError` without a prior, or where no optimum is known.
    """
    noise = loop.private_noise
    design = loop.known_design
    any_law = shift_of_any_law(noise)
    if noise.family != "laplace" or any_law is None:
        check_covered(noise)
    if design.lacks_start(noise.horizon):
        raise ValueError(
            "optimality: over a horizon it depends on the prior of x(0); pass the public "
            "covariance P0 to private_lqg"
        )
    cost = expected_total(loop)
    least = _without_noise(loop)
    if not loop.hides_states:
        # without noise it costs least of all, where no bound is known of noise
        lower = float(np.fmax(least_cost(loop), least))
        universal = math.nan
        if any_law is not None:
            universal = float(np.fmax(least_cost(loop, any_law), least))
        found = Optimality.between(cost, lower, lower, universal)
        if lower <= least:
            return replace(found, among=_WITHOUT_NOISE)
        if loop.never_ends and noise.request.secret.hides_start:
            return replace(found, among="stationary noise of this law")
        return found
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


def shift_of_any_law(noise: OutputNoise) -> float | None:
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
    """The least cost of a loop that publishes the readings as they are."""
    design = loop.known_design
    samples = loop.private_noise.horizon
    law = design.law(loop.side, loop.weights, None, samples)
    return Expected.of(loop, design.P0).total(replace(loop, noise=None, law=law))


def check_covered(noise: OutputNoise) -> None:
    """Raise a `ValueError` for noise of a law among which no optimum is known."""
    if noise.family not in ("gaussian", *RADIAL_LAWS):
        raise ValueError(
            "noise: the optimum is known among Gaussian noises, and among those of a "
            f"radial law, and this one is {noise.family}"
        )


# -- bounds at the noise that a loop has ---------------------------------------------


def least_cost(loop: LoopData, shift: float | None = None) -> float:
    """Bound the cost of loops with other noise for the same request from below.

    ``shift`` is the largest one of a move, by default what the budget allows. It is nan
    where no bound is known.
    """
    noise = loop.private_noise
    if loop.never_ends:
        return expected_total(loop) - _endless_excess(loop)
    if shift is None and noise.request.secret.is_energy_ball:
        return expected_total(loop)  # its noise is below every other one
    problem = DesignProblem(loop.side.plant, noise.request)
    responses = problem.responses
    if responses.apart or responses.windows:
        return math.nan
    narrow = _NarrowNoise.of(noise.process, responses)
    if narrow is None:
        return math.nan  # rounding hides how large the noise is
    # what the noise is in the span of the moves alone costs no more
    design = loop.known_design
    plant = loop.side.plant
    known = DenseKnowledge.of(plant, loop.weights, narrow.whole, design.P0)
    K = design.regulator(loop.side, loop.weights, noise.horizon)
    gains = known.gains(noise.horizon)
    law = ObserverFeedback.of(loop.side, K, gains, design.form)
    columns = narrow.basis.reshape(noise.process.samples, noise.process.outputs, -1)
    dynamics = LoopDynamics(loop.dynamics.side, law)
    errors = dynamics.errors(loop.cost_rows, {"noise": columns}, noise.process.samples)
    passed = errors.reshape(-1, errors.shape[2]) @ narrow.covariance
    slope = passed.T @ passed
    axes = [_axes(ball, slope) for ball in narrow.balls]
    moves = np.hstack([narrow.points, *axes])
    spent = float(np.sum(slope * narrow.information))
    allowed = problem.allowed if shift is None else shift
    bound = allowed**2 * _price(slope, moves) - spent
    return expected_total(loop) - _saved(loop, known) - bound


@dataclass(frozen=True)
class _NarrowNoise:
    """What the noise of a run is in the span of the hidden moves, and these in the span.

    Attributes
    ----------
    basis : ndarray, shape (T p, r)
        Of the span.
    covariance, information : ndarray, shape (r, r)
        Of the noise in this basis, and its inverse.
    points : ndarray, shape (r, M)
    balls : list of ndarray, shape (r, q)
    whole : ndarray, shape (T p, T p)
        The covariance of such outputs.
    """

    basis: NDArray[np.float64]
    covariance: NDArray[np.float64]
    information: NDArray[np.float64]
    points: NDArray[np.float64]
    balls: list[NDArray[np.float64]]
    whole: NDArray[np.float64]

    @classmethod
    def of(cls, process: NoiseProcess, responses: Responses) -> _NarrowNoise | None:
        """Return that of noise, None where rounding hides how large it is."""
        total = noise_covariance(process)
        units = nonzero(np.sqrt(np.diag(total)))[:, None]  # of the outputs
        points = responses.points / units
        balls = [ball / units for ball in responses.balls]
        basis = _basis(np.hstack([points, *balls]))
        total = total / units / units.T
        information = basis.T @ np.linalg.pinv(total, hermitian=True) @ basis
        values, turn = np.linalg.eigh((information + information.T) / 2)
        if values[0] <= rank_tolerance(information, values):
            return None
        spread = turn / np.sqrt(values)
        covariance = spread @ spread.T
        return cls(
            units * basis,
            covariance,
            information,
            basis.T @ points,
            [basis.T @ ball for ball in balls],
            units * (basis @ covariance @ basis.T) * units.T,
        )


def _saved(loop: LoopData, known: DenseKnowledge) -> float:
    """Return what a loop costs more than the one whose filter has other errors."""
    samples = loop.private_noise.horizon.count()
    predicted = loop.form == "predictor"
    _, prices = regulation(loop).gains(samples)
    mine = knowledge(loop).covariances(samples, predicted=predicted)
    others = known.covariances(samples, predicted=predicted)
    weighted = prices @ (mine - others)
    return float(np.sum(weighted * prices))


def _basis(columns: NDArray[np.float64]) -> NDArray[np.float64]:
    """Orthonormal columns of the span of others."""
    left, values, _ = scipy.linalg.svd(columns, full_matrices=False)
    return left[:, values > rank_tolerance(columns, values)]


def _axes(ball: NDArray[np.float64], slope: NDArray[np.float64]) -> NDArray[np.float64]:
    """Moves U v_i of a ball U c, |c| <= 1, that price a slope as the ball does."""
    back = np.linalg.pinv(ball)
    _, turn = np.linalg.eigh(back @ slope @ back.T)
    return ball @ turn


def _price(slope: NDArray[np.float64], moves: NDArray[np.float64]) -> float:
    """Nearly the least sum lambda, lambda >= 0, with sum lambda c c' >= slope."""
    size = len(slope)
    above = np.triu_indices(size)
    outer = np.array([np.outer(move, move)[above] for move in moves.T]).T
    prices, _ = scipy.optimize.nnls(outer, slope[above])
    left = slope - (moves * prices) @ moves.T
    share = scipy.linalg.eigh(left, moves @ moves.T, eigvals_only=True)[-1]
    return float(prices.sum()) + max(0.0, float(share)) * moves.shape[1]


def _angles(systems: Sequence[LinearSystem]) -> NDArray[np.float64]:
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
    """Bound a sample's cost above the optimum, nan where no bound is known.

    None is for several outputs, and for changes that vanish at a frequency of the noise.
    """
    noise = loop.private_noise
    request = noise.request
    secret = request.secret.entering(loop.side.plant)
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
    if found.fun is None:
        return math.nan
    allowed = GaussianNoise.allowed_shift(request.budget, request.releases) ** 2
    return float(allowed * unit * found.fun - steady_state_cost(loop).privacy)
