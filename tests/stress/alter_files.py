"""Design files that are altered in one number each claim no less noise than they hold.

    python tests/stress/alter_files.py         # 300 altered files
    python tests/stress/alter_files.py 40

One number of the noise, the plant, the request or the claim of a file is changed: it grows,
shrinks or changes its sign, by a little or by much. An altered plant gets the fingerprint of
what it holds now, so that a proof alone can refuse it. Every altered file that
`privcontrol.verify` accepts is then read by the library, which certifies its noise anew. The
exit status is 1 if one of them claims less than its noise costs.
"""

import json
import math
import sys
import tempfile
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))

from design_files import digest_of
from verified_cases import KINDS, design

import privcontrol as pc
from privcontrol import verify
from privcontrol.noise.certify import certify
from privcontrol.numerics.saved import read

FACTORS = (0.5, 0.99, 0.99999, 1.00001, 1.01, 2.0, -1.0)


def numbers(item, place=()):
    """The places of all numbers in the JSON of a file but those of the digest."""
    if isinstance(item, dict):
        for name, part in item.items():
            # without numbers the shape of an array says nothing
            if name != "shape" or item.get("floats"):
                yield from numbers(part, (*place, name))
    elif isinstance(item, list):
        for k, part in enumerate(item):
            yield from numbers(part, (*place, k))
    elif isinstance(item, bool) or item is None:
        return
    elif (
        isinstance(item, int)
        or place[-1] in ("float", "square")
        or "floats" in place[-2:-1]
    ):
        yield place


def altered(data, place, factor):
    """Change the number at a place."""
    *path, last = place
    for name in path:
        data = data[name]
    old = data[last]
    if isinstance(old, int):
        data[last] = old + (1 if factor > 1 else -1)
    elif last == "square":
        numerator, denominator = (*old.split("/"), "1")[:2]
        data[last] = (
            f"{int(int(numerator) * factor * 10**6)}/{int(denominator) * 10**6}"
        )
    else:
        data[last] = (float.fromhex(old) * factor).hex()


def signed_anew(data):
    """Give a file the digests of what it holds now, and its noise the plant's own matrices."""
    for part in data["parts"]:
        if "plant" in part:
            part["plant"] = data["plant"]
    for plant in [data["plant"], *data["request"]["models"]]:
        names = plant.keys() - {"kind", "fingerprint", "name"}
        plant["fingerprint"] = digest_of({name: plant[name] for name in names})
    del data["digest"]
    data["digest"] = digest_of(data)


def claims_too_little(path, margin=2e-9):
    """Whether the noise of a file costs more than the file claims, as the library certifies.

    `load` refuses more, such as claims of moves that do not attain them.

    Parameters
    ----------
    margin : float, optional
        How far below the library's own bound a claim may be, relative to it.
    """
    try:
        noise = read(path)
        if isinstance(noise, pc.PrivateLoop):
            noise = noise.noise
        world = noise.request.world(noise.plant_data)
        loss = certify(noise.parts, noise.request.adjacency, world, noise.family)
    except pc.PrivacyError:
        return True
    except ValueError:
        return False  # such as of a plant whose fingerprint is another
    claimed = noise.guarantee.loss
    if loss.pure < math.inf:
        return loss.pure > claimed.pure * (1 + margin)
    return loss.gdp > claimed.gdp * (1 + margin)


def main(count=300):
    rng = np.random.default_rng(0)
    kinds = list(KINDS)
    statuses = {0: 0, 1: 0, 2: 0, 3: 0}
    bad = done = 0
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "noise.json"
        while done < count:
            kind = kinds[done % len(kinds)]
            noise = design(kind, done // len(kinds))
            if noise is None:
                kinds.remove(kind)
                continue
            noise.save(path)
            whole = json.loads(path.read_text())
            # the moves that attain a loss say nothing of its size
            places = [x for x in numbers(whole) if {"schema", "moves"}.isdisjoint(x)]
            # as often in each part of a file, of which some have many numbers
            part = rng.choice(sorted({place[0] for place in places}))
            places = [place for place in places if place[0] == part]
            place = places[rng.integers(len(places))]
            factor = FACTORS[rng.integers(len(FACTORS))]
            altered(whole, place, factor)
            signed_anew(whole)
            path.write_text(json.dumps(whole))
            status = verify.checked(path)["status"]
            statuses[status] += 1
            done += 1
            if status == 0 and claims_too_little(path):
                bad += 1
                print(
                    kind, place, factor, verify.line(verify.checked(path)), flush=True
                )
    print(
        f"{done} files: {statuses[0]} accepted, {statuses[1]} do not hold, {statuses[2]} "
        f"not covered, {statuses[3]} no design files; {bad} accepted that claim too little"
    )
    return bad


if __name__ == "__main__":
    sys.exit(main(*map(int, sys.argv[1:])) > 0)
