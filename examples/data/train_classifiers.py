"""Train the networks that the examples of inference privacy evaluate; their weights are shipped, so nobody has to.

For scikit-learn's handwritten digits (8 x 8 pixels in [0, 1]): a standard classifier, the same fine-tuned on inputs
with Gaussian noise of several sizes, and a 1-Lipschitz one of SDP-based layers (Araujo, Havens, Delattre, Allauzen and
Hu, ICLR 2023) trained with noise on its outputs. For a double integrator: a controller trained through its closed loop.
Needs torch and scikit-learn; a minute or two on one core. Other versions of torch or other processors give slightly other weights.

Run it as ``python train_classifiers.py [folder]``; the default is this folder, with the shipped weights.
"""

import copy
import sys
from pathlib import Path

import numpy as np

try:
    import torch
    from sklearn.datasets import load_digits
except ImportError as missing:
    print(
        f"{missing.name} is not installed: nothing is trained, the examples use the shipped weights"
    )
    raise SystemExit(0) from None

INPUT_NOISE = (0.125, 0.25, 0.5, 1.0, 2.0)
OUTPUT_NOISE = 0.35
PARTS = {"train": 1000, "validation": 297, "test": 500}


class SLL(torch.nn.Module):
    """Layers x - 2 W T^-1 relu(W'x + b), a head with orthonormal rows, and a temperature for training."""

    def __init__(self, width=64, inner=64, depth=4, classes=10):
        super().__init__()
        parameter, each = torch.nn.Parameter, range(depth)
        self.W = torch.nn.ParameterList(
            parameter(torch.randn(width, inner) / width**0.5) for _ in each
        )
        self.b = torch.nn.ParameterList(parameter(torch.zeros(inner)) for _ in each)
        self.r = torch.nn.ParameterList(parameter(torch.zeros(inner)) for _ in each)
        self.raw_head = parameter(torch.randn(width, classes))
        self.head_bias = parameter(torch.zeros(classes))
        self.log_temperature = parameter(torch.tensor(-1.0))

    @property
    def head(self):
        return torch.linalg.qr(self.raw_head).Q.T

    def forward(self, x):
        for W, b, r in zip(self.W, self.b, self.r):
            q = torch.exp(r)
            T = (torch.abs(W.T @ W) * q).sum(dim=1) / q
            x = x - 2 * (torch.relu(x @ W + b) / T) @ W.T
        return x @ self.head.T + self.head_bias


def fit(network, images, labels, logits, *, steps=4000, rate=3e-3):
    """Adam on the cross-entropy of ``logits(network, batch)``, the learning rate falling to zero along a cosine."""
    optimiser = torch.optim.AdamW(network.parameters(), lr=rate, weight_decay=1e-3)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, steps)
    for _ in range(steps):
        batch = torch.randint(len(images), (128,))
        loss = torch.nn.functional.cross_entropy(
            logits(network, images[batch]), labels[batch]
        )
        optimiser.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(network.parameters(), 1.0)
        optimiser.step()
        schedule.step()
    return network


def noisy(x, std):
    return x + std * torch.randn_like(x)


def classifiers():
    """Weights of all classifiers, and which images train, choose and test them."""
    images, labels = load_digits(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(images)).astype(np.uint16)
    parts = dict(zip(PARTS, np.split(order, np.cumsum(list(PARTS.values()))[:-1])))
    x = torch.tensor(images[parts["train"]] / 16, dtype=torch.float32)
    y = torch.tensor(labels[parts["train"]])
    arrays = {name: parts[name] for name in ("validation", "test")}

    relu = torch.nn.Sequential(
        torch.nn.Linear(64, 128), torch.nn.ReLU(), torch.nn.Linear(128, 10)
    )
    standard = fit(relu, x, y, lambda network, batch: network(batch))
    store(arrays, "standard", standard.state_dict())
    for std in INPUT_NOISE:
        tuned = copy.deepcopy(standard)
        fit(tuned, x, y, lambda network, batch, std=std: network(noisy(batch, std)))
        store(arrays, f"tuned-{std}", tuned.state_dict())

    sll = fit(
        SLL(),
        x,
        y,
        lambda network, batch: (
            noisy(network(batch), OUTPUT_NOISE) / network.log_temperature.exp()
        ),
    )
    layers = {
        f"{name}{k}": value
        for name in "Wbr"
        for k, value in enumerate(getattr(sll, name))
    }
    store(arrays, "sll", layers | {"head": sll.head, "head_bias": sll.head_bias})
    return arrays


def store(arrays, network, tensors):
    for name, value in tensors.items():
        arrays[f"{network}.{name}"] = value.detach().numpy().astype(np.float16)


def controller(horizon=100, steps=1500):
    """A network u = pi(position, velocity), |u| about 1 at most, for x+ = A x + B u with a period of 0.1 s."""
    A, B = torch.tensor([[1, 0.1], [0, 1]]), torch.tensor([0.005, 0.1])
    layer, tanh = torch.nn.Linear, torch.nn.Tanh
    network = torch.nn.Sequential(
        layer(2, 16), tanh(), layer(16, 16), tanh(), layer(16, 1)
    )
    optimiser = torch.optim.AdamW(network.parameters(), lr=5e-3, weight_decay=1e-2)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, steps)
    for _ in range(steps):
        x = (2 * torch.rand(128, 2) - 1) * torch.tensor([3.0, 1.5])
        x = torch.cat([x, -x])  # as good to the left as to the right
        cost = 0.0
        for _ in range(horizon):
            u = network(x)
            cost = (
                cost
                + (x**2).sum(1).mean()
                + 0.5 * (u**2).mean()
                + 20 * (torch.relu(u.abs() - 1) ** 2).mean()
            )
            x = x @ A.T + u * B
        optimiser.zero_grad()
        (cost / horizon).backward()
        torch.nn.utils.clip_grad_norm_(network.parameters(), 1.0)
        optimiser.step()
        schedule.step()
    return {
        name: value.detach().numpy().astype(np.float16)
        for name, value in network.state_dict().items()
    }


if __name__ == "__main__":
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent
    torch.set_num_threads(1)
    torch.manual_seed(0)
    np.savez_compressed(folder / "controller.npz", **controller())
    np.savez_compressed(folder / "classifiers.npz", **classifiers())
    print(f"wrote classifiers.npz and controller.npz to {folder}")
