"""Refuse designs that are of no use, and say what would help instead.

Noise that hides a state at any time of a long run may be a thousand times what the same
secret at t = 0 needs. Whoever asks for that usually means something else.
"""

import math
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
from ..trajectory.modes import Mode, modes
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
    request: "NoiseRequest",
    max_std: ArrayLike | Mapping[str, float] | None,
    design: Design | None = None,
) -> None:
    """Refuse noise above ``max_std``, by default noise that is absurd."""
    if max_std is not None:
        _check_limit(noise, _limits(max_std, noise.plant))
        return
    initial = _at_first_sample(request.adjacency)
    if design is None or initial is None or not _may_be_absurd(noise, request):
        return
    least = design(replace(request, adjacency=initial)).std
    excess = _excess(noise, least)
    if excess > _ABSURD:
        raise PrivacyError(_explanation(noise, request, least, excess, design))


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
    guarantee = noise.guarantee
    if noise.family == "laplace":
        return f"epsilon = {guarantee.epsilon(0.0) * ratio:.3g}"
    shift = guarantee.gdp * ratio
    delta = guarantee.quoted_delta
    if noise.request.budget.gdp is not None or not delta:
        return f"a budget of gdp = {shift:.3g}"
    return f"epsilon = {GaussianLoss(shift).epsilon(delta):.3g} at delta = {delta:g}"


# -- the limit by default ----------------------------------------------------------------


def _at_first_sample(adjacency: Adjacency) -> Adjacency | None:
    """The same secret at t = 0, or None if it is already that."""
    late = [part for part in adjacency.parts if getattr(part, "times", None) != (0,)]
    if not any(isinstance(part, StateAdjacency) for part in late):
        return None
    return _of_states(adjacency, lambda part: {"times": (0,), "charts": "times"})


def _of_states(
    adjacency: Adjacency, changes: Callable[[StateAdjacency], dict[str, Any]]
) -> Adjacency:
    """The same secret, with changes of its parts that are about states."""
    parts = []
    for part in adjacency.parts:
        if isinstance(part, StateAdjacency):
            part = replace(part, **changes(part))
        parts.append(part)
    return parts[0] if len(parts) == 1 else JointAdjacency(parts)


def _may_be_absurd(noise: OutputNoise, request: "NoiseRequest") -> bool:
    """Whether the noise is that much above what some protected move at t = 0 needs.

    Noise that hides a response s with the shift y has at least the standard deviation
    |s| / y at every output and sample.
    """
    sizes = np.zeros(noise.outputs)
    for part in request.adjacency.parts:
        if isinstance(part, StateAdjacency):
            sizes = np.maximum(sizes, _moved_outputs(noise.plant, part, noise.horizon))
    if noise.family == "laplace":
        allowed = noise.guarantee.epsilon(0.0)
    else:
        allowed = noise.guarantee.gdp
    least = sizes / allowed
    return not least.any() or _excess(noise, least) > _ABSURD


def _moved_outputs(plant: Plant, part: StateAdjacency, horizon: int) -> NDArray:
    """The largest change (p,) of each output by a protected move at t = 0."""
    states = part.moves_at_first_sample(plant)
    largest = np.zeros(len(plant.C))
    with np.errstate(over="ignore", invalid="ignore"):
        for _ in range(min(horizon, plant.order)):
            largest = np.maximum(largest, np.abs(plant.C @ states).max(axis=1))
            states = plant.A @ states
    return largest


def _excess(noise: OutputNoise, least: NDArray) -> float:
    known = least > 0
    if not known.any():
        return 0.0
    return float((noise.std[known] / least[known]).max())


def _explanation(
    noise: OutputNoise,
    request: "NoiseRequest",
    least: NDArray,
    excess: float,
    design: Design,
) -> str:
    def meets(**changes: Any) -> bool:
        try:
            other = design(replace(request, **changes))
        except (UncertifiableError, PrivacyError, ValueError):
            return False
        return _excess(other, least) <= _ABSURD

    def up_to(count: int) -> Adjacency:
        return _of_states(
            request.adjacency,
            lambda part: {"times": (part.times or range(count))[:count]},
        )

    advice = []
    if all(getattr(part, "times", None) is None for part in request.adjacency.parts):
        horizon = _largest(lambda T: meets(horizon=T), noise.horizon)
        if horizon:
            advice.append(f"horizon={horizon} would do")
    times = _largest(lambda J: meets(adjacency=up_to(J)), noise.horizon)
    if times == 1:
        advice.append("times=0 would do (StateAdjacency(..., times=0))")
    elif times:
        advice.append(f"times=range({times}) would do (StateAdjacency(..., times=...))")
    return (
        f"the noise is {excess:.2g} times that which hides the same secret at t = 0"
        f"{_blame(noise, request)}. {'; '.join(advice) or 'Protect other states'}. A secret "
        "that enters during the run is a DisturbanceAdjacency, for which there is noise "
        "that lasts as well (horizon=np.inf). max_std=np.inf designs this noise all the "
        "same"
    )


def _largest(meets: Callable[[int], bool], most: int) -> int:
    """The largest count up to ``most`` that meets a limit which larger ones exceed."""
    if not meets(1):
        return 0
    low = 1
    high = 2
    while high < most and meets(high):
        low = high
        high = 2 * high
    high = min(high, most)
    while high - low > 1:
        middle = (low + high) // 2
        if meets(middle):
            low = middle
        else:
            high = middle
    return low


def _blame(noise: OutputNoise, request: "NoiseRequest") -> str:
    """The mode that makes the noise large, in words."""
    found: list[Mode] = []
    for part in request.adjacency.parts:
        if isinstance(part, StateAdjacency):
            found += modes(noise.plant, part, [noise.horizon])
    if not found:
        return ""
    worst = max(found, key=lambda mode: mode.sizes[-1])
    return f", because of the {worst.kind} mode {worst.name}"
