"""Scale structured noise of the user's own shape to the budget.

DPAM's Theorem 3 holds for every Sigma that satisfies eq. (22). A noise that somebody
already uses, or the sigma C A^t eta of DPAM-short's Algorithm 1, can so be priced
and put in a loop.
"""

from dataclasses import replace
from typing import Any

import numpy as np

from ..core._linalg import round_up
from ..core.design import laplace_size
from ..core.errors import PrivacyError, UncertifiableError
from .certify import floored_squares, structured_loss
from .correlated import allowed_beside_grid
from .problem import DesignProblem, SizedNoise, uncovered
from .robust import beside_floor, of_all_models

#: Relative size to which the scale beside a floor is found.
_SHARP = 1e-9


def own_shape(problem: DesignProblem) -> SizedNoise:
    """Structured noise S of the request's shape that just meets the budget."""
    request = problem.request
    family = problem.family
    shape: Any = request.factor
    if request.floor is not None:
        return _beside_floor(problem, shape)
    loss = structured_loss(problem, shape)
    if family.shift_norm == 2:
        size = loss.gdp / problem.allowed
    else:
        size = laplace_size(loss, request.budget, request.releases)
    if not size > 0:
        raise PrivacyError(
            "no output depends on the protected states within the horizon: no noise is "
            "needed"
        )
    sized = of_all_models(problem, shape * float(round_up(size, 4)))
    factor: Any = sized.tangent_factor
    told = uncovered(problem.plant, problem.horizon, factor)
    return replace(sized, caveats=told)


def _beside_floor(problem: DesignProblem, shape: np.ndarray) -> SizedNoise:
    """Noise of a shape, as small as the budget allows beside the floor."""
    grid = problem.grid
    allowed = allowed_beside_grid(problem, grid)

    def excess(scale: float) -> float:
        squares, _ = floored_squares(problem, shape * scale)
        return float(np.sqrt(squares.max())) / allowed

    low = 0.0
    high = 1.0
    while excess(high) > 1:
        low = high
        high = 4 * high
        if high > 1e150:
            raise UncertifiableError(
                "factor: however large it is, some hidden move exceeds the budget: the "
                "shape and the floor do not cover it; raise the floor"
            )
    while high - low > _SHARP * high:
        middle = (low + high) / 2
        if excess(middle) > 1:
            low = middle
        else:
            high = middle
        if high < 1e-150:
            break
    factor = shape * high
    squares, exact = floored_squares(problem, factor)
    return beside_floor(problem, factor, squares, exact, grid)
