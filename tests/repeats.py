"""Tests of many cases: a few of them always, or all of them in one."""

from collections.abc import Callable, Iterable

import pytest
from hypothesis import given, settings
from hypothesis.strategies import SearchStrategy


def few(values: Iterable, of: int) -> list:
    """Parameters of which the first ``of`` run always, and all of them with ``-m slow``.

    For seeds and the like, of which any one would notice what the others notice. A tuple
    has the values of several arguments.
    """
    every = list(values)
    return [*every[:of], *map(_slow, every[of:])]


def _slow(value):
    values = value if isinstance(value, tuple) else (value,)
    return pytest.param(*values, marks=pytest.mark.slow)


def drawn(*strategies: SearchStrategy, examples: tuple[int, int]) -> Callable:
    """Make a test of a check of drawn values: of a few always, of more with ``-m slow``."""

    def of(check: Callable) -> Callable:
        @pytest.mark.parametrize("examples", few(examples, of=1))
        def test(examples):
            settings(max_examples=examples, deadline=None)(given(*strategies)(check))()

        test.__name__ = check.__name__
        test.__doc__ = check.__doc__
        return test

    return of


def for_every(values: Iterable) -> Callable:
    """Make one test of a quick check of many values, which names all that fail."""

    def of(check: Callable) -> Callable:
        def test():
            failed = {}
            for value in values:
                try:
                    check(value)
                except (AssertionError, pytest.fail.Exception) as error:
                    failed[value] = str(error)
            assert not failed

        test.__name__ = check.__name__
        test.__doc__ = check.__doc__
        return test

    return of
