"""Docstrings are plain text first: a bar in them is an absolute value, not a substitution of reStructuredText."""

import re

import api_page
from sphinx.ext import autosummary

#: What is left alone: code, formulas and references.
_MARKED = re.compile(r"(``.+?``|:\w+:`.+?`|`[^`]+`)")


def escape_bars(app, what, name, obj, options, lines):
    """Escape the bars of all lines that are no code and no formula."""
    for i, line in enumerate(lines):
        if "|" in line and not line.lstrip().startswith((">>>", "...", ".. math::")):
            parts = _MARKED.split(line)
            parts[::2] = [part.replace("|", r"\|") for part in parts[::2]]
            lines[i] = "".join(parts)


#: Public names, and the lines where types stand: after a parameter's name, or alone.
_FULL = {name.rpartition(".")[2]: name for name in api_page.public_names()}
_TYPED = re.compile(r"^(\s*[\w, ]+ : |\s*)(.*)$")
_NAME = re.compile(rf"(?<![\w.`~])({'|'.join(_FULL)})(?![\w.`(])")


def link_types(app, what, name, obj, options, lines):
    """Make links of the library's own names in the types of parameters and results."""
    for i, line in enumerate(lines):
        start, text = _TYPED.match(line).groups()
        if " : " in start or text in _FULL:
            link = _NAME.sub(lambda found: f":obj:`~{_FULL[found[1]]}`", text)
            lines[i] = start + link


def setup(app):
    # A summary is the first sentence: these end none.
    autosummary.WELL_KNOWN_ABBREVIATIONS += ("eq.", " .")
    app.connect("autodoc-process-docstring", escape_bars, priority=100)
    app.connect("autodoc-process-docstring", link_types, priority=200)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
