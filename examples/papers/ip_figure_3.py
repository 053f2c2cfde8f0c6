"""IP Figure 3, accuracy of private classifiers against the radius

Epsilon = 1, delta = 1e-5, radii from 0 to 0.2 in the l2 norm, 15 tests: noise on the input or on the output, first by
the paper's classical rule, then by the exact one. The digits take the place of CIFAR-10; on them the fine-tuned
network stays ahead of Gauss-Output at all radii, which the paper's does not. Run it as ``python ip_figure_3.py
[folder]``.
"""

import sys
from pathlib import Path

import numpy as np
from ip_digits import sweep_figure

folder = Path(sys.argv[1] if len(sys.argv) > 1 else ".")
radii = np.linspace(0, 0.2, 9)
print(f"{'accuracy [%] at radius':36s}" + "".join(f"{radius:6.3g}" for radius in radii))
figure = sweep_figure(
    radii, [(1.0, radius) for radius in radii], "radius α (ε = 1, δ = 1e-5)", radii[::2]
)
figure.savefig(folder / "ip_figure_3.png", dpi=150)
