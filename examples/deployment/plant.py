"""The plant: two rooms with a thermometer each. It sends readings to the gateway alone,
and heats as the cloud says.

    python plant.py FOLDER SAMPLES PERIOD --source CONTROLS --sink READINGS

Visitors come when ``FOLDER/visits`` has a new line, the name of a room.
"""

import time
from contextlib import ExitStack

import numpy as np
from common import listen, opened, parsed
from design import DRAUGHT, ROOMS, SENSOR, STAY

import privcontrol as pc


class Visits:
    """How long the visitors of each room still stay, from the lines of a file."""

    def __init__(self, path):
        self._path = path
        self._read = 0
        self._left = np.zeros(len(ROOMS), int)

    def people(self):
        """Return how many people are in each room, at most one, in this sample."""
        rooms = (
            self._path.read_text("ascii").splitlines() if self._path.exists() else []
        )
        for name in rooms[self._read :]:
            self._left[ROOMS.index(name)] = STAY
        self._read = len(rooms)
        here = self._left > 0
        self._left[here] -= 1
        return here.astype(float)


def main(options, stack):
    rooms = pc.load(options.folder / "loop.json").plant
    state, heat = np.zeros(4), np.zeros(2)
    rng = np.random.default_rng(1)
    visits = Visits(options.folder / "visits")

    def drive(message):
        heat[:] = message["u"]

    listen(options.source, drive, stack)
    send = opened(options.sink, stack)
    log = stack.enter_context(open(options.folder / "plant.csv", "w", encoding="ascii"))
    start = time.monotonic()
    for t in range(options.samples):
        readings = rooms.C @ state + SENSOR * rng.standard_normal(2)
        people = visits.people()
        send(
            {"index": t}
            | dict(zip(rooms.output_labels, readings.tolist(), strict=True))
        )
        time.sleep(max(start + (t + 1) * options.period - time.monotonic(), 0.0))
        used = heat.copy()
        print(t, *rooms.C @ state, *readings, *people, *used, file=log, flush=True)
        state = rooms.A @ state + rooms.B[:, ::2] @ used + rooms.B[:, 1::2] @ people
        state += DRAUGHT * rng.standard_normal(4)


if __name__ == "__main__":
    with ExitStack() as stack:
        main(parsed(__doc__), stack)
