"""Who was on the bus?

A bus reports at every stop how many people are on board. Noise that is drawn for each
stop alone averages out over a ride, an attack that a public plan for such counts
ignores (tvv-lippu-ja-maksujarjestelma-oy/waltti-apc-anonymization-plan). Here rides of
up to d stops are hidden in runs of any length, and so are a commuter's ten rides in
all, half a day apart. Run it as ``python bus.py [folder]``; the figure is written to
the folder.
"""

import sys
from pathlib import Path

import control as ct
import matplotlib.pyplot as plt
import numpy as np
from scipy.stats import norm

import privcontrol as pc

BUDGET = pc.PrivacyBudget(epsilon=1.0, delta=1e-5)
HALF_DAY = 96  # stops
COMMUTER = {"events": 10, "separation": HALF_DAY}
# the count is published as it is, from an input that no state delays
BUS = ct.ss(0, 0, 0, 1, 1, states=["idle"], inputs=["passengers"], outputs=["count"])


def noises(stops, **often):
    """Noise for rides of up to so many stops, correlated and independent."""
    ride = pc.DisturbanceAdjacency(
        {"passengers": 1.0}, duration=stops, shape="level", **often
    )
    request = {"horizon": np.inf, "budget": BUDGET, "adjacency": ride}
    correlated = pc.design_output_noise(BUS, **request)
    return correlated, pc.design_output_noise(BUS, family="iid-gaussian", **request)


def on_board(stops, longest, rng):
    """People on a bus that fills twice a day, each for a ride of 2 to ``longest`` stops."""
    counts = np.zeros(stops + longest)
    for stop in range(stops):
        boarding = rng.poisson(1 + 8 * np.sin(np.pi * stop / HALF_DAY) ** 8)
        for ride in rng.integers(2, longest + 1, size=boarding):
            counts[stop : stop + ride] += 1
    return counts[:stops]


def main(folder="."):
    table = {}
    print("stops, std for one ride, white, for ten rides, white [passengers]")
    for stops in (1, 2, 4, 8, 12, 16, 24):
        table[stops] = (*noises(stops), *noises(stops, **COMMUTER))
        print(f"{stops:2}", *(f"{noise.std[0]:6.2f}" for noise in table[stops]))
    shift = np.sqrt(12) / table[1][1].std[0]
    alone = norm.cdf(norm.ppf(0.05) + shift)  # what a matched filter detects
    hidden = table[12][0].guarantee.detection(0.05)
    print("a ride of 12 stops is detected at 5 % false alarms:")
    print(f"noise for one stop {alone:.1%}, for the ride at most {hidden:.1%}")
    counts = on_board(2 * HALF_DAY, 12, np.random.default_rng(0))
    drawing, (run, price) = plt.subplots(1, 2, figsize=(9.5, 3.8), layout="constrained")
    labels = {"published with white noise": "0.75", "published": "#D55E00"}
    for noise, (label, color) in zip(table[12][1::-1], labels.items()):
        gamma = noise.sample(1, horizon=len(counts), rng=1)[0, 0]
        run.plot(counts + gamma, color=color, lw=1, label=label)
    run.plot(counts, "k", lw=1.5, label="on board, private")
    run.set(xlabel="Stop", ylabel="Passengers", xlim=(0, len(counts)), ylim=(None, 120))
    lines = {"one ride": ("#009E73", "o-"), "one ride, white": ("#009E73", "s:")}
    lines |= {"ten rides": ("#CC79A7", "o-"), "ten rides, white": ("#CC79A7", "s:")}
    for label, noises_of in zip(lines, zip(*table.values())):
        color, style = lines[label]
        sizes = [noise.std[0] for noise in noises_of]
        price.plot(list(table), sizes, style, color=color, ms=4, label=label)
    price.set(xlabel="Longest ride [stops]", ylabel="Noise, std [passengers]", ylim=0)
    for ax in (run, price):
        ax.legend(frameon=False, fontsize="small")
        ax.spines[["top", "right"]].set_visible(False)
    drawing.savefig(Path(folder) / "bus.png", dpi=150)
    plt.close(drawing)


if __name__ == "__main__":
    main(*sys.argv[1:])
