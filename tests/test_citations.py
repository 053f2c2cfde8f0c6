"""Every citation of the two papers names a thing that is there, and is about it.

``python tests/test_citations.py`` lists all citations with the words that fit.
"""

import re
import sys
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]

#: What the papers number, and words of which one stands near a right citation.
DPAM = {
    "equation": {
        1: "two numbers|example 1",
        2: "F x|query|queries|manifold of the run|published",
        3: "D x \\+ b|manifold",
        7: "kappa|κ|delta|gaussian|number of what follows|y$|exact",
        8: "column space|range|span|misses|rank|direction",
        9: "kappa|κ|budget",
        10: "laplace|1-norm|basis",
        11: "b\\(Y\\)|offset|published|causal|shift",
        12: "sigma|inequalit",
        13: "transpose|pseudo-inverse|\\\\Psi",
        14: "laplace|algorithm 2|basis|norms",
        15: "laplace|algorithm 2|basis|norms|\\\\Psi",
        19: "trajector",
        20: "trajector",
        21: "trajector|kernel",
        18: "C x|publishes of its trajectory",
        22: "sigma|shape|noise|charts|state",
        23: "vehicle",
        24: "xhat|observer|gains",
        25: "consensus|averag|x_i",
        30: "gaussian|sigma|σ|kappa",
        31: "laplace|epsilon",
    },
    "definition": {
        1: "adjacen",
        2: "privacy",
        3: "manifold|D x \\+ b",
        4: "adjacen|circuit|free set|charts|moves|total|smallest possible set",
        5: "manifold|privacy",
        6: "factor|structured|lambda",
    },
    "theorem": {
        1: "gaussian|manifold|moves|direction|noise|hides|sigma|column",
        2: "laplace|direction|noise|column",
        3: "state|trajector|structured|free response|window|sigma|noise|plant",
        4: "consensus|message|averag|node",
    },
    "proposition": {1: "error|accuracy|bound|vanishes|mean"},
    "lemma": {1: "loss"},
    "algorithm": {1: "sigma|gaussian|inequalit|shape", 2: "laplace|basis"},
    "assumption": {1: "observable|nonsingular"},
    "example": {
        1: "chunk|constraint|two numbers|correlated|x_1|line",
        2: "correlated|three",
    },
    "figure": dict.fromkeys(range(1, 8), ""),
    "section": {
        "2": "manifold",
        "2.1": "privacy",
        "2.2": "example",
        "2.3": "composition|manifold|adjacen",
        "3": "",
        "4": "laplace|noise|manifold",
        "5": "trajector|control|circuits",
        "5.1": "cloud",
        "5.2": "O_T|stack|trajector|noise",
        "5.3": "vehicle|noise|numbers",
        "6": "metric|consensus|error|x_i",
        "6.1": "composition|sum",
        "6.2": "rate|disagreement|sign|epsilon|optimal|laplacian",
        "6.3": "agents|network|noise|numbers|averages|prints",
    },
    "appendix": {
        "A": "",
        "B": "",
        "C": "sign|chart|move|pseudo",
        "D": "inequality|bound",
    },
}
IP = {
    "equation": {},
    "definition": {
        1: "privacy|radius|norm|\\|\\|",
        2: "privacy|radius",
        3: "laplace|lap-output|output|lipschitz|noise",
        4: "gauss|output|scores|lipschitz|noise|classical",
        5: "gauss|input|pixels|classical",
    },
    "theorem": {1: "laplace|lap", 2: "output", 3: "input"},
    "proposition": {
        1: "post-process|computed from|model",
        2: "releases|composition|compose",
        3: "chunk|disjoint|parallel",
        4: "chain|radius|steps|0/0|c δ",
    },
    "remark": {1: "local|metric|adjacen|notion", **dict.fromkeys(range(2, 11), "")},
    "figure": dict.fromkeys(range(1, 8), ""),
    "section": {
        "III": "",
        "IV": "lipschitz",
        "V": "accuracy|classifier|digits|tuned|rule",
        "VI": "local",
    },
    "appendix": {"A": ""},
}
KINDS = (
    "Definition|Theorem|Proposition|Lemma|Algorithm|Assumption|Example|Figure|Fig\\.|"
    "Remark|[Ss]ection|[Aa]ppendix|[Ee]qs?\\."
)
NUMBER = r"\(?(?:\d+(?:\.\d+)?|[IVX]+|[A-D])\b\)?"
CITATION = re.compile(rf"\b({KINDS})s? ({NUMBER}(?:(?:, | and | to |-){NUMBER})*)")
OTHERS = re.compile(r"\b(?:19|20)\d\d\b|Feedback Systems")


@dataclass(frozen=True)
class Citation:
    """One numbered thing of a paper, cited in a file, and the words around it."""

    file: str
    line: int
    paper: str
    kind: str
    number: int | str
    around: str

    @property
    def words(self) -> str | None:
        """What a right citation is near to; None if the paper has no such thing."""
        known = {"DPAM": DPAM, "IP": IP}[self.paper]
        return known.get(self.kind, {}).get(self.number)

    @property
    def fits(self) -> bool:
        if self.words is None:
            return False
        return re.search(self.words, self.around, re.IGNORECASE) is not None

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.paper} {self.kind} {self.number}"


def kind_of(word: str) -> str:
    lowered = word.lower().rstrip(".")
    return {"eq": "equation", "eqs": "equation", "fig": "figure"}.get(lowered, lowered)


def numbers(kind: str, written: str) -> list[int | str]:
    """The numbers of "2 to 4", "(14) and (15)" or "5.3 and 6.3"."""
    found = re.findall(r"\d+\.\d+|\d+|[IVX]+\b|[A-D]\b", written)
    if kind in ("section", "appendix"):
        return list(found)
    whole = [int(number) for number in found if number.isdigit()]
    if re.search(r" to |-", written) and len(whole) == 2:
        return list(range(whole[0], whole[1] + 1))
    return whole


def paper_of(before: str, file: str) -> str:
    """The paper last named before the citation, or the one that the file is about."""
    named = re.findall(r"\bDPAM\b|\bIP\b", before)
    if named:
        return named[-1]
    inference = "inference" in file or "lipschitz" in file or "compose" in file
    return "IP" if inference else "DPAM"


def citations() -> list[Citation]:
    """All citations in the package, the examples and the pages."""
    files = [
        *sorted((ROOT / "privcontrol").rglob("*.py")),
        *sorted((ROOT / "examples").rglob("*.py")),
        *sorted((ROOT / "docs").glob("*.md")),
        *sorted((ROOT / "docs" / "tutorials").glob("*.md")),
        ROOT / "README.md",
    ]
    every = []
    for path in files:
        file = path.relative_to(ROOT).as_posix()
        if file in (
            "docs/papers_and_errata.md",
            "docs/changelog.md",
            "docs/history.md",
        ):
            continue
        text = path.read_text()
        for match in CITATION.finditer(text):
            reach = 160 if path.suffix == ".py" else match.start()
            before = text[max(0, match.start() - reach) : match.start()]
            after = text[match.end() : match.end() + 2]
            others = OTHERS.search(before[-60:]) is not None
            if others or re.match(r"\.\d", after) or "-short" in before[-60:]:
                continue
            kind = kind_of(match[1])
            near = text[max(0, match.start() - 240) : match.end() + 240]
            around = f"{file} {near}"
            line = text.count("\n", 0, match.start()) + 1
            for number in numbers(kind, match[2]):
                paper = paper_of(before, file)
                every.append(Citation(file, line, paper, kind, number, around))
    return every


def test_there_are_citations_and_each_fits():
    every = citations()
    assert len(every) > 100
    wrong = [str(citation) for citation in every if not citation.fits]
    assert not wrong, "\n".join(wrong)


def test_a_wrong_number_is_noticed():
    """Citations that were once in the package: (3) for (2), (5) for Definition 6."""
    query = "The query x -> F x (DPAM eq. (3)), dense or sparse"
    noise = "gamma = factor @ eta, eta standard normal (DPAM eq. (5))"
    for text, number in ((query, 3), (noise, 5)):
        assert not Citation("core", 1, "DPAM", "equation", number, text).fits
    assert Citation("core", 1, "DPAM", "equation", 2, query).fits
    assert Citation("core", 1, "DPAM", "definition", 6, noise).fits


if __name__ == "__main__":
    for citation in citations():
        print("fits " if citation.fits else "WRONG", citation)
    sys.exit(not all(citation.fits for citation in citations()))
