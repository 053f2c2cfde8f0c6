"""The scripts of ``examples/``, prepared for sphinx-gallery in a folder of their own, so that none writes to its source.

The first sentence of a script's docstring becomes its title. Figures are the PNG files that a script writes.
"""

import ast
import builtins
import shutil
from pathlib import Path

from sphinx_gallery.scrapers import figure_rst

EXAMPLES = Path(__file__).parents[2] / "examples"
SOURCE = Path(__file__).parents[1] / "_gallery_source"

#: Titles of scripts that begin without a docstring.
_TITLES = {"first_private_loop.py": "How do I make my python-control loop private?"}


def prepare(exclude=()):
    """Fill the folder that sphinx-gallery reads."""
    shutil.rmtree(SOURCE, ignore_errors=True)
    shutil.copytree(EXAMPLES, SOURCE, ignore=shutil.ignore_patterns("__pycache__", "*.png", *exclude))
    for script in SOURCE.glob("*.py"):
        script.write_text(_titled(script.name, script.read_text(encoding="utf8")), encoding="utf8")
    (SOURCE / "GALLERY_HEADER.rst").write_text(
        "Examples\n========\n\nQuestions that an engineer has, each answered by one script of ``examples/``. "
        "They are run when these pages are built;\n``python examples/<name>.py [folder]`` runs one yourself and "
        "writes its figures to the folder.\n\n",
        encoding="utf8",
    )
    return str(SOURCE)


def _titled(name, source):
    docstring = ast.get_docstring(ast.parse(source)) or _TITLES[name]
    title, _, rest = docstring.partition("\n")
    title, _, more = title.partition("? ") if "? " in title else (title.rstrip(".").removesuffix("?"), "", "")
    title += "?" if "?" in docstring.splitlines()[0] else ""
    body = source if ast.get_docstring(ast.parse(source)) is None else source.split('"""', 2)[2]
    return f'r"""\n{title}\n{"=" * len(title)}\n\n{more}\n{rest.strip()}\n"""\n{body}'


def no_arguments(_gallery_conf, _script_vars):
    """Arguments of the scripts: none, so that figures are written where the script runs."""
    return []


def own_path(_gallery_conf, script):
    """Let a script find its data: sphinx-gallery does not define ``__file__``."""
    builtins.__file__ = str(script)


def written_figures(block, block_vars, gallery_conf):
    """The PNG files that a script wrote since its last block, moved into the gallery."""
    images = []
    for written in sorted(Path(block_vars["src_file"]).parent.glob("*.png")):
        image = Path(next(block_vars["image_path_iterator"]))
        shutil.move(written, image)
        images.append(str(image))
    return figure_rst(images, gallery_conf["src_dir"])
