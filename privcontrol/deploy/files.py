"""Design files: from a path to the noise or the loop that it describes, certified again.

What a file says of its guarantee is only compared with what its noise gives.
"""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ..core._objects import encode, read
from ..core.design import NoiseDesign
from ..core.errors import PrivacyError, UncertifiableError
from ..core.guarantee import PrivacyGuarantee
from ..core.loss import BLACK_BOX, LAPLACE, PrivacyLoss, Product, by_kind
from ..core.mechanism import Mechanism
from ..core.noise import family_of
from ..designs.endless_design import is_attained
from ..designs.output_noise import OutputNoise, own_loss
from ..designs.problem import StationaryDesign, promised
from ..designs.request import Request
from ..loop.loop import PrivateLoop
from ..noise._endless import endless_secret, secrets_of
from ..noise.parts import Driven, Filtered, Structured, White
from ..noise.shift import certified_shift
from ..secrets.disturbance import query_of
from ..secrets.secret import SecretInputs
from ..systems.linear import impulse_energies
from ..systems.powers import tell_apart

#: What a file may lead to that holds other things than were written.
_UNREADABLE = (
    ArithmeticError,
    AttributeError,
    LookupError,
    MemoryError,
    RecursionError,
    TypeError,
    ValueError,
)
#: Characters of an error's text that are shown.
_LONGEST = 200
#: Rounding between two evaluations of a shift, and that of moves which share the largest.
_ROUNDING = Fraction(2, 10**9)
_NEARLY = 1e-6
_ALTERED = (
    "path: the noise of the file does not keep what the file claims; it was altered, and "
    "must not be used"
)


def load(path: str | Path) -> OutputNoise | PrivateLoop:
    """Load what ``noise.save(path)`` or ``loop.save(path)`` wrote, certified again.

    The guarantee is evaluated for the noise in the file, by a route that does not trust
    the file. A file that was altered, or whose claim does not hold, is refused.

    Parameters
    ----------
    path : str or Path

    Returns
    -------
    OutputNoise or PrivateLoop

    Raises
    ------
    PrivacyError
        If the claim does not hold.
    ValueError
        If it is no design file, of another schema, or does not match its digest.
    OSError
        If it cannot be read.

    Examples
    --------
    >>> import privcontrol as pc, tempfile, pathlib
    >>> noise = pc.design_output_noise(
    ...     pc.plants.vehicle(),
    ...     horizon=10,
    ...     adjacency=pc.StateAdjacency({"position": 1.0}),
    ...     budget=pc.PrivacyBudget(epsilon=1.0, delta=1e-2),
    ... )
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder) / "noise.json"
    ...     noise.save(path)
    ...     pc.load(path) == noise
    True
    """
    try:
        design = read(path)
        if isinstance(design, OutputNoise):
            return _certified(design)
        if isinstance(design, PrivateLoop):
            noise = None if design.noise is None else _certified(design.noise)
            return replace(design, noise=noise)
    except (PrivacyError, UncertifiableError, OSError):
        raise
    except _UNREADABLE as error:
        if str(error).startswith("path:"):
            raise
        reason = str(error) or type(error).__name__
        raise ValueError(
            f"path: the design file at {path!s} lacks something or holds what this "
            f"version cannot read ({type(error).__name__}: {reason[:_LONGEST]}); save "
            "the design again"
        ) from error
    raise ValueError(
        f"path: expected the file of a noise or a loop, got {type(design).__name__}"
    )


def _certified(noise: OutputNoise) -> OutputNoise:
    """Return the noise of a file, if what it claims holds when it is evaluated again.

    What the guarantee is about follows from the request, and its loss is evaluated for
    the parts.

    Raises
    ------
    PrivacyError
        If the claim does not hold, or cannot be evaluated.
    """
    request: Request = noise.request
    if request is None:
        raise PrivacyError(
            "path: the file does not say what its noise hides, so its claim cannot "
            "be certified; design the noise with design_output_noise"
        )
    if request.horizon != noise.horizon:
        raise PrivacyError(_ALTERED)
    claimed = noise.guarantee
    stated = promised(noise.plant_data, request, noise.parts, claimed.loss)
    noise = replace(noise, guarantee=stated, promised=None)
    lasts = noise.horizon == math.inf or noise.total.part(Filtered) is not None
    certify = _certified_endless if lasts else _certified_run
    loss, design = certify(noise, request)
    evaluated = promised(noise.plant_data, request, noise.parts, loss)
    if not _keeps(noise, claimed, evaluated):
        raise PrivacyError(_ALTERED)
    guarantee = replace(evaluated, loss=claimed.loss, quoted_delta=claimed.quoted_delta)
    if isinstance(design, NoiseDesign):
        design = replace(design, guarantee=guarantee)
    return replace(noise, guarantee=guarantee, design=design, promised=None)


def _certified_run(
    noise: OutputNoise, request: Request
) -> tuple[PrivacyLoss, NoiseDesign]:
    """Return the loss of noise over a horizon, and its design without a lower bound."""
    query = query_of(noise.plant_data, noise.horizon, request.adjacency)
    mechanism = Mechanism(query, family_of(noise.family)(_factor(noise)))
    cost = float(np.sum(mechanism.noise.std**2))
    return own_loss(noise), NoiseDesign(mechanism, noise.guarantee, cost, math.nan)


def _factor(noise: OutputNoise) -> NDArray:
    """Return Lambda (T p, R) of all samples, (T p,) for independent noise."""
    white = np.tile(noise.total.white, noise.horizon)
    factor = noise.responses.reshape(len(white), -1)
    if factor.size == 0:
        return white
    if white.any():
        return np.hstack([factor, np.diag(white)])
    return factor


def _certified_endless(
    noise: OutputNoise, request: Request
) -> tuple[PrivacyLoss, StationaryDesign]:
    """Return the loss of noise that has no end, and its design."""
    secret = _endless_secret_of(noise, request)
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
    shaped = (filtered.shaping, filtered.response, secret.scaled_system)
    return loss, StationaryDesign(*shaped, loss.gdp, cost, math.nan)


def _endless_secret_of(noise: OutputNoise, request: Request) -> SecretInputs:
    if not request.has_models:
        return endless_secret(request.adjacency, noise.plant_data)
    (secret,) = secrets_of(request.adjacency, [noise.plant_data])
    return secret


# -- what is claimed -----------------------------------------------------------------


def _keeps(
    noise: OutputNoise, claimed: PrivacyGuarantee, evaluated: PrivacyGuarantee
) -> bool:
    """Return whether noise keeps what is claimed and what was asked for."""
    request: Request = noise.request
    alike = encode(claimed.scope) == encode(evaluated.scope)
    alike &= claimed.releases == evaluated.releases
    losses = by_kind(claimed.loss), by_kind(evaluated.loss)
    if not alike or len(losses[0]) != len(losses[1]):
        return False
    if not claimed.released(request.releases).satisfies(request.budget):
        return False
    return all(_follows(noise, mine, its) for mine, its in zip(*losses))


def _follows(noise: OutputNoise, claimed: PrivacyLoss, evaluated: PrivacyLoss) -> bool:
    """Return whether a loss that is claimed follows from what was evaluated.

    It may be no less, row by row. What is said to be attained is also no more.
    """
    if claimed == evaluated:
        return True
    for name in ("kinds", "aligned", "proportional"):
        if getattr(claimed, name) != getattr(evaluated, name):
            return False
    if claimed.kinds == (BLACK_BOX,) or len(claimed.rows) != len(evaluated.rows):
        return False
    if not all(map(_covers, claimed.rows, evaluated.rows)):
        return False
    if not claimed.attained:  # only a row for the worst of many moves names it
        is_worst = claimed.kinds == (LAPLACE,) and len(claimed.rows) == 1
        return is_worst or not any(claimed.moves)
    if not evaluated.attained and not _attains(noise):
        return False
    if not all(map(_covers, evaluated.rows, claimed.rows)):
        return False
    return claimed.moves == evaluated.moves or _all_attain(noise, claimed)


def _covers(row: Product, other: Product) -> bool:
    """Return whether a row costs at least as much as another one, up to rounding.

    The k-th largest shift is compared with the k-th largest one.
    """
    if row.square < other.square * (1 - _ROUNDING):
        return False
    sizes, counts = _table(row)
    its, many = _table(other)
    places = np.searchsorted(counts.cumsum(), many.cumsum())
    levels = np.append(sizes, 0.0)
    allowed = float(_ROUNDING) * levels.max()
    return bool((its <= levels[places] + allowed).all())


def _table(row: Product) -> NDArray:
    """Return the shifts of a row and their counts (2, k), largest first."""
    return np.array(sorted(row.shifts, reverse=True), float).reshape(-1, 2).T


def _attains(noise: OutputNoise) -> bool:
    """Return whether these parts attain a shift that is evaluated as a bound."""
    structured = noise.total.part(Structured)
    if structured is None:
        return noise.total.consists_of(Driven)
    noisy = np.flatnonzero(structured.factor.any(axis=1))
    return noise.family == "laplace" and tell_apart(
        noise.plant_data, noisy, noise.horizon
    )


def _all_attain(noise: OutputNoise, claimed: PrivacyLoss) -> bool:
    """Return whether the moves that a loss names attain it under the nominal plant."""
    if claimed.kinds == (LAPLACE,):  # a row for every move
        return claimed.moves == tuple((move,) for move in range(len(claimed.rows)))
    request: Request = noise.request
    if request.has_models or noise.horizon == math.inf:
        return False
    plants = [noise.plant_data]
    found = certified_shift(noise.parts, request.adjacency, plants, noise.horizon)
    attaining = np.flatnonzero(found.squares >= found.squares.max() * (1 - _NEARLY))
    return set(claimed.moves[0]) <= set(attaining.tolist())
