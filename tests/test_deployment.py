"""The deployment example runs: three processes, a gateway that is killed, one charge."""

import asyncio
import http.client
import json
import os
import re
import socket
import stat
import subprocess
import sys
import time
from pathlib import Path
from urllib.error import HTTPError, URLError
from urllib.request import urlopen

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "examples" / "deployment"))

import common
import gateway as publisher
import run as deployment
from live import MOST_CLIENTS, LivePage

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


def test_readings_are_taken_from_one_plant_of_the_same_owner(tmp_path):
    """No other user may connect, no second client is heard, and no jump is believed."""
    deployment.designed(tmp_path, publisher.MOST_LOST + 100)

    async def attack():
        published = []

        async def cloud(reader, writer):
            async for message in common.lines(reader):
                published.append(message["t"])

        server = await common.served(tmp_path / "published.sock", cloud)
        task = asyncio.create_task(publisher.main(tmp_path))
        readings = tmp_path / "readings.sock"
        plant = await common.connected(readings)
        for name in ("readings.sock", "published.sock"):
            assert stat.S_IMODE((tmp_path / name).stat().st_mode) == 0o600
        await common.send(plant, t=0, counts=[-20000])
        while not published:
            await asyncio.sleep(0.01)
        other, _ = await asyncio.open_unix_connection(readings)
        assert await other.read() == b""  # turned away
        for wrong in (
            {"t": publisher.MOST_LOST + 50, "counts": [0]},
            {"t": 1},
            {"u": 1},
        ):
            await common.send(plant, **wrong)
        await common.send(plant, t=2, counts=[-20000])
        while len(published) < 2:
            await asyncio.sleep(0.01)
        task.cancel()
        plant.close()
        server.close()
        return published

    assert asyncio.run(asyncio.wait_for(attack(), 60)) == [0, 2]


def test_what_a_slow_reader_does_not_take_is_lost(tmp_path, monkeypatch):
    """Nobody reads, so messages are dropped, and memory does not grow."""
    monkeypatch.setattr(common, "PATIENCE", 0.05)

    async def flood():
        async def asleep(reader, writer):
            await asyncio.sleep(30)

        server = await common.served(tmp_path / "slow.sock", asleep)
        writer = await common.connected(tmp_path / "slow.sock")
        for _ in range(2000):
            await common.send(writer, filler="x" * 1000)
        size = writer.transport.get_write_buffer_size()
        server.close()
        return writer.is_closing(), size

    closing, size = asyncio.run(asyncio.wait_for(flood(), 30))
    assert closing and size < 1 << 18


def test_the_live_page_answers_few_clients_of_this_machine(tmp_path):
    with LivePage(tmp_path, 10, 0.1) as page:
        port = int(page.address.rstrip("/").rsplit(":", 1)[1])
        for host, status in (("127.0.0.1", 200), ("localhost", 200), ("evil.org", 403)):
            connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
            connection.request(
                "GET", "/signals.json", headers={"Host": f"{host}:{port}"}
            )
            assert connection.getresponse().status == status
            connection.close()
        silent = [socket.create_connection(("127.0.0.1", port)) for _ in range(40)]
        time.sleep(0.5)
        turned_away = 0
        for one in silent:
            one.setblocking(False)
            try:
                turned_away += one.recv(1) == b""
            except BlockingIOError:
                pass
            one.close()
        assert turned_away >= 40 - MOST_CLIENTS
