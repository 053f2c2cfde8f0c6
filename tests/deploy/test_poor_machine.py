"""Where no thread can start and no process can fork, gateways publish all the same."""

import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest
from gateway_cases import noise

import privcontrol as pc

ROOT = Path(__file__).parents[2]


def test_a_gateway_publishes_where_no_thread_can_start(monkeypatch, tmp_path):
    """It refused with an error about the main thread, which had not ended."""

    def start(thread):
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", start)
    design = noise("floored")
    path = tmp_path / "state"
    reading = np.zeros(design.plant.noutputs)
    said = []
    with pc.Gateway(design, resolution=2.0**-10, path=path) as gateway:
        said += [gateway.publish(reading) for _ in range(3)]
    with pc.Gateway.resume(path) as gateway:
        assert gateway.next_index == 3
        said += [gateway.publish(reading) for _ in range(3)]
    assert len(np.unique(said, axis=0)) == 6


@pytest.mark.slow
def test_the_first_example_runs_on_a_poor_machine(tmp_path):
    script = ROOT / "tests" / "stress" / "poor_machine.py"
    run = subprocess.run(
        [sys.executable, script], capture_output=True, text=True, cwd=tmp_path
    )
    assert run.returncode == 0, run.stderr[-2000:]
    assert run.stdout.endswith("200 readings published\n1 of 1 examples ran\n")
