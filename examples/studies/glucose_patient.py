"""Who had a snack?

A patient with type 1 diabetes whose insulin pump is driven from the cloud. The sensor's
readings reveal every snack. The patient is nonlinear: the more insulin acts, the faster
glucose leaves the blood. Noise for a linearised patient hides less than it promises
when little insulin acts. Noise for all Jacobians of a region keeps its promise. Run it
as ``python glucose_patient.py [folder]``; the figure is written to the folder.
"""

import sys
from pathlib import Path

import control as ct
import matplotlib.pyplot as plt
import numpy as np

import privcontrol as pc

STEP, DAY, TRIAL = 5.0, 288, 72  # minutes; samples of a day and of a test
SNACK, LASTS = 1.1, 3  # mg/dL/min for up to 15 minutes: 2 g of glucose in 12 l
BUDGET = pc.PrivacyBudget(gdp=2.0)

# Bergman's minimal model (1981) with the parameters that are commonly given after Lynch and Bequette (2001) and Fisher (1991)
GLUCOSE, INSULIN = 81.0, 15.0  # mg/dL, mU/l: basal
RATES = (0.028735, 0.028344, 5.035e-5)  # 1/min, 1/min, l/(mU min^2)
DECAY, VOLUME = 5 / 54, 12.0  # 1/min, l
BASAL = DECAY * VOLUME * INSULIN  # mU/min

# With the pump between 11 and 25 mU/min the states stay in this region, which is certified below.
REGION = {
    "glucose": (50.0, 345.0, "mg/dL"),
    "action": (-0.01, 0.0146, "1/min"),
    "insulin": (9.5, 23.0, "mU/l"),
    "infusion": (11.0, 25.0, "mU/min"),
    "meal": (0.0, 4.0, "mg/dL/min"),
}
PUMP = [[11.0, 25.0]]


def rates(t, x, u, params):
    """Rates of glucose in the blood, of the action of insulin, and of insulin in the blood."""
    glucose, action, insulin = x[0], x[1], x[2]
    return [
        -RATES[0] * (glucose - GLUCOSE) - action * glucose + u[1],
        -RATES[1] * action + RATES[2] * (insulin - INSULIN),
        -DECAY * insulin + u[0] / VOLUME,
    ]


def reads(t, x, u, params):
    """A continuous glucose monitor."""
    return [x[0]]


PATIENT = pc.sample_nonlinear(
    ct.nlsys(
        rates,
        reads,
        states=["glucose", "action", "insulin"],
        inputs=["infusion", "meal"],
        outputs=["sensor"],
        name="patient",
    ),
    STEP,
    substeps=2,
)


def noises():
    """The region's polytope, noise for all of it, and noise for its linearised middle, both without a horizon."""
    box = pc.jacobian_polytope(PATIENT, REGION, splits={"glucose": 12, "action": 8})
    request = dict(
        horizon=np.inf,
        budget=BUDGET,
        adjacency=pc.DisturbanceAdjacency(
            {"meal": SNACK}, duration=LASTS, shape="level"
        ),
    )
    certified = pc.design_output_noise(box.nominal, models=box, **request)
    believed = pc.design_output_noise(box.nominal, models="exact", **request)
    return box, certified, believed


def steady(infusion, meal):
    """The state at which a patient settles."""
    insulin = infusion / (DECAY * VOLUME)
    action = RATES[2] / RATES[1] * (insulin - INSULIN)
    return np.array(
        [(RATES[0] * GLUCOSE + meal) / (RATES[0] + action), action, insulin]
    )


def run(infusion, snack):
    """Glucose (T,) of a patient at a constant infusion, with a snack at the start or without."""
    x, read = steady(infusion, 0.0), []
    for t in range(TRIAL):
        read.append(x[0])
        x = PATIENT.dynamics(0, x, [infusion, snack if t < LASTS else 0.0])
    return np.array(read)


def attained(noise, infusions):
    """The privacy shifts of a snack under the patient himself, by infusion; the guarantee bounds them."""
    lags = np.array([noise.covariance(lag).item() for lag in range(TRIAL)])
    index = np.arange(TRIAL)
    covariance = lags[np.abs(index[:, None] - index)]
    changes = [run(infusion, SNACK) - run(infusion, 0.0) for infusion in infusions]
    return [float(np.sqrt(d @ np.linalg.solve(covariance, d))) for d in changes]


def day():
    """What is eaten in a day [mg/dL/min]: breakfast, lunch, dinner, and a snack in the afternoon."""
    hours = np.arange(DAY) * STEP / 60
    meal = np.zeros(DAY)
    for start, size in ((7, 3.0), (12.5, 3.5), (19, 3.5)):
        meal[(hours >= start) & (hours < start + 1)] = size
    at = int(np.searchsorted(hours, 16))
    meal[at : at + LASTS] += SNACK
    return hours, meal


def private_loop(noise):
    """LQG of the linearised patient about the basal rate; a meal is what disturbs it."""
    linear = noise.plant
    K, _, _ = ct.dlqr(linear.A, linear.B[:, :1], np.diag([1.0, 0, 0]), 1.0)
    meals = 25.0 * linear.B[:, 1:] @ linear.B[:, 1:].T + 1e-9 * np.eye(3)
    L, _, _ = ct.dlqe(linear.A, np.eye(3), linear.C, meals, noise.std.item() ** 2)
    return pc.private_loop(
        PATIENT,
        K,
        L,
        noise,
        controls=["infusion"],
        operating_point=(steady(BASAL, 0.0), [BASAL, 0.0]),
    )


def main(folder):
    box, certified, believed = noises()
    print(certified.guarantee)
    print(f"\nstates certified to stay in the region: {box.invariant}")
    print(f"noise for the nonlinear patient: {certified.std.item():.1f} mg/dL, for the "
          f"linearised one: {believed.std.item():.1f} mg/dL")  # fmt: skip
    infusions = np.linspace(*PUMP[0], 29)
    curves = {
        "noise for the linearised patient": attained(believed, infusions),
        "noise for the nonlinear patient": attained(certified, infusions),
    }
    over_region = believed.guarantee_for(box)
    print(f"noise for the linearised patient promises {believed.guarantee.gdp:.3g}-GDP; a snack attains "
          f"{max(curves['noise for the linearised patient']):.3g}, and {over_region.gdp:.3g} is certified")  # fmt: skip
    hours, meal = day()
    response = private_loop(certified).simulate(
        np.arange(DAY) * STEP,
        exogenous={"meal": meal},
        saturation=PUMP,
        trials=500,
        rng=0,
    )
    glucose = response.states["glucose"]
    print(f"{int(response.left_region.sum())} of 500 days left the region; glucose between "
          f"{glucose.min():.0f} and {glucose.max():.0f} mg/dL")  # fmt: skip
    draw(response, hours, infusions, curves, folder)


def draw(response, hours, infusions, curves, folder):
    figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.6), layout="constrained")
    left.plot(
        hours,
        response.outputs[0, 0],
        ".",
        ms=2.5,
        color="#D55E00",
        label="published, one day",
    )
    low, middle, high = response.quantile([0.05, 0.5, 0.95], "glucose")[:, 0]
    left.fill_between(hours, low, high, color="black", alpha=0.25, lw=0)
    left.plot(hours, middle, color="black", label="glucose, median and 90 %")
    left.set(
        xlabel="Time of day [h]",
        ylabel="Glucose [mg/dL]",
        xlim=(0, 24),
        xticks=range(0, 25, 4),
    )
    left.legend(frameon=False, fontsize="small", loc="upper left")
    styles = (("#CC79A7", "-."), ("#009E73", "-"))
    for (label, shifts), (color, line) in zip(curves.items(), styles):
        right.plot(infusions, shifts, color=color, ls=line, lw=2, label=label)
    right.axhline(BUDGET.gdp, color="black", ls="--", lw=1, label="what both promise")
    right.set(
        xlabel="Insulin infusion [mU/min]",
        ylabel="Privacy shift of a snack",
        xlim=(infusions[0], infusions[-1]),
        ylim=(0, None),
    )
    right.legend(frameon=False, fontsize="small", loc="lower left")
    for ax in (left, right):
        ax.grid(alpha=0.3)
        ax.spines[["top", "right"]].set_visible(False)
    figure.savefig(folder / "glucose_patient.png", dpi=150)
    plt.close(figure)


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "."))
