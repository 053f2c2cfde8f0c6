"""The cloud: an observer and a state feedback that see published outputs alone.

python cloud.py FOLDER SAMPLES PERIOD
"""

import asyncio
import sys
from pathlib import Path

import control as ct
import numpy as np
from common import connected, lines, send, served

import privcontrol as pc


async def main(folder, samples, period):
    noise = pc.load(folder / "noise.json")
    vehicle = noise.plant
    A, B, C = vehicle.A, vehicle.B, vehicle.C
    K = ct.dlqr(A, B, np.diag([2.0, 1.0]), np.eye(1))[0]
    L = ct.dlqe(A, np.eye(2), C, 1e-4 * np.eye(2), noise.scale**2 * np.eye(1))[0]
    published = {}

    async def outputs(reader, writer):
        async for message in lines(reader):
            published[message["t"]] = np.array(message["y"])

    server = await served(folder / "published.sock", outputs)
    plant = await connected(folder / "controls.sock")
    while not published:
        await asyncio.sleep(0.001)
    clock = asyncio.get_running_loop().time
    start = clock() + 0.5 * period
    first = min(published)
    estimate = np.linalg.pinv(C) @ published[first]  # from what was published
    with open(folder / "cloud.csv", "w", encoding="ascii") as log:
        for t in range(first, samples):
            seen = published.get(t)
            if seen is not None:  # else it was lost, and the model runs alone
                estimate = estimate + L @ (seen - C @ estimate)
            control = -K @ estimate
            await send(plant, t=t, u=control.tolist())
            value = np.nan if seen is None else seen[0]
            print(t, value, estimate[0], control[0], file=log, flush=True)
            estimate = A @ estimate + B @ control
            await asyncio.sleep(max(start + (t + 1) * period - clock(), 0.0))
    server.close()


if __name__ == "__main__":
    folder, samples, period = sys.argv[1:]
    asyncio.run(main(Path(folder), int(samples), float(period)))
