from .identified import (
    IdentifiedPlant as IdentifiedPlant,
    identify_outputs as identify_outputs,
    identify_states as identify_states,
)
from .jacobian import (
    JacobianPolytope as JacobianPolytope,
    jacobian_polytope as jacobian_polytope,
)
from .region import PlantBox as PlantBox, PlantPolytope as PlantPolytope
