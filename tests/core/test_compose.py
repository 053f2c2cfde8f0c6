"""Sequential and parallel composition and chaining: never below the truth, never above the paper's bounds.

Run as a script it prints how much the rules for known mechanisms save over those for black boxes.
"""

import itertools
import math
from dataclasses import dataclass, replace

import numpy as np
import pytest
from oracles import delta_bounds
from repeats import few

import privcontrol.core as core
from privcontrol.core import (
    Adjacency,
    PrivacyBudget,
    PrivacyGuarantee,
    chain,
    compose_parallel,
    compose_sequential,
)
from privcontrol.core.adjacency import EllipsoidMoves
from privcontrol.privacy.guarantee import Scope
from privcontrol.privacy.loss import PrivacyLoss, by_kind

NORMS = (1, 2, math.inf)


@dataclass(frozen=True, eq=False)
class Ball(Adjacency):
    """All moves of 2-norm at most `radius`."""

    radius: float
    norm = 2

    def moves(self, manifold):
        triangle = np.linalg.qr(manifold.kernel, mode="r")
        return EllipsoidMoves(self.radius * np.linalg.inv(triangle))

    @property
    def statement(self):
        return f"the 2-norm moves by at most {self.radius:g}"

    def to_dict(self):
        return {"type": "Ball", "norm": 2, "radius": float(self.radius)}


def chunk(loss, radius=1.0, norm=None):
    named = "" if norm is None else f'"norm": "{norm}", '
    radius, text = float(radius), f"the chunk moves by at most {radius:g}"
    scope = Scope(
        f'{{{named}"radius": {radius!r}}}',
        text,
        "R^2",
        radius=radius,
        constrained=False,
    )
    return PrivacyGuarantee(loss, scope)


def foreign(epsilon, delta, radius=1.0):
    return PrivacyGuarantee.black_box(
        PrivacyBudget(epsilon=epsilon, delta=delta),
        chunk(PrivacyLoss.gaussian(1.0), radius).scope,
    )


def splits(m, p, draws=4000):
    """Moves t >= 0 of the chunks with ||t||_p = 1, the single ones and the equal one among them."""
    t = np.vstack(
        [
            np.random.default_rng(0).exponential(size=(draws, m)) ** 2,
            np.eye(m),
            np.ones((1, m)),
        ]
    )
    return t / np.linalg.norm(t, ord=p, axis=1)[:, None]


# --- chaining -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("radius", [0.3, 1.0, 2.5, 7.0])
def test_chaining_an_affine_mechanism_is_evaluating_it_at_the_other_radius(radius):
    manifold = core.AffineManifold([[1.0, 2.0, -1.0]])
    mechanism = core.Mechanism(
        core.LinearQuery(np.eye(3), manifold), core.GaussianNoise([1.0, 2.0, 0.7])
    )
    chained, direct = (
        chain(mechanism.guarantee(Ball(1.0)), radius),
        mechanism.guarantee(Ball(radius)),
    )
    assert chained.gdp == pytest.approx(direct.gdp, rel=1e-13)
    assert chained.scope.adjacency == direct.scope.adjacency
    assert chained.scope.radius == radius
    assert (chained + direct).releases == 2
    assert chain(chained, 1.0).scope == mechanism.guarantee(Ball(1.0)).scope


def test_chaining_a_laplace_mechanism_scales_its_shifts():
    shifts = np.array([[0.3, 0.1], [0.2, 0.35]])
    chained = chain(chunk(PrivacyLoss.laplace(shifts)), 2.5)
    assert chained.epsilon(0.0) == pytest.approx(2.5 * 0.5, rel=1e-14)
    for epsilon in (0.0, 0.4):
        low, high = delta_bounds(epsilon, 2.5 * shifts.T)
        assert low <= chained.delta(epsilon) <= high * (1 + 1e-3)


@pytest.mark.parametrize(
    "radius, steps", [(0.5, 1), (1.0, 1), (1.1, 2), (2.0, 2), (2.0001, 3), (9.0, 9)]
)
def test_chaining_a_black_box_is_the_papers_bound(radius, steps):
    epsilon, delta = 0.4, 1e-5
    chained = chain(foreign(epsilon, delta), radius)
    expected = delta * math.expm1(steps * epsilon) / math.expm1(epsilon)
    assert chained.delta(steps * epsilon) == pytest.approx(expected, rel=1e-12)
    assert chained.loss.pure == pytest.approx(steps * epsilon, rel=1e-15)
    assert chain(foreign(0.0, delta), radius).delta(0.0) == pytest.approx(
        steps * delta, rel=1e-15
    )
    assert chain(foreign(epsilon, 0.0), radius).epsilon(0.0) == pytest.approx(
        steps * epsilon, rel=1e-15
    )


def test_three_times_a_radius_takes_three_steps_whatever_the_last_bit():
    assert (
        chain(foreign(1.0, 0.0, radius=0.3), 0.9).epsilon(0.0) == 3.0
    )  # 0.9 / 0.3 > 3 in floating point


@pytest.mark.filterwarnings("ignore:delta =")  # large ones are wanted here
@pytest.mark.parametrize("y", [0.1, 0.5, 1.5])
def test_the_papers_chaining_bounds_the_truth(y):
    for epsilon in (0.1, 1.0):
        for steps in (2, 3, 5):
            box = chain(foreign(epsilon, float(core.kappa(epsilon, y))), float(steps))
            for level in (0.0, epsilon, steps * epsilon):
                assert core.kappa(level, steps * y) <= box.delta(level)


def test_a_sensitivity_known_at_one_radius_is_not_interpolated():
    """floor(x) moves by at most 1 when x moves by 1, by 2 when x moves by 1.5 and still by 1 when it moves by 0.1."""
    step = chunk(PrivacyLoss.gaussian(1.0, proportional=False))
    sensitivity = {
        r: max(math.floor(x + r) - math.floor(x) for x in np.linspace(0, 1, 1001))
        for r in (0.1, 1.0, 1.5)
    }
    assert sensitivity == {0.1: 1, 1.0: 1, 1.5: 2}
    assert [chain(step, r).gdp for r in sensitivity] == [1.0, 1.0, 2.0]
    assert [bool(chain(step, r).exact) for r in sensitivity] == [False, True, False]


def test_a_chained_text_names_the_radius_in_force():
    g = chunk(PrivacyLoss.gaussian(0.5))
    assert "by at most 1, with radius 2.5 in place of 1" in chain(g, 2.5).sentence
    assert "with radius 4 in place of 1;" in chain(chain(g, 2.5), 4.0).sentence
    assert chain(chain(g, 2.5), 1.0) == g
    assert (
        "domain is convex" in chain(foreign(0.1, 0.0), 2.0).sentence
    )  # for a path of steps; not on the way down
    assert (
        "convex" not in chain(foreign(0.1, 0.0), 0.5).sentence + chain(g, 2.5).sentence
    )


def test_no_single_radius_cannot_be_chained():
    mechanism = core.Mechanism(core.LinearQuery([[1.0]]), core.GaussianNoise([1.0]))
    with pytest.raises(ValueError, match="no single radius"):
        chain(mechanism.guarantee(core.DirectionAdjacency([[1.0]])), 2.0)
    for bad in (0.0, -1.0, math.inf):
        with pytest.raises(ValueError, match="radius"):
            chain(foreign(1.0, 0.0), bad)


# --- sequential -----------------------------------------------------------------------------------------------------


def test_sequential_composition_is_at_the_smallest_radius_and_within_the_papers_sum():
    boxes = [foreign(0.3, 1e-6, 1.0), foreign(0.2, 1e-5, 2.0), foreign(0.5, 0.0, 0.5)]
    total = compose_sequential(*boxes)
    assert total.scope.radius == 0.5
    assert total.releases == 3
    assert total.delta(1.0) <= 1.1e-5
    known = compose_sequential(
        chunk(PrivacyLoss.gaussian(0.6, (0,)), 1.0),
        chunk(PrivacyLoss.gaussian(0.8, (0,)), 2.0),
    )
    assert known.gdp == pytest.approx(math.hypot(0.6, 0.4), rel=1e-14)
    with pytest.raises(ValueError, match="adjacencies"):
        compose_sequential(boxes[0], chunk(PrivacyLoss.gaussian(1.0), norm=2))
    with pytest.raises(ValueError, match="at least one"):
        compose_sequential()
    with pytest.raises(TypeError, match="PrivacyGuarantee"):
        compose_sequential(0.5)


# --- parallel -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("p", NORMS)
def test_parallel_gaussian_chunks_are_the_worst_split_of_the_move(p):
    y, radii = np.array([0.3, 0.9, 0.5]), np.array([1.0, 2.0, 0.8])
    joint = compose_parallel(
        *(chunk(PrivacyLoss.gaussian(a), r) for a, r in zip(y, radii)), norm=p
    )
    assert joint.scope.radius == 0.8
    slopes = 0.8 * y / radii
    truth = np.linalg.norm(splits(3, p) * slopes, axis=1).max()
    assert truth <= joint.gdp <= truth * (1 + 1e-12)


@pytest.mark.parametrize("p", few([1, math.inf, 2], of=2))
def test_parallel_laplace_chunks_are_the_worst_split_and_bound_every_split(p):
    rows = [np.array([0.3, 0.2]), np.array([0.6]), np.array([0.1, 0.05])]
    joint = compose_parallel(
        *(chunk(PrivacyLoss.laplace(row[:, None])) for row in rows), norm=p
    )
    pure = np.array([row.sum() for row in rows])
    q = {1: math.inf, math.inf: 1}.get(p) or p / (p - 1)
    assert joint.epsilon(0.0) == pytest.approx(np.linalg.norm(pure, ord=q), rel=1e-12)
    for t in splits(3, p, draws=40):
        assert t @ pure <= joint.epsilon(0.0) * (1 + 1e-14)
        shifts = np.concatenate([a * row for a, row in zip(t, rows)])
        for epsilon in (0.0, 0.2, 0.5):
            assert delta_bounds(epsilon, shifts, points=1 << 12)[0] <= joint.delta(
                epsilon
            )


def test_parallel_black_boxes_keep_the_papers_sum_and_mixed_chunks_are_bounded():
    joint = compose_parallel(foreign(0.3, 1e-6, 1.0), foreign(0.2, 1e-5, 2.0))
    assert joint.delta(0.5) <= 1.1e-5
    assert joint.scope.radius == 1.0
    assert joint.releases == 2
    parts = (
        chunk(PrivacyLoss.gaussian(0.4, (0,))),
        chunk(PrivacyLoss.laplace([[0.3]])),
        foreign(0.2, 1e-6),
    )
    mixed = compose_parallel(*parts, norm=1)
    assert mixed.delta(0.3) > max(part.delta(0.3) for part in parts)
    assert not mixed.exact
    rigid = [
        chunk(PrivacyLoss.gaussian(0.4, (0,), proportional=False))
    ] * 2  # at any radius up to one
    joint = compose_parallel(*rigid, norm=1)
    assert joint.gdp == pytest.approx(0.4 * math.sqrt(2))
    assert not joint.exact


def test_moves_of_different_chunks_are_never_taken_for_the_same():
    laplace, gaussian = (
        chunk(PrivacyLoss.laplace([[0.5, 0.1]])),
        chunk(PrivacyLoss.gaussian(0.1)),
    )
    first, second = (
        compose_parallel(laplace, gaussian),
        compose_parallel(gaussian, laplace),
    )
    swapped = replace(laplace, loss=PrivacyLoss.laplace([[0.1, 0.5]]))
    both = first + compose_parallel(swapped, gaussian)
    assert (
        by_kind(both.loss)[1].pure == 1.0
    )  # the same number of a move is no reason to pair 0.5 with 0.1
    assert by_kind((first + second).loss)[1].pure == 1.0


def test_chunks_coupled_by_a_manifold_are_refused_for_they_cost_twice():
    """DPAM Example 1 with k = 1: x_1 - x_2 = b, independent Laplace noise of scale 1/epsilon on both entries."""
    epsilon, manifold = 0.5, core.AffineManifold([[1.0, -1.0]])
    move = np.array([[1.0], [1.0]])  # the only way in which one entry moves by 1
    adjacency = core.DirectionAdjacency(move)
    scope = Scope.of(adjacency, manifold)
    one, two = (
        PrivacyGuarantee(PrivacyLoss.laplace(epsilon * move[i : i + 1]), scope)
        for i in (0, 1)
    )
    jointly = PrivacyGuarantee(PrivacyLoss.laplace(epsilon * move), scope)
    assert one.epsilon(0.0) == two.epsilon(0.0) == epsilon
    assert jointly.epsilon(0.0) == 2 * epsilon
    assert (one + two).epsilon(0.0) == 2 * epsilon
    assert (one + two).delta(0.3) == jointly.delta(0.3) > one.delta(0.3)
    mechanism = [
        core.Mechanism(core.LinearQuery(row[None], manifold), core.GaussianNoise([2.0]))
        for row in np.eye(2)
    ]
    for p in (
        1,
        2,
    ):  # "parallel" composition would claim the cost of one entry, or of two with a smaller joint move
        with pytest.raises(ValueError, match="couple"):
            compose_parallel(*(m.guarantee(Ball(1.0)) for m in mechanism), norm=p)
    free = core.Mechanism(
        core.LinearQuery([[1.0]]), core.GaussianNoise([2.0])
    ).guarantee(Ball(1.0))
    assert compose_parallel(free, free).gdp == pytest.approx(0.5, rel=1e-12)


@pytest.mark.parametrize("norm", [1.5, 3, 7])
def test_parallel_moves_of_any_norm_are_no_dearer_than_the_worst_split(norm):
    """Over ||t||_p <= 1 by brute force: |(t_i y_i)|_2, and sum t_i eps_i."""
    t = np.abs(np.random.default_rng(0).normal(size=(3, 200_000))) ** (2 / norm)
    t /= np.linalg.norm(t, norm, axis=0)
    sizes = np.array([0.3, 0.4, 0.35])
    gaussian = compose_parallel(
        *(chunk(PrivacyLoss.gaussian(size), norm=norm) for size in sizes), norm=norm
    )
    worst = np.sqrt(((t.T * sizes) ** 2).sum(axis=1).max())
    assert worst <= gaussian.gdp <= worst * 1.001
    laplace = compose_parallel(
        *(chunk(PrivacyLoss.laplace([[size]]), norm=norm) for size in sizes), norm=norm
    )
    worst = (t.T @ sizes).max()
    assert worst <= laplace.epsilon(0.0) <= worst * 1.001


def test_parallel_composition_says_what_it_takes_for_granted_and_refuses_other_norms():
    a, b = (
        chunk(PrivacyLoss.gaussian(0.3), norm=2),
        chunk(PrivacyLoss.gaussian(0.4), norm=2),
    )
    joint = compose_parallel(a, b)
    assert "no public constraint couples the chunks" in joint.sentence
    assert "2-norm" in joint.explain()
    assert joint.gdp == 0.4
    assert chain(joint, 2.0).gdp == pytest.approx(0.8, rel=1e-14)
    assert PrivacyGuarantee.from_dict(joint.to_dict()) == joint
    with pytest.raises(ValueError, match="norm"):
        compose_parallel(a, b, norm=1)
    with pytest.raises(ValueError, match="norm"):
        compose_parallel(a, b, norm=0.5)
    with pytest.raises(ValueError, match="adjacencies"):
        joint + a
    manifold = core.AffineManifold([[1.0, 1.0]])
    query, budget = (
        core.LinearQuery([[1.0, 0.0]], manifold),
        PrivacyBudget(epsilon=1.0, delta=1e-2),
    )
    for adjacency in (
        core.ManifoldAdjacency({"x[0]": 1.0}),
        core.BallAdjacency(1.0),
    ):  # no radius, or one
        coupled = core.design_gaussian(query, adjacency, budget).guarantee
        with pytest.raises(ValueError, match="needs chunks that move freely"):
            compose_parallel(coupled, coupled)
    infinite = chunk(PrivacyLoss.gaussian(0.3), norm="inf")
    assert compose_parallel(infinite, infinite, norm=math.inf).gdp == pytest.approx(
        0.3 * math.sqrt(2), rel=1e-14
    )


# --- how much knowing the mechanism saves ----------------------------------------------------------------------------


EPSILON, DELTA = 0.5, 1e-5


def saving(combine):
    """epsilon and delta of the rule for black boxes, and what the known Gaussian has instead at the same other one."""
    box = combine(foreign(EPSILON, DELTA))
    known = combine(
        chunk(PrivacyLoss.gaussian(float(core.kappa_inverse(EPSILON, DELTA)), (0,)))
    )
    level = box.loss.pure
    return (
        level,
        box.delta(level),
        known.delta(level),
        known.epsilon(box.delta(level)) / level,
    )


def rows():
    for radius in (1.5, 2, 3, 5):
        yield (
            f"chain to {radius:g} radii",
            saving(lambda g, r=radius: chain(g, float(r))),
        )
    for m in (2, 4, 8):
        for p in (1, 2, math.inf):
            yield (
                f"{m} chunks, {p:g}-norm",
                saving(lambda g, m=m, p=p: compose_parallel(*[g] * m, norm=p)),
            )


@pytest.mark.parametrize("name, row", [pytest.param(*row, id=row[0]) for row in rows()])
def test_knowing_the_mechanism_never_costs(name, row):
    _, box, known, ratio = row
    assert known <= box * (1 + 1e-12)
    assert ratio <= 1 + 1e-12


if __name__ == "__main__":
    print(f"Gaussian of ({EPSILON}, {DELTA}); by the rule for black boxes, and known\n")
    print(
        f"{'':20} {'epsilon':>8} {'delta, box':>11} {'delta, known':>13} {'epsilon ratio':>14}"
    )
    for name, (level, box, known, ratio) in rows():
        print(f"{name:20} {level:8.2f} {box:11.2e} {known:13.2e} {ratio:14.3f}")


def test_black_boxes_are_quoted_at_the_sum_of_their_deltas():
    """IP Proposition 2 says (0.8, 3e-05), which is what is printed, and it holds."""
    pairs = ((0.5, 1e-5), (0.3, 2e-5))
    boxes = [
        PrivacyGuarantee.black_box(
            PrivacyBudget(epsilon=epsilon, delta=delta), core.BallAdjacency(0.1)
        )
        for epsilon, delta in pairs
    ]
    both = compose_sequential(*boxes)
    assert "epsilon = 0.8 at delta = 3e-05" in str(both)
    assert both.epsilon(3e-5) <= 0.8
    # two randomised responses that fail openly, by enumeration of their answers
    losses = {}
    for signs in itertools.product((-1, 1), repeat=2):
        loss = sum(s * e for s, (e, _) in zip(signs, pairs))
        chance = math.prod(
            1 / (1 + math.exp(-s * e)) for s, (e, _) in zip(signs, pairs)
        )
        losses[loss] = losses.get(loss, 0) + chance
    keeps = math.prod(1 - delta for _, delta in pairs)
    beyond = sum(p * max(0, 1 - math.exp(0.8 - x)) for x, p in losses.items())
    assert both.delta(0.8) == pytest.approx(1 - keeps + keeps * beyond, rel=1e-9)
    assert "epsilon = 1.5 at delta = 3e-05" in str(boxes[0].released(3))
    pure = PrivacyGuarantee.black_box(
        PrivacyBudget(epsilon=0.5), core.BallAdjacency(0.1)
    )
    assert compose_sequential(pure, pure).quoted_delta == pure.quoted_delta


def test_parallel_and_chained_black_boxes_are_quoted_at_the_sum_of_their_deltas():
    """IP Propositions 3 and 4: (0.8, 3e-05) of two chunks, and (1.5, 5.367003e-05) of three steps."""
    joint = compose_parallel(foreign(0.5, 1e-5), foreign(0.3, 2e-5))
    assert joint.quoted_delta == 3e-5
    assert "epsilon = 0.8 at delta = 3e-05" in str(joint)
    nearer = compose_parallel(foreign(0.5, 1e-5), foreign(0.3, 2e-5, radius=0.4))
    assert "epsilon = 0.8 at delta = 3e-05" in str(nearer)
    chained = chain(foreign(0.5, 1e-5), 3.0)
    steps = 1 + math.exp(0.5) + math.exp(1.0)
    assert chained.quoted_delta == pytest.approx(steps * 1e-5, rel=1e-14)
    assert "epsilon = 1.5 at delta = 5.368e-05" in str(chained)
    assert "delta = 0.0001" in str(chain(foreign(0.0, 1e-5), 10.0))
    three = [foreign(0.1, 1e-5), chunk(PrivacyLoss.gaussian(0.1)), foreign(0.1, 1e-5)]
    assert compose_parallel(*three).quoted_delta == 2e-5
    assert "delta = 0.999" in str(chain(foreign(5.0, 0.1), 3.0))
