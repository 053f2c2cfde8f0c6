"""Releases of one run with public answers in between (DPAM eq. (11))."""

import copy
import math
import os
import pickle
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import scipy.stats
from repeats import few

import privcontrol as pc
from privcontrol.core import (
    AdaptiveReleases,
    AffineManifold,
    BallAdjacency,
    BudgetExceededError,
    DirectionAdjacency,
    GaussianNoise,
    LaplaceNoise,
    LinearQuery,
    ManifoldAdjacency,
    Mechanism,
    NotRealizableError,
    PrivacyBudget,
    PrivacyError,
    kappa,
)
from privcontrol.numerics.balls import Ball
from privcontrol.privacy.release import ENTRIES, SeededBits

DAYS = 4
#: The stock of a day is that of the day before and a delivery.
STOCK = AffineManifold(np.eye(DAYS - 1, DAYS, 1) - np.eye(DAYS - 1, DAYS))
MOVE = 10.0
SECRET = DirectionAdjacency(MOVE * np.ones((DAYS, 1)))
BUDGET = PrivacyBudget(gdp=1.0)
PURE = PrivacyBudget(epsilon=1.0)
NOISE = {"gaussian": GaussianNoise, "laplace": LaplaceNoise}
#: Runs of the Monte Carlo below; tests/stress/attack_adaptive_runs.py makes more.
RUNS = 700


def last_entry(count):
    return np.eye(1, count, count - 1)


def log_density(family, value, size):
    """Logarithm of the density of noise, up to a constant."""
    if family == "gaussian":
        return -(value**2) / (2 * size**2)
    return -abs(value) / size


def attacked_run(budget, family, rng, smaller=1.0):
    """Log-likelihood ratio of one run whose noise and answers an adversary chooses.

    The more the outputs speak for the true stock, the more of the rest is spent; the
    last day spends all of it. With ``smaller`` the noise drawn is smaller than promised.
    """
    run = AdaptiveReleases(STOCK, SECRET, budget, family=family)
    stock, ratio = 100.0, 0.0
    run.extend([stock])
    for day in range(DAYS):
        share = 0.8 if ratio > 0 else 0.3
        if day == DAYS - 1:
            share = 1.0
        if family == "gaussian":
            share = math.sqrt(share)
        size = MOVE / (share * run.remaining)
        level = run.release(last_entry(day + 1), NOISE[family]([size]), rng=rng)[0]
        level = stock + smaller * (level - stock)
        true = smaller * size
        here = log_density(family, level - stock, true)
        ratio += here - log_density(family, level - stock - MOVE, true)
        if day < DAYS - 1:
            delivery = max(0.0, 150.0 - level)
            stock += delivery
            run.extend([stock], offset=[-delivery])
    assert run.spent == pytest.approx(run._limit, rel=1e-9)
    return ratio


def hockey_stick(ratios, epsilon):
    """delta(epsilon) by Monte Carlo, and its standard error."""
    losses = np.maximum(0.0, -np.expm1(epsilon - np.asarray(ratios)))
    return losses.mean(), losses.std() / math.sqrt(len(losses))


@pytest.mark.slow
def test_an_adversary_who_chooses_noise_and_answers_learns_what_the_budget_says():
    """The privacy loss of 700 attacked runs is that of one Gaussian release.

    The adversary spends the budget to the end, so delta is exactly kappa(eps, 1):
    .38 at 0 and .127 at 1, each within four standard errors (false alarm 1e-4). Noise
    that is 15 % too small raises the second by six standard errors, and is noticed.
    """
    rng = np.random.default_rng(11)
    ratios = [attacked_run(BUDGET, "gaussian", rng) for _ in range(RUNS)]
    for epsilon in (0.0, 1.0):
        delta, error = hockey_stick(ratios, epsilon)
        assert error < 0.013
        assert abs(delta - kappa(epsilon, 1.0)) < 4 * error
    assert np.mean(ratios) == pytest.approx(0.5, abs=4 / math.sqrt(RUNS))
    assert np.std(ratios) == pytest.approx(1.0, abs=4 / math.sqrt(2 * RUNS))
    louder = [attacked_run(BUDGET, "gaussian", rng, 0.85) for _ in range(RUNS)]
    wrong, error = hockey_stick(louder, 1.0)
    assert wrong - kappa(1.0, 1.0) > 4 * error


def test_attacked_laplace_runs_never_tell_more_than_epsilon():
    rng = np.random.default_rng(12)
    ratios = [attacked_run(PURE, "laplace", rng) for _ in range(100)]
    assert 0.9 < max(ratios) <= 1.0 + 1e-9
    wrong = [attacked_run(PURE, "laplace", rng, 0.9) for _ in range(100)]
    assert max(wrong) > 1.05


@pytest.mark.parametrize("seed", few(range(10), of=3))
def test_a_run_without_choices_spends_what_its_stack_costs(seed):
    """The stacked mechanism on the manifold, what offsets arrived."""
    rng = np.random.default_rng(seed)
    steps, states = 4, 2
    A = rng.normal(size=(states, states))
    D = np.kron(np.eye(steps - 1, steps), A) - np.kron(
        np.eye(steps - 1, steps, 1), np.eye(states)
    )
    manifold = AffineManifold(D)
    directions = manifold.kernel @ rng.normal(size=(states, 3))
    adjacency = DirectionAdjacency(directions)
    rows = rng.normal(size=(steps, states))
    run = AdaptiveReleases(manifold, adjacency, PrivacyBudget(gdp=1e3))
    state = rng.normal(size=states)
    run.extend(state)
    for t in range(steps):
        F = np.concatenate([np.zeros(states * t), rows[t]])[None]
        run.release(F, GaussianNoise([1.0 + t]), rng=rng)
        if t < steps - 1:
            known = rng.normal(size=states)
            state = A @ state + known
            run.extend(state, offset=known)
    F = np.kron(np.eye(steps), np.ones((1, states))) * np.tile(rows.ravel(), (steps, 1))
    noise = GaussianNoise(np.arange(1.0, steps + 1))
    stack = Mechanism(LinearQuery(F, manifold), noise).guarantee(adjacency)
    assert run.spent == pytest.approx(stack.gdp, rel=1e-12)
    images = F @ directions / np.arange(1.0, steps + 1)[:, None]
    by_hand = np.linalg.norm(images, axis=0).max()
    assert by_hand <= run.spent <= by_hand * (1 + 1e-12)


def test_each_move_has_an_account_of_its_own():
    """Two releases that show different moves cost the larger one, not their sum."""
    adjacency = DirectionAdjacency(np.eye(2))
    run = AdaptiveReleases(AffineManifold([[0.0, 0.0]]), adjacency, BUDGET)
    run.extend([1.0, 2.0])
    run.release([[1.0, 0.0]], GaussianNoise([2.0]), rng=0)
    run.release([[0.0, 1.0]], GaussianNoise([2.0]), rng=0)
    assert run.spent == pytest.approx(0.5, rel=1e-12)
    ball = AdaptiveReleases(AffineManifold([[0.0, 0.0]]), BallAdjacency(1.0), BUDGET)
    ball.extend([1.0, 2.0])
    ball.release([[1.0, 0.0]], GaussianNoise([2.0]), rng=0)
    ball.release([[0.0, 1.0]], GaussianNoise([2.0]), rng=0)
    assert ball.spent == pytest.approx(math.sqrt(0.5), rel=1e-9)  # an upper bound


@pytest.mark.parametrize("family, budget", [("gaussian", BUDGET), ("laplace", PURE)])
def test_the_budget_is_never_exceeded_and_nothing_is_published_beyond_it(
    family, budget
):
    run = AdaptiveReleases(STOCK, SECRET, budget, family=family)
    run.extend([100.0])
    noise = NOISE[family]([MOVE / (0.6 * run.remaining)])
    first = run.release([[1.0]], noise)
    assert run.published[0] == first
    if family == "gaussian":
        run.release([[1.0]], noise)
    spent, count = run.spent, len(run.published)
    with pytest.raises(BudgetExceededError, match="the budget allows"):
        run.release([[1.0]], noise)
    assert (run.spent, len(run.published)) == (spent, count)
    rest = NOISE[family]([MOVE / run.remaining])
    run.release([[1.0]], rest)
    assert run.remaining < 1e-5
    assert run.guarantee.satisfies(budget)


def test_the_guarantee_is_the_budget_and_says_what_it_assumes():
    run = AdaptiveReleases(STOCK, SECRET, PrivacyBudget(epsilon=1.0, delta=1e-2))
    assert run.guarantee.epsilon(1e-2) == pytest.approx(1.0, rel=1e-9)
    assert "earlier publications" in run.guarantee.sentence
    assert not run.guarantee.exact
    other = AdaptiveReleases(STOCK, SECRET, BUDGET)
    assert (run.guarantee + other.guarantee).gdp > 1.0


def test_noise_of_low_rank_must_cover_every_move():
    run = AdaptiveReleases(STOCK, ManifoldAdjacency(1.0), BUDGET)
    run.extend([100.0])
    run.extend([120.0], offset=[-20.0])
    line = GaussianNoise([[5.0], [5.0]])
    run.release(np.eye(2), line, rng=0)
    skew = GaussianNoise([[5.0], [4.0]])
    with pytest.raises(NotRealizableError):
        run.release(np.eye(2), skew, rng=0)
    assert run.spent == pytest.approx(0.2, rel=1e-9)


def test_releases_are_those_of_the_mechanism_and_exact_without_a_generator():
    run = AdaptiveReleases(STOCK, SECRET, BUDGET)
    run.extend([100.0])
    noise = GaussianNoise([30.0])
    plain = Mechanism(LinearQuery([[1.0]]), noise)
    np.testing.assert_array_equal(
        run.release([[1.0]], noise, rng=5), plain.release([100.0], rng=5)
    )
    rounded = run.release([[1.0]], noise, grid=0.5)
    assert rounded[0] % 0.5 == 0


def test_data_off_the_manifold_are_refused_and_never_shown():
    run = AdaptiveReleases(STOCK, SECRET, BUDGET)
    run.extend([123.456])
    with pytest.raises(ValueError, match="off the manifold") as caught:
        run.extend([130.0], offset=[-5.0])
    assert "123" not in str(caught.value)
    assert "130" not in str(caught.value)
    assert "123" not in repr(run)
    run.extend([130.0], offset=[123.456 - 130.0])  # nothing was taken in before


@pytest.mark.parametrize(
    "use, error, message",
    [
        (lambda run: run.extend([]), ValueError, "between 1 and 3 entries"),
        (lambda run: run.extend(np.ones(4)), ValueError, "between 1 and 3 entries"),
        (lambda run: run.extend([100.0]), ValueError, "offset"),
        (lambda run: run.release(np.eye(2), GaussianNoise([1.0] * 2)), ValueError, "F"),
        (lambda run: run.release([[1.0]], LaplaceNoise([1.0])), TypeError, "family"),
        (lambda run: run.release([[1.0]], GaussianNoise([1.0] * 2)), ValueError, "noi"),
    ],
)
def test_mistakes_are_named(use, error, message):
    run = AdaptiveReleases(STOCK, SECRET, BUDGET)
    run.extend([100.0])
    with pytest.raises(error, match=message):
        use(run)


def test_a_manifold_of_a_kernel_has_no_rows_for_the_offsets():
    with pytest.raises(ValueError, match="made of constraints"):
        AdaptiveReleases(AffineManifold.from_kernel(np.ones((2, 1))), SECRET, BUDGET)


# One draw of eta for the run, as in the paper.


def vehicle_run(noise, budget, seed, horizon=12):
    """Published numbers and states of a loop that drives on what it publishes."""
    A, B, C = np.array([[1, 0.1], [0, 1]]), np.array([0.005, 0.1]), np.array([[1.0, 0]])
    days = pc.trajectory_manifold(pc.plants.vehicle(), horizon)
    secret = pc.StateAdjacency({"position": 1.0})
    run = AdaptiveReleases(days, secret, budget, fresh=False)
    x, states = np.array([-20.0, 0.0]), []
    run.extend(x)
    for t in range(horizon):
        if t:
            forced = B * (-3.0 * run.published[-1])
            x = A @ x + forced
            run.extend(x, offset=forced)
        states.append(x)
        run.release(C, noise(t), rng=seed)
    return run, np.array(states)


def test_one_draw_serves_all_releases_of_a_loop():
    """The paper's vehicle: one number of noise, sigma, for all samples (section 5.3)."""
    budget = PrivacyBudget(gdp=0.5)
    size = 2 * (1 + 1e-9)
    for seed in range(20):
        run, states = vehicle_run(lambda t: GaussianNoise([[size]]), budget, seed, 4)
        noise = np.ravel(run.published) - states[:, 0]
        np.testing.assert_allclose(noise, noise[0], atol=1e-5)
    assert run.spent == pytest.approx(0.5, rel=1e-8)
    assert run.remaining < 1e-3


@pytest.mark.parametrize("family, law", [("gaussian", "norm"), ("laplace", "laplace")])
def test_a_simulated_draw_has_its_law(family, law):
    """Of 3,000 entries, by its shape and its power of the size; 10 % off is seen."""
    source = SeededBits(np.random.default_rng(0))
    drawn = [float(ENTRIES[family](source).ball().mid()) for _ in range(3000)]
    assert scipy.stats.kstest(drawn, law).pvalue > 1e-4
    power = {"norm": 2, "laplace": 1}[law]
    sizes = np.abs(drawn) ** power  # of a mean of one
    error = 5 * sizes.std() / math.sqrt(3000)
    assert abs(sizes.mean() - 1) < error < 1 - 0.9**power


def test_what_one_draw_spends_is_the_shift_through_the_stack():
    """Position and velocity move, Lambda_t = C A^t S; the stack by a pseudo-inverse."""
    A, C = np.array([[1, 0.1], [0, 1]]), np.array([[1.0, 0]])
    S = np.array([[9.0, 0.0], [1.0, 12.0]])

    def noise(t):
        return GaussianNoise(C @ np.linalg.matrix_power(A, t) @ S)

    spent = []
    for horizon in (1, 2, 12):
        run, states = vehicle_run(noise, PrivacyBudget(gdp=1.0), 3, horizon)
        free = np.vstack([C @ np.linalg.matrix_power(A, t) for t in range(horizon)])
        # the position at t moves by 1 and the velocity is held: [1, 0] at every t
        by_hand = np.linalg.norm(np.linalg.pinv(free @ S) @ free @ [1.0, 0.0])
        assert run.spent == pytest.approx(by_hand, rel=1e-6)
        spent.append(run.spent)
    assert spent[0] < spent[1] == pytest.approx(spent[2], rel=1e-6)
    gamma = np.ravel(run.published) - states[:, 0]
    eta, *_ = np.linalg.lstsq(free @ S, gamma, rcond=None)
    np.testing.assert_allclose(free @ S @ eta, gamma, atol=1e-5)


def test_two_runs_with_shifted_draws_publish_the_same():
    """DPAM section 3: with eta' = eta - Lambda^+ F N z an eavesdropper sees no difference."""
    runs = []
    for stock in (100.0, 110.0):
        run = AdaptiveReleases(STOCK, SECRET, BUDGET, fresh=False)
        run.extend([stock])
        noise = GaussianNoise([[11.0, 4.0]])
        shift = np.linalg.pinv(noise.factor)[:, 0] * (stock - 100.0)
        run.release([[1.0]], noise, rng=0)  # draws; the numbers are set below
        known = [Known(0.7 - shift[0]), Known(-0.2 - shift[1])]
        run._draw._eta = known
        run._draw._released, run._published = None, []
        run._draw.begin = lambda noise, rng: None
        shown = []
        for day in range(DAYS):
            shown.append(run.release(last_entry(day + 1), noise, rng=0).item())
            if day < DAYS - 1:
                delivery = 150.0 - shown[-1]
                stock += delivery
                run.extend([stock], offset=[-delivery])
        runs.append(shown)
    np.testing.assert_allclose(*runs, atol=1e-4)


class Known:
    """A standard entry of a known value."""

    def __init__(self, value):
        self.count, self._value = 128, value

    def ball(self):
        return Ball(self._value)


@pytest.mark.parametrize("family, budget", [("gaussian", BUDGET), ("laplace", PURE)])
def test_a_factor_that_no_draw_can_explain_is_refused(family, budget):
    """10 of 20 and then 10 of 15: no shift of eta hides both."""
    run = AdaptiveReleases(STOCK, SECRET, budget, family=family, fresh=False)
    run.extend([100.0])
    run.release([[1.0]], NOISE[family]([[20.0]]))
    run.extend([120.0], offset=[-20.0])
    assert run.spent == pytest.approx(0.5, rel=1e-9)
    with pytest.raises(NotRealizableError):
        run.release(last_entry(2), NOISE[family]([[15.0]]))
    assert len(run.published) == 1
    again = run.release(last_entry(2), NOISE[family]([[20.0]]), grid=0.5)
    assert again.item() % 0.5 == 0
    assert run.spent == pytest.approx(0.5, rel=1e-6)
    assert "drawn once" in run.guarantee.sentence


def test_the_draw_stays_in_its_object():
    run = AdaptiveReleases(STOCK, SECRET, BUDGET, fresh=False)
    run.extend([100.0])
    noise = GaussianNoise([[20.0]])
    run.release([[1.0]], noise, rng=0)
    run.extend([100.0], offset=[0.0])
    other = pickle.loads(pickle.dumps(run))
    assert not hasattr(other, "_draw")
    assert "Entry" not in repr(run)
    assert other.spent == run.spent
    with pytest.raises(PrivacyError, match="this copy"):
        other.release(last_entry(2), noise, rng=0)
    with pytest.raises(ValueError, match="rng"):
        run.release(last_entry(2), noise)
    with pytest.raises(ValueError, match="number of columns, 1, got shape"):
        run.release(last_entry(2), GaussianNoise([[20.0, 0.0]]), rng=0)
    with pytest.raises(ValueError, match="number of columns"):
        run.release(last_entry(2), GaussianNoise([20.0]), rng=0)
    assert run.release(last_entry(2), noise, rng=0) == pytest.approx(run.published[0])
    with pytest.raises(TypeError, match="fresh"):
        AdaptiveReleases(STOCK, SECRET, BUDGET, fresh=1)


@pytest.mark.parametrize("fresh", [True, False])
def test_a_copy_has_no_budget_of_its_own(fresh):
    run = AdaptiveReleases(STOCK, SECRET, BUDGET, fresh=fresh)
    run.extend([100.0])
    noise = GaussianNoise([[12.0]])
    for other in (copy.copy(run), copy.deepcopy(run), pickle.loads(pickle.dumps(run))):
        assert other.remaining == run.remaining
        assert other.guarantee == run.guarantee
        with pytest.raises(PrivacyError, match="this copy"):
            other.release([[1.0]], noise, rng=0)
    assert run.release([[1.0]], noise, rng=0).shape == (1,)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_fork_has_no_budget_of_its_own():
    run = AdaptiveReleases(STOCK, SECRET, BUDGET)
    run.extend([100.0])
    child = os.fork()
    if child == 0:
        try:
            run.release([[1.0]], GaussianNoise([[12.0]]))
        except PrivacyError:
            os._exit(7)
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7


class Slow(AdaptiveReleases):
    """Takes its time between what a release would show and its record."""

    def _size(self, shown):
        time.sleep(0.02)
        return super()._size(shown)


def test_threads_share_the_budget():
    """Each release shows .5: four of them fill the budget of 1, whoever makes them."""
    run = Slow(STOCK, SECRET, BUDGET)
    run.extend([100.0])
    refused = []

    def published(_):
        try:
            return run.release([[1.0]], GaussianNoise([[20.0 * (1 + 1e-9)]]))
        except BudgetExceededError as error:
            refused.append(error)

    with ThreadPoolExecutor(8) as threads:
        list(threads.map(published, range(8)))
    assert len(run.published) == 4
    assert len(refused) == 4


def test_a_trajectory_comes_sample_by_sample():
    vehicle = pc.plants.vehicle()
    states = pc.trajectory_manifold(vehicle, 3)
    run = AdaptiveReleases(states, pc.StateAdjacency(1.0), BUDGET)
    with pytest.raises(ValueError, match="the 2 states of one sample, got 1"):
        run.extend([1.0])
    run.extend([1.0, 2.0])
    with pytest.raises(ValueError, match="off the manifold"):
        run.extend([1.0, 2.0], offset=[0.0, 0.0])
    run.extend([1.2, 2.0], offset=[0.0, 0.0])
    shown = run.release([[1.0, 0.0]], GaussianNoise([[50.0]]), rng=0)
    plain = Mechanism(LinearQuery([[1.0, 0.0]]), GaussianNoise([[50.0]]))
    np.testing.assert_array_equal(shown, plain.release([1.2, 2.0], rng=0))


@pytest.mark.parametrize("entry", [2**53 + 1, 2**53 + 3])
def test_data_that_no_double_holds_are_refused(entry):
    """These two are 2 apart, and 4 apart as doubles."""
    run = AdaptiveReleases(STOCK, SECRET, BUDGET)
    with pytest.raises(ValueError, match="entries: expected numbers that doubles hold"):
        run.extend([entry])
    run.extend([2**53 + 2])
