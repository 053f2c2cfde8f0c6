"""The examples are what their folders promise: ten questions, one script for each figure of the papers, studies."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
EXAMPLES = ROOT / "examples"
QUESTIONS = sorted(EXAMPLES.glob("*.py"))
FIGURES = sorted((EXAMPLES / "papers").glob("*_figure_*.py"))
STUDIES = sorted((EXAMPLES / "studies").glob("*.py"))
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


@pytest.mark.parametrize(
    "script",
    [*QUESTIONS, *FIGURES, *STUDIES, *AGENTS, *TABLES],
    ids=lambda script: script.stem,
)
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
