"""Changes beyond the promised one: several in one run, and changes of any shape.

What noise leaves of them is bounded over a horizon (``_changes_of_run``), without one
(``_changes_without_end``) and where a plant varies (``_changes_of_region``).
"""

from __future__ import annotations

from collections.abc import Sequence

from ..privacy.horizon import Horizon
from ..privacy.repetition import Correlations
from ..secrets.secrets import Secrets
from ..systems.linear import Plant
from ._apart import are_many
from ._changes_of_region import RegionOfChanges
from ._changes_of_run import RunOfChanges
from ._changes_without_end import changes_without_end
from ._varying import inverted
from .parts import Filtered, NoisePart

#: Entries of a run, and those times the lengths of a change, above which nothing is either.
_MOST_ENTRIES = 600
_MOST_COLUMNS = 8000


def further_changes(
    parts: Sequence[NoisePart],
    secret: Secrets,
    plants: Sequence[Plant],
    horizon: Horizon,
    claimed: float,
) -> Correlations | None:
    """Return what Gaussian noise leaves of several changes, and of changes of any shape.

    ``claimed`` is the shift that is promised. None where only one change is bounded:
    secrets other than changes of single signals, moved events next to others, noise and
    floor that share a change between them, plants that only the noise steadies, very many
    lengths, and runs whose whitened responses take seconds.
    """
    change = secret.adjacency.change
    if change is None or change.energy:
        return None
    if secret.mixes_shapes:
        return None
    if len(secret.parts) > 1 and secret.move_in_time:
        return None  # moved events may change places, which the others' words hide
    if not horizon.ends:
        return changes_without_end(parts, secret, plants)
    entries = int(horizon) * plants[0].output_count
    lengths = change.longest if change.varying else 1
    if entries > _MOST_ENTRIES or entries * (lengths or 1) > _MOST_COLUMNS:
        return None
    several = claimed if change.events > 1 else None
    return RunOfChanges(tuple(parts), secret, tuple(plants), int(horizon), several)


def changes_of_region(
    parts: Sequence[NoisePart],
    secret: Secrets,
    plants: Sequence[Plant],
    horizon: Horizon,
    claimed: float,
) -> Correlations | None:
    """Return what Gaussian noise leaves of several changes where a plant varies.

    ``plants`` are the vertices of what it varies between, and ``claimed`` is the shift that
    is promised. None where no more is known than of one change, as of noise that is drawn
    once.
    """
    change = secret.adjacency.change
    if change is None or change.energy or not claimed > 0:
        return None
    if secret.mixes_shapes:
        return None
    if not all(part.drive is not None or part.white.all() for part in parts):
        return None
    secrets = secret.under(plants)
    if are_many(secrets[0].signals):
        return None
    noises = [each for each in inverted(parts, secrets) if each is not None]
    is_one = all(
        len(noise.secrets) == 1 for noise in noises
    )  # all plants answer as one
    if is_one and not horizon.ends:
        return changes_without_end(parts, secret, plants[:1])
    several = claimed if change.spacing.is_apart else None
    unit = None if several else claimed / change.events
    begins = [isinstance(part, Filtered) and part.starts_stationary for part in parts]
    is_from_rest = change.events == 1 and not any(begins)
    return RegionOfChanges(tuple(noises), horizon, unit, is_from_rest, several)
