"""The numbers that a request gives: what `golden.json` keeps.

Loops, windows, consensus and the core's own designs have requests of their own here, each
a function that returns its numbers by name.
"""

import warnings
from collections.abc import Callable

import control as ct
import numpy as np
from contract import table

import privcontrol as pc

POSITION = pc.StateAdjacency({"position": 1.0})
GAINS = ([[3.4240, 4.3095]], [[0.8266], [0.6973]])
WEIGHTS = {
    "Q": np.diag([20.0, 1.0]),
    "R": 1.0,
    "QN": np.diag([1e-4, 1e-3]),
    "RN": 1e-2,
}


def of_guarantee(guarantee: pc.PrivacyGuarantee) -> dict:
    """The shift in GDP, epsilon without delta, and delta at epsilon = 1."""
    return {
        "shift": guarantee.gdp,
        "epsilon": guarantee.epsilon(0.0),
        "delta": guarantee.delta(1.0),
    }


def of_noise(name: str) -> dict:
    """The numbers of a request for output noise."""
    noise = table.designed(name)
    found = of_guarantee(noise.guarantee)
    found["cost"] = noise.design.cost
    found["bound"] = noise.design.lower_bound
    found["std"] = noise.std
    if noise.horizon == np.inf:
        samples = noise.sample(3, rng=0, horizon=6)
        found["covariance"] = [noise.covariance(lag) for lag in (0, 1, 4)]
    else:
        last = noise.horizon - 1
        samples = noise.sample(3, rng=0)
        pairs = ((0, 0), (last, 0), (last, last))
        found["covariance"] = [noise.covariance(t, s) for t, s in pairs]
    middle = samples.shape[2] // 2
    found["draws"] = samples[:, :, [0, middle, -1]]
    return found


# -- guarantees for other plants, windows ------------------------------------------------


def _for_other_plants() -> dict:
    """One noise under a list, a box, polytopes, and with another secret."""
    noise = table.designed("floor, impulse, room")
    plant, other = table.room(), table.room(0.88, 0.52)
    box = pc.PlantBox(plant, A=[[0.01, 0.0], [0.0, 0.0]])
    first = table.SECRETS["first"]
    cases = {
        "list": ([plant, other], None),
        "box": (box, None),
        "polytope": (pc.PlantPolytope([plant, other], varying=False), None),
        "varying": (pc.PlantPolytope([plant, other]), None),
        "another secret": ([plant, other], first),
        "box, another secret": (box, first),
    }
    found = {}
    for name, (models, adjacency) in cases.items():
        guarantee = noise.guarantee_for(models, adjacency=adjacency)
        found[name] = of_guarantee(guarantee)["shift"]
    return found


def _levels() -> dict:
    """The guarantees that noise of a given standard deviation buys."""
    names = ("vehicle of the paper", "floor, any, three", "impulse, room, gaussian")
    found = {}
    for name in names:
        noise = table.designed(name).with_std(3.0)
        found[name] = [noise.guarantee.gdp, *noise.std]
    return found


def _eavesdropper() -> dict:
    """What an eavesdropper's best estimate still does not know."""
    noise = table.designed("floor, any, vehicle")
    seen = pc.eavesdropper(noise, prior=np.diag([4.0, 1.0]))
    return {"covariance": seen.error_covariance(0), "last": seen.error_covariance(5)}


# -- loops -------------------------------------------------------------------------------


def _moments(loop: pc.PrivateLoop, **signals) -> dict:
    response = loop.simulate(trials=3, rng=0, **signals)
    cost = loop.cost(**signals)
    return {
        "shift": loop.guarantee.gdp,
        "error": loop.mean_square_error(**signals)[:, ::5],
        "cost": [cost.regulation, cost.disturbance, cost.privacy],
        "states": np.asarray(response.states)[:, :, -1],
        "published": np.asarray(response.outputs)[:, :, -1],
        "poles": np.sort_complex(np.linalg.eigvals(loop.closed_loop.A)).view(float),
    }


def _noise_of_loops(horizon: float = 16, **options) -> pc.OutputNoise:
    asked = dict(horizon=horizon, budget=table.BUDGET, adjacency=POSITION)
    return pc.design_output_noise(pc.plants.vehicle(), **asked, **options)


def _loop_of_paper() -> dict:
    vehicle = pc.plants.vehicle()
    loop = pc.private_loop(vehicle, *GAINS, _noise_of_loops(), **WEIGHTS)
    return _moments(loop, initial_state=[-20.0, 0.0])


def _loop_by_lqg() -> dict:
    noise = _noise_of_loops(floor=0.3)
    loop = pc.private_lqg(pc.plants.vehicle(), **WEIGHTS, noise=noise)
    found = _moments(loop, initial_state=[1.0, 0.0], disturbance="design")
    return {"K": loop.K, "L": loop.L, **found}


def _loop_with_filter() -> dict:
    noise = _noise_of_loops(family="iid-gaussian")
    loop = pc.private_lqg(pc.plants.vehicle(), **WEIGHTS, noise=noise, form="filter")
    return _moments(loop, initial_state=[1.0, 0.0])


def _loop_by_feedback() -> dict:
    controller = ct.ss([[0.0]], [[1.0]], [[-9.0]], [[10.0]], 0.1)
    loop = pc.private_feedback(pc.plants.vehicle(), controller, _noise_of_loops())
    error = loop.mean_square_error(initial_state=[1.0, 0.0])
    return {"error": error[:, ::5], "shift": loop.guarantee.gdp}


def _loop_without_horizon() -> dict:
    plant = table.room()
    secret = table.ENTERING["lasting"]
    asked = dict(horizon=np.inf, budget=table.BUDGET, adjacency=secret)
    noise = pc.design_output_noise(plant, **asked)
    weights = {**WEIGHTS, "Q": np.eye(2)}
    loop = pc.private_lqg(plant, **weights, noise=noise, form="predictor")
    cost = loop.steady_state_cost()
    return {
        "error": loop.steady_state_error(),
        "cost": [cost.regulation, cost.disturbance, cost.privacy],
    }


def _tradeoff() -> dict:
    curve = pc.tradeoff(
        pc.plants.vehicle(),
        **WEIGHTS,
        horizon=12,
        adjacency=POSITION,
        epsilons=[0.5, 2.0],
        delta=1e-2,
    )
    frame = curve.to_pandas()
    numbers = frame.select_dtypes("number").to_numpy()
    return {"curve": numbers}


# -- consensus ---------------------------------------------------------------------------


def _graph():
    return pc.plants.ten_agent_graph(), pc.plants.ten_agent_values()


def _consensus(**options) -> dict:
    graph, values = _graph()
    options = {"budget": table.BUDGET, "radius": 0.5, "weights": "metropolis"} | options
    agents = pc.private_consensus(graph, **options)
    response = agents.simulate(values, 5, trials=3, rng=0)
    return {
        **of_guarantee(agents.guarantee),
        "scales": np.asarray(agents.scales),
        "error": agents.mean_square_error(values, 5),
        "limit": agents.limit_mean_square_error(),
        "states": np.asarray(response.states)[:, :, -1],
    }


# -- the core ----------------------------------------------------------------------------


def _core() -> dict:
    """Designs for data on a manifold, and for explicit moves."""
    rng = np.random.default_rng(0)
    manifold = pc.AffineManifold([[1.0, 1.0, 1.0, 0.0], [0.0, 1.0, -1.0, 1.0]])
    query = pc.LinearQuery(rng.normal(size=(3, 4)), manifold)
    free = pc.LinearQuery(rng.normal(size=(3, 2)))
    secrets = {
        "charts": (query, pc.ManifoldAdjacency([1.0, 2.0, 0.5, 1.0])),
        "ball": (free, pc.BallAdjacency(0.7)),
        "diamond": (free, pc.BallAdjacency(0.7, norm=1)),
        "cube": (free, pc.BallAdjacency(0.7, norm=np.inf)),
        "moves": (free, pc.DirectionAdjacency(rng.normal(size=(2, 6)))),
    }
    found = {}
    for name, (asked, secret) in secrets.items():
        best = pc.design_gaussian(
            asked, secret, table.BUDGET, weight=np.diag([1, 2, 3])
        )
        even = pc.design_iid(asked, secret, table.BUDGET)
        found[name] = [best.guarantee.gdp, best.cost, best.lower_bound, even.cost]
        found[f"{name}, noise"] = best.noise.covariance
        found[f"{name}, draws"] = best.noise.sample(3, rng=0)
        if name != "ball":
            pure = pc.design_iid(asked, secret, table.PURE, family="laplace")
            found[f"{name}, Laplace"] = [pure.guarantee.epsilon(0.0), pure.cost]
    pure = pc.design_laplace(free, secrets["moves"][1], table.PURE, basis=free.matrix)
    found["Algorithm 2"] = [pure.guarantee.epsilon(0.0), pure.cost]
    return found


def _perturbation() -> dict:
    """Scales of noise before and behind a model."""
    weights = [np.array([[1.0, 2.0], [0.5, -1.0]]), np.array([[1.0, -1.0]])]
    lipschitz = pc.feedforward_lipschitz(weights, method="product")
    given = pc.InputPerturbation(np.sum, table.BUDGET, radius=0.5, size=2)
    answered = pc.OutputPerturbation(
        np.sum, table.BUDGET, radius=0.5, lipschitz=lipschitz
    )
    return {"lipschitz": lipschitz, "scales": [given.scale, answered.scale]}


OTHERS: dict[str, Callable[[], dict]] = {
    "guarantees for other plants": _for_other_plants,
    "levels of noise": _levels,
    "eavesdropper": _eavesdropper,
    "loop of the paper": _loop_of_paper,
    "loop by LQG": _loop_by_lqg,
    "loop with a filter": _loop_with_filter,
    "loop by feedback": _loop_by_feedback,
    "loop without a horizon": _loop_without_horizon,
    "trade-off": _tradeoff,
    "consensus": _consensus,
    "consensus, Laplace": lambda: _consensus(family="laplace", budget=table.PURE),
    "consensus, shared": lambda: _consensus(pairwise_std=2.0, coalition=1),
    "core": _core,
    "perturbation": _perturbation,
}


def names() -> list[str]:
    return [*table.noise_requests(), *OTHERS]


def of(name: str) -> dict:
    """The numbers of a request, as JSON holds them: null for what is not finite."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", pc.PrivacyWarning)
        found = OTHERS[name]() if name in OTHERS else of_noise(name)
    plain = {}
    for key, value in found.items():
        numbers = np.asarray(value, float)
        plain[key] = numbers.tolist() if np.isfinite(numbers).all() else None
    return plain


# -- comparing ---------------------------------------------------------------------------

#: Relative differences that are printed, and those that fail a test. Between the two are
#: the last digits of optima, of which costs are known best and factors least.
PRINTED = 1e-9
TOLERANCE = 1e-6
OF_FACTOR = 1e-3
_BY_FACTOR = ("covariance", "states", "published", "noise", "std")


def differences(now: dict, before: dict, tolerance: float | None = None) -> list[str]:
    """Lines that name each number that is not what it was, empty if all are.

    Without a tolerance they are those that fail a test. Draws are not among these: they
    turn with the sign of a factor, of which the covariance knows nothing.
    """
    lines = []
    for key in sorted(now.keys() | before.keys()):
        if now.get(key) is None or before.get(key) is None:
            if now.get(key) is not before.get(key):
                lines.append(f"{key}: {before.get(key)} -> {now.get(key)}")
            continue
        new, old = np.asarray(now[key]), np.asarray(before[key])
        if new.shape != old.shape:
            lines.append(f"{key}: shape {old.shape} -> {new.shape}")
            continue
        allowed = tolerance
        if allowed is None:
            if "draws" in key:
                continue
            allowed = (
                OF_FACTOR if any(word in key for word in _BY_FACTOR) else TOLERANCE
            )
        change = np.abs(new - old)
        worst = np.unravel_index(change.argmax(), new.shape)
        # a delta below 1e-12 says no more than that it is tiny
        size = max(np.abs(old).max(), 1e-12)
        if not change[worst] <= allowed * size:
            relative = (new[worst] - old[worst]) / size
            lines.append(
                f"{key}: {old[worst]:.9g} -> {new[worst]:.9g} ({relative:+.1e})"
            )
    return lines
