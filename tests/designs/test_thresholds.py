"""Numbers that decide within designs decide where their comments say."""

import math
from types import SimpleNamespace

import control as ct
import numpy as np
import pytest

import privcontrol as pc
from privcontrol.designs import finished, fleet, long_design, realisation
from privcontrol.designs.endless_design import _enters_with
from privcontrol.designs.promised import uncovered
from privcontrol.designs.realisation import Realisation
from privcontrol.designs.spectrum import FrequencyGrid
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
