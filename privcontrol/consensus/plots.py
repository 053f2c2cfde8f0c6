"""Figures of private consensus: trajectories, mean-square error against its exact curve and bound, and the network.

Each function draws on one pair of axes, its own or the given ones, and returns them. They show private values where
they are given private values: a figure of states or of errors is for the experimenter, not for publication.
"""

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.collections import LineCollection
from matplotlib.patheffects import withStroke
from matplotlib.ticker import MaxNLocator

from ..core._linalg import one_of, positive_integer, real_array
from .adjacency import initial_values as node_initial_values, node_values
from .moments import READOUTS
from .private import DENSE_MODEL, PrivateConsensus
from .simulation import ConsensusResponse
from .weights import DENSE_NODES

#: Names of more nodes than this would cover each other and the links.
NAMED_NODES = 30
#: Names up to this length fit into their node.
_SHORT_NAME = 3

#: Okabe and Ito, for colour-blind readers; a readout keeps its colour in all figures.
COLORS = {"message": "#0072B2", "state": "#D55E00"}
_AGENTS = (
    "#0072B2",
    "#D55E00",
    "#009E73",
    "#CC79A7",
    "#E69F00",
    "#56B4E9",
    "#000000",
    "#8C6D31",
    "#7B4173",
    "#637939",
)


def plot_trajectories(consensus, response, initial_values, *, readout="state", ax=None):
    """Mean error of every agent over the trials, with the exact mean (I - L)^t (x(0) - mean) over it.

    Up to ten agents have their own colour and exact curve; of more only two exact curves are drawn.

    Parameters
    ----------
    consensus : PrivateConsensus
    response : ConsensusResponse
        Simulated with states kept.
    initial_values : array_like (n,) or mapping from node to float
        x(0).
    readout : {"message", "state"}, optional
    ax : Axes, optional

    Returns
    -------
    matplotlib.axes.Axes

    Examples
    --------
    >>> import privcontrol as pc
    >>> from privcontrol.consensus import plot_trajectories
    >>> agents = pc.private_consensus(pc.plants.ten_agent_graph(), pc.PrivacyBudget(epsilon=1, delta=1e-2), 1.0)
    >>> response = agents.simulate(pc.plants.ten_agent_values(), 20, trials=50, rng=0)
    >>> len(plot_trajectories(agents, response, pc.plants.ten_agent_values()).lines) >= 10
    True
    """
    _checked(consensus, response)
    ax = _axes(ax)
    signals = (
        response.states
        if one_of(readout, "readout", READOUTS) == "state"
        else response.outputs
    )
    exact = consensus.mean_error(initial_values, len(response.time) - 1)
    average = node_initial_values(consensus.network, initial_values).mean()
    measured = np.asarray(signals).mean(axis=1) - average
    if len(measured) <= len(_AGENTS):
        for error, color, label in zip(measured, _AGENTS, consensus.network.labels):
            ax.plot(response.time, error, color=color, linewidth=1.3, label=label)
        ax.plot(
            response.time, exact.T, color="black", linestyle=(0, (1, 2)), linewidth=0.9
        )
        ax.lines[-1].set_label("exact")
        ax.legend(ncols=4, fontsize="small", title="agent", frameon=False)
    else:
        ax.plot(
            response.time, measured.T, color=COLORS[readout], linewidth=0.5, alpha=0.5
        )
        ax.plot(
            response.time,
            exact[np.argsort(exact[:, 0])[[0, -1]]].T,
            color="black",
            linestyle="--",
            linewidth=0.9,
        )
        ax.lines[0].set_label(f"{len(measured)} agents")
        ax.lines[-1].set_label("exact, the two farthest at first")
        ax.legend(fontsize="small", frameon=False)
    symbol = "x" if readout == "state" else "y"
    ax.set(
        xlabel="Step $t$",
        ylabel=rf"Mean of ${symbol}_i(t) - \bar x$ over {_trials(response)}",
    )
    ax.margins(x=0)
    return ax


def plot_error(
    consensus,
    initial_values,
    steps,
    *,
    response=None,
    readouts=READOUTS,
    bound=True,
    label="",
    color=None,
    ax=None,
):
    """Total mean-square error over the agents against the steps: exact, measured, and the bound of its limit.

    Solid lines are messages, dashed ones states beside them. Divide by the number of agents for one agent's share.
    Beyond 4000 nodes the exact curve is replaced by an estimate, drawn with its 99 % confidence band.

    Parameters
    ----------
    consensus : PrivateConsensus
    initial_values : array_like (n,) or mapping from node to float
    steps : int
    response : ConsensusResponse, optional
        Its mean squared errors are drawn as points with bars of two standard errors.
    readouts : sequence of {"message", "state"}, optional
    bound : bool, optional
        Draw DPAM Proposition 1 (iii), the bound on the limit of the state readout.
    label : str, optional
        Name of the run in the legend, before each curve's.
    color : str, optional
        One colour for all readouts, to tell runs on the same axes apart.
    ax : Axes, optional

    Returns
    -------
    matplotlib.axes.Axes

    Examples
    --------
    >>> import privcontrol as pc
    >>> from privcontrol.consensus import plot_error
    >>> agents = pc.private_consensus(pc.plants.ten_agent_graph(), pc.PrivacyBudget(epsilon=1, delta=1e-2), 1.0)
    >>> plot_error(agents, pc.plants.ten_agent_values(), 20).get_ylabel()
    'Total mean-square error'
    """
    _checked(consensus, response)
    ax, steps = _axes(ax), positive_integer(steps, "steps")
    readouts = [one_of(readout, "readout", READOUTS) for readout in readouts]
    prefix = f"{label}: " if label else ""
    time, every = np.arange(steps + 1), max(1, steps // 20)
    for readout in readouts:
        shade, dashed = (
            color or COLORS[readout],
            readout == "state" and len(readouts) > 1,
        )
        curve = _error_curve(consensus, initial_values, steps, readout, ax, shade)
        style = {
            "color": shade,
            "linewidth": 1.4,
            "linestyle": (0, (4, 1.5)) if dashed else "-",
        }
        ax.plot(time, _positive(curve), label=f"{prefix}{readout} readout", **style)
        if response is not None:
            mean, error = (
                values[: steps + 1 : every]
                for values in response.mean_square_error(readout)
            )
            points = {
                "color": shade,
                "fmt": "o",
                "markersize": 3,
                "linewidth": 0.8,
                "markerfacecolor": "white",
            }
            bars = ax.errorbar(
                response.steps[: steps + 1 : every],
                _positive(mean),
                2 * error,
                **points,
            )
    if response is not None and readouts:
        bars.set_label(f"{prefix}over {_trials(response)}")
    if bound:
        style = {
            "color": color or COLORS["state"],
            "linewidth": 1,
            "label": f"{prefix}bound of the limit (states)",
        }
        dots = (0, (1, 1.5)) if len(readouts) > 1 else (0, (5, 3))
        ax.axhline(consensus.limit_error_bound(), linestyle=dots, **style)
    ax.set(yscale="log", xlabel="Step $t$", ylabel="Total mean-square error")
    ax.margins(x=0)
    ax.legend(fontsize="small", frameon=False)
    return ax


def _error_curve(consensus, initial_values, steps, readout, ax, color):
    if len(consensus.network) <= DENSE_NODES:
        return consensus.mean_square_error(initial_values, steps, readout=readout)
    found = consensus.estimate_mean_square_error(
        initial_values, steps, readout=readout, rng=0
    )
    ax.fill_between(
        range(steps + 1),
        _positive(found.lower),
        _positive(found.upper),
        color=color,
        alpha=0.25,
        linewidth=0,
    )
    return found.value


def _positive(curve):
    """NaN for zeros, which a logarithmic axis cannot show."""
    return np.where(curve > 0, curve, np.nan)


def plot_network(consensus, *, delta=None, pos=None, ax=None):
    """The network with each node's privacy: epsilon at `delta` by colour, link width by weight.

    Nodes stand where `pos` says, or the graph's own attribute ``pos`` where all nodes have one, else where
    networkx' Kamada-Kawai layout puts them. Up to 30 nodes bear their names.

    Parameters
    ----------
    consensus : PrivateConsensus
        Of at most 500 nodes.
    delta : float, optional
        The delta at which epsilon is read; the one that the guarantee quotes by default.
    pos : mapping from node to (x, y), or array_like, shape (n, 2), optional
        Places of the nodes.
    ax : Axes, optional

    Returns
    -------
    matplotlib.axes.Axes

    Raises
    ------
    ValueError
        If the network is larger, or a place is missing.
    TypeError
        If `consensus` is no `PrivateConsensus`, such as a graph.

    Examples
    --------
    >>> from privcontrol.consensus import private_consensus
    >>> from privcontrol.core import PrivacyBudget
    >>> from privcontrol.plants import ten_agent_graph
    >>> budgets = {node: PrivacyBudget(epsilon=0.1 * node, delta=1e-2) for node in ten_agent_graph()}
    >>> ax = plot_network(private_consensus(ten_agent_graph(), budgets, radius=1.0))
    """
    _checked(consensus)
    network = consensus.network
    if len(network) > DENSE_MODEL:
        raise ValueError(
            f"expected at most {DENSE_MODEL} nodes to draw, got {len(network)}"
        )
    places = _places(consensus, pos)
    ax, delta = _axes(ax), consensus.quoted_delta if delta is None else delta
    epsilon = np.array(
        [consensus.guarantee_of(node).epsilon(delta) for node in network.nodes]
    )
    links = network.iteration.tocoo()
    upper = links.row < links.col
    segments = places[np.column_stack([links.row[upper], links.col[upper]])]
    widths = 0.6 + 2.0 * links.data[upper] / links.data[upper].max()
    ax.add_collection(
        LineCollection(segments, colors="0.6", linewidths=widths, zorder=1)
    )
    size = min(420.0, 12000.0 / len(network))
    points = ax.scatter(
        *places.T,
        c=epsilon,
        s=size,
        cmap="cividis",
        edgecolors="black",
        linewidths=0.8,
        zorder=2,
    )
    dark = epsilon < epsilon.min() + 0.45 * np.ptp(epsilon)
    if np.ptp(epsilon) < 1e-9 * epsilon.max():
        points.set(facecolors="#BBD9EE", array=None)
        dark[:] = False
        ax.set_title(
            rf"$\varepsilon$ = {epsilon[0]:.3g} at $\delta$ = {delta:g} for every node",
            fontsize="medium",
        )
    else:
        ax.figure.colorbar(
            points,
            ax=ax,
            label=rf"$\varepsilon$ of the node at $\delta$ = {delta:g}",
            shrink=0.8,
        )
    if len(network) <= NAMED_NODES:
        _write_names(ax, network.labels, places, dark, size)
    ax.set_aspect("equal")
    ax.margins(0.12)
    ax.set_axis_off()
    return ax


def _write_names(ax, names, places, dark, size):
    """Short names into their nodes; longer ones below, where the node's colour does not matter."""
    inside = max(map(len, names)) <= _SHORT_NAME
    drop = (
        0.0 if inside else -0.5 * np.sqrt(size) - 1.5
    )  # points: the radius of a marker, and a gap
    style = {
        "ha": "center",
        "va": "center" if inside else "top",
        "fontsize": "small",
        "zorder": 3,
    }
    halo = [] if inside else [withStroke(linewidth=2, foreground="white")]
    for name, place, on_dark in zip(names, places, dark):
        color = "white" if inside and on_dark else "black"
        ax.annotate(
            name,
            place,
            (0, drop),
            textcoords="offset points",
            color=color,
            path_effects=halo,
            **style,
        )


def _places(consensus, pos):
    """Places (n, 2) of the nodes: the given ones, the graph's own, or a layout."""
    network = consensus.network
    if pos is not None:
        return real_array(
            node_values(network, pos, "pos"), "pos", shape=(len(network), 2)
        )
    return _layout(network) if consensus.positions is None else consensus.positions


def _layout(network):
    """Positions (n, 2): networkx' Kamada-Kawai where it is installed, else the two slowest modes."""
    try:
        import networkx as nx
    except ImportError:
        return (
            network.spectrum[1][:, -3:-1]
            if len(network) > 2
            else np.array([[0.0, 0.0], [1.0, 0.0]])
        )
    links = network.iteration.tocoo()
    graph = nx.Graph()
    graph.add_nodes_from(range(len(network)))
    graph.add_edges_from(
        (i, j) for i, j in zip(links.row.tolist(), links.col.tolist()) if i < j
    )
    places = nx.kamada_kawai_layout(graph)
    return np.array([places[i] for i in range(len(network))])


def _axes(ax):
    ax = (
        plt.figure(figsize=(5.2, 3.4), layout="constrained").subplots()
        if ax is None
        else ax
    )
    ax.xaxis.set_major_locator(MaxNLocator(integer=True))
    return ax


def _trials(response):
    return f"{response.ntraces} trial{'s' * (response.ntraces != 1)}"


def _checked(consensus, response=None):
    """Refuse a graph for the agents, and what is no response of theirs."""
    if not isinstance(consensus, PrivateConsensus):
        raise TypeError(
            f"consensus: expected a PrivateConsensus, got {type(consensus).__name__}; make one with "
            "private_consensus(graph, budget, radius)"
        )
    if response is not None and not isinstance(response, ConsensusResponse):
        raise TypeError(
            f"response: expected a ConsensusResponse, got {type(response).__name__}; make one with consensus.simulate"
        )
