"""IP Figure 5, accuracy of Gauss-Output against the privacy budget for several radii

The 1-Lipschitz network with noise on its scores, delta = 1e-5, 15 tests. By the paper's classical rule the accuracy
depends on radius / epsilon alone; by the exact rule a small radius at a small epsilon is cheaper than that. Run it as
``python ip_figure_5.py [folder]``.
"""

import sys
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from ip_digits import RULES, Classifiers

folder = Path(sys.argv[1] if len(sys.argv) > 1 else ".")
classifiers, epsilons = Classifiers(), np.array([0.1, 0.25, 0.5, 1, 1.5, 2, 3, 4, 5])
styles = {
    0.01: ("#0072B2", "o"),
    0.05: ("#009E73", "^"),
    0.1: ("#E69F00", "s"),
    0.2: ("#D55E00", "D"),
}
figure, axes = plt.subplots(1, 2, figsize=(8.6, 4.0), sharey=True, layout="constrained")
for axis, (method, title) in zip(axes, RULES.items()):
    rng = np.random.default_rng(1)
    for radius, (color, marker) in styles.items():
        mechanisms = [
            classifiers.gauss_output(epsilon, radius, method) for epsilon in epsilons
        ]
        tests = 100 * np.array(
            [classifiers.accuracy(mechanism, rng=rng) for mechanism in mechanisms]
        )
        mean, std = tests.mean(axis=1), tests.std(axis=1, ddof=1)
        axis.errorbar(
            epsilons,
            mean,
            std,
            color=color,
            marker=marker,
            ms=4,
            lw=1.3,
            capsize=2,
            label=f"α = {radius:g}",
        )
    pair = [
        classifiers.gauss_output(epsilon, radius, method)
        for epsilon, radius in ((0.1, 0.01), (1.0, 0.1))
    ]
    accuracy = [
        100 * classifiers.accuracy(mechanism, rng=rng).mean() for mechanism in pair
    ]
    print(f"{title}: at radius 0.01, epsilon 0.1 noise {pair[0].scale:.4f} and accuracy {accuracy[0]:.1f} %; "
          f"at radius 0.1, epsilon 1 noise {pair[1].scale:.4f} and {accuracy[1]:.1f} %")  # fmt: skip
    axis.set(xlabel="privacy budget ε (δ = 1e-5)", title=title, ylim=(0, 100))
    axis.grid(alpha=0.3)
axes[0].set_ylabel("accuracy of Gauss-Output [%]")
axes[1].legend(fontsize="small", loc="lower right")
figure.savefig(folder / "ip_figure_5.png", dpi=150)
