"""A Lipschitz constant together with the norms that it is for."""

import math

from privcontrol.core._linalg import one_of, positive_number

NORMS = (1, 2, math.inf)


class LipschitzBound(float):
    """A certified Lipschitz constant with its norms, a float.

    It bounds sup ||f(x) - f(x')||_q / ||x - x'||_p from above. The input norm p is that of
    the radius, and the output norm q that of the noise: 2 for Gaussian and 1 for Laplace
    noise (IP Definitions 1, 3 and 4). Arithmetic with it gives plain floats.

    Parameters
    ----------
    value : float
        The bound, finite and >= 0.
    p, q : {1, 2, inf}
        Norm of the inputs and of the outputs.
    method : str
        How the bound was found.

    Raises
    ------
    ValueError
        If the value is negative, infinite or NaN, or a norm is not one of the three.

    Examples
    --------
    >>> gain = LipschitzBound(1.5, p=2, q=1, method="signs")
    >>> gain, 2 * gain
    (LipschitzBound(1.5, p=2, q=1, method='signs'), 3.0)
    """

    __slots__ = ("method", "p", "q")
    p: float
    q: float
    method: str

    def __new__(
        cls, value: float, *, p: float, q: float, method: str
    ) -> "LipschitzBound":
        number = positive_number(value, "Lipschitz bound", zero=True)
        self = super().__new__(cls, number)
        object.__setattr__(self, "p", one_of(p, "p", NORMS))
        object.__setattr__(self, "q", one_of(q, "q", NORMS))
        object.__setattr__(self, "method", method)
        return self

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(
            f"LipschitzBound is frozen: {name} cannot be set; build another bound"
        )

    def __repr__(self) -> str:
        norms = f"p={self.p}, q={self.q}"
        return f"LipschitzBound({float(self)!r}, {norms}, method={self.method!r})"

    def __reduce__(self) -> tuple:
        return _rebuild, (float(self), self.p, self.q, self.method)


def _rebuild(value: float, p: float, q: float, method: str) -> LipschitzBound:
    return LipschitzBound(value, p=p, q=q, method=method)
