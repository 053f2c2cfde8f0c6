"""A guarantee's numbers are true or on the safe side, for every family, alone and composed."""

import itertools
import json
import math
import pickle
import re
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from oracles import delta_bounds
from repeats import drawn, few
from scipy.integrate import quad
from scipy.stats import norm

import privcontrol.core as core
from privcontrol.consensus import private_consensus
from privcontrol.core import PrivacyBudget, PrivacyGuarantee
from privcontrol.numerics.saved import decode, encode
from privcontrol.privacy import loss as loss_module
from privcontrol.privacy.guarantee import EXACTLY, Scope, released
from privcontrol.privacy.loss import (
    PrivacyLoss,
    attains,
    composed,
    one_coordinate,
    worst_moves,
)
from privcontrol.privacy.sentences import percent

SCOPE = Scope(
    '{"radius": 1.0}',
    "an entry moves by at most 1",
    "R^2",
    radius=1.0,
    constrained=False,
)
FAMILIES = (
    "Gaussian",
    "Laplace",
    "black-box",
    "Gaussian and Laplace",
    "Laplace and black-box",
)

sizes = st.floats(0.05, 1.5)
gaussians = st.builds(
    lambda y, m: PrivacyLoss.gaussian(y, (m,)), sizes, st.integers(0, 2)
)
laplaces = st.lists(
    st.lists(sizes | st.just(0.0), min_size=3, max_size=3), min_size=1, max_size=2
).map(lambda rows: PrivacyLoss.laplace(np.array(rows) + 0.05))
boxes = st.builds(
    lambda e, d: PrivacyLoss.black_box(((e, d, 1),)),
    sizes,
    st.sampled_from([0.0, 1e-6, 1e-3]),
)
losses = (
    gaussians
    | laplaces
    | boxes
    | st.builds(composed, gaussians, laplaces)
    | st.builds(composed, gaussians, boxes)
)


def guarantee(loss):
    return PrivacyGuarantee(loss, SCOPE)


def kappa(epsilon, y):
    """DPAM eq. (7) for any sign of epsilon, straight from its two terms."""
    return norm.cdf(y / 2 - epsilon / y) - math.exp(epsilon) * norm.cdf(
        -y / 2 - epsilon / y
    )


def box_outcomes(pairs):
    """(probability, loss) of every joint answer of the worst mechanisms of (epsilon, delta); loss inf is failure."""
    one = [
        [(d, math.inf)] + [((1 - d) / (1 + math.exp(-s * e)), s * e) for s in (-1, 1)]
        for e, d in pairs
    ]
    for answers in itertools.product(*one):
        yield math.prod(p for p, _ in answers), sum(loss for _, loss in answers)


def hockey(epsilon, outcomes):
    return math.fsum(p * max(0.0, 1 - math.exp(epsilon - loss)) for p, loss in outcomes)


@pytest.mark.slow
@settings(max_examples=30, deadline=None)
@given(losses, losses)
def test_two_releases_cost_more_than_one(first, second):
    one, two = guarantee(first), guarantee(first) + guarantee(second)
    assert two.releases == 2
    # two upper bounds may differ by their grids where the second release adds nothing
    assert two.delta(0.0) >= one.delta(0.0) * (1 - 1e-4)
    for delta in (1e-4, 1e-2):
        assert two.epsilon(delta) >= one.epsilon(delta) * (1 - 1e-4)
    assert two.gdp > one.gdp or one.gdp == math.inf
    assert two.zcdp > one.zcdp or one.zcdp == math.inf
    assert two.rdp(3.0) > one.rdp(3.0) or one.rdp(3.0) == math.inf


@drawn(losses, losses, losses, examples=(10, 40))
def test_composition_is_commutative_and_associative(a, b, c):
    a, b, c = map(guarantee, (a, b, c))
    orders = [(a + b) + c, a + (b + c), c + b + a, a.compose(c, b), sum([b, a, c])]
    for epsilon in (0.0, 0.7):
        values = [order.delta(epsilon) for order in orders]
        assert values == pytest.approx([values[0]] * 5, rel=2e-3)
    assert [order.gdp for order in orders] == pytest.approx(
        [orders[0].gdp] * 5, rel=1e-12
    )
    assert {order.exact for order in orders} == {orders[0].exact}


@drawn(losses, st.sampled_from([1e-9, 1e-5, 1e-2, 0.2]), examples=(15, 60))
def test_epsilon_and_delta_are_inverse_on_the_safe_side(loss, delta):
    g = guarantee(loss)
    epsilon = g.epsilon(delta)
    if epsilon == math.inf:
        assert g.delta(1e3) > delta
        return
    assert g.delta(epsilon) <= delta * (1 + 1e-13)
    if epsilon > 0:
        assert g.delta(epsilon * (1 - 1e-3)) > delta


@drawn(losses, examples=(8, 20))
def test_everything_is_monotone(loss):
    g = guarantee(loss)
    deltas = [g.delta(epsilon) for epsilon in (0.0, 0.1, 0.3, 1.0, 3.0)]
    assert all(np.diff(deltas) <= 1e-4 * np.array(deltas[:-1]))
    epsilons = [g.epsilon(delta) for delta in (1e-8, 1e-6, 1e-3, 1e-2, 0.3)]
    assert all(b <= a * (1 + 1e-4) for a, b in itertools.pairwise(epsilons))
    assert g.rdp(1.5) <= g.rdp(2.0) <= g.rdp(10.0)


def delta_of_zcdp(epsilon, rho):
    """What rho-zCDP promises in closed form (Bun and Steinke 2016, Proposition 1.3)."""
    excess = max(epsilon - rho, 0.0)
    return math.exp(-(excess**2) / (4 * rho)) if rho else 0.0


@drawn(losses, examples=(10, 40))
def test_every_summary_bounds_the_curve(loss):
    g = guarantee(loss)
    for epsilon in (0.0, 0.2, 1.0):
        if g.gdp < math.inf:
            assert g.delta(epsilon) <= kappa(epsilon, g.gdp) * (1 + 1e-4) + 1e-15
            assert g.delta(epsilon) <= delta_of_zcdp(epsilon, g.zcdp) * (1 + 1e-4)
            order = 1 + 2 * epsilon + 1
            renyi = (
                math.exp((order - 1) * (g.rdp(order) - epsilon))
                / order
                * (1 - 1 / order) ** (order - 1)
            )
            assert g.delta(epsilon) <= renyi * (1 + 1e-4)


@pytest.mark.slow
@settings(max_examples=20, deadline=None)
@given(losses)
def test_json_round_trip(loss):
    g = replace(guarantee(loss), releases=3, quoted_delta=1e-3)
    text = json.dumps(g.to_dict(), allow_nan=False)
    again = PrivacyGuarantee.from_dict(json.loads(text))
    assert again == g
    assert str(again) == str(g)
    assert json.dumps(again.to_dict(), allow_nan=False) == text
    assert decode(json.loads(json.dumps(encode(loss)))) == loss
    assert pickle.loads(pickle.dumps(g)) == g
    assert g.scope.statement in g.sentence
    assert "\n" not in g.sentence
    assert g.sentence.endswith(".")


# --- Gaussian -------------------------------------------------------------------------------------------------------


def test_gaussian_numbers_are_those_of_the_closed_form():
    g = guarantee(PrivacyLoss.gaussian(1.3))
    assert g.delta(0.8) == pytest.approx(kappa(0.8, 1.3), rel=1e-13)
    assert g.delta(0.8) >= kappa(0.8, 1.3) * (1 - 1e-15)
    assert (g.gdp, g.zcdp, g.rdp(4.0)) == pytest.approx((1.3, 0.845, 3.38), rel=1e-12)
    assert g.exact == ("delta", "epsilon", "rdp", "zcdp", "gdp")
    assert g.epsilon(0.0) == math.inf
    assert guarantee(PrivacyLoss.gaussian(0.0)).epsilon(0.0) == 0.0
    far = guarantee(
        PrivacyLoss.gaussian(300.0)
    )  # beyond the range of the curve: still a bound, still finite
    concentrated = 300**2 / 2 + 300 * math.sqrt(2 * math.log(1e5))
    assert 45000 < far.epsilon(1e-5) <= concentrated


def test_gaussians_are_exact_where_one_move_is_worst_in_both():
    a, b, c = (
        guarantee(PrivacyLoss.gaussian(0.6, active))
        for active in ((0, 1), (1, 2), (0,))
    )
    assert (a + b).exact
    assert (a + b).gdp == pytest.approx(0.6 * math.sqrt(2), rel=1e-15)
    assert not (b + c).exact
    assert not (a + b + c).exact


@pytest.mark.parametrize("releases", [2, 3, 7, 10, 100, 1000])
@pytest.mark.parametrize("budget", [(1.0, 1e-2), (0.1, 1e-5), (3.0, 1e-9)])
def test_releases_that_fill_the_budget_are_accepted_and_one_more_is_not(
    releases, budget
):
    budget = PrivacyBudget(epsilon=budget[0], delta=budget[1])
    query, adjacency = core.LinearQuery([[1.0]]), core.DirectionAdjacency([[0.7]])
    one = core.design_gaussian(query, adjacency, budget, releases=releases).guarantee
    assert sum([one] * releases).satisfies(budget)
    assert one.released(releases).satisfies(budget)
    assert sum([one] * releases).gdp == one.released(releases).gdp
    assert not one.released(releases + 1).satisfies(budget)


@drawn(losses, st.integers(2, 5), examples=(10, 30))
def test_repeating_a_release_is_adding_it(loss, count):
    g = guarantee(loss)
    added, repeated = sum([g] * count), g.released(count)
    assert repeated.releases == added.releases == count
    assert repeated.exact == added.exact
    assert repeated.gdp == pytest.approx(added.gdp, rel=1e-12)
    for epsilon in (0.1, 1.0):
        assert repeated.delta(epsilon) == pytest.approx(
            added.delta(epsilon), rel=1e-3, abs=1e-300
        )
    with pytest.raises(ValueError, match="count"):
        g.released(0)
    with pytest.raises(TypeError, match="count: expected an integer"):
        g.released("3")


# --- Laplace --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", few(range(8), of=3))
def test_laplace_releases_compose_move_by_move(seed):
    rng = np.random.default_rng(seed)
    first, second = rng.exponential(0.4, (2, 3, 6)) * rng.integers(0, 2, (2, 3, 6))
    both = guarantee(PrivacyLoss.laplace(first)) + guarantee(
        PrivacyLoss.laplace(second)
    )
    joint = np.vstack([first, second])
    for epsilon in (0.0, 0.3, 1.0):
        each = np.array([delta_bounds(epsilon, move) for move in joint.T])
        low, high = each.max(axis=0)
        assert low <= both.delta(epsilon) <= high * (1 + 1e-3)
    assert both.epsilon(0.0) == pytest.approx(joint.sum(axis=0).max(), rel=1e-14)


def test_a_move_dominated_in_each_release_may_be_worst_in_both(monkeypatch):
    first, second = [[1.0, 0.0, 0.95]], [[0.1, 1.0, 0.9]]
    both = guarantee(PrivacyLoss.laplace(first)) + guarantee(
        PrivacyLoss.laplace(second)
    )
    assert both.epsilon(0.0) == pytest.approx(1.85, rel=1e-15)
    assert both.exact
    # as if three moves were too many to keep
    monkeypatch.setattr(loss_module, "KEPT", 2)
    bound = guarantee(PrivacyLoss.laplace(first)) + guarantee(
        PrivacyLoss.laplace(second)
    )
    assert bound.epsilon(0.0) == pytest.approx(2.0, rel=1e-15)
    assert not bound.exact
    same = guarantee(PrivacyLoss.laplace(first)) + guarantee(
        PrivacyLoss.laplace(np.multiply(first, 0.5))
    )
    assert same.epsilon(0.0) == pytest.approx(1.5, rel=1e-15)


@pytest.mark.parametrize("count", few([6, 18], of=1))
def test_what_is_not_kept_is_bounded(monkeypatch, count):
    monkeypatch.setattr(loss_module, "KEPT", 0)
    rng = np.random.default_rng(4)
    for _ in range(count):
        parts = rng.exponential(0.4, (3, 2, 7)) * rng.integers(0, 2, (3, 2, 7))
        total = sum(guarantee(PrivacyLoss.laplace(part)) for part in parts)
        for epsilon in (0.0, 0.4, 1.0):
            truth = max(delta_bounds(epsilon, move)[0] for move in np.vstack(parts).T)
            assert total.delta(epsilon) >= truth


def test_the_worst_move_of_a_laplace_release_depends_on_epsilon():
    g = guarantee(PrivacyLoss.laplace([[1.0, 0.51], [0.0, 0.51]]))
    assert g.delta(0.0) == pytest.approx(1 - math.exp(-0.5), rel=1e-14)
    assert g.epsilon(0.0) == pytest.approx(1.02, rel=1e-15)
    assert worst_moves(g.loss) == (1,)
    assert g.exact == ("rdp", "zcdp")
    assert attains(g.loss, 0.0)
    assert not attains(g.loss, 1e-3)
    single = guarantee(PrivacyLoss.laplace([[1.0, 0.5]]))
    assert single.exact == ("delta", "epsilon", "rdp", "zcdp")


@pytest.mark.slow
def test_many_moves_and_many_releases_stay_bounded_and_on_the_safe_side():
    """None of the moves dominates another: the first ones are evaluated, the others bounded in closed form."""
    shifts = np.random.default_rng(5).dirichlet(np.ones(4), 300).T
    few = PrivacyLoss.laplace(shifts)
    truth = max(delta_bounds(0.5, move, points=1 << 12)[0] for move in shifts.T)
    assert few.attained
    assert few.pure == pytest.approx(1.0, rel=1e-15)
    assert truth <= few.delta(0.5) <= 1.4 * truth
    bound = PrivacyLoss.laplace(
        np.random.default_rng(5).dirichlet(np.ones(6), 12_000).T
    )
    assert bound.rows[0].shifts == ((bound.pure, 1),)
    assert not bound.attained
    assert bound.pure == pytest.approx(1.0, rel=1e-15)
    assert bound.delta(0.5) == pytest.approx(1 - math.exp(-0.25), rel=1e-12)
    one = PrivacyLoss.laplace([[0.02]])
    some, more = one.released(128), one.released(129)
    assert some.epsilon(1e-6) < more.epsilon(1e-6) < 1.02 * some.epsilon(1e-6)


@pytest.mark.parametrize("seed", few(range(6), of=1))
def test_moves_in_the_hull_cost_no_more_than_its_corners(seed):
    rng = np.random.default_rng(seed)
    corners = rng.standard_normal((3, 4)) * rng.integers(0, 2, (3, 4)) * 0.8 + 0.01
    g = guarantee(PrivacyLoss.laplace(corners))
    for weights in rng.dirichlet(np.full(4, 0.4), 12):
        inside = np.abs(corners @ (weights * rng.choice([-1, 1], 4)))
        for epsilon in (0.0, 0.3, 0.9):
            assert delta_bounds(epsilon, inside)[0] <= g.delta(epsilon)
        one = guarantee(PrivacyLoss.laplace(inside[:, None]))
        assert one.gdp <= g.gdp
        assert one.zcdp <= g.zcdp
        assert one.rdp(4.0) <= g.rdp(4.0)


@pytest.mark.parametrize("seed", few(range(10), of=3))
def test_one_coordinate_bounds_every_product_of_the_same_pure_epsilon(seed):
    shifts = np.random.default_rng(seed).exponential(0.5, 4)
    total = shifts.sum()
    product, single = PrivacyLoss.laplace(shifts[:, None]), one_coordinate(float(total))
    for epsilon in np.linspace(0, total, 9)[:-1]:
        assert single.delta(epsilon) == pytest.approx(
            1 - math.exp((epsilon - total) / 2), rel=1e-9
        )
        assert product.delta(epsilon) <= single.delta(epsilon)


def test_mixture_equals_what_draws_of_the_two_noises_show():
    """400,000 draws: standard error below 0.2 % of delta; noise 10 % too small is off by more than 20 errors."""
    a, y, epsilon, draws = 0.8, 0.6, 0.4, 400_000
    rng = np.random.default_rng(3)
    eta, xi = rng.laplace(size=draws), rng.standard_normal(draws)

    def shown(scale):
        lost = (np.abs(eta + a / scale) - np.abs(eta)) + (y / scale) * (
            xi + y / scale / 2
        )
        values = np.maximum(0.0, -np.expm1(np.minimum(epsilon - lost, 0.0)))
        return values.mean(), values.std() / math.sqrt(draws)

    claim = (
        guarantee(PrivacyLoss.laplace([[a]])) + guarantee(PrivacyLoss.gaussian(y, (0,)))
    ).delta(epsilon)
    mean, error = shown(1.0)
    assert abs(mean - claim) < 4 * error
    assert shown(0.9)[0] > claim + 20 * error


# --- black boxes and mixtures ---------------------------------------------------------------------------------------

PAIRS = [(0.3, 1e-3), (0.5, 0.0), (0.3, 1e-3), (0.7, 1e-2), (0.05, 1e-6)]


@pytest.mark.parametrize("epsilon", [0.0, 0.2, 0.9, 1.5, 1.8, 2.5])
def test_black_boxes_are_the_enumeration_of_all_answers(epsilon):
    loss = PrivacyLoss.black_box(tuple((e, d, 1) for e, d in PAIRS))
    truth = hockey(epsilon, box_outcomes(PAIRS))
    assert truth * (1 - 1e-14) <= loss.delta(epsilon) <= truth * (1 + 1e-6)


@pytest.mark.parametrize("epsilon", [0.0, 0.6, 1.5, 3.0])
def test_black_boxes_beside_gaussian_and_laplace_are_the_enumeration(epsilon):
    y, a = 0.9, 0.7

    def laplace_and_gaussian(level):
        ends = 0.5 * kappa(level - a, y) + 0.5 * math.exp(-a) * kappa(level + a, y)
        return (
            ends
            + quad(
                lambda x: 0.5 * math.exp(-x) * kappa(level - a + 2 * x, y),
                0,
                a,
                epsabs=1e-13,
            )[0]
        )

    box = PrivacyLoss.black_box(tuple((e, d, 1) for e, d in PAIRS))
    outcomes = list(box_outcomes(PAIRS))
    failed = math.fsum(p for p, loss in outcomes if loss == math.inf)
    for known, curve in (
        (PrivacyLoss.gaussian(y, (0,)), lambda level: kappa(level, y)),
        (
            composed(PrivacyLoss.gaussian(y, (0,)), PrivacyLoss.laplace([[a]])),
            laplace_and_gaussian,
        ),
    ):
        truth = failed + math.fsum(
            p * curve(epsilon - loss) for p, loss in outcomes if loss < math.inf
        )
        assert (
            truth * (1 - 1e-10)
            <= composed(known, box).delta(epsilon)
            <= truth * (1 + 1e-5)
        )


def test_black_boxes_bound_the_truth_and_never_exceed_basic_or_advanced_composition():
    y, epsilon = 0.1, 0.1
    delta = float(core.kappa(epsilon, y))
    for k in (1, 2, 10, 100, 1000):
        box = PrivacyLoss.black_box(((epsilon, delta, k),))
        assert box.delta(k * epsilon) <= k * delta
        for slack in (1e-6, 1e-3):
            advanced = epsilon * math.sqrt(
                2 * k * math.log(1 / slack)
            ) + k * epsilon * math.expm1(epsilon)
            assert box.delta(advanced) <= slack + k * delta
        truth = PrivacyLoss.gaussian(y).released(k)
        for level in (0.0, 0.3, 1.0, 5.0):
            assert truth.delta(level) <= box.delta(level)


def test_a_foreign_leak_is_not_dropped():
    """gdp with a leak is no gdp: at epsilon = 3 the leak alone is delta."""
    budget = PrivacyBudget(gdp=0.5, leak=0.01)
    with pytest.raises(
        ValueError, match=r"pass PrivacyBudget\(epsilon=.*, delta=0.02"
    ) as error:
        core.PrivacyGuarantee.black_box(budget, core.BallAdjacency(1.0))
    epsilon = float(str(error.value).split("epsilon=")[1].split(",")[0])
    assert 0.01 + 0.99 * core.kappa(epsilon, 0.5) <= 0.02


def test_mixtures_agree_with_another_accountant():
    """Google's dp_accounting rounds losses up to a grid of 1e-4: never below, and within 1e-4 of it."""
    pld = pytest.importorskip("dp_accounting.pld.privacy_loss_distribution")
    parameters = pytest.importorskip(
        "dp_accounting.pld.common"
    ).DifferentialPrivacyParameters
    grid = {"value_discretization_interval": 1e-4}
    theirs = {
        ("Gaussian",): pld.from_gaussian_mechanism(1.0, sensitivity=0.5, **grid),
        ("Laplace",): pld.from_laplace_mechanism(1.0, sensitivity=0.4, **grid),
        ("black-box",): pld.from_privacy_parameters(parameters(0.3, 1e-3), **grid),
    }
    ours = (
        PrivacyLoss.gaussian(0.5, (0,)),
        PrivacyLoss.laplace([[0.4]]),
        PrivacyLoss.black_box(((0.3, 1e-3, 1),)),
    )
    for chosen in itertools.chain(itertools.combinations(ours, 2), [ours]):
        total, other = (
            composed(chosen[0], chosen[1]),
            theirs[chosen[0].kinds].compose(theirs[chosen[1].kinds]),
        )
        if len(chosen) == 3:
            total, other = (
                composed(total, chosen[2]),
                other.compose(theirs[chosen[2].kinds]),
            )
        for epsilon in (0.0, 0.3, 1.0):
            truth = other.get_delta_for_epsilon(epsilon)
            assert truth * (1 - 2e-4) <= total.delta(epsilon) <= truth * (1 + 1e-5)


def test_too_many_answers_are_rounded_up():
    """Against the normal law that the sum of so many losses is close to."""
    box = PrivacyLoss.black_box(((0.1, 0.0, 300), (0.07, 0.0, 200), (0.013, 0.0, 100)))
    mean = sum(n * e * math.tanh(e / 2) for (e, _), n in box.rows[0].boxes)
    spread = math.sqrt(
        sum(n * e * e / math.cosh(e / 2) ** 2 for (e, _), n in box.rows[0].boxes)
    )
    near = mean + spread
    assert box.delta(near) == pytest.approx(kappa(near, spread), rel=0.02)


def test_decimals_of_foreign_promises_add_as_decimals():
    scope = SCOPE
    tenth = PrivacyGuarantee.black_box(PrivacyBudget(epsilon=0.1, delta=1e-6), scope)
    assert tenth.released(10).epsilon(1e-5) <= 1.0
    assert tenth.released(10).satisfies(PrivacyBudget(epsilon=1.0, delta=1e-5))
    assert tenth.released(3).loss.pure == 0.3
    assert tenth.satisfies(PrivacyBudget(epsilon=0.1, delta=1e-6))
    assert "no finite epsilon" not in (
        tenth.released(100).sentence
        + (tenth.released(3) + guarantee(PrivacyLoss.gaussian(1.0))).sentence
    )
    assert tenth.epsilon(1e-7) == math.inf
    assert tenth.gdp == math.inf
    assert tenth.exact == ()


def test_foreign_release_composes_with_its_own_secret_only():
    adjacency, budget = (
        core.DirectionAdjacency([[1.0], [-1.0]]),
        PrivacyBudget(epsilon=0.5, delta=1e-6),
    )
    manifold = core.AffineManifold([[1.0, 1.0]])
    mechanism = core.Mechanism(
        core.LinearQuery(np.eye(2), manifold), core.GaussianNoise([3.0, 3.0])
    )
    ours = mechanism.guarantee(adjacency)
    theirs = PrivacyGuarantee.black_box(budget, adjacency)
    with pytest.raises(ValueError, match="different manifolds"):
        ours + theirs
    for foreign in (
        PrivacyGuarantee.black_box(budget, adjacency, manifold=manifold),
        PrivacyGuarantee.black_box(budget, ours.scope),
    ):
        both = ours + foreign
        assert both.delta(0.5) > max(ours.delta(0.5), foreign.delta(0.5))
        assert "foreign release" in both.sentence
        assert "optimal composition" in both.sentence
    assert (theirs + theirs).releases == 2
    with pytest.raises(TypeError, match="Adjacency"):
        PrivacyGuarantee.black_box(budget, "salaries")


def test_other_horizons_adjacencies_and_manifolds_are_refused():
    g = guarantee(PrivacyLoss.gaussian(1.0))
    for change, name in (
        ({"horizon": 5}, "horizons"),
        ({"adjacency": "{}"}, "adjacencies"),
        ({"domain": "R^3"}, "manifolds"),
    ):
        with pytest.raises(ValueError, match=f"different {name} do not add"):
            g + replace(g, scope=replace(SCOPE, **change))
    with pytest.raises(TypeError):
        g + 1
    with pytest.raises(ValueError, match="order above 1"):
        g.rdp(1.0)
    for bad in (-0.1, 1.0, math.nan):
        with pytest.raises(ValueError, match="delta: expected"):
            g.epsilon(bad)


LINE, UNIT = core.LinearQuery([[1.0]]), core.DirectionAdjacency([[1.0]])


def test_the_text_says_which_number_is_exact():
    """Of Laplace noise epsilon is exact, and its GDP parameter a bound; of Gaussian noise both are exact."""
    laplace = core.design_laplace(LINE, UNIT, PrivacyBudget(epsilon=1.0)).guarantee
    gaussian = core.design_gaussian(
        LINE, UNIT, PrivacyBudget(epsilon=1.0, delta=1e-3)
    ).guarantee
    assert "epsilon = 1 at delta = 0 (exact; at most 1.031-GDP)" in laplace.sentence
    assert "epsilon = 1 at delta = 0.001 (0.3885-GDP, exact)" in gaussian.sentence
    assert repr(laplace) == "PrivacyGuarantee(Laplace, at most 1.031-GDP, 1 release)"
    assert "upper bound" in guarantee(PrivacyLoss.gaussian(1.0, exact=False)).sentence


@settings(max_examples=40, deadline=None)
@given(st.floats(1e-6, 1e3))
def test_repr_and_text_show_one_number_rounded_up(y):
    g = guarantee(PrivacyLoss.gaussian(y))
    shown = repr(g).partition("-GDP")[0].rpartition(" ")[2]
    assert f"({shown}-GDP, exact)" in g.sentence
    assert float(shown) >= y * (1 - 1e-8)


def test_what_is_no_guarantee_is_refused_with_what_to_write():
    budget = PrivacyBudget(epsilon=1.0, delta=1e-3)
    design = core.design_gaussian(LINE, UNIT, budget)
    g = design.guarantee
    refused = {
        r"black_box\(budget, adjacency\)": [
            lambda: budget + budget,
            lambda: sum([budget, budget]),
            lambda: g + budget,
            lambda: g.compose(budget),
            lambda: core.compose_sequential(budget, budget),
        ],
        r"unsupported operand": [
            lambda: 4 * g,
            lambda: g * 4,
            lambda: np.float64(4) * g,
        ],
        r"unpack it: \*guarantees": [
            lambda: core.compose_sequential([g, g]),
            lambda: core.compose_parallel((g, g)),
        ],
        r"got float": [lambda: core.chain(3.0, g)],
        r"got NoiseDesign; pass its \.guarantee$": [
            lambda: g.compose(design),
            lambda: core.chain(design, 2.0),
        ],
        r"got Mechanism; pass its \.guarantee\(adjacency\)$": [
            lambda: g.compose(design.mechanism)
        ],
    }
    for message, calls in refused.items():
        for call in calls:
            with pytest.raises(TypeError, match=message):
                call()


def test_different_adjacencies_are_told_apart_in_words_where_words_differ():
    ball, other = core.BallAdjacency(1.0), core.DirectionAdjacency([[2.0]])
    g, by_ball, by_other = (
        core.Mechanism(LINE, core.GaussianNoise([1.0])).guarantee(a)
        for a in (UNIT, ball, other)
    )
    with pytest.raises(
        ValueError,
        match="the data move along the given direction against the data move by at most 1",
    ):
        g + by_ball
    with pytest.raises(ValueError, match="sha256.*against.*sha256"):
        g + by_other


def test_what_one_release_leaves_bare_the_composition_leaves_bare():
    g = guarantee(PrivacyLoss.gaussian(1.0))
    bare = replace(
        g, scope=replace(SCOPE, caveats=("the velocity",), assumptions=("A is exact",))
    )
    for both in (g + bare, bare + g):
        assert "does not hide the velocity" in both.sentence
        assert "assumes A is exact" in both.sentence


def test_a_single_radius_is_carried_where_there_is_one():
    class Radius:
        def __init__(self, radius):
            self.radius = radius

        statement = "something moves"
        change = None

        def to_dict(self):
            return {"radius": 1}

        def caveats(self, manifold):
            return ()

    manifold = core.AffineManifold.from_kernel(np.eye(2))
    assert Scope.of(Radius(2), manifold).radius == 2.0
    assert not Scope.of(Radius(2), manifold).constrained
    for other in ({"position": 1.0}, [1.0, 2.0], None, True, math.inf):
        assert Scope.of(Radius(other), manifold).radius is None
    assert Scope.of(Radius(1), core.AffineManifold([[1.0, 1.0]])).constrained


def test_a_zero_laplace_loss_changes_nothing_beside_another():
    for columns in ([[0.0]], [[0.0, 0.0], [0.0, 0.0]]):
        nothing = guarantee(PrivacyLoss.laplace(columns))
        assert nothing.delta(0.0) == nothing.epsilon(0.0) == nothing.gdp == 0.0
        for other in (PrivacyLoss.gaussian(0.7), PrivacyLoss.laplace([[0.4]])):
            both, alone = nothing + guarantee(other), guarantee(other)
            for epsilon in (0.0, 0.3, 2.0):
                assert both.delta(epsilon) == pytest.approx(
                    alone.delta(epsilon), rel=1e-9, abs=1e-15
                )
            assert both.gdp == pytest.approx(alone.gdp, rel=1e-12)


@pytest.mark.parametrize("quoted", [-5, -1e-9, 1.0, math.nan, "1", None])
def test_the_delta_that_is_quoted_is_a_probability(quoted):
    with pytest.raises((ValueError, TypeError), match="delta"):
        PrivacyGuarantee(PrivacyLoss.gaussian(1.0), SCOPE, 1, quoted)


def test_what_to_dict_did_not_write_is_refused_in_words():
    whole = guarantee(PrivacyLoss.gaussian(1.0)).to_dict()
    for wrong in ([], None, "x", 3):
        with pytest.raises(TypeError, match="data: expected the dictionary"):
            PrivacyGuarantee.from_dict(wrong)
    spoilt = [
        {},
        whole | {"loss": 3},
        whole | {"loss": whole["loss"] | {"kinds": ["unknown"]}},
    ]
    spoilt += [whole | {"scope": {"adjacency": 1}}, whole | {"releases": "many"}]
    for row in ([[], "1/0", []], [[], "-1", []], [[], "1e9", []], [[[-1, 1]], 0, []]):
        row = dict(zip(("shifts", "square", "boxes"), row)) | {"kind": "product"}
        spoilt += [whole | {"loss": whole["loss"] | {"rows": [row]}}]
    spoilt += [whole | {"scope": whole["scope"] | {"unknown": 1}}]
    spoilt += [{k: v for k, v in whole.items() if k != name} for name in whole]
    for wrong in spoilt:
        with pytest.raises(
            ValueError, match="data: expected the output of PrivacyGuarantee"
        ):
            PrivacyGuarantee.from_dict(wrong)


# --- what a guarantee says ------------------------------------------------------------------------------------------

LABELS = ["Budget", "Meaning", "Hides", "Not hidden"]
EXPLAINED = [*LABELS, "Horizon", "Assumes", "Released", "Accounts"]


@settings(max_examples=8, deadline=None)
@given(losses)
def test_the_text_is_four_lines_of_at_most_120_characters(loss):
    scope = replace(SCOPE, assumptions=("word " * 40,), caveats=("the velocity", "p"))
    g = PrivacyGuarantee(loss, scope)
    lines = str(g).splitlines()
    assert max(map(len, lines)) <= 120
    assert [line.partition(":")[0] for line in lines] == LABELS
    assert lines[2].endswith(SCOPE.statement)
    assert lines[3].endswith("the velocity; p")
    explained = g.explain().splitlines()
    assert max(map(len, explained)) <= 120
    labels = [line.partition(":")[0] for line in explained if line[0] != " "]
    assert labels == EXPLAINED
    assert "word word" in " ".join(g.explain().split())


def test_names_end_no_line_and_write_none_of_their_own():
    forged = "level\nHides:      all\x1b[2K\u202e"
    g = PrivacyGuarantee(PrivacyLoss.gaussian(1.0), replace(SCOPE, statement=forged))
    explained = g.explain().splitlines()
    for line in (str(g).splitlines()[2], explained[2], g.sentence):
        assert line.isprintable()
        assert "level\\nHides:      all\\x1b[2K\\u202e" in line
    assert [line.partition(":")[0] for line in str(g).splitlines()] == LABELS
    assert sum(line.startswith("Hides") for line in explained) == 1
    assert "\x1b" not in g._repr_html_()


def test_what_does_not_fit_a_line_is_counted_and_explained():
    """Whole clauses go into the line, first the first; a clause alone that is too long is cut, and says so."""
    clauses = tuple(f"the state of the room with number {k}" for k in range(12))
    g = PrivacyGuarantee(PrivacyLoss.gaussian(1.0), replace(SCOPE, caveats=clauses))
    last = str(g).splitlines()[-1]
    assert len(last) <= 120
    assert last.endswith("; 10 more in .explain()")
    assert clauses[1] in last
    assert clauses[2] not in last
    assert all(clause in " ".join(g.explain().split()) for clause in clauses)
    long = replace(g, scope=replace(SCOPE, statement="one room or " * 30))
    hides = str(long).splitlines()[2]
    assert len(hides) <= 120
    assert hides.endswith("... (all in .explain())")


@pytest.mark.parametrize("delta", [1.23341e-6, 4.11115e-5, 1.23349e-3, 0.0123401])
@pytest.mark.parametrize("count", [1, 3])
def test_the_pair_that_the_text_quotes_holds(delta, count):
    """Both numbers of it are rounded up: a black box has no epsilon below its delta."""
    budget = PrivacyBudget(epsilon=0.123449, delta=delta)
    foreign = PrivacyGuarantee.black_box(budget, SCOPE)
    gaussian = replace(guarantee(PrivacyLoss.gaussian(0.7)), quoted_delta=delta)
    for g in (foreign.released(count), gaussian.released(count)):
        found = re.search(r"epsilon = (\S+) at delta = (\S+)", str(g))
        epsilon, quoted = map(float, found.groups())
        assert g.delta(epsilon) <= quoted <= g.quoted_delta * 1.001


def test_the_accounts_are_the_same_promise():
    g = guarantee(PrivacyLoss.gaussian(0.5325))
    accounts = " ".join(g.explain().split()).partition("Accounts: ")[2]
    for delta in (1e-2, 1e-3, 1e-5):
        shown = float(re.search(rf"epsilon = (\S+) at delta = {delta:g}", accounts)[1])
        assert g.epsilon(delta) <= shown <= g.epsilon(delta) * (1 + 1e-3)
    assert float(re.search(r"(\S+)-zCDP", accounts)[1]) >= g.zcdp
    assert float(re.search(r"advantage (\S+) %", accounts)[1]) >= 100 * g.advantage


def test_the_meaning_is_the_best_test_of_an_eavesdropper():
    """Gaussian: Phi(Phi^-1(.05) + y), in per cent and rounded up."""
    g = guarantee(PrivacyLoss.gaussian(0.5325))
    truth = norm.cdf(norm.ppf(0.05) + 0.5325)
    assert g.detection(0.05) == pytest.approx(truth, rel=1e-12)
    assert g.advantage == pytest.approx(2 * norm.cdf(0.5325 / 2) - 1, rel=1e-12)
    meaning = str(g).splitlines()[1]
    words = "a test wrong in 5 % of the cases without the change finds at most "
    assert meaning.endswith("of those with it (guessing: 5 %)")
    percent = float(meaning.partition(words)[2].split()[0])
    assert 100 * truth <= percent <= 100 * truth * (1 + 1e-3)


@drawn(losses, st.sampled_from([1e-4, 0.05, 0.5, 0.9]), examples=(10, 25))
def test_detections_are_what_every_pair_of_epsilon_and_delta_allows(loss, alarm):
    """Never below what the curve itself attains at one place, never above what its pairs allow, and above guessing."""
    g = guarantee(loss)
    found = g.detection(alarm)
    assert alarm <= found <= 1
    for epsilon in (0.0, 0.3, 1.0):
        delta = g.delta(epsilon)
        assert found <= math.exp(epsilon) * alarm + delta + 5e-3
    assert found <= alarm + g.advantage * (1 + 1e-9)


@pytest.mark.parametrize("alarm", [0.001, 0.01, 0.05])
def test_a_test_of_truncated_noise_finds_no_more_than_its_pair_allows(alarm):
    """Beyond its leak of 0.01 the odds are e: at 1 % false alarms it said 4.7 for 3.7 %."""
    budget = PrivacyBudget(epsilon=1.0, delta=0.01)
    pair = [[0, 0.25], [0.25, 0]]
    agents = private_consensus(pair, budget, 1.0, family="truncated")
    found = agents.guarantee.detection(alarm)
    assert found == pytest.approx(math.e * alarm + 0.01, rel=1e-9)


@pytest.mark.parametrize("alarm", [0.0, 1.0, -0.1, math.nan, "5 %", None])
def test_a_rate_of_false_alarms_is_a_probability(alarm):
    with pytest.raises((ValueError, TypeError), match="false_alarm"):
        guarantee(PrivacyLoss.gaussian(1.0)).detection(alarm)


def test_html_escapes_names():
    g = guarantee(PrivacyLoss.gaussian(1.0))
    named = replace(g, scope=replace(SCOPE, statement="<b> & c"))
    html = named._repr_html_()
    assert html.count("<tr>") == len(EXPLAINED)
    assert "&lt;b&gt; &amp; c" in html


def test_a_budget_by_risk_is_met_by_what_is_designed_for_it():
    """A likelihood-ratio test on 200,000 draws reaches the stated detections, and not more: five standard errors."""
    budget = PrivacyBudget.from_risk(false_alarm=0.05, detection=0.2)
    design = core.design_gaussian(LINE, UNIT, budget)
    assert design.guarantee.satisfies(budget)
    assert design.guarantee.detection(0.05) == pytest.approx(0.2, rel=1e-9)
    n, rng = 200_000, np.random.default_rng(0)
    std = float(design.noise.factor[0, 0])
    null, moved = std * rng.normal(size=n), 1.0 + std * rng.normal(size=n)
    power = np.mean(moved > np.quantile(null, 0.95))
    assert abs(power - 0.2) < 5 * math.sqrt(0.2 * 0.8 / n) * 1.5
    claim = core.audit(design, UNIT, claim=design.guarantee, trials=200_000, rng=1)
    assert claim.passed


def test_nobody_says_how_a_foreign_release_was_made():
    own = released(
        core.design_gaussian(
            core.LinearQuery([[1.0]]),
            core.BallAdjacency(1.0),
            core.PrivacyBudget(gdp=1.0),
        ).guarantee,
        EXACTLY,
    )
    foreign = core.PrivacyGuarantee.black_box(core.PrivacyBudget(gdp=1.0), own.scope)
    words = {}
    for name, known in (("own", own), ("foreign", foreign), ("both", own + foreign)):
        lines = known.explain().splitlines()
        words[name] = next(line[12:] for line in lines if line.startswith("Released:"))
    assert words == {
        "own": "exactly",
        "foreign": "elsewhere",
        "both": "elsewhere in part",
    }
    assert (own + foreign + foreign).scope.released == "released elsewhere in part"


@pytest.mark.parametrize(
    "share, words",
    [
        (0.05, "5"),
        (0.05 * (1 + 5e-10), "5"),
        (0.05 * (1 + 3e-9), "5.1"),
        (0.05001, "5.1"),
        (0.98901, "99"),
        (0.99001, "99.01"),
        (0.9999999, "100"),
    ],
)
def test_percentages_are_rounded_up_beyond_a_billionth(share, words):
    assert percent(share) == words
