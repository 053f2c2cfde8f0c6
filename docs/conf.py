"""Configuration of the documentation; docs/contributing.md says how it is built."""

import os
import sys
from pathlib import Path

# Pages and scripts run beside each other, each in a process of one BLAS thread.
os.environ.setdefault("OMP_NUM_THREADS", "1")

import matplotlib

sys.path[:0] = [str(Path(__file__).parent / "_ext"), str(Path(__file__).parent)]
matplotlib.use("Agg")
# Cells show their figures, also where the environment asks for another backend.
os.environ["MPLBACKEND"] = "module://matplotlib_inline.backend_inline"
# The kernels that run the pages find drawings.py too, and the processes that run the
# scripts of the gallery find gallery_source.py.
_BUILD = Path(__file__).parent / "_build"
os.environ["PYTHONPATH"] = os.pathsep.join(
    [*sys.path[:2], os.environ.get("PYTHONPATH", "")]
)

# Kernels with a profile of their own: the same pages for everybody, and no advice on the terminal. The backend is chosen
# before any cell runs (a backend that loads within a style context is left non-interactive, and shows no second figure),
# figures have the ground of the page, and what a cell prints is sent in one piece (pieces are joined by a new line,
# wherever they were cut).
os.environ["IPYTHONDIR"] = str(_BUILD / "ipython")
_PROFILE = _BUILD / "ipython" / "profile_default"
(_PROFILE / "startup").mkdir(parents=True, exist_ok=True)
(_PROFILE / "ipython_kernel_config.py").write_text(
    'c.IPKernelApp.log_level = 50\nc.IPKernelApp.matplotlib = "inline"\n'
    'c.InlineBackend.rc = {"figure.facecolor": "none", "axes.facecolor": "none", '
    '"legend.facecolor": "white"}\n'
)
(_PROFILE / "startup" / "whole_output.py").write_text(
    "import sys\n\nsys.stdout.flush_interval = 3600.0\n"
)

import api_page  # noqa: E402
import elsewhere  # noqa: E402
import gallery_source  # noqa: E402

import privcontrol  # noqa: E402

project = "privcontrol"
author = "The privcontrol developers"
project_copyright = "the privcontrol developers"
version = release = privcontrol.__version__

extensions = [
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.intersphinx",
    "sphinx.ext.viewcode",
    "numpydoc",
    "myst_nb",
    "sphinx_gallery.gen_gallery",
    "sphinxcontrib.bibtex",
    "sphinx_copybutton",
    "docstrings",
    "used_in",
    "alt_texts",
    "cells",
    "mathml",
    "front_page",
    "search_words",
    "terms",
]
exclude_patterns = [
    "_build",
    "_gallery_source",
    "changes",
    "rendered",
    "notebooks",
    "_ext",
    "**.ipynb_checkpoints",
    "gallery/**.ipynb",
    "gallery/**.py",
]
templates_path = ["_templates"]
suppress_warnings = ["config.cache"]  # the functions below cannot be pickled

# Pages in MyST: every cell is run, an error stops the build.
myst_enable_extensions = ["colon_fence", "deflist", "dollarmath", "fieldlist"]
myst_heading_anchors = 3
nb_execution_mode = "cache"
nb_execution_cache_path = str(_BUILD / "cells" / gallery_source.fingerprint())
nb_execution_timeout = 180
nb_execution_raise_on_error = True
nb_merge_streams = True
nb_render_image_options = {"align": "center"}

# What is copied has no prompts and no printed lines.
copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True
copybutton_only_copy_prompt_lines = True

bibtex_bibfiles = ["references.bib"]
bibtex_reference_style = "author_year"

# The API, from numpydoc docstrings.
api_page.write(Path(__file__).parent / "api")
autosummary_generate = True
intersphinx_mapping = elsewhere.write(_BUILD / "inventories")
autodoc_member_order = "bysource"
default_role = "py:obj"
autodoc_typehints = "none"
numpydoc_show_class_members = False
numpydoc_class_members_toctree = False

# examples/, run, in its sections; what the scripts of a section share is shown.
_SCRIPTS, _THUMBNAIL = gallery_source.prepare()
sphinx_gallery_conf = {
    "examples_dirs": _SCRIPTS,
    "default_thumb_file": _THUMBNAIL,
    "subsection_order": gallery_source.section,
    "within_subsection_order": gallery_source.position,
    "gallery_dirs": "gallery",
    "filename_pattern": rf"/(?!{'|'.join(gallery_source.SHARED + gallery_source.SHOWN_ONLY)})\w+\.py$",
    "ignore_pattern": r"__init__\.py",
    "image_scrapers": (gallery_source.written_figures,),
    "reset_argv": gallery_source.no_arguments,
    "reset_modules": ("matplotlib", gallery_source.draw_thumbnails),
    "abort_on_example_error": True,
    "download_all_examples": False,
    "show_signature": False,
    "write_computation_times": False,
    "plot_gallery": "True",
    "parallel": True,  # as many processes as -j says
}

html_math_renderer = "mathml"
html_theme = "furo"
html_title = f"privcontrol {version}"
html_static_path = ["_static", "figures"]
# What others show beside a link; they ask for a whole address.
html_baseurl = os.environ.get("READTHEDOCS_CANONICAL_URL", "")
myst_html_meta = {
    "property=og:image": f"{html_baseurl}_static/card.png",
    "property=og:title": "privcontrol: feedback control that keeps a secret",
    "name=twitter:card": "summary_large_image",
}
html_css_files = ["custom.css"]
html_js_files = ["focus.js"]
html_copy_source = False
html_theme_options = {"source_directory": "docs/"}
pygments_style = "a11y-high-contrast-light"


def _optional_pages(app, docname, source):
    for page in ("benchmarks",):
        if (
            docname == "evidence"
            and not (Path(__file__).parent / f"{page}.md").exists()
        ):
            source[0] = source[0].replace(f"\n{page}\n", "\n")


def setup(app):
    """Leave out of the contents what is not there, and finish the gallery."""
    app.connect("source-read", _optional_pages)
    app.connect("builder-inited", gallery_source.finish, priority=600)
    app.add_config_value("code_fingerprint", gallery_source.fingerprint(), "env", str)
