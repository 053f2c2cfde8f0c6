from .boxes import PlantBox as PlantBox
from .identified import (
    IdentifiedPlant as IdentifiedPlant,
    identify_outputs as identify_outputs,
    identify_states as identify_states,
)
from .jacobian import (
    JacobianPolytope as JacobianPolytope,
    jacobian_polytope as jacobian_polytope,
)
from .polytope import PlantPolytope as PlantPolytope
