"""The eight standard changes of the contributor's page name files, classes and commits that are there."""

import re
import subprocess
from pathlib import Path

import pytest

import privcontrol as pc
from privcontrol.core import adjacency, noise
from privcontrol.designs import table
from privcontrol.loop import controller
from privcontrol.privacy import guarantee, law, loss, sentences
from privcontrol.regions import region

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "contributing.md").read_text()
SECTION = PAGE.partition("## Eight standard changes")[2].partition("\n## ")[0]
ROWS = [
    [cell.strip() for cell in line.strip("|").split("|")]
    for line in SECTION.splitlines()
    if line.startswith("| a")
]


def test_there_are_eight():
    assert len(ROWS) == 8


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[0])
def test_a_change_opens_at_most_three_files_that_are_there(row):
    files = re.findall(r"`([\w/]+\.pyi?)`", row[1])
    places = row[1].split(", ")
    assert 1 <= len(places) <= 3
    for file in files:
        assert (ROOT / "privcontrol" / file).is_file()
    for folder in re.findall(r"a new file in `(\w+)`", row[1]):
        assert (ROOT / "privcontrol" / folder / "__init__.py").is_file()


def test_what_the_table_names_is_there():
    for room, names in {
        adjacency.Adjacency: ("moves", "statement", "caveats", "to_dict"),
        table: ("DESIGNS", "Proposal"),
        region.PlantRegion: ("plants", "plant_data", "clause", "_holds", "_described"),
        law: ("Law",),
        loss: ("Coordinate",),
        noise: ("Noise", "FAMILIES"),
        pc.PrivacyBudget: ("from_risk",),
        controller: ("Law", "law_of"),
        controller.Law: ("decide", "follow"),
        guarantee.PrivacyGuarantee: ("_summary", "_details"),
        sentences: ("meaning",),
    }.items():
        known = set(dir(room)) | set(getattr(room, "__annotations__", ()))
        assert known >= set(names), room


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[0])
def test_a_change_has_a_commit_to_read(row):
    (commit,) = re.findall(r"`([0-9a-f]{8})`", row[3])
    asked = ["git", "-C", str(ROOT), "cat-file", "-t"]
    known = subprocess.run([*asked, "HEAD"], capture_output=True, text=True)
    shallow = (ROOT / ".git" / "shallow").exists()
    if known.returncode or shallow:
        pytest.skip("the history is not here")
    found = subprocess.run([*asked, commit], capture_output=True, text=True)
    assert found.stdout.strip() == "commit"
