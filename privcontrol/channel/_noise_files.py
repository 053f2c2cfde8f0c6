"""Read output noise from a design file, and certify it anew."""

import json
import math
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..core._files import is_at_most
from ..core._linalg import round_up
from ..core.adjacency import Adjacency, BallAdjacency, ManifoldAdjacency
from ..core.budget import PrivacyBudget
from ..core.design import NoiseDesign
from ..core.errors import PrivacyError
from ..core.guarantee import PrivacyGuarantee
from ..core.loss import GaussianLoss
from ..core.mechanism import Mechanism
from ..core.noise import family_of
from ..trajectory.adjacency import InitialStateAdjacency, StateAdjacency
from ..trajectory.disturbance import DisturbanceAdjacency, JointAdjacency, query_of
from ..trajectory.plant import Plant
from ._lti import LinearSystem
from ._secret import EndlessSecret
from ._shift import certified_shift
from .boxes import PlantBox
from .design import NoiseRequest
from .endless_noise import EndlessNoise, Filtered
from .jacobian import JacobianPolytope, Region
from .output_noise import OutputNoise
from .parts import Correlated, Driven, Structured, White
from .polytope import PlantPolytope
from .stationary import StationaryDesign
from .varying import secrets_of

_KINDS = {
    kind.__name__.lower(): kind
    for kind in (
        Correlated,
        Driven,
        Filtered,
        JacobianPolytope,
        LinearSystem,
        NoiseRequest,
        Plant,
        PlantBox,
        PlantPolytope,
        PrivacyBudget,
        Region,
        Structured,
        White,
    )
}
_ADJACENCIES = {
    kind.__name__: kind
    for kind in (
        BallAdjacency,
        DisturbanceAdjacency,
        InitialStateAdjacency,
        ManifoldAdjacency,
        StateAdjacency,
    )
}
_NORMS = {"1": 1, "2": 2, "inf": np.inf, "1.0": 1, "2.0": 2}


# -- from plain data -----------------------------------------------------------------


def noise_from_dict(data: dict) -> OutputNoise:
    """The noise that `noise_to_dict` wrote, with its claim as it stands."""
    plant = from_data(data["plant"])
    kind = EndlessNoise if data["horizon"] == math.inf else OutputNoise
    design: Any = None  # only `certified_noise` evaluates it
    return kind(
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
        return _adjacency_from_dict(value)
    options = {name: from_data(part) for name, part in value.items()}
    kind = _KINDS[options.pop("kind")]
    fingerprint = options.pop("fingerprint", None)
    if kind in (Structured, Driven):
        options["plant"] = plant
    found = kind(**options)
    if isinstance(found, Plant) and found.fingerprint != fingerprint:
        raise ValueError("path: a plant of the file does not match its fingerprint")
    return found


def _adjacency_from_dict(data: dict) -> Adjacency:
    options = dict(data)
    kind = options.pop("type")
    if kind == "JointAdjacency":
        return JointAdjacency([_adjacency_from_dict(part) for part in data["parts"]])
    if kind not in _ADJACENCIES:
        raise TypeError(f"adjacency: {kind} cannot be saved yet")
    if options.get("norm") in _NORMS:
        options["norm"] = _NORMS[options["norm"]]
    return _ADJACENCIES[kind](**options)


# -- certified anew ------------------------------------------------------------------


def certified_noise(data: dict) -> OutputNoise:
    """The noise of a file, if what it claims holds when it is evaluated anew.

    Raises
    ------
    PrivacyError
        If the claim does not hold, or cannot be evaluated.
    """
    noise = noise_from_dict(data)
    request: Any = noise.request
    if request is None:
        raise PrivacyError(
            "path: the file does not say what its noise hides, so that its claim cannot "
            "be certified; design the noise with design_output_noise"
        )
    if noise.horizon == math.inf or noise.part(Filtered):
        return _certified_endless(noise, request)
    query = query_of(noise.plant, noise.horizon, request.adjacency)
    _check(noise, request, _evaluated(noise, request, query))
    mechanism = Mechanism(query, family_of(noise.family)(_factor(noise)))
    cost = float(np.sum(mechanism.noise.std**2))
    design = NoiseDesign(mechanism, noise.guarantee, cost, math.nan)
    return replace(noise, design=design)


def _certified_endless(noise: OutputNoise, request: Any) -> OutputNoise:
    """Noise without a horizon, whose shift is certified for its realisation."""
    if request.has_models:
        (secret,) = secrets_of(request.adjacency, [noise.plant])
    else:
        secret = EndlessSecret.of(request.adjacency, noise.plant)
    (filtered,) = [part for part in noise.parts if isinstance(part, Filtered)]
    if not noise.consists_of(Filtered, White) or len(noise.parts) > 2:
        raise PrivacyError("path: noise without a horizon of other parts")
    enters_with_secret = filtered.response in (None, secret.system)
    if not request.has_models and not enters_with_secret:
        raise PrivacyError("path: the noise enters another plant than the secret")
    evaluated = noise.guarantee
    if request.has_models or request.resolution is not None:
        evaluated = _under_models(noise, request)
        shift = evaluated.loss.parts[0].gdp  # beside what the region may miss
    else:
        shift = _endless_shift(filtered, secret)
    if not request.has_models:
        evaluated = replace(evaluated, loss=GaussianLoss(shift))
    _check(noise, request, evaluated)
    if noise.horizon < math.inf:  # the cost of the whole run
        cost = float(filtered.variances(noise.horizon).sum())
    else:
        energy = filtered.system.energies().sum()
        cost = float(energy + (noise.white**2).sum())
    design: Any = StationaryDesign(
        filtered.shaping, filtered.response, secret.scaled_system, shift, cost, math.nan
    )
    return replace(noise, design=design)


def _endless_shift(filtered: Filtered, secret: EndlessSecret) -> float:
    """The shift of noise that enters with the secret, or of output noise."""
    shaping = filtered.shaping
    hidden = secret.system
    if filtered.response is not None:
        if secret.energies is not None:
            return _shift_of_energies(shaping, secret.energies)
        hidden = LinearSystem.gain(np.eye(secret.inputs))
    return certified_shift(shaping, hidden, secret.signals, secret.balls)


def _shift_of_energies(shaping: LinearSystem, radii: NDArray) -> float:
    """The shift for signals of bounded energy, infinite unless the noise is white."""
    sizes = np.diag(shaping.D)
    is_white = shaping == LinearSystem.gain(np.diag(sizes))
    if not is_white or not (sizes > 0).all():
        return math.inf
    return float(round_up((radii / sizes).max()))


def _under_models(noise: OutputNoise, request: Any) -> PrivacyGuarantee:
    """The guarantee of noise for the models of its request, evaluated anew."""
    if request.region is not None:
        return noise.guarantee_for(request.region)
    return noise.guarantee_for(list(request.plants(noise.plant)))


def _check(noise: OutputNoise, request: Any, evaluated: PrivacyGuarantee) -> None:
    """Refuse noise that does not keep what it claims and what was asked for."""
    promise = noise.guarantee.repeated(request.releases)
    honest = _names_its_secret(noise, request)
    honest = honest and promise.satisfies(request.budget)
    if not honest or not _is_weaker(noise.guarantee, evaluated):
        raise PrivacyError(
            "path: the noise of the file does not keep what the file claims; it was "
            "altered, and must not be used"
        )


def _names_its_secret(noise: OutputNoise, request: Any) -> bool:
    """Whether the guarantee's text is about what the request asked for."""
    scope = noise.guarantee.scope
    described = json.dumps(request.adjacency.to_dict(), sort_keys=True)
    models = set(request.fingerprints(noise.plant))
    return (
        scope.adjacency == described
        and scope.statement == request.adjacency.statement
        and scope.horizon == noise.horizon == request.horizon
        and set(scope.models) <= models
    )


def _is_weaker(claimed: PrivacyGuarantee, evaluated: PrivacyGuarantee) -> bool:
    """Whether all that is claimed follows from what was evaluated."""
    mine: Any = claimed.loss
    theirs: Any = evaluated.loss
    if mine.family != theirs.family:
        return False
    pairs = []
    for epsilon in (0.1, 1.0, 5.0):
        # where delta has fallen to zero, rounding can only be allowed for in epsilon
        beyond = epsilon * (1 + 1e-9)
        pairs.append((claimed.delta(epsilon), evaluated.delta(beyond)))
    for name in ("gdp", "zcdp"):
        if getattr(claimed, name) < math.inf:
            pairs.append((getattr(claimed, name), getattr(evaluated, name)))
    if claimed.epsilon(0.0) < math.inf:
        pairs.append((claimed.epsilon(0.0), evaluated.epsilon(0.0)))
    return all(is_at_most(*pair) for pair in pairs)


def _evaluated(noise: OutputNoise, request: Any, query: Any) -> PrivacyGuarantee:
    """The guarantee of the noise, by a route that does not trust the file."""
    plants = request.plants(noise.plant)
    if request.region is not None:
        return _under_models(noise, request)
    if noise.family == "gaussian" or noise.part(Structured) or len(plants) > 1:
        return noise.guarantee_for(list(plants))
    if getattr(request, "resolution", None) is not None:
        raise PrivacyError(
            "path: independent Laplace noise for readings on a grid cannot be certified "
            "from a file; design it again"
        )
    mechanism = Mechanism(query, family_of(noise.family)(_factor(noise)))
    return mechanism.guarantee(request.adjacency)


def _factor(noise: OutputNoise) -> NDArray:
    """Lambda (T p, R) of all samples together, (T p,) for independent noise."""
    white = np.tile(noise.white, noise.horizon)
    factor = noise.responses.reshape(len(white), -1)
    if factor.size == 0:
        return white
    if white.any():
        return np.hstack([factor, np.diag(white)])
    return factor
