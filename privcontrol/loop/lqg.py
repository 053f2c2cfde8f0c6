"""LQG loops on privatised outputs, and the best ones that a public prior allows."""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import control as ct
import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..core._linalg import one_of, positive_number
from ..core.errors import PrivacyWarning
from ..designs.output_noise import OutputNoise
from ..systems.plant import Plant
from .assembly import FORMS, assembled, driven_side, warn_of_public_secret
from .checks import Weights, fitting_plant, known_keywords, matrix, semidefinite
from .loop import PrivateLoop
from .moments import Expected
from .optimum import optimal_loop
from .own_law import general_controller
from .regulator import LqgDesign, constant_filter


@known_keywords
def private_lqg(
    sys: ct.StateSpace,
    Q: ArrayLike,
    R: ArrayLike,
    QN: ArrayLike,
    RN: ArrayLike,
    noise: OutputNoise | None = None,
    *,
    controls: Sequence[str | int] | None = None,
    integral: str | Sequence[str] | Mapping[str, float] | None = None,
    G: ArrayLike | None = None,
    N: ArrayLike | None = None,
    form: str | None = None,
    codesign: bool = False,
    cap: float = 10.0,
    P0: ArrayLike | None = None,
    initial_state: ArrayLike | None = None,
    estimator: str | None = None,
    terminal: ArrayLike | str = "dare",
    name: str | None = None,
    progress: bool = False,
) -> PrivateLoop:
    """Make an LQG loop whose cloud sees only privatised outputs.

    With a public prior x(0) ~ N(initial_state, P0) it is the best loop there is: u = -K
    xhat with the gains of the LQ recursion and the Kalman estimate of the plant's state
    and the noise's together. No other function of what is published costs less over the
    horizon (for Laplace noise no other linear one). The filter is post-processing, so
    the guarantee is the noise's own. A prior that is wrong but public keeps it, and
    costs accuracy. One that is computed from the secret gives the secret away.

    Without a prior the gains are those of ``ct.dlqr`` and ``ct.dlqe``, as in the
    papers. Their filter is told of independent output noise. Structured noise C A^t xi
    it cannot tell from the plant's own free response, and a loop with small QN and RN
    may then trust its measurements too much. Noise without a horizon is a linear system
    whose state the filter estimates as well; no other linear controller costs less in
    steady state.

    Parameters
    ----------
    sys : control.StateSpace
        Discrete-time plant x+ = A x + B u + G w, y = C x + D u + v with n states, m
        inputs, p outputs.
    Q, R : array_like, shapes (n, n) and (m, m)
        Weights of x'Q x + u'R u; a number is that multiple of the identity, here and
        below.
    QN, RN : array_like, shapes (n, n) (or (q, q) with G) and (p, p)
        Covariances of w and v, which tune the observer. They act where ``"design"``
        asks for them, as in `PrivateLoop.simulate`.
    noise, controls, G, N, form, name : optional
        As in `private_loop`, which names the errors too. G is ``sys.B`` for
        disturbances at the inputs.
    integral : str, sequence of str, or mapping of str to float, optional
        Outputs with integral action. The loop then takes references r for them, one for
        each, and their published values settle at r. The sum z of r - yhat has weight 1
        in the design, or the weight given. K is (m, n + k).
    codesign : bool, optional
        Choose the noise too, for the same request. Over a horizon that needs P0. The
        noise is then the best one for this loop among those of std at most ``cap``/y in
        every direction, y the privacy shift of the budget, and `PrivateLoop.optimality`
        has its certified gap. Without a horizon observer and noise change in turns.
    cap : float, optional
    P0 : array_like, shape (n, n) or (n,), or float, optional
        Public covariance of x(0), its diagonal, or a multiple of I.
    initial_state : array_like, shape (n,), optional
        Public mean of x(0), zero by default. Computed from the secret it would void the
        guarantee.
    estimator : {"kalman", "observer"}, optional
        "kalman" is the default with P0. Without P0 nothing is known of x(0): the limit
        of P0 = kappa I, exactly. "observer" keeps the constant gains of the papers.
    terminal : "dare" or array_like, shape (n, n) or (n,), or float, optional
        Weight of x(T) after the last sample. With the solution of the Riccati equation
        K is constant; 0 is the pure cost over the horizon.
    progress : bool, optional
        Show a tqdm bar over the turns of a co-design.

    Returns
    -------
    PrivateLoop
        `ValueError` if no stabilising gain exists, or a co-design has no noise to start
        from.

    Warns
    -----
    PrivacyWarning
        If P0 is 0 along a direction that the noise hides, or a loop without a prior
        costs more over its horizon than no control at all would; `private_loop` lists
        the others.

    Examples
    --------
    >>> import privcontrol as pc
    >>> vehicle = pc.plants.vehicle()
    >>> position = pc.StateAdjacency({"position": 1.0})
    >>> budget = pc.PrivacyBudget(epsilon=1.0, delta=1e-2)
    >>> noise = pc.design_output_noise(vehicle, horizon=100, adjacency=position,
    ...                                budget=budget)
    >>> loop = pc.private_lqg(vehicle, Q=20, R=1, QN=2, RN=1, noise=noise)
    >>> loop.K.round(4), loop.L.round(4)
    (array([[3.424 , 4.3095]]), array([[0.8266],
           [0.6973]]))
    """
    plant = fitting_plant(sys, noise)
    side = driven_side(plant, controls, noise)
    weights = Weights.of(
        side.order, *side.through.shape, Q=Q, R=R, QN=QN, RN=RN, G=G, N=N
    )
    weights.require()
    tracked: list[int] = []
    prices: list[float] = []
    if integral is not None:
        tracked, prices = _tracked(plant, integral, len(side.controls))
    design = _checked_design(
        plant, noise, len(tracked), P0, initial_state, estimator, terminal, form
    )
    design = replace(design, tracked=tuple(tracked), prices=tuple(prices))
    if design.is_kalman and design.form == "filter" and side.through.any():
        raise ValueError(
            "form: the plant passes an input on at once, so what is published at t "
            "would "
            'depend on itself if the controller read it; pass form="predictor"'
        )
    if codesign:
        _check_codesign(noise, design)
    if name is None:
        name = f"{sys.name}$private"
    law = design.law(side, weights, noise)
    loop = PrivateLoop(side, law, noise, weights, name, design.form, design=design)
    if codesign:
        return optimal_loop(loop, positive_number(cap, "cap"), progress)
    warn_of_public_secret(loop)
    loop = assembled(loop)
    if not design.is_kalman and not tracked and not loop.never_ends:
        # x(0) is as uncertain as it is without privacy noise, for any noise
        _warn_if_useless(loop, constant_filter(side, weights, None).covariance)
    return loop


def _checked_design(
    plant: Plant,
    noise: OutputNoise | None,
    sums: int,
    P0: ArrayLike | None,
    initial_state: ArrayLike | None,
    estimator: str | None,
    terminal: ArrayLike | str,
    form: str | None,
) -> LqgDesign:
    """The design that the arguments of `private_lqg` ask for."""
    n = plant.order
    if estimator is None:
        estimator = "observer" if P0 is None else "kalman"
    one_of(estimator, "estimator", ("kalman", "observer"))
    if form is None:
        form = "filter" if estimator == "kalman" else "predictor"
    one_of(form, "form", FORMS)
    covariance = None if P0 is None else semidefinite(P0, "P0", n)
    mean = None
    if initial_state is not None:
        mean = matrix(initial_state, "initial_state", (n,))
    if isinstance(terminal, str):
        one_of(terminal, "terminal", ("dare",))
        return LqgDesign(estimator, form, covariance, mean)
    if noise is None or noise.horizon == math.inf:
        raise ValueError(
            'terminal: without a horizon no state is the last one; pass "dare", or '
            "noise "
            "with a horizon"
        )
    weight = semidefinite(terminal, "terminal", n + sums)
    return LqgDesign(estimator, form, covariance, mean, weight)


def _check_codesign(noise: OutputNoise | None, design: LqgDesign) -> None:
    """Refuse a co-design that has nothing to choose, or no prior to choose it for."""
    if design.tracked:
        raise ValueError("codesign: loops with integral action keep their gains")
    if noise is None or noise.request is None:
        raise ValueError(
            "codesign: expected noise from design_output_noise to start from, got "
            "none; pass noise=..."
        )
    if noise.horizon != math.inf and (design.P0 is None or not design.is_kalman):
        raise ValueError(
            "codesign: over a horizon the best noise depends on what is known of x(0); "
            "pass its public covariance P0"
        )


def _warn_if_useless(loop: PrivateLoop, P0: NDArray) -> None:
    """`PrivacyWarning` where the loop costs more than no control at all."""
    if loop.noise is None:
        return
    times = loop.noise.timepts
    expected = Expected(P0, {"timepts": times})
    cost = expected.cost(loop).total
    with np.errstate(over="ignore", invalid="ignore"):  # an unstable plant
        idle = expected.cost(_idle(loop)).total
    if cost > idle:
        warnings.warn(
            f"this loop costs {cost:.3g} over its {len(times)} samples, and no control "
            f"at all {idle:.3g}: it follows the privacy noise. Pass the public "
            "covariance P0 of x(0), with which the filter knows the noise, weigh "
            "inputs more (R), or "
            "trust measurements less (RN)",
            PrivacyWarning,
            stacklevel=4,
        )


def _idle(loop: PrivateLoop) -> PrivateLoop:
    """The same plant without control, u = 0, and without noise."""
    nothing = np.zeros_like(loop.side.through.T)
    still = ct.ss([], [], [], nothing, loop.side.plant.dt)
    return replace(loop, law=general_controller(loop.side, still), noise=None, form="")


def _tracked(plant: Plant, integral: Any, inputs: int) -> tuple[list[int], list[float]]:
    """Indices of the outputs with integral action, and the weights of their sums."""
    if isinstance(integral, str):
        integral = [integral]
    if isinstance(integral, Sequence) and all(isinstance(one, str) for one in integral):
        integral = dict.fromkeys(integral, 1.0)
    if not isinstance(integral, Mapping):
        raise TypeError(
            "integral: expected names of outputs, or a mapping of names to weights, "
            f"got {type(integral).__name__}"
        )
    if not integral or not set(integral) <= set(plant.outputs):
        raise ValueError(
            "integral: expected names among the plant's outputs "
            f"{', '.join(plant.outputs)}"
        )
    if len(integral) > inputs:
        raise ValueError(
            f"integral: expected at most as many outputs as the {inputs} inputs that "
            f"are driven, got {len(integral)}: more cannot be held at will"
        )
    tracked = []
    prices = []
    for label, price in integral.items():
        tracked.append(plant.outputs.index(label))
        prices.append(positive_number(price, f"integral[{label!r}]"))
    return tracked, prices
