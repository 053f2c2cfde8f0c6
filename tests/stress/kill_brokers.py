"""Kill the command and its broker while readings pass, and check what the cloud gets.

    python tests/stress/kill_brokers.py --readings 10000 --rate 100 --kills 200 --brokers 50

A real mosquitto on loopback asks for passwords; its ACL keeps readings from the cloud. The
run goes on until all readings are sent and all kills are done. Then no index arrived twice,
the order was kept, and the ledger was charged once.
"""

import argparse
import json
import random
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from paho.mqtt.client import Client
from paho.mqtt.enums import CallbackAPIVersion

sys.path.insert(0, str(Path(__file__).parents[1]))
sys.path.insert(0, str(Path(__file__).parents[2] / "examples" / "deployment"))

from command import start
from gateway_cases import noise
from wires import Broker

import privcontrol as pc


def client(broker, user, topic=None, received=None):
    """Return a connected client of a user, which collects the messages of a topic."""
    client = Client(CallbackAPIVersion.VERSION2)
    client.username_pw_set(user, broker.words[user])
    client.reconnect_delay_set(1, 1)
    if topic is not None:
        client.on_connect = lambda one, *_: one.subscribe(topic, 0)
        client.on_message = lambda one, data, message: received(message.payload)
    client.connect("127.0.0.1", broker.port)
    client.loop_start()
    return client


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
        broker = Broker(folder).__enter__()
        log = open(folder / "log", "w")

        def started():
            address = f"mqtt://127.0.0.1:{broker.port}"
            return start(
                *("publish", folder / "noise.json", "--state", folder / "state"),
                *("--ledger", folder / "ledger", "--source", f"{address}/readings"),
                *("--sink", f"{address}/published"),
                env={
                    "PRIVCONTROL_MQTT_USER": "gateway",
                    "PRIVCONTROL_MQTT_PASSWORD_FILE": str(folder / "gateway.word"),
                },
                stderr=log,
            )

        (folder / "gateway.word").write_text("wrong")
        assert started().wait(120) == 1, "a wrong password is refused for good"
        assert not (folder / "state").exists()
        (folder / "gateway.word").write_text(broker.words["gateway"])
        cloud = client(broker, "cloud", "published", received)
        spy = client(broker, "cloud", "readings", leaked.append)
        sensor = client(broker, "sensor")
        gateway = started()
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
                    gateway = started()
                    seen = len(arrived)
                # most kills while it publishes, some while it starts
                ripe = len(arrived) > seen + 20 or random.random() < 2e-3
                if killed < kills and ripe and random.random() < 0.1:
                    gateway.kill()
                    gateway.wait()
                    killed += 1
                if fallen < brokers and len(arrived) > 20 and random.random() < 0.02:
                    broker.__exit__()
                    time.sleep(random.random() * 0.1)
                    broker.__enter__()
                    fallen += 1
            known = len(arrived)
            quiet = known + max(20, readings // 20)
            deadline = time.monotonic() + 120 + 2 * readings / rate
            while len(arrived) < quiet and time.monotonic() < deadline:
                if gateway.poll() is not None:
                    gateway = started()
                sent[index] = time.monotonic()
                sensor.publish("readings", json.dumps({"t": 0.25, "index": index}))
                index += 1
                time.sleep(1 / rate)
            assert len(arrived) >= quiet, "the loop does not go on"
            gateway.terminate()
            assert gateway.wait(120) == 0
        finally:
            for one in (cloud, spy, sensor):
                one.loop_stop()
            gateway.kill()
            broker.__exit__()
            log.close()
        text = (folder / "log").read_text()
        assert arrived == sorted(set(arrived)), "an index came twice, or went back"
        assert len(ledger.history) == 1, "not charged, or twice"
        assert not leaked, "the cloud read a reading"
        if len(arrived) < arrived[-1] + 1:
            assert "were lost" in text, "a gap was not reported"
        assert "refused: its sample was passed" in text
        assert "refused: it is too long" in text
        assert "0.25" not in text
        assert "9.0" not in text
    report(
        f"{index} readings, {killed} kills of the gateway, {fallen} of the broker: "
        f"{len(arrived)} arrived, each once and in order; {time.monotonic() - began:.0f} s"
    )
    for name, some in (("all", delays), ("after the last kill", delays[known:])):
        half, most = np.percentile(np.array(some) * 1e3, [50, 99])
        report(f"{name}: p50 {half:.1f} ms, p99 {most:.1f} ms")
    return index, arrived


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--readings", type=int, default=10_000)
    parser.add_argument("--rate", type=float, default=100.0)
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--brokers", type=int, default=50)
    run(**vars(parser.parse_args()))
