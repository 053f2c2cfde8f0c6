"""The reference tells every public name: its parameters, its use, and no engine room."""

import inspect
import io
import re
import sys
from pathlib import Path

import pytest
from repeats import for_every

import privcontrol as pc

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "docs" / "_ext"))
import api_page  # noqa: E402
import used_in  # noqa: E402

sys.path.pop(0)

NAMES = api_page.public_names()
CLASSES = {name: cls for name, cls in NAMES.items() if inspect.isclass(cls)}
FUNCTIONS = {name: f for name, f in NAMES.items() if inspect.isroutine(f)}
METHODS = {
    f"{name}.{method}": getattr(cls, method)
    for name, cls in CLASSES.items()
    for method in api_page.members(cls, methods=True)
}


def section(thing, title):
    """Lines of a section of a docstring, without their common indentation."""
    text = inspect.getdoc(thing) or ""
    found = re.search(
        rf"^{title}\n-+\n(.*?)(?=^[A-Z][\w ]+\n-{{3,}}$|\Z)",
        text,
        re.MULTILINE | re.DOTALL,
    )
    return found[1].rstrip().splitlines() if found else []


def told(thing):
    """Names that stand at the head of an entry of the Parameters."""
    heads = [line for line in section(thing, "Parameters") if line[:1].strip()]
    return {
        name.strip().lstrip("*")
        for head in heads
        for name in head.split(" : ")[0].split(",")
    }


def taken(thing):
    """Names of the arguments that a call may give."""
    return [
        name
        for name in inspect.signature(thing).parameters
        if name not in ("self", "cls")
    ]


@for_every([*FUNCTIONS, *METHODS])
def test_every_argument_is_told(name):
    thing = (FUNCTIONS | METHODS)[name]
    assert inspect.getdoc(thing)
    assert set(taken(thing)) <= told(thing)


@for_every([*FUNCTIONS, *METHODS])
def test_every_result_is_told(name):
    """In a section of its own, which stands behind the Parameters and before the rest."""
    thing = inspect.unwrap((FUNCTIONS | METHODS)[name])
    result = thing.__annotations__.get("return")
    text = inspect.getdoc(thing)
    titles = re.findall(r"^([A-Z][\w ]+)\n-{3,}$", text, re.MULTILINE)
    told_of = {"Returns", "Yields"} & set(titles)
    assert len(told_of) == (result not in (None, "None"))
    order = ["Parameters", "Returns", "Yields", "Raises", "Warns", "See Also"]
    order += ["Notes", "References", "Examples"]
    assert titles == [title for title in order if title in titles]


#: numpydoc's rules that the house deviates from: docs/contributing.md has the reasons.
HOUSE_RULES = {
    *("SA01", "SA04", "ES01", "EX01", "GL08", "SS02"),
    *("PR01", "PR03", "PR04", "PR07", "PR08", "RT03"),
}


@pytest.mark.slow
def test_numpydoc_finds_no_fault_but_where_the_house_deviates():
    validate = pytest.importorskip("numpydoc.validate").validate
    faults = {}
    for name in [*NAMES, *METHODS]:
        for code, message in validate(name)["errors"]:
            faults.setdefault(code, []).append((name, message))
    others = {code: found for code, found in faults.items() if code not in HOUSE_RULES}
    assert not others
    assert set(faults) == HOUSE_RULES  # none is named that nobody needs
    page = (ROOT / "docs" / "contributing.md").read_text(encoding="utf8")
    assert set(re.findall(r"`([A-Z]{2}\d\d)`", page)) == HOUSE_RULES


@for_every(CLASSES)
def test_every_class_tells_its_arguments_or_what_it_holds(name):
    """Functions make the classes that have no Parameters."""
    cls = CLASSES[name]
    if issubclass(cls, BaseException):
        assert inspect.getdoc(cls)
    elif api_page.is_made_by_hand(cls):
        assert set(taken(cls)) <= told(cls)
    else:
        assert section(cls, "Attributes") or inspect.isabstract(cls)


@for_every([*FUNCTIONS, *CLASSES])
def test_every_name_leads_on_to_public_ones(name):
    """Errors are named where they are raised, and lead nowhere."""
    thing = NAMES[name]
    if inspect.isclass(thing) and issubclass(thing, BaseException | Warning):
        return
    related = re.findall(r"[\w.]+", " ".join(section(thing, "See Also")))
    assert related
    for other in related:
        full = f"privcontrol.{other}"
        assert full in NAMES or full in METHODS, other
        assert full != name


#: Methods without an example, and where one is.
ELSEWHERE = {
    "privcontrol.consensus.Agent.repair": "examples/agents/neighbourhood_meters.py",
}


@for_every(METHODS)
def test_every_method_has_an_example(name):
    """Of its own, or one of its class that calls it."""
    home, _, method = name.rpartition(".")
    if name in ELSEWHERE:
        text = (ROOT / ELSEWHERE[name]).read_text(encoding="utf8")
        assert f".{method}(" in text
        return
    of_class = "\n".join(section(CLASSES[home], "Examples"))
    own = "\n".join(section(METHODS[name], "Examples"))
    assert ">>>" in own or f".{method}(" in of_class


def test_names_lead_to_documents_that_use_them():
    """Read as text, by a second route; most names have some."""
    led = {name: used_in.used_in(name) for name in NAMES}
    for name, places in led.items():
        for place in places:
            script = ROOT / "examples" / f"{place.removeprefix('/gallery/')}.py"
            page = ROOT / "docs" / f"{place[1:]}.md"
            source = script if place.startswith("/gallery/") else page
            last = name.rpartition(".")[2]
            assert re.search(rf"\b{last}\b", source.read_text(encoding="utf8"))
    # classes without one are results, which no code names; these functions have the
    # examples of their docstrings alone
    others = {name for name, places in led.items() if not places}
    functions = {name for name in others if name in FUNCTIONS}
    assert functions <= {
        "privcontrol.create_noise_iosystem",
        "privcontrol.identify_outputs",
        "privcontrol.system_gain",
        "privcontrol.core.ball_rate",
        "privcontrol.core.design_noise",
        "privcontrol.core.truncated_radius",
        "privcontrol.consensus.optimal_consensus_error",
        "privcontrol.consensus.optimal_consensus_scales",
    }


def test_engine_rooms_exist_and_have_a_reason():
    """None is left in the list of what the reference leaves out when it is renamed."""
    for home, names, reason in api_page.ENGINE_ROOMS:
        family = [cls for cls in CLASSES.values() if issubclass(cls, home)]
        for name in names.split():
            assert any(hasattr(cls, name) for cls in family), name
        assert reason


@for_every(
    ["README.md", *sorted(f"docs/{page.name}" for page in (ROOT / "docs").glob("*.md"))]
)
def test_no_page_sends_readers_to_an_engine_room(page):
    """Pages that tell what was done, and not what to do, may."""
    if page in ("docs/history.md", "docs/changelog.md"):
        return
    text = (ROOT / page).read_text(encoding="utf8")
    for cls in CLASSES.values():
        for name in api_page.kept_out(cls):
            assert f"`{cls.__name__}.{name}" not in text


def test_what_is_inherited_is_in_the_reference():
    assert {"sample", "stream", "covariance", "plot"} <= set(
        api_page.members(pc.OutputNoise)
    )
    assert "with_noise" in api_page.members(pc.PrivateLoop)
    assert "entering" not in api_page.members(pc.StateAdjacency)


@pytest.mark.slow
def test_the_page_of_a_class_begins_with_its_methods(tmp_path, monkeypatch):
    """And shows no constructor that users do not call."""
    pytest.importorskip("numpydoc")
    pytest.importorskip("sphinxcontrib.bibtex")
    from sphinx.application import Sphinx

    monkeypatch.syspath_prepend(str(ROOT / "docs" / "_ext"))
    source, out = tmp_path / "source", tmp_path / "out"
    source.mkdir()
    (source / "conf.py").write_text(
        f"""
extensions = ["sphinx.ext.autodoc", "sphinx.ext.autosummary", "numpydoc",
              "sphinxcontrib.bibtex", "docstrings"]
templates_path = [{str(ROOT / "docs" / "_templates")!r}]
bibtex_bibfiles = [{str(ROOT / "docs" / "references.bib")!r}]
default_role = "py:obj"
numpydoc_show_class_members = False
""",
        encoding="utf8",
    )
    names = ("privcontrol.PrivateLoop", "privcontrol.LinearQuery")
    others = ("privcontrol.PrivacyError",)  # without a constructor of its own
    lines = ["API", "===", "", ".. autosummary::", "   :toctree: api", ""]
    text = "\n".join([*lines, *(f"   {name}" for name in names + others), ""])
    (source / "index.rst").write_text(text, encoding="utf8")
    warnings = io.StringIO()
    Sphinx(
        source, source, out, out / "trees", "text", status=None, warning=warnings
    ).build()
    assert "error while formatting" not in warnings.getvalue()
    loop, query = (
        (out / "api" / f"{name}.txt").read_text(encoding="utf8") for name in names
    )
    assert "class privcontrol.PrivateLoop\n" in loop
    table, described = loop.split("class privcontrol.PrivateLoop\n")
    assert "Simulate trials of the loop" in table
    assert "with_noise(" in described
    assert "class privcontrol.LinearQuery(" in query
    assert "sensitivity(" in query
