"""IP Figure 6, accuracy of two tasks under several radii and privacy budgets

The paper sets CIFAR-10 beside CIFAR-100, a task of few answers beside one of many. Here the same released scores
answer "odd or even?" and "which digit?": Gauss-Output, delta = 1e-5, means of 15 tests, first by the paper's
classical rule, then by the exact one. Run it as ``python ip_figure_6.py [folder]``.
"""

import sys
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from ip_digits import RULES, Classifiers

folder = Path(sys.argv[1] if len(sys.argv) > 1 else ".")
classifiers, radii, epsilons = (
    Classifiers(),
    (0.01, 0.05, 0.1, 0.2),
    (0.1, 0.5, 1, 2, 5),
)
tasks = {"odd or even?": lambda digit: digit % 2, "which digit?": lambda digit: digit}
figure, axes = plt.subplots(
    2, 2, figsize=(8.6, 5.4), sharex=True, sharey=True, layout="constrained"
)
for column, (method, title) in zip(axes.T, RULES.items()):
    column[0].set_title(title)
    column[1].set_xlabel("privacy budget ε (δ = 1e-5)")
    for axis, (name, task) in zip(column, tasks.items()):
        rng = np.random.default_rng(2)
        table = 100 * np.array([[classifiers.accuracy(classifiers.gauss_output(epsilon, radius, method), rng=rng, task=task).mean()
                                 for epsilon in epsilons] for radius in radii])  # fmt: skip
        image = axis.imshow(table, cmap="cividis", vmin=0, vmax=100, aspect="auto")
        for (row, place), value in np.ndenumerate(table):
            axis.text(
                place,
                row,
                f"{value:.1f}",
                ha="center",
                va="center",
                color="black" if value > 50 else "white",
            )
        print(
            f"{method:9s} {name}",
            *(
                f"radius {r:g}: {np.array2string(row, precision=1)}"
                for r, row in zip(radii, table)
            ),
        )
for axis, name in zip(axes[:, 0], tasks):
    axis.set_ylabel(f"{name}\nradius α")
    axis.set_yticks(range(len(radii)), [f"{radius:g}" for radius in radii])
axes[0, 0].set_xticks(range(len(epsilons)), [f"{epsilon:g}" for epsilon in epsilons])
figure.colorbar(image, ax=axes, label="accuracy on 500 test images [%]")
figure.savefig(folder / "ip_figure_6.png", dpi=150)
