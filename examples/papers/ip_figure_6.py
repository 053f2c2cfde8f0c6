"""IP Figure 6, accuracy of two tasks under several radii and privacy budgets

The paper compares CIFAR-10 with CIFAR-100, a task of few answers with one of many. Here
the same released scores of real digits answer "odd or even?" and "which digit?":
Gauss-Output, delta = 1e-5, the grid of the published notebooks, by the paper's
classical rule and by the exact one. At epsilon = 10 the classical rule breaks its claim
and is refused. Run it as ``python ip_figure_6.py [folder]``.
"""

import itertools
import sys
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from ip_digits import OUTPUT, RULES, SEEDS, Classifiers

from privcontrol.core import PrivacyError

folder = Path(sys.argv[1] if len(sys.argv) > 1 else ".")
networks = [Classifiers(seed) for seed in SEEDS]
radii = (0.001, 0.01, 0.1, 0.2)
epsilons = (0.1, 1.0, 10.0)
tasks = {"odd or even?": lambda digit: digit % 2, "which digit?": lambda digit: digit}


rows = list(itertools.product(OUTPUT, tasks))


def accuracies(kind, epsilon, radius, rule, task):
    """Accuracies (seeds,) in per cent; NaN where the rule breaks its claim."""
    setting = (epsilon, radius, rule)
    try:
        return [each.accuracy(OUTPUT[kind], setting, task=task) for each in networks]
    except PrivacyError:
        return [np.nan] * len(networks)


figure, axes = plt.subplots(
    4, 2, figsize=(7.2, 9.0), sharex=True, sharey=True, layout="constrained"
)
for column, (method, title) in zip(axes.T, RULES.items(), strict=True):
    column[0].set_title(title)
    column[-1].set_xlabel("Privacy budget ε (δ = 1e-5)")
    for axis, (kind, name) in zip(column, rows, strict=True):
        found = np.array(
            [
                [accuracies(kind, eps, radius, method, tasks[name]) for eps in epsilons]
                for radius in radii
            ]
        )
        table, spread = found.mean(axis=2), found.std(axis=2, ddof=1)
        image = axis.imshow(table, cmap="cividis", vmin=0, vmax=100, aspect="auto")
        for (row, place), value in np.ndenumerate(table):
            text = f"{value:.1f} ± {spread[row, place]:.1f}"
            if np.isnan(value):
                text = "refused"
            dark = np.isnan(value) or value > 50
            color = "black" if dark else "white"
            axis.text(place, row, text, ha="center", va="center", color=color)
        for radius, row in zip(radii, table, strict=True):
            values = "".join(f"{value:7.1f}" for value in row)
            print(f"{method:9s} {kind:13s} {name} radius {radius:5g}: {values}")
for axis, (kind, name) in zip(axes[:, 0], rows, strict=True):
    axis.set_ylabel(f"{kind}, {name}\nradius α")
    axis.set_yticks(range(len(radii)), [f"{radius:g}" for radius in radii])
axes[0, 0].set_xticks(range(len(epsilons)), [f"{epsilon:g}" for epsilon in epsilons])
figure.colorbar(image, ax=axes, label="accuracy on 800 test images [%]")
figure.savefig(folder / "ip_figure_6.png", dpi=150)
