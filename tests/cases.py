"""Plants, queries and loops that many tests share."""

import control as ct
import numpy as np

import privcontrol as pc

BUDGET = pc.PrivacyBudget(epsilon=1.0, delta=1e-2)
#: The budget under which noise has the size that the paper gives it for ``BUDGET``.
PAPER_BUDGET = pc.PrivacyBudget(
    gdp=1 / pc.core.gaussian_std(1.0, 1e-2, method="lenypappas")
)
POSITION = pc.StateAdjacency({"position": 1.0})
#: Weights whose LQG loop follows the privacy noise, and costs more than no control.
TUTORIAL = {
    "Q": np.diag([20.0, 1.0]),
    "R": 1.0,
    "QN": np.diag([1e-4, 1e-3]),
    "RN": 1e-2,
}
#: A loop of the vehicle over a run whose start is drawn.
RUN = {
    "Q": np.diag([1, 0.1]),
    "R": 0.1,
    "QN": np.diag([1e-4, 1e-3]),
    "RN": 0.01,
    "P0": np.diag([4.0, 1.0]),
}
#: Signals of a simulation, as the loop was designed for.
DRAWN = {
    "initial_state": "design",
    "disturbance": "design",
    "measurement_noise": "design",
}
PAPER_K, PAPER_L = [[3.4240, 4.3095]], [[0.8266], [0.6973]]


def vehicle_noise(adjacency=POSITION, *, horizon=100, budget=BUDGET, **options):
    """Output noise for the paper's vehicle."""
    return pc.design_output_noise(
        pc.plants.vehicle(),
        horizon=horizon,
        budget=budget,
        adjacency=adjacency,
        **options,
    )


def vehicle_loop(noise=None, **options):
    """The paper's loop (DPAM section 5.3)."""
    return pc.private_loop(pc.plants.vehicle(), PAPER_K, PAPER_L, noise, **options)


def random_plant(
    seed, states=5, inputs=2, outputs=2, radius=0.95, *, feedthrough=False
):
    """A random discrete-time plant of given spectral radius, reproducible by its seed."""
    rng = np.random.default_rng(seed)
    A = rng.normal(size=(states, states))
    A *= radius / np.abs(np.linalg.eigvals(A)).max()
    D = (
        rng.normal(size=(outputs, inputs))
        if feedthrough
        else np.zeros((outputs, inputs))
    )
    B, C = rng.normal(size=(states, inputs)), rng.normal(size=(outputs, states))
    return ct.ss(
        A, B, C, D, 0.1, states=[f"s{i}" for i in range(states)], name=f"random{seed}"
    )


def random_loop(seed, noise=None, *, feedthrough=False, **sizes):
    """A stable LQG loop around a random plant."""
    plant = random_plant(seed, feedthrough=feedthrough, **sizes)
    n, m, p = plant.nstates, plant.ninputs, plant.noutputs
    K = ct.dlqr(plant, np.eye(n), np.eye(m))[0]
    L = ct.dlqe(plant.A, np.eye(n), plant.C, np.eye(n), np.eye(p))[0]
    return pc.private_loop(
        plant,
        K,
        L,
        noise,
        Q=np.eye(n),
        R=np.eye(m),
        QN=0.01 * np.eye(n),
        RN=0.1 * np.eye(p),
    )


def random_problem(seed, rank=None, moves=None, weighted=False):
    """A random design problem: query, adjacency, and a weight or None."""
    rng = np.random.default_rng(seed)
    rank = rank or int(rng.integers(1, 7))
    size = rank + int(rng.integers(0, 5))
    moves = moves or int(rng.integers(rank, 40))
    query = pc.LinearQuery(rng.normal(size=(size, rank)))
    adjacency = pc.DirectionAdjacency(
        rng.normal(size=(rank, moves)) * rng.uniform(0.2, 3, moves)
    )
    root = rng.normal(size=(size, size))
    return query, adjacency, root @ root.T if weighted else None
