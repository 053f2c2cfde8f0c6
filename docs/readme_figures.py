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

FIGURES = Path(__file__).parent / "figures"
PUBLIC, PRIVATE, TRUTH = "#0072B2", "#D55E00", "black"
STYLE = {"font.size": 9, "axes.spines.top": False, "axes.spines.right": False}

SCRIPT = FIGURES.parents[1] / "examples" / "first_private_loop.py"

BOXES = {
    "offices": (0.0, "two offices\npeople, heating"),
    "gate": (3.0, "gate\nadds noise"),
    "cloud": (7.0, "cloud\nfilter, controller"),
}


def who_sees_what() -> plt.Figure:
    """Offices, gate and cloud, and a day of one office as each side sees it."""
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        loop = runpy.run_path(str(SCRIPT))["loop"]
    plt.close()
    # The second day: how the noise began depends on the last digits of a factorisation.
    hours = np.arange(-96, 96) / 4
    people = 1.0 * ((hours >= 9) & (hours < 12))  # one stay, as the promise says
    days = loop.simulate(
        hours + 24,
        exogenous={"people east": people},
        disturbance="design",
        measurement_noise="design",
        rng=5,
    )
    figure = plt.figure(figsize=(7.0, 3.7), dpi=180)
    grid = figure.add_gridspec(
        2, 2, height_ratios=(1.0, 1.6), hspace=0.25, wspace=0.05, left=0.1, right=0.99,
        top=0.99, bottom=0.12,
    )  # fmt: skip
    draw_loop(figure.add_subplot(grid[0, :]))
    inside = figure.add_subplot(grid[1, 0])
    outside = figure.add_subplot(grid[1, 1], sharey=inside)
    inside.plot(hours, days.states["east", 0], color=TRUTH, lw=1.2)
    inside.set_title("Inside: the temperature, and who is there", fontsize=9)
    outside.plot(hours, days.outputs["T east", 0], color=PRIVATE, lw=1.2)
    outside.set_title("Outside: what is published, and no more", fontsize=9)
    inside.fill_between(
        hours, 0, 1, where=people > 0, color=PUBLIC, alpha=0.2, lw=0,
        transform=inside.get_xaxis_transform(),
    )  # fmt: skip
    inside.text(12.3, 0.6, "somebody in\nthe east office", color=PUBLIC, fontsize=8)
    for axis in (inside, outside):
        axis.set(
            xlabel="Time [h]", xlim=(0, 23.75), xticks=range(0, 24, 6), ylim=(-0.8, 0.8)
        )
    inside.set_ylabel("T east - set point [K]")
    outside.tick_params(labelleft=False)
    return figure


def draw_loop(axis: plt.Axes) -> None:
    """The loop as boxes, with the line that no private signal crosses."""
    for x, text in BOXES.values():
        axis.add_patch(plt.Rectangle((x, 0.8), 2.0, 1.0, fill=False, lw=1.3))
        axis.text(x + 1.0, 1.3, text, ha="center", va="center")
    arrow = {"arrowstyle": "->", "lw": 1.5}
    for start, end, color, text in (
        (2.0, 3.0, TRUTH, "$y$"),
        (5.0, 7.0, PRIVATE, r"$\hat y$"),
    ):
        axis.annotate("", (end, 1.3), (start, 1.3), arrowprops=arrow | {"color": color})
        axis.text(start + 0.3, 1.4, text, ha="center", color=color)
    axis.plot([8.0, 8.0, 1.0], [0.8, 0.35, 0.35], color=PRIVATE, lw=1.5)
    axis.annotate("", (1.0, 0.8), (1.0, 0.35), arrowprops=arrow | {"color": PRIVATE})
    axis.text(2.5, 0.42, "heating $u$", ha="center", color=PRIVATE)
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
