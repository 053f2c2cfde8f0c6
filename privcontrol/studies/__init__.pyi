from .comparing import (
    tradeoff as tradeoff,
)
from .growth import (
    HorizonGrowth as HorizonGrowth,
    horizon_growth as horizon_growth,
)
from .tradeoffs import (
    Tradeoff as Tradeoff,
)
from .ways import (
    Option as Option,
    Options as Options,
    options as options,
)
