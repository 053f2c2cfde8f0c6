"""The command in processes of its own: what it publishes, refuses, survives and returns."""

import contextlib
import json
import math
import os
import random
import re
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from contextlib import closing, suppress

import control as ct
import pytest
from command import start
from gateway_cases import endless

import privcontrol as pc
from privcontrol.deploy import Relay, files, main
from privcontrol.deploy.command import _lines, _Together
from privcontrol.numerics import saved

STEPS = ("--resolution", "0.001", "--grid", "0.001")
SECRET = "31.4159"


@pytest.fixture(scope="module")
def design(tmp_path_factory):
    path = tmp_path_factory.mktemp("design") / "noise.json"
    noise = pc.design_output_noise(
        pc.plants.vehicle(),
        horizon=60,
        budget=pc.PrivacyBudget(epsilon=1.0, delta=1e-2),
        adjacency=pc.StateAdjacency({"position": 1.0}),
        floor=0.1,
        resolution=0.001,
    )
    noise.save(path)
    return path


def command(*arguments, **options):
    pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    return start(*arguments, text=True, **pipes, **options)


def ran(*arguments, given=""):
    process = command(*arguments)
    out, err = process.communicate(given, timeout=300)
    return process.returncode, out, err


def indices(out):
    return [json.loads(line)["index"] for line in out.splitlines()]


def test_names_of_a_file_do_not_steer_the_terminal(tmp_path, capfd, caplog):
    """An escape sequence could clear the screen and write another guarantee on it."""
    name = "x\x1b[2J\x1b[1;1Hholds: epsilon = 0.001\r\x9b"
    plant = ct.ss(0.9, 1, 1, 0, 1.0, states=[name], inputs=["u"], outputs=["y\x1b[8m"])
    noise = pc.design_output_noise(
        plant,
        horizon=5,
        budget=pc.PrivacyBudget(epsilon=1.0, delta=1e-2),
        adjacency=pc.StateAdjacency({name: 1.0}),
    )
    path = tmp_path / "noise.json"
    noise.save(path)
    for asked in ("show", "check"):
        assert main([asked, str(path)]) == 0
    assert main(["show", str(tmp_path / "none\x1b[2J")]) == 1
    Relay(pc.Gateway(noise, grid=0.001)).run([{"z": 1.0}], print)
    Relay(pc.Gateway(noise, grid=0.001)).run([b"z", b"1"], print)
    said = "".join(capfd.readouterr()) + caplog.text
    assert r"Hides:      x\x1b[2J" in said
    assert "expected y?[8m" in said
    assert "a header that names y?[8m" in said
    assert all(letter.isprintable() or letter == "\n" for letter in said)


def test_show_and_check_print_the_guarantee(design, capfd):
    assert main(["show", str(design)]) == 0
    out = capfd.readouterr().out
    assert "OutputNoise(gaussian" in out
    assert "Budget:" in out
    assert "Assumes:" in out
    assert main(["check", str(design)]) == 0
    assert capfd.readouterr().out.startswith("holds: epsilon = 1 at delta = 0.01")


def test_a_claim_that_does_not_hold_is_refused(design, tmp_path, capfd):
    altered = tmp_path / "altered.json"
    altered.write_text(design.read_text().replace('"horizon": 60', '"horizon": 61'))
    assert altered.read_text() != design.read_text()
    assert main(["check", str(altered)]) == 1
    out, err = capfd.readouterr()
    assert out == ""
    assert "altered" in err


def test_wrong_late_repeated_and_missing_readings(design, tmp_path):
    """Each sample is drawn once; what is refused is named by its number alone."""
    lines = [
        '{"y": -20.0, "index": 0}',
        f'{{"y": {SECRET}, "index": 0}}',  # repeated
        f'{{"y": "{SECRET}"}}',
        f'{{"y": {SECRET}, "velocity": {SECRET}}}',
        f'{{"z": {SECRET}}}',
        f'{{"y": {SECRET}',
        f'{{"y": {SECRET}, "index": {SECRET}}}',
        f'{{"y": [{SECRET}]}}',
        '{"y": NaN}',
        '{"y": true}',
        '{"y": 1' + "0" * 400 + "}",
        '{"y": 1' + "0" * 100_000 + "}",
        "[" * 60_000,
        f"[{SECRET}]",
        f"{SECRET}",
        "",
        '{"y": -19.0, "index": 4}',  # 1 to 3 are lost
        f'{{"y": {SECRET}, "index": 3}}',  # and come late
        f'{{"y": {SECRET}, "index": 1000000}}',
        '{"y": -18000}',
    ]
    state = tmp_path / "gateway.sqlite"
    code, out, err = ran(
        "publish", design, "--state", state, *STEPS, given="\n".join(lines) + "\n"
    )
    assert code == 0
    assert indices(out) == [0, 4, 5]
    # a whole number is a value in metres and no count of millimetres
    assert abs(json.loads(out.splitlines()[-1])["y"] + 18000) < 30
    refused = [int(n) for n in re.findall(r"line (\d+) refused", err)]
    assert refused == [*range(2, 16), 18, 19]
    assert "samples 1 to 3 were lost" in err
    assert SECRET not in err
    assert "velocity" not in err
    assert "000000" not in err


def test_csv_in_and_out_and_resumed(design, tmp_path):
    source = tmp_path / "run.csv"
    source.write_text("index,u,y\n0,9,-20\n2,9,-19.5\nx,9,-19\n3,9\n4,9,-18\n")
    sink = tmp_path / "published.csv"
    arguments = ("publish", design, "--state", tmp_path / "g", *STEPS)
    code, out, err = ran(*arguments, "--source", source, "--sink", sink)
    assert code == 0
    assert out == ""
    assert re.findall(r"line (\d+) refused", err) == ["4", "5"]
    header, *rows = sink.read_text().splitlines()
    assert header == "index,y"
    assert [row.split(",")[0] for row in rows] == [
        "0",
        "2",
        "4",
    ]
    # again: all samples were passed, and nothing is drawn twice
    code, _, err = ran(*arguments, "--source", source, "--sink", sink)
    assert code == 0
    assert "resumed at sample" in err
    assert sink.read_text().splitlines() == [header, *rows]
    # other options are refused, not ignored
    code, _, err = ran(*arguments[:-1], "0.01")
    assert code == 1
    assert "--grid" in err


def test_a_table_of_a_spreadsheet_begins_with_a_mark_and_blank_lines(design, tmp_path):
    given = "\ufeff\n\nindex,y\n0,1\n1,2\nindex,y\n2,3\n"
    state = tmp_path / "g"
    code, out, err = ran("publish", design, "--state", state, *STEPS, given=given)
    assert code == 0
    header, *rows = out.splitlines()
    assert header == "index,y"
    assert [row.split(",")[0] for row in rows] == ["0", "1", "2"]
    assert re.findall(r"line (\d+) refused", err) == ["6"]


def test_a_parquet_file_is_replayed(design, tmp_path):
    pandas = pytest.importorskip("pandas")
    pytest.importorskip("pyarrow")
    table = pandas.DataFrame(
        {"index": [0, 2, 3, 4], "u": 9.0, "y": [-20, -19, None, -18]}
    )
    source = tmp_path / "run.parquet"
    table.to_parquet(source)
    arguments = ("publish", design, "--state", tmp_path / "g", *STEPS)
    code, out, err = ran(*arguments, "--source", source)
    assert code == 0
    assert indices(out) == [0, 2, 4]
    assert re.findall(r"line (\d+) refused", err) == ["3"]
    source.write_bytes(b"PAR1 and nothing more")
    code, out, err = ran(*arguments, "--source", source)
    assert code == 1
    assert out == ""
    assert "Traceback" not in err


def test_readings_by_time_belong_to_the_nearest_sample(design, tmp_path):
    times = [100.02, 100.04, 100.49, 100.2, 99.0, 1e9, 100.71, 100.6]
    given = "".join(f'{{"y": 1, "time": {time}}}\n' for time in times)
    arguments = ("publish", design, "--state", tmp_path / "g", *STEPS, "--epoch", "100")
    code, out, err = ran(*arguments, given=given)
    assert code == 0
    assert indices(out) == [0, 5, 7]
    assert re.findall(r"line (\d+) refused", err) == ["2", "4", "5", "6", "8"]
    assert "samples 1 to 4 were lost" in err
    assert "samples 6 to 6 were lost" in err


def test_kills_and_sigterm_never_repeat_a_sample(design, tmp_path):
    """Killed twice and stopped once, with a ledger: each index once, one charge."""
    budget = pc.PrivacyBudget(epsilon=1.5, delta=1e-2)
    pc.PrivacyLedger(budget, tmp_path / "ledger")
    arguments = ("publish", design, "--state", tmp_path / "g", *STEPS)
    arguments = (*arguments, "--ledger", tmp_path / "ledger")
    seen = []
    for how, code in (
        (signal.SIGKILL, -signal.SIGKILL),
        (signal.SIGKILL, -signal.SIGKILL),
        (signal.SIGTERM, 0),
    ):
        process = command(*arguments)
        for _ in range(3):
            process.stdin.write('{"y": -20}\n')
            process.stdin.flush()
            seen.append(json.loads(process.stdout.readline())["index"])
        process.send_signal(how)
        process.stdin = None
        process.communicate(timeout=300)
        assert process.returncode == code
    assert seen == sorted(set(seen))
    assert len(seen) == 9
    code, out, _ = ran(*arguments, given='{"y": -20, "index": 59}\n{"y": 1}\n')
    assert code == 0
    assert indices(out) == [59]
    # over: done, and a supervisor does not start it again
    code, out, _ = ran(*arguments, given='{"y": -20}\n')
    assert code == 0
    assert out == ""
    assert len(pc.PrivacyLedger.open(tmp_path / "ledger").history) == 1


def test_kills_among_lines_that_came_together_never_repeat_a_sample(tmp_path):
    """What was printed is in the file, and the next process goes on behind it."""
    design = tmp_path / "noise.json"
    noise = pc.design_output_noise(
        pc.plants.vehicle(),
        horizon=20_000,
        budget=pc.PrivacyBudget(epsilon=1.0, delta=1e-2),
        adjacency=pc.StateAdjacency({"position": 1.0}),
        floor=0.1,
        models="exact",
    )
    noise.save(design)
    state = tmp_path / "g"
    assert main(["begin", str(design), "--state", str(state), *STEPS]) == 0
    given = '{"y": -20}\n' * 4000
    seen = []
    for lines in (1, 300, 900):
        process = command("publish", design, "--state", state)
        writer = threading.Thread(target=poured, args=(process.stdin, given))
        writer.start()
        seen += [json.loads(process.stdout.readline())["index"] for _ in range(lines)]
        process.kill()
        rest = process.stdout.read().splitlines()
        seen += [json.loads(line)["index"] for line in rest if line.endswith("}")]
        writer.join()
        process.wait(timeout=300)
        with closing(sqlite3.connect(state)) as connection:
            (text,) = connection.execute("SELECT text FROM state").fetchone()
        assert seen[-1] < json.loads(text)["state"]["committed"]
    assert seen == sorted(set(seen))
    assert len(seen) >= 1200


def poured(file, text):
    """Write a text to a process that may be killed."""
    with suppress(OSError):
        file.write(text)
        file.close()


def test_an_error_among_readings_that_came_together_leaves_those_before_it(tmp_path):
    """Two samples a block: the file is gone when the second block is drawn."""
    noise = endless("endless floored")
    gateway = pc.Gateway(noise, grid=0.001, block=2, path=tmp_path / "g")
    name = gateway.signals.names[0]
    published = []
    relay = Relay(gateway)
    relay.run([{name: 0.5}], published.append)
    os.rename(tmp_path / "g", tmp_path / "gone")
    with pytest.raises(OSError, match=r"gone or was replaced|cannot be used"):
        relay.run([_Together([{name: 0.5}] * 3)], published.append)
    assert len(published) <= 2  # the second sample may have been drawn before
    os.rename(tmp_path / "gone", tmp_path / "g")
    with contextlib.suppress(OSError):  # of a block that was drawn meanwhile
        relay.run([_Together([{name: 0.5}] * 3)], published.append)
    left = 4 - len(published)
    relay.run([_Together([{name: 0.5}] * left)] * (left > 0), published.append)
    assert [message["index"] for message in published] == list(range(len(published)))
    assert relay.health()["published"] == len(published) >= 4


@pytest.mark.parametrize(
    "lines, refused",
    [
        (['{"y": 1, "y": 2}', '{"y": 3}'], [1]),
        (['{"y": 1, "index": 0, "index": 4}', '{"y": 3}'], [1]),
        (["y,y", "1,2", '{"y": 3}'], [1, 2]),
        (["index,y,index", "0,1,2", '{"y": 3}'], [1, 2]),
        (["note,y,note", "a,3,b"], []),
        (["y", "1_000", "3"], [2]),
    ],
)
def test_what_may_mean_two_readings_is_none(lines, refused, design, caplog):
    """A name that comes twice, and what parts thousands in Python and nowhere else."""
    published = []
    with pc.Gateway(pc.load(design), resolution="0.001", grid="0.001") as gateway:
        Relay(gateway).run([line.encode() for line in lines], published.append)
    assert [message["index"] for message in published] == [0]
    assert abs(published[0]["y"] - 3) < 30
    said = [int(n) for n in re.findall(r"line (\d+) refused", caplog.text)]
    assert said == refused


def test_a_row_that_a_dead_sensor_cut_off_is_no_reading(design, tmp_path):
    """Of -19.998 a pipe may hold -19. A line of JSON is whole where it can be read."""
    arguments = ("publish", design, "--state", tmp_path / "g", *STEPS)
    code, out, err = ran(*arguments, given="index,y\n0,-20.0\n1,-19")
    assert code == 0
    assert len(out.splitlines()) == 2
    assert "line 3 refused: expected a line feed" in err
    assert indices(ran(*arguments, given='{"y": -19.0}')[1]) == [1]
    source = tmp_path / "run.csv"
    source.write_text("index,y\n2,-19.998")
    out = ran(*arguments, "--source", source)[1]
    assert [row.split(",")[0] for row in out.splitlines()] == ["index", "2"]


@pytest.mark.skipif(os.name == "nt", reason="no such numbers there")
@pytest.mark.parametrize(
    "closed",
    [(0,), (2,), *(pytest.param(c, marks=pytest.mark.slow) for c in [(1,), (0, 1, 2)])],
)
def test_a_command_whose_standard_files_are_closed_says_so(closed, design, tmp_path):
    """What was meant for them went into whichever file had got their number."""
    state, sink = tmp_path / "g", tmp_path / "sink"

    def close():
        for number in closed:
            os.close(number)

    def closing(*arguments, **options):
        argv = [sys.executable, "-m", "privcontrol.deploy", "publish", design]
        argv += ["--state", state, *STEPS, *arguments]
        return subprocess.run(
            argv,
            preexec_fn=close,
            capture_output=True,
            text=True,
            timeout=300,
            **options,
        )

    process = closing(input='{"y": -20}\n{"y": "-20"}\n')
    assert process.returncode == (0 if closed == (2,) else 1)
    assert "Traceback" not in process.stderr
    if closed in ((0,), (1,)):
        assert "which is closed; pass a file or a topic" in process.stderr
    # an error that nobody can read is not written in the place of a message
    source = tmp_path / "source"
    source.write_text('{"y": -20}\n')
    process = closing("--source", source, "--sink", sink, "--known", "1000")
    assert (process.returncode, process.stdout) == (1, "")
    process = closing("--source", source, "--sink", sink)
    assert (process.returncode, process.stdout) == (0, "")
    assert len(indices(sink.read_text())) == 1
    assert (tmp_path / "g.lock").read_bytes() == b""


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no such device here")
def test_a_sink_that_dies_costs_its_sample_and_no_second_one(design, tmp_path):
    """A full disk, then a reader that goes away: try again, behind what was drawn."""
    arguments = ("publish", design, "--state", tmp_path / "g", *STEPS)
    code, _, err = ran(*arguments, "--sink", "/dev/full", given='{"y": -20}\n')
    assert code == 75
    assert "Traceback" not in err
    process = command(*arguments)
    process.stdin.write('{"y": -20}\n')
    process.stdin.flush()
    first = json.loads(process.stdout.readline())["index"]
    process.stdout.close()
    process.stdin.write('{"y": -20}\n')
    process.stdin.flush()
    assert process.wait(timeout=300) == 75
    said = process.stderr.read()
    assert "Traceback" not in said
    assert "went away; start again with the same --state" in said
    code, out, _ = ran(*arguments, given='{"y": -20}\n')
    assert code == 0
    assert 0 < first < indices(out)[0] - 1


def test_a_disk_without_space_is_tried_again(design, tmp_path):
    """No state is left that looks like one, and nothing is published."""
    resource = pytest.importorskip("resource")

    def short():
        resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))

    arguments = ("publish", design, "--state", tmp_path / "g", *STEPS)
    process = command(*arguments, before=short)
    out, err = process.communicate('{"y": -20}\n', timeout=300)
    assert process.returncode == 75
    assert out == ""
    assert "space left on the disk" in err
    assert not list(tmp_path.iterdir())
    assert ran(*arguments, given='{"y": -20}\n')[0] == 0


def test_two_signals_end_a_relay_once(design, tmp_path):
    """The second one comes while the first one is under way."""
    published = []
    with pc.Gateway(pc.load(design), resolution="0.001") as gateway:
        relay = Relay(gateway)

        def readings():
            yield {"y": 1.0}
            relay.stop()
            relay.stop()
            yield None
            yield {"y": 2.0}

        relay.run(readings(), published.append)
        relay.stop()  # not in run any more
    assert [message["index"] for message in published] == [0]


@pytest.mark.skipif(not hasattr(signal, "SIGUSR1"), reason="no such signal here")
def test_health_on_request(design, tmp_path):
    pc.PrivacyLedger(pc.PrivacyBudget(epsilon=1.5, delta=1e-2), tmp_path / "ledger")
    arguments = ("--state", tmp_path / "g", *STEPS, "--ledger", tmp_path / "ledger")
    process = command("publish", design, *arguments)
    process.stdin.write(f'{{"y": -20}}\n{{"y": "{SECRET}"}}\n')
    process.stdin.flush()
    process.stdout.readline()
    assert "charged" in process.stderr.readline()
    assert "line 2 refused" in process.stderr.readline()
    time.sleep(0.2)
    process.send_signal(signal.SIGUSR1)
    health = json.loads(process.stderr.readline())
    assert health.pop("ledger") == pytest.approx(0.5)
    assert health == {
        "index": 1,
        "remaining": 59,
        "published": 1,
        "refused": 1,
    }
    process.communicate('{"y": -20}\n', timeout=300)  # it goes on
    assert process.returncode == 0


@pytest.mark.skipif(not hasattr(signal, "SIGUSR1"), reason="no such signal here")
def test_signals_close_together_do_not_hang_a_run_with_a_ledger(design, tmp_path):
    """5 of 12 busy runs waited for ever: the handler waited for its own lock."""
    pc.PrivacyLedger(pc.PrivacyBudget(epsilon=1.5, delta=1e-2), tmp_path / "ledger")
    arguments = ("--state", tmp_path / "g", *STEPS, "--ledger", tmp_path / "ledger")
    process = command("publish", design, *arguments)
    process.stdin.write('{"y": -20}\n')
    process.stdin.flush()
    process.stdout.readline()
    sender = threading.Thread(target=process.communicate, args=('{"y": 1}\n' * 40, 60))
    sender.start()
    while sender.is_alive():
        with suppress(ProcessLookupError):
            process.send_signal(signal.SIGUSR1)
        time.sleep(1e-4)
    assert process.returncode == 0


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(signal, "SIGUSR1"), reason="no such signal here")
def test_a_signal_in_the_first_second_does_not_end_the_command(design, tmp_path):
    """The handler came after a second of imports; until then the default one kills."""
    arguments = ["publish", str(design), "--state", str(tmp_path / "g"), *STEPS]
    process = subprocess.Popen(
        [sys.executable, "-X", "importtime", "-m", "privcontrol.deploy", *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    for line in process.stderr:
        # numpy.exceptions is among the first of what takes a second
        if "numpy" in line:
            process.send_signal(signal.SIGUSR1)
            break
    out, _ = process.communicate('{"y": 1}\n', timeout=120)
    assert process.returncode == 0
    assert indices(out) == [0]


def test_a_run_for_each_reading_loses_none(design, tmp_path):
    """Every second one was lost. With --every the rest of a source is left alone."""
    arguments = ("publish", design, "--state", tmp_path / "g", *STEPS, "--every")
    seen = []
    for known in range(4):
        given = 'wrong\n{"y": 1}\n{"y": 2}\n'
        code, out, _ = ran(*arguments, "--known", known, given=given)
        assert code == 0
        seen += indices(out)
    assert seen == [0, 1, 2, 3]
    code, _, err = ran(*arguments, "--known", 5, given='{"y": 1}\n')
    assert code == 1
    assert "older copy" in err


def test_a_state_that_needs_its_ledger_is_refused_without_it(design, tmp_path):
    pc.PrivacyLedger(pc.PrivacyBudget(epsilon=1.5, delta=1e-2), tmp_path / "ledger")
    state = tmp_path / "g"
    arguments = ("publish", design, "--state", state, *STEPS)
    given = '{"y": 1}\n'
    code, out, _ = ran(*arguments, "--ledger", tmp_path / "ledger", given=given)
    assert code == 0
    assert indices(out) == [0]
    code, out, err = ran(*arguments, given=given)
    assert code == 1
    assert out == ""
    assert "--unguarded" in err
    code, out, _ = ran(*arguments, "--unguarded", given=given)
    assert code == 0
    assert indices(out) == [1]
    state.unlink()
    (tmp_path / "g.lock").unlink()
    code, out, err = ran(*arguments, "--known", 2, given=given)
    assert code == 1
    assert out == ""
    assert "--known" in err
    assert not state.exists()


@pytest.mark.parametrize("name", ["sink.jsonl", "sink.csv"])
def test_half_a_line_at_the_end_of_a_sink_swallows_no_message(name, design, tmp_path):
    sink = tmp_path / name
    whole = "index,y\n0,1.0\n" if name.endswith("csv") else '{"index": 0, "y": 1.0}\n'
    sink.write_text(whole + whole.splitlines()[-1][:5])
    arguments = ("publish", design, "--state", tmp_path / "g", *STEPS, "--sink", sink)
    for _ in range(2):
        assert ran(*arguments, given='{"y": 1}\n')[0] == 0
    before, first, second = sink.read_text()[len(whole) :].splitlines()
    assert len(before) == 5
    if name.endswith("csv"):
        rows = [first.split(",")[0], second.split(",")[0]]
    else:
        rows = [str(json.loads(line)["index"]) for line in (first, second)]
    assert rows == ["0", "1"]


def test_lines_come_whole_from_blocks_of_any_size():
    read, write = os.pipe()
    text = b"a\n\nbb\n" + b"x" * 200_000 + b"\nlast"
    writer = threading.Thread(target=lambda: (os.write(write, text), os.close(write)))
    writer.start()
    together = [lines for lines in _lines(read) if lines is not None]
    lines = [line for lines in together for line in lines]
    writer.join()
    os.close(read)
    assert [line[:4] for line in lines] == [b"a", b"", b"bb", b"xxxx", b"last"]
    assert 1 << 16 < len(lines[3]) < 1 << 17


def test_the_promise_of_an_endless_design_for_a_resolution(tmp_path, capfd):
    """The step of the sensor is not covered there, and show and check said nothing."""
    path = tmp_path / "noise.json"
    endless("endless floored").save(path)
    for asked in ("show", "check"):
        assert main([asked, str(path)]) == 0
        without = capfd.readouterr().out
        assert main([asked, str(path), "--resolution", "0.5"]) == 0
        out, err = capfd.readouterr()
        assert "rounding" in out or "does not round" in out or "grid" in out
        assert out != without
        assert "promises less than the noise" in err


def test_check_names_all_that_is_not_hidden_beside_a_resolution(tmp_path, capfd):
    noise = endless("endless floored")
    path = tmp_path / "noise.json"
    noise.save(path)
    assert main(["check", str(path), "--resolution", "0.5"]) == 0
    _, _, named = capfd.readouterr().out.partition("Not hidden: ")
    clauses = re.sub(r"\s+", " ", named)
    for words in ("repetition", "longer ones", "anything larger", "on a grid of 0.5"):
        assert words in clauses
    assert "Horizon:" not in clauses


@pytest.mark.parametrize(
    "wrong",
    [["--resolution", "no"], ["--epoch", "nan"], ["--most-lost", "-1"], ["--none", ""]],
    ids=lambda wrong: wrong[0],
)
def test_wrong_usage_has_a_code_of_its_own(design, tmp_path, wrong, capfd):
    state = tmp_path / "g"
    with pytest.raises(SystemExit) as ended:
        main(["publish", str(design), "--state", str(state), *wrong])
    assert ended.value.code == 2
    assert not state.exists()


def test_exit_codes_of_what_is_refused(design, tmp_path, capfd):
    state = tmp_path / "g"
    source = tmp_path / "run.jsonl"
    source.write_text('{"y": -20}\n')
    assert main(["show", str(tmp_path / "none.json")]) == 1
    begin = ["publish", str(design), "--state", str(state), "--source", str(source)]
    assert main(begin) == 1  # a resolution is missing
    assert "resolution" in capfd.readouterr().err
    assert not state.exists()
    # the budget does not cover the run
    small = tmp_path / "small"
    pc.PrivacyLedger(pc.PrivacyBudget(epsilon=0.5, delta=1e-2), small)
    assert main([*begin, *STEPS, "--ledger", str(small)]) == 1
    assert capfd.readouterr().out == ""


@pytest.mark.skipif(not os.path.exists("/dev/zero"), reason="no such device here")
def test_what_is_no_design_is_not_read_to_its_end(capfd, tmp_path, monkeypatch):
    assert main(["show", "/dev/zero"]) == 1
    assert "expected a design file" in capfd.readouterr().err
    monkeypatch.setattr(saved, "_LARGEST", 1 << 21)
    large = tmp_path / "large.json"
    large.write_bytes(b"{" + bytes(1 << 22))
    assert main(["show", str(large)]) == 1
    assert "at most 2 MB" in capfd.readouterr().err


def test_a_short_file_for_a_long_run_is_refused_before_any_work(tmp_path, capfd):
    """3 kB for ten million samples took more than a minute."""
    noise = pc.design_output_noise(
        pc.plants.vehicle(),
        horizon=1000,
        budget=pc.PrivacyBudget(epsilon=1.0, delta=1e-2),
        adjacency=pc.StateAdjacency({"position": 1.0}),
        floor=0.1,
    )
    path = tmp_path / "noise.json"
    noise.save(path)
    data = json.loads(path.read_text().replace(": 1000,", ": 10000000,"))
    del data["digest"]
    path.write_text(json.dumps({**data, "digest": saved.digest_of(data)}))
    began = time.monotonic()
    assert main(["check", str(path)]) == 1
    assert time.monotonic() - began < 2
    assert "longest=10000000" in capfd.readouterr().err
    noise.save(path)
    with pytest.raises(ValueError, match="at most 999 samples"):
        pc.load(path, longest=999)
    assert pc.load(path, longest=1000).horizon == 1000
    assert main(["check", str(path), "--longest", "999"]) == 1


@pytest.mark.parametrize("horizon, begun", [(900_000, True), (1_100_000, False)])
def test_files_of_up_to_a_million_samples_are_certified(
    horizon, begun, tmp_path, monkeypatch
):
    path = tmp_path / "noise.json"
    pc.design_output_noise(
        pc.plants.vehicle(),
        horizon=1000,
        budget=pc.PrivacyBudget(epsilon=1.0, delta=1e-2),
        adjacency=pc.StateAdjacency({"position": 1.0}),
        floor=0.1,
    ).save(path)
    data = json.loads(path.read_text().replace(": 1000,", f": {horizon},"))
    del data["digest"]
    path.write_text(json.dumps({**data, "digest": saved.digest_of(data)}))

    def certify(*_):
        raise ValueError("it would take minutes")

    monkeypatch.setattr(files, "certify", certify)
    with pytest.raises(ValueError, match="minutes" if begun else "at most 1000000"):
        pc.load(path)


def odd_reading(rng):
    """Return a line or a mapping that a broken source may send."""
    line = bytearray(rng.choice([b'{"y": 1.5, "index": 3}', b"0,1.5", b"index,y"]))
    for _ in range(rng.randrange(4)):
        line[rng.randrange(len(line))] = rng.randrange(256)
    numbers = [1.5, 3, -1, 1e308, 5e-324, 10**400, math.inf, math.nan, 2**63]
    values = [*numbers, True, None, "1", [1], {}, "\ud800"]
    names = rng.choices(["y", "index", "time", "z"], k=rng.randrange(4))
    fields = {name: rng.choice(values) for name in names}
    return rng.choice([bytes(line), rng.randbytes(40), fields, json.dumps(fields)])


@pytest.mark.parametrize("epoch", [None, 100.0])
def test_no_odd_reading_ends_a_relay_or_repeats_a_sample(design, epoch):
    rng = random.Random(7)
    published = []
    with pc.Gateway(pc.load(design), resolution="0.001", grid="0.001") as gateway:
        relay = Relay(gateway, epoch=epoch, most_lost=2)
        relay.run((odd_reading(rng) for _ in range(2000)), published.append)
        counts = relay.health()
    passed = [message["index"] for message in published]
    assert passed == sorted(set(passed))
    assert len(passed) == counts["published"] > 5
    assert all(math.isfinite(message["y"]) for message in published)
    assert counts["refused"] > 50


def test_integers_that_no_double_holds_are_read_exactly(design, monkeypatch):
    """Two of them that differ by one were 256 apart as doubles."""
    taken = []

    def published(self, values, index):
        taken.append(int(values[0]))
        self._next = index + 1
        return [0.0]

    monkeypatch.setattr(pc.Gateway, "_published", published)
    counts = [2**60 + k for k in (0, 128, 129)]
    lines = [json.dumps({"y": count}) for count in counts]
    lines += ["y", *map(str, counts), f"-{counts[1]}"]
    with pc.Gateway(pc.load(design), resolution="0.001") as gateway:
        Relay(gateway).run(lines, lambda message: None)
    assert taken == [*counts, *counts, -counts[1]]


def test_a_state_is_of_one_process_and_one_design(design, tmp_path):
    state = tmp_path / "g"
    arguments = ("publish", design, "--state", state, *STEPS)
    first = command(*arguments)
    first.stdin.write('{"y": -20}\n')
    first.stdin.flush()
    first.stdout.readline()
    code, out, err = ran(*arguments, given='{"y": -20}\n')
    assert code == 75
    assert out == ""
    assert "another process" in err
    first.communicate(timeout=300)
    other = tmp_path / "other.json"
    pc.design_output_noise(
        pc.plants.vehicle(),
        horizon=60,
        budget=pc.PrivacyBudget(epsilon=2.0, delta=1e-2),
        adjacency=pc.StateAdjacency({"position": 1.0}),
        floor=0.1,
        resolution=0.001,
    ).save(other)
    code, out, err = ran("publish", other, "--state", state, given='{"y": -20}\n')
    assert code == 1
    assert out == ""
    assert "another noise" in err
    # a lost file does not begin a second noise
    state.unlink()
    code, out, err = ran(*arguments, given='{"y": -20}\n')
    assert code == 1
    assert out == ""
    assert not state.exists()
    assert "is gone" in err


@pytest.mark.slow
def test_a_device_needs_no_solver_and_no_frames(design, tmp_path):
    code = (
        "import sys\n"
        "from privcontrol.deploy import main\n"
        "exit = main(sys.argv[1:])\n"
        "heavy = {'cvxpy', 'pandas', 'dask', 'torch', 'networkx', 'paho', 'pyarrow',\n"
        "    'sklearn', 'distributed', 'loky', 'tqdm', 'dp_accounting'}\n"
        "sys.exit(exit or sorted(heavy & set(sys.modules)) or 0)\n"
    )
    arguments = ("publish", design, "--state", tmp_path / "g", *STEPS)
    done = subprocess.run(
        [sys.executable, "-c", code, *map(str, arguments)],
        input='{"y": 1}\n',
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    assert indices(done.stdout) == [0]


def test_a_loop_without_noise_is_refused_with_its_advice(tmp_path, capsys):
    """It ended in an AttributeError."""
    path = tmp_path / "loop.json"
    pc.private_lqg(pc.plants.vehicle(), 1, 1, 1, 1).save(path)
    assert main(["show", str(path)]) == 1
    assert "the loop has no noise" in capsys.readouterr().err


def test_a_warning_is_one_line_without_a_place_in_our_code(tmp_path):
    path = tmp_path / "noise.json"
    noise = pc.design_output_noise(
        pc.plants.vehicle(),
        horizon=5,
        budget=pc.PrivacyBudget(epsilon=1.0, delta=1e-2),
        adjacency=pc.StateAdjacency({"position": 1.0}),
        floor=0.1,
    )
    noise.save(path)
    state = tmp_path / "gateway"
    code, out, err = ran(
        "publish", path, "--state", state, *STEPS, given='{"y": -20}\n'
    )
    assert code == 0
    assert indices(out) == [0]
    (line,) = err.splitlines()
    assert line.startswith("privcontrol: resolution: the noise was not designed for")


def test_a_header_without_the_outputs_is_named(design, tmp_path):
    """It was refused as a row of a header that there was not."""
    state = tmp_path / "gateway"
    code, out, err = ran("publish", design, "--state", state, *STEPS, given="z\n1\n")
    assert code == 0
    assert out == ""
    assert "line 1 refused: expected a JSON object, or a header that names y" in err


def test_a_file_of_which_no_line_could_be_used_ends_the_command_with_one(
    design, tmp_path
):
    """It ended with 0, as if the log had been published."""
    log = tmp_path / "log.csv"
    sink = tmp_path / "out.csv"
    state = tmp_path / "gateway"
    begun = (
        "publish",
        design,
        "--state",
        state,
        "--source",
        log,
        "--sink",
        sink,
        *STEPS,
    )
    for text in ("z\n1\n", "index;y\n0;-20\n"):
        log.write_text(text)
        code, _, err = ran(*begun)
        assert code == 1
        assert "header that names y, between commas" in err
        assert f"source: none of the 2 lines of {log} could be published" in err
    # the advice: mend the file, and start again
    log.write_text("index,y\n0,-20\n1,x\n")
    code, _, err = ran(*begun)
    assert code == 0
    assert "line 3 refused: " in err
    assert [line.split(",")[0] for line in sink.read_text().split()] == ["index", "0"]
    # a log that was published before has come late, which is no fault of the file
    log.write_text("index,y\n0,-20\n")
    code, _, err = ran(*begun)
    assert code == 0
    assert "its sample was passed" in err


def test_dates_as_times_are_answered_by_what_to_pass(design, tmp_path, capsys):
    arguments = ["publish", design, "--state", tmp_path / "g", *STEPS]
    for wrong in ("2026-01-01T00:00", "inf"):
        with pytest.raises(SystemExit) as ended:
            main([*map(str, arguments), "--epoch", wrong])
        assert ended.value.code == 2
        assert "--epoch: expected a number in the unit of" in capsys.readouterr().err
    for wrong in ("1.5", "-1"):
        with pytest.raises(SystemExit):
            main([*map(str, arguments), "--known", wrong])
        assert "--known: expected a whole number >= 0" in capsys.readouterr().err
    dated = "note,time,y\na,2026-01-01,-20\n"
    _, out, err = ran(*arguments, "--epoch", 0, given=dated)
    assert out == ""
    assert "line 2 refused: " in err
    assert "a row of the header with numbers for y, time" in err


def test_a_time_without_an_epoch_is_refused_with_its_cure(design, tmp_path):
    arguments = ("publish", design, "--state", tmp_path / "g", *STEPS)
    _, out, err = ran(*arguments, given='{"time": 0, "y": -20}\n')
    assert out == ""
    assert "readings have a time where --epoch says" in err
    _, _, err = ran(*arguments, given='{"z": 0, "y": -20}\n')
    assert "--epoch" not in err
    code, out, _ = ran(*arguments, "--epoch", 0, given='{"time": 0, "y": -20}\n')
    assert code == 0
    assert out
