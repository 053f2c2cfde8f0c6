"""LQG loops on privatised outputs, with gains and noise designed for each other."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import control as ct
import numpy as np
import scipy.linalg
from numpy.typing import ArrayLike, NDArray

from ..channel.endless_noise import EndlessNoise
from ..channel.output_noise import OutputNoise
from ..core._linalg import one_of, positive_number
from ..core.errors import PrivacyWarning
from ..trajectory.plant import Plant
from .assembly import FORMS, assembled, driven_inputs
from .checks import Weights, fitting_plant, known_keywords, present, semidefinite
from .codesign import codesigned
from .controller import ObserverFeedback, integral_controller
from .gains import feedback_gain_of, observer_gain, regulator_gain
from .loop import PrivateLoop
from .moments import Expected
from .signals import vector
from .steady import codesigned_without_horizon, lqg_without_horizon


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
    form: str = "predictor",
    codesign: bool = False,
    P0: ArrayLike | None = None,
    initial_state: ArrayLike | None = None,
    tolerance: float = 1e-3,
    name: str | None = None,
    progress: bool = False,
) -> PrivateLoop:
    """An LQG loop whose cloud sees privatised outputs only.

    The gains are those of ``ct.dlqr`` and ``ct.dlqe``. The Kalman filter is told of independent output noise. Structured
    noise C A^t xi it cannot tell from the plant's own free response, and a loop with small QN and RN may then trust its
    measurements too much. Pass ``codesign=True`` there; to compare noises alone use `tradeoff`, or one loop's
    ``with_noise``. Noise without a horizon is a linear system whose state the filter estimates as well (``L`` has a row
    for each). No other linear controller costs less in steady state.

    Parameters
    ----------
    sys : control.StateSpace
        Discrete-time plant x+ = A x + B u + G w, y = C x + D u + v with n states, m inputs, p outputs.
    Q, R : array_like, shapes (n, n) and (m, m)
        Weights of x'Q x + u'R u; a number is that multiple of the identity, here and below.
    QN, RN : array_like, shapes (n, n) (or (q, q) with G) and (p, p)
        Covariances of w and v, which tune the observer. They act where ``"design"`` asks for them, as in
        `PrivateLoop.simulate`.
    noise, controls, G, N, form, name : optional
        As in `private_loop`, which names the errors too. G is ``sys.B`` for disturbances at the inputs.
    integral : str, sequence of str, or mapping of str to float, optional
        Outputs with integral action. The loop then takes references r for them, one for each, and their published
        values settle at r. The sum z of r - yhat has weight 1 in the design, or the weight given. K is (m, n + k).
    codesign : bool, optional
        Change the gains K, L and the shape of structured noise in turns until the expected cost over the noise's
        horizon stops falling, for zero reference, disturbances of QN and RN, and the output noise. It is never above
        that of the separate design, of gains tuned to independent noise, and of no control unless the plant is strictly
        unstable. Without a horizon observer and noise change in turns. `PrivateLoop.history` has the costs.
    P0 : array_like, shape (n, n), optional
        Covariance of x(0) that a co-design has in view; that of the Kalman filter for QN and RN by default.
    initial_state : array_like, shape (n,), optional
        Public mean of x(0) that a co-design has in view, zero by default. A loop that is co-designed for zero may cost
        several times the plain one in a run from far off. Computed from the secret it would void the guarantee.
    tolerance : float, optional
        A co-design ends when a turn lowers the cost by less than this part of it.
    progress : bool, optional
        Show a tqdm bar over the start points of a co-design, with the time that is left.

    Returns
    -------
    PrivateLoop
        `ValueError` if no stabilising gain exists, or a co-design has no noise to start from.

    Warns
    -----
    PrivacyWarning
        If the loop costs more over its horizon than no control at all would; `private_loop` lists the others.

    Examples
    --------
    >>> import privcontrol as pc
    >>> vehicle = pc.plants.vehicle()
    >>> noise = pc.design_output_noise(vehicle, horizon=100, adjacency=pc.StateAdjacency({"position": 1.0}),
    ...                                budget=pc.PrivacyBudget(epsilon=1.0, delta=1e-2))
    >>> loop = pc.private_lqg(vehicle, Q=20, R=1, QN=2, RN=1, noise=noise)
    >>> loop.K.round(4), loop.L.round(4)
    (array([[3.424 , 4.3095]]), array([[0.8266],
           [0.6973]]))
    """
    plant = fitting_plant(sys, noise)
    one_of(form, "form", FORMS)
    driven = driven_inputs(plant, controls, noise)
    weights = Weights.of(plant, len(driven), Q=Q, R=R, QN=QN, RN=RN, G=G, N=N)
    weights.require()
    if (P0 is not None or initial_state is not None) and not codesign:
        raise ValueError(
            "P0, initial_state: they are what a co-design has in view; pass "
            "codesign=True, or drop them"
        )
    if integral is not None and codesign:
        raise ValueError("codesign: loops with integral action keep their gains")
    tolerance = positive_number(tolerance, "tolerance")
    if name is None:
        name = f"{sys.name}$private"
    known = noise
    if isinstance(noise, EndlessNoise):
        known = None  # lqg_without_horizon brings its observer
    L = observer_gain(plant, weights, known, form)[0]
    if integral is not None:
        tracked, prices = _tracked(plant, integral, len(driven))
        K = _integral_gain(plant, driven, weights, tracked, prices)
        control = integral_controller(plant, driven, K, L, form, tracked)
        kept = (tuple(driven), name, K, L, form, tuple(tracked))
        return assembled(PrivateLoop(plant, control, noise, weights, *kept))
    K = feedback_gain_of(plant, driven, weights)
    law = ObserverFeedback.of(plant, driven, K, L, form)
    loop = PrivateLoop(plant, law, known, weights, tuple(driven), name, K, L, form)
    if isinstance(noise, EndlessNoise):
        if codesign:
            return codesigned_without_horizon(loop, noise, tolerance)
        return assembled(lqg_without_horizon(loop, noise))
    loop = assembled(loop)
    # x(0) is as uncertain as it is without privacy noise, whatever the noise
    covariance = observer_gain(plant, weights, None, form)[1]
    if not codesign:
        _warn_if_useless(loop, covariance)
        return loop
    if P0 is not None:
        covariance = semidefinite(P0, "P0", plant.order)
    mean = vector(initial_state, "initial_state", plant.order)
    return codesigned(loop, covariance + np.outer(mean, mean), tolerance, progress)


def _warn_if_useless(loop: PrivateLoop, P0: NDArray) -> None:
    """`PrivacyWarning` where the loop costs more over its horizon than no control at all."""
    if loop.noise is None:
        return
    times = loop.noise.timepts
    expected = Expected(P0, {"timepts": times})
    cost = expected.cost(loop).total
    with np.errstate(over="ignore", invalid="ignore"):  # an unstable plant
        idle = expected.cost(loop.idle()).total
    if cost > idle:
        warnings.warn(
            f"this loop costs {cost:.3g} over its {len(times)} samples, and no control "
            f"at all {idle:.3g}: it follows the privacy noise. Pass codesign=True, weigh "
            "inputs more (R), or trust measurements less (RN)",
            PrivacyWarning,
            stacklevel=4,
        )


def _integral_gain(
    plant: Plant,
    driven: list[int],
    weights: Weights,
    tracked: list[int],
    prices: list[float],
) -> NDArray:
    """The state feedback (m, n + k) of the plant and the sums of r - yhat of some outputs."""
    n = plant.order
    k = len(tracked)
    A = np.eye(n + k)
    A[:n, :n] = plant.A
    A[n:, :n] = -plant.C[tracked]
    through = plant.D[np.ix_(tracked, driven)]
    B = np.vstack([plant.B[:, driven], -through])
    Q = scipy.linalg.block_diag(weights.Q, np.diag(prices))
    R = present(weights.R, "R")
    cross = weights.N
    if cross is not None:
        no_cross = np.zeros((k, len(driven)))
        cross = np.vstack([cross, no_cross])
    return regulator_gain(A, B, Q, R, cross)


def _tracked(plant: Plant, integral: Any, inputs: int) -> tuple[list[int], list[float]]:
    """Indices of the outputs with integral action, and the weights of their sums."""
    if isinstance(integral, str):
        integral = [integral]
    if isinstance(integral, Sequence) and all(isinstance(one, str) for one in integral):
        integral = dict.fromkeys(integral, 1.0)
    if not isinstance(integral, Mapping):
        raise TypeError(
            "integral: expected names of outputs, or a mapping of names to weights, got "
            f"{type(integral).__name__}"
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
