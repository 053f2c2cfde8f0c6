"""The links of the Markdown pages of this repository, followed as far as no network is needed.

A link to a file must find the file, and a link to a heading must find the heading.
``--web`` asks for the pages of the web as well.

    python docs/links.py
    python docs/links.py --web
"""

import argparse
import re
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path

ROOT = Path(__file__).parents[1]
CODE = re.compile(r"^(```|~~~).*?^\1|`[^`\n]*`", re.M | re.S)
LINK = re.compile(r"\]\(([^()\s]+(?:\([^()\s]*\)[^()\s]*)?)(?:\s+\"[^\"]*\")?\)")
IMAGE = re.compile(r'<img src="([^"]+)"')
DOCUMENT = re.compile(r"\{doc\}`(?:[^`<]*<)?([^`<>]+)>?`")
HEADING = re.compile(r"^#{1,6} +(.*)$", re.M)
BROWSER = {"User-Agent": "Mozilla/5.0 (link check of privcontrol)"}
MADE_BY_SPHINX = ("gallery", "api")


def pages() -> list[Path]:
    """Every Markdown page that git tracks."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "*.md"]
    listed = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, check=True
    )
    return [ROOT / name for name in listed.stdout.splitlines()]


def anchors(page: Path) -> set[str]:
    """The anchors of a page's headings, as GitHub and MyST name them."""
    found = set()
    text = re.sub(r"^(```|~~~).*?^\1", "", page.read_text("utf8"), flags=re.M | re.S)
    for heading in HEADING.findall(text):
        words = re.sub(r"[^\w\- ]", "", heading.lower())
        found.add(words.replace(" ", "-"))
    return found


def broken_file_link(page: Path, target: str) -> str | None:
    """What is wrong with a link to a file or a heading, or None."""
    name, _, anchor = target.partition("#")
    file = (page.parent / name).resolve() if name else page
    if not file.exists():
        return "no such file"
    if anchor and file.suffix == ".md" and anchor not in anchors(file):
        return "no such heading"
    return None


def broken_document(page: Path, target: str) -> str | None:
    """What is wrong with a {doc} link, or None."""
    if any(folder in Path(target).parts for folder in MADE_BY_SPHINX):
        return None
    found = (page.parent / f"{target}.md").exists()
    return None if found else "no such page"


def broken_web_link(address: str) -> str | None:
    """What the server answers instead of the page, or None."""
    request = urllib.request.Request(address, headers=BROWSER)
    try:
        with urllib.request.urlopen(request, timeout=30):
            return None
    except urllib.error.HTTPError as error:
        refuses_robots = error.code in (403, 405, 429)
        return None if refuses_robots else f"HTTP {error.code}"
    except OSError as error:
        return str(error)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--web", action="store_true", help="ask the servers too")
    given = parser.parse_args()
    count = 0
    problems = []
    addresses: dict[str, Path] = {}
    for page in pages():
        text = page.read_text("utf8")
        plain = CODE.sub("", text)
        for target in LINK.findall(plain) + IMAGE.findall(plain):
            count += 1
            if re.match(r"https?:", target):
                addresses.setdefault(target, page)
                continue
            if problem := broken_file_link(page, target):
                problems.append(f"{page.relative_to(ROOT)}: {target}: {problem}")
        for target in DOCUMENT.findall(text):
            count += 1
            if problem := broken_document(page, target):
                problems.append(f"{page.relative_to(ROOT)}: {target}: {problem}")
    for address, page in addresses.items() if given.web else ():
        if problem := broken_web_link(address):
            problems.append(f"{page.relative_to(ROOT)}: {address}: {problem}")
    asked = "asked" if given.web else "not asked"
    print(f"{count} links; {len(addresses)} addresses of the web, {asked}")
    print("\n".join(problems))
    sys.exit(bool(problems))


if __name__ == "__main__":
    main()
