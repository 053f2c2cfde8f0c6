"""Read output noise from a design file, and certify it again."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..core.adjacency import (
    Adjacency,
)
from ..core.budget import PrivacyBudget
from ..core.design import NoiseDesign
from ..core.errors import PrivacyError
from ..core.guarantee import PrivacyGuarantee
from ..core.loss import GAUSSIAN, LAPLACE, PrivacyLoss, by_kind
from ..core.mechanism import Mechanism
from ..core.noise import family_of
from ..noise._secret import endless_secret, secrets_of
from ..noise.parts import Driven, Filtered, NoisePart, Structured, White
from ..noise.shift import certified_shift
from ..regions.jacobian import Region
from ..regions.region import PlantRegion
from ..secrets.disturbance import query_of
from ..systems.linear import LinearSystem, impulse_energies
from ..systems.plant import Plant
from ..systems.powers import tell_apart
from .certify import own_loss
from .endless_design import is_attained
from .output_noise import OutputNoise
from .problem import promised
from .request import Request
from .stationary import StationaryDesign

#: Rounding between two evaluations of a shift, and that of moves which share the largest.
_ROUNDING = 2e-9
_NEARLY = 1e-6
#: Shifts of Laplace noise that are compared one by one.
_MOST_SHIFTS = 10**7
_ALTERED = (
    "path: the noise of the file does not keep what the file claims; it was altered, and "
    "must not be used"
)


# -- from plain data -----------------------------------------------------------------


def noise_from_dict(data: dict) -> OutputNoise:
    """The noise that `noise_to_dict` wrote, with its claim as it stands."""
    plant = from_data(data["plant"])
    design: Any = None  # only `certified_noise` evaluates it
    return OutputNoise(
        plant,
        data["horizon"],
        data["family"],
        from_data(data["parts"], plant),
        PrivacyGuarantee.from_dict(data["guarantee"]),
        design,
        from_data(data["request"]),
    )


def from_data(value: Any, plant: Plant | None = None) -> Any:
    """What `to_data` described, with the plant of parts that are of one."""
    if isinstance(value, np.ndarray):
        value.flags.writeable = False
        return value
    if isinstance(value, list):
        return tuple(from_data(part, plant) for part in value)
    if not isinstance(value, dict):
        return value
    if "type" in value:
        return Adjacency.from_data(value)
    options = {name: from_data(part) for name, part in value.items()}
    kind = _kind_of(options.pop("kind"))
    fingerprint = options.pop("fingerprint", None)
    if kind is Structured:
        options["plant"] = plant
    found = kind(**options)
    if isinstance(found, Plant) and found.fingerprint != fingerprint:
        raise ValueError("path: a plant of the file does not match its fingerprint")
    return found


def _kind_of(name: str) -> type:
    """The class of a name in lower case: a part, a region, or what a request consists of."""
    known: list[type] = [LinearSystem, Request, Plant, PrivacyBudget, Region]
    waiting: list[type] = [NoisePart, PlantRegion]
    while waiting:
        found: list[type] = waiting.pop().__subclasses__()
        known += found
        waiting += found
    return {kind.__name__.lower(): kind for kind in known}[name]


# -- certified again ------------------------------------------------------------------


def certified_noise(data: dict) -> OutputNoise:
    """The noise of a file, if what it claims holds when it is evaluated again.

    What the guarantee is about follows from the request, and its loss is evaluated for the
    parts. What the file says of both is only compared with that.

    Raises
    ------
    PrivacyError
        If the claim does not hold, or cannot be evaluated.
    """
    noise = noise_from_dict(data)
    request: Request = noise.request
    if request is None:
        raise PrivacyError(
            "path: the file does not say what its noise hides, so its claim cannot "
            "be certified; design the noise with design_output_noise"
        )
    if request.horizon != noise.horizon:
        raise PrivacyError(_ALTERED)
    claimed = noise.guarantee
    known = promised(noise.plant_data, request, noise.parts, claimed.loss)
    noise = replace(noise, guarantee=known, promised=None)
    if noise.horizon == math.inf or noise.total.part(Filtered):
        loss, design = _certified_endless(noise, request)
    else:
        loss, design = _certified_run(noise, request)
    evaluated = promised(noise.plant_data, request, noise.parts, loss)
    _check(noise, claimed, evaluated)
    guarantee = replace(evaluated, loss=claimed.loss, quoted_delta=claimed.quoted_delta)
    if isinstance(design, NoiseDesign):
        design = replace(design, guarantee=guarantee)
    return replace(noise, guarantee=guarantee, design=design, promised=None)


def _certified_run(noise: OutputNoise, request: Request) -> tuple[PrivacyLoss, Any]:
    """The loss of noise over a horizon, and its design without a lower bound."""
    query = query_of(noise.plant_data, noise.horizon, request.adjacency)
    mechanism = Mechanism(query, family_of(noise.family)(_factor(noise)))
    cost = float(np.sum(mechanism.noise.std**2))
    design = NoiseDesign(mechanism, noise.guarantee, cost, math.nan)
    return own_loss(noise), design


def _certified_endless(noise: OutputNoise, request: Request) -> tuple[PrivacyLoss, Any]:
    """The loss of noise without a horizon, whose shift is that of its realisation."""
    if request.has_models:
        (secret,) = secrets_of(request.adjacency, [noise.plant_data])
    else:
        secret = endless_secret(request.adjacency, noise.plant_data)
    (filtered,) = [part for part in noise.parts if isinstance(part, Filtered)]
    if not noise.total.consists_of(Filtered, White) or len(noise.parts) > 2:
        raise PrivacyError("path: noise without a horizon of other parts")
    enters_with_secret = filtered.response in (None, secret.system)
    if not request.has_models and not enters_with_secret:
        raise PrivacyError("path: the noise enters another plant than the secret")
    if request.has_models or request.resolution is not None:
        loss = own_loss(noise)
    else:
        plants = [noise.plant_data]
        found = certified_shift(noise.parts, request.adjacency, plants, math.inf)
        exact = noise.horizon == math.inf
        exact &= is_attained(secret, filtered.response, request)
        loss = PrivacyLoss.gaussian(found.value, (), exact)
    if noise.horizon < math.inf:  # the cost of the whole run
        cost = float(filtered.variances(noise.horizon).sum())
    else:
        energy = impulse_energies(filtered.system).sum()
        cost = float(energy + (noise.total.white**2).sum())
    design = StationaryDesign(
        filtered.shaping,
        filtered.response,
        secret.scaled_system,
        loss.gdp,
        cost,
        math.nan,
    )
    return loss, design


def _check(
    noise: OutputNoise, claimed: PrivacyGuarantee, evaluated: PrivacyGuarantee
) -> None:
    """Refuse noise that does not keep what it claims and what was asked for."""
    request: Request = noise.request
    same_words = claimed.scope.to_dict() == evaluated.scope.to_dict()
    honest = same_words and claimed.releases == evaluated.releases
    honest = honest and claimed.repeated(request.releases).satisfies(request.budget)
    mine = by_kind(claimed.loss)
    theirs = by_kind(evaluated.loss)
    honest = honest and len(mine) == len(theirs)
    if not honest or not all(map(partial(_follows, noise), mine, theirs)):
        raise PrivacyError(_ALTERED)


def _follows(noise: OutputNoise, claimed: PrivacyLoss, evaluated: PrivacyLoss) -> bool:
    """Whether one loss that is claimed follows from what was evaluated."""
    if claimed.kinds == evaluated.kinds == (GAUSSIAN,):
        return _gaussian_follows(noise, claimed, evaluated)
    if claimed.kinds == evaluated.kinds == (LAPLACE,):
        return _laplace_follows(noise, claimed, evaluated)
    return bool(claimed == evaluated)


def _gaussian_follows(
    noise: OutputNoise, claimed: PrivacyLoss, evaluated: PrivacyLoss
) -> bool:
    shift = evaluated.gdp
    least = Fraction(shift) ** 2 * (1 - _ROUNDING)
    square = claimed.rows[0].square
    if len(claimed.rows) > 1:
        return False
    if square < least or claimed.proportional != evaluated.proportional:
        return False
    (active,) = claimed.moves
    if not claimed.attained:
        return not active
    attained = evaluated.attained or noise.total.consists_of(Driven)
    if not attained or square > Fraction(shift) ** 2 * (1 + _ROUNDING):
        return False
    return not active or _all_attain(noise, active)


def _all_attain(noise: OutputNoise, active: tuple) -> bool:
    """Whether all these moves attain the largest shift under the nominal plant."""
    request: Request = noise.request
    if request.has_models or noise.horizon == math.inf:
        return False
    plants = [noise.plant_data]
    found = certified_shift(noise.parts, request.adjacency, plants, noise.horizon)
    attaining = np.flatnonzero(found.squares >= found.squares.max() * (1 - _NEARLY))
    return set(active) <= set(attaining.tolist())


def _laplace_follows(
    noise: OutputNoise, claimed: PrivacyLoss, evaluated: PrivacyLoss
) -> bool:
    """Whether each row of a claim has at least the shifts of the same evaluated row."""
    count = len(claimed.rows)
    if count != len(evaluated.rows) or claimed.aligned != evaluated.aligned:
        return False
    if not all(move in range(count) for moves in claimed.moves for move in moves):
        return False
    if sum(many for row in claimed.rows for _, many in row.shifts) > _MOST_SHIFTS:
        return False
    mine = [_shifts(row.shifts) for row in claimed.rows]
    theirs = [_shifts(row.shifts) for row in evaluated.rows]
    if not all(map(_is_below, theirs, mine)):
        return False
    if not claimed.attained or evaluated.attained:
        return True
    structured = noise.total.part(Structured)
    if structured is None or not all(map(_is_below, mine, theirs)):
        return False
    noisy = np.flatnonzero(structured.factor.any(axis=1))
    return tell_apart(noise.plant_data, noisy, noise.horizon)


def _shifts(row: tuple) -> NDArray:
    """The shifts of a row, largest first."""
    sizes, counts = np.array(row, float).reshape(-1, 2).T
    return np.sort(np.repeat(sizes, counts.astype(int)))[::-1]


def _is_below(shifts: NDArray, others: NDArray) -> bool:
    """Whether sorted shifts are at most others, one by one, up to rounding."""
    count = max(len(shifts), len(others))
    first = np.pad(shifts, (0, count - len(shifts)))
    second = np.pad(others, (0, count - len(others)))
    return bool((first <= second + _ROUNDING * second.max(initial=0.0)).all())


def _factor(noise: OutputNoise) -> NDArray:
    """Lambda (T p, R) of all samples together, (T p,) for independent noise."""
    white = np.tile(noise.total.white, noise.horizon)
    factor = noise.responses.reshape(len(white), -1)
    if factor.size == 0:
        return white
    if white.any():
        return np.hstack([factor, np.diag(white)])
    return factor
