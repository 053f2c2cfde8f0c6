"""Where the gallery and the pages use a public name: the reference leads there, and sources to where names are told."""

import ast
import functools
import re
from pathlib import Path

import api_page

DOCS = Path(__file__).parents[1]
EXAMPLES = DOCS.parent / "examples"
#: Sections of the gallery before and behind the pages, as a reader is led there.
_FIRST = (".", "studies", "pictures", "agents")
_LAST = ("papers", "literature")
#: Pages that name everything, or tell what was.
_LISTS = {"tasks", "changelog", "history", "contributing", "notation"}
_MOST = 6
_BLOCK = re.compile(r"^```(?:\{code-cell\} python3|python)\n(.*?)^```$", re.M | re.S)


@functools.cache
def sources():
    """Python code by the name of the document that shows it, in the order to lead to."""
    pages = {}
    for path in sorted([*DOCS.glob("*.md"), *DOCS.glob("tutorials/*.md")]):
        if path.stem not in _LISTS:
            blocks = _BLOCK.findall(path.read_text(encoding="utf8"))
            where = path.relative_to(DOCS).with_suffix("").as_posix()
            pages[f"/{where}"] = "\n".join(
                re.sub(r"^[:%!].*$", "", block, flags=re.M) for block in blocks
            )
    return _scripts(_FIRST) | pages | _scripts(_LAST)


def _scripts(sections):
    """Scripts by the documents that the gallery makes of them."""
    return {
        f"/gallery/{path.relative_to(EXAMPLES).with_suffix('').as_posix()}": path.read_text(
            encoding="utf8"
        )
        for section in sections
        for path in sorted((EXAMPLES / section).glob("*.py"))
    }


@functools.cache
def _names(where):
    """Full public names that the code of a document asks for."""
    short = {
        name.removeprefix("privcontrol."): name for name in api_page.public_names()
    }
    last = {name.rpartition(".")[2]: name for name in short.values()}
    try:
        tree = ast.parse(sources()[where])
    except SyntaxError:  # a block that is a part of a script
        return frozenset()
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith(
            "privcontrol"
        ):
            found |= {last.get(alias.name) for alias in node.names}
        elif isinstance(node, ast.Attribute):
            chain = ast.unparse(node)
            found.add(short.get(re.sub(r"^(pc|privcontrol)\.", "", chain)))
    return frozenset(found - {None})


def used_in(name):
    """Documents whose code uses a public name, at most some."""
    return [where for where in sources() if name in _names(where)][:_MOST]


def lead_on(app, what, name, obj, options, lines):
    """Add the documents that use a name behind its description."""
    if name in api_page.public_names():
        places = used_in(name)
        if places:
            links = ", ".join(f":doc:`{place}`" for place in places)
            lines += ["", ".. rubric:: Used in", "", links, ""]


def add_anchors(app, doctree):
    """Give a name the anchors by which the pages of its source know it.

    They take all names of a file for those of one place to import them from.
    """
    from sphinx import addnodes  # the rest is read by tests, where it may be missing

    homes = {}
    for full, value in api_page.public_names().items():
        home = full.rpartition(".")[0]
        homes.setdefault(getattr(value, "__module__", None), set()).add(home)
    for signature in doctree.findall(addnodes.desc_signature):
        home, name = signature.get("module"), signature.get("fullname")
        if not home or not name:
            continue
        value = api_page.public_names().get(f"{home}.{name.partition('.')[0]}")
        for other in homes.get(getattr(value, "__module__", None), ()):
            if f"{other}.{name}" not in signature["ids"]:
                signature["ids"].append(f"{other}.{name}")


def setup(app):
    # Behind numpydoc, which knows sections of its own alone.
    app.connect("autodoc-process-docstring", lead_on, priority=600)
    app.connect("doctree-read", add_anchors)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
