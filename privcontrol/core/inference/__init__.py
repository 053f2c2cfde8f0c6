"""Privacy of any model's inputs, by the paper "Inference Privacy" (IP)."""

from .clipped import ClippedNetwork
from .perturbation import (
    InputPerturbation,
    OutputPerturbation,
)

__all__ = [
    "ClippedNetwork",
    "InputPerturbation",
    "OutputPerturbation",
]
