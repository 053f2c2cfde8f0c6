"""Where along a pipeline does the noise go?

A phone photographs a digit (8 x 8 pixels) and asks a cloud to read it. The first stage
is a projection onto a few directions, which never stretches a move of the image. The
second one is any reader, trained on noisy projections of public images. Noise can be
added to the image, after the first stage, or to the answer; what follows it is
post-processing, ``mechanism.then(stage)``, with the guarantee of the release. Noise
after the first stage costs the least accuracy, since it is not spread over directions
that no digit uses. At last two answers about one image are counted, and two about two
images. Run it as ``python pipeline_of_mechanisms.py [folder]``.
"""

import sys
import warnings
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.discriminant_analysis import QuadraticDiscriminantAnalysis
from sklearn.exceptions import ConvergenceWarning
from sklearn.neural_network import MLPClassifier

from privcontrol.core import (
    InputPerturbation,
    LipschitzBound,
    OutputPerturbation,
    PrivacyBudget,
    compose_parallel,
    compose_sequential,
    feedforward_lipschitz,
)

folder = Path(sys.argv[1] if len(sys.argv) > 1 else ".")
DIRECTIONS, TRAIN, SEEDS = 24, 1200, 5
EPSILON, DELTA = 1.0, 1e-5
RADII = (0.02, 0.05, 0.1, 0.2)
images, digits = load_digits(return_X_y=True)
images = images / 16

order = np.random.default_rng(0).permutation(len(images))
train, test = order[:TRAIN], order[TRAIN:]
center = images[train].mean(axis=0)
_, _, axes = np.linalg.svd(images[train] - center, full_matrices=False)


def project(x):
    """The first stage: coordinates in orthonormal directions."""
    return (x - center) @ axes[:DIRECTIONS].T


def identity(x):
    return x


def reader(features, std, seed):
    """A second stage for features with noise of this size, from public images."""
    rng = np.random.default_rng(seed)
    copies = np.repeat(features, 10, axis=0)
    noisy = copies + std * rng.standard_normal(copies.shape)
    return QuadraticDiscriminantAnalysis().fit(noisy, np.repeat(digits[train], 10))


def network(features, seed):
    """A network for features without noise, whose steepness is known."""
    model = MLPClassifier((64,), max_iter=60, tol=1e-3, random_state=seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return model.fit(features, digits[train])


def accuracy(mechanism, rng):
    """Share of test images that are read right, in per cent."""
    return 100 * np.mean(mechanism(images[test], rng=rng) == digits[test])


def scores_of(model):
    """The logits of a fitted network, as a function."""

    def scores(x):
        hidden = np.maximum(project(x) @ model.coefs_[0] + model.intercepts_[0], 0)
        return hidden @ model.coefs_[1] + model.intercepts_[1]

    return scores


gain = LipschitzBound(1.0 + 1e-12, p=2, q=2, method="orthonormal rows")
names = ("on the image", "after the first stage", "on the answer")
clean = [network(project(images[train]), seed) for seed in range(SEEDS)]
table = np.zeros((len(names), len(RADII), SEEDS))
for k, radius in enumerate(RADII):
    budget = PrivacyBudget(epsilon=EPSILON, delta=DELTA)
    on_image = InputPerturbation(identity, budget, radius=radius)
    between = OutputPerturbation(project, budget, radius=radius, lipschitz=gain)
    for seed in range(SEEDS):
        rng = np.random.default_rng(seed)
        of_pixels = reader(images[train], on_image.scale, seed)
        of_features = reader(project(images[train]), between.scale, seed)
        steepness = feedforward_lipschitz(clean[seed], method="product")
        at_end = OutputPerturbation(
            scores_of(clean[seed]), budget, radius=radius, lipschitz=float(steepness)
        )
        pipelines = (
            on_image.then(of_pixels.predict),
            between.then(of_features.predict),
            at_end.then(lambda scores: scores.argmax(axis=1)),
        )
        for row, pipeline in enumerate(pipelines):
            assert pipeline.guarantee.satisfies(budget)
            table[row, k, seed] = accuracy(pipeline, rng)

print(f"{'noise':24s}" + "".join(f"radius {radius:<9g}" for radius in RADII))
for name, row in zip(names, table, strict=True):
    cells = [f"{x.mean():5.1f} +- {x.std(ddof=1):4.1f}  " for x in row]
    print(f"{name:24s}" + "".join(cells))

# Two releases about one image, and chunks of their own radii.
budget = PrivacyBudget(epsilon=EPSILON, delta=DELTA)
digit = OutputPerturbation(project, budget, radius=0.1, lipschitz=gain)
quality = OutputPerturbation(
    lambda x: x.mean(axis=-1, keepdims=True),
    budget,
    radius=0.05,
    lipschitz=LipschitzBound(1 / 8, p=2, q=2, method="mean of 64 pixels"),
)
sharp = quality.then(lambda mean: mean > 0.3)
both = compose_sequential(digit.guarantee, sharp.guarantee)
apart = compose_parallel(digit.guarantee, sharp.guarantee)
print(
    f"two answers about one image, radius 0.05: epsilon {both.epsilon(DELTA):.3f}; "
    f"about two images that move together by 0.05: {apart.epsilon(DELTA):.3f}"
)

figure, axis = plt.subplots(figsize=(5.6, 3.4), layout="constrained")
styles = (("#009E73", "o", "--"), ("#CC79A7", "D", "-"), ("#E69F00", "^", ":"))
for name, row, (color, marker, line) in zip(names, table, styles, strict=True):
    axis.errorbar(
        RADII,
        row.mean(axis=1),
        row.std(axis=1, ddof=1),
        color=color,
        marker=marker,
        ls=line,
        ms=4,
        capsize=2,
        label=f"noise {name}",
    )
axis.set(
    xlabel=f"Radius α (ε = {EPSILON:g}, δ = {DELTA:g})",
    ylabel=f"Accuracy on {len(test)} images [%]",
    ylim=(0, 100),
)
axis.grid(alpha=0.3)
axis.legend(fontsize="small")
figure.savefig(folder / "pipeline_of_mechanisms.png", dpi=150)
