"""Records of deployments, in the schema of a public registry.

The registry of OpenDP and NIST (``opendp/deployments-registry-data`` on GitHub) lists
what is published under differential privacy, in one YAML file per deployment. A record
says what a guarantee, a noise or a loop knows of itself. Who publishes what, where, since
when and to what end is known to the curator alone, and is passed.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import date as Date, datetime as DateTime
from typing import Any, ParamSpec, Protocol, TypedDict, TypeVar

from ..numerics.arguments import helpful_arguments
from ..numerics.checks import instance_of, sequence_of

P = ParamSpec("P")
Answer = TypeVar("Answer")

#: Whose data changes hands, for noise that is added at a plant.
_TRUST = (
    "The device at the plant reads the measurements as they are and adds the noise. "
    "Whoever receives the published values is not trusted, and may know the plant, the "
    "law of the noise and the guarantee."
)
_STREAM = "One value per sample. The parameters are those of the whole run"


class Promise(Protocol):
    """What a record asks of a guarantee."""

    @property
    def scope(self) -> Any: ...

    @property
    def releases(self) -> int: ...

    @property
    def quoted_delta(self) -> float: ...

    @property
    def zcdp(self) -> float: ...

    @property
    def sentence(self) -> str: ...

    def epsilon(self, delta: float) -> float: ...

    def _labels(self) -> dict[str, str]: ...


class Curator(TypedDict, total=False):
    """What only the curator knows of a deployment."""

    name: str
    curators: Sequence[str]
    use: str
    region: str
    date: Date | str


def curated(function: Callable[P, Answer]) -> Callable[P, Answer]:
    """Decorate a method that takes what the curator knows, packed."""
    return helpful_arguments(function, {"Unpack[Curator]": Curator})


class Record(dict[str, Any]):
    """A record of a deployment, whose text is YAML.

    The fields that nobody filled in are empty, so that the registry refuses them. There
    ``data_product_type`` is a dataset: the schema has no stream of measurements.
    """

    def __str__(self) -> str:
        return "\n".join(_lines(self)) + "\n"


def record(
    guarantee: Promise,
    known: Mapping[str, Mapping[str, object]] | None = None,
    *,
    name: str = "",
    curators: Sequence[str] = (),
    use: str = "",
    region: str = "",
    date: Date | str = "",
) -> Record:
    """Return the record of a guarantee, with what else is ``known`` by section."""
    people = sequence_of(curators, "curators", "names")
    for words in people:
        instance_of(words, str, "curators", "['A. Smith']")
    for argument, words in (("name", name), ("use", use), ("region", region)):
        instance_of(words, str, argument, f"{argument}='...'")
    basic: dict[str, object] = {
        "name": name,
        "data_curators": people,
        "description": guarantee.sentence,
        "intended_use": use,
        "data_product_type": "Dataset",
        "data_product_region": region,
        "publication_date": "" if date == "" else day_of(date),
    }
    deployment: dict[str, dict[str, object]] = {"basic": basic}
    deployment.update(_promised(guarantee))
    for section, fields in (known or {}).items():
        deployment.setdefault(section, {}).update(fields)
    deployment["administrative"] = {"registry_authors": people.copy()}
    slug = re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")
    return Record(url_slug=slug, status="Draft", tier=3, deployment=deployment)


def day_of(date: Date | str) -> str:
    """Return a day as "2026-12-31"."""
    if isinstance(date, DateTime):
        return date.date().isoformat()
    if not isinstance(date, Date | str):
        raise TypeError(
            f"date: expected a datetime.date or text such as '2026-12-31', got a "
            f"{type(date).__name__}"
        )
    try:
        day = Date.fromisoformat(date) if isinstance(date, str) else date
    except ValueError as error:
        raise ValueError(
            f"date: expected a day such as '2026-12-31', got {date!r}"
        ) from error
    return day.isoformat()


def of_run(guarantee: Promise, noise: str) -> dict[str, dict[str, object]]:
    """Return what is known where noise, named in words, is added at a plant."""
    labels = guarantee._labels()
    return {
        "deployment_model": {
            "model_name": "Central",
            "model_name_details": _TRUST,
            "release_type": "Many releases",
            "release_type_details": f"{_STREAM}: {labels['Horizon']}.",
            "data_source_type": "Dynamic",
            "access_type": "Non-interactive",
        },
        "implementation": {
            "mechanisms": f"Additive noise of privcontrol: {noise}. Released: "
            f"{labels['Released']}.",
            "justification": f"Assumes: {labels['Assumes']}.",
        },
    }


def _promised(guarantee: Promise) -> dict[str, dict[str, object]]:
    scope = guarantee.scope
    labels = guarantee._labels()
    delta = guarantee.quoted_delta
    numbers = {
        "epsilon": guarantee.epsilon(delta),
        "delta": delta,
        "rho": guarantee.zcdp,
    }
    parameters = {name: size for name, size in numbers.items() if math.isfinite(size)}
    composition = labels.get("Repetition", f"releases: {guarantee.releases}")
    return {
        "dp_variant": {
            "variant_name": "Approximate DP" if delta > 0 else "Pure DP",
            "data_domain": scope.domain,
            "unprotected_quantities": labels["Not hidden"],
        },
        "privacy_loss": {
            "privacy_unit": scope.statement,
            "privacy_unit_details": scope.adjacency,
            "privacy_parameters": parameters,
            "privacy_parameters_details": f"{labels['Budget']}; {labels['Accounts']}",
        },
        "accounting": {"composition": composition},
        "implementation": {"justification": f"Assumes: {labels['Assumes']}."},
    }


# -- YAML ----------------------------------------------------------------------------


def _lines(value: Mapping[str, Any], indent: str = "") -> Iterator[str]:
    """Write YAML: mappings and lists as blocks, everything else as JSON, which YAML reads."""
    for name, part in value.items():
        if isinstance(part, Mapping):
            yield f"{indent}{name}:"
            yield from _lines(part, indent + "  ")
        elif isinstance(part, list) and part:
            yield f"{indent}{name}:"
            yield from (f"{indent}  - {_scalar(one)}" for one in part)
        else:
            yield f"{indent}{name}: {_scalar(part)}"


def _scalar(value: object) -> str:
    """Write a number so that YAML 1.1 reads a number: 1.0e-05, not 1e-05."""
    text = json.dumps(value, ensure_ascii=False)
    if isinstance(value, float):
        return re.sub(r"^(-?\d+)e", r"\1.0e", text)
    return text
