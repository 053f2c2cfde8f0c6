"""How full was tank 1?

The quadruple tank of Johansson (2000) is nonlinear: water leaves a tank with the square
root of its level. Its levels are controlled in the cloud, and how full tank 1 was at
the start is private. Noise for the linearised tank gives it away. Noise that covers all
Jacobians of the region in which the levels stay hides it, also from somebody who knows
the nonlinear plant. Run it as ``python quadruple_tank.py [folder]``; the figure is
written to the folder.
"""

import sys
from pathlib import Path

import control as ct
import matplotlib.pyplot as plt
import numpy as np
from scipy.stats import norm

import privcontrol as pc

STEP, SAMPLES = 5.0, 60  # seconds; five minutes
SECRET = 0.5  # cm in tank 1: 14 cm^3 of water
BUDGET = pc.PrivacyBudget(gdp=1.0)

# K. H. Johansson, The quadruple-tank process (2000), Table I and the minimum-phase setting
AREAS = [28.0, 32.0, 28.0, 32.0]  # cm^2
HOLES = [0.071, 0.057, 0.071, 0.057]  # cm^2
GAINS, SPLITS = (
    [3.33, 3.35],
    [0.7, 0.6],
)  # cm^3 / (V s), share of a pump for its lower tank
SENSOR, GRAVITY = 0.5, 981.0  # V / cm, cm / s^2

# With pumps between 2.5 and 3.5 V the levels stay in this region, which is certified below.
REGION = {
    "h1": (7.6, 18.5, "cm"),
    "h2": (7.8, 19.5, "cm"),
    "h3": (1.05, 2.5, "cm"),
    "h4": (0.85, 2.15, "cm"),
    "v1": (2.5, 3.5, "V"),
    "v2": (2.5, 3.5, "V"),
}
PUMPS = [[2.5, 3.5], [2.5, 3.5]]


def rates(t, h, v, params):
    """Rates of the four levels [cm/s]."""
    out = [hole * np.sqrt(2 * GRAVITY * level) for hole, level in zip(HOLES, h)]
    first, second = GAINS[0] * v[0], GAINS[1] * v[1]
    return [
        (SPLITS[0] * first + out[2] - out[0]) / AREAS[0],
        (SPLITS[1] * second + out[3] - out[1]) / AREAS[1],
        ((1 - SPLITS[1]) * second - out[2]) / AREAS[2],
        ((1 - SPLITS[0]) * first - out[3]) / AREAS[3],
    ]


def reads(t, h, v, params):
    """Sensors of the two lower tanks [V]."""
    return [SENSOR * h[0], SENSOR * h[1]]


TANK = pc.sample_nonlinear(
    ct.nlsys(
        rates,
        reads,
        states=["h1", "h2", "h3", "h4"],
        inputs=["v1", "v2"],
        outputs=["y1", "y2"],
        name="quadruple tank",
    ),
    STEP,
)


def noises():
    """The region's polytope, noise for all of it, and noise for its linearised middle."""
    box = pc.jacobian_polytope(
        TANK, REGION, splits={"h1": 4, "h2": 2, "h3": 3, "h4": 2}
    )
    request = dict(
        horizon=SAMPLES,
        budget=BUDGET,
        adjacency=pc.StateAdjacency({"h1": SECRET}, times=0),
    )
    certified = pc.design_output_noise(box.nominal, models=box, **request)
    believed = pc.design_output_noise(box.nominal, models="exact", **request)
    return box, certified, believed


def private_loop(noise):
    """Two PI controllers, one for each lower tank, about 3 V."""
    point = ct.find_operating_point(TANK, [12, 12, 1.6, 1.4], [3.0, 3.0])
    pi = ct.ss(ct.tf([0.6, -0.56], [1, -1], STEP))
    return pc.private_feedback(
        TANK, ct.append(pi, pi), noise, operating_point=point
    ), point


def run(level):
    """What the sensors read (T p,) from a level of tank 1 on, with the pumps at 3.5 V."""
    h, read = np.array([level, 17.4, 2.2, 1.9]), []
    for _ in range(SAMPLES):
        read.append(TANK.output(0, h, [3.5, 3.5]))
        h = TANK.dynamics(0, h, [3.5, 3.5])
    return np.ravel(read)


def likelihood_test(noise, trials=20_000):
    """Detections at each rate of false alarms of the best test that knows the tank and the pumps' voltages."""
    covariance = np.block(
        [[noise.covariance(t, s) for s in range(SAMPLES)] for t in range(SAMPLES)]
    )
    change = run(16.5 + SECRET) - run(16.5)
    weights = np.linalg.solve(covariance, change)
    gamma = noise.sample(trials, rng=0).transpose(1, 2, 0).reshape(trials, -1)
    scores = gamma @ weights
    alarms = np.linspace(0.002, 0.998, 250)
    thresholds = np.quantile(scores, 1 - alarms)
    shifted = np.sort(scores + change @ weights)
    return alarms, 1 - np.searchsorted(shifted, thresholds) / trials


def attack_on_exact(noise, trials=1000):
    """How often the right one of two levels is found, and what gives the wrong one away [V]."""
    readings = [run(16.5), run(16.5 + SECRET)]
    columns = noise.process.responses.reshape(SAMPLES * 2, -1)
    basis = np.linalg.qr(columns)[0]
    rng = np.random.default_rng(1)
    found, left = 0, []
    for truth in rng.integers(0, 2, trials):
        published = readings[truth] + noise.sample(1, rng=rng)[:, 0].T.ravel()
        rests = [published - reading for reading in readings]
        sizes = [np.linalg.norm(rest - basis @ (basis.T @ rest)) for rest in rests]
        found += int(np.argmin(sizes) == truth)
        left.append(sizes[1 - truth])
    return found / trials, min(left)


def main(folder):
    box, certified, believed = noises()
    print(certified.guarantee)
    print(f"\nlevels certified to stay in the region: {box.invariant}")
    print(f"noise for the nonlinear tank: {1000 * certified.std.max():.0f} mV on sensors "
          f"of {SENSOR:g} V/cm")  # fmt: skip
    print(f"noise for the linearised one: {1000 * believed.std.max():.0f} mV")
    right, left = attack_on_exact(believed)
    print(f"from the latter {100 * right:.1f} % of the secrets are read off: the other "
          f"level leaves {1000 * left:.1f} mV that no noise explains")  # fmt: skip
    alarms, detections = likelihood_test(certified)
    at_five = float(np.interp(0.05, alarms, detections))
    print(f"from the former the best test with 5 % false alarms detects {100 * at_five:.1f} % "
          f"(promised: at most {100 * certified.guarantee.detection(0.05):.1f} %)")  # fmt: skip
    loop, point = private_loop(certified)
    step = np.where(np.arange(SAMPLES) < 12, 0.0, 1.0)  # V, two centimetres
    response = loop.simulate(
        reference=[step, 0 * step],
        initial_state=point.states,
        saturation=PUMPS,
        trials=500,
        rng=0,
    )
    print(f"{int(response.left_region.sum())} of 500 runs left the region")
    draw(response, point, step, alarms, detections, folder)


def draw(response, point, step, alarms, detections, folder):
    figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.6), layout="constrained")
    minutes = response.t / 60
    for name, color, goal in (
        ("h1", "#009E73", point.states[0] + step / SENSOR),
        ("h2", "#CC79A7", point.states[1] + 0 * step),
    ):
        low, middle, high = response.quantile([0.05, 0.5, 0.95], name)[:, 0]
        left.fill_between(minutes, low, high, color=color, alpha=0.25, lw=0)
        left.plot(
            minutes, middle, color=color, label=f"tank {name[1]}, median and 90 %"
        )
        left.step(minutes, goal, color=color, ls=":", where="post")
    left.plot([], [], color="0.3", ls=":", label="references")
    left.set(xlabel="Time [min]", ylabel="Level [cm]", xlim=(0, minutes[-1]))
    left.legend(frameon=False, fontsize="small", loc="lower right")
    right.plot(
        [0, 0, 1],
        [0, 1, 1],
        color="#CC79A7",
        label="noise for the linearised tank",
        lw=2,
    )
    right.plot(
        alarms, detections, color="#009E73", label="noise for the nonlinear tank", lw=2
    )
    limit = norm.cdf(norm.ppf(alarms) + BUDGET.gdp)
    right.plot(
        alarms, limit, color="black", ls="--", lw=1, label="what the guarantee allows"
    )
    right.plot([0, 1], [0, 1], color="0.6", ls=":", lw=1, label="guessing")
    right.set(
        xlabel="False alarms",
        ylabel=f"Detections of {SECRET:g} cm in tank 1",
        xlim=(-0.015, 1),
        ylim=(0, 1.02),
    )
    right.legend(frameon=False, fontsize="small", loc="lower right")
    for ax in (left, right):
        ax.grid(alpha=0.3)
        ax.spines[["top", "right"]].set_visible(False)
    figure.savefig(folder / "quadruple_tank.png", dpi=150)
    plt.close(figure)


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "."))
