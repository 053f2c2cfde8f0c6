"""Figures of a consensus: its error over the steps, and what the network's nodes reveal.

Each figure is drawn on one pair of axes, its own or the given ones, which are returned.
A figure of errors shows private values. It is for the experimenter, not for publication.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.patheffects import withStroke
from matplotlib.ticker import MaxNLocator
from numpy.typing import ArrayLike, NDArray

from .._figures import COLORS as OKABE_ITO, finished_plot, own_axes
from ..numerics.arguments import helpful_arguments
from ..numerics.checks import instance_of, one_of, real_array
from ..numerics.thresholds import ROUNDED
from ..privacy.guarantee import shown
from .message_noise import READOUTS
from .network import DENSE_NODES, Values
from .private import DENSE_MODEL, PrivateConsensus
from .runs import ConsensusResponse, step_count

_CONSENSUS = "private_consensus(graph, budget, radius)"

#: Names of more nodes than this would cover each other and the links.
NAMED_NODES = 30

#: A readout keeps its colour in all figures.
COLORS = {"message": OKABE_ITO[0], "state": OKABE_ITO[1]}


@helpful_arguments
def plot_error(
    consensus: PrivateConsensus,
    initial_values: Values,
    steps: int,
    *,
    response: ConsensusResponse | None = None,
    readouts: Sequence[str] = READOUTS,
    label: str = "",
    color: str | None = None,
    ax: Axes | None = None,
) -> Axes:
    r"""Plot the total mean-square error over the agents against the steps.

    Solid lines are messages, dashed ones states. Beyond 4000 nodes an
    estimate with its 99 % confidence band replaces the exact curve.

    Parameters
    ----------
    consensus : PrivateConsensus
    initial_values
        As for `PrivateConsensus.simulate`.
    steps : int
    response : ConsensusResponse, optional
        Its mean squared errors are drawn as points with bars of two standard errors.
    readouts : sequence of {"message", "state"}, optional
        With states the bound of their limit is drawn, DPAM Proposition 1 (iii).
    label : str, optional
        Name of the run in the legend, before each curve's.
    color : str, optional
        One colour for all readouts, to distinguish runs on the same axes.
    ax : Axes, optional

    Returns
    -------
    matplotlib.axes.Axes

    See Also
    --------
    consensus.plot_network, consensus.ConsensusResponse

    Examples
    --------
    >>> import privcontrol as pc
    >>> budget = pc.PrivacyBudget(epsilon=1, delta=1e-2)
    >>> agents = pc.private_consensus(pc.plants.ten_agent_graph(), budget, 1.0)
    >>> pc.consensus.plot_error(agents, pc.plants.ten_agent_values(), 20).get_ylabel()
    'Total mean-square error\n[squared units of the values]'
    """
    instance_of(consensus, PrivateConsensus, "consensus", _CONSENSUS)
    if response is not None:
        instance_of(response, ConsensusResponse, "response", "consensus.simulate(..)")
    if isinstance(readouts, str) or not isinstance(readouts, Sequence):
        raise TypeError(
            "readouts: expected a sequence such as ('message', 'state'), got "
            f"{type(readouts).__name__}"
        )
    readouts = [one_of(readout, "readouts", READOUTS) for readout in readouts]
    values = consensus.network._initial_values(initial_values, consensus.dimension)
    time = np.arange(step_count(steps) + 1)
    shown = slice(0, steps + 1, max(1, steps // 20))
    ax = own_axes(ax)
    ax.xaxis.set_major_locator(MaxNLocator(integer=True))
    prefix = f"{label}: " if label else ""
    for readout in readouts:
        shade = color or COLORS[readout]
        is_beside = len(readouts) > 1 and readout == "state"
        options: dict[str, Any] = {"readout": readout}
        if len(consensus.network) <= DENSE_NODES:
            curve = consensus.mean_square_error(values, steps, **options)
        else:
            found = consensus.estimate_mean_square_error(
                values, steps, rng=0, **options
            )
            curve = found.value
            band = (_positive(found.lower), _positive(found.upper))
            ax.fill_between(time, *band, color=shade, alpha=0.25, lw=0)
        ax.plot(
            time,
            _positive(curve),
            color=shade,
            linestyle="dashed" if is_beside else "solid",
            linewidth=1.4,
            label=f"{prefix}{readout} readout",
        )
        if response is not None:
            mean, error = response.mean_square_error(readout)
            points = ax.errorbar(
                response.steps[shown],
                _positive(mean[shown]),
                2 * error[shown],
                color=shade,
                fmt="o",
                markersize=3,
                linewidth=0.8,
                markerfacecolor="white",
            )
            if readout == readouts[-1]:
                plural = "s" * (response.ntraces != 1)
                points.set_label(f"{prefix}over {response.ntraces} trial{plural}")
    if "state" in readouts:
        ax.axhline(
            consensus.dimension * consensus.noise.variance.sum(),
            color=color or COLORS["state"],
            linestyle="dotted",
            linewidth=1,
            label=f"{prefix}bound of the limit (states)",
        )
    quantity = "Total mean-square error\n[squared units of the values]"
    ax.set(yscale="log", xlabel="Step $t$", ylabel=quantity)
    ax.margins(x=0)
    finished_plot(ax, list(ax.lines))
    return ax


def _positive(curve: NDArray[np.float64]) -> NDArray[np.float64]:
    """NaN for zeros, which a logarithmic axis cannot show."""
    return np.where(curve > 0, curve, np.nan)


@helpful_arguments
def plot_network(
    consensus: PrivateConsensus,
    *,
    pos: ArrayLike | Mapping[Hashable, ArrayLike] | None = None,
    coalition: Sequence[Hashable] | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Plot the network with the epsilon of each node as its colour.

    It is read at the delta that the guarantee quotes, ``consensus.quoted_delta``. The
    width of a link is its weight. Up to 30 nodes bear their names.

    Parameters
    ----------
    consensus : PrivateConsensus
        Of at most 500 nodes.
    pos : mapping from node to (x, y), or array_like, shape (n, 2), optional
        Places of the nodes, such as ``networkx.get_node_attributes(graph, "pos")``;
        networkx' Kamada-Kawai layout by default.
    coalition : sequence of nodes, optional
        Agents that share their knowledge, drawn as white squares; the colours then show
        the loss of each of the others to them.
    ax : Axes, optional

    Returns
    -------
    matplotlib.axes.Axes

    See Also
    --------
    consensus.plot_error, consensus.Network

    Examples
    --------
    >>> import privcontrol as pc
    >>> graph = pc.plants.ten_agent_graph()
    >>> budgets = {k: pc.PrivacyBudget(epsilon=0.1 * k, delta=1e-2) for k in graph}
    >>> ax = pc.consensus.plot_network(pc.private_consensus(graph, budgets, radius=1.0))
    """
    instance_of(consensus, PrivateConsensus, "consensus", _CONSENSUS)
    network = consensus.network
    if len(network) > DENSE_MODEL:
        raise ValueError(
            f"expected at most {DENSE_MODEL} nodes to draw, got {len(network)}"
        )
    delta = consensus.quoted_delta
    members: list[int] = []
    if coalition is not None:
        consensus.guarantee_for(coalition=coalition)
        members = [network.index[node] for node in coalition]
    honest = [i for i in range(len(network)) if i not in members]
    losses = []
    for i in honest:
        guarantee = consensus.guarantee_for(node=network.nodes[i], coalition=coalition)
        losses.append(guarantee.epsilon(delta))
    epsilon = np.array(losses)
    is_equal = np.ptp(epsilon) < ROUNDED * epsilon.max()
    import networkx as nx

    graph = nx.from_scipy_sparse_array(network.iteration)
    graph.remove_edges_from(list(nx.selfloop_edges(graph)))
    if pos is None:
        places = nx.kamada_kawai_layout(graph, weight=None)
    else:
        given = network._per_node(pos, "pos")
        places = dict(enumerate(real_array(given, "pos", shape=(len(network), 2))))
    weights = np.array([weight for *_, weight in graph.edges(data="weight")])
    ax = own_axes(ax)
    nodes: dict[str, Any] = dict(ax=ax, edgecolors="black", linewidths=0.8)
    nodes["node_size"] = min(420.0, 12000.0 / len(network))
    width = 0.6 + 2.0 * weights / weights.max()
    nx.draw_networkx_edges(graph, places, ax=ax, edge_color="0.6", width=width)
    colors = ("#BBD9EE", None) if is_equal else (epsilon, "cividis")
    points = nx.draw_networkx_nodes(
        graph, places, honest, node_color=colors[0], cmap=colors[1], **nodes
    )
    if is_equal:
        size = rf"$\varepsilon$ = {shown(epsilon[0])} at $\delta$ = {delta:g}"
        ax.set_title(f"{size} for every node", fontsize="medium")
    else:
        meaning = rf"$\varepsilon$ of the node at $\delta$ = {delta:g}"
        ax.figure.colorbar(points, ax=ax, label=meaning, shrink=0.8)
    if members:
        squares = nx.draw_networkx_nodes(
            graph, places, members, node_shape="s", node_color="white", **nodes
        )
        squares.set(linewidths=2.5, label="coalition")
        ax.legend(loc="lower center", bbox_to_anchor=(0.5, -0.08), frameon=False)
    if len(network) <= NAMED_NODES:
        names = dict(enumerate(network.labels))
        texts = nx.draw_networkx_labels(
            graph, places, names, font_size=9, ax=ax, clip_on=False
        )
        halo = withStroke(linewidth=2, foreground="white")
        for text in texts.values():
            text.set_path_effects([halo])
    ax.set_aspect("equal")
    ax.margins(0.12)
    ax.set_axis_off()
    return ax
