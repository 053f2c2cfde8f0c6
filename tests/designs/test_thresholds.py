"""Numbers of designs, secrets and regions decide where their comments say."""

import math
import warnings
from types import SimpleNamespace

import cases
import control as ct
import numpy as np
import pytest
from scipy.stats import beta

import privcontrol as pc
from privcontrol.designs import finished, fleet, long_design, realisation
from privcontrol.designs.endless_design import _enters_with
from privcontrol.designs.promised import uncovered
from privcontrol.designs.realisation import Realisation
from privcontrol.designs.spectrum import FrequencyGrid
from privcontrol.designs.state_factor import _Problem
from privcontrol.designs.windowed import SpectrumProblem, WindowsOnCircle
from privcontrol.regions import halving, identified
from privcontrol.secrets import modes
from privcontrol.secrets.decaying import endless_secret
from privcontrol.secrets.secrets import Secrets
from privcontrol.systems.linear import LinearSystem, Plant

GRID = FrequencyGrid(0.0, 512)
BUDGET = pc.PrivacyBudget(gdp=1.0)


def lag(pole):
    return ct.ss(pole, 1, 1, 0, 1, inputs=["w"], states=["x"], outputs=["y"])


def spectrum(factor):
    """The squares (N/2 + 1, 1, 1) of a scalar function at the points of the grid."""
    return np.abs(factor(GRID.points)[:, None, None]) ** 2


# -- realisations ------------------------------------------------------------------------


def test_at_most_48_states_are_looked_for_an_output():
    echo = spectrum(lambda z: 1 + 0.9 * z**-60)
    assert Realisation.of(GRID, echo, 0.01).order == 48


@pytest.mark.parametrize("tail, times", [(3e-8, 1), (3e-7, 2)])
def test_white_noise_is_added_where_a_factor_ends_late(tail, times, monkeypatch):
    """The last sixteenth of its coefficients begins at the 240th, p^240 of the first."""
    found = []
    factors = realisation.outer_factors

    def noted(grid, values):
        found.append(values)
        return factors(grid, values)

    monkeypatch.setattr(realisation, "outer_factors", noted)
    pole = tail ** (1 / 240)
    Realisation.of(GRID, spectrum(lambda z: 1 / (1 - pole / z)), 0.01)
    assert len(found) == times


# -- without a horizon -------------------------------------------------------------------


@pytest.mark.parametrize("silent, enters", [(2e-4, True), (5e-5, False)])
def test_noise_enters_a_plant_that_passes_a_ten_thousandth_everywhere(silent, enters):
    """A lag passes (1 - p) / (1 + p) of its largest gain at the highest frequency."""
    plant = Plant.of(lag(1 - 2 * silent))
    secret = Secrets(pc.DisturbanceAdjacency({"w": 1.0}, duration=30))
    assert _enters_with(endless_secret(secret, plant)) == enters


@pytest.mark.parametrize("units, is_dense", [(12, True), (13, False)])
def test_up_to_twelve_units_whose_modes_fail_are_designed_together(
    units, is_dense, monkeypatch
):
    def refused(*args):
        raise pc.UncertifiableError("modes")

    found = SimpleNamespace(cost=1.0, lower_bound=1.0)
    monkeypatch.setattr(fleet, "of_modes", refused)
    monkeypatch.setattr(fleet, "endless", lambda asked: found)
    monkeypatch.setattr(fleet, "_of_unit", lambda asked, kind: asked)
    near = SimpleNamespace(count=units)
    monkeypatch.setattr(fleet, "_symmetric", lambda kind: near)
    kind = SimpleNamespace(count=1, prices=None)
    asked = SimpleNamespace(request=None)
    if is_dense:
        assert fleet._of_kind(asked, kind) is found
        return
    with pytest.raises(pc.UncertifiableError, match="modes"):
        fleet._of_kind(asked, kind)


# -- long runs ---------------------------------------------------------------------------


@pytest.mark.parametrize("samples, kind", [(49, "correlated"), (50, "filtered")])
def test_noise_of_a_run_of_50_samples_has_low_order(samples, kind):
    noise = pc.design_output_noise(
        lag(0.2),
        horizon=samples,
        budget=BUDGET,
        adjacency=pc.DisturbanceAdjacency({"w": 0.1}),
        models="exact",
        gap=0.2,
    )
    assert kind in repr(noise)


@pytest.mark.parametrize("samples, is_sought", [(3000, True), (3001, False)])
def test_a_bound_is_sought_in_up_to_3000_dimensions(samples, is_sought, monkeypatch):
    found = SimpleNamespace(lower_bound=math.inf)
    monkeypatch.setattr(long_design, "causal_map", lambda impulse: impulse)
    monkeypatch.setattr(long_design, "rough_shape", lambda points, *a, **k: found)
    secret = SimpleNamespace(system=LinearSystem.gain(np.eye(1)), inputs=1)
    pulse = np.zeros((samples, 1, 1))
    pulse[0] = 1.0
    price = LinearSystem.gain(np.eye(1))
    bound = long_design._bound_of_run(
        secret, price, pulse, np.ones(1), samples, math.inf
    )
    assert (bound == math.inf) == is_sought


# -- what is promised --------------------------------------------------------------------


@pytest.mark.parametrize("condition, is_told", [(3e5, True), (3e4, False)])
def test_a_noise_of_condition_100000_hardly_covers_its_thinnest_direction(
    condition, is_told
):
    factor = np.array([[1.0, 0.0], [1.0, 2 / condition]])
    told = uncovered(Plant.of(pc.plants.vehicle()), 5, factor)
    assert any("reveal almost exactly" in each for each in told) == is_told


def test_noise_beside_a_floor_that_hides_three_quarters_grows_by_four_excesses():
    """y^2 = 3/4 + 1/4 of it: 4 times a small excess is what it lacks."""
    excess = 1 + 1e-4
    seen = []

    def certified(gain):
        seen.append(gain)
        square = 0.75 + (excess**2 - 0.75) / gain**2
        shift = math.sqrt(square)
        released = SimpleNamespace(satisfies=lambda budget: shift <= 1)
        return SimpleNamespace(shift=shift, released=lambda count: released)

    def grown(gain):
        return SimpleNamespace(parts=gain, grown=grown)

    asked = SimpleNamespace(
        request=SimpleNamespace(releases=1),
        certify=certified,
        budget=BUDGET,
        is_radial=False,
        excess=lambda loss: loss.shift,
    )
    sized, _ = finished._within_budget(asked, grown(1.0))
    needed = math.sqrt((excess**2 - 0.75) / 0.25)
    assert needed <= sized.parts <= needed * (1 + 1e-6)
    assert len(seen) < 10


# -- spectra and shapes ------------------------------------------------------------------


@pytest.mark.parametrize("longest, count", [(20, 8192), (500, 16384)])
def test_a_grid_of_a_slow_plant_has_at_most_16384_points_for_shapes(longest, count):
    """Points are 40 times as far apart as on average where 0.999 makes others dense."""
    assert FrequencyGrid.fitting(np.array([0.999]), longest).count == count


def test_weights_of_single_moves_are_updated_until_they_prove_the_spectrum():
    """Six moves of three outputs take more than a hundred updates."""
    rng = np.random.default_rng(2)
    columns = np.empty((len(GRID.points), 3, 6), complex)
    for row, move in np.ndindex(3, 6):
        gain = rng.normal()
        columns[:, row, move] = gain / (1 - rng.uniform(-0.9, 0.9) / GRID.points)
    moves = SpectrumProblem(GRID, columns, WindowsOnCircle())
    found = moves.solve(1e-4, np.eye(3)[None])
    cost = GRID.mean(np.trace(found.spectrum, axis1=1, axis2=2))
    assert found.lower_bound <= cost <= found.lower_bound * (1 + 0.02 * 1e-4)


@pytest.mark.parametrize("largest, is_kept", [(700.0, True), (1500.0, False)])
def test_a_basis_holds_no_move_a_thousand_times_as_large(largest, is_kept, monkeypatch):
    coordinates = np.array([[1.0, 0.0, largest], [0.0, 1.0, 0.0]])
    monkeypatch.setattr(_Problem, "_coordinates", lambda self, basis: coordinates)
    moves = SimpleNamespace(vectors=np.array([[1.0, 0.0, 1.0], [0.0, 1.0, 1.0]]))
    plant = Plant.of(pc.plants.vehicle())
    basis = _Problem(plant, moves, np.arange(2), 0.0).move_basis(5)
    assert (basis is not None) == is_kept


@pytest.mark.parametrize("duration, counts_all", [(128, True), (300, False)])
def test_a_lasting_change_is_optimised_among_128_lengths(duration, counts_all):
    changes = pc.DisturbanceAdjacency({"w": 1.0}, duration=duration, shape="level")
    (moves,) = endless_secret(Secrets(changes), Plant.of(lag(0.5))).signals
    assert 64 < len(moves.variants) <= 128
    assert (len(moves.variants) == duration) == counts_all


@pytest.mark.parametrize("duration, is_few", [(40, True), (41, False)])
def test_forty_lengths_of_a_change_are_few(duration, is_few):
    changes = pc.DisturbanceAdjacency({"w": 1.0}, duration=duration, shape="level")
    assert Secrets(changes).of_few_shapes == is_few


# -- modes -------------------------------------------------------------------------------


@pytest.mark.parametrize("distance, count", [(5e-5, 1), (2e-4, 2)])
def test_eigenvalues_within_a_ten_thousandth_are_one_mode(distance, count):
    assert len(modes._subspaces(np.diag([0.5, 0.5 + distance]))) == count


@pytest.mark.parametrize("size, count", [(700.0, 2), (1500.0, 1)])
def test_modes_whose_projections_are_a_thousand_long_are_one(size, count):
    """The projection onto a mode of a triangle is as long as its slope, nearly."""
    A = np.array([[0.5, 0.1 * size], [0.0, 0.6]])
    assert len(modes._subspaces(A)) == count


@pytest.mark.parametrize("growth, is_told", [(25.0, False), (40.0, True)])
def test_a_mode_that_grows_thirty_times_is_worth_a_warning(
    growth, is_told, monkeypatch
):
    mode = SimpleNamespace(
        kind="unstable", growth=growth, sizes=[1.0], explanation=lambda horizon: "mode"
    )
    monkeypatch.setattr(modes, "modes", lambda plant, part, horizons: (mode,))
    plant = Plant.of(pc.plants.vehicle())
    secret = pc.StateAdjacency({"position": 1.0})
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        modes.warn_of_costly_modes(plant, secret, 10, ["unstable"])
    assert bool(caught) == is_told


def test_states_with_three_tenths_of_the_largest_share_name_a_mode():
    values, vectors = [0.9, 0.2, 0.1], np.eye(3)
    vectors[:, 0] = [1.0, 0.35, 0.25]
    A = vectors @ np.diag(values) @ np.linalg.inv(vectors)
    assert modes.largest_mode(A, ["a", "b", "c"]) == "0.9 (a, b)"


# -- regions -----------------------------------------------------------------------------


def test_a_wide_box_is_covered_by_noise_for_three_of_its_corners():
    """Noise for one of them would not be enough beside this floor."""
    A = np.array([[0.9, 0.1, 0.0], [0.0, 0.8, 0.1], [0.05, 0.0, 0.7]])
    plant = ct.ss(
        A,
        np.ones((3, 1)),
        np.eye(3)[:2],
        0,
        1.0,
        states=["a", "b", "c"],
        inputs=["u"],
        outputs=["y", "z"],
    )
    noise = pc.design_output_noise(
        plant,
        horizon=10,
        budget=BUDGET,
        adjacency=pc.StateAdjacency({"a": 1.0, "b": 0.3}, times=0),
        models=pc.PlantBox(plant, A=np.full((3, 3), 0.02)),
        floor=0.3,
    )
    assert noise.guarantee.satisfies(BUDGET)
    assert noise.design.cost < 21


@pytest.mark.parametrize("condition, is_told", [(3e6, True), (3e7, False)])
def test_regressors_of_condition_ten_million_tell_no_parameters(condition, is_told):
    nearly_parallel = np.array([[1.0, 1.0], [0.0, 2 / condition]])
    assert identified._tells(nearly_parallel) == is_told


@pytest.mark.parametrize("rows, is_clock", [(9, False), (10, True)])
def test_ten_rows_that_grow_evenly_are_a_clock(rows, is_clock):
    pandas = pytest.importorskip("pandas")
    table = pandas.DataFrame({"k": np.arange(rows)})
    if not is_clock:
        identified._refuse_clock(table, ["k"])
        return
    with pytest.raises(ValueError, match="grows by the same step"):
        identified._refuse_clock(table, ["k"])


def test_the_energy_is_missed_by_a_hundredth_of_what_may_be_missed(monkeypatch):
    """The other 99 are left to one parameter, whose interval is as wide as they say."""
    rng = np.random.default_rng(0)
    regressors = rng.normal(size=(60, 1))
    targets = regressors[:, 0] + rng.normal(size=60)
    missed = []

    def bounded(regressors, targets, first, miss):
        missed.append(miss)
        return 50.0

    monkeypatch.setattr(identified, "energy_bound", bounded)
    _, (width,) = identified.sequential_intervals(regressors, targets, 0.2)
    first = identified.first_samples(regressors)
    size = np.linalg.norm(regressors)
    weights = identified.predictable_weights(regressors / size, first)
    slope = float(weights[:, 0] @ regressors[first:, 0])
    reach = 50 * beta.isf(0.2 * 0.99, 0.5, (60 - first - 1) / 2)
    assert missed == [pytest.approx(0.002)]
    assert width == pytest.approx(math.sqrt(reach) / abs(slope), rel=1e-5)


def test_four_entries_of_a_wide_box_are_turned_together(monkeypatch):
    """With the norms of all 32 added up, the bound is a fifteenth larger."""
    plant = cases.random_plant(2, states=4, outputs=2, radius=0.8)
    noise = pc.design_output_noise(
        plant,
        horizon=10,
        budget=cases.BUDGET,
        adjacency=pc.StateAdjacency(1.0, times=range(2)),
        floor=1.0,
    )
    turned = noise.guarantee_for(pc.PlantBox.around(plant, relative=0.01)).gdp
    monkeypatch.setattr(halving, "_TURNED", 0)
    wider = pc.PlantBox.around(plant, relative=0.01 * (1 + 1e-12))  # nothing is kept
    added = noise.guarantee_for(wider).gdp
    assert turned < 0.94 * added
