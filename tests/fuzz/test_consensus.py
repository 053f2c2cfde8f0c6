"""Wrong types, shapes and numbers for every public callable of consensus. The library answers, or refuses in its own words.

A refusal counts as the library's own if the package itself raised it, with a text that names what it expected. An
error that numpy, scipy or the interpreter raised on the way is a failure, and so is a private value in the text.
"""

import inspect
import traceback
from pathlib import Path

import control as ct
import networkx as nx
import numpy as np
import pytest

import privcontrol as pc
from privcontrol import consensus
from privcontrol.core import PrivacyError

PACKAGE = str(Path(pc.__file__).parent)
BUDGET = pc.PrivacyBudget(epsilon=1.0, delta=1e-2)
RING = np.roll(np.eye(5), 1, axis=0) / 3 + np.roll(np.eye(5), -1, axis=0) / 3
NETWORK = consensus.read_network(RING)
KEYS = consensus.pair_keys(NETWORK)
SHARED = consensus.private_consensus(RING, BUDGET, 1.0, pairwise_std=10.0, coalition=1)
AGENTS = consensus.private_consensus(RING, BUDGET, 1.0)
SECRET = 771.23
VALUES = np.full(5, SECRET)


class Hostile:
    """An object whose conversions fail with a text of their own."""

    def __array__(self, *_, **__):
        raise RuntimeError(f"conversion of {SECRET} failed")

    def __repr__(self):
        return "Hostile()"


PRIVATE = ("initial_values", "value", "shared", "messages")

WRONG = [
    None,
    True,
    "1.0",
    str(SECRET),
    b"1",
    -1,
    0,
    1,
    3,
    2.5,
    1j,
    1e400,
    -1e-300,
    1e300,
    float("nan"),
    10**400,
    [],
    [1.0],
    [[1.0, 2.0], [3.0]],
    ["a", "b"],
    np.zeros(5),
    np.full(5, np.nan),
    -np.ones(5),
    np.ones((5, 5)),
    np.ones((2, 3, 4)),
    np.array([1j] * 5),
    np.array([None] * 5),
    np.ma.masked_array(np.ones(5), [1, 0, 0, 0, 0]),
    {},
    {0: 1.0},
    {"a": 1.0},
    dict.fromkeys(range(5)),
    dict.fromkeys(range(5), "x"),
    nx.path_graph(3),
    nx.DiGraph([(0, 1)]),
    nx.Graph(),
    BUDGET,
    [BUDGET] * 3,
    [BUDGET, None],
    AGENTS,
    NETWORK,
    object(),
    int,
    len,
    Hostile(),
]


def _speaking():
    """An agent that has sent its first message."""
    agent = SHARED.agent(0, SECRET, KEYS[0])
    agent.message()
    return agent


def response():
    return AGENTS.simulate(VALUES, 3, trials=2, rng=0)


#: A call that works, by the names of its arguments. Each argument in turn is replaced by what is wrong.
CALLS = {
    "read_network": (
        consensus.read_network,
        {"graph": RING, "weights": "metropolis", "weight": "weight"},
    ),
    "private_consensus": (
        consensus.private_consensus,
        {
            "graph": RING,
            "budget": BUDGET,
            "radius": 1.0,
            "family": "gaussian",
            "weights": "given",
            "weight": "weight",
            "moves": "one",
            "pairwise_std": 1.0,
            "coalition": 1,
        },
    ),
    "pair_keys": (consensus.pair_keys, {"network": NETWORK}),
    "agent": (SHARED.agent, {"node": 0, "value": SECRET, "shared": KEYS[0]}),
    "Agent": (
        consensus.Agent,
        {"noise": SHARED.noise, "node": 0, "value": SECRET, "shared": KEYS[0]},
    ),
    "Agent.update": (
        lambda messages: SHARED.agent(0, SECRET, KEYS[0]).update(messages),
        {"messages": {1: 2.0}},
    ),
    "Agent.repair": (
        lambda missing: _speaking().repair(missing),
        {"missing": [1]},
    ),
    "PrivateConsensus": (
        consensus.PrivateConsensus,
        {
            "network": NETWORK,
            "scales": 1.0,
            "adjacency": consensus.NodeAdjacency(1.0),
            "family": "gaussian",
            "quoted_delta": 1e-5,
            "pairwise_std": 1.0,
            "coalition": 1,
        },
    ),
    "NodeAdjacency": (
        consensus.NodeAdjacency,
        {"radius": 1.0, "moves": "one", "dimension": 1},
    ),
    "NodeAdjacency.radii": (consensus.NodeAdjacency(1.0).radii, {"nodes": 5}),
    "guarantee_for": (SHARED.guarantee_for, {"moves": "pair", "coalition": [1]}),
    "guarantee_for of a node": (SHARED.guarantee_for, {"node": 0, "coalition": [1]}),
    "simulate": (
        AGENTS.simulate,
        {
            "initial_values": VALUES,
            "steps": 2,
            "trials": 1,
            "rng": 0,
            "keep_states": True,
            "executor": None,
            "progress": False,
        },
    ),
    "mean_square_error": (
        AGENTS.mean_square_error,
        {"initial_values": VALUES, "steps": 2, "readout": "message"},
    ),
    "estimate_mean_square_error": (
        AGENTS.estimate_mean_square_error,
        {
            "initial_values": VALUES,
            "steps": 2,
            "readout": "message",
            "probes": 2,
            "confidence": 0.9,
            "rng": 0,
        },
    ),
    "limit_mean_square_error": (AGENTS.limit_mean_square_error, {"readout": "state"}),
    "error_bound": (AGENTS.error_bound, {"initial_values": VALUES, "steps": 2}),
    "path_error_bound": (
        AGENTS.path_error_bound,
        {"initial_values": VALUES, "steps": 2, "noise": np.ones(len(VALUES))},
    ),
    "mean_error": (AGENTS.mean_error, {"initial_values": VALUES, "steps": 2}),
    "limit_error_bound": (AGENTS.limit_error_bound, {"initial_values": VALUES}),
    "optimal_consensus_epsilon": (
        consensus.optimal_consensus_epsilon,
        {
            "mse": 1.0,
            "nodes": 5,
            "radius": 1.0,
            "delta": 1e-2,
            "family": "gaussian",
            "readout": "message",
        },
    ),
    "optimal_consensus_error": (
        consensus.optimal_consensus_error,
        {
            "budget": BUDGET,
            "nodes": 5,
            "radius": 1.0,
            "family": "gaussian",
            "readout": "message",
        },
    ),
    "optimal_consensus_scales": (
        consensus.optimal_consensus_scales,
        {
            "mse": 1.0,
            "radii": np.ones(5),
            "objective": "worst",
            "family": "gaussian",
            "readout": "message",
        },
    ),
    "ConsensusResponse.squared_error": (
        response().squared_error,
        {"readout": "message"},
    ),
    "ConsensusResponse.mean_square_error": (
        response().mean_square_error,
        {"readout": "message"},
    ),
    "plot_error": (
        consensus.plot_error,
        {
            "consensus": AGENTS,
            "initial_values": VALUES,
            "steps": 3,
            "response": response(),
            "readouts": ("message",),
        },
    ),
    "plot_network": (
        consensus.plot_network,
        {
            "consensus": SHARED,
            "pos": np.zeros((5, 2)),
            "coalition": [1],
        },
    ),
    "worst_coalition": (consensus.worst_coalition, {"consensus": SHARED}),
}


def problem(function, arguments, echoed=False):
    """What is wrong with the answer of a call; None if it is the library's own.

    An option may be echoed, where a private value may not.
    """
    try:
        function(**arguments)
    except (
        ValueError,
        TypeError,
        PrivacyError,
        ct.ControlArgument,
        ct.ControlDimension,
    ) as error:
        frame = traceback.extract_tb(error.__traceback__)[-1]
        text = str(error)
        if not frame.filename.startswith(PACKAGE):
            return f"raised by {frame.filename}:{frame.lineno}: {text[:120]}"
        if not frame.line.startswith("raise"):
            return f"raw error at {frame.filename}:{frame.lineno} {frame.line}: {text[:120]}"
        if str(SECRET) in text and not echoed:
            return f"shows a private value: {text[:200]}"
        if len(text) > 600:
            return f"a text of {len(text)} characters"
        return None
    except Exception as error:
        frame = traceback.extract_tb(error.__traceback__)[-1]
        return f"{type(error).__name__} at {frame.filename}:{frame.lineno}: {str(error)[:120]}"
    return None


@pytest.mark.parametrize("name", CALLS)
def test_wrong_arguments_are_refused_in_the_library_s_words(name):
    function, arguments = CALLS[name]
    assert problem(function, arguments) is None
    failures = []
    with np.errstate(all="ignore"):
        for parameter in arguments:
            for wrong in WRONG:
                changed = arguments | {parameter: wrong}
                found = problem(function, changed, parameter not in PRIVATE)
                if found:
                    shown = type(wrong).__name__ + (
                        f" {wrong!r}" if np.isscalar(wrong) else ""
                    )
                    failures.append(f"{parameter}={shown[:60]}: {found}")
    assert not failures, f"{len(failures)} failures\n" + "\n".join(failures)


def test_every_public_callable_is_fuzzed():
    excused = {
        "ConsensusResponse",
        "MeanSquareErrorEstimate",
        "Network",
    }
    public = set(consensus.__all__) - excused
    without_arguments = {"to_statespace"}
    for name, _ in inspect.getmembers(consensus.PrivateConsensus, callable):
        if not name.startswith("_"):
            public.add(name)
    assert not public - without_arguments - set(CALLS)
