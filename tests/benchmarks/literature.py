"""The methods of the literature on public plants: cost beside a bound of all loops.

    python tests/benchmarks/literature.py                    # every cell, about an hour
    python tests/benchmarks/literature.py --minutes 10       # as many as that allows
    python tests/benchmarks/literature.py --plants toy,he1   # some plants
    python tests/benchmarks/literature.py --page             # the page of the docs alone

A cell is a plant, a secret and a method. What is done is kept in
``data/literature.jsonl`` and not done again. Plants are controlgym's, sampled at 0.1 s as
it samples them, over 50 samples, with its covariances 0.1 I of disturbances and of the
first state, and its weights C1 and D12 without their product.
"""

import argparse
import json
import signal
import sys
import time
from contextlib import contextmanager
from pathlib import Path

import control as ct
import matplotlib.pyplot as plt
import numpy as np
from scipy.signal import cont2discrete

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
sys.path.insert(0, str(ROOT / "examples" / "literature"))

import comparison  # noqa: E402
import fisher  # noqa: E402
import input_perturbation  # noqa: E402
import kawano_cao  # noqa: E402
import optimum  # noqa: E402
import ours  # noqa: E402
import output_perturbation  # noqa: E402
import own_noise  # noqa: E402
import yazdani  # noqa: E402
import zero_forcing  # noqa: E402

import privcontrol as pc  # noqa: E402

SAMPLES = 50
SECONDS = 60
BUDGET = pc.PrivacyBudget(epsilon=1.0, delta=1e-2)
RADIUS = 0.1**0.5  # one standard deviation of the first state, and of the disturbances
SECRETS = {
    "initial state": pc.StateAdjacency(RADIUS, times=0),
    "first three states": pc.StateAdjacency(RADIUS, times=range(3)),
    "event": pc.DisturbanceAdjacency(RADIUS, inputs=["load"]),
    "energy": pc.DisturbanceAdjacency(RADIUS, inputs=["load"], norm="l2"),
}
METHODS = {
    "best": optimum,
    "least": ours,
    "input": input_perturbation,
    "output": output_perturbation,
    "zero-forcing": zero_forcing,
    "Yazdani": yazdani,
    "Kawano": kawano_cao,
    "own": own_noise,
    "Fisher": fisher,
}
DONE = HERE / "data" / "literature.jsonl"
PAGE = ROOT / "docs" / "literature_benchmark.md"
FIGURE = ROOT / "docs" / "figures" / "literature_benchmark.png"
#: Colours that are legible on light and on dark pages, and a marker for each secret.
GREY, BLUE = "#808080", "#3a8fc7"
MARKERS = "os^D"
DATA = HERE / "data" / "controlgym.npz"


def plant_names():
    """All plants, the small ones first."""
    with np.load(DATA) as data:
        sizes = {key[:-2]: len(data[key]) for key in data if key.endswith("_A")}
    return sorted(sizes, key=lambda name: (sizes[name], name))


def plant_of(name):
    """controlgym's plant as a loop; inputs are its controls, then its strongest disturbance."""
    with np.load(DATA) as data:
        given = {key: data[f"{name}_{key}"] for key in ("A", "B1", "B2", "C", "C1")}
        D12, D21 = data[f"{name}_D12"], data[f"{name}_D21"]
    C, controls = given["C"], given["B2"].shape[1]
    inputs = np.hstack([given["B2"], given["B1"]])
    nothing = np.zeros((len(C), inputs.shape[1]))
    A, B, *_ = cont2discrete((given["A"], inputs, C, nothing), 0.1)
    disturbed = B[:, controls:]
    load = strongest(A, B, C, controls)
    driven = np.hstack([B[:, :controls], B[:, [load]]])
    R = D12.T @ D12
    if np.linalg.matrix_rank(R) < controls:  # controlgym asks for an invertible one
        R = max(1e-3, np.linalg.eigvalsh(R)[-1]) * np.eye(controls)
    readings = 0.1 * D21 @ D21.T
    size = np.trace(C @ C.T) / len(C)
    labels = [f"u[{i}]" for i in range(controls)] + ["load"]
    return comparison.LinearLoop(
        ct.ss(A, driven, C, 0, 0.1, inputs=labels),
        SAMPLES,
        QN=0.1 * disturbed @ disturbed.T,
        RN=readings + 1e-4 * size * np.eye(len(C)),
        P0=0.1 * np.eye(len(A)),
        Q=given["C1"].T @ given["C1"],
        R=R,
    )


def strongest(A, B, C, controls):
    """The column of the strongest disturbance that is seen, else of a control."""
    seen = np.zeros(B.shape[1])
    states = B
    for _ in range(SAMPLES):
        seen += np.sum((C @ states) ** 2, axis=0)
        states = A @ states
    sizes = np.where(seen > 1e-20, np.linalg.norm(B, axis=0), 0.0)
    if sizes[controls:].any():
        return controls + int(np.argmax(sizes[controls:]))
    return int(np.argmax(sizes))


@contextmanager
def limited(seconds):
    """Raise a TimeoutError after so many seconds."""

    def stop(*_):
        raise TimeoutError(f"took more than {seconds} s")

    before = signal.signal(signal.SIGALRM, stop)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def cell(name, plant, secret, method):
    """One row of the table, ready for JSON."""
    row = {"plant": name, "states": plant.sys.nstates, "secret": secret}
    row["method"] = comparison.name_of(method)
    begun = time.perf_counter()
    try:
        with limited(SECONDS):
            found = comparison.answer(method, plant, SECRETS[secret], BUDGET)
        entry, cause, _ = found
    except (TimeoutError, ct.ControlArgument, ArithmeticError) as error:
        entry, cause = None, f"{type(error).__name__}: {error}"
    row["seconds"] = round(time.perf_counter() - begun, 2)
    if entry is None:
        return {**row, "refused": cause[:160]}
    row |= {"cost": entry.cost, "std": entry.std, "instead": entry.instead}
    if entry.guarantee is not None:
        row["gdp"] = entry.guarantee.gdp
    if np.isfinite(entry.bound):
        row["bound"] = entry.bound
    return row


def rows_done():
    """All rows so far."""
    if not DONE.exists():
        return []
    return [json.loads(line) for line in DONE.read_text(encoding="utf8").splitlines()]


def run(names, minutes):
    """Fill in what is missing; return whether it came to the end."""
    known = {(r["plant"], r["secret"], r["method"]) for r in rows_done()}
    end = time.monotonic() + 60 * minutes
    for name in names:
        plant = plant_of(name)
        for secret in SECRETS:
            for method in METHODS.values():
                key = (name, secret, comparison.name_of(method))
                if key in known:
                    continue
                if time.monotonic() > end:
                    return False
                row = cell(name, plant, secret, method)
                with DONE.open("a", encoding="utf8") as file:
                    file.write(json.dumps(row) + "\n")
    return True


def text_of(row, bound):
    """What the table says of a cell."""
    if row is None:
        return "not run"
    if "refused" in row:
        return "refused"
    ratio = f"{row['cost'] / bound:.3f}" if bound else f"{row['cost']:.4g}"
    return ratio if "gdp" in row else f"({ratio})"


def references(name, bound):
    """What the loop costs without privacy, and with any unbiased zCDP mechanism.

    The cost of privacy f(J) falls at most as 1/k when J grows k times. The covariance of
    an unbiased mechanism allows J the exp(y^2) - 1 in place of y^2.
    """
    if bound is None:
        return "", ""
    plant = plant_of(name)
    entries = SAMPLES * plant.sys.noutputs
    public = plant.cost(np.zeros((entries, entries)))
    square = BUDGET.shift() ** 2
    universal = public + (bound - public) * square / np.expm1(square)
    return f"({public / bound:.3f})", f"{universal / bound:.3f}"


def draw(rows, bounds, methods):
    """Every cell's cost over the bound as a dot, one line for each method."""
    figure, axis = plt.subplots(figsize=(4.6, 5.2), layout="constrained")
    shown = list(reversed(methods.items()))
    for level, (_, method) in enumerate(shown):
        found = []
        for number, secret in enumerate(SECRETS):
            ratios = [
                row["cost"] / bounds[row["plant"], row["secret"]]
                for row in rows
                if row["method"] == method
                and row["secret"] == secret
                and "cost" in row
                and bounds.get((row["plant"], row["secret"]))
            ]
            offset = 0.16 * (number - (len(SECRETS) - 1) / 2)
            axis.plot(
                ratios,
                np.full(len(ratios), level - offset),
                MARKERS[number],
                ms=4,
                mfc="none",
                color=GREY,
                label=secret if level == 0 else None,
            )
            found += ratios
        axis.plot(np.median(found), level, "|", ms=22, mew=3, color=BLUE)
    axis.plot([], [], "|", ms=10, mew=3, color=BLUE, label="median of a method")
    axis.axvline(1.0, color=GREY, lw=1, ls="--")
    axis.set(
        xscale="log",
        xlim=(0.5, 40),
        xlabel="cost of the loop over the bound of all loops",
    )
    axis.set_yticks(range(len(shown)), [short for short, _ in shown])
    axis.set_xticks([0.5, 1, 2, 5, 10, 20], ["0.5", "1", "2", "5", "10", "20"])
    axis.minorticks_off()
    axis.tick_params(colors=GREY)
    axis.xaxis.label.set_color(GREY)
    axis.spines[:].set_color(GREY)
    axis.spines[["top", "right"]].set_visible(False)
    axis.legend(
        ncols=3, fontsize="small", frameon=False, labelcolor=GREY,
        loc="lower center", bbox_to_anchor=(0.4, 1.0), handletextpad=0.1, columnspacing=1,
    )  # fmt: skip
    figure.savefig(FIGURE, dpi=200, transparent=True)
    plt.close(figure)


def page(rows):
    """The page of the docs, from all rows."""
    table = {(r["plant"], r["secret"], r["method"]): r for r in rows}
    bounds = {(r["plant"], r["secret"]): r["bound"] for r in rows if "bound" in r}
    names = [name for name in plant_names() if any(r["plant"] == name for r in rows)]
    methods = {short: comparison.name_of(method) for short, method in METHODS.items()}
    draw(rows, bounds, methods)
    cells = len(plant_names()) * len(SECRETS) * len(METHODS)
    refused = sum("refused" in row for row in rows)
    slowest = max(rows, key=lambda row: row["seconds"])
    slow = f"{slowest['seconds']:.0f} s ({slowest['plant']}, {slowest['secret']})"
    lines = [
        INTRODUCTION.format(ran=len(rows), cells=cells, refused=refused, slow=slow),
        *summary(rows, bounds, methods),
    ]
    for secret in SECRETS:
        lines.append(f"\n## The secret: {secret}\n")
        head = ["plant", "states", "no privacy", "any unbiased", *methods]
        lines += [f"| {' | '.join(head)} |", "|" + " --- |" * len(head)]
        for name in names:
            found = [table.get((name, secret, method)) for method in methods.values()]
            bound = bounds.get((name, secret))
            states = next((str(row["states"]) for row in found if row), "")
            texts = [text_of(row, bound) for row in found]
            entries = [name, states, *references(name, bound), *texts]
            lines.append(f"| {' | '.join(entries)} |")
    lines.append("\n## Why cells were refused\n")
    lines.append("| method | cause | cells |\n| --- | --- | --- |")
    causes = {}
    for row in rows:
        if "refused" in row:
            key = (row["method"], row["refused"].replace("|", "/"))
            causes.setdefault(key, []).append(f"{row['plant']}, {row['secret']}")
    for (method, cause), where in causes.items():
        shown = "; ".join(where[:4])
        if len(where) > 4:
            shown = f"{len(where)} cells"
        lines.append(f"| {method} | {cause} | {shown} |")
    lines.append("\nSee also {doc}`papers_and_errata`, {doc}`benchmarks`.")
    PAGE.write_text("\n".join(lines) + "\n", encoding="utf8")


def summary(rows, bounds, methods):
    """One row for each method: how often it serves, and its costs over the bound."""
    head = [
        "column",
        "method",
        "cells",
        "refused",
        "median",
        "largest",
        "below the bound",
    ]
    lines = [f"| {' | '.join(head)} |", "|" + " --- |" * len(head)]
    for short, method in methods.items():
        own = [row for row in rows if row["method"] == method]
        refused = sum("refused" in row for row in own)
        ratios = []
        for row in own:
            bound = bounds.get((row["plant"], row["secret"]))
            if bound and "cost" in row:
                ratios.append(row["cost"] / bound)
        spread = ["", "", ""]
        if ratios:
            below = sum(ratio < 1 - 1e-6 for ratio in ratios)
            spread = [f"{np.median(ratios):.3f}", f"{max(ratios):.4g}", str(below)]
        entries = [short, method, str(len(own)), str(refused), *spread]
        lines.append(f"| {' | '.join(entries)} |")
    return lines


INTRODUCTION = """# Compared with the literature, on public plants

![Dots: the cost of each loop over the bound, by method and secret; bars: medians. Both designs of this library have their medians at the bound, the other methods to the right of it.](figures/literature_benchmark.png)

Each dot is one plant with one secret: how many times the least possible cost the loop
has under the same promise. No linear Gaussian loop does better than 1. Fisher
information comes without differential privacy, and *own noise* counts the plant's
disturbances as noise, and may so lie below it. Dots beyond 40 are left out of the figure, not of the tables.

The columns of the tables: *plant* and its number of *states*, *no privacy*, *any
unbiased*, then the methods under the short names of figure and first table, which counts the
*cells* (a plant and a secret), those *refused*, and those *below the bound*.

What a loop costs under one privacy guarantee, epsilon = 1 at delta = 0.01 over 50
samples of 0.1 s, by the methods of {{doc}}`gallery/literature/side_by_side`. The plants
are the 27 of controlgym with at most 40 states, most of them from COMPleib, with its
weights C1 and D12 and its covariances. One secret at a time: every state at the start,
by one standard deviation of its prior; every state in the first three samples; the
strongest disturbance at any one sample; its whole signal in an l2 ball.

A number is the expected cost over a lower bound of *every* linear Gaussian loop with
this guarantee. Every release is read by the best filter for it, so only what is
published differs. Each number without brackets has its guarantee evaluated for the
secret, and within the budget; numbers in brackets come without differential privacy.
*No privacy* is the same loop without noise. *Any unbiased* is a lower bound of what a
linear loop costs with any unbiased mechanism of the same zCDP, Gaussian or not
({{math}}`y^2/(e^{{y^2}} - 1)` of the cost of privacy, as in `NoiseDesign.universal_bound` for a `gdp`).
Where the best noise found no bound in time, costs stand as they are.

The bound is for noise that also hides the secret from those who know the disturbances.
*Own* counts the plant's own disturbances as noise, so its cost may fall below the
bound, and nothing else does. It holds if the adversary knows no more of them than their
law.

Directed information (Tanaka et al. 2017) has no column: the method is for loops that
read their whole state, and none of these does. It stands in
{{doc}}`gallery/literature/side_by_side`.

Written by `python tests/benchmarks/literature.py`, which continues where it stopped and
gives a cell 60 s. Run so far: {ran} of {cells} cells, of which {refused} were refused, for the
causes below. The slowest one took {slow}, on two cores that
other work shared.
"""


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--plants", default=",".join(plant_names()))
    parser.add_argument("--minutes", type=float, default=90.0)
    parser.add_argument("--page", action="store_true", help="write the page alone")
    asked = parser.parse_args(arguments)
    if not asked.page:
        run(asked.plants.split(","), asked.minutes)
    page(rows_done())


if __name__ == "__main__":
    main()
