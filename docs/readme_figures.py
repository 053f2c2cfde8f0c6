"""The figures of README.md, written to ``docs/figures``.

python docs/readme_figures.py [folder]
"""

import contextlib
import runpy
import sys
import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from scipy.stats import norm

import privcontrol as pc

FIGURES = Path(__file__).parent / "figures"
TRUTH, PUBLISHED = "black", "#D55E00"
STYLE = {"font.size": 9, "axes.spines.top": False, "axes.spines.right": False}

SCRIPT = FIGURES.parents[1] / "examples" / "first_private_loop.py"

BOXES = {
    "drone": (0.0, "drone\nGPS, Doppler"),
    "gate": (3.0, "gate\nadds noise"),
    "cloud": (7.0, "cloud\nfilter, controller"),
}
FLIGHTS = 6  # that the map shows


def who_sees_what() -> plt.Figure:
    """Drone, gate and cloud; the map, the speed and the detector as each side sees them."""
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        names = runpy.run_path(str(SCRIPT))
    plt.close()
    figure = plt.figure(figsize=(7.0, 4.4), dpi=180)
    grid = figure.add_gridspec(
        2, 3, height_ratios=(1.0, 1.7), hspace=0.25, wspace=0.36, left=0.1, right=0.985,
        top=0.99, bottom=0.11,
    )  # fmt: skip
    draw_loop(figure.add_subplot(grid[0, :]))
    draw_map(figure.add_subplot(grid[1, 0]), names["flight"])
    draw_speed(figure.add_subplot(grid[1, 1]), names)
    draw_detector(figure.add_subplot(grid[1, 2]), names["loop"].guarantee)
    return figure


def draw_map(axis: plt.Axes, flight) -> None:
    """Where the drone is, and where its published readings put it."""
    east, north = flight.states["east"], flight.states["north"]
    for k in range(FLIGHTS):
        axis.plot(
            flight.outputs["GPS east", k],
            flight.outputs["GPS north", k],
            color=PUBLISHED,
            lw=1,
            label=None if k else "published, six flights",
        )
    axis.plot(east[0], north[0], color=TRUTH, lw=1.6, label="true")
    axis.plot(0, 0, "o", color=TRUTH, ms=4)
    axis.set_title("Where did it take off?", fontsize=9)
    axis.set(xlabel="East [m]", ylabel="North [m]", ylim=(-450, 1050))
    axis.legend(frameon=False, fontsize=7, loc="upper left")


def draw_speed(axis: plt.Axes, names) -> None:
    """The speed behind the gate, and behind independent noise of the same promise."""
    asked = {"budget": names["budget"], "adjacency": names["secret"], "horizon": 240}
    white = pc.design_output_noise(names["drone"], family="iid-gaussian", **asked)
    independent = names["public"].with_noise(white)
    flight = names["flight"]
    other = independent.simulate(
        reference=names["route"],
        feedforward=[0.6, 0.8],
        disturbance="design",
        measurement_noise="design",
        trials=50,
        rng=0,
    )
    times = flight.time
    axis.plot(
        times,
        other.states["speed north", 0],
        color="0.6",
        lw=0.8,
        label="independent noise",
    )
    axis.plot(
        times,
        flight.states["speed north", 0],
        color=TRUTH,
        lw=1,
        label="the noise here",
    )
    axis.axhline(4, color="0.3", ls=":", lw=1)
    axis.set_title("How well does it fly?", fontsize=9)
    axis.set(
        xlabel="Time [s]", ylabel="Speed north [m/s]", xlim=(0, 120), ylim=(0, 7.5)
    )
    axis.legend(frameon=False, fontsize=7, loc="upper left")


def draw_detector(axis: plt.Axes, guarantee) -> None:
    """Scores of the best detector for two sites 100 m apart, behind the gate."""
    scores = np.linspace(-3.5, 5.5, 400)
    shift, alarm = guarantee.gdp, norm.isf(0.05)
    axis.plot(scores, norm.pdf(scores), color="0.4", lw=1.2, label="site A")
    axis.plot(
        scores,
        norm.pdf(scores - shift),
        color=PUBLISHED,
        lw=1.2,
        label="site B, 100 m away",
    )
    beyond = scores >= alarm
    axis.fill_between(
        scores[beyond],
        norm.pdf(scores[beyond] - shift),
        color=PUBLISHED,
        alpha=0.3,
        lw=0,
    )
    found = 100 * guarantee.detection(0.05)
    axis.text(
        alarm + 0.05, 0.2, f"found: {found:.1f} %\nwithout\nnoise: 100 %", fontsize=7
    )
    axis.set_title("What does a detector find?", fontsize=9)
    axis.set(xlabel="Score of the best detector", ylabel="Density", ylim=(0, 0.5))
    axis.set_xlim(-3.5, 5.5)
    axis.set_yticks([])
    axis.legend(frameon=False, fontsize=7, loc="upper left")


def draw_loop(axis: plt.Axes) -> None:
    """The loop as boxes, with the line that no private signal crosses."""
    for x, text in BOXES.values():
        axis.add_patch(plt.Rectangle((x, 0.8), 2.0, 1.0, fill=False, lw=1.3))
        axis.text(x + 1.0, 1.3, text, ha="center", va="center")
    arrow = {"arrowstyle": "->", "lw": 1.5}
    for start, end, color, text in (
        (2.0, 3.0, TRUTH, "$y$"),
        (5.0, 7.0, PUBLISHED, r"$\hat y$"),
    ):
        axis.annotate("", (end, 1.3), (start, 1.3), arrowprops=arrow | {"color": color})
        axis.text(start + 0.3, 1.4, text, ha="center", color=color)
    axis.plot([8.0, 8.0, 1.0], [0.8, 0.35, 0.35], color=PUBLISHED, lw=1.5)
    axis.annotate("", (1.0, 0.8), (1.0, 0.35), arrowprops=arrow | {"color": PUBLISHED})
    axis.text(2.5, 0.42, "thrust $u$", ha="center", color=PUBLISHED)
    axis.axvline(6.0, color="0.4", ls="--", lw=1)
    axis.text(5.9, 2.0, "inside: trusted", ha="right", color="0.4")
    axis.text(6.1, 2.0, "outside: anybody may read", ha="left", color="0.4")
    axis.set(xlim=(-0.2, 9.2), ylim=(0.2, 2.3))
    axis.set_axis_off()


DRAWN = {
    "who_sees_what": who_sees_what,
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
