"""privcontrol: privacy-aware feedback design on python-control."""

import lazy_loader

from . import core as core
from .numerics.names import suggesting

__version__ = "0.2.0"

_find, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
_ROOMS = ["privcontrol.core", "privcontrol.consensus", "privcontrol.plants"]
__getattr__ = suggesting(_find, __name__, __all__, _ROOMS)
