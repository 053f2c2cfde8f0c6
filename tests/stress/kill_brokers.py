"""Kill the command and its broker while readings pass, and check what the cloud gets.

    python tests/stress/kill_brokers.py --readings 10000 --rate 100 --kills 200 --brokers 50

A real mosquitto on loopback asks for passwords; its ACL keeps readings from the cloud. The
run goes on until all readings are sent and all kills are done. Then no index arrived twice,
the order was kept, and the ledger was charged once.
"""

import argparse
import json
import os
import random
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from paho.mqtt.client import Client
from paho.mqtt.enums import CallbackAPIVersion

sys.path.insert(0, str(Path(__file__).parents[1]))

from gateway_cases import noise

import privcontrol as pc

MOSQUITTO = shutil.which("mosquitto") or shutil.which("mosquitto", path="/usr/sbin")
USERS = ("sensor", "gateway", "cloud")
ACL = """user sensor
topic write readings
user gateway
topic read readings
topic write published
user cloud
topic read published
"""


class Broker:
    """A mosquitto on loopback with a password file, which can be killed."""

    def __init__(self, folder):
        self.folder = folder
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        passwords = folder / "passwords"
        passwords.write_text("".join(f"{user}:{user}-word\n" for user in USERS))
        subprocess.run(["mosquitto_passwd", "-U", passwords], check=True)
        (folder / "acl").write_text(ACL)
        (folder / "broker.conf").write_text(
            f"listener {self.port} 127.0.0.1\nallow_anonymous false\n"
            f"password_file {passwords}\nacl_file {folder / 'acl'}\n"
            "message_size_limit 100000\nuser root\n"
        )
        self.start()

    def start(self):
        conf = self.folder / "broker.conf"
        self.process = subprocess.Popen(
            [MOSQUITTO, "-c", conf], stderr=subprocess.DEVNULL
        )
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            try:
                socket.create_connection(("127.0.0.1", self.port), 1).close()
                return
            except OSError:
                time.sleep(0.02)
        raise TimeoutError("the broker does not start")

    def kill(self):
        self.process.kill()
        self.process.wait()

    def client(self, user, topic=None, received=None):
        """A connected client of a user, which collects the messages of a topic."""
        client = Client(CallbackAPIVersion.VERSION2)
        client.username_pw_set(user, f"{user}-word")
        client.reconnect_delay_set(1, 1)
        if topic is not None:
            client.on_connect = lambda one, *_: one.subscribe(topic, 0)
            client.on_message = lambda one, data, message: received(message.payload)
        client.connect("127.0.0.1", self.port)
        client.loop_start()
        return client

    def gateway(self, arguments, word="gateway-word", log=None):
        """The command between the two topics, with its password in a file."""
        file = self.folder / "word"
        file.write_text(word)
        address = f"mqtt://127.0.0.1:{self.port}"
        ends = ("--source", f"{address}/readings", "--sink", f"{address}/published")
        module = ("-m", "privcontrol.deploy.command", "publish")
        return subprocess.Popen(
            [sys.executable, *module, *map(str, arguments), *ends],
            stderr=log,
            env=dict(
                os.environ,
                PRIVCONTROL_MQTT_USER="gateway",
                PRIVCONTROL_MQTT_PASSWORD_FILE=str(file),
            ),
        )


def run(readings, rate, kills, brokers, report=print):
    """Return what was sent and what arrived, after all of it was checked."""
    design = noise("endless floored")
    arrived, delays, sent = [], [], {}
    leaked = []

    def received(payload):
        index = json.loads(payload)["index"]
        arrived.append(index)
        delays.append(time.monotonic() - sent[index])

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        design.save(folder / "noise.json")
        spent = design.guarantee.epsilon(1e-2) * 1.01
        budget = pc.PrivacyBudget(epsilon=spent, delta=1e-2)
        ledger = pc.PrivacyLedger(budget, folder / "ledger")
        arguments = [folder / "noise.json", "--state", folder / "state"]
        arguments += ["--ledger", folder / "ledger"]
        broker = Broker(folder)
        log = open(folder / "log", "w")
        wrong = broker.gateway(arguments, "wrong", log)
        assert wrong.wait(120) == 1, "a wrong password is refused for good"
        assert not (folder / "state").exists()
        cloud = broker.client("cloud", "published", received)
        spy = broker.client("cloud", "readings", leaked.append)
        sensor = broker.client("sensor")
        gateway = broker.gateway(arguments, log=log)
        killed = fallen = index = 0
        seen = 0  # arrived when the gateway was started
        began = time.monotonic()
        limit = 600 + 30 * (kills + brokers) + 10 * readings / rate
        try:
            while index < readings or killed < kills or fallen < brokers:
                assert time.monotonic() - began < limit, "it takes too long"
                sent[index] = time.monotonic()
                sensor.publish("readings", json.dumps({"t": 0.25, "index": index}))
                if index % 50 == 7:
                    sensor.publish("readings", json.dumps({"t": 9.0, "index": index}))
                    sensor.publish("readings", b"\xff" * 90_000)
                index += 1
                time.sleep(1 / rate)
                if gateway.poll() is not None:
                    # killed by us, or 75 while the broker was away
                    assert gateway.returncode in (-9, 75), (folder / "log").read_text()
                    gateway = broker.gateway(arguments, log=log)
                    seen = len(arrived)
                # most kills while it publishes, some while it starts
                ripe = len(arrived) > seen + 20 or random.random() < 2e-3
                if killed < kills and ripe and random.random() < 0.1:
                    gateway.kill()
                    gateway.wait()
                    killed += 1
                if fallen < brokers and len(arrived) > 20 and random.random() < 0.02:
                    broker.kill()
                    time.sleep(random.random() * 0.1)
                    broker.start()
                    fallen += 1
            known = len(arrived)
            deadline = time.monotonic() + 120
            while len(arrived) < known + 20 and time.monotonic() < deadline:
                if gateway.poll() is not None:
                    gateway = broker.gateway(arguments, log=log)
                sent[index] = time.monotonic()
                sensor.publish("readings", json.dumps({"t": 0.25, "index": index}))
                index += 1
                time.sleep(1 / rate)
            assert len(arrived) >= known + 20, "the loop does not go on"
            gateway.terminate()
            assert gateway.wait(120) == 0
        finally:
            for client in (cloud, spy, sensor):
                client.loop_stop()
            gateway.kill()
            broker.kill()
            log.close()
        text = (folder / "log").read_text()
        assert arrived == sorted(set(arrived)), "an index came twice, or went back"
        assert len(ledger.history) == 1, "not charged, or twice"
        assert not leaked, "the cloud read a reading"
        if len(arrived) < arrived[-1] + 1:
            assert "were lost" in text, "a gap was not reported"
        assert "refused: its sample was passed" in text
        assert "refused: it is too long" in text
        assert "0.25" not in text and "9.0" not in text
    half, most = np.percentile(np.array(delays) * 1e3, [50, 99])
    report(
        f"{index} readings, {killed} kills of the gateway, {fallen} of the broker: "
        f"{len(arrived)} arrived, each once and in order; p50 {half:.1f} ms, "
        f"p99 {most:.1f} ms; {time.monotonic() - began:.0f} s"
    )
    return index, arrived


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--readings", type=int, default=10_000)
    parser.add_argument("--rate", type=float, default=100.0)
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--brokers", type=int, default=50)
    run(**vars(parser.parse_args()))
