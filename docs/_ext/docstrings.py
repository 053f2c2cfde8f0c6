"""Docstrings are plain text first: a bar in them is an absolute value, not a substitution of reStructuredText."""

import re

#: What is left alone: code, formulas and references.
_MARKED = re.compile(r"(``.+?``|:\w+:`.+?`|`[^`]+`)")


def escape_bars(app, what, name, obj, options, lines):
    """Escape the bars of all lines that are no code."""
    for i, line in enumerate(lines):
        if "|" in line and not line.lstrip().startswith((">>>", "...")):
            parts = _MARKED.split(line)
            parts[::2] = [part.replace("|", r"\|") for part in parts[::2]]
            lines[i] = "".join(parts)


def setup(app):
    app.connect("autodoc-process-docstring", escape_bars, priority=100)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
