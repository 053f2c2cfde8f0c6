"""Formulas as MathML, written while the pages are built: no script and no network, neither then nor when reading."""

import re
from html import escape

from docutils.nodes import SkipNode
from latex2mathml.converter import convert
from sphinx.util.math import get_node_equation_number

#: What latex2mathml would read as single letters.
_MACROS = {r"\tr": r"\mathrm{tr}", r"\col": r"\mathrm{col}", r"\diag": r"\mathrm{diag}"}


def _mathml(latex, display):
    for macro, meaning in _MACROS.items():
        latex = re.sub(
            re.escape(macro) + r"(?![a-zA-Z])", meaning.replace("\\", r"\\"), latex
        )
    return convert(latex.strip(), display=display)


def _inline(translator, node):
    translator.body.append(
        f'<span class="math">{_mathml(node.astext(), "inline")}</span>'
    )
    raise SkipNode


def _block(translator, node):
    number = get_node_equation_number(translator, node) if node["number"] else ""
    tag = f'<span class="eqno">({escape(number)})</span>' if number else ""
    parts = node.astext().strip().split("\n\n")
    body = "".join(_mathml(part, "block") for part in parts)
    anchor = f' id="{escape(node["ids"][0])}"' if node.get("ids") else ""
    translator.body.append(f'<div class="math"{anchor}>{tag}{body}</div>')
    raise SkipNode


def setup(app):
    app.add_html_math_renderer("mathml", (_inline, None), (_block, None))
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
