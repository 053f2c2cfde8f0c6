"""Privacy of any model's inputs, by the paper "Inference Privacy" (IP)."""

from privcontrol.core.inference.clipped import ClippedNetwork
from privcontrol.core.inference.on_manifold import ManifoldPerturbation
from privcontrol.core.inference.perturbation import (
    InputPerturbation,
    OutputPerturbation,
)

__all__ = [
    "ClippedNetwork",
    "InputPerturbation",
    "ManifoldPerturbation",
    "OutputPerturbation",
]
