"""Lipschitz constants that a privacy claim may rest on.

Every number is certified from above, by ball arithmetic where floating point could err
towards too little noise.
"""

from privcontrol.core.lipschitz.along import lipschitz_along
from privcontrol.core.lipschitz.bound import LipschitzBound
from privcontrol.core.lipschitz.feedforward import feedforward_lipschitz
from privcontrol.core.lipschitz.layers import SLLConvolution, SLLLayer, SLLNetwork
from privcontrol.core.lipschitz.norms import induced_norm
from privcontrol.core.lipschitz.operators import Residual

__all__ = [
    "LipschitzBound",
    "Residual",
    "SLLConvolution",
    "SLLLayer",
    "SLLNetwork",
    "feedforward_lipschitz",
    "induced_norm",
    "lipschitz_along",
]
