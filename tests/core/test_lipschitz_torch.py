"""Constants of real torch models, wherever torch is installed."""

import numpy as np
import pytest

from privcontrol.core import Residual, feedforward_lipschitz
from privcontrol.core.lipschitz.adapters import stages_of

torch = pytest.importorskip("torch")
SHAPE = (1, 12, 12)


def small_model():
    nn = torch.nn
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Conv2d(1, 3, 3, stride=2, padding=1),
        nn.ReLU(),
        nn.AvgPool2d(2),
        nn.Flatten(),
        nn.Linear(27, 5),
        nn.Tanh(),
        nn.Linear(5, 2),
    )


def test_jacobians_of_a_convolutional_model_stay_below_its_bound():
    model = small_model()
    bound = feedforward_lipschitz(model, input_shape=SHAPE)
    assert bound.method == "sdp"
    largest = 0.0
    for _ in range(40):
        x = 3 * torch.randn(1, *SHAPE)
        jacobian = torch.autograd.functional.jacobian(model, x).reshape(2, 144)
        largest = max(largest, torch.linalg.matrix_norm(jacobian, 2).item())
    assert 0.3 * bound < largest <= bound


@pytest.mark.parametrize("groups, dilation, padding", [(1, 1, 0), (2, 2, (2, 1))])
def test_a_convolution_is_the_matrix_that_torch_applies(groups, dilation, padding):
    layer = torch.nn.Conv2d(
        4, 6, (3, 2), groups=groups, dilation=dilation, padding=padding, bias=False
    )
    operator = stages_of([layer], (4, 8, 8))[0].operator
    x = torch.randn(1, 4, 8, 8)
    answered = layer(x).detach().numpy().ravel()
    moved = operator.matrix() @ x.numpy().ravel().astype(float)
    np.testing.assert_allclose(answered, moved, atol=1e-5)


def test_a_residual_model_stays_below_its_bound():
    nn = torch.nn
    torch.manual_seed(1)
    first, last = nn.Conv2d(1, 2, 3, padding=1), nn.Linear(128, 3)
    branch = nn.Sequential(
        nn.Conv2d(2, 2, 3, padding=1), nn.ReLU(), nn.Conv2d(2, 2, 3, padding=1)
    )

    def model(x):
        x = first(x)
        return last((x + branch(x)).relu().flatten(1))

    layers = [first, Residual(branch), nn.ReLU(), nn.Flatten(), last]
    bound = feedforward_lipschitz(layers, input_shape=(1, 8, 8))
    x = torch.randn(500, 1, 8, 8)
    y = x + 0.01 * torch.randn_like(x)
    with torch.no_grad():
        moved = (model(x) - model(y)).norm(dim=1) / (x - y).flatten(1).norm(dim=1)
    assert moved.max() <= bound
