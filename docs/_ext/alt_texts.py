"""Alternative texts of figures, from ``docs/alt_texts.toml``: of cells of pages, in their order, and of scripts."""

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


def setup(app):
    """Describe figures as soon as their page is read."""
    app.connect("doctree-read", describe)
    return {"parallel_read_safe": True}
