"""Do the tests notice when the code is wrong? Functions, operators, and what kills them.

``functions.toml`` lists the functions that carry a claim, each with the tests that ought
to fail when it is wrong. An operator changes one place of such a function: it turns a
comparison round, swaps plus and minus, takes another constant, drops a check. The runner
writes each such mutant to a copy of the package, runs the tests, and prints who survives.
A function that is no longer there is an error: the list follows the code.

``by_hand.toml`` holds mistakes that no operator makes, each with the text that it changes.
``claims.toml`` names, for every number that a user sees, the functions that it passes
through, each of which stands in one of the two other lists.

    python tests/mutants/run.py --list
    python tests/mutants/run.py --by-hand
    python tests/mutants/run.py --claim PrivacyGuarantee.gdp --share .2
    python tests/mutants/run.py --only privacy.ledger
    python tests/mutants/run.py --operator comparison --share .1 --seed 3
"""

import argparse
import ast
import copy
import math
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
LIST = Path(__file__).with_name("functions.toml")
BY_HAND = Path(__file__).with_name("by_hand.toml")
CLAIMS = Path(__file__).with_name("claims.toml")
#: What pytest writes, in the folder where it runs.
TOLD = "told.txt"
#: Packages that are imported once, and not again by the tests of each mutant.
WHAT_TESTS_IMPORT = (
    "control",
    "flint",
    "hypothesis",
    "matplotlib.pyplot",
    "mpmath",
    "pytest_benchmark.plugin",
    "scipy.optimize",
    "scipy.signal",
    "scipy.stats",
    "xdist.plugin",
)

SWAPPED = {
    ast.Lt: ast.GtE,
    ast.LtE: ast.Gt,
    ast.Gt: ast.LtE,
    ast.GtE: ast.Lt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Div,
    ast.Div: ast.Mult,
}
EXTREMES = {
    "max": "min",
    "min": "max",
    "maximum": "minimum",
    "minimum": "maximum",
    "ceil": "floor",
    "floor": "ceil",
    "any": "all",
    "all": "any",
}


# -- operators: the changed node, or None where there is nothing to change ---------------


def comparison(node: ast.AST) -> ast.AST | None:
    if not isinstance(node, ast.Compare):
        return None
    first = SWAPPED[type(node.ops[0])]()
    return ast.Compare(node.left, [first, *node.ops[1:]], node.comparators)


def arithmetic(node: ast.AST) -> ast.AST | None:
    if not isinstance(node, ast.BinOp) or type(node.op) not in SWAPPED:
        return None
    if isinstance(node.left, ast.Constant) and isinstance(node.left.value, str):
        return None
    return ast.BinOp(node.left, SWAPPED[type(node.op)](), node.right)


def constant(node: ast.AST) -> ast.AST | None:
    if not isinstance(node, ast.Constant) or not isinstance(node.value, float):
        return None
    return ast.Constant(1.1 * node.value + (node.value == 0))


def extreme(node: ast.AST) -> ast.AST | None:
    if isinstance(node, ast.Name) and node.id in EXTREMES:
        return ast.Name(EXTREMES[node.id], node.ctx)
    if isinstance(node, ast.Attribute) and node.attr in EXTREMES:
        return ast.Attribute(node.value, EXTREMES[node.attr], node.ctx)
    return None


def check(node: ast.AST) -> ast.AST | None:
    called = isinstance(node, ast.Expr) and isinstance(node.value, ast.Call)
    return ast.Pass() if called or isinstance(node, ast.Raise) else None


def result(node: ast.AST) -> ast.AST | None:
    """Claim a tenth less; only where a number or an array is returned."""
    if not isinstance(node, ast.Return) or node.value is None:
        return None
    return ast.Return(ast.BinOp(ast.Constant(0.9), ast.Mult(), node.value))


OPERATORS: dict[str, Callable[[ast.AST], ast.AST | None]] = {
    "comparison": comparison,
    "arithmetic": arithmetic,
    "constant": constant,
    "extreme": extreme,
    "check": check,
    "result": result,
}
NUMBERS = {"float", "NDArray"}


class Replaced(ast.NodeTransformer):
    """One node of a tree put in the place of another."""

    def __init__(self, old: ast.AST, new: ast.AST) -> None:
        self.old = old
        self.new = new

    def visit(self, node: ast.AST) -> ast.AST:
        return self.new if node is self.old else self.generic_visit(node)


def body(function: ast.FunctionDef) -> Iterator[ast.AST]:
    """The nodes that run: neither annotations nor the text of errors."""
    waiting: list[ast.AST] = list(function.body)
    while waiting:
        node = waiting.pop(0)
        yield node
        if not isinstance(node, ast.Raise | ast.JoinedStr):
            waiting.extend(ast.iter_child_nodes(node))


def places(function: ast.FunctionDef, operator: str) -> list[ast.AST]:
    if (
        operator == "result"
        and ast.unparse(function.returns or function) not in NUMBERS
    ):
        return []
    return [node for node in body(function) if OPERATORS[operator](node) is not None]


@dataclass(frozen=True)
class Mutant:
    """The nth place that an operator changes in a function, and the tests that notice."""

    function: str
    operator: str
    place: int
    tests: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.function} {self.operator} {self.place}"

    def written(self, text: str) -> tuple[str, str]:
        """Return the module with the mutant in it, and what was changed."""
        function = found(ast.parse(text), self.function.partition(":")[2])
        wrong = copy.deepcopy(function)
        old = places(wrong, self.operator)[self.place]
        new = OPERATORS[self.operator](old)
        shown = f"{ast.unparse(old)}  ->  {ast.unparse(new)}"
        wrong = ast.fix_missing_locations(Replaced(old, new).visit(wrong))
        lines = text.split("\n")
        first = min(node.lineno for node in [function, *function.decorator_list])
        indent = " " * function.col_offset
        inside = [indent + line for line in ast.unparse(wrong).split("\n")]
        lines[first - 1 : function.end_lineno] = inside
        return "\n".join(lines), shown

    def is_killed(self, folder: Path) -> tuple[bool, str]:
        """Whether the tests fail with the mutant, and what it changed."""
        path = module_path(folder, self.function)
        original = path.read_text(encoding="utf8")
        text, shown = self.written(original)
        path.write_text(text, encoding="utf8")
        try:
            return not passes(folder, self.tests), shown
        except subprocess.TimeoutExpired:
            return True, shown
        finally:
            path.write_text(original, encoding="utf8")


def copied(folder: Path) -> None:
    """Copy what tests need to a folder."""
    for part in ("privcontrol", "tests", "examples"):
        shutil.copytree(ROOT / part, folder / part)
    for part in ("pyproject.toml", "README.md"):
        shutil.copy(ROOT / part, folder)


def passes(folder: Path, tests: Sequence[str], seconds: float = 1200) -> bool:
    """Whether tests pass in a copy of the package.

    They run in a copy of this process, which has imported what takes them seconds.

    Raises
    ------
    subprocess.TimeoutExpired
        If they take longer than so many seconds.
    """
    for name in WHAT_TESTS_IMPORT:
        with suppress(ImportError):
            import_module(name)
    process = os.fork()
    if not process:
        os._exit(tested(folder, tests, seconds))
    _, status = os.waitpid(process, 0)
    code = os.waitstatus_to_exitcode(status)
    if code == -signal.SIGALRM:
        raise subprocess.TimeoutExpired("pytest", seconds)
    # 2: an error on import, which notices the mutant as well; below 0: it was killed
    if code > 2:
        told = (folder / TOLD).read_text(encoding="utf8")
        raise SystemExit(f"{tests}: pytest did not run\n{told[-2000:]}")
    return code == 0


def tested(folder: Path, tests: Sequence[str], seconds: float) -> int:
    """Run tests in a folder, in this process, and return what pytest does."""
    signal.alarm(math.ceil(seconds))
    os.chdir(folder)
    told = os.open(TOLD, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    for stream in (1, 2):
        os.dup2(told, stream)
    os.environ |= {
        "PYTHONPATH": str(folder),
        "PYTHONDONTWRITEBYTECODE": "1",
        "MPLBACKEND": "Agg",
    }
    sys.dont_write_bytecode = True
    sys.path.insert(0, str(folder))
    options = ["-x", "-p", "no:cacheprovider", "-m", "not pages"]
    return int(pytest.main([*options, *tests]))


@dataclass(frozen=True)
class HandMutant(Mutant):
    """A change of one line's text in a function, and what it shows."""

    old: str = ""
    new: str = ""

    def written(self, text: str) -> tuple[str, str]:
        function = found(ast.parse(text), self.function.partition(":")[2])
        lines = text.split("\n")
        inside = "\n".join(lines[function.lineno - 1 : function.end_lineno])
        if inside.count(self.old) != 1:
            raise SystemExit(
                f"{self.function}: expected {self.old!r} once, found it "
                f"{inside.count(self.old)} times; say what took its place"
            )
        wrong = inside.replace(self.old, self.new)
        lines[function.lineno - 1 : function.end_lineno] = wrong.split("\n")
        return "\n".join(lines), self.operator


def module_path(folder: Path, function: str) -> Path:
    module = function.partition(":")[0]
    return folder / "privcontrol" / (module.replace(".", "/") + ".py")


def found(tree: ast.AST, name: str) -> ast.FunctionDef:
    """The function of a module by its qualified name."""
    node = tree
    for part in name.split("."):
        inner = ast.FunctionDef | ast.ClassDef
        named = [n for n in ast.iter_child_nodes(node) if isinstance(n, inner)]
        node = next((n for n in named if n.name == part), None)
        if node is None:
            raise SystemExit(f"{name} is no longer there; say what took its place")
    return node


def by_hand() -> list[Mutant]:
    """The mutants that were written by hand."""
    listed = tomllib.loads(BY_HAND.read_text(encoding="utf8"))["mutant"]
    mutants: list[Mutant] = []
    for one in listed:
        names = (one["function"], one["shows"], 0, tuple(one["tests"]))
        mutants.append(HandMutant(*names, one["old"], one["new"]))
    return mutants


def functions() -> dict[str, list[str]]:
    """The functions that operators change, and the tests that notice."""
    return tomllib.loads(LIST.read_text(encoding="utf8"))


def claims() -> dict[str, list[str]]:
    """The numbers that a user sees, and the functions that they pass through."""
    return tomllib.loads(CLAIMS.read_text(encoding="utf8"))


def read_mutants(operators: list[str], chosen: Callable[[str], bool]) -> list[Mutant]:
    """Every mutant of the listed functions that are chosen by their names."""
    mutants: list[Mutant] = []
    for function, tests in functions().items():
        if not chosen(function):
            continue
        text = module_path(ROOT, function).read_text(encoding="utf8")
        tree = found(ast.parse(text), function.partition(":")[2])
        for operator in operators:
            mutants.extend(
                Mutant(function, operator, place, tuple(tests))
                for place in range(len(places(tree, operator)))
            )
    return mutants


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", default="", help="part of a function's name")
    parser.add_argument("--claim", choices=claims(), help="a number that a user sees")
    parser.add_argument("--by-hand", action="store_true", help="those of by_hand.toml")
    parser.add_argument("--operator", choices=OPERATORS, action="append")
    parser.add_argument(
        "--share", type=float, default=1.0, help="of the mutants, drawn"
    )
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--list", action="store_true", help="name them, run nothing")
    parser.add_argument(
        "--least", type=float, default=0.0, help="share killed, to pass"
    )
    given = parser.parse_args()
    through = claims().get(given.claim)

    def chosen(function: str) -> bool:
        return given.only in function and (through is None or function in through)

    if given.by_hand:
        mutants = [one for one in by_hand() if chosen(one.function)]
    else:
        mutants = read_mutants(given.operator or list(OPERATORS), chosen)
    number = max(1, round(given.share * len(mutants)))
    mutants = random.Random(given.seed).sample(mutants, min(number, len(mutants)))
    if given.list:
        print(*mutants, sep="\n")
        print(f"{len(mutants)} mutants")
        return
    survivors = 0
    start = time.perf_counter()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        copied(folder)
        for mutant in mutants:
            killed, shown = mutant.is_killed(folder)
            survivors += not killed
            print(
                "killed  " if killed else "SURVIVED",
                mutant,
                shown,
                sep="  ",
                flush=True,
            )
    seconds = time.perf_counter() - start
    killed = len(mutants) - survivors
    print(f"{killed} of {len(mutants)} mutants killed in {seconds:.0f} s")
    sys.exit(killed < given.least * len(mutants))


if __name__ == "__main__":
    main()
