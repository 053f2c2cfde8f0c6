"""The documentation keeps its promises: errata, sharp edges and public names are there.

Its build runs the cells of all pages, and an error in one ends it.
"""

import ast
import builtins
import inspect
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from repeats import for_every

import privcontrol as pc

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
PAGES = sorted(
    page
    for page in DOCS.rglob("*.md")
    if not {"_build", "gallery", "rendered"} & set(page.parts)
)
HIDDEN = ("remove-input", "remove-cell")
CELL = re.compile(r"^```\{code-cell\} python3\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def cells(text):
    """Sources of the code cells of a page."""
    return [
        "\n".join(line for line in cell.splitlines() if not line.startswith(":"))
        for cell in CELL.findall(text)
    ]


def sections(page, mark):
    """Title and text of the sections of a page whose headings begin with a mark."""
    parts = re.split(
        rf"^{mark} (.*)$", (DOCS / page).read_text(encoding="utf8"), flags=re.MULTILINE
    )
    return list(
        zip(
            parts[1::2],
            (
                re.split(r"^#{1,3} ", part, flags=re.MULTILINE)[0]
                for part in parts[2::2]
            ),
        )
    )


BLOCK = re.compile(
    r"^```(\{code-cell\} python3|python)\n(.*?)^```$", re.MULTILINE | re.DOTALL
)
#: Packages of extras that a page may ask for.
OPTIONAL = {"asyncua", "casadi", "do_mpc", "pymodbus", "pythonfmu", "torch"}


def visible_blocks(page):
    """Sources of the code blocks that a reader of a page can copy, by their line."""
    text = page.read_text(encoding="utf8")
    found = {}
    for match in BLOCK.finditer(text):
        lines = match[2].splitlines()
        options = [line for line in lines if line.startswith(":")]
        if not any(tag in line for line in options for tag in HIDDEN):
            source = "\n".join("" if line in options else line for line in lines)
            found[text.count("\n", 0, match.start()) + 2] = source
    return found


def noise_of_vehicle():
    """Noise over five samples, for pages and tests that need any."""
    return pc.design_output_noise(
        pc.plants.vehicle(),
        horizon=5,
        budget=pc.PrivacyBudget(epsilon=1.0, delta=1e-2),
        adjacency=pc.StateAdjacency(1.0),
        models="exact",
    )


def is_run_as_shown(page):
    """Whether the documentation runs just what a reader sees, in the same order."""
    text = page.read_text(encoding="utf8")
    is_cells_alone = not re.search(r"^```python$", text, re.MULTILINE)
    return is_cells_alone and not any(tag in text for tag in HIDDEN)


def with_blocks():
    """Pages with blocks; those that the documentation runs as well have a mark."""
    for page in filter(visible_blocks, PAGES):
        marks = [pytest.mark.pages] if is_run_as_shown(page) else []
        yield pytest.param(page, id=page.stem, marks=marks)


@pytest.mark.slow
@pytest.mark.parametrize("page", list(with_blocks()))
def test_visible_blocks_run_as_copied(page, tmp_path):
    """The blocks of a page in order, by a new interpreter, and no warning is left raw.

    A page whose block is a whole script is given a design file.
    """
    blocks = visible_blocks(page)
    script = tmp_path / "copied.py"
    lines = []
    for line, source in blocks.items():  # errors have the line of the page
        lines += [""] * (line - 1 - len(lines)) + source.splitlines()
    script.write_text("\n".join(lines), encoding="utf8")
    design = tmp_path / "noise.json"
    noise_of_vehicle().save(design)
    environment = os.environ | {
        "MPLBACKEND": "Agg",
        "PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")]),
    }
    run = subprocess.run(
        [sys.executable, "-W", "ignore::DeprecationWarning", script, design],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
    )
    missing = re.search(r"ModuleNotFoundError: No module named '(\w+)", run.stderr)
    if missing and missing[1] in OPTIONAL:
        pytest.skip(f"{missing[1]} is not installed")
    assert run.returncode == 0, run.stderr[-2000:]
    warned = re.findall(r"^.*copied\.py:(\d+: \w*Warning.*)$", run.stderr, re.MULTILINE)
    # how long a design takes is the machine's matter
    assert not [text for text in warned if "taken 10 s" not in text]


def test_the_code_about_do_mpc_runs(capsys):
    """In the scheduled workflow, which installs do-mpc."""
    pytest.importorskip("do_mpc")
    page = (DOCS / "do_mpc.md").read_text(encoding="utf8")
    namespace = {"__name__": "page"}
    for source in re.findall(r"^```python\n(.*?)^```$", page, re.MULTILINE | re.DOTALL):
        exec(compile(source, "do_mpc.md", "exec"), namespace)
    assert (namespace["response"].states["east"] < 8.0).all()
    assert (namespace["margins"] > 0.5).all()


def test_every_erratum_has_a_cell_that_shows_it():
    errata = [
        (title, text)
        for title, text in sections("papers_and_errata.md", "##")
        if re.match(r"E\d", title)
    ]
    assert [title.split(".")[0] for title, _ in errata] == [
        f"E{i}" for i in range(1, 23)
    ]
    assert all(cells(text) for _, text in errata)


def test_every_sharp_edge_has_a_severity_and_a_cell_that_shows_the_harm():
    edges = sections("sharp_edges.md", "###")
    assert len(edges) >= 17
    for title, text in edges:
        assert re.search(r" \((critical|high|medium)\)$", title), (
            f"{title}: no severity"
        )
        assert cells(text), f"{title}: nothing is shown"


def test_every_public_name_is_in_the_reference_in_one_group(monkeypatch):
    monkeypatch.syspath_prepend(str(DOCS / "_ext"))
    import api_page

    grouped = [name for names in api_page.grouped().values() for name in names]
    assert len(grouped) == len(set(grouped))
    short = {name.rpartition(".")[2] for name in grouped}
    assert set(pc.__all__) - short == {
        name for name in pc.__all__ if isinstance(getattr(pc, name), type(sys))
    }


@for_every(PAGES)
def test_references_to_pages_and_scripts_exist(page):
    for target in re.findall(
        r"\{doc\}`(?:[^`<]*<)?([^`>]+)>?`", page.read_text(encoding="utf8")
    ):
        script = (
            ROOT
            / "examples"
            / f"{target.removeprefix('../').removeprefix('gallery/')}.py"
        )
        assert (
            target in ("gallery/index", "api/index")
            or script.exists()
            or (page.parent / f"{target}.md").exists()
        ), target


def test_attributes_in_the_notation_exist():
    """Each `Class.attribute` of the page's tables is one of an instance."""
    noise, budget = noise_of_vehicle(), pc.PrivacyBudget(epsilon=1.0, delta=1e-2)
    instances = [
        *(
            pc.AffineManifold([[1.0, 1.0]]),
            pc.LinearQuery([[1.0]]),
            noise,
            noise.guarantee,
        ),
        pc.private_consensus(pc.plants.ten_agent_graph(), budget, 1.0),
    ]
    named = {type(instance).__name__: instance for instance in instances}
    pairs = re.findall(
        r"`([A-Z]\w+)\.(\w+)", (DOCS / "notation.md").read_text(encoding="utf8")
    )
    assert len(pairs) >= 8
    for name, attribute in pairs:
        assert hasattr(named[name], attribute), f"{name}.{attribute}"


def test_every_task_names_what_is_public():
    """Each name of the pages of tasks exists, and every public function has its task."""
    text = (DOCS / "tasks.md").read_text(encoding="utf8")
    rows = [line for line in text.splitlines() if line.startswith("| ")]
    named = re.findall(
        r"`([A-Za-z_][\w.]*)`", " ".join(row.split("|")[2] for row in rows)
    )
    assert len(named) > 50
    for name in named:
        thing = pc
        for part in name.split("."):
            thing = getattr(thing, part)
    functions = {name for name in pc.__all__ if inspect.isfunction(getattr(pc, name))}
    assert functions <= set(named)


def test_functions_in_the_notation_are_public():
    """Each `name(...)` of the page's tables is public, and takes the keywords that are written there."""
    calls = re.findall(
        r"`(\w+)\(([^`]*)\)`", (DOCS / "notation.md").read_text(encoding="utf8")
    )
    assert len(calls) >= 10
    homes = (pc, pc.core, pc.consensus)
    for name, arguments in calls:
        home = next(home for home in homes if hasattr(home, name))
        known = inspect.signature(getattr(home, name)).parameters
        for keyword in re.findall(r"(\w+)=", arguments):
            assert keyword in known, f"{name}({keyword}=)"


def test_the_chart_of_secrets_is_drawn_anew_and_leads_to_the_reference(monkeypatch):
    monkeypatch.syspath_prepend(str(DOCS))
    import drawings

    chart = (DOCS / "figures" / "which_secret.svg").read_text(encoding="utf8")
    assert chart == drawings.which_secret()
    links = re.findall(r'href="api/privcontrol\.(\w+)\.html"', chart)
    assert len(links) == 8
    assert set(links) <= set(pc.__all__)


def test_recipes_are_twelve_of_at_most_fifteen_lines():
    recipes = sections("recipes.md", "##")
    assert len(recipes) == 12
    for title, text in recipes:
        (code,) = cells(text)
        assert len(code.strip().splitlines()) <= 15, title


def test_each_recipe_runs_alone_behind_the_first_cell():
    """Nothing of one recipe is needed by another."""
    first = cells((DOCS / "recipes.md").read_text(encoding="utf8"))[0]
    for title, text in sections("recipes.md", "##"):
        (code,) = cells(text)
        tree = ast.parse(f"{first}\n{code}")
        known = {
            alias.asname or alias.name
            for node in ast.walk(tree)
            if isinstance(node, ast.Import | ast.ImportFrom)
            for alias in node.names
        }
        names = [node for node in ast.walk(tree) if isinstance(node, ast.Name)]
        known |= {node.id for node in names if isinstance(node.ctx, ast.Store)}
        known |= {
            node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)
        }
        known |= {node.arg for node in ast.walk(tree) if isinstance(node, ast.arg)}
        asked = {node.id for node in names if isinstance(node.ctx, ast.Load)}
        assert asked <= known | set(dir(builtins)), title


#: A number without a zero before its point; formats such as ``{x:.2f}`` are none.
BARE = re.compile(r"(?<![\w.\])/}{:<>=+^-])\.\d+(?![\w.])")


def test_numbers_have_a_zero_before_the_point():
    """In pages, docstrings, messages and comments."""
    bare = []
    sources = [*PAGES, ROOT / "README.md", *(ROOT / "privcontrol").rglob("*.py")]
    for page in sources:
        for number, line in enumerate(page.read_text(encoding="utf8").splitlines(), 1):
            if BARE.search(line):
                bare.append(f"{page.name}:{number}: {line.strip()}")
    assert not bare


def test_the_front_page_is_the_top_of_readme(monkeypatch):
    monkeypatch.syspath_prepend(str(DOCS / "_ext"))
    import front_page

    readme = (ROOT / "README.md").read_text(encoding="utf8")
    shown = front_page.top(readme)
    assert "<!-- README -->" in (DOCS / "index.md").read_text(encoding="utf8")
    assert "What do you want to do?" not in shown
    for block in re.findall(r"```(?:python|text)\n.*?```", shown, re.DOTALL):
        assert block in readme
    assert "<picture>" not in shown
    images = re.findall(r"\{image\} (\S+)", shown)
    assert len(images) == 2
    for name in [*images, *re.findall(r"\]\(([^)#]+)\)", shown)]:
        assert (DOCS / name).exists(), name


def test_the_badges_of_readme_say_what_the_project_file_says(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(DOCS))
    import badges

    badges.write(tmp_path)
    drawn = sorted(path.name for path in tmp_path.iterdir())
    readme = (ROOT / "README.md").read_text(encoding="utf8")
    assert sorted(re.findall(r"figures/(badge_\w+\.svg)", readme)) == drawn
    project = (ROOT / "pyproject.toml").read_text(encoding="utf8")
    for name in drawn:
        text = (DOCS / "figures" / name).read_text(encoding="utf8")
        value = re.findall(r"<text [^>]*>(.*?)</text>", text)[1]
        assert (tmp_path / name).read_text(encoding="utf8").count(f">{value}<") == 1
        assert all(word in project for word in re.findall(r"[\w.-]*\d[\w.-]*", value))
