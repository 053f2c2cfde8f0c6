"""Gateways that are killed at random instants; tests/stress/kill_gateways.py has more of it."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "stress"))

from kill_gateways import run


def test_killed_gateways_keep_their_promises():
    """Three kills for each of eleven, over noises of every kind, alone and with a shared ledger."""
    kills, samples = run(33, seed=5, report=lambda line: None, each=3)
    assert kills >= 33 and samples > 100
