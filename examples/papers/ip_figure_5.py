"""IP Figure 5, accuracy of Gauss-Output against the privacy budget for several radii

The 1-Lipschitz networks, dense and convolutional, on real digits with noise on their
scores, delta = 1e-5. By the paper's classical rule the accuracy depends on radius /
epsilon alone; by the exact rule a small radius at a small epsilon is cheaper than that.
Run it as ``python ip_figure_5.py [folder]``.
"""

import itertools
import sys
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from ip_digits import OUTPUT, RULES, SEEDS, Classifiers

folder = Path(sys.argv[1] if len(sys.argv) > 1 else ".")
networks = [Classifiers(seed) for seed in SEEDS]
epsilons = np.array([0.1, 0.25, 0.5, 1, 2, 3, 5])
styles = {
    0.01: ("#009E73", "o", "-"),
    0.05: ("#E69F00", "^", "--"),
    0.1: ("#999999", "s", "-."),
    0.2: ("#CC79A7", "D", ":"),
}


def tests(kind, epsilon, radius, rule):
    """Accuracy in per cent of each seed's network of a kind."""
    setting = (epsilon, radius, rule)
    return [each.accuracy(OUTPUT[kind], setting) for each in networks]


figure, axes = plt.subplots(
    2, 2, figsize=(7.2, 6.0), sharex=True, sharey=True, layout="constrained"
)
for (kind, method), axis in zip(
    itertools.product(OUTPUT, RULES), axes.flat, strict=True
):
    for radius, (color, marker, line) in styles.items():
        table = np.array([tests(kind, epsilon, radius, method) for epsilon in epsilons])
        axis.errorbar(
            epsilons,
            table.mean(axis=1),
            table.std(axis=1, ddof=1),
            color=color,
            marker=marker,
            ls=line,
            ms=4,
            lw=1.3,
            capsize=2,
            label=f"α = {radius:g}",
        )
    for epsilon, radius in ((0.1, 0.01), (1.0, 0.1)):
        setting = (epsilon, radius, method)
        scale = networks[0].mechanism(OUTPUT[kind], setting).scale
        found = tests(kind, epsilon, radius, method)
        print(
            f"{kind}, {RULES[method]}, radius {radius:g}, epsilon {epsilon:g}: noise "
            f"{scale:.4f}, accuracy {np.mean(found):.1f} +- {np.std(found, ddof=1):.1f} %"
        )
    axis.set(title=f"{kind}, {RULES[method]}", ylim=(0, 100))
    axis.grid(alpha=0.3)
for axis in axes[1]:
    axis.set_xlabel("Privacy budget ε (δ = 1e-5)")
for axis in axes[:, 0]:
    axis.set_ylabel("Accuracy of Gauss-Output [%]")
axes[0, 1].legend(fontsize="small", loc="lower right")
figure.savefig(folder / "ip_figure_5.png", dpi=150)
