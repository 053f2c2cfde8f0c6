"""When was the tea made?

A home battery stands between a household and its meter. What it charges is noise that is
made physically: it hides when a kettle boils within a day, and never asks for more than
the battery has, since it is drawn so ahead, for a year. A larger battery hides it without
end. The load is a household's from SimBench (``data/household.md``). Two rules from the
literature on load hiding stand next to it.

Run it as ``python battery_that_hides_when.py [folder] [years]``; the figure is written to
the folder, and so many years are simulated.
"""

import math
import sys
from pathlib import Path

import control as ct
import matplotlib.pyplot as plt
import numpy as np
from scipy.signal import lfilter
from scipy.stats import norm

import privcontrol as pc
from privcontrol.core import kappa_inverse

STEP, DAY, YEAR = 0.25, 96, 35_040  # hours; samples
KETTLE, WASHING = 0.1, 1.0  # kWh
WEAR = 3.0  # price of what the battery moves in a sample, relative to that of what it holds
CAPACITY, INVERTER = 6.6, 6.25  # kWh, kW
ENDLESS, ORDER = (9.3, 7.8), 5  # the battery of a run without end, states of its noise
LEAK = 1e-5
BUDGET = pc.PrivacyBudget(gdp=float(kappa_inverse(1.0, 0.01)), leak=LEAK)
METER = ct.ss(1, 1, 1, 0, STEP, name="meter", states=["energy"], inputs=["load"],
              outputs=["reading"])  # fmt: skip
DATA = Path(__file__).parents[1] / "data" / "household.npz"
LOAD = STEP * np.load(DATA)["load"].astype(float)[:YEAR]  # kWh a quarter of an hour
SEEN = 1e-3  # kWh: a difference of readings that a meter shows


class Wear:
    """Price b(t)^2 + WEAR (b(t) - b(t-1))^2 of the charge b, a loop's place in a design."""

    def noise_weight(self, horizon):
        root = math.sqrt(WEAR)
        return ct.ss(0, 1, [[0], [-root]], [[1], [root]], True)


def hidden(energy, capacity, inverter, **run):
    """Noise that hides when so much energy is used within a day; without a life, for ever."""
    return pc.design_output_noise(
        METER,
        horizon=np.inf,
        **run,
        budget=BUDGET,
        adjacency=pc.DisturbanceAdjacency({"load": energy}, moved=DAY),
        weight=Wear(),
        bound={"reading": (capacity / 2, inverter * STEP)},
    )


def years_beyond(noise, years):
    """Samples beyond the walls in years without them, and how many are expected."""
    shaping = noise.parts[0].shaping
    rng, walls = np.random.default_rng(0), np.zeros(2)
    poles = np.concatenate([[1.0], shaping.coefficients])
    for _ in range(years):
        white = rng.normal(size=YEAR + 20 * DAY)
        charge = lfilter([shaping.std], poles, white)[20 * DAY :]
        walls[0] += np.sum(np.abs(charge) > CAPACITY / 2)
        walls[1] += np.sum(np.abs(np.diff(charge)) > INVERTER * STEP)
    spread = [noise.covariance(t, t)[0, 0] for t in (0, 1)]
    step = np.sqrt(sum(spread) - 2 * noise.covariance(1, 0)[0, 0])
    limits = [CAPACITY / 2 / noise.std[0], INVERTER * STEP / step]
    return walls, 2 * years * YEAR * norm.sf(limits)


# -- rules of the literature ---------------------------------------------------------------


def within(flow, low, high):
    """A number, moved between two limits (np.clip takes ten times as long for one)."""
    return min(max(flow, low), high)


def best_effort(load):
    """Keep the meter's last value while the battery can (Kalogridis et al. 2010)."""
    charge, last, metered = CAPACITY / 2, load.mean(), []
    for used in load.tolist():
        flow = within(last - used, -INVERTER * STEP, INVERTER * STEP)
        flow = within(flow, -charge, CAPACITY - charge)
        charge += flow
        last = used + flow
        metered.append(last)
    return np.array(metered)


def stepping(load, step=0.25):
    """Meter multiples of a step, up or down as the battery fills (Yang et al. 2012)."""
    charge, level, metered = CAPACITY / 2, round(load.mean() / step), []
    for used in load.tolist():
        if charge > 0.9 * CAPACITY:
            level = math.floor(used / step)
        elif charge < 0.1 * CAPACITY:
            level = math.ceil(used / step)
        flow = within(level * step - used, -INVERTER * STEP, INVERTER * STEP)
        flow = within(flow, -charge, CAPACITY - charge)
        charge += flow
        metered.append(used + flow)
    return np.array(metered)


def told_for_sure(rule, pairs=120):
    """Share of pairs of days, with the kettle at one or another time, that differ."""
    rng, told = np.random.default_rng(1), 0
    for _ in range(pairs):
        start = rng.integers(0, YEAR - 8 * DAY)
        days = LOAD[start : start + 7 * DAY]
        early, later = days.copy(), days.copy()
        first = rng.integers(0, DAY)
        early[DAY + first] += KETTLE
        later[DAY + first + rng.integers(1, DAY + 1)] += KETTLE
        told += np.abs(rule(early) - rule(later)).max() > SEEN
    return told / pairs


def main(folder, years):
    noise = hidden(KETTLE, CAPACITY, INVERTER, life=YEAR)
    print(noise.guarantee)
    print(f"\ncharge {noise.std[0]:.3f} kWh (std) in {CAPACITY} kWh, leak {noise.leak:.2e}, "
          f"{100 * noise.acceptance:.1f} % of all years drawn are kept")  # fmt: skip
    beyond, expected = years_beyond(noise, years)
    print(f"{years} years without walls: {beyond[0]:.0f} samples beyond the battery, "
          f"{beyond[1]:.0f} beyond the inverter; expected {expected[0]:.1f}, "
          f"{expected[1]:.1f}")  # fmt: skip
    endless = hidden(KETTLE, *ENDLESS, order=ORDER, gap=0.027)
    print(f"without end {ENDLESS[0]} kWh and {ENDLESS[1]} kW are enough: charge "
          f"{endless.std[0]:.3f} kWh (std), leak {endless.leak:.2e}")  # fmt: skip
    try:
        hidden(WASHING, CAPACITY, INVERTER, life=YEAR)
    except pc.PrivacyError as refusal:
        print(f"a washing machine ({WASHING} kWh): {refusal}")
    rules = {"best effort": best_effort, "stepping": stepping}
    told = {name: told_for_sure(rule) for name, rule in rules.items()}
    for name, share in told.items():
        print(f"{name}, the same battery: the meter reveals the time of {100 * share:.0f} % of "
              "the kettles for sure")  # fmt: skip
    charge = noise.sample(1, rng=3)[0, 0]
    draw(charge, told, noise, folder)


def draw(charge, told, noise, folder):
    figure, axes = plt.subplot_mosaic(
        [["power", "sure"], ["charge", "sure"]],
        figsize=(9.5, 4.4),
        layout="constrained",
        width_ratios=[2.0, 1],
    )
    power, store, sure = axes["power"], axes["charge"], axes["sure"]
    week = slice(30 * DAY, 37 * DAY)
    days = np.arange(7 * DAY) / DAY
    metered = (LOAD + np.diff(charge, prepend=charge[0])) / STEP
    power.plot(days, metered[week], color="#D55E00", lw=0.7, label="metered, public")
    power.plot(days, LOAD[week] / STEP, color="black", lw=0.9, label="load, private")
    power.set(ylabel="Power [kW]", xlim=(0, 7))
    store.plot(days, charge[week] + CAPACITY / 2, color="black", label="charge")
    for wall in (0.0, CAPACITY):
        store.axhline(wall, color="0.3", ls="--", lw=1)
    store.set(xlabel="Time [days]", ylabel="Charge [kWh]", xlim=(0, 7))
    store.set(ylim=(-0.4, CAPACITY + 0.4))
    names = [*told, "noise within\nthe battery"]
    shares = [*told.values(), noise.leak]
    sure.bar(names, 100 * np.array(shares), color=["0.55", "0.55", "#009E73"])
    for place, share in enumerate(shares):
        text = f"{100 * share:.0f} %" if share > 0.001 else f"{100 * share:.3f} %"
        sure.text(place, 100 * share + 1, text, ha="center")
    sure.set(ylabel="Times revealed for sure [%]", ylim=(0, 108))
    for ax in axes.values():
        ax.grid(alpha=0.3)
        ax.spines[["top", "right"]].set_visible(False)
    power.legend(frameon=False, fontsize="small", ncols=2, loc="upper left")
    figure.savefig(folder / "battery_that_hides_when.png", dpi=150)
    plt.close(figure)


if __name__ == "__main__":
    main(
        Path(sys.argv[1] if len(sys.argv) > 1 else "."),
        int(sys.argv[2]) if len(sys.argv) > 2 else 12,
    )
