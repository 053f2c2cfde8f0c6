"""Manifolds, queries, noise and mechanisms: what is released, what is promised, and what is refused."""

import pickle
from dataclasses import replace
from fractions import Fraction

import control as ct
import mpmath
import numpy as np
import oracles
import pytest
import scipy.linalg
import scipy.sparse
import scipy.sparse.linalg
from repeats import few

import privcontrol as pc

BUDGET = pc.PrivacyBudget(epsilon=1.0, delta=1e-2)
ONE = pc.Mechanism(pc.LinearQuery([[1.0]]), pc.GaussianNoise([2.0]))
FAMILIES = [pc.GaussianNoise, pc.LaplaceNoise]


def test_manifold_has_the_null_space_as_kernel():
    D = np.random.default_rng(0).normal(size=(3, 7))
    manifold = pc.AffineManifold(np.vstack([D, D[0]]), np.r_[1.0, 2, 3, 1])
    assert (manifold.size, manifold.dimension) == (7, 4)
    np.testing.assert_allclose(D @ manifold.kernel, 0, atol=1e-12)
    np.testing.assert_allclose(
        manifold.kernel.T @ manifold.kernel, np.eye(4), atol=1e-12
    )
    point = manifold.origin + manifold.kernel @ np.arange(4.0)
    assert manifold.contains(point)
    assert manifold.residual(point) < 1e-12
    assert not manifold.contains(point + D[0])


def test_sparse_and_dense_constraints_agree():
    D = scipy.sparse.diags_array([1.0, -1.0], offsets=[0, 1], shape=(4, 5))
    assert (
        pc.AffineManifold(D).dimension == pc.AffineManifold(D.toarray()).dimension == 1
    )


def test_kernel_is_kept_as_given():
    N = np.array([[1.0, 0], [2, 1], [0, 3]])
    np.testing.assert_array_equal(pc.AffineManifold.from_kernel(N).kernel, N)


@pytest.mark.parametrize(
    "make, message",
    [
        (
            lambda: pc.AffineManifold([[1.0, 0], [1, 0]], [0, 1]),
            "contradict each other",
        ),
        (lambda: pc.AffineManifold(np.eye(2)), "nothing is private"),
        (
            lambda: pc.AffineManifold([[1.0, 0, 0]], labels=["a", "b", "c"]),
            "determines a: these entries are public",
        ),
        (lambda: pc.AffineManifold([[1.0, np.nan]]), "D: expected finite numbers"),
        (
            lambda: pc.AffineManifold([[1.0, 1]], [1, 2]),
            r"b: expected shape \(1,\), got \(2,\)",
        ),
        (
            lambda: pc.AffineManifold([[1.0, 1]], labels=["a", "a"]),
            "labels: expected 2 different names",
        ),
        (
            lambda: pc.AffineManifold([[1.0, 1]], pinned="drop"),
            "pinned: expected one of 'raise', 'keep'",
        ),
        (lambda: pc.AffineManifold([[1j, 1]]), "expected real numbers"),
        (
            lambda: pc.AffineManifold.from_kernel([[1.0, 2], [1, 2]]),
            "expected independent columns",
        ),
        (
            lambda: pc.LinearQuery([[1.0, 2]], pc.AffineManifold([[1.0, 1, 1]])),
            "F: expected 3 columns",
        ),
        (lambda: pc.LinearQuery([[np.inf]]), "F: expected finite numbers"),
        (
            lambda: pc.LinearQuery([1.0, 2.0]),
            r"F: expected shape \(m, n\), got \(2,\); write .* as \[\[...\]\]",
        ),
        (
            lambda: pc.LinearQuery([[1.0, 2]], np.eye(2)),
            r"expected an AffineManifold such as AffineManifold",
        ),
        (
            lambda: pc.AffineManifold([1.0, 1.0]),
            r"D: expected shape \(q, n\), got \(2,\); write .* as \[\[...\]\]",
        ),
        (
            lambda: pc.Mechanism(np.eye(2), pc.GaussianNoise([1.0, 1])),
            r"expected a LinearQuery as first argument, got nd",
        ),
        (
            lambda: pc.Mechanism(pc.LinearQuery(np.eye(2)), [1.0, 1]),
            r"got list; write GaussianNoise\(factor\)",
        ),
        (
            lambda: ONE.guarantee(0.05),
            r"got float; a radius\? write ManifoldAdjacency\(radius\)",
        ),
        (
            lambda: ONE.guarantee(ONE.query),
            "got LinearQuery; such as ManifoldAdjacency.*mind the order",
        ),
        (
            lambda: pc.design_gaussian(pc.BallAdjacency(1.0), ONE.query, BUDGET),
            "as first argument, got BallAdjacency",
        ),
        (
            lambda: pc.design_laplace(np.eye(2), pc.BallAdjacency(1.0), BUDGET),
            r"got ndarray; write LinearQuery\(F, man",
        ),
        (
            lambda: pc.design_iid(ONE.query, {"x[0]": 1.0}, BUDGET),
            r"got dict; a radius\? write ManifoldAdjacency",
        ),
        (
            lambda: ONE.release([1.0], size=(4, 2)),
            "size: expected an integer, got tuple",
        ),
        (lambda: pc.GaussianNoise([[[1.0]]]), "factor: expected shape"),
        (lambda: pc.DirectionAdjacency([[0.0]]), "empty or zero column"),
        (
            lambda: pc.Mechanism(pc.LinearQuery(np.eye(2)), pc.GaussianNoise([1.0])),
            "noise: expected 2 entries",
        ),
    ],
)
def test_bad_input_says_what_was_expected(make, message):
    with pytest.raises((ValueError, TypeError), match=message):
        make()


def test_pinned_entries_can_be_kept():
    manifold = pc.AffineManifold([[1.0, 0, 0]], labels=["a", "b", "c"], pinned="keep")
    assert manifold.pinned == ("a",)
    assert manifold.dimension == 2


def test_directions_off_the_manifold_are_refused_by_column():
    query = pc.LinearQuery(np.eye(2), pc.AffineManifold([[1.0, 1.0]]))
    with pytest.raises(ValueError, match="column 1 is not a move along the manifold"):
        query.sensitivity(pc.DirectionAdjacency([[1.0, 1.0], [-1.0, 0.0]]))


@pytest.mark.parametrize("norm", [1, 2, np.inf])
def test_sensitivity_is_the_largest_norm_and_never_below(norm):
    rng = np.random.default_rng(1)
    F, moves = rng.normal(size=(4, 5)), rng.normal(size=(5, 30))
    truth = np.linalg.norm(F @ moves, ord=norm, axis=0).max()
    found = pc.LinearQuery(F).sensitivity(pc.DirectionAdjacency(moves), norm)
    assert truth <= found * (1 + 1e-15)
    assert found == pytest.approx(truth, rel=1e-12)


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize(
    "factor", [np.array([1.0, 2.0, 0.5]), np.random.default_rng(2).normal(size=(3, 2))]
)
def test_noise_has_its_covariance(family, factor):
    noise = family(factor)
    draws = noise.sample(200_000, rng=0)
    # standard error of a sample covariance entry is below 2.3 / sqrt(200000) of its scale for both laws
    scale = np.sqrt(np.outer(np.diag(noise.covariance), np.diag(noise.covariance)))
    error = np.abs(np.cov(draws.T) - noise.covariance) / scale
    assert error.max() < 5 * 2.3 / np.sqrt(200_000)
    wrong = (
        np.abs(np.cov(draws.T) - 0.81 * noise.covariance) / scale
    )  # noise 10 % off would be seen
    assert wrong.max() > 5 * 2.3 / np.sqrt(200_000)


def test_noise_is_reproducible_and_prefix_stable():
    noise = pc.GaussianNoise(np.array([1.0, 2.0]))
    np.testing.assert_array_equal(noise.sample(5, rng=3), noise.sample(9, rng=3)[:5])
    np.testing.assert_array_equal(noise.sample(rng=3), noise.sample(1, rng=3)[0])
    with pytest.raises(TypeError, match="legacy RandomState"):
        noise.sample(rng=np.random.RandomState(0))


@pytest.mark.parametrize("seed", few(range(30), of=5))
def test_guarantee_is_the_dense_shift(seed):
    rng = np.random.default_rng(seed)
    m, k = int(rng.integers(2, 8)), int(rng.integers(1, 5))
    query = pc.LinearQuery(rng.normal(size=(m, k)))
    noise = pc.GaussianNoise(
        rng.normal(size=(m, m + 1)) if seed % 2 else rng.uniform(0.5, 2, m)
    )
    adjacency = pc.DirectionAdjacency(rng.normal(size=(k, 10)))
    truth = oracles.shift(noise.covariance, query.response @ adjacency.directions)
    guarantee = pc.Mechanism(query, noise).guarantee(adjacency)
    assert guarantee.gdp == pytest.approx(truth, rel=1e-8)
    assert guarantee.exact


def test_scaling_the_noise_factor_scales_the_shift_only():
    query = pc.LinearQuery(np.random.default_rng(5).normal(size=(5, 3)))
    adjacency = pc.DirectionAdjacency(np.eye(3))
    factor = query.response @ np.diag([1.0, 2, 3])
    full = pc.Mechanism(query, pc.GaussianNoise(factor)).guarantee(adjacency).gdp
    for scale in (1e-3, 1e3):
        scaled = (
            pc.Mechanism(query, pc.GaussianNoise(scale * factor))
            .guarantee(adjacency)
            .gdp
        )
        assert scaled * scale == pytest.approx(full, rel=1e-10)


def test_a_bare_direction_is_named_and_never_ignored():
    labels = ["salary", "age"]
    query = pc.LinearQuery(
        np.eye(2), pc.AffineManifold.from_kernel(np.eye(2), labels=labels)
    )
    mechanism = pc.Mechanism(query, pc.GaussianNoise([[1.0], [0.0]]))
    assert mechanism.guarantee(
        pc.DirectionAdjacency([[1.0], [0.0]])
    ).gdp == pytest.approx(1.0)
    with pytest.raises(pc.NotRealizableError, match="moves age most") as caught:
        mechanism.guarantee(pc.DirectionAdjacency([[1.0, 1e-6], [0.0, 1e-3]]))
    np.testing.assert_allclose(caught.value.direction, [1e-6, 1e-3])
    with pytest.raises(pc.NotRealizableError):
        pc.Mechanism(query, pc.GaussianNoise([1.0, 0.0])).guarantee(
            pc.DirectionAdjacency([[0.0], [1.0]])
        )


def test_a_partial_adjacency_says_what_it_publishes():
    mechanism = pc.Mechanism(
        pc.LinearQuery(np.eye(2)), pc.GaussianNoise([[1.0], [0.0]])
    )
    text = mechanism.guarantee(pc.DirectionAdjacency([[1.0], [0.0]])).sentence
    assert "published exactly" in text


def test_guarantees_of_core_say_what_is_not_hidden_and_what_they_rest_on():
    """a + b and c + d are public: hiding a hides b, and nothing of c and d, which are published exactly."""
    manifold = pc.AffineManifold(
        [[1.0, 1, 0, 0], [0, 0, 1, 1]], [-1.0, -1.0], labels=list("abcd")
    )
    query = pc.LinearQuery(np.eye(4), manifold)
    design = pc.design_gaussian(query, pc.ManifoldAdjacency({"a": 0.05}), BUDGET)
    for part in (
        "a by at most 0.05",
        "assumes every release draws new noise",
        "does not hide anything outside the noise's column space, which is published exactly: c and d among it",
        "two such moves at once, moves of c or d that leave the protected entry in place",
    ):
        assert part in design.guarantee.sentence
    x = np.array([0.3, 0.7, 0.25, 0.75])
    released = design.mechanism.release(x, size=5, rng=0)
    np.testing.assert_array_equal(released[:, 2:], np.tile(x[2:], (5, 1)))
    assert (np.abs(released[:, :2] - x[:2]) > 1e-4).all()
    white = pc.design_iid(query, pc.ManifoldAdjacency({"a": 0.05}), BUDGET)
    assert "published exactly" not in white.guarantee.sentence


@pytest.mark.parametrize("seed", few(range(10), of=4))
def test_entries_named_as_published_exactly_are_those_that_releases_determine(seed):
    """The null space of what the noise never touches: an entry on which all its vectors vanish is determined."""
    rng = np.random.default_rng(seed)
    F = rng.permutation(np.eye(5))[
        :4
    ]  # four of five entries, of which one is shown together with another
    F[0] += F[seed % 4] if seed % 4 else 0.0
    factor = np.array([[1.0], *rng.integers(0, 2, (3, 1))])
    query = pc.LinearQuery(
        F, pc.AffineManifold.from_kernel(np.eye(5), labels=list("abcde"))
    )
    free = scipy.linalg.null_space(scipy.linalg.null_space(factor.T).T @ F)
    determined = [
        label for label, row in zip("abcde", free) if np.abs(row).max() < 1e-12
    ]
    move = np.linalg.lstsq(F, factor)[0].round(9)
    mechanism = pc.Mechanism(query, pc.GaussianNoise(factor))
    text = mechanism.guarantee(pc.DirectionAdjacency(move)).sentence
    named = (
        text.partition("published exactly")[2]
        .partition(" among it")[0]
        .removeprefix(": ")
        .rstrip(".")
    )
    assert [
        name for name in named.replace(" and ", ", ").split(", ") if name
    ] == determined


def nearly_flat(size, apart=3e-12):
    """A factor whose first two columns differ by so much, in whatever units."""
    factor = np.eye(size)
    factor[:2, :2] = [[1.0, 1.0], [1.0, 1.0 + apart]]
    return pc.GaussianNoise(factor)


def test_noise_that_double_precision_cannot_resolve_is_evaluated_exactly():
    mechanism = pc.Mechanism(pc.LinearQuery(np.eye(2)), nearly_flat(2))
    y = mechanism.guarantee(pc.DirectionAdjacency(np.eye(2))).gdp
    apart = (1.0 + 3e-12) - 1.0
    # the first move is (1 + apart, -1) / apart of the noise
    exact = np.hypot(1.0 + apart, 1.0) / apart
    assert exact * (1 - 1e-15) <= y <= exact * (1 + 1e-13)


def test_noise_beyond_double_precision_and_too_large_for_exact_arithmetic_is_refused():
    mechanism = pc.Mechanism(pc.LinearQuery(np.eye(120)), nearly_flat(120, 3e-13))
    with pytest.raises(pc.UncertifiableError, match="double precision"):
        mechanism.guarantee(pc.DirectionAdjacency(np.eye(120)))


def test_release_is_query_plus_noise_on_the_manifold_only():
    query = pc.LinearQuery(np.eye(2), pc.AffineManifold([[1.0, 1.0]], [-100.0]))
    mechanism = pc.Mechanism(query, pc.GaussianNoise([[1.0], [-1.0]]))
    for rng in (0, None):
        released = mechanism.release([40.0, 60.0], size=1000, rng=rng)
        np.testing.assert_allclose(released.sum(axis=1), 100.0)
        assert abs(released[:, 0].mean() - 40.0) < 5 / np.sqrt(1000)
        again = mechanism.release([40.0, 60.0], size=1000, rng=rng)
        assert (again == released).all() == (rng == 0)
    gamma = mechanism.noise.sample(10, np.random.default_rng(0))
    simulated = mechanism.release([40.0, 60.0], size=10, rng=0)
    np.testing.assert_allclose(simulated - [40.0, 60.0], gamma, atol=1e-6)
    for private, message in [
        ([41.12345, 60.0], "off the manifold"),
        ([41.12345], r"expected shape \(2,\), got \(1,\)"),
        ([41.12345, np.nan], "finite"),
    ]:
        with pytest.raises(ValueError, match=message) as caught:
            mechanism.release(private)
        assert "41.12" not in str(caught.value)


@pytest.mark.parametrize("seed", few(range(30), of=5))
def test_a_projected_point_is_the_nearest_on_the_manifold_whatever_the_units(seed):
    rng = np.random.default_rng(seed)
    n = int(rng.integers(2, 9))
    q = int(rng.integers(1, n))
    D = (
        rng.normal(size=(q, n))
        * 10.0 ** rng.uniform(-6, 6, (q, 1))
        * 10.0 ** rng.uniform(-2, 2, (1, n))
    )
    manifold = pc.AffineManifold(D, rng.normal(size=q) * 10.0 ** rng.uniform(-6, 6))
    x = rng.normal(size=n) * 10.0 ** rng.uniform(-6, 6)
    nearest = manifold.project(x)
    assert manifold.contains(nearest)
    distance = np.linalg.norm(x - nearest)
    for step in (
        rng.normal(size=(50, n - q)) * distance * 10.0 ** rng.uniform(-3, 1, (50, 1))
    ):
        assert np.linalg.norm(x - nearest - manifold.kernel @ step) > distance
    np.testing.assert_allclose(
        manifold.project(nearest), nearest, atol=1e-9 * np.abs(nearest).max()
    )


def test_projecting_moves_no_two_data_sets_apart_but_spreads_the_move_of_one_entry():
    manifold = pc.AffineManifold(np.ones((1, 4)), [-1.0])
    rng = np.random.default_rng(0)
    for _ in range(100):
        first, second = rng.normal(size=(2, 4))
        moved = manifold.project(first) - manifold.project(second)
        assert np.linalg.norm(moved) <= np.linalg.norm(first - second) * (1 + 1e-12)
    one = manifold.project([0.3, 0.2, 0.3, 0.2]) - manifold.project(
        [0.4, 0.2, 0.3, 0.2]
    )
    np.testing.assert_allclose(one, [-0.075, 0.025, 0.025, 0.025], atol=1e-15)


def test_rounded_data_are_refused_with_the_way_to_project_them():
    manifold = pc.AffineManifold(np.ones((1, 3)), [-1.0])
    mechanism = pc.Mechanism(
        pc.LinearQuery(np.eye(3), manifold), pc.GaussianNoise(np.ones(3))
    )
    for rounded in (
        [0.333, 0.333, 0.333],
        np.array([0.2, 0.3, 0.5], np.float32) * 1.001,
    ):
        with pytest.raises(
            ValueError, match=r"D x = c is b = -c.*x = manifold.project\(x\)"
        ):
            mechanism.release(rounded)
        assert mechanism.release(manifold.project(rounded)).shape == (3,)


@pytest.mark.parametrize("law", FAMILIES)
@pytest.mark.parametrize("factor", [[0.5, 3.0], [[1.0, 2.0], [0.0, 3.0]]])
def test_std_is_that_of_the_published_entries_and_unit_variance_that_of_one_draw(
    law, factor
):
    """200,000 draws: 6 standard errors of a standard deviation are below 3 %, and noise 10 % too small is off by more."""
    noise = law(factor)
    np.testing.assert_allclose(noise.std, np.sqrt(np.diag(noise.covariance)))
    drawn = noise.sample(200_000, rng=0).std(axis=0)
    assert (np.abs(drawn / noise.std - 1) < 0.03).all()
    assert (np.abs(0.9 * drawn / noise.std - 1) > 0.06).all()
    assert noise.unit_variance == (2.0 if law is pc.LaplaceNoise else 1.0)
    assert not hasattr(noise, "variance")


def test_mechanisms_and_designs_pickle_and_show_no_data():
    query = pc.LinearQuery(np.eye(2), pc.AffineManifold([[1.0, 1.0]], [-100.0]))
    design = pc.design_gaussian(
        query,
        pc.DirectionAdjacency([[1.0], [-1.0]]),
        pc.PrivacyBudget(epsilon=1, delta=1e-2),
    )
    again = pickle.loads(pickle.dumps(design))
    assert again.guarantee == design.guarantee
    np.testing.assert_array_equal(again.noise.factor, design.noise.factor)
    assert len(repr(design)) < 120


def true_shift(factor, padding, image):
    """sqrt(s^T Gamma^-1 s) of the padded noise, in sixty digits."""
    with mpmath.workdps(60):
        root = mpmath.matrix(np.asarray(factor).tolist())
        covariance = root * root.T
        for i, size in enumerate(padding):
            covariance[i, i] += mpmath.mpf(float(size)) ** 2
        column = mpmath.matrix(np.asarray(image).tolist())
        return mpmath.sqrt((column.T * mpmath.inverse(covariance) * column)[0])


@pytest.mark.parametrize("deviation", [0.0, 1e-16, 1e-15, 1e-13, 1e-12])
def test_a_move_off_the_column_space_by_rounding_is_paid_for(deviation):
    """The padding hides what the factor does not, and its share is in the guarantee."""
    factor = np.array([[1.0], [1.0]]) / np.sqrt(2)
    move = factor + deviation * np.array([[1.0], [-1.0]]) / np.sqrt(2)
    mechanism = pc.Mechanism(pc.LinearQuery(np.eye(2)), pc.GaussianNoise(factor))
    claimed = mechanism.guarantee(pc.DirectionAdjacency(move)).gdp
    true = true_shift(factor, mechanism.padding, move[:, 0])
    assert true <= claimed <= float(true) * (1 + 1e-9)


def test_moves_known_too_coarsely_for_the_padding_are_not_certified():
    """Within its errors the move may leave the factor, and the padding hides little."""
    query = pc.LinearQuery(np.eye(2))
    mechanism = pc.Mechanism(query, pc.GaussianNoise([[1.0], [1.0]]))
    moves = pc.DirectionAdjacency([[1.0], [1.0]]).moves(query.manifold)
    moves = replace(moves, errors=np.full((2, 1), 1e-3))
    with pytest.raises(pc.UncertifiableError, match="cannot decide whether"):
        mechanism.shifts(moves)
    shifts, _ = mechanism.shifts(moves, certified=False)
    assert 1e-3 / mechanism.padding[0] < shifts[0, 0] < 2e-3 / mechanism.padding[0]


def test_a_move_off_the_column_space_by_more_than_rounding_is_uncovered():
    """Without padding y_0 - y_1 would tell it with certainty; the padding alone hides it badly."""
    factor = np.array([[1.0], [1.0]]) / np.sqrt(2)
    move = factor + 1e-10 * np.array([[1.0], [-1.0]]) / np.sqrt(2)
    mechanism = pc.Mechanism(pc.LinearQuery(np.eye(2)), pc.GaussianNoise(factor))
    with pytest.raises(
        pc.NotRealizableError, match="does not cover a protected direction"
    ):
        mechanism.guarantee(pc.DirectionAdjacency(move))
    for family in (pc.GaussianNoise, pc.LaplaceNoise):
        with pytest.raises(pc.NotRealizableError):
            pc.Mechanism(pc.LinearQuery(np.eye(2)), family([[1.0], [0.0]])).guarantee(
                pc.DirectionAdjacency([[1.0], [1e-300]])
            )


@pytest.mark.parametrize("family", [pc.GaussianNoise, pc.LaplaceNoise])
def test_releases_are_padded_in_every_noisy_entry(family):
    """10^5 releases: what the factor leaves alone has the padding's standard deviation."""
    factor = np.array([[1.0], [2.0], [0.0]])
    mechanism = pc.Mechanism(pc.LinearQuery(np.eye(3)), family(factor))
    released = mechanism.release(np.zeros(3), size=100_000, rng=1)
    assert not released[:, 2].any()
    off = 2 * released[:, 0] - released[:, 1]
    size = np.hypot(2 * mechanism.padding[0], mechanism.padding[1])
    size *= np.sqrt(family.unit_variance)
    assert np.std(off) == pytest.approx(size, rel=0.02)
    assert pc.Mechanism(pc.LinearQuery(np.eye(2)), family(np.eye(2))).padding is None
    assert pc.Mechanism(pc.LinearQuery(np.eye(2)), family([1.0, 2.0])).padding is None


@pytest.mark.parametrize("seed", few(range(6), of=2))
def test_designed_noise_hides_every_move_in_exact_arithmetic(seed):
    """Factors of fewer columns than rows: the doubles as returned, in sixty digits."""
    rng = np.random.default_rng(seed)
    F = rng.standard_normal((5, 4))
    moves = rng.standard_normal((4, 2)) * 10.0 ** rng.integers(-4, 4, 2)
    moves = np.hstack([moves, moves @ rng.standard_normal((2, 3))])
    adjacency = pc.DirectionAdjacency(moves)
    design = pc.design_gaussian(pc.LinearQuery(F), adjacency, BUDGET)
    assert design.noise.factor.shape == (5, 2)
    with mpmath.workdps(60):
        images = mpmath.matrix(F.tolist()) * mpmath.matrix(moves.tolist())
        worst = max(
            true_shift(
                design.noise.factor, design.mechanism.padding, list(images[:, j])
            )
            for j in range(moves.shape[1])
        )
        assert worst <= design.guarantee.gdp <= worst * (1 + mpmath.mpf(10) ** -9)


def test_a_query_knows_what_its_guarantees_take_for_granted():
    """The clauses travel with the query, whoever asks for the guarantee."""
    lag = ct.ss(0.5, 1, 1, 0, 1, states=["level"])
    adjacency = pc.StateAdjacency(1.0)
    noise = pc.design_output_noise(lag, horizon=3, budget=BUDGET, adjacency=adjacency)
    again = noise.design.mechanism.guarantee(adjacency)
    assert set(noise.guarantee.scope.assumptions) <= set(again.scope.assumptions)
    assert again.gdp == pytest.approx(noise.guarantee.gdp, rel=1e-12)


def test_what_a_move_leaves_to_laplace_padding_adds_to_epsilon():
    """The least 1-norm of a solution of [factor, padding] u = s is the pure epsilon."""
    factor = np.array([[1.0], [2.0]])
    move = factor + 1e-10 * np.array([[2.0], [-1.0]])
    mechanism = pc.Mechanism(pc.LinearQuery(np.eye(2)), pc.LaplaceNoise(factor))
    claimed = mechanism.guarantee(pc.DirectionAdjacency(move)).epsilon(0.0)
    # the sum is piecewise linear in u, and least at one of its corners
    pairs = [
        (Fraction(s), Fraction(f), Fraction(p))
        for s, f, p in zip(move[:, 0], factor[:, 0], mechanism.padding, strict=True)
    ]
    least = min(
        u + sum(abs(s - f * u) / p for s, f, p in pairs)
        for u in (s / f for s, f, _ in pairs)
    )
    assert least <= Fraction(claimed) <= least * (1 + Fraction(1, 10**9))
    assert claimed > 1 + 2e-4


def test_independent_noise_must_reach_every_entry_that_responds():
    query = pc.LinearQuery(np.eye(2))
    mechanism = pc.Mechanism(query, pc.GaussianNoise([1.0, 0.0]))
    covered = mechanism.guarantee(pc.DirectionAdjacency([[1.0], [0.0]]))
    assert covered.gdp == pytest.approx(1.0, rel=1e-12)
    for tiny in (1e-300, 1e-12):
        with pytest.raises(pc.NotRealizableError):
            mechanism.guarantee(pc.DirectionAdjacency([[1.0], [tiny]]))


@pytest.mark.usefixtures("repeated_bits")
def test_an_exact_release_is_padded_too():
    """Numbers off the column space are there, of the padding's size, and not of zero."""
    factor = np.array([[1.0], [2.0]])
    mechanism = pc.Mechanism(pc.LinearQuery(np.eye(2)), pc.GaussianNoise(factor))
    released = mechanism.release([0.0, 0.0], size=40)
    off = 2 * released[:, 0] - released[:, 1]
    size = np.hypot(2 * mechanism.padding[0], mechanism.padding[1])
    assert 0.5 < np.std(off) / size < 2


def test_laplace_noise_pays_for_the_1_norm_of_every_move_in_a_ball():
    """By 10,000 moves of the ball, the diagonal among them; the 2-norm would say 1."""
    mechanism = pc.Mechanism(pc.LinearQuery(np.eye(2)), pc.LaplaceNoise([1.0, 0.5]))
    epsilon = mechanism.guarantee(pc.BallAdjacency(1.0)).epsilon(0.0)
    angles = np.linspace(0, 2 * np.pi, 10_000)
    shifts = np.abs(np.cos(angles)) + np.abs(np.sin(angles)) / 0.5
    assert shifts.max() <= epsilon <= shifts.max() * 1.3


@pytest.mark.parametrize("noise", [pc.GaussianNoise, pc.LaplaceNoise])
def test_what_no_hidden_move_changes_needs_no_noise(noise):
    """The public sum x + y = 0 as an entry: rounding bounds of zero are no response."""
    manifold = pc.AffineManifold([[1.0, 1.0]])
    query = pc.LinearQuery([[1.0, 1.0], [1.0, 0.0]], manifold)
    mechanism = pc.Mechanism(query, noise([0.0, 2.0]))
    alone = pc.Mechanism(pc.LinearQuery([[1.0, 0.0]], manifold), noise([2.0]))
    for hidden in (pc.ManifoldAdjacency(1.0), pc.DirectionAdjacency([[1.0], [-1.0]])):
        expected = alone.guarantee(hidden)
        assert mechanism.guarantee(hidden).gdp == pytest.approx(expected.gdp, rel=1e-14)
    # the kernel of a ball is rounded: nobody can tell, and no error says that it is bare
    with pytest.raises(pc.core.UncertifiableError):
        mechanism.guarantee(pc.BallAdjacency(1.0))
    told = pc.LinearQuery([[1.0, 1.0 + 2e-16], [1.0, 0.0]], manifold)
    with pytest.raises(pc.NotRealizableError, match="does not cover"):
        pc.Mechanism(told, noise([0.0, 2.0])).guarantee(pc.ManifoldAdjacency(1.0))


def test_what_cancels_in_the_query_is_in_the_guarantee_or_refused():
    """3e29/3 - 1e29 is zero in doubles and 3e11 in rationals; nobody says that it is zero."""
    F = np.array([[3e29, 1e29]])
    hidden = pc.DirectionAdjacency([[1 / 3], [-1.0]])
    exact = abs(Fraction(3e29) * Fraction(1 / 3) - Fraction(1e29))
    assert (F @ hidden.directions).item() == 0
    assert exact > 3e11
    for matrix in (F, scipy.sparse.csr_array(F)):
        mechanism = pc.Mechanism(pc.LinearQuery(matrix), pc.GaussianNoise([1.0]))
        assert exact <= mechanism.guarantee(hidden).gdp <= exact * (1 + Fraction(1e-12))
    # nobody knows in which order an operator sums
    operator = scipy.sparse.linalg.aslinearoperator(F)
    mechanism = pc.Mechanism(pc.LinearQuery(operator), pc.GaussianNoise([1.0]))
    assert mechanism.query.sensitivity(hidden) >= exact
    with pytest.raises(pc.core.UncertifiableError):
        mechanism.guarantee(hidden)
