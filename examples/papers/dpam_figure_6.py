"""DPAM Figure 6, mean-square errors of ten private agents with Gaussian noise

The total mean-square error of the states for epsilon = 1, 0.1 and 0.01 with the paper's
sigma = 2.5244, 23.4765 and 232.8495, below the bounds of Proposition 1. Next to it
stands the error of the messages, public already, calibrated by eq. (7): 16 to 640 times
less. Run it as ``python dpam_figure_6.py [folder]``.
"""

import sys
from pathlib import Path

from dpam_agents import error_figure

folder = Path(sys.argv[1] if len(sys.argv) > 1 else ".")
error_figure("gaussian").savefig(folder / "dpam_figure_6.png", dpi=150)
