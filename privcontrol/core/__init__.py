"""General privacy mechanisms for linear queries on affine manifolds; useful without any control problem."""

import lazy_loader

from ..numerics.names import suggesting

_find, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
__getattr__ = suggesting(_find, __name__, __all__, ["privcontrol"])
