"""Docstrings are plain text first, and public names become links.

A bar in them is an absolute value, not a substitution of reStructuredText.
"""

import inspect
import re

import api_page
import elsewhere
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
_QUOTED = re.compile(rf"(?<![:`])`(({'|'.join(_FULL)})(\.\w+)?)`(?!`)")
#: Types of the library, and those of other packages.
_TYPES = elsewhere.FULL | _FULL
_LONGEST_FIRST = sorted(map(re.escape, _TYPES), key=len, reverse=True)
_NAME = re.compile(rf"(?<![\w.`~])({'|'.join(_LONGEST_FIRST)})(?![\w.`(])")


def link_types(app, what, name, obj, options, lines):
    """Make links of the library's own names, in sentences and in types.

    Types of other packages are links as well.
    """
    related = False
    for i, line in enumerate(lines):
        if _RULE.match(line):
            related = lines[i - 1].strip() == "See Also"
        elif related:
            lines[i] = _RELATED.sub(_link_related, line)
            continue
        line = _QUOTED.sub(_link, line)
        line = _ALONE.sub(lambda found: _link_member(found[1], name), line)
        lines[i] = line
        start, text = _TYPED.match(line).groups()
        if " : " in start or text in _TYPES:
            link = _NAME.sub(lambda found: f":obj:`~{_TYPES[found[1]]}`", text)
            lines[i] = start + link


#: A name alone: a member of the class whose page it is on, else an argument.
_ALONE = re.compile(r"(?<![:`\w])`(\w+)`(?![`\w])")


def _link_member(name, where):
    """The reference to a member of the class that is described, other names as code."""
    for full in (where, where.rpartition(".")[0]):
        cls = api_page.public_names().get(full)
        if inspect.isclass(cls) and name in api_page.members(cls):
            return f":obj:`{name} <{full}.{name}>`"
    return f"``{name}``"


_RULE = re.compile(r"\s*-{3,}$")
_RELATED = re.compile(r"[\w.]+")


def _link_related(found):
    """The reference to a name of a See Also, a method with its class."""
    name = _full_name(found[0])
    return f":obj:`{'~' if name in _FULL.values() else ''}{name}`" if name else found[0]


def _full_name(name):
    """Where a name of a See Also is found: `core.kappa`, `PrivateLoop.online`."""
    for full in (f"privcontrol.{name}", f"privcontrol.{name}".rpartition(".")[0]):
        if full in _FULL.values():
            return f"privcontrol.{name}"
    return None


_CODE = re.compile(rf"`((?:core\.|consensus\.)?({'|'.join(_FULL)})(\.\w+)?)`")


def _link(found):
    """The reference to a name, found as itself, its last part and a method."""
    return f":obj:`{found[1]} <{_FULL[found[2]]}{found[3] or ''}>`"


def link_names(app, docname, source):
    """Make links of the library's own names on the page of tasks."""
    if docname == "tasks":
        source[0] = _CODE.sub(
            lambda found: _link(found).replace(":obj:", "{py:obj}"), source[0]
        )


def hide_constructor(app, what, name, obj, options, signature, returns):
    """Show no arguments at the head of a class that functions make."""
    has_one = signature is not None and what in ("class", "exception")
    if has_one and not api_page.is_made_by_hand(obj):
        return "", None
    return None


def setup(app):
    # A summary is the first sentence: these end none.
    autosummary.WELL_KNOWN_ABBREVIATIONS += ("eq.", " .")
    app.connect("autodoc-process-docstring", escape_bars, priority=100)
    app.connect("autodoc-process-docstring", link_types, priority=200)
    app.connect("autodoc-process-signature", hide_constructor)
    app.connect("source-read", link_names)
    app.config.autosummary_context |= api_page.context()
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
