"""Records of deployments, and the schema of a guarantee, by validators of their own."""

import copy
import datetime
import json
from importlib.resources import files

import cases
import jsonschema
import numpy as np
import pytest
import yaml

import privcontrol as pc
from privcontrol.core import DirectionAdjacency, PrivacyGuarantee
from privcontrol.privacy.record import Record

SCHEMA = json.loads(
    (files("privcontrol.privacy") / "guarantee.schema.json").read_text()
)
VALIDATOR = jsonschema.Draft202012Validator(SCHEMA)

#: The fields of the registry, by section, and those that it demands.
FIELDS = {
    "basic": "name data_curators description intended_use data_product_type "
    "data_product_region publication_date data_product_sector",
    "dp_variant": "variant_name data_domain unprotected_quantities",
    "privacy_loss": "privacy_unit privacy_unit_details privacy_parameters "
    "privacy_parameters_details",
    "deployment_model": "model_name model_name_details actors release_type "
    "release_type_details data_source_type data_source_type_details access_type "
    "access_type_details",
    "accounting": "post_processing composition",
    "implementation": "preprocessing_and_hyperparameter_tuning mechanisms justification",
    "administrative": "sources notes registry_authors",
}
NAMED = {
    "data_product_type": "Dataset",
    "variant_name": "Approximate DP|Pure DP",
    "model_name": "Central",
    "release_type": "Many releases",
    "data_source_type": "Dynamic",
    "access_type": "Non-interactive",
}
CURATOR = {
    "name": "People in an office",
    "curators": ["The owner: of the building"],
    "use": "Control of the heating, by a supplier called 'Warm \"& Cosy\"'",
    "region": "Zürich",
    "date": datetime.date(2026, 12, 1),
}


def registry():
    """The registry's schema (July 2026): which fields, of which type, with which names."""
    sections = {}
    for section, names in FIELDS.items():
        fields = {}
        for name in names.split():
            fields[name] = {"type": "string"}
            if name in NAMED:
                fields[name] = {"enum": NAMED[name].split("|")}
        sections[section] = fields
    authors = {"type": "array", "items": {"type": "string"}, "minItems": 1}
    sections["basic"]["data_curators"] = authors
    sections["administrative"]["registry_authors"] = authors
    sections["basic"]["publication_date"] = {"type": "string", "format": "date"}
    numbers = {name: {"type": "number"} for name in ("epsilon", "delta", "rho")}
    sections["privacy_loss"]["privacy_parameters"] = closed(numbers)
    deployment = {name: closed(fields) for name, fields in sections.items()}
    whole = {
        "url_slug": {"type": "string"},
        "status": {"const": "Draft"},
        "tier": {"enum": [1, 2, 3]},
        "deployment": closed(deployment),
    }
    basic = deployment["basic"]
    basic["required"] = FIELDS["basic"].split()[:-1]
    return closed(whole) | {"required": list(whole)}


def closed(fields):
    return {"type": "object", "additionalProperties": False, "properties": fields}


REGISTRY = jsonschema.Draft7Validator(
    registry(), format_checker=jsonschema.Draft7Validator.FORMAT_CHECKER
)


def guarantees():
    noise = cases.vehicle_noise()
    plant = cases.random_plant(0)
    white = pc.design_output_noise(
        plant,
        horizon=5,
        budget=pc.PrivacyBudget(epsilon=1.0),
        adjacency=pc.DisturbanceAdjacency(1.0),
        family="iid-laplace",
        max_std=np.inf,
    )
    line = DirectionAdjacency([[1.0]])
    foreign = PrivacyGuarantee.black_box(cases.BUDGET, line)
    return {
        "a state": noise.guarantee,
        "a disturbance": white.guarantee,
        "elsewhere": foreign,
        "twice": foreign + foreign,
    }


GUARANTEES = guarantees()


@pytest.mark.parametrize("name", GUARANTEES)
def test_a_record_passes_the_registry_once_its_curator_is_known(name):
    guarantee = GUARANTEES[name]
    record = guarantee.record(**CURATOR)
    assert list(REGISTRY.iter_errors(record)) == []
    numbers = record["deployment"]["privacy_loss"]["privacy_parameters"]
    delta = guarantee.quoted_delta
    assert numbers["epsilon"] == guarantee.epsilon(delta)
    assert numbers["delta"] == delta
    assert numbers.get("rho", np.inf) == guarantee.zcdp


def test_the_record_of_a_loop_says_what_its_noise_says_and_more():
    loop = cases.vehicle_loop(cases.vehicle_noise())
    noise = loop.noise.record(**CURATOR)
    record = loop.record(**CURATOR)
    assert list(REGISTRY.iter_errors(record)) == []
    assert list(REGISTRY.iter_errors(noise)) == []
    after = record["deployment"]["accounting"].pop("post_processing")
    assert "published outputs" in after
    assert record == noise
    assert repr(loop.noise) in noise["deployment"]["implementation"]["mechanisms"]
    for caveat in loop.guarantee.scope.caveats:
        assert caveat in noise["deployment"]["dp_variant"]["unprotected_quantities"]
    with pytest.raises(ValueError, match="without noise"):
        cases.vehicle_loop(None).record()


def test_what_nobody_filled_in_is_refused():
    empty = GUARANTEES["a state"].record()
    fields = {error.path[-1] for error in REGISTRY.iter_errors(empty)}
    assert fields == {"data_curators", "publication_date", "registry_authors"}
    with pytest.raises(TypeError, match="sequence of names, got str"):
        GUARANTEES["a state"].record(curators="me")


def test_the_date_of_a_record_is_a_day():
    guarantee = GUARANTEES["a state"]
    day = datetime.date(2026, 12, 31)
    noon = datetime.datetime(2026, 12, 31, 12, tzinfo=datetime.UTC)
    for date in (day, noon, "2026-12-31", "20261231"):
        assert (
            guarantee.record(date=date)["deployment"]["basic"]["publication_date"]
            == "2026-12-31"
        )
    with pytest.raises(ValueError, match="a day such as '2026-12-31', got 'soon'"):
        guarantee.record(date="soon")
    with pytest.raises(TypeError, match="got a int"):
        guarantee.record(date=2026)


@pytest.mark.parametrize("tiny", [1e-05, 1e-300, 5e-324, 0.0, 1e22, 0.07])
def test_the_text_of_a_record_is_yaml(tiny):
    """YAML 1.1 reads 1e-05 as a text."""
    record = GUARANTEES["a state"].record(**CURATOR)
    record["deployment"]["privacy_loss"]["privacy_parameters"]["delta"] = tiny
    assert yaml.safe_load(str(record)) == record
    assert yaml.safe_load(str(Record(one={"two": ["- a: b", "#", ""], "three": []})))


@pytest.mark.parametrize("name", GUARANTEES)
def test_a_guarantee_keeps_its_schema(name):
    data = GUARANTEES[name].to_dict()
    assert list(VALIDATOR.iter_errors(json.loads(json.dumps(data)))) == []
    assert set(SCHEMA["properties"]) == {*data, "worst"}


def test_guarantees_of_every_kind_keep_their_schema():
    """Runs of any length, repeated and of any shape."""
    room = pc.DisturbanceAdjacency(1.0, duration=3, shape="level")
    noise = pc.design_output_noise(
        cases.random_plant(1),
        horizon=8,
        budget=cases.BUDGET,
        adjacency=room,
        max_std=np.inf,
    )
    for guarantee in (
        noise.guarantee,
        noise.guarantee.released(3),
        noise.guarantee.repeated(2, separation=4),
        noise.guarantee.any_shape(),
    ):
        assert list(VALIDATOR.iter_errors(guarantee.to_dict())) == []


@pytest.mark.parametrize(
    "path, value",
    [
        (["kind"], "promise"),
        (["releases"], 0),
        (["quoted_delta"], 0.01),
        (["loss", "attained"], "yes"),
        (["loss", "kinds"], ["Cauchy"]),
        (["loss", "rows", 0, "square"], "-1"),
        (["scope", "horizon"], "long"),
        (["scope", "note"], "more"),
    ],
)
def test_the_schema_refuses_what_no_guarantee_says(path, value):
    data = copy.deepcopy(GUARANTEES["a state"].to_dict())
    place = data
    for name in path[:-1]:
        place = place[name]
    place[path[-1]] = value
    assert not VALIDATOR.is_valid(data)


def test_the_schema_is_one():
    jsonschema.Draft202012Validator.check_schema(SCHEMA)
    assert SCHEMA["$id"].endswith(":1")
