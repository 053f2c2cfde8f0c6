"""Interrupt gateways and ledgers by alarms at random instants, and go on with them.

    python tests/stress/interrupt_gateways.py 60

The handler of the alarm raises an error, as that of Ctrl-C does, in the middle of publish,
close and charge. Errors are kept, as a console keeps the last one. Each call that follows
must end. No sample comes twice, no entry is drawn twice, and what is published is charged.
"""

import faulthandler
import os
import random
import signal
import sys
import tempfile
import time
from collections import deque
from contextlib import suppress
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from gateway_cases import noise

import privcontrol as pc

LARGE = pc.PrivacyBudget(epsilon=50.0, delta=1e-2)
KINDS = ("structured", "driven", "endless floored")
CALLS = 14
#: Seconds after which an alarm comes at the latest, and after which a call hangs.
LONGEST, PATIENCE = 0.01, 100


class Alarm(BaseException):
    """What the handler raises."""


class Alarms:
    """Call functions that an alarm may end, and keep its errors."""

    def __init__(self, rng):
        self.rng = rng
        self.is_armed = False
        self.raised = 0
        self.kept = deque(maxlen=5)
        signal.signal(signal.SIGALRM, self.ring)

    def ring(self, *_):
        if self.is_armed:
            raise Alarm

    def during(self, call, *arguments, **options):
        """Return whether a call ended before an alarm. Errors of ours end it as well."""
        faulthandler.dump_traceback_later(PATIENCE, exit=True)
        try:
            try:
                self.is_armed = True
                signal.setitimer(signal.ITIMER_REAL, self.rng.random() * LONGEST + 1e-6)
                call(*arguments, **options)
                return True
            finally:
                self.is_armed = False
        except Alarm as error:
            self.raised += 1
            self.kept.append(error)
        except (pc.PrivacyError, OSError, ValueError):
            pass
        signal.setitimer(signal.ITIMER_REAL, 0)
        return False


class Drawn:
    """The bits of entries of one noise, which never change."""

    def __init__(self):
        self.bits = {}

    def check(self, gateway):
        for number, entry in gateway._exact.entries.items():
            value, count = self.bits.setdefault(number, (entry.value, entry.count))
            common = min(count, entry.count)
            same = value >> (count - common) == entry.value >> (entry.count - common)
            assert same, "a second draw of an entry"


def one(folder, design, alarms):
    """Return how many calls there were of one gateway."""
    rng = alarms.rng
    ledger = pc.PrivacyLedger(LARGE, folder / "ledger")
    options = {"path": folder / "gateway", "ledger": ledger}
    gateway = pc.Gateway(design, **options, floating=True, block=2)
    published, drawn = [], Drawn()
    for _ in range(CALLS):
        if gateway.remaining == 0:
            break
        if alarms.during(gateway.publish, 0.0):
            published.append(gateway.next_index - 1)
            # what an interrupted write drew is used only where it was kept
            drawn.check(gateway)
        if rng.random() < 0.2:
            alarms.during(ledger.charge, design.guarantee, note="another")
        if rng.random() < 0.2:
            alarms.during(gateway.close)
            ended(gateway)
            gateway = pc.Gateway.resume(**options)
            assert gateway.next_index > max(published, default=-1)
    ended(gateway)
    assert published == sorted(set(published)), "a sample came twice"
    with pc.Gateway.resume(**options) as gateway:
        assert gateway.next_index > max(published, default=-1)
        drawn.check(gateway)
        if gateway.remaining:
            gateway.publish(0.0)
    charged = [entry for entry in ledger._store.entries() if entry.get("release")]
    assert len(charged) == 1
    return CALLS


def ended(gateway):
    """Close a gateway, whose file may say that a write did not end."""
    with suppress(pc.PrivacyError, ValueError, OSError):
        gateway.close()


def run(seconds, seed, report=print):
    """Return how many calls were made, and how many of them an alarm ended."""
    alarms = Alarms(random.Random(seed))
    designs = [noise(kind) for kind in KINDS]
    calls = 0
    fast = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        with tempfile.TemporaryDirectory(dir=fast) as folder:
            calls += one(Path(folder), alarms.rng.choice(designs), alarms)
    faulthandler.cancel_dump_traceback_later()
    report(f"{calls} calls, {alarms.raised} interrupted: all go on, seed {seed}")
    return calls, alarms.raised


if __name__ == "__main__":
    run(float(sys.argv[1]) if len(sys.argv) > 1 else 60, time.time_ns())
