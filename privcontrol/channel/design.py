"""From a plant, a horizon, a budget and an adjacency to the output noise that costs least."""

import math
from dataclasses import dataclass, replace

import control as ct
import numpy as np

from ..core._linalg import (
    EPS,
    one_of,
    positive_integer,
    positive_number,
    real_array,
    round_up,
)
from ..core.adjacency import Adjacency
from ..core.budget import PrivacyBudget, checked_budget
from ..core.design import NoiseDesign, allowed_shift, laplace_size, worst_data_moves
from ..core.errors import UncertifiableError
from ..core.mechanism import Mechanism
from ..core.moves import EllipsoidMoves, attaining
from ..core.noise import FAMILIES, family_of
from ..trajectory._exact_design import TangentNoise, structured_factor
from ..trajectory.adjacency import InitialStateAdjacency
from ..trajectory.disturbance import JointAdjacency
from ..trajectory.manifold import free_outputs, output_query
from ..trajectory.modes import warn_of_costly_modes
from ..trajectory.plant import Plant
from ..trajectory.powers import tell_apart
from ._common import (
    ASSUMPTIONS,
    assumptions,
    guarantee_of,
    published_exactly,
    quadratic_cost,
    white_cost,
)
from ._correlated import correlated_noise
from ._images import Images, disturbances, query_of
from .endless_design import endless_noise, long_noise
from .floor import floored_noise
from .output_noise import OutputNoise
from .parts import Structured, White

_FAMILIES = (*FAMILIES, *(f"iid-{name}" for name in FAMILIES))


@dataclass(frozen=True)
class NoiseRequest:
    """What a noise was designed for: all arguments of `design_output_noise` but the plant and the weight."""

    horizon: int
    budget: PrivacyBudget
    adjacency: Adjacency
    family: str = "gaussian"
    method: str = "analytic"
    releases: int = 1
    floor: np.ndarray | None = None
    models: tuple = ()
    order: int | None = None
    gap: float = 0.01

    def plants(self, nominal):
        """The nominal plant and all models: the dynamics under which every move must be hidden."""
        return (nominal, *self.models)

    def design(self, sys, *, weight=None, **changes):
        """Noise for the same request, up to the arguments given, without a warning about costly modes."""
        return _designed(Plant.of(sys), replace(self, **changes), weight)


def design_output_noise(
    sys,
    *,
    horizon,
    budget,
    adjacency,
    family="gaussian",
    weight=None,
    method="analytic",
    releases=1,
    floor=0.0,
    models=None,
    order=None,
    gap=0.01,
):
    """Output noise that makes the published outputs of a plant differentially private at the least cost.

    Structured noise is the plant's free response gamma(t) = C A^t S eta (DPAM Theorem 3), with S S^T the least
    costly covariance that hides every move of the adjacency: tr(W Gamma) is minimal among all Gaussian noises of
    the same guarantee, correlated over time or not, and the distance to that minimum is certified. The guarantee
    is checked in ball arithmetic for the factor S that is returned.

    Parameters
    ----------
    sys : control.StateSpace
        Discrete-time plant with n states and p outputs.
    horizon : int or inf
        Number of samples T that are published, t = 0 .. T-1. With ``np.inf`` the guarantee holds for runs of any length,
        and the noise is a linear system of low order (an `EndlessNoise`). The secret is then what enters during the run,
        or the state at its start, and the plant must forget it.
    budget : PrivacyBudget
        With delta > 0 for Gaussian noise.
    adjacency : StateAdjacency, InitialStateAdjacency, DisturbanceAdjacency, or a list of them
        What must be hidden; a list is protected jointly, all moves in one design. (Any Adjacency on the trajectory
        manifold will do.) Noise for a disturbance is correlated over the whole horizon and causal; but for an l2 ball
        its design takes time with the cube of the horizon (one input, 7 states, 3 outputs: 0.8 s for T = 200, 4 s for
        400) and memory with the square of T p. From 300 samples on it is noise of low order wherever that is certified
        to be within ``gap``.
    family : {"gaussian", "laplace", "iid-gaussian", "iid-laplace"}, optional
        Structured noise, or independent noise of one size on every sample and output. Laplace noise gives pure
        differential privacy (delta = 0); its shape is a local optimum.
    weight : array_like, shape (p,), (p, p) or (T p, T p), or loop, optional
        Cost of the noise: prices of the outputs' variances or positive semidefinite W for every sample alike, W for all
        samples, or an object with ``noise_weight(horizon)`` such as a `PrivateLoop`. The trace of the output noise by
        default, which adds squares of different units: outputs in Hz and pu are made comparable by
        ``weight=1 / sizes**2``, with the size (p,) of noise at which each output is as bad as the others.
    method : {"analytic", "lenypappas", "classical"}, optional
        Rule that turns the budget into a noise size; ``analytic`` is exact.
    releases : int, optional
        The budget covers that many independent releases of the same trajectory.
    floor : float or array_like, shape (p,), optional
        Standard deviation, in the outputs' units, of independent Gaussian noise that is part of every sample. The
        structured part is the least costly one beside this floor, which counts towards the budget. Without a floor
        structured noise protects under the exact model only.
    models : sequence of StateSpace, optional
        Plants under each of which, as under ``sys``, every move must be hidden. Unless they share the column space of
        the nominal plant's free responses, structured noise needs a floor for it.
    order : int, optional
        Without a horizon: number of states of the system that shapes the noise, the least one within ``gap`` by default.
    gap : float, optional
        Without a horizon, and for disturbances over long ones: largest relative distance of the cost to the lower bound
        of any Gaussian noise.

    Returns
    -------
    OutputNoise
        The gap of its design is certified among all Gaussian noises for exact models without a floor, among all of the
        form Gamma = O_T Sigma O_T^T + diag(floor^2) with one, and not known for several models without one.

    Raises
    ------
    control.ControlArgument
        If ``sys`` is not a discrete-time StateSpace.
    ValueError
        If the plant is singular and a time after 0 is protected, a time is beyond the horizon, or delta is 0.
    PrivacyError
        If no output depends on the secret: nothing is published of it. If a model needs a larger floor.
    NotRealizableError
        If a model leaves the column space of structured noise, and there is no floor.
    UncertifiableError
        If double precision cannot certify a design, for example over a long horizon of a fast contracting mode.

    Warns
    -----
    PrivacyWarning
        If a contracting mode or a chain of integrators (for independent noise also an unstable mode) makes most of the
        noise, at least 30 times that of a short horizon; `horizon_growth` shows all modes.

    Examples
    --------
    >>> import privcontrol as pc
    >>> noise = pc.design_output_noise(pc.plants.vehicle(), horizon=100, adjacency=pc.StateAdjacency({"position": 1.0}),
    ...                                budget=pc.PrivacyBudget(epsilon=1.0, delta=1e-2))
    >>> noise.factor.round(4)
    array([[1.8779],
           [0.    ]])
    """
    plant = Plant.of(sys)
    horizon, order, gap = _lengths(horizon, order, gap)
    checked_budget(budget)
    adjacency = joined(adjacency)
    one_of(family, "family", _FAMILIES)
    sizes, others = _floor(floor, plant, family), _models(models, plant)
    request = NoiseRequest(
        horizon, budget, adjacency, family, method, releases, sizes, others, order, gap
    )
    noise = _designed(plant, request, weight)
    if horizon == math.inf:
        return noise
    kinds = (
        ("contracting", "chain")
        if noise.part(Structured)
        else ("contracting", "chain", "unstable")
    )
    warn_of_modes(plant, adjacency, horizon, kinds)
    return noise


def _lengths(horizon, order, gap):
    """Horizon, order and gap, checked."""
    if not isinstance(horizon, (float, np.floating)) or horizon != math.inf:
        if order is not None:
            raise ValueError(
                "order: noise of a given order is designed without a horizon; pass horizon=np.inf, "
                "or leave order out"
            )
        horizon = positive_integer(horizon, "horizon")
    if order is not None and order != 0:
        order = positive_integer(order, "order")
    return horizon, order, positive_number(gap, "gap")


def joined(adjacency):
    """The adjacency, or all of a list of them as one."""
    if isinstance(adjacency, (list, tuple)):
        adjacency = adjacency[0] if len(adjacency) == 1 else JointAdjacency(adjacency)
    if not isinstance(adjacency, Adjacency):
        raise TypeError(
            f"adjacency: expected an Adjacency such as StateAdjacency, got {type(adjacency).__name__}"
        )
    return adjacency


def warn_of_modes(plant, adjacency, horizon, kinds):
    """`PrivacyWarning` about the costly modes of each part of an adjacency that is about states."""
    for part in adjacency.parts:
        if not disturbances(part):
            warn_of_costly_modes(plant, part, horizon, kinds, stacklevel=4)


def _floor(floor, plant, family):
    """Standard deviations (p,) of the white floor, or None."""
    if np.ndim(floor) == 0 and positive_number(floor, "floor", zero=True) == 0:
        return None
    if family != "gaussian":
        raise ValueError(
            f"floor: a white floor is added to Gaussian noise only, got family={family!r}; leave it out"
        )
    sizes = real_array(
        np.broadcast_to(floor, len(plant.C)) if np.ndim(floor) == 0 else floor, "floor"
    )
    if sizes.shape != (len(plant.C),) or not (sizes > 0).all():
        raise ValueError(
            f"floor: expected one positive number, or {len(plant.C)} of them, one per output, got shape {sizes.shape}"
        )
    return sizes


def _models(models, nominal):
    """Models as plants of the same outputs and sampling time."""
    if models is None:
        return ()
    plants = tuple(Plant.of(model) for model in models)
    for plant in plants:
        if plant.outputs != nominal.outputs or plant.dt != nominal.dt:
            raise ct.ControlDimension(
                f"models: expected plants with outputs {', '.join(nominal.outputs)} and dt = {nominal.dt}, got outputs "
                f"{', '.join(plant.outputs)} and dt = {plant.dt}"
            )
    return plants


def _has_balls(adjacency):
    """Whether balls are to be hidden beside other moves: then no list of moves and no single ball describes the secret."""
    balls = [
        isinstance(part, InitialStateAdjacency) and part.norm == 2
        for part in adjacency.parts
    ]
    return len(balls) > 1 and any(balls)


def _designed(plant, request, weight):
    name = request.family.removeprefix("iid-")
    if name == "laplace":
        one_of(
            request.method, "method", ("analytic",)
        )  # the other rules are for Gaussian noise
    if request.horizon == math.inf:
        return endless_noise(plant, request, weight)
    query = query_of(plant, request.horizon, request.adjacency)
    lasting = long_noise(query, request, weight)
    if lasting is not None:
        return replace(lasting, request=request)
    half = quadratic_cost(weight, query)
    if request.family.startswith("iid-"):
        noise = _independent(query, request, name, half, weight)
    elif disturbances(request.adjacency) or _has_balls(request.adjacency):
        noise = correlated_noise(query, request, half, weight)
    elif request.floor is not None:
        noise = floored_noise(query, request, half, weight)
    elif request.models:
        noise = _shared(query, request, name, half)
    else:
        noise = _structured(query, request, name, half)
    return replace(noise, request=request)


def _shared(query, request, name, half):
    """Structured noise for several models without a floor, where their moves share one column space, exactly.

    The nominal design, enlarged by what the worst model asks for.
    """
    noise = replace(
        _structured(query, replace(request, models=()), name, half), request=request
    )
    for _ in range(5):
        guarantee = noise.guarantee_for(request.plants(query.plant))
        noise = replace(
            noise,
            guarantee=guarantee,
            design=replace(noise.design, guarantee=guarantee),
        )
        if guarantee.loss.repeated(request.releases).satisfies(request.budget):
            return noise
        if name == "gaussian":
            size = guarantee.gdp / allowed_shift(
                request.budget, request.method, request.releases
            )
        else:
            size = laplace_size(guarantee.loss, request.budget, request.releases)
        noise = _enlarged(noise, query, half, float(round_up(max(size, 1.0), 4)))
    raise UncertifiableError(
        "models: the noise does not meet its budget when evaluated back; add a white floor (floor=...)"
    )


def _enlarged(noise, query, half, size):
    factor = noise.factor * size
    responses = free_outputs(noise.plant, factor, noise.horizon)
    law = family_of(noise.family)(responses)
    cost = law.unit_variance * float(np.sum(half(responses) ** 2))
    design = replace(
        noise.design, mechanism=Mechanism(query, law), cost=cost, tangent_factor=factor
    )
    return replace(noise, parts=(Structured(noise.plant, factor),), design=design)


def _allowed(request, name, loss_at):
    """The largest shift, in the law's norm, that the budget allows; ``loss_at(allowed)`` is the loss of noise so sized."""
    budget, releases = request.budget, positive_integer(request.releases, "releases")
    if name == "gaussian":
        return allowed_shift(budget, request.method, releases)
    if budget.delta == 0:
        return -float(round_up(-budget.epsilon / releases, 2))
    allowed = 1 / laplace_size(loss_at(1.0), budget, releases)
    while not loss_at(allowed).repeated(releases).satisfies(budget):
        allowed *= 1 - 1e-6
    return allowed


def _structured(query, request, name, half):
    plant, horizon, law = query.plant, query.manifold.horizon, family_of(name)
    moves = request.adjacency.moves(query.manifold)

    def build(allowed):
        if isinstance(moves, EllipsoidMoves):
            return _around_ball(plant, moves, horizon, half, allowed, law)
        return structured_factor(
            plant, moves, horizon, half, allowed, shape=law.shape, norm=law.shift_norm
        )

    def loss(found):
        loss = law.loss(found.shifts, moves)
        if isinstance(moves, EllipsoidMoves) or tell_apart(
            plant, np.flatnonzero(found.factor.any(axis=1)), horizon
        ):
            return loss
        return replace(
            loss, exact=False
        )  # other entries of eta may give the same outputs: the shifts are bounds

    found = build(_allowed(request, name, lambda allowed: loss(build(allowed))))
    factor = free_outputs(plant, found.factor, horizon)
    noise = law(factor)
    cost = noise.unit_variance * float(np.sum(half(factor) ** 2))
    caveats = published_exactly(plant, horizon, found.factor, found.padded)
    guarantee = guarantee_of(query, request, loss(found), ASSUMPTIONS, caveats)
    known = (
        request.budget.delta == 0 or name == "gaussian"
    )  # the Laplace bound is for pure differential privacy
    known &= not found.lower_bound > cost * (
        1 + 1e-9
    )  # then the weight lost its digits, and nothing is claimed
    design = NoiseDesign(
        Mechanism(query, noise),
        guarantee,
        cost,
        min(found.lower_bound, cost) if known else math.nan,
        worst_data_moves(query, moves, guarantee),
        found.factor,
    )
    parts = (Structured(plant, found.factor),)
    return OutputNoise(plant, horizon, name, parts, guarantee, design)


def _around_ball(plant, moves, horizon, half, allowed, law):
    """S = E times the size that hides every direction of the ball.

    For Gaussian noise E E^T / y*^2 is below every other covariance that hides the ball. For Laplace noise the largest
    1-norm of a unit vector, sqrt(q), is hidden in each coordinate; nothing is claimed of its cost.
    """
    q = moves.factor.shape[1]
    worst = 1.0 if law.shift_norm == 2 else math.sqrt(q)
    size = (
        worst / allowed * (1 + 1e-13)
    )  # above the roundings of the loss evaluated back
    cost = (
        float(np.sum(half(free_outputs(plant, moves.factor, horizon)) ** 2))
        / allowed**2
    )
    return TangentNoise(
        moves.factor * size,
        np.eye(q) / size,
        cost * (1 - 1e-12) if law.shift_norm == 2 else math.nan,
    )


def _independent(query, request, name, half, weight):
    plant, law = query.plant, family_of(name)
    found = [
        _output_sizes(request, model, law.shift_norm) for model in request.plants(plant)
    ]
    sizes, exact = (
        np.concatenate([part for part, _ in found]),
        all(known for _, known in found),
    )
    finite = exact and len(found) == 1

    def loss(allowed):
        attained = attaining(sizes) if finite else ()
        return law.loss_of_size(allowed, attained, exact)

    allowed = _allowed(request, name, loss)
    scale = np.full(query.size, float(round_up(float(sizes.max()) / allowed, 2)))
    noise = law(scale)
    guarantee = guarantee_of(
        query,
        request,
        loss(allowed),
        assumptions(request) if request.models else ASSUMPTIONS[1:],
    )
    cost = noise.unit_variance * white_cost(half, scale, weight)
    worst = np.empty((query.manifold.size, 0))
    if len(found) == 1 and not isinstance(request.adjacency, JointAdjacency):
        worst = (
            query.manifold.kernel
            @ _columns(request.adjacency.moves(query.manifold))[
                :, list(attaining(sizes))
            ]
        )
    design = NoiseDesign(Mechanism(query, noise), guarantee, cost, math.nan, worst)
    parts = (White(scale[: len(plant.C)]),)
    return OutputNoise(plant, query.manifold.horizon, name, parts, guarantee, design)


def _output_sizes(request, plant, norm):
    """Norms of the outputs' responses to the moves (of a ball: its one bound), rounded up; whether they are attained."""
    if not isinstance(request.adjacency, JointAdjacency) and not disturbances(
        request.adjacency
    ):
        moves = request.adjacency.moves(output_query(plant, request.horizon).manifold)
        if hasattr(moves, "output_sizes"):
            return moves.output_sizes(plant.C, norm), True
    images = Images.of(request.adjacency, plant, request.horizon)
    error = 1 + 4 * EPS * len(images.points)
    points = (
        np.linalg.norm(images.points, ord=norm, axis=0)
        if images.points.size
        else np.zeros(0)
    )
    balls = [
        EllipsoidMoves(ball).worst(np.eye(len(ball)), norm) for ball in images.balls
    ]
    sizes = np.concatenate([points, [worst.value for worst in balls]]) * error
    return sizes, images.exact and all(worst.exact for worst in balls)


def _columns(moves):
    return moves.factor if isinstance(moves, EllipsoidMoves) else moves.columns
