"""Guarantees of several releases together: in sequence, in parallel, and behind a map."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from fractions import Fraction
from functools import reduce

from ..numerics.checks import (
    checked_norm,
    positive_number,
)
from ..numerics.linalg import float_above
from .guarantee import (
    ON_GRID,
    PrivacyGuarantee,
    Scope,
    checked_guarantee,
    delta_of_all,
    is_black_box,
    quotable,
    with_more,
)
from .hidden import rounded_down
from .loss import (
    GAUSSIAN,
    LAPLACE,
    PrivacyLoss,
    Product,
    anonymous,
    by_kind,
    composed,
    decimal,
    exact_measures,
    float_up,
    one_coordinate,
    root_up,
    scaled,
)

_INSTEAD = ", with radius "
_CONVEX = "the data's domain is convex"
_UNCOUPLED = "no public constraint couples the chunks"


def compose_sequential(*guarantees: PrivacyGuarantee) -> PrivacyGuarantee:
    """Return the guarantee of one or more independent releases of the same data.

    Guarantees for the same adjacency at different radii are first brought to the smallest
    of them by `chain`, and then composed by `PrivacyGuarantee.compose`. The result is
    never above (sum of epsilon, sum of delta) at the smallest radius, the paper's bound
    (IP Proposition 2).

    Parameters
    ----------
    *guarantees : PrivacyGuarantee

    Returns
    -------
    PrivacyGuarantee

    Raises
    ------
    ValueError
        If they are about different secrets.
    TypeError
        If one is no guarantee, such as a list of them (unpack it) or a bare budget
        (`PrivacyGuarantee.black_box`).

    See Also
    --------
    core.compose_parallel, core.chain, PrivacyGuarantee.compose

    Examples
    --------
    >>> from privcontrol.core import *
    >>> budget = PrivacyBudget(epsilon=0.5, delta=1e-6)
    >>> half = PrivacyGuarantee.black_box(budget, DirectionAdjacency([[1.0]]))
    >>> compose_sequential(half, half).delta(1.0) <= 2e-6
    True
    """
    together = _checked(guarantees)
    radii = {guarantee.scope.radius for guarantee in together}
    if len(radii) > 1 and None not in radii:
        smallest = min(filter(None, radii))
        together = [chain(guarantee, smallest) for guarantee in together]
    return together[0].compose(*together[1:])


def chain(guarantee: PrivacyGuarantee, radius: float) -> PrivacyGuarantee:
    """Return the guarantee of the same release for moves of another radius.

    Longer moves are paths of c = ceil(radius / known radius) moves, on a convex domain. A
    black box then promises (c eps, delta (e^(c eps) - 1)/(e^eps - 1)) (IP Proposition 4),
    and is quoted at this delta.
    Where the shift of the noise is linear in the move (affine queries), or came from a
    Lipschitz constant, Gaussian y and Laplace epsilon are multiplied by radius / known
    radius instead, up and also *down*. Not down where readings lie on a grid: however
    short a move is, they may differ by a whole step.

    Parameters
    ----------
    guarantee : PrivacyGuarantee
        For an adjacency with a single radius.
    radius : float
        The new radius, in the unit of the old one.

    Returns
    -------
    PrivacyGuarantee

    Raises
    ------
    ValueError
        If the guarantee's adjacency has no single radius.
    TypeError
        If the first argument is no guarantee.

    See Also
    --------
    core.compose_sequential, core.compose_parallel

    Examples
    --------
    >>> from privcontrol.core import PrivacyBudget
    >>> words = "the 2-norm of x moves by at most 0.1"
    >>> scope = Scope('{"radius": 0.1}', words, "R^2", radius=0.1)
    >>> foreign = PrivacyGuarantee.black_box(PrivacyBudget(epsilon=1.0), scope)
    >>> chain(foreign, 0.3).epsilon(0.0)
    3.0
    """
    known = checked_guarantee(guarantee).scope
    size = positive_number(radius, "radius")
    factor = _ratio(size, _single_radius(known))
    if any(clause.startswith(ON_GRID) for clause in known.assumptions):
        factor = max(factor, Fraction(1))  # a step of the grid stays as large
    scope = _rescaled(known, size)
    loss = guarantee.loss
    if factor > 1 and not guarantee._is_linear:
        scope = replace(scope, assumptions=with_more(scope.assumptions, (_CONVEX,)))
    chained = replace(guarantee, loss=scaled(loss, factor), scope=scope)
    if not is_black_box(chained):
        return chained
    failing = quotable(chained.loss.summed_deltas)
    return replace(chained, quoted_delta=max(failing, guarantee.quoted_delta))


def compose_parallel(
    *guarantees: PrivacyGuarantee, norm: float = 2
) -> PrivacyGuarantee:
    """Return the guarantee of the joint move of chunks that are released one by one.

    Chunk i moves by r_i and the p-norm of (r_1, ..., r_m) is at most the smallest radius
    alpha (IP Proposition 3). With y_i and eps_i known at alpha_i and proportional to the
    move, Gaussian chunks have y = alpha max(y_i/alpha_i) for p <= 2 and alpha
    ||(y_i/alpha_i)||_r, 1/r = 1/2 - 1/p, for larger p; Laplace chunks have epsilon = alpha
    ||(eps_i/alpha_i)||_q, 1/p + 1/q = 1. Of anything else the paper's (sum of epsilon, sum
    of delta) is kept, or better. Black boxes are quoted at the sum of their deltas.

    Chunks coupled by a public constraint are *not* disjoint secrets. On x_1 - x_2 = b two
    releases of epsilon each cost 2 epsilon (DPAM Example 1), so guarantees on a manifold
    are refused.

    Parameters
    ----------
    *guarantees : PrivacyGuarantee
        One for each chunk; all of its data may move freely.
    norm : float
        p, from 1 to inf. Chunks whose adjacency names a norm must name this one.

    Returns
    -------
    PrivacyGuarantee

    Raises
    ------
    ValueError
        If a chunk lies on a manifold, has no radius, or measures its moves in
        another norm.

    See Also
    --------
    core.compose_sequential, core.chain

    Examples
    --------
    >>> ball = '{"norm": 2, "radius": 1.0}'
    >>> words = "the chunk moves by at most 1"
    >>> chunk = Scope(ball, words, "R^2", radius=1.0, constrained=False)
    >>> chunks = [PrivacyGuarantee(PrivacyLoss.gaussian(y), chunk) for y in (0.3, 0.5)]
    >>> compose_parallel(*chunks).gdp, round(compose_sequential(*chunks).gdp, 4)
    (0.5, 0.5831)
    """
    chunks = _checked(guarantees)
    p = float(checked_norm(norm))
    radii = [_free_radius(chunk.scope, p) for chunk in chunks]
    alpha = min(radii)
    at_alpha = [chain(chunk, alpha) for chunk in chunks]
    gaussian: list[PrivacyLoss] = []
    laplace: list[PrivacyLoss] = []
    joint: list[PrivacyLoss] = []
    for chunk in at_alpha:
        for part in by_kind(chunk.loss):
            if part.kinds == (GAUSSIAN,) and part.proportional:
                gaussian.append(part)
            elif part.kinds == (LAPLACE,):
                laplace.append(part)
            else:
                joint.append(anonymous(part))
    if gaussian:
        joint.append(_joint_gaussian(gaussian, p))
    if laplace:
        joint.append(_joint_laplace(laplace, p))
    return PrivacyGuarantee(
        reduce(composed, joint),
        _joint_scope([chunk.scope for chunk in at_alpha], alpha, p),
        sum(chunk.releases for chunk in chunks),
        delta_of_all(at_alpha),
    )


def _joint_gaussian(losses: list[PrivacyLoss], p: float) -> PrivacyLoss:
    """Return the sup of the root of sum (t_i y_i)^2 over ||t||_p <= 1."""
    exact = all("delta" in exact_measures(loss) for loss in losses)
    squares = [loss.rows[0].square for loss in losses]
    if p <= 2:
        square = max(squares)
    elif p == math.inf:
        square = sum(squares, Fraction(0))
    else:
        # ||y||_r^2 with r = 2 p / (p - 2), which is a norm of the squares
        square = decimal(
            _length_above([float_up(size) for size in squares], p / (p - 2))
        )
        exact = False
    return PrivacyLoss((Product(square=square),), ((),), (GAUSSIAN,), exact)


def _joint_laplace(losses: list[PrivacyLoss], p: float) -> PrivacyLoss:
    """Return one coordinate of the sup of sum t_i eps_i over ||t||_p <= 1."""
    if len(losses) == 1:
        return anonymous(losses[0])
    pure = [decimal(loss.pure) for loss in losses]
    if p == 2:
        return one_coordinate(root_up(sum((size**2 for size in pure), Fraction(0))))
    if 1 < p < math.inf:
        return one_coordinate(
            _length_above([float_up(size) for size in pure], p / (p - 1))
        )
    return one_coordinate(float_up(max(pure) if p == 1 else sum(pure, Fraction(0))))


def _length_above(sizes: list[float], norm: float) -> float:
    """Return a p-norm of positive numbers, rounded up."""
    largest = max(sizes)
    shares = [(size / largest) ** norm for size in sizes]
    length = largest * math.fsum(shares) ** (1 / norm)
    return float_above(length * (1 + 1e-14), 4)


def _checked(guarantees: tuple[PrivacyGuarantee, ...]) -> list[PrivacyGuarantee]:
    if not guarantees:
        raise ValueError("expected at least one guarantee, got none")
    return [checked_guarantee(guarantee) for guarantee in guarantees]


def _ratio(radius: float, known: float) -> Fraction:
    """Return radius / known as decimals, so 0.9 is three times 0.3."""
    return decimal(radius) / decimal(known)


def _single_radius(scope: Scope) -> float:
    """Return the one number in the adjacency's description that is its radius."""
    described = json.loads(scope.adjacency).get("radius")
    if scope.radius is None or described != scope.radius:
        raise ValueError(
            f"the adjacency ({scope.statement}) has no single radius to change; "
            "evaluate the mechanism for another adjacency instead"
        )
    return scope.radius


def _rescaled(scope: Scope, radius: float) -> Scope:
    """Return the same scope at another radius."""
    if radius == _single_radius(scope):
        return scope
    statement, chained, sizes = scope.statement.partition(_INSTEAD)
    last = rounded_down(radius)
    first = sizes.split()[-1] if chained else rounded_down(_single_radius(scope))
    if last != first:
        statement += f"{_INSTEAD}{last} in place of {first}"
    description = json.loads(scope.adjacency) | {"radius": radius}
    adjacency = json.dumps(description, sort_keys=True)
    return replace(scope, adjacency=adjacency, statement=statement, radius=radius)


def _free_radius(scope: Scope, norm: float) -> float:
    """Return the radius of a chunk that nothing couples to the others."""
    if scope.constrained or scope.horizon is not None:
        raise ValueError(
            "parallel composition needs chunks that move freely, got one on a "
            f"{scope.domain}: where public constraints couple the entries, a chunk's move "
            "is a move of the others too; stack the queries on one manifold and evaluate "
            "them together"
        )
    radius = _single_radius(scope)
    named = json.loads(scope.adjacency).get("norm", norm)
    if float(named) != norm:
        raise ValueError(
            f"norm: expected that of the chunks ({named}), got {norm:g}; chunks and joint "
            "move must agree"
        )
    return radius


def _joint_scope(scopes: list[Scope], alpha: float, norm: float) -> Scope:
    """Return the scope of all chunks, which move together."""
    joined = reduce(Scope.joined, scopes)
    chunks = [json.loads(scope.adjacency) for scope in scopes]
    for chunk in chunks:
        del chunk["radius"]
    p = "inf" if norm == math.inf else norm
    description = {"type": "parallel", "norm": p, "radius": alpha, "chunks": chunks}
    moves = ", or ".join(dict.fromkeys(scope.statement for scope in scopes))
    return Scope(
        json.dumps(description, sort_keys=True),
        f"disjoint chunks move together, the {norm:g}-norm of their sizes by at "
        f"most {rounded_down(alpha)}, each so that {moves}",
        "chunks: " + "; ".join(scope.domain for scope in scopes),
        assumptions=with_more(joined.assumptions, (_UNCOUPLED,)),
        caveats=joined.caveats,
        radius=alpha,
        constrained=False,
    )
