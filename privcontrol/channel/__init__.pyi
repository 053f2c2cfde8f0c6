from ._eavesdropper import (
    Eavesdropper as Eavesdropper,
    eavesdropper as eavesdropper,
)
from .boxes import PlantBox as PlantBox
from .design import design_output_noise as design_output_noise
from .gateway import Gateway as Gateway
from .identified import (
    IdentifiedPlant as IdentifiedPlant,
    identify_outputs as identify_outputs,
    identify_states as identify_states,
)
from .iosystem import (
    create_channel_iosystem as create_channel_iosystem,
    create_noise_iosystem as create_noise_iosystem,
)
from .jacobian import (
    JacobianPolytope as JacobianPolytope,
    jacobian_polytope as jacobian_polytope,
)
from .output_noise import OutputNoise as OutputNoise
from .polytope import PlantPolytope as PlantPolytope
from .windows import (
    design_windows as design_windows,
    windows_guarantee as windows_guarantee,
)
