"""The sizes by which a text names a growing mode, against one step after another."""

import numpy as np
import pytest

from privcontrol.secrets import modes


@pytest.mark.parametrize("count", [0, 1, 6, 7, 50])
def test_sizes_in_stretches_are_those_of_single_steps(count, monkeypatch):
    """Stretches of seven samples, of two outputs and five moves."""
    monkeypatch.setattr(modes, "BLOCK", 7 * 2 * 5)
    rng = np.random.default_rng(0)
    C, states = rng.standard_normal((2, 3)), rng.standard_normal((3, 5))
    block = np.array([[0.9, 1.0, 0.0], [0.0, 0.9, 1.0], [0.0, 0.0, 0.9j]])
    sizes = modes._sizes(C, block, states, count)
    power = np.eye(3)
    for size in sizes:
        assert size == pytest.approx(np.linalg.norm(C @ power @ states, axis=0).max())
        power = power @ block
    assert len(sizes) == count
