"""Put the command through faults of its broker and signals, one after the other.

    python tests/stress/fault_commands.py --faults 10000

A real mosquitto, a sensor that sends 50 readings a second, and the command with a ledger.
After each fault it must publish again or end within ten seconds, with an exit code that it
knows. What is broken is then repaired, and the command started again if it has ended. No
index comes twice, and the ledger is charged once.
"""

import argparse
import json
import os
import random
import signal
import sys
import tempfile
import threading
import time
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
sys.path.insert(0, str(Path(__file__).parents[2] / "examples" / "deployment"))

from command import start
from gateway_cases import noise
from kill_brokers import client
from wires import Broker

import privcontrol as pc

PATIENCE = 10.0
RATE = 50.0
#: Faults, and how often each of them comes.
FAULTS = {
    "asked": 60,
    "asked while it starts": 3,
    "interrupted": 2,
    "terminated": 2,
    "killed": 2,
    "broker restarted": 2,
    "broker stopped for a while": 1,
    "password revoked": 1,
    "may not write": 1,
}


#: Those after which the command ends.
ENDS = ("interrupted", "terminated", "killed", "password revoked", "may not write")


class Plant:
    """A broker, a sensor and the command."""

    def __init__(self, folder):
        self.folder = folder
        self.arrived = []
        self.sent = 0
        design = noise("endless floored")
        design.save(folder / "noise.json")
        epsilon = design.guarantee.epsilon(1e-2) * 1.01
        self.ledger = pc.PrivacyLedger(
            pc.PrivacyBudget(epsilon=epsilon, delta=1e-2), folder / "ledger"
        )
        self.broker = Broker(folder).__enter__()
        self.words = (folder / "passwords").read_text()
        self.acl = (folder / "acl").read_text()
        self.log = open(folder / "log", "w")
        self.cloud = client(self.broker, "cloud", "published", self.received)
        self.sensor = client(self.broker, "sensor")
        self.stopping = threading.Event()
        threading.Thread(target=self.send, daemon=True).start()
        self.command = self.started()

    def received(self, payload):
        self.arrived.append(json.loads(payload)["index"])

    def send(self):
        while not self.stopping.wait(1 / RATE):
            reading = {"t": 0.25, "index": self.sent}
            self.sensor.publish("readings", json.dumps(reading))
            self.sent += 1

    def started(self):
        address = f"mqtt://127.0.0.1:{self.broker.port}"
        return start(
            *("publish", self.folder / "noise.json", "--state", self.folder / "state"),
            *("--ledger", self.folder / "ledger", "--source", f"{address}/readings"),
            *("--sink", f"{address}/published"),
            env={
                "PRIVCONTROL_MQTT_USER": "gateway",
                "PRIVCONTROL_MQTT_PASSWORD": self.broker.words["gateway"],
            },
            stderr=self.log,
        )

    def said(self):
        """The last lines of the command's standard error."""
        with open(self.folder / "log", "rb") as log:
            log.seek(max(log.seek(0, os.SEEK_END) - 2000, 0))
            return log.read().decode()

    def restart(self, words=None, acl=None):
        """Start the broker again, with other passwords or another access list."""
        self.broker.__exit__()
        (self.folder / "passwords").write_text(words or self.words)
        (self.folder / "acl").write_text(acl or self.acl)
        self.broker.__enter__()

    def outcome(self, ends=False):
        """Wait until the command ends, or publishes where it need not, and return which."""
        known = len(self.arrived)
        deadline = time.monotonic() + PATIENCE
        while time.monotonic() < deadline:
            code = self.command.poll()
            if code is not None:
                return f"exit {code}"
            if len(self.arrived) > known + 1 and not ends:
                return "publishes"
            time.sleep(2e-3)
        return "neither"

    def recover(self):
        """Repair what is broken, and go on until something is published."""
        if (self.folder / "passwords").read_text() != self.words:
            self.restart()
        if (self.folder / "acl").read_text() != self.acl:
            self.restart()
        deadline = time.monotonic() + 6 * PATIENCE
        while time.monotonic() < deadline:
            if self.command.poll() is not None:
                self.command = self.started()
            if self.outcome() == "publishes":
                return
        raise AssertionError("the loop does not go on")

    def close(self):
        self.stopping.set()
        self.command.kill()
        self.command.wait()
        for one in (self.cloud, self.sensor):
            one.loop_stop()
        self.broker.__exit__()
        self.log.close()


def ask(plant, rng):
    for _ in range(rng.randrange(2, 6)):
        plant.command.send_signal(signal.SIGUSR1)
        time.sleep(rng.choice([0, 1e-4, 1e-3]))


def apply(fault, plant, rng):
    """Do it, and return the exit codes that may follow."""
    command = plant.command
    if fault == "asked":
        ask(plant, rng)
        return ()
    if fault == "asked while it starts":
        command.terminate()
        command.wait()
        plant.command = plant.started()
        time.sleep(rng.uniform(0.01, 0.5))  # the test's own fork is not the command yet
        ask(plant, rng)
        return ()
    if fault in ("interrupted", "terminated", "killed"):
        number = {"i": signal.SIGINT, "t": signal.SIGTERM, "k": signal.SIGKILL}[
            fault[0]
        ]
        command.send_signal(number)
        return (-9,) if fault == "killed" else (0,)
    if fault == "broker restarted":
        plant.restart()
        return (75,)
    if fault == "broker stopped for a while":
        os.kill(plant.broker._process.pid, signal.SIGSTOP)
        time.sleep(rng.uniform(0.1, 2.0))
        os.kill(plant.broker._process.pid, signal.SIGCONT)
        return (75,)
    if fault == "password revoked":
        lines = plant.words.splitlines(keepends=True)
        kept = [line for line in lines if not line.startswith("gateway:")]
        plant.restart(words="".join(kept))
        return (1,)
    plant.restart(acl=plant.acl.replace("topic write published", "topic write nothing"))
    return (1,)


def run(faults, seed=0, report=print):
    """Return how often each fault ended in each way."""
    rng = random.Random(seed)
    found = Counter()
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as name:
        plant = Plant(Path(name))
        try:
            plant.recover()
            for number in range(faults):
                (fault,) = rng.choices(list(FAULTS), list(FAULTS.values()))
                allowed = apply(fault, plant, rng)
                outcome = plant.outcome(ends=fault in ENDS)
                found[fault, outcome] += 1
                said = plant.said()
                codes = [f"exit {code}" for code in allowed]
                assert outcome in ("publishes", *codes), f"{fault}: {outcome}\n{said}"
                if outcome != "publishes":
                    plant.recover()
                if (number + 1) % 1000 == 0:
                    report(f"{number + 1} faults, {time.monotonic() - began:.0f} s")
        finally:
            plant.close()
        assert plant.arrived == sorted(set(plant.arrived)), "an index came twice"
        assert len(plant.ledger.history) == 1, "not charged, or twice"
    for (fault, outcome), count in sorted(found.items()):
        report(f"{fault}: {count} times {outcome}")
    report(
        f"{faults} faults, {len(plant.arrived)} of {plant.sent} readings published, "
        f"{time.monotonic() - began:.0f} s"
    )
    return found


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--faults", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=time.time_ns())
    given = parser.parse_args()
    run(given.faults, given.seed)
