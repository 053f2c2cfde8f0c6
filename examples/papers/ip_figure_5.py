"""IP Figure 5, accuracy of Gauss-Output against the privacy budget for several radii

The 1-Lipschitz network on real digits with noise on its scores, delta = 1e-5. By the
paper's classical rule the accuracy depends on radius / epsilon alone; by the exact rule a
small radius at a small epsilon is cheaper than that. Run it as ``python ip_figure_5.py
[folder]``.
"""

import sys
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from ip_digits import RULES, SEEDS, Classifiers

folder = Path(sys.argv[1] if len(sys.argv) > 1 else ".")
networks = [Classifiers(seed) for seed in SEEDS]
epsilons = np.array([0.1, 0.25, 0.5, 1, 2, 3, 5])
styles = {
    0.01: ("#0072B2", "o", "-"),
    0.05: ("#009E73", "^", "--"),
    0.1: ("#E69F00", "s", "-."),
    0.2: ("#D55E00", "D", ":"),
}


def tests(epsilon, radius, method):
    """Accuracy in per cent of each seed's network."""
    rng = np.random.default_rng(1)
    return [
        100 * each.accuracy(each.gauss_output(epsilon, radius, method), rng=rng)
        for each in networks
    ]


figure, axes = plt.subplots(1, 2, figsize=(7.2, 3.4), sharey=True, layout="constrained")
for axis, (method, title) in zip(axes, RULES.items(), strict=True):
    for radius, (color, marker, line) in styles.items():
        table = np.array([tests(epsilon, radius, method) for epsilon in epsilons])
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
        scale = networks[0].gauss_output(epsilon, radius, method).scale
        accuracy = np.mean(tests(epsilon, radius, method))
        print(
            f"{title}, radius {radius:g}, epsilon {epsilon:g}: "
            f"noise {scale:.4f}, accuracy {accuracy:.1f} %"
        )
    axis.set(xlabel="privacy budget ε (δ = 1e-5)", title=title, ylim=(0, 100))
    axis.grid(alpha=0.3)
axes[0].set_ylabel("accuracy of Gauss-Output [%]")
axes[1].legend(fontsize="small", loc="lower right")
figure.savefig(folder / "ip_figure_5.png", dpi=150)
