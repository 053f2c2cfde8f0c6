"""What is published with a release: one version, one set of tools, a licence for every file."""

import re
import runpy
import shutil
import tomllib
from pathlib import Path

import pytest

import privcontrol

ROOT = Path(__file__).parents[1]
RELEASE = runpy.run_path(str(ROOT / ".ci" / "tools" / "release.py"))
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf8"))["project"]


def test_one_version_everywhere():
    said = set(RELEASE["versions"]().values())
    assert said == {privcontrol.__version__} == {PROJECT["version"]}


@pytest.fixture
def clone(tmp_path):
    """The files that the release check reads, in a folder of their own."""
    for name in ("pyproject.toml", "CITATION.cff", "privcontrol/__init__.py"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    day = re.search(r"^date-released: (.+)$", (ROOT / "CITATION.cff").read_text(), re.M)
    (tmp_path / "docs").mkdir()
    changelog = f"# Changelog\n\n## {PROJECT['version']} ({day[1]})\n"
    (tmp_path / "docs" / "changelog.md").write_text(changelog)
    return tmp_path


def test_a_clone_that_is_ready_passes(clone):
    assert RELEASE["complaints"](f"v{PROJECT['version']}", clone) == []


@pytest.mark.parametrize(
    "name, old, new",
    [
        ("pyproject.toml", 'version = "', 'version = "9'),
        ("CITATION.cff", "\nversion: ", "\nversion: 9"),
        ("CITATION.cff", "date-released: 2", "date-released: 1"),
        ("privcontrol/__init__.py", '__version__ = "', '__version__ = "9'),
        ("docs/changelog.md", "## ", "## Unreleased\n\n## "),
    ],
)
def test_a_clone_that_is_not_ready_is_told_where(clone, name, old, new):
    file = clone / name
    text = file.read_text()
    assert old in text
    file.write_text(text.replace(old, new, 1))
    told = RELEASE["complaints"](f"v{PROJECT['version']}", clone)
    changelog_alone = name == "docs/changelog.md" or "released" in old
    assert len(told) == 1
    assert told[0].startswith("docs/changelog.md" if changelog_alone else name)


def test_hooks_and_ci_have_the_same_linters():
    """pre-commit took ruff 0.14.0 where CI took 0.17.6."""
    hooks = (ROOT / ".pre-commit-config.yaml").read_text()
    locked = (ROOT / ".ci" / "tools" / "requirements.txt").read_text()
    for repository, tool in (("ruff-pre-commit", "ruff"), ("codespell", "codespell")):
        hook = re.search(rf"/{repository}\n    rev: v(\S+)", hooks)[1]
        assert hook == re.search(rf"^{tool}==(\S+)", locked, re.M)[1]


def test_quick_tests_are_files_that_exist():
    quick = runpy.run_path(str(ROOT / "tests" / "conftest.py"))["QUICK"]
    assert [name for name in quick if not (ROOT / "tests" / name).is_file()] == []


def test_every_python_that_is_declared_is_tested():
    prefix = "Programming Language :: Python :: 3."
    declared = {
        name.removeprefix("Programming Language :: Python :: ")
        for name in PROJECT["classifiers"]
        if name.startswith(prefix)
    }
    workflow = (ROOT / ".github" / "workflows" / "ci.yml").read_text()
    tested = re.search(r"python: \[(.*)\]", workflow)[1]
    assert declared == set(re.findall(r'"(.*?)"', tested))


def test_every_licence_that_is_named_has_its_text():
    reuse = tomllib.loads((ROOT / "REUSE.toml").read_text())
    named = set()
    for entry in reuse["annotations"]:
        named |= set(entry["SPDX-License-Identifier"].split(" AND "))
        if entry["path"] != "**":
            assert (ROOT / entry["path"]).exists()
    assert named == {file.stem for file in (ROOT / "LICENSES").iterdir()}
    own = (ROOT / "LICENSES" / "BSD-3-Clause.txt").read_text()
    assert own == (ROOT / "LICENSE").read_text()


def test_actions_are_pinned_to_a_commit():
    for workflow in (ROOT / ".github" / "workflows").iterdir():
        for action in re.findall(r"uses: (\S+)", workflow.read_text()):
            assert re.fullmatch(r"[\w./-]+@[0-9a-f]{40}", action), action


def test_every_line_of_the_next_release_is_found_by_towncrier():
    """A file of another name is left out of the changelog without a word."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf8"))
    settings = project["tool"]["towncrier"]
    kinds = "|".join(kind["directory"] for kind in settings["type"])
    for file in (ROOT / settings["directory"]).iterdir():
        if file.name != "README.md":
            assert re.fullmatch(rf"\+?[\w-]+\.({kinds})\.md", file.name), file.name
            assert file.read_text().strip()
    changelog = (ROOT / settings["filename"]).read_text("utf8")
    assert changelog.count(settings["start_string"]) == 1


def test_the_newest_section_of_the_changelog_is_short():
    changelog = (ROOT / "docs" / "changelog.md").read_text("utf8")
    newest = changelog.split("\n## ")[1]
    assert len(newest.split()) < 2500
