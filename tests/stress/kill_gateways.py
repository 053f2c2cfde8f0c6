"""Kill gateways at random instants, resume them, and check everything that they published.

    python tests/stress/kill_gateways.py 1000

Children are forked, publish as fast as they can, and note every sample when `publish`
has returned. They are killed with SIGKILL. Then the notes, the files and the ledger must
agree: no index twice, every value that of the one noise in the file, nothing uncharged,
and never more than the budget.
"""

import json
import os
import random
import signal
import sqlite3
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from gateway_cases import ENDLESS, REQUESTS, noise

import privcontrol as pc
from privcontrol.noise.exact import ExactNoise

HORIZON = 60
BLOCK = 4
READING = 0.25
LONGEST = 0.12  # seconds after which a child is killed at the latest


def child(path, notes, ledger_path, design):
    """Make or take up the gateway and publish until killed or done."""
    ledger = None
    if ledger_path is not None:
        ledger = pc.PrivacyLedger.open(ledger_path)
    if path.exists():
        gateway = pc.Gateway.resume(path, ledger=ledger)
    else:
        gateway = pc.Gateway(
            design, path=path, ledger=ledger, block=BLOCK, floating=True
        )
    out = os.open(notes, os.O_CREAT | os.O_APPEND | os.O_WRONLY)
    while gateway.remaining > 0 and gateway.next_index < HORIZON:
        t = gateway.next_index
        value = gateway.publish(READING)[0]
        os.write(out, f"{t} {float(value).hex()} {gateway.identity}\n".encode())
        time.sleep(random.random() * 2e-3)
    gateway.close()


def forked(*arguments):
    """The process number of a child that runs `child`."""
    number = os.fork()
    if number:
        return number
    random.seed(os.urandom(8))
    status = 1
    try:
        child(*arguments)
        status = 0
    except pc.BudgetExceededError:
        status = 2
    except BaseException as error:
        print("child:", type(error).__name__, error, flush=True)
    os._exit(status)


def kill_until_done(jobs, most):
    """Fork a child for each job, kill and fork again. Returns exit codes and kills."""
    running = {forked(*job): job for job in jobs}
    done, kills = [], 0
    while running:
        if kills < most:
            time.sleep(random.random() * LONGEST)
            victim = random.choice(list(running))
            os.kill(victim, signal.SIGKILL)
        else:
            victim = next(iter(running))
        _, status = os.waitpid(victim, 0)
        job = running.pop(victim)
        if os.WIFSIGNALED(status):
            kills += 1
            running[forked(*job)] = job
        else:
            done.append((job, os.waitstatus_to_exitcode(status)))
    return done, kills


def published(notes):
    """Index and value of every sample that was noted, and the identities."""
    if not notes.exists():
        return [], set()
    lines = notes.read_text().splitlines()
    rows = [line.split() for line in lines]
    samples = [(int(t), float.fromhex(value)) for t, value, _ in rows]
    return samples, {identity for _, _, identity in rows}


def check_run(path, notes, design):
    """The notes agree with the file: one noise, each index once."""
    samples, identities = published(notes)
    indices = [t for t, _ in samples]
    assert len(indices) == len(set(indices)), "an index was published twice"
    assert indices == sorted(indices), "an index went back"
    assert len(identities) <= 1, "two gateways for one path"
    if not path.exists():
        assert not samples, "published without a file"
        return
    connection = sqlite3.connect(path)
    ((state,),) = connection.execute("SELECT text FROM state").fetchall()
    rows = connection.execute("SELECT text FROM entries ORDER BY number").fetchall()
    connection.close()
    state = json.loads(state)["state"]
    draws = [json.loads(text) for (text,) in rows[1:]]
    if state["once"] is not None:
        draws.insert(0, {"first": 0, "bits": state["once"]})
    committed = state["committed"]
    exact = ExactNoise(design)
    for draw in draws:
        for number, pair in enumerate(draw["bits"], draw["first"]):
            value, count = pair.split("/")
            value, count = int(value, 16), int(count)
            if number in exact.entries:
                known = exact.entries[number]
                prefix = value >> (count - known.count)
                assert prefix == known.value, "a second draw of an entry"
            exact.restore(number, value, count)
    assert max(indices, default=-1) < committed, "published before it was committed"
    if exact.has_state:
        return  # earlier blocks are dropped from the file
    if not design.process.total.width or exact.has_memory:
        for t, value in samples:
            ball = exact.sample(t)[0]
            expected = READING + (0.0 if ball is None else float(ball.mid()))
            assert abs(value - expected) <= 1e-12 * max(1.0, abs(expected)), (
                "another noise than that of the file"
            )


def run(kills, seed=0, report=print, each=24):
    """So many kills over all noises, alone and with a ledger that four gateways share."""
    random.seed(seed)
    designs = {kind: noise(kind, HORIZON) for kind in (*REQUESTS, *ENDLESS)}
    total, samples_seen, rounds = 0, 0, 0
    while total < kills:
        for kind, design in designs.items():
            if total >= kills:
                break
            shared = rounds % 2 == 1
            rounds += 1
            with tempfile.TemporaryDirectory() as name:
                folder = Path(name)
                ledger_path = None
                if shared:
                    three = sum([design.guarantee] * 3).epsilon(1e-2) * (1 + 1e-9)
                    budget = pc.PrivacyBudget(epsilon=three, delta=1e-2)
                    ledger_path = folder / "ledger.sqlite"
                    pc.PrivacyLedger(budget, ledger_path)
                jobs = [
                    (
                        folder / f"{k}.gateway",
                        folder / f"{k}.notes",
                        ledger_path,
                        design,
                    )
                    for k in range(4 if shared else 1)
                ]
                done, killed = kill_until_done(jobs, min(kills - total, each))
                total += killed
                codes = sorted(code for _, code in done)
                assert codes == ([0, 0, 0, 2] if shared else [0]), f"exits {codes}"
                for path, notes, _, _ in jobs:
                    check_run(path, notes, design)
                    samples_seen += len(published(notes)[0])
                if shared:
                    check_ledger(ledger_path, jobs, budget)
            report(f"{total:5d} kills, {samples_seen:6d} samples: {kind}")
    return total, samples_seen


def check_ledger(ledger_path, jobs, budget):
    """Each gateway that published is charged, once, and the budget holds."""
    ledger = pc.PrivacyLedger.open(ledger_path)
    assert ledger.spent.satisfies(budget), "overspent"
    entries = ledger._store.entries()
    charged = Counter(e["release"] for e in entries if "release" in e)
    assert set(charged.values()) == {1}, "charged twice"
    assert len(charged) == 3
    for _, notes, _, _ in jobs:
        samples, identities = published(notes)
        assert identities <= set(charged), "published uncharged"
        assert samples or not identities


if __name__ == "__main__":
    start = time.time()
    count, seen = run(int(sys.argv[1]) if len(sys.argv) > 1 else 1000, time.time_ns())
    print(
        f"{count} kills, {seen} samples checked, {time.time() - start:.0f} s: all hold"
    )
