"""The run script of the Home Assistant add-on against a mosquitto on loopback.

Readings are sent in two halves, and the add-on is ended and started between them. Every
one is published once and in order, the sensors are announced, and the begun file moves.

    python tests/stress/home_assistant.py [1000]
"""

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import suppress
from pathlib import Path

import paho.mqtt.client as mqtt
from paho.mqtt.enums import CallbackAPIVersion

ROOT = Path(__file__).parents[2]
ADDON = ROOT / "packaging" / "home_assistant" / "privcontrol"
#: Seconds between two readings, and for a start.
PACE = 0.005
PATIENCE = 120
sys.path.insert(0, str(ROOT))


def begun(share: Path, readings: int) -> None:
    """Make the design and the gateway's file, as a user does at home."""
    import control as ct
    import numpy as np

    import privcontrol as pc
    from privcontrol.deploy import main

    room = ct.ss(0.9, [[1, 0.1]], 1, 0, 300.0, inputs=["heat", "people"], outputs="T")
    noise = pc.design_output_noise(
        room,
        budget=pc.PrivacyBudget(epsilon=1.0, delta=1e-2),
        adjacency=pc.DisturbanceAdjacency({"people": 1.0}),
        horizon=np.inf,
        models="exact",
    )
    noise.save(share / "noise.json")
    state = str(share / "gateway.sqlite")
    arguments = ["begin", str(share / "noise.json"), "--state", state]
    if main([*arguments, "--grid", "0.01"]):
        raise SystemExit("the gateway's file was not made")


class Home:
    """A broker, a sensor and somebody who listens."""

    def __init__(self, folder: Path) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        settings = folder / "mosquitto.conf"
        settings.write_text(f"listener {self.port} 127.0.0.1\nallow_anonymous true\n")
        self.broker = subprocess.Popen(
            [shutil.which("mosquitto") or "/usr/sbin/mosquitto", "-c", settings],
            stderr=subprocess.DEVNULL,
        )
        self.published: list[dict] = []
        self.announced: list[dict] = []
        self.client = mqtt.Client(CallbackAPIVersion.VERSION2)
        self.client.on_message = self._heard
        deadline = time.monotonic() + PATIENCE
        while time.monotonic() < deadline:
            with suppress(OSError):
                self.client.connect("127.0.0.1", self.port)
                break
            time.sleep(0.1)
        self.client.subscribe([("privcontrol/published", 1), ("homeassistant/#", 1)])
        self.client.loop_start()

    def _heard(self, client: object, data: object, message: mqtt.MQTTMessage) -> None:
        content = json.loads(message.payload)
        if message.topic.startswith("homeassistant/"):
            self.announced.append(content)
        else:
            self.published.append(content)

    def send(self, count: int) -> None:
        """Send readings, and wait until their answers came."""
        wanted = len(self.published) + count
        for _ in range(count):
            self.client.publish("privcontrol/readings", '{"T": 20.5}')
            time.sleep(PACE)
        deadline = time.monotonic() + PATIENCE
        while len(self.published) < wanted and time.monotonic() < deadline:
            time.sleep(0.05)

    def close(self) -> None:
        self.client.loop_stop()
        self.broker.terminate()
        self.broker.wait()


def addon(folder: Path) -> subprocess.Popen:
    """Start the run script, with the command of this clone."""
    commands = folder / "bin"
    commands.mkdir(exist_ok=True)
    command = commands / "privcontrol"
    command.write_text(f'#!/bin/sh\nexec {sys.executable} -m privcontrol.deploy "$@"\n')
    command.chmod(0o755)
    environment = os.environ | {
        "PATH": f"{commands}:{os.environ['PATH']}",
        "PYTHONPATH": str(ROOT),
        "PRIVCONTROL_DATA": str(folder / "data"),
        "PRIVCONTROL_SHARE": str(folder / "share"),
    }
    return subprocess.Popen(
        [sys.executable, ADDON / "run.py"], env=environment, stderr=subprocess.PIPE
    )


def subscribed(process: subprocess.Popen) -> None:
    """Wait until the command reads the topic, and let its log pass from then on."""
    for line in process.stderr:
        if b"resumed at sample" in line:
            break
    threading.Thread(target=process.stderr.read, daemon=True).start()
    time.sleep(2.0)  # the subscription


def main(readings: int) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for part in ("data", "share"):
            (folder / part).mkdir()
        begun(folder / "share", readings)
        home = Home(folder)
        options = {
            "name": "Private reading",
            "readings": "privcontrol/readings",
            "published": "privcontrol/published",
            "discovery": "homeassistant",
            "units": ["K"],
            "most_lost": 300,
            "mqtt_host": "127.0.0.1",
            "mqtt_port": home.port,
        }
        (folder / "data" / "options.json").write_text(json.dumps(options))
        try:
            for half in (readings // 2, readings - readings // 2):
                started = time.monotonic()
                process = addon(folder)
                subscribed(process)
                print(f"ready after {time.monotonic() - started:.1f} s")
                home.send(half)
                process.send_signal(signal.SIGTERM)
                if process.wait(PATIENCE):
                    raise SystemExit(f"the add-on ended with {process.returncode}")
        finally:
            home.close()
        seen = [message["index"] for message in home.published]
        if seen != list(range(readings)):
            raise SystemExit(f"expected {readings} samples in order, got {len(seen)}")
        (sensor,) = {json.dumps(found, sort_keys=True) for found in home.announced}
        if json.loads(sensor)["value_template"] != "{{ value_json['T'] }}":
            raise SystemExit(f"expected a sensor of the output T, got {sensor}")
        if (folder / "share" / "gateway.sqlite").exists():
            raise SystemExit("the begun file stayed where it was")
        if (folder / "data" / "gateway.sqlite").stat().st_mode & 0o077:
            raise SystemExit("others may read the gateway's file")
    print(f"{readings} readings published once and in order, one restart, announced")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 1000)
