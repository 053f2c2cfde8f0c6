"""How many designs for boxes around plants of the literature are refused, and why.

    python tests/stress/refusals.py [seconds [white] [structured]]

Thirty plants (`literature`) with boxes of 0.1 and 1 % around every entry of their sampled
matrices. The secret is a disturbance that pushes one state, the one that the plant's load
or actuator drives, by one unit at any one of 30 samples, and the noise is white. Structured
noise with ``floor="auto"`` hides a change of that state by one unit at the start. Ten samples
span twice the fastest time constant. A design that takes longer than the limit (60 s of CPU)
counts as refused.

The table shows the standard deviation over that for the exact model. In brackets stands
the certified shift over the largest one of 20 plants drawn from the box. Noise is useless
if it is more than 10 times that of the exact model.
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
HORIZON = 30
BUDGET = pc.PrivacyBudget(epsilon=1.0, delta=1e-2)
SPREADS = (1e-3, 1e-2)
USELESS = 10.0

#: The state that is disturbed; the first one where none is named.
DISTURBED = {
    "AC1": 3,
    "AC3": 1,
    "AC4": 2,
    "AC5": 2,
    "AC6": 5,
    "AC7": 5,
    "AC8": 5,
    "AC11": 3,
    "AC15": 2,
    "DIS3": 1,
    "DIS5": 1,
    "AGS": 1,
    "BDT1": 4,
    "MFP": 2,
    "UWV": 1,
    "TG1": 8,
    "EB1": 1,
    "beam, 10 modes": 1,
    "beam, 20 modes": 1,
    "pendulum": 1,
    "two masses": 2,
    "heat rod": 9,
    "vehicle": 1,
}


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
    raise TooLong("time")


def request_of(state: str, kind: str) -> tuple[dict, dict]:
    """Arguments of the design for an exact model, and what a box adds to them."""
    request: dict = {"horizon": HORIZON, "budget": BUDGET}
    if kind == "white":
        request["adjacency"] = pc.DisturbanceAdjacency(1.0, inputs=[state])
        request["family"] = "iid-gaussian"
        return request, {}
    request["adjacency"] = pc.StateAdjacency({state: 1.0}, times=0)
    return request, {"floor": "auto"}


def outcome(
    name: str, plant: ct.StateSpace, spread: float, limit: int, kind: str
) -> tuple[str, float]:
    """What the table says, and the std over that for the exact model, inf if refused."""
    state = plant.state_labels[DISTURBED.get(name, 0)]
    request, beside = request_of(state, kind)
    box = pc.PlantBox.around(plant, relative=spread)
    try:
        exact = pc.design_output_noise(plant, **request, models="exact")
    except pc.PrivacyError as error:
        return f"nothing to hide: {error}"[:60], 1.0
    signal.signal(signal.SIGVTALRM, _ring)
    signal.setitimer(signal.ITIMER_VIRTUAL, limit)
    try:
        noise = pc.design_output_noise(plant, **request, **beside, models=box)
    except (ValueError, pc.PrivacyError, pc.UncertifiableError, TooLong) as error:
        return f"refused: {error}"[:100], np.inf
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
    ratio = float(np.sqrt(noise.design.cost / exact.design.cost))
    worst = noise.guarantee_for(box.sampled(20, rng=0)).gdp
    return f"{ratio:.3g} ({noise.guarantee.gdp / worst:.3g})", ratio


def table(kind: str, limit: int) -> None:
    """Print a table for white or structured noise."""
    ratios = []
    print(f"\n| {kind}: plant | n | p | box of 0.1 % | box of 1 % | CPU, s |")
    print("| --- | --- | --- | --- | --- | --- |")
    for name, plant in plants().items():
        begin = time.process_time()
        texts = []
        for spread in SPREADS:
            text, ratio = outcome(name, plant, spread, limit, kind)
            texts.append(text)
            ratios.append(ratio)
        seconds = time.process_time() - begin
        print(
            f"| {name} | {plant.nstates} | {plant.noutputs} | {texts[0]} | {texts[1]} "
            f"| {seconds:.1f} |",
            flush=True,
        )
    refused = np.isinf(ratios).sum()
    useless = (np.array(ratios) > USELESS).sum() - refused
    print(
        f"\n{refused} of {len(ratios)} refused ({refused / len(ratios):.1%}), {useless} "
        f"useless, the largest finite ratio {max(r for r in ratios if r < np.inf):.3g}"
    )


def main(limit: int = 60, *kinds: str) -> None:
    """Print the tables."""
    warnings.simplefilter("ignore")
    for kind in kinds or ("white", "structured"):
        table(kind, limit)


if __name__ == "__main__":
    main(*(int(argument) for argument in sys.argv[1:2]), *sys.argv[2:])
