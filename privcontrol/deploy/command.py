"""Show and check design files, and publish readings through a gateway.

    privcontrol show noise.json
    privcontrol check noise.json
    privcontrol publish noise.json --state gateway.sqlite --resolution 0.001

A source yields readings: texts (a JSON object, or a CSV row after a header), or
mappings of output names to numbers. A sink is a function that takes a mapping with the
index and what is published. Nothing here prints a reading.

Topics of an MQTT broker have quality of service 0: a reading that comes late is of no
use, and one that comes twice is refused. What the broker misses is a gap, and is never
sent again. Who connects is said by the environment, so neither the list of processes
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
import signal
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Self
from urllib.parse import urlsplit

from ..core.errors import PrivacyError
from ..core.ledger import PrivacyLedger
from ..core.release import step_size, step_sizes
from ..designs.output_noise import OutputNoise
from ..loop.loop import PrivateLoop
from .files import load
from .gateway import Gateway

if TYPE_CHECKING:
    from paho.mqtt.client import Client, MQTTMessage
    from paho.mqtt.reasoncodes import ReasonCode

Reading = str | bytes | Mapping[str, Any]
Sink = Callable[[dict[str, float]], object]

_LOG = logging.getLogger("privcontrol")
_DONE = 0
_REFUSED = 1
_TRY_AGAIN = 75  # EX_TEMPFAIL of sysexits.h
#: What a supervisor cannot repair by starting again.
_LASTING = (FileNotFoundError, IsADirectoryError, NotADirectoryError, PermissionError)
#: Longest reading, in characters.
_LONGEST = 1 << 16

#: How a place begins that is a topic of a broker.
_TOPICS = ("mqtt://", "mqtts://")
_ENVIRONMENT = "PRIVCONTROL_MQTT_"
#: Seconds that a broker has for its first answer.
_PATIENCE = 10.0
#: Most readings that wait. Those that come then are lost.
_MOST_WAITING = 1000
_LOOPBACK = ("localhost", "127.0.0.1", "::1")


class _Refused(Exception):
    """A reading is not published. The message holds nothing of it."""


class _Stopped(Exception):
    """A signal ended the wait for the next reading."""


class Relay:
    """Pass readings through a gateway, one published value for each that is accepted.

    A reading whose sample was passed, or that cannot be read, is refused: it is
    counted, and logged by its number without its content. A sample is never published
    twice.

    Parameters
    ----------
    gateway : Gateway
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
        gateway: Gateway,
        *,
        ledger: PrivacyLedger | None = None,
        epoch: float | None = None,
        most_lost: int | None = None,
    ) -> None:
        self._gateway = gateway
        self._ledger = ledger
        self._epoch = epoch
        self._most_lost = math.inf if most_lost is None else most_lost
        self._outputs = gateway.noise.plant_data.outputs
        self._places = _places(epoch)
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
        self._waiting = False
        self._stopping = False
        self._asked = False

    def run(self, readings: Iterable[Reading], sink: Sink) -> None:
        """Publish until the readings or the horizon end, or `stop` is called."""
        source = iter(readings)
        with suppress(_Stopped):
            while self._gateway.remaining > 0 and not self._stopping:
                self._answer_health()
                self._waiting = True
                reading = next(source, None)
                self._waiting = False
                if reading is None:
                    return
                self._number += 1
                try:
                    self._pass_on(reading, sink)
                except _Refused as reason:
                    self._refused += 1
                    _LOG.warning("line %d refused: %s", self._number, _plain(reason))

    def stop(self, *signalled: object) -> None:
        """End after the reading at hand; a handler of signals."""
        self._stopping = True
        if self._waiting:
            self._waiting = False
            raise _Stopped

    def ask(self, *signalled: object) -> None:
        """Log `health` after the reading at hand; a handler of signals."""
        self._asked = True
        if self._waiting:
            self._answer_health()

    def health(self) -> dict[str, Any]:
        """Return the next index, what remains, and counts; nothing of a reading."""
        remaining = self._gateway.remaining
        return {
            "index": self._gateway.next_index,
            "remaining": None if remaining == math.inf else remaining,
            "ledger": None if self._ledger is None else self._ledger.remaining,
            "published": self._published,
            "refused": self._refused,
        }

    def _answer_health(self) -> None:
        if self._asked:
            self._asked = False
            _LOG.info("%s", json.dumps(self.health()))

    def _pass_on(self, reading: Reading, sink: Sink) -> None:
        """Publish a reading, or raise `_Refused`."""
        fields = self._fields(reading)
        if fields is None:
            return
        missing = set(self._outputs) - fields.keys()
        if missing or fields.keys() - self._places - set(self._outputs):
            raise _Refused(
                f"expected {', '.join(self._outputs)}, and the index if known"
            )
        values = [_number(fields[name]) for name in self._outputs]
        passed = self._gateway.next_index
        index = self._index(fields)
        published = self._gateway.publish(values, index).tolist()
        if index > passed:
            _LOG.warning("samples %d to %d were lost", passed, index - 1)
        self._published += 1
        sink({"index": index, **dict(zip(self._outputs, published))})

    def _index(self, fields: Mapping[str, Any]) -> int:
        """Return the sample of a reading, if it can still be published."""
        following = self._gateway.next_index
        if "index" in fields:
            sample = _number(fields["index"])
            if not sample.is_integer():
                raise _Refused("expected a whole number as index")
        elif self._epoch is not None and "time" in fields:
            elapsed = _number(fields["time"]) - self._epoch
            sample = round(_number(elapsed / self._gateway.noise.plant_data.step))
        else:
            sample = following
        if sample < following:
            raise _Refused(f"its sample was passed, the next one is {following}")
        if sample >= self._gateway.noise.horizon:
            raise _Refused("its sample is behind the horizon")
        longest = min(self._most_lost, self._gateway.longest_jump)
        if sample > following + longest:
            raise _Refused(f"its sample is more than {longest} ahead")
        return int(sample)

    def _fields(self, reading: Reading) -> Mapping[str, Any] | None:
        """Return a reading's numbers by name, or None for a blank line or a header."""
        if isinstance(reading, Mapping):
            return reading
        if len(reading) > _LONGEST:
            raise _Refused("it is too long")
        text = reading
        if isinstance(text, bytes):
            text = text.decode("utf-8-sig", errors="replace")
        try:
            if not text.strip():
                return None
            if text.lstrip().startswith("{"):
                return dict(json.loads(text))
            row = [field.strip() for field in next(csv.reader([text]))]
            if not self._header and set(self._outputs) <= set(row):
                self._header = row
                return None
            known = {*self._outputs, *self._places}
            named = zip(self._header, row, strict=True)
            # other columns are not needed
            return {name: float(field) for name, field in named if name in known}
        except (ValueError, RecursionError, csv.Error):
            wanted = "a row of the header"
            if not self._header:
                wanted = f"a header that names {', '.join(self._outputs)}"
            raise _Refused(f"expected a JSON object, or {wanted}") from None


def _places(epoch: float | None) -> set[str]:
    """Return the names that say where a reading belongs."""
    return {"index"} if epoch is None else {"index", "time"}


def _number(value: object) -> float:
    """Return a value as a finite number."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        with suppress(OverflowError):
            number = float(value)
            if math.isfinite(number):
                return number
    raise _Refused("expected finite numbers")


# -- sources and sinks ---------------------------------------------------------------


class Topic:
    """A topic of a broker: iterate over its messages, or send to it.

    A lost connection is made again by itself.

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
        On entering, if the broker refuses the user.
    OSError
        On entering, if the broker does not answer or cannot serve for now.
    """

    def __init__(self, address: str, *, longest: int = _LONGEST) -> None:
        parts = urlsplit(address)
        self._topic = parts.path.removeprefix("/")
        if parts.username is not None or parts.password is not None:
            raise ValueError(
                "address: expected no user and no password, which other users would "
                f"see; set {_ENVIRONMENT}USER and {_ENVIRONMENT}PASSWORD_FILE"
            )
        if not parts.hostname or not self._topic or set(self._topic) & set("+#"):
            raise ValueError("address: expected mqtt://host/topic without wildcards")
        secure = parts.scheme == "mqtts"
        if not secure and parts.hostname not in _LOOPBACK:
            _LOG.warning("mqtt:// is not encrypted; use mqtts://")
        self._host = parts.hostname
        self._port = parts.port or (8883 if secure else 1883)
        self._longest = longest
        self._reads = False
        self._sends = True
        try:
            from paho.mqtt.client import Client
            from paho.mqtt.enums import CallbackAPIVersion
        except ImportError as error:
            raise ValueError(
                f"{address}: MQTT needs paho-mqtt: pip install 'privcontrol[deploy]'"
            ) from error
        self._messages: queue.Queue[bytes] = queue.Queue(_MOST_WAITING)
        self._answers: queue.Queue[ReasonCode] = queue.Queue()
        self._client = Client(CallbackAPIVersion.VERSION2)
        self._client.username_pw_set(_setting("USER"), _password())
        if secure:
            self._client.tls_set(_setting("CA"), _setting("CERT"), _setting("KEY"))
        self._client.reconnect_delay_set(1, 8)
        self._client.on_connect = self._connected
        self._client.on_message = self._arrived

    def __enter__(self) -> Self:
        self._client.connect(self._host, self._port)
        self._client.loop_start()
        try:
            reason = self._answers.get(timeout=_PATIENCE)
        except queue.Empty:
            self.__exit__()
            raise TimeoutError(
                "the broker accepts the connection and says nothing"
            ) from None
        if reason.is_failure:
            self.__exit__()
            passes = reason == "Server unavailable"
            kind = ConnectionError if passes else PermissionError
            raise kind(f"the broker refuses to serve: {reason}")
        return self

    def __exit__(self, *error: object) -> None:
        self._client.disconnect()
        self._client.loop_stop()

    def __iter__(self) -> Iterator[bytes]:
        self._reads = True
        self._client.subscribe(self._topic, qos=0)
        while True:
            yield self._messages.get()

    def send(self, message: dict[str, float]) -> None:
        """Send a message, or log that it is lost."""
        sent = self._client.publish(self._topic, json.dumps(message), qos=0)
        try:
            sent.wait_for_publish(1.0)
            reaches = sent.is_published()
        except RuntimeError:  # the connection is gone, perhaps since a moment ago
            reaches = False
        if reaches != self._sends:
            self._sends = reaches
            said = (
                "reaches the broker again" if reaches else "does not reach the broker"
            )
            _LOG.warning("sample %d %s", message["index"], said)

    # -- in the client's thread ------------------------------------------------------

    def _connected(
        self,
        client: Client,
        data: object,
        flags: object,
        reason: ReasonCode,
        *_: object,
    ) -> None:
        self._answers.put(reason)
        _LOG.info("broker: %s", reason)
        if self._reads and not reason.is_failure:
            client.subscribe(self._topic, qos=0)

    def _arrived(self, client: Client, data: object, message: MQTTMessage) -> None:
        if message.retain:
            return  # it was sent before this client was there
        try:
            self._messages.put_nowait(bytes(message.payload[: self._longest + 1]))
        except queue.Full:
            _LOG.warning("a reading was lost: %d are waiting", _MOST_WAITING)


def _setting(name: str) -> str | None:
    return os.environ.get(_ENVIRONMENT + name)


def _password() -> str | None:
    file = _setting("PASSWORD_FILE")
    if file is None:
        return _setting("PASSWORD")
    return Path(file).read_text(encoding="utf-8").rstrip("\n")


def _readings(place: str, names: set[str], stack: ExitStack) -> Iterable[Reading]:
    """Open a source: standard input, a topic of a broker, or a file."""
    if place.startswith(_TOPICS):
        return stack.enter_context(Topic(place))
    if place.endswith(".parquet"):
        return _rows(place, names, stack)
    if place == "-":
        return _bounded_lines(sys.stdin.buffer)
    return _bounded_lines(stack.enter_context(open(place, "rb")))


def _sink(place: str, outputs: Iterable[str], stack: ExitStack) -> Sink:
    """Open a sink: standard output, a topic of a broker, or a file that is appended to."""
    if place.startswith(_TOPICS):
        return stack.enter_context(Topic(place)).send
    # beside sys.stdout, whose last flush would fail where the reader has gone
    target = os.dup(sys.stdout.fileno()) if place == "-" else place
    file = stack.enter_context(
        open(target, "a", buffering=1, encoding="utf-8", newline="")
    )
    if not place.endswith(".csv"):
        return lambda message: file.write(json.dumps(message) + "\n")
    writer = csv.DictWriter(file, ["index", *outputs], lineterminator="\n")
    if file.tell() == 0:
        writer.writeheader()
    return writer.writerow


def _bounded_lines(file: IO[bytes]) -> Iterator[bytes]:
    """Yield lines. Of one that is too long only the beginning is kept."""
    while line := file.readline(_LONGEST + 2):
        rest = line
        while len(rest) > _LONGEST and not rest.endswith(b"\n"):
            rest = file.readline(_LONGEST + 2)
        yield line


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
    options = _parser().parse_args(arguments)
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    try:
        with warnings.catch_warnings():
            warnings.showwarning = _say
            options.run(options)
    except (ValueError, TypeError, *_LASTING) as error:
        _tell(f"privcontrol: {error}", sys.stderr)
        return _REFUSED
    except OSError as error:
        _tell(f"privcontrol: {error}; try again", sys.stderr)
        return _TRY_AGAIN
    return _DONE


def _say(
    message: Warning | str,
    category: type[Warning],
    filename: str,
    lineno: int,
    file: object = None,
    line: str | None = None,
) -> None:
    """Write a warning to standard error as one line, without a place in our code."""
    _tell(f"privcontrol: {message}", sys.stderr)


def _tell(text: str, file: IO[str] | None = None) -> None:
    """Print a text as a terminal may show it."""
    print(_plain(text), file=file)


def _show(options: argparse.Namespace) -> None:
    design = load(options.design)
    _tell(repr(design))
    print("Std:", ", ".join(f"{std:.4g}" for std in _noise(design).std))
    _tell(design.guarantee.explain())


def _check(options: argparse.Namespace) -> None:
    guarantee = load(options.design).guarantee
    _tell(f"holds: {str(guarantee).splitlines()[0].partition(':')[2].strip()}")


def _plain(text: object) -> str:
    """Return a text without what a file's names may tell a terminal to do."""
    return "".join(c if c.isprintable() or c == "\n" else "?" for c in str(text))


def _noise(design: OutputNoise | PrivateLoop) -> OutputNoise:
    """Return a design's noise, which is the design itself or that of a loop."""
    return design.private_noise if isinstance(design, PrivateLoop) else design


def _publish(options: argparse.Namespace) -> None:
    noise = _noise(load(options.design))
    ledger = None
    if options.ledger is not None:
        ledger = PrivacyLedger.open(options.ledger)
    with ExitStack() as stack:
        outputs = noise.plant_data.outputs
        names = {*outputs, *_places(options.epoch)}
        readings = _readings(options.source, names, stack)
        sink = _sink(options.sink, outputs, stack)
        gateway = stack.enter_context(_taken_up(noise, ledger, options))
        relay = Relay(
            gateway, ledger=ledger, epoch=options.epoch, most_lost=options.most_lost
        )
        with _signals(relay):
            relay.run(readings, sink)


def _taken_up(
    noise: OutputNoise, ledger: PrivacyLedger | None, options: argparse.Namespace
) -> Gateway:
    """Make the gateway of a state, or resume it where the state exists."""
    state = Path(os.path.realpath(options.state))
    steps = {"grid": options.grid, "resolution": options.resolution}
    if not state.exists():
        if state.with_name(f"{state.name}.lock").exists():
            raise PrivacyError(
                f"--state: the gateway's file at {str(state)!r} is gone, and its lock "
                "file is left: put the file back. If the run begins again, delete the "
                "lock file"
            )
        return Gateway(noise, path=state, ledger=ledger, **steps)
    gateway = Gateway.resume(state, ledger=ledger)
    try:
        if _drawn(gateway.noise) != _drawn(noise):
            raise PrivacyError(
                f"--state: the file at {str(state)!r} publishes another noise than "
                f"that of {str(options.design)!r}: pass its design, or another --state"
            )
        for name, given in steps.items():
            if given is None:
                continue
            kept = gateway.status()[name]
            if [str(step) for step in step_sizes(given, name, noise.outputs)] != kept:
                raise PrivacyError(
                    f"--{name}: the file at {str(state)!r} was made with {kept}; leave "
                    f"--{name} out, or pass the same"
                )
    except BaseException:
        gateway.close()
        raise
    return gateway


def _drawn(noise: OutputNoise) -> tuple:
    """Return what decides the noise's values, without what is promised of them."""
    return noise.plant_data, noise.horizon, noise.family, noise.parts


@contextmanager
def _signals(relay: Relay) -> Iterator[None]:
    """Let signals end the relay, or ask it for its health."""
    handlers = {signal.SIGTERM: relay.stop, signal.SIGINT: relay.stop}
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
        ("publish", _publish, "one reading in, one published value out"),
    ):
        command = commands.add_parser(name, help=purpose, description=purpose)
        command.set_defaults(run=run)
        command.add_argument("design", type=Path, help="a file of noise or of a loop")
    add = command.add_argument
    add(
        "--state",
        type=Path,
        required=True,
        help="the gateway's file; resumed if it exists",
    )
    add("--ledger", type=Path, help="an existing ledger, charged once")
    add(
        "--resolution",
        type=_steps,
        help="step of the sensor, or one for each output: R,R",
    )
    add("--grid", type=_steps, help="publish multiples of this step, or R,R")
    add(
        "--source",
        default="-",
        metavar="-|FILE|mqtt://HOST/TOPIC",
        help="JSON or CSV; .parquet: a table",
    )
    add("--sink", default="-", metavar="-|FILE|mqtt://HOST/TOPIC", help=".csv: as CSV")
    add(
        "--epoch",
        type=_finite,
        metavar="TIME",
        help='of sample 0: readings have a "time"',
    )
    add("--most-lost", type=_count, metavar="N", help="refuse readings further ahead")
    return parser


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise argparse.ArgumentTypeError("expected a finite number")
    return number


def _count(text: str) -> int:
    number = int(text)
    if number < 0:
        raise argparse.ArgumentTypeError("expected a number >= 0")
    return number


def _steps(text: str) -> list[str] | str:
    steps = text.split(",")
    for step in steps:
        step_size(step, "step")
    return steps if len(steps) > 1 else text


if __name__ == "__main__":
    sys.exit(main())
