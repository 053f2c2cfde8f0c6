"""How does this library compare with the methods of the literature?

One table for a loop, one for a network, and a figure. Every method has the same secret
and the same budget, and is read by the best filter for what it publishes. Methods
without differential privacy say what they promise instead; a method that does not apply
says why. Run it as ``python side_by_side.py [folder]``; the figure is written to the
folder.
"""

import sys
from pathlib import Path

import averaging
import cancelling
import directed_information
import fisher
import huang
import input_perturbation
import kawano_cao
import matplotlib.pyplot as plt
import mo_murray
import nozari
import numpy as np
import one_draw
import optimum
import ours
import output_perturbation
import own_noise
import shuffled
import two_block
import yazdani
import zero_forcing
from comparison import LinearLoop, compare

import privcontrol as pc

FOR_LOOPS = [
    optimum,
    ours,
    input_perturbation,
    output_perturbation,
    zero_forcing,
    two_block,
    yazdani,
    kawano_cao,
    own_noise,
    fisher,
    directed_information,
]
FOR_NETWORKS = [one_draw, cancelling, huang, nozari, mo_murray, shuffled]
BUDGET = pc.PrivacyBudget(epsilon=1.0, delta=1e-2)


def vehicle_loop(horizon=60):
    """README's vehicle whose position is measured, and the weights of its regulator."""
    return LinearLoop(
        pc.plants.vehicle(),
        horizon,
        QN=np.diag([1e-4, 1e-2]),
        RN=np.array([[1e-2]]),
        P0=4 * np.eye(2),
        Q=np.eye(2),
        R=np.array([[5.0]]),
    )


def main(folder="."):
    figure, axes = plt.subplots(1, 2, figsize=(11.5, 3.6), layout="constrained")
    loop = vehicle_loop()
    print("A vehicle whose position, at most 1 m off, is the secret; 60 samples")
    compare(loop, pc.StateAdjacency({"position": 1.0}), BUDGET, FOR_LOOPS, axes[0])
    public = loop.cost(np.zeros((60, 60)))
    axes[0].axvline(public, color="0.4", ls=":")
    axes[0].set_title("A vehicle; dotted: without privacy", fontsize="medium")
    axes[1].set_title("Ten agents that average", fontsize="medium")
    axes[0].plot([], [], "s", color="#B0C4DE", label="no differential privacy")
    axes[0].legend(frameon=False, fontsize="small", loc="upper right")
    print(f"without privacy the loop costs {public:.5g}\n")
    print("Ten agents that average, one of whose values moves by at most 1")
    agents = averaging.ten_agents()
    compare(agents, pc.NodeAdjacency(1.0), BUDGET, FOR_NETWORKS, axes[1])
    axes[1].set_xlabel("Total mean-square error")
    figure.savefig(Path(folder) / "side_by_side.png", dpi=150)
    plt.close(figure)


if __name__ == "__main__":
    main(*sys.argv[1:])
