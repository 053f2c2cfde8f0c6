"""Regions: sets of plants of which the true one is one, and how far noise hides it there.

A new kind of region is a class in a file of its own. It says which plants it holds and
what a guarantee takes for granted. Designs, guarantees and files ask it nothing else.
"""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import replace

import control as ct
import numpy as np
from numpy.typing import NDArray

from ..core._linalg import positive_number, real_array
from ..core._objects import CheckedFields, Saved
from ..core.adjacency import Adjacency
from ..core.errors import UncertifiableError
from ..noise.parts import NoisePart
from ..noise.shift import Shift, certified_shift
from ..systems.linear import Plant


class PlantRegion(CheckedFields, Saved, ABC):
    """Plants with the same names, of which the true one is one, or varies among them.

    Attributes
    ----------
    varying : bool
        Whether the plant may change from sample to sample.
    assumptions : tuple of str
        What must hold for the plant to be in the region. Every guarantee says it.
    miss : float
        Probability that the plant is not in the region. Every guarantee adds it to delta.
    """

    varying: bool
    assumptions: tuple[str, ...]
    miss: float
    plant_data: Plant  # the Plant to design for

    @property
    def fingerprint(self) -> str:
        """Twelve hexadecimal digits that tell regions apart, a start of a SHA-256 sum.

        The order of a polytope's vertices and its nominal plant do not count.
        """
        digest = hashlib.sha256(self._described())
        if self.miss:
            digest.update(repr(self.miss).encode())
        return digest.hexdigest()[:12]

    @abstractmethod
    def _described(self) -> bytes:
        """All that tells the region from others."""

    @property
    @abstractmethod
    def clause(self) -> str:
        """What a guarantee for the region takes for granted of the plant."""

    @property
    def clauses(self) -> tuple[str, ...]:
        """The clause and the assumptions."""
        return (self.clause, *self.assumptions)

    def contains(self, sys: ct.StateSpace | Plant) -> bool:
        """Return whether a plant is in the region, for polytopes to nine digits.

        Parameters
        ----------
        sys : control.StateSpace

        Returns
        -------
        bool
            False also if names or sampling time differ.
        """
        plant = Plant.of(sys)
        return is_alike(self.plant_data, plant) and self._holds(plant)

    @abstractmethod
    def _holds(self, plant: Plant) -> bool:
        """Whether the matrices of a plant are in the region."""

    def check_holds(self, plant: Plant) -> None:
        """Make sure that the plant which noise is designed for is in the region.

        Raises
        ------
        control.ControlDimension
            If the outputs or the sampling time are others.
        ValueError
            If the plant is outside.
        """
        self.plant_data.check_outputs_of(plant, "models")
        if not self.contains(plant):
            raise ValueError(
                f"models: the plant {plant.name} is not in the {type(self).__name__}, so "
                "nothing would be promised for it; pass models.nominal as sys, or "
                "widen the region"
            )

    @abstractmethod
    def plants(self, adjacency: Adjacency) -> tuple[Plant, ...]:
        """Vertices of a polytope that contains all that the region knows of a secret."""

    def is_one(self, adjacency: Adjacency) -> bool:
        """Return whether all plants of the region answer to a secret as one."""
        return len(self.plants(adjacency)) == 1

    def standing(self, adjacency: Adjacency) -> tuple[Plant, ...]:
        """Return a few plants of the region, from which a design for a secret starts."""
        return self.plants(adjacency)

    def shift(
        self,
        parts: Sequence[NoisePart],
        adjacency: Adjacency,
        horizon: float,
        rough: bool = False,
    ) -> Shift:
        """Certify how far Gaussian noise hides a secret of every plant of the region.

        The plant may be another weighted mean of `plants` at every sample. A region of
        plants that stay the same may have a closer bound.

        Parameters
        ----------
        parts : sequence of NoisePart
            Their sum is the noise.
        adjacency : Adjacency
        horizon : int or inf
        rough : bool, optional
            Whether a bound that takes less time will do, as to compare noises.

        Raises
        ------
        UncertifiableError
            If no bound is verified.
        ValueError
            If the noise or the secret has no bound, with the reason.
        """
        plants = self.plants(adjacency)
        several = not self.is_one(adjacency)
        return certified_shift(parts, adjacency, plants, horizon, varying=several)


def region_of(models: object) -> PlantRegion | None:
    """The region that models are, or were identified with, None for other models."""
    region = getattr(models, "box", models)
    return region if isinstance(region, PlantRegion) else None


def least_bound(
    routes: Sequence[Callable[[], tuple[float, float]]], enough: float = 0.0
) -> Shift:
    """The least of the bounds that some routes come to, or the first one's refusal.

    Each returns a bound and what some plant attains. A bound that is at most ``enough``
    times as large ends the search.
    """
    bounds = []
    refusals: list[Exception] = []
    for route in routes:
        try:
            bound, attained = route()
        except (ValueError, UncertifiableError) as error:
            refusals.append(error)
            continue
        bounds.append(bound)
        if bound <= enough * attained:
            break
    if not bounds:
        raise refusals[0]
    return Shift(min(bounds))


# -- what makers of regions share --------------------------------------------------------


def is_alike(first: Plant, other: Plant) -> bool:
    """Whether two plants have the same names and sampling time."""
    named = (first.states, first.inputs, first.outputs, first.dt)
    return named == (other.states, other.inputs, other.outputs, other.dt)


def checked_clauses(assumptions: object) -> tuple[str, ...]:
    """Clauses of a guarantee, as texts."""
    if isinstance(assumptions, str) or not isinstance(assumptions, (list, tuple)):
        raise TypeError(
            f"assumptions: expected a list of texts, got {type(assumptions).__name__}"
        )
    for clause in assumptions:
        if not isinstance(clause, str) or not clause:
            raise TypeError("assumptions: expected texts, got something else")
    return tuple(assumptions)


def checked_miss(miss: float) -> float:
    """The probability that a region does not hold."""
    miss = positive_number(miss, "miss", zero=True)
    if miss > 0.5:
        raise ValueError(f"miss: expected a probability of at most 0.5, got {miss}")
    return miss


def exception_of(miss: float) -> str:
    """What a guarantee's clause about a region says of the probability that it misses."""
    if not miss:
        return ""
    return f", but for a probability of {miss:.3g}, counted in delta"


def matrix_of(plant: Plant) -> NDArray:
    """[A B; C D], shape (n + p, n + m)."""
    return np.block([[plant.A, plant.B], [plant.C, plant.D]])


def with_matrix(plant: Plant, matrix: NDArray) -> Plant:
    """A plant with another [A B; C D]."""
    n = plant.order
    return replace(
        plant,
        A=real_array(matrix[:n, :n], "A"),
        B=real_array(matrix[:n, n:], "B"),
        C=real_array(matrix[n:, :n], "C"),
        D=real_array(matrix[n:, n:], "D"),
    )
