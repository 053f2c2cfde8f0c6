"""Wrong arguments of every public callable end in an error that the library raises."""

import inspect
from dataclasses import replace

import control as ct
import numpy as np
import pytest
from fuzz.doors import AREAS, HARMLESS
from fuzz.fuzzer import EVERY, fuzz, raised_here
from fuzz.inspected import inspected_doors, public_names

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


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_doors_are_open():
    for door in doors():
        door()


@pytest.mark.filterwarnings("ignore")
def test_inspection_finds_every_public_name():
    names = {door.name.partition(".")[0] for door in inspected_doors()}
    errors = {
        name
        for name, thing in public_names().items()
        if inspect.isclass(thing) and issubclass(thing, BaseException)
    }
    assert set(public_names()) - errors <= names


HUGE = 10**5000
PLANT = pc.plants.vehicle()
WIDE = {"A": (0.8, 1.0), "B": (0.1, 0.1), "C": (1.0, 1.0), "D": (0.0, 0.0)}


def designed(**changes):
    asked = {
        "horizon": 3,
        "budget": pc.PrivacyBudget(gdp=1.0),
        "adjacency": pc.StateAdjacency({"position": 1.0}, times=0),
    }
    return pc.design_output_noise(PLANT, **{**asked, **changes})


def bounded(**ends):
    rates = ct.nlsys(
        lambda t, x, u, params: [0.9 * x[0] + u[0]],
        None,
        states=["a"],
        inputs=["u"],
        outputs=["a"],
        dt=1.0,
    )
    region = {"a": (0.0, 1.0), "u": (0.0, 1.0)}
    return pc.jacobian_polytope(rates, region, bounds=WIDE | ends)


#: Calls of each class of raw errors that fuzzing found, and what is said now.
FOUND = {
    "digits of an option": (lambda: designed(family=HUGE), "got a huge int"),
    "digits of an index": (lambda: designed().covariance(HUGE), "got a huge int"),
    "digits of a label": (lambda: designed().plot(time_unit=HUGE), "text such as"),
    "digits of a unit": (
        lambda: pc.horizon_growth(
            PLANT, pc.StateAdjacency({"position": 1.0}), [2, 4]
        ).plot(time_unit=HUGE),
        "time_unit: expected text",
    ),
    "shapes that do not broadcast": (
        lambda: core.kappa(np.ones((2, 2)), np.ones((3, 3))),
        "arrays that broadcast, got shapes (2, 2) and (3, 3)",
    ),
    "counts that are an array": (
        lambda: pc.InputPerturbation(np.tanh, pc.PrivacyBudget(gdp=1.0), radius=1.0)(
            [1.0], 0, counts=np.ones(3)
        ),
        "counts: expected a bool",
    ),
    "a family that is an array": (
        lambda: designed(family=np.array([None, 1.0])),
        "family: expected one of",
    ),
    "a law of inputs that is an array": (
        lambda: pc.InputPerturbation(
            np.tanh, pc.PrivacyBudget(gdp=1.0), radius=1.0, family=np.ones(3)
        )([0.0], 0),
        "family: expected one of",
    ),
    "sizes that do not broadcast": (
        lambda: core.laplace_scale(np.ones((0, 3)), np.ones(0)),
        "arrays that broadcast, got shapes (0,) and (0, 3)",
    ),
    "ragged rows of a weight": (
        lambda: pc.private_lqg(PLANT, [[1.0, [2.0]]], 1, 1, 1),
        "Q: expected a rectangular array",
    ),
    "a weight that is an array without a shape": (
        lambda: pc.private_lqg(PLANT, np.array({}), 1, 1, 1),
        "Q: expected",
    ),
    "a run longer than the lists of weights": (
        lambda: pc.private_lqg(
            ct.ss(0.9, 1, 1, 0, True), np.ones((2, 1, 1)), 1, 1, 1, horizon=2
        ).cost(np.arange(5)),
        "lists of 2, one for each sample",
    ),
    "a bound made by hand": (
        lambda: replace(designed(), kept=np.ones(3)),
        "kept: expected a Bound",
    ),
    "a bound that is an array": (
        lambda: core.BallNoise(np.eye(2), rate=1.0, bound=np.ones(3)),
        "bound: expected a real number",
    ),
    "a price that leaves double precision": (
        lambda: pc.private_lqg(PLANT, 1e308, 1, 1, 1),
        "no stabilising feedback gain",
    ),
    "ragged weights": (
        lambda: designed(weight=[[1.0, [2.0]]]),
        "weight: expected a rec",
    ),
    "bounds that are no pair": (
        lambda: bounded(A=1.0),
        "bounds A: expected a sequence",
    ),
    "bounds with three ends": (lambda: bounded(A=(0, 1, 2)), "got 3 entries"),
    "a result made by hand": (
        lambda: consensus.ConsensusResponse(squared_errors="abc"),
        "squared_errors: expected a dict",
    ),
    "noise made by hand": (
        lambda: replace(designed(), parts=({"A": 1.0},)),
        "parts: expected a NoisePart",
    ),
    "a loop of no parts": (
        lambda: replace(pc.private_lqg(PLANT, 1, 1, 1, 1), data=""),
        "data: expected a LoopData",
    ),
    "a loop made by hand": (
        lambda: replace(pc.private_lqg(PLANT, 1, 1, 1, 1).data, noise=""),
        "noise: expected an OutputNoise",
    ),
    "no table": (
        lambda: pc.Gateway(designed(), grid=0.1).publish_frame(set()),
        "frame: expected a pandas.DataFrame",
    ),
    "digits of an entry's label": (
        lambda: pc.AffineManifold([[1.0, -1.0]], labels=["a", HUGE]),
        "labels: expected names, got a huge int",
    ),
    "a floor that leaves double precision": (
        lambda: designed(floor=1e308),
        "floor: expected sizes up to",
    ),
    "a gap below rounding": (lambda: designed(gap=5e-324), "gap: expected at least"),
    "a class as a controller": (
        lambda: pc.private_lqg(PLANT, 1, 1, 1, 1, designed()).simulate(
            controller=int, rng=0
        ),
        "controller: expected a function",
    ),
    "a family of noise that is an array": (
        lambda: replace(designed(), family=np.eye(3)),
        "family: expected a str",
    ),
    "a promise that is an array": (
        lambda: replace(designed(), _promised=(np.zeros(0), None)),
        "promised: expected none",
    ),
    "a misspelt argument of what takes a list of plants": (
        lambda: pc.with_local_loop([PLANT], no_such_keyword=1),
        "known are sys, controller",
    ),
    "an array for a co-design": (
        lambda: pc.private_lqg(PLANT, 1, 1, 1, 1, designed(), codesign=np.ones(3)),
        "codesign: expected a bool",
    ),
    "a probability of which parts underflow": (
        lambda: pc.private_lqg(PLANT, 1, 1, 1, 1, designed(), P0=1.0).margins(
            np.ones(PLANT.nstates), probability=5e-324
        ),
        "probability: expected a number from 1e-100",
    ),
    "an epsilon that leaves double precision": (
        lambda: core.truncated_radius(5e-324, 1e-2, 1),
        "epsilon: expected 0, or",
    ),
    "weights that leave double precision": (
        lambda: pc.design_output_noise(
            ct.ss(0.5, 1.0, 1.0, 0, 1.0),
            horizon=np.inf,
            budget=pc.PrivacyBudget(gdp=1.0),
            adjacency=pc.DisturbanceAdjacency(1.0),
            weight=[1e308],
        ),
        "leave double precision together",
    ),
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("case", FOUND)
def test_what_fuzzing_found_meets_an_error_of_the_library(case):
    call, said = FOUND[case]
    with pytest.raises(Exception) as caught:  # noqa: PT011 - its origin and words follow
        call()
    assert raised_here(caught.value), caught.value
    assert said in str(caught.value)


@pytest.mark.slow
@pytest.mark.parametrize("area", EVERY)
def test_wrong_arguments_meet_an_error_of_the_library(area):
    findings = fuzz(400, seed=1, areas=(area,))
    assert not findings, "\n".join(map(str, findings))
