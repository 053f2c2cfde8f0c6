"""Privacy losses as events of dp-accounting, for people who keep their accounts there."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import TYPE_CHECKING

from .loss import PrivacyLoss, Product

if TYPE_CHECKING:
    from dp_accounting import DpEvent


def event_of(loss: PrivacyLoss) -> DpEvent:
    """Return the event whose privacy loss is that of the hidden move that costs most.

    Where it depends on epsilon which move costs most, the event is a Laplace release of
    one coordinate whose shift is the largest sum of shifts. It costs at least as much.
    """
    products = loss.products
    if any(product.boxes for product in products):
        raise ValueError(
            "dp-accounting has no event for a release of which only (epsilon, delta) is "
            "known; export the other guarantees and compose it there by hand"
        )
    if len(products) == 1:
        return _event_of_product(products[0])
    if any(product.gaussian for product in products):
        raise ValueError(
            "no single event costs what these Gaussian and Laplace releases cost "
            "together; export the guarantee of each release and compose them there"
        )
    largest = max(product.pure for product in products)
    return _event_of_product(Product(((largest, 1),)))


def _event_of_product(product: Product) -> DpEvent:
    """Return the composition of a product's Gaussian and Laplace releases."""
    try:
        import dp_accounting
    except ImportError as error:
        raise ImportError(
            'to_dp_event needs dp-accounting: pip install "privcontrol[accounting]"'
        ) from error
    events = []
    for shift, count in product.shifts:
        event = dp_accounting.LaplaceDpEvent(_noise_of(shift))
        events.append(dp_accounting.SelfComposedDpEvent(event, count))
    if product.gaussian:
        events.append(dp_accounting.GaussianDpEvent(_noise_of(product.gaussian)))
    if not events:
        return dp_accounting.NoOpDpEvent()
    return events[0] if len(events) == 1 else dp_accounting.ComposedDpEvent(events)


def _noise_of(shift: float) -> float:
    """Return the noise per unit of sensitivity, 1 / shift, not rounded up."""
    noise = 1 / max(shift, 1e-300)
    if Fraction(noise) * Fraction(shift) > 1:
        return math.nextafter(noise, 0.0)
    return noise
