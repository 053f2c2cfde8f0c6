"""What privacy costs: exact, over one horizon, in the order that theory demands, wherever it is computed."""

from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor

import cases
import matplotlib.pyplot as plt
import numpy as np
import pytest

import privcontrol as pc

SETUP = {"Q": 20, "R": 1, "QN": 0.1, "RN": 0.1, "horizon": 30, "adjacency": cases.POSITION, "delta": 1e-2}
EPSILONS = [0.1, 0.5, 2.0]


@pytest.fixture(scope="module")
def result():
    designs = ("trace", "loop", "iid", "codesign")
    return pc.tradeoff(pc.plants.vehicle(), **SETUP, epsilons=EPSILONS, designs=designs)


def test_less_privacy_costs_less_and_none_costs_least(result):
    for design in result.costs:
        assert (np.diff(result.total(design)) < 0).all()
    for design in ("trace", "loop"):
        assert (result.total(design) > result.public.total).all()


def test_designs_are_in_the_order_that_dominance_demands(result):
    for better, worse in (("loop", "trace"), ("loop", "iid"), ("codesign", "iid"), ("codesign", "loop")):
        assert (result.total(better) <= result.total(worse) * (1 + 1e-8)).all(), (better, worse)


def test_costs_are_those_of_the_loops_themselves(result):
    vehicle, start = pc.plants.vehicle(), [-2.0, 1.0]
    weights = {name: SETUP[name] for name in ("Q", "R", "QN", "RN")}
    given = {"initial_state": start, "P0": np.zeros((2, 2))}
    one = pc.tradeoff(vehicle, **SETUP, epsilons=[0.5], **given)
    budget = pc.PrivacyBudget(epsilon=0.5, delta=1e-2)
    public = pc.private_lqg(vehicle, **weights)
    noises = {
        name: cases.vehicle_noise(horizon=30, budget=budget, **options)
        for name, options in (("trace", {}), ("iid", {"family": "iid-gaussian"}), ("loop", {"weight": public}))
    }
    retuned = pc.private_lqg(vehicle, **weights, noise=noises["iid"])
    for name, noise in noises.items():
        costs = [
            loop.with_noise(noise).cost(initial_state=start, disturbance="design", measurement_noise="design").total
            for loop in (public, retuned)
        ]
        assert one.total(name) == pytest.approx([min(costs)], rel=1e-6)


def test_an_uncertain_initial_state_costs_its_mean_over_draws():
    certain, uncertain = (
        pc.tradeoff(pc.plants.vehicle(), **SETUP, epsilons=[1.0], designs=["iid"], P0=P0).costs["iid"][0]
        for P0 in (np.zeros((2, 2)), np.diag([4.0, 0.0]))
    )
    moved = pc.tradeoff(pc.plants.vehicle(), **SETUP, epsilons=[1.0], designs=["iid"], P0=np.zeros((2, 2)),
                        initial_state=[2.0, 0.0]).costs["iid"][0]  # fmt: skip
    assert certain.regulation == 0
    assert uncertain.regulation == pytest.approx(moved.regulation, rel=1e-9)


@pytest.mark.parametrize("pool", [ThreadPoolExecutor, ProcessPoolExecutor])
def test_executors_do_not_change_the_numbers(pool, result):
    with pool(2) as executor:
        other = pc.tradeoff(pc.plants.vehicle(), **SETUP, epsilons=EPSILONS, executor=executor, progress=True)
    for design, costs in other.costs.items():
        assert costs == result.costs[design]


def test_table_and_plot(result):
    table = result.to_pandas()
    assert list(table.columns) == ["design", "epsilon", "total", "regulation", "disturbance", "privacy"]
    assert len(table) == 12
    np.testing.assert_allclose(table.total, table.regulation + table.disturbance + table.privacy)
    axes = result.plot().axes[0, 0]
    assert axes.get_xscale() == axes.get_yscale() == "log" and "30 samples" in axes.get_xlabel()
    np.testing.assert_array_equal(axes.lines[1].get_ydata(), result.total("loop"))
    plt.close("all")


def test_unknown_designs_and_bad_budgets_raise():
    with pytest.raises(ValueError, match="designs: expected one of 'trace', 'loop', 'iid', 'codesign', got 'best'"):
        pc.tradeoff(pc.plants.vehicle(), **SETUP, epsilons=[1.0], designs=["best"])
    with pytest.raises(ValueError, match="epsilon"):
        pc.tradeoff(pc.plants.vehicle(), **SETUP, epsilons=[-1.0])
    with pytest.raises(TypeError, match=r"executor: expected a concurrent\.futures\.Executor"):
        pc.tradeoff(pc.plants.vehicle(), **SETUP, epsilons=[1.0], executor=map)
