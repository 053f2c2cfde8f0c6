"""One valid call of every public callable: the seeds that the fuzzer mutates.

A door is a name, a callable, its positional arguments and its keywords. A test asks that
every public name has a door here, so a new one cannot be forgotten.
"""

import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import control as ct
import networkx as nx
import numpy as np

import privcontrol as pc
from privcontrol import consensus, core, designs, loop, regions, response

T = 5
HARMLESS = {
    "Adjacency",  # abstract
    "BudgetExceededError",
    "NotRealizableError",
    "PrivacyError",
    "PrivacyWarning",
    "UncertifiableError",
    "consensus",
    "core",
    "plants",
}


@dataclass(frozen=True)
class Door:
    """A public callable with arguments that it takes."""

    name: str
    call: Callable
    args: tuple = ()
    keywords: dict = field(default_factory=dict)

    def __call__(self):
        return self.call(*self.args, **self.keywords)


def _of(target, method: str, /, *args, **keywords) -> Door:
    """A method of an object; the object's class names the door."""
    return Door(
        f"{type(target).__name__}.{method}", getattr(target, method), args, keywords
    )


def _public(name: str, /, *args, **keywords) -> Door:
    """A function or class of the package by its name."""
    owner = next(
        home
        for home in (pc, core, consensus, designs, regions, loop, response)
        if hasattr(home, name)
    )
    return Door(name, getattr(owner, name), args, keywords)


def core_doors() -> Iterator[Door]:
    """Mechanisms without a plant."""
    budget = pc.PrivacyBudget(epsilon=1.0, delta=1e-2)
    F = np.array([[1.0, 2.0, 0.0], [0.0, 1.0, -1.0]])
    manifold = pc.AffineManifold([[1.0, 1.0, 1.0]])
    query = pc.LinearQuery(F, manifold)
    directions = pc.DirectionAdjacency(np.array([[1.0], [-1.0], [0.0]]))
    ball = pc.BallAdjacency(1.0)
    secret = pc.ManifoldAdjacency(1.0)
    design = pc.design_gaussian(query, secret, budget)
    mechanism = design.mechanism
    guarantee = design.guarantee
    x = np.array([1.0, 2.0, -3.0])
    yield _public("PrivacyBudget", epsilon=1.0, delta=1e-2)
    yield _public("kappa", 1.0, 0.5)
    yield _public("kappa_inverse", 1.0, 1e-2)
    yield _public("gaussian_std", 1.0, 1e-2, 1.0, method="analytic")
    yield _public("laplace_scale", 1.0, 1.0)
    yield _public("ball_rate", 1.0, 1e-2, 2)
    yield _public("truncated_radius", 1.0, 1e-2, 2)
    yield _public("AffineManifold", [[1.0, 1.0, 1.0]], [0.0], labels=["a", "b", "c"])
    yield _public("ManifoldAdjacency", 1.0, charts="all", entries=(0, 1))
    yield _public("BallAdjacency", 1.0, norm=2)
    yield _public("BallAdjacency", [1.0, 2.0], norm=1.5)
    yield _public("DirectionAdjacency", np.eye(3))
    yield _public("LinearQuery", F, manifold)
    yield _public("GaussianNoise", np.eye(2))
    yield _public("LaplaceNoise", np.eye(2))
    yield _public("BallNoise", np.eye(2), rate=1.0, bound=3.0)
    yield _public(
        "design_noise", query, secret, budget, family="auto", weight=np.eye(2)
    )
    yield _public("Mechanism", query, design.noise)
    yield _public(
        "PrivacyGuarantee", guarantee.loss, guarantee.scope, 1, quoted_delta=1e-5
    )
    yield _public(
        "design_gaussian", query, secret, budget, weight=np.eye(2), releases=1, tol=1e-9
    )
    yield Door(
        "design_gaussian",
        pc.design_gaussian,
        (query, secret, budget),
        {"constraints": lambda Gamma: []},
    )
    yield _public("design_laplace", query, secret, budget, weight=np.eye(2))
    yield _public("design_iid", query, secret, budget, family="gaussian")
    yield _public("structured_equivalent", mechanism, secret)
    yield _public("NoiseDesign", mechanism, guarantee, 1.0, 1.0, np.eye(3))
    yield _public("compose_sequential", guarantee, guarantee)
    free = pc.design_gaussian(pc.LinearQuery(F), ball, budget).guarantee
    yield _public("compose_parallel", free, free, norm=2)
    yield _public("chain", free, 2.0)
    yield _public("PrivacyLedger", budget)
    yield _public(
        "audit", mechanism, secret, trials=1000, delta=1e-2, confidence=0.9, rng=0
    )
    yield _public("AuditResult", 0.1, 1.0, 1e-2, 100, 0.9)
    for name, args in {
        "residual": (x,),
        "contains": (x,),
        "project": (x,),
        "tangent": (np.array([[1.0], [-1.0], [0.0]]),),
    }.items():
        yield _of(manifold, name, *args)
    yield Door(
        "AffineManifold.from_kernel", pc.AffineManifold.from_kernel, (np.ones((3, 1)),)
    )
    for adjacency in (secret, ball, directions):
        yield _of(adjacency, "moves", manifold)
    yield _of(query, "sensitivity", secret, norm=2)
    yield Door(
        "AdaptiveReleases",
        pc.core.AdaptiveReleases,
        (manifold, secret, budget),
        {"family": "gaussian"},
    )
    for name, args, options in (
        ("extend", (x[2:], [0.0]), {}),
        ("release", (F[:, :2], pc.GaussianNoise([1.0, 1.0])), {"rng": 0, "grid": 1.0}),
    ):
        run = pc.core.AdaptiveReleases(manifold, secret, pc.PrivacyBudget(gdp=1e6))
        run.extend(x[:2])
        yield _of(run, name, *args, **options)
    yield _of(design.noise, "sample", 3, rng=0)
    yield _of(mechanism, "release", x, size=2, rng=0)
    yield _of(mechanism, "guarantee", secret)
    yield _of(design, "release", x, size=2, rng=0)
    for name, args in {
        "epsilon": (1e-3,),
        "delta": (1.0,),
        "satisfies": (budget,),
        "rdp": (2.0,),
        "compose": (guarantee,),
        "released": (2,),
        "detection": (0.05,),
    }.items():
        yield _of(guarantee, name, *args)
    yield Door(
        "PrivacyGuarantee.black_box",
        pc.PrivacyGuarantee.black_box,
        (budget, ball),
    )
    yield Door(
        "PrivacyGuarantee.from_dict",
        pc.PrivacyGuarantee.from_dict,
        (guarantee.to_dict(),),
    )
    ledger = pc.PrivacyLedger(pc.PrivacyBudget(epsilon=1e6, delta=1e-2))
    yield _of(ledger, "charge", guarantee, note="a note", count=1)
    yield _of(ledger, "can_charge", guarantee, count=1)
    yield _of(ledger, "by_period", "1D")
    yield _of(budget, "each_of", 7)
    folder = Path(tempfile.mkdtemp())
    yield _public("PrivacyLedger", budget, folder / "ledger.sqlite")
    kept = pc.PrivacyLedger(budget, folder / "kept.sqlite")
    yield Door(
        "PrivacyLedger.open",
        pc.PrivacyLedger.open,
        (folder / "kept.sqlite",),
        {"known": kept.head},
    )
    yield _public("PrivacyBudget", gdp=0.5)
    yield Door(
        "PrivacyBudget.from_risk",
        pc.PrivacyBudget.from_risk,
        (),
        {"false_alarm": 0.05, "detection": 0.2},
    )


def inference_doors() -> Iterator[Door]:
    """Models behind a mechanism, and their Lipschitz constants."""
    budget = pc.PrivacyBudget(epsilon=1.0, delta=1e-2)
    weights = [np.eye(2), np.array([[1.0, -1.0]])]
    low, high = -np.ones(2), np.ones(2)
    clipped = pc.core.ClippedNetwork(
        (np.eye(2), np.ones((1, 2))), (np.zeros(2), np.zeros(1)), low, high
    )
    layer = pc.core.SLLLayer(np.eye(2), np.zeros(2), np.ones(2))
    given = pc.InputPerturbation(np.sum, budget, radius=1.0, size=3)
    answered = pc.OutputPerturbation(np.sum, budget, radius=1.0, lipschitz=1.0)
    yield _public(
        "InputPerturbation", np.sum, budget, radius=1.0, norm=2, family="gaussian"
    )
    yield _public("OutputPerturbation", np.sum, budget, radius=1.0, lipschitz=2.0)
    yield _public(
        "InputPerturbation", np.sum, budget, radius=np.inf, domain=(0.0, 1.0), size=3
    )
    yield _public(
        "OutputPerturbation", np.sum, budget, radius=[1.0, 2.0], norm=1, lipschitz=2.0
    )
    yield Door("InputPerturbation.__call__", given, (np.ones(3),), {"rng": 0})
    yield Door("OutputPerturbation.__call__", answered, (np.ones(3),), {"rng": 0})
    yield _public("LipschitzBound", 1.0, p=2, q=2, method="product")
    yield _public("induced_norm", np.eye(2), 2, 2)
    yield _public("feedforward_lipschitz", weights, p=2, q=2, method="product")
    yield _public(
        "ClippedNetwork", clipped.weights, clipped.biases, low, high, activation="relu"
    )
    yield _of(clipped, "lipschitz", p=2, q=2, method="product")
    yield _public("SLLLayer", np.eye(2), np.zeros(2), np.ones(2))
    filters = np.ones((1, 1, 3, 3))
    image = pc.core.SLLConvolution(filters, np.zeros(1), np.ones(1), (1, 3, 3))
    sizes = ([0.0], [1.0], (1, 3, 3))
    yield Door("SLLConvolution", pc.core.SLLConvolution, (filters, *sizes))
    yield Door("SLLConvolution.__call__", image, (np.ones(9),))
    yield _public("SLLNetwork", (layer,), np.ones((1, 2)), np.zeros(1))
    yield _of(layer, "certificate")


def plant() -> ct.StateSpace:
    """A plant of three states, two outputs and two inputs."""
    return ct.ss(
        [[0.9, 0.1, 0.0], [0.0, 0.8, 0.2], [0.1, 0.0, 0.7]],
        [[0.0, 1.0], [1.0, 0.0], [0.0, 0.5]],
        [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]],
        0,
        0.5,
        states=["a", "b", "c"],
        inputs=["u", "w"],
        outputs=["y", "z"],
    )


_CAR = {"dt": 1.0, "states": 3, "inputs": 1, "outputs": 2}


def _turns(t, x, u, params):
    return np.array([x[0] + np.cos(x[2]), x[1] + np.sin(x[2]), x[2] + u[0]])


def trajectory_doors() -> Iterator[Door]:
    """What an eavesdropper knows of a plant, and the secrets of its trajectories."""
    sys = plant()
    manifold = pc.trajectory_manifold(sys, T)
    for name in ("trajectory_manifold", "observability_stack", "output_query"):
        yield _public(name, sys, T)
    yield _public("system_gain", sys, norm="h2")
    yield _public("with_delays", sys, {"u": 2, "y": 1})
    yield _public("with_delays", ct.ss(-1.0, 1.0, 1.0, 0.0), {"u[0]": 0.7}, dt=0.5)
    turning = ct.nlsys(_turns, lambda t, x, u, params: x[:2], **_CAR)
    yield _public("along", turning, np.ones((3, 4)), np.ones((1, 4)))
    follower = ct.ss([], [], [], [[-1.0, 1.0]], None, inputs=["y", "r"], outputs=["u"])
    yield _public("with_local_loop", sys, follower)
    yield _public("StateAdjacency", {"a": 1.0})
    yield _public("StateAdjacency", 1.0, states=["a"], times=[0], charts="times")
    yield _public("InitialStateAdjacency", 1.0, norm=2)
    yield _public("DisturbanceAdjacency", 1.0, inputs=["w"], times=[1], norm="single")
    yield _public("DisturbanceAdjacency", 1.0, duration=3, events=2)
    yield _public("DisturbanceAdjacency", 1.0, events=2, separation=3)
    day = dict(inputs=["w"], window=5)
    person = pc.DisturbanceAdjacency.person
    yield Door("DisturbanceAdjacency.person", person, (2.0, 8.0), day)
    yield _public("DisturbanceAdjacency", 1.0, profiles=[[1.0, 2.0], [1.0]])
    for adjacency in (
        pc.StateAdjacency({"a": 1.0}),
        pc.InitialStateAdjacency(1.0),
    ):
        yield _of(adjacency, "moves", manifold)


def varying_doors() -> Iterator[Door]:
    """Lists of plants, one for each sample, wherever a plant is taken."""
    sys = plant()
    named = {
        "states": sys.state_labels,
        "inputs": sys.input_labels,
        "outputs": sys.output_labels,
    }
    other = ct.ss(0.9 * sys.A, sys.B, sys.C, sys.D, sys.dt, **named)
    plants = [sys, other, sys, other, other][:T]
    plants += [sys] * (T - len(plants))
    budget = pc.PrivacyBudget(epsilon=1.0, delta=1e-2)
    secret = pc.StateAdjacency({"a": 1.0}, times=0)
    for name in ("trajectory_manifold", "observability_stack", "output_query"):
        yield _public(name, plants, T)
    yield _public("observability_stack", [sys, other], T, period=2)
    yield _public("with_delays", plants, {"u": 2})
    asked = {"horizon": T, "budget": budget, "adjacency": secret}
    noise = pc.design_output_noise(plants, **asked, floor=0.5)
    yield _public(
        "design_output_noise", plants, **asked, floor=0.5, models=[plants], releases=1
    )
    yield _public("design_output_noise", [sys, other], **asked, period=2)
    endless = {
        "horizon": np.inf,
        "budget": budget,
        "adjacency": pc.DisturbanceAdjacency(1.0, inputs=["w"]),
    }
    yield _public("design_output_noise", [sys, other], **endless, period=2, floor=0.5)
    yield _of(noise, "guarantee_for", [plants])
    yield _public("options", plants, **asked)
    yield _public("horizon_growth", plants, secret, [2, T])
    yield _public("eavesdropper", noise, prior=np.eye(noise.plant[0].nstates))
    weights = {"Q": 1.0, "R": 1.0, "QN": [0.1 * np.eye(3)] * T, "RN": 0.1}
    yield _public("private_lqg", plants, **weights, noise=noise, P0=1.0, terminal=0)
    loop = pc.private_lqg(plants, 1.0, 1.0, 0.1, 0.1, noise=noise, P0=1.0, terminal=0)
    yield _public(
        "private_loop", plants, np.asarray(loop.K), np.asarray(loop.L)[:, :3], noise
    )
    yield _of(loop, "simulate", trials=3, rng=0)
    yield _of(loop, "cost", initial_state="design")
    yield _of(loop, "mean_square_error")


def design_doors() -> Iterator[Door]:
    """Output noise, its design and its python-control systems."""
    sys = plant()
    budget = pc.PrivacyBudget(epsilon=1.0, delta=1e-2)
    secret = pc.StateAdjacency({"a": 1.0}, times=0)
    asked = {"horizon": T, "budget": budget, "adjacency": secret}
    noise = pc.design_output_noise(sys, **asked)
    floored = pc.design_output_noise(sys, **asked, floor=0.5)
    disturbed = pc.design_output_noise(
        sys,
        horizon=T,
        budget=budget,
        adjacency=pc.DisturbanceAdjacency(1.0, inputs=["w"]),
    )
    yield _public(
        "design_output_noise",
        sys,
        **asked,
        family="gaussian",
        weight=[1.0, 2.0],
        releases=1,
        floor=0.5,
        models=[sys],
    )
    yield _public("design_output_noise", sys, **asked)
    endless = pc.design_output_noise(
        sys, horizon=np.inf, budget=budget, adjacency=secret, gap=0.1
    )
    yield _public(
        "design_output_noise",
        sys,
        horizon=np.inf,
        budget=budget,
        adjacency=secret,
        weight=[1.0, 2.0],
        floor=0.5,
        order=2,
        gap=0.1,
    )
    yield _of(endless, "covariance", 2)
    yield _of(endless, "over", 5)
    yield _of(endless, "sample", 2, rng=0, horizon=4)
    yield _public(
        "design_output_noise",
        sys,
        **asked,
        floor=0.5,
        factor=np.eye(3),
        resolution=0.01,
        max_std=[50.0, 50.0],
    )
    yield _public("design_output_noise", sys, **asked, covariance=np.eye(3))
    yield _public("PlantBox", sys, A=1e-3 * np.eye(3))
    recorded = np.random.default_rng(0).normal(size=(5, 80))
    identified = pc.identify_states(sys, recorded[:3], recorded[3:])
    yield _public(
        "identify_states",
        sys,
        recorded[:3],
        recorded[3:],
        confidence=0.95,
        data="feedback",
        A=np.eye(3, dtype=bool),
        B=np.eye(3, 2, dtype=bool),
    )
    yield _public(
        "identify_outputs",
        recorded[:1],
        recorded[3:4],
        order=1,
        dt=0.5,
        confidence=0.95,
        data="feedback",
        output_names=["y"],
        input_names=["u"],
    )
    yield _of(identified, "contains", sys)
    yield Door("PlantBox.around", pc.PlantBox.around, (sys,), {"relative": 1e-3})
    polytope = pc.PlantPolytope([sys, sys], varying=True, assumptions=["dry air"])
    yield _public("PlantPolytope", [sys, sys], varying=True, nominal=sys)
    yield _of(polytope, "contains", sys)
    yield _of(polytope, "at", [0.5, 0.5])
    yield _of(polytope, "sampled", 2, rng=0)
    entering = pc.DisturbanceAdjacency(0.1)
    varying = pc.design_output_noise(
        sys, horizon=3, budget=budget, adjacency=entering, models=polytope
    )
    yield _public(
        "design_output_noise",
        sys,
        horizon=3,
        budget=budget,
        adjacency=entering,
        models=polytope,
    )
    yield _of(varying, "guarantee_for", polytope)
    rates = ct.nlsys(
        lambda t, x, u, params: [u[0] - np.sqrt(x[0])],
        None,
        states=["level"],
        inputs=["flow"],
        outputs=["level"],
    )
    yield _public("sample_nonlinear", rates, 0.1, method="euler", substeps=2)
    region = {"level": (1.0, 2.0, "m"), "flow": (0.5, 1.5)}
    tank = pc.sample_nonlinear(rates, 0.1)
    yield _public(
        "jacobian_polytope",
        tank,
        region,
        splits={"level": 2},
        max_vertices=16,
    )
    bounds = {"A": (0.8, 1.0), "B": (0.1, 0.1), "C": (1.0, 1.0), "D": (0.0, 0.0)}
    yield _public("jacobian_polytope", tank, region, bounds=bounds)
    box = pc.jacobian_polytope(tank, region)
    yield _of(box, "plants", secret)
    yield _public("create_channel_iosystem", noise, name="gate")
    yield _public("create_noise_iosystem", noise, name="noise")
    yield _public("eavesdropper", noise, prior=np.eye(3))
    for made in (noise, floored, disturbed):
        yield _of(made, "covariance", 1, 2)
        yield _of(made, "sample", 2, rng=0)
        yield _of(made, "with_std", 2.0)
        yield _of(made, "plot", samples=2, rng=0)
        yield Door(
            "OutputNoise.stream", lambda rng, made=made: list(made.stream(rng)), (0,)
        )
    yield _of(floored, "guarantee_for", [sys], adjacency=secret)
    yield _public("Gateway", noise, grid=0.1, resolution=0.1, note="line 3", block=2)
    yield Door(
        "Gateway.publish",
        lambda y, index=None: pc.Gateway(noise, floating=True).publish(y, index),
        ([1.0, 2.0],),
        {"index": 2},
    )
    saved = Path(tempfile.mkdtemp()) / "noise.json"
    noise.save(saved)
    yield _public("load", saved)
    spy = pc.eavesdropper(noise, prior=np.eye(3))
    yield _of(spy, "error_covariance", 1)
    yield _of(spy, "estimate", np.zeros((2, T)))


def shape_doors() -> Iterator[Door]:
    """Changes of any shape, events at another time or signal, bounds, and radial laws."""
    sys = plant()
    budget = pc.PrivacyBudget(epsilon=1.0, delta=1e-2)
    inputs = {"u": 1.0, "w": 0.5}
    secrets = [
        {"radius": {"w": 1.0}, "duration": 3, "shape": "any"},
        {"radius": inputs, "duration": 2, "together": True},
        {"radius": inputs, "which": True, "times": [1, 2]},
        {"radius": {"w": 1.0}, "moved": 2},
        {"radius": inputs, "moved": 2, "which": True},
        {"radius": {"w": 1.0}, "moved": 1, "duration": 2, "shape": "level"},
        {"radius": {"w": 1.0}, "duration": 2, "events": 2, "separation": 3},
    ]
    made = []
    for options in secrets:
        yield _public("DisturbanceAdjacency", **options)
        adjacency = pc.DisturbanceAdjacency(**options)
        asked = {"horizon": T + 3, "budget": budget, "adjacency": adjacency}
        yield _public("design_output_noise", sys, **asked, floor=0.1, gap=0.1)
        if "times" not in options:
            endless = asked | {"horizon": np.inf}
            yield _public("design_output_noise", sys, **endless)
        yield _public("options", sys, **asked)
        noise = pc.design_output_noise(sys, **asked, floor=0.1, max_std=np.inf)
        made.append(noise)
        yield _of(noise.guarantee, "repeated", 2, separation=4)
        yield _of(noise.guarantee, "released", 2)
        yield _of(noise, "guarantee_for", [sys], adjacency=adjacency)
    yield _of(made[0], "record", name="a", curators=["b"], date="2026-11-27")
    yield _public(
        "options",
        sys,
        horizon=T,
        budget=budget,
        adjacency=pc.DisturbanceAdjacency({"w": 1.0}, duration=2, shape="level"),
    )
    level = pc.DisturbanceAdjacency({"w": 1.0}, duration=2, shape="level")
    asked = {"horizon": T, "budget": budget, "adjacency": level}
    known = pc.design_output_noise(sys, **asked, max_std=np.inf).guarantee
    yield _of(known, "any_shape")
    bound = dict.fromkeys(sys.output_labels, 200.0)
    for limits in ({"horizon": T}, {"horizon": np.inf, "life": 2 * T}):
        yield _public("design_output_noise", sys, **(asked | limits), bound=bound)
    within = pc.design_output_noise(sys, **asked, bound=bound)
    yield _of(within.guarantee, "repeated", 2, separation=4)
    yield _of(within, "sample", 2, rng=0)
    first = pc.StateAdjacency({"a": 1.0}, times=0)
    for family in ("ball", "truncated", "auto"):
        radial = {"horizon": T, "budget": budget, "adjacency": first, "family": family}
        yield _public("design_output_noise", sys, **radial, models="exact")
        noise = pc.design_output_noise(sys, **radial, models="exact", max_std=np.inf)
        yield _of(noise, "sample", 2, rng=0)
        yield _of(noise, "with_std", 5.0)
        weights = {"Q": np.eye(3), "R": np.eye(2), "QN": np.eye(3), "RN": np.eye(2)}
        yield _public(
            "private_lqg",
            sys,
            **weights,
            noise=noise,
            P0=np.eye(3),
            codesign=True,
            family=family,
        )
        loop = pc.private_lqg(sys, **weights, noise=noise, P0=np.eye(3))
        yield _of(loop, "margins", np.eye(3)[0], probability=0.99, sure=False)
        yield _of(loop, "record", name="a")
    query = pc.LinearQuery(np.eye(3))
    for family in ("ball", "auto"):
        yield _public(
            "design_noise",
            query,
            pc.BallAdjacency(1.0),
            budget,
            family=family,
            weight=np.eye(3),
            releases=2,
        )
    graph = nx.cycle_graph(5)
    yield _public(
        "private_consensus", graph, budget, 1.0, weights="metropolis", family="ball"
    )


def nonlinear_doors() -> Iterator[Door]:
    """Loops around a nonlinear plant."""

    def rates(t, x, u, params):
        return [0.9 * x[0] + 0.05 * np.tanh(x[0]) + u[0]]

    names = {"states": ["a"], "inputs": ["u"], "outputs": ["a"], "dt": 1.0}
    sys = ct.nlsys(rates, None, **names)
    box = pc.jacobian_polytope(sys, {"a": (-9, 9), "u": (-1, 1)})
    noise = pc.design_output_noise(
        box.nominal,
        horizon=T,
        budget=pc.PrivacyBudget(gdp=1.0),
        adjacency=pc.StateAdjacency({"a": 0.1}, times=0),
        family="iid-gaussian",
        models=box,
    )
    gain = {"controls": ["u"], "operating_point": ([0.0], [0.0])}
    yield _public("private_loop", sys, [[0.2]], [[0.5]], noise, **gain)
    yield _public("private_feedback", sys, 0.2, noise, **gain)
    loop = pc.private_feedback(sys, 0.2, noise, **gain)
    yield _of(loop, "simulate", saturation=0.5, trials=2, rng=0)


def loop_doors() -> Iterator[Door]:
    """Loops through the gate."""
    yield from nonlinear_doors()
    sys = plant()
    budget = pc.PrivacyBudget(epsilon=1.0, delta=1e-2)
    secret = pc.StateAdjacency({"a": 1.0}, times=0)
    noise = pc.design_output_noise(sys, horizon=T, budget=budget, adjacency=secret)
    weights = {"Q": np.eye(3), "R": np.eye(2), "QN": np.eye(3), "RN": np.eye(2)}
    K = 0.1 * np.ones((2, 3))
    L = 0.1 * np.ones((3, 2))
    loop = pc.private_lqg(sys, **weights, noise=noise)
    signals = {
        "timepts": loop.noise.timepts,
        "reference": np.zeros(3),
        "feedforward": np.zeros((2, T)),
        "initial_state": np.ones(3),
        "initial_estimate": np.zeros(3),
        "disturbance": np.zeros((3, T)),
        "measurement_noise": "design",
    }
    yield _public("private_loop", sys, K, L, noise, **weights, name="loop")
    yield _public("private_lqg", sys, *weights.values(), noise, G=np.eye(3))
    pi = ct.ss(np.eye(2), 0.01 * np.eye(2), np.eye(2), 0, sys.dt)
    yield _public("private_loop", sys, controller=pi, noise=noise, **weights)
    yield _public("private_feedback", sys, pi, noise, sign=-1, **weights)
    yield _public("private_lqg", sys, *weights.values(), noise, integral=["y"])
    yield _of(loop, "simulate", **signals, trials=3, rng=0)
    yield _of(loop, "mean_square_error", **signals)
    yield _of(loop, "cost", **signals)
    yield _of(loop, "simulate", saturation=1.0, trials=3, rng=0)
    yield _of(loop, "with_noise", noise)
    yield _of(loop, "noise_weight", T)
    yield _public("LoopCost", 1.0, 1.0, 1.0)
    yield _public(
        "options",
        sys,
        horizon=T,
        budget=pc.PrivacyBudget(epsilon=1.0, delta=1e-2),
        adjacency=pc.StateAdjacency({"a": 1.0}),
    )
    yield _public("horizon_growth", sys, pc.StateAdjacency({"a": 1.0}), [2, 4])
    yield _public(
        "tradeoff",
        sys,
        *weights.values(),
        horizon=T,
        adjacency=secret,
        epsilons=[0.5, 1.0],
        delta=1e-2,
        designs=("trace",),
    )
    response = loop.simulate(trials=3, rng=0)
    yield _of(response, "mean", signals=["a"])
    yield _of(response, "quantile", 0.5, signals=["a"])
    yield _of(response, "mse", np.zeros(3))
    yield _of(response, "to_pandas")


def consensus_doors() -> Iterator[Door]:
    """Networks of agents."""
    budget = pc.PrivacyBudget(epsilon=1.0, delta=1e-2)
    graph = nx.cycle_graph(5)
    network = consensus.read_network(graph, weights="metropolis")
    made = pc.private_consensus(graph, budget, 1.0, weights="metropolis")
    values = np.arange(5.0)
    yield _public("private_consensus", graph, budget, 1.0, weights="metropolis")
    yield _public(
        "private_consensus",
        graph,
        budget,
        1.0,
        weights="metropolis",
        pairwise_std=5.0,
        coalition=1,
    )
    yield _public("read_network", graph, weights="metropolis", weight="weight")
    yield _public("pair_keys", network)
    yield _public("NodeAdjacency", 1.0, moves="one")
    yield _public("PrivateConsensus", network, np.ones(5), pc.NodeAdjacency(1.0))
    yield _of(made, "simulate", values, 4, trials=2, rng=0, keep_states=True)
    for name in ("mean_square_error", "error_bound", "mean_error"):
        yield _of(made, name, values, 4)
    yield _of(made, "path_error_bound", values, 4, noise=np.ones(5))
    yield _of(made, "limit_error_bound", values)
    yield _of(made, "limit_mean_square_error", readout="message")
    yield _of(made, "guarantee_for", node=0)
    shared = pc.private_consensus(
        graph, budget, 1.0, weights="metropolis", pairwise_std=5.0, coalition=1
    )
    keys = consensus.pair_keys(network)[0]
    yield _of(shared, "guarantee_for", "pair", coalition=[1])
    yield _public("worst_coalition", shared)
    yield _of(shared, "agent", 0, 20.5, keys)
    yield _public("Agent", shared.noise, 0, 20.5, keys)
    yield _of(shared.agent(0, 20.5, keys), "update", {1: 21.0})
    speaking = shared.agent(0, 20.5, keys)
    speaking.message()
    yield _of(speaking, "repair", [1])
    yield _public("optimal_consensus_epsilon", 2.0, 5, 1.0, delta=1e-2)
    yield _public("optimal_consensus_error", budget, 5, 1.0)
    yield _public("optimal_consensus_scales", 2.0, np.ones(5), objective="worst")


AREAS = {
    "core": core_doors,
    "inference": inference_doors,
    "trajectory": trajectory_doors,
    "varying": varying_doors,
    "designs": design_doors,
    "shapes": shape_doors,
    "loop": loop_doors,
    "consensus": consensus_doors,
}
