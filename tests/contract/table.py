"""Requests through the public doors, by name: what the golden numbers are about.

Each request is cheap, and drawn from a seed where it is not from the literature. Nothing
here imports an inner module, so the table survives every rebuilding of the inside.
"""

import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from itertools import product

import control as ct
import numpy as np

import privcontrol as pc
from privcontrol.regions import IdentifiedPlant

BUDGET = pc.PrivacyBudget(epsilon=1.0, delta=1e-2)
PURE = pc.PrivacyBudget(epsilon=1.0)


@dataclass(frozen=True)
class Request:
    """Arguments of `design_output_noise`, and what is known of the answer.

    Attributes
    ----------
    exact : bool
        Whether the certified shift is attained by an adjacent move of the nominal plant.
    models : sequence of StateSpace
        Plants beside the nominal one under which moves must be hidden.
    varying : bool
        Whether the plant may be another one of the models at every sample.
    own : int, optional
        Number of states that are no delays; the delays of inputs or outputs follow.
    """

    plant: ct.StateSpace
    asked: dict
    exact: bool = True
    models: tuple = ()
    varying: bool = False
    own: int | None = None

    @property
    def secrets(self) -> list:
        """The adjacencies, each of which is hidden."""
        adjacency = self.asked["adjacency"]
        return adjacency if isinstance(adjacency, list) else [adjacency]

    @property
    def samples(self) -> int:
        """Number of samples at which the noise is looked at."""
        horizon = self.asked["horizon"]
        return 24 if horizon == np.inf else horizon

    @property
    def resolution(self) -> float:
        return self.asked.get("resolution", 0.0)

    def design(self) -> pc.OutputNoise:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", pc.PrivacyWarning)
            return pc.design_output_noise(self.plant, **self.asked)


# -- plants ------------------------------------------------------------------------------


def random_plant(seed, states=3, outputs=2, inputs=1, radius=0.9, feedthrough=False):
    """A plant of given spectral radius, from its seed."""
    rng = np.random.default_rng(seed)
    A = rng.normal(size=(states, states))
    A *= radius / np.abs(np.linalg.eigvals(A)).max()
    B = rng.normal(size=(states, inputs))
    C = rng.normal(size=(outputs, states))
    D = rng.normal(size=(outputs, inputs)) * feedthrough
    labels = [f"s{i}" for i in range(states)]
    return ct.ss(A, B, C, D, 0.1, states=labels, name=f"random{seed}")


def room(pole=0.9, gain=0.5):
    """A room with a wall, which people heat."""
    return ct.ss(
        [[pole, 0.05], [0.1, 0.8]],
        [[gain], [0.1]],
        [[1.0, 0.0]],
        0,
        300.0,
        states=["air", "wall"],
        inputs=["people"],
        outputs=["temperature"],
    )


def lag(pole, gain=1.0):
    names = dict(states=["air"], inputs=["people"], outputs=["temperature"])
    return ct.ss(pole, gain, 1.0, 0.0, 300.0, **names)


def _level(t, x, u, params):
    return [u[0] - 0.2 * np.sqrt(x[0])]


def tank():
    """A nonlinear tank, sampled."""
    names = dict(states=["level"], inputs=["flow"], outputs=["level_meter"])
    return pc.sample_nonlinear(ct.nlsys(_level, None, **names), 1.0)


PLANTS = {
    "vehicle": pc.plants.vehicle(),
    "room": room(),
    "three": random_plant(0),
    "direct": random_plant(1, states=2, inputs=2, feedthrough=True),
    "four": random_plant(2, states=4, outputs=1),
    "growing": random_plant(3, states=2, outputs=1, radius=1.1),
    "lag": lag(0.5),
}

SECRETS = {
    "any": pc.StateAdjacency(1.0),
    "some": pc.StateAdjacency([1.0, 0.5], states=[0, 1], times=range(3)),
    "first": pc.StateAdjacency(0.7, times=0),
    "ball": pc.InitialStateAdjacency(1.0),
    "diamond": pc.InitialStateAdjacency(1.0, norm=1),
    "cube": pc.InitialStateAdjacency(0.5, norm=np.inf),
}
ENTERING = {
    "impulse": pc.DisturbanceAdjacency(1.0),
    "early": pc.DisturbanceAdjacency(0.5, times=[0, 2]),
    "lasting": pc.DisturbanceAdjacency(0.3, duration=3, shape="level"),
    "shaped": pc.DisturbanceAdjacency(0.4, profiles=[[1.0, -2.0, 0.5], [1.0]]),
    "energy": pc.DisturbanceAdjacency(0.8, norm="l2"),
}
APART = pc.DisturbanceAdjacency(0.5, duration=2, shape="level", events=2, separation=3)
JOINT = {
    "state and impulse": [SECRETS["first"], ENTERING["impulse"]],
    "ball and state": [SECRETS["ball"], SECRETS["some"]],
    "ball and energy": [SECRETS["ball"], ENTERING["energy"]],
}


# -- noise over a horizon ----------------------------------------------------------------


def _asked(adjacency, horizon=8, family="gaussian", **options) -> dict:
    budget = PURE if family.endswith("laplace") else BUDGET
    asked = dict(horizon=horizon, budget=budget, adjacency=adjacency, family=family)
    return {**asked, "max_std": np.inf, **options}


def _exact_models() -> Iterator[tuple[str, Request]]:
    """Every secret under every plant, family by family."""
    families = ("gaussian", "iid-gaussian", "iid-laplace")
    sizes = {"vehicle": 9, "room": 8, "three": 5, "direct": 6, "four": 7, "growing": 6}
    for (plant, horizon), (name, secret) in product(sizes.items(), SECRETS.items()):
        family = families[(horizon + len(name)) % 3]
        for kind in dict.fromkeys(("gaussian", family)):
            asked = _asked(secret, horizon, kind, models="exact")
            # the 1-norm of a ball's images is bounded only
            is_exact = (name, kind) != ("ball", "iid-laplace")
            request = Request(PLANTS[plant], asked, exact=is_exact)
            yield f"{name}, {plant}, {kind}", request
    for plant, (name, secret) in product(("room", "direct"), ENTERING.items()):
        for kind in ("gaussian", "iid-gaussian"):
            asked = _asked(secret, sizes[plant], kind)
            yield f"{name}, {plant}, {kind}", Request(PLANTS[plant], asked)
    for name, secret in JOINT.items():
        yield f"{name}, room", Request(PLANTS["room"], _asked(secret, 7))
        yield f"{name}, direct", Request(PLANTS["direct"], _asked(secret, 5))


def _options() -> Iterator[tuple[str, Request]]:
    """One option of the door at a time."""
    some, vehicle, three = SECRETS["some"], PLANTS["vehicle"], PLANTS["three"]
    position = pc.StateAdjacency({"position": 1.0})
    rng = np.random.default_rng(7)
    root = rng.normal(size=(10, 10))
    S = rng.normal(size=(3, 3))

    def request(plant, adjacency, horizon=5, **options):
        return Request(plant, _asked(adjacency, horizon, **options))

    exact = dict(models="exact")
    yield "vehicle of the paper", request(vehicle, position, 100, **exact)
    long_times = pc.StateAdjacency(1.0, times=range(0, 60, 7))
    yield "long vehicle", request(vehicle, long_times, 80, **exact)
    yield "one sample", request(PLANTS["lag"], SECRETS["first"], 1, **exact)
    yield "weight of outputs", request(three, some, weight=[1.0, 9.0], **exact)
    yield "weight of pairs", request(three, some, weight=[[2, 1], [1, 3]], **exact)
    yield "weight of a run", request(three, some, weight=root @ root.T, **exact)
    loop = pc.private_loop(vehicle, [[3.4, 4.3]], [[0.8], [0.7]], Q=np.eye(2), R=1)
    yield "weight of a loop", request(vehicle, SECRETS["any"], 8, weight=loop, **exact)
    impulse = ENTERING["impulse"]
    for_load = dict(adjacency=impulse, weight=[1.0, 4.0])
    yield "weight of impulses", request(PLANTS["direct"], **for_load)
    yield "five releases", request(three, some, releases=5, **exact)
    yield "own factor", request(three, some, factor=S, **exact)
    narrow = pc.StateAdjacency({"s1": 2.0}, times=0)
    yield "own rank one", request(three, narrow, factor=[[0], [1], [0]], **exact)
    yield "own covariance", request(three, some, covariance=S @ S.T, **exact)
    yield (
        "own Laplace factor",
        request(three, some, family="laplace", factor=S, scale=True, **exact),
    )
    one = dict(family="laplace", **exact)
    yield "Laplace of one state", request(vehicle, position, 20, **one)
    yield "Laplace of one move", request(three, narrow, **one)
    yield (
        "budget in GDP",
        request(three, some, budget=pc.PrivacyBudget(gdp=0.3), **exact),
    )
    strict = pc.PrivacyBudget(epsilon=0.1, delta=1e-6)
    yield "strict budget", request(three, some, budget=strict, **exact)
    chart = pc.StateAdjacency({"position": 1.0}, charts="all")
    yield "Definition 4", request(vehicle, chart, 4, **exact)
    both = pc.StateAdjacency(1.0, charts="all")
    yield "Definition 4, both states", request(vehicle, both, 3, **exact)
    named = pc.DisturbanceAdjacency({"wall": 0.2})
    yield "impulse into a state", request(PLANTS["room"], named, 6)
    two = pc.DisturbanceAdjacency({"u[0]": 1.0, "u[1]": 0.2}, duration=2, shape="level")
    yield "two inputs", request(PLANTS["direct"], two, 5)
    yield "named ball", request(three, pc.InitialStateAdjacency({"s2": 3.0}), **exact)
    of_data = {
        "entries": pc.ManifoldAdjacency(1.0),
        "ball": pc.BallAdjacency(0.5),
        "move": pc.DirectionAdjacency(np.tile([[1.0], [0.0]], (4, 1))),
    }
    for name, secret in of_data.items():
        yield f"{name} of data", request(vehicle, secret, 4, **exact)
        yield f"{name} of data, floor", request(vehicle, secret, 4, floor=0.5)
        white = dict(family="iid-gaussian")
        yield f"{name} of data, independent", request(vehicle, secret, 4, **white)
    for name, options in {
        "alone": {},
        "floor": {"floor": 0.2},
        "independent": {"family": "iid-gaussian"},
        "Laplace": {"family": "iid-laplace"},
    }.items():
        asked = _asked(APART, 8, **options)
        yield f"events apart, {name}", Request(PLANTS["room"], asked, exact=False)
    two_inputs = _asked(APART, 6)
    direct = PLANTS["direct"]
    yield "events apart, two inputs", Request(direct, two_inputs, exact=False)
    delayed = pc.with_delays(PLANTS["room"], {"people": 2})
    air = pc.StateAdjacency({"air": 1.0})
    asked = _asked(air, 6, **exact)
    yield "delayed input", Request(delayed, asked, own=2)
    yield "delayed input, impulse", request(delayed, impulse, 6)
    late = pc.with_delays(PLANTS["room"], {"temperature": 1})
    yield "delayed output", Request(late, asked, own=2)
    yield "delayed output, ball", request(late, SECRETS["ball"], 6, **exact)
    still = ct.ss([[0.5, 1.0], [0.0, 0.0]], [[0], [1]], [[1, 0]], 0, 1.0)
    yield "singular plant", request(still, SECRETS["first"], 6, **exact)


def _floors() -> Iterator[tuple[str, Request]]:
    """White floors, other models, readings on a grid."""
    floors = {"room": 0.2, "three": [0.1, 0.4], "vehicle": 0.5}
    secrets = {name: SECRETS[name] for name in ("any", "some", "ball")}
    secrets["impulse"] = ENTERING["impulse"]
    for (plant, floor), (name, secret) in product(floors.items(), secrets.items()):
        asked = _asked(secret, 6, floor=floor)
        yield f"floor, {name}, {plant}", Request(PLANTS[plant], asked)
    plant, other = PLANTS["room"], room(0.88, 0.52)
    gridded = _asked(SECRETS["any"], 6, floor=0.4, resolution=0.05)
    yield "grid", Request(plant, gridded, exact=False)
    gridded = _asked(SECRETS["any"], 6, "iid-gaussian", resolution=0.05)
    yield "grid, independent", Request(plant, gridded, exact=False)
    gridded = _asked(SECRETS["any"], 6, "iid-laplace", resolution=0.05)
    yield "grid, Laplace", Request(plant, gridded, exact=False)
    for name in ("first", "ball"):
        asked = _asked(SECRETS[name], 6, floor=0.5, models=[other])
        yield f"two plants, {name}", Request(plant, asked, models=(other,))
    asked = _asked(SECRETS["first"], 6, "iid-gaussian", models=[other])
    yield "two plants, independent", Request(plant, asked, models=(other,))
    asked = _asked(ENTERING["lasting"], 6, floor=0.3, models=[other])
    yield "two plants, lasting", Request(plant, asked, models=(other,))
    asked = _asked(SECRETS["first"], 6, floor="auto", models=[other])
    yield "cheapest floor", Request(plant, asked, models=(other,))
    asked = _asked(SECRETS["first"], 6, floor="auto", resolution=0.02)
    yield "cheapest floor on a grid", Request(plant, asked, exact=False)


# -- regions -----------------------------------------------------------------------------


def _identified() -> IdentifiedPlant:
    """A lag from recorded data."""
    rng = np.random.default_rng(0)
    states, inputs = np.zeros((1, 600)), rng.normal(size=(1, 600))
    for t in range(599):
        driven = 0.5 * states[:, t] + inputs[:, t]
        states[:, t + 1] = driven + 0.05 * rng.normal()
    return pc.identify_states(lag(0.5), states, inputs, confidence=0.999)


def _regions() -> Iterator[tuple[str, Request]]:
    """Boxes and polytopes of plants that stand still or vary."""
    plant = PLANTS["room"]
    box = pc.PlantBox(plant, A=[[0.01, 0.0], [0.0, 0.02]])
    wide = pc.PlantBox(plant, A=[[0.01, 0], [0, 0]], B=[[0.05], [0.0]])
    first, ball, impulse = SECRETS["first"], SECRETS["ball"], ENTERING["impulse"]
    vary = dict(exact=False, varying=True)
    some = (*box.corners(), *box.sampled(6, rng=0))

    def request(models, adjacency, floor, plants, sys=plant, horizon=6, **options):
        asked = _asked(adjacency, horizon, models=models, floor=floor)
        return Request(sys, asked, models=plants, **options)

    still = dict(exact=False)
    yield "box, first", request(box, first, 0.5, some, **still)
    yield "box, ball", request(box, ball, 0.5, some, **still)
    yield "box, any", request(box, SECRETS["any"], 3.0, some, **still)
    corners = tuple(wide.corners())
    yield "box, impulse", request(wide, impulse, 0.3, corners, **still)
    independent = _asked(first, 6, "iid-gaussian", models=box)
    yield "box, independent", Request(plant, independent, models=some, **still)
    around = pc.PlantBox.around(PLANTS["lag"], relative=0.01)
    lags = tuple(around.corners())
    lag_asked = dict(plants=lags, sys=PLANTS["lag"], **still)
    yield "box around a lag", request(around, first, 0.4, **lag_asked)
    yield "box, cheapest floor", request(around, first, "auto", **lag_asked)
    fixed = pc.PlantPolytope([room(0.9), room(0.87), room(0.89, 0.6)], varying=False)
    moving = pc.PlantPolytope([room(0.9), room(0.87), room(0.89, 0.6)])
    vertices = (room(0.9), room(0.87), room(0.89, 0.6), *fixed.sampled(4, rng=0))
    of = dict(plants=vertices, sys=room(0.89))
    yield "polytope, first", request(fixed, first, 0.5, **of, **still)
    yield "polytope, impulse", request(fixed, impulse, 0.5, **of, **still)
    yield "varying, first", request(moving, first, 0.0, **of, **vary)
    yield "varying, impulse", request(moving, impulse, 0.0, **of, **vary)
    lasting = ENTERING["lasting"]
    yield "varying, lasting", request(moving, lasting, 0.0, horizon=4, **of, **vary)
    flow = pc.DisturbanceAdjacency({"flow": 0.02})
    nonlinear = pc.jacobian_polytope(
        tank(), {"level": (0.8, 4.5, "m"), "flow": (0.2, 0.4)}, splits=4
    )
    sys = nonlinear.nominal
    sys = ct.ss(
        *(sys.A, sys.B, sys.C, sys.D, 1.0),
        states=["level"],
        inputs=["flow"],
        outputs=["level_meter"],
        name=getattr(sys, "name", None),
    )
    ends = tuple(nonlinear.sampled(4, rng=0))
    tanks = dict(plants=ends, sys=sys, **vary)
    yield "tank, flow", request(nonlinear, flow, 0.0, **tanks)
    found = _identified()
    inside = tuple(found.box.corners())
    known = dict(plants=inside, sys=found.system, **still)
    yield "identified, first", request(found, first, 0.3, **known)
    yield "identified, impulse", request(found, impulse, 0.3, **known)
    endless = dict(horizon=np.inf, **vary)
    lags = pc.PlantPolytope([lag(0.45), lag(0.55)])
    both = (lag(0.45), lag(0.55))
    of = dict(plants=both, sys=lag(0.5), **endless)
    yield "varying, endless impulse", request(lags, impulse, 0.0, **of)
    yield "varying, endless energy", request(lags, ENTERING["energy"], 0.0, **of)


# -- noise without a horizon -------------------------------------------------------------


def _endless() -> Iterator[tuple[str, Request]]:
    secrets = {
        "impulse": ENTERING["impulse"],
        "lasting": ENTERING["lasting"],
        "shaped": ENTERING["shaped"],
        "energy": ENTERING["energy"],
        "two events": pc.DisturbanceAdjacency(0.5, events=2),
        "events apart": APART,
        "first": SECRETS["first"],
        "ball": SECRETS["ball"],
        "first and impulse": [SECRETS["first"], ENTERING["impulse"]],
    }

    def request(plant, secret, **options):
        return Request(PLANTS[plant], _asked(secret, np.inf, **options), exact=False)

    for plant, (name, secret) in product(("room", "lag", "three"), secrets.items()):
        if plant != "three" or name in ("impulse", "ball"):
            yield f"endless, {name}, {plant}", request(plant, secret)
    impulse = ENTERING["impulse"]
    yield "endless, independent", request("room", impulse, family="iid-gaussian")
    yield "endless, order one", request("room", impulse, order=1)
    yield "endless, order zero", request("room", impulse, order=0)
    yield "endless, small gap", request("room", impulse, gap=1e-3)
    yield "endless, weight", request("direct", impulse, weight=[1.0, 4.0], order=2)
    yield "endless, floor", request("room", impulse, floor=0.1)
    yield "endless, floor, ball", request("room", SECRETS["ball"], floor=0.1)
    yield "endless, floor, energy", request("lag", ENTERING["energy"], floor=0.1)


@cache
def noise_requests() -> dict[str, Request]:
    """All requests for output noise by name."""
    found = {}
    for group in (_exact_models, _options, _floors, _regions, _endless):
        for name, request in group():
            assert name not in found, name
            found[name] = request
    return found


@cache
def designed(name: str) -> pc.OutputNoise:
    """The noise of a request, designed once."""
    return noise_requests()[name].design()


#: Requests whose numbers a correction that is under way changes.
PENDING: dict[str, str] = {}


def is_filtered(name: str) -> bool:
    """Whether the noise is drawn again at every sample, by a filter."""
    return noise_requests()[name].asked["horizon"] == np.inf
