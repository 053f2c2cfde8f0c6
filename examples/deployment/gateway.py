"""The gateway: the only process that sees readings and noise. It runs beside the plant.

Started again after a crash, it takes up its file, and goes on behind the last sample that
it may have published. SIGTERM ends it.

    python gateway.py FOLDER [standby]

A standby waits for a line on its standard input before it touches the file.
"""

import asyncio
import logging
import signal
import sys
from pathlib import Path

from common import connected, lines, send, served

import privcontrol as pc
from privcontrol import Gateway, PrivacyLedger  # loaded now, not when they are needed

#: Most samples that may be lost at once. A reading further ahead is not believed.
MOST_LOST = 300


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


async def main(folder):
    gateway = taken_up(folder)
    cloud = await connected(folder / "published.sock")
    finished = asyncio.Event()
    one_at_a_time = asyncio.Lock()

    async def readings(reader, writer):
        if one_at_a_time.locked():
            writer.close()  # there is one plant
            return
        async with one_at_a_time:
            async for message in lines(reader):
                await answer(message)
                if gateway.remaining == 0:
                    finished.set()
                    return

    async def answer(message):
        try:
            t = message["t"]
            if t < gateway.next_index:
                return  # it may have been published before the crash
            if t > gateway.next_index + MOST_LOST:
                raise ValueError("it is too far ahead")
            published = gateway.publish(message["counts"], index=t)
        except (LookupError, TypeError, ValueError) as error:
            # the content of a message is private
            logging.warning("a message was refused: %s", type(error).__name__)
            return
        await send(cloud, t=t, y=published.tolist())

    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, finished.set)
    server = await served(folder / "readings.sock", readings)
    await finished.wait()
    server.close()
    gateway.close()


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    if sys.argv[2:] == ["standby"] and not sys.stdin.readline():
        sys.exit()
    asyncio.run(main(Path(sys.argv[1])))
