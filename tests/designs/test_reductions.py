"""What is taken off a request before a design sees it, with designs that are made up or counted."""

import cases
import pytest

import privcontrol as pc
from privcontrol.designs.asked import Asked
from privcontrol.designs.design import REDUCTIONS
from privcontrol.designs.designed import designed
from privcontrol.designs.laws import CheapestLaw
from privcontrol.designs.problem import DesignProblem
from privcontrol.designs.request import Request
from privcontrol.designs.several_changes import SeveralChanges
from privcontrol.privacy.horizon import Run
from privcontrol.systems.linear import Plant

PLANT = Plant.of(pc.plants.vehicle())
GUST = pc.DisturbanceAdjacency({"u": 0.1})


def asked_for(adjacency=cases.POSITION, budget=cases.BUDGET, horizon=20, **options):
    """What is asked for the vehicle."""
    request = Request(Run(horizon), budget, adjacency)
    return Asked(DesignProblem(PLANT, request), **options)


class Designs:
    """Answers with the design of the table, and keeps what it was asked."""

    def __init__(self, refused=()):
        self.asked = []
        self._refused = refused

    def __call__(self, asked):
        self.asked.append(asked)
        assert not any(reduction.accepts(asked) for reduction in REDUCTIONS)
        if asked.request.family in self._refused:
            raise pc.UncertifiableError(f"no {asked.request.family} noise")
        return designed(asked.request, PLANT)


def test_nothing_is_taken_off_a_plain_request():
    assert not any(reduction.accepts(asked_for()) for reduction in REDUCTIONS)


def test_each_law_is_designed_once_and_the_cheapest_one_is_kept():
    designs = Designs()
    noise = CheapestLaw().answer(asked_for(law_is_open=True), designs)
    families = [asked.request.family for asked in designs.asked]
    assert families == ["gaussian", "laplace", "ball", "truncated"]
    costs = {option.law: option.cost for option in noise.design.laws}
    assert noise.design.cost == min(costs.values()) == costs[noise.family]
    for law, cost in costs.items():
        alone = cases.vehicle_noise(horizon=20, family=law, models="exact")
        assert alone.design.cost == cost


def test_a_law_without_a_design_is_left_out_of_the_comparison():
    designs = Designs(refused=("gaussian", "truncated"))
    noise = CheapestLaw().answer(asked_for(law_is_open=True), designs)
    assert {option.law for option in noise.design.laws} == {"laplace", "ball"}
    every = ("gaussian", "laplace", "ball", "truncated")
    with pytest.raises(pc.UncertifiableError, match="no gaussian noise"):
        CheapestLaw().answer(asked_for(law_is_open=True), Designs(refused=every))


def test_several_changes_are_given_less_each_until_they_keep_their_budget():
    risk = dict(false_alarm=0.05, detection=0.3)
    together = pc.PrivacyBudget.from_risk(**risk, events=3, separation=2)
    asked = asked_for(GUST, together.single, together=together)
    designs = Designs()
    noise = SeveralChanges().answer(asked, designs)
    given = [asked.request.budget.gdp for asked in designs.asked]
    assert len(given) > 1
    assert given[0] == together.single.gdp
    assert given == sorted(given, reverse=True)
    found = noise.guarantee.repeated(3, separation=2).gdp
    assert 0.999 * together.together < found <= together.together
