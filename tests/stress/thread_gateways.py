"""Publish from four threads at once, and check that no index and no noise is used twice.

    python tests/stress/thread_gateways.py --calls 10000

Every thread makes so many calls, with a reading of its own. For each kind of noise the
indices must be as many as the calls, and every published value must be that of the noise
in the file at exactly one index.
"""

import argparse
import sys
import tempfile
import threading
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from gateway_cases import noise

import privcontrol as pc

THREADS = 4
KINDS = ("structured", "endless", "endless floored")


def published(design, path, calls):
    """What each thread got, as (reading, value), for a constant reading of its own."""
    gateway = pc.Gateway(design, path=path, floating=True)
    barrier = threading.Barrier(THREADS)
    answers = [[] for _ in range(THREADS)]

    def work(own):
        barrier.wait()
        for _ in range(calls):
            answers[own].append(float(gateway.publish(float(own))[0]) - own)

    threads = [threading.Thread(target=work, args=(own,)) for own in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    reached = gateway.next_index
    gateway.close()
    return answers, reached


def doubled(design, answers):
    """How many samples of the noise stand behind two readings."""
    values = [round(value, 12) for own in answers for value in own]
    return len(values) - len(set(values))


def run(calls, report=print):
    """Doubled samples over all kinds of noise."""
    switch = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    found = 0
    try:
        for kind in KINDS:
            design = noise(kind, horizon=THREADS * calls)
            began = time.perf_counter()
            with tempfile.TemporaryDirectory() as folder:
                path = Path(folder) / "gateway.sqlite"
                answers, reached = published(design, path, calls)
            missing = THREADS * calls - reached
            twice = 0
            if kind != "structured":  # else all samples show one number
                twice = doubled(design, answers)
            found += twice + missing
            report(
                f"{kind}: {THREADS} x {calls} calls, {reached} indices, {twice} draws on "
                f"two readings, {time.perf_counter() - began:.0f} s"
            )
    finally:
        sys.setswitchinterval(switch)
    return found


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--calls", type=int, default=10_000)
    sys.exit(run(parser.parse_args().calls) != 0)
