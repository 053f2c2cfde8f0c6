"""Many exact releases against 1,000-bit arithmetic, and their distribution.

python tests/stress/exact_releases.py rounding 100000
python tests/stress/exact_releases.py distribution 1000000
"""

import random
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

import numpy as np
import scipy.stats
from release_oracle import FixedBits, correctly_rounded

from privcontrol.privacy.release import exact_data, exact_release


def rounding(count):
    """Releases with the same random bits in 1,000-bit arithmetic; every one must agree."""
    rng = random.Random(time.time_ns())
    wrong = 0
    for k in range(count):
        family = ("gaussian", "laplace")[k % 2]
        grid = (None, 0.001, 1, 3)[k // 2 % 4]
        sources = [FixedBits(rng.getrandbits(1000)) for _ in range(1 + k % 3)]
        values, _ = exact_data(
            [rng.choice([0.0, 1e-9, 1.0, 1e6]) * rng.gauss(0, 1)], "x"
        )
        factor = np.array([[rng.uniform(-2, 2) for _ in sources]])
        released = exact_release(values, factor, family, grid=grid, source=sources)
        expected = correctly_rounded(values, factor, family, grid, sources)
        wrong += released.tolist() != expected
    print(f"{count} releases, {wrong} rounded otherwise than by 1,000-bit arithmetic")
    return wrong


def distribution(count):
    """Kolmogorov-Smirnov, and chi-square of the lowest eight bits, for both families.

    At 10^6 releases and the 1 % level, noise that is 1 % off in size is found with
    probability above .9 (sqrt(n) D = 2.4), and a lowest bit that is 1.5 % off above .99.
    """
    failures = 0
    for family, law in (
        ("gaussian", scipy.stats.norm),
        ("laplace", scipy.stats.laplace),
    ):
        parts = []
        for start in range(0, count, 10_000):
            size = min(10_000, count - start)
            values, _ = exact_data(np.full(size, 0.3), "x")
            parts.append(exact_release(values, np.ones(size), family))
        released = np.concatenate(parts)
        distance = scipy.stats.kstest(released - 0.3, law.cdf)
        wide = scipy.stats.kstest(0.99 * (released - 0.3), law.cdf)
        lowest = (released.view(np.uint64) & np.uint64(255)).astype(int)
        bits = scipy.stats.chisquare(np.bincount(lowest, minlength=256))
        print(
            f"{family}: {count} releases, KS p = {distance.pvalue:.3f} "
            f"(1 % smaller: {wide.pvalue:.1e}), lowest eight bits p = {bits.pvalue:.3f}"
        )
        failures += distance.pvalue < 1e-4 or bits.pvalue < 1e-4
    return failures


if __name__ == "__main__":
    check = {"rounding": rounding, "distribution": distribution}[sys.argv[1]]
    sys.exit(int(check(int(sys.argv[2])) > 0))
