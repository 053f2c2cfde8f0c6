"""Tables for notebooks and the figures of designs and ledgers."""

import cases
import matplotlib
import numpy as np
import pytest

import privcontrol as pc
from privcontrol.core import BallAdjacency, PrivacyGuarantee

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


def test_a_ledger_draws_the_total_after_each_charge():
    budget = pc.PrivacyBudget(epsilon=3.0, delta=1e-2)
    ledger = pc.PrivacyLedger(budget)
    secret = BallAdjacency(1.0)
    release = PrivacyGuarantee.black_box(pc.PrivacyBudget(epsilon=0.25), secret)
    for count in (1, 2, 3):
        ledger.charge(release, count=count)
    line, limit = ledger.plot().lines
    np.testing.assert_array_equal(line.get_xdata(), [0, 1, 3, 6])
    expected = [0.0] + [release.repeated(k).epsilon(1e-2) for k in (1, 3, 6)]
    np.testing.assert_allclose(line.get_ydata(), expected, rtol=1e-12)
    assert limit.get_ydata()[0] == 3.0


def test_a_ledger_in_gdp_draws_the_shift():
    ledger = pc.PrivacyLedger(pc.PrivacyBudget(gdp=2.0))
    mechanism = pc.Mechanism(pc.LinearQuery([[1.0]]), pc.GaussianNoise([2.0]))
    ledger.charge(mechanism.guarantee(BallAdjacency(1.0)), count=4)
    line = ledger.plot().lines[0]
    assert line.get_ydata()[-1] == pytest.approx(1.0, rel=1e-9)


def test_a_design_draws_its_noise_and_what_it_hides():
    budget = pc.PrivacyBudget(epsilon=1.0, delta=1e-2)
    query = pc.LinearQuery([[2.0, 0.0], [0.0, 1.0], [1.0, 1.0]])
    design = pc.design_gaussian(query, BallAdjacency(0.5), budget)
    axis = design.plot()
    heights = [bar.get_height() for bar in axis.patches]
    np.testing.assert_allclose(heights, np.sqrt(np.diag(design.noise.covariance)))
    marks = axis.lines[0].get_ydata()
    responses = abs(query.response @ np.asarray(design.worst_moves))
    np.testing.assert_allclose(marks, responses.max(axis=1))
