"""The private classifiers of IP section V, on handwritten digits.

Figures 3 to 6 share them; scikit-learn brings the images. A standard network stands for the paper's ResNet-18, the
same fine-tuned on noisy inputs for its tuned ones, and a 1-Lipschitz network of SDP-based layers for its SLL. The
weights in ``data`` come from ``data/train_classifiers.py``.
"""

from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits

from privcontrol.core import PrivacyBudget
from privcontrol.core.inference import InputPerturbation, OutputPerturbation
from privcontrol.core.lipschitz import SLLLayer, SLLNetwork

DELTA, TESTS = 1e-5, 15
RULES = {"classical": "the paper's classical rule", "analytic": "exact rule"}
STYLES = {
    "Gauss-Input, standard": ("#666666", "s", "--"),
    "Gauss-Input, fine-tuned": ("#0072B2", "o", "-"),
    "Gauss-Input, 1-Lipschitz": ("#E69F00", "^", "--"),
    "Gauss-Output, 1-Lipschitz": ("#D55E00", "D", "-"),
}


class Classifiers:
    """The shipped networks, from pixels (batch, 64) in [0, 1] to scores (batch, 10), and the images that judge them."""

    def __init__(self, file=Path(__file__).parents[1] / "data" / "classifiers.npz"):
        with np.load(file) as arrays:
            self.arrays = {name: array.astype(float) for name, array in arrays.items()}
        images, labels = load_digits(return_X_y=True)
        parts = {name: self.arrays[name].astype(int) for name in ("validation", "test")}
        self.images = {name: images[index] / 16 for name, index in parts.items()}
        self.labels = {name: labels[index] for name, index in parts.items()}
        names = sorted(
            {
                name.split(".weight")[0][:-2]
                for name in self.arrays
                if name.endswith("weight")
            }
        )
        self.relu = {name: self._relu(name) for name in names}
        self.sll = self._sll()

    def _relu(self, name):
        W, b, V, c = (
            self.arrays[f"{name}.{layer}.{part}"]
            for layer in (0, 2)
            for part in ("weight", "bias")
        )
        return lambda x: np.maximum(x @ W.T + b, 0) @ V.T + c

    def _sll(self):
        a = self.arrays
        layers = [
            SLLLayer(a[f"sll.W{k}"], a[f"sll.b{k}"], np.exp(a[f"sll.r{k}"]))
            for k in range(4)
        ]
        left, _, right = np.linalg.svd(
            a["sll.head"], full_matrices=False
        )  # the nearest one with orthonormal rows
        return SLLNetwork(layers, left @ right, a["sll.head_bias"])

    def accuracy(
        self,
        mechanism,
        part="test",
        *,
        repetitions=TESTS,
        rng=None,
        task=lambda digit: digit,
    ):
        """Share of images (repetitions,) whose largest released score answers the task about the digit."""
        released = mechanism(np.tile(self.images[part], (repetitions, 1)), rng=rng)
        answers = released.reshape(repetitions, -1, 10).argmax(axis=2)
        return (task(answers) == task(self.labels[part])).mean(axis=1)

    def gauss_output(self, epsilon, radius, method):
        """Noise on the scores of the 1-Lipschitz network (IP Definition 4)."""
        options = {"radius": radius, "lipschitz": self.sll.lipschitz, "method": method}
        return OutputPerturbation(
            self.sll, PrivacyBudget(epsilon=epsilon, delta=DELTA), **options
        )

    def gauss_input(self, model, epsilon, radius, method):
        """Noise on the pixels (IP Definition 5)."""
        return InputPerturbation(
            model,
            PrivacyBudget(epsilon=epsilon, delta=DELTA),
            radius=radius,
            method=method,
        )

    def mechanisms(self, epsilon, radius, method, rng):
        """The four mechanisms of a budget; the fine-tuned network is the best one on public validation images."""
        if radius == 0:
            inputs, output = (
                {name: _plain(model) for name, model in self.relu.items()},
                _plain(self.sll),
            )
            lipschitz = output
        else:
            inputs = {
                name: self.gauss_input(model, epsilon, radius, method)
                for name, model in self.relu.items()
            }
            lipschitz = self.gauss_input(self.sll, epsilon, radius, method)
            output = self.gauss_output(epsilon, radius, method)
        scores = {
            name: self.accuracy(m, "validation", repetitions=10, rng=rng).mean()
            for name, m in inputs.items()
        }
        chosen = inputs[max(scores, key=scores.get)]
        return dict(zip(STYLES, (inputs["standard"], chosen, lipschitz, output)))


def _plain(model):
    return lambda x, rng=None: model(x)


def sweep_figure(x, settings, label, ticks):
    """Mean and standard deviation of 15 tests of the four mechanisms, and a figure with one panel for each rule."""
    classifiers = Classifiers()
    figure, axes = plt.subplots(
        1, 2, figsize=(8.6, 4.0), sharey=True, layout="constrained"
    )
    for axis, (method, title) in zip(axes, RULES.items()):
        rng = np.random.default_rng(0)
        rows = [
            classifiers.mechanisms(epsilon, radius, method, rng)
            for epsilon, radius in settings
        ]
        for name, (color, marker, line) in STYLES.items():
            tests = 100 * np.array(
                [classifiers.accuracy(row[name], rng=rng) for row in rows]
            )
            mean, std = tests.mean(axis=1), tests.std(axis=1, ddof=1)
            axis.errorbar(
                x,
                mean,
                std,
                label=name,
                color=color,
                marker=marker,
                ls=line,
                ms=4,
                lw=1.3,
                capsize=2,
            )
            print(
                f"{method:9s} {name:26s}" + "".join(f"{value:6.1f}" for value in mean)
            )
        axis.set(xlabel=label, title=title, xticks=ticks, ylim=(0, 100))
        axis.grid(alpha=0.3)
    axes[0].set_ylabel("accuracy on 500 test images [%]")
    figure.legend(
        *axes[0].get_legend_handles_labels(),
        loc="outside lower center",
        ncols=4,
        fontsize="small",
        frameon=False,
    )
    return figure
