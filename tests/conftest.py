"""What holds for every test: one BLAS thread in each process, and which tests are quick.

The arrays of the tests are small, and several workers share the processor. With a thread
for each core in each worker, OpenBLAS spends more time on waiting than on products. Numbers
of threads that the environment sets are kept: ``.ci/run`` runs numerical tests with two.
"""

import os
from pathlib import Path
from types import SimpleNamespace

import pytest

TESTS = Path(__file__).parent
THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")

# Before NumPy is imported, here and in the processes that tests start.
if not any(name in os.environ for name in THREADS):
    os.environ.update(dict.fromkeys(THREADS, "1"))

#: Files whose tests take about two seconds of processor time at most, and the layers.
QUICK = {
    "consensus/test_accuracy.py",
    "consensus/test_adjacency.py",
    "consensus/test_network.py",
    "consensus/test_plots.py",
    "consensus/test_private.py",
    "contract/test_golden.py",
    "core/test_adjacency.py",
    "core/test_balls.py",
    "core/test_budget.py",
    "core/test_design_constrained.py",
    "core/test_design_shifts.py",
    "core/test_inference_moves.py",
    "core/test_lipschitz_images.py",
    "core/test_manifold.py",
    "core/test_mechanism.py",
    "core/test_moves.py",
    "core/test_noise.py",
    "core/test_record.py",
    "core/test_withheld.py",
    "designs/test_certificates.py",
    "designs/test_constraints.py",
    "designs/test_foreign_plants.py",
    "designs/test_own_lambda.py",
    "designs/test_parts.py",
    "designs/test_responses.py",
    "designs/test_scope.py",
    "test_layers.py",
    "test_release.py",
}


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items):
    """Mark the tests of quick files, before ``-m`` chooses."""
    for item in items:
        is_ours = item.path.is_relative_to(TESTS)
        name = item.path.relative_to(TESTS).as_posix() if is_ours else ""
        if name in QUICK and not item.get_closest_marker("slow"):
            item.add_marker("quick")


@pytest.fixture
def repeated_bits(monkeypatch):
    """The bits that the operating system would give, the same in each run.

    Tests of the law of exact noise compare samples, and would fail by chance now and then.
    """
    import numpy as np

    from privcontrol.consensus import agent
    from privcontrol.privacy.release import SeededBits, SystemBits

    rng = np.random.default_rng(0)
    source = SeededBits(rng)
    monkeypatch.setattr(SystemBits, "bits", lambda self, count: source.bits(count))
    monkeypatch.setattr(agent, "secrets", SimpleNamespace(token_bytes=rng.bytes))
