"""Random designs of every kind that `privcontrol.verify` checks, by name and seed."""

import warnings
from functools import cache

import cases
import control as ct
import numpy as np
import scipy.linalg

import privcontrol as pc


def plant_of(rng, outputs=None, inputs=None, radius=None, most=4):
    """A random plant of up to four states, or at ``most`` others."""
    return cases.random_plant(
        int(rng.integers(1 << 30)),
        states=int(rng.integers(1, most + 1)),
        inputs=inputs or int(rng.integers(1, 3)),
        outputs=outputs or int(rng.integers(1, 3)),
        radius=radius or rng.uniform(0.5, 0.97),
    )


def state(rng, plant, times=None):
    name = str(rng.choice(plant.state_labels))
    return pc.StateAdjacency({name: rng.uniform(0.1, 1)}, times=times)


def signal(rng, plant, **options):
    names = plant.input_labels + plant.state_labels * int(rng.integers(2))
    return pc.DisturbanceAdjacency(
        {str(rng.choice(names)): rng.uniform(0.1, 1)}, **options
    )


def shapes(rng):
    return [rng.normal(size=int(rng.integers(1, 6))) for _ in range(2)]


def moved(rng, kind):
    """How far events move in time, to other signals, and how long they are."""
    options = {"which": "which" in kind}
    if "moved" in kind:
        options["moved"] = int(rng.integers(1, 12))
    if "level" in kind:
        options |= {"duration": int(rng.integers(2, 5)), "shape": "level"}
    return options


def near(rng, plant, count=2):
    return pc.PlantBox.around(plant, relative=1e-3).sampled(count, rng=0)[-count:]


def states_over_run(rng, kind):
    if kind in ("states long", "states growing"):  # with more moves than are all proved
        step = 1.0 if kind == "states long" else 1.002
        lag = ct.ss([[step]], [[1.0]], [[1.0]], [[0.0]], True)
        return lag, {"horizon": 300, "adjacency": pc.StateAdjacency({"x[0]": 1.0})}
    plant = plant_of(rng, radius=rng.uniform(0.7, 1.02))
    run = {"horizon": int(rng.integers(2, 40))}
    secret = state(rng, plant, None if rng.random() < 0.6 else 0)
    if kind == "chosen times":
        secret = state(rng, plant, sorted({0, 1, run["horizon"] - 1}))
    elif kind in ("two secrets", "two secrets laplace"):
        secret = [secret, pc.InitialStateAdjacency(rng.uniform(0.1, 1), norm=1)]
    elif kind.startswith("ball"):
        norm = {"ball 1": 1, "ball inf": np.inf}.get(kind, 2)
        secret = pc.InitialStateAdjacency(rng.uniform(0.1, 1), norm=norm)
    if "floor" in kind or kind in ("models", "grid"):
        run["floor"] = rng.uniform(0.1, 1, plant.noutputs)
    if "models" in kind:
        run["models"] = near(rng, plant)
    if "grid" in kind:
        run["resolution"] = 1e-3
    if kind == "own shape":
        run["factor"] = rng.normal(size=(plant.nstates, plant.nstates))
    if "laplace" in kind or "independent" in kind:
        law = "laplace" if "laplace" in kind else "gaussian"
        run["family"] = f"iid-{law}" if "independent" in kind else law
    if kind == "ball laplace own":
        run["factor"] = rng.normal(size=(plant.nstates, plant.nstates))
    return plant, run | {"adjacency": secret}


def radial(rng, kind):
    """Noise of a radial law, whole or cut off, which hides states of the exact plant."""
    most = 2 if "truncated" in kind else 4
    plant = plant_of(rng, radius=rng.uniform(0.7, 1.02), most=most)
    secret = state(rng, plant, None if rng.random() < 0.6 else 0)
    if "ball" in kind:
        secret = pc.InitialStateAdjacency(rng.uniform(0.1, 1))
    elif "two secrets" in kind:
        secret = [secret, pc.InitialStateAdjacency(rng.uniform(0.1, 1), norm=1)]
    law = "truncated" if "truncated" in kind else "ball"
    run = {"horizon": int(rng.integers(2, 40)), "family": law}
    return plant, run | {"adjacency": secret}


def blocks(rng, kind):
    """Noise in independent blocks, for a weight that reads fewer directions than are hidden."""
    lags = np.diag(rng.uniform(0.6, 0.95, 3 if "three" in kind else 2))
    read = rng.uniform(0.5, 2, (1, len(lags))) * rng.choice([-1, 1], len(lags))
    secret = pc.StateAdjacency(rng.uniform(0.1, 1), times=[0])
    if "plane" in kind:  # a move at any time is one of many directions
        angle = rng.uniform(0.5, 1.5)
        turn = [[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]]
        lags = scipy.linalg.block_diag(turn, rng.uniform(0.7, 0.9))
        read = np.eye(2, 3)
        secret = pc.StateAdjacency(rng.uniform(0.1, 1))
    plant = ct.ss(lags, np.ones((len(lags), 1)), np.eye(len(lags)), 0, 1.0)
    run = {
        "horizon": int(rng.integers(3, 12)),
        "family": "ball",
        "weight": read.T @ read,
    }
    return plant, run | {"adjacency": secret}


def delayed(rng, kind):
    plant = plant_of(rng, outputs=1, inputs=1)
    sides = {plant.input_labels[0]: 1}
    if kind == "delayed outputs":
        sides = {plant.output_labels[0]: 2}
    own = str(rng.choice(plant.state_labels))
    plant = pc.with_delays(plant, sides)
    run = {"horizon": int(rng.integers(4, 20))}
    if rng.random() < 0.5:
        run["floor"] = 0.5
    return plant, run | {"adjacency": pc.StateAdjacency({own: rng.uniform(0.1, 1)})}


def signals_over_run(rng, kind):
    plant = plant_of(rng)
    run = {"horizon": int(rng.integers(5, 24))}
    secret = signal(rng, plant)
    if kind.startswith("run any"):
        options = {"duration": int(rng.integers(2, 30 if "long" in kind else 8))}
        if "several" in kind:
            options |= {"events": 3, "separation": int(rng.integers(1, 9))}
        secret = signal(rng, plant, **options)
        if "together" in kind:
            secret = pc.DisturbanceAdjacency(
                rng.uniform(0.1, 1), duration=int(rng.integers(1, 5)), together=True
            )
    elif "moved" in kind or "which" in kind:
        options = moved(rng, kind)
        if "several" in kind:
            options |= {"events": 3, "separation": int(rng.integers(1, 9))}
        radius = {name: rng.uniform(0.1, 1) for name in plant.input_labels}
        secret = pc.DisturbanceAdjacency(radius, **options)
    elif "several" in kind:
        apart = int(rng.integers(1, 6))
        longest = int(rng.integers(2, 6)) if "lasting" in kind else 1
        options = {"duration": longest, "shape": "level"}
        secret = signal(rng, plant, events=3, separation=apart, **options)
    elif "lasting" in kind:
        secret = signal(rng, plant, duration=int(rng.integers(2, 6)), shape="level")
    elif kind.startswith("run shapes"):
        secret = signal(rng, plant, profiles=shapes(rng))
    elif kind.startswith("run energy"):
        secret = signal(rng, plant, norm="l2")
    elif kind == "run times":
        secret = signal(rng, plant, times=[0, 2, 4])
    elif kind == "run two secrets":
        secret = [state(rng, plant, 0), secret]
    is_independent = "independent" in kind or "laplace" in kind
    if "floor" in kind or ("models" in kind and not is_independent):
        run["floor"] = rng.uniform(0.1, 1, plant.noutputs)
    if "models" in kind:
        run["models"] = near(rng, plant)
    if "independent" in kind:
        run["family"] = "iid-gaussian"
    if "grid" in kind:
        run["resolution"] = 1e-3
    if "laplace" in kind:
        run["family"] = "iid-laplace"
    if kind.startswith("run long"):
        run["horizon"] = int(rng.integers(60, 90))
    return plant, run | {"adjacency": secret}


def tank(rng):
    """Two coupled tanks and what flows into them, with a pole at one."""
    a, b = rng.uniform(0.05, 0.3, 2)
    A = [[1 - a, b], [a, 1 - b]] if rng.random() < 0.5 else [[1, 0], [a, 1 - b]]
    return ct.ss(
        A,
        np.eye(2),
        [[1, 1]],
        0,
        1.0,
        inputs=["u[0]", "u[1]"],
        states=["s0", "s1"],
        outputs=["level"],
    )


def endless(rng, kind):
    signals = 1 if "plant" in kind and "which" not in kind else 2
    plant = plant_of(rng, outputs=2 if "plant" in kind else 1, inputs=signals)
    names = plant.input_labels
    radius = {name: rng.uniform(0.1, 1) for name in names}
    run = {"horizon": np.inf}
    options = {}
    far = 34 if "far" in kind else 0  # so far that an autoregression hides it
    if "lasting" in kind:
        options |= {"duration": int(rng.integers(2, 12)) + far, "shape": "level"}
    if "shapes" in kind:
        options["profiles"] = shapes(rng)
    if "any" in kind:
        options["duration"] = int(rng.integers(2, 50 if "long" in kind else 12))
        options["together"] = "together" in kind
    if "moved" in kind or "which" in kind:
        options |= moved(rng, kind)
        options["moved"] = options.get("moved", 0) + far
    if "tank" in kind or "actuators" in kind:
        plant = tank(rng) if "tank" in kind else behind_actuators(rng)
        radius = {name: rng.uniform(0.1, 1) for name in plant.input_labels}
    if "several" in kind:
        options |= {"events": int(rng.integers(2, 6))}
        if "apart" in kind:
            options["separation"] = int(rng.integers(1, 20))
        if "short" in kind:  # of which several are within one decay of the plant
            options |= {"events": 20, "duration": int(rng.integers(1, 4))}
            options |= {"separation": int(rng.integers(3, 6)), "shape": "level"}
    if "energy" in kind:
        options["norm"] = "l2"
    secret = pc.DisturbanceAdjacency(radius, **options)
    if "states" in kind:
        secret = state(rng, plant, 0)
    if "ball" in kind:
        secret = pc.InitialStateAdjacency(rng.uniform(0.1, 1))
    if "floor" in kind:
        run["floor"] = rng.uniform(0.01, 0.3)
    if "models" in kind:
        run["models"] = near(rng, plant)
    if "independent" in kind:
        run["family"] = "iid-gaussian"
    if "two secrets" in kind:
        secret = [secret, state(rng, plant, 0)]
    if "periodic" in kind:
        return periodic(rng, plant), run | {"adjacency": secret}
    return plant, run | {"adjacency": secret}


def behind_actuators(rng):
    """Two oscillating modes that slow and fast lags drive, with one or two outputs."""
    A = scipy.linalg.block_diag([[0, 1], [-1, -0.1]], [[0, 1], [-9, -0.3]])
    C = np.array([[1, 0, 0.1, 0], [0, 0.2, 0, 0.3]])[: int(rng.integers(1, 3))]
    plant = ct.ss(A, [[0], [1], [0], [1]], C, 0)
    for rate in rng.choice([1, 2, 5, 10, 20], int(rng.integers(1, 4)), replace=False):
        plant *= ct.ss(-rate, rate, 1, 0)
    return plant.sample(0.05)


def periodic(rng, plant):
    """A plant whose readings take turns between two gains."""
    other = ct.ss(plant.A, plant.B, rng.uniform(0.5, 2) * plant.C, plant.D, plant.dt)
    return [plant, named(other, plant)]


def local(rng, kind):
    """A thermostat's setpoint, which a local controller follows."""
    room = ct.ss(
        0.9,
        [[0.1, 0.05]],
        1,
        0,
        300.0,
        inputs=["u", "people"],
        states=["air"],
        outputs=["t"],
    )
    keeper = ct.ss(
        1.0,
        [[0.2, -0.2]],
        0.3,
        [[0.5, -0.5]],
        300.0,
        inputs=["r", "t"],
        outputs=["u"],
        states=["sum"],
    )
    closed = pc.with_local_loop(room, keeper)
    name = str(rng.choice(closed.input_labels))
    secret = pc.DisturbanceAdjacency(
        {name: rng.uniform(0.1, 1)}, duration=int(rng.integers(1, 9)), shape="level"
    )
    horizon = np.inf if rng.random() < 0.5 else 20
    return closed, {"horizon": horizon, "adjacency": secret}


def varying(rng, kind):
    """A list of plants, one a sample, which are not alike."""
    first = plant_of(rng)
    run = {"horizon": int(rng.integers(3, 20))}
    plants = []
    for _ in range(run["horizon"]):
        plant = plant_of(rng, outputs=first.noutputs, inputs=first.ninputs)
        while plant.nstates != first.nstates:
            plant = plant_of(rng, outputs=first.noutputs, inputs=first.ninputs)
        plants.append(plant)
    secret = signal(rng, first) if "run" in kind else state(rng, first)
    if "ball" in kind:
        secret = pc.InitialStateAdjacency(rng.uniform(0.1, 1))
    if "any" in kind:
        secret = signal(rng, first, duration=3)
    if "lasting" in kind:
        secret = signal(rng, first, duration=3, shape="level")
    if "shapes" in kind:
        secret = signal(rng, first, profiles=shapes(rng))
    if "two secrets" in kind:
        secret = [secret, state(rng, first, 0)]
    if "several" in kind:
        secret = signal(rng, first, events=2, separation=2)
    if "energy" in kind:
        secret = signal(rng, first, norm="l2")
    if "floor" in kind or "models" in kind:
        run["floor"] = rng.uniform(0.1, 1, first.noutputs)
    if "grid" in kind:
        run["resolution"] = 1e-3
    if "models" in kind:
        near = [ct.ss(x.A * 1.001, x.B, x.C, x.D, x.dt) for x in plants]
        run["models"] = [[named(x, first) for x in near]]
    if "independent" in kind:
        run["family"] = "iid-laplace" if "laplace" in kind else "iid-gaussian"
    return plants, run | {"adjacency": secret}


def named(plant, other):
    """Give a plant the labels of another one."""
    plant.set_states(other.state_labels)
    plant.set_inputs(other.input_labels)
    plant.set_outputs(other.output_labels)
    return plant


KINDS = dict.fromkeys(
    (
        "states", "floor", "chosen times", "two secrets", "two secrets floor", "ball", "ball 1",
        "ball inf", "ball floor", "models", "grid", "own shape", "independent", "laplace",
        "independent laplace", "states long", "states growing", "ball laplace",
        "ball laplace own", "two secrets laplace", "independent models", "independent grid",
        "independent laplace models", "independent laplace grid",
    ),
    states_over_run,
)  # fmt: skip
KINDS |= dict.fromkeys(
    (
        "radial", "radial ball", "radial two secrets", "radial releases", "truncated",
        "truncated ball",
    ),
    radial,
)  # fmt: skip
KINDS |= dict.fromkeys(
    ("blocks", "blocks three", "blocks plane", "blocks releases"), blocks
)
KINDS |= dict.fromkeys(("delayed inputs", "delayed outputs"), delayed)
KINDS |= dict.fromkeys(
    (
        "run", "run floor", "run lasting", "run lasting floor", "run shapes", "run several",
        "run several floor", "run energy", "run energy floor", "run times", "run two secrets",
        "run two secrets floor", "run models", "run energy models", "run grid floor",
        "run independent", "run laplace", "run long", "run any", "run any floor",
        "run any several", "run any together", "run any laplace", "run any models",
        "run any independent", "run any long", "run moved", "run moved level", "run which",
        "run moved which", "run which level floor", "run moved several", "run moved models",
        "run several lasting", "run several lasting floor", "run long lasting", "run long floor",
        "run long several", "run long grid floor", "run independent models", "run laplace models",
        "run independent grid", "run laplace grid",
    ),
    signals_over_run,
)  # fmt: skip
KINDS |= dict.fromkeys(
    (
        "endless", "endless floor", "endless lasting", "endless lasting floor", "endless shapes",
        "endless several", "endless several apart", "endless several apart lasting",
        "endless several apart floor", "endless energy", "endless energy floor",
        "endless independent", "endless independent energy", "endless states", "endless ball",
        "endless models", "endless models floor", "endless plant", "endless plant floor",
        "endless plant lasting", "endless plant energy", "endless two secrets", "endless any",
        "endless any floor", "endless any long", "endless any several", "endless any several apart",
        "endless any together", "endless any models", "endless any plant",
        "endless any independent", "endless moved", "endless moved level", "endless which",
        "endless moved which", "endless moved floor", "endless moved tank",
        "endless moved level tank", "endless moved several apart", "endless moved several",
        "endless which several", "endless moved which several", "endless moved level several",
        "endless moved independent",
        "endless moved far", "endless moved level far", "endless lasting far",
        "endless moved far floor", "endless moved far tank", "endless several apart short",
        "endless several apart short floor", "endless actuators", "endless actuators lasting",
        "endless actuators any", "endless actuators floor", "endless periodic",
        "endless periodic floor",
    ),
    endless,
)  # fmt: skip
KINDS["local loop"] = local
KINDS |= dict.fromkeys(
    (
        "varying", "varying floor", "varying ball", "varying models", "varying run",
        "varying run floor", "varying run any", "varying run several",
        "varying run energy floor", "varying run independent",
        "varying run independent laplace", "varying run lasting", "varying run shapes floor",
        "varying run two secrets", "varying run grid floor", "varying grid floor",
    ),
    varying,
)  # fmt: skip


#: Some kinds, of which files are proved always; tests/stress/verify_files.py has all of them.
SOME = (
    "two secrets",
    "ball floor",
    "ball laplace own",
    "models",
    "grid",
    "delayed inputs",
    "delayed outputs",
    "run lasting",
    "run shapes",
    "run several floor",
    "run energy floor",
    "run models",
    "run laplace",
    "run any several",
    "run any together",
    "run any laplace",
    "run any long",
    "run moved which",
    "run moved several",
    "endless any floor",
    "endless any long",
    "endless any several apart",
    "endless moved level tank",
    "endless moved several",
    "endless moved far",
    "endless lasting far",
    "endless which",
    "endless several apart lasting",
    "endless energy floor",
    "endless models floor",
    "endless plant floor",
    "endless two secrets",
    "local loop",
    "radial",
    "radial ball",
    "radial releases",
    "blocks three",
    "blocks plane",
    "blocks releases",
    "truncated",
    "varying",
    "varying floor",
    "varying models",
    "varying run any",
    "varying run several",
    "varying run energy floor",
    "two secrets laplace",
    "independent laplace grid",
    "run several lasting",
    "run long grid floor",
    "endless several apart short",
    "endless actuators lasting",
    "endless periodic",
    "varying run two secrets",
)


def design(kind, seed):
    """Return the noise of a kind and a seed, None if the library refuses the request."""
    rng = np.random.default_rng([seed, *kind.encode()])
    laplace = "laplace" in kind
    budget = pc.PrivacyBudget(
        epsilon=rng.uniform(0.2, 3), delta=0.0 if laplace else 1e-3
    )
    if not laplace and rng.random() < 0.3:
        budget = pc.PrivacyBudget(gdp=rng.uniform(0.1, 2))
    releases = int(rng.integers(1, 4))
    if KINDS[kind] in (radial, blocks):  # their promises about a gdp are not covered
        budget = pc.PrivacyBudget(epsilon=rng.uniform(0.2, 3), delta=1e-3)
        releases = releases if "releases" in kind else 1
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        plant, request = KINDS[kind](rng, kind)
        try:
            return pc.design_output_noise(
                plant,
                budget=budget,
                releases=releases,
                max_std=np.inf,
                **{"models": "exact"} | request,
            )
        except (ValueError, pc.PrivacyError, pc.UncertifiableError):
            return None


@cache
def first_design(kind, seeds=9):
    """The noise of the first seed for which there is one, or None."""
    return next((found for seed in range(seeds) if (found := design(kind, seed))), None)
