"""Power of the audit: 20 random tight mechanisms, and the same with 10 % less noise against the original claim.

python tests/benchmarks/bench_audit.py
"""

import sys
import time
from pathlib import Path

import numpy as np

import privcontrol as pc

sys.path.insert(0, str(Path(__file__).parents[1] / "core"))
sys.path.insert(0, str(Path(__file__).parents[1]))
from test_audit import scaled, tight


def audits(size, trials, seeds):
    """Lower bounds over claims (20, seeds) and seconds of every audit, the noise scaled by `size`."""
    ratios, seconds = np.empty((20, seeds)), []
    for seed in range(20):
        mechanism, adjacency, claim = tight(seed)
        thinner = pc.Mechanism(mechanism.query, scaled(mechanism.noise, size))
        for repeat in range(seeds):
            start = time.perf_counter()
            result = pc.audit(
                thinner, adjacency, claim=claim, trials=trials, rng=[seed, repeat]
            )
            seconds.append(time.perf_counter() - start)
            ratios[seed, repeat] = result.epsilon_lower / claim.epsilon
    return ratios, np.median(seconds)


if __name__ == "__main__":
    ratios, seconds = audits(1.0, 200_000, 5)
    print(
        "20 tight mechanisms, half Gaussian (1, 1e-2), half Laplace (1, 0), 5 seeds each, confidence 0.999"
    )
    print(f"200,000 trials: epsilon_lower / claim median {np.median(ratios):.3f} (Gaussian {np.median(ratios[::2]):.3f}, "
          f"Laplace {np.median(ratios[1::2]):.3f}), least {ratios.min():.3f}")  # fmt: skip
    print(
        f"  failed {np.sum(ratios > 1)} of {ratios.size}; median {seconds:.2f} s an audit"
    )
    for trials in (1_000_000, 2_000_000):
        ratios, seconds = audits(0.9, trials, 3)
        print(f"noise 10 % too small, {trials:,} trials: {np.sum(ratios > 1)} of {ratios.size} fail the claim, "
              f"least ratio {ratios.min():.3f}; median {seconds:.2f} s an audit")  # fmt: skip
