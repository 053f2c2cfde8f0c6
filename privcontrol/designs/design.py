"""From a plant, a horizon, a budget and an adjacency to the output noise that costs least.

`design_output_noise` is the door. A `Request` checks its arguments once. The first design
of the table `DESIGNS` that suits it sizes the noise, and `finished` makes the promise.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial, wraps
from typing import Any, ParamSpec

from numpy.typing import ArrayLike, NDArray

from ..core.adjacency import Adjacency
from ..core.query_design import LawOption
from ..noise.fleet import CoupledUnits, SeparateUnits
from ..noise.parts import Structured
from ..noise.within import Bound
from ..numerics.arguments import helpful_arguments
from ..numerics.checks import check_room
from ..numerics.errors import PrivacyError, UncertifiableError, warn_user
from ..numerics.linalg import one_thread
from ..numerics.progress import timed_bar
from ..numerics.thresholds import ROUNDED
from ..privacy.budget import PrivacyBudget, RepeatedBudget
from ..privacy.horizon import horizon_of
from ..secrets.disturbance import DisturbanceAdjacency
from ..systems.linear import Plant
from ..systems.varying import Plants, VaryingPlant, period_of, plant_of
from .bounded import Limit, checked_bound, gain_within
from .designed import cheapest, designed
from .laws import beside_cheapest_floor, cheapest_law, options_of
from .output_noise import OutputNoise
from .problem import (
    DesignProblem,
    Weight,
    finished,
)
from .request import Models, Request, joined, of_periods
from .structured import (
    constrained_shape,
)
from .table import faster, sized
from .useful import check_models, check_size

#: Numbers that a solver of matrix inequalities holds for the fourth power of a size.
_OF_SOLVER = 2

#: Sizes of noise that are tried for a budget of several changes.
_MOST_SIZES = 8
#: Arguments of a design.
P = ParamSpec("P")

_EXACT_MODEL = (
    "structured noise without a floor protects under the exact model only; pass "
    'floor="auto" with models=[...] for a model that is not, or models="exact" if it is'
)


def _counting_changes(design: Callable[P, OutputNoise]) -> Callable[P, OutputNoise]:
    """Let a design take a budget of several changes at a distance."""

    @wraps(design)
    def counting(*args: P.args, **options: P.kwargs) -> OutputNoise:
        budget = options["budget"]
        if not isinstance(budget, RepeatedBudget):
            return design(*args, **options)
        one = budget.shift()
        for _ in range(_MOST_SIZES):
            options["budget"] = PrivacyBudget(gdp=one)
            noise = design(*args, **options)
            # whole periods at least, where a sample of the noise is one
            apart = budget.separation // period_of(noise.plant_data.outputs)
            together = noise.guarantee.repeated(budget.events, separation=apart or None)
            if together.gdp <= budget.together:
                return noise
            one *= budget.together / together.gdp * (1 - ROUNDED)
        raise UncertifiableError(
            f"budget: no noise was found that keeps {budget!r}; ask for fewer events or "
            "a higher detection"
        )

    return counting


@helpful_arguments
@_counting_changes
def design_output_noise(
    sys: Plants,
    *,
    horizon: float,
    budget: PrivacyBudget,
    adjacency: Adjacency | Sequence[Adjacency],
    period: int | None = None,
    family: str | None = None,
    weight: Weight = None,
    releases: int = 1,
    floor: ArrayLike | str = 0.0,
    models: Models = None,
    factor: ArrayLike | None = None,
    covariance: ArrayLike | None = None,
    scale: bool = False,
    resolution: ArrayLike = 0.0,
    max_std: ArrayLike | Mapping[str, float] | None = None,
    order: int | None = None,
    gap: float = 0.01,
    constraints: Callable[[Any], Any] | None = None,
    bound: ArrayLike | Mapping[str, Limit] | None = None,
    life: int | None = None,
    progress: bool = False,
) -> OutputNoise:
    """Design the noise that makes the outputs of a plant differentially private.

    Structured noise is the plant's free response gamma(t) = C A^t S eta (DPAM Theorem 3).
    tr(W Gamma) is minimal among all Gaussian noises of the same guarantee, and the distance
    to that minimum is certified. The guarantee is checked in ball arithmetic for the factor
    S that is returned. A design of any kind returns the cheapest certified noise of all
    that it tried, independent noise of the same promise among them.

    Parameters
    ----------
    sys : control.StateSpace or list of control.StateSpace
        Discrete-time plant with n states and p outputs. A list has the plant of each
        sample, all with the same names and sampling time: a known time-varying plant,
        such as `along` returns. Without a horizon it is periodic, and one sample of the
        noise is a whole period: its plant is the lifted one, with inputs "u@0", "u@1"
        .. and outputs "y@0", "y@1" .. for at most 24 samples of the period. The
        guarantee is for that plant, whose matrices are rounded products.
    horizon : int or inf
        Number of samples T that are published, t = 0 .. T-1. With ``np.inf`` the guarantee
        holds for one run of any length, and the noise is a linear system of low order. The
        secret's effect on the outputs must then decay.
    budget : PrivacyBudget
        With delta > 0, or ``gdp``, for Gaussian noise.
    adjacency : StateAdjacency, InitialStateAdjacency, DisturbanceAdjacency, or a list
        What must be hidden. A list is protected jointly, all moves in one design. Noise for
        a disturbance is correlated over the whole horizon and causal. Except for an l2 ball
        the run time of its design grows with the cube of the horizon, and memory with the
        square of T p. From 50 samples on it is noise of low order wherever that is
        certified to be within ``gap``.
    period : int, optional
        Number of plants in a list that is repeated until the horizon.
    family : {None, "gaussian", "laplace", "iid-gaussian", "iid-laplace", "ball", "truncated", "auto"}, optional
        By default Gaussian noise, and for a pure budget the cheaper of "ball" and
        "laplace". "gaussian" and "laplace" are structured noise; the "iid" families are
        independent noise of one size on every sample and output. Laplace noise gives
        pure differential privacy (delta = 0); its shape is a local optimum. "ball" and
        "truncated" are radial noise of states over a horizon, see `core.BallNoise`;
        "truncated" is for one or two directions. Where the weight prices a direction below
        1 % of the dearest one, "ball" is several independent blocks if these cost less.
        With a floor they cover models in a list: the floor hides the rest of each move
        under a model.
        "auto" is the cheapest of "gaussian", "laplace", "ball" and "truncated" that
        keeps an epsilon and delta (with a floor, of all but "laplace"), and
        Gaussian noise for all requests that the others do not cover. It is the cheapest
        of these designs, not of all noise: where the weight prices every direction at 1 %
        of the dearest one or more, blocks of several numbers, whose search takes seconds,
        are not tried, and some may cost less.
        ``noise.design.laws`` is the table of all. It is empty where nothing is compared:
        without a horizon, for instance, since a sum of independent entries in a filter
        keeps its law for Gaussian noise only.
    weight : array_like, shape (p,), (p, p) or (T p, T p), or loop, optional
        Cost of the noise: prices of the outputs' variances or positive semidefinite W for
        each sample, W for all samples, or an object with ``noise_weight(horizon)``
        such as a `PrivateLoop`, which prices noise with the filter that it has. For the
        filter that `PrivateLoop.with_noise` designs next, other noise may cost less;
        ``private_lqg(codesign=True)`` chooses both.
        The trace of the output noise by default, which adds
        squares of different units. ``weight=1 / sizes**2``, with the size (p,) of noise at
        which each output is as bad as the others, makes Hz and pu comparable.
    releases : int, optional
        The budget covers that many independent releases of the same trajectory.
    floor : float, array_like of shape (p,), or "auto", optional
        Least standard deviation, in the outputs' units, of independent Gaussian noise
        that is part of every sample. The structured part is the least costly one with
        this floor; where independent noise alone is cheaper, the design returns that.
        Without a floor structured noise protects under the exact model only. ``"auto"``
        searches for the floor of least cost for all ``models`` and the ``resolution``.
    models : sequence of StateSpace, PlantBox, PlantPolytope, IdentifiedPlant, or "exact", optional
        Plants under each of which, as under ``sys``, every move must be hidden. Unless
        they share the column space of the nominal plant's free responses, structured noise
        needs a floor for it. A box or polytope contains ``sys`` and covers every plant
        in it. For a time-varying plant the noise is drawn again at every sample. The
        probability that the region misses the plant is part of delta. ``"exact"`` says
        that you know A and C exactly, and silences the warning about it.
    factor : array_like, shape (n, r) or (T p, r), optional
        Your own S (DPAM eq. (22)), or Lambda of noise over the horizon, time-major (DPAM
        Theorems 1 and 2). n rows are S. All Laplace entries of Lambda are drawn at the
        start of a run. If it meets the budget it is kept as given, and
        the guarantee is its own, which is stricter than the budget; otherwise all
        entries are scaled up by one factor. Nothing is claimed about its cost.
    covariance : array_like, shape (n, n), optional
        The same as S S^T, the covariance of the random initial state.
    scale : bool, optional
        Scale the factor or the covariance, up or down, until it just meets the budget.
    resolution : float or array_like, shape (p,), optional
        Step of the grid on which the readings lie, in the outputs' units. Readings of two
        runs then differ by up to a full step more than the outputs do. It needs a floor, or
        independent noise, and a finite horizon.
    max_std : float, array_like (p,), mapping by output name, or inf, optional
        Largest useful standard deviation of the noise at each output. By default the
        design refuses noise of 10,000 times the largest effect of the secret on an
        output over the run, and warns from 100 times on; ``np.inf`` lifts both. The
        growth of unstable modes is not counted.
    order : int, optional
        Without a horizon: largest number of states of the system that shapes the noise,
        the least one within ``gap`` by default.
    gap : float, optional
        Without a horizon, and for disturbances over 50 samples and more: largest relative
        distance of the cost to the lower bound of any Gaussian noise. Without a horizon
        it is that of the filtered part, to which a floor adds. Dense noise of fewer than
        128 dimensions for fewer than 1,000 hidden changes comes within 1e-6. Where no noise
        that was tried is as close, the closest one is returned, with a warning.
    constraints : callable, optional
        A function from the covariance Gamma (T p, T p) of Gaussian noise over the horizon,
        time-major, to a list of convex CVXPY constraints, as `design_gaussian` takes it.
        Nothing is claimed of the cost. For some dozens of samples: the time grows with the
        sixth power of T p.
    bound : float, array_like (p,), or mapping by output name, optional
        Limit that the noise never exceeds, in the outputs' units, such as the distance
        to an alarm limit. A draw beyond it is rejected and drawn again, never clipped.
        That leaks: with a probability that is part of delta, or the ``leak`` of a
        budget in ``gdp``, a draw reveals which run it belongs to. The design counts
        this leak when it chooses the size. A mapping leaves other outputs without a
        bound, and a pair in it bounds the noise and its change from one sample to the
        next. Gaussian noise only, for the exact plant.
    life : int, optional
        Without a horizon, and with ``bound``: number of samples of a run that are drawn
        together in advance, which is the horizon of the returned noise. By default the
        noise is for runs of any length and is drawn in blocks of innovations; for the
        same noise its bound is then up to about 1.4 times as large. A new run is a release of
        its own.
    progress : bool, optional
        Show a tqdm bar where a design takes more than two seconds, with the time that is
        left for designs that are made of several pieces.

    Returns
    -------
    OutputNoise
        The gap of its design is certified among all Gaussian noises for exact models
        without a floor, and among all of the form Gamma = O_T Sigma O_T^T + diag(floor^2)
        with one. It is not known for several models without a floor.

    Raises
    ------
    control.ControlArgument
        If ``sys`` is not a discrete-time StateSpace.
    control.ControlDimension
        If models have other outputs or another sampling time.
    ValueError
        If the plant is singular and a time after 0 is protected, a time is beyond the
        horizon, or delta is 0.
    PrivacyError
        If no output depends on the secret, a model or the resolution needs a larger floor,
        or the noise is larger than is useful.
    NotRealizableError
        If a model, or your own factor, leaves a move outside the column space of
        structured noise, and there is no floor.
    UncertifiableError
        If double precision cannot certify a design.
    MemoryError
        If a design needs more memory than is free.

    Warns
    -----
    PrivacyWarning
        If structured noise has no floor and no models. If the noise is 100 times or more
        what the secret does to an output; `horizon_growth` shows the modes of states. If
        the noise costs more than ``gap`` above its lower bound, as it mostly does for
        several changes in one run (``events``), whose bound is loose.

    See Also
    --------
    options, private_loop, tradeoff, eavesdropper, PlantBox

    Examples
    --------
    >>> import privcontrol as pc
    >>> budget = pc.PrivacyBudget(epsilon=1.0, delta=1e-2)
    >>> adjacency = pc.StateAdjacency({"position": 1.0})
    >>> noise = pc.design_output_noise(pc.plants.vehicle(), horizon=100,
    ...     budget=budget, adjacency=adjacency, models="exact")
    >>> noise.factor.round(4)
    array([[1.8779],
           [0.    ]])
    >>> noise.std.round(4)
    array([1.8779])
    """
    samples = horizon_of(horizon)
    plant = plant_of(sys, samples, period)
    if isinstance(plant, VaryingPlant) and not samples.ends:
        plant, adjacency, models = of_periods(plant, joined(adjacency), models)
    _check_loop(weight, plant)
    law = "gaussian" if family is None else family
    is_open = family is None or (isinstance(family, str) and family == "auto")
    if is_open:
        law = "gaussian"
    request = Request(
        samples,
        budget,
        joined(adjacency),
        law,
        releases,
        order=order,
        gap=gap,
    ).of_plant(
        plant,
        floor=floor,
        models=models,
        resolution=resolution,
        factor=factor,
        covariance=covariance,
        scale=scale,
    )
    request = replace(request, bound=checked_bound(bound, life, plant, request))
    if request.bound is not None:
        is_open = False
        _check_bounded(request, models, floor, constraints)
    laws: tuple[LawOption, ...] = ()
    compares = is_open and (family is not None or request.budget.pure)
    chooses_floor = isinstance(floor, str) and not request.drawn_afresh
    if compares and not chooses_floor and constraints is None:
        laws = options_of(request, plant, weight)
    if laws:
        request = replace(request, family=cheapest_law(laws))
    check_models(request, plant, max_std)

    with one_thread, timed_bar(progress, faster(request, plant)):
        if chooses_floor:
            noise, laws = beside_cheapest_floor(plant, request, weight, compares)
        elif request.bound is not None:
            noise = _bounded(plant, request, request.bound, weight)
        elif constraints is not None:
            noise = _constrained(plant, request, weight, constraints)
        else:
            noise = designed(request, plant, weight=weight)
    if laws:
        noise = replace(noise, design=replace(noise.design, laws=laws))
    noise = _priced_by_shape(noise, weight)
    check_size(noise, max_std)
    is_alone = noise.process.total.consists_of(Structured) and not request.has_models
    if is_alone and not isinstance(models, str):
        warn_user(_EXACT_MODEL)
    return noise


def _priced_by_shape(noise: OutputNoise, weight: Weight) -> OutputNoise:
    """Return the noise with a design that finds the price of other shapes of its change."""
    secrets = noise.request.adjacency.parts
    lasting = [part for part in secrets if _is_lasting(part)]
    design = noise.design
    if not lasting or design is None:
        return noise
    own = {part.shape for part in lasting}
    known = {own.pop(): noise.std} if len(own) == 1 else {}
    shapes = partial(_prices, noise.plant_data, noise.request, weight, known)
    return replace(noise, design=replace(design, shapes=shapes))


def _is_lasting(secret: Adjacency) -> bool:
    """Return whether a secret is a change that may be a level or of any shape."""
    if not isinstance(secret, DisturbanceAdjacency) or secret.duration == 1:
        return False
    return not (secret.is_moving or secret.together)


def _prices(
    plant: Plant, request: Request, weight: Weight, known: dict[str, NDArray]
) -> dict[str, NDArray]:
    """Return standard deviations (p,) of noise for both shapes of a change."""
    prices: dict[str, NDArray] = {}
    for shape in ("level", "any"):
        if shape in known:
            prices[shape] = known[shape]
            continue
        parts = []
        for part in request.adjacency.parts:
            parts.append(replace(part, shape=shape) if _is_lasting(part) else part)
        other = designed(request, plant, weight=weight, adjacency=joined(parts))
        prices[shape] = other.std
    return prices


def _check_bounded(
    request: Request, models: Models, floor: ArrayLike | str, constraints: object
) -> None:
    """Refuse what does not go with noise that never leaves a bound."""
    others = {
        "models": request.has_models,
        "resolution": request.resolution is not None,
        "floor": isinstance(floor, str),
        "constraints": constraints is not None,
    }
    given = [name for name, is_given in others.items() if is_given]
    if given:
        raise PrivacyError(
            f"bound: it is for the exact plant and a noise of its own, got {given[0]}; "
            "moves that the past chooses, as those of a region and of readings on a grid, "
            "void it"
        )
    if not request.family.endswith("gaussian"):
        raise PrivacyError(
            f"bound: Gaussian noise is kept within a bound, got family={request.family!r}; "
            'family="truncated" hides one or two directions of a state within a bound'
        )


def _bounded(
    plant: Plant, request: Request, bound: Bound, weight: Weight
) -> OutputNoise:
    """Design noise that never leaves a bound, with size and leak solved for together."""
    free = replace(request, bound=None)
    if request.budget.leak:
        free = replace(free, budget=PrivacyBudget(gdp=request.budget.gdp))
    problem = DesignProblem(plant, free, weight)
    found = cheapest(problem, sized(problem))
    if isinstance(found.parts[0], (CoupledUnits, SeparateUnits)):
        raise PrivacyError(
            "bound: noise of so many units is not kept within a bound together; design for "
            "the plant of one unit"
        )
    if bound.samples < request.horizon:
        # an order is for no horizon
        request = replace(request, horizon=bound.samples, order=None)
    gain = gain_within(problem, found, request)
    return finished(replace(problem, request=request), found.scaled(gain))


def _constrained(
    plant: Plant, request: Request, weight: Weight, constraints: Callable[[Any], Any]
) -> OutputNoise:
    """Design noise whose covariance over the horizon satisfies constraints."""
    if not request.horizon.ends or request.region is not None:
        raise ValueError(
            "constraints: expected a finite horizon and no region of models, over which "
            "noise has a covariance of its own"
        )
    problem = DesignProblem(plant, request, weight)
    entries = request.horizon * plant.output_count
    what = f"constraints: a covariance of {entries} samples and outputs"
    check_room(_OF_SOLVER * entries**4, what, faster(request, plant))
    factor, check = constrained_shape(problem, constraints)
    request = replace(request, factor=factor, scale=False)
    noise = designed(request, plant, weight=weight)
    check(noise.design.noise.covariance)
    return noise


def _check_loop(weight: Weight, plant: Plant) -> None:
    """Make sure that a loop that prices the noise is one of this plant."""
    controlled = getattr(weight, "plant", None)
    if controlled is None:
        return
    different = " and ".join(plant_of(controlled).differences(plant))
    if different:
        raise ValueError(f"weight: the loop is one of a plant with another {different}")
