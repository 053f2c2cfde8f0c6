"""Privacy loss of product Laplace mechanisms, with or without an independent Gaussian release beside them.

A move is given by its Laplace shifts a_j = |shift_j| / scale_j and its Gaussian part y; a guarantee takes the worst of
all moves *at each epsilon*, because the move with the largest sum of shifts need not be the worst elsewhere. Every
number is exact up to directed rounding, or a bound on the private side. The pair (P, Q) of one move may be exchanged
throughout: reflecting each coordinate about the middle of its shift exchanges P with Q, so that log(P/Q) under P and
log(Q/P) under Q have the same law, for Laplace and for Gaussian coordinates.
"""

import math

import numpy as np
from flint import arb
from scipy.optimize import brentq
from scipy.special import erfinv, ndtri_exp

from .._linalg import EPS, positive_integer, positive_number, real_array, round_up
from ..calibration import kappa_upper
from ..errors import UncertifiableError
from .laplace_profile import ends, profile, sharp


def delta_bounds(epsilon, shifts, gaussian=0.0):
    """Certified bounds on the smallest delta for which every move is (epsilon, delta)-indistinguishable.

    ``delta(eps) = max over moves of E_P (1 - exp(eps - L))_+`` with L the sum of the independent losses. Up to
    thousands of corners sum +-a_j the bounds agree to round-off; beyond, they come from a convolution and differ by
    about 1e-4 of delta, or more when delta is tiny.

    Parameters
    ----------
    epsilon : float
        Privacy loss, >= 0.
    shifts : (r,) or (J, r) array
        Shifts over scales of one move or of J moves, >= 0.
    gaussian : float or (J,) array
        Sensitivity over standard deviation of an independent Gaussian release, per move, >= 0.

    Returns
    -------
    lower, upper : float

    Raises
    ------
    ValueError
        If a size is negative or not finite, or the lengths disagree.

    Examples
    --------
    >>> lower, upper = delta_bounds(0.0, [[1.0, 0.0], [0.51, 0.51]])
    >>> round(upper, 4), upper - lower < 1e-15
    (0.3935, True)

    References
    ----------
    DPAM, Theorem 2 is the case delta = 0. The profile of one coordinate: Balle, Barthe and Gaboardi (2018).
    """
    epsilon = positive_number(epsilon, "epsilon", zero=True)
    shifts, gaussian = _moves(shifts, gaussian)
    ceilings = _ceilings(epsilon, shifts, gaussian)
    lower = upper = 0.0
    for j in np.argsort(-ceilings, kind="stable"):
        if ceilings[j] <= lower:
            break
        low, high = _profile(epsilon, shifts[j], gaussian[j])
        lower, upper = max(lower, low), max(upper, min(high, float(ceilings[j])))
    return lower, upper


def epsilon_upper(delta, shifts, gaussian=0.0):
    """The smallest epsilon at which the certified delta of every move is at most `delta`.

    Parameters
    ----------
    delta : float
        In [0, 1); zero asks for the pure guarantee, the largest sum of shifts (infinite beside a Gaussian part).
    shifts, gaussian
        As in `delta_bounds`.

    Returns
    -------
    float
        An epsilon whose upper bound on delta, as computed by `delta_bounds`, is at most `delta`.

    Raises
    ------
    ValueError
        If `delta` is not in [0, 1), or as `delta_bounds`.

    Examples
    --------
    >>> epsilon_upper(0.0, [0.25, 0.5]) >= 0.75, round(epsilon_upper(0.1, [0.25, 0.5]), 4)
    (True, 0.3475)

    References
    ----------
    DPAM, Theorem 2, eq. (10), for ``delta = 0``.
    """
    delta = positive_number(delta, "delta", zero=True)
    if delta >= 1:
        raise ValueError(f"delta: expected a probability in [0, 1), got {delta}")
    shifts, gaussian = _moves(shifts, gaussian)
    if delta == 0:
        return (
            math.inf if (gaussian > 0).any() else float(_pure(shifts).max(initial=0.0))
        )
    epsilon, left = 0.0, np.arange(len(shifts))
    while left.size:
        ceilings = _ceilings(epsilon, shifts[left], gaussian[left])
        left = left[
            np.argsort(-ceilings, kind="stable")[: np.count_nonzero(ceilings > delta)]
        ]
        over = next(
            (
                i
                for i, j in enumerate(left)
                if _upper(epsilon, shifts[j], gaussian[j]) > delta
            ),
            None,
        )
        if over is None:
            break
        epsilon = _solve(delta, shifts[left[over]], gaussian[left[over]], epsilon)
        left = left[over + 1 :]
    return epsilon


def rdp(alpha, shifts, gaussian=0.0):
    """Renyi divergence of order alpha, the largest over the moves, rounded up.

    One coordinate: ``log(alpha e^((alpha-1) a) + (alpha-1) e^(-alpha a)) - log(2 alpha - 1)``, over ``alpha - 1``,
    with the limits a - 2 log(1 + a/2) at 1/2, a + e^-a - 1 at 1 and a at infinity. Coordinates add, and a Gaussian
    part adds ``alpha y^2 / 2``.

    Parameters
    ----------
    alpha : float
        Order, > 0; infinity is allowed.
    shifts, gaussian
        As in `delta_bounds`.

    Returns
    -------
    float

    Raises
    ------
    ValueError
        If `alpha` is not positive, or as `delta_bounds`.

    Examples
    --------
    >>> round(rdp(2.0, [1.0]), 6), round(rdp(math.inf, [[1.0, 0.5], [0.1, 0.2]]), 6)
    (0.619124, 1.5)

    References
    ----------
    Mironov, Renyi differential privacy (2017), Corollary 2 and Proposition 6.
    """
    if alpha != math.inf:
        alpha = positive_number(alpha, "alpha")
    shifts, gaussian = _moves(shifts, gaussian)
    if alpha == math.inf:
        return (
            math.inf if (gaussian > 0).any() else float(_pure(shifts).max(initial=0.0))
        )
    return _worst_sum(lambda a: _renyi(arb(alpha), a), shifts, alpha * gaussian**2 / 2)


def zcdp_upper(shifts, gaussian=0.0):
    """The smallest rho for which every move is rho-zCDP, rounded up: ``sum (a + e^-a - 1) + y^2 / 2``.

    This is the limit of `rdp` at alpha = 1, and it bounds ``rdp(alpha)/alpha`` for all alpha > 1. With
    t = alpha - 1/2, (alpha-1) rdp = log M(t) - a/2 for M(t) = cosh(a t) + sinh(a t)/(2 t), an entire function of t^2 of
    order 1/2 whose zeros are -w^2, tan(a w) = -2 w: the eigenvalues, all negative, of x'' = -w^2 x, x(0) = 0,
    x(a) + 2 x'(a) = 0 with their sign reversed. Hence log M = const + sum log(1 + t^2/w^2) is concave in t^2, below its
    tangent at t^2 = 1/4, and t^2 - 1/4 = alpha (alpha - 1). For small shifts rho is below a^2/2 by a^3/6.

    Parameters
    ----------
    shifts, gaussian
        As in `delta_bounds`.

    Returns
    -------
    float

    Examples
    --------
    >>> round(zcdp_upper([1.0]), 6), round(zcdp_upper([0.0], 1.0), 6)
    (0.367879, 0.5)

    References
    ----------
    Bun and Steinke (2016) define zCDP; DPAM names it as future work.
    """
    shifts, gaussian = _moves(shifts, gaussian)
    return _worst_sum(lambda a: a + (-a).exp() - 1, shifts, gaussian**2 / 2)


def gdp_upper(shifts, gaussian=0.0):
    """A mu for which every move is mu-GDP, rounded up: the root of ``sum mu(a_j)^2 + y^2``.

    One Laplace coordinate is exactly mu(a)-GDP for ``mu(a) = 2 Phi^-1(1 - e^(-a/2)/2)``, the value that epsilon = 0
    demands. It suffices: the trade-off function of the shift is e^-a/(4 alpha) between two straight ends. In logarithms
    the middle is a line of slope -1 that touches the *concave* Gaussian curve at its fixed point; the ends are chords
    from that line to (0, 1) and (1, 0), above the convex Gaussian curve. Several coordinates compose.

    Parameters
    ----------
    shifts, gaussian
        As in `delta_bounds`.

    Returns
    -------
    float
        Exact for one coordinate, or for a Gaussian part alone.

    Examples
    --------
    >>> round(gdp_upper([1.0]), 6), round(gdp_upper([1.0, 0.0], 1.0), 6)
    (1.030064, 1.435629)

    References
    ----------
    Dong, Roth and Su, Gaussian differential privacy (2022), Theorem 3.2 for the composition.
    """
    shifts, gaussian = _moves(shifts, gaussian)
    return float(
        math.sqrt(_worst_sum(_laplace_gdp, shifts, gaussian**2)) * (1 + 2 * EPS)
    )


def pareto_moves(shifts, gaussian=0.0, *, limit=512):
    """The moves that can be worst for some measure of privacy: those that no other move dominates.

    A move dominates another whose sorted shifts and Gaussian part are all at most its own: per coordinate the smaller
    pair has the smaller curve delta(epsilon), hence is a post-processing of the larger one (Blackwell), coordinates are
    independent, and their order does not matter because all scales are one.

    Parameters
    ----------
    shifts, gaussian
        As in `delta_bounds`.
    limit : int
        Largest number of moves to return. When more remain, every size is rounded *up* to the finest binary grid on
        which few enough remain, and `exact` is False.

    Returns
    -------
    shifts : (K, r') array
        Rows sorted downwards, the largest sum first; columns of zeros are dropped.
    gaussian : (K,) array
    exact : bool
        Whether the returned moves are among the given ones (up to the order of coordinates).

    Raises
    ------
    ValueError
        If `limit` is less than one, or as `delta_bounds`.

    Examples
    --------
    >>> kept, _, exact = pareto_moves([[0.2, 0.5], [0.5, 0.1], [0.0, 0.6]])
    >>> kept.tolist(), exact
    ([[0.5, 0.2], [0.6, 0.0]], True)
    """
    limit = positive_integer(limit, "limit")
    shifts, gaussian = _moves(shifts, gaussian)
    rows = np.column_stack([-np.sort(-shifts, axis=1), gaussian])
    kept = _maximal(rows, limit)
    exact = kept is not None
    top = 2.0 ** math.ceil(math.log2(rows.max())) if rows.max(initial=0.0) > 0 else 1.0
    for bits in range(16, -1, -1):
        if kept is None:
            unit = top * 2.0**-bits
            kept = _maximal(np.ceil(rows / unit) * unit, limit)
    if kept is None:
        kept = rows.max(axis=0)[None]
    used = np.flatnonzero(kept[:, :-1].any(axis=0))
    return kept[:, used], kept[:, -1], exact


def _moves(shifts, gaussian):
    shifts = real_array(shifts, "shifts")
    if shifts.ndim == 1:
        shifts = shifts[None]
    if shifts.ndim != 2:
        raise ValueError(
            f"shifts: expected shape (r,) or (moves, r), got {shifts.shape}"
        )
    gaussian = real_array(gaussian, "gaussian")
    if gaussian.ndim and gaussian.shape != shifts.shape[:1]:
        raise ValueError(
            f"gaussian: expected a number or shape {shifts.shape[:1]}, got {gaussian.shape}"
        )
    if (shifts < 0).any() or (gaussian < 0).any():
        raise ValueError(
            "shifts and gaussian: expected sizes >= 0, got a negative entry; pass absolute values"
        )
    return shifts, np.broadcast_to(gaussian, shifts.shape[:1])


def _profile(epsilon, shifts, y):
    shifts = shifts[shifts > 0]
    return profile(epsilon, shifts, float(y)) if y > 0 or shifts.size else (0.0, 0.0)


def _pure(shifts):
    """Sums of the rows, rounded up."""
    sums = np.array([math.fsum(row) for row in shifts])
    return np.where(sums > 0, round_up(sums), 0.0)


def _ceilings(epsilon, shifts, gaussian):
    """Cheap upper bounds on delta, one per move: from the GDP bound, and randomised response for a pure loss."""
    with np.errstate(divide="ignore"):
        mu = np.where(
            shifts < 1,
            erfinv(-np.expm1(-shifts / 2)) * math.sqrt(8),
            -2 * ndtri_exp(-shifts / 2 - math.log(2)),
        )
    mu = np.where(
        shifts > 0, np.maximum(mu, 1e-150), 0.0
    )  # whose squares do not underflow
    bound = kappa_upper(
        epsilon, np.hypot(np.linalg.norm(mu, axis=1), gaussian) * (1 + 1e-9)
    )
    sums = _pure(shifts)
    response = (
        -np.expm1(np.minimum(epsilon - sums, 0)) / (1 + np.exp(-sums)) * (1 + 8 * EPS)
    )
    return np.minimum(np.where(gaussian > 0, bound, np.minimum(bound, response)), 1.0)


def _upper(epsilon, shifts, y):
    return min(_profile(epsilon, shifts, y)[1], _ceilings(epsilon, shifts[None], y)[0])


def _solve(delta, shifts, y, low):
    """The smallest certified epsilon of one move above `low`, at which its delta is still too large."""
    high = low + 1.0
    while _ceilings(high, shifts[None], y)[0] > delta:
        high = 2 * high
    for _ in range(10):
        middle = (low + high) / 2
        high = middle if _ceilings(middle, shifts[None], y)[0] <= delta else high
        if high > middle:
            break

    def excess(epsilon):
        return math.log(max(_upper(epsilon, shifts, y), 1e-320) / delta)

    step = high * (
        4 * EPS if len(shifts) <= 16 else 1e-7
    )  # a convolution is not worth more digits
    epsilon = brentq(excess, low, high, xtol=step, rtol=4 * EPS)
    while _upper(epsilon, shifts, y) > delta:
        epsilon, step = min(epsilon + step, high), 2 * step
    return float(epsilon)


def _renyi(alpha, a):
    """Closed form of the Renyi divergence of one shift, without the removable singularities at 1 and 1/2."""
    if alpha == 1:
        return a + (-a).exp() - 1
    t = abs(alpha - arb(0.5))
    decay = (-2 * a * t).exp()
    ramp = a / 2 if t == 0 else (1 - decay) / (4 * t)
    return (a * (t - arb(0.5)) + ((1 + decay) / 2 + ramp).log()) / (alpha - 1)


def _laplace_gdp(a):
    """Square of the exact mu of one shift: erfc(mu / sqrt 8) = e^(-a/2)."""
    return 8 * (-a / 2).exp().erfcinv() ** 2


def _worst_sum(function, shifts, extra):
    """max over moves of sum_j function(a_j) + extra, rounded up; `function` maps balls to balls, 0 to 0."""
    sizes, places = np.unique(shifts, return_inverse=True)
    values = np.array(
        [ends(sharp(lambda a=a: function(arb(a))))[1] if a else 0.0 for a in sizes]
    )
    if not np.isfinite(values).all():
        raise UncertifiableError(
            f"shifts up to {sizes[-1]:.3g}: expected sizes that floats can carry; use more noise"
        )
    sums = values[places.reshape(shifts.shape)].sum(axis=1) + extra
    worst = sums.max(initial=0.0)
    return float(worst * (1 + (shifts.shape[1] + 6) * EPS)) if worst else 0.0


def _maximal(rows, limit):
    """The rows that no other row dominates entrywise, largest sum first; None if there are more than `limit`."""
    rows = np.unique(rows, axis=0)
    rows = rows[np.argsort(-rows.sum(axis=1), kind="stable")]
    kept = []
    while len(rows):
        if len(kept) == limit:
            return None
        kept.append(rows[0])
        rows = rows[(rows > rows[0]).any(axis=1)]
    return np.array(kept)
