"""The deployment example runs: three processes, a gateway that is killed, one charge."""

import json
import os
import re
import subprocess
import sys
import time
from pathlib import Path
from urllib.error import HTTPError, URLError
from urllib.request import urlopen

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


def answer(address):
    with urlopen(address, timeout=10) as response:
        return response.read().decode()


@pytest.mark.slow
def test_a_live_page_shows_the_run_while_it_goes_on():
    """The endpoint answers during the run, with growing signals, and ends with it."""
    environment = dict(os.environ, PYTHONPATH=str(ROOT))
    script = ROOT / "examples" / "deployment" / "run.py"
    run = subprocess.Popen(
        [sys.executable, str(script), "--live", "--seconds", "5"],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env=environment,
    )
    try:
        address = re.fullmatch(
            r"live page: (http://127\.0\.0\.1:\d+/)\n", run.stdout.readline()
        )[1]
        assert "known in the simulation only" in answer(address)
        for hidden in ("gateway.sqlite", "../gateway.sqlite", "ledger.sqlite"):
            with pytest.raises(HTTPError):
                answer(address + hidden)
        lengths = []
        deadline = time.monotonic() + 60
        while not lengths or lengths[-1] < lengths[0] + 5:
            assert run.poll() is None and time.monotonic() < deadline
            signals = json.loads(answer(address + "signals.json"))
            if signals["estimate"]:
                lengths.append(len(signals["estimate"]))
            time.sleep(0.05)
        assert signals["duration"] == pytest.approx(5.0)
        assert signals["truth"][0] == [0.0, -20.0]
        truth = dict(map(tuple, signals["truth"]))
        errors = [abs(y - truth[t]) for t, y in signals["published"] if t in truth]
        assert len(errors) >= 5 and max(errors) > 1e-3
        output = run.communicate(timeout=120)[0]
        assert run.returncode == 0 and "charged 1 time" in output
        with pytest.raises(URLError):
            answer(address)
    finally:
        if run.poll() is None:
            run.kill()
            run.wait()
