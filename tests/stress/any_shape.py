"""Changes of any shape, and many of them, on random plants: ``python any_shape.py [count]``.

Over a horizon and without one it goes through all signs of a change of up to 14 samples, or
draws patterns of them, behind the root of the noise's own dense covariance, and looks by a
beam for the placements at which several changes show most. It prints the largest ratios to
what is promised, at most 1, and how long 96 samples take.
"""

import sys
import time
import warnings

import control as ct
import numpy as np
import scipy.linalg

import privcontrol as pc

BUDGET = pc.PrivacyBudget(gdp=1.0)
TAIL = 160
BEAM = 12
#: Seconds of processor time of a design; a busy machine takes 2.
LONGEST = 3.0


def random_plant(rng):
    order = int(rng.integers(1, 4))
    A = rng.normal(size=(order, order))
    A *= rng.uniform(0.2, 0.9) / np.abs(np.linalg.eigvals(A)).max()
    B, C = rng.normal(size=(order, 1)), rng.normal(size=(1, order))
    D = rng.normal(size=(1, 1)) * (rng.uniform() < 0.5)
    return ct.ss(A, B, C, D, 1.0, inputs=["w"], outputs=["y"])


def impulses(plant, samples):
    response = np.zeros(samples)
    response[0] = plant.D[0, 0]
    state = plant.B
    for t in range(1, samples):
        response[t] = (plant.C @ state)[0, 0]
        state = plant.A @ state
    return response


def whitened(noise, plant, samples):
    """Responses (T, T) to an impulse at each sample, behind the dense covariance."""
    if noise.horizon.ends:
        dense = [[noise.covariance(t, s)[0, 0] for s in range(samples)]
                 for t in range(samples)]  # fmt: skip
    else:
        dense = scipy.linalg.toeplitz(
            [noise.covariance(lag)[0, 0] for lag in range(samples)]
        )
    dense = np.array(dense)
    noisy = np.diag(dense) > 0  # a plant may answer one sample later
    root = scipy.linalg.cholesky(dense[np.ix_(noisy, noisy)], lower=True)
    moved = scipy.linalg.toeplitz(impulses(plant, samples), np.zeros(samples))
    if moved[~noisy].any():
        raise ValueError("a change shows without noise")
    return scipy.linalg.solve_triangular(root, moved[noisy], lower=True)


def all_signs(count):
    return 1.0 - 2.0 * (np.arange(2 ** (count - 1))[:, None] >> np.arange(count) & 1)


def largest_change(left, duration, starts):
    signs = all_signs(duration)
    found = 0.0
    for start in starts:
        gram = left[:, start : start + duration]
        gram = gram.T @ gram
        squares = np.einsum(
            "ij,ij->i", signs @ gram[: len(signs.T), : len(signs.T)], signs
        )
        found = max(found, squares.max())
    return np.sqrt(found)


def several_by_a_beam(left, duration, count, separation, rng):
    """The largest norm found of several changes, each with signs of its own."""
    signs = all_signs(duration)
    drawn = signs[rng.permutation(len(signs))[:40]]
    last = left.shape[1] - duration - 60
    known = [(0.0, -separation, np.zeros(len(left)))]
    for _ in range(count):
        further = []
        for _, before, total in known:
            for wait in (0, 1, 2, 5):
                start = before + separation + wait
                if start > last:
                    continue
                moves = left[:, start : start + duration] @ drawn.T
                moves = np.hstack([moves, -moves])
                sums = total[:, None] + moves
                sizes = np.linalg.norm(sums, axis=0)
                for best in np.argsort(sizes)[-3:]:
                    further.append((sizes[best], start, sums[:, best]))
        known = sorted(further, key=lambda each: -each[0])[:BEAM]
    return known[0][0]


def main(count):
    warnings.simplefilter("ignore", pc.PrivacyWarning)
    rng = np.random.default_rng(0)
    worst = {"run": 0.0, "endless": 0.0, "several": 0.0}
    least = 1.0
    for number in range(count):
        plant = random_plant(rng)
        duration = int(rng.integers(2, 15 if number % 10 == 0 else 9))
        secret = pc.DisturbanceAdjacency(1.0, duration=duration)
        options = {"budget": BUDGET, "adjacency": secret, "max_std": np.inf}
        if number % 4 == 0:
            horizon = int(rng.integers(duration, 21))
            noise = pc.design_output_noise(plant, horizon=horizon, **options)
            left = whitened(noise, plant, horizon)
            starts = range(horizon - duration + 1)
            kind = "run"
        else:
            noise = pc.design_output_noise(plant, horizon=np.inf, **options)
            left = whitened(noise, plant, TAIL + duration)
            starts = (0, 10, 20)
            kind = "endless"
        found = largest_change(left, duration, starts) / noise.guarantee.gdp
        worst[kind] = max(worst[kind], found)
        least = min(least, found)
        if kind == "endless" and number % 2:
            times = int(rng.integers(2, 5))
            apart = int(rng.integers(duration, duration + 6))
            promise = noise.guarantee.repeated(times, separation=apart)
            shown = several_by_a_beam(left, duration, times, apart, rng)
            worst["several"] = max(worst["several"], shown / promise.gdp)
    for kind, ratio in worst.items():
        print(f"{kind}: largest ratio {ratio:.9f}", flush=True)
    print(
        f"{count} plants, least of the largest changes {least:.6f} of what is promised"
    )
    slowest = 0.0
    for pole in (0.5, 0.9, 0.99, 0.999):
        plant = ct.ss(pole, 1, 1, 0, 1.0, inputs=["w"], outputs=["y"])
        begin = time.process_time()
        noise = pc.design_output_noise(
            plant, horizon=np.inf, budget=BUDGET, max_std=np.inf,
            adjacency=pc.DisturbanceAdjacency(1.0, duration=96),
        )  # fmt: skip
        took = time.process_time() - begin
        print(f"96 samples, pole {pole}: {took:.2f} s, gap {noise.design.gap:.4f}")
        slowest = max(slowest, took)
    exceeds = max(worst.values()) > 1 + 1e-9  # in double precision
    return bool(exceeds or slowest > LONGEST)


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]) if len(sys.argv) > 1 else 200))
