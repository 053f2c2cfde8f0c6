"""How hard the pages are to read, by the Automated Readability Index of their prose.

The index, 4.71 letters a word + 0.5 words a sentence - 21.43, is the school year whose
pupils can read the text. Code, tables, formulas and link targets do not count. ``--rev`` measures an older state of the repository.

    python docs/reading_grade.py
    python docs/reading_grade.py --rev HEAD~100
"""

import argparse
import re
import subprocess
from pathlib import Path

ROOT = Path(__file__).parents[1]
LEFT_OUT = (
    r"(?s)\A---\n.*?\n---\n",  # front matter
    r"(?sm)^(```|~~~).*?^\1",  # code
    r"(?m)^\|.*$",  # tables
    r"(?m)^#.*$",  # headings
    r"(?m)^    .*$",  # printed output
    r"(?m)^<.*$",  # comments
    r"(?m)^\(.*\)=$",  # targets
)


def prose(text: str) -> str:
    """The sentences of a Markdown page."""
    for pattern in LEFT_OUT:
        text = re.sub(pattern, "", text)
    text = re.sub(r"\$\$.*?\$\$|\$[^$]*\$", "x", text, flags=re.S)
    text = re.sub(r"\{doc\}`(?:[^`<]*<)?([^`<>]+)>?`", "page", text)
    text = re.sub(r"!?\[([^\]]*)\]\([^)]*\)", r"\1", text)
    text = re.sub(r"`[^`]*`", "code", text)
    text = re.sub(r"^\s*(?:[-*]|\d+\.)\s+", "\n", text, flags=re.M)
    return re.sub(r"[*_{}\[\]]", "", text)


def pages(rev: str | None) -> dict[str, str]:
    """Every page that is written by hand, by its name."""
    if rev is None:
        command = ["git", "ls-files", "*.md"]
    else:
        command = ["git", "ls-tree", "-r", "--name-only", rev]
    names = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, check=True
    )
    found = {}
    for name in names.stdout.split():
        if (
            not name.endswith(".md")
            or "rendered" in name
            or "changelog" in name.lower()
        ):
            continue
        if rev is None:
            found[name] = (ROOT / name).read_text("utf8")
        else:
            show = ["git", "show", f"{rev}:{name}"]
            shown = subprocess.run(
                show, cwd=ROOT, capture_output=True, text=True, check=True
            )
            found[name] = shown.stdout
    return found


def index(text: str) -> tuple[float, float]:
    """The readability index of a text, and its words a sentence."""
    words = re.findall(r"[\w'-]+", text)
    sentences = [s for s in re.split(r"[.!?:]\s|\n\s*\n", text) if re.search(r"\w", s)]
    letters = sum(len(word) for word in words)
    words_a_sentence = len(words) / len(sentences)
    grade = 4.71 * letters / len(words) + 0.5 * words_a_sentence - 21.43
    return grade, words_a_sentence


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rev", help="a commit, instead of the files as they are")
    given = parser.parse_args()
    texts = {name: prose(text) for name, text in pages(given.rev).items()}
    texts["all"] = "\n\n".join(texts.values())
    for name, text in texts.items():
        grade, words = index(text)
        print(f"{name:45s} grade {grade:5.1f}, {words:5.1f} words a sentence")


if __name__ == "__main__":
    main()
