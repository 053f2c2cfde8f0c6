"""Check the promise of a design file, without the library that wrote it.

    python -m privcontrol.verify FILE [FILE ...]
    python verify.py FILE [FILE ...]        # this file alone, copied anywhere

A design file says how large the noise at a plant's outputs is, what it hides and how well.
This program reads the numbers of the noise and of the secret, and none of the words. It
proves a bound of the privacy shift y and compares it with the claim, which holds if the
bound is at most claim (1 + 1e-9). It needs the standard library alone and shares no code
with privcontrol.

Gaussian noise of covariance Gamma hides a change s of the outputs up to y^2 = s'Gamma^-1 s,
and is y-GDP for the worst change (Dong, Roth and Su 2022). Each part below says in a sentence
why its bound of y^2 holds. Certificates, such as gains, inverses and energies, are looked for by
any means, and proved afterwards. The theory is in docs/design_files.md.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import struct
import sys
from decimal import Decimal, localcontext
from fractions import Fraction
from itertools import product as pairs
from math import gcd, inf, isqrt, lcm
from operator import mul

TOLERANCE = 1 + Fraction(1, 10**9)  # bound over claim, for rounding in the library
SCHEMAS = (2, 3)
MOST_BITS = 4096
UNREADABLE = (
    ArithmeticError,
    AttributeError,
    LookupError,
    OSError,
    TypeError,
    ValueError,
)


class NotADesign(Exception):
    """The file is no design file, or it is damaged: exit status 3."""


class NotCovered(Exception):
    """The promise is of a kind that is not checked here, or undecided: exit status 2."""


class Broken(Exception):
    """The promise does not hold: exit status 1."""


class TooFewBits(Exception):
    """A proof fails with so many bits; with more of them it may succeed."""


# -- numbers: integers over 2^bits, known up to an error ---------------------------------


class Balls:
    """A matrix of numbers (mid +- err) / 2^bits, with one error for all of its entries.

    What is computed holds for every matrix within the error.
    """

    bits = 256

    def __init__(self, mid, err=0):
        self.mid, self.err = mid, err

    @classmethod
    def of(cls, rows):
        """Return rational numbers, rounded where the bits do not suffice."""
        scaled = [[Fraction(x) * (1 << cls.bits) for x in row] for row in rows]
        exact = all(x.denominator == 1 for row in scaled for x in row)
        return cls([[x // 1 for x in row] for row in scaled], int(not exact))

    def __matmul__(self, other):
        if len(self.mid[0]) != len(other.mid):
            raise ValueError("matrices do not fit each other")
        columns = list(zip(*other.mid))
        mid = []
        for row in self.mid:
            mid.append([sum(map(mul, row, one)) >> Balls.bits for one in columns])
        wrong = self.largest() * other.err + other.largest() * self.err
        return Balls(mid, (len(other.mid) * wrong >> Balls.bits) + 2)

    def __add__(self, other):
        return Balls(sums(self.mid, other.mid), self.err + other.err)

    def __neg__(self):
        return Balls([[-x for x in row] for row in self.mid], self.err)

    def __sub__(self, other):
        return self + (-other)

    @property
    def T(self):
        return Balls(turned(self.mid), self.err)

    def exact(self):
        """Return the midpoints, taken for exact numbers."""
        return Balls(self.mid)

    def upper(self, i, j):
        return abs(self.mid[i][j]) + self.err

    def largest(self):
        return max(max(map(abs, row)) for row in self.mid) + self.err

    def part(self, rows, columns):
        return Balls([[self.mid[i][j] for j in columns] for i in rows], self.err)

    @classmethod
    def unit(cls, size):
        return cls(diagonal([1 << cls.bits] * size))

    def symmetric(self):
        """Return a symmetric matrix of the entries below the diagonal."""
        size = range(len(self.mid))
        return Balls([[self.mid[max(i, j)][min(i, j)] for j in size] for i in size])


def sums(rows, others):
    pairs_of_rows = zip(rows, others, strict=True)
    return [[x + y for x, y in zip(*pair, strict=True)] for pair in pairs_of_rows]


def turned(rows):
    return [list(column) for column in zip(*rows)]


def times(left, right):
    """Return the product of matrices of rationals."""
    if left and len(left[0]) != len(right):
        raise ValueError("matrices do not fit each other")
    columns = list(zip(*right))
    return [[sum(map(mul, row, column)) for column in columns] for row in left]


def diagonal(numbers):
    """Return rows with numbers on the diagonal, rationals or integers over 2^bits."""
    return [[x * (i == j) for j in range(len(numbers))] for i, x in enumerate(numbers)]


def blocks(*table):
    """Return a matrix of matrices."""
    rows = [joined(lines) for row in table for lines in zip(*(one.mid for one in row))]
    return Balls(rows, max(one.err for row in table for one in row))


def joined(rows):
    return [x for row in rows for x in row]


def zero(rows, columns):
    return Balls([[0] * columns for _ in range(rows)])


def root_up(number):
    """Return an integer whose square, both over 2^bits, is above a number."""
    return isqrt(max(number, 0) + 1 << Balls.bits) + 1


# -- proofs ------------------------------------------------------------------------------


def reduced(rows, width):
    """Return the row echelon form of rational rows, and what is left of the others.

    Pivots (column, row) are among the first ``width`` columns. Rows are integers without a
    common divisor, so all of it is exact.
    """

    def whole(row):
        common = lcm(*(Fraction(x).denominator for x in row))
        row = [int(x * common) for x in row]
        divisor = gcd(*row) or 1
        return [x // divisor for x in row]

    def without(row, k):
        return whole([x * pivot[k] - y * row[k] for x, y in zip(row, pivot)])

    pivots, rest = [], [whole(row) for row in rows]
    for k in range(width):
        pivot = next((row for row in rest if row[k]), None)
        if pivot:
            rest = [
                without(row, k) if row[k] else row for row in rest if row is not pivot
            ]
            pivots = [
                (place, without(row, k) if row[k] else row) for place, row in pivots
            ]
            pivots.append((k, pivot))
    return pivots, [row for row in rest if any(row)]


def rational_inverse(rows):
    size = len(rows)
    beside = [row + unit for row, unit in zip(rows, diagonal([1] * size))]
    pivots, _ = reduced(beside, size)
    if len(pivots) < size:
        raise Broken("the plant's states cannot be moved on their own at later times")
    return [[Fraction(x, row[k]) for x in row[size:]] for k, row in pivots]


def inverse(matrix):
    """Return the inverse of a matrix, from any X near it.

    If the rows of E = I - X A have sums e < 1, then A^-1 = (I - E)^-1 X is within
    e / (1 - e) max|X| of X.
    """
    one, size = 1 << Balls.bits, len(matrix.mid)
    table = [row + unit for row, unit in zip(matrix.mid, diagonal([one] * size))]
    for k in range(size):
        best = max(range(k, size), key=lambda i: abs(table[i][k]))
        table[k], table[best] = table[best], table[k]
        if not table[k][k]:
            raise TooFewBits
        pivot = table[k] = [(x << Balls.bits) // table[k][k] for x in table[k]]
        for i, row in enumerate(table):
            if i != k and row[k]:
                by = row[k]
                table[i] = [x - (by * y >> Balls.bits) for x, y in zip(row, pivot)]
    found = Balls([row[size:] for row in table])
    left = Balls(diagonal([one] * size)) - found @ matrix
    wrong = size * left.largest()
    if 2 * wrong > one:
        raise TooFewBits
    return Balls(found.mid, wrong * found.largest() // (one - wrong) + 1)


def is_nonnegative(matrix):
    """Return whether a symmetric matrix is proved to be positive semidefinite.

    A Cholesky factor R that is rounded entry by entry has |R R' - G| <= 2 max|R| in units of
    the last place. The diagonal is lowered by what all errors of a row add up to.
    """
    peak = max(row[k] for k, row in enumerate(matrix.mid))
    unit = (2 * isqrt(max(peak, 0) << Balls.bits) >> Balls.bits) + 2
    slack = len(matrix.mid) * (matrix.err + unit)
    root = []
    for i, row in enumerate(matrix.mid):
        mine = []
        for x, other in zip(row, root):
            mine.append(((x << Balls.bits) - sum(map(mul, mine, other))) // other[-1])
        left = (row[i] - slack << Balls.bits) - sum(map(mul, mine, mine))
        if left <= 0:
            return False
        root.append([*mine, isqrt(left)])
    return True


def least(is_bound, low, high, step):
    """Return the least number above one that is proved to be a bound, up to a step."""
    while not is_bound(high):
        low, high = high, 4 * high
        if high.bit_length() > 3 * Balls.bits:
            raise TooFewBits
    while high - low > max(step, high >> 42, 1):
        middle = (low + high) // 2
        low, high = (low, middle) if is_bound(middle) else (middle, high)
    return high


def largest_eigenvalue(matrix):
    """Return a bound, over 2^bits, of the eigenvalues of a positive semidefinite matrix."""
    unit, size = matrix.largest() or 1, len(matrix.mid)
    rows = [[x / unit for x in row] for row in matrix.mid]
    image = [1 + k / size for k in range(size)]
    for _ in range(50 + min(10**6 // size**2, 1000)):
        vector = [x / (sum(map(mul, image, image)) ** 0.5 or 1.0) for x in image]
        image = [sum(map(mul, row, vector)) for row in rows]
    start = int(Fraction(sum(map(mul, vector, image))) * unit)

    def is_bound(excess):
        return is_nonnegative(Balls(diagonal([start + excess] * size)) - matrix)

    return start + least(is_bound, 0, (unit >> 42) + 1, unit >> 42)


def energy(A, C):
    """Return Q such that outputs C x of x+ = A x have an energy of at most x(0)'Q x(0).

    Q = C'C + A'QA is summed by doubling. That Q >= 0 and Q >= C'C + A'QA is proved then: no
    sample has more energy than x'Q x loses by it.
    """
    margin = Balls(diagonal([1 << 2 * Balls.bits // 3] * len(A.mid)))
    Q, power = (C.T @ C + margin).exact(), A.exact()
    for _ in range(64):
        Q = (Q + power.T @ Q @ power).exact()
        power = (power @ power).exact()
        if power.largest() >> Balls.bits // 2 == 0:
            break
        if power.largest() >> 6 * Balls.bits:
            raise TooFewBits
    Q = Q.symmetric()
    if is_nonnegative(Q) and is_nonnegative(Q - A.T @ Q @ A - C.T @ C):
        return Q
    raise TooFewBits


# -- a file, its plants and its secrets --------------------------------------------------


def value(item):
    """Return what JSON of a design file stands for, with rationals for its numbers."""
    if isinstance(item, list):
        return [value(part) for part in item]
    if not isinstance(item, dict):
        return item
    if set(item) == {"float"}:
        found = float.fromhex(item["float"])
        return found if abs(found) == inf else Fraction(found)
    if set(item) != {"shape", "floats"}:
        return {name: value(part) for name, part in item.items()}
    flat = [Fraction(float.fromhex(text)) for text in item["floats"]]
    count, *columns = item["shape"]
    if len(flat) != count * (columns or [1])[0]:
        raise NotADesign("an array does not have the shape that it names")
    for width in columns:
        flat = [flat[k * width : (k + 1) * width] for k in range(count)]
    return flat


def read(path):
    """Return the noise of a design file, or of the loop in it, as a dictionary."""
    with open(path, encoding="ascii") as file:
        data = json.load(file)
    claimed = data.pop("digest")
    if digest_of(data) != claimed:
        raise NotADesign("it does not match its digest")
    if data["schema"] not in SCHEMAS:
        raise NotADesign(f"its schema is {data['schema']!r}")
    if data["kind"] == "privateloop":
        if data["noise"] is None:
            raise NotCovered("a loop without noise promises nothing")
        if data["noise"]["plant"] != data["plant"]:
            raise Broken("the noise of the loop is that of another plant")
        data = data["noise"] | {"schema": data["schema"]}
    if data["kind"] != "outputnoise":
        raise NotADesign("it holds neither a noise nor a loop")
    request = data["request"]
    if data["schema"] > 2 and request is not None:
        for plant in [data["plant"], *request["models"]]:
            fields = set(plant) - {"kind", "fingerprint", "name"}
            if (
                digest_of({name: plant[name] for name in fields})
                != plant["fingerprint"]
            ):
                raise Broken("a plant does not match its fingerprint")
    return value(data)


def digest_of(data):
    text = json.dumps(data, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


FIELDS = {
    "outputnoise": "schema plant horizon family parts request guarantee",
    "request": "horizon budget adjacency family releases floor models region resolution "
    "factor order gap",
    "privacybudget": "epsilon delta gdp",
    "stateadjacency": "radius states times charts signals",
    "initialstateadjacency": "radius norm signals",
    "disturbanceadjacency": "radius inputs times norm duration profiles events separation "
    "window signals",
    "jointadjacency": "parts",
    "structured": "plant factor",
    "driven": "response sizes",
    "correlated": "root outputs",
    "white": "scale",
    "filtered": "shaping response starts_stationary",
    "privacyloss": "rows moves kinds attained aligned proportional",
    "product": "shifts square boxes",
}


def check_known(item):
    """Refuse fields that mean something which is not checked here."""
    parts = item.values() if isinstance(item, dict) else item
    if isinstance(item, dict) and item.get("kind") in FIELDS:
        known = {"kind", *FIELDS[item["kind"]].split()}
        for name in set(item) - known:
            if item[name]:
                raise NotCovered(f"{name} of {item['kind']}")
    for part in parts:
        if isinstance(part, (dict, list)):
            check_known(part)


class Plant:
    """x+ = A x + B u, y = C x + D u, with the names of its states, inputs and outputs."""

    def __init__(self, data):
        self.A, self.B, self.C, self.D = matrices = [data[name] for name in "ABCD"]
        self.names = data["states"], data["inputs"], data["outputs"]
        self.states, self.inputs, self.outputs = self.names
        n, m, p = map(len, self.names)
        sizes = (n, n), (n, m), (p, n), (p, m)
        for matrix, (rows, columns) in zip(matrices, sizes):
            if [columns] * rows != list(map(len, matrix)) or not n * p:
                raise NotADesign(
                    "matrices of a plant do not have the sizes of its names"
                )
        digest = hashlib.sha256()
        for matrix, size in zip(matrices, sizes):
            digest.update(repr(size).encode())
            for row in matrix:
                digest.update(struct.pack(f"<{len(row)}d", *map(float, row)))
        self.dt = data["dt"] if data["dt"] is True else float(data["dt"])
        digest.update(repr((self.dt, *map(tuple, self.names))).encode())
        self.fingerprint = digest.hexdigest()[:12]

    def is_like(self, other):
        return (self.A, self.C) == (other.A, other.C)

    def column(self, name):
        """Return the columns of B and D of an input, the unit vector of a state and zero."""
        if name in self.inputs:
            k = self.inputs.index(name)
            return [row[k] for row in self.B], [row[k] for row in self.D]
        return [Fraction(one == name) for one in self.states], [0] * len(self.C)


def chosen(secret, names, numbered):
    """Return the names that a secret is about with their radii."""
    radius = secret["radius"]
    given = secret.get("inputs", secret.get("states"))
    given = names[:numbered] if given is None else given
    if isinstance(radius, dict):
        given = secret.get("signals") or list(radius)
        if sorted(given) != sorted(radius):
            raise Broken("the secret's signals are not those that have a radius")
        radius = [radius[name] for name in given]
        given = [int(x) if x not in names and x.isdecimal() else x for x in given]
    radii = radius if isinstance(radius, list) else [radius] * len(given)
    found = [names[:numbered][x] if isinstance(x, int) else x for x in given]
    if len(set(found)) != len(radii) or any(names.count(name) != 1 for name in found):
        raise Broken(
            "the secret's names are not signals of the plant with a radius each"
        )
    if not found or not all(0 < radius < inf for radius in radii):
        raise Broken("the secret's radii are not positive")
    return dict(zip(found, map(Fraction, radii)))


def sample_times(secret, horizon):
    """Return the samples at which a secret may move, by default all of them."""
    given = range(horizon) if secret["times"] is None else secret["times"]
    if (
        not given
        or list(given) != sorted(set(given))
        or not 0 <= given[0] <= given[-1] < horizon
    ):
        raise Broken("the secret's times are not sorted samples within the horizon")
    return given


# -- moves of a state --------------------------------------------------------------------
#
# "State k at time j moves by mu, the others held" is the move z = mu A^-j e_k of x(0). States
# that only inputs drive are the same in both runs. Those that drive no others are delayed
# readings, which follow from what the other states were before. A^-1 exists among the rest.


def only_driven(A):
    """Return the states that only inputs and other such states drive, by exact zeros."""
    found = set()
    for _ in A:
        drivers = [{j for j, x in enumerate(row) if x} for row in A]
        found = {i for i, those in enumerate(drivers) if those <= found}
    return found


def backward(plant):
    """Return rational matrices: a step back in time, and what delayed readings follow from."""
    n = range(len(plant.A))
    inputs = only_driven(plant.A)
    readings = only_driven(turned(plant.A)) - inputs
    moving = [k for k in n if k not in inputs | readings]
    inner = rational_inverse([[plant.A[i][j] for j in moving] for i in moving])
    step = [[Fraction(0)] * len(n) for _ in n]
    for i, row in zip(moving, inner):
        for j, x in zip(moving, row):
            step[i][j] = x
    keep = diagonal([int(k in moving) for k in n])
    into = [[x * (i in readings) for x in row] for i, row in enumerate(plant.A)]
    follow = keep
    for _ in readings:
        follow = sums(keep, times(times(into, follow), step))
    return times(follow, step), follow, set(n) - set(moving), bool(readings)


def moves_of_states(plant, secret, horizon):
    """Return the moves of x(0) that a secret hides, and rational ones that span them.

    Whether they are the axes of a ball comes last.
    """
    radii = chosen(secret, plant.states, len(plant.states))
    axes = [[mu * (one == name) for name, mu in radii.items()] for one in plant.states]
    if secret["kind"] == "initialstateadjacency":
        if secret["norm"] == inf:
            corners = [(1, *rest) for rest in pairs((1, -1), repeat=len(radii) - 1)]
            axes = times(axes, turned(corners))
        elif secret["norm"] not in (1, 2):
            raise NotCovered("a ball of another norm than 1, 2 and infinity")
        return Balls.of(axes), axes, secret["norm"] == 2
    if secret["charts"] != "times":
        raise NotCovered('a secret with charts="all"')
    samples = sample_times(secret, horizon)
    if samples[-1] == 0:
        return Balls.of(axes), axes, False
    step, follow, fixed, has_readings = backward(plant)
    if any(plant.states.index(name) in fixed for name in radii):
        raise Broken("a delayed signal is not moved on its own at a later time")
    first = times(follow, axes)
    # at the first sample delayed readings may be held as well
    held = [axes] if samples[0] == 0 and has_readings else []
    spanning = [first]
    for _ in range(samples[0] + min(len(plant.A), samples[-1] - samples[0] + 1) - 1):
        spanning.append(times(step, spanning[-1]))
    spanning = held + spanning[samples[0] :]
    powers = [Balls.of(step)]  # then two samples, four, ...: errors grow with log T
    while samples[-1] >> len(powers):
        powers.append(powers[-1] @ powers[-1])
    known = {0: Balls.of(first)}

    def at(j):
        if j not in known:
            known[j] = powers[(j & -j).bit_length() - 1] @ at(j & (j - 1))
        return known[j]

    found = blocks([*map(at, samples), *map(Balls.of, held)])
    return found, [joined(rows) for rows in zip(*spanning)], False


# -- noise that is the plant's own response, over a run ----------------------------------


def compared(design, plant):
    """Return A, C, E and S such that O z - O S c is the response C A^t (E z - S c).

    It is that of the noise's plant, or of that and the secret's plant side by side.
    """
    own, n = design.plant, len(plant.A)
    factor = design.part("structured", "factor") or [[0] for _ in own.A]
    unit = diagonal([1] * n)
    if plant.is_like(own):
        return own.A, own.C, unit, factor
    m = len(own.A)
    A = [row + [0] * m for row in plant.A] + [[0] * n + row for row in own.A]
    C = [row + its for row, its in zip(plant.C, own.C)]
    E = unit + [[0] * n for _ in own.A]
    return A, C, E, [[0] * len(factor[0]) for _ in unit] + factor


def coordinates(design, plant, spanning, of_states=False):
    """Return the matrix that maps a move z to the least c with O S c = O z, in rationals.

    Rows of [O S | O E] are reduced to [M | B] and [0 | l]. Moves must obey l z = 0, or they
    are published. Then c = M'(M M')^-1 B z. With ``of_states`` S c = z is asked for.
    """
    A, C, E, S = compared(design, plant)
    seen, block = (diagonal([1] * len(A)), C) if of_states else ([], C)
    for _ in range(min(len(A), design.horizon)):  # rows C A^t, until no new one comes
        pivots, _ = reduced(seen + block, len(A))
        if len(pivots) == len(seen):
            break
        seen, block = [row for _, row in pivots], times(block, A)
    width = len(S[0])
    table = [row + its for row, its in zip(times(seen, S), times(seen, E))]
    pivots, demands = reduced(table, width)
    if any(map(any, times([row[width:] for row in demands], spanning))):
        raise Broken("a hidden move leaves what the noise covers, and is published")
    M = [row[:width] for _, row in pivots] or [[1] * width]
    B = [row[width:] for _, row in pivots] or [[0] * len(E[0])]
    across = times(turned(M), rational_inverse(times(M, turned(M))))
    return Balls.of(times(across, B))


def form_beside_floor(design, plant):
    """Return W with y^2 <= z'W z for noise O S eta beside a white floor f.

    The noise may take any part c = K z of a move, which leaves the rest to the floor: y^2 <=
    |K z|^2 + |(O E z - O S K z) / f|^2 for any K. The best one is (I + S'H S)^-1 S'H E.
    """
    A, C, E, S = compared(design, plant)
    step, E, S = map(Balls.of, (A, E, S))
    weighted = Balls.of([[x / size for x in row] for row, size in zip(C, design.white)])
    part, power, left = weighted.T @ weighted, Balls.unit(len(A)), design.horizon
    H = zero(len(A), len(A))
    while left:  # the sum of A'^t C'f^-2 C A^t over the run, by doubling
        if left & 1:
            H, power = H + power.T @ part @ power, step @ power
        part, step, left = part + step.T @ part @ step, step @ step, left >> 1
    inner = (Balls.unit(len(S.mid[0])) + S.T @ H @ S).exact()
    K = (inverse(inner) @ S.T @ H @ E).exact()
    rest = E - S @ K
    return K.T @ K + rest.T @ H @ rest


def squares_of_states(design, plant, secret):
    """Return bounds of y^2, over 2^bits, for the moves of a state under one plant."""
    moves, spanning, is_ball = moves_of_states(plant, secret, design.horizon)
    if design.white:
        W = form_beside_floor(design, plant)
    else:
        shifts = coordinates(design, plant, spanning)
        W = shifts.T @ shifts
    return largest_form(moves, W, is_ball)


def largest_form(moves, W, is_ball):
    """Return z'W z of columns z, or the largest one of the ball that they span."""
    image = W @ moves
    if is_ball:
        return [largest_eigenvalue(moves.T @ image)]
    wrong = len(moves.mid) * (moves.largest() * image.err + image.largest() * moves.err)
    both = zip(turned(moves.mid), turned(image.mid))
    return [(sum(map(mul, *pair)) + wrong >> Balls.bits) + 1 for pair in both]


# -- other noise over a run --------------------------------------------------------------


class Entering:
    """A secret as columns of B and D by which it enters a plant from rest, and its changes."""

    shapes, lasting, events, apart = [[1]], False, 1, 0
    is_ball = is_energy = False

    def __init__(self, plant, secret, horizon):
        if secret["kind"] != "disturbanceadjacency":  # z enters before t = 0
            last = horizon if horizon < inf else (secret.get("times") or [0])[-1] + 1
            if horizon == inf and secret.get("times", 0) is None:
                raise NotCovered("a state at any time, without a horizon")
            self.B, self.rows, self.is_ball = moves_of_states(plant, secret, last)
            count = len(self.B.mid[0])
            if secret.get("times", [0]) != [
                0
            ]:  # only exact zeros of these rows are used
                self.rows = [[int(any(row))] * count for row in self.rows]
            self.through = [[0] * count for _ in plant.C]
            self.D, self.radii, self.starts = Balls(self.through), [1] * count, [-1]
            return
        radii = chosen(secret, plant.inputs + plant.states, len(plant.inputs))
        columns = zip(*(plant.column(name) for name in radii))
        self.rows, self.through = map(turned, columns)
        self.B, self.D = Balls.of(self.rows), Balls.of(self.through)
        self.radii = list(radii.values())
        if horizon < inf:
            self.starts = sample_times(secret, horizon)
        elif secret["times"] is not None:
            raise NotCovered("chosen times without a horizon")
        self.is_energy = secret["norm"] == "l2"
        self.lasting = secret["profiles"] is None
        self.shapes = [[1] * secret["duration"]] if self.lasting else secret["profiles"]
        self.events, self.apart = secret["events"], secret["separation"]


class Root:
    """A lower triangular R with R R' = Gamma - E for noise and a floor over a run.

    Gamma >= f^2, so Gamma^-1 <= (1 + |E| / f^2) (R R')^-1, and R^-1 has no gain above
    1 / sqrt(f^2 - |E|). Without a floor R is the root in the file, and its comparison matrix
    maps a g >= 0 to ones or more, which bounds the rows of R^-1 by max g. White noise alone
    has no rows.
    """

    def __init__(self, design):
        bits, white = Balls.bits, design.white
        given = design.part("correlated", "root") or []
        size = self.size = design.horizon * len(design.plant.C)
        if any(len(row) != size or any(row[k + 1 :]) for k, row in enumerate(given)):
            raise Broken("the root of the noise is not lower triangular")
        exact = Balls.of([row[: k + 1] for k, row in enumerate(given)] or [[0]])
        if exact.err:
            raise TooFewBits
        self.kept = [k for k in range(size) if white or any(given[k])]
        self.sizes = [] if given else white * design.horizon
        self.rows, self.excess, gains = [], Fraction(0), []
        for i in self.kept if given else []:
            mine, row = [], [exact.mid[i][j] for j in self.kept if j <= i]
            if not white:
                taken = sum(abs(x) * g for x, g in zip(row, gains))
                gains.append(((1 << 2 * bits) + taken) // abs(row[-1]) + 1)
                self.rows.append(row)
                continue
            for j, other in enumerate(self.rows):
                product = sum(map(mul, exact.mid[j], row)) - sum(map(mul, other, mine))
                mine.append(product // other[-1])
            floor = int(white[i % len(white)] ** 2 * (1 << 2 * bits))
            square = sum(map(mul, row, row)) + floor - sum(map(mul, mine, mine))
            self.rows.append([*mine, isqrt(max(square, 1))])
        self.peak = max((max(map(abs, row)) for row in self.rows), default=0)
        self.gain = Fraction(size * max(gains, default=1 << bits), 1 << bits)
        if white:
            wrong = Fraction(2 * size * (self.peak + 1), 1 << 2 * bits)
            left = min(white) ** 2 - wrong
            if wrong > left:
                raise TooFewBits
            self.excess = wrong / left
            self.gain = Fraction(size * root_up(int((1 << bits) / left)), 1 << bits)

    def undone(self, column, error, moved):
        """Return R^-1 s for s over 2^bits, and a bound of the length of its error."""
        if any(moved[k] for k in set(range(self.size)) - set(self.kept)):
            raise Broken("a hidden change moves an output that has no noise")
        found = [int(x / size) for x, size in zip(column, self.sizes)]
        for k, row in zip(self.kept, self.rows):
            left = (column[k] << Balls.bits) - sum(map(mul, row, found))
            found.append(left // row[-1])
        rest = (self.peak >> Balls.bits) + error + 1
        return found, int(self.gain * rest) + self.size + 1

    def product(self, some, others):
        """Return (R^-1 s)'R^-1 s' of two changes, and how far it may be from s'Gamma^-1 s'."""
        (one, wrong, length), (other, its, its_length) = some, others
        found = sum(map(mul, one, other)) >> Balls.bits
        slack = length * its + its_length * wrong >> Balls.bits
        return found, slack + int((length * its_length >> Balls.bits) * self.excess) + 3


def changes_of_run(design, plant, secret, root):
    """Yield what a secret changes in a run: its first sample, R^-1 s, and that one's error."""
    T, p = design.horizon, len(plant.C)
    A, C, state, response = Balls.of(plant.A), Balls.of(plant.C), secret.B, [secret.D]
    reached, moved = secret.rows, [secret.through]
    links_A, links_C = (
        [[x != 0 for x in row] for row in M] for M in (plant.A, plant.C)
    )
    for _ in range(T):
        response.append(C @ state)
        state = A @ state
        reached = [[int(x != 0) for x in row] for row in reached]  # exact zeros
        moved.append(times(links_C, reached))
        reached = times(links_A, reached)
    known = {}

    def undone(t, k):
        if (t, k) not in known:
            samples = range(-t, T - t) if t < 0 else range(T - t)
            before = [0] * (max(t, 0) * p)
            column = before + [row[k] for s in samples for row in response[s].mid]
            mask = before + [row[k] for s in samples for row in moved[s]]
            error = max(response[s].err for s in samples)
            known[t, k] = root.undone(column, error, mask)
        return known[t, k]

    for t, k, shape in pairs(secret.starts, range(len(secret.radii)), secret.shapes):
        total, wrong, last = [0] * root.size, 0, min(len(shape), T - t) - 1
        for later, size in enumerate(shape[: last + 1]):
            unit, its = undone(t + later, k)
            by = int(size * secret.radii[k] * (1 << Balls.bits))
            total = [x + (by * y >> Balls.bits) for x, y in zip(total, unit)]
            most = max(map(abs, unit)) >> Balls.bits
            wrong += (abs(by) * its >> Balls.bits) + root.size * (most + 2)
            if secret.lasting or later == last:
                length = root_up(sum(map(mul, total, total)) >> Balls.bits) + wrong
                yield t, (total, wrong, length)


def squares_of_run(design, plant, data, root):
    """Return bounds of y^2, over 2^bits, for what a secret changes over a run."""
    secret = Entering(plant, data, design.horizon)
    if not root.rows and secret.events == 1 and not secret.is_energy:
        secret.starts = secret.starts[:1]  # later the same changes are cut off
    squares, changes = [], []
    for t, change in changes_of_run(design, plant, secret, root):
        squares.append(sum(root.product(change, change)))
        if secret.events > 1 or secret.is_ball or secret.is_energy:
            changes.append((t, change))
    if secret.is_ball or secret.is_energy:
        mid, err = [], 0
        for _, one in changes:
            row, slacks = zip(*(root.product(one, other) for _, other in changes))
            mid, err = [*mid, list(row)], max(err, *slacks)
        return [largest_eigenvalue(Balls(mid, err))]
    if secret.events == 1:
        return squares
    if secret.apart < 1:
        raise NotCovered("several changes over a run that keep no distance")
    reach = secret.starts[-1] - secret.starts[0]
    by_lag = [0] * (reach + 1)
    for (t, one), (s, other) in pairs(changes, repeat=2):
        if t - s >= secret.apart:
            found, slack = root.product(one, other)
            by_lag[t - s] = max(by_lag[t - s], abs(found) + slack)
    count = min(secret.events, 1 + reach // secret.apart)
    products = [max(by_lag[m * secret.apart :]) for m in range(1, count)]
    return [together(max(squares), products)]


def together(square, products):
    """Bound the square of k changes in order, whose products m places apart are at most c_m.

    It is k y^2 + 2 sum over m < k of (k - m) c_m, and k^2 y^2 at most.
    """
    count = len(products) + 1
    others = sum((count - m) * product for m, product in enumerate(products, 1))
    return min(count * square + 2 * others, count**2 * square)


# -- noise without a horizon -------------------------------------------------------------


def system(data):
    """Return the matrices of a file's system, with one state at zero if it has none."""
    A, B, C, D = (data[name] for name in "ABCD")
    if not A:
        A, B, C = [[0]], [[0] * len(D[0])], [[0]] * len(D)
    return [Balls.of(matrix) for matrix in (A, B, C, D)]


def undone_after(entering, shaping):
    """Return V = M^-1 G of noise M nu, and G through which a secret enters.

    M^-1 has the matrices A - B D^-1 C, B D^-1, -D^-1 C and D^-1.
    """
    (A, B, C, D), (its_A, its_B, its_C, its_D) = entering, shaping
    back = inverse(its_D)
    by, seen = its_B @ back, -(back @ its_C)
    joint = blocks([A, zero(len(A.mid), len(its_A.mid))], [by @ C, its_A - by @ its_C])
    return joint, blocks([B], [by @ D]), blocks([back @ C, seen]), back @ D


def squares_for_ever(design, plant):
    """Return bounds of y^2, over 2^bits, for runs of any length.

    What is left of a change when the noise M nu is undone is its response by V = M^-1 G. Noise
    that enters the plant with the secret is undone at the entry, where V = M^-1. A floor
    beside it adds: 1 / y^2 >= 1 / y_1^2 + 1 / y_2^2, since 1 / s'Gamma^-1 s is superadditive.
    """
    secrets = [Entering(plant, data, design.horizon) for data in design.secrets]
    if len(secrets) > 1 and any(secret.is_energy for secret in secrets):
        raise NotCovered("signals of bounded energy beside other secrets")
    n = range(len(plant.A))
    reached = {k for secret in secrets for k in n if any(secret.rows[k])}
    seen = {k for k in n if any(row[k] for row in plant.C)}
    for _ in n:  # by exact zeros: other states may be anything
        reached |= {i for i in n if any(plant.A[i][j] for j in reached)}
        seen |= {j for j in n if any(plant.A[i][j] for i in seen)}
    kept = sorted(reached & seen) or [0]
    A = Balls.of([[plant.A[i][j] for j in kept] for i in kept])
    C = Balls.of([[row[j] for j in kept] for row in plant.C])
    shaping, response = system(design.filtered["shaping"]), design.filtered["response"]
    energy(shaping[0], Balls.unit(len(shaping[0].mid)))  # M is stable
    found = []
    for secret in secrets:
        B = secret.B.part(kept, range(len(secret.radii)))
        G = A, B, C, secret.D
        entered = G if response is None else entry(design, plant, secret, kept)
        is_static = response is not None and not design.filtered["shaping"]["A"]
        squares = squares_of_secret(undone_after(entered, shaping), secret, is_static)
        if design.white:
            undo = Balls.of(diagonal([1 / size for size in design.white]))
            try:
                its = max(squares_of_secret((A, B, undo @ C, undo @ secret.D), secret))
                squares = [max(squares) * its // (max(squares) + its + 1) + 1]
            except TooFewBits:
                pass  # the plant does not decay, and the floor alone hides nothing for ever
        found += squares
    return found


def entry(design, plant, secret, kept):
    """Return how a secret enters the noise's own plant: shares of the inputs that are alike.

    The noise is G M nu. If G has the plant's own numbers, a change dw is one of M nu by the
    same dw, whatever the zeros of G are. G may lack the states that are not kept.
    """
    response = design.filtered["response"]
    for states in (kept, range(len(plant.A))):
        A = [[plant.A[i][j] for j in states] for i in states]
        C = [[row[j] for j in states] for row in plant.C]
        if (A, C) == (response["A"], response["C"]):
            break
    else:
        raise Broken("the noise enters another plant than the secret")
    noisy = turned(response["B"] + response["D"])
    hidden = turned([secret.rows[k] for k in states] + secret.through)
    sizes = [sum(x**2 for x in row) for row in design.filtered["shaping"]["D"]]
    columns = []
    for column in hidden:
        shares = [
            size * (one == column) for one, size in zip(noisy, sizes, strict=True)
        ]
        if not any(shares):
            raise Broken("the noise does not enter where the secret does")
        columns.append([share / sum(shares) for share in shares])
    D = Balls.of(turned(columns))
    return zero(1, 1), zero(1, len(columns)), zero(len(noisy), 1), D


def squares_of_secret(left, secret, is_static=False):
    """Return bounds of y^2, over 2^bits, from what is left of a secret, V."""
    A, B, C, D = left
    if secret.is_energy:
        units = Balls.of(diagonal(secret.radii))
        if is_static:
            return [largest_eigenvalue((D @ units).T @ D @ units)]
        return [square_of_gain(A, B @ units, C, D @ units)]
    Q = energy(A, C)
    if secret.is_ball:
        return [largest_eigenvalue(B.T @ Q @ B + D.T @ D)]
    squares = []
    for k, shape in pairs(range(len(secret.radii)), secret.shapes):
        found = energies_of_shape(left, Q, k, shape)
        most = max(found) if secret.lasting else found[-1]
        squares.append(int(most * secret.radii[k] ** 2) + 1)
    if secret.events > 1:
        squares.append(several_for_ever(left, Q, secret, max(squares)))
    return squares


def energies_of_shape(left, Q, k, shape):
    """Return the energy, over 2^bits, of the response to each beginning of a shape.

    States are rounded to exact numbers. What rounding takes is a change rho of the state,
    and adds at most sqrt(rho'Q rho) to the length of the response.
    """
    A, B, C, D = left
    column, through = (matrix.part(range(len(matrix.mid)), [k]) for matrix in (B, D))
    state, during, lost, found = zero(len(A.mid), 1), 0, 0, []
    peak = len(A.mid) * root_up(Q.largest())
    for size in shape:
        by = Balls.of([[size]])
        output, after = C @ state + through @ by, A @ state + column @ by
        during += (output.T @ output).upper(0, 0)
        lost += (peak * after.err >> Balls.bits) + 1
        state = after.exact()
        length = root_up(during + (state.T @ Q @ state).upper(0, 0)) + lost
        found.append((length * length >> Balls.bits) + 1)
    return found


def several_for_ever(left, Q, secret, square):
    """Bound the square of several changes in a run of any length, see `together`.

    With h_i the response to a change, over at t = L, and x_i its state, two changes that
    start tau apart share  sum over t < L - tau of h_i(t + tau)'h_j(t)  and x_i'e_j, of
    the echo e_j(t) = C'h_j(t) + A'e_j(t + 1), e_j(L) = X x_j. The Gramian X is not Q: |Q - X|
    <= |Q - A'QA - C'C| |Q_I| with that of C = I. In the end y |what is left of i| bounds all.
    """
    A, B, C, D = left
    inputs, changes = len(secret.radii), []
    for k, shape in pairs(range(inputs), secret.shapes):
        first = 1 if secret.lasting else len(shape)
        changes += [(k, shape[:n]) for n in range(first, len(shape) + 1)]
    lags = []  # at most one change starts at each input and sample
    for m in range(1, secret.events):
        lags.append(max(m * secret.apart, -(-(m + 1) // inputs) - 1))
    if len(changes) > 200:
        return together(square, [square] * len(lags))
    state, responses = zero(len(A.mid), len(changes)), []
    for t in range(max(len(shape) for _, shape in changes)):
        rows = [[0] * len(changes) for _ in range(inputs)]
        for place, (k, shape) in enumerate(changes):
            rows[k][place] = shape[t] * secret.radii[k] if t < len(shape) else 0
        responses.append(C @ state + D @ Balls.of(rows))
        state = A @ state + B @ Balls.of(rows)
    echoes = [Q @ state]
    for response in reversed(responses):
        echoes.insert(0, C.T @ response + A.T @ echoes[0])
    y, length, size = root_up(square), len(responses), len(A.mid)
    whole = energy(A, Balls.unit(size))
    gap = (Q - A.T @ Q @ A - C.T @ C).largest() * whole.largest() * size**2
    gap >>= Balls.bits
    slack = (gap * max(largest_form(state, whole, False)) >> Balls.bits) + 2
    peak, lost, bounds = size * root_up(Q.largest()), 0, []
    for lag in range(lags[0] + 30000):
        if lag > length:  # states are rounded as in `energies_of_shape`
            after = A @ state
            lost += (peak * after.err >> Balls.bits) + 1
            state = after.exact()
        if lag < lags[0]:
            continue
        rest = max(largest_form(state, Q, False))
        rest += sum((response.T @ response).largest() for response in responses[lag:])
        beyond = y * (root_up(rest) + lost) >> Balls.bits
        if lag > length and beyond << 36 < square:
            break
        shared = state.T @ echoes[max(length - lag, 0)]
        for later, response in zip(responses[lag:], responses):
            shared = shared + later.T @ response
        most = slack + (lost * y >> Balls.bits)
        for i, j in pairs(range(len(changes)), repeat=2):
            if (
                lag or changes[i][0] != changes[j][0]
            ):  # two at one input do not coincide
                most = max(most, shared.upper(i, j) + slack + (lost * y >> Balls.bits))
        bounds.append(min(most, beyond))
    bounds.append(beyond)
    for k in reversed(range(len(bounds) - 1)):
        bounds[k] = max(bounds[k], bounds[k + 1])
    last = len(bounds) - 1
    return together(square, [bounds[min(lag - lags[0], last)] for lag in lags])


def square_of_gain(A, B, C, D):
    """Return a bound, over 2^bits, of the largest energy of outputs for inputs of energy one.

    A storage x'P x with P >= 0 and x'P x + g |w|^2 >= |outputs|^2 + x+'P x+ for all x and w
    proves g. The P that is tried solves this as an equation, by doubling.
    """
    size, inputs = len(A.mid), len(B.mid[0])
    tiny = Balls(diagonal([1 << Balls.bits * 3 // 4] * size))

    def is_bound(square):
        level = Balls(diagonal([square] * inputs))
        try:
            weight = inverse(D.T @ D - level).exact()
            step, G = (A - B @ weight @ D.T @ C).exact(), (B @ weight @ B.T).exact()
            P = (C.T @ C - C.T @ D @ weight @ D.T @ C + tiny).exact()
            for _ in range(60):
                inner = inverse((Balls.unit(size) + G @ P).exact()).exact()
                grown = step.T @ P @ inner @ step
                G = (G + step @ inner @ G @ step.T).exact()
                P, step = (P + grown).exact(), (step @ inner @ step).exact()
                if step.largest() >> Balls.bits // 3 == 0:
                    break
                if max(P.largest(), step.largest()) >> 3 * Balls.bits:
                    return False
        except TooFewBits:
            return False
        P = P.symmetric()
        cross = -(A.T @ P @ B + C.T @ D)
        top, corner = P - A.T @ P @ A - C.T @ C, level - D.T @ D - B.T @ P @ B
        both = blocks([top, cross], [cross.T, corner])
        return is_nonnegative(P) and is_nonnegative(both)

    return least(is_bound, 0, 1 << Balls.bits, 0)


# -- Laplace noise -----------------------------------------------------------------------


def laplace_moves(design, plant, data):
    """Return the sizes of the shifts, over 2^bits, of each coordinate for each move."""
    if design.white:
        root, secret = Root(design), Entering(plant, data, design.horizon)
        if secret.is_ball or secret.is_energy or secret.events > 1:
            raise NotCovered("independent Laplace noise for a ball or several changes")
        steps = design.request["resolution"] or [0] * len(plant.C)
        ratios = [h / size * (1 << Balls.bits) for h, size in zip(steps, design.white)]
        grid = [int(ratio) + 1 for ratio in ratios] * design.horizon
        found = changes_of_run(design, plant, secret, root)
        return [[abs(x) + its[1] + h for x, h in zip(its[0], grid)] for _, its in found]
    moves, spanning, is_ball = moves_of_states(plant, data, design.horizon)
    maps = [coordinates(design, plant, spanning)]
    if plant.is_like(design.plant):
        try:  # outputs may not tell the states apart: then c that make the states do as well
            maps.append(coordinates(design, plant, spanning, of_states=True))
        except Broken:
            pass
    every = []
    for shifts in (one @ moves for one in maps):
        columns = turned(shifts.mid)
        every.append([[abs(x) + shifts.err for x in column] for column in columns])
    found = [min(shifts, key=sum) for shifts in zip(*every)]
    if is_ball:  # sums |shifts u| are at most the norm of the axes' own sums, times |u|
        sizes = [sum(shifts) for shifts in found]
        return [[root_up(sum(x * x for x in sizes) >> Balls.bits)]]
    return found


def laplace_promise(design):
    """Return the pure epsilon, and whether every move is covered by a row of the claim.

    A row covers a move if its k-th largest shift is not below the move's for every k, or if
    its largest one is not below the sum.
    """
    one = 1 << Balls.bits
    rows = []
    for row in design.loss["rows"]:
        every = [
            int(size * TOLERANCE * one) for size, n in row["shifts"] for _ in range(n)
        ]
        rows.append(sorted(every, reverse=True))
    moves = []
    for plant, data in pairs(design.plants, design.secrets):
        moves += laplace_moves(design, plant, data)
    largest = max(map(sum, rows))
    in_order = design.loss["aligned"] and len(rows) == len(moves)
    is_covered = True
    for k, move in enumerate(moves):
        shifts, is_mine = sorted(move, reverse=True), False
        slack = largest // (10**9 * len(move)) + 1
        for row in rows[k : k + 1] if in_order else rows:
            pairs_of_places = zip(shifts, row + [0] * len(shifts))
            is_mine |= sum(move) <= max(row, default=0)
            is_mine |= all(x <= y + slack for x, y in pairs_of_places)
        is_covered &= is_mine
    return Fraction(max(map(sum, moves)), one), is_covered


# -- what is claimed ---------------------------------------------------------------------


class Design:
    """What a file says of noise, checked as far as it can be without its size."""

    def __init__(self, data):
        request, guarantee = data["request"], data["guarantee"]
        if request is None or request["region"] is not None:
            raise NotCovered("a region of plants" if request else "no request")
        check_known(data)
        self.request, self.loss = request, guarantee["loss"]
        self.plant, models = Plant(data["plant"]), request["models"]
        self.plants = [self.plant, *map(Plant, models)]
        self.family, self.horizon = data["family"], data["horizon"]
        self.parts = {part["kind"]: part for part in data["parts"]}
        self.kinds, self.white = set(self.parts), self.part("white", "scale")
        self.secrets = secrets_of(request["adjacency"])
        counts = [self.horizon, request["releases"]]
        for secret in self.secrets:
            counts += [secret.get(name, 1) for name in ("duration", "events")]
        shown = {(plant.dt, *plant.outputs) for plant in self.plants}
        one_each = [x for x in (self.white, request["resolution"]) if x is not None]
        factor = self.part("structured", "factor")
        demands = {
            "horizon": self.horizon == request["horizon"],
            "counts": all(n == inf or (type(n) is int and n > 0) for n in counts),
            "outputs of the models": len(shown) == 1,
            "one release": guarantee["releases"] == 1,
            "one part of a kind": len(self.parts) == len(data["parts"]) > 0,
            "plant of the noise": self.part("structured", "plant")
            in (None, data["plant"]),
            "rows of the noise": factor is None or len(factor) == len(self.plant.A),
            "sizes": all(len(x) == len(self.plant.C) and min(x) > 0 for x in one_each),
        }
        if data["schema"] == 2:  # the promise says of what it is, in fields of its own
            scope, told = guarantee["scope"], [data["plant"], *models]
            own = [plant.fingerprint for plant in self.plants]
            said = scope["horizon"], *scope["window"], scope["models"]
            demands["promise"] = said == (
                self.horizon,
                0,
                self.horizon,
                sorted(set(own)),
            )
            demands["fingerprints"] = own == [one["fingerprint"] for one in told]
            secret = json.loads(scope["adjacency"])
            demands["secret of the promise"] = agrees(secret, request["adjacency"])
        for what, is_met in demands.items():
            if not is_met:
                raise Broken(f"what it says of its {what} does not fit")
        self.filtered = self.parts.get("filtered")
        if "driven" in self.kinds:  # noise that is shaped by a diagonal D
            driven = self.parts["driven"]
            shaping = {"A": [], "B": [], "C": [], "D": diagonal(driven["sizes"])}
            self.filtered = {"shaping": shaping, "response": driven["response"]}

    def part(self, kind, field):
        return self.parts[kind][field] if kind in self.parts else None


def secrets_of(adjacency):
    """Return the secrets of which one at a time is hidden."""
    kind = adjacency["kind"]
    if kind == "jointadjacency":
        return [one for part in adjacency["parts"] for one in secrets_of(part)]
    if kind not in ("stateadjacency", "initialstateadjacency", "disturbanceadjacency"):
        raise NotCovered(f"a secret of the kind {kind!r}")
    return [adjacency]


def agrees(told, asked):
    """Return whether a promise is about the secret of a request, number by number."""
    if isinstance(asked, dict):
        asked = {"type" if name == "kind" else name: one for name, one in asked.items()}
        return set(told) == set(asked) and all(agrees(told[x], asked[x]) for x in asked)
    if isinstance(asked, list):
        return len(told) == len(asked) and all(map(agrees, told, asked))
    if isinstance(asked, (Fraction, float)):
        return float(told) == asked
    return told == asked or str(told).lower() == asked


def gaussian_shift(design):
    """Return a bound of y. Readings on a grid h add sqrt(T sum (h_i / f_i)^2) to it."""
    kinds, squares = design.kinds, []
    of_states = all(data["kind"] != "disturbanceadjacency" for data in design.secrets)
    for plant in design.plants:
        if kinds in ({"filtered"}, {"filtered", "white"}, {"driven"}):
            squares += squares_for_ever(design, plant)
        elif kinds <= {"structured", "white"} and of_states and design.horizon < inf:
            for data in design.secrets:
                squares += squares_of_states(design, plant, data)
        elif kinds <= {"correlated", "white"} and design.horizon < inf:
            root = Root(design)
            for data in design.secrets:
                squares += squares_of_run(design, plant, data, root)
        else:
            raise NotCovered(f"noise of the parts {', '.join(sorted(kinds))}")
    y, steps = root_up(max(squares)), design.request["resolution"]
    if steps is not None:
        if not design.white or design.horizon == inf:
            raise NotCovered("readings on a grid without a floor and a horizon")
        total = design.horizon * sum((h / f) ** 2 for h, f in zip(steps, design.white))
        y += root_up(int(total * (1 << Balls.bits)) + 1)
    return Fraction(y, 1 << Balls.bits)


def sharply(evaluate, is_enough):
    """Return what is found with as many bits as it takes to be enough, or to stay as it is."""
    last, Balls.bits = None, 128
    while Balls.bits < MOST_BITS:
        Balls.bits *= 2
        try:
            found = evaluate()
        except TooFewBits:
            continue
        if is_enough(found) or (last and abs(found[0] - last[0]) * 10**12 <= found[0]):
            return found
        last = found
    raise NotCovered("it is undecided: no bound was proved")


def square_root(square):
    """Return the root of a rational, rounded down after 200 decimals."""
    return Fraction(isqrt(square.numerator * 4**700 // square.denominator), 2**700)


def delta_of(y, epsilon):
    """Return Phi(y/2 - epsilon/y) - e^epsilon Phi(-y/2 - epsilon/y), the delta of y-GDP.

    Phi(x) = 1/2 + phi(x) (x + x^3/3 + x^5/15 + ...), and Phi(40) is one but for 10^-349.
    """

    def series(x):
        total, term, n = x, x, 1
        while abs(term) > Decimal("1e-400"):
            n += 2
            term *= x * x / n
            total += term
        return total

    def normal(x):
        if x > 0:
            return 1 - normal(-x)
        density = ((1600 - x * x) / 2).exp() / (2 * series(Decimal(40)))
        if x > -36:
            return Decimal(1) / 2 + density * series(x)
        ratio = -x  # phi / Phi = t + 1/(t + 2/(t + 3/(...))) at t = -x
        for n in range(60, 0, -1):
            ratio = n / ratio - x
        return density / ratio

    with localcontext() as context:
        context.prec, context.Emax, context.Emin = 800, 10**9, -(10**9)
        size = Decimal(y.numerator) / y.denominator
        level = Decimal(epsilon.numerator) / epsilon.denominator
        beyond = level.exp() * normal(-size / 2 - level / size)
        return Fraction(normal(size / 2 - level / size) - beyond)


def promise_of(design):
    """Return what was recomputed and what is claimed, and whether the claim holds."""
    rows, request = design.loss["rows"], design.request
    budget, count = request["budget"], request["releases"]
    if any(row["boxes"] for row in rows):
        raise NotCovered("a promise that may fail")
    is_laplace = design.family == "laplace"
    if design.loss["kinds"] != (["Laplace"] if is_laplace else ["Gaussian"]):
        raise Broken("the promise is not about the noise's family")
    if is_laplace:
        if design.kinds not in ({"structured"}, {"white"}) or design.horizon == inf:
            raise NotCovered("Laplace noise that is neither structured nor independent")
        if any(Fraction(row["square"]) for row in rows):
            raise Broken("the promise is not about the noise's family")
        claim = max(sum(Fraction(x) * n for x, n in row["shifts"]) for row in rows)
        found, holds = sharply(lambda: laplace_promise(design), lambda found: found[1])
        numbers = {"epsilon": found * count, "claimed epsilon": claim * count}
        is_kept = claim * count <= (budget["epsilon"] or 0) * TOLERANCE
    else:
        square = Fraction(rows[0]["square"])
        if len(rows) > 1 or rows[0]["shifts"] or not 0 <= square < 10**12:
            raise Broken("the promise is no number y")
        claim = square_root(square)
        most, of_all = claim * TOLERANCE, square_root(square * count)
        (found,) = sharply(lambda: [gaussian_shift(design)], lambda y: y[0] <= most)
        holds = found <= most
        numbers = {"gdp": found, "claimed gdp": claim}
        if budget["gdp"] is not None:
            is_kept = of_all <= budget["gdp"] * TOLERANCE
        else:
            delta = delta_of(of_all, budget["epsilon"]) if of_all else 0
            is_kept = delta <= budget["delta"] * TOLERANCE
            numbers["epsilon"] = budget["epsilon"]
            own = square_root(found**2 * count)
            numbers["delta"] = delta_of(own, budget["epsilon"]) if own else 0
            numbers["claimed delta"] = delta
    if not is_kept:
        raise Broken("what is claimed exceeds the budget")
    return numbers, holds


# -- words, and the command --------------------------------------------------------------


def in_words(data, plant):
    """Return what a secret says, from its numbers alone."""
    is_signal = data["kind"] == "disturbanceadjacency"
    names = plant.inputs + plant.states if is_signal else plant.states
    radii = chosen(data, names, len(plant.inputs if is_signal else names))
    sizes = [f"{name} by at most {float(x):.12g}" for name, x in radii.items()]
    sizes = " or ".join(sizes)
    if data["kind"] == "initialstateadjacency":
        return f"the initial state in a ball of norm {float(data['norm']):g}, {sizes}"
    when = "at any sample"
    if data["times"] is not None:
        when = f"at one of the samples {', '.join(map(str, data['times']))}"
    if not is_signal:
        return f"the state {sizes} {when}, the others held"
    if data["norm"] == "l2":
        within = f"any {data['window']} samples" if data["window"] else "the run"
        return f"the signal {sizes} in the root of its energy over {within}"
    text = f"the signal {sizes} {when}"
    if data["profiles"] is not None:
        text += f" in one of {len(data['profiles'])} shapes"
    elif data["duration"] > 1:
        text += f", kept for 1 to {data['duration']} samples"
    if data["events"] > 1:
        text += f", {data['events']} times, starts at least {data['separation']} samples apart"
    return text


def checked(path):
    """Return the verdict on a file as a dictionary, with its exit status."""
    report = {"file": str(path)}
    refusals = {NotADesign: ("no design file", 3), NotCovered: ("not covered", 2)}
    refusals[Broken] = "does not hold", 1
    try:
        design = Design(read(path))
        words = [in_words(data, design.plant) for data in design.secrets]
        report["hidden"] = ", or ".join(words)
        report["horizon"] = "none" if design.horizon == inf else design.horizon
        report["releases"] = design.request["releases"]
        numbers, holds = promise_of(design)
        report |= {name: f"{float(x):.12g}" for name, x in numbers.items()}
        report["verdict"] = "holds" if holds else "does not hold"
        report["status"] = int(not holds)
    except tuple(refusals) as error:
        verdict, status = refusals[type(error)]
        report |= {"verdict": verdict, "status": status, "reason": str(error)}
    except UNREADABLE as error:
        reason = f"{type(error).__name__} where it was read"
        report |= {"verdict": "no design file", "status": 3, "reason": reason}
    return report


def line(report):
    """Return a report in a line of text."""
    left = set(report) - {"file", "verdict", "status"}
    words = [f"{name} {x}" for name, x in report.items() if name in left]
    return "; ".join([f"{report['file']}: {report['verdict']}", *words])


class Parser(argparse.ArgumentParser):
    """A parser whose exit status for wrong usage is 64."""

    def error(self, message):
        self.print_usage(sys.stderr)
        self.exit(64, f"{self.prog}: {message}\n")


def main(arguments=None):
    """Check files, and return the exit status: the first of 1, 3, 2, 0 that one of them has."""
    parser = Parser(prog="verify", description=__doc__.splitlines()[0])
    parser.add_argument("files", nargs="+", metavar="FILE")
    parser.add_argument("--json", action="store_true", help="a JSON object a line")
    given = parser.parse_args(arguments)
    reports = [checked(path) for path in given.files]
    for report in reports:
        print(json.dumps(report) if given.json else line(report))
    found = {report["status"] for report in reports}
    return next(status for status in (1, 3, 2, 0) if status in found)


if __name__ == "__main__":
    sys.exit(main())
