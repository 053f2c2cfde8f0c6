"""Design files: from a path to the noise or the loop that it describes, certified again.

What a file says of its guarantee is only compared with what its noise gives.
"""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import numpy as np

from ..core.mechanism import Mechanism
from ..core.noise_design import NoiseDesign
from ..designs.finished import StationaryDesign
from ..designs.output_noise import OutputNoise
from ..designs.promised import promised
from ..designs.request import Request
from ..loop.loop import PrivateLoop
from ..noise.certify import certify
from ..noise.parts import Filtered, noise_of_run
from ..noise.process import promising
from ..numerics.arguments import helpful_arguments
from ..numerics.checks import positive_integer, real_array
from ..numerics.errors import PrivacyError, UncertifiableError
from ..numerics.saved import read
from ..privacy.budget import PrivacyBudget
from ..privacy.guarantee import PrivacyGuarantee
from ..privacy.loss import PrivacyLoss, scaled

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
#: Horizon in samples up to which files are certified without being asked to.
LONGEST_HORIZON = 1_000_000
#: Characters of an error's text that are shown.
_LONGEST = 200
#: Rounding between the squares of shifts that two machines certify.
_ROUNDING = Fraction(2, 10**9)
_ALTERED = (
    "path: the noise of the file does not keep the file's claim; it was altered, and must "
    "not be used"
)


@helpful_arguments
def load(
    path: str | Path, *, longest: int = LONGEST_HORIZON
) -> OutputNoise | PrivateLoop:
    """Load the file of ``noise.save(path)`` or ``loop.save(path)``, certified again.

    The guarantee is evaluated for the noise in the file, by a route that does not trust
    the file. A file that was altered, or whose claim does not hold, is refused.

    Parameters
    ----------
    path : str or Path
    longest : int, optional
        Horizon in samples beyond which a file is refused before any work. A file of a
        few kB may ask for a horizon that takes hours.

    Returns
    -------
    OutputNoise or PrivateLoop

    Raises
    ------
    PrivacyError
        If the claim does not hold.
    ValueError
        If it is no design file, of another schema, too large, or does not match its
        digest; if its horizon is beyond ``longest``.
    OSError
        If it cannot be read.

    See Also
    --------
    OutputNoise.save, PrivateLoop.save, Gateway

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
    longest = positive_integer(longest, "longest")
    try:
        design = read(path)
        if isinstance(design, OutputNoise):
            return _certified(design, longest)
        if isinstance(design, PrivateLoop):
            noise = None if design.noise is None else _certified(design.noise, longest)
            return replace(design, data=replace(design.data, noise=noise))
    except (PrivacyError, UncertifiableError, OSError):
        raise
    except _UNREADABLE as error:
        if str(error).startswith("path:"):
            raise
        reason = str(error) or type(error).__name__
        raise ValueError(
            f"path: the design file at {path!s} lacks a field, or has one that this "
            f"version cannot read ({type(error).__name__}: {reason[:_LONGEST]}); save "
            "the design again"
        ) from error
    raise ValueError(
        f"path: expected the file of a noise or a loop, got {type(design).__name__}"
    )


def _certified(noise: OutputNoise, longest: int) -> OutputNoise:
    """Return the noise of a file, if its claim holds when it is evaluated again.

    What the guarantee is about follows from the request, and its loss is evaluated for
    the parts.

    Raises
    ------
    PrivacyError
        If the claim does not hold, or cannot be evaluated.
    """
    request: Request = noise.request
    if request is None:
        raise PrivacyError(
            "path: the file does not say what its noise hides, so its claim cannot "
            "be certified; design the noise with design_output_noise"
        )
    if request.horizon != noise.horizon or request.bound != noise.kept:
        raise PrivacyError(_ALTERED)
    if request.factor is not None:
        real_array(request.factor, "factor", ndim=2)  # shown beside that of the noise
    if noise.horizon.count_or(0) > longest:
        raise ValueError(
            f"path: expected a horizon of at most {longest} samples, got "
            f"{noise.horizon:g}, which takes about {1e-5 * noise.horizon:.0f} s or more "
            "to certify and as many numbers for each output; if that is meant, "
            f"load(path, longest={noise.horizon:.0f}) (the command's --longest)"
        )
    secret = request.adjacency
    world = request.world(noise.plant_data)
    try:
        loss = certify(noise.parts, secret, world, noise.family)
    except ValueError as error:
        raise PrivacyError(
            "path: the noise of the file cannot be certified for the secret that it names; "
            f"it was altered, and must not be used ({str(error)[:_LONGEST]})"
        ) from error
    guarantee = promised(noise.plant_data, request, noise.parts, loss)
    if not _keeps(noise.guarantee, guarantee, request):
        raise PrivacyError(_ALTERED)
    design: NoiseDesign | StationaryDesign
    filtered = noise.process.total.part(Filtered)
    (first, *_) = noise.parts
    if first.of_units:
        cost = float(first.variances(1).sum())
        design = StationaryDesign(
            first, loss.shift, cost, math.nan, symmetry=str(first)
        )
    elif filtered is None:
        design = _design_of_run(noise, guarantee)
    else:
        design = _lasting_design(noise, filtered, guarantee)
    quoted = noise.guarantee.quoted_delta
    guarantee = replace(guarantee, quoted_delta=quoted)
    return promising(noise, guarantee=guarantee, design=design)


def _design_of_run(noise: OutputNoise, guarantee: PrivacyGuarantee) -> NoiseDesign:
    """Return the design of noise over a horizon, without a lower bound."""
    query = noise.request.secret.query(noise.plant_data, noise.process.samples)
    of_run = noise_of_run(noise.parts, noise.process.samples, noise.family)
    cost = float(np.sum(of_run.std**2))
    return NoiseDesign(Mechanism(query, of_run), guarantee, cost, math.nan)


def _lasting_design(
    noise: OutputNoise, filtered: Filtered, guarantee: PrivacyGuarantee
) -> StationaryDesign:
    """Return the design of filtered noise, without a lower bound."""
    (secret,) = noise.request.secret.under([noise.plant_data])
    # of the whole run, or of any sample where it never ends
    cost = float(noise.process.total.variances(noise.horizon.distinct).sum())
    shift = guarantee.loss.shift
    return StationaryDesign(filtered, shift, cost, math.nan, secret.scaled_system)


# -- claims --------------------------------------------------------------------------


def _keeps(
    claimed: PrivacyGuarantee, certified: PrivacyGuarantee, request: Request
) -> bool:
    """Return whether noise keeps the claim of a file, and the claim keeps the request.

    The claim is that of the certified noise, bit by bit on the machine that wrote it.
    Elsewhere its loss may differ by rounding. It need not say which moves attain it.
    """
    if claimed.releases != certified.releases:
        return False
    if not _within(claimed.loss.released(request.releases), request.budget):
        return False
    rows = claimed.loss.rows, certified.loss.rows
    said = replace(claimed.loss, rows=rows[1])
    less = replace(certified.loss, attained=False, moves=((),) * len(rows[1]))
    if said not in (certified.loss, less):
        return False
    if len(rows[0]) != len(rows[1]):
        return False
    pairs = zip(*rows, strict=True)
    return all(said.covers(found, _ROUNDING) for said, found in pairs)


def _within(loss: PrivacyLoss, budget: PrivacyBudget) -> bool:
    """Return whether a loss keeps a budget, up to rounding of its sizes.

    Another version or machine may have certified the noise with a little less.
    """
    if loss.satisfies(budget):
        return True
    less = scaled(replace(loss, proportional=True), 1 - _ROUNDING / 2)
    return less.satisfies(budget)
