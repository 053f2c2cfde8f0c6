"""Scale structured noise of the user's own shape to the budget.

DPAM's Theorem 3 holds for every Sigma that satisfies eq. (22). A noise that somebody
already uses, or the sigma C A^t eta of DPAM-short's Algorithm 1, can so be priced
and put in a loop.
"""

import math
from typing import Any

from numpy.typing import NDArray

from ..core._linalg import round_up, smallest
from ..core.errors import PrivacyError, UncertifiableError
from .certify import floored_squares, structured_loss
from .problem import DesignProblem, SizedNoise
from .robust import beside_floor, of_all_models

#: Relative size to which the scale beside a floor is found.
_SHARP = 1e-9
#: The least scale, where the floor alone is nearly enough.
_LEAST = 1e-150


def own_shape(problem: DesignProblem) -> SizedNoise:
    """Structured noise S of the request's shape that just meets the budget."""
    request = problem.request
    shape: Any = request.factor
    if request.floor is not None:
        return _beside_floor(problem, shape)
    loss = structured_loss(problem, shape)
    size = problem.size_for(loss)
    if not size > 0:
        raise PrivacyError(
            "no output depends on the protected states within the horizon: no noise is "
            "needed"
        )
    return of_all_models(problem, shape * float(round_up(size, 4)))


def _beside_floor(problem: DesignProblem, shape: NDArray) -> SizedNoise:
    """Noise of a shape, as small as the budget allows beside the floor."""

    def meets(scale: float) -> bool:
        squares, _ = floored_squares(problem, shape * scale)
        return math.sqrt(squares.max()) <= problem.allowed_beside_grid

    scale = _LEAST
    if not meets(scale):
        scale = smallest(meets, scale, 1.0, tolerance=_SHARP, limit=1 / _LEAST)
    if scale == math.inf:
        raise UncertifiableError(
            "factor: however large it is, some hidden move exceeds the budget: the shape "
            "and the floor do not cover it; raise the floor"
        )
    squares, exact = floored_squares(problem, shape * scale)
    return beside_floor(problem, shape * scale, squares, exact, problem.grid)
