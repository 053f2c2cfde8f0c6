"""Tables for notebooks, and the side to which printed promises are rounded."""

import re

import cases
import matplotlib
import numpy as np
import pytest

import privcontrol as pc
from privcontrol import core
from privcontrol.regions.jacobian import Region
from privcontrol.regions.region import exception_of

matplotlib.use("Agg")


@pytest.fixture(scope="module")
def noise():
    return cases.vehicle_noise()


def test_a_noise_shows_its_size_and_its_guarantee(noise):
    page = noise._repr_html_()
    assert f"{noise.std[0]:.4g}" in page
    assert noise.guarantee._repr_html_() in page


def test_a_loop_shows_its_poles_and_its_noise(noise):
    loop = pc.private_lqg(pc.plants.vehicle(), 1, 1, 1, 1, noise)
    page = loop._repr_html_()
    assert f"{max(abs(loop.poles())):.3g}" in page
    assert noise._repr_html_() in page
    assert "Noise" not in loop.with_noise(None)._repr_html_()


def test_agents_show_their_network_and_their_guarantee():
    budget = pc.PrivacyBudget(epsilon=1.0, delta=1e-2)
    agents = pc.private_consensus(pc.plants.ten_agent_graph(), budget, 1.0)
    page = agents._repr_html_()
    assert f"10, with {agents.network.edges} links" in page
    assert agents.guarantee._repr_html_() in page


def test_names_are_escaped():
    plant = pc.plants.vehicle()
    plant.set_outputs(["<script>"])
    noise = pc.design_output_noise(
        plant, horizon=9, budget=cases.BUDGET, adjacency=cases.POSITION
    )
    assert "<script>" not in noise._repr_html_()


ODD = 1.23456789


def numbers(text, pattern):
    """What a text prints between the pattern's brackets."""
    return [float(found) for found in re.search(pattern, text).groups()]


def test_radii_of_composed_guarantees_are_rounded_down():
    budget = pc.PrivacyBudget(epsilon=1.0, delta=1e-2)
    known = core.InputPerturbation(np.tanh, budget, radius=2.0).guarantee
    moved = core.chain(known, ODD)
    (radius,) = numbers(moved.sentence, "with radius ([0-9.]+) in place of 2")
    assert ODD - 1e-5 < radius <= ODD
    (joint,) = numbers(
        core.compose_parallel(moved, moved).sentence, "sizes by at most ([0-9.]+),"
    )
    assert ODD - 1e-5 < joint <= ODD


def test_assumed_constants_are_rounded_down():
    """Noise for a constant of 1.23456789 does not cover a model of 1.23457."""
    budget = pc.PrivacyBudget(epsilon=1.0, delta=1e-2)
    keywords = dict(budget=budget, radius=1.0)
    metric = core.InputPerturbation(np.tanh, metric=(np.tanh, ODD), **keywords)
    model = core.OutputPerturbation(np.tanh, lipschitz=ODD, **keywords)
    for mechanism, pattern in (
        (metric, r"<= ([0-9.]+) d\(x"),
        (model, "the model is ([0-9.]+)-Lipschitz"),
    ):
        (constant,) = numbers(mechanism.guarantee.sentence, pattern)
        assert ODD - 1e-5 < constant <= ODD


def test_an_audit_claims_no_more_than_it_proved():
    result = core.AuditResult(0.99996, 1.0, 1e-2, 1000, 0.99999999)
    pattern = ">= ([0-9.]+) at delta = .* confidence ([0-9.]+),"
    lower, confidence = numbers(str(result), pattern)
    assert 0.999 < lower <= 0.99996
    assert 0.9999 < confidence <= 0.99999999


def test_a_region_is_named_no_larger_than_the_guarantee_assumes():
    region = Region(("level",), 1, np.array([-ODD]), np.array([2 * ODD]), ("m",))
    low, high = numbers(region.text(), r"level (.*)\.\.(.*) m")
    assert -ODD <= low < -ODD + 1e-5
    assert 2 * ODD - 1e-5 < high <= 2 * ODD


def test_a_region_that_is_a_point_is_named_in_all_digits():
    """Its ends in six digits, rounded inwards, would cross."""
    region = Region(("level",), 1, np.array([2 / 3]), np.array([2 / 3]), ("m",))
    assert region.text() == f"level {2 / 3}..{2 / 3} m"


def test_errors_of_an_eavesdropper_are_rounded_down():
    known = pc.eavesdropper(cases.vehicle_noise())
    position = known.std[0].max()
    (printed,) = numbers(repr(known), "position ([0-9.]+)")
    assert (1 - 1e-3) * position < printed <= position * (1 + 1e-8)


def test_the_probability_of_a_missed_region_is_rounded_up():
    assert numbers(exception_of(0.0123412), "of (.*), counted")[0] >= 0.0123412
