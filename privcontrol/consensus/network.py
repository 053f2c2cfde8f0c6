"""Check graphs for average consensus, and make averaging matrices of them.

A network is public. It is checked once, here. It must be undirected and connected, with
positive weights and a spectrum that lets y(t+1) = (I - L) y(t) converge to the average.
Nothing larger than the sparse weights is ever formed.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Hashable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import scipy.linalg
import scipy.sparse as sparse
from numpy.typing import ArrayLike, NDArray
from scipy.sparse.csgraph import connected_components
from scipy.sparse.linalg import ArpackNoConvergence, LinearOperator, eigsh, splu

from ..numerics.arguments import helpful_arguments
from ..numerics.checks import instance_of, one_of, quoted, real_array
from ..numerics.thresholds import FINE

if TYPE_CHECKING:
    import networkx

#: Initial values by position, or by node.
Values = ArrayLike | Mapping[Hashable, float]

WEIGHTS = ("given", "metropolis", "max-degree")

#: Up to this many nodes the spectrum is computed densely, which takes seconds.
DENSE_NODES = 4000

#: Speed: up to so many edges a node L is factorised at once for its rate, and restarts
#: of Lanczos iterations after which it is done for other networks.
_FEW_EDGES = 1.5
_RESTARTS = 100

#: Disjoint paths are counted up to this product of nodes and links, some seconds.
_LARGEST_COUNT = 4e5
#: Cut nodes are looked for up to this sum of nodes and links, some seconds.
_LARGEST_SEARCH = 1e6


@dataclass(frozen=True, eq=False, repr=False)
class Network:
    """Describe an undirected, connected network on which averaging converges.

    Made by `read_network`.

    Attributes
    ----------
    nodes : tuple or range
        Node names, in the order of all arrays; 0 .. n-1 for a matrix.
    iteration : csr_array, shape (n, n)
        I - L, symmetric with unit row sums: the map of one averaging step.

    See Also
    --------
    consensus.read_network, consensus.plot_network, private_consensus

    Examples
    --------
    >>> from privcontrol.consensus import read_network
    >>> network = read_network([[0, 0.25, 0.25], [0.25, 0, 0.25], [0.25, 0.25, 0]])
    >>> len(network), network.edges, round(network.rate, 6)
    (3, 3, 0.25)
    """

    nodes: tuple[Hashable, ...] | range
    iteration: sparse.csr_array

    def __len__(self) -> int:
        return len(self.nodes)

    def __repr__(self) -> str:
        return f"Network({len(self)} nodes, {self.edges} edges)"

    @property
    def laplacian(self) -> sparse.csr_array:
        """L = diag(sum_j w_ij) - (w_ij), sparse (n, n).

        DPAM section 6.2 prints the opposite sign.
        """
        identity = sparse.eye_array(len(self), format="csr")
        return (identity - self.iteration).tocsr()

    @property
    def edges(self) -> int:
        """Number of edges."""
        own_weights = int(np.count_nonzero(self.iteration.diagonal()))
        return (self.iteration.nnz - own_weights) // 2

    @property
    def links(self) -> tuple[NDArray[np.integer], NDArray[np.integer]]:
        """Positions (m,) of the two ends of every edge, the lower ones first."""
        upper = sparse.triu(self.iteration, k=1, format="coo")
        return upper.row, upper.col

    @cached_property
    def connectivity(self) -> int:
        """A lower bound of how many agents must leave before the others fall apart.

        It is exact in small networks, by disjoint paths (Menger). In larger ones a
        network without a cut node stands the loss of one agent.
        """
        import networkx as nx

        n = len(self)
        first, second = self.links
        degrees = np.bincount(np.concatenate([first, second]), minlength=n)
        fewest = int(degrees.min())
        dense = 2 * fewest + 2 - n  # two parts would be too large
        if dense >= fewest:
            return fewest
        if n + len(first) > _LARGEST_SEARCH:
            return max(dense, 1)
        graph = nx.Graph(zip(first.tolist(), second.tolist(), strict=True))
        if n * len(first) <= _LARGEST_COUNT:
            return nx.node_connectivity(graph)
        return max(dense, 2 if nx.is_biconnected(graph) else 1)

    @cached_property
    def _cores(self) -> dict[int, tuple[NDArray[np.bool_], int]]:
        """Return the cores that `core_of` found, by their degrees."""
        return {}

    def _neighbours(self, position: int) -> dict[int, float]:
        """Return the weights of a node's neighbours by their positions."""
        row = self.iteration[[position]].tocoo()
        weights = dict(zip(row.col.tolist(), row.data.tolist(), strict=True))
        weights.pop(position, None)
        return weights

    @property
    def labels(self) -> list[str]:
        """Node names as strings."""
        return [str(node) for node in self.nodes]

    @cached_property
    def index(self) -> dict[Hashable, int]:
        """Position of each node."""
        return {node: i for i, node in enumerate(self.nodes)}

    def _position(self, node: Hashable, name: str = "node") -> int:
        """Return the position of a node that is given by its name, or a ``ValueError``."""
        known = isinstance(node, Hashable) and node in self.index
        if not known:
            got = quoted(node) if isinstance(node, str | int) else type(node).__name__
            raise ValueError(
                f"{name}: expected the name of one of the network's {len(self)} nodes, "
                f"got {got[:60]}"
            )
        return self.index[node]

    def _per_node(self, value: object, name: str) -> Any:
        """Return a mapping by node as a list in the network's order.

        Any other ``value`` is returned as it is; ``name`` is the argument that errors
        name.
        """
        if not isinstance(value, Mapping):
            return value
        unknown = [key for key in value if key not in self.index]
        missing = [repr(node) for node in self.nodes if node not in value]
        if unknown or missing:
            raise ValueError(
                f"{name}: expected one entry for each of the {len(self)} nodes, got "
                f"{len(missing)} missing ({', '.join(missing[:5])}) and "
                f"{len(unknown)} that are no nodes"
            )
        return [value[node] for node in self.nodes]

    def _initial_values(self, value: Values, dimension: int) -> NDArray[np.float64]:
        """Return x(0) in the network's order from a ``value`` that is array or mapping.

        It has shape (n,), or (n, d) for values of ``dimension`` d.
        """
        x = real_array(self._per_node(value, "initial_values"), "initial_values")
        shape = (len(self),) if dimension == 1 else (len(self), dimension)
        if x.shape != shape:
            number = "number" if dimension == 1 else "vector"
            raise ValueError(
                f"initial_values: expected shape {shape}, one {number} for each node, "
                f"got {x.shape}"
            )
        return x

    @cached_property
    def spectrum(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Ascending eigenvalues (n,) of I - L and orthonormal eigenvectors (n, n).

        The last eigenvalue is exactly 1. Above `DENSE_NODES` nodes it is a
        ``ValueError``.
        """
        if len(self) > DENSE_NODES:
            raise ValueError(
                f"expected at most {DENSE_NODES} nodes for a dense spectrum, got "
                f"{len(self)}; estimate the error with estimate_mean_square_error, "
                "which needs sparse products only"
            )
        # the eigenvalue 1 of the consensus mode is moved to 2, away from all others
        values, vectors = scipy.linalg.eigh(self.iteration.toarray() + 1 / len(self))
        values[-1] = 1.0
        vectors[:, -1] = 1 / np.sqrt(len(self))
        return values, vectors

    @cached_property
    def rate(self) -> float:
        """alpha = max(|1 - lambda_2|, |1 - lambda_n|).

        Disagreement shrinks by this factor at every step (DPAM section 6.2).
        """
        n = len(self)
        if n <= DENSE_NODES:
            values = scipy.linalg.eigvalsh(self.iteration.toarray() - 1 / n)
            return float(np.abs(values).max())

        def deviation(v: NDArray[np.float64]) -> NDArray[np.float64]:
            v = v.ravel()
            return self.iteration @ v - v.mean()

        operator = LinearOperator(self.iteration.shape, matvec=deviation, dtype=float)
        try:
            if self.edges > _FEW_EDGES * n:
                with suppress(ArpackNoConvergence):
                    return abs(_lanczos(operator, "LM", restarts=_RESTARTS))
            slowest = 1 - self._least_eigenvalue()
            # rows of I - L sum to one, so its eigenvalues are at least 2 w_ii - 1
            if 2 * self.iteration.diagonal().min() - 1 >= -slowest:
                return slowest
            return max(slowest, -_lanczos(self.iteration, "SA"))
        except (ArpackNoConvergence, RuntimeError):
            raise ValueError(
                f"the rate of this network of {len(self)} nodes is so close to 1 that "
                "Lanczos iterations do not resolve it; averaging converges, but in "
                "very many steps"
            ) from None

    def _least_eigenvalue(self) -> float:
        """Return lambda_2 of L, by Lanczos iterations with its pseudoinverse.

        L is factorised without the last node, which is held at zero.
        """
        off = self.iteration - sparse.diags_array(self.iteration.diagonal())
        off.eliminate_zeros()
        # sums of weights, and not 1 - w_ii, whose rounding is no part of a Laplacian
        laplacian = sparse.diags_array(off.sum(axis=1)) - off
        grounded = laplacian.tocsc()[:-1, :-1]
        factor = splu(
            grounded, permc_spec="MMD_AT_PLUS_A", options={"SymmetricMode": True}
        )

        def inverse(v: NDArray[np.float64]) -> NDArray[np.float64]:
            v = v.ravel()
            potential = np.append(factor.solve(v[:-1] - v.mean()), 0.0)
            return potential - potential.mean()

        operator = LinearOperator(laplacian.shape, matvec=inverse, dtype=float)
        return 1 / _lanczos(operator, "LA")


def core_of(network: Network, degree: int) -> tuple[NDArray[np.bool_], int]:
    """Return which agents (n,) are left when those of few neighbours leave in turn.

    Each of them has more than ``degree`` neighbours among the others. A lower bound of
    their connectivity is given with them, 0 if none is left or they are apart.
    """
    if degree not in network._cores:
        network._cores[degree] = _find_core(network, degree)
    return network._cores[degree]


def _find_core(network: Network, degree: int) -> tuple[NDArray[np.bool_], int]:
    first, second = network.links
    inside = np.zeros(len(network), dtype=bool)
    stays = ~inside
    while (stays != inside).any():
        inside = stays
        linked = inside[first] & inside[second]
        ends = np.concatenate([first[linked], second[linked]])
        stays = inside & (np.bincount(ends, minlength=len(inside)) > degree)
    if inside.all():
        return inside, network.connectivity
    positions = np.flatnonzero(inside)
    core = Network(range(len(positions)), network.iteration[positions][:, positions])
    parts, _ = connected_components(core.iteration, directed=False)
    return inside, core.connectivity if parts == 1 else 0


def fingerprint(names: list[str]) -> str:
    """A short digest of names in their order."""
    return hashlib.sha256(json.dumps(names).encode()).hexdigest()[:12]


def unit_graph(
    first: NDArray[np.intp], second: NDArray[np.intp], nodes: int
) -> sparse.csr_array:
    """Adjacency matrix (n, n) with ones for edges between these ends."""
    entries = np.ones(len(first))
    half = sparse.coo_array((entries, (first, second)), shape=(nodes, nodes)).tocsr()
    return half + half.T


@helpful_arguments
def read_network(
    graph: networkx.Graph | ArrayLike | sparse.sparray | Network,
    *,
    weights: str = "given",
    weight: str = "weight",
) -> Network:
    """Check a graph and give it weights.

    Parameters
    ----------
    graph : networkx.Graph, array_like (n, n), sparse matrix (n, n) or Network
        Edge weights w_ij = w_ji > 0; a diagonal is ignored (an agent does not move
        towards itself).
    weights : {"given", "metropolis", "max-degree"}, optional
        The graph's own weights, 1 / (1 + max(d_i, d_j)), or 1 / (1 + max d), with d the
        number of neighbours. The last two always converge.
    weight : str, optional
        Name of the edge attribute of a networkx graph.

    Returns
    -------
    Network

    Raises
    ------
    ValueError
        If the graph is directed, disconnected, has a weight that is missing, negative
        or not finite, or weights on which averaging does not converge.

    See Also
    --------
    consensus.Network, consensus.plot_network

    Examples
    --------
    >>> path = read_network([[0, 1, 0], [1, 0, 1], [0, 1, 0]], weights="metropolis")
    >>> path.iteration.toarray().round(3)
    array([[0.667, 0.333, 0.   ],
           [0.333, 0.333, 0.333],
           [0.   , 0.333, 0.667]])
    """
    one_of(weights, "weights", WEIGHTS)
    instance_of(weight, str, "weight")
    nodes: tuple[Hashable, ...] | range
    if isinstance(graph, Network):
        nodes = graph.nodes
        matrix = _from_matrix(graph.iteration)
    elif hasattr(graph, "adj") and hasattr(graph, "is_directed"):
        nodes, matrix = _from_networkx(graph, weight, given=weights == "given")
    else:
        matrix = _from_matrix(graph)
        nodes = range(matrix.shape[0])
    matrix = _undirected_and_connected(matrix)
    if weights != "given":
        degree = np.diff(matrix.indptr)
        largest = np.maximum(np.repeat(degree, degree), degree[matrix.indices])
        if weights == "max-degree":
            largest = degree.max()
        matrix.data[:] = 1.0 / (1.0 + largest)
    diagonal = 1.0 - matrix.sum(axis=1)
    # ten weights of 0.1 leave an agent nothing of its own
    diagonal[np.abs(diagonal) < FINE] = 0.0
    iteration = (matrix + sparse.diags_array(diagonal, format="csr")).tocsr()
    iteration.eliminate_zeros()
    _check_convergence(iteration, diagonal)
    return Network(nodes, iteration)


def _from_networkx(
    graph: networkx.Graph, weight: str, *, given: bool
) -> tuple[tuple[Hashable, ...], sparse.csr_array]:
    """Nodes and weight matrix of a networkx graph, with unit weights by default."""
    import networkx as nx

    if graph.is_directed():
        raise ValueError(
            "graph: expected an undirected graph, got a directed one; averaging needs "
            "w_ij = w_ji, see to_undirected()"
        )
    nodes = tuple(graph.nodes)
    if len(set(map(str, nodes))) < len(nodes):
        raise ValueError(
            "graph: expected node names that differ as strings (they label the "
            "signals); relabel the nodes"
        )
    if not graph.number_of_edges():
        raise ValueError(
            f"graph: expected a connected network, got {len(nodes)} nodes without an "
            "edge"
        )
    if not given:
        return nodes, _from_matrix(nx.to_scipy_sparse_array(graph, weight=None))
    values = [value for a, b, value in graph.edges(data=weight) if a != b]
    missing = values.count(None)
    if missing:
        raise ValueError(
            f"graph: {missing} of {len(values)} edges have no attribute {weight!r}; "
            "name another one by weight=..., or let weights='metropolis' choose "
            "weights that converge"
        )
    real_array(values, "edge weights")
    return nodes, _from_matrix(nx.to_scipy_sparse_array(graph, weight=weight))


def _from_matrix(graph: Any) -> sparse.csr_array:
    """Weight matrix of a dense or sparse one, without its diagonal."""
    given = graph
    if not sparse.issparse(graph):
        given = sparse.csr_array(real_array(graph, "graph", ndim=2))
    if given.ndim != 2 or given.shape[0] != given.shape[1]:
        raise ValueError(
            f"graph: expected a square weight matrix (n, n), got shape {given.shape}"
        )
    links = sparse.coo_array(given)
    real_array(links.data, "graph", copy=False)
    is_link = links.row != links.col
    ends = np.stack([links.row[is_link], links.col[is_link]])
    # 32-bit indices where they fit
    largest = len(links.data) + given.shape[0]
    kind = np.result_type(np.int32, np.min_scalar_type(-largest))
    entries = (links.data[is_link].astype(float), ends.astype(kind))
    matrix = sparse.csr_array(entries, shape=given.shape)
    matrix.eliminate_zeros()
    negative = int((matrix.data < 0).sum())
    if negative:
        raise ValueError(
            f"graph: expected positive weights, got {negative} negative entries (pass "
            "weights, not a Laplacian)"
        )
    return matrix


def _undirected_and_connected(matrix: sparse.csr_array) -> sparse.csr_array:
    """The weights without what rounding left of their symmetry, a link at both ends."""
    n = matrix.shape[0]
    if n < 2:
        raise ValueError(f"graph: expected at least two nodes, got {n}")
    difference = abs(matrix - matrix.T)
    if difference.nnz:
        if difference.max() > FINE * matrix.max():
            raise ValueError(
                "graph: expected symmetric weights w_ij = w_ji, got a directed network, "
                "which does not preserve the average; pass (W + W.T) / 2"
            )
        matrix = ((matrix + matrix.T) / 2).tocsr()
    parts, _ = connected_components(matrix, directed=False)
    if parts > 1:
        raise ValueError(
            f"graph: expected a connected network, got {parts} components; the average "
            "cannot spread between them, run consensus on each"
        )
    return matrix


def _check_convergence(
    iteration: sparse.csr_array, diagonal: NDArray[np.floating]
) -> None:
    """Refuse an averaging matrix with a second eigenvalue not inside the unit circle.

    With row sums of at most one, I - L is a stochastic matrix. On a connected graph
    only -1 could remain on the circle. It does exactly when no agent keeps a part of
    its own value and the graph is bipartite.
    """
    smallest = 0.0
    if diagonal.min() < 0 and len(diagonal) > DENSE_NODES:
        smallest = _lanczos(iteration, "SA")
    elif diagonal.min() < 0:
        smallest = scipy.linalg.eigvalsh(iteration.toarray())[0]
    elif not diagonal.any():
        # two copies of a bipartite graph, with every edge led from one to the other,
        # fall apart
        double = sparse.block_array([[None, iteration], [iteration, None]])
        parts, _ = connected_components(double, directed=False)
        if parts == 2:
            smallest = -1.0
    if smallest <= -1 + FINE:
        raise ValueError(
            "graph: averaging does not converge on these weights: I - L has the "
            f"eigenvalue {smallest:.6g} (expected above -1, which row sums below 1 "
            "ensure); scale the weights down or use weights='metropolis'"
        )


def _lanczos(
    matrix: sparse.csr_array | LinearOperator,
    which: Literal["LA", "LM", "SA"],
    restarts: int | None = None,
) -> float:
    """The extreme eigenvalue of a large symmetric matrix that `which` names."""
    start = np.random.default_rng(0).standard_normal(matrix.shape[0])
    found = eigsh(
        matrix,
        k=1,
        which=which,
        v0=start,
        maxiter=restarts,
        tol=1e-9,
        return_eigenvectors=False,
    )
    return float(found[0])
