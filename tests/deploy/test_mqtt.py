"""A broker of its own on loopback; tests/stress/kill_brokers.py has more of it."""

import shutil
import socket
import ssl
import subprocess
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path

import pytest

pytest.importorskip("paho.mqtt")
sys.path.insert(0, str(Path(__file__).parents[1] / "stress"))

import fault_commands
import kill_brokers
import wires
from command import start
from gateway_cases import noise

from privcontrol.deploy import Topic, command as module


@pytest.mark.slow
@pytest.mark.skipif(wires.MOSQUITTO is None, reason="no mosquitto here")
def test_what_passes_a_broker_arrives_once_and_in_order():
    """Kills of gateway and broker, a wrong password, repeated and oversized readings."""
    kill_brokers.run(readings=300, rate=100, kills=8, brokers=2)


@pytest.mark.slow
@pytest.mark.skipif(wires.MOSQUITTO is None, reason="no mosquitto here")
def test_faults_of_broker_and_signals_end_in_publishing_or_an_exit():
    """The relay and the client's thread waited for each other within 100 readings."""
    found = fault_commands.run(40, seed=4, report=lambda line: None)
    assert sum(found.values()) == 40


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
                with pytest.raises(PermissionError, match="write the topic"):
                    forger.send({"index": 0, "y": 9.0})
                sensor.send({"index": 0, "y": 1.0})
                time.sleep(0.05)
            assert heard == [b'{"index": 0, "y": 1.0}']
            assert not secret
        with (
            pytest.raises(OSError, match="broker ends the connection"),
            topic("stranger", "readings"),
        ):
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


def refused(folder, broker, acl=None, source="readings", sink="published"):
    """Return the exit code and the errors of the command at such a broker."""
    if acl is not None:
        (folder / "acl").write_text(acl)
    noise("endless floored").save(folder / "noise.json")
    address = f"mqtt://127.0.0.1:{broker.port}"
    ends = ("--source", f"{address}/{source}" if "/" not in source else source)
    return start(
        *("publish", folder / "noise.json", "--state", folder / "state", *ends),
        *("--sink", f"{address}/{sink}"),
        env={
            "PRIVCONTROL_MQTT_USER": "gateway",
            "PRIVCONTROL_MQTT_PASSWORD": broker.words["gateway"],
        },
        stderr=subprocess.PIPE,
        text=True,
    )


@pytest.mark.skipif(wires.MOSQUITTO is None, reason="no mosquitto here")
def test_a_broker_that_does_not_take_what_is_sent_ends_the_command(tmp_path):
    """It dropped each message without a word, and the command went on for ever."""
    source = tmp_path / "readings.jsonl"
    source.write_text('{"t": 0.25}\n' * 3)
    with wires.Broker(tmp_path) as broker:
        process = refused(tmp_path, broker, source=str(source), sink="elsewhere")
        said = process.communicate(timeout=60)[1]
    assert process.returncode == 1
    assert "does not let this user write the topic 'elsewhere'" in said


@pytest.mark.skipif(wires.MOSQUITTO is None, reason="no mosquitto here")
def test_a_password_that_is_revoked_at_a_restart_ends_the_command(tmp_path):
    with wires.Broker(tmp_path) as broker:
        process = refused(tmp_path, broker)
        connected = 0
        for line in process.stderr:
            connected += "broker: Success" in line
            if connected == 2:  # for the source and for the sink
                break
        broker.__exit__()
        words = (tmp_path / "passwords").read_text().splitlines()
        kept = [line for line in words if not line.startswith("gateway:")]
        (tmp_path / "passwords").write_text("\n".join(kept) + "\n")
        broker.__enter__()
        began = time.monotonic()
        said = process.communicate(timeout=60)[1]
        took = time.monotonic() - began
    assert "refuses to serve" in said
    assert process.returncode == 1
    assert took < 10


def answers(connection, *packets):
    """Answer each packet of a client with the next one, None for the end."""
    with suppress(OSError), connection:
        for packet in packets:
            if packet is None or not connection.recv(4096):
                return
            connection.sendall(packet)
        while connection.recv(4096):
            pass


CONNACK = bytes([0x20, 3, 0, 0, 0])
#: What a broker says, the error, and where.
REFUSALS = {
    "suback": ((CONNACK, bytes([0x90, 4, 0, 1, 0, 0x87])), PermissionError, "read"),
    "silence": ((), TimeoutError, "says nothing"),
    "no suback": ((CONNACK,), TimeoutError, "does not answer"),
    "ended": ((CONNACK, None), ConnectionError, "ends every connection"),
    "busy": ((bytes([0x20, 3, 0, 0x89, 0]),), ConnectionError, "Server busy"),
    "banned": ((bytes([0x20, 3, 0, 0x8A, 0]),), PermissionError, "Banned"),
    "old": ((bytes([0x20, 2, 0, 1]),), ConnectionError, "ends the connection"),
}


@pytest.mark.parametrize("kind", list(REFUSALS))
def test_a_broker_that_refuses_ends_the_wait_within_ten_seconds(kind, monkeypatch):
    """A subscription that is refused (SUBACK 0x80) was waited behind for ever."""
    packets, error, words = REFUSALS[kind]
    monkeypatch.setattr(module, "_PATIENCE", 1.0)
    monkeypatch.setattr(module, "_PAUSE", 0.1)
    began = time.monotonic()
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve():
            with suppress(OSError):
                while True:
                    arguments = (server.accept()[0], *packets)
                    threading.Thread(
                        target=answers, args=arguments, daemon=True
                    ).start()

        threading.Thread(target=serve, daemon=True).start()
        address = f"mqtt://127.0.0.1:{server.getsockname()[1]}/readings"
        with pytest.raises(error, match=words), Topic(address) as topic:
            next(iter(topic))
        server.close()
    assert time.monotonic() - began < 10


def test_a_broker_that_is_away_is_tried_again():
    with pytest.raises(ConnectionRefusedError), Topic("mqtt://127.0.0.1:9/y"):
        pass


def test_a_value_without_a_connection_is_lost_and_said_once(caplog):
    topic = Topic("mqtt://127.0.0.1:9/published")
    topic.send({"index": 3, "y": 1.0})
    topic.send({"index": 4, "y": 1.0})
    assert caplog.messages == ["sample 3 does not reach the broker"]
