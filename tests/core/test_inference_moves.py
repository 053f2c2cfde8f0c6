"""Moves of one input in any norm: the noise covers the widest of them."""

import itertools
import math

import numpy as np
import pytest
from scipy.optimize import minimize

import privcontrol as pc
from privcontrol.core import InputPerturbation, OutputPerturbation

GAUSS = pc.PrivacyBudget(epsilon=1.0, delta=1e-2)
LAPLACE = pc.PrivacyBudget(epsilon=1.0)
RADIUS = 0.3
EVEN = np.full(4, RADIUS)
FAMILIES = {"gaussian": (GAUSS, 2), "laplace": (LAPLACE, 1)}
NORMS = [1, 2, np.inf]


def widest(radii, p, q, seed=0):
    """The largest q-norm of r u with ||u||_p <= 1, by maximisation from many starts."""
    rng = np.random.default_rng(seed)
    n = len(radii)
    starts = [*np.eye(n), np.ones(n), *rng.random((4, n))]

    def negative(u):
        size = np.linalg.norm(u, p)
        return -np.linalg.norm(radii * u, q) / size if size > 0 else 0.0

    found = [-negative(start) for start in starts]
    accurate = {"xatol": 1e-9, "fatol": 1e-12, "maxiter": 1500}
    found.extend(
        -minimize(negative, start, method="Nelder-Mead", options=accurate).fun
        for start in starts[n:]
    )
    return max(found)


def noise_size(family, width):
    if family == "gaussian":
        return pc.core.gaussian_std(1.0, 1e-2, width)
    return pc.core.laplace_scale(1.0, width)


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("norm", NORMS)
def test_input_noise_covers_the_widest_move(family, norm):
    budget, q = FAMILIES[family]
    mechanism = InputPerturbation(
        np.sum, budget, radius=RADIUS, norm=norm, family=family, size=4
    )
    expected = noise_size(family, widest(EVEN, norm, q))
    assert expected * (1 - 1e-12) <= mechanism.scale
    assert mechanism.scale == pytest.approx(expected, rel=1e-5)
    assert mechanism.guarantee.satisfies(budget)


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("p", [1, 2])
def test_output_noise_takes_the_move_in_the_norm_of_the_constant(norm, p):
    rng = np.random.default_rng(1)
    M = rng.standard_normal((3, 4))
    bound = pc.core.induced_norm(M, p, 2)
    mechanism = OutputPerturbation(
        lambda x: x @ M.T, GAUSS, radius=RADIUS, norm=norm, size=4, lipschitz=bound
    )
    truth = noise_size("gaussian", widest_image(M * EVEN, norm))
    assert truth * (1 - 1e-9) <= mechanism.scale
    expected = noise_size("gaussian", float(bound) * widest(EVEN, norm, p))
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
    mechanism = OutputPerturbation(np.sum, GAUSS, radius=3.0, norm=1, lipschitz=2.0)
    assert mechanism.scale == pytest.approx(noise_size("gaussian", 6.0))


def test_any_two_inputs_of_a_box_look_alike_in_the_infinity_norm():
    mechanism = InputPerturbation(np.sum, GAUSS, radius=2.0, norm=np.inf, size=9)
    assert mechanism.scale == pytest.approx(noise_size("gaussian", 6.0))


def test_guarantees_about_different_moves_do_not_add():
    def made(radius, **options):
        return InputPerturbation(np.sum, GAUSS, radius=radius, **options).guarantee

    guarantees = [
        made(1.0, norm=1),
        made(1.0, norm=2.0),
        made(2.0, norm=np.inf, size=4),
    ]
    for first, second in itertools.combinations(guarantees, 2):
        with pytest.raises(ValueError, match="do not add"):
            first + second
    for guarantee in guarantees:
        assert (guarantee + guarantee).releases == 2
        assert pc.PrivacyGuarantee.from_dict(guarantee.to_dict()) == guarantee


@pytest.mark.parametrize(
    "options, message",
    [
        ({"radius": math.inf}, "radius: inf means any two inputs"),
        ({"radius": 0.0}, "radius: expected a finite number > 0"),
        ({"radius": 1.0, "norm": math.inf}, "pass size="),
        ({"radius": 1.0, "norm": 0.5}, "norm: expected a number from 1 to inf"),
        ({"radius": 1.0, "norm": math.nan}, "norm: expected"),
    ],
)
def test_mistakes_are_named(options, message):
    with pytest.raises(ValueError, match=message):
        InputPerturbation(np.sum, GAUSS, **options)


def test_rows_of_another_size_are_refused():
    mechanism = InputPerturbation(np.sum, GAUSS, radius=RADIUS, size=4)
    with pytest.raises(ValueError, match="rows of 4 entries"):
        mechanism(np.zeros((2, 3)), rng=0)
    answered = OutputPerturbation(np.sum, GAUSS, radius=RADIUS, size=4, lipschitz=1.0)
    with pytest.raises(ValueError, match="rows of 4 entries"):
        answered(np.zeros(3), rng=0)


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
def test_chaining_in_any_norm(family, norm):
    """The noise as it is, against the widest move of the new radius by maximisation."""
    q = FAMILIES[family][1]
    mechanism = scores(family, norm, RADIUS, size=4)
    for radius in (0.75, 0.12):
        chained = pc.core.chain(mechanism.guarantee, radius)
        truth = widest(np.full(4, radius), norm, q) / mechanism.scale
        assert shown(chained, family) == pytest.approx(truth, rel=1e-4)
        assert shown(chained, family) >= truth * (1 - 1e-9)
    back = pc.core.chain(chained, RADIUS)
    assert shown(back, family) == pytest.approx(shown(mechanism.guarantee, family))


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("norm", NORMS)
def test_parallel_chunks_move_together(family, norm):
    """Two chunks with noise of their own, against one widest joint move."""
    q = FAMILIES[family][1]
    chunks = [scores(family, norm, RADIUS, epsilon, size=2) for epsilon in (0.7, 1.1)]
    joint = pc.core.compose_parallel(*(chunk.guarantee for chunk in chunks), norm=norm)
    units = RADIUS / np.repeat([chunk.scale for chunk in chunks], 2)
    truth = widest(units, norm, q)
    assert shown(joint, family) == pytest.approx(truth, rel=1e-4)
    assert shown(joint, family) >= truth * (1 - 1e-9)
    twice = pc.core.chain(joint, 2 * RADIUS)
    assert shown(twice, family) == pytest.approx(2 * shown(joint, family), rel=1e-12)
