"""Docstrings are plain text first: a bar in them is an absolute value, not a substitution of reStructuredText."""

import re

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


def setup(app):
    # A summary is the first sentence: these end none.
    autosummary.WELL_KNOWN_ABBREVIATIONS += ("eq.", " .")
    app.connect("autodoc-process-docstring", escape_bars, priority=100)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
