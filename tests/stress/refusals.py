"""How many designs for boxes around plants of the literature are refused, and why.

    python tests/stress/refusals.py [seconds]

Thirty plants (`literature`) with boxes of 0.1 and 1 % around every entry of their sampled
matrices. The secret is each state at the start, by one unit, over ten samples that span
twice the fastest time constant. A design that takes longer than the limit (600 s) counts
as refused.
"""

import signal
import sys
import time
import warnings

import control as ct
import literature
import numpy as np

import privcontrol as pc

SAMPLES = 10
BUDGET = pc.PrivacyBudget(epsilon=1.0, delta=1e-2)
SECRET = pc.StateAdjacency(1.0, times=0)
SPREADS = (1e-3, 1e-2)


def plants() -> dict[str, ct.StateSpace]:
    """All plants in discrete time."""
    found = {}
    for name, (A, C, _) in literature.continuous().items():
        fastest = np.abs(np.linalg.eigvals(A)).max()
        plant = ct.ss(A, np.zeros((len(A), 1)), C, 0)
        found[name] = plant.sample(2 / fastest / SAMPLES)
    for name, (A, C, _) in literature.discrete().items():
        found[name] = ct.ss(A, np.zeros((len(A), 1)), C, 0, 1.0)
    return found


class TooLong(Exception):
    """The limit of time was reached."""


def _ring(number: int, frame: object) -> None:
    raise TooLong("longer than the limit of time")


def outcome(plant: ct.StateSpace, spread: float, limit: int) -> tuple[str, float]:
    """Largest std over that for the exact model, or the cause of a refusal; seconds."""
    request = {"horizon": SAMPLES, "budget": BUDGET, "adjacency": SECRET}
    begin = time.perf_counter()
    signal.signal(signal.SIGALRM, _ring)
    signal.alarm(limit)
    try:
        box = pc.PlantBox.around(plant, relative=spread)
        noise = pc.design_output_noise(plant, **request, models=box, floor="auto")
        exact = pc.design_output_noise(plant, **request, models="exact")
        ratio = np.sqrt(noise.design.cost / exact.design.cost)
        text = f"{ratio:.3f}"
    except (ValueError, pc.PrivacyError, TooLong) as error:
        text = f"refused: {type(error).__name__}: {str(error)[:90]}"
    finally:
        signal.alarm(0)
    return text, time.perf_counter() - begin


def main(limit: int = 600) -> None:
    """Print a table."""
    warnings.simplefilter("ignore")
    refused = 0
    total = 0
    for name, plant in plants().items():
        for spread in SPREADS:
            text, seconds = outcome(plant, spread, limit)
            total += 1
            refused += text.startswith("refused")
            print(
                f"{name:15} {plant.nstates:2} states {plant.noutputs} outputs, box "
                f"{spread:.1%}: {text} ({seconds:.0f} s)",
                flush=True,
            )
    print(f"{refused} of {total} refused ({refused / total:.1%})")


if __name__ == "__main__":
    main(*(int(argument) for argument in sys.argv[1:]))
