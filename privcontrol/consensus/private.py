"""Private average consensus: every agent hides its initial value behind one draw of noise that it keeps for ever.

All messages are then a function of the one release y(0) = x(0) + gamma, whatever the number of steps. States x_i(t) are
never published: beside its message, a state gives the noise and with it the initial value away.
"""

import math

import control as ct
import numpy as np
import scipy.sparse as sparse

from .._trials import run_trials
from ..core._linalg import one_of, positive_integer, real_array
from ..core.guarantee import PrivacyGuarantee, Scope
from ..core.mechanism import Mechanism
from ..core.noise import GaussianNoise, LaplaceNoise
from ..core.query import LinearQuery
from ._propagation import Propagation, available_cores, row_parts, trial_block
from .adjacency import (
    MOVES,
    NamedNode,
    NamedValue,
    NodeAdjacency,
    initial_values as node_initial_values,
)
from .moments import estimated_error, exact_error, limit_error
from .simulation import consensus_response
from .weights import Network

NOISES = {"gaussian": GaussianNoise, "laplace": LaplaceNoise}

#: `PrivateConsensus.to_statespace` and `.mechanism` form dense matrices of this many rows at most.
DENSE_MODEL = 500

_ASSUMPTIONS = (
    "messages are all that others, the other agents included, see of a hidden node, never a state x_i(t) beside y_i(t)",
    "each node keeps its one draw of noise and computes its steps from published messages, its own included",
    "the number of steps does not depend on the initial values",
)

_SAME_VALUE = (
    "a node's name stands for the same initial value in all networks that are counted"
)


class PrivateConsensus:
    """Average consensus whose messages hide the initial values; made by `private_consensus`.

    Parameters
    ----------
    network : Network
        From `read_network`.
    scales : array_like, shape (n,) or float
        sigma_i: standard deviation of Gaussian, scale of Laplace noise, in the unit of the initial values.
    adjacency : NodeAdjacency
        Which initial values must look alike.
    family : {"gaussian", "laplace"}, optional
    quoted_delta : float, optional
        The delta at which the guarantee's text quotes epsilon; 1e-5 (Gaussian) or 0 (Laplace) by default.
    positions : array_like, shape (n, 2), optional
        Where `plot_network` draws the nodes.

    Attributes
    ----------
    network, adjacency, family, quoted_delta, positions : as given
    scales : ndarray, shape (n,)

    Raises
    ------
    ValueError
        If a scale is not positive and finite, or numbers of scales, radii or positions do not fit the network.
    TypeError
        If the network is not one of `read_network`, or the adjacency no `NodeAdjacency`.

    Examples
    --------
    The paper's ten agents with noise of our choice:

    >>> from privcontrol.consensus import NodeAdjacency, read_network
    >>> from privcontrol.plants import ten_agent_graph
    >>> consensus = PrivateConsensus(read_network(ten_agent_graph()), 2.0, NodeAdjacency(1.0))
    >>> consensus.guarantee.gdp, round(consensus.guarantee_for("pair").gdp, 4)
    (0.5, 0.7071)
    >>> consensus.limit_mean_square_error(), consensus.limit_mean_square_error(readout="state")
    (4.0, 36.0)
    """

    def __init__(
        self,
        network,
        scales,
        adjacency,
        *,
        family="gaussian",
        quoted_delta=None,
        positions=None,
    ):
        for part, kind, name in (
            (network, Network, "network"),
            (adjacency, NodeAdjacency, "adjacency"),
        ):
            if not isinstance(part, kind):
                found, hint = (
                    type(part).__name__,
                    "read_network(graph), or private_consensus(graph, budget, radius)",
                )
                hint = hint if name == "network" else "NodeAdjacency(radius)"
                raise TypeError(
                    f"{name}: expected a {kind.__name__}, got {found}; write {hint}"
                )
        self.family = one_of(family, "family", tuple(NOISES))
        self.network, self.adjacency = network, adjacency
        self.quoted_delta = (
            (1e-5 if family == "gaussian" else 0.0)
            if quoted_delta is None
            else quoted_delta
        )
        scales = real_array(scales, "scales")
        if scales.shape not in ((), (len(network),)) or not (scales > 0).all():
            raise ValueError(
                f"scales: expected a positive number, or {len(network)}, one for each node, got shape {scales.shape}; "
                "a node without noise publishes its initial value"
            )
        self.scales = real_array(np.broadcast_to(scales, (len(network),)), "scales")
        adjacency.radii(len(network))
        self.positions = (
            None
            if positions is None
            else real_array(positions, "positions", shape=(len(network), 2))
        )

    @property
    def nodes(self):
        """Node names, in the order of all arrays."""
        return self.network.nodes

    @property
    def laplacian(self):
        """L, sparse (n, n): diag(sum_j w_ij) - (w_ij)."""
        return self.network.laplacian

    @property
    def rate(self):
        """alpha: factor by which the distance to agreement shrinks at each step (DPAM section 6.2)."""
        return self.network.rate

    @property
    def noise_variance(self):
        """Variance (n,) of each node's noise: sigma^2 (Gaussian), 2 sigma^2 (Laplace)."""
        return NOISES[self.family].unit_variance * self.scales**2

    @property
    def guarantee(self):
        """What all messages of all steps together promise, as a `PrivacyGuarantee` (DPAM Theorem 4).

        They are post-processing of the one release x(0) + gamma, in which a node's move meets its own noise only. So
        are those of a network that changes on the way, as long as the change depends on the initial values through
        the messages at most.

        The adversary of a hidden node may be all other agents together, with their values, noise, states and all
        messages: for a move of node i, all others held, their view depends on it through y_i(0) alone, and
        y_i(t) - y_i(0) is a function of the messages, also where the others do not follow the rule. Of two nodes that
        move together (``pair``, ``known-total``) the adversary is all the rest.
        """
        return self._guarantee(self.adjacency)

    def guarantee_for(self, moves):
        """The guarantee for other moves with the same radius: ``one`` node, a ``pair``, or a ``known-total``.

        For larger groups ask the mechanism, with one column of radii for each group that moves together; the signs of
        its entries do not matter.

        Examples
        --------
        >>> import numpy as np, privcontrol as pc
        >>> agents = pc.private_consensus(pc.plants.ten_agent_graph(), pc.PrivacyBudget(epsilon=1, delta=1e-2), 1.0)
        >>> group = pc.DirectionAdjacency(np.isin(agents.nodes, [2, 3, 7]).astype(float)[:, None])
        >>> [round(g.epsilon(1e-2), 3) for g in (agents.guarantee_for("pair"), agents.mechanism.guarantee(group))]
        [1.586, 2.08]
        """
        if moves not in MOVES:
            raise ValueError(
                f"moves: expected one of {', '.join(map(repr, MOVES))}, got {moves!r}; for a group of more than two "
                "nodes use mechanism.guarantee(DirectionAdjacency(columns)), a column of the nodes' radii for each group"
            )
        return self._guarantee(NodeAdjacency(self.adjacency.radius, moves=moves))

    def guarantee_of(self, node):
        """The guarantee of one node, for moves in which it takes part.

        With ``moves="one"`` it is about the initial value of the node of this name and its radius, whatever the
        network: guarantees of a node that was in several networks, each with a fresh draw of noise, add. The rows of
        a matrix have no names; their guarantees add in networks of the same size only.

        Parameters
        ----------
        node : hashable
            Name of a node; 0 .. n-1 for a matrix.

        Raises
        ------
        ValueError
            If there is no such node.

        Examples
        --------
        Node 2 runs twice with fresh noise, the second time without node 0:

        >>> import networkx as nx, privcontrol as pc
        >>> budget = pc.PrivacyBudget(epsilon=1, delta=1e-3)
        >>> path, rest = nx.path_graph(4), nx.path_graph([1, 2, 3])
        >>> first, second = (pc.private_consensus(g, budget, 1.0, weights="metropolis") for g in (path, rest))
        >>> both = first.guarantee_of(2) + second.guarantee_of(2)
        >>> round(both.epsilon(1e-3), 3), both.exact == first.guarantee_of(2).exact
        (1.514, True)
        """
        if node not in self.network.index:
            raise ValueError(
                f"node: expected one of the network's {len(self.network)} nodes, got {node!r}"
            )
        place, kind, radius = (
            self.network.index[node],
            self.adjacency.kind,
            self.adjacency.radius,
        )
        if kind == "one":  # no other radius matters
            radius = float(self.adjacency.radii(len(self.network))[place])
            if not isinstance(self.nodes, range):
                named = NamedNode(radius, place, node)
                return self._guarantee(named, NamedValue(named.label), (_SAME_VALUE,))
        return self._guarantee(
            NodeAdjacency(radius, moves=kind, node=place, label=node)
        )

    def _guarantee(self, adjacency, domain=None, assumptions=()):
        domain = (
            self.network.initial_values(adjacency.kind == "known-total")
            if domain is None
            else domain
        )
        scope = Scope.of(adjacency, domain, assumptions=_ASSUMPTIONS + assumptions)
        return PrivacyGuarantee(
            adjacency.shifts(self.scales).loss(self.family), scope, 1, self.quoted_delta
        )

    @property
    def mechanism(self):
        """The release x(0) + gamma as a general `Mechanism`, for audits of small networks (dense, n x n)."""
        self._small("mechanism")
        return Mechanism(
            LinearQuery(sparse.eye_array(len(self.network))),
            NOISES[self.family](self.scales),
        )

    def _small(self, what):
        if len(self.network) > DENSE_MODEL:
            raise ValueError(
                f"{what}: expected at most {DENSE_MODEL} nodes for a dense model, got {len(self.network)}"
            )

    def to_statespace(self):
        """The network as a python-control system with agent names as labels, for small networks.

        Its states are x and the held noise ``xi[node]``, its outputs the messages; inputs ``eta[node]`` are standard
        noise entries at the first step and zero after: ``ct.forced_response(sys, r.time, r.inputs[:, k], X0)`` with
        X0 = [x(0); 0] is trial k of a response r.

        Returns
        -------
        control.StateSpace
            With dt = 1, one averaging step.
        """
        self._small("to_statespace")
        labels, n = self.network.labels, len(self.network)
        L, W = self.laplacian.toarray(), self.network.iteration.toarray()
        identity, sigma = np.eye(n), np.diag(self.scales)
        return ct.ss(
            np.block([[W, -L], [np.zeros((n, n)), identity]]),
            np.vstack([-L @ sigma, sigma]),
            np.hstack([identity, identity]),
            sigma,
            1,
            states=labels + [f"xi[{label}]" for label in labels],
            inputs=[f"eta[{label}]" for label in labels],
            outputs=labels,
            name="consensus",
        )

    def simulate(
        self,
        initial_values,
        steps,
        *,
        trials=1,
        rng=None,
        keep_states=True,
        executor=None,
        progress=False,
    ):
        """Run trials of the private averaging iteration.

        Parameters
        ----------
        initial_values : array_like (n,) or mapping from node to float
            x(0), private.
        steps : int
            Averaging steps; a response holds t = 0 .. steps.
        trials : int, optional
        rng : None, int, SeedSequence or Generator, optional
        keep_states : bool, optional
            False keeps the last messages and the squared errors of all steps, but no signal at every step: the memory
            of a large network is then that of the messages, some 30 vectors and a second copy of its weights.
        executor, progress
            As for `PrivateLoop.simulate`. Without an executor the steps of a large network share the cores that this
            process may use; ``ThreadPoolExecutor(1)`` keeps to one. No number depends on it.

        Returns
        -------
        ConsensusResponse
            Outputs are the messages, all that may be published; states the private x_i(t).
        """
        x, steps = self._initial(initial_values), positive_integer(steps, "steps")
        trials, block = positive_integer(trials, "trials"), trial_block(len(x))
        average = math.fsum(x) / len(x)
        kept = min(trials, block) if keep_states else 0
        threads = available_cores() if executor is None else 1
        parts = row_parts(self.network.iteration, block)
        task = Propagation(
            parts,
            x - average,
            average,
            self.scales,
            self.family,
            steps,
            kept,
            threads=threads,
        )
        blocks = run_trials(
            task, trials, rng=rng, executor=executor, progress=progress, block=block
        )
        return consensus_response(blocks, steps, self.network.labels, self.guarantee)

    def _initial(self, initial_values):
        return node_initial_values(self.network, initial_values)

    def mean_error(self, initial_values, steps):
        """E readout_i(t) - mean(x(0)), the same for both readouts (DPAM Proposition 1 (ii): it vanishes).

        Parameters
        ----------
        initial_values : array_like (n,) or mapping from node to float
        steps : int

        Returns
        -------
        ndarray, shape (n, steps + 1)
        """
        x, steps = self._initial(initial_values), positive_integer(steps, "steps")
        errors = np.empty((steps + 1, len(x)))
        errors[0] = x - math.fsum(x) / len(x)
        for t in range(steps):
            errors[t + 1] = self.network.iteration @ errors[t]
        return errors.T

    def mean_square_error(self, initial_values, steps, *, readout="message"):
        """Total over the agents of the mean-square error, E sum_i (readout_i(t) - mean(x(0)))^2, exact.

        Per agent it is ``np.sqrt(agents.mean_square_error(values, steps) / len(agents.nodes))`` (rms).

        Parameters
        ----------
        initial_values : array_like (n,) or mapping from node to float
        steps : int
        readout : {"message", "state"}, optional
            ``message``: each agent uses its own y_i, n - 1 times better in the limit for equal scales. ``state``: x_i,
            the metric of DPAM section 6.

        Returns
        -------
        ndarray, shape (steps + 1,)
            For t = 0 .. steps.

        Raises
        ------
        ValueError
            Above 4000 nodes: use `estimate_mean_square_error`.

        Examples
        --------
        >>> from privcontrol.consensus import private_consensus
        >>> from privcontrol.core import PrivacyBudget
        >>> pair = private_consensus([[0, 0.25], [0.25, 0]], PrivacyBudget(epsilon=1), 1.0, family="laplace")
        >>> pair.mean_square_error([0.0, 2.0], 3)
        array([6.    , 3.    , 2.25  , 2.0625])
        """
        x, steps = self._initial(initial_values), positive_integer(steps, "steps")
        return exact_error(
            self.network, self.noise_variance, x - math.fsum(x) / len(x), steps, readout
        )

    def estimate_mean_square_error(
        self,
        initial_values,
        steps,
        *,
        readout="message",
        probes=50,
        confidence=0.99,
        rng=None,
    ):
        """`mean_square_error` for networks of any size, with a proven confidence interval at each step.

        Parameters
        ----------
        initial_values, steps, readout
            As for `mean_square_error`.
        probes : int, optional
            Random vectors behind the estimate; each costs as much as a trial. The relative width of the interval is
            about 2 sqrt(log(2 / (1 - confidence)) / (probes n)) where all nodes contribute alike.
        confidence : float, optional
            Probability with which the interval at one step holds the exact value.
        rng : None, int, SeedSequence or Generator, optional

        Returns
        -------
        MeanSquareErrorEstimate

        Examples
        --------
        >>> import numpy as np
        >>> from privcontrol.consensus import private_consensus
        >>> from privcontrol.core import PrivacyBudget
        >>> ring = np.roll(np.eye(300), 1, axis=0) / 4 + np.roll(np.eye(300), -1, axis=0) / 4
        >>> consensus = private_consensus(ring, PrivacyBudget(epsilon=1), 1.0, family="laplace")
        >>> found = consensus.estimate_mean_square_error(np.zeros(300), 5, readout="state", rng=0)
        >>> exact = consensus.mean_square_error(np.zeros(300), 5, readout="state")
        >>> bool(found.lower[5] <= exact[5] <= found.upper[5] < 1.1 * found.lower[5])
        True
        """
        x, steps = self._initial(initial_values), positive_integer(steps, "steps")
        deviation = x - math.fsum(x) / len(x)
        options = {"probes": probes, "confidence": confidence, "rng": rng}
        return estimated_error(
            self.network, self.noise_variance, deviation, steps, readout, **options
        )

    def limit_mean_square_error(self, *, readout="message"):
        """The limit of `mean_square_error` for many steps: sum v_i / n (message), (1 - 1/n) sum v_i (state)."""
        return limit_error(self.noise_variance, readout)

    def error_bound(self, initial_values, steps):
        """Proposition 1's bound on the mean-square error of the state readout, for t = 0 .. steps.

        (alpha^t ||x(0)|| + (1 + alpha^t) sqrt(sum v_i))^2 by DPAM Proposition 1 (i) and Minkowski's inequality; its
        limit is `limit_error_bound`, the bound (iii). It is loose on the way: ||x(0)|| counts the average too, every
        mode is taken for the slowest, and the two parts add as norms. Of the paper's ten agents (epsilon = 1,
        delta = 0.01) it is 14 times the exact `mean_square_error` after 10 steps, 1.3 times after 30, and 10/9 times
        in the limit.

        Parameters
        ----------
        initial_values : array_like (n,) or mapping from node to float
        steps : int

        Returns
        -------
        ndarray, shape (steps + 1,)
        """
        x, steps = self._initial(initial_values), positive_integer(steps, "steps")
        decay = self.rate ** np.arange(steps + 1)
        return (
            decay * np.linalg.norm(x)
            + (1 + decay) * math.sqrt(self.limit_error_bound())
        ) ** 2

    def limit_error_bound(self):
        """Proposition 1 (iii): the sum of the noise's variances."""
        return float(self.noise_variance.sum())

    def __repr__(self):
        return (
            f"PrivateConsensus({len(self.network)} nodes, {self.network.edges} edges, {self.family} noise, "
            f"{self.guarantee.gdp:.4g}-GDP)"
        )
