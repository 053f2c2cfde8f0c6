"""Loops that a trade-off compares: the cheapest one of each design for each budget."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from ..core.ball_noise import RADIAL_LAWS
from ..designs.designed import designed
from ..designs.laws import laws_for
from ..designs.output_noise import OutputNoise
from ..designs.request import Request
from ..loop.controller import Gains, ObserverFeedback
from ..loop.data import LoopData
from ..loop.lqg import constant_filter
from ..loop.moments import Expected, LoopCost
from ..loop.optimum import optimal_loop
from ..noise.process import promising
from ..numerics.linalg import smallest
from ..numerics.thresholds import LARGEST_FACTOR, ON_CIRCLE, ROUNDED
from ..privacy.budget import PrivacyBudget
from ..privacy.horizon import NO_HORIZON, Horizon
from ..privacy.loss import decimal, scaled
from ..systems.linear import Plant, spectral_radius

Result = tuple[LoopCost, LoopData]

#: Designs that promise epsilon and delta by radial noise, or by the cheapest law of all.
OTHER_LAWS = (*RADIAL_LAWS, "auto")


def evaluated(task: tuple[LoopData, Expected, str, Request]) -> Result:
    """The cheapest loop of one design for one budget, and its cost."""
    public, expected, design, request = task
    tried = _candidates(public, design, request)
    priced = [(expected.cost(loop), loop) for loop in tried]
    return min(priced, key=lambda pair: pair[0].total)


def unmeasured(loop: LoopData, samples: Horizon = NO_HORIZON) -> LoopData:
    """The observer loop that reads nothing, L = 0, with the feedback of such a run."""
    nothing = np.zeros((loop.side.order, len(loop.side.outputs)))
    return _with_filter(loop, nothing, nothing, samples)


def _with_filter(
    loop: LoopData,
    correct: NDArray[np.float64],
    advance: NDArray[np.float64],
    samples: Horizon = NO_HORIZON,
) -> LoopData:
    """The same loop with a constant observer of other gains."""
    K = loop.known_design.regulator(loop.side, loop.weights, samples)
    design = replace(loop.known_design, estimator="observer")
    gains = Gains.of(loop.side.plant, correct, advance)
    law = ObserverFeedback.of(loop.side, K, gains, loop.form)
    return replace(loop, law=law, design=design)


def _candidates(public: LoopData, design: str, request: Request) -> list[LoopData]:
    """Loops of a design for a budget, of which the cheapest is kept."""
    first = _with_request(public, design, request)
    if first.knows_noise:  # no other gains cost less
        if first.never_ends and design == "loop":
            return [first, _with_request(public, "trace", request)]
        return [first]
    tried = [first]
    silent = unmeasured(first)
    if spectral_radius(silent.dynamics.fixed) <= 1 + ON_CIRCLE:
        tried.append(silent)
    independent = designed(request, public.side.plant, family="iid-gaussian")
    step = constant_filter(public.side, public.weights, independent)
    retuned = _with_filter(public, step.correct, step.advance)
    return [*tried, _with_request(retuned, design, request)]


def _of_least_variance(request: Request, plant: Plant) -> OutputNoise:
    """Return structured noise of the law of least variance that keeps the budget."""
    tried = []
    for law in laws_for(request) or ("gaussian",):
        try:
            tried.append(designed(replace(request, family=law), plant))
        except ValueError:
            if law != "truncated":  # which is for one or two directions
                raise
    return min(tried, key=lambda noise: noise.design.cost)


def _with_request(loop: LoopData, design: str, request: Request) -> LoopData:
    """The loop with noise of a design for a request."""
    if design == "auto":
        return loop.with_noise(_of_least_variance(request, loop.side.plant))
    if design in RADIAL_LAWS:
        request = replace(request, family=design)
    if design == "laplace":
        if not request.budget.epsilon:
            raise ValueError(
                'epsilon: expected a number > 0 for the design "laplace", whose noise has '
                "delta = 0, got 0"
            )
        budget = replace(request.budget, delta=0.0)
        request = replace(request, family="laplace", budget=budget)
    if design == "iid":
        request = replace(request, family="iid-gaussian")
    plain = loop.with_noise(designed(request, loop.side.plant))
    observer = loop.observer
    is_blind = observer is None or not (observer.K.any() and observer.advance.any())
    if design in ("trace", "iid", *RADIAL_LAWS) or is_blind:
        return plain  # no noise costs a loop without feedback
    if design == "codesign":
        return optimal_loop(plain, plain.known_design.cap, progress=False)
    weight = plain if plain.knows_noise else loop
    return loop.with_noise(designed(request, loop.side.plant, weight=weight))


def with_budget(loop: LoopData, design: str, budget: PrivacyBudget) -> LoopData:
    """The loop with noise of the same design for another budget."""
    request = replace(loop.private_noise.request, budget=budget)
    return _with_request(loop, design, request)


def louder(loop: LoopData, factor: float) -> LoopData:
    """The loop with its noise times a factor, and the filter for that, to be priced.

    Nobody publishes by it: its promise is still that of the noise as it was.
    """
    noise = loop.private_noise
    parts = tuple(part.scaled(factor) for part in noise.parts)
    return loop.with_noise(promising(noise, parts=parts))


def of_shape(loop: LoopData, budget: PrivacyBudget) -> LoopData:
    """The loop with noise of the same shape for another budget, and its filter."""
    noise = loop.private_noise
    request = replace(noise.request, budget=budget, factor=noise.factor, scale=True)
    return loop.with_noise(designed(request, loop.side.plant))


def of_size(loop: LoopData, budget: PrivacyBudget) -> LoopData:
    """The loop with its own noise, as small as another budget allows, and its filter.

    It is for laws whose promise is no number that scales, and where another law, or
    another shape, would be designed for the other budget.
    """
    noise = loop.private_noise

    def keeps(factor: float) -> bool:
        loss = scaled(noise.guarantee.loss, 1 / decimal(factor))
        return loss.satisfies(budget)

    factor = smallest(keeps, 0.0, 1.0, tolerance=1e-12, limit=LARGEST_FACTOR)
    if factor == math.inf:
        raise ValueError(f"budget: no noise of this law and shape keeps {budget}")
    std = float(noise.std.max())
    sized = noise.with_std(std * factor)
    while not sized.guarantee.satisfies(budget):  # certified again, up to rounding
        factor *= 1 + ROUNDED
        sized = noise.with_std(std * factor)
    return loop.with_noise(sized)


def is_shaped(loop: LoopData) -> bool:
    """Return whether the loop's filter knows its noise, which is of a shape S."""
    return loop.knows_noise and loop.private_noise.factor is not None


def let_fall(
    found: list[Result],
    losses: NDArray[np.float64],
    delta: float,
    expected: Expected,
    design: str,
) -> None:
    """Put what a stricter budget found in the place of dearer loops of a looser one.

    Gains get noise that is designed for the looser budget. A filter that knows its
    noise has gains of its own, and gets noise of the stricter one's shape. The law of
    least variance may be another one, which costs the loop more, so the stricter one's
    law and shape are tried as well.
    """
    for stricter, looser in pairwise(np.argsort(losses)):
        _, cheaper = found[stricter]
        budget = PrivacyBudget(epsilon=float(losses[looser]), delta=delta)
        tried = []
        if not cheaper.knows_noise:
            tried.append(with_budget(cheaper, design, budget))
        elif design in ("loop", "codesign") and is_shaped(cheaper):
            tried.append(of_shape(cheaper, budget))
        if design == "auto":
            tried.append(of_size(cheaper, budget))
        priced = [(expected.cost(loop), loop) for loop in tried]
        # less noise of one shape never costs more
        found[looser] = min([found[looser], *priced], key=lambda pair: pair[0].total)
