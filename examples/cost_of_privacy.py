"""How much does privacy cost my loop?

An aircraft with vectored thrust (Astrom and Murray, Feedback Systems, section 7.3: six
states, two inputs, three outputs) hovers for eight seconds, flown by a ground station.
The station must not learn where it is to half a metre, nor how it moves to 5 cm/s, at
any time of the first second. The costs are exact, for independent noise, for the
structured noise that costs this loop least, and for gains and noise designed for each
other.

Run it as ``python cost_of_privacy.py [folder]``; the figure is written to the folder.
"""

import sys
from pathlib import Path

import control as ct
import matplotlib.pyplot as plt
import numpy as np

import privcontrol as pc

DT, SAMPLES = 0.05, 160
Q, R = np.diag([1.0, 1.0, 20.0, 1.0, 1.0, 0.5]), 0.1 * np.eye(2)
QN, RN = np.diag([1e-8, 1e-8, 1e-8, 1e-4, 1e-4, 1e-4]), np.diag([1e-3, 1e-3, 1e-4])
SECRET, DELTA = (
    pc.StateAdjacency({"x": 0.5, "y": 0.5, "vx": 0.05, "vy": 0.05}, times=range(20)),
    1e-3,
)
DESIGNS = ("loop", "iid", "codesign")


def aircraft(m=4.0, J=0.0475, r=0.25, g=9.8, c=0.05):
    """The aircraft in hover: states in m, rad and per second; inputs lateral and vertical thrust in N."""
    A, B = np.zeros((6, 6)), np.zeros((6, 2))
    A[:3, 3:] = np.eye(3)
    A[3, 2:4], A[4, 4] = (-g, -c / m), -c / m
    B[3, 0], B[4, 1], B[5, 0] = 1 / m, 1 / m, r / J
    hover = ct.ss(A, B, np.eye(3, 6), np.zeros((3, 2))).sample(DT)
    names = {
        "states": ["x", "y", "theta", "vx", "vy", "omega"],
        "outputs": ["x", "y", "theta"],
    }
    return ct.ss(
        hover.A,
        hover.B,
        hover.C,
        hover.D,
        DT,
        inputs=["F1", "F2"],
        name="aircraft",
        **names,
    )


def loops(plant, epsilon):
    """Three private loops for one budget."""
    budget = pc.PrivacyBudget(epsilon=epsilon, delta=DELTA)
    request = {"horizon": SAMPLES, "budget": budget, "adjacency": SECRET}
    public = pc.private_lqg(plant, Q, R, QN, RN)
    independent = pc.design_output_noise(plant, family="iid-gaussian", **request)
    structured = pc.design_output_noise(plant, weight=public, models="exact", **request)
    return {
        "iid": pc.private_lqg(plant, Q, R, QN, RN, noise=independent),
        "loop": public.with_noise(structured),
        "codesign": pc.private_lqg(
            plant, Q, R, QN, RN, noise=structured, P0=1.0, codesign=True
        ),
    }


folder = Path(sys.argv[1] if len(sys.argv) > 1 else ".")
plant, drawn = aircraft(), {"disturbance": "design", "measurement_noise": "design"}
sweep = pc.tradeoff(plant, Q, R, QN, RN, horizon=SAMPLES, adjacency=SECRET, delta=DELTA, designs=DESIGNS, P0=1.0,
                    epsilons=np.logspace(-0.5, 1, 7))  # fmt: skip
found = loops(plant, 1.0)

figure, (left, right) = plt.subplots(1, 2, figsize=(9, 4.2), layout="constrained")
sweep.plot(left)
for design, curve in zip(DESIGNS, left.lines):
    loop, line = (
        found[design],
        {"color": curve.get_color(), "ls": curve.get_linestyle()},
    )
    errors = np.sqrt(loop.mean_square_error(**drawn)[:2].sum(axis=0))
    right.plot(loop.noise.timepts, errors, lw=2, **line)
public = pc.private_lqg(plant, Q, R, QN, RN).mean_square_error(
    found["loop"].noise.timepts, **drawn
)[:2]
right.plot(found["loop"].noise.timepts, np.sqrt(public.sum(axis=0)), "k", lw=0.8)
right.set(
    xlabel="Time [s]",
    ylabel="rms distance from the hover point [m]",
    title="ε = 1",
    ylim=(0, None),
)
right.grid(alpha=0.3)
left.get_legend().remove()
figure.legend(
    *left.get_legend_handles_labels(),
    loc="outside lower center",
    ncols=3,
    frameon=False,
)
figure.savefig(folder / "cost_of_privacy.png", dpi=150)

print(found["codesign"].guarantee)
print(
    f"expected cost over {DT * SAMPLES:g} s without privacy {sweep.public.total:.3g}; at epsilon = 1:"
)
for name, loop in found.items():
    last = np.sqrt(loop.mean_square_error(**drawn)[:2, -1].sum())
    print(
        f"  {name:9s} {sweep.total(name)[2]:8.4g}, and {last:.2f} m rms from the hover point at the end"
    )
