"""Polytopes of Jacobians against sampled Jacobians, linearisations and closed forms."""

import math
import pickle

import control as ct
import numpy as np
import pytest
from nonlinear_cases import TANK_REGION, VEHICLE_REGION, tank, vehicle
from scipy import stats
from stress.nonlinear_pairs import CASES, sampled

import privcontrol as pc
from privcontrol.regions.jacobian import _ends_along


def slopes_at(sys, states, inputs, step=1e-5):
    """[[A, B], [C, D]] by differences of the system's own functions."""
    columns = []
    point = np.concatenate([states, inputs])
    for k in range(len(point)):
        ends = []
        for sign in (-1, 1):
            moved = point.copy()
            moved[k] += sign * step
            x, u = moved[: len(states)], moved[len(states) :]
            ends.append(np.concatenate([sys.dynamics(0, x, u), sys.output(0, x, u)]))
        columns.append((ends[1] - ends[0]) / (2 * step))
    return np.column_stack(columns)


@pytest.fixture(scope="module")
def tank_box():
    return pc.jacobian_polytope(
        tank(), TANK_REGION, splits={"h1": 2, "h2": 2, "h3": 2, "h4": 2},
    )  # fmt: skip


@pytest.mark.slow
def test_sampled_jacobians_lie_in_the_bounds_and_in_the_polytope(tank_box):
    sys = tank()
    region = tank_box.region
    rng = np.random.default_rng(0)
    draws = rng.uniform(region.low, region.high, (100, 6))
    whole = pc.jacobian_polytope(sys, TANK_REGION)
    assert len(whole.vertices) <= 256
    for draw in draws:
        found = slopes_at(sys, draw[:4], draw[4:])
        assert (found[:, :4] >= tank_box.low[:, :4] - 1e-9).all()
        assert (found[:, :4] <= tank_box.high[:, :4] + 1e-9).all()
        assert (found >= whole.low - 1e-9).all()
        assert (found <= whole.high + 1e-9).all()
    names = dict(states=list("1234"), inputs=["v1", "v2"], outputs=["y1", "y2"])
    names["states"] = ["h1", "h2", "h3", "h4"]
    for draw in draws[:5]:
        found = slopes_at(sys, draw[:4], draw[4:])
        inside = ct.ss(
            found[:4, :4], found[:4, 4:], found[4:, :4], found[4:, 4:], 5.0, **names
        )
        assert whole.contains(inside)


def test_the_bounds_are_nearly_attained(tank_box):
    """Splitting brings the bounds to the range of the Jacobians themselves."""
    sys, region = tank(), tank_box.region
    corners = [
        slopes_at(sys, np.array([a, b, c, d]), np.array([v, v]))
        for a in (region.low[0], region.high[0])
        for b in (region.low[1], region.high[1])
        for c in (region.low[2], region.high[2])
        for d in (region.low[3], region.high[3])
        for v in (2.5, 3.5)
    ]
    widths = np.ptp(corners, axis=0)[:4, :4]
    coarse = pc.jacobian_polytope(sys, TANK_REGION)
    bound = (tank_box.high - tank_box.low)[:4, :4]
    loose = (coarse.high - coarse.low)[:4, :4]
    varying = widths > 1e-9
    assert (bound[varying] < loose[varying]).all()
    assert (widths[varying] / bound[varying]).min() > 0.7
    assert (bound[~varying] < 1e-12).all()


def test_nominal_is_the_linearisation_at_the_centre(tank_box):
    centre = tank_box.region.middle
    linear = tank().linearize(centre[:4], centre[4:])
    np.testing.assert_allclose(tank_box.nominal.A, linear.A, atol=1e-5)
    np.testing.assert_allclose(tank_box.nominal.B, linear.B, atol=1e-5)
    assert tank_box.nominal.state_labels == ["h1", "h2", "h3", "h4"]


def test_an_invariant_region_is_not_left(tank_box):
    """Random and extreme inputs keep 2000 tanks in the region that is certified."""
    assert tank_box.invariant
    region, sys = tank_box.region, tank()
    rng = np.random.default_rng(0)
    states = rng.uniform(region.low[:4, None], region.high[:4, None], (4, 2000))
    states[:, 1000:] = np.where(
        rng.random((4, 1000)) < 0.5, region.low[:4, None], region.high[:4, None]
    )
    for _ in range(30):
        inputs = rng.choice([2.5, 3.0, 3.5], (2, 2000))
        states = sys.updfcn(0.0, states, inputs, {})
        assert not region.outside(states, inputs).any()
    wider = dict(TANK_REGION, v1=(2.0, 3.5))
    assert not pc.jacobian_polytope(sys, wider, splits=2).invariant
    assert "as long as both runs stay in" in str(
        pc.jacobian_polytope(sys, wider).assumptions
    )


def test_names_that_do_not_enter_the_jacobian_may_be_left_out():
    box = pc.jacobian_polytope(vehicle(), VEHICLE_REGION, splits=4)
    assert box.low[0, 1] == pytest.approx(math.cos(0.3), abs=0.05)
    assert box.low[0, 0] == box.high[0, 0] == 1.0
    slow = ct.nlsys(
        lambda t, x, u, p: [x[0] * x[1], x[1]],
        None,
        states=["offset", "heading"],
        inputs=["steer"],
        outputs=["offset", "heading"],
        dt=0.1,
    )
    with pytest.raises(ValueError, match="bound .*heading"):
        pc.jacobian_polytope(slow, {"steer": (0, 1)})


def bounded(low, high, **options):
    """The polytope of a plant with given bounds of A, one input and one output."""
    n = len(low)
    names = list("abcd"[:n])
    labels = dict(states=names, inputs=["u"], outputs=["y"])
    sys = ct.nlsys(lambda t, x, u, p: x, lambda t, x, u, p: x[:1], dt=1, **labels)
    fixed = {"B": (0, 0), "C": (np.eye(1, n), np.eye(1, n)), "D": (0, 0)}
    region = dict.fromkeys(names, (-1, 1))
    return pc.jacobian_polytope(
        sys, region, bounds={"A": (low, high), **fixed}, **options
    )


@pytest.mark.parametrize("allowed", [16, 64])
def test_few_vertices_still_hold_the_whole_box(allowed):
    """Random points and all corners are weighted means of the vertices (by a program)."""
    rng = np.random.default_rng(0)
    low = rng.normal(size=(3, 3))
    widths = 10.0 ** rng.uniform(-9, -6, (3, 3))
    widths[0, :2] = (0.3, 0.2)
    widths[2] = 0.0
    high = low + widths
    polytope = bounded(low, high, max_vertices=allowed)

    def plant(matrix):
        names = dict(states=list("abc"), inputs=["u"], outputs=["y"])
        return ct.ss(matrix, np.zeros((3, 1)), [[1, 0, 0]], 0, 1, **names)

    for draw in rng.integers(0, 2, (40, 3, 3)):
        assert polytope.contains(plant(np.where(draw, low, high)))
    # not much larger than the box itself
    first = [vertex.A[0, 0] for vertex in polytope.vertices]
    assert len(first) <= allowed
    assert np.ptp(first) <= widths[0, 0] * 1.02
    for corner, step in ((low, -0.05), (high, 0.05)):
        outside = corner.copy()
        outside[0, 0] += step
        assert not polytope.contains(plant(outside))


def test_too_many_wide_entries_are_refused():
    polytope = bounded(np.zeros((4, 4)), np.ones((4, 4)))
    with pytest.raises(ValueError, match="vary in 16 directions"):
        polytope.plants(pc.StateAdjacency(1.0, times=0))


def test_bounds_of_the_user_are_called_what_they_are():
    def rates(t, x, u, params):
        return [x[0] - 0.1 * math.sin(x[0]) + u[0]]

    sys = ct.nlsys(rates, None, states=["a"], inputs=["w"], outputs=["a"], dt=1.0)
    with pytest.raises(ValueError, match=r"math\.sin.*bounds="):
        pc.jacobian_polytope(sys, {"a": (0, 1), "w": (-1, 1)})
    bounds = {"A": (0.9, 1 - 0.1 * math.cos(1)), "B": (1, 1), "C": (1, 1), "D": (0, 0)}
    given = pc.jacobian_polytope(sys, {"a": (0, 1)}, bounds=bounds)
    assert given.basis == "given"
    assert "that the user gave" in str(given.assumptions)
    assert [v.A[0, 0] for v in given.vertices] == pytest.approx(list(bounds["A"]))
    assert not given.invariant
    for wrong in ((1.0, 0.9), (0.9, [1.0, 1.0])):
        with pytest.raises(ValueError, match="bounds A: expected low <= high"):
            pc.jacobian_polytope(sys, {"a": (0, 1)}, bounds=bounds | {"A": wrong})


def test_a_plant_that_jumps_is_refused_wherever_the_region_is_cut():
    def relay(t, x, u, params):
        return [0.9 * x[0] + np.where(x[0] >= 0, 1.0, 0.0)]

    sys = ct.nlsys(relay, None, states=["a"], inputs=0, outputs=["a"], dt=1.0)
    for splits in (1, 2, 3):
        with pytest.raises(ValueError, match="may jump"):
            pc.jacobian_polytope(sys, {"a": (-1, 1)}, splits=splits)
    box = pc.jacobian_polytope(sys, {"a": (0.5, 1)})
    assert box.low[0, 0] == pytest.approx(0.9)


def test_systems_without_a_sampled_map_are_refused():
    continuous = ct.nlsys(
        lambda t, x, u, p: -x, None, states=["a"], inputs=0, outputs=["a"]
    )
    with pytest.raises(ct.ControlArgument, match="sample_nonlinear"):
        pc.jacobian_polytope(continuous, {"a": (0, 1)})
    with pytest.raises(ct.ControlArgument, match="NonlinearIOSystem"):
        pc.jacobian_polytope(pc.plants.vehicle(), {"position": (0, 1)})
    with pytest.raises(ct.ControlArgument, match="discrete time"):
        pc.sample_nonlinear(tank(), 1.0)


def test_sampling_is_the_integrator_it_says():
    """One lag: RK4 is the fourth-order Taylor polynomial of the exponential."""
    lag = ct.nlsys(lambda t, x, u, p: -x, None, states=["a"], inputs=0, outputs=["a"])
    h = 0.25
    taylor = sum((-h) ** k / math.factorial(k) for k in range(5))
    for method, factor in (("rk4", taylor), ("euler", 1 - h)):
        sys = pc.sample_nonlinear(lag, 0.5, method=method, substeps=2)
        assert sys.dynamics(0, [1.0], [])[0] == pytest.approx(factor**2, rel=1e-14)
        box = pc.jacobian_polytope(sys, {"a": (-1, 1)})
        assert box.low[0, 0] <= factor**2 <= box.high[0, 0]
        assert method in str(box.assumptions)


def test_the_time_of_the_run_may_not_enter_the_jacobian():
    def driven(t, x, u, params):
        return [0.5 * x[0] + np.sin(t)]

    def fading(t, x, u, params):
        return [x[0] / (1 + t)]

    kept = dict(states=["a"], inputs=0, outputs=["a"], dt=1.0)
    box = pc.jacobian_polytope(ct.nlsys(driven, None, **kept), {"a": (0, 1)})
    assert box.low[0, 0] == pytest.approx(0.5)
    fades = pc.jacobian_polytope(ct.nlsys(fading, None, **kept), {"a": (0, 1)})
    assert fades.high[0, 0] == pytest.approx(1.0)
    assert fades.low[0, 0] == pytest.approx(0.0)


def test_columns_of_inputs_without_a_secret_play_no_role(tank_box):
    levels = tank_box.plants(pc.StateAdjacency({"h1": 1.0}, times=0))
    assert len(levels) < len(tank_box.vertices)
    assert all((plant.B == tank_box.nominal.B).all() for plant in levels)
    pumped = tank_box.plants(pc.DisturbanceAdjacency({"v2": 0.1}))
    first = np.array([plant.B for plant in pumped])
    assert (np.ptp(first, axis=0)[:, 0] == 0).all()
    assert np.ptp(first, axis=0)[2, 1] > 1e-3
    region = tank_box.region
    rng = np.random.default_rng(1)
    names = dict(states=region.names[:4], inputs=["v1", "v2"], outputs=["y1", "y2"])
    polytope = pc.PlantPolytope(list(levels))
    for draw in rng.uniform(region.low, region.high, (20, 6)):
        found = slopes_at(tank(), draw[:4], draw[4:])
        A, C = found[:4, :4], found[4:, :4]
        nominal = tank_box.nominal
        plant = ct.ss(A, nominal.B, C, nominal.D, 5.0, **names)
        assert polytope.contains(plant)


@pytest.mark.slow
def test_entries_that_vary_together_are_told():
    """What leaves an upper tank enters the lower one: two entries on a line."""
    sys = tank()
    whole = pc.jacobian_polytope(sys, TANK_REGION)
    cut = pc.jacobian_polytope(sys, TANK_REGION, splits={"h1": 3, "h3": 8, "v2": 4})
    secret = pc.StateAdjacency({"h3": 0.1}, times=0)
    cut_up = cut.plants(secret)
    steady = [plant.A[2, 2] + plant.A[0, 2] for plant in cut_up]
    loose = [plant.A[2, 2] + plant.A[0, 2] for plant in whole.plants(secret)]
    assert np.ptp(steady) < 0.5 * np.ptp(loose)


@pytest.mark.slow
@pytest.mark.parametrize(
    "name, tightness",
    [("tank, level 1", 0.95), ("vehicle, heading", 0.95), ("glucose, meal", 0.9)],
)
def test_no_pair_of_runs_differs_by_more_than_is_certified(name, tightness):
    """A few of the pairs that stress/nonlinear_pairs.py draws by the million."""
    case = CASES[name]
    box = case.box()
    bound = case.certified(box)
    attained, stayed = sampled(case, box, 3000, np.random.default_rng(0))
    assert stayed > 300
    assert tightness * bound <= attained <= bound


def test_plants_of_other_parameters_are_other_plants():
    def rates(t, x, u, params):
        return [x[0] * params["table"][1500]]

    def made(entry):
        table = np.zeros(2000)
        table[1500] = entry
        named = dict(states=["a"], inputs=0, outputs=["a"], dt=1.0)
        return ct.nlsys(rates, None, params={"table": table}, **named)

    sys = made(0.5)
    box = pc.jacobian_polytope(sys, {"a": (0, 1)})
    assert box.low[0, 0] == pytest.approx(0.5)
    assert box.plant == pc.jacobian_polytope(made(0.5), {"a": (0, 1)}).plant
    assert box.plant != pc.jacobian_polytope(made(0.9), {"a": (0, 1)}).plant
    sys.params["table"][1500] = 0.9
    assert box.plant != pc.jacobian_polytope(sys, {"a": (0, 1)}).plant


def test_the_polytope_pickles(tank_box):
    assert "over h1 7.6..18.5 cm, h2" in repr(tank_box)
    again = pickle.loads(pickle.dumps(tank_box))
    assert again == tank_box
    assert again.plant == tank_box.plant
    assert again.fingerprint == tank_box.fingerprint


def test_the_probability_of_leaving_the_region_is_part_of_delta():
    """Two samples under feedback, against the integral of the two densities.

    The input is what was published at first. Above 3.5 it makes the plant amplify the secret.
    """

    def amplifies(t, x, u, params):
        return [0.5 * x[0] + 10 * np.maximum(u[0] - 3.5, 0.0) * x[0]]

    names = dict(states=["a"], inputs=["u"], outputs=["a"], dt=1.0)
    region = {"a": (-50, 50), "u": (-60, 3.5 + 1e-9)}
    request = dict(
        horizon=2,
        family="iid-gaussian",
        budget=pc.PrivacyBudget(epsilon=1.0, delta=0.1),
        adjacency=pc.StateAdjacency({"a": 1.0}, times=0),
    )
    sys = ct.nlsys(amplifies, None, **names)
    stays = pc.jacobian_polytope(sys, region)
    box = pc.jacobian_polytope(sys, region, leaving=0.06)
    assert box.fingerprint != stays.fingerprint
    noise = pc.design_output_noise(box.nominal, models=box, **request)
    guarantee = noise.guarantee
    assert guarantee.satisfies(request["budget"])
    assert "but for a probability of 0.06, counted in delta" in str(
        guarantee.scope.assumptions
    )
    std = float(noise.std.max())
    assert stats.norm.sf(3.5, loc=1, scale=std) < 0.06
    first = np.linspace(-12, 14, 40_001)

    def densities(secret):
        gain = 0.5 + 10 * np.maximum(first - 3.5, 0.0)
        return stats.norm.pdf(first, secret, std), gain * secret

    for pair in ((0.0, 1.0), (1.0, 0.0)):
        (p, mean), (q, other) = densities(pair[0]), densities(pair[1])
        shift = np.abs(mean - other) / std
        level = np.log(q / p) + 1.0  # of the second sample, for epsilon = 1
        delta = stats.norm.cdf(shift / 2 - level / shift)
        delta -= np.exp(level) * stats.norm.cdf(-shift / 2 - level / shift)
        exact = np.trapezoid(p * delta, first)
        assert exact <= guarantee.delta(1.0)
    # the secret 1 leaves more often, and without the probability the claim is wrong
    assert exact > 1.5 * noise.guarantee_for(stays).delta(1.0)
    assert guarantee.delta(60.0) == pytest.approx(0.06)


def test_the_probability_of_leaving_is_saved_with_the_noise(tmp_path):
    region = {"a": (-1, 1)}
    sys = ct.nlsys(
        lambda t, x, u, p: [0.9 * np.sin(x[0])],
        None,
        states=["a"],
        inputs=0,
        outputs=["a"],
        dt=1.0,
    )
    box = pc.jacobian_polytope(sys, region, leaving=1e-3)
    noise = pc.design_output_noise(
        box.nominal,
        models=box,
        horizon=5,
        budget=pc.PrivacyBudget(epsilon=1.0, delta=1e-2),
        adjacency=pc.StateAdjacency({"a": 0.1}, times=0),
    )
    noise.save(tmp_path / "noise.json")
    again = pc.load(tmp_path / "noise.json")
    assert again == noise
    assert again.guarantee.delta(60.0) == pytest.approx(1e-3)
    for leaving in (-0.1, 0.6, math.nan):
        with pytest.raises(ValueError, match="miss"):
            pc.jacobian_polytope(sys, region, leaving=leaving)
    with pytest.raises(ValueError, match="part of delta"):
        pc.design_output_noise(
            box.nominal,
            models=box,
            horizon=5,
            budget=pc.PrivacyBudget(epsilon=1.0, delta=5e-4),
            adjacency=pc.StateAdjacency({"a": 0.1}, times=0),
        )


@pytest.mark.parametrize("floor", [0.0, 0.3])
def test_a_plant_with_constant_jacobians_is_hidden_as_a_linear_one(floor):
    """Two runs differ by A^t z exactly, so noise of the linear plant hides them."""

    def update(t, x, u, params):
        return [0.75 * x[0] + 0.125 * x[1], 0.5 * x[1] + u[0] ** 2]

    names = dict(states=["gap", "speed"], inputs=["force"], outputs=["gap"])
    sys = ct.nlsys(update, lambda t, x, u, params: [x[0]], dt=1.0, **names)
    region = {"gap": (-2, 2), "speed": (-2, 2), "force": (-1, 1)}
    box = pc.jacobian_polytope(sys, region)
    assert len(box.vertices) > 1  # as for a secret force
    asked = dict(horizon=8, adjacency=pc.StateAdjacency({"gap": 1.0}), floor=floor)
    asked["budget"] = pc.PrivacyBudget(epsilon=1.0, delta=1e-2)
    noise = pc.design_output_noise(box.nominal, models=box, max_std=np.inf, **asked)
    linear = pc.design_output_noise(box.nominal, models=[box.nominal], **asked)
    assert noise.design.cost == pytest.approx(linear.design.cost, rel=1e-9)
    scope = noise.guarantee.scope
    assert box.clause in scope.assumptions
    assert scope.caveats
    # the worst of the differences of simulated runs spends what is promised, no more
    covariance = noise.design.noise.covariance
    z = np.linalg.solve(np.linalg.matrix_power(box.nominal.A, 3), [1.0, 0.0])
    gaps = []
    for x in (np.zeros(2), z / 100):  # differences are proportional to the move
        states = []
        for t in range(8):
            states.append(x[0])
            x = sys.dynamics(t, x, [0.3 * (-1) ** t])
        gaps.append(states)
    moved = 100 * np.diff(gaps, axis=0)[0]
    shift = math.sqrt(moved @ np.linalg.pinv(covariance, rcond=1e-13) @ moved)
    assert shift <= noise.guarantee.loss.gdp * (1 + 1e-6)


def test_ends_along_directions_are_rounded_outwards_by_little():
    low, high = _ends_along(np.eye(1), np.zeros((1, 1)), np.ones((1, 1)), 0.0)
    assert 3e-13 < high[0] - 1 < 3e-12
    assert 3e-13 < -1 - low[0] < 3e-12


def test_boxes_of_parts_have_a_limit():
    with pytest.raises(ValueError, match="at most 100000 boxes, got 1e\\+05"):
        pc.jacobian_polytope(tank(), TANK_REGION, splits={"h1": 100_001})
