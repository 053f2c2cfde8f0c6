"""The figures of README.md, written to ``docs/figures``.

python docs/readme_figures.py [folder]
"""

import sys
from pathlib import Path

import control as ct
import matplotlib.pyplot as plt
import numpy as np

import privcontrol as pc

FIGURES = Path(__file__).parent / "figures"
PUBLIC, PRIVATE, TRUTH = "#0072B2", "#D55E00", "black"
STYLE = {"font.size": 9, "axes.spines.top": False, "axes.spines.right": False}

VEHICLE = ct.ss(
    [[1, 0.1], [0, 1]],
    [[0.005], [0.1]],
    [[1, 0]],
    0,
    0.1,
    states=["position", "velocity"],
    inputs=["u"],
    outputs=["y"],
)
SECRET = pc.StateAdjacency({"position": 1.0})
BUDGET = pc.PrivacyBudget(epsilon=1.0, delta=1e-2)
LQG = {
    "Q": np.diag([1.0, 1.0]),
    "R": 5,
    "QN": np.diag([1e-4, 1e-2]),
    "RN": 1e-2,
}
RUN = {
    "initial_state": [-10, 0],
    "initial_estimate": [-10, 0],
    "disturbance": "design",
    "measurement_noise": "design",
}

HOLD = {"disturbance": "design", "measurement_noise": "design"}


def private_vehicle() -> pc.PrivateLoop:
    """The loop of the README's script."""
    noise = pc.design_output_noise(
        VEHICLE, horizon=100, budget=BUDGET, adjacency=SECRET, models="exact"
    )
    return pc.private_lqg(VEHICLE, **LQG, noise=noise)


def first_loop() -> plt.Figure:
    """The vehicle's loop with and without privacy, and what an eavesdropper gets."""
    loop = private_vehicle()
    time = loop.noise.timepts
    public = pc.private_lqg(VEHICLE, **LQG)
    errors = {
        "private loop": (loop.mean_square_error(time, **RUN), PRIVATE, 0.3),
        "public loop": (public.mean_square_error(time, **RUN), PUBLIC, 0.6),
    }
    figure, (left, right) = plt.subplots(
        1, 2, figsize=(7.0, 2.7), layout="constrained", sharey=True
    )
    mean = public_mean(public, time)
    for name, (squares, color, alpha) in errors.items():
        spread = np.sqrt(np.maximum(squares[0] - mean**2, 0))
        left.fill_between(
            time,
            mean - 2 * spread,
            mean + 2 * spread,
            color=color,
            alpha=alpha,
            lw=0,
            label=f"{name}, 95 % of all runs",
        )
    left.plot(time, mean, color=TRUTH, lw=1.2, label="mean of both")
    left.set(xlabel="Time [s]", ylabel="Position [m]", title="The loop")
    left.legend(loc="lower right", frameon=False)

    run = loop.simulate(trials=1, rng=4, **RUN)
    spy = pc.eavesdropper(loop, prior=np.diag([100.0, 1.0]))
    estimate = spy.estimate(run)[0, 0]
    error = np.sqrt([spy.error_covariance(t)[0, 0] for t in range(len(time))])
    right.fill_between(
        time,
        estimate - 2 * error,
        estimate + 2 * error,
        color="0.85",
        lw=0,
        label="eavesdropper: 95 % region",
    )
    right.plot(time, run.outputs[0, 0], color=PRIVATE, lw=1, label="published")
    right.plot(time, run.states[0, 0], color=TRUTH, lw=1.2, label="true position")
    right.set(xlabel="Time [s]", title="One private run, as others see it")
    right.legend(loc="lower right", frameon=False)
    return figure


def public_mean(loop: pc.PrivateLoop, time: np.ndarray) -> np.ndarray:
    """The mean position (T,) of a linear loop, from its response without noise."""
    inputs = np.zeros((loop.closed_loop.ninputs, len(time)))
    start = np.concatenate([RUN["initial_state"], RUN["initial_estimate"]])
    response = ct.forced_response(loop.closed_loop, time, inputs, start)
    return response.states[0]


def price_of_privacy() -> plt.Figure:
    """The expected cost of the vehicle's loop against the privacy budget."""
    epsilons = np.logspace(-1, 1, 7)
    time = np.arange(100) * 0.1
    drawn = dict.fromkeys(
        ("initial_state", "disturbance", "measurement_noise"), "design"
    )

    def cost(noise: pc.OutputNoise | None) -> float:
        loop = pc.private_lqg(VEHICLE, **LQG, noise=noise, P0=1.0)
        spent = loop.cost(time, **drawn)
        return spent.total + spent.terminal

    public = cost(None)
    figure, axis = plt.subplots(figsize=(3.4, 2.6), layout="constrained")
    rows = {"structured noise": "gaussian", "independent noise": "iid-gaussian"}
    for (name, family), (color, mark) in zip(
        rows.items(), ((PRIVATE, "o"), ("#009E73", "s")), strict=True
    ):
        prices = []
        for epsilon in epsilons:
            noise = pc.design_output_noise(
                VEHICLE,
                horizon=100,
                budget=pc.PrivacyBudget(epsilon=epsilon, delta=1e-2),
                adjacency=SECRET,
                family=family,
                models="exact" if family == "gaussian" else None,
            )
            prices.append(cost(noise) / public)
        axis.loglog(epsilons, prices, color=color, marker=mark, ms=4, label=name)
    axis.axhline(1.0, color=PUBLIC, ls="--", lw=1.2, label="no privacy")
    axis.set(xlabel="Privacy budget ε (δ = 0.01)", ylabel="expected cost, relative")
    axis.set_title("The price of privacy", fontsize="medium")
    axis.set_yticks([1, 2, 5, 10, 20, 50], ["1", "2", "5", "10", "20", "50"])
    axis.set_xticks([0.1, 1, 10], ["0.1", "1", "10"])
    axis.minorticks_off()
    axis.set_ylim(0.8, 400)
    axis.legend(frameon=False)
    return figure


def network() -> plt.Figure:
    """The error of private average consensus: independent noise, and noise that cancels."""
    graph = pc.plants.ten_agent_graph()
    values = pc.plants.ten_agent_values()
    made = {
        "independent noise": pc.private_consensus(graph, BUDGET, radius=1.0),
        "noise that cancels": pc.private_consensus(
            graph, BUDGET, radius=1.0, pairwise_std="auto", coalition=0
        ),
    }
    figure, axis = plt.subplots(figsize=(3.4, 2.6), layout="constrained")
    steps = np.arange(41)
    looks = (("#009E73", "-."), (PRIVATE, "-"))
    for (name, agents), (color, line) in zip(made.items(), looks, strict=True):
        error = agents.mean_square_error(values, 40) / len(values)
        axis.semilogy(steps, np.sqrt(error), color=color, ls=line, label=name)
    curator = pc.core.gaussian_std(1.0, 1e-2) / len(values)
    axis.axhline(curator, color=PUBLIC, ls="--", lw=1.2, label="a trusted curator")
    axis.set(xlabel="Step", ylabel="rms error of an agent")
    axis.set_title("Agents agree", fontsize="medium")
    axis.legend(frameon=False)
    return figure


def without_horizon() -> plt.Figure:
    """Spectra of a secret and of the noise that hides it in runs of any length."""
    room = ct.ss([[0.95]], [[0.05]], [[1.0]], 0, 60.0, inputs=["heat"], outputs=["T"])
    secret = pc.DisturbanceAdjacency(1.0)
    noise = pc.design_output_noise(
        room, horizon=np.inf, budget=BUDGET, adjacency=secret
    )
    frequencies = np.logspace(-3.5, np.log10(0.5), 200)  # cycles a sample
    omega = 2 * np.pi * frequencies / room.dt
    response = np.abs(room.frequency_response(omega).frdata[0, 0])
    drawn = np.abs(noise.system.frequency_response(omega).frdata[0, 0])
    # white noise of the same guarantee: the energy of the response over the shift
    white = ct.norm(room, 2) / noise.guarantee.gdp
    figure, axis = plt.subplots(figsize=(3.4, 2.6), layout="constrained")
    axis.loglog(frequencies, drawn, color=PRIVATE, label="noise of least variance")
    axis.axhline(white, color="#009E73", ls="-.", label="white noise that hides it too")
    axis.loglog(frequencies, response, color=TRUTH, ls="--", label="the secret's trace")
    axis.set(xlabel="Frequency [cycles per sample]", ylabel="Amplitude [K]")
    axis.set_title("Noise without a horizon", fontsize="medium")
    axis.legend(frameon=False, fontsize=7.5)
    return figure


DRAWN = {
    "without_horizon": without_horizon,
    "first_private_loop": first_loop,
    "price_of_privacy": price_of_privacy,
    "network": network,
}


def draw_all(folder: Path) -> None:
    """Write every figure of the README into a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    with plt.rc_context(STYLE):
        for name, draw in DRAWN.items():
            figure = draw()
            figure.savefig(folder / f"{name}.png", dpi=180)
            plt.close(figure)


if __name__ == "__main__":
    draw_all(Path(sys.argv[1]) if len(sys.argv) > 1 else FIGURES)
