"""Check the promise of a design file, without the library that wrote it.

    python -m privcontrol.verify FILE [FILE ...]
    python verify.py FILE [FILE ...]        # this file alone, copied anywhere

A design file says how large the noise at a plant's outputs is, what it hides and how well.
This program reads the numbers of the noise and of the secret, and none of the words. It
proves a bound of its own: a claim holds if the bound is at most claim (1 + 1e-9). --json
prints an object a line. The exit status is 0 if all files hold, 1 if one does not, 2 if a
promise is not covered or undecided, 3 if a file is no design file, 64 for wrong usage.

One idea serves all Gaussian noise. It is gamma = G eta, with independent standard numbers
eta. Any v with G v = s *explains* a change s of the outputs: the outputs then change as if
eta had changed by v, and no test sees more than it would see in eta itself. So the privacy
shift y of the change is at most |v| (y-GDP, Dong, Roth and Su 2022). Each section finds
explanations by any means, and proves afterwards that they explain, and how long they are.
docs/design_files.md says why, kind by kind.
"""

from __future__ import annotations

import hashlib
import json
import math
import struct
import sys
from decimal import Decimal, localcontext
from fractions import Fraction
from functools import cache
from itertools import accumulate, chain, combinations, product as pairs, repeat
from math import gcd, inf, isqrt, lcm
from operator import add, mul

TOLERANCE = 1 + Fraction(1, 10**9)  # bound over claim, for rounding in the library
MOST_BITS = 4096


class NotADesign(Exception):
    """The file is no design file, or it is damaged: exit status 3."""


class NotCovered(Exception):
    """The promise is of a kind that is not checked here, or undecided: exit status 2."""


class Broken(Exception):
    """The promise does not hold: exit status 1."""


class TooFewBits(Exception):
    """A proof fails with so many bits; with more of them it may succeed."""


# -- numbers -------------------------------------------------------------------------
# Rationals are exact; matrices of them are lists of rows. Where they would grow long,
# matrices are balls.


class Balls:
    """A matrix of numbers (mid +- err) / 2^bits, with one error for all of its entries."""

    bits = 256

    def __init__(self, mid, err=0):
        self.mid, self.err = mid, err

    @classmethod
    def of(cls, rows):
        """Return rational numbers, rounded where the bits do not suffice."""
        scaled = [[Fraction(x) * (1 << cls.bits) for x in row] for row in rows]
        is_exact = all(x.denominator == 1 for row in scaled for x in row)
        return cls([[x // 1 for x in row] for row in scaled], int(not is_exact))

    def __matmul__(self, other):
        mid = [[x >> Balls.bits for x in row] for row in times(self.mid, other.mid)]
        wrong = self.largest() * other.err + other.largest() * self.err
        return Balls(mid, (len(other.mid) * wrong >> Balls.bits) + 2)

    def __mul__(self, number):
        over, under = Fraction(number).as_integer_ratio()
        mid = [[x * over // under for x in row] for row in self.mid]
        return Balls(mid, -(-self.err * abs(over) // under) + (under > 1))

    def __add__(self, other):
        return Balls(sums(self.mid, other.mid), self.err + other.err)

    def __sub__(self, other):
        return self + other * -1

    @property
    def T(self):
        return Balls(turned(self.mid), self.err)

    def exact(self):
        """Return the midpoints, taken for exact numbers."""
        return Balls(self.mid)

    def symmetric(self):
        """Return an exact symmetric matrix nearby."""
        return ((self + self.T) * Fraction(1, 2)).exact()

    def largest(self):
        return max(max(map(abs, row)) for row in self.mid) + self.err


def turned(rows):
    return [list(column) for column in zip(*rows)]


def sums(rows, others):
    both = zip(rows, others, strict=True)
    return [[x + y for x, y in zip(*pair, strict=True)] for pair in both]


def times(left, right):
    if left and len(left[0]) != len(right):
        raise ValueError("matrices do not fit each other")
    columns = turned(right)
    return [[sum(map(mul, row, column)) for column in columns] for row in left]


def diagonal(numbers):
    return [[x * (i == j) for j in range(len(numbers))] for i, x in enumerate(numbers)]


def unit(size, one=1):
    return diagonal([one] * size)


def zero(rows, columns):
    return Balls([[0] * columns for _ in range(rows)])


def beside(*tables):
    """Return rows that continue each other."""
    return [list(chain(*rows)) for rows in zip(*tables, strict=True)]


def blocks(*table):
    """Return a matrix of matrices."""
    rows = chain(*(beside(*(one.mid for one in row)) for row in table))
    return Balls(list(rows), max(one.err for row in table for one in row))


def stacked(rows):
    """Return matrices below each other."""
    mid = list(chain(*(row.mid for row in rows)))
    return Balls(mid, max(row.err for row in rows))


def root_up(number):
    """Return an integer whose square, both over 2^bits, is above a number."""
    return isqrt(max(number, 0) + 1 << Balls.bits) + 1


# -- proofs --------------------------------------------------------------------------


def reduced(rows, width):
    """Return the reduced echelon form of rational rows, and what is left of the others.

    It consists of pairs (place of the pivot, row), of the first ``width`` places. Rows are
    integers without a common divisor, so all of it is exact.
    """

    def whole(row):
        common = lcm(*(Fraction(x).denominator for x in row))
        row = [int(x * common) for x in row]
        divisor = gcd(*row) or 1
        return [x // divisor for x in row]

    def cleared(row, pivot, k):
        return whole([x * pivot[k] - y * row[k] for x, y in zip(row, pivot)])

    found, rest = [], [whole(row) for row in rows]
    for k in range(width):
        pivot = next((row for row in rest if row[k]), None)
        if pivot:
            rest = [cleared(row, pivot, k) for row in rest if row is not pivot]
            found = [(place, cleared(row, pivot, k)) for place, row in found]
            found.append((k, pivot))
    return found, [row for row in rest if any(row)]


def seen_rows(C, A, count, seen=()):
    """Return the reduced echelon form of some rows and C, C A, ..., C A^(count - 1)."""
    found, block = [], C
    for _ in range(count):
        last, (found, _) = (
            found,
            reduced([*seen, *(row for _, row in found), *block], len(A)),
        )
        if len(found) == len(last):
            break
        block = times(block, A)
    return found


def rational_inverse(rows):
    size = len(rows)
    found, _ = reduced(beside(rows, unit(size)), size)
    if len(found) < size:
        raise Broken("a matrix has no inverse, such as that of states moved later on")
    return [[Fraction(x, row[k]) for x in row[size:]] for k, row in found]


def least_solution(M, B):
    """Return X, and rows l, such that M X z = B z for every z that obeys l z = 0.

    M and B are rational, and X z is the shortest solution.
    """
    width = len(M[0])
    found, demands = reduced(beside(M, B), width)
    rows = [row for _, row in found] or [[1] * width + [0] * len(B[0])]
    M, B = [row[:width] for row in rows], [row[width:] for row in rows]
    X = times(turned(M), times(rational_inverse(times(M, turned(M))), B))
    return X, [row[width:] for row in demands]


def near_inverse(matrix):
    """Return a matrix near the inverse, with no proof of how near."""
    size = len(matrix.mid)
    table = beside(matrix.mid, unit(size, 1 << Balls.bits))
    for k in range(size):
        best = max(range(k, size), key=lambda i: abs(table[i][k]))
        table[k], table[best] = table[best], table[k]
        if not table[k][k]:
            raise TooFewBits
        pivot = table[k] = [(x << Balls.bits) // table[k][k] for x in table[k]]
        for i in {*range(size)} - {k}:
            by = table[i][k]
            table[i] = [x - (by * y >> Balls.bits) for x, y in zip(table[i], pivot)]
    return Balls([row[size:] for row in table])


def cholesky(square, err=0):
    """Return a triangular R, over 2^bits, with R R' at most a matrix over 4^bits, or None.

    R is rounded entry by entry, so R R' is off by at most 2 max|R| units of the last place.
    The diagonal is lowered by what all errors of a row add up to.
    """
    peak = isqrt(max(0, *(row[k] for k, row in enumerate(square)))) + 1
    slack = len(square) * (err + 2 * peak + 1)
    root = []
    for i, row in enumerate(square):
        mine = []
        for x, other in zip(row, root):
            mine.append((x - sum(map(mul, mine, other))) // other[-1])
        left = row[i] - slack - sum(map(mul, mine, mine))
        if left <= 0:
            return None
        root.append([*mine, isqrt(left)])
    return root


def is_nonnegative(matrix):
    """Return whether a symmetric matrix is proved to be positive semidefinite."""
    square = [[x << Balls.bits for x in row] for row in matrix.mid]
    return cholesky(square, matrix.err << Balls.bits) is not None


def least(is_bound, low, step):
    """Return a proved bound within 2^-36 of the least one above ``low``."""
    while not is_bound(low + step):
        low, step = low + step, 4 * step
        if step.bit_length() > 3 * Balls.bits:
            raise TooFewBits
    high = low + step
    while high - low > max(high >> 36, 1):
        middle = (low + high) // 2
        low, high = (low, middle) if is_bound(middle) else (middle, high)
    return high


def largest_eigenvalue(matrix):
    """Return a bound, over 2^bits, of the eigenvalues of a positive semidefinite matrix.

    Power iteration finds a number nearby, and a Cholesky factor proves the bound.
    """
    peak, size = matrix.largest() or 1, len(matrix.mid)
    rows = [[x / peak for x in row] for row in matrix.mid]
    image = [1 + k / size for k in range(size)]
    for _ in range(50 + min(10**6 // size**2, 1000)):
        length = math.hypot(*image) or 1.0
        vector = [x / length for x in image]
        image = [sum(map(mul, row, vector)) for row in rows]
    near = max(int(Fraction(sum(map(mul, vector, image))) * peak), 0)

    def is_bound(level):
        return is_nonnegative(Balls(unit(size, level)) - matrix)

    return least(is_bound, near, (near >> 40) + 1)


def largest_form(moves, W, is_ball):
    """Return z'W z of columns z, or the largest one of the ball that they span."""
    image = W @ moves
    if is_ball:
        return [largest_eigenvalue(moves.T @ image)]
    wrong = len(moves.mid) * (moves.largest() * image.err + image.largest() * moves.err)
    both = zip(turned(moves.mid), turned(image.mid))
    return [(sum(map(mul, *pair)) + wrong >> Balls.bits) + 2 for pair in both]


def energy(A, C):
    """Return Q such that outputs C x of x+ = A x have an energy of at most x(0)'Q x(0).

    Q = C'C + A'QA is summed by doubling. That Q >= 0 and Q >= C'C + A'QA is proved then: no
    sample has more energy than x'Q x loses by it. That Q exists proves that C x decays.
    """
    margin = Balls(unit(len(A.mid), 1 << 2 * Balls.bits // 3))
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


# -- changes of any shape --------------------------------------------------------------
# A change w of numbers |w_i| <= 1 is explained by sum w_i v_i. Its length is convex in w,
# so that y^2 is the largest w'R w of signs w, with the products R of the v_i.

MOST_EXACT = 24  # signs up to which all patterns are looked at, by halves
MOST_RELAXED = 400


def sum_of_sizes(matrix):
    """Return a bound of w'R z for all numbers w and z of at most one."""
    rows, columns = len(matrix.mid), len(matrix.mid[0])
    return sum(map(abs, chain(*matrix.mid))) + rows * columns * matrix.err


def largest_pattern(R, enough):
    """Return a bound of w'R w for all signs w, which is not sharp below ``enough``."""
    bound = sum_of_sizes(R)
    if bound <= enough or len(R.mid) < 3 or len(R.mid) > MOST_RELAXED:
        return bound
    if len(R.mid) <= MOST_EXACT:
        return min(bound, largest_by_halves(R, bound))
    return min(bound, largest_relaxed(R, enough))


def largest_by_halves(R, most):
    """Return the largest w'R w, whose first and second half take all patterns in turn.

    Numbers are floats that are whole and so small that all sums are exact.
    """

    def linear(row):  # a function of the signs, for each pattern of them
        found = [0.0]
        for x in row:
            found = [y + x for y in found] + [y - x for y in found]
        return found

    def quadratic(rows):
        found = [0.0]
        for k, row in enumerate(rows):
            cross = [2 * x for x in linear(row[:k])]
            found = [*map(add, found, cross)] + [y - x for y, x in zip(found, cross)]
            found = [y + row[k] for y in found]
        return found

    drop, size, half = max(most.bit_length() - 50, 0), len(R.mid), len(R.mid) // 2
    rows = [[float(x >> drop) for x in row] for row in R.mid]
    own = quadratic(rows[:half])
    others = quadratic([row[half:] for row in rows[half:]])
    across = zip(*(linear([2 * x for x in row[:half]]) for row in rows[half:]))
    best, largest = 0.0, max(others)
    for first, row in zip(own[: len(own) // 2], across):  # the last sign of it is +
        if first + largest + sum(map(abs, row)) > best:
            best = max(best, first + max(map(add, others, linear(row))))
    return (int(best) + size**2 << drop) + size**2 * R.err


def largest_relaxed(R, enough):
    """Return sum d for some diag(d) >= R, which holds for all signs.

    Unit vectors in place of the signs make it small: each in turn becomes the direction of
    what the others ask of it, whose length is added to the diagonal's entry in d.
    """
    size, peak, width = len(R.mid), R.largest(), isqrt(2 * len(R.mid)) + 2
    rows = [[x / peak for x in row] for row in R.mid]
    vectors = [[math.cos(i * j) for i in range(1, size + 1)] for j in range(1, width)]
    lengths, last, bounds = [0.0] * size, inf, []
    while True:
        for _ in range(100):
            for k, row in enumerate(rows):
                asked = [sum(map(mul, row, v)) - row[k] * v[k] for v in vectors]
                lengths[k] = math.hypot(*asked)
                for v, x in zip(vectors, asked if lengths[k] else ()):
                    v[k] = x / lengths[k]
        sizes = [row[k] + x for k, (row, x) in enumerate(zip(rows, lengths))]
        d = [int(Fraction(x) * peak) for x in sizes]
        missing = R + Balls(diagonal([max(d) - x for x in d]))
        bounds.append(sum(d) + size * (largest_eigenvalue(missing) - max(d)))
        is_settled = abs(last - sum(d)) <= sum(d) / 10**11
        if is_settled or min(bounds) <= enough or len(bounds) * size**2 * width > 10**7:
            return min(bounds)
        last = sum(d)


# -- a file, and its plants ----------------------------------------------------------

#: Kinds with their fields. A file with another field that is not empty is not covered.
FIELDS = """
outputnoise schema plant horizon family parts request guarantee
request horizon budget adjacency family releases floor models resolution factor order gap scale
privacybudget epsilon delta gdp
stateadjacency radius states times charts signals
initialstateadjacency radius norm signals
disturbanceadjacency radius inputs times norm duration profiles events separation window signals shape together moved which
jointadjacency parts
structured plant factor
radial plant factor bound
driven response sizes
correlated root outputs
white scale
filtered shaping response starts_stationary
privacyloss rows moves kinds attained aligned proportional
product shifts square boxes radial
"""
FIELDS_OF = {
    kind: names for kind, *names in map(str.split, FIELDS.strip().splitlines())
}


def read(path):
    """Return the noise of a design file, or of the loop in it, as a dictionary."""
    with open(path, encoding="ascii") as file:
        data = json.load(file)
    if data.pop("digest") != digest_of(data):
        raise NotADesign("it does not match its digest")
    if data["schema"] not in (2, 3):
        raise NotADesign(f"its schema is {data['schema']!r}")
    if data["kind"] == "privateloop":
        if data["noise"] is None:
            raise NotCovered("a loop without noise promises nothing")
        if data["noise"]["plant"] != data["plant"]:
            raise Broken("the noise of the loop is that of another plant")
        data = data["noise"] | {"schema": data["schema"]}
    if data["kind"] != "outputnoise":
        raise NotADesign("it holds neither a noise nor a loop")
    if data["request"] is None or data["request"]["region"] is not None:
        raise NotCovered("a region of plants" if data["request"] else "no request")
    for plant in [data["plant"], *data["request"]["models"]] * (data["schema"] > 2):
        told = plant.keys() - {"kind", "fingerprint", "name"}
        if digest_of({name: plant[name] for name in told}) != plant["fingerprint"]:
            raise Broken("a plant does not match its fingerprint")
    return value(data)


def digest_of(data):
    text = json.dumps(data, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def value(item):
    """Return what the JSON stands for, with rationals for its numbers."""
    if isinstance(item, list):
        return [value(part) for part in item]
    if not isinstance(item, dict):
        return item
    if set(item) == {"float"}:
        found = float.fromhex(item["float"])
        return found if abs(found) == inf else Fraction(found)
    if set(item) == {"shape", "floats"}:
        flat = [Fraction(float.fromhex(x)) for x in item["floats"]]
        count, width = item["shape"][0], math.prod(item["shape"][1:])
        if len(flat) != count * width:
            raise NotADesign("an array does not have the shape that it names")
        if len(item["shape"]) == 1:
            return flat
        return [flat[k * width : (k + 1) * width] for k in range(count)]
    known = FIELDS_OF.get(item.get("kind"), item)
    for name in item.keys() - {"kind", *known}:
        if item[name]:
            raise NotCovered(f"{name} of {item['kind']}")
    return {name: value(part) for name, part in item.items()}


class Plant:
    """x+ = A x + B u, y = C x + D u, with the names of its states, inputs and outputs."""

    def __init__(self, data):
        if data.get("kind") == "varyingplant":
            raise NotCovered("a plant that varies from sample to sample")
        self.A, self.B, self.C, self.D = matrices = [data[name] for name in "ABCD"]
        self.names = data["states"], data["inputs"], data["outputs"]
        self.states, self.inputs, self.outputs = self.names
        self.dt = data["dt"] if data["dt"] is True else float(data["dt"])
        n, m, p = map(len, self.names)
        for M, rows, columns in zip(matrices, (n, n, p, p), (n, m, n, m)):
            if [columns] * rows != list(map(len, M)) or not n * p:
                raise NotADesign("matrices of a plant do not fit its names")

    def is_like(self, other):
        return (self.A, self.C) == (other.A, other.C)

    def part(self, states):
        """Return A and C of some states."""
        A = [[self.A[i][j] for j in states] for i in states]
        return A, [[row[j] for j in states] for row in self.C]

    def column(self, name):
        """Return the columns of B and D of an input, the unit vector of a state and zero."""
        if name in self.inputs:
            k = self.inputs.index(name)
            return [row[k] for row in self.B], [row[k] for row in self.D]
        return [Fraction(one == name) for one in self.states], [0] * len(self.C)


class Design:
    """What a file says of noise, checked as far as it can be without its size."""

    def __init__(self, data):
        self.request, guarantee = data["request"], data["guarantee"]
        self.plant = Plant(data["plant"])
        self.plants = [self.plant, *map(Plant, self.request["models"])]
        self.loss, self.family = guarantee["loss"], data["family"]
        self.horizon, adjacency = data["horizon"], self.request["adjacency"]
        self.enough = 0  # square, over 2^bits, below which no bound need be sharp
        self.secrets = adjacency.get("parts", [adjacency])
        for name in {one["kind"] for one in self.secrets}.difference(SECRETS):
            raise NotCovered(f"a secret of the kind {name!r}")
        self.parts = {part["kind"]: part for part in data["parts"]}
        self.white = self.part("white", "scale")
        self.root = self.part("correlated", "root")
        self.factor = self.part("structured", "factor") or self.part("radial", "factor")
        self.response = self.part("filtered", "response")
        self.shaping = self.part("filtered", "shaping")
        if "driven" in self.parts:  # noise that is shaped by a diagonal D
            D = diagonal(self.part("driven", "sizes"))
            self.shaping = {"A": [], "B": [], "C": [[]] * len(D), "D": D}
            self.response = self.part("driven", "response")
        counts = [self.horizon, self.request["releases"]]
        for secret in self.secrets:
            counts += [secret.get("duration", 1), secret.get("events", 1)]
            counts += [secret.get("moved", 0) + 1]
        own = [part["plant"] for part in data["parts"] if "plant" in part]
        shown = {(plant.dt, *plant.outputs) for plant in self.plants}
        each = [x for x in (self.white, self.request["resolution"]) if x is not None]
        demands = {
            "horizon": self.horizon == self.request["horizon"],
            "counts": all(n == inf or (type(n) is int and n > 0) for n in counts),
            "outputs of the models": len(shown) == 1,
            "one release": guarantee["releases"] == 1,
            "one part of a kind": len(self.parts) == len(data["parts"]) > 0,
            "plant of the noise": all(plant == data["plant"] for plant in own),
            "rows of the noise": len(self.factor or self.plant.A) == len(self.plant.A),
            "sizes": all(len(x) == len(self.plant.C) and min(x) > 0 for x in each),
            "scope": data["schema"] > 2 or is_in_scope(data, self.plants),
        }
        for what, is_met in demands.items():
            if not is_met:
                raise Broken(f"what it says of its {what} does not fit")

    def part(self, kind, field):
        return self.parts[kind][field] if kind in self.parts else None


def is_in_scope(data, plants):
    """Return whether a promise of schema 2, which says itself of what it is, says so."""

    def fingerprint(plant):
        digest = hashlib.sha256()
        for matrix, columns in zip((plant.A, plant.B, plant.C, plant.D), (0, 1, 0, 1)):
            size = len(matrix), len(plant.names[columns])
            digest.update(repr(size).encode())
            for row in matrix:
                digest.update(struct.pack(f"<{len(row)}d", *map(float, row)))
        digest.update(repr((plant.dt, *map(tuple, plant.names))).encode())
        return digest.hexdigest()[:12]

    def agrees(told, asked):
        if isinstance(asked, dict):
            asked = {"type" if x == "kind" else x: one for x, one in asked.items()}
            both = set(told) == set(asked)
            return both and all(agrees(told[x], asked[x]) for x in asked)
        if isinstance(asked, list):
            return len(told) == len(asked) and all(map(agrees, told, asked))
        if isinstance(asked, (Fraction, float)):
            return float(told) == asked
        return told == asked or str(told).lower() == asked

    scope, T = data["guarantee"]["scope"], data["horizon"]
    own = [fingerprint(plant) for plant in plants]
    told = [one["fingerprint"] for one in [data["plant"], *data["request"]["models"]]]
    is_run = (scope["horizon"], *scope["window"]) == (T, 0, T)
    is_secret = agrees(json.loads(scope["adjacency"]), data["request"]["adjacency"])
    return is_run and is_secret and own == told and scope["models"] == sorted(set(own))


# -- secrets -------------------------------------------------------------------------

SECRETS = "stateadjacency", "initialstateadjacency", "disturbanceadjacency"


def chosen(secret, plant):
    """Return the names that a secret is about with their radii.

    By default they are the inputs, or the states. Numbers in the file count those.
    """
    is_signal = secret["kind"] == "disturbanceadjacency"
    own = plant.inputs if is_signal else plant.states
    names = plant.inputs + plant.states if is_signal else plant.states
    radius, given = secret["radius"], secret.get("inputs", secret.get("states"))
    given = own if given is None else given
    if isinstance(radius, dict):
        given = secret.get("signals") or list(radius)
        if sorted(given) != sorted(radius):
            raise Broken("the secret's signals are not those that have a radius")
        radius = [radius[name] for name in given]
        given = [int(x) if x not in names and x.isdecimal() else x for x in given]
    radii = radius if isinstance(radius, list) else [radius] * len(given)
    found = [own[x] if isinstance(x, int) else x for x in given]
    if len(set(found)) != len(radii) or any(names.count(name) != 1 for name in found):
        raise Broken("the secret's names are not signals with a radius each")
    if not found or not all(0 < radius < inf for radius in radii):
        raise Broken("the secret's radii are not positive")
    return dict(zip(found, map(Fraction, radii)))


def sample_times(secret, horizon):
    """Return the samples at which a secret may move, by default all of them."""
    given = range(horizon) if secret["times"] is None else secret["times"]
    is_sorted = list(given) == sorted(set(given))
    if not given or not is_sorted or given[0] < 0 or given[-1] >= horizon:
        raise Broken("the secret's times are not sorted samples within the horizon")
    return given


def only_driven(A):
    """Return the states that only inputs and other such states drive, by exact zeros."""
    found = set()
    for _ in A:
        drivers = [{j for j, x in enumerate(row) if x} for row in A]
        found = {i for i, those in enumerate(drivers) if those <= found}
    return found


def backward(plant):
    """Return a step back in time, what delayed readings follow from, and fixed states.

    States that only inputs drive are the same in both runs. Those that drive no others are
    delayed readings, which follow from what the other states were before. Among the others
    A has an inverse.
    """
    n = range(len(plant.A))
    inputs = only_driven(plant.A)
    readings = only_driven(turned(plant.A)) - inputs
    free = [k for k in n if k not in inputs | readings]
    into_free = [[Fraction(k == j) for j in n] for k in free]
    inner, _ = plant.part(free)
    step = times(turned(into_free), times(rational_inverse(inner), into_free))
    keep = times(turned(into_free), into_free)
    into = [[x * (i in readings) for x in row] for i, row in enumerate(plant.A)]
    follow = keep
    for _ in readings:
        follow = sums(keep, times(times(into, follow), step))
    return times(follow, step), follow, inputs | readings


def ladder(step, first, count):
    """Return first, step first, step^2 first, ..., whose errors grow with log(count)."""
    powers, found = [step], [first]
    for j in range(1, count):
        if j >> len(powers):
            powers.append(powers[-1] @ powers[-1])
        found.append(powers[(j & -j).bit_length() - 1] @ found[j & (j - 1)])
    return found


def moves_of_states(plant, secret, horizon):
    """Return moves of x(0), rational ones that span them, and whether they span a ball.

    "State k at time j moves by mu, the others held" is the move mu A^-j e_k of x(0).
    """
    radii = chosen(secret, plant)
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
    step, follow, fixed = backward(plant)
    if any(plant.states.index(name) in fixed for name in radii):
        raise Broken("a delayed signal is not moved on its own at a later time")
    spanning = [times(follow, axes)]
    # at the first sample delayed readings may be held as well
    held = [axes] if samples[0] == 0 and spanning != [axes] else []
    known = ladder(Balls.of(step), Balls.of(spanning[0]), samples[-1] + 1)
    for _ in range(samples[0] + min(len(plant.A), samples[-1] - samples[0] + 1) - 1):
        spanning.append(times(step, spanning[-1]))
    found = blocks([*map(Balls.of, held), *(known[j] for j in samples)])
    return found, beside(*held, *spanning[samples[0] :]), False


class Entering:
    """A secret as columns of B and D by which it enters a plant from rest, and its changes.

    A move of a state enters before sample 0. Changes of signals start at ``starts`` and are
    one of the ``shapes``, rows over time of what enters by each column; of those that are
    ``lasting`` every beginning is one as well. Changes of any shape enter by the columns of
    one of the ``windows``, each by at most its radius, for ``longest`` samples in a row.
    """

    lasting, events, apart = False, 1, 0
    is_ball = is_energy = is_difference = False

    def __init__(self, plant, secret, horizon):
        self.starts, self.shapes, self.windows = [-1], [], []
        if secret["kind"] != "disturbanceadjacency":
            if horizon == inf and secret.get("times", 0) is None:
                raise NotCovered("a state at any time, without a horizon")
            last = horizon if horizon < inf else (secret.get("times") or [0])[-1] + 1
            self.B, self.rows, self.is_ball = moves_of_states(plant, secret, last)
            count = len(self.B.mid[0])
            if secret.get("times", [0]) != [0]:  # rows that span have other columns
                self.rows = [[int(any(row))] * count for row in self.rows]
            self.shapes = [[row] for row in unit(count)]
            self.radii, self.through = [1] * count, [[0] * count for _ in plant.C]
            self.D = Balls.of(self.through)
            return
        radii = chosen(secret, plant)
        columns = zip(*(plant.column(name) for name in radii))
        self.rows, self.through = map(turned, columns)
        self.radii = list(radii.values())
        if horizon < inf:
            self.starts = sample_times(secret, horizon)
        elif secret["times"] is not None:
            raise NotCovered("chosen times without a horizon")
        self.is_energy = secret["norm"] == "l2"
        self.events, self.apart = secret["events"], secret["separation"]
        self.longest = secret["duration"]
        self.change(secret, horizon)
        self.B, self.D = Balls.of(self.rows), Balls.of(self.through)

    def change(self, secret, horizon):
        """Set the windows or the shapes, of levels, profiles or events that are moved."""
        inputs, profiles = range(len(self.radii)), secret["profiles"]
        is_any = secret.get("shape") == "any" or secret.get("together")
        moved, which = secret.get("moved", 0), secret.get("which")
        told = [self.is_energy, profiles is not None, is_any, moved or which]
        if sum(map(bool, told)) > 1 or (any(told[:2]) and self.longest > 1):
            raise Broken("the secret says two things of the shape of its changes")
        if self.is_energy and self.events > 1:
            raise Broken("the secret has a bounded energy, several times")
        if is_any:
            self.windows = [inputs] if secret.get("together") else [[k] for k in inputs]
            self.longest = min(self.longest, horizon)
        elif moved and (which or horizon < inf):
            self.shapes = self.moved_shapes(moved, which)
        else:
            if which:
                self.mix()
            forms, self.lasting = profiles, profiles is None
            if self.lasting:
                forms = [[1] * max(self.longest, moved)]
            if moved:  # 1 - z^-k is (1 + ... + z^-(k-1)) (1 - z^-1)
                self.is_difference, self.lasting = True, self.longest == 1
                if not self.lasting:
                    both = pairs(range(1, self.longest + 1), range(1, moved + 1))
                    forms = [trapezoid(n, k) for n, k in both]
            self.shapes = [
                [[x * size for x in row] for size in form]
                for row, form in pairs(diagonal(self.radii), forms)
            ]

    def mix(self):
        """Take differences of two signals in place of the signals."""
        chosen = list(combinations(range(len(self.radii)), 2))
        if not chosen:
            raise Broken("the secret is on which signal an event is, of one signal")
        mix = [
            [radius * ((k == i) - (k == j)) for i, j in chosen]
            for k, radius in enumerate(self.radii)
        ]
        self.rows, self.through = times(self.rows, mix), times(self.through, mix)
        self.radii = [1] * len(chosen)

    def moved_shapes(self, moved, which):
        """Return levels at one place less the same at another one, up to so much later."""
        inputs, found = range(len(self.radii)), []
        for i, j, k in pairs(inputs, inputs, range(moved + 1)):
            if (k or i < j) and (which or i == j):
                for n in range(1, self.longest + 1):
                    one = [[mu * (x == i) for x, mu in enumerate(self.radii)]] * n
                    other = [[-mu * (x == j) for x, mu in enumerate(self.radii)]] * n
                    still = [[0] * len(self.radii)] * k
                    found.append(sums(one + still, still + other))
        return found


def trapezoid(n, k):
    """Return the shape of k levels of n samples, each one sample after the last one."""
    return [min(t + 1, n, k, n + k - 1 - t) for t in range(n + k - 1)]


def together(square, products):
    """Bound the square of k changes in order, whose products m places apart are at most c_m.

    It is k y^2 + 2 sum over m < k of (k - m) c_m, and k^2 y^2 at most.
    """
    count = len(products) + 1
    others = sum((count - m) * product for m, product in enumerate(products, 1))
    return min(count * square + 2 * others, count**2 * square)


# -- a state, beside structured noise and a floor --------------------------------------
# The noise O S eta is the plant's own response to a random initial state, O = [C A^t].


def compared(design, plant):
    """Return A, C, E and S such that O z - O S c is the response C A^t (E z - S c).

    It is the response of the noise's plant, or of that and another one side by side.
    """
    own, n, m = design.plant, len(plant.A), len(design.plant.A)
    S = design.factor or [[0]] * m
    if plant.is_like(own):
        return own.A, own.C, unit(n), S
    A = beside(plant.A, [[0] * m] * n) + beside([[0] * n] * m, own.A)
    E, S = unit(n) + [[0] * n] * m, [[0] * len(S[0])] * n + S
    return A, beside(plant.C, own.C), E, S


def coordinates(design, plant, spanning, of_states=False):
    """Return the matrix that maps a move z to the shortest c with O S c = O z.

    Rows C A^t are added until no new one comes. With ``of_states`` S c = z is asked for.
    """
    A, C, E, S = compared(design, plant)
    every = unit(len(A)) if of_states else ()
    seen = [row for _, row in seen_rows(C, A, min(len(A), design.horizon), every)]
    X, demands = least_solution(times(seen, S), times(seen, E))
    if any(map(any, times(demands, spanning))):
        raise Broken("a hidden move leaves what the noise covers, and is published")
    return Balls.of(X)


def squares_of_states(design, plant, secret):
    """Return bounds of y^2, over 2^bits, for the moves of a state.

    A floor f explains what the noise O S eta does not: any K will do, and y^2 <= |K z|^2 +
    |O (z - S K z) / f|^2. Its sum over the run is H, and the best K (I + S'H S)^-1 S'H.
    """
    moves, spanning, is_ball = moves_of_states(plant, secret, design.horizon)
    if not design.white:
        K = coordinates(design, plant, spanning)
        return largest_form(moves, K.T @ K, is_ball)
    A, C, E, S = compared(design, plant)
    C = Balls.of([[x / f for x in row] for row, f in zip(C, design.white)])
    A, E, S, power = map(Balls.of, (A, E, S, unit(len(A))))
    part, H, left = C.T @ C, zero(len(A.mid), len(A.mid)), design.horizon
    while left:  # the sum of A'^t C'f^-2 C A^t by doubling
        if left & 1:
            H, power = H + power.T @ part @ power, A @ power
        part, A, left = part + A.T @ part @ A, A @ A, left >> 1
    inner = S.T @ H @ S + Balls(unit(len(S.mid[0]), 1 << Balls.bits))
    K = (near_inverse(inner) @ S.T @ H @ E).exact()
    rest = E - S @ K
    return largest_form(moves, K.T @ K + rest.T @ H @ rest, is_ball)


# -- anything, beside other noise over a run -------------------------------------------


class Root:
    """A triangular R such that noise R eta is at most that of a run: R R' <= Gamma.

    It is the root in the file, or a Cholesky factor of its square and a floor, or a floor.
    Row k is a pair (first place, entries up to place k). The comparison matrix of R maps a
    g >= 0 to ones or more, so no entry of R^-1 s is above max g times the largest of s.
    """

    def __init__(self, design):
        one, root = 1 << Balls.bits, design.root
        floor = [int(f * one) for f in design.white or []] * design.horizon
        self.size = design.horizon * len(design.plant.C)
        if 0 in floor:
            raise TooFewBits
        if root is None:
            self.rows = [(k, [f]) for k, f in enumerate(floor)]
        else:
            for k, row in enumerate(root):
                if any(row[k + 1 :]) or any(row) != bool(row[k]):
                    raise Broken("the root of the noise is not lower triangular")
            exact = Balls.of(root)
            if exact.err:
                raise TooFewBits
            rows = [row[: k + 1] for k, row in enumerate(exact.mid)]
            if floor:
                gram = [[sum(map(mul, row, its)) for its in rows] for row in rows]
                rows = cholesky(sums(gram, diagonal([f * f for f in floor])))
            if rows is None:
                raise TooFewBits
            self.rows = [(0, row) for row in rows]
        if len(self.rows) != self.size:
            raise Broken("the root of the noise has another size than the run")
        gains = []
        for first, row in self.rows:
            taken = sum(abs(x) * g for x, g in zip(row, gains[first:]))
            last = abs(row[-1])
            gains.append((one**2 + taken) // last + 1 if last else 0)
        self.peak = max(max(map(abs, row)) for _, row in self.rows)
        self.gain = max(gains)

    def explained(self, start, changes, err):
        """Return v with R v = s, for s that is zero before ``start``, as a row.

        From there on it is within an error of the changes, pairs of a number and whether it
        may be other than zero.
        """
        found = [0] * start
        for (s, is_moved), (first, row) in zip(changes, self.rows[start:], strict=True):
            if is_moved and not row[-1]:
                raise Broken("a hidden change moves an output that has no noise")
            begin = max(first, start)
            taken = sum(map(mul, row[begin - first :], found[begin:]))
            left = (s << Balls.bits) - taken
            found.append(left // row[-1] if row[-1] else 0)
        missed = (self.peak >> Balls.bits) + err + 1
        return Balls([found], (self.gain * missed >> Balls.bits) + 1)


def explained_in_run(design, plant, secret):
    """Return the function of (t, k) that gives v with R v = s, as a row.

    The output s is the response to what enters by column k at sample t.
    """
    root, T = Root(design), design.horizon
    response, moved = [secret.D], [secret.through]
    A, C, state, reached = Balls.of(plant.A), Balls.of(plant.C), secret.B, secret.rows
    for _ in range(T):  # what no path reaches is exactly zero
        reached = [[int(x != 0) for x in row] for row in reached]
        response.append(C @ state)
        moved.append(times([[x != 0 for x in row] for row in plant.C], reached))
        state = A @ state
        reached = times([[x != 0 for x in row] for row in plant.A], reached)

    @cache
    def explained(t, k):
        begin, column = max(t, 0), []
        after = range(begin - t, T - t)
        for s in after:
            both = zip(response[s].mid, moved[s], strict=True)
            column += [(row[k], mask[k]) for row, mask in both]
        err = max(response[s].err for s in after)
        return root.explained(begin * len(plant.C), column, err)

    return explained


def changes_of_run(design, plant, secret):
    """Yield v with R v = s of each change s that a secret makes to a run, with its start.

    Changes of any shape are those of a window: a row for each number that they take.
    """
    explained, T = explained_in_run(design, plant, secret), design.horizon
    starts = secret.starts
    if (
        len(starts) == T and secret.events == 1
    ):  # later windows are parts of the last one
        starts = starts[: max(T - secret.longest, 0) + 1] if secret.windows else starts
    for t, columns in pairs(starts, secret.windows):
        places = pairs(range(t, min(t + secret.longest, T)), columns)
        rows = [explained(s, k) * secret.radii[k] for s, k in places]
        yield t, stacked(rows)
    for t, shape in pairs(starts, secret.shapes):
        total = zero(1, len(plant.C) * T)
        for s, row in enumerate(shape[: T - t], t):
            for k, size in enumerate(row):
                if size:
                    total += explained(s, k) * size
            if secret.lasting or s == min(t + len(shape), T) - 1:
                yield t, total


def squares_of_run(design, plant, data):
    """Return bounds of y^2, over 2^bits, for what a secret changes over a run."""
    secret, squares = Entering(plant, data, design.horizon), []
    enough = design.enough if secret.events == 1 else 0
    if not design.root and secret.events == 1 and not secret.is_energy:
        secret.starts = secret.starts[:1]  # later the same changes are cut off
    changes = list(changes_of_run(design, plant, secret))
    if secret.is_ball or secret.is_energy:
        V = stacked([v for _, v in changes])
        return [largest_eigenvalue(V @ V.T)]
    for _, v in changes:
        squares.append(largest_pattern(v @ v.T, max([enough, *squares])))
    if secret.events == 1:
        return squares
    if secret.apart < 1:
        raise NotCovered("several changes over a run that keep no distance")
    reach = secret.starts[-1] - secret.starts[0]
    by_lag = [0] * (reach + 1)
    for (t, v), (s, other) in pairs(changes, repeat=2):
        if t - s >= secret.apart:
            by_lag[t - s] = max(by_lag[t - s], sum_of_sizes(v @ other.T))
    count = min(secret.events, 1 + reach // secret.apart)
    products = [max(by_lag[m * secret.apart :]) for m in range(1, count)]
    return [together(max(squares), products)]


# -- signals, for runs of any length ---------------------------------------------------
# Filtered noise M nu at the outputs explains a change G w by v = M^-1 G w, the response of
# another system. Noise G M nu that enters the plant with the secret explains it by M^-1 w.


def undone_after(entering, shaping):
    """Return M^-1 G, where M^-1 has A - B D^-1 C, B D^-1, -D^-1 C and D^-1."""
    A, B, C, D = entering
    back = Balls.of(rational_inverse(shaping[3]))
    its_A, its_B, its_C = map(Balls.of, shaping[:3])
    energy(its_A, Balls.of(unit(len(its_A.mid))))  # M is stable
    by, seen = its_B @ back, back @ its_C * -1
    upper = [A, zero(len(A.mid), len(its_A.mid))]
    joint = blocks(upper, [by @ C, its_A + its_B @ seen])
    return joint, blocks([B], [by @ D]), blocks([back @ C, seen]), back @ D


def difference(A, B, C, D):
    """Return (1 - z^-1) G, without the states that its outputs do not see.

    Its states are the last input and x. A simple pole of G at one is not among what is seen.
    """
    n, q = len(A), len(B[0])
    slower = sums(A, diagonal([-1] * n))
    at_once = sums(times(C, B), [[-x for x in row] for row in D])
    C = beside(at_once, times(C, slower))
    A = [[0] * (q + n)] * q + beside(B, A)
    B = unit(q) + [[0] * q] * n
    found = seen_rows(C, A, n + q) or [(0, [1] + [0] * (n + q - 1))]
    N = [[Fraction(x, row[k]) for x in row] for k, row in found]

    def by_seen(rows):  # the echelon form has a unit matrix at its pivots
        return [[row[k] for k, _ in found] for row in rows]

    return by_seen(times(N, A)), times(N, B), by_seen(C), D


def squares_for_ever(design, plant, data):
    """Return bounds of y^2, over 2^bits, for runs of any length.

    A floor beside the noise takes a share of the explanation: for y_1 and y_2 of each alone
    the best shares leave 1 / y^2 = 1 / y_1^2 + 1 / y_2^2.
    """
    every = [Entering(plant, one, design.horizon) for one in design.secrets]
    secret, n = every[design.secrets.index(data)], range(len(plant.A))
    reached = {k for k in n for one in every if any(one.rows[k])}
    seen = {k for k in n if any(row[k] for row in plant.C)}
    for _ in n:  # by exact zeros: other states may be anything
        reached |= {i for i in n if any(plant.A[i][j] for j in reached)}
        seen |= {j for j in n if any(plant.A[i][j] for i in seen)}
    kept = sorted(reached & seen) or [0]
    A, C = plant.part(kept)
    B = Balls([secret.B.mid[k] for k in kept], secret.B.err)
    G = Balls.of(A), B, Balls.of(C), secret.D
    if secret.is_difference:
        G = tuple(
            map(
                Balls.of,
                difference(A, [secret.rows[k] for k in kept], C, secret.through),
            )
        )
    A, B, C, D = (design.shaping[name] for name in "ABCD")
    if len(C) != len(D):
        raise Broken("the matrices of the noise do not fit each other")
    if not A:  # a state at zero, which matrices without rows are not
        A, B, C = [[0]], [[0] * len(D)], [[0]] * len(D)
    entered = G
    if design.response is not None:
        shares = shares_of_noise(design, plant, secret, kept)
        entered = [[0]], [[0] * len(secret.radii)], [[0]] * len(D), shares
        entered = difference(*entered) if secret.is_difference else entered
        entered = tuple(map(Balls.of, entered))
    left = undone_after(entered, (A, B, C, D))
    square = max(squares_of_secret(left, secret, 0 if design.white else design.enough))
    if design.white:
        undo = Balls.of(diagonal([1 / size for size in design.white]))
        try:
            its = max(squares_of_secret((*G[:2], undo @ G[2], undo @ G[3]), secret))
            square = square * its // max(square + its, 1) + 1
        except TooFewBits:
            pass  # the plant does not decay, and the floor alone hides nothing for ever
    return [square]


def shares_of_noise(design, plant, secret, kept):
    """Return w of the noise's own inputs that enter a plant as the secret's signals do.

    The noise is the response of the plant's own numbers, or of those at ``kept`` states.
    """
    own, sizes = (design.response["A"], design.response["C"]), design.shaping["D"]
    states = [x for x in (kept, range(len(plant.A))) if plant.part(x) == own]
    if not states:
        raise Broken("the noise enters another plant than the secret")
    noisy = times(design.response["B"] + design.response["D"], sizes)
    hidden = [secret.rows[k] for k in states[0]] + secret.through
    X, demands = least_solution(noisy, hidden)
    if demands:
        raise Broken("the noise does not enter where the secret does")
    return times(sizes, X)


def squares_of_secret(left, secret, enough=0):
    """Return bounds of y^2, over 2^bits, from the system that explains a secret.

    They are not sharp below ``enough``.
    """
    A, B, C, D = left
    if secret.is_energy:
        units = Balls.of(diagonal(secret.radii))
        return [square_of_gain(A, B @ units, C, D @ units)]
    Q = energy(A, C)
    if secret.is_ball:
        return [largest_eigenvalue(B.T @ Q @ B + D.T @ D)]
    if secret.windows:
        return squares_of_windows(left, Q, secret, enough)
    squares = []
    for shape in secret.shapes:
        during, found = 0, []
        entering = (Balls.of([[size] for size in row]) for row in shape)
        for output, state, lost in steps(left, Q, entering, 1):
            during += (output.T @ output).largest()
            length = root_up(during + (state.T @ Q @ state).largest()) + lost
            found.append((length * length >> Balls.bits) + 1)
        squares += found if secret.lasting else found[-1:]
    if secret.events == 1:
        return squares
    # at most one change starts at each input and sample
    places, square = range(1, secret.events), max(squares)
    lags = [max(m * secret.apart, m // len(secret.radii)) for m in places]
    changes = [shape[:n] for shape in secret.shapes for n in range(1, len(shape) + 1)]
    changes = changes if secret.lasting else secret.shapes
    product = products_for_ever(left, Q, changes, lags[0], square)
    return [together(square, [product(lag) for lag in lags])]


def squares_of_windows(left, Q, secret, enough):
    """Return the same for changes of any shape.

    The product of a response with one that begins m samples earlier is E'A^(m-1) B with
    E = A'Q B + C'D, or B'Q B + D'D for m = 0. What Q counts too much is a sum of squares of
    all that has entered.
    """
    A, B, C, D = left
    units, k = Balls.of(diagonal(secret.radii)), secret.longest
    B, D = B @ units, D @ units
    echo = A.T @ Q @ B + C.T @ D
    products = [B.T @ Q @ B + D.T @ D]
    products += [echo.T @ state for state in ladder(A, B, k - 1)][: k - 1]
    err, squares = max(product.err for product in products), []
    enough = enough if secret.events == 1 else 0
    for columns in secret.windows:
        places = list(pairs(range(k), columns))

        def product(place, other):
            (t, i), (s, j) = sorted([place, other], reverse=True)
            return products[t - s].mid[i][j]

        R = Balls(
            [[product(*both) for both in pairs([place], places)] for place in places],
            err,
        )
        squares.append(largest_pattern(R, max([enough, *squares])))
    square, count = max(squares), secret.events
    if count == 1 or not secret.apart:
        return [square * count**2]
    first, most = max(secret.apart - k + 1, 1), products[0].largest()
    impulses = [[row] for row in diagonal(secret.radii)]
    product = products_for_ever(left, Q, impulses, first, most)

    def of_windows(lag):  # their impulses start up to k - 1 samples nearer, or further
        apart = [abs(lag + n) for n in range(1 - k, k)]
        sizes = [product(x) if x else most for x in apart]
        often = [k - abs(n) for n in range(1 - k, k)]
        return sum(map(mul, often, sizes)) * len(secret.windows[0]) ** 2

    lags = (m * secret.apart for m in range(1, count))
    return [together(square, [of_windows(lag) for lag in lags])]


def steps(left, Q, inputs, count):
    """Yield outputs, the states after them, and what rounding may add to a length.

    States are rounded to exact numbers. What this takes is a change rho of the state, whose
    response is no longer than sqrt(rho'Q rho).
    """
    A, B, C, D = left
    state, lost = zero(len(A.mid), count), 0
    most = len(A.mid) * root_up(Q.largest())
    for entering in inputs:
        output, after = C @ state + D @ entering, A @ state + B @ entering
        state, lost = after.exact(), lost + (most * after.err >> Balls.bits) + 1
        yield output, state, lost


def products_for_ever(left, Q, changes, first, square):
    """Return bounds of the products of changes that start so far apart or further.

    Their function is of the samples between the starts, from ``first`` on. No change has a
    square above ``square``. A change i of outputs v_i is over after L samples. One that
    starts tau later shares with it v_i'v_j until the later one is over, and x_i'Q x_j of
    the states then. What Q counts too much is a sum of squares over all changes that are
    over by then. Backwards in time the echoes e_j = C'v_j + A'e_j, from Q x_j on, give the
    product as x_i(tau)'e_j.
    """
    A, B, C, _ = left
    L, count, inputs = max(map(len, changes)), len(changes), len(B.mid[0])
    if count > 200:
        return lambda lag: square
    still = [[0] * inputs] * L
    padded = [[*rows, *still[len(rows) :]] for rows in changes]
    during = (Balls.of(turned(rows)) for rows in zip(*padded))
    walk = steps(left, Q, chain(during, repeat(zero(inputs, count))), count)
    outputs, states, every = zip(*(next(walk) for _ in range(L)))
    state, lost, y, bounds = states[-1], every[-1], root_up(square), []
    echoes = [Q @ state]
    for output in reversed(outputs):
        echoes.insert(0, C.T @ output + A.T @ echoes[0])
    for lag in range(first + 30000):
        if lag > L:
            _, state, lost = next(walk)
        if lag < first:
            continue
        beyond = y * (root_up(max(largest_form(state, Q, False))) + lost) >> Balls.bits
        if lag >= L and beyond << 36 < square:
            break
        shared = state.T @ echoes[max(L - lag, 0)]
        for later, output in zip(outputs[lag:], outputs):
            shared += later.T @ output
        if lag == 0:  # two at one input do not coincide
            enters = [[any(column) for column in zip(*rows)] for rows in changes]
            for i, j in pairs(range(count), repeat=2):
                shared.mid[i][j] *= enters[i] != enters[j]
        bounds.append(shared.largest() + (lost * (2 * y + 3 * lost) >> Balls.bits) + 1)
    bounds = list(accumulate([beyond, *reversed(bounds)], max))[::-1]
    return lambda lag: bounds[min(lag - first, len(bounds) - 1)]


def square_of_gain(A, B, C, D):
    """Return a bound, over 2^bits, of the largest energy of outputs for inputs of energy one.

    A storage x'P x with P >= 0 and x'P x + g |w|^2 >= |outputs|^2 + x+'P x+ for all x and w
    proves g. The P that is tried solves this as an equation, by doubling.
    """
    size, inputs, one = len(A.mid), len(B.mid[0]), 1 << Balls.bits
    tiny = Balls(unit(size, 1 << Balls.bits * 3 // 4))

    def storage(level):
        weight = near_inverse(D.T @ D - level)
        step, G = (A - B @ weight @ D.T @ C).exact(), (B @ weight @ B.T).exact()
        P = (C.T @ C - C.T @ D @ weight @ D.T @ C + tiny).exact()
        for _ in range(60):
            inner = near_inverse(Balls(unit(size, one)) + G @ P)
            grown = step.T @ P @ inner @ step
            G = (G + step @ inner @ G @ step.T).exact()
            P, step = (P + grown).exact(), (step @ inner @ step).exact()
            if step.largest() >> Balls.bits // 3 == 0:
                break
            if max(P.largest(), step.largest()) >> 3 * Balls.bits:
                raise TooFewBits
        return P.symmetric()

    def is_bound(square):
        level = Balls(unit(inputs, square))
        try:
            P = storage(level)
        except TooFewBits:
            return False
        cross = (A.T @ P @ B + C.T @ D) * -1
        top, corner = P - A.T @ P @ A - C.T @ C, level - D.T @ D - B.T @ P @ B
        both = blocks([top, cross], [cross.T, corner])
        return is_nonnegative(P) and is_nonnegative(both)

    return least(is_bound, 0, one)


# -- Gaussian noise by its parts -------------------------------------------------------


def shift_of(design):
    """Return a bound of y. Readings on a grid h add sqrt(T sum (h_i / f_i)^2) to it."""
    kinds, is_run = set(design.parts), design.horizon < inf
    told = {one["kind"] for one in design.secrets}
    is_of_states = is_run and "disturbanceadjacency" not in told
    routes = [
        (squares_for_ever, kinds in ({"filtered"}, {"filtered", "white"}, {"driven"})),
        (squares_of_states, is_of_states and kinds <= {"structured", "white"}),
        (squares_of_states, is_of_states and kinds == {"radial"}),
        (squares_of_run, is_run and kinds <= {"correlated", "white"}),
    ]
    squares_of = next((route for route, is_meant in routes if is_meant), None)
    if squares_of is None:
        raise NotCovered(f"noise of {', '.join(sorted(kinds))} for this secret")
    cases = pairs(design.plants, design.secrets)
    y = root_up(max(max(squares_of(design, *case)) for case in cases))
    if (grid := design.request["resolution"]) is not None:
        if not (design.white and is_run):
            raise NotCovered("readings on a grid without a floor and a horizon")
        total = sum((h / f) ** 2 for h, f in zip(grid, design.white)) * design.horizon
        y += root_up(int(total * (1 << Balls.bits)) + 1)
    return Fraction(y, 1 << Balls.bits)


# -- Laplace noise ---------------------------------------------------------------------


def laplace_moves(design, plant, data):
    """Return the sizes of the shifts, over 2^bits, of each coordinate for each move."""
    if design.white:
        secret = Entering(plant, data, design.horizon)
        if secret.is_ball or secret.is_energy or secret.events > 1:
            raise NotCovered("independent Laplace noise for a ball or several changes")
        grid = design.request["resolution"] or [0] * len(plant.C)
        steps = [int(h / f * (1 << Balls.bits)) + 1 for h, f in zip(grid, design.white)]
        more = steps * design.horizon
        sizes = (
            (sum(map(abs, column)) + len(v.mid) * v.err for column in zip(*v.mid))
            for _, v in changes_of_run(design, plant, secret)
        )
        return [[x + h for x, h in zip(row, more)] for row in sizes]
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
        squares = [sum(shifts) ** 2 for shifts in found]
        return [[root_up(sum(squares) >> Balls.bits)]]
    return found


def laplace_epsilon(design):
    """Return a bound of the pure epsilon, and whether the claim covers every move.

    A row of the claim covers a move if its k-th largest shift is not below the move's for
    every k, or if its largest one is not below the sum.
    """
    one, rows, moves = 1 << Balls.bits, [], []
    for row in design.loss["rows"]:
        sizes = [[int(size * TOLERANCE * one)] * n for size, n in row["shifts"]]
        rows.append(sorted(chain(*sizes), reverse=True))
    for plant, data in pairs(design.plants, design.secrets):
        moves += laplace_moves(design, plant, data)
    slack = max(map(sum, rows)) // 10**9

    def covers(row, move):
        each = zip(sorted(move, reverse=True), chain(row, repeat(0)))
        is_below = all(x <= y + slack // len(move) + 1 for x, y in each)
        return is_below or sum(move) <= max(row, default=0)

    if design.loss["aligned"] and len(rows) == len(moves):
        is_covered = all(map(covers, rows, moves))
    else:
        is_covered = all(any(covers(row, move) for row in rows) for move in moves)
    return Fraction(max(map(sum, moves)), one), is_covered


# -- radial noise ----------------------------------------------------------------------
# Its r numbers eta have the density exp(-|eta|), within a bound R if that is finite. The law
# is radial and falls outwards, so only the size y of a shift counts, and larger ones cost
# more. Explanations are those of Gaussian noise.


def integral(f, low, high, bound):
    """Return Simpson's rule and a bound of its error.

    ``bound(radius)`` is the most that |f| is within a radius of the interval in the complex
    plane. By Cauchy's estimate |f''''| <= 24 bound / radius^4.
    """
    panels, radius = 1 << 15, min(high - low, 1.0) / 8
    h = (high - low) / panels
    inner = (f(low + k * h) * (4 if k % 2 else 2) for k in range(1, panels))
    found = math.fsum([f(low), f(high), *inner]) * h / 3
    error = (high - low) * h**4 * 24 / 180 * bound(radius) / radius**4
    return found, error + 1e-12 * abs(found)


def ball_delta(y, r, epsilon):
    """Return a bound of the delta of a shift y without a radius.

    The loss y cos(a) has a density g of the angle a, in terms of Bessel functions K.
    """
    if r == 1:  # Laplace
        return -math.expm1((epsilon - y) / 2)
    if not (r <= 32 and 1e-3 <= y <= 100):
        raise NotCovered("radial noise of many numbers, or a very small or large shift")

    def bessel(order):  # exp(y/2) K(y/2): the trapezoidal rule errs by exp(-200)
        terms = ((k / 32, math.exp(-y * math.sinh(k / 64) ** 2)) for k in range(768))
        return math.fsum(math.cosh(order * t) * x for t, x in terms) - 0.5

    q = 2 * (r - 1) / y * bessel(r / 2) / bessel(r / 2 - 1)

    def g(a):
        s = math.sin(a)
        return s ** (r - 2) * (q + s * s) * math.exp(-y * math.sin(a / 2) ** 2)

    def largest_g(s, radius):  # for |sin| at most s
        return s ** (r - 2) * (q + s * s) * math.exp(y * math.sinh(radius / 2) ** 2)

    def excess(a):
        return g(a) * -math.expm1(epsilon - y * math.cos(a))

    def largest_excess(radius):  # |1 - e^w| <= |w| max(1, |e^w|)
        s = min(math.sinh(end + radius), math.cosh(radius))
        most = y * (end + radius) * s * math.exp(2.5 * y * radius)
        return largest_g(s, radius) * most

    end = math.acos(epsilon / y)
    beyond, error = integral(excess, 0.0, end, largest_excess)
    total, its = integral(g, 0.0, math.pi, lambda b: largest_g(math.cosh(b), b))
    return (beyond + error) / (total - its)


def truncated_delta(y, r, R):
    """Return a bound of the probability of what the other law excludes.

    For r = 2 it is an integral over directions a: the boundary of the other law is at the
    distance rho(a), and F(rho) of the law lies beyond rho.
    """
    if r == 1:
        return math.exp(y - R) * math.expm1(-y) / math.expm1(-R) / 2
    if r != 2 or y > R / 2:
        raise NotCovered("radial noise that ends within two moves, or of many numbers")

    def F(x):
        return (1 + x) * math.exp(-x)

    def left(a):
        return F(y * math.cos(a) + math.sqrt(R**2 - (y * math.sin(a)) ** 2)) - F(R)

    def largest(radius):
        s = y * math.cosh(radius)
        least = math.sqrt(R**2 - s**2) - s
        return (1 + s + math.hypot(R, s)) * math.exp(-least) + F(R)

    found, error = integral(left, math.acos(y / 2 / R), math.pi, largest)
    return (found + error) / math.pi / (1 - F(R))


# -- what is claimed -------------------------------------------------------------------


def square_root(square):
    """Return the root of a rational, rounded down after 200 decimals."""
    return Fraction(isqrt(square.numerator * 4**700 // square.denominator), 2**700)


ROOT_OF_2_PI = Decimal("2.50662827463100050241576528481104525300698674060993831663")


def tail(x):
    """Return Q(x) / phi(x) of the standard normal law."""
    if x < 0:
        return ROOT_OF_2_PI * (x * x / 2).exp() - tail(-x)
    if x > 3:  # 1/(x + 1/(x + 2/(x + 3/(...))))
        found = x
        for n in range(2000, 0, -1):
            found = x + n / found
        return 1 / found
    total, term, n = x, x, 1  # phi(x) (x + x^3/3 + x^5/15 + ...) is Phi(x) - 1/2
    while term > Decimal("1e-60"):
        n += 2
        term *= x * x / n
        total += term
    return ROOT_OF_2_PI / 2 * (x * x / 2).exp() - total


def delta_of(y, epsilon):
    """Return Phi(y/2 - epsilon/y) - e^epsilon Phi(-y/2 - epsilon/y), the delta of y-GDP.

    With phi the density, a = epsilon/y - y/2 and b = a + y, phi(a) = e^epsilon phi(b).
    """
    if not y:
        return Fraction(0)
    with localcontext() as context:
        context.prec, context.Emax, context.Emin = 60, 10**12, -(10**12)
        y = Decimal(y.numerator) / y.denominator
        a = Decimal(epsilon.numerator) / epsilon.denominator / y - y / 2
        return Fraction((tail(a) - tail(a + y)) / ROOT_OF_2_PI / (a * a / 2).exp())


def sharply(evaluate):
    """Return a bound and whether it is enough, or else more bits do not change it."""
    last, Balls.bits = None, 128
    while Balls.bits < MOST_BITS:
        Balls.bits *= 2
        try:
            found, is_enough = evaluate()
        except TooFewBits:
            continue
        if is_enough or (last and abs(found - last) * 10**12 <= found):
            return found, is_enough
        last = found
    raise NotCovered("it is undecided: no bound was proved")


def sharp_shift(design, claim):
    """Return a bound of y, and whether it is at most what is claimed."""

    def evaluate():
        if design.request["resolution"] is None:
            design.enough = int(claim**2 * TOLERANCE * (1 << Balls.bits))
        y = shift_of(design)
        return y, y <= claim * TOLERANCE

    return sharply(evaluate)


def gaussian_promise(design):
    """Return numbers to show, whether the claim holds, and whether it keeps the budget."""
    (row,), budget = design.loss["rows"], design.request["budget"]
    count, square = design.request["releases"], Fraction(row["square"])
    if not 0 <= square < 10**12:
        raise Broken("the promise is no number y")
    claim, of_all = square_root(square), square_root(square * count)
    found, holds = sharp_shift(design, claim)
    numbers, epsilon = {"gdp": found, "claimed gdp": claim}, budget["epsilon"]
    if budget["gdp"] is not None:
        return numbers, holds, of_all <= budget["gdp"] * TOLERANCE
    delta = delta_of(square_root(found**2 * count), epsilon)
    its = delta_of(of_all, epsilon)
    numbers |= {"epsilon": epsilon, "delta": delta, "claimed delta": its}
    return numbers, holds, its <= budget["delta"] * TOLERANCE


def laplace_promise(design):
    """Return the same of Laplace noise, whose claim must cover every move."""
    if set(design.parts) not in ({"structured"}, {"white"}) or design.horizon == inf:
        raise NotCovered("Laplace noise that is neither structured nor independent")
    count, rows = design.request["releases"], design.loss["rows"]
    claim = max(sum(Fraction(x) * n for x, n in row["shifts"]) for row in rows)
    found, holds = sharply(lambda: laplace_epsilon(design))
    numbers = {"epsilon": found * count, "claimed epsilon": claim * count}
    is_kept = claim * count <= (design.request["budget"]["epsilon"] or 0) * TOLERANCE
    return numbers, holds, is_kept


def radial_promise(design):
    """Return the same of radial noise."""
    (row,), budget = design.loss["rows"], design.request["budget"]
    part = design.parts["radial"]
    ((size, r, bound), count), *others = row["radial"]
    if others or (r, bound, count) != (len(part["factor"][0]), part["bound"], 1):
        raise Broken("the promise is about noise of another law")
    if budget["gdp"] is not None or design.request["releases"] > 1:
        raise NotCovered("radial noise for a budget of gdp, or for several releases")
    found, holds = sharp_shift(design, size)
    y, epsilon, delta = float(size), float(budget["epsilon"]), 0.0
    if bound < inf:
        if y > epsilon:
            raise NotCovered("truncated noise whose loss exceeds epsilon")
        delta = truncated_delta(y, r, float(bound))
    elif y > epsilon:
        delta = ball_delta(y, r, epsilon)
    numbers = {"shift": found, "claimed shift": size}
    numbers |= {"epsilon": epsilon, "claimed delta": delta}
    return numbers, holds, delta <= budget["delta"] * TOLERANCE


#: What checks a promise, by the law that it names and the noise's family.
PROMISES = {
    ("Gaussian", "gaussian"): gaussian_promise,
    ("Laplace", "laplace"): laplace_promise,
    ("radial", "ball"): radial_promise,
    ("radial", "truncated"): radial_promise,
}
#: Where a row has the numbers of a law.
NUMBERS = {"Gaussian": "square", "Laplace": "shifts", "radial": "radial"}


def promise_of(design):
    """Return numbers to show, and whether the claim holds."""
    (law, *others), rows = design.loss["kinds"], design.loss["rows"]
    if others or any(row["boxes"] for row in rows):
        raise NotCovered("a promise that may fail")
    unused = [name for kind, name in NUMBERS.items() if kind != law]
    mixed = {str(row.get(name, "0")) for row in rows for name in unused} - {"0", "[]"}
    if mixed or (law, design.family) not in PROMISES:
        raise Broken("the promise is not about the noise's family")
    numbers, holds, is_kept = PROMISES[law, design.family](design)
    if not is_kept:
        raise Broken("what is claimed exceeds the budget")
    return numbers, holds


# -- words, and the command ------------------------------------------------------------


def in_words(data, plant):
    """Return what a secret says, from its numbers alone."""
    radii = chosen(data, plant).items()
    sizes = " or ".join(f"{name} by at most {float(x):.12g}" for name, x in radii)
    if data["kind"] == "initialstateadjacency":
        return f"the initial state in a ball of norm {float(data['norm']):g}, {sizes}"
    when = "at any sample"
    if data["times"] is not None:
        when = f"at one of the samples {', '.join(map(str, data['times']))}"
    if data["kind"] == "stateadjacency":
        return f"the state {sizes} {when}, the others held"
    if data["norm"] == "l2":
        within = f"any {data['window']} samples" if data["window"] else "the run"
        return f"the signal {sizes} in the root of its energy over {within}"
    text = f"the signal {sizes} {when}"
    if data.get("which"):
        text = f"on which signal an event is: {text}"
    if data.get("moved"):
        text = f"when, moved by at most {data['moved']} samples, an event is: {text}"
    if data.get("together"):
        text = text.replace(" or ", " and ")
    if data.get("shape") == "any":
        text += f", of any shape within {data['duration']} samples"
    elif data["profiles"] is not None:
        text += f" in one of {len(data['profiles'])} shapes"
    elif data["duration"] > 1:
        text += f", kept for 1 to {data['duration']} samples"
    if data["events"] > 1:
        text += f", {data['events']} times, starts at least {data['separation']} samples apart"
    return text


def checked(path):
    """Return the verdict on a file as a dictionary, with its exit status."""
    report = {"file": str(path)}
    try:
        design = Design(read(path))
        words = [in_words(data, design.plant) for data in design.secrets]
        report["hidden"] = ", or ".join(words)
        report["horizon"] = "none" if design.horizon == inf else design.horizon
        report["releases"] = design.request["releases"]
        numbers, holds = promise_of(design)
        report |= {name: f"{float(x):.12g}" for name, x in numbers.items()}
        verdict, status = ("holds", 0) if holds else ("does not hold", 1)
    except Broken as error:
        verdict, status, report["reason"] = "does not hold", 1, str(error)
    except NotCovered as error:
        verdict, status, report["reason"] = "not covered", 2, str(error)
    except NotADesign as error:
        verdict, status, report["reason"] = "no design file", 3, str(error)
    except Exception as error:  # so it holds something else than a design file does
        reason = f"{type(error).__name__} where it was read"
        verdict, status, report["reason"] = "no design file", 3, reason
    return report | {"verdict": verdict, "status": status}


def line(report):
    """Return a report in a line of text."""
    told = report.keys() - {"file", "verdict", "status"}
    words = [f"{name} {x}" for name, x in report.items() if name in told]
    return "; ".join([f"{report['file']}: {report['verdict']}", *words])


def main(arguments=None):
    """Check files, and return the exit status: the first of 1, 3, 2, 0 that one of them has."""
    given = sys.argv[1:] if arguments is None else list(arguments)
    if "--help" in given or "-h" in given:
        print(__doc__)
        return 0
    files = [name for name in given if name != "--json"]
    if not files or any(name.startswith("--") for name in files):
        print("usage: verify [--help] [--json] FILE [FILE ...]", file=sys.stderr)
        return 64
    reports = [checked(path) for path in files]
    for report in reports:
        print(json.dumps(report) if "--json" in given else line(report))
    found = {report["status"] for report in reports}
    return next(status for status in (1, 3, 2, 0) if status in found)


if __name__ == "__main__":
    sys.exit(main())
