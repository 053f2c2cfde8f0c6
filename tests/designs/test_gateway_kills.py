"""Gateways that are killed, and that lose power; tests/stress has more of it."""

import shutil
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "stress"))

import power_loss
from kill_gateways import run


@pytest.mark.slow
def test_killed_gateways_keep_their_promises():
    """Three kills for each of eleven, over noises of every kind, alone and with a shared ledger."""
    kills, samples = run(33, seed=5, report=lambda line: None, each=3)
    assert kills >= 33
    assert samples > 100


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="calls are recorded on Linux")
@pytest.mark.skipif(shutil.which("cc") is None, reason="no compiler here")
def test_gateways_go_on_after_a_power_loss():
    """A hundred states of the disk, of a gateway, a clean end and a ledger."""
    states = power_loss.run(
        states=100, seed=3, kinds=("driven",), report=lambda line: None
    )
    assert states == 100
