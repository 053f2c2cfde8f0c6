"""The exceptions and the warning that a caller acts on.

Everything else is a ``ValueError`` or a ``TypeError``.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable
from types import FrameType
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray


class PrivacyError(ValueError):
    """Refuse a claim that does not hold, or that double precision cannot certify.

    Examples
    --------
    >>> from privcontrol.core import gaussian_std
    >>> try:
    ...     gaussian_std(10.0, 1e-5, method="classical")
    ... except PrivacyError as error:
    ...     print(error)  # doctest: +ELLIPSIS
    method 'classical' claims (epsilon, delta) = (10, 1e-05), but the true delta of its noise is 2.2...
    """


class NotRealizableError(PrivacyError):
    """Refuse noise that misses a protected direction (Theorems 1 and 2, eq. (8)).

    Attributes
    ----------
    direction : ndarray or None
        A protected move, in the coordinates of the data, that is published without noise.

    Examples
    --------
    >>> from privcontrol.core import *
    >>> import numpy as np
    >>> bare = Mechanism(LinearQuery(np.eye(2)), GaussianNoise([[1.0], [0.0]]))
    >>> try:
    ...     bare.guarantee(DirectionAdjacency([[0.0], [1.0]]))
    ... except NotRealizableError as error:
    ...     print(error.direction)
    [0. 1.]
    """

    def __init__(
        self, message: str, direction: NDArray[np.float64] | None = None
    ) -> None:
        super().__init__(message)
        self.direction = direction


class BudgetExceededError(PrivacyError):
    """Refuse a charge that the privacy budget does not cover; it was not recorded.

    Examples
    --------
    >>> from privcontrol.core import *
    >>> ledger = PrivacyLedger(PrivacyBudget(epsilon=1.0))
    >>> budget = PrivacyBudget(epsilon=0.6)
    >>> release = PrivacyGuarantee.black_box(budget, DirectionAdjacency([[1.0]]))
    >>> try:
    ...     ledger.charge(release, count=2)
    ... except BudgetExceededError:
    ...     print(ledger.remaining)
    1.0
    """


class UncertifiableError(PrivacyError):
    """Refuse a size that double precision cannot carry with the promised accuracy.

    Examples
    --------
    >>> from privcontrol.core import laplace_scale
    >>> try:
    ...     laplace_scale(1e-300, 1e300)
    ... except UncertifiableError:
    ...     print("no float is large enough")
    no float is large enough
    """


class PrivacyWarning(UserWarning):
    """Warn of a guarantee that holds, at a price that the user may not expect.

    Examples
    --------
    >>> import warnings
    >>> warnings.simplefilter("error", PrivacyWarning)  # where none is expected
    """


#: Modules whose lines a warning does not name.
_OURS = ("privcontrol", "contextlib")


def frame_of_user() -> FrameType:
    """Return the frame that called the package."""
    frame = sys._getframe()
    while frame.f_back and frame.f_globals.get("__name__", "").startswith(_OURS):
        frame = frame.f_back
    return frame


def warn_user(text: str, category: type[Warning] = PrivacyWarning) -> None:
    """Warn of the line that called the package, once as ``warnings.warn`` does."""
    frame = frame_of_user()
    place = frame.f_code.co_filename, frame.f_lineno
    shown = frame.f_globals.setdefault("__warningregistry__", {})
    module = frame.f_globals.get("__name__")
    warnings.warn_explicit(text, category, *place, module, shown)


# -- errors of the user's own code --------------------------------------------------


def answer(
    function: Callable[..., Any],
    what: str,
    advice: str,
    *inputs: ArrayLike,
    **options: object,
) -> Any:
    """Return ``function(*inputs, **options)``, or raise an error without its text.

    The ``RuntimeError`` names the function as ``what``, says the shapes of the inputs and
    ends with the ``advice``.
    """
    try:
        return function(*inputs, **options)
    except Exception as error:
        kind = type(error).__name__
    shapes = " and ".join(str(np.shape(x)) for x in inputs)
    raise RuntimeError(
        f"{what}: raised {kind} on an input of shape {shapes}; its text is withheld, it "
        f"may show the input. {advice}"
    )
