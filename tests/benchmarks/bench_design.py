"""Noise design: time, certified gap and feasibility against CVXPY with Clarabel in both of its forms."""

import warnings
from collections import Counter
from contextlib import suppress

import numpy as np
import pytest
from benchmarks.measure import Turns, duration, peer
from flint import arb_mat, ctx
from scipy.special import binom

from privcontrol.core import (
    DirectionAdjacency,
    LinearQuery,
    PrivacyBudget,
    UncertifiableError,
    design_gaussian,
)
from privcontrol.numerics.ellipsoid import enclosing_ellipsoid
from privcontrol.privacy.budget import kappa_inverse

cp = peer("cvxpy")
BUDGET = PrivacyBudget(epsilon=1.0, delta=1e-5)
SHIFT = float(kappa_inverse(BUDGET.epsilon, BUDGET.delta))


@pytest.fixture(autouse=True)
def precise_balls():
    """Two hundred bits for what is checked in ball arithmetic."""
    with ctx.workprec(200):
        yield


def random_points(size, count, kind, seed=0):
    """Columns: normal points, points of a sphere (all of them nearly active), or the powers of a plant."""
    rng = np.random.default_rng(seed)
    points = rng.standard_normal((size, count))
    if kind == "sphere":
        return points / np.linalg.norm(points, axis=0)
    if kind == "plant":
        A = points[:, :size] / np.abs(np.linalg.eigvals(points[:, :size])).max()
        blocks = [np.eye(size)]
        while len(blocks) * size < count:
            blocks.append(A @ blocks[-1])
        return np.hstack(blocks)[:, :count]
    return points


def by_precision(points):
    """Sigma^-1 from min tr(P^-1) with p_i' P p_i <= 1."""
    P = cp.Variable((len(points),) * 2, PSD=True)
    outer = (points[:, None] * points).reshape(-1, points.shape[1])
    problem = cp.Problem(
        cp.Minimize(cp.tr_inv(P)), [outer.T @ cp.vec(P, order="C") <= 1]
    )
    problem.solve(solver="CLARABEL")
    return ball_matrix(P.value)


def by_blocks(points):
    """Sigma^-1 from min tr(Sigma) with [[Sigma, p_i], [p_i', 1]] >= 0, the linear matrix inequality of Algorithm 1."""
    size = len(points)
    sigma = cp.Variable((size, size), symmetric=True)
    blocks = [
        cp.bmat([[sigma, p[:, None]], [p[None], np.ones((1, 1))]]) >> 0
        for p in points.T
    ]
    cp.Problem(cp.Minimize(cp.trace(sigma)), blocks).solve(solver="CLARABEL")
    return ball_matrix(sigma.value).inv()


def ours(points):
    factor = ball_matrix(enclosing_ellipsoid(points).factor)
    return (factor * factor.transpose()).inv()


def design(points):
    """The design for these moves of all data, published as they are."""
    return design_gaussian(
        LinearQuery(np.eye(len(points))), DirectionAdjacency(points), BUDGET
    )


def designed(points):
    """As `ours`, by way of the public function: its covariance for a privacy shift of one; None if singular."""
    found = design(points)
    if found.noise.factor.shape[1] < len(points):
        return None
    factor = ball_matrix(found.noise.factor) * SHIFT
    return (factor * factor.transpose()).inv()


def ball_matrix(matrix):
    return arb_mat(np.asarray(matrix, float).tolist())


def cost_and_violation(points, precision):
    """tr(Sigma), and by how much the worst |p|^2 in the norm of Sigma^-1 exceeds 1, both in ball arithmetic."""
    moves = ball_matrix(points)
    product = (precision * moves).tolist()
    size, count = points.shape
    squares = [
        sum(moves[i, k] * product[i][k] for i in range(size)) for k in range(count)
    ]
    return float(precision.inv().trace()), max(
        float(max(s.mid() for s in squares) - 1), 0.0
    )


@pytest.mark.skipif(cp is None, reason="cvxpy not installed")
@pytest.mark.peers
def test_against_cvxpy(turns, table):
    out = table(
        "Noise design: against CVXPY with Clarabel",
        "Cost is tr(Sigma) over the certified lower bound of the optimum, minus 1; violation is by how much the worst "
        "move exceeds its budget (squared norm). A form with less cost than the bound is not feasible.",
        *(
            "moves",
            "",
            "wall",
            "processor",
            "ratio",
            "cost above the bound",
            "violation",
        ),
    )
    for size, count, forms in (
        (4, 300, (by_precision, by_blocks)),
        (4, 4000, (by_precision,)),
    ):
        points = random_points(size, count, "normal")
        bound = enclosing_ellipsoid(points).lower_bound
        names = {
            "privcontrol": ours,
            "CVXPY, precision": by_precision,
            "CVXPY, matrix inequalities": by_blocks,
        }
        functions = {
            n: (lambda f=f: f(points))  # noqa: B023
            for n, f in names.items()
            if f is ours or f in forms
        }
        timed = (turns if len(forms) == 1 else Turns)(functions)
        for name in functions:
            cost, outside = cost_and_violation(points, timed.values[name])
            excess = cost / bound - 1
            times = duration(timed.wall[name]), duration(timed.processor[name])
            out.add(
                f"r = {size}, M = {count:,}",
                name,
                *times,
                timed.ratio(name, "privcontrol"),
                excess,
                outside,
            )
            assert name != "privcontrol" or (excess < 1e-9 and outside == 0)


SIZES = {
    (4, 4_000): "5 ms",
    (8, 800): "10 ms",
    (16, 1_600): "50 ms",
    (4, 100_000): "0.1 s",
    (4, 1_000_000): "1 s",
}


def test_sizes(table):
    out = table(
        "Noise design: sizes",
        "Enclosing ellipsoids of M moves in r dimensions, certified gap wanted 1e-9. Points of a sphere are the hardest: "
        "nearly all are active. Powers of a plant are what trajectories make.",
        *("r", "M", "moves", "goal", "wall", "processor", "certified gap"),
    )
    for (size, count), goal in SIZES.items():
        for kind in (
            ("plant", "normal", "sphere") if count < 5000 else ("normal", "sphere")
        ):
            points = random_points(size, count, kind)
            timed = Turns({"ours": lambda: enclosing_ellipsoid(points)})  # noqa: B023
            found = timed.values["ours"]
            out.add(
                *(
                    size,
                    count,
                    kind,
                    goal,
                    duration(timed.wall["ours"]),
                    duration(timed.processor["ours"]),
                    found.gap,
                )
            )
            assert found.gap < 1e-9


def _outcome(function, points):
    """In one word what became of a design."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            precision = function(points)
            if precision is None:
                return "taken for flat"
            cost, outside = cost_and_violation(points, precision)
    except UncertifiableError:
        return "refused"
    except Exception as error:  # what a solver raises
        return type(error).__name__
    bound = BOUNDS[points.tobytes()]
    if outside > 1e-6 or cost > bound * (1 + 1e-6):
        return "wrong"
    return "right" if np.isfinite(bound) else "feasible"


BOUNDS = {}  # points -> certified lower bound of their cost


def spread_points(decades, mixed, seed):
    """A hundred points whose coordinates, or orthogonal mixtures of them, spread over some decades."""
    points = (
        random_points(4, 100, "normal", seed) * np.logspace(0, -decades, 4)[:, None]
    )
    rotation = np.linalg.qr(np.random.default_rng(seed).standard_normal((4, 4)))[0]
    return rotation @ points if mixed else points


@pytest.mark.skipif(cp is None, reason="cvxpy not installed")
def test_spreads(table):
    out = table(
        "Noise design: directions of very different sizes",
        "Ten designs each with r = 4, M = 100; the spread is that of the coordinates, or of orthogonal mixtures of them. "
        "Right: no move sticks out by more than 1e-6 and the cost is within 1e-6 of the certified bound. Refused: "
        "double precision cannot certify the factor, and we say so. The gap is certified by the design alone; "
        "design_gaussian sizes the same factor to a budget and evaluates it back; at 1e15 a direction may be smaller than "
        "what rounding leaves of a direction that is not there, and is then taken for that.",
        *(
            "spread",
            "privcontrol",
            "largest certified gap",
            "design_gaussian",
            "largest certified gap",
            "CVXPY, precision",
        ),
    )
    for mixed, decades in [(False, d) for d in (0, 1, 2, 4, 8, 12)] + [
        (True, d) for d in (2, 4, 8, 10, 12, 15)
    ]:
        outcomes, gaps = (
            {ours: Counter(), designed: Counter(), by_precision: Counter()},
            ([0.0], [0.0]),
        )
        for seed in range(10):
            points = spread_points(decades, mixed, seed)
            BOUNDS[points.tobytes()] = np.inf
            for function, found in zip((enclosing_ellipsoid, design), gaps):
                with suppress(UncertifiableError):
                    result = function(points)
                    found.append(result.gap)
                    if function is enclosing_ellipsoid:
                        BOUNDS[points.tobytes()] = result.lower_bound
            for function, count in outcomes.items():
                count[_outcome(function, points)] += 1
        texts = [
            ", ".join(f"{n} {word}" for word, n in count.most_common())
            for count in outcomes.values()
        ]
        row = texts[0], max(gaps[0]), texts[1], max(gaps[1]), texts[2]
        out.add(f"1e{decades}{', mixed' if mixed else ''}", *row)
        assert outcomes[ours]["wrong"] == outcomes[designed]["wrong"] == 0


def square_root_factor(size):
    """Sigma of the square-root factorisation of the prefix sums, L = R R with R Toeplitz, scaled to its worst move."""
    first = binom(2 * np.arange(size), np.arange(size)) / 4.0 ** np.arange(size)
    root = np.tril(first[np.abs(np.subtract.outer(np.arange(size), np.arange(size)))])
    return root * np.linalg.norm(root[:, 0])


def test_prefix_sums(turns, table):
    size = 512
    query = LinearQuery(np.tril(np.ones((size, size))))
    request = query, DirectionAdjacency(np.eye(size)), BUDGET
    timed = turns({"privcontrol": lambda: design_gaussian(*request)}, rounds=5)
    design = timed.values["privcontrol"]
    y = design.guarantee.gdp
    toeplitz = np.linalg.norm(square_root_factor(size)) ** 2 / y**2
    out = table(
        "Prefix sums of 512 numbers",
        "The Gaussian mechanism of least mean-square error for all prefix sums, one entry of the data moving by 1. The "
        "square-root factorisation is the closed form of the literature.",
        *("", "wall", "processor", "cost over the certified bound"),
    )
    times = (
        duration(timed.wall["privcontrol"]),
        duration(timed.processor["privcontrol"]),
    )
    out.add("privcontrol design_gaussian", *times, f"1 + {design.gap:.1e}")
    out.add(
        "square-root factorisation", None, None, float(toeplitz / design.lower_bound)
    )
    assert design.gap < 1e-9
