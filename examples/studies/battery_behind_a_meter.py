"""Who is cooking?

A battery carries a home's load, and the cloud decides what the home buys. The charge
that it is told gives every appliance away. The load is a household's from SimBench
(``data/household.md``), the battery is simulated. Its leak is identified from the first
eight weeks, and the guarantee holds for every leak that these leave open. Run it as
``python battery_behind_a_meter.py [folder]``; the figure is written to the folder.
"""

import sys
from pathlib import Path

import control as ct
import matplotlib.pyplot as plt
import numpy as np
from scipy.linalg import solve_toeplitz
from scipy.stats import norm

import privcontrol as pc

STEP, WEEK = 0.25, 672  # hours; samples
APPLIANCE, LASTS = 2.0, 2  # kW for up to half an hour
SECRET = pc.DisturbanceAdjacency({"load": APPLIANCE}, duration=LASTS, shape="level")
BUDGET = pc.PrivacyBudget(epsilon=2.0, delta=1e-2)
BILL, FUSE = 0.53, 6.0  # kW: the year's mean, which the supplier knows, and the most
DATA = Path(__file__).parents[1] / "data" / "household.npz"
LOAD = np.load(DATA)["load"].astype(float) - BILL  # kW about the bill's
PAST, NOW = LOAD[: 8 * WEEK], LOAD[8 * WEEK : 20 * WEEK]
RISES = (np.diff(NOW) >= 1.5) & (np.diff(NOW) <= 2.0)  # appliances that are turned on
ALARMS = np.linspace(0.002, 0.998, 250)


def battery(leak):
    """Charge [kWh] about half full, of which a share leaks in a day."""
    return ct.ss(1 - leak * STEP / 24, [[STEP, -STEP]], 1, 0, STEP, name="battery",
                 states=["charge"], inputs=["grid", "load"], outputs=["reading"])  # fmt: skip


def identified():
    """The battery from eight weeks under a controller at home, with 3 Wh of unmetered losses.

    What the design of the noise reveals of these eight weeks is not covered.
    """
    true, rng = battery(leak=0.02), np.random.default_rng(0)
    charge = np.zeros(len(PAST))
    for t, load in enumerate(PAST[:-1]):
        flow = STEP * (-0.14 * charge[t] - load)
        charge[t + 1] = true.A[0, 0] * charge[t] + flow + 0.003 * rng.normal()
    unknown = [[False, False]]
    inputs = np.array([-0.14 * charge, PAST])
    return pc.identify_states(true, charge[None], inputs, B=unknown, confidence=0.999)


def noises(found):
    """For all leaks that are left open, for the likeliest one, white, and next to none."""
    public = pc.PrivacyBudget(gdp=1e4)
    requests = {
        "certified": {"models": found, "budget": BUDGET},
        "believed": {"models": "exact", "budget": BUDGET},
        "white": {"models": found, "budget": BUDGET, "family": "iid-gaussian"},
        "none": {"models": "exact", "budget": public, "family": "iid-gaussian"},
    }
    plant, shared = found.system, {"horizon": np.inf, "adjacency": SECRET}
    return {
        name: pc.design_output_noise(plant, **shared, **request)
        for name, request in requests.items()
    }


def rms(signal):
    return float(np.sqrt(np.mean(signal**2)))


def twelve_weeks(noise, trials=20):
    """Charge, readings and purchases in trials of the loop on the real load."""
    loop = pc.private_lqg(noise.plant, Q=1, R=100, QN=(STEP * APPLIANCE) ** 2, RN=1e-6,
                          noise=noise, controls=["grid"])  # fmt: skip
    times, limits = STEP * np.arange(len(NOW)), [[-BILL, FUSE - BILL]]
    run = loop.simulate(
        times, exogenous={"load": NOW}, saturation=limits, trials=trials, rng=0
    )
    return run.states["charge"], run.outputs["reading"], run.outputs["grid"]


def increments(noise, reading, grid):
    """What the reading gained beyond the model's answer to the grid [kWh]."""
    return reading[:, 1:] - noise.plant.A[0, 0] * reading[:, :-1] - STEP * grid


def filters(noise, half, load=()):
    """Matched filters for an appliance of each length, given the noise and a load of known covariance."""
    a, size = noise.plant.A[0, 0], 2 * half + 1
    gamma = np.array([noise.covariance(lag).item() for lag in range(size + 1)])
    gamma = np.append(gamma[1], gamma)
    law = (1 + a**2) * gamma[1:-1] - a * (gamma[2:] + gamma[:-2])
    for lag in range(size if len(load) else 0):
        law[lag] += STEP**2 * np.mean(load[lag:] * load[: len(load) - lag])
    ages = np.arange(size) - half
    for lasts in range(1, LASTS + 1):
        change = -STEP * APPLIANCE * ((ages >= 0) & (ages < lasts))
        weights = solve_toeplitz(law, change)
        yield change, weights / np.sqrt(weights @ change)


def detections(quiet, busy):
    thresholds = np.quantile(quiet, 1 - ALARMS)
    return 1 - np.searchsorted(np.sort(busy), thresholds) / len(busy)


def thief(noise, reading, grid, half=128):
    """Detections of the household's own rises by a thief who knows the load's covariance.

    Some of them last longer than what is hidden.
    """
    seen = increments(noise, reading, grid[:, :-1])
    scores = [
        [np.correlate(row, weights) for row in seen]
        for _, weights in filters(noise, half, load=PAST)
    ]
    best = np.max(scores, axis=0)
    busy = RISES[half - 1 :][: best.shape[1]]
    return detections(best[:, ~busy].ravel(), best[:, busy].ravel())


def knows_the_rest(noise, half=2048):
    """Detections of an appliance by a thief who knows all other load."""
    shifts = [weights @ change for change, weights in filters(noise, half)]
    return norm.cdf(norm.ppf(ALARMS) + max(shifts))


def what_fails(found, believed):
    """What noise for the likeliest leak promises under another one."""
    epsilon = believed.guarantee_for(found).epsilon(BUDGET.delta)
    print(f"\nnoise for the likeliest leak alone: {believed.std[0]:.2f} kWh, and "
          f"epsilon = {epsilon:.2f} for all leaks")  # fmt: skip
    leak = float(1 - found.system.A[0, 0]) * 24 / STEP
    start = pc.StateAdjacency({"charge": APPLIANCE}, times=0)
    structured = pc.design_output_noise(
        found.system, horizon=WEEK, budget=BUDGET, adjacency=start, models="exact"
    )
    try:
        print(structured.guarantee_for([battery(1.01 * leak)]))
    except pc.NotRealizableError:
        print("structured noise for the charge at the start has no guarantee at all if "
              "the leak is 1 % larger")  # fmt: skip


def main(folder):
    found = identified()
    noise = noises(found)
    leaks = sorted(24 / STEP * (1 - plant.A[0, 0]) for plant in found.box.corners())
    print(f"leak: {100 * leaks[0]:.1f} to {100 * leaks[1]:.1f} % a day (in truth 2 %)")
    print(noise["certified"].guarantee)
    what_fails(found, noise["believed"])
    print(f"\nload: {rms(NOW):.3f} kW rms about the bill's")
    runs = {name: twelve_weeks(noise[name]) for name in ("none", "certified", "white")}
    for name, (charge, _, grid) in runs.items():
        print(f"noise {name}: {noise[name].std[0]:.2f} kWh; charge {rms(charge):.1f} kWh rms, 99 % within "
              f"{np.quantile(np.abs(charge), 0.99):.1f} kWh; bought {rms(grid):.3f} kW rms")  # fmt: skip
    seen = {name: thief(noise[name], *runs[name][1:]) for name in ("none", "certified")}
    curves = {
        "real load, no noise": seen["none"],
        "real load, with noise": seen["certified"],
        "with noise, all other load known": knows_the_rest(noise["certified"]),
        "what the guarantee allows": [
            noise["certified"].guarantee.detection(alarm) for alarm in ALARMS
        ],
    }
    print(f"\ndetected at 5 % false alarms ({RISES.sum()} rises in twelve weeks):")
    for name, curve in curves.items():
        print(f"{name}: {100 * np.interp(0.05, ALARMS, curve):.1f} %")
    draw(runs["certified"], curves, folder)


def draw(run, curves, folder):
    figure, axes = plt.subplot_mosaic(
        [["power", "roc"], ["charge", "roc"]],
        figsize=(9.5, 4.2),
        layout="constrained",
        width_ratios=[1.5, 1],
    )
    week = slice(5 * WEEK, 6 * WEEK)
    days = np.arange(WEEK) * STEP / 24
    charge, reading, grid = [signal[0, week] for signal in run]
    power, store, roc = axes["power"], axes["charge"], axes["roc"]
    power.plot(days, NOW[week] + BILL, color="black", lw=0.8, label="load, private")
    power.plot(days, grid + BILL, color="#D55E00", label="bought, public")
    power.set(ylabel="Power [kW]", xlim=(0, 7), ylim=(0, None))
    store.plot(days, reading, color="#D55E00", lw=0.8, label="reading, public")
    store.plot(days, charge, color="black", label="charge, private")
    store.set(xlabel="Time [days]", ylabel="Charge [kWh]", xlim=(0, 7))
    styles = [("0.55", "-"), ("#009E73", "-"), ("#CC79A7", "-."), ("black", "--")]
    for (label, curve), (color, style) in zip(curves.items(), styles):
        roc.plot(ALARMS, curve, color=color, ls=style, label=label)
    roc.plot([0, 1], [0, 1], color="0.6", ls=":", lw=1, label="guessing")
    roc.set(xlabel="False alarms", ylabel="Appliances detected")
    roc.set(xlim=(-0.01, 1), ylim=(0, 1.02))
    for ax in axes.values():
        ax.grid(alpha=0.3)
        ax.spines[["top", "right"]].set_visible(False)
    roc.legend(frameon=False, fontsize="small")
    for ax in (power, store):
        ax.legend(
            frameon=False,
            fontsize="small",
            ncols=2,
            loc="lower right",
            bbox_to_anchor=(1, 0.98),
            borderaxespad=0,
        )
    figure.savefig(folder / "battery_behind_a_meter.png", dpi=150)
    plt.close(figure)


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "."))
