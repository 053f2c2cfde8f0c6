"""The independent numbers of Laplace noise that cost a loop least.

A loop often reads one direction of a secret only. Noise of one radial law hides all of them
with one length, and pays for the number of directions. Laplace noise in a basis is
independent blocks of one number each: with

    eta = L c,    max_i |L c_i|_1 <= 1,

for moves U c_i, the variance of the noise is 2 U (L'L)^-1 U' / epsilon^2. Rows of L that the
loop does not read may be small, and then cost next to nothing. The rows are searched for, by
descent from several starts, as `privcontrol.core.noise` does for a fixed weight. Nothing is
claimed of the cost: the problem is not convex.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize

from ..core.noise import enclosing_cross_polytope

#: Smoothing of the 1-norms and weights of the barrier, one after the other, relative to the
#: largest norm and to the value.
_SMOOTHINGS = (0.3, 0.1, 0.03, 0.01, 0.003, 0.001, 0.0003)
_BARRIERS = (0.1, 0.03, 0.01, 0.003, 0.001, 0.0003, 0.0001)
#: Random turns of the Gaussian optimum that are tried, in addition to fixed ones.
_TURNS = 4
#: Part of the way from the least information, at which a start begins.
_INSIDE = 0.05
#: Moves at most that a descent looks at, those of the largest norms.
_NEAR = 400
_STEPS = 200

#: From X = L'L to the cost, and to minus its gradient.
Priced = Callable[[NDArray], tuple[float, NDArray]]


def cheapest_rows(
    priced: Priced, moves: NDArray, shape: NDArray, least: float
) -> NDArray:
    """Return L (r, r) with |L c_i|_1 <= 1 for all moves (r, M) and L'L >= least I.

    ``shape`` (r, r) is the Gaussian optimum X, with c_i' X c_i <= 1.
    """
    best, cheapest = np.zeros_like(shape), math.inf
    with np.errstate(all="ignore"):
        for start in _starts(moves, shape, least):
            found = _normed(_descended(start, priced, moves, least), moves)
            if not np.linalg.eigvalsh(found.T @ found)[0] >= least:
                continue
            cost, _ = priced(found.T @ found)
            if cost < cheapest:
                best, cheapest = found, cost
    return best


def _normed(rows: NDArray, moves: NDArray) -> NDArray:
    """Return rows whose largest 1-norm of a move is one."""
    return rows / np.abs(rows @ moves).sum(axis=0).max()


def _starts(moves: NDArray, shape: NDArray, least: float) -> Iterator[NDArray]:
    """Yield rows to start from, far enough above the least information."""
    count = len(shape)
    values, vectors = np.linalg.eigh(shape)
    root = np.sqrt(np.maximum(values, 0.0))[:, None] * vectors.T
    rng = np.random.default_rng(0)
    turns = [np.eye(count), vectors]
    for _ in range(_TURNS):
        turns.append(np.linalg.qr(rng.standard_normal((count, count)))[0])
    inverse = np.linalg.inv(enclosing_cross_polytope(moves, np.eye(count)).factor)
    for rows in (*(turn @ root for turn in turns), inverse):
        left, sizes, right = np.linalg.svd(_normed(rows, moves))
        smallest = math.sqrt(least) + _INSIDE * (sizes[0] - math.sqrt(least))
        # what makes small rows larger makes the norm larger too
        for _ in range(20):
            rows = _normed(left * np.maximum(sizes, smallest) @ right, moves)
            left, sizes, right = np.linalg.svd(rows)
            if sizes[-1] ** 2 > least * (1 + 1e-3):
                yield rows
                break


def _descended(rows: NDArray, priced: Priced, moves: NDArray, least: float) -> NDArray:
    """Return rows of less cost, by descent with less and less smoothing."""
    unit, _ = priced(rows.T @ rows)
    for smoothing, barrier in zip(_SMOOTHINGS, _BARRIERS, strict=True):
        rows = _normed(rows, moves)
        norms = np.abs(rows @ moves).sum(axis=0)
        near = moves[:, np.argsort(-norms, kind="stable")[:_NEAR]]
        found = minimize(
            _objective,
            rows.ravel(),
            (priced, near, least, smoothing, barrier, unit),
            jac=True,
            options={"maxiter": _STEPS},
        )
        if math.isfinite(found.fun):
            rows = found.x.reshape(rows.shape)
    return rows


def _objective(
    entries: NDArray,
    priced: Priced,
    moves: NDArray,
    least: float,
    smoothing: float,
    barrier: float,
    unit: float,
) -> tuple[float, NDArray]:
    """Return the cost in a ``unit`` with its barrier, and the gradient in L."""
    rows = entries.reshape(-1, len(moves))
    size, turned = _smooth_norm(rows, moves, smoothing)
    X = rows.T @ rows / size**2
    inside = X - least * np.eye(len(X))
    values = np.linalg.eigvalsh(inside)
    if not values[0] > 0:
        return math.inf, np.zeros(entries.size)
    cost, steep = priced(X)
    total = cost / unit - barrier * float(np.log(values).sum())
    steep = steep / unit + barrier * np.linalg.inv(inside)
    slope = -2 * rows @ steep / size**2
    slope += 2 * float(np.sum(steep * X)) / size * turned
    return total, slope.ravel()


def _smooth_norm(
    rows: NDArray, moves: NDArray, smoothing: float
) -> tuple[float, NDArray]:
    """Return a smooth size above the largest 1-norm of L c_i, and its gradient in L."""
    images = rows @ moves
    smooth = np.hypot(images, smoothing / len(rows))
    norms = smooth.sum(axis=0)
    shares = np.exp((norms - norms.max()) / smoothing)
    total = float(shares.sum())
    top = float(norms.max()) + smoothing * math.log(total)
    return top, (images / smooth * (shares / total)) @ moves.T
