"""Random loops with singular data beside a filter of 300 digits.

python tests/stress/singular_loops.py 10000
python tests/stress/singular_loops.py 10000 --first 2000

Each of RN, QN and P0 is singular with probability 1/2. The cost with the terminal term
and the covariances of the estimates are to agree to 1e-9. Loops that the library refuses
are counted with their reasons.
"""

import argparse
import sys
import time
import warnings
from collections import Counter

import control as ct
import flint
import numpy as np

import privcontrol as pc
from privcontrol.loop.data import regulation

DRAWN = {
    "initial_state": "design",
    "disturbance": "design",
    "measurement_noise": "design",
}
BUDGET = pc.PrivacyBudget(epsilon=1.0, delta=1e-2)
AGREES = 1e-9
DIGITS = 300
#: A variance below this part of what its terms are is zero.
_ZERO = 1e-100


# -- loops -----------------------------------------------------------------------------


def covariance(rng, size):
    """A positive semidefinite matrix that doubles hold exactly, singular or not."""
    scale = 2.0 ** rng.integers(-10, 5)
    if rng.uniform() < 0.5:
        if rng.uniform() < 0.5:
            root = rng.integers(-4, 5, size=(size, size)) + 9 * np.eye(size)
            return scale * root @ root.T
        return scale * np.diag(2.0 ** rng.integers(-6, 3, size=size))
    kind = rng.integers(3)
    if kind == 0:
        return np.zeros((size, size))
    if kind == 1:
        return scale * np.diag(rng.integers(0, 2, size=size).astype(float))
    root = rng.integers(-3, 4, size=(size, int(rng.integers(0, size))))
    return scale * (root @ root.T)


def dynamics(rng, n):
    """A (n, n): dense, in companion form, or of some samples of delay."""
    kind = rng.integers(3)
    if kind == 0:
        A = rng.normal(size=(n, n))
        return A * rng.uniform(0.3, 1.08) / np.abs(np.linalg.eigvals(A)).max()
    if kind == 1:
        poles = rng.uniform(-0.9, 1.05, size=n)
        return np.diag(np.ones(n - 1), 1) - np.outer(
            np.eye(n)[-1], np.poly(poles)[:0:-1]
        )
    A = np.diag(rng.uniform(0.2, 1.05, size=n))
    lags = int(rng.integers(0, n))
    A[:lags] = np.eye(n)[1 : lags + 1]
    return A


def random_loop(seed):
    """Plant and options of `pc.private_lqg`."""
    rng = np.random.default_rng(seed)
    n = int(rng.integers(1, 7))
    p = int(rng.integers(1, min(n, 3) + 1))
    m = int(rng.integers(1, 3))
    names = [f"s{i}" for i in range(n)]
    C = rng.normal(size=(p, n))
    if rng.uniform() < 0.5:
        C = np.eye(n)[np.sort(rng.choice(n, size=p, replace=False))]
    plant = ct.ss(dynamics(rng, n), rng.normal(size=(n, m)), C, 0, 1.0, states=names)
    horizon = int(rng.integers(3, 25))
    some = rng.choice(names, size=int(rng.integers(1, n + 1)), replace=False)
    options = {}
    if rng.uniform() < 0.3:
        options["floor"] = 0.3
    if rng.uniform() < 0.1:
        options = {"family": "iid-gaussian"}
    noise = pc.design_output_noise(
        plant,
        horizon=horizon,
        adjacency=pc.StateAdjacency(dict.fromkeys(some, 0.5), times=0),
        budget=BUDGET,
        models="exact",
        max_std=np.inf,
        **options,
    )
    return plant, {
        "Q": 1,
        "R": 10 ** rng.uniform(-1, 1),
        "QN": covariance(rng, n),
        "RN": covariance(rng, p),
        "noise": noise,
        "P0": covariance(rng, n),
        "terminal": float(rng.integers(0, 2)),
        "form": "filter" if rng.uniform() < 0.7 else "predictor",
    }


# -- the second route ------------------------------------------------------------------


def exact(array):
    """A matrix of doubles as one of 300 digits."""
    array = np.atleast_2d(array)
    return flint.arb_mat(*array.shape, [float(entry) for entry in array.ravel()])


def block(first, second):
    """A block-diagonal matrix."""
    rows, columns = first.nrows(), first.ncols()
    size = rows + second.nrows()
    width = columns + second.ncols()
    whole = flint.arb_mat(size, width)
    for matrix, row, column in ((first, 0, 0), (second, rows, columns)):
        for i in range(matrix.nrows()):
            for j in range(matrix.ncols()):
                whole[row + i, column + j] = matrix[i, j]
    return whole


def told(seen, readings, sizes):
    """What readings of covariance V tell: W V^+ W' (N, N), with W = seen (N, p).

    V is eliminated row by row, the largest first, until what is left is rounding of
    terms of ``sizes``.
    """
    V = readings.tolist()
    W = seen.tolist()
    p = len(V)
    left = list(range(p))
    N = len(W)
    found = flint.arb_mat(N, N)
    while left:
        shares = {i: float(V[i][i] / sizes[i]) for i in left if sizes[i] > 0}
        k = max(shares, key=shares.get, default=None)
        if k is None or not shares[k] > _ZERO:
            break
        left.remove(k)
        column = flint.arb_mat(N, 1, [row[k] / V[k][k] for row in W])
        found += column * flint.arb_mat(1, N, [row[k] for row in W])
        for i in left:
            share = (V[i][k] / V[k][k]).mid()
            for row in W:
                row[i] = (row[i] - share * row[k]).mid()
            for j in left:
                V[i][j] = (V[i][j] - share * V[k][j]).mid()
    return found.mid()


def truth(loop):
    """The expected cost with the terminal term, and covariances (T, n, n) of estimates.

    Plant and noise have the state (x, xi). The cost is tr S_0 P0 + sum tr S_{t+1} W +
    sum tr N_t Sigma_t, where Sigma_t is the error when the controller decides.
    """
    flint.ctx.dps = DIGITS
    A = exact(loop.data.side.plant.A)
    B = exact(loop.data.side.B)
    n = A.nrows()
    C = exact(loop.data.side.plant.C)
    p = C.nrows()
    noise = loop.noise
    T = noise.horizon
    P0 = exact(loop.data.design.P0)
    W = (
        exact(loop.data.weights.G)
        * exact(loop.data.weights.QN)
        * exact(loop.data.weights.G).transpose()
    )
    white = exact(np.diag(noise.process.total.white))
    fresh = exact(loop.data.weights.RN) + white * white
    joint, start, entering, reading = A, P0, W, C.tolist()
    if noise.factor is not None:
        S = exact(noise.factor)
        joint = block(A, A)
        start = block(P0, S * S.transpose())
        entering = block(W, flint.arb_mat(n, n))
        reading = [row + row for row in reading]
    N = joint.nrows()
    read = flint.arb_mat(p, N, [entry for row in reading for entry in row])
    sizes = [flint.arb(0)] * p
    spread = start
    after = []
    before = []
    for _ in range(T):
        seen = spread * read.transpose()
        V = (read * seen + fresh).mid()
        absolute = [
            sum(abs(read[i, j]) * abs(seen[j, i]) for j in range(N)) for i in range(p)
        ]
        sizes = [
            max(size, here + fresh[i, i])
            for i, (size, here) in enumerate(zip(sizes, absolute))
        ]
        before.append(spread)
        spread = (spread - told(seen, V, sizes)).mid()
        after.append(spread)
        spread = (joint * spread * joint.transpose() + entering).mid()
    errors = before if loop.data.form == "predictor" else after
    Q = exact(loop.data.weights.Q)
    R = exact(loop.data.weights.R)
    value = exact(regulation(loop.data).terminal)
    cost = flint.arb(0)
    for t in reversed(range(T)):
        cost += (value * W).trace()
        price = R + B.transpose() * value * B
        gain = price.solve(B.transpose() * value * A)
        error = flint.arb_mat(
            n, n, [errors[t][i, j] for i in range(n) for j in range(n)]
        )
        cost += (gain * error * gain.transpose() * price).trace()
        value = (Q + A.transpose() * value * (A - B * gain)).mid()
    cost += (value * P0).trace()
    known = np.array(
        [[[float(S[i, j]) for j in range(n)] for i in range(n)] for S in after]
    )
    return float(cost), known


# -- comparison ------------------------------------------------------------------------


def compared(seed):
    """Relative differences of the cost and of the covariances, and what was claimed."""
    plant, options = random_loop(seed)
    loop = pc.private_lqg(plant, **options)
    cost = loop.cost(**DRAWN)
    claimed = cost.total + cost.terminal
    covariances = loop.estimate_covariance
    expected, known = truth(loop)
    # errors are relative to what is uncertain at all
    variance = np.einsum("tii->ti", known).max(axis=0)
    initial = np.diag(loop.data.design.P0)
    drawn = np.diag(loop.G @ loop.QN @ loop.G.T)
    units = np.sqrt(np.maximum(np.maximum(variance, initial), drawn).max())
    difference = np.abs(covariances - known).max(initial=0.0)
    scale = units**2 if units > 0 else 1.0
    off = abs(claimed - expected) / abs(expected) if expected else abs(claimed)
    return off, difference / scale, claimed, expected


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("count", type=int)
    parser.add_argument("--first", type=int, default=0)
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    refused = Counter()
    costs = []
    errors = []
    begun = time.process_time()
    for seed in range(given.first, given.first + given.count):
        try:
            off, error, claimed, expected = compared(seed)
        except ValueError as refusal:
            refused[str(refusal)[:80]] += 1
            if "RN" in str(refusal):
                print(f"{seed}: {refusal}", flush=True)
            continue
        costs.append(off)
        errors.append(error)
        if not max(off, error) <= AGREES:
            print(
                f"{seed}: cost {claimed:.9g} for {expected:.9g} ({off:.1e}), covariances "
                f"off by {error:.1e}",
                flush=True,
            )
    wrong = sum(not max(pair) <= AGREES for pair in zip(costs, errors))
    print(
        f"{len(costs)} loops in {time.process_time() - begun:.0f} s: {wrong} wrong; largest "
        f"difference of the cost {max(costs):.1e}, of the covariances {max(errors):.1e}"
    )
    for reason, number in refused.items():
        print(f"refused {number}: {reason}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
