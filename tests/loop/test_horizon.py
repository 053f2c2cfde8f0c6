"""Honest limits: which modes make the noise grow with the horizon, and a warning that names them."""

import warnings

import cases
import control as ct
import matplotlib.pyplot as plt
import numpy as np
import pytest
from repeats import few

import privcontrol as pc

POSITION, VELOCITY = (
    pc.StateAdjacency({"position": 1.0}),
    pc.StateAdjacency({"velocity": 1.0}),
)


def lags(*poles, seen=None):
    """Decoupled first-order lags, all summed in one output."""
    n = len(poles)
    output = np.ones((1, n)) if seen is None else np.array([seen], float)
    return ct.ss(
        np.diag(poles),
        np.ones((n, 1)),
        output,
        0,
        1,
        states=[f"s{k}" for k in range(n)],
    )


def only(growth):
    (mode,) = growth.modes
    return mode


def test_the_vehicles_position_is_hidden_at_any_horizon_by_the_same_noise():
    growth = pc.horizon_growth(pc.plants.vehicle(), POSITION, [2, 20, 200, 2000])
    assert only(growth).kind == "bounded"
    assert not growth.explanations
    np.testing.assert_allclose(only(growth).sizes, 1, rtol=1e-9)
    np.testing.assert_allclose(growth.least_noise, 1, rtol=1e-9)


def test_the_vehicles_velocity_grows_along_the_chain_of_its_double_pole():
    growth = pc.horizon_growth(pc.plants.vehicle(), VELOCITY, [2, 20, 200, 2000])
    mode = only(growth)
    assert mode.kind == "chain"
    assert mode.name == "1 (position, velocity)"
    np.testing.assert_allclose(
        mode.sizes, 0.1 * (np.array([2, 20, 200, 2000]) - 1), rtol=1e-6
    )
    assert "chain of integrators" in growth.explanations[0]


def test_contracting_modes_cost_their_inverse_powers_and_only_where_late_times_are_protected():
    plant, horizons = lags(0.5, 0.9), np.array([2, 10, 50])
    fast, slow = pc.horizon_growth(
        plant, pc.StateAdjacency({"s0": 3.0, "s1": 1.0}), horizons
    ).modes
    assert (fast.name, slow.name) == (
        "0.5 (s0)",
        "0.9 (s1)",
    )
    assert fast.kind == slow.kind == "contracting"
    np.testing.assert_allclose(fast.sizes, 3.0 * 0.5 ** -(horizons - 1.0), rtol=1e-9)
    np.testing.assert_allclose(slow.sizes, 0.9 ** -(horizons - 1.0), rtol=1e-9)
    early = pc.horizon_growth(plant, pc.StateAdjacency({"s0": 3.0}, times=0), horizons)
    np.testing.assert_allclose(only(early).sizes, 3.0, rtol=1e-9)
    assert not early.explanations
    ball = pc.horizon_growth(plant, pc.InitialStateAdjacency({"s0": 3.0}), horizons)
    np.testing.assert_allclose(only(ball).sizes, 3.0, rtol=1e-9)


def test_modes_that_outputs_do_not_see_or_moves_do_not_excite_are_no_cost():
    plant = lags(0.3, 0.8, seen=[0, 1])
    assert (
        only(pc.horizon_growth(plant, pc.StateAdjacency(1.0), [50])).name == "0.8 (s1)"
    )
    assert (
        only(
            pc.horizon_growth(lags(0.3, 0.8), pc.StateAdjacency({"s1": 1.0}), [50])
        ).name
        == "0.8 (s1)"
    )
    rotated = np.linalg.qr(np.random.default_rng(0).normal(size=(2, 2)))[0]
    hidden = ct.ss(
        rotated @ plant.A @ rotated.T, rotated @ plant.B, plant.C @ rotated.T, 0, 1
    )
    assert only(
        pc.horizon_growth(hidden, pc.StateAdjacency(1.0), [50])
    ).eigenvalue == pytest.approx(0.8)


def test_rotations_are_bounded_and_units_do_not_matter():
    turn = np.array([[np.cos(1), -np.sin(1)], [np.sin(1), np.cos(1)]])
    for units in (np.eye(2), np.diag([1e-9, 1e6])):
        plant = ct.ss(
            units @ turn @ np.linalg.inv(units),
            [[1], [1]],
            [[1, 0]] @ np.linalg.inv(units),
            0,
            1,
        )
        mode = only(
            pc.horizon_growth(plant, pc.StateAdjacency(np.diag(units)), [10, 1000])
        )
        assert mode.kind == "bounded"
        assert mode.name.startswith("0.5403±0.8415i (x[0], x[1])")
        assert mode.sizes[-1] == pytest.approx(1, rel=1e-3)


@pytest.mark.parametrize("seed", few(range(4), of=2))
def test_modes_add_up_to_the_free_response_of_every_hidden_move(seed):
    plant, horizon = cases.random_plant(seed, states=4, radius=0.9), 12
    growth = pc.horizon_growth(plant, pc.StateAdjacency(1.0), [horizon])
    moves = pc.StateAdjacency(1.0).moves(pc.trajectory_manifold(plant, horizon)).columns
    frames = (pc.observability_stack(plant, horizon) @ moves).reshape(horizon, 2, -1)
    largest = np.linalg.norm(frames, axis=1).max()
    assert max(mode.sizes[-1] for mode in growth.modes) <= 10 * largest
    assert largest <= sum(mode.sizes[-1] for mode in growth.modes) * (1 + 1e-9)


@pytest.mark.parametrize("adjacency", [POSITION, VELOCITY, pc.StateAdjacency(1.0)])
def test_no_design_has_less_noise_than_the_least(adjacency):
    growth = pc.horizon_growth(pc.plants.vehicle(), adjacency, [5, 15])
    for least, horizon in zip(growth.least_noise, growth.horizons):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", pc.PrivacyWarning)
            noise = cases.vehicle_noise(adjacency, horizon=int(horizon))
        assert least / noise.guarantee.gdp <= np.sqrt(noise.design.cost / horizon) * (
            1 + 1e-9
        )


def test_beyond_double_precision_the_least_noise_is_infinite_not_wrong():
    growth = pc.horizon_growth(lags(0.01), pc.StateAdjacency(1.0), [10, 1000])
    assert growth.least_noise[1] == np.inf == only(growth).sizes[1]
    assert np.isfinite(growth.least_noise[0])
    growth.plot()
    plt.close("all")


def test_a_horizon_is_drawn_in_the_users_units():
    room = ct.ss(0.9, 0.1, 1, 0, 0.25, states=["air"], outputs=["y"])
    growth = pc.horizon_growth(room, pc.StateAdjacency(1.0), [4, 40])
    axes = growth.plot(time_unit="h", units={"y": "K"}).axes[0, 0]
    assert axes.get_xlabel() == "Horizon T [h]"
    assert "[K]" in axes.get_ylabel()
    np.testing.assert_allclose(axes.lines[0].get_xdata(), [1.0, 10.0])
    with pytest.raises(ValueError, match="units: expected names among y, got wall"):
        growth.plot(units={"wall": "K"})
    plt.close("all")


def test_an_unstable_mode_makes_the_true_error_grow_whatever_the_controller():
    plant = ct.ss(
        [[1.2, 0.1], [0, 0.7]], [[0], [1]], [[1, 0]], 0, 1, states=["tilt", "rate"]
    )
    adjacency = pc.InitialStateAdjacency({"tilt": 1.0})
    growth = pc.horizon_growth(plant, adjacency, [5, 40])
    mode = only(growth)
    assert mode.kind == "unstable"
    assert "in conflict" in growth.explanations[0]
    noise = pc.design_output_noise(
        plant, horizon=40, budget=cases.BUDGET, adjacency=adjacency
    )
    with pytest.warns(pc.PrivacyWarning, match=r"unstable mode 1.2 \(tilt\)"):
        loop = pc.private_lqg(plant, 1, 1, 1, 1, noise)
    assert np.abs(loop.closed_loop.poles()).max() < 1
    error = np.sqrt(loop.mean_square_error()[0, -1])
    assert error == pytest.approx(mode.sizes[-1] / noise.guarantee.gdp, rel=1e-3)


def test_a_design_beyond_double_precision_names_the_unstable_mode_and_its_growth():
    plant = ct.ss([[1.2, 1], [0, 0.9]], [[0], [1]], [[1, 0]], 0, 0.1, states=["a", "b"])
    request = {"horizon": 2000, "budget": cases.BUDGET}
    growth = f"{1.2**1999 / 0.3:.1e}".replace("+", r"\+")
    with pytest.raises(
        pc.UncertifiableError,
        match=rf"grows to {growth}, because of the unstable mode 1.2 \(a\)",
    ):
        pc.design_output_noise(
            plant, **request, adjacency=pc.StateAdjacency(1.0, times=0)
        )
    with pytest.raises(
        pc.UncertifiableError, match="a mode of the plant contracts too fast|span sizes"
    ):
        pc.design_output_noise(lags(0.5), **request, adjacency=pc.StateAdjacency(1.0))


def test_designs_that_one_mode_dominates_warn_and_name_it():
    request = {"horizon": 30, "budget": cases.BUDGET, "models": "exact"}
    for family in ("gaussian", "iid-gaussian"):
        with pytest.warns(
            pc.PrivacyWarning,
            match=r"contracting mode 0.8 \(s0\) makes the noise grow.* Protect fewer times",
        ):
            pc.design_output_noise(
                lags(0.8), **request, adjacency=pc.StateAdjacency(1.0), family=family
            )
    with warnings.catch_warnings():  # a velocity moves the position as far as its noise
        warnings.simplefilter("error", pc.PrivacyWarning)
        cases.vehicle_noise(VELOCITY, horizon=200, models="exact")
    with pytest.warns(pc.PrivacyWarning, match="unstable mode 1.2"):
        pc.design_output_noise(
            lags(1.2),
            **request,
            adjacency=pc.StateAdjacency(1.0, times=0),
            family="iid-gaussian",
        )


def test_harmless_designs_do_not_warn():
    with warnings.catch_warnings():
        warnings.simplefilter("error", pc.PrivacyWarning)
        noise = cases.vehicle_noise(models="exact")
        cases.vehicle_noise(pc.StateAdjacency(1.0), models="exact")
        pc.private_lqg(pc.plants.vehicle(), 1, 1, 1, 1, noise)
        pc.design_output_noise(
            lags(0.8),
            horizon=60,
            budget=cases.BUDGET,
            adjacency=pc.StateAdjacency(1.0, times=0),
            models="exact",
        )
        pc.design_output_noise(
            lags(0.99),
            horizon=60,
            budget=cases.BUDGET,
            adjacency=pc.StateAdjacency(1.0),
            models="exact",
        )


def test_one_horizon_may_be_a_number_and_short_spans_have_plain_ticks():
    growth = pc.horizon_growth(lags(0.5), pc.StateAdjacency(1.0), 5)
    assert growth.horizons.tolist() == [5]
    figure = (
        pc.horizon_growth(lags(0.5), pc.StateAdjacency(1.0), [2, 3, 4]).plot().figure
    )
    figure.canvas.draw()
    axis = figure.axes[0].xaxis
    labels = {
        text.get_text()
        for text in axis.get_ticklabels() + axis.get_ticklabels(minor=True)
    }
    assert {"2", "3", "4"} <= labels
    assert not any("^" in label for label in labels)
    plt.close("all")


def test_each_growing_mode_is_explained_as_a_part_of_the_noise():
    growth = pc.horizon_growth(lags(0.5, 0.8), pc.StateAdjacency(1.0), 20)
    assert len(growth.explanations) == 2
    assert not any("dominates" in text for text in growth.explanations)


def test_a_secret_disturbance_is_refused_with_another_way():
    with pytest.raises(
        TypeError,
        match=r"StateAdjacency or an InitialStateAdjacency.*options\(sys, horizon=.*without one",
    ):
        pc.horizon_growth(
            pc.plants.vehicle(), pc.DisturbanceAdjacency({"velocity": 0.3}), [10, 50]
        )


def test_growth_plot_and_errors():
    growth = pc.horizon_growth(lags(0.5, 1.0), pc.StateAdjacency(1.0), [2, 8, 32])
    assert [text.get_text() for text in growth.plot().legend.get_texts()] == [
        "least noise (root mean square)", "contracting mode 0.5 (s0)", "bounded mode 1 (s1)",
    ]  # fmt: skip
    plt.close("all")
    with pytest.raises(ValueError, match="horizons: expected increasing numbers"):
        pc.horizon_growth(lags(0.5), pc.StateAdjacency(1.0), [5, 5])
    with pytest.raises(TypeError, match="adjacency: expected an Adjacency"):
        pc.horizon_growth(lags(0.5), 1.0, [5])
    with pytest.raises(ValueError, match="a delayed input"):
        pc.horizon_growth(lags(0.0), pc.StateAdjacency(1.0), [5])


def test_a_printed_growth_says_what_its_numbers_are():
    lag = ct.ss(0.5, 1, 1, 0, 1, states=["level"])
    growth = pc.horizon_growth(lag, pc.StateAdjacency(1.0), [1, 11])
    lines = str(growth).splitlines()
    assert lines[0].startswith("No Gaussian noise hides the secret")
    assert lines[1] == "  1 over 1 sample"
    size = float(lines[2].split()[0])  # rounded down
    assert 0.999 * growth.least_noise[1] < size <= growth.least_noise[1]
    assert lines[3] == "Mode 0.5 (level), contracting."
    assert lines[4] == f"Note: {growth.explanations[0]}."
