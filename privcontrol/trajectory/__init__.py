"""From a StateSpace and a horizon to manifold, observability stack, output query and state adjacency."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach(
    __name__,
    submod_attrs={
        "adjacency": ["InitialStateAdjacency", "StateAdjacency"],
        "disturbance": ["DisturbanceAdjacency", "JointAdjacency", "disturbed_query"],
        "gain": ["system_gain"],
        "manifold": ["observability_stack", "output_query", "trajectory_manifold"],
        "plant": ["Plant"],
    },
)
