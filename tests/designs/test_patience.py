"""Designs that take long, or too much memory, say so."""

import time
import warnings
from types import SimpleNamespace

import control as ct
import numpy as np
import pytest
from cases import POSITION

import privcontrol as pc

BUDGET = pc.PrivacyBudget(epsilon=1.0, delta=1e-2)


PROGRESS = "privcontrol.core._progress.PATIENCE"


def designed(horizon):
    """Noise for a gust, whose design takes a second for some hundred samples."""
    secret = pc.DisturbanceAdjacency(0.1, times=range(horizon - 1))
    plant = pc.plants.vehicle()
    pc.design_output_noise(plant, horizon=horizon, budget=BUDGET, adjacency=secret)


def test_a_long_design_without_a_bar_says_once_what_would_be_faster(monkeypatch):
    monkeypatch.setattr(PROGRESS, 0.02)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        designed(150)
    assert {each.category for each in caught} == {pc.PrivacyWarning}
    texts = [str(each.message) for each in caught]
    text = "the design has taken 0.02 s so far; design with horizon=np.inf, shorten"
    assert [found.startswith(text) for found in texts].count(True) == 1
    assert {each.filename for each in caught} == {__file__}


def test_a_long_sweep_says_once_what_would_be_faster(monkeypatch):
    monkeypatch.setattr(PROGRESS, 0.01)
    secret = pc.StateAdjacency({"position": 1.0})
    weights = {"Q": 1.0, "R": 1.0, "QN": 1.0, "RN": 1.0}
    asked = dict(horizon=20, adjacency=secret, delta=1e-2, epsilons=[0.5, 1.0])
    with pytest.warns(pc.PrivacyWarning, match="designs have taken .*fewer epsilons"):
        pc.tradeoff(pc.plants.vehicle(), **weights, **asked)


GUST = pc.DisturbanceAdjacency(0.1)
STILL = pc.StateAdjacency({"position": 1.0}, times=0)
BOX = pc.PlantBox(pc.plants.vehicle(), A=[[1e-3, 1e-3], [0, 1e-3]])
FADING = ct.ss(0.9, 1, 1, 0, 1.0, states=["x"], inputs=["u"], outputs=["y"])
OTHER = ct.ss(0.8, 1, 1, 0, 1.0, states=["x"], inputs=["u"], outputs=["y"])
VARYING = pc.PlantPolytope([FADING, OTHER])


@pytest.mark.parametrize(
    "plant, asked",
    [
        (None, dict(adjacency=POSITION, horizon=2000, models="exact")),
        (None, dict(adjacency=POSITION, horizon=20_000, floor=0.1)),
        (None, dict(adjacency=GUST, horizon=150, floor=0.1)),
        (None, dict(adjacency=GUST, horizon=150)),
        (None, dict(adjacency=STILL, horizon=20, models=BOX, floor=0.3)),
        (FADING, dict(adjacency=GUST, horizon=20, models=[OTHER], floor="auto")),
        (FADING, dict(adjacency=GUST, horizon=np.inf)),
        (FADING, dict(adjacency=GUST, horizon=np.inf, models=VARYING)),
    ],
)
def test_the_share_of_a_long_design_grows_and_almost_reaches_the_end(
    plant, asked, monkeypatch
):
    pytest.importorskip("tqdm")
    shares = []

    def stretch(start, length, done):
        shares.append(done[0])
        return SimpleNamespace(start=start, length=length, done=done)

    monkeypatch.setattr("privcontrol.core._progress._Stretch", stretch)
    plant = plant or pc.plants.vehicle()
    noise = pc.design_output_noise(plant, budget=BUDGET, progress=True, **asked)
    assert noise.guarantee.satisfies(BUDGET)
    steps = np.diff(shares)
    assert (steps >= 0).all() and steps.max() <= 0.5
    assert 0.5 <= shares[-1] <= 1
    assert len(set(shares)) >= 4


def test_a_short_design_says_nothing(monkeypatch):
    monkeypatch.setattr(PROGRESS, 1.0)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        designed(3)
        time.sleep(1.2)
    assert not [each for each in caught if "so far" in str(each.message)]


@pytest.mark.parametrize("family", ["gaussian", "iid-gaussian"])
def test_a_design_beyond_the_memory_says_what_it_needs_before_it_starts(
    family, monkeypatch
):
    monkeypatch.setattr("privcontrol.core._linalg._free_bytes", lambda: 1e6)
    asked = dict(horizon=400, budget=BUDGET, family=family)
    secret = pc.DisturbanceAdjacency(0.1)
    with pytest.raises(MemoryError, match=r"needs about 0\.0\d+ GB .* 0\.001 GB"):
        pc.design_output_noise(pc.plants.vehicle(), adjacency=secret, **asked)
