from .assembly import (
    private_feedback as private_feedback,
    private_loop as private_loop,
    private_lqg as private_lqg,
)
from .growth import HorizonGrowth as HorizonGrowth, horizon_growth as horizon_growth
from .loop import PrivateLoop as PrivateLoop
from .moments import LoopCost as LoopCost
from .sweep import Tradeoff as Tradeoff, tradeoff as tradeoff
