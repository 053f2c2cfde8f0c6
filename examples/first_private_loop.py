"""How do I privatise my LQG script?

These are the lines of the README: a drone, the place where it took off, a budget, and a
loop through the gate. The figure is written where the script runs, the guarantee is
printed.
"""

import control as ct
import numpy as np

import privcontrol as pc

drone = ct.ss(
    np.kron(np.eye(2), [[0, 1], [0, -0.2]]),  # place, speed: m, m/s
    np.kron(np.eye(2), [[0], [1]]),
    np.eye(4),
    0,
    states=["east", "speed east", "north", "speed north"],
    inputs=["thrust east", "thrust north"],
    outputs=["GPS east", "Doppler east", "GPS north", "Doppler north"],
).sample(0.5)
lqg = {
    "Q": np.diag([0, 1, 0, 1]),
    "R": 0.5,
    "QN": np.diag([0, 0.04, 0, 0.04]),
    "RN": np.diag([4, 0.04, 4, 0.04]),
    "P0": np.diag([1e6, 1, 1e6, 1]),
    "terminal": 0,
}
public = pc.private_lqg(drone, **lqg, horizon=240)

# the secret: where it took off, anywhere within 100 m
secret = pc.InitialStateAdjacency({"east": 100, "north": 100})
budget = pc.PrivacyBudget(epsilon=1.0, delta=1e-2)
noise = pc.design_output_noise(
    drone, horizon=240, budget=budget, adjacency=secret, models="exact"
)
loop = public.with_noise(noise)
print(loop.guarantee)

route = np.outer([3, 0, 4, 0], np.arange(240) / 2) + np.array([[0], [3], [0], [4]])
flight = loop.simulate(
    reference=route,
    feedforward=[0.6, 0.8],  # against the drag
    disturbance="design",
    measurement_noise="design",
    trials=500,
    rng=0,
)
plot = flight.band_plot(
    ["speed east", "east", "GPS east"],
    units={"speed east": "m/s", "east": "m", "GPS east": "m"},
)
plot.figure.savefig("first_private_loop.png")
