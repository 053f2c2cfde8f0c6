"""Refuse designs that are of no use, and say what would help instead.

Noise that hides a state at any time of a long run may be a thousand times what the same
secret at t = 0 needs. Whoever asks for that usually means something else.
"""

import math
from bisect import bisect_left
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..core._linalg import real_array
from ..core.adjacency import Adjacency
from ..core.errors import PrivacyError, UncertifiableError
from ..core.loss import GaussianLoss
from ..trajectory.adjacency import StateAdjacency
from ..trajectory.disturbance import JointAdjacency
from ..trajectory.modes import Mode, first_moves, modes
from ..trajectory.plant import Plant
from .output_noise import OutputNoise

if TYPE_CHECKING:
    from .design import NoiseRequest

#: Designs noise for a request, with the same plant and weight.
Design = Callable[["NoiseRequest"], OutputNoise]

#: Noise this many times that of the same secret at t = 0 is refused by default.
_ABSURD = 1e3


def check_size(
    noise: OutputNoise,
    max_std: ArrayLike | Mapping[str, float] | None,
    excess: float,
    design: Design,
) -> None:
    """Refuse noise above ``max_std``, by default noise that is absurd.

    ``excess`` is that of `excess_over_first_moves`.
    """
    if max_std is not None:
        _check_limit(noise, _limits(max_std, noise.plant))
        return
    if excess <= _ABSURD:
        return
    adjacency = noise.request.adjacency
    if all(part.times == (0,) for part in _of_states(adjacency)):
        return
    first = _changed(adjacency, lambda part: {"times": (0,), "charts": "times"})
    least = design(replace(noise.request, adjacency=first)).std
    excess = _excess(noise, least)
    if excess > _ABSURD:
        raise PrivacyError(_explanation(noise, least, excess, design))


def excess_over_first_moves(noise: OutputNoise) -> float:
    """How many times larger the noise is than its secret's states at t = 0 need.

    That is an upper bound, infinite where no output shows these states at once, and zero
    without a horizon. Noise that hides a response s with the shift y has at least the
    standard deviation |s| / y at every output and sample.
    """
    if noise.horizon == math.inf:
        return 0.0
    plant = noise.plant
    sizes = np.zeros(noise.outputs)
    with np.errstate(over="ignore", invalid="ignore"):
        for part in noise.request.adjacency.parts:
            states = first_moves(part, plant, noise.horizon)
            for _ in range(min(noise.horizon, plant.order)):
                moved = np.abs(plant.C @ states).max(axis=1, initial=0.0)
                sizes = np.maximum(sizes, moved)
                states = plant.A @ states
    if not sizes.any():
        return math.inf
    loss = noise.guarantee.loss.parts[0]  # beside what a region may miss
    allowed = loss.pure if noise.family == "laplace" else loss.gdp
    return _excess(noise, sizes / allowed)


def _excess(noise: OutputNoise, least: NDArray) -> float:
    """The largest ratio of the noise's standard deviations to others (p,)."""
    known = least > 0
    return float((noise.std[known] / least[known]).max(initial=0.0))


# -- a limit that the user gives ---------------------------------------------------------


def _limits(max_std: ArrayLike | Mapping[str, float], plant: Plant) -> NDArray:
    """Limits (p,), infinite where there is none."""
    outputs = plant.outputs
    if isinstance(max_std, Mapping):
        unknown = [str(name) for name in max_std if name not in outputs]
        if unknown:
            raise ValueError(
                f"max_std: {', '.join(unknown)} is no output of the plant; known outputs: "
                f"{', '.join(outputs)}"
            )
        max_std = [max_std.get(name, math.inf) for name in outputs]
    try:
        limits = np.asarray(max_std)
        infinite = limits == math.inf
    except Exception:  # an array's own text may show what it holds
        limits = np.empty(0)
        infinite = limits
    finite = real_array(np.where(infinite, 1.0, limits), "max_std")
    if not (finite > 0).all() or not finite.size:
        raise ValueError("max_std: expected numbers > 0")
    if finite.shape not in ((), (len(outputs),)):
        raise ValueError(
            f"max_std: expected one number, or {len(outputs)} of them, one per output, "
            f"got shape {finite.shape}"
        )
    return np.broadcast_to(np.where(infinite, math.inf, finite), len(outputs))


def _check_limit(noise: OutputNoise, limits: NDArray) -> None:
    ratios = noise.std / limits
    worst = int(ratios.argmax())
    ratio = float(ratios[worst])
    if ratio <= 1 + 1e-12:
        return
    raise PrivacyError(
        f"max_std: the noise at {noise.plant.outputs[worst]} has a standard deviation of "
        f"{noise.std[worst]:.4g} where {limits[worst]:.4g} is the limit. A radius "
        f"{1 / ratio:.3g} times as large meets it, or {_looser_budget(noise, ratio)}; so "
        "may fewer protected times (StateAdjacency(times=...)), or a DisturbanceAdjacency "
        "if the secret enters during the run"
    )


def _looser_budget(noise: OutputNoise, ratio: float) -> str:
    """A budget under which noise ``ratio`` times smaller is enough, in words."""
    request = noise.request
    loss = noise.guarantee.loss.parts[0].repeated(request.releases)
    if noise.family == "laplace":
        return f"epsilon = {loss.pure * ratio:.3g}"
    shift = loss.gdp * ratio
    budget = request.without_miss().budget
    if budget.gdp is not None:
        return f"a budget of gdp = {shift:.3g}"
    epsilon = GaussianLoss(shift).epsilon(budget.delta)
    return f"epsilon = {epsilon:.3g} at delta = {budget.delta:g}"


# -- what would help against absurd noise ------------------------------------------------


def _of_states(adjacency: Adjacency) -> list[StateAdjacency]:
    """The parts that are about states at some times."""
    return [part for part in adjacency.parts if isinstance(part, StateAdjacency)]


def _changed(
    adjacency: Adjacency, changes: Callable[[StateAdjacency], dict[str, Any]]
) -> Adjacency:
    """The same secret, with changes of its parts that are about states."""
    parts = []
    for part in adjacency.parts:
        if isinstance(part, StateAdjacency):
            part = replace(part, **changes(part))
        parts.append(part)
    return parts[0] if len(parts) == 1 else JointAdjacency(parts)


def _explanation(
    noise: OutputNoise, least: NDArray, excess: float, design: Design
) -> str:
    request = noise.request

    def largest(changes: Callable[[int], dict[str, Any]]) -> int:
        """The largest count for which a changed request gives useful noise."""

        def is_absurd(count: int) -> bool:
            try:
                other = design(replace(request, **changes(count)))
            except (UncertifiableError, PrivacyError, ValueError):
                return True
            return _excess(other, least) > _ABSURD

        return bisect_left(range(1, noise.horizon), True, key=is_absurd)

    def first_times(count: int) -> dict[str, Any]:
        adjacency = _changed(
            request.adjacency,
            lambda part: {"times": (part.times or range(count))[:count]},
        )
        return {"adjacency": adjacency}

    advice = []
    if all(getattr(part, "times", None) is None for part in request.adjacency.parts):
        horizon = largest(lambda count: {"horizon": count})
        if horizon:
            advice.append(f"horizon={horizon} would do")
    times = largest(first_times)
    if times == 1:
        advice.append("times=0 would do (StateAdjacency(..., times=0))")
    elif times:
        advice.append(f"times=range({times}) would do (StateAdjacency(..., times=...))")
    return (
        f"the noise is {excess:.2g} times that which hides the same secret at t = 0"
        f"{_blame(noise)}. {'; '.join(advice) or 'Protect other states'}. A secret "
        "that enters during the run is a DisturbanceAdjacency, for which there is noise "
        "that lasts as well (horizon=np.inf). max_std=np.inf designs this noise all the "
        "same"
    )


def _blame(noise: OutputNoise) -> str:
    """The mode that makes the noise large, in words."""
    found: list[Mode] = []
    for part in _of_states(noise.request.adjacency):
        found += modes(noise.plant, part, [noise.horizon])
    if not found:
        return ""
    worst = max(found, key=lambda mode: mode.sizes[-1])
    return f", because of the {worst.kind} mode {worst.name}"
