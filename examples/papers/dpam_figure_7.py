"""DPAM Figure 7, mean-square errors of ten private agents with Laplace noise

The total mean-square error of the states for epsilon = 1, 0.1 and 0.01 with the paper's
sigma = 1, 10 and 100, below the bounds of Proposition 1. Next to it stands the error of
the messages, public already, with the same noise: n - 1 = 9 times less. Run it as
``python dpam_figure_7.py [folder]``.
"""

import sys
from pathlib import Path

from dpam_agents import error_figure

folder = Path(sys.argv[1] if len(sys.argv) > 1 else ".")
error_figure("laplace").savefig(folder / "dpam_figure_7.png", dpi=150)
