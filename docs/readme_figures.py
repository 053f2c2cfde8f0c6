"""The figure of README.md and of the site's front page, as README's command draws it.

python docs/readme_figures.py [folder]

The same run is written for light and for dark pages, on a transparent ground, and as the
card that others show beside a link to the site.
"""

import contextlib
import runpy
import sys
import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from numpy.typing import NDArray
from PIL import Image

FIGURES = Path(__file__).parent / "figures"
SCRIPT = FIGURES.parents[1] / "examples" / "first_private_loop.py"
CARD = (1280, 640)  # width and height that most sites show whole

#: ``invert(1) hue-rotate(180deg)`` of CSS: light and dark are exchanged, hues are kept.
HUES = np.array([[-0.574, 1.430, 0.144], [0.426, 0.430, 0.144], [0.426, 1.430, -0.856]])


def drawn() -> Image.Image:
    """What the script of the README draws, on a transparent ground."""
    with (
        tempfile.TemporaryDirectory() as folder,
        contextlib.chdir(folder),
        contextlib.redirect_stdout(None),
        plt.rc_context({"savefig.transparent": True}),
    ):
        runpy.run_path(str(SCRIPT))
        plt.close("all")
        return Image.open(f"{SCRIPT.stem}.png").convert("RGBA")


def for_dark_pages(image: Image.Image) -> Image.Image:
    """The figure as ``custom.css`` shows those of the pages on a dark ground."""
    colors: NDArray = np.asarray(image).astype(float)
    colors[..., :3] = np.clip((255 - colors[..., :3]) @ HUES.T, 0, 255)
    return Image.fromarray(colors.round().astype(np.uint8), "RGBA")


def card(image: Image.Image) -> Image.Image:
    """The figure in the middle of a white card."""
    small = image.copy()
    small.thumbnail((CARD[0] - 40, CARD[1] - 20), Image.Resampling.LANCZOS)
    ground = Image.new("RGBA", CARD, "white")
    corner = tuple((of - size) // 2 for of, size in zip(CARD, small.size, strict=True))
    ground.alpha_composite(small, corner)
    return ground.convert("RGB")


def draw_all(folder: Path) -> None:
    """Write the figure in its three forms into a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    image = drawn()
    image.save(folder / f"{SCRIPT.stem}.png", optimize=True)
    for_dark_pages(image).save(folder / f"{SCRIPT.stem}_dark.png", optimize=True)
    card(image).save(folder / "card.png", optimize=True)


if __name__ == "__main__":
    draw_all(Path(sys.argv[1]) if len(sys.argv) > 1 else FIGURES)
