"""General privacy mechanisms for linear queries on affine manifolds; useful without any control problem."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
