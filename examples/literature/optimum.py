"""This library, best noise for the loop.

The noise with which the loop costs least, and a bound that no linear Gaussian gate,
with memory or without, goes below at this guarantee. With J the information of what is
drawn once, the cost of privacy sum_t |W_t G_t (J + H_t)^(-1/2)|^2 is convex; Newton's
method on a barrier finds the least one, and the dual of its linearisation the bound.
"""

import sys

import comparison
import numpy as np
import ours
import scipy.linalg

import privcontrol as pc

SOURCE = """LQG with the noise's law known to the filter, noise and controller designed together
any secret, one at a time; adversary: sees all that is published, and the inputs"""


def directions(plant, responses):
    """A basis U (T p, k) of the moves, their coefficients, and W_t G_t and H_t in it."""
    U, sizes, _ = np.linalg.svd(responses, full_matrices=False)
    rank = np.count_nonzero(sizes > 1e-8 * sizes[0])
    U = U[:, :rank] * sizes[:rank]
    moves = np.linalg.lstsq(U, responses)[0]
    lower, weights = plant.innovations(None, np.zeros((len(U), len(U))))
    seen = scipy.linalg.solve_triangular(lower, U, lower=True)
    passed = np.einsum("rtn,rk->tnk", weights, seen)
    spread = np.einsum("tqn,tnk->tqk", plant.regulator[1], passed)
    each = seen.reshape(plant.horizon, -1, rank)
    known = np.cumsum(np.einsum("tpi,tpj->tij", each, each), axis=0)
    return U, moves, spread, known


def least(moves, spread, known, shift, near=0.0, gap=1e-3, cap=1e-6):
    """(J, value, lower bound) of the cost of privacy over c'Jc <= shift^2, J >= cap.

    The two lie within a share ``gap`` of the value, or within ``near``.

    Newton's method on the logarithmic barrier, in units where the shift is 1.
    """
    k, count = moves.shape
    spread, known = spread / shift, known / shift**2
    X = 0.5 / np.max(np.sum(moves**2, axis=0)) * np.eye(k)
    weight = cost_of(X, spread, known) / (count + k)
    best, bound = np.inf, -np.inf
    while weight > 1e-12 * best or not np.isfinite(best):
        for _ in range(30):
            step, decrement = newton(X, weight, moves, spread, known, cap)
            length = 1.0
            before = barrier(X, weight, moves, spread, known, cap)
            while barrier(X + length * step, weight, moves, spread, known, cap) > (
                before - 0.1 * length * decrement
            ):
                length /= 2
                if length < 1e-9:
                    break
            X = X + length * step
            if decrement < 0.1 or length < 1e-9:
                break
        best = cost_of(X, spread, known)
        bound = max(bound, lower(X, weight, moves, spread, known))
        if best - bound <= max(gap * best, near):
            break
        weight *= 0.1
    return X * shift**2, best, bound


def cost_of(X, spread, known):
    """sum_t |W_t G_t (X + H_t)^(-1/2)|^2."""
    return float(np.sum(np.linalg.solve(X + known, spread.transpose(0, 2, 1))
                        * spread.transpose(0, 2, 1)))  # fmt: skip


def barrier(X, weight, moves, spread, known, cap):
    """The cost over the weight, and the logarithms of what is left to the bounds."""
    left = 1 - np.sum(moves * (X @ moves), axis=0)
    sizes = np.linalg.eigvalsh(X) - cap
    if min(left.min(), sizes.min()) <= 0:
        return np.inf
    cost = cost_of(X, spread, known) / weight
    return cost - np.sum(np.log(left)) - np.sum(np.log(sizes))


def newton(X, weight, moves, spread, known, cap):
    """The step of Newton's method, and its decrement, in the entries i <= j."""
    k = len(X)
    inverse = np.linalg.inv(X + known)
    passed = spread @ inverse
    bent = np.einsum("tqi,tqj->tij", passed, passed)
    left = 1 - np.sum(moves * (X @ moves), axis=0)
    above = np.linalg.inv(X - cap * np.eye(k))
    outer = np.einsum("is,js->sij", moves, moves) / left[:, None, None]
    gradient = outer.sum(axis=0) - above - bent.sum(axis=0) / weight
    pairs = bent.reshape(len(bent), -1).T @ inverse.reshape(len(bent), -1)
    curved = pairs.reshape(k, k, k, k) * (2 / weight) + np.multiply.outer(above, above)
    curved = curved.transpose(0, 2, 1, 3).reshape(k * k, k * k)  # of X -> B X P
    rows, columns = np.triu_indices(k)
    first, second = rows * k + columns, columns * k + rows
    share = np.where(rows == columns, 0.5, 1.0)
    curved = curved[first] + curved[second]
    curved = (curved[:, first] + curved[:, second]) * np.outer(share, share)
    flat = outer.reshape(len(outer), -1)[:, first] * (2 * share)
    curved += flat.T @ flat
    descent = 2 * share * gradient.ravel()[first]
    found = scipy.linalg.solve(curved, -descent, assume_a="sym")
    step = np.zeros((k, k))
    step[rows, columns] = found
    step[columns, rows] = found
    return step, float(-descent @ found)


def lower(X, weight, moves, spread, known):
    """The bound from prices with sum prices c c' >= minus the gradient."""
    passed = spread @ np.linalg.inv(X + known)
    slope = np.einsum("tqi,tqj->ij", passed, passed)
    left = 1 - np.sum(moves * (X @ moves), axis=0)
    bounds = []
    for share in (0, 1e-6, 1e-4, 1e-3, 1e-2):
        prices = weight / left
        prices = prices + share * prices.mean()
        covered = (moves * prices) @ moves.T
        short = scipy.linalg.eigh(slope, covered, eigvals_only=True)[-1]
        bounds.append(np.sum(prices) * short)
    return np.sum(passed * spread) + np.sum(slope * X) - min(bounds)


def design(plant, secret, budget):
    query = plant.query(secret)
    moves = secret.moves(query.manifold)
    shift = budget.shift()
    if moves.is_ball:  # then one information is the largest, and ours has it
        entry = ours.design(plant, secret, budget)
        return comparison.bounded(entry, entry.cost)
    responses = query.response @ moves.vectors
    if not np.abs(responses).max() > 0:
        raise ValueError("no move of the secret changes what is published")
    public = plant.cost(np.zeros((len(responses), len(responses))))
    U, coefficients, spread, seen = directions(plant, responses)
    J, value, bound = least(coefficients, spread, seen, shift, near=2e-4 * public)
    half = np.linalg.inv(np.linalg.cholesky(J)).T
    if moves.vectors.shape[0] == plant.sys.nstates:
        factor = moves.vectors @ np.linalg.pinv(coefficients) @ half
        attempts = [of_states, on_floor, ours.design], [factor, U @ half, None]
    else:
        attempts = [on_floor, ours.design], [U @ half, None]
    entry = cheapest(plant, secret, budget, *attempts)
    return comparison.bounded(entry, public + min(bound, value))


def cheapest(plant, secret, budget, makers, factors):
    """The entry of least cost among those that double precision can certify."""
    entries = []
    for make, factor in zip(makers, factors):
        shape = () if factor is None else (factor,)
        try:
            entries.append(make(plant, secret, budget, *shape))
        except (pc.PrivacyError, pc.UncertifiableError, ValueError) as refusal:
            cause = refusal
    if not entries:
        raise cause
    return min(entries, key=lambda entry: entry.cost)


def on_floor(plant, secret, budget, factor):
    """The entry of this noise on a white floor, for what rounding leaves of a move."""
    floor = 1e-4 * np.abs(factor).max() * np.eye(len(factor))
    return plant.released(secret, budget, np.hstack([factor, floor]))


def of_states(plant, secret, budget, factor):
    """The entry of C A^t S eta, whose guarantee the package certifies."""
    noise = pc.design_output_noise(
        plant.sys,
        horizon=plant.horizon,
        budget=budget,
        adjacency=secret,
        factor=factor,
        scale=True,
        models="exact",
        max_std=np.inf,
    )
    return plant.evaluated(secret, noise.design.noise.factor, known=noise.guarantee)


def golden():
    """The README's vehicle under three secrets, with and without a horizon's states."""
    from side_by_side import vehicle_loop

    budget = pc.PrivacyBudget(epsilon=1.0, delta=1e-2)
    position = design(vehicle_loop(), pc.StateAdjacency({"position": 1.0}), budget)
    both = pc.StateAdjacency({"position": 1.0, "velocity": 0.5})
    entry = design(vehicle_loop(), both, budget)
    return [
        ("position", position.cost, "440.39"),
        ("position and velocity", entry.cost, "890.0"),
        ("its lower bound over its cost", entry.bound / entry.cost, "1.000"),
    ]


if __name__ == "__main__":
    comparison.main(sys.modules[__name__])
