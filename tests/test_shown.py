"""Tables for notebooks and the figures of designs and ledgers."""

import cases
import matplotlib
import pytest

import privcontrol as pc

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
