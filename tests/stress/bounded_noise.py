"""Stream noise that never leaves its bound: ``python bounded_noise.py [samples]``.

It prints how many samples are beyond the bound, which is none, and how large they get.
"""

import sys

import control as ct
import numpy as np

import privcontrol as pc


def main(samples):
    names = {"states": ["x"], "inputs": ["u"], "outputs": ["y"]}
    noise = pc.design_output_noise(
        ct.ss(0.9, 1, 1, 0, 1.0, **names),
        horizon=np.inf,
        order=1,
        budget=pc.PrivacyBudget(epsilon=1.0, delta=1e-2),
        adjacency=pc.DisturbanceAdjacency({"u": 1.0}),
        bound=16.0,
    )
    stream = noise.stream(rng=0)
    drawn = np.array([next(stream)[0] for _ in range(samples)])
    beyond = int((np.abs(drawn) > 16.0).sum())
    print(f"{samples} samples, std {drawn.std():.4f} (designed {noise.std[0]:.4f}), "
          f"largest {np.abs(drawn).max():.3f} within 16, {beyond} beyond")  # fmt: skip
    return beyond


if __name__ == "__main__":
    sys.exit(bool(main(int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000)))
