"""What hiding a shape costs README's offices: ``python price_of_shapes.py``.

For one level of 12 samples, any shape over 12 samples, and any shape over a day it prints the
noise at each output, what it adds to the loop's cost, the gap to the least cost of noise, and
the processor time of the design.
"""

import os
import runpy
import sys
import tempfile
import time
import warnings
from pathlib import Path

import numpy as np

import privcontrol as pc

EXAMPLE = Path(__file__).parents[2] / "examples" / "two_offices.py"
#: The noise at an output [K] and the added cost [%], as the pages say them.
PAGES = {
    ("level", 12): (0.220, 10.80),
    ("any", 12): (0.236, 10.86),
    ("any", 96): (0.646, 23.2),
}
#: By how much a number on the pages may differ, relative to it.
ROUNDED = 0.01


def main():
    warnings.simplefilter("ignore", pc.PrivacyWarning)
    start = os.getcwd()
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)  # the example draws a figure
        script = runpy.run_path(str(EXAMPLE))
        os.chdir(start)
    public = script["public"]
    least = public.steady_state_cost().total
    far = 0.0
    for (shape, duration), (std, price) in PAGES.items():
        secret = pc.DisturbanceAdjacency(
            {"people east": 1, "people west": 1}, duration=duration, shape=shape
        )
        begin = time.process_time()
        noise = pc.design_output_noise(
            script["offices"], horizon=np.inf, budget=script["budget"], adjacency=secret,
            weight=public, models="exact",
        )  # fmt: skip
        took = time.process_time() - begin
        paid = 100 * (public.with_noise(noise).steady_state_cost().total / least - 1)
        print(f"{shape}, {duration} samples: {noise.std[0]:.3f} K, the loop costs "
              f"{paid:.2f} % more, gap {noise.design.gap:.4f}, {took:.1f} s", flush=True)  # fmt: skip
        far = max(far, noise.std.max() / std - 1, paid / price - 1)
    return bool(far > ROUNDED)


if __name__ == "__main__":
    sys.exit(main())
