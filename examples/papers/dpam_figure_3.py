"""DPAM Figure 3, tracking errors against the privacy loss

Mean-square errors of the vehicle at the end of the run against epsilon, for structured
(r = 1) and i.i.d. noise (r = T): first calibrated by the paper's rule, at the seven
epsilons of its published code, then by eq. (7) itself. All values are exact. Run it as
``python dpam_figure_3.py [folder]``.
"""

import sys
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from dpam_vehicle import RULES, RUN, STATES, private_vehicle

folder = Path(sys.argv[1] if len(sys.argv) > 1 else ".")
epsilons = [0.01, 0.05, 0.1, 0.5, 1, 5, 10]
shapes = {
    "gaussian": ("structured, $r = 1$", "o"),
    "iid-gaussian": ("i.i.d., $r = T$", "s"),
}
figure, axes = plt.subplots(1, 2, figsize=(8.4, 4.0), layout="constrained")
for method, (rule, color) in RULES.items():
    for family, (shape, marker) in shapes.items():
        loops = [private_vehicle(epsilon, method, family) for epsilon in epsilons]
        errors = np.array([loop.mean_square_error(**RUN)[:, -1] for loop in loops])
        for axis, error in zip(axes, errors.T):
            line = "--" if method == "lenypappas" else "-"
            axis.loglog(
                epsilons,
                error,
                line,
                marker=marker,
                ms=5,
                color=color,
                label=f"{shape}, {rule}",
            )
        position, velocity = errors[epsilons.index(1)]
        print(
            f"epsilon = 1, {family:12s} noise, {rule}: {position:6.2f} m^2, {velocity:9.3g} (m/s)^2 at the end"
        )

for axis, (state, symbol, _, square) in zip(axes, STATES):
    ylabel = rf"E$|{symbol}(t) - {symbol}_r(t)|^2$ at $t$ = 9.9 s [{square}]"
    axis.set(title=state, xlabel="Privacy loss ε (δ = 0.01, radius 1 m)", ylabel=ylabel)
    axis.grid(alpha=0.3)
figure.legend(
    *axes[0].get_legend_handles_labels(),
    loc="outside lower center",
    ncols=2,
    frameon=False,
)
figure.savefig(folder / "dpam_figure_3.png", dpi=150)
