"""Plants that vary in a known way: a list of StateSpaces, one for each sample.

The matrices (A_t, B_t, C_t, D_t) are public and functions of nothing secret, such as the
stages of a recipe, or a nonlinear plant's linearisations along a public trajectory. A list
of equal plants is that plant. Everything that varies with what is measured is another
matter, and belongs to a region of plants.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self, TypeAlias

import control as ct
import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..numerics.checks import positive_integer, positive_number, real_array
from .linear import Plant, Stacks, VaryingSystem

#: A plant, or one for each sample.
Plants: TypeAlias = ct.StateSpace | Sequence[ct.StateSpace]

_KINDS = ("states", "inputs", "outputs")

#: Samples of a period up to which a plant is lifted: outputs and inputs become as many times
#: more, and the time of a design grows with their cube.
MOST_LIFTED = 24


@dataclass(frozen=True, eq=False, repr=False)
class VaryingPlant(VaryingSystem, Plant):
    """A plant whose matrices are known at each sample; see `VaryingSystem`."""

    def __repr__(self) -> str:
        return (
            f"VaryingPlant({self.name!r}: {self.samples} samples, {self.order} states)"
        )

    def over(self, horizon: int) -> VaryingPlant:
        """Return the plant of a run, its samples again and again."""
        if horizon == self.samples:
            return self
        turn = np.arange(horizon) % self.samples
        A, B, C, D = (matrices[turn] for matrices in self.along)
        return _like(self, (A, B, C, D))

    def lifted(self) -> Plant:
        """Return the constant plant whose sample is one period.

        Its inputs and outputs are those of each sample of the period, "y@0", "y@1" and so
        on, and its state is that of the period's first sample.

        Raises
        ------
        ValueError
            If the period is longer than `MOST_LIFTED` samples.
        """
        count = self.samples
        if count > MOST_LIFTED:
            raise ValueError(
                "horizon: noise without one takes a period as one sample, with outputs and "
                f"inputs for each of its samples, of which there may be {MOST_LIFTED}, got "
                f"{count} plants in the list; pass the number of samples of a run, with "
                f"period={count} if the list begins again"
            )
        order, inputs, outputs = self.order, self.input_count, self.output_count
        to_state = np.eye(order)  # from the period's first state
        entered = np.zeros((order, count * inputs))  # from its inputs
        seen, fed = [], []
        for t, (A, B, C, D) in enumerate(zip(*self.along, strict=True)):
            now = slice(t * inputs, (t + 1) * inputs)
            seen.append(C @ to_state)
            through = C @ entered
            through[:, now] += D
            fed.append(through)
            to_state = A @ to_state
            entered = A @ entered
            entered[:, now] += B
        return Plant(
            to_state,
            entered,
            np.reshape(seen, (count * outputs, order)),
            np.reshape(fed, (count * outputs, count * inputs)),
            dt=self.dt if self.dt is True else self.dt * count,
            name=f"{self.name}_lifted",
            states=self.states,
            inputs=at_each_sample(self.inputs, count),
            outputs=at_each_sample(self.outputs, count),
        )

    def without_signs(self) -> VaryingPlant:
        A, B, C, D = self.along
        return _like(self, (np.abs(A), B, C, D))

    def statespace(self) -> Any:
        """Return a python-control system for each sample, those that are equal only once."""
        made: dict[bytes, ct.StateSpace] = {}
        systems = []
        for t in range(self.samples):
            now = self._plant_at(t)
            content = b"".join(matrix.tobytes() for matrix in now.matrices)
            if content not in made:
                made[content] = now.statespace()
            systems.append(made[content])
        return systems

    def _plant_at(self, t: int) -> Plant:
        """Return the plant of sample t, which stays so."""
        return Plant(*self.at(t).matrices, dt=self.dt, name=self.name, **_names(self))

    @classmethod
    def _restored(cls, saved: dict[str, Any]) -> Self:
        along = tuple(_frozen(matrices) for matrices in saved["along"])
        if len(along) != 4:
            raise ValueError("path: expected four matrices for each sample of a plant")
        return super()._restored(saved | {"along": along})

    @property
    def fingerprint(self) -> str:
        """The first twelve hexadecimal digits of a SHA-256 sum of matrices, time and names."""
        digest = hashlib.sha256(b"varying")
        for matrices in self.along:
            digest.update(repr(matrices.shape).encode())
            digest.update(np.ascontiguousarray(matrices + 0.0).tobytes())
        digest.update(repr((self.dt, *_names(self).values())).encode())
        return digest.hexdigest()[:12]

    def elsewhere(self, name: object) -> str:
        return self._plant_at(0).elsewhere(name)

    def differences(self, other: Plant) -> list[str]:
        if not isinstance(other, VaryingPlant):
            return ["number of samples (a list in place of one plant)"]
        if self.samples != other.samples:
            return [f"number of samples ({self.samples} in place of {other.samples})"]
        found = self._plant_at(0).differences(other._plant_at(0))
        for name, mine, theirs in zip("ABCD", self.along, other.along, strict=True):
            if name not in found and not np.array_equal(mine, theirs):
                found.append(name)
        return found


def at_each_sample(names: Sequence[str], count: int) -> tuple[str, ...]:
    """Return the names of signals at each sample of a period, sample by sample."""
    return tuple(f"{name}@{t}" for t in range(count) for name in names)


def period_of(names: Sequence[str]) -> int:
    """Return of how many samples a period is that takes such outputs as one, else one."""
    last, mark, sample = names[-1].rpartition("@") if names else ("", "", "")
    if not (mark and last and sample.isdecimal()):
        return 1
    count = int(sample) + 1
    first = [name.removesuffix("@0") for name in names[: len(names) // count]]
    return count if tuple(names) == at_each_sample(first, count) else 1


def _frozen(array: NDArray[np.float64]) -> NDArray[np.float64]:
    array.flags.writeable = False
    return array


def _names(plant: Plant) -> dict[str, tuple[str, ...]]:
    """Return the names of a plant's states, inputs and outputs."""
    return {kind: getattr(plant, kind) for kind in _KINDS}


def _like(plant: Plant, stacks: Stacks) -> VaryingPlant:
    """Return the plant that has these matrices, and is else like another."""
    A, B, C, D = map(_frozen, stacks)
    return VaryingPlant(
        along=(A, B, C, D), dt=plant.dt, name=plant.name, **_names(plant)
    )


def _of_list(systems: Sequence[ct.StateSpace]) -> Plant:
    """Return the plant of a list, which is constant if all are equal."""
    if not len(systems):
        raise ct.ControlArgument(
            "sys: expected at least one plant in the list, got none"
        )
    known: dict[int, Plant] = {}  # often the same objects come again and again
    plants = []
    for t, system in enumerate(systems):
        if id(system) not in known:
            known[id(system)] = _sample_of(system, t)
        plants.append(known[id(system)])
    first = plants[0]
    for t, plant in enumerate(plants):
        if plant is not first:
            _check_fits(plant, first, t)
    every = zip(*(plant.matrices for plant in plants), strict=True)
    A, B, C, D = (np.stack(matrices) for matrices in every)
    if all((matrices == matrices[0]).all() for matrices in (A, B, C, D)):
        return first
    return _like(first, (A, B, C, D))


def _sample_of(system: object, t: int) -> Plant:
    """Return the plant of a sample of a list, or an error that names the sample."""
    if isinstance(system, list | tuple):
        raise ct.ControlArgument(
            f"sys: expected a StateSpace at sample {t} of the list, got a list; models= "
            "takes lists of plants, one list for each model"
        )
    try:
        return Plant.of(system)
    except (ct.ControlArgument, ValueError) as error:
        text = str(error).removeprefix("sys: ")
        raise type(error)(f"sys: sample {t} of the list: {text}") from None


def _check_fits(plant: Plant, first: Plant, t: int) -> None:
    """Refuse a plant of another sampling time or with other names than the first one."""
    if plant.dt != first.dt:
        raise ct.ControlArgument(
            f"sys: expected one sampling time in the list, got dt = {first.dt} at sample 0 "
            f"and dt = {plant.dt} at sample {t}; sample all plants with one dt"
        )
    for kind in _KINDS:
        mine, theirs = getattr(plant, kind), getattr(first, kind)
        if mine != theirs:
            raise ct.ControlDimension(
                f"sys: expected the same {kind} at each sample of the list, got "
                f"{', '.join(theirs) or 'none'} at sample 0 and "
                f"{', '.join(mine) or 'none'} at sample {t}; give them equal names, "
                f"sys.update_names({kind}=[...])"
            )


def repeated(plant: Plant, samples: int) -> VaryingPlant:
    """Return a constant plant as one that varies, over some samples."""
    A, B, C, D = (np.stack([matrix] * samples) for matrix in plant.matrices)
    return _like(plant, (A, B, C, D))


def plant_of(
    sys: Plants | Plant,
    horizon: float | None = None,
    period: int | None = None,
    name: str = "sys",
) -> Plant:
    """Return the plant of a StateSpace, or of a list with one for each sample of a run.

    Parameters
    ----------
    sys : control.StateSpace or list of control.StateSpace
    horizon : int, inf or None
        Number of samples of the run. A list has as many plants. None asks for no number.
    period : int, optional
        Number of plants in a list that begins again until the horizon.

    Raises
    ------
    control.ControlArgument
        If the list is empty, or holds something else than discrete-time StateSpaces of
        one sampling time.
    control.ControlDimension
        If two of them have other names of states, inputs or outputs.
    ValueError
        If a list has another number of plants.
    """
    if isinstance(sys, Plant):
        return sys
    if not isinstance(sys, list | tuple):
        if period is not None:
            raise ValueError(
                "period: it repeats a list of plants, and this is one plant; leave it out"
            )
        return Plant.of(sys)
    plant = _of_list(sys)
    count = len(sys)
    if period is not None and positive_integer(period, "period") != count:
        raise ValueError(
            f"period: expected the number of plants in the list, {count}, got {period}"
        )
    is_run = horizon is not None and horizon != np.inf
    if is_run and period is None and count != horizon:
        raise ValueError(
            f"{name}: expected a list of {horizon} plants, one for each sample of the "
            f"horizon, got {count}; pass horizon={count}, or period={count}, which "
            "repeats them over a longer run"
        )
    if is_run and isinstance(plant, VaryingPlant):
        return plant.over(int(horizon or 0))
    return plant


def along(
    sys: ct.NonlinearIOSystem,
    states: ArrayLike,
    inputs: ArrayLike,
    *,
    dt: float | None = None,
) -> list[ct.StateSpace]:
    """Linearise a nonlinear plant along a trajectory, one StateSpace for each sample.

    Functions that take a plant over a horizon take the list. It describes deviations
    from the trajectory to first order, x(t) = states(t) + e(t), so the guarantee of
    noise that is designed for it holds for the *linearised* plant, whose matrices are
    taken as exact. A trajectory that depends on the secret gives it away: it must be
    public.

    The list promises nothing for the nonlinear plant itself. To cover it, bound its
    Jacobian over a region that surely holds all runs: ``models=jacobian_polytope(sys,
    region)`` with a floor. That noise is larger, since it hides the secret under every
    sequence of plants of the region, this one included.

    Parameters
    ----------
    sys : control.NonlinearIOSystem
        In discrete time, or in continuous time with ``dt``.
    states : array_like, shape (n, T)
        States x(0) .. x(T-1) of the trajectory.
    inputs : array_like, shape (m, T)
        Inputs u(0) .. u(T-1).
    dt : float, optional
        Sampling time of a continuous plant, in seconds. Each linearisation is sampled
        exactly, with inputs that are constant between samples.

    Returns
    -------
    list of control.StateSpace
        T plants with the names of ``sys``.

    Raises
    ------
    control.ControlArgument
        If ``sys`` is no NonlinearIOSystem, or dt is missing or not needed.
    control.ControlDimension
        If states and inputs have other shapes.
    ValueError
        If a linearisation is not finite.

    See Also
    --------
    sample_nonlinear, jacobian_polytope, design_output_noise

    Notes
    -----
    The Jacobians come from ``sys.linearize``, by finite differences with an error of
    about 1e-6 of their size.

    Examples
    --------
    A car at constant speed, whose heading turns:

    >>> import control as ct, numpy as np, privcontrol as pc
    >>> def move(t, x, u, params):
    ...     return np.array([x[0] + np.cos(x[2]), x[1] + np.sin(x[2]), x[2] + u[0]])
    >>> car = ct.nlsys(move, lambda t, x, u, params: x[:2], dt=1.0, inputs=["steering"],
    ...                states=["east", "north", "heading"], outputs=["x", "y"])
    >>> heading = 0.1 * np.arange(20)
    >>> path = np.array([np.cumsum(np.cos(heading)), np.cumsum(np.sin(heading)), heading])
    >>> curve = pc.along(car, path, np.full((1, 20), 0.1))
    >>> len(curve), curve[5].A.round(3)[:2, 2]
    (20, array([-0.479,  0.878]))
    """
    if not isinstance(sys, ct.NonlinearIOSystem) or isinstance(sys, ct.StateSpace):
        raise ct.ControlArgument(
            f"sys: expected a NonlinearIOSystem such as ct.nlsys makes, got "
            f"{type(sys).__name__}; a linear plant is its own linearisation"
        )
    is_continuous = sys.dt == 0
    if is_continuous == (dt is None):
        raise ct.ControlArgument(
            "dt: expected the sampling time of a plant in continuous time, and none for "
            f"one in discrete time, got dt = {dt} for a plant with dt = {sys.dt}"
        )
    if sys.dt is None:
        raise ct.ControlArgument(
            "sys: expected a plant with a time, got dt = None; state dt in ct.nlsys"
        )
    points = real_array(states, "states")
    driven = real_array(inputs, "inputs")
    if points.ndim != 2 or driven.ndim != 2:
        raise ct.ControlDimension(
            f"states, inputs: expected the trajectory, of shapes ({sys.nstates}, T) and "
            f"({sys.ninputs}, T), got {points.shape} and {driven.shape}; of a start and "
            "inputs ct.input_output_response(sys, times, inputs, start).states makes it"
        )
    shapes = ((sys.nstates, points.shape[1]), (sys.ninputs, points.shape[1]))
    if (points.shape, driven.shape) != shapes or not points.shape[1]:
        raise ct.ControlDimension(
            f"states, inputs: expected shapes ({sys.nstates}, T) and ({sys.ninputs}, T), "
            f"got {points.shape} and {driven.shape}"
        )
    step = None if dt is None else positive_number(dt, "dt")
    found = []
    for t, (point, entering) in enumerate(zip(points.T, driven.T, strict=True)):
        found.append(_linearised(sys, t, point, entering, step))
    return found


def _linearised(
    sys: ct.NonlinearIOSystem,
    t: int,
    point: NDArray[np.float64],
    entering: NDArray[np.float64],
    step: float | None,
) -> ct.StateSpace:
    """Return the linearisation at a sample."""
    period = step
    if period is None:
        period = 1.0 if sys.dt is True else float(sys.dt)
    time = t * period
    try:
        linear = sys.linearize(point, entering, t=time, copy_names=True)
    except Exception as error:  # its text may show the state
        raise ValueError(
            f"sys: its functions raised {type(error).__name__} at sample {t} of the "
            "trajectory; check that states and inputs are where they are defined"
        ) from None
    if step is not None:
        linear = linear.sample(step, copy_names=True)
    matrices = (linear.A, linear.B, linear.C, linear.D)
    if not all(np.isfinite(matrix).all() for matrix in matrices):
        raise ValueError(
            f"sys: its linearisation at sample {t} is not finite; pass a trajectory on "
            "which the plant is differentiable"
        )
    named = {
        "states": list(sys.state_labels),
        "inputs": list(sys.input_labels),
        "outputs": list(sys.output_labels),
    }
    return ct.ss(*matrices, sys.dt if step is None else step, name=sys.name, **named)
