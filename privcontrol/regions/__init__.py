"""Plants that are not the model: boxes, polytopes and identified plants."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
