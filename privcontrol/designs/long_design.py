"""Noise of low order for a long run, from noise without a horizon that begins at rest.

Its cost is compared with a bound for any noise of the run.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import scipy.fft
import scipy.linalg
from numpy.typing import NDArray

from ..noise.parts import Filtered, NoisePart
from ..numerics.ellipsoid import Weights, rough_shape
from ..numerics.errors import PrivacyError, UncertifiableError
from ..numerics.thresholds import LEAST_PRICE, MOST_ROUNDS, ROUGH, ROUNDED
from ..secrets.decaying import endless_secret
from ..secrets.disturbed import causal_map
from ..secrets.secret import SecretInputs
from ..systems.linear import LinearSystem, response_from_rest
from .endless_design import stationary_design
from .price import Weight
from .problem import DesignProblem, Proposal
from .request import Request
from .windowed import Weighted

#: Samples from which on noise of low order is tried before a dense design.
_LONG = 50
#: Dimensions up to which the bound for a run is searched for.
_MOST_DIMENSIONS = 3000
#: Gap of the noise without a horizon, as a part of the one that is asked for. The run
#: itself leaves the rest.
_SHARE_OF_LASTING = 1 / 16


def long_noise(problem: DesignProblem) -> Proposal | None:
    """Noise of low order for a long but finite run, from rest.

    None if the run is short, or the noise is not certified to be within ``request.gap`` of
    the best, or there is no noise without a horizon.
    """
    request = problem.request
    if not _is_long_and_plain(request, problem.weight):
        return None
    found = _of_any_length(problem)
    if found is None:
        return None
    secret, price, lasting = found
    known = lasting.filter
    if known is None or known.weights is None:
        return None
    horizon = problem.horizon
    allowed = request.allowed_shift
    part = _from_rest(lasting)
    model: Any = part.model  # all such parts have one
    impulse = price.after(model).impulse_response(horizon)
    remaining = np.arange(horizon, 0, -1)
    energies = np.sum(impulse**2, axis=(1, 2))
    cost = float(remaining @ energies)
    enough = cost / (1 + request.gap) * allowed**2
    weighted = _weighted_changes(secret, known.weights, horizon)
    bound = _bound_of_run(secret, price, *weighted, horizon, enough)
    bound = bound / allowed**2
    if not cost <= bound * (1 + request.gap):
        return None
    return Proposal((part,), cost, min(bound, cost), known)


def least_cost_of_white(problem: DesignProblem) -> float:
    """No independent noise of one size that hides changes that come once costs less.

    It hides those of one level that begin at the first sample of the run, in units of
    their norms; changes of any shape are among them.
    """
    horizon = problem.horizon
    norms = []
    for part in problem.request.secret.simplest:
        inputs = part.starting(problem.plant, horizon)
        norms.append(inputs.largest_norm(horizon))
    size = max(norms) / problem.allowed * (1 - ROUNDED)
    return problem.price.of_white(np.full(problem.query.size, size))


def root_from_rest(problem: DesignProblem) -> NDArray[np.float64] | None:
    """A root (T p, T r) of noise without a horizon from rest, None if there is none."""
    found = _of_any_length(problem)
    if found is None:
        return None
    _, _, lasting = found
    responses = _from_rest(lasting).responses(problem.horizon)
    return responses.reshape(problem.query.size, -1)


def _from_rest(lasting: Proposal) -> NoisePart:
    """Return noise without a horizon, begun at rest."""
    (part,) = lasting.parts
    if isinstance(part, Filtered):
        return replace(part, starts_stationary=False)
    return part


def _of_any_length(
    problem: DesignProblem,
) -> tuple[SecretInputs, LinearSystem, Proposal] | None:
    """The secret, the price and the noise without a horizon, if there is some."""
    request = problem.request
    if problem.varies:
        return None
    try:
        price = problem.price.of_sample
        secret = endless_secret(request.secret, problem.plant)
        lasting = stationary_design(
            secret, request.allowed_shift, price, gap=_SHARE_OF_LASTING * request.gap
        )
    except (ValueError, PrivacyError, UncertifiableError):
        return None
    return secret, price, lasting


def _is_long_and_plain(request: Request, weight: Weight) -> bool:
    """Return whether a long run is asked for, with disturbances that come once.

    They have any shape, or one of at most some forty.
    """
    if request.horizon < _LONG or request.has_models or request.family != "gaussian":
        return False
    options = (request.floor, request.resolution, request.factor)
    if any(option is not None for option in options):
        return False
    if isinstance(weight, (np.ndarray, list, tuple)) and len(weight) > _LONG:
        return False  # a weight of all samples
    secret = request.secret
    if not secret.come_once:
        return False
    return secret.of_any_shape or secret.of_few_shapes


def _weighted_changes(
    secret: SecretInputs, weights: Weighted, horizon: int
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return changes (T, q, M) that begin at the first sample, and their weights (M,).

    Of changes of any shape they are the signs that prove the stationary bound.
    """
    changes = [secret.changes(horizon)] if secret.signals else []
    for window, signs in zip(secret.windows, weights.signs, strict=True):
        shapes = signs.reshape(len(signs), window.longest, -1) * window.radii
        during = shapes.transpose(1, 2, 0)[:horizon]
        own = np.zeros((horizon, secret.inputs, len(signs)))
        own[: len(during), list(window.columns)] = during
        changes.append(own)
    shares = [weights.singles, *weights.shares]
    return np.concatenate(changes, axis=2), np.concatenate(shares)


def _bound_of_run(
    secret: SecretInputs,
    price: LinearSystem,
    changes: NDArray[np.float64],
    multipliers: NDArray[np.float64],
    horizon: int,
    enough: float,
) -> float:
    """No Gaussian noise of a finite run, for a shift of one, costs less than this.

    For probability weights of the moves it is the squared nuclear norm of their weighted
    responses. The stationary weights do in long runs. Otherwise a search for better ones,
    which begins with those of the times that prove most, ends at a bound of ``enough``.
    """
    relative = multipliers / multipliers.max()
    is_heavy = relative >= ROUGH
    changes = changes[:, :, is_heavy]
    shares = relative[is_heavy] / relative[is_heavy].sum()
    priced = price.after(secret.system)
    weighted = changes * np.sqrt(shares)
    by_time = _products_by_time(response_from_rest(priced, weighted))
    bound = _bound_of_products(by_time)
    dimensions = horizon * min(secret.inputs, len(price.C))
    if bound >= enough or dimensions > _MOST_DIMENSIONS:
        return bound
    if len(price.C) > secret.inputs:
        every = causal_map(priced.impulse_response(horizon))
        (responses,) = scipy.linalg.qr(every, mode="r")
        points = responses[: every.shape[1]] @ causal_map(changes)
    else:
        points = causal_map(response_from_rest(priced, changes))
    of_times = np.maximum((by_time / by_time.max()) ** 2, LEAST_PRICE)
    weights = np.outer(of_times / of_times.sum(), shares).ravel()
    begun = Weights(np.log(weights))
    found = rough_shape(points, 0.0, enough=enough, updates=MOST_ROUNDS, begun=begun)
    return found.lower_bound


def _bound_of_products(by_time: NDArray[np.float64]) -> float:
    """Return a bound of the squared nuclear norm, for weights h(t)^2 with sum one."""
    return float(by_time @ by_time) * (1 - ROUNDED)


def _products_by_time(impulse: NDArray[np.float64]) -> NDArray[np.float64]:
    """Products h (T,) of a causal map's columns at each time with a matrix of norm one.

    Their sum, with roots of weights, is below the nuclear norm. The matrix is a part of the
    circulant matrix whose blocks at each frequency are the polar factors of the map's.
    """
    samples = len(impulse)
    count = scipy.fft.next_fast_len(2 * samples, real=True)
    values = np.fft.rfft(impulse, count, axis=0)
    left, _, right = np.linalg.svd(values, full_matrices=False)
    phases = np.fft.irfft(left @ right, count, axis=0)[:samples]
    by_lag = np.sum(phases * impulse, axis=(1, 2))
    return np.maximum(np.cumsum(by_lag), 0.0)[::-1]
