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
        return pc.gaussian_std(1.0, 1e-2, width)
    return pc.laplace_scale(1.0, width)


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
@pytest.mark.parametrize("p", [1, 2, np.inf])
def test_output_noise_takes_the_move_in_the_norm_of_the_constant(norm, p):
    rng = np.random.default_rng(1)
    M = rng.standard_normal((3, 4))
    bound = pc.induced_norm(M, p, 2)
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
    assert "public box" in str(mechanism.guarantee)


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
        ({"radius": math.inf, "domain": (1, 0), "size": 2}, "low < high"),
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
