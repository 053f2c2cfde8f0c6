"""Studies over many designs and loops: what privacy costs, and how it grows with the horizon."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
