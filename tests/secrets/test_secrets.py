"""What designs ask of a secret, for single parts and for lists of them."""

import pytest

import privcontrol as pc
from privcontrol.designs.request import joined
from privcontrol.secrets.secrets import Secrets
from privcontrol.systems.linear import Plant

STATE = pc.StateAdjacency(1.0)
BALL = pc.InitialStateAdjacency(1.0)
CORNERS = pc.InitialStateAdjacency(1.0, norm=1)
ONCE = pc.DisturbanceAdjacency({"w": 1.0})
LATE = pc.DisturbanceAdjacency({"w": 1.0}, times=3)
TWICE = pc.DisturbanceAdjacency({"w": 1.0}, events=2, separation=4)
ENERGY = pc.DisturbanceAdjacency({"w": 1.0}, norm="l2")
EARLY = pc.DisturbanceAdjacency({"w": 1.0}, norm="l2", times=range(3))
PERSON = pc.DisturbanceAdjacency.person(2.0, 18.0, inputs="w", window=96)

#: Secrets, with what is true of them, and with the largest number of changes in a run.
ANSWERS = [
    (STATE, "hides_start", 1),
    (BALL, "hides_start", 1),
    ([STATE, CORNERS], "hides_start", 1),
    ([STATE, BALL], "hides_start is_dense", 1),
    (ONCE, "is_dense come_once", 1),
    (LATE, "is_dense", 1),
    (TWICE, "is_dense", 2),
    (ENERGY, "is_dense is_energy_ball", 1),
    (EARLY, "is_dense", 1),
    (PERSON, "is_dense is_energy_ball is_covered", 1),
    ([ONCE, ENERGY], "is_dense", 1),
    ([ONCE, PERSON], "is_dense is_covered", 1),
    ([ONCE, TWICE], "is_dense", 2),
    ([ONCE, STATE], "is_dense hides_start", 1),
    ([ENERGY, STATE], "is_dense hides_start", 1),
]
QUESTIONS = ["hides_start", "is_dense", "is_energy_ball", "is_covered", "come_once"]


@pytest.mark.parametrize("parts, true, events", ANSWERS)
def test_answers_are_those_for_all_parts(parts, true, events):
    secret = Secrets(joined(parts))
    assert {name for name in QUESTIONS if getattr(secret, name)} == set(true.split())
    assert secret.events == events


def test_a_signal_of_two_parts_is_named_once():
    plant = Plant.of(pc.plants.vehicle())
    force = pc.DisturbanceAdjacency({plant.inputs[0]: 1.0}, duration=3)
    pushed = pc.DisturbanceAdjacency({"velocity": 0.1, plant.inputs[0]: 1.0})
    secret = Secrets(joined([force, STATE, pushed]))
    assert secret.signals(plant) == (plant.inputs[0], "velocity")
    assert secret.query(plant, 4).manifold.size == plant.order + 4 * 2
