"""A horizon is the number that it is, and answers what differs between runs that end and those that do not."""

import copy
import json
import math
import pickle

import numpy as np
import pytest

from privcontrol.privacy.horizon import Endless, Run, horizon_of


def test_a_horizon_is_its_number():
    run, endless = horizon_of(np.int64(12)), horizon_of(np.float64(np.inf))
    assert isinstance(run, Run)
    assert isinstance(endless, Endless)
    assert (run, run + 1, repr(run), json.dumps(run)) == (12, 13, "12", "12")
    assert (endless, repr(endless)) == (math.inf, "inf")
    assert horizon_of(run) is run
    assert hash(run) == hash(12)


@pytest.mark.parametrize("horizon", [Run(12), Endless()])
def test_copies_are_horizons(horizon):
    for other in (copy.deepcopy(horizon), pickle.loads(pickle.dumps(horizon))):
        assert other == horizon
        assert type(other) is type(horizon)


@pytest.mark.parametrize("wrong", [0, -1, 2.0, True, "12", None, np.nan, -np.inf])
def test_other_values_are_refused_by_name(wrong):
    with pytest.raises((TypeError, ValueError), match="^horizon:"):
        horizon_of(wrong)


def test_only_a_run_has_a_last_sample():
    assert Run(12).first(12) == Endless().first(12) == 12
    with pytest.raises(ValueError, match="at most the 12 samples"):
        Run(12).first(13)
    assert Run(12).count("no") == 12
    with pytest.raises(ValueError, match=r"pass horizon=\.\.\."):
        Endless().count("pass horizon=...")


@pytest.mark.parametrize("distance", [1, 3, 4, 11, 12, 30])
def test_room_counts_starts_within_the_run(distance):
    assert Run(12).room(distance) == len(range(0, 12, distance))
    assert Endless().room(distance) == math.inf


def test_words_name_the_window():
    run = Run(12)
    assert run.words(1, None) == run.words(1, (0, 12)) == "12 samples"
    assert run.words(1, (3, 15)) == "12 samples (3 to 14 of the run)"
    assert run.words(1, (3, 5)) == "12 samples in all, of which 3 to 4 are published"
    assert Endless().words(1, None) == "one run of any length"
    assert Endless().words(2, None) == "runs of any length"
