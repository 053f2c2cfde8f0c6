"""Design noise and controller of two rooms, and open the ledger: once, on any machine.

    python design.py FOLDER

The folder gets ``loop.json``, which everybody may see, and ``ledger.sqlite``.
"""

import sys
from pathlib import Path

import control as ct
import numpy as np

import privcontrol as pc

ROOMS = ("east", "west")
STEP = 0.25  # hours from a sample to the next one
STAY = 12  # samples that the longest hidden visit lasts
SENSOR = 0.03  # std of a thermometer [K]
DRAUGHT = np.array([0.02, 0.002, 0.02, 0.002])  # std of what else moves a state [K]


def rooms():
    """Air and walls of two rooms with a door, in K from the set point; time in h."""
    room, door = [[-3.1, 2.7], [0.18, -0.19]], [[0.5, 0], [0, 0]]
    return ct.ss(
        np.kron(np.eye(2), room) - np.kron([[1, -1], [-1, 1]], door),
        np.kron(np.eye(2), [[1.7, 0.17], [0, 0]]),
        [[1, 0, 0, 0], [0, 0, 1, 0]],
        0,
        states=["east", "east walls", "west", "west walls"],
        inputs=["heat east", "people east", "heat west", "people west"],
        outputs=["T east", "T west"],
    ).sample(STEP)


def designed(folder):
    """Save the design and make the ledger."""
    plant = rooms()
    noise = pc.design_output_noise(
        plant,
        horizon=np.inf,
        budget=pc.PrivacyBudget(epsilon=1.0, delta=1e-2),
        adjacency=pc.DisturbanceAdjacency(
            {"people east": 1, "people west": 1}, duration=STAY, shape="any"
        ),
        models="exact",
    )
    loop = pc.private_lqg(
        plant,
        Q=np.diag([1, 0, 1, 0]),
        R=0.02,
        QN=np.diag(DRAUGHT**2),
        RN=SENSOR**2,
        noise=noise,
        controls=["heat east", "heat west"],
    )
    loop.save(folder / "loop.json")
    budget = pc.PrivacyBudget(epsilon=1.5, delta=1e-2)
    pc.PrivacyLedger(budget, folder / "ledger.sqlite")


if __name__ == "__main__":
    folder = Path(sys.argv[1])
    folder.mkdir(mode=0o700, exist_ok=True)
    designed(folder)
