from .command import (
    Relay as Relay,
    main as main,
)
from .files import load as load
from .gateway import Gateway as Gateway
from .mqtt import Topic as Topic
