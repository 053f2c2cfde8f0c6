"""The small drawings of the pages, each made from the quantities that it shows."""

import matplotlib.pyplot as plt
import numpy as np

# What everybody sees is orange, in every figure; what is compared has other colours.
ORANGE, GREEN, PURPLE, GREY = "#D55E00", "#009E73", "#CC79A7", "#666666"


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
        ((1.6, 1.5), (3, 1.5), "black", "$y = Cx$"),
        ((4.6, 1.5), (6, 1.5), ORANGE, r"$\hat y = y + \gamma$"),
    ):
        ax.annotate(
            "", end, start, arrowprops={"arrowstyle": "->", "color": color, "lw": 1.5}
        )
        ax.text((start[0] + end[0]) / 2, 1.62, label, ha="center", color=color)
    ax.annotate("", (3.8, 1.9), (3.8, 2.5), arrowprops={"arrowstyle": "->", "lw": 1.2})
    ax.text(3.95, 2.25, r"$\gamma(t) = C A^t \xi$, drawn once", va="center")
    ax.plot([6.8, 6.8, 0.8], [0.55, 0.1, 0.1], color=ORANGE, lw=1.5)
    ax.annotate(
        "",
        (0.8, 1.1),
        (0.8, 0.1),
        arrowprops={"arrowstyle": "->", "color": ORANGE, "lw": 1.5},
    )
    ax.text(3.8, 0.18, "$u$", ha="center", color=ORANGE)
    ax.text(
        3.8,
        -0.25,
        "orange: an eavesdropper sees it, and knows plant and controller; black: private",
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
        "$x_1$ moves by $\\mu$": ([radius, slope * radius], GREEN),
        "$x_2$ moves by $\\mu$": ([-radius / slope, -radius], "#E69F00"),
        "only $x_1$ moves: no data set": ([radius, 0], PURPLE),
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
        (axes[0], structured, "free responses", GREEN),
        (axes[1], independent, "independent", PURPLE),
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
        (before, PURPLE, "independent"),
        (after, GREEN, "structured equivalent"),
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
    ax.set(xlabel="Published entry 1", ylabel="Published entry 2", aspect="equal")
    ax.legend(fontsize="small", frameon=False, loc="upper left", bbox_to_anchor=(1, 1))
    ax.grid(alpha=0.3)
    return figure


QUESTIONS = {
    "plant": (0.0, 4.0, "Is the secret part of\na plant's run?"),
    "enters": (3.3, 5.2, "Does it enter\nduring the run?"),
    "when": (6.6, 4.0, "Must it stay secret\nat every time?"),
    "forgets": (9.9, 4.9, "Does the plant\nforget it?"),
    "agents": (3.3, 1.6, "Is it the value of one\nagent in a network?"),
    "sums": (6.6, 0.6, "Do public sums or rules\ntie the data together?"),
}
ANSWERS = {
    "DisturbanceAdjacency": (13.2, 6.7, "what enters, by signal\nand duration"),
    "StateAdjacency": (13.2, 5.2, "a state at any one time"),
    "StateAdjacency(times=0)": (13.2, 3.9, "a state at the start"),
    "InitialStateAdjacency": (13.2, 2.7, "all initial states\nwithin a ball"),
    "NodeAdjacency": (13.2, 1.6, "one agent's value"),
    "ManifoldAdjacency": (13.2, 0.55, "one entry, the rest follows"),
    "BallAdjacency": (13.2, -0.5, "anything within a distance"),
}
BRANCHES = (
    ("plant", "enters", "yes"),
    ("plant", "agents", "no"),
    ("enters", "DisturbanceAdjacency", "yes"),
    ("enters", "when", "no"),
    ("when", "forgets", "yes"),
    ("when", "StateAdjacency(times=0)", "no, one state"),
    ("when", "InitialStateAdjacency", "no, all together"),
    ("forgets", "DisturbanceAdjacency", "yes"),
    ("forgets", "StateAdjacency", "no"),
    ("agents", "NodeAdjacency", "yes"),
    ("agents", "sums", "no"),
    ("sums", "ManifoldAdjacency", "yes"),
    ("sums", "BallAdjacency", "no"),
)


def which_secret():
    """The questions that lead to an adjacency, from left to right."""
    figure, ax = plt.subplots(figsize=(9.5, 4.4), layout="constrained")
    frame = {"boxstyle": "round,pad=0.45", "fc": "white", "ec": GREY}
    boxes = {}
    for name, (x, y, question) in QUESTIONS.items():
        boxes[name] = ax.text(
            x, y, question, ha="center", va="center", fontsize=8, bbox=frame, zorder=3
        )
    for name, (x, y, meaning) in ANSWERS.items():
        code = {"fontsize": 8, "family": "monospace"}
        ax.text(x, y + 0.05, name, va="bottom", **code)
        ax.text(x, y - 0.05, meaning, va="top", fontsize=7.5, color=GREY)
    for start, end, answer in BRANCHES:
        branch(ax, boxes, start, end, answer)
    ax.set(xlim=(-1.4, 17.2), ylim=(-1.1, 7.2))
    ax.set_axis_off()
    return figure


def branch(ax, boxes, start, end, answer):
    """An arrow from a question to the next or to an answer, labelled with what leads there."""
    tail = np.array(QUESTIONS[start][:2])
    leaf = end in ANSWERS
    head = (
        np.array(ANSWERS[end][:2]) - [0.15, 0] if leaf else np.array(QUESTIONS[end][:2])
    )
    style = {
        "arrowstyle": "-|>",
        "color": GREY,
        "lw": 1,
        "patchA": boxes[start].get_bbox_patch(),
        "patchB": None if leaf else boxes[end].get_bbox_patch(),
        "shrinkB": 0,
    }
    ax.annotate("", head, tail, arrowprops=style)
    x, y = tail + 0.52 * (head - tail)
    paper = {"boxstyle": "round,pad=0.15", "fc": "white", "ec": "none"}
    ax.text(x, y, answer, ha="center", va="center", fontsize=7.5, bbox=paper)
