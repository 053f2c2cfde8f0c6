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
from .assembly import FORMS, assembled, driven_inputs, observer_loop
from .checks import Weights, fitting_noise, known_keywords, semidefinite
from .codesign import codesigned
from .controller import integral_controller
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

    The gains are those of ``ct.dlqr`` and ``ct.dlqe``. Noise without a horizon is a linear system, and the filter
    estimates its state beside the plant's (``L`` has a row for each): no other linear controller costs less in steady
    state. A Kalman filter can be told of independent output noise of
    covariance V, and is: its gain is that for RN + V. Structured noise C A^t xi it cannot tell from the plant's own
    free response, so that RN stays. Two loops made this way for two noises therefore differ in their gains as well,
    and where QN and RN are small beside the noise the one with structured noise trusts its measurements too much and
    may cost more. Pass ``codesign=True`` then, which chooses gains and noise shape for each other; to compare noises
    alone use `tradeoff`, or one loop's ``with_noise``.

    Parameters
    ----------
    sys : control.StateSpace
        Discrete-time plant x+ = A x + B u + G w, y = C x + D u + v with n states, m inputs, p outputs.
    Q, R : array_like, shapes (n, n) and (m, m)
        Weights of x'Q x + u'R u; a number is that multiple of the identity, here and below.
    QN, RN : array_like, shapes (n, n) (or (q, q) with G) and (p, p)
        Covariances of w and v. They tune the observer; `PrivateLoop.simulate` and `PrivateLoop.cost` act without
        disturbances unless asked for them by ``disturbance="design"`` and ``measurement_noise="design"``.
    noise : OutputNoise, optional
        Designed for this plant. Without it the loop is public: it can be analysed, not simulated.
    controls : sequence of str or int, optional
        The m inputs that the controller drives; all by default. R, N and K have their size, the other inputs are
        exogenous, as in `private_loop`.
    integral : str, sequence of str, or mapping of str to float, optional
        Outputs with integral action. The loop then takes references r for them, one for each, and their published
        values settle at r. The sum z of r - yhat has weight 1 in the design, or the weight given. K is (m, n + k).
    G : array_like, shape (n, q), optional
        Input matrix of w; identity by default, ``sys.B`` for disturbances at the inputs.
    N : array_like, shape (n, m), optional
        Cross weight 2 x'N u, as in ``ct.dlqr``.
    form : {"predictor", "filter"}, optional
        Whether u(t) uses the estimate from yhat up to t-1 (as ``ct.create_estimator_iosystem``) or up to t. The
        loop's ``L`` is the gain of that form.
    codesign : bool, optional
        Change constant gains K, L and the shape of structured noise in turns until the expected cost over the noise's
        horizon stops falling; see the notes. Independent noise has no shape, only the gains change. Without a horizon the
        observer and the noise change in turns, as long as the steady-state cost falls.
    P0 : array_like, shape (n, n), optional
        Covariance of the initial state about the initial estimate that a co-design has in view; the steady-state
        covariance of the Kalman filter for QN and RN alone by default, as in ``ct.create_estimator_iosystem``. It does
        not depend on the privacy noise.
    initial_state : array_like, shape (n,), optional
        Public mean of x(0) that a co-design has in view, zero by default; the initial estimate is zero. A loop that is
        co-designed for zero may cost several times the plain one in a run from far off. Computed from the secret it
        would void the guarantee.
    tolerance : float, optional
        A co-design ends when a turn of gains and noise shape lowers the cost by less than this part of it. With 7
        states, 2 inputs and 3 outputs 1e-3 takes about 0.4 s over 50 samples and 3 s over 200, 1e-6 ten times that.
    name : str, optional
        Name of the system.
    progress : bool, optional
        Show a tqdm bar over the start points of a co-design, with the time that is left.

    Returns
    -------
    PrivateLoop
        ``history`` holds the cost after each step of a co-design.

    Raises
    ------
    control.ControlArgument
        If ``sys`` is not a discrete-time StateSpace.
    control.ControlDimension
        If a matrix has another shape.
    ValueError
        If a weight or covariance is not positive semidefinite, no stabilising gain exists, the noise belongs to
        another plant, or a co-design has no noise to start from.

    Notes
    -----
    The cost of a co-design is that of the noise's horizon for zero reference, x(0) of mean ``initial_state`` and covariance P0, disturbances of
    QN and RN, and the output noise. It is not convex in the gains: the steps are monotone, start from the separate
    design and from the gains tuned to independent noise of the same request, and the best result is returned. It is
    never above either start, nor above no control (u = 0) unless the plant is strictly unstable.

    Warns
    -----
    PrivacyWarning
        If the loop costs more over its horizon than no control at all would, or if ``controls`` is left out and some
        but not all inputs are secret disturbances; `private_loop` lists the others.

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
    plant = Plant.of(sys)
    one_of(form, "form", FORMS)
    driven = driven_inputs(plant, controls, noise)
    fitting_noise(plant, noise)
    weights = Weights.of(plant, len(driven), Q=Q, R=R, QN=QN, RN=RN, G=G, N=N)
    weights.require()
    for label, given in (("P0", P0), ("initial_state", initial_state)):
        if given is not None and not codesign:
            raise ValueError(
                f"{label}: it is what a co-design has in view; pass codesign=True, or "
                "drop it"
            )
    if name is None:
        name = f"{plant.name}$private"
    endless = isinstance(noise, EndlessNoise)
    known = None if endless else noise
    L = observer_gain(plant, weights, known, form)[0]
    # x(0) is as uncertain as it is without privacy noise, whatever the noise
    covariance = observer_gain(plant, weights, None, form)[1]
    if integral is not None:
        if codesign:
            raise ValueError("codesign: loops with integral action keep their gains")
        return assembled(
            _integral_loop(plant, driven, integral, L, form, noise, weights, name)
        )
    K = feedback_gain_of(plant, driven, weights)
    loop = observer_loop(plant, driven, K, L, form, known, weights, name)
    tolerance = positive_number(tolerance, "tolerance")
    if isinstance(noise, EndlessNoise):
        if codesign:
            return codesigned_without_horizon(loop, noise, tolerance)
        return assembled(lqg_without_horizon(loop, noise))
    loop = assembled(loop)
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


def _integral_loop(
    plant: Plant,
    driven: list[int],
    integral: Any,
    L: Any,
    form: str,
    noise: OutputNoise | None,
    weights: Any,
    name: Any,
) -> PrivateLoop:
    """The loop whose feedback also acts on the sums of r - yhat of some outputs."""
    tracked, prices = _tracked(plant, integral)
    if len(tracked) > len(driven):
        raise ValueError(
            f"integral: expected at most as many outputs as the {len(driven)} inputs "
            f"that are driven, got {len(tracked)}: more cannot be held at will"
        )
    n = plant.order
    k = len(tracked)
    sensed = plant.C[tracked]
    through = plant.D[np.ix_(tracked, driven)]
    A = np.block([[plant.A, np.zeros((n, k))], [-sensed, np.eye(k)]])
    B = np.vstack([plant.B[:, driven], -through])
    cross = weights.N
    if cross is not None:
        cross = np.vstack([cross, np.zeros((k, len(driven)))])
    Q = scipy.linalg.block_diag(weights.Q, np.diag(prices))
    K = regulator_gain(A, B, Q, weights.R, cross)
    return PrivateLoop(
        plant,
        integral_controller(plant, driven, K, L, form, tracked),
        noise,
        weights,
        tuple(driven),
        name,
        K=K,
        L=L,
        form=form,
        tracked=tuple(tracked),
    )


def _tracked(plant: Plant, integral: Any) -> tuple[list[int], list[float]]:
    """Indices of the outputs with integral action, and the weights of their sums."""
    if isinstance(integral, str):
        integral = [integral]
    if not isinstance(integral, Mapping):
        if not isinstance(integral, Sequence) or not integral:
            raise TypeError(
                "integral: expected names of outputs, or a mapping of names to weights, "
                f"got {type(integral).__name__}"
            )
        if not all(isinstance(label, str) for label in integral):
            raise TypeError("integral: expected names of outputs")
        integral = dict.fromkeys(integral, 1.0)
    unknown = [label for label in integral if label not in plant.outputs]
    if unknown or not integral:
        raise ValueError(
            "integral: expected names among the plant's outputs "
            f"{', '.join(plant.outputs)}"
        )
    tracked = [plant.outputs.index(label) for label in integral]
    prices = [
        positive_number(price, f"integral[{label!r}]")
        for label, price in integral.items()
    ]
    return tracked, prices
