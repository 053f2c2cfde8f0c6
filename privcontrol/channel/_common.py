"""What all designs of output noise share: the clauses of their guarantees, and the price of their noise."""

import numpy as np

from ..core.design import quoted
from ..core.ellipsoid import weight_root
from ..core.guarantee import PrivacyGuarantee, Scope
from ..trajectory.powers import seen_states

ASSUMPTIONS = (
    "A and C exact",
    "the noise drawn once for the horizon",
    "controller, reference, inputs and initial estimate computed without the secret",
)


def assumptions(request, matrices="A and C"):
    """What the guarantee of a request takes for granted; of a model nothing but that it is one of those given."""
    if request.models:
        return (
            model_clause(len(request.models), "the nominal plant or of ", matrices),
            *ASSUMPTIONS[1:],
        )
    return (f"{matrices} exact", *ASSUMPTIONS[1:])


def model_clause(count, nominal="", matrices="A and C"):
    """The assumption that the plant is one of several."""
    return f"{matrices} those of {nominal}" + (
        "one given model" if count == 1 else f"one of {count} models"
    )


def guarantee_of(query, request, loss, assumed, caveats=()):
    """The guarantee of a loss for what was requested, quoted at the budget's delta."""
    plants = (query.manifold.plant, *request.models)
    scope = Scope.of(
        request.adjacency,
        query.manifold,
        assumptions=assumed,
        caveats=caveats,
        models=[plant.fingerprint for plant in plants],
    )
    return quoted(PrivacyGuarantee(loss, scope), request.budget)


def published_exactly(plant, horizon, factor, padded=False):
    """What structured noise does not cover and the outputs tell, for the guarantee's text."""
    caveats = [
        "anything but a free response of the plant, such as a disturbance during the run"
    ]
    noisy, seen = factor.any(axis=1), seen_states(plant, horizon)
    for _ in range(plant.order):
        noisy = noisy | (plant.A != 0)[:, noisy].any(axis=1)
    bare = [name for name, told in zip(plant.states, seen & ~noisy) if told]
    if np.array_equal(plant.A @ factor, factor):  # one offset for the whole horizon
        bare.append("all differences over time")
    if bare:
        caveats.append(
            f"{' and '.join(bare)}, which no noise covers and the outputs tell exactly"
        )
    elif padded:
        caveats.append(
            "what lies outside the span of the protected moves, which the outputs tell almost exactly"
        )
    elif factor.shape[1] < np.count_nonzero(seen):
        caveats.append(
            "what lies outside the span of the noise, which the outputs tell exactly"
        )
    return tuple(caveats)


def quadratic_cost(weight, query):
    """B -> H B with H^T H = W, from an array or from a loop's own map of output noise to cost.

    A price of one sample's outputs (p,) or (p, p) is that of every sample.
    """
    if hasattr(weight, "noise_weight"):
        return weight.noise_weight(query.manifold.horizon)
    outputs, shape = query.size // query.manifold.horizon, np.shape(weight)
    if weight is None or (
        shape not in ((outputs,), (outputs, outputs))
        and shape == (query.size, query.size)
    ):
        return weight_root(weight, query.size)
    if shape not in ((outputs,), (outputs, outputs)):
        raise ValueError(
            f"weight: expected shape ({outputs},) or ({outputs}, {outputs}) for every sample alike, or ({query.size}, "
            f"{query.size}) for all of them, got {shape}"
        )
    each = weight_root(np.diag(weight) if len(shape) == 1 else weight, outputs)

    def half(columns):
        frames = np.reshape(columns, (-1, outputs, columns.shape[1])).swapaxes(0, 1)
        return each(frames.reshape(outputs, -1)).reshape(-1, columns.shape[1])

    return half


def white_cost(half, sizes, weight=None, block=256):
    """tr(W diag(sizes^2)), by columns of H in blocks."""
    if weight is None:
        return float(np.sum(sizes**2))
    total = 0.0
    for start in range(0, len(sizes), block):
        columns = np.eye(len(sizes), min(block, len(sizes) - start), -start)
        total += float(np.sum((half(columns) * sizes[start : start + block]) ** 2))
    return total
