"""privcontrol: privacy-aware feedback design on python-control."""

import lazy_loader

from . import core as core

__version__ = "0.1.0"

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
