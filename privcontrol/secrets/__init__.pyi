from .disturbance import DisturbanceAdjacency as DisturbanceAdjacency
from .joint import JointAdjacency as JointAdjacency
from .secret import Secret as Secret
from .states import (
    InitialStateAdjacency as InitialStateAdjacency,
    StateAdjacency as StateAdjacency,
)
from .trajectory import (
    observability_stack as observability_stack,
    output_query as output_query,
    trajectory_manifold as trajectory_manifold,
)
