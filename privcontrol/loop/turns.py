"""Filter and noise in turns for secrets that are no state, and the certified gap.

The cost of privacy with the best filter is a convex function of J, the inverse
covariance of the noise. The noise that costs the filter of another noise least never
costs more. At any noise the dual of the linear problem bounds the optimum from below:

    f - (y^2 sum lambda - tr Gr J),    Gr = Gamma W Gamma,    sum lambda_i s_i s_i' >=
    Gr,

where W prices the noise for its own filter, and s_i are what the moves add to the
outputs.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import scipy.linalg
import scipy.optimize
from numpy.typing import NDArray

from ..core._linalg import rank_tolerance
from ..core._progress import progress_bar
from ..core.noise import GaussianNoise
from ..designs.correlated import is_energy_ball
from ..designs.design import designed
from ..designs.problem import DesignProblem
from ..secrets.secret import all_responses, secret_inputs
from ..systems.linear import frequency_response
from ._loop_data import LoopData, regulation
from .controller import ObserverFeedback
from .dynamics import LoopDynamics
from .lqg import DenseKnowledge, noise_covariance
from .margins import knowledge
from .moments import expected_total, steady_state_cost
from .signals import LoopT

#: Turns at most, and the part of the cost below which a turn is the last one.
_TURNS = 40
_SMALL_TURN = 1e-7
#: Frequencies at which the bound without a horizon is evaluated.
_FREQUENCIES = 4096


def in_turns(loop: LoopT, progress: bool) -> LoopT:
    """Choose noise and filter for each other, as long as the cost falls."""
    noise = loop.private_noise
    before = expected_total(loop)
    history = [("filter for the noise", before)]
    faster = "progress=True shows how far they are"
    with progress_bar(_TURNS, progress, "turn", faster) as bar:
        for _ in range(_TURNS):
            shaped = designed(noise.request, loop.side.plant, weight=loop)
            tried = loop.with_noise(shaped)
            after = expected_total(tried)
            bar.update(1)
            if not after < before:
                break
            loop = tried
            history.append(("noise and filter", after))
            if after > before * (1 - _SMALL_TURN):
                break
            before = after
    return replace(loop, history=tuple(history))


def least_cost(loop: LoopData) -> float:
    """Bound the cost of loops with other noise for the same request from below.

    It is nan where no bound is known.
    """
    noise = loop.private_noise
    if loop.never_ends:
        return expected_total(loop) - _endless_excess(loop)
    if is_energy_ball(noise.request.adjacency):
        return expected_total(loop)  # its noise is below every other one
    problem = DesignProblem(loop.side.plant, noise.request)
    responses = all_responses(noise.request.adjacency, problem.plants, noise.horizon)
    if responses.apart:
        return math.nan
    # what the noise is in the span of the moves alone costs no more
    design = loop.known_design
    basis = _basis(np.hstack([responses.points, *responses.balls]))
    total = noise_covariance(noise)
    information = basis.T @ np.linalg.pinv(total, hermitian=True) @ basis
    covariance = np.linalg.inv(information)
    narrow = basis @ covariance @ basis.T
    plant = loop.side.plant
    known = DenseKnowledge.of(plant, loop.weights, narrow, design.P0)
    K = design.regulator(loop.side, loop.weights, noise.horizon)
    gains = known.gains(noise.horizon)
    law = ObserverFeedback.of(loop.side, K, gains, design.form)
    columns = basis.reshape(noise.horizon, noise.outputs, -1)
    dynamics = LoopDynamics(loop.dynamics.side, law)
    errors = dynamics.errors(loop.cost_rows, {"noise": columns}, noise.horizon)
    passed = errors.reshape(-1, errors.shape[2]) @ covariance
    slope = passed.T @ passed
    axes = [_axes(basis.T @ ball, slope) for ball in responses.balls]
    moves = np.hstack([basis.T @ responses.points, *axes])
    spent = float(np.sum(slope * information))
    bound = problem.allowed**2 * _price(slope, moves) - spent
    return expected_total(loop) - _saved(loop, known) - bound


def _saved(loop: LoopData, known: DenseKnowledge) -> float:
    """What a loop costs more than the one whose filter has other errors."""
    samples = loop.private_noise.horizon
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


def _endless_excess(loop: LoopData) -> float:
    """How far a sample's cost may be above the optimum, nan for several outputs."""
    noise: Any = loop.noise
    request = noise.request
    secret = secret_inputs(request.adjacency, loop.side.plant)
    if noise.outputs > 1 or secret.balls or secret.energies is not None:
        return math.nan
    if any(moves.events > 1 for moves in secret.signals):
        return math.nan
    angles = np.linspace(0, np.pi, _FREQUENCIES)
    points = np.exp(1j * angles)
    weight: Any = loop.noise_weight(math.inf)
    spectrum = np.sum(
        np.abs(frequency_response(noise.total.model, points)) ** 2, axis=(1, 2)
    )
    priced = np.sum(np.abs(frequency_response(weight, points)) ** 2, axis=(1, 2))
    response = frequency_response(secret.system, points)[:, 0]
    columns = []
    for moves in secret.signals:
        shaped = moves.radius * moves.transforms(points)
        columns.append(np.abs(response[:, [moves.column]] * shaped) ** 2)
    seen = np.hstack(columns)
    slope = spectrum**2 * priced
    unit = slope.max()
    prices = np.ones(seen.shape[1])
    found = scipy.optimize.linprog(prices, A_ub=-seen, b_ub=-slope / unit)
    allowed = GaussianNoise.allowed_shift(request.budget, request.releases) ** 2
    return allowed * unit * float(found.fun) - steady_state_cost(loop).privacy
