"""Noise whose covariance satisfies the user's own constraints."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..core.constraints import cheapest_factor
from ..numerics.checks import check_room
from .asked import Ask, Asked
from .output_noise import OutputNoise
from .problem import DesignProblem
from .table import faster

#: Numbers that a solver of matrix inequalities holds for the fourth power of a size.
_OF_SOLVER = 2


class OwnConstraints:
    """Finds the cheapest covariance under constraints, and asks for noise of this shape."""

    def accepts(self, asked: Asked) -> bool:
        return asked.constraints is not None

    def answer(self, asked: Asked, ask: Ask) -> OutputNoise:
        request, plant = asked.request, asked.problem.plant
        if asked.constraints is None:
            raise ValueError("constraints: expected some")
        if not request.horizon.ends or request.region is not None:
            raise ValueError(
                "constraints: expected a finite horizon and no region of models, over which "
                "noise has a covariance of its own"
            )
        _check_plain(asked)
        entries = request.horizon * plant.output_count
        what = f"constraints: a covariance of {entries} samples and outputs"
        check_room(_OF_SOLVER * entries**4, what, faster(request, plant))
        factor, check = _cheapest(asked.problem, asked.constraints)
        shaped = replace(asked, constraints=None, law_is_open=False)
        noise = ask(shaped.having(factor=factor, scale=False))
        check(noise.design.noise.covariance)
        return noise


def _check_plain(asked: Asked) -> None:
    """Refuse noise whose covariance is not all that is designed."""
    has_floor = asked.floor_is_open or asked.request.floor is not None
    if has_floor or asked.request.family != "gaussian":
        raise ValueError(
            "constraints: expected Gaussian noise without a floor; write the floor as a "
            "constraint, Gamma - floor**2 * np.eye(len) >> 0"
        )


def _cheapest(
    problem: DesignProblem, constraints: Callable[[Any], Any]
) -> tuple[NDArray[np.float64], Callable[[NDArray[np.float64]], None]]:
    """Find the cheapest Lambda (T p, T p) whose covariance satisfies constraints.

    A function that checks the covariance (T p, T p) of the noise comes second.
    """
    responses = problem.responses
    allowed = problem.allowed
    root = problem.price.root(np.eye(len(responses.singles)))
    return cheapest_factor(
        responses.singles / allowed,
        [ball / allowed for ball in (*responses.balls, *responses.around_windows)],
        root.T @ root,
        constraints,
    )
