"""Random mechanisms against brute force: every sampled move and vertex, in 60 digits, is within the certificate.

Manifolds have dependent rows, queries dependent entries, and units lie up to 24 decades apart.
"""

import itertools

import mpmath as mp
import numpy as np
import pytest
from flint import fmpq, fmpq_mat

import privcontrol as pc
from privcontrol.core import kappa_inverse

BUDGET = pc.PrivacyBudget(epsilon=1.0, delta=1e-2)
ALLOWED = float(kappa_inverse(1.0, 1e-2))
DIGITS = 60


def exact(value):
    return fmpq(*float(value).as_integer_ratio())


def number(value):
    return mp.mpf(int(value.p)) / mp.mpf(int(value.q))


def kernel_of(table):
    """Rational columns that span the kernel of a rational matrix."""
    echelon, rank = table.rref()
    rows = echelon.tolist()[:rank]
    pivots = [next(j for j, x in enumerate(row) if x != 0) for row in rows]
    columns = []
    for free in sorted(set(range(table.ncols())).difference(pivots)):
        column = [fmpq(int(j == free)) for j in range(table.ncols())]
        for row, pivot in zip(rows, pivots):
            column[pivot] = -row[free]
        columns.append(column)
    return columns


def combined(columns, weights):
    entries = range(len(columns[0]))
    return [sum((c[i] * w for c, w in zip(columns, weights)), fmpq(0)) for i in entries]


def circuits(columns):
    """Vectors of smallest support, by brute force over the entries that are held."""
    found = {}
    dimension = len(columns)
    for held in itertools.combinations(range(len(columns[0])), dimension - 1):
        ties = [columns[j][i] for i in held for j in range(dimension)]
        weights = [[fmpq(1)]]
        if held:
            weights = kernel_of(fmpq_mat(len(held), dimension, ties))
        if len(weights) == 1:
            move = combined(columns, weights[0])
            found[tuple(i for i, x in enumerate(move) if x != 0)] = move
    return list(found.values())


def box_vertices(columns):
    """Vectors of largest entry one, as many of whose entries are as there are columns."""
    size = len(columns)
    for rows in itertools.combinations(range(len(columns[0])), size):
        square = fmpq_mat(
            size, size, [columns[j][i] for i in rows for j in range(size)]
        )
        if square.det() == 0:
            continue
        for signs in itertools.product((1, -1), repeat=size):
            weights = square.solve(fmpq_mat(size, 1, list(signs)))
            move = combined(columns, weights.entries())
            if max(map(abs, move)) <= 1:
                yield move


def random_manifold(rng, size):
    """A manifold and rational columns that span its tangents exactly."""
    kind = rng.integers(3)
    if kind == 0:
        eye = np.eye(size).astype(int).tolist()
        return None, [[fmpq(x) for x in row] for row in eye]
    count = int(rng.integers(1, size))
    table = rng.standard_normal((count, size))
    if rng.random() < 0.5:
        table = rng.integers(-3, 4, (count, size)).astype(float)
    if kind == 1:
        table = np.vstack([table, 2 * table[:1]])  # a row that repeats another
        table = table * 2.0 ** rng.integers(-40, 40, (len(table), 1))
        entries = [exact(x) for x in table.ravel()]
        manifold = pc.AffineManifold(table, pinned="keep")
        return manifold, kernel_of(fmpq_mat(*table.shape, entries))
    table = table * 10.0 ** rng.uniform(-12, 12, (count, 1))
    manifold = pc.AffineManifold.from_kernel(table.T, pinned="keep")
    return manifold, [[exact(x) for x in row] for row in table]


def random_query(rng, size):
    rows = int(rng.integers(1, 6))
    F = rng.standard_normal((rows, size))
    if rng.random() < 0.4:
        F = rng.integers(-3, 4, (rows, 1)) @ rng.integers(-3, 4, (1, size)) * 1.0
    if rng.random() < 0.3:
        F = F * 10.0 ** rng.uniform(-12, 12, (rows, 1))
    if rng.random() < 0.2:
        F = F * 10.0 ** rng.uniform(-12, 12, size)
    return F


def length(vector, norm):
    sizes = [abs(x) for x in vector]
    return max(sizes) if norm == np.inf else mp.norm(sizes, norm)


def random_moves(rng, columns):
    """An adjacency with its vertices, or some of its points, in many digits."""
    kind = rng.integers(4)
    size = len(columns[0])
    if kind == 3:
        radii = 10.0 ** rng.uniform(-3, 3, size)
        moves = []
        for circuit in circuits(columns):
            move = [number(x) for x in circuit]
            factor = max(mp.mpf(mu) / abs(x) for mu, x in zip(radii, move) if x)
            moves.append([factor * x for x in move])
        return pc.ManifoldAdjacency(radii), moves, True
    norm = (1, 2, np.inf)[kind]
    radius = float(10.0 ** rng.uniform(-6, 6))
    units = [[x / max(map(abs, column)) for x in column] for column in columns]
    weights = rng.standard_normal((30, len(units)))
    points = [combined(units, list(map(exact, row))) for row in weights]
    points += circuits(columns)
    if norm == np.inf:
        points += box_vertices(columns)
    moves = []
    for point in points:
        move = [number(x) for x in point]
        factor = mp.mpf(radius) / length(move, norm)
        moves.append([factor * x for x in move])
    return pc.BallAdjacency(radius, norm=norm), moves, norm == 1


def gaussian_shift(design, images):
    """The largest shift that images (in many digits) have in the noise that is released."""
    factor = design.noise.factor
    sizes = np.zeros(len(factor))
    if design.mechanism.padding is not None:
        sizes = design.mechanism.padding
    root = mp.matrix(np.atleast_2d(np.diag(factor) if factor.ndim == 1 else factor))
    covariance = root * root.T + mp.diag([mp.mpf(x) ** 2 for x in sizes.tolist()])
    noisy = [i for i in range(len(factor)) if covariance[i, i]]
    bare = set(range(len(factor))).difference(noisy)
    assert not any(image[i] for image in images for i in bare)
    inner = mp.matrix([[covariance[i, j] for j in noisy] for i in noisy])
    shifts = []
    for image in images:
        part = mp.matrix([image[i] for i in noisy])
        shifts.append(mp.sqrt((part.T * mp.lu_solve(inner, part))[0]))
    return max(shifts)


def laplace_shift(design, images):
    """The largest 1-norm of a shift; None for noise that more than one shift undoes."""
    factor = design.noise.factor
    if factor.ndim == 1 or factor.shape[0] != factor.shape[1]:
        return None
    if design.mechanism.padding is not None:
        return None
    root = mp.matrix(factor)
    return max(mp.norm(mp.lu_solve(root, image), 1) for image in images)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("block", range(4))
def test_no_sampled_move_exceeds_what_is_certified(block):
    compared = 0
    refused = 0
    for seed in range(25 * block, 25 * (block + 1)):
        rng = np.random.default_rng(seed)
        size = int(rng.integers(2, 6))
        try:
            manifold, columns = random_manifold(rng, size)
        except ValueError:  # nothing moves on it, or its columns depend on each other
            continue
        query = pc.LinearQuery(random_query(rng, size), manifold)
        with mp.workdps(DIGITS):
            adjacency, moves, vertices = random_moves(rng, columns)
            F = mp.matrix(query.matrix)
            images = [F * mp.matrix(move) for move in moves]
            for norm in (1, 2, np.inf):
                worst = max(length(image, norm) for image in images)
                found = query.sensitivity(adjacency, norm)
                assert worst <= found, (seed, norm)
                if vertices:
                    assert found <= worst * mp.mpf("1.001")
            for design in (pc.design_gaussian, pc.design_iid, pc.design_laplace):
                try:
                    made = design(query, adjacency, BUDGET)
                except pc.PrivacyError:  # nothing is changed, or double precision ends
                    refused += 1
                    continue
                compared += 1
                if made.noise.family == "laplace":
                    worst = laplace_shift(made, images)
                    claim = made.guarantee.epsilon(0.0)
                else:
                    worst = gaussian_shift(made, images)
                    claim = made.guarantee.gdp
                    assert claim <= ALLOWED
                    assert not vertices or claim <= worst * mp.mpf("1.001")
                assert worst is None or worst <= claim, (seed, design.__name__)
    assert compared > 50
    assert refused < compared / 5
