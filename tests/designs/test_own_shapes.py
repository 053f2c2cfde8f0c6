"""Own shapes, limits of size, sensor grids and noise levels of output noise."""

import itertools
import warnings

import cases
import control as ct
import mpmath
import numpy as np
import pytest
from repeats import few

import privcontrol as pc
from privcontrol.designs.problem import DesignProblem

BUDGET = cases.BUDGET
PURE = pc.PrivacyBudget(epsilon=1.0)


def design(sys, adjacency, *, horizon=20, budget=BUDGET, **options):
    return pc.design_output_noise(
        sys, horizon=horizon, budget=budget, adjacency=adjacency, **options
    )


def stack(noise):
    """Covariance (T p, T p) of the noise from its own covariances."""
    T = noise.horizon
    return np.block([[noise.covariance(t, s) for s in range(T)] for t in range(T)])


# -- one's own shape -----------------------------------------------------------------


def own_case(seed):
    rng = np.random.default_rng(seed)
    n = int(rng.integers(1, 5))
    plant = cases.random_plant(
        seed, states=n, inputs=1, outputs=int(rng.integers(1, 3))
    )
    shape = rng.normal(size=(n, n + int(rng.integers(0, 2))))
    return plant, shape, pc.StateAdjacency(1.0, times=range(2))


def exact_shift(plant, factor, times):
    """The largest y of unit moves of one state at these times, in 60 digits.

    In coordinates of the state y^2 = z' (S S')^-1 z with z = A^-j e_k.
    """
    with mpmath.workdps(60):
        S, A = mpmath.matrix(factor), mpmath.matrix(plant.A)
        squares = []
        for j in times:
            moves = mpmath.inverse(A) ** j
            for k in range(plant.nstates):
                move = moves[:, k]
                square = move.T * mpmath.lu_solve(S * S.T, move)
                squares.append(square[0])
        return float(mpmath.sqrt(max(squares)))


def test_a_shape_is_certified_to_be_scaled_and_once_more(monkeypatch):
    plant, shape, adjacency = own_case(0)
    certified = []
    certify = DesignProblem.certify

    def counted(problem, *arguments):
        certified.append(1)
        return certify(problem, *arguments)

    monkeypatch.setattr(DesignProblem, "certify", counted)
    noise = design(plant, adjacency, factor=shape, scale=True, max_std=np.inf)
    assert len(certified) == 2
    assert noise.guarantee.satisfies(BUDGET)


@pytest.mark.parametrize("seed", few(range(50), of=8))
def test_an_own_factor_has_the_guarantee_of_its_mechanism(seed):
    """Equal to 1e-12 on both sides, to what 60 digits give and to `Mechanism`.

    The mechanism sees C A^t S rounded to doubles, whose columns miss the exact responses
    by rounding. Its padding hides what is left, of at most 1e-6 of the shift, which adds
    its square: the mechanism may claim more than the noise of the plant, never less.
    """
    plant, shape, adjacency = own_case(seed)
    noise = design(plant, adjacency, factor=shape, scale=True, max_std=np.inf)
    ratio = noise.factor / shape
    np.testing.assert_allclose(ratio, ratio[0, 0], rtol=1e-12)
    assert noise.guarantee.satisfies(BUDGET)
    claimed = noise.guarantee.gdp
    assert claimed == pytest.approx(BUDGET.shift(), rel=1e-12)
    truth = exact_shift(plant, noise.factor, range(2))
    assert truth <= claimed <= truth * (1 + 1e-12)
    mechanism = pc.Mechanism(pc.output_query(plant, 20), noise.design.mechanism.noise)
    again = mechanism.guarantee(adjacency).gdp
    assert -1e-13 < again / claimed - 1 < 1e-12


def test_the_optimal_factor_as_ones_own_is_the_optimal_design():
    plant, _, adjacency = own_case(3)
    best = design(plant, adjacency, max_std=np.inf)
    options = {"scale": True, "max_std": np.inf}
    own = design(plant, adjacency, factor=7.0 * best.factor, **options)
    np.testing.assert_allclose(own.factor, best.factor, rtol=1e-12)
    assert own.design.cost == pytest.approx(best.design.cost, rel=1e-12)
    assert np.isnan(own.design.gap)
    covariance = best.initial_state_covariance
    same = design(plant, adjacency, covariance=5 * covariance, **options)
    assert same.design.cost == pytest.approx(best.design.cost, rel=1e-9)


def test_algorithm_1_with_one_sigma_is_a_multiple_of_the_identity():
    adjacency = pc.StateAdjacency(1.0, times=range(3))
    noise = design(pc.plants.vehicle(), adjacency, factor=np.eye(2))
    columns = adjacency.moves(pc.trajectory_manifold(pc.plants.vehicle(), 20)).columns
    sigma = np.linalg.norm(columns, axis=0).max() / BUDGET.shift()
    np.testing.assert_allclose(noise.factor, sigma * np.eye(2), rtol=1e-12)


def test_an_own_factor_for_laplace_noise_is_pure():
    adjacency = pc.StateAdjacency(1.0, times=range(3))
    noise = design(
        pc.plants.vehicle(), adjacency, factor=np.eye(2), family="laplace", budget=PURE
    )
    columns = adjacency.moves(pc.trajectory_manifold(pc.plants.vehicle(), 20)).columns
    assert noise.factor[0, 0] == pytest.approx(np.abs(columns).sum(axis=0).max())
    assert noise.guarantee.satisfies(PURE)


@pytest.mark.parametrize("seed", few(range(5), of=2))
def test_laplace_noise_of_any_shape_hides_a_ball(seed):
    """Of all directions of the ball, one in 20,000 that are looked at is the worst."""
    plant = cases.random_plant(seed, states=2, outputs=2)
    S = np.random.default_rng(seed).normal(size=(2, 2))
    radii = np.array([1.0, 0.3])
    secret = pc.InitialStateAdjacency(radii)
    noise = design(
        plant, secret, budget=PURE, family="laplace", factor=S, models="exact"
    )
    angles = np.linspace(0, np.pi, 20_000)
    moves = radii[:, None] * [np.cos(angles), np.sin(angles)]
    epsilons = np.abs(np.linalg.solve(noise.factor, moves)).sum(axis=0)
    assert 0.98 < epsilons.max() <= noise.guarantee.epsilon(0.0) <= 1
    smaller = noise.guarantee_for(plant, adjacency=pc.InitialStateAdjacency(radii / 2))
    assert smaller.epsilon(0.0) == pytest.approx(noise.guarantee.epsilon(0.0) / 2)
    half = noise.with_std(noise.std.max() / 2)
    assert half.guarantee.epsilon(0.0) == pytest.approx(
        2 * noise.guarantee.epsilon(0.0)
    )


@pytest.mark.parametrize("seed", few(range(6), of=2))
def test_laplace_noise_around_a_ball_costs_as_little_as_any(seed):
    """The sum of the sizes of X u is largest at |X^T w|, for one of all signs w."""
    rng = np.random.default_rng(seed)
    plant = cases.random_plant(seed, states=7, outputs=2)
    radii = rng.uniform(0.1, 1, 7)
    secret = pc.InitialStateAdjacency(radii)
    noise = design(plant, secret, budget=PURE, family="laplace", models="exact")
    X = np.linalg.solve(noise.factor, np.diag(radii))
    signs = np.array(list(itertools.product((-1, 1), repeat=7)))
    largest = np.linalg.norm(signs @ X, axis=1).max()
    assert largest == pytest.approx(noise.guarantee.epsilon(0.0), rel=1e-9)
    rows = pc.observability_stack(plant, noise.horizon) @ np.diag(radii)
    least = 2 * np.linalg.svd(rows, compute_uv=False).sum() ** 2
    assert noise.design.cost == pytest.approx(least, rel=1e-9)
    assert noise.design.gap < 1e-9


def test_an_own_factor_beside_a_floor_just_meets_the_budget():
    adjacency = pc.StateAdjacency(1.0, times=range(3))
    noise = design(pc.plants.vehicle(), adjacency, factor=np.eye(2), floor=0.5)
    responses = pc.observability_stack(pc.plants.vehicle(), 20)
    columns = adjacency.moves(pc.trajectory_manifold(pc.plants.vehicle(), 20)).columns
    images = responses @ columns
    squares = np.sum(images * np.linalg.solve(stack(noise), images), axis=0)
    allowed = BUDGET.shift()
    assert allowed * (1 - 1e-6) < np.sqrt(squares.max()) <= allowed * (1 + 1e-9)


KEPT = pc.StateAdjacency(1.0, times=range(3))
GUST = pc.DisturbanceAdjacency(1.0, duration=2, shape="level")


@pytest.mark.parametrize(
    "adjacency, options",
    [
        (KEPT, {"factor": 4 * np.eye(2)}),
        (KEPT, {"factor": 4 * np.eye(2), "floor": 0.5}),
        (KEPT, {"factor": 4 * np.eye(2), "floor": 0.5, "resolution": 0.02}),
        (KEPT, {"factor": 4 * np.eye(2), "models": [pc.plants.vehicle()]}),
        (KEPT, {"factor": 8 * np.eye(2), "family": "laplace", "budget": PURE}),
        (GUST, {"factor": 3 * np.eye(20)}),
        (GUST, {"factor": 3 * np.eye(20), "floor": 0.1}),
    ],
)
def test_a_factor_that_meets_the_budget_is_kept_and_the_guarantee_is_its_own(
    adjacency, options
):
    """Once it came back as small as the budget allows, without a word."""
    budget = options.get("budget", BUDGET)
    kept = design(pc.plants.vehicle(), adjacency, **options)
    given = options["factor"] @ options["factor"].T
    if len(given) == 2:
        responses = pc.observability_stack(pc.plants.vehicle(), 20)
        given = responses @ given @ responses.T
    given = given * (2 if kept.family == "laplace" else 1)
    given = given + options.get("floor", 0.0) ** 2 * np.eye(20)
    np.testing.assert_allclose(stack(kept), given, rtol=1e-9, atol=1e-9)
    assert "factor as given)" in repr(kept)
    small = options | {"factor": 0.1 * options["factor"]}
    up = design(pc.plants.vehicle(), adjacency, **small)
    down = design(pc.plants.vehicle(), adjacency, **options, scale=True)
    assert repr(down) != repr(kept)
    for scaled in (up, down):
        assert scaled.guarantee.satisfies(budget)
        assert scaled.std[0] < 0.9 * kept.std[0]
        assert scaled.std == pytest.approx(up.std, rel=1e-6)
    if kept.family == "laplace":
        assert kept.guarantee.epsilon(0) < 0.9 * down.guarantee.epsilon(0)
    else:
        assert kept.guarantee.gdp < 0.9 * down.guarantee.gdp
        assert down.guarantee.gdp == pytest.approx(BUDGET.shift(), rel=1e-6)


def test_a_covariance_of_a_stricter_promise_keeps_it():
    """A Sigma of 0.3855-GDP came back as 0.5325-GDP."""
    found = design(pc.plants.vehicle(), KEPT, budget=pc.PrivacyBudget(gdp=0.3855))
    covariance = found.initial_state_covariance
    kept = design(pc.plants.vehicle(), KEPT, covariance=covariance)
    assert kept.guarantee.gdp == pytest.approx(0.3855, rel=1e-9)
    np.testing.assert_allclose(kept.initial_state_covariance, covariance, rtol=1e-12)
    just = design(pc.plants.vehicle(), KEPT, covariance=covariance, scale=True)
    assert just.guarantee.gdp == pytest.approx(BUDGET.shift(), rel=1e-9)
    ratio = (0.3855 / BUDGET.shift()) ** 2
    np.testing.assert_allclose(
        just.initial_state_covariance, ratio * covariance, rtol=1e-9
    )


@pytest.mark.slow
def test_a_factor_that_meets_the_budget_in_a_region_is_kept():
    plant = pc.plants.vehicle()
    box = pc.PlantBox.around(plant, relative=1e-4)
    options = {"models": box, "floor": 0.5, "max_std": np.inf}
    kept = design(plant, KEPT, factor=6 * np.eye(2), **options)
    np.testing.assert_allclose(kept.factor, 6 * np.eye(2), rtol=1e-12)
    assert kept.guarantee.gdp < 0.9 * BUDGET.shift()
    up = design(plant, KEPT, factor=0.5 * np.eye(2), **options)
    down = design(plant, KEPT, factor=6 * np.eye(2), scale=True, **options)
    assert up.factor == pytest.approx(down.factor, rel=1e-6)
    assert 0.99 * BUDGET.shift() < down.guarantee.gdp <= BUDGET.shift()


def test_scale_is_about_ones_own_shape():
    with pytest.raises(ValueError, match="scale: it is about your own factor"):
        design(pc.plants.vehicle(), KEPT, scale=True)
    with pytest.raises(TypeError, match="scale"):
        design(pc.plants.vehicle(), KEPT, factor=np.eye(2), scale="yes")


def test_an_own_factor_that_leaves_a_move_uncovered_is_refused():
    with pytest.raises(pc.NotRealizableError):
        design(pc.plants.vehicle(), pc.StateAdjacency(1.0), factor=[[1.0], [0.0]])
    skew = np.array([[1.0], [1e-12]])
    with pytest.raises(pc.NotRealizableError):
        design(pc.plants.vehicle(), cases.POSITION, factor=skew)


@pytest.mark.parametrize(
    "options, error, message",
    [
        ({"factor": np.eye(2), "covariance": np.eye(2)}, ValueError, "got both"),
        ({"factor": np.eye(3)}, ValueError, "factor: expected S with 2 rows"),
        ({"factor": np.zeros((2, 1))}, ValueError, "not zero"),
        ({"covariance": [[1, 2], [0, 1]]}, ValueError, "symmetric"),
        ({"covariance": [[1, 2], [2, 1]]}, ValueError, "positive definite"),
        ({"factor": np.eye(2), "family": "iid-gaussian"}, ValueError, "structured"),
    ],
)
def test_a_shape_that_is_none_is_refused(options, error, message):
    with pytest.raises(error, match=message):
        design(pc.plants.vehicle(), cases.POSITION, **options)


# -- sizes that are of no use ------------------------------------------------------------


def lag(a=0.5):
    return ct.ss(a, 1, 1, 0, 1, states=["level"])


def test_absurd_noise_is_refused_and_the_text_names_the_mode_and_a_way_out():
    secret = pc.StateAdjacency(1.0)
    with pytest.raises(pc.PrivacyError, match="DisturbanceAdjacency") as refused:
        design(lag(), secret, horizon=40)
    assert "contracting mode 0.5 (level)" in str(refused.value)
    assert "times=..." in str(refused.value)
    assert design(lag(), secret, horizon=40, max_std=np.inf).std[0] > 1e11


def unstable_rod():
    return ct.ss([[1.2]], [[1.0]], [[1.0]], 0, 1, states=["tilt"], inputs=["push"])


@pytest.mark.parametrize(
    "plant, secret, horizon, mode",
    [
        (lag(), pc.StateAdjacency(1.0), 9, "0.5 \\(level\\)"),
        (unstable_rod(), pc.StateAdjacency(1.0, times=0), 30, "1.2 \\(tilt\\)"),
    ],
)
def test_noise_100_times_the_effect_of_its_secret_is_worth_a_warning(
    plant, secret, horizon, mode
):
    """The largest response is 2^8, or 1.2^29, and y* is .53."""
    with pytest.warns(pc.PrivacyWarning, match=mode):
        noise = design(plant, secret, horizon=horizon, models="exact")
    assert 100 < noise.std[0] < 1e4
    with warnings.catch_warnings():
        warnings.simplefilter("error", pc.PrivacyWarning)
        design(plant, secret, horizon=horizon, models="exact", max_std=np.inf)
        design(plant, secret, horizon=4, models="exact")


def test_of_noise_that_a_loop_prices_at_nothing_the_weight_is_named():
    """The last reading of a run costs a loop nothing: 58 K where 0.75 K would do."""
    room = ct.ss(0.9, [[1, 0.1]], 1, 0, 300.0, inputs=["heat", "people"])
    loop = pc.private_lqg(room, 1, 1, 1e-2, 1e-2, controls=["heat"])
    secret = pc.DisturbanceAdjacency({"people": 1.0}, duration=4)
    with pytest.warns(pc.PrivacyWarning, match="leave weight= out"):
        priced = design(room, secret, horizon=16, models="exact", weight=loop)
    plain = design(room, secret, horizon=16, models="exact")
    assert priced.std[0] > 50 * plain.std[0]
    assert priced.stds[0, :-1].max() < 1.1 * plain.std[0]


def test_noise_for_a_region_of_unstable_plants_is_refused_by_its_effect():
    """Once compared with the same secret at t = 0, under the same models."""
    names = {"states": ["heat"], "inputs": ["feed"]}
    plants = [ct.ss([[a]], [[1.0]], [[1.0]], 0, 1, **names) for a in (0.98, 1.25)]
    secret = pc.DisturbanceAdjacency({"feed": 1.0})
    with pytest.raises(pc.PrivacyError, match="with_local_loop"):
        design(plants[0], secret, horizon=60, models=pc.PlantPolytope(plants))


def test_the_effect_of_a_secret_is_the_largest_one_over_the_run():
    """By steps of 0.1 s over 20 samples: a speed moves the vehicle by 1.9 s of it."""
    plant = pc.plants.vehicle()
    pushed = 0.1 * np.cumsum([0, 1, 2, 3, *[4] * 15])[-1]
    effects = [
        (pc.StateAdjacency({"position": 2.0}), 2.0),
        (pc.StateAdjacency({"velocity": 2.0}), 3.8),
        (pc.InitialStateAdjacency({"position": 3.0, "velocity": 20.0}), 38.12),
        (pc.DisturbanceAdjacency({"velocity": 1.0}, duration=4, shape="level"), pushed),
    ]
    for secret, size in effects:
        tiny = pc.PrivacyBudget(gdp=1e-6)  # the refusal says what the secret does
        text = rf"secret does to it within 20 samples \({size:.4g}\)"
        with pytest.raises(pc.PrivacyError, match=text):
            design(plant, secret, horizon=20, budget=tiny)


def rod(sensors=50):
    """Heat in a rod whose ends lose some: it enters at one end, and is measured at the other."""
    A = np.eye(sensors, k=1) + np.eye(sensors, k=-1) - 2.01 * np.eye(sensors)
    A[0, 0] = A[-1, -1] = -1.01
    ends = np.eye(sensors)[[0, -1]]
    return ct.ss(0.5 * A, ends[:1].T, ends[1:], 0).sample(1.0)


@pytest.mark.slow
def test_what_arrives_late_is_an_effect_of_the_secret():
    """Within 51 samples the secret does 1.1e-11 at the far end, and later far more."""
    secret = pc.DisturbanceAdjacency(1.0)
    with warnings.catch_warnings():
        warnings.simplefilter("error", pc.PrivacyWarning)
        noise = design(rod(), secret, horizon=np.inf)
    _, response = ct.impulse_response(rod(), np.arange(1000.0))
    arrives = np.abs(response.squeeze())
    assert arrives[:51].max() < 2e-8 * noise.std[0]
    assert noise.std[0] < 10 * arrives.max()
    with pytest.raises(pc.PrivacyError, match=rf"samples \({arrives.max():.4g}\)"):
        design(rod(), secret, horizon=np.inf, budget=pc.PrivacyBudget(gdp=1e-5))


def test_growth_of_an_unstable_mode_is_no_effect_that_noise_may_follow():
    with pytest.raises(pc.PrivacyError, match="growth of unstable modes apart"):
        design(unstable_rod(), pc.StateAdjacency(1.0, times=0), horizon=60)


def test_noise_that_is_no_more_than_large_is_not_refused():
    assert design(lag(0.9), pc.StateAdjacency(1.0), horizon=60).std[0] < 1.9e3
    assert design(lag(), pc.StateAdjacency(1.0, times=0), horizon=40)
    assert design(lag(), pc.InitialStateAdjacency(1.0), horizon=40)
    assert design(lag(), pc.DisturbanceAdjacency(1.0), horizon=40)


@pytest.mark.parametrize("family", ["gaussian", "iid-gaussian", "laplace"])
def test_max_std_is_kept_or_says_what_would_meet_it(family):
    budget = PURE if family == "laplace" else BUDGET
    noise = design(lag(), pc.StateAdjacency(1.0, times=0), family=family, budget=budget)
    limit = float(noise.std[0]) / 2
    options = {"family": family, "max_std": limit}
    with pytest.raises(pc.PrivacyError, match="radius 0.5 times") as refused:
        design(lag(), pc.StateAdjacency(1.0, times=0), budget=budget, **options)
    smaller = pc.StateAdjacency(0.5, times=0)
    assert design(lag(), smaller, budget=budget, **options).std[0] <= limit * (1 + 1e-9)
    epsilon = float(str(refused.value).split("epsilon = ")[1].split()[0].rstrip(",;"))
    looser = pc.PrivacyBudget(epsilon=epsilon * 1.01, delta=budget.delta)
    found = design(lag(), pc.StateAdjacency(1.0, times=0), budget=looser, **options)
    assert found.std[0] <= limit


def test_max_std_may_be_given_by_output_name():
    plant, _, adjacency = own_case(7)
    name = plant.output_labels[0]
    with pytest.raises(pc.PrivacyError, match=f"noise at {name.replace('[', '.')[:1]}"):
        design(plant, adjacency, max_std={name: 1e-3})
    with pytest.raises(ValueError, match="nobody is no output"):
        design(plant, adjacency, max_std={"nobody": 1.0})


# -- the model is exact, or so it is said ------------------------------------------------


def messages(**options):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        design(pc.plants.vehicle(), cases.POSITION, **options)
    return [str(w.message) for w in caught if "exact model only" in str(w.message)]


def test_structured_noise_warns_that_it_holds_for_the_exact_model_only():
    (text,) = messages()
    assert 'models="exact"' in text
    assert "floor" in text
    assert not messages(models="exact")
    assert not messages(floor=1.0)
    assert not messages(family="iid-gaussian")
    assert not messages(models=[pc.plants.vehicle()])
    with pytest.raises(ValueError, match="models: expected one of 'exact'"):
        messages(models="exactly")
    with pytest.raises(TypeError, match="models: expected a list of StateSpace"):
        messages(models=pc.plants.vehicle())


# -- readings on a grid ------------------------------------------------------------------


@pytest.mark.parametrize(
    "options",
    [
        {"floor": 0.5},
        {"family": "iid-gaussian"},
        {"floor": 0.5, "models": [pc.plants.vehicle()]},
        {"floor": 0.5, "factor": np.eye(2)},
    ],
)
def test_a_grid_is_covered_against_the_worst_roundings(options):
    h, T = 0.02, 20
    noise = design(pc.plants.vehicle(), cases.POSITION, resolution=h, **options)
    gamma = stack(noise)
    responses = pc.observability_stack(pc.plants.vehicle(), T)
    images = (
        responses
        @ cases.POSITION.moves(pc.trajectory_manifold(pc.plants.vehicle(), T)).columns
    )
    rng = np.random.default_rng(0)
    worst = 0.0
    for _ in range(200):  # corners of the box of roundings, by coordinate ascent
        rounding = h * rng.choice([-1.0, 1.0], size=T)
        for _ in range(3):
            moved = images[:, 0] + rounding
            rounding = h * np.sign(np.linalg.solve(gamma, moved))
        moved = images[:, 0] + rounding
        worst = max(worst, np.sqrt(moved @ np.linalg.solve(gamma, moved)))
    assert worst <= noise.guarantee.gdp * (1 + 1e-9)
    assert noise.guarantee.satisfies(BUDGET)
    assert "grid of 0.02" in noise.guarantee.sentence
    plain = np.sqrt(np.diag(images.T @ np.linalg.solve(gamma, images)).max())
    assert plain < noise.guarantee.gdp  # the grid is paid for
    again = noise.guarantee_for([pc.plants.vehicle()])
    assert again.gdp == pytest.approx(noise.guarantee.gdp, rel=1e-6)


def test_a_grid_for_laplace_noise_counts_in_the_1_norm():
    noise = design(
        lag(), pc.StateAdjacency(1.0, times=0), family="iid-laplace", budget=PURE,
        resolution=0.01,
    )  # fmt: skip
    response = np.sum(0.5 ** np.arange(20))
    assert noise.process.scale[0] == pytest.approx(response + 20 * 0.01, rel=1e-9)


def test_a_grid_without_a_floor_and_one_that_is_too_coarse_are_refused():
    with pytest.raises(pc.PrivacyError, match="add a white floor"):
        design(pc.plants.vehicle(), cases.POSITION, resolution=0.01)
    with pytest.raises(pc.PrivacyError, match="multiply the floor by more than"):
        design(pc.plants.vehicle(), cases.POSITION, resolution=0.5, floor=0.5)


# -- noise levels ------------------------------------------------------------------------


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"floor": 0.5},
        {"family": "iid-gaussian"},
        {"family": "laplace", "budget": PURE},
        {"family": "iid-laplace", "budget": PURE},
        {"adjacency": pc.DisturbanceAdjacency(1.0)},
        {"adjacency": pc.DisturbanceAdjacency(1.0, norm="l2")},
    ],
)
def test_a_wanted_noise_level_buys_the_guarantee_of_that_scale(options):
    options = {"adjacency": cases.POSITION, **options}
    noise = design(pc.plants.vehicle(), **options)
    for gain in (0.5, 3.0):
        other = noise.with_std(gain * float(noise.std.max()))
        assert other.std.max() == pytest.approx(gain * noise.std.max(), rel=1e-12)
        if noise.family == "gaussian":
            expected = noise.guarantee.gdp / gain
            assert other.guarantee.gdp == pytest.approx(expected, rel=1e-6)
            assert other.guarantee.gdp >= expected * (1 - 1e-9)
        else:
            expected = noise.guarantee.epsilon(0.0) / gain
            assert other.guarantee.epsilon(0.0) == pytest.approx(expected, rel=1e-6)
        assert other.guarantee.satisfies(other.request.budget)
        assert other.design.cost == pytest.approx(gain**2 * noise.design.cost)
    with pytest.raises(ValueError, match="std: expected a finite number > 0"):
        noise.with_std(0.0)


@pytest.mark.parametrize(
    "options", [{}, {"floor": 0.5}, {"family": "iid-laplace", "budget": PURE}]
)
def test_the_standard_deviation_is_the_largest_over_the_run(options):
    noise = design(lag(0.9), pc.StateAdjacency(1.0), **options)
    each = [np.sqrt(np.diag(noise.covariance(t))) for t in range(20)]
    np.testing.assert_allclose(noise.stds, np.transpose(each), rtol=1e-12)
    np.testing.assert_allclose(noise.std, np.max(each, axis=0), rtol=1e-12)


def test_the_plot_shows_each_output():
    noise = design(cases.random_plant(1, states=2), pc.InitialStateAdjacency(1.0))
    shown = noise.plot(samples=3)
    assert shown.axes.shape == (2, 1)
    assert len(shown.lines[0, 0]) == 3
    with pytest.raises(ValueError, match="expected 2 x 1 axes"):
        noise.plot(ax=shown.axes[:1])
