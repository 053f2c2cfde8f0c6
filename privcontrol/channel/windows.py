"""Several horizons of one plant, each with noise of its own: what they reveal together, and noise for all of them.

A move z of the first window's state is A^t z in a window that starts t samples later, so that windows do not compose
like releases of one secret: they are stacked on one trajectory, and each move is followed through all of them.
"""

import math
from dataclasses import replace

import numpy as np
from flint import arb_mat

from ..core._balls import largest_eigenvalue, upper_bounds
from ..core._linalg import positive_integer, round_up
from ..core.adjacency import Adjacency
from ..core.budget import checked_budget
from ..core.design import NoiseDesign, allowed_shift, quoted, worst_data_moves
from ..core.errors import PrivacyError
from ..core.guarantee import PrivacyGuarantee, Scope
from ..core.loss import GaussianLoss
from ..core.mechanism import Mechanism
from ..core.moves import EllipsoidMoves, attaining
from ..core.noise import GaussianNoise, LaplaceNoise
from ..trajectory._exact_design import structured_factor
from ..trajectory._forms import NoiseForm, certified, moved
from ..trajectory.adjacency import StateAdjacency
from ..trajectory.manifold import free_outputs, output_query, trajectory_manifold
from ._common import ASSUMPTIONS, published_exactly, quadratic_cost
from .output_noise import OutputNoise
from .parts import Structured, White

_FRESH = ("the noise of each window drawn once and afresh", *ASSUMPTIONS[2:])


def windows_guarantee(noises, *, adjacency=None):
    """The exact guarantee of consecutive windows of one plant, each published with fresh noise of its own.

    The run of T = T_1 + .. + T_k samples is one trajectory, and the adjacency is about all of it. With t_i the start of
    window i, a move z of x(0) has y^2 = sum_i of that of A^(t_i) z under the noise of window i. Along a chain of
    integrators this is far above the root of k that releases of one secret would give: a small move of a velocity late
    in the run is a large move of the position at its start.

    Parameters
    ----------
    noises : sequence of OutputNoise
        In the order of the windows, for one plant, of one law, without the part that hides disturbances.
    adjacency : StateAdjacency or InitialStateAdjacency, optional
        About the run of T samples. By default the one that all noises were designed for, at all times of the run.

    Returns
    -------
    PrivacyGuarantee
        Over T samples, checked in ball arithmetic.

    Raises
    ------
    ValueError
        If the noises are for different plants, laws or adjacencies.
    NotRealizableError
        If a window's noise leaves a move bare that another window hides.

    Examples
    --------
    >>> import privcontrol as pc
    >>> noise = pc.design_output_noise(pc.plants.vehicle(), horizon=100, adjacency=pc.StateAdjacency(1.0),
    ...                                budget=pc.PrivacyBudget(epsilon=1.0, delta=1e-2))
    >>> together = pc.windows_guarantee([noise, noise])
    >>> together.horizon, round(together.gdp / noise.guarantee.gdp, 4)
    (200, 2.6702)

    References
    ----------
    DPAM Theorem 3 for one window; the stacking is that of several queries on one manifold (DPAM eq. (3)).
    """
    noises = _windows(noises)
    plant, law = noises[0].plant, noises[0].family
    adjacency = _shared(noises) if adjacency is None else adjacency
    manifold = trajectory_manifold(plant, sum(noise.horizon for noise in noises))
    moves = adjacency.moves(manifold)
    if law == "gaussian":
        loss = _gaussian_loss(noises, adjacency, manifold, moves)
    else:
        shifts = np.vstack(
            [
                _laplace_shifts(*window, adjacency, manifold)
                for window in _placed(noises)
            ]
        )
        loss = LaplaceNoise.loss(shifts, moves)
        if any(noise.part(White) for noise in noises):
            loss = replace(loss, exact=False)
    caveats = tuple(
        dict.fromkeys(
            clause for noise in noises for clause in noise.guarantee.scope.caveats
        )
    )
    scope = Scope.of(
        adjacency, manifold, assumptions=("A and C exact", *_FRESH), caveats=()
    )
    scope = replace(scope, caveats=tuple(dict.fromkeys(scope.caveats + caveats)))
    return PrivacyGuarantee(loss, scope, 1, noises[0].guarantee.quoted_delta)


def design_windows(sys, *, horizons, budget, adjacency, spent=(), weight=None):
    """Gaussian noise for consecutive windows of one plant that together meet one budget.

    Each window gets fresh structured noise gamma(t) = C A^t S_i eta_i. For every move of the run the budget that is
    left after the windows already published is shared equally among the new windows, the least costly S_i for these
    shares is found, and all of them are shrunk by what the joint guarantee leaves unused. One draw for the whole run,
    ``design_output_noise(horizon=sum(horizons))``, never costs more where it can be kept.

    Parameters
    ----------
    sys : control.StateSpace
    horizons : sequence of int
        Numbers of samples of the new windows.
    budget : PrivacyBudget
        Of the whole run: the windows already published and the new ones.
    adjacency : StateAdjacency
        About the whole run; protected times are counted from the start of its first window.
    spent : sequence of OutputNoise, optional
        Of the windows already published, from the first on.
    weight : array_like, shape (p,), (p, p) or (T_i p, T_i p), or loop, optional
        Cost of the noise in each window, as in `design_output_noise`.

    Returns
    -------
    tuple of OutputNoise
        One for each new window. The guarantee of each is about the whole run and that window's release alone; that of
        all together is ``windows_guarantee([*spent, *new], adjacency=adjacency)`` and meets the budget.

    Raises
    ------
    PrivacyError
        If the windows already published have spent the budget for some move of the run.

    Examples
    --------
    >>> import privcontrol as pc
    >>> budget, adjacency = pc.PrivacyBudget(epsilon=1.0, delta=1e-2), pc.StateAdjacency({"position": 1.0})
    >>> first, second = pc.design_windows(pc.plants.vehicle(), horizons=[50, 50], budget=budget, adjacency=adjacency)
    >>> pc.windows_guarantee([first, second], adjacency=adjacency).satisfies(budget)
    True
    """
    if not isinstance(adjacency, StateAdjacency):
        raise TypeError(
            f"adjacency: expected a StateAdjacency, got {type(adjacency).__name__}"
        )
    checked_budget(budget)
    horizons = [positive_integer(horizon, "horizons") for horizon in horizons]
    plant, allowed = output_query(sys, 1).plant, allowed_shift(budget)
    spent = _windows(spent, plant, "gaussian") if spent else ()
    before = sum(noise.horizon for noise in spent)
    manifold = trajectory_manifold(plant, before + sum(horizons))
    used = sum(
        (_squares(*window, adjacency, manifold) for window in _placed(spent)), 0.0
    )
    left = allowed**2 * (1 - 1e-12) - used * np.ones(
        adjacency.moves(manifold).columns.shape[1]
    )
    if left.min() <= 1e-6 * allowed**2:
        raise PrivacyError(
            f"the {before} samples already published leave nothing of the budget for {int(np.sum(left <= 1e-6 * allowed**2))} "
            "moves of the longer run: raise the budget, protect fewer times, or design all windows together from the start"
        )
    found, start = [], before
    for horizon in horizons:
        moves = adjacency.moves(manifold, window=(start, horizon))
        half = quadratic_cost(weight, output_query(plant, horizon))
        shares = np.sqrt(left / len(horizons)) / allowed
        found.append(
            (
                start,
                horizon,
                half,
                structured_factor(
                    plant, moves.stretched(1 / shares), horizon, half, allowed
                ),
            )
        )
        start += horizon
    shrink = _unused(plant, found, adjacency, manifold, left)
    return tuple(
        _window(plant, *window, shrink, adjacency, manifold, budget) for window in found
    )


def _windows(noises, plant=None, law=None):
    noises = tuple(noises)
    if not noises or not all(isinstance(noise, OutputNoise) for noise in noises):
        raise TypeError(
            "noises: expected a sequence of OutputNoise, one for each window"
        )
    plant, law = (
        noises[0].plant if plant is None else plant,
        noises[0].family if law is None else law,
    )
    for noise in noises:
        if not all(
            np.array_equal(getattr(plant, name), getattr(noise.plant, name))
            for name in "AC"
        ):
            raise ValueError(
                "noises: expected windows of one plant, got different A or C"
            )
        if noise.family != law:
            raise ValueError(
                f"noises: expected one law in all windows, got {law} and {noise.family}"
            )
        if not noise.consists_of(Structured, White):
            raise ValueError(
                "noises: noise that hides disturbances covers one horizon; design it for the whole run in one piece"
            )
    return noises


def _shared(noises):
    """The adjacency that all noises were designed for, which must be about the whole run."""
    known = [
        noise.request.adjacency if noise.request is not None else None
        for noise in noises
    ]
    first = known[0]
    if not isinstance(first, Adjacency) or any(other != first for other in known):
        raise ValueError(
            "adjacency: the windows were designed for different adjacencies; say what is to be hidden"
        )
    if getattr(first, "times", None) is not None:
        raise ValueError(
            "adjacency: the protected times are counted from the start of each window; say which times of the whole run "
            "are protected"
        )
    return first


def _placed(noises):
    """(start, horizon, S, scale) of each window."""
    starts = np.cumsum([0, *(noise.horizon for noise in noises)])
    return [
        (int(start), noise.horizon, noise.factor, noise.scale)
        for start, noise in zip(starts, noises)
    ]


def _gaussian_loss(noises, adjacency, manifold, moves):
    if not isinstance(moves, EllipsoidMoves):
        squares = sum(
            _squares(*window, adjacency, manifold) for window in _placed(noises)
        )
        sizes = round_up(np.sqrt(squares * (1 + 1e-15 * len(noises))))
        return GaussianLoss(float(sizes.max()), attaining(sizes), moves.exact)

    def largest():
        total = arb_mat(moves.factor.shape[1], moves.factor.shape[1])
        for start, horizon, factor, scale in _placed(noises):
            images, _ = moved(adjacency, manifold, start, horizon)
            total += NoiseForm(manifold.plant, horizon, factor, scale).gram(images)
        return [largest_eigenvalue(total)]

    return GaussianLoss(
        float(round_up(math.sqrt(certified(largest)[0]))), (), moves.exact
    )


def _squares(start, horizon, factor, scale, adjacency, manifold):
    """Upper bounds of s^T Gamma^-1 s in one window for every move of the run."""
    form = NoiseForm(manifold.plant, horizon, factor, scale)
    images, bits = moved(adjacency, manifold, start, horizon)
    return certified(lambda: form.squares(images), bits)


def _laplace_shifts(start, horizon, factor, scale, adjacency, manifold):
    """Shifts of Laplace noise in one window for every move of the run; of independent noise their sum as one entry."""
    if scale is None:
        images, _ = moved(adjacency, manifold, start, horizon)
        return upper_bounds(
            NoiseForm(manifold.plant, horizon, factor, None).shifts(images)
        )
    if not isinstance(adjacency, StateAdjacency) or factor is not None:
        raise ValueError(
            "noises: windows of independent Laplace noise are compared for a StateAdjacency only"
        )
    moves = adjacency.moves(manifold, window=(start, horizon))
    return moves.output_sizes(manifold.plant.C / scale[:, None], 1)[None] * (1 + 1e-15)


def _unused(plant, found, adjacency, manifold, left):
    """The factor (at most 1) by which all new windows may shrink so that no move exceeds what is left, rounded up."""
    new = sum(
        _squares(start, horizon, noise.factor, None, adjacency, manifold)
        for start, horizon, _, noise in found
    )
    return float(round_up(np.sqrt((new / left).max() * (1 + 1e-14)), 2))


def _window(plant, start, horizon, half, found, shrink, adjacency, manifold, budget):
    factor = found.factor * shrink
    query, responses = (
        output_query(plant, horizon),
        free_outputs(plant, factor, horizon),
    )
    sizes = round_up(
        np.sqrt(_squares(start, horizon, factor, None, adjacency, manifold))
    )
    loss = GaussianLoss(float(sizes.max()), attaining(sizes))
    scope = Scope.of(
        adjacency,
        manifold,
        assumptions=ASSUMPTIONS,
        caveats=published_exactly(plant, horizon, factor, found.padded),
    )
    guarantee = quoted(PrivacyGuarantee(loss, scope), budget)
    moves = adjacency.moves(manifold, window=(start, horizon))
    design = NoiseDesign(
        Mechanism(query, GaussianNoise(responses)),
        guarantee,
        float(np.sum(half(responses) ** 2)),
        math.nan,
        worst_data_moves(query, moves, guarantee),
        factor,
    )
    parts = (Structured(plant, factor),)
    return OutputNoise(plant, horizon, "gaussian", parts, guarantee, design)
