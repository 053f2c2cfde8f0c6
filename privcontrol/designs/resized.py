"""Output noise of another size, with the guarantee that this size buys."""

from __future__ import annotations

from dataclasses import replace
from typing import TypeVar

from ..core.mechanism import Mechanism
from ..core.noise_design import NoiseDesign
from ..noise.parts import Radial, noise_of_run
from ..noise.process import SummedNoise, promising
from ..numerics.checks import positive_number
from ..numerics.linalg import float_above
from ..privacy.budget import PrivacyBudget
from ..privacy.loss import by_kind
from .guarantees import beside_miss, own_loss

NoiseT = TypeVar("NoiseT", bound=SummedNoise)


def resized(noise: NoiseT, std: float) -> NoiseT:
    """Return noise whose largest standard deviation is ``std``, certified again.

    Its budget is the loss of all releases.

    Raises
    ------
    ValueError
        If the noise records no adjacency, is filtered or within a bound, or ends within a
        hidden move at this size.
    """
    if noise.kept is not None:
        raise ValueError(
            "with_std: noise within a bound leaks another share at another size; "
            "design it again"
        )
    gain = positive_number(std, "std") / float(noise.std.max())
    if not 1e-100 < gain < 1e100:
        raise ValueError(
            f"std: expected a size near that of the noise, {noise.std.max():.3g}, "
            f"got {std:.3g}"
        )
    request = noise.request
    if request is None:
        raise ValueError("this noise records no adjacency; design it again")
    old = noise.design
    if not isinstance(old, NoiseDesign):
        raise ValueError(
            "with_std: filtered noise is not scaled here; the standard deviation is "
            "inversely proportional to the gdp of a budget, so design for "
            "PrivacyBudget(gdp=...)"
        )
    parts = tuple(part.scaled(gain) for part in noise.parts)
    scaled = promising(noise, parts=parts)
    loss = beside_miss(noise.guarantee, own_loss(scaled))
    together = loss.released(request.releases)
    delta = request.budget.delta if len(by_kind(loss)) > 1 else 0.0
    if noise.process.total.part(Radial) is not None and not noise.process.is_mixed:
        delta = together.failure  # within a bound it may fail openly
        if delta >= 1:
            raise ValueError(
                f"std: noise of {std:.3g} ends within the hidden move, and hides "
                'nothing; choose a larger one, or design family="ball"'
            )
    if delta or noise.family != "gaussian":
        least = float_above(together.epsilon(delta), 2)
        budget = PrivacyBudget(epsilon=max(least, 1e-9), delta=delta)
    else:
        budget = PrivacyBudget(gdp=together.gdp)
    guarantee = replace(noise.guarantee, loss=loss)
    tangent = old.tangent_factor
    lower_bound = old.lower_bound * gain**2
    design = replace(
        old,
        mechanism=Mechanism(
            old.mechanism.query,
            noise_of_run(parts, noise.process.samples, noise.family),
        ),
        guarantee=guarantee,
        cost=old.cost * gain**2,
        lower_bound=lower_bound,
        tangent_factor=None if tangent is None else tangent * gain,
        budget=budget,
    )
    request = replace(request, budget=budget)
    return promising(scaled, guarantee=guarantee, design=design, request=request)
