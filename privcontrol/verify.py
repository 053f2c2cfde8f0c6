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

The Gaussian kinds come first. What follows them can be read alone: changes of any shape,
events whose time is secret, Laplace noise, radial noise, and the command.
"""

from __future__ import annotations

import hashlib
import json
import math
import struct
import sys
from decimal import MAX_EMAX, MIN_EMIN, Decimal, localcontext
from fractions import Fraction
from functools import cache
from itertools import chain, product as pairs, repeat
from math import gcd, inf, isqrt, lcm
from operator import add, mul
from typing import NamedTuple

TOLERANCE = 1 + Fraction(1, 10**9)  # bound over claim, for rounding in the library
MOST_BITS = 4096


class Verdict(Exception):
    """What ends a check, with a reason."""


class NotADesign(Verdict):
    """The file is no design file, or it is damaged."""

    verdict, status = "no design file", 3


class NotCovered(Verdict):
    """The promise is of a kind that is not checked here, or undecided."""

    verdict, status = "not covered", 2


class Broken(Verdict):
    """The promise does not hold."""

    verdict, status = "does not hold", 1


class TooFewBits(Exception):
    """A proof fails with so many bits; with more of them it may succeed."""


# -- numbers -------------------------------------------------------------------------
# Rationals are exact; matrices of them are lists of rows. Where they would grow long,
# matrices are balls.


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


def negative(rows):
    return [[-x for x in row] for row in rows]


def diagonal(numbers):
    return [[x * (i == j) for j in range(len(numbers))] for i, x in enumerate(numbers)]


def unit(size, one=1):
    return diagonal([one] * size)


def zeros(rows, columns):
    return [[0] * columns for _ in range(rows)]


def beside(*tables):
    """Return rows that continue each other."""
    return [list(chain(*rows)) for rows in zip(*tables, strict=True)]


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
        return Balls([[x // 2 for x in row] for row in (self + self.T).mid])

    def largest(self):
        return max(max(map(abs, row)) for row in self.mid) + self.err


def stacked(matrices):
    """Return matrices below each other."""
    mid = list(chain(*(one.mid for one in matrices)))
    return Balls(mid, max(one.err for one in matrices))


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
        known = [row for _, row in found]
        longer, _ = reduced([*seen, *known, *block], len(A))
        if len(longer) == len(found):
            break
        found, block = longer, times(block, A)
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


def largest_form(moves, W, is_ball=False):
    """Return the largest z'W z of columns z, or of the ball that they span."""
    image = W @ moves
    if is_ball:
        return largest_eigenvalue(moves.T @ image)
    wrong = len(moves.mid) * (moves.largest() * image.err + image.largest() * moves.err)
    columns = zip(turned(moves.mid), turned(image.mid))
    largest = max(sum(map(mul, z, Wz)) for z, Wz in columns)
    return (largest + wrong >> Balls.bits) + 2


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


# -- a file --------------------------------------------------------------------------

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
linearsystem A B C D
autoregression coefficients std
privacyloss rows moves kinds attained aligned proportional
product shifts square boxes radial
"""
FIELDS_OF = {
    kind: names for kind, *names in map(str.split, FIELDS.strip().splitlines())
}
#: Words for fields that are known and not covered.
NOT_COVERED = {
    "region": "a region of plants",
    "bound": "noise that never leaves a bound",
    "kept": "noise that never leaves a bound",
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
    if data["request"] is None:
        raise NotCovered("noise without a request, which says not what it hides")
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
        return array(
            item["shape"], [Fraction(float.fromhex(x)) for x in item["floats"]]
        )
    known = FIELDS_OF.get(item.get("kind"), item)
    for name in item.keys() - {"kind", *known}:
        if item[name]:
            raise NotCovered(NOT_COVERED.get(name, f"{name} of {item['kind']}"))
    return {name: value(part) for name, part in item.items()}


def array(shape, numbers):
    """Return numbers as a list, or as a list of rows."""
    if len(numbers) != math.prod(shape):
        raise NotADesign("an array does not have the shape that it names")
    if len(shape) == 1:
        return numbers
    width = math.prod(shape[1:])
    return [numbers[k * width : (k + 1) * width] for k in range(shape[0])]


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

    def entry(self, name, size):
        """Return how an input or a state of a size enters the next states, and outputs."""
        if name in self.inputs:
            k = self.inputs.index(name)
            return [row[k] * size for row in self.B], [row[k] * size for row in self.D]
        return [size * (one == name) for one in self.states], [0] * len(self.C)


class Design:
    """What a file says of noise, checked as far as it can be without its size."""

    def __init__(self, data):
        self.request, self.loss = data["request"], data["guarantee"]["loss"]
        self.family, self.horizon = data["family"], data["horizon"]
        self.plant = Plant(data["plant"])
        self.plants = [self.plant, *map(Plant, self.request["models"])]
        adjacency = self.request["adjacency"]
        self.secrets = adjacency.get("parts", [adjacency])
        for name in {one["kind"] for one in self.secrets}.difference(SECRETS):
            raise NotCovered(f"a secret of the kind {name!r}")
        self.enough = 0  # square, over 2^bits, below which no bound need be sharp
        self.kinds = {part["kind"] for part in data["parts"]}
        held = dict(chain(*(part.items() for part in data["parts"])))
        self.white, self.root = held.get("scale"), held.get("root")
        self.factor, self.bound = held.get("factor"), held.get("bound")
        self.response, self.shaping = held.get("response"), held.get("shaping")
        if "driven" in self.kinds:  # noise that is shaped by a diagonal D
            D = diagonal(held["sizes"])
            self.shaping = {"A": [], "B": [], "C": [[]] * len(D), "D": D}
        states, outputs = len(self.plant.A), len(self.plant.C)
        counts = [self.horizon, self.request["releases"]]
        for secret in self.secrets:
            counts += [secret.get("duration", 1), secret.get("events", 1)]
            counts += [secret.get("moved", 0) + 1]
        shown = {(plant.dt, *plant.outputs) for plant in self.plants}
        each = [x for x in (self.white, self.request["resolution"]) if x is not None]
        demands = {
            "horizon": self.horizon == self.request["horizon"],
            "counts": all(n == inf or (type(n) is int and n > 0) for n in counts),
            "outputs of the models": len(shown) == 1,
            "one release": data["guarantee"]["releases"] == 1,
            "one part of a kind": len(self.kinds) == len(data["parts"]) > 0,
            "plant of the noise": held.get("plant", data["plant"]) == data["plant"],
            "rows of the noise": len(self.factor or self.plant.A) == states,
            "outputs of the noise": held.get("outputs", outputs) == outputs,
            "sizes": all(len(x) == outputs and min(x) > 0 for x in each),
            "scope": data["schema"] > 2 or is_in_scope(data, self.plants),
        }
        for what, is_met in demands.items():
            if not is_met:
                raise Broken(f"what it says of its {what} does not fit")


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

    def plain(item):  # its texts hold numbers in decimals, and classes by their names
        if isinstance(item, dict):
            return {x.replace("type", "kind"): plain(one) for x, one in item.items()}
        if isinstance(item, list):
            return list(map(plain, item))
        try:
            return float(item)
        except (TypeError, ValueError):
            return str(item).lower()

    scope, T = data["guarantee"]["scope"], data["horizon"]
    own = [fingerprint(plant) for plant in plants]
    told = [one["fingerprint"] for one in [data["plant"], *data["request"]["models"]]]
    asked = plain(data["request"]["adjacency"])
    is_run = (scope["horizon"], *scope["window"]) == (T, 0, T)
    is_secret = plain(json.loads(scope["adjacency"])) == asked
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
    from_free = turned(into_free)
    inner = times(into_free, times(plant.A, from_free))
    step = times(from_free, times(rational_inverse(inner), into_free))
    into_readings = [
        [x * (i in readings) for x in row] for i, row in enumerate(plant.A)
    ]
    keep = follow = times(from_free, into_free)
    for _ in readings:
        follow = sums(keep, times(times(into_readings, follow), step))
    return times(follow, step), follow, inputs | readings


def ladder(step, first):
    """Return the function of j that gives step^j first, with errors that grow with log(j)."""

    @cache
    def doubled(k):
        return doubled(k - 1) @ doubled(k - 1) if k else step

    @cache
    def found(j):
        return doubled((j & -j).bit_length() - 1) @ found(j & (j - 1)) if j else first

    return found


def moves_of_states(plant, secret, horizon):
    """Return moves of x(0), rational ones that span them, and whether they span a ball.

    "State k at time j moves by mu, the others held" is the move mu A^-j e_k of x(0).
    """
    radii = chosen(secret, plant)
    axes = turned([plant.entry(name, mu)[0] for name, mu in radii.items()])
    if secret["kind"] == "initialstateadjacency":
        if secret["norm"] == inf:
            corners = [(1, *rest) for rest in pairs((1, -1), repeat=len(radii) - 1)]
            axes = times(axes, turned(corners))
        elif secret["norm"] not in (1, 2):
            raise NotCovered("a ball of another norm than 1, 2 and infinity")
        return Balls.of(axes), axes, secret["norm"] == 2
    if secret["charts"] != "times":
        raise NotCovered('a secret with charts="all"')
    if horizon == inf and secret["times"] != [0]:
        raise NotCovered("a state at any time, without a horizon")
    samples = sample_times(secret, horizon)
    if samples[-1] == 0:
        return Balls.of(axes), axes, False
    step, follow, fixed = backward(plant)
    if any(plant.states.index(name) in fixed for name in radii):
        raise Broken("a delayed signal is not moved on its own at a later time")
    spanning = [times(follow, axes)]
    # at the first sample delayed readings may be held as well
    held = [axes] if samples[0] == 0 and spanning != [axes] else []
    known = ladder(Balls.of(step), Balls.of(spanning[0]))
    for _ in range(samples[0] + min(len(plant.A), samples[-1] - samples[0] + 1) - 1):
        spanning.append(times(step, spanning[-1]))
    moves = [*map(Balls.of, held), *map(known, samples)]
    columns = beside(*(move.mid for move in moves))
    found = Balls(columns, max(move.err for move in moves))
    return found, beside(*held, *spanning[samples[0] :]), False


class Entering:
    """A secret as columns of B and D by which it enters a plant from rest, and its changes.

    Columns are those of signals times their radii, or moves of a state, which enter before
    sample 0. A change that starts at one of the ``starts`` is a sum of impulses: ``changes``
    are pairs of their places (samples after the start, column) and of a list of their sizes
    for each change. Without such lists any sizes up to one may occur.
    """

    events, apart = 1, 0
    is_ball = is_energy = is_any = is_moved = is_difference = False

    def __init__(self, design, plant, data, horizon):
        self.starts = [0]
        if data["kind"] == "disturbanceadjacency":
            self.enter_signals(plant, data, horizon)
            self.B = Balls.of(self.rows)
        else:
            self.B, self.rows, self.is_ball = moves_of_states(plant, data, horizon)
            count = len(self.B.mid[0])
            self.starts, self.through = [-1], zeros(len(plant.C), count)
            self.changes = [([(0, k) for k in range(count)], unit(count))]
        self.D = Balls.of(self.through)
        self.enough = design.enough if self.events == 1 else 0

    def enter_signals(self, plant, data, horizon):
        radii = chosen(data, plant)
        columns = zip(*(plant.entry(name, radius) for name, radius in radii.items()))
        self.rows, self.through = map(turned, columns)
        if horizon < inf:  # else all samples are alike
            self.starts = sample_times(data, horizon)
        self.is_energy = data["norm"] == "l2"
        self.events, self.apart = data["events"], data["separation"]
        longest = self.longest = min(data["duration"], horizon)
        profiles = data["profiles"]
        self.is_any = bool(data.get("shape") == "any" or data.get("together"))
        moved, which = data.get("moved", 0), data.get("which", False)
        self.is_moved = bool(moved or which)
        told = [self.is_energy, profiles is not None, self.is_any, self.is_moved]
        if sum(told) > 1 or (any(told[:2]) and data["duration"] > 1):
            raise Broken("the secret says two things of the shape of its changes")
        if self.is_energy and self.events > 1:
            raise Broken("the secret has a bounded energy, several times")
        columns = [[k] for k in range(len(radii))]
        if self.is_any:
            columns = [range(len(radii))] if data.get("together") else columns
            self.changes = [(list(pairs(range(longest), own)), None) for own in columns]
        elif moved and not which and horizon == inf:
            self.is_difference = True
            self.changes = in_forms(len(radii), smeared(longest, moved))
        elif self.is_moved:
            self.changes = moved_events(len(radii), longest, moved, which)
        else:
            self.changes = in_forms(len(radii), profiles or levels(longest))

    def largest_of(self, products):
        """Bound what changes share, from their products or those of their impulses."""
        return sum_of_sizes(products) if self.is_any else products.largest()


def levels(longest):
    """Return the forms over time of a level that is kept for so many samples at most."""
    return [[1] * n for n in range(1, longest + 1)]


def in_forms(count, forms):
    """Return changes that enter by one of some columns, in one of some forms over time."""
    samples = range(max(map(len, forms)))
    padded = [[*form, *[0] * (len(samples) - len(form))] for form in forms]
    return [([(n, k) for n in samples], padded) for k in range(count)]


# -- changes, from the products of what explains them -----------------------------------
# Explanations add up: several impulses are explained by the sum of what explains each.


def largest_square(R, secret, known=0):
    """Return a bound of the square, over 2^bits, of changes with the products R.

    Of changes of any shape they are the products of their impulses.
    """
    if secret.is_any:
        return largest_pattern(R, max(secret.enough, known))
    if secret.is_ball:
        return largest_eigenvalue(R)
    return max(row[k] for k, row in enumerate(R.mid)) + R.err


def together(square, products):
    """Bound the square of k changes in order, whose products m places apart are at most c_m.

    It is k y^2 + 2 sum over m < k of (k - m) c_m, and k^2 y^2 at most.
    """
    count = len(products) + 1
    others = sum((count - m) * product for m, product in enumerate(products, 1))
    return min(count * square + 2 * others, count**2 * square)


def sum_of_sizes(matrix):
    """Return a bound of w'R z for all numbers w and z of at most one."""
    rows, columns = len(matrix.mid), len(matrix.mid[0])
    return sum(map(abs, chain(*matrix.mid))) + rows * columns * matrix.err


# -- a state, beside structured noise and a floor --------------------------------------
# The noise O S eta is the plant's own response to a random initial state, O = [C A^t].


def compared(design, plant):
    """Return A, C, E and S such that O z - O S c is the response C A^t (E z - S c).

    It is the response of the noise's plant, or of that and another one side by side.
    """
    own, n, m = design.plant, len(plant.A), len(design.plant.A)
    S = design.factor or zeros(m, 1)
    if plant.is_like(own):
        return own.A, own.C, unit(n), S
    A = beside(plant.A, zeros(n, m)) + beside(zeros(m, n), own.A)
    return A, beside(plant.C, own.C), unit(n) + zeros(m, n), zeros(n, len(S[0])) + S


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


def shared_with_floor(design, plant):
    """Return K and W such that y^2 <= |K z|^2 + z'W z for every move z.

    The noise explains any share O S K z, and the floor the rest, of which (E z - S K z)
    has the sum H of the run's squares over those of the floor. (I + S'H S)^-1 S'H E is the
    best K, and any K will do.
    """
    A, C, E, S = compared(design, plant)
    C = Balls.of([[x / f for x in row] for row, f in zip(C, design.white)])
    A, E, S, power = map(Balls.of, (A, E, S, unit(len(A))))
    part, H, left = C.T @ C, Balls.of(zeros(len(A.mid), len(A.mid))), design.horizon
    while left:  # the sum of A'^t C'f^-2 C A^t by doubling
        if left & 1:
            H, power = H + power.T @ part @ power, A @ power
        part, A, left = part + A.T @ part @ A, A @ A, left >> 1
    inner = S.T @ H @ S + Balls.of(unit(len(S.mid[0])))
    K = (near_inverse(inner) @ S.T @ H @ E).exact()
    rest = E - S @ K
    return K, rest.T @ H @ rest


def square_of_states(design, plant, data):
    """Return a bound of y^2, over 2^bits, for the moves of a state."""
    moves, spanning, is_ball = moves_of_states(plant, data, design.horizon)
    if design.white:
        K, W = shared_with_floor(design, plant)
        return largest_form(moves, K.T @ K + W, is_ball)
    K = coordinates(design, plant, spanning)
    return largest_form(moves, K.T @ K, is_ball)


# -- anything, beside other noise over a run -------------------------------------------


class Root:
    """A triangular R such that noise R eta is at most that of a run: R R' <= Gamma.

    It is the root in the file, or a Cholesky factor of its square and a floor, or a floor.
    Row k is a pair (first place, entries up to place k). The comparison matrix of R maps a
    g >= 0 to ones or more, so no entry of R^-1 s is above max g times the largest of s.
    """

    def __init__(self, design):
        one = 1 << Balls.bits
        floor = [int(f * one) for f in design.white or []] * design.horizon
        if 0 in floor:
            raise TooFewBits
        if design.root:
            self.rows = [(0, row) for row in rows_of_root(design.root, floor)]
        else:
            self.rows = [(k, [f]) for k, f in enumerate(floor)]
        if len(self.rows) != design.horizon * len(design.plant.C):
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


def rows_of_root(root, floor):
    """Return the rows, up to the diagonal, of a root in a file, or of it and a floor."""
    for k, row in enumerate(root):
        if any(row[k + 1 :]) or any(row) != bool(row[k]):
            raise Broken("the root of the noise is not lower triangular")
    exact = Balls.of(root)
    if exact.err:
        raise TooFewBits
    rows = [row[: k + 1] for k, row in enumerate(exact.mid)]
    if not floor:
        return rows
    gram = [[sum(map(mul, row, its)) for its in rows] for row in rows]
    lower = cholesky(sums(gram, diagonal([f * f for f in floor])))
    if lower is None:
        raise TooFewBits
    return lower


def explained_in_run(design, plant, secret):
    """Return the function of (t, k) that gives v with R v = s, as a row.

    The output s is the response to what enters by column k at sample t.
    """

    def nonzero(rows):
        return [[bool(x) for x in row] for row in rows]

    root, T, A, C = Root(design), design.horizon, Balls.of(plant.A), Balls.of(plant.C)
    response, state = [secret.D], secret.B
    # what no path reaches is exactly zero
    moved = [[any(row)] for row in secret.through]
    reached = [[any(row)] for row in secret.rows]
    moves = [moved]
    for _ in range(T):
        response.append(C @ state)
        moves.append(times(nonzero(plant.C), reached))
        state = A @ state
        reached = nonzero(times(nonzero(plant.A), reached))

    @cache
    def explained(t, k):
        begin, column = max(t, 0), []
        after = range(begin - t, T - t)
        for s in after:
            both = zip(response[s].mid, moves[s], strict=True)
            column += [(row[k], is_moved) for row, (is_moved,) in both]
        err = max(response[s].err for s in after)
        return root.explained(begin * len(plant.C), column, err)

    return explained


def changes_of_run(design, plant, secret):
    """Yield the start of each change, and the row v that explains it.

    Of changes of any shape there are rows that explain an impulse each.
    """
    explained, T = explained_in_run(design, plant, secret), design.horizon
    for start in secret.starts:
        for places, columns in secret.changes:
            there = [(start + n, k) for n, k in places if start + n < T]
            rows = [explained(*place) for place in there]
            if columns is None:
                yield start, stacked(rows)
            for sizes in columns or ():
                yield start, weighted(rows, sizes)


def weighted(rows, weights):
    """Return the sum of rows with weights."""
    total = Balls(zeros(1, len(rows[0].mid[0])))
    for row, weight in zip(rows, weights):
        if weight:
            total += row * weight
    return total


def square_over_run(design, plant, data):
    """Return a bound of y^2, over 2^bits, for what a secret changes over a run."""
    secret, T = Entering(design, plant, data, design.horizon), design.horizon
    starts = secret.starts
    if secret.events > 1 and secret.apart < 1:
        raise NotCovered("several changes over a run that keep no distance")
    if secret.events == 1 and not (design.root or secret.is_energy):
        secret.starts = starts[:1]  # later the same changes are cut off
    elif secret.events == 1 and secret.is_any and len(starts) == T:
        last = T - secret.longest  # changes that start later are parts of others
        secret.starts = starts[: last + 1]
    changes = list(changes_of_run(design, plant, secret))
    if secret.is_energy or secret.is_ball:
        V = stacked([rows for _, rows in changes])
        return largest_eigenvalue(V @ V.T)
    square = 0
    for _, rows in changes:
        square = max(square, largest_square(rows @ rows.T, secret, square))
    if secret.events == 1:
        return square
    by_lag = [0] * T
    for (t, rows), (s, others) in pairs(changes, repeat=2):
        if t - s >= secret.apart:
            by_lag[t - s] = max(by_lag[t - s], secret.largest_of(rows @ others.T))
    count = min(secret.events, 1 + (starts[-1] - starts[0]) // secret.apart)
    lags = (m * secret.apart for m in range(1, count))
    return together(square, [max(by_lag[lag:]) for lag in lags])


# -- signals, for runs of any length ---------------------------------------------------
# Filtered noise M nu at the outputs explains a change G w by v = M^-1 G w, the response of
# another system. Noise G M nu that enters the plant with the secret explains it by M^-1 w.


class System(NamedTuple):
    """x+ = A x + B u, y = C x + D u, of rational matrices or of balls."""

    A: list
    B: list
    C: list
    D: list

    def balls(self):
        return System(*map(Balls.of, self))


def system(A, B, C, D):
    """Return a system with a state, which stays at zero where none is needed."""
    if len(C) != len(D):
        raise Broken("the matrices of a system do not fit each other")
    if not A:
        A, B, C = [[0]], zeros(1, len(D[0])), zeros(len(D), 1)
    return System(A, B, C, D)


def behind(first, then):
    """Return the response of a system to the outputs of another one."""
    still = zeros(len(first.A), len(then.A))
    A = beside(first.A, still) + beside(times(then.B, first.C), then.A)
    B = first.B + times(then.B, first.D)
    C = beside(times(then.D, first.C), then.C)
    return System(A, B, C, times(then.D, first.D))


def inverse(M):
    """Return the system whose response to the outputs of M is what entered M."""
    D = rational_inverse(M.D)
    B, C = times(M.B, D), negative(times(D, M.C))
    return System(sums(M.A, times(M.B, C)), B, C, D)


def observed(G):
    """Return a system in coordinates that its outputs see, without the other states."""
    seen = seen_rows(G.C, G.A, len(G.A))
    if len(seen) == len(G.A):
        return G
    N, pivots = [[Fraction(x, row[k]) for x in row] for k, row in seen], dict(seen)

    def in_pivots(rows):  # the echelon form N has a unit matrix at its pivots
        return [[row[k] for k in pivots] for row in rows]

    return system(in_pivots(times(N, G.A)), times(N, G.B), in_pivots(G.C), G.D)


def trimmed(G):
    """Return a system with the states alone that are reached and seen."""
    seen = observed(G)
    reached = observed(System(*map(turned, (seen.A, seen.C, seen.B, seen.D))))
    return System(*map(turned, (reached.A, reached.C, reached.B, reached.D)))


def parameters(G, count):
    """Return D, C B, C A B, ..., C A^(count - 1) B below each other."""
    found, state = list(G.D), G.B
    for _ in range(count):
        found += times(G.C, state)
        state = times(G.A, state)
    return found


def entering_noise(G, H, sizes):
    """Return X such that what enters the noise's own system H as X w responds as G w.

    A response that is zero for as many samples as there are states is zero for ever.
    """
    count = len(G.A) + len(H.A)
    noisy = times(parameters(H, count), sizes)
    X, demands = least_solution(noisy, parameters(G, count))
    if demands:
        raise Broken("the noise does not enter where the secret does")
    return times(sizes, X)


def shaping_of(design):
    """Return M, which is proved to be stable, or the size of 1/a and the taps of a."""
    if "coefficients" not in design.shaping:
        M = system(*(design.shaping[name] for name in "ABCD"))
        energy(Balls.of(M.A), Balls.of(unit(len(M.A))))
        return M, [1]
    taps = [1, *design.shaping["coefficients"]]
    prove_stable(taps)
    return system([], [], [[]], [[design.shaping["std"]]]), taps


def prove_stable(taps):
    """Prove that 1 / a(z^-1) is stable, by the test of Schur and Cohn.

    Its first tap is larger than the last one, and again of what a and a backwards leave
    when they cancel the last one. Taps are known within an error, over any power of two.
    """
    (row,), err = Balls.of([taps]).mid, 1
    while len(row) > 1:
        first, last, peak = row[0], row[-1], max(map(abs, row)) + err
        if abs(last) + 2 * err >= first:
            raise TooFewBits
        backwards = zip(row[:-1], reversed(row[1:]))
        bits = max(first.bit_length() - 1, 1)
        row = [first * x - last * y >> bits for x, y in backwards]
        err = (6 * peak * err >> bits) + 2


def square_for_ever(design, plant, data):
    """Return a bound of y^2, over 2^bits, for runs of any length.

    A floor beside the noise takes a share of the explanation: for y_1 and y_2 of each alone
    the best shares leave 1 / y^2 = 1 / y_1^2 + 1 / y_2^2.
    """
    secret = Entering(design, plant, data, inf)
    G = entered = trimmed(system(plant.A, secret.rows, plant.C, secret.through))
    M, taps = shaping_of(design)
    if design.response:
        H = system(*(design.response[name] for name in "ABCD"))
        entered = system([], [], zeros(len(M.D), 0), entering_noise(G, H, M.D))
    if secret.is_difference:
        G, entered = observed(difference(G)), observed(difference(entered))
    undone = behind(entered, inverse(M)).balls()
    if not design.white:
        return square_of_response(undone, secret, taps)
    secret.enough = 0
    square = square_of_response(undone, secret, taps)
    undo = diagonal([1 / size for size in design.white])
    beside_floor = System(G.A, G.B, times(undo, G.C), times(undo, G.D)).balls()
    try:
        its = square_of_response(beside_floor, secret)
    except TooFewBits:  # the plant does not decay, and a floor hides nothing for ever
        return square
    return square * its // max(square + its, 1) + 1


def square_of_response(undone, secret, taps=(1,)):
    """Return a bound of y^2, over 2^bits, from the system and taps that explain a secret.

    The product of a response with one that begins m samples earlier is E'A^(m-1) B with
    E = A'Q B + C'D, or B'Q B + D'D for m = 0. What Q counts too much is a sum of squares of
    all that has entered.
    """
    A, B, C, D = undone
    if len(taps) > 1 and (secret.is_energy or secret.events > 1):
        raise NotCovered("autoregressive noise for several changes, or their energy")
    if secret.is_energy:
        return square_of_gain(A, B, C, D)
    Q = energy(A, C)
    at_once, echo = B.T @ Q @ B + D.T @ D, A.T @ Q @ B + C.T @ D
    state = ladder(A, B)

    @cache
    def product(m):
        if m < 0:
            return product(-m).T
        return echo.T @ state(m - 1) if m else at_once

    own = [sum(map(mul, taps[u:], taps)) for u in range(len(taps))]

    @cache
    def left(m):  # by the taps, of which the products u apart add up to own[u]
        total = product(m) * own[0]
        for u, weight in enumerate(own[1:], 1):
            total += (product(m + u) + product(m - u)) * weight
        return total

    def of_changes(one, other, lag=0):
        """Return the products of changes, or of impulses if their sizes are free."""
        (places, sizes), (others, its) = one, other

        def entry(t, k, s, j):
            return left(lag + t - s).mid[k][j]

        R = [[entry(*place, *another) for another in others] for place in places]
        lags = {lag + t - s for (t, _), (s, _) in pairs(places, others)}
        R = Balls(R, max(left(m).err for m in lags))
        return R if secret.is_any else Balls.of(sizes) @ R @ Balls.of(turned(its))

    square = 0
    for change in secret.changes:
        square = max(square, largest_square(of_changes(change, change), secret, square))
    count = secret.events
    if count == 1:
        return square
    if secret.apart == 0 and (secret.is_moved or secret.is_any):
        return square * count**2

    @cache
    def shared(lag):  # at most one change starts at each input and sample
        both = pairs(secret.changes, repeat=2)
        each = [pair for pair in both if lag or pair[0] is not pair[1]]
        return max(secret.largest_of(of_changes(*pair, lag)) for pair in each)

    over = 1 + max(n for places, _ in secret.changes for n, _ in places)
    every = [sizes or [[1] * len(places)] for places, sizes in secret.changes]
    total = math.ceil(max(sum(map(abs, sizes)) for sizes in chain(*every)))

    def largest_from(first):
        """Bound the products of changes that start so far apart, or further.

        Of a change that is over a later one shares no more than both their lengths.
        """
        largest = 0
        for lag in range(first, first + 30000):
            if lag >= over:
                length = total * root_up(largest_form(state(lag - over), Q))
                beyond = root_up(square) * length >> Balls.bits
                if beyond <= max(largest, square >> 36):
                    return max(largest, beyond)
            largest = max(largest, shared(lag))
        return square

    lags = [max(m * secret.apart, m // len(B.mid[0])) for m in range(1, count)]
    return together(square, [largest_from(lag) for lag in lags])


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
        stored, given = P - A.T @ P @ A - C.T @ C, level - D.T @ D - B.T @ P @ B
        cross = (C.T @ D + A.T @ P @ B) * -1
        upper, lower = beside(stored.mid, cross.mid), beside(cross.T.mid, given.mid)
        err = max(stored.err, cross.err, given.err)
        return is_nonnegative(P) and is_nonnegative(Balls(upper + lower, err))

    return least(is_bound, 0, one)


# -- Gaussian noise by its parts -------------------------------------------------------


def shift_of(design):
    """Return a bound of y. Readings on a grid h add sqrt(T sum (h_i / f_i)^2) to it."""
    kinds, is_run = design.kinds, design.horizon < inf
    told = {one["kind"] for one in design.secrets}
    is_of_states = is_run and "disturbanceadjacency" not in told
    if kinds in ({"filtered"}, {"filtered", "white"}, {"driven"}):
        square_of = square_for_ever
    elif is_of_states and (kinds <= {"structured", "white"} or kinds == {"radial"}):
        square_of = square_of_states
    elif is_run and kinds <= {"correlated", "white"}:
        square_of = square_over_run
    else:
        raise NotCovered(f"noise of {', '.join(sorted(kinds))} for this secret")
    cases = pairs(design.plants, design.secrets)
    y = root_up(max(square_of(design, plant, secret) for plant, secret in cases))
    if (grid := design.request["resolution"]) is not None:
        if not (design.white and is_run):
            raise NotCovered("readings on a grid without a floor and a horizon")
        total = sum((h / f) ** 2 for h, f in zip(grid, design.white)) * design.horizon
        y += root_up(int(total * (1 << Balls.bits)) + 1)
    return Fraction(y, 1 << Balls.bits)


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
        # as far as the machine's numbers go, on one of 32 bits too
        context.prec, context.Emax, context.Emin = 60, MAX_EMAX, MIN_EMIN
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


# -- changes of any shape --------------------------------------------------------------
# A change w of numbers |w_i| <= 1 is explained by sum w_i v_i. Its length is convex in w,
# so that y^2 is the largest w'R w of signs w, with the products R of the v_i.

MOST_EXACT = 24  # signs up to which all patterns are looked at, by halves
MOST_RELAXED = 400


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


# -- events whose time is secret, or their signal --------------------------------------
# A change is an event less the same event, moved to another sample or another signal.


def smeared(longest, moved):
    """Return the forms of moved levels where they enter (1 - z^-1) G instead of G.

    Moved by k they are 1 - z^-k = (1 + ... + z^-(k-1)) (1 - z^-1) times as large: the sum of
    k levels of n samples, each one sample after the last one.
    """
    both = pairs(range(1, longest + 1), range(1, moved + 1))
    return [
        [min(t + 1, n, k, n + k - 1 - t) for t in range(n + k - 1)] for n, k in both
    ]


def moved_events(count, longest, moved, which):
    """Return levels that enter by one column less the same, up to so many samples later."""
    places = list(pairs(range(longest + moved), range(count)))
    found = []
    for i, j, k in pairs(range(count), range(count), range(moved + 1)):
        if (k or i < j) and (which or i == j):
            for n in range(1, longest + 1):
                event = {(t, i) for t in range(n)}
                its = {(t, j) for t in range(k, k + n)}
                found.append([(place in event) - (place in its) for place in places])
    if not found:
        raise Broken("the secret is on which signal an event is, of one signal")
    return [(places, found)]


def difference(G):
    """Return (1 - z^-1) G, whose states are the last input and those of G.

    A simple pole of G at one is not among what its outputs see.
    """
    n, q = len(G.A), len(G.B[0])
    at_once = sums(times(G.C, G.B), negative(G.D))
    slower = times(G.C, sums(G.A, unit(n, -1)))
    A = zeros(q, q + n) + beside(G.B, G.A)
    return System(A, unit(q) + zeros(n, q), beside(at_once, slower), G.D)


# -- Laplace noise ---------------------------------------------------------------------


def laplace_moves(design, plant, data):
    """Return the sizes of the shifts, over 2^bits, of each coordinate for each move."""
    if design.white:
        return independent_moves(design, plant, data)
    moves, spanning, is_ball = moves_of_states(plant, data, design.horizon)
    maps = [coordinates(design, plant, spanning)]
    if plant.is_like(design.plant):
        try:  # outputs may not tell the states apart: then c that make the states do as well
            maps.append(coordinates(design, plant, spanning, of_states=True))
        except Broken:
            pass
    found = [min(shifts, key=sum) for shifts in zip(*(sizes(c @ moves) for c in maps))]
    if is_ball:  # sums |shifts u| are at most the norm of the axes' own sums, times |u|
        squares = [sum(shifts) ** 2 for shifts in found]
        return [[root_up(sum(squares) >> Balls.bits)]]
    return found


def sizes(matrix):
    """Return a bound of the sizes of the entries of each column."""
    return [[abs(x) + matrix.err for x in column] for column in zip(*matrix.mid)]


def independent_moves(design, plant, data):
    """Return the same for noise of its own at each output and sample."""
    secret = Entering(design, plant, data, design.horizon)
    if secret.is_ball or secret.is_energy or secret.events > 1:
        raise NotCovered("independent Laplace noise for a ball or several changes")
    grid = design.request["resolution"] or [0] * len(plant.C)
    steps = [int(h / f * (1 << Balls.bits)) + 1 for h, f in zip(grid, design.white)]
    found = []
    for _, rows in changes_of_run(design, plant, secret):
        shifts = sizes(rows.T)
        if secret.is_any:  # of any impulses up to one
            shifts = [list(map(sum, zip(*shifts)))]
        more = steps * design.horizon
        found += [[x + h for x, h in zip(row, more)] for row in shifts]
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


def laplace_promise(design):
    """Return the same of Laplace noise, whose claim must cover every move."""
    if design.kinds not in ({"structured"}, {"white"}) or design.horizon == inf:
        raise NotCovered("Laplace noise that is neither structured nor independent")
    count, rows = design.request["releases"], design.loss["rows"]
    claim = max(sum(Fraction(x) * n for x, n in row["shifts"]) for row in rows)
    found, holds = sharply(lambda: laplace_epsilon(design))
    numbers = {"epsilon": found * count, "claimed epsilon": claim * count}
    is_kept = claim * count <= (design.request["budget"]["epsilon"] or 0) * TOLERANCE
    return numbers, holds, is_kept


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


def radial_promise(design):
    """Return the same of radial noise."""
    (row,), budget = design.loss["rows"], design.request["budget"]
    ((size, r, bound), count), *others = row["radial"]
    if others or (r, bound, count) != (len(design.factor[0]), design.bound, 1):
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
        raise NotCovered("a promise of several laws, or one that may fail")
    if law not in NUMBERS or design.family not in {family for _, family in PROMISES}:
        raise NotCovered(f"noise of the family {design.family}")
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
    except Verdict as error:
        verdict, status, report["reason"] = error.verdict, error.status, str(error)
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
