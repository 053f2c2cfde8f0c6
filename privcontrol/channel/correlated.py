"""Design noise that hides secrets which arrive during the run.

It is correlated over the whole horizon, and still causal. The covariance of all samples
together is the cheapest ellipsoid around the outputs' responses to every hidden move. Its
lower triangular root makes gamma(t) from entries drawn up to t, and that root is certified
in floating point.
"""

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

from ..core._linalg import rank_tolerance, round_up
from ..core.adjacency import Adjacency
from ..core.ellipsoid import weight_triangle
from ..core.errors import PrivacyError, UncertifiableError
from ..core.loss import GaussianLoss
from ..core.moves import attaining
from ..core.noise import GaussianNoise
from ..trajectory.disturbance import (
    DisturbanceAdjacency,
    DisturbedManifold,
    disturbances,
)
from ._cover import covering_ellipsoid, remainder
from ._responses import (
    OutputResponses,
    floored_root,
    responses_of_models,
    shift_sizes,
    triangular_root,
)
from .parts import Correlated, Driven, NoisePart, White
from .problem import DesignProblem, SizedNoise, assumed

#: Relative size of the noise in directions that no hidden move takes. What rounding leaves
#: of a secret there stays covered, at a relative cost of its square.
_PADDING = 1e-6
_LARGEST_EXCESS = 1e-3
#: Relative gap of the shape. The padding and rounding cost about as much over long runs.
_GAP = 1e-7
_MATRICES = "A, B and C"
_NOT_COVERED = ("what the disturbance does through another plant than this one",)
_NO_NOISE = (
    "no hidden move changes what is published: no noise is needed for this adjacency"
)


def is_energy_ball(adjacency: Adjacency) -> bool:
    """Whether the secret is any signal of bounded energy over the whole horizon."""
    return (
        isinstance(adjacency, DisturbanceAdjacency)
        and adjacency.norm == "l2"
        and adjacency.times is None
    )


def _check_gaussian(problem: DesignProblem) -> None:
    request = problem.request
    if request.family == "gaussian":
        return
    secret = "a disturbance"
    if not disturbances(request.adjacency):
        secret = "a 2-norm ball of initial states beside other secrets (norm=1 will do)"
    raise ValueError(
        f'family: expected "gaussian" or an iid family for {secret}, '
        f"got {request.family!r}"
    )


def correlated(problem: DesignProblem) -> SizedNoise:
    """The Gaussian noise of least weighted variance that hides disturbances."""
    _check_gaussian(problem)
    request = problem.request
    horizon = problem.horizon
    responses = responses_of_models(request.adjacency, problem.plants, horizon)
    if not responses.moved.any():
        raise PrivacyError(_NO_NOISE)
    grid = problem.grid
    allowed = allowed_beside_grid(problem, grid)
    floor = None
    if request.floor is not None:
        floor = problem.floor
    shape, lower_bound = _cheapest(problem, responses, allowed, floor)
    lower, total, sizes = _fitted(shape, responses, allowed, floor)
    active: tuple[int, ...] = ()
    attained = None
    if not responses.balls and not request.models and not grid:
        active = attaining(sizes)
        attained = problem.moves.attained(active)
    cost = problem.cost(lower)
    parts: list[NoisePart] = []
    if lower.any():
        parts.append(Correlated(lower, len(problem.plant.C)))
    if floor is not None:
        parts.append(White(problem.floor_std))
        cost += problem.white_cost(floor)
    shift = float(sizes.max())
    if grid:
        shift = float(round_up(shift + grid))
    loss = GaussianLoss(shift, active, responses.exact and not grid)
    return SizedNoise(
        parts=tuple(parts),
        noise=GaussianNoise(total),
        loss=loss,
        cost=cost,
        lower_bound=lower_bound,
        attained=attained,
        assumptions=assumed(problem, _MATRICES),
        caveats=_NOT_COVERED,
    )


def allowed_beside_grid(problem: DesignProblem, grid: float) -> float:
    """The shift that is left for the moves when a sensor's grid adds some."""
    allowed = problem.allowed
    if grid == 0:
        return allowed
    left = float(np.nextafter(allowed - grid, 0))
    if not left > 0.01 * allowed:
        raise PrivacyError(
            f"floor: the sensor's grid alone has a privacy shift of {grid:.3g} where the "
            f"budget allows {allowed:.3g}; raise the floor to several times "
            f"{grid / allowed:.3g} of its size, or pass a finer resolution"
        )
    return left


def _cheapest(
    problem: DesignProblem,
    responses: OutputResponses,
    allowed: float,
    floor: NDArray | None,
) -> tuple[NDArray, float]:
    """A root (m, r) of the cheapest covariance beyond the floor, and its least cost."""
    points = responses.points / allowed
    balls = [ball / allowed for ball in responses.balls]
    if floor is not None:
        balls.append(np.diag(floor))
    together = np.hstack([points, *balls])
    basis = _basis(together)
    widths = [part.shape[1] for part in (points, *balls)]
    solved = scipy.linalg.lstsq(basis, together)[0]
    coordinates = np.split(solved, np.cumsum(widths)[:-1], axis=1)
    weight_factor = weight_triangle(problem.weight_root(basis))
    found = covering_ellipsoid(coordinates[0], coordinates[1:], weight_factor, tol=_GAP)
    if floor is None:
        return basis @ found.factor, found.lower_bound
    return basis @ remainder(found.factor, coordinates[-1]), found.lower_bound


def _basis(columns: NDArray) -> NDArray:
    """Columns that span the others with small coordinates."""
    _, triangle, order = scipy.linalg.qr(columns, mode="economic", pivoting=True)
    diagonal = np.abs(np.diag(triangle))
    rank = int(np.sum(diagonal > rank_tolerance(columns, diagonal)))
    return columns[:, np.sort(order[:rank])]


def _fitted(
    factor: NDArray,
    responses: OutputResponses,
    allowed: float,
    floor: NDArray | None,
) -> tuple[NDArray, NDArray, NDArray]:
    """The triangular root, that of it and the floor together, and the certified sizes.

    No size is above ``allowed``.
    """
    while True:
        padding = np.diag(_PADDING * np.linalg.norm(factor, axis=1))
        lower = triangular_root(np.hstack([factor, padding]))
        if floor is None:
            total = lower
            error_bound = 0.0
            power = 1
        else:
            total, error_bound = floored_root(lower, floor)
            power = 2  # beside a floor a small excess needs a larger step
        sizes = shift_sizes(total, responses) * (1 + error_bound)
        excess = sizes.max() / allowed
        if excess <= 1:
            return lower, total, sizes
        if excess > 1 + _LARGEST_EXCESS or not np.isfinite(excess):
            raise UncertifiableError(
                f"the noise exceeds its budget by {excess - 1:.1e} when evaluated back: "
                "the hidden moves are too far apart in size for double precision; protect "
                "fewer times, shorten the horizon, or add a white floor"
            )
        factor = factor * float(round_up(excess * (1 + 1e-15), 4)) ** power


def driven(problem: DesignProblem) -> SizedNoise:
    """The plant's response to white disturbances mu / y, for all signals of bounded energy.

    Gamma >= T_w diag(mu / y)^2 T_w^T is what hiding the ball demands, and this noise is
    that. A change dw of the signal is a shift of eta by dw / sizes, exactly, because E and
    F of the noise are the plant's own numbers.
    """
    _check_gaussian(problem)
    (adjacency,) = disturbances(problem.request.adjacency)
    signals = adjacency.signals(problem.plant)
    manifold = DisturbedManifold(problem.plant, problem.horizon, signals)
    radii = adjacency.radii(problem.plant)
    sizes = round_up(radii / problem.allowed, 2)
    shift = float(round_up((radii / sizes).max()))
    part = Driven(problem.plant, manifold.entry, manifold.through, sizes)
    forced = part.responses(problem.horizon).reshape(problem.query.size, -1)
    if not forced.any():
        raise PrivacyError(_NO_NOISE)
    cost = problem.cost(forced)
    return SizedNoise(
        parts=(part,),
        noise=GaussianNoise(forced),
        loss=GaussianLoss(shift, (), True),
        cost=cost,
        lower_bound=cost * (1 - 1e-12),
        assumptions=assumed(problem, _MATRICES),
        caveats=_NOT_COVERED,
    )
