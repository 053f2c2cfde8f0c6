"""Follow the deployment page by its commands alone, in a fresh clone and environment.

    python tests/stress/fresh_machine.py

Each command is printed with its time, then what was installed, and what the command takes
from its start to the first published value.
"""

import json
import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).parents[2]
SIZES = """
import importlib.metadata as metadata
sizes = {}
for found in metadata.distributions():
    files = [found.locate_file(file) for file in found.files or ()]
    sizes[found.name] = sum(file.stat().st_size for file in files if file.exists())
for name, size in sorted(sizes.items(), key=lambda entry: -entry[1]):
    print(f"{size / 1e6:8.1f} MB  {name}")
print(f"{sum(sizes.values()) / 1e6:8.1f} MB  together")
"""


def commands(page):
    """Return the commands of a page, in order."""
    text = page.read_text(encoding="utf8")
    blocks = re.findall(r"^```console\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    return re.findall(r"^\$ (.*)$", "".join(blocks), re.MULTILINE)


def timed(command, folder, **options):
    began = time.monotonic()
    subprocess.run(command, cwd=folder, check=True, **options)
    return time.monotonic() - began


def follow(folder):
    """Run the page's commands in a clone, as a shell does."""
    timed(["git", "clone", "--quiet", str(ROOT), "."], folder)
    environment = {"PATH": os.environ["PATH"], "HOME": str(folder)}
    total = 0.0
    for command in commands(folder / "docs" / "deployment.md"):
        took = timed(
            ["bash", "-euo", "pipefail", "-c", command], folder, env=environment
        )
        total += took
        print(f"[{took:.1f} s] {command}", flush=True)
    print(f"[{total:.1f} s] all commands of the page")


def first_value(folder):
    """Return time, processor time and memory of the command up to its first value."""
    command = ["device/bin/privcontrol", "publish", "rooms/loop.json"]
    command += ["--state", "rooms/timed.sqlite"]
    began = time.monotonic()
    process = subprocess.Popen(
        command,
        cwd=folder,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=dict(os.environ, OMP_NUM_THREADS="1", PYTHONPATH=""),
    )
    process.stdin.write(b'{"T east": 0.1, "T west": -0.2}\n')
    process.stdin.close()
    assert json.loads(process.stdout.readline())["index"] == 0
    took = time.monotonic() - began
    usage = os.wait4(process.pid, 0)[2]
    return took, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        follow(folder)
        subprocess.run([folder / "device/bin/python", "-c", SIZES], check=True)
        for _ in range(3):
            (folder / "rooms/timed.sqlite").unlink(missing_ok=True)
            (folder / "rooms/timed.sqlite.lock").unlink(missing_ok=True)
            took, processor, memory = first_value(folder)
            print(
                f"first value after {took:.1f} s, {processor:.1f} s of processor time, "
                f"{memory:.0f} MB of memory; Python {sys.version.split()[0]}"
            )
