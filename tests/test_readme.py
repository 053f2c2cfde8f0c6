"""README.md keeps its word: two commands, and a script that is the shipped example and runs."""

import ast
import re
import runpy
import subprocess
import sys
import warnings
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import norm

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


def first_example(monkeypatch, tmp_path):
    """The names of README's script, which writes its figure elsewhere."""
    monkeypatch.chdir(tmp_path)
    return runpy.run_path(str(ROOT / "examples" / "first_private_loop.py"))


def undone(noise, plant, people):
    """Outputs of a secret in "people east" once the noise is inverted, by recursions."""
    system = noise.system
    A, B, C, D = system.A, system.B, system.C, system.D
    inverse = np.linalg.inv(D)
    state, own = np.zeros(plant.nstates), np.zeros(len(A))
    left = []
    for count in people:
        eta = inverse @ (plant.C @ state - C @ own)
        state = plant.A @ state + plant.B[:, 1] * count
        own = A @ own + B @ eta
        left.append(eta)
    return np.concatenate(left)


def found(shift):
    """How many percent of the secrets the best test detects, at 5 % false alarms."""
    return 100 * norm.cdf(norm.ppf(0.05) + shift)


def test_the_second_day_is_as_the_readme_says(monkeypatch, tmp_path):
    names = first_example(monkeypatch, tmp_path)
    noise, plant = names["noise"], names["offices"]
    stay = np.concatenate([np.ones(12), np.zeros(84)])
    said = {}
    for days in (1, 2, 5, 20, 60):
        people = np.concatenate([np.tile(stay, days), np.zeros(200)])
        left = undone(noise, plant, people)
        said[days] = found(np.linalg.norm(left))
    rounded = {days: round(share) for days, share in said.items() if days < 60}
    assert rounded == {1: 13, 2: 20, 5: 37, 20: 85}
    assert 99.85 < said[60] < 99.9
    text = " ".join(README.split())
    assert "13.3 % at most, but a stay on 2 days with 20 %, on 5 with 37 %" in text
    assert "on 20 with 85 %" in text


def test_other_stays_are_found_as_the_readme_says(monkeypatch, tmp_path):
    names = first_example(monkeypatch, tmp_path)
    noise, plant = names["noise"], names["offices"]
    ends = np.zeros(200)
    every = np.eye(12)
    impulses = [undone(noise, plant, np.concatenate([one, ends])) for one in every]
    gram = np.array(impulses) @ np.transpose(impulses)
    level = np.sqrt(np.sum(gram))
    # the first sign does not matter
    signs = np.array([(1, *rest) for rest in product((-1, 1), repeat=11)])
    varying = np.sqrt(np.max(np.sum(signs @ gram * signs, axis=1)))
    assert found(level) < 13.31
    assert f"five people at once ({found(5 * level):.0f} %)" in README
    assert f"meanwhile with {found(varying):.1f} %" in README


@pytest.mark.slow
def test_the_costs_are_those_of_the_readme(monkeypatch, tmp_path):
    """What is least costly, and among what."""
    names = first_example(monkeypatch, tmp_path)
    public, noise = names["public"], names["noise"]
    white = pc.design_output_noise(
        names["offices"],
        horizon=np.inf,
        budget=names["budget"],
        adjacency=names["secret"],
        family="iid-gaussian",
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", pc.PrivacyWarning)  # it takes its time
        both = pc.private_lqg(
            names["offices"], **names["lqg"], noise=noise, codesign=True
        )
    least = public.steady_state_cost().total
    loops = (names["loop"], public.with_noise(white), both)
    prices = [100 * (loop.steady_state_cost().total / least - 1) for loop in loops]
    text = " ".join(README.split())
    assert f"cost {prices[0]:.2f} %, with independent noise {prices[1]:.2f} %" in text
    assert f"in turns: {prices[2]:.2f} %" in text
    assert f"Gaussian one, to {100 * noise.design.gap:.1f} %" in text


def test_the_readme_is_short():
    """At most 900 words outside Python, and no term before it is explained."""
    words = re.sub(r"```python.*?```", "", README, flags=re.S).split()
    assert len(words) <= 900
    for term in ("GDP", "floor", "release", "free response", "hidden move"):
        first = re.search(rf"\*+[^*]*{term}[^*]*\*+", README)
        before = re.sub(r"```.*?```", "", README[: first.start()], flags=re.S)
        assert not re.search(rf"\b{term}\b", before), term
