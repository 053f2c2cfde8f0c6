from .assembly import (
    private_feedback as private_feedback,
    private_loop as private_loop,
    private_lqg as private_lqg,
)
from .loop import PrivateLoop as PrivateLoop
from .moments import LoopCost as LoopCost
