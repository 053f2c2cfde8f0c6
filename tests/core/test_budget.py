"""A budget is two named numbers: anything else is refused with the line to write, and a large delta is warned of."""

import copy
import inspect
import math
import pickle
import warnings
from pathlib import Path

import numpy as np
import pytest
from oracles import delta_bounds
from repeats import few
from scipy.stats import norm

import privcontrol as pc
from privcontrol import core
from privcontrol.privacy.loss import PrivacyLoss


def test_numbers_by_position_are_refused():
    with pytest.raises(
        TypeError, match=r"got 2 values by position; write Priv\w+\(eps"
    ):
        pc.PrivacyBudget(1.0, 1e-3)


def test_the_signature_is_that_of_the_contract():
    parameters = inspect.signature(pc.PrivacyBudget).parameters
    assert list(parameters) == ["epsilon", "delta", "gdp", "leak"]
    assert [p.default for p in parameters.values()] == [None, 0.0, None, 0.0]
    assert {p.kind for p in parameters.values()} == {inspect.Parameter.KEYWORD_ONLY}


def test_budgets_copy_and_pickle():
    budget = pc.PrivacyBudget(epsilon=1.0, delta=1e-3)
    assert (
        pickle.loads(pickle.dumps(budget))
        == copy.copy(budget)
        == copy.deepcopy(budget)
        == budget
    )


def test_a_large_delta_is_warned_of_and_a_usual_one_is_not():
    with pytest.warns(
        pc.PrivacyWarning, match="delta = 0.5 is large: .* publishes the whole secret"
    ) as caught:
        pc.PrivacyBudget(epsilon=1.0, delta=0.5)
    assert caught[0].filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for delta in (0.0, 1e-5, 1e-2, 0.1):
            pc.PrivacyBudget(epsilon=1.0, delta=delta)


QUERY, ADJACENCY = pc.LinearQuery([[1.0]]), pc.DirectionAdjacency([[1.0]])


@pytest.mark.parametrize(
    "use",
    [
        lambda pair: pc.design_gaussian(QUERY, ADJACENCY, pair),
        lambda pair: pc.design_laplace(QUERY, ADJACENCY, pair),
        lambda pair: pc.design_iid(QUERY, ADJACENCY, pair),
        lambda pair: pc.PrivacyGuarantee.black_box(pair, ADJACENCY),
        lambda pair: (
            pc.Mechanism(QUERY, pc.GaussianNoise([1.0]))
            .guarantee(ADJACENCY)
            .satisfies(pair)
        ),
        lambda pair: pc.PrivacyLedger(pair),
        lambda pair: pc.InputPerturbation(abs, pair, radius=1.0),
        lambda pair: pc.OutputPerturbation(abs, pair, radius=1.0, lipschitz=1.0),
    ],
)
def test_a_number_or_a_pair_in_place_of_a_budget_is_refused_with_the_line_to_write(use):
    for pair, name in ((1.0, "float"), ((1.0, 1e-3), "tuple")):
        with pytest.raises(
            TypeError,
            match=f"expected a PrivacyBudget, got {name}; write PrivacyBudget\\(epsilon=",
        ):
            use(pair)


# --- budgets in one number ------------------------------------------------------------------------------------------


def test_a_budget_by_risk_is_the_closed_form_from_below():
    from mpmath import erfinv, mp, mpf, sqrt

    mp.dps = 40
    for alarm, detection in ((0.05, 0.1), (0.01, 0.5), (0.5, 0.500001), (1e-9, 0.999)):
        quantiles = [sqrt(2) * erfinv(2 * mpf(p) - 1) for p in (alarm, detection)]
        exact = quantiles[1] - quantiles[0]
        gdp = pc.PrivacyBudget.from_risk(false_alarm=alarm, detection=detection).gdp
        assert exact - mpf(1e-13) * (1 + abs(quantiles[0])) < gdp <= exact


@pytest.mark.parametrize(
    "risk", [(0.1, 0.1), (0.2, 0.1), (0.0, 0.1), (0.1, 1.0), ("x", 0.2)]
)
def test_impossible_risks_are_refused(risk):
    with pytest.raises((ValueError, TypeError), match="false_alarm|detection"):
        pc.PrivacyBudget.from_risk(false_alarm=risk[0], detection=risk[1])


def test_a_budget_is_a_pair_or_one_number():
    budget = pc.PrivacyBudget(gdp=0.5)
    assert (budget.epsilon, budget.delta, budget.shift()) == (None, None, 0.5)
    assert budget == pickle.loads(pickle.dumps(budget)) == copy.copy(budget)
    assert repr(budget) == "PrivacyBudget(gdp=0.5)"
    assert hash(budget)
    for wrong in ({"epsilon": 1.0}, {"delta": 1e-3}, {"epsilon": 0.0, "delta": 0.1}):
        with pytest.raises(ValueError, match="gdp alone"):
            pc.PrivacyBudget(gdp=0.5, **wrong)
    with pytest.raises(TypeError, match="epsilon .* or gdp, got neither"):
        pc.PrivacyBudget()
    for wrong in (0.0, -1.0, float("nan"), float("inf")):
        with pytest.raises(ValueError, match="gdp"):
            pc.PrivacyBudget(gdp=wrong)


@pytest.mark.parametrize("releases", few([1, 2, 7], of=2))
def test_laplace_noise_meets_a_budget_in_one_number_if_its_whole_curve_does(releases):
    """The exact curve of all releases is below that of 0.5-GDP, and nearly touches it."""
    budget = pc.PrivacyBudget(gdp=0.5)
    design = pc.design_laplace(QUERY, ADJACENCY, budget, releases=releases)
    assert design.guarantee.released(releases).satisfies(budget)
    shifts = np.full(releases, 1 / float(abs(design.noise.factor).max()))
    levels = np.linspace(0.0, 0.9 * shifts.sum(), 40)
    deltas = np.array(
        [delta_bounds(level, shifts, points=1 << 13)[0] for level in levels]
    )
    assert (deltas <= core.kappa(levels, 0.5)).all()
    assert (deltas > core.kappa(levels, 0.5 * (1 - 2e-3))).any()


@pytest.mark.parametrize("family", ["gaussian", "laplace"])
def test_everything_that_takes_a_budget_takes_one_number(family):
    budget, y = pc.PrivacyBudget(gdp=0.5), 0.5
    designs = [pc.design_iid(QUERY, ADJACENCY, budget, family=family)]
    structured = {"gaussian": pc.design_gaussian, "laplace": pc.design_laplace}
    designs.append(structured[family](QUERY, ADJACENCY, budget))
    options = dict(radius=1.0, norm=1, family=family, releases=2)
    two = [pc.InputPerturbation(abs, budget, **options)]
    two.append(pc.OutputPerturbation(abs, budget, lipschitz=1.0, **options))
    plant = pc.plants.vehicle()
    designs.extend(
        pc.design_output_noise(
            plant,
            horizon=10,
            budget=budget,
            adjacency=pc.StateAdjacency({"position": 1.0}),
            family=kind,
        )
        for kind in (family, f"iid-{family}")
    )
    agents = pc.private_consensus(
        [[0, 0.5], [0.5, 0]], budget, radius=1.0, family=family
    )
    for made in (*designs, agents):
        assert made.guarantee.satisfies(budget)
        assert made.guarantee.gdp <= y
    for made in (*designs[:3], agents):
        assert made.guarantee.gdp == pytest.approx(y, rel=1e-5)
    for made in two:
        assert made.guarantee.released(2).satisfies(budget)
        # of Laplace noise each release has the share that is good for any number
        least = 0.88 if family == "laplace" else 1 - 1e-5
        assert least * y <= made.guarantee.released(2).gdp <= y


def test_a_foreign_release_may_be_known_by_its_gdp():
    known = pc.PrivacyGuarantee.black_box(pc.PrivacyBudget(gdp=0.4), ADJACENCY)
    assert known.gdp == 0.4
    assert known.exact == ()
    assert (known + known).gdp == pytest.approx(0.4 * 2**0.5, rel=1e-15)
    assert known.delta(1.0) == pytest.approx(pc.core.kappa(1.0, 0.4), rel=1e-12)


@pytest.mark.parametrize("gdp", [1e154, 1e155, 1e300])
def test_the_laplace_share_of_any_gdp_is_a_number_within_it(gdp):
    epsilon = pc.PrivacyBudget(gdp=gdp).laplace_epsilon()
    assert 1e307 < epsilon < math.inf
    assert PrivacyLoss.laplace([[epsilon]]).gdp <= gdp


def test_delta_is_no_probability_that_the_ratio_is_exceeded():
    """At (1, 1e-2) the ratio of the densities exceeds e with 5.352 %, and no text says 1 %."""
    y = core.kappa_inverse(1.0, 1e-2)
    exceeded = norm.cdf(-(1.0 - y**2 / 2) / y)
    assert exceeded == pytest.approx(0.05352, abs=5e-6)
    # the definition, at the set of outcomes where the ratio is exceeded
    without = norm.cdf(-(1.0 + y**2 / 2) / y)
    assert exceeded - np.e * without == pytest.approx(1e-2, rel=1e-12)
    root = Path(__file__).parents[2]
    texts = [path.read_text() for path in (root / "privcontrol").rglob("*.py")]
    texts.append((root / "README.md").read_text())
    for text in texts:
        words = " ".join(text.split())
        assert "except with a probability of delta" not in words
        assert "with which the bound may fail" not in words
    told = " ".join(core.PrivacyBudget.__doc__.split())
    assert "at most exp(epsilon) times that without, plus delta" in told
    assert "exp(1) with probability 5.35 %" in told
