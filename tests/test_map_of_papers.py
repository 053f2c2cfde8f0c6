"""The map of the papers, at the end of docs/papers_and_errata.md: complete, and true.

Every row makes a claim, that something of the papers is there. Each claim is tried here
by a second route: the definition written out, or a closed form.
"""

import math
import re
from functools import reduce
from pathlib import Path

import numpy as np
import pytest
from oracles import kappa

import privcontrol as pc
from privcontrol import core
from privcontrol.consensus import optimal_consensus_epsilon

BUDGET = pc.PrivacyBudget(epsilon=1.0, delta=1e-2)
PURE = pc.PrivacyBudget(epsilon=1.0)
LINE = core.AffineManifold([[1.0, -2.0]], [0.7])
IDENTITY = core.LinearQuery(np.eye(2), LINE)
VEHICLE = pc.plants.vehicle()
ADJACENT = core.ManifoldAdjacency(1.0)

#: How many of each numbered thing the papers have.
NUMBERED = {
    "DPAM": {
        "Definition": 6,
        "Lemma": 1,
        "Theorem": 4,
        "Proposition": 1,
        "Algorithm": 2,
        "Assumption": 1,
        "Example": 2,
        "Figure": 7,
    },
    "DPAM-short": {
        "Definition": 6,
        "Lemma": 1,
        "Theorem": 3,
        "Algorithm": 2,
        "Assumption": 1,
        "Example": 1,
        "Remark": 3,
        "Figure": 3,
    },
    "IP": {"Definition": 5, "Theorem": 3, "Proposition": 4, "Remark": 10, "Figure": 7},
}
ERRATA_PAGE = Path(__file__).parents[1] / "docs" / "papers_and_errata.md"


def map_of(paper):
    """The rows of a paper's table: what is named, and where it lives."""
    page = ERRATA_PAGE.read_text(encoding="utf8")
    page = page[page.index("## Where everything is") :]
    table = page[page.index(f"| {paper} | here |") :].split("\n\n")[0]
    rows = [line.strip("| ").split(" | ", 1) for line in table.splitlines()[2:]]
    return [(named, place.strip()) for named, place in rows]


def listed(rows, kind):
    """Numbers of a kind in "Theorem 3, ..." or "Lemma 1, Theorems 1 and 2"."""
    numbers = []
    for named, _ in rows:
        for first, word, last in re.findall(
            rf"\b{kind}s? (\d+)(?: (to|and) (\d+))?", named
        ):
            stop = int(last) if word else int(first)
            numbers.extend(range(int(first), stop + 1))
    return numbers


def found(name):
    """What a name of the map stands for, at the top level or in core."""
    for home in (pc, core):
        try:
            return reduce(getattr, name.split("."), home)
        except AttributeError:
            continue
    raise AssertionError(f"{name} is nowhere")


def is_called(name):
    """Whether a name of the map is a function, a class, or a property of one."""
    owner, _, attribute = name.rpartition(".")
    try:
        target = found(name)
    except AssertionError:
        fields = getattr(found(owner), "__dataclass_fields__", {}) if owner else {}
        return attribute in fields
    return callable(target) or isinstance(target, property) or bool(owner)


@pytest.mark.parametrize("paper", NUMBERED)
def test_the_map_of_the_papers_is_complete(paper):
    """Every numbered thing of a paper stands in its table once, and nothing else does."""
    rows = map_of(paper)
    for kind, count in NUMBERED[paper].items():
        assert sorted(listed(rows, kind)) == list(range(1, count + 1)), kind
    kinds = {
        word for named, _ in rows for word in re.findall(r"([A-Z]\w+?)s? \d", named)
    }
    assert kinds <= {*NUMBERED[paper], "Section", "Footnote"}
    assert all(place for _, place in rows)


@pytest.mark.parametrize("paper", NUMBERED)
def test_the_places_of_the_map_exist(paper):
    docs = ERRATA_PAGE.parent
    examples = docs.parent / "examples"
    for _, place in map_of(paper):
        for name in re.findall(r"`([A-Za-z_.]+)`", re.sub(r"{doc}`[^`]*`", "", place)):
            owner, _, attribute = name.rpartition(".")
            if name == "domain":  # a keyword
                continue
            target = found(owner) if owner else found(attribute)
            held = getattr(target, "__dataclass_fields__", {})
            known = hasattr(target, attribute) or attribute in held or not owner
            assert known, name
        for document in re.findall(r"{doc}`([^`]*)`", place):
            if document.startswith("gallery/"):
                script = examples / (document.removeprefix("gallery/") + ".py")
                assert script.exists(), document
            else:
                assert (docs / f"{document}.md").exists(), document
        page = ERRATA_PAGE.read_text(encoding="utf8")
        for number in re.findall(r"\bE(\d+)\b", place):
            assert f"## E{number}. " in page


# -- what the rows claim -------------------------------------------------------------


def moves_of_the_line():
    """Definition 4 on x1 - 2 x2 = const: either entry moves by one, the other follows."""
    return np.array([[1.0, 0.5], [2.0, 1.0]]).T


def shift_of(noise, moves):
    return np.linalg.norm(np.linalg.pinv(noise) @ moves, axis=0).max()


def adjacency_in_all_of_space():
    free = core.LinearQuery(np.eye(2), core.AffineManifold([[0.0, 0.0]]))
    mechanism = core.Mechanism(free, core.GaussianNoise([4.0, 4.0]))
    directions = core.DirectionAdjacency([[2.0, 0.0], [0.0, 2.0]])
    for secret in (core.BallAdjacency(2.0), directions):
        assert mechanism.guarantee(secret).gdp == pytest.approx(0.5)


def a_budget_is_met_as_defined():
    shift = 1 / core.gaussian_std(1.0, 1e-2)
    assert kappa(1.0, shift) <= 1e-2 < kappa(1.0, shift * (1 + 1e-6))
    noise = core.GaussianNoise([1 / shift])
    mechanism = core.Mechanism(core.LinearQuery([[1.0]]), noise)
    promised = mechanism.guarantee(core.DirectionAdjacency([[1.0]]))
    assert promised.satisfies(pc.PrivacyBudget(epsilon=1.0, delta=1.0001e-2))
    assert not promised.satisfies(pc.PrivacyBudget(epsilon=0.99, delta=1e-2))


def a_manifold_is_its_equations():
    assert LINE.contains([1.3, 1.0])
    assert not LINE.contains([1.3, 1.1])
    np.testing.assert_allclose(LINE.D @ [1.3, 1.0] + LINE.b, 0, atol=1e-12)


def adjacent_data_on_the_line():
    hidden = LINE.kernel @ ADJACENT.moves(LINE).columns
    known = moves_of_the_line()
    assert np.abs(hidden).max() == pytest.approx(2.0)  # x2 moves by one, x1 by two
    assert all(any(np.allclose(abs(m), abs(k)) for k in known.T) for m in hidden.T)


def privacy_over_a_manifold():
    noise = core.GaussianNoise([[3.0], [1.5]])
    promised = core.Mechanism(IDENTITY, noise).guarantee(ADJACENT)
    shift = shift_of(noise.factor, moves_of_the_line())
    assert promised.gdp == pytest.approx(shift, rel=1e-6)
    assert promised.delta(1.0) == pytest.approx(kappa(1.0, shift), rel=1e-5)


def structured_noise():
    factor = np.array([[1.0], [2.0]])
    assert (core.GaussianNoise(factor).covariance == factor @ factor.T).all()
    assert (core.LaplaceNoise(factor).covariance == 2 * factor @ factor.T).all()


def the_gaussian_loss():
    for epsilon, y in ((0.5, 0.3), (3.0, 2.0)):
        assert core.kappa(epsilon, y) == pytest.approx(kappa(epsilon, y), rel=1e-9)


def laplace_condition():
    noise = core.LaplaceNoise([3.0, 1.5])
    promised = core.Mechanism(IDENTITY, noise).guarantee(ADJACENT)
    by_hand = abs(moves_of_the_line() / [[3.0], [1.5]]).sum(axis=0).max()
    assert promised.epsilon(0.0) == pytest.approx(by_hand, rel=1e-12)


def noise_for_a_plant(**shape):
    """gamma(t) = C A^t S eta, and the shift of A^-t v_k through it."""
    noise = pc.design_output_noise(
        VEHICLE, horizon=4, budget=BUDGET, adjacency=pc.StateAdjacency(1.0), **shape
    )
    A, C = VEHICLE.A, VEHICLE.C
    stack = np.vstack([C @ np.linalg.matrix_power(A, t) for t in range(4)])
    total = np.cov(noise.sample(200, rng=0)[0].T)
    across = np.eye(4) - stack @ np.linalg.pinv(stack)
    assert np.abs(across @ total).max() < 1e-3 * np.abs(total).max()
    dense = np.block([[noise.covariance(t, s) for s in range(4)] for t in range(4)])
    inverse = np.linalg.pinv(dense, rcond=1e-9)
    moved = [stack @ np.linalg.matrix_power(np.linalg.inv(A), t) for t in range(4)]
    shifts = [np.diag(m.T @ inverse @ m).max() for m in moved]
    assert math.sqrt(max(shifts)) == pytest.approx(noise.guarantee.gdp, rel=1e-5)
    return noise


def own_sigma():
    noise_for_a_plant()
    # Sigma of any shape is kept, or scaled up to the budget
    noise_for_a_plant(covariance=[[4.0, 1.0], [1.0, 9.0]])


def one_sigma():
    noise_for_a_plant(factor=[[2.0, 0.0], [1.0, 3.0]])


def consensus():
    return pc.private_consensus(pc.plants.ten_agent_graph(), BUDGET, radius=1.0)


def privacy_of_consensus():
    network = consensus()
    assert (network.scales == network.scales[0]).all()
    assert kappa(1.0, 1 / network.scales[0]) == pytest.approx(1e-2, rel=1e-6)


def accuracy_of_consensus():
    network, values = consensus(), pc.plants.ten_agent_values()
    step = np.eye(10) - network.laplacian.toarray()
    far = np.linalg.matrix_power(step, 30)
    runs = network.simulate(values, 30, trials=4000, rng=0)
    mean = np.asarray(runs.states).mean(axis=1)[:, -1]
    deviation = network.scales[0] * np.linalg.norm(np.eye(10) - far, axis=1)
    assert (np.abs(mean - far @ values) < 5 * deviation / np.sqrt(4000)).all()
    limit = network.limit_error_bound(values)
    assert limit == pytest.approx(10 * network.scales[0] ** 2)
    assert network.error_bound(values, 400)[-1] == pytest.approx(limit)
    np.testing.assert_allclose(
        network.mean_error(values, 30)[:, -1], far @ values - values.mean(), atol=1e-9
    )
    assert np.abs(network.mean_error(values, 200)[:, -1]).max() < 1e-8
    noise = np.asarray(runs.outputs - runs.states)[:, :, 0]
    found = np.sqrt(runs.squared_error("state"))
    for trial in range(50):
        bound = network.path_error_bound(values, 30, noise=noise[:, trial])
        assert (found[trial] <= bound * (1 + 1e-9)).all()


def algorithm_1():
    design = core.design_gaussian(IDENTITY, ADJACENT, BUDGET)
    moves, allowed = moves_of_the_line(), 1 / core.gaussian_std(1.0, 1e-2)
    assert shift_of(design.noise.factor, moves) == pytest.approx(allowed, rel=1e-6)


def algorithm_1_with_one_sigma():
    basis = np.array([[2.0], [1.0]])
    design = core.design_gaussian(IDENTITY, ADJACENT, BUDGET, basis=basis)
    sensitivity = shift_of(basis, moves_of_the_line())
    by_hand = sensitivity * core.gaussian_std(1.0, 1e-2)
    np.testing.assert_allclose(design.noise.factor, by_hand * basis, rtol=1e-6)


def algorithm_2():
    basis = np.array([[2.0], [1.0]])
    design = core.design_laplace(IDENTITY, ADJACENT, PURE, basis=basis)
    sensitivity = abs(np.linalg.pinv(basis) @ moves_of_the_line()).max()
    np.testing.assert_allclose(design.noise.factor, sensitivity * basis, rtol=1e-6)


def what_is_not_observed_needs_no_noise():
    """An unobservable state is published by nothing; the other one is hidden."""
    import control as ct

    plant = ct.ss(np.diag([0.5, 0.9]), np.ones((2, 1)), [[1.0, 0.0]], 0, 1)
    noise = pc.design_output_noise(
        plant, horizon=3, budget=BUDGET, adjacency=pc.StateAdjacency({0: 1.0})
    )
    assert noise.guarantee.satisfies(BUDGET)


def one_draw_for_a_run():
    states = pc.trajectory_manifold(VEHICLE, 3)
    secret = pc.StateAdjacency({"position": 1.0})
    run = core.AdaptiveReleases(states, secret, BUDGET, fresh=False)
    x, size = np.array([-20.0, 0.0]), 1.9
    run.extend(x)
    for t in range(3):
        run.release(VEHICLE.C, core.GaussianNoise([[size]]), rng=0)
        if t < 2:
            forced = VEHICLE.B[:, 0] * -run.published[-1].item()
            x = VEHICLE.A @ x + forced
            run.extend(x, offset=forced)
    assert run.spent == pytest.approx(1 / size, rel=1e-6)


def equations_of_a_trajectory():
    manifold = pc.trajectory_manifold(VEHICLE, 3)
    A, I, O = VEHICLE.A, np.eye(2), np.zeros((2, 2))
    np.testing.assert_array_equal(manifold.D, np.block([[A, -I, O], [O, A, -I]]))
    assert not manifold.b.any()


def the_optimal_privacy_level():
    for readout, share in (("state", 9), ("message", 1)):
        found = optimal_consensus_epsilon(
            20.0, 10, 1.0, delta=0.01, family="gaussian", readout=readout
        )
        assert kappa(found, math.sqrt(share / 20)) == pytest.approx(0.01, rel=1e-6)


def other_controllers():
    noise = pc.design_output_noise(
        VEHICLE, horizon=5, budget=BUDGET, adjacency=pc.StateAdjacency(1.0)
    )
    loop = pc.private_lqg(VEHICLE, 1, 1, 1, 1, noise)

    def mine(t, estimate, reference):
        return -np.tanh(estimate[:1])

    assert loop.simulate(controller=mine, trials=2, rng=0).inputs.shape[-1] == 5
    assert loop.guarantee.gdp == noise.guarantee.gdp


def nonlinear_queries():
    reach = np.linalg.norm(moves_of_the_line(), axis=0).max()
    private = core.OutputPerturbation(
        np.sin, BUDGET, adjacency=ADJACENT, manifold=LINE, lipschitz=1
    )
    assert kappa(1.0, reach / private.scale) == pytest.approx(1e-2, rel=1e-6)


def other_notions():
    promised = core.Mechanism(IDENTITY, core.GaussianNoise([4.0, 4.0])).guarantee(
        core.BallAdjacency(1.0)
    )
    y = promised.gdp
    assert promised.rdp(3.0) == pytest.approx(1.5 * y**2)
    assert promised.zcdp == pytest.approx(y**2 / 2)


def lap_output():
    private = core.OutputPerturbation(
        np.sin, PURE, radius=0.3, lipschitz=2.0, family="laplace"
    )
    assert private.scale == pytest.approx(0.6)
    assert private.guarantee.epsilon(0.0) == pytest.approx(1.0)


def gauss(kind, reach, **extra):
    private = kind(np.sin, BUDGET, radius=0.3, **extra)
    assert private.scale == pytest.approx(reach * core.gaussian_std(1.0, 1e-2))
    assert private.guarantee.delta(1.0) <= 1e-2


def gauss_output():
    gauss(core.OutputPerturbation, 0.6, lipschitz=2.0)


def gauss_input():
    gauss(core.InputPerturbation, 0.3)


def ball(epsilon, delta=0.0, radius=0.1):
    return core.PrivacyGuarantee.black_box(
        pc.PrivacyBudget(epsilon=epsilon, delta=delta), core.BallAdjacency(radius)
    )


def inference_privacy():
    assert ball(0.5).epsilon(0.0) == 0.5
    assert ball(0.5, 1e-5).delta(0.5) == pytest.approx(1e-5)


def post_processing():
    private = core.InputPerturbation(np.sin, BUDGET, radius=0.3)
    signs = private.then(np.sign)
    assert signs.guarantee == private.guarantee
    np.testing.assert_array_equal(signs([0.2], rng=0), np.sign(private([0.2], rng=0)))


def composition():
    both = core.compose_sequential(ball(0.5, 1e-5), ball(0.3, 2e-5, radius=0.2))
    assert both.scope.radius == 0.1
    assert both.delta(0.8) <= 3e-5


def parallel():
    chunks = [core.InputPerturbation(np.sin, BUDGET, radius=0.3).guarantee] * 2
    joint = core.compose_parallel(*chunks)
    assert joint.gdp == pytest.approx(chunks[0].gdp)  # the 2-norm of both is 0.3
    assert core.compose_sequential(*chunks).gdp > 1.4 * joint.gdp
    with pytest.raises(ValueError, match="chunks that move freely"):
        core.compose_parallel(core.Mechanism(
            IDENTITY, core.GaussianNoise([1.0, 1.0])
        ).guarantee(core.BallAdjacency(1.0)), *chunks)  # fmt: skip


def other_radii_of_chunks():
    near, far = ball(0.5, radius=0.1), ball(0.5, radius=0.2)
    assert core.compose_parallel(near, far).epsilon(0.0) <= 1.0


def chaining():
    chained = core.chain(ball(0.5, 1e-5), 0.3)
    by_hand = 1e-5 * math.expm1(1.5) / math.expm1(0.5)
    assert chained.delta(1.5) == pytest.approx(by_hand, rel=1e-9)


def anything_in_a_box():
    private = core.InputPerturbation(
        np.sin, PURE, radius=math.inf, domain=(-1.0, 1.0), size=1, family="laplace"
    )
    assert private.scale == pytest.approx(2.0)
    np.testing.assert_array_equal(private([7.0], rng=0), private([1.0], rng=0))
    assert private.guarantee.epsilon(0.0) == pytest.approx(1.0)


def metrics():
    def halved(x):
        return np.asarray(x) / 2

    options = dict(radius=0.3, metric=(halved, 0.5))
    for private in (
        core.InputPerturbation(np.sin, BUDGET, **options),
        core.OutputPerturbation(np.sin, BUDGET, lipschitz=1.0, **options),
    ):
        assert private.scale == pytest.approx(0.15 * core.gaussian_std(1.0, 1e-2))
    assert core.induced_norm([[1.0, 0.0], [0.0, 2.0]], 3, 3) == pytest.approx(2.0)
    units = core.InputPerturbation(np.sin, BUDGET, radius=[0.3, 3.0], norm=1.5)
    assert units.scale[1] == pytest.approx(10 * units.scale[0])


def proportional_to_distance():
    known = core.InputPerturbation(
        np.sin, PURE, radius=0.1, norm=1, family="laplace"
    ).guarantee
    for factor in (0.5, 3.0):
        chained = core.chain(known, factor * 0.1)
        assert chained.epsilon(0.0) == pytest.approx(factor)


def constants_of_a_box():
    """max(0, x) - max(0, x - 5) on [-1, 4]: the second neuron is always off."""
    network = core.ClippedNetwork(
        [[[1], [1]], [[1, -1]]], [[0, -5], [0]], low=-1, high=4
    )
    assert network([9.0]) == network([4.0]) == 4.0
    assert 1.0 <= network.lipschitz(method="product") <= 1.0 + 1e-6


def the_cloud_scheme():
    """The gate's noise enters what the controller sees, and nothing else does."""
    noise = pc.design_output_noise(
        VEHICLE, horizon=5, budget=BUDGET, adjacency=pc.StateAdjacency(1.0)
    )
    loop = pc.private_loop(VEHICLE, [[3.4240, 4.3095]], [[0.8266], [0.6973]], noise)
    run = loop.simulate(trials=3, rng=0, initial_state=[1.0, 0.0])
    published, states = np.asarray(run.outputs)[0], np.asarray(run.states)[:2]
    added = published - states[0]
    from_draw = (
        noise.process.responses @ np.asarray(loop_draw(noise, added))
    ).squeeze()
    np.testing.assert_allclose(added, from_draw.T, atol=1e-8)


def loop_draw(noise, added):
    """The entries of eta that give the noise of each run."""
    rows = noise.process.responses.reshape(5, -1)
    return np.linalg.lstsq(rows, added.T, rcond=None)[0]


def tracking_errors():
    noise = pc.design_output_noise(
        VEHICLE, horizon=20, budget=BUDGET, adjacency=pc.StateAdjacency({"position": 1})
    )
    loop = pc.private_loop(VEHICLE, [[3.4240, 4.3095]], [[0.8266], [0.6973]], noise)
    run = loop.simulate(trials=4000, rng=0, initial_state=[-20.0, 0.0])
    squares = np.asarray(run.states)[:2] ** 2
    exact = loop.mean_square_error(initial_state=[-20.0, 0.0])
    spread = squares.std(axis=1) / np.sqrt(4000)
    assert (np.abs(squares.mean(axis=1) - exact) <= 5 * spread + 1e-9).all()


def mean_errors():
    network, values = consensus(), pc.plants.ten_agent_values()
    runs = np.asarray(network.simulate(values, 12, trials=2000, rng=0).states)
    off = np.abs(runs.mean(axis=1) - values.mean() - network.mean_error(values, 12))
    assert (off <= 5 * runs.std(axis=1) / np.sqrt(2000) + 1e-9).all()


def mean_square_errors(family="gaussian"):
    network = pc.private_consensus(
        pc.plants.ten_agent_graph(), BUDGET if family == "gaussian" else PURE,
        radius=1.0, family=family,
    )  # fmt: skip
    values = pc.plants.ten_agent_values()
    exact = network.mean_square_error(values, 400, readout="state")
    assert exact[-1] == pytest.approx(0.9 * network.limit_error_bound(), rel=1e-9)
    runs = network.simulate(values, 12, trials=2000, rng=0).squared_error("state")
    spread = runs.std(axis=0) / np.sqrt(2000)
    assert (np.abs(runs.mean(axis=0) - exact[:13]) <= 5 * spread + 1e-6).all()


def laplace_errors():
    mean_square_errors("laplace")


def two_numbers_on_a_line():
    k = 0.25
    line = core.LinearQuery(np.eye(2), core.AffineManifold([[1.0, -k]]))
    design = core.design_laplace(line, ADJACENT, PURE, basis=[[k], [1.0]])
    assert np.abs(design.noise.factor[1]) == pytest.approx(max(1.0, 1 / k))


def three_numbers():
    """DPAM Example 2, D = [1, -1, -1]: by all two-entry moves."""
    manifold = core.AffineManifold([[1.0, -1.0, -1.0]])
    query = core.LinearQuery(np.eye(3), manifold)
    design = core.design_gaussian(query, ADJACENT, BUDGET)
    moves = np.array([[1.0, 1, 0], [1, 0, 1], [0, 1, -1]]).T
    shift = shift_of(design.noise.factor, moves)
    assert shift == pytest.approx(1 / core.gaussian_std(1.0, 1e-2), rel=1e-6)


def no_product_of_metric_spaces():
    """On the line no entry moves alone, and chunks are not disjoint secrets."""
    moved = LINE.kernel @ ADJACENT.moves(LINE).columns
    assert (np.abs(moved) > 0).all()
    promised = core.Mechanism(IDENTITY, core.GaussianNoise([3.0, 3.0]))
    with pytest.raises(ValueError, match="manifold"):
        core.compose_parallel(*[promised.guarantee(core.BallAdjacency(1.0))] * 2)


def a_fixed_number_of_records():
    with pytest.raises(ValueError, match=r"3|columns|size"):
        core.LinearQuery(np.ones((1, 3)), LINE)


def limits_of_output_noise():
    """A model without a global constant has no size; those with one need their own."""
    with pytest.raises(TypeError, match="lipschitz"):
        core.OutputPerturbation(np.square, BUDGET, radius=0.3)
    W = [[[2.0, 0.0], [0.0, 1.0]], [[1.0, 1.0]]]
    bound = core.feedforward_lipschitz(W)
    assert math.sqrt(5) * (1 - 1e-6) <= bound <= math.sqrt(8) * (1 + 1e-9)
    layer = core.SLLLayer(np.eye(2), np.zeros(2), np.ones(2))
    assert core.SLLNetwork([layer], np.eye(2)).lipschitz <= 1 + 1e-9


def input_or_output():
    """Input noise knows nothing of the model, output noise grows with its constant."""
    alone = core.InputPerturbation(np.tanh, BUDGET, radius=0.3).scale
    for steepness in (0.5, 2.0):
        other = core.OutputPerturbation(
            np.tanh, BUDGET, radius=0.3, lipschitz=steepness
        )
        assert other.scale == pytest.approx(steepness * alone)


def adjacent_inputs_look_alike():
    private = core.InputPerturbation(np.tanh, BUDGET, radius=0.3)
    pair = (np.array([0.0]), np.array([0.3]))
    options = dict(inputs=pair, claim=private.guarantee, trials=20_000, rng=0)
    held = core.audit(private, **options)
    assert held.epsilon_lower <= held.epsilon_claimed
    loud = core.InputPerturbation(np.tanh, BUDGET, radius=0.1)
    refuted = core.audit(loud, **options)
    assert refuted.epsilon_lower > refuted.epsilon_claimed


def both_perturbations():
    x = np.array([0.4, -0.2])
    inside = core.InputPerturbation(np.tanh, BUDGET, radius=0.3)
    outside = core.OutputPerturbation(np.tanh, BUDGET, radius=0.3, lipschitz=1.0)
    noise = outside(x, rng=0) - np.tanh(x)
    np.testing.assert_allclose(inside(x, rng=0), np.tanh(x + noise), rtol=1e-12)


def accuracy_falls_with_the_radius():
    """Signs of scores: right more often at a smaller radius, and at a larger epsilon."""
    x = np.random.default_rng(0).normal(size=(4000, 1))
    right = []
    for radius, epsilon in ((0.05, 1.0), (0.2, 1.0), (0.2, 5.0)):
        budget = pc.PrivacyBudget(epsilon=epsilon, delta=1e-5)
        signs = core.OutputPerturbation(
            np.tanh, budget, radius=radius, lipschitz=1.0
        ).then(np.sign)
        right.append((signs(x, rng=1) == np.sign(x)).mean())
    assert right[0] > right[1] < right[2]


#: What the rows claim, by the beginning of a row: each a test.
CLAIMS = {
    "DPAM": {
        "Definition 1": adjacency_in_all_of_space,
        "Definition 2": a_budget_is_met_as_defined,
        "Definition 3": a_manifold_is_its_equations,
        "Definition 4": adjacent_data_on_the_line,
        "Definition 5": privacy_over_a_manifold,
        "Definition 6": structured_noise,
        "Lemma 1": the_gaussian_loss,
        "Theorem 1": privacy_over_a_manifold,
        "Theorem 2": laplace_condition,
        "Theorem 3": own_sigma,
        "Theorem 4": privacy_of_consensus,
        "Proposition 1": accuracy_of_consensus,
        "Algorithm 1": algorithm_1,
        "Algorithm 2": algorithm_2,
        "Assumption 1": what_is_not_observed_needs_no_noise,
        "Eq. (11)": one_draw_for_a_run,
        "Eqs. (19) and (20)": equations_of_a_trajectory,
        "Section 6.2": the_optimal_privacy_level,
        "Footnote 2": other_controllers,
        "Example 1": two_numbers_on_a_line,
        "Example 2": three_numbers,
        "Figure 1": the_cloud_scheme,
        "Figure 2": tracking_errors,
        "Figure 3": tracking_errors,
        "Figure 4": consensus,
        "Figure 5": mean_errors,
        "Figure 6": mean_square_errors,
        "Figure 7": laplace_errors,
        "Future work, nonlinear queries": nonlinear_queries,
        "Future work, Rényi and zero-concentrated privacy": other_notions,
    },
    "DPAM-short": {
        "Remark 1": adjacent_data_on_the_line,
        "Remark 2": no_product_of_metric_spaces,
        "Remark 3": a_fixed_number_of_records,
        "Theorem 3": one_sigma,
        "Algorithm 1": algorithm_1_with_one_sigma,
    },
    "IP": {
        "Definition 1": inference_privacy,
        "Definition 2": inference_privacy,
        "Definition 3": lap_output,
        "Definition 4": gauss_output,
        "Definition 5": gauss_input,
        "Theorem 1": lap_output,
        "Theorem 2": gauss_output,
        "Theorem 3": gauss_input,
        "Proposition 1": post_processing,
        "Proposition 2": composition,
        "Proposition 3": parallel,
        "Proposition 4": chaining,
        "Remark 1": anything_in_a_box,
        "Remark 2": metrics,
        "Remark 3": proportional_to_distance,
        "Remark 4": composition,
        "Remark 5": parallel,
        "Remark 6": parallel,
        "Remark 7": other_radii_of_chunks,
        "Remark 8": chaining,
        "Remark 9": limits_of_output_noise,
        "Remark 10": input_or_output,
        "Figure 1": adjacent_inputs_look_alike,
        "Figure 2": both_perturbations,
        "Figure 3": accuracy_falls_with_the_radius,
        "Figure 4": accuracy_falls_with_the_radius,
        "Figure 5": accuracy_falls_with_the_radius,
        "Figure 6": accuracy_falls_with_the_radius,
        "Figure 7": chaining,
        "Future work, local Lipschitz constants": constants_of_a_box,
        "Future work, other metrics": metrics,
    },
}
#: Rows that name other rows, an erratum, or a script of the gallery, for what is no
#: numbered thing.
ELSEWHERE = re.compile(r"those of DPAM|that of DPAM|E15")
STUDY = re.compile(r"{doc}`gallery/studies/")


@pytest.mark.parametrize(
    "claim",
    dict.fromkeys(claim for rows in CLAIMS.values() for claim in rows.values()),
    ids=lambda claim: getattr(claim, "__name__", str(claim)),
)
def test_what_the_map_claims(claim):
    claim()


@pytest.mark.parametrize("paper", NUMBERED)
def test_every_row_of_the_map_makes_a_claim_that_is_tried(paper):
    claims = CLAIMS[paper]
    rows = map_of(paper)
    for named, place in rows:
        if ELSEWHERE.match(place):
            continue
        names = re.findall(r"`([A-Za-z_.]+)`", re.sub(r"{doc}`[^`]*`", "", place))
        numbered = re.match(r"[A-Z][a-z]+ \d", named)
        assert any(is_called(name) for name in names) or not numbered, named
        tried = named in claims or named.split(",")[0] in claims
        assert tried or (STUDY.match(place) and not numbered), named
    begins = {part for named, _ in rows for part in (named, named.split(",")[0])}
    assert set(claims) <= begins
