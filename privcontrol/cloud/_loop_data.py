"""What a design file holds of a private loop."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from ..channel._noise_data import noise_to_dict, to_data

KIND = "private loop"


def loop_to_dict(loop: Any) -> dict:
    """The plant, controller, noise, weights and names of a loop.

    Of gains that vary only what they are designed for is written.
    """
    data = _values(loop)
    del data["truth"]  # nonlinear loops are not written
    data["plant"] = to_data(loop.plant)
    if loop.noise is not None:
        data["noise"] = noise_to_dict(loop.noise)
    data["weights"] = _values(loop.weights)
    data["law"] = None
    if not loop.law.varies:
        data["law"] = {"type": type(loop.law).__name__, **_values(loop.law)}
    if loop.design is not None:
        data["design"] = _values(loop.design)
    data["history"] = [list(step) for step in loop.history]
    return data


def _values(record: Any) -> dict:
    return {field.name: getattr(record, field.name) for field in fields(record)}
