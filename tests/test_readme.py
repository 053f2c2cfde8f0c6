"""README.md keeps its word: two commands, and a script that is the shipped example and runs."""

import ast
import re
import runpy
import subprocess
import sys
from pathlib import Path

import numpy as np

import privcontrol as pc

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text()


def without_docstring(text):
    """The syntax tree of a module, for any line breaks, without its docstring."""
    tree = ast.parse(text)
    tree.body = tree.body[1:]
    return tree


def test_the_script_in_the_readme_is_the_first_example():
    script = re.search(r"```python\n(.*?)```", README, re.S)[1]
    example = (ROOT / "examples" / "first_private_loop.py").read_text()
    assert ast.dump(ast.parse(script)) == ast.dump(without_docstring(example))
    assert len(ast.parse(script).body) <= 15


def test_the_run_command_is_the_first_example():
    command = re.search(r"<!-- run -->\n```bash\n(.*?)\n```", README, re.S)[1]
    assert (
        command.endswith("python examples/first_private_loop.py")
        and command.count("\n") == 0
    )


def test_the_readme_opens_with_all_that_a_newcomer_needs():
    head = "\n".join(README.splitlines()[:80])
    for part in (
        "<!-- run -->",
        "```python",
        "docs/figures/who_sees_what.png",
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


def test_the_prices_are_those_of_the_readme(monkeypatch, tmp_path, capsys):
    """The loop of three budgets, as README prints it, and the sizes that its text names."""
    monkeypatch.chdir(tmp_path)
    names = runpy.run_path(str(ROOT / "examples" / "first_private_loop.py"))
    capsys.readouterr()
    example = re.search(r"<!-- second -->\n```python\n(.*?)```", README, re.S)[1]
    shown = re.search(r"<!-- printed -->\n```text\n(.*?)```", README, re.S)[1]
    white = pc.design_output_noise(
        names["offices"],
        horizon=np.inf,
        budget=names["budget"],
        adjacency=names["secret"],
        family="iid-gaussian",
    )
    private, public = names["loop"], names["public"]
    kept = [np.sqrt(loop.steady_state_error()[0]) for loop in (private, public)]
    exec(example, names)
    assert capsys.readouterr().out == shown
    text = " ".join(README.split())
    assert f"{white.std[0]:.2f} K; the noise here" in text
    assert f"needs {private.noise.std[0]:.2f} K" in text
    assert f"within {kept[0]:.2f} K of their set point" in text
    assert f"{kept[1]:.2f} K without privacy" in text


def test_the_readme_is_short():
    """At most 900 words outside Python, and no term before it is explained."""
    words = re.sub(r"```python.*?```", "", README, flags=re.S).split()
    assert len(words) <= 900
    for term in ("GDP", "floor", "release", "free response", "hidden move"):
        first = re.search(rf"\*+[^*]*{term}[^*]*\*+", README)
        before = re.sub(r"```.*?```", "", README[: first.start()], flags=re.S)
        assert not re.search(rf"\b{term}\b", before), term
