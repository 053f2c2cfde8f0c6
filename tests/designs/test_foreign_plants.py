"""Noise protects the plant that it was designed for: a loop takes it for no other."""

from dataclasses import replace

import control as ct
import numpy as np
import pytest

import privcontrol as pc

BUDGET = pc.PrivacyBudget(epsilon=1.0, delta=1e-2)


def plant(b=0.01, d=0.0, a=0.9, dt=1.0, states=("p", "v"), inputs=("u",), c=1.0):
    matrices = [[a, 0.1], [0, 0.8]], [[0], [b]], [[c, 0]], [[d]], dt
    return ct.ss(*matrices, states=list(states), inputs=list(inputs), outputs=["y"])


def noise_for(sys, adjacency=None, horizon=20):
    adjacency = pc.DisturbanceAdjacency(1.0) if adjacency is None else adjacency
    return pc.design_output_noise(
        sys, horizon=horizon, budget=BUDGET, adjacency=adjacency
    )


def shift_of(noise, sys):
    """The privacy shift of a unit input at one time, from dense matrices."""
    T = noise.horizon
    impulse = [sys.D[0, 0]]
    state = sys.B[:, 0]
    for _ in range(T - 1):
        impulse.append((sys.C @ state)[0])
        state = sys.A @ state
    moves = np.array(
        [[impulse[t - j] if t >= j else 0.0 for j in range(T)] for t in range(T)]
    )
    covariance = np.block(
        [[noise.covariance(t, s) for s in range(T)] for t in range(T)]
    )
    if moves[0].any() and covariance[0, 0] == 0:
        return np.inf
    # without feedthrough the first output is silent
    rows = np.flatnonzero(np.diag(covariance))
    inner = np.linalg.solve(covariance[np.ix_(rows, rows)], moves[rows])
    return np.sqrt(np.sum(moves[rows] * inner, axis=0).max())


FOREIGN = {
    "B": plant(b=10.0),
    "D": plant(d=5.0),
    "A": plant(a=0.9 + 1e-12),
    "C": plant(c=1.0 + 1e-12),
    "dt": plant(dt=0.5),
    "naming of states": plant(states=("v", "p")),
    "naming of inputs": plant(inputs=("w",)),
}


@pytest.mark.parametrize("what", FOREIGN)
def test_a_loop_of_another_plant_is_refused_and_told_in_what_it_differs(what):
    noise, foreign = noise_for(plant()), FOREIGN[what]
    loop = pc.private_lqg(plant(), 1, 1, 1, 1, noise)
    own = pc.private_lqg(foreign, 1, 1, 1, 1)
    for build in (
        lambda: pc.private_lqg(foreign, 1, 1, 1, 1, noise),
        lambda: pc.private_loop(foreign, own.K, own.L, noise),
        lambda: own.with_noise(noise),
        lambda: replace(own, data=replace(own.data, noise=noise)),
    ):
        with pytest.raises(
            ValueError, match=f"designed for a plant with another {what}"
        ):
            build()
    assert loop.with_noise(noise).guarantee == noise.guarantee


def test_the_refused_loops_would_have_broken_their_guarantee():
    noise = noise_for(plant())
    claimed = noise.guarantee.gdp
    assert shift_of(noise, plant()) == pytest.approx(claimed, rel=1e-4)
    assert shift_of(noise, FOREIGN["B"]) == pytest.approx(1000 * claimed, rel=1e-4)
    assert shift_of(noise, FOREIGN["D"]) == np.inf


def test_the_name_of_the_system_alone_does_not_matter():
    same = plant()
    same.name = "another"
    noise = noise_for(plant(), pc.StateAdjacency({"p": 1.0}))
    assert pc.private_lqg(same, 1, 1, 1, 1, noise).guarantee == noise.guarantee
