"""The cells of all pages are run beside each other, before pages are read.

Sphinx deals pages to its processes by the alphabet, and one of them would run most of
the cells. When a page is read, its results stand in the cache. Errors are not shown
here: a page without results is run again when it is read.
"""

from pathlib import Path

from joblib import Parallel, delayed
from myst_nb.core.execute import create_client
from myst_nb.core.read import create_nb_reader
from sphinx.util import logging


def run_all(app, env, docnames):
    """Run the cells of the pages that will be read, those with most code first."""
    if app.parallel == 1:
        return
    config = env.mystnb_config.copy(execution_raise_on_error=False)
    pages = []
    for docname in docnames:
        path = env.doc2path(docname)
        text = Path(path).read_text("utf8")
        reader = create_nb_reader(path, env.myst_config, config, text)
        if reader is not None:
            pages.append((reader.read(text), str(path), reader.read_fmt))
    pages.sort(key=lambda page: -_size(page[0]))
    Parallel(app.parallel, batch_size=1, pre_dispatch="n_jobs")(
        delayed(_run)(notebook, path, config, form) for notebook, path, form in pages
    )


def _size(notebook):
    """Characters of code."""
    return sum(len(cell.source) for cell in notebook.cells if cell.cell_type == "code")


def _run(notebook, path, config, form):
    """Run a page, unless its results stand in the cache."""
    with create_client(notebook, path, config, logging.getLogger(__name__), form):
        pass


def setup(app):
    app.connect("env-before-read-docs", run_all)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
