"""Train the controller that the example on networks in the cloud uses.

For a double integrator: a network trained through its closed loop. Its weights are
shipped, so nobody has to run this. Needs torch; a minute on one core. Other versions of
torch and other processors give slightly other weights.

Run it as ``python train_controller.py [folder]``; the default is this folder.
"""

import sys
from pathlib import Path

import numpy as np

try:
    import torch
except ImportError:
    print("torch is not installed: nothing is trained")
    raise SystemExit(0) from None


def controller(horizon=100, steps=1500):
    """A network u = pi(position, velocity), |u| about 1 at most, for steps of 0.1 s."""
    A = torch.tensor([[1, 0.1], [0, 1]])
    B = torch.tensor([0.005, 0.1])
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
    print(f"wrote controller.npz to {folder}")
