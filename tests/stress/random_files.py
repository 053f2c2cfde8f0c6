"""Files of random requests are read back as they were, and proved by `privcontrol.verify`.

    python tests/stress/random_files.py            # requests 0 to 199
    python tests/stress/random_files.py 500 1000   # 1,000 requests from the 500th on

A request hides a signal over 8 or 14 samples or without a horizon: it changes once or
several times, at some distance or none, lasts in a shape or in any, moves in time or to
other signals, alone or beside another secret. Its noise stands alone, beside a floor or for
readings on a grid, for one plant, a list of models or a plant that varies, for one release
or several. What is designed is saved, must load as what it was, and must hold for the
verifier. The exit status is 1 if a file does not, or if a design fails without a reason.
"""

import collections
import sys
import tempfile
import time
import warnings
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))

import cases

import privcontrol as pc
from privcontrol import verify

HORIZONS = (8, 14, np.inf)
REFUSALS = (ValueError, pc.PrivacyError, pc.UncertifiableError, MemoryError)


def drawn_plant(rng):
    return cases.random_plant(
        int(rng.integers(1 << 30)),
        states=int(rng.integers(1, 4)),
        inputs=int(rng.integers(1, 3)),
        outputs=int(rng.integers(1, 3)),
        radius=rng.uniform(0.5, 0.95),
    )


def drawn_signal(rng, plant):
    """A signal that changes in one of many ways."""
    kind = rng.choice(["sample", "level", "any", "profiles", "energy"])
    if kind == "energy":
        return pc.DisturbanceAdjacency(rng.uniform(0.1, 1), norm="l2")
    options = {}
    if kind in ("level", "any"):
        options |= {"duration": int(rng.integers(2, 5)), "shape": str(kind)}
    elif kind == "profiles":
        options["profiles"] = [rng.normal(size=int(rng.integers(1, 5)))]
    if kind in ("sample", "level") and rng.random() < 0.6:
        options |= drawn_move(rng, kind)
    elif kind in ("sample", "any"):
        options["together"] = bool(rng.random() < 0.2)
    if rng.random() < 0.4:
        options["events"] = int(rng.integers(2, 5))
        if rng.random() < 0.7:
            options["separation"] = int(rng.integers(1, 7))
    names = plant.input_labels
    if "which" not in options and rng.random() < 0.5:
        names = [str(rng.choice(names))]
    return pc.DisturbanceAdjacency(
        {name: rng.uniform(0.1, 1) for name in names}, **options
    )


def drawn_move(rng, kind):
    """To when, to which signal, or both where an event lasts for one sample."""
    when = {"moved": int(rng.integers(1, 5))}
    which = {"which": True}
    moves = [when, which, when | which] if kind == "sample" else [when, which]
    return moves[rng.integers(len(moves))]


def drawn_secret(rng, plant):
    secret = drawn_signal(rng, plant)
    if rng.random() < 0.8:
        return secret
    other = pc.StateAdjacency(rng.uniform(0.1, 1), times=0)
    return [secret, drawn_signal(rng, plant) if rng.random() < 0.5 else other]


def near(rng, plant, count):
    """Plants beside one, with its names."""
    return pc.PlantBox.around(plant, relative=1e-3).sampled(
        count, rng=int(rng.integers(1 << 30))
    )[-count:]


def is_endless_energy(request):
    """Whether the verifier finds no proof for a list of models, and says that none holds."""
    secrets = request["adjacency"]
    secrets = secrets if isinstance(secrets, list) else [secrets]
    energies = [getattr(one, "norm", "single") == "l2" for one in secrets]
    return any(energies) and np.isinf(request["horizon"])


def drawn_request(rng):
    """A plant or a list of them, and what is asked for."""
    plant = drawn_plant(rng)
    horizon = HORIZONS[rng.integers(len(HORIZONS))]
    request = {"horizon": horizon, "releases": int(rng.integers(1, 4))}
    request["budget"] = pc.PrivacyBudget(epsilon=rng.uniform(0.2, 3), delta=1e-3)
    if rng.random() < 0.3:
        request["budget"] = pc.PrivacyBudget(gdp=rng.uniform(0.1, 2))
    request["adjacency"] = drawn_secret(rng, plant)
    if rng.random() < 0.4:
        request["floor"] = rng.uniform(0.05, 1, plant.noutputs)
    elif rng.random() < 0.2:
        request["family"] = "iid-gaussian"
    if rng.random() < 0.2:
        request["resolution"] = 1e-3
    kind = rng.random()
    if kind < 0.2 and not is_endless_energy(request):
        request["models"] = near(rng, plant, 2)
    elif kind < 0.3 and np.isfinite(horizon):
        return near(rng, plant, horizon), request
    return plant, request | {"max_std": np.inf}


def answer(seed, path):
    """What became of a request: a verdict, "refused", or what is wrong."""
    rng = np.random.default_rng(seed)
    plant, request = drawn_request(rng)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", pc.PrivacyWarning)
        try:
            noise = pc.design_output_noise(plant, **{"models": "exact"} | request)
        except REFUSALS:
            return "refused"
    noise.save(path)
    if pc.load(path) != noise:
        return "another noise was loaded"
    report = verify.checked(path)
    return report["verdict"] + ("" if not report["status"] else f": {report['reason']}")


def main(first=0, count=200):
    answers = collections.Counter()
    longest = 0.0
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "noise.json"
        for seed in range(first, first + count):
            start = time.process_time()
            try:
                found = answer(seed, path)
            except Exception as error:
                found = f"failed: {error!r}"
            longest = max(longest, time.process_time() - start)
            answers[found] += 1
            if found not in ("holds", "refused"):
                print(f"request {seed}: {found}", flush=True)
    told = ", ".join(f"{number} {found}" for found, number in answers.most_common())
    print(f"{count} requests: {told}; longest {longest:.1f} s")
    return answers.keys() - {"holds", "refused"}


if __name__ == "__main__":
    sys.exit(bool(main(*map(int, sys.argv[1:]))))
