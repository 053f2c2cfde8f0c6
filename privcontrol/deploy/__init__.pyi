from .command import (
    Relay as Relay,
    Topic as Topic,
    main as main,
)
from .files import load as load
from .gateway import Gateway as Gateway
