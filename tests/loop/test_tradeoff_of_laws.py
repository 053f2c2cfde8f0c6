"""Laws side by side in a trade-off and among the ways to hide a secret."""

import cases
import numpy as np
import pytest

import privcontrol as pc

VEHICLE = pc.plants.vehicle()
POSITION = pc.StateAdjacency({"position": 1.0})
LAWS = ("trace", "ball", "truncated", "auto")


@pytest.fixture(scope="module")
def curve():
    return pc.tradeoff(
        VEHICLE,
        **cases.RUN,
        horizon=60,
        delta=1e-2,
        epsilons=[0.3, 1.0, 3.0],
        designs=LAWS,
        adjacency=POSITION,
    )


def test_each_law_costs_what_its_own_loop_costs(curve):
    """At (1, 0.01): 95.63, 66.23 and 59.95 above the loop without privacy."""
    known = {"trace": 95.63, "ball": 66.23, "truncated": 59.95, "auto": 59.95}
    families = {"trace": "gaussian", "auto": "truncated"}
    for design, price in known.items():
        assert curve.total(design)[1] - 42.2283 == pytest.approx(price, abs=0.006)
        for epsilon, loop in zip(curve.epsilons, curve.loops[design], strict=True):
            budget = pc.PrivacyBudget(epsilon=float(epsilon), delta=1e-2)
            assert loop.guarantee.satisfies(budget)
            assert loop.noise.family == families.get(design, design)
        assert (np.diff(curve.total(design)) < 0).all()
    for design in LAWS[:-1]:
        assert (curve.total("auto") <= curve.total(design) * (1 + 1e-9)).all()


@pytest.mark.parametrize("design", LAWS[1:])
def test_a_cost_buys_the_budget_that_it_came_from(curve, design):
    cost = curve.total(design)[1]
    budget = curve.budget_at(cost=cost, design=design)
    assert budget.delta == 1e-2
    # noise scaled to the cost has the ball's epsilon; truncated noise leaks more
    slack = 1e-6 if design == "ball" else 0.05
    assert 0.9 < budget.epsilon <= 1.0 * (1 + slack)
    loop = curve.loop(design, budget)
    assert loop.guarantee.satisfies(budget)
    if design == "ball":
        assert budget.epsilon == pytest.approx(1.0, rel=1e-6)
        assert curve.expected.cost(loop.data).total == pytest.approx(cost, rel=1e-6)


@pytest.mark.parametrize("design", LAWS[1:])
def test_a_cost_between_buys_a_budget_between(curve, design):
    """Noise of a looser budget, made larger; the filter for it costs no more."""
    stricter, looser = curve.total(design)[:2]
    cost = (stricter + looser) / 2
    budget = curve.budget_at(cost=cost, design=design)
    assert 0.3 < budget.epsilon < 1.0
    loop = curve.loop(design, budget)
    assert loop.guarantee.satisfies(budget)
    found = curve.expected.cost(loop.data).total
    assert looser < found <= cost * (1 + 1e-6)
    if design == "ball":
        assert found > looser + 0.5 * (cost - looser)


def test_constant_gains_take_the_laws_too():
    plain = {"Q": 20, "R": 1, "QN": 0.1, "RN": 0.1}
    found = pc.tradeoff(
        VEHICLE,
        **plain,
        horizon=20,
        delta=1e-5,
        epsilons=[3.0],
        designs=LAWS,
        adjacency=POSITION,
    )
    totals = [found.total(design)[0] for design in LAWS]
    assert totals[1] < totals[0]
    assert totals[-1] == pytest.approx(min(totals), rel=1e-9)
    assert "structured radial" in [
        line.get_label() for line in found.plot().axes.flat[0].lines
    ]
    with pytest.raises(ValueError, match="designs: expected one of"):
        pc.tradeoff(
            VEHICLE,
            **plain,
            horizon=np.inf,
            delta=1e-5,
            epsilons=[3.0],
            designs=["ball"],
            adjacency=POSITION,
        )


def test_options_list_each_law():
    """Each with the noise of its own design, and its own power."""
    budget = pc.PrivacyBudget(epsilon=1.0, delta=1e-2)
    asked = {"horizon": 60, "budget": budget, "adjacency": POSITION}
    ways = {way.way: way for way in pc.options(VEHICLE, **asked)}
    for name in ("laplace", "ball", "truncated"):
        way = ways[f"shaped, {'Laplace' if name == 'laplace' else name} law"]
        noise = pc.design_output_noise(VEHICLE, family=name, models="exact", **asked)
        assert way.std == pytest.approx(noise.std)
        assert way.detection == pytest.approx(noise.guarantee.detection())
    stds = [way.std[0] for name, way in ways.items() if name.startswith("shaped")]
    assert ways["shaped, best law"].std[0] == min(stds)
    # a budget in gdp is Gaussian's
    gaussian = pc.options(VEHICLE, **(asked | {"budget": pc.PrivacyBudget(gdp=0.5)}))
    assert not {way.way for way in gaussian} & {f"shaped, {law} law" for law in LAWS}
