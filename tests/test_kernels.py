"""Claims do not depend on the order in which a BLAS kernel adds."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / ".ci" / "tools"))

import other_kernel

CONSTANT = """
import numpy as np
from privcontrol.core import ClippedNetwork
rng = np.random.default_rng(1)
weights = [rng.standard_normal(shape) / 2 for shape in ((5, 3), (4, 5), (2, 4))]
biases = [rng.standard_normal(len(W)) for W in weights]
print(float(ClippedNetwork(weights, biases, -1e-6, 1e-6, "tanh").lipschitz()))
"""


@pytest.mark.slow
def test_a_certified_constant_is_that_of_every_kernel():
    """0.10660 to 0.10670 once, as the kernel decided where the solver stopped."""
    able = other_kernel.flags()
    names = [name for name in other_kernel.KERNELS if other_kernel.NEEDS[name] <= able]
    found = {}
    for name in names:
        run = subprocess.run(
            [sys.executable, "-c", CONSTANT],
            env=os.environ | {"OPENBLAS_CORETYPE": name},
            capture_output=True,
            text=True,
            check=True,
        )
        found[name] = float(run.stdout)
    for value in found.values():
        assert value == pytest.approx(0.1065438, rel=1e-5), found


def test_another_kernel_is_one_that_the_machine_runs_or_there_is_a_reason():
    name, reason = other_kernel.other()
    assert (name is None) != (reason == "")
    if name is not None:
        assert other_kernel.kernels(name) == {name}
        assert name not in other_kernel.kernels()
