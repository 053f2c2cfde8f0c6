"""Loops from gains that are given: what fits the plant, and a warning where the loop is not stable."""

import warnings

import numpy as np

from ..core._linalg import one_of
from ..trajectory.plant import Plant
from .loop import PrivateLoop
from .weights import DISTURBANCE, cross_weight, fitting_noise, matrix, semidefinite

FORMS = ("predictor", "filter")
#: How far outside the unit circle rounding may throw the poles of a chain of integrators.
_ROUNDED = 1e-6


def private_loop(
    sys,
    K,
    L,
    noise=None,
    *,
    Q=None,
    R=None,
    QN=None,
    RN=None,
    G=None,
    N=None,
    form="predictor",
    name=None,
):
    """A loop whose cloud runs an observer and a state feedback on privatised outputs.

    u = -K (xhat - xd) + ud and xhat+ = A xhat + B u + L (yhat - C xhat - D u), with yhat = y + gamma (DPAM eq. (24)).
    The filter form feeds back the filtered estimate xhat + L (yhat - C xhat - D u) in place of xhat.

    Parameters
    ----------
    sys : control.StateSpace
        Discrete-time plant with n states, m inputs, p outputs.
    K : array_like, shape (m, n)
        State-feedback gain, as from ``ct.dlqr``.
    L : array_like, shape (n, p)
        Observer gain of the form: of the predictor as from ``ct.dlqe`` (its L is already A times the filter gain), of
        the filter P C' (C P C' + RN)^-1.
    noise : OutputNoise, optional
        Designed for this plant. Without it the loop is public: it can be analysed, not simulated.
    Q, R : array_like, shapes (n, n) and (m, m), optional
        Cost weights, for `PrivateLoop.cost` and for noise designed for this loop; a number is a multiple of I.
    QN, RN : array_like, shapes (n, n) (or (q, q) with G) and (p, p), optional
        Covariances of the disturbances that ``"design"`` draws in `PrivateLoop.simulate` and `PrivateLoop.cost`; they
        act only where asked for.
    G : array_like, shape (n, q), optional
        Input matrix of the process disturbance; identity by default.
    N : array_like, shape (n, m), optional
        Cross weight 2 x'N u of the cost, as in ``ct.dlqr``.
    form : {"predictor", "filter"}, optional
        Whether u(t) uses yhat(t) itself. With feedthrough the filter's u(t) and yhat(t) depend on each other; the two
        equations are solved together.
    name : str, optional
        Name of the system.

    Returns
    -------
    PrivateLoop

    Raises
    ------
    control.ControlArgument
        If ``sys`` is not a discrete-time StateSpace.
    control.ControlDimension
        If a matrix has another shape.
    ValueError
        If the noise was designed for another plant, or a covariance or weight is not positive semidefinite.

    Warns
    -----
    PrivacyWarning
        If structured noise excites an unstable mode that grows more than 30 times over the horizon: the true error
        grows with it, whatever the controller.
    UserWarning
        If the closed loop is unstable; it names the largest pole.

    Examples
    --------
    >>> import privcontrol as pc
    >>> vehicle = pc.plants.vehicle()
    >>> noise = pc.design_output_noise(vehicle, horizon=100, adjacency=pc.StateAdjacency({"position": 1.0}),
    ...                                budget=pc.PrivacyBudget(epsilon=1.0, delta=1e-2))
    >>> loop = pc.private_loop(vehicle, [[3.4240, 4.3095]], [[0.8266], [0.6973]], noise)
    >>> loop.simulate(initial_state=[-20, 0], trials=5, rng=0).states.shape
    (4, 5, 100)
    """
    plant, form = Plant.of(sys), one_of(form, "form", FORMS)
    n, m, p = plant.order, plant.B.shape[1], len(plant.C)
    G = np.eye(n) if G is None else matrix(G, "G", (n, None))
    Q, R = semidefinite(Q, "Q", n), semidefinite(R, "R", m)
    loop = PrivateLoop(
        plant,
        matrix(K, "K", (m, n)),
        matrix(L, "L", (n, p)),
        fitting_noise(plant, noise),
        Q,
        R,
        semidefinite(QN, DISTURBANCE[0], G.shape[1], DISTURBANCE[1]),
        semidefinite(RN, "RN", p),
        G,
        f"{plant.name}$private" if name is None else name,
        cross_weight(N, Q, R),
        form,
    )
    _warn_if_unstable(loop)
    return loop


def _warn_if_unstable(loop):
    poles = np.linalg.eigvals(loop.dynamics.A)
    worst = poles[np.abs(poles).argmax()]
    if np.abs(worst) > 1 + _ROUNDED:
        warnings.warn(
            f"the closed loop is unstable: its largest pole is {worst.real if worst.imag == 0 else worst:.4g}. The feedback is "
            "u = -K (estimate - xd) + ud, and L multiplies yhat - C xhat - D u: check the signs of K and L, and that they "
            "belong to this plant",
            stacklevel=3,
        )
