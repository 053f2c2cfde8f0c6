"""The Mills ratio R(t) = (1 - Phi(t)) / phi(t) of the normal law, to a little more than double precision.

It comes as a sum of two floats, so that a difference of two ratios keeps its digits: Taylor series about 256 nodes,
whose leading coefficients are stored in two floats each. `scipy.special.erfcx` is good to ten units in the last place.
"""

import math
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import erfcx

from ._balls import Ball, working_bits

LEAST, LARGEST = -2.0, 253.0  # in between it is precise to 2^-55; beyond, as erfcx is

_OFFSET = 3.0  # nodes lie in the middle of 32 intervals in each octave of t + 3
_ORDER = 9  # of the series
_FIRST_INTERVAL = 1023 << 5  # exponent and first five bits of the mantissa of 1.0
_PRECISION = 200  # bits of the tables' own arithmetic


def mills_pair(t: NDArray) -> tuple[NDArray, NDArray]:
    """R(t) for an array t (N,) as (high, low): their exact sum is R(t), and low is less than a tenth of it.

    Examples
    --------
    >>> high, low = mills_pair(np.array([0.0, 1.0, 100.0]))
    >>> (high + low).round(12).tolist()
    [1.253314137316, 0.655679542419, 0.0099990003]
    """
    inside = (t >= LEAST) & (t < LARGEST)
    if not inside.all():
        high, low = _by_erfcx(t), np.zeros_like(t)
        high[inside], low[inside] = mills_pair(t[inside])
        return high, low
    interval = ((t + _OFFSET).view(np.int64) >> 47) - _FIRST_INTERVAL
    nodes, high, low, series = _tables()
    h = t - nodes[interval]
    rest = series[0][interval]
    for coefficient in series[1:]:
        rest = rest * h + coefficient[interval]
    return high[interval], rest * h + low[interval]


def mills_pair_number(t: float) -> tuple[float, float]:
    """`mills_pair` of one float.

    Examples
    --------
    >>> high, low = mills_pair_number(1.0)
    >>> round(high + low, 12)
    0.655679542419
    """
    if not LEAST <= t < LARGEST:
        return float(_by_erfcx(t)), 0.0
    mantissa, exponent = math.frexp(t + _OFFSET)
    node, high, low, series = _rows()[32 * (exponent - 2) + int(64 * mantissa)]
    h, rest = t - node, 0.0
    for coefficient in series:
        rest = rest * h + coefficient
    return high, rest * h + low


def _by_erfcx(t: Any) -> Any:
    return math.sqrt(math.pi / 2) * erfcx(t * math.sqrt(0.5))


@cache
def _tables() -> tuple[NDArray, NDArray, NDArray, list[NDArray]]:
    """Nodes, R there in two parts, and the coefficients of (R(t + h) - R(t)) / h from the highest power down."""
    octave, place = np.divmod(np.arange(8 * 32), 32)
    nodes = np.ldexp(1 + (place + 0.5) / 32, octave) - _OFFSET
    rows = [_row(t) for t in nodes.tolist()]
    high, low, *series = np.array(rows).T.copy()
    return nodes, high, low, series


def _row(t: float) -> list[float]:
    """High and low part of R at the node t, then the coefficients, to the last digit whatever other threads do."""
    while True:
        with working_bits(
            _PRECISION
        ):  # a precision that all threads share, so that another one may lower it
            terms = _taylor_terms(Ball(t))
            high = float(terms[0].mid())
            terms = [terms[0] - high, *terms[:0:-1]]
        if min(term.rel_accuracy_bits() for term in terms) >= 53:
            return [high, *(float(term.mid()) for term in terms)]


def _taylor_terms(t: Ball) -> list[Ball]:
    terms = [(Ball.pi() / 2).sqrt() * (t * t / 2).exp() * (t / Ball(2).sqrt()).erfc()]
    terms.append(t * terms[0] - 1)  # R' = t R - 1, and term by term:
    for k in range(2, _ORDER + 1):
        terms.append((t * terms[-1] + terms[-2]) / k)
    return terms


@cache
def _rows() -> list[tuple[float, float, float, list[float]]]:
    """The tables as one tuple of numbers per node: node, high, low, series."""
    nodes, high, low, series = _tables()
    return list(
        zip(nodes.tolist(), high.tolist(), low.tolist(), np.transpose(series).tolist())
    )
