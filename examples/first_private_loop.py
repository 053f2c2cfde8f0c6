"""How do I privatise my LQG script?

These are the lines of the README: a plant, a secret, a budget, a horizon, and a loop through the gate. The figure is
written where the script runs, the guarantee is printed.
"""

import control as ct
import numpy as np

import privcontrol as pc

vehicle = ct.ss([[1, 0.1], [0, 1]], [[0.005], [0.1]], [[1, 0]], 0, 0.1,
                states=["position", "velocity"], inputs=["u"], outputs=["y"])  # fmt: skip

budget, secret = (
    pc.PrivacyBudget(epsilon=1.0, delta=1e-2),
    pc.StateAdjacency({"position": 1.0}),
)
noise = pc.design_output_noise(vehicle, horizon=100, budget=budget, adjacency=secret)
loop = pc.private_lqg(
    vehicle, Q=np.diag([20, 1]), R=1, QN=np.diag([0.01, 0.1]), RN=1, noise=noise
)
response = loop.simulate(initial_state=[-20, 0], trials=500, rng=0)
response.band_plot(["position", "velocity"]).figure.savefig(
    "first_private_loop.png", dpi=150
)
print(loop.guarantee)
