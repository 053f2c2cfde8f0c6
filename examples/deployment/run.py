"""
A deployment that runs
======================

Plant, gateway and cloud in three processes of this machine. The gateway is the command
``privcontrol publish``. They talk over a broker on loopback, Debian's mosquitto, with a
password for each; where it is missing, over pipes. The gateway is killed in mid-run and
started again, as a supervisor does. At the end stand the ledger and what was published.

    python run.py                 # 20 s of plant time, in real time
    python run.py --pipes         # without a broker
    python run.py --plot run.png  # with a figure
    python run.py --live          # with a page that shows the run while it goes on
"""

import argparse
import signal
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path

import numpy as np
from design import STEP, designed
from live import LivePage
from wires import MOSQUITTO, Broker, Pipes

import privcontrol as pc

HERE = Path(__file__).parent


class Deployment:
    """The three processes of a run. What the gateway says is kept, and printed at the end."""

    def __init__(self, folder, wires, samples, period):
        self._folder = folder
        self._log = folder / "gateway.log"
        self._wires = wires
        self._arguments = [str(folder), str(samples), str(period)]
        self._running = {}

    def __enter__(self):
        self._start("cloud", "cloud.py", "published", "controls")
        self.start_gateway()
        state = self._folder / "gateway.sqlite"
        wait_until(state.exists, self._running["gateway"])
        self._start("sensor", "plant.py", "controls", "readings")
        return self

    def __exit__(self, *error):
        for process in self._running.values():
            process.kill()
            process.wait()
        print(self._log.read_text(), end="", file=sys.stderr)

    def _start(self, user, script, hears, says):
        command = [sys.executable, str(HERE / script), *self._arguments]
        self._running[user] = self._wires.start(user, command, hears, says)

    def start_gateway(self):
        folder = self._folder
        command = [sys.executable, "-m", "privcontrol.deploy", "publish"]
        command += [f"{folder}/loop.json", "--state", f"{folder}/gateway.sqlite"]
        command += ["--ledger", f"{folder}/ledger.sqlite", "--most-lost", "300"]
        command += ["--resolution", "0.001", "--grid", "0.001"]
        with self._log.open("a") as log:
            self._running["gateway"] = self._wires.start(
                "gateway", command, "readings", "published", stderr=log
            )

    def kill_in_mid_run(self, count):
        """Kill the gateway when the cloud has taken so many samples, and start it again."""
        log = self._folder / "cloud.csv"
        gateway = self._running["gateway"]
        wait_until(
            lambda: log.exists() and len(log.read_text().splitlines()) >= count, gateway
        )
        if hasattr(signal, "SIGUSR1"):
            gateway.send_signal(signal.SIGUSR1)  # it logs its health
            time.sleep(0.2)
        gateway.kill()
        gateway.wait()
        print(f"gateway killed at sample {count}", flush=True)
        self.start_gateway()

    def finish(self, patience):
        """Wait for the end of the run, and end the gateway as a supervisor does."""
        for user in ("sensor", "cloud"):
            if self._running[user].wait(timeout=patience):
                sys.exit(f"{user}: the process failed")
        gateway = self._running["gateway"]
        # on a busy machine it may still be starting
        wait_until(lambda: "resumed at sample" in self._log.read_text(), gateway)
        gateway.terminate()
        gateway.wait(timeout=30)


def wait_until(happened, process, patience=120.0):
    deadline = time.monotonic() + patience
    while not happened():
        if process.poll() is not None or time.monotonic() > deadline:
            sys.exit("the gateway ended before its time, or does not begin")
        time.sleep(0.01)


def table(path):
    return np.loadtxt(path, ndmin=2)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=20.0, help="of plant time")
    parser.add_argument("--speed", type=float, default=1.0, help="plant time per time")
    parser.add_argument("--pipes", action="store_true", help="use no broker")
    parser.add_argument("--plot", metavar="FILE", help="write a figure")
    parser.add_argument(
        "--live",
        metavar="PORT",
        type=int,
        nargs="?",
        const=0,
        help="serve a page on this machine; a free port by default",
    )
    options = parser.parse_args()
    samples = round(options.seconds / STEP)
    period = STEP / options.speed
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        designed(folder, samples)
        if options.live is not None:
            page = stack.enter_context(LivePage(folder, samples, STEP, options.live))
            print(f"live page: {page.address}", flush=True)
        wires = stack.enter_context(chosen(options, folder))
        with Deployment(folder, wires, samples, period) as deployment:
            deployment.kill_in_mid_run(samples // 3)
            deployment.finish(60 + 3 * samples * period)
        report(folder, samples)
        if options.plot:
            plot(folder, options.plot)


def chosen(options, folder):
    """Return the broker, or the pipes that take its place."""
    if MOSQUITTO is None or options.pipes:
        if MOSQUITTO is None:
            print("this machine has no mosquitto: apt install mosquitto")
        print("pipes carry the run")
        return Pipes()
    print("mosquitto on loopback carries the run")
    return Broker(folder)


def report(folder, samples):
    """What was published, what was lost, and what it cost."""
    cloud, truth = table(folder / "cloud.csv"), table(folder / "plant.csv")
    seen = np.isfinite(cloud[:, 1])
    print(f"the cloud saw {seen.sum()} of {samples} samples; the others were lost")
    print(f"vehicle {abs(truth[-1, 1]):.2f} m from its goal, from 20 m at the start")
    ledger = pc.PrivacyLedger.open(folder / "ledger.sqlite")
    print(f"charged {len(ledger.history)} time: {ledger}")
    with pc.Gateway.resume(folder / "gateway.sqlite", ledger=ledger) as gateway:
        print(f"samples that may still be published: {gateway.remaining}")
        print(gateway.guarantee.explain())


def plot(folder, path):
    """Positions over time: the truth, what was published, and the cloud's estimate."""
    import matplotlib.pyplot as plt

    cloud, truth = table(folder / "cloud.csv"), table(folder / "plant.csv")
    ax = plt.subplots(figsize=(6.4, 3.6), layout="constrained")[1]
    ax.plot(STEP * truth[:, 0], truth[:, 1], "k", label="plant (secret)")
    ax.plot(STEP * cloud[:, 0], cloud[:, 1], ".", label="published")
    ax.plot(STEP * cloud[:, 0], cloud[:, 2], label="cloud's estimate")
    ax.set(xlabel="Time [s]", ylabel="Position [m]")
    ax.legend()
    ax.figure.savefig(path)


if __name__ == "__main__":
    main()
