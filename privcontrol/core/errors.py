"""The exceptions and the warning that a caller acts on. Everything else is a ``ValueError`` or a ``TypeError``."""


class PrivacyError(ValueError):
    """A privacy claim that does not hold, or that double precision cannot certify."""


class NotRealizableError(PrivacyError):
    """The noise misses a direction that the adjacency protects (Theorems 1 and 2, eq. (8)).

    Attributes
    ----------
    direction : ndarray or None
        A protected move, in the coordinates of the data, that is published without noise.
    """

    def __init__(self, message, direction=None):
        super().__init__(message)
        self.direction = direction


class BudgetExceededError(PrivacyError):
    """A charge that the privacy budget does not cover; nothing was recorded."""


class UncertifiableError(PrivacyError):
    """A size that double precision cannot carry with the promised accuracy; nothing was designed."""


class PrivacyWarning(UserWarning):
    """A guarantee that holds, at a price or with a consequence that the user may not expect."""
