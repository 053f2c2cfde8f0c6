"""Find the least noise for private consensus that meets all budgets."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import brentq

from ..core._linalg import EPS, one_of, round_up
from ..core.budget import PrivacyBudget, checked_budget
from ..core.noise import Noise, delta_to_quote, family_of
from .adjacency import MOVES, NodeAdjacency
from .network import WEIGHTS, Network, read_network
from .noise import AgentNoise, ample_pairwise_std, exposure_to_any
from .private import PrivateConsensus

#: Relative accuracy of the noise of agents that share noise.
_TOLERANCE = 1e-12

#: Logarithm of the least noise that agents draw alone, over that of independent noise,
#: which hides the sum of 1e12 agents.
_LEAST_OWN = -14.0


def private_consensus(
    graph: Any,
    budget: PrivacyBudget | Sequence[PrivacyBudget] | Mapping,
    radius: ArrayLike | Mapping,
    *,
    family: str = "gaussian",
    weights: str = "given",
    weight: str = "weight",
    moves: str = "one",
    pairwise_std: float | str = 0.0,
    coalition: int | None = None,
    dimension: int = 1,
) -> PrivateConsensus:
    """Average consensus that hides the initial values (DPAM eq. (25) with Theorem 4).

    x(t+1) = x(t) - L y(t), y(t) = x(t) + gamma, with gamma_i = sigma_i eta_i drawn
    once. sigma_i is the least that meets node i's budget, radius / kappa_eps^-1(delta)
    (Gaussian, eq. (30)) or radius / epsilon (Laplace, eq. (31)).

    With ``pairwise_std`` neighbours also share noise, which one adds and the other
    subtracts, so it hides values and leaves the average alone (Sabater, Bellet, Ramon
    2022). Without a coalition and with much shared noise the average is as accurate as
    that of a trusted curator with the same guarantee, which is n times less variance
    than independent noise has.

    Parameters
    ----------
    graph : networkx.Graph, array_like (n, n) or sparse matrix (n, n)
        Connected and undirected, with positive weights w_ij.
    budget : PrivacyBudget, sequence of n, or mapping from node to PrivacyBudget
        One for all nodes, or each node's own. Laplace noise meets (epsilon, 0) and
        makes no use of a delta.
    radius : float, array_like (n,) or mapping from node to float
        How far a node's initial value may move, in its unit.
    family : {"gaussian", "laplace"}, optional
        For one release Laplace noise is often the smaller one, and needs no delta: at
        epsilon = 1 its variance is 2 radius^2, Gaussian noise's 6.63 radius^2 at delta
        = 1e-3. Where the same values are released again and again Gaussian noise wins.
    weights, weight : str, optional
        See `read_network`.
    moves : {"one", "pair", "known-total"}, optional
        Which initial values differ, see `NodeAdjacency`; the last two need one budget
        for all nodes.
    pairwise_std : float or "auto", optional
        Standard deviation of the Gaussian noise that every two neighbours share, in the
        unit of the values; 0 for independent noise. ``"auto"`` takes so much that the
        variance is within 1 % of its limit. The values need more steps to settle the
        more noise is shared.
    coalition : int, optional
        How many agents may pool what they know with the eavesdropper. To be given with
        ``pairwise_std``: 0 for an outsider alone; agents that are curious themselves
        make it 1 at least.
    dimension : int, optional
        d, for values in R^d that move in a ball of the radius. Every entry has Gaussian
        noise of its own and of the same size, which hides the ball as it hides a
        number.

    Raises
    ------
    ValueError, TypeError
        If `read_network` refuses the graph; if budgets or radii are of another kind or
        number; if Gaussian noise is asked for with delta = 0; if shared noise comes
        without a coalition or with Laplace noise, or vectors with Laplace noise.

    Examples
    --------
    >>> import numpy as np, privcontrol as pc
    >>> ring = np.roll(np.eye(6), 1, axis=0) / 3 + np.roll(np.eye(6), -1, axis=0) / 3
    >>> budget = pc.PrivacyBudget(epsilon=1, delta=1e-2)
    >>> consensus = private_consensus(ring, budget, radius=1.0)
    >>> round(consensus.rate, 4), consensus.scales.round(4)[0]
    (0.6667, np.float64(1.8779))
    >>> shared = private_consensus(ring, budget, 1.0, pairwise_std="auto", coalition=0)
    >>> errors = [agents.limit_mean_square_error() for agents in (consensus, shared)]
    >>> round(errors[0] / errors[1], 2)
    5.98
    """
    law = family_of(family)
    one_of(moves, "moves", MOVES)
    if not isinstance(weights, str):
        options = ", ".join(map(repr, WEIGHTS))
        raise TypeError(
            f"weights: expected one of {options}, got {type(weights).__name__}; pass a "
            "matrix of weights as the graph"
        )
    network = read_network(graph, weights=weights, weight=weight)
    n = len(network)
    radii = network.per_node(radius, "radius")
    adjacency = NodeAdjacency(radii, moves=moves, dimension=dimension)
    adjacency.radii(n)
    budgets = _budgets(network, budget, moves)
    per_budget = {}
    for entry in dict.fromkeys(budgets):
        per_budget[entry] = law.allowed_shift(entry)
    allowed = np.array([per_budget[entry] for entry in budgets])
    scales = _independent_scales(adjacency, allowed, n, law)
    if isinstance(pairwise_std, str):
        one_of(pairwise_std, "pairwise_std", ("auto",))
        shared = float(scales.max())  # checked, then sized
    else:
        shared = pairwise_std
    made = PrivateConsensus(
        network,
        scales,
        adjacency,
        family=family,
        quoted_delta=delta_to_quote(law, budgets),
        pairwise_std=shared,
        coalition=coalition,
    )
    if not made.pairwise_std:
        return made
    noise = _shared_noise(made, allowed, pairwise_std == "auto")
    return PrivateConsensus(
        network,
        noise.scales,
        adjacency,
        quoted_delta=made.quoted_delta,
        pairwise_std=noise.pairwise_std,
        coalition=coalition,
    )


def _budgets(network: Network, budget: Any, moves: str) -> list[PrivacyBudget]:
    """One budget, or one for each node."""
    budgets = network.per_node(budget, "budget")
    if not isinstance(budgets, list | tuple):
        budgets = [budgets]
    budgets = [checked_budget(entry) for entry in budgets]
    if len(budgets) not in (1, len(network)):
        raise ValueError(
            f"budget: expected one or {len(network)}, one for each node, got "
            f"{len(budgets)}"
        )
    if moves != "one" and len(set(budgets)) > 1:
        raise ValueError(
            f"budget: expected one for all nodes with moves={moves!r}, got "
            f"{len(set(budgets))} different ones"
        )
    return budgets


def _independent_scales(
    adjacency: NodeAdjacency, allowed: NDArray, nodes: int, law: type[Noise]
) -> NDArray:
    """Least noise with which every move, rounded up, stays within what is allowed."""
    radii = adjacency.radii(nodes)
    if adjacency.kind != "one":
        # shifts of two nodes add in the norm of the family; a little is for rounding
        share = 2 ** (-1 / law.shift_norm) * (1 - 8 * EPS)
        allowed = allowed[:1] * share
    if adjacency.kind == "known-total":
        # another node's larger radius may have to hide behind this node's noise
        radii = np.full(nodes, radii.max())
    scales = radii / allowed
    while (short := round_up(radii / scales) > allowed).any():
        scales[short] = np.nextafter(scales[short], np.inf)
    return scales


def _shared_noise(
    independent: PrivateConsensus, allowed: NDArray, is_auto: bool
) -> AgentNoise:
    """Noise with the least share of `noise.scales` that the agents need to draw alone.

    The ``independent`` agents have the scales of independent noise. What they share is
    kept, or as much as makes no difference beyond 1 % of the variance.
    """
    noise = independent.noise
    adjacency = independent.adjacency
    coalition = independent.coalition or 0

    def excess(scaled: AgentNoise, among: Sequence[tuple] = ()) -> float:
        sizes = exposure_to_any(scaled, coalition, among).sizes(adjacency)
        return math.log((sizes / allowed).max())

    def with_share(log_share: float) -> AgentNoise:
        return replace(noise, scales=noise.scales * math.exp(log_share))

    def least_towards(coalitions: Sequence[tuple]) -> AgentNoise:
        # bounds of pairs may ask for more than independent noise
        share = brentq(
            lambda share: excess(with_share(share), coalitions),
            _LEAST_OWN,
            1.0,
            xtol=_TOLERANCE,
        )
        return with_share(share)

    if is_auto:
        ample = replace(noise, pairwise_std=ample_pairwise_std(noise, coalition))
        size = math.exp(excess(ample))
        found = replace(
            ample, scales=noise.scales * size, pairwise_std=ample.pairwise_std * size
        )
    else:
        # what meets the budget towards some coalitions, until no other one is worse
        among: set[tuple] = set()
        worst: set[tuple] = {()}
        while not worst <= among:
            among |= worst
            found = least_towards(tuple(among))
            exposure = exposure_to_any(found, coalition)
            most_exposed = np.argsort(exposure.sizes(adjacency))[-2:]
            worst = {exposure.coalition(node) for node in most_exposed.tolist()}
    step = _TOLERANCE
    while excess(found) > 0:
        found = replace(found, scales=found.scales * (1 + step))
        step *= 4
    return found
