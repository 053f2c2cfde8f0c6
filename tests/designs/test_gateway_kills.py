"""Gateways that are killed at random instants; tests/stress/kill_gateways.py has more of it."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "stress"))

from kill_gateways import run


def test_killed_gateways_keep_their_promises():
    """Forty kills over noises of every kind, alone and with a shared ledger."""
    kills, samples = run(40, seed=5, report=lambda line: None)
    assert kills >= 40 and samples > 100
