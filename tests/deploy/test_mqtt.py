"""A broker of its own on loopback; tests/stress/kill_brokers.py has more of it."""

import shutil
import socket
import ssl
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

pytest.importorskip("paho.mqtt")
sys.path.insert(0, str(Path(__file__).parents[1] / "stress"))

import kill_brokers
import wires
from paho.mqtt.client import MQTTErrorCode, MQTTMessageInfo

from privcontrol.deploy import Topic


@pytest.mark.slow
@pytest.mark.skipif(wires.MOSQUITTO is None, reason="no mosquitto here")
def test_what_passes_a_broker_arrives_once_and_in_order():
    """Kills of gateway and broker, a wrong password, repeated and oversized readings."""
    kill_brokers.run(readings=300, rate=100, kills=8, brokers=2)


@pytest.fixture
def certificates(tmp_path):
    """An authority in a folder, and what it signed: a broker and the three users."""
    openssl = shutil.which("openssl")
    if openssl is None or wires.MOSQUITTO is None:
        pytest.skip("no openssl or no mosquitto on this machine")

    def made(name, *options):
        key = ["-newkey", "rsa:2048", "-nodes", "-keyout", f"{name}.key"]
        request = [openssl, "req", "-x509", *key, "-subj", f"/CN={name}", *options]
        subprocess.run([*request, "-out", f"{name}.crt"], check=True, cwd=tmp_path)

    made("ca")
    for user in ("broker", *wires.USERS):
        signed = ("-CA", "ca.crt", "-CAkey", "ca.key")
        made(user, *signed, "-addext", "subjectAltName=DNS:localhost")
    made("stranger")
    return tmp_path


def first_of(topic):
    """Return a list that the first message of a topic enters when it comes."""
    first = []
    listen = threading.Thread(target=lambda: first.append(next(iter(topic))))
    listen.daemon = True
    listen.start()
    return first


@pytest.mark.slow
def test_certificates_say_who_connects_and_what_they_read(certificates, monkeypatch):
    """The example's configuration of a broker in a network, with mutual TLS."""
    folder = certificates
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    text = (wires.ACL.with_name("mosquitto.conf")).read_text()
    text = text.replace("/etc/privcontrol", str(folder)).replace("8883", str(port))
    (folder / "broker.conf").write_text(f"{text}user root\n")
    (folder / "acl").write_text(wires.ACL.read_text())

    def topic(user, name):
        monkeypatch.setenv("PRIVCONTROL_MQTT_CA", str(folder / "ca.crt"))
        monkeypatch.setenv("PRIVCONTROL_MQTT_CERT", str(folder / f"{user}.crt"))
        monkeypatch.setenv("PRIVCONTROL_MQTT_KEY", str(folder / f"{user}.key"))
        return Topic(f"mqtts://localhost:{port}/{name}")

    broker = subprocess.Popen([wires.MOSQUITTO, "-c", folder / "broker.conf"])
    try:
        wires.wait_for(port)
        with (
            topic("gateway", "readings") as readings,
            topic("cloud", "readings") as spied,
            topic("sensor", "readings") as sensor,
            topic("cloud", "readings") as forger,
        ):
            heard = first_of(readings)
            secret = first_of(spied)
            deadline = time.monotonic() + 120
            while not heard and time.monotonic() < deadline:
                forger.send({"index": 0, "y": 9.0})
                sensor.send({"index": 0, "y": 1.0})
                time.sleep(0.05)
            assert heard == [b'{"index": 0, "y": 1.0}'] and not secret
        with pytest.raises(OSError), topic("stranger", "readings"):
            pass
        monkeypatch.setenv("PRIVCONTROL_MQTT_CA", str(folder / "stranger.crt"))
        other = Topic(f"mqtts://localhost:{port}/readings")
        with pytest.raises(ssl.SSLCertVerificationError), other:
            pass
    finally:
        broker.kill()
        broker.wait()


@pytest.mark.parametrize(
    "address", ["mqtt://user:word@host/y", "mqtt://host", "mqtt://host/#", "mqtt:///y"]
)
def test_addresses_without_secrets_and_wildcards(address):
    with pytest.raises(ValueError, match=r"address: expected") as error:
        Topic(address)
    assert "word@" not in str(error.value)


def test_a_broker_that_is_away_is_tried_again():
    with pytest.raises(OSError), Topic("mqtt://127.0.0.1:9/y"):
        pass


class Dying(MQTTMessageInfo):
    """What a client does to a message if it loses its connection while it waits."""

    def wait_for_publish(self, timeout=None):
        self.rc = MQTTErrorCode.MQTT_ERR_CONN_LOST
        self._set_as_published()
        super().wait_for_publish(timeout)


def test_a_value_that_is_under_way_when_the_broker_dies_is_lost(monkeypatch, caplog):
    topic = Topic("mqtt://127.0.0.1/published")
    monkeypatch.setattr(topic._client, "publish", lambda *_, **__: Dying(1))
    topic.send({"index": 3, "y": 1.0})
    assert caplog.messages == ["sample 3 does not reach the broker"]
