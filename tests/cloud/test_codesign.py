"""Co-design is never worse than doing nothing, falls with epsilon, and finds what many restarts find."""

import warnings

import cases
import control as ct
import numpy as np
import pytest

import privcontrol as pc
from privcontrol.cloud.codesign import GainProblem, descend
from privcontrol.cloud.gains import observer_gain

EPSILONS = [0.3, 0.5, 0.7, 1.0]


def assert_sound(result):
    curve = result.total("codesign")
    assert (np.diff(curve) <= 0).all()
    assert (curve <= result.open_loop.total * (1 + 1e-9)).all()


@pytest.mark.slow
def test_the_tutorials_curve_falls_stays_below_the_open_loop_and_is_that_of_single_calls():
    result = cases.tutorial_codesigns(EPSILONS)
    assert_sound(result)
    assert result.total("codesign")[-1] < 2150
    for epsilon, cost in zip(EPSILONS[::3], result.costs["codesign"][::3]):
        budget = pc.PrivacyBudget(epsilon=epsilon, delta=1e-2)
        noise = cases.vehicle_noise(horizon=100, budget=budget)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", pc.PrivacyWarning)
            single = pc.private_lqg(
                pc.plants.vehicle(), **cases.TUTORIAL, noise=noise, codesign=True
            )
        assert single.history[-1][1] == pytest.approx(cost.total, rel=1e-3)


def uncontrolled(loop, P0):
    """tr(Q P(t)) summed over the horizon, for x+ = A x + w without control."""
    P = np.array(P0, dtype=float)
    total = 0.0
    for _ in range(loop.noise.horizon):
        total += np.trace(loop.Q @ P)
        P = loop.plant.A @ P @ loop.plant.A.T + loop.G @ loop.QN @ loop.G.T
    return total


def codesign_cost(loop, P0):
    """Its exact cost by the moments of the loop, over draws of x(0) of covariance P0."""
    known = {"disturbance": "design", "measurement_noise": "design"}
    total = loop.cost(**known).total
    for column in np.linalg.cholesky(P0).T:
        total += loop.cost(initial_state=column).regulation
    return total


@pytest.mark.parametrize("epsilon", [0.1, 1.0])
@pytest.mark.parametrize("family", ["iid-gaussian", "gaussian", "iid-laplace"])
def test_gains_for_a_vehicle_in_large_noise_cost_less_than_no_control(family, epsilon):
    budget = pc.PrivacyBudget(epsilon=epsilon, delta=1e-2)
    noise = cases.vehicle_noise(horizon=100, budget=budget, family=family)
    loop = pc.private_lqg(
        pc.plants.vehicle(),
        1,
        5,
        np.diag([1e-4, 1e-2]),
        1e-2,
        noise,
        codesign=True,
        P0=np.zeros((2, 2)),
    )
    cost = loop.cost(disturbance="design", measurement_noise="design").total
    assert cost <= uncontrolled(loop, np.zeros((2, 2)))


KINDS = {
    "independent": {
        "adjacency": pc.StateAdjacency(1.0, times=range(3)),
        "family": "iid-gaussian",
    },
    "correlated": {"adjacency": pc.DisturbanceAdjacency(1.0)},
    "floored": {"adjacency": pc.StateAdjacency(1.0, times=range(3)), "floor": 0.3},
}


@pytest.mark.parametrize("kind", list(KINDS))
@pytest.mark.parametrize(
    "seed", [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(1, 10))]
)
def test_every_noise_is_never_worse_than_no_control_and_falls(kind, seed):
    plant = cases.random_plant(seed, states=2, inputs=1, outputs=1)
    costs = []
    for epsilon in (0.1, 0.5, 2.0):
        budget = pc.PrivacyBudget(epsilon=epsilon, delta=1e-2)
        noise = pc.design_output_noise(plant, horizon=10, budget=budget, **KINDS[kind])
        loop = pc.private_lqg(plant, 1, 1, 0.3, 0.2, noise, codesign=True)
        P0 = observer_gain(loop.plant, loop.weights, None, loop.form)[1]
        cost = codesign_cost(loop, P0)
        assert cost == pytest.approx(loop.history[-1][1], rel=1e-9)
        assert cost <= uncontrolled(loop, P0) * (1 + 1e-12)
        costs.append(cost)
    assert (np.diff(costs) <= 0).all()


def small(seed, epsilons, **options):
    plant = cases.random_plant(seed, states=2, inputs=1, outputs=1)
    return pc.tradeoff(
        plant,
        1,
        1,
        0.3,
        0.2,
        horizon=10,
        adjacency=pc.StateAdjacency(1.0, times=range(3)),
        epsilons=epsilons,
        delta=1e-2,
        designs=("codesign",),
        **options,
    )


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(30))
def test_random_plants_are_never_worse_than_the_open_loop_and_fall(seed):
    assert_sound(small(seed, [0.2, 1.0]))


def test_a_loop_that_starts_at_rest_is_never_worse_than_the_open_loop():
    assert_sound(small(1, [0.2, 1.0], P0=np.zeros((2, 2))))


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2))
def test_the_best_of_200_random_restarts_is_within_two_percent(seed):
    result = small(seed, [1.0])
    loop = result.loop("codesign", 1.0)
    P0 = observer_gain(loop.plant, loop.weights, None, loop.form)[1]
    problem = GainProblem(loop, P0)
    rng = np.random.default_rng(seed)
    best = np.inf
    for _ in range(200):
        K, L = cases.random_gains(loop, rng)
        run = descend(problem, K, L, 0.1)
        best = min(best, run.cost)
    assert result.total("codesign")[0] <= 1.02 * best


def test_a_codesign_for_a_known_start_costs_less_than_the_plain_loop():
    """Designed for a start at zero it costs more than that, in a run from far off."""
    vehicle = pc.plants.vehicle()
    noise = cases.vehicle_noise(horizon=40)
    public = pc.private_lqg(vehicle, **cases.TUTORIAL)
    start = [-20.0, 0.0]
    drawn = {"disturbance": "design", "measurement_noise": "design"}
    costs = []
    for known in ({}, {"initial_state": start}):
        loop = pc.private_lqg(
            vehicle, **cases.TUTORIAL, noise=noise, codesign=True, **known
        )
        costs.append(loop.cost(initial_state=start, **drawn).total)
    plain = public.with_noise(noise).cost(initial_state=start, **drawn).total
    assert costs[1] < 0.8 * plain < 0.8 * costs[0]
    P0 = observer_gain(loop.plant, loop.weights, None, loop.form)[1]
    spread = codesign_cost(loop, P0) - loop.cost(**drawn).total
    assert costs[1] + spread == pytest.approx(loop.history[-1][1], rel=1e-9)


@pytest.mark.parametrize(
    "far", [{"initial_state": [-20.0, 0.0]}, {"reference": [3.0, 0.0]}]
)
def test_a_tradeoffs_codesign_is_never_dearer_than_the_plain_loop_it_started_from(far):
    result = pc.tradeoff(
        pc.plants.vehicle(),
        **cases.TUTORIAL,
        horizon=30,
        adjacency=cases.POSITION,
        epsilons=[1.0],
        delta=1e-2,
        designs=("codesign", "loop"),
        **far,
    )
    assert result.total("codesign") <= result.total("loop") * (1 + 1e-12)


def test_the_barrier_has_its_exact_gradient():
    plant = cases.random_plant(1, states=3, feedthrough=True)
    noise = pc.design_output_noise(
        plant,
        horizon=8,
        budget=cases.BUDGET,
        adjacency=pc.StateAdjacency({"s0": 1.0}, times=0),
    )
    for form in ("predictor", "filter"):
        loop = pc.private_lqg(plant, 1, 1, 0.3, 0.2, noise, form=form)
        problem = GainProblem(loop, np.eye(3))
        rng = np.random.default_rng(0)
        dK, dL = rng.normal(size=loop.K.shape), rng.normal(size=loop.L.shape)

        def at(h, loop=loop, problem=problem, dK=dK, dL=dL):
            return problem.at(loop.K + h * dK, loop.L + h * dL)

        by_K, by_L = at(0.0).margin_gradient()
        slope = np.sum(by_K * dK) + np.sum(by_L * dL)
        assert slope == pytest.approx(
            (at(1e-6).margin - at(-1e-6).margin) / 2e-6, rel=1e-5
        )


def test_a_loop_that_costs_more_than_no_control_says_so():
    noise = cases.vehicle_noise()
    with pytest.warns(
        pc.PrivacyWarning, match=r"costs 8\.06e\+03 .* no control at all 2\.3.e\+03"
    ):
        pc.private_lqg(pc.plants.vehicle(), **cases.TUTORIAL, noise=noise)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        pc.private_lqg(pc.plants.vehicle(), 1, 1, 2, 1, noise)


def test_a_budget_for_a_cost_is_one_at_which_a_loop_has_that_cost():
    designs = ("trace", "loop", "iid", "laplace")
    result = pc.tradeoff(
        pc.plants.vehicle(),
        20,
        1,
        1.0,
        1e-2,
        horizon=20,
        adjacency=cases.POSITION,
        epsilons=[1.0, 0.1],
        delta=1e-2,
        designs=designs,
    )
    for design in designs:
        low, high = sorted(result.total(design))
        wanted = 0.7 * low + 0.3 * high
        budget = result.budget_at(wanted, design=design)
        assert 0.1 < budget.epsilon < 1.0
        loop = result.loop(design, budget)
        assert loop.guarantee.satisfies(budget)
        drawn = loop.cost(disturbance="design", measurement_noise="design")
        regulation = result.costs[design][0].regulation
        total = drawn.privacy + drawn.disturbance + regulation
        assert total <= wanted * (1 + 1e-6)
    best = result.budget_at(wanted)
    assert best.epsilon <= min(
        result.budget_at(wanted, design=design).epsilon for design in designs
    )
    with pytest.raises(ValueError, match="costs as little as 0.001, with any noise"):
        result.budget_at(1e-3)


def physical(**options):
    secret = pc.StateAdjacency({"position": 0.3})
    options = {"horizon": 40, "adjacency": secret} | options
    weights = {"Q": 20.0, "R": 1.0, "QN": 1e-2, "RN": 1e-2}
    return pc.tradeoff(pc.plants.vehicle(), **weights, delta=1e-2, **options)


@pytest.mark.parametrize(
    "design",
    ["trace", "iid", "laplace", pytest.param("codesign", marks=pytest.mark.slow)],
)
def test_a_budget_for_an_rms_error_is_one_at_which_trials_have_that_error(design):
    """40,000 trials: five standard errors, which see noise twenty percent off."""
    start = np.array([0.2, -0.1])
    P0 = np.outer(start, start)  # x(0) = start or -start
    result = physical(epsilons=[1.0, 3.0, 9.0], designs=(design,), P0=P0)
    errors = result.rms(design, "position")
    assert (np.diff(errors) < 0).all()
    limits = {"position": np.mean(errors[1:])}
    budget = result.budget_at(rms=limits, design=design)
    assert 1.0 < budget.epsilon < 9.0
    loop = result.loop(design, budget, rms=limits)
    assert loop.guarantee.satisfies(budget)
    drawn = {"disturbance": "design", "measurement_noise": "design"}
    response = loop.simulate(initial_state=start, trials=40_000, rng=0, **drawn)
    exact = loop.mean_square_error(initial_state=start, **drawn)[0]
    squares = np.asarray(response.states)[0, :, exact.argmax()] ** 2
    spread = squares.std() / np.sqrt(len(squares))
    excess = squares.mean() - limits["position"] ** 2
    assert abs(excess) < 5 * spread
    by_noise = loop.mean_square_error()[0, exact.argmax()]
    assert abs(excess + 0.44 * by_noise) > 5 * spread
    detected = result.detections(design, 0.05)
    assert detected[0] < loop.guarantee.detection(0.05) < detected[-1]


def test_errors_and_a_cost_are_met_together_and_impossible_ones_are_refused():
    result = physical(epsilons=[1.0, 3.0, 9.0], designs=("trace", "iid"))
    cost = result.total("trace")[1]
    velocity = 1.01 * result.rms("trace", "velocity")[2]
    position = 1.01 * result.rms("trace", "position")[1]
    limits = {"position": position, "velocity": velocity}
    both = result.budget_at(cost, rms=limits)
    alone = [result.budget_at(cost), result.budget_at(rms=limits)]
    assert both.epsilon >= max(budget.epsilon for budget in alone)
    loop = result.loop(
        "trace", result.budget_at(rms=limits, design="trace"), rms=limits
    )
    drawn = {"disturbance": "design", "measurement_noise": "design"}
    mine = np.sqrt(loop.mean_square_error(**drawn).max(axis=1))
    assert mine[0] <= position and mine[1] <= velocity
    with pytest.raises(
        ValueError, match=r"rms: no loop .* the least here are position 0.4"
    ):
        result.budget_at(rms={"position": 1e-6})
    with pytest.raises(ValueError, match="rms: expected one of 'position', 'velocity'"):
        result.budget_at(rms={"speed": 1.0})
    with pytest.raises(TypeError, match="rms: expected a mapping of states to errors"):
        result.budget_at(rms=0.5)
    with pytest.raises(TypeError, match="expected a cost, or errors"):
        result.budget_at()


def test_errors_in_steady_state_buy_a_budget_too():
    result = pc.tradeoff(
        ct.ss(0.9, [[1, 0.1]], 1, 0, 1.0, states=["air"], inputs=["heat", "people"]),
        1,
        1,
        1e-2,
        1e-2,
        horizon=np.inf,
        adjacency=pc.DisturbanceAdjacency({"people": 1.0}),
        controls=["heat"],
        epsilons=[0.3, 1.0, 3.0],
        delta=1e-2,
        designs=("trace",),
    )
    loop = result.loop("trace", 1.0)
    kelvin = result.rms("trace", "air")[1]
    assert kelvin == pytest.approx(np.sqrt(loop.steady_state_error()[0]), rel=1e-12)
    budget = result.budget_at(rms={"air": kelvin})
    assert budget.epsilon <= 1.0 + 1e-9


def test_no_curve_rises_when_gains_of_stricter_budgets_are_better(monkeypatch):
    """The loop of the looser budget is made a bad one, as a descent that fails would make it."""
    from privcontrol.cloud import sweep

    whole = sweep._evaluated

    def spoiled(task):
        _, expected, _, request = task
        cost, loop = whole(task)
        if request.budget.epsilon > 3.0:
            loop = loop.with_gains(1.5 * loop.K, loop.L)
            cost = expected.cost(loop)
        return cost, loop

    monkeypatch.setattr(sweep, "_evaluated", spoiled)
    designs = ("iid", "trace", "loop")
    result = physical(epsilons=[2.9, 3.1], designs=designs)
    for design in result.costs:
        first, second = result.total(design)
        assert second < first < result.open_loop.total
        loop = result.loop(design, 3.1)
        assert loop.guarantee.satisfies(pc.PrivacyBudget(epsilon=3.1, delta=1e-2))
