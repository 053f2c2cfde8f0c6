"""Structured noise for a plant's moves, certified on the doubles that are returned.

The moves of a trajectory differ in size by hundreds of decades. Their coordinates are taken in ball arithmetic, in a
basis of the moves themselves, so that the design problem is well scaled; the finished factor S is then checked
against every move in ball arithmetic. What the check does not prove is not returned.
"""

import math
from dataclasses import dataclass

import numpy as np
import scipy.linalg
from flint import arb_mat

from ..core._balls import ball_matrix, midpoints, upper_bounds, working_bits
from ..core._linalg import EPS, round_up
from ..core.ellipsoid import gaussian_shape
from ..core.errors import PrivacyError, UncertifiableError
from ..core.query import MoveBasis
from .adjacency import StateMoves
from .manifold import free_outputs
from .modes import growing_mode
from .powers import seen_states

#: Moves of this relative size along each coordinate are hidden as well where the hidden moves alone do not carry a
#: factor in double precision: noise beside a nearly thin ellipsoid costs nothing, a bare direction would be a leak.
_PADDING = 1e-9

#: Rounding S to doubles changes the shift by about the spread of the moves times 1e-16; what it costs is in the gap.
#: Beyond this excess the design is refused.
_LARGEST_EXCESS = 1e-3
_LARGEST_COORDINATE = 1e3  # beyond it the basis is so badly chosen that the weight of its moves carries no digits
_LARGEST_RESPONSE = 1e150  # its square is still a double


@dataclass(frozen=True)
class TangentNoise:
    """S (n, r), upper bounds (r, M) of |S^-1 z| for every hidden move, and the least cost of any noise.

    The bounds hold for S as the exact numbers that its doubles are, in exact arithmetic. `padded` says that S covers
    more than the span of the moves, elsewhere with noise of a negligible size.
    """

    factor: np.ndarray
    shifts: np.ndarray
    lower_bound: float
    padded: bool = False


def structured_factor(
    plant, moves, horizon, half, allowed, *, shape=gaussian_shape, norm=2
):
    """The least costly S for finitely many moves whose certified shifts do not exceed ``allowed`` in a norm.

    ``half`` maps output columns B (T p, r) to H B with H^T H = W; ``shape`` is that of the noise's family, whose
    privacy is in the 2-norm (Gaussian) or the 1-norm (Laplace) of the shifts.

    Raises
    ------
    PrivacyError
        If no protected move reaches an output.
    UncertifiableError
        If no factor in double precision has the promised guarantee.
    """
    rows, hidden = _noisy_rows(plant, moves, horizon), moves.columns.shape[1]
    found, bounds, largest = [], [0.0], 0.0
    for padding in (0.0, _PADDING):
        problem = _Problem(plant, moves, rows, padding)
        spanner = problem.spanner(horizon)
        size = 0.0 if spanner is None else float(np.abs(spanner.responses).max())
        largest = max(largest, size)
        if spanner is None or size > _LARGEST_RESPONSE:
            continue
        priced = half(spanner.responses)
        found_shape = shape(spanner, priced, counted=hidden if padding else None)
        bounds.append(found_shape.lower_bound)
        factor = spanner.moves @ found_shape.factor * float(round_up(1 / allowed, 2))
        excess = sizes_above(problem.shifts(factor)[:, :hidden], norm).max() / allowed
        if excess < 1 + _LARGEST_EXCESS:
            cost = float(np.sum((priced @ found_shape.factor) ** 2)) * excess**2
            found.append((cost, problem, factor * min(1.0, float(round_up(excess, 4)))))
        if excess < 1 + 1e-10:
            break
    if not found:
        raise _uncertified(plant, moves, horizon, largest)
    _, problem, factor = min(found, key=lambda candidate: candidate[0])
    shifts = problem.shifts(factor)[:, :hidden]
    while (size := sizes_above(shifts, norm).max()) > allowed:
        factor = factor * float(round_up(size / allowed, 4))
        shifts = problem.shifts(factor)[:, :hidden]
    full = np.zeros((plant.order, len(rows)))
    full[rows] = factor
    return TangentNoise(full, shifts, max(bounds) / allowed**2, problem.padding.any())


def _uncertified(plant, moves, horizon, largest):
    """Why there is no certified factor: outputs that grow beyond double precision, or moves too far apart in size."""
    if largest > _LARGEST_RESPONSE and np.abs(moves.columns).max() < math.sqrt(
        _LARGEST_RESPONSE
    ):
        return UncertifiableError(
            f"over {horizon} samples the outputs' response to a hidden move grows to {largest:.1e}, because of the unstable "
            f"mode {growing_mode(plant)}: double precision cannot certify noise of that size. Shorten the horizon, or protect "
            "other states"
        )
    spread = np.linalg.norm(moves.columns, axis=0)
    return UncertifiableError(
        f"the hidden moves of the initial state span sizes from {spread.min():.1e} to {spread.max():.1e} over the "
        f"horizon of {horizon} samples: double precision cannot certify noise for both. Shorten the horizon, protect "
        "fewer states, or fewer times (StateAdjacency(times=...))"
    )


def spanner_of(plant, moves, horizon):
    """The states that carry noise and a `MoveBasis` of the hidden moves in them; None where double precision has none."""
    rows = _noisy_rows(plant, moves, horizon)
    for padding in (0.0, _PADDING):
        spanner = _Problem(plant, moves, rows, padding).spanner(horizon)
        if spanner is not None and np.abs(spanner.responses).max() <= _LARGEST_RESPONSE:
            return rows, spanner
    return None


def sizes_above(shifts, norm):
    """Norms (M,) of the columns of a matrix, rounded up."""
    return round_up(
        np.linalg.norm(shifts, ord=norm, axis=0) * (1 + EPS * (len(shifts) + 2)), 4
    )


def _noisy_rows(plant, moves, horizon):
    """States that some hidden move changes and that some output can see; all others need no noise, exactly."""
    changed = moves.columns.any(axis=1)
    seen = seen_states(plant, horizon)
    if not (changed & seen).any():
        raise PrivacyError(
            "no output depends on the protected states within the horizon: nothing of them is published, and no noise is needed"
        )
    return np.flatnonzero(changed & seen)


class _Problem:
    """The hidden moves, and the padding, restricted to the states that carry noise, as balls (r, M)."""

    def __init__(self, plant, moves, rows, padding):
        self.plant, self.moves, self.rows = plant, moves, rows
        self.scale = np.abs(moves.columns[rows]).max(axis=1)
        self.padding = (
            np.diag(padding * self.scale) if padding else np.empty((len(rows), 0))
        )
        self.columns = np.hstack([moves.columns[rows], self.padding])
        self.bits = moves.bits
        with working_bits(self.bits):
            exact = moves.balls(rows)
            padded = ball_matrix(self.padding).tolist() if padding else [[]] * len(rows)
            self.balls = arb_mat(
                [hidden + extra for hidden, extra in zip(exact, padded)]
            )

    def spanner(self, horizon):
        """A `MoveBasis` of near-maximal volume, its coordinates from balls; None if the moves do not span the rows."""
        r = len(self.rows)
        if self.columns.shape[1] < r:
            return None
        order = scipy.linalg.qr(
            self.columns / self.scale[:, None], mode="r", pivoting=True
        )[1][:r]
        for _ in range(20):
            with working_bits(self.bits):
                basis = arb_mat(
                    [[self.balls[i, int(c)] for c in order] for i in range(r)]
                )
                try:
                    coordinates = midpoints(basis.solve(self.balls))
                except ZeroDivisionError:
                    return None
            if not np.isfinite(coordinates).all():
                return None
            sizes = np.abs(coordinates).max(axis=1)
            if sizes.max() <= 2:
                break
            order = scipy.linalg.qr(
                coordinates / sizes[:, None], mode="r", pivoting=True
            )[1][:r]
        if sizes.max() > _LARGEST_COORDINATE:
            return None
        tangent = np.zeros((self.plant.order, r))
        tangent[self.rows] = self.columns[:, order]
        return MoveBasis(
            tangent[self.rows], self._responses(order, horizon), coordinates
        )

    def _responses(self, order, horizon):
        """O_T z of the basis columns (T p, r): from the plant's long free response where there is one."""
        out = np.empty((horizon * len(self.plant.C), len(order)))
        exact = order < (
            self.moves.columns.shape[1] if isinstance(self.moves, StateMoves) else 0
        )
        if exact.any():
            out[:, exact] = self.moves.responses(self.plant.C, order[exact])
        if not exact.all():
            state = np.zeros((self.plant.order, int((~exact).sum())))
            state[self.rows] = self.columns[:, order[~exact]]
            out[:, ~exact] = free_outputs(self.plant, state, horizon)
        return out

    def shifts(self, factor):
        """Upper bounds (r, M) of |S^-1 z| for the factor's rows (r, r) as the exact numbers that its doubles are."""
        with working_bits(self.bits):
            try:
                return upper_bounds(ball_matrix(factor).solve(self.balls))
            except ZeroDivisionError:
                return np.full(self.columns.shape, np.inf)
