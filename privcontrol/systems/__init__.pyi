from .composed import with_delays as with_delays, with_local_loop as with_local_loop
from .gain import system_gain as system_gain
from .linear import Plant as Plant
from .nonlinear import sample_nonlinear as sample_nonlinear
from .varying import along as along
