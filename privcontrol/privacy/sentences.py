"""Sentences of a guarantee's text, each literally true of the numbers that it is given.

Levels of detection are in percent, rounded up to one digit behind the point.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from ..numerics.thresholds import ROUNDED

#: Length of a line of a guarantee's text, and of its label.
LINE = 120
MARGIN = len("Not hidden: ")
#: What no secret moves, and what noise leaves bare of it.
UNMOVED = "combinations of outputs that no secret moves"
BARE = f"{UNMOVED}, which carry no noise"
#: How noise without a horizon is released that leaves combinations bare.
NO_GATEWAY = (
    "by no Gateway: combinations of outputs without noise would show how its state is "
    "rounded, so add a floor (floor=); simulations are in double precision"
)
#: Share above which percentages have another digit.
_NEARLY_ALL = 0.99


def fits(text: str) -> bool:
    """Return whether a text fits into one line behind its label."""
    return len(text) <= LINE - MARGIN


def visible(text: str) -> str:
    """Return a text without line ends and other marks that names may have, written out."""
    return "".join(mark if mark.isprintable() else ascii(mark)[1:-1] for mark in text)


def percent(share: float) -> str:
    """Return a share in percent, rounded up to one digit behind the point.

    Above 99 % it has two.
    """
    parts = 10 if share <= _NEARLY_ALL else 100
    return f"{min(in_percent(share, parts), 100.0):g}"


def about(value: float, digits: int = 2) -> str:
    """Return a number in a few digits, without an exponent below a million.

    Examples
    --------
    >>> about(112.3), about(0.0453), about(1234.0, 3)
    ('110', '0.045', '1230')
    """
    return f"{float(f'{value:.{digits}g}'):.6g}"


def in_percent(share: float, parts: int = 10) -> float:
    """Return a share in percent, rounded up to so many parts of one."""
    return math.ceil(100 * parts * share * (1 - ROUNDED)) / parts


def listed(parts: Sequence[object]) -> str:
    """Return things behind each other."""
    return ", ".join(map(str, parts))


def meaning(false_alarm: float, detected: str, cases: str, differs: str) -> str:
    """Say what a test finds at a rate of false alarms, of ``detected`` percent.

    ``differs`` is what of an event is hidden that happens in all cases, such as its time.
    """
    alarms = f"{100 * false_alarm:g} %"
    if differs:
        return (
            f"a test wrong in {alarms} of the {cases} with one {differs} finds at most "
            f"{detected} % of those with another (guessing: {alarms})"
        )
    return (
        f"a test wrong in {alarms} of the {cases} without the change finds at most "
        f"{detected} % of those with it (guessing: {alarms})"
    )


def repetition(
    counts: Sequence[int], apart: str, shares: Sequence[float], kind: str
) -> str:
    """Say how often so many changes at a distance, such as "8 apart", are found at most."""
    found = listed([percent(share) for share in shares])
    times = f"{listed(counts)} {kind}s {apart}"
    return f"repetition ({times}: found in up to {found} %)"


def unknown_repetition(events: int, kind: str = "change") -> str:
    """Say what repetition may do where nothing is known of the changes' correlation."""
    if events == 1:
        article = "an" if kind == "event" else "a"
        return f"{article} {kind} that repeats (n of them may show n times as clearly)"
    return f"more than {events} {kind}s (n times as many may show n times as clearly)"


def repetitions(
    counts: Sequence[int], apart: str, shares: Sequence[float], kind: str
) -> str:
    """Return the table of what repetition does."""
    found = [
        f"{percent(share)} % with {n}" for n, share in zip(counts, shares, strict=True)
    ]
    return f"of runs with {kind}s {apart} a test finds at most {listed(found)}"


def lasting(levels: Sequence[float], counts: Sequence[int], room: float) -> str:
    """Say how many changes as far apart are found no more often than in some shares.

    A run has room for so many of them.
    """
    kept = []
    for level, count in zip(levels, counts, strict=True):
        if count >= room:
            kept.append(f"{100 * level:g} % with all {count} that fit into a run")
            break
        kept.append(f"{100 * level:g} % with up to {count}")
    return f"at most {listed(kept)}"


def excluded(probability: str) -> str:
    """Say what noise that ends somewhere reveals beyond its end."""
    return f"with probability up to {probability}, that the secret was another one"


def varying(within: str, share: float) -> str:
    """Say how often a change that does not keep its level is found at most."""
    return f"a change that varies meanwhile (any shape{within}: found in up to {percent(share)} %)"
