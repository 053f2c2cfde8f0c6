"""Every public callable refuses unknown keywords and documents every parameter, as python-control asks of itself."""

import inspect
import re

import pytest
from repeats import for_every

import privcontrol as pc
from privcontrol import designs, loop, regions, response, studies

#: Callables that take ``**kwargs``: where it is tested that they refuse what they do not know.
VARIADIC = {
    "PrivateResponse.__call__": "test_a_response_refuses_keywords_that_it_does_not_know",
    "ConsensusResponse.__call__": "test_a_response_refuses_keywords_that_it_does_not_know",
    "ConsensusResponse": "test_a_response_refuses_keywords_that_it_does_not_know",
}
#: Methods that the library calls on itself, and tolerances: parameters that their docstrings need not name.
EXCUSED = {
    "AffineManifold.circuits": {"charts"},
    "AffineManifold.contains": {"rtol"},
    "StateAdjacency.moves": {"manifold"},
    "OutputNoise": {"_promised"},  # set by what makes noise, and by nobody else
}
#: What is inherited from python-control, numpy or the standard library keeps their documentation.
OWN = "privcontrol"


def public():
    """(qualified name, callable, class or None) of all that a user can call."""
    roots = {name: getattr(pc, name) for name in pc.__all__}
    for room in (pc.core, pc.consensus, designs, regions, loop, studies, response):
        roots |= {name: getattr(room, name) for name in room.__all__}
    roots |= {f"plants.{name}": getattr(pc.plants, name) for name in pc.plants.__all__}
    for name, thing in roots.items():
        if inspect.isfunction(thing):
            yield name, thing, None
        elif inspect.isclass(thing) and not issubclass(thing, BaseException):
            yield name, thing, thing
            for method, function in inspect.getmembers(thing, callable):
                visible = not method.startswith("_") or method == "__call__"
                if visible and str(getattr(function, "__module__", None)).startswith(
                    OWN
                ):
                    yield f"{name}.{method}", function, thing


PUBLIC = {name: (thing, owner) for name, thing, owner in public()}


def parameters(thing):
    # what a class is made with is its own signature, not that of an abstract base's __new__
    return [p for p in inspect.signature(thing).parameters.values() if p.name != "self"]


@for_every(PUBLIC)
def test_unknown_keywords_raise(name):
    thing, owner = PUBLIC[name]
    if any(p.kind == p.VAR_KEYWORD for p in parameters(thing)):
        assert VARIADIC.get(name) in globals(), (
            f"{name} takes **kwargs: list a test that it refuses unknown ones"
        )
        return
    receiver = (
        () if thing is owner or owner is None or inspect.ismethod(thing) else (None,)
    )
    with pytest.raises(
        TypeError, match=r"unexpected keyword|takes no (keyword )?arguments|abstract"
    ):
        thing(*receiver, unknown_keyword=1)


def documentation(name):
    """A callable's docstring, with those of the callables that it refers to for its parameters."""
    thing, owner = PUBLIC[name]
    text = inspect.getdoc(thing) or ""
    if owner is not None and thing is not owner:
        text += "\n" + (inspect.getdoc(owner) or "")
    seen = text
    for reference in re.findall(r"`+([\w.]+)`+", text):
        owners = [reference, f"{name.rpartition('.')[0]}.{reference}"]
        seen += "".join(
            "\n" + (inspect.getdoc(PUBLIC[other][0]) or "")
            for other in owners
            if other in PUBLIC
        )
    return seen


@for_every(PUBLIC)
def test_signatures_name_types_in_a_word(name):
    """help() shows ArrayLike, not the two thousand characters that numpy makes of it."""
    shown = str(inspect.signature(PUBLIC[name][0]))
    assert "_SupportsArray" not in shown
    assert "typing." not in shown


@for_every(PUBLIC)
def test_every_parameter_is_documented(name):
    thing, owner = PUBLIC[name]
    text = documentation(name)
    assert text, f"{name} has no docstring"
    if thing is owner and re.search(r"[Mm]ade by", text):
        return  # a result, which users do not construct
    named = [p for p in parameters(thing) if p.kind != p.VAR_KEYWORD]
    if (
        thing is not owner
        and len(named) == 1
        and named[0].default is inspect.Parameter.empty
    ):
        return  # the one argument of a method is what its summary is about
    absent = {p.name for p in named if not re.search(rf"\b{re.escape(p.name)}\b", text)}
    missing = sorted(absent - EXCUSED.get(name, set()))
    assert not missing, f"{name} does not document {', '.join(missing)}"


@for_every(PUBLIC)
def test_every_function_says_what_it_does_in_one_line(name):
    first = (inspect.getdoc(PUBLIC[name][0]) or "").split("\n\n")[0]
    assert first.endswith((".", ":")), f"{name}: the summary is {first!r}"


@for_every(PUBLIC)
def test_docstrings_do_not_begin_with_a_question_word(name):
    first = (inspect.getdoc(PUBLIC[name][0]) or "").split()[:1]
    assert first not in (["What"], ["Which"], ["How"], ["Whether"], ["Where"])


def test_a_response_refuses_keywords_that_it_does_not_know():
    vehicle, pure = pc.plants.vehicle(), pc.PrivacyBudget(epsilon=1)
    secret = pc.StateAdjacency({"position": 1.0})
    noise = pc.design_output_noise(
        vehicle, horizon=3, budget=pure, adjacency=secret, family="laplace"
    )
    pair = pc.private_consensus([[0, 0.25], [0.25, 0]], pure, 1.0, family="laplace")
    for answer in (
        pc.private_lqg(vehicle, 1, 1, 1, 1, noise).simulate(rng=0),
        pair.simulate([0.0, 2.0], 3, rng=0),
    ):
        with pytest.raises(TypeError, match=r"unrecognized keywords.*unknown_keyword"):
            answer(unknown_keyword=1)
    errors = {"message": answer.squared_error()}
    with pytest.raises(TypeError, match="unknown_keyword"):
        pc.consensus.ConsensusResponse(
            errors, time=answer.time, outputs=answer.y, unknown_keyword=1
        )
