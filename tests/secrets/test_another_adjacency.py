"""A secret of one's own is one class: every design takes it, and files hold it.

The second route is the simulated response to the move, through the noise's covariance.
"""

from dataclasses import dataclass

import control as ct
import numpy as np
import pytest

import privcontrol as pc
from privcontrol.secrets import DisturbanceAdjacency, Secret

BUDGET = pc.PrivacyBudget(epsilon=1.0, delta=1e-2)
PLANT = ct.ss(
    [[0.9, 0.2], [0.0, 0.8]],
    [[0.1], [0.5]],
    [[1.0, 0.0]],
    0,
    1.0,
    states=["a", "b"],
    inputs=["w"],
    outputs=["y"],
)


@dataclass(frozen=True, eq=False)
class PairAdjacency(Secret):
    """All states move at once at the start, each by its radius."""

    radii: tuple

    def moves(self, manifold):
        start = np.array(self.radii)[:, None]
        return pc.DirectionAdjacency(manifold.kernel @ start).moves(manifold)

    def entering(self, plant):
        return self.starting(plant, 1)

    @property
    def statement(self):
        return f"the states by {self.radii} at once"

    def to_dict(self):
        return {"type": "PairAdjacency", "radii": list(self.radii)}


class SpikeAdjacency(DisturbanceAdjacency):
    """A disturbance comes and goes back by half."""

    shapes = (np.array([1.0, -0.5]),)

    @property
    def statement(self):
        return super().statement + " and back by half"


PAIR = PairAdjacency((1.0, 0.5))
SPIKE = SpikeAdjacency({"w": 1.0}, profiles=[[1.0, -0.5]])
BOX = pc.PlantBox(PLANT, A=[[0.0, 0.01], [0.0, 0.0]])


def responses(secret, horizon):
    """Outputs (T, M) of each move, by simulation."""
    times = np.arange(horizon)
    if secret is PAIR:
        still = np.zeros(horizon)
        found = ct.forced_response(PLANT, times, still, np.array(secret.radii))
        return found.outputs[:, None]
    columns = []
    for start in times:
        signal = np.zeros(horizon)
        signal[start : start + 2] = [1.0, -0.5][: horizon - start]
        columns.append(ct.forced_response(PLANT, times, signal).outputs)
    return np.transpose(columns)


@pytest.mark.parametrize("secret", [PAIR, SPIKE], ids=["states", "signal"])
@pytest.mark.parametrize(
    "options",
    [
        dict(models="exact"),
        dict(floor=0.5),
        dict(family="iid-gaussian"),
        dict(horizon=np.inf),
        dict(models=BOX, floor=0.5),
        dict(models=[PLANT], floor=0.5),
    ],
    ids=["exact", "floor", "iid", "endless", "box", "models"],
)
def test_every_design_hides_it_and_every_file_holds_it(secret, options, tmp_path):
    options = dict(horizon=12) | options
    noise = pc.design_output_noise(PLANT, budget=BUDGET, adjacency=secret, **options)
    lags = range(12)
    covariance = np.array([[noise.covariance(t, s)[0, 0] for s in lags] for t in lags])
    moved = responses(secret, 12)
    undone = np.linalg.pinv(covariance, rcond=1e-12, hermitian=True)
    shifts = np.sqrt(np.sum(moved * (undone @ moved), axis=0))
    assert shifts.max() <= noise.guarantee.gdp * (1 + 1e-9)
    assert shifts.max() >= 0.5 * noise.guarantee.gdp
    assert secret.statement in noise.guarantee.explain()
    noise.save(tmp_path / "noise.json")
    again = pc.load(tmp_path / "noise.json")
    assert again == noise
    assert again.request.adjacency == secret


@pytest.mark.parametrize("secret", [PAIR, SPIKE], ids=["states", "signal"])
def test_it_joins_others_and_is_measured(secret):
    both = [secret, pc.DisturbanceAdjacency({"w": 0.2})]
    request = dict(horizon=12, budget=BUDGET)
    together = pc.design_output_noise(PLANT, adjacency=both, **request)
    alone = pc.design_output_noise(PLANT, adjacency=secret, models="exact", **request)
    assert together.guarantee_for(PLANT, adjacency=secret).satisfies(BUDGET)
    assert together.design.cost >= alone.design.cost * (1 - 1e-6)
    with pytest.raises(pc.PrivacyError, match="max_std"):
        pc.design_output_noise(PLANT, adjacency=secret, max_std=1e-6, **request)
