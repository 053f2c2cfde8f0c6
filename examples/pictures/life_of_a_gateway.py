"""The life of a gateway.

A gateway charges its ledger once, publishes a day of readings, stops in the middle, and
resumes: the noise goes on where it was and nothing is charged again. Here it stops after
40 of 96 readings and comes back an hour later. What was sent in between is lost; what was
published before and after is one release. (``examples/deployment`` kills one in a process
of its own.)

Run it as ``python life_of_a_gateway.py [folder]``; the figure is written to the folder.
"""

import sys
import tempfile
from pathlib import Path

import control as ct
import matplotlib.pyplot as plt
import numpy as np

import privcontrol as pc

SAMPLES, STOPPED, BACK = 96, 40, 44
room = ct.ss(
    [[-3.1, 2.7], [0.18, -0.19]],
    [[1.7, 0.17], [0, 0]],
    [[1, 0]],
    0,
    inputs=["heat", "people"],
    outputs=["T"],
).sample(0.25)
noise = pc.design_output_noise(
    room,
    horizon=np.inf,
    budget=pc.PrivacyBudget(epsilon=1.0, delta=1e-2),
    adjacency=pc.DisturbanceAdjacency({"people": 1}, duration=12, shape="any"),
    models="exact",
)


def readings():
    """A day of the room, with one visit from hour 14 to 17."""
    hours = np.arange(SAMPLES) / 4
    inputs = np.zeros((2, SAMPLES))
    inputs[0] = 0.4 * (hours > 6) * (hours < 20)  # heating by day, kW
    inputs[1] = (hours >= 14) & (hours < 17)
    sensor = 0.02 * np.random.default_rng(0).standard_normal(SAMPLES)
    return hours, ct.forced_response(room, hours, inputs).outputs[0] + sensor


def main(folder="."):
    hours, true = readings()
    published = np.full(SAMPLES, np.nan)
    spent = np.zeros(SAMPLES)
    with tempfile.TemporaryDirectory() as name:
        ledger = pc.PrivacyLedger(
            pc.PrivacyBudget(epsilon=1.5, delta=1e-2), Path(name) / "ledger.sqlite"
        )
        state = Path(name) / "gateway.sqlite"
        with pc.Gateway(noise, ledger=ledger, path=state, grid=0.001) as gateway:
            for t in range(STOPPED):
                published[t] = gateway.publish(true[t]).item()
                spent[t] = 1.5 - ledger.remaining
        # stopped here: what the file says is all that is left
        with pc.Gateway.resume(state, ledger=ledger) as gateway:
            for t in range(BACK, SAMPLES):
                published[t] = gateway.publish(true[t], index=t).item()
                spent[t] = 1.5 - ledger.remaining
        spent[STOPPED:BACK] = spent[STOPPED - 1]
        charges = len(ledger.history)
    print(
        f"published {np.isfinite(published).sum()} of {SAMPLES}, charged {charges} time"
    )
    figure, (top, low) = plt.subplots(
        2, 1, figsize=(7, 4.4), sharex=True, layout="constrained", height_ratios=(2, 1)
    )
    top.plot(hours, published, ".-", color="#D55E00", lw=0.8, label="published")
    top.plot(hours, true, color="black", label="true reading")
    low.step(hours, spent, where="post", color="#009E73", label="charged to the ledger")
    low.axhline(1.5, color="0.5", ls=":", label="its budget")
    for ax in (top, low):
        ax.axvspan(STOPPED / 4, BACK / 4, color="0.85", lw=0)
        ax.spines[["top", "right"]].set_visible(False)
        ax.legend(frameon=False, fontsize="small", loc="lower right")
    top.text(
        STOPPED / 4, top.get_ylim()[1], "stopped ", ha="right", va="top", fontsize=8
    )
    top.text(BACK / 4, top.get_ylim()[1], " resumed", ha="left", va="top", fontsize=8)
    top.set(ylabel="Temperature [K]")
    low.set(ylabel="Epsilon", xlabel="Time of day [h]", ylim=(0, 1.7), xlim=(0, 24))
    figure.savefig(Path(folder) / "life_of_a_gateway.png", dpi=150)
    plt.close(figure)


if __name__ == "__main__":
    main(*sys.argv[1:])
