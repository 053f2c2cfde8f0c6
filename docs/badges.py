"""README's badges, drawn from pyproject.toml: they ask no server, and look the same offline.

python docs/badges.py [folder]
"""

import sys
import tomllib
from pathlib import Path
from xml.sax.saxutils import escape

from matplotlib.font_manager import FontProperties
from matplotlib.textpath import TextPath

FIGURES = Path(__file__).parent / "figures"
PROJECT = FIGURES.parents[1] / "pyproject.toml"
FONT = FontProperties(family="DejaVu Sans", size=11)
HEIGHT = 20
MARGIN = 6
GREY, BLUE = "#555555", "#0b62a8"


def badges() -> dict[str, tuple[str, str]]:
    """Label and value of each badge by the name of its file."""
    project = tomllib.loads(PROJECT.read_text(encoding="utf8"))["project"]
    versions = [
        name.rpartition(" ")[2]
        for name in project["classifiers"]
        if name.startswith("Programming Language :: Python :: 3.")
    ]
    control = next(
        need for need in project["dependencies"] if need.startswith("control")
    )
    return {
        "python": ("Python", f"{versions[0]} to {versions[-1]}"),
        "control": ("python-control", control.partition(">=")[2] + " or later"),
        "license": ("licence", project["license"]),
    }


def width(text: str) -> int:
    """Pixels that a text takes with its margins."""
    return round(TextPath((0, 0), text, prop=FONT).get_extents().width) + 2 * MARGIN


def drawn(label: str, value: str) -> str:
    """One badge as SVG, white on grey and blue."""
    left, right = width(label), width(value)
    total = left + right

    def centred(text: str, middle: float) -> str:
        return f'<text x="{middle:g}" y="14" textLength="{width(text) - 2 * MARGIN}">{escape(text)}</text>'

    return f"""<svg xmlns="http://www.w3.org/2000/svg" width="{total}" height="{HEIGHT}" role="img" aria-label="{escape(label)}: {escape(value)}">
<clipPath id="r"><rect width="{total}" height="{HEIGHT}" rx="3"/></clipPath>
<g clip-path="url(#r)"><path fill="{GREY}" d="M0 0h{left}v{HEIGHT}H0z"/><path fill="{BLUE}" d="M{left} 0h{right}v{HEIGHT}H{left}z"/></g>
<g fill="#fff" text-anchor="middle" font-family="Verdana,DejaVu Sans,sans-serif" font-size="11">
{centred(label, left / 2)}
{centred(value, left + right / 2)}
</g>
</svg>
"""


def write(folder: Path) -> None:
    """Write each badge to its file in ``folder``."""
    for name, (label, value) in badges().items():
        path = folder / f"badge_{name}.svg"
        path.write_text(drawn(label, value), encoding="utf8")


if __name__ == "__main__":
    write(Path(sys.argv[1]) if len(sys.argv) > 1 else FIGURES)
