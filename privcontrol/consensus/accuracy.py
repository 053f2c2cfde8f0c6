"""Weigh accuracy against privacy in consensus with independent noise.

Accuracy is the limit of the total mean-square error over all nodes.
"""

from __future__ import annotations

import math

from numpy.typing import ArrayLike, NDArray

from ..core._linalg import (
    one_of,
    positive_integer,
    positive_number,
    real_array,
    round_up,
)
from ..core.budget import PrivacyBudget, checked_budget
from ..core.loss import checked_delta
from ..core.noise import family_of
from .simulation import READOUTS

#: Whose loss is to be least: the worst node's, or that of all nodes together.
OBJECTIVES = ("worst", "total")


def _error_per_variance(nodes: int, readout: str) -> float:
    """Limit of the total error over the sum of all nodes' noise variances."""
    one_of(readout, "readout", READOUTS)
    if positive_integer(nodes, "nodes") < 2:
        raise ValueError(f"nodes: expected at least two, got {nodes}")
    if readout == "message":
        return 1 / nodes
    return 1 - 1 / nodes


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
        What each agent uses: its message, or its state, which is n - 1 times less
        accurate.

    Returns
    -------
    float
        Rounded up (DPAM section 6.2, whose epsilon_op has n for the n - 1 of the state
        readout).

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
    return law.loss_of_size(float(round_up(shift, 4))).epsilon(delta)


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
        As for `optimal_consensus_epsilon`.

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
    scale = float(round_up(radius / law.allowed_shift(budget)))
    return float(per_variance * law.unit_variance * nodes * scale * scale)


def optimal_consensus_scales(
    mse: float,
    radii: ArrayLike,
    *,
    objective: str = "worst",
    family: str = "gaussian",
    readout: str = "message",
) -> NDArray:
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
        As for `optimal_consensus_epsilon`.
    Returns
    -------
    ndarray, shape (n,)
        For ``PrivateConsensus(network, scales, adjacency, family=family)``.

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
