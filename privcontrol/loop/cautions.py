"""Warnings for a user who makes a loop."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ..designs.problem import DesignProblem
from ..numerics.errors import warn_user
from ..numerics.linalg import EPS, nonzero
from ..numerics.thresholds import ON_CIRCLE, ROUNDED
from ..secrets.modes import warn_of_costly_modes
from ..systems.linear import poles_of
from .data import LoopData
from .lqg import constant_filter
from .moments import OverRun


def warn_of_public_secret(loop: LoopData) -> None:
    """`PrivacyWarning` where the prior knows a direction that the noise is to hide."""
    design = loop.design
    noise = loop.noise
    if design is None or design.P0 is None or noise is None or noise.request is None:
        return
    if not loop.hides_states:
        return
    moves = DesignProblem(noise.plant_data, noise.request).hidden.vectors
    variances = np.diag(design.P0)
    # states count in their deviations, or in moves where there are none
    sizes = np.where(variances > 0, variances, np.sum(moves**2, axis=1))
    units = np.sqrt(nonzero(sizes))
    values, vectors = np.linalg.eigh(design.P0 / units[:, None] / units)
    known = vectors[:, values <= EPS * len(values) * max(values[-1], 0.0)]
    moves = moves / units[:, None]
    told = np.abs(known.T @ moves).max(axis=0, initial=0.0)
    if (told > ROUNDED * np.linalg.norm(moves, axis=0)).any():
        warn_user(
            "P0: it is 0 along a direction that the noise hides, which declares that "
            "part of the secret public: whoever reads P0 and initial_state knows it. "
            "Pass the "
            "variance that somebody without the secret would state"
        )


def warn_of_growth(loop: LoopData) -> None:
    """Warn of an unstable loop, and of noise that an unstable mode makes grow."""
    noise = loop.noise
    if noise is not None and noise.factor is not None and noise.request is not None:
        warn_of_costly_modes(
            noise.plant_data,
            noise.request.adjacency,
            noise.process.samples,
            ("unstable",),
        )
    if loop.dynamics.varies:
        return
    poles = poles_of(loop.dynamics.fixed)
    worst = poles[np.abs(poles).argmax()]
    if np.abs(worst) > 1 + ON_CIRCLE:
        if worst.imag == 0:
            worst = worst.real
        advice = "check the sign of the controller, u = controller (yhat, r)"
        if loop.law.follows_states:
            advice = (
                "the feedback is u = -K (estimate - xd) + ud, and L multiplies yhat - "
                "C xhat - D u: check the signs of K and L"
            )
        warn_user(
            f"the closed loop is unstable: its largest pole is {worst:.4g}; {advice}, "
            "and that it belongs to this plant",
            UserWarning,
        )


def warn_if_useless(loop: LoopData) -> None:
    """`PrivacyWarning` where the loop costs more over its run than no control at all.

    A filter that knows the noise costs no more, and is not asked for.
    """
    observer = loop.observer
    if loop.noise is None or observer is None or loop.knows_noise:
        return
    if loop.known_design.tracked:
        return
    times = loop.noise.timepts
    # x(0) is as uncertain as it is without privacy noise, for any noise
    P0 = constant_filter(loop.side, loop.weights, None).covariance
    expected = OverRun(P0, times)
    cost = expected.cost(loop).total
    still = replace(observer, K=np.zeros_like(observer.K))
    with np.errstate(over="ignore", invalid="ignore"):  # an unstable plant
        idle = expected.cost(replace(loop, law=still, noise=None)).total
    if cost > idle:
        warn_user(
            f"this loop costs {cost:.3g} over its {len(times)} samples, and no control "
            f"at all {idle:.3g}: it follows the privacy noise. Pass the public "
            "covariance P0 of x(0), with which the filter knows the noise, weigh "
            "inputs more (R), or "
            "trust measurements less (RN)"
        )
