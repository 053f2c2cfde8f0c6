"""Every single-bit flip of a small design file is refused or harmless.

python tests/stress/flip_design_files.py
python tests/stress/flip_design_files.py 7   # one bit in seven

A flip is harmless if `load` returns a design that equals the one that was saved.
"""

import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from gateway_cases import noise

import privcontrol as pc


def flips(path, stride):
    """Load a design file with each of its bits flipped in turn."""
    design = noise("structured", horizon=3)
    design.save(path)
    whole = path.read_bytes()
    count, harmless, accepted, crashed = 0, 0, [], []
    for place in range(0, 8 * len(whole), stride):
        changed = bytearray(whole)
        changed[place // 8] ^= 1 << (place % 8)
        path.write_bytes(changed)
        count += 1
        try:
            loaded = pc.load(path)
        except (ValueError, pc.PrivacyError):
            continue
        except Exception as error:
            crashed.append((place, type(error).__name__))
            continue
        if loaded == design:
            harmless += 1
        else:
            accepted.append(place)
    print(
        f"{count} flips in {len(whole)} bytes: {harmless} harmless, "
        f"{len(accepted)} loaded as another design, "
        f"{len(crashed)} raised something that is no refusal"
    )
    for place in accepted:
        print(f"bit {place % 8} of byte {place // 8} loaded as another design")
    for place, name in crashed:
        print(f"bit {place % 8} of byte {place // 8} raised {name}")
    return len(accepted) + len(crashed)


if __name__ == "__main__":
    stride = int(sys.argv[1]) if len(sys.argv) > 1 else 1
    with tempfile.TemporaryDirectory() as folder:
        failures = flips(Path(folder) / "noise.json", stride)
    sys.exit(failures > 0)
