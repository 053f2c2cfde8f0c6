"""An adversary chooses noise and answers in thousands of runs under one budget.

Prints delta(epsilon) of the observed privacy loss beside that of one Gaussian release,
for noise as promised and for noise that is smaller. Run it as
``PYTHONPATH=. python tests/stress/attack_adaptive_runs.py [runs]``.
"""

import sys
from pathlib import Path

import numpy as np

from privcontrol.core import PrivacyBudget, kappa

sys.path.insert(0, str(Path(__file__).parents[1] / "core"))
from test_adaptive import attacked_run, hockey_stick

runs = int(sys.argv[1]) if len(sys.argv) > 1 else 20_000
rng = np.random.default_rng(1)
print(f"{runs} runs; epsilon: delta by Monte Carlo +- standard error, one release, z")
for smaller in (1.0, 0.97):
    budget = PrivacyBudget(gdp=1.0)
    ratios = [attacked_run(budget, "gaussian", rng, smaller) for _ in range(runs)]
    for epsilon in (0.0, 0.5, 1.0, 2.0):
        delta, error = hockey_stick(ratios, epsilon)
        promised = kappa(epsilon, 1.0)
        print(
            f"noise times {smaller:4}, {epsilon:3}: {delta:.5f} +- {error:.5f}, "
            f"{promised:.5f}, {(delta - promised) / error:+.1f}"
        )
