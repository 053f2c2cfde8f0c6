"""IP Figure 4, accuracy of private classifiers against the privacy budget

Radius 0.1, delta = 1e-5, epsilon from 0.1 to 5, real digits in place of CIFAR-10, by
the paper's classical rule and by the exact one. Accuracy grows with epsilon (the
paper's text says that it falls). At the smallest ones Gauss-Output is ahead of a
network that is really tuned, as the paper says of the high-privacy region. Above
epsilon = 8.42 the classical rule breaks its claim. Run it as ``python ip_figure_4.py
[folder]``.
"""

import sys
from pathlib import Path

from ip_digits import sweep_figure

folder = Path(sys.argv[1] if len(sys.argv) > 1 else ".")
epsilons = [0.1, 0.25, 0.5, 1, 2, 3, 5]
header = "".join(f"{epsilon:6g}" for epsilon in epsilons)
print(f"{'accuracy [%] at epsilon':42s}{header}")
figure = sweep_figure(
    epsilons,
    [(epsilon, 0.1) for epsilon in epsilons],
    "privacy budget ε (α = 0.1, δ = 1e-5)",
    range(1, 6),
)
figure.savefig(folder / "ip_figure_4.png", dpi=150)
