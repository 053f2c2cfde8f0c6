"""README.md keeps its word: two commands, and a script that begins the shipped example and runs."""

import ast
import contextlib
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
    example = without_docstring(
        (ROOT / "examples" / "first_private_loop.py").read_text()
    )
    drawing = ast.dump(ast.parse("import matplotlib.pyplot as plt").body[0])
    own = [ast.dump(line) for line in example.body if ast.dump(line) != drawing]
    shown = [ast.dump(line) for line in ast.parse(script).body]
    assert own[: len(shown)] == shown
    assert len(shown) <= 15
    assert shown[-1] == ast.dump(ast.parse("print(loop.guarantee)").body[0])


def test_the_run_command_is_the_first_example():
    command = re.search(r"<!-- run -->\n```bash\n(.*?)\n```", README, re.S)[1]
    assert command.endswith("python examples/first_private_loop.py")
    assert command.count("\n") == 0


def test_the_readme_opens_with_all_that_a_newcomer_needs():
    head = "\n".join(README.splitlines()[:80])
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
    targets = re.findall(r"\]\(([^)#]+)\)|(?:src|srcset)=\"([^\"]+)\"", README)
    for target in (link or image for link, image in targets):
        assert target.startswith("http") or (ROOT / target).exists(), target


@pytest.mark.slow
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


@pytest.mark.slow
def test_the_prices_are_those_of_the_readme(monkeypatch, tmp_path, capsys):
    """The loop behind two kinds of noise, as README prints it."""
    monkeypatch.chdir(tmp_path)
    names = runpy.run_path(str(ROOT / "examples" / "first_private_loop.py"))
    capsys.readouterr()
    example = re.search(r"<!-- second -->\n```python\n(.*?)```", README, re.S)[1]
    shown = re.search(r"<!-- printed -->\n```text\n(.*?)```", README, re.S)[1]
    exec(example, names)
    assert capsys.readouterr().out == shown


@pytest.fixture(scope="module")
def offices(tmp_path_factory):
    """The names of the script of two offices, which writes its figure elsewhere."""
    with contextlib.chdir(tmp_path_factory.mktemp("offices")):
        return runpy.run_path(str(ROOT / "examples" / "two_offices.py"))


def said_of(names):
    """What the docstring of an example says, on one line."""
    return " ".join(names["__doc__"].split())


def test_the_sizes_of_the_offices_are_those_of_the_readme(offices):
    white = pc.design_output_noise(
        offices["offices"],
        horizon=np.inf,
        budget=offices["budget"],
        adjacency=offices["secret"],
        family="iid-gaussian",
    )
    private, public = offices["loop"], offices["public"]
    kept = [np.sqrt(loop.steady_state_error()[0]) for loop in (private, public)]
    text = " ".join(README.split())
    assert f"independent noise needs {white.std[0]:.2f} K; the noise here" in text
    assert f"needs {private.noise.std[0]:.2f} K" in text
    assert f"within {kept[0]:.2f} K of their set point" in text
    assert f"{kept[1]:.2f} K without privacy" in text


@pytest.fixture(scope="module")
def hero(tmp_path_factory):
    """The names of README's script, which writes its figure elsewhere."""
    with contextlib.chdir(tmp_path_factory.mktemp("hero")):
        return runpy.run_path(str(ROOT / "examples" / "first_private_loop.py"))


FLOWN = dict.fromkeys(["initial_state", "disturbance", "measurement_noise"], "design")


def test_readme_hero_detected_without_privacy(hero):
    """Two places by the best test of one axis, from the covariance of all its readings."""
    one = slice(0, 2)  # axes do not see each other
    A, T = np.asarray(hero["drone"].A)[one, one], 240
    gusts, sensors = hero["lqg"]["QN"][one, one], hero["lqg"]["RN"][one, one]
    powers = [np.linalg.matrix_power(A, t) for t in range(T)]
    G = np.zeros((2 * T, 2 * T))
    for t, s in product(range(T), repeat=2):
        if s < t:
            G[2 * t : 2 * t + 2, 2 * s : 2 * s + 2] = powers[t - 1 - s]
    readings = G @ np.kron(np.eye(T), gusts) @ G.T + np.kron(np.eye(T), sensors)
    shift = np.concatenate([power @ [100, 0] for power in powers])
    size = np.sqrt(shift @ np.linalg.solve(readings, shift))
    assert found(size) > 99.99
    text = " ".join(README.split())
    drawn = f"{100 * hero['found']:.0f}"  # behind the gate, the last row of the figure
    assert (
        "distinguishes sites 100 m apart in 100 % of the flights; behind the gate in at "
        f"most 13.3 % (figure: {drawn} %)"
    ) in text
    assert 100 * hero["loop"].guarantee.detection(0.05) < 13.3
    many = 100 * hero["loop"].guarantee.released(10).detection(0.05)
    assert f"after 10 the test succeeds in {many:.0f} %" in text


def test_readme_hero_independent_noise_costs_twice(hero):
    asked = {key: hero[key] for key in ("budget",)} | {"adjacency": hero["secret"]}
    white = pc.design_output_noise(
        hero["drone"], horizon=240, family="iid-gaussian", **asked
    )
    public = hero["public"].cost(**FLOWN).total
    behind = hero["public"].with_noise(white).cost(**FLOWN).total
    assert behind > 2 * hero["loop"].cost(**FLOWN).total
    text = " ".join(README.split())
    rise = 100 * (behind / public - 1)
    assert f"independent noise of the same guarantee by {rise:.0f} %" in text


def test_readme_hero_loop_loses_little(hero):
    public = hero["public"].cost(**FLOWN).total
    loss = hero["loop"].cost(**FLOWN).total / public - 1
    assert 0 <= loss < 1e-9
    assert "The loop's cost rises by 0 %, with independent" in " ".join(README.split())


def test_the_figure_shows_no_more_than_the_guarantee_allows(hero):
    """The share above the right histogram, of 2,000 flights from each site."""
    promised = hero["loop"].guarantee.detection(0.05)
    assert 0.05 < hero["found"] < promised + 3 * np.sqrt(promised / 2000)
    alarm, elsewhere = hero["alarm"], hero["seen"][1]
    assert hero["found"] == np.mean(elsewhere > alarm)
    known = hero["bare"].guarantee.detection(0.05)
    assert known > 0.9999


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


def test_the_second_day_is_as_the_readme_says(offices):
    names = offices
    noise, plant = names["noise"], names["offices"]
    stay = np.concatenate([np.ones(12), np.zeros(84)])
    said = {}
    for days in (1, 2, 5, 20, 60):
        people = np.concatenate([np.tile(stay, days), np.zeros(200)])
        left = undone(noise, plant, people)
        said[days] = found(np.linalg.norm(left))
    rounded = {days: round(share) for days, share in said.items() if days < 60}
    assert rounded == {1: 13, 2: 20, 5: 37, 20: 84}
    assert 99.85 < said[60] < 99.9
    text = " ".join(README.split())
    assert (
        "Who comes on 2 days is detected with 20 %, on 5 with 37 %, on 20 with 84 %"
        in text
    )


def test_other_stays_are_found_as_the_readme_says(offices):
    names = offices
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
    assert found(varying) < 13.31
    words = f"Five people at once are found in {found(5 * level):.0f} %"
    assert words in said_of(offices)


@pytest.mark.slow
def test_the_costs_are_those_of_the_readme(offices):
    """What is least costly, and among what."""
    names = offices
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
    text = said_of(offices)
    assert f"cost {prices[0]:.2f} %, with independent noise {prices[1]:.2f} %" in text
    assert f"in turns: {prices[2]:.2f} %" in text
    assert f"Gaussian one, to {100 * noise.design.gap:.1f} %" in text


def test_the_readme_is_short():
    """Below 1,000 words outside Python, and no term before it is explained."""
    words = re.sub(r"```python.*?```", "", README, flags=re.S).split()
    assert len(words) < 1000
    for term in ("GDP", "floor", "release", "free response", "hidden move"):
        first = re.search(rf"\*+[^*]*{term}[^*]*\*+", README)
        before = re.sub(r"```.*?```", "", README[: first.start()], flags=re.S)
        assert not re.search(rf"\b{term}\b", before), term
