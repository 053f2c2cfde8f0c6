"""Private loops from a design file, with their noise certified anew."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..channel._noise_files import certified_noise, from_data
from .checks import Weights
from .controller import Controller, ObserverFeedback
from .loop import PrivateLoop
from .regulator import LqgDesign

_LAWS = {kind.__name__: kind for kind in (Controller, ObserverFeedback)}


def certified_loop(data: dict) -> PrivateLoop:
    """The loop of a file, if what its noise claims holds when it is evaluated anew."""
    options = {name: _restored(value) for name, value in data.items()}
    options["weights"] = Weights(**options["weights"])
    options["plant"] = from_data(data["plant"])
    if data["noise"] is not None:
        options["noise"] = certified_noise(data["noise"])
    if options["design"] is not None:
        options["design"] = LqgDesign(**options["design"])
    law = options["law"]
    if law is not None:
        options["law"] = _LAWS[law.pop("type")](**law)
        return PrivateLoop(**options)
    driven = list(options["controls"])
    options["law"] = options["design"].law(
        options["plant"], driven, options["weights"], options["noise"]
    )
    return PrivateLoop(**options)


def _restored(value: Any) -> Any:
    """Arrays read-only, and sequences as tuples, as loops hold them."""
    if isinstance(value, np.ndarray):
        value.flags.writeable = False
        return value
    if isinstance(value, list):
        return tuple(_restored(part) for part in value)
    if isinstance(value, dict):
        return {name: _restored(part) for name, part in value.items()}
    return value
