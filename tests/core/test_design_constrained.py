"""Designs under a user's constraints: as cheap as another formulation finds them, certified, and never outside the budget."""

import cases
import cvxpy as cp
import numpy as np
import pytest
import scipy.optimize
from repeats import few

import privcontrol as pc
from privcontrol.core import kappa_inverse

ALLOWED = kappa_inverse(1.0, 1e-2)


def independent_optimum(images, weight):
    """Least cost of independent noise of different sizes, without a matrix inequality."""
    units = (np.abs(images).max(axis=1) / ALLOWED) ** 2
    prices = np.diag(weight) * units
    sizes = cp.Variable(len(images), pos=True)
    inside = [
        cp.sum(cp.multiply((s / ALLOWED) ** 2 / units, cp.inv_pos(sizes))) <= 1
        for s in images.T
    ]
    cost = prices / prices.sum() @ sizes
    problem = cp.Problem(cp.Minimize(cost), inside)
    return problem.solve(solver=cp.CLARABEL) * prices.sum()


def constrained(seed, constraints):
    query, adjacency, weight = cases.random_problem(seed, weighted=seed % 2 == 1)
    free = pc.design_gaussian(query, adjacency, cases.BUDGET, weight=weight)
    design = pc.design_gaussian(
        query,
        adjacency,
        cases.BUDGET,
        weight=weight,
        constraints=lambda Gamma: constraints(Gamma, free.noise.covariance),
    )
    assert design.guarantee.satisfies(cases.BUDGET)
    assert free.lower_bound <= design.lower_bound <= design.cost
    assert design.universal_bound <= free.lower_bound
    return query, adjacency, weight, free, design


@pytest.mark.parametrize("seed", range(3))
def test_no_constraint_is_the_unconstrained_design(seed):
    *_, free, design = constrained(seed, lambda Gamma, covariance: [])
    assert design.cost == pytest.approx(free.cost, rel=1e-6)
    assert design.gap < 1e-6


@pytest.mark.parametrize("seed", few(range(4), of=2))
def test_diagonal_noise_costs_what_another_formulation_says(seed):
    query, adjacency, weight, _, design = constrained(
        seed, lambda Gamma, covariance: [Gamma == cp.diag(cp.diag(Gamma))]
    )
    images = query.response @ adjacency.directions
    weight = np.eye(query.size) if weight is None else weight
    optimum = independent_optimum(images, weight)
    assert design.cost == pytest.approx(optimum, rel=1e-5)
    assert design.lower_bound <= optimum * (1 + 1e-7)
    covariance = design.noise.covariance
    rest = covariance - np.diag(np.diag(covariance))
    assert np.abs(rest).max() <= 1e-6 * np.abs(covariance).max()


@pytest.mark.parametrize("seed", [1, 2, 3, 5])
def test_a_ceiling_is_kept_and_its_price_certified(seed):
    *_, free, design = constrained(
        seed, lambda Gamma, covariance: [Gamma[0, 0] <= 0.8 * covariance[0, 0]]
    )
    ceiling = 0.8 * free.noise.covariance[0, 0]
    assert design.noise.covariance[0, 0] <= ceiling * (1 + 1e-6)
    assert design.cost > 1.05 * free.cost
    assert design.lower_bound == pytest.approx(free.lower_bound, rel=1e-9)


def test_blocks_and_convex_constraints():
    *_, free, design = constrained(2, lambda Gamma, covariance: [Gamma[0, 1:] == 0])
    assert np.abs(design.noise.covariance[0, 1:]).max() < 1e-6 * free.cost
    *_, free, design = constrained(
        3,
        lambda Gamma, covariance: [
            cp.norm(cp.diag(Gamma)) <= 0.95 * np.linalg.norm(np.diag(covariance))
        ],
    )
    sizes = np.linalg.norm(np.diag(design.noise.covariance))
    assert sizes <= 0.95 * np.linalg.norm(np.diag(free.noise.covariance)) * (1 + 1e-6)


def test_a_ball_of_moves_with_equal_sizes():
    query = pc.LinearQuery([[1.0, 0.5], [0.0, 2.0]])
    equal = pc.design_gaussian(
        query,
        pc.BallAdjacency(1.0),
        cases.BUDGET,
        constraints=lambda Gamma: [Gamma[0, 0] == Gamma[1, 1], Gamma[0, 1] == 0],
    )
    # size^2 I hides G G' exactly from the largest singular value of G on
    size = np.linalg.norm(query.response, 2) / ALLOWED
    np.testing.assert_allclose(equal.noise.covariance, size**2 * np.eye(2), atol=1e-4)


def test_what_cannot_be_is_refused():
    query, adjacency, _ = cases.random_problem(1)
    with pytest.raises(pc.PrivacyError, match="no Gaussian noise of this budget"):
        pc.design_gaussian(
            query, adjacency, cases.BUDGET, constraints=lambda G: cp.trace(G) <= 1e-3
        )


@pytest.mark.parametrize(
    "constraints, error, message",
    [
        ([], TypeError, "expected a function of the covariance, got list"),
        (lambda Gamma: 3.0, TypeError, "expected the function to return a list"),
        (lambda Gamma: [True], TypeError, r"a list of CVXPY constraints, got \[True\]"),
        (
            lambda Gamma: [cp.norm(Gamma) >= 1],
            ValueError,
            "constraints: expected convex ones",
        ),
    ],
)
def test_mistakes_are_named(constraints, error, message):
    query, adjacency, _ = cases.random_problem(1)
    with pytest.raises(error, match=message):
        pc.design_gaussian(query, adjacency, cases.BUDGET, constraints=constraints)


@pytest.mark.parametrize(
    "part, message", [(0.9, "exceeds its budget"), (1.1, "missed")]
)
def test_the_solver_is_not_trusted(monkeypatch, part, message):
    query, adjacency, _ = cases.random_problem(2)
    free = pc.design_gaussian(query, adjacency, cases.BUDGET).noise.covariance
    solve = cp.Problem.solve

    def wrong(problem, *args, **options):
        found = solve(problem, *args, **options)
        for variable in problem.variables():
            if variable.attributes["PSD"]:
                variable.value = part**2 * variable.value
        return found

    monkeypatch.setattr(cp.Problem, "solve", wrong)
    with pytest.raises(pc.UncertifiableError, match=message):
        pc.design_gaussian(
            query,
            adjacency,
            cases.BUDGET,
            constraints=lambda Gamma: [Gamma[0, 0] <= 0.9 * free[0, 0]],
        )


def stationarity(images, weight, covariance, free):
    """Residual of the Karush-Kuhn-Tucker conditions, relative to the weight.

    At the optimum W + sum nu_j C_j = sum lambda_i Gamma^-1 s_i s_i' Gamma^-1 on the range
    of the noise, with lambda, nu >= 0 and lambda_i > 0 only where the shift of s_i is the
    largest. ``free`` holds the C_j of the constraints that are met with equality, each
    as a pair of signs.
    """
    values, vectors = np.linalg.eigh(covariance)
    U = vectors[:, values > 1e-6 * values[-1]]
    inverse = U @ np.linalg.inv(U.T @ covariance @ U) @ U.T
    shifts = np.sqrt(np.einsum("ik,ij,jk->k", images, inverse, images))
    active = images[:, shifts > shifts.max() * (1 - 1e-4)]
    spread = U.T @ inverse @ active
    columns = [np.outer(s, s) for s in spread.T]
    columns += [-U.T @ C @ U for C in free]
    target = U.T @ weight @ U
    scales = [np.linalg.norm(column) or 1.0 for column in columns]
    matrix = np.array(
        [(c / size).ravel() for c, size in zip(columns, scales, strict=True)]
    )
    _, residual = scipy.optimize.nnls(matrix.T, target.ravel())
    return residual / np.linalg.norm(target)


def ceiling_case(seed, share=0.8):
    """Cost over the unconstrained bound, and the residual, with a ceiling on one entry."""
    query, adjacency, weight, free, design = constrained(
        seed, lambda Gamma, covariance: [Gamma[0, 0] <= share * covariance[0, 0]]
    )
    weight = np.eye(query.size) if weight is None else weight
    images = query.response @ adjacency.directions
    ceiling = np.zeros_like(weight)
    ceiling[0, 0] = 1.0
    residual = stationarity(images, weight, design.noise.covariance, [ceiling])
    without = stationarity(images, weight, design.noise.covariance, [])
    return design.cost / free.lower_bound, residual, without


@pytest.mark.parametrize("seed", [1, 2, 3, 5])
def test_a_design_under_a_ceiling_is_stationary(seed):
    """The multipliers exist, and do not if the ceiling is left out of the conditions."""
    price, residual, without = ceiling_case(seed)
    assert price > 1.05
    assert residual < 1e-3
    assert without > 0.1
