from ._eavesdropper import (
    ChangeEavesdropper as ChangeEavesdropper,
    Eavesdropper as Eavesdropper,
    eavesdropper as eavesdropper,
)
from .design import (
    design_output_noise as design_output_noise,
)
from .output_noise import OutputNoise as OutputNoise
