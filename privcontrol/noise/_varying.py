"""Say how far noise hides a secret of a plant that changes from sample to sample.

Structured noise, which is drawn once, hides nothing of a plant that may vary. A white
floor, filtered noise, and noise that enters the plant with the secret do. Let
z+ = A z + B w, v = C z + D w be what is left of a secret w after such noise is inverted, with
matrices that may be those of any vertex at any sample. If a matrix P >= 0 obeys
P >= A^T P A + C^T C at every vertex, then the energy of v after a state z is at most
z^T P z, for any sequence of vertices, and so it is for everything between them (the
right side is convex in the matrices). Semidefinite programs find P. Ball arithmetic
verifies every inequality, and only what is verified is returned.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from ..numerics.balls import (
    CERTIFICATE_BITS,
    BallMatrix,
    block_balls,
    identity_balls,
    working_bits,
)
from ..numerics.errors import UncertifiableError
from ..numerics.linalg import float_above
from ..numerics.objects import ByContent
from ..numerics.saved import Saved
from ..numerics.thresholds import SHORT_RUN
from ..secrets.secret import SecretInputs, SignalMoves, WindowMoves
from ..systems.linear import (
    Autoregression,
    LinearSystem,
    beside,
    spectral_radius,
    sum_of,
)
from ._autoregression import hides_by_correlations, shift_behind_autoregression
from ._endless import joint_shift, shift_behind, shift_of_system
from ._fading import Fading, fading, varying_shift
from ._gains import good_gains
from ._varying_run import varying_shift_within
from ._vertices import VaryingSecret
from .parts import NoisePart, PartSum

T = TypeVar("T")

_ENTERS_ANOTHER = (
    "models: the noise enters another plant than the secret, or elsewhere, and without a "
    "white floor nothing says how far it hides it there; add a floor (floor=...)"
)
_DRAWN_ONCE = (
    "models: the noise needs a part that is drawn again at every sample and reaches every "
    "output, since noise that is drawn once is known after some samples and hides nothing "
    "of a plant that varies; add a white floor (floor=...)"
)


def shift_between(
    parts: Sequence[NoisePart],
    secrets: Sequence[SecretInputs],
    horizon: float,
    largest: float = math.inf,
) -> float:
    """Return a number that no privacy shift exceeds, for any sequence of vertices.

    ``secrets`` is one secret under each vertex of the plant. Noise that enters every
    vertex with the secret hides it there. A white floor next to filtered noise hides as well.
    One above ``largest`` is of no use, and may be given as inf.

    Raises
    ------
    ValueError
        If no part is drawn again at every sample and reaches every output.
    UncertifiableError
        If no bound is verified.
    """
    own, floor = inverted(parts, secrets)
    if own is None:
        if floor is None:
            enters = any(part.drive is not None for part in parts)
            raise ValueError(_ENTERS_ANOTHER if enters else _DRAWN_ONCE)
        return floor.shift(horizon, largest)
    if floor is None or own.response is not None:
        return own.shift(horizon, largest)
    shift = own.shift(horizon)
    try:
        return joint_shift(shift, floor.shift(horizon))
    except UncertifiableError:  # independent noise does not follow the plant
        return shift


def inverted(
    parts: Sequence[NoisePart], secrets: Sequence[SecretInputs]
) -> tuple[Inverted | None, Inverted | None]:
    """Return how filtered noise is inverted, and a floor, each None if there is none."""
    by_system = {secret.system: secret for secret in secrets}
    different = tuple(by_system.values())
    white = PartSum(parts).white
    floor = None
    if white.all():
        floor = Inverted(LinearSystem.gain(np.diag(white)), different)
    every = (_inverted(part, different, floor) for part in parts)
    return next(filter(None, every), None), floor


def _inverted(
    part: NoisePart, secrets: tuple[SecretInputs, ...], floor: Inverted | None
) -> Inverted | None:
    """Return how a part other than a floor is inverted, None if it cannot be."""
    if part.drive is None:
        return None
    response, shaping = part.drive
    if response is None:
        return Inverted(shaping, secrets)
    entering = inverted_at_entry(part, secrets[0])
    if entering is not None and len(secrets) == 1:
        return entering
    if floor is None:
        return None
    return Inverted(beside(shaping, floor.square), secrets, response)


def inverted_at_entry(part: NoisePart, secret: SecretInputs) -> Inverted | None:
    """Undo noise that enters the plant where a secret does, whatever the plant's zeros.

    The secret's inputs are taken to be those of the noise, without what is between them
    and the outputs. None if there is no such part, or the secret enters elsewhere.
    """
    response, shaping = part.drive or (None, None)
    system = secret.system
    if response is None or shaping is None or secret.origin is not None:
        return None
    same_states = np.array_equal(system.A, response.A)
    if not same_states or not np.array_equal(system.C, response.C):
        return None
    noisy = np.vstack([response.B, response.D])
    hidden = np.vstack([system.B, system.D])
    is_equal = noisy[:, :, None] == hidden[:, None, :]
    alike = is_equal.all(axis=0)
    # of entries that enter alike each takes a share, by its variance
    variances = np.sum(shaping.D**2, axis=1)
    shares = variances[:, None] * alike
    if not shares.any(axis=0).all():
        return None
    entry = LinearSystem.gain(shares / shares.sum(axis=0))
    return Inverted(shaping, (replace(secret, system=entry),))


@dataclass(frozen=True, eq=False)
class Inverted(ByContent, Saved):
    """Noise that is inverted, and a secret under each vertex of a plant.

    Attributes
    ----------
    square : LinearSystem
        M, square with a nonsingular D, from white entries of the noise.
    secrets : tuple of SecretInputs
        Of different systems.
    response : LinearSystem or None
        The plant in the noise, if the noise enters it. Then M comes before it, and its
        last inputs are the floor's.
    """

    square: LinearSystem
    secrets: tuple[SecretInputs, ...]
    response: LinearSystem | None = None

    def whitened(self) -> LinearSystem:
        """Return what is left of the secret under a single plant, in balls."""
        return self._left(None).vertices[0]

    def shift(self, horizon: float, largest: float = math.inf) -> float:
        """Bound every privacy shift, for any sequence of vertices."""
        return min(self._verified(lambda gains: self._shift(horizon, gains, largest)))

    def fading(self) -> Fading:
        """Return what fades of a change with the `shift` over runs of any length.

        Raises
        ------
        UncertifiableError
            If no bound is verified.
        """
        return min(self._verified(self._fading), key=lambda each: each.shift)

    def _verified(
        self, bound: Callable[[list[NDArray[np.float64]] | None], T]
    ) -> list[T]:
        """Return bounds for the plain gains, and for the first others that have one."""
        found = []
        for k, gains in enumerate(self._choices()):
            try:
                found.append(bound(gains))
            except UncertifiableError as error:
                refusal = error
                continue
            if k:
                break
        if not found:
            raise refusal
        return found

    def _fading(self, gains: list[NDArray[np.float64]] | None) -> Fading:
        """Return what fades of one change, for given gains of the free inputs."""
        with working_bits(CERTIFICATE_BITS):
            left = self._once._left(gains)
        return fading(left)

    @property
    def _once(self) -> Inverted:
        """The same with one change in a run."""
        return replace(self, secrets=tuple(secret.once for secret in self.secrets))

    def _choices(self) -> Iterator[list[NDArray[np.float64]] | None]:
        """Yield gains of the free inputs, the plain ones first, None where nothing is free."""
        if self.response is None:
            yield None
            return
        with working_bits(CERTIFICATE_BITS):
            left = self._left(None)
        followed = np.eye(left.free, left.inputs)
        unseen = np.zeros((left.free, left.order))
        plain = [np.hstack([unseen, followed])] * len(self.secrets)
        yield plain
        yield from good_gains(left, plain)

    def _shift(
        self, horizon: float, gains: list[NDArray[np.float64]] | None, largest: float
    ) -> float:
        """Return the certified shift for given gains of the free inputs."""
        first = self.secrets[0]
        if len(self.secrets) == 1 and isinstance(self.square, Autoregression):
            if gains is None and hides_by_correlations(first):
                return shift_behind_autoregression(self.square, first)
        if len(self.secrets) == 1 and spectral_radius(first.system) < 1:
            if first.energies is None:
                return shift_of_system(lambda: self._left(gains).vertices[0], first)
            if self.square.order == 0 and gains is None:
                return shift_behind(self.square, first)
        if first.several_apart:
            with suppress(UncertifiableError):
                return self._of_several(horizon, gains, largest)
        with working_bits(CERTIFICATE_BITS):
            left = self._left(gains)
        ends = first.energies is None and horizon < math.inf and not first.windows
        try:
            bound = varying_shift(left, largest)
        except UncertifiableError:
            if not ends:
                raise
            return varying_shift_within(left, int(horizon), largest)
        if ends and horizon * len(self.secrets) <= SHORT_RUN:  # a bound for it alone
            least = min(bound, largest)
            bound = min(bound, varying_shift_within(left, int(horizon), least))
        return bound

    def _of_several(
        self, horizon: float, gains: list[NDArray[np.float64]] | None, largest: float
    ) -> float:
        """Return the certified shift of changes at a distance, from how one of them fades."""
        shift = self._once._shift(horizon, gains, largest)
        if shift > largest:
            return math.inf
        faded = self._fading(gains)
        faded = replace(faded, shift=min(faded.shift, shift))
        secret = self.secrets[0]
        every: list[SignalMoves | WindowMoves] = [*secret.signals, *secret.windows]
        found = [shift]
        for moves in every:
            if moves.spacing.is_apart:
                found.append(faded.of_several(moves.spacing))
            else:
                found.append(shift * moves.spacing.events)
        return float_above(max(found), 4)

    def _left(self, gains: list[NDArray[np.float64]] | None) -> VaryingSecret:
        """Return what is left of the secret when the noise is inverted, in balls.

        Noise that enters the plant leaves what its entries and the floor are shifted by.
        Any split of a change between the two bounds the shift. Signals that the noise's
        plant is given are the split's free inputs, unless their gains are given.
        """
        inverse = self.square.in_balls().inverse()
        systems = [secret.in_balls() for secret in self.secrets]
        free = 0
        if self.response is not None:
            response = self.response.in_balls()
            systems = [_split(system, response) for system in systems]
            free = response.input_count
        vertices = tuple(inverse.after(system) for system in systems)
        left = VaryingSecret(vertices, self.secrets[0], free)
        return left if gains is None else left.closed(gains)


def _split(secret: LinearSystem, response: LinearSystem) -> LinearSystem:
    """Map the secret and the signals of the noise's plant to the traces of both.

    The first outputs are the signals that the noise's plant is given, which its entries
    hide. The others are what its outputs do not follow of the secret's, for the floor.
    """
    left = sum_of(secret, response.scaled(-1))
    given = response.input_count
    passed = block_balls(
        [[BallMatrix(given, secret.input_count), identity_balls(given)]]
    )
    unseen = BallMatrix(given, left.order)
    C = block_balls([[unseen], [left.C]])
    D = block_balls([[passed], [left.D]])
    return LinearSystem(left.A, left.B, C, D)
