"""Which numeric thresholds does no test notice?

A threshold is a constant of a module, in capitals, that is a number or a tuple of
numbers. Each is moved by ten times, down and up, in a copy of the package, and the tests
of its file are run. Printed is what no test notices in either direction; it gets a test
or goes.

A number that decides how long something takes, or how much memory, and nothing that a
user reads, says so: the comment above it begins with ``Speed:``. With ``--speed`` those
are moved instead, and what a test notices is printed, since it is more than speed.

The tests of a threshold are those that ``thresholds.toml`` names for it, or for its file.
Without them they are those that ``functions.toml`` names for the functions of its file
that read it, or for all of its file.

    python tests/mutants/thresholds.py --list
    python tests/mutants/thresholds.py --only privacy.joint --only privacy.radial
    python tests/mutants/thresholds.py --speed
    python tests/mutants/thresholds.py --share .05 --seed 3
"""

import argparse
import ast
import random
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
import run

PACKAGE = run.ROOT / "privcontrol"
MORE = Path(__file__).with_name("thresholds.toml")
#: How many times longer than without a change tests may take, and some seconds more.
SLOWER, PATIENCE = 4, 60


@dataclass(frozen=True)
class Threshold:
    """A named number of a module, ``module:NAME``, where it stands, and its comment."""

    name: str
    value: ast.expr
    comment: str

    @property
    def is_speed(self) -> bool:
        """Whether its comment says that it decides on time or memory alone."""
        return self.comment.startswith("Speed:")

    def moved(self, factor: int) -> str | None:
        """The number ten times as large or as small, None where that changes nothing."""
        before, after = value_of(self.value), shifted(self.value, factor)
        return None if after == before else repr(after)


def value_of(node: ast.expr):
    """The value of an expression of numbers."""
    return eval(compile(ast.Expression(node), "threshold", "eval"), {})


def shifted(node: ast.expr, factor: int):
    """The value of an expression of numbers, moved; in 1 - x and 1 + x it is x that moves."""
    if isinstance(node, ast.Tuple):
        return tuple(shifted(one, factor) for one in node.elts)
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add | ast.Sub):
        sign = 1 if isinstance(node.op, ast.Add) else -1
        return value_of(node.left) + sign * shifted(node.right, factor)
    value = value_of(node)
    if factor > 1:
        return value * 10
    # a count stays one
    return value / 10 if isinstance(value, float) else value // 10 or min(value, 1)


def is_number(node: ast.expr) -> bool:
    if isinstance(node, ast.UnaryOp):
        return is_number(node.operand)
    if isinstance(node, ast.BinOp):
        return is_number(node.left) and is_number(node.right)
    if isinstance(node, ast.Tuple):
        return bool(node.elts) and all(map(is_number, node.elts))
    return isinstance(node, ast.Constant) and type(node.value) in (int, float)


def comment_above(lines: list[str], row: int) -> str:
    """The comment above a line, of which lines of numbers may stand in between."""
    row -= 1
    while row >= 0 and not lines[row].startswith("#") and lines[row].strip():
        row -= 1
    last = row
    while row >= 0 and lines[row].startswith("#"):
        row -= 1
    return " ".join(line.lstrip("#: ") for line in lines[row + 1 : last + 1])


def in_module(path: Path) -> Iterator[Threshold]:
    """The thresholds of a module."""
    text = path.read_text(encoding="utf8")
    lines = text.split("\n")
    module = ".".join(path.relative_to(PACKAGE).with_suffix("").parts)
    for node in ast.parse(text).body:
        if not isinstance(node, ast.Assign) or not is_number(node.value):
            continue
        (target,) = node.targets
        packed = isinstance(target, ast.Tuple)
        names = target.elts if packed else [target]
        values = node.value.elts if packed else [node.value]
        for name, value in zip(names, values, strict=True):
            if isinstance(name, ast.Name) and name.id.strip("_").isupper():
                comment = comment_above(lines, node.lineno - 1)
                yield Threshold(f"{module}:{name.id}", value, comment)


def thresholds() -> list[Threshold]:
    """Every threshold of the package."""
    return [one for path in sorted(PACKAGE.rglob("*.py")) for one in in_module(path)]


def more() -> dict[str, list[str]]:
    """The tests of files, by module, and of thresholds, by ``module:NAME``."""
    return tomllib.loads(MORE.read_text(encoding="utf8"))


def tests_of(name: str) -> tuple[str, ...]:
    """The tests that ought to notice a threshold."""
    module, _, constant = name.partition(":")
    listed = run.functions()
    inside = [key for key in listed if key.partition(":")[0] == module]
    tree = ast.parse(run.module_path(run.ROOT, name).read_text(encoding="utf8"))

    def reads(function: str) -> bool:
        body = ast.walk(run.found(tree, function.partition(":")[2]))
        return any(isinstance(node, ast.Name) and node.id == constant for node in body)

    own = more()
    tests = own.get(name) or own.get(module)
    if tests is None:
        chosen = [key for key in inside if reads(key)] or inside
        tests = [test for key in chosen for test in listed[key]]
    files = {test for test in tests if "::" not in test}
    return tuple(
        test
        for test in dict.fromkeys(tests)
        if test in files or test.partition("::")[0] not in files
    )


@dataclass(frozen=True)
class Moved(run.Mutant):
    """A threshold that is moved: its place is where the number stands."""

    new: str = ""

    def written(self, text: str) -> tuple[str, str]:
        lines = text.split("\n")
        constant = self.function.partition(":")[2]
        for node in ast.parse(text).body:
            if not isinstance(node, ast.Assign):
                continue
            (target, *_), value = node.targets, node.value
            packed = isinstance(target, ast.Tuple)
            names = target.elts if packed else [target]
            place = [getattr(name, "id", "") == constant for name in names]
            if any(place):
                old = value.elts[place.index(True)] if packed else value
                return replaced(lines, old, self.new), ast.unparse(old)
        raise SystemExit(f"{self.function} is no longer there")


def replaced(lines: list[str], old: ast.expr, new: str) -> str:
    """A text with another expression in the place of one."""
    before = lines[old.lineno - 1][: old.col_offset]
    after = lines[old.end_lineno - 1][old.end_col_offset :]
    lines[old.lineno - 1 : old.end_lineno] = [f"{before}({new}){after}"]
    return "\n".join(lines)


class Trial:
    """A copy of the package in which thresholds are moved."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._seconds: dict[tuple[str, ...], float] = {}
        run.copied(folder)

    def _usual(self, tests: tuple[str, ...]) -> float:
        """How long tests take, which pass, without a change."""
        if tests not in self._seconds:
            start = time.perf_counter()
            if not run.passes(self._folder, tests):
                raise SystemExit(f"{tests} fail without a change")
            self._seconds[tests] = time.perf_counter() - start
        return self._seconds[tests]

    def noticed(self, one: Threshold, factor: int) -> str:
        """What happens to the tests when a threshold is moved."""
        new = one.moved(factor)
        if new is None:
            return "the same number"
        tests = tests_of(one.name)
        if not tests:
            return "no tests are named"
        seconds = SLOWER * self._usual(tests) + PATIENCE
        mutant = Moved(one.name, "moved", factor, tests, new)
        path = run.module_path(self._folder, one.name)
        original = path.read_text(encoding="utf8")
        path.write_text(mutant.written(original)[0], encoding="utf8")
        try:
            return "passed" if run.passes(self._folder, tests, seconds) else "failed"
        except subprocess.TimeoutExpired:
            return "slow"
        finally:
            path.write_text(original, encoding="utf8")


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument(
        "--only", action="append", help="part of a threshold's name, may come again"
    )
    parser.add_argument("--speed", action="store_true", help="those of speed alone")
    parser.add_argument("--share", type=float, default=1.0, help="of them, drawn")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--list", action="store_true", help="name them, run nothing")
    parser.add_argument("--least", type=float, default=0.0, help="share, to pass")
    given = parser.parse_args()
    parts = given.only or [""]
    every = [one for one in thresholds() if any(part in one.name for part in parts)]
    asked = [one for one in every if one.is_speed == given.speed]
    if given.list:
        for one in every:
            print(one.name, ast.unparse(one.value), "speed" if one.is_speed else "")
        speed = sum(one.is_speed for one in every)
        print(f"{len(every)} thresholds, {speed} of them of speed alone")
        return 0
    number = min(len(asked), max(1, round(given.share * len(asked))))
    asked = random.Random(given.seed).sample(asked, number)
    right = 0
    with tempfile.TemporaryDirectory() as folder:
        trial = Trial(Path(folder))
        for one in sorted(asked, key=lambda one: one.name):
            seen = {}
            for factor, way in ((-10, "down"), (10, "up")):
                seen[way] = trial.noticed(one, factor)
                if seen[way] == "failed":
                    break
            noticed = "failed" in seen.values()
            right += noticed != given.speed
            word = "noticed" if noticed else "nothing"
            told = ", ".join(f"{way}: {what}" for way, what in seen.items())
            print(word, one.name, told, sep="  ", flush=True)
    kind = "of speed are noticed by nothing" if given.speed else "are noticed"
    print(f"{right} of {len(asked)} thresholds {kind}")
    return int(right < given.least * len(asked))


if __name__ == "__main__":
    sys.exit(main())
