"""What the three processes share: lines of JSON over sockets that only their owner opens.

Whoever may write readings to the gateway and sees what it publishes has the noise of the
whole run: the difference. So the sockets are files of mode 0600 in the run's folder.
"""

import asyncio
import json
import os

#: How long a message may wait for the other side, in seconds.
PATIENCE = 1.0


async def lines(reader):
    """Messages that arrive, until the other side is gone or sends something else."""
    try:
        while line := await reader.readline():
            yield json.loads(line)
    except (asyncio.CancelledError, ConnectionError, ValueError):
        return  # the run is over, the other side was killed, or a line is no message


async def served(path, answer):
    """A server at a socket that only its owner may connect to."""
    path.unlink(missing_ok=True)  # of a process that was killed
    mask = os.umask(0o177)
    try:
        return await asyncio.start_unix_server(answer, path)
    finally:
        os.umask(mask)


async def send(writer, **message):
    """Send a message; what cannot be sent is lost, as on any network."""
    if writer is None or writer.is_closing():
        return
    writer.write(json.dumps(message).encode() + b"\n")
    try:
        await asyncio.wait_for(writer.drain(), PATIENCE)
    except (ConnectionError, TimeoutError):
        writer.close()


async def connected(path):
    """The writer of a connection, as soon as the other side listens."""
    while True:
        try:
            return (await asyncio.open_unix_connection(path))[1]
        except OSError:
            await asyncio.sleep(0.02)
