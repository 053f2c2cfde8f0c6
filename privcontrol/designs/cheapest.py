"""The cheapest of what is tried one after the other, where some tries are refused."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Generic, Protocol, TypeVar

from ..numerics.errors import UncertifiableError


class Priced(Protocol):
    """What has a cost."""

    @property
    def cost(self) -> float: ...


PricedT = TypeVar("PricedT", bound=Priced)


class Cheapest(Generic[PricedT]):
    """The cheapest certified noise of those that were tried, or why there is none."""

    def __init__(self, least: PricedT | None = None) -> None:
        self.least = least
        self._refusal: UncertifiableError | None = None

    @property
    def cost(self) -> float:
        """Of the cheapest one, infinite while there is none."""
        return math.inf if self.least is None else self.least.cost

    def take(self, found: PricedT) -> None:
        """Keep noise that costs less than all before."""
        if found.cost < self.cost:
            self.least = found

    @contextmanager
    def noting_refusal(self) -> Iterator[None]:
        """Go on after a try that is refused, with the reason of the first one."""
        try:
            yield
        except UncertifiableError as error:
            self._refusal = self._refusal or error

    def result(self) -> PricedT:
        """Return the cheapest one.

        Raises
        ------
        UncertifiableError
            If there is none.
        """
        if self.least is None:
            refusal = self._refusal
            raise refusal or UncertifiableError("order: no noise is certified")
        return self.least
