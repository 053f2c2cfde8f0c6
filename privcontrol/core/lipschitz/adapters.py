"""Weights and slopes of fitted models, read by duck typing: neither scikit-learn nor torch is imported. A model,
layer or activation that is not known is refused, since a guess here would be a wrong sensitivity."""

import numpy as np

SLOPES = {
    "identity": (1.0, 1.0),
    "logistic": (0.0, 0.25),
    "tanh": (0.0, 1.0),
    "relu": (0.0, 1.0),
}
OUTPUTS = (
    "identity",
    "softmax",
    "logistic",
)  # none of them moves more than the logits do
LAYERS = {"ReLU": "relu", "Tanh": "tanh", "Sigmoid": "logistic", "Identity": "identity"}
KNOWN = "a list of (out, in) matrices, a fitted scikit-learn MLPClassifier or MLPRegressor, a torch Sequential"


def is_model(candidate):
    """Whether this is an object to be adapted, not a sequence of matrices."""
    return not isinstance(candidate, (list, tuple, np.ndarray))


def layers_of(model):
    """Weights as (out, in) arrays, and the slope interval of each hidden activation.

    Raises
    ------
    TypeError
        If the model, an activation or a layer is not known; the message lists the known ones.
    ValueError
        If a scikit-learn model is not fitted.
    """
    if hasattr(model, "hidden_layer_sizes") and hasattr(model, "activation"):
        return _scikit_learn(model)
    if _torch_name(model) in ("Sequential", "Linear"):
        return _torch(model)
    hint = ""
    if np.ndim(getattr(model, "coef_", None)) in (1, 2):
        coefficients = f"model.coef_{'[None]' if np.ndim(model.coef_) == 1 else ''}"
        hint = f"; if its scores are coef_ @ x + intercept_, their constant is induced_norm({coefficients}, p, q)"
    raise TypeError(f"weights: expected {KNOWN}; got {type(model).__name__}{hint}")


def _scikit_learn(model):
    if not hasattr(model, "coefs_"):
        raise ValueError(
            f"weights: expected a fitted {type(model).__name__}; call its fit method first"
        )
    for activation, known in (
        (model.activation, tuple(SLOPES)),
        (model.out_activation_, OUTPUTS),
    ):
        if activation not in known:
            raise TypeError(
                f"weights: expected an activation among {', '.join(known)}; got {activation!r}"
            )
    weights = [np.asarray(coefficients, float).T for coefficients in model.coefs_]
    return weights, [SLOPES[model.activation]] * (len(weights) - 1)


def _torch_name(module):
    """The class name of a module of torch.nn itself; None for anything else, subclasses included."""
    return (
        type(module).__name__
        if type(module).__module__.startswith("torch.nn.modules.")
        else None
    )


def _flat(module):
    """The modules of nested ``Sequential`` containers, in order; hooks could change what a module computes."""
    for hooks in ("_forward_pre_hooks", "_forward_hooks"):
        if getattr(module, hooks, None):
            raise TypeError(
                f"weights: expected torch layers without hooks, got {type(module).__name__} with {hooks}; remove them "
                "(a weight norm or spectral norm can be made permanent) and pass the model again"
            )
    return (
        [m for child in module for m in _flat(child)]
        if _torch_name(module) == "Sequential"
        else [module]
    )


def _torch(model):
    """One weight before, between and after activations: identities are put where no ``Linear`` stands."""
    weights, slopes = [], []
    pending = None  # slopes of the activations since the last Linear
    for module in _flat(model):
        name = _torch_name(module)
        if name == "Linear":
            weight = np.array(module.weight.detach().cpu().numpy(), float)
            if pending is not None and not weights:
                weights.append(np.eye(weight.shape[1]))
            if weights:
                slopes.append(pending or SLOPES["identity"])
            weights.append(weight)
            pending = None
        elif name in LAYERS:
            low, high = SLOPES[LAYERS[name]]
            pending = (
                (low, high)
                if pending is None
                else (low * pending[0], high * pending[1])
            )
        else:
            raise TypeError(
                f"weights: expected torch layers among Linear, {', '.join(LAYERS)}; got {name or type(module).__name__}"
            )
    if not weights:
        raise TypeError(
            "weights: expected a torch Sequential with at least one Linear layer, got none"
        )
    if pending is not None:
        slopes.append(pending)
        weights.append(np.eye(len(weights[-1])))
    return weights, slopes
