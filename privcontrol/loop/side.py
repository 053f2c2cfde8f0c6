"""The plant's side of a loop, and what a user passes to one, checked once.

A plant is seen as the loop's recursion does, some inputs of which are driven. Arrays of
signals are (signals, runs). The controller and the noise of a loop around a nonlinear
plant belong to a linearisation of it, and the nonlinear one is simulated. The guarantee
is the one of the noise over the polytope of the plant's Jacobians, and says nothing of
runs that leave its region.

Messages name shapes, types and public numbers. They never show an entry of a signal,
nor the text of an exception that somebody else's code raised.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ParamSpec, TypeAlias, TypedDict, TypeVar, Unpack

import control as ct
import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..designs.output_noise import OutputNoise
from ..numerics.arguments import helpful_arguments
from ..numerics.checks import quoted, real_array
from ..numerics.errors import warn_user
from ..numerics.linalg import product
from ..numerics.objects import ByContent, freeze_arrays
from ..numerics.saved import Saved
from ..regions.jacobian import JacobianPolytope, Region
from ..systems.linear import Plant, SampledSystem, root, semidefinite, singular_root
from ..systems.nonlinear import NonlinearPlant
from ..systems.varying import Plants, VaryingPlant, plant_of

P = ParamSpec("P")
Answer = TypeVar("Answer")
Value = TypeVar("Value")


class RunSignals(TypedDict, total=False):
    """The signals of a run, as `PrivateLoop.simulate` describes them."""

    feedforward: ArrayLike | None
    initial_state: ArrayLike | str | None
    initial_estimate: ArrayLike | None
    disturbance: ArrayLike | str | None
    measurement_noise: ArrayLike | str | None
    exogenous: Mapping[str, ArrayLike] | None


class WeightOptions(TypedDict, total=False):
    """Weights and covariances of a loop, as `private_loop` describes them."""

    Q: ArrayLike | None
    R: ArrayLike | None
    QN: ArrayLike | None
    RN: ArrayLike | None
    G: ArrayLike | None
    N: ArrayLike | None


_PACKED = {
    "Unpack[RunSignals]": RunSignals,
    "Unpack[WeightOptions]": WeightOptions,
}


def known_keywords(function: Callable[P, Answer]) -> Callable[P, Answer]:
    """Decorate a function as `helpful_arguments` does, with keywords that are packed."""
    return helpful_arguments(function, _PACKED, RunSignals)


def present(value: Value | None, name: str) -> Value:
    """Something that the loop was given."""
    if value is None:
        raise ValueError(f"{name}: the loop was not given it")
    return value


def matrix(
    value: ArrayLike, name: str, shape: tuple[int | None, ...], hint: str = ""
) -> NDArray[np.float64]:
    """A finite read-only matrix of a shape, in which None is a free length.

    A vector will do for a row or a column. ``hint`` is added where the shape is another
    one.
    """
    if isinstance(value, tuple) and any(np.ndim(part) == 2 for part in value):
        raise TypeError(
            f"{name}: expected an array, got a tuple; ct.dlqr and ct.dlqe return "
            "three things: take [0]"
        )
    array = real_array(value, name)
    if array.ndim == 1 and len(shape) == 2 and 1 in shape:
        array = np.expand_dims(array, shape.index(1))
    pairs = zip(shape, array.shape, strict=False)  # of another rank: refused below
    if array.ndim != len(shape) or any(want not in (None, got) for want, got in pairs):
        expected = str(shape).replace("None", "any")
        raise ct.ControlDimension(
            f"{name}: expected shape {expected}, got {array.shape}{hint}"
        )
    return array


@dataclass(frozen=True, eq=False)
class Weights(ByContent, Saved):
    """Cost weights and covariances of a loop: n states, m driven inputs, p outputs.

    All but G may be one matrix or one for each of T samples, with a leading axis.

    Attributes
    ----------
    Q, R, N : ndarray, shapes (n, n), (m, m), (n, m), or None
    QN, RN : ndarray, shapes (q, q), (p, p), or None
    G : ndarray, shape (n, q)
    """

    Q: NDArray[np.float64] | None
    R: NDArray[np.float64] | None
    N: NDArray[np.float64] | None
    QN: NDArray[np.float64] | None
    RN: NDArray[np.float64] | None
    G: NDArray[np.float64]

    def __post_init__(self) -> None:
        freeze_arrays(self)

    @classmethod
    def of(cls, n: int, p: int, m: int, **given: Unpack[WeightOptions]) -> Weights:
        """The weights from what a user gave, where None stays None."""
        entry = given.get("G")
        G = np.eye(n) if entry is None else matrix(entry, "G", (n, None))
        hint = "; x+ = A x + B u + G w: pass G=sys.B for disturbances at the inputs"
        Q = _given(given.get("Q"), "Q", n)
        R = _given(given.get("R"), "R", m, "; R weighs the inputs that are controls")
        QN = _given(given.get("QN"), "QN (covariance of w)", G.shape[1], hint)
        RN = _given(given.get("RN"), "RN", p)
        N = _cross_weight(given.get("N"), Q, R)
        return cls(Q, R, N, QN, RN, G)

    def require(self) -> None:
        """Refuse weights that an LQG design cannot do without."""
        for name in ("Q", "R", "QN", "RN"):
            if getattr(self, name) is None:
                raise TypeError(f"{name}: expected a matrix or a number, got None")

    @property
    def samples(self) -> int | None:
        """Number of samples T of what varies, None where nothing does."""
        for name in ("Q", "R", "N", "QN", "RN"):
            value = getattr(self, name)
            if value is not None and value.ndim == 3:
                return len(value)
        return None

    def check_run(self, samples: int) -> None:
        """Refuse a run that is longer than the lists."""
        if self.samples is not None and samples > self.samples:
            raise ValueError(
                f"timepts: the loop's weights are lists of {self.samples}, one for each "
                f"sample of its horizon, got a run of {samples} samples"
            )

    def check_samples(self, horizon: float) -> None:
        """Refuse lists that are not as long as a run."""
        for name in ("Q", "R", "N", "QN", "RN"):
            value = getattr(self, name)
            if value is not None and value.ndim == 3 and len(value) != horizon:
                raise ValueError(
                    f"{name}: expected one matrix, or a list of {horizon:g} with one for "
                    f"each sample of the horizon, got {len(value)}"
                )

    def check_lists(
        self, plant: Plant, noise: OutputNoise | None, horizon: int | None = None
    ) -> None:
        """Refuse lists that are not as long as the run of a plant, or of its noise."""
        if noise is not None:
            self.check_samples(noise.horizon)
        elif isinstance(plant, VaryingPlant):
            self.check_samples(plant.samples)
        elif horizon:
            self.check_samples(horizon)
        elif self.samples is not None:
            self.check_samples(self.samples)

    def at(self, t: int) -> Weights:
        """Return the weights of sample t."""
        if self.samples is None:
            return self
        found = {}
        for name in ("Q", "R", "N", "QN", "RN"):
            value = getattr(self, name)
            found[name] = None if value is None else at_sample(value, t)
        return Weights(G=self.G, **found)

    @property
    def cost(self) -> NDArray[np.float64]:
        """[[Q, N], [N', R]] (n + m, n + m)."""
        if self.Q is None or self.R is None:
            raise ValueError(
                "the loop has no cost: pass Q and R to private_loop, or a weight array "
                "to the design"
            )
        cross = self.N
        if cross is None:
            cross = np.zeros((len(self.Q), len(self.R)))
        return np.block([[self.Q, cross], [cross.T, self.R]])

    @cached_property
    def cost_root(self) -> NDArray[np.float64]:
        """H (n + m, n + m) with |H (x, u)|^2 = x'Q x + u'R u + 2 x'N u."""
        varying = [v for v in (self.Q, self.R, self.N) if v is not None and v.ndim == 3]
        if varying:
            count = len(varying[0])
            return np.array([root(self.at(t).cost).T for t in range(count)])
        return root(self.cost).T

    @cached_property
    def drive_roots(self) -> dict[str, NDArray[np.float64]]:
        """Square roots of G QN G' and RN as far as given, by the drives' names."""
        roots = {}
        if self.QN is not None:
            roots["disturbance"] = self.G @ _singular_roots(self.QN)
        if self.RN is not None:
            roots["noise"] = _singular_roots(self.RN)
        return roots


def at_sample(value: NDArray[np.float64], t: int) -> NDArray[np.float64]:
    """Return the matrix of sample t, from one for all of them or from one for each."""
    return value if value.ndim == 2 else value[t]


def _singular_roots(covariance: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return `singular_root`, of each sample where there is one for each."""
    if covariance.ndim == 2:
        return singular_root(covariance)
    return np.array([singular_root(each) for each in covariance])


def _given(
    value: ArrayLike | None, name: str, size: int, hint: str = ""
) -> NDArray[np.float64] | None:
    """The positive semidefinite matrix (size, size) that was given, or None."""
    if value is None:
        return None
    every = _of_each_sample(value)
    if every is not None:
        return np.array([semidefinite(each, name, size, hint) for each in every])
    return semidefinite(value, name, size, hint)


def _of_each_sample(value: ArrayLike) -> list[ArrayLike] | None:
    """Return the matrices of a list of them, None for one matrix."""
    if isinstance(value, np.ndarray):
        return list(value) if value.ndim == 3 else None
    if not isinstance(value, list | tuple):
        return None
    try:
        dimensions = {np.ndim(each) for each in value}
    except ValueError:  # rows of unequal length, which are no matrix either
        return None
    return list(value) if dimensions == {2} else None


def _cross_weight(
    N: ArrayLike | None, Q: NDArray[np.float64] | None, R: NDArray[np.float64] | None
) -> NDArray[np.float64] | None:
    """The cross weight N (n, m), with which the cost stays convex."""
    if N is None:
        return None
    if Q is None or R is None:
        raise ValueError("N: a cross weight belongs to Q and R; pass them too")
    shape = (Q.shape[-1], R.shape[-1])
    every = _of_each_sample(N)
    if every is not None:
        cross = np.array([matrix(each, "N", shape) for each in every])
    else:
        cross = matrix(N, "N", shape)
    lengths = [len(value) for value in (Q, R, cross) if value.ndim == 3]
    for t in range(min(lengths, default=1)):
        now = at_sample(cross, t)
        whole = np.block([[at_sample(Q, t), now], [now.T, at_sample(R, t)]])
        semidefinite(whole, "[[Q, N], [N.T, R]]", len(whole))
    return cross


def fitting_plant(sys: Plants | Plant, noise: OutputNoise | None) -> Plant:
    """The plant of a loop, the noise's own where there is noise that belongs to it."""
    plant = plant_of(sys)
    if noise is None:
        return plant
    if isinstance(plant, VaryingPlant) and isinstance(noise, OutputNoise):
        noise.request.horizon.count(
            "noise: without a horizon that of a list of plants has a period as one "
            "sample, and a loop reads each sample; design it for the samples of a run "
            f"(horizon=..., period={plant.samples})"
        )
        plant = plant.over(noise.process.samples)  # one period of it will do
    check_noise(plant, noise)
    return noise.plant_data


def check_noise(plant: Plant, noise: OutputNoise) -> None:
    """Refuse noise that was designed for another plant."""
    if not isinstance(noise, OutputNoise):
        raise TypeError(
            "noise: expected OutputNoise from design_output_noise, got "
            f"{type(noise).__name__}"
        )
    if noise.plant_data is plant:
        return
    different = noise.plant_data.differences(plant)
    if different:
        raise ValueError(
            f"noise was designed for a plant with another {' and '.join(different)}:"
            f" its guarantee would not hold here; design it for {plant.name}"
        )


def hidden_inputs(plant: Plant, noise: OutputNoise | None) -> list[str]:
    """The plant's inputs at which the noise hides a disturbance."""
    request = getattr(noise, "request", None)
    if request is None:
        return []
    hidden = request.secret.signals(plant)
    return [label for label in plant.inputs if label in hidden]


#: The point about which a controller acts, a pair being (states, inputs).
OperatingPoint: TypeAlias = ct.OperatingPoint | tuple[ArrayLike, ArrayLike]


# -- plants ----------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Side(ByContent):
    """A plant whose inputs ``controls`` are driven.

    Its controller acts about a point, with the states ``rest`` (n,), the driven inputs
    ``inputs`` (m, 1) and the outputs ``outputs`` (p, 1). ``read`` returns outputs
    (p, q) without what the driven inputs add at once, ``move`` the next states (n, q).
    """

    plant: SampledSystem
    controls: tuple[int, ...]

    #: Whether the plant's matrices vary from sample to sample.
    varies = False

    @property
    def order(self) -> int:
        """Number n of states."""
        return self.plant.order

    @cached_property
    def driven(self) -> list[int]:
        """The inputs that the controller drives."""
        return list(self.controls)

    @cached_property
    def free(self) -> list[int]:
        """The inputs that it does not drive."""
        count = len(self.plant.inputs)
        return [k for k in range(count) if k not in self.controls]

    @property
    def driven_labels(self) -> list[str]:
        """Labels of the inputs that the controller drives."""
        return [self.plant.inputs[k] for k in self.controls]

    @property
    def free_labels(self) -> list[str]:
        """Labels of the others."""
        return [self.plant.inputs[k] for k in self.free]


@dataclass(frozen=True, eq=False)
class LinearSide(Side):
    """A linear plant, whose controller acts about zero, and which may vary."""

    plant: Plant

    @classmethod
    def of(
        cls,
        plant: Plant,
        controls: Sequence[str | int] | None,
        noise: OutputNoise | None,
    ) -> LinearSide:
        """The plant with the inputs that the controller drives, all without ``controls``.

        Then `PrivacyWarning` says where the noise hides some of them, but not all.
        """
        count = plant.input_count
        if not count:
            raise ValueError(
                "sys: expected at least one input for the controller, got 0"
            )
        if controls is None:
            secret = hidden_inputs(plant, noise)
            others = [label for label in plant.inputs if label not in secret]
            if secret and others:
                warn_user(
                    f"controls: the controller drives {', '.join(secret)} as well, which "
                    "the noise hides as a disturbance; name the inputs that it drives, "
                    f"controls={others}"
                )
            return cls(plant, tuple(range(count)))
        if isinstance(controls, (str, int)):
            controls = [controls]
        if not isinstance(controls, Sequence) or not controls:
            raise TypeError(
                "controls: expected the names of the inputs that the controller drives, "
                f"got {type(controls).__name__}"
            )
        driven = []
        for given in controls:
            if not isinstance(given, str | int | np.integer):
                raise TypeError(
                    "controls: expected names of inputs or their positions, got a "
                    f"{type(given).__name__}; the inputs are {', '.join(plant.inputs)}"
                )
            known: Sequence[str | int] = range(count)
            if isinstance(given, str):
                known = plant.inputs
            if given not in known:
                raise ValueError(
                    f"controls: {quoted(given)} is no input of the plant; known inputs are "
                    f"{', '.join(plant.inputs)}{plant.elsewhere(given)}"
                )
            driven.append(known.index(given))
        if len(set(driven)) < len(driven):
            raise ValueError("controls: an input is named twice; name each once")
        return cls(plant, tuple(driven))

    @property
    def varies(self) -> bool:  # type: ignore[override]
        return self.plant.varies

    @cached_property
    def rest(self) -> NDArray[np.float64]:
        return np.broadcast_to(0.0, self.order)

    @cached_property
    def inputs(self) -> NDArray[np.float64]:
        return np.broadcast_to(0.0, (len(self.controls), 1))

    @cached_property
    def outputs(self) -> NDArray[np.float64]:
        return np.broadcast_to(0.0, (self.plant.output_count, 1))

    @cached_property
    def B(self) -> NDArray[np.float64]:
        """From the driven inputs to the next states, (n, m)."""
        return self.plant.B[:, self.driven]

    def driven_at(self, t: int) -> NDArray[np.float64]:
        """From the driven inputs at sample t to the next states, (n, m)."""
        return self.plant.at(t).B[:, self.driven]

    @cached_property
    def through(self) -> NDArray[np.float64]:
        """From the driven inputs to the outputs, (p, m), the same at all samples."""
        if not isinstance(self.plant, VaryingPlant):
            return self.plant.D[:, self.driven]
        D = self.plant.along[3][:, :, self.driven]
        if (D != D[0]).any():
            raise ct.ControlArgument(
                "sys: the direct feedthrough from an input that the controller drives varies "
                "from sample to sample; delay that input by one sample (with_delays)"
            )
        return D[0]

    def read(
        self, t: int, state: NDArray[np.float64], exogenous: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        now = self.plant.at(t)
        read = product(now.C, state)
        if self.free:
            read = read + now.D[:, self.free] @ exogenous
        return read

    def move(
        self,
        t: int,
        state: NDArray[np.float64],
        acting: NDArray[np.float64],
        exogenous: NDArray[np.float64],
    ) -> NDArray[np.float64]:
        now = self.plant.at(t)
        moved = product(now.A, state) + product(now.B[:, self.driven], acting)
        if self.free:
            moved = moved + now.B[:, self.free] @ exogenous
        return moved


@dataclass(frozen=True, eq=False)
class NonlinearSide(Side):
    """A nonlinear plant, and the operating point about which its controller acts.

    ``held`` (M,) are all inputs there. No output depends at once on a driven input.
    """

    plant: NonlinearPlant
    rest: NDArray[np.float64]
    held: NDArray[np.float64]
    outputs: NDArray[np.float64]

    def __post_init__(self) -> None:
        freeze_arrays(self)

    @classmethod
    def of(
        cls,
        sys: ct.NonlinearIOSystem,
        controls: tuple[int, ...],
        operating_point: OperatingPoint | None,
    ) -> NonlinearSide:
        """The plant at ``ct.OperatingPoint`` or (states, inputs), zero by default."""
        plant = NonlinearPlant.of(sys)
        states = np.zeros(plant.order)
        inputs = np.zeros(len(plant.inputs))
        if operating_point is not None:
            states, inputs = _point(operating_point, plant)
        outputs = plant.read_outputs(0.0, states, inputs)
        if not np.isfinite(outputs).all():
            raise ValueError(
                "operating_point: the plant's outputs are not finite there; pass "
                "operating_point=(states, inputs), such as ct.find_operating_point "
                "gives"
            )
        return cls(plant, controls, states, inputs, outputs[:, None])

    @cached_property
    def inputs(self) -> NDArray[np.float64]:
        return self.held[self.driven, None]

    @cached_property
    def through(self) -> NDArray[np.float64]:
        return np.zeros((len(self.outputs), len(self.controls)))

    def check_noise(self, noise: OutputNoise) -> Region:
        """The region for which noise was designed over this plant's Jacobians.

        `ValueError` if it was not.
        """
        box = getattr(noise.request, "region", None)
        if isinstance(box, JacobianPolytope) and box.plant is None:
            raise ValueError(
                "noise: a design file holds no functions, so nothing is known of "
                "this plant; design the noise again for jacobian_polytope(sys, region)"
            )
        if not isinstance(box, JacobianPolytope) or box.plant != self.plant:
            raise ValueError(
                "noise: it hides nothing of this nonlinear plant, since it was "
                "designed for linear ones; pass models=jacobian_polytope(sys, region) "
                "to its design, with the very sys of this loop"
            )
        columns = [self.order + k for k in self.controls]
        through = slice(self.order, None)
        if box.low[through, columns].any() or box.high[through, columns].any():
            raise ValueError(
                "sys: an output of this plant depends at once on an input that the "
                "controller drives; delay that input by one sample"
            )
        return box.region

    def read(
        self, t: int, state: NDArray[np.float64], exogenous: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        inputs = self._all_inputs(self.inputs, exogenous, state)
        return self._called(self.plant.read_outputs, t, state, inputs)

    def move(
        self,
        t: int,
        state: NDArray[np.float64],
        acting: NDArray[np.float64],
        exogenous: NDArray[np.float64],
    ) -> NDArray[np.float64]:
        inputs = self._all_inputs(acting, exogenous, state)
        return self._called(self.plant.next_states, t, state, inputs)

    def left(
        self,
        region: Region,
        states: NDArray[np.float64],
        acting: NDArray[np.float64],
        exogenous: NDArray[np.float64],
    ) -> NDArray[np.bool_]:
        """Return which runs left a region (q,).

        Arrays are (T, n, q), (T, m, q) and (T, free inputs, q or 1).
        """
        found = np.zeros(states.shape[2], bool)
        for state, inputs, free in zip(states, acting, exogenous, strict=True):
            found |= region.outside(state, self._all_inputs(inputs, free, state))
        return found

    def _all_inputs(
        self,
        acting: NDArray[np.float64],
        exogenous: NDArray[np.float64],
        state: NDArray[np.float64],
    ) -> NDArray[np.float64]:
        """The plant's inputs in its own order, for as many runs as states."""
        inputs = np.repeat(self.held[:, None], state.shape[1], axis=1)
        inputs[self.driven] = acting
        inputs[self.free] = exogenous
        return inputs

    def _called(
        self,
        function: Callable[..., Any],
        t: int,
        states: NDArray[np.float64],
        inputs: NDArray[np.float64],
    ) -> NDArray[np.float64]:
        """The plant's function on columns of trials.

        What it raises for a single one may show the state.
        """
        time = t * self.plant.step
        if states.shape[1] > 1:
            return function(time, states, inputs)
        kind = ""
        try:
            return function(time, states[:, 0], inputs[:, 0])[:, None]
        except Exception as error:
            kind = type(error).__name__
        raise RuntimeError(
            f"{self.plant.name}: the plant's function raised {kind} at t = {time:g}; "
            "its text is withheld, it may show the state"
        )


def _point(
    given: OperatingPoint, plant: NonlinearPlant
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """States and inputs of an operating point."""
    if isinstance(given, ct.OperatingPoint):
        given = (given.states, given.inputs)
    if not isinstance(given, (tuple, list)) or len(given) != 2:
        raise TypeError(
            "operating_point: expected a ct.OperatingPoint or (states, inputs), got "
            f"{type(given).__name__}"
        )
    states = real_array(given[0], "operating_point states")
    inputs = real_array(given[1], "operating_point inputs")
    return (
        matrix(np.atleast_1d(states), "operating_point states", (plant.order,)),
        matrix(np.atleast_1d(inputs), "operating_point inputs", (len(plant.inputs),)),
    )


def linear_part(sys: ct.NonlinearIOSystem, noise: OutputNoise | None) -> Plant:
    """The linear plant that a nonlinear plant's noise was designed for."""
    plant = NonlinearPlant.of(sys)
    if not isinstance(noise, OutputNoise):
        raise TypeError(
            "noise: a loop around a nonlinear plant needs noise from "
            "design_output_noise (with models=jacobian_polytope(sys, region)), got "
            f"{type(noise).__name__}"
        )
    linear = noise.plant_data
    for kind in ("states", "inputs", "outputs", "dt"):
        if getattr(linear, kind) != getattr(plant, kind):
            raise ValueError(
                f"noise: it was designed for a plant with other {kind}; design it for "
                "jacobian_polytope(sys, region).nominal, or sys.linearize(x, u, "
                "copy_names=True)"
            )
    return linear
