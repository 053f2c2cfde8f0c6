"""Long designs say how long they take, and what is interrupted leaves files whole."""

import linecache
import sys
import threading
from contextlib import contextmanager, nullcontext, suppress
from itertools import count
from pathlib import Path

import cases
import pytest
from gateway_cases import noise

import privcontrol as pc
from privcontrol.designs import design, floor_search
from privcontrol.numerics import progress as _progress
from privcontrol.privacy import store
from privcontrol.privacy.guarantee import EXACTLY, released

GUST = pc.DisturbanceAdjacency({"velocity": 0.3})
PACKAGE = Path(pc.__file__).parent


def designed(adjacency=cases.POSITION, plant=None, models="exact", **options):
    return pc.design_output_noise(
        plant or pc.plants.vehicle(),
        horizon=10,
        budget=pc.PrivacyBudget(epsilon=1.0, delta=1e-2),
        adjacency=adjacency,
        models=models,
        **options,
    )


# -- bars --------------------------------------------------------------------------------


def test_a_short_design_shows_no_bar(capsys):
    pytest.importorskip("tqdm")
    plain, watched = designed(), designed(progress=True)
    assert capsys.readouterr().err == ""
    assert plain == watched
    with pytest.raises(TypeError, match="progress: expected True or False"):
        designed(progress="yes")


@pytest.mark.parametrize("step, is_shown", [(0.01, False), (1.0, True)])
def test_a_bar_appears_when_two_seconds_have_passed(
    step, is_shown, capsys, monkeypatch
):
    """Two clocks that go on by a step whenever somebody looks at them."""
    pytest.importorskip("tqdm")
    ticks, bars = count(), count()
    looked = threading.Event()

    def clock():
        tick = next(ticks)
        if tick > 10:
            looked.set()
        return tick * step

    monkeypatch.setattr(_progress, "monotonic", clock)
    monkeypatch.setattr("tqdm.std.time", lambda: next(bars) * step)
    monkeypatch.setattr(_progress, "BETWEEN_LOOKS", 0.001)
    with _progress.timed_bar(True, ""):
        assert looked.wait(10)
    assert ("design: " in capsys.readouterr().err) == is_shown


@pytest.mark.parametrize("inner, share", [(0, 50), (1, 75), (9, 75)])
def test_a_bar_tells_what_is_left_from_the_pieces_that_are_done(
    inner, share, capsys, monkeypatch
):
    """Pieces of the second half divide it, and more than were expected do not end it."""
    pytest.importorskip("tqdm")
    ticks = count()
    looked = threading.Event()

    def clock():
        tick = next(ticks)
        if tick > 200:
            looked.set()
        return 10.0 * tick

    monkeypatch.setattr(_progress, "monotonic", clock)
    monkeypatch.setattr("tqdm.std.time", lambda: 10.0 * next(ticks))
    monkeypatch.setattr(_progress, "BETWEEN_LOOKS", 0.001)
    with (
        _progress.timed_bar(True, ""),
        _progress.piece(1, 2),
        _progress.piece(inner, 2),
    ):
        assert looked.wait(10)
    assert f"{share}%" in capsys.readouterr().err
    with _progress.piece(1, 2):  # no bar is left that could be told
        pass


def test_a_search_for_a_floor_tells_the_bar_its_pieces(monkeypatch):
    told = []

    def search_round(k):
        told.append(k)
        return nullcontext()

    monkeypatch.setattr(floor_search, "search_round", search_round)
    plant = cases.random_plant(0, outputs=1)
    start = pc.StateAdjacency({"s0": 1.0}, times=0)
    designed(start, plant=plant, floor="auto", models=[plant])
    assert told[0] <= 1
    assert told == sorted(told)
    assert len(set(told)) > 4


# -- interruptions -----------------------------------------------------------------------


@contextmanager
def interrupted_at(line, *names):
    """Ctrl-C before the given line, counted from here on, of some files of the package.

    Not at the lines of try and with, where Python handles no signal.
    """
    files = {str(PACKAGE / name) for name in names}
    left = count(line, -1)

    def local(frame, event, argument):
        if event == "line":
            text = linecache.getline(frame.f_code.co_filename, frame.f_lineno)
            opens = text.lstrip().startswith(("with ", "try:"))
            if not opens and next(left) == 0:
                raise KeyboardInterrupt
        return local

    def entered(frame, event, argument):
        return local if frame.f_code.co_filename in files else None

    before = sys.gettrace()
    sys.settrace(entered)
    try:
        yield
    finally:
        sys.settrace(before)


def interruptions(action, *names, every=1):
    """Lines at which an action was interrupted, until it ends by itself."""
    for line in count(0, every):
        with suppress(KeyboardInterrupt), interrupted_at(line, *names):
            action(line)
            return
        yield line


def test_an_interrupted_design_ends_its_bar(capsys, monkeypatch):
    pytest.importorskip("tqdm")

    def interrupted(*about):
        raise KeyboardInterrupt

    monkeypatch.setattr(design, "check_size", interrupted)
    with pytest.raises(KeyboardInterrupt):
        designed(progress=True)
    names = [thread.name for thread in threading.enumerate()]
    assert "privcontrol progress" not in names


def test_an_interrupted_design_file_is_the_old_one_or_the_new_one(tmp_path):
    path = tmp_path / "noise.json"
    old, new = designed(), designed(floor=1.0)
    old.save(path)
    lines = 0
    for _ in interruptions(lambda line: new.save(path), "numerics/saved.py", every=7):
        lines += 1
        assert list(tmp_path.iterdir()) == [path]
        assert pc.load(path) in (old, new)
    assert lines > 20
    assert pc.load(path) == new


@pytest.mark.parametrize("is_written", [False, True])
def test_an_interrupted_charge_is_not_made(is_written, tmp_path, monkeypatch):
    """Before its entry is written, and after that but before it is committed."""
    path = tmp_path / "ledger"
    promise = released(noise("floored").guarantee, EXACTLY)
    ledger = pc.PrivacyLedger(pc.PrivacyBudget(gdp=1e3), path)
    ledger.charge(promise)
    write = store._write

    def interrupted(*entry):
        if is_written:
            write(*entry)
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(store, "_write", interrupted)
        with pytest.raises(KeyboardInterrupt):
            ledger.charge(promise)
    assert list(tmp_path.iterdir()) == [path]
    assert len(pc.PrivacyLedger.open(path).history) == 1
    ledger.charge(promise)
    assert len(pc.PrivacyLedger.open(path).history) == 2


def test_an_interrupted_gateway_publishes_no_sample_twice(tmp_path):
    """It goes on in the same process, and in another one that takes up its file."""
    design_of_gust = noise("driven")
    published = []
    gateways = []
    files = ("deploy/gateway.py", "deploy/publisher.py", "privacy/store.py")

    def publish(line):
        path = tmp_path / f"gateway {line}"
        ledger = pc.PrivacyLedger(pc.PrivacyBudget(gdp=1e3))
        gateway = pc.Gateway(
            design_of_gust, path=path, ledger=ledger, block=2, floating=True
        )
        gateways.append((path, gateway, ledger))
        published.append([])
        for reading in range(5):
            gateway.publish(reading)
            published[-1].append(gateway.next_index - 1)

    lines = 0
    for _ in interruptions(publish, *files, every=17):
        lines += 1
        if len(gateways) < lines:  # before it was made
            gateways.append(None)
            published.append([])
            assert not any(path.name.startswith(".") for path in tmp_path.iterdir())
            continue
        path, gateway, ledger = gateways[-1]
        with suppress(pc.PrivacyError):  # the sample is lost, the next one is not
            gateway.publish(1.0)
        gateway.publish(1.0)
        assert gateway.next_index - 1 not in published[-1]
        assert len(ledger.history) == 1
        last = gateway.next_index - 1
        gateway.close()
        with pc.Gateway.resume(path, ledger=ledger) as resumed:
            assert resumed.next_index > last
            resumed.publish(1.0)
        assert len(ledger.history) == 1
    assert lines > 20
    gateways[-1][1].close()
