"""How long a relay waits for a broker, and how much it holds: the numbers, on a clock."""

import logging

import pytest

pytest.importorskip("paho.mqtt")

from gateway_cases import noise
from paho.mqtt.client import Client

import privcontrol as pc
from privcontrol.deploy import Relay, Topic, command as module

ADDRESS = "mqtt://127.0.0.1:9/readings"


class Clock:
    """The time that the module sees."""

    def __init__(self):
        self.now = 1000.0

    def monotonic(self):
        return self.now


@pytest.fixture
def clock(monkeypatch):
    found = Clock()
    monkeypatch.setattr(module, "time", found)
    return found


def test_a_broker_that_does_not_answer_is_waited_for_six_seconds(clock):
    protocol = Topic(ADDRESS)._protocol
    connection = module._Connection("readings", protocol, print)
    connection._awaited[1] = clock.now
    clock.now += 5.9
    connection.check()
    clock.now += 0.2
    with pytest.raises(TimeoutError, match="does not answer"):
        connection.check()


def test_a_connection_is_tried_again_once_in_a_second(clock, monkeypatch):
    topic = Topic(ADDRESS)
    tried = []

    def away():
        tried.append(clock.now)
        topic._tried = clock.now
        raise ConnectionRefusedError

    monkeypatch.setattr(topic, "_connect", away)
    for _ in range(30):
        assert topic._keep_connected() is None
        clock.now += 0.25
    assert tried == [1000.0 + k for k in range(8)]


class Ended:
    """A connection that the broker ended before anything passed over it."""

    is_lost = True
    is_proved = False

    def check(self):
        pass

    def close(self):
        pass


def test_the_fourth_connection_that_is_ended_at_once_is_the_last(clock, monkeypatch):
    topic = Topic(ADDRESS)
    made = []

    def connect():
        topic._tried = clock.now
        topic._connection = Ended()
        made.append(clock.now)

    monkeypatch.setattr(topic, "_connect", connect)
    for _ in range(4):
        topic._keep_connected()
        clock.now += 2.0
    with pytest.raises(ConnectionError, match="ends every connection"):
        topic._keep_connected()
    assert len(made) == 4


def test_a_silent_connection_is_tested_after_ten_seconds(monkeypatch):
    asked = []

    def connect(client, host, port, keepalive):
        asked.append(keepalive)
        raise ConnectionRefusedError

    monkeypatch.setattr(Client, "connect", connect)
    with pytest.raises(ConnectionRefusedError), Topic(ADDRESS):
        pass
    assert asked == [10]


def test_a_thousand_readings_wait_at_most(caplog):
    topic = Topic(ADDRESS)
    for k in range(1002):
        topic._arrived(str(k).encode())
    assert topic._messages.qsize() == 1000
    assert caplog.messages == ["a reading was lost: 1000 are waiting"] * 2


def test_a_reading_of_65536_characters_is_the_longest(caplog):
    caplog.set_level(logging.WARNING, "privcontrol")
    published = []
    with pc.Gateway(noise("ball"), grid=1e-9, floating=True) as gateway:
        texts = [('{"y": 1.0' + " " * blanks + "}") for blanks in (65_526, 65_527)]
        assert [len(text) for text in texts] == [65_536, 65_537]
        Relay(gateway).run(texts, published.append)
    assert len(published) == 1
    assert caplog.messages == ["line 2 refused: it is too long"]
