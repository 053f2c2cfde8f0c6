"""The privacy budget: what a user asks for, checked once."""

from dataclasses import dataclass

from ._linalg import positive_number


@dataclass(frozen=True, kw_only=True)
class PrivacyBudget:
    """The pair (epsilon, delta) of approximate differential privacy.

    Parameters
    ----------
    epsilon : float
        Bound on the privacy loss in nats, finite, at least 0.
    delta : float, optional
        Probability with which the bound may fail, in [0, 1). Zero asks for pure differential privacy,
        which Gaussian noise cannot give.

    Raises
    ------
    ValueError
        If a number is out of range or both are zero (nothing could be published).

    Examples
    --------
    >>> PrivacyBudget(epsilon=1.0, delta=1e-2)
    PrivacyBudget(epsilon=1.0, delta=0.01)
    """

    epsilon: float
    delta: float = 0.0

    def __post_init__(self):
        object.__setattr__(self, "epsilon", positive_number(self.epsilon, "epsilon", zero=True))
        object.__setattr__(self, "delta", positive_number(self.delta, "delta", zero=True))
        if self.delta >= 1:
            raise ValueError(f"delta: expected a probability in [0, 1), got {self.delta}; delta = 1 promises nothing")
        if self.epsilon == 0 == self.delta:
            raise ValueError("epsilon and delta are both 0: only data-independent noise meets that; raise one of them")
