"""Accuracy against privacy in consensus, both ways: the least privacy loss for an accuracy, the best accuracy for a
budget, and the noise scales of unequal nodes. Accuracy is the limit of the total mean-square error over all nodes."""

import math

import numpy as np

from ..core._linalg import (
    one_of,
    positive_integer,
    positive_number,
    real_array,
    round_up,
)
from ..core._losses.gaussian import GaussianLoss
from ..core._losses.laplace import LaplaceLoss
from ..core.budget import checked_budget
from ..core.calibration import laplace_scale
from .moments import READOUTS

FAMILIES = ("gaussian", "laplace")
_VARIANCE = {"gaussian": 1.0, "laplace": 2.0}


def _error_per_variance(nodes, readout):
    """Limit of the total error over the sum of all nodes' noise variances."""
    return (
        1 / nodes
        if one_of(readout, "readout", READOUTS) == "message"
        else 1 - 1 / nodes
    )


def optimal_consensus_epsilon(
    mse, nodes, radius, *, delta=0.0, family="gaussian", readout="message"
):
    """The least epsilon with which private consensus reaches an accuracy.

    With equal noise the total error in the limit is v sigma^2 (message readout) or v (n-1) sigma^2 (state readout),
    v = 1 (Gaussian) or 2 (Laplace of scale sigma): the privacy shift is y = mu / sqrt(mse) or
    mu sqrt((n-1) / mse) (Gaussian), epsilon = mu sqrt(2 / mse) or mu sqrt(2 (n-1) / mse) (Laplace).

    Parameters
    ----------
    mse : float
        Accepted mean-square error, total over the nodes, in squared units of the initial values.
    nodes : int
        n, at least 2.
    radius : float
        mu: how far one node's initial value may move.
    delta : float, optional
        In [0, 1); Gaussian noise needs delta > 0.
    family : {"gaussian", "laplace"}, optional
    readout : {"message", "state"}, optional
        What each agent uses: its message, or its state, which is n - 1 times less accurate.

    Returns
    -------
    float
        Rounded up.

    Raises
    ------
    ValueError
        If a number is out of range, or Gaussian noise is asked for delta = 0.

    References
    ----------
    DPAM section 6.2, whose epsilon_op has n for the n - 1 of the state readout (it uses Proposition 1's bound).

    Examples
    --------
    >>> round(optimal_consensus_epsilon(2.0, 10, 1.0, family="laplace"), 12)
    1.0
    >>> round(optimal_consensus_epsilon(3.5263, 10, 1.0, delta=1e-2), 3)
    1.0
    """
    mse, radius = positive_number(mse, "mse"), positive_number(radius, "radius")
    nodes = _nodes(nodes)
    one_of(family, "family", FAMILIES)
    scale = math.sqrt(
        mse / (_VARIANCE[family] * nodes * _error_per_variance(nodes, readout))
    )
    shift = float(round_up(radius / scale, 4))
    if family == "laplace":
        return LaplaceLoss.of([[shift]]).epsilon(delta)
    if delta == 0:
        raise ValueError(
            "delta: Gaussian noise needs delta > 0, got 0; pass delta=..., or family='laplace'"
        )
    return GaussianLoss(shift).epsilon(delta)


def optimal_consensus_error(
    budget, nodes, radius, *, family="gaussian", readout="message", method="analytic"
):
    """The least total mean-square error in the limit that a budget allows: the inverse of `optimal_consensus_epsilon`.

    Parameters
    ----------
    budget : PrivacyBudget
        Laplace noise meets (epsilon, 0) and makes no use of a delta.
    nodes, radius, family, readout
        As for `optimal_consensus_epsilon`.
    method : {"analytic", "lenypappas", "classical"}, optional
        Rule from budget to Gaussian noise.

    Returns
    -------
    float

    Examples
    --------
    >>> from privcontrol.core import PrivacyBudget
    >>> round(optimal_consensus_error(PrivacyBudget(epsilon=1.0, delta=1e-2), 10, 1.0), 4)
    3.5264
    """
    checked_budget(budget)
    nodes, radius = _nodes(nodes), positive_number(radius, "radius")
    if one_of(family, "family", FAMILIES) == "gaussian":
        scale = float(round_up(radius / budget.shift(method)))
    else:
        scale = laplace_scale(budget.laplace_epsilon(), radius)
    return float(
        _VARIANCE[family] * nodes * _error_per_variance(nodes, readout) * scale**2
    )


def optimal_consensus_scales(
    mse,
    radii,
    *,
    objective="worst",
    family="gaussian",
    readout="message",
    least_scales=None,
):
    """The noise scales of unequal nodes that reach an accuracy with the least privacy loss.

    Minimises, subject to the total error and to sigma_i >= s_i, the worst node's shift max mu_i / sigma_i, or the loss
    of all nodes moving together: sum (mu_i / sigma_i)^2 (Gaussian, twice the zCDP parameter) or sum mu_i / sigma_i
    (Laplace, epsilon). By the stationarity of the Lagrangian sigma_i = max(s_i, c mu_i^p) with p = 1 (worst),
    1/2 (Gaussian total), 1/3 (Laplace total); c meets the accuracy.

    Parameters
    ----------
    mse : float
        Total mean-square error in the limit, in squared units of the initial values.
    radii : array_like, shape (n,)
        mu_i: how far each node's initial value may move.
    objective : {"worst", "total"}, optional
    family, readout
        As for `optimal_consensus_epsilon`.
    least_scales : array_like, shape (n,), optional
        s_i >= 0, such as the ``scales`` of `private_consensus` with each node's own budget, which the result then
        meets; 0 by default.

    Returns
    -------
    ndarray, shape (n,)
        For ``PrivateConsensus(network, scales, adjacency, family=family)``.

    Raises
    ------
    ValueError
        If the least scales already exceed the accuracy; the message gives the accuracy that they allow.

    Examples
    --------
    >>> optimal_consensus_scales(10.0, [1.0, 1.0, 4.0], objective="worst").round(3)
    array([1.291, 1.291, 5.164])
    >>> optimal_consensus_scales(10.0, [1.0, 1.0, 4.0], objective="total").round(3)
    array([2.236, 2.236, 4.472])
    """
    mse, radii = positive_number(mse, "mse"), real_array(radii, "radii", ndim=1)
    n = _nodes(len(radii))
    if not (radii > 0).all():
        raise ValueError(
            f"radii: expected {n} positive numbers, got {int((radii <= 0).sum())} that are not"
        )
    least = (
        np.zeros(n)
        if least_scales is None
        else real_array(least_scales, "least_scales", shape=(n,))
    )
    one_of(family, "family", FAMILIES)
    power = {"worst": 1.0, "total": 1 / 2 if family == "gaussian" else 1 / 3}[
        one_of(objective, "objective", ("worst", "total"))
    ]
    factor = _VARIANCE[family] * _error_per_variance(n, readout)
    squares, floor = radii ** (2 * power), np.maximum(least, 0.0) ** 2
    target = mse / factor
    if floor.sum() > target * (1 + 1e-12):
        raise ValueError(
            f"mse: expected at least {factor * floor.sum():.6g}, what the least scales cost already, got {mse:.6g}; "
            "accept a larger error or weaker budgets"
        )
    return np.sqrt(np.maximum(floor, _water_level(squares, floor, target) * squares))


def _water_level(squares, floor, target):
    """c^2 with sum max(floor, c^2 squares) = target: nodes rise above their floor in the order of floor / squares."""
    order = np.argsort(floor / squares)
    rest = np.concatenate(
        [np.cumsum(floor[order][::-1])[::-1], [0.0]]
    )  # floors of the nodes that stay
    level = (target - rest[1:]) / np.cumsum(squares[order])
    above = np.flatnonzero(level >= (floor / squares)[order])
    return float(level[above[-1]]) if len(above) else 0.0


def _nodes(nodes):
    if positive_integer(nodes, "nodes") < 2:
        raise ValueError(f"nodes: expected at least two, got {nodes}")
    return nodes
