"""Output noise for a plant: certified on the doubles returned, as cheap as possible, and refused where it must be."""

import math
import pickle
import resource
import warnings

import cases
import control as ct
import mpmath as mp
import numpy as np
import oracles
import pytest
from repeats import few

import privcontrol as pc
from privcontrol.core import kappa_inverse

ALLOWED = kappa_inverse(1.0, 1e-2)


def test_the_papers_vehicle_has_the_papers_noise_and_the_exact_one():
    paper = cases.vehicle_noise(budget=cases.PAPER_BUDGET)
    exact = cases.vehicle_noise()
    np.testing.assert_allclose(paper.factor, [[2.5244137], [0]], rtol=1e-7)
    np.testing.assert_allclose(exact.factor, [[1.8778756], [0]], rtol=1e-7)
    assert paper.initial_state_covariance[0, 0] == pytest.approx(6.3727, rel=1e-4)
    np.testing.assert_allclose(
        cases.vehicle_noise(family="iid-gaussian").process.scale,
        10 * 1.8778756,
        rtol=1e-7,
    )


@pytest.mark.parametrize("radius", few([0.7, 1.0, 1.1, 0.8, 0.95], of=2))
@pytest.mark.parametrize("horizon", [3, 30, 300])
def test_noise_of_a_mimo_plant_is_certified_in_many_digits_or_refused(radius, horizon):
    plant = cases.random_plant(int(1000 * radius) + horizon, states=5, radius=radius)
    radii = [1.0, 0.1, 3.0, 0.01, 1.0]
    adjacency = pc.StateAdjacency(radii)
    try:
        noise = pc.design_output_noise(
            plant,
            horizon=horizon,
            budget=cases.BUDGET,
            adjacency=adjacency,
            max_std=np.inf,
        )
    except pc.UncertifiableError as refusal:
        assert "shorten" in str(refusal).lower()
        assert min(np.abs(np.linalg.eigvals(plant.A))) ** -horizon > 1e145
        return
    times = sorted({0, horizon // 3, horizon - 1})
    truth = oracles.privacy_shift(plant.A, noise.factor, radii, times)
    assert truth <= noise.guarantee.gdp <= ALLOWED
    every = max(
        oracles.privacy_shift(plant.A, noise.factor, radii, [j])
        for j in {0, 1, horizon - 2, horizon - 1}
    )
    assert float(every) <= noise.guarantee.gdp
    if horizon <= 30:
        assert noise.guarantee.gdp == pytest.approx(
            float(oracles.privacy_shift(plant.A, noise.factor, radii, range(horizon))),
            rel=1e-8,
        )
    growth = np.linalg.norm(
        adjacency.moves(pc.trajectory_manifold(plant, horizon)).columns, axis=0
    )
    # rounding S to doubles costs about 1e-16 times the spread of the moves, and that is in the certified gap
    assert (
        0 <= noise.design.gap <= (1e-9 if growth.max() < 1e6 * growth.min() else 3e-3)
    )


def test_certified_cost_is_the_least_of_all_gaussian_noises():
    for seed in range(6):
        plant = cases.random_plant(seed, states=3)
        adjacency = pc.StateAdjacency([1.0, 0.5, 2.0])
        noise = pc.design_output_noise(
            plant, horizon=6, budget=cases.BUDGET, adjacency=adjacency, max_std=np.inf
        )
        images = (
            pc.observability_stack(plant, 6)
            @ adjacency.moves(pc.trajectory_manifold(plant, 6)).columns
        )
        assert noise.design.cost == pytest.approx(
            oracles.least_cost(images, ALLOWED), rel=1e-6
        )
        total = sum(np.trace(noise.covariance(t)) for t in range(6))
        assert noise.design.cost == pytest.approx(total, rel=1e-10)


def test_a_weight_array_prices_the_noise():
    plant, adjacency = (
        cases.random_plant(3, states=2, outputs=1),
        pc.StateAdjacency(1.0),
    )
    root = np.random.default_rng(0).normal(size=(8, 8))
    noise = pc.design_output_noise(
        plant,
        horizon=8,
        budget=cases.BUDGET,
        adjacency=adjacency,
        weight=root @ root.T,
        max_std=np.inf,
    )
    images = (
        pc.observability_stack(plant, 8)
        @ adjacency.moves(pc.trajectory_manifold(plant, 8)).columns
    )
    assert noise.design.cost == pytest.approx(
        oracles.least_cost(images, ALLOWED, root @ root.T), rel=1e-6
    )


@pytest.mark.filterwarnings("ignore::privcontrol.numerics.errors.PrivacyWarning")
@pytest.mark.parametrize(
    "disturbed, options",
    [
        (False, {}), (False, {"family": "laplace"}), (False, {"family": "iid-gaussian"}), (False, {"floor": 0.3}),
        (True, {}), (True, {"family": "iid-gaussian"}),
    ],
)  # fmt: skip
def test_a_weight_of_one_sample_prices_every_sample_alike(disturbed, options):
    plant = cases.random_plant(4, states=3)
    adjacency = (
        pc.DisturbanceAdjacency({"u[0]": 0.5})
        if disturbed
        else pc.StateAdjacency(1.0, times=range(3))
    )
    request = {"horizon": 8, "budget": cases.BUDGET, "adjacency": adjacency} | options
    prices, W = np.array([100.0, 0.01]), np.array([[2.0, 1.0], [1.0, 3.0]])
    for each, whole in (
        (prices, np.kron(np.eye(8), np.diag(prices))),
        (W, np.kron(np.eye(8), W)),
    ):
        short, long = (
            pc.design_output_noise(plant, **request, weight=weight)
            for weight in (each, whole)
        )
        assert short.design.cost == pytest.approx(
            np.trace(whole @ oracles.stacked_covariance(short)), rel=1e-9
        )
        assert short.design.cost == pytest.approx(
            long.design.cost, rel=1e-8 if "family" not in options else 1e-6
        )


def test_a_loop_as_weight_gives_that_loop_the_least_cost():
    for seed in range(5):
        loop = cases.random_loop(seed, states=4)
        plant = cases.random_plant(seed, states=4)
        request = dict(
            horizon=20, budget=cases.BUDGET, adjacency=pc.StateAdjacency(1.0)
        )
        added = {}
        for weight in (None, loop):
            noise = pc.design_output_noise(
                plant, weight=weight, **request, max_std=np.inf
            )
            added[weight] = np.sum(
                loop.noise_weight(20)(noise.process.responses.reshape(40, -1)) ** 2
            )
        assert added[loop] <= added[None] * (1 + 1e-9)
        assert added[loop] == pytest.approx(noise.design.cost, rel=1e-10)


def test_a_ball_of_initial_states_has_the_closed_form():
    noise = cases.vehicle_noise(
        pc.InitialStateAdjacency({"position": 2.0, "velocity": 0.5})
    )
    np.testing.assert_allclose(noise.factor, np.diag([2.0, 0.5]) / ALLOWED, rtol=1e-12)
    assert noise.guarantee.gdp <= ALLOWED
    assert noise.design.gap < 1e-9


def test_states_that_no_output_sees_get_no_noise_and_cause_no_cost():
    plant = ct.ss(
        np.diag([0.9, 0.1]), [[1], [1]], [[1, 0]], 0, 1, states=["seen", "unseen"]
    )
    noise = pc.design_output_noise(
        plant,
        horizon=200,
        budget=cases.BUDGET,
        adjacency=pc.StateAdjacency(1.0),
        max_std=np.inf,
    )
    assert noise.factor[1].tolist() == [0.0]
    assert noise.factor.shape == (2, 1)
    seen = pc.StateAdjacency({"seen": 1.0})
    assert "unseen, which" not in str(
        pc.design_output_noise(
            plant, horizon=9, budget=cases.BUDGET, adjacency=seen, max_std=np.inf
        ).guarantee
    )
    with pytest.raises(
        pc.PrivacyError, match="no output depends on the protected states"
    ):
        pc.design_output_noise(
            plant,
            horizon=5,
            budget=cases.BUDGET,
            adjacency=pc.StateAdjacency({"unseen": 1.0}),
            max_std=np.inf,
        )


def test_a_weakly_seen_direction_is_still_covered():
    plant = ct.ss(
        [[0.9, 0.0], [0.0, 0.9]], [[1], [1]], [[1, 1 + 1e-13]], 0, 1, states=["a", "b"]
    )
    noise = pc.design_output_noise(
        plant, horizon=5, budget=cases.BUDGET, adjacency=pc.StateAdjacency(1.0)
    )
    # A is .9 I, so the outputs tell C x(0) alone, and the smallest move is the latest
    with mp.workdps(60):
        row = [mp.mpf(float(entry)) for entry in plant.C[0]]
        moved = max(row) / mp.mpf(plant.A[0, 0]) ** 4
        noisy = [
            sum(c * mp.mpf(s) for c, s in zip(row, column))
            for column in noise.factor.T.tolist()
        ]
        truth = float(moved / mp.norm(noisy))
    assert truth <= noise.guarantee.gdp <= min(ALLOWED, truth * (1 + 1e-12))


def test_a_single_late_time_of_a_dense_plant_is_covered_in_exact_arithmetic():
    plant = cases.random_plant(2, states=3)
    noise = pc.design_output_noise(
        plant,
        horizon=9,
        budget=cases.BUDGET,
        adjacency=pc.StateAdjacency({"s1": 1.0}, times=8),
        max_std=np.inf,
    )
    assert (
        float(oracles.privacy_shift(plant.A, noise.factor, [0, 1.0, 0], [8]))
        <= noise.guarantee.gdp
        <= ALLOWED
    )


@pytest.mark.parametrize("times", few([[0, 3, 7], [1], [0, 1]], of=1))
def test_fewer_protected_times_than_states_cost_no_more_than_their_own_span(times):
    plant, adjacency = (
        cases.random_plant(5, states=5),
        pc.StateAdjacency({"s1": 1.0}, times=times),
    )
    noise = pc.design_output_noise(
        plant, horizon=20, budget=cases.BUDGET, adjacency=adjacency, max_std=np.inf
    )
    images = (
        pc.observability_stack(plant, 20)
        @ adjacency.moves(pc.trajectory_manifold(plant, 20)).columns
    )
    assert noise.design.cost == pytest.approx(
        oracles.least_cost(images, ALLOWED), rel=1e-6
    )
    assert noise.design.gap < 1e-9
    assert (
        "outside the span of the protected moves, which the outputs reveal almost exactly"
        in noise.guarantee.sentence
    )
    assert pc.audit(noise, trials=20_000, rng=0).passed
    pure = pc.PrivacyBudget(epsilon=1.0, delta=0.0)
    laplace = pc.design_output_noise(
        plant,
        horizon=20,
        budget=pure,
        adjacency=adjacency,
        family="laplace",
        max_std=np.inf,
    )
    assert laplace.design.lower_bound == pytest.approx(
        2 * oracles.least_cost(images, 1.0), rel=1e-6
    )


@pytest.mark.parametrize("seed", few(range(20), of=5))
@pytest.mark.parametrize("kind", ["iid", "correlated"])
def test_structured_noise_disturbs_no_stable_loop_more_at_any_time(seed, kind):
    # the same guarantee, and an error covariance that is nowhere larger
    horizon, plant = 12, cases.random_plant(seed, states=3, outputs=1)
    query, adjacency = pc.output_query(plant, horizon), pc.StateAdjacency(1.0)
    rng = np.random.default_rng(seed)
    factor = (
        np.full(horizon, 2.0)
        if kind == "iid"
        else rng.normal(size=(horizon, horizon + 3))
    )
    mechanism = pc.Mechanism(query, pc.GaussianNoise(factor))
    structured = pc.core.structured_equivalent(mechanism, adjacency)
    assert structured.guarantee(adjacency).gdp == pytest.approx(
        mechanism.guarantee(adjacency).gdp, rel=1e-9
    )
    loop = cases.random_loop(seed, states=3, outputs=1)
    drive = np.eye(horizon).reshape(horizon, 1, horizon)
    response, _ = loop.data.dynamics.run(np.zeros((6, 1)), {"noise": drive}, horizon)
    for t in range(horizon):
        smaller, larger = (
            response[t] @ m.noise.covariance @ response[t].T
            for m in (structured, mechanism)
        )
        assert oracles.is_below(smaller, larger)


def test_the_guarantee_says_what_it_assumes_and_what_it_does_not_hide():
    text = cases.vehicle_noise().guarantee.sentence
    assert "\n" not in text
    for part in ("epsilon = 1 at delta = 0.01", "position by at most 1", "horizon 100 samples", "A and C exact",
                 "does not hide", "moves of velocity", "velocity and all differences over time", "reveal exactly", "disturbance"):  # fmt: skip
        assert part in text


def test_guarantees_of_other_horizons_or_adjacencies_do_not_add():
    noise = cases.vehicle_noise()
    assert (noise.guarantee + noise.guarantee).gdp == pytest.approx(
        np.sqrt(2) * noise.guarantee.gdp
    )
    with pytest.raises(ValueError, match="different horizon"):
        noise.guarantee + cases.vehicle_noise(horizon=50).guarantee
    with pytest.raises(ValueError, match="different adjacencies"):
        (
            noise.guarantee
            + cases.vehicle_noise(pc.StateAdjacency({"position": 2.0})).guarantee
        )


def test_noise_pickles_and_shows_sizes_only():
    noise = pickle.loads(pickle.dumps(cases.vehicle_noise()))
    assert noise.guarantee == cases.vehicle_noise().guarantee
    assert (
        repr(noise) == "OutputNoise(gaussian, structured rank 1, 1 output, horizon 100)"
    )


@pytest.mark.parametrize(
    "change, error, message",
    [
        ({"horizon": 0}, ValueError, "horizon: expected an integer >= 1"),
        (
            {"budget": (1.0, 1e-2)},
            TypeError,
            "budget: expected a PrivacyBudget, got tuple",
        ),
        (
            {"adjacency": 1.0},
            TypeError,
            "adjacency: expected an Adjacency such as StateAdjacency, got float",
        ),
        (
            {"adjacency": pc.StateAdjacency(1.0, times=10)},
            ValueError,
            "below the horizon 10",
        ),
        ({"family": "normal"}, ValueError, "family: expected one of 'gaussian'"),
        (
            {"weight": np.eye(3)},
            ValueError,
            r"weight: expected shape \(1,\) or \(1, 1\) .* \(T p, T p\) .* got \(3, 3\)",
        ),
        (
            {"weight": [-1.0]},
            ValueError,
            "weight: expected a positive semidefinite matrix",
        ),
        (
            {"weight": cases.vehicle_loop()},
            ValueError,
            "the loop has no cost: pass Q and R",
        ),
        ({"releases": 1.5}, TypeError, "releases: expected an integer"),
        ({"noise": 1}, TypeError, "unexpected keyword argument 'noise'"),
    ],
)
def test_bad_input_says_what_was_expected(change, error, message):
    call = {"horizon": 10, "budget": cases.BUDGET, "adjacency": cases.POSITION} | change
    with pytest.raises(error, match=message):
        pc.design_output_noise(pc.plants.vehicle(), **call)


def test_a_budget_out_of_range_is_refused():
    for budget, message in [
        (dict(epsilon=-1.0), "epsilon: expected a finite number >= 0"),
        (dict(epsilon=np.inf), "epsilon: expected a finite number"),
        (dict(epsilon=1.0, delta=1.0), "promises nothing"),
        (dict(epsilon=0.0), "epsilon and delta are both 0"),
    ]:
        with pytest.raises(ValueError, match=message):
            pc.PrivacyBudget(**budget)
    with pytest.raises(TypeError):
        pc.PrivacyBudget(1.0, 1e-2)


@pytest.mark.parametrize("floor", [0.0, 1.0])
def test_moves_seventy_decades_apart_get_noise_of_the_least_size(floor):
    plant, adjacency = (
        cases.random_plant(17, states=3, outputs=2, radius=1.02),
        pc.StateAdjacency(1.0),
    )
    noise = pc.design_output_noise(
        plant,
        horizon=100,
        budget=cases.BUDGET,
        adjacency=adjacency,
        floor=floor,
        max_std=np.inf,
    )
    largest = pc.output_query(plant, 100).sensitivity(adjacency)
    assert largest > 1e78
    assert noise.guarantee.gdp == pytest.approx(ALLOWED, rel=1e-6)
    assert noise.design.cost == pytest.approx(
        (largest / ALLOWED) ** 2, rel=1e-3
    )  # one move makes it all
    assert (
        noise.design.cost
        >= noise.design.lower_bound
        >= 0.999 * (largest / ALLOWED) ** 2
    )


def test_moves_whose_certificate_rounding_never_reaches_are_enlarged_until_it_does():
    """Enlarging by the excess alone went on for ever on this plant."""
    plant = ct.ss(
        [[0, 2.0**-16], [-0.9999847412109375, 1]], [[0], [0]], [[-1, 0]], 0, 1
    )
    adjacency = pc.StateAdjacency(
        [0.44566613819931117, 0.16056155519288778], charts="all"
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", pc.PrivacyWarning)
        noise = pc.design_output_noise(
            plant, horizon=4, budget=cases.BUDGET, adjacency=adjacency, max_std=np.inf
        )
    assert noise.guarantee.satisfies(cases.BUDGET)
    assert noise.design.gap < 1e-9


def size_by_gramian(plant, radii, horizon):
    """The root of the largest eigenvalue of sum_t A'^t C'C A^t, in the radii's units."""
    gramian = np.zeros_like(plant.A)
    power = np.eye(len(plant.A))
    for _ in range(min(horizon, 2_000)):  # 0.95^4000 is nothing
        gramian += power.T @ plant.C.T @ plant.C @ power
        power = plant.A @ power
    return np.sqrt(np.linalg.eigvalsh(radii[:, None] * gramian * radii).max())


def independent_noise_for_a_ball(plant, radii, horizon):
    return pc.design_output_noise(
        plant,
        horizon=horizon,
        budget=cases.BUDGET,
        adjacency=pc.InitialStateAdjacency(radii),
        family="iid-gaussian",
    )


@pytest.mark.parametrize("horizon", [1, 7, 60])
def test_independent_noise_for_a_ball_has_the_size_of_the_gramian(horizon):
    plant = cases.random_plant(3, states=3, outputs=1)
    radii = np.array([1.0, 0.3, 2.0])
    noise = independent_noise_for_a_ball(plant, radii, horizon)
    size = size_by_gramian(plant, radii, horizon)
    assert noise.process.scale == pytest.approx([size / ALLOWED], rel=1e-9)


@pytest.mark.slow
def test_independent_noise_for_a_ball_over_a_long_horizon_forms_no_identity():
    """For this plant of two states; the responses of others take more memory themselves."""
    plant = ct.ss([[0.9, 0.1], [0, 0.8]], [[0], [1]], [[1, 0]], 0, 0.1)
    radii = np.array([1.0, 1.0])
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    noise = independent_noise_for_a_ball(plant, radii, 100_000)
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    assert grown < 200_000  # kB
    size = size_by_gramian(plant, radii, 100_000)
    assert noise.process.scale == pytest.approx([size / ALLOWED], rel=1e-9)


@pytest.mark.parametrize("family", ["gaussian", "iid-gaussian", "iid-laplace"])
@pytest.mark.parametrize("resolution", [0.0, 0.1])
def test_a_secret_that_nothing_published_depends_on_is_refused(family, resolution):
    """A disturbance at the last sample got noise of 1e-323 and a guarantee of 6.8."""
    if resolution and family == "gaussian":
        return  # it asks for a floor first
    with pytest.raises(pc.PrivacyError, match="no hidden move changes"):
        pc.design_output_noise(
            pc.plants.vehicle(),
            horizon=5,
            budget=cases.BUDGET,
            adjacency=pc.DisturbanceAdjacency({"velocity": 1.0}, times=4),
            family=family,
            resolution=resolution,
        )


@pytest.mark.parametrize(
    "secret",
    [
        pc.DisturbanceAdjacency({"u[0]": 1.0}),
        pc.DisturbanceAdjacency({"u[0]": 1.0}, norm="l2"),
        pc.StateAdjacency({"s0": 1.0}, times=0),
    ],
)
@pytest.mark.parametrize("resolution, alone", [(0.001, False), (0.05, True)])
def test_independent_noise_is_returned_where_a_grid_makes_it_cheaper(
    secret, resolution, alone
):
    """The best noise beside a floor of 0.3 cost up to six times as much on a coarse grid.

    Over five samples the grid's steps take .37 of a shift of .5 through that floor, and a
    small part of it through larger noise.
    """
    plant = cases.random_plant(1, states=1, inputs=1, outputs=1, radius=0.8)
    asked = {
        "horizon": 5,
        "budget": pc.PrivacyBudget(gdp=0.5),
        "adjacency": secret,
        "models": "exact",
        "resolution": resolution,
    }
    noise = pc.design_output_noise(plant, floor=0.3, **asked)
    other = pc.design_output_noise(plant, family="iid-gaussian", **asked)
    assert noise.design.cost <= other.design.cost * (1 + 1e-6)
    assert (len(noise.parts) == 1) == alone


@pytest.mark.parametrize("resolution", [0.0, 0.05])
@pytest.mark.parametrize(
    "secret",
    [
        pc.StateAdjacency({"position": 1.0}),
        pc.StateAdjacency(1.0, times=0),
        pc.DisturbanceAdjacency({"velocity": 0.3}),
        pc.InitialStateAdjacency(1.0, norm=1),
    ],
)
def test_independent_laplace_noise_is_charged_sample_by_sample(secret, resolution):
    """As one coordinate of the whole epsilon delta was up to millions of times too large.

    The truth is sampled: the mean of max(0, 1 - exp(epsilon - loss)) over 200,000 draws,
    for the worst move, within five standard errors.
    """
    vehicle, horizon = pc.plants.vehicle(), 10
    noise = pc.design_output_noise(
        vehicle,
        horizon=horizon,
        budget=pc.PrivacyBudget(epsilon=1.0),
        adjacency=secret,
        family="iid-laplace",
        resolution=resolution,
        max_std=np.inf,
    )
    assert noise.guarantee.epsilon(0.0) <= 1.0
    assert noise.guarantee.epsilon(0.0) == pytest.approx(1.0, rel=1e-9)
    A, C = np.asarray(vehicle.A), np.asarray(vehicle.C)
    if isinstance(secret, pc.DisturbanceAdjacency):
        first = np.array([0.0, 0.3])
        moves = [
            np.r_[np.zeros(t + 1), oracles.dense_observability(A, C, horizon) @ first]
            for t in range(horizon - 1)
        ]
        moves = np.array([move[:horizon] for move in moves]).T
    else:
        vectors = secret.moves(pc.trajectory_manifold(vehicle, horizon)).vectors
        moves = oracles.dense_observability(A, C, horizon) @ vectors
    shifts = (np.abs(moves) + resolution) / noise.process.scale[0]
    rng = np.random.default_rng(0)
    eta = rng.laplace(size=(200_000, horizon))
    for epsilon in (0.2, 0.6):
        worst = 0.0
        for shift in np.unique(np.sort(shifts.T.round(12), axis=1), axis=0):
            loss = np.sum(np.abs(eta + shift) - np.abs(eta), axis=1)
            gained = np.maximum(0.0, -np.expm1(epsilon - loss))
            error = gained.std() / np.sqrt(len(gained))
            worst = max(worst, gained.mean() - 5 * error)
        claimed = noise.guarantee.delta(epsilon)
        assert worst <= claimed
        loose = np.exp(epsilon / 2 - 0.5)
        assert claimed < 0.7 * (1 - loose)  # delta of one coordinate


@pytest.mark.parametrize("norm", [1, 2, np.inf])
@pytest.mark.parametrize("seed", few(range(4), of=2))
@pytest.mark.parametrize("horizon", [1, 2, 7, 20])
def test_a_sensitivity_is_the_largest_norm_of_a_window_of_the_response(
    seed, norm, horizon
):
    """Each move's response is a window of a longer one, of which it sums two blocks."""
    plant = cases.random_plant(seed, states=3, outputs=1 + seed % 2)
    secret = pc.StateAdjacency({"s0": 1.0, "s2": 0.3})
    moves = secret.moves(pc.trajectory_manifold(plant, horizon)).vectors
    dense = oracles.dense_observability(plant.A, plant.C, horizon) @ moves
    sizes = np.linalg.norm(dense, ord=norm, axis=0)
    found = pc.output_query(plant, horizon).sensitivity(secret, norm)
    assert found == pytest.approx(sizes.max(), rel=1e-9)
    assert found >= sizes.max() * (1 - 1e-12)
    found = secret.moves(pc.trajectory_manifold(plant, horizon))
    np.testing.assert_allclose(found.output_sizes(plant, norm), sizes, rtol=1e-9)


@pytest.mark.parametrize("unit", [1e-170, 1.0, 1e150])
@pytest.mark.parametrize("events", [1, 2])
def test_units_of_an_output_do_not_matter_to_what_a_disturbance_does(unit, events):
    """An output in units 1e170 times larger was said to hold nothing of it."""
    plant = ct.ss(0.5, 1, unit, 0, 1)
    secret = pc.DisturbanceAdjacency(1.0, events=events, separation=2 * (events > 1))
    noise = pc.design_output_noise(
        plant,
        horizon=3,
        budget=pc.PrivacyBudget(gdp=1.0),
        adjacency=secret,
        family="iid-gaussian",
        max_std=np.inf,
    )
    (part,) = noise.parts
    one = math.hypot(1.0, 0.5)
    assert unit * one * (1 - 1e-12) <= part.scale[0] <= unit * events * one * (1 + 1e-9)


@pytest.mark.parametrize("factor", [None, np.eye(2)])
@pytest.mark.parametrize("family", ["gaussian", "laplace"])
def test_a_ball_of_states_that_no_output_sees_needs_no_noise(family, factor):
    plant = ct.ss(np.diag([0.5, 0.8]), np.ones((2, 1)), [[1.0, 0.0]], 0, 1)
    budget = pc.PrivacyBudget(epsilon=1.0, delta=0.0 if family == "laplace" else 1e-2)
    secret = pc.InitialStateAdjacency({"x[1]": 1.0})
    with pytest.raises(pc.PrivacyError, match="no noise is needed"):
        pc.design_output_noise(
            plant,
            horizon=5,
            budget=budget,
            adjacency=secret,
            family=family,
            factor=factor,
        )
