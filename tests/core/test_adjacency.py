"""Manifold and ball adjacency: Definition 4 by brute force, block charts as state adjacency, balls by their vertices."""

import math
import re
from fractions import Fraction
from itertools import combinations

import cases
import numpy as np
import pytest
from repeats import few

import privcontrol as pc
from privcontrol.core import BallAdjacency, ManifoldAdjacency


def solved(matrix, right):
    """Exact solution of a square system of fractions, or None if it is singular."""
    rows = [[*row, value] for row, value in zip(matrix, right)]
    n = len(rows)
    for i in range(n):
        pivot = next((r for r in range(i, n) if rows[r][i]), None)
        if pivot is None:
            return None
        rows[i], rows[pivot] = rows[pivot], rows[i]
        rows[i] = [x / rows[i][i] for x in rows[i]]
        for r in range(n):
            if r != i:
                rows[r] = [x - rows[r][i] * y for x, y in zip(rows[r], rows[i])]
    return [row[-1] for row in rows]


def definition_4(D, radii):
    """All worst moves of Definition 4, over all index sets d and entries i, as exact vectors up to sign."""
    D = [[Fraction(float(x)) for x in row] for row in D]
    q, n = len(D), len(D[0])
    worst = {}
    for tied in combinations(range(n), q):
        for i in set(range(n)) - set(tied):
            answer = solved(
                [[row[c] for c in tied] for row in D],
                [-row[i] * Fraction(radii[i]) for row in D],
            )
            if answer is None or not radii[i]:
                continue
            move = [Fraction(0)] * n
            move[i] = Fraction(radii[i])
            for c, value in zip(tied, answer):
                move[c] = value
            lead = next(x for x in move if x)
            line = tuple(x / lead for x in move)
            worst[line] = max(worst.get(line, Fraction(0)), abs(lead))
    return {line: float(size) for line, size in worst.items()}


@pytest.mark.parametrize("seed", few(range(60), of=8))
def test_circuits_are_definition_4_by_brute_force(seed):
    rng = np.random.default_rng(seed)
    n = int(rng.integers(3, 7))
    q = int(rng.integers(1, n - 1))
    D = (
        rng.integers(-2, 3, size=(q, n)).astype(float)
        if seed % 2
        else rng.normal(size=(q, n))
    )
    if np.linalg.matrix_rank(D) < q:
        D = np.eye(q, n, 1) - np.eye(q, n)
    manifold = pc.AffineManifold(D, pinned="keep")
    radii = rng.choice([0.0, 1.0, 0.25, 3.0], size=n)
    radii[[i for i in range(n) if manifold.labels[i] in manifold.pinned]] = 0
    protected = np.flatnonzero(radii).tolist()
    if not protected:
        return
    truth = definition_4(D, radii)
    adjacency = ManifoldAdjacency(radii[protected], entries=protected)
    found = manifold.kernel @ adjacency.moves(manifold).columns
    lines = (
        np.array([[float(x) for x in line] for line in truth])
        * np.array(list(truth.values()))[:, None]
    )
    for move in found.T:  # every move found is one of Definition 4
        assert (
            min(min(np.abs(move - s * line).max() for s in (1, -1)) for line in lines)
            < 1e-9 * np.abs(move).max()
        )
    for line in lines:  # and every one of Definition 4 is found
        assert (
            min(min(np.abs(move - s * line).max() for s in (1, -1)) for move in found.T)
            < 1e-9 * np.abs(line).max()
        )


def test_example_2_of_the_paper_has_its_three_cases():
    manifold = pc.AffineManifold([[1.0, -2, 0]])
    moves = manifold.kernel @ ManifoldAdjacency(1.0).moves(manifold).columns
    shapes = {tuple(np.round(np.abs(move), 9)) for move in moves.T}
    # (i) x_1 by 1 and x_2 by 1/2 lies on the line of (ii) x_2 by 1 and x_1 by 2; (iii) x_3 alone
    assert shapes == {(2.0, 1.0, 0.0), (0.0, 0.0, 1.0)}


def test_time_blocks_as_charts_are_the_state_adjacency():
    plant = cases.random_plant(3, states=3)
    manifold = pc.trajectory_manifold(plant, 8)
    radii = np.array([1.0, 0.5, 2.0])
    blocks = [range(3 * j, 3 * j + 3) for j in range(8)]
    by_charts = (
        ManifoldAdjacency(np.tile(radii, 8), charts=blocks).moves(manifold).columns
    )
    np.testing.assert_allclose(
        by_charts, pc.StateAdjacency(radii).moves(manifold).columns, rtol=1e-12
    )


@pytest.mark.parametrize("horizon", [2, 3, 10, 100, 300])
def test_definition_4_is_ten_times_outside_the_vehicles_block_charts(horizon):
    noise = cases.vehicle_noise(pc.StateAdjacency(1.0), horizon=horizon)
    manifold = pc.trajectory_manifold(pc.plants.vehicle(), horizon)
    moves = ManifoldAdjacency(1.0).moves(manifold).columns
    shift = np.linalg.norm(np.linalg.solve(noise.factor, moves), axis=0).max()
    assert shift / noise.guarantee.gdp == pytest.approx(10.0, rel=1e-9)


def test_entries_restrict_the_protection():
    manifold = pc.AffineManifold([[1.0, 1, 1]], labels=["a", "b", "c"])
    query = pc.LinearQuery(np.eye(3), manifold)
    for adjacency in (
        ManifoldAdjacency({"a": 2.0}),
        ManifoldAdjacency(2.0, entries=["a"]),
        ManifoldAdjacency([2.0], entries=[0]),
    ):
        moves = manifold.kernel @ adjacency.moves(manifold).columns
        assert np.all(np.abs(moves[0]) > 1.9)
        assert query.sensitivity(adjacency) == pytest.approx(2 * np.sqrt(2))


LABELLED = pc.AffineManifold(
    [[1.0, 1, 0, 0, 0], [0, 0, 1, 1, 1]], [-1.0, -1.0], labels=list("abcde")
)


@pytest.mark.parametrize(
    "adjacency, sizes",
    [
        (ManifoldAdjacency(0.05), "one entry by at most 0.05"),
        (
            ManifoldAdjacency({"b": 0.1, "a": 0.05}),
            "a by at most 0.05 or b by at most 0.1",
        ),
        (ManifoldAdjacency(0.05, entries=["a", "c"]), "a or c by at most 0.05"),
        (
            ManifoldAdjacency([0.05, 0.1], entries=["a", 2]),
            "a by at most 0.05 or entry 2 by at most 0.1",
        ),
        (
            ManifoldAdjacency(1.0, entries=range(9)),
            "entry 0, entry 1, entry 2, entry 3, entry 4 or 4 others by at most 1",
        ),
        (
            ManifoldAdjacency(np.arange(1, 10) / 10),
            "entry 0 by at most 0.1 or entry 1 by at most 0.2 or entry 2 by at most 0.3 or entry 3 by at most 0.4 or "
            "entry 4 by at most 0.5 or one of 4 others by at most its radius (0.6 to 0.9)",
        ),
        (
            ManifoldAdjacency(1.0, charts=[(0, 2), (1, 3)]),
            "one entry by at most 1 in one of 2 given free sets of entries",
        ),
    ],
)
def test_the_statement_names_the_radii_and_needs_no_paper(adjacency, sizes):
    assert (
        adjacency.statement == f"{sizes}, with what the public constraints move along"
    )
    assert "Definition" not in adjacency.statement


def movable(manifold, protected):
    """Labels of the entries that a tangent move changes while it leaves the protected ones: ranks of small integers."""
    rank, held = np.linalg.matrix_rank, manifold.kernel[protected]
    others = [i for i in range(manifold.size) if i not in protected]
    return [
        manifold.labels[i]
        for i in others
        if rank(np.vstack([held, manifold.kernel[i]])) > rank(held)
    ]


def test_entries_that_are_not_protected_are_named_where_they_can_move_by_themselves():
    """b = 1 - a moves with a only; c, d and e move without it."""
    assert ManifoldAdjacency({"a": 1.0}).caveats(LABELLED) == (
        "two such moves at once",
        "moves of c, d or e that leave the protected entry in place",
    )
    assert ManifoldAdjacency(1.0).caveats(LABELLED) == ("two such moves at once",)
    assert ManifoldAdjacency(1.0).caveats(pc.AffineManifold([[1.0, 1.0]])) == ()
    rng = np.random.default_rng(0)
    for _ in range(40):
        N = np.vstack([np.eye(3), rng.integers(-2, 3, (4, 3))])
        manifold = pc.AffineManifold.from_kernel(
            N, labels=list("abcdefg"), pinned="keep"
        )
        protected = rng.choice(
            [i for i in range(7) if N[i].any()], 2, replace=False
        ).tolist()
        caveats = " ".join(ManifoldAdjacency(1.0, entries=protected).caveats(manifold))
        named = (
            caveats.partition("moves of ")[2]
            .partition(" that leave")[0]
            .replace(" or ", ", ")
            .split(", ")
        )
        assert [name for name in named if name] == movable(manifold, protected)


def test_enumeration_out_of_reach_states_the_count_and_offers_ways_out():
    plant = cases.random_plant(0, states=5)
    adjacency, query = ManifoldAdjacency(1.0), pc.output_query(plant, 60)
    with pytest.raises(ValueError, match="21,613,180 sets of entries.*StateAdjacency"):
        pc.design_gaussian(query, adjacency, cases.BUDGET)


@pytest.mark.parametrize("seed", few(range(8), of=3))
def test_balls_have_the_sensitivity_of_their_worst_point(seed):
    rng = np.random.default_rng(seed)
    D, F = rng.normal(size=(2, 5)), rng.normal(size=(3, 5))
    manifold = pc.AffineManifold(D)
    query = pc.LinearQuery(F, manifold)
    z = rng.normal(size=(3, 200_000))
    v = manifold.kernel @ z
    for norm in (1, 2, np.inf):
        inside = v / np.linalg.norm(v, ord=norm, axis=0)
        sampled = np.linalg.norm(F @ inside, axis=0).max()
        exact = query.sensitivity(BallAdjacency(1.0, norm=norm))
        assert 0.95 * exact < sampled <= exact * (1 + 1e-12)
        assert query.sensitivity(BallAdjacency(0.3, norm=norm)) == pytest.approx(
            0.3 * exact, rel=1e-12
        )


def test_balls_of_all_of_space_have_their_textbook_sensitivities():
    F = np.random.default_rng(0).normal(size=(3, 4))
    query = pc.LinearQuery(F)
    corners = np.array(np.meshgrid(*[[-1, 1]] * 4)).reshape(4, -1)
    assert query.sensitivity(BallAdjacency(1.0)) == pytest.approx(np.linalg.norm(F, 2))
    assert query.sensitivity(BallAdjacency(1.0, norm=1)) == pytest.approx(
        np.linalg.norm(F, axis=0).max()
    )
    assert query.sensitivity(BallAdjacency(1.0, norm=1), 1) == pytest.approx(
        np.abs(F).sum(axis=0).max()
    )
    assert query.sensitivity(BallAdjacency(1.0, norm=np.inf)) == pytest.approx(
        np.linalg.norm(F @ corners, axis=0).max()
    )


def test_the_corners_of_a_box_of_many_entries_are_bounded_by_a_ball():
    """A box of n entries has 2^(n-1) pairs of corners; the ball around it is sqrt(n) wide."""
    for size, widest in ((17, 1.0), (19, math.sqrt(19))):
        query = pc.LinearQuery(np.eye(1, size))
        found = query.sensitivity(BallAdjacency(1.0, norm=np.inf))
        assert found == pytest.approx(widest, rel=1e-9)


@pytest.mark.parametrize("norm", [1, 1.5, 2, 3, np.inf])
def test_a_ball_has_a_radius_for_each_entry(norm):
    rng = np.random.default_rng(3)
    radii = np.array([2.0, 0.5, 1.0, 3.0])
    query = pc.LinearQuery(
        rng.normal(size=(3, 4)), pc.AffineManifold(rng.normal(size=(1, 4)))
    )
    v = query.manifold.kernel @ rng.normal(size=(3, 100_000))
    inside = v / np.linalg.norm(v / radii[:, None], ord=norm, axis=0)
    sampled = np.linalg.norm(query.matrix @ inside, axis=0).max()
    bound = query.sensitivity(BallAdjacency(radii, norm=norm))
    assert sampled <= bound * (1 + 1e-12)
    loose = 4 ** max(0, 0.5 - 1 / norm) if norm == 3 else 1.3 if norm == 1.5 else 1.0
    assert bound <= 1.06 * loose * sampled
    equal = BallAdjacency([0.7] * 4, norm=norm)
    assert query.sensitivity(equal) == pytest.approx(
        query.sensitivity(BallAdjacency(0.7, norm=norm)), rel=1e-12
    )
    design = pc.design_gaussian(query, BallAdjacency(radii, norm=norm), cases.BUDGET)
    moved = np.linalg.pinv(design.noise.factor) @ (query.matrix @ inside)
    assert np.linalg.norm(moved, axis=0).max() <= design.guarantee.gdp * (1 + 1e-9)
    assert "0.5" in design.guarantee.scope.statement
    with pytest.raises(ValueError, match="no single radius"):
        pc.core.chain(design.guarantee, 0.3)


@pytest.mark.parametrize("apart", [0.0, 1e-10])
def test_a_box_of_entries_that_move_alike_has_its_corners_or_is_covered(apart):
    """Rows of the same number twice place no corner; rows nearly the same place none well."""
    kernel = np.vstack([np.eye(3), [1, apart, 0]])
    manifold = pc.AffineManifold.from_kernel(kernel)
    F = np.random.default_rng(5).normal(size=(3, 4))
    query = pc.LinearQuery(F, manifold)
    adjacency = BallAdjacency(1.0, norm=np.inf)
    corners = np.array(np.meshgrid(*[[-1, 1]] * 3)).reshape(3, -1)
    largest = np.linalg.norm(F @ kernel @ corners / (1 + apart), axis=0).max()
    assert adjacency.moves(manifold).is_ball == (apart > 0)
    if apart:
        assert largest <= query.sensitivity(adjacency)
    else:
        assert query.sensitivity(adjacency) == pytest.approx(largest, rel=1e-12)


def test_a_ball_too_large_to_enumerate_is_covered_and_said_to_be():
    query = pc.LinearQuery(np.random.default_rng(0).normal(size=(3, 40)))
    adjacency = BallAdjacency(1.0, norm=np.inf)
    assert adjacency.moves(query.manifold).is_ball
    design = pc.design_gaussian(query, adjacency, cases.BUDGET)
    assert not design.guarantee.exact
    assert "upper bound" in design.guarantee.sentence
    corner = np.sign(query.matrix[0])
    assert np.linalg.norm(query.matrix @ corner) <= query.sensitivity(adjacency)


def test_the_2_ball_has_the_closed_form_noise():
    rng = np.random.default_rng(1)
    query = pc.LinearQuery(
        rng.normal(size=(4, 6)), pc.AffineManifold(rng.normal(size=(3, 6)))
    )
    design = pc.design_gaussian(query, BallAdjacency(2.0), cases.BUDGET)
    std = pc.core.gaussian_std(1.0, 1e-2, 2.0)
    N = query.manifold.kernel
    np.testing.assert_allclose(
        design.noise.covariance,
        std**2 * query.matrix @ N @ N.T @ query.matrix.T,
        rtol=1e-9,
    )
    assert design.gap < 1e-9


@pytest.mark.parametrize(
    "make, message",
    [
        (lambda: ManifoldAdjacency(-1.0), "radius: expected a finite number > 0"),
        (
            lambda: ManifoldAdjacency(1.0, charts="blocks"),
            "charts: expected one of 'all'",
        ),
        (lambda: BallAdjacency(1.0, norm=0.5), "norm: expected a number from 1 to inf"),
        (lambda: BallAdjacency([1.0, -1.0]), "radius: expected a finite number > 0"),
        (lambda: BallAdjacency([[1.0]]), "radius: expected a number, or one for each"),
        (
            lambda: BallAdjacency([1.0, 2, 3]).moves(pc.AffineManifold([[1.0, 1]])),
            "radius: expected one number, or one for each of 2 entries, got 3",
        ),
        (
            lambda: pc.DirectionAdjacency([1.0, -1.0]),
            r"directions: expected shape \(n, M\).*write a single move as",
        ),
        (lambda: BallAdjacency(np.inf), "radius: expected a finite number > 0"),
        (
            lambda: ManifoldAdjacency({"z": 1.0}).moves(pc.AffineManifold([[1.0, 1]])),
            "'z' is no entry of the data",
        ),
        (
            lambda: ManifoldAdjacency([1.0, 2, 3]).moves(pc.AffineManifold([[1.0, 1]])),
            "radius: expected 2 radii",
        ),
        (
            lambda: ManifoldAdjacency(1.0, charts=[[0, 1]]).moves(
                pc.AffineManifold([[1.0, 1]])
            ),
            "charts: expected sets of 1",
        ),
        (
            lambda: ManifoldAdjacency({"x[0]": 1.0}).moves(
                pc.AffineManifold([[1.0, 0, 0]], pinned="keep")
            ),
            "a public entry cannot be protected",
        ),
    ],
)
def test_bad_input_says_what_was_expected(make, message):
    with pytest.raises(ValueError, match=message):
        make()


@pytest.mark.parametrize("radius", [0.1, 1, 1 / 3, 2 / 3, 1.9999999, 1e-7, 1e22])
def test_no_statement_names_a_larger_move_than_is_hidden(radius):
    """What is printed are six digits of the radius, never above it."""
    adjacencies = (
        BallAdjacency(radius),
        ManifoldAdjacency(radius),
        pc.StateAdjacency(radius),
        pc.StateAdjacency({"position": radius}),
        pc.consensus.NodeAdjacency(radius),
    )
    for adjacency in adjacencies:
        named = float(re.search(r"at most ([^ ,]+)", adjacency.statement)[1])
        assert named <= radius
        assert named == pytest.approx(radius, rel=1e-5)
    assert "at most 0.1 " in pc.StateAdjacency(0.1).statement
