"""The privacy budget: what a user asks for, checked once."""

import inspect
import warnings
from dataclasses import dataclass

from ._linalg import positive_number
from .errors import PrivacyWarning

#: A delta above this is allowed, with a warning.
_LARGE_DELTA = 0.1


@dataclass(frozen=True, kw_only=True)
class PrivacyBudget:
    """The pair (epsilon, delta) of approximate differential privacy; both by name.

    Budgets do not add: what composes are the guarantees of releases. A pair that is known of a release made elsewhere
    becomes one by ``PrivacyGuarantee.black_box(budget, adjacency)``.

    Parameters
    ----------
    epsilon : float
        Bound on the privacy loss in nats, finite, at least 0.
    delta : float, optional
        Probability with which the bound may fail, in [0, 1). Zero asks for pure differential privacy,
        which Gaussian noise cannot give. Of a secret of many people it should be far below one over their number.

    Raises
    ------
    ValueError
        If a number is out of range or both are zero (nothing could be published).
    TypeError
        If a number is given by position, or two budgets are added.

    Warns
    -----
    PrivacyWarning
        If delta is above 0.1.

    Examples
    --------
    >>> PrivacyBudget(epsilon=1.0, delta=1e-2)
    PrivacyBudget(epsilon=1.0, delta=0.01)
    """

    epsilon: float
    delta: float = 0.0

    def __new__(cls, *positional, **named):
        if positional:
            pairs = [
                f"{name}={value!r}"
                for name, value in zip(("epsilon", "delta"), positional)
            ]
            known = [f"{name}={value!r}" for name, value in named.items()]
            raise TypeError(
                f"PrivacyBudget: expected its numbers by name, got {len(positional)} by position; "
                f"write PrivacyBudget({', '.join(pairs + known)})"
            )
        return super().__new__(cls)

    def __post_init__(self):
        object.__setattr__(
            self, "epsilon", positive_number(self.epsilon, "epsilon", zero=True)
        )
        object.__setattr__(
            self, "delta", positive_number(self.delta, "delta", zero=True)
        )
        if self.delta >= 1:
            raise ValueError(
                f"delta: expected a probability in [0, 1), got {self.delta}; delta = 1 promises nothing"
            )
        if self.epsilon == 0 == self.delta:
            raise ValueError(
                "epsilon and delta are both 0: only data-independent noise meets that; raise one of them"
            )
        if self.delta > _LARGE_DELTA:
            warnings.warn(
                f"delta = {self.delta:g} is large: a mechanism that publishes the whole secret with this probability "
                "meets such a budget. Values of 0.01 and below are usual, far below one over the number of people",
                PrivacyWarning,
                stacklevel=3,
            )

    def __add__(self, other):
        raise TypeError(
            "budgets do not add, guarantees of releases do: give each pair its secret with "
            "PrivacyGuarantee.black_box(budget, adjacency), and add those"
        )

    __radd__ = __add__


PrivacyBudget.__signature__ = inspect.signature(PrivacyBudget.__init__).replace(
    parameters=[
        p
        for p in inspect.signature(PrivacyBudget.__init__).parameters.values()
        if p.name != "self"
    ]
)


def checked_budget(budget):
    """The budget itself, or a ``TypeError`` that says how to write one."""
    if isinstance(budget, PrivacyBudget):
        return budget
    raise TypeError(
        f"budget: expected a PrivacyBudget, got {type(budget).__name__}; "
        "write PrivacyBudget(epsilon=1.0, delta=1e-3), with your own numbers"
    )
