"""README.md keeps its word: two commands, and a script that is the shipped example and runs."""

import ast
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import privcontrol as pc

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text()


def code(text):
    """Statements of a script, without its docstring, blank lines and comments."""
    text = re.sub(r'\A""".*?"""', "", text, flags=re.S)
    return [
        re.sub(r"\s*#.*$", "", line)
        for line in text.splitlines()
        if line.strip() and not line.strip().startswith("#")
    ]


def without_docstring(text):
    """The syntax tree of a module, whatever its line breaks, without its docstring."""
    tree = ast.parse(text)
    tree.body = tree.body[1:]
    return tree


def test_the_script_in_the_readme_is_the_first_example():
    script = re.search(r"```python\n(.*?)```", README, re.S)[1]
    example = (ROOT / "examples" / "first_private_loop.py").read_text()
    assert ast.dump(ast.parse(script)) == ast.dump(without_docstring(example))
    assert len(code(script)) <= 15


def test_the_run_command_is_the_first_example():
    command = re.search(r"<!-- run -->\n```bash\n(.*?)\n```", README, re.S)[1]
    assert (
        command.endswith("python examples/first_private_loop.py")
        and command.count("\n") == 0
    )


def test_the_readme_opens_with_all_that_a_newcomer_needs():
    head = "\n".join(README.splitlines()[:60])
    for part in (
        "<!-- run -->",
        "```python",
        "docs/figures/first_private_loop.png",
        "<!-- guarantee -->",
        "**What it does not do.**",
    ):
        assert part in head
    assert README.count("```bash") == 3


def test_every_file_that_the_readme_names_is_there():
    for target in re.findall(r"\]\(([^)#]+)\)", README):
        assert target.startswith("http") or (ROOT / target).exists(), target


def test_the_script_runs_and_prints_the_guarantee_of_the_readme(tmp_path):
    example = ROOT / "examples" / "first_private_loop.py"
    run = subprocess.run(
        [sys.executable, "-W", "ignore", example],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    shown = re.search(r"<!-- guarantee -->\n```text\n(.*?)```", README, re.S)[1]
    assert run.stdout.strip() == shown.strip()
    assert (tmp_path / "first_private_loop.png").stat().st_size > 10_000


@pytest.mark.parametrize("marks", [("second", "printed"), ("third", "costs")])
def test_the_other_examples_print_what_the_readme_shows(marks, capsys):
    code, printed = marks
    example = re.search(rf"<!-- {code} -->\n```python\n(.*?)```", README, re.S)[1]
    shown = re.search(rf"<!-- {printed} -->\n```text\n(.*?)```", README, re.S)[1]
    vehicle = pc.plants.vehicle()
    request = {
        "budget": pc.PrivacyBudget(epsilon=1.0, delta=1e-2),
        "adjacency": pc.StateAdjacency({"position": 1.0}),
    }
    exact = pc.design_output_noise(vehicle, horizon=100, models="exact", **request)
    names = {"pc": pc, "vehicle": vehicle, "noise": exact}
    names |= {"Q": np.eye(2), "R": 5, "QN": np.diag([1e-4, 1e-2]), "RN": 1e-2}
    names |= {"budget": request["budget"], "secret": request["adjacency"]}
    exec(example, names)
    assert capsys.readouterr().out == shown
