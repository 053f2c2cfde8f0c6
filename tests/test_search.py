"""Words that users search for find the page that answers them first.

The site's own index is built, without running any cell, and ranked as Sphinx's
``searchtools.js`` does it: entries of the index, titles, then words of titles and text.
"""

import json
import re
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[1] / "docs"
TITLE, PART_OF_TITLE, TERM, PART_OF_TERM, ENTRY = 15, 7, 5, 2, 100  # Sphinx's Scorer

#: Words of users, and the page that should come first (one of them).
SEARCHES = {
    "HVAC": "recipes",
    "GDPR": "data_protection",
    "license": "installing",
    "quantization": "sharp_edges",
    "smart meter": "recipes",
    "MATLAB": "coming_from",
    "Simulink": "coming_from",
    "PID": "recipes",
    "noise too large": "faq",
    "thermostat": "recipes",
    "insulin": "recipes",
    "MQTT": "recipes",
    "MPC": "recipes",
    "model predictive control": "do_mpc",
    "delay": "recipes",
    "glossary": "glossary",
    "epsilon": "which_epsilon",
    "adjacency": "which_secret glossary",
    "occupancy": "which_secret",
    "ledger": "deployment",
    "gateway": "deployment",
    "restart": "deployment",
    "Raspberry Pi": "deployment_device",
    "systemd": "deployment_device",
    "Modbus": "deployment_protocols",
    "OPC UA": "deployment_protocols",
    "FMU": "deployment_fmu",
    "JSON": "design_files",
    "install": "installing",
    "conda": "installing",
    "Windows": "installing",
    "slow": "how_long",
    "memory": "how_long",
    "benchmark": "benchmarks",
    "Pufferfish": "other_frames",
    "local differential privacy": "other_frames",
    "errata": "papers_and_errata",
    "changelog": "changelog",
    "cheat sheet": "cheat_sheet",
    "tutorial": "learn",
    "neural network": "tutorials/model_behind_a_mechanism",
    "consensus": "tutorials/consensus",
    "nonlinear": "tutorials/nonlinear_plants",
    "LQG": "tutorials/cloud_control",
    "setpoint": "secret_setpoint",
    "seed": "sharp_edges",
    "attack": "sharp_edges",
    "composition": "guarantees",
    "units": "units",
    "NIST": "data_protection",
    "consent": "data_protection",
    "OpenDP": "coming_from",
    "how much noise": "what_to_expect",
    "publish": "what_may_leave",
    "detection": "which_epsilon",
    "second day": "sharp_edges",
    # no entry of the index: found by titles and text
    "floating point": "sharp_edges",
    "sensor grids": "deployment",
    "post-processing": "glossary",
    "standards": "standards",
}

CONFIGURATION = f"""
import sys
sys.path.insert(0, {str(DOCS / "_ext")!r})
extensions = ["myst_nb", "search_words"]
exclude_patterns = ["_*", "changes", "rendered", "notebooks", "api", "gallery"]
myst_enable_extensions = ["colon_fence", "deflist", "dollarmath", "fieldlist"]
nb_execution_mode = "off"
"""


@pytest.fixture(scope="module")
def index(tmp_path_factory):
    """The search index of all pages that are written by hand."""
    pytest.importorskip("sphinx")
    pytest.importorskip("myst_nb")
    folder = tmp_path_factory.mktemp("site")
    (folder / "conf.py").write_text(CONFIGURATION, encoding="utf8")
    build = [sys.executable, "-m", "sphinx", "-q", "-b", "html", "-c", folder]
    subprocess.run([*build, DOCS, folder / "html"], check=True, capture_output=True)
    text = (folder / "html" / "searchindex.js").read_text(encoding="utf8")
    return json.loads(re.fullmatch(r"Search\.setIndex\((.*)\)", text, re.DOTALL)[1])


def listed(files):
    """Numbers of the pages that have a word, of which one stands without a list."""
    return files if isinstance(files, list) else [files]


def words_of(query):
    """The stems of the words of a query."""
    from sphinx.search.en import SearchEnglish

    english = SearchEnglish({})
    parts = re.findall(r"\w+", query.lower())
    return [english.stem(word) for word in parts if english.word_filter(word)]


def of_word(index, word):
    """The best score of each page for one word of a query."""
    scores = {}
    for kind, whole, part in (
        ("terms", TERM, PART_OF_TERM),
        ("titleterms", TITLE, PART_OF_TITLE),
    ):
        known = index[kind]
        found = {word: whole} if word in known else {}
        if not found and len(word) > 2:
            found = {term: part for term in known if word in term}
        for term, score in found.items():
            for page in listed(known[term]):
                scores[page] = score  # as there, the last one stands
    return scores


def ranked(index, query):
    """Pages by their score, the best first."""
    low = query.lower()
    best = defaultdict(int)
    for title, places in index["alltitles"].items():
        if low in title.lower() and 2 * len(low) >= len(title):
            for page, _ in places:
                score = round(TITLE * len(low) / len(title))
                best[page] = max(
                    best[page], score + int(index["titles"][page] == title)
                )
    for entry, places in index["indexentries"].items():
        if low in entry and 2 * len(low) >= len(entry):
            for page, _, main in places:
                assert main
                score = round(ENTRY * len(low) / len(entry))
                best[page] = max(best[page], score)
    each = [of_word(index, word) for word in words_of(query)]
    for page in set.intersection(*map(set, each)) if each else ():
        score = max(scores[page] for scores in each)
        best[page] = max(best[page], score)
    order = sorted(best, key=lambda page: -best[page])
    return [index["docnames"][page] for page in order]


@pytest.mark.slow
def test_every_word_of_users_finds_its_page_first(index):
    assert len(SEARCHES) >= 50
    missed = {}
    for query, pages in SEARCHES.items():
        first = ranked(index, query)[:1]
        if not set(first) & set(pages.split()):
            missed[query] = ranked(index, query)[:3]
    assert not missed


@pytest.mark.slow
def test_questions_and_terms_have_anchors(index):
    """Each question and each term is a heading, and so a result with an address."""
    titles = index["alltitles"]
    places = {name: number for number, name in enumerate(index["docnames"])}
    for page, least in (("faq", 20), ("glossary", 30)):
        found = [
            anchor
            for entries in titles.values()
            for number, anchor in entries
            if number == places[page] and anchor
        ]
        assert len(found) >= least


def test_words_are_of_pages_that_exist(monkeypatch):
    pytest.importorskip("sphinx")
    monkeypatch.syspath_prepend(str(DOCS / "_ext"))
    import search_words

    for page in search_words.WORDS:
        assert (DOCS / f"{page}.md").exists(), page
