"""Links to the glossary where a page uses one of its terms for the first time."""

import re
from pathlib import Path

from docutils import nodes

GLOSSARY = "glossary"
#: Pages that explain nothing, or whose words are those of code.
_LEFT_OUT = ("api/", "gallery/", "glossary", "changelog", "history", "references")
#: Words of every page, and letters that formulas use otherwise.
_EVERYDAY = {"move", "window", "budget", "design", "kappa", "delta", "epsilon"}
_CLOSED = (
    nodes.literal,
    nodes.literal_block,
    nodes.reference,
    nodes.title,
    nodes.math,
    nodes.raw,
    nodes.comment,
)


def terms():
    """Return the anchor of each spelling of a term in the glossary, in lower case."""
    page = Path(__file__).parents[1] / f"{GLOSSARY}.md"
    found = {}
    for heading in re.findall(r"^## (.+)$", page.read_text("utf8"), re.MULTILINE):
        for spelling in heading.split(", "):
            if len(spelling) > 1 and spelling.lower() not in _EVERYDAY:
                found[spelling.lower()] = nodes.make_id(heading)
    return found


def is_open(text):
    """Return whether a text may get a link."""
    parent = text.parent
    while parent is not None:
        if isinstance(parent, _CLOSED) or "nolink" in parent.get("classes", ()):
            return False
        parent = parent.parent
    return True


def pattern_of(words):
    """Return the pattern of any of these words, whole, in either case."""
    return re.compile(rf"(?<![\w-])({'|'.join(map(re.escape, words))})(?![\w-])", re.I)


def link_first(app, doctree, docname):
    """Make the first use of each term on a page a link to what it means."""
    if docname.startswith(_LEFT_OUT) or app.builder.format != "html":
        return
    left = terms()
    glossary = app.builder.get_relative_uri(docname, GLOSSARY)
    for text in list(doctree.findall(nodes.Text)):
        if not is_open(text):
            continue
        parts, rest = [], text.astext()
        while left and (match := pattern_of(left).search(rest)):
            anchor = left[match[1].lower()]
            link = nodes.reference("", match[1], refuri=f"{glossary}#{anchor}")
            link["internal"] = True
            link["classes"].append("term")
            parts += [nodes.Text(rest[: match.start()]), link]
            rest = rest[match.end() :]
            left = {word: where for word, where in left.items() if where != anchor}
        if parts:
            text.parent.replace(text, [*parts, nodes.Text(rest)])


def setup(app):
    """Link terms once all pages are read."""
    app.connect("doctree-resolved", link_first)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
