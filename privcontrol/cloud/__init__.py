"""Private feedback through a cloud: observer and LQG loops whose published signals are differentially private."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach(
    __name__,
    submod_attrs={
        "assembly": ["private_loop"],
        "growth": ["HorizonGrowth", "horizon_growth"],
        "loop": ["PrivateLoop"],
        "lqg": ["private_lqg"],
        "moments": ["LoopCost"],
        "sweep": ["Tradeoff", "tradeoff"],
    },
)
