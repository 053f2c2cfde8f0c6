"""The page to play with says what the library says; its JavaScript runs in node."""

import itertools
import json
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import scipy.linalg
import scipy.optimize
from repeats import few
from scipy.stats import norm

import privcontrol as pc

sys.path.insert(0, str(Path(__file__).parents[1] / "docs"))

import playground

ROOT = Path(__file__).parents[1]
NODE = shutil.which("node")
needs_node = pytest.mark.skipif(NODE is None, reason="no node on this machine")
DRAUGHT, SENSOR = np.array([0.02, 0.002]), 0.03
SCRIPT = """
const room = require(process.argv[1]);
const asked = JSON.parse(require("fs").readFileSync(0, "utf8"));
const model = room.read(asked.design);
const answers = asked.choices.map(choice => {
  const known = room.consequences(model, choice);
  const {shift, size, std, once, foundOpen, foundGated, keptOpen, keptGated} = known;
  const repeated = [1, 2, 20, 365].map(known.repeated);
  return {shift, size, std, once, foundOpen, foundGated, keptOpen, keptGated, repeated,
    scores: [1, 2, 3, 4, 5].map(seed => room.week(model, choice, known, seed).scores)};
});
console.log(JSON.stringify(answers));
"""


def choice(epsilon=1.0, duration=12, people=1, separation=96, starts=()):
    return {
        "epsilon": epsilon,
        "delta": 0.01,
        "duration": duration,
        "people": people,
        "sensor": SENSOR,
        "separation": separation,
        "starts": list(starts),
    }


CHOICES = [
    choice(),
    choice(epsilon=0.1, people=3),
    choice(epsilon=3.98, duration=4, separation=48),
    choice(duration=8, separation=224),
    choice(duration=16),
    choice(epsilon=2.5, duration=32, people=6, separation=672),
]


@pytest.fixture(scope="module")
def noise(tmp_path_factory):
    """The design that the page carries, as the library loads and certifies it."""
    path = tmp_path_factory.mktemp("play") / "design.json"
    path.write_text(playground.design_file(), "utf8")
    return pc.load(path)


@pytest.fixture(scope="module")
def answers():
    """What the page computes for each choice."""
    asked = {"design": json.loads(playground.design_file()), "choices": CHOICES}
    ran = subprocess.run(
        [NODE, "-e", SCRIPT, str(playground.PAGE / "room.js")],
        input=json.dumps(asked),
        capture_output=True,
        text=True,
        check=True,
        timeout=300,
    )
    return json.loads(ran.stdout)


def test_the_page_carries_a_design_of_today(noise):
    designed = playground.designed()
    assert noise.guarantee.gdp == pytest.approx(designed.guarantee.gdp, rel=1e-9)
    assert noise.std == pytest.approx(designed.std, rel=1e-6)


@needs_node
@pytest.mark.parametrize("k", few([0, 2, 1, 3, 4, 5], of=2))
def test_the_page_promises_no_less_than_recursions_find(noise, answers, k):
    asked, said = CHOICES[k], answers[k]
    shift = scipy.optimize.brentq(
        lambda y: (
            norm.cdf(y / 2 - asked["epsilon"] / y)
            - np.exp(asked["epsilon"]) * norm.cdf(-y / 2 - asked["epsilon"] / y)
            - asked["delta"]
        ),
        1e-3,
        10,
    )
    assert said["shift"] == pytest.approx(shift, rel=1e-9)
    once = norm.cdf(norm.ppf(0.05) + shift)
    assert said["once"] == pytest.approx(once, rel=1e-9)
    assert said["std"] == pytest.approx(said["size"] * noise.std[0], rel=1e-9)
    # one stay of the worst pattern, behind noise of this size: no more than the promise
    duration, separation = asked["duration"], asked["separation"]
    signs = np.array([(1, *rest) for rest in itertools.product((1, -1), repeat=11)])
    worst = left_of(noise, np.unique(signs[:, :duration], axis=0))
    shown = max(np.linalg.norm(left_of(noise, np.ones((1, duration)))), *worst)
    one = asked["people"] * shown / said["size"]
    assert one <= shift * (1 + 1e-6)
    assert one == pytest.approx(shift, rel=1e-6 if duration <= 12 else 0.003)
    for count, share in zip([1, 2, 20], said["repeated"], strict=False):
        stays = np.zeros(count * separation)
        stays.reshape(count, separation)[:, :duration] = asked["people"]
        many = np.linalg.norm(left_of(noise, stays[None]))
        attained = norm.cdf(norm.ppf(0.05) + many / said["size"])
        assert attained - 1e-6 <= share <= attained + 0.02


def left_of(noise, stays):
    """Norms of stays (N, T) of one person once the noise is inverted, by recursions."""
    room, own = playground.room(), noise.system
    stays = np.pad(stays, ((0, 0), (0, 1500)))
    state, shaped = np.zeros((len(stays), 2)), np.zeros((len(stays), len(own.A)))
    square = np.zeros(len(stays))
    for people in stays.T:
        left = (state @ room.C.T - shaped @ own.C.T) / own.D
        square += left[:, 0] ** 2
        state = state @ room.A.T + np.outer(people, room.B[:, 1])
        shaped = shaped @ own.A.T + left @ own.B.T
    return np.sqrt(square)


@needs_node
def test_the_page_promises_of_one_design_what_its_guarantee_says(noise, answers):
    said = answers[0]
    assert said["size"] == pytest.approx(1, abs=1e-6)
    for count, share in zip([1, 2, 20, 365], said["repeated"], strict=True):
        many = noise.guarantee.repeated(count, separation=96).detection(0.05)
        assert share == pytest.approx(many, abs=1e-6)


@needs_node
def test_twenty_visits_are_found_as_the_readme_says(answers):
    assert f"{100 * answers[0]['repeated'][2]:.0f} %" == "84 %"
    assert "on 20 with 84 %" in " ".join((ROOT / "README.md").read_text().split())


def loop_of(noise, size):
    """Plant and noise as one system (A, Q, C, R, S), Q and R of what enters each sample."""
    room, own = playground.room(), noise.system
    if size == 0:
        return room.A, np.diag(DRAUGHT**2), room.C, np.array([[SENSOR**2]]), None
    A = scipy.linalg.block_diag(room.A, own.A)
    Q = scipy.linalg.block_diag(np.diag(DRAUGHT**2), own.B @ own.B.T)
    C = np.hstack([room.C, size * own.C])
    R = np.array([[SENSOR**2]]) + size**2 * own.D @ own.D.T
    S = np.vstack([np.zeros((2, 1)), size * own.B @ own.D.T])
    return A, Q, C, R, S


@needs_node
@pytest.mark.parametrize("k", range(len(CHOICES)))
def test_the_detectors_find_what_covariances_say(noise, answers, k):
    """The best test of 400 readings, from their joint covariance and without a filter."""
    asked, said = CHOICES[k], answers[k]
    room = playground.room()
    for name, size in (("foundOpen", 0.0), ("foundGated", said["size"])):
        drift = scipy.linalg.solve_discrete_lyapunov(room.A, np.diag(DRAUGHT**2))
        lags = [
            (room.C @ np.linalg.matrix_power(room.A, lag) @ drift @ room.C.T).item()
            + size**2 * noise.covariance(lag).item()
            for lag in range(400)
        ]
        lags[0] += SENSOR**2
        state, shift = np.zeros(2), []
        for t in range(400):
            shift.append(state[0])
            is_there = 200 <= t < 200 + asked["duration"]
            state = room.A @ state + room.B[:, 1] * asked["people"] * is_there
        seen = np.sqrt(shift @ scipy.linalg.solve_toeplitz(lags, shift))
        expected = norm.cdf(norm.ppf(0.05) + seen)
        assert said[name] == pytest.approx(expected, abs=1e-3)
        if size:
            assert said[name] <= said["once"]


@needs_node
@pytest.mark.parametrize("k", range(len(CHOICES)))
def test_the_room_is_kept_as_riccati_equations_say(noise, answers, k):
    said = answers[k]
    room = playground.room()
    heat = room.B[:, :1]
    X = scipy.linalg.solve_discrete_are(room.A, heat, np.diag([1, 0]), [[0.02]])
    gain = np.linalg.solve(0.02 + heat.T @ X @ heat, heat.T @ X @ room.A)
    for name, size in (("keptOpen", 0.0), ("keptGated", said["size"])):
        A, Q, C, R, S = loop_of(noise, size)
        P = scipy.linalg.solve_discrete_are(A.T, C.T, Q, R, s=S)
        innovation = C @ P @ C.T + R
        entry = (A @ P @ C.T + (0 if S is None else S)) @ np.linalg.inv(innovation)
        driven = entry[:2] @ innovation @ entry[:2].T
        estimate = scipy.linalg.solve_discrete_lyapunov(room.A - heat @ gain, driven)
        assert said[name] == pytest.approx(np.sqrt(estimate[0, 0] + P[0, 0]), rel=1e-4)


@needs_node
def test_scores_are_standard_where_nobody_comes(answers):
    """Five weeks without a visit: both detectors' scores have mean 0 and variance 1."""
    for side in (0, 1):
        scores = np.array([week[side] for week in answers[0]["scores"]])
        assert scores.shape == (5, 672)
        assert abs(scores.mean()) < 0.25
        assert 0.85 < scores.std() < 1.15


def test_the_page_asks_nobody_for_anything():
    """No address but its own files, a policy that says so, and no code in the markup."""
    page = (playground.PAGE / "index.html").read_text("utf8")
    assert "default-src 'none'; script-src 'self'; style-src 'self'" in page
    assert "<script>" not in page
    assert "style=" not in page
    assert "onclick" not in page
    for name in ("page.js", "room.js", "index.html", "page.css"):
        text = (playground.PAGE / name).read_text("utf8")
        assert "fetch(" not in text
        assert text.replace("http://www.w3.org/2000/svg", "").count("http") == (
            1 if name == "index.html" else 0  # http-equiv
        )
