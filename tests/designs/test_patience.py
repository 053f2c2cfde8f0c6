"""Designs that take long, or too much memory, say so."""

import time
import warnings

import numpy as np
import pytest

import privcontrol as pc
from privcontrol.core import _linalg, _progress
from privcontrol.core._progress import timed_bar
from privcontrol.secrets import adjacency

BUDGET = pc.PrivacyBudget(epsilon=1.0, delta=1e-2)


def test_a_long_design_without_a_bar_says_once_what_would_be_faster(monkeypatch):
    monkeypatch.setattr(_progress, "PATIENCE", 0.05)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        with timed_bar(False, "design", "shorten the horizon"):
            time.sleep(0.4)
    texts = [str(each.message) for each in caught]
    assert texts == ["the design has taken 0.05 s so far; shorten the horizon"]
    assert caught[0].category is pc.PrivacyWarning


def test_a_short_design_says_nothing(monkeypatch):
    monkeypatch.setattr(_progress, "PATIENCE", 0.2)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        with timed_bar(False, "design"):
            pass
        time.sleep(0.4)
    assert not caught


@pytest.mark.parametrize("family", ["gaussian", "iid-gaussian"])
def test_a_design_beyond_the_memory_says_what_it_needs_before_it_starts(
    family, monkeypatch
):
    monkeypatch.setattr(_linalg, "_free_bytes", lambda: 1e6)
    asked = dict(horizon=400, budget=BUDGET, family=family)
    secret = pc.DisturbanceAdjacency(0.1)
    with pytest.raises(MemoryError, match=r"needs about 0\.0\d+ GB .* 0\.001 GB"):
        pc.design_output_noise(pc.plants.vehicle(), adjacency=secret, **asked)


def test_independent_noise_copies_few_windows_at_a_time(monkeypatch):
    plant = pc.plants.vehicle()
    secret = pc.StateAdjacency({"position": 1.0})
    asked = dict(horizon=300, budget=BUDGET, adjacency=secret, family="iid-gaussian")
    at_once = pc.design_output_noise(plant, **asked)
    monkeypatch.setattr(adjacency, "_MOST_COPIED", 700)
    assert pc.design_output_noise(plant, **asked).std == at_once.std
    # a position keeps its move at every sample
    moved = at_once.guarantee.gdp * at_once.std[0]
    assert moved == pytest.approx(np.sqrt(300), rel=1e-9)
