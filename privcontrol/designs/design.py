"""From a plant, a horizon, a budget and an adjacency to the output noise that costs least.

`design_output_noise` is the door. A `Request` checks its arguments once. `REDUCTIONS` take
off what no design knows, such as an open choice of the law. The first design of the table
`DESIGNS` that suits what is left proposes noise, and `finished` makes the promise.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from numpy.typing import ArrayLike

from ..core.adjacency import Adjacency
from ..noise.parts import Structured
from ..numerics.arguments import helpful_arguments
from ..numerics.errors import warn_user
from ..numerics.linalg import one_thread
from ..numerics.progress import timed_bar
from ..privacy.budget import PrivacyBudget, RepeatedBudget
from ..privacy.horizon import horizon_of
from ..systems.linear import Plant
from ..systems.varying import Plants, VaryingPlant, plant_of
from .asked import Asked, Reduction
from .bounded import Limit, checked_bound, within_bound
from .cheapest_floor import beside_cheapest_floor
from .constrained import OwnConstraints
from .designed import cheapest
from .finished import finished
from .laws import CheapestLaw
from .output_noise import OutputNoise
from .periods import of_periods
from .price import Weight
from .problem import DesignProblem
from .request import Models, Request, joined
from .several_changes import SeveralChanges
from .shapes import priced_by_shape
from .table import faster, sized
from .useful import check_models, check_size

#: Parts that are taken off a request before it is sized, in this order.
REDUCTIONS: tuple[Reduction, ...] = (SeveralChanges(), OwnConstraints(), CheapestLaw())

_EXACT_MODEL = (
    "structured noise without a floor protects under the exact model only; pass "
    'floor="auto" with models=[...] for a model that is not, or models="exact" if it is'
)


@helpful_arguments
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
        secret's effect on the outputs must then decay. That noise is stationary: for a
        secret initial state it goes on when the effect of that state is over, where noise
        over a horizon fades with it.
    budget : PrivacyBudget
        With delta > 0, or ``gdp``, for Gaussian noise.
    adjacency : StateAdjacency, InitialStateAdjacency, DisturbanceAdjacency, or a list
        The secret. A list is protected jointly, all moves in one design. Noise for a
        disturbance is correlated over the whole horizon and causal. Except for an l2
        ball the run time of its design grows with the cube of the horizon, and memory
        with the square of T p. From 50 samples on it is noise of low order wherever
        that is certified to be within ``gap``.
    period : int, optional
        Number of plants in a list that is repeated until the horizon.
    family : {None, "gaussian", "laplace", "iid-gaussian", "iid-laplace", "ball", "truncated", "auto"}, optional
        By default Gaussian noise, and for a pure budget the cheaper of "ball" and
        "laplace". "gaussian" and "laplace" are structured noise; the "iid" families are
        independent noise of one size on every sample and output. Laplace noise gives
        pure differential privacy (delta = 0), of any budget: a delta is left unused. Its
        shape is a local optimum. "ball" and
        "truncated" are radial noise of states over a horizon, see `core.BallNoise`;
        "truncated" is for one or two directions. Where a weight is given and prices a
        direction below 1 % of the dearest one, "ball" is several independent blocks if
        these cost less.
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
        Without a horizon, and for disturbances over 50 samples and more: largest
        relative distance of the cost to the lower bound of any Gaussian noise. Without
        a horizon it is the distance of the filtered part, to which a floor adds, and
        for secret states the distance to stationary noise. Dense noise of fewer than
        128 dimensions for fewer than 1,000 hidden changes comes within 1e-6. Where no
        noise that was tried is as close, the closest one is returned, with a warning.
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
        with one. It is not known for several models without a floor. Without a horizon it
        is certified among stationary noises where states are secret.

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
        If structured noise has no floor and no models. If the noise is 100 times or
        more the effect of the secret on an output; `horizon_growth` shows the modes of
        states. If the noise costs more than ``gap`` above its lower bound, as it mostly
        does for several changes in one run (``events``), whose bound is loose.

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
    is_auto = isinstance(family, str) and family == "auto"
    together = budget if isinstance(budget, RepeatedBudget) else None
    request = Request(
        samples,
        budget if together is None else together.single,
        joined(adjacency),
        "gaussian" if family is None or is_auto else family,
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
    asked = Asked(
        DesignProblem(plant, request, weight),
        together,
        law_is_open=is_auto or (family is None and request.budget.pure),
        floor_is_open=isinstance(floor, str),
        constraints=constraints,
    )
    limits = checked_bound(
        bound, life, asked.problem, asked.floor_is_open, constraints is not None
    )
    if limits is not None:
        asked = replace(asked.having(bound=limits), law_is_open=False)
    request = asked.request
    check_models(request, plant, max_std)

    with one_thread, timed_bar(progress, faster(request, plant)):
        noise = _answered(asked)
    noise = priced_by_shape(noise, weight)
    check_size(noise, max_std, weight is not None)
    is_alone = noise.process.total.consists_of(Structured) and not request.has_models
    if is_alone and not isinstance(models, str):
        warn_user(_EXACT_MODEL)
    return noise


def _answered(asked: Asked) -> OutputNoise:
    """Reduce a request, propose noise for the rest, and certify it."""
    for reduction in REDUCTIONS:
        if reduction.accepts(asked):
            return reduction.answer(asked, _answered)
    problem, bound = asked.problem, asked.request.bound
    if bound is not None:
        return finished(*within_bound(problem, bound))
    if asked.searches_floor:
        return finished(*beside_cheapest_floor(problem))
    return finished(problem, cheapest(problem, sized(problem)))


def _check_loop(weight: Weight, plant: Plant) -> None:
    """Make sure that a loop that prices the noise is one of this plant."""
    controlled = getattr(weight, "plant", None)
    if controlled is None:
        return
    different = " and ".join(plant_of(controlled).differences(plant))
    if different:
        raise ValueError(f"weight: the loop is one of a plant with another {different}")
