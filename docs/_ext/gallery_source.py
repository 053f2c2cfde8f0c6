"""The scripts of ``examples/``, prepared for sphinx-gallery in a folder of their own, so none writes to its source.

The first line of a script's docstring becomes its title. Figures are the PNG files that a script writes.
"""

import ast
import builtins
import functools
import hashlib
import shutil
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from PIL import Image
from sphinx_gallery.scrapers import figure_rst

import privcontrol

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples"
SOURCE = ROOT / "docs" / "_gallery_source"
GALLERY = ROOT / "docs" / "gallery"
PACKAGE = Path(privcontrol.__file__).parent

_ORDER = (
    *(
        "first_private_loop.py",
        "two_offices.py",
        "which_adjacency.py",
        "how_long_a_horizon.py",
        "structured_or_white.py",
    ),
    *(
        "cost_of_privacy.py",
        "what_an_eavesdropper_learns.py",
        "thousand_agents.py",
        "network_in_the_cloud.py",
        "mpc_behind_the_gate.py",
    ),
    *(f"dpam_figure_{number}.py" for number in (2, 3, 5, 6, 7)),
    *(f"ip_figure_{number}.py" for number in (3, 4, 5, 6)),
    *("central_accuracy.py", "neighbourhood_meters.py"),
    *(
        "batch_recipe.py",
        "building_zone.py",
        "quadruple_tank.py",
        "glucose_patient.py",
        "battery_behind_a_meter.py",
        "battery_that_hides_when.py",
        "pipeline_of_mechanisms.py",
        "correlated_data_without_a_plant.py",
        "formation.py",
        "bus.py",
        "meter.py",
    ),
    *("side_by_side.py", "fleet.py", "gradient_tracking.py", "consensus_comparison.py"),
)

#: The methods of literature/, and what they share: its two tables run them all.
LITERATURE = tuple(sorted(path.stem for path in (EXAMPLES / "literature").glob("*.py")))
LITERATURE = tuple(name for name in LITERATURE if f"{name}.py" not in _ORDER)
#: What the scripts of papers/ share: shown, not run.
SHARED = ("dpam_vehicle", "dpam_agents", "ip_digits", *LITERATURE)
# Shown without being run: it starts and kills a process for every meter, and forks of
# the process that builds these pages are slow.
SHOWN_ONLY = ("neighbourhood_meters",)


@functools.cache
def fingerprint():
    """Of all code that the pages and scripts may run: other code, and everything is run again."""
    files = [
        *PACKAGE.rglob("*.py"),
        *EXAMPLES.rglob("*.py"),
        ROOT / "docs" / "drawings.py",
    ]
    digest = hashlib.sha256()
    for path in sorted(files):
        digest.update(path.name.encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()[:16]


def prepare():
    """Fill the folder that sphinx-gallery reads; its path, and that of the thumbnail for scripts without a figure."""
    run_with = GALLERY / "fingerprint.txt"
    if not run_with.exists() or run_with.read_text(encoding="utf8") != fingerprint():
        for done in GALLERY.rglob("*.md5"):
            done.unlink()
        GALLERY.mkdir(exist_ok=True)
        run_with.write_text(fingerprint(), encoding="utf8")
    shutil.rmtree(SOURCE, ignore_errors=True)
    shutil.copytree(
        EXAMPLES, SOURCE, ignore=shutil.ignore_patterns("__pycache__", "*.png")
    )
    for script in SOURCE.rglob("*.py"):
        script.write_text(_titled(script.read_text(encoding="utf8")), encoding="utf8")
    return str(SOURCE), _thumbnail(SOURCE / "data" / "thumbnail.png")


def _titled(source):
    """The script with the first line of its docstring as a title over the rest."""
    title, _, text = ast.get_docstring(ast.parse(source)).partition("\n")
    title, body = title.rstrip("."), source.split('"""', 2)[2]
    text = text.replace("|", r"\|")  # bars of absolute values, not of substitutions
    return f'r"""\n{title}\n{"=" * len(title)}\n\n{text.strip()}\n"""\n{body}'


def _thumbnail(path):
    """What stands for a script that prints and draws nothing."""
    figure, ax = plt.subplots(figsize=(4, 2.8))
    ax.text(
        0.5,
        0.5,
        ">>> print(…)",
        ha="center",
        va="center",
        family="monospace",
        fontsize=24,
        color="#666666",
    )
    ax.set_axis_off()
    figure.savefig(path, dpi=100)
    plt.close(figure)
    return str(path)


def position(script):
    """Where a script stands in the gallery: first things first, unknown ones at the end."""
    return _ORDER.index(script) if script in _ORDER else len(_ORDER)


def no_arguments(_gallery_conf, script_vars):
    """Arguments of the scripts: none, so figures are written where the script runs.

    sphinx-gallery does not define ``__file__``, by which scripts find their data, and this
    is the only place where it says the whole path of a script.
    """
    builtins.__file__ = str(script_vars["src_file"])
    return []


def written_figures(block, block_vars, gallery_conf):
    """The PNG files that a script wrote since its last block, moved into the gallery.

    A script names its figures after itself: others run beside it, and write to the same folder.
    """
    plt.close("all")
    script, images = Path(block_vars["src_file"]), []
    for written in sorted(script.parent.glob(f"{script.stem}*.png")):
        image = Path(next(block_vars["image_path_iterator"]))
        shutil.move(written, image)
        images.append(str(image))
    return figure_rst(images, gallery_conf["src_dir"])


def show_first_panels(_app):
    """Write the thumbnails of wide figures again, each with its first panel alone.

    More would not be readable at the size of a thumbnail.
    """
    for thumbnail in GALLERY.rglob("sphx_glr_*_thumb.png"):
        name = thumbnail.name.replace("_thumb", "_001")
        figure = thumbnail.parents[1] / name
        if figure.exists():
            image = Image.open(figure).convert("RGB")
            panel = image.crop((0, 0, first_panel(image), image.height))
            panel.thumbnail((400, 280))
            thumbnail_image = Image.new("RGB", (400, 280), "white")
            corner = ((400 - panel.width) // 2, (280 - panel.height) // 2)
            thumbnail_image.paste(panel, corner)
            thumbnail_image.save(thumbnail)


def first_panel(image):
    """Return the column at which the first panel of a figure ends, or the width."""
    if image.width < 1.7 * image.height:
        return image.width
    ink = 255 - np.asarray(image.convert("L"))[: int(0.8 * image.height)]
    first, last = int(0.3 * image.width), int(0.7 * image.width)
    gap = first + ink[:, first:last].sum(axis=0, dtype=int).argmin()
    return gap + image.width // 200
