"""Find the least noise that meets all budgets, and weigh accuracy against privacy."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import brentq

from ..core.ball_noise import RADIAL_LAWS
from ..core.noise import FAMILIES, LaplaceNoise, Noise, delta_to_quote, family_of
from ..numerics.arguments import helpful_arguments
from ..numerics.checks import (
    one_of,
    positive_integer,
    positive_number,
    real_array,
)
from ..numerics.errors import warn_user
from ..numerics.linalg import EPS, float_above
from ..numerics.progress import timed_bar
from ..numerics.thresholds import FEW_ROUNDS, FINE, LEAST_PRICE, MOST_NAMED, ROUNDED
from ..privacy.budget import PrivacyBudget, checked_budget
from ..privacy.loss import MOST_TRUNCATED, checked_delta
from ..privacy.radial import ball_rate
from ..privacy.radial_design import truncation_of
from .message_noise import (
    MOVES,
    READOUTS,
    AgentNoise,
    Exposure,
    NodeAdjacency,
)
from .network import WEIGHTS, Network, core_of, read_network
from .private import PrivateConsensus

#: Whose loss is to be least: the worst node's, or that of all nodes together.
OBJECTIVES = ("worst", "total")

#: Share of independent noise that agents draw alone from which on a user is warned.
_OF_NO_USE = 0.99

#: Agents whose exposures differ by less, relatively, draw the same share.
_EVEN = 0.02


@partial(
    helpful_arguments,
    advice="the secret is a radius, by which one node's value may move",
)
def private_consensus(
    graph: object,
    budget: PrivacyBudget | Sequence[PrivacyBudget] | Mapping[Hashable, PrivacyBudget],
    radius: ArrayLike | Mapping[Hashable, float],
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
    subtracts, so it hides values and does not change the average (Sabater, Bellet,
    Ramon 2022). Without a coalition and with much shared noise the average is as
    accurate as a trusted curator's with the same guarantee: its variance is n times
    smaller than with independent noise.

    Parameters
    ----------
    graph : networkx.Graph, array_like (n, n), sparse matrix (n, n) or Network
        Connected and undirected, with positive weights w_ij.
    budget : PrivacyBudget, sequence of n, or mapping from node to PrivacyBudget
        One for all nodes, or each node's own. Laplace noise meets (epsilon, 0) and
        makes no use of a delta.
    radius : float, array_like (n,) or mapping from node to float
        How far a node's initial value may move, in its unit.
    family : {"gaussian", "laplace", "ball", "truncated", "auto"}, optional
        "ball" is the radial law of a number or vector (see `core.ball_rate`), for
        numbers Laplace noise that makes use of a delta: at (1, 1e-5) the limit error is
        6.9 times smaller than with Gaussian noise. "truncated" ends at a radius, for
        one budget of all
        agents and at most two entries: at (1, 1e-2) the limit error of numbers is 1.2 times
        smaller than with Laplace noise, and with probability up to delta a neighbour is
        excluded with certainty. Both are for ``moves="one"``. "auto" is the smallest of
        them and Gaussian noise, or Gaussian noise for everything else.
        For one release Laplace noise is often smaller than Gaussian noise, and needs no
        delta: at epsilon = 1 its variance is 2 radius^2, and the Gaussian one 6.63
        radius^2 at delta = 1e-3. If the same values are released repeatedly, Gaussian
        noise is smaller.
    weights, weight : str, optional
        See `read_network`.
    moves : {"one", "pair", "known-total"}, optional
        Which initial values differ, see `NodeAdjacency`; the last two need one budget
        for all nodes.
    pairwise_std : float or "auto", optional
        Standard deviation of the Gaussian noise that every two neighbours share, in the
        unit of the values; 0 for independent noise. ``"auto"`` shares enough to bring
        the variance within 1 % of its limit. The more noise is shared, the more steps
        the values need to settle. Agents whom coalitions expose more may draw more
        noise alone than the others.
    coalition : int, optional
        Number of agents that may share their knowledge with the eavesdropper. To be
        given with ``pairwise_std``: 0 for an outsider alone; agents that are curious
        themselves make it 1 at least. If so many can surround an agent, shared noise is of no use
        to it, and a warning names it.
    dimension : int, optional
        d, for values in R^d that move in a ball of the radius. Every entry has Gaussian
        noise of its own and of the same size, which hides the ball as it hides a
        number.

    Returns
    -------
    PrivateConsensus
        With one draw of noise for each agent and run.

    Raises
    ------
    ValueError, TypeError
        If `read_network` refuses the graph; if budgets or radii are of another kind or
        number; if Gaussian noise is asked for with delta = 0; if shared noise comes
        without a coalition or with another law, or vectors with Laplace noise.

    See Also
    --------
    PrivateConsensus, NodeAdjacency, consensus.optimal_consensus_epsilon

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
    one_of(family, "family", (*FAMILIES, *RADIAL_LAWS, "auto"))
    one_of(moves, "moves", MOVES)
    if not isinstance(weights, str):
        options = ", ".join(map(repr, WEIGHTS))
        raise TypeError(
            f"weights: expected one of {options}, got {type(weights).__name__}; pass a "
            "matrix of weights as the graph"
        )
    network = read_network(graph, weights=weights, weight=weight)
    n = len(network)
    radii = network._per_node(radius, "radius")
    adjacency = NodeAdjacency(radii, moves=moves, dimension=dimension)
    adjacency.radii(n)
    budgets = _budgets(network, budget, moves)
    radial = None
    if family in (*RADIAL_LAWS, "auto"):
        is_alone = moves == "one" and pairwise_std == 0
        radial = _radial_law(family, budgets, dimension, is_alone)
        family = "gaussian" if radial is None else radial.family
    if radial is None:
        law = family_of(family)
        rates = {entry: law.allowed_shift(entry) for entry in dict.fromkeys(budgets)}
        quoted = delta_to_quote(law, budgets)
    else:
        law = LaplaceNoise  # whose shifts are not divided among several nodes
        rates = radial.rates
        quoted = min(entry.delta or 0.0 for entry in budgets)
    allowed = np.array([rates[entry] for entry in budgets])
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
        quoted_delta=quoted,
        bound=math.inf if radial is None else radial.bound,
        pairwise_std=shared,
        coalition=coalition,
    )
    if not made.pairwise_std:
        return made
    with timed_bar(
        False, "a smaller coalition, or a network of fewer agents, takes less"
    ):
        noise = _shared_noise(made, allowed, pairwise_std == "auto")
    shares = noise.scales / scales
    gains_nothing = np.flatnonzero(shares > _OF_NO_USE)
    if gains_nothing.size:
        who = "the agents"
        if gains_nothing.size < n:
            named = ", ".join(str(network.nodes[i]) for i in gains_nothing[:MOST_NAMED])
            if gains_nothing.size > MOST_NAMED:
                named += ", .."
            who = f"{gains_nothing.size} of {n} agents ({named})"
        warn_user(
            f"shared noise is of no use against a coalition of {coalition}: "
            f"in addition {who} draw {shares.max():.1%} of independent noise, and the "
            "average takes more steps. Take a network whose agents have more neighbours than "
            "the coalition has members, more pairwise_std, or pairwise_std=0"
        )
    return PrivateConsensus(
        network,
        noise.scales,
        adjacency,
        quoted_delta=made.quoted_delta,
        pairwise_std=noise.pairwise_std,
        coalition=coalition,
    )


@dataclass(frozen=True)
class _RadialLaw:
    """A radial law of the agents' draws, with its rate for each budget."""

    family: str
    rates: dict[PrivacyBudget, float]
    variance: float  # of one entry of a unit ball's noise, summed over the budgets
    bound: float = math.inf  # in units of 1 / rate


def _radial_law(
    family: str, budgets: Sequence[PrivacyBudget], dimension: int, is_alone: bool
) -> _RadialLaw | None:
    """Return the radial law that is asked for, None for Gaussian noise.

    "auto" takes the one of least variance, in the sum over the budgets.
    """
    if not (is_alone and all(entry.epsilon for entry in budgets)):
        if family == "auto":
            return None
        raise ValueError(
            f'family: "{family}" hides the value of one agent at a time, by an epsilon '
            "above 0; leave moves, pairwise_std and gdp out, or pass "
            'family="gaussian"'
        )
    found = []
    if family != "truncated":
        found.append(_ball(budgets, dimension))
    is_cut = len(set(budgets)) == 1 and budgets[0].delta and dimension <= MOST_TRUNCATED
    if family == "truncated" or (family == "auto" and is_cut):
        found.append(_truncated(budgets, dimension))
    best = min(found, key=lambda law: law.variance)
    if family == "auto" and not any(entry.pure for entry in budgets):
        gaussian = sum(1 / entry.shift() ** 2 for entry in budgets)
        if gaussian <= best.variance:
            return None
    return best


def _ball(budgets: Sequence[PrivacyBudget], dimension: int) -> _RadialLaw:
    """Return the radial law of each budget's largest rate."""
    each = dict.fromkeys(budgets)
    rates = {entry: ball_rate(*entry.pair, dimension) for entry in each}
    variance = sum((dimension + 1) / rates[entry] ** 2 for entry in budgets)
    # of one number it is Laplace noise
    return _RadialLaw("ball" if dimension > 1 else "laplace", rates, variance)


def _truncated(budgets: Sequence[PrivacyBudget], dimension: int) -> _RadialLaw:
    """Return the law that ends at a radius, the same for all agents."""
    if len(set(budgets)) > 1:
        raise ValueError(
            'family: "truncated" is for one budget of all agents, got '
            f'{len(set(budgets))} different ones; pass family="ball"'
        )
    budget = budgets[0]
    size = truncation_of(budget, dimension)
    bound = float_above(size.law.bound, 2)
    variance = size.variance * len(budgets)
    return _RadialLaw("truncated", {budget: size.rate}, variance, bound)


def _budgets(network: Network, budget: object, moves: str) -> list[PrivacyBudget]:
    """One budget, or one for each node."""
    budgets = network._per_node(budget, "budget")
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
    adjacency: NodeAdjacency, allowed: NDArray[np.float64], nodes: int, law: type[Noise]
) -> NDArray[np.float64]:
    """Least noise with which every move, rounded up, stays within the limits."""
    radii = adjacency.radii(nodes)
    allowed = allowed * (1 - 8 * EPS)  # for rounding
    if adjacency.kind != "one":
        # shifts of two nodes add in the norm of the family
        allowed = allowed[:1] * 2 ** (-1 / law.shift_norm)
    if adjacency.kind == "known-total":
        # another node's larger radius may have to hide behind this node's noise
        radii = np.full(nodes, radii.max())
    return radii / allowed


def _shared_noise(
    independent: PrivateConsensus, allowed: NDArray[np.float64], is_auto: bool
) -> AgentNoise:
    """Noise of which the agents draw little alone, with the least variance of three ways.

    The ``independent`` agents have the scales of independent noise. All draw the same
    share of it; or only those of a core do, in which coalitions leave everyone a
    neighbour; or those whom coalitions expose more draw more. What they share is kept,
    or as much as makes no difference beyond 1 % of the variance.
    """
    noise = independent.noise
    coalition = independent.coalition or 0

    def over_allowed(exposure: Exposure) -> NDArray[np.float64]:
        return exposure.sizes(independent.adjacency) / allowed

    everyone = np.ones(len(noise.scales), dtype=bool)
    equal = _least_share(noise, everyone, coalition, over_allowed, is_auto)
    exposure = equal.exposure_to_any(coalition)
    exposed = over_allowed(exposure)
    if exposed.min() > 1 - _EVEN:
        return equal
    found = [equal]
    is_one = independent.adjacency.kind == "one"
    # hides one agent's move, whatever is shared
    alone = noise.scales * (1 + ROUNDED if is_one else np.inf)
    core = core_of(noise.network, coalition)[0]
    if is_one and not is_auto and core.any() and not core.all():
        held = replace(noise, scales=alone)
        found.append(_least_share(held, core, coalition, over_allowed, is_auto))
    among = tuple({exposure.coalition(node) for node in range(len(alone))})
    own = equal
    for _ in range(FEW_ROUNDS):
        own = replace(own, scales=np.minimum(own.scales * np.sqrt(exposed), alone))
        exposed = over_allowed(own.exposure_to_any(coalition, among))
    own = replace(own, pairwise_std=noise.pairwise_std)
    found.append(_least_share(own, everyone, coalition, over_allowed, is_auto))
    fit = [each for each in found[1:] if each.is_resolved]
    return min([equal, *fit], key=lambda each: float(each.own_variance.sum()))


def _least_share(
    noise: AgentNoise,
    among_whom: NDArray[np.bool_],
    coalition: int,
    over_allowed: Callable[[Exposure], NDArray[np.float64]],
    is_auto: bool,
) -> AgentNoise:
    """Noise with the least share of `noise.scales` that meets all budgets.

    The agents ``among_whom`` (n,) draw it, the others all of it. ``over_allowed`` are
    the agents' sizes over what is allowed, by their exposure.
    """

    def excess(scaled: AgentNoise, among: Sequence[tuple[int, ...]] = ()) -> float:
        return math.log(over_allowed(scaled.exposure_to_any(coalition, among)).max())

    def with_share(log_share: float) -> AgentNoise:
        share = np.where(among_whom, math.exp(log_share), 1.0)
        return replace(noise, scales=noise.scales * share)

    def least_towards(coalitions: Sequence[tuple[int, ...]]) -> AgentNoise:
        least_log = math.log(LEAST_PRICE)  # which hides the sum of 1e12 agents
        least = with_share(least_log)
        if excess(least, coalitions) <= 0:
            return least  # the others' noise hides them
        # bounds of pairs may ask for more than independent noise
        share = brentq(
            lambda share: excess(with_share(share), coalitions),
            least_log,
            -least_log,
            xtol=FINE,
        )
        return with_share(share)

    if is_auto:
        ample = replace(noise, pairwise_std=noise.ample_pairwise_std(coalition))
        size = math.exp(excess(ample))
        found = replace(
            ample, scales=noise.scales * size, pairwise_std=ample.pairwise_std * size
        )
    else:
        # what meets the budget towards some coalitions, until no other one is worse
        among: set[tuple[int, ...]] = set()
        worst: set[tuple[int, ...]] = {()}
        while not worst <= among:
            among |= worst
            found = least_towards(tuple(among))
            exposure = found.exposure_to_any(coalition)
            most_exposed = np.argsort(over_allowed(exposure))[-2:]
            worst = {exposure.coalition(node) for node in most_exposed.tolist()}
    step = FINE
    while excess(found) > 0:
        found = replace(found, scales=found.scales * (1 + step))
        step *= 4
    return found


def _error_per_variance(nodes: int, readout: str) -> float:
    """Limit of the total error over the sum of all nodes' noise variances."""
    one_of(readout, "readout", READOUTS)
    if positive_integer(nodes, "nodes") < 2:
        raise ValueError(f"nodes: expected at least two, got {nodes}")
    if readout == "message":
        return 1 / nodes
    return 1 - 1 / nodes


@helpful_arguments
def optimal_consensus_epsilon(
    mse: float,
    nodes: int,
    radius: float,
    *,
    delta: float = 0.0,
    family: str = "gaussian",
    readout: str = "message",
) -> float:
    """Return the least epsilon with which private consensus reaches an accuracy.

    With equal noise sigma the total error in the limit is v sigma^2 (message readout)
    or v (n-1) sigma^2 (state readout), v = 1 (Gaussian) or 2 (Laplace). The privacy
    shift, epsilon of Laplace noise, is mu / sigma.

    Parameters
    ----------
    mse : float
        Accepted mean-square error, total over the nodes, in squared units of the
        initial values.
    nodes : int
        n, at least 2.
    radius : float
        mu: how far one node's initial value may move.
    delta : float, optional
        In [0, 1); Gaussian noise needs delta > 0.
    family : {"gaussian", "laplace"}, optional
    readout : {"message", "state"}, optional
        Estimate that each agent uses: its message, or its state, which is n - 1 times
        less accurate.

    Returns
    -------
    float
        Rounded up (DPAM section 6.2, whose epsilon_op has n for the n - 1 of the state
        readout).

    Raises
    ------
    ValueError
        If a number is out of its range, or Gaussian noise is asked for with delta = 0.

    See Also
    --------
    consensus.optimal_consensus_error, consensus.optimal_consensus_scales

    Examples
    --------
    >>> round(optimal_consensus_epsilon(2.0, 10, 1.0, family="laplace"), 12)
    1.0
    >>> round(optimal_consensus_epsilon(3.5263, 10, 1.0, delta=1e-2), 3)
    1.0
    """
    mse = positive_number(mse, "mse")
    radius = positive_number(radius, "radius")
    per_variance = _error_per_variance(nodes, readout)
    law = family_of(family)
    delta = checked_delta(delta)
    if law.needs_delta and delta == 0:
        raise ValueError(
            "delta: Gaussian noise needs delta > 0, got 0; pass delta=..., or "
            "family='laplace'"
        )
    variance = mse / (nodes * per_variance)
    shift = radius / math.sqrt(variance / law.unit_variance)
    if not math.isfinite(shift):
        raise ValueError(
            "radius: expected one that floats can compare with the error, got one more "
            "than 1e308 times as large"
        )
    return law.loss_of_size(float_above(shift, 4)).epsilon(delta)


@helpful_arguments
def optimal_consensus_error(
    budget: PrivacyBudget,
    nodes: int,
    radius: float,
    *,
    family: str = "gaussian",
    readout: str = "message",
) -> float:
    """Return the least total mean-square error in the limit that a budget allows.

    It is the inverse of `optimal_consensus_epsilon`.

    Parameters
    ----------
    budget : PrivacyBudget
        Laplace noise meets (epsilon, 0) and makes no use of a delta.
    nodes, radius, family, readout
        As for `optimal_consensus_epsilon`, which names the errors too.

    Returns
    -------
    float
        In squared units of the initial values.

    See Also
    --------
    consensus.optimal_consensus_epsilon, consensus.optimal_consensus_scales

    Examples
    --------
    >>> from privcontrol.core import PrivacyBudget
    >>> budget = PrivacyBudget(epsilon=1.0, delta=1e-2)
    >>> round(optimal_consensus_error(budget, 10, 1.0), 4)
    3.5264
    """
    checked_budget(budget)
    per_variance = _error_per_variance(nodes, readout)
    radius = positive_number(radius, "radius")
    law = family_of(family)
    scale = float_above(radius / law.allowed_shift(budget))
    return float(per_variance * law.unit_variance * nodes * scale * scale)


@helpful_arguments
def optimal_consensus_scales(
    mse: float,
    radii: ArrayLike,
    *,
    objective: str = "worst",
    family: str = "gaussian",
    readout: str = "message",
) -> NDArray[np.float64]:
    """Return noise scales of unequal nodes that reach an accuracy at the least loss.

    That is the worst node's shift max mu_i / sigma_i, or the loss of all nodes moving
    together: sum (mu_i / sigma_i)^2 (Gaussian, twice the zCDP parameter) or sum
    mu_i / sigma_i (Laplace, epsilon). By the stationarity of the Lagrangian sigma_i is
    in proportion to mu_i^p with p = 1 (worst), 1/2 (Gaussian total), 1/3 (Laplace
    total).

    Parameters
    ----------
    mse : float
        Total mean-square error in the limit, in squared units of the initial values.
    radii : array_like, shape (n,)
        mu_i: how far each node's initial value may move.
    objective : {"worst", "total"}, optional
    family, readout
        As for `optimal_consensus_epsilon`, which names the errors too.

    Returns
    -------
    ndarray, shape (n,)
        For ``PrivateConsensus(network, scales, adjacency, family=family)``.

    See Also
    --------
    consensus.optimal_consensus_epsilon, consensus.optimal_consensus_error

    Examples
    --------
    >>> optimal_consensus_scales(10.0, [1.0, 1.0, 4.0], objective="worst").round(3)
    array([1.291, 1.291, 5.164])
    >>> optimal_consensus_scales(10.0, [1.0, 1.0, 4.0], objective="total").round(3)
    array([2.236, 2.236, 4.472])
    """
    mse = positive_number(mse, "mse")
    moves = real_array(radii, "radii", ndim=1)
    n = len(moves)
    law = family_of(family)
    factor = law.unit_variance * _error_per_variance(n, readout)
    if not (moves > 0).all():
        raise ValueError(
            f"radii: expected {n} positive numbers, got {int((moves <= 0).sum())} that "
            "are not"
        )
    power = 1.0
    if one_of(objective, "objective", OBJECTIVES) == "total":
        power = law.shift_norm / (law.shift_norm + 2)
    scales = (moves / moves.max()) ** power
    return scales * math.sqrt(mse / factor / float(scales @ scales))
