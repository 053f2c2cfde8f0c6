"""Design the noise of a plant's outputs, certify it, and look at it as an eavesdropper."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
