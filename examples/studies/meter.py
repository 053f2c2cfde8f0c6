"""How often was the kettle on?

A smart meter reports a home's load every quarter of an hour. What people ask for is the
privacy of a day: an appliance of 2 kW that runs for up to half an hour, some times a
day, and at least two hours apart. The uses of any one day are hidden; those of n days
would take sqrt(n) times the noise, and about years nothing is claimed. The load is a
household's from SimBench (``data/household.md``). Its days represent the homes of a
district, whose total is what the grid needs. Run it as ``python meter.py [folder]``;
the figure is written to the folder.
"""

import sys
from pathlib import Path

import control as ct
import matplotlib.pyplot as plt
import numpy as np

import privcontrol as pc

DAY, HOMES = 96, 20_000  # samples
POWER, LASTS, APART = 2.0, 2, 8  # kW, samples, samples
BUDGET = pc.PrivacyBudget(epsilon=2.0, delta=1e-2)
DATA = Path(__file__).parents[1] / "data" / "household.npz"
LOAD = np.load(DATA)["load"].astype(float)
DAYS = LOAD[: len(LOAD) // DAY * DAY].reshape(-1, DAY)
# the load is published as it is, from an input that no state delays
METER = ct.ss(0, 0, 0, 1, 0.25, states=["idle"], inputs=["load"], outputs=["reading"])


def noise_for(secret, **request):
    return pc.design_output_noise(
        METER, horizon=np.inf, budget=BUDGET, adjacency=secret, **request
    )


def secrets(uses):
    """Uses of an appliance in a day: apart, at any distance, and by their energy alone."""
    use = {
        "radius": {"load": POWER},
        "duration": LASTS,
        "shape": "level",
        "events": uses,
    }
    energy = uses * LASTS * POWER  # kW times samples
    return {
        "two hours apart": pc.DisturbanceAdjacency(**use, separation=APART),
        "at any distance": pc.DisturbanceAdjacency(**use),
        "any use of their energy": pc.DisturbanceAdjacency.person(
            POWER, energy, inputs=["load"], window=DAY
        ),
    }


def main(folder="."):
    every = range(1, 9)
    noises = [
        {name: noise_for(secret) for name, secret in secrets(uses).items()}
        for uses in every
    ]
    print(
        "uses a day, std two hours apart, at any distance, by energy, white apart [kW]"
    )
    for uses, found in zip(every, noises):
        white = noise_for(secrets(uses)["two hours apart"], family="iid-gaussian")
        sizes = [noise.std[0] for noise in (*found.values(), white)]
        print(f"{uses}", *(f"{size:6.2f}" for size in sizes))
    noise = noises[3]["two hours apart"]
    print(noise.guarantee)
    print(noises[3]["any use of their energy"].guarantee.scope.statement)
    rng = np.random.default_rng(0)
    total = DAYS[rng.integers(len(DAYS), size=HOMES)].sum(axis=0) / 1e3  # MW
    gamma = noise.sample(2, horizon=DAY, rng=1)[0]
    told = (
        total + np.sqrt(HOMES) * gamma[1] / 1e3
    )  # a sum of noises is as large as this
    error = np.sqrt(HOMES) * noise.std[0] / 1e3
    print(f"{HOMES} homes: {total.mean():.2f} MW, known with a std of {error:.2f} MW")
    drawing, axes = plt.subplots(1, 3, figsize=(11, 3.4), layout="constrained")
    home, district, price = axes
    hours = np.arange(DAY) / 4
    one = DAYS[DAYS.max(axis=1).argmax()]
    home.plot(hours, one + gamma[0], "#D55E00", lw=0.9, label="published")
    home.plot(hours, one, "k", lw=1.5, label="load, private")
    home.set(ylabel="One home [kW]")
    district.plot(hours, told, "#D55E00", lw=0.9, label="sum of what is published")
    district.plot(hours, total, "k", lw=1.5, label="total")
    district.set(ylabel=f"{HOMES:,} homes [MW]", ylim=0)
    for ax in (home, district):
        ax.set(xlabel="Time of day [h]", xlim=(0, 24), xticks=range(0, 25, 6))
    styles = (("#009E73", "o-"), ("#CC79A7", "s:"), ("#E69F00", "^--"))
    for name, (color, style) in zip(noises[0], styles):
        sizes = [found[name].std[0] for found in noises]
        price.plot(every, sizes, style, color=color, ms=4, label=name)
    price.set(xlabel="Uses in a day", ylabel="Noise, std [kW]", ylim=0)
    for ax in axes:
        ax.legend(frameon=False, fontsize="small")
        ax.spines[["top", "right"]].set_visible(False)
    drawing.savefig(Path(folder) / "meter.png", dpi=150)
    plt.close(drawing)


if __name__ == "__main__":
    main(*sys.argv[1:])
