"""
A deployment that runs
======================

Two rooms, the gateway and the cloud that heats them, in three processes of this machine.
The gateway is the command ``privcontrol publish``. They talk over a broker on loopback,
Debian's mosquitto, with a password for each; where it is missing, over pipes. Somebody
enters a room, the gateway is killed in mid-run and started again, as a supervisor does.
At the end stand the ledger and what was published. A second is 1.25 h of plant time.

    python run.py                 # 20 seconds
    python run.py --pipes         # without a broker
    python run.py --plot run.png  # with a figure
    python run.py --live --seconds 120  # with a page to watch it, and to act on it
"""

import argparse
import signal
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path

import numpy as np
from design import ROOMS, designed
from live import LivePage
from wires import MOSQUITTO, Broker, Pipes

import privcontrol as pc

HERE = Path(__file__).parent
PERIOD = 0.2  # seconds from a sample to the next one


class Deployment:
    """The three processes of a run. What the gateway says is kept, and printed at the end."""

    def __init__(self, folder, wires, samples, period, page):
        self._page = page
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
        command += ["--grid", "0.001"]
        with self._log.open("a") as log:
            self._running["gateway"] = self._wires.start(
                "gateway", command, "readings", "published", stderr=log
            )

    def until(self, count):
        """Wait until the cloud has taken so many samples."""
        log = self._folder / "cloud.csv"
        wait_until(
            lambda: log.exists() and len(log.read_text().splitlines()) >= count,
            self._running["gateway"],
        )

    def kill_gateway(self):
        """Kill the gateway, and start it again."""
        gateway = self._running["gateway"]
        if hasattr(signal, "SIGUSR1"):
            # it logs its health after the reading at hand, some readings before its end
            gateway.send_signal(signal.SIGUSR1)
            time.sleep(0.8)
        gateway.kill()
        gateway.wait()
        self._page.killed()
        print("gateway killed, and started again", flush=True)
        self.start_gateway()

    def finish(self, patience):
        """Wait for the end of the run, and end the gateway as a supervisor does."""
        deadline = time.monotonic() + patience
        while self._running["sensor"].poll() is None:
            if time.monotonic() > deadline:
                sys.exit("the run does not end")
            if self._page.kill.is_set():
                self._page.kill.clear()
                self.kill_gateway()
            time.sleep(0.02)
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
    parser.add_argument("--seconds", type=float, default=20.0, help="that it lasts")
    parser.add_argument("--speed", type=float, default=1.0, help="samples per 0.2 s")
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
    samples = round(options.seconds * options.speed / PERIOD)
    period = PERIOD / options.speed
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        designed(folder)
        page = LivePage(folder, samples, options.live or 0)
        stack.callback(page.close)
        if options.live is not None:
            stack.enter_context(page)
            print(f"live page: {page.address}", flush=True)
        wires = stack.enter_context(chosen(options, folder))
        with Deployment(folder, wires, samples, period, page) as deployment:
            deployment.until(samples // 6)
            page.enter("east")
            deployment.until(samples // 3)
            deployment.kill_gateway()
            deployment.finish(60 + 3 * samples * period)
        report(folder, samples)
        if options.plot:
            plot(page.signals(), options.plot)


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
    kept = truth[:, 1:3].std(axis=0)
    print(f"rooms kept within {kept.max():.2f} K of their set point, visit included")
    ledger = pc.PrivacyLedger.open(folder / "ledger.sqlite")
    print(f"charged {len(ledger.history)} time: {ledger}")
    with pc.Gateway.resume(folder / "gateway.sqlite", ledger=ledger) as gateway:
        print(f"samples that may still be published: {gateway.remaining}")
        print(gateway.guarantee.explain())


def plot(run, path):
    """Temperatures and a detector's scores, before and behind the gate."""
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(
        3, 2, figsize=(8, 6), sharex=True, sharey="row", layout="constrained"
    )
    for room, (inside, outside, test) in zip(ROOMS, axes.T, strict=True):
        curves = run["rooms"][room]
        inside.plot(*np.transpose(curves["truth"]), "k", label="true")
        outside.plot(
            *np.transpose(curves["published"]), ".", color="#D55E00", label="published"
        )
        outside.plot(
            *np.transpose(curves["estimate"]), color="#0072B2", label="cloud's estimate"
        )
        scores = curves["scores"]
        test.plot(*np.transpose(scores["true"]), "k", label="true readings")
        test.plot(
            *np.transpose(scores["published"]), color="#D55E00", label="published ones"
        )
        test.axhline(run["alarm"], color="0.5", ls=":", label="5 % false alarms")
        hours, present = np.transpose(curves["present"])
        for ax in (inside, outside, test):
            shown = ax.get_xaxis_transform()
            ax.fill_between(hours, 0, present, color="0.85", lw=0, transform=shown)
            for hour in run["kills"]:
                ax.axvline(hour, color="0.5", ls="--", lw=1)
        inside.set_title(f"Room {room}")
        test.set_xlabel("Time [h]")
    for ax, label in zip(
        axes[:, 0], ("Inside [K]", "Outside [K]", "Score"), strict=True
    ):
        ax.set_ylabel(label)
    for ax in axes[:, 1]:
        ax.legend(fontsize="x-small", loc="upper right")
    figure.savefig(path, dpi=150)


if __name__ == "__main__":
    main()
