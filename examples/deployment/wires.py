"""What carries the messages: Debian's mosquitto on loopback, or pipes where it is missing."""

import os
import secrets
import shutil
import socket
import subprocess
import time
from pathlib import Path

MOSQUITTO = shutil.which("mosquitto") or shutil.which("mosquitto", path="/usr/sbin")
ACL = Path(__file__).with_name("acl")
USERS = ("sensor", "gateway", "cloud")
TOPICS = ("readings", "published", "controls")


class Broker:
    """A mosquitto on loopback. Its users have passwords, and its ACL says who reads what."""

    def __init__(self, folder):
        self._folder = folder
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        self.words = {user: secrets.token_urlsafe() for user in USERS}
        passwords = self._written("passwords", _lines(self.words))
        for user, word in self.words.items():
            self._written(f"{user}.word", word)
        subprocess.run(["mosquitto_passwd", "-U", passwords], check=True)
        self._conf = self._written(
            "broker.conf",
            f"listener {self.port} 127.0.0.1\nallow_anonymous false\n"
            f"password_file {passwords}\nacl_file {self._written('acl', ACL.read_text())}\n"
            "max_packet_size 100000\nuser root\n",
        )

    def __enter__(self):
        self._process = subprocess.Popen(
            [MOSQUITTO, "-c", self._conf], stderr=subprocess.DEVNULL
        )
        wait_for(self.port)
        return self

    def __exit__(self, *error):
        self._process.kill()
        self._process.wait()

    def start(self, user, command, hears, says, **options):
        """Start a process between two topics, with its password in a file."""
        address = f"mqtt://127.0.0.1:{self.port}"
        environment = dict(
            os.environ,
            OMP_NUM_THREADS="1",
            PRIVCONTROL_MQTT_USER=user,
            PRIVCONTROL_MQTT_PASSWORD_FILE=str(self._folder / f"{user}.word"),
        )
        ends = ["--source", f"{address}/{hears}", "--sink", f"{address}/{says}"]
        return subprocess.Popen([*command, *ends], env=environment, **options)

    def _written(self, name, text):
        """Write a file that only its owner may read."""
        path = self._folder / name
        path.touch(mode=0o600)
        path.write_text(text)
        return path


def wait_for(port, patience=60.0):
    """Wait until somebody listens at a port of this machine."""
    deadline = time.monotonic() + patience
    while time.monotonic() < deadline:
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
            return
        except OSError:
            time.sleep(0.02)
    raise TimeoutError("the broker does not start")


def _lines(words):
    return "".join(f"{user}:{word}\n" for user, word in words.items())


class Pipes:
    """A pipe for each topic. They outlive a process that is killed."""

    def __enter__(self):
        self._pipes = {topic: os.pipe() for topic in TOPICS}
        return self

    def __exit__(self, *error):
        for ends in self._pipes.values():
            for end in ends:
                os.close(end)

    def start(self, user, command, hears, says, **options):
        """Start a process between two pipes, its standard input and output."""
        return subprocess.Popen(
            command,
            env=dict(os.environ, OMP_NUM_THREADS="1"),
            stdin=self._pipes[hears][0],
            stdout=self._pipes[says][1],
            **options,
        )
