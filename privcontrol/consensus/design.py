"""Noise for private consensus: from budgets, one or each node's own, to the least scales that meet them."""

import math
from fractions import Fraction

import numpy as np

from ..core._linalg import one_of
from ..core._losses.gaussian import decimal
from ..core.budget import PrivacyBudget
from ..core.calibration import laplace_scale
from .adjacency import MOVES, NodeAdjacency, node_values, quotient_up
from .private import NOISES, PrivateConsensus
from .weights import WEIGHTS, read_network


def private_consensus(
    graph,
    budget,
    radius,
    *,
    family="gaussian",
    method="analytic",
    weights="given",
    weight="weight",
    moves="one",
):
    """Average consensus that hides the initial values (DPAM eq. (25) with Theorem 4).

    x(t+1) = x(t) - L y(t), y(t) = x(t) + gamma, with gamma_i = sigma_i eta_i drawn once; sigma_i is the least that
    meets node i's budget, radius / kappa_eps^-1(delta) (Gaussian, eq. (30)) or radius / epsilon (Laplace, eq. (31)).

    Parameters
    ----------
    graph : networkx.Graph, array_like (n, n) or sparse matrix (n, n)
        Connected and undirected, with positive weights w_ij.
    budget : PrivacyBudget, sequence of n, or mapping from node to PrivacyBudget
        One for all nodes, or each node's own. Laplace noise meets (epsilon, 0) and makes no use of a delta.
    radius : float, array_like (n,) or mapping from node to float
        How far a node's initial value may move, in its unit.
    family : {"gaussian", "laplace"}, optional
        For one release of one node's value Laplace noise is often the smaller one, and needs no delta: at epsilon = 1
        its variance is 2 radius^2, Gaussian noise's 6.63 radius^2 at delta = 1e-3, and below 2 radius^2 only from
        delta = 0.04 on. Where the same values are released again and again Gaussian noise wins: within (1, 1e-3) in
        all, from four runs on, in the long run by half of the variance.
    method : {"analytic", "lenypappas", "classical"}, optional
        Rule from budget to Gaussian noise; ``analytic`` is exact.
    weights : {"given", "metropolis", "max-degree"}, optional
        See `read_network`.
    weight : str, optional
        Edge attribute that holds the weights of a networkx graph.
    moves : {"one", "pair", "known-total"}, optional
        Which initial values differ, see `NodeAdjacency`; the last two need one budget for all nodes.

    Returns
    -------
    PrivateConsensus

    Raises
    ------
    ValueError
        If the graph is directed, disconnected, has missing, negative or non-finite weights, or does not converge; if
        numbers of budgets or radii do not fit; if Gaussian noise is asked for with delta = 0.
    TypeError
        If a budget is no `PrivacyBudget`, or `weights` no name of a rule.

    Examples
    --------
    >>> import numpy as np, privcontrol as pc
    >>> ring = np.roll(np.eye(6), 1, axis=0) / 3 + np.roll(np.eye(6), -1, axis=0) / 3
    >>> consensus = private_consensus(ring, pc.PrivacyBudget(epsilon=1, delta=1e-2), radius=1.0)
    >>> round(consensus.rate, 4), consensus.scales.round(4)[0]
    (0.6667, np.float64(1.8779))
    >>> consensus.simulate([1, 2, 3, 4, 5, 6], 50, trials=20, rng=0).outputs.shape
    (6, 20, 51)
    """
    one_of(family, "family", tuple(NOISES))
    one_of(moves, "moves", MOVES)
    if not isinstance(weights, str):
        raise TypeError(
            f"weights: expected one of {', '.join(map(repr, WEIGHTS))}, got {type(weights).__name__}; pass a matrix of "
            "weights as the graph"
        )
    network = read_network(graph, weights=weights, weight=weight)
    adjacency = NodeAdjacency(node_values(network, radius, "radius"), moves=moves)
    budgets = [
        _budget(entry)
        for entry in np.atleast_1d(node_values(network, budget, "budget"))
    ]
    if len(budgets) not in (1, len(network)):
        raise ValueError(
            f"budget: expected one or {len(network)}, one for each node, got {len(budgets)}"
        )
    if moves != "one" and len(set(budgets)) > 1:
        raise ValueError(
            f"budget: expected one for all nodes with moves={moves!r}, got {len(set(budgets))} different ones"
        )
    allowed = _allowed(budgets, family, method)
    scales = _scales(adjacency, allowed, len(network), family)
    deltas = [entry.delta for entry in budgets if entry.delta is not None]
    quoted = min(deltas, default=1e-5) if family == "gaussian" else 0.0
    positions = _positions(graph, network)
    return PrivateConsensus(
        network,
        scales,
        adjacency,
        family=family,
        quoted_delta=quoted,
        positions=positions,
    )


def _budget(entry):
    if not isinstance(entry, PrivacyBudget):
        raise TypeError(
            f"budget: expected PrivacyBudget objects, got {type(entry).__name__}; write "
            "PrivacyBudget(epsilon=1.0, delta=1e-3), with your own numbers"
        )
    return entry


def _positions(graph, network):
    """The places (n, 2) of a networkx graph whose nodes all have a `pos` in the plane; else None."""
    if not hasattr(graph, "adj"):
        return None
    places = [graph.nodes[node].get("pos") for node in network.nodes]
    try:
        places = np.array(places, dtype=float)
    except (TypeError, ValueError):
        return None
    return (
        places
        if places.shape == (len(network), 2) and np.isfinite(places).all()
        else None
    )


def _allowed(budgets, family, method):
    """Largest shift over scale that each budget allows: y* of eq. (7), or epsilon."""
    allowed = {}
    for entry in dict.fromkeys(budgets):
        if family == "gaussian":
            allowed[entry] = entry.shift(method)
        else:
            allowed[entry] = entry.laplace_epsilon()
            laplace_scale(allowed[entry])  # refuses epsilon = 0 and says why
    return np.array([allowed[entry] for entry in budgets])


def _scales(adjacency, allowed, nodes, family):
    """Least noise scales with which every move, evaluated back and rounded up, stays within what is allowed."""
    radii = adjacency.radii(nodes)
    if adjacency.kind != "one":
        allowed = np.full(1, _half(float(allowed[0]), family))
        # another node's larger radius may have to hide behind this node's noise
        radii = (
            np.full(nodes, radii.max()) if adjacency.kind == "known-total" else radii
        )
    scales = radii / allowed
    while (short := quotient_up(radii, scales) > allowed).any():
        scales[short] = np.nextafter(scales[short], np.inf)
    return scales


def _half(allowed, family):
    """What each of two nodes may use: shifts add in the 2-norm (Gaussian) or the 1-norm (Laplace)."""
    share = allowed / math.sqrt(2) if family == "gaussian" else allowed / 2
    while (
        (2 * Fraction(share) ** 2 > Fraction(allowed) ** 2)
        if family == "gaussian"
        else (2 * decimal(share) > decimal(allowed))
    ):
        share = math.nextafter(share, 0.0)
    return share
