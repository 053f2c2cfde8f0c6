"""Flip bits of the files of a ledger and a gateway, and check that none is believed.

    python tests/stress/flip_stores.py              # every bit of the first two pages
    python tests/stress/flip_stores.py --flips 2000 # so many of them, at random

A file with a flipped bit is refused, or says exactly what it said before.
"""

import argparse
import random
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from gateway_cases import noise

import privcontrol as pc
from privcontrol.privacy.guarantee import EXACTLY, released

PAGES = 2
PAGE = 4096


def ledger_made(path):
    """A ledger with three charges and a gateway that has come somewhere."""
    promise = released(noise("structured").guarantee, EXACTLY)
    ledger = pc.PrivacyLedger(pc.PrivacyBudget(epsilon=50.0, delta=1e-2), path)
    for day in ("Monday", "Tuesday", "Wednesday"):
        ledger.charge(promise, note=day)
    ledger._reach("gateway", 12, None, "mark")


def ledger_read(path):
    ledger = pc.PrivacyLedger.open(path)
    return ledger.spent, ledger.history, ledger.head, ledger._reached("gateway")


def gateway_made(path):
    """A gateway that remembers its noise, with three blocks."""
    with pc.Gateway(noise("driven"), path=path, block=4, floating=True) as gateway:
        for _ in range(9):
            gateway.publish(0.0)


def gateway_read(path):
    with pc.Gateway.resume(path) as gateway:
        entries = gateway._exact.entries.items()
        bits = [(number, entry.value, entry.count) for number, entry in entries]
        return gateway.next_index, gateway.noise, gateway.identity, bits


STORES = {
    "ledger": (ledger_made, ledger_read),
    "gateway": (gateway_made, gateway_read),
}


def run(flips=None, seed=0, report=print):
    """Return how many flips were believed."""
    total = 0
    for name, (make, read) in STORES.items():
        began = time.perf_counter()
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "store.sqlite"
            make(path)
            whole = path.read_bytes()
            truth = read(path)
            places = list(range(8 * min(PAGES * PAGE, len(whole))))
            if flips is not None:
                places = random.Random(seed).sample(places, flips)
            refused = 0
            believed = 0
            for place in places:
                changed = bytearray(whole)
                changed[place // 8] ^= 1 << place % 8
                path.write_bytes(changed)
                try:
                    found = read(path)
                except (ValueError, OSError):
                    refused += 1
                else:
                    believed += found != truth
        report(
            f"{name}: {len(places)} flips, {refused} refused, "
            f"{len(places) - refused - believed} harmless, {believed} believed, "
            f"{time.perf_counter() - began:.0f} s"
        )
        total += believed
    return total


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--flips", type=int, default=None)
    given = parser.parse_args()
    sys.exit(run(given.flips, time.time_ns()) != 0)
