"""What a promise rests on cannot be changed after it was made."""

from dataclasses import FrozenInstanceError, replace

import numpy as np
import pytest
from gateway_cases import ENDLESS, POSITION, REQUESTS, noise

import privcontrol as pc


def made():
    """One object of every kind that carries a promise."""
    for kind in [*REQUESTS, *ENDLESS]:
        yield kind, noise(kind)
    weights = {"Q": np.eye(2), "R": 1, "QN": np.eye(2), "RN": 1}
    floored = noise("floored")
    yield "loop", pc.private_lqg(pc.plants.vehicle(), **weights, noise=floored)
    yield "public loop", pc.private_lqg(pc.plants.vehicle(), **weights)
    yield "gateway", pc.Gateway(floored, resolution=2.0**-10)
    yield "ledger", pc.PrivacyLedger(pc.PrivacyBudget(epsilon=1.0))
    yield "eavesdropper", pc.eavesdropper(floored)


MADE = dict(made())


@pytest.mark.parametrize("kind", MADE)
def test_no_array_of_a_promise_can_be_written(kind):
    """An attribute is read-only, or a copy of which a change stays without effect."""
    thing = MADE[kind]
    for name in dir(thing):
        if name.startswith("_"):
            continue
        try:
            value = getattr(thing, name)
        except (ValueError, AttributeError):
            continue
        if not isinstance(value, np.ndarray) or not value.flags.writeable:
            continue
        before = value.copy()
        value += 1.0
        assert np.array_equal(getattr(thing, name), before), name


@pytest.mark.parametrize("kind", MADE)
def test_no_attribute_of_a_promise_can_be_set(kind):
    thing = MADE[kind]
    for name in dir(thing):
        if name.startswith("_") or callable(getattr(type(thing), name, None)):
            continue
        with pytest.raises((FrozenInstanceError, AttributeError, TypeError)):  # noqa: PT012 - fail() names the case
            setattr(thing, name, None)
            pytest.fail(f"{name} was set")


@pytest.mark.parametrize("kind", [*REQUESTS, *ENDLESS])
def test_other_parts_do_not_inherit_a_guarantee(kind):
    """`dataclasses.replace(noise, parts=..)` kept epsilon = 1 for a tenth of the noise."""
    own = MADE[kind]
    larger = noise("floored", horizon=11).guarantee
    changes = {
        "parts": tuple(part.scaled(0.1) for part in own.parts),
        "horizon": 10**6,
        "guarantee": larger,
        "plant_data": replace(own.plant_data, A=own.plant_data.A * 0.5),
        "request": replace(own.request, resolution=np.ones(1)),
    }
    for name, value in changes.items():
        with pytest.raises(pc.PrivacyError, match="replace"):
            replace(own, **{name: value})
    assert replace(own, parts=own.parts) == own
    assert replace(own, request=None) == own


def test_gains_of_a_loop_are_copies():
    weights = {"Q": np.eye(2), "R": 1, "QN": np.eye(2), "RN": 1}
    loop = pc.private_lqg(pc.plants.vehicle(), **weights)
    with pytest.raises(ValueError, match="read-only"):
        loop.K[0, 0] = 0.0
    with pytest.raises(ValueError, match="read-only"):
        loop.L[0, 0] = 0.0


def test_a_secret_and_its_radius_cannot_be_written():
    with pytest.raises((FrozenInstanceError, AttributeError)):
        POSITION.radius = 5.0
