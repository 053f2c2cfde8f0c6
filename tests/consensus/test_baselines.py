"""The comparators: their privacy by dense algebra, their accuracy by closed forms and Monte Carlo, the papers' numbers."""

import math

import numpy as np
import pytest
from consensus.networks import TEN_AGENTS, TEN_VALUES

from privcontrol.consensus import (
    FreshNoise,
    HuangMitraDullerud,
    KeptNoise,
    MoMurray,
    NozariTallapragadaCortes,
    private_consensus,
    read_network,
)
from privcontrol.core import PrivacyBudget

NETWORK = read_network(TEN_AGENTS)
STEPS = 12
ALGORITHMS = {
    "kept, Laplace": KeptNoise(NETWORK, STEPS),
    "kept, Gaussian": KeptNoise(NETWORK, STEPS, family="gaussian"),
    "fresh, Laplace": FreshNoise(NETWORK, STEPS),
    "fresh, Gaussian": FreshNoise(NETWORK, STEPS, family="gaussian"),
    "Huang": HuangMitraDullerud(NETWORK, STEPS),
    "Huang, own decay": HuangMitraDullerud(NETWORK, STEPS, step=0.8, decay=0.7),
    "Nozari, optimal": NozariTallapragadaCortes(NETWORK, STEPS),
    "Nozari, s < 1": NozariTallapragadaCortes(NETWORK, STEPS, share=0.6, decay=0.7),
    "Nozari, s > 1": NozariTallapragadaCortes(NETWORK, STEPS, share=1.3),
    "Mo, Murray": MoMurray(NETWORK, STEPS),
    "Mo, Murray, phi = 0.7": MoMurray(NETWORK, STEPS, decay=0.7),
}


def sent(algorithm):
    """Messages y(0) .. y(T-1) as H x(0) + F eta, dense."""
    n, T = len(NETWORK), algorithm.steps
    unit = np.eye((T + 1) * n).reshape(T + 1, n, -1)
    F = algorithm.run(np.zeros((n, unit.shape[-1])), unit)[0][:T]
    H = algorithm.run(np.eye(n), np.zeros((T + 1, n, n)))[0][:T]
    return H.reshape(T * n, n), F.reshape(T * n, -1)


@pytest.mark.parametrize("algorithm", ALGORITHMS.values(), ids=ALGORITHMS)
def test_privacy_is_that_of_the_noises_that_explain_the_same_messages(algorithm):
    """Second route: the messages as one linear map; the noise that a node's move is mistaken for, by least squares."""
    H, F = sent(algorithm)
    displaced, *_ = np.linalg.lstsq(F, 2.0 * H, rcond=1e-12)
    assert np.abs(F @ displaced - 2.0 * H).max() < 1e-9  # every move can be explained
    order = 2 if algorithm.family == "gaussian" else 1
    loss = np.linalg.norm(displaced, order, axis=0).max() / 3.0
    louder = algorithm.calibrated(0.5, 1.0)
    guarantee = type(louder)(**{**vars(algorithm), "scale": 3.0}).guarantee(2.0)
    found = guarantee.gdp if order == 2 else guarantee.epsilon(0.0)
    assert found == pytest.approx(loss, rel=1e-6)
    calibrated = louder.guarantee(1.0)
    assert (
        0.5 * (1 - 1e-9)
        < (calibrated.gdp if order == 2 else calibrated.epsilon(0.0))
        <= 0.5
    )


@pytest.mark.parametrize("algorithm", ALGORITHMS.values(), ids=ALGORITHMS)
def test_exact_errors_lie_within_five_standard_errors_of_5_000_runs(algorithm):
    calibrated = algorithm.calibrated(1.0, 1.0)
    exact = calibrated.mean_square_error(TEN_VALUES / 10)
    for readout, errors in calibrated.squared_error(
        TEN_VALUES / 10, trials=5000, rng=0
    ).items():
        assert abs(errors.mean() - exact[readout]) < 5 * errors.std() / math.sqrt(5000)


def test_kept_noise_is_private_consensus():
    """Its guarantee and, for the same number of steps, its exact error at both readouts."""
    for family, delta in (("gaussian", 1e-2), ("laplace", 0.0)):
        consensus = private_consensus(
            TEN_AGENTS, PrivacyBudget(epsilon=1, delta=delta), 1.0, family=family
        )
        kept = KeptNoise(consensus.network, STEPS, float(consensus.scales[0]), family)
        assert kept.guarantee(1.0).gdp == pytest.approx(
            consensus.guarantee.gdp, rel=1e-14
        )
        error = kept.mean_square_error(TEN_VALUES)
        for readout in ("message", "state"):
            exact = consensus.mean_square_error(TEN_VALUES, STEPS, readout=readout)[-1]
            assert error[readout] == pytest.approx(exact, rel=1e-12)


def test_fresh_noise_costs_the_root_of_the_rounds_and_for_laplace_the_rounds():
    for family, factor in (("gaussian", math.sqrt(100)), ("laplace", 100)):
        one, many = (
            FreshNoise(NETWORK, T, 5.0, family).guarantee(1.0) for T in (1, 100)
        )
        loss = [g.gdp if family == "gaussian" else g.epsilon(0.0) for g in (one, many)]
        assert loss[1] / loss[0] == pytest.approx(factor, rel=1e-12)


@pytest.mark.parametrize(
    "s, q, c", [(0.5, 0.8, 3.0), (0.75, 0.6, 1.0), (0.9, 0.5, 2.0)]
)
def test_huang_et_al_have_their_closed_forms(s, q, c):
    """epsilon = d q / (c (q + s - 1)) and the limit's variance 2 s^2 c^2 / (n (1 - q^2)), n agents each."""
    algorithm = HuangMitraDullerud(NETWORK, 150, c, step=s, decay=q)
    assert algorithm.guarantee(2.0).epsilon(0.0) == pytest.approx(
        2.0 * q / (c * (q + s - 1)), rel=1e-9
    )
    limit = algorithm.mean_square_error(np.full(10, 7.0))["state"]
    assert limit == pytest.approx(2 * s**2 * c**2 / (1 - q**2), rel=1e-9)


@pytest.mark.parametrize("s, q, c", [(0.6, 0.7, 3.0), (1.0, 0.5, 1.0), (1.3, 0.6, 2.0)])
def test_nozari_et_al_have_their_closed_forms(s, q, c):
    algorithm = NozariTallapragadaCortes(NETWORK, 150, c, share=s, decay=q)
    assert algorithm.guarantee(2.0).epsilon(0.0) == pytest.approx(
        2.0 * q / (c * (q - abs(s - 1))), rel=1e-9
    )
    limit = algorithm.mean_square_error(np.full(10, 7.0))["state"]
    assert limit == pytest.approx(2 * s**2 * c**2 / (1 - q**2), rel=1e-9)


@pytest.mark.parametrize("make", [
    lambda r, q: HuangMitraDullerud(NETWORK, 100, step=1 - r, decay=q),
    lambda r, q: NozariTallapragadaCortes(NETWORK, 100, share=1 - r, decay=q),
])  # fmt: skip
@pytest.mark.parametrize("r", [0.1, 0.4])
def test_the_default_decay_is_the_best_one(make, r):
    def error(q):
        return make(r, q).calibrated(1.0, 1.0).mean_square_error(np.zeros(10))["state"]

    best = make(r, None).decay
    assert best == pytest.approx(r ** (1 / 3))
    assert error(best) < min(error(0.98 * best), error(1.02 * best))


def test_nozari_s_optimum_is_one_shot_and_equals_reading_the_message():
    """2 d^2 / epsilon^2 in all, n - 1 times less than the paper's metric of the same messages."""
    optimum = (
        NozariTallapragadaCortes(NETWORK, 200)
        .calibrated(0.5, 1.0)
        .mean_square_error(TEN_VALUES)["state"]
    )
    kept = KeptNoise(NETWORK, 200).calibrated(0.5, 1.0).mean_square_error(TEN_VALUES)
    assert (
        optimum
        == pytest.approx(2 / 0.5**2, rel=1e-9)
        == pytest.approx(kept["message"], rel=1e-9)
    )
    assert kept["state"] == pytest.approx(9 * kept["message"], rel=1e-9)


def test_mo_and_murray_average_exactly_and_give_no_differential_privacy():
    """The eavesdropper of all links holds the readings x(0) + phi^t v(t); his error vanishes and epsilon grows."""
    algorithm = MoMurray(NETWORK, 60, 2.0)
    noise = 2.0 * np.random.default_rng(0).standard_normal((61, 10, 1))
    messages, states = algorithm.run(TEN_VALUES[:, None], noise)
    assert abs(states[-1].mean() - 15) < 2.0 * 0.9**59 * 5
    W, x = NETWORK.iteration.toarray(), TEN_VALUES
    published = messages[:, :, 0]
    increments = np.vstack(
        [published[:1], published[1:] - published[:-1] @ W]
    )  # w(t), and x(0) + w(0) at first
    readings = np.cumsum(increments, axis=0)
    assert np.allclose(
        readings, x + 0.9 ** np.arange(61)[:, None] * noise[:, :, 0], atol=1e-10
    )
    weights = 0.9 ** (-2 * np.arange(60.0))
    estimate = weights @ readings[:60] / weights.sum()
    deviation = 2.0 * math.sqrt((0.9**-2 - 1) / (0.9**-120 - 1))
    assert np.abs(estimate - x).max() < 5 * deviation < 0.02
    losses = [MoMurray(NETWORK, T, 2.0).guarantee(1.0).gdp for T in (10, 30, 60)]
    assert (
        losses[2] == pytest.approx(1 / deviation, rel=1e-9)
        and losses[2] > 20 * losses[1]
    )


def test_mo_and_murray_against_one_curious_agent_is_the_paper_s_example():
    """Variances of agents 1 .. 4 after 60 rounds against agent 5, who hears agents 1, 3 and 4 and knows its own noise."""
    A = (
        np.array(
            [
                [2, 1, 0, 0, 1],
                [1, 2, 1, 0, 0],
                [0, 1, 2, 0, 1],
                [0, 0, 0, 3, 1],
                [1, 0, 1, 1, 1],
            ]
        )
        / 4
    )
    algorithm = MoMurray(read_network(A), 60)
    n, T = 5, 60
    unit = np.eye((T + 1) * n).reshape(T + 1, n, -1)
    F = algorithm.run(np.zeros((n, unit.shape[-1])), unit)[0][:T]
    H = algorithm.run(np.eye(n), np.zeros((T + 1, n, n)))[0][:T]
    heard, own = [0, 2, 3], [j for j in range((T + 1) * n) if j % n == 4]
    rows = F[:, heard].reshape(T * 3, -1)
    rows = np.delete(rows, own, axis=1)
    columns = H[:, heard].reshape(T * 3, n)[:, :4]
    information = columns.T @ np.linalg.lstsq(rows @ rows.T, columns, rcond=None)[0]
    variances = np.diag(np.linalg.inv(information))
    assert np.allclose(variances[:3], [0.37218, 1.48872, 0.37218], rtol=1e-3)
    assert variances[3] < 1e-5  # disclosed: its neighbourhood lies inside agent 5's


def test_the_same_seed_gives_every_algorithm_the_same_draws():
    first, second = KeptNoise(NETWORK, STEPS), NozariTallapragadaCortes(NETWORK, STEPS)
    a, b = (x.squared_error(TEN_VALUES, trials=50, rng=3) for x in (first, second))
    assert np.allclose(a["message"], b["state"], rtol=1e-9)
    few = first.squared_error(TEN_VALUES, trials=20, rng=3)
    assert np.allclose(few["message"], a["message"][:20], rtol=1e-12)


REFUSED = {
    "Huang, step": lambda: HuangMitraDullerud(NETWORK, 5, step=1.0),
    "Huang, decay": lambda: HuangMitraDullerud(NETWORK, 5, step=0.5, decay=0.4),
    "Nozari, share": lambda: NozariTallapragadaCortes(NETWORK, 5, share=2.0),
    "Nozari, decay": lambda: NozariTallapragadaCortes(NETWORK, 5, share=0.5, decay=0.5),
    "Nozari, no noise but a share": lambda: NozariTallapragadaCortes(
        NETWORK, 5, share=0.9, decay=0.0
    ),
    "Mo": lambda: MoMurray(NETWORK, 5, decay=1.0),
    "steps": lambda: FreshNoise(NETWORK, 0),
    "scale": lambda: FreshNoise(NETWORK, 5, 0.0),
    "family": lambda: FreshNoise(NETWORK, 5, 1.0, "uniform"),
}


@pytest.mark.parametrize("attempt", REFUSED.values(), ids=REFUSED)
def test_parameters_without_a_guarantee_are_refused(attempt):
    with pytest.raises(ValueError, match="expected"):
        attempt()
