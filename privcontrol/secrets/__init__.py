"""State the secret: the trajectories, and the moves that neighbours differ by."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
