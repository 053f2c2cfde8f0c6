"""Move events at random, within what is promised: ``python redistributions.py [count]``.

For stores and lags it prints the largest shift over the promised one, at most 1.
"""

import sys

import control as ct
import numpy as np
import scipy.linalg

import privcontrol as pc


def largest_ratio(pole, moved, count, rng):
    names = {"states": ["x"], "inputs": ["u"], "outputs": ["y"]}
    noise = pc.design_output_noise(
        ct.ss(pole, 1, 1, 0, 1.0, **names),
        horizon=np.inf,
        budget=pc.PrivacyBudget(gdp=0.5),
        adjacency=pc.DisturbanceAdjacency({"u": 1.0}, moved=moved),
    )
    samples = 6 * moved + 60
    gamma = [noise.covariance(lag)[0, 0] for lag in range(samples)]
    root = scipy.linalg.cholesky(scipy.linalg.toeplitz(gamma), lower=True)
    response = np.concatenate([[0.0], pole ** np.arange(samples - 1)])
    events = scipy.linalg.toeplitz(response, np.zeros(samples))
    changes = np.zeros((samples, count))
    for trial in range(count):
        parts = rng.integers(1, 8)
        sizes = rng.dirichlet(np.ones(parts)) * rng.choice([-1, 1], parts)
        for size in sizes:
            start = rng.integers(moved, samples - moved)
            end = start + rng.choice([-moved, moved, rng.integers(-moved, moved + 1)])
            changes[start, trial] += size
            changes[end, trial] -= size
    whitened = scipy.linalg.solve_triangular(root, events @ changes, lower=True)
    return np.linalg.norm(whitened, axis=0).max() / noise.guarantee.gdp


def main(count):
    rng, worst = np.random.default_rng(0), 0.0
    for pole in (1.0, 0.9, 0.99, 0.999):
        for moved in (4, 24, 96):
            ratio = largest_ratio(pole, moved, count, rng)
            worst = max(worst, ratio)
            print(f"pole {pole}, d = {moved}: {count} redistributions, "
                  f"largest ratio {ratio:.9f}", flush=True)  # fmt: skip
    return bool(worst > 1 + 1e-9)  # in double precision


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]) if len(sys.argv) > 1 else 4000))
