"""Delays as states, and secrets of plants that have them, by dense maps."""

import control as ct
import numpy as np
import oracles
import pytest
import scipy.linalg
from repeats import few

import privcontrol as pc
from privcontrol.core import kappa_inverse

BUDGET = pc.PrivacyBudget(epsilon=1.0, delta=1e-2)
ALLOWED = kappa_inverse(1.0, 1e-2)
A = np.array([[0.95, 0.1], [-0.2, 0.8]])
B = np.array([[0.1, 0.3], [0.5, 0.0]])
C = np.array([[1.0, 0.0]])
NAMES = {"states": ["level", "flow"], "inputs": ["pump", "rain"], "outputs": ["sensor"]}


def plant():
    return ct.ss(A, B, C, [[0.0, 0.2]], 2.0, **NAMES)


def test_integer_delays_shift_inputs_and_outputs():
    late = pc.with_delays(plant(), {"pump": 3, "rain": 1, "sensor": 2})
    assert late.state_labels == [
        "level",
        "flow",
        "pump_1",
        "pump_2",
        "pump_3",
        "rain_1",
        "sensor_1",
        "sensor_2",
    ]
    rng = np.random.default_rng(0)
    time = 2.0 * np.arange(30)
    u = rng.normal(size=(2, 30))
    shifted = np.vstack([np.r_[np.zeros(3), u[0, :-3]], np.r_[0.0, u[1, :-1]]])
    expected = ct.forced_response(plant(), time, shifted).outputs[0]
    got = ct.forced_response(late, time, u).outputs[0]
    assert got[:2] == pytest.approx(0.0)
    assert got[2:] == pytest.approx(expected[:-2], abs=1e-12)


def test_a_part_of_a_sample_is_exact_for_held_inputs():
    tank = ct.ss([[-0.5, 1.0], [0.0, -1.0]], [[0.0], [1.0]], [[1.0, 0.0]], 0.3)
    late = pc.with_delays(tank, {"u[0]": 1.7}, dt=1.0)
    fine = 10  # steps of 0.1 s, in which a delay of 1.7 s is a whole number
    u = np.random.default_rng(1).normal(size=15)
    held = np.repeat(u, fine)
    delayed = np.r_[np.zeros(17), held[:-17]]
    sampled = ct.sample_system(tank, 1 / fine)
    every = ct.forced_response(sampled, np.arange(len(held)) / fine, delayed).outputs
    got = ct.forced_response(late, np.arange(15.0), u).outputs
    assert got == pytest.approx(every[::fine], abs=1e-12)


def test_states_beside_delayed_inputs_are_protected_at_all_times():
    late = pc.with_delays(plant(), {"pump": 3})
    adjacency = pc.StateAdjacency({"level": 1.0, "flow": 0.5})
    horizon = 6
    noise = pc.design_output_noise(
        late, horizon=horizon, budget=BUDGET, adjacency=adjacency, models="exact"
    )
    stack = oracles.dense_observability(A, C, horizon)
    moves = [
        np.linalg.matrix_power(np.linalg.inv(A), j) @ move
        for j in range(horizon)
        for move in np.diag([1.0, 0.5])
    ]
    responses = stack @ np.array(moves).T
    delayed = oracles.dense_observability(late.A, late.C, horizon)
    covariance = delayed @ noise.initial_state_covariance @ delayed.T
    shifts = np.einsum("ij,ij->j", responses, np.linalg.pinv(covariance) @ responses)
    assert np.sqrt(shifts.max()) == pytest.approx(ALLOWED, rel=1e-6)
    without = pc.design_output_noise(
        plant(), horizon=horizon, budget=BUDGET, adjacency=adjacency, models="exact"
    )
    assert noise.design.cost == pytest.approx(without.design.cost, rel=1e-8)
    assert "moves of pump_1, pump_2, pump_3" in noise.guarantee.sentence


@pytest.mark.parametrize("kind", ["initial", "disturbance"])
def test_secrets_of_singular_plants_match_the_dense_map(kind):
    late = pc.with_delays(plant(), {"rain": 2, "sensor": 1})
    horizon = 7
    if kind == "initial":
        adjacency = pc.InitialStateAdjacency({"level": 1.0, "rain_1": 0.5}, norm=1)
        moves = np.zeros((late.nstates, 2))
        moves[0, 0], moves[late.state_labels.index("rain_1"), 1] = 1.0, 0.5
        responses = oracles.dense_observability(late.A, late.C, horizon) @ moves
    else:
        adjacency = pc.DisturbanceAdjacency(0.7, inputs=["rain"])
        markov = [late.D[:, [1]]]
        markov.extend(
            late.C @ np.linalg.matrix_power(late.A, t) @ late.B[:, [1]]
            for t in range(horizon - 1)
        )
        responses = 0.7 * np.array(
            [
                [markov[t - s][0, 0] if t >= s else 0.0 for s in range(horizon)]
                for t in range(horizon)
            ]
        )
    noise = pc.design_output_noise(
        late, horizon=horizon, budget=BUDGET, adjacency=adjacency, models="exact"
    )
    factor = noise.design.mechanism.noise.factor
    solved, *_ = np.linalg.lstsq(factor, responses, rcond=None)
    assert factor @ solved == pytest.approx(responses, abs=1e-6)
    worst = np.linalg.norm(solved, axis=0).max()
    assert worst == pytest.approx(noise.guarantee.gdp, rel=1e-5)
    assert noise.guarantee.satisfies(BUDGET)


def test_what_cannot_be_moved_is_named():
    late = pc.with_delays(plant(), {"pump": 1})
    request = {"horizon": 5, "budget": BUDGET}
    with pytest.raises(ValueError, match="pump_1: a delayed input"):
        pc.design_output_noise(late, adjacency=pc.StateAdjacency(1.0), **request)
    later = pc.with_delays(plant(), {"pump": 3})
    several = (
        "pump_1, pump_2 and pump_3: delayed inputs, at t > 0 they are what entered"
    )
    with pytest.raises(ValueError, match=several):
        pc.design_output_noise(later, adjacency=pc.StateAdjacency(1.0), **request)
    read = pc.with_delays(plant(), {"sensor": 1})
    with pytest.raises(ValueError, match="sensor_1: a delayed output"):
        pc.design_output_noise(read, adjacency=pc.StateAdjacency(1.0), **request)
    forgets = ct.ss([[0.5, 0.5], [0.5, 0.5]], B, C, 0, 2.0, **NAMES)
    with pytest.raises(ValueError, match="singular beyond its delays"):
        pc.design_output_noise(
            forgets, adjacency=pc.StateAdjacency({"level": 1.0}), **request
        )


@pytest.mark.parametrize("floor", [0.0, 0.4])
@pytest.mark.parametrize("delays", [{"sensor": 2}, {"pump": 1, "sensor": 3}])
def test_states_at_any_time_are_hidden_behind_delayed_outputs(floor, delays):
    """The outputs differ as those without the delay did, d samples before."""
    late = pc.with_delays(plant(), delays)
    adjacency = pc.StateAdjacency({"level": 1.0, "flow": 0.5})
    horizon, d = 6, delays["sensor"]
    noise = pc.design_output_noise(
        late,
        horizon=horizon,
        budget=BUDGET,
        adjacency=adjacency,
        floor=floor,
        models="exact",
    )
    power = np.linalg.matrix_power
    inverse = np.linalg.inv(A)
    responses = []
    for j in range(horizon):
        for move in np.diag([1.0, 0.5]):
            first = power(inverse, j + d) @ move
            read = [C @ power(A, t) @ first for t in range(horizon)]
            responses.append(np.concatenate(read))
    for move in np.diag([1.0, 0.5]):  # at t = 0 what is read later is also held
        read = [C @ power(A, t) @ move for t in range(horizon - d)]
        responses.append(np.concatenate([np.zeros(d), *read]))
    responses = np.array(responses).T
    dense = noise.process.responses.reshape(horizon, -1)
    covariance = dense @ dense.T + floor**2 * np.eye(horizon)
    solved = np.linalg.pinv(covariance, rcond=1e-11) @ responses
    if not floor:
        assert covariance @ solved == pytest.approx(responses, abs=1e-6)
    worst = np.sqrt(np.einsum("ij,ij->j", responses, solved).max())
    assert worst == pytest.approx(noise.guarantee.gdp, rel=1e-5)
    assert worst == pytest.approx(ALLOWED, rel=1e-5)
    assert noise.guarantee_for([late]).gdp == pytest.approx(worst, rel=1e-5)


def delayed_states(late):
    """Masks of delayed inputs and of delayed outputs, by the powers of blocks of A."""
    labels = late.state_labels
    queued = [label.rsplit("_", 1)[0] for label in labels]
    entered = np.array([name in late.input_labels for name in queued])
    read = np.array([name in late.output_labels for name in queued])
    return entered, read


def literal_moves(late, radii, time):
    """All moves of the first state that StateAdjacency names, by solving for the state.

    The state moves alone at the time; delayed inputs do not; delayed outputs are held at
    t = 0, or are what a run that began long before has left in them.
    """
    entered, read = delayed_states(late)
    own = ~entered & ~read
    order = len(late.A)
    back = 4  # more samples than any delay
    every = []
    for k in np.flatnonzero(own):
        step = late.A[np.ix_(own, own)]
        wanted = radii[late.state_labels[k]] * np.eye(order)[own, k]
        long_ago = np.zeros(order)
        long_ago[own] = np.linalg.solve(
            np.linalg.matrix_power(step, time + back), wanted
        )
        following = np.linalg.matrix_power(late.A, back) @ long_ago
        assert not following[entered].any()
        then = np.linalg.matrix_power(late.A, time) @ following
        assert then[own] == pytest.approx(wanted, abs=1e-9)
        every.append(following)
        if time == 0:
            every.append(radii[late.state_labels[k]] * np.eye(order)[:, k])
    return np.array(every).T


@pytest.mark.parametrize("seed", few(range(12), of=3))
@pytest.mark.parametrize("kinds", [("input",), ("output",), ("input", "output")])
@pytest.mark.parametrize("floor", [0.0, 0.1])
def test_random_delays_hide_every_move_at_every_time(seed, kinds, floor):
    rng = np.random.default_rng([seed, len(kinds), kinds[0] == "input"])
    order, inputs, outputs = rng.integers(1, 3, size=3)
    frame = np.eye(order) + 0.3 * rng.normal(size=(order, order))
    A = frame @ np.diag(rng.uniform(0.6, 1.05, order)) @ np.linalg.inv(frame)
    B = rng.normal(size=(order, inputs))
    C = rng.normal(size=(outputs, order))
    plant = ct.ss(A, B, C, np.zeros((outputs, inputs)), 1.0)
    names = [f"u[{k}]" for k in range(inputs)] * ("input" in kinds)
    names += [f"y[{k}]" for k in range(outputs)] * ("output" in kinds)
    late = pc.with_delays(plant, {name: int(rng.integers(1, 4)) for name in names})
    radii = {f"x[{k}]": float(rng.uniform(0.5, 2.0)) for k in range(order)}
    horizon = 6
    adjacency = pc.StateAdjacency(radii)
    noise = pc.design_output_noise(
        late,
        horizon=horizon,
        budget=BUDGET,
        adjacency=adjacency,
        floor=floor,
        models="exact",
        max_std=np.inf,
    )
    dense = noise.process.responses.reshape(horizon * outputs, -1)
    covariance = dense @ dense.T + floor**2 * np.eye(horizon * outputs)
    stack = oracles.dense_observability(late.A, late.C, horizon)
    worst = []
    for time in range(horizon):
        responses = stack @ literal_moves(late, radii, time)
        scale = np.abs(responses).max()
        root = scipy.linalg.svd(dense)[0] if not floor else None
        if root is not None:  # what noise does not cover is told exactly
            sizes = np.linalg.norm(dense, 2)
            rank = np.linalg.matrix_rank(dense, tol=1e-9 * sizes)
            bare = root[:, rank:].T @ responses
            assert np.abs(bare).max(initial=0.0) < 1e-6 * scale
        solved = np.linalg.pinv(covariance, rcond=1e-13) @ responses
        worst.append(np.sqrt(np.einsum("ij,ij->j", responses, solved).max()))
    assert max(worst) <= noise.guarantee.gdp * (1 + 1e-4)
    assert max(worst) >= noise.guarantee.gdp * (1 - 1e-4)


@pytest.mark.parametrize("floor", [0.0, 0.1])
def test_a_state_that_only_its_output_reads_is_hidden_at_the_start(floor):
    """y(1) - y(0) was the start itself, since the second state followed at t = 0."""
    tail = ct.ss([[0.9, 0.0], [0.3, 0.0]], [[1.0], [0.0]], [[0.0, 1.0]], 0.0, 1.0)
    noise = pc.design_output_noise(
        tail,
        horizon=4,
        budget=BUDGET,
        adjacency=pc.StateAdjacency({"x[0]": 1.0}),
        floor=floor,
        models="exact",
    )
    dense = noise.process.responses.reshape(4, -1)
    held = np.array([0.0, 0.3, 0.27, 0.243])
    covariance = dense @ dense.T + (floor**2 + 1e-14) * np.eye(4)
    assert np.sqrt(held @ np.linalg.solve(covariance, held)) <= ALLOWED * (1 + 1e-6)
    assert noise.guarantee_for([tail]).gdp <= ALLOWED * (1 + 1e-9)


def test_a_guarantee_for_models_holds_without_a_floor_beside_delayed_inputs():
    late = pc.with_delays(plant(), {"pump": 2})
    noise = pc.design_output_noise(
        late,
        horizon=6,
        budget=BUDGET,
        adjacency=pc.StateAdjacency({"level": 1.0}),
        models="exact",
    )
    assert noise.guarantee_for([late]).gdp == pytest.approx(ALLOWED, rel=1e-6)


def test_models_of_a_delayed_plant_are_covered():
    late = pc.with_delays(plant(), {"pump": 2})
    changed = ct.ss(A * 1.01, B, C, [[0.0, 0.2]], 2.0, **NAMES)
    models = [pc.with_delays(changed, {"pump": 2})]
    noise = pc.design_output_noise(
        late,
        horizon=6,
        budget=BUDGET,
        adjacency=pc.StateAdjacency({"level": 1.0}),
        floor=0.5,
        models=models,
    )
    responses = [
        oracles.dense_observability(1.01 * A, C, 6)
        @ np.linalg.matrix_power(np.linalg.inv(1.01 * A), j)[:, 0]
        for j in range(6)
    ]
    factor = noise.design.mechanism.noise.factor
    covariance = factor @ factor.T
    shifts = [np.sqrt(s @ np.linalg.solve(covariance, s)) for s in responses]
    assert max(shifts) <= noise.guarantee_for(models).gdp * (1 + 1e-9)
    assert max(shifts) == pytest.approx(noise.guarantee_for(models).gdp, rel=1e-6)


@pytest.mark.parametrize(
    "delays, cause",
    [
        ({"valve": 1}, "known names: pump, rain, sensor"),
        ({"pump": 1.5}, "whole number"),
        ({"pump": -1}, ">= 0"),
    ],
)
def test_delays_that_do_not_fit_are_refused(delays, cause):
    with pytest.raises(ValueError, match=cause):
        pc.with_delays(plant(), delays)


def test_time_that_does_not_fit_is_refused():
    with pytest.raises(ct.ControlArgument, match="sampling time"):
        pc.with_delays(ct.ss(-1.0, 1.0, 1.0, 0.0), {"u[0]": 1.0})
    with pytest.raises(ct.ControlArgument, match="discrete-time"):
        pc.with_delays(plant(), {"pump": 1}, dt=1.0)


@pytest.mark.parametrize("times, is_said", [(0, True), (None, False), ([0, 1], False)])
def test_the_guarantee_says_when_delayed_outputs_are_held_only(times, is_said):
    """A move before the run shows at once at a delayed output, unlike one at t = 0."""
    late = pc.with_delays(plant(), {"sensor": 2})
    noise = pc.design_output_noise(
        late,
        horizon=5,
        budget=BUDGET,
        adjacency=pc.StateAdjacency({"level": 1.0}, times=times),
        models="exact",
    )
    assert ("moved with a state before t = 0" in noise.guarantee.explain()) == is_said
    follows = np.concatenate([C @ np.linalg.matrix_power(A, t) for t in range(5)])
    covered = noise.process.responses.reshape(5, -1)
    both = np.hstack([covered, follows[:, :1]])
    is_hidden = np.linalg.matrix_rank(both) == np.linalg.matrix_rank(covered)
    assert is_hidden == (not is_said)


def test_seconds_are_not_taken_for_samples():
    """Samples of five seconds: 60.0 would be five minutes, and another plant."""
    tank = ct.ss(-0.02, 1.0, 1.0, 0, inputs=["pump"], outputs=["level"])
    sampled = tank.sample(5.0)
    sampled = ct.ss(sampled.A, sampled.B, sampled.C, 0, 5.0, inputs=["pump"])
    with pytest.raises(ValueError, match=r"may be seconds; of 5 s each"):
        pc.with_delays(sampled, {"pump": 60.0})
    late = pc.with_delays(sampled, {"pump": np.int64(12)})
    known = pc.with_delays(tank, {"pump": 60.0}, dt=5.0)
    assert late.nstates == known.nstates == 13
    np.testing.assert_allclose(late.A, known.A, atol=1e-12)
    each_second = ct.ss(0.9, 1.0, 1.0, 0, 1.0, inputs=["pump"])
    assert pc.with_delays(each_second, {"pump": 2.0}).nstates == 3
