"""Sentences of a guarantee's text, each literally true of the numbers that it is given.

Levels of detection are in percent, rounded up to one digit behind the point.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

#: Part of a percentage that round-off may take it beyond a short number.
_SLACK = 1e-9
#: Share above which percentages have another digit.
_NEARLY_ALL = 0.99


def percent(share: float) -> str:
    """Return a share in percent, rounded up to one digit behind the point.

    Above 99 % it has two.
    """
    parts = 10 if share <= _NEARLY_ALL else 100
    rounded = math.ceil(100 * parts * share * (1 - _SLACK))
    return f"{min(rounded / parts, 100.0):g}"


def listed(parts: Sequence[object]) -> str:
    """Return things behind each other."""
    return ", ".join(map(str, parts))


def meaning(false_alarm: float, detected: str, cases: str) -> str:
    """Say what a test finds at a rate of false alarms, of ``detected`` percent."""
    alarms = f"{100 * false_alarm:g} %"
    return (
        f"a test wrong in {alarms} of the {cases} without the change finds at most "
        f"{detected} % of those with it (guessing: {alarms})"
    )


def repetition(counts: Sequence[int], distance: int, shares: Sequence[float]) -> str:
    """Say how often so many changes at a distance are found at most."""
    found = listed([percent(share) for share in shares])
    return f"repetition ({listed(counts)} changes {distance} apart: found in up to {found} %)"


def unknown_repetition(events: int) -> str:
    """Say what repetition may do where nothing is known of the changes' correlation."""
    if events == 1:
        return "a change that repeats (n of them may show n times as clearly)"
    return f"more than {events} changes (n times as many may show n times as clearly)"


def repetitions(counts: Sequence[int], distance: int, shares: Sequence[float]) -> str:
    """Return the table of what repetition does."""
    found = [
        f"{n}: {percent(share)} %" for n, share in zip(counts, shares, strict=True)
    ]
    return f"changes {distance} apart are found in up to {listed(found)}"


def lasting(levels: Sequence[float], counts: Sequence[int], distance: int) -> str:
    """Say how many changes at a distance are found no more often than in some shares."""
    kept = [
        f"{100 * level:g} % for up to {count}"
        for level, count in zip(levels, counts, strict=True)
    ]
    return f"with changes {distance} apart the share found stays within {listed(kept)}"


def varying(within: str, share: float) -> str:
    """Say how often a change that does not keep its level is found at most."""
    return f"a change that varies meanwhile (any shape{within}: found in up to {percent(share)} %)"
