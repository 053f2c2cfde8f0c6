"""Ways to hide a secret, compared before any design, are the designs themselves."""

import math
from dataclasses import replace

import control as ct
import numpy as np
import pytest
from repeats import few

import privcontrol as pc
from privcontrol.studies import ways as module

BUDGET = pc.PrivacyBudget(epsilon=1.0, delta=1e-2)
ROOM = ct.ss(0.9, [[1, 0.1]], 1, 0, 300.0, inputs=["heat", "people"], outputs=["air"])
PEOPLE = pc.DisturbanceAdjacency({"people": 1.0}, duration=3, shape="level")


@pytest.fixture(scope="module")
def public():
    return pc.private_lqg(ROOM, 1, 1, 1e-2, 1e-2, controls=["heat"])


@pytest.fixture(scope="module")
def endless(public):
    return pc.options(
        ROOM, horizon=math.inf, budget=BUDGET, adjacency=PEOPLE, loop=public
    )


def by_name(found):
    return {option.way: option for option in found}


def test_the_noise_is_what_the_design_returns(endless, public):
    noise = pc.design_output_noise(
        ROOM,
        horizon=math.inf,
        budget=BUDGET,
        adjacency=PEOPLE,
        weight=public,
        models="exact",
    )
    shaped = by_name(endless)["shaped"]
    assert shaped.noise == noise
    assert (shaped.std == noise.std).all()
    assert shaped.detection == noise.guarantee.detection()


def test_the_price_is_that_of_the_loop_behind_the_noise(endless, public):
    shaped = by_name(endless)["shaped"]
    behind = public.with_noise(shaped.noise).steady_state_cost().total
    assert shaped.price == behind / public.steady_state_cost().total - 1
    assert by_name(endless)["controller on site"].price is None


def test_the_price_without_readings_is_that_behind_endless_noise(endless, public):
    """No finite noise costs more, and noise of 10,000 K costs as much."""
    deaf = pc.private_lqg(ROOM, 1, 1, 1e-2, 1e8, controls=["heat"])
    blind = deaf.steady_state_cost().total / public.steady_state_cost().total - 1
    assert endless.blind == pytest.approx(blind, rel=1e-5)
    assert all(option.price < endless.blind for option in endless if option.price)


def test_of_integral_action_nothing_is_said_of_running_blind():
    """It was said to cost 10 % less without readings, and to need none."""
    room = ct.ss([[0.9, 0.05], [0.02, 0.9]], [[1, 0.1], [0, 0]], [[1, 0]], 0, 300.0)
    given = {"controls": [0], "integral": "y[0]"}
    loop = pc.private_lqg(room, np.diag([1.0, 0.1]), 1, 1e-2, 1e-2, **given)
    people = pc.DisturbanceAdjacency(1.0, inputs=["u[1]"])
    found = pc.options(
        room, horizon=math.inf, budget=BUDGET, adjacency=people, loop=loop
    )
    assert found.blind is None
    assert found[0].price > 0
    assert "publish none" not in str(found)
    # a filter that does not know the noise may cost more than none
    still = pc.private_loop(
        room,
        [[0.5, 0.0], [0.0, 0.0]],
        [[0.5], [0.0]],
        Q=np.diag([1.0, 0.1]),
        R=np.eye(2),
        QN=1e-2 * np.eye(2),
        RN=[[1e-2]],
    )
    strict = pc.PrivacyBudget(epsilon=0.1, delta=1e-2)
    found = pc.options(
        room, horizon=math.inf, budget=strict, adjacency=people, loop=still
    )
    assert found[0].price > found.blind > 0


def test_without_a_price_nothing_is_said_of_running_blind():
    found = pc.options(ROOM, horizon=math.inf, budget=BUDGET, adjacency=PEOPLE)
    assert found.blind is None


def test_shares_are_rounded_as_in_the_guarantee():
    risk = pc.PrivacyBudget.from_risk(false_alarm=0.05, detection=0.15)
    found = pc.options(ROOM, horizon=math.inf, budget=risk, adjacency=PEOPLE)
    assert "  15 %  " in str(found)


def test_of_an_increase_by_ten_times_three_digits_are_shown():
    """9.87 times as much costs 987.3 % more, and 12.3 times as much 1,240 %."""
    shown = [module._percent(increase) for increase in (0.0123, 9.8724, 12.345, 98.76)]
    assert shown == ["1.3 %", "987.3 %", "1,240 %", "9,880 %"]


def test_long_runs_are_answered_at_once_with_a_line():
    """Dense noise of 600 samples takes a minute; its lines come before any design."""
    cart = ct.ss([[1, 0.2], [0, 0.9]], [[0], [0.2]], np.eye(2), 0, 0.2, inputs=["wind"])
    wind = pc.DisturbanceAdjacency({"wind": 5.0}, duration=10)
    found = pc.options(cart, horizon=300, budget=BUDGET, adjacency=wind)
    assert [option.way for option in found] == ["independent"]
    assert "take long to design; ask design_output_noise" in found.left_out["shaped"]


@pytest.mark.slow
@pytest.mark.parametrize(
    "duration, shape, horizon, is_short",
    [
        (1, "any", 300, True),
        (8, "level", 150, True),
        (8, "level", 300, False),
        (8, "any", 60, True),
        (8, "any", 150, False),
        (9, "level", 150, False),
        (9, "any", 60, True),
    ],
)
def test_short_changes_are_designed_over_longer_runs(
    duration, shape, horizon, is_short
):
    """Noise for one sample's change takes a second for 1,000 entries, for others for 120."""
    cart = ct.ss([[1, 0.2], [0, 0.9]], [[0], [0.2]], np.eye(2), 0, 0.2, inputs=["wind"])
    wind = pc.DisturbanceAdjacency({"wind": 5.0}, duration=duration, shape=shape)
    found = pc.options(cart, horizon=horizon, budget=BUDGET, adjacency=wind)
    assert ("shaped" in [option.way for option in found]) is is_short
    assert ("shaped" in found.left_out) is not is_short


def room_with(pole):
    return ct.ss(pole, [[1, 0.1]], 1, 0, 300.0, inputs=["heat", "people"])


@pytest.mark.parametrize("pole", few([0.9, 0.9645], of=1))
def test_a_day_in_a_room_has_shaped_noise(pole):
    """Five-minute samples: a visit of up to an hour was left out, as noise that takes long.

    The slower mode has fallen to 3e-5 by the end.
    """
    visit = pc.DisturbanceAdjacency({"people": 1.0}, duration=12, shape="any")
    room = room_with(pole)
    found = by_name(pc.options(room, horizon=288, budget=BUDGET, adjacency=visit))
    assert {"shaped", "independent"} <= found.keys()
    assert found["shaped"].std.max() < found["independent"].std.max()


@pytest.mark.parametrize("pole, duration", [(0.9722, 12), (0.9, 13)])
def test_a_slow_plant_or_a_long_change_is_left_out(pole, duration):
    """A mode that has fallen to 3e-4 by the end, and changes of more than T / 24 samples."""
    visit = pc.DisturbanceAdjacency({"people": 1.0}, duration=duration, shape="any")
    room = room_with(pole)
    found = pc.options(room, horizon=288, budget=BUDGET, adjacency=visit)
    assert "288 samples of outputs take long" in found.left_out["shaped"]


def test_independent_noise_over_a_long_run_is_left_out_as_well():
    """Beyond a thousand readings it takes minutes."""
    long = pc.options(ROOM, horizon=1001, budget=BUDGET, adjacency=PEOPLE)
    assert "independent" not in [option.way for option in long]
    assert "1001 samples of outputs take long" in long.left_out["independent"]
    less = pc.options(ROOM, horizon=200, budget=BUDGET, adjacency=PEOPLE)
    assert "independent" in [option.way for option in less]


def test_the_signal_is_the_spread_of_simulated_outputs(endless, public):
    faint = pc.design_output_noise(
        ROOM,
        horizon=math.inf,
        budget=pc.PrivacyBudget(gdp=500.0),
        adjacency=PEOPLE,
        models="exact",
    )
    quiet = public.with_noise(faint)
    response = quiet.simulate(
        np.arange(400) * 300.0,
        disturbance="design",
        measurement_noise="design",
        trials=2000,
        rng=0,
    )
    # the spread of 2,000 trials is off by 1.6 % (one standard deviation)
    spread = response.states[0, :, -1].std()
    assert endless[0].signal[0] == pytest.approx(spread, rel=0.065)


def test_the_secret_is_its_largest_effect(endless):
    heat = np.zeros((1, 30))
    heat[:, :3] = 1.0
    person = ROOM[:, 1]
    response = ct.forced_response(person, np.arange(30) * 300.0, heat)
    assert endless[0].secret[0] == pytest.approx(np.abs(response.outputs).max())


def test_a_controller_on_site_closes_the_loop_around_the_true_output(endless, public):
    local = by_name(endless)["controller on site"]
    inside = np.linalg.eigvals(np.asarray(local.noise.plant.A))
    outside = np.linalg.eigvals(np.asarray(public.closed_loop.A))
    assert np.sort(np.abs(inside)) == pytest.approx(np.sort(np.abs(outside)))


def test_a_state_has_laws_and_horizons():
    vehicle = pc.plants.vehicle()
    secret = pc.StateAdjacency({"position": 1.0})
    found = pc.options(vehicle, horizon=60, budget=BUDGET, adjacency=secret)
    names = by_name(found)
    assert {"shaped", "independent", "shaped, best law", "120 samples"} <= set(names)
    assert names["shaped, best law"].std[0] < 0.7 * names["shaped"].std[0]
    assert "a run of any length" in found.left_out
    assert names["shaped"].signal is None


def test_it_prints_a_line_for_each_way_and_output(endless):
    text = str(endless)
    assert text.count("\n") == len(endless) + len(endless.left_out)
    for option in endless:
        assert option.way in text
        assert option.verdict in text
    assert len(endless.to_pandas()) == len(endless)
    assert endless._repr_html_().count("<tr>") == len(endless) + 1


def test_verdicts_say_what_to_do():
    def said(std, secret, signal=None, price=None, blind=None):
        sizes = [np.array([value]) for value in (std, secret)]
        beside = None if signal is None else np.array([signal])
        return module._verdict(*sizes, beside, price, blind)

    assert said(2.0, 0.0).startswith("the secret does not show")
    assert said(2.0, 1.0) == "the noise is 2 times the secret"
    assert said(2.0, 1.0, 20.0).endswith("0.1 times your signal: small")
    assert said(2.0, 1.0, 4.0).endswith("the loop feels it")
    assert said(4.0, 1.0, 3.0).endswith("too much")
    assert "ask for consent" in said(4.0, 3.0, 3.0)
    assert said(4.0, 3.0, 3.0, 0.11).endswith("costs 11 % more: small")
    assert said(4.0, 3.0, 3.0, 0.11, 0.4).endswith("40 % without any reading: small")
    assert said(4.0, 3.0, 3.0, 0.39, 0.4).endswith("readings hardly help it now")
    assert "costs 162.5 % more, 310 % without" in said(4.0, 3.0, 3.0, 1.6241, 3.1)
    assert said(4.0, 3.0, 3.0, 0.11, 0.12).endswith("publish none")
    assert "private_lqg designs one" in said(4.0, 3.0, 3.0, 0.41, 0.4)
    assert "private_lqg" not in said(4.0, 3.0, 3.0, 0.4, 0.4)
    assert "2,010 % more, 51,500 % without" in said(4.0, 3.0, 3.0, 20.005, 514.357)


def test_the_secret_beside_the_noise_is_what_the_verdict_says():
    """Three changes at once do three times as much, and an unstable mode grows."""
    asked = {"horizon": 6, "budget": BUDGET}
    three = pc.DisturbanceAdjacency({"people": 1.0}, duration=2, events=3, separation=1)
    way = pc.options(ROOM, adjacency=three, **asked)[0]
    one = pc.options(ROOM, adjacency=replace(three, events=1, separation=0), **asked)[0]
    assert way.secret == pytest.approx(one.secret)
    assert "times one change of the secret" in way.verdict
    assert "times the secret" in one.verdict
    rising = ct.ss(1.2, 1.0, 1.0, 0, 1.0)
    way = pc.options(rising, adjacency=pc.StateAdjacency(1.0), **asked)[0]
    assert way.secret == pytest.approx(
        [1.2]
    )  # at the next sample, and 2.49 at the fifth
    assert "times the secret (unstable growth apart)" in way.verdict


def test_shaped_noise_stands_first_although_it_comes_second(endless):
    assert [option.way for option in endless][:2] == ["shaped", "independent"]


def test_ways_that_come_late_are_left_out_with_a_line(monkeypatch, public):
    clock = iter(range(0, 1000, 8))
    monkeypatch.setattr(module.time, "monotonic", lambda: next(clock))
    found = pc.options(
        ROOM, horizon=math.inf, budget=BUDGET, adjacency=PEOPLE, loop=public
    )
    assert [option.way for option in found] == ["independent"]
    assert found.left_out["shaped"] == "not tried: the others took 10 s"


def test_no_way_at_all_is_an_error_with_the_reasons():
    tank = ct.ss(1.0, 1.0, 1.0, 0, 1.0)
    with pytest.raises(ValueError, match=r"no way hides this secret \(shaped"):
        pc.options(
            tank,
            horizon=math.inf,
            budget=BUDGET,
            adjacency=pc.DisturbanceAdjacency(1.0),
        )
    two = ct.ss([], [], [], [[1, 1]], 1.0, inputs=["east", "west"])
    which = pc.DisturbanceAdjacency({"east": 1.0, "west": 1.0}, which=True)
    with pytest.raises(ValueError, match="does not show in the published outputs"):
        pc.options(two, horizon=math.inf, budget=BUDGET, adjacency=which)
    with pytest.raises(TypeError, match="PrivateLoop"):
        pc.options(ROOM, horizon=4, budget=BUDGET, adjacency=PEOPLE, loop=ROOM)


def test_a_reason_that_all_ways_share_is_told_once():
    tank = ct.ss(1.0, 1.0, 1.0, 0, 1.0)
    with pytest.raises(ValueError, match="no way hides this secret") as refused:
        pc.options(
            tank,
            horizon=math.inf,
            budget=BUDGET,
            adjacency=pc.DisturbanceAdjacency(1.0, duration=3),
        )
    assert "(shaped, independent, one level of change: " in str(refused.value)
    assert str(refused.value).count("never decays") == 1


def test_the_table_of_many_outputs_shows_those_that_the_secret_changes_most():
    count = 20
    gains = np.arange(1.0, count + 1)
    rod = ct.ss(0.5, 1.0, gains[:, np.newaxis], 0, 1.0, inputs=["hand"], outputs=count)
    found = pc.options(
        rod,
        horizon=math.inf,
        budget=BUDGET,
        adjacency=pc.DisturbanceAdjacency({"hand": 1.0}),
    )
    text = str(found)
    shown = {label for label in found.outputs if f" {label} " in text}
    assert shown == {f"y[{k}]" for k in range(8, 20)}
    assert "shown: the 12 of 20 outputs" in text
    assert "shown: the 12 of 20 outputs" in found._repr_html_()
    assert found[0].verdict in text
    assert len(found.to_pandas()) == count * len(found)


# -- loops with a prior, whose cost is that of a run -----------------------------------

DRONE = ct.ss(
    [[0, 1], [0, -0.2]],
    [[0], [1]],
    np.eye(2),
    0,
    states=["place", "speed"],
    outputs=["GPS", "Doppler"],
).sample(0.5)
SITE = pc.InitialStateAdjacency({"place": 100.0})
FLIGHT = {
    "Q": np.diag([0, 1]),
    "R": 0.5,
    "QN": np.diag([0, 0.04]),
    "RN": np.diag([4, 0.04]),
    "P0": np.diag([1e4, 1]),
}


def flown(terminal=0, **given):
    """The loop of the README on one axis, which has no steady state."""
    return pc.private_lqg(DRONE, **FLIGHT, terminal=terminal, **given)


def total_of(loop):
    drawn = ("initial_state", "disturbance", "measurement_noise")
    cost = loop.cost(**dict.fromkeys(drawn, "design"))
    return cost.total + cost.terminal


@pytest.mark.parametrize("terminal", [0, np.diag([0.0, 30.0])])
def test_a_loop_with_a_prior_is_priced_by_the_total_of_its_run(terminal):
    """The first loop of the README was refused."""
    public = flown(terminal, horizon=40)
    found = by_name(
        pc.options(DRONE, horizon=40, budget=BUDGET, adjacency=SITE, loop=public)
    )
    for option in (found["shaped"], found["independent"]):
        behind = total_of(public.with_noise(option.noise))
        assert option.price == pytest.approx(behind / total_of(public) - 1, abs=1e-9)
    assert found["shaped"].price < 1e-9 < 0.5 < found["independent"].price
    assert "; the run costs 0 % more, " in found["shaped"].verdict
    longer = flown(terminal, horizon=80)
    twice = found["80 samples"]
    behind = total_of(longer.with_noise(twice.noise))
    assert twice.price == pytest.approx(behind / total_of(longer) - 1, abs=1e-9)


def test_a_run_without_readings_costs_what_the_plant_alone_costs():
    """By the Lyapunov recursion of the plant without inputs."""
    terminal = np.diag([0.0, 30.0])
    public = flown(terminal, horizon=40)
    found = pc.options(DRONE, horizon=40, budget=BUDGET, adjacency=SITE, loop=public)
    spread = FLIGHT["P0"]
    cost = 0.0
    for _ in range(40):
        cost += np.trace(FLIGHT["Q"] @ spread)
        spread = DRONE.A @ spread @ DRONE.A.T + FLIGHT["QN"]
    cost += np.trace(terminal @ spread)
    assert found.blind == pytest.approx(cost / total_of(public) - 1)


def test_the_signal_of_a_run_is_the_mean_square_of_its_outputs():
    public = flown(horizon=40)
    found = pc.options(DRONE, horizon=40, budget=BUDGET, adjacency=SITE, loop=public)
    response = public.with_noise(found[0].noise).simulate(
        initial_state="design",
        disturbance="design",
        measurement_noise="design",
        trials=4000,
        rng=0,
    )
    # rms values of 4,000 trials are off by 1.1 % (one standard deviation) at most
    squares = np.asarray(response.states)[:2] ** 2
    assert found[0].signal == pytest.approx(
        np.sqrt(squares.mean(axis=(1, 2))), rel=0.045
    )


def test_over_a_run_ways_have_the_noise_of_least_variance():
    """Noise for a loop may be a hundred times as large where a run ends."""
    room = ct.ss(0.9, [[1, 0.1]], 1, 0, 300.0, inputs=["heat", "people"])
    public = pc.private_lqg(
        room, 1, 1, 1e-2, 1e-2, controls=["heat"], P0=1, terminal=0, horizon=16
    )
    asked = {
        "horizon": 16,
        "budget": BUDGET,
        "adjacency": pc.DisturbanceAdjacency({"people": 1.0}, duration=4),
    }
    found = by_name(pc.options(room, **asked, loop=public))
    plain = pc.design_output_noise(room, **asked, models="exact")
    assert found["shaped"].noise == plain
    assert found["shaped"].price > 0


def test_a_loop_with_a_prior_and_a_list_of_plants_has_options():
    plants = [DRONE] * 4 + [ct.ss(0.9 * DRONE.A, DRONE.B, DRONE.C, 0, 0.5)] * 4
    for k, plant in enumerate(plants):
        plants[k] = ct.ss(plant, states=["place", "speed"], outputs=["GPS", "Doppler"])
    public = pc.private_lqg(plants, **FLIGHT, terminal=0)
    found = pc.options(plants, horizon=8, budget=BUDGET, adjacency=SITE, loop=public)
    behind = total_of(public.with_noise(found[0].noise))
    assert found[0].price == pytest.approx(behind / total_of(public) - 1, abs=1e-9)
    assert found.blind > found[0].price


def test_a_loop_with_a_prior_has_no_steady_state_to_compare_with():
    public = flown(horizon=40)
    with pytest.raises(ValueError, match="Pass the horizon of its run"):
        pc.options(DRONE, horizon=math.inf, budget=BUDGET, adjacency=SITE, loop=public)
