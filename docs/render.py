"""The pages of this folder with their results, for readers of the repository.

Every page with cells is run, and written with what its cells print and draw to
``docs/rendered`` (Markdown and figures) and ``docs/notebooks`` (executed notebooks).
With ``--check`` nothing is written: the pages are compared with what is committed. Text
has to agree, figures have to look alike. Pages that the site's build has run with this
code are not run again.

    python docs/render.py                 all pages
    python docs/render.py cloud_control   one page
    python docs/render.py --check
"""

import argparse
import os
import re
import sys
import tempfile
from pathlib import Path

import matplotlib.image
import nbformat
import numpy as np
import readme_figures
from jupyter_cache import get_cache
from nbclient import NotebookClient
from nbconvert import MarkdownExporter
from nbformat import NotebookNode

DOCS = Path(__file__).parent
sys.path.append(str(DOCS / "_ext"))

from alt_texts import of_page  # noqa: E402

RENDERED = DOCS / "rendered"
NOTEBOOKS = DOCS / "notebooks"
TOLERANCE = 0.02  # mean difference of two figures in grey, on a scale of one
CELL = re.compile(r"^```\{code-cell\} python3\n(.*?)^```$", re.M | re.S)
RAW = re.compile(r"^```\{raw\} html\n:file: (\S+)\n```$", re.M)
TAG = re.compile(r"(?:remove-input|hide-input|remove-cell|random-output)")
HIDDEN = {"remove-input", "hide-input", "remove-cell"}
START = """\
%matplotlib inline
import warnings
warnings.simplefilter("ignore", DeprecationWarning)
"""


def pages() -> list[Path]:
    """Pages with cells."""
    found = [*DOCS.glob("*.md"), *(DOCS / "tutorials").glob("*.md")]
    return sorted(page for page in found if "{code-cell}" in page.read_text("utf8"))


def cells_of(text: str) -> list[NotebookNode]:
    """The cells of a page in MyST Markdown, without its front matter."""
    text = re.sub(r"\A---\n.*?\n---\n", "", text, flags=re.S)
    cells = []
    end = 0
    for match in CELL.finditer(text):
        prose = text[end : match.start()].strip()
        if prose:
            cells.append(nbformat.v4.new_markdown_cell(prose))
        lines = match[1].splitlines()
        tags = [tag for line in lines for tag in TAG.findall(line)]
        code = "\n".join(line for line in lines if not line.startswith(":"))
        cell = nbformat.v4.new_code_cell(code.strip(), metadata={"tags": tags})
        cells.append(cell)
        end = match.end()
    if text[end:].strip():
        cells.append(nbformat.v4.new_markdown_cell(text[end:].strip()))
    return cells


def run(notebook: NotebookNode) -> None:
    """Run the cells of a page."""
    start = nbformat.v4.new_code_cell(START, metadata={"tags": ["remove-cell"]})
    notebook.cells.insert(0, start)
    client = NotebookClient(
        notebook, timeout=600, kernel_name="python3", resources={"metadata": {}}
    )
    client.execute()
    del notebook.cells[0]


def built_pages() -> dict[Path, list[NotebookNode]]:
    """The code cells of each page that the site's last build ran with this code."""
    from gallery_source import fingerprint

    folder = DOCS / "_build" / "cells" / fingerprint()
    if not folder.exists():
        return {}
    cache = get_cache(folder)
    found = {}
    for record in cache.list_cache_records():
        cells = cache.get_cache_bundle(record.pk).nb.cells
        code = [cell for cell in cells if cell.cell_type == "code"]
        found[Path(record.uri).resolve()] = code
    return found


def executed(page: Path, built: dict[Path, list[NotebookNode]]) -> NotebookNode:
    """The notebook of a page, with the outputs of its cells."""
    notebook = nbformat.v4.new_notebook(cells=cells_of(page.read_text("utf8")))
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    done = built.get(page.resolve(), [])
    if [cell.source for cell in code] == [cell.source.strip() for cell in done]:
        for cell, same in zip(code, done):
            cell.outputs = same.outputs
    else:
        print("  is run")
        run(notebook)
    for cell in notebook.cells:
        cell.pop("execution_count", None)
        cell.metadata = {k: v for k, v in cell.metadata.items() if k == "tags"}
        if cell.cell_type == "code":
            cell.execution_count = None
            cell.outputs = merged(cell.outputs)
            if "random-output" in cell.metadata.get("tags", []):
                mark_random(cell.outputs)
    notebook.metadata = {
        "kernelspec": {
            "display_name": "Python 3",
            "language": "python",
            "name": "python3",
        },
        "language_info": {"name": "python"},
    }
    for number, cell in enumerate(notebook.cells):
        cell.id = f"cell-{number}"
    return notebook


def merged(outputs: list[NotebookNode]) -> list[NotebookNode]:
    """Printed text in one piece, figures without their text, no warnings' paths."""
    kept: list[NotebookNode] = []
    for output in outputs:
        if output.output_type == "stream" and output.name == "stderr":
            continue
        if output.output_type == "stream" and kept and kept[-1].output_type == "stream":
            kept[-1].text += output.text
            continue
        data = output.get("data", {})
        if "image/png" in data:
            output.data = NotebookNode({"image/png": data["image/png"]})
        if "execution_count" in output:
            output.execution_count = None
        output.metadata = NotebookNode() if "metadata" in output else None
        if output.metadata is None:
            del output["metadata"]
        kept.append(output)
    return kept


def mark_random(outputs: list[NotebookNode]) -> None:
    """Begin every printed line with a tilde: its numbers are others in every run."""
    for output in outputs:
        if output.output_type == "stream":
            output.text = re.sub(r"^", "~ ", output.text.rstrip("\n"), flags=re.M)


def without_random_numbers(line: str) -> str:
    """A line of a page; of one that is marked as random, its words alone."""
    if not line.startswith("    ~ "):
        return line
    return re.sub(r"[-+\d.,eE% \[\]]+", " ", line)


def as_markdown(notebook: NotebookNode, page: Path) -> tuple[str, dict[str, bytes]]:
    """Markdown with outputs, and the figures by their file's name."""
    shown = nbformat.from_dict(notebook)
    for cell in shown.cells:
        if HIDDEN & set(cell.metadata.get("tags", [])):
            cell.source = ""
    exporter = MarkdownExporter()
    text, resources = exporter.from_notebook_node(
        shown, resources={"unique_key": page.stem, "output_files_dir": "figures"}
    )
    text = re.sub(r"```python\n\n*```\n", "", text)
    text = re.sub(r"```\{(note|warning|tip)\}", r"```", text)
    text = re.sub(RAW, picture, text)
    text = re.sub(r"\{doc\}`([^`]+)`", lambda match: link(match[1], page), text)
    text = re.sub(r"[ \t]+$", "", text, flags=re.M)
    text = re.sub(r"\n{3,}", "\n\n", text)
    texts = iter(of_page(page.stem))
    text = re.sub(r"!\[png\]", lambda _: f"![{next(texts, 'png')}]", text)
    source = os.path.relpath(page, RENDERED)
    head = f"<!-- Made by docs/render.py from {source}; edit that page. -->\n\n"
    figures = {Path(name).name: data for name, data in resources["outputs"].items()}
    return head + text.strip() + "\n", figures


def picture(match: re.Match[str]) -> str:
    """An image of the repository in place of a drawing that the site puts into its page."""
    file = DOCS / match[1]
    return f"![{file.stem.replace('_', ' ')}]({os.path.relpath(file, RENDERED)})"


def link(target: str, page: Path) -> str:
    """A link that works in the repository, for a page or a script of the gallery."""
    titled = re.fullmatch(r"(.*?)\s*<(.*)>", target)
    title, target = titled.groups() if titled else ("", target)
    path = Path(os.path.normpath(page.parent.relative_to(DOCS) / target))
    title = title or path.stem.replace("_", " ")
    if path.parts[0] == "gallery":
        script = Path("examples", *path.parts[1:]).with_suffix(".py")
        file = DOCS.parent / script
        if path.stem == "index":
            file = file.parent
        return f"[{title}]({os.path.relpath(file, RENDERED)})"
    source = DOCS / path.with_suffix(".md")
    if source in pages():
        return f"[{title}]({source.name})"
    return f"[{title}]({os.path.relpath(source, RENDERED)})"


def write(page: Path, rendered: Path, notebooks: Path, built: dict) -> None:
    """Run a page and write it with its results."""
    notebook = executed(page, built)
    text, figures = as_markdown(notebook, page)
    (rendered / "figures").mkdir(parents=True, exist_ok=True)
    for old in (rendered / "figures").glob(f"{page.stem}_*.png"):
        old.unlink()
    (rendered / f"{page.stem}.md").write_text(text, "utf8")
    for name, data in figures.items():
        (rendered / "figures" / name).write_bytes(data)
    if page.parent.name == "tutorials":
        notebooks.mkdir(parents=True, exist_ok=True)
        nbformat.write(notebook, notebooks / f"{page.stem}.ipynb")


def grey(source: Path | bytes) -> np.ndarray:
    """A figure on white as 48 by 48 blocks of grey, in which hair lines and fonts vanish."""
    pixels = np.atleast_3d(matplotlib.image.imread(source))
    image = pixels[..., :3].mean(axis=2)
    if pixels.shape[2] == 4:  # the site draws on the ground of the page
        opacity = pixels[..., 3]
        image = opacity * image + 1 - opacity
    rows = np.array_split(image, 48, axis=0)
    blocks = [[part.mean() for part in np.array_split(r, 48, axis=1)] for r in rows]
    return np.array(blocks)


def differences(page: Path, fresh: Path) -> list[str]:
    """What a fresh rendering of a page has that the committed one has not."""
    old = RENDERED / f"{page.stem}.md"
    if not old.exists():
        return [f"{page.name}: not rendered yet"]
    found = []
    new_text = (fresh / f"{page.stem}.md").read_text("utf8")
    old_lines = old.read_text("utf8").splitlines()
    for number, line in enumerate(new_text.splitlines()):
        before = old_lines[number] if number < len(old_lines) else "(nothing)"
        if without_random_numbers(line) != without_random_numbers(before):
            found.append(f"{page.name}, line {number + 1}:\n- {before}\n+ {line}")
            break
    old_figures = RENDERED / "figures"
    return found + different_figures(
        fresh / "figures", old_figures, f"{page.stem}_*.png"
    )


def different_figures(fresh: Path, committed: Path, names: str) -> list[str]:
    """Fresh figures that are not committed, or look different from the committed ones."""
    found = []
    for figure in sorted(fresh.glob(names)):
        old = committed / figure.name
        if not old.exists():
            found.append(f"{figure.name}: not committed")
            continue
        distance = np.abs(grey(figure) - grey(old)).mean()
        if distance > TOLERANCE:
            found.append(f"{figure.name}: differs by {distance:.3f}")
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", help="pages, all of them by default")
    parser.add_argument("--check", action="store_true")
    given = parser.parse_args()
    environment = [str(DOCS), str(DOCS.parent), os.environ.get("PYTHONPATH", "")]
    os.environ["PYTHONPATH"] = os.pathsep.join(environment)
    chosen = [p for p in pages() if not given.names or p.stem in given.names]
    problems = []
    built = built_pages() if given.check else {}
    figures = Path(tempfile.mkdtemp()) if given.check else readme_figures.FIGURES
    if not given.names:
        readme_figures.draw_all(figures)
        problems += different_figures(figures, readme_figures.FIGURES, "*.png")
    with tempfile.TemporaryDirectory() as folder:
        rendered = Path(folder) if given.check else RENDERED
        notebooks = Path(folder) if given.check else NOTEBOOKS
        for page in chosen:
            print(page.relative_to(DOCS), flush=True)
            write(page, rendered, notebooks, built)
            if given.check:
                problems += differences(page, rendered)
    print("\n".join(problems))
    if problems:
        sys.exit("run `python docs/render.py` and commit what it writes")


if __name__ == "__main__":
    main()
