"""Private average consensus on networks, from ten agents to a million, and the algorithms to compare it with."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach(
    __name__,
    submod_attrs={
        "adjacency": ["NodeAdjacency"],
        "moments": ["MeanSquareErrorEstimate"],
        "comparators": [
            "ConsensusAlgorithm",
            "FreshNoise",
            "HuangMitraDullerud",
            "KeptNoise",
            "MoMurray",
            "NozariTallapragadaCortes",
        ],
        "design": ["private_consensus"],
        "private": ["PrivateConsensus"],
        "plots": ["plot_error", "plot_network", "plot_trajectories"],
        "simulation": ["ConsensusResponse"],
        "accuracy": [
            "optimal_consensus_epsilon",
            "optimal_consensus_error",
            "optimal_consensus_scales",
        ],
        "weights": ["Network", "read_network"],
    },
)
