"""Have proposed noise certified, and make output noise with a guarantee of it.

Designs propose noise and promise nothing. `finished` makes it larger until its certified
loss meets the budget, and refuses noise that would have to grow by more than a hundredth.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from ..core.mechanism import Mechanism
from ..core.noise_design import NoiseDesign, PricedByShape
from ..noise.parts import NoisePart, PartSum, Structured, noise_of_run
from ..numerics.errors import UncertifiableError
from ..numerics.linalg import EPS
from ..numerics.thresholds import LARGEST_EXCESS, SHARP
from ..privacy.budget import scale_to_budget
from ..privacy.guarantee import shown
from ..privacy.loss import PrivacyLoss, worst_moves
from ..systems.linear import LinearSystem
from .output_noise import OutputNoise
from .problem import STEEPEST, DesignProblem, Proposal
from .promised import promised
from .windowed import Weighted


@dataclass(frozen=True, eq=False)
class StationaryDesign(PricedByShape):
    """Noise without a horizon, or of low order, as it is realised, with its certificate.

    Attributes
    ----------
    part : NoisePart
        In its stationary law, next to a floor at most.
    shift : float
        Certified.
    cost, lower_bound : float
        The mean cost of a sample, and a bound of this cost for all Gaussian noise of this
        shift: for all stationary noise where a state at the start is secret.
    secret : LinearSystem or None
        From secret inputs in units of their radii to the outputs, None for many units.
    weights : Weighted or None
        Weights of hidden changes that prove the bound, where they are known.
    symmetry : str or None
        The symmetry that the design used, such as "1000 equal units".
    """

    part: NoisePart
    shift: float
    cost: float
    lower_bound: float
    secret: LinearSystem | None = None
    weights: Weighted | None = field(default=None, compare=False, repr=False)
    shapes: Callable[[], dict[str, NDArray[np.float64]]] | None = field(
        default=None, compare=False, repr=False
    )
    symmetry: str | None = None
    laws: ClassVar[tuple[()]] = ()  # only Gaussian noise is filtered and keeps its law

    @property
    def output(self) -> LinearSystem:
        """From white noise to the output noise gamma."""
        return self.part.model  # type: ignore[return-value]  # all such parts have one

    @property
    def gap(self) -> float:
        """cost / lower_bound - 1."""
        return self.cost / self.lower_bound - 1

    def __repr__(self) -> str:
        numbers = f"cost={self.cost:.6g}, gap={shown(self.gap)}"
        return f"StationaryDesign({self.part}, {numbers})"


def finished(problem: DesignProblem, sized: Proposal) -> OutputNoise:
    """Return output noise with the guarantee that its parts are certified to keep."""
    plant, request = problem.plant, problem.request
    sized, loss = _within_budget(problem, sized)
    guarantee = promised(plant, request, sized.parts, loss)
    known = math.nan if request.secret.is_covered else sized.lower_bound
    bound = min(known, sized.cost)  # above by rounding, or NaN
    design: NoiseDesign | StationaryDesign
    if sized.filter is not None:
        design = StationaryDesign(
            sized.parts[0],
            loss.shift,
            sized.cost,
            bound,
            sized.filter.secret,
            sized.filter.weights,
            symmetry=sized.filter.symmetry,
        )
    else:
        noise = noise_of_run(sized.parts, problem.horizon, problem.law)
        structured = PartSum(sized.parts).part(Structured)
        design = NoiseDesign(
            Mechanism(problem.query, noise),
            guarantee,
            sized.cost,
            bound,
            _attained(problem, loss),
            None if structured is None else structured.factor,
            unit_bound=_unit_bound(problem, sized, bound),
            budget=problem.budget,
            releases=request.releases,
        )
    return OutputNoise(
        plant,
        request.horizon,
        problem.law,
        sized.parts,
        guarantee,
        design,
        request,
        kept=request.bound,
    )


def _unit_bound(problem: DesignProblem, sized: Proposal, bound: float) -> float:
    """Return the least cost of Gaussian noise that hides moves with a shift of one.

    NaN where it is not known, or something else is part of every noise.
    """
    if problem.floor_std.any() or problem.request.secret.is_covered:
        return math.nan
    if problem.law == "gaussian":
        return bound * problem.allowed**2 * (1 - 1e-15)
    return sized.unit_bound


def _within_budget(
    problem: DesignProblem, sized: Proposal
) -> tuple[Proposal, PrivacyLoss]:
    """Return noise that is certified to meet its budget, and its loss.

    Designs propose noise that meets it but for rounding, by which it grows here.
    """
    request = problem.request

    def evaluated(gain: float) -> tuple[tuple[Proposal, PrivacyLoss], float]:
        grown = sized if gain == 1 else sized.grown(gain)
        loss = problem.certify(grown.parts)
        if loss.released(request.releases).satisfies(problem.budget):
            return (grown, loss), 1.0
        least = SHARP if problem.is_radial else EPS
        excess = max(problem.excess(loss), 1 + least)
        return (grown, loss), 1 + STEEPEST * (excess - 1)  # a floor keeps its size

    most = 1 + STEEPEST * LARGEST_EXCESS
    found, _, excess = scale_to_budget(evaluated, 1.0, largest_excess=most)
    if not excess <= 1:
        raise UncertifiableError(
            f"the noise exceeds its budget by {excess - 1:.1e} when it is certified: the "
            "hidden moves are too far apart in size for double precision; protect fewer "
            "times, shorten the horizon, or add a white floor (floor=...)"
        )
    return found


def _attained(problem: DesignProblem, loss: PrivacyLoss) -> NDArray[np.float64] | None:
    """Return tangent moves (k, s) that attain a loss, where they are known."""
    secrets = problem.request.secret.parts
    worst = worst_moves(loss)
    is_ball = loss.attained and len(secrets) == 1 and problem.hidden.is_ball
    if not worst and not is_ball:
        return None
    return problem.hidden.attained(worst)
