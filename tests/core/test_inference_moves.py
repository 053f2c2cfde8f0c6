"""Moves of one input in any norm, in mixed units, and in a public box: the noise covers the widest of them."""

import itertools
import math

import numpy as np
import pytest
from scipy.optimize import minimize

import privcontrol as pc
from privcontrol.core import InputPerturbation, LipschitzBound, OutputPerturbation
from privcontrol.core.inference import _moves

GAUSS = pc.PrivacyBudget(epsilon=1.0, delta=1e-2)
LAPLACE = pc.PrivacyBudget(epsilon=1.0)
RADII = np.array([0.1, 3.0, 0.7, 1.2])
FAMILIES = {"gaussian": (GAUSS, 2), "laplace": (LAPLACE, 1)}
NORMS = [1, 1.5, 2, 3.0, 7.5, np.inf]


def widest(radii, p, q, seed=0):
    """The largest q-norm of r u with ||u||_p <= 1, by maximisation from many starts."""
    rng = np.random.default_rng(seed)
    n = len(radii)
    starts = [*np.eye(n), np.ones(n), *rng.random((4, n))]

    def negative(u):
        size = np.linalg.norm(u, p)
        return -np.linalg.norm(radii * u, q) / size if size > 0 else 0.0

    found = [-negative(start) for start in starts]
    for start in starts[n:]:
        found.append(-minimize(negative, start, method="Nelder-Mead",
                               options={"xatol": 1e-9, "fatol": 1e-12, "maxiter": 1500}).fun)  # fmt: skip
    return max(found)


def noise_size(family, width):
    if family == "gaussian":
        return pc.core.gaussian_std(1.0, 1e-2, width)
    return pc.core.laplace_scale(1.0, width)


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("norm", NORMS)
def test_input_noise_covers_the_widest_move(family, norm):
    budget, q = FAMILIES[family]
    mixed = InputPerturbation(np.sum, budget, radius=RADII, norm=norm, family=family)
    expected = noise_size(family, widest(RADII, norm, q))
    assert expected * (1 - 1e-12) <= mixed.scale
    assert mixed.scale == pytest.approx(expected, rel=1e-5)
    even = InputPerturbation(
        np.sum, budget, radius=0.3, norm=norm, family=family, size=4
    )
    same = InputPerturbation(
        np.sum, budget, radius=np.full(4, 0.3), norm=norm, family=family
    )
    assert even.scale == pytest.approx(same.scale, rel=1e-12)
    for mechanism in (mixed, even):
        assert mechanism.guarantee.satisfies(budget)


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("p", [1, 2])
def test_output_noise_takes_the_move_in_the_norm_of_the_constant(norm, p):
    rng = np.random.default_rng(1)
    M = rng.standard_normal((3, 4))
    bound = pc.core.induced_norm(M, p, 2)
    mechanism = OutputPerturbation(
        lambda x: x @ M.T, GAUSS, radius=RADII, norm=norm, lipschitz=bound
    )
    truth = noise_size("gaussian", widest_image(M * RADII, norm))
    assert truth * (1 - 1e-9) <= mechanism.scale
    expected = noise_size("gaussian", float(bound) * widest(RADII, norm, p))
    assert mechanism.scale == pytest.approx(expected, rel=1e-5)


def widest_image(M, p):
    """At least the largest ||M u||_2 over sign vectors, unit vectors and random ones of p-norm one."""
    rng = np.random.default_rng(2)
    n = M.shape[1]
    u = np.vstack(
        [
            np.eye(n),
            np.array(list(itertools.product((-1.0, 1.0), repeat=n))),
            rng.standard_normal((2000, n)),
        ]
    )
    u /= np.linalg.norm(u, p, axis=1, keepdims=True)
    return np.linalg.norm(u @ M.T, axis=1).max()


def test_a_plain_constant_is_from_the_norm_that_was_named():
    mixed = OutputPerturbation(np.sum, GAUSS, radius=RADII, norm=3.0, lipschitz=2.0)
    assert mixed.scale == pytest.approx(noise_size("gaussian", 2.0 * RADII.max()))
    box = OutputPerturbation(
        np.sum, GAUSS, radius=np.inf, domain=(0.0, 2.0), size=9, lipschitz=1.0
    )
    # the diameter of the box in the 2-norm, the default
    assert box.scale == pytest.approx(noise_size("gaussian", 6.0))


@pytest.mark.parametrize("family", FAMILIES)
def test_any_two_inputs_of_a_box_look_alike(family):
    budget, q = FAMILIES[family]
    low, high = np.array([0.0, -1.0, 5.0]), np.array([1.0, 2.0, 9.0])
    mechanism = InputPerturbation(
        lambda x: x, budget, radius=np.inf, domain=(low, high), family=family
    )
    assert mechanism.scale == pytest.approx(
        noise_size(family, np.linalg.norm(high - low, q)), rel=1e-12
    )
    inside, outside = [0.5, 0.0, 7.0], [[99.0, -99.0, 7.0], [0.0, 0.0, 99.0]]
    noise = mechanism(inside, rng=0) - inside
    np.testing.assert_allclose(
        mechanism(outside, rng=0)[0] - noise, [1.0, -1.0, 7.0], atol=1e-12
    )
    grid = mechanism(outside, grid=0.5)
    np.testing.assert_array_equal(grid, np.round(grid * 2) / 2)
    output = OutputPerturbation(
        lambda x: x,
        budget,
        radius=np.inf,
        domain=(low, high),
        family=family,
        lipschitz=LipschitzBound(1.0, p=q, q=q, method="test"),
    )
    assert output.scale == pytest.approx(mechanism.scale)
    difference = output(outside, rng=0) - output([[1.0, -1.0, 7.0], [0, 0, 9.0]], rng=0)
    assert np.abs(difference).max() == 0
    assert "public box" in mechanism.guarantee.sentence


def test_guarantees_about_different_moves_do_not_add():
    def made(radius, **options):
        return InputPerturbation(np.sum, GAUSS, radius=radius, **options).guarantee

    guarantees = [
        made(1.0, norm=3.0, size=4),
        made(1.0, norm=2.0),
        made(RADII),
        made(2 * RADII),
        made(np.inf, domain=(0.0, 1.0), size=4),
        made(np.inf, domain=(0.0, 2.0), size=4),
    ]
    for first, second in itertools.combinations(guarantees, 2):
        with pytest.raises(ValueError):
            first + second
    for guarantee in guarantees:
        assert (guarantee + guarantee).releases == 2
        assert pc.PrivacyGuarantee.from_dict(guarantee.to_dict()) == guarantee


@pytest.mark.parametrize(
    "options, message",
    [
        ({"radius": math.inf}, r"public box \(low, high\)"),
        ({"radius": 1.0, "domain": (0, 1)}, "radius=inf only"),
        ({"radius": math.inf, "domain": (0, 1)}, "pass size="),
        ({"radius": math.inf, "domain": (1, 0), "size": 2}, "below its high"),
        ({"radius": math.inf, "domain": ([0, 0], [1, 1, 1])}, "one length"),
        ({"radius": math.inf, "domain": 3.0, "size": 2}, "public box"),
        ({"radius": [1.0, 0.0]}, "positive one for each entry"),
        ({"radius": [1.0, 2.0], "size": 3}, "size: expected 2"),
        ({"radius": [[1.0]]}, "radius: expected 1 dimension"),
        ({"radius": 1.0, "norm": 3.0}, "pass size="),
        ({"radius": 1.0, "norm": 0.9}, "norm: expected a number >= 1"),
        ({"radius": 1.0, "norm": math.nan}, "norm: expected"),
    ],
)
def test_mistakes_are_named(options, message):
    with pytest.raises(ValueError, match=message):
        InputPerturbation(np.sum, GAUSS, **options)


def test_rows_of_another_size_are_refused():
    mechanism = InputPerturbation(np.sum, GAUSS, radius=RADII)
    with pytest.raises(ValueError, match="rows of 4 entries"):
        mechanism(np.zeros((2, 3)), rng=0)
    answered = OutputPerturbation(np.sum, GAUSS, radius=RADII, lipschitz=1.0)
    with pytest.raises(ValueError, match="rows of 4 entries"):
        answered(np.zeros(3), rng=0)


def test_reach_is_rounded_up():
    moves = _moves.InputMoves.of(RADII, 3.0, None, None)
    exact = sum((r / 3.0) ** 6 for r in RADII) ** (1 / 6) * 3.0  # 1/2 - 1/3 = 1/6
    assert exact <= moves.reach(2, "gaussian") <= exact * (1 + 1e-14)


# -- chaining and composition of such moves --------------------------------------------


def scores(family, norm, radius, scale=None, **options):
    """A mechanism that adds noise to its input, with a budget of its own."""
    budget = FAMILIES[family][0]
    if scale is not None:
        budget = pc.PrivacyBudget(epsilon=scale, delta=budget.delta)
    return InputPerturbation(
        np.abs, budget, radius=radius, norm=norm, family=family, **options
    )


def shown(guarantee, family):
    """The largest shift that a guarantee knows of: y, or pure epsilon."""
    return guarantee.gdp if family == "gaussian" else guarantee.epsilon(0.0)


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("norm", NORMS)
def test_chaining_in_any_norm_and_in_mixed_units(family, norm):
    """The noise as it is, against the widest move of the new radii by maximisation."""
    q = FAMILIES[family][1]
    mechanism = scores(family, norm, RADII)
    new = np.array([0.2, 4.5, 0.7, 0.6])
    for radii, exact in ((2.5 * RADII, True), (0.4 * RADII, True), (new, False)):
        chained = pc.core.chain(mechanism.guarantee, radii)
        truth = widest(radii, norm, q) / mechanism.scale
        if exact:
            assert shown(chained, family) == pytest.approx(truth, rel=1e-4)
        assert shown(chained, family) >= truth * (1 - 1e-9)
        assert not chained.exact or exact
    back = pc.core.chain(pc.core.chain(mechanism.guarantee, 2.5 * RADII), RADII)
    assert shown(back, family) == pytest.approx(shown(mechanism.guarantee, family))
    even = scores(family, norm, 0.3, size=4)
    truth = widest(np.full(4, 0.75), norm, q) / even.scale
    assert shown(pc.core.chain(even.guarantee, 0.75), family) == pytest.approx(
        truth, rel=1e-4
    )
    with pytest.raises(ValueError, match="expected 4 radii"):
        pc.core.chain(mechanism.guarantee, 2.0)


def test_chained_guarantees_add_to_those_designed_for_the_radii():
    first, second = scores("gaussian", 3.0, RADII), scores("gaussian", 3.0, 2 * RADII)
    both = pc.core.compose_sequential(first.guarantee, second.guarantee)
    assert both.gdp == pytest.approx(first.guarantee.gdp * math.sqrt(1.25), rel=1e-9)
    other = scores("gaussian", 3.0, RADII[::-1])
    both = pc.core.compose_sequential(first.guarantee, other.guarantee)
    smallest = np.minimum(RADII, RADII[::-1])
    sizes = [smallest / mechanism.scale for mechanism in (first, other)]
    truth = math.hypot(*(widest(size, 3.0, 2) for size in sizes))
    assert truth * (1 - 1e-9) <= both.gdp
    assert "in units of its radius" in both.sentence


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("norm", NORMS)
def test_parallel_chunks_in_mixed_units_move_together(family, norm):
    """Two chunks with noise of their own, against one widest joint move."""
    q = FAMILIES[family][1]
    parts = (RADII[:2], RADII[2:])
    chunks = [scores(family, norm, parts[0], 0.7), scores(family, norm, parts[1], 1.1)]
    joint = pc.core.compose_parallel(*(chunk.guarantee for chunk in chunks), norm=norm)
    units = np.concatenate(
        [part / chunk.scale for part, chunk in zip(parts, chunks, strict=True)]
    )
    truth = widest(units, norm, q)
    assert shown(joint, family) == pytest.approx(truth, rel=1e-4)
    assert shown(joint, family) >= truth * (1 - 1e-9)
    twice = pc.core.chain(joint, 2.0)  # in units of the chunks' own radii
    assert shown(twice, family) == pytest.approx(2 * shown(joint, family), rel=1e-12)
    assert "in units of their own radii" in joint.sentence


def test_a_chunk_in_one_unit_beside_one_in_mixed_units():
    plain = scores("gaussian", 2, 0.5, 0.7, size=2)
    mixed = scores("gaussian", 2, RADII[:2])
    joint = pc.core.compose_parallel(plain.guarantee, mixed.guarantee)
    assert joint.gdp == max(plain.guarantee.gdp, mixed.guarantee.gdp)
    with pytest.raises(ValueError, match="norm"):
        pc.core.compose_parallel(plain.guarantee, mixed.guarantee, norm=3.0)
    query = pc.LinearQuery(np.eye(2))
    directions = pc.Mechanism(query, pc.GaussianNoise(np.eye(2))).guarantee(
        pc.DirectionAdjacency(np.eye(2))
    )
    with pytest.raises(ValueError, match="no single radius"):
        pc.core.compose_parallel(directions, mixed.guarantee)


@pytest.mark.parametrize("family", FAMILIES)
def test_chunks_of_public_boxes_move_anywhere_together(family):
    boxes = [(np.array([-1.0, 0.0]), np.array([1.0, 5.0])), (0.0, 3.0)]
    chunks = [scores(family, 2, math.inf, domain=box, size=2) for box in boxes]
    joint = pc.core.compose_parallel(*(c.guarantee for c in chunks), norm=math.inf)
    moves = np.array(list(itertools.product(*[[-1.0, 1.0]] * 4)))
    widths = np.array([2.0, 5.0, 3.0, 3.0])
    sizes = np.repeat([chunk.scale for chunk in chunks], 2)
    norms = np.linalg.norm(moves * widths / sizes, FAMILIES[family][1], axis=1)
    assert shown(joint, family) == pytest.approx(norms.max(), rel=1e-9)
    with pytest.raises(ValueError, match="norm"):
        pc.core.compose_parallel(*(c.guarantee for c in chunks), norm=2)


def test_a_public_box_covers_every_radius_and_is_exceeded_by_none():
    local = scores("gaussian", 2, math.inf, domain=([0.0, -1.0], [4.0, 1.0]))
    assert pc.core.chain(local.guarantee, math.inf) is local.guarantee
    small = pc.core.chain(local.guarantee, [1.0, 0.5])
    truth = math.hypot(1.0, 0.5) / local.scale
    assert truth < small.gdp <= local.guarantee.gdp / 4 * (1 + 1e-9)
    wide = pc.core.chain(local.guarantee, [100.0, 100.0])
    assert wide.gdp == pytest.approx(local.guarantee.gdp, rel=1e-12)
    ball = scores("gaussian", math.inf, [1.0, 0.5])
    assert (small + ball.guarantee).gdp == pytest.approx(
        math.hypot(small.gdp, ball.guarantee.gdp), rel=1e-9
    )
    with pytest.raises(ValueError, match="radius"):
        pc.core.chain(ball.guarantee, math.inf)
    foreign = pc.PrivacyGuarantee.black_box(LAPLACE, ball.guarantee.scope)
    assert pc.core.chain(foreign, [2.5, 0.5]).epsilon(0.0) == 3.0


def test_balls_on_a_manifold_chain_in_mixed_units():
    """A public sum of four entries: exact shifts of the scaled ball, by the mechanism."""
    manifold = pc.AffineManifold(np.ones((1, 4)))
    noise = pc.GaussianNoise(np.full(4, 2.0))
    mechanism = pc.Mechanism(pc.LinearQuery(np.eye(4), manifold), noise)
    for norm in (1, 2, 3.0, np.inf):
        known = mechanism.guarantee(pc.BallAdjacency(RADII, norm=norm))
        new = RADII * np.array([1.5, 1.0, 0.5, 1.2])
        chained = pc.core.chain(known, new)
        direct = mechanism.guarantee(pc.BallAdjacency(new, norm=norm))
        assert direct.gdp <= chained.gdp * (1 + 1e-9)
        assert chained.gdp == pytest.approx(1.5 * known.gdp, rel=1e-9)
        assert chained.scope.adjacency == direct.scope.adjacency
