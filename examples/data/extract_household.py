"""Extract the load of the household that the study of a battery uses.

Its year is shipped, so nobody has to run this. It reads the wheel of SimBench, 91 MB,
from ``pip download --no-deps simbench==1.6.3``.

Run it as ``python extract_household.py simbench-1.6.3-py3-none-any.whl [folder]``; the
default is this folder.
"""

import csv
import io
import sys
import zipfile
from pathlib import Path

import numpy as np

TABLE = "simbench/networks/1-complete_data-mixed-all-0-sw/LoadProfile.csv"
PROFILE = "H0-B_pload"  # a household's active power, as a share of its peak
PEAK = 6.0  # kW, the largest household of this profile in SimBench


def load(wheel):
    """Mean power (35136,) [kW] in the quarters of an hour of 2016."""
    with zipfile.ZipFile(wheel) as archive, archive.open(TABLE) as table:
        rows = csv.DictReader(io.TextIOWrapper(table, "utf8"), delimiter=";")
        shares = [float(row[PROFILE]) for row in rows]
    return PEAK * np.array(shares, dtype=np.float32)


if __name__ == "__main__":
    if len(sys.argv) < 2:
        print("no wheel of SimBench is given: nothing is extracted")
        raise SystemExit(0)
    folder = Path(sys.argv[2]) if len(sys.argv) > 2 else Path(__file__).parent
    np.savez_compressed(folder / "household.npz", load=load(sys.argv[1]))
    print(f"wrote household.npz to {folder}")
