"""A second route to exact releases: 1,000-bit arithmetic on the same random bits."""

from fractions import Fraction

import mpmath

from privcontrol.privacy.release import BitSource

BITS = 1000


class FixedBits(BitSource):
    """A fixed stream of 1,000 bits, and how many of them were drawn."""

    def __init__(self, stream):
        self.stream = stream
        self.drawn = 0

    def bits(self, count):
        self.drawn += count
        if self.drawn > BITS:
            raise RuntimeError("more than 1,000 bits were asked for")
        return (self.stream >> (BITS - self.drawn)) & ((1 << count) - 1)


def standard_number(family, stream):
    """The entry eta of a stream of 1,000 bits, to about 1,000 bits."""
    if family == "gaussian":
        u = (mpmath.mpf(2 * stream + 1)) / mpmath.mpf(2) ** (BITS + 1)
        return mpmath.sqrt(2) * inverse_error_function(2 * u - 1)
    negative = stream >> (BITS - 1)
    rest = stream - (negative << (BITS - 1))
    size = -mpmath.log(mpmath.mpf(2 * rest + 1) / mpmath.mpf(2) ** BITS)
    return -size if negative else size


def inverse_error_function(value):
    """erfinv by Newton's method on erf (or erfc in the tails), digits doubled each time."""
    full = mpmath.mp.prec
    with mpmath.workprec(60):
        start = mpmath.erfinv(mpmath.mpf(value)) if abs(value) < 0.999 else None
    if start is None:
        sign = 1 if value > 0 else -1
        tail = 1 - abs(value)
        with mpmath.workprec(60):
            start = mpmath.sqrt(-mpmath.log(tail))
        solution = start
        for _ in range(60):
            step = (mpmath.erfc(solution) - tail) / (
                2 / mpmath.sqrt(mpmath.pi) * mpmath.exp(-(solution**2))
            )
            solution += step
            if abs(step) < abs(solution) * mpmath.mpf(2) ** (-full + 20):
                break
        return sign * solution
    solution = start
    precision = 50
    while precision < full:
        precision = min(2 * precision, full)
        slope = 2 / mpmath.sqrt(mpmath.pi) * mpmath.exp(-(solution**2))
        solution -= (mpmath.erf(solution) - value) / slope
    slope = 2 / mpmath.sqrt(mpmath.pi) * mpmath.exp(-(solution**2))
    return solution - (mpmath.erf(solution) - value) / slope


def as_fraction(number):
    """The exact rational number that an mpmath number is."""
    sign, mantissa, exponent, _ = number._mpf_
    return (-1) ** sign * Fraction(int(mantissa)) * Fraction(2) ** int(exponent)


def correctly_rounded(values, factor, family, grid, sources):
    """values + factor eta, rounded half to even, with eta from the sources' whole streams."""
    with mpmath.workprec(BITS + 200):
        eta = [standard_number(family, source.stream) for source in sources]
        eta = [as_fraction(number) for number in eta]
    rounded = []
    for value, row in zip(values, factor.tolist()):
        total = Fraction(int(value.p), int(value.q))
        total += sum(Fraction(size) * number for size, number in zip(row, eta))
        if grid is None:
            rounded.append(float(total) + 0.0)
        else:
            step = Fraction(str(grid))
            rounded.append(float(round(total / step) * step) + 0.0)
    return rounded
