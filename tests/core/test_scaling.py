"""Sizes settle where the evaluated guarantee meets the budget, and never below."""

import math

import pytest

from privcontrol.core.budget import scale_to_budget


@pytest.mark.parametrize("bias", [0.0, 1e-15, 1e-9, 0.3])
def test_the_scale_grows_by_the_excess_until_the_evaluated_shift_is_allowed(bias):
    """A shift 1/scale that is evaluated too large by a relative bias."""
    tried = []

    def evaluate(scale):
        tried.append(scale)
        shift = (1 + bias) / scale
        return shift, shift / 0.5

    shift, scale, excess = scale_to_budget(evaluate, 2.0)
    assert excess <= 1 and shift <= 0.5
    assert tried == sorted(tried) and tried[-1] == scale
    assert scale <= 2.0 * (1 + bias) * (1 + 1e-13)


def test_what_scaling_does_not_mend_ends_with_its_excess():
    calls = []

    def evaluate(scale):
        calls.append(scale)
        return "noise", 1.5

    assert scale_to_budget(evaluate, 1.0, largest_excess=1.1) == ("noise", 1.0, 1.5)
    assert len(calls) == 1
    _, scale, excess = scale_to_budget(evaluate, 1.0)
    assert excess == 1.5 and math.isfinite(scale)
