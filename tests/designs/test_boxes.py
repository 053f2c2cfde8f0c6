"""Intervals of plants: a certified bound that no plant inside exceeds, close to what one of them attains."""

import cases
import control as ct
import numpy as np
import pytest
import scipy.linalg
from repeats import few
from stress import literature

import privcontrol as pc
from privcontrol.designs import region_design
from privcontrol.noise.parts import White
from privcontrol.privacy.horizon import horizon_of
from privcontrol.regions import halving
from privcontrol.regions.region import Compared


def sampled(noise, box, count, seed=0):
    """The worst of plants drawn from the box, corners included."""
    return noise.guarantee_for(box.sampled(count, seed)).gdp


@pytest.mark.parametrize("width", few([1e-3, 1e-4], of=1))
@pytest.mark.parametrize(
    "adjacency", [cases.POSITION, pc.StateAdjacency(1.0, times=range(0, 100, 9))]
)
def test_the_vehicles_interval_is_bounded_within_a_thousandth(width, adjacency):
    noise = cases.vehicle_noise(adjacency, floor=1.0)
    box = pc.PlantBox(pc.plants.vehicle(), A=[[width, 0], [0, 0]])
    bound, attained = noise.guarantee_for(box), sampled(noise, box, 20)
    assert attained <= bound.gdp <= 1.0011 * attained
    assert bound.exact == ()
    said = " ".join(bound.explain().split())
    clause = "A and C within a box of 1 intervals, the same for the whole run"
    assert clause in said


@pytest.mark.parametrize("seed", few([0, 4], of=1))
def test_no_plant_of_a_random_box_exceeds_the_bound(seed):
    rng = np.random.default_rng(seed)
    plant = cases.random_plant(seed, states=3, outputs=1)
    A, C = np.zeros((3, 3)), np.zeros((1, 3))
    for _ in range(2):
        A[rng.integers(3), rng.integers(3)] = 0.005
    C[0, 1] = 0.01
    noise = pc.design_output_noise(
        plant,
        horizon=12,
        budget=cases.BUDGET,
        adjacency=pc.StateAdjacency(1.0, times=range(3)),
        floor=0.5,
    )
    box = pc.PlantBox(plant, A=A, C=C)
    bound, attained = noise.guarantee_for(box).gdp, sampled(noise, box, 100)
    assert attained <= bound <= 1.0101 * attained


def test_a_design_for_the_corners_is_checked_on_the_whole_interval():
    box = pc.PlantBox(pc.plants.vehicle(), A=[[0.001, 0], [0, 0]])
    noise = cases.vehicle_noise(floor=1.0, models=box.corners())
    assert noise.guarantee_for(box).gdp <= 1.0011 * noise.guarantee.gdp


@pytest.mark.parametrize("small", [0, 1])
def test_several_secrets_are_bounded_by_the_worst_of_them(small):
    plant = cases.random_plant(3, states=2, outputs=2, inputs=1)
    parts = [
        pc.StateAdjacency({"s0": 1.0}, times=0),
        pc.DisturbanceAdjacency({"u[0]": 1.0}, duration=3, shape="level"),
    ]
    parts[small] = pc.DisturbanceAdjacency({"u[0]": 0.05}, norm="l2")
    noise = pc.design_output_noise(
        plant,
        horizon=8,
        budget=cases.BUDGET,
        adjacency=parts,
        floor=0.5,
        models=[plant],
    )
    box = pc.PlantBox.around(plant, relative=0.02)
    bound = noise.guarantee_for(box).gdp
    worst = noise.guarantee_for(box, adjacency=parts[1 - small]).gdp
    assert bound == pytest.approx(worst, rel=1e-12)
    assert bound > sampled(noise, box, 20)


def test_what_cannot_be_certified_is_refused():
    noise = cases.vehicle_noise(pc.StateAdjacency(1.0), horizon=3, floor=1.0)
    with pytest.raises(pc.UncertifiableError, match="sampled plants only"):
        noise.guarantee_for(pc.PlantBox(pc.plants.vehicle(), A=[[1.5, 0], [0, 1.5]]))
    box = pc.PlantBox(pc.plants.vehicle(), A=[[0.001, 0], [0, 0]])
    with pytest.raises(ValueError, match="white floor"):
        cases.vehicle_noise().guarantee_for(box)
    every = pc.StateAdjacency(1.0, charts="all")
    free = pc.ManifoldAdjacency({"position(0)": 1.0, "position(1)": 1.0})
    # position(1) moves alone if the velocity moves by 1 / A[0, 1]
    spread = pc.PlantBox(pc.plants.vehicle(), A=[[0, 0.05], [0, 0]])
    with pytest.raises(ValueError, match="do not depend on the plant"):
        noise.guarantee_for(spread, adjacency=free)
    with pytest.raises(ValueError, match='charts="times"'):
        noise.guarantee_for(box, adjacency=every)


@pytest.mark.parametrize(
    "widths, error, message",
    [
        (
            dict(A=[[1.0]]),
            ct.ControlDimension,
            r"A: expected half-widths of shape \(2, 2\)",
        ),
        (dict(C=[[-1.0, 0]]), ValueError, "C: expected half-widths >= 0"),
        ({}, ValueError, "expected at least one uncertain entry, got none"),
    ],
)
def test_bad_boxes_are_refused(widths, error, message):
    with pytest.raises(error, match=message):
        pc.PlantBox(pc.plants.vehicle(), **widths)


def test_a_number_is_the_half_width_of_every_entry():
    plant = pc.plants.vehicle()
    box = pc.PlantBox(plant, A=0.001, C=np.float64(0.002))
    assert box == pc.PlantBox(plant, A=np.full((2, 2), 0.001), C=np.full((1, 2), 0.002))
    assert repr(box) == "PlantBox(6 uncertain entries, half-widths up to 0.002)"
    with pytest.raises(ValueError, match="half-widths >= 0"):
        pc.PlantBox(plant, A=-0.001)
    with pytest.raises(ct.ControlDimension, match="or one number for every entry"):
        pc.PlantBox(plant, A=[0.001, 0.001])


@pytest.mark.parametrize("relative, slack", few([(1e-3, 1.2), (1e-4, 1.02)], of=1))
def test_all_entries_of_a_plant_may_be_uncertain(relative, slack):
    plant = cases.random_plant(2, states=4, outputs=2, radius=0.8)
    noise = pc.design_output_noise(
        plant,
        horizon=10,
        budget=cases.BUDGET,
        adjacency=pc.StateAdjacency(1.0, times=range(2)),
        floor=1.0,
    )
    box = pc.PlantBox.around(plant, relative=relative)
    assert len(box.widths) == 32
    bound = noise.guarantee_for(box).gdp
    rng = np.random.default_rng(0)
    signs = rng.choice([-1.0, 1.0], size=(60, 32))
    corners = [box.at(sign * box.widths) for sign in signs]
    attained = noise.guarantee_for([*corners, *box.sampled(20, rng=0)]).gdp
    assert attained <= bound <= slack * attained
    with pytest.raises(ValueError, match="at most 8 uncertain entries"):
        box.corners()


def test_a_box_around_a_plant_leaves_its_zeros_alone():
    vehicle = pc.plants.vehicle()
    box = pc.PlantBox.around(vehicle, relative=0.01, absolute=0.005)
    np.testing.assert_allclose(box.A, [[0.01, 0.005], [0, 0.01]])
    np.testing.assert_allclose(box.C, [[0.01, 0]])
    with pytest.raises(ValueError, match="got neither"):
        pc.PlantBox.around(vehicle)
    with pytest.raises(ValueError, match="relative"):
        pc.PlantBox.around(vehicle, relative=-1.0)


def test_the_bound_of_a_wide_box_counts_each_entry_in_full():
    """Nine uncertain entries, of which one matters: the worst plant is a corner."""
    C = np.full((9, 1), 0.1)
    C[0] = 1.0
    plant = ct.ss(0.5, 1.0, C, np.zeros((9, 1)), 1.0)
    noise = pc.design_output_noise(
        plant,
        horizon=4,
        budget=cases.BUDGET,
        adjacency=pc.StateAdjacency(1.0, times=0),
        floor=1.0,
    )
    widths = np.full((9, 1), 1e-6)
    widths[0] = 0.1
    box = pc.PlantBox(plant, C=widths)
    attained = noise.guarantee_for(box.at(box.widths)).gdp
    assert attained > 1.02 * noise.guarantee.gdp
    assert attained <= noise.guarantee_for(box).gdp <= 1.01 * attained


SECRETS = {
    "single": pc.DisturbanceAdjacency(0.5),
    "lasting": pc.DisturbanceAdjacency(
        [0.5, 0.2], duration=3, shape="level", times=range(0, 8, 3)
    ),
    "shaped": pc.DisturbanceAdjacency({"u[1]": 0.3, "s0": 1.0}, profiles=[[1.0, -1.0]]),
    "energy": pc.DisturbanceAdjacency(0.5, norm="l2"),
    "ball": pc.InitialStateAdjacency(1.0),
    "several": [pc.StateAdjacency(1.0, times=0), pc.DisturbanceAdjacency(0.5)],
}


#: Every secret where a few entries are uncertain, and two where all of them are.
BOXED = [(name, True) for name in SECRETS] + [("single", False), ("ball", False)]
BOXED += [(name, False) for name in SECRETS if (name, False) not in BOXED]


@pytest.mark.parametrize("name, sparse", few(BOXED, of=8))
def test_disturbances_of_a_box_are_bounded_above_all_plants_in_it(name, sparse):
    plant = cases.random_plant(3, states=3, outputs=2, radius=0.8, feedthrough=True)
    noise = pc.design_output_noise(
        plant,
        horizon=10,
        budget=cases.BUDGET,
        adjacency=SECRETS[name],
        floor=0.5,
    )
    if sparse:
        A, B, C, D = np.zeros((4, 3, 3))
        A[0, 1], B[2, 1], C[1, 2], D[0, 1] = 0.02, 0.05, 0.05, 0.05
        box = pc.PlantBox(plant, A=A, B=B[:, :2], C=C[:2], D=D[:2, :2])
    else:
        box = pc.PlantBox.around(plant, relative=3e-4)
    bound = noise.guarantee_for(box).gdp
    rng = np.random.default_rng(0)
    signs = rng.choice([-1.0, 1.0], size=(12, len(box.widths)))
    corners = [box.at(sign * box.widths) for sign in signs]
    attained = noise.guarantee_for([*corners, *box.sampled(20, rng=0)]).gdp
    assert attained <= bound <= (1.002 if sparse else 1.03) * attained
    assert attained > noise.guarantee_for([plant]).gdp * 1.0001


def test_a_bound_that_stays_loose_is_still_a_bound():
    """The quadruple tank within 1 %: its bounds do not meet within a percent."""
    A = [[0.93, 0, 0.17, 0], [0, 0.95, 0, 0.13], [0, 0, 0.82, 0], [0, 0, 0, 0.86]]
    plant = ct.ss(A, np.zeros((4, 1)), 0.5 * np.eye(2, 4), 0, 4.6)
    request = {
        "horizon": 30,
        "budget": cases.BUDGET,
        "adjacency": pc.DisturbanceAdjacency(1.0, inputs=["x[0]"], times=0),
    }
    noise = pc.design_output_noise(plant, family="iid-gaussian", **request)
    box = pc.PlantBox.around(plant, relative=1e-2)
    attained = noise.guarantee_for([box.at(box.widths)]).gdp
    assert attained <= noise.guarantee_for(box).gdp <= 1.05 * attained


def test_a_certificate_does_not_depend_on_what_was_certified_before():
    """Or a file would not say in another process what it says in this one."""
    plant = cases.random_plant(3, states=3, outputs=2, radius=0.8)
    box = pc.PlantBox.around(plant, relative=3e-3)
    secret = pc.DisturbanceAdjacency(0.5)
    noise = [White(np.array([1.7, 3.4]))]
    halving.bound_in_units.cache_clear()
    alone = box.shift(noise, secret, 20).value
    halving.bound_in_units.cache_clear()
    box.shift([White(np.array([1.0, 2.0]))], secret, 20)
    assert box.shift(noise, secret, 20).value == alone


def test_only_moves_that_decide_are_looked_at_again(monkeypatch):
    """Of 20 moves few are the worst, and one at a time gives the bound of all at once."""
    plant = cases.random_plant(5, states=3, outputs=2, radius=0.7)
    box = pc.PlantBox.around(plant, relative=3e-3)
    noise = [White(np.ones(2))]
    secret = pc.StateAdjacency({plant.state_labels[0]: 1.0})
    bounds, looks = [], []
    bounded = halving._bounded

    def counted(moves, whitening, before):
        after = bounded(moves, whitening, before)
        looks[-1] += int((after.own & ~before.own).sum())
        return after

    monkeypatch.setattr(halving, "_bounded", counted)
    for some in (1, 1 << 30):
        monkeypatch.setattr(halving, "_LOOKED_AT", some)
        halving.bound_in_units.cache_clear()
        looks.append(0)
        bounds.append(box.shift(noise, secret, 20).value)
    assert bounds[0] == pytest.approx(bounds[1], rel=2e-3)
    assert 3 * looks[0] < 2 * looks[1]


def test_noise_for_a_box_meets_its_budget_in_three_rounds(monkeypatch):
    """The secant's third step would miss it by 6e-6, and one more round would follow."""
    shifts = []
    bound = region_design.shift_in_region

    def noted(request, parts):
        shifts.append(bound(request, parts) / request.allowed_shift)
        return float(shifts[-1] * request.allowed_shift)

    monkeypatch.setattr(region_design, "shift_in_region", noted)
    plant = cases.random_plant(2, states=2, inputs=1, outputs=2, radius=0.9)
    pc.design_output_noise(
        plant,
        horizon=15,
        budget=pc.PrivacyBudget(epsilon=1.0, delta=1e-2),
        adjacency=pc.DisturbanceAdjacency(0.1, duration=3, shape="level"),
        models=pc.PlantBox.around(plant, relative=1e-2),
        floor=0.1,
        max_std=np.inf,
    )
    assert len(shifts) == 3
    assert 1 - 1e-4 <= shifts[-1] <= 1


def test_noise_that_is_scaled_to_a_box_is_halved_once():
    """It is an exact multiple of what told its size, and another process finds the same."""
    plant = cases.random_plant(3, states=3, outputs=2, radius=0.8)
    box = pc.PlantBox.around(plant, relative=3e-3)
    halving.bound_in_units.cache_clear()
    noise = pc.design_output_noise(
        plant,
        horizon=12,
        budget=cases.BUDGET,
        adjacency=pc.DisturbanceAdjacency(0.5),
        models=box,
        floor="auto",
    )
    assert halving.bound_in_units.cache_info().misses == 1
    halving.bound_in_units.cache_clear()
    assert noise.guarantee_for(box) == noise.guarantee


@pytest.mark.parametrize("few", [True, False])
def test_noise_that_is_only_compared_is_judged_by_one_small_box(monkeypatch, few):
    """By other floors, whose worst box is another one, nearly as well as by the first."""
    plant = cases.random_plant(3, states=3, outputs=2, radius=0.8)
    box = pc.PlantBox(plant, A=np.where(np.eye(3), 0.03, 0.0))
    if not few:
        box = pc.PlantBox.around(plant, relative=3e-3)
    boxes = []
    bounded = halving._bounded

    def counted(*given):
        boxes.append(given)
        return bounded(*given)

    monkeypatch.setattr(halving, "_bounded", counted)
    secret = pc.DisturbanceAdjacency(0.5)
    compared = Compared(box, secret, horizon_of(20))
    looks = []
    for sizes in ([1.0, 1.0], [0.1, 0.11], [1.0, 3.0]):
        boxes.clear()
        parts = [White(np.array(sizes))]
        about = compared.shift(parts).value
        looks.append(len(boxes))
        certified = box.shift(parts, secret, 20).value
        assert about == pytest.approx(certified, rel=0.01)
        assert looks[-1] < len(boxes) - looks[-1]
    assert looks[0] > 1
    assert looks[1:] == [1, 1]


def test_no_comparison_of_noise_finds_a_plant_that_no_bound_covers():
    """A box so wide that bounds are infinite is refused, however often it is asked."""
    box = pc.PlantBox(pc.plants.vehicle(), A=[[1.5, 0], [0, 1.5]])
    compared = Compared(box, pc.StateAdjacency(1.0), horizon_of(3))
    for size in (1.0, 10.0):
        with pytest.raises(pc.UncertifiableError, match="sampled plants only"):
            compared.shift([White(np.array([size]))])
    with pytest.raises(ValueError, match="white floor"):
        compared.shift([White(np.array([0.0]))])


def test_a_move_that_decides_nothing_in_a_large_box_decides_in_a_small_one():
    """Bounds of the first move are far too large at first, and it is the lesser one."""
    A = scipy.linalg.block_diag([[0.67, 0.67], [-0.67, 0.67]], [[0.65]])
    plant = ct.ss(A, np.zeros((3, 1)), np.eye(3), 0, 1.0)
    widths = np.zeros((3, 3))
    widths[0, 1] = 0.23
    widths[2, 2] = 0.3
    secret = pc.StateAdjacency({"x[0]": 1.0, "x[2]": 6.0}, times=0)
    box = pc.PlantBox(plant, A=widths)
    bound = box.shift([White(np.ones(3))], secret, 60).value
    slowest = 0.95 ** np.arange(60)
    attained = 6 * np.linalg.norm(slowest)
    assert attained <= bound <= 1.001 * attained


def test_a_dense_plant_without_negative_entries_is_bounded_closely():
    """Twelve cells of a rod that trade heat: the worst plant has the largest entries."""
    cells = 12
    trade = np.eye(cells, k=1) + np.eye(cells, k=-1) - 2 * np.eye(cells)
    A = scipy.linalg.expm(0.1 * trade)
    plant = ct.ss(A, np.zeros((cells, 1)), np.eye(1, cells), 0, 1.0)
    noise = pc.design_output_noise(
        plant,
        horizon=30,
        budget=cases.BUDGET,
        adjacency=pc.DisturbanceAdjacency(1.0, inputs=["x[1]"], times=0),
        family="iid-gaussian",
    )
    box = pc.PlantBox.around(plant, relative=1e-2)
    attained = noise.guarantee_for([box.at(box.widths)]).gdp
    assert attained <= noise.guarantee_for(box).gdp <= 1.3 * attained


def test_what_a_state_was_before_its_move_is_bounded_too():
    """p(t) = h (t - 5) v: a longer step h moves the past and the future further."""
    vehicle = pc.plants.vehicle()
    noise = pc.design_output_noise(
        vehicle,
        horizon=11,
        budget=cases.BUDGET,
        adjacency=pc.StateAdjacency({"velocity": 1.0}, times=5),
        family="iid-gaussian",
    )
    box = pc.PlantBox(vehicle, A=[[0, 0.01], [0, 0]])
    attained = 0.11 * np.linalg.norm(np.arange(11) - 5) / noise.std[0]
    assert attained <= noise.guarantee_for(box).gdp <= 1.002 * attained


def test_states_beside_delayed_inputs_are_bounded_at_all_times():
    tank = ct.ss(0.9, 0.5, 1.0, 0.0, 1.0, states=["level"], inputs=["pump"])
    late = pc.with_delays(tank, {"pump": 2})
    secret = pc.StateAdjacency({"level": 1.0})
    request = dict(horizon=8, budget=cases.BUDGET, adjacency=secret, floor=0.5)
    noise = pc.design_output_noise(late, models="exact", **request)
    without = pc.design_output_noise(tank, models="exact", **request)
    bound = noise.guarantee_for(pc.PlantBox.around(late, relative=0.01)).gdp
    expected = without.guarantee_for(pc.PlantBox.around(tank, relative=0.01)).gdp
    assert bound == pytest.approx(expected, rel=1e-6)
    A = np.zeros((3, 3))
    A[1, 0] = 0.01
    with pytest.raises(ValueError, match="depend on other states"):
        noise.guarantee_for(pc.PlantBox(late, A=A))


def test_a_stiff_plant_of_the_literature_needs_less_than_three_times_the_noise():
    """A turbogenerator of ten states whose entries are known to within 1 %."""
    A, C, _ = literature.continuous()["TG1"]
    fastest = np.abs(np.linalg.eigvals(A)).max()
    plant = ct.ss(A, np.zeros((len(A), 1)), C, 0).sample(0.2 / fastest)
    request = dict(
        horizon=30,
        budget=cases.BUDGET,
        adjacency=pc.DisturbanceAdjacency(1.0, inputs=[plant.state_labels[8]]),
        family="iid-gaussian",
    )
    box = pc.PlantBox.around(plant, relative=1e-2)
    exact = pc.design_output_noise(plant, models="exact", **request)
    noise = pc.design_output_noise(plant, models=box, **request)
    assert exact.std[0] < noise.std[0] < 3 * exact.std[0]
    assert noise.guarantee_for(box.sampled(20, rng=0)).gdp <= noise.guarantee.gdp
