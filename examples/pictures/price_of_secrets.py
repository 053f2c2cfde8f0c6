"""What privacy costs, over plants and secrets.

Five loops and what each of them hides. On the left the noise at the output that shows the
secret most, divided by what the secret does there; on the right what the loop's
quadratic cost grows by. Noise that is shaped as the secret's response is compared with
independent noise of the same guarantee (epsilon = 1 at delta = 0.01).

A change that fades in the noise is cheap to hide: a place that the controller does not
need costs nothing. What the controller has to fight is dear, whatever its shape.

Run it as ``python price_of_secrets.py [folder]``; the figure is written to the folder.
"""

import sys
from pathlib import Path

import control as ct
import matplotlib.pyplot as plt
import numpy as np

import privcontrol as pc

HORIZON = 48  # samples
BUDGET = pc.PrivacyBudget(epsilon=1.0, delta=1e-2)
FLOWN = {"disturbance": "design", "measurement_noise": "design"}
FAMILIES = {
    "gaussian": ("shaped", "#009E73"),
    "iid-gaussian": ("independent", "#CC79A7"),
}


def named(A, B, C, dt, states, inputs, outputs):
    system = ct.ss(A, B, C, 0, states=states, inputs=inputs, outputs=outputs)
    return system.sample(dt)


def drone():
    """A cloud keeps a drone's speed; where it took off is hidden, within 100 m."""
    A, B = [[0, 1], [0, -0.2]], [[0], [1]]
    plant = named(
        A, B, np.eye(2), 0.5, ["place", "speed"], ["thrust"], ["GPS", "Doppler"]
    )
    lqg = {"Q": np.diag([0, 1]), "R": 0.5, "QN": np.diag([0, 0.04])}
    lqg |= {"RN": np.diag([4, 0.04]), "P0": np.diag([1e6, 1]), "terminal": 0}
    return plant, lqg, pc.InitialStateAdjacency({"place": 100})


def room():
    """One stay of one person in a room, for at most three hours."""
    A, B = [[-3.1, 2.7], [0.18, -0.19]], [[1.7, 0.17], [0, 0]]
    plant = named(A, B, [[1, 0]], 0.25, ["air", "walls"], ["heat", "people"], ["T"])
    lqg = {"Q": np.diag([1, 0]), "R": 0.02, "QN": np.diag([1e-2, 1e-4]), "RN": 1e-2}
    return (
        plant,
        lqg | {"controls": ["heat"]},
        pc.DisturbanceAdjacency({"people": 1}, duration=12),
    )


def air():
    """The same stay by the CO2 in the air, which a fan keeps down; in 100 ppm, hours."""
    plant = named(
        [[-0.5]], [[-1, 0.9]], 1, 0.25, ["CO2"], ["fan", "people"], ["sensor"]
    )
    lqg = {"Q": 1, "R": 0.5, "QN": 0.05, "RN": 0.05, "controls": ["fan"]}
    return plant, lqg, pc.DisturbanceAdjacency({"people": 1}, duration=12)


def tank():
    """One use of 30 l within an hour from a tank that a pump refills; in l, hours."""
    plant = named([[-0.05]], [[1, -1]], 1, 0.25, ["level"], ["pump", "use"], ["gauge"])
    lqg = {"Q": 1, "R": 1, "QN": 25, "RN": 4, "controls": ["pump"]}
    return plant, lqg, pc.DisturbanceAdjacency({"use": 30}, duration=4)


def vehicle():
    """Where a vehicle that parks is at any one time, within 10 cm."""
    plant = pc.plants.vehicle()
    lqg = {"Q": np.diag([2.0, 1.0]), "R": 1.0, "QN": 1e-4 * np.eye(2), "RN": 1e-4}
    return plant, lqg, pc.StateAdjacency({"position": 0.1})


CASES = {
    "drone: where it\ntook off, 100 m": drone,
    "room: one visit\nby temperature": room,
    "room: one visit\nby CO2": air,
    "tank: one use\nof 30 l": tank,
    "vehicle: its place\nat any one time, 10 cm": vehicle,
}


def effect(plant, secret):
    """The largest change that the secret causes at each output (p,)."""
    ((signal, size),) = secret.radius.items()
    if isinstance(secret, pc.DisturbanceAdjacency):
        pulse = np.zeros((plant.ninputs, HORIZON + 1))
        pulse[plant.input_labels.index(signal), : secret.duration] = size
        shown = ct.forced_response(plant, U=pulse, squeeze=False).outputs
    else:
        start = size * (np.array(plant.state_labels) == signal)
        shown = ct.initial_response(
            plant, T=plant.dt * np.arange(HORIZON + 1), X0=start
        ).outputs
    return np.abs(np.atleast_2d(shown)).max(axis=-1)


def main(folder="."):
    figure, (left, right) = plt.subplots(
        1, 2, figsize=(9, 4.2), sharey=True, layout="constrained"
    )
    for row, (name, case) in enumerate(CASES.items()):
        plant, lqg, secret = case()
        public = pc.private_lqg(
            plant, **{"P0": np.eye(plant.nstates)} | lqg, horizon=HORIZON
        )
        least = public.cost(**FLOWN).total
        for offset, (family, (label, color)) in zip((-0.2, 0.2), FAMILIES.items()):
            noise = pc.design_output_noise(
                plant, horizon=HORIZON, budget=BUDGET, adjacency=secret, family=family,
                models="exact")  # fmt: skip
            shown = effect(plant, secret)
            size = np.max(noise.std[shown > 0] / shown[shown > 0])
            price = 100 * (public.with_noise(noise).cost(**FLOWN).total / least - 1)
            print(f"{' '.join(name.split())}, {label}: noise {size:.2f} times the secret, "
                  f"cost +{abs(price):.1f} %")  # fmt: skip
            place = row + offset
            left.barh(place, size, 0.36, color=color, label=None if row else label)
            right.barh(place, max(price, 0), 0.36, color=color)
            left.text(size * 1.04, place, f"{size:.1f}", va="center", fontsize=8)
            right.text(max(price, 1) * 1.1, place, f"{abs(price):.0f} %", va="center",
                       fontsize=8)  # fmt: skip
    left.set_yticks(range(len(CASES)), CASES, fontsize=8)
    left.invert_yaxis()
    left.set(xscale="log", xlabel="Noise over the secret's effect", xlim=(0.5, 60))
    right.set(xlabel="Loop's cost [% more]")
    right.set_xscale("symlog", linthresh=1)
    right.set_xlim(0, 20000)
    figure.legend(loc="outside upper center", ncols=2, frameon=False, fontsize="small")
    for ax in (left, right):
        ax.spines[["top", "right"]].set_visible(False)
    figure.savefig(Path(folder) / "price_of_secrets.png", dpi=150)
    plt.close(figure)


if __name__ == "__main__":
    main(*sys.argv[1:])
