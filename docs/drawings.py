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


#: Questions from top to bottom: text, answer that leads aside, what it leads to, and the
#: answer that leads down. An empty one ends a branch.
QUESTIONS = (
    ("Is the secret part of a plant's run?", "no", ("#data",), "yes"),
    ("Does it enter during the run?", "yes", ("DisturbanceAdjacency",), "no"),
    (
        "Must it stay secret at every time?",
        "no",
        ("StateAdjacency, times=0", "InitialStateAdjacency"),
        "yes",
    ),
    ("Does the plant forget it?", "yes", ("DisturbanceAdjacency",), "no"),
    ("", "", ("StateAdjacency",), ""),
    ("Is it one agent's value in a network?", "yes", ("NodeAdjacency",), "no"),
    ("Do public sums tie the data together?", "yes", ("ManifoldAdjacency",), "no"),
    ("", "", ("BallAdjacency",), ""),
)
MEANINGS = {
    "#data": "data without a plant, below",
    "DisturbanceAdjacency": "what enters, for how long",
    "StateAdjacency": "a state at any one time",
    "StateAdjacency, times=0": "one state at the start",
    "InitialStateAdjacency": "the whole start, within a ball",
    "NodeAdjacency": "one agent's value",
    "ManifoldAdjacency": "one entry, the rest follows",
    "BallAdjacency": "anything within a distance",
}
CHART_STYLE = """\
text{font:12.5px system-ui,sans-serif;fill:currentColor}
.small{font-size:11.5px;opacity:.8}
rect{fill:none;stroke:currentColor;stroke-width:1.2}
path{fill:none;stroke:currentColor;stroke-width:1.2}
a text{font:600 12px ui-monospace,monospace;fill:var(--color-link,#0072b2)}
svg:root{color:#222}
@media(prefers-color-scheme:dark){svg:root{color:#ddd}svg:root a text{fill:#6db3e8}}"""


def which_secret():
    """The questions that lead to an adjacency, as an SVG whose answers are links.

    It is 360 wide, so its letters have their size on a phone.
    """
    parts, y = [], 8
    for question, aside, answers, below in QUESTIONS:
        if question == QUESTIONS[5][0]:
            parts.append(
                f'<g id="data"><text x="8" y="{y + 14}">Data without a plant</text></g>'
            )
            y += 30
        height = max(44, 38 * len(answers))
        if question:
            parts.append(f'<rect x="8" y="{y}" width="136" height="44" rx="8"/>')
            for k, line in enumerate(in_two_lines(question)):
                parts.append(
                    f'<text x="76" y="{y + 19 + 16 * k}" text-anchor="middle">{line}</text>'
                )
            parts.append(arrow(f"M144 {y + 22}H176"))
            parts.append(f'<text x="150" y="{y + 16}" class="small">{aside}</text>')
            parts.append(arrow(f"M76 {y + 44}V{y + height + 26}"))
            parts.append(
                f'<text x="82" y="{y + height + 14}" class="small">{below}</text>'
            )
        left = 182 if question else 50
        for k, name in enumerate(answers):
            parts.append(answer(name, left, y + 14 + 38 * k))
        y += height + 28
    chart = "\n".join(parts)
    head = '<defs><marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" '
    head += 'markerHeight="7" orient="auto"><path d="M0 0L8 4L0 8z" style="fill:currentColor"/></marker></defs>'
    title = "Which secret? Questions from top to bottom, answers are links"
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 360 {y}" role="img" '
        f'aria-label="{title}" style="max-width:26rem;width:100%">'
        f"<title>{title}</title><style>{CHART_STYLE}</style>{head}\n{chart}\n</svg>\n"
    )


def in_two_lines(text):
    """A text broken where its halves are most alike."""
    words = text.split()
    cut = min(
        range(1, len(words)),
        key=lambda k: abs(len(" ".join(words[:k])) - len(" ".join(words[k:]))),
    )
    return " ".join(words[:cut]), " ".join(words[cut:])


def arrow(path):
    """A line with a tip."""
    return f'<path d="{path}" marker-end="url(#tip)"/>'


def answer(name, x, y):
    """An adjacency with its meaning, as a link to its page of the reference."""
    meaning = f'<text x="{x}" y="{y + 16}" class="small">{MEANINGS[name]}</text>'
    if name.startswith("#"):
        return meaning
    page = f"api/privcontrol.{name.partition(',')[0]}.html"
    return f'<a href="{page}"><text x="{x}" y="{y}">{name}</text></a>{meaning}'
