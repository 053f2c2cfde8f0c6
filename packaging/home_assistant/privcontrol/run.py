"""Announce the published outputs to Home Assistant, then publish readings with noise.

The folder /share/privcontrol holds noise.json and, before the first start, the
gateway.sqlite that ``privcontrol begin`` made from it. That file is moved into the
add-on's own folder: a copy that stayed behind could publish the same samples again.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
from pathlib import Path
from urllib.request import Request, urlopen

import paho.mqtt.client as mqtt
from paho.mqtt.enums import CallbackAPIVersion

DATA = Path(os.environ.get("PRIVCONTROL_DATA", "/data"))
SHARE = Path(os.environ.get("PRIVCONTROL_SHARE", "/share/privcontrol"))
#: Seconds that a broker and the supervisor have for an answer.
PATIENCE = 10


def main() -> None:
    options = json.loads((DATA / "options.json").read_text(encoding="utf-8"))
    design = SHARE / "noise.json"
    state = taken_over(SHARE / "gateway.sqlite", DATA / "gateway.sqlite")
    broker = broker_of(options)
    announce(broker, options, outputs_of(design))
    place = f"mqtt://{broker['host']}:{broker['port']}"
    os.environ |= credentials(broker)
    command = ["privcontrol", "publish", str(design), "--state", str(state)]
    command += ["--most-lost", str(options["most_lost"])]
    command += ["--source", f"{place}/{options['readings']}"]
    command += ["--sink", f"{place}/{options['published']}"]
    os.execvp(command[0], command)


def taken_over(begun: Path, state: Path) -> Path:
    """Move the begun file to its place, unless one is there."""
    if state.exists():
        if begun.exists():
            sys.exit(
                f"{begun}: expected no file, since the run goes on with the add-on's "
                "own; take it away"
            )
        return state
    if not begun.exists():
        sys.exit(
            f"{begun}: expected the file of a gateway; make it where the noise was "
            "designed: privcontrol begin noise.json --state gateway.sqlite"
        )
    shutil.move(begun, state)
    state.chmod(0o600)
    return state


def broker_of(options: dict) -> dict:
    """Return where the broker is: as the options say, or as the supervisor knows it."""
    if options.get("mqtt_host"):
        return {
            "host": options["mqtt_host"],
            "port": options.get("mqtt_port") or 1883,
            "username": options.get("mqtt_user"),
            "password": options.get("mqtt_password"),
        }
    asked = Request(
        "http://supervisor/services/mqtt",
        headers={"Authorization": f"Bearer {os.environ['SUPERVISOR_TOKEN']}"},
    )
    with urlopen(asked, timeout=PATIENCE) as answer:
        return json.load(answer)["data"]


def credentials(broker: dict) -> dict[str, str]:
    """Return what the command is told by its environment, no password among it."""
    if not broker.get("username"):
        return {}
    file = DATA / "password"
    file.touch(mode=0o600)
    file.write_text(broker.get("password") or "", encoding="utf-8")
    return {
        "PRIVCONTROL_MQTT_USER": broker["username"],
        "PRIVCONTROL_MQTT_PASSWORD_FILE": str(file),
    }


def outputs_of(design: Path) -> list[str]:
    """Return the names of the outputs in a design file of a noise or a loop."""
    content = json.loads(design.read_text(encoding="ascii"))
    noise = content["noise"] if content["kind"] == "privateloop" else content
    return noise["plant"]["outputs"]


def announce(broker: dict, options: dict, outputs: list[str]) -> None:
    """Tell Home Assistant of a sensor for each output; the broker keeps that."""
    client = mqtt.Client(CallbackAPIVersion.VERSION2)
    if broker.get("username"):
        client.username_pw_set(broker["username"], broker.get("password"))
    client.connect(broker["host"], int(broker["port"]))
    client.loop_start()
    units = [*options["units"], *[""] * len(outputs)]
    for output, unit in zip(outputs, units, strict=False):
        topic, sensor = discovered(options, output, unit)
        sent = client.publish(topic, json.dumps(sensor), qos=1, retain=True)
        sent.wait_for_publish(PATIENCE)
    client.disconnect()
    client.loop_stop()


def discovered(options: dict, output: str, unit: str) -> tuple[str, dict]:
    """Return the topic and the message by which an output is discovered."""
    slug = re.sub(r"\W+", "_", f"{options['name']} {output}".lower())
    sensor = {
        "name": f"{options['name']} {output}",
        "unique_id": f"privcontrol_{slug}",
        "state_topic": options["published"],
        "value_template": f"{{{{ value_json[{output!r}] }}}}",
        "state_class": "measurement",
        "device": {"identifiers": ["privcontrol"], "name": "privcontrol"},
    }
    if unit:
        sensor["unit_of_measurement"] = unit
    return f"{options['discovery']}/sensor/privcontrol/{slug}/config", sensor


if __name__ == "__main__":
    main()
