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

Read it from the top. The Gaussian kinds come first, and use what follows them: secrets,
numbers, proofs, the file, the command. Other laws can be read alone. Squares such as y^2
are integers over 2^bits. More bits are taken until a bound is sharp.
"""

from __future__ import annotations

import hashlib
import json
import math
import sys
from bisect import bisect_left
from fractions import Fraction
from functools import cache, partial
from itertools import accumulate, chain, product as pairs, repeat
from math import inf, isqrt, lcm
from operator import add, mul
from typing import NamedTuple

TOLERANCE = 1 + Fraction(1, 10**9)  # bound over claim, for rounding in the library
MOST_BITS = 4096
MOST_ROWS = 10**6  # of arrays without numbers, which only say how many they have
MOST_SAMPLES = 10_000  # that are looked at one by one
MOST_NUMBERS = 250_000  # of what a secret changes, and of a claim
LEAST_DELTA = 1e-300  # of those that are not zero, since doubles end


class Verdict(Exception):
    """What ends a check: a reason, the verdict, and the exit status."""

    def __init__(self, reason, verdict, status):
        super().__init__(reason)
        self.verdict, self.status = verdict, status


NotADesign = partial(Verdict, verdict="no design file", status=3)  # or damaged
NotCovered = partial(Verdict, verdict="not covered", status=2)  # or undecided
Broken = partial(Verdict, verdict="does not hold", status=1)


class TooFewBits(Exception):
    """A proof fails with so many bits; with more of them it may succeed."""


def check_few(most, *sizes):
    """Refuse what a short file may ask for, and what would take hours or all memory."""
    if math.prod(sizes) > most:
        raise NotCovered("so many samples, changes or moves")


# -- Gaussian noise --------------------------------------------------------------------


def gaussian_promise(design):
    """Return numbers to show, whether the claim holds, and whether it keeps the budget."""
    (row,), budget = design.loss["rows"], design.request["budget"]
    releases, square = design.request["releases"], row["square"]
    if not set(square) <= set("0123456789/") or not Fraction(square) < 10**12:
        raise Broken("the promise is no number y")  # powers of ten may fill the memory
    square = Fraction(square)
    claim, of_all = square_root(square), square_root(square * releases)
    found, holds = sharp_shift(design, claim)
    numbers, epsilon = {"gdp": found, "claimed gdp": claim}, budget["epsilon"]
    if budget["gdp"] is not None:
        return numbers, holds, of_all <= budget["gdp"] * TOLERANCE
    delta = delta_of(square_root(found**2 * releases), epsilon)
    its = delta_of(of_all, epsilon)
    numbers |= {"epsilon": epsilon, "delta": delta, "claimed delta": its}
    return numbers, holds, its <= budget["delta"] * TOLERANCE


def sharp_shift(design, claim):
    """Return a bound of y, and whether it is at most what is claimed."""

    def evaluate():
        if design.request["resolution"] is None:
            design.enough = int(claim**2 * TOLERANCE * (1 << Matrix.bits))
        y = shift_of(design)
        return y, y <= claim * TOLERANCE

    return sharply(evaluate)


def shift_of(design):
    """Return a bound of y. Readings on a grid h add sqrt(T sum (h_i / f_i)^2) to it."""
    kinds, is_run = design.kinds, design.horizon < inf
    told = {one["kind"] for one in design.secrets}
    is_of_states = is_run and SIGNALS not in told
    is_entered = design.response is None or told == {SIGNALS}
    if is_entered and kinds in ({"filtered"}, {"filtered", "white"}, {"driven"}):
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
        y += root_up(int(total * (1 << Matrix.bits)) + 1)
    return Fraction(y, 1 << Matrix.bits)


# -- a state, beside structured noise and a floor --------------------------------------
# The noise O S eta is the plant's own response to a random initial state, O = [C A^t].


def square_of_states(design, plant, data):
    """Return a bound of y^2 for the moves of a state."""
    moves, spanning, is_ball = moves_of_states(plant, data, design.horizon)
    if design.white:
        W = form_beside_floor(design, plant)
    else:
        K = coordinates(design, plant, spanning)
        W = K.T @ K
    if is_ball:
        return largest_eigenvalue(moves.T @ W @ moves)
    return largest_form(moves, W)


def compared(design, plant):
    """Return steps (A, C), E and S: O z - O S c is their response to the state E z - S c.

    It is the response of the noise's plant, or of that and another one side by side.
    """
    own, S = design.plant, design.factor
    n, m = len(plant.states), len(own.states)
    if plant.seen == own.seen:
        return [(step.A, step.C) for step in own.along], unit(n), S
    steps = []
    for t in range(max(len(plant.along), len(own.along))):
        one, other = plant.at(t), own.at(t)
        A = below(beside(one.A, zeros(n, m)), beside(zeros(m, n), other.A))
        steps.append((A, beside(one.C, other.C)))
    return steps, below(unit(n), zeros(m, n)), below(zeros(n, S.width), S)


def coordinates(design, plant, spanning, of_states=False):
    """Return the matrix that maps a move z to the shortest c with O S c = O z.

    With ``of_states`` S c = z is asked for as well.
    """
    steps, E, S = compared(design, plant)
    known = unit(len(E.rows)).rows if of_states else ()
    O = Matrix([row for _, row in seen_rows(steps, design.horizon, known)])
    X, demands = least_solution(O @ S, O @ E)
    if any(map(any, (demands @ spanning).rows)):
        raise Broken("a hidden move leaves what the noise covers, and is published")
    return X.balls()


def form_beside_floor(design, plant):
    """Return W such that y^2 <= z'W z for every move z.

    The noise explains any share O S K z, and the floor the rest, of which r = E z - S K z
    has the energy r'H r, in units of the floor. K = (I + S'H S)^-1 S'H E is the best
    share, and any will do.
    """
    check_few(MOST_SAMPLES, design.horizon)
    steps, E, S = compared(design, plant)
    E, S, loudness = E.balls(), S.balls(), diagonal([1 / f for f in design.white])
    each = [(A.balls(), (loudness @ C).balls()) for A, C in steps]
    H = zeros(len(E.rows), len(E.rows)).balls()
    for t in reversed(range(design.horizon)):
        A, C = each[t % len(each)]
        H = (C.T @ C + A.T @ H @ A).above()
    noisy = S.T @ H @ S + unit(S.width).balls()
    K = (noisy.inverse() @ S.T @ H @ E).exact()
    rest = E - S @ K
    return K.T @ K + rest.T @ H @ rest


# -- changes, from the products of what explains their impulses ------------------------
# Explanations add up: a sum of impulses of the sizes c is explained by the sum of what
# explains each, and its square is c'R c with the products R = v_i'v_j of those.


def largest_of_changes(secret, product, left, enough=0):
    """Return a bound of y^2 of all changes of a secret.

    The product of what explains impulses at two places (sample, column) is within an error
    of a number. Of what explains one, ``left(n)`` bounds the length from n samples after it.
    """
    square, events = 0, secret.events
    for start, (places, sizes) in pairs(secret.starts, secret.changes):
        R = products(product, places, start, places, start)
        if sizes == "ball":
            found = largest_eigenvalue(R)
        elif sizes == "any":
            found = largest_pattern(R, max(square, enough if events == 1 else 0))
        else:
            found = largest_form(sizes.T, R)
        square = max(square, found)
    if events == 1:
        return square
    if secret.apart == 0 and not secret.is_alone:
        return square * events**2
    return largest_of_several(secret, product, left, square)


def products(product, places, start, others, its):
    """Return the products of what explains impulses at places after two starts."""
    each = [
        [product((t + start, k), (s + its, j)) for s, j in others] for t, k in places
    ]
    rows = [[number for number, _ in row] for row in each]
    return Matrix(rows, max(err for row in each for _, err in row))


def shared_by(product, one, other):
    """Return rows of bounds of what is shared by each two patterns of two changes."""
    (start, (places, sizes)), (later, (others, its)) = one, other
    R = products(product, places, start, others, later)
    if its == "any":
        return [[sum_of_sizes(R)]]
    found = sizes @ R @ its.T
    return [[abs(x) + found.err for x in row] for row in found.rows]


def largest_of_several(secret, product, left, square):
    """Return a bound of y^2 of several changes in order, y of one, which keep a distance.

    If those m places apart share c_m at most, it is k y^2 + 2 sum over m < k of (k - m) c_m.
    Of a change that is over a later one shares no more than both their lengths.
    """
    k = secret.events
    patterns = [1 if sizes == "any" else len(sizes.rows) for _, sizes in secret.changes]
    if not secret.is_endless and (len(secret.starts) * sum(patterns)) ** 2 * k <= 10**7:
        return largest_along_run(secret, product, square)
    over = 1 + max(n for places, _ in secret.changes for n, _ in places)
    total = max(
        len(places) * (1 if sizes == "any" else (sizes.largest() >> Matrix.bits) + 1)
        for places, sizes in secret.changes
    )

    @cache
    def shared(lag):  # at most one change starts at each input and sample
        largest = 0
        for start, one, other in pairs(secret.starts, secret.changes, secret.changes):
            if secret.may_start(start + lag) and (lag or one is not other):
                each = shared_by(product, (start, one), (start + lag, other))
                largest = max(largest, *map(max, each))
        return largest

    def shared_from(first):
        largest = 0
        for lag in range(first, first + 30000):
            if lag >= over:
                beyond = root_up(square) * total * left(lag - over) >> Matrix.bits
                if beyond <= max(largest, square >> 36):
                    return max(largest, beyond)
            largest = max(largest, shared(lag))
        return square

    check_few(MOST_SAMPLES, k)
    first = (
        max(m * secret.apart, m // secret.columns[0].rows.width) for m in range(1, k)
    )
    apart = [shared_from(lag) for lag in first]
    together = sum((k - m) * c for m, c in enumerate(apart, 1))
    return min(k * square + 2 * together, k**2 * square)


def largest_along_run(secret, product, square):
    """Return the same for few changes over a run, from what each two of them share.

    Backwards in time, ``total`` bounds a change with those after it: what it shares with the
    next one and what that has, and the most that any m distances later shares, m > 1.
    """
    changes = list(pairs(secret.starts, secret.changes))
    squares, rows, starts = [], [], []
    for one in changes:
        start, _ = one
        after = [other for other in changes if other[0] >= start + secret.apart]
        each = [shared_by(product, one, other) for other in after]
        for k, own in enumerate(shared_by(product, one, one)):
            squares.append(min(own[k], square))
            shared = chain(*(block[k] for block in each))
            rows.append([2 * min(x, square) for x in shared])
            starts.append(start)
    further, total = [0] * len(rows), squares
    for m in range(1, secret.events):
        last, total = total, []
        for a, row in enumerate(rows):
            later = len(rows) - bisect_left(starts, starts[a] + m * secret.apart)
            further[a] += max(row[-later:]) if m > 1 and later else 0
            then = map(add, row, last[len(rows) - len(row) :])
            total.append(squares[a] + further[a] + max(then, default=0))
    return max(total)


# -- anything, beside other noise over a run -------------------------------------------


def square_over_run(design, plant, data):
    """Return a bound of y^2 for what a secret changes over a run."""
    secret = entering(plant, data, design.horizon)
    if secret.events == 1 and not (design.root or plant.is_varying):
        secret = secret._replace(starts=secret.starts[:1])  # later ones are cut off
    explained = explained_over_run(design, plant, secret)

    @cache
    def product(place, other):
        if other < place:
            return product(other, place)
        (v, peak, err), (w, its, wrong) = explained(*place), explained(*other)
        error = len(v) * (peak * wrong + its * err + err * wrong)
        return sum(map(mul, v, w)) >> Matrix.bits, (error >> Matrix.bits) + 2

    def left(n):
        return 0 if n >= design.horizon else 1 << 4 * Matrix.bits

    return largest_of_changes(secret, product, left, design.enough)


def explained_over_run(design, plant, secret):
    """Return the function of (t, k) that gives v with R v = s, its peak and its error.

    The output s is the response to what enters by column k at sample t. R is triangular,
    so v is found sample by sample. What rounding leaves unexplained is at most ``missed``.
    """
    check_few(MOST_SAMPLES, design.horizon)
    rows, T, outputs = rows_of_noise(design), design.horizon, len(plant.outputs)
    if len(rows) != T * outputs:
        raise Broken("the root of the noise has another size than the run")
    peak, gain = max(max(map(abs, row)) for _, row in rows), largest_gain(rows)
    steps = [(whole(step.A), whole(step.C)) for step in plant.along]

    @cache
    def response(t):
        return response_from(t, steps, secret.columns_at(t), T)

    @cache
    def explained(t, k):
        begin = min(max(t, 0), T)
        response_at, err = response(t if plant.is_varying else -1)
        changed = chain(*response_at[begin - t : T - t])
        found = [0] * begin * outputs
        its = rows[len(found) :]
        for (s, is_moved), (first, row) in zip(changed, its, strict=True):
            if is_moved and not row[-1]:
                raise Broken("a hidden change moves an output that has no noise")
            at = max(first, begin * outputs)
            taken = sum(map(mul, row[at - first :], found[at:]))
            left = (s[k] << Matrix.bits) - taken
            found.append(left // row[-1] if row[-1] else 0)
        missed = (peak >> Matrix.bits) + err + 1
        return found, max(map(abs, found)), (gain * missed >> Matrix.bits) + 1

    return explained


def rows_of_noise(design):
    """Return rows of a triangular R such that noise R eta is at most that of a run.

    It is the root in the file, or a Cholesky factor of its square and a floor, or a floor.
    Row k is a pair (first place, entries up to place k).
    """
    floor = [int(f * (1 << Matrix.bits)) for f in design.white or ()] * design.horizon
    if design.white and not min(floor):
        raise TooFewBits
    if not design.root:
        return [(k, [f]) for k, f in enumerate(floor)]
    for k, row in enumerate(design.root):
        if any(row[k + 1 :]) or any(row) != bool(row[k]):
            raise Broken("the root of the noise is not lower triangular")
    root = Matrix(design.root).balls()
    if root.err:
        raise TooFewBits
    rows = [row[: k + 1] for k, row in enumerate(root.rows)]
    if floor:
        square = []
        for k, (row, f) in enumerate(zip(rows, floor, strict=True)):
            square.append([sum(map(mul, row, other)) for other in rows[: k + 1]])
            square[-1][-1] += f * f
        rows = cholesky(square)
        if rows is None:
            raise TooFewBits
    return [(0, row) for row in rows]


# -- signals, for runs of any length ---------------------------------------------------
# Filtered noise M nu at the outputs explains a change G w by v = M^-1 G w, the response of
# another system. Noise G M nu that enters the plant with the secret explains it by M^-1 w.


def square_for_ever(design, plant, data):
    """Return a bound of y^2 for runs of any length.

    A floor beside the noise takes a share of the explanation: for y_1 and y_2 of each alone
    the best shares leave 1 / y^2 = 1 / y_1^2 + 1 / y_2^2.
    """
    if plant.is_varying:
        raise NotCovered("driven or filtered noise for a plant that varies")
    secret = entering(plant, data, inf)
    columns, step = secret.columns_at(0), plant.at(0)
    G = trimmed(System(step.A, columns.rows, step.C, columns.through))
    if secret.is_summed:
        G = trimmed(difference(G))
    M, taps = shaping_of(design)
    entered = G
    if design.response:
        verdict = NotCovered if len(design.plants) > 1 else Broken
        entered = static(entering_noise(G, system_of(design.response), M.D, verdict))
    undone = behind(entered, inverse(M))
    if not design.white:
        return square_of_response(undone, secret, taps, design.enough)
    square = square_of_response(undone, secret, taps)
    loudness = diagonal([1 / f for f in design.white])
    beside_floor = System(G.A, G.B, loudness @ G.C, loudness @ G.D)
    try:
        its = square_of_response(beside_floor, secret)
    except TooFewBits:  # the plant does not decay, and a floor hides nothing for ever
        return square
    return square * its // max(square + its, 1) + 1


def square_of_response(G, secret, taps=(1,), enough=0):
    """Return a bound of y^2, from the system G and the taps that explain a secret.

    The product of a response with one that begins m samples earlier is E'A^(m-1) B with
    E = A'Q B + C'D, or B'Q B + D'D for m = 0. What Q counts too much is a sum of squares of
    all that has entered. Taps are a further response; those u apart multiply to own[u].
    """
    A, B, C, D = (one.balls() for one in G)
    is_energy = secret.changes[0][1] == "energy"
    if len(taps) > 1 and (is_energy or secret.events > 1):
        raise NotCovered("autoregressive noise for several changes, or their energy")
    if is_energy:
        return square_of_gain(A, B, C, D)
    Q = energy(A, C)
    at_once, echo = B.T @ Q @ B + D.T @ D, A.T @ Q @ B + C.T @ D
    state = ladder(A, B)
    own = []
    for u in range(len(taps)):
        weight = sum(map(mul, taps[u:], taps))
        own.append(diagonal([weight] * B.width).balls())

    @cache
    def apart(m):
        if m < 0:
            return apart(-m).T
        return echo.T @ state(m - 1) if m else at_once

    @cache
    def tapped(m):
        total = own[0] @ apart(m)
        for u, weight in enumerate(own[1:], 1):
            total += weight @ (apart(m + u) + apart(m - u))
        return total

    def product(place, other):
        (t, k), (s, j) = place, other
        found = tapped(t - s)
        return found.rows[k][j], found.err

    def left(n):
        return root_up(largest_form(state(n), Q))

    return largest_of_changes(secret, product, left, enough)


# -- secrets ---------------------------------------------------------------------------


class Columns(NamedTuple):
    """How a secret enters a plant from rest, for signals as B and D times their radii.

    ``rows`` and ``through`` are rational, and ``balls`` those of the rows. Moves of a state
    enter before sample 0. They are known as balls, and ``rows`` span the same.
    """

    rows: Matrix
    through: Matrix
    balls: Matrix


class Secret(NamedTuple):
    """The columns by which a secret enters at each sample, and its changes.

    A change that starts at one of the ``starts`` is a sum of impulses. ``changes`` are pairs
    of their places (samples after the start, column) and of their sizes: rows of a matrix,
    a "ball" of them, "any" up to one each, or any of an "energy" up to one.
    """

    columns: list[Columns]
    starts: range
    changes: list[tuple[object, object]]
    events: int = 1
    apart: int = 0
    is_endless: bool = False
    is_alone: bool = True  # at most one change starts at a sample and column
    is_summed: bool = False  # impulses are of sums over time of what enters

    def columns_at(self, t):
        return self.columns[t % len(self.columns)]

    def may_start(self, sample):
        return self.is_endless or sample in self.starts


def entering(plant, data, horizon):
    """Return a secret of any kind as it enters a plant."""
    if data["kind"] == SIGNALS:
        return secret_of_signals(plant, data, horizon)
    moves, spanning, is_ball = moves_of_states(plant, data, horizon)
    columns = Columns(spanning, zeros(len(plant.outputs), moves.width), moves)
    places = [(0, k) for k in range(moves.width)]
    one = unit(1).balls()
    changes = [(places, "ball")] if is_ball else [([place], one) for place in places]
    return Secret([columns], range(-1, 0), changes)


def secret_of_signals(plant, data, horizon):
    radii, shape, columns = chosen(data, plant), shape_of(data), []
    for t in range(len(plant.along)):
        rows, through = plant.entries(radii, t)
        columns.append(Columns(rows, through, rows.balls()))
    is_endless = horizon == inf
    starts = range(1) if is_endless else sample_times(data, horizon)
    signals, longest = range(len(radii)), min(data["duration"], horizon)
    moved, which = data["moved"], data["which"]
    if moved and data["times"] is not None:
        raise NotCovered("events at some samples alone that move to others")
    if shape != "energy":
        check_few(MOST_NUMBERS, longest, longest + moved, moved + 1)
    is_summed = bool(is_endless and moved and not which)
    events, apart = data["events"], data["separation"]
    if not is_endless and events > 1:
        if apart < 1:
            raise NotCovered("several changes over a run that keep no distance")
        events = min(events, 1 + (starts[-1] - starts[0]) // apart)
    if shape == "moved" and apart <= moved:  # events may be at each other's samples
        apart = 0
    if shape == "energy" and is_endless:
        changes = [([], "energy")]
    elif shape == "energy":
        changes, starts = [(list(pairs(starts, signals)), "ball")], range(1)
    elif shape == "any":
        own = [signals] if data["together"] else [[k] for k in signals]
        changes = [(list(pairs(range(longest), those)), "any") for those in own]
        if data["times"] is None and not is_endless and events == 1:
            starts = range(horizon + 1 - longest)  # later ones are parts of others
    elif shape == "moved":
        changes = moved_events(signals, longest, moved, which, is_summed)
    else:
        levels = [[1] * n for n in range(1, longest + 1)]
        changes = in_forms(signals, data["profiles"] or levels)
    is_alone = shape in ("level", "profiles")
    return Secret(
        columns, starts, changes, events, apart, is_endless, is_alone, is_summed
    )


def shape_of(data):
    """Return the one word that says the shape of a secret's changes."""
    words = {
        "energy": data["norm"] == "l2",
        "profiles": data["profiles"] is not None,
        "any": data["shape"] == "any" or data["together"],
        "moved": data["moved"] or data["which"],
    }
    if data["norm"] not in ("single", "l2") or data["shape"] not in ("any", "level"):
        raise NotCovered("changes of another norm or shape")
    shape, *others = [word for word, is_said in words.items() if is_said] or ["level"]
    if others or (shape in ("energy", "profiles") and data["duration"] > 1):
        raise Broken("the secret says two things of the shape of its changes")
    if shape == "energy" and data["events"] > 1:
        raise Broken("the secret has a bounded energy, several times")
    return shape


def in_forms(signals, forms):
    """Return changes that enter by one of the signals, in one of some forms over time."""
    samples = range(max(map(len, forms)))
    padded = [[*form, *[0] * (len(samples) - len(form))] for form in forms]
    sizes = Matrix(padded).balls()
    return [([(n, k) for n in samples], sizes) for k in signals]


def moves_of_states(plant, data, horizon):
    """Return moves of x(0), rational ones that span them, and whether they span a ball.

    "State k at time j moves by mu, the others held" is the move mu A^-j e_k of x(0).
    """
    radii = chosen(data, plant)
    axes = placed(radii, plant.states)
    if data["kind"] == "initialstateadjacency":
        if data["norm"] == inf:
            check_few(MOST_NUMBERS, 2 ** len(radii))
            corners = [(1, *rest) for rest in pairs((1, -1), repeat=len(radii) - 1)]
            axes = axes @ Matrix(corners).T
        elif data["norm"] not in (1, 2):
            raise NotCovered("a ball of another norm than 1, 2 and infinity")
        return axes.balls(), axes, data["norm"] == 2
    if data["charts"] != "times":
        raise NotCovered('a secret with charts="all"')
    if horizon == inf and data["times"] != [0]:
        raise NotCovered("a state at any time, without a horizon")
    samples = sample_times(data, horizon)
    if samples[-1] == 0:
        return axes.balls(), axes, False
    check_few(MOST_SAMPLES, samples[-1] + 1)
    if plant.is_varying:
        return moves_back(plant, axes, samples)
    step, follow, fixed = backward(plant)
    if any(plant.states.index(name) in fixed for name in radii):
        raise Broken("a delayed signal is not moved on its own at a later time")
    spanning = [follow @ axes]
    # at the first sample delayed readings may be held as well
    held = [axes] if samples[0] == 0 and spanning[0].rows != axes.rows else []
    known = ladder(step.balls(), spanning[0].balls())
    for _ in range(samples[0] + min(len(axes.rows), samples[-1] - samples[0] + 1) - 1):
        spanning.append(step @ spanning[-1])
    moves = [*(one.balls() for one in held), *map(known, samples)]
    return beside(*moves), beside(*held, *spanning[samples[0] :]), False


def moves_back(plant, axes, samples):
    """Return the same for a plant that varies, A_0^-1 ... A_(j-1)^-1 mu e_k."""
    n = len(plant.states)
    exact, near, seen = unit(n), unit(n).balls(), []
    spanning, moves = [], []
    for j in range(samples[-1] + 1):
        if j:
            back = rational_inverse(plant.at(j - 1).A)
            near = near @ back.balls()
            exact = exact @ back if len(seen) < n else exact
        if j in samples:
            moves.append(near @ axes.balls())
        if j in samples and len(seen) < n:
            spanning.append(exact @ axes)
            seen, _ = reduced(beside(*spanning).T.rows, n)
    return beside(*moves), beside(*spanning), False


def backward(plant):
    """Return a step back in time, what delayed readings follow from, and fixed states.

    States that only inputs drive are the same in both runs. Those that drive no others are
    delayed readings: they follow from what the other states were so many samples before as
    there are readings. Among the others A has an inverse.
    """
    A = plant.at(0).A
    inputs = only_driven(A)
    readings = only_driven(A.T) - inputs
    follow = unit(len(A.rows))
    fixed = inputs | readings
    free = Matrix([row for k, row in enumerate(follow.rows) if k not in fixed])
    step = free.T @ rational_inverse(free @ A @ free.T) @ free
    for _ in readings:
        follow = A @ follow @ step
    return follow @ step, follow, fixed


def only_driven(A):
    """Return the states that only inputs and other such states drive, by exact zeros."""
    found = set()
    for _ in A.rows:
        drivers = [{j for j, x in enumerate(row) if x} for row in A.rows]
        found = {i for i, those in enumerate(drivers) if those <= found}
    return found


def ladder(step, first):
    """Return the function of j that gives step^j first, with errors that grow with log(j)."""

    @cache
    def doubled(k):
        return doubled(k - 1) @ doubled(k - 1) if k else step

    @cache
    def found(j):
        return doubled((j & -j).bit_length() - 1) @ found(j & (j - 1)) if j else first

    return found


def chosen(secret, plant):
    """Return the names that a secret is about with their radii.

    By default they are the inputs, or the states. Numbers in the file count those.
    """
    is_signal = secret["kind"] == SIGNALS
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


def placed(radii, names):
    """Return a column for each size, which has it in the row of its name."""
    return Matrix(
        [[size * (one == name) for one, size in radii.items()] for name in names]
    )


def sample_times(secret, horizon):
    """Return the samples at which a secret may move, by default all of them."""
    given = secret["times"]
    if given is None:
        return range(horizon)
    is_sorted = list(given) == sorted(set(given))
    if not given or not is_sorted or given[0] < 0 or given[-1] >= horizon:
        raise Broken("the secret's times are not sorted samples within the horizon")
    return given


# -- changes of any shape --------------------------------------------------------------
# A change w of numbers |w_i| <= 1 is explained by sum w_i v_i. Its length is convex in w,
# so that y^2 is the largest w'R w of signs w, with the products R of the v_i.

MOST_EXACT = 24  # signs up to which all patterns are looked at, by halves
MOST_RELAXED = 400


def largest_pattern(R, enough):
    """Return a bound of w'R w for all signs w, which is not sharp below ``enough``."""
    bound = sum_of_sizes(R)
    if bound <= enough or len(R.rows) < 3 or len(R.rows) > MOST_RELAXED:
        return bound
    if len(R.rows) <= MOST_EXACT:
        return min(bound, largest_by_halves(R, bound))
    return min(bound, largest_relaxed(R, enough))


def sum_of_sizes(matrix):
    """Return a bound of w'R z for all numbers w and z of at most one."""
    sizes = list(map(abs, chain(*matrix.rows)))
    return sum(sizes) + len(sizes) * matrix.err


def largest_by_halves(R, most):
    """Return the largest w'R w, whose first and second half take all patterns in turn.

    Numbers are whole, and so few of their bits are looked at that sums of them are quick.
    """
    drop, size = max(most.bit_length() - 50, 0), len(R.rows)
    rows, half = [[x >> drop for x in row] for row in R.rows], size // 2
    others = list(pairs((1, -1), repeat=size - half))
    own = [square_of_signs([row[half:] for row in rows[half:]], w) for w in others]
    best, largest = 0, max(own)
    for w in pairs((1, -1), repeat=half):
        first = square_of_signs([row[:half] for row in rows[:half]], w)
        across = [2 * sum(map(mul, row, w)) for row in rows[half:]]
        if w[0] > 0 and first + largest + sum(map(abs, across)) > best:
            sums = [0]
            for x in across:
                sums = [y + z for y in sums for z in (x, -x)]
            best = max(best, first + max(map(add, own, sums)))
    return (best + size**2 << drop) + size**2 * R.err


def square_of_signs(rows, w):
    return sum(x * sum(map(mul, row, w)) for x, row in zip(w, rows))


def largest_relaxed(R, enough):
    """Return sum d for some diag(d) >= R, which holds for all signs.

    Unit vectors in place of the signs make it small: each in turn becomes the direction of
    what the others ask of it, whose length is added to the diagonal's entry in d.
    """
    size, peak = len(R.rows), R.largest()
    width = isqrt(2 * size) + 2
    rows = [[x / peak for x in row] for row in R.rows]
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
        missing = R + diagonal([max(d) - x for x in d], 0)
        bounds.append(sum(d) + size * (largest_eigenvalue(missing) - max(d)))
        is_settled = abs(last - sum(d)) <= sum(d) / 10**11
        if is_settled or min(bounds) <= enough or len(bounds) * size**2 * width > 10**7:
            return min(bounds)
        last = sum(d)


# -- events whose time is secret, or their signal --------------------------------------
# A change is an event less the same event, moved to another sample or another signal.


def moved_events(signals, longest, moved, which, is_summed):
    """Return levels that enter by one column less the same, up to so many samples later.

    Sums of them over time enter (1 - z^-1) G as they enter G.
    """
    found = []
    for i, j in pairs(signals, signals):
        places, rows = list(pairs(range(longest + moved), {i, j})), []
        for k, n in pairs(range(moved + 1), range(1, longest + 1)):
            if (k or i < j) and (which or i == j):
                event = {(t, i) for t in range(n)}
                its = {(t, j) for t in range(k, k + n)}
                row = [(place in event) - (place in its) for place in places]
                rows.append(list(accumulate(row)) if is_summed else row)
        if rows:
            found.append((places, Matrix(rows).balls()))
    if not found:
        raise Broken("the secret is on which signal an event is, of one signal")
    return found


# -- Laplace noise, and radial noise in blocks ------------------------------------------
# A block of r entries has the density exp(-|eta|), and Laplace noise has blocks of one entry.
# Of an explanation only the lengths of its blocks count, and each costs more if it is larger.


def promise_of_lengths(design):
    """Return the same of Laplace and radial noise, whose claims are rows of lengths."""
    budget, releases = design.request["budget"], design.request["releases"]
    if budget["gdp"] is not None:
        raise NotCovered("Laplace or radial noise for a budget of gdp")
    epsilon, delta = float(budget["epsilon"]), float(budget["delta"])
    is_laplace, rows, bounds = design.family == "laplace", [], set()
    for row in design.loss["rows"]:
        each = [((y, 1, inf), n) for y, n in row["shifts"]]
        each = each if is_laplace else row["radial"]
        rows.append([(r, y, n) for (y, r, _), n in each])
        bounds |= {bound for (_, _, bound), _ in each}
    size = max(sum(Fraction(y) * n for _, y, n in row) for row in rows)
    if not bounds <= {design.bound}:
        raise Broken("the promise is about noise of another law")
    if design.kinds == {"radial"}:
        if any((r, n) != (design.factor.width, 1) for row in rows for r, _, n in row):
            raise Broken("the promise is about noise of another law")
        found, holds = sharp_shift(design, size)
    elif design.kinds in (({"structured"}, {"white"}) if is_laplace else ({"blocks"},)):
        found, holds = sharply(lambda: largest_loss(design, rows))
    else:
        raise NotCovered("noise by entries that is neither structured nor independent")
    if design.bound == inf:
        most = max(composed_delta(row, epsilon, delta, releases) for row in rows)
    elif releases > 1 or size > epsilon:
        raise NotCovered("several releases of truncated noise, or a loss over epsilon")
    else:
        most = truncated_delta(float(size), design.factor.width, float(design.bound))
    if is_laplace:
        numbers = {"epsilon": found * releases, "claimed epsilon": size * releases}
    else:
        numbers = {"shift": found, "claimed shift": size, "epsilon": epsilon}
        numbers["claimed delta"] = most
    return numbers, holds, most <= delta * TOLERANCE


def largest_loss(design, rows):
    """Return a bound of the loss of every move, and whether the rows of a claim cover them.

    Rows have triples (r, length, count). One covers a move if of each r its k-th largest
    length is not below the move's for every k, or if one of r = 1 is not below their sum.
    """
    if design.horizon == inf or (design.request["resolution"] and not design.white):
        raise NotCovered("noise by entries without a horizon, or readings on a grid")
    known = {1, *design.blocks}
    for r, y, n in chain(*rows):
        if r not in known or y < 0 or type(n) is not int or n < 1:
            raise Broken("the promise has shifts that are no numbers")
    check_few(MOST_NUMBERS, sum(n for row in rows for _, _, n in row))
    one, moves, claims = 1 << Matrix.bits, [], []
    for row in rows:
        each = [[(r, int(y * TOLERANCE * one))] * n for r, y, n in row]
        claims.append(ranked(chain(*each)))
    most = max(map(total, claims))
    for plant, data in pairs(design.plants, design.secrets):
        if design.white:
            each = [[sizes] for sizes in independent_sizes(design, plant, data)]
        else:
            shifts, is_ball = structured_shifts(design, plant, data)
            if is_ball and design.blocks:
                raise NotCovered("a ball, and radial noise in blocks")
            if is_ball:
                sizes = [largest_sum(X, most) for X in shifts]
                moves.append([{1: [size]} for size in sizes])
                continue
            each = zip(*map(sizes_of_columns, shifts))
        moves += [[lengths(design, sizes) for sizes in ways] for ways in each]
    slack = most // 10**9

    def is_covered(ways, row):
        return any(
            is_below(move, row, slack) or total(move) <= row.get(1, [0])[0]
            for move in ways
        )

    if design.loss["aligned"] and len(claims) == len(moves):
        holds = all(map(is_covered, moves, claims))
    else:
        holds = all(any(is_covered(ways, row) for row in claims) for ways in moves)
    return Fraction(max(min(map(total, ways)) for ways in moves), one), holds


def lengths(design, sizes):
    """Return the lengths of blocks by r, the largest first, from the sizes of entries."""
    each, found = iter(sizes), []
    for r in design.blocks or [1] * len(sizes):
        square = sum(next(each) ** 2 for _ in range(r))
        found.append((r, isqrt(square * (r + 1 if design.blocks else 1)) + 1))
    return ranked(found)


def ranked(move):
    """Return the lengths of pairs (r, length) by r, the largest first."""
    found = {}
    for r, y in sorted(move, reverse=True):
        found.setdefault(r, []).append(y)
    return found


def total(move):
    return sum(map(sum, move.values()))


def is_below(move, row, slack):
    """Return whether of each r the k-th largest length is below the row's for every k."""
    more = slack // sum(map(len, move.values())) + 1
    for r, lengths in move.items():
        others = chain(row.get(r, ()), repeat(0))
        if any(x > y + more for x, y in zip(lengths, others)):
            return False
    return True


def largest_sum(X, enough):
    """Return a bound of the sum of the sizes of X u for |u| <= 1, not sharp below ``enough``.

    With signs w it is w'X u, and at most |X'w|.
    """
    return root_up(largest_pattern(X @ X.T, enough**2 >> Matrix.bits))


def structured_shifts(design, plant, data):
    """Return ways to explain the moves, as their entries of eta, and whether it is a ball."""
    moves, spanning, is_ball = moves_of_states(plant, data, design.horizon)
    maps = [coordinates(design, plant, spanning)]
    if plant.seen == design.plant.seen:
        try:  # outputs may not tell the states apart: then c that make the states do as well
            maps.append(coordinates(design, plant, spanning, of_states=True))
        except Verdict:
            pass
    return [c @ moves for c in maps], is_ball


def independent_sizes(design, plant, data):
    """Return the sizes of the entries of noise of its own at each output and sample."""
    secret = entering(plant, data, design.horizon)
    if secret.events > 1 or any(sizes == "ball" for _, sizes in secret.changes):
        raise NotCovered("independent Laplace noise for a ball or several changes")
    grid = design.request["resolution"] or [0] * len(plant.outputs)
    steps = [int(h / f * (1 << Matrix.bits)) + 1 for h, f in zip(grid, design.white)]
    explained = explained_over_run(design, plant, secret)
    found, more = [], steps * design.horizon
    for start, (places, sizes) in pairs(secret.starts, secret.changes):
        each = [explained(start + n, k) for n, k in places]
        rows = Matrix([v for v, _, _ in each], max(err for _, _, err in each))
        if sizes == "any":
            shifts = [list(map(sum, zip(*sizes_of_columns(rows.T))))]
        else:
            shifts = sizes_of_columns((sizes @ rows).T)
        found += [list(map(add, row, more)) for row in shifts]
    return found


def sizes_of_columns(matrix):
    """Return a bound of the sizes of the entries of each column."""
    return [[abs(x) + matrix.err for x in column] for column in matrix.T.rows]


# -- radial noise ----------------------------------------------------------------------
# Its r numbers eta have the density exp(-|eta|), within a bound R if that is finite. The law
# is radial and falls outwards, so only the size y of a shift counts, and larger ones cost
# more. Explanations are those of Gaussian noise.

MOST_CELLS = 1 << 13
MOST_COMPOSED = 32


@cache
def law_of_loss(y, r):
    """Return how the loss y cos(a) of a shift y falls: the density of a, and two chances.

    They are those of a = 0 and a = pi, which differ from zero for r = 1 alone. For r > 1 let
    |eta| + |eta - y| = y cosh(u), so these coordinates a and u have the density
    exp(-y (cosh(u) - cos(a)) / 2) (sinh(u) sin(a))^(r - 2) (sinh(u)^2 + sin(a)^2). Over u its
    integral is q + sin(a)^2, where q is a mean of sinh(u)^2 = 4 v^2 (y + v^2) / y^2.
    """

    def faded(a):
        return math.exp(-y * math.sin(a / 2) ** 2)

    if r == 1:
        return lambda a: y / 4 * math.sin(a) * faded(a), 0.5, math.exp(-y) / 2
    if y < 1e-12:  # where integrals would be rough, the loss is taken as y
        return lambda a: 0.0, 1.0, 0.0
    if r > 32 or y > 100:
        raise NotCovered("radial noise of many numbers, or a large shift")

    def mean(power):
        def density(v):
            square = v**2 * (y + v**2)
            return square**power * math.exp(-(v**2)) / math.sqrt(y + v**2)

        return integral(density, 0, 16)

    q = 4 / y**2 * mean(r / 2) / mean(r / 2 - 1)

    def density(a):
        return math.sin(a) ** (r - 2) * (q + math.sin(a) ** 2) * faded(a)

    whole = integral(density, 0, math.pi)
    return lambda a: density(a) / whole, 0.0, 0.0


def angle_of(missing, y):
    """Return the angle a at which a loss y cos(a) misses y by so much."""
    return 2 * math.asin(math.sqrt(min(missing / 2 / y, 1.0)))


def composed_delta(row, epsilon, wanted, releases):
    """Return a bound of the delta of releases that lose a row (r, y, count) each.

    Losses miss the sum Y of all y by d each, and delta is the mean of the positive part of
    1 - exp(sum d - D), where D = Y - epsilon. It is convex in every exp(d), so it does not
    fall if d moves to the ends of a cell such that the mean of exp(d) stays. Cells become
    smaller until delta is as ``wanted``, or far from it. One Laplace number of Y bounds it
    as well.
    """
    laws = [(float(y), r, n * releases) for r, y, n in row if y]
    count = sum(n for *_, n in laws)
    D = math.fsum(y * n for y, _, n in laws) - epsilon
    if D <= (0 if wanted else epsilon / 1e9):
        return 0.0
    delta, cells, last, most = -math.expm1(-D / 2), 64, inf, wanted * TOLERANCE
    if not wanted:
        return delta
    if count == 1:
        return delta_of_one(*laws[0][:2], D) * (1 + 1e-11)
    if delta > most and count > MOST_COMPOSED:
        raise NotCovered("radial noise of many blocks or releases")
    while delta > most and 2 * delta - last < most:
        last, cells = delta, 2 * cells
        if cells > MOST_CELLS:
            raise NotCovered("it is undecided: no bound of delta was proved")
        left = [-math.expm1(-k * D / cells) for k in range(cells + 1)]
        for y, r, n in laws:
            moved = moved_losses(y, r, D / cells, cells)
            for _ in range(n):
                left = convolved(left, moved)
        delta = min(last, left[cells] * (1 + 1e-11))
    return delta


def delta_of_one(y, r, D):
    density, first, _ = law_of_loss(y, r)

    def left(a):
        return -math.expm1(2 * y * math.sin(a / 2) ** 2 - D)

    return first * left(0) + integral(lambda a: density(a) * left(a), 0, angle_of(D, y))


def moved_losses(y, r, h, cells):
    """Return the chances of d = y - L, moved to multiples of h up to so many."""
    density, first, last = law_of_loss(y, r)
    found = [first, *[0.0] * (cells + 1)]
    for k in range(min(cells, math.floor(2 * y / h) + 1)):

        def share(a, low=k * h):  # that moves to the upper end
            return math.expm1(2 * y * math.sin(a / 2) ** 2 - low) / math.expm1(h)

        ends = angle_of(k * h, y), angle_of((k + 1) * h, y)
        mass = integral(density, *ends, 16)
        far = integral(lambda a: density(a) * share(a), *ends, 16)
        if ends[1] == math.pi:
            mass += last
            far += last * share(math.pi)
        found[k] += mass - far
        found[k + 1] += far
    return found[: cells + 1]


def convolved(left, right):
    """Return the first sums of products of numbers up to one, by one product, rounded up."""
    whole, size, one = [], 28, 1 << 96
    for numbers in (left, right):
        each = (math.ceil(x * one).to_bytes(size, "little") for x in numbers)
        whole.append(int.from_bytes(b"".join(each), "little"))
    both = (whole[0] * whole[1]).to_bytes(2 * size * len(left), "little")
    each = (both[k * size : (k + 1) * size] for k in range(len(left)))
    return [math.nextafter(int.from_bytes(x, "little") / one**2, 1.0) for x in each]


def truncated_delta(y, r, R):
    """Return the probability of what the other law excludes.

    In the direction a it ends at the distance rho, and some of the law lies beyond that.
    """
    if r == 1:
        return max(math.exp(y - R) * math.expm1(-y) / math.expm1(-R) / 2, LEAST_DELTA)
    if r > 32 or y > R / 2:
        raise NotCovered("radial noise that ends within two moves, or of many numbers")

    def beyond(x):
        return math.exp(-x) * sum(x**k / math.factorial(k) for k in range(r))

    def excluded(a):
        rho = y * math.cos(a) + math.sqrt(R**2 - (y * math.sin(a)) ** 2)
        return math.sin(a) ** (r - 2) * (beyond(rho) - beyond(R))

    left = integral(excluded, math.acos(y / 2 / R), math.pi)
    whole = integral(lambda a: math.sin(a) ** (r - 2), 0, math.pi) * (1 - beyond(R))
    return max(left / whole * (1 + 1e-11), LEAST_DELTA)


# -- the delta of y-GDP, and integrals -------------------------------------------------


def delta_of(y, epsilon):
    """Return Phi(-a) - e^epsilon Phi(-a - y), a = epsilon/y - y/2, the delta of y-GDP.

    That is the integral of phi(a + u) (1 - exp(-y u)) over u > 0, with the density phi. It is
    taken where phi is above e^-40 of its peak there.
    """
    if not y:
        return 0.0
    a = epsilon / y - y / 2
    if a > 38:  # delta is below Phi(-a), and doubles end
        return LEAST_DELTA
    a, y = float(a), float(y)

    def density(u):
        return math.exp(-((a + u) ** 2) / 2) * -math.expm1(-y * u)

    ends = max(-a - 9, 0), math.sqrt(max(a, 0) ** 2 + 80) - a
    return max(integral(density, *ends) / math.sqrt(2 * math.pi), LEAST_DELTA)


def integral(f, low, high, steps=64):
    """Return the integral of a function that is analytic from low to high and around.

    The double exponential rule: x is low + (high - low) / (1 + exp(-pi sinh(s))), and the
    integral over s a sum at multiples of 1 / steps. docs/design_files.md bounds its error.
    """
    return (high - low) * math.fsum(
        f(low + (high - low) * x) * weight for x, weight in nodes(steps)
    )


@cache
def nodes(steps):
    found = []
    for k in range(-7 * steps // 2, 7 * steps // 2 + 1):
        x = 1 / (1 + math.exp(-math.pi * math.sinh(k / steps)))
        found.append((x, math.pi / steps * math.cosh(k / steps) * x * (1 - x)))
    return found


def square_root(square):
    """Return the root of a rational, rounded down after 200 decimals."""
    return Fraction(isqrt(square.numerator * 4**700 // square.denominator), 2**700)


# -- numbers ---------------------------------------------------------------------------


class Matrix:
    """Rows of rational numbers, or of integers (x +- err) / 2^bits if it has an ``err``.

    Rationals are exact. Where they would grow long, matrices are rounded to such balls.
    """

    bits = 256

    def __init__(self, rows, err=None):
        self.rows, self.err = rows, err

    @property
    def width(self):
        return len(self.rows[0])

    @property
    def T(self):
        return Matrix([list(column) for column in zip(*self.rows)], self.err)

    def __add__(self, other):
        both = zip(self.rows, other.rows, strict=True)
        rows = [[x + y for x, y in zip(*pair, strict=True)] for pair in both]
        return Matrix(rows, None if self.err is None else self.err + other.err)

    def __neg__(self):
        return Matrix([[-x for x in row] for row in self.rows], self.err)

    def __sub__(self, other):
        return self + -other

    def __matmul__(self, other):
        if self.width != len(other.rows):
            raise ValueError("matrices do not fit each other")
        columns = other.T.rows
        rows = [[sum(map(mul, row, column)) for column in columns] for row in self.rows]
        if self.err is None:
            return Matrix(rows)
        rows = [[x >> Matrix.bits for x in row] for row in rows]
        most = max(sum(map(abs, row)) for row in self.rows) + self.width * self.err
        its = max(sum(map(abs, column)) for column in columns)
        wrong = most * other.err + its * self.err
        return Matrix(rows, (wrong >> Matrix.bits) + 2)

    def balls(self):
        """Return rational numbers as balls, rounded where the bits do not suffice."""
        one = 1 << Matrix.bits
        scaled = [[Fraction(x) * one for x in row] for row in self.rows]
        is_exact = all(x.denominator == 1 for row in scaled for x in row)
        return Matrix([[x // 1 for x in row] for row in scaled], int(not is_exact))

    def exact(self):
        """Return the midpoints of balls, taken for exact numbers."""
        return Matrix(self.rows, 0)

    def inverse(self):
        """Return a matrix near the inverse of balls, with no proof of how near."""
        one = 1 << Matrix.bits
        near = Matrix([[Fraction(x, one) for x in row] for row in self.rows])
        return rational_inverse(near).balls().exact()

    def symmetric(self):
        """Return an exact symmetric matrix near balls."""
        return Matrix([[x // 2 for x in row] for row in (self + self.T).rows], 0)

    def above(self):
        """Return an exact symmetric matrix that is no less than any in the balls."""
        size = len(self.rows)
        return self.symmetric() + diagonal([size * (self.err + 1)] * size, 0)

    def largest(self):
        """Return a bound of the sizes of the entries."""
        return max(max(map(abs, row)) for row in self.rows) + (self.err or 0)


def diagonal(numbers, err=None):
    rows = [[x * (i == j) for j in range(len(numbers))] for i, x in enumerate(numbers)]
    return Matrix(rows, err)


def unit(size):
    return diagonal([1] * size)


def zeros(rows, columns):
    return Matrix([[0] * columns for _ in range(rows)])


def beside(*matrices):
    """Return matrices beside each other, of which all are rational, or none."""
    rows = [list(chain(*row)) for row in zip(*(M.rows for M in matrices), strict=True)]
    errors = [M.err for M in matrices]
    return Matrix(rows, None if None in errors else max(errors))


def below(*matrices):
    return beside(*(one.T for one in matrices)).T


def whole(matrix):
    """Return numbers of a file as integers over 2^shift, and the shift."""
    under = lcm(*(Fraction(x).denominator for x in chain(*matrix.rows)))
    rows = [[int(x * under) for x in row] for row in matrix.rows]
    return Matrix(rows), under.bit_length() - 1


def root_up(number):
    """Return an integer whose square, both over 2^bits, is above a number."""
    return isqrt(max(number, 0) + 1 << Matrix.bits) + 1


# -- proofs ----------------------------------------------------------------------------


def reduced(rows, width):
    """Return the reduced echelon form of rational rows, and what is left of the others.

    It consists of pairs (place of the pivot, row), of the first ``width`` places.
    """

    def less(row, pivot, k):
        return [x - row[k] * y for x, y in zip(row, pivot)]

    found, rest = [], [list(map(Fraction, row)) for row in rows]
    for k in range(width):
        chosen = next((row for row in rest if row[k]), None)
        if chosen:
            pivot = [x / chosen[k] for x in chosen]
            rest = [less(row, pivot, k) for row in rest if row is not chosen]
            found = [(place, less(row, pivot, k)) for place, row in found]
            found.append((k, pivot))
    return found, [row for row in rest if any(row)]


def seen_rows(steps, count, known=()):
    """Return the reduced echelon form of known rows and C_0, C_1 A_0, C_2 A_1 A_0, ...

    Steps (A, C) come again and again. Of a single one no rows follow when none is new.
    """
    found, power = [], unit(len(steps[0][0].rows))
    for t in range(count):
        A, C = steps[t % len(steps)]
        rows = [*known, *(row for _, row in found), *(C @ power).rows]
        longer, _ = reduced(rows, power.width)
        if len(longer) == len(found) and len(steps) == 1:
            break
        found, power = longer, A @ power
        if len(found) == power.width:
            break
    return found


def solved(M, B):
    """Return X and L such that M X z = B z for every z that obeys L z = 0."""
    found, rest = reduced(beside(M, B).rows, M.width)
    X = zeros(M.width, B.width)
    for k, row in found:
        X.rows[k] = row[M.width :]
    return X, Matrix([row[M.width :] for row in rest] or zeros(1, B.width).rows)


def least_solution(M, B):
    """Return the same with the shortest X z."""
    X, demands = solved(M @ M.T, B)
    return M.T @ X, demands


def rational_inverse(matrix):
    found, demands = solved(matrix, unit(len(matrix.rows)))
    if any(map(any, demands.rows)):
        raise Broken("a matrix has no inverse, such as that of states moved later on")
    return found


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


def largest_gain(rows):
    """Return max g for a g >= 0 that the comparison matrix of R maps to ones or more.

    No entry of R^-1 s is above max g times the largest of s.
    """
    gains, one = [], 1 << Matrix.bits
    for first, row in rows:
        taken = sum(abs(x) * g for x, g in zip(row, gains[first:]))
        last = abs(row[-1])
        gains.append((one**2 + taken) // last + 1 if last else 0)
    return max(gains)


def is_nonnegative(matrix):
    """Return whether a symmetric matrix is proved to be positive semidefinite."""
    square = [[x << Matrix.bits for x in row] for row in matrix.rows]
    return cholesky(square, matrix.err << Matrix.bits) is not None


def least(is_bound, low, step):
    """Return a proved bound within 2^-36 of the least one above ``low``."""
    while not is_bound(low + step):
        low, step = low + step, 4 * step
        if step.bit_length() > 3 * Matrix.bits:
            raise TooFewBits
    high = low + step
    while high - low > max(high >> 36, 1):
        middle = (low + high) // 2
        low, high = (low, middle) if is_bound(middle) else (middle, high)
    return high


def largest_eigenvalue(matrix):
    """Return a bound of the eigenvalues of a positive semidefinite matrix.

    Power iteration finds a number nearby, and a Cholesky factor proves the bound.
    """
    peak, size = matrix.largest() or 1, len(matrix.rows)
    rows = [[x / peak for x in row] for row in matrix.rows]
    image = [1 + k / size for k in range(size)]
    for _ in range(50 + min(10**6 // size**2, 1000)):
        length = math.hypot(*image) or 1.0
        vector = [x / length for x in image]
        image = [sum(map(mul, row, vector)) for row in rows]
    near = max(int(Fraction(sum(map(mul, vector, image))) * peak), 0)

    def is_bound(level):
        return is_nonnegative(diagonal([level] * size, 0) - matrix)

    return least(is_bound, near, (near >> 40) + 1)


def largest_form(moves, W):
    """Return a bound of z'W z for the columns z of a matrix."""
    image = W @ moves
    columns = zip(moves.T.rows, image.T.rows)
    size = max(sum(map(mul, z, Wz)) for z, Wz in columns)
    wrong = moves.largest() * image.err + image.largest() * moves.err
    return (size + len(moves.rows) * wrong >> Matrix.bits) + 2


def summed(A, Q):
    """Return a matrix near the sum of A'^t Q A^t over all t, by doubling, with no proof."""
    for _ in range(64):
        if A.largest() >> Matrix.bits // 2 == 0:
            return Q.symmetric()
        A, Q = A.exact(), Q.exact()
        A, Q = A @ A, Q + A.T @ Q @ A
        if max(A.largest(), Q.largest()) >> 3 * Matrix.bits:
            break
    raise TooFewBits


def energy(A, C):
    """Return Q such that outputs C x of x+ = A x have an energy of at most x(0)'Q x(0).

    Q is near the sum of A'^t C'C A^t. That Q >= 0 and Q >= C'C + A'QA is proved: no sample
    has more energy than x'Q x loses by it. That Q exists proves that C x decays.
    """
    margin = diagonal([1 << 2 * Matrix.bits // 3] * len(A.rows), 0)
    Q = summed(A, C.T @ C + margin)
    if is_nonnegative(Q) and is_nonnegative(Q - A.T @ Q @ A - C.T @ C):
        return Q
    raise TooFewBits


def square_of_gain(A, B, C, D):
    """Return a bound of the largest energy of outputs for inputs of energy one.

    A storage x'P x with P >= 0 and x'P x + g |w|^2 >= |outputs|^2 + x+'P x+ for all x and w
    proves g. The P that is tried is what the worst inputs w = K x leave, found in turns
    with K.
    """
    tiny = diagonal([1 << Matrix.bits * 3 // 4] * len(A.rows), 0)

    def is_bound(square):
        level = diagonal([square] * B.width, 0)
        K = zeros(B.width, len(A.rows)).balls()
        for _ in range(60):
            driven, seen = A + B @ K, C + D @ K
            try:
                P = summed(driven, seen.T @ seen - K.T @ level @ K + tiny)
            except TooFewBits:
                return False
            stored = P - A.T @ P @ A - C.T @ C
            given = level - D.T @ D - B.T @ P @ B
            cross = -(C.T @ D + A.T @ P @ B)
            if not is_nonnegative(given):
                return False
            both = below(beside(stored, cross), beside(cross.T, given))
            if is_nonnegative(P) and is_nonnegative(both):
                return True
            K = -(given.inverse() @ cross.T).exact()
        return False

    return least(is_bound, 0, 1 << Matrix.bits)


# -- systems ---------------------------------------------------------------------------


class System(NamedTuple):
    """x+ = A x + B u, y = C x + D u, of rational matrices."""

    A: Matrix
    B: Matrix
    C: Matrix
    D: Matrix


def response_from(t, steps, columns, T):
    """Return the response to impulses at sample t by each column, and a bound of its error.

    For each sample from t on and each output it is the row of numbers, and whether one of
    them differs from zero. C_s A_(s-1) ... A_(t+1) is exact, of integers over 2^shift.
    """
    power, shift = unit(len(columns.rows.rows)), 0
    entering, _ = whole(columns.rows)
    numbers, is_moved = [columns.through.balls()], [moved_rows(columns.through)]
    for s in range(t + 1, T):
        (A, more), (C, its) = steps[s % len(steps)]
        O = C @ power
        over = [[(x << Matrix.bits) >> shift + its for x in row] for row in O.rows]
        numbers.append(Matrix(over, 1) @ columns.balls)
        is_moved.append(moved_rows(O @ entering))
        power, shift = A @ power, shift + more
    found = []
    for one, moved in zip(numbers, is_moved):
        found.append(list(zip(one.rows, moved, strict=True)))
    return found, max(one.err for one in numbers)


def moved_rows(matrix):
    return list(map(any, matrix.rows))


def static(D):
    """Return a system whose state stays at zero."""
    return System(zeros(1, 1), zeros(1, D.width), zeros(len(D.rows), 1), D)


def system_of(data):
    """Return the system of a file."""
    if not data["A"]:
        return static(Matrix(data["D"]))
    return System(*(Matrix(data[name]) for name in "ABCD"))


def behind(first, then):
    """Return the response of a system to the outputs of another one."""
    still = zeros(len(first.A.rows), len(then.A.rows))
    own = beside(first.A, still)
    entered = beside(then.B @ first.C, then.A)
    A = below(own, entered)
    B = below(first.B, then.B @ first.D)
    C = beside(then.D @ first.C, then.C)
    return System(A, B, C, then.D @ first.D)


def difference(G):
    """Return (1 - z^-1) G. A simple pole of G at one is not among what reaches it."""
    one = unit(G.B.width)
    return behind(System(one - one, one, -one, one), G)


def inverse(M):
    """Return the system whose response to the outputs of M is what entered M."""
    D = rational_inverse(M.D)
    B, C = M.B @ D, -(D @ M.C)
    return System(M.A + M.B @ C, B, C, D)


def trimmed(G):
    """Return a system with the states alone that are reached and seen."""
    for _ in range(2):  # those that are seen, and then those of its dual system
        seen = dict(seen_rows([(G.A, G.C)], len(G.A.rows)))
        if seen:  # of their echelon form N, a unit matrix where it has pivots
            N = Matrix(list(seen.values()))
            back = Matrix([[int(i == k) for k in seen] for i in range(len(G.A.rows))])
            G = System(N @ G.A @ back, N @ G.B, G.C @ back, G.D)
        else:
            G = static(G.D)
        G = System(G.A.T, G.C.T, G.B.T, G.D.T)
    return G


def parameters(G, count):
    """Return D, C B, C A B, ..., C A^(count - 1) B below each other."""
    found, state = [G.D], G.B
    for _ in range(count):
        found.append(G.C @ state)
        state = G.A @ state
    return below(*found)


def entering_noise(G, H, sizes, verdict):
    """Return X such that what enters the noise's own system H as X w responds as G w.

    A response that is zero for as many samples as there are states is zero for ever. Of
    another plant than the noise's, there may be an X that depends on the past.
    """
    count = len(G.A.rows) + len(H.A.rows)
    X, demands = least_solution(parameters(H, count) @ sizes, parameters(G, count))
    if any(map(any, demands.rows)):
        raise verdict("noise that enters a plant where the secret does not")
    return sizes @ X


def shaping_of(design):
    """Return M, which is proved to be stable, or the size of 1/a and the taps of a."""
    if "coefficients" in design.shaping:
        taps = [1, *design.shaping["coefficients"]]
        prove_stable(taps)
        return static(Matrix([[design.shaping["std"]]])), taps
    M = system_of(design.shaping)
    energy(M.A.balls(), unit(len(M.A.rows)).balls())
    return M, [1]


def prove_stable(taps):
    """Prove that 1 / a(z^-1) is stable, by the test of Schur and Cohn.

    Its first tap is larger than the last one, and again of what a and a backwards leave
    when they cancel the last one. Taps are known within an error, over any power of two.
    """
    (row,), err = Matrix([taps]).balls().rows, 1
    while len(row) > 1:
        first, last, peak = row[0], row[-1], max(map(abs, row)) + err
        if abs(last) + 2 * err >= first:
            raise TooFewBits
        backwards = zip(row[:-1], reversed(row[1:]))
        bits = max(first.bit_length() - 1, 1)
        row = [first * x - last * y >> bits for x, y in backwards]
        err = (6 * peak * err >> bits) + 2


SIGNALS = "disturbanceadjacency"
SECRETS = "stateadjacency", "initialstateadjacency", SIGNALS
#: Fields of a secret that some kinds and files leave out.
USUAL: dict[str, object] = dict.fromkeys(["norm", "times", "profiles", "window"])
USUAL |= {"shape": "level", "duration": 1, "events": 1, "separation": 0, "moved": 0}
USUAL |= {"which": False, "together": False}

# -- a file --------------------------------------------------------------------------

#: Kinds with their fields. A file with another field that is not empty is not covered.
FIELDS = """
outputnoise schema plant horizon family parts request guarantee
request horizon budget adjacency family releases floor models resolution factor order gap scale blocks
privacybudget epsilon delta gdp
plant A B C D dt states inputs outputs name fingerprint
varyingplant along dt states inputs outputs name fingerprint
stateadjacency radius states times charts signals
initialstateadjacency radius norm signals
disturbanceadjacency radius inputs times norm duration profiles events separation window signals shape together moved which
jointadjacency parts
structured plant factor
radial plant factor bound
blocks plant factor sizes
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
        if file.read(1) != "{":  # so that no device is read to its end
            raise NotADesign("it does not begin with a brace")
        data = json.loads("{" + file.read(), object_pairs_hook=once_each)
    if data.pop("digest") != digest_of(data):
        raise NotADesign("it does not match its digest")
    if data["schema"] != 3:
        raise NotCovered(f"schema {data['schema']!r}; load the file and save it again")
    if data["kind"] == "privateloop":
        if data["noise"] is None:
            raise NotCovered("a loop without noise promises nothing")
        if data["noise"]["plant"] != data["plant"]:
            raise Broken("the noise of the loop is that of another plant")
        data = data["noise"]
    if data["kind"] != "outputnoise":
        raise NotADesign("it holds neither a noise nor a loop")
    if data["request"] is None:
        raise NotCovered("noise without a request, which says not what it hides")
    request, loss = data["request"], data["guarantee"]["loss"]
    objects = {"request": [request], "privacybudget": [request["budget"]]}
    objects |= {"privacyloss": [loss], "product": loss["rows"]}
    for kind, those in objects.items():
        if any(one["kind"] != kind for one in those):
            raise NotADesign(f"it holds something else than a {kind}")
    for plant in [data["plant"], *request["models"]]:
        told = plant.keys() - {"kind", "fingerprint", "name"}
        if digest_of({name: plant[name] for name in told}) != plant["fingerprint"]:
            raise Broken("a plant does not match its fingerprint")
    return value(data)


def once_each(fields):
    """Return named values as a dictionary. Other readers might take others of two alike."""
    if len(dict(fields)) < len(fields):
        raise NotADesign("a name comes twice in it")
    return dict(fields)


def digest_of(data):
    text = json.dumps(data, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def value(item):
    """Return what the JSON stands for, with rationals for its numbers."""
    if isinstance(item, list):
        return [value(part) for part in item]
    if isinstance(item, float):  # a decimal fraction, which readers round
        raise NotADesign("a number is not written to its last bit")
    if not isinstance(item, dict):
        return item
    if set(item) == {"float"}:
        found = float.fromhex(item["float"])
        return found if abs(found) == inf else Fraction(found)
    if set(item) == {"shape", "floats"}:
        return array(
            item["shape"], [Fraction(float.fromhex(x)) for x in item["floats"]]
        )
    kind = item.get("kind")  # none of the guarantee, and of radii by name
    if kind is not None and kind not in FIELDS_OF:
        raise NotCovered(f"something of the kind {kind!r}")
    for name in item.keys() - {"kind", *FIELDS_OF.get(kind, item)}:
        if item[name]:
            raise NotCovered(NOT_COVERED.get(name, f"{name} of {kind}"))
    found = {name: value(part) for name, part in item.items()}
    if kind is None and any(isinstance(part, list) for part in found.values()):
        raise NotADesign("something has no kind")
    return found


def array(shape, numbers):
    """Return numbers as a list, or as a list of rows, or as one of such lists."""
    rows = math.prod(x or 1 for x in shape)
    if len(numbers) != math.prod(shape) or rows > max(len(numbers), MOST_ROWS):
        raise NotADesign("an array does not have the shape that it names")
    if len(shape) == 1:
        return numbers
    size = math.prod(shape[1:])
    parts = [numbers[k * size : (k + 1) * size] for k in range(shape[0])]
    return [array(shape[1:], part) for part in parts]


class Plant:
    """x+ = A x + B u, y = C x + D u, with the names of its states, inputs and outputs.

    ``along`` has the matrices of each sample, or those of all.
    """

    def __init__(self, data):
        steps = zip(*data["along"]) if "along" in data else [map(data.get, "ABCD")]
        self.along = [System(*map(Matrix, step)) for step in steps]
        self.is_varying = "along" in data
        self.seen = [(step.A.rows, step.C.rows) for step in self.along]
        names = data["states"], data["inputs"], data["outputs"]
        self.states, self.inputs, self.outputs = names
        self.dt = data["dt"] if data["dt"] is True else float(data["dt"])
        n, m, p = map(len, names)
        for M, height, width in zip(zip(*self.along), (n, n, p, p), (n, m, n, m)):
            sizes = {len(row) for one in M for row in one.rows}
            if {len(one.rows) for one in M} != {height} or sizes != {width}:
                raise NotADesign("matrices of a plant do not fit its names")

    def at(self, t):
        return self.along[t % len(self.along)]

    def entries(self, radii, t):
        """Return how signals of these sizes enter the next state, and the outputs."""
        step, n, p = self.at(t), len(self.states), len(self.outputs)
        sizes = placed(radii, self.inputs + self.states)
        return beside(step.B, unit(n)) @ sizes, beside(step.D, zeros(p, n)) @ sizes


class Design:
    """What a file says of noise, checked as far as it can be without its size."""

    def __init__(self, data):
        self.request, self.loss = data["request"], data["guarantee"]["loss"]
        self.family, self.horizon = data["family"], data["horizon"]
        self.plant = Plant(data["plant"])
        self.plants = [self.plant, *map(Plant, self.request["models"])]
        adjacency = self.request["adjacency"]
        self.secrets = [USUAL | one for one in adjacency.get("parts", [adjacency])]
        for name in {one["kind"] for one in self.secrets}.difference(SECRETS):
            raise NotCovered(f"a secret of the kind {name!r}")
        self.enough = 0  # square, over 2^bits, below which no bound need be sharp
        self.kinds = {part["kind"] for part in data["parts"]}
        held = dict(chain(*(part.items() for part in data["parts"])))
        self.white, self.root = held.get("scale"), held.get("root")
        self.bound, self.response = held.get("bound", inf), held.get("response")
        self.shaping = held.get("shaping")
        self.blocks = held["sizes"] if "blocks" in self.kinds else []
        if "driven" in self.kinds:  # noise that is shaped by a diagonal D
            self.shaping = {"A": [], "D": diagonal(held["sizes"]).rows}
        states, outputs = len(self.plant.states), len(self.plant.outputs)
        self.factor = Matrix(held["factor"]) if "factor" in held else zeros(states, 1)
        counts = [self.horizon, self.request["releases"]]
        for secret in self.secrets:
            counts += [secret["duration"], secret["events"]]
            counts += [secret["moved"] + 1, secret["separation"] + 1]
        lengths = {len(plant.along) for plant in self.plants if plant.is_varying}
        budget = self.request["budget"]
        is_radial = bool(self.kinds & {"radial", "blocks"})
        is_cut = self.family == "truncated"
        shown = {(plant.dt, *plant.outputs) for plant in self.plants}
        each = [x for x in (self.white, self.request["resolution"]) if x is not None]
        demands = {
            "horizon": self.horizon == self.request["horizon"],
            "counts": all(n == inf or (type(n) is int and n > 0) for n in counts),
            "outputs of the models": len(shown) == 1,
            "samples": lengths <= {self.horizon},
            "one release": data["guarantee"]["releases"] == 1,
            "one part of a kind": len(self.kinds) == len(data["parts"]) > 0,
            "plant of the noise": held.get("plant", data["plant"]) == data["plant"],
            "rows of the noise": len(self.factor.rows) == states,
            "blocks": sum(self.blocks) in (0, self.factor.width)
            and all(type(r) is int and r > 0 for r in self.blocks),
            "outputs of the noise": held.get("outputs", outputs) == outputs,
            "sizes": all(
                len(x) == outputs and 0 < min(x) <= max(x) < inf for x in each
            ),
            "bound": self.bound > 0 and (self.bound < inf) == is_cut,
            "law": is_radial == (is_cut or self.family == "ball"),
            "budget": (budget["gdp"] is None) != (budget["epsilon"] is None),
        }
        for what, is_met in demands.items():
            if not is_met:
                raise Broken(f"what it says of its {what} does not fit")


# -- a promise of any law ---------------------------------------------------------------

#: The law of a promise by the noise's family, and where its rows have their numbers.
LAWS = {
    "gaussian": ("Gaussian", "square"),
    "laplace": ("Laplace", "shifts"),
    "ball": ("radial", "radial"),
    "truncated": ("radial", "radial"),
}


def sharply(evaluate):
    """Return a bound and whether it is enough, or else more bits do not change it."""
    last, Matrix.bits = None, 128
    while Matrix.bits < MOST_BITS:
        Matrix.bits *= 2
        try:
            found, is_enough = evaluate()
        except TooFewBits:
            continue
        if is_enough or (last and abs(found - last) * 10**12 <= found):
            return found, is_enough
        last = found
    raise NotCovered("it is undecided: no bound was proved")


def promise_of(design):
    """Return numbers to show, and whether the claim holds."""
    rows = design.loss["rows"]
    if design.family not in LAWS:
        raise NotCovered(f"noise of the family {design.family}")
    if len(design.loss["kinds"]) > 1 or any(row["boxes"] for row in rows):
        raise NotCovered("a promise of several laws, or one that may fail")
    law, own = LAWS[design.family]
    others = {name for _, name in LAWS.values()} - {own}
    mixed = {str(row.get(name, "0")) for row in rows for name in others} - {"0", "[]"}
    if mixed or design.loss["kinds"] != [law]:
        raise Broken("the promise is not about the noise's family")
    promise = gaussian_promise if own == "square" else promise_of_lengths
    numbers, holds, is_kept = promise(design)
    if not is_kept:
        raise Broken("what is claimed exceeds the budget")
    return numbers, holds


# -- words, and the command ------------------------------------------------------------


HIDDEN = dict(zip(SECRETS, ("the state", "the initial state", "the signal")))


def in_words(data, plant):
    """Return what a secret says, from its numbers alone."""
    radii = chosen(data, plant).items()
    each = [f"{name} by at most {float(x):.12g}" for name, x in radii]
    sizes = (" and " if data["together"] else " or ").join(each)
    is_ball, is_energy = data["norm"] in (1, 2, inf), data["norm"] == "l2"
    times, last, events = data["times"], data["duration"], data["events"]
    shapes = data["profiles"] or ()
    at = f"at the samples {', '.join(map(str, times or ()))}"
    words = {
        f"{HIDDEN[data['kind']]} {sizes}": True,
        "the others held": data["kind"] == "stateadjacency",
        f"in a ball of norm {data['norm']}": is_ball,
        "in the root of its energy": is_energy,
        f"within any {data['window']} samples": data["window"],
        "on which of them an event is, by the same share of each": data["which"],
        f"when an event is, moved by at most {data['moved']} samples": data["moved"],
        f"of any shape within {last} samples": data["shape"] == "any",
        f"kept for 1 to {last} samples": last > 1 and data["shape"] != "any",
        f"in one of {len(shapes)} shapes": shapes,
        f"{events} times": events > 1,
        f"starts at least {data['separation']} samples apart": data["separation"],
        "at any sample": times is None and not is_ball,
        f"{at} alone": times and is_energy,
        at.replace("the", "one of the", 1): times and not is_energy,
    }
    return ", ".join(text for text, is_said in words.items() if is_said)


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
    """Return a report in a line of text, which names of a file cannot break or forge."""
    told = report.keys() - {"file", "verdict", "status"}
    words = [f"{name} {x}" for name, x in report.items() if name in told]
    text = "; ".join([f"{report['file']}: {report['verdict']}", *words])
    return "".join(
        x if " " <= x <= "~" else x.encode("unicode_escape").decode() for x in text
    )


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
