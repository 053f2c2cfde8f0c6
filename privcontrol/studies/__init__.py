"""Studies over many designs and loops: the cost of privacy, and its growth."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
