"""Do the tests notice when the code is wrong? A list of mutants, and what kills them.

Each mutant changes one place of the package to something that claims too much privacy or
gives a wrong number. The runner applies it to a copy, runs the tests that ought to fail,
and prints the score. A mutant whose text is no longer in the file is an error: the list
follows the code.

    python tests/mutants/run.py
    python tests/mutants/run.py --only ledger
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
import tomllib
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
LIST = Path(__file__).with_name("mutants.toml")


@dataclass(frozen=True)
class Mutant:
    """One wrong line: where it stands, what it replaces, and the tests that notice."""

    file: str
    old: str
    new: str
    tests: tuple[str, ...]

    def applied(self, copy: Path) -> str:
        """Change the file in a copy of the package; returns the original text."""
        path = copy / "privcontrol" / self.file
        text = path.read_text(encoding="utf8")
        count = text.count(self.old)
        if count != 1:
            raise SystemExit(f"{self.file}: {self.old!r} stands there {count} times")
        path.write_text(text.replace(self.old, self.new), encoding="utf8")
        return text

    def is_killed(self, copy: Path) -> bool:
        """Whether the tests fail with the wrong line."""
        original = self.applied(copy)
        environment = os.environ | {
            "PYTHONPATH": str(copy),
            "PYTHONDONTWRITEBYTECODE": "1",
            "MPLBACKEND": "Agg",
        }
        command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider"]
        run = subprocess.run(
            [*command, *self.tests],
            cwd=copy,
            env=environment,
            capture_output=True,
            text=True,
        )
        (copy / "privcontrol" / self.file).write_text(original, encoding="utf8")
        if run.returncode not in (0, 1):
            raise SystemExit(f"{self.file}: pytest did not run\n{run.stdout[-2000:]}")
        return run.returncode == 1


def read_mutants() -> list[Mutant]:
    """The mutants of the list beside this file."""
    entries = tomllib.loads(LIST.read_text(encoding="utf8"))["mutant"]
    return [Mutant(**entry | {"tests": tuple(entry["tests"])}) for entry in entries]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", default="", help="part of a file's name")
    only = parser.parse_args().only
    mutants = [mutant for mutant in read_mutants() if only in mutant.file]
    survivors = []
    start = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder)
        for name in ("privcontrol", "tests", "examples"):
            shutil.copytree(ROOT / name, copy / name)
        for name in ("pyproject.toml", "README.md"):
            shutil.copy(ROOT / name, copy)
        for mutant in mutants:
            killed = mutant.is_killed(copy)
            print("killed  " if killed else "SURVIVED", mutant.file, mutant.new.strip())
            if not killed:
                survivors.append(mutant)
    killed = len(mutants) - len(survivors)
    seconds = time.perf_counter() - start
    print(f"{killed} of {len(mutants)} mutants killed in {seconds:.0f} s")
    sys.exit(bool(survivors))


if __name__ == "__main__":
    main()
