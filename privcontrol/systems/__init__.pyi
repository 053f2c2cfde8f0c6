from .composed import with_delays as with_delays, with_local_loop as with_local_loop
from .linear import Plant as Plant
from .nonlinear import sample_nonlinear as sample_nonlinear
from .powers import system_gain as system_gain
from .varying import along as along
