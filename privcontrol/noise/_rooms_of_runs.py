"""Rooms of noise that is drawn once for a run, or ahead for all of it.

Entries that are drawn once are kept within a ball. Other noise of a run is kept within the
bound at every sample, and drawn ahead as one.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np
from numpy.typing import NDArray

from ..numerics.balls import Ball, BallMatrix, ball_matrix, submatrix
from ..numerics.errors import PrivacyError
from ..numerics.linalg import EPS
from ..numerics.thresholds import LATEST, NEGLIGIBLE, ROUNDED, SHORT_RUN
from ..privacy.horizon import Horizon, Run
from ..privacy.walls import Wall, kept_share
from ..secrets.secret import SecretInputs
from ..secrets.secrets import Secrets
from ..systems.linear import Plant, response_from_rest
from ._counted_walls import envelope, for_events, walls_at
from ._room import (
    ROUNDINGS,
    Drawing,
    Recursion,
    Room,
    all_at_most,
    at_most,
    changes_of,
    shares_of,
)
from .bound import Bound
from .parts import Filtered, PartSum


@dataclass(frozen=True, eq=False)
class Once(Room):
    """Entries that are drawn once, in a ball of a radius."""

    radius: float

    def share(self, first: NDArray[np.float64], fresh: NDArray[np.float64]) -> float:
        return float(np.linalg.norm(first)) / self.radius

    def uncertainty(
        self, first: NDArray[np.float64], fresh: NDArray[np.float64]
    ) -> float:
        return len(first) * ROUNDINGS * EPS * (1 + self.share(first, fresh))

    def decided(self, first: BallMatrix, fresh: BallMatrix) -> bool | None:
        square = (first.transpose() * first)[0, 0]
        return at_most(square, Ball(self.radius) ** 2)

    @property
    def acceptance(self) -> float:
        return kept_share(self.radius, self.total.once)

    def draws(
        self, draw: Drawing
    ) -> Iterator[tuple[NDArray[np.float64], NDArray[np.float64]]]:
        first, _ = self._within(draw, self.total.once, 0)
        yield first, np.empty((self.samples, 0))

    def walls(
        self, secret: Secrets, plants: tuple[Plant, ...], shift: float
    ) -> tuple[Wall, ...]:
        return (Wall(self.radius, shift, 1.0, self.total.once),)


@dataclass(frozen=True, eq=False)
class Life(Room):
    """All entries of a run, which are drawn ahead as one."""

    @property
    def ahead(self) -> int:
        return self.samples

    def spans(self, start: int, stop: int) -> list[range]:
        return []

    def share(self, first: NDArray[np.float64], fresh: NDArray[np.float64]) -> float:
        return self.bound.share(self.total.signal(first[None], fresh[None])[0])

    def uncertainty(
        self, first: NDArray[np.float64], fresh: NDArray[np.float64]
    ) -> float:
        if self.total.model is None:
            sums = np.abs(self.total.responses(self.samples)).sum(axis=2)
            most = sums.max(axis=0) * np.abs(fresh).max(initial=0.0)
            errors = fresh.size * ROUNDINGS * EPS * most
        else:
            errors, _ = self._recursion.errors(self.total.state_root, first, fresh)
        return self.bound.share_of_size(errors)

    @cached_property
    def _recursion(self) -> Recursion:
        if self.total.model is None:
            raise ValueError("correlated noise is no recursion")
        return Recursion.of(self.total.model, self.samples)

    def decided(self, first: BallMatrix, fresh: BallMatrix) -> bool | None:
        model = self.total.model
        if model is None:
            return all_at_most(self._dense_shares(fresh))
        system = model.in_balls()
        state = ball_matrix(self.total.state_root) * first
        shares = []
        last = None
        for t in range(fresh.nrows()):
            entries = submatrix(fresh, [t], range(fresh.ncols())).transpose()
            gamma = system.C * state + system.D * entries
            shares += shares_of(gamma, self.bound.limits.tolist())
            if last is not None:
                shares += shares_of(gamma - last, self.bound.changes.tolist())
            state = system.A * state + system.B * entries
            last = gamma
        return all_at_most(shares)

    def _dense_shares(self, fresh: BallMatrix) -> list[Ball]:
        """Return the parts of the limits that correlated noise reaches."""
        outputs = len(self.bound.limits)
        factor = self.total.responses(self.samples)
        flat = factor.reshape(len(factor) * outputs, -1)
        entries = BallMatrix(flat.shape[1], 1, fresh.entries())
        gamma = ball_matrix(flat) * entries
        shares = []
        for row in range(gamma.nrows()):
            limit = float(self.bound.limits[row % outputs])
            if limit < math.inf:
                shares.append(abs(gamma[row, 0]) / Ball(limit))
            change = float(self.bound.changes[row % outputs])
            if row >= outputs and change < math.inf:
                step = gamma[row, 0] - gamma[row - outputs, 0]
                shares.append(abs(step) / Ball(change))
        return shares

    @property
    def acceptance(self) -> float:
        stds, steps = deviations(self.total, Run(self.samples))
        total = 0.0
        for sizes, limits in ((stds, self.bound.limits), (steps, self.bound.changes)):
            for size, limit in zip(sizes.tolist(), limits.tolist(), strict=True):
                if size > 0 and limit < math.inf:
                    total += self.samples * math.log(kept_share(limit / size))
        return math.exp(total)

    def draws(
        self, draw: Drawing
    ) -> Iterator[tuple[NDArray[np.float64], NDArray[np.float64]]]:
        yield self._within(draw, self.total.once, self.samples)

    def walls(
        self, secret: Secrets, plants: tuple[Plant, ...], shift: float
    ) -> tuple[Wall, ...]:
        moved = _responses(secret, plants, self.bound.samples)
        stds, steps = deviations(self.total, self.bound.samples)
        kinds = (
            (np.abs(moved), stds, self.bound.limits),
            (np.abs(np.diff(moved, axis=0, prepend=0.0)), steps, self.bound.changes),
        )
        walls: list[Wall] = []
        for sizes, deviation, limits in kinds:
            for output, limit in enumerate(limits.tolist()):
                if limit < math.inf and deviation[output] > 0:
                    moves = envelope(sizes[:, output]) / deviation[output]
                    walls += walls_at(limit / deviation[output], moves)
        return for_events(walls, secret.events)


def ball_radius(total: PartSum, bound: Bound, horizon: int) -> float:
    """Return the largest radius of the entries at which no output passes its limit."""
    responses, _ = total.parts[0]._impulses(horizon)
    lengths = np.linalg.norm(responses, axis=2).max(axis=0)
    steps = np.linalg.norm(np.diff(responses, axis=0), axis=2).max(axis=0, initial=0.0)
    radius = math.inf
    for sizes, limits in ((lengths, bound.limits), (steps, bound.changes)):
        for size, limit in zip(sizes.tolist(), limits.tolist(), strict=True):
            if size > 0:
                radius = min(radius, limit / size / (1 + ROUNDED))
    return radius


def deviations(
    total: PartSum, horizon: Horizon
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the largest deviations (p,) of the noise, and of its change in a sample."""
    if not horizon.ends or _is_stationary(total):
        now = np.diag(total.covariance(0, 0))
        shared = np.diag(total.covariance(1, 0))
        steps = 2 * np.maximum(now - shared, 0.0)
        return np.sqrt(now) * (1 + ROUNDED), np.sqrt(steps) * (1 + ROUNDED)
    stds = np.sqrt(total.variances(horizon).max(axis=0)) * (1 + ROUNDED)
    if total.model is not None:
        once, fresh = total._impulses(horizon)
        steps = np.diff(fresh, axis=0, prepend=0.0)
        arrived = np.cumsum(np.sum(steps**2, axis=2), axis=0)
        begun = np.sum(np.diff(once, axis=0, prepend=once[:1]) ** 2, axis=2)
        return stds, np.sqrt((arrived + begun).max(axis=0)) * (1 + ROUNDED)
    every = np.diff(total.responses(horizon), axis=0)
    changes = np.sum(every**2, axis=2).max(axis=0, initial=0.0) + 2 * total.white**2
    return stds, np.sqrt(changes) * (1 + ROUNDED)


def _is_stationary(total: PartSum) -> bool:
    """Return whether all parts keep their law over time."""
    for part in total.parts:
        is_filtered = isinstance(part, Filtered) and part.starts_stationary
        is_white = part.model is not None and part.model.order == 0
        if not (is_filtered or is_white):
            return False
    return True


@lru_cache(maxsize=4)  # a search for a size asks again and again
def _responses(
    secret: Secrets, plants: tuple[Plant, ...], horizon: float
) -> NDArray[np.float64]:
    """Return responses (T, p, M) of the outputs to hidden moves, or larger ones."""
    outputs = len(plants[0].C)
    if horizon * outputs <= SHORT_RUN or secret.hides_start:
        found = secret.responses(plants, int(horizon))
        columns = [found.singles]
        columns += [np.linalg.norm(ball, axis=1)[:, None] for ball in found.balls]
        for several in found.windows:
            sizes = np.abs(several.columns)
            columns += [sizes[:, index].sum(axis=1)[:, None] for index in several.index]
        return np.hstack(columns).reshape(int(horizon), outputs, -1)
    frames = []
    for plant in plants:
        (inputs,) = secret.under([plant])
        frames.append(_settled(inputs, horizon))
    longest = max(len(frame) for frame in frames)
    padded = [
        np.pad(frame, ((0, longest - len(frame)), (0, 0), (0, 0))) for frame in frames
    ]
    return np.concatenate(padded, axis=2)


def _settled(inputs: SecretInputs, horizon: float) -> NDArray[np.float64]:
    """Return responses (T, p, M) to changes at the first sample, until they are nothing.

    Changes of any shape count with all their samples of the worst sign.
    """
    if inputs.energies is not None or inputs.balls:
        raise PrivacyError(
            'bound: a long run needs changes of single signals; norm="l2" and balls of '
            "states have a leak over short horizons only"
        )
    samples = inputs.longest + 64
    while True:
        samples = int(min(samples, horizon, LATEST))
        found = []
        if inputs.signals:
            found.append(response_from_rest(inputs.system, changes_of(inputs, samples)))
        for window in inputs.windows:
            impulse = np.abs(inputs.system.impulse_response(samples))
            sizes = impulse[:, :, list(window.columns)] @ window.radii
            kernel = np.ones(window.longest)
            summed = [np.convolve(line, kernel)[:samples] for line in sizes.T]
            found.append(np.array(summed).T[:, :, None])
        frames = np.concatenate(found, axis=2)
        last = np.abs(frames[-max(samples // 8, 1) :]).max()
        if last <= NEGLIGIBLE * np.abs(frames).max() or samples >= horizon:
            return frames
        if samples >= LATEST:
            raise PrivacyError(
                f"bound: the secret's effect lasts for more than {LATEST} samples; "
                "shorten the horizon"
            )
        samples *= 2
