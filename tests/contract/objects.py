"""One object of every kind that a user meets, by name."""

import tempfile
import warnings
from collections.abc import Iterator
from pathlib import Path

import control as ct
import networkx as nx
import numpy as np
from contract import table

import privcontrol as pc
from privcontrol import consensus, core

VEHICLE = pc.plants.vehicle()
WEIGHTS = {"Q": 1.0, "R": 1.0, "QN": 0.1, "RN": 0.1}
#: A request of the table for each kind of noise: family, horizon, parts and models.
NOISES = (
    "cube, vehicle, gaussian",
    "ball, vehicle, iid-gaussian",
    "any, room, iid-laplace",
    "early, room, gaussian",
    "energy, room, gaussian",
    "own Laplace factor",
    "floor, any, three",
    "floor, impulse, room",
    "two plants, first",
    "two plants, independent",
    "two plants, lasting",
    "box around a lag",
    "identified, impulse",
    "box, independent",
    "polytope, first",
    "polytope, impulse",
    "varying, first",
    "tank, flow",
    "varying, endless energy",
    "endless, energy, lag",
    "endless, floor",
)


GATED = {
    "cube, vehicle, gaussian",
    "any, room, iid-laplace",
    "floor, impulse, room",
    "endless, floor",
}


def kind_of(noise: pc.OutputNoise) -> tuple:
    """What tells one kind of noise from another."""
    parts = tuple(sorted(type(part).__name__ for part in noise.parts))
    region = type(noise.request.region).__name__
    return noise.family, noise.horizon == np.inf, parts, region


def _of_noises() -> Iterator[tuple[str, object]]:
    """Noise with its guarantee, design, gateway, eavesdropper and systems."""
    for name in NOISES:
        noise = table.designed(name)
        yield name, noise
        yield f"{name}: guarantee", noise.guarantee
        yield f"{name}: design", noise.design
        yield f"{name}: request", noise.request
        secret = noise.request.adjacency
        yield f"{name}: adjacency", secret
        if name in GATED:
            yield f"{name}: gateway", pc.Gateway(noise, grid=0.01)
    for name in ("cube, vehicle, gaussian", "floor, any, three", "endless, floor"):
        yield f"{name}: eavesdropper", pc.eavesdropper(table.designed(name))
    yield "windows", table.designed("cube, vehicle, gaussian").over(3)


def _vehicle_noise(**asked) -> pc.OutputNoise:
    options = {
        "horizon": 6,
        "budget": table.BUDGET,
        "adjacency": pc.StateAdjacency({"position": 1.0}, times=0),
    }
    return pc.design_output_noise(VEHICLE, **options | asked)


def _loops() -> Iterator[tuple[str, object]]:
    """Loops of all doors: gains, weights, priors, controllers, functions, no noise."""
    room = ct.ss(0.9, [[0.1, 0.1]], 1, 0, 1, inputs=["heat", "people"], states=["air"])
    people = {"adjacency": pc.DisturbanceAdjacency({"people": 1.0})}
    endless = pc.design_output_noise(
        room, horizon=np.inf, budget=table.BUDGET, **people
    )
    driven = pc.design_output_noise(room, horizon=6, budget=table.BUDGET, **people)
    plain, floored = _vehicle_noise(), _vehicle_noise(floor=0.3)
    lead = ct.tf([-6.0, 5.6], [1.0, -0.6], 0.1)

    def law(t, yhat, estimate, reference):
        return -0.1 * yhat

    tank = table.tank()
    around = pc.jacobian_polytope(tank, {"level": (1.0, 2.0), "flow": (0.0, 0.5)})
    level = pc.design_output_noise(
        around.nominal,
        horizon=6,
        budget=table.BUDGET,
        adjacency=pc.StateAdjacency({"level": 0.1}, times=0),
        models=around,
        family="iid-gaussian",
    )
    yield "public loop", pc.private_lqg(VEHICLE, **WEIGHTS)
    yield "loop", pc.private_lqg(VEHICLE, **WEIGHTS, noise=plain)
    yield "loop with floor", pc.private_lqg(VEHICLE, **WEIGHTS, noise=floored)
    yield "loop with prior", pc.private_lqg(VEHICLE, **WEIGHTS, noise=plain, P0=1.0)
    yield (
        "codesigned loop",
        pc.private_lqg(VEHICLE, **WEIGHTS, noise=floored, P0=1.0, codesign=True),
    )
    yield (
        "integral loop",
        pc.private_lqg(VEHICLE, **WEIGHTS, noise=floored, integral=["y"]),
    )
    heat = {"controls": ["heat"]}
    yield "endless loop", pc.private_lqg(room, **WEIGHTS, noise=endless, **heat)
    yield "driven loop", pc.private_lqg(room, **WEIGHTS, noise=driven, P0=1.0, **heat)
    yield "loop of gains", pc.private_loop(VEHICLE, [1.0, 1.5], [0.8, 0.6], floored)
    yield (
        "loop of a controller",
        pc.private_loop(VEHICLE, controller=lead, noise=floored),
    )
    yield "loop of a function", pc.private_loop(VEHICLE, controller=law, noise=floored)
    yield (
        "loop of a function that knows",
        pc.private_loop(VEHICLE, controller=law, noise=floored, QN=0.1, RN=0.1, P0=1.0),
    )
    yield "feedback", pc.private_feedback(VEHICLE, lead * -1, floored)
    yield (
        "nonlinear loop",
        pc.private_feedback(tank, 0.2, level, operating_point=([1.5], [0.2])),
    )
    loop = pc.private_lqg(VEHICLE, **WEIGHTS, noise=plain)
    yield "response", loop.simulate(trials=3, rng=0)
    yield "cost", loop.cost()
    secret = pc.StateAdjacency({"position": 1.0})
    yield "growth", pc.horizon_growth(VEHICLE, secret, [2, 4])
    yield (
        "tradeoff",
        pc.tradeoff(
            VEHICLE,
            **WEIGHTS,
            horizon=4,
            adjacency=secret,
            epsilons=[0.5, 1.0],
            delta=1e-2,
        ),
    )


def _consensus() -> Iterator[tuple[str, object]]:
    """Networks, their designs, agents and responses."""
    ring = nx.cycle_graph(5)
    pure = pc.private_consensus(
        ring, table.PURE, 1.0, weights="metropolis", family="laplace"
    )
    shared = pc.private_consensus(
        ring, table.BUDGET, 1.0, weights="metropolis", pairwise_std=5.0, coalition=1
    )
    yield "network", consensus.read_network(ring, weights="metropolis")
    yield "consensus", pure
    yield "consensus with shared noise", shared
    yield "guarantee of a node", shared.guarantee_for(node=0)
    keys = consensus.pair_keys(shared.network)
    yield "agent", shared.agent(0, 20.5, keys[0])
    yield (
        "estimate of an error",
        pure.estimate_mean_square_error(np.arange(5.0), 4, rng=0),
    )
    yield "consensus response", pure.simulate(np.arange(5.0), 4, trials=3, rng=0)
    yield "node adjacency", pc.NodeAdjacency(1.0)


def _regions() -> Iterator[tuple[str, object]]:
    """Regions of plants."""
    rng = np.random.default_rng(0)
    recorded = rng.normal(size=(3, 80))
    yield "box", pc.PlantBox.around(VEHICLE, relative=1e-3)
    yield "polytope", pc.PlantPolytope([VEHICLE, VEHICLE], varying=True)
    yield "identified", pc.identify_states(VEHICLE, recorded[:2], recorded[2:])
    region = {"level": (1.0, 2.0), "flow": (0.0, 0.5)}
    yield "Jacobians", pc.jacobian_polytope(table.tank(), region)


def _core() -> Iterator[tuple[str, object]]:
    """What needs no plant."""
    query = pc.LinearQuery([[1.0, 2.0, 0.0], [0.0, 1.0, -1.0]])
    constrained = pc.LinearQuery(np.eye(3), pc.AffineManifold([[1.0, 1.0, 1.0]]))
    ball = pc.BallAdjacency(1.0)
    gaussian = pc.design_gaussian(query, ball, table.BUDGET)
    laplace = pc.design_laplace(query, ball, table.PURE)
    radial = pc.core.design_noise(query, ball, table.BUDGET, family="ball")
    ball_law = core.design_noise(query, ball, table.BUDGET, family="ball")
    tangent = pc.design_gaussian(constrained, pc.ManifoldAdjacency(1.0), table.BUDGET)
    for name, made in {
        "gaussian": gaussian,
        "laplace": laplace,
        "ball law": ball_law,
        "radial": radial,
        "tangent": tangent,
    }.items():
        yield f"{name} design", made
        yield f"{name} noise", made.noise
        yield f"{name} mechanism", made.mechanism
        yield f"{name} guarantee", made.guarantee
    yield (
        "composed guarantee",
        pc.core.compose_sequential(gaussian.guarantee, laplace.guarantee),
    )
    yield "repeated guarantee", gaussian.guarantee.compose(gaussian.guarantee)
    yield "chained guarantee", pc.core.chain(gaussian.guarantee, 2.0)
    yield "query", query
    yield "manifold", constrained.manifold
    for adjacency in (
        ball,
        pc.ManifoldAdjacency(1.0),
        pc.DirectionAdjacency(np.eye(3)),
        pc.InitialStateAdjacency(1.0),
        pc.DisturbanceAdjacency(1.0, duration=3, shape="level", events=2, separation=4),
        pc.DisturbanceAdjacency.person(2.0, 8.0, window=5),
    ):
        yield (
            f"{type(adjacency).__name__} {adjacency.radius if hasattr(adjacency, 'radius') else ''}",
            adjacency,
        )
    for budget in (table.BUDGET, table.PURE, pc.PrivacyBudget(gdp=0.5)):
        yield repr(budget), budget
    yield (
        "audit",
        pc.core.audit(gaussian.mechanism, ball, trials=1000, delta=1e-2, rng=0),
    )
    ledger = pc.PrivacyLedger(pc.PrivacyBudget(epsilon=50.0, delta=1e-2))
    ledger.charge(gaussian.guarantee)
    yield "ledger", ledger
    folder = Path(tempfile.mkdtemp())
    yield (
        "ledger with a file",
        pc.PrivacyLedger(table.BUDGET, folder / "ledger.sqlite"),
    )
    yield (
        "gateway with a file",
        pc.Gateway(
            _vehicle_noise(floor=0.3), path=folder / "gateway.sqlite", grid=0.01
        ),
    )
    run = pc.core.AdaptiveReleases(
        pc.AffineManifold([[1.0, 1.0, 1.0]]), pc.ManifoldAdjacency(1.0), table.BUDGET
    )
    yield "adaptive releases", run
    yield "input noise", pc.InputPerturbation(np.tanh, table.BUDGET, radius=1.0)
    yield (
        "output noise of a model",
        pc.OutputPerturbation(np.tanh, table.BUDGET, radius=1.0, lipschitz=1.0),
    )
    yield "Lipschitz bound", pc.core.LipschitzBound(1.0, p=2, q=2, method="product")
    layer = pc.core.SLLLayer(np.eye(2), np.zeros(2), np.ones(2))
    yield "layer", layer
    yield (
        "network of layers",
        pc.core.SLLNetwork((layer,), np.ones((1, 2)), np.zeros(1)),
    )
    yield (
        "convolution",
        pc.core.SLLConvolution(
            np.ones((1, 1, 3, 3)), np.zeros(1), np.ones(1), (1, 3, 3)
        ),
    )
    yield (
        "clipped network",
        pc.core.ClippedNetwork(
            (np.eye(2), np.ones((1, 2))),
            (np.zeros(2), np.zeros(1)),
            -np.ones(2),
            np.ones(2),
        ),
    )


GROUPS = {
    "noise": _of_noises,
    "loop": _loops,
    "consensus": _consensus,
    "region": _regions,
    "core": _core,
}


def made(group: str) -> Iterator[tuple[str, object]]:
    """Objects of a group, by name, without the warnings of their making."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield from GROUPS[group]()
