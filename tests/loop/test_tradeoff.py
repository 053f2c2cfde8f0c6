"""What privacy costs: exact, over one horizon, in the order that theory demands, wherever it is computed."""

import warnings
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from dataclasses import replace
from itertools import pairwise

import cases
import control as ct
import matplotlib.pyplot as plt
import numpy as np
import pytest
from repeats import few

import privcontrol as pc
from privcontrol.loop import LoopCost

SETUP = {
    "Q": 20,
    "R": 1,
    "QN": 0.1,
    "RN": 0.1,
    "horizon": 30,
    "adjacency": cases.POSITION,
    "delta": 1e-2,
}
EPSILONS = [0.1, 0.5, 2.0]


@pytest.fixture(scope="module")
def result():
    designs = ("trace", "loop", "iid", "codesign")
    return pc.tradeoff(
        pc.plants.vehicle(),
        **SETUP,
        epsilons=EPSILONS,
        designs=designs,
        P0=1.0,
    )


def test_less_privacy_costs_less_and_none_costs_least(result):
    for design in result.costs:
        costs = result.total(design)
        assert (costs < result.open_loop.total).all()
        assert (np.diff(costs) < 0).all()
    for design in ("trace", "loop"):
        assert (result.total(design) > result.public.total).all()


def test_designs_are_in_the_order_that_dominance_demands(result):
    for better, worse in (
        ("loop", "trace"),
        ("loop", "iid"),
        ("codesign", "iid"),
        ("codesign", "loop"),
    ):
        assert (result.total(better) <= result.total(worse) * (1 + 1e-8)).all(), (
            better,
            worse,
        )


def test_costs_are_those_of_the_loops_themselves(result):
    vehicle, start = pc.plants.vehicle(), [-2.0, 1.0]
    weights = {name: SETUP[name] for name in ("Q", "R", "QN", "RN")}
    given = {"initial_state": start, "P0": np.zeros((2, 2)), "estimator": "observer"}
    one = pc.tradeoff(vehicle, **SETUP, epsilons=[0.5], **given)
    budget = pc.PrivacyBudget(epsilon=0.5, delta=1e-2)
    public = pc.private_lqg(vehicle, **weights)
    noises = {
        name: cases.vehicle_noise(horizon=30, budget=budget, **options)
        for name, options in (
            ("trace", {}),
            ("iid", {"family": "iid-gaussian"}),
            ("loop", {"weight": public}),
        )
    }
    retuned = pc.private_lqg(vehicle, **weights, noise=noises["iid"])
    for name, noise in noises.items():
        costs = [
            loop.with_noise(noise)
            .cost(initial_state=start, disturbance="design", measurement_noise="design")
            .total
            for loop in (public, retuned)
        ]
        best = min(*costs, one.open_loop.total)
        assert one.total(name) == pytest.approx([best], rel=1e-6)


def test_a_loop_that_reads_nothing_is_a_choice_where_it_does_not_run_away():
    """Of a start that is known, noise of that size tells nothing worth its feedback."""
    given = SETUP | {"designs": ("iid",), "epsilons": [0.01], "estimator": "observer"}
    known = {"P0": np.zeros((2, 2)), "initial_state": [-2.0, 1.0]}
    cart = pc.tradeoff(pc.plants.vehicle(), **given, **known)
    assert cart.total("iid") == pytest.approx([cart.open_loop.total], rel=1e-9)
    growing = ct.ss([[1.2]], [[1.0]], [[1.0]], 0, 1.0)
    given |= {"adjacency": pc.StateAdjacency(1.0), "horizon": 5}
    result = pc.tradeoff(growing, **given, P0=[[0.0]], initial_state=[1.0])
    assert result.total("iid") > 10 * result.open_loop.total
    assert abs(result.loop("iid", 0.01).poles()).max() < 1


def test_without_a_horizon_a_loop_takes_noise_of_least_trace_only_if_it_may():
    """A filter that knows its noise: independent noise stays what it is."""
    plant = ct.ss([[0.9, 0.2], [0.0, 0.7]], [[0.0], [1.0]], [[1.0, 0.0]], 0, 1.0)
    names = ("iid", "trace", "loop")
    given = SETUP | {"horizon": np.inf, "adjacency": pc.DisturbanceAdjacency(1.0)}
    result = pc.tradeoff(plant, **given, epsilons=[0.5], designs=names)
    iid, trace, loop = (result.total(name) for name in names)
    assert iid > 1.001 * trace
    assert trace >= loop


def test_the_loop_behind_each_cost_has_that_cost_and_meets_its_budget(result):
    for design, costs in result.costs.items():
        for epsilon, cost in zip(EPSILONS, costs):
            loop = result.loop(design, epsilon)
            assert loop.guarantee.satisfies(
                pc.PrivacyBudget(epsilon=epsilon, delta=1e-2)
            )
            drawn = loop.cost(disturbance="design", measurement_noise="design")
            assert (drawn.disturbance, drawn.privacy) == pytest.approx(
                (cost.disturbance, cost.privacy), rel=1e-9
            )
    assert loop.simulate(trials=2, rng=0).outputs.shape == (2, 2, 30)
    with pytest.raises(
        ValueError, match=r"epsilon: expected one of 0.1, 0.5, 2, got 1"
    ):
        result.loop("iid", 1.0)
    with pytest.raises(
        ValueError,
        match="design: expected one of 'trace', 'loop', 'iid', 'codesign', got 'laplace'",
    ):
        result.loop("laplace", 0.5)


def test_a_loop_that_ignores_its_measurements_costs_what_the_open_loop_costs():
    plant = ct.ss(0.9, 1, 1, 0, 1, states=["level"])
    weights = {"Q": 1, "R": 1, "QN": 0.1, "RN": 0.1}
    request = {
        "horizon": 30,
        "adjacency": pc.StateAdjacency(1.0, times=0),
        "epsilons": [0.01, 1.0],
        "delta": 1e-2,
    }
    found = pc.tradeoff(plant, **weights, **request, P0=2.0, estimator="observer")
    steps, P = [], 2.0
    for _ in range(30):
        steps.append(P)
        P = 0.81 * P + 0.1
    assert found.open_loop.total == pytest.approx(
        sum(steps), rel=1e-12
    )  # u = 0: the plant's own covariance
    assert found.total("iid")[0] == pytest.approx(found.open_loop.total, rel=0.05)
    labels = [text.get_text() for text in found.plot().legend.get_texts()]
    assert labels[-2:] == ["no privacy", "no measurements (open loop)"]
    plt.close("all")


def test_no_design_is_above_the_open_loop_and_its_budget_can_be_asked_for():
    designs = ("trace", "loop", "iid", "laplace")
    found = pc.tradeoff(
        pc.plants.vehicle(),
        1,
        5,
        np.diag([1e-4, 1e-2]),
        1e-2,
        horizon=100,
        adjacency=cases.POSITION,
        epsilons=[0.1, 1.0],
        delta=1e-2,
        designs=designs,
    )
    for design in designs:
        assert (found.total(design) <= found.open_loop.total * (1 + 1e-12)).all()
        loop = found.loop(design, 0.1)
        assert not loop.L.any()
        assert loop.guarantee.satisfies(pc.PrivacyBudget(epsilon=0.1, delta=1e-2))
        budget = found.budget_at(1.01 * found.open_loop.total, design=design)
        assert budget.epsilon <= 0.1
        again = found.loop(design, budget)
        assert again.guarantee.satisfies(budget)


def test_laplace_noise_promises_epsilon_without_a_delta():
    found = pc.tradeoff(
        pc.plants.vehicle(), **SETUP, epsilons=[0.5, 2.0], designs=["laplace"]
    )
    for epsilon, cost in zip((0.5, 2.0), found.costs["laplace"]):
        loop = found.loop("laplace", epsilon)
        assert loop.guarantee.epsilon(0.0) == pytest.approx(epsilon, rel=1e-9)
        assert loop.noise.family == "laplace"
        assert loop.cost(
            disturbance="design", measurement_noise="design"
        ).privacy == pytest.approx(cost.privacy)
    with pytest.raises(ValueError, match='a number > 0 for the design "laplace"'):
        found.loop("laplace", pc.PrivacyBudget(epsilon=0.0, delta=0.01))


@pytest.mark.parametrize("joint", few([True, False], of=1))
def test_secret_disturbances_are_priced_and_scale_with_the_privacy_shift(joint):
    adjacency = pc.DisturbanceAdjacency({"velocity": 0.3})
    setup = SETUP | {
        "horizon": 15,
        "adjacency": [cases.POSITION, adjacency] if joint else adjacency,
    }
    found = pc.tradeoff(pc.plants.vehicle(), **setup, epsilons=EPSILONS)
    assert (found.total("loop") <= found.total("trace") * (1 + 1e-6)).all()
    assert (found.total("loop") <= found.total("iid") * (1 + 1e-6)).all()
    one, other = (found.loop("trace", epsilon) for epsilon in (0.1, 2.0))
    ratio = one.guarantee.gdp / other.guarantee.gdp
    for t in (0, 7, 14):
        np.testing.assert_allclose(
            one.noise.covariance(t) * ratio**2, other.noise.covariance(t), rtol=1e-6
        )
    assert one.guarantee.satisfies(pc.PrivacyBudget(epsilon=0.1, delta=1e-2))


def test_an_uncertain_initial_state_costs_its_mean_over_draws():
    certain, uncertain = (
        pc.tradeoff(
            pc.plants.vehicle(),
            **SETUP,
            epsilons=[1.0],
            designs=["iid"],
            P0=P0,
            estimator="observer",
        ).costs["iid"][0]
        for P0 in (np.zeros((2, 2)), np.diag([4.0, 0.0]))
    )
    moved = pc.tradeoff(pc.plants.vehicle(), **SETUP, epsilons=[1.0], designs=["iid"], P0=np.zeros((2, 2)),
                        initial_state=[2.0, 0.0], estimator="observer").costs["iid"][0]  # fmt: skip
    assert certain.regulation == 0
    assert uncertain.regulation == pytest.approx(moved.regulation, rel=1e-9)


@pytest.mark.parametrize("pool", [ThreadPoolExecutor, ProcessPoolExecutor])
def test_executors_do_not_change_the_numbers(pool, result):
    with pool(2) as executor:
        other = pc.tradeoff(
            pc.plants.vehicle(),
            **SETUP,
            epsilons=EPSILONS,
            executor=executor,
            progress=True,
            P0=1.0,
        )
    for design, costs in other.costs.items():
        assert costs == result.costs[design]


def test_table_and_plot(result):
    table = result.to_pandas()
    assert list(table.columns) == [
        "design",
        "epsilon",
        "total",
        "regulation",
        "disturbance",
        "privacy",
        "terminal",
    ]
    assert len(table) == 12
    np.testing.assert_allclose(
        table.total, table.regulation + table.disturbance + table.privacy
    )
    axes = result.plot().axes[0, 0]
    assert axes.get_xscale() == axes.get_yscale() == "log"
    assert "30 samples" in axes.get_xlabel()
    np.testing.assert_array_equal(axes.lines[1].get_ydata(), result.total("loop"))
    plot = result.plot()
    plot.figure.canvas.draw()
    legend = plot.legend.get_window_extent()
    assert legend.y1 < plot.axes[0, 0].get_tightbbox().y0  # below all that is drawn
    colors = [line.get_color() for line in plot.axes[0, 0].lines[:4]]
    assert len(set(colors)) == 4
    assert not {"black", "#D55E00", "#0072B2"} & set(
        colors
    )  # true, published, estimated
    in_minutes = result.plot(time_unit="min").axes[0, 0]
    assert "30 samples or 3 min" in in_minutes.get_xlabel()
    plt.close("all")


@pytest.mark.parametrize("times, is_shown", [(2.9, True), (3.1, False)])
def test_a_loop_without_measurements_is_on_the_plot_up_to_three_times_the_dearest(
    result, times, is_shown
):
    dearest = max(result.total(design).max() for design in result.costs)
    blind = replace(result, open_loop=LoopCost(times * dearest, 0.0, 0.0))
    (ax,) = blind.plot().axes.flat
    labels = [line.get_label() for line in ax.lines]
    assert ("no measurements (open loop)" in labels) == is_shown
    plt.close("all")


def test_unknown_designs_and_bad_budgets_raise():
    with pytest.raises(
        ValueError,
        match="designs: expected one of 'trace', 'loop', 'iid', 'codesign', 'laplace', 'ball', 'truncated', 'auto', got 'best'",
    ):
        pc.tradeoff(pc.plants.vehicle(), **SETUP, epsilons=[1.0], designs=["best"])
    with pytest.raises(ValueError, match="epsilon"):
        pc.tradeoff(pc.plants.vehicle(), **SETUP, epsilons=[-1.0])
    with pytest.raises(
        TypeError, match=r"executor: expected a concurrent\.futures\.Executor"
    ):
        pc.tradeoff(pc.plants.vehicle(), **SETUP, epsilons=[1.0], executor=map)


def test_a_loop_that_costs_more_than_no_control_says_so():
    noise = cases.vehicle_noise()
    with pytest.warns(
        pc.PrivacyWarning, match=r"costs 8\.06e\+03 .* no control at all 2\.3.e\+03"
    ):
        pc.private_lqg(pc.plants.vehicle(), **cases.TUTORIAL, noise=noise)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        pc.private_lqg(pc.plants.vehicle(), 1, 1, 2, 1, noise)


@pytest.mark.slow
@pytest.mark.parametrize(
    "seed, form", [(7, "predictor"), (10, "filter"), (25, "filter")]
)
def test_loops_with_a_prior_cost_least_over_short_horizons_too(seed, form):
    """Gains that weigh the state after the run let costs rise, and exceed no control's."""
    rng = np.random.default_rng(seed)
    plant = cases.random_plant(seed, states=int(rng.integers(1, 4)), radius=0.9)
    designs = ("trace", "loop", "iid", "codesign", "laplace")
    result = pc.tradeoff(
        plant,
        1,
        np.diag(rng.uniform(0.1, 2, 2)),
        0.1,
        0.1,
        horizon=5,
        adjacency=pc.StateAdjacency(1.0, times=0),
        epsilons=[0.05, 0.3, 1, 4],
        delta=1e-2,
        designs=designs,
        form=form,
        P0=1.0,
    )
    for design in designs:
        costs = result.total(design)
        assert (np.diff(costs) <= 1e-9 * costs[:-1]).all()
        assert (costs <= result.open_loop.total * (1 + 1e-9)).all()
        assert (costs >= result.public.total * (1 - 1e-9)).all()
        allowed = 0.3 * costs[1] + 0.7 * costs[0]
        budget = result.budget_at(cost=allowed, design=design)
        loop = result.loop(design, budget)
        assert result.expected.cost(loop.data).total <= allowed * (1 + 1e-8)


def test_a_loop_that_no_steady_state_has_is_priced_by_its_runs():
    """A place that costs nothing: the README's loop was refused, for want of terminal=0."""
    drone = ct.ss(
        [[1, 0.5], [0, 0.9]],
        [[0.1], [0.5]],
        np.eye(2),
        0,
        0.5,
        states=["place", "speed"],
    )
    weights = {
        "Q": np.diag([0, 1]),
        "R": 0.5,
        "QN": np.diag([0, 0.04]),
        "RN": np.diag([4, 0.04]),
    }
    given = {"horizon": 20, "adjacency": pc.InitialStateAdjacency({"place": 100.0})}
    P0 = np.diag([1e4, 1.0])
    found = pc.tradeoff(drone, **weights, **given, P0=P0, epsilons=[1.0], delta=1e-2)
    drawn = dict.fromkeys(
        ["initial_state", "disturbance", "measurement_noise"], "design"
    )
    budget = pc.PrivacyBudget(epsilon=1.0, delta=1e-2)
    for design, family in (("trace", "gaussian"), ("iid", "iid-gaussian")):
        noise = pc.design_output_noise(
            drone, **given, budget=budget, family=family, models="exact"
        )
        loop = pc.private_lqg(drone, **weights, noise=noise, P0=P0, terminal=0)
        assert found.total(design)[0] == pytest.approx(loop.cost(**drawn).total)
    spread, cost = P0, 0.0
    for _ in range(20):  # without inputs
        cost += spread[1, 1]
        spread = drone.A @ spread @ drone.A.T + weights["QN"]
    assert found.open_loop.total == pytest.approx(cost)


@pytest.mark.parametrize("epsilons", [[0.3, 1.0, 3.0], [0.1, 1.0, 6.0]])
def test_numbers_of_an_axis_stand_apart(epsilons):
    """3 x 10^-1 and 4 x 10^-1 were written over each other."""
    found = pc.tradeoff(
        pc.plants.vehicle(), **SETUP, epsilons=epsilons, designs=["trace"], P0=1.0
    )
    plot = found.plot()
    plot.figure.canvas.draw()
    axis = plot.axes[0, 0].xaxis
    labels = axis.get_ticklabels() + axis.get_ticklabels(minor=True)
    low, high = axis.get_view_interval()
    shown = sorted(
        (label.get_position()[0], label) for label in labels if label.get_text()
    )
    boxes = [
        label.get_window_extent() for place, label in shown if low <= place <= high
    ]
    assert len(boxes) >= 3
    assert all(one.x1 < other.x0 for one, other in pairwise(boxes))
    plt.close("all")
