"""The one gate through which data leave: output noise, its design, and its python-control systems."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
