"""Noise of the user's own shape.

DPAM's Theorem 3 holds for every Sigma that satisfies eq. (22), and Theorem 1 for every
Lambda whose column space contains the responses to the hidden moves. A noise that somebody
already uses, or the sigma C A^t eta of DPAM-short's Algorithm 1, can so be priced
and put in a loop.
"""

from __future__ import annotations

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

from ..core.covered import padding_of
from ..core.noise import LaplaceNoise
from ..noise.parts import DrawnOnce
from ..numerics.errors import NotRealizableError, PrivacyError
from ..numerics.linalg import float_above, nonzero, rank_tolerance
from ..numerics.progress import piece
from ..numerics.thresholds import ROUNDED
from ..secrets.secret import Responses
from .correlated import dense_noise
from .fitted import evaluated, least_scale, scaled_to_fit
from .problem import DesignProblem, Proposal
from .robust import alone, beside_floor, excess_of, shift_beside_floor


def own_shape(problem: DesignProblem) -> Proposal:
    """Structured noise S of the request's shape that meets the budget.

    S is kept where it meets it, unless the request wants it scaled.
    """
    request = problem.request
    shape = np.asarray(request.factor)
    if len(shape) != problem.plant.order:
        own = _own_laplace if problem.law == "laplace" else _own_lambda
        return own(problem, shape)
    if request.floor is not None:
        return _beside_floor(problem, shape)
    with piece(0, 2):
        excess = excess_of(problem, shape)
    if not excess > np.finfo(float).tiny:  # what bounds zero is smaller
        raise PrivacyError(
            "no output depends on the protected states within the horizon: no noise is "
            "needed"
        )
    size = float_above(excess, 4)
    if not request.scale:
        size = max(size, 1.0)
    with piece(1, 2):
        return alone(problem, shape * size)


def _own_lambda(problem: DesignProblem, shape: NDArray[np.float64]) -> Proposal:
    """Noise Lambda eta over one horizon, with eta in a causal order."""
    request = problem.request
    with piece(0, 4):
        responses = problem.responses
    if request.floor is None:
        with piece(1, 4):
            _check_covered(shape, responses)
    with piece(2, 4):
        fitting = shape
        if request.scale or not _fits(problem, shape, responses):
            fitting = scaled_to_fit(problem, shape, responses)
    with piece(3, 4):
        return dense_noise(problem, fitting, responses)


def _own_laplace(problem: DesignProblem, shape: NDArray[np.float64]) -> Proposal:
    """Noise Lambda eta over one horizon, with all of eta drawn at its start.

    Where Lambda has fewer directions than outputs and samples, a move's response lies in
    its column space up to rounding at best. The padding of `Mechanism` is then part of it.
    """
    responses = problem.responses
    if responses.windows or responses.apart:
        raise PrivacyError(
            "adjacency: Laplace noise of your own Lambda hides one change of a listed shape, "
            'got changes of any shape or several; pass family="gaussian", or profiles'
        )
    _check_covered(shape, responses)
    if not shape.any(axis=1).all():
        raise NotRealizableError(
            "factor: expected Laplace noise at every sample and output, got rows of zeros in "
            "Lambda, which publish exactly; add a column that is small there"
        )
    noise = LaplaceNoise(shape)
    if np.linalg.matrix_rank(shape / noise.std[:, None]) < len(shape):
        shape = np.hstack([shape, np.diag(padding_of(noise))])
    part = DrawnOnce(shape, problem.plant.output_count)
    size = float_above(problem.excess(problem.certify((part,))), 4)
    if not problem.request.scale:
        size = max(size, 1.0)
    part = part.scaled(size)
    return Proposal((part,), noise.unit_variance * problem.price.cost(part.columns))


def _fits(
    problem: DesignProblem, shape: NDArray[np.float64], responses: Responses
) -> bool:
    """Return whether Lambda as given meets the budget, with the floor."""
    _, sizes = evaluated(problem, shape, responses)
    return bool(sizes.max() <= problem.allowed_beside_grid)


def _check_covered(shape: NDArray[np.float64], responses: Responses) -> None:
    """Raise `NotRealizableError` if a response leaves Lambda's column space."""
    sizes = np.linalg.norm(shape, axis=1)
    scaled = shape / nonzero(sizes)[:, None]
    basis, values, _ = scipy.linalg.svd(scaled, full_matrices=False)
    basis = basis[:, values > rank_tolerance(scaled, values)]
    shaped = [several.columns for several in responses.windows]
    moves = np.hstack([responses.singles, *responses.balls, *shaped])
    moves = moves / nonzero(sizes)[:, None]
    left = np.linalg.norm(moves - basis @ (basis.T @ moves), axis=0)
    # the padding of the root covers what is less, at a cost in the certified shift
    if (left > ROUNDED * np.linalg.norm(moves, axis=0)).any():
        raise NotRealizableError(
            "factor: a hidden move changes the outputs in a direction that is not in the "
            "column space of Lambda (DPAM eq. (8)); add the column, or a white floor of "
            "Gaussian noise"
        )


def _beside_floor(problem: DesignProblem, shape: NDArray[np.float64]) -> Proposal:
    """Noise of a shape, as small as the budget allows with the floor."""

    def excess(scale: float) -> float:
        found = shift_beside_floor(problem, shape * scale)
        return found.beside_grid(problem.grid).gdp / problem.allowed

    is_kept = not problem.request.scale and excess(1.0) <= 1
    scaled = shape if is_kept else shape * least_scale(excess)
    return beside_floor(problem, scaled)
