"""Audits: close to a tight claim, never against a true one, always against one that is 10 % too good."""

from dataclasses import dataclass

import cases
import numpy as np
import pytest
from repeats import few

import privcontrol as pc
from privcontrol.core import AuditResult, BallAdjacency, audit, kappa
from privcontrol.noise.process import promising

PURE = pc.PrivacyBudget(epsilon=1.0)
LINE = pc.DirectionAdjacency([[1.0]])
SCALAR = pc.LinearQuery([[1.0]])
WIDE = pc.Mechanism(pc.LinearQuery(np.eye(60)), pc.GaussianNoise(np.full(60, 20.0)))


def scaled(noise, factor):
    return type(noise)(factor * noise.factor)


def tight(seed):
    """A random mechanism that meets its claim with nothing to spare: Gaussian at (1, 1e-2), Laplace at (1, 0)."""
    rng = np.random.default_rng(seed)
    rank = int(rng.integers(1, 5))
    query = pc.LinearQuery(rng.normal(size=(rank + int(rng.integers(0, 4)), rank)))
    adjacency = pc.DirectionAdjacency(rng.normal(size=(rank, 12)))
    if seed % 2 == 0:
        return (
            pc.design_gaussian(query, adjacency, cases.BUDGET).mechanism,
            adjacency,
            cases.BUDGET,
        )
    factor = query.response @ rng.normal(size=(rank, rank))
    sums = np.abs(np.linalg.pinv(factor) @ query.response @ adjacency.directions).sum(
        axis=0
    )
    return pc.Mechanism(query, pc.LaplaceNoise(sums.max() * factor)), adjacency, PURE


def test_audits_come_close_to_tight_claims_and_refute_none():
    results = [
        audit(*tight(seed)[:2], claim=tight(seed)[2], trials=200_000, rng=seed)
        for seed in range(20)
    ]
    assert all(result.passed for result in results)
    ratios = [result.epsilon_lower / result.epsilon_claimed for result in results]
    assert np.median(ratios) >= 0.85
    assert min(ratios) >= 0.5


def test_a_claim_with_a_leak_is_tested_with_it():
    """At delta = 0.05, of which 0.02 may leak, epsilon is that of 0.03."""
    mechanism = tight(0)[0]
    adjacency = tight(0)[1]
    claim = pc.PrivacyBudget(gdp=0.5, leak=0.02)
    result = audit(mechanism, adjacency, claim=claim, delta=0.05, trials=1_000, rng=0)
    assert kappa(result.epsilon_claimed, 0.5) == pytest.approx(0.03, rel=1e-6)


@pytest.mark.parametrize("seed", few(range(20), of=1))
def test_noise_ten_percent_too_small_fails(seed):
    mechanism, adjacency, claim = tight(seed)
    weak = pc.Mechanism(mechanism.query, scaled(mechanism.noise, 0.9))
    result = audit(weak, adjacency, claim=claim, trials=1_000_000, rng=seed)
    assert not result.passed
    assert 1.0 < result.epsilon_lower < 1.2
    assert result.trials == 1_000_000
    assert result.confidence == 0.999


@pytest.mark.parametrize("seed", few([0, 1], of=1))
def test_a_correct_mechanism_fails_no_more_often_than_stated(seed):
    """160 audits at confidence 0.9: 16 failures are expected at most, 35 are five sigmas more."""
    mechanism, adjacency, claim = tight(seed)
    rng = np.random.default_rng(0)
    failures = sum(
        not audit(
            mechanism, adjacency, claim=claim, trials=1_000, confidence=0.9, rng=rng
        ).passed
        for _ in range(160)
    )
    assert failures <= 35
    weak = pc.Mechanism(mechanism.query, scaled(mechanism.noise, 0.5))
    assert not audit(
        weak, adjacency, claim=claim, trials=1_000, confidence=0.9, rng=rng
    ).passed


def sabotaged(factor, part):
    """Gaussian noise with an implementation that keeps a part of each standard entry only."""

    class Careless(pc.GaussianNoise):
        @staticmethod
        def standard(rng, shape):
            return part * rng.standard_normal(shape)

    return Careless(factor)


def test_what_is_audited_is_the_implementation_and_not_its_formula():
    honest = pc.design_gaussian(SCALAR, LINE, cases.BUDGET).mechanism
    careless = pc.Mechanism(SCALAR, sabotaged(honest.noise.factor, 0.85))
    assert careless.guarantee(LINE) == honest.guarantee(LINE)
    assert audit(honest, LINE, trials=500_000, rng=0).passed
    assert not audit(careless, LINE, trials=500_000, rng=0).passed
    # an entry that was forgotten is not the one of the worst move, and is found all the same
    plane, adjacency = (
        pc.LinearQuery(np.eye(2)),
        pc.DirectionAdjacency([[1.0, 0.0], [0.0, 0.9]]),
    )
    forgetful = pc.Mechanism(plane, sabotaged([2.0, 2.0], [1.0, 0.0]))
    assert audit(forgetful, adjacency, trials=20_000, rng=0).epsilon_lower > 5


def test_a_bare_direction_shows_at_once():
    mechanism = pc.Mechanism(pc.LinearQuery(np.eye(2)), pc.LaplaceNoise([[1.0], [1.0]]))
    result = audit(
        mechanism,
        pc.DirectionAdjacency([[1.0], [0.99]]),
        claim=PURE,
        delta=0,
        trials=10_000,
        rng=0,
    )
    assert not result.passed
    assert result.epsilon_lower > 6
    assert audit(
        mechanism,
        pc.DirectionAdjacency([[1.0], [1.0]]),
        claim=PURE,
        trials=10_000,
        rng=0,
    ).passed


@pytest.mark.parametrize("k", [0.5, 3.0])
def test_example_1_of_dpam(k):
    """Independent Laplace noise of scale mu/epsilon gives g epsilon on x1 - k x2 = b, correlated noise epsilon."""
    query = pc.LinearQuery(np.eye(2), pc.AffineManifold([[1.0, -k]], [2.0]))
    adjacency = pc.DirectionAdjacency(
        np.array([[k], [1.0]]) * max(1, 1 / k)
    )  # one entry moves by mu = 1, or less
    claim, g = pc.PrivacyBudget(epsilon=0.5), max(1 + k, 1 + 1 / k)
    independent = pc.Mechanism(query, pc.LaplaceNoise([2.0, 2.0]))
    correlated = pc.Mechanism(
        query, pc.LaplaceNoise(np.array([[k], [1.0]]) * max(1, 1 / k) / 0.5)
    )
    assert independent.guarantee(adjacency).epsilon(0.0) == pytest.approx(0.5 * g)
    assert correlated.guarantee(adjacency).epsilon(0.0) == pytest.approx(0.5)
    exposed = audit(independent, adjacency, claim=claim, trials=300_000, rng=1)
    assert not exposed.passed
    assert 0.9 * 0.5 * g < exposed.epsilon_lower < 0.5 * g
    hidden = audit(correlated, adjacency, delta=0.0, trials=300_000, rng=1)
    assert hidden.passed
    assert hidden.epsilon_lower > 0.9 * 0.5


@pytest.mark.filterwarnings("ignore:delta =")  # large ones are wanted here
def test_the_laplace_move_that_is_worst_depends_on_epsilon():
    """(1, 0) has the smaller sum of shifts and yet is the worse at epsilon = 0: delta 0.393 against 0.246."""
    mechanism = pc.Mechanism(pc.LinearQuery(np.eye(2)), pc.LaplaceNoise([1.0, 1.0]))
    adjacency = pc.DirectionAdjacency([[0.51, 1.0], [0.51, 0.0]])
    claim = pc.PrivacyBudget(epsilon=0.05, delta=0.3)
    assert not audit(mechanism, adjacency, claim=claim, trials=100_000, rng=0).passed
    alone = pc.DirectionAdjacency([[0.51], [0.51]])
    assert audit(mechanism, alone, claim=claim, trials=100_000, rng=0).passed


def test_ellipsoids_are_audited_along_their_worst_axis():
    ball = BallAdjacency(1.0)
    query = pc.LinearQuery(np.diag([1.0, 3.0, 2.0]))
    design = pc.design_gaussian(query, ball, cases.BUDGET)
    assert audit(design, ball, trials=500_000, rng=0).epsilon_lower > 0.85
    factor = np.random.default_rng(0).normal(size=(3, 3))
    signs = np.array(np.meshgrid(*[[-1, 1]] * 3)).reshape(3, -1)
    rows = np.linalg.solve(factor, query.response)
    pure = np.linalg.norm(
        signs.T @ rows, axis=1
    ).max()  # sup of the 1-norm over the ball, by its 8 sign patterns
    mechanism = pc.Mechanism(query, pc.LaplaceNoise(pure * factor))
    result = audit(mechanism, ball, claim=PURE, trials=500_000, rng=0)
    assert result.passed
    assert result.epsilon_lower > 0.8


@pytest.mark.slow
@pytest.mark.parametrize("family", ["gaussian", "iid-gaussian", "laplace"])
def test_output_noise_and_loops_are_audited_by_what_they_publish(family):
    budget = PURE if family == "laplace" else cases.BUDGET
    noise = cases.vehicle_noise(horizon=6, family=family, budget=budget)
    parts = tuple(part.scaled(0.9) for part in noise.parts)
    weak = promising(noise, parts=parts)
    for true, false in [
        (noise, weak),
        (cases.vehicle_loop(noise), cases.vehicle_loop(weak)),
    ]:
        sound = audit(true, cases.POSITION, delta=budget.delta, trials=200_000, rng=0)
        assert sound.passed
        assert sound.epsilon_claimed == pytest.approx(1.0)
        assert sound.epsilon_lower > 0.75
        assert not audit(
            false, cases.POSITION, delta=budget.delta, trials=2_000_000, rng=0
        ).passed


@dataclass
class LeakyLoop:
    """A loop that steers by the true state: yhat is as private as ever, u tells everything."""

    loop: pc.PrivateLoop

    def __getattr__(self, name):
        return getattr(self.loop, name)

    def simulate(self, **signals):
        response = self.loop.simulate(**signals)
        response.y = np.concatenate([response.y[:1], -1e-3 * response.x[:1]])
        return response


def test_a_secret_in_the_input_signal_is_found():
    loop = cases.vehicle_loop(cases.vehicle_noise(horizon=20))
    assert (
        audit(LeakyLoop(loop), cases.POSITION, trials=20_000, rng=0).epsilon_lower > 5
    )


def test_a_loop_is_not_passed_for_a_secret_that_its_simulation_leaves_out():
    """The moves of a disturbance begin with those of the initial state, which are zero.

    A loop without any noise at all passed, with epsilon >= 0.
    """
    gust = pc.DisturbanceAdjacency({"velocity": 0.3})
    loop = cases.vehicle_loop(cases.vehicle_noise(horizon=6, adjacency=gust))
    with pytest.raises(ValueError, match="disturbances would be left out"):
        audit(loop, trials=1000, rng=0)
    assert audit(loop.noise, trials=20_000, rng=0).epsilon_lower > 0.3
    both = [cases.POSITION, gust]
    loop = cases.vehicle_loop(cases.vehicle_noise(horizon=6, adjacency=both))
    assert audit(loop, trials=20_000, rng=0).epsilon_lower > 0.3


def perturbed(family, scale, model=np.tanh):
    """Output perturbation of a nonlinear model as a plain function, batched along axis 0."""
    return lambda x, rng=None: model(x) + scale * getattr(rng, family)(size=np.shape(x))


@pytest.mark.parametrize(
    "family, claim", [("standard_normal", cases.BUDGET), ("laplace", PURE)]
)
def test_nonlinear_models_are_audited_at_two_inputs(family, claim):
    x, x2 = np.array([0.1, -0.2, 0.4]), np.array([0.5, 0.1, 0.2])
    gap = np.tanh(x) - np.tanh(x2)
    scale = (
        pc.core.gaussian_std(1.0, 1e-2, np.linalg.norm(gap))
        if claim.delta
        else np.abs(gap).sum()
    )
    sound = audit(
        perturbed(family, scale), inputs=(x, x2), claim=claim, trials=300_000, rng=0
    )
    assert sound.passed
    assert sound.epsilon_lower > 0.75
    assert not audit(
        perturbed(family, 0.9 * scale),
        inputs=(x, x2),
        claim=claim,
        trials=2_000_000,
        rng=0,
    ).passed


def test_a_noise_size_that_depends_on_the_data_is_found():
    def mechanism(x, rng=None):
        return rng.laplace(size=np.shape(x)) * (1 + np.abs(x))

    assert not audit(
        mechanism, inputs=([0.0], [4.0]), claim=PURE, trials=100_000, rng=0
    ).passed


SHARES = pc.LinearQuery(
    np.eye(3), pc.AffineManifold([[1.0, 1.0, 1.0]], [-1.0], labels=["a", "b", "c"])
)
SHARE = pc.ManifoldAdjacency(0.05)


@pytest.mark.parametrize(
    "adjacency, message",
    [
        (
            BallAdjacency(0.5),
            r"for another adjacency, one entry by at most 0.05.*audited is the data move by at most 0.5",
        ),
        (
            pc.ManifoldAdjacency(0.005),
            "for another adjacency.*audited is one entry by at most 0.005",
        ),
        (
            pc.ManifoldAdjacency({"a": 0.05}),
            "for another adjacency.*audited is a by at most 0.05",
        ),
    ],
)
def test_a_claim_about_another_adjacency_is_refused_and_not_judged(adjacency, message):
    design = pc.design_gaussian(SHARES, SHARE, cases.BUDGET)
    half = pc.Mechanism(SHARES, scaled(design.noise, 0.5))
    for mechanism in (design, design.mechanism, half):
        with pytest.raises(ValueError, match=message):
            audit(mechanism, adjacency, claim=design.guarantee, trials=1000, rng=0)
    assert not audit(half, SHARE, claim=design.guarantee, trials=50_000, rng=0).passed
    assert audit(design, SHARE, claim=design.guarantee, trials=50_000, rng=0).passed
    assert audit(
        design, pc.ManifoldAdjacency(0.005), claim=cases.BUDGET, trials=50_000, rng=0
    ).passed


def test_a_claim_about_another_manifold_is_refused_by_its_fingerprint():
    relabelled = pc.LinearQuery(
        np.eye(3), pc.AffineManifold([[1.0, 1.0, 1.0]], [-1.0], labels=["a", "b", "d"])
    )
    claims = [
        pc.design_gaussian(relabelled, SHARE, cases.BUDGET).guarantee,
        pc.design_gaussian(pc.LinearQuery(np.eye(3)), SHARE, cases.BUDGET).guarantee,
        pc.PrivacyGuarantee.black_box(cases.BUDGET, SHARE),
    ]
    design = pc.design_gaussian(SHARES, SHARE, cases.BUDGET)
    for claim in claims:
        with pytest.raises(
            ValueError, match="about another manifold.*or a PrivacyBudget as claim"
        ):
            audit(design, SHARE, claim=claim, trials=1000, rng=0)
    known = pc.PrivacyGuarantee.black_box(cases.BUDGET, SHARE, manifold=SHARES.manifold)
    assert (
        audit(design, SHARE, claim=known, trials=20_000, rng=0).epsilon_claimed == 1.0
    )


def test_output_noise_may_be_claimed_by_its_own_guarantee():
    noise = cases.vehicle_noise(horizon=6)
    assert audit(noise, claim=noise.guarantee, trials=20_000, rng=0) == audit(
        noise, trials=20_000, rng=0
    )


def test_inputs_further_apart_than_the_claims_ball_are_refused_without_showing_them():
    model = pc.OutputPerturbation(np.tanh, cases.BUDGET, radius=0.5, lipschitz=1.0)
    x, near, far = (
        np.array([17.25, 0.0]),
        np.array([17.55, 0.4]),
        np.array([17.65, 0.4]),
    )
    for claim in (None, model.guarantee):
        with pytest.raises(ValueError, match="by at most 0.5 in the 2-norm") as caught:
            audit(model, inputs=(x, far), claim=claim, trials=1000, rng=0)
        assert "17." not in str(caught.value)
        assert "0.4" not in str(caught.value)
        assert audit(model, inputs=(x, near), claim=claim, trials=2000, rng=0).passed
    assert audit(model, inputs=(x, far), claim=cases.BUDGET, trials=2000, rng=0).passed


@pytest.mark.parametrize("family", ["gaussian", "laplace"])
def test_a_private_network_is_audited_by_name_alone(family):
    nx = pytest.importorskip("networkx")
    network = pc.private_consensus(
        nx.path_graph(5), cases.BUDGET, 1.0, weights="metropolis", family=family
    )
    found = audit(network, trials=200_000, rng=0)
    assert found.passed
    assert found.epsilon_lower > 0.8 * found.epsilon_claimed
    assert found == audit(
        network, network.adjacency, claim=network.guarantee, trials=200_000, rng=0
    )
    thin = pc.PrivateConsensus(
        network.network, 0.8 * network.scales, network.adjacency, family=family
    )
    assert not audit(thin, claim=cases.BUDGET, trials=200_000, rng=0).passed
    with pytest.raises(
        ValueError,
        match="for another adjacency, the initial value of one node moves by at most 1",
    ):
        audit(network, pc.NodeAdjacency(2.0), trials=1000, rng=0)


@pytest.mark.parametrize(
    "budget",
    [
        pc.PrivacyBudget(epsilon=1.0, delta=1e-3),
        pc.PrivacyBudget(epsilon=0.5, delta=5e-3),
    ],
)
def test_a_guarantee_is_tested_at_the_delta_that_it_quotes(budget):
    design = pc.design_gaussian(SCALAR, LINE, budget)
    found = audit(design, LINE, trials=20_000, rng=0)
    assert found.delta == budget.delta
    assert found.epsilon_claimed == pytest.approx(budget.epsilon, rel=1e-9)
    assert audit(design, LINE, delta=0.02, trials=20_000, rng=0).delta == 0.02


def test_what_quotes_no_delta_of_a_budget_is_tested_at_one_in_a_hundred():
    pure = pc.design_laplace(SCALAR, LINE, PURE)
    foreign = pc.PrivacyGuarantee.black_box(PURE, LINE, manifold=SCALAR.manifold)
    assert {
        audit(pure, LINE, claim=claim, trials=1000, rng=0).delta
        for claim in (None, pure.guarantee)
    } == {1e-2}
    assert (
        audit(pure, LINE, claim=foreign, trials=1000, rng=0).delta
        == foreign.quoted_delta
        == 1e-5
    )
    assert (
        audit(
            pc.Mechanism(SCALAR, pc.GaussianNoise([2.0])), LINE, trials=1000, rng=0
        ).delta
        == 1e-2
    )


def test_the_verdict_is_in_the_repr():
    passed, failed = (
        AuditResult(0.9, 1.0, 0.01, 1000, 0.999),
        AuditResult(1.1, 1.0, 0.01, 1000, 0.999),
    )
    assert repr(passed).startswith("AuditResult(passed=True, epsilon_lower=0.9, ")
    assert repr(failed).startswith("AuditResult(passed=False, epsilon_lower=1.1, ")


def test_results_are_reproducible_frozen_and_one_line():
    mechanism, adjacency, claim = tight(0)
    result = audit(mechanism, adjacency, claim=claim, trials=20_000, rng=7)
    assert result == audit(mechanism, adjacency, claim=claim, trials=20_000, rng=7)
    assert str(AuditResult(0.9, 1.0, 0.01, 1000, 0.999)) == (
        "audit passed (not refuted): epsilon >= 0.9 at delta = 0.01 with confidence 0.999, claimed 1, 1000 trials"
    )
    with pytest.raises(AttributeError):
        result.trials = 1


@pytest.mark.parametrize(
    "options, message",
    [
        ({"trials": 10}, r"trials: expected 1000 to 1e\+08"),
        ({"confidence": 1.0}, "confidence: expected a probability"),
        ({"adjacency": None}, "exactly one of them"),
        (
            {"claim": 1.0},
            "claim: expected a PrivacyBudget or a PrivacyGuarantee, got float",
        ),
        (
            {"adjacency": BallAdjacency(1.0, norm=np.inf), "mechanism": WIDE},
            "only a bound",
        ),
        ({"claim": None, "delta": 0.0}, "no finite epsilon at delta = 0"),
        ({"delta": 1e-4}, "no finite epsilon at delta = 0.0001"),
        ({"mechanism": np.tanh}, "pass inputs="),
        (
            {"adjacency": 0.05},
            r"expected an Adjacency, got float; a radius\? write ManifoldAdjacency",
        ),
        (
            {"mechanism": cases.vehicle_noise(horizon=5), "claim": None},
            "for another adjacency, position by at most 1",
        ),
        (
            {"mechanism": cases.vehicle_loop(), "adjacency": cases.POSITION},
            "the loop has no noise",
        ),
        ({"adjacency": None, "inputs": ([0.0], [1.0])}, "inputs: expected a callable"),
        (
            {"mechanism": np.sum, "adjacency": None, "inputs": ([0.0], [1.0, 2.0])},
            "two arrays of one shape",
        ),
        (
            {
                "mechanism": lambda x, rng: x[0],
                "adjacency": None,
                "inputs": ([0.0], [1.0]),
            },
            "a batch of 2 releases",
        ),
    ],
)
def test_bad_input_says_what_was_expected(options, message):
    mechanism = pc.Mechanism(SCALAR, pc.GaussianNoise([1.0]))
    arguments = {
        "mechanism": mechanism,
        "adjacency": LINE,
        "claim": cases.BUDGET,
        "trials": 1000,
    } | options
    mechanism, adjacency = arguments.pop("mechanism"), arguments.pop("adjacency")
    with pytest.raises((TypeError, ValueError), match=message):
        audit(mechanism, adjacency, **arguments)


def test_a_claim_in_one_number_is_tested_where_asked():
    """200,000 releases of noise for .5-GDP; noise 15 % smaller is refuted at a million."""
    query, adjacency = pc.LinearQuery([[1.0]]), pc.DirectionAdjacency([[1.0]])
    budget = pc.PrivacyBudget(gdp=0.5)
    design = pc.design_gaussian(query, adjacency, budget)
    sound = audit(design, adjacency, claim=budget, trials=200_000, rng=0)
    assert sound.passed
    assert sound.delta == 1e-2
    assert pc.core.kappa(sound.epsilon_claimed, 0.5) == pytest.approx(1e-2, rel=1e-6)
    elsewhere = audit(design, adjacency, claim=budget, delta=0.05, trials=2000, rng=0)
    assert elsewhere.delta == 0.05
    careless = pc.Mechanism(query, pc.GaussianNoise(0.85 * design.noise.factor))
    assert not audit(careless, adjacency, claim=budget, trials=1_000_000, rng=0).passed


@pytest.mark.parametrize("offset, radius", [(1e16, 1.1), (1e9, 6e-8)])
def test_an_audit_beside_a_large_offset_moves_the_data_by_what_is_hidden(
    offset, radius
):
    """The doubles next to the offset are 2 and 1e-7 apart, which is more."""
    manifold = pc.AffineManifold([[1.0, 1.0]], [-2 * offset])
    query = pc.LinearQuery([[1.0, 0.0]], manifold)
    hidden = pc.ManifoldAdjacency(radius)
    budget = pc.PrivacyBudget(epsilon=1.0, delta=1e-2)
    design = pc.design_gaussian(query, hidden, budget)
    assert audit(design, hidden, trials=100_000, rng=0).passed
    careless = pc.Mechanism(query, pc.GaussianNoise(0.7 * design.noise.factor))
    assert not audit(careless, hidden, claim=budget, trials=100_000, rng=0).passed
