"""Which raise statements does no test enter?

Every ``raise`` of the package is preceded, as the package is imported, by a call that
notes its place; processes that tests start note theirs too. What was never entered is
printed, and is tested or goes. A bare ``raise`` that hands an error on counts as well.

    python tests/mutants/raises.py                        the whole suite, on all cores
    python tests/mutants/raises.py --only privacy tests/core
    python tests/mutants/raises.py --numprocesses 0 tests/core/test_budget.py

With paths, statements that other tests would enter are printed too: ``--only`` restricts
what is printed to a part of the package.
"""

import argparse
import ast
import os
import subprocess
import sys
import tempfile
from importlib.abc import MetaPathFinder
from importlib.machinery import PathFinder, SourceFileLoader
from pathlib import Path

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "privcontrol"
#: Names the folder of notes, and asks for them.
FOLDER = "PRIVCONTROL_RAISES"
#: What a process that tests start imports before anything else.
STARTED = "import raises; raises.watch()\n"


def statements(tree: ast.AST) -> list[ast.Raise]:
    """Return the raise statements of a module."""
    return [node for node in ast.walk(tree) if isinstance(node, ast.Raise)]


class _Noting(ast.NodeTransformer):
    """Puts a note before each raise."""

    def __init__(self, name: str):
        self._name = name

    def visit_Raise(self, node: ast.Raise) -> list[ast.stmt]:
        text = f"__import__('raises').note({self._name!r}, {node.lineno})"
        (noted,) = ast.parse(text).body
        for part in ast.walk(noted):
            ast.copy_location(part, node)
        return [noted, node]


class _Loader(SourceFileLoader):
    def get_code(self, fullname: str):
        """Compile the source as it is now, past the cache."""
        path = Path(self.get_filename(fullname))
        tree = ast.parse(path.read_text(encoding="utf8"))
        tree = _Noting(path.relative_to(PACKAGE).as_posix()).visit(tree)
        return compile(tree, str(path), "exec")


class _Finder(MetaPathFinder):
    def find_spec(self, fullname, path=None, target=None):
        if fullname.partition(".")[0] != PACKAGE.name:
            return None
        spec = PathFinder.find_spec(fullname, path or [str(ROOT)], target)
        if spec is not None and isinstance(spec.loader, SourceFileLoader):
            spec.loader = _Loader(spec.loader.name, spec.loader.path)
        return spec


def watch() -> None:
    """Import the package with notes from now on, if the environment asks for them."""
    if FOLDER in os.environ and not any(isinstance(f, _Finder) for f in sys.meta_path):
        sys.meta_path.insert(0, _Finder())


_noted: set[tuple[str, int]] = set()


def note(name: str, line: int) -> None:
    """Note that a statement is entered, once in each process."""
    if (name, line) not in _noted:
        _noted.add((name, line))
        with open(Path(os.environ[FOLDER]) / f"{os.getpid()}.txt", "a") as file:
            file.write(f"{name}:{line}\n")


def entered(arguments: list[str]) -> set[str]:
    """Run tests, and return the statements that they enter."""
    with tempfile.TemporaryDirectory() as folder:
        notes = Path(folder) / "notes"
        notes.mkdir()
        (Path(folder) / "sitecustomize.py").write_text(STARTED)
        ours = [folder, str(Path(__file__).parent), str(ROOT)]
        inherited = filter(None, [os.environ.get("PYTHONPATH")])
        environment = {
            **os.environ,
            FOLDER: str(notes),
            "PYTHONPATH": os.pathsep.join([*ours, *inherited]),
            "PYTHONDONTWRITEBYTECODE": "1",
        }
        options = ["-p", "no:cacheprovider"]
        subprocess.run(
            [sys.executable, "-m", "pytest", "-m", "not pages", *options, *arguments],
            cwd=ROOT,
            env=environment,
            check=False,
        )
        return {line for file in notes.iterdir() for line in file.read_text().split()}


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--only", default="", help="part of a file's path")
    parser.add_argument("--numprocesses", default="auto", help="as for pytest-xdist")
    parser.add_argument("tests", nargs="*", default=["tests"])
    options = parser.parse_args()
    found = entered([f"--numprocesses={options.numprocesses}", *options.tests])
    total = missed = 0
    for path in sorted(PACKAGE.rglob("*.py")):
        name = path.relative_to(PACKAGE).as_posix()
        if options.only not in name:
            continue
        text = path.read_text(encoding="utf8")
        lines = text.splitlines()
        for statement in statements(ast.parse(text)):
            total += 1
            if f"{name}:{statement.lineno}" not in found:
                missed += 1
                print(
                    f"{name}:{statement.lineno}: {lines[statement.lineno - 1].strip()}"
                )
    print(f"{missed} of {total} raise statements are never entered")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
