"""The site's front page begins as README does, with its figure in light and in dark."""

import re
from pathlib import Path

README = Path(__file__).parents[2] / "README.md"
MARK = "<!-- README -->"
END = "## What do you want to do?"
_PICTURE = re.compile(
    r'<picture>\s*<source [^>]*srcset="docs/([^"]+)">\s*'
    r'<img src="docs/([^"]+)" alt="([^"]*)">\s*</picture>'
)
_BADGE = re.compile(r"\[(!\[[^\]]*\]\([^)]*\))\]\([^)]*\)")
_IMAGE = "```{{image}} {file}\n:alt: {alt}\n:class: only-{ground}\n```\n"


def top(text):
    """README up to its table of tasks, with addresses as this site has them."""
    head, end, _ = text.partition(END)
    if not end:
        raise ValueError(f"README.md: expected the heading {END!r}")
    head = _PICTURE.sub(_in_both, head)
    head = _BADGE.sub(r"\1", head)  # the files that they lead to are not on the site
    head = re.sub(
        r"\[([^\]]+)\]\(examples/(\w+)\.py\)", r"{doc}`\1 <gallery/\2>`", head
    )
    return re.sub(r"\]\(docs/(?:rendered/)?", "](", head)


def _in_both(match):
    """The figure twice, of which the theme shows the one for its ground."""
    dark, light, alt = match.groups()
    return _IMAGE.format(file=light, alt=alt, ground="light") + _IMAGE.format(
        file=dark, alt=alt, ground="dark"
    )


def put_in(app, docname, source):
    """Put the top of README where the front page asks for it."""
    if MARK in source[0]:
        app.env.note_dependency(README)
        source[0] = source[0].replace(MARK, top(README.read_text("utf8")))


def setup(app):
    """Listen to pages that are read."""
    app.connect("source-read", put_in)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
