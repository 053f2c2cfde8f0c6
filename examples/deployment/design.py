"""Design noise and controller of the vehicle, and open the ledger: once, on any machine.

    python design.py FOLDER [SAMPLES]

The folder gets ``loop.json``, which everybody may see, and ``ledger.sqlite``.
"""

import sys
from pathlib import Path

import numpy as np

import privcontrol as pc

STEP = 0.1


def designed(folder, samples):
    """Save the design and make the ledger."""
    vehicle = pc.plants.vehicle()
    noise = pc.design_output_noise(
        vehicle,
        horizon=samples,
        budget=pc.PrivacyBudget(epsilon=1.0, delta=1e-2),
        adjacency=pc.StateAdjacency({"position": 1.0}),
        floor=0.1,  # covers the model's errors and the sensor's grid
        resolution=0.001,  # the sensor counts millimetres
    )
    gusts = 0.005**2 * np.eye(2)
    loop = pc.private_lqg(
        vehicle, np.diag([2.0, 1.0]), 1.0, gusts, 1e-6, noise, estimator="kalman"
    )
    loop.save(folder / "loop.json")
    budget = pc.PrivacyBudget(epsilon=1.5, delta=1e-2)
    pc.PrivacyLedger(budget, folder / "ledger.sqlite")


if __name__ == "__main__":
    folder = Path(sys.argv[1])
    folder.mkdir(mode=0o700, exist_ok=True)
    designed(folder, int(sys.argv[2]) if len(sys.argv) > 2 else 100)
