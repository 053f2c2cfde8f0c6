"""From a plant, a horizon, a budget and an adjacency to the output noise that costs least."""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from ..core._linalg import EPS, one_of, positive_integer, round_up
from ..core._loss import GaussianLoss
from ..core._product_loss import one_coordinate
from ..core._shapes import gaussian_shape, half_weight, laplace_shape
from ..core.adjacency import Adjacency
from ..core.budget import PrivacyBudget
from ..core.design import NoiseDesign, allowed_shift, laplace_size, quoted, worst_data_moves
from ..core.guarantee import PrivacyGuarantee, Scope
from ..core.mechanism import Mechanism, loss_of
from ..core.moves import EllipsoidMoves, attaining
from ..core.noise import GaussianNoise, LaplaceNoise
from ..trajectory._exact_design import TangentNoise, structured_factor
from ..trajectory.manifold import free_outputs, output_query
from ..trajectory.modes import warn_of_costly_modes
from .noise import OutputNoise


@dataclass(frozen=True)
class _Law:
    """A noise law: its class, the norm of the shifts that its privacy is in, and how its shape is found."""

    noise: type
    norm: int
    shape: Callable


_LAWS = {"gaussian": _Law(GaussianNoise, 2, gaussian_shape), "laplace": _Law(LaplaceNoise, 1, laplace_shape)}
_FAMILIES = (*_LAWS, *(f"iid-{law}" for law in _LAWS))


@dataclass(frozen=True)
class NoiseRequest:
    """What a noise was designed for: all arguments of `design_output_noise` but the plant and the weight."""

    horizon: int
    budget: PrivacyBudget
    adjacency: Adjacency
    family: str = "gaussian"
    method: str = "analytic"
    releases: int = 1

    def design(self, sys, *, weight=None, **changes):
        """Noise for the same request, up to the arguments given, without a warning about costly modes."""
        return _designed(output_query(sys, self.horizon), replace(self, **changes), weight)


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
    family : {"gaussian", "laplace", "iid-gaussian", "iid-laplace"}, optional
        Structured noise, or independent noise of one size on every sample and output. Laplace noise gives pure
        differential privacy (delta = 0); its shape is a local optimum.
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
    query = output_query(sys, positive_integer(horizon, "horizon"))
    if not isinstance(budget, PrivacyBudget):
        raise TypeError(f"budget: expected a PrivacyBudget, got {type(budget).__name__}")
    if not isinstance(adjacency, Adjacency):
        raise TypeError(f"adjacency: expected an Adjacency such as StateAdjacency, got {type(adjacency).__name__}")
    one_of(family, "family", _FAMILIES)
    request = NoiseRequest(query.manifold.horizon, budget, adjacency, family, method, releases)
    noise = _designed(query, request, weight)
    kinds = ("contracting", "chain") if noise.scale is None else ("contracting", "chain", "unstable")
    warn_of_costly_modes(query.plant, adjacency, query.manifold.horizon, kinds)
    return noise


def _designed(query, request, weight):
    name = request.family.removeprefix("iid-")
    if name == "laplace":
        one_of(request.method, "method", ("analytic",))  # the other rules are for Gaussian noise
    build = _independent if request.family.startswith("iid-") else _structured
    noise = build(query, request, name, quadratic_cost(weight, query))
    return replace(noise, request=request)


def quadratic_cost(weight, query):
    """B -> H B with H^T H = W, from an array or from a loop's own map of output noise to cost."""
    if hasattr(weight, "noise_weight"):
        return weight.noise_weight(query.manifold.horizon)
    return half_weight(weight, query.size)


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
    plant, horizon, law = query.plant, query.manifold.horizon, _LAWS[name]
    moves = request.adjacency.moves(query.manifold)

    def build(allowed):
        if isinstance(moves, EllipsoidMoves):
            return _around_ball(plant, moves, horizon, half, allowed, law)
        return structured_factor(plant, moves, horizon, half, allowed, shape=law.shape, norm=law.norm)

    def loss(found):
        return loss_of(law.noise, found.shifts, moves)

    found = build(_allowed(request, name, lambda allowed: loss(build(allowed))))
    factor = free_outputs(plant, found.factor, horizon)
    noise = law.noise(factor)
    cost = noise.variance * float(np.sum(half(factor) ** 2))
    caveats = published_exactly(plant, found.factor)
    guarantee = _guarantee(query, request, loss(found), ASSUMPTIONS, caveats)
    known = request.budget.delta == 0 or name == "gaussian"  # the Laplace bound is for pure differential privacy
    design = NoiseDesign(
        Mechanism(query, noise),
        guarantee,
        cost,
        min(found.lower_bound, cost) if known else math.nan,
        worst_data_moves(query, moves, guarantee),
        found.factor,
    )
    return OutputNoise(plant, horizon, name, found.factor, None, guarantee, design)


def _around_ball(plant, moves, horizon, half, allowed, law):
    """S = E times the size that hides every direction of the ball.

    For Gaussian noise E E^T / y*^2 is below every other covariance that hides the ball. For Laplace noise the largest
    1-norm of a unit vector, sqrt(q), is hidden in each coordinate; nothing is claimed of its cost.
    """
    q = moves.factor.shape[1]
    worst = 1.0 if law.norm == 2 else math.sqrt(q)
    size = worst / allowed * (1 + 1e-13)  # above the roundings of the loss evaluated back
    cost = float(np.sum(half(free_outputs(plant, moves.factor, horizon)) ** 2)) / allowed**2
    return TangentNoise(moves.factor * size, np.eye(q) / size, cost * (1 - 1e-12) if law.norm == 2 else math.nan)


def _independent(query, request, name, half):
    plant, law = query.plant, _LAWS[name]
    moves = request.adjacency.moves(query.manifold)
    sizes, exact = _output_sizes(query, moves, law.norm)
    largest = float(sizes.max())

    def loss(allowed):
        if name == "gaussian":
            return GaussianLoss(allowed, attaining(sizes) if exact else (), exact)
        return one_coordinate(allowed)

    allowed = _allowed(request, name, loss)
    scale = float(round_up(largest / allowed, 2))
    noise = law.noise(np.full(query.size, scale))
    guarantee = _guarantee(query, request, loss(allowed), ASSUMPTIONS[1:], ())
    cost = noise.variance * scale**2 * _trace(half, query.size)
    worst = query.manifold.kernel @ _columns(moves)[:, list(attaining(sizes))]
    design = NoiseDesign(Mechanism(query, noise), guarantee, cost, math.nan, worst)
    return OutputNoise(plant, query.manifold.horizon, name, None, np.full(len(plant.C), scale), guarantee, design)


def _output_sizes(query, moves, norm):
    """Sizes ||O_T z|| of the moves (of a ball: its one bound), rounded up, and whether they are attained."""
    if hasattr(moves, "output_sizes"):
        return moves.output_sizes(query.plant.C, norm), True
    worst = moves.worst(query.response, norm)
    error = 1 + 4 * EPS * query.manifold.dimension
    if isinstance(moves, EllipsoidMoves):
        return np.array([worst.value * error]), worst.exact
    return np.linalg.norm(query.response @ moves.columns, ord=norm, axis=0) * error, moves.exact


def _columns(moves):
    return moves.factor if isinstance(moves, EllipsoidMoves) else moves.columns


def _guarantee(query, request, loss, assumptions, caveats):
    scope = Scope.of(request.adjacency, query.manifold, assumptions=assumptions, caveats=caveats)
    return quoted(PrivacyGuarantee(loss, scope), request.budget)


def _trace(half, size, block=256):
    """tr W, by columns of H in blocks."""
    columns = (np.eye(size, min(block, size - start), -start) for start in range(0, size, block))
    return sum(float(np.sum(half(part) ** 2)) for part in columns)


ASSUMPTIONS = (
    "A and C exact",
    "the noise drawn once for the horizon",
    "controller, reference, inputs and initial estimate computed without the secret",
)


def published_exactly(plant, factor):
    """What structured noise publishes exactly, for the guarantee's text."""
    caveats = ["anything but a free response of the plant, such as a disturbance during the run"]
    noisy = factor.any(axis=1)
    for _ in range(plant.order):
        noisy = noisy | (plant.A != 0)[:, noisy].any(axis=1)
    bare = [name for name, reached in zip(plant.states, noisy) if not reached]
    if np.array_equal(plant.A @ factor, factor):  # one offset for the whole horizon
        bare.append("all differences over time")
    if bare:
        caveats.append(f"{' and '.join(bare)}, which no noise covers and the outputs tell exactly")
    elif factor.shape[1] < plant.order:
        caveats.append("what lies outside the span of the noise, which the outputs tell exactly")
    return tuple(caveats)
