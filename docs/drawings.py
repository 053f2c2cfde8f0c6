"""The small drawings of the pages, each made from the quantities that it shows."""

import matplotlib.pyplot as plt
import numpy as np

BLUE, ORANGE, GREEN, GREY = "#0072B2", "#D55E00", "#009E73", "#666666"


def cloud_loop():
    """The loop with its gate, and what an eavesdropper sees."""
    figure, ax = plt.subplots(figsize=(7, 2.6), layout="constrained")
    boxes = {
        "plant": (0, 1.1),
        "gate": (3, 1.1),
        "cloud\n(observer,\ncontroller)": (6, 0.55),
    }
    for text, (x, y) in boxes.items():
        height = 1.5 if "cloud" in text else 0.8
        ax.add_patch(plt.Rectangle((x, y), 1.6, height, fill=False, lw=1.5))
        ax.text(x + 0.8, y + height / 2, text, ha="center", va="center")
    for start, end, color, label in (
        ((1.6, 1.5), (3, 1.5), ORANGE, "$y = Cx$"),
        ((4.6, 1.5), (6, 1.5), BLUE, r"$\hat y = y + \gamma$"),
    ):
        ax.annotate(
            "", end, start, arrowprops={"arrowstyle": "->", "color": color, "lw": 1.5}
        )
        ax.text((start[0] + end[0]) / 2, 1.62, label, ha="center", color=color)
    ax.annotate("", (3.8, 1.9), (3.8, 2.5), arrowprops={"arrowstyle": "->", "lw": 1.2})
    ax.text(3.95, 2.25, r"$\gamma(t) = C A^t \xi$, drawn once", va="center")
    ax.plot([6.8, 6.8, 0.8], [0.55, 0.1, 0.1], color=BLUE, lw=1.5)
    ax.annotate(
        "",
        (0.8, 1.1),
        (0.8, 0.1),
        arrowprops={"arrowstyle": "->", "color": BLUE, "lw": 1.5},
    )
    ax.text(3.8, 0.18, "$u$", ha="center", color=BLUE)
    ax.text(
        3.8,
        -0.25,
        "blue: an eavesdropper sees it, and knows plant and controller; orange: private",
        ha="center",
        color=GREY,
    )
    ax.set(xlim=(-0.2, 7.8), ylim=(-0.45, 2.65))
    ax.set_axis_off()
    return figure


def manifold_moves(slope=2.0, radius=1.0):
    """The line x2 = slope x1 + 0.5 with the two worst adjacent moves, and the classical one that leaves it."""
    figure, ax = plt.subplots(figsize=(5, 3.6), layout="constrained")
    x1 = np.array([-1.6, 2.6])
    ax.plot(
        x1,
        slope * x1 + 0.5,
        color=GREY,
        lw=1,
        label=f"manifold $x_2 = {slope:g} x_1 + 0.5$",
    )
    origin = np.array([0.0, 0.5])
    moves = {
        "$x_1$ moves by $\\mu$": ([radius, slope * radius], BLUE),
        "$x_2$ moves by $\\mu$": ([-radius / slope, -radius], GREEN),
        "only $x_1$ moves: no data set": ([radius, 0], ORANGE),
    }
    for label, (move, color) in moves.items():
        style = {"arrowstyle": "->", "color": color, "lw": 2}
        ax.annotate("", origin + move, origin, arrowprops=style)
        ax.plot([], [], color=color, lw=2, label=label)
    ax.plot(*origin, "ko", ms=4)
    ax.set(
        xlabel="$x_1$", ylabel="$x_2$", xlim=(-1.7, 2.7), ylim=(-2, 4), aspect="equal"
    )
    ax.legend(fontsize="small", frameon=False, loc="upper left", bbox_to_anchor=(1, 1))
    return figure


def noise_paths(structured, independent, trials=6):
    """Sample paths of two noises of the same guarantee."""
    figure, axes = plt.subplots(
        1, 2, figsize=(7, 2.6), sharey=True, layout="constrained"
    )
    for ax, noise, title, color in (
        (axes[0], structured, "free responses", BLUE),
        (axes[1], independent, "independent", ORANGE),
    ):
        ax.plot(
            noise.timepts, noise.sample(trials=trials, rng=1)[0].T, color=color, lw=0.8
        )
        ax.set(
            title=f"{title}, {np.sqrt(noise.covariance(0).item()):.1f} m rms",
            xlabel="Time [s]",
        )
        ax.grid(alpha=0.3)
    axes[0].set_ylabel(r"$\gamma$ [m]")
    return figure


def covariance_ellipses(before, after, moves):
    """One-sigma ellipses of two covariances (2, 2) and the hidden moves (2, M)."""
    figure, ax = plt.subplots(figsize=(4.6, 3.4), layout="constrained")
    angle = np.linspace(0, 2 * np.pi, 200)
    circle = np.array([np.cos(angle), np.sin(angle)])
    for covariance, color, label in (
        (before, ORANGE, "independent"),
        (after, BLUE, "structured equivalent"),
    ):
        values, vectors = np.linalg.eigh(covariance)
        ax.plot(
            *(vectors * np.sqrt(np.maximum(values, 0)) @ circle),
            color=color,
            lw=2,
            label=label,
        )
    for move in np.asarray(moves).T:
        ax.annotate("", move, (0, 0), arrowprops={"arrowstyle": "->", "lw": 1.5})
    ax.plot([], [], "k", lw=1.5, label="hidden moves")
    ax.set(xlabel="published entry 1", ylabel="published entry 2", aspect="equal")
    ax.legend(fontsize="small", frameon=False, loc="upper left", bbox_to_anchor=(1, 1))
    ax.grid(alpha=0.3)
    return figure
