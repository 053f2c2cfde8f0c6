from ._eavesdropper import Eavesdropper as Eavesdropper, eavesdropper as eavesdropper
from .design import design_output_noise as design_output_noise
from .output_noise import OutputNoise as OutputNoise
from .windows import (
    design_windows as design_windows,
    windows_guarantee as windows_guarantee,
)
