"""The largest shift under all plants of a box, by boxes that are halved.

The response to a hidden move is expanded to first order about the middle of a box. The norm
in which privacy is measured is convex, so the linear part is worst at a corner, and
the rest is bounded by matrices of absolute values. Where the bounds do not meet, the worst
box is halved.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from itertools import product

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

from ..noise.parts import NoisePart, PartSum
from ..numerics.errors import UncertifiableError
from ..numerics.linalg import EPS, float_above
from ..numerics.objects import ByContent
from ..numerics.progress import piece
from ..numerics.thresholds import CERTAIN, FINE, LARGEST_SIZE, ROUGH, ROUNDED
from ..secrets.secret import UncertainMoves
from ..systems.powers import FreeResponse

#: Uncertain entries of which all corners are gone through.
MOST_ENTRIES = 8
#: Boxes at which the search ends, with few entries and with more of them, and how many of
#: these go through all of their corners.
_MOST_BOXES = 65
_MOST_WIDE_BOXES = 17
_TURNED = 4
#: Moves with less than the box's bound over this decide nothing yet where it is halved.
_DECIDING = 4.0
#: Speed: numbers of the responses that are looked at together.
_LOOKED_AT = 1 << 16
#: Speed: corners that are looked at together.
_AT_ONCE = 32


def signs(count: int) -> NDArray[np.float64]:
    """All rows (2^count, count) of -1 and 1."""
    return np.array(list(product((-1.0, 1.0), repeat=count)))


def largest_shift(
    every: tuple[UncertainMoves, ...], parts: Sequence[NoisePart], horizon: int
) -> float:
    """Return a certified upper bound of y under every plant.

    With up to 8 uncertain entries boxes are halved until the bound is at most 0.1 % above
    what some plant attains, or there are 65 boxes. With more entries the corners are too
    many. What all but the widest four move the outputs by is added up then.

    Raises
    ------
    ValueError
        If the noise has no white floor.
    UncertifiableError
        If the bound is not finite.
    """
    whitening = Whitening.of(parts, horizon)
    bound, attained = bound_in_units(every, whitening)
    return float_above(whitening.finite(bound, attained), 2)


@lru_cache(maxsize=2)  # what a design has certified is certified again at its end
def bound_in_units(
    every: tuple[UncertainMoves, ...], whitening: Whitening
) -> tuple[float, float]:
    """Return the bound in units of the floor, inf if there is none, and what is attained.

    Noise that is some times as large, exactly, has the same bound in units of its floor.
    """
    whole = [_of_all_plants(moves, whitening) for moves in every]
    # what attains less everywhere than something does decides nothing
    lower = max(box.attained for box in whole)
    uppers = []
    for moves, box in zip(every, whole, strict=True):
        upper, lower = _halved(moves, whitening, box, lower)
        uppers.append(upper)
    return max(uppers), lower


@dataclass
class Glance:
    """Say about how large y is under the worst plant, for noise that is only compared.

    For the first noise the worse half of a box is halved again and again. Of other noise
    the box is looked at where that ended, so what is said is no bound.
    """

    every: Sequence[UncertainMoves]
    horizon: int
    _ends: list[_Box] = field(default_factory=list)

    def shift(self, parts: Sequence[NoisePart]) -> float:
        """Return the largest bound of y in one box for each part of an adjacency.

        Raises
        ------
        UncertifiableError
            If the one for the first noise is not finite.
        """
        whitening = Whitening.of(parts, self.horizon)
        if not self._ends:
            ends = [_descended(moves, whitening) for moves in self.every]
            found = [whitening.finite(box.bound, box.attained) for box in ends]
            self._ends = ends
            return max(found)
        found = []
        for moves, end in zip(self.every, self._ends, strict=True):
            decides = end.bounds > end.bound / _DECIDING
            before = np.where(decides, np.inf, 0.0)
            box = _Box.within(end.middle, end.widths, before)
            found.append(_settled(moves, whitening, box).bound / whitening.unit)
        return max(found)


def _descended(moves: UncertainMoves, whitening: Whitening) -> _Box:
    """Return a small box, the worse half of the worse half of a box of all plants."""
    most = _most_boxes(moves)
    box = _of_all_plants(moves, whitening)
    depth = most.bit_length() - 1 if len(moves.widths) else 0
    lower = box.attained
    for _ in range(depth):
        if box.bound <= lower * (1 + ROUGH):
            break
        halves = [_settled(moves, whitening, half) for half in box.halves(lower)]
        box = max(halves, key=lambda half: half.bound)
        lower = max(lower, *(half.attained for half in halves))
    return box


def _of_all_plants(moves: UncertainMoves, whitening: Whitening) -> _Box:
    """Return the box of all plants, with bounds for all moves."""
    before = np.full(1 if moves.is_ball else moves.count, np.inf)
    box = _Box.within(np.zeros_like(moves.widths), moves.widths, before)
    return _settled(moves, whitening, box)


def _settled(moves: UncertainMoves, whitening: Whitening, box: _Box) -> _Box:
    """Return a box whose largest bound is its own."""
    while not box.is_settled:
        box = _bounded(moves, whitening, box)
    return box


def _most_boxes(moves: UncertainMoves) -> int:
    """The number of boxes at which halving ends."""
    is_narrow = len(moves.widths) <= MOST_ENTRIES
    return _MOST_BOXES if is_narrow else _MOST_WIDE_BOXES


@dataclass(frozen=True, eq=False)
class _Box:
    """A box of offsets, what a plant in it attains, and bounds for all of them.

    ``bounds`` are those of each hidden move, or of the whole ball of them. Those that are
    not its ``own`` are bounds for a larger box, or of moves that decide nothing. ``felt``
    says how far each entry moves the outputs at most.
    """

    middle: NDArray[np.float64]
    widths: NDArray[np.float64]
    attained: float
    bounds: NDArray[np.float64]
    own: NDArray[np.bool_]
    felt: NDArray[np.float64]

    @classmethod
    def within(
        cls,
        middle: NDArray[np.float64],
        widths: NDArray[np.float64],
        before: NDArray[np.float64],
        lower: float = 0.0,
    ) -> _Box:
        """Return a box within a larger one, whose bounds are ``before``.

        Those of at most ``lower`` decide nothing.
        """
        return cls(middle, widths, 0.0, before, before <= lower, np.zeros_like(widths))

    @property
    def bound(self) -> float:
        """The largest of the bounds."""
        return float(self.bounds.max())

    @property
    def is_settled(self) -> bool:
        """Whether the largest bound is the box's own."""
        return bool(self.own[self.bounds.argmax()])

    def halves(self, lower: float) -> list[_Box]:
        """Return halves by the entry that moves the outputs most, where some y is ``lower``."""
        split = self.felt.argmax()
        step = np.zeros_like(self.widths)
        step[split] = self.widths[split] / 2
        narrow = self.widths - step
        middles = (self.middle - step, self.middle + step)
        return [_Box.within(middle, narrow, self.bounds, lower) for middle in middles]


def _halved(
    moves: UncertainMoves,
    whitening: Whitening,
    whole: _Box,
    lower: float,
) -> tuple[float, float]:
    """Return the bound for one part of an adjacency, and what some plant attains.

    ``lower`` is attained by some plant and some part. Only what decides is looked at: the
    moves with the largest bounds in the worst box.
    """
    entries = len(moves.widths)
    most = _most_boxes(moves)
    boxes = [whole]
    while True:
        worst = max(boxes, key=lambda box: box.bound)
        if worst.bound <= lower * (1 + ROUGH):
            break
        if worst.is_settled:
            if not entries or len(boxes) >= most:
                break
            closer = worst.halves(lower)
        else:
            with piece(len(boxes), most):
                closer = [_bounded(moves, whitening, worst)]
            lower = max(lower, closer[0].attained)
        boxes.remove(worst)
        boxes += closer
    return max(worst.bound, lower), lower


@dataclass(frozen=True, eq=False)
class Whitening(ByContent):
    """The map of outputs whose norms are y times a unit, and y <= ||s / floor|| for every s.

    With the other parts of the noise, in units of the floor, as U diag(s) V^T, it shrinks
    the directions U by 1 / sqrt(1 + s^2).

    Attributes
    ----------
    unit : float
        The largest entry of the floor.
    floor : ndarray, shape (T p,)
        In that unit.
    columns : ndarray, shape (T p, K)
        The other parts of the noise, in units of the floor.
    """

    unit: float = field(compare=False)
    floor: NDArray[np.float64]
    columns: NDArray[np.float64]

    @classmethod
    def of(cls, parts: Sequence[NoisePart], horizon: int) -> Whitening:
        """Return that of some noise; a ``ValueError`` if it has no white floor."""
        white = PartSum(parts).white
        if not white.all():
            raise ValueError(
                "models: a PlantBox needs Gaussian noise with a white floor (floor=...)"
            )
        unit = float(white.max())
        floor = np.tile(white, horizon)
        columns = PartSum(parts).responses(horizon).reshape(len(floor), -1)
        return cls(unit, floor / unit, columns / floor[:, None])

    @cached_property
    def _turned(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        directions, sizes, _ = scipy.linalg.svd(self.columns, full_matrices=False)
        return directions, 1 / np.sqrt(1 + sizes**2)

    @property
    def directions(self) -> NDArray[np.float64]:
        """Directions U (T p, k) of the other parts."""
        return self._turned[0]

    @property
    def shrink(self) -> NDArray[np.float64]:
        """What it makes of unit vectors along them."""
        return self._turned[1]

    def finite(self, bound: float, attained: float) -> float:
        """Return a bound of y, if there is one, from that of the norms."""
        if np.isfinite(bound):
            return bound / self.unit
        raise UncertifiableError(
            "models: the guarantee over the box cannot be certified down to the shift that "
            f"some plant in it attains, {attained / self.unit:.3g}: narrow the half-widths "
            "or the uncertain entries, or pass box.sampled(count), whose guarantee covers "
            "the sampled plants only"
        )

    def in_units(self, columns: NDArray[np.float64]) -> NDArray[np.float64]:
        """Outputs (.., T p, M) in units of the floor, whose norms are at least y."""
        return columns / self.floor[:, None]

    def apply(self, white: NDArray[np.float64]) -> NDArray[np.float64]:
        """Columns whose norms are y, of outputs (.., T p, M) in units of the floor."""
        inside = self.directions.T @ white
        if len(self.shrink) == len(self.floor):  # norms do not depend on a rotation
            return self.shrink[:, None] * inside
        return white - self.directions @ ((1 - self.shrink)[:, None] * inside)

    @property
    def rounding(self) -> float:
        """Return what floating point adds to norms at most, relative to the plain ones."""
        count = self.directions.shape[1] + 8
        return float(32 * EPS * count * np.sqrt(len(self.floor)))

    @property
    def error(self) -> float:
        """Relative error of the norms from rounded directions and sizes."""
        largest = 1 / self.shrink.min(initial=1.0)
        return 1e-12 + 16 * EPS * len(self.floor) * (1 + largest)


def _bounded(moves: UncertainMoves, whitening: Whitening, box: _Box) -> _Box:
    """Return a box with bounds of its own for the moves that decide.

    They are those with the largest bounds so far, as many as are quickly looked at. What
    the linear part has at a corner, less what it leaves out there, is attained.
    """
    middle, widths = box.middle, box.widths
    left_out, linear = _expanded(moves, tuple(middle.tolist()), tuple(widths.tolist()))
    if moves.is_ball:
        deciding = np.zeros(1, int)
        counted = np.arange(moves.count)
    else:
        unknown = np.flatnonzero(~(box.own | (box.bounds < box.bound / _DECIDING)))
        some = max(_LOOKED_AT // (len(linear) * len(whitening.floor)), 1)
        order = np.argsort(-box.bounds[unknown], kind="stable")
        deciding = counted = unknown[order[:some]]
    responses = whitening.in_units(outputs_of(moves, linear, counted))
    sizes = np.linalg.norm(responses, axis=-2)
    beyond = whitening.in_units(outputs_of(moves, left_out, counted))
    rest = np.linalg.norm(beyond, axis=-2) + whitening.rounding * sizes.sum(axis=0)
    if moves.is_ball:
        rest = np.array([np.linalg.norm(rest)])
    felt = sizes[1:].max(axis=1)
    widest = np.argsort(-felt, kind="stable")
    together = whitening.apply(responses[[0, *(1 + widest)]])
    white, slopes = together[0], together[1:]
    turned = len(slopes) if len(slopes) <= MOST_ENTRIES else _TURNED
    attained = _worst_corner(moves, white, slopes[:turned])
    worst = attained + _sum_of_sizes(moves, slopes[turned:])
    lower = (attained - rest).max(initial=0.0) * (1 - whitening.error)
    bounds, own = box.bounds.copy(), box.own.copy()
    bounds[deciding] = (worst + rest) * (1 + whitening.error)
    own[deciding] = True
    felt = np.fmax(box.felt, felt)
    return _Box(middle, widths, max(box.attained, float(lower)), bounds, own, felt)


# -- sizes of moves ----------------------------------------------------------------------


def _sum_of_sizes(
    moves: UncertainMoves, slopes: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Sums over slopes (k, T p, M) of the norms of each move, or of the ball's largest ones.

    The squares of these are eigenvalues of Gram matrices, rounded by less than each product.
    """
    if not moves.is_ball:
        return np.linalg.norm(slopes, axis=1).sum(axis=0)
    _, samples, axes = slopes.shape
    largest = np.linalg.eigvalsh(slopes.swapaxes(1, 2) @ slopes)[:, -1]
    rounded = FINE + 2 * EPS * samples * axes
    return np.array([np.sqrt(largest.clip(0.0)).sum() * (1 + rounded)])


def _worst_corner(
    moves: UncertainMoves, middle: NDArray[np.float64], slopes: NDArray[np.float64]
) -> NDArray[np.float64]:
    """The largest of the sizes of middle + sum of +-slopes, all of shape (T p, M).

    Norms follow from inner products. The largest of all corners is at least the root of
    the mean of their squares, so rounding is small beside it.
    """
    turns = signs(len(slopes))
    if moves.is_ball:
        return _largest_norm(middle, slopes, turns)
    columns = np.transpose([middle, *slopes], (2, 0, 1))
    products = columns @ columns.swapaxes(1, 2)
    every = np.column_stack([np.ones(len(turns)), turns])
    pairs = every[:, :, None] * every[:, None, :]
    squares = products.reshape(len(products), -1) @ pairs.reshape(len(pairs), -1).T
    return np.sqrt(squares.max(axis=1)) * (1 + FINE)


@lru_cache(maxsize=16)
def _places(moves: UncertainMoves) -> NDArray[np.intp]:
    """Where the outputs (T p, M) of moves stand in a flat response, -1 before a move."""
    outputs = np.arange(len(moves.matrix) - moves.order)
    directions = np.arange(moves.axes.shape[1])
    samples = moves.back - moves.times + np.arange(moves.horizon)[:, None]
    every = samples[:, None, :, None]
    rows = every * len(outputs) + outputs[:, None, None]
    places = np.where(every < 0, -1, rows * len(directions) + directions)
    return places.reshape(-1, moves.count)


def outputs_of(
    moves: UncertainMoves, long: NDArray[np.float64], counted: NDArray[np.intp]
) -> NDArray[np.float64]:
    """Outputs (.., T p, k) of some moves, from responses at t = -back .. forward."""
    flat = long.reshape(*long.shape[:-3], -1)
    none = np.zeros((*flat.shape[:-1], 1))
    return np.append(flat, none, axis=-1).take(_places(moves)[:, counted], axis=-1)


def _largest_norm(
    middle: NDArray[np.float64], slopes: NDArray[np.float64], turns: NDArray[np.float64]
) -> NDArray[np.float64]:
    """The largest norm (1,) of middle + sum of +-slopes, all of shape (m, n).

    The turns that raise the norm to first order lead to a corner. No other one is worse if
    its Gram matrix is below the square of that norm.
    """
    if len(middle) < middle.shape[1]:
        middle = middle.T
        slopes = slopes.swapaxes(1, 2)
    corner = middle
    largest = 0.0
    while True:
        values, axes = np.linalg.eigh(corner.T @ corner)
        size = float(np.sqrt(values[-1]))
        if size <= largest * (1 + FINE):
            break
        largest = size
        worst = axes[:, -1]
        rises = (corner @ worst) @ slopes @ worst
        corner = middle + np.tensordot(np.where(rises < 0, -1.0, 1.0), slopes, 1)
    above = np.eye(middle.shape[1]) * (1 + FINE)
    for first in range(0, len(turns), _AT_ONCE):
        corners = middle + np.tensordot(turns[first : first + _AT_ONCE], slopes, 1)
        grams = corners.swapaxes(1, 2) @ corners
        try:
            np.linalg.cholesky(largest**2 * above - grams)
        except np.linalg.LinAlgError:
            worst = np.linalg.eigvalsh(grams)[:, -1].max()
            largest = max(largest, float(np.sqrt(worst)))
    return np.array([largest * (1 + 2 * FINE)])


@lru_cache(maxsize=512)  # a design asks again and again, for noise of other sizes
def _expanded(
    moves: UncertainMoves, middle: tuple[float, ...], widths: tuple[float, ...]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Responses (times, p, q) of moves about a point of a box, for t = -back .. forward.

    The first array bounds what the first order leaves out in the box. The second one
    (1 + k, times, p, q) has the response of the plant in the middle, and the slopes by
    each uncertain entry, times its half-width. The derivative of A^t by an entry is the sum of A^(t-1-s) E A^s, E being one
    there, and that of A^-t the sum of -A^(s-t) E A^(-s-1), for s = 0 .. t-1.
    """
    n = moves.order
    back = moves.back
    matrix = moves.matrix.copy()
    matrix[moves.entries] += middle
    A, C = np.split(matrix, [n])
    free = _FreeMoves.of(moves, A, C)
    sizes = np.abs(middle) + np.abs(moves.matrix[moves.entries])
    reach = np.array(widths) + 4 * EPS * sizes  # the middle is rounded
    left_out = _left_out(moves, free, reach)
    linear = np.zeros((1 + len(reach), *left_out.shape))
    linear[0] = free.outputs[:, :, len(free.driven) :]
    signals = free.states[:, :, len(free.driven) :]
    past = slice(back - 1, None, -1)
    rows, columns = moves.entries
    for row in np.unique(rows).tolist():
        mine = np.flatnonzero(rows == row)
        enters = signals[:, columns[mine]] * reach[mine, None]
        if row >= n:
            linear[1 + mine, :, row - n] = enters.swapaxes(0, 1)
            continue
        leaves = free.outputs[:, :, np.searchsorted(free.driven, row)]
        linear[1 + mine, back + 1 :] = _convolved(leaves[back:-1], enters[back:-1])
        if back:
            linear[1 + mine, past] = -_convolved(leaves[past], enters[past])
    return left_out, linear


@dataclass(frozen=True)
class _FreeMoves:
    """Responses of one plant to unit states and to moves, at t = -back .. forward.

    The unit states are the k ``driven`` ones, which uncertain entries or rounding enter.
    ``states`` (times, n, k + q) are within ``state_errors`` of A^t and A^t V, and
    ``outputs`` (times, p, k + q) within ``output_errors`` of C A^t and C A^t V.
    """

    driven: NDArray[np.intp]
    states: NDArray[np.float64]
    outputs: NDArray[np.float64]
    state_errors: NDArray[np.float64]
    output_errors: NDArray[np.float64]

    @classmethod
    def of(
        cls, moves: UncertainMoves, A: NDArray[np.float64], C: NDArray[np.float64]
    ) -> _FreeMoves:
        """Return them in doubles, or rounded from balls where these lose digits."""
        forward = moves.horizon - 1 - int(moves.times.min())
        if not moves.back:
            found = cls._ahead(moves, A, C, forward)
            k = len(found.driven)
            sizes = np.linalg.norm(found.outputs[:, :, k:], axis=(0, 1))
            errors = np.linalg.norm(found.output_errors[:, :, k:], axis=(0, 1))
            if (errors <= CERTAIN * sizes).all():
                return found
        # an inverse of A differs by more than the rows that are uncertain
        driven = np.arange(moves.order)
        start = np.hstack([np.eye(moves.order), moves.axes])
        free = FreeResponse.of(A, start, moves.back, forward, rounded=True)
        states, outputs = free.states(), free.outputs(C)
        # pairs of doubles are known to 60 bits, balls to 180 of their column's largest entry
        sizes = np.abs(states)
        beside = 1e-50 * sizes.max(axis=1, keepdims=True)
        state_errors = 1e-14 * sizes + beside
        output_errors = 1e-14 * np.abs(outputs) + 1e-50 * np.abs(C) @ sizes
        return cls(driven, states, outputs, state_errors, output_errors)

    @classmethod
    def _ahead(
        cls,
        moves: UncertainMoves,
        A: NDArray[np.float64],
        C: NDArray[np.float64],
        forward: int,
    ) -> _FreeMoves:
        """Compute a future in doubles.

        What a step X(t+1) = A X(t) rounds is an input of its own, at most
        G(t) = gamma |A| |X(t)|. So X(t) has an error of at most the sum of
        |A^(t-1-s)| G(s), with the powers of A as large as their own errors allow. Steps
        that only pass a state on are exact.
        """
        n = moves.order
        passes_on = (np.abs(A) == 1).sum(axis=1) == (A != 0).sum(axis=1)
        passes_on &= (A != 0).sum(axis=1) <= 1
        driven = np.flatnonzero(moves.spread[:n].any(axis=1) | ~passes_on)
        k = len(driven)
        states = np.empty((forward + 1, n, k + moves.axes.shape[1]))
        states[0] = np.hstack([np.eye(n)[:, driven], moves.axes])
        with np.errstate(over="ignore", invalid="ignore"):
            for t in range(forward):
                np.matmul(A, states[t], out=states[t + 1])
            sizes = np.abs(states)
            gamma = EPS * (n + 4)
            underflow = sizes.any(axis=1, keepdims=True) / LARGEST_SIZE
            entered = gamma * (np.abs(A[driven]) @ sizes) + underflow
            entered = entered.reshape(-1, states.shape[2])
            errors = np.zeros_like(states)
            late = np.zeros((n, forward + 1, k))  # the powers, the latest one first
            late[:, forward] = sizes[0, :, :k]
            for t in range(1, forward + 1):
                before = late[:, forward + 1 - t :].reshape(n, t * k)
                np.matmul(before, entered[: t * k], out=errors[t])
                late[:, forward - t] = sizes[t, :, :k] + errors[t, :, :k]
            outputs = C @ states
            output_errors = np.abs(C) @ (gamma * sizes + errors) + underflow
        return cls(driven, states, outputs, errors, output_errors)


def _convolved(
    kernel: NDArray[np.float64], signals: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Sums over s <= t of kernel (T, p) at t - s and signals (T, k, q) at s, (k, T, p, q)."""
    samples = np.arange(len(kernel))
    lags = samples[:, None] - samples
    past = (lags >= 0)[:, :, None]
    table = np.where(past, kernel[lags], 0.0)
    return np.moveaxis(np.tensordot(table, signals, axes=(1, 0)), 2, 0)


def _left_out(
    moves: UncertainMoves, free: _FreeMoves, reach: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Bounds (times, p, q) of what the first order leaves out, for offsets within reach."""
    n = moves.order
    back = moves.back
    spread = np.zeros_like(moves.spread)
    spread[moves.entries] = reach
    spread_A, spread_C = np.split(spread, [n])
    first = spread_A[free.driven]
    none = np.zeros_like(first)
    future = _higher_orders(free, slice(back, None), first, none, spread_C)
    if not back:
        return future
    before = np.abs(free.states[back - 1]) + free.state_errors[back - 1]
    orders = _orders_of_inverse(before[:, :n], spread_A)
    if orders is None:
        past = np.full((back, *future.shape[1:]), np.inf)
        return np.concatenate([past, future])
    past = _higher_orders(free, slice(back, None, -1), *orders, spread_C)
    return np.concatenate([past[:0:-1], future])


def _orders_of_inverse(
    inverse: NDArray[np.float64], spread: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]] | None:
    """Bounds of the first and higher orders of A^-1, from |A^-1| and the half-widths of A.

    None if the half-widths are too large.
    """
    ratio = inverse @ spread
    if not np.linalg.norm(ratio, 2) < 0.5:
        return None
    first = ratio @ inverse
    series = np.abs(np.linalg.inv(np.eye(len(ratio)) - ratio))
    higher = ratio @ ratio @ series @ inverse * (1 + ROUNDED)
    return first, higher


def _higher_orders(
    free: _FreeMoves,
    times: slice,
    first: NDArray[np.float64],
    higher: NDArray[np.float64],
    moved: NDArray[np.float64],
) -> NDArray[np.float64]:
    """Bounds (T, p, q) of the second and higher orders of the responses of moves.

    The step S of one direction of time is known to within a first and a higher order
    (k, n) of the rows of the driven states, C to within ``moved``. With P, L, R and Z the
    sizes of the moves' states, of their first order, of the rest, and of their errors,

        L(t) = sum |S^(t-1-s)| first P(s),
        R(t) = sum |S^(t-1-s)| (first (L + R + Z) + higher (P + L + R + Z))(s),

    and likewise for the outputs. What rounding adds to the slopes is counted as well.
    """
    k, n = first.shape
    sizes = np.abs(free.states[times])
    values = sizes[:, :, k:]
    errors = free.state_errors[times]
    lost = errors[:, :, k:]
    of_outputs = free.output_errors[times]
    powers = sizes[:, :, :k] + errors[:, :, :k]
    read = np.abs(free.outputs[times, :, :k]) + of_outputs[:, :, :k]
    samples, p, _ = read.shape
    moves = values.shape[2]
    of_slopes = of_outputs[:, :, :k] + 4 * EPS * (samples + 8) * read
    # side by side, the latest sample first, so that a sum over the past is one product
    kernel = np.concatenate([powers, read, of_slopes], axis=1)
    late = np.concatenate(kernel[::-1], axis=1)
    forced = np.zeros((samples, k, 2 * moves))
    past = forced.reshape(samples * k, 2 * moves)
    out = of_outputs[:, :, k:].copy()
    with np.errstate(over="ignore", invalid="ignore"):
        forced[:, :, :moves] = first @ values
        for t in range(samples):
            both = late[:, (samples - t) * k :] @ past[: t * k]
            linear, rest = both[:, :moves], both[:, moves:]
            later = linear[:n] + rest[:n] + lost[t]
            out[t] += rest[n : n + p] + linear[n + p :] + moved @ later
            forced[t, :, moves:] = first @ later + higher @ (values[t] + later)
    bounds = np.where(np.isfinite(out), out, np.inf)
    return bounds * (1 + ROUNDED)
