"""What does it cost a classifier to hide what exactly it was shown?

The evaluation of "Inference Privacy" (IP, section V) on scikit-learn's handwritten digits: a standard network, the same
fine-tuned on noisy inputs, and a 1-Lipschitz network, with noise on the input or on the output; accuracy against radius
and against epsilon, with the paper's classical calibration beside the exact one. Weights are shipped
(``train_classifiers.py`` made them); ``pip install scikit-learn`` brings the images.

Run it as ``python private_classifier.py [folder]``; the figures are written to the folder.
"""

import sys
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from scipy.optimize import brentq
from sklearn.datasets import load_digits

from privcontrol.core import PrivacyBudget, PrivacyError, gaussian_std, kappa
from privcontrol.core.inference import InputPerturbation, OutputPerturbation
from privcontrol.core.lipschitz import SLLLayer, SLLNetwork, feedforward_lipschitz

DELTA, REPETITIONS = 1e-5, 15
METHODS = {"classical": "classical rule", "analytic": "exact rule"}
RADII = np.linspace(0, 0.2, 9)
EPSILONS = np.array([0.25, 0.5, 0.75, 1, 1.5, 2, 3, 5, 8, 12])
STYLES = {
    "Gauss-Input, standard": ("C7", "s", "--"),
    "Gauss-Input, fine-tuned": ("C0", "o", "-"),
    "Gauss-Input, 1-Lipschitz": ("C1", "^", "--"),
    "Gauss-Output, 1-Lipschitz": ("C3", "D", "-"),
}


class Classifiers:
    """The shipped networks, from pixels (batch, 64) in [0, 1] to scores (batch, 10), and the images that judge them."""

    def __init__(self, file=Path(__file__).parent / "data" / "classifiers.npz"):
        with np.load(file) as arrays:
            self.arrays = {name: array.astype(float) for name, array in arrays.items()}
        images, labels = load_digits(return_X_y=True)
        parts = {name: self.arrays[name].astype(int) for name in ("validation", "test")}
        self.images = {name: images[index] / 16 for name, index in parts.items()}
        self.labels = {name: labels[index] for name, index in parts.items()}
        names = sorted({name.split(".weight")[0][:-2] for name in self.arrays if name.endswith("weight")})
        self.relu = {name: self._relu(name) for name in names}
        self.sll = self._sll()

    def weights(self, name):
        return [self.arrays[f"{name}.{k}.weight"] for k in (0, 2)]

    def _relu(self, name):
        (W, V), (b, c) = self.weights(name), (self.arrays[f"{name}.{k}.bias"] for k in (0, 2))
        return lambda x: np.maximum(x @ W.T + b, 0) @ V.T + c

    def _sll(self):
        a = self.arrays
        layers = [SLLLayer(a[f"sll.W{k}"], a[f"sll.b{k}"], np.exp(a[f"sll.r{k}"])) for k in range(4)]
        left, _, right = np.linalg.svd(a["sll.head"], full_matrices=False)  # the nearest one with orthonormal rows
        return SLLNetwork(layers, left @ right, a["sll.head_bias"])

    def accuracy(self, mechanism, part="test", repetitions=REPETITIONS, rng=None):
        """Share of images whose released scores are largest at the true label, (repetitions,)."""
        released = mechanism(np.tile(self.images[part], (repetitions, 1)), rng=rng)
        hits = released.reshape(repetitions, -1, 10).argmax(axis=2) == self.labels[part]
        return hits.mean(axis=1)

    def mechanisms(self, epsilon, radius, method, rng):
        """The four mechanisms of a budget; the fine-tuned network is the best one on public validation images."""
        budget = PrivacyBudget(epsilon=epsilon, delta=DELTA)
        inputs = {
            name: InputPerturbation(model, budget, radius=radius, method=method)
            for name, model in [*self.relu.items(), ("sll", self.sll)]
        }
        best = max(self.relu, key=lambda name: self.accuracy(inputs[name], "validation", 10, rng).mean())
        options = {"radius": radius, "lipschitz": self.sll.lipschitz, "method": method}
        mechanisms = (inputs["standard"], inputs[best], inputs["sll"], OutputPerturbation(self.sll, budget, **options))
        return dict(zip(STYLES, mechanisms))

    def clean(self):
        """Accuracies without any noise, in the order of the mechanisms."""
        best = max(self.relu, key=lambda name: self.accuracy(_plain(self.relu[name]), "validation", 1).mean())
        models = (self.relu["standard"], self.relu[best], self.sll, self.sll)
        return {name: self.accuracy(_plain(model)) for name, model in zip(STYLES, models)}


def _plain(model):
    return lambda x, rng=None: model(x)


def accuracy_curves(classifiers, method, settings):
    """Accuracies (settings, repetitions) of the four mechanisms, NaN where the rule would break its claim."""
    curves = {name: np.full((len(settings), REPETITIONS), np.nan) for name in STYLES}
    rng = np.random.default_rng(0)
    for i, (epsilon, radius) in enumerate(settings):
        if radius == 0:
            found = classifiers.clean()
        else:
            try:
                mechanisms = classifiers.mechanisms(epsilon, radius, method, rng)
            except PrivacyError:
                continue
            found = {name: classifiers.accuracy(mechanism, rng=rng) for name, mechanism in mechanisms.items()}
        for name, values in found.items():
            curves[name][i] = values
    return curves


def sweep_figure(classifiers, settings, x, label, path, scale="linear"):
    """Mean and standard deviation of 15 repetitions against x, one panel for each calibration rule."""
    figure, axes = plt.subplots(1, 2, figsize=(8.6, 3.8), sharey=True, layout="constrained")
    results = {}
    for axis, (method, title) in zip(axes, METHODS.items()):
        results[method] = accuracy_curves(classifiers, method, settings)
        for name, accuracy in results[method].items():
            color, marker, line = STYLES[name]
            mean, std = 100 * accuracy.mean(axis=1), 100 * accuracy.std(axis=1, ddof=1)
            axis.errorbar(x, mean, std, label=name, color=color, marker=marker, ls=line, ms=4, lw=1.3, capsize=2)
        axis.set(xlabel=label, title=title, xscale=scale, ylim=(0, 100))
        axis.grid(alpha=0.3)
    axes[0].set_ylabel("accuracy on 500 test images [%]")
    axes[1].legend(fontsize=8, loc="lower left" if scale == "linear" else "lower right")
    if scale == "linear":
        for axis in axes:
            axis.set_xticks(x[::2])
    else:
        for axis in axes:
            axis.set_xticks([0.25, 0.5, 1, 2, 5, 10], ["0.25", "0.5", "1", "2", "5", "10"])
            axis.set_xlim(0.2, 15)
        limit = classical_threshold(DELTA)
        axes[0].axvspan(limit, 15, color="C3", alpha=0.12, lw=0)
        axes[0].text(limit * 1.08, 50, "refused: true δ > claim", rotation=90, va="center", fontsize=8)
    figure.savefig(path, dpi=150)
    plt.close(figure)
    return results


def ratio_figure(classifiers, path):
    """Accuracy of Gauss-Output against radius/epsilon: one curve for the classical rule, one for each epsilon else."""
    ratios, epsilons = np.geomspace(0.01, 1, 9), (0.1, 0.3, 1.0, 3.0, 8.0)
    figure, axes = plt.subplots(1, 2, figsize=(8.6, 3.8), sharey=True, layout="constrained")
    results = {}
    for axis, (method, title) in zip(axes, METHODS.items()):
        rng = np.random.default_rng(1)
        for epsilon, color in zip(epsilons, plt.get_cmap("viridis")(np.linspace(0, 0.9, 5))):
            accuracy = np.array([classifiers.accuracy(gauss_output(classifiers, epsilon, ratio * epsilon, method), rng=rng)
                                 for ratio in ratios])  # fmt: skip
            results[method, epsilon] = accuracy.mean(axis=1)
            axis.errorbar(ratios, 100 * accuracy.mean(axis=1), 100 * accuracy.std(axis=1, ddof=1), color=color,
                          marker="o", ms=3, lw=1.3, capsize=2, label=f"ε = {epsilon:g}")  # fmt: skip
        axis.set(xlabel="radius / ε", title=title, xscale="log", ylim=(0, 100))
        axis.grid(alpha=0.3, which="both")
    axes[0].set_ylabel("accuracy of Gauss-Output [%]")
    axes[1].legend(fontsize=8)
    figure.savefig(path, dpi=150)
    plt.close(figure)
    return results


def gauss_output(classifiers, epsilon, radius, method):
    budget = PrivacyBudget(epsilon=epsilon, delta=DELTA)
    return OutputPerturbation(
        classifiers.sll, budget, radius=radius, lipschitz=classifiers.sll.lipschitz, method=method
    )


def classical_delta(epsilon, delta):
    """True delta of noise with the standard deviation sqrt(2 log(1.25/delta))/epsilon."""
    return kappa(epsilon, epsilon / np.sqrt(2 * np.log(1.25 / delta)))


def classical_threshold(delta):
    """The epsilon above which the classical rule breaks its claim."""
    return brentq(lambda epsilon: classical_delta(epsilon, delta) / delta - 1, 1, 20)


def rule_figure(path):
    """True delta of the classical rule, and how much noise the exact rule saves where the former holds."""
    epsilons = np.geomspace(0.1, 20, 200)
    figure, axes = plt.subplots(1, 2, figsize=(8.6, 3.4), layout="constrained")
    for delta, color in ((1e-2, "C0"), (1e-5, "C3")):
        limit = classical_threshold(delta)
        axes[0].loglog(
            epsilons, classical_delta(epsilons, delta) / delta, color, label=f"δ = {delta:g}: up to ε = {limit:.3f}"
        )
        holds = epsilons <= limit
        saved = 1 - gaussian_std(epsilons[holds], delta) / gaussian_std(epsilons[holds], delta, method="classical")
        axes[1].semilogx(epsilons[holds], 100 * saved, color)
    axes[0].axhline(1, color="k", lw=0.8)
    axes[0].set(xlabel="ε", ylabel="true δ / claimed δ", title="classical rule", ylim=(1e-4, 1e3))
    axes[1].set(xlabel="ε", ylabel="noise saved [%]", title="exact rule against the classical one", ylim=(0, 75))
    axes[0].legend(fontsize=8)
    for axis in axes:
        axis.grid(alpha=0.3)
    figure.savefig(path, dpi=150)
    plt.close(figure)


def rule_table():
    """Rows (epsilon, and for each delta: true delta, noise saved in percent or None where the rule is refused)."""
    for epsilon in (0.1, 0.25, 0.5, 1, 2, 4, 6, 8, 10, 15, 20):
        row = [epsilon]
        for delta in (1e-2, 1e-5):
            try:
                classical = gaussian_std(epsilon, delta, method="classical")
                saved = 100 * (1 - gaussian_std(epsilon, delta) / classical)
            except PrivacyError:
                saved = None
            row += [classical_delta(epsilon, delta), saved]
        yield row


def main(folder):
    classifiers = Classifiers()
    sll, standard = classifiers.sll, classifiers.weights("standard")
    steep = feedforward_lipschitz(standard, method="product")
    print(
        f"Lipschitz constants, l2 to l2: standard network at most {steep:.1f}, 1-Lipschitz network {sll.lipschitz:.9f}"
    )
    print(gauss_output(classifiers, 1.0, 0.1, "analytic").guarantee)

    print("\nclassical rule: true delta, and noise that the exact rule saves (refused where the claim is false)")
    print(f"{'epsilon':>8} {'claim 1e-2':>12} {'saved':>8} {'claim 1e-5':>12} {'saved':>8}")
    for epsilon, *cells in rule_table():
        cells = [
            f"{d:12.3g} " + ("refused" if saved is None else f"{saved:6.1f}%").rjust(8)
            for d, saved in zip(cells[::2], cells[1::2])
        ]
        print(f"{epsilon:8g} {cells[0]} {cells[1]}")
    print("thresholds:", ", ".join(f"epsilon = {classical_threshold(d):.3f} at delta = {d:g}" for d in (1e-2, 1e-5)))
    rule_figure(folder / "classical_rule.png")

    radius = sweep_figure(classifiers, [(1.0, r) for r in RADII], RADII, "radius α (ε = 1, δ = 1e-5)",
                          folder / "classifier_radius.png")  # fmt: skip
    sweep_figure(classifiers, [(e, 0.1) for e in EPSILONS], EPSILONS, "ε (radius 0.1, δ = 1e-5)",
                 folder / "classifier_epsilon.png", "log")  # fmt: skip
    print("\naccuracy [%] at epsilon = 1, delta = 1e-5, mean (standard deviation) of 15 repetitions")
    print(f"{'radius':30}" + "".join(f"{r:>12g}" for r in RADII[::2]))
    for method, curves in radius.items():
        for name, accuracy in curves.items():
            cells = [f"{100 * a.mean():.1f} ({100 * a.std(ddof=1):.1f})" for a in accuracy[::2]]
            print(f"{name + ', ' + method:36}" + " ".join(f"{cell:>11}" for cell in cells))

    ratios = ratio_figure(classifiers, folder / "classifier_ratio.png")
    print("\nGauss-Output at the same radius/epsilon = 0.1: accuracy [%] for epsilon = 0.1, 0.3, 1, 3, 8")
    for method in METHODS:
        print(f"{method:10}", *(f"{100 * v[4]:6.1f}" for (m, _), v in ratios.items() if m == method))


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "."))
