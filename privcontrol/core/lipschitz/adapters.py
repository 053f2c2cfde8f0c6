"""Weights and slopes of fitted models, read without importing scikit-learn or torch.

What is not known is refused, since a guess here would be a wrong sensitivity.
"""

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privcontrol.core._linalg import positive_integer
from privcontrol.core.lipschitz.operators import (
    Convolution,
    Dense,
    Identity,
    Operator,
    Residual,
    Stage,
    average,
    convolution,
    summed,
)

SLOPES = {
    "identity": (1.0, 1.0),
    "logistic": (0.0, 0.25),
    "tanh": (0.0, 1.0),
    "relu": (0.0, 1.0),
}
#: None of them moves more than the logits do.
OUTPUTS = ("identity", "softmax", "logistic")
LAYERS = {"ReLU": "relu", "Tanh": "tanh", "Sigmoid": "logistic", "Identity": "identity"}
KNOWN = "a list of (out, in) matrices, a fitted scikit-learn MLPClassifier or MLPRegressor, a torch Sequential"


def is_model(candidate: Any) -> bool:
    """Whether this is an object to be adapted, not a sequence of layers."""
    return not isinstance(candidate, (list, tuple, np.ndarray))


def is_module(layer: Any) -> bool:
    """Whether a layer of a list is a torch module, or a residual block of them."""
    if isinstance(layer, Residual):
        return is_module(layer.branch) or is_module(layer.shortcut)
    if isinstance(layer, (list, tuple)):
        return any(map(is_module, layer))
    return _torch_name(layer) is not None


def stages_of(model: Any, input_shape: Any = None) -> list[Stage]:
    """The operators of a model, with the slopes of its activations."""
    if hasattr(model, "hidden_layer_sizes") and hasattr(model, "activation"):
        weights, slopes = _scikit_learn(model)
        return [Stage(Dense(W), s) for W, s in zip(weights, [None, *slopes])]
    if isinstance(model, (list, tuple)) or _torch_name(model) is not None:
        return _torch(model, _checked_shape(input_shape))[0]
    hint = ""
    dimensions = np.ndim(getattr(model, "coef_", 0.0))
    if dimensions in (1, 2):
        row = "[None]" if dimensions == 1 else ""
        hint = (
            "; if its scores are coef_ @ x + intercept_, their constant is "
            f"induced_norm(model.coef_{row}, p, q)"
        )
    raise TypeError(f"weights: expected {KNOWN}; got {type(model).__name__}{hint}")


def _checked_shape(input_shape: Any) -> tuple[int, ...] | None:
    if input_shape is None:
        return None
    if not isinstance(input_shape, (tuple, list)) or len(input_shape) not in (1, 3):
        raise ValueError(
            "input_shape: expected (channels, height, width), or (entries,), got "
            f"{input_shape!r}"
        )
    return tuple(positive_integer(length, "input_shape") for length in input_shape)


def _scikit_learn(model: Any) -> tuple[list[NDArray], list]:
    if not hasattr(model, "coefs_"):
        raise ValueError(
            f"weights: expected a fitted {type(model).__name__}; call its fit method first"
        )
    wanted = [(model.activation, tuple(SLOPES)), (model.out_activation_, OUTPUTS)]
    for activation, known in wanted:
        if activation not in known:
            raise TypeError(
                f"weights: expected an activation among {', '.join(known)}; got "
                f"{activation!r}"
            )
    weights = [np.asarray(coefficients, float).T for coefficients in model.coefs_]
    return weights, [SLOPES[model.activation]] * (len(weights) - 1)


def _torch_name(module: Any) -> str | None:
    """The class name of a module of torch.nn itself, None for subclasses and all else."""
    if type(module).__module__.startswith("torch.nn.modules."):
        return type(module).__name__
    return None


def _flat(module: Any) -> list:
    """The modules of nested ``Sequential`` containers and lists, in order.

    Hooks could change what a module computes, and are refused.
    """
    if isinstance(module, (list, tuple)):
        return [m for child in module for m in _flat(child)]
    for hooks in ("_forward_pre_hooks", "_forward_hooks"):
        if getattr(module, hooks, None):
            raise TypeError(
                f"weights: expected torch layers without hooks, got "
                f"{type(module).__name__} with {hooks}; remove them (a weight norm or "
                "spectral norm can be made permanent) and pass the model again"
            )
    if _torch_name(module) == "Sequential":
        return [m for child in module for m in _flat(child)]
    return [module]


def _torch(
    model: Any, shape: tuple[int, ...] | None
) -> tuple[list[Stage], tuple[int, ...] | None]:
    """The stages of torch layers, and the shape of their output where it is known."""
    stages: list[Stage] = []
    pending: tuple[float, float] | None = None  # slopes since the last operator
    for module in _flat(model):
        name = _torch_name(module)
        if name in LAYERS:
            low, high = SLOPES[LAYERS[name]]
            before = pending or SLOPES["identity"]
            pending = (low * before[0], high * before[1])
            continue
        if name == "Flatten":
            if shape is not None:
                shape = (math.prod(shape),)
            continue
        operator, shape = _layer(module, name, shape)
        if not stages and pending is not None:
            stages.append(Stage(Identity(operator.inputs)))
        if stages and stages[-1].operator.outputs != operator.inputs:
            raise ValueError(
                f"weights: expected {stages[-1].operator.outputs} entries into "
                f"{name or 'a residual block'}, as the layer before gives, got "
                f"{operator.inputs}"
            )
        slopes = pending or SLOPES["identity"]
        stages.append(Stage(operator, slopes if stages else None))
        pending = None
    if not stages:
        raise TypeError(
            "weights: expected a torch Sequential with at least one Linear or Conv2d "
            "layer, got none"
        )
    if pending is not None:
        stages.append(Stage(Identity(stages[-1].operator.outputs), pending))
    return stages, shape


def _layer(
    module: Any, name: str | None, shape: tuple[int, ...] | None
) -> tuple[Operator, tuple[int, ...] | None]:
    """The operator of one layer, and the shape of its output."""
    if isinstance(module, Residual):
        branch, after = _torch(module.branch, shape)
        if module.shortcut is None:
            shortcut = [Stage(Identity(branch[0].operator.inputs))]
        else:
            shortcut, _ = _torch(module.shortcut, shape)
        return summed(branch, shortcut), after
    if name == "Linear":
        dense = Dense(_numbers(module.weight))
        return dense, (dense.outputs,)
    if name in ("Conv2d", "AvgPool2d"):
        if shape is None or len(shape) != 3:
            raise ValueError(
                f"input_shape: expected (channels, height, width) of the images that a "
                f"{name} layer takes, got {shape}; pass input_shape="
            )
        image = (shape[0], shape[1], shape[2])
        layer = _convolution if name == "Conv2d" else _pool
        operator = layer(module, image)
        return operator, operator.output_shape
    known = f"Linear, Conv2d, AvgPool2d, Flatten, {', '.join(LAYERS)}"
    got = name or type(module).__name__
    raise TypeError(f"weights: expected torch layers among {known}; got {got}")


def _numbers(tensor: Any) -> NDArray:
    return np.array(tensor.detach().cpu().numpy(), float)


def _convolution(module: Any, shape: tuple[int, int, int]) -> Convolution:
    if module.padding_mode != "zeros" or isinstance(module.padding, str):
        raise TypeError(
            "weights: expected a Conv2d with zeros of a given number as padding, got "
            f"padding={module.padding!r}, padding_mode={module.padding_mode!r}"
        )
    return convolution(
        _numbers(module.weight),
        shape,
        module.groups,
        _both(module.stride),
        _both(module.padding),
        _both(module.dilation),
    )


def _pool(module: Any, shape: tuple[int, int, int]) -> Convolution:
    padding = _both(module.padding)
    partial = any(padding) and not module.count_include_pad
    if module.ceil_mode or module.divisor_override or partial:
        raise TypeError(
            "weights: expected an AvgPool2d with ceil_mode=False, "
            "count_include_pad=True and no divisor_override"
        )
    return average(shape, _both(module.kernel_size), _both(module.stride), padding)


def _both(value: Any) -> tuple[int, int]:
    """A number for both directions, or one for each."""
    if isinstance(value, int):
        return value, value
    return int(value[0]), int(value[1])
