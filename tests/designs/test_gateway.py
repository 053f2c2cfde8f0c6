"""A gateway publishes exact noise once, what happens to its process."""

import json
import logging
import os
import pickle
import shutil
import sqlite3
import stat
import subprocess
import sys
import warnings
from contextlib import closing
from fractions import Fraction
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import control as ct
import numpy as np
import pytest
import scipy.linalg
from gateway_cases import ENDLESS, HORIZON, REQUESTS, noise
from repeats import few

import privcontrol as pc
from privcontrol.deploy.gateway import _check_rule
from privcontrol.noise import exact
from privcontrol.noise.drawn import COARSE_BITS, FINE_BITS, _Responses
from privcontrol.noise.exact import ExactNoise
from privcontrol.numerics.balls import (
    Rational,
    ball_matrix,
    rational_matrix,
    working_bits,
)

KINDS = list(REQUESTS)
#: All kinds, of which the first four differ most.
MIXED = sorted(
    [*KINDS, *ENDLESS],
    key=["endless floored", "laplace", "correlated and floored", "driven"].__contains__,
    reverse=True,
)
#: What is published is looked at here in all bits.
Gateway = partial(pc.Gateway, floating=True)
LARGE = pc.PrivacyBudget(epsilon=50.0, delta=1e-2)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "gateway.sqlite"


def two_outputs():
    return ct.ss(
        [[0.9, 0.1], [0.0, 0.8]],
        [[0.0], [1.0]],
        [[1.0, 0.0], [0.3, 1.0]],
        0,
        1,
        states=["position", "velocity"],
        outputs=["a", "b"],
    )


@pytest.mark.parametrize("kind", KINDS)
def test_enclosures_hold_the_noise_of_the_design(kind):
    """The signal of the design, for the same entries, by its own recursion in doubles."""
    design = noise(kind)
    exact = ExactNoise(design)
    exact.entries.update(exact.draw(range(exact.once)))
    exact.entries.update(exact.draw(exact.numbers(0, HORIZON)))
    entries = np.array([float(e.ball().mid()) for e in exact.entries.values()])
    eta = np.zeros((1, HORIZON, design.process.total.once + design.process.total.width))
    eta[0, 0, : design.process.total.once] = entries[: design.process.total.once]
    eta[0, :, design.process.total.once :] = entries[
        design.process.total.once :
    ].reshape(HORIZON, design.process.total.width)
    drawn = entries[None] if not design.process.total.width else eta
    expected = design.process.signal(drawn)[0]
    for t in range(HORIZON):
        for ball, value in zip(exact.sample(t), expected[t]):
            middle = 0.0 if ball is None else float(ball.mid())
            assert middle == pytest.approx(value, rel=1e-9, abs=1e-9)
            assert ball is None or float(ball.rad()) < 1e-30


@pytest.mark.parametrize("varies", [False, True])
@pytest.mark.parametrize(
    "times",
    [range(60), [5, 6, 7, 40, 41, 3], [120, 126, 127], range(40, 55)],
    ids=["in order", "forward and back", "late", "in the middle"],
)
def test_responses_hold_those_of_exact_arithmetic(times, varies):
    """Of a plant that decays while errors grow tenfold a sample, so that bits run out."""
    steps = np.array([[5.0, -24.0], [1.0, -5.0]]) * 0.99 * np.ones((128, 1, 1))
    if varies:
        steps *= 1 + np.arange(128)[:, None, None] / 1000
    gains = np.array([[1.0, 0.5], [0.3, -2.0]]) + np.arange(128)[:, None, None] / 3
    start = np.array([[1.0, 0.0], [1.0, 1.0]])
    A, C = (steps, gains) if varies else (steps[0], gains[0])
    exact = [rational_matrix(start)]
    for step in steps:
        exact.append(rational_matrix(step) * exact[-1])
    for bits in (128, 500):
        responses = _Responses(A, C, ball_matrix(start))
        for t in times:
            wanted = rational_matrix(gains[t if varies else 0]) * exact[t]
            found = responses.at(t, bits)
            size = max(abs(float(x)) for x in exact[t].entries())
            for balls, values in zip(found, wanted.tolist(), strict=True):
                for ball, value in zip(balls, values, strict=True):
                    with working_bits(20_000):  # all bits of the value
                        assert ball.contains(value)
                    assert ball.rad() <= 200 * size * 2.0**-bits


def test_a_state_that_a_growing_mode_hides_is_followed_with_up_to_262144_bits():
    """Errors double with each sample, and the state itself stays as it is."""
    A = np.array([[3.0, -1.0], [2.0, 0.0]])  # modes 2 and 1
    still = np.array([[1.0], [2.0]])
    responses = _Responses(A, np.eye(2), ball_matrix(still))
    for t in (20_000, 120_000):
        assert [float(row[0]) for row in responses.at(t, 128)] == [1.0, 2.0]
    with pytest.raises(pc.core.UncertifiableError, match="262144-bit arithmetic"):
        responses.at(300_000, 128)


@pytest.mark.parametrize("kind", KINDS)
def test_rough_samples_hold_those_of_many_bits(kind):
    exact = ExactNoise(noise(kind))
    exact.entries.update(exact.draw(range(exact.once)))
    exact.entries.update(exact.draw(exact.numbers(0, HORIZON)))
    rough = exact.samples(range(HORIZON))
    for entry in exact.entries.values():
        entry.refine(800)
    for t in range(HORIZON):
        for wide, narrow in zip(rough[t], exact.sample(t), strict=True):
            assert wide is narrow is None or wide.contains(narrow)


@pytest.mark.parametrize("kind", KINDS)
def test_of_a_span_only_what_was_not_drawn_before_is_drawn(kind):
    exact = ExactNoise(noise(kind))
    exact.entries.update(exact.drawn_for(exact.room.spans(0, 3)))
    known = set(exact.entries)
    fresh = exact.drawn_for(exact.room.spans(1, 7))
    assert not known & fresh.keys()
    assert known | fresh.keys() >= set(exact.numbers(0, 7))


def test_noise_of_several_outputs_keeps_its_rows_apart():
    design = noise("floored", plant=two_outputs())
    exact = ExactNoise(design)
    rows = [exact.rows(t, 128) for t in (0, 3)]
    white = [[k for k in row if k >= exact.once] for sample in rows for row in sample]
    first = exact.once
    assert white == [[first], [first + 1], [first + 6], [first + 7]]


@pytest.mark.parametrize("kind", KINDS)
def test_a_run_is_published_on_the_grid_and_ends_with_its_horizon(kind, path):
    with Gateway(noise(kind), path=path, grid=0.001, resolution=0.001) as gateway:
        published = [gateway.publish(1000 * t) for t in range(HORIZON)]
        assert gateway.remaining == 0
        with pytest.raises(pc.PrivacyError, match="restart is counted"):
            gateway.publish(0)
    steps = np.array(published) / 0.001
    assert steps.shape == (HORIZON, 1)
    assert np.allclose(steps, np.round(steps), atol=1e-6)


@pytest.mark.usefixtures("repeated_bits")
@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_published_noise_has_the_covariance_of_the_design(kind):
    """800 runs: each variance within 20 %, five standard errors of a Gaussian's.

    Laplace entries have a kurtosis of 6 and twice the standard error.
    """
    design = noise(kind, horizon=4)
    runs = []
    for _ in range(800):
        gateway = Gateway(design, block=4)
        runs.append([gateway.publish(0.0)[0] for _ in range(4)])
        gateway.close()
    expected = [design.covariance(t).item() for t in range(4)]
    allowed = 0.5 if "laplace" in kind else 0.25
    assert np.var(runs, axis=0) == pytest.approx(expected, rel=allowed)


def test_the_ledger_is_charged_once_before_the_first_sample(path, tmp_path):
    ledger = pc.PrivacyLedger(LARGE, tmp_path / "ledger.sqlite")
    gateway = Gateway(noise("driven"), path=path, ledger=ledger, note="line 3")
    assert ledger.history == ()
    gateway.publish(0.0)
    assert [note for note, _, _ in ledger.history] == ["line 3"]
    for _ in range(3):
        gateway.close()
        gateway = pc.Gateway.resume(path, ledger=ledger)
        gateway.publish(0.0)
    assert len(ledger.history) == 1
    gateway.close()


def test_every_ledger_that_a_gateway_is_given_is_charged_before_it_goes_on(
    path, tmp_path
):
    """None at first, then one, then one that replaces it, and one that cannot pay."""
    Gateway(noise("driven"), path=path, block=4).close()
    for name in ("first", "second"):
        ledger = pc.PrivacyLedger(LARGE, tmp_path / name)
        for replaces in (name == "second", False):
            with pc.Gateway.resume(path, ledger=ledger, unguarded=replaces) as gateway:
                gateway.publish(0.0)
        assert len(ledger.history) == 1
    poor = pc.PrivacyLedger(pc.PrivacyBudget(gdp=1e-3))
    with pc.Gateway.resume(path, ledger=poor, unguarded=True) as gateway:
        for _ in range(2):
            with pytest.raises(pc.BudgetExceededError):
                gateway.publish(0.0)


def test_a_copy_in_use_does_not_catch_up_with_the_ledger(path, tmp_path):
    """However often it asks: its noise is another one, and the two do not add up."""
    ledger = pc.PrivacyLedger(LARGE, tmp_path / "ledger.sqlite")
    with Gateway(noise("driven"), path=path, ledger=ledger, block=4) as gateway:
        gateway.publish(0.0)
    other = tmp_path / "copy.sqlite"
    other.write_bytes(path.read_bytes())
    newest = pc.Gateway.resume(path, ledger=ledger)
    copy = pc.Gateway.resume(other, ledger=ledger)
    newest.publish(0.0)
    newest.close()
    for _ in range(HORIZON):
        with pytest.raises(pc.PrivacyError, match="newest"):
            copy.publish(0.0)
    copy.close()
    with pytest.raises(pc.PrivacyError, match="older copy"):
        pc.Gateway.resume(other, ledger=ledger)
    with pc.Gateway.resume(path, ledger=ledger) as again:
        again.publish(0.0)


def test_a_file_that_a_ledger_marked_needs_it(path, tmp_path):
    """Original and copy, resumed without it, published 92 of 92 samples twice."""
    ledger = pc.PrivacyLedger(LARGE, tmp_path / "ledger.sqlite")
    with Gateway(noise("structured"), path=path, ledger=ledger, block=4) as gateway:
        gateway.publish(0.0)
    for other in (None, pc.PrivacyLedger(LARGE)):
        with pytest.raises(pc.PrivacyError, match="unguarded=True"):
            pc.Gateway.resume(path, ledger=other)
    with pc.Gateway.resume(path, unguarded=True) as gateway:
        gateway.publish(0.0)
        assert gateway.next_index == 2
    with pytest.raises(pc.PrivacyError, match="unguarded=True"):
        pc.Gateway.resume(path)
    with pc.Gateway.resume(path, ledger=ledger) as gateway:
        gateway.publish(0.0)
        assert gateway.next_index == 3


@pytest.mark.parametrize("after", [0, 1, 9])
def test_a_ledger_that_never_knew_the_gateway_accepts_no_copy(after, path, tmp_path):
    """One put back from before the first sample did: 8 of 8 samples came again."""
    place = tmp_path / "ledger.sqlite"
    ledger = pc.PrivacyLedger(LARGE, place)
    before = place.read_bytes()
    with Gateway(noise("structured"), path=path, ledger=ledger, block=4) as gateway:
        for _ in range(after):
            gateway.publish(0.0)
    copy = tmp_path / "copy.sqlite"
    copy.write_bytes(path.read_bytes())
    with pc.Gateway.resume(path, ledger=ledger) as gateway:
        gateway.publish(0.0)
    for other in (ledger, pc.PrivacyLedger(LARGE, tmp_path / "another.sqlite")):
        with pytest.raises(pc.PrivacyError):
            pc.Gateway.resume(copy, ledger=other)
    place.write_bytes(before)
    with pytest.raises(pc.PrivacyError, match="or the ledger is"):
        pc.Gateway.resume(path, ledger=pc.PrivacyLedger.open(place))


def test_a_ledger_in_place_of_another_one_guards_from_its_first_sample(path, tmp_path):
    """A copy is refused by both. To go back to the first ledger is refused as well."""
    first, second = (pc.PrivacyLedger(LARGE, tmp_path / name) for name in ("1", "2"))
    with Gateway(noise("driven"), path=path, ledger=first, block=4) as gateway:
        gateway.publish(0.0)
    copy = tmp_path / "copy.sqlite"
    copy.write_bytes(path.read_bytes())
    with pc.Gateway.resume(path, ledger=second, unguarded=True) as gateway:
        gateway.publish(0.0)
    with pc.Gateway.resume(path, ledger=second) as gateway:
        gateway.publish(0.0)
    for name, ledger in ((copy, second), (path, first)):
        for unguarded in (False, True):
            with pytest.raises(pc.PrivacyError):
                pc.Gateway.resume(name, ledger=ledger, unguarded=unguarded)


def test_a_gateway_killed_between_its_charge_and_its_note_is_charged_once(
    path, tmp_path
):
    ledger = pc.PrivacyLedger(LARGE, tmp_path / "ledger.sqlite")
    gateway = Gateway(noise("structured"), path=path, ledger=ledger)
    ledger.charge(gateway.guarantee, identity=gateway.identity)
    gateway.close()
    with pytest.raises(ValueError, match="ledger=ledger"):
        pc.Gateway.resume(path)
    with pytest.raises(ValueError, match="may not have been charged"):
        pc.Gateway.resume(path, unguarded=True)
    with pc.Gateway.resume(path, ledger=ledger) as again:
        again.publish(0.0)
    assert len(ledger.history) == 1


def test_nothing_is_published_beyond_the_budget(path):
    ledger = pc.PrivacyLedger(pc.PrivacyBudget(epsilon=0.5, delta=1e-2))
    gateway = Gateway(noise("structured"), path=path, ledger=ledger)
    with pytest.raises(pc.BudgetExceededError):
        gateway.publish(0.0)
    assert gateway.next_index == 0
    assert ledger.spent is None
    gateway.close()


def test_simulations_cannot_be_charged():
    vehicle = pc.plants.vehicle()
    loop = pc.private_lqg(vehicle, np.eye(2), 1, np.eye(2), 1, noise("structured"))
    simulated = loop.simulate(rng=0).guarantee
    assert "simulated in double precision" in simulated.explain()
    ledger = pc.PrivacyLedger(LARGE)
    with pytest.raises(ValueError, match="simulation"):
        ledger.charge(simulated)
    assert "released exactly" in Gateway(noise("structured")).guarantee.sentence


def killed(gateway):
    """Let go of a gateway's file, as the end of its process does."""
    gateway._worker.end()
    gateway._store.close()


@pytest.mark.parametrize("kind", KINDS)
def test_a_resumed_gateway_goes_on_behind_what_it_may_have_published(kind, path):
    gateway = Gateway(noise(kind), path=path, block=4)
    for _ in range(6):
        gateway.publish(0.0)
    killed(gateway)
    resumed = pc.Gateway.resume(path)
    assert 8 <= resumed.next_index <= 12
    before = resumed.next_index
    resumed.publish(0.0)
    assert resumed.next_index == before + 1
    resumed.close()


@pytest.mark.parametrize("kind", ["structured", "driven", "correlated and floored"])
def test_a_resumed_gateway_continues_the_same_noise(kind, path, monkeypatch):
    """What is drawn once or remembered is that of the file, by the exact rows of the design."""
    design = noise(kind)
    gateway = Gateway(design, path=path, block=4)
    gateway.publish(0.0)
    killed(gateway)
    resumed = pc.Gateway.resume(path)
    t = resumed.next_index
    value = resumed.publish(0.0)[0]
    resumed.close()
    oracle, _ = restored(path, design)
    assert value == pytest.approx(float(oracle.sample(t)[0].mid()), rel=1e-15)


@pytest.mark.parametrize("kind", few(MIXED, of=4))
@pytest.mark.parametrize("calls", few([3, 1], of=1))
def test_a_clean_end_loses_no_sample_and_draws_none_twice(kind, calls, path):
    """A run for each reading lost every second one.

    After each end a copy of the file is killed in its next run, and goes on behind all
    that it drew. Entries that the file holds are never drawn again.
    """
    design = noise(kind)
    Gateway(design, path=path, block=2).close()
    seen = {}
    for run in range(6):
        copy = path.with_name(f"copy {run}")
        copy.write_bytes(path.read_bytes())
        with pc.Gateway.resume(path) as gateway:
            assert gateway.next_index == run * calls
            for _ in range(calls):
                gateway.publish(0.0)
        again = pc.Gateway.resume(copy)
        again.publish(0.0)
        killed(again)
        reached = again._committed
        with pc.Gateway.resume(copy) as again:
            assert again.next_index == reached > run * calls
        state, entries = kept(path)
        assert state["unused"] == (run + 1) * calls <= state["committed"]
        once = {"first": 0, "bits": state["once"]}
        for draw in [once, *entries[1:]]:
            for number, pair in enumerate(draw["bits"], draw["first"]):
                value, count = pair.split("/")
                bits = f"{int(value, 16):0{count}b}"
                known = seen.setdefault(number, bits)
                assert bits.startswith(known) or known.startswith(bits)


@pytest.mark.parametrize(
    "kind", few(["structured", "endless", "driven", "endless floored"], of=2)
)
def test_noise_is_the_same_with_and_without_clean_ends(kind, path, monkeypatch):
    """The same random bits, in one run and in a run for each reading."""
    design = noise(kind)
    expected = ExactNoise(design)
    bits = np.random.default_rng(5).integers(1 << 32, size=(HORIZON * 4 + 16, 8))

    def drawn(self, numbers):
        fresh = {}
        for number in numbers:
            value = int("".join(f"{word:08x}" for word in bits[number]), 16)
            fresh[number] = self._entry(self._source, value, 256)
        return fresh

    monkeypatch.setattr(ExactNoise, "draw", drawn)
    numbers = range(expected.numbers(0, 20).stop)
    expected.entries.update(expected.draw(numbers))
    Gateway(design, path=path, block=3).close()
    for t in range(9):
        with pc.Gateway.resume(path) as gateway:
            for _ in range(t % 2 + 1):
                (ball,) = expected.sample(gateway.next_index)
                exact = 0.0 if ball is None else float(ball.mid())
                assert gateway.publish(0.0)[0] == exact
    assert gateway.next_index == 13


def test_a_file_that_is_gone_at_a_clean_end_is_left_alone(path, caplog):
    gateway = Gateway(noise("driven"), path=path, block=4)
    gateway.publish(0.0)
    path.unlink()
    gateway.close()
    assert not path.exists()
    assert "drawn ahead are lost" in caplog.text


def kept(path):
    """The last state and all entries of a gateway's file, as they are."""
    connection = sqlite3.connect(path)
    ((state,),) = connection.execute("SELECT text FROM state").fetchall()
    rows = connection.execute("SELECT text FROM entries ORDER BY number").fetchall()
    connection.close()
    return json.loads(state)["state"], [json.loads(text) for (text,) in rows]


def restored(path, design):
    """The noise of a gateway's file, by a second reader of it."""
    state, entries = kept(path)
    oracle = ExactNoise(design)
    draws = [{"first": 0, "bits": state["once"], "states": []}, *entries[1:]]
    for draw in draws:
        for number, pair in enumerate(draw["bits"], draw["first"]):
            bits, count = pair.split("/")
            oracle.restore(number, int(bits, 16), int(count))
        if draw["states"]:
            oracle.restore_states(draw["start"], draw["states"])
    return oracle, state["committed"]


def test_indices_may_skip_lost_samples_and_never_go_back(path):
    with Gateway(noise("driven"), path=path, block=4) as gateway:
        gateway.publish(0.0)
        gateway.publish(0.0, index=17)
        assert gateway.remaining == HORIZON - 18
        for passed in (17, 5, 0):
            with pytest.raises(pc.PrivacyError, match="was passed"):
                gateway.publish(0.0, index=passed)
        gateway.publish(0.0, index=18)
        with pytest.raises(TypeError, match="index"):
            gateway.publish(0.0, index=20.0)


READINGS = [24, 24.0, np.int64(24), np.array([24]), Fraction(24), json.loads("24")]


@pytest.mark.parametrize("reading", READINGS, ids=lambda y: type(y).__name__)
def test_a_reading_is_a_value_whatever_its_type(reading):
    """24 was 24 counts, 2.4, and the 5 of a JSON text .005; noise of 0.07 tells."""
    design = noise("floored")
    with unplanned(design, resolution=0.1, grid="1e-6") as gateway:
        assert gateway._reading(reading, False) == [24]
        assert gateway._reading({"y": np.ravel(reading)[0]}, False) == [24]
        assert gateway._reading(240, True) == [24]
        assert abs(gateway.publish(reading)[0] - 24) < 10 * design.std[0]
        assert abs(gateway.publish(240, counts=True)[0] - 24) < 10 * design.std[0]


@pytest.mark.filterwarnings("ignore::privcontrol.PrivacyWarning")
@pytest.mark.parametrize("truth", [True, np.True_, [False], np.array([True])])
def test_a_truth_value_is_no_reading(truth):
    with pc.Gateway(noise("floored"), resolution=0.1) as gateway:
        for counts in (False, True):
            with pytest.raises(TypeError, match="y: expected real numbers, got bool"):
                gateway.publish(truth, counts=counts)
        with pytest.raises(TypeError, match="y: expected integers, counts of"):
            gateway.publish(24.0, counts=True)
        assert gateway.next_index == 0
    with (
        pc.Gateway(noise("floored"), grid=0.1) as gateway,
        pytest.raises(ValueError, match="counts: expected a resolution"),
    ):
        gateway.publish(24, counts=True)


def test_readings_by_name_and_by_place():
    gateway = Gateway(noise("floored", plant=two_outputs()), resolution=[0.5, 0.25])
    assert gateway.publish({"b": 1.0, "a": 2.0}).shape == (2,)
    assert gateway.publish([3, 4]).shape == (2,)
    for wrong in (1.0, [1.0], [1.0, 2.0, 3.0], [1.0, np.nan], {"a": 1.0}, "text"):
        before = gateway.next_index
        with pytest.raises((ValueError, TypeError)):
            gateway.publish(wrong)
        assert gateway.next_index == before
    gateway.close()


def test_errors_status_and_logs_show_no_private_value(path, caplog):
    secret = 98765.4321
    with caplog.at_level(logging.DEBUG, "privcontrol"):
        gateway = Gateway(noise("driven"), path=path, block=4)
        published = gateway.publish(secret)
        for wrong in ([secret, secret], {"z": secret}):
            with pytest.raises(ValueError, match="expected") as caught:
                gateway.publish(wrong)
            assert "98765" not in str(caught.value)
        gateway.close()
    shown = repr(gateway) + str(gateway.status()) + caplog.text
    assert "98765" not in shown
    assert str(published[0]) not in shown
    assert "drew samples" in caplog.text
    bits = [pair for draw in kept(path)[1][1:] for pair in draw["bits"]]
    assert bits
    assert not any(pair.split("/")[0] in shown for pair in bits)


def test_the_file_is_for_its_owner_and_for_one_process(path):
    gateway = Gateway(noise("structured"), path=path)
    gateway.publish(0.0)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    with pytest.raises(FileExistsError, match="resume"):
        Gateway(noise("structured"), path=path)
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # of a gateway that is not made nothing is said
        with pytest.raises(FileExistsError, match="resume"):
            Gateway(noise("floored"), path=path, resolution=0.1)
    with pytest.raises(OSError, match="only one may publish"):
        pc.Gateway.resume(path)
    gateway.close()
    with pytest.raises(pc.PrivacyError, match="closed"):
        gateway.publish(0.0)
    pc.Gateway.resume(path).close()


def test_a_file_has_one_lock_by_whatever_name_it_is_called(path, tmp_path):
    link = tmp_path / "link"
    link.symlink_to(path)
    with Gateway(noise("structured"), path=link) as gateway:
        gateway.publish(0.0)
        assert path.exists()
        for name in (path, link):
            with pytest.raises(OSError, match="only one may publish"):
                pc.Gateway.resume(name)
        gateway.publish(0.0)
    pc.Gateway.resume(path).close()


def test_a_second_name_of_a_file_is_refused(path, tmp_path):
    """A write that a crash cuts off under one name would be undone there later."""
    other = tmp_path / "other" / "gateway"
    other.parent.mkdir()
    ledger = pc.PrivacyLedger(LARGE, tmp_path / "ledger")
    with Gateway(noise("structured"), path=path, block=2) as gateway:
        gateway.publish(0.0)
        for file in (path, ledger._store.path):
            os.link(file, other.with_name(file.name))
        with pytest.raises(OSError, match="expected one name of the gateway"):
            [gateway.publish(0.0) for _ in range(5)]
    for name in (path, other.with_name(path.name)):
        with pytest.raises(OSError, match="got 2 hard links"):
            pc.Gateway.resume(name)
    with pytest.raises(OSError, match="expected one name of the privacy ledger"):
        ledger.charge(noise("structured").guarantee)
    shutil.rmtree(other.parent)
    ledger.charge(noise("structured").guarantee)
    with pc.Gateway.resume(path) as gateway:
        gateway.publish(0.0)


def test_a_file_that_is_mounted_alone_is_refused(path, monkeypatch):
    Gateway(noise("structured"), path=path).close()
    monkeypatch.setattr(os.path, "ismount", lambda place: place == str(path))
    with pytest.raises(OSError, match="got a mount of the file alone"):
        pc.Gateway.resume(path)


MOUNTED = """
import subprocess
import sys

import privcontrol as pc

file, name = sys.argv[1:]
subprocess.run(["mount", "--bind", file, name], check=True)
for path in (name, file):
    try:
        pc.Gateway.resume(path).close()
    except OSError as error:
        print(error)
"""


def test_a_mount_within_one_file_system_is_seen(path, tmp_path):
    """It has the device of its folder, and both names had a lock and a journal."""
    alone = ["unshare", "--user", "--map-root-user", "--mount"]
    if not shutil.which("unshare") or subprocess.run([*alone, "true"]).returncode:
        pytest.skip("nothing can be mounted here")
    Gateway(noise("structured"), path=path).close()
    other = tmp_path / "folder" / "name"
    other.parent.mkdir()
    other.touch()
    child = [*alone, sys.executable, "-c", MOUNTED, path, other]
    said = subprocess.run(child, check=True, capture_output=True, text=True).stdout
    assert "got a mount of the file alone" in said
    assert repr(str(other)) in said
    assert len(said.splitlines()) == 1  # the file's own name is not refused


def test_what_is_no_regular_file_is_no_store(tmp_path):
    """Opening a pipe would wait for somebody who writes to it."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    for wrong in (pipe, tmp_path):
        for opened in (pc.Gateway.resume, pc.PrivacyLedger.open):
            with pytest.raises(FileNotFoundError, match="got none at"):
                opened(wrong)


def test_gateways_are_not_copied():
    gateway = Gateway(noise("structured"))
    with pytest.raises(TypeError, match="resume"):
        pickle.dumps(gateway)
    gateway.publish(0.0)
    child = os.fork()
    if child == 0:
        try:
            gateway.publish(0.0)
        except pc.PrivacyError:
            os._exit(7)
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
    gateway.close()


def test_files_that_are_no_gateway_or_were_altered_are_refused(path, tmp_path):
    with pytest.raises(FileNotFoundError, match="another window"):
        pc.Gateway.resume(path)
    gateway = Gateway(noise("correlated"), path=path, block=4)
    gateway.publish(0.0)
    gateway.close()
    whole = path.read_bytes()
    rng = np.random.default_rng(0)
    for flip in rng.integers(0, 8 * len(whole), 60):
        changed = bytearray(whole)
        changed[flip // 8] ^= 1 << (flip % 8)
        damaged = tmp_path / "damaged.sqlite"
        damaged.write_bytes(changed)
        try:
            resumed = pc.Gateway.resume(damaged)
        except (ValueError, OSError):
            continue
        assert resumed._committed == 8  # a byte that nothing depends on
        resumed.close()
    for wrong in (b"", whole[: len(whole) // 2], b"text" * 999):
        damaged = tmp_path / "damaged.sqlite"
        damaged.write_bytes(wrong)
        with pytest.raises((ValueError, OSError)):
            pc.Gateway.resume(damaged)


@pytest.mark.parametrize("number", [0, 1, None])
def test_a_record_that_was_altered_is_refused(path, number):
    """The opening, a block, and the state with what is drawn once: one digit is changed."""
    with Gateway(noise("correlated"), path=path, block=4) as gateway:
        gateway.publish(0.0)
    connection = sqlite3.connect(path)
    table, where = (
        ("state", "") if number is None else ("entries", f"WHERE number = {number}")
    )
    (text,) = connection.execute(f"SELECT text FROM {table} {where}").fetchone()
    place = max(k for k, letter in enumerate(text) if letter.isdigit())
    digit = str((int(text[place]) + 1) % 10)
    changed = text[:place] + digit + text[place + 1 :]
    connection.execute(f"UPDATE {table} SET text = ? {where}", (changed,))
    connection.commit()
    connection.close()
    with pytest.raises(ValueError, match="altered or damaged"):
        pc.Gateway.resume(path)


def test_a_file_names_a_rule_for_walls_only_where_there_are_blocks(path):
    """Files of before say null there, which is the same."""
    with Gateway(noise("structured"), path=path) as gateway:
        gateway.publish(0.0)
    with closing(sqlite3.connect(path)) as connection:
        (text,) = connection.execute(
            "SELECT text FROM entries WHERE number = 0"
        ).fetchone()
    opening = json.loads(text)
    assert "walls" not in opening
    _check_rule(opening | {"walls": None}, None, path)


DISK_FULL = """
import resource, sys
import privcontrol as pc
from gateway_cases import noise
path = sys.argv[1]
gateway = pc.Gateway(noise("correlated"), path=path, block=4, floating=True)
size = resource.getrlimit(resource.RLIMIT_FSIZE)
import os
resource.setrlimit(resource.RLIMIT_FSIZE, (512, size[1]))
try:
    for t in range(40):
        gateway.publish(0.0)
    print("published all")
except OSError as error:
    print("refused", gateway._committed % 4, "nothing is published" in str(error))
"""


@pytest.mark.slow
def test_a_full_disk_publishes_nothing_more(path):
    environment = dict(os.environ, PYTHONPATH=os.pathsep.join(sys.path))
    environment["PYTHONPATH"] += os.pathsep + str(Path(__file__).parents[1])
    ran = subprocess.run(
        [sys.executable, "-c", DISK_FULL, str(path)],
        capture_output=True,
        text=True,
        env=environment,
    )
    assert ran.stdout.strip() == "refused 0 True", ran.stderr


def test_a_folder_that_cannot_be_written_is_refused(tmp_path):
    for missing in (tmp_path / "none" / "gateway.sqlite", Path("/proc/gateway.sqlite")):
        with pytest.raises(OSError, match="gateway.sqlite|an existing folder"):
            Gateway(noise("structured"), path=missing)


def test_a_folder_without_rights_is_refused_with_what_to_do(
    path, tmp_path, monkeypatch
):
    """Of the super-user, who runs some tests, no right is withheld."""
    Gateway(noise("structured"), path=path).close()

    def refused(name, *options, **more):
        raise PermissionError(13, "Permission denied", str(name))

    other = tmp_path / "other.sqlite"
    with monkeypatch.context() as patched:
        patched.setattr(os, "open", refused)
        for call in (
            lambda: pc.Gateway.resume(path),
            lambda: Gateway(noise("structured"), path=other),
            lambda: pc.PrivacyLedger(LARGE, other),
        ):
            with pytest.raises(PermissionError, match="check its folder, its perm"):
                call()
    assert not other.exists()
    pc.Gateway.resume(path).close()


@pytest.mark.parametrize("planted", [Path.mkdir, lambda lock: lock.symlink_to("x")])
def test_a_lock_that_cannot_be_taken_says_what_to_do(planted, path):
    Gateway(noise("structured"), path=path).close()
    lock = path.with_name(f"{path.name}.lock")
    lock.unlink()
    planted(lock)
    with pytest.raises(OSError, match="nothing is published.*check its folder"):
        pc.Gateway.resume(path)


def test_more_bits_are_drawn_kept_and_used_where_a_rounding_is_undecided(
    path, monkeypatch
):
    """Only the first of 128 bits is one: eta is next to 0 and 1/2 + gamma is undecided."""
    gateway = Gateway(noise("structured"), path=path, grid=1, block=4)
    draw = gateway._exact.draw

    def rare(numbers):
        fresh = draw(numbers)
        for entry in fresh.values():
            entry.value = 1 << 127
        return fresh

    with monkeypatch.context() as patched:
        patched.setattr(gateway._exact, "draw", rare)
        first = gateway.publish(0.5)[0]
    assert gateway.publish(0.5)[0] == first
    gateway.close()
    entry = gateway._exact.entries[0]
    assert entry.count > 128
    assert first in (0.0, 1.0)
    assert kept(path)[0]["once"] == [f"{entry.value:x}/{entry.count}"]
    resumed = pc.Gateway.resume(path)
    assert resumed._exact.entries[0].value == entry.value
    assert resumed.publish(0.5)[0] == first
    resumed.close()


def test_memory_does_not_grow_with_the_run():
    design = noise("independent", horizon=3000)
    with Gateway(design, block=100) as gateway:
        for _ in range(3000):
            gateway.publish(0.0)
        assert len(gateway._exact.entries) <= 4 * 256


@pytest.mark.parametrize("kind", list(ENDLESS))
def test_noise_without_a_horizon_follows_its_system(kind):
    """The recursion of the design in doubles, for the same entries."""
    design = noise(kind)
    exact = ExactNoise(design)
    exact.entries.update(exact.draw(range(exact.once)))
    exact.entries.update(exact.draw(exact.numbers(0, HORIZON)))
    samples = [float(exact.sample(t)[0].mid()) for t in range(HORIZON)]
    entries = np.array([float(e.ball().mid()) for e in exact.entries.values()])
    eta = np.zeros((1, HORIZON, design.process.total.once + design.process.total.width))
    eta[0, 0, : design.process.total.once] = entries[: design.process.total.once]
    eta[0, :, design.process.total.once :] = entries[
        design.process.total.once :
    ].reshape(HORIZON, -1)
    expected = design.over(HORIZON).process.signal(eta)[0, :, 0]
    assert samples == pytest.approx(expected, rel=1e-12, abs=1e-12)


@pytest.mark.parametrize("kind", list(ENDLESS))
def test_noise_without_a_horizon_continues_from_its_state(kind, path):
    """A second reader of the file computes the samples behind the kept state."""
    design = noise(kind)
    gateway = Gateway(design, path=path, block=4)
    for _ in range(9):
        gateway.publish(0.0)
    killed(gateway)
    assert gateway.remaining == np.inf
    oracle, committed = restored(path, design)
    state = oracle.states(committed)
    resumed = pc.Gateway.resume(path)
    assert resumed.next_index == committed >= 12
    assert resumed._exact.states(committed) == state
    resumed.publish(0.0)
    resumed.close()


def test_the_file_of_a_run_without_a_horizon_does_not_grow(path):
    with Gateway(noise("endless"), path=path, block=4) as gateway:
        for _ in range(40):
            gateway.publish(0.0)
        size = path.stat().st_size
        for _ in range(200):
            gateway.publish(0.0)
        assert path.stat().st_size <= size + 4096
        assert len(gateway._exact.entries) < 30


def test_states_whose_rounding_could_be_seen_are_refused():
    """One secret signal, two outputs: without a floor a combination carries no noise."""
    sys = ct.ss(0.9, 1, [[1.0], [1.0]], 0, 1, states=["air"], inputs=["people"])
    request = {
        "horizon": np.inf,
        "adjacency": pc.DisturbanceAdjacency({"people": 0.1}),
        "budget": pc.PrivacyBudget(epsilon=1.0, delta=1e-2),
    }
    bare = pc.design_output_noise(sys, **request)
    with pytest.raises(pc.PrivacyError, match="floor"):
        Gateway(bare)
    floored = pc.design_output_noise(sys, floor=0.01, **request)
    with Gateway(floored) as gateway:
        assert gateway.publish([1.0, 1.0]).shape == (2,)
    # the state is rounded to 2^-160 of its size, far above such a floor
    vanishing = pc.design_output_noise(sys, floor=1e-60, **request)
    with pytest.raises(pc.PrivacyError, match="floor vanishes"):
        Gateway(vanishing)


@pytest.mark.parametrize("floor", [0.0, 0.05])
@pytest.mark.parametrize("horizon", [20, np.inf])
def test_a_guarantee_says_which_noise_no_gateway_publishes(floor, horizon):
    """It said that a gateway releases it, and the gateway refused."""
    gust = pc.DisturbanceAdjacency({"velocity": 0.3})
    both = two_outputs()
    names = both.state_labels
    one = ct.ss(both.A, both.B, both.C[:1], 0, 1, states=names, outputs=["a"])
    for plant in (both, one):
        design = pc.design_output_noise(
            plant, horizon=horizon, budget=LARGE, adjacency=gust, floor=floor
        )
        text = " ".join(design.guarantee.explain().split())
        is_refused = plant.noutputs == 2 and not floor and horizon == np.inf
        assert ("Released: by no Gateway" in text) == is_refused
        assert ("Released: exactly by a Gateway" in text) != is_refused
        if is_refused:
            assert "(floor=)" in text
            with pytest.raises(pc.PrivacyError, match="add a white floor"):
                Gateway(design)
        else:
            Gateway(design).close()


def test_a_state_on_the_fine_grid_is_drawn_with_more_bits(monkeypatch, tmp_path):
    """Where the rounding to the coarse grid could be seen."""
    design = noise("endless")
    with Gateway(design, grid=0.001) as gateway:
        gateway.publish(1.0)
        counts = {entry.count for entry in gateway._exact.entries.values()}
        assert counts == {128}
        (coarse,) = gateway._exact._states
    monkeypatch.setattr(exact, "_UNSEEN_ROUNDING", 1e-39)
    path = tmp_path / "g"
    with Gateway(design, grid=0.001, path=path) as gateway:
        gateway.publish(1.0)
    with pc.Gateway.resume(path) as gateway:
        gateway.publish(1.0)
        (state,) = gateway._exact._states
        counts = {entry.count for entry in gateway._exact.entries.values()}
        assert counts == {256}
    assert state.grid / coarse.grid == Rational(2) ** (COARSE_BITS - FINE_BITS)


@pytest.mark.parametrize("share, is_refused", [(0.97, False), (1.03, True)])
def test_the_rounding_of_states_is_what_dense_maps_say(share, is_refused):
    """What is left of errors of the states, whitened: C (A - B C)^t for D = 1, side by side.

    All of it may be 1e-24 of the noise, for some grid of the states.
    """
    part = noise("endless").parts[0]
    shaping = part.shaping
    C = np.linalg.solve(shaping.D, shaping.C)
    left = shaping.A - shaping.B @ C
    dense = np.zeros((300, 300, len(left)))
    row = C[0]
    for age in range(299):
        for t in range(age + 1, 300):
            dense[t, t - age - 1] = row
        row = row @ left
    gain = np.linalg.norm(dense.reshape(300, -1), 2)
    state = SimpleNamespace(grid=share * 1e-24 / (2 * gain * np.sqrt(len(left))))
    if not is_refused:
        exact._check_rounding(part, state, np.zeros(1))
        return
    with pytest.raises(pc.PrivacyError, match="rounding of its state"):
        exact._check_rounding(part, state, np.zeros(1))


@pytest.mark.parametrize("reading", [1.0, [1.0, 2.0, 3.0], [[1.0], [2.0]]])
def test_a_reading_of_another_size_is_refused_by_its_shape(reading):
    design = noise("floored", plant=two_outputs())
    gateway = pc.Gateway(design, resolution=0.001)
    with pytest.raises(ValueError, match=r"y: expected shape \(2,\), one number"):
        gateway.publish(reading)
    assert gateway.publish([1.0, 2.0]).shape == (2,)


def test_readings_on_a_coarser_grid_than_designed_for_are_refused():
    design = pc.design_output_noise(
        pc.plants.vehicle(),
        horizon=10,
        budget=pc.PrivacyBudget(epsilon=1.0, delta=1e-2),
        adjacency=pc.StateAdjacency({"position": 1.0}),
        floor=0.1,
        resolution=0.001,
    )
    for wrong in (None, 0.002):
        with pytest.raises(ValueError, match="1/1000"):
            Gateway(design, resolution=wrong)
    for fine in (0.001, "1/2000"):
        with Gateway(design, resolution=fine) as gateway:
            gateway.publish(5)


def test_a_block_that_fails_after_its_commit_is_skipped(monkeypatch):
    """Its samples are lost: they might have been published."""
    gateway = Gateway(noise("driven"), block=4)
    evaluate = gateway._exact.sample

    def fails(t, **options):
        raise MemoryError

    monkeypatch.setattr(gateway._exact, "sample", fails)
    with pytest.raises(MemoryError):
        gateway.publish(0.0)
    monkeypatch.setattr(gateway._exact, "sample", evaluate)
    with pytest.raises(pc.PrivacyError, match="is lost"):
        gateway.publish(0.0)
    assert gateway.next_index == 4
    gateway.publish(0.0)
    gateway.close()


# -- windows of one run ----------------------------------------------------------------

BOTH = pc.StateAdjacency(1.0)


def window_noise(plant, horizon):
    return pc.design_output_noise(
        plant,
        horizon=horizon,
        budget=pc.PrivacyBudget(epsilon=1.0, delta=1e-2),
        adjacency=BOTH,
        models="exact",
        max_std=np.inf,
    )


def stacked_shift(noises):
    """The shift of a run of windows with independent noise, from dense matrices.

    A move is one unit of one state at one time of the run.
    """
    plant = noises[0].plant
    horizon = sum(design.horizon for design in noises)
    back = np.linalg.inv(plant.A)
    moves = np.hstack([np.linalg.matrix_power(back, t) for t in range(horizon)])
    total = np.zeros(moves.shape[1])
    start = 0
    for design in noises:
        times = range(start, start + design.horizon)
        outputs = [plant.C @ np.linalg.matrix_power(plant.A, t) for t in times]
        signals = np.vstack(outputs) @ moves
        factor = design.process.responses.reshape(len(signals), -1)
        entries, *_ = np.linalg.lstsq(factor, signals, rcond=None)
        np.testing.assert_allclose(factor @ entries, signals, atol=1e-6)
        total += (entries**2).sum(axis=0)
        start += design.horizon
    return np.sqrt(total.max())


def test_a_gateway_says_that_its_run_begins_anew():
    """Two beginnings add; what continues a run does not, however it is declared."""
    whole = window_noise(pc.plants.vehicle(), 20)
    words = " ".join(Gateway(whole).guarantee.explain().split())
    assert "begins again with this gateway" in words
    ledger = pc.PrivacyLedger(LARGE)
    Gateway(whole, ledger=ledger).publish(0.0)
    charges = ledger.history
    later = Gateway(whole, ledger=ledger, start=20)
    words = " ".join(later.guarantee.explain().split())
    assert "earlier windows of the run are counted" in words
    assert later.guarantee.scope.window == (20, 40)
    with pytest.raises(ValueError, match="block_diag"):
        later.publish(0.0)
    assert ledger.history == charges
    assert later.next_index == 0
    with pytest.raises(ValueError, match="stationary law"):
        Gateway(noise("endless"), start=20)
    for wrong in (-1, 1.5, True, "20"):
        with pytest.raises((ValueError, TypeError), match="start"):
            Gateway(whole, start=wrong)


def test_a_window_says_from_when_the_times_of_its_secret_count():
    """A level that grows hides at t = 2 of the window; at t = 2 of the run it shows more."""
    growing = ct.ss(1.1, 1, 1, 0, 1.0, states=["level"], outputs=["y"])
    start, horizon, time = 10, 5, 2
    noise = pc.design_output_noise(
        growing,
        horizon=horizon,
        adjacency=pc.StateAdjacency(1.0, times=time),
        budget=pc.PrivacyBudget(gdp=0.5),
        family="iid-gaussian",
    )
    with Gateway(noise, start=start, grid=0.001) as gateway:
        promise = gateway.guarantee
    samples = np.arange(horizon)
    in_window = np.linalg.norm(1.1 ** (samples - time)) / noise.std[0]
    of_run = np.linalg.norm(1.1 ** (start + samples - time)) / noise.std[0]
    assert in_window <= promise.gdp * (1 + 1e-9) < of_run / 2
    words = " ".join(promise.explain().split())
    assert f"t = {time}" in words
    assert "times of the secret are counted from the window's first sample" in words


def test_a_resumed_gateway_knows_its_window(path):
    design = window_noise(pc.plants.vehicle(), 20)
    with Gateway(design, path=path, start=20) as gateway:
        promise = gateway.guarantee
    with pc.Gateway.resume(path) as gateway:
        assert gateway.guarantee == promise
        assert str(gateway.guarantee) == str(promise)


@pytest.mark.parametrize("seed", few(range(8), of=3))
def test_a_ledger_never_undercharges_declared_windows(seed):
    """Against the stacked query: what the ledger took covers all that was published."""
    rng = np.random.default_rng(seed)
    A = np.diag(rng.uniform(0.8, 1.1, 2))
    A[0, 1] = rng.uniform(-0.5, 0.5)
    C = rng.normal(size=(1 + seed % 2, 2))
    plant = ct.ss(A, np.ones((2, 1)), C, 0, 1.0)
    noises = [window_noise(plant, int(rng.integers(3, 9))) for _ in range(2 + seed % 2)]
    ledger = pc.PrivacyLedger(pc.PrivacyBudget(gdp=1e3))
    published, start = [], 0
    for design in noises:
        gateway = Gateway(design, ledger=ledger, start=start)
        try:
            gateway.publish(np.zeros(design.process.outputs))
            published.append(design)
        except ValueError as error:
            assert "do not add" in str(error)
        start += design.horizon
    assert len(published) == 1
    assert ledger.spent.gdp >= stacked_shift(published) * (1 - 1e-7)
    # the run as a whole, charged before its first window
    whole = pc.PrivacyLedger(pc.PrivacyBudget(gdp=1e3))
    blocks = [each.design.noise.factor for each in noises]
    factor = scipy.linalg.block_diag(*blocks)
    run = pc.output_query(plant, start)
    secret = noises[0].request.adjacency
    together = pc.Mechanism(run, pc.GaussianNoise(factor)).guarantee(secret)
    whole.charge(together)
    truth = stacked_shift(noises)
    assert whole.spent.gdp == pytest.approx(truth, rel=1e-6)


def test_equal_windows_would_be_undercharged_by_addition():
    """Why the ledger refuses them: the vehicle, position and velocity."""
    design = window_noise(pc.plants.vehicle(), 100)
    added = design.guarantee + design.guarantee
    truth = stacked_shift([design, design])
    assert added.gdp == pytest.approx(0.7531, abs=1e-4)
    assert truth == pytest.approx(1.4219, abs=1e-4)


def unplanned(design, **options):
    """A gateway that is told of a grid for which its noise was not designed."""
    with pytest.warns(pc.PrivacyWarning, match="not designed for readings on a grid"):
        return Gateway(design, **options)


def covariance_of(design):
    """Covariance (T p, T p) of all samples."""
    white = np.tile(design.process.total.white, design.horizon)
    responses = design.process.responses.reshape(len(white), -1)
    return responses @ responses.T + np.diag(white**2)


@pytest.mark.parametrize("kind", ["floored", "independent", "independent laplace"])
def test_a_grid_that_the_noise_does_not_pay_for_is_counted(kind, tmp_path):
    """Against the worst corner of the box of roundings, which coordinate ascent finds."""
    design, h = noise(kind), 0.002
    path = tmp_path / "gateway"
    ledger = pc.PrivacyLedger(pc.PrivacyBudget(epsilon=50.0, delta=1e-2))
    gateway = unplanned(design, resolution="0.002", path=path, ledger=ledger)
    gateway.publish(5)
    gateway.close()
    with pc.Gateway.resume(path, ledger=ledger) as resumed:
        promise = resumed.guarantee
    assert "readings on a grid of 0.002" in promise.sentence
    assert ledger.spent.epsilon(1e-2) == promise.epsilon(1e-2)
    horizon = design.horizon
    manifold = pc.trajectory_manifold(design.plant, horizon)
    moved = design.request.adjacency.moves(manifold).columns[:, 0]
    change = pc.observability_stack(design.plant, horizon) @ moved
    if design.family == "laplace":
        worst = (np.abs(change) + h).sum() / design.process.scale[0]
        assert worst * (1 - 1e-9) <= promise.epsilon(0.0) <= 1.001 * worst
        assert design.guarantee.epsilon(0.0) < worst
        return
    gamma = covariance_of(design)
    rng = np.random.default_rng(0)
    worst = 0.0
    for _ in range(100):
        rounding = h * rng.choice([-1.0, 1.0], horizon)
        for _ in range(3):
            rounding = h * np.sign(np.linalg.solve(gamma, change + rounding))
        readings = change + rounding
        worst = max(worst, np.sqrt(readings @ np.linalg.solve(gamma, readings)))
    assert design.guarantee.gdp < worst <= promise.gdp < 1.25 * worst


@pytest.mark.parametrize("kind", ["structured", "driven", "laplace", "endless floored"])
def test_a_grid_that_the_noise_cannot_cover_is_named_in_the_guarantee(kind):
    design = noise(kind)
    with unplanned(design, resolution=0.002) as gateway:
        promise = gateway.guarantee
    assert "readings that were not rounded" in promise.scope.assumptions
    assert "the additional leak of readings on a grid of 0.002" in promise.scope.caveats
    assert promise.epsilon(1e-2) == design.guarantee.epsilon(1e-2)


def test_roundings_without_a_horizon_have_no_bound():
    """Why no grid is counted there: what is left of a change moves every later reading."""
    design, h = noise("endless floored"), 0.25
    at_edge = h / 2
    left = 0.1 * 0.9 ** np.arange(300)
    shifts = []
    for samples in (75, 300):
        before = np.full(samples, at_edge)
        after = before + left[:samples]
        moved = h * (np.floor(after / h + 0.5) - np.ceil(before / h - 0.5))
        assert (moved == h).all()
        root = np.linalg.cholesky(covariance_of(design.over(samples)))
        shifts.append(np.linalg.norm(np.linalg.solve(root, moved)))
    assert shifts[1] > 1.9 * shifts[0]


@pytest.mark.filterwarnings("ignore::privcontrol.PrivacyWarning")
def test_a_frame_is_published_as_values_with_its_index():
    """Whole numbers are values; what does not fit is refused before a sample is drawn."""
    pandas = pytest.importorskip("pandas")
    design = noise("floored")
    gateway = pc.Gateway(design, resolution="0.001", grid="0.001")
    times = pandas.date_range("2026-01-01", periods=3, freq="1s")
    readings = [7000, 7001, 7002]
    for wrong in (
        pandas.DataFrame({"z": readings}),
        pandas.DataFrame({"y": readings, "u": readings}),
        pandas.DataFrame({"y": [1.0, np.nan, 2.0]}),
        pandas.DataFrame({"y": [7000.0, "7001 m"]}),
        pandas.DataFrame({"y": [7000.0, pandas.NA]}),
        pandas.DataFrame({"y": [7001, 10**400]}),
        pandas.DataFrame({"y": ["7001"]}),
        pandas.DataFrame({"y": [7001 + 0j]}),
        pandas.DataFrame({"y": [True]}),
        pandas.DataFrame({"y": times}),
        pandas.DataFrame({"y": np.zeros(HORIZON + 1)}),
    ):
        with pytest.raises(ValueError, match="frame: expected") as caught:
            gateway.publish_frame(wrong)
        assert caught.value.__context__ is None
        assert "7001" not in str(caught.value)
    assert gateway.next_index == 0
    published = gateway.publish_frame(pandas.DataFrame({"y": readings}, index=times))
    assert published.index.equals(times)
    assert list(published.columns) == ["y"]
    # 7,000 m, where 7,000 counts would be 7 m
    assert abs(published["y"].to_numpy() - 7000).max() < 10 * design.std.max() + 3
    assert gateway.next_index == 3


def test_integers_of_a_frame_are_read_exactly(monkeypatch):
    """Two of them that differ by one were 256 apart as doubles."""
    pandas = pytest.importorskip("pandas")
    taken = []

    def published(self, values, index):
        taken.append([int(value) for value in values])
        self._next += 1
        return [0.0]

    monkeypatch.setattr(pc.Gateway, "_published", published)
    counts = [2**60 + 128, 2**60 + 129]
    with Gateway(noise("structured")) as gateway:
        for column in (counts, pandas.array(counts, "Int64"), map(Fraction, counts)):
            gateway.publish_frame(pandas.DataFrame({"y": list(column)}))
        assert gateway.publish_frame(pandas.DataFrame({"y": []})).shape == (0, 1)
    assert taken == 3 * [[count] for count in counts]


@pytest.mark.parametrize("designed", [True, False])
def test_a_smaller_radius_makes_no_step_of_the_grid_smaller(designed):
    """A reading beside the middle of a step moves by a whole one, however short the move."""
    tank = ct.ss(0.9, 1, 1, 0, 1.0, states=["level"], inputs=["flow"], outputs=["y"])
    step, horizon, radius = 0.5, 5, 0.01
    noise = pc.design_output_noise(
        tank,
        horizon=horizon,
        adjacency=pc.StateAdjacency(1.0),
        budget=pc.PrivacyBudget(epsilon=1.0, delta=1e-2),
        family="iid-gaussian",
        resolution=step if designed else 0.0,
        models="exact",
    )
    gateway = Gateway if designed else unplanned
    with gateway(noise, resolution=step) as door:
        promise = door.guarantee
    levels = 0.9 ** np.arange(horizon)
    runs = []
    for start in (step / 2 + 1e-9, step / 2 + 1e-9 - radius):
        runs.append(step * np.round(levels * start / step))
    shown = np.linalg.norm(runs[0] - runs[1]) / noise.std[0]
    assert pc.core.chain(promise, radius).gdp >= shown
    assert pc.core.chain(promise, 2.0).gdp == pytest.approx(2 * promise.gdp)
    assert pc.core.chain(noise.guarantee, radius).gdp < shown or designed


def test_a_floor_covers_last_bits_that_are_small_next_to_it():
    """A resolution makes readings rational numbers, and nothing is assumed of bits."""
    said = "last bits in floating point are small next to the noise's floor"
    floored = noise("floored")
    for options in ({}, {"grid": 0.001}):
        promise = Gateway(floored, **options).guarantee
        assert said in " ".join(promise.scope.assumptions)
        assert said in " ".join(promise.explain().split())
    with pytest.warns(pc.PrivacyWarning, match="resolution"):
        promise = Gateway(floored, resolution=0.001).guarantee
    assert said not in " ".join(promise.scope.assumptions)
    promise = Gateway(noise("structured"), grid=0.001).guarantee
    assert said not in " ".join(promise.scope.assumptions)
