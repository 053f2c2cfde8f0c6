"""Design noise for a request without a horizon, and of low order for a long one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import scipy.fft
import scipy.linalg
from numpy.typing import NDArray

from ..core.ellipsoid import rough_shape
from ..core.errors import PrivacyError, UncertifiableError
from ..core.loss import PrivacyLoss
from ..noise._endless import endless_secret, joint_shift
from ..noise.parts import NoisePart, White
from ..secrets.disturbance import causal_map
from ..secrets.secret import SecretInputs, as_secret
from ..systems.linear import LinearSystem, impulse_energies, response_from_rest
from .problem import DesignProblem, SizedNoise, Weight, price_of
from .request import Request
from .stationary import (
    StationaryDesign,
    stationary_design,
    white_design,
    white_shift,
)

#: Samples from which on noise of low order is tried before a dense design.
_LONG = 50
#: Dimensions up to which the bound for a run is searched for, and updates of the search.
_MOST_DIMENSIONS = 3000
_OF_A_BOUND = 24
#: Moves that a bound is made of. Of more only those count whose stationary weight is not
#: small beside the largest.
_MOST_MOVES = 8000
_LEAST_SHARE = 1e-3
_LIGHTEST = 1e-6
#: Largest shift of noise beside a floor that almost suffices, over the allowed one.
_MOST_LEFT = 1e3


def endless(problem: DesignProblem) -> SizedNoise:
    """Noise without a horizon.

    A white floor hides as well. The filtered noise is the least one that is needed beside
    it, none where the floor suffices.
    """
    request = problem.request
    secret = endless_secret(request.adjacency, problem.plant)
    price = price_of(problem.weight, len(problem.plant.C))

    def designed(shift: float) -> StationaryDesign:
        if request.family == "iid-gaussian":
            return white_design(secret, shift, price)
        return stationary_design(
            secret, shift, price, order=request.order, gap=request.gap
        )

    parts: tuple[NoisePart, ...]
    allowed = request.allowed_shift
    if request.floor is None:
        design = designed(allowed)
        parts = (design.part,)
    else:
        design, parts = _beside_floor(secret, request.floor, allowed, price, designed)
    exact = is_attained(secret, design.response, request)
    loss = PrivacyLoss.gaussian(design.shift, (), exact)
    return SizedNoise(parts, loss, design.cost, filtered=design)


def _beside_floor(
    secret: SecretInputs,
    floor: NDArray,
    allowed: float,
    price: LinearSystem,
    designed: Callable[[float], StationaryDesign],
) -> tuple[StationaryDesign, tuple[NoisePart, ...]]:
    """The design of what a floor leaves to hide, with all parts of the noise."""
    white = LinearSystem.gain(np.diag(floor))
    cost = float(impulse_energies(price.after(white)).sum())
    own = white_shift(secret, floor)
    if own <= allowed:
        scaled = secret.scaled_system
        design = StationaryDesign(white, None, scaled, own, cost, cost)
        return design, (design.part,)
    left = (allowed**-2 - own**-2) ** -0.5 * (1 - 1e-12)
    design = designed(min(left, _MOST_LEFT * allowed))
    bound = design.lower_bound * (design.shift / allowed) ** 2
    design = replace(
        design,
        shift=joint_shift(design.shift, own),
        cost=design.cost + cost,
        lower_bound=max(bound, cost),
    )
    return design, (design.part, White(floor))


def is_attained(
    secret: SecretInputs, response: LinearSystem | None, request: Request
) -> bool:
    """Whether some hidden change has the shift of filtered noise, rather than less.

    A floor hides too, and an l2 gain is a bound.
    """
    exact = all(moves.events == 1 for moves in secret.signals)
    exact &= response is None or secret.energies is not None
    return exact and request.floor is None and request.family == "gaussian"


def long_noise(problem: DesignProblem) -> SizedNoise | None:
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
    secret, price, design = found
    horizon = problem.horizon
    allowed = request.allowed_shift
    part = replace(design.part, starts_stationary=False)
    impulse = price.after(part.system).impulse_response(horizon)
    remaining = np.arange(horizon, 0, -1)
    cost = float(remaining @ np.sum(impulse**2, axis=(1, 2)))
    enough = cost / (1 + request.gap) * allowed**2
    bound = _bound_of_run(secret, price, design.multipliers, horizon, enough)
    bound = bound / allowed**2
    if not cost <= bound * (1 + request.gap):
        return None
    design = replace(design, cost=cost, lower_bound=min(bound, cost))
    loss = PrivacyLoss.gaussian(design.shift, (), False)
    return SizedNoise((part,), loss, cost, filtered=design)


def root_from_rest(problem: DesignProblem) -> NDArray | None:
    """A root (T p, T r) of noise without a horizon from rest, None if there is none."""
    found = _of_any_length(problem)
    if found is None:
        return None
    _, _, design = found
    return causal_map(design.output.impulse_response(problem.horizon))


def _of_any_length(
    problem: DesignProblem,
) -> tuple[SecretInputs, LinearSystem, StationaryDesign] | None:
    """The secret, the price and the design without a horizon, if there is one."""
    request = problem.request
    try:
        price = price_of(problem.weight, len(problem.plant.C))
        secret = endless_secret(request.adjacency, problem.plant)
        design = stationary_design(
            secret, request.allowed_shift, price, gap=request.gap / 4
        )
    except (ValueError, PrivacyError, UncertifiableError):
        return None
    return secret, price, design


def _is_long_and_plain(request: Request, weight: Weight) -> bool:
    """Whether a long run is asked for, with disturbances of at most some forty shapes."""
    if request.horizon < _LONG or request.has_models or request.floor is not None:
        return False
    if request.resolution is not None or request.factor is not None:
        return False
    if isinstance(weight, (np.ndarray, list, tuple)) and len(weight) > _LONG:
        return False  # a weight of all samples
    for part in request.adjacency.parts:
        if not as_secret(part).is_plain_change:
            return False
    return request.family == "gaussian"


def _bound_of_run(
    secret: SecretInputs,
    price: LinearSystem,
    multipliers: NDArray,
    horizon: int,
    enough: float,
) -> float:
    """No Gaussian noise of a finite run, for a shift of one, costs less than this.

    For probability weights of the moves it is the squared nuclear norm of their weighted
    responses. The stationary weights do in long runs. Otherwise a search for better ones
    ends at a bound of ``enough``.
    """
    least = 0.0
    if horizon * len(multipliers) > _MOST_MOVES:
        least = _LEAST_SHARE
    chosen = multipliers >= least * multipliers.max()
    shares = np.maximum(multipliers[chosen], _LIGHTEST * multipliers.max())
    shares /= shares.sum()
    changes = secret.changes(horizon)[:, :, chosen]
    priced = price.after(secret.system)
    bound = nuclear_norm_below(response_from_rest(priced, changes * np.sqrt(shares)))
    dimensions = horizon * min(secret.inputs, len(price.C))
    if bound >= enough or dimensions > _MOST_DIMENSIONS:
        return bound
    (responses,) = scipy.linalg.qr(
        causal_map(priced.impulse_response(horizon)), mode="r"
    )
    points = responses[: responses.shape[1]] @ causal_map(changes)
    weights = np.tile(shares / horizon, horizon)
    found = rough_shape(
        points, 0.0, weights=weights, enough=enough, updates=_OF_A_BOUND
    )
    return found.lower_bound


def nuclear_norm_below(impulse: NDArray) -> float:
    """A bound of the squared nuclear norm of a causal map with weights of times.

    ``impulse`` (T, k, q) is the response to an impulse. The inner product with a matrix of
    norm one is below the nuclear norm. This one is a part of the circulant matrix whose
    blocks at each frequency are the polar factors of the map's. Its product with the
    responses to impulses at each time is h(t), and weights h(t)^2 with sum one give
    sum h(t)^2.
    """
    samples = len(impulse)
    count = scipy.fft.next_fast_len(2 * samples, real=True)
    left, _, right = np.linalg.svd(
        np.fft.rfft(impulse, count, axis=0), full_matrices=False
    )
    phases = np.fft.irfft(left @ right, count, axis=0)[:samples]
    products = np.cumsum(np.sum(phases * impulse, axis=(1, 2)))
    products = np.maximum(products, 0.0)
    return float(products @ products) * (1 - 1e-9)
