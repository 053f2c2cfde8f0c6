"""Lipschitz constants that a privacy claim may rest on.

Every number is certified from above, by ball arithmetic where floating point could err
towards too little noise.
"""

from .feedforward import feedforward_lipschitz
from .layers import SLLConvolution, SLLLayer, SLLNetwork
from .norms import LipschitzBound, induced_norm

__all__ = [
    "LipschitzBound",
    "SLLConvolution",
    "SLLLayer",
    "SLLNetwork",
    "feedforward_lipschitz",
    "induced_norm",
]
