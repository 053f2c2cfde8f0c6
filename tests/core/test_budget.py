"""A budget is two named numbers: anything else is refused with the line to write, and a large delta is warned of."""

import copy
import inspect
import pickle
import warnings

import pytest

import privcontrol as pc


@pytest.mark.parametrize(
    "make, line",
    [
        (
            lambda: pc.PrivacyBudget(1.0, 1e-3),
            r"PrivacyBudget\(epsilon=1.0, delta=0.001\)",
        ),
        (lambda: pc.PrivacyBudget(1.0), r"PrivacyBudget\(epsilon=1.0\)"),
        (
            lambda: pc.PrivacyBudget(1.0, delta=1e-3),
            r"PrivacyBudget\(epsilon=1.0, delta=0.001\)",
        ),
    ],
)
def test_numbers_by_position_are_refused_with_the_line_to_write(make, line):
    with pytest.raises(TypeError, match=f"by name, got . by position; write {line}"):
        make()


def test_the_signature_is_that_of_the_contract():
    parameters = inspect.signature(pc.PrivacyBudget).parameters
    assert (
        list(parameters) == ["epsilon", "delta"] and parameters["delta"].default == 0.0
    )
    assert {p.kind for p in parameters.values()} == {inspect.Parameter.KEYWORD_ONLY}


def test_budgets_copy_and_pickle():
    budget = pc.PrivacyBudget(epsilon=1.0, delta=1e-3)
    assert (
        pickle.loads(pickle.dumps(budget))
        == copy.copy(budget)
        == copy.deepcopy(budget)
        == budget
    )


def test_a_large_delta_is_warned_of_and_a_usual_one_is_not():
    with pytest.warns(
        pc.PrivacyWarning, match="delta = 0.5 is large: .* publishes the whole secret"
    ) as caught:
        pc.PrivacyBudget(epsilon=1.0, delta=0.5)
    assert caught[0].filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for delta in (0.0, 1e-5, 1e-2, 0.1):
            pc.PrivacyBudget(epsilon=1.0, delta=delta)


QUERY, ADJACENCY = pc.LinearQuery([[1.0]]), pc.DirectionAdjacency([[1.0]])


@pytest.mark.parametrize(
    "use",
    [
        lambda pair: pc.design_gaussian(QUERY, ADJACENCY, pair),
        lambda pair: pc.design_laplace(QUERY, ADJACENCY, pair),
        lambda pair: pc.design_iid(QUERY, ADJACENCY, pair),
        lambda pair: pc.PrivacyGuarantee.black_box(pair, ADJACENCY),
        lambda pair: (
            pc.Mechanism(QUERY, pc.GaussianNoise([1.0]))
            .guarantee(ADJACENCY)
            .satisfies(pair)
        ),
        lambda pair: pc.PrivacyLedger(pair),
        lambda pair: pc.InputPerturbation(abs, pair, radius=1.0),
        lambda pair: pc.OutputPerturbation(abs, pair, radius=1.0, lipschitz=1.0),
    ],
)
def test_a_number_or_a_pair_in_place_of_a_budget_is_refused_with_the_line_to_write(use):
    for pair, name in ((1.0, "float"), ((1.0, 1e-3), "tuple")):
        with pytest.raises(
            TypeError,
            match=f"expected a PrivacyBudget, got {name}; write PrivacyBudget\\(epsilon=",
        ):
            use(pair)
