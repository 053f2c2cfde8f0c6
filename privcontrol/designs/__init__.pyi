from ._eavesdropper import Eavesdropper as Eavesdropper, eavesdropper as eavesdropper
from .design import (
    design_output_noise as design_output_noise,
    design_windows as design_windows,
    windows_guarantee as windows_guarantee,
)
from .output_noise import OutputNoise as OutputNoise
