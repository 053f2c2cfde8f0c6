"""Spectra of least cost for single moves, balls of moves, and changes of any shape.

For weights l_i >= 0 of single moves with sum one the cost is at least (mean tr K^(1/2))^2,
K = W^(1/2) (sum of l_i g_i g_i^*) W^(1/2), and S = W^(-1/2) K^(1/2) W^(-1/2) attains it if
the means of g_i^* S^-1 g_i are all alike. So the weights are scaled by these means until
they are, those of a ball as C^p Z C^p with its mean Gram matrix C.

A change of any shape lasts for some samples in a row. With g the response to an impulse of the radius and w the change's values, noise of spectrum S
leaves w^T R w, where R is the Toeplitz matrix of the means of g^* S^-1 g z^t. For a matrix
X >= 0 of weights of changes, and Q(z) = sum X[j, l] z^(l - j), the cost is at least

    (mean tr K^(1/2))^2,   K = W^(1/2) g Q g^* W^(1/2),

if X is a mean of w w^T over signs w. The largest value over all X of trace k is that of the
ball |w|^2 <= k around all changes, and S of it hides them. Where that leaves a gap, X is a
mean over some signs, and those that show most are added one after the other.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from ..noise._patterns import largest_signs
from ..numerics.errors import UncertifiableError
from ..numerics.progress import piece, search_round
from ..numerics.thresholds import MOST_ROUNDS, NEGLIGIBLE, ROUNDED

#: Updates of the weights of moves, and of some signs.
_OF_MOVES = 500
_OF_SIGNS = 40
#: Speed: signs that are added at once.
_ADDED = 6
#: Speed: signs drawn from the weights of the ball, for each value of a change.
_DRAWN = 2
#: Weight of a sign that is added.
_NEW = 1e-3
#: Exponent of updates. With one half they are slower.
_EXPONENT = 0.95
#: Share of the asked gap at which a search ends, with windows and without.
_SHARE = 0.3
_OPTIMAL = 0.02
#: Speed: within the asked gap a search ends after two rounds that gain less than this part.
_GAINED = 0.02


class Circle(Protocol):
    """Frequencies at which responses are known."""

    @property
    def points(self) -> NDArray[np.inexact]: ...

    @property
    def weights(self) -> NDArray[np.float64]: ...

    def mean(self, values: NDArray[np.inexact]) -> NDArray[np.float64]: ...


@dataclass(frozen=True, eq=False)
class WindowResponse:
    """Responses to impulses of the radius at some inputs, of which k in a row may come.

    Attributes
    ----------
    columns : ndarray, shape (N, r, q)
        At each frequency.
    powers : ndarray, shape (N, k)
        z^-t.
    """

    columns: NDArray[np.inexact]
    powers: NDArray[np.inexact]

    @property
    def size(self) -> int:
        """Number k q of values of a change."""
        return self.powers.shape[1] * self.columns.shape[2]

    def through(self, stack: NDArray[np.inexact]) -> WindowResponse:
        """Return the responses behind matrices (N, r, r)."""
        return replace(self, columns=stack @ self.columns)

    def kernel(self, weights: NDArray[np.float64]) -> NDArray[np.inexact]:
        """Return g Q g^* (N, r, r) of weights X (k q, k q) of changes."""
        count, inputs = self.powers.shape[1], self.columns.shape[2]
        blocks = weights.reshape(count, inputs, count, inputs)
        lags = np.subtract.outer(np.arange(count), np.arange(count))
        is_later = lags >= 0
        sums = np.zeros((count, inputs, inputs))  # of X[j, l] at l = j - t
        for first, second in np.ndindex(inputs, inputs):  # signals of j and of l
            of_pair = blocks[:, first, :, second][is_later]
            sums[:, first, second] = np.bincount(lags[is_later], of_pair, count)
        given = (self.powers @ sums.reshape(count, -1)).reshape(-1, inputs, inputs)
        series = _turned(given)
        Q = series + _adjoint(series) - sums[0].T
        return self.columns @ Q @ _adjoint(self.columns)

    def products(self, circle: Circle) -> NDArray[np.float64]:
        """Return R (k q, k q) of responses that are whitened already."""
        count, inputs = self.powers.shape[1], self.columns.shape[2]
        energy = _adjoint(self.columns) @ self.columns
        series = energy.reshape(len(energy), -1)
        weighted = circle.weights[:, None] * series.conj()
        values = (self.powers.T @ weighted).real.reshape(count, inputs, inputs)
        lag = np.subtract.outer(np.arange(count), np.arange(count))
        earlier = values[np.abs(lag)]
        blocks = np.where((lag >= 0)[:, :, None, None], earlier, _turned(earlier))
        matrix = blocks.swapaxes(1, 2).reshape(self.size, self.size)
        return (matrix + matrix.T) / 2


def _adjoint(stack: NDArray[np.inexact]) -> NDArray[np.inexact]:
    return stack.conj().swapaxes(-1, -2)


def _turned(stack: NDArray[np.inexact]) -> NDArray[np.inexact]:
    return stack.swapaxes(-1, -2)


class Windows(Protocol):
    """Responses to changes of any shape, each in a window of its own.

    ``sizes`` has the number of values of a change in each window. ``kernel`` and
    ``products`` have a matrix of that size for each.
    """

    @property
    def sizes(self) -> Sequence[int]: ...

    def through(self, stack: NDArray[np.inexact]) -> Windows: ...

    def kernel(self, weights: Sequence[NDArray[np.float64]]) -> NDArray[np.inexact]: ...

    def products(self, circle: Circle) -> list[NDArray[np.float64]]: ...


@dataclass(frozen=True, eq=False)
class WindowsOnCircle:
    """Windows without a horizon, one for the signals that may change together."""

    each: tuple[WindowResponse, ...] = ()

    @property
    def sizes(self) -> list[int]:
        """Number of values of a change in each window."""
        return [window.size for window in self.each]

    def through(self, stack: NDArray[np.inexact]) -> WindowsOnCircle:
        """Return the responses behind matrices (N, r, r)."""
        return WindowsOnCircle(tuple(window.through(stack) for window in self.each))

    def kernel(self, weights: Sequence[NDArray[np.float64]]) -> NDArray[np.inexact]:
        """Return the sum of all g Q g^* (N, r, r)."""
        pairs = zip(self.each, weights, strict=True)
        return np.sum([window.kernel(own) for window, own in pairs], axis=0)

    def products(self, circle: Circle) -> list[NDArray[np.float64]]:
        """Return R of each window, of responses that are whitened already."""
        return [window.products(circle) for window in self.each]


@dataclass(frozen=True, eq=False)
class WindowsOfRun:
    """Windows of a run, which share impulses where they overlap.

    Attributes
    ----------
    columns : ndarray, shape (1, m, N)
        Responses to all impulses.
    index : tuple of ndarray, shapes (k,)
        The impulses of each window.
    """

    columns: NDArray[np.inexact]
    index: tuple[NDArray[np.intp], ...]

    @property
    def sizes(self) -> list[int]:
        """Number of values of a change in each window."""
        return [len(own) for own in self.index]

    def through(self, stack: NDArray[np.inexact]) -> WindowsOfRun:
        """Return the responses behind a matrix (1, m, m)."""
        return replace(self, columns=stack @ self.columns)

    def kernel(self, weights: Sequence[NDArray[np.float64]]) -> NDArray[np.inexact]:
        """Return the sum of all G X G^T (1, m, m)."""
        size = self.columns.shape[2]
        together = np.zeros((size, size))
        for own, of_window in zip(self.index, weights, strict=True):
            together[own[:, None], own] += of_window
        return self.columns @ together @ _turned(self.columns)

    def products(self, circle: Circle) -> list[NDArray[np.float64]]:
        """Return R of each window, of responses that are whitened already."""
        (columns,) = self.columns
        together = columns.T @ columns
        return [together[own[:, None], own] for own in self.index]


class Run:
    """One run as a circle of one frequency, on which a response is all of its samples."""

    points = np.ones(1)
    weights = np.ones(1)

    def mean(self, values: NDArray[np.inexact]) -> NDArray[np.float64]:
        return values[0]


class Weighted(NamedTuple):
    """Weights of single moves (K,), and matrices of those of each window and each ball.

    Their sum is one, in which a window counts with its trace over its number of values, and
    a ball with its trace. Where the matrix of a window is a mean over signs, ``signs`` has
    them (S, k q) and ``shares`` their weights (S,).
    """

    singles: NDArray[np.float64]
    windows: tuple[NDArray[np.float64], ...] = ()
    balls: tuple[NDArray[np.float64], ...] = ()
    signs: tuple[NDArray[np.float64], ...] = ()
    shares: tuple[NDArray[np.float64], ...] = ()

    def scaled(self, total: float) -> Weighted:
        """Return all weights divided by a number."""
        return Weighted(
            self.singles / total,
            tuple(own / total for own in self.windows),
            tuple(own / total for own in self.balls),
        )

    @property
    def total(self) -> float:
        """The sum of all."""
        of_windows = sum(own.trace() / len(own) for own in self.windows)
        return float(self.singles.sum() + of_windows + self.of_balls)

    @property
    def of_balls(self) -> float:
        """The sum of the balls' weights."""
        return float(sum(own.trace() for own in self.balls))


@dataclass(frozen=True, eq=False)
class _Step:
    """A spectrum in prices of one, with the whitened changes."""

    roots: NDArray[np.inexact]  # K^(1/2) (N, r, r)
    cost: float  # mean of its trace, whose square is the bound of its weights
    squares: NDArray[np.float64]  # (K,) of single moves
    products: tuple[NDArray[np.float64], ...]  # R of each window
    forms: tuple[NDArray[np.float64], ...]  # the Gram matrix of each ball

    @property
    def fixed(self) -> float:
        """The largest square that is left of a single move, or of a ball."""
        largest = [np.linalg.eigvalsh(form)[-1] for form in self.forms]
        return float(max([*self.squares, *largest], default=0.0))


class _Shares(NamedTuple):
    """Weights of single moves, of all signs of the windows in turn, and of the balls."""

    singles: NDArray[np.float64]
    signs: NDArray[np.float64]
    balls: tuple[NDArray[np.float64], ...]

    def normalised(self) -> _Shares:
        """Return the same with a sum of one."""
        total = self.singles.sum() + self.signs.sum()
        total += sum(own.trace() for own in self.balls)
        balls = tuple(own / total for own in self.balls)
        return _Shares(self.singles / total, self.signs / total, balls)

    def weights(self, active: Sequence[NDArray[np.float64]]) -> Weighted:
        """Return the weights as matrices, from the signs (S, N) of each window."""
        ends = np.cumsum([len(signs) for signs in active])[:-1]
        shares = np.split(self.signs, ends)
        matrices = []
        for signs, own in zip(active, shares, strict=True):
            matrices.append((signs.T * own) @ signs)
        return Weighted(
            self.singles, tuple(matrices), self.balls, tuple(active), tuple(shares)
        )


class _Found(NamedTuple):
    """Result of a search over the weights of some signs."""

    shares: _Shares  # that prove most
    bounding: _Step  # the spectrum that is the best for them
    cheapest: _Step  # the one that hides these signs at the least cost
    mean: _Step  # of all spectra, which leaves less where each leaves other signs


class BestSpectrum(NamedTuple):
    """The cheapest spectrum found for a privacy shift of one."""

    spectrum: NDArray[np.inexact]  # S (N, r, r), which hides every move with that shift
    lower_bound: float  # of the cost of any spectrum that hides the moves
    weights: Weighted  # which prove the bound


@dataclass(frozen=True, eq=False)
class SpectrumProblem:
    """Single moves, windows and balls that a spectrum must hide with a shift of one.

    The responses are in units in which all noise costs the same.
    """

    circle: Circle
    columns: NDArray[np.inexact]  # (N, r, K)
    windows: Windows
    balls: tuple[NDArray[np.inexact], ...] = ()  # axes (N, r, q)

    def solve(
        self,
        gap: float,
        lowered: NDArray[np.inexact],
        enough: float = np.inf,
        start: NDArray[np.float64] | None = None,
    ) -> BestSpectrum:
        """Return a spectrum within about a relative gap of the cheapest one.

        Its bound is that at prices ``lowered`` (N, r, r). The search ends as well at a
        bound of ``enough``. It begins with weights ``start`` (K,) of single moves, by
        default with all moves alike.
        """
        tol = (_SHARE if self.windows.sizes else _OPTIMAL) * gap
        ball, weights, bounding = self._of_balls(tol, start)
        worst, signs = self._worst(ball)
        best = ball.roots * worst
        if not self.windows.sizes:
            return self._bounded(best, bounding, lowered)
        least = ball.cost * worst
        active = self._drawn(weights, ball, signs)
        own = 1 - weights.singles.sum() - weights.of_balls
        count = sum(map(len, active))
        known = _Shares(weights.singles, np.full(count, own / count), weights.balls)
        bound = 0.0
        lefts = [np.inf, np.inf]
        for update in range(MOST_ROUNDS):
            with piece(update, MOST_ROUNDS):
                found = self._of_signs(known, active, tol / 4)
            known = found.shares
            if found.bounding.cost**2 > bound:
                bound = found.bounding.cost**2
                bounding = known.weights(active)
            every: list[list[NDArray[np.float64]]] = []
            for step in (found.bounding, found.cheapest, found.mean):
                worst, signs = self._worst(step, active)
                every.append(signs)
                if step.cost * worst < least:
                    least = step.cost * worst
                    best = step.roots * worst
            left = least / bound - 1
            if left <= tol or bound >= enough:
                break
            lefts.append(left)
            gained = lefts[-3] - left
            if left <= gap and gained < _GAINED * gap:
                break
            more = [np.vstack(signs) for signs in zip(*every, strict=True)]
            active, shares = _with_more(active, known.signs, more)
            known = known._replace(signs=shares).normalised()
        return self._bounded(best, bounding, lowered)

    def _bounded(
        self, best: NDArray[np.inexact], weights: Weighted, lowered: NDArray[np.inexact]
    ) -> BestSpectrum:
        """Return a spectrum with the bound that weights prove at lowered prices."""
        kernel = lowered @ self._kernel(weights) @ _adjoint(lowered)
        values = np.linalg.eigvalsh(kernel)
        roots = np.sqrt(np.maximum(values, 0.0))
        bound = float(self.circle.mean(roots.sum(axis=1))) ** 2
        return BestSpectrum(best, bound, weights)

    def _kernel(self, weights: Weighted) -> NDArray[np.inexact]:
        kernel = (self.columns * weights.singles) @ _adjoint(self.columns)
        if weights.windows:
            kernel = kernel + self.windows.kernel(weights.windows)
        for ball, own in zip(self.balls, weights.balls, strict=True):
            kernel = kernel + ball @ own @ _adjoint(ball)
        return kernel

    def _step(self, weights: Weighted) -> _Step:
        """Return the spectrum that is the best for some weights."""
        if self._energies is not None:
            return self._scalar_step(self._energies, weights.singles)
        values, vectors = np.linalg.eigh(self._kernel(weights))
        return self._left_by(np.sqrt(np.maximum(values, 0.0)), vectors)

    def _left_by(
        self, sizes: NDArray[np.float64], vectors: NDArray[np.inexact]
    ) -> _Step:
        """Return what a spectrum of eigenvalues (N, r) and vectors (N, r, r) leaves."""
        cost = float(self.circle.mean(sizes.sum(axis=1)))
        sizes = np.maximum(sizes, NEGLIGIBLE * sizes.max())
        roots = (vectors * sizes[:, None, :]) @ _adjoint(vectors)
        whitening = _adjoint(vectors / np.sqrt(sizes)[:, None, :])
        left = whitening @ self.columns
        squares = self.circle.mean(np.sum(np.abs(left) ** 2, axis=1))
        products = self.windows.through(whitening).products(self.circle)
        forms = []
        for ball in self.balls:
            axes = whitening @ ball
            forms.append(self.circle.mean(_adjoint(axes) @ axes).real)
        return _Step(roots, cost, squares, tuple(products), tuple(forms))

    def _of_roots(self, roots: NDArray[np.inexact]) -> _Step:
        """Return what a spectrum (N, r, r) leaves, scaled to a cost of one."""
        cost = self.circle.mean(np.trace(roots, axis1=1, axis2=2))
        return self._left_by(*np.linalg.eigh(roots / cost))

    @cached_property
    def _energies(self) -> NDArray[np.float64] | None:
        """Squared responses (N, K) of one output to single moves, None if there are others."""
        if self.columns.shape[1] > 1 or self.windows.sizes or self.balls:
            return None
        return np.abs(self.columns[:, 0, :]) ** 2

    def _scalar_step(
        self, energies: NDArray[np.float64], singles: NDArray[np.float64]
    ) -> _Step:
        """Return `_step` of single moves and one output."""
        roots = np.sqrt(energies @ singles)
        cost = float(self.circle.weights @ roots)
        roots = np.maximum(roots, NEGLIGIBLE * roots.max())
        squares = (self.circle.weights / roots) @ energies
        return _Step(roots[:, None, None], cost, squares, (), ())

    def _of_balls(
        self, tol: float, start: NDArray[np.float64] | None
    ) -> tuple[_Step, Weighted, Weighted]:
        """Return the cheapest spectrum for the balls around the windows, and its weights.

        The weights that prove most come third.
        """
        parts = self.columns.shape[2] + len(self.windows.sizes) + len(self.balls)
        even = [np.eye(ball.shape[2]) / ball.shape[2] / parts for ball in self.balls]
        weights = Weighted(
            np.full(self.columns.shape[2], 1 / parts),
            tuple(np.eye(size) / parts for size in self.windows.sizes),
            tuple(even),
        )
        if start is not None:
            weights = weights._replace(singles=start)
        bound = 0.0
        least = np.inf
        best: tuple[_Step, Weighted] | None = None
        updates = MOST_ROUNDS if self.windows.sizes else _OF_MOVES
        for update in range(updates):
            with search_round(update):
                step = self._step(weights)
            if step.cost >= bound:
                bound = step.cost
                bounding = weights
            sizes = [np.linalg.eigvalsh(R)[-1] * len(R) for R in step.products]
            worst = float(max([step.fixed, *sizes]))
            if step.cost * worst < least:
                least = step.cost * worst
                best = step, weights
            if least <= bound**2 * (1 + tol):
                break
            matrices = []
            for own, R in zip(weights.windows, step.products, strict=True):
                turn = _power(R * (len(R) / worst), _EXPONENT)
                matrices.append(turn @ own @ turn)
            weights = Weighted(
                weights.singles * (step.squares / worst) ** (2 * _EXPONENT),
                tuple(matrices),
                _turned_weights(weights.balls, step.forms, worst),
            )
            weights = weights.scaled(weights.total)
        if best is None:
            raise UncertifiableError(
                "weight, adjacency: their sizes leave double precision together; state them "
                "in units in which they are nearer to one"
            )
        return *best, bounding

    def _of_signs(
        self, known: _Shares, active: Sequence[NDArray[np.float64]], tol: float
    ) -> _Found:
        """Return the weights of some signs that prove most, and the spectra found."""
        bound = 0.0
        least = np.inf
        together: NDArray[np.inexact] = np.zeros(1)
        for _ in range(_OF_SIGNS):
            step = self._step(known.weights(active))
            together = together + step.roots
            if step.cost >= bound:
                bound = step.cost
                shares, bounding = known, step
            squares = []
            for signs, R in zip(active, step.products, strict=True):
                squares.append(np.einsum("ij,ij->i", signs @ R, signs))
            every = np.concatenate(squares)
            worst = max(float(every.max()), step.fixed)
            if step.cost * worst < least:
                least = step.cost * worst
                cheapest = step
            if least <= bound**2 * (1 + tol):
                break
            known = _Shares(
                known.singles * (step.squares / worst) ** (2 * _EXPONENT),
                known.signs * (every / worst) ** (2 * _EXPONENT),
                _turned_weights(known.balls, step.forms, worst),
            ).normalised()
        return _Found(shares, bounding, cheapest, self._of_roots(together))

    def _worst(
        self, step: _Step, active: Sequence[NDArray[np.float64]] = ()
    ) -> tuple[float, list[NDArray[np.float64]]]:
        """Return the largest square that is left, and signs of each window that show most."""
        worst = step.fixed
        found = []
        for k, R in enumerate(step.products):
            starts = active[k] if active else np.ones((1, len(R)))
            values, signs = largest_signs(R, starts)
            worst = max(worst, float(values[0]))
            found.append(signs[values > 0][:_ADDED])
        return worst, found

    def _drawn(
        self, weights: Weighted, step: _Step, signs: Sequence[NDArray[np.float64]]
    ) -> list[NDArray[np.float64]]:
        """Return signs of each window, those that show most and some of the ball's weights."""
        rng = np.random.default_rng(0)  # the same for every design
        active = []
        for own, R, first in zip(weights.windows, step.products, signs, strict=True):
            count = len(R)
            root = _power(own, 0.5)
            drawn = np.sign(rng.normal(size=(_DRAWN * count, count)) @ root)
            drawn[drawn == 0] = 1.0
            active.append(_distinct(np.vstack([first, np.ones((1, count)), drawn])))
        return active


def _turned_weights(
    balls: Sequence[NDArray[np.float64]],
    forms: Sequence[NDArray[np.float64]],
    worst: float,
) -> tuple[NDArray[np.float64], ...]:
    """Return the weights of balls, larger in the directions in which more is left."""
    found = []
    for own, form in zip(balls, forms, strict=True):
        turn = _power(form / worst, _EXPONENT)
        found.append(turn @ own @ turn)
    return tuple(found)


def _power(matrix: NDArray[np.inexact], exponent: float) -> NDArray[np.inexact]:
    """Return a power of a symmetric matrix without negative eigenvalues."""
    values, vectors = np.linalg.eigh((matrix + matrix.T) / 2)
    return (vectors * np.maximum(values, 0.0) ** exponent) @ vectors.T


def _distinct(signs: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return different rows of signs, each with one first."""
    return np.unique(signs * signs[:, :1], axis=0)


def _with_more(
    active: Sequence[NDArray[np.float64]],
    shares: NDArray[np.float64],
    signs: Sequence[NDArray[np.float64]],
) -> tuple[list[NDArray[np.float64]], NDArray[np.float64]]:
    """Return signs with weights that are not small, and more of them."""
    ends = np.cumsum([len(one) for one in active])[:-1]
    found = []
    weights = []
    for known, own, more in zip(active, np.split(shares, ends), signs, strict=False):
        kept = own > ROUNDED * shares.max()
        rows = {row.tobytes() for row in known[kept]}
        added = [row for row in _distinct(more) if row.tobytes() not in rows]
        found.append(np.vstack([known[kept], *added]))
        weights += [own[kept], np.full(len(added), _NEW)]
    together = np.concatenate(weights)
    return found, together
