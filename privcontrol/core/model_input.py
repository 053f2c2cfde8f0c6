"""Which moves of a model's input are hidden, and where its inputs are.

An input moves by at most a public radius, in a norm or in a metric, anywhere in a public
box, or on a manifold. Each kind says how far it moves and how its inputs are read.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import cycle
from json import dumps
from numbers import Real
from typing import Any, ClassVar, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..numerics.balls import Rational, rational
from ..numerics.checks import Seed, positive_number, quoted, real_array
from ..numerics.errors import answer
from ..numerics.linalg import EPS, float_above
from ..privacy.guarantee import Scope
from ..privacy.hidden import rounded_down
from ..privacy.release import Step, check_counted, check_no_truth, exact_data
from .adjacency import Adjacency, BallAdjacency
from .manifold import AffineManifold
from .mechanism import FRESH
from .query import LinearQuery

_SEVERAL = "several inputs of one person"
_DOMAIN = (
    "one input of the model (one row of a batch), no public constraint on its entries"
)


@dataclass(frozen=True, eq=False)
class ModelInput(ABC):
    """The moves that are hidden of an input, which has ``size`` entries if that is known."""

    hidden: Adjacency
    size: int | None

    _rounds: ClassVar[bool] = False  # data off their grid, as `exact_data` does

    @abstractmethod
    def reach(self, q: float) -> float:
        """Return the largest q-norm of a move, rounded up."""

    def scope(self, assumptions: tuple[str, ...]) -> Scope:
        """Return the scope of what is released about an input."""
        scope = Scope.foreign(self.hidden)
        return replace(
            scope,
            domain=_DOMAIN,
            assumptions=(FRESH, *assumptions),
            caveats=(_SEVERAL, *scope.caveats),
        )

    def read(
        self, x: ArrayLike, resolution: Step | None, counts: bool, rng: Seed
    ) -> tuple[list[Rational] | None, NDArray[np.float64]]:
        """Return checked inputs as rational numbers, where those matter, and as doubles."""
        check_counted(counts, resolution)
        exact: list[Rational] | None = None
        if rng is None or resolution is not None:
            exact, inputs = exact_data(
                x, "x", resolution, counts=counts, rounds=self._rounds
            )
        else:
            inputs = real_array(x, "x")
            check_no_truth([np.asarray(x)], "x")
        entries = inputs[0].size if inputs.ndim > 1 and len(inputs) else inputs.size
        if self.size not in (None, entries) and len(np.atleast_1d(inputs)):
            raise ValueError(
                f"x: expected rows of {self.size} entries, as in size=, got rows of "
                f"{entries}"
            )
        return exact, inputs


@dataclass(frozen=True, eq=False)
class InBall(ModelInput):
    """Moves by at most a radius in a norm, or one with a radius for each entry."""

    hidden: BallAdjacency

    def __post_init__(self) -> None:
        radii = self.radii
        if radii is None:
            return
        if self.size not in (None, len(radii)):
            raise ValueError(
                f"size: expected that of the radii or of the domain, {len(radii)}, got "
                f"{self.size}"
            )
        object.__setattr__(self, "size", len(radii))

    @property
    def radii(self) -> NDArray[np.float64] | None:
        """The radius of each entry, None where one is that of all."""
        radius = self.hidden.radius
        return np.array(radius) if isinstance(radius, tuple) else None

    def reach(self, q: float) -> float:
        if self.radii is None:
            return self.reach_in_units(q)
        return _length(self.radii, q, self.hidden.norm)

    def reach_in_units(self, q: float) -> float:
        """Return `reach` in units of the radii, where each entry has one."""
        p = self.hidden.norm
        if self.radii is not None:
            return _length(np.ones(len(self.radii)), q, p)
        radius = cast("float", self.hidden.radius)
        if p <= q:
            return radius
        if self.size is None:
            raise ValueError(
                f"size: a move of {p:g}-norm {radius:g} is wider the more entries an input "
                "has, and the noise must cover it; pass size=, the number of entries of "
                "one row"
            )
        return float_above(radius * _length(np.ones(self.size), q, p), 3)


def _length(radii: NDArray[np.float64], q: float, p: float) -> float:
    """Return sup ||v||_q over ||v / radii||_p <= 1, rounded up (Hoelder's inequality)."""
    if p <= q:
        return float(radii.max())
    s = q if p == math.inf else p * q / (p - q)
    largest = float(radii.max())
    total = math.fsum((radii / largest) ** s)
    return float_above(largest * total ** (1 / s) * (1 + len(radii) * EPS), 4)


@dataclass(frozen=True, eq=False)
class InBox(InBall):
    """Any two inputs of a box, to which they are clipped."""

    low: NDArray[np.float64]
    high: NDArray[np.float64]

    _rounds = True  # any two inputs are hidden from each other, rounded or not

    @classmethod
    def of(cls, domain: tuple[ArrayLike, ArrayLike], size: int | None) -> InBox:
        """Return the box with public ends, numbers or one for each entry."""
        if not isinstance(domain, tuple | list) or len(domain) != 2:
            raise ValueError(
                "domain: expected (low, high), numbers or one for each entry, got "
                f"{type(domain).__name__}"
            )
        low, high = (real_array(end, "domain") for end in domain)
        shape = np.broadcast_shapes(low.shape, high.shape) or (size,)
        if len(shape) != 1 or shape[0] is None:
            raise ValueError(
                "size: a box with the same ends for all entries is wider the more of them "
                "an input has; pass size=, the number of entries of one row, or ends for "
                "each entry, shape (size,)"
            )
        low, high = np.broadcast_to(low, shape), np.broadcast_to(high, shape)
        if not (low < high).all():
            raise ValueError("domain: expected every low end below its high end")
        widths = [float_above(width) for width in high - low]
        return cls(BallAdjacency(widths, norm=math.inf), size, low, high)

    def scope(self, assumptions: tuple[str, ...]) -> Scope:
        box = {
            "type": "BoxMoves",
            "low": self.low.tolist(),
            "high": self.high.tolist(),
        }
        return replace(
            super().scope(assumptions),
            adjacency=dumps(box, sort_keys=True),
            statement="the data move anywhere in a public box, to which they are clipped "
            "(local differential privacy)",
            radius=None,
            caveats=(_SEVERAL,),
        )

    def read(
        self, x: ArrayLike, resolution: Step | None, counts: bool, rng: Seed
    ) -> tuple[list[Rational] | None, NDArray[np.float64]]:
        exact, inputs = super().read(x, resolution, counts, rng)
        if exact:
            ends = zip(map(rational, self.low), map(rational, self.high), strict=True)
            exact = [
                min(max(number, least), most)
                for number, (least, most) in zip(exact, cycle(ends), strict=False)
            ]
        rows = inputs.reshape(-1, len(self.low))
        return exact, np.clip(rows, self.low, self.high).reshape(inputs.shape)


@dataclass(frozen=True, eq=False)
class InMetric(InBall):
    """Moves by at most a radius in a metric, of which a map into a normed space is read."""

    function: Callable[..., Any]
    name: str
    steepness: float

    @classmethod
    def of(
        cls,
        ball: BallAdjacency,
        size: int | None,
        metric: tuple[Callable[..., Any], float],
    ) -> InMetric:
        """Return the moves in a metric of a map and its Lipschitz constant, checked."""
        if isinstance(ball.radius, tuple):
            raise ValueError(
                "radius: a metric has one radius; put the units of entries in its map"
            )
        if not isinstance(metric, (tuple, list)) or len(metric) != 2:
            raise TypeError(
                "metric: expected (function, constant), a map into a normed space and its "
                f"Lipschitz constant, got {type(metric).__name__}"
            )
        function, constant = metric
        check_callable(function, "metric")
        name = getattr(function, "__name__", "<")
        if "<" in name:
            raise ValueError(
                "metric: expected a function with a name, which stands in the guarantee; "
                "write it with def"
            )
        return cls(ball, size, function, name, positive_number(constant, "metric"))

    def reach_in_units(self, q: float) -> float:
        return float_above(super().reach_in_units(q) * self.steepness)

    def scope(self, assumptions: tuple[str, ...]) -> Scope:
        name, steepness = self.name, self.steepness
        radius = cast("float", self.hidden.radius)
        norm = self.hidden.norm
        described = {
            "type": "InputMoves",
            "metric": name,
            "into": str(norm),
            "radius": radius,
            "constant": steepness,
        }
        statement = (
            f"the data move by at most {rounded_down(radius)} in a metric d with "
            f"||{name}(x) - {name}(x')||_{norm:g} <= {rounded_down(steepness)} d(x, x')"
        )
        adjacency = dumps(described, sort_keys=True)
        return replace(
            super().scope(assumptions), adjacency=adjacency, statement=statement
        )

    def read(
        self, x: ArrayLike, resolution: Step | None, counts: bool, rng: Seed
    ) -> tuple[list[Rational] | None, NDArray[np.float64]]:
        advice = "Try the map on public inputs of this shape"
        mapped = answer(self.function, "metric", advice, x)
        return super().read(real_array(mapped, "metric"), resolution, counts, rng)


@dataclass(frozen=True, eq=False)
class OnManifold(ModelInput):
    """Moves of inputs on a manifold, as an adjacency says."""

    manifold: AffineManifold

    def reach(self, q: float) -> float:
        everything = LinearQuery(np.eye(self.manifold.size), self.manifold)
        return everything.sensitivity(self.hidden, q)

    def scope(self, assumptions: tuple[str, ...]) -> Scope:
        assumed = (FRESH, *assumptions)
        scope = Scope.of(self.hidden, self.manifold, assumptions=assumed)
        return replace(scope, caveats=(_SEVERAL, *scope.caveats))


def model_input(
    radius: float | Sequence[float] | None,
    norm: float,
    size: int | None,
    domain: tuple[ArrayLike, ArrayLike] | None,
    metric: tuple[Callable[..., Any], float] | None,
) -> InBall:
    """Return the moves that are hidden of an input, checked."""
    is_anything = isinstance(radius, Real) and radius == math.inf
    if domain is not None:
        if not is_anything or metric is not None:
            raise ValueError(
                "domain: it goes with radius=inf, any two inputs of it, and without a "
                f"metric, got radius={quoted(radius)}; leave the domain out"
            )
        return InBox.of(domain, size)
    if is_anything:
        raise ValueError(
            "radius: inf means any two inputs, which needs a public box to which they are "
            "clipped; pass domain=(low, high), or a finite radius"
        )
    if not isinstance(radius, list | tuple | np.ndarray):
        positive_number(radius, "radius")
    ball = BallAdjacency(cast("float", radius), norm=norm)
    return InBall(ball, size) if metric is None else InMetric.of(ball, size, metric)


def check_callable(function: object, name: str) -> None:
    """Refuse what cannot be called."""
    if not callable(function):
        raise TypeError(
            f"{name}: expected a callable on arrays, got {type(function).__name__}"
        )
