"""Who is in the room?

A building zone whose temperature is controlled in the cloud, and whose occupancy is
private. Occupancy warms the room during the run: noise that hides the initial state
hides nothing of it. The thermal parameters are known to 10 %, and every guarantee holds
for all corners of that box. Run it as ``python building_zone.py [folder]``; the figure
is written to the folder.
"""

import sys
from functools import cache
from itertools import product
from pathlib import Path

import control as ct
import matplotlib.pyplot as plt
import numpy as np
from scipy.linalg import toeplitz

import privcontrol as pc
from privcontrol.core import gaussian_std

STEP, SAMPLES = 1 / 6, 72  # hours; ten minutes, half a day
TIMES = STEP * np.arange(SAMPLES)
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


@cache
def thermostat(spread):
    """The heating's LQG loop, its Kalman filter tuned to measurements with this standard deviation [K]."""
    return pc.private_lqg(
        NOMINAL,
        Q=np.diag([1.0, 0.0]),
        R=0.05,
        QN=0.1**2,
        RN=spread**2,
        controls=["heating"],
    )


def comfort(loop, noise=None):
    """Root mean square of the air temperature's error over the run [K], with sun and doors as disturbance."""
    errors = loop.with_noise(noise).mean_square_error(TIMES, disturbance="design")
    return float(np.sqrt(errors[0].mean()))


def tuned(design, epsilons=EPSILONS):
    """The noise of least discomfort at every epsilon, and this discomfort: the filter, and noise designed for the loop, go together.

    Noise for another epsilon is that for one, times a number: all filters are compared with
    noise for one, and the noise is designed for the best of them.
    """
    loops = [thermostat(spread) for spread in SPREADS]
    public = np.array([comfort(loop) for loop in loops])
    private = np.array([comfort(loop, design(1.0, loop)) for loop in loops])
    found = []
    for epsilon in epsilons:
        size = size_of(epsilon) / size_of(1.0)
        errors = public**2 + size**2 * (private**2 - public**2)
        loop = loops[int(np.argmin(errors))]
        noise = design(epsilon, loop)
        found.append((noise, comfort(loop, noise)))
    return found


def size_of(epsilon):
    """The standard deviation that hides a shift of one."""
    return float(gaussian_std(epsilon, DELTA))


def eavesdropper(noise):
    """Standard deviation of the best estimate of the occupancy [persons], from everything published.

    Beforehand the number of persons is known to within one, with a memory of two hours.
    """
    ages = STEP * np.abs(np.subtract.outer(np.arange(SAMPLES), np.arange(SAMPLES)))
    prior = np.exp(-ages / 2)
    person = PERSON * (np.arange(SAMPLES) == 0)
    heated = ct.forced_response(zone(inputs=["occupancy"]), noise.timepts, person)
    impulse = np.tril(toeplitz(heated.outputs))
    covariance = np.zeros((SAMPLES, SAMPLES))
    for t, s in np.argwhere(np.tri(SAMPLES)):
        covariance[t, s] = covariance[s, t] = noise.covariance(t, s).item()
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


@cache
def white(epsilon):
    return pc.design_output_noise(NOMINAL, family="iid-gaussian", **request(epsilon))


def independent(epsilon, loop):
    return white(epsilon)


@cache
def optimal(epsilon, loop):
    return pc.design_output_noise(NOMINAL, weight=loop, **request(epsilon))


def structured():
    """Noise for the initial temperature: what hides it, and what it hides of a stay."""
    noise = pc.design_output_noise(
        NOMINAL, floor=FLOOR, **(request(1.0) | {"adjacency": START})
    )
    [(_, error)] = tuned(lambda epsilon, loop: noise, [1.0])
    hidden = noise.guarantee_for([NOMINAL, *MODELS], adjacency=STAY)
    return noise, error, hidden.epsilon(DELTA)


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
    best = thermostat(SPREADS[0])
    public = comfort(best, white(1e4))
    left.axhline(public, color="black", ls=":", label="no privacy")
    styles = (("#CC79A7", "s", "-."), ("#009E73", "o", "-"))
    for (color, marker, line), design in zip(styles, (independent, optimal)):
        noises, errors = zip(*tuned(design))
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
