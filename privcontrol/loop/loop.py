"""Private output-feedback loops of a plant, a gate and a controller in the cloud.

The plant publishes yhat and u. Everything in the cloud is computed from them, so
the guarantee of the output noise is the guarantee of the loop, for any controller.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable, Mapping
from concurrent.futures import Executor
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Self, Unpack

import control as ct
import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..designs.output_noise import OutputNoise
from ..numerics.checks import (
    Seed,
    instance_of,
    positive_integer,
)
from ..numerics.labels import html_table
from ..numerics.objects import ByContent, CheckedFields
from ..numerics.saved import Saved, write
from ..privacy.guarantee import PrivacyGuarantee
from ..privacy.record import Curator, Record, curated, day_of
from ..response import PrivateResponse
from ..systems.linear import LinearSystem, poles_of
from . import moments, simulation
from .controller import UserLaw
from .data import LoopData, over_run, refuse_moments
from .margins import margins
from .moments import LoopCost
from .online import OnlineController
from .optimality import Optimality, optimality
from .report import write_report
from .side import RunSignals, known_keywords

#: How the name of a page ends.
_PAGES = (".html", ".htm")
_AFTERWARDS = (
    "The controller reads the published outputs alone. Its estimates and inputs are "
    "post-processing, and so is a change of the controller that is made from them."
)


@dataclass(frozen=True, repr=False, eq=False)
class PrivateLoop(ByContent, CheckedFields, Saved):
    """Control a plant from its private outputs; see `private_loop` and its kin.

    For a nonlinear plant `plant` is the linear one for which the noise was designed;
    `closed_loop`, `system` and `poles` refer to it, and exact moments are refused.

    Attributes
    ----------
    data : LoopData
        Plant, controller, weights and noise, in the form that the loop is computed with.
    noise : OutputNoise or None
    history : tuple of (str, float)
        Expected cost after each step of a co-design; empty without one.

    See Also
    --------
    private_loop, private_lqg, private_feedback, response.PrivateResponse

    Examples
    --------
    >>> import privcontrol as pc
    >>> loop = pc.private_lqg(pc.plants.vehicle(), Q=20, R=1, QN=2, RN=1)
    >>> loop.closed_loop.input_labels, loop.closed_loop.output_labels
    (['xd[0]', 'xd[1]', 'ud[0]', 'gamma[0]'], ['yhat[0]', 'u'])
    """

    data: LoopData
    noise: OutputNoise | None = field(init=False, compare=False)
    history: tuple[Any, ...] = field(init=False, compare=False)

    Q = property(lambda self: self.data.weights.Q, doc="Weight of the states, (n, n).")
    R = property(lambda self: self.data.weights.R, doc="Weight of the inputs, (m, m).")
    N = property(lambda self: self.data.weights.N, doc="Cross weight 2 x'N u, (n, m).")
    QN = property(lambda self: self.data.weights.QN, doc="Covariance of w, (q, q).")
    RN = property(lambda self: self.data.weights.RN, doc="Covariance of v, (p, p).")
    G = property(lambda self: self.data.weights.G, doc="Input matrix of w, (n, q).")

    def __post_init__(self) -> None:
        instance_of(self.data, LoopData, "data", "loop.data")
        self._set(noise=self.data.noise, history=self.data.history)

    @property
    def plant(self) -> ct.StateSpace:
        """The plant."""
        return self.data.side.plant.statespace()

    @property
    def guarantee(self) -> PrivacyGuarantee:
        """The privacy guarantee of everything that the loop publishes over the horizon.

        `ValueError` without noise.
        """
        return self.data.private_noise.guarantee

    def with_noise(self, noise: OutputNoise | None) -> Self:
        """Return the loop with other noise (or None), and the filter that knows it.

        Loops whose observer knows no noise keep theirs. A loop with a prior that loses
        its noise keeps the horizon of its runs.

        Parameters
        ----------
        noise : OutputNoise or None
            Of the loop's plant.

        Returns
        -------
        Self
            A new loop; this one stays as it is.

        Examples
        --------
        >>> import numpy as np, privcontrol as pc
        >>> loop = pc.private_lqg(pc.plants.vehicle(), Q=1, R=1, QN=1e-4, RN=1e-2)
        >>> loop.with_noise(None) == loop
        True
        """
        return replace(self, data=self.data.with_noise(noise))

    def noise_weight(
        self, horizon: float
    ) -> Callable[[ArrayLike], NDArray[np.float64]] | LinearSystem:
        """Return the map from output noise to the cost that it adds over a horizon.

        It takes output-noise columns (T p, r) to H columns with |H gamma|^2 = sum of
        x'Q x + u'R u + 2 x'N u, where x and u are the loop's response to gamma alone.
        With an infinite horizon it is the `LinearSystem` H itself. `ValueError` if the
        loop has no Q and R, or is not stable and the horizon infinite.

        Parameters
        ----------
        horizon : int or inf
            Number of samples T.

        Returns
        -------
        callable or LinearSystem

        Examples
        --------
        >>> import numpy as np, privcontrol as pc
        >>> loop = pc.private_lqg(pc.plants.vehicle(), Q=1, R=1, QN=1e-4, RN=1e-2)
        >>> loop.noise_weight(5)(np.eye(5)).shape[1]
        5
        """
        return self.data.noise_weight(horizon)

    @property
    def K(self) -> NDArray[np.float64] | None:
        """State feedback (m, n), or (T, m, n): u = -K (estimate - xd) + ud.

        With integral action it has a column for each tracked output. None for other
        controllers.
        """
        observer = self.data.observer
        return None if observer is None else observer.K

    @property
    def L(self) -> NDArray[np.float64] | None:
        """Gain (n + k, p) of the observer on the innovation, or (T, n + k, p).

        The plant's rows come first, then those of the k states of the noise that it
        knows. Of the predictor: the estimate is xhat, and xhat+ = A xhat + B u + L i.
        Of the filter: the estimate is xhat + L i, and xhat+ = A (xhat + L i) + B u.
        None for noise without a finite state.
        """
        observer = self.data.observer
        if observer is None or observer.recalls:
            return None
        return observer.advance if self.data.form == "predictor" else observer.correct

    def poles(self) -> NDArray[np.inexact]:
        """Return the poles (N,) of the closed loop, without those of a noise model.

        Returns
        -------
        ndarray, shape (N,)
            Complex, in the plane of z.

        Examples
        --------
        >>> import numpy as np, privcontrol as pc
        >>> loop = pc.private_lqg(pc.plants.vehicle(), Q=1, R=1, QN=1e-4, RN=1e-2)
        >>> bool((abs(loop.poles()) < 1).all())
        True
        """
        return poles_of(self.data.dynamics.fixed)

    @property
    def controller(self) -> ct.StateSpace | ct.NonlinearIOSystem:
        """The controller from (yhat, references) to the inputs that it drives.

        Where gains vary it is a ``ct.nlsys`` that knows the time. `ValueError` if it is
        a function, or recalls all that was published.
        """
        return simulation.controller(self.data)

    @property
    def system(self) -> ct.StateSpace | ct.NonlinearIOSystem:
        """The loop with its noise model as a plain python-control StateSpace.

        Inputs are the references, exogenous inputs and ``eta[i]``; outputs ``yhat[i]``,
        then the inputs that the controller drives; states the plant's, the
        controller's, and ``xi[i]`` of structured noise, whose eta is its draw at sample
        0 and zero after. Where gains vary it is a ``ct.nlsys`` that knows the time.
        """
        return simulation.whole_loop(self.data)

    @property
    def closed_loop(self) -> ct.StateSpace | ct.NonlinearIOSystem:
        """The loop driven by references, exogenous inputs and the noise ``gamma[i]``.

        It is without the noise model.
        """
        return simulation.closed_loop(self.data)

    @known_keywords
    def simulate(
        self,
        timepts: ArrayLike | None = None,
        reference: ArrayLike | None = None,
        *,
        controller: UserLaw | None = None,
        saturation: ArrayLike | None = None,
        trials: int = 1,
        rng: Seed = None,
        executor: Executor | None = None,
        progress: bool = False,
        **signals: Unpack[RunSignals],
    ) -> PrivateResponse:
        """Simulate trials of the loop (Monte Carlo).

        Parameters
        ----------
        timepts : array_like, shape (T,), optional
            Time points 0, dt, 2 dt, ..; the noise's whole horizon by default.
        reference : array_like, shape (n,) or (n, T), optional
            xd, public; zero by default, and 0 is zero for all. It is followed where
            (xd, ud) is a trajectory of the plant: a constant xd needs the ud that holds
            it, see the example. Of loops with a controller of their own, and with integral
            action: its references r, (r,) or (r, T), or a number where there is one.
        feedforward : array_like, shape (m,) or (m, T), optional
            ud, public, and published as it is; zero by default. Observer loops take it.
        initial_state : array_like, shape (n,), or "design", optional
            x(0), private; the mean of the prior by default, or zero without one.
            "design" draws it from the prior.
        initial_estimate : array_like, shape (n,), optional
            xhat(0), public; the mean of the prior by default. Computed from x(0) it
            would void the guarantee.
        disturbance : array_like, shape (n, T) or (n, trials, T), or "design", optional
            Added to x(t+1); "design" draws it with covariance G QN G'. A nonlinear
            plant is not certified to stay in its region under it; give it an input for
            the disturbance.
        measurement_noise : array_like (p, T) or (p, trials, T), or "design", optional
            Added to y(t) before the gate; "design" draws it with covariance RN.
        exogenous : mapping of str to array_like, shape (T,) or (trials, T), optional
            Signals at inputs that the controller does not drive, by name, private; zero
            by default.
        controller : callable, optional
            ``controller(t, xhat, xd)`` with the time t, the estimates (n, trials)
            (filtered in the filter form) and the reference (n, 1), or (r, 1) with
            integral action, returns the inputs (m, trials), or (m,) for all trials, in
            place of -K (xhat - xd) + ud. It is called for whole blocks of trials, and
            must not know the secret. Loops of K and L take it.
        saturation : array_like, shape (), (m,) or (m, 2), optional
            Largest sizes of the inputs, or their least and largest values. The limited
            input is published. An observer receives it and does not wind up. An
            integrator in a controller of your own does, unless it reads its own limited
            input back.
        trials : int, optional
        rng : None, int, SeedSequence or Generator, optional
        executor : concurrent.futures.Executor, optional
            Where blocks of trials run; the numbers do not depend on it.
        progress : bool, optional
            Show a progress bar.

        Returns
        -------
        PrivateResponse
            Arrays (signal, trial, time): outputs are exactly the published signals,
            states the truth. ``yhat[i]`` is the plant's output i as published, and is
            found under that output's own label too; ``xd[i]`` and ``xhat[i]`` belong to
            state i, ``ud[i]`` to input i.

        Raises
        ------
        ValueError, control.ControlDimension
            If the loop has no noise, the time points do not fit its step, do not start
            at 0 or exceed its horizon, or a signal has another shape.

        Warns
        -----
        PrivacyWarning
            If a feedforward is given for an input at which the noise hides a
            disturbance.

        Examples
        --------
        The equilibrium at which the output is 5, as reference and feedforward:

        >>> import control as ct, numpy as np, privcontrol as pc
        >>> tank = ct.ss([[0.9, 0.1], [0, 0.8]], [[0], [1]], [[1, 0]], 0, 0.1,
        ...              states=["level", "valve"])
        >>> level = pc.StateAdjacency({"level": 0.1}, times=0)
        >>> budget = pc.PrivacyBudget(epsilon=1.0, delta=1e-2)
        >>> noise = pc.design_output_noise(tank, horizon=80, adjacency=level,
        ...                                budget=budget)
        >>> loop = pc.private_lqg(tank, Q=1, R=1, QN=1e-2, RN=1e-2, noise=noise)
        >>> rows = np.block([[tank.A - np.eye(2), tank.B], [tank.C, np.zeros((1, 1))]])
        >>> xd, ud = np.split(np.linalg.solve(rows, [0, 0, 5.0]), [2])
        >>> response = loop.simulate(reference=xd, feedforward=ud, trials=20, rng=0)
        >>> response.mean()["level"][[0, 79]].round(2).tolist()
        [0.0, 5.0]
        """
        trials = positive_integer(trials, "trials")
        loop, run = over_run(self.data, timepts, reference, trials=trials, **signals)
        return simulation.simulate(
            loop, run, controller, saturation, trials, rng, executor, progress
        )

    @known_keywords
    def mean_square_error(
        self,
        timepts: ArrayLike | None = None,
        reference: ArrayLike | None = None,
        *,
        target: ArrayLike | None = None,
        **signals: Unpack[RunSignals],
    ) -> NDArray[np.float64]:
        """Return E (x_i(t) - target_i(t))^2 (n, T) exactly, in the states' squared units.

        Parameters
        ----------
        timepts, reference, feedforward, initial_state, initial_estimate, exogenous
            As for `simulate`.
        disturbance, measurement_noise : optional
            None, one array (n, T) or (p, T) for all trials, or "design": with the
            covariances QN and RN. By default nothing disturbs.
        target : array_like, shape (n,) or (n, T), optional
            Goals of the states: xd of observer loops by default. Where a
            controller's own reference is followed, states that a followed output reads
            alone are to be as that output's reference. Without a reference it is zero.

        Returns
        -------
        ndarray, shape (n, T)

        Raises
        ------
        ValueError
            If the plant is nonlinear, the times are not 0, dt, 2 dt, .., or a target is
            needed and missing.
        control.ControlDimension
            If a signal has another shape.

        Examples
        --------
        >>> import privcontrol as pc
        >>> loop = pc.private_lqg(pc.plants.vehicle(), Q=1, R=1, QN=1e-4, RN=1e-2)
        >>> errors = loop.mean_square_error([0.0, 0.1], initial_state=[1.0, 0.0])
        >>> errors[:, 0].round(6)
        array([1., 0.])
        """
        refuse_moments(self.data, "mean_square_error")
        run = over_run(self.data, timepts, reference, target=target, **signals)
        quiet, noisy = moments.mean_square_errors(*run)
        return quiet + noisy

    @known_keywords
    def cost(
        self,
        timepts: ArrayLike | None = None,
        reference: ArrayLike | None = None,
        *,
        target: ArrayLike | None = None,
        **signals: Unpack[RunSignals],
    ) -> LoopCost:
        """Return E sum e'Q e + v'R v + 2 e'N v exactly, e = x - target, v = u - ud.

        Parameters as for `mean_square_error`: by default without disturbances.

        Parameters
        ----------
        timepts, reference, feedforward, initial_state, initial_estimate, exogenous
            As for `simulate`.
        disturbance, measurement_noise, target : optional
            As for `mean_square_error`: by default nothing disturbs.

        Returns
        -------
        LoopCost
            In all and by cause: regulation, disturbance, privacy.

        Raises
        ------
        ValueError
            If the loop has no Q and R; and as for `mean_square_error`.

        Examples
        --------
        >>> import numpy as np, privcontrol as pc
        >>> loop = pc.private_lqg(pc.plants.vehicle(), Q=1, R=1, QN=1e-4, RN=1e-2)
        >>> loop.cost(np.arange(5) * 0.1, initial_state=[1.0, 0.0], disturbance="design")
        LoopCost(6.27434: regulation=6.2722, disturbance=0.00214183, privacy=0)
        """
        refuse_moments(self.data, "cost")
        run = over_run(self.data, timepts, reference, target=target, **signals)
        return moments.expected_cost(*run)

    def online(self) -> OnlineController:
        """Run the controller as in the cloud, a sample at a time, from the start.

        Returns
        -------
        OnlineController
            ``step(yhat)`` takes the published outputs, and returns the inputs.

        Examples
        --------
        >>> import numpy as np, privcontrol as pc
        >>> budget = pc.PrivacyBudget(epsilon=1.0, delta=1e-2)
        >>> noise = pc.design_output_noise(pc.plants.vehicle(), horizon=5, budget=budget,
        ...     adjacency=pc.StateAdjacency({"position": 1.0}), models="exact")
        >>> loop = pc.private_lqg(pc.plants.vehicle(), 1, 1, 1e-4, 1e-2, noise)
        >>> controller = loop.online()
        >>> controller.step([1.0]).shape
        (1,)
        """
        return OnlineController(self.data)

    @cached_property
    def estimate_covariance(self) -> NDArray[np.float64]:
        """Error covariances (T, n, n) of x(t) - xhat(t) after the reading at t.

        A controller in predictor form acts before it, with `prediction_covariance`.
        They hold under the design's law, and are (n, n) in steady state without a
        horizon.
        Without any information a variance is inf, and the covariances with it nan.
        `ValueError` for an observer that does not know the noise. Without noise there
        is none to know.
        """
        return moments.error_covariances(self.data)

    @cached_property
    def prediction_covariance(self) -> NDArray[np.float64]:
        """Error covariances (T, n, n) of x(t) less its prediction.

        The prediction uses publications up to t - 1.
        """
        return moments.error_covariances(self.data, predicted=True)

    @known_keywords
    def margins(
        self,
        direction: ArrayLike,
        *,
        probability: float,
        horizon: int | None = None,
        sure: bool = False,
    ) -> NDArray[np.float64]:
        """Return margins (T,) that a prediction's error exceeds with a probability.

        P(some t: abs(d'(x(t) - prediction)) > margin(t)) <= probability, with the
        prediction from all outputs published up to t - 1. An input decided at t - 1
        moves x(t), so meet a constraint on x(t) with this margin. It holds for any
        controller that reads published outputs only, over draws of x(0), the
        disturbances and the noise, of whichever law. In a loop without a horizon x(0)
        has the prior P0, or without one the covariance of the steady state.

        Parameters
        ----------
        direction : array_like, shape (n,)
            d, in the reciprocal units of the states.
        probability : float
            Of one run, 0.01 is 1 %.
        horizon : int, optional
            Number of samples T; required without noise, or with noise without a
            horizon.
        sure : bool, optional
            For structured noise within a bound: its share of the margin holds with
            certainty, and the probability is about everything else. A `ValueError`
            refuses other noise.

        Returns
        -------
        ndarray, shape (T,)
            Infinite where nothing is known of the direction yet, else without unit.

        Examples
        --------
        >>> import privcontrol as pc
        >>> vehicle = pc.plants.vehicle()
        >>> position = pc.StateAdjacency({"position": 1.0})
        >>> budget = pc.PrivacyBudget(epsilon=1.0, delta=1e-2)
        >>> noise = pc.design_output_noise(vehicle, horizon=100, adjacency=position,
        ...                                budget=budget, models="exact")
        >>> weights = {"Q": 1, "R": 5, "QN": [1e-4, 1e-2], "RN": 1e-2}
        >>> loop = pc.private_lqg(vehicle, **weights, noise=noise, P0=1.0)
        >>> loop.margins([1, 0], probability=0.01)[-1].round(2)
        np.float64(3.04)
        """
        if self.data.truth is not None:
            refuse_moments(self.data, "margins")
        return margins(self.data, direction, probability, horizon, sure)

    @cached_property
    def optimality(self) -> Optimality:
        """The distance from the best loop for its secret, budget and prior.

        It is the best loop among those with noise of the same law, and
        ``Optimality.universal_bound`` is about additive noise of every law. `ValueError`
        unless it is a loop with a prior, or has no horizon.
        """
        refuse_moments(self.data, "optimality")
        return optimality(self.data)

    def steady_state_cost(self) -> LoopCost:
        """Return the expected cost of a sample in steady state.

        Disturbances of QN and RN act, and the reference is zero. `ValueError` if the
        loop is not stable, has no Q and R, or its noise has a horizon.

        Returns
        -------
        LoopCost
            In all and by cause.

        Examples
        --------
        >>> import control as ct, numpy as np, privcontrol as pc
        >>> room = ct.ss(0.9, [[1, 0.1]], 1, 0, 300.0, states=["air"],
        ...              inputs=["heat", "people"], outputs=["reading"])
        >>> people = pc.DisturbanceAdjacency({"people": 1.0})
        >>> budget = pc.PrivacyBudget(epsilon=1.0, delta=1e-2)
        >>> noise = pc.design_output_noise(room, horizon=np.inf, adjacency=people,
        ...                                budget=budget)
        >>> loop = pc.private_lqg(room, 1, 1, 1e-2, 1e-2, noise, controls=["heat"])
        >>> error = loop.steady_state_error()
        >>> round(loop.steady_state_cost().privacy, 5), error.round(4)
        (0.00649, array([0.0373]))
        """
        refuse_moments(self.data, "steady_state_cost")
        return moments.steady_state_cost(self.data)

    def steady_state_error(self) -> NDArray[np.float64]:
        """Return E x_i^2 (n,) in steady state, in the squared units of the states.

        Returns
        -------
        ndarray, shape (n,)

        Examples
        --------
        >>> import numpy as np, privcontrol as pc
        >>> loop = pc.private_lqg(pc.plants.vehicle(), Q=1, R=1, QN=1e-4, RN=1e-2)
        >>> loop.steady_state_error().shape
        (2,)
        """
        refuse_moments(self.data, "steady_state_error")
        quiet, noisy = moments.steady_state_errors(self.data)
        return quiet + noisy

    @known_keywords
    def report(
        self,
        path: str | Path,
        *,
        time_unit: str | None = None,
        units: Mapping[str, str] | None = None,
        date: datetime.date | str | None = None,
    ) -> Path:
        """Write one HTML page about the loop, for those who answer for the data.

        It holds the date, the library's version, the digest of the design file, the
        guarantee with its assumptions, its caveats and the effect of repetition,
        the noise, the eavesdropper's error (of a disturbance: how often it is detected),
        the cost by cause, the error of the states, and a line to sign. Of noise without
        a horizon cost and errors are those in steady state. It holds no signal of any
        run.

        Parameters
        ----------
        path : str or Path
            Its name ends in ``.html``. An existing file is replaced.
        time_unit : str, optional
            Unit in which dt is counted, such as ``"h"``; seconds by default.
        units : mapping of str to str, optional
            Units of outputs and states by name, such as ``{"y": "K"}``.
        date : datetime.date or str, optional
            Of the report, today by default; a text as "2026-12-31".

        Returns
        -------
        Path
            Of the page.

        Raises
        ------
        ValueError
            If the name does not end in .html or .htm, the loop has no noise or is not
            linear, or the date is none.
        OSError
            If the path cannot be written.

        Examples
        --------
        >>> import tempfile, privcontrol as pc
        >>> budget = pc.PrivacyBudget(epsilon=1.0, delta=1e-2)
        >>> noise = pc.design_output_noise(pc.plants.vehicle(), horizon=5, budget=budget,
        ...     adjacency=pc.StateAdjacency({"position": 1.0}), models="exact")
        >>> loop = pc.private_lqg(pc.plants.vehicle(), 1, 1, 1e-4, 1e-2, noise)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     print(loop.report(folder + "/report.html").name)
        report.html
        """
        if not isinstance(path, str | Path):
            raise TypeError(f"path: expected a str or Path, got {type(path).__name__}")
        if Path(path).suffix.lower() not in _PAGES:
            raise ValueError(
                f"path: the report is an HTML page, expected a name that ends in .html, got "
                f"{Path(path).name!r}"
            )
        refuse_moments(self.data, "report")
        day = day_of(datetime.date.today() if date is None else date)
        return write_report(self.data, path, time_unit, units, day)

    @curated
    def record(self, **known: Unpack[Curator]) -> Record:
        """Return the record for the registry of deployments of OpenDP and NIST.

        The record of the noise, with the post-processing of its outputs; see
        `PrivacyGuarantee.record` for the parameters.

        Parameters
        ----------
        name, curators, use, region, date : optional
            As for `PrivacyGuarantee.record`.

        Returns
        -------
        Record
            A dict, and YAML as text.

        Raises
        ------
        ValueError
            If the loop has no noise.

        Examples
        --------
        >>> import numpy as np, privcontrol as pc
        >>> budget = pc.PrivacyBudget(epsilon=1.0, delta=1e-2)
        >>> noise = pc.design_output_noise(pc.plants.vehicle(), horizon=5, budget=budget,
        ...     adjacency=pc.StateAdjacency({"position": 1.0}), models="exact")
        >>> loop = pc.private_lqg(pc.plants.vehicle(), 1, 1, 1e-4, 1e-2, noise)
        >>> print(str(loop.record(name="A vehicle")).splitlines()[0])
        url_slug: "a-vehicle"
        """
        if self.noise is None:
            raise ValueError(
                "record: expected a loop that promises something, got one without noise; "
                "pass noise="
            )
        found = self.noise.record(**known)
        found["deployment"]["accounting"]["post_processing"] = _AFTERWARDS
        return found

    def save(self, path: str | Path) -> None:
        """Write plant, controller, weights and noise to a file for `privcontrol.load`.

        Parameters
        ----------
        path : str or Path
            An existing file is replaced.

        Raises
        ------
        OSError
            If the path cannot be written.
        ValueError
            If plant or controller are functions.

        Examples
        --------
        >>> import tempfile, privcontrol as pc
        >>> budget = pc.PrivacyBudget(epsilon=1.0, delta=1e-2)
        >>> noise = pc.design_output_noise(pc.plants.vehicle(), horizon=5, budget=budget,
        ...     adjacency=pc.StateAdjacency({"position": 1.0}), models="exact")
        >>> loop = pc.private_lqg(pc.plants.vehicle(), 1, 1, 1e-4, 1e-2, noise)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = loop.save(folder + "/loop.json")
        ...     print(pc.load(folder + "/loop.json").noise == noise)
        True
        """
        write(path, self)

    def _saved_fields(self) -> dict[str, object]:
        """Return plant, controller, noise, weights and names, for a design file."""
        return self.data.saved()

    @classmethod
    def _restored(cls, saved: dict[str, Any]) -> Self:
        return cls(LoopData.restored(saved))

    def _repr_html_(self) -> str:
        """Return the loop, its noise and its guarantee as tables for notebooks."""
        plant = self.data.side.plant
        rows = {"Loop": f"{self.data.name}, states {', '.join(plant.states)}"}
        if not self.data.law.varies:
            sizes = sorted(abs(self.poles()), reverse=True)
            rows["Poles, absolute"] = ", ".join(f"{size:.3g}" for size in sizes)
        if self.noise is None:
            return html_table(rows)
        return html_table(rows) + self.noise._repr_html_()

    def __repr__(self) -> str:
        side = self.data.side
        p, m = side.through.shape
        return (
            f"PrivateLoop({self.data.name!r}: {side.order} states, {m} inputs, {p} outputs, "
            f"noise={self.noise!r})"
        )
