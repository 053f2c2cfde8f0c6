"""Configuration of the documentation; docs/contributing.md says how it is built."""

import os
import sys
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parent / "_ext"), str(Path(__file__).parent)]
os.environ.setdefault("MPLBACKEND", "Agg")
# The kernels that run the pages find drawings.py too.
os.environ["PYTHONPATH"] = os.pathsep.join([str(Path(__file__).parent), os.environ.get("PYTHONPATH", "")])

import api_page  # noqa: E402
import gallery_source  # noqa: E402

import privcontrol  # noqa: E402

project = "privcontrol"
author = "The privcontrol developers"
version = release = privcontrol.__version__

extensions = [
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.viewcode",
    "numpydoc",
    "myst_nb",
    "sphinx_gallery.gen_gallery",
    "mathml",
]
exclude_patterns = ["_build", "_gallery_source", "_ext", "**.ipynb_checkpoints", "gallery/*.ipynb", "gallery/*.py"]
templates_path = ["_templates"]
suppress_warnings = ["config.cache"]

# Pages in MyST: every cell is run, an error stops the build.
myst_enable_extensions = ["colon_fence", "deflist", "dollarmath", "fieldlist"]
myst_heading_anchors = 3
nb_execution_mode = "cache"
nb_execution_timeout = 180
nb_execution_raise_on_error = True
nb_merge_streams = True
nb_render_image_options = {"align": "center"}

# The API, from numpydoc docstrings.
api_page.write(Path(__file__).parent / "api")
autosummary_generate = True
autodoc_member_order = "bysource"
default_role = "py:obj"
autodoc_typehints = "none"
numpydoc_show_class_members = False
numpydoc_class_members_toctree = False

# examples/, run; what only trains a model is shown.
sphinx_gallery_conf = {
    "examples_dirs": gallery_source.prepare(),
    "gallery_dirs": "gallery",
    "filename_pattern": r"/(?!train_)\w+\.py$",
    "ignore_pattern": r"__init__\.py",
    "image_scrapers": ("matplotlib", gallery_source.written_figures),
    "reset_argv": gallery_source.no_arguments,
    "reset_modules": (gallery_source.own_path, "matplotlib"),
    "abort_on_example_error": True,
    "download_all_examples": False,
    "show_signature": False,
    "plot_gallery": "True",
}

html_math_renderer = "mathml"
html_theme = "furo"
html_title = f"privcontrol {version}"
html_static_path = ["_static"]
html_css_files = ["custom.css"]
html_copy_source = False
html_theme_options = {"source_directory": "docs/"}
pygments_style = "tango"
