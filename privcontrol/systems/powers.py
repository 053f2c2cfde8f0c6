"""Powers of A in ball arithmetic: what a plant did before, and what it will do.

A^-t spans hundreds of decades, and privacy hinges on the small components next to the
large ones. Ball arithmetic carries as many digits as that needs and proves them, at a
cost of microseconds a step.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, SupportsInt

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..numerics.balls import (
    DECIDING_BITS,
    Ball,
    BallMatrix,
    RationalMatrix,
    ball_matrix,
    block_balls,
    is_accurate,
    midpoints,
    rational_matrix,
    residue_rank,
    residues,
    submatrix,
    working_bits,
)
from ..numerics.errors import UncertifiableError
from ..numerics.linalg import consecutive
from ..numerics.pairs import Pairs
from .linear import (
    LEAP,
    LinearSystem,
    Matrix,
    Plant,
    VaryingSystem,
    queue_of,
    reached_states,
)
from .transitions import (
    FIRST_BITS,
    MOST_BITS,
    accurate_columns,
    seen_of_run,
    told_of_run,
)

#: Bits that are kept of a state once it is known. The powers of a long horizon need
#: thousands of bits on the way.
_KEPT_BITS = FIRST_BITS
#: Speed: moves up to which the states themselves are carried on.
_NARROW = 4
#: Speed: blocks of rows at most, each of which is made of the one before. Each takes a few
#: bits of accuracy, and powers of A take longer than rows.
_ROW_BLOCKS = 64
#: Speed: vectors A^t V from which on they are first computed as pairs of doubles.
_LONG = 1 << 12
#: States up to which A is inverted in rationals, which keeps its exact zeros.
_MOST_RATIONAL_STATES = 24


def seen_states(plant: Plant, horizon: int) -> NDArray[np.bool_]:
    """Mask (n,) of the states that some output can see within the horizon.

    It follows from the zeros of A and C alone.
    """
    if isinstance(plant, VaryingSystem):
        return seen_of_run(plant, horizon)
    seen = plant.C.any(axis=0)
    return reached_states(plant.A.T != 0, seen, min(plant.order, horizon - 1))


def delayed_inputs(A: NDArray[Any]) -> NDArray[np.bool_]:
    """Mask (n,) of the states that only inputs and other such states drive.

    They are inputs of up to n samples ago. It follows from the zeros of A alone.
    """
    driven = A != 0
    delays = np.zeros(len(A), dtype=bool)
    for _ in range(len(A)):
        delays = ~driven[:, ~delays].any(axis=1)
    return delays


def delayed_outputs(A: NDArray[Any]) -> NDArray[np.bool_]:
    """Mask (n,) of other states that drive only each other, such as readings of the past."""
    return delayed_inputs(A.T) & ~delayed_inputs(A)


def backward(A: NDArray[np.float64], *, exact: bool = False) -> tuple[Any, Any]:
    """One step back in time, and the delayed outputs that belong to the other states.

    Both are square matrices (n, n) of rationals or balls. They act on states that are no
    delays. Delayed inputs are zero. Delayed outputs x_f = F x are what the plant has
    brought about at all later times, F A = A_f F + A_fx with A_f nilpotent.
    """
    follows = delayed_outputs(A)
    moves = ~follows & ~delayed_inputs(A)
    matrix: Callable[..., Any] = ball_matrix
    if exact or moves.sum() <= _MOST_RATIONAL_STATES:
        matrix = rational_matrix
    keep = np.diag(moves.astype(float))
    among = keep @ A @ keep
    rest = np.eye(len(A)) - keep
    inverse = matrix(among + rest).inv() * matrix(keep)
    entering = matrix(A * follows[:, None])
    follow = matrix(keep)
    for _ in range(follows.sum()):
        follow = matrix(keep) + entering * follow * inverse
    return follow * inverse, follow


def tell_apart(plant: Plant, rows: NDArray[np.intp], horizon: int) -> bool:
    """Return whether outputs distinguish any two values of these states, the others held.

    It is decided exactly. Beyond 24 states it is not decided, and the answer is False.
    """
    seen = told_directions(plant, horizon)
    if seen is None:
        return False
    columns = [[row[int(k)] for k in rows] for row in seen.table()]
    return RationalMatrix(columns).rank() == len(rows)


def told_directions(plant: Plant, horizon: int) -> RationalMatrix | None:
    """Rows (k, n) that span what the outputs reveal of the initial state, in rationals.

    They are C A^t, exactly. None beyond 24 states.
    """
    if plant.order > _MOST_RATIONAL_STATES:
        return None
    if isinstance(plant, VaryingSystem):
        return told_of_run(plant, horizon)
    every = rational_matrix(np.eye(plant.order))
    return rational_response(plant, every, min(plant.order, horizon))


def rational_response(
    plant: Plant, states: RationalMatrix, samples: int
) -> RationalMatrix:
    """C A^t X (T p, r) of a plant, exactly."""
    A = rational_matrix(plant.A)
    return exact_response(A, rational_matrix(plant.C), states, samples)


def exact_response(A: Matrix, C: Matrix, states: Matrix, samples: int) -> Matrix:
    """C A^t X (T p, r), time-major, of matrices of balls or of rationals.

    The shorter of C and X is moved through the samples.
    """
    entries: list[Any] = []
    if C.nrows() < states.ncols():
        rows = C
        for k in range(samples):
            entries += rows.entries()
            if k < samples - 1:
                rows = rows * A
        stack = type(states)(samples * C.nrows(), A.nrows(), entries)
        return stack if states == A**0 else stack * states
    for _ in range(samples):
        entries += (C * states).entries()
        states = A * states
    return type(states)(samples * C.nrows(), states.ncols(), entries)


def distinguishes_all(plant: Plant, samples: int) -> bool:
    """Return whether it is proven quickly that the rows C A^t have rank n.

    They are taken modulo a prime, where their rank is at most what it is.
    """
    entries = residue_response(plant, None, samples)
    return residue_rank(entries, plant.order) == plant.order


def residue_response(
    plant: Plant, states: NDArray[np.float64] | None, samples: int
) -> list[SupportsInt]:
    """C A^t X (T p, r) of a plant modulo a prime, its entries row by row; X may be I."""
    A, rows = residues(plant.A), residues(plant.C)
    moves = None if states is None else residues(states)
    entries: list[SupportsInt] = []
    for _ in range(samples):
        entries += (rows if moves is None else rows * moves).entries()
        rows = rows * A
    return entries


class FreeResponse:
    """The vectors A^t V (n, q) for t = -back .. forward, as ball matrices.

    Each is accurate to `ACCURATE_BITS`. If ``back`` is positive, A is nonsingular but for
    delays, and V is zero for delayed inputs. If delayed outputs are ``held``, V stands
    there twice: with these as what the other states in V have brought about, then as it was
    given. `of` makes it.
    """

    #: Whether pairs of doubles tell the past, so that it need not be made of balls.
    is_long = False

    def __init__(
        self,
        A: NDArray[np.float64],
        V: NDArray[np.float64],
        back: int,
        forward: int,
        held: bool,
    ) -> None:
        self.step = A
        self._forward = forward
        self.back = back
        self.bits = FIRST_BITS
        self.axes = V
        self.held = held
        self._width = V.shape[1] * (1 + self.held)
        self._is_narrow = self._width <= _NARROW

    @classmethod
    def of(
        cls,
        A: NDArray[np.float64],
        V: NDArray[np.float64],
        back: int,
        forward: int,
        followed: bool = False,
        *,
        rounded: bool = False,
    ) -> FreeResponse:
        """Return the vectors, with ``rounded`` or over a long run as pairs of doubles first.

        If ``followed``, delayed outputs are held as well, if there are any.

        Raises
        ------
        UncertifiableError
            If the plant is so stiff that even very long numbers do not carry its powers.
        """
        if back and V[delayed_inputs(A)].any():
            raise UncertifiableError(
                "A^-t does not exist for moves of delayed inputs; protect the initial "
                "state, or a disturbance"
            )
        held = followed and bool(delayed_outputs(A).any())
        found = FreeResponse(A, V, back, forward, held)
        is_long = max(back, forward) * found._width >= _LONG
        if rounded or (found._is_narrow and is_long):
            behind = found._in_pairs("-")
            if behind is not None:
                return LongResponse(behind, A, V, back, forward, held)
        found._known = found._reached()  # an error comes at once
        return found

    @cached_property
    def _known(self) -> list[BallMatrix]:
        """The past, its latest time first, and the states at t = 0."""
        return self._reached()

    def _reached(self) -> list[BallMatrix]:
        """Take as many bits as all samples need, and return those that are known."""
        past = self._reaching("-", self.back)
        if self._is_narrow:
            self._reaching("+", self._forward)
        with working_bits(self.bits):
            return [*past, self._start()]

    def _in_pairs(self, sign: str) -> LongOrbit | None:
        """A^t V for t = 0, 1, .. or t = 0, -1, .. where pairs of doubles tell them."""
        count = self.back if sign == "-" else self._forward
        with working_bits(self.bits), suppress(ZeroDivisionError):
            step = backward(self.step)[0] if sign == "-" and count else self.step
            found = LongOrbit.of(ball_matrix(step), self._start(), count + 1)
            return found if found.is_sharp else None
        return None

    def _start(self) -> BallMatrix:
        start = ball_matrix(self.axes)
        if not self.held:
            return start
        following = ball_matrix(backward(self.step)[1]) * start
        return block_balls([[following, start]])

    def _orbit(self, sign: str, count: int) -> Iterator[BallMatrix]:
        """A^t V for t = 1, 2, .. or t = -1, -2, .., as far as they are accurate."""
        step = self.step if sign == "+" else backward(self.step)[0]
        return _orbit(ball_matrix(step), self._start(), count * self._width)

    def _reaching(self, sign: str, want: int) -> list[BallMatrix]:
        """Take as many bits as so many samples need, and return those of the past.

        An error comes as soon as no allowed number of digits will reach the last one.
        """
        before = 0
        while want:
            blocks = []
            now = 0
            # A may not be invertible at this precision
            with working_bits(self.bits), suppress(ZeroDivisionError):
                for block in self._orbit(sign, want):
                    now += block.ncols() // self._width
                    if sign == "-":
                        blocks.append(block)
            if now == want:
                return blocks
            gained = now - before
            is_most = self.bits >= MOST_BITS
            if gained <= 0 and is_most:
                raise _beyond(sign, want, "", "A is too close to singular")
            # transients of doubles are over, and the digits that a sample costs are known
            if gained > 0 and self.bits >= DECIDING_BITS:
                bits_per_sample = self.bits / 2 / gained
                expected = self.bits + (want - now) * bits_per_sample
                if is_most or expected > 2 * MOST_BITS:
                    reach = int(now + (MOST_BITS - self.bits) / bits_per_sample)
                    cause = "the horizon is too long for this plant"
                    raise _beyond(
                        sign, want, f", which reaches about {sign}{reach}", cause
                    )
            before = now
            self.bits *= 2
        return []

    @cached_property
    def _blocks(self) -> list[BallMatrix]:
        """All states. Few ask for the future, which takes as much memory as the past."""
        if not self._is_narrow:
            self._reaching("+", self._forward)
        with working_bits(self.bits):
            return [*self._known, *self._orbit("+", self._forward)]

    def _places(self, times: NDArray[np.intp]) -> NDArray[np.intp]:
        """Where each time stands: the past comes first, its latest time at its head."""
        return np.where(times < 0, -1 - times, self.back + times)

    def at(self, t: int) -> BallMatrix:
        """A^t V as balls (n, q)."""
        sources = np.arange(self._width)
        times = np.full(self._width, t)
        return self.columns(times, sources, np.ones(self._width))

    def columns(
        self,
        times: NDArray[np.intp],
        sources: NDArray[np.intp],
        scales: NDArray[np.float64],
    ) -> BallMatrix:
        """Columns (n, M) of A^t V, each of its own time and source, times its own number."""
        places = self._places(times) * self._width + sources
        every = self._blocks if (times > 0).any() else self._known
        ends = np.cumsum([block.ncols() for block in every])
        homes = np.searchsorted(ends, places, side="right")
        within = places - np.append(0, ends)[homes]
        blocks = [every[home] for home in homes.tolist()]
        with working_bits(self.bits):
            chosen = list(
                zip(blocks, within.tolist(), map(Ball, scales.tolist()), strict=True)
            )
            rows = range(len(self.axes))
            return BallMatrix(
                [[x[i, k] * scale for x, k, scale in chosen] for i in rows]
            )

    def nearest_past(self, radii: NDArray[np.float64]) -> NDArray[np.float64] | None:
        """A^t V diag(radii) for t = 0, -1, .. as the nearest doubles (n, times q), in time.

        None where it is not long, or pairs of doubles do not tell them.
        """
        return None

    def read_past(
        self,
        C: BallMatrix,
        radii: NDArray[np.float64],
        read: Callable[[Pairs], NDArray[np.float64]],
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]] | None:
        """What is read of pairs C A^t V diag(radii) for t = 0, -1, .., and their errors.

        Both are (p, times q), in time. None where the past is not long.
        """
        return None

    def past_places(
        self, times: NDArray[np.intp], sources: NDArray[np.intp]
    ) -> NDArray[np.intp] | slice:
        """Where columns of these sources stand there, so many samples before t = 0."""
        places = times * self._width
        places += sources
        return consecutive(places)

    def states(self) -> NDArray[np.float64]:
        """A^t V as doubles, shape (times, n, q), each entry rounded."""
        return self._in_time(self._blocks)

    def outputs(
        self,
        C: NDArray[np.float64],
        back: int | None = None,
        forward: int | None = None,
    ) -> NDArray[np.float64]:
        """C A^t V as doubles for t = -back .. forward, (times, p, q), each entry rounded.

        They go as far as there are states by default.
        """
        back = self.back if back is None else back
        forward = self._forward if forward is None else forward
        return self._outputs(C)[self.back - back : self.back + forward + 1]

    def _outputs(self, C: NDArray[np.float64]) -> NDArray[np.float64]:
        """C A^t V at all times as doubles, rounded from balls."""
        if self._width > max(_NARROW, len(C)) and self._forward:
            found = self._by_rows(C)
            if found is not None:
                return found
        with working_bits(self.bits):
            matrix = ball_matrix(C)
            return self._in_time([matrix * block for block in self._blocks])

    def _by_rows(self, C: NDArray[np.float64]) -> NDArray[np.float64] | None:
        """Return `outputs` from the rows C A^t, None where they are not accurate.

        They take p columns of balls a sample, where states take q.
        """
        p = len(C)
        for bits in (self.bits, 2 * self.bits):
            with working_bits(bits):
                later = self._later(C)
                if is_accurate(later):
                    break
        else:
            return None
        with working_bits(self.bits):
            matrix = ball_matrix(C)
            past = [midpoints(matrix * block) for block in self._known]
        future = midpoints(later).reshape(self._forward, p, self._width)
        frames = np.hstack(past).reshape(p, -1, self._width).swapaxes(0, 1)
        times = np.arange(-self.back, 1)
        return np.concatenate([frames[self._places(times)], future])

    def _later(self, C: NDArray[np.float64]) -> BallMatrix:
        """C A^t V (T p, q) for t = 1 .. T, from rows."""
        A = ball_matrix(self.step)
        rows = moved_on(A, ball_matrix(C), self._forward)
        start = self._start()
        return rows if start == A**0 else rows * start

    def _in_time(self, blocks: list[BallMatrix]) -> NDArray[np.float64]:
        side_by_side = np.hstack([midpoints(block) for block in blocks])
        frames = side_by_side.reshape(len(side_by_side), -1, self._width)
        forward = frames.shape[1] - self.back
        places = self._places(np.arange(-self.back, forward))
        return np.ascontiguousarray(frames.swapaxes(0, 1)[places])


class LongResponse(FreeResponse):
    """The same over a long run, whose ``behind`` is told by pairs of doubles.

    Balls are made of what these do not tell.
    """

    is_long = True

    def __init__(
        self,
        behind: LongOrbit,
        A: NDArray[np.float64],
        V: NDArray[np.float64],
        back: int,
        forward: int,
        held: bool,
    ) -> None:
        super().__init__(A, V, back, forward, held)
        self._behind = behind
        if self._is_narrow and self._ahead is None:
            self._known = self._reached()

    @cached_property
    def _ahead(self) -> LongOrbit | None:
        return self._in_pairs("+")

    def columns(
        self,
        times: NDArray[np.intp],
        sources: NDArray[np.intp],
        scales: NDArray[np.float64],
    ) -> BallMatrix:
        if (times <= 0).all():
            with working_bits(self.bits):
                found = self._behind.columns(-times, sources, scales)
            if accurate_columns(found) == len(times):
                return found
        return super().columns(times, sources, scales)

    def nearest_past(self, radii: NDArray[np.float64]) -> NDArray[np.float64] | None:
        return self._behind.scaled(radii).nearest()

    def read_past(
        self,
        C: BallMatrix,
        radii: NDArray[np.float64],
        read: Callable[[Pairs], NDArray[np.float64]],
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]] | None:
        with working_bits(self.bits):
            return self._behind.seen_by(C).scaled(radii).read(read)

    def states(self) -> NDArray[np.float64]:
        found = self._by_pairs(None, self.back, self._forward)
        return super().states() if found is None else found

    def outputs(
        self,
        C: NDArray[np.float64],
        back: int | None = None,
        forward: int | None = None,
    ) -> NDArray[np.float64]:
        last = self._forward if forward is None else forward
        found = self._by_pairs(C, self.back if back is None else back, last)
        return super().outputs(C, back, forward) if found is None else found

    def _by_pairs(
        self, C: NDArray[np.float64] | None, back: int, forward: int
    ) -> NDArray[np.float64] | None:
        """Return `outputs` of a long run, None where pairs of doubles do not tell them.

        Without a C they are the states.
        """
        if self._ahead is None:
            return None
        sides = []
        for orbit, last in ((self._behind, back), (self._ahead, forward)):
            some = orbit.until(last)
            if C is not None:
                with working_bits(self.bits):
                    some = some.seen_by(ball_matrix(C))
            nearest = some.nearest()
            if nearest is None:
                return None
            sides.append(nearest)
        return self._joined_in_time(*sides)

    def _joined_in_time(
        self, past: NDArray[np.float64], future: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        """Columns at t = 0, -1, .. and at t = 0, 1, .. as one array (times, .., q)."""
        before, after = (
            side.reshape(len(side), -1, self._width).swapaxes(0, 1)
            for side in (past, future)
        )
        return np.concatenate([before[:0:-1], after]) if len(before) > 1 else after


def response_to_shape(
    system: LinearSystem, samples: int, shape: ArrayLike
) -> NDArray[np.float64]:
    """The response (T, p, q) to inputs of one shape from sample 0 on, rounded from balls."""
    queue = queue_of(np.size(shape))
    start = np.append(shape, np.zeros(system.order))[:, None]
    every = []
    for k in range(system.input_count):
        queued = system.entered_by([k]).after(queue)
        response = FreeResponse.of(queued.A, start, 0, samples - 1)
        every.append(response.outputs(queued.C))
    return np.concatenate(every, axis=2)


def _beyond(sign: str, want: int, reach: str, cause: str) -> UncertifiableError:
    return UncertifiableError(
        f"A^t for t = {sign}1 .. {sign}{want} is beyond {MOST_BITS}-bit arithmetic"
        f"{reach}: {cause}; shorten the horizon, or protect fewer times "
        "(StateAdjacency(times=...))"
    )


def moved_on(A: BallMatrix, rows: BallMatrix, samples: int) -> BallMatrix:
    """Return the rows C A^t (T p, n) for t = 1 .. T, from those of C (p, n)."""
    step = A.transpose()
    block = step * rows.transpose()
    leap = step
    count = samples * rows.nrows()
    while count > _ROW_BLOCKS * block.ncols():
        block = block_balls([[block, leap * block]])
        leap = leap * leap
    blocks = [block]
    for _ in range(-(-count // block.ncols()) - 1):
        blocks.append(leap * blocks[-1])
    table = [line for block in blocks for line in block.transpose().tolist()]
    return BallMatrix(table[:count])


class Orbit:
    """States A^t x of a ball matrix A and ball columns x.

    A^t is a product of squares of squares, one for each bit of t. States are kept, so one
    that follows others takes a single product.
    """

    def __init__(self, matrix: BallMatrix, start: BallMatrix) -> None:
        self._squares = [matrix]
        self._states = {0: start}

    def at(self, time: int) -> BallMatrix:
        """Return the states at a time."""
        if time not in self._states:
            place = time.bit_length() - 1
            while place >= len(self._squares):
                last = self._squares[-1]
                self._squares.append(last * last)
            before = self.at(time - 2**place)
            self._states[time] = self._squares[place] * before
        return self._states[time]


@dataclass(frozen=True)
class LongOrbit:
    """step^t V (n, w) for t = 0 .. T-1, each a power step^(k L) of one of the first L.

    As pairs of doubles they are products of a ``stack`` of the powers, in which all first
    rows stand before all second ones, and of those ``begun`` with.
    """

    first: BallMatrix
    powers: list[BallMatrix]
    stack: Pairs
    begun: Pairs
    width: int
    samples: int

    @classmethod
    def of(cls, step: BallMatrix, start: BallMatrix, samples: int) -> LongOrbit:
        """Compute it with balls of the working bits."""
        width = start.ncols()
        first, leap = _first_block(step, start, math.isqrt(samples) * width)
        powers = [leap**0]
        blocks = -(-samples * width // first.ncols())
        while len(powers) < blocks:
            powers += [leap * power for power in powers[: blocks - len(powers)]]
            leap = leap * leap
        begun = Pairs.of_balls(first)
        return cls(first, powers, _row_by_row(powers), begun, width, samples)

    def seen_by(self, C: BallMatrix) -> LongOrbit:
        """Return C step^t V in pairs of doubles, with balls of the working bits."""
        return replace(self, stack=_row_by_row([C * power for power in self.powers]))

    def scaled(self, radii: NDArray[np.float64]) -> LongOrbit:
        """Return it in pairs of doubles with the columns of V times these, again and again."""
        every = np.resize(radii, self.first.ncols())
        return replace(self, begun=self.begun.scaled(every))

    @property
    def is_sharp(self) -> bool:
        """Whether pairs of doubles tell the nearest double of each entry."""
        return self.stack.tells_product(self.begun)

    def until(self, last: int) -> LongOrbit:
        """Return that of the times up to a last one."""
        count = -(-(last + 1) * self.width // self.first.ncols())
        places = np.arange(len(self.stack.high)).reshape(-1, len(self.powers))
        some = self.stack.rows(places[:, :count].ravel())
        return replace(self, powers=self.powers[:count], stack=some, samples=last + 1)

    def nearest(self) -> NDArray[np.float64] | None:
        """Return the nearest doubles (n, T w), side by side.

        None where pairs of doubles do not tell them all.
        """
        found = self.stack.nearest_to_product(self.begun)
        return None if found is None else self._side_by_side(found)

    def read(
        self, read: Callable[[Pairs], NDArray[np.float64]]
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return what is read (n, T w) of pairs of doubles, and bounds of their errors."""
        found, error = self.stack.read_product(self.begun, read)
        return self._side_by_side(found), self._side_by_side(error)

    def _side_by_side(self, found: NDArray[np.float64]) -> NDArray[np.float64]:
        rows = len(found) // len(self.powers)
        return found.reshape(rows, -1)[:, : self.samples * self.width]

    def columns(
        self,
        times: NDArray[np.intp],
        sources: NDArray[np.intp],
        scales: NDArray[np.float64],
    ) -> BallMatrix:
        """Return columns (n, M) as `FreeResponse.columns` does, for t >= 0."""
        places = times * self.width + sources
        homes, within = np.divmod(places, self.first.ncols())
        table = self.first.transpose().tolist()
        found: list[list[Ball]] = [[]] * len(places)
        for home in np.unique(homes).tolist():
            some = np.flatnonzero(homes == home)
            those = BallMatrix([table[k] for k in within[some].tolist()]).transpose()
            moved = (self.powers[home] * those).transpose().tolist()
            for place, column in zip(some.tolist(), moved, strict=True):
                scale = Ball(float(scales[place]))
                found[place] = [entry * scale for entry in column]
        return BallMatrix(found).transpose()


def _row_by_row(matrices: list[BallMatrix]) -> Pairs:
    """Return the first rows of all matrices as pairs, then the second ones, and so on."""
    count, rows = len(matrices), matrices[0].nrows()
    stack = Pairs.of_balls(block_balls([[matrix] for matrix in matrices]))
    return stack.rows(np.arange(count * rows).reshape(count, rows).T.ravel())


def _first_block(
    step: BallMatrix, start: BallMatrix, most: int
) -> tuple[BallMatrix, BallMatrix]:
    """Return start, step start, .. side by side, at least so many columns, and the next power."""
    block = start
    leap = step
    while block.ncols() < most:
        block = block_balls([[block, leap * block]])
        leap = leap * leap
    return block, leap


def _orbit(step: BallMatrix, start: BallMatrix, count: int) -> Iterator[BallMatrix]:
    """step start, step^2 start, .. side by side, up to the last accurate state.

    There are at most ``count`` columns. The states of a block, moved on by as many
    samples, are the next block. Powers of such moves come from each other in the same way.
    """
    rows = range(start.nrows())
    width = start.ncols()
    block, leap = _first_block(step, step * start, min(LEAP * width, count))
    powers = [leap**0]
    for k, first in enumerate(range(0, count, block.ncols())):
        if k == len(powers):
            powers += [leap * power for power in powers]
            leap = leap * leap
        if count - first < block.ncols():
            block = submatrix(block, rows, range(count - first))
        latest = powers[k] * block
        with working_bits(_KEPT_BITS):
            latest = latest * 1
        accurate = accurate_columns(latest) // width * width
        if accurate < latest.ncols():
            yield submatrix(latest, rows, range(accurate))
            return
        yield latest
