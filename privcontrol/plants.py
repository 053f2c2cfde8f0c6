"""Named plants and graphs of the literature, each with its reference."""

from __future__ import annotations

from typing import TYPE_CHECKING

import control as ct
import numpy as np
from numpy.typing import NDArray

from .numerics.checks import positive_number


def vehicle(dt: float = 0.1) -> ct.StateSpace:
    """Return the vehicle of DPAM section 5.3, whose position is measured.

    Parameters
    ----------
    dt : float, optional
        Sampling period in seconds, 0.1 in the paper.

    Returns
    -------
    control.StateSpace
        States position (m) and velocity (m/s), input u (m/s^2), output y (m).

    See Also
    --------
    private_loop, design_output_noise

    References
    ----------
    Hoh et al. (2011), IEEE Transactions on Mobile Computing 11(5); DPAM eq. (23).

    Examples
    --------
    >>> vehicle().state_labels
    ['position', 'velocity']
    """
    dt = positive_number(dt, "dt")
    positive_number(dt * dt, "dt, of which the square enters the plant")
    return ct.ss(
        [[1, dt], [0, 1]],
        [[dt**2 / 2], [dt]],
        [[1, 0]],
        0,
        dt,
        states=["position", "velocity"],
        inputs=["u"],
        outputs=["y"],
        name="vehicle",
    )


if TYPE_CHECKING:
    import networkx

__all__ = ["ten_agent_graph", "ten_agent_values", "vehicle"]

#: Edges of DPAM Fig. 4.
_TEN_AGENTS = (
    *((1, 2), (1, 10), (2, 3), (2, 5), (2, 10), (3, 4), (4, 5)),
    *((5, 6), (5, 7), (6, 7), (7, 8), (7, 10), (8, 9), (9, 10)),
)


def ten_agent_graph() -> networkx.Graph:
    """Return the network of DPAM section 6.3: ten agents, 14 edges of weight 1/4.

    Its agents 2, 5, 7 and 10 have four neighbours, hence weights that sum to one, and it converges all the same:
    alpha = 0.8256939.

    Returns
    -------
    networkx.Graph
        Nodes 1 .. 10, edge attribute ``weight``, node attribute ``initial_value``: the paper's x(0), whose average is
        15 (section 6.3 prints 10).

    Raises
    ------
    ImportError
        If networkx is not installed.

    See Also
    --------
    plants.ten_agent_values, private_consensus

    References
    ----------
    DPAM Fig. 4 and section 6.3.

    Examples
    --------
    >>> graph = ten_agent_graph()
    >>> graph.number_of_nodes(), graph.number_of_edges(), sum(ten_agent_values()) / 10
    (10, 14, np.float64(15.0))
    """
    try:
        import networkx as nx
    except ImportError as error:
        raise ImportError(
            "ten_agent_graph returns a networkx graph: pip install 'privcontrol[consensus]'"
        ) from error
    graph: networkx.Graph = nx.Graph(name="ten agents")
    graph.add_nodes_from(
        (node, {"initial_value": value})
        for node, value in enumerate(ten_agent_values(), 1)
    )
    graph.add_edges_from(_TEN_AGENTS, weight=0.25)
    return graph


def ten_agent_values() -> NDArray[np.float64]:
    """Return the initial values x(0) (10,) of DPAM section 6.3; their average is 15.

    Returns
    -------
    ndarray, shape (10,)

    See Also
    --------
    plants.ten_agent_graph

    Examples
    --------
    >>> ten_agent_values().mean()
    np.float64(15.0)
    """
    return np.array([10.0, 100.0, 20.0, -30.0, -20.0, -60.0, 70.0, 0.0, 80.0, -20.0])
