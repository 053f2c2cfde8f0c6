"""Alternative texts of figures, from ``docs/alt_texts.toml``: of cells of pages, in their order, and of scripts."""

import re
import tomllib
from pathlib import Path

from docutils import nodes

FILE = Path(__file__).parents[1] / "alt_texts.toml"
TEXTS = tomllib.loads(FILE.read_text("utf8"))


def of_page(name: str) -> list[str]:
    """The texts of the figures that a page's cells draw, by its name without folders."""
    return TEXTS["pages"].get(name.rsplit("/", 1)[-1], [])


def of_script(stem: str) -> str:
    """The text of the figure that a script of the gallery writes."""
    return TEXTS["gallery"].get(stem, "")


def describe(app, doctree):
    """Give the figures of cells their texts."""
    texts = iter(of_page(app.env.docname))
    for image in doctree.findall(nodes.image):
        if "alt" not in image and "jupyter_execute" in str(image["uri"]):
            image["alt"] = next(texts, "")


def show_picture(app, doctree):
    """Show README's figure on its copy here, in the form for the ground that is chosen."""
    for raw in list(doctree.findall(nodes.raw)):
        text = raw.astext()
        if not text.startswith("<picture>"):
            continue
        (alt,) = re.findall(r'alt="([^"]*)"', text)
        dark, light = re.findall(r'(?:srcset|src)="docs/figures/([^"]*)"', text)
        up = "../" * app.env.docname.count("/")
        shown = [
            f'<img class="only-{ground}" src="{up}_static/{name}" alt="{alt}">'
            for ground, name in (("light", light), ("dark", dark))
        ]
        raw.replace_self(nodes.raw("", "".join(shown), format="html"))


def setup(app):
    """Describe and place figures as soon as their page is read."""
    app.connect("doctree-read", describe)
    app.connect("doctree-read", show_picture)
    return {"parallel_read_safe": True}
