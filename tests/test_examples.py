"""The examples are what their folders promise: ten questions, one script for each figure of the papers, studies."""

import ast
import re
import runpy
from pathlib import Path

import numpy as np
import pytest
from repeats import for_every

ROOT = Path(__file__).parents[1]
EXAMPLES = ROOT / "examples"
QUESTIONS = sorted(EXAMPLES.glob("*.py"))
FIGURES = sorted((EXAMPLES / "papers").glob("*_figure_*.py"))
STUDIES = sorted((EXAMPLES / "studies").glob("*.py"))
PICTURES = sorted((EXAMPLES / "pictures").glob("*.py"))
AGENTS = sorted((EXAMPLES / "agents").glob("*.py"))
TABLES = [
    EXAMPLES / "literature" / f"{name}.py"
    for name in ("side_by_side", "fleet", "consensus_comparison", "gradient_tracking")
]
GALLERY = (ROOT / "docs" / "_ext" / "gallery_source.py").read_text(encoding="utf8")


def first_line(script):
    return ast.get_docstring(ast.parse(script.read_text(encoding="utf8"))).splitlines()[
        0
    ]


def test_there_are_ten_questions():
    assert len(QUESTIONS) == 10


@pytest.mark.parametrize("script", QUESTIONS, ids=lambda script: script.stem)
def test_a_question_is_answered_in_a_page(script):
    assert first_line(script).endswith("?")
    assert len(script.read_text(encoding="utf8").splitlines()) < 120


def test_every_figure_of_the_papers_has_a_script_and_a_row_in_the_documentation():
    numbers = {"dpam": (2, 3, 5, 6, 7), "ip": (3, 4, 5, 6)}
    names = {
        f"{paper}_figure_{number}" for paper in numbers for number in numbers[paper]
    }
    assert {script.stem for script in FIGURES} == names
    page = (ROOT / "docs" / "papers_and_errata.md").read_text(encoding="utf8")
    assert set(re.findall(r"gallery/papers/(\w+)", page)) == names
    for script in FIGURES:
        paper, _, number = script.stem.split("_")
        assert first_line(script).startswith(f"{paper.upper()} Figure {number}, ")


@for_every([*QUESTIONS, *FIGURES, *STUDIES, *PICTURES, *AGENTS, *TABLES])
def test_a_script_says_how_it_is_run_and_where_it_stands_in_the_gallery(script):
    assert f'"{script.name}"' in GALLERY or script in FIGURES
    if script.name != "first_private_loop.py":
        assert f"python {script.name}" in " ".join(
            script.read_text(encoding="utf8").split()
        )


def test_ci_runs_every_script():
    """By the documentation that it builds, and one that no page runs by itself."""
    steps = (ROOT / ".ci" / "run").read_text(encoding="utf8")
    assert "readme_command docs" in steps
    assert "docs/render.py --check" in steps
    assert "examples/agents/neighbourhood_meters.py" in steps
    assert 'SHOWN_ONLY = ("neighbourhood_meters",)' in GALLERY
    assert {script.stem for script in AGENTS} >= {"neighbourhood_meters"}


def test_studies_come_second_and_papers_have_pages_of_their_own():
    order = re.search(r"SECTIONS = \((.*?)\)", GALLERY)[1].replace('"', "").split(", ")
    assert order[:2] == ["", "studies"]
    assert order[-2:] == ["papers", "literature"]
    folders = {path.parent.name for path in EXAMPLES.glob("*/README.rst")}
    assert folders == set(order[1:])


@pytest.mark.slow
def test_a_gateway_that_stops_is_charged_once(tmp_path, capsys):
    """The picture of a gateway's life says what happened."""
    script = EXAMPLES / "pictures" / "life_of_a_gateway.py"
    runpy.run_path(str(script))["main"](tmp_path)
    assert "published 92 of 96, charged 1 time" in capsys.readouterr().out
    assert (tmp_path / "life_of_a_gateway.png").stat().st_size > 10_000


@pytest.mark.slow
def test_sensitivities_are_those_of_the_closed_loop():
    """T of the picture is the response of room to noise, by the assembled closed loop."""
    names = runpy.run_path(str(EXAMPLES / "pictures" / "sensitivity.py"))
    for loop in (names["public"], names["private"]):
        plant = names["room"][0, 0]
        law = loop.controller[loop.controller.output_labels.index("heat"), 0]
        closed = loop.closed_loop
        for angle in (0.01, 0.3, 2.0):
            point = np.exp(1j * angle)
            opened = -plant(point) * law(point)
            if loop is names["private"]:
                # published = y + gamma: its response to gamma is the sensitivity
                shown = closed[0, closed.input_labels.index("gamma[0]")](point)
                assert abs(1 / (1 + opened) - shown) < 1e-9
            assert abs(1 / (1 + opened)) < 2
