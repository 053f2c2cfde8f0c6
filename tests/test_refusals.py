"""Arguments that no other test refuses: each error says what is wrong, and of what."""

import control as ct
import numpy as np
import pytest

import privcontrol as pc
from privcontrol import core

VEHICLE = pc.plants.vehicle()
BUDGET = pc.PrivacyBudget(epsilon=1.0, delta=1e-2)
EVENT = {VEHICLE.input_labels[0]: 1.0}
SUM = core.AffineManifold([[1.0, 1.0, 0.0]])
WEIGHTS = {"Q": 1.0, "R": 1.0, "QN": 0.1, "RN": 0.1}


def loop(**arguments):
    return pc.private_lqg(VEHICLE, **{**WEIGHTS, **arguments})


def noise(horizon=5):
    adjacency = pc.StateAdjacency({"position": 1.0})
    return pc.design_output_noise(
        VEHICLE, horizon=horizon, budget=BUDGET, adjacency=adjacency, models="exact"
    )


def moves(adjacency, manifold=SUM):
    return adjacency.moves(manifold)


def trajectory(plant, adjacency, horizon=3):
    return pc.design_output_noise(
        plant, horizon=horizon, budget=BUDGET, adjacency=adjacency, models="exact"
    )


def wide(count):
    """A plant of so many states, each of which is published."""
    return ct.ss(np.eye(count) / 2, np.ones((count, 1)), np.eye(count), 0, 1.0)


def named(**labels):
    return ct.ss(0.5, 1.0, 1.0, 0.0, 1.0, **labels)


def nonlinear(change):
    """A system x(t+1) = change(x), within 1 of zero."""
    system = ct.nlsys(
        lambda t, x, u, params: change(x),
        lambda t, x, u, params: x,
        inputs=["u"],
        outputs=["y"],
        states=["x"],
        dt=1.0,
    )
    return pc.jacobian_polytope(system, {"x": (-1.0, 1.0), "u": (-1.0, 1.0)})


REFUSED = {
    "entries twice": (
        lambda: core.ManifoldAdjacency({0: 1.0}, entries=[0]),
        "radius already names the protected entries",
    ),
    "no entry": (
        lambda: moves(core.ManifoldAdjacency(1.0, entries=[7])),
        "entries: 7 is no entry of the data; there are 3",
    ),
    "tied entries": (
        lambda: moves(core.ManifoldAdjacency(1.0, charts=[[0, 1]])),
        "charts: the entries .0, 1. are not free",
    ),
    "an entry that is public": (
        lambda: core.AffineManifold([[1.0, 0.0], [1.0, 0.0]]),
        "the manifold determines x.0.: these entries are public",
    ),
    "states twice": (
        lambda: pc.StateAdjacency({"position": 1.0}, states=["position"]),
        "radius already names the protected states; drop states",
    ),
    "a box of many states": (
        lambda: trajectory(wide(17), pc.InitialStateAdjacency(1.0, norm=np.inf)),
        "norm: a box of 17 states has 2.16 corners",
    ),
    "a level of energy": (
        lambda: pc.DisturbanceAdjacency(EVENT, norm="l2", shape="level"),
        "shape: a level is for norm=.single.",
    ),
    "a profile that moves": (
        lambda: pc.DisturbanceAdjacency(EVENT, profiles=np.ones((1, 3)), moved=2),
        "moved, which: they are for",
    ),
    "events that move together": (
        lambda: pc.DisturbanceAdjacency(EVENT, moved=2, together=True),
        "together: an event that is moved is on one signal",
    ),
    "an unknown control": (
        lambda: loop(controls=["wind"]),
        "controls: 'wind' is no input of the plant; known inputs are",
    ),
    "a cross weight alone": (
        lambda: pc.private_loop(
            VEHICLE, [[1.0, 1.0]], [[0.1], [0.1]], N=[[0.0], [0.0]]
        ),
        "N: a cross weight belongs to Q and R",
    ),
    "another horizon": (
        lambda: loop(noise=noise(5), horizon=6),
        "horizon: the noise has 5 samples, got 6",
    ),
    "inputs before the first sample": (
        lambda: loop(noise=noise()).online().step([0.0], applied=[0.0]),
        "applied: no input acted before the first sample",
    ),
    "a state and an input of one name": (
        lambda: nonlinear_region({"u": (0.0, 1.0)}, state="u"),
        "region: a state and an input have one name",
    ),
    "a region of nothing": (
        lambda: nonlinear_region({"z": (0.0, 1.0)}),
        "region: 'z' is no state or input; known are x, u",
    ),
    "splits of nothing": (
        lambda: nonlinear_region({"x": (0.0, 1.0)}, splits={"z": 2}),
        "splits: 'z' is no name of the region",
    ),
    "an angle that jumps": (
        lambda: nonlinear(lambda x: np.arctan2(x, x)),
        "not surely positive: the angle jumps",
    ),
    "a division by zero": (
        lambda: nonlinear(lambda x: x**-1.0),
        "a division by an interval that contains zero",
    ),
    "a root of what may be negative": (
        lambda: nonlinear(lambda x: x**0.5),
        "a power 0.5",
    ),
    "a function that is not enclosed": (
        lambda: nonlinear(lambda x: np.array([np.rint(x[0])], object)),
        "np.rint, which is not enclosed",
    ),
    "a plain number": (
        lambda: nonlinear(lambda x: np.array([float(x[0])])),
        "a conversion to a plain number",
    ),
    "a text for a number": (
        lambda: nonlinear(lambda x: x + np.array(["1"], object)),
        "a str in place of a number",
    ),
    "delays of nothing": (
        lambda: pc.with_delays(VEHICLE, {"wind": 1}),
        "delays: 'wind' is not the name of one input or output",
    ),
    "delays of a name that is taken": (
        lambda: pc.with_delays(named(states=["u_1"], inputs=["u"]), {"u": 1}),
        "delays: a state of the past has the name of another state",
    ),
    "Gaussian noise without a delta": (
        lambda: core.kappa_inverse(1.0, 0.0),
        "delta: Gaussian noise cannot achieve delta = 0",
    ),
    "a negative epsilon": (
        lambda: core.kappa(-1.0, 1.0),
        "expected epsilon >= 0 and y >= 0",
    ),
    "a plant outside of its region": (
        lambda: pc.design_output_noise(
            named(),
            horizon=5,
            budget=BUDGET,
            adjacency=pc.DisturbanceAdjacency({0: 1.0}),
            models=pc.PlantBox(ct.ss(0.8, 1.0, 1.0, 0.0, 1.0), A=[[0.1]]),
        ),
        "is not in the PlantBox, so nothing would be promised for it",
    ),
    "noise within a bound for several plants": (
        lambda: pc.design_output_noise(
            named(),
            horizon=5,
            budget=BUDGET,
            adjacency=pc.DisturbanceAdjacency({0: 1.0}),
            models=[named(), ct.ss(0.6, 1.0, 1.0, 0.0, 1.0)],
            bound=20.0,
        ),
        "bound: it is for the exact plant and a noise of its own, got models",
    ),
    "a cost that no loop has": (
        lambda: pc.tradeoff(
            VEHICLE,
            **WEIGHTS,
            horizon=4,
            adjacency=pc.StateAdjacency({"position": 1.0}),
            epsilons=[1.0],
            delta=1e-2,
            designs="iid",
        ).budget_at(cost=1e-9),
        "cost: no loop of iid costs as little as 1e-09",
    ),
    "weights that were not given": (
        lambda: pc.private_loop(
            VEHICLE, [[1.0, 1.0]], [[0.1], [0.1]], noise=noise()
        ).simulate(disturbance="design", rng=0),
        'disturbance="design" draws from QN, which the loop was not given',
    ),
    "weights of a network below zero": (
        lambda: pc.private_consensus([[0, -1.0], [-1.0, 0]], BUDGET, 1.0),
        "graph: expected positive weights, got 2 negative entries",
    ),
    "a coalition that names a node twice": (
        lambda: agents(pairwise_std=1.0, coalition=1).guarantee_for(coalition=[0, 0]),
        "coalition: expected each node once, got one twice",
    ),
    "missing agents without names": (
        lambda: agents().agent(0, 1.0).repair([[1]]),
        "missing: expected names of nodes, got others",
    ),
    "a message of two numbers": (
        lambda: agents().agent(0, 1.0).update({1: [1.0, 2.0]}),
        r"messages: expected shape \(\) from each, got \(2,\)",
    ),
    "radii of names that read alike": (
        lambda: core.ManifoldAdjacency({1: 1.0, "1": 2.0}),
        "radius: expected different names, got two that read alike",
    ),
    "entries that are no names": (
        lambda: moves(core.ManifoldAdjacency([1.0], entries=[1.5])),
        "entries: expected indices or names, got float",
    ),
    "a model that never changes": (
        lambda: pc.OutputPerturbation(np.tanh, BUDGET, radius=1.0, lipschitz=0),
        "lipschitz: 0 means that the output never changes",
    ),
    "a model that answers with labels": (
        lambda: pc.OutputPerturbation(
            lambda x: np.zeros(len(x), bool), BUDGET, radius=1.0, lipschitz=1.0
        )([1.0, 2.0], rng=0),
        "model: expected real outputs, got dtype bool; labels jump",
    ),
    "a model that answers without a number": (
        lambda: pc.OutputPerturbation(
            lambda x: x * np.nan, BUDGET, radius=1.0, lipschitz=1.0
        )([1.0, 2.0], rng=0),
        "model: expected finite outputs, got NaN or infinity",
    ),
    "slopes of another number of layers": (
        lambda: core.feedforward_lipschitz([np.eye(2)] * 3, slopes=[0.0, 0.5, 1.0]),
        r"slopes: expected \(alpha, beta\) or 2 such pairs",
    ),
    "a clip whose ends change places": (
        lambda: core.ClippedNetwork([np.eye(2)], [np.zeros(2)], low=1, high=-1),
        "low, high: every low must be below its high",
    ),
    "a layer scaled by zero": (
        lambda: core.SLLLayer(np.eye(2), np.zeros(2), np.zeros(2)),
        "q: expected positive scales, got none, zero or negative ones",
    ),
    "a layer that is none": (
        lambda: core.SLLNetwork([np.eye(2)], np.eye(2)),
        "layers: expected SLLLayer objects or SLLConvolution objects, got ndarray",
    ),
    "an input that is driven twice": (
        lambda: loop(controls=[0, 0]),
        "controls: an input is named twice; name each once",
    ),
    "limits of inputs that change places": (
        lambda: loop(noise=noise()).simulate(saturation=[[1.0, -1.0]], rng=0),
        "saturation: expected positive sizes, or least values below largest ones",
    ),
    "a sum of budgets": (
        lambda: BUDGET + BUDGET,
        "budgets do not add, guarantees of releases do",
    ),
    "an order of a divergence that is one": (
        lambda: noise().guarantee.rdp(1.0),
        "alpha: expected an order above 1, got 1.0",
    ),
    "signals without names": (
        lambda: loop(noise=noise()).simulate(rng=0).plot([1]),
        "signals: expected names as text, got a int",
    ),
    "a duration beside profiles": (
        lambda: pc.DisturbanceAdjacency(1.0, duration=2, profiles=[[1.0]]),
        "duration: expected a duration or profiles, got both",
    ),
    "a linear plant among nonlinear ones": (
        lambda: pc.sample_nonlinear(VEHICLE, 0.1),
        "sys: expected a NonlinearIOSystem, got StateSpace",
    ),
    "a third entry of a range that is no unit": (
        lambda: nonlinear_region({"x": (-1.0, 1.0, 3.0), "u": (-1.0, 1.0)}),
        "region: expected .low, high, 'unit'. for 'x', got another third entry",
    ),
    "sums in a design for a noise": (
        lambda: loop(noise=noise(), integral=["y"], codesign=True, P0=1.0),
        "codesign: loops with integral action keep their gains",
    ),
    "no prior in a design for a noise": (
        lambda: loop(noise=noise(), codesign=True),
        "codesign: over a horizon .* depends on the prior of x.0.; pass .* P0",
    ),
    "sums of a number": (
        lambda: loop(integral=3),
        "integral: expected names of outputs, or a mapping .*, got int",
    ),
    "sums of outputs without names": (
        lambda: loop(integral=[3]),
        "integral: expected names of outputs as text",
    ),
    "more sums than inputs": (
        lambda: pc.private_lqg(wide(2), **WEIGHTS, integral=["y[0]", "y[1]"]),
        "integral: expected at most as many outputs as the 1 inputs .*, got 2",
    ),
    "a price that is not symmetric": (
        lambda: loop(Q=[[1.0, 2.0], [0.0, 1.0]]),
        "Q: expected a symmetric matrix; pass .Q . Q.T. / 2",
    ),
    "delays of a transfer function": (
        lambda: pc.with_delays(ct.tf([1], [1, -0.5], 1.0), {"u[0]": 1}),
        "sys: expected a StateSpace, got TransferFunction; convert it with ct.ss",
    ),
    "delays without names": (
        lambda: pc.with_delays(VEHICLE, [1]),
        "delays: expected a mapping by name, such as {'u': 2}, got list",
    ),
    "a delay of a year": (
        lambda: pc.with_delays(VEHICLE, {"y": 1e9}),
        "delays: expected at most 10000 samples for y, got 1e.09",
    ),
    "a start from no prior": (
        lambda: loop(noise=noise()).simulate(initial_state="design", rng=0),
        "draws from the prior P0, which the loop was not given",
    ),
    "other inputs without names": (
        lambda: loop(noise=noise()).simulate(exogenous=[1.0], rng=0),
        "exogenous: expected a mapping of input names to signals, got list",
    ),
    "limits of three inputs": (
        lambda: loop(noise=noise()).simulate(saturation=[1.0, 2.0, 3.0], rng=0),
        "saturation: expected a number, shape .1,., or .1, 2.",
    ),
    "an error of no reading": (
        lambda: loop(noise=noise(), P0=1.0).online().covariance,
        "covariance: expected a sample first; call step",
    ),
    "two readings of one output": (
        lambda: loop(noise=noise(), P0=1.0).online().step([1.0, 2.0]),
        "yhat: expected shape .1,., got .2,.",
    ),
    "a reading that is no number": (
        lambda: loop(noise=noise(), P0=1.0).online().step([np.nan]),
        "yhat: expected finite numbers",
    ),
    "signals by number": (
        lambda: loop(noise=noise()).simulate(rng=0).plot(3),
        "signals: expected a name or a list of names, got int",
    ),
    "radii in a square": (
        lambda: core.ManifoldAdjacency([[1.0, 2.0], [1.0, 2.0]]),
        "radius: expected a number or one dimension, got shape .2, 2.",
    ),
    "a kernel of nothing": (
        lambda: core.AffineManifold.from_kernel(np.zeros((3, 0))),
        "N: expected at least one column, got an array of shape .3, 0.",
    ),
    "constraints that raise": (
        lambda: core.design_gaussian(
            core.LinearQuery([[1.0]]),
            core.BallAdjacency(1.0),
            BUDGET,
            constraints=lambda X: 1 / 0,
        ),
        "constraints: the function raised ZeroDivisionError",
    ),
    "radial noise for a huge epsilon": (
        lambda: core.ball_rate(1e5, 0.1, 2),
        "epsilon: expected at most 10000, got 100000",
    ),
    "a region without names": (
        lambda: nonlinear_region([1.0]),
        "region: expected a mapping of states and inputs to .low, high., got list",
    ),
    "a region of one number": (
        lambda: nonlinear_region({"x": 3.0, "u": (-1.0, 1.0)}),
        "region: expected .low, high. for 'x'",
    ),
    "a region that is empty": (
        lambda: nonlinear_region({"x": (1.0, -1.0), "u": (-1.0, 1.0)}),
        "region: expected low <= high for 'x'",
    ),
    "radial noise for two agents that move": (
        lambda: pc.consensus.PrivateConsensus(
            agents().network,
            [1.0, 1.0, 1.0],
            pc.consensus.NodeAdjacency(1.0, moves="pair"),
            family="ball",
        ),
        "family: 'ball' hides the value of one agent at a time, got moves='pair'",
    ),
    "an event of any shape that moves": (
        lambda: pc.DisturbanceAdjacency(1.0, moved=2, duration=3, shape="any"),
        "shape: an event of several samples moves as a whole",
    ),
    "a leak of one beside a gdp": (
        lambda: pc.PrivacyBudget(gdp=1.0, leak=1.0),
        "leak: expected a probability below 1 next to gdp",
    ),
    "epsilon and delta of a gdp": (
        lambda: pc.PrivacyBudget(gdp=1.0).pair,
        "budget: expected epsilon and delta, got .*gdp=1",
    ),
    "inputs that are driven by number": (
        lambda: loop(controls={"u": 1.0}),
        "controls: expected the names of the inputs .*, got dict",
    ),
    "inputs at half positions": (
        lambda: loop(controls=[0.5]),
        "controls: expected names of inputs or their positions, got a float",
    ),
    "a report at no path": (
        lambda: loop(noise=noise()).report(3),
        "path: expected a str or Path, got int",
    ),
    "a largest size of nothing": (
        lambda: pc.design_output_noise(
            VEHICLE,
            horizon=5,
            budget=BUDGET,
            adjacency=pc.StateAdjacency(1.0),
            max_std=0.0,
        ),
        "max_std: expected numbers > 0, or np.inf for no limit",
    ),
    "assumptions that are no text": (
        lambda: pc.PlantPolytope([named(), named()], assumptions=[3]),
        "assumptions: expected texts",
    ),
    "Laplace noise as structured noise": (
        lambda: core.structured_equivalent(
            core.Mechanism(core.LinearQuery([[1.0]]), core.LaplaceNoise([1.0])),
            core.BallAdjacency(1.0),
        ),
        "mechanism: expected Gaussian noise, got LaplaceNoise",
    ),
    "a nonlinear plant without names": (
        lambda: pc.jacobian_polytope(
            ct.nlsys(None, lambda t, x, u, params: u, inputs=1, outputs=1, dt=1.0),
            {"x": (0.0, 1.0)},
        ),
        "sys: expected the names of states and outputs",
    ),
    "bounds of some Jacobians": (
        lambda: nonlinear_region(
            {"x": (-1.0, 1.0), "u": (-1.0, 1.0)}, bounds={"A": ([[0.0]], [[1.0]])}
        ),
        "bounds: expected .low, high. for each of A, B, C and D",
    ),
    "a name with a dot": (
        lambda: pc.create_noise_iosystem(noise(), name="noise.of"),
        "name: expected a name without dots, which join signals to it",
    ),
}


def agents(**options):
    """Three agents on a path."""
    path = np.array([[0, 1.0, 0], [1.0, 0, 1.0], [0, 1.0, 0]]) / 4
    return pc.private_consensus(path, BUDGET, 1.0, **options)


def nonlinear_region(region, state="x", **arguments):
    system = ct.nlsys(
        lambda t, x, u, params: 0.5 * x + u,
        lambda t, x, u, params: x,
        inputs=["u"],
        outputs=["y"],
        states=[state],
        dt=1.0,
    )
    return pc.jacobian_polytope(system, region, **arguments)


@pytest.mark.parametrize("name", REFUSED)
def test_it_is_refused_and_the_error_says_why(name):
    call, why = REFUSED[name]
    with pytest.raises((ValueError, TypeError, pc.PrivacyError), match=why):
        call()


def test_a_gateway_does_not_begin_again_in_a_file(tmp_path):
    path = tmp_path / "state"
    with pc.Gateway(noise(), path=path, floating=True):
        pass
    with pytest.raises(FileExistsError, match="Gateway.resume.path. continues it"):
        pc.Gateway(noise(), path=path, floating=True)
