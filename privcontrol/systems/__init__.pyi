from .delays import with_delays as with_delays
from .gain import system_gain as system_gain
from .local_loop import with_local_loop as with_local_loop
from .nonlinear import sample_nonlinear as sample_nonlinear
from .plant import Plant as Plant
