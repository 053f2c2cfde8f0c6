"""How do I privatise my LQG script?

These are the lines of the README: a plant, a secret, a budget, a horizon, and a loop
through the gate. The figure is written where the script runs, the guarantee is printed.
"""

import control as ct
import numpy as np

import privcontrol as pc

vehicle = ct.ss([[1, 0.1], [0, 1]], [[0.005], [0.1]], [[1, 0]], 0, 0.1,
                states=["position", "velocity"], inputs=["u"], outputs=["y"])  # fmt: skip
Q, R, QN, RN = np.eye(2), 5, np.diag([1e-4, 1e-2]), 1e-2

secret = pc.StateAdjacency({"position": 1.0})  # metres
budget = pc.PrivacyBudget(epsilon=1.0, delta=1e-2)
noise = pc.design_output_noise(vehicle, horizon=100, budget=budget, adjacency=secret,
                               models="exact")  # fmt: skip
loop = pc.private_lqg(vehicle, Q, R, QN, RN, noise)
print(loop.guarantee)

dock = [-10, 0]  # public: where the vehicle starts, to within the secret
response = loop.simulate(initial_state=dock, initial_estimate=dock, trials=500, rng=0)
response.band_plot(["position", "velocity"]).figure.savefig("first_private_loop.png")
