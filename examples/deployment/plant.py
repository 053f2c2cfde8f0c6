"""The plant: a vehicle whose sensor counts millimetres. It sends readings to the gateway
alone, and drives with whatever the cloud sends.

    python plant.py FOLDER SAMPLES PERIOD
"""

import asyncio
import sys
from pathlib import Path

import numpy as np
from common import connected, lines, send, served

import privcontrol as pc

MILLIMETRE = 0.001


async def main(folder, samples, period):
    vehicle = pc.load(folder / "noise.json").plant
    state = np.array([-20.0, 0.0])
    control = np.zeros(1)
    rng = np.random.default_rng(1)

    async def controls(reader, writer):
        nonlocal control
        async for message in lines(reader):
            control = np.array(message["u"])

    readings = folder / "readings.sock"
    server = await served(folder / "controls.sock", controls)
    link = asyncio.create_task(connected(readings))
    await link
    clock = asyncio.get_running_loop().time
    start = clock()
    with open(folder / "plant.csv", "w", encoding="ascii") as log:
        for t in range(samples):
            count = round((vehicle.C @ state).item() / MILLIMETRE)
            if link.done() and link.result().is_closing():  # the gateway was killed
                link = asyncio.create_task(connected(readings))
            await send(link.result() if link.done() else None, t=t, counts=[count])
            print(t, state[0], count * MILLIMETRE, control[0], file=log, flush=True)
            await asyncio.sleep(max(start + (t + 1) * period - clock(), 0.0))
            gust = 0.005 * rng.standard_normal(2)
            state = vehicle.A @ state + vehicle.B @ control + gust
    server.close()


if __name__ == "__main__":
    folder, samples, period = sys.argv[1:]
    asyncio.run(main(Path(folder), int(samples), float(period)))
