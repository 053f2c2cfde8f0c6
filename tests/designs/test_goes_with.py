"""With what changes of any shape, and noise of many units, go, and what is refused why.

The rows are those of the table on the page "Which secret?".
"""

import json
import math
from dataclasses import replace

import control as ct
import numpy as np
import pytest
from repeats import few

import privcontrol as pc
from privcontrol import verify
from privcontrol.secrets.fleet import parted
from privcontrol.systems.linear import Plant

BUDGET = pc.PrivacyBudget(gdp=0.5)
LEAKING = pc.PrivacyBudget(gdp=0.5, leak=1e-3)


def lag(pole=0.9):
    names = {"states": ["x"], "inputs": ["u"], "outputs": ["y"]}
    return ct.ss(pole, 1, 1, 0, 1.0, **names)


def rooms(count, link=0.0):
    names = {
        kind: [f"{letter}{k}" for k in range(count)]
        for kind, letter in (("states", "x"), ("inputs", "u"), ("outputs", "y"))
    }
    eye = np.eye(count)
    return ct.ss(0.9 * eye + link / count - link * eye, eye, eye, 0, 1.0, **names)


ANY = pc.DisturbanceAdjacency({"u": 1.0}, duration=3)


def designed(plant, **options):
    request = {"budget": BUDGET, "adjacency": ANY, "horizon": np.inf} | options
    return pc.design_output_noise(plant, **request)


def check_where_it_goes(noise, folder):
    """Into a file that a stranger proves, a gateway and a ledger."""
    noise.save(folder / "noise.json")
    assert pc.load(folder / "noise.json") == noise
    assert verify.main([str(folder / "noise.json")]) == 0
    with pc.Gateway(noise, grid=0.001) as gateway:
        assert np.isfinite(gateway.publish(0.0)[0])
    ledger = pc.PrivacyLedger(pc.PrivacyBudget(gdp=1.0))
    ledger.charge(noise.guarantee)
    assert ledger.spent.gdp == pytest.approx(noise.guarantee.gdp)


@pytest.mark.slow
@pytest.mark.parametrize(
    "options",
    [
        {"horizon": 12},
        {},
        {"horizon": 12, "floor": 1.0},
        {"floor": 1.0},
        {"horizon": 12, "floor": 1.0, "models": [lag(0.8)]},
        {"models": [lag(0.8)]},
        {
            "horizon": 12,
            "floor": "auto",
            "models": pc.PlantBox.around(lag(), relative=0.01),
        },
        {"models": pc.PlantBox.around(lag(), relative=0.01), "floor": 1.0},
        {"horizon": 12, "adjacency": pc.DisturbanceAdjacency(1.0, duration=3, times=4)},
        {"horizon": 12, "floor": 1.0, "resolution": 0.01},
        {"releases": 2},
        {"weight": [2.0]},
        {"adjacency": pc.DisturbanceAdjacency(1.0, duration=3, events=2)},
        {
            "horizon": 12,
            "adjacency": pc.DisturbanceAdjacency(
                1.0, duration=3, events=2, separation=5
            ),
        },
        {"adjacency": [ANY, pc.DisturbanceAdjacency({"u": 2.0})]},
    ],
)
def test_changes_of_any_shape_go_with(options):
    assert designed(lag(), **options).guarantee.gdp <= 0.5 + 1e-9


def test_a_bound_goes_with_any_shape_over_a_horizon_or_a_life():
    for options in ({"horizon": 12}, {"life": 50, "order": 1}):
        noise = designed(lag(), bound=100.0, budget=LEAKING, **options)
        assert noise.leak <= 1e-3
        assert noise.guarantee.loss.shift <= 0.5 + 1e-9


def two_inputs():
    names = {"states": ["x"], "inputs": ["u", "v"], "outputs": ["y"]}
    return ct.ss(0.9, [[1.0, 0.5]], 1, 0, 1.0, **names)


@pytest.mark.parametrize(
    "options", [{"horizon": 8}, {}, {"horizon": 8, "bound": 300.0, "budget": LEAKING}]
)
def test_several_signals_at_once_go_with(options):
    secret = pc.DisturbanceAdjacency(1.0, duration=2, together=True)
    noise = designed(two_inputs(), adjacency=secret, **options)
    assert noise.guarantee.loss.shift <= 0.5 + 1e-9


WHEN = pc.DisturbanceAdjacency({"u": 1.0}, moved=3)
WHICH = pc.DisturbanceAdjacency(1.0, which=True)


@pytest.mark.parametrize("secret", few([WHEN, WHICH], of=1))
@pytest.mark.parametrize(
    "options",
    [
        {"horizon": 12},
        {},
        {"horizon": 12, "floor": 1.0},
        {"floor": 1.0},
        {"horizon": 12, "floor": 1.0, "models": [two_inputs()]},
        {"models": [two_inputs()]},
        {"horizon": 12, "floor": 1.0, "resolution": 0.01},
        {"releases": 2},
        {"weight": [2.0]},
        {"bound": 100.0, "budget": LEAKING, "order": 2},
        {"bound": 100.0, "budget": LEAKING, "life": 50, "order": 2},
        {"bound": 100.0, "budget": LEAKING, "horizon": 12},
    ],
)
def test_when_and_which_go_with(secret, options, tmp_path):
    noise = designed(two_inputs(), adjacency=secret, **options)
    spent = noise.guarantee.loss.released(options.get("releases", 1))
    assert spent.shift <= 0.5 + 1e-9
    assert noise.leak <= 1e-3
    noise.save(tmp_path / "noise.json")
    assert pc.load(tmp_path / "noise.json") == noise


@pytest.mark.parametrize("secret", [WHEN, WHICH])
@pytest.mark.parametrize("events", [{"events": 2}, {"events": 2, "separation": 9}])
def test_several_events_of_when_and_which_go_with(secret, events):
    noise = designed(two_inputs(), adjacency=replace(secret, **events))
    assert noise.guarantee.gdp <= 0.5 + 1e-9
    assert (noise.std >= designed(two_inputs(), adjacency=secret).std).all()


@pytest.mark.parametrize(
    "secret", [WHEN, WHICH, replace(WHEN, duration=2, shape="level")]
)
def test_events_without_a_separation_may_come_together(secret, tmp_path):
    """Two at once are one twice as large, whatever else two events may show."""
    noise = designed(two_inputs(), adjacency=replace(secret, events=2))
    doubled = replace(secret, radius={"u": 2.0} if secret.moved else 2.0)
    alone = designed(two_inputs(), adjacency=doubled)
    assert noise.std == pytest.approx(alone.std, rel=1e-9)
    noise.save(tmp_path / "noise.json")
    assert verify.main([str(tmp_path / "noise.json")]) == 0


def test_two_moved_events_are_found_no_more_often_than_promised():
    """All pairs of moves of one signal by up to 3 samples, at any distance, in brute force."""
    noise = designed(lag(), adjacency=replace(WHEN, events=2))
    shaping = noise.parts[0].system
    length = 200
    impulse = np.concatenate([[0.0], 0.9 ** np.arange(length - 1)])
    made = shaping.impulse_response(length)[:, 0, 0]
    whitened = np.zeros(length)  # by division of both power series
    for t in range(length):
        whitened[t] = (impulse[t] - made[1 : t + 1] @ whitened[:t][::-1]) / made[0]
    starts = [np.roll(whitened, k) * (np.arange(length) >= k) for k in range(40)]
    moves = [
        starts[t] - starts[t + k]
        for t in range(4, 36)
        for k in range(-3, 4)
        if k and t + k >= 0
    ]
    rows = np.array(moves)
    gram = rows @ rows.T
    squares = np.diag(gram)
    largest = math.sqrt((squares[:, None] + squares + 2 * gram).max())
    claimed = noise.guarantee.gdp
    assert claimed * (1 - 1e-4) <= largest <= claimed * (1 + 1e-9)


@pytest.mark.parametrize("secret", [WHEN, WHICH])
def test_when_and_which_have_a_gateway_a_ledger_a_proof_and_codesign(secret, tmp_path):
    noise = designed(two_inputs(), adjacency=secret)
    check_where_it_goes(noise, tmp_path)
    with pytest.raises(ValueError, match="no size is estimated"):
        pc.eavesdropper(noise)
    loop = {"Q": 1, "R": 1, "QN": 0.1, "RN": 0.1, "controls": ["v"]}
    chosen = pc.private_lqg(two_inputs(), **loop, noise=noise, codesign=True)
    assert chosen.guarantee.gdp <= 0.5 + 1e-9


def test_noise_within_a_bound_is_not_covered_by_the_proof_of_a_stranger(tmp_path):
    noise = designed(two_inputs(), adjacency=WHEN, bound=100.0, budget=LEAKING, order=2)
    noise.save(tmp_path / "noise.json")
    assert verify.main([str(tmp_path / "noise.json")]) == 2


def box():
    return pc.PlantBox.around(two_inputs(), relative=0.001)


OTHER = pc.DisturbanceAdjacency({"v": 1.0})
WHICH_EARLY = pc.DisturbanceAdjacency(1.0, which=True, times=4)


@pytest.mark.parametrize(
    "plant, options",
    [
        ([two_inputs()] * 12, {"adjacency": WHEN, "horizon": 12}),
        ([two_inputs()] * 12, {"adjacency": WHICH, "horizon": 12}),
        (two_inputs(), {"adjacency": WHICH, "models": box(), "floor": 1.0}),
        (two_inputs(), {"adjacency": WHICH_EARLY, "horizon": 12}),
        (two_inputs(), {"adjacency": [WHEN, OTHER], "horizon": 12}),
        (two_inputs(), {"adjacency": [WHICH, OTHER]}),
    ],
)
def test_when_and_which_go_with_other_plants_times_and_lists(plant, options):
    assert designed(plant, **options).guarantee.gdp <= 0.5 + 1e-9


@pytest.mark.parametrize("secret", [WHEN, WHICH])
def test_when_and_which_have_an_audit_and_a_tradeoff(secret):
    noise = designed(two_inputs(), adjacency=secret, horizon=8)
    assert pc.audit(noise, trials=2000, rng=0).passed
    found = pc.tradeoff(
        two_inputs(),
        *(1, np.eye(2), 0.1, 0.1),
        horizon=np.inf,
        adjacency=secret,
        epsilons=[1.0],
        delta=0.01,
    )
    assert len(found.epsilons) == 1


@pytest.mark.parametrize(
    "options, words",
    [
        ({"adjacency": WHEN, "models": box()}, "one plant for the whole run"),
        (
            {"adjacency": WHEN, "models": box(), "floor": 1.0, "horizon": 12},
            "one plant for the whole run",
        ),
        (
            {"adjacency": WHICH, "models": box(), "floor": 1.0, "horizon": 12},
            "one plant for the whole run",
        ),
        (
            {
                "adjacency": WHEN,
                "models": [two_inputs()],
                "bound": 9.0,
                "budget": LEAKING,
            },
            "exact plant",
        ),
        ({"adjacency": WHEN, "resolution": 0.01, "floor": 1.0}, "sensor's grid"),
        ({"adjacency": WHICH, "resolution": 0.01, "floor": 1.0}, "sensor's grid"),
        ({"adjacency": [WHEN, OTHER]}, "is designed alone"),
        ({"adjacency": WHICH_EARLY}, "may change at every sample"),
    ],
)
def test_when_and_which_are_refused_beside(options, words):
    with pytest.raises((ValueError, pc.PrivacyError), match=words):
        designed(two_inputs(), **options)


@pytest.mark.parametrize(
    "more, words",
    [
        ({"moved": 3, "times": 4}, "may come at every sample"),
        ({"moved": 3, "together": True}, "is on one signal"),
        ({"which": True, "together": True}, "is on one signal"),
        ({"moved": 3, "norm": "l2"}, "hides its time too"),
        ({"moved": 3, "profiles": [[1.0, 2.0]]}, "hides its time too"),
        ({"which": True, "norm": "l2"}, 'norm="single" without profiles'),
        ({"which": True, "profiles": [[1.0, 2.0]]}, 'norm="single" without profiles'),
    ],
)
def test_when_and_which_are_no_other_secrets(more, words):
    with pytest.raises((ValueError, pc.PrivacyError), match=words):
        designed(two_inputs(), adjacency=pc.DisturbanceAdjacency(1.0, **more))


# -- a bound ----------------------------------------------------------------------------

ONCE = pc.DisturbanceAdjacency({"u": 1.0})
WITHIN = {"bound": 100.0, "budget": LEAKING}


@pytest.mark.parametrize(
    "options",
    [
        {"horizon": 12, "floor": 0.5},
        {"life": 50, "order": 1, "floor": 0.5},
        {"horizon": 12, "adjacency": replace(ONCE, times=4)},
        {"horizon": 12, "adjacency": pc.DisturbanceAdjacency(1.0, norm="l2")},
        {"horizon": 12, "adjacency": replace(ONCE, profiles=[[1.0, 0.5]])},
        {"order": 1, "adjacency": replace(ONCE, events=2)},
        {"life": 50, "order": 1, "weight": [2.0]},
        {"life": 50, "order": 1, "releases": 2},
        {"horizon": 12, "adjacency": [ONCE, replace(ONCE, duration=2, shape="level")]},
    ],
)
def test_a_bound_goes_with(options):
    noise = designed(lag(), **{"adjacency": ONCE} | WITHIN | options)
    spent = noise.guarantee.loss.released(options.get("releases", 1))
    assert spent.shift <= 0.5 + 1e-9
    assert noise.leak <= 1e-3
    assert np.abs(noise.over(12).sample(20, rng=0)).max() <= 100.0


@pytest.mark.parametrize(
    "options, words",
    [
        ({"order": 1, "floor": 0.5}, "filtered noise alone"),
        (
            {"order": 1, "adjacency": pc.DisturbanceAdjacency(1.0, norm="l2")},
            "given changes of single signals",
        ),
        ({"horizon": 12, "resolution": 0.01}, "exact plant"),
        (
            {"horizon": 12, "models": pc.PlantBox.around(lag(), relative=0.01)},
            "exact plant",
        ),
    ],
)
def test_a_bound_is_refused_beside(options, words):
    with pytest.raises((ValueError, pc.PrivacyError), match=words):
        designed(lag(), **{"adjacency": ONCE} | WITHIN | options)


def test_what_is_made_of_noise_within_a_bound_and_what_is_not():
    noise = designed(lag(), adjacency=ONCE, order=1, **WITHIN)
    assert np.isfinite(pc.eavesdropper(noise).std).all()
    with pc.Gateway(noise, grid=0.001) as gateway:
        assert abs(gateway.publish(0.0)[0]) <= 100.0
    with pytest.raises(pc.PrivacyError, match="moves that the past chooses"):
        pc.Gateway(noise, grid=0.001, resolution=0.01)
    loop = {"Q": 1, "R": 1, "QN": 0.1, "RN": 0.1}
    with pytest.raises(pc.PrivacyError, match="weight=loop and bound="):
        pc.private_lqg(lag(), **loop, noise=noise, codesign=True)
    run = designed(lag(), adjacency=ONCE, horizon=12, **WITHIN)
    assert pc.audit(run, trials=2000, rng=0).passed


RISK = {"false_alarm": 0.05, "detection": 0.5, "events": 20, "separation": 6}


@pytest.mark.parametrize(
    "plant, secret",
    [
        (lag(), ANY),
        (lag(), pc.DisturbanceAdjacency({"u": 1.0}, moved=3)),
        (two_inputs(), pc.DisturbanceAdjacency(1.0, which=True)),
        (rooms(3), pc.DisturbanceAdjacency(1.0)),
        (rooms(230), pc.DisturbanceAdjacency(1.0)),
    ],
)
def test_the_risk_of_many_changes_goes_with(plant, secret):
    budget = pc.PrivacyBudget.from_risk(**RISK)
    noise = designed(plant, adjacency=secret, budget=budget)
    together = noise.guarantee.repeated(20, separation=6)
    assert together.detection(false_alarm=0.05) <= 0.5
    assert together.gdp == pytest.approx(budget.together, rel=1e-6)


def test_the_risk_of_many_changes_has_no_leak():
    with pytest.raises(ValueError, match="leak"):
        designed(lag(), budget=pc.PrivacyBudget.from_risk(**RISK), bound=100.0)


def test_a_plant_that_varies_hides_changes_of_any_shape():
    plants = [lag(0.9), lag(0.8)] * 6
    assert designed(plants, horizon=12).guarantee.gdp <= 0.5 + 1e-9


@pytest.mark.parametrize(
    "options, words",
    [
        ({"family": "laplace"}, "Laplace"),
        ({"family": "ball"}, "horizon"),
        ({"family": "ball", "horizon": 12}, "disturbance"),
        ({"resolution": 0.01, "floor": 1.0}, "without a horizon no noise covers"),
        (
            {"adjacency": pc.DisturbanceAdjacency(1.0, duration=3, times=4)},
            "without a horizon a disturbance may change at every sample",
        ),
        (
            {
                "horizon": 12,
                "adjacency": pc.DisturbanceAdjacency(1.0, duration=3, events=2),
            },
            "need a separation",
        ),
        ({"bound": 100.0, "models": [lag(0.8)], "budget": LEAKING}, "exact plant"),
        ({"bound": 100.0, "order": 2, "budget": LEAKING}, "given changes of single"),
    ],
)
def test_changes_of_any_shape_are_refused_beside(options, words):
    with pytest.raises((ValueError, pc.PrivacyError), match=words):
        designed(lag(), **options)


def test_changes_of_any_shape_have_an_eavesdropper_files_a_gateway_and_a_proof(
    tmp_path,
):
    noise = designed(lag())
    assert np.isfinite(pc.eavesdropper(noise).std).all()
    check_where_it_goes(noise, tmp_path)


def test_loops_price_changes_of_any_shape_and_choose_their_noise():
    loop = {"Q": 1, "R": 1, "QN": 0.1, "RN": 0.1}
    public = pc.private_lqg(lag(), **loop)
    noise = designed(lag(), weight=public, models="exact")
    assert noise.guarantee.gdp <= 0.5 + 1e-9
    assert public.with_noise(noise).guarantee.gdp == noise.guarantee.gdp
    chosen = pc.private_lqg(lag(), **loop, noise=noise, codesign=True)
    assert chosen.guarantee.gdp <= 0.5 + 1e-9
    found = pc.tradeoff(
        lag(), 1, 1, 0.1, 0.1, horizon=np.inf, adjacency=ANY, epsilons=[1.0], delta=0.01
    )
    assert len(found.epsilons) == 1


def test_changes_of_any_shape_are_audited_by_those_that_are_named():
    noise = designed(lag(), horizon=12)
    with pytest.raises(ValueError, match="too many to list as moves"):
        pc.audit(noise, trials=2000, rng=0)


# -- many units -------------------------------------------------------------------------


@pytest.mark.parametrize("link", [0.0, 0.3])
@pytest.mark.parametrize(
    "adjacency",
    [
        pc.DisturbanceAdjacency(1.0),
        pc.DisturbanceAdjacency(1.0, duration=3),
        pc.DisturbanceAdjacency(1.0, duration=3, shape="level"),
        pc.DisturbanceAdjacency(1.0, profiles=[[1.0, -0.5]]),
    ],
)
def test_many_units_go_with(link, adjacency):
    noise = designed(rooms(14, link), adjacency=adjacency)
    words = "14 equal units, 2 modes" if link else "14 equal units"
    assert noise.design.symmetry == words
    assert noise.guarantee.gdp <= 0.5 + 1e-9


def test_a_list_of_secrets_of_single_units():
    secrets = [pc.DisturbanceAdjacency(1.0), pc.DisturbanceAdjacency({"u3": 2.0})]
    noise = designed(rooms(5), adjacency=secrets)
    assert noise.design.symmetry == "4 equal units and 1 unit"
    sizes = noise.std / noise.std[0]
    assert sizes == pytest.approx([1, 1, 1, 2, 1], rel=1e-6)


@pytest.mark.parametrize(
    "options",
    [
        {"horizon": 6},
        {"floor": 0.1},
        {"models": [rooms(3, 0.1)]},
        {"adjacency": pc.DisturbanceAdjacency(1.0, which=True)},
        {"adjacency": pc.DisturbanceAdjacency(1.0, together=True)},
        {"adjacency": pc.DisturbanceAdjacency(1.0, events=2, separation=3)},
        {"adjacency": pc.DisturbanceAdjacency(1.0, norm="l2")},
        {"adjacency": pc.StateAdjacency(1.0, times=0)},
        {"adjacency": pc.DisturbanceAdjacency(1.0, times=4), "horizon": 6},
    ],
)
def test_units_are_designed_together_beside(options):
    request = {"adjacency": pc.DisturbanceAdjacency(1.0)} | options
    noise = designed(rooms(3), **request)
    assert getattr(noise.design, "symmetry", None) is None
    assert noise.guarantee.loss.shift <= 0.5 + 1e-9


def test_a_loop_that_prices_noise_ties_units_to_each_other():
    public = pc.private_lqg(
        rooms(3), Q=np.eye(3), R=np.eye(3), QN=np.eye(3), RN=np.eye(3)
    )
    noise = designed(
        rooms(3), adjacency=pc.DisturbanceAdjacency(1.0), weight=public, models="exact"
    )
    assert noise.design.symmetry is None


def test_few_units_are_proved_by_a_stranger_and_many_are_not_covered(tmp_path):
    for count, answer in ((3, 0), (230, 2)):
        noise = designed(rooms(count), adjacency=pc.DisturbanceAdjacency(1.0))
        path = tmp_path / f"{count}.json"
        noise.save(path)
        assert verify.main([str(path)]) == answer
        assert json.loads(path.read_text())["kind"] == "outputnoise"


def test_more_units_than_a_gateway_takes_are_refused_with_a_cure():
    noise = designed(rooms(230), adjacency=pc.DisturbanceAdjacency(1.0))
    with pytest.raises(pc.PrivacyError, match="a gateway each"):
        pc.Gateway(noise, grid=0.001)
    with pytest.raises(ValueError, match="designed for one of them"):
        pc.eavesdropper(noise)


def test_what_a_unit_is_follows_from_zeros_alone():
    plant = Plant.of(rooms(3))
    (kind,) = parted(pc.DisturbanceAdjacency(1.0), plant)
    assert kind.count == 3
    tied = rooms(3)
    tied.A[0, 1] = 1e-300
    kinds = parted(pc.DisturbanceAdjacency(1.0), Plant.of(tied))
    assert sorted(kind.count for kind in kinds) == [1, 1]
