"""Long runs show how far they are, and what is interrupted leaves nothing half done."""

import os
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import cases
import numpy as np
import pytest

import privcontrol as pc
from privcontrol.numerics import progress as bars

TUNING = {"Q": np.diag([20.0, 1.0]), "R": 1.0, "QN": np.diag([1e-4, 1e-3]), "RN": 1e-2}


def traded(**options):
    return pc.tradeoff(
        pc.plants.vehicle(),
        **TUNING,
        horizon=5,
        adjacency=cases.POSITION,
        epsilons=[0.5, 1.0],
        delta=1e-2,
        designs=["iid"],
        **options,
    )


def simulated(**options):
    loop = pc.private_lqg(
        pc.plants.vehicle(), **TUNING, noise=cases.vehicle_noise(horizon=10)
    )
    return loop.simulate(trials=20, rng=0, **options)


@pytest.mark.parametrize(
    "run, shown",
    [(traded, "2/2"), (simulated, "20/20")],
)
def test_a_bar_with_the_time_left_is_shown_where_it_is_asked_for(run, shown, capsys):
    pytest.importorskip("tqdm")
    run(progress=True)
    bar = capsys.readouterr().err
    assert shown in bar
    assert "<" in bar
    run()
    assert capsys.readouterr().err == ""
    with pytest.raises(TypeError, match="progress: expected True or False"):
        run(progress="yes")


def test_a_design_of_half_a_second_shows_no_bar(capsys):
    pytest.importorskip("tqdm")
    with bars.timed_bar(True, ""):
        time.sleep(0.7)
    assert capsys.readouterr().err == ""


def test_an_interrupted_simulation_leaves_its_executor_usable(monkeypatch):
    def law(time, estimate, goal):
        raise KeyboardInterrupt

    loop = pc.private_lqg(
        pc.plants.vehicle(), **TUNING, noise=cases.vehicle_noise(horizon=10)
    )
    with ThreadPoolExecutor(2) as pool:
        with pytest.raises(KeyboardInterrupt):
            loop.simulate(trials=5, rng=0, controller=law, executor=pool)
        again = loop.simulate(trials=5, rng=0, executor=pool)
    np.testing.assert_array_equal(again.states, loop.simulate(trials=5, rng=0).states)


def interrupted(*args, **kwargs):
    raise KeyboardInterrupt


@pytest.mark.parametrize("kind", ["report", "save"])
def test_an_interrupted_file_keeps_the_one_that_was_there(kind, tmp_path, monkeypatch):
    loop = pc.private_lqg(
        pc.plants.vehicle(), **TUNING, noise=cases.vehicle_noise(horizon=10)
    )
    target = tmp_path / "loop.html"
    getattr(loop, kind)(target)
    complete = target.read_bytes()
    write = Path.write_text

    def half(path, text, **options):
        write(path, text[: len(text) // 2], **options)
        raise KeyboardInterrupt

    monkeypatch.setattr(Path, "write_text", half)
    monkeypatch.setattr(os, "fsync", interrupted)
    with pytest.raises(KeyboardInterrupt):
        getattr(loop, kind)(target)
    assert target.read_bytes() == complete


def test_a_search_of_unknown_length_has_four_more_rounds_ahead():
    """After k rounds it is k / (k + 4) done, and what a round consists of divides its part."""
    whole = bars._Stretch(0.0, 1.0, [0.0])
    token = bars._STRETCH.set(whole)
    try:
        for k in range(8):
            with bars.search_round(k):
                pass
        assert whole.done[0] == pytest.approx(8 / 12)
        with bars.search_round(8), bars.piece(0, 2):
            pass
        assert whole.done[0] == pytest.approx(9 / 13)
        with bars.search_round(9):
            with bars.piece(0, 2):
                pass
            halfway = (9 / 13 + 10 / 14) / 2
            assert whole.done[0] == pytest.approx(halfway)
    finally:
        bars._STRETCH.reset(token)


def test_pieces_of_a_known_number_share_a_bar_evenly():
    """Those beyond the number are part of the last one, which is never done before the end."""
    whole = bars._Stretch(0.0, 1.0, [0.0])
    token = bars._STRETCH.set(whole)
    try:
        for k, done in enumerate((1 / 4, 2 / 4, 3 / 4, 3 / 4, 3 / 4)):
            with bars.piece(k, 4):
                pass
            assert whole.done[0] == pytest.approx(done)
    finally:
        bars._STRETCH.reset(token)
