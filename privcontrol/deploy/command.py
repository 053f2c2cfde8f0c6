"""Show and check design files, and publish readings through a gateway.

    privcontrol show noise.json
    privcontrol check noise.json
    privcontrol export noise.json --c
    privcontrol begin noise.json --state gateway.sqlite --resolution 0.001
    privcontrol publish noise.json --state gateway.sqlite --resolution 0.001

A source yields readings: texts (a JSON object, or a CSV row after a header), or
mappings of output names to numbers. A sink is a function that takes a mapping with the
index and what is published. Nothing here prints a reading.

Topics of an MQTT broker are read with quality of service 0: a reading that comes late is
of no use, and one that comes twice is refused. What is published is acknowledged by the
broker (quality of service 1), so one that refuses it is noticed; what it misses is a gap,
and is never sent again. Who connects is said by the environment, so neither the list of processes
nor a shell's history shows it: PRIVCONTROL_MQTT_USER, PRIVCONTROL_MQTT_PASSWORD or
PRIVCONTROL_MQTT_PASSWORD_FILE, and for mqtts:// PRIVCONTROL_MQTT_CA (the system's
authorities by default), PRIVCONTROL_MQTT_CERT and PRIVCONTROL_MQTT_KEY.
"""

from __future__ import annotations

import argparse
import csv
import json
import logging
import math
import os
import queue
import select
import signal
import stat
import sys
import threading
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from enum import IntEnum
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self
from urllib.parse import urlsplit

from ..numerics.arguments import helpful_arguments, helpful_fields
from ..numerics.checks import instance_of, positive_integer, real_array, sequence_of
from ..numerics.progress import BETWEEN_LOOKS
from ..privacy.release import step_size
from .publisher import Publisher, digest_of_file, taken_up

if TYPE_CHECKING:
    from paho.mqtt.client import Client, MQTTMessage
    from paho.mqtt.enums import MQTTProtocolVersion
    from paho.mqtt.reasoncodes import ReasonCode

    from ..privacy.ledger import PrivacyLedger

Reading = str | bytes | Mapping[str, Any]


class _Together(list[Reading]):
    """Readings that came together, so none of them waits for the next one."""


class _CutOff(bytes):
    """What a pipe ended with behind its last line feed."""


Sink = Callable[[dict[str, float]], object]

_LOG = logging.getLogger("privcontrol")


class _Exit(IntEnum):
    """Exit codes that a supervisor reads."""

    DONE = 0
    REFUSED = 1  # starting again does not help
    TRY_AGAIN = 75  # EX_TEMPFAIL of sysexits.h


#: Errors that a supervisor cannot repair by starting again.
_LASTING = (FileNotFoundError, IsADirectoryError, NotADirectoryError, PermissionError)
_BYTE_ORDER_MARK = "\ufeff"
#: Longest reading, in characters.
_LONGEST = 1 << 16

#: How a place begins that is a topic of a broker.
_TOPICS = ("mqtt://", "mqtts://")
_ENVIRONMENT = "PRIVCONTROL_MQTT_"
#: Seconds that a broker has for a connection and its first answer.
_PATIENCE = 6.0
#: Seconds between two attempts to connect again.
_PAUSE = 1.0
#: Connections in a row that a broker may end before anything passed over them.
_MOST_ENDED = 4
#: Seconds after which a silent connection is tested.
_KEEPALIVE = 10
#: Why a broker refuses to serve for now.
_PASSING = (
    "Server unavailable",
    "Server busy",
    "Connection rate exceeded",
    "Quota exceeded",
    "Use another server",
)
#: Most readings that wait. Those that come then are lost.
_MOST_WAITING = 1000
#: Speed: most messages that are written together, and a buffer that holds them.
_MOST_HELD, _ROOM = 64, 1 << 20
#: How files end that hold lines of JSON whatever is read.
_JSON = (".json", ".jsonl")
_LOOPBACK = ("localhost", "127.0.0.1", "::1")


class _Refused(Exception):
    """A reading is not published. The message holds nothing of it."""


class _Passed(_Refused):
    """A reading came late, or again."""


@helpful_fields("Gateway(noise) and load make what it passes readings through")
class Relay:
    """Pass readings through a gateway, one published value for each that is accepted.

    A reading whose sample was passed, or that cannot be read, is refused: it is
    counted, and logged by its number without its content. A sample is never published
    twice.

    `stop` and `ask` are for handlers of signals. They set a flag, which `run` looks at
    before each reading. So a source that waits for long yields None now and then, like
    the command's.

    Parameters
    ----------
    gateway : Gateway
        Or a `Publisher`, which has no promise and no ledger.
    ledger : PrivacyLedger, optional
        For `health`.
    epoch : float, optional
        Time of sample 0, in the unit of the plant's dt. Readings may then carry a
        "time" in place of an "index", and belong to the nearest sample.
    most_lost : int, optional
        Refuse readings that are more samples ahead.

    Examples
    --------
    >>> import privcontrol as pc
    >>> from privcontrol.deploy import Relay
    >>> noise = pc.design_output_noise(pc.plants.vehicle(), horizon=100,
    ...     budget=pc.PrivacyBudget(epsilon=1.0, delta=1e-2),
    ...     adjacency=pc.StateAdjacency({"position": 1.0}))
    >>> published = []
    >>> with pc.Gateway(noise, grid=0.001) as gateway:
    ...     readings = [{"y": -20.0}, '{"y": -19.9, "index": 3}']
    ...     Relay(gateway).run(readings, published.append)
    >>> [message["index"] for message in published]
    [0, 3]
    """

    def __init__(
        self,
        gateway: Publisher,
        *,
        ledger: PrivacyLedger | None = None,
        epoch: float | None = None,
        most_lost: int | None = None,
    ) -> None:
        instance_of(gateway, Publisher, "gateway", "Gateway(noise, path=...)")
        if not hasattr(ledger, "remaining") and ledger is not None:
            raise TypeError(
                "ledger: expected a PrivacyLedger such as PrivacyLedger.open(path), got "
                f"{type(ledger).__name__}"
            )
        if epoch is not None:
            epoch = float(real_array(epoch, "epoch", shape=()))
        if most_lost is not None:
            positive_integer(most_lost, "most_lost", zero=True)
        self._gateway = gateway
        self._ledger = ledger
        self._epoch = epoch
        self._most_lost = math.inf if most_lost is None else most_lost
        self._outputs, self._step, self._horizon = gateway.signals
        self._places = _places(epoch)
        self._expected = set(self._outputs)
        clash = self._places.intersection(self._outputs)
        if clash:
            raise ValueError(
                f"outputs: expected other names than {', '.join(sorted(clash))}, which "
                "say where a reading belongs; rename the plant's outputs and design "
                "again"
            )
        self._header: list[str] = []
        self._number = 0  # of the reading
        self._published = 0
        self._refused = 0
        self._late = 0  # of those that were refused
        self._stopping = False
        self._asked = False

    @helpful_arguments
    def run(
        self,
        readings: Iterable[Reading | _Together | None],
        sink: Sink,
        *,
        most: int | None = None,
    ) -> None:
        """Publish until the readings or the horizon end, or `stop` is called.

        Parameters
        ----------
        readings : iterable
            None means no reading yet.
        sink : callable
        most : int, optional
            End when so many were published.
        """
        enough = sys.maxsize if most is None else self._published + most
        source = iter(readings)
        while self._gateway.remaining > 0 and self._published < enough:
            if self._asked:
                self._asked = False
                _LOG.info("%s", json.dumps(self.health()))
            if self._stopping:
                return
            try:
                reading = next(source)
            except StopIteration:
                return
            if reading is None:
                continue
            if not isinstance(reading, _Together):
                reading = _Together([reading])
            self._pass_on(reading, sink, enough - self._published)

    def stop(self, *signalled: object) -> None:
        """End after the reading at hand; a handler of signals."""
        self._stopping = True

    def ask(self, *signalled: object) -> None:
        """Log `health` after the reading at hand; a handler of signals."""
        self._asked = True

    def health(self) -> dict[str, Any]:
        """Return the next index, remaining samples and counts; nothing of a reading."""
        remaining = self._gateway.remaining
        return {
            "index": self._gateway.next_index,
            "remaining": None if remaining == math.inf else remaining,
            "ledger": None if self._ledger is None else self._ledger.remaining,
            "published": self._published,
            "refused": self._refused,
        }

    @property
    def _unread(self) -> int:
        """Readings that could not be used, where none could; 0 where one was of use."""
        return 0 if self._published or self._late else self._refused

    @property
    def reads_rows(self) -> bool:
        """Whether a header came, so that readings are rows of CSV."""
        return bool(self._header)

    def _pass_on(self, readings: Iterable[Reading], sink: Sink, most: int) -> None:
        """Publish readings in their order, until as many as asked for are accepted."""
        accepted: list[tuple[int, list[float]]] = []
        following = self._gateway.next_index
        for reading in readings:
            if self._stopping or following >= self._horizon or len(accepted) >= most:
                break
            self._number += 1
            try:
                found = self._read(reading, following)
            except _Refused as reason:
                most -= len(accepted)
                self._publish(accepted, sink)
                accepted = []
                self._refused += 1
                self._late += isinstance(reason, _Passed)
                _LOG.warning("line %d refused: %s", self._number, _plain(reason))
                continue
            if found is not None:
                accepted.append(found)
                following = found[0] + 1
        self._publish(accepted, sink)

    def _publish(self, accepted: list[tuple[int, list[float]]], sink: Sink) -> None:
        """Publish accepted readings, whose noise is drawn and kept before."""
        following = self._gateway.next_index
        published: list[list[float]] = []
        try:
            self._gateway._publish_each(accepted, published)
        finally:  # an error does not take away what was published before it
            for (index, _), values in zip(accepted, published, strict=False):
                if index > following:
                    _LOG.warning("samples %d to %d were lost", following, index - 1)
                following = index + 1
                self._published += 1
                sink({"index": index, **dict(zip(self._outputs, values, strict=True))})

    def _read(self, reading: Reading, following: int) -> tuple[int, list[float]] | None:
        """Return the sample of a reading and its values, or None where it has none.

        ``following`` is the next sample that can still be published. What cannot be
        used raises `_Refused`.
        """
        fields = self._fields(reading)
        if fields is None:
            return None
        if fields.keys() != self._expected:
            missing = self._expected - fields.keys()
            if missing or fields.keys() - self._places - self._expected:
                timed = "time" in fields and "time" not in self._places
                raise _Refused(
                    f"expected {', '.join(self._outputs)}, and the index if known"
                    + (
                        "; readings have a time where --epoch says that of sample 0"
                        * timed
                    )
                )
        values = [_number(fields[name]) for name in self._outputs]
        return self._index(fields, following), values

    def _index(self, fields: Mapping[str, Any], following: int) -> int:
        """Return the sample of a reading, if it can still be published."""
        if "index" in fields:
            sample = _number(fields["index"])
            if sample != int(sample):
                raise _Refused("expected a whole number as index")
        elif self._epoch is not None and "time" in fields:
            elapsed = _number(fields["time"]) - self._epoch
            sample = round(_number(elapsed / self._step))
        else:
            sample = following
        if sample < following:
            raise _Passed(f"its sample was passed, the next one is {following}")
        if sample >= self._horizon:
            raise _Refused("its sample is behind the horizon")
        longest = min(self._most_lost, self._gateway.longest_jump)
        if sample > following + longest:
            raise _Refused(f"its sample is more than {longest} ahead")
        return int(sample)

    def _fields(self, reading: Reading) -> Mapping[str, Any] | None:
        """Return a reading's numbers by name, or None for a blank line or a header."""
        if not isinstance(reading, bytes | str):
            return reading
        if len(reading) > _LONGEST:
            raise _Refused("it is too long")
        text = reading
        if isinstance(text, bytes):
            text = text.decode(errors="replace").removeprefix(_BYTE_ORDER_MARK)
        try:
            if not text.strip():
                return None
            if text.lstrip().startswith("{"):
                return dict(_ONE_READING.decode(text))
            if isinstance(reading, _CutOff):
                raise _Refused(
                    "expected a line feed behind a row, which may be cut off"
                )
            row = [field.strip() for field in next(csv.reader([text]))]
            known = {*self._outputs, *self._places}
            if not self._header and set(self._outputs) <= set(row):
                _once_each((name, None) for name in row if name in known)
                self._header = row
                return None
            named = zip(self._header, row, strict=True)
            # other columns are not needed
            return {name: _read_number(field) for name, field in named if name in known}
        except (ValueError, RecursionError, csv.Error):
            wanted = f"a header that names {', '.join(self._outputs)}, between commas"
            if self._header:
                needed = [*self._outputs, *sorted(self._places & set(self._header))]
                wanted = f"a row of the header with numbers for {', '.join(needed)}"
            raise _Refused(f"expected a JSON object, or {wanted}") from None


def _places(epoch: float | None) -> set[str]:
    """Return the names that say where a reading belongs."""
    return {"index"} if epoch is None else {"index", "time"}


def _once_each(fields: Iterable[tuple[str, Any]]) -> dict[str, Any]:
    """Return named values as a mapping. Nobody knows which of two alike is meant."""
    fields = list(fields)
    named = dict(fields)
    if len(named) < len(fields):
        raise _Refused("expected each name once")
    return named


#: Speed: made once, and not for each line.
_ONE_READING = json.JSONDecoder(object_pairs_hook=_once_each)


def _read_number(text: str) -> float:
    """Return the number of a text, exactly where it is an integer."""
    if "_" in text:  # what parts thousands in Python
        raise ValueError("expected a number")
    return int(text) if text.removeprefix("-").isdecimal() else float(text)


def _number(value: object) -> float:
    """Return a value as a finite number, an integer where no double is the same."""
    if type(value) is float and math.isfinite(value):
        return value
    if isinstance(value, int | float) and not isinstance(value, bool):
        with suppress(OverflowError):
            number = float(value)
            if math.isfinite(number):
                return number if number == value else value
    raise _Refused("expected finite numbers")


# -- sources and sinks ---------------------------------------------------------------


class Topic:
    """A topic of a broker: iterate over its messages, or send to it.

    A lost connection is made again, for as long as it takes. A broker that refuses the
    user, the topic or a message raises an error where the topic is used. Brokers of
    MQTT 5 refuse a message in words; older ones drop it.

    Parameters
    ----------
    address : str
        ``mqtt://host:port/topic``, or ``mqtts:`` with TLS. Without a user or password.
    longest : int, optional
        Of a longer message only the beginning is kept, one byte more than this.

    Raises
    ------
    ValueError
        If the address is no such thing.
    PermissionError
        If the broker refuses the user or the topic, on entering or later.
    OSError
        On entering, if the broker does not answer or cannot serve for now. Later, if it
        takes a connection and does not answer, or ends each one at once.
    """

    def __init__(self, address: str, *, longest: int = _LONGEST) -> None:
        instance_of(address, str, "address", "'mqtt://host/topic'")
        positive_integer(longest, "longest")
        parts = urlsplit(address)
        self._topic = parts.path.removeprefix("/")
        if parts.username is not None or parts.password is not None:
            raise ValueError(
                "address: expected no user and no password, which other users would "
                f"see; set {_ENVIRONMENT}USER and {_ENVIRONMENT}PASSWORD_FILE"
            )
        if not parts.hostname or not self._topic or set(self._topic) & set("+#"):
            raise ValueError("address: expected mqtt://host/topic without wildcards")
        self._secure = parts.scheme == "mqtts"
        if not self._secure and parts.hostname not in _LOOPBACK:
            _LOG.warning("mqtt:// is not encrypted; use mqtts://")
        self._host = parts.hostname
        self._port = parts.port or (8883 if self._secure else 1883)
        self._longest = longest
        self._reads = False
        self._sends = True
        try:
            from paho.mqtt.enums import MQTTProtocolVersion
        except ImportError as error:
            raise ValueError(
                f"{address}: MQTT needs paho-mqtt: pip install 'privcontrol[deploy]'"
            ) from error
        self._protocol = MQTTProtocolVersion.MQTTv5
        self._messages: queue.Queue[bytes] = queue.Queue(_MOST_WAITING)
        self._connection: _Connection | None = None
        self._ended = 0  # connections in a row over which nothing passed
        self._tried = -math.inf

    def __enter__(self) -> Self:
        self._connect()
        return self

    def __exit__(self, *error: object) -> None:
        connection = self._connection
        if connection is None:
            return
        try:
            if error[:1] in ((), (None,)):
                connection.wait_until_taken()
                connection.check()
        finally:
            connection.close()

    def __iter__(self) -> Iterator[bytes]:
        return (message for message in self.arriving() if message is not None)

    def arriving(self) -> Iterator[bytes | None]:
        """Yield messages as they come, and None before and while there are none."""
        self._reads = True
        if self._connection is not None:
            self._connection.subscribe()
        silent = time.monotonic()
        while True:
            if self._messages.empty():
                yield None
            try:
                message = self._messages.get(timeout=BETWEEN_LOOKS)
            except queue.Empty:
                self._keep_connected()
                if time.monotonic() - silent > _PATIENCE:
                    silent = math.inf  # said once
                    _LOG.warning(
                        "no reading came for %g s: look whether the sensor sends to "
                        "this topic, and whether the broker lets this user read it",
                        _PATIENCE,
                    )
                continue
            silent = time.monotonic()
            yield message

    def send(self, message: dict[str, float]) -> None:
        """Send a message, or log that it is lost."""
        connection = self._keep_connected()
        reaches = connection is not None and connection.send(json.dumps(message))
        if connection is not None:
            connection.check()
        if reaches != self._sends:
            self._sends = reaches
            said = (
                "reaches the broker again" if reaches else "does not reach the broker"
            )
            _LOG.warning("sample %d %s", message["index"], said)

    def _keep_connected(self) -> _Connection | None:
        """Return the connection, made again if it was lost, or None for now."""
        connection = self._connection
        if connection is not None:
            connection.check()
            if not connection.is_lost:
                return connection
            self._ended = 0 if connection.is_proved else self._ended + 1
            connection.close()
            self._connection = None
            if self._ended >= _MOST_ENDED:
                raise ConnectionError("the broker ends every connection at once")
        if time.monotonic() - self._tried < _PAUSE:
            return None
        try:
            self._connect()
        except (PermissionError, TimeoutError):
            raise
        except OSError:  # it is away
            return None
        return self._connection

    def _connect(self) -> None:
        """Make a connection. What another one did not deliver is not sent over it."""
        self._tried = time.monotonic()
        try:
            self._connection = self._connected()
        except _OlderProtocol:
            self._connection = self._connected()
        if self._reads:
            self._connection.subscribe()

    def _connected(self) -> _Connection:
        from paho.mqtt.enums import MQTTProtocolVersion

        connection = _Connection(self._topic, self._protocol, self._arrived)
        if self._secure:
            connection.secure()
        try:
            connection.open(self._host, self._port)
        except _OlderProtocol:
            if self._protocol == MQTTProtocolVersion.MQTTv311:
                raise ConnectionError("the broker speaks another protocol") from None
            self._protocol = MQTTProtocolVersion.MQTTv311
            raise
        return connection

    def _arrived(self, payload: bytes) -> None:
        """Take a message, in the thread of a connection."""
        try:
            self._messages.put_nowait(payload[: self._longest + 1])
        except queue.Full:
            _LOG.warning("a reading was lost: %d are waiting", _MOST_WAITING)


class _OlderProtocol(ConnectionError):
    """The broker does not speak MQTT 5."""


class _Connection:
    """One connection of a client, which ends when it is lost."""

    def __init__(
        self,
        topic: str,
        protocol: MQTTProtocolVersion,
        arrived: Callable[[bytes], None],
    ) -> None:
        from paho.mqtt.client import Client
        from paho.mqtt.enums import CallbackAPIVersion

        self.is_lost = False
        self.is_proved = False  # something passed over it
        self._topic = topic
        self._arrived = arrived
        self._answers: queue.Queue[ReasonCode | None] = queue.Queue()
        self._refusal = ""
        self._awaited: dict[int, float] = {}  # since when, by number of a message
        self._early: set[int] = set()  # answered before their number was known here
        self._taken = threading.Condition()
        self._client = Client(
            CallbackAPIVersion.VERSION2, protocol=protocol, reconnect_on_failure=False
        )
        self._client.username_pw_set(_setting("USER"), _password())
        self._client.connect_timeout = _PATIENCE / 2
        self._client.on_connect = self._on_connect
        self._client.on_disconnect = self._on_disconnect
        self._client.on_message = self._on_message
        self._client.on_subscribe = self._on_subscribe
        self._client.on_publish = self._on_publish

    def secure(self) -> None:
        self._client.tls_set(_setting("CA"), _setting("CERT"), _setting("KEY"))

    def open(self, host: str, port: int) -> None:
        """Connect, and wait for the broker's answer."""
        began = time.monotonic()
        self._client.connect(host, port, keepalive=_KEEPALIVE)
        self._client.loop_start()
        try:
            left = _PATIENCE - (time.monotonic() - began)
            reason = self._answers.get(timeout=max(left, 1.0))
        except queue.Empty:
            self.close()
            raise TimeoutError(
                "the broker accepts the connection and says nothing"
            ) from None
        if reason is None:
            self.close()
            raise ConnectionError("the broker ends the connection")
        if reason.is_failure:
            self.close()
            if reason == "Unsupported protocol version":
                raise _OlderProtocol(str(reason))
            passes = reason in _PASSING
            kind = ConnectionError if passes else PermissionError
            raise kind(f"the broker refuses to serve: {reason}")

    def close(self) -> None:
        self._client.disconnect()
        self._client.loop_stop()

    def subscribe(self) -> None:
        self._awaited[-1] = time.monotonic()
        self._client.subscribe(self._topic, qos=0)

    def send(self, text: str) -> bool:
        """Send a text, and return whether it is under way."""
        # outside our lock: the client has one of its own, and calls us while it holds it
        sent = self._client.publish(self._topic, text, qos=1)
        with self._taken:
            if sent.mid in self._early:
                self._early.discard(sent.mid)
            elif sent.rc == 0:
                self._awaited[sent.mid] = time.monotonic()
        if not self.is_proved:
            self.wait_until_taken()
        return sent.rc == 0 and not self.is_lost

    def wait_until_taken(self) -> None:
        """Wait a second at most for the broker to take all that was sent."""
        with self._taken:
            self._taken.wait_for(lambda: self.is_lost or not self._awaited, 1.0)

    def check(self) -> None:
        """Raise an error if the broker refuses the topic, or does not answer."""
        refusal = self._refusal
        if refusal:
            self._refusal = ""  # it is raised once
            raise PermissionError(refusal)
        oldest = min(self._awaited.copy().values(), default=math.inf)
        if time.monotonic() - oldest > _PATIENCE and not self.is_lost:
            raise TimeoutError("the broker does not answer")

    # -- in the client's thread ------------------------------------------------------

    def _on_connect(
        self,
        client: Client,
        data: object,
        flags: object,
        reason: ReasonCode,
        *_: object,
    ) -> None:
        self._answers.put(reason)
        _LOG.info("broker: %s", reason)

    def _on_disconnect(self, *_: object) -> None:
        self._answers.put(None)
        with self._taken:
            self.is_lost = True
            self._taken.notify_all()

    def _on_message(self, client: Client, data: object, message: MQTTMessage) -> None:
        self.is_proved = True
        if not message.retain:  # else it was sent before this client was there
            self._arrived(bytes(message.payload))

    def _on_subscribe(
        self,
        client: Client,
        data: object,
        number: int,
        reasons: list[ReasonCode],
        *_: object,
    ) -> None:
        self._take(-1, reasons[0], "read")

    def _on_publish(
        self, client: Client, data: object, number: int, reason: ReasonCode, *_: object
    ) -> None:
        self.is_proved |= not reason.is_failure
        self._take(number, reason, "write")

    def _take(self, number: int, reason: ReasonCode, verb: str) -> None:
        with self._taken:
            if reason.is_failure:
                self._refusal = (
                    f"the broker does not let this user {verb} the topic "
                    f"{self._topic!r}: {reason}"
                )
            if self._awaited.pop(number, None) is None:
                self._early.add(number)
            self._taken.notify_all()


def _setting(name: str) -> str | None:
    return os.environ.get(_ENVIRONMENT + name)


def _password() -> str | None:
    file = _setting("PASSWORD_FILE")
    if file is None:
        return _setting("PASSWORD")
    return Path(file).read_text(encoding="utf-8").rstrip("\n")


def _readings(
    place: str, names: set[str], stack: ExitStack
) -> Iterable[Reading | _Together | None]:
    """Open a source: standard input, a topic of a broker, or a file."""
    if place.startswith(_TOPICS):
        return stack.enter_context(Topic(place)).arriving()
    if place.endswith(".parquet"):
        return _rows(place, names, stack)
    if place == "-":
        if sys.stdin is None:
            raise ValueError(
                "source: expected standard input, which is closed; pass a file or a topic"
            )
        return _lines(sys.stdin.fileno())
    return _lines(stack.enter_context(open(place, "rb", buffering=0)).fileno())


class _Sink:
    """Standard output, a topic of a broker, or a file that is appended to.

    A file ``.csv`` gets rows, and ``.json`` or ``.jsonl`` lines of JSON. Elsewhere rows
    are answered by rows, after a header where the file is empty, and JSON by JSON.
    Messages whose readings came together are written together.
    """

    def __init__(self, place: str, outputs: Iterable[str], stack: ExitStack) -> None:
        self._columns = ["index", *outputs]
        self._rows: Any = None
        self._suffix = Path(place).suffix
        self._topic: Topic | None = None
        self._held = 0  # messages that wait to be written
        if place.startswith(_TOPICS):
            self._topic = stack.enter_context(Topic(place))
            return
        if place == "-" and sys.stdout is None:
            raise ValueError(
                "sink: expected standard output, which is closed; pass a file or a topic"
            )
        # beside sys.stdout, whose last flush would fail where the reader has gone
        target = os.dup(sys.stdout.fileno()) if place == "-" else place
        is_torn = place != "-" and _ends_in_a_line(place)
        # a buffer that is never full, so that only whole lines are written
        self._file = stack.enter_context(
            open(target, "a", buffering=_ROOM, encoding="utf-8", newline="")  # noqa: SIM115
        )
        if is_torn:  # a power failure left half a line, which no message continues
            self._file.write("\n")
        self._is_new = place == "-" or self._file.tell() == 0
        if self._suffix == ".csv":
            self._begin_rows()

    def take(self, message: dict[str, float], of_rows: bool) -> None:
        """Write a message, which answers a row of CSV or something else."""
        if self._topic is not None:
            self._topic.send(message)
            return
        if self._suffix == ".csv" or (of_rows and self._suffix not in _JSON):
            if self._rows is None:
                self._begin_rows()
            self._rows.writerow(message)
        else:
            self._file.write(json.dumps(message) + "\n")
        self._held += 1
        if self._held >= _MOST_HELD:
            self.pass_on()

    def before_waits(
        self, readings: Iterable[Reading | _Together | None]
    ) -> Iterator[Reading | _Together | None]:
        """Yield readings, and pass on what is held before each wait for the next one."""
        for reading in readings:
            if reading is None:
                self.pass_on()
            yield reading

    def pass_on(self) -> None:
        """Write the messages that are held."""
        if self._held:
            self._held = 0
            self._file.flush()

    def _begin_rows(self) -> None:
        self._rows = csv.DictWriter(self._file, self._columns, lineterminator="\n")
        if self._is_new:
            self._rows.writeheader()


def _ends_in_a_line(place: str) -> bool:
    """Return whether the last line of a file has no end."""
    path = Path(place)
    if not path.is_file() or path.stat().st_size == 0:
        return False
    with open(path, "rb") as file:
        file.seek(-1, os.SEEK_END)
        return file.read(1) != b"\n"


def _lines(number: int) -> Iterator[_Together | None]:
    """Yield the lines of a file by its number, and None before and while it waits.

    Lines that can be read together come together. Of a line that is too long only the
    beginning is kept. Where whoever writes to a pipe has died, its last line may be cut
    off; that of a file is whole.
    """
    line = b""
    while True:
        yield None
        if not _is_ready(number):
            continue
        block = os.read(number, _LONGEST)
        if not block:
            break
        first, *others = block.split(b"\n")
        line = (line + first)[: _LONGEST + 2]
        if others:
            ended = [line, *others[:-1]]
            line = others[-1]
            for start in range(0, len(ended), _MOST_HELD):
                yield _Together(ended[start : start + _MOST_HELD])
    if line:
        is_file = stat.S_ISREG(os.fstat(number).st_mode)
        yield _Together([line if is_file else _CutOff(line)])


def _is_ready(number: int) -> bool:
    """Return whether a file has something to read, or its end, within a tick."""
    if sys.platform == "win32":  # where only sockets can be waited for
        return True
    return bool(select.select([number], [], [], BETWEEN_LOOKS)[0])


def _rows(place: str, names: set[str], stack: ExitStack) -> Iterator[Reading]:
    """Open a Parquet file, of which the columns with these names are read."""
    try:
        from pyarrow.parquet import ParquetFile
    except ImportError as error:
        raise ValueError(
            f"{place}: Parquet needs pyarrow: pip install 'privcontrol[replay]'"
        ) from error
    file = stack.enter_context(ParquetFile(place))
    columns = [name for name in file.schema_arrow.names if name in names]
    return (
        row for batch in file.iter_batches(columns=columns) for row in batch.to_pylist()
    )


# -- the command ---------------------------------------------------------------------


def main(arguments: list[str] | None = None) -> int:
    """Run the command, and return its exit code.

    Returns
    -------
    int
        0 done, 1 refused (starting again does not help), 75 try again. Wrong usage
        exits with 2.
    """
    if arguments is not None:
        for word in sequence_of(arguments, "arguments", "words"):
            instance_of(word, str, "arguments", "['show', 'noise.json']")
    options = _parser().parse_args(arguments)
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    try:
        with warnings.catch_warnings():
            warnings.showwarning = _say
            options.run(options)
    except (ValueError, TypeError, *_LASTING) as error:
        _tell(f"privcontrol: {error}", complains=True)
        return _Exit.REFUSED
    except BrokenPipeError:
        _tell(
            "privcontrol: the reader of the published values went away; start again with "
            "the same --state, which goes on behind the last block that was drawn",
            complains=True,
        )
        return _Exit.TRY_AGAIN
    except OSError as error:
        _tell(f"privcontrol: {error}; try again", complains=True)
        return _Exit.TRY_AGAIN
    except KeyboardInterrupt:
        _tell("privcontrol: interrupted", complains=True)
    return _Exit.DONE


def _say(
    message: Warning | str,
    category: type[Warning],
    filename: str,
    lineno: int,
    file: object = None,
    line: str | None = None,
) -> None:
    """Write a warning to standard error as one line, without a place in our code."""
    _tell(f"privcontrol: {message}", complains=True)


def _tell(text: str, *, complains: bool = False) -> None:
    """Print a text as a terminal may show it, to standard output or error."""
    file = sys.stderr if complains else sys.stdout
    if file is not None:  # else it is closed, and nobody reads it
        print(_plain(text), file=file)


def _certified(name: str) -> Callable[..., Any]:
    """Return what needs designs and their promises.

    That takes a second to import, and a device that goes on with its file does without.
    """
    return getattr(import_module("privcontrol.deploy.certified"), name)


def _show(options: argparse.Namespace) -> None:
    for text in _certified("shown")(
        options.design, options.longest, options.resolution
    ):
        _tell(text)


def _check(options: argparse.Namespace) -> None:
    for text in _certified("checked")(
        options.design, options.longest, options.resolution
    ):
        _tell(text)


def _export(options: argparse.Namespace) -> None:
    _tell(_certified("written")(options.design, options.longest))


def _begin(options: argparse.Namespace) -> None:
    run = _certified("Run")(options)
    with run.begun() as gateway:
        _tell(str(gateway.guarantee))


def _plain(text: object) -> str:
    """Return a text without what a file's names may make a terminal do."""
    return "".join(c if c.isprintable() or c == "\n" else "?" for c in str(text))


def _publish(options: argparse.Namespace) -> None:
    with ExitStack() as stack:
        publisher = _going_on(options)
        ledger = None
        if publisher is None:
            run = _certified("Run")(options)
            begin, outputs, ledger = run.gateway, run.outputs, run.ledger
        else:
            outputs = stack.enter_context(publisher).signals.names
        names = {*outputs, *_places(options.epoch)}
        readings = _readings(options.source, names, stack)
        sink = _Sink(options.sink, outputs, stack)
        if publisher is None:
            publisher = stack.enter_context(begin())
        relay = Relay(
            publisher, ledger=ledger, epoch=options.epoch, most_lost=options.most_lost
        )
        with _signals(relay):
            relay.run(
                sink.before_waits(readings),
                lambda message: sink.take(message, relay.reads_rows),
                most=1 if options.every else None,
            )
        if relay._unread and os.path.isfile(options.source):
            raise ValueError(
                f"source: none of the {relay._unread} lines of {options.source} could be "
                "published, for the reasons above; mend the file, and start again with "
                "the same --state, which goes on where it was"
            )


def _going_on(options: argparse.Namespace) -> Publisher | None:
    """Go on with a file of this very design, which was certified when the file was made."""
    state = Path(os.path.realpath(options.state))
    if options.ledger is not None or options.unguarded or not state.is_file():
        return None
    publisher = taken_up(state, digest_of_file(options.design), known=options.known)
    if publisher is not None:
        try:
            publisher._check_steps(grid=options.grid, resolution=options.resolution)
        except BaseException:
            publisher.close()
            raise
    return publisher


@contextmanager
def _signals(relay: Relay) -> Iterator[None]:
    """Let signals end the relay, or ask it for its health."""
    handlers: dict[int, Callable[..., None]] = {signal.SIGTERM: relay.stop}
    if sys.platform != "win32":  # where Ctrl-C ends the wait for a line
        handlers[signal.SIGINT] = relay.stop
    if hasattr(signal, "SIGUSR1"):
        handlers[signal.SIGUSR1] = relay.ask
    earlier = {number: signal.signal(number, how) for number, how in handlers.items()}
    try:
        yield
    finally:
        for number, how in earlier.items():
            signal.signal(number, how)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="privcontrol",
        description="Show and check design files, and publish readings with noise.",
        epilog="Exit: 0 done, 1 refused, 2 wrong usage, 75 try again.",
    )
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    for name, run, purpose in (
        ("show", _show, "print the guarantee and the noise"),
        ("check", _check, "certify the design again; exit 1 if it does not hold"),
        ("export", _export, "write the noise's filter as C for a controller"),
        ("begin", _begin, "certify, and make the gateway's file for a device"),
        ("publish", _publish, "one reading in, one published value out"),
    ):
        command = commands.add_parser(name, help=purpose, description=purpose)
        command.set_defaults(run=run)
        command.add_argument("design", type=Path, help="a file of noise or of a loop")
        command.add_argument(
            "--longest",
            type=_count,
            metavar="T",
            help="refuse designs for more samples, which take long to certify",
        )
        if name == "export":
            command.add_argument(
                "--c", action="store_true", required=True, help="as C99"
            )
            continue
        command.add_argument(
            "--resolution",
            type=_steps,
            help="step of the sensor, or one for each output: R,R",
        )
        if name in ("begin", "publish"):
            command.add_argument(
                "--state",
                type=Path,
                required=True,
                help="the gateway's file; publish goes on with it if it exists",
            )
            command.add_argument(
                "--ledger", type=Path, help="an existing ledger, charged once"
            )
            command.add_argument(
                "--grid", type=_steps, help="publish multiples of this step, or R,R"
            )
    add = command.add_argument
    add(
        "--unguarded",
        action="store_true",
        help="go on without the ledger that the state was used with, or with another: "
        "you know that no copy of the state was ever used",
    )
    add(
        "--known",
        type=_count,
        metavar="N",
        help="the next index as it is known elsewhere: an older state is refused",
    )
    add("--every", action="store_true", help="publish one reading and end, for a timer")
    add(
        "--source",
        default="-",
        metavar="-|FILE|mqtt://HOST/TOPIC",
        help="JSON or CSV; .parquet: a table",
    )
    add(
        "--sink",
        default="-",
        metavar="-|FILE|mqtt://HOST/TOPIC",
        help=".csv: as CSV, .jsonl: as JSON",
    )
    add(
        "--epoch",
        type=_moment,
        metavar="TIME",
        help='of sample 0: readings have a "time"',
    )
    add("--most-lost", type=_count, metavar="N", help="refuse readings further ahead")
    return parser


def _moment(text: str) -> float:
    with suppress(ValueError):
        number = float(text)
        if math.isfinite(number):
            return number
    raise argparse.ArgumentTypeError(
        "expected a number in the unit of the plant's dt, as the readings' \"time\" has "
        f"it, got {text!r}; turn dates into numbers first, such as seconds since 1970"
    )


def _count(text: str) -> int:
    with suppress(ValueError):
        number = int(text)
        if number >= 0:
            return number
    raise argparse.ArgumentTypeError(f"expected a whole number >= 0, got {text!r}")


def _steps(text: str) -> list[str] | str:
    steps = text.split(",")
    for step in steps:
        step_size(step, "step")
    return steps if len(steps) > 1 else text
