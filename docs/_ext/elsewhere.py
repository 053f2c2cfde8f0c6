"""Types of other packages lead to their documentation, without a download.

Intersphinx reads an inventory of each package. Those here hold only the names that our
docstrings use, and are written before the build, which so needs no network.
"""

import zlib

#: Of each package: where its documentation stands, and the page of each name ($).
PACKAGES = {
    "python": (
        "https://docs.python.org/3/",
        {
            "BlockingIOError": "library/exceptions.html#$",
            "FileExistsError": "library/exceptions.html#$",
            "FileNotFoundError": "library/exceptions.html#$",
            "ImportError": "library/exceptions.html#$",
            "NotImplementedError": "library/exceptions.html#$",
            "OSError": "library/exceptions.html#$",
            "RuntimeError": "library/exceptions.html#$",
            "TypeError": "library/exceptions.html#$",
            "ValueError": "library/exceptions.html#$",
            "concurrent.futures.Executor": "library/concurrent.futures.html#$",
            "datetime.date": "library/datetime.html#$",
            "pathlib.Path": "library/pathlib.html#$",
        },
    ),
    "numpy": (
        "https://numpy.org/doc/stable/",
        {
            "array_like": "glossary.html#term-array_like",
            "numpy.ndarray": "reference/generated/$.html",
            "numpy.random.Generator": "reference/random/generator.html#$",
            "numpy.random.SeedSequence": (
                "reference/random/bit_generators/generated/$.html"
            ),
        },
    ),
    "scipy": (
        "https://docs.scipy.org/doc/scipy/",
        {"scipy.sparse.linalg.LinearOperator": "reference/generated/$.html"},
    ),
    "control": (
        "https://python-control.readthedocs.io/en/stable/",
        {
            "control.ControlArgument": "generated/$.html",
            "control.ControlDimension": "generated/$.html",
            "control.ControlPlot": "generated/$.html",
            "control.NonlinearIOSystem": "generated/$.html",
            "control.StateSpace": "generated/$.html",
        },
    ),
    "matplotlib": (
        "https://matplotlib.org/stable/",
        {"matplotlib.axes.Axes": "api/_as_gen/$.html"},
    ),
    "networkx": (
        "https://networkx.org/documentation/stable/",
        {"networkx.Graph": "reference/classes/graph.html#$"},
    ),
    "pandas": (
        "https://pandas.pydata.org/docs/",
        {"pandas.DataFrame": "reference/api/$.html"},
    ),
}

#: The names as docstrings write them, whole or by their last part, and in full.
FULL = {
    written: name
    for _, names in PACKAGES.values()
    for name in names
    for written in {name, name.rpartition(".")[2]}
}


def write(folder):
    """Write the inventories and return what intersphinx is told of them."""
    folder.mkdir(parents=True, exist_ok=True)
    mapping = {}
    for package, (address, names) in PACKAGES.items():
        pages = {name: page.replace("$", name) for name, page in names.items()}
        lines = [f"{name} py:class 1 {page} -\n" for name, page in pages.items()]
        head = (
            f"# Sphinx inventory version 2\n# Project: {package}\n# Version: \n"
            "# The remainder of this file is compressed using zlib.\n"
        )
        path = folder / f"{package}.inv"
        path.write_bytes(head.encode() + zlib.compress("".join(lines).encode()))
        mapping[package] = (address, str(path))
    return mapping
