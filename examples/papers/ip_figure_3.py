"""IP Figure 3, accuracy of private classifiers against the radius

Epsilon = 1, delta = 1e-5, radii from 0 to 0.2 in the l2 norm, real digits in place of
CIFAR-10: noise on the input or on the output, by the paper's classical rule and by the
exact one. Up to these radii a network that is really tuned stays ahead of Gauss-Output
on a 1-Lipschitz network, or level with it; one that is tuned as in the published
notebooks, where no weight moves, falls far behind. Run it as
``python ip_figure_3.py [folder]``.
"""

import sys
from pathlib import Path

import numpy as np
from ip_digits import sweep_figure

folder = Path(sys.argv[1] if len(sys.argv) > 1 else ".")
radii = np.array([0, 0.01, 0.025, 0.05, 0.1, 0.15, 0.2])
print(f"{'accuracy [%] at radius':42s}" + "".join(f"{radius:6.3g}" for radius in radii))
figure = sweep_figure(
    radii,
    [(1.0, radius) for radius in radii],
    "radius α (ε = 1, δ = 1e-5)",
    [0, 0.05, 0.1, 0.15, 0.2],
)
figure.savefig(folder / "ip_figure_3.png", dpi=150)
