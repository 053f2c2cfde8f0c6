"""Design files of every kind are checked by `privcontrol.verify`.

    python tests/stress/verify_files.py            # 4 designs of each kind
    python tests/stress/verify_files.py 2 grid     # 2 of one kind

It prints, by kind, how far its bound of y^2 is from the library's, and the longest time. It
fails if a verdict differs from that of `load`, or if a bound exceeds the library's by more
than 1e-9 of it.
"""

import collections
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from verified_cases import KINDS, design

import privcontrol as pc
from privcontrol import verify


def main(count=4, kinds=None):
    apart = collections.defaultdict(list)
    slowest = 0.0
    bad = 0
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "noise.json"
        for kind in kinds or KINDS:
            for seed in range(count):
                noise = design(kind, seed)
                if noise is None:
                    continue
                noise.save(path)
                try:
                    pc.load(path)
                    loads = True
                except pc.PrivacyError:
                    loads = False
                start = time.process_time()
                print(kind, seed, end=" ", flush=True, file=sys.stderr)
                report = verify.checked(path)
                seconds = time.process_time() - start
                slowest = max(slowest, seconds)
                if (report["status"] == 0) != loads or seconds > 10:
                    bad += 1
                    print(
                        kind,
                        seed,
                        f"{seconds:.1f} s",
                        verify.line(report),
                        noise,
                        f"loads: {loads}",
                        flush=True,
                    )
                if "gdp" in report:
                    ratio = (float(report["gdp"]) / noise.guarantee.gdp) ** 2 - 1
                elif "shift" in report:
                    ratio = float(report["shift"]) / float(report["claimed shift"])
                    ratio = ratio**2 - 1
                elif "epsilon" in report:
                    ratio = (
                        float(report["epsilon"])
                        / (noise.guarantee.epsilon(0.0) * noise.request.releases)
                        - 1
                    )
                else:
                    continue
                bad += ratio > 1e-9
                apart[kind].append(ratio)
    total = sum(map(len, apart.values()))
    print(
        f"{total} files, {bad} bad, longest {slowest:.1f} s; bound of y^2 over the library's less one:"
    )
    for kind, ratios in apart.items():
        print(f"  {kind} ({len(ratios)}): {min(ratios):.1e} to {max(ratios):.1e}")
    return bad


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]) if len(sys.argv) > 1 else 4, sys.argv[2:]) > 0)
