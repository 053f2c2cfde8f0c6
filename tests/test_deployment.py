"""The deployment example runs: three processes, a gateway that is killed, one charge."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


@pytest.mark.slow
def test_a_deployment_survives_the_death_of_its_gateway(tmp_path):
    """Ten seconds of plant time; the standby goes on behind what may have been published."""
    environment = dict(os.environ, PYTHONPATH=str(ROOT), MPLBACKEND="Agg")
    figure = tmp_path / "run.png"
    script = ROOT / "examples" / "deployment" / "run.py"
    ran = subprocess.run(
        [sys.executable, str(script), "--plot", str(figure)],
        capture_output=True,
        text=True,
        env=environment,
        timeout=180,
    )
    assert ran.returncode == 0, ran.stderr
    published = int(re.search(r"published (\d+) of 100 samples", ran.stdout)[1])
    assert 33 <= published < 100
    resumed = int(re.search(r"resumed at sample (\d+)", ran.stderr)[1])
    assert resumed >= 33
    assert "charged 1 time" in ran.stdout
    assert "released exactly" in ran.stdout
    assert figure.stat().st_size > 5000
