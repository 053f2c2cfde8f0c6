"""What the three processes share: lines of JSON over sockets of this machine."""

import asyncio
import json

HOST = "127.0.0.1"


async def lines(reader):
    """Messages that arrive, until the other side is gone."""
    try:
        while line := await reader.readline():
            yield json.loads(line)
    except (asyncio.CancelledError, ConnectionError):
        return  # the run is over, or the other side was killed


def send(writer, **message):
    """Send a message; what cannot be sent is lost, as on any network."""
    if writer is not None and not writer.is_closing():
        writer.write(json.dumps(message).encode() + b"\n")


async def connected(port):
    """The writer of a connection, as soon as the other side listens."""
    while True:
        try:
            return (await asyncio.open_connection(HOST, port))[1]
        except OSError:
            await asyncio.sleep(0.02)
