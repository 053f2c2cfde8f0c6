"""Whether the clone is ready for a tag.

The version stands in pyproject.toml, in the package and in CITATION.cff, and the
changelog's first section has it with the day of the release.

    python .ci/tools/release.py v0.2.0
"""

import re
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[2]


def versions(root: Path = ROOT) -> dict[str, str]:
    """Return the version that each file names."""
    project = tomllib.loads((root / "pyproject.toml").read_text("utf8"))["project"]
    package = (root / "privcontrol" / "__init__.py").read_text("utf8")
    citation = (root / "CITATION.cff").read_text("utf8")
    return {
        "pyproject.toml": project["version"],
        "privcontrol/__init__.py": found(r'^__version__ = "(.+)"$', package),
        "CITATION.cff": found(r"^version: (.+)$", citation),
    }


def found(pattern: str, text: str) -> str:
    """Return what the pattern finds, or an empty text."""
    match = re.search(pattern, text, re.M)
    return match[1] if match else ""


def complaints(tag: str, root: Path = ROOT) -> list[str]:
    """Return what is missing for this tag."""
    version = tag.removeprefix("v")
    missing = [
        f"{name}: expected version {version}, got {said or 'none'}"
        for name, said in versions(root).items()
        if said != version
    ]
    changelog = (root / "docs" / "changelog.md").read_text("utf8")
    newest = found(r"^## (.+)$", changelog)
    day = found(r"^date-released: (.+)$", (root / "CITATION.cff").read_text("utf8"))
    if newest != f"{version} ({day})":
        missing.append(
            f"docs/changelog.md: expected the heading '{version} ({day})' first, with "
            f"the day of CITATION.cff, got '{newest}'"
        )
    return missing


if __name__ == "__main__":
    sys.exit("\n".join(complaints(sys.argv[1])) or 0)
