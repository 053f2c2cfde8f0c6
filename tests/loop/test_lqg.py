"""LQG loops: python-control's gains, both forms of the observer, and co-design that never costs more."""

import cases
import control as ct
import numpy as np
import pytest

import privcontrol as pc

SOME_TIMES = pc.StateAdjacency(1.0, times=range(3))


def plant_and_noise(seed=3, horizon=25, family="gaussian", **options):
    plant = cases.random_plant(seed, states=4, **options)
    request = {
        "horizon": horizon,
        "budget": cases.BUDGET,
        "adjacency": SOME_TIMES,
        "family": family,
    }
    return plant, pc.design_output_noise(plant, **request)


def spread(loop, P0):
    """The co-design's cost by the loop's own `cost`: one regulation run for each direction of the initial state."""
    t = loop.noise.timepts
    values, vectors = np.linalg.eigh(P0)
    starts = [
        loop.cost(t, initial_state=start).regulation
        for start in (vectors * np.sqrt(values)).T
    ]
    return loop.cost(t, disturbance="design", measurement_noise="design").total + sum(
        starts
    )


@pytest.mark.parametrize("feedthrough", [False, True])
def test_gains_are_those_of_python_control(feedthrough):
    plant, noise = plant_and_noise(feedthrough=feedthrough)
    Q, R, QN, RN, N = (
        np.diag([1, 2, 3, 4.0]),
        0.5 * np.eye(2),
        np.diag([1, 0, 2, 0.1]),
        np.eye(2),
        np.full((4, 2), 0.1),
    )
    loop = pc.private_lqg(plant, Q, R, QN, RN, noise, N=N)
    np.testing.assert_allclose(loop.K, ct.dlqr(plant, Q, R, N)[0], rtol=1e-9)
    np.testing.assert_allclose(
        loop.L, ct.dlqe(plant.A, np.eye(4), plant.C, QN, RN)[0], rtol=1e-9
    )
    filtering = pc.private_lqg(plant, Q, R, QN, RN, noise, N=N, form="filter")
    np.testing.assert_allclose(plant.A @ filtering.L, loop.L, rtol=1e-9)
    inputs = pc.private_lqg(plant, Q, R, np.eye(2), RN, noise, G=plant.B)
    np.testing.assert_allclose(inputs.L, ct.dlqe(plant, np.eye(2), RN)[0], rtol=1e-9)


def test_a_prior_and_direct_feedthrough_give_the_predictor_form():
    """It was refused, with the advice to pass the form that is now the default."""
    plant, noise = plant_and_noise(feedthrough=True)
    loop = pc.private_lqg(plant, 1, 1, 0.3, 0.2, noise, P0=1.0)
    asked = pc.private_lqg(plant, 1, 1, 0.3, 0.2, noise, P0=1.0, form="predictor")
    drawn = dict.fromkeys(
        ["initial_state", "disturbance", "measurement_noise"], "design"
    )
    assert loop == asked
    costs = loop.cost(**drawn), asked.cost(**drawn)
    assert costs[0].total == costs[1].total
    with pytest.raises(ValueError, match="would depend on itself"):
        pc.private_lqg(plant, 1, 1, 0.3, 0.2, noise, P0=1.0, form="filter")
    plain, quiet = plant_and_noise()
    current = pc.private_lqg(plain, 1, 1, 0.3, 0.2, quiet, P0=1.0)
    assert current == pc.private_lqg(
        plain, 1, 1, 0.3, 0.2, quiet, P0=1.0, form="filter"
    )


def test_the_papers_gains_come_from_the_papers_weights():
    loop = pc.private_lqg(
        pc.plants.vehicle(), Q=20 * np.eye(2), R=1, QN=2 * np.eye(2), RN=1
    )
    np.testing.assert_allclose(loop.K, cases.PAPER_K, atol=5e-5)
    np.testing.assert_allclose(loop.L, cases.PAPER_L, atol=5e-5)


def test_the_kalman_gain_knows_independent_noise_and_only_that():
    plant, noise = plant_and_noise(family="iid-gaussian")
    V = np.diag(noise.process.scale**2)
    loop = pc.private_lqg(plant, 1, 1, 0.3, 0.2, noise)
    known = ct.dlqe(plant.A, np.eye(4), plant.C, 0.3 * np.eye(4), 0.2 * np.eye(2) + V)[
        0
    ]
    np.testing.assert_allclose(loop.L, known, rtol=1e-9)
    structured = pc.private_lqg(plant, 1, 1, 0.3, 0.2, plant_and_noise()[1])
    np.testing.assert_array_equal(structured.L, pc.private_lqg(plant, 1, 1, 0.3, 0.2).L)


@pytest.mark.parametrize("form", ["predictor", "filter"])
def test_trials_follow_the_equations_of_the_form_with_feedthrough(form):
    plant, noise = plant_and_noise(feedthrough=True)
    A, B, C, D = plant.A, plant.B, plant.C, plant.D
    loop = pc.private_lqg(plant, 1, 1, 0.3, 0.2, noise, form=form)
    rng = np.random.default_rng(0)
    goal, push, w, v = (rng.normal(size=(size, 25)) for size in (4, 2, 4, 2))
    x, predicted = rng.normal(size=4), rng.normal(size=4)
    given = {
        "initial_state": x,
        "initial_estimate": predicted,
        "disturbance": w,
        "measurement_noise": v,
    }
    trial = loop.simulate(reference=goal, feedforward=push, trials=1, rng=1, **given)
    gamma = (
        loop.noise.process.responses
        @ np.asarray(trial.inputs)[-noise.process.total.once :, 0, 0]
    )
    for t in range(25):
        # yhat and u depend on each other: solved together
        correct = loop.L if form == "filter" else np.zeros((4, 2))
        know = np.block(
            [[np.eye(2), -D], [loop.K @ correct, np.eye(2) - loop.K @ correct @ D]]
        )
        have = [
            C @ x + v[:, t] + gamma[t],
            -loop.K @ (predicted - correct @ C @ predicted - goal[:, t]) + push[:, t],
        ]
        yhat, u = np.split(np.linalg.solve(know, np.concatenate(have)), 2)
        np.testing.assert_allclose(
            np.asarray(trial.outputs)[:, 0, t], [*yhat, *u], atol=1e-9
        )
        np.testing.assert_allclose(
            np.asarray(trial.states)[:, 0, t], [*x, *predicted], atol=1e-9
        )
        innovation = yhat - C @ predicted - D @ u
        x = A @ x + B @ u + w[:, t]
        estimate = predicted + correct @ innovation
        advance = 0 if form == "filter" else loop.L @ innovation
        predicted = A @ estimate + B @ u + advance


@pytest.mark.parametrize("form", ["predictor", "filter"])
def test_a_controller_receives_the_estimate_of_the_form(form):
    plant, noise = plant_and_noise(feedthrough=True)
    loop = pc.private_lqg(plant, 1, 1, 0.3, 0.2, noise, form=form)
    start = {"initial_state": np.ones(4), "trials": 4, "rng": 0}
    linear = loop.simulate(**start)
    same = loop.simulate(
        **start, controller=lambda t, estimate, goal: -loop.K @ (estimate - goal)
    )
    np.testing.assert_allclose(
        np.asarray(same.outputs), np.asarray(linear.outputs), atol=1e-9
    )


def test_both_forms_have_the_separated_poles_and_the_filter_costs_less():
    plant, noise = plant_and_noise(family="iid-gaussian")
    loops = {
        form: pc.private_lqg(plant, 1, 1, 0.3, 0.2, noise, form=form)
        for form in ("predictor", "filter")
    }
    loop = loops["predictor"]
    separate = np.concatenate(
        [
            np.linalg.eigvals(plant.A - plant.B @ loop.K),
            np.linalg.eigvals(plant.A - loop.L @ plant.C),
        ]
    )
    for each in loops.values():
        np.testing.assert_allclose(
            np.sort_complex(each.closed_loop.poles()),
            np.sort_complex(separate),
            atol=1e-9,
        )
    t, drawn = (
        np.arange(25) * 0.1,
        {"disturbance": "design", "measurement_noise": "design"},
    )
    assert loops["filter"].cost(t, **drawn).total < loop.cost(t, **drawn).total


BAD = [
    (
        {"Q": np.eye(3)},
        ct.ControlDimension,
        r"Q: expected shape \(4, 4\), got \(3, 3\)",
    ),
    (
        {"QN": np.eye(2)},
        ct.ControlDimension,
        r"QN .*: expected shape \(4, 4\), got \(2, 2\); .*pass G=sys.B",
    ),
    (
        {"G": np.eye(3)},
        ct.ControlDimension,
        r"G: expected shape \(4, any\), got \(3, 3\)",
    ),
    ({"RN": -1}, ValueError, "RN: expected a positive semidefinite matrix"),
    ({"R": None}, TypeError, "R: expected a matrix or a number, got None"),
    (
        {"N": np.ones((2, 4))},
        ct.ControlDimension,
        r"N: expected shape \(4, 2\), got \(2, 4\)",
    ),
    (
        {"N": 10 * np.ones((4, 2))},
        ValueError,
        r"\[\[Q, N\], \[N.T, R\]\]: expected a positive semidefinite",
    ),
    (
        {"form": "current"},
        ValueError,
        "form: expected one of 'predictor', 'filter', got 'current'",
    ),
    (
        {"P0": np.eye(3)},
        ct.ControlDimension,
        r"P0: expected shape \(4, 4\), got \(3, 3\)",
    ),
    (
        {"P0": 1, "estimator": "luenberger"},
        ValueError,
        "estimator: expected one of 'kalman', 'observer', got 'luenberger'",
    ),
    (
        {"terminal": 0},
        ValueError,
        "terminal: without a horizon no state is the last one",
    ),
    (
        {"codesign": True},
        ValueError,
        "codesign: expected noise from design_output_noise",
    ),
    (
        {"noise": cases.vehicle_noise()},
        ValueError,
        "noise was designed for a plant with another A",
    ),
]


@pytest.mark.parametrize("change, error, message", BAD)
def test_bad_arguments_say_what_was_expected(change, error, message):
    arguments = {"Q": 1, "R": 1, "QN": 0.3, "RN": 0.2} | change
    with pytest.raises(error, match=message):
        pc.private_lqg(cases.random_plant(3, states=4), **arguments)


def test_plants_that_no_gain_stabilises_are_named():
    unstable = ct.ss(np.diag([1.2, 0.5]), [[0], [1]], [[1, 1]], 0, 1)
    with pytest.raises(ValueError, match="stabilisable"):
        pc.private_lqg(unstable, 1, 1, 1, 1)
    with pytest.raises(ValueError, match="detectable"):
        pc.private_lqg(
            ct.ss(np.diag([1.2, 0.5]), [[1], [1]], [[0, 1]], 0, 1), 1, 1, 1, 1
        )
    with pytest.raises(ValueError, match=r"QN \(with G\) must excite"):
        pc.private_lqg(pc.plants.vehicle(), 1, 1, 0, 1)
