"""Average privately. Every agent hides its initial value behind noise that it keeps.

All messages are then a function of the one release y(0) = x(0) + gamma, for any number
of steps. States x_i(t) are never published: together with its message, a state gives the noise
and with it the initial value away. `private_consensus` finds the least noise that meets all
budgets.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from concurrent.futures import Executor
from functools import cached_property
from os import PathLike

import control as ct
import numpy as np
import scipy.sparse as sparse
from numpy.typing import ArrayLike, NDArray

from ..core.ball_noise import BallNoise
from ..core.mechanism import Mechanism
from ..core.query import LinearQuery
from ..numerics.arguments import helpful_arguments, helpful_fields
from ..numerics.checks import (
    Seed,
    instance_of,
    one_of,
    positive_integer,
    real_array,
)
from ..numerics.labels import html_table
from ..numerics.objects import Frozen
from ..privacy.guarantee import PrivacyGuarantee, Scope, released, shown
from ..privacy.loss import checked_delta
from ..privacy.release import exact_data
from . import runs
from .adversary import Adversary, check_hidden
from .agent import Agent
from .message_noise import READOUTS, AgentNoise, InitialValues, NodeAdjacency
from .network import Network, Values, fingerprint
from .runs import (
    ConsensusResponse,
    MeanSquareErrorEstimate,
)

#: `to_statespace` and `mechanism` form dense matrices of this many rows at most.
DENSE_MODEL = 500

#: Speed: adversaries whose exposures are kept, for the guarantees of one node after
#: another.
_KEPT = 8

_COMMON: tuple[str, ...] = (
    "each node keeps its one draw of noise and computes its steps from published "
    "messages, its own included",
    "the number of steps does not depend on the initial values",
)

_RELEASED = "exactly by the agents' own message(), in double precision by simulate"

_NO_COALITION = (
    "coalition: expected the number of agents that may share their knowledge with "
    "the eavesdropper, as shared noise hides nothing from those who know it; 0 for "
    "an outsider alone, 1 at least if agents are curious themselves"
)

_SAME_VALUE = (
    "a node's name denotes the same initial value in all networks that are counted"
)


@helpful_fields("private_consensus finds the least scales that meet a budget")
class PrivateConsensus(Frozen):
    """Average consensus whose messages hide the initial values.

    Made by `private_consensus`.

    Parameters
    ----------
    network : Network
        From `read_network`.
    scales : array_like, shape (n,) or float
        sigma_i, or s_i in addition to shared noise: standard deviation of the Gaussian,
        or scale of the Laplace noise that an agent draws alone, in the unit of the
        initial values.
    adjacency : NodeAdjacency
        Initial values that must be hard to distinguish.
    family, pairwise_std, coalition : optional
        As for `private_consensus`; `pairwise_std` is a number here, and "auto" is no law.
    bound : float, optional
        Radius at which ``family="truncated"`` ends, in units of the scales.
    quoted_delta : float, optional
        The delta at which the guarantee's text quotes epsilon; 1e-5 (Gaussian) or 0
        (Laplace) by default.

    Attributes
    ----------
    network, scales, adjacency, family, bound, quoted_delta, pairwise_std, coalition
        As given, `scales` of shape (n,). They do not change.
    nodes : tuple or range
        Node names, in the order of all arrays.
    dimension : int
        Number d of entries of each node's value.
    noise : AgentNoise
        Of all agents; ``noise.variance`` (n,) includes shared noise.

    Raises
    ------
    ValueError
        If a scale is not positive, numbers of scales or radii do not fit the network,
        shared noise comes without a coalition or with Laplace noise, or a coalition
        leaves nobody to hide.

    See Also
    --------
    private_consensus, consensus.Agent, consensus.ConsensusResponse

    Examples
    --------
    >>> from privcontrol.consensus import NodeAdjacency, read_network
    >>> from privcontrol.plants import ten_agent_graph
    >>> network = read_network(ten_agent_graph())
    >>> consensus = PrivateConsensus(network, 2.0, NodeAdjacency(1.0))
    >>> pair = consensus.guarantee_for("pair")
    >>> round(consensus.guarantee.gdp, 4), round(pair.gdp, 4)
    (0.5, 0.7071)
    >>> consensus.limit_mean_square_error()
    4.0
    >>> shared = PrivateConsensus(
    ...     network, 0.7, NodeAdjacency(1.0), pairwise_std=10.0, coalition=0)
    >>> round(shared.guarantee.gdp, 3), round(shared.limit_mean_square_error(), 2)
    (0.458, 0.49)
    """

    network: Network
    nodes: tuple[Hashable, ...] | range
    scales: NDArray[np.float64]
    adjacency: NodeAdjacency
    family: str
    bound: float
    quoted_delta: float
    pairwise_std: float
    coalition: int | None
    dimension: int
    noise: AgentNoise

    def __init__(
        self,
        network: Network,
        scales: ArrayLike,
        adjacency: NodeAdjacency,
        *,
        family: str = "gaussian",
        quoted_delta: float | None = None,
        bound: float = math.inf,
        pairwise_std: float = 0.0,
        coalition: int | None = None,
    ) -> None:
        instance_of(network, Network, "network", "read_network(graph)")
        instance_of(adjacency, NodeAdjacency, "adjacency", "NodeAdjacency(radius)")
        noise = AgentNoise.of(
            network,
            scales,
            adjacency,
            family=family,
            bound=bound,
            pairwise_std=pairwise_std,
        )
        adjacency.radii(len(network))
        delta = noise.family.quoted_delta
        if quoted_delta is not None:
            delta = checked_delta(quoted_delta)
        if coalition is not None:
            coalition = positive_integer(coalition, "coalition", zero=True)
        elif noise.pairwise_std:
            raise ValueError(_NO_COALITION)
        if noise.pairwise_std:
            check_hidden(coalition or 0, len(network), adjacency.kind, True)
        self._set(
            network=network,
            nodes=network.nodes,
            dimension=adjacency.dimension,
            scales=noise.scales,
            adjacency=adjacency,
            family=family,
            bound=float(bound),
            quoted_delta=delta,
            pairwise_std=noise.pairwise_std,
            coalition=coalition,
            noise=noise,
        )

    @property
    def laplacian(self) -> sparse.csr_array:
        """L = diag(sum_j w_ij) - (w_ij), sparse (n, n)."""
        return self.network.laplacian

    @property
    def rate(self) -> float:
        """Factor alpha by which disagreement shrinks in a step (DPAM section 6.2)."""
        return self.network.rate

    @property
    def guarantee(self) -> PrivacyGuarantee:
        """The promise of all messages of all steps together (DPAM Theorem 4).

        They are post-processing of the one release x(0) + gamma, also where the network
        changes on the way, loses messages or runs without a clock. With independent
        noise the adversary may be all agents but the one or two that move. Where
        neighbours share noise it is the eavesdropper with any `coalition` agents; in
        large networks the number is then an upper bound, and the guarantee is not
        called exact.
        """
        return self.guarantee_for()

    def guarantee_for(
        self,
        moves: str | None = None,
        *,
        node: Hashable | None = None,
        coalition: Sequence[Hashable] | None = None,
    ) -> PrivacyGuarantee:
        """Return the guarantee for other moves, for one node, or against a coalition.

        The guarantee of a node is for moves in which it takes part. With
        ``moves="one"`` it is about the initial value of the node of this name, for any
        network: guarantees of a node in several networks, each with a fresh draw of
        noise, add. Guarantees of a matrix, whose rows have no names, add in networks of
        the same size only.

        Parameters
        ----------
        moves : {"one", "pair", "known-total"}, optional
            The adjacency's own by default. For larger groups ask the `mechanism`, with
            one column of radii for each group that moves together.
            Where neighbours share noise, pairs have an upper bound, and there is no
            statement for a known total.
        node : hashable, optional
            Name of a node, none of the coalition; 0 .. n-1 for a matrix.
        coalition : sequence of nodes, optional
            Nodes that share their knowledge with the eavesdropper; nobody: ``[]``. Any
            `coalition` agents by default.

        Returns
        -------
        PrivacyGuarantee

        Examples
        --------
        >>> import networkx as nx, numpy as np, privcontrol as pc
        >>> budget = pc.PrivacyBudget(epsilon=1, delta=1e-2)
        >>> agents = pc.private_consensus(pc.plants.ten_agent_graph(), budget, 1.0)
        >>> group = np.isin(agents.nodes, [2, 3, 7]).astype(float)
        >>> moves = pc.DirectionAdjacency(group[:, None])
        >>> three = agents.mechanism.guarantee(moves)
        >>> pair = agents.guarantee_for("pair")
        >>> round(pair.epsilon(1e-2), 3), round(three.epsilon(1e-2), 3)
        (1.586, 2.08)

        >>> path, rest = nx.path_graph(4), nx.path_graph([1, 2, 3])
        >>> first = pc.private_consensus(path, budget, 1.0, weights="metropolis")
        >>> second = pc.private_consensus(rest, budget, 1.0, weights="metropolis")
        >>> both = first.guarantee_for(node=2) + second.guarantee_for(node=2)
        >>> round(both.epsilon(1e-2), 3)
        1.586
        """
        everybody = self.adjacency
        if moves is not None:
            everybody = everybody._with_moves(moves)
        members = self._positions_of(coalition)
        adversary = self._adversary(members)
        adversary.check_hidden(everybody.kind)
        adjacency = everybody
        if node is not None:
            place = self.network._position(node)
            if members and place in members:
                raise ValueError(
                    "node: expected a node that is no member of the coalition, which "
                    "knows its own value"
                )
            has_names = not isinstance(self.nodes, range)
            adjacency = everybody._of_node(place, str(node), has_names)
        n = len(self.network)
        towards = adversary.named
        loss = adversary.loss(everybody, adjacency)
        assumptions = (*adversary.assumptions(everybody, adjacency), *_COMMON)
        if adjacency.is_named:
            domain = InitialValues(1, coalition=towards, node=adjacency.label)
            assumptions += (_SAME_VALUE,)
        else:
            names = ""
            if tuple(self.nodes) != tuple(range(n)):
                names = fingerprint(self.network.labels)
            is_known = adjacency.kind == "known-total"
            domain = InitialValues(n, is_known, names, towards)
        statement = adjacency.statement
        if towards:
            # first, because the end of a long line is left to explain()
            statement = f"towards {towards}, {statement}"
        scope = Scope.of(
            adjacency, domain, assumptions=assumptions, statement=statement
        )
        guarantee = PrivacyGuarantee(loss, scope, 1, self.quoted_delta)
        return released(guarantee, _RELEASED)

    @cached_property
    def _adversaries(self) -> dict[tuple[int, ...] | None, Adversary]:
        return {}

    def _adversary(self, members: tuple[int, ...] | None = None) -> Adversary:
        """Return the eavesdropper with these members or any coalition, the last ones kept."""
        known = self._adversaries
        found = known.get(members)
        if found is None:
            found = Adversary(self.noise, members, self.coalition or 0)
            if len(known) >= _KEPT:
                known.clear()
            known[members] = found
        return found

    def _positions_of(
        self, coalition: Sequence[Hashable] | None
    ) -> tuple[int, ...] | None:
        """Positions of the members of a coalition, None where it may be any."""
        if coalition is None:
            return None
        if isinstance(coalition, str) or not isinstance(coalition, Sequence):
            raise TypeError(
                "coalition: expected a list of nodes, got "
                f"{type(coalition).__name__}; [] for an eavesdropper alone"
            )
        members = {self.network._position(node, "coalition") for node in coalition}
        if len(members) < len(coalition):
            raise ValueError("coalition: expected each node once, got one twice")
        return tuple(sorted(members))

    @property
    def mechanism(self) -> Mechanism:
        """The release x(0) + gamma as a general `Mechanism`, for audits of small networks.

        It is dense, n x n, and models an eavesdropper without a coalition. For vectors
        it has one entry of every node.
        """
        self._check_dense("mechanism")
        if isinstance(self.noise.family, BallNoise):
            raise ValueError(
                f"mechanism: {self.family} noise of each agent has no law of all agents "
                "that a mechanism draws; guarantee is the promise"
            )
        query = LinearQuery(sparse.eye_array(len(self.network)))
        return Mechanism(query, self.noise.family(self.noise.factor()))

    def _check_dense(self, what: str) -> None:
        if len(self.network) > DENSE_MODEL:
            raise ValueError(
                f"{what}: expected at most {DENSE_MODEL} nodes for a dense model, got "
                f"{len(self.network)}"
            )

    def to_statespace(self) -> ct.StateSpace:
        """Return the small network as a python-control system with agents as labels.

        Its states are x and the held noise ``xi[node]``, its outputs the messages, and
        dt = 1 is one averaging step. Inputs ``eta[node]``, and ``delta[node,node]`` of
        neighbours that share noise, are standard noise entries at the first step and
        zero after: ``ct.forced_response(sys, r.time, r.inputs[:, k], X0)`` with X0 =
        [x(0); 0] is trial k of a response r.

        Returns
        -------
        control.StateSpace

        Examples
        --------
        >>> import privcontrol as pc
        >>> graph = pc.plants.ten_agent_graph()
        >>> budget = pc.PrivacyBudget(epsilon=1.0, delta=1e-2)
        >>> agents = pc.private_consensus(graph, budget, 1.0)
        >>> agents.to_statespace().nstates
        20
        """
        self._check_dense("to_statespace")
        labels = runs.entry_labels(self.network.labels, self.dimension)
        n = len(labels)
        each = np.eye(self.dimension)
        W = np.kron(self.network.iteration.toarray(), each)
        identity = np.eye(n)
        L = identity - W
        own = self.noise.factor()
        if own.ndim == 1:
            own = np.diag(own)
        factor = np.kron(own, each)
        return ct.ss(
            np.block([[W, -L], [np.zeros((n, n)), identity]]),
            np.vstack([-L @ factor, factor]),
            np.hstack([identity, identity]),
            factor,
            1,
            states=labels + [f"xi[{label}]" for label in labels],
            inputs=runs.entry_labels(self.noise.labels, self.dimension),
            outputs=labels,
            name="consensus",
        )

    @helpful_arguments
    def agent(
        self,
        node: Hashable,
        value: ArrayLike,
        shared: Mapping[Hashable, bytes] | None = None,
        *,
        path: str | PathLike[str] | None = None,
    ) -> Agent:
        """Return the code of one agent, to be run where its value is known.

        Parameters
        ----------
        node : hashable
            Name of the agent's node.
        value : float, or array_like (d,)
            x_i(0), private. True and False are no values.
        shared : mapping from neighbour to bytes, optional
            To be given with shared noise: 32 secret bytes that both ends of each link
            hold, fresh for this run; see `pair_keys`.
        path : path, optional
            File on a local disk that keeps the agent's messages, one for each agent and
            each run. An agent that is started again with the same path continues with the
            same messages. Without a file it would draw new noise, and a second first
            message halves the variance of the noise that it draws alone.

        Returns
        -------
        Agent

        Examples
        --------
        >>> import privcontrol as pc
        >>> meters = pc.private_consensus(
        ...     [[0, 0.25], [0.25, 0]], pc.PrivacyBudget(epsilon=1, delta=1e-2), 1.0,
        ...     pairwise_std=20.0, coalition=0)
        >>> keys = pc.consensus.pair_keys(meters.network)
        >>> first, second = (meters.agent(k, 1.0 + k, keys[k]) for k in range(2))
        >>> for _ in range(60):
        ...     message = first.message()
        ...     first.update({1: second.message()})
        ...     second.update({0: message})
        >>> abs(first.message() - second.message()) < 1e-9
        True
        """
        _, doubles = exact_data(value, "value")
        if doubles.size != self.dimension or doubles.ndim > 1:
            raise ValueError(
                f"value: expected {self.dimension} numbers, got shape {doubles.shape}"
            )
        return Agent(self.noise, node, value, shared, path=path)

    @helpful_arguments
    def simulate(
        self,
        initial_values: Values,
        steps: int,
        *,
        trials: int = 1,
        rng: Seed = None,
        keep_states: bool = True,
        executor: Executor | None = None,
        progress: bool = False,
    ) -> ConsensusResponse:
        """Run trials of the private averaging iteration.

        Parameters
        ----------
        initial_values : array_like (n,) or (n, d), or mapping from node to one value
            x(0), private. Signals of vectors are labelled ``node[k]``, node by node.
        steps : int
            Averaging steps; a response holds t = 0 .. steps.
        keep_states : bool, optional
            False keeps the last messages and the squared errors of all steps, and takes
            the memory of some 30 vectors and a second copy of the network's weights.
        trials, rng, executor, progress
            As for `PrivateLoop.simulate`. Blocks of 10 (large networks) to 250 trials
            are shared out to the executor; ``ThreadPoolExecutor(cores)`` serves.

        Returns
        -------
        ConsensusResponse
            Outputs are messages (n, trials, steps + 1), states are private.

        Raises
        ------
        ValueError
            If there is not one value for each node, or steps or trials are not at
            least one.

        Examples
        --------
        >>> import privcontrol as pc
        >>> graph = pc.plants.ten_agent_graph()
        >>> budget = pc.PrivacyBudget(epsilon=1.0, delta=1e-2)
        >>> agents = pc.private_consensus(graph, budget, 1.0)
        >>> values = pc.plants.ten_agent_values()
        >>> agents.simulate(values, 4, trials=2, rng=0).states.shape
        (10, 2, 5)
        """
        deviation, average = self._deviation(initial_values)
        instance_of(keep_states, bool, "keep_states")
        blocks = runs.propagate(
            self.noise,
            deviation,
            average,
            runs.step_count(steps),
            trials,
            rng=rng,
            executor=executor,
            progress=progress,
            keep_states=keep_states,
        )
        return runs.consensus_response(
            blocks, self.noise, self.guarantee, self.dimension
        )

    def _deviation(
        self, initial_values: Values
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """x(0) - mean(x(0)), shape (n, d), and the mean (d,)."""
        x = self.network._initial_values(initial_values, self.dimension)
        return runs.deviation_from_mean(x)

    @helpful_arguments
    def mean_square_error(
        self, initial_values: Values, steps: int, *, readout: str = "message"
    ) -> NDArray[np.float64]:
        """Return E sum_i |readout_i(t) - mean(x(0))|^2 over nodes and entries, exactly.

        Parameters
        ----------
        initial_values, steps
            As for `simulate`; the result (steps + 1,) is for t = 0 .. steps.
        readout : {"message", "state"}, optional
            ``message``: each agent uses its own y_i, n - 1 times better in the limit
            for equal scales. ``state``: x_i, the metric of DPAM section 6.

        Returns
        -------
        ndarray, shape (steps + 1,)
            In the squared unit of the values.

        Raises
        ------
        ValueError
            Above 4000 nodes: use `estimate_mean_square_error`.

        Examples
        --------
        >>> import privcontrol as pc
        >>> graph = pc.plants.ten_agent_graph()
        >>> budget = pc.PrivacyBudget(epsilon=1.0, delta=1e-2)
        >>> agents = pc.private_consensus(graph, budget, 1.0)
        >>> agents.mean_square_error(pc.plants.ten_agent_values(), 4).shape
        (5,)
        """
        one_of(readout, "readout", READOUTS)
        deviation, _ = self._deviation(initial_values)
        values, vectors = self.network.spectrum
        initial = np.sum((vectors.T @ deviation) ** 2, axis=1)
        initial[-1] = 0.0  # the deviation has no average
        variance = self.dimension * self.noise.modal_variance(vectors)
        errors = []
        for t in range(runs.step_count(steps) + 1):
            power = values**t
            gain = power if readout == "message" else 1 - power
            errors.append(initial @ power**2 + variance @ gain**2)
        return np.array(errors)

    @helpful_arguments
    def estimate_mean_square_error(
        self,
        initial_values: Values,
        steps: int,
        *,
        readout: str = "message",
        probes: int = 50,
        confidence: float = 0.99,
        rng: Seed = None,
    ) -> MeanSquareErrorEstimate:
        """Estimate `mean_square_error` of any network, with a proven interval.

        Parameters
        ----------
        initial_values, steps, readout
            As for `mean_square_error`.
        probes : int, optional
            Random vectors behind the estimate; each costs as much as a trial. With
            equal noise the interval is about 4 sqrt(log(2 / (1 - confidence)) / (probes
            n)) wide, relatively, for the first messages and for the last states. At
            other steps it may be several times as wide.
        confidence : float, optional
            Probability with which the interval at one step holds the exact value.
        rng : None, int, SeedSequence or Generator, optional

        Returns
        -------
        MeanSquareErrorEstimate
            Estimate and interval at each step, in the squared unit of the values.

        Examples
        --------
        >>> import privcontrol as pc
        >>> graph = pc.plants.ten_agent_graph()
        >>> budget = pc.PrivacyBudget(epsilon=1.0, delta=1e-2)
        >>> agents = pc.private_consensus(graph, budget, 1.0)
        >>> values = pc.plants.ten_agent_values()
        >>> error = agents.estimate_mean_square_error(values, 4, rng=0)
        >>> bool((error.lower <= error.value).all())
        True
        """
        return runs.estimated_error(
            self.noise,
            self._deviation(initial_values)[0],
            runs.step_count(steps),
            readout,
            probes=probes,
            confidence=confidence,
            rng=rng,
        )

    def limit_mean_square_error(self, *, readout: str = "message") -> float:
        """Return the limit of `mean_square_error` for many steps.

        It is the sum over the n agents; one agent's is 1/n of it for messages. For
        messages the sum is the mean of the variances v_i of the agents' own noise.
        States keep the rest of the variance of all noise, (1 - 1/n) sum v_i if none is
        shared.

        Parameters
        ----------
        readout : {"message", "state"}, optional

        Returns
        -------
        float
            Sum over the nodes, in squared units of the values.

        Raises
        ------
        ValueError
            If the readout is another one.
        """
        return self.dimension * self.noise.limit_error(readout)

    @helpful_arguments
    def error_bound(self, initial_values: Values, steps: int) -> NDArray[np.float64]:
        """Bound (steps + 1,) of the states' mean-square error (Proposition 1's proof).

        alpha^(2t) ||x(0) - mean||^2 + (1 + alpha^t)^2 sum v_i, with v_i the variances
        of the agents' noise, ``noise.variance`` (DPAM, appendix D, the last
        inequality). It takes every mode for the slowest one. Its limit, the sum of the
        variances, is Proposition 1 (iii). Arguments as for `mean_square_error`.

        Parameters
        ----------
        initial_values, steps
            As for `mean_square_error`.

        Returns
        -------
        ndarray, shape (steps + 1,)
            In the squared unit of the values.

        Examples
        --------
        >>> import privcontrol as pc
        >>> graph = pc.plants.ten_agent_graph()
        >>> budget = pc.PrivacyBudget(epsilon=1.0, delta=1e-2)
        >>> agents = pc.private_consensus(graph, budget, 1.0)
        >>> agents.error_bound(pc.plants.ten_agent_values(), 4).shape
        (5,)
        """
        deviation, _ = self._deviation(initial_values)
        decay = self.rate ** np.arange(runs.step_count(steps) + 1)
        from_values = decay**2 * np.sum(deviation**2)
        variance = self.dimension * self.noise.variance.sum()
        return from_values + (1 + decay) ** 2 * variance

    @helpful_arguments
    def path_error_bound(
        self, initial_values: Values, steps: int, *, noise: ArrayLike | None = None
    ) -> NDArray[np.float64]:
        """Bound ||x(t) - mean(x(0))|| of the states over time (DPAM Proposition 1 (i)).

        alpha^t ||x(0) - mean|| + (1 + alpha^t) ||noise||, which is at most the paper's
        right-hand side: that has ||x(0)|| in the first term. It holds for each run with
        the noise that the run drew. Without ``noise`` the root of the noise's mean square
        represents it, and the bound is one of sqrt(E ||x(t) - mean||^2).

        Parameters
        ----------
        initial_values, steps
            As for `simulate`.
        noise : array_like (n,) or (n, d), optional
            The agents' draws in a run, its outputs minus its states at t = 0. Private:
            it gives the values away.

        Returns
        -------
        numpy.ndarray, shape (steps + 1,)

        Raises
        ------
        ValueError
            If an argument is out of range, or the noise has another shape.

        Examples
        --------
        >>> import privcontrol as pc
        >>> graph = pc.plants.ten_agent_graph()
        >>> budget = pc.PrivacyBudget(epsilon=1.0, delta=1e-2)
        >>> agents = pc.private_consensus(graph, budget, 1.0)
        >>> agents.path_error_bound(pc.plants.ten_agent_values(), 4).shape
        (5,)
        """
        deviation, _ = self._deviation(initial_values)
        decay = self.rate ** np.arange(runs.step_count(steps) + 1)
        if noise is None:
            size = np.sqrt(self.dimension * self.noise.variance.sum())
        else:
            drawn = real_array(noise, "noise")
            if drawn.size != deviation.size or drawn.ndim > 2:
                raise ValueError(
                    f"noise: expected the draw of each agent, shape {deviation.shape}, got "
                    f"{drawn.shape}"
                )
            size = np.linalg.norm(drawn)
        return decay * np.linalg.norm(deviation) + (1 + decay) * size

    @helpful_arguments
    def mean_error(self, initial_values: Values, steps: int) -> NDArray[np.float64]:
        """Return E[x(t) - mean(x(0))] of each value, exactly (DPAM Proposition 1 (ii)).

        (I - L)^t (x(0) - mean(x(0))), which tends to zero. Noise has no mean, so
        the messages have the same error.

        Parameters
        ----------
        initial_values, steps
            As for `simulate`.

        Returns
        -------
        numpy.ndarray, shape (n d, steps + 1)
            In the order of the signals of `simulate`, node by node.

        Raises
        ------
        ValueError
            If an argument is out of range.

        Examples
        --------
        >>> import privcontrol as pc
        >>> graph = pc.plants.ten_agent_graph()
        >>> budget = pc.PrivacyBudget(epsilon=1.0, delta=1e-2)
        >>> agents = pc.private_consensus(graph, budget, 1.0)
        >>> agents.mean_error(pc.plants.ten_agent_values(), 4).shape
        (10, 5)
        """
        deviation, _ = self._deviation(initial_values)
        errors = [deviation]
        for _ in range(runs.step_count(steps)):
            errors.append(self.network.iteration @ errors[-1])
        return np.stack(errors, axis=-1).reshape(deviation.size, -1)

    def limit_error_bound(self, initial_values: Values | None = None) -> float:
        """Bound the limit of E ||x(t) - mean(x(0))||^2 (DPAM Proposition 1 (iii)).

        It is the sum of the variances of the agents' noise: sum sigma_i^2 for Gaussian
        and 2 sum sigma_i^2 for Laplace noise. The limit itself is
        ``limit_mean_square_error(readout="state")``, (1 - 1/n) of this where no noise is
        shared.

        Parameters
        ----------
        initial_values : optional
            As for `simulate`. The bound is the same for all; they are only checked.

        Returns
        -------
        float
            Total over the nodes, in squared units of the values.

        Raises
        ------
        ValueError
            If there is not one value for each node.

        Examples
        --------
        >>> import privcontrol as pc
        >>> graph = pc.plants.ten_agent_graph()
        >>> budget = pc.PrivacyBudget(epsilon=1.0, delta=1e-2)
        >>> agents = pc.private_consensus(graph, budget, 1.0)
        >>> round(agents.limit_error_bound(), 4)
        35.2642
        """
        if initial_values is not None:
            self._deviation(initial_values)
        return float(self.dimension * self.noise.variance.sum())

    def _repr_html_(self) -> str:
        """Return the agents and their guarantee as tables for notebooks."""
        rows = {
            "Agents": f"{len(self.network)}, with {self.network.edges} links",
            "Noise": f"{self.family}, scales {self.scales.min():.4g} to "
            f"{self.scales.max():.4g}",
        }
        return html_table(rows) + self.guarantee._repr_html_()

    def __repr__(self) -> str:
        shared = ""
        if self.pairwise_std:
            shared = f" with shared noise, coalition of {self.coalition}"
        promise = self.guarantee
        size = f"{shown(promise.gdp)}-GDP"
        if math.isinf(promise.gdp):
            delta = promise.quoted_delta
            size = (
                f"epsilon = {shown(promise.epsilon(delta))} at delta = {shown(delta)}"
            )
        return (
            f"PrivateConsensus({len(self.network)} nodes, {self.network.edges} edges, "
            f"{self.family} noise{shared}, {size})"
        )


def worst_coalition(consensus: PrivateConsensus) -> tuple[Hashable, ...]:
    """Return the names of the agents against whom the guarantee is weakest.

    They are as many as ``consensus.coalition``, and surround the most exposed node, or
    cut it off from most of the others. Empty for independent noise, and in large
    networks, whose bound knows no coalition that attains it.

    Parameters
    ----------
    consensus : PrivateConsensus

    Returns
    -------
    tuple
        Names of agents.

    Raises
    ------
    TypeError
        If it is no PrivateConsensus.

    See Also
    --------
    NodeAdjacency, private_consensus

    Examples
    --------
    >>> import networkx as nx, privcontrol as pc
    >>> budget = pc.PrivacyBudget(epsilon=1, delta=1e-3)
    >>> bridge = nx.barbell_graph(3, 1)  # two triangles, joined by one agent
    >>> joined = pc.private_consensus(
    ...     bridge, budget, 1.0, weights="metropolis", pairwise_std=5.0, coalition=1)
    >>> pc.consensus.worst_coalition(joined)
    (2,)
    """
    instance_of(
        consensus, PrivateConsensus, "consensus", "private_consensus(graph, ..)"
    )
    if not consensus.pairwise_std:
        return ()
    exposure = consensus._adversary().exposure
    most_exposed = exposure.worst(consensus.adjacency)[0]
    return tuple(consensus.nodes[i] for i in exposure.coalition(most_exposed))
