"""The cost of a loop is exact, splits by cause, and is what loop-optimal noise minimises."""

import cases
import control as ct
import numpy as np
import pytest
import scipy.linalg
from repeats import few

import privcontrol as pc

DRAWN = {"disturbance": "design", "measurement_noise": "design"}
FORMS, FAMILIES = ["predictor", "filter"], ["gaussian", "iid-gaussian"]


def noisy_loop(form="predictor", family="gaussian", seed=3, horizon=20, **weights):
    plant = cases.random_plant(seed, states=4, feedthrough=True)
    request = {
        "horizon": horizon,
        "budget": cases.BUDGET,
        "adjacency": pc.StateAdjacency(1.0, times=range(3)),
    }
    noise = pc.design_output_noise(plant, **request, family=family)
    return pc.private_lqg(
        plant,
        **({"Q": 1, "R": 1, "QN": 10.0, "RN": 1.0} | weights),
        noise=noise,
        form=form,
    )


def signals(loop, seed=0):
    rng = np.random.default_rng(seed)
    sizes = {
        "reference": (4, loop.noise.horizon),
        "feedforward": (2, loop.noise.horizon),
        "initial_state": 4,
    }
    return {name: 0.3 * rng.normal(size=size) for name, size in sizes.items()}


def sampled_costs(loop, trials, given, **options):
    """The cost of each trial, summed from its signals."""
    response = loop.simulate(**given, **options, trials=trials, rng=1)
    e = np.asarray(response.states)[:4] - given["reference"][:, None]
    v = np.asarray(response.outputs)[2:] - given["feedforward"][:, None]
    cross = 0 if loop.N is None else 2 * np.einsum("ikt,ij,jkt->k", e, loop.N, v)
    return (
        np.einsum("ikt,ij,jkt->k", e, loop.Q, e)
        + np.einsum("ikt,ij,jkt->k", v, loop.R, v)
        + cross
    )


@pytest.mark.parametrize(
    "form, family",
    few([*zip(FORMS, FAMILIES), *zip(FORMS, FAMILIES[::-1])], of=2),
)
def test_cost_is_the_mean_over_trials_within_five_standard_errors_and_sees_noise_ten_percent_off(
    form, family
):
    loop, trials = noisy_loop(form, family, N=0.2 * np.ones((4, 2))), 40_000
    given = signals(loop)
    costs = sampled_costs(loop, trials, given, **DRAWN)
    error = costs.std() / np.sqrt(trials)
    cost = loop.cost(**given, **DRAWN)
    assert abs(costs.mean() - cost.total) < 5 * error
    off = (
        cost.regulation + cost.disturbance + 1.1**2 * cost.privacy
    )  # the standard deviation 10 % off
    assert abs(costs.mean() - off) > 5 * error


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("family", FAMILIES)
def test_parts_add_up_and_each_is_the_cost_of_its_cause_alone(form, family):
    loop = noisy_loop(form, family)
    given = signals(loop)
    cost = loop.cost(**given, **DRAWN)
    assert cost.total == cost.regulation + cost.disturbance + cost.privacy
    time = loop.noise.timepts
    quiet = loop.with_noise(None).cost(time, **given)
    assert (quiet.disturbance, quiet.privacy) == (0, 0)
    assert quiet.total == pytest.approx(cost.regulation, rel=1e-12)
    assert loop.cost().total == pytest.approx(cost.privacy, rel=1e-12)
    assert loop.with_noise(None).cost(time, **DRAWN).total == pytest.approx(
        cost.disturbance, rel=1e-12
    )
    ports = np.vstack([given["reference"], given["feedforward"], np.zeros((2, 20))])
    alone = ct.forced_response(
        loop.closed_loop,
        time,
        ports,
        np.concatenate([given["initial_state"], np.zeros(4)]),
    )
    expected = np.sum((alone.states[:4] - given["reference"]) ** 2)
    expected += np.sum((alone.outputs[2:] - given["feedforward"]) ** 2)
    assert cost.regulation == pytest.approx(expected, rel=1e-10)


def test_given_disturbances_belong_to_the_disturbance_part():
    loop = noisy_loop()
    given, w = signals(loop), np.random.default_rng(5).normal(size=(4, 20))
    cost, base = loop.cost(**given, disturbance=w), loop.cost(**given)
    assert cost.regulation == base.regulation
    assert cost.privacy == base.privacy
    trial = loop.with_noise(None)
    both = trial.cost(loop.noise.timepts, **given, disturbance=w)
    assert cost.disturbance == pytest.approx(both.total - base.regulation, rel=1e-10)
    opposite = loop.cost(**given, disturbance=-w)  # the cross term cancels
    alone = trial.cost(loop.noise.timepts, disturbance=w).total
    assert cost.disturbance + opposite.disturbance == pytest.approx(2 * alone, rel=1e-9)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("family", FAMILIES)
def test_privacy_cost_is_the_trace_of_the_cost_map_with_the_noise_covariance(
    form, family
):
    loop = noisy_loop(form, family, N=0.1 * np.ones((4, 2)))
    half = loop.noise_weight(20)(np.eye(40))
    covariance = np.block(
        [[loop.noise.covariance(t, s) for s in range(20)] for t in range(20)]
    )
    assert loop.cost().privacy == pytest.approx(
        np.trace(half @ covariance @ half.T), rel=1e-10
    )


@pytest.mark.parametrize("form", FORMS)
def test_long_horizon_cost_per_sample_is_the_stationary_cost_of_the_lyapunov_equation(
    form,
):
    loop = noisy_loop(form, "iid-gaussian", horizon=1500)
    time = loop.noise.timepts
    per_sample = loop.cost(time, **DRAWN).total - loop.cost(time[:-1], **DRAWN).total
    system, n = loop.closed_loop, 4
    gamma = loop.RN + np.diag(
        loop.noise.process.scale**2
    )  # measurement noise enters where the output noise does
    enter, through = system.B[:, 6:], system.D[2:, 6:]
    process = np.zeros((8, 8))
    process[:n, :n] = loop.QN
    state = scipy.linalg.solve_discrete_lyapunov(
        system.A, process + enter @ gamma @ enter.T
    )
    control = system.C[2:] @ state @ system.C[2:].T + through @ gamma @ through.T
    stationary = np.trace(state[:n, :n]) + np.trace(control)
    assert per_sample == pytest.approx(stationary, rel=1e-8)


def test_mean_square_error_is_the_cost_with_unit_weight_on_the_states():
    loop = noisy_loop()
    given = signals(loop)
    only_states = pc.private_loop(
        cases.random_plant(3, states=4, feedthrough=True),
        loop.K,
        loop.L,
        loop.noise,
        Q=1,
        R=0,
        QN=10.0,
        RN=1.0,
    )
    assert only_states.cost(**given, **DRAWN).total == pytest.approx(
        only_states.mean_square_error(**given, **DRAWN).sum(), rel=1e-12
    )


def test_a_loop_without_weights_has_no_cost():
    with pytest.raises(ValueError, match="the loop has no cost: pass Q and R"):
        cases.vehicle_loop(cases.vehicle_noise()).cost()
    with pytest.raises(ValueError, match="draws from QN, which the loop was not given"):
        cases.vehicle_loop(cases.vehicle_noise(), Q=1, R=1).cost(disturbance="design")


@pytest.mark.parametrize("seed", few(range(30), of=5))
def test_loop_optimal_noise_costs_no_more_than_trace_optimal_or_independent_noise(seed):
    loop = cases.random_loop(seed, states=3)
    plant = cases.random_plant(seed, states=3)
    request = {
        "horizon": 10,
        "budget": cases.BUDGET,
        "adjacency": pc.StateAdjacency([1.0, 0.5, 2.0], times=range(4)),
    }
    optimal = pc.design_output_noise(plant, **request, weight=loop, max_std=np.inf)
    cost = loop.with_noise(optimal).cost().privacy
    assert cost == pytest.approx(optimal.design.cost, rel=1e-9)
    for options in ({}, {"family": "iid-gaussian"}):
        other = (
            loop.with_noise(
                pc.design_output_noise(plant, **request, **options, max_std=np.inf)
            )
            .cost()
            .privacy
        )
        assert (
            optimal.design.lower_bound
            <= cost
            <= other * (1 + optimal.design.gap + 1e-9)
        )
