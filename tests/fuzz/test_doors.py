"""Wrong arguments of every public callable end in an error that the library raises."""

import inspect

import pytest
from fuzz.doors import AREAS, HARMLESS
from fuzz.fuzzer import fuzz

import privcontrol as pc
from privcontrol import consensus, core


def doors():
    return [door for area in AREAS.values() for door in area()]


def test_every_public_name_has_a_door():
    names = set(pc.__all__) | set(consensus.__all__) | set(core.__all__)
    called = {door.name.partition(".")[0] for door in doors()}
    functions = {
        name
        for name in names - HARMLESS
        if not inspect.ismodule(getattr(pc, name, None))
    }
    results = {  # made by the functions that return them, never by a user
        "ConsensusResponse",
        "Eavesdropper",
        "HorizonGrowth",
        "IdentifiedPlant",
        "JacobianPolytope",
        "MeanSquareErrorEstimate",
        "Network",
        "OutputNoise",
        "PrivateLoop",
        "PrivateResponse",
        "Tradeoff",
    }
    drawings = {"plot_error", "plot_network"}
    assert not functions - called - results - drawings


@pytest.mark.filterwarnings("ignore")
def test_doors_are_open():
    for door in doors():
        door()


@pytest.mark.parametrize("area", AREAS)
def test_wrong_arguments_meet_an_error_of_the_library(area):
    findings = fuzz(400, seed=1, areas=(area,))
    assert not findings, "\n".join(map(str, findings))
