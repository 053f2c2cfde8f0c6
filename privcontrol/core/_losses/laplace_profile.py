"""The curve delta(epsilon) of one product mechanism: independent Laplace shifts and one Gaussian part.

Two routes that certify their own error: a finite sum in ball arithmetic, sharp to the last digits, and for many
unequal shifts a convolution on a grid, bounded from both sides. Neither takes a maximum over moves.
"""

import math
from collections import Counter
from functools import lru_cache

import numpy as np
from flint import arb, arb_poly, fmpq, fmpq_poly, fmpz_poly
from scipy.fft import irfft, next_fast_len, rfft

from .._balls import working_bits
from .._linalg import EPS
from ..calibration import kappa

#: Corners times coordinates that the finite sum may take: about 50 ms of ball arithmetic.
FINITE_SUM_LIMIT = 40_000
#: Grid sizes tried in turn until the two bounds agree to the tolerance.
GRID_SIZES = (2**13, 2**15, 2**17, 2**19, 2**21)


def sharp(function, bits=52):
    """`function()`, a ball, at a precision at which it carries `bits` correct bits or vanishes among the floats."""
    for precision in (128, 320, 800, 2000, 5000, 12000):
        with working_bits(precision):
            value = function()
        if value.rel_accuracy_bits() >= bits or float(value.abs_upper()) == 0:
            break
    return value


def ends(ball):
    """Floats below and above everything in the ball."""
    return math.nextafter(float(ball.lower()), -math.inf), math.nextafter(
        float(ball.upper()), math.inf
    )


def profile(epsilon, shifts, gaussian, tol=1e-4):
    """Certified (lower, upper) on delta at `epsilon` for positive shifts (r,) and a Gaussian part of this y."""
    corners = _corners(epsilon, shifts, gaussian > 0)
    if corners is None:
        return grid_profile(epsilon, shifts, gaussian, tol)
    if not corners:
        return 0.0, 0.0
    lower, upper = ends(sharp(lambda: _finite_sum(epsilon, shifts, gaussian, corners)))
    if not upper - lower <= tol * upper + 1e-320:
        return grid_profile(epsilon, shifts, gaussian, tol)
    return max(lower, 0.0), min(upper, 1.0)


# --- the finite sum -----------------------------------------------------------------------------------------------
#
# Under P the loss of a Laplace shift a has the law e^((l-a)/2) nu_a(dl), where
#     nu_a = (delta_a + delta_-a)/2 + 1(-a, a) dl/4
# is symmetric, with transform e^(as) (2s+1)/(4s) + e^(-as) (2s-1)/(4s). With A = sum a_j, independent shifts give
#     delta(epsilon) = 2 e^((epsilon-A)/2) int sinh((l-epsilon)/2)_+ (nu_a1 * ... * nu_ar)(dl),
# and multiplying out: a sum over the corners t = sum +-a_j of h_p((t - epsilon)_+), p the number of plus signs, where
# h_p has the transform 2 (2s+1)^(p-1) (2s-1)^(r-p-1) / (4s)^r: a polynomial, beside an exponential for p = 0 and p = r.
# A Gaussian part y has loss density e^(l/2 - y^2/8) times that of N(0, y^2): it smooths every h_p in closed form.


def _corners(epsilon, shifts, smoothed):
    """{(t - epsilon, p): multiplicity} in exact rationals; None when they are too many for the finite sum."""
    ratios = [value.as_integer_ratio() for value in (epsilon, *map(float, shifts))]
    unit = max(denominator for _, denominator in ratios)
    offset, *steps = (
        numerator * (unit // denominator) for numerator, denominator in ratios
    )
    top = sum(steps) - offset
    corners = Counter({(top, len(steps)): 1} if smoothed or top > 0 else {})
    for step in steps:
        moved = Counter(corners)
        for (u, p), count in corners.items():
            if smoothed or u > 2 * step:
                moved[u - 2 * step, p - 1] += count
        corners = moved
        if len(corners) * len(steps) * (8 if smoothed else 1) > FINITE_SUM_LIMIT:
            return None
    return {(fmpq(u, unit), p): count for (u, p), count in corners.items()}


@lru_cache(maxsize=256)
def _kernel(r, p):
    """Coefficients of the polynomial part of h_p, lowest degree first."""
    plus, minus = fmpz_poly([1, 2]), fmpz_poly([-1, 2])
    numerator = fmpz_poly([2])
    numerator *= plus ** (p - 1) if p else fmpz_poly([(-2) ** i for i in range(r)])
    numerator *= (
        minus ** (r - p - 1) if p < r else fmpz_poly([-(2**i) for i in range(r)])
    )
    return [fmpq(int(numerator[r - 1 - k]), 4**r * math.factorial(k)) for k in range(r)]


def _finite_sum(epsilon, shifts, gaussian, corners):
    r, y = len(shifts), arb(gaussian)
    used = {p for _, p in corners}
    kernels = {p: _kernel(r, p) for p in used}
    polynomials = {p: arb_poly(fmpq_poly(kernels[p])) for p in used}
    total = arb(0)
    for (u, p), count in corners.items():
        u = arb(u)
        if gaussian:
            height = _smoothed(u, y, kernels[p], p == r, p == 0)
        else:
            height = polynomials[p](u)
            height += (u / 2).exp() / 2 if p == r else 0
            height -= (-u / 2).exp() / 2 if p == 0 else 0
        total += count * height
    exponent = (arb(epsilon) - sum(map(arb, shifts), arb(0))) / 2 - y * y / 8
    return 2 * exponent.exp() * total


def _smoothed(u, y, coefficients, rising, falling):
    """E h(u + y Z)_+ for standard Gaussian Z, by the moments m_k = u m_(k-1) + (k-1) y^2 m_(k-2)."""
    x, root = u / y, arb(2).sqrt()

    def cdf(argument):
        return (-argument / root).erfc() / 2

    moments = [cdf(x), u * cdf(x) + y * (-x * x / 2).exp() / (2 * arb.pi()).sqrt()]
    for k in range(2, len(coefficients)):
        moments.append(u * moments[-1] + (k - 1) * y * y * moments[-2])
    value = sum((arb(c) * m for c, m in zip(coefficients, moments)), arb(0))
    value += (u / 2 + y * y / 8).exp() * cdf(x + y / 2) / 2 if rising else 0
    value -= (-u / 2 + y * y / 8).exp() * cdf(x - y / 2) / 2 if falling else 0
    return value


# --- the grid -----------------------------------------------------------------------------------------------------
#
# kappa(epsilon - l, y) e^(l/2) is convex in l, so moving every point of nu_a to its two neighbours on a grid of
# step h, its mean kept, raises delta to some delta_s. A point and its two neighbours differ, in the convex order, by
# less than a lazy step (-h, 0, h with probabilities 1/4, 1/2, 1/4). With T the mean over r such steps, c their weight
# at 0, and in the measure nu, delta_s <= T delta <= c delta + (T - c) delta_s; so delta >= delta_s - (T - 1) delta_s/c.
# Both bounds are of second order in h. The tilt e^(theta l) moves the mass to epsilon, so that the error of the
# transforms is small against delta itself; h is a power of two, so that the grid points are exact.


def grid_profile(epsilon, shifts, gaussian, tol=1e-4):
    """Certified (lower, upper) on delta by convolution, for any number of shifts; both routes' common promise."""
    shifts = np.sort(np.asarray(shifts, float))
    total = math.fsum(shifts)
    lower, upper = 0.0, 1.0
    for size in GRID_SIZES:
        if size < 64 * len(shifts) and size < GRID_SIZES[-1]:
            continue
        step = 2.0 ** math.ceil(math.log2(2 * total / size))
        low, high = _grid_bounds(epsilon, shifts, gaussian, step)
        lower, upper = max(lower, low), min(upper, high)
        if upper - lower <= tol * upper:
            break
    return float(lower), float(upper)


def _grid_bounds(epsilon, shifts, y, step):
    r = len(shifts)
    theta = _tilt(epsilon, shifts, y, math.fsum(shifts) + epsilon + 4 * (r + 1) * step)
    laws = [_spread(a, step, theta) for a in shifts]
    mass, error = _convolve([(law, 0.0) for law, _ in laws])
    reach = len(mass) // 2
    weight, floor = _payoff(
        np.arange(-reach - r, reach + r + 1) * step - epsilon, y, theta
    )
    walk = [math.comb(2 * r, r + k) / 4**r for k in range(-r, r + 1)]
    taps = np.array(walk) * np.exp(-theta * step * np.arange(-r, r + 1.0))
    spread = np.convolve(weight + floor, taps, "valid")
    weight, floor = weight[r:-r], floor[r:-r]
    worst = spread / walk[r]
    below = weight * (1 + 1 / walk[r]) - worst
    # Each entry of the laws, the payoff and the sums is right to a few units of the exponents that it met.
    slack = 1e-12 + r * 2e-14 + 64 * EPS * (theta + 1) * (math.fsum(shifts) + epsilon)
    exponent = math.fsum(
        [epsilon * (0.5 - theta), *(scale for _, scale in laws), *(-shifts / 2)]
    )
    scale = math.exp(exponent) if exponent < 700 else math.inf
    high = (mass @ (weight + floor) + error * np.linalg.norm(weight + floor)) * (
        1 + slack
    )
    low = (
        mass @ below
        - error * np.linalg.norm(below)
        - slack * (mass @ (weight * (1 + 1 / walk[r]) + worst))
    )
    return max(scale * low * (1 - slack), 0.0), min(scale * high * (1 + slack), 1.0)


def _tilt(epsilon, shifts, y, reach):
    """The theta >= 1/2 at which the tilted mean is epsilon (saddle point), capped where exponentials overflow."""
    low, high = 0.5, 0.5 + 600 / reach
    for _ in range(40):
        theta = (low + high) / 2
        t = np.tanh(shifts * theta) / (2 * theta)
        slope = (
            np.sum((2 * theta * t * shifts + (shifts / 2 - t) / theta) / (1 + t))
            + theta * y * y
        )
        low, high = (theta, high) if slope < epsilon else (low, theta)
    return low


def _spread(a, step, theta):
    """nu_a moved to the grid, tilted and normalised, and the logarithm of its mass."""
    cells = int(a // step)
    part = a / step - cells
    law = np.full(2 * cells + 3, step / 4)
    law[[0, 1, -2, -1]] = 0.0
    edge = np.array(
        [
            (1 - part) / 2 + part * step / 4 * (1 - part / 2),
            part / 2 + part * part * step / 8,
        ]
    )
    if cells:
        law[[1, -2]] = step / 8
    law[1] += edge[0]
    law[-2] += edge[0]
    law[0] += edge[1]
    law[-1] += edge[1]
    places = (np.arange(-cells - 1, cells + 2) - (cells + 1)) * step
    law *= np.exp(theta * places)
    scale = law.sum()
    return law / scale, math.log(scale) + theta * (cells + 1) * step


def _convolve(laws):
    """Convolution of (law, l2 error) pairs by a tree of transforms, and the l2 error of the result.

    A transform of length n is taken to be right to 32 u log2(n) in relative l2 norm, several times the bound of
    Higham, Accuracy and Stability of Numerical Algorithms, Theorem 24.2.
    """
    while len(laws) > 1:
        merged = [_product(*pair) for pair in zip(laws[::2], laws[1::2])]
        laws = merged + laws[2 * len(merged) :]
        laws.sort(key=lambda pair: len(pair[0]))
    return laws[0][0], 1.01 * laws[0][1]


def _product(first, second):
    (p, p_error), (q, q_error) = first, second
    size = len(p) + len(q) - 1
    length = next_fast_len(size, real=True)
    law = np.maximum(irfft(rfft(p, length) * rfft(q, length), length)[:size], 0.0)
    unit = 32 * EPS * math.log2(length)
    norms = sum(map(np.linalg.norm, (p, q, law)))
    return law, p_error + q_error + unit * norms


def _payoff(u, y, theta):
    """e^((1/2 - theta) u) kappa(-u, y) at each u, and a bound on what underflow may have hidden."""
    scale = np.exp((0.5 - theta) * u)
    if y == 0:
        return np.where(
            u > 0, -np.expm1(-np.maximum(u, 0)) * scale, 0.0
        ), np.zeros_like(u)
    right = kappa(np.abs(u), y)
    value = np.where(
        u > 0, -np.expm1(-np.maximum(u, 0)) + np.exp(-np.maximum(u, 0)) * right, right
    )
    return value * scale, 1e-300 * scale
