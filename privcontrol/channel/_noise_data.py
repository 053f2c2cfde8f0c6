"""Describe output noise as plain data for a design file and a gateway's file."""

from dataclasses import fields
from typing import Any

from ..trajectory.plant import Plant
from ._lti import LinearSystem
from .boxes import PlantBox
from .jacobian import JacobianPolytope, Region
from .parts import NoisePart
from .polytope import PlantPolytope

KIND = "output noise"


def noise_to_dict(noise: Any) -> dict:
    """Everything that draws the noise, what it promises, and what was asked for."""
    return {
        "plant": plant_to_dict(noise.plant),
        "horizon": noise.horizon,
        "family": noise.family,
        "parts": [_part_to_dict(part) for part in noise.parts],
        "guarantee": noise.guarantee.to_dict(),
        "request": None if noise.request is None else _request_to_dict(noise.request),
    }


def plant_to_dict(plant: Plant) -> dict:
    """A plant with its names and its fingerprint."""
    data: dict[str, Any] = {name: getattr(plant, name) for name in "ABCD"}
    for name in ("states", "inputs", "outputs"):
        data[name] = list(getattr(plant, name))
    data["dt"] = plant.dt
    data["name"] = plant.name
    data["fingerprint"] = plant.fingerprint
    return data


def _part_to_dict(part: NoisePart) -> dict:
    data: dict[str, Any] = {"kind": type(part).__name__.lower()}
    for field in fields(part):  # type: ignore[arg-type]
        value = getattr(part, field.name)
        if isinstance(value, LinearSystem):
            value = {name: getattr(value, name) for name in "ABCD"}
        if field.name != "plant":
            data[field.name] = value
    return data


def _request_to_dict(request: Any) -> dict:
    others = ("budget", "adjacency", "models", "region")
    names = [field.name for field in fields(request) if field.name not in others]
    data = {name: getattr(request, name) for name in names}
    data["budget"] = request.budget.to_dict()
    data["adjacency"] = request.adjacency.to_dict()
    data["models"] = [plant_to_dict(model) for model in request.models]
    data["region"] = None if request.region is None else _region_to_dict(request.region)
    return data


def _region_to_dict(region: PlantBox | PlantPolytope) -> dict:
    """A box or a polytope of plants, with its fingerprint."""
    data: dict[str, Any] = {
        "kind": "polytope" if isinstance(region, PlantPolytope) else "box",
        "nominal": plant_to_dict(region.nominal),
        "assumptions": list(region.assumptions),
        "miss": region.miss,
        "fingerprint": region.fingerprint,
    }
    if isinstance(region, PlantBox):
        for name in "ABCD":
            data[name] = getattr(region, name)
        return data
    data["vertices"] = [plant_to_dict(plant) for plant in region.vertices]
    data["varying"] = region.varying
    if isinstance(region, JacobianPolytope):
        data["kind"] = "jacobians"
        where = {
            each.name: getattr(region.region, each.name) for each in fields(Region)
        }
        data["region"] = where
        for name in ("basis", "invariant", "parts", "max_vertices"):
            data[name] = getattr(region, name)
    return data
