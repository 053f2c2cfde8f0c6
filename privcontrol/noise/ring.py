"""Noise of units around a ring, which is drawn and certified wave by wave.

In the coordinates of its waves the noise of a ring is that of units that nothing connects:
one filter M for each wave, the same for waves that are much alike. A change of one unit is a
sum of all waves k of size sqrt(m_k / N), m_k = 1 or 2. So what the noise leaves of two
changes that begin s samples apart has the product

    r(s) = sum_k (m_k / N) r_k(s),    r_k(0) = D^2 + B^T X B,
    r_k(s) = (C^T D + A^T X B)^T A^(s-1) B,

with V = M^-1 G_k = (A, B, C, D) and its observability Gramian X. All waves are gone through
at once in doubles, whose errors are bounded by norms. For any P and any Y with

    R = P - A^T P A - C^T C,    Y - A^T Y A >= I / 2

the error of X is bounded by -2 |R| Y <= X - P <= 2 |R| Y.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import NamedTuple

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

from ..core.adjacency import Adjacency
from ..numerics.balls import enclosure, working_bits
from ..numerics.checks import check_memory, positive_integer, positive_number
from ..numerics.errors import UncertifiableError
from ..numerics.linalg import EPS, float_above, nonzero
from ..numerics.thresholds import DOUBLINGS, LARGEST_EXCESS, ROUNDED
from ..secrets.fleet import symmetric_plant
from ..secrets.ring import Ring, waves_of
from ..secrets.secret import SecretInputs, SignalMoves, WindowMoves
from ..systems.linear import LinearSystem, Plant
from ._patterns import largest_pattern
from .fleet import (
    NOT_ALIKE,
    CoupledUnits,
    SeparateUnits,
    UnitNoise,
    beyond_symmetry,
)
from .parts import Filtered, Stream


@dataclass(frozen=True, eq=False)
class RingUnits(CoupledUnits):
    """size * sum over waves k of Q_k M_k nu_k for one output of each of N units.

    Q_k are the cosines and sines of wave k around the ring, orthonormal.

    Attributes
    ----------
    filters : tuple of LinearSystem
        With one input, one output and a stable inverse. The noise is stationary.
    homes : ndarray, shape (N / 2 + 1,)
        Which filter each wave has.
    count : int
        N.
    size : float
    """

    filters: tuple[LinearSystem, ...]
    homes: NDArray[np.number]
    count: int
    size: float = 1.0

    def __post_init__(self) -> None:
        count = positive_integer(self.count, "count")
        homes = np.array(self.homes, int)
        every = np.arange(len(self.filters))
        if len(homes) != count // 2 + 1 or not np.isin(homes, every).all():
            raise ValueError("homes: expected a filter for each wave around the ring")
        if any(system.D.shape != (1, 1) for system in self.filters):
            raise ValueError("filters: expected systems from one input to one output")
        if not all(np.isin(every, homes)):
            raise ValueError("homes: expected a wave for each filter")
        homes.flags.writeable = False
        object.__setattr__(self, "count", count)
        object.__setattr__(self, "homes", homes)
        object.__setattr__(self, "size", positive_number(self.size, "size"))
        object.__setattr__(self, "filters", tuple(self.filters))

    @cached_property
    def waves(self) -> SeparateUnits:
        """The noise of a ring of size one, in the coordinates of its waves."""
        homes = np.repeat(self.homes, waves_of(self.count))
        groups = [
            UnitNoise(Filtered(system), np.flatnonzero(homes == k)[:, None])
            for k, system in enumerate(self.filters)
        ]
        return SeparateUnits(tuple(groups), self.count)

    @cached_property
    def turn(self) -> NDArray[np.float64]:
        """Q (N, N), with the cosines and sines of the waves in its columns."""
        N = self.count
        check_memory(2 * N * N, "noise")
        columns = []
        for wave, times in enumerate(waves_of(N).tolist()):
            angles = 2 * np.pi / N * (wave * np.arange(N) % N)
            columns.append(np.cos(angles) * math.sqrt(times / N))
            if times == 2:
                columns.append(np.sin(angles) * math.sqrt(times / N))
        return np.transpose(columns)

    @cached_property
    def model(self) -> LinearSystem:
        A, B, C, D = self.waves.model.matrices
        return LinearSystem(A, B, self.size * self.turn @ C, self.size * self.turn @ D)

    @property
    def order(self) -> int:
        """Number of states of all waves."""
        orders = np.array([system.order for system in self.filters])
        return int(waves_of(self.count) @ orders[self.homes])

    @property
    def once(self) -> int:
        return self.waves.once

    @property
    def width(self) -> int:
        return self.count

    @property
    def state_root(self) -> NDArray[np.float64]:
        return self.waves.state_root

    def signal(
        self, first: NDArray[np.float64], fresh: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        return self.waves.signal(first, fresh) @ (self.size * self.turn.T)

    def stream(self, first: NDArray[np.float64]) -> Stream:
        advance = self.waves.stream(first)
        onto_units = self.size * self.turn.T
        return lambda fresh: advance(fresh) @ onto_units

    @property
    def white(self) -> NDArray[np.float64]:
        return np.zeros(self.count)

    def covariance(self, t: int, s: int) -> NDArray[np.float64]:
        of_waves = np.diag(self.waves.covariance(t, s))
        return self.size**2 * (self.turn * of_waves) @ self.turn.T

    def variances(self, horizon: int) -> NDArray[np.float64]:
        mean = self.waves.variances(horizon).mean(axis=1, keepdims=True)
        return np.repeat(self.size**2 * mean, self.count, axis=1)

    def scaled(self, gain: float) -> RingUnits:
        return replace(self, size=self.size * gain)

    def shift(self, adjacency: Adjacency, plant: Plant) -> float:
        return shift_behind_waves(self, adjacency, plant)

    @property
    def phrase(self) -> str:
        return f"{self.count} equal units around a ring, {len(self.homes)} waves"

    def __str__(self) -> str:
        orders = [system.order for system in self.filters]
        most = f"of orders up to {max(orders)}"
        return f"filtered by {len(orders)} bands of waves of {self.count} units, {most}"


# -- what is certified ------------------------------------------------------------------------


def shift_behind_waves(part: RingUnits, adjacency: Adjacency, plant: Plant) -> float:
    """Return a number that no privacy shift of units around a ring exceeds.

    Raises
    ------
    UncertifiableError
        If the plant is too far from a ring, or doubles do not prove a wave stable.
    """
    whole = _shift_of_one(part.filters, part.homes.tobytes(), adjacency, plant)
    return float_above(whole / part.size, 2)


@lru_cache(maxsize=4)  # a search for a size asks again and again
def _shift_of_one(
    filters: tuple[LinearSystem, ...], homes: bytes, adjacency: Adjacency, plant: Plant
) -> float:
    """Return the shift behind noise of size one."""
    near = symmetric_plant(adjacency, plant)
    places = np.frombuffer(homes, int)
    if not isinstance(near, Ring) or len(places) != len(near.systems):
        raise UncertifiableError(NOT_ALIKE.format("in their number or entries"))
    with working_bits():
        inverses = [system.in_balls().inverse() for system in filters]
        whitening = [
            [enclosure(matrix) for matrix in inverse.matrices] for inverse in inverses
        ]
    lags = near.secret.longest
    products, error = np.zeros(lags), 0.0
    for inverse, home in zip(whitening, range(len(filters)), strict=True):
        waves = np.flatnonzero(places == home)
        response = _Waves.behind(inverse, [matrix[waves] for matrix in near.stacks])
        values, errors = response.products(lags)
        shares = near.sizes[waves] / near.count
        products += shares @ values
        error += float(shares @ errors)
    error += 8 * len(places) * EPS * float(np.abs(products[0]))
    if not error <= LARGEST_EXCESS * products[0]:
        raise UncertifiableError(
            "the waves around the ring are not proven to be stable in doubles: a slow mode "
            "is too close to the unit circle; ask for another order, or a larger gap"
        )
    square = _largest_square(near.secret, products, error * (1 + ROUNDED))
    return float_above(math.sqrt(square) + _beyond(whitening, near), 4)


@dataclass(frozen=True)
class _Waves:
    """V = M^-1 G_k of some waves in doubles, with bounds of the errors of all entries.

    Attributes
    ----------
    matrices : list of ndarray
        A (K, n, n), B (K, n, 1), C (K, 1, n) and D (K, 1, 1).
    errors : list of ndarray
        Of each, of the same shapes.
    """

    matrices: list[NDArray[np.float64]]
    errors: list[NDArray[np.float64]]

    @classmethod
    def behind(
        cls,
        inverse: Sequence[tuple[NDArray[np.float64], NDArray[np.float64]]],
        waves: Sequence[NDArray[np.float64]],
    ) -> _Waves:
        """Return what is left of waves with the matrices A, B, C, D, with waves in front.

        ``inverse`` has those of M^-1 and bounds of their errors.
        """
        (A_i, of_A), (B_i, of_B), (C_i, of_C), (D_i, of_D) = inverse
        A, B, C, D = waves
        matrices = _joined(A, B, A_i, C_i, B_i @ C, B_i @ D, D_i @ C, D_i @ D)
        of_B = of_B + EPS * np.abs(B_i)
        of_D = of_D + EPS * np.abs(D_i)
        seen = np.abs(C)
        through = np.abs(D)
        rounded = of_B @ seen, of_B @ through, of_D @ seen, of_D @ through
        exact = np.zeros_like(A), np.zeros_like(B)
        errors = _joined(*exact, of_A, of_C, *rounded)
        return cls(matrices, [error * (1 + ROUNDED) for error in errors])

    def scaled(self, scale: NDArray[np.float64]) -> _Waves:
        """Return the same in states divided by powers of two (K, n)."""
        row, column = scale[:, None], scale[:, :, None]
        found = [
            [A * row / column, B / column, C * row, D]
            for A, B, C, D in (self.matrices, self.errors)
        ]
        return _Waves(*found)

    def products(self, lags: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return r_k (K, lags), and a bound (K,) of the error of each."""
        A, _, C, _ = self.matrices
        energies = np.einsum("kii->ki", _gramian(A, C))
        sizes = np.sqrt(nonzero(energies))
        return self.scaled(np.exp2(-np.round(np.log2(sizes))))._products(lags)

    @cached_property
    def _wrong(self) -> list[NDArray[np.float64]]:
        """The norms (K,) of the errors of A, B, C and D."""
        return [_norm(error) for error in self.errors]

    @cached_property
    def _sizes(self) -> list[NDArray[np.float64]]:
        """Bounds (K,) of the norms of A, B, C and D."""
        norms = [_norm(matrix) for matrix in self.matrices]
        pairs = zip(norms, self._wrong, strict=True)
        return [(norm + wrong) * (1 + ROUNDED) for norm, wrong in pairs]

    def _products(self, lags: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        A, B, C, D = self.matrices
        of_A, of_B, _, of_D = self._wrong
        a, b, _, d = self._sizes
        unit = _unit(A)
        energy = _Energy.of_powers(A, of_A)
        P = _gramian(A, C)
        p = _norm(P)
        echo = _turned(A) @ P @ B + _turned(C) @ D
        values = [(_turned(B) @ P @ B + D * D)[:, 0, 0]]
        state, longest = B, b
        for _ in range(1, lags):
            values.append((_turned(echo) @ state)[:, 0, 0])
            state = A @ state
            longest = np.maximum(longest, _norm(state))
        of_first = 2 * p * b * of_B + 2 * d * of_D + unit * (p * b**2 + d**2)
        steps = of_B + lags * (unit * a + of_A) * longest
        of_state = np.sqrt(2 * energy.most) * steps
        of_later = self._error_of_echo(p) * (longest + of_state)
        of_later = of_later + _norm(echo) * (of_state + unit * longest)
        errors = self._error_of_gramian(P, energy) + np.maximum(of_first, of_later)
        errors = np.where(np.isnan(errors), math.inf, errors)
        return np.stack(values, axis=1), errors * (1 + ROUNDED)

    def _error_of_gramian(
        self, P: NDArray[np.float64], energy: _Energy
    ) -> NDArray[np.float64]:
        """Bound (K,) by how much P is wrong for what is entered by B."""
        A, B, C, _ = self.matrices
        of_A, of_B, of_C, _ = self._wrong
        a, _, c, _ = self._sizes
        p = _norm(P)
        residual = P - _turned(A) @ P @ A - _turned(C) @ C
        wrong = _norm(residual) + _unit(A) * (p + a**2 * p + c**2)
        wrong = wrong + 2 * a * p * of_A + 2 * c * of_C
        entered = np.sqrt(energy.of(B)) + np.sqrt(energy.most) * of_B
        return 2 * wrong * entered**2

    def _error_of_echo(self, p: NDArray[np.float64]) -> NDArray[np.float64]:
        """Bound (K,) the error of A^T P B + C^T D, for P of the norms p (K,)."""
        of_A, of_B, of_C, of_D = self._wrong
        a, b, c, d = self._sizes
        exact = p * (b * of_A + a * of_B) + d * of_C + c * of_D
        return exact + _unit(self.matrices[0]) * (a * p * b + c * d)


def _joined(
    A: NDArray[np.float64], B: NDArray[np.float64], A_i: NDArray[np.float64], C_i: NDArray[np.float64],
    B_C: NDArray[np.float64], B_D: NDArray[np.float64], D_C: NDArray[np.float64], D_D: NDArray[np.float64],
) -> list[NDArray[np.float64]]:  # fmt: skip
    """Return the matrices of one system after others, with these in front."""
    K, n, _ = A.shape
    q = len(A_i)
    every = np.broadcast_to(A_i, (K, q, q)), np.broadcast_to(C_i, (K, 1, q))
    return [
        np.block([[A, np.zeros((K, n, q))], [B_C, every[0]]]),
        np.concatenate([B, B_D], axis=1),
        np.concatenate([D_C, every[1]], axis=2),
        D_D,
    ]


class _Energy(NamedTuple):
    """Y (K, n, n) with Y - A^T Y A >= I / 2, and its norms, infinite if it is not shown.

    So sum_t |A^t x|^2 <= 2 x^T Y x, and |A^t x| <= |x| sqrt(2 |Y|). By Young's inequality
    the gain of x+ = A x + w is at most 2 sqrt(|Y| (1 + 4 |Y|)).
    """

    matrix: NDArray[np.float64]
    most: NDArray[np.float64]

    @classmethod
    def of_powers(cls, A: NDArray[np.float64], error: NDArray[np.float64]) -> _Energy:
        """Take all matrices within ``error`` (K,) of A (K, n, n) in norm."""
        Y = _summed(A, np.broadcast_to(np.eye(A.shape[-1]), A.shape))
        never = np.full(len(A), math.inf)
        if not np.isfinite(Y).all():
            return cls(np.zeros_like(A), never)
        Y = (Y + _turned(Y)) / 2
        sizes = _norm(Y)
        largest = _norm(A) + error  # of A
        rounding = _unit(A) * sizes
        wrong = rounding * (1 + largest**2) + 2 * largest * sizes * error
        is_positive = np.linalg.eigvalsh(Y)[:, 0] > rounding
        falls = np.linalg.eigvalsh(Y - _turned(A) @ Y @ A)[:, 0]
        is_shown = is_positive & (falls - wrong > 0.5)
        return cls(Y, np.where(is_shown, sizes * (1 + ROUNDED), never))

    def of(self, states: NDArray[np.float64]) -> NDArray[np.float64]:
        """Bound x^T Y x (K,) for states (K, n, 1)."""
        values = (_turned(states) @ self.matrix @ states)[:, 0, 0]
        rounded = _unit(self.matrix) * self.most * _norm(states) ** 2
        return np.maximum(values, 0.0) + rounded

    @property
    def gain(self) -> NDArray[np.float64]:
        """Bound the gain (K,) from what enters the states to them."""
        return 2 * np.sqrt(self.most * (1 + 4 * self.most)) * (1 + ROUNDED)


def _unit(A: NDArray[np.float64]) -> float:
    """Return what the rounding of products of three matrices is in norm, relatively."""
    return (2 * A.shape[-1] + 8) * EPS


def _norm(matrices: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the Frobenius norms (K,)."""
    return np.linalg.norm(matrices, axis=(1, 2))


def _turned(matrices: NDArray[np.float64]) -> NDArray[np.float64]:
    return matrices.swapaxes(1, 2)


def _gramian(A: NDArray[np.float64], C: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return nearly the observability Gramians (K, n, n)."""
    energy = _turned(C) @ C
    rough = _symmetric(_summed(A, energy))
    left = energy + _turned(A) @ rough @ A - rough
    return _symmetric(rough + _summed(A, left))


def _symmetric(matrices: NDArray[np.float64]) -> NDArray[np.float64]:
    return (matrices + _turned(matrices)) / 2


def _summed(A: NDArray[np.float64], matrix: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return nearly the sums of A^T^t X A^t over all times."""
    total, power = matrix, A
    with np.errstate(over="ignore", invalid="ignore"):
        for _ in range(DOUBLINGS):
            added = _turned(power) @ total @ power
            total = total + added
            if not np.abs(added).max() > EPS * np.abs(total).max() / 4:
                break
            power = power @ power
    return total


def _largest_square(
    secret: SecretInputs, products: NDArray[np.float64], error: float
) -> float:
    """Bound the largest squared shift of a change, from r (k,) and its entries' error."""
    gram = scipy.linalg.toeplitz(products)
    squares = [_of_signal(moves, gram, error) for moves in secret.signals]
    squares += [_of_window(window, gram, error) for window in secret.windows]
    return max(squares)


def _of_signal(moves: SignalMoves, gram: NDArray[np.float64], error: float) -> float:
    largest = 0.0
    for shape in moves.shapes:
        for change in moves.beginnings(shape):
            k = len(change)
            wrong = error + 8 * k * EPS * float(np.abs(gram[0]).max())
            size = float(np.abs(change).sum()) ** 2
            largest = max(largest, float(change @ gram[:k, :k] @ change) + wrong * size)
    return float_above(largest * moves.radius**2, 8)


def _of_window(window: WindowMoves, gram: NDArray[np.float64], error: float) -> float:
    k = window.longest
    bound, _ = largest_pattern(gram[:k, :k], error)
    return float_above(bound * float(window.radii[0]) ** 2, 8)


def _beyond(
    whitening: Sequence[Sequence[tuple[NDArray[np.float64], NDArray[np.float64]]]],
    near: Ring,
) -> float:
    """Bound the contribution of the plant's distance from a ring to a shift."""
    A, B, C, _ = near.stacks
    states = float(_Energy.of_powers(A, np.zeros(len(A))).gain.max())
    gains = []
    for inverse in whitening:
        (A_i, of_A), *others = inverse
        own = _Energy.of_powers(A_i[None], np.array([np.linalg.norm(of_A)])).gain[0]
        b, c, d = (np.linalg.norm(value) + np.linalg.norm(e) for value, e in others)
        gains.append(float(d + b * c * own))
    entered, seen = (states * float(_norm(matrix).max()) for matrix in (B, C))
    gain = max(gains)
    return beyond_symmetry(near, states, entered, gain * seen, gain)
