"""The algorithms of the literature to compare private consensus with, on one interface."""

from .base import COMPARED_READOUTS, ConsensusAlgorithm
from .fresh import FreshNoise
from .huang import HuangMitraDullerud
from .kept import KeptNoise
from .mo import MoMurray
from .nozari import NozariTallapragadaCortes

__all__ = [
    "COMPARED_READOUTS",
    "ConsensusAlgorithm",
    "FreshNoise",
    "HuangMitraDullerud",
    "KeptNoise",
    "MoMurray",
    "NozariTallapragadaCortes",
]
