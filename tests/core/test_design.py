"""Noise design: as cheap as CVXPY finds it, never outside the budget, certified; and the dominance of structured noise."""

import math
import warnings
from fractions import Fraction

import cases
import flint
import mpmath
import numpy as np
import oracles
import pytest
import scipy.linalg
from repeats import few

import privcontrol as pc
from privcontrol.core import kappa_inverse

ALLOWED = kappa_inverse(1.0, 1e-2)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("seed", few(range(25), of=4))
def test_design_agrees_with_cvxpy_and_keeps_its_certificate(seed, weighted):
    query, adjacency, weight = cases.random_problem(seed, weighted=weighted)
    design = pc.design_gaussian(query, adjacency, cases.BUDGET, weight=weight)
    images = query.response @ adjacency.directions
    assert design.cost == pytest.approx(
        oracles.least_cost(images, ALLOWED, weight), rel=1e-6
    )
    assert -1e-12 <= design.gap <= 1e-9
    weight = np.eye(query.size) if weight is None else weight
    assert design.cost == pytest.approx(
        np.trace(weight @ design.noise.covariance), rel=1e-9
    )


@pytest.mark.parametrize(
    "seed", few(sorted(range(50), key=lambda seed: seed % 7), of=8)
)
def test_designed_noise_evaluated_back_meets_the_budget(seed):
    query, adjacency, weight = cases.random_problem(1000 + seed, weighted=seed % 2 == 1)
    budget = pc.PrivacyBudget(
        epsilon=float(10 ** (seed / 25 - 1)), delta=10.0 ** -(1 + seed % 9)
    )
    design = pc.design_gaussian(query, adjacency, budget, weight=weight)
    assert design.guarantee.satisfies(budget)
    fresh = pc.Mechanism(query, pc.GaussianNoise(design.noise.factor)).guarantee(
        adjacency
    )
    assert fresh.satisfies(budget)
    assert fresh.gdp == design.guarantee.gdp
    dense = oracles.shift(
        design.noise.covariance, query.response @ adjacency.directions
    )
    assert dense == pytest.approx(design.guarantee.gdp, rel=1e-9)


def test_scaling_the_kernel_basis_changes_nothing():
    rng = np.random.default_rng(3)
    N, F, moves = (
        rng.normal(size=(6, 3)),
        rng.normal(size=(4, 6)),
        rng.normal(size=(3, 8)),
    )
    adjacency = pc.DirectionAdjacency(N @ moves)
    designs = [
        pc.design_gaussian(
            pc.LinearQuery(F, pc.AffineManifold.from_kernel(N * size)),
            adjacency,
            cases.BUDGET,
        )
        for size in (1.0, 1e-3, 1e3)
    ]
    for design in designs[1:]:
        np.testing.assert_allclose(
            design.noise.covariance, designs[0].noise.covariance, rtol=1e-8, atol=1e-10
        )
        assert design.guarantee.gdp == pytest.approx(
            designs[0].guarantee.gdp, rel=1e-12
        )


def test_one_direction_gets_exactly_the_scalar_noise():
    design = pc.design_gaussian(
        pc.LinearQuery([[3.0]]), pc.DirectionAdjacency([[2.0]]), cases.BUDGET
    )
    assert design.noise.covariance[0, 0] == pytest.approx(
        pc.core.gaussian_std(1, 1e-2, 6.0) ** 2, rel=1e-12
    )


def test_moves_that_repeat_or_point_back_cost_nothing():
    query = pc.LinearQuery(np.eye(2))
    once = pc.design_gaussian(
        query, pc.DirectionAdjacency([[1, 0], [0, 2]]), cases.BUDGET
    )
    many = pc.DirectionAdjacency([[1, -1, 1, 0, 0], [0, 0, 0, 2, -2]])
    np.testing.assert_allclose(
        pc.design_gaussian(query, many, cases.BUDGET).noise.covariance,
        once.noise.covariance,
        rtol=1e-9,
        atol=1e-12,
    )


def test_worst_moves_attain_the_guarantee():
    query, adjacency, _ = cases.random_problem(7, rank=3, moves=20)
    design = pc.design_gaussian(query, adjacency, cases.BUDGET)
    shifts = np.linalg.norm(
        np.linalg.pinv(design.noise.factor) @ query.matrix @ design.worst_moves, axis=0
    )
    np.testing.assert_allclose(shifts, design.guarantee.gdp, rtol=1e-8)


def far_apart(size, decades, mixed, seed=0):
    """Sixty moves whose coordinates, or orthogonal mixtures of them, spread over some decades."""
    rng = np.random.default_rng(seed)
    moves = rng.standard_normal((size, 60)) * np.logspace(0, -decades, size)[:, None]
    return (
        np.linalg.qr(rng.standard_normal((size, size)))[0] @ moves if mixed else moves
    )


@pytest.mark.parametrize("mixed", [False, True])
@pytest.mark.parametrize("decades", [5, 9, 12])
@pytest.mark.parametrize("size", [2, 4, 8])
def test_moves_twelve_decades_apart_are_hidden_exactly_at_the_least_cost(
    size, decades, mixed
):
    moves = far_apart(size, decades, mixed)
    design = pc.design_gaussian(
        pc.LinearQuery(np.eye(size)), pc.DirectionAdjacency(moves), cases.BUDGET
    )
    assert -1e-12 <= design.gap <= (1e-5 if decades == 12 else 1e-9)
    with flint.ctx.workprec(
        400
    ):  # factor and moves taken as the exact numbers they are
        shifts = flint.arb_mat(design.noise.factor.tolist()).solve(
            flint.arb_mat(moves.tolist())
        )
        squares = [
            sum((shifts[i, j] ** 2 for i in range(size)), flint.arb(0))
            for j in range(moves.shape[1])
        ]
        assert all(square <= flint.arb(design.guarantee.gdp) ** 2 for square in squares)
    assert design.guarantee.gdp <= ALLOWED


def test_more_entries_than_directions_may_be_far_apart_too():
    moves = far_apart(4, 12, True)
    query = pc.LinearQuery(np.random.default_rng(1).standard_normal((9, 4)))
    design = pc.design_gaussian(query, pc.DirectionAdjacency(moves), cases.BUDGET)
    assert design.gap <= 1e-9
    assert design.guarantee.gdp <= ALLOWED


def test_moves_further_apart_than_double_precision_tells_are_covered_by_the_padding():
    """The true covariance, padding included, hides every move as the guarantee says."""
    for seed in range(5):
        moves = far_apart(4, 14, True, seed)
        adjacency = pc.DirectionAdjacency(moves)
        design = pc.design_gaussian(pc.LinearQuery(np.eye(4)), adjacency, cases.BUDGET)
        factor, padding = design.noise.factor, design.mechanism.padding
        with mpmath.workdps(60):
            root = mpmath.matrix(factor.tolist())
            covariance = root * root.T
            for i, size in enumerate(np.zeros(4) if padding is None else padding):
                covariance[i, i] += mpmath.mpf(float(size)) ** 2
            inverse = mpmath.inverse(covariance)
            for move in moves.T:
                column = mpmath.matrix(move.tolist())
                square = (column.T * inverse * column)[0]
                assert square <= mpmath.mpf(design.guarantee.gdp) ** 2
        assert design.guarantee.satisfies(cases.BUDGET)


def test_releases_share_the_budget():
    query, adjacency, _ = cases.random_problem(11)
    once = pc.design_gaussian(query, adjacency, cases.BUDGET)
    design = pc.design_gaussian(query, adjacency, cases.BUDGET, releases=4)
    assert design.cost == pytest.approx(4 * once.cost, rel=1e-8)
    assert sum([design.guarantee] * 4).gdp <= ALLOWED * (1 + 1e-14)
    assert not sum([design.guarantee] * 5).satisfies(cases.BUDGET)


def test_a_weight_that_prices_nothing_somewhere_still_gives_finite_noise():
    query = pc.LinearQuery(np.eye(2))
    design = pc.design_gaussian(
        query,
        pc.DirectionAdjacency(np.eye(2)),
        cases.BUDGET,
        weight=np.diag([1.0, 0.0]),
    )
    assert np.isfinite(design.noise.covariance).all()
    assert design.guarantee.satisfies(cases.BUDGET)
    assert design.cost == pytest.approx(1 / ALLOWED**2, rel=1e-6)


def test_iid_noise_is_the_sensitivity_over_the_allowed_shift():
    query, adjacency, _ = cases.random_problem(5)
    design = pc.design_iid(query, adjacency, cases.BUDGET)
    worst = np.linalg.norm(query.response @ adjacency.directions, axis=0).max()
    np.testing.assert_allclose(design.noise.factor, worst / ALLOWED, rtol=1e-12)
    assert np.isnan(design.gap)
    assert design.guarantee.satisfies(cases.BUDGET)


@pytest.mark.parametrize("seed", few(range(20), of=5))
@pytest.mark.parametrize("kind", ["iid", "correlated", "singular"])
def test_structured_equivalent_keeps_the_guarantee_and_lowers_the_covariance(
    seed, kind
):
    query, adjacency, _ = cases.random_problem(seed, rank=3)
    rng = np.random.default_rng(seed)
    images = query.response @ adjacency.directions
    if kind == "iid":
        noise = pc.GaussianNoise(np.full(query.size, 0.7))
    elif kind == "correlated":
        noise = pc.GaussianNoise(rng.normal(size=(query.size, query.size + 2)))
    else:
        noise = pc.GaussianNoise(
            np.hstack([images[:, :3], rng.normal(size=(query.size, 1))])
        )
    mechanism = pc.Mechanism(query, noise)
    structured = pc.core.structured_equivalent(mechanism, adjacency)
    assert structured.guarantee(adjacency).gdp == pytest.approx(
        mechanism.guarantee(adjacency).gdp, rel=1e-9
    )
    assert oracles.is_below(structured.noise.covariance, noise.covariance)
    assert np.linalg.matrix_rank(structured.noise.covariance, tol=1e-9) <= 3


@pytest.mark.parametrize(
    "change, error, message",
    [
        ({"budget": pc.PrivacyBudget(epsilon=1.0)}, ValueError, "delta"),
        (
            {"weight": np.eye(2)},
            ValueError,
            r"weight: expected shape \(3, 3\), got \(2, 2\)",
        ),
        (
            {"weight": [1.0, 2.0, 3.0]},
            ValueError,
            r"got \(3,\); write np.diag\(weight\) for prices of entries",
        ),
        (
            {"weight": -np.eye(3)},
            ValueError,
            "weight: expected a positive semidefinite matrix",
        ),
        (
            {"weight": np.triu(np.ones((3, 3)))},
            ValueError,
            "weight: expected a symmetric matrix",
        ),
        ({"weight": np.zeros((3, 3))}, ValueError, "weight"),
        ({"releases": 0}, ValueError, "releases: expected an integer >= 1"),
        (
            {"adjacency": pc.DirectionAdjacency([[1.0]])},
            ValueError,
            "directions: expected 3 rows",
        ),
    ],
)
def test_bad_input_says_what_was_expected(change, error, message):
    call = {
        "adjacency": pc.DirectionAdjacency(np.eye(3)),
        "budget": cases.BUDGET,
    } | change
    with pytest.raises(error, match=message):
        pc.design_gaussian(pc.LinearQuery(np.eye(3)), **call)


DESIGNS = [pc.design_gaussian, pc.design_laplace, pc.design_iid]


@pytest.mark.parametrize("design", DESIGNS)
def test_arguments_of_another_kind_say_how_to_write_them(design):
    query, adjacency = pc.LinearQuery(np.eye(2)), pc.BallAdjacency(1.0)
    for given, message in [
        (
            (np.eye(2), adjacency, cases.BUDGET),
            r"query: .*got ndarray; write LinearQuery\(F, manifold\)",
        ),
        (
            (adjacency, query, cases.BUDGET),
            "query: expected a LinearQuery as first argument, got BallAdjacency",
        ),
        ((query, 1.0, cases.BUDGET), "adjacency: expected an .*got float"),
        (
            (query, cases.BUDGET, adjacency),
            "adjacency: expected an .*got PrivacyBudget",
        ),
        ((query, adjacency, 1.0), "budget: expected a PrivacyBudget.*got float"),
    ]:
        with pytest.raises(TypeError, match=message):
            design(*given)


@pytest.mark.parametrize("design", DESIGNS)
@pytest.mark.parametrize(
    "F, adjacency",
    [
        ([[1.0, 0.0]], pc.DirectionAdjacency([[0.0], [1.0]])),
        ([[0.0, 0.0]], pc.BallAdjacency(1.0)),
    ],
)
def test_a_query_that_hides_everything_needs_no_noise_and_says_so(design, F, adjacency):
    with pytest.raises(
        pc.PrivacyError,
        match="no noise is needed .* publish F x as it is, or check the query",
    ):
        design(pc.LinearQuery(F), adjacency, cases.BUDGET)


def test_a_query_of_one_entry_is_written_as_a_row():
    with pytest.raises(
        ValueError,
        match=r"F: expected shape \(m, n\), got \(3,\); write .* as \[\[...\]\]",
    ):
        pc.LinearQuery([1.0, 2.0, 3.0])


def test_a_design_releases_as_its_mechanism_does():
    query, adjacency, _ = cases.random_problem(3)
    design, x = (
        pc.design_gaussian(query, adjacency, cases.BUDGET),
        np.ones(query.manifold.size),
    )
    np.testing.assert_array_equal(
        design.release(x, size=4, rng=7), design.mechanism.release(x, size=4, rng=7)
    )


@pytest.mark.parametrize("seed", few(range(5), of=2))
def test_universal_bound_is_the_gaussian_bound_with_the_larger_shift(seed):
    query, adjacency, weight = cases.random_problem(seed, weighted=seed % 2 == 1)
    budget = pc.PrivacyBudget(gdp=ALLOWED)
    design = pc.design_gaussian(query, adjacency, budget, weight=weight)
    images = query.response @ adjacency.directions
    largest = np.sqrt(np.expm1(ALLOWED**2))
    bound = oracles.least_cost(images, largest, weight)
    assert design.universal_bound == pytest.approx(bound, rel=1e-6)
    assert design.universal_bound <= bound * (1 + 1e-7)
    assert design.cost / design.universal_bound == pytest.approx(1.156, abs=1e-3)


def test_no_unbiased_mechanism_beats_the_universal_bound():
    """Mixtures of two Gaussians and a Laplace law, each with its Renyi divergence by quadrature."""
    grid = np.linspace(-60, 60, 400_001)

    def normal(at, std):
        return np.exp(-0.5 * (at / std) ** 2) / (std * np.sqrt(2 * np.pi))

    laws = [
        lambda at: 0.5 * normal(at, 1.5) + 0.5 * normal(at, 2.5),
        lambda at: 0.5 * normal(at - 1, 2.0) + 0.5 * normal(at + 1, 2.0),
        lambda at: np.exp(-np.abs(at) / 2.0) / 4.0,
        lambda at: normal(at, 2.0),
    ]
    step = grid[1] - grid[0]
    query, move = pc.LinearQuery([[1.0]]), pc.DirectionAdjacency([[1.0]])
    design = pc.design_gaussian(query, move, pc.PrivacyBudget(gdp=ALLOWED))
    gdp = design.guarantee.gdp
    for law in laws:
        variance = np.sum(grid**2 * law(grid)) * step
        square = np.log(np.sum(law(grid - 1.0) ** 2 / law(grid)) * step)
        # the Gaussian design of this zCDP for a move of one costs 1 / square
        share = design.universal_bound / design.lower_bound
        assert share == pytest.approx(gdp**2 / np.expm1(gdp**2), rel=1e-9)
        assert variance >= 1 / np.expm1(square) * (1 - 1e-6)


@pytest.mark.parametrize("gdp", [1e-9, 1e-150, 26.0, 27.0, 200.0])
def test_the_universal_bound_of_tiny_and_huge_budgets_is_never_above_the_truth(gdp):
    query, move = pc.LinearQuery([[1.0]]), pc.DirectionAdjacency([[1.0]])
    design = pc.design_gaussian(query, move, pc.PrivacyBudget(gdp=gdp))
    with mpmath.workdps(50):
        square = mpmath.mpf(design.guarantee.gdp) ** 2
        least = design.unit_bound / mpmath.expm1(square)
        assert least * (1 - 1e-11) - 1e-300 <= design.universal_bound <= least


def test_universal_bound_is_unknown_where_nothing_is_certified():
    query, adjacency, _ = cases.random_problem(0)
    iid = pc.design_iid(query, adjacency, cases.BUDGET)
    laplace = pc.design_laplace(query, adjacency, pc.PrivacyBudget(epsilon=1.0))
    assert np.isnan(iid.universal_bound)
    assert 0 < laplace.universal_bound < laplace.cost
    huge = pc.PrivacyBudget(epsilon=5000.0, delta=0.4)
    assert pc.design_gaussian(query, adjacency, huge).universal_bound == 0.0
    tiny = pc.PrivacyBudget(epsilon=1e-12, delta=1e-12)
    design = pc.design_gaussian(query, adjacency, tiny)
    assert 0.5 < design.universal_bound / design.lower_bound < 1


@pytest.mark.parametrize(
    "mechanism, adjacency, error, message",
    [
        (None, pc.BallAdjacency(1.0), TypeError, "expected a Mechanism, got NoneType"),
        ("design", pc.BallAdjacency(1.0), TypeError, "design.mechanism"),
        ("mechanism", 1.0, TypeError, "adjacency: expected an Adjacency, got float"),
        (
            "blind",
            pc.DirectionAdjacency([[0.0], [1.0]]),
            pc.PrivacyError,
            "no noise is needed",
        ),
    ],
)
def test_structured_equivalent_says_what_it_expects(
    mechanism, adjacency, error, message
):
    query = pc.LinearQuery([[1.0, 0.0]])
    design = pc.design_gaussian(query, pc.BallAdjacency(1.0), cases.BUDGET)
    known = {"design": design, "mechanism": design.mechanism, "blind": design.mechanism}
    with pytest.raises(error, match=message):
        pc.core.structured_equivalent(known.get(mechanism), adjacency)


@pytest.mark.parametrize("seed", few(range(4), of=2))
def test_algorithm_1_of_the_short_paper_scales_a_basis(seed):
    """sigma = max ||basis^+ G z|| / y, for any basis's size, by a pseudo-inverse."""
    query, adjacency, weight = cases.random_problem(seed, weighted=seed % 2 == 1)
    budget = pc.PrivacyBudget(epsilon=1.0, delta=1e-2)
    best = pc.design_gaussian(query, adjacency, budget, weight=weight)
    responses = query.response @ adjacency.moves(query.manifold).columns
    basis = scipy.linalg.orth(query.response)
    sensitivity = np.linalg.norm(np.linalg.pinv(basis) @ responses, axis=0).max()
    sigma = sensitivity / pc.core.kappa_inverse(1.0, 1e-2)
    for size in (1.0, 1e-3, 1e3):
        paper = pc.design_gaussian(
            query, adjacency, budget, weight=weight, basis=size * basis
        )
        np.testing.assert_allclose(paper.noise.factor, sigma * basis, rtol=1e-6)
        assert paper.guarantee.satisfies(budget)
    assert paper.cost >= best.cost * (1 - 1e-9)
    assert paper.lower_bound == pytest.approx(best.lower_bound, rel=1e-9)


def test_a_basis_must_reach_every_move_and_stands_alone():
    query = pc.LinearQuery(np.eye(2), pc.AffineManifold([[1.0, -1.0]]))
    budget = pc.PrivacyBudget(epsilon=1.0, delta=1e-2)
    secret = pc.ManifoldAdjacency(1.0)
    with pytest.raises(pc.NotRealizableError):
        pc.design_gaussian(query, secret, budget, basis=[[1.0], [2.0]])
    with pytest.raises(ValueError, match="basis: expected shape"):
        pc.design_gaussian(query, secret, budget, basis=[[1.0]])
    with pytest.raises(ValueError, match="leave out constraints"):
        pc.design_gaussian(
            query, secret, budget, basis=[[1.0], [1.0]], constraints=lambda G: []
        )


@pytest.mark.parametrize("size, tol", [(20, 0.1), (40, 0.01)])
def test_directions_that_cost_nothing_do_not_add_up_at_a_loose_tolerance(size, tol):
    rng = np.random.default_rng(0)
    adjacency = pc.DirectionAdjacency(rng.standard_normal((size, 300)))
    first = np.diag(np.eye(size)[0])
    query = pc.LinearQuery(np.eye(size))
    design = pc.design_gaussian(query, adjacency, cases.BUDGET, weight=first, tol=tol)
    assert 0 <= design.gap <= tol


def test_no_bound_is_claimed_where_a_ball_stands_for_a_box():
    """Independent noise of variances f_i sum(f) hides the box for less than the ball."""
    budget = pc.PrivacyBudget(gdp=1.0)
    gains = 10.0 ** np.linspace(0, 2, 30)
    adjacency = pc.BallAdjacency(1.0, norm=np.inf)
    design = pc.design_gaussian(pc.LinearQuery(np.diag(gains)), adjacency, budget)
    variances = gains * gains.sum()
    assert np.sum(gains**2 / variances) <= 1 + 1e-12  # at each corner of the box
    assert variances.sum() < 0.5 * design.cost
    assert np.isnan(design.lower_bound)
    assert np.isnan(design.universal_bound)


@pytest.mark.parametrize("design", ["gaussian", "laplace", "iid"])
def test_noise_beyond_the_doubles_is_refused_with_advice(design):
    query = pc.LinearQuery([[1e130]])
    hidden = pc.DirectionAdjacency([[1.0]])
    budget = pc.PrivacyBudget(epsilon=1e-190, delta=1e-190)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(pc.core.UncertifiableError, match="relax the budget"):
            getattr(pc.core, f"design_{design}")(query, hidden, budget)


@pytest.mark.parametrize("releases", [1, 10**9])
def test_a_bound_of_a_cost_beyond_the_doubles_is_infinite(releases):
    """Sizes of 1e160 to 1e169, whose squares no double holds."""
    query = pc.LinearQuery([[1.0]])
    hidden = pc.DirectionAdjacency([[1.0]])
    budget = pc.PrivacyBudget(epsilon=1e-160)
    found = pc.core.design_laplace(query, hidden, budget, releases=releases)
    assert found.noise.factor.item() == pytest.approx(1e160 * releases)
    assert found.cost == math.inf
    assert found.guarantee.released(releases).satisfies(budget)


@pytest.mark.parametrize("design", ["gaussian", "laplace"])
def test_a_change_that_rounding_cancels_is_not_said_to_be_none(design):
    """1e16 times the double next to 1e-16 is one less 2e-17, by rationals."""
    hidden = pc.DirectionAdjacency([[1e-16], [-1.0]])
    budget = pc.PrivacyBudget(epsilon=1.0, delta=1e-2)
    assert Fraction(1e16) * Fraction(1e-16) != 1 == 1e16 * 1e-16
    make = getattr(pc.core, f"design_{design}")
    with pytest.raises(pc.core.UncertifiableError, match="cancel in the query"):
        make(pc.LinearQuery([[1e16, 1.0]]), hidden, budget)
    line = pc.AffineManifold.from_kernel([[1e-16], [-1.0]])
    with pytest.raises(pc.core.UncertifiableError, match="cancel in the query"):
        make(pc.LinearQuery([[1e16, 1.0]], line), pc.BallAdjacency(1.0), budget)
    public = pc.LinearQuery([[0.1, 0.2, 0.7]], pc.AffineManifold([[0.1, 0.2, 0.7]]))
    with pytest.raises(pc.core.PrivacyError, match="no noise is needed"):
        make(public, pc.ManifoldAdjacency(1.0), budget)
