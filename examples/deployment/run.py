"""
A deployment that runs
======================

Plant, gateway and cloud in three processes of this machine, over sockets that only their
owner may open. The gateway is killed in mid-run, and a standby continues with its file. At
the end stand the ledger and what was published.

    python run.py                 # 10 s of plant time, in real time
    python run.py --speed 4       # faster
    python run.py --plot run.png  # with a figure
    python run.py --live          # with a page that shows the run while it goes on
"""

import argparse
import os
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path

import numpy as np
from live import LivePage

import privcontrol as pc

HERE = Path(__file__).parent
STEP = 0.1


def designed(folder, samples):
    """Design the noise, save it, and open the ledger: done once, before anything runs."""
    noise = pc.design_output_noise(
        pc.plants.vehicle(),
        horizon=samples,
        budget=pc.PrivacyBudget(epsilon=1.0, delta=1e-2),
        adjacency=pc.StateAdjacency({"position": 1.0}),
        floor=0.1,
        resolution=0.001,
    )
    noise.save(folder / "noise.json")
    budget = pc.PrivacyBudget(epsilon=1.5, delta=1e-2)
    pc.PrivacyLedger(budget, folder / "ledger.sqlite")


def started(script, *arguments):
    environment = dict(os.environ, OMP_NUM_THREADS="1")
    command = [sys.executable, str(HERE / script), *map(str, arguments)]
    return subprocess.Popen(command, env=environment, stdin=subprocess.PIPE, text=True)


def table(path):
    return np.loadtxt(path, ndmin=2)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=10.0, help="of plant time")
    parser.add_argument("--speed", type=float, default=1.0, help="plant time per time")
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
        cloud = started("cloud.py", folder, samples, period)
        gateway = started("gateway.py", folder)
        plant = started("plant.py", folder, samples, period)
        standby = started("gateway.py", folder, "standby")
        try:
            kill_in_mid_run(folder, gateway, samples)
            gateway.wait()
            gateway, standby = standby, gateway
            print("go", file=gateway.stdin, flush=True)
            for process in (plant, cloud):
                process.wait(timeout=60 + 3 * samples * period)
            gateway.terminate()
            gateway.wait(timeout=30)
        finally:
            for process in (plant, gateway, standby, cloud):
                if process.poll() is None:
                    process.kill()
                    process.wait()
        report(folder, samples)
        if options.plot:
            plot(folder, options.plot)


def kill_in_mid_run(folder, gateway, samples):
    """Kill the gateway when the cloud has seen a third of the run."""
    log = folder / "cloud.csv"
    while not log.exists() or len(log.read_text().splitlines()) < samples // 3:
        if gateway.poll() is not None:
            sys.exit("the gateway ended before its time")
        time.sleep(0.01)
    gateway.send_signal(signal.SIGKILL)
    print(f"gateway killed when {samples // 3} samples were published")


def report(folder, samples):
    """What was published, what was lost, and what it cost."""
    cloud, truth = table(folder / "cloud.csv"), table(folder / "plant.csv")
    seen = np.isfinite(cloud[:, 1])
    print(f"published {seen.sum()} of {samples} samples; the others were lost")
    print(f"vehicle {abs(truth[-1, 1]):.2f} m from its goal, from 20 m at the start")
    ledger = pc.PrivacyLedger.open(folder / "ledger.sqlite")
    print(f"charged {len(ledger.history)} time: {ledger}")
    with pc.Gateway.resume(folder / "gateway.sqlite", ledger=ledger) as gateway:
        print(f"samples that may still be published: {gateway.remaining}")
        print(gateway.guarantee)


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
