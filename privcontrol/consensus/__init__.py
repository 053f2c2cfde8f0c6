"""Private average consensus on networks, from ten agents to a million."""

import lazy_loader

from ..numerics.names import suggesting

_find, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
__getattr__ = suggesting(_find, __name__, __all__, ["privcontrol"])
