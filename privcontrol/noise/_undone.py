"""Undo Gaussian noise that is drawn again at every sample, and bound what is left.

Structured noise, which is drawn once, hides nothing of a plant that may vary. A white
floor, filtered noise, and noise that enters the plant with the secret do.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import chain

import numpy as np
from numpy.typing import NDArray

from ..core._balls import BallMatrix, block_balls, identity_balls, working_bits
from ..core.errors import UncertifiableError
from ..secrets.secret import SecretInputs
from ..systems.linear import LinearSystem, beside, spectral_radius, sum_of
from ._shift import joint_shift, shift_behind, shift_of_system
from ._varying import (
    VaryingSecret,
    good_gains,
    varying_shift,
    varying_shift_within,
)
from .parts import NoisePart, PartSum

_BITS = 192
#: Samples times vertices up to which a bound for the finite horizon alone is tried as well.
_SHORT = 1000

_DRAWN_ONCE = (
    "models: the noise needs a part that is drawn again at every sample and reaches every "
    "output, since noise that is drawn once is known after some samples and hides nothing "
    "of a plant that varies; add a white floor (floor=...)"
)


def shift_between(
    parts: Sequence[NoisePart], secrets: Sequence[SecretInputs], horizon: float
) -> float:
    """A number that no privacy shift exceeds, for any sequence of vertices.

    ``secrets`` is one secret under each vertex of the plant. Noise that enters every
    vertex with the secret hides it there. A white floor beside filtered noise hides as well.

    Raises
    ------
    ValueError
        If no part is drawn again at every sample and reaches every output.
    UncertifiableError
        If no bound is verified.
    """
    by_system = {secret.system: secret for secret in secrets}
    different = tuple(by_system.values())
    white = PartSum(parts).white
    floor = None
    if white.all():
        floor = _Undone(LinearSystem.gain(np.diag(white)), different)
    own = _own(parts, different, floor)
    if own is None:
        if floor is None:
            raise ValueError(_DRAWN_ONCE)
        return floor.shift(horizon)
    shift = own.shift(horizon)
    if floor is None or own.response is not None:
        return shift
    try:
        return joint_shift(shift, floor.shift(horizon))
    except UncertifiableError:  # independent noise does not follow the plant
        return shift


def _own(
    parts: Sequence[NoisePart], secrets: tuple[SecretInputs, ...], floor: _Undone | None
) -> _Undone | None:
    """The first part besides a floor that can be undone, None if there is none."""
    for part in parts:
        if part.drive is None:
            continue
        response, shaping = part.drive
        if response is None:
            return _Undone(shaping, secrets)
        if all(secret.system == response for secret in secrets):
            entered = LinearSystem.gain(np.eye(secrets[0].inputs))
            return _Undone(shaping, (replace(secrets[0], system=entered),))
        if floor is not None:
            return _Undone(beside(shaping, floor.square), secrets, response)
    return None


@dataclass(frozen=True, eq=False)
class _Undone:
    """Noise that is undone, and a secret under each vertex of a plant.

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

    def shift(self, horizon: float) -> float:
        """A number that no privacy shift exceeds, for any sequence of vertices."""
        if self.response is None:
            return self._shift(horizon, None)
        with working_bits(_BITS):
            left = self.left()
            followed = np.eye(left.free, left.vertices[0].input_count - left.free)
            good = good_gains(left, followed)
        constant = np.hstack([np.zeros((left.free, left.order)), followed])
        plain = [constant] * len(self.secrets)
        best = math.inf
        for gains in chain([plain], good):
            try:
                bound = self._shift(horizon, gains)
            except UncertifiableError as error:
                refusal = error
                continue
            best = min(best, bound)
            if gains is not plain:
                break
        if best == math.inf:
            raise refusal
        return best

    def _shift(self, horizon: float, gains: list[NDArray] | None) -> float:
        """The certified shift for given gains of the free inputs."""
        first = self.secrets[0]
        if len(self.secrets) == 1 and spectral_radius(first.system) < 1:
            if first.energies is None:
                return shift_of_system(
                    lambda: self.left(gains).vertices[0], first.signals, first.balls
                )
            if self.square.order == 0 and gains is None:
                return shift_behind(self.square, first)
        with working_bits(_BITS):
            left = self.left(gains)
        ends = first.energies is None and horizon < math.inf
        try:
            bound = varying_shift(left)
        except UncertifiableError:
            if not ends:
                raise
            return varying_shift_within(left, int(horizon))
        if ends and horizon * len(self.secrets) <= _SHORT:
            bound = min(bound, varying_shift_within(left, int(horizon)))
        return bound

    def left(self, gains: list[NDArray] | None = None) -> VaryingSecret:
        """What is left of the secret after the noise is undone, with the working bits.

        Noise that enters the plant leaves what its entries and the floor are shifted by.
        Any split of a change between the two bounds the shift. Signals that the noise's
        plant is given are the split's free inputs, unless their gains are given.
        """
        first = self.secrets[0]
        inverse = self.square.in_balls().inverse()
        vertices = []
        for secret in self.secrets:
            system = secret.in_balls()
            if self.response is not None:
                system = _split(system, self.response.in_balls())
            vertices.append(inverse.after(system))
        left = VaryingSecret(
            tuple(vertices), first.signals, first.balls, first.energies
        )
        if self.response is None:
            return left
        split = replace(left, free=self.response.D.shape[1])
        return split if gains is None else split.closed(gains)


def _split(secret: LinearSystem, response: LinearSystem) -> LinearSystem:
    """From the secret and from signals of the noise's plant to both signals' traces.

    The first outputs are the signals that the noise's plant is given, which its entries
    hide. The others are what its outputs do not follow of the secret's, for the floor.
    """
    left = sum_of(secret, response.scaled(-1))
    given = response.input_count
    inputs = secret.input_count
    none = BallMatrix(given, left.order)
    passed = block_balls([[BallMatrix(given, inputs), identity_balls(given)]])
    C = block_balls([[none], [left.C]])
    D = block_balls([[passed], [left.D]])
    return LinearSystem(left.A, left.B, C, D)
