"""privcontrol: privacy-aware feedback design on python-control."""

import lazy_loader

from . import core

__version__ = "0.1.0"

_PUBLIC = {
    "core": list(core.__all__),
    "trajectory": [
        "DisturbanceAdjacency",
        "InitialStateAdjacency",
        "StateAdjacency",
        "observability_stack",
        "output_query",
        "system_gain",
        "trajectory_manifold",
    ],
    "channel": [
        "PlantBox",
        "Eavesdropper",
        "eavesdropper",
        "OutputNoise",
        "create_channel_iosystem",
        "create_noise_iosystem",
        "design_output_noise",
        "design_windows",
        "windows_guarantee",
    ],
    "response": ["PrivateResponse"],
    "cloud": [
        "HorizonGrowth",
        "LoopCost",
        "PrivateLoop",
        "Tradeoff",
        "horizon_growth",
        "private_loop",
        "private_lqg",
        "tradeoff",
    ],
    "consensus": [
        "ConsensusResponse",
        "NodeAdjacency",
        "PrivateConsensus",
        "optimal_consensus_epsilon",
        "optimal_consensus_error",
        "optimal_consensus_scales",
        "private_consensus",
    ],
}

__getattr__, __dir__, __all__ = lazy_loader.attach(
    __name__, submodules=["consensus", "plants"], submod_attrs=_PUBLIC
)
