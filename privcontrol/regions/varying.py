"""Noise for plants that change from sample to sample, within a polytope.

Structured noise, which is drawn once, has no guarantee for such a plant. Noise that is
drawn again at every sample has one: a white floor, filtered noise, and noise that enters
the plant with the secret, beside a floor.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import chain

import control as ct
import numpy as np
from numpy.typing import NDArray

from ..core._balls import BallMatrix, block_balls, identity_balls, working_bits
from ..core._linalg import round_up
from ..core.adjacency import Adjacency
from ..core.errors import PrivacyError, UncertifiableError
from ..noise._secret import secrets_of_vertices
from ..noise._shift import joint_shift, shift_of_system
from ..noise.parts import NoisePart, White
from ..noise.summed import SummedNoise
from ..secrets.adjacency import StateAdjacency
from ..secrets.disturbance import DisturbanceAdjacency, JointAdjacency
from ..secrets.secret import SecretInputs
from ..systems.gain import system_gain
from ..systems.linear import LinearSystem
from ..systems.plant import Plant
from ._varying import (
    VaryingSecret,
    good_gains,
    varying_shift,
    varying_shift_within,
)

_BITS = 192
#: Samples times vertices up to which a bound for the finite horizon alone is tried as well.
_SHORT = 1000

_DRAWN_ONCE = (
    "models: the noise needs a part that is drawn again at every sample and reaches every "
    "output, since noise that is drawn once is known after some samples and hides nothing "
    "of a plant that varies; add a white floor (floor=...)"
)
_LATER_STATES = (
    "models: a state at a later time fixes what came before it through the inverse of the "
    "plant, which is not known if the plant may vary; protect the initial state "
    "(StateAdjacency(..., times=0)), or what enters during the run with a "
    "DisturbanceAdjacency"
)


@dataclass(frozen=True, eq=False)
class VaryingProblem:
    """Noise, the vertices of a plant, and a secret.

    Attributes
    ----------
    square : LinearSystem
        M, square with a nonsingular D, from white entries of the noise.
    secrets : tuple of SecretInputs
        Under each vertex.
    response : LinearSystem or None
        The plant in the noise, if the noise enters it. Then M comes before it, and its
        last inputs are the floor's.
    floor : VaryingProblem or None
        The same for independent noise beside output noise M, which hides as well.
    """

    square: LinearSystem
    secrets: tuple[SecretInputs, ...]
    response: LinearSystem | None = None
    floor: VaryingProblem | None = None

    @classmethod
    def of(
        cls, noise: SummedNoise, vertices: Sequence[Plant], adjacency: Adjacency
    ) -> VaryingProblem:
        """The problem of a noise as it is.

        Raises
        ------
        ValueError
            If the noise has no guarantee for plants that vary, or the secret is a state at
            a later time.
        """
        if noise.family != "gaussian":
            raise ValueError(
                "models: a plant that varies needs Gaussian noise, "
                f"got family={noise.family!r}"
            )
        return cls.between(noise.parts, secrets_of(adjacency, vertices))

    @classmethod
    def between(
        cls, parts: Sequence[NoisePart], secrets: tuple[SecretInputs, ...]
    ) -> VaryingProblem:
        """The problem of parts of Gaussian noise and of secrets under each vertex.

        Noise that enters every vertex with the secret hides it there.
        """
        floor = None
        white = np.sqrt(sum(part.white**2 for part in parts))
        if white.all():
            floor = cls(LinearSystem.gain(np.diag(white)), secrets)
        for part in parts:
            if part.square is not None and not isinstance(part, White):
                return cls(part.square, secrets, None, floor)
            if part.drive is None:
                continue
            response, shaping = part.drive
            if all(secret.system == response for secret in secrets):
                entered = LinearSystem.gain(np.eye(secrets[0].inputs))
                own = tuple(replace(secret, system=entered) for secret in secrets)
                return cls(shaping, own, None, floor)
            if floor is not None:
                return cls(shaping.beside(floor.square), secrets, response)
        if floor is None:
            raise ValueError(_DRAWN_ONCE)
        return floor

    def shift(self, horizon: float) -> float:
        """A number that no privacy shift exceeds, for any sequence of vertices.

        Raises
        ------
        UncertifiableError
            If none is verified.
        """
        problem = replace(self, secrets=_different(self.secrets))
        if self.floor is not None:
            own = problem._shift(horizon, None)
            try:
                return joint_shift(own, self.floor.shift(horizon))
            except UncertifiableError:  # independent noise does not follow the plant
                return own
        if self.response is None:
            return problem._shift(horizon, None)
        with working_bits(_BITS):
            left = problem.left()
            followed = np.eye(left.free, left.vertices[0].input_count - left.free)
            good = good_gains(left, followed)
        constant = np.hstack([np.zeros((left.free, left.order)), followed])
        plain = [constant] * len(problem.secrets)
        best = math.inf
        for gains in chain([plain], good):
            try:
                bound = problem._shift(horizon, gains)
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
        if len(self.secrets) == 1 and first.system.spectral_radius < 1:
            if first.energies is None:
                return shift_of_system(
                    lambda: self.left(gains).vertices[0], first.signals, first.balls
                )
            if self.square.order == 0 and gains is None:
                undone = self.square.inverse().after(first.scaled_system)
                gain = float(system_gain(ct.ss(*undone.matrices, True)))
                return float(round_up(gain * (1 + 1e-13)))
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
        rounded = {moves.column for moves in first.signals if moves.rounded}
        inverse = self.square.in_balls().inverse()
        vertices = []
        for secret in self.secrets:
            system = secret.system.in_balls(rounded)
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


def secrets_of(
    adjacency: Adjacency, vertices: Sequence[Plant]
) -> tuple[SecretInputs, ...]:
    """The secret under each vertex, with the same states in all.

    Raises
    ------
    ValueError
        If a state at a later time is secret.
    PrivacyError
        If no output depends on the secret.
    """
    parts: list[Adjacency] = []
    for part in adjacency.parts:
        if isinstance(part, StateAdjacency):
            at_start = part.times is not None and max(part.times) == 0
            if part.charts != "times" or not at_start:
                raise ValueError(_LATER_STATES)
        if isinstance(part, DisturbanceAdjacency):
            part = replace(part, times=None)  # at any time, which is more
        parts.append(part)
    secrets = secrets_of_vertices(JointAdjacency(parts), vertices)
    if not any(secret.system.C.any() or secret.system.D.any() for secret in secrets):
        raise PrivacyError(
            "no hidden move changes what is published: no noise is needed for this "
            "adjacency"
        )
    return tuple(secrets)


def _split(secret: LinearSystem, response: LinearSystem) -> LinearSystem:
    """From the secret and from signals of the noise's plant to both signals' traces.

    The first outputs are the signals that the noise's plant is given, which its entries
    hide. The others are what its outputs do not follow of the secret's, for the floor.
    """
    left = secret.plus(response.scaled(-1))
    given = response.input_count
    inputs = secret.input_count
    none = BallMatrix(given, left.order)
    passed = block_balls([[BallMatrix(given, inputs), identity_balls(given)]])
    C = block_balls([[none], [left.C]])
    D = block_balls([[passed], [left.D]])
    return LinearSystem(left.A, left.B, C, D)


def _different(secrets: Sequence[SecretInputs]) -> tuple[SecretInputs, ...]:
    """Secrets with different systems."""
    systems = dict.fromkeys(secret.system for secret in secrets)
    by_system = {secret.system: secret for secret in secrets}
    return tuple(by_system[system] for system in systems)
