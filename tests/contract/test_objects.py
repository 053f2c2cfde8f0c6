"""Every property, and every method that needs no argument, of every kind of object.

Each gives its result, or an error of the library's own that says what to do instead.
"""

import inspect
import re

import control as ct
import matplotlib.pyplot as plt
import numpy as np
import pytest
from contract import objects, table
from fuzz.fuzzer import raised_here

import privcontrol as pc
from privcontrol import consensus, core, designs, loop, regions, response

#: They end an object's life, so they are called last.
LAST = ("close",)


def questions(thing):
    """Names of what a class answers without an argument, methods that end it last."""
    found = []
    for name in dir(type(thing)):
        if name.startswith("_"):
            continue
        own = inspect.getattr_static(type(thing), name)
        if isinstance(own, classmethod | staticmethod):
            continue
        if callable(own):
            try:
                taken = list(inspect.signature(own).parameters.values())[1:]
            except ValueError:  # a method of C
                continue
            named = [
                p for p in taken if p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)
            ]
            if any(p.default is p.empty for p in named):
                continue
        found.append(name)
    return sorted(found, key=lambda name: (name in LAST, name))


def answer(thing, name):
    value = getattr(thing, name)
    is_method = callable(getattr(type(thing), name, None))
    return value() if is_method else value


#: What stands between what was expected and what to do.
CURE = re.compile(r"[;:,] ")


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("group", objects.GROUPS)
def test_each_answers_or_says_what_to_do(group):
    asked = 0
    wrong = []
    for label, thing in objects.made(group):
        for name in questions(thing):
            asked += 1
            try:
                answer(thing, name)
            except Exception as error:
                text = str(error)
                told = len(text.split()) >= 8 and CURE.search(text)
                if not (raised_here(error) and told):
                    wrong.append(f"{label}.{name}: {type(error).__name__}: {text}")
        plt.close("all")
    assert not wrong, "\n".join(wrong)
    assert asked >= 30


@pytest.mark.filterwarnings("ignore")
def test_a_question_that_raises_another_library_s_error_is_found():
    """What `noise.system` did: python-control refuses a matrix without columns."""
    with pytest.raises(ct.ControlDimension) as raw:
        ct.ss(np.eye(2), np.zeros((2, 0)), np.ones((1, 2)), np.zeros((1, 0)), 1.0)
    assert not raised_here(raw.value)
    with pytest.raises(ct.ControlDimension) as own:
        pc.private_feedback(objects.VEHICLE, [[1.0, 2.0]])
    assert raised_here(own.value)


def test_every_public_class_is_asked():
    rooms = (pc, core, consensus, designs, loop, regions, response)
    public = {name: getattr(room, name) for room in rooms for name in room.__all__}
    classes = {
        name
        for name, thing in public.items()
        if inspect.isclass(thing)
        and not inspect.isabstract(thing)
        and not issubclass(thing, BaseException | Warning)
    }
    met = {
        kind.__name__
        for group in objects.GROUPS
        for _, thing in objects.made(group)
        for kind in type(thing).__mro__
    }
    assert classes <= met, classes - met


@pytest.mark.slow
def test_every_kind_of_noise_in_the_table_is_asked():
    kinds = {objects.kind_of(table.designed(name)) for name in objects.NOISES}
    every = {objects.kind_of(table.designed(name)) for name in table.noise_requests()}
    assert kinds == every


# -- the noise as a system ----------------------------------------------------------


@pytest.mark.parametrize("name", objects.NOISES)
def test_the_system_of_noise_makes_its_samples(name):
    """gamma of drawn entries, by python-control, where entries drawn once enter at 0."""
    noise = table.designed(name)
    correlated = any(type(part).__name__ == "Correlated" for part in noise.parts)
    if correlated:
        with pytest.raises(ValueError, match="no system of finite order; noise.covar"):
            noise.system  # noqa: B018
        return
    system = noise.system
    assert (system.noutputs, system.dt) == (noise.process.outputs, noise.plant.dt)
    if noise.horizon == np.inf:
        entries = np.random.default_rng(0).normal(size=(6, noise.process.total.width))
        gamma, state = [], np.zeros(system.nstates)
        for eta in entries:
            gamma.append(system.C @ state + system.D @ eta)
            state = system.A @ state + system.B @ eta
        rest = np.zeros((1, noise.process.total.once))
        expected = noise.process.total.signal(rest, entries[None])[0]
        np.testing.assert_allclose(gamma, expected, atol=1e-12)
        return
    eta = noise.process.draw(0, 1)
    entering = noise.process.inputs(eta)[0]
    assert entering.shape == (noise.horizon, system.ninputs)
    times = noise.timepts
    made = ct.forced_response(system, times, entering.T, squeeze=False).outputs
    np.testing.assert_allclose(made.T, noise.process.signal(eta)[0], atol=1e-10)
