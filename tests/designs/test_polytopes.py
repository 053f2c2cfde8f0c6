"""Polytopes of plants: what they hold, what is inside, and what is refused."""

import pickle

import control as ct
import numpy as np
import pytest
from repeats import few

import privcontrol as pc

NAMES = dict(states=["air"], inputs=["people"], outputs=["temperature"])


def room(pole=0.9, gain=1.0, **changes):
    return ct.ss(pole, gain, 1.0, 0.0, 300.0, **{**NAMES, **changes})


def test_a_polytope_holds_its_vertices_and_their_mean():
    polytope = pc.PlantPolytope([room(0.8), room(0.9)])
    assert [float(plant.A[0, 0]) for plant in polytope.vertices] == [0.8, 0.9]
    assert polytope.nominal.A[0, 0] == pytest.approx(0.85)
    assert polytope.varying
    assert not polytope.assumptions
    assert repr(polytope) == "PlantPolytope(2 vertices, varying)"
    assert pickle.loads(pickle.dumps(polytope)) == polytope
    chosen = pc.PlantPolytope([room(0.8), room(0.9)], nominal=room(0.82))
    assert chosen.nominal.A[0, 0] == 0.82


@pytest.mark.parametrize("seed", few(range(5), of=2))
def test_a_plant_is_inside_exactly_if_weights_make_it(seed):
    rng = np.random.default_rng(seed)
    vertices = [
        ct.ss(*(rng.normal(size=(2, 2)) for _ in range(4)), True) for _ in range(4)
    ]
    polytope = pc.PlantPolytope(vertices)
    inside = polytope.at(rng.dirichlet(np.ones(4)))
    assert polytope.contains(inside)
    assert all(polytope.contains(plant) for plant in polytope.sampled(10, rng=seed))
    outside = ct.ss(inside.A + 1e-6, inside.B, inside.C, inside.D, True)
    assert not polytope.contains(outside)
    beyond = 1.01 * vertices[0].A - 0.01 * vertices[1].A
    assert not polytope.contains(ct.ss(beyond, *(vertices[0].B, inside.C, inside.D), 1))


def test_fingerprints_tell_polytopes_apart_and_forget_the_order():
    first = pc.PlantPolytope([room(0.8), room(0.9)])
    assert first.fingerprint == pc.PlantPolytope([room(0.9), room(0.8)]).fingerprint
    others = [
        pc.PlantPolytope([room(0.8), room(0.91)]),
        pc.PlantPolytope([room(0.8), room(0.9)], varying=False),
        pc.PlantPolytope([room(0.8), room(0.9)], assumptions=["closed door"]),
    ]
    assert first.fingerprint not in {other.fingerprint for other in others}


@pytest.mark.parametrize(
    "vertices, keywords, error, message",
    [
        ([], {}, ValueError, "expected at least one plant, got none"),
        (room(), {}, TypeError, "expected a list of StateSpace"),
        ([room(), room(states=["wall"])], {}, ValueError, "same names of states"),
        (
            [room(), ct.ss(np.eye(2), np.ones((2, 1)), np.ones((1, 2)), 0, 300.0)],
            {},
            ct.ControlDimension,
            "got 1 and 2 states",
        ),
        ([room()], dict(varying=1), TypeError, "expected True or False, got int"),
        ([room()], dict(assumptions="dry"), TypeError, "expected a list of texts"),
        ([room()], dict(nominal=room(outputs=["T"])), ValueError, "nominal"),
    ],
)
def test_bad_polytopes_are_refused(vertices, keywords, error, message):
    with pytest.raises(error, match=message):
        pc.PlantPolytope(vertices, **keywords)


def test_weights_must_be_a_mean():
    polytope = pc.PlantPolytope([room(0.8), room(0.9)])
    for weights in ([0.5, 0.6], [1.5, -0.5], [1.0]):
        with pytest.raises(ValueError, match="weights"):
            polytope.at(weights)
