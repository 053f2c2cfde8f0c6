"""Attack gateways by the last bits of what they publish.

    python tests/stress/low_bits.py --runs 200
    python tests/stress/low_bits.py --runs 200 --law radial
    python tests/stress/low_bits.py --runs 200 --law radial --only "resolution and grid"

A run takes about a quarter of a second of processor time, 200 of one kind a minute.

A position is read in millimetres, 1,000 samples a run. A neighbour 1 m away is excluded
with certainty if no one draw of the noise explains all that was published. Gateways in
floating point (``floating=True``) are refuted in almost every run; with a resolution or a
grid none may be.
"""

import argparse
import sys
import time
from fractions import Fraction
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

import warnings

import numpy as np
from gateway_cases import noise

import privcontrol as pc

SAMPLES = 1000
OPTIONS = {
    "floating": {"floating": True},
    "resolution": {"resolution": "0.001"},
    "grid": {"grid": "0.001"},
    "resolution and grid": {"resolution": "0.001", "grid": "0.001"},
}


def excluded(published, readings, factors, half):
    """Whether no eta explains published = rounded(reading + factor eta)."""
    low, high = -np.inf, np.inf
    for value, reading, factor in zip(published, readings, factors):
        width = Fraction(np.spacing(abs(value))) / 2 + half
        middle = Fraction(value) - reading
        low = max(low, (middle - width) / factor)
        high = min(high, (middle + width) / factor)
    return low > high


def refuted(design, factors, options, rng):
    """Whether a run excludes its truth, and whether it excludes the neighbour."""
    start = rng.integers(-20000, 20000)
    counts = (start + rng.integers(-50, 50) * np.arange(SAMPLES)).tolist()
    exact = "resolution" in options
    with pc.Gateway(design, **options) as gateway:
        readings = counts if exact else [k / 1000 for k in counts]
        published = [float(gateway.publish(y, counts=exact)[0]) for y in readings]
    half = Fraction(1, 2000) if "grid" in options else Fraction(0)
    answers = []
    for shift in (0, 1000):
        near = [Fraction(k + shift, 1000) for k in counts]
        if not exact:
            near = [Fraction((k + shift) / 1000) for k in counts]
        answers.append(excluded(published, near, factors, half))
    return answers


def run(runs, seed=0, report=print, law="structured", kinds=OPTIONS):
    """Runs that are refuted by each kind of gateway, and truths that are.

    gamma(t) is a factor times one number, eta times a length of radial laws.
    """
    warnings.simplefilter("ignore", pc.PrivacyWarning)
    design = noise(law, horizon=SAMPLES)
    # a position keeps its displacement, so these doubles are exact
    factors = [Fraction(factor) for factor in design.process.responses.ravel().tolist()]
    rng = np.random.default_rng(seed)
    found = {}
    for name in kinds:
        options, began = OPTIONS[name], time.process_time()
        answers = [refuted(design, factors, options, rng) for _ in range(runs)]
        truths, neighbours = np.sum(answers, axis=0)
        found[name] = int(neighbours) + int(truths)
        report(
            f"{name}: {neighbours} of {runs} runs exclude a neighbour, {truths} the "
            f"truth, {time.process_time() - began:.0f} s"
        )
    return found


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=200)
    parser.add_argument("--law", default="structured")
    parser.add_argument("--only", choices=OPTIONS, help="this kind of gateway alone")
    asked = parser.parse_args()
    kinds = [asked.only] if asked.only else OPTIONS
    found = run(asked.runs, law=asked.law, kinds=kinds)
    found.pop("floating", None)
    sys.exit(any(found.values()))
