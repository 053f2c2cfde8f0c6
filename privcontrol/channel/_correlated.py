"""Noise that hides secrets which arrive during the run: correlated over the whole horizon, and still causal.

The covariance of all samples together is the cheapest ellipsoid around the outputs' responses to every hidden move. Its
lower triangular root makes gamma(t) from entries drawn up to t; certified is that root, in floating point.
"""

import numpy as np
import scipy.linalg

from ..core._linalg import rank_tolerance, round_up
from ..core.design import NoiseDesign, allowed_shift, worst_data_moves
from ..core.ellipsoid import weight_triangle
from ..core.errors import PrivacyError, UncertifiableError
from ..core.loss import GaussianLoss
from ..core.mechanism import Mechanism
from ..core.moves import attaining
from ..core.noise import GaussianNoise
from ..trajectory.disturbance import DisturbanceAdjacency
from ._common import assumptions, guarantee_of, white_cost
from ._cover import covering_ellipsoid, remainder
from ._images import floored_root, images_of_models, shift_sizes, triangular_root
from .output_noise import OutputNoise
from .parts import Correlated, Driven, NoisePart, White

#: Relative size of the noise in directions that no hidden move takes: what rounding leaves of a secret there stays
#: covered, at a relative cost of its square.
_PADDING = 1e-6
_LARGEST_EXCESS = 1e-3
_MATRICES = "A, B and C"
_COVERED = ("what the disturbance does through another plant than this one",)


def correlated_noise(query, request, half, weight):
    """The Gaussian noise of least weighted variance that hides disturbances, as `OutputNoise`."""
    if request.family != "gaussian":
        raise ValueError(
            f'family: expected "gaussian" or an iid family for a disturbance, got {request.family!r}'
        )
    plant, horizon = query.plant, query.manifold.horizon
    allowed = allowed_shift(request.budget, request.method, request.releases)
    adjacency = request.adjacency
    whole = (
        isinstance(adjacency, DisturbanceAdjacency)
        and adjacency.norm == "l2"
        and adjacency.times is None
    )
    if whole and not request.models and request.floor is None:
        return _driven(query, request, half, allowed)
    images = images_of_models(adjacency, request.plants(plant), horizon)
    if not images.moved.any():
        raise PrivacyError(
            "no hidden move changes what is published: no noise is needed for this adjacency"
        )
    floor = None if request.floor is None else np.tile(request.floor, horizon)
    lower, lower_bound = _optimal(images, half, allowed, floor)
    lower, total, sizes = _fitted(lower, images, allowed, floor)
    finite = not images.balls and not request.models
    loss = GaussianLoss(
        float(sizes.max()), attaining(sizes) if finite else (), images.exact
    )
    cost = float(np.sum(half(lower) ** 2)) + (
        0.0 if floor is None else white_cost(half, floor, weight)
    )
    guarantee = guarantee_of(
        query, request, loss, assumptions(request, _MATRICES), _COVERED
    )
    design = NoiseDesign(
        Mechanism(query, GaussianNoise(total)),
        guarantee,
        cost,
        min(lower_bound, cost),
        worst_data_moves(query, adjacency.moves(query.manifold), guarantee)
        if finite
        else _none(query),
    )
    parts: list[NoisePart] = []
    if lower.any():
        parts.append(Correlated(lower, len(plant.C)))
    if request.floor is not None:
        parts.append(White(request.floor))
    return OutputNoise(plant, horizon, "gaussian", tuple(parts), guarantee, design)


def _none(query):
    return np.empty((query.manifold.size, 0))


def _optimal(images, half, allowed, floor):
    """A root (m, r) of the cheapest covariance beyond the floor, and the least cost of any."""
    points, balls = images.points / allowed, [ball / allowed for ball in images.balls]
    if floor is not None:
        balls.append(np.diag(floor))
    basis = _basis(np.hstack([points, *balls]))
    widths = [part.shape[1] for part in (points, *balls)]
    together = scipy.linalg.lstsq(basis, np.hstack([points, *balls]))[0]
    coordinates = np.split(together, np.cumsum(widths)[:-1], axis=1)
    found = covering_ellipsoid(
        coordinates[0], coordinates[1:], weight_triangle(half(basis))
    )
    factor = basis @ found.factor
    if floor is not None:
        factor = basis @ remainder(found.factor, coordinates[-1])
    return factor, found.lower_bound


def _basis(columns):
    """Columns that span the others with small coordinates, all of them where they are independent."""
    _, triangle, order = scipy.linalg.qr(columns, mode="economic", pivoting=True)
    diagonal = np.abs(np.diag(triangle))
    rank = int(np.sum(diagonal > rank_tolerance(columns, diagonal)))
    return columns[:, np.sort(order[:rank])]


def _fitted(factor, images, allowed, floor):
    """The triangular root, that of it and the floor together, and the certified sizes, none above ``allowed``."""
    while True:
        lower = triangular_root(
            np.hstack([factor, np.diag(_PADDING * np.linalg.norm(factor, axis=1))])
        )
        total, doubt = (lower, 0.0) if floor is None else floored_root(lower, floor)
        sizes = shift_sizes(total, images) * (1 + doubt)
        excess = sizes.max() / allowed
        if excess <= 1:
            return lower, total, sizes
        if excess > 1 + _LARGEST_EXCESS or not np.isfinite(excess):
            raise UncertifiableError(
                f"the noise exceeds its budget by {excess - 1:.1e} when evaluated back: the hidden moves are too far apart in "
                "size for double precision; protect fewer times, shorten the horizon, or add a white floor"
            )
        factor = factor * float(round_up(excess * (1 + 1e-15), 4)) ** (
            1 if floor is None else 2
        )


def _driven(query, request, half, allowed):
    """For all signals of bounded energy: the plant's own response to white disturbances mu / y, the least of all.

    Gamma >= T_w diag(mu / y)^2 T_w^T is what hiding the ball demands, and this noise is that.
    """
    plant, horizon, manifold = query.plant, query.manifold.horizon, query.manifold
    radii = request.adjacency.radii(plant)
    sizes = round_up(radii / allowed, 2)
    loss = GaussianLoss(float(round_up((radii / sizes).max())), (), True)
    driven = Driven(plant, manifold.entry, manifold.through, sizes)
    forced = driven.responses(horizon).reshape(query.size, -1)
    if not forced.any():
        raise PrivacyError(
            "no hidden move changes what is published: no noise is needed for this adjacency"
        )
    guarantee = guarantee_of(
        query, request, loss, assumptions(request, _MATRICES), _COVERED
    )
    cost = float(np.sum(half(forced) ** 2))
    design = NoiseDesign(
        Mechanism(query, GaussianNoise(forced)),
        guarantee,
        cost,
        cost * (1 - 1e-12),
        _none(query),
    )
    return OutputNoise(plant, horizon, "gaussian", (driven,), guarantee, design)
