from .adjacency import (
    InitialStateAdjacency as InitialStateAdjacency,
    StateAdjacency as StateAdjacency,
)
from .delays import with_delays as with_delays
from .disturbance import (
    DisturbanceAdjacency as DisturbanceAdjacency,
    DisturbedManifold as DisturbedManifold,
    DisturbedQuery as DisturbedQuery,
    JointAdjacency as JointAdjacency,
)
from .gain import system_gain as system_gain
from .local_loop import with_local_loop as with_local_loop
from .manifold import (
    observability_stack as observability_stack,
    output_query as output_query,
    trajectory_manifold as trajectory_manifold,
)
from .nonlinear import sample_nonlinear as sample_nonlinear
from .plant import Plant as Plant
