"""Design noise for a thousand rooms, apart and on one corridor: ``python fleets.py [count]``.

It prints processor seconds, the gap to the bound and the standard deviation of a room. The
corridor's is certified for the matrices as they are.
"""

import sys
import time

import control as ct
import numpy as np

import privcontrol as pc

ROOM = np.array([[-3.1, 2.7], [0.18, -0.19]])  # air and walls; h, K, kW


def rooms(count, door):
    """Rooms whose air meets on a corridor, sampled in their modes."""
    mean, own = (
        ct.ss(ROOM - np.diag([leak, 0.0]), [[0.17], [0]], [[1, 0]], 0).sample(0.25)
        for leak in (0.0, door)
    )
    among = np.full((count, count), 1 / count) * (door > 0)
    within = np.eye(count) - among
    A, B = (
        np.kron(within, one) + np.kron(among, all_of)
        for one, all_of in ((own.A, mean.A), (own.B, mean.B))
    )
    names = {
        "inputs": [f"people{i}" for i in range(count)],
        "outputs": [f"T{i}" for i in range(count)],
        "states": [f"{k}{i}" for i in range(count) for k in ("air", "walls")],
    }
    return ct.ss(A, B, np.kron(np.eye(count), [[1.0, 0.0]]), 0, 0.25, **names)


def main(count):
    widest = 0.0
    for name, door in (("apart", 0.0), ("on a corridor", 1.0)):
        plant = rooms(count, door)
        begin = time.process_time()
        noise = pc.design_output_noise(
            plant,
            horizon=np.inf,
            budget=pc.PrivacyBudget(epsilon=1.0, delta=1e-2),
            adjacency=pc.DisturbanceAdjacency(1.0, duration=12, shape="level"),
        )
        took = time.process_time() - begin
        widest = max(widest, noise.design.gap)
        print(
            f"{count} rooms {name}: {took:.2f} s, std {noise.std[0]:.5f} K, gap "
            f"{noise.design.gap:.5f}, {noise.design.symmetry}"
        )
    return bool(widest > 0.01)


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]) if len(sys.argv) > 1 else 1000))
