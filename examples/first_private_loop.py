"""How do I privatise my LQG script?

These are the lines of the README: a drone, the place where it took off, a budget, and a
loop through the gate. The guarantee is printed. The rest draws the README's figure,
flights from two sites with and without privacy, where the script runs.
"""

import control as ct
import matplotlib.pyplot as plt
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

# The figure: flights from two sites, black true, orange published, blue estimated.
PUBLISHED, ESTIMATE = "#D55E00", "#0072B2"
bare = public.with_noise(noise.with_std(1e-3))  # 1 mm: as good as no privacy
route = np.outer([3, 0, 4, 0], np.arange(240) / 2) + np.array([[0], [3], [0], [4]])
rows = plt.subplots(2, 3, figsize=(8, 5), layout="constrained")[1]
for row, flown, gate in zip(rows, (bare, loop), ("without privacy", "behind the gate")):
    seen = []
    for site, line in ((0, "-"), (100, "--")):
        flight = flown.simulate(
            initial_state=[site, 0, 0, 0],
            reference=route,
            feedforward=[0.6, 0.8],  # against the drag
            disturbance="design",
            measurement_noise="design",
            trials=2000,
            rng=site,
        )
        t, true, gps = flight.time, flight.states, flight.outputs["GPS east"]
        tracks = row[0].plot(t, gps[:5].T, color=PUBLISHED, ls=line, lw=1)
        tracks[0].set_label(f"published, from {site} m")
        row[0].plot(t, true["east", 0], "k", ls=line, label=f"true, from {site} m")
        row[2].hist(gps[:, 0], 40, color=PUBLISHED, ls=line, histtype="step")
        seen.append(gps[:, 0])  # where it seems to take off
    row[1].plot(t, true["xhat[1]", 0], ESTIMATE, lw=2, label="the cloud's estimate")
    row[1].plot(t, true["speed east", 0], "k", lw=0.8, label="true")
    alarm = np.quantile(seen[0], 0.95)
    row[2].axvline(alarm, color="0.5", ls=":", label="5 % false alarms")
    row[0].set(title=f"Flights {gate}", xlabel="Time [s]", ylabel="East [m]")
    row[0].set_ylim(-100, 900)
    row[1].set(title="How it flies", xlabel="Time [s]", ylabel="Speed east [m/s]")
    row[1].set_ylim(0, 5)
    found = np.mean(seen[1] > alarm)
    row[2].set(title=f"Site detected: {100 * found:.0f} %", ylabel="Flights")
    row[2].set_xlabel("Detector's score: first fix [m]")
for ax in rows[0]:
    ax.legend(fontsize=7, frameon=False)
plt.savefig("first_private_loop.png", dpi=180)
