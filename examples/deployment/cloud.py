"""The cloud: the controller of the design file, which sees published outputs alone.

python cloud.py FOLDER SAMPLES PERIOD --source PUBLISHED --sink CONTROLS
"""

import math
import time
from contextlib import ExitStack

import numpy as np
from common import listen, opened, parsed
from design import ROOMS

import privcontrol as pc

NAMES = [f"T {room}" for room in ROOMS]  # of the readings


class Published:
    """What has arrived, by its index, and the latest time at which the run can have begun."""

    def __init__(self, period):
        self.values = {}
        self._period = period
        self._start = math.inf

    def take(self, message):
        index = message["index"]
        self._start = min(self._start, time.monotonic() - index * self._period)
        self.values[index] = [message[name] for name in NAMES]

    def wait(self, index):
        """Return the value of a sample, or None if half a period passes without it."""
        while time.monotonic() < self._start + (index + 0.5) * self._period:
            if index in self.values:
                break
            time.sleep(0.02 * self._period)
        return self.values.get(index)


def main(options, stack):
    controller = pc.load(options.folder / "loop.json").online()
    published = Published(options.period)
    listen(options.source, published.take, stack)
    send = opened(options.sink, stack)
    log = stack.enter_context(open(options.folder / "cloud.csv", "w", encoding="ascii"))
    for t in range(options.samples):
        seen = published.wait(t)
        control = controller.step(seen)  # None was lost, and the model runs alone
        send({"index": t, "u": control.tolist()})
        values = [np.nan] * len(ROOMS) if seen is None else seen
        estimates = controller.estimate[::2]  # of the rooms' air
        print(t, *values, *estimates, *control, file=log, flush=True)


if __name__ == "__main__":
    with ExitStack() as stack:
        main(parsed(__doc__), stack)
