"""A batch reactor that follows a recipe

The temperature of a batch is published every minute, and the charge's concentration is
the supplier's secret. Heat makes the reaction faster, so the plant is another one at each
minute of the recipe. The list of its linearisations is a plant: noise for it hides what it
promises. Noise for the model of one minute does not. Run it as
``python batch_recipe.py [folder]``; the figure is written to the folder.
"""

import sys
from pathlib import Path

import control as ct
import matplotlib.pyplot as plt
import numpy as np

import privcontrol as pc

MINUTES = 60
SECRET = pc.StateAdjacency({"charge": 0.02}, times=0)
BUDGET = pc.PrivacyBudget(epsilon=1.0, delta=1e-2)
REQUEST = {"horizon": MINUTES, "budget": BUDGET, "adjacency": SECRET}
WEIGHTS = {"Q": [0.0, 1.0], "R": 0.2, "QN": [1e-6, 1e-2], "RN": 1e-2}


def heat_balance(t, x, u, params):
    """Concentration (1 at the start) and temperature (K) after one minute, by Euler steps."""
    charge, temperature = x
    for _ in range(4):
        rate = 0.03 * np.exp(8000 * (1 / 350 - 1 / temperature)) * charge
        charge = charge - rate / 4
        temperature = temperature + (60 * rate + 0.15 * (u[0] - temperature)) / 4
    return np.array([charge, temperature])


def recipe():
    """The reactor, and the public trajectory that its jacket makes."""
    named = dict(states=["charge", "kelvin"], inputs=["jacket"], outputs=["reading"])
    reactor = ct.nlsys(heat_balance, lambda t, x, u, params: x[1:], dt=1.0, **named)
    jacket = np.interp(np.arange(MINUTES), [0, 15, 35, 45], [330, 345, 345, 325])
    states = [np.array([1.0, 330.0])]
    for entering in jacket[:-1]:
        states.append(heat_balance(0.0, states[-1], [entering], {}))
    return reactor, np.array(states).T, jacket[None]


def designs(stages, one):
    """Noise for the list of plants, and for the model of its first minute."""
    return {
        "recipe": pc.design_output_noise(stages, **REQUEST, models="exact"),
        "recipe, on a floor": pc.design_output_noise(stages, **REQUEST, floor=0.3),
        "one model, on a floor": pc.design_output_noise(one, **REQUEST, floor=0.3),
    }


def promises(noises, stages):
    """What each noise promises, and what it hides of the batch that follows the recipe."""
    print("privacy shift: as promised, and under the recipe")
    for name, noise in noises.items():
        true = noise.guarantee_for([stages]).gdp
        print(f"  {name:24s} {noise.guarantee.gdp:6.3f} {true:6.3f}")


def loops(noises, stages):
    """The LQG loop that holds the batch on its recipe, for noise of the list."""
    print("expected cost of a batch, and of privacy in it:")
    for name in ("recipe", "recipe, on a floor"):
        noise = noises[name]
        loop = pc.private_lqg(
            stages, **WEIGHTS, noise=noise, P0=[1e-4, 1.0], terminal=0
        )
        cost = loop.cost(
            initial_state="design", disturbance="design", measurement_noise="design"
        )
        print(f"  {name:24s} {cost.total:6.2f} {cost.privacy:6.2f}")


def figure(noises, stages, one, folder):
    """What the secret does to the reading, and the noise that hides it."""
    drawing, axes = plt.subplots(1, 2, figsize=(8, 3.4), layout="constrained")
    minutes = np.arange(MINUTES)
    move = 0.02 * np.array([1.0, 0.0])
    for plants, name, line in ((stages, "recipe", "-"), (one, "one model", "--")):
        effect = pc.observability_stack(plants, MINUTES) @ move
        axes[0].plot(minutes, effect, line, color="#009E73", label=name)
    lines = (("#009E73", "-"), ("#E69F00", "-."), ("#CC79A7", "--"))
    for (name, noise), (color, line) in zip(noises.items(), lines):
        axes[1].plot(minutes, noise.stds[0], color=color, ls=line, label=name)
    axes[0].set(xlabel="Time [min]", ylabel="reading by 0.02 more charge [K]")
    axes[1].set(xlabel="Time [min]", ylabel="noise, standard deviation [K]")
    for ax in axes:
        ax.grid(alpha=0.3)
        ax.legend(frameon=False)
    drawing.savefig(folder / "batch_recipe.png", dpi=150)
    plt.close(drawing)


if __name__ == "__main__":
    reactor, states, jacket = recipe()
    stages = pc.along(reactor, states, jacket)
    one = stages[0]
    noises = designs(stages, one)
    promises(noises, stages)
    loops(noises, stages)
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else ".")
    figure(noises, stages, one, folder)
