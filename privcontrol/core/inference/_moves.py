"""How far one input of a model may move.

Moves are measured in any p-norm and in mixed units, or go anywhere in a public box.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from itertools import cycle
from json import dumps

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .._balls import Rational, rational
from .._linalg import (
    EPS,
    positive_integer,
    positive_number,
    real_array,
    round_up,
)
from ..adjacency import BallAdjacency
from ..guarantee import Scope
from ..lipschitz.norms import checked_norm

_DOMAIN = (
    "one input of the model (one row of a batch), no public constraint on its entries"
)


@dataclass(frozen=True, eq=False)
class InputMoves:
    """The moves v of one input with ||(v_1 / r_1, ..., v_n / r_n)||_p <= 1.

    Attributes
    ----------
    radii : ndarray, shape (n,) or ()
        One for each entry, or one for all.
    norm : float
        p >= 1.
    size : int or None
        Number of entries n, where it is known.
    low, high : ndarray, shape (n,), or None
        The public box to which inputs are clipped. Then the radii are its widths, and
        the norm is infinite: any two inputs are to look alike.
    metric : (str, float) or None
        The name of a map into the normed space, and its Lipschitz constant in the metric
        that the radius is of; None where that is the norm itself.
    """

    radii: NDArray
    norm: float
    size: int | None = None
    low: NDArray | None = None
    high: NDArray | None = None
    metric: tuple[str, float] | None = None

    @classmethod
    def of(
        cls, radius: ArrayLike, norm: float, size: int | None, domain: tuple | None
    ) -> InputMoves:
        """The moves of a mechanism's arguments, checked."""
        if size is not None:
            size = positive_integer(size, "size")
        norm = checked_norm(norm)
        single = isinstance(radius, bool | int | float | np.number | str | None)
        if single and radius == math.inf:
            return cls._anywhere(domain, size)
        if domain is not None:
            raise ValueError(
                "domain: expected it with radius=inf only, where any two inputs of it "
                "are to look alike; leave it out"
            )
        radii = np.array(radius) if single else real_array(radius, "radius")
        if radii.ndim == 0:
            number = radius if single else float(radii)
            return cls(np.array(positive_number(number, "radius")), norm, size)
        radii = real_array(radii, "radius", ndim=1)
        if not radii.size or not (radii > 0).all():
            raise ValueError(
                "radius: expected a positive one for each entry; an entry that is not "
                "private does not belong into the noisy input"
            )
        return cls(radii, norm, _same_size(size, len(radii), "radii"))

    @classmethod
    def _anywhere(cls, domain: tuple | None, size: int | None) -> InputMoves:
        if not isinstance(domain, (tuple, list)) or len(domain) != 2:
            raise ValueError(
                "domain: expected a public box (low, high) for radius=inf: no finite "
                "noise hides all moves of unbounded inputs"
            )
        ends = [real_array(end, "domain") for end in domain]
        lengths = {len(end) for end in ends if end.ndim == 1}
        if len(lengths) > 1 or any(end.ndim > 1 for end in ends):
            raise ValueError("domain: expected numbers or vectors (n,) of one length")
        if lengths:
            size = _same_size(size, lengths.pop(), "bounds")
        if size is None:
            raise ValueError(
                "size: the box is larger the more entries an input has; pass size=, the "
                "number of entries of one row"
            )
        low, high = (real_array(np.broadcast_to(end, size), "domain") for end in ends)
        if not (low < high).all():
            raise ValueError("domain: every low must be below its high")
        return cls(round_up(high - low), math.inf, size, low, high)

    def measured_by(self, name: str, constant: float) -> InputMoves:
        """The same radius in a metric in which a named map is Lipschitz."""
        if self.radii.ndim or self.low is not None:
            raise ValueError(
                "radius: expected one finite number, the distance in the user's metric"
            )
        steepness = positive_number(constant, "metric")
        return replace(self, metric=(name, steepness))

    @property
    def radius(self) -> float | NDArray:
        """The radii, a number if there is one for all and infinity for a box."""
        if self.low is not None:
            return math.inf
        return float(self.radii) if self.radii.ndim == 0 else self.radii

    @property
    def plain(self) -> bool:
        """Whether the moves are a ball of the 1-, 2- or infinity-norm of unknown size."""
        single = self.radii.ndim == 0 and self.size is None
        return single and self.norm in (1, 2, math.inf)

    def reach(self, q: float, family: str) -> float:
        """The largest q-norm of a move (of its image, with a metric), rounded up."""
        if self.metric is None:
            return self._reach(q, family)
        return float(round_up(self._reach(q, family) * self.metric[1]))

    def _reach(self, q: float, family: str) -> float:
        """`reach` in the norm of the radius.

        For p <= q it is the largest radius. Otherwise Hoelder's inequality gives the
        s-norm of the radii, 1/s = 1/q - 1/p.
        """
        if self.norm <= q:
            return float(self.radii.max())
        s = q if self.norm == math.inf else self.norm * q / (self.norm - q)
        if self.radii.ndim == 1:
            largest = float(self.radii.max())
            total = np.sum((self.radii / largest) ** s) ** (1 / s)
            return float(round_up(largest * total * (1 + EPS * (len(self.radii) + 16))))
        if self.size is None:
            raise ValueError(
                f"size: a move of {self.norm:g}-norm {self.radii:g} is wider the more "
                f"entries an input has, and {family} noise must cover it; pass size=, "
                "the number of entries of one row"
            )
        return float(round_up(float(self.radii) * self.size ** (1 / s), 3))

    def check(self, x: NDArray) -> None:
        """Raise an error if an input, or a row of a batch, has another size."""
        entries = x[0].size if x.ndim > 1 and len(x) else x.size
        if self.size is not None and len(np.atleast_1d(x)) and entries != self.size:
            raise ValueError(
                f"x: expected rows of {self.size} entries, as in size=, got rows of "
                f"{entries}"
            )

    def clipped(
        self, exact: list[Rational], x: NDArray
    ) -> tuple[list[Rational], NDArray]:
        """Inputs moved into the box, as rational numbers and as doubles."""
        if self.low is None or self.high is None:
            return exact, x
        inside = []
        box = cycle(zip(self.low.tolist(), self.high.tolist()))
        for value, (low, high) in zip(exact, box):
            above = max(value, rational(low))
            inside.append(min(above, rational(high)))
        rows = x.reshape(-1, len(self.low))
        clipped = np.clip(rows, self.low, self.high)
        return inside, clipped.reshape(x.shape)

    def scope(self, assumptions: tuple[str, ...]) -> Scope:
        """The scope of a guarantee for these moves."""
        radius = None if self.radii.ndim else float(self.radii)
        described: dict = {"type": "InputMoves"}
        if self.low is not None and self.high is not None:
            described |= {"low": self.low.tolist(), "high": self.high.tolist()}
            described["norm"] = str(self.norm)
            statement = (
                "the data move anywhere in their public box, to which they are clipped"
            )
        elif self.metric is not None:
            name, steepness = self.metric
            described |= {"metric": name, "into": str(self.norm), "radius": radius}
            described["constant"] = steepness
            statement = (
                f"the data move by at most {radius:g} in a metric d with ||{name}(x) - "
                f"{name}(x')||_{self.norm:g} <= {steepness:g} d(x, x')"
            )
        else:
            ball = BallAdjacency(self.radii, norm=self.norm)
            described = ball.to_dict()
            statement = ball.statement
        return Scope(
            dumps(described, sort_keys=True),
            statement,
            _DOMAIN,
            assumptions=assumptions,
            radius=radius,
            constrained=False,
        )


def _same_size(size: int | None, given: int, what: str) -> int:
    if size not in (None, given):
        raise ValueError(f"size: expected {given}, the number of {what}, got {size}")
    return given
