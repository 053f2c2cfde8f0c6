"""Who is in the room?

A building zone whose temperature is controlled in the cloud, and whose occupancy is
private. Occupancy warms the room during the run: noise that hides the initial state
hides nothing of it. The thermal parameters are known to 10 %, and every guarantee holds
for all corners of that box. Run it as ``python building_zone.py [folder]``; the figure
is written to the folder.
"""

import sys
from itertools import product
from pathlib import Path

import control as ct
import matplotlib.pyplot as plt
import numpy as np

import privcontrol as pc

STEP, SAMPLES = 1 / 6, 72  # hours; ten minutes, half a day
PERSON = 0.1  # kW
EPSILONS, DELTA, FLOOR = (0.25, 0.5, 1.0, 2.0, 4.0, 8.0), 1e-2, 0.2
SPREADS = np.geomspace(
    0.05, 20, 12
)  # of the measurements [K], to which a filter may be tuned
STAY = pc.DisturbanceAdjacency(
    {"occupancy": PERSON * np.sqrt(18)}, norm="l2"
)  # one stay of one person, up to three hours
START = pc.StateAdjacency({"air": 0.5}, times=0)


def zone(air=1.0, wall=1.0, glass=1.0, *, inputs=("heating", "occupancy")):
    """Air and wall of a room as two heat capacities [kWh/K] and three resistances [K/kW], sampled exactly."""
    air_capacity, wall_capacity, to_wall, to_street, through_glass = (
        0.4 * air,
        4.0,
        4.0 * wall,
        8.0,
        20.0 * glass,
    )
    A = [
        [
            -(1 / to_wall + 1 / through_glass) / air_capacity,
            1 / (to_wall * air_capacity),
        ],
        [1 / (to_wall * wall_capacity), -(1 / to_wall + 1 / to_street) / wall_capacity],
    ]
    B = [[1 / air_capacity] * len(inputs), [0.0] * len(inputs)]
    room = ct.ss(
        A,
        B,
        [[1, 0]],
        0,
        states=["air", "wall"],
        inputs=list(inputs),
        outputs=["temperature"],
        name="zone",
    )
    return room.sample(STEP, name="zone")


NOMINAL = zone()
MODELS = [zone(*scale) for scale in product((0.9, 1.1), repeat=3)]


def request(epsilon):
    """What every design must meet: a stay hidden under every model."""
    return dict(
        horizon=SAMPLES,
        adjacency=STAY,
        models=MODELS,
        budget=pc.PrivacyBudget(epsilon=epsilon, delta=DELTA),
    )


def thermostat(spread, noise=None):
    """The heating's LQG loop, its Kalman filter tuned to measurements with this standard deviation [K]."""
    loop = pc.private_lqg(
        NOMINAL,
        Q=np.diag([1.0, 0.0]),
        R=0.05,
        QN=0.1**2,
        RN=spread**2,
        controls=["heating"],
    )
    return loop.with_noise(noise)


def comfort(loop):
    """Root mean square of the air temperature's error over the run [K], with sun and doors as disturbance."""
    return float(np.sqrt(loop.mean_square_error(disturbance="design")[0].mean()))


def tuned(design):
    """The noise of least discomfort, and this discomfort: the filter, and noise designed for the loop, go together."""
    noises = [design(thermostat(spread)) for spread in SPREADS]
    errors = [
        comfort(thermostat(spread, noise)) for spread, noise in zip(SPREADS, noises)
    ]
    return noises[int(np.argmin(errors))], min(errors)


def eavesdropper(noise):
    """Standard deviation of the best estimate of the occupancy [persons], from everything published.

    Beforehand the number of persons is known to within one, with a memory of two hours.
    """
    ages = STEP * np.abs(np.subtract.outer(np.arange(SAMPLES), np.arange(SAMPLES)))
    prior = np.exp(-ages / 2)
    impulse = np.array(
        [
            ct.forced_response(
                zone(inputs=["occupancy"]), noise.timepts, PERSON * np.eye(SAMPLES)[t]
            ).outputs
            for t in range(SAMPLES)
        ]
    ).T
    covariance = np.array(
        [
            [noise.covariance(t, s).item() for s in range(SAMPLES)]
            for t in range(SAMPLES)
        ]
    )
    published = impulse @ prior @ impulse.T + covariance
    left = (
        prior
        - prior
        @ impulse.T
        @ np.linalg.pinv(published, rcond=1e-12, hermitian=True)
        @ impulse
        @ prior
    )
    return np.sqrt(np.maximum(np.diag(left), 0.0))


def independent(epsilon):
    noise = pc.design_output_noise(NOMINAL, family="iid-gaussian", **request(epsilon))
    return tuned(lambda loop: noise)


def optimal(epsilon):
    return tuned(
        lambda loop: pc.design_output_noise(NOMINAL, weight=loop, **request(epsilon))
    )


def structured():
    """Noise for the initial temperature: what hides it, and what it hides of a stay."""
    noise = pc.design_output_noise(
        NOMINAL, floor=FLOOR, **(request(1.0) | {"adjacency": START})
    )
    return *tuned(lambda loop: noise), noise.guarantee_for(
        [NOMINAL, *MODELS], adjacency=STAY
    ).epsilon(DELTA)


def report(noise):
    """What is promised, how far from optimal the noise is, and what a design for one model would have promised."""
    print(noise.guarantee, f"\ncertified gap of its cost: {noise.design.gap:.1e}\n")
    exact = pc.design_output_noise(NOMINAL, **(request(1.0) | {"models": None}))
    for name, found in (("the nominal model", exact), ("all models", noise)):
        worst = found.guarantee_for([NOMINAL, *MODELS]).epsilon(DELTA)
        print(
            f"designed for {name} at epsilon = 1: epsilon = {worst:.3f} under the worst model"
        )


def main(folder):
    figure, (left, right) = plt.subplots(1, 2, figsize=(10, 3.8), layout="constrained")
    public = comfort(
        thermostat(
            SPREADS[0],
            pc.design_output_noise(NOMINAL, family="iid-gaussian", **request(1e4)),
        )
    )
    left.axhline(public, color="black", ls=":", label="no privacy")
    styles = (("#CC79A7", "s", "-."), ("#009E73", "o", "-"))
    for (color, marker, line), design in zip(styles, (independent, optimal)):
        noises, errors = zip(*map(design, EPSILONS))
        style = {"color": color, "ls": line}
        left.semilogx(EPSILONS, errors, marker=marker, label=design.__name__, **style)
        at_one = noises[EPSILONS.index(1.0)]
        right.plot(
            at_one.timepts,
            eavesdropper(at_one),
            **style,
            label=f"{design.__name__}, ε = 1",
        )
        print(
            f"{design.__name__}:",
            ", ".join(
                f"{e:.3f} K at epsilon = {x:g}" for x, e in zip(EPSILONS, errors)
            ),
        )
    report(at_one)
    noise, error, epsilon = structured()
    left.semilogx(
        epsilon,
        error,
        "s",
        color="#E69F00",
        label="structured for the start, with floor",
    )
    right.plot(
        noise.timepts,
        eavesdropper(noise),
        color="#E69F00",
        label=f"structured with floor, ε = {epsilon:.0f}",
    )
    print(
        f"structured noise for the start, with floor: {error:.3f} K, and a stay has epsilon = {epsilon:.3g}"
    )
    right.axhline(1, color="black", ls="--", lw=1, label="beforehand")
    left.set(
        xlabel="ε for a stay of one person (δ = 0.01)",
        ylabel="rms temperature error [K]",
        ylim=(0, 0.42),
    )
    left.set_xticks(
        [0.25, 0.5, 1, 2, 4, 8, 32], ["¼", "½", 1, 2, 4, 8, 32], minor=False
    )
    left.minorticks_off()
    right.set(
        xlabel="Time [h]",
        ylabel="Error of the occupancy's estimate [persons]",
        ylim=(0, 1.08),
    )
    for ax in (left, right):
        ax.grid(alpha=0.3)
        ax.legend(fontsize="small", frameon=False)
    figure.savefig(folder / "building_zone.png", dpi=150)
    plt.close(figure)


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "."))
