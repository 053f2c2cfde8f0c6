"""Figures are alike in README, pages, gallery and library: colours, ground and words."""

import re
import tomllib
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pytest
from matplotlib.colors import to_hex
from repeats import for_every

from privcontrol._figures import COLORS, ESTIMATE, PUBLISHED, TRUE
from privcontrol.response import PrivateResponse

ROOT = Path(__file__).parents[1]
EXAMPLES = ROOT / "examples"
SCRIPTS = sorted([*EXAMPLES.rglob("*.py"), *(ROOT / "docs").glob("*.py")])


@pytest.fixture
def response():
    """Three trials of a plant with one state, its estimate and what is published."""
    x = np.random.default_rng(0).standard_normal((2, 3, 20))
    return PrivateResponse(
        np.arange(20),
        states=x,
        outputs=x[:1],
        state_labels=["level", "xhat[0]"],
        output_labels=["sensor"],
        plant_states=1,
    )


def test_true_is_black_published_orange_and_estimated_blue(response):
    plot = response.plot(["level", "sensor", "xhat[0]"])
    colors = [to_hex(lines[0].get_color()) for lines in plot.lines[:, 0]]
    assert colors == [to_hex(color) for color in (TRUE, PUBLISHED, ESTIMATE)]
    assert colors == ["#000000", "#d55e00", "#0072b2"]
    # one legend for all of them, in none of their colours
    assert to_hex(plot.legend.get_lines()[0].get_color()) not in colors
    plt.close("all")


def test_what_is_compared_has_other_colors(response):
    axes = plt.subplots(1, 1, squeeze=False)[1]
    drawn = []
    for _ in range(3):
        plot = response.plot(["sensor"], ax=axes)
        drawn.append(plot.lines[0, 0][0].get_color())
    assert drawn == [PUBLISHED, *COLORS[:2]]
    assert not {TRUE, PUBLISHED, ESTIMATE} & set(COLORS)
    plt.close("all")


@for_every(SCRIPTS)
def test_orange_and_blue_mean_the_same_everywhere(script):
    """Beside each of the two colours stands what it is, in the same statement."""
    lines = script.read_text("utf8").splitlines()
    for k, line in enumerate(lines):
        near = " ".join(lines[max(k - 2, 0) : k + 3]).lower()
        if PUBLISHED in line:
            assert re.search("publi|everybody", near), (k + 1, line)
        if ESTIMATE in line:
            assert "estimate" in near, (k + 1, line)
        assert not re.search(r"\"(C\d|tab:\w+|orange|blue)\"", line), (k + 1, line)


ALT = tomllib.loads((ROOT / "docs" / "alt_texts.toml").read_text("utf8"))


def test_every_figure_of_a_page_has_a_text():
    """As many texts as figures that the page's cells draw, each a sentence or two."""
    without = []
    for page in sorted((ROOT / "docs" / "rendered").glob("*.md")):
        drawn = re.findall(rf"\]\(figures/{page.stem}_\d+_\d+\.png\)", page.read_text())
        texts = ALT["pages"].get(page.stem, [])
        if len(drawn) != len(texts) or any(len(text) < 40 for text in texts):
            without.append((page.stem, len(drawn), len(texts)))
    assert without == []


def test_every_figure_of_the_gallery_has_a_text():
    """Each script that writes a figure has a text, and no text is of a script gone."""
    writes = re.compile(r"savefig\(")
    scripts = {
        path.stem for path in EXAMPLES.rglob("*.py") if "deployment" not in path.parts
    }
    drawing = {
        path.stem
        for path in EXAMPLES.rglob("*.py")
        if writes.search(path.read_text("utf8")) and "deployment" not in path.parts
    }
    # what the scripts of figures 6 and 7, and 3 and 4, share writes their figures
    drawing -= {"dpam_agents", "ip_digits", "comparison"}
    assert drawing - set(ALT["gallery"]) == set()
    assert set(ALT["gallery"]) - scripts == set()
    assert all(len(text) > 40 for text in ALT["gallery"].values())


def test_images_in_pages_have_a_text():
    """Markdown images and those in HTML, in README and in every page."""
    pages = [ROOT / "README.md", *(ROOT / "docs").glob("*.md")]
    pages += (ROOT / "docs" / "tutorials").glob("*.md")
    for page in pages:
        text = page.read_text("utf8")
        assert not re.search(r"!\[(png)?\]\(", text), page.name
        for image in re.findall(r"<img [^>]*>", text):
            assert re.search(r'alt="[^"]{20,}"', image), page.name


def test_figures_of_pages_have_no_ground_of_their_own(tmp_path, monkeypatch):
    """A script's figure is transparent, and compared with a committed one as on white."""
    pytest.importorskip("sphinx_gallery")
    pytest.importorskip("nbconvert")
    for folder in ("docs/_ext", "docs"):
        monkeypatch.syspath_prepend(str(ROOT / folder))
    import gallery_source
    import render

    monkeypatch.setattr(gallery_source, "THUMBNAILS", tmp_path)
    with plt.rc_context():
        saved = plt.Figure.savefig
        gallery_source.draw_thumbnails({}, "some_script.py")
        figure, ax = plt.subplots()
        ax.plot([0, 1, 0])
        figure.savefig(tmp_path / "page.png")
        plt.Figure.savefig = saved
    figure.savefig(tmp_path / "white.png")
    plt.close("all")
    page, card, white = (
        plt.imread(tmp_path / f"{name}.png")
        for name in ("page", "some_script", "white")
    )
    assert page[0, 0, 3] == card[0, 0, 3] == 0
    assert white[0, 0, 3] == 1
    of_page, of_white = (render.grey(tmp_path / f"{n}.png") for n in ("page", "white"))
    assert np.abs(of_page - of_white).max() < 0.02
    style = (ROOT / "docs" / "_static" / "custom.css").read_text("utf8")
    assert "mix-blend-mode" not in style
