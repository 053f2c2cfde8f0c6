"""Networks for average consensus: what a graph must satisfy, and the iteration matrix that its weights define.

A network is public. It is checked once, here: undirected, connected, with positive weights and a spectrum that lets
y(t+1) = (I - L) y(t) converge to the average. Nothing larger than the sparse weights is ever formed.
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy.linalg
import scipy.sparse as sparse
from scipy.sparse.csgraph import breadth_first_order, connected_components
from scipy.sparse.linalg import ArpackNoConvergence, LinearOperator, eigsh

from ..core._linalg import one_of, real_array
from .adjacency import InitialValues

WEIGHTS = ("given", "metropolis", "max-degree")

#: Up to this many nodes the spectrum is computed densely: seconds, and some hundred megabytes.
DENSE_NODES = 4000

#: Row sums and symmetry are judged to the rounding of sums of decimal weights such as ten times 0.1.
_ROUNDING = 1e-12


@dataclass(frozen=True, eq=False, repr=False)
class Network:
    """An undirected, connected, weighted network on which averaging converges. Made by `read_network`.

    Attributes
    ----------
    nodes : tuple
        Node names, in the order of all arrays; 0 .. n-1 for a matrix.
    iteration : csr_array, shape (n, n)
        I - L, symmetric with unit row sums: the map of one averaging step.

    Examples
    --------
    >>> from privcontrol.consensus import read_network
    >>> network = read_network([[0, 0.25, 0.25], [0.25, 0, 0.25], [0.25, 0.25, 0]])
    >>> len(network), network.edges, round(network.rate, 6)
    (3, 3, 0.25)
    """

    nodes: tuple | range
    iteration: sparse.csr_array

    def __len__(self):
        return len(self.nodes)

    def __repr__(self):
        return f"Network({len(self)} nodes, {self.edges} edges)"

    @property
    def laplacian(self):
        """L = diag(sum_j w_ij) - (w_ij), sparse (n, n). DPAM section 6.2 prints the opposite sign."""
        return (sparse.eye_array(len(self), format="csr") - self.iteration).tocsr()

    @property
    def edges(self):
        """Number of edges."""
        return (
            self.iteration.nnz - int(np.count_nonzero(self.iteration.diagonal()))
        ) // 2

    @property
    def labels(self):
        """Node names as strings."""
        return [str(node) for node in self.nodes]

    @cached_property
    def index(self):
        """Position of each node."""
        return {node: i for i, node in enumerate(self.nodes)}

    def initial_values(self, known_total=False):
        """The domain of the secret x(0) for a guarantee: how many nodes, and a fingerprint unless they are 0 .. n-1."""
        numbered = isinstance(self.nodes, range) or self.nodes == tuple(
            range(len(self))
        )
        return InitialValues(
            len(self), known_total, "" if numbered else self._fingerprint
        )

    @cached_property
    def _fingerprint(self):
        return hashlib.sha256(json.dumps(self.labels).encode()).hexdigest()[:12]

    def per_node(self, value, name):
        """A mapping by node as a list in the network's order; anything else as it is.

        Raises
        ------
        ValueError
            If a node is missing or unknown.
        """
        if not isinstance(value, Mapping):
            return value
        unknown, missing = (
            set(value) - set(self.nodes),
            [node for node in self.nodes if node not in value],
        )
        if unknown or missing:
            raise ValueError(
                f"{name}: expected one entry for each of the {len(self)} nodes, got {len(missing)} missing "
                f"({', '.join(map(str, missing[:5]))}) and {len(unknown)} that are no nodes"
            )
        return [value[node] for node in self.nodes]

    @cached_property
    def spectrum(self):
        """Eigenvalues (n,) of I - L, ascending, the last one exactly 1, and their orthonormal eigenvectors (n, n).

        Raises
        ------
        ValueError
            Above `DENSE_NODES` nodes.
        """
        if len(self) > DENSE_NODES:
            raise ValueError(
                f"expected at most {DENSE_NODES} nodes for a dense spectrum, got {len(self)}; estimate the error with "
                "estimate_mean_square_error, which needs sparse products only"
            )
        values, vectors = scipy.linalg.eigh(self._separated())
        values[-1], vectors[:, -1] = 1.0, 1 / np.sqrt(len(self))
        return values, vectors

    def _separated(self):
        """I - L with the eigenvalue 1 of the consensus mode moved to 2, away from slow modes."""
        return self.iteration.toarray() + 1 / len(self)

    @cached_property
    def rate(self):
        """alpha = max(|1 - lambda_2|, |1 - lambda_n|): disagreement shrinks by it at every step (DPAM section 6.2)."""
        if len(self) <= DENSE_NODES:
            values = scipy.linalg.eigvalsh(self._separated())
            return float(max(abs(values[0]), abs(values[-2])))

        def deviation(v):
            v = v.ravel()
            return self.iteration @ v - v.mean()

        operator = LinearOperator(self.iteration.shape, matvec=deviation, dtype=float)
        start = np.random.default_rng(0).standard_normal(len(self))
        try:
            return float(
                np.abs(
                    eigsh(
                        operator,
                        k=1,
                        which="LM",
                        v0=start,
                        tol=1e-9,
                        return_eigenvectors=False,
                    )
                )[0]
            )
        except ArpackNoConvergence:
            raise ValueError(
                f"the rate of this network of {len(self)} nodes is so close to 1 that Lanczos iterations do not "
                "resolve it; averaging converges, but in very many steps"
            ) from None


def read_network(graph, *, weights="given", weight="weight"):
    """Check a graph and give it weights.

    Parameters
    ----------
    graph : networkx.Graph, array_like (n, n) or sparse matrix (n, n)
        Edge weights w_ij = w_ji > 0; a diagonal is ignored (an agent does not move towards itself).
    weights : {"given", "metropolis", "max-degree"}, optional
        The graph's own weights, 1 / (1 + max(d_i, d_j)), or 1 / (1 + max d), with d the number of neighbours. The
        last two always converge.
    weight : str, optional
        Name of the edge attribute of a networkx graph.

    Returns
    -------
    Network

    Raises
    ------
    ValueError
        If the graph is directed, disconnected, has a weight that is missing, negative or not finite, or weights on
        which averaging does not converge.

    Examples
    --------
    >>> path = read_network([[0, 1, 0], [1, 0, 1], [0, 1, 0]], weights="metropolis")
    >>> path.iteration.toarray().round(3)
    array([[0.667, 0.333, 0.   ],
           [0.333, 0.333, 0.333],
           [0.   , 0.333, 0.667]])
    """
    one_of(weights, "weights", WEIGHTS)
    if hasattr(graph, "adj") and hasattr(graph, "is_directed"):
        nodes, matrix = _from_networkx(graph, weight, given=weights == "given")
    else:
        matrix = _from_matrix(graph)
        nodes = range(matrix.shape[0])
    _undirected_and_connected(matrix)
    if weights != "given":
        matrix = _by_degree(matrix, weights)
    diagonal = 1.0 - matrix.sum(axis=1)
    diagonal[np.abs(diagonal) < _ROUNDING] = (
        0.0  # ten weights of 0.1 leave an agent nothing of its own
    )
    iteration = (matrix + sparse.diags_array(diagonal, format="csr")).tocsr()
    iteration.eliminate_zeros()
    network = Network(nodes, _compact(iteration))
    _converges(network, diagonal)
    return network


def _from_networkx(graph, weight, *, given):
    if graph.is_directed():
        raise ValueError(
            "graph: expected an undirected graph, got a directed one; averaging needs w_ij = w_ji, see to_undirected()"
        )
    nodes = tuple(graph.nodes)
    if len(set(map(str, nodes))) < len(nodes):
        raise ValueError(
            "graph: expected node names that differ as strings (they label the signals); relabel the nodes"
        )
    place = {node: i for i, node in enumerate(nodes)}
    edges = [(place[a], place[b], w) for a, b, w in graph.edges(data=weight) if a != b]
    if not given:
        edges = [(a, b, 1.0) for a, b, _ in edges]
    missing = sum(w is None for *_, w in edges)
    if missing:
        raise ValueError(
            f"graph: {missing} of {len(edges)} edges have no attribute {weight!r}; name another one by weight=..., or "
            "let weights='metropolis' choose weights that converge"
        )
    if not edges:
        raise ValueError(
            f"graph: expected a connected network, got {len(nodes)} nodes without an edge between them"
        )
    rows, columns, values = map(np.asarray, zip(*edges))
    values = real_array(values, "edge weights")
    half = sparse.coo_array((values, (rows, columns)), shape=(len(nodes),) * 2)
    return nodes, _clean(_compact((half + half.T).tocsr()))


def _from_matrix(graph):
    matrix = (
        graph
        if sparse.issparse(graph)
        else sparse.csr_array(real_array(graph, "graph", ndim=2))
    )
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1]:
        raise ValueError(
            f"graph: expected a square weight matrix (n, n), got shape {matrix.shape}"
        )
    matrix = sparse.csr_array(matrix)
    real_array(matrix.data, "graph", copy=False)
    matrix = _compact(matrix, copy=True)
    rows = np.repeat(
        np.arange(len(matrix.indptr) - 1, dtype=matrix.indices.dtype),
        np.diff(matrix.indptr),
    )
    matrix.data[rows == matrix.indices] = 0.0
    return _clean(matrix)


def _compact(matrix, *, copy=False):
    """Floating-point entries, and 32-bit indices where they fit: half the index traffic of a product."""
    kind = (
        np.int32 if matrix.nnz + matrix.shape[0] < np.iinfo(np.int32).max else np.int64
    )
    indices, pointers = (
        array.astype(kind, copy=copy) for array in (matrix.indices, matrix.indptr)
    )
    return sparse.csr_array(
        (matrix.data.astype(float, copy=copy), indices, pointers), shape=matrix.shape
    )


def _clean(matrix):
    """Sorted, without explicit zeros, refusing negative weights."""
    matrix.sum_duplicates()
    matrix.eliminate_zeros()
    if matrix.nnz and matrix.data.min() < 0:
        raise ValueError(
            f"graph: expected positive weights, got {int((matrix.data < 0).sum())} negative entries (pass weights, "
            "not a Laplacian)"
        )
    return matrix


def _undirected_and_connected(matrix):
    n = matrix.shape[0]
    if n < 2:
        raise ValueError(f"graph: expected at least two nodes, got {n}")
    difference = abs(matrix - matrix.T)
    if difference.nnz and difference.max() > _ROUNDING * matrix.max():
        raise ValueError(
            "graph: expected symmetric weights w_ij = w_ji, got a directed network, which does not preserve the "
            "average; pass (W + W.T) / 2"
        )
    parts = connected_components(matrix, directed=False, return_labels=False)
    if parts > 1:
        raise ValueError(
            f"graph: expected a connected network, got {parts} components; the average cannot spread between them, run "
            "consensus on each"
        )


def _by_degree(matrix, weights):
    """Metropolis or maximum-degree weights on the same edges; every row sum is below one."""
    degree = np.diff(matrix.indptr)
    largest = (
        degree.max()
        if weights == "max-degree"
        else np.maximum(np.repeat(degree, degree), degree[matrix.indices])
    )
    matrix.data[:] = 1.0 / (1.0 + largest)
    return matrix


def _converges(network, diagonal):
    """Refuse networks whose iteration has an eigenvalue other than 1 on or outside the unit circle.

    With row sums of at most one, I - L is a stochastic matrix: on a connected graph only -1 could remain on the
    circle, and it does exactly when no agent keeps a part of its own value and the graph is bipartite.
    """
    if diagonal.min() >= 0:
        oscillates = not diagonal.any() and _bipartite(network.iteration)
        smallest = -1.0 if oscillates else 0.0
    else:
        smallest = _smallest_eigenvalue(network.iteration)
    if smallest <= -1 + _ROUNDING:
        raise ValueError(
            f"graph: averaging does not converge on these weights: I - L has the eigenvalue {smallest:.6g} (expected "
            "above -1, which row sums below 1 ensure); scale the weights down or use weights='metropolis'"
        )


def _smallest_eigenvalue(iteration):
    if iteration.shape[0] <= DENSE_NODES:
        return scipy.linalg.eigvalsh(iteration.toarray(), subset_by_index=[0, 0])[0]
    start = np.random.default_rng(0).standard_normal(iteration.shape[0])
    return eigsh(
        iteration, k=1, which="SA", v0=start, tol=1e-9, return_eigenvectors=False
    )[0]


def _bipartite(matrix):
    """Whether the nodes of a connected graph split into two sides without inner edges."""
    order, parent = breadth_first_order(matrix, 0, directed=False)
    side = np.zeros(matrix.shape[0], dtype=bool)
    for node in order[1:]:
        side[node] = ~side[parent[node]]
    rows = np.repeat(np.arange(matrix.shape[0]), np.diff(matrix.indptr))
    return not (side[rows] == side[matrix.indices]).any()
