"""A broker of its own on loopback; tests/stress/kill_brokers.py has more of it."""

import sys
from pathlib import Path

import pytest

pytest.importorskip("paho.mqtt")
sys.path.insert(0, str(Path(__file__).parents[1] / "stress"))

import kill_brokers
import wires
from paho.mqtt.client import MQTTErrorCode, MQTTMessageInfo

from privcontrol.deploy.mqtt import Topic


@pytest.mark.slow
@pytest.mark.skipif(wires.MOSQUITTO is None, reason="no mosquitto here")
def test_what_passes_a_broker_arrives_once_and_in_order():
    """Kills of gateway and broker, a wrong password, repeated and oversized readings."""
    kill_brokers.run(readings=200, rate=100, kills=2, brokers=1)


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
