"""Private average consensus on networks, from ten agents to a million, and the algorithms to compare it with."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach(
    __name__,
    submod_attrs={
        "adjacency": ["NodeAdjacency"],
        "moments": ["MeanSquareErrorEstimate"],
        "design": ["private_consensus"],
        "private": ["PrivateConsensus"],
        "simulation": ["ConsensusResponse"],
        "weights": ["Network", "read_network"],
    },
)
