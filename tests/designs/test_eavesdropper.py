"""The eavesdropper against dense Gaussian conditioning and against what a loop really publishes."""

import pickle

import cases
import control as ct
import matplotlib.pyplot as plt
import numpy as np
import pytest
from repeats import few

import privcontrol as pc
from privcontrol.designs import eavesdropper
from privcontrol.noise.process import promising

HORIZON = 12


def dense(noise, prior):
    """Error covariance (T n, T n) of the whole trajectory given v, by conditioning the dense joint covariance."""
    plant, horizon = noise.plant, noise.horizon
    powers = np.vstack([np.linalg.matrix_power(plant.A, t) for t in range(horizon)])
    O = np.kron(np.eye(horizon), plant.C) @ powers
    gamma = np.block(
        [[noise.covariance(t, s) for s in range(horizon)] for t in range(horizon)]
    )
    cross = powers @ prior @ O.T
    inverse = np.linalg.pinv(O @ prior @ O.T + gamma, rcond=1e-11, hermitian=True)
    return powers @ prior @ powers.T - cross @ inverse @ cross.T, cross @ inverse


def random_noise(seed, family, states=4, outputs=2, **options):
    plant = cases.random_plant(seed, states=states, outputs=outputs)
    return pc.design_output_noise(
        plant,
        horizon=HORIZON,
        budget=cases.BUDGET,
        adjacency=pc.InitialStateAdjacency(1.0),
        family=family,
        **options,
    )


def random_prior(seed, n=4):
    root = np.random.default_rng(seed).normal(size=(n, n))
    return root @ root.T


def blocks(listener):
    return np.array([listener.error_covariance(t) for t in range(listener.horizon)])


@pytest.mark.parametrize("family", ["gaussian", "iid-gaussian"])
@pytest.mark.parametrize("seed", few(range(4), of=2))
def test_error_covariance_is_the_dense_conditional_covariance(seed, family):
    noise, prior = random_noise(seed, family), random_prior(seed)
    truth = dense(noise, prior)[0].reshape(HORIZON, 4, HORIZON, 4)
    found = blocks(eavesdropper(noise, prior=prior))
    np.testing.assert_allclose(
        found, truth[range(HORIZON), :, range(HORIZON)], atol=1e-8 * np.abs(prior).max()
    )


@pytest.mark.parametrize("family", ["gaussian", "iid-gaussian"])
def test_estimate_is_the_dense_conditional_mean(family):
    noise, prior, mean = (
        random_noise(1, family),
        random_prior(1),
        np.array([1.0, -2.0, 0.5, 3.0]),
    )
    plant, rng = noise.plant, np.random.default_rng(0)
    u, v = (
        rng.normal(size=(2, 5, HORIZON)),
        rng.normal(size=(HORIZON * 2, 4)) @ rng.normal(size=(4, 5)),
    )
    O = pc.observability_stack(cases.random_plant(1, states=4), HORIZON)
    v = (
        O @ rng.normal(size=(4, 5)) if family == "gaussian" else v
    )  # structured noise leaves v in the range of O_T
    powers = np.vstack([np.linalg.matrix_power(plant.A, t) for t in range(HORIZON)])
    expected = powers @ mean[:, None] + dense(noise, prior)[1] @ (v - O @ mean[:, None])
    system = ct.ss(plant.A, plant.B, np.vstack([plant.C, np.eye(4)]), 0, plant.dt)
    forced = np.array(
        [ct.forced_response(system, noise.timepts, u[:, k]).outputs for k in range(5)]
    )
    yhat = v.reshape(HORIZON, 2, 5).transpose(1, 2, 0) + forced[:, :2].transpose(
        1, 0, 2
    )
    found = eavesdropper(noise, prior=(mean, prior)).estimate(yhat, u)
    expected = expected.reshape(HORIZON, 4, 5).transpose(1, 2, 0) + forced[
        :, 2:
    ].transpose(1, 0, 2)
    np.testing.assert_allclose(found, expected, atol=1e-7)


@pytest.mark.parametrize("family", ["gaussian", "iid-gaussian"])
def test_flat_prior_is_the_limit_of_wide_priors(family):
    noise = random_noise(2, family)
    flat = blocks(eavesdropper(noise))
    wide = blocks(eavesdropper(noise, prior=1e14 * np.eye(4)))
    np.testing.assert_allclose(flat, wide, rtol=1e-4, atol=1e-8)
    if (
        family == "gaussian"
    ):  # nothing but the noise of the initial state stands between the two
        np.testing.assert_allclose(flat[0], noise.initial_state_covariance, rtol=1e-12)
    else:  # the Cramer-Rao bound
        O = pc.observability_stack(cases.random_plant(2, states=4), HORIZON)
        np.testing.assert_allclose(
            flat[0], np.linalg.inv(O.T @ O / noise.process.scale[0] ** 2), rtol=1e-8
        )


def test_vehicle_with_private_position_gives_its_velocity_away():
    noise = cases.vehicle_noise()
    listener = eavesdropper(noise)
    np.testing.assert_allclose(listener.std[0], noise.factor[0, 0], rtol=1e-12)
    np.testing.assert_array_equal(listener.std[1], 0.0)
    informed = eavesdropper(noise, prior=np.diag([25.0, 4.0]))
    np.testing.assert_allclose(
        informed.std[0], (1 / 25 + noise.factor[0, 0] ** -2) ** -0.5, rtol=1e-12
    )
    np.testing.assert_array_equal(informed.std[1], 0.0)
    np.testing.assert_allclose(informed.prior_std[0] ** 2, 25 + 4 * noise.timepts**2)


def test_posterior_of_the_initial_state_adds_informations():
    noise = cases.vehicle_noise(pc.StateAdjacency(1.0), horizon=20)
    prior = np.array([[9.0, 1.0], [1.0, 0.5]])
    truth = np.linalg.inv(
        np.linalg.inv(prior) + np.linalg.inv(noise.initial_state_covariance)
    )
    np.testing.assert_allclose(
        eavesdropper(noise, prior=prior).error_covariance(0), truth, rtol=1e-9
    )


def test_prior_without_doubt_and_noise_without_spread():
    noise = cases.vehicle_noise()
    certain = eavesdropper(noise, prior=([3.0, 1.0], np.diag([0.0, 4.0])))
    np.testing.assert_array_equal(certain.std, 0.0)
    yhat = 3.0 + 1.5 * noise.timepts + 2.0  # position 3, velocity 1.5, and a draw of 2
    np.testing.assert_allclose(
        certain.estimate(yhat[None])[:, 0, 0], [3.0, 1.5], atol=1e-9
    )


def blind_plant():
    """Two decoupled vehicles of which one is seen: the others' states drift unseen."""
    A = np.kron(np.eye(2), [[1.0, 0.1], [0.0, 1.0]])
    return ct.ss(
        A, np.zeros((4, 1)), [[1.0, 0, 0, 0]], 0, 0.1, states=["p", "v", "q", "w"]
    )


@pytest.mark.parametrize("family", ["gaussian", "iid-gaussian"])
def test_unseen_directions_keep_the_prior_or_are_infinite(family):
    noise = pc.design_output_noise(
        blind_plant(),
        horizon=10,
        budget=cases.BUDGET,
        adjacency=pc.StateAdjacency({"p": 1.0, "v": 1.0}),
        family=family,
    )
    flat = eavesdropper(noise)
    assert np.isfinite(flat.std[:2]).all()
    assert np.isinf(flat.std[2:]).all()
    covariance = flat.error_covariance(3)
    assert np.isfinite(covariance[:2, :2]).all()
    assert np.isnan(covariance[0, 2])
    assert np.isnan(covariance[2, 3])
    assert np.isinf(np.diag(covariance)[2:]).all()
    prior = np.kron(
        [[1.0, 0.5], [0.5, 2.0]], np.diag([4.0, 1.0])
    )  # what is seen tells of the unseen
    truth = dense(noise, prior)[0].reshape(10, 4, 10, 4)
    np.testing.assert_allclose(
        blocks(eavesdropper(noise, prior=prior)),
        truth[range(10), :, range(10)],
        atol=1e-8,
    )


def test_sum_of_two_states_hides_each_of_them():
    plant = ct.ss(
        np.diag([0.9, 0.9]), np.zeros((2, 1)), [[1.0, 1.0]], 0, 1, states=["a", "b"]
    )
    noise = pc.design_output_noise(
        plant,
        horizon=6,
        budget=cases.BUDGET,
        adjacency=pc.StateAdjacency({"a": 1.0}, times=0),
    )
    assert np.isinf(eavesdropper(noise).std).all()
    truth = dense(noise, np.diag([1.0, 3.0]))[0]
    found = eavesdropper(noise, prior=np.diag([1.0, 3.0])).error_covariance(0)
    np.testing.assert_allclose(found, truth[:2, :2], atol=1e-9)


def weaker(noise, factor=0.9):
    """The noise with its size off by 10 %."""
    parts = tuple(part.scaled(factor) for part in noise.parts)
    return promising(noise, parts=parts)


@pytest.mark.parametrize(
    "family", few(["gaussian", "iid-laplace", "iid-gaussian", "laplace"], of=2)
)
def test_trials_of_a_loop_err_as_much_as_stated(family):
    """40,000 trials tell a variance to 1.6 % even for Laplace noise; 8 % is allowed, and noise 10 % off is seen."""
    trials, allowed, prior = 40_000, 0.08, np.diag([900.0, 900.0])
    budget = pc.PrivacyBudget(epsilon=1.0) if "laplace" in family else cases.BUDGET
    noise = cases.vehicle_noise(
        pc.StateAdjacency(1.0), horizon=15, family=family, budget=budget
    )
    loop, start = cases.vehicle_loop(noise), np.array([-20.0, 0.0])
    response = loop.simulate(
        reference=[5.0, 0.0], initial_state=start, trials=trials, rng=0
    )
    move = np.random.default_rng(1).multivariate_normal(np.zeros(2), prior, trials).T
    powers = np.array([np.linalg.matrix_power(noise.plant.A, t) for t in range(15)])
    drift = np.einsum(
        "tij,jk->ikt", powers, move
    )  # the same u played to an initial state drawn from the prior
    states = np.asarray(response.states)[:2] + drift
    yhat, u = (
        np.asarray(response.outputs)[:1] + drift[:1],
        np.asarray(response.outputs)[1:],
    )

    def excess(listener):
        variance = ((listener.estimate(yhat, u) - states) ** 2).mean(axis=1)
        return np.abs(variance / listener.std**2 - 1).max()

    assert excess(eavesdropper(loop, prior=(start, prior))) < allowed
    for factor in (0.9, 1.1):
        assert (
            excess(eavesdropper(weaker(noise, factor), prior=(start, prior))) > allowed
        )


def test_a_response_is_read_for_its_published_signals_only():
    loop = cases.vehicle_loop(cases.vehicle_noise(horizon=20))
    response = loop.simulate(initial_state=[-20, 1], trials=3, rng=0)
    listener = eavesdropper(loop)
    outputs = np.asarray(response.outputs)
    np.testing.assert_array_equal(
        listener.estimate(response), listener.estimate(outputs[:1], outputs[1:])
    )
    error = listener.estimate(response) - np.asarray(response.states)[:2]
    xi = loop.noise.factor @ np.asarray(response.inputs)[-1:, :, 0]
    np.testing.assert_allclose(
        error[:, :, 0], xi, atol=1e-9
    )  # off by the noise's own initial state, no more


def test_no_other_linear_estimate_is_better():
    noise, prior = random_noise(3, "iid-gaussian"), random_prior(3)
    listener = eavesdropper(noise, prior=prior)
    O, rng = (
        pc.observability_stack(cases.random_plant(3, states=4), HORIZON),
        np.random.default_rng(0),
    )
    for _ in range(20):
        gain = listener.gain + 1e-2 * rng.normal(size=listener.gain.shape)
        left = np.eye(4) - gain @ O
        worse = left @ prior @ left.T + noise.process.scale[0] ** 2 * gain @ gain.T
        assert np.linalg.eigvalsh(worse - listener.error_covariance(0))[0] > -1e-9


@pytest.mark.filterwarnings("ignore:the unstable mode")
def test_an_unstable_plant_is_no_obstacle_to_structured_noise():
    modes = np.array([[1.0, 1.0], [1.0, 2.0]])
    plant = ct.ss(
        modes @ np.diag([2.0, 0.5]) @ np.linalg.inv(modes),
        np.zeros((2, 1)),
        [[1.0, 0.0]],
        0,
        1,
    )
    options = {
        "horizon": 60,
        "budget": cases.BUDGET,
        "max_std": np.inf,
        "adjacency": pc.InitialStateAdjacency(1.0),
    }
    noise = pc.design_output_noise(plant, **options)
    listener = eavesdropper(noise)
    np.testing.assert_allclose(
        listener.error_covariance(0), noise.initial_state_covariance, rtol=1e-12
    )
    np.testing.assert_allclose(
        listener.gain @ pc.observability_stack(plant, 60), np.eye(2), atol=1e-12
    )
    with pytest.raises(pc.UncertifiableError, match="times better than others"):
        eavesdropper(pc.design_output_noise(plant, family="iid-gaussian", **options))


@pytest.mark.parametrize(
    "call, message",
    [
        (lambda: eavesdropper(cases.vehicle_loop()), "a loop with noise, got NoneType"),
        (
            lambda: eavesdropper(cases.vehicle_noise(), prior=np.eye(3)),
            r"prior: expected shape \(2, 2\)",
        ),
        (
            lambda: eavesdropper(cases.vehicle_noise(), prior=[[1.0, 2.0], [2.0, 1.0]]),
            "positive semidefinite",
        ),
        (
            lambda: eavesdropper(cases.vehicle_noise(), prior=([1.0], np.eye(2))),
            r"prior mean: expected shape \(2,\)",
        ),
        (
            lambda: eavesdropper(cases.vehicle_noise()).error_covariance(100),
            r"sample index in 0 \.\. 99",
        ),
        (
            lambda: eavesdropper(cases.vehicle_noise()).estimate(np.zeros((1, 50))),
            r"expected shape \(1, 100\)",
        ),
    ],
)
def test_bad_input_says_what_was_expected(call, message):
    with pytest.raises((TypeError, ValueError), match=message):
        call()


def test_plot_shows_each_state_beside_the_prior():
    listener = eavesdropper(cases.vehicle_noise(), prior=np.diag([25.0, 4.0]))
    shown = listener.plot()
    assert [ax.get_ylabel() for ax in shown.axes[:, 0]] == [
        "error of\nposition",
        "error of\nvelocity,\nknown exactly",
    ]
    np.testing.assert_array_equal(shown.lines[0, 0][0].get_ydata(), listener.std[0])
    np.testing.assert_array_equal(
        shown.lines[0, 0][1].get_ydata(), listener.prior_std[0]
    )
    assert shown.axes[1, 0].get_xlabel() == "Time [s]"
    eavesdropper(cases.vehicle_noise()).plot(ax=shown.axes)
    plt.close("all")


def test_time_without_a_unit_is_counted_in_samples():
    lag = ct.ss(0.5, 1, 1, 0, True, states=["level"])
    noise = pc.design_output_noise(
        lag, horizon=5, budget=cases.BUDGET, adjacency=pc.StateAdjacency(1.0)
    )
    assert eavesdropper(noise).plot().axes[0, 0].get_xlabel() == "Time [samples]"
    plt.close("all")


def test_a_prior_may_be_a_number_or_the_variances():
    noise = cases.vehicle_noise()
    for prior, covariance in (
        (0.1, 0.1 * np.eye(2)),
        ([100.0, 1.0], np.diag([100.0, 1.0])),
    ):
        np.testing.assert_array_equal(
            eavesdropper(noise, prior=prior).std,
            eavesdropper(noise, prior=covariance).std,
        )


def test_a_disturbance_is_told_no_better_than_its_noise_promises():
    noise = cases.vehicle_noise(pc.DisturbanceAdjacency({"velocity": 0.3}), horizon=10)
    spy = eavesdropper(noise)
    assert spy.std.min() == pytest.approx(0.3 / noise.guarantee.gdp, rel=1e-6)
    assert pc.audit(noise, trials=2000, rng=0).passed


def test_eavesdroppers_pickle():
    listener = eavesdropper(cases.vehicle_noise())
    np.testing.assert_array_equal(
        pickle.loads(pickle.dumps(listener)).std, listener.std
    )
    assert (
        repr(listener)
        == "Eavesdropper(horizon 100, largest error std: position 1.877, velocity 0)"
    )


# -- one change of a signal --------------------------------------------------------------


def people(pole=0.9, **options):
    """A room with a wall, whose people are secret for up to three samples."""
    room = ct.ss(
        [[pole, 0.05], [0.1, 0.8]],
        [[0.5], [0.1]],
        [[1.0, 0.0]],
        0,
        300.0,
        inputs=["people"],
        outputs=["temperature"],
    )
    asked = dict(
        budget=pc.PrivacyBudget(gdp=0.5),
        adjacency=pc.DisturbanceAdjacency({"people": 2.0}, duration=3, shape="level"),
        models="exact",
    )
    return pc.design_output_noise(room, **asked, **options)


def dense_covariance(noise, samples):
    """The covariance of the first samples; without a horizon each lag is asked once."""
    times = range(samples)
    if noise.horizon < np.inf:
        return np.block([[noise.covariance(t, s) for s in times] for t in times])
    by_lag = {lag: noise.covariance(lag) for lag in range(1 - samples, samples)}
    return np.block([[by_lag[t - s] for s in times] for t in times])


@pytest.mark.parametrize("horizon", [30, np.inf])
def test_the_size_of_a_change_is_told_as_well_as_by_generalised_least_squares(horizon):
    """Against the dense covariance of 480 samples, a change at the best beginning."""
    noise = people(horizon=horizon)
    spy = pc.eavesdropper(noise)
    assert spy.signals == ("people",)
    assert spy.lengths.tolist() == [1, 2, 3]
    samples = 480 if horizon == np.inf else horizon
    covariance = dense_covariance(noise, samples)
    plant = noise.plant
    impulse = [
        float((plant.C @ np.linalg.matrix_power(plant.A, t) @ plant.B).item())
        for t in range(samples)
    ]
    starts = [200] if horizon == np.inf else range(samples)
    for length, std in zip(spy.lengths, spy.std[0], strict=True):
        kept = np.convolve(np.ones(length), [0.0, *impulse])
        information = []
        for start in starts:
            moved = np.zeros(samples)
            moved[start:] = kept[: samples - start]
            # the first sample of a run is not moved, and carries no noise
            undone = np.linalg.solve(covariance[1:, 1:], moved[1:])
            information.append(moved[1:] @ undone)
        assert std == pytest.approx(max(information) ** -0.5, rel=1e-6)


def test_what_is_known_of_a_change_beforehand_adds_to_what_is_published():
    noise = people(horizon=np.inf)
    flat, known = pc.eavesdropper(noise), pc.eavesdropper(noise, prior=9.0)
    np.testing.assert_allclose(known.std**-2, flat.std**-2 + 1 / 9, rtol=1e-12)
    assert known.prior_std.tolist() == [3.0]
    assert flat.prior_std is None
    # the promise: no change is told better than its radius over the budget's shift
    assert flat.std.min() >= 2.0 / 0.5 * (1 - 1e-9)
    with pytest.raises(ValueError, match="variance of a change's size"):
        pc.eavesdropper(noise, prior=[1.0, 2.0])
    with pytest.raises(ValueError, match="positive variances"):
        pc.eavesdropper(noise, prior=0.0)


def test_a_spy_of_changes_is_drawn_and_shown():
    spy = pc.eavesdropper(people(horizon=np.inf))
    assert "people" in repr(spy)
    axis = spy.plot().axes[0, 0]
    assert axis.get_xlabel() == "Length of the change [samples]"


@pytest.mark.parametrize(
    "adjacency",
    [
        pc.DisturbanceAdjacency({"people": 1.0}, norm="l2"),
        [pc.DisturbanceAdjacency({"people": 1.0}), pc.StateAdjacency(1.0, times=0)],
    ],
)
def test_signals_of_bounded_energy_and_joint_secrets_have_no_one_size(adjacency):
    plant = people(horizon=np.inf).plant
    noise = pc.design_output_noise(
        plant,
        horizon=12,
        budget=pc.PrivacyBudget(gdp=0.5),
        adjacency=adjacency,
        max_std=np.inf,
    )
    with pytest.raises(ValueError, match="detection bounds every test"):
        pc.eavesdropper(noise)


def test_plots_name_the_radius_and_what_is_known_exactly():
    room = ct.ss(0.9, [[1, 0.1]], 1, 0, 300.0, inputs=["heat", "people"])
    noise = pc.design_output_noise(
        room,
        horizon=np.inf,
        budget=pc.PrivacyBudget(gdp=0.5),
        adjacency=pc.DisturbanceAdjacency({"people": 2.0}, duration=3),
        models="exact",
    )
    axis = eavesdropper(noise).plot().axes[0, 0]
    labels = [text.get_text() for text in axis.get_legend().get_texts()]
    assert labels == ["error of people", "hidden: people within 2"]
    still = pc.design_output_noise(
        pc.plants.vehicle(),
        horizon=5,
        budget=cases.BUDGET,
        adjacency=pc.StateAdjacency({"position": 1.0}, times=0),
        models="exact",
    )
    axes = eavesdropper(still).plot().axes[:, 0]
    assert [ax.get_ylabel() for ax in axes] == [
        "error of\nposition",
        "error of\nvelocity,\nknown exactly",
    ]
    # a design is told in a line, without its matrices
    assert repr(noise.design).startswith("StationaryDesign(filtered of order ")
    assert len(repr(noise.design)) < 80
    plt.close("all")
