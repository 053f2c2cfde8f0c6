"""Doors to private loops, from gains, controllers or LQG weights."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Unpack

import control as ct
import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..core.noise_design import LAWS
from ..designs.output_noise import OutputNoise
from ..numerics.checks import (
    instance_of,
    one_of,
    positive_number,
    real_array,
    sample_count,
)
from ..systems.linear import Plant, semidefinite
from ..systems.nonlinear import is_nonlinear
from ..systems.varying import Plants, VaryingPlant
from .cautions import warn_if_useless, warn_of_growth, warn_of_public_secret
from .controller import Function, Gains, ObserverFeedback, OwnLaw, law_of, linear_system
from .data import LoopData
from .loop import PrivateLoop
from .lqg import FORMS, LqgDesign, OwnDesign
from .optimum import optimal_loop
from .side import (
    LinearSide,
    NonlinearSide,
    OperatingPoint,
    WeightOptions,
    Weights,
    fitting_plant,
    known_keywords,
    linear_part,
    matrix,
)


@known_keywords
def private_loop(
    sys: Plants,
    K: ArrayLike | None = None,
    L: ArrayLike | None = None,
    noise: OutputNoise | None = None,
    *,
    controller: ct.InputOutputSystem | Function | None = None,
    controls: Sequence[str | int] | None = None,
    form: str = "predictor",
    operating_point: OperatingPoint | None = None,
    P0: ArrayLike | None = None,
    initial_state: ArrayLike | None = None,
    name: str | None = None,
    **given: Unpack[WeightOptions],
) -> PrivateLoop:
    """Close a loop in the cloud on privatised outputs, by gains or by any controller.

    With K and L the cloud runs u = -K (xhat - xd) + ud and xhat+ = A xhat + B u + L
    (yhat - C xhat - D u), with yhat = y + gamma (DPAM eq. (24)). The filter form feeds
    back the filtered estimate xhat + L (yhat - C xhat - D u) in place of xhat. With
    ``controller`` it runs u = controller (yhat, r).

    Parameters
    ----------
    sys : control.StateSpace, list of control.StateSpace or control.NonlinearIOSystem
        Discrete-time plant with n states, p outputs, and m inputs that the controller
        drives. A list has the plant of each sample; K and L may then have a leading axis
        of samples. A nonlinear plant needs noise that was designed with
        ``models=jacobian_polytope(sys, region)``. Its own functions are simulated.
    K : array_like, shape (m, n)
        State-feedback gain, as from ``ct.dlqr``; (n,) for one input.
    L : array_like, shape (n, p)
        Observer gain of the form: of the predictor as from ``ct.dlqe`` (its L is
        already A times the filter gain), of the filter P C' (C P C' + RN)^-1; (n,) for
        one output.
    noise : OutputNoise, optional
        Designed for this plant. Without it the loop is public: it can be analysed, not
        simulated.
    controller : system of python-control or callable, optional
        Discrete-time controller from the p published outputs, then its references r, to
        the m inputs, in place of K and L. There is no hidden sign. Its inputs are named
        like the plant's outputs (or ``yhat[i]``), in any order, and all others are
        references. Its outputs are named like the plant's inputs (or ``u[i]``). Default
        names of python-control, ``u[i]`` and ``y[i]``, are ignored, and the order
        counts. Other names are refused. A state feedback of
        ``ct.create_statefbk_iosystem`` and its ``ct.create_estimator_iosystem`` are
        joined with ``ct.interconnect`` first; the estimator's covariance is taken as
        settled, with a warning. The states start at zero. A function ``f(t, yhat,
        estimate, reference)`` returns the inputs (m,), such as an MPC, and a
        ``ct.nlsys`` is run as it is. They are called once per run and sample with the
        time t in seconds, yhat (p,), an estimate (n,) or None, and the reference (k,)
        of `PrivateLoop.simulate` or None. With QN and RN the estimate comes from the
        Kalman filter that knows the law of the noise and the prior, after the reading
        at t; a noise that is correlated over the whole horizon has none without P0.
        Runs follow each other, t = 0 begins one. The guarantee is the same as for any
        other controller, since all that they see is published. Exact moments, poles and
        design files of such loops do not exist.
    controls : sequence of str or int, optional
        The inputs that the controller drives; all by default. The others are exogenous,
        see `PrivateLoop.simulate`.
    Q, R, N : array_like, shapes (n, n), (m, m) and (n, m), optional
        Weights of the cost x'Q x + u'R u + 2 x'N u, for `PrivateLoop.cost` and for
        noise designed for this loop; a number is a multiple of I.
    QN, RN : array_like, shapes (n, n) (or (q, q) with G) and (p, p), optional
        Covariances of the disturbances that ``"design"`` draws in
        `PrivateLoop.simulate` and `PrivateLoop.cost`.
    G : array_like, shape (n, q), optional
        Input matrix of the process disturbance; identity by default.
    form : {"predictor", "filter"}, optional
        Whether u(t) uses yhat(t) itself.
    operating_point : control.OperatingPoint or (states, inputs), optional
        Of a nonlinear plant: the point that its controller acts about, zero by default.
        References, feedforward and the initial estimate of `simulate` count from it.
        States, outputs and inputs of responses do not.
    P0 : array_like, shape (n, n) or (n,), or float, optional
        With a controller that is a function or a ``ct.nlsys``: public covariance of
        x(0), or its variances. Without it nothing is known of x(0). A wrong one costs
        accuracy, never privacy; one that is computed from the secret gives the secret
        away.
    initial_state : array_like, shape (n,), optional
        The public mean of x(0), to go with ``P0``; zero by default (the operating point
        of a nonlinear plant).
    name : str, optional
        Name of the system.

    Returns
    -------
    PrivateLoop

    Raises
    ------
    control.ControlArgument, control.ControlDimension
        If ``sys`` is not a discrete-time StateSpace, the controller is no system, has
        another sampling time or inputs with other names, K or L is a system, or a
        matrix or the controller has another shape.
    TypeError
        If there are neither gains nor a controller, or both.
    ValueError
        If the noise was designed for another plant, a covariance or weight is not
        positive semidefinite, or plant and controller both have direct feedthrough,
        which is an algebraic loop.

    Warns
    -----
    PrivacyWarning
        If structured noise excites an unstable mode that grows more than 30 times over
        the horizon, or if ``controls`` is left out and the noise hides disturbances at
        some of the inputs, but not at all.
    UserWarning
        If the closed loop is unstable; it names the largest pole.

    See Also
    --------
    private_lqg, private_feedback, design_output_noise, PrivateLoop

    Examples
    --------
    A lead filter that reads yhat and is to hold the position at zero:

    >>> import control as ct, privcontrol as pc
    >>> lead = ct.tf([-6.0, 5.6], [1.0, -0.6], 0.1)
    >>> loop = pc.private_loop(pc.plants.vehicle(), controller=lead)
    >>> bool(abs(loop.poles()).max() < 1)
    True
    """
    truth = None
    if is_nonlinear(sys):
        plant = linear_part(sys, noise)
    elif operating_point is not None:
        raise TypeError("operating_point: it belongs to a nonlinear plant")
    else:
        plant = fitting_plant(sys, noise)
    one_of(form, "form", FORMS)
    side = LinearSide.of(plant, controls, noise)
    if is_nonlinear(sys):
        truth = NonlinearSide.of(sys, side.controls, operating_point)
    weights = Weights.of(side.order, *side.through.shape, **given)
    weights.check_lists(plant, noise)
    if name is None:
        name = f"{getattr(sys, 'name', plant.name)}$private"
    if controller is not None:
        if K is not None or L is not None:
            raise TypeError(
                "controller: it takes the place of K and L; pass either, not both"
            )
        law = law_of(controller, side, truth or side)
        loop = LoopData(side, law, noise, weights, name, truth=truth)
        if isinstance(law, OwnLaw):
            prior = _prior(P0, initial_state, side.order)
            design = OwnDesign("kalman", "filter", *prior, own=law)
            loop = replace(loop, design=design)
            warn_of_public_secret(loop)
            return PrivateLoop(loop.with_noise(noise))
    if P0 is not None or initial_state is not None:
        raise ValueError(
            "P0, initial_state: they are for a controller that is a function or a "
            "ct.nlsys; private_lqg(P0=...) makes a loop with a prior"
        )
    if controller is not None:
        warn_of_growth(loop)
        return PrivateLoop(loop)
    if K is None or L is None:
        raise TypeError("private_loop: expected K and L, or controller=...")
    for name_of, gain in (("K", K), ("L", L)):
        if isinstance(gain, ct.InputOutputSystem):
            raise ct.ControlArgument(
                f"{name_of}: expected a gain, got a {type(gain).__name__}; systems "
                "such as those of ct.create_statefbk_iosystem and "
                "ct.create_estimator_iosystem are joined by ct.interconnect and passed "
                "as controller=..., gains of ct.dlqr and ct.dlqe as K and L"
            )
    _check_states(plant)
    n, p, m = side.order, plant.output_count, len(side.controls)
    driven = ", ".join(plant.inputs[k] for k in side.controls)
    rows = f"; one row for each of {driven}, which controls= names" if side.free else ""
    K = _gain(K, "K", (m, n), plant, rows)
    L = _gain(L, "L", (n, p), plant)
    gains = Gains.of(plant, L, L if form == "predictor" else None)
    observer = ObserverFeedback.of(side, K, gains, form)
    loop = LoopData(side, observer, noise, weights, name, form, truth=truth)
    warn_of_growth(loop)
    return PrivateLoop(loop)


@known_keywords
def private_feedback(
    sys: Plants,
    C: ct.StateSpace | ct.TransferFunction | ArrayLike,
    noise: OutputNoise | None = None,
    *,
    sign: int = -1,
    controls: Sequence[str | int] | None = None,
    operating_point: OperatingPoint | None = None,
    name: str | None = None,
    **weights: Unpack[WeightOptions],
) -> PrivateLoop:
    """Close a loop as ``ct.feedback`` does, u = C (r + sign yhat), on private outputs.

    Parameters
    ----------
    C : control.StateSpace, control.TransferFunction or array_like
        Controller from the p errors to the m inputs; a number or an array (m, p) is a
        gain.
    sign : {-1, 1}, optional
        Sign of the feedback, negative by default.
    sys, noise, controls, Q, R, QN, RN, G, N, operating_point, name : optional
        As in `private_loop`, which names the errors too.

    Returns
    -------
    PrivateLoop
        The outputs follow its ``reference`` r, (p,) or (p, T).

    Raises
    ------
    control.ControlDimension
        If C has other numbers of inputs or outputs than the plant asks for.
    ValueError
        If the sign is another one, or plant and controller both have direct
        feedthrough.

    See Also
    --------
    private_loop, private_lqg, PrivateLoop

    Examples
    --------
    A discrete PI controller on a tank with a level of 2:

    >>> import control as ct, numpy as np, privcontrol as pc
    >>> names = {"states": ["level"], "inputs": ["flow"], "outputs": ["reading"]}
    >>> tank = ct.ss(0.9, 0.1, 1, 0, 1.0, **names)
    >>> level = pc.StateAdjacency({"level": 0.1}, times=0)
    >>> budget = pc.PrivacyBudget(epsilon=1.0, delta=1e-2)
    >>> noise = pc.design_output_noise(tank, horizon=60, adjacency=level, budget=budget)
    >>> loop = pc.private_feedback(tank, ct.tf([2.0, -1.6], [1, -1], 1.0), noise)
    >>> loop.simulate(reference=[2.0], trials=100, rng=0).mean()["level"][-1].round(2)
    np.float64(2.0)
    """
    one_of(sign, "sign", (-1, 1))
    if isinstance(C, ct.InputOutputSystem):
        error_law = linear_system(C, "C")
    else:
        gain = real_array(np.atleast_2d(real_array(C, "C")), "C", ndim=2)
        if not gain.size:
            raise ct.ControlDimension(
                f"C: expected a gain (m, p), got an empty array of shape {gain.shape}"
            )
        error_law = ct.ss([], [], [], gain, None)
    p = error_law.ninputs
    if isinstance(sys, ct.InputOutputSystem) and sys.noutputs != p:
        raise ct.ControlDimension(
            f"C: expected {sys.noutputs} inputs, one for the error r - yhat of each "
            f"output of the plant, got {p}; a controller of yhat and references apart "
            "goes into private_loop(sys, controller=C, noise=noise)"
        )
    error = np.hstack([sign * np.eye(p), np.eye(p)])
    both = ct.ss(error_law * error, states=error_law.state_labels)
    return private_loop(
        sys,
        noise=noise,
        controller=both,
        controls=controls,
        operating_point=operating_point,
        name=name,
        **weights,
    )


def _prior(
    P0: ArrayLike | None, initial_state: ArrayLike | None, n: int
) -> tuple[NDArray[np.float64] | None, NDArray[np.float64] | None]:
    """The covariance and the mean of x(0), None where they are not given."""
    covariance = None if P0 is None else semidefinite(P0, "P0", n)
    if initial_state is None:
        return covariance, None
    return covariance, matrix(initial_state, "initial_state", (n,))


def _check_states(plant: Plant) -> None:
    """Refuse an observer of a plant without states."""
    if not plant.order:
        raise ValueError(
            "sys: the plant has no states that an observer could estimate; pass a "
            "controller of the published readings to private_feedback"
        )


# -- LQG loops -------------------------------------------------------------------------


@known_keywords
def private_lqg(
    sys: Plants,
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
    family: str | None = None,
    P0: ArrayLike | None = None,
    initial_state: ArrayLike | None = None,
    estimator: str | None = None,
    terminal: ArrayLike | str = "dare",
    horizon: int | None = None,
    name: str | None = None,
    progress: bool = False,
) -> PrivateLoop:
    """Make an LQG loop whose cloud sees only privatised outputs.

    With a public prior x(0) ~ N(initial_state, P0) it is the best loop there is: u = -K
    xhat with the gains of the LQ recursion and the Kalman estimate of the plant's state
    and the noise's together. No other function of the published data costs less over
    the horizon (for Laplace noise no other linear one). The filter is post-processing,
    so the guarantee is the noise's own. A prior that is wrong but public keeps it, and
    costs accuracy. One that is computed from the secret gives the secret away.

    Without a prior the gains come from ``ct.dlqr`` and ``ct.dlqe``, as in the papers.
    Their filter knows the size of independent output noise. It cannot distinguish
    structured noise C A^t xi from the plant's own free response, so a loop with small
    QN and RN may trust its measurements too much. Noise without a horizon is a linear
    system whose state the filter estimates as well; no other linear controller costs
    less in steady state.

    Parameters
    ----------
    sys : control.StateSpace or list of control.StateSpace
        Discrete-time plant x+ = A x + B u + G w, y = C x + D u + v with n states, m
        inputs, p outputs. A list has the plant of each sample; the filter is then
        "kalman".
    Q, R : array_like, shapes (n, n) and (m, m)
        Weights of x'Q x + u'R u; a number is that multiple of the identity, here and
        below. Q, R, N, QN and RN may be lists of matrices, one for each sample.
    QN, RN : array_like, shapes (n, n) (or (q, q) with G) and (p, p)
        Covariances of w and v, which tune the observer. They act where ``"design"``
        asks for them, as in `PrivateLoop.simulate`.
    noise, controls, G, N, form, name : optional
        As in `private_loop`, which names the errors too. G is ``sys.B`` for
        disturbances at the inputs. By default a "kalman" estimator has the filter form,
        and of a plant with direct feedthrough, like an observer, the predictor form.
    integral : str, sequence of str, or mapping of str to float, optional
        Outputs with integral action. The loop then takes references r for them, one for
        each, and their published values settle at r. The sum z of r - yhat has weight 1
        in the design, or the weight given. K is (m, n + k).
    codesign : bool, optional
        Choose the noise too, for the same request. Over a horizon that needs P0. For a
        secret of the state the noise is then the best one for this loop among all of at
        most ``cap`` times the std, in every direction, of the request's noise of least
        variance, and `PrivateLoop.optimality` has its certified gap. For other secrets
        filter and noise change in turns as long as that saves costs, and the noise's
        variances over the run add up to at most cap^2 times the least. Without a
        horizon they change in turns too, with no cap. The loop never costs more than
        without it.
    cap : float, optional
    family : {None, "gaussian", "laplace", "ball", "truncated", "auto"}, optional
        Law of the noise that ``codesign=True`` chooses, by default the law of
        ``noise``; "auto" is the law with which the loop costs least. Laplace noise has
        independent numbers, whose directions are chosen for the loop by a local search:
        where the loop reads few directions of the secret, it costs less than noise of
        one radial law. "ball" is the cheaper of one radial law and of independent
        blocks of such noise, which are searched for in the same way for secrets with
        listed moves.
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
        K is constant; 0 is the pure cost over the horizon. For time-varying plants or
        weights it is the solution for the last sample. If the equation has no
        stabilising solution, pass a weight.
    horizon : int, optional
        Number of samples of a run of a loop with a prior and without noise; the noise's
        horizon otherwise.
    progress : bool, optional
        Show a tqdm bar over the turns of a co-design.

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
        If a weight or a covariance is not positive semidefinite, no stabilising gain
        exists, or a co-design has no noise to start from.

    Warns
    -----
    PrivacyWarning
        If P0 is 0 along a direction that the noise hides, or a loop without a prior
        costs more over its horizon than no control at all would; `private_loop` lists
        the others.

    See Also
    --------
    private_loop, private_feedback, design_output_noise, PrivateLoop

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
    instance_of(codesign, bool, "codesign")
    plant = fitting_plant(sys, noise)
    if isinstance(plant, VaryingPlant) and noise is None and horizon is not None:
        plant = plant.over(sample_count(horizon, "horizon"))
    _check_states(plant)
    side = LinearSide.of(plant, controls, noise)
    weights = Weights.of(
        side.order, *side.through.shape, Q=Q, R=R, QN=QN, RN=RN, G=G, N=N
    )
    weights.require()
    weights.check_lists(plant, noise, horizon)
    sums = {} if integral is None else _sums(side, integral)
    design = LqgDesign.of(
        side,
        weights,
        noise,
        estimator=estimator,
        form=form,
        prior=_prior(P0, initial_state, side.order),
        terminal=terminal,
        sums=sums,
        horizon=horizon,
    )
    if family is not None:
        one_of(family, "family", (*LAWS, "auto"))
        if not codesign:
            raise ValueError(
                "family: it is the law of the noise that codesign=True chooses; pass that "
                "too, or noise of this law"
            )
    if codesign:
        _check_codesign(noise, design)
    if name is None:
        name = f"{getattr(sys, 'name', plant.name)}$private"
    law = design.law(side, weights, noise)
    loop = LoopData(side, law, noise, weights, name, design.form, design=design)
    if codesign:
        best = optimal_loop(loop, positive_number(cap, "cap"), progress, family)
        return PrivateLoop(best)
    warn_of_public_secret(loop)
    warn_of_growth(loop)
    warn_if_useless(loop)
    return PrivateLoop(loop)


def _gain(
    value: ArrayLike, name: str, shape: tuple[int, int], plant: Plant, hint: str = ""
) -> NDArray[np.float64]:
    """Return a gain, or one for each sample of a plant that varies.

    ``hint`` is added where the shape is another one.
    """
    if isinstance(plant, VaryingPlant):
        gains = real_array(value, name)
        if gains.ndim == 3:
            return matrix(gains, name, (plant.samples, *shape))
    return matrix(value, name, shape, hint)


def _check_codesign(noise: OutputNoise | None, design: LqgDesign) -> None:
    """Refuse a co-design that has nothing to choose, or no prior to choose it for."""
    if design.tracked:
        raise ValueError("codesign: loops with integral action keep their gains")
    if noise is None or noise.request is None:
        raise ValueError(
            "codesign: expected noise from design_output_noise to start from, got "
            "none; pass noise=..."
        )
    if design.lacks_start(noise.horizon):
        raise ValueError(
            "codesign: over a horizon the best noise depends on the prior of x(0); pass "
            "its public covariance P0"
        )


def _sums(
    side: LinearSide, integral: str | Sequence[str] | Mapping[str, float]
) -> dict[int, float]:
    """The outputs with integral action, and the weights of their sums."""
    names = side.plant.outputs
    if isinstance(integral, str):
        integral = [integral]
    if not isinstance(integral, Sequence | Mapping):
        raise TypeError(
            "integral: expected names of outputs, or a mapping of names to weights, "
            f"got {type(integral).__name__}"
        )
    if not all(isinstance(name, str) for name in integral):
        raise TypeError(
            "integral: expected names of outputs as text, got others; the outputs are "
            f"{', '.join(names)}"
        )
    if not isinstance(integral, Mapping):
        integral = dict.fromkeys(integral, 1.0)
    unknown = [name for name in integral if name not in names]
    if unknown or not integral:
        hint = side.plant.elsewhere(unknown[0]) if unknown else ""
        raise ValueError(
            f"integral: expected names among the plant's outputs {', '.join(names)}{hint}"
        )
    inputs = len(side.controls)
    if len(integral) > inputs:
        raise ValueError(
            f"integral: expected at most as many outputs as the {inputs} inputs that "
            f"are driven, got {len(integral)}: more cannot be held at will"
        )
    sums = {}
    for label, price in integral.items():
        sums[names.index(label)] = positive_number(price, f"integral[{label!r}]")
    return sums
