"""The gateway: the only process that sees readings and noise. It runs beside the plant.

Started again after a crash, it takes up its file, and goes on behind the last sample that
it may have published. SIGTERM ends it.

    python gateway.py FOLDER READINGS_PORT PUBLISHED_PORT [standby]

A standby waits for a line on its standard input before it touches the file.
"""

import asyncio
import logging
import signal
import sys
from pathlib import Path

from common import HOST, connected, lines, send

import privcontrol as pc
from privcontrol import Gateway, PrivacyLedger  # loaded now, not when they are needed


def taken_up(folder):
    """The gateway of the folder, new or resumed."""
    ledger = PrivacyLedger.open(folder / "ledger.sqlite")
    path = folder / "gateway.sqlite"
    if path.exists():
        return Gateway.resume(path, ledger=ledger)
    noise = pc.load(folder / "noise.json")  # certified anew
    return Gateway(
        noise,
        path=path,
        ledger=ledger,
        grid="0.001",
        resolution="0.001",
        note="vehicle 7, one run",
    )


async def main(folder, readings_port, published_port):
    gateway = taken_up(folder)
    cloud = await connected(published_port)
    finished = asyncio.Event()

    async def readings(reader, writer):
        async for message in lines(reader):
            t = message["t"]
            if t < gateway.next_index:
                continue  # it may have been published before the crash
            published = gateway.publish(message["counts"], index=t)
            send(cloud, t=t, y=published.tolist())
            if gateway.remaining == 0:
                finished.set()
                return

    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, finished.set)
    server = await asyncio.start_server(readings, HOST, readings_port)
    await finished.wait()
    server.close()
    gateway.close()


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    if sys.argv[4:] == ["standby"] and not sys.stdin.readline():
        sys.exit()
    asyncio.run(main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])))
