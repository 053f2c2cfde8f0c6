"""The plant: a vehicle whose sensor counts millimetres. It sends readings to the gateway
alone, and drives with whatever the cloud sends.

    python plant.py FOLDER READINGS_PORT CONTROLS_PORT SAMPLES PERIOD
"""

import asyncio
import sys
from pathlib import Path

import numpy as np
from common import HOST, connected, lines, send

import privcontrol as pc

MILLIMETRE = 0.001


async def main(folder, readings_port, controls_port, samples, period):
    vehicle = pc.load(folder / "noise.json").plant
    state = np.array([-20.0, 0.0])
    control = np.zeros(1)
    rng = np.random.default_rng(1)

    async def controls(reader, writer):
        nonlocal control
        async for message in lines(reader):
            control = np.array(message["u"])

    server = await asyncio.start_server(controls, HOST, controls_port)
    link = asyncio.create_task(connected(readings_port))
    await link
    clock = asyncio.get_running_loop().time
    start = clock()
    with open(folder / "plant.csv", "w", encoding="ascii") as log:
        for t in range(samples):
            count = round((vehicle.C @ state).item() / MILLIMETRE)
            if link.done() and link.result().is_closing():  # the gateway was killed
                link = asyncio.create_task(connected(readings_port))
            send(link.result() if link.done() else None, t=t, counts=[count])
            print(t, state[0], count * MILLIMETRE, control[0], file=log, flush=True)
            await asyncio.sleep(max(start + (t + 1) * period - clock(), 0.0))
            gust = 0.005 * rng.standard_normal(2)
            state = vehicle.A @ state + vehicle.B @ control + gust
    server.close()


if __name__ == "__main__":
    folder, readings, controls, samples, period = sys.argv[1:]
    asyncio.run(
        main(Path(folder), int(readings), int(controls), int(samples), float(period))
    )
