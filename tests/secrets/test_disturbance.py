"""Secrets that arrive during the run: a disturbance moves, and the noise over the whole horizon hides it."""

import json
from dataclasses import replace

import cases
import control as ct
import numpy as np
import oracles
import pytest
from repeats import few

import privcontrol as pc
from privcontrol import verify
from privcontrol.core import kappa_inverse
from privcontrol.noise.process import promising
from privcontrol.secrets import JointAdjacency

ALLOWED = kappa_inverse(1.0, 1e-2)


def zone(**changes):
    """A room and its wall with two inputs: heater and occupancy."""
    parts = (
        dict(
            A=[[0.9, 0.08], [0.02, 0.97]],
            B=[[0.1, 0.3], [0.0, 0.0]],
            C=[[1.0, 0.0]],
            D=np.zeros((1, 2)),
        )
        | changes
    )
    return ct.ss(
        *parts.values(),
        600.0,
        states=["air", "wall"],
        inputs=["heat", "occupancy"],
        outputs=["T"],
        name="zone",
    )


def images(plant, entry, horizon, through=None):
    """Responses (T p, T q) to unit impulses, by simulating each one."""
    q = np.shape(entry)[1]
    through = np.zeros((plant.noutputs, q)) if through is None else through
    system = ct.ss(plant.A, entry, plant.C, through, 1)
    columns = []
    for t in range(horizon):
        for i in range(q):
            impulse = np.zeros((q, horizon))
            impulse[i, t] = 1.0
            columns.append(
                ct.forced_response(
                    system, np.arange(horizon), impulse, squeeze=False
                ).outputs.T.ravel()
            )
    return np.array(columns).T


def design(plant=None, adjacency=None, *, horizon=12, budget=cases.BUDGET, **options):
    adjacency = (
        pc.DisturbanceAdjacency(0.5, inputs="occupancy")
        if adjacency is None
        else adjacency
    )
    return pc.design_output_noise(
        zone() if plant is None else plant,
        horizon=horizon,
        budget=budget,
        adjacency=adjacency,
        **options,
    )


def test_the_response_is_the_block_triangle_of_shifted_impulse_responses():
    plant = cases.random_plant(1, states=3, inputs=2, outputs=2, feedthrough=True)
    noise = design(plant, pc.DisturbanceAdjacency(1.0), horizon=5)
    query = noise.design.mechanism.query
    np.testing.assert_allclose(
        query.response[:, :3],
        oracles.dense_observability(plant.A, plant.C, 5),
        atol=1e-12,
    )
    np.testing.assert_allclose(
        query.response[:, 3:], images(plant, plant.B, 5, plant.D), atol=1e-12
    )
    assert query.manifold.labels[:4] == ("s0(0)", "s1(0)", "s2(0)", "u[0](0)")
    assert query.manifold.contains(np.zeros(13))


@pytest.mark.parametrize("norm", ["single", "l2"])
@pytest.mark.parametrize("family", ["gaussian", "iid-gaussian"])
@pytest.mark.parametrize("seed", few(range(4), of=2))
def test_guarantee_equals_the_dense_computation(norm, family, seed):
    plant = cases.random_plant(seed, states=3, inputs=2, outputs=1 + seed % 2)
    radii = {"u[0]": 0.3, "u[1]": 2.0}
    noise = design(plant, pc.DisturbanceAdjacency(radii, norm=norm), family=family)
    moved = images(plant, plant.B, 12) * np.tile([0.3, 2.0], 12)
    covariance = oracles.stacked_covariance(noise)
    keep = np.abs(moved).max(axis=1) > 0
    if norm == "single":
        truth = oracles.shift(covariance[np.ix_(keep, keep)], moved[keep])
    else:
        root = np.linalg.pinv(covariance, rcond=1e-13, hermitian=True)
        truth = np.sqrt(np.linalg.norm(moved.T @ root @ moved, 2))
    assert truth == pytest.approx(noise.guarantee.gdp, rel=1e-6)
    assert noise.guarantee.gdp <= ALLOWED
    assert noise.guarantee.gdp == pytest.approx(ALLOWED, rel=1e-6)


@pytest.mark.parametrize("seed", few(range(4), of=2))
def test_the_optimal_noise_matches_cvxpy(seed):
    plant = cases.random_plant(seed, states=3, inputs=1, outputs=1)
    noise = design(plant, pc.DisturbanceAdjacency(1.0), horizon=6)
    best = oracles.least_cost(images(plant, plant.B, 6), ALLOWED)
    assert noise.design.cost == pytest.approx(best, rel=1e-5)
    assert noise.design.gap < 1e-6
    assert noise.design.cost == pytest.approx(
        np.trace(oracles.stacked_covariance(noise)), rel=1e-9
    )


def test_an_energy_at_some_times_is_promised_at_these_alone(tmp_path):
    """A change that starts at the last of them and goes on shows 5.3 times as much."""
    secret = pc.DisturbanceAdjacency({"occupancy": 1.0}, norm="l2", times=[1, 2])
    noise = design(adjacency=secret, horizon=8, budget=pc.PrivacyBudget(gdp=1.0))
    response = images(zone(), zone().B[:, [1]], 8)
    covariance = np.block(
        [[noise.covariance(t, s) for s in range(8)] for t in range(8)]
    )
    covariance = covariance + 1e-12 * np.trace(covariance) * np.eye(8)

    def shown(samples):
        white = np.linalg.solve(np.linalg.cholesky(covariance), response[:, samples])
        return np.linalg.norm(white, 2)

    assert shown([1, 2]) <= noise.guarantee.gdp * (1 + 1e-6)
    assert shown(range(2, 8)) > 2
    words = "per run, at t = 1, 2 and at no other sample: occupancy by at most 1 in the root"
    assert words in str(noise.guarantee)
    noise.save(tmp_path / "noise.json")
    report = verify.checked(tmp_path / "noise.json")
    assert report["status"] == 0
    assert report["hidden"].endswith(
        "in the root of its energy, at the samples 1, 2 alone"
    )


def test_an_l2_ball_is_hidden_by_the_plants_response_to_white_disturbances_and_by_nothing_less():
    noise = design(
        adjacency=pc.DisturbanceAdjacency(0.5, inputs="occupancy", norm="l2")
    )
    moved = 0.5 * images(zone(), zone().B[:, 1:], 12)
    np.testing.assert_allclose(
        oracles.stacked_covariance(noise), moved @ moved.T / ALLOWED**2, atol=1e-12
    )
    system = pc.create_noise_iosystem(noise)
    assert system.nstates == 2
    assert noise.design.gap < 1e-11
    eta = noise.process.draw(np.random.default_rng(3), 1)
    response = ct.forced_response(system, noise.timepts, noise.process.inputs(eta)[0].T)
    np.testing.assert_allclose(response.outputs, noise.sample(rng=3)[0, 0], atol=1e-12)


def test_noise_is_causal_sampled_streamed_and_simulated_alike():
    adjacency = pc.DisturbanceAdjacency(0.5, inputs="occupancy")
    for options in ({}, {"floor": 0.1}, {"family": "iid-gaussian"}):
        noise = design(adjacency=adjacency, **options)
        gamma = noise.sample(4, rng=5)
        np.testing.assert_array_equal(noise.sample(2, rng=5), gamma[:, :2])
        np.testing.assert_allclose(
            np.array(list(noise.stream(rng=5))).T,
            noise.sample(1, rng=5)[:, 0],
            atol=1e-13,
        )
        loop = pc.private_lqg(zone(), 1, 1, 1e-2, 1e-2, noise=noise)
        trials = loop.simulate(initial_state=[1.0, 0.0], trials=3, rng=1)
        initial = np.zeros(loop.system.nstates)
        initial[0] = 1.0
        response = ct.forced_response(
            loop.system, trials.time, trials.inputs[:, 2], initial
        )
        np.testing.assert_allclose(response.outputs, trials.outputs[:, 2], atol=1e-9)
        many = (
            np.asarray(
                loop.simulate(initial_state=[1.0, 0.0], trials=20_000, rng=1).states
            )[:2]
            ** 2
        )
        exact = loop.mean_square_error(initial_state=[1.0, 0.0])
        assert (
            np.abs(many.mean(axis=1) - exact)
            <= 6 * many.std(axis=1) / np.sqrt(20_000) + 1e-12
        ).all()


def test_initial_state_and_disturbance_are_protected_jointly():
    parts = [
        pc.StateAdjacency({"air": 1.0}, times=0),
        pc.DisturbanceAdjacency(0.5, inputs="occupancy"),
    ]
    joint = design(adjacency=parts)
    moved = np.hstack(
        [
            oracles.dense_observability(zone().A, zone().C, 12)[:, :1],
            0.5 * images(zone(), zone().B[:, 1:], 12),
        ]
    )
    assert oracles.shift(oracles.stacked_covariance(joint), moved) == pytest.approx(
        joint.guarantee.gdp, rel=1e-6
    )
    assert joint.guarantee.gdp <= ALLOWED
    assert joint.design.gap < 1e-8
    assert joint.design.cost >= design(adjacency=parts[1]).design.cost
    text = joint.guarantee.sentence
    assert "either air by at most 1" in text
    assert "or one change per run: occupancy by at most 0.5" in text
    assert "the initial state" not in text
    alone = design(adjacency=parts[1])
    named = "longer ones, changes of another signal, the initial state"
    assert named in alone.guarantee.sentence


@pytest.mark.parametrize("floor", [0.0, 0.2])
def test_balls_beside_single_moves_are_covered(floor):
    parts = [
        pc.InitialStateAdjacency(0.5),
        pc.DisturbanceAdjacency(0.5, inputs="occupancy"),
    ]
    joint = design(adjacency=parts, horizon=8, floor=floor)
    covariance = oracles.stacked_covariance(joint)
    ball = 0.5 * oracles.dense_observability(zone().A, zone().C, 8)
    inverse = np.linalg.inv(covariance)
    y = max(np.sqrt(np.linalg.norm(ball.T @ inverse @ ball, 2)),
            oracles.shift(covariance, 0.5 * images(zone(), zone().B[:, 1:], 8)))  # fmt: skip
    assert y == pytest.approx(joint.guarantee.gdp, rel=1e-6)
    assert joint.guarantee.gdp <= ALLOWED
    assert joint.design.gap < 1e-4


def test_adjacencies_of_states_are_joined_without_a_disturbance():
    parts = [pc.StateAdjacency({"air": 1.0}), pc.StateAdjacency({"wall": 0.5}, times=0)]
    noise = design(adjacency=parts)
    assert noise.factor is not None
    assert noise.guarantee.gdp <= ALLOWED
    stack = oracles.dense_observability(zone().A, zone().C, 12)
    back = np.linalg.inv(zone().A)
    moves = [np.linalg.matrix_power(back, t)[:, 0] for t in range(12)] + [[0, 0.5]]
    assert oracles.shift(
        oracles.stacked_covariance(noise), stack @ np.array(moves).T
    ) == pytest.approx(ALLOWED, rel=1e-6)


def test_structured_noise_for_the_initial_state_leaves_a_disturbance_bare():
    structured = design(adjacency=pc.StateAdjacency({"air": 1.0}))
    asked = promising(
        structured,
        request=replace(structured.request, adjacency=pc.DisturbanceAdjacency(0.1)),
    )
    with pytest.raises(pc.NotRealizableError):
        asked.guarantee_for([zone()])


def test_guarantees_over_models_count_the_models_impulse_responses():
    other = zone(A=[[0.92, 0.06], [0.02, 0.97]], B=[[0.1, 0.33], [0.0, 0.0]])
    moved = 0.5 * np.hstack(
        [images(plant, plant.B[:, 1:], 12) for plant in (zone(), other)]
    )
    for options in ({}, {"floor": 0.1}, {"family": "iid-gaussian"}):
        noise = design(models=[other], **options)
        keep = np.abs(moved).max(axis=1) > 0
        covariance = oracles.stacked_covariance(noise)[np.ix_(keep, keep)]
        assert oracles.shift(covariance, moved[keep]) == pytest.approx(
            noise.guarantee.gdp, rel=1e-6
        )
        assert noise.guarantee_for([zone(), other]).gdp == pytest.approx(
            noise.guarantee.gdp, rel=1e-6
        )
        assert noise.guarantee.gdp <= ALLOWED
        assert design(**options).guarantee_for([other]).gdp > ALLOWED


def test_a_state_can_be_disturbed_directly_and_feedthrough_counts():
    noise = design(adjacency=pc.DisturbanceAdjacency({"wall": 0.5}))
    moved = 0.5 * images(zone(), [[0.0], [1.0]], 12)
    assert oracles.shift(oracles.stacked_covariance(noise), moved) == pytest.approx(
        ALLOWED, rel=1e-5
    )
    direct = zone(D=[[0.0, 1.0]])
    noise = design(direct)
    moved = 0.5 * images(direct, direct.B[:, 1:], 12, [[1.0]])
    assert oracles.shift(oracles.stacked_covariance(noise), moved) == pytest.approx(
        noise.guarantee.gdp, rel=1e-9
    )


def test_only_the_protected_times_move():
    early = pc.DisturbanceAdjacency(0.5, inputs="occupancy", times=range(3))
    for norm in ("single", "l2"):
        noise = design(adjacency=replace(early, norm=norm))
        moved = 0.5 * images(zone(), zone().B[:, 1:], 12)[:, :3]
        root = np.linalg.cholesky(oracles.stacked_covariance(noise)[1:, 1:])
        shifts = np.linalg.solve(root, moved[1:])
        y = (
            np.linalg.norm(shifts, 2)
            if norm == "l2"
            else np.linalg.norm(shifts, axis=0).max()
        )
        assert y == pytest.approx(ALLOWED, rel=1e-6)
        assert noise.guarantee.gdp <= ALLOWED
        assert (
            noise.design.cost
            < design(adjacency=replace(early, times=None, norm=norm)).design.cost
        )


def test_a_design_for_a_loop_costs_it_least():
    loop = pc.private_lqg(zone(), 1, 1, 1e-2, 1e-2)
    added = [
        loop.with_noise(design(weight=weight)).cost().privacy for weight in (loop, None)
    ]
    assert added[0] <= added[1] * (1 + 1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("norm", ["single", "l2"])
def test_an_audit_passes_and_fails_with_ten_percent_less_noise(norm):
    budget = pc.PrivacyBudget(epsilon=1.0, delta=0.1)
    adjacency = pc.DisturbanceAdjacency(0.5, inputs="occupancy", norm=norm)
    noise = design(
        adjacency=adjacency, budget=budget, floor=0.2 if norm == "single" else 0.0
    )
    assert pc.audit(noise, adjacency, claim=budget, trials=200_000, rng=0).passed
    parts = tuple(part.scaled(0.9) for part in noise.parts)
    shrunk = promising(noise, parts=parts)
    assert not pc.audit(shrunk, adjacency, claim=budget, trials=200_000, rng=0).passed


def test_guarantees_name_their_secret_and_survive_json():
    noise = design()
    assert (
        pc.PrivacyGuarantee.from_dict(json.loads(json.dumps(noise.guarantee.to_dict())))
        == noise.guarantee
    )
    assert "A, B and C exact" in noise.guarantee.sentence
    assert noise.guarantee.scope.horizon == 12
    with pytest.raises(ValueError, match="different adjacencies"):
        (
            noise.guarantee
            + design(
                adjacency=pc.DisturbanceAdjacency(0.4, inputs="occupancy")
            ).guarantee
        )
    assert (noise.guarantee + noise.guarantee).gdp == pytest.approx(
        np.sqrt(2) * noise.guarantee.gdp
    )


@pytest.mark.parametrize(
    "adjacency, error, message",
    [
        (lambda: pc.DisturbanceAdjacency(-1.0), ValueError, "radius: expected a finite number > 0"),
        (lambda: pc.DisturbanceAdjacency(1.0, norm="max"), ValueError, "norm: expected one of 'single', 'l2'"),
        (lambda: pc.DisturbanceAdjacency({"u": 1.0}, inputs=["u"]), ValueError, "drop inputs"),
        (lambda: pc.DisturbanceAdjacency(1.0, times=-1), ValueError, "sample indices >= 0"),
        (lambda: pc.DisturbanceAdjacency(1.0, inputs="sun"), ValueError, "'sun' is no input and no state.*heat, occupancy"),
        (lambda: pc.DisturbanceAdjacency([1.0], inputs=["heat", "occupancy"]), ValueError, "expected 2 radii"),
        (lambda: pc.DisturbanceAdjacency(1.0, times=12), ValueError, "below the horizon 12"),
        (lambda: [1.0, 2.0], TypeError, "a list of Adjacency"),
    ],
)  # fmt: skip
def test_bad_input_says_what_was_expected(adjacency, error, message):
    with pytest.raises(error, match=message):
        design(adjacency=adjacency())


def test_laplace_noise_and_plain_trajectories_are_refused():
    with pytest.raises(ValueError, match='expected "gaussian" or an iid family'):
        design(family="laplace", budget=pc.PrivacyBudget(epsilon=1.0))
    with pytest.raises(
        TypeError,
        match="expected a StateAdjacency or an InitialStateAdjacency, got a Dist",
    ):
        pc.output_query(zone(), 5).sensitivity(pc.DisturbanceAdjacency(1.0))
    with pytest.raises(TypeError, match="a list of Adjacency"):
        JointAdjacency([])


def test_driven_noise_that_reaches_every_output_is_judged_under_other_models():
    adjacency = pc.DisturbanceAdjacency(0.5, inputs="occupancy", norm="l2")
    noise, other = design(adjacency=adjacency), zone(B=[[0.1, 0.33], [0.0, 0.0]])
    assert noise.guarantee_for([other]).gdp == pytest.approx(1.1 * ALLOWED, rel=1e-9)


def test_a_step_is_hidden_by_one_sample_at_an_integrator_or_by_its_energy_but_not_by_one_sample_of_itself():
    plant, horizon, height = zone(), 20, 0.5
    A = np.eye(3)
    A[:2, :2], A[:2, 2] = plant.A, plant.B[:, 1]
    loaded = ct.ss(A, np.vstack([plant.B, np.zeros((1, plant.ninputs))]), [[*plant.C[0], 0]], 0, plant.dt,
                   states=[*plant.state_labels, "load"])  # fmt: skip
    response = images(
        plant, plant.B[:, 1:], horizon
    )  # columns: an impulse at each sample
    steps = (
        height * np.cumsum(response[:, ::-1], axis=1)[:, ::-1][:, 1:]
    )  # columns: a step from each sample but the first
    for system, adjacency, hidden in (
        (plant, pc.DisturbanceAdjacency({"occupancy": height}), False),
        (
            plant,
            pc.DisturbanceAdjacency({"occupancy": height * horizon**0.5}, norm="l2"),
            True,
        ),
        (loaded, pc.DisturbanceAdjacency({"load": height}), True),
    ):
        noise = pc.design_output_noise(
            system, horizon=horizon, budget=cases.BUDGET, adjacency=adjacency
        )
        factor = noise.design.mechanism.noise.factor
        shifts = np.linalg.norm(np.linalg.lstsq(factor, steps)[0], axis=0)
        assert (shifts.max() <= noise.guarantee.gdp * (1 + 1e-9)) == hidden
    assert shifts.max() == pytest.approx(
        noise.guarantee.gdp, rel=1e-6
    )  # the integrator's noise is no larger than needed
