"""Composition of guarantees in sequence, in parallel over chunks, and by chaining.

These are the properties of the paper "Inference Privacy" (IP), Propositions 2 to 4. Where
the mechanism is known they are sharper than the paper's bounds, which remain for releases
known by (epsilon, delta) alone.
"""

from __future__ import annotations

import json
import math
from dataclasses import replace
from fractions import Fraction
from functools import reduce

from ._linalg import one_of, positive_number
from .guarantee import PrivacyGuarantee, Scope, checked_guarantee
from .loss import (
    BLACK_BOX,
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

    Raises
    ------
    ValueError
        If they are about different secrets.
    TypeError
        If one is no guarantee, such as a list of them (unpack it) or a bare budget
        (`PrivacyGuarantee.black_box`).

    Examples
    --------
    >>> from privcontrol.core import *
    >>> budget = PrivacyBudget(epsilon=0.5, delta=1e-6)
    >>> half = PrivacyGuarantee.black_box(budget, DirectionAdjacency([[1.0]]))
    >>> compose_sequential(half, half).delta(1.0) <= 2e-6
    True
    """
    together = _checked(guarantees)
    scopes = [guarantee.scope for guarantee in together]
    known = {scope.radius for scope in scopes}
    radii = [radius for radius in known if radius is not None]
    if 1 < len(known) == len(radii):
        together = [chain(guarantee, min(radii)) for guarantee in together]
    return together[0].compose(*together[1:])


def chain(guarantee: PrivacyGuarantee, radius: float) -> PrivacyGuarantee:
    """Return the guarantee of the same release for moves of another radius.

    Longer moves are paths of c = ceil(radius / known radius) moves, on a convex domain. A
    black box then promises (c eps, delta (e^(c eps) - 1)/(e^eps - 1)) (IP Proposition 4).
    Where the shift of the noise is linear in the move (affine queries), or came from a
    Lipschitz constant, Gaussian y and Laplace epsilon are multiplied by radius / known
    radius instead, up and also *down*.

    Parameters
    ----------
    guarantee : PrivacyGuarantee
        For an adjacency with a single radius.
    radius : float
        The new radius, in the unit of the old one.

    Raises
    ------
    ValueError
        If the guarantee's adjacency has no single radius.
    TypeError
        If the first argument is no guarantee.

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
    scope = _rescaled(known, size)
    loss = guarantee.loss
    is_linear = loss.proportional and BLACK_BOX not in loss.kinds
    assumed = scope.assumptions
    if factor > 1 and not is_linear and _CONVEX not in assumed:
        scope = replace(scope, assumptions=(*assumed, _CONVEX))
    return replace(guarantee, loss=scaled(loss, factor), scope=scope)


def compose_parallel(
    *guarantees: PrivacyGuarantee, norm: float = 2
) -> PrivacyGuarantee:
    """Return the guarantee of the joint move of chunks that are released one by one.

    Chunk i moves by r_i and the p-norm of (r_1, ..., r_m) is at most the smallest radius
    alpha (IP Proposition 3). With y_i and eps_i known at alpha_i and proportional to the
    move, Gaussian chunks have y = alpha max(y_i/alpha_i) for p = 1 and 2 and alpha
    ||(y_i/alpha_i)||_2 for p = inf; Laplace chunks have epsilon = alpha
    ||(eps_i/alpha_i)||_q, 1/p + 1/q = 1. Of anything else the paper's (sum of epsilon, sum
    of delta) is kept, or better.

    Chunks coupled by a public constraint are *not* disjoint secrets. On x_1 - x_2 = b two
    releases of epsilon each cost 2 epsilon (DPAM Example 1), so guarantees on a manifold
    are refused.

    Parameters
    ----------
    *guarantees : PrivacyGuarantee
        One for each chunk; all of its data may move freely.
    norm : {2, 1, inf}
        p. Chunks whose adjacency names a norm must name this one.

    Raises
    ------
    ValueError
        If a chunk lies on a manifold, has no radius, or measures its moves in
        another norm.

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
    p = float(one_of(norm, "norm", (1, 2, math.inf)))
    radii = [_free_radius(chunk.scope, p) for chunk in chunks]
    alpha = min(radii)
    gaussian: list[PrivacyLoss] = []
    laplace: list[PrivacyLoss] = []
    joint: list[PrivacyLoss] = []
    for chunk, radius in zip(chunks, radii, strict=True):
        factor = _ratio(alpha, radius)
        for part in by_kind(chunk.loss):
            loss = scaled(part, factor)
            if part.kinds == (GAUSSIAN,) and part.proportional:
                gaussian.append(loss)
            elif part.kinds == (LAPLACE,):
                laplace.append(loss)
            else:
                joint.append(anonymous(loss))
    if gaussian:
        joint.append(_joint_gaussian(gaussian, p))
    if laplace:
        joint.append(_joint_laplace(laplace, p))
    return PrivacyGuarantee(
        reduce(composed, joint),
        _joint_scope([_rescaled(chunk.scope, alpha) for chunk in chunks], alpha, p),
        sum(chunk.releases for chunk in chunks),
        chunks[0].quoted_delta,
    )


def _joint_gaussian(losses: list[PrivacyLoss], p: float) -> PrivacyLoss:
    """Return the sup of the root of sum (t_i y_i)^2 over ||t||_p <= 1."""
    exact = all("delta" in exact_measures(loss) for loss in losses)
    if p <= 2:
        worst = max(losses, key=lambda loss: loss.rows[0].square)
        return replace(worst, moves=((),))
    square = sum((loss.rows[0].square for loss in losses), Fraction(0))
    return PrivacyLoss((Product(square=square),), ((),), (GAUSSIAN,), exact)


def _joint_laplace(losses: list[PrivacyLoss], p: float) -> PrivacyLoss:
    """Return one coordinate of the sup of sum t_i eps_i over ||t||_p <= 1."""
    if len(losses) == 1:
        return anonymous(losses[0])
    pure = [loss.pure for loss in losses]
    if p == 1:
        return one_coordinate(max(pure))
    if p == math.inf:
        return one_coordinate(float_up(sum(map(decimal, pure), Fraction(0))))
    return one_coordinate(root_up(sum((decimal(e) ** 2 for e in pure), Fraction(0))))


def _checked(guarantees: tuple) -> list[PrivacyGuarantee]:
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
    first = sizes.split()[-1] if chained else f"{scope.radius:g}"
    if f"{radius:g}" != first:
        statement += f"{_INSTEAD}{radius:g} in place of {first}"
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
        f"most {alpha:g}, each so that {moves}",
        "chunks: " + "; ".join(scope.domain for scope in scopes),
        assumptions=tuple(dict.fromkeys((*joined.assumptions, _UNCOUPLED))),
        caveats=joined.caveats,
        radius=alpha,
        constrained=False,
    )
