"""The errata of the two papers, as docs/papers_and_errata.md states them; tests/test_papers.py has what they print.

Truth is computed here from the definitions, without the package, wherever that is possible.
"""

import itertools
import math
import random
from pathlib import Path

import mpmath
import numpy as np
import pytest
import scipy.optimize
import scipy.stats
from oracles import kappa

import privcontrol as pc
from privcontrol.consensus import optimal_consensus_epsilon, private_consensus
from privcontrol.core import InputPerturbation, OutputPerturbation

BUDGET = pc.PrivacyBudget(epsilon=1.0, delta=1e-2)
PRINTED_SIGMAS = {1.0: 2.5244, 0.1: 23.4765, 0.01: 232.8495}


def exact_sigma(epsilon, delta):
    """1 / kappa_epsilon^{-1}(delta), by bisection."""
    return 1 / scipy.optimize.brentq(
        lambda y: kappa(epsilon, y) - delta, 1e-6, 50, xtol=1e-14
    )


@pytest.mark.parametrize("epsilon", PRINTED_SIGMAS)
def test_e1_printed_sigmas_are_the_sufficient_bound_not_eq_7(epsilon):
    K = scipy.stats.norm.ppf(0.99)
    bound = (K + math.sqrt(K**2 + 2 * epsilon)) / (2 * epsilon)
    assert bound == pytest.approx(PRINTED_SIGMAS[epsilon], abs=5e-5)
    assert pc.core.gaussian_std(epsilon, 0.01, method="lenypappas") == pytest.approx(
        bound, rel=1e-12
    )
    assert pc.core.gaussian_std(epsilon, 0.01) == pytest.approx(
        exact_sigma(epsilon, 0.01), rel=1e-10
    )


def test_e1_exact_sigmas():
    exact = [pc.core.gaussian_std(epsilon, 0.01) for epsilon in PRINTED_SIGMAS]
    np.testing.assert_allclose(exact, [1.87788, 9.54182, 27.70088], atol=5e-6)


@pytest.mark.parametrize("c, safe", [(0.5, False), (1.0, True), (2.0, True)])
def test_e2_transpose_in_place_of_pseudo_inverse_is_unsafe_below_one(c, safe):
    y = pc.core.kappa_inverse(1.0, 0.01)
    N = c * 1.0  # eq. (13) as printed: Lambda-bar^T F
    factor = c * math.sqrt(N**2) / y  # Lambda-bar sqrt(Sigma)
    assert (kappa(1.0, 1 / factor) <= 0.01 * (1 + 1e-9)) == safe
    guarantee = pc.Mechanism(
        pc.LinearQuery([[1.0]]), pc.GaussianNoise([factor])
    ).guarantee(pc.DirectionAdjacency([[1.0]]))
    assert guarantee.delta(1.0) == pytest.approx(kappa(1.0, 1 / factor), rel=1e-9)


@pytest.mark.parametrize("horizon", [2, 10, 40])
def test_e3_theorem_3_leaves_the_chart_of_two_positions_out_by_one_over_the_sampling_time(
    horizon,
):
    vehicle, blocks = pc.plants.vehicle(), pc.StateAdjacency(1.0)
    design = pc.design_output_noise(
        vehicle, horizon=horizon, budget=BUDGET, adjacency=blocks
    ).design
    labels = design.mechanism.query.manifold.labels
    chart = [labels.index("position(0)"), labels.index("position(1)")]
    outside = design.mechanism.guarantee(pc.ManifoldAdjacency(1.0, charts=[chart]))
    Sigma = design.tangent_factor @ design.tangent_factor.T
    moves = np.array(
        [[1.0, -10.0], [0.0, 10.0]]
    ).T  # z that moves p(0), or p(1), by 1 and holds the other
    by_hand = math.sqrt(
        max(np.einsum("ij,ij->j", moves, np.linalg.solve(Sigma, moves)))
    )
    assert outside.gdp == pytest.approx(by_hand, rel=1e-9)
    assert outside.gdp / design.guarantee.gdp == pytest.approx(10.0, rel=1e-6)


def test_e3_appendix_c_drops_a_minus_sign():
    A, T, j = (
        np.array([[1, 0.1], [0, 1]]),
        4,
        2,
    )  # the chart of the state at the second sample
    D = np.kron(np.eye(T - 1, T), A) - np.kron(np.eye(T - 1, T, 1), np.eye(2))
    free = [2 * (j - 1), 2 * (j - 1) + 1]
    held = [i for i in range(2 * T) if i not in free]
    blocks = [
        np.linalg.matrix_power(np.linalg.inv(A), j - 1),
        *(np.linalg.matrix_power(A, i) for i in range(1, T - j + 1)),
    ]
    np.testing.assert_allclose(
        np.linalg.solve(D[:, held], D[:, free]), -np.vstack(blocks), atol=1e-12
    )


def test_e4_the_ten_values_average_15():
    assert pc.plants.ten_agent_values().tolist() == [
        10,
        100,
        20,
        -30,
        -20,
        -60,
        70,
        0,
        80,
        -20,
    ]
    assert pc.plants.ten_agent_values().mean() == 15


def test_e5_unit_standard_deviation_is_root_2_too_little_laplace_noise():
    query, adjacency = pc.LinearQuery([[1.0]]), pc.DirectionAdjacency([[1.0]])
    code = pc.LaplaceNoise([1 / math.sqrt(2)])
    assert code.covariance.item() == pytest.approx(1.0)
    assert pc.Mechanism(query, code).guarantee(adjacency).epsilon(0.0) == pytest.approx(
        math.sqrt(2), rel=1e-12
    )


def test_e6_linear_indexing_sets_the_start_of_one_run_only():
    x = np.zeros((2, 101, 100), order="F")
    x.reshape(2, -1, order="F")[:, 0] = [-20, 0]
    assert (x[0, 0] == -20).sum() == 1


def classical(epsilon, delta):
    return math.sqrt(2 * math.log(1.25 / delta)) / epsilon


def test_e6_the_reference_of_figure_2_is_no_motion():
    """Neither per second nor per sample is v_r the change of p_r = tanh(t)."""
    t = np.arange(20)
    position, velocity = np.tanh(t), 1 - np.abs(np.tanh(t - 9))
    for unit in (1.0, 0.1):
        assert np.abs(np.diff(position) / unit - velocity[:-1]).max() > 0.7


def test_e22_one_radius_in_two_norms_is_two_secrets():
    M = np.eye(4) + 0.1
    move = np.full(4, 0.05)  # 0.1 in the 2-norm, 0.2 in the 1-norm
    private = pc.OutputPerturbation(
        lambda x: x @ M.T, pc.PrivacyBudget(epsilon=1.0), radius=0.1, norm=1,
        lipschitz=pc.core.induced_norm(M, 1, 1), family="laplace",
    )  # fmt: skip
    epsilon = np.abs(M @ move).sum() / private.scale
    assert epsilon == pytest.approx(2.0, rel=1e-9)


@pytest.mark.parametrize("delta, limit", [(1e-2, 6.772), (1e-5, 8.420)])
def test_e7_classical_rule_is_unsafe_above_a_limit(delta, limit):
    assert (
        kappa(limit - 2e-3, 1 / classical(limit - 2e-3, delta))
        < delta
        < kappa(limit + 2e-3, 1 / classical(limit + 2e-3, delta))
    )
    assert pc.core.gaussian_std(
        limit - 2e-3, delta, method="classical"
    ) == pytest.approx(classical(limit - 2e-3, delta))
    with pytest.raises(pc.PrivacyError, match="true delta"):
        pc.core.gaussian_std(limit + 2e-3, delta, method="classical")


@pytest.mark.parametrize("epsilon, excess", [(1.0, 0.30), (0.25, 0.46), (0.1, 0.58)])
def test_e7_classical_rule_is_wasteful_below_one(epsilon, excess):
    assert classical(epsilon, 1e-5) / exact_sigma(epsilon, 1e-5) - 1 == pytest.approx(
        excess, abs=0.005
    )
    assert pc.core.gaussian_std(epsilon, 1e-5) == pytest.approx(
        exact_sigma(epsilon, 1e-5), rel=1e-9
    )


def test_e7_at_epsilon_10_the_true_delta_is_2_point_3_times_the_claim():
    assert kappa(10.0, 1 / classical(10.0, 1e-5)) == pytest.approx(2.27e-5, rel=0.005)


def test_e8_the_l2_gain_can_exceed_the_l1_gain():
    M = np.array([[1.0, 1], [0, 0]])
    assert float(pc.core.induced_norm(M, 1, 1)) == np.abs(M).sum(axis=0).max() == 1
    assert float(pc.core.induced_norm(M, 2, 2)) == pytest.approx(
        np.linalg.svd(M)[1][0], rel=1e-12
    )
    assert np.linalg.svd(M)[1][0] == pytest.approx(math.sqrt(2))


def test_e8_less_sensitive_models_and_larger_epsilon_need_less_noise():
    def scale(epsilon, lipschitz):
        budget = pc.PrivacyBudget(epsilon=epsilon, delta=1e-5)
        return OutputPerturbation(
            np.tanh, budget, radius=0.1, lipschitz=lipschitz
        ).scale

    assert scale(1.0, 1.0) < scale(1.0, 2.0)
    assert scale(5.0, 1.0) < scale(1.0, 1.0) < scale(0.25, 1.0)


def test_e9_a_row_sum_of_one_converges_on_the_ten_agents_and_not_on_a_ring_of_four():
    ten = private_consensus(pc.plants.ten_agent_graph(), BUDGET, radius=1.0)
    weights = np.diag(np.diag(ten.laplacian.toarray())) - ten.laplacian.toarray()
    eigenvalues = np.linalg.eigvalsh(np.diag(weights.sum(axis=1)) - weights)
    assert weights.sum(axis=1).max() == 1
    assert max(abs(1 - eigenvalues[1]), abs(1 - eigenvalues[-1])) == pytest.approx(
        0.8256939, abs=5e-8
    )
    assert ten.rate == pytest.approx(0.8256939, abs=5e-8)
    ring = (np.roll(np.eye(4), 1, axis=0) + np.roll(np.eye(4), -1, axis=0)) / 2
    with pytest.raises(ValueError, match="does not converge"):
        private_consensus(ring, BUDGET, radius=1.0)


def test_e9_with_the_printed_sign_of_the_laplacian_the_agents_drift_apart():
    L = private_consensus(
        pc.plants.ten_agent_graph(), BUDGET, radius=1.0
    ).laplacian.toarray()
    assert np.abs(np.linalg.eigvalsh(np.eye(10) + L)).max() > 2
    assert np.abs(np.linalg.eigvalsh(np.eye(10) - L)).max() == pytest.approx(1)


def test_e10_sizes():
    query = pc.output_query(pc.plants.vehicle(), 5)
    assert (query.manifold.size, query.response.shape) == (10, (5, 2))
    D = np.random.default_rng(0).standard_normal((4, 8))
    charts = sum(
        abs(np.linalg.det(D[:, minor])) > 1e-9
        for minor in itertools.combinations(range(8), 4)
    )
    assert 4 * charts == 4 * math.comb(8, 4) == 280 > 8**2


def test_e11_parallel_composition_fails_on_a_manifold_that_couples_the_chunks():
    """Example 1 with k = 1: the two chunks are one number, so their privacy losses add."""
    coupled = pc.AffineManifold([[1.0, -1.0]])

    def guarantee(F, scales):
        return pc.Mechanism(
            pc.LinearQuery(F, coupled), pc.LaplaceNoise(scales)
        ).guarantee(pc.ManifoldAdjacency(1.0))

    chunks = [guarantee([[1, 0]], [2.0]), guarantee([[0, 1]], [2.0])]
    assert [chunk.epsilon(0.0) for chunk in chunks] == pytest.approx([0.5, 0.5])
    assert guarantee(np.eye(2), [2.0, 2.0]).epsilon(0.0) == pytest.approx(1.0)
    with pytest.raises(ValueError, match="chunks that move freely"):
        pc.core.compose_parallel(*chunks)


@pytest.mark.parametrize("family, variance", [("gaussian", 1), ("laplace", 2)])
def test_e12_limit_of_proposition_1(family, variance):
    """The limit of states is (1 - 1/n) of the bound, that of the messages 1/n of it, by the matrices' powers."""
    paper = private_consensus(
        pc.plants.ten_agent_graph(), BUDGET, radius=1.0, family=family
    )
    step, sigma = np.eye(10) - paper.laplacian.toarray(), paper.scales[0]
    far = np.linalg.matrix_power(step, 500)
    states = variance * sigma**2 * np.linalg.norm(np.eye(10) - far) ** 2
    messages = variance * sigma**2 * np.linalg.norm(far) ** 2
    bound = variance * 10 * sigma**2
    assert states == pytest.approx(0.9 * bound)
    assert messages == pytest.approx(0.1 * bound)
    assert paper.noise.variance.sum() == pytest.approx(bound)
    assert paper.limit_mean_square_error(readout="state") == pytest.approx(states)
    assert paper.limit_mean_square_error(readout="message") == pytest.approx(messages)


def test_e12_optimal_epsilon():
    zeta = 20.0
    least = {
        r: optimal_consensus_epsilon(zeta, 10, 1.0, family="laplace", readout=r)
        for r in ("state", "message")
    }
    assert least["state"] == pytest.approx(math.sqrt(2 * 9 / zeta))
    assert math.sqrt(2 * 10 / zeta) > least["state"]
    assert least["message"] == pytest.approx(math.sqrt(2 / zeta))


def test_e13_chaining_at_epsilon_0_is_c_delta():
    foreign = pc.PrivacyGuarantee.black_box(
        pc.PrivacyBudget(epsilon=0.0, delta=1e-5), pc.BallAdjacency(0.1)
    )
    limit = float(mpmath.limit(lambda e: mpmath.expm1(3 * e) / mpmath.expm1(e), 0))
    assert limit == pytest.approx(3)
    assert pc.core.chain(foreign, 0.3).delta(0.0) == pytest.approx(limit * 1e-5)


def test_e15_correlated_laplace_noise_on_a_line():
    k = 0.25
    query = pc.LinearQuery(np.eye(2), pc.AffineManifold([[1.0, -k]]))
    for size, truth in ((1.0, 4.0), (4.0, 1.0)):
        noise = pc.LaplaceNoise(size * np.array([[k], [1.0]]))
        guarantee = pc.Mechanism(query, noise).guarantee(pc.ManifoldAdjacency(1.0))
        moves = np.array([[1.0, 1 / k], [k, 1.0]])  # x1 moves by 1, x2 moves by 1
        by_hand = max(abs(moves[:, 1])) / size  # eta is the noise of x2 over its size
        assert by_hand == truth
        assert guarantee.epsilon(0.0) == pytest.approx(truth, rel=1e-12)


def test_e17_figure_7_draws_half_of_the_bound_for_laplace_noise():
    made = private_consensus(
        pc.plants.ten_agent_graph(),
        pc.PrivacyBudget(epsilon=1.0),
        radius=1.0,
        family="laplace",
    )
    sigma = made.scales[0]
    assert made.noise.variance.sum() == pytest.approx(2 * 10 * sigma**2, rel=1e-12)


def step_of_ten_agents():
    """I - L of the ten agents, by the edges of the published code."""
    network = private_consensus(pc.plants.ten_agent_graph(), BUDGET, radius=1.0)
    return np.eye(10) - network.laplacian.toarray()


@pytest.mark.parametrize("family, sizes", [
    ("gaussian", (2.5244, 23.4765, 232.8495)),
    ("laplace", (1 / math.sqrt(2), 10 / math.sqrt(2), 100 / math.sqrt(2))),
])  # fmt: skip
def test_e18_figures_6_and_7_add_up_the_budgets(family, sizes):
    """The published recursion, whose sums no budget resets, beside their expectation."""
    rng, step = np.random.default_rng(0), step_of_ten_agents()
    values, runs = pc.plants.ten_agent_values().astype(float), 500
    x_mse, expected = np.zeros(31), np.zeros(31)
    for size, bound in zip(sizes, (64, 5512, 542190), strict=True):
        draw = rng.standard_normal if family == "gaussian" else rng.laplace
        noise = size * draw(size=(runs, 10))
        x, single = np.tile(values, (runs, 1)), np.zeros((runs, 31))
        for t in range(31):
            single[:, t] = ((x - 15) ** 2).sum(axis=1)
            x = x - (x + noise) @ (np.eye(10) - step)
        x_mse += single.mean(axis=0)
        std = size * (1 if family == "gaussian" else math.sqrt(2))
        network = private_consensus(
            pc.plants.ten_agent_graph(), pc.PrivacyBudget(gdp=1 / std), radius=1.0
        )
        exact = network.mean_square_error(values, 30, readout="state")
        expected += exact
        error = single[:, -1].std() / math.sqrt(runs)
        assert abs(x_mse[-1] - expected[-1]) < 5 * error
        assert x_mse[0] == pytest.approx(expected[0])
        assert exact[0] == pytest.approx(24850)
        if family == "gaussian":
            assert expected[-1] < bound  # which the curves stay below all the same
    assert x_mse[0] == 74550
    # two standard errors and more lie between the sum and the last budget's own start
    assert expected[-1] / exact[-1] == pytest.approx(1.0102, abs=2e-4)


@pytest.mark.parametrize(
    "norm, epsilon", [(1.0, 0.75), (1.5, 1.17), (2.0, 1.61), (math.sqrt(10), 2.69)]
)
def test_e19_rows_of_norm_1_are_no_matrix_of_norm_1(norm, epsilon):
    """The true epsilon of IP's noise for (1, 1e-5), by bisection on eq. (7)."""
    shift = norm / classical(1.0, 1e-5)
    true = scipy.optimize.brentq(lambda e: kappa(e, shift) - 1e-5, 1e-3, 20)
    assert true == pytest.approx(epsilon, abs=0.005)
    mechanism = pc.Mechanism(pc.LinearQuery([[1.0]]), pc.GaussianNoise([1 / shift]))
    promised = mechanism.guarantee(pc.DirectionAdjacency([[1.0]]))
    assert promised.epsilon(1e-5) == pytest.approx(true, rel=1e-8)


def test_e19_the_norm_of_ten_rows_of_norm_1_is_between_1_and_the_root_of_10():
    alike = np.ones((10, 5)) / math.sqrt(5)
    assert np.linalg.norm(alike, 2) == pytest.approx(math.sqrt(10))
    assert np.linalg.norm(np.eye(10), 2) == 1
    for seed in range(20):
        rows = np.random.default_rng(seed).standard_normal((10, 30))
        rows /= np.linalg.norm(rows, axis=1, keepdims=True)
        assert 1 < np.linalg.norm(rows, 2) < math.sqrt(10)


def test_e20_the_best_of_66_seems_better_than_each():
    """The expected maximum of 66 binomial shares, by their distribution function."""
    count = np.arange(10_001)
    below = scipy.stats.binom.cdf(count, 10_000, 0.67) ** 66
    expected = (1 - below[:-1]).sum() / 100
    assert expected == pytest.approx(68.1, abs=0.05)
    drawn = np.random.default_rng(0).binomial(10_000, 0.67, size=(2000, 66))
    assert drawn.max(axis=1).mean() / 100 == pytest.approx(expected, abs=0.02)


def test_e20_one_radius_in_two_units():
    """Noise for alpha after a division by 0.2 hides 0.2 alpha in pixels."""
    shift = 1 / (0.2 * classical(1.0, 1e-5))
    true = scipy.optimize.brentq(lambda e: kappa(e, shift) - 1e-5, 1e-3, 20)
    assert true == pytest.approx(4.54, abs=0.005)


def test_e20_python_s_seed_reaches_no_other_generator():
    own = np.random.default_rng(5)
    drawn = []
    for _ in range(2):
        random.seed(0)
        drawn.append((random.random(), own.standard_normal()))
    assert drawn[0][0] == drawn[1][0]
    assert drawn[0][1] != drawn[1][1]


def test_e21_two_inputs_of_a_ball_are_two_radii_apart():
    private = InputPerturbation(
        np.tanh, pc.PrivacyBudget(epsilon=1.0, delta=1e-5), radius=0.1
    )
    assert kappa(1.0, 0.1 / private.scale) == pytest.approx(1e-5, rel=1e-7)
    true = scipy.optimize.brentq(
        lambda e: kappa(e, 0.2 / private.scale) - 1e-5, 1e-3, 20
    )
    assert true == pytest.approx(2.155, abs=0.001)
    chained = pc.core.chain(private.guarantee, 0.2)
    assert chained.epsilon(1e-5) == pytest.approx(true, rel=1e-8)


ERRATA_PAGE = Path(__file__).parents[1] / "docs" / "papers_and_errata.md"


def test_every_erratum_has_a_section_with_a_cell():
    page = ERRATA_PAGE.read_text(encoding="utf8")
    for number in range(1, 23):
        section = page[page.index(f"## E{number}. ") :]
        section = section[: section.index("\n## ", 1)]
        assert "```{code-cell} python3" in section, number
