"""Every request gives the numbers that it gave: see ``write_golden.py``."""

import pytest
from contract import golden as numbers
from contract.write_golden import read

GOLDEN = read()


def test_every_request_has_golden_numbers():
    assert list(GOLDEN) == numbers.names()


@pytest.mark.parametrize("name", numbers.names())
def test_a_request_gives_the_numbers_it_gave(name):
    assert not numbers.differences(numbers.of(name), GOLDEN[name])
