"""Every example in a docstring runs and prints what it says, and every public name has one."""

import doctest
import importlib
import inspect
import pkgutil

import pytest

import privcontrol as pc

MODULES = [module.name for module in pkgutil.walk_packages(pc.__path__, "privcontrol.")]
OPTIONS = doctest.NORMALIZE_WHITESPACE


@pytest.mark.parametrize("name", MODULES)
@pytest.mark.filterwarnings("ignore::privcontrol.numerics.errors.PrivacyWarning")
def test_examples_print_what_they_say(name):
    result = doctest.testmod(importlib.import_module(name), optionflags=OPTIONS)
    assert not result.failed


def public():
    for source in (pc, pc.plants, pc.consensus):
        for name in source.__all__:
            thing = getattr(source, name)
            if not inspect.ismodule(thing):
                yield f"{source.__name__}.{name}", thing


@pytest.mark.parametrize(
    "name, thing", [pytest.param(*pair, id=pair[0]) for pair in public()]
)
def test_every_public_name_has_an_example(name, thing):
    assert ">>>" in (inspect.getdoc(thing) or ""), f"{name} has no example"
