"""The scripts of ``examples/``, prepared for sphinx-gallery in a folder of their own, so none writes to its source.

The first line of a script's docstring becomes its title. Figures are the PNG files that a script writes.
"""

import ast
import builtins
import functools
import hashlib
import pickle
import re
import shutil
from pathlib import Path

import matplotlib.pyplot as plt
from alt_texts import of_script
from matplotlib.figure import Figure
from sphinx_gallery.scrapers import figure_rst

import privcontrol

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples"
SOURCE = ROOT / "docs" / "_gallery_source"
GALLERY = ROOT / "docs" / "gallery"
THUMBNAILS = GALLERY / "_thumbnails"
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
    *(
        "price_of_secrets.py",
        "noise_over_horizon.py",
        "sensitivity.py",
        "life_of_a_gateway.py",
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

#: The sections of the gallery; those of the last two have a page with a table each.
SECTIONS = ("", "studies", "pictures", "agents", "papers", "literature")
TABLES = SECTIONS[-2:]

#: The panel that stands for a figure on its card, where it is not the first.
FACES = {"first_private_loop": 5, "battery_behind_a_meter": 1}

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
    figure.savefig(path, dpi=100, transparent=True)
    plt.close(figure)
    return str(path)


def section(folder):
    """Where a folder of scripts stands in the gallery."""
    name = Path(folder).name
    return SECTIONS.index(name) if name in SECTIONS else 0


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
    shown = figure_rst(images, gallery_conf["src_dir"])
    return re.sub(r":alt: .*", f":alt: {of_script(script.stem)}", shown)


def draw_thumbnails(_gallery_conf, script):
    """Have the first figure that a script writes drawn a second time, for a thumbnail.

    All figures have the ground of the page. sphinx-gallery calls this before each script,
    in the process that runs it.
    """
    plt.rcParams["savefig.transparent"] = True
    place = THUMBNAILS / f"{Path(script).stem}.png"
    save = Figure.savefig if not hasattr(Figure, "saved_alone") else Figure.saved_alone
    Figure.saved_alone = save

    def savefig(figure, path, *arguments, **keywords):
        save(figure, path, *arguments, **keywords)
        if not place.exists():
            THUMBNAILS.mkdir(parents=True, exist_ok=True)
            small = as_thumbnail(pickle.loads(pickle.dumps(figure)), place.stem)
            save(small, place, dpi=100)
            plt.close(small)

    place.unlink(missing_ok=True)
    Figure.savefig = savefig


def as_thumbnail(figure, stem):
    """Leave one panel of a figure, the first or that of FACES, in letters for this size."""
    panels = [ax for ax in figure.axes if ax.get_visible() and ax.has_data()]
    kept = panels[FACES.get(stem, 0)] if panels else figure.axes[0]
    below = [ax.get_xlabel() for ax in panels if ax.get_xlabel()]
    for ax in list(figure.axes):
        if ax is not kept:
            ax.remove()
    for legend in [*figure.legends, kept.get_legend()]:
        if legend is not None:
            legend.remove()
    if figure._suptitle is not None:
        figure.suptitle("")
    figure.set_layout_engine("none")
    figure.set_size_inches(4, 2.8)
    kept.set_title("")
    if not kept.get_xlabel() and below:  # panels that share an axis name it once
        kept.set_xlabel(below[0])
        kept.tick_params(labelbottom=True)
    kept.set_subplotspec(
        figure.add_gridspec(1, 1, left=0.2, right=0.96, top=0.95, bottom=0.2)[0]
    )
    for label in (kept.xaxis.label, kept.yaxis.label):
        label.set_fontsize(13 * min(1, 24 / max(len(label.get_text()), 1)))
    kept.tick_params(labelsize=11)
    for line in kept.lines:
        line.set_linewidth(1.4 * line.get_linewidth())
    return figure


def finish(_app):
    """Put drawn thumbnails in their places, words on cards, and tables for two sections."""
    for thumbnail in GALLERY.rglob("sphx_glr_*_thumb.png"):
        stem = thumbnail.name.removeprefix("sphx_glr_").removesuffix("_thumb.png")
        drawn = THUMBNAILS / f"{stem}.png"
        if drawn.exists():
            shutil.copyfile(drawn, thumbnail)
    index = GALLERY / "index.rst"
    text = index.read_text("utf8")
    text = re.sub(
        r"(_glr_(\w+)_thumb\.png\n\s+:alt:)[ \t]*$",
        lambda found: f"{found[1]} {of_script(found[2]) or found[2].replace('_', ' ')}",
        text,
        flags=re.M,
    )
    for name in TABLES:
        page = GALLERY / name / "index.rst"
        page.write_text(_as_table(page.read_text("utf8"), name), "utf8")
    index.write_text(_with_links(text), "utf8")


def _with_links(index):
    """The gallery's first page with links in place of the cards of the last sections."""
    titles = [
        (SOURCE / name / "README.rst").read_text("utf8").split("\n")[0]
        for name in TABLES
    ]
    first = re.search(rf"^{titles[0]}$", index, flags=re.M).start()
    last = index.rindex(".. toctree::")
    title = "Papers and literature"
    links = [
        f"- :doc:`{title} </gallery/{name}/index>`\n"
        for title, name in zip(titles, TABLES)
    ]
    return f"{index[:first]}{title}\n{'-' * len(title)}\n\n{''.join(links)}\n{index[last:]}"


def _as_table(page, name):
    """The page of a section with a table of its scripts in place of their cards."""
    head, _, rest = page.partition(".. raw:: html")
    toctree = rest[rest.index(".. toctree::") :] if ".. toctree::" in rest else ""
    rows = []
    for script in sorted(
        (SOURCE / name).glob("*.py"), key=lambda path: (position(path.name), path.name)
    ):
        text = ast.get_docstring(ast.parse(script.read_text("utf8")))
        title, about = (
            text.split("\n")[0],
            " ".join(text.split("\n\n")[1].split()) if "\n\n" in text else "",
        )
        sentence = (
            re.split(r"(?<=[a-z0-9)])(?<!eq)\. ", about)[0].rstrip(".") if about else ""
        )
        rows.append(
            f"   * - :doc:`{title} </gallery/{name}/{script.stem}>`\n     - {sentence}\n"
        )
    table = ".. list-table::\n   :widths: 40 60\n   :header-rows: 1\n\n   * - script\n     - what it does\n"
    return f"{head}\n{table}{''.join(rows)}\n\n{toctree}"
