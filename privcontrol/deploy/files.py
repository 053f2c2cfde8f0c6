"""Design files: from a path to the noise or the loop that it describes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ..core._files import read
from ..core.errors import PrivacyError, UncertifiableError
from ..designs._noise_files import certified_noise
from ..loop._loop_data import KIND as LOOP, loop_options
from ..loop.loop import PrivateLoop
from ..noise._noise_data import KIND as NOISE

#: What a file may lead to that holds other things than were written.
_UNREADABLE = (
    ArithmeticError,
    AttributeError,
    LookupError,
    MemoryError,
    RecursionError,
    TypeError,
    ValueError,
)
#: Characters of an error's text that are shown.
_LONGEST = 200


def load(path: str | Path) -> Any:
    """Load what ``noise.save(path)`` or ``loop.save(path)`` wrote, certified again.

    The guarantee is evaluated for the noise in the file, by a route that does not trust
    the file. A file that was altered, or whose claim does not hold, is refused.

    Parameters
    ----------
    path : str or Path

    Returns
    -------
    OutputNoise or PrivateLoop

    Raises
    ------
    PrivacyError
        If the claim does not hold.
    ValueError
        If it is no design file, of another schema, or does not match its digest.
    OSError
        If it cannot be read.

    Examples
    --------
    >>> import privcontrol as pc, tempfile, pathlib
    >>> noise = pc.design_output_noise(
    ...     pc.plants.vehicle(),
    ...     horizon=10,
    ...     adjacency=pc.StateAdjacency({"position": 1.0}),
    ...     budget=pc.PrivacyBudget(epsilon=1.0, delta=1e-2),
    ... )
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder) / "noise.json"
    ...     noise.save(path)
    ...     pc.load(path) == noise
    True
    """
    try:
        kind, content = read(path)
        if kind == NOISE:
            return certified_noise(content)
        if kind == LOOP:
            return PrivateLoop(**loop_options(content))
    except (PrivacyError, UncertifiableError, OSError):
        raise
    except _UNREADABLE as error:
        if str(error).startswith("path:"):
            raise
        reason = str(error) or type(error).__name__
        raise ValueError(
            f"path: the design file at {path!s} lacks something or holds what this "
            f"version cannot read ({type(error).__name__}: {reason[:_LONGEST]}); save "
            "the design again"
        ) from error
    raise ValueError(f"path: expected the file of a noise or a loop, got {kind!r}")
