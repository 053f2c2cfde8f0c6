"""A user's own code may raise on private values, and no error that comes out of this package shows or keeps them."""

import traceback

import numpy as np
import pytest
import scipy.sparse.linalg

import privcontrol as pc

BUDGET = pc.PrivacyBudget(epsilon=1.0, delta=1e-2)
SECRET = np.array([7.251953125, -3.50390625, 0.125])


class Telling(Exception):
    """An exception that shows what it was given in every way there is."""

    def __init__(self, value):
        super().__init__(f"cannot do {value}")
        self.value = value
        self.add_note(f"it was {value}")


def raises(x):
    try:
        raise KeyError(tuple(np.ravel(x)))
    except KeyError as error:
        raise Telling(np.ravel(x)) from error


class Unreadable:
    """Something whose conversion to an array fails and says what it holds."""

    def __init__(self, value):
        self.value = value

    def __array__(self, dtype=None, copy=None):
        raises(self.value)


def single_row(x):
    return (
        pytest.importorskip("sklearn.linear_model")
        .Ridge()
        .fit(np.eye(3), [1.0, 2.0, 3.0])
        .predict(x)
    )


def chain(error):
    """The error with all that it was raised from or during."""
    found, left = [], [error]
    while left:
        error = left.pop()
        if error is not None and error not in found:
            found.append(error)
            left += [error.__cause__, error.__context__]
    return found


def told(error):
    """Everything that a log of the error could show."""
    shown = ["".join(traceback.format_exception(error))]
    for one in chain(error):
        shown += [str(one), repr(one), repr(one.args), repr(vars(one))]
    return "\n".join(shown)


def refused(call, kinds=RuntimeError):
    with pytest.raises(kinds) as caught:
        call()
    return caught.value


def holds(text, values):
    return any(f"{abs(value):.8f}"[:6] in text for value in np.ravel(values))


def test_the_check_of_this_file_finds_a_leak():
    assert holds(told(refused(lambda: raises(SECRET), Telling)), SECRET)
    assert holds(told(refused(lambda: single_row(SECRET), ValueError)), SECRET)


@pytest.mark.parametrize(
    "answer", [raises, Unreadable, lambda x: [Unreadable(x)], single_row]
)
@pytest.mark.parametrize("kind", [pc.OutputPerturbation, pc.InputPerturbation])
def test_an_exception_of_the_model_shows_neither_the_input_nor_the_noisy_input(
    kind, answer
):
    seen = [SECRET]

    def model(x):
        seen.append(np.array(x))
        return answer(x)

    options = {"lipschitz": 1.0} if kind is pc.OutputPerturbation else {}
    mechanism = kind(model, BUDGET, radius=0.1, **options)
    x = SECRET if answer is single_row else np.tile(SECRET, (2, 1))
    error = refused(lambda: mechanism(x, rng=0))
    assert len(seen) == 2
    assert not holds(told(error), np.concatenate([np.ravel(values) for values in seen]))
    assert len(chain(error)) == 1
    for part in (
        "model: raised ",
        str(x.shape),
        "its text is withheld",
        "public inputs",
        "x[None]",
    ):
        assert part in str(error)
    assert "raises" not in [
        frame.name for frame in traceback.extract_tb(error.__traceback__)
    ]


def test_the_kind_of_the_exception_is_said():
    mechanism = pc.OutputPerturbation(raises, BUDGET, radius=0.1, lipschitz=1.0)
    assert "raised Telling on an input of shape (3,)" in str(
        refused(lambda: mechanism(SECRET))
    )


def test_a_query_that_fails_on_the_data_does_not_show_them():
    images = {
        "matvec": raises,
        "matmat": lambda X: np.ones((1, X.shape[1])),
        "dtype": float,
    }
    operator = scipy.sparse.linalg.LinearOperator((1, 3), **images)
    mechanism = pc.Mechanism(pc.LinearQuery(operator), pc.GaussianNoise([1.0]))
    error = refused(lambda: mechanism.release(SECRET, rng=0))
    assert not holds(told(error), SECRET)
    assert "query: raised Telling" in str(error)


def test_audits_of_a_callable_do_not_show_its_inputs():
    audited = [
        lambda x, rng=None: raises(x),
        lambda x, rng=None: [str(value) for value in x],
        pc.OutputPerturbation(raises, BUDGET, radius=10.0, lipschitz=1.0),
        pc.OutputPerturbation(raises, BUDGET, radius=10.0, lipschitz=1.0).then(np.sign),
    ]
    for mechanism in audited:
        error = refused(
            lambda m=mechanism: pc.audit(
                m, inputs=(SECRET, SECRET + 1), claim=BUDGET, trials=1000, rng=0
            )
        )
        assert not holds(told(error), SECRET)
        assert "withheld" in str(error)


PLANE = pc.AffineManifold([[1.0, 1.0, 1.0]], [-1.0])
READERS = {
    "release": pc.Mechanism(
        pc.LinearQuery(np.eye(3), PLANE), pc.GaussianNoise(np.ones(3))
    ).release,
    "contains": PLANE.contains,
    "residual": PLANE.residual,
    "project": PLANE.project,
    "input": pc.InputPerturbation(np.tanh, BUDGET, radius=0.1),
    "output": pc.OutputPerturbation(np.tanh, BUDGET, radius=0.1, lipschitz=1.0),
    "clipped": pc.core.ClippedNetwork([np.eye(3)], [np.zeros(3)], low=-1, high=1),
    "layer": pc.core.SLLLayer(np.eye(3), np.zeros(3), np.ones(3)),
    "network": pc.core.SLLNetwork(
        [pc.core.SLLLayer(np.eye(3), np.zeros(3), np.ones(3))], np.eye(3)
    ),
}
UNREADABLE = {
    "text": [*map(str, SECRET[:2]), "0.125x"],
    "an object": [*SECRET[:2], Unreadable(SECRET)],
    "an array-like": Unreadable(SECRET),
    "ragged": [list(SECRET[:2]), [SECRET[2]]],
    "complex": SECRET + 1j,
    "NaN": [*SECRET[:2], np.nan],
    "masked": np.ma.masked_array(SECRET, [True, False, False]),
    "a wrong length": SECRET[:2],
}


@pytest.mark.parametrize("data", UNREADABLE)
@pytest.mark.parametrize("reader", READERS)
def test_data_that_cannot_be_read_are_not_shown(reader, data):
    if data == "a wrong length" and reader in ("input", "output"):
        return  # models take inputs of any length
    error = refused(lambda: READERS[reader](UNREADABLE[data]), (TypeError, ValueError))
    assert not holds(told(error), SECRET)
    assert not isinstance(error, Telling)
    assert "expected" in str(error)


def test_a_refused_seed_is_not_shown():
    for seed in (-7251953125, "7251953125", [7251953125, -1]):
        error = refused(
            lambda s=seed: pc.GaussianNoise([1.0]).sample(rng=s),
            (TypeError, ValueError),
        )
        assert "7251953125" not in told(error)
