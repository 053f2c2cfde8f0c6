"""The deployment example runs: three processes, a gateway that is killed, one charge."""

import contextlib
import http.client
import json
import os
import re
import shutil
import socket
import subprocess
import sys
import time
from pathlib import Path
from urllib.error import HTTPError, URLError
from urllib.request import Request, urlopen

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "examples" / "deployment"))

import cloud
from design import DRAUGHT, ROOMS, SENSOR, STAY, designed
from detector import Detector
from live import MOST_CLIENTS, LivePage
from wires import MOSQUITTO

import privcontrol as pc

ROOT = Path(__file__).parents[1]
CHROMIUM = shutil.which("chromium") or shutil.which("google-chrome")


@pytest.fixture(scope="module")
def design(tmp_path_factory):
    """A folder with the design of the two rooms."""
    folder = tmp_path_factory.mktemp("design")
    designed(folder)
    return folder


@pytest.fixture
def folder(design, tmp_path):
    """A folder of a run that begins."""
    shutil.copytree(design, tmp_path / "run")
    return tmp_path / "run"


def answer(address):
    with urlopen(address, timeout=10) as response:
        return response.read().decode()


@pytest.mark.slow
def test_a_deployment_survives_the_death_of_its_gateway(tmp_path):
    """Ten seconds; a page shows the run while it goes on, acts on it, and ends with it.

    `.ci/run` has a longer run over pipes.
    """
    figure, log = tmp_path / "run.png", tmp_path / "log"
    script = ROOT / "examples" / "deployment" / "run.py"
    # asked once: a broker that is installed while the tests run is not taken
    carrier, wires = "mosquitto on loopback carries", []
    if MOSQUITTO is None:
        carrier, wires = "pipes carry", ["--pipes"]
    with log.open("w") as errors:
        run = subprocess.Popen(
            [
                sys.executable,
                script,
                "--seconds",
                "10",
                "--live",
                *wires,
                "--plot",
                figure,
            ],
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            env=dict(os.environ, PYTHONPATH=str(ROOT), MPLBACKEND="Agg"),
        )
    try:
        address = run.stdout.readline().removeprefix("live page: ").strip()
        check_live_page(run, address)
        printed = run.stdout.read()
        run.wait(180)
        with pytest.raises(URLError):
            answer(address)
    finally:
        if run.poll() is None:
            run.kill()
            run.wait()
    said = log.read_text()
    assert run.returncode == 0, said
    assert f"{carrier} the run" in printed
    # it goes on behind what may have been published
    seen = int(re.search(r"the cloud saw (\d+) of 50 samples", printed)[1])
    assert 5 <= seen < 50
    assert '"ledger": 0.5' in said  # its health, on request
    assert int(re.search(r"resumed at sample (\d+)", said)[1]) >= 16
    # once by the example and once by the page's button
    assert printed.count("gateway killed") == 2
    assert "charged 1 time" in printed
    assert re.search(r"^Released: +exactly$", printed, re.MULTILINE)
    assert figure.stat().st_size > 5000


def check_live_page(run, address):
    """The endpoint answers during the run, with growing signals."""
    assert re.fullmatch(r"http://127\.0\.0\.1:\d+/", address)
    assert "known in the simulation only" in answer(address)
    for hidden in ("gateway.sqlite", "../gateway.sqlite", "ledger.sqlite", "live.py"):
        with pytest.raises(HTTPError):
            answer(address + hidden)
    signals = wait_for(run, address, lambda signals: signals["kills"])
    ask(address + "enter/west")
    ask(address + "kill")
    signals = wait_for(run, address, lambda signals: len(signals["kills"]) == 2)
    assert signals["duration"] == pytest.approx(12.5)
    assert signals["visits"] == 2
    assert "charged 1 time, 0.5 of epsilon = 1.5" in signals["ledger"]
    east, west = signals["rooms"]["east"], signals["rooms"]["west"]
    assert east["truth"][0] == [0.0, 0.0]
    truth = dict(map(tuple, east["truth"]))
    errors = [abs(y - truth[t]) for t, y in east["published"] if t in truth]
    assert len(errors) >= 5
    assert max(errors) > 0.1
    signals = wait_for(
        run, address, lambda signals: any_of(signals["rooms"]["west"]["present"])
    )
    assert any_of(signals["rooms"]["east"]["present"])
    assert len(west["scores"]["true"]) == len(west["scores"]["published"]) > 5


def any_of(curve):
    return any(value for _, value in curve)


def wait_for(run, address, happened):
    """The signals of the run, as soon as something has happened."""
    deadline = time.monotonic() + 180
    while True:
        assert run.poll() is None
        assert time.monotonic() < deadline
        signals = json.loads(answer(address + "signals.json"))
        if happened(signals):
            return signals
        time.sleep(0.05)


def ask(address, **headers):
    """Press a button of the page."""
    headers = {"X-Live-Page": "1"} | headers
    with urlopen(Request(address, b"", headers), timeout=10) as response:
        return response.status


def test_a_late_value_does_not_hold_the_cloud_up():
    """What arrives in time is taken; after half a period the model runs alone."""
    published = cloud.Published(period=0.02)
    published.take({"index": 1, "T east": 5.0, "T west": 4.0})
    assert published.wait(0) is None
    assert published.wait(1) == [5.0, 4.0]
    start = time.monotonic()
    assert published.wait(11) is None
    assert 0.15 < time.monotonic() - start < 60.0
    published.take({"index": 11, "T east": 6.0, "T west": 4.0})
    assert published.wait(12) is None


@pytest.mark.slow
@pytest.mark.skipif(CHROMIUM is None, reason="no Chromium on this machine")
def test_a_browser_draws_the_page(folder, tmp_path):
    """The page's own script, in a headless browser, with signals of which some are lost."""
    plant = ["0 .1 .2 .1 .2 0 0 0 0", "1 .2 .2 .2 .2 1 0 0 0", "2 .3 .2 .3 .2 1 0 0 0"]
    cloud = ["0 .5 .6 .1 .1 0 0", "1 nan nan .1 .1 0 0", "2 -.41 .4 .2 .1 0 0"]
    (folder / "plant.csv").write_text("\n".join([*plant, ""]))
    (folder / "cloud.csv").write_text("\n".join([*cloud, ""]))
    (folder / "kills").write_text("1\n")
    (folder / "visits").write_text("east\n")
    with LivePage(folder, 10) as page:
        ran = subprocess.run(
            [
                CHROMIUM,
                "--headless",
                "--no-sandbox",
                "--disable-gpu",
                "--disable-background-networking",
                f"--user-data-dir={tmp_path / 'profile'}",
                "--virtual-time-budget=1000",
                "--dump-dom",
                page.address,
            ],
            capture_output=True,
            text=True,
            timeout=120,
        )
    if ran.returncode < 0:
        pytest.skip("the browser of this machine does not start")
    assert ran.stdout.count("<circle") == 4  # the second one of both rooms is lost
    assert ran.stdout.count("<polyline") == 2 * (1 + 1 + 2)
    assert ran.stdout.count('class="band"') == 3  # one visit, in the panels of its room
    assert ran.stdout.count('class="kill"') == 6
    assert "1 visit so far" in ran.stdout
    assert "in at most 13.3 % of such runs" in ran.stdout
    assert "The run goes on." in ran.stdout


def test_the_live_page_answers_few_clients_of_this_machine(folder):
    with LivePage(folder, 10) as page:
        port = int(page.address.rstrip("/").rsplit(":", 1)[1])
        for host, status in (("127.0.0.1", 200), ("localhost", 200), ("evil.org", 403)):
            connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
            connection.request(
                "GET", "/signals.json", headers={"Host": f"{host}:{port}"}
            )
            response = connection.getresponse()
            assert response.status == status
            assert response.headers["X-Content-Type-Options"] == "nosniff"
            policy = response.headers["Content-Security-Policy"]
            assert policy.startswith("default-src 'none'; script-src 'self';")
            connection.close()
        silent = [socket.create_connection(("127.0.0.1", port)) for _ in range(40)]
        time.sleep(0.2)
        turned_away = 0
        for one in silent:
            one.setblocking(False)
            with contextlib.suppress(BlockingIOError):
                turned_away += one.recv(1) == b""
            one.close()
        assert turned_away >= 40 - MOST_CLIENTS


def test_buttons_of_a_page_elsewhere_do_nothing(folder):
    """A form that another page sends has no header of its own."""
    with LivePage(folder, 10) as page:
        for path, status in (("kill", 403), ("enter/east", 403)):
            with pytest.raises(HTTPError) as refused:
                urlopen(Request(page.address + path, b""), timeout=10)
            assert refused.value.code == status
        with pytest.raises(HTTPError) as refused:
            ask(page.address + "enter/..%2Fledger.sqlite")
        assert refused.value.code == 404
        with pytest.raises(HTTPError):
            ask(page.address + "kill", Host="evil.org")
        assert not page.kill.is_set()
        assert not (folder / "visits").exists()
        assert ask(page.address + "kill") == ask(page.address + "enter/west") == 200
        assert page.kill.is_set()
    assert (folder / "visits").read_text() == "west\n"


@pytest.mark.slow
@pytest.mark.parametrize("gated", [False, True])
def test_scores_are_those_of_a_matched_filter(folder, gated):
    """Standard normal of an empty house; a visit moves them as the guarantee allows."""
    loop = pc.load(folder / "loop.json")
    rooms, noise = loop.plant, loop.noise
    rng = np.random.default_rng(0)
    samples, runs = 60, 300
    gamma = noise.sample(runs, rng=1, horizon=samples)  # (2, runs, samples)
    empty, visited = [], []
    for run in range(runs):
        for start, scores in ((None, empty), (30, visited)):
            detector = Detector(rooms, noise.system if gated else None)
            state = np.zeros(4)
            for t in range(samples):
                reading = rooms.C @ state + SENSOR * rng.standard_normal(2)
                if gated:
                    reading = reading + gamma[:, run, t]
                heat = np.array([0.1, -0.1]) * np.sin(t)
                detector.see(reading, heat)
                people = start is not None and start <= t < start + STAY
                state = rooms.A @ state + rooms.B[:, ::2] @ heat
                state += rooms.B[:, 1] * people + DRAUGHT * rng.standard_normal(4)
            scores.append(detector.scores[30 + STAY + 1])
    empty, visited = np.array(empty)[:, 0], np.array(visited)
    assert abs(empty.mean()) < 4 / np.sqrt(runs)
    assert 0.8 < empty.std() < 1.2
    moved = (visited[:, 0] - empty).mean()
    found = np.mean(visited[:, 0] > 1.645)
    if gated:
        assert moved < loop.guarantee.gdp + 4 * np.sqrt(2 / runs)
        assert found < 0.133 + 4 * np.sqrt(0.133 / runs)
    else:
        assert found > 0.9
    assert len(ROOMS) == visited.shape[1] == 2
