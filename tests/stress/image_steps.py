"""Build and run the gateway's image, or do its steps where docker is missing.

Without docker each RUN of the first stage is run by a shell, with a folder of this run in
the place of /opt/privcontrol. Then the container's command publishes readings, and its
health check is asked before, while and after it runs.

    python tests/stress/image_steps.py             docker where it runs, else the steps
    python tests/stress/image_steps.py --steps     the steps
"""

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).parents[2]
DOCKERFILE = ROOT / "packaging" / "docker" / "Dockerfile"
#: MB of python:3.13-slim on amd64, as `docker image ls` gives them.
BASE = 125
MOST = 300
READINGS = 1000
NOBODY = {"user": 65534, "group": 65534}


def design(folder: Path) -> None:
    """Design noise, and make the gateway's file beside it, as a user does at home."""
    import privcontrol as pc
    from privcontrol.deploy import main

    noise = pc.design_output_noise(
        pc.plants.vehicle(),
        budget=pc.PrivacyBudget(epsilon=1.0, delta=1e-2),
        adjacency=pc.StateAdjacency({"position": 1.0}),
        horizon=2 * READINGS,
        floor=0.1,
        resolution=0.001,
    )
    file, state = folder / "noise.json", folder / "gateway.sqlite"
    noise.save(file)
    if main(["begin", str(file), "--state", str(state), "--resolution", "0.001"]):
        raise SystemExit("the gateway's file was not made")


def instructions(stage: int) -> list[tuple[str, str]]:
    """Return the instructions of a stage of the Dockerfile, with their arguments."""
    text = re.sub(r"\\\n\s*", " ", DOCKERFILE.read_text())
    kept = [line for line in text.splitlines() if line and not line.startswith("#")]
    stages = re.split(r"^FROM .*$", "\n".join(kept), flags=re.MULTILINE)[1:]
    lines = stages[stage].strip().splitlines()
    return [tuple(line.split(maxsplit=1)) for line in lines]


def by_steps(folder: Path) -> None:
    """Do what the Dockerfile says, with folders of this run."""
    prefix, source, data = folder / "prefix", folder / "source", folder / "data"
    aside = shutil.ignore_patterns(".git", "_build", ".mypy_cache", ".ruff_cache")
    shutil.copytree(ROOT, source, ignore=aside)
    kept = ("HOME", "TMPDIR", "PIP_CERT", "PIP_INDEX_URL", "PIP_CONSTRAINT")
    environment = {name: os.environ[name] for name in kept if name in os.environ}
    # the system's Python, which other users may run
    environment |= {"PREFIX": str(prefix), "PATH": "/usr/bin:/bin"}
    started = time.monotonic()
    for name, arguments in instructions(0):
        if name == "RUN":
            print(f"RUN {arguments}", flush=True)
            subprocess.run(
                arguments, shell=True, check=True, cwd=source, env=environment
            )
    files = [file for file in prefix.rglob("*") if not file.is_symlink()]
    size = sum(file.stat().st_blocks * 512 for file in files) // 10**6
    print(f"{time.monotonic() - started:.0f} s; {size} MB, with the base {size + BASE}")
    check_size(size + BASE)
    told = dict(instructions(1))
    if told["USER"] in ("root", "0"):
        raise SystemExit("expected a user other than root")

    def here(text: str) -> str:
        return text.replace("/opt/privcontrol", str(prefix)).replace("/data", str(data))

    command = json.loads(here(told["ENTRYPOINT"])) + json.loads(here(told["CMD"]))
    check = here(told["HEALTHCHECK"].partition("CMD ")[2])
    user = NOBODY if os.getuid() == 0 else {}
    if user:
        folder.chmod(0o755)
        for place in (data, *data.iterdir()):
            os.chown(place, NOBODY["user"], NOBODY["group"])

    def is_healthy() -> bool:
        return subprocess.run(check, shell=True, **user).returncode == 0

    environment = {"PATH": os.environ["PATH"], "OMP_NUM_THREADS": "1"}
    publish(command, is_healthy, env=environment, **user)


def by_docker(folder: Path) -> None:
    """Build the image, and run it."""
    build = ["docker", "build", "--tag", "privcontrol-gateway", "--file", DOCKERFILE]
    subprocess.run([*build, ROOT], check=True)
    asked = ["docker", "image", "inspect", "--format", "{{.Size}}"]
    size = int(subprocess.check_output([*asked, "privcontrol-gateway"])) // 10**6
    print(f"{size} MB")
    check_size(size)
    data = folder / "data"
    for place in (data, *data.iterdir()):
        place.chmod(0o777 if place.is_dir() else 0o666)
    run = ["docker", "run", "--rm", "--interactive", "--name", "privcontrol-gateway"]
    check = ["docker", "exec", "privcontrol-gateway", "sh", "-c"]
    inside = dict(instructions(1))["HEALTHCHECK"].partition("CMD ")[2]

    def is_healthy() -> bool:
        return (
            subprocess.run([*check, inside], stderr=subprocess.DEVNULL).returncode == 0
        )

    publish(
        [*run, "--volume", f"{data}:/data", "privcontrol-gateway"],
        is_healthy,
    )


def check_size(size: int) -> None:
    if size >= MOST:
        raise SystemExit(f"expected an image below {MOST} MB, got {size} MB")


def publish(command, is_healthy, **options) -> None:
    """Publish readings in two runs; no index is lost between them."""
    seen = []
    for _ in range(2):
        if is_healthy():
            raise SystemExit("the health check passes where nothing runs")
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
        started = time.monotonic()
        process = subprocess.Popen(command, **pipes, **options)
        process.stdin.write('{"y": -20.0}\n')
        process.stdin.flush()
        seen.append(json.loads(process.stdout.readline())["index"])
        print(f"first value after {time.monotonic() - started:.2f} s")
        if not is_healthy():
            raise SystemExit("the health check fails while the gateway runs")
        out, _ = process.communicate('{"y": -20.0}\n' * (READINGS // 2 - 1))
        seen += [json.loads(line)["index"] for line in out.splitlines()]
        if process.returncode:
            raise SystemExit(f"the gateway ended with {process.returncode}")
    if seen != list(range(READINGS)):
        raise SystemExit(f"expected {READINGS} samples in order, got {len(seen)}")
    print(f"{len(seen)} readings published in order, one restart, healthy")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", action="store_true")
    steps = parser.parse_args().steps
    has_docker = False
    if shutil.which("docker") and not steps:
        asked = subprocess.run(["docker", "info"], capture_output=True)
        has_docker = asked.returncode == 0
    sys.path.insert(0, str(ROOT))
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "data").mkdir()
        design(folder / "data")
        (by_docker if has_docker else by_steps)(folder)


if __name__ == "__main__":
    main()
