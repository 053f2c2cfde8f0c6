"""State the promise of output noise, in addition to the certified loss.

`promised` says what a guarantee is about: the secret, the plants that it takes for
granted, and what it leaves open. All of it follows from the request and from the parts of
the noise.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from ..core.noise_design import quoted
from ..noise.fleet import SeparateUnits
from ..noise.parts import Correlated, Driven, Filtered, NoisePart, Structured, White
from ..noise.repetition import changes_of_region, further_changes
from ..numerics.balls import RationalMatrix, rational_matrix
from ..numerics.linalg import nonzero
from ..numerics.thresholds import ROUNDED
from ..privacy import sentences
from ..privacy.guarantee import PrivacyGuarantee, Scope
from ..privacy.loss import PrivacyLoss
from ..secrets.trajectory import PUBLIC_LOOP
from ..systems.linear import Plant, frequency_response, reached_states
from ..systems.powers import told_directions
from ..systems.transitions import reached_of_run
from ..systems.varying import VaryingPlant, period_of
from .guarantees import matrices_of, model_clause, with_miss
from .request import Request

NOT_FREE = "disturbances that enter during the run"
_OUTSIDE = "components outside the span of the noise"

#: Condition of noise whose thinnest direction is there for rounding's sake.
_THIN = 1e5
#: Frequencies at which the rank of filtered noise is looked at.
_FREQUENCIES = np.array([0.1, 0.7, 2.3])


def promised(
    plant: Plant,
    request: Request,
    parts: Sequence[NoisePart],
    loss: PrivacyLoss,
) -> PrivacyGuarantee:
    """Return the guarantee of noise of some parts for a request.

    It is quoted at the budget's delta. All of it but the loss follows from the request and
    the parts. That the region of the request may miss the plant is counted here, and not
    in the loss.
    """
    scope = Scope.of(
        request.adjacency,
        request.secret.data(plant, request.horizon),
        assumptions=(
            *_of_plant(request, parts),
            *_of_periods(plant, request),
            request.horizon.drawn,
            PUBLIC_LOOP,
            *request.clauses,
        ),
        caveats=_caveats(plant, request, parts),
        further=(*_of_bare_samples(request, parts), *_of_other_plants(request, parts)),
        models=request.fingerprints(plant),
    )
    count = _period(plant, request)
    if scope.change is not None and count > 1:
        scope = replace(scope, change=replace(scope.change, period=count))
    designed_for = request.budget_left
    changes = None
    is_gaussian = request.family.endswith("gaussian")
    if is_gaussian:
        grid = request.grid_shift(parts)
        claimed = (loss.shift - grid) * (1 - 1e-12)  # below the roundings of the sum
        find, plants = further_changes, request.plants(plant)
        if request.region is not None:
            find, plants = changes_of_region, request.region.plants(request.adjacency)
        changes = find(parts, request.secret, plants, request.horizon, claimed)
    guarantee = PrivacyGuarantee(loss, scope, correlations=changes)
    guarantee = quoted(guarantee, designed_for)
    return with_miss(guarantee, request.miss)


def _of_plant(request: Request, parts: Sequence[NoisePart]) -> tuple[str, ...]:
    """Return the assumptions on the plant."""
    if request.region is not None:
        return tuple(request.region.clauses)
    matrices = matrices_of(request.secret, request.horizon)
    count = len(request.models)
    if not count:
        return (f"{matrices} exact",)
    if not request.horizon.ends:
        return (model_clause(count + 1, "", matrices),)
    return (model_clause(count, "the nominal plant or of ", matrices),)


def _period(plant: Plant, request: Request) -> int:
    """Return how many samples of a plant that varies count as one here."""
    return 1 if request.horizon.ends else period_of(plant.outputs)


def _of_periods(plant: Plant, request: Request) -> tuple[str, ...]:
    """Return what a sample is where a plant that varies is taken period by period."""
    count = _period(plant, request)
    if count == 1:
        return ()
    return (f"each sample counted here a period of {count} samples of the plant",)


def _caveats(
    plant: Plant, request: Request, parts: Sequence[NoisePart]
) -> tuple[str, ...]:
    """Return the caveats of such noise under the plant that it is designed for."""
    caveats = [] if request.secret.disturbances else [NOT_FREE]
    has_floor = any(isinstance(part, White) for part in parts)
    covers_several = request.region is not None or bool(request.models)
    if has_floor or (covers_several and request.drawn_afresh):
        return tuple(caveats)
    for part in parts:
        if isinstance(part, Structured):
            return uncovered(plant, request.horizon.count(), part.factor)
        if isinstance(part, SeparateUnits) and part.is_bare:
            caveats.append("outputs of units without a secret, which carry no noise")
        thinnest = _thinnest_of(part)
        if thinnest < ROUNDED:
            caveats.append(sentences.BARE)
        elif isinstance(part, Correlated) and thinnest < 1 / _THIN:
            caveats.append(f"{sentences.UNMOVED}, which carry hardly any noise")
    own = request.factor
    if own is not None and np.linalg.matrix_rank(own) < len(own):
        # a Lambda (T p, r) of the user's own
        caveats.append(
            "components outside the span of the noise, which the outputs reveal almost "
            "exactly"
        )
    return tuple(caveats)


def _of_bare_samples(request: Request, parts: Sequence[NoisePart]) -> tuple[str, ...]:
    """Return that dense noise leaves samples bare, such as those that no secret reaches."""
    (part, *others) = parts
    if others or not isinstance(part, Correlated | Driven):
        return ()
    samples = request.horizon.count()
    noisy = part.variances(samples) > 0
    bare = ~noisy[:, noisy.any(axis=0)].all(axis=1)
    count = int(np.count_nonzero(bare))
    if not count:
        return ()
    return (f"{count} of {samples} samples, in which an output carries no noise",)


def _thinnest_of(part: NoisePart) -> float:
    """Return how thin noise is in some combination of outputs, 0 where it misses one.

    Filtered and driven noise misses none where its frequency response has the rank of all
    outputs somewhere.
    """
    if isinstance(part, Correlated):
        return _thinnest(part.by_output)
    if isinstance(part, Filtered):
        if part.response is None:
            return 1.0
        if part.system.input_count < len(part.system.D):
            return 0.0
        system = part.system
    elif isinstance(part, Driven):
        system = part.response
    else:
        return 1.0
    frequencies = frequency_response(system, np.exp(1j * _FREQUENCIES))
    return max(_thinnest(rows) for rows in frequencies)


def _thinnest(rows: NDArray[np.inexact]) -> float:
    """Return the least singular value of rows, each in a unit of its own."""
    if rows.shape[1] < len(rows):
        return 0.0
    scales = nonzero(np.linalg.norm(rows, axis=1))
    gram = rows @ rows.conj().T / np.outer(scales, scales)
    square = np.linalg.eigvalsh(gram)[0]
    if square > _THIN**-2:  # less than that is lost in rounding
        return math.sqrt(square)
    return float(np.linalg.svd(rows / scales[:, None], compute_uv=False)[-1])


def _of_other_plants(request: Request, parts: Sequence[NoisePart]) -> tuple[str, ...]:
    """Return the caveats of such noise under plants that it is not designed for."""
    endless = not request.horizon.ends
    is_iid = request.family.startswith("iid-") and not endless
    has_floor = any(isinstance(part, White) for part in parts)
    of_region = request.region is not None and (has_floor or request.drawn_afresh)
    if is_iid or of_region or (endless and request.models):
        return ()
    if endless or request.secret.is_dense:
        return ("the disturbance if the plant differs from the model",)
    return ()


def uncovered(
    plant: Plant, horizon: int, factor: NDArray[np.float64]
) -> tuple[str, ...]:
    """Return the observable components that structured noise S (n, r) misses.

    States are named if the outputs reveal them exactly and no noise reaches them.
    """
    noisy = _reached(plant, horizon, np.any(factor, axis=1))
    seen = told_directions(plant, horizon)
    if seen is None:
        if factor.shape[1] < plant.order:
            return (f"{_OUTSIDE}, which the outputs may reveal exactly", NOT_FREE)
        return (NOT_FREE,)
    rank = seen.rank()
    told = []
    for k in np.flatnonzero(~noisy).tolist():
        axis = rational_matrix(np.eye(plant.order)[[k]])
        if RationalMatrix(seen.table() + axis.table()).rank() == rank:
            told.append(plant.states[k])
    bare = rank - (seen * rational_matrix(factor)).rank() - len(told)
    if _stands_still(plant, factor):  # one offset for the whole horizon
        told.append("all differences over time")
    sizes = np.linalg.norm(factor, axis=1)
    shape = factor[sizes > 0] / sizes[sizes > 0, None]
    caveats = [NOT_FREE]
    if bare > 0:
        caveats.insert(0, f"{_OUTSIDE}, which the outputs reveal exactly")
    elif shape.size and np.linalg.cond(shape) > _THIN:
        caveats.insert(
            0,
            "components outside the span of the protected moves, which the outputs reveal "
            "almost exactly",
        )
    if told:
        *first, last = told
        names = f"{', '.join(first)} and {last}" if first else last
        caveats.insert(0, f"{names}, which the outputs reveal exactly")
    return tuple(caveats)


def _reached(plant: Plant, horizon: int, noisy: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Return the mask (n,) of states that noise in some first states reaches."""
    if isinstance(plant, VaryingPlant):
        return reached_of_run(plant, noisy, horizon)
    return reached_states(plant.A != 0, noisy)


def _stands_still(plant: Plant, factor: NDArray[np.float64]) -> bool:
    """Return whether the noise is the same at all samples, exactly."""
    if isinstance(plant, VaryingPlant):
        steps, _, outputs, _ = plant.along
        stays = all(np.array_equal(A @ factor, factor) for A in steps)
        return stays and all(np.array_equal(C, outputs[0]) for C in outputs)
    return np.array_equal(plant.A @ factor, factor)
