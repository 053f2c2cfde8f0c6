"""The plant: a vehicle whose sensor counts millimetres. It sends readings to the gateway
alone, and drives with what the cloud sends.

    python plant.py FOLDER SAMPLES PERIOD --source CONTROLS --sink READINGS
"""

import time
from contextlib import ExitStack

import numpy as np
from common import listen, opened, parsed

import privcontrol as pc


def main(options, stack):
    vehicle = pc.load(options.folder / "loop.json").plant
    state = np.array([-20.0, 0.0])
    control = np.zeros(1)
    rng = np.random.default_rng(1)

    def drive(message):
        control[0] = message["u"]

    listen(options.source, drive, stack)
    send = opened(options.sink, stack)
    log = stack.enter_context(open(options.folder / "plant.csv", "w", encoding="ascii"))
    start = time.monotonic()
    for t in range(options.samples):
        position = round((vehicle.C @ state).item(), 3)
        send({"index": t, "y": position})
        print(t, state[0], position, control[0], file=log, flush=True)
        time.sleep(max(start + (t + 1) * options.period - time.monotonic(), 0.0))
        gust = 0.005 * rng.standard_normal(2)
        state = vehicle.A @ state + vehicle.B @ control + gust


if __name__ == "__main__":
    with ExitStack() as stack:
        main(parsed(__doc__), stack)
