"""Describe output noise as plain data for a design file and a gateway's file."""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from typing import Any

import control as ct

from ..core.adjacency import Adjacency
from ..systems.plant import Plant
from .summed import SummedNoise

KIND = "output noise"


def noise_to_dict(noise: SummedNoise) -> dict[str, Any]:
    """Everything that draws the noise, what it promises, and what was asked for."""
    data = {"plant": to_data(noise.plant_data)}
    for name in ("horizon", "family", "parts", "request"):
        data[name] = to_data(getattr(noise, name))
    data["guarantee"] = noise.guarantee.to_dict()
    return data


def to_data(value: Any) -> Any:
    """Objects as dictionaries of their fields, with their class in lower case as kind.

    A field ``plant`` is left out: it is that of the noise, or cannot be written.
    """
    if isinstance(value, (list, tuple)):
        return [to_data(part) for part in value]
    if isinstance(value, Adjacency):
        return value.to_data()
    if isinstance(value, ct.StateSpace):
        value = Plant.of(value)
    if not is_dataclass(value):
        return value
    data: dict[str, Any] = {"kind": type(value).__name__.lower()}
    for field in fields(value):
        if field.name != "plant" and field.init:
            data[field.name] = to_data(getattr(value, field.name))
    if isinstance(value, Plant):
        data["fingerprint"] = value.fingerprint
    return data
