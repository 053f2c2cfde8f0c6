"""From a plant, a horizon, a budget and an adjacency to the output noise that costs least."""

import math
from dataclasses import dataclass, replace

import numpy as np

from ..core._linalg import one_of, positive_integer, round_up
from ..core._loss import GaussianLoss
from ..core.adjacency import Adjacency
from ..core.budget import PrivacyBudget
from ..core.design import NoiseDesign, allowed_shift, half_weight, quoted
from ..core.guarantee import PrivacyGuarantee, Scope
from ..core.mechanism import Mechanism
from ..core.moves import EllipsoidMoves
from ..core.noise import GaussianNoise
from ..trajectory._exact_design import TangentNoise, active_moves, structured_factor
from ..trajectory.manifold import free_outputs, output_query
from .noise import OutputNoise

_FAMILIES = ("gaussian", "iid-gaussian")


@dataclass(frozen=True)
class NoiseRequest:
    """What a noise was designed for: all arguments of `design_output_noise` but the plant and the weight."""

    horizon: int
    budget: PrivacyBudget
    adjacency: Adjacency
    family: str
    method: str
    releases: int

    def design(self, sys, **changes):
        """Noise for the same request, up to the arguments given."""
        return design_output_noise(sys, **(vars(self) | changes))


def design_output_noise(
    sys, *, horizon, budget, adjacency, family="gaussian", weight=None, method="analytic", releases=1
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
    horizon : int
        Number of samples T that are published, t = 0 .. T-1.
    budget : PrivacyBudget
        With delta > 0 for Gaussian noise.
    adjacency : StateAdjacency or InitialStateAdjacency, or any Adjacency on the trajectory manifold
        What must be hidden.
    family : {"gaussian", "iid-gaussian"}, optional
        Structured noise, or independent noise of one size on every sample and output.
    weight : array_like, shape (T p, T p), or loop, optional
        Cost of the noise: positive semidefinite W, or an object with ``noise_weight(horizon)`` such as a
        `PrivateLoop`; the trace of the output noise by default.
    method : {"analytic", "lenypappas", "classical"}, optional
        Rule that turns the budget into a noise size; ``analytic`` is exact.
    releases : int, optional
        The budget covers that many independent releases of the same trajectory.

    Returns
    -------
    OutputNoise

    Raises
    ------
    control.ControlArgument
        If ``sys`` is not a discrete-time StateSpace.
    ValueError
        If the plant is singular and a time after 0 is protected, a time is beyond the horizon, or delta is 0.
    PrivacyError
        If no output depends on the protected states: nothing is published of them.
    UncertifiableError
        If double precision cannot certify a design, for example over a long horizon of a fast contracting mode.

    Examples
    --------
    >>> import privcontrol as pc
    >>> noise = pc.design_output_noise(pc.plants.vehicle(), horizon=100, adjacency=pc.StateAdjacency({"position": 1.0}),
    ...                                budget=pc.PrivacyBudget(epsilon=1.0, delta=1e-2))
    >>> noise.factor.round(4)
    array([[1.8779],
           [0.    ]])
    """
    query = output_query(sys, positive_integer(horizon, "horizon"))
    if not isinstance(budget, PrivacyBudget):
        raise TypeError(f"budget: expected a PrivacyBudget, got {type(budget).__name__}")
    if not isinstance(adjacency, Adjacency):
        raise TypeError(f"adjacency: expected an Adjacency such as StateAdjacency, got {type(adjacency).__name__}")
    one_of(family, "family", _FAMILIES)
    allowed = allowed_shift(budget, method, releases)
    half = _half(weight, query)
    design = _independent if family == "iid-gaussian" else _structured
    request = NoiseRequest(query.manifold.horizon, budget, adjacency, family, method, releases)
    return replace(design(query, adjacency, budget, half, allowed), request=request)


def _half(weight, query):
    """B -> H B with H^T H = W, from an array or from a loop's own map of output noise to cost."""
    if hasattr(weight, "noise_weight"):
        return weight.noise_weight(query.manifold.horizon)
    return half_weight(weight, query.size)


def _structured(query, adjacency, budget, half, allowed):
    plant, horizon = query.plant, query.manifold.horizon
    moves = adjacency.moves(query.manifold)
    if isinstance(moves, EllipsoidMoves):
        found = _around_ball(plant, moves, horizon, half, allowed)
    else:
        found = structured_factor(plant, moves, horizon, half, allowed)
    factor = free_outputs(plant, found.factor, horizon)
    cost = float(np.sum(half(factor) ** 2))
    worst = moves.factor if isinstance(moves, EllipsoidMoves) else moves.columns[:, list(found.active)]
    scope = Scope.of(adjacency, query.manifold, assumptions=_ASSUMPTIONS, caveats=_unspanned(plant, found.factor))
    guarantee = quoted(PrivacyGuarantee(GaussianLoss(found.shift, found.active), scope), budget)
    design = NoiseDesign(
        Mechanism(query, GaussianNoise(factor)),
        guarantee,
        cost,
        min(found.lower_bound, cost),
        query.manifold.kernel @ worst,
        found.factor,
    )
    return OutputNoise(plant, horizon, "gaussian", found.factor, None, guarantee, design)


def _around_ball(plant, moves, horizon, half, allowed):
    """S = E / y*: the covariance E E^T / y*^2 is below that of every other noise that hides the ball."""
    factor = moves.factor * float(round_up(1 / allowed, 2))
    cost = float(np.sum(half(free_outputs(plant, moves.factor, horizon)) ** 2)) / allowed**2
    return TangentNoise(factor, allowed, cost * (1 - 1e-12), ())


def _independent(query, adjacency, budget, half, allowed):
    plant, horizon = query.plant, query.manifold.horizon
    moves = adjacency.moves(query.manifold)
    if hasattr(moves, "output_sizes"):
        sizes = moves.output_sizes(plant.C, 2)
        size, active, worst = float(sizes.max()), active_moves(sizes), moves.columns[:, list(active_moves(sizes))]
    else:
        size, active = query.sensitivity(adjacency), ()
        worst = moves.worst(query.response).move[:, None]
    std = float(round_up(size / allowed, 2))
    noise = GaussianNoise(np.full(query.size, std))
    scope = Scope.of(adjacency, query.manifold, assumptions=_ASSUMPTIONS[1:])
    guarantee = quoted(
        PrivacyGuarantee(GaussianLoss(min(float(round_up(size / std, 2)), allowed), active), scope), budget
    )
    cost = std**2 * _trace(half, query.size)
    design = NoiseDesign(Mechanism(query, noise), guarantee, cost, math.nan, query.manifold.kernel @ worst)
    return OutputNoise(plant, horizon, "gaussian", None, np.full(len(plant.C), std), guarantee, design)


def _trace(half, size, block=256):
    """tr W, by columns of H in blocks."""
    columns = (np.eye(size, min(block, size - start), -start) for start in range(0, size, block))
    return sum(float(np.sum(half(part) ** 2)) for part in columns)


_ASSUMPTIONS = (
    "A and C exact",
    "the noise drawn once for the horizon",
    "controller, reference, inputs and initial estimate computed without the secret",
)


def _unspanned(plant, factor):
    """What structured noise publishes exactly, for the guarantee's text."""
    silent = [name for name, row in zip(plant.states, factor) if not row.any()]
    caveats = ["anything but a free response of the plant, such as a disturbance during the run"]
    if silent:
        caveats.append(f"{' and '.join(silent)} and all differences over time, which are published exactly")
    elif factor.shape[1] < plant.order:
        caveats.append("what lies outside the span of the noise, which is published exactly")
    return tuple(caveats)
