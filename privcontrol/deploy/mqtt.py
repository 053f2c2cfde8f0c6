"""Readings from a topic of an MQTT broker, and published values to one.

Both have quality of service 0: a reading that comes late is of no use, and one that
comes twice is refused. What the broker misses is a gap, and is never sent again.

Who connects is said by the environment, so neither the list of processes nor a shell's
history shows it: PRIVCONTROL_MQTT_USER, PRIVCONTROL_MQTT_PASSWORD or
PRIVCONTROL_MQTT_PASSWORD_FILE, and for mqtts:// PRIVCONTROL_MQTT_CA (the system's
authorities by default), PRIVCONTROL_MQTT_CERT and PRIVCONTROL_MQTT_KEY.
"""

from __future__ import annotations

import json
import logging
import os
import queue
from collections.abc import Iterator
from pathlib import Path
from typing import Self
from urllib.parse import urlsplit

from paho.mqtt.client import Client, MQTTMessage
from paho.mqtt.enums import CallbackAPIVersion
from paho.mqtt.reasoncodes import ReasonCode

_LOG = logging.getLogger("privcontrol")
_ENVIRONMENT = "PRIVCONTROL_MQTT_"
#: Seconds that a broker has for its first answer.
_PATIENCE = 10.0
#: Most readings that wait. Those that come then are lost.
_MOST_WAITING = 1000
_LOOPBACK = ("localhost", "127.0.0.1", "::1")


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

    def __init__(self, address: str, *, longest: int = 1 << 16) -> None:
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
