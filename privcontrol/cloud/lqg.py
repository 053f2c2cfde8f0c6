"""LQG loops on privatised outputs: gains from the Riccati equations, and gains and noise designed for each other."""

import control as ct
import numpy as np

from ..core._linalg import one_of, positive_number
from ..trajectory.plant import Plant
from .assembly import FORMS, private_loop
from .codesign import codesigned
from .weights import DISTURBANCE, cross_weight, matrix, semidefinite


def private_lqg(
    sys,
    Q,
    R,
    QN,
    RN,
    noise=None,
    *,
    G=None,
    N=None,
    form="predictor",
    codesign=False,
    P0=None,
    tolerance=1e-3,
    name=None,
):
    """An LQG loop whose cloud sees privatised outputs only.

    The gains are those of ``ct.dlqr`` and ``ct.dlqe``. A Kalman filter can be told of independent output noise of
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
    G : array_like, shape (n, q), optional
        Input matrix of w; identity by default, ``sys.B`` for disturbances at the inputs.
    N : array_like, shape (n, m), optional
        Cross weight 2 x'N u, as in ``ct.dlqr``.
    form : {"predictor", "filter"}, optional
        Whether u(t) uses the estimate from yhat up to t-1 (as ``ct.create_estimator_iosystem``) or up to t. The
        loop's ``L`` is the gain of that form.
    codesign : bool, optional
        Change constant gains K, L and the shape of structured noise in turns until the expected cost over the noise's
        horizon stops falling; see the notes. Independent noise has no shape, only the gains change.
    P0 : array_like, shape (n, n), optional
        Covariance of the initial state about the initial estimate that a co-design has in view; the steady-state
        covariance of the Kalman filter by default, as in ``ct.create_estimator_iosystem``.
    tolerance : float, optional
        A co-design ends when a turn of gains and noise shape lowers the cost by less than this part of it. With 7
        states, 2 inputs and 3 outputs 1e-3 takes about 0.4 s over 50 samples and 3 s over 200, 1e-6 ten times that.
    name : str, optional
        Name of the system.

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
    The cost of a co-design is that of the noise's horizon for zero reference, x(0) of covariance P0, disturbances of
    QN and RN, and the output noise. It is not convex in the gains: the steps are monotone, start from the separate
    design and from the gains tuned to independent noise of the same request, and the best result is returned. It is
    never above either start.

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
    plant, form = Plant.of(sys), one_of(form, "form", FORMS)
    n, m, p = plant.order, plant.B.shape[1], len(plant.C)
    G = np.eye(n) if G is None else matrix(G, "G", (n, None))
    Q, R, RN = (
        semidefinite(*given) for given in ((Q, "Q", n), (R, "R", m), (RN, "RN", p))
    )
    QN = semidefinite(QN, DISTURBANCE[0], G.shape[1], DISTURBANCE[1])
    for value, label in ((Q, "Q"), (R, "R"), (QN, "QN"), (RN, "RN")):
        if value is None:
            raise TypeError(f"{label}: expected a matrix or a number, got None")
    if P0 is not None and not codesign:
        raise ValueError(
            "P0: it is what a co-design has in view; pass codesign=True, or drop it"
        )
    K = _feedback_gain(plant, Q, R, cross_weight(N, Q, R))
    L, covariance = observer_gain(plant, G, QN, RN, noise, form)
    loop = private_loop(
        sys, K, L, noise, Q=Q, R=R, QN=QN, RN=RN, G=G, N=N, form=form, name=name
    )
    if not codesign:
        return loop
    P0 = covariance if P0 is None else semidefinite(P0, "P0", n)
    return codesigned(loop, P0, observer_gain, positive_number(tolerance, "tolerance"))


def observer_gain(plant, G, QN, RN, noise, form):
    """Gain L (n, p) of the form and predicted covariance (n, n) of the Kalman filter that knows independent noise."""
    if noise is not None and noise.scale is not None:
        RN = RN + noise.unit_variance * np.diag(noise.scale**2)
    try:
        gain, covariance, poles = ct.dlqe(plant.A, G, plant.C, QN, RN, method="scipy")
    except (np.linalg.LinAlgError, ct.ControlArgument):
        poles = [np.inf]
    if not np.abs(poles).max() < 1:
        raise ValueError(
            "no stabilising Kalman gain: (A, C) must be detectable, QN (with G) must excite every mode that does not "
            "decay by itself, and RN should be positive definite"
        )
    if form == "filter":
        innovation = plant.C @ covariance @ plant.C.T + RN
        gain = np.linalg.solve(innovation, plant.C @ covariance).T
    return gain, covariance


def _feedback_gain(plant, Q, R, N):
    try:
        gain, _, poles = ct.dlqr(
            plant.A, plant.B, Q, R, *([] if N is None else [N]), method="scipy"
        )
    except (np.linalg.LinAlgError, ct.ControlArgument):
        poles = [np.inf]
    if not np.abs(poles).max() < 1:
        raise ValueError(
            "no stabilising feedback gain: (A, B) must be stabilisable, Q must weigh every mode that does not decay by "
            "itself, and R should be positive definite"
        )
    return gain
