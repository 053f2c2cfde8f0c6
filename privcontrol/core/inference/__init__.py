"""Privacy of any model's inputs, by the paper "Inference Privacy" (IP)."""

from .clipped import ClippedNetwork
from .on_manifold import ManifoldPerturbation, lipschitz_along
from .perturbation import (
    InputPerturbation,
    OutputPerturbation,
)

__all__ = [
    "ClippedNetwork",
    "InputPerturbation",
    "ManifoldPerturbation",
    "OutputPerturbation",
    "lipschitz_along",
]
