"""Composition of guarantees: in sequence, in parallel over disjoint chunks, and over longer moves (chaining).

These are the properties of the paper "Inference Privacy" (IP), Propositions 2 to 4. Where the mechanism is known they
are sharper than the paper's bounds, which remain for releases known by (epsilon, delta) alone.
"""

import json
import math
import re
from dataclasses import replace
from fractions import Fraction

from ._linalg import positive_number
from .guarantee import PrivacyGuarantee, Scope, checked_guarantee
from .loss import (
    GaussianLoss,
    LaplaceLoss,
    composed,
    decimal,
    float_up,
    one_coordinate,
    root_up,
)

_INSTEAD = ", with radius {:g} in place of "
_RESCALED = re.compile(r"(.*), with radius \S+ in place of (\S+)")
_CONVEX = "the data's domain is convex"
_UNCOUPLED = "no public constraint couples the chunks"


def compose_sequential(*guarantees):
    """The guarantee of several independent releases of the same data (IP Proposition 2).

    Guarantees for the same adjacency at different radii are first brought to the smallest of them by `chain`. Known
    mechanisms compose exactly or nearly so, see `PrivacyGuarantee.compose`; the paper's bound is (sum of epsilon, sum
    of delta) at the smallest radius, and the result is never above it.

    Parameters
    ----------
    *guarantees : PrivacyGuarantee
        At least one.

    Returns
    -------
    PrivacyGuarantee

    Raises
    ------
    ValueError
        If they are about different secrets.
    TypeError
        If one is no guarantee, such as a list of them (unpack it) or a bare budget (`PrivacyGuarantee.black_box`).

    Examples
    --------
    >>> from privcontrol.core import DirectionAdjacency, PrivacyBudget
    >>> half = PrivacyGuarantee.black_box(PrivacyBudget(epsilon=0.5, delta=1e-6), DirectionAdjacency([[1.0]]))
    >>> compose_sequential(half, half).delta(1.0) <= 2e-6
    True
    """
    guarantees = _checked(guarantees)
    radii = [guarantee.scope.radius for guarantee in guarantees]
    if None not in radii and len(set(radii)) > 1:
        guarantees = [chain(guarantee, min(radii)) for guarantee in guarantees]
    return guarantees[0].compose(*guarantees[1:])


def chain(guarantee, radius):
    """The same release, for moves of another radius (IP Proposition 4).

    Longer moves are paths of c = ceil(radius / known radius) moves, on a convex domain. A black box then promises
    (c eps, delta (e^(c eps) - 1)/(e^eps - 1)). Where the shift of the noise is linear in the move (affine queries),
    or came from a Lipschitz constant, Gaussian y and Laplace epsilon are multiplied by radius / known radius instead,
    up and also *down*; a y known at one radius only (``proportional=False`` in the loss) is multiplied by c, and,
    like a black box, is not reduced on the way down.

    Parameters
    ----------
    guarantee : PrivacyGuarantee
        For an adjacency with one number as its radius.
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

    Examples
    --------
    >>> from privcontrol.core import AffineManifold, PrivacyBudget
    >>> scope = Scope('{"radius": 0.1}', "the 2-norm of x moves by at most 0.1", "R^2", radius=0.1)
    >>> foreign = PrivacyGuarantee.black_box(PrivacyBudget(epsilon=1.0), scope)
    >>> chain(foreign, 0.3).epsilon(0.0)
    3.0
    """
    scope = _rescaled(
        checked_guarantee(guarantee).scope, positive_number(radius, "radius")
    )
    factor = _ratio(radius, guarantee.scope.radius)
    if factor > 1 and not all(
        _known(part, GaussianLoss | LaplaceLoss) for part in guarantee.loss.parts
    ):
        scope = replace(
            scope, assumptions=tuple(dict.fromkeys((*scope.assumptions, _CONVEX)))
        )
    return replace(guarantee, loss=guarantee.loss.scaled(factor), scope=scope)


def compose_parallel(*guarantees, norm=2):
    """The guarantee of releases of disjoint chunks of the data, which move together (IP Proposition 3).

    Chunk i moves by r_i and the p-norm of (r_1, ..., r_m) is at most the smallest radius alpha. With y_i and eps_i
    known at alpha_i and proportional to the move, Gaussian chunks have y = alpha max(y_i/alpha_i) for p <= 2 and
    alpha ||(y_i/alpha_i)||_s, s = 2p/(p-2), for p > 2; Laplace chunks have epsilon = alpha ||(eps_i/alpha_i)||_q,
    1/p + 1/q = 1. Of anything else the paper's (sum of epsilon, sum of delta) is kept, or better. This differs from
    parallel composition over the records of a database, of which one moves.

    Chunks coupled by a public constraint are *not* disjoint secrets: on x_1 - x_2 = b two releases of epsilon each
    cost 2 epsilon (DPAM Example 1), so guarantees on a manifold are refused.

    Parameters
    ----------
    *guarantees : PrivacyGuarantee
        One for each chunk; all of its data may move freely.
    norm : {1, 2, inf} or float >= 1
        p. Chunks whose adjacency names a norm must name this one.

    Returns
    -------
    PrivacyGuarantee
        For the joint move of all chunks.

    Raises
    ------
    ValueError
        If a chunk lies on a manifold, has no single radius, or measures its moves in another norm.

    Examples
    --------
    >>> from privcontrol.core import PrivacyBudget
    >>> ball = '{"norm": 2, "radius": 1.0}'
    >>> chunk = Scope(ball, "the chunk moves by at most 1", "R^2", radius=1.0, constrained=False)
    >>> chunks = [PrivacyGuarantee(GaussianLoss(y), chunk) for y in (0.3, 0.5)]
    >>> compose_parallel(*chunks).gdp, round(compose_sequential(*chunks).gdp, 4)
    (0.5, 0.5831)
    """
    guarantees, norm = _checked(guarantees), _norm(norm)
    alpha = min(_free_radius(guarantee.scope, norm) for guarantee in guarantees)
    scaled = [(g.loss, _ratio(alpha, g.scope.radius)) for g in guarantees]
    parts = [(part, factor) for loss, factor in scaled for part in loss.parts]
    gaussian = [
        part.scaled(factor) for part, factor in parts if _known(part, GaussianLoss)
    ]
    laplace = [
        part.scaled(factor) for part, factor in parts if _known(part, LaplaceLoss)
    ]
    others = [
        part.scaled(factor).anonymous()
        for part, factor in parts
        if not _known(part, GaussianLoss | LaplaceLoss)
    ]
    known = [
        join(losses, norm)
        for join, losses in ((_joint_gaussian, gaussian), (_joint_laplace, laplace))
        if losses
    ]
    loss, *rest = known + others
    for other in rest:
        loss = composed(loss, other)
    releases = sum(guarantee.releases for guarantee in guarantees)
    return PrivacyGuarantee(
        loss,
        _joint_scope(guarantees, alpha, norm),
        releases,
        guarantees[0].quoted_delta,
    )


def _joint_gaussian(losses, p):
    """sup of the root of sum (t_i y_i)^2 over ||t||_p <= 1; one loss a part."""
    if p <= 2:
        worst = max(losses, key=lambda loss: loss.square)
        return GaussianLoss(worst.gdp, (), worst.exact, True, worst.square)
    if p == math.inf:
        square = sum((loss.square for loss in losses), Fraction(0))
        return GaussianLoss(
            root_up(square), (), all(loss.exact for loss in losses), True, square
        )
    return GaussianLoss(
        _norm_up([loss.gdp for loss in losses], 2 * p / (p - 2)),
        (),
        all(x.exact for x in losses),
    )


def _joint_laplace(losses, p):
    """One coordinate of the largest pure epsilon, sup of sum t_i eps_i over ||t||_p <= 1."""
    if len(losses) == 1:
        return losses[0].anonymous()
    pure = [loss.pure for loss in losses]
    if p == 1:
        return one_coordinate(max(pure))
    if p == math.inf:
        return one_coordinate(float_up(sum(map(decimal, pure), Fraction(0))))
    return one_coordinate(_norm_up(pure, p / (p - 1)))


def _norm_up(values, s):
    """||values||_s, rounded up."""
    largest = max(values)
    if largest == 0:
        return 0.0
    return float(
        largest
        * math.fsum((value / largest) ** s for value in values) ** (1 / s)
        * (1 + 1e-13)
    )


def _known(part, kind):
    return isinstance(part, kind) and part.proportional


def _checked(guarantees):
    if not guarantees:
        raise ValueError("expected at least one guarantee, got none")
    return [checked_guarantee(guarantee) for guarantee in guarantees]


def _norm(norm):
    if norm in (1, 2, math.inf):
        return float(norm)
    value = positive_number(norm, "norm")
    if value < 1:
        raise ValueError(f"norm: expected a number >= 1, got {norm}")
    return value


def _ratio(radius, known):
    """radius / known as a rational of the decimals that they print as: 0.9 is three times 0.3."""
    return decimal(radius) / decimal(known)


def _described(scope):
    """The adjacency's description, if one number in it is the radius."""
    description = json.loads(scope.adjacency)
    if scope.radius is None or description.get("radius") != scope.radius:
        raise ValueError(
            f"the adjacency ({scope.statement}) has no single radius to change; "
            "evaluate the mechanism for another adjacency instead"
        )
    return description


def _rescaled(scope, radius):
    """The same scope at another radius."""
    description = _described(scope)
    if radius == scope.radius:
        return scope
    known = _RESCALED.fullmatch(scope.statement)
    base, first = known.groups() if known else (scope.statement, f"{scope.radius:g}")
    statement = (
        base if f"{radius:g}" == first else base + _INSTEAD.format(radius) + first
    )
    adjacency = json.dumps(description | {"radius": radius}, sort_keys=True)
    return replace(scope, adjacency=adjacency, statement=statement, radius=radius)


def _free_radius(scope, norm):
    """The radius of a chunk that nothing couples to the others, measured in the joint norm."""
    if scope.constrained or scope.horizon is not None:
        raise ValueError(
            f"parallel composition needs chunks that move freely, got one on a {scope.domain}: where public "
            "constraints couple the entries, a chunk's move is a move of the others too; stack the queries on one "
            "manifold and evaluate them together"
        )
    description = _described(scope)
    named = description.get("norm", norm)
    if float(named) != norm:
        raise ValueError(
            f"norm: expected that of the chunks ({named}), got {norm:g}; chunks and joint move must agree"
        )
    return scope.radius


def _joint_scope(guarantees, alpha, norm):
    scopes = [_rescaled(guarantee.scope, alpha) for guarantee in guarantees]
    chunks = [
        {k: v for k, v in json.loads(scope.adjacency).items() if k != "radius"}
        for scope in scopes
    ]
    joined = scopes[0]
    for scope in scopes[1:]:
        joined = joined.joined(scope)
    p = "inf" if norm == math.inf else norm
    description = {"type": "parallel", "norm": p, "radius": alpha, "chunks": chunks}
    return Scope(
        json.dumps(description, sort_keys=True),
        f"disjoint chunks move together, the {norm:g}-norm of their sizes by at most {alpha:g}, each so that "
        + ", or ".join(dict.fromkeys(scope.statement for scope in scopes)),
        "chunks: " + "; ".join(scope.domain for scope in scopes),
        None,
        tuple(dict.fromkeys((*joined.assumptions, _UNCOUPLED))),
        joined.caveats,
        alpha,
        False,
    )
