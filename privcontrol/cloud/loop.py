"""Private output-feedback loops: plant, channel gate, and an observer with state feedback in the cloud.

What leaves the plant is yhat and u. Everything in the cloud is computed from them, so that the guarantee of the
output noise is the guarantee of the loop, whatever the gains.
"""

from dataclasses import dataclass, replace
from functools import cached_property

import control as ct
import numpy as np

from ..channel.iosystem import create_channel_iosystem
from ..channel.output_noise import OutputNoise
from ..trajectory.plant import Plant
from .dynamics import LoopDynamics
from .moments import errors, expected_cost, mean_square_error
from .signals import LoopSignals
from .simulation import simulate
from .weights import fitting_noise, root


@dataclass(frozen=True, repr=False, eq=False)
class PrivateLoop:
    """A plant controlled from its privatised outputs; made by `private_loop` or `private_lqg`.

    Attributes
    ----------
    plant : Plant
        Matrices, labels and sampling time of the plant.
    K : ndarray, shape (m, n)
        State-feedback gain, u = -K (estimate - xd) + ud.
    L : ndarray, shape (n, p)
        Observer gain on the innovation i = yhat - C xhat - D u. Of the predictor: the estimate is xhat, and
        xhat+ = A xhat + B u + L i. Of the filter: the estimate is xhat + L i, and xhat+ = A (xhat + L i) + B u.
    noise : OutputNoise or None
    Q, R, QN, RN, G : ndarray or None
        Cost weights, covariances of process and measurement disturbances, and the input matrix of the former.
    N : ndarray, shape (n, m), or None
        Cross weight of the cost x'Q x + u'R u + 2 x'N u.
    form : {"predictor", "filter"}
    history : tuple of (str, float)
        Expected cost after each step of a co-design; empty without one.

    Notes
    -----
    A loop is no python-control system, but makes two: `closed_loop` for ``ct.poles``, ``ct.bode_plot`` and norms, and
    `system`, with the noise model and its poles, for ``ct.interconnect`` and ``ct.forced_response``.

    Examples
    --------
    >>> import privcontrol as pc
    >>> vehicle = pc.plants.vehicle()
    >>> noise = pc.design_output_noise(vehicle, horizon=100, adjacency=pc.StateAdjacency({"position": 1.0}),
    ...                                budget=pc.PrivacyBudget(epsilon=1.0, delta=1e-2))
    >>> loop = pc.private_lqg(vehicle, Q=20, R=1, QN=2, RN=1, noise=noise)
    >>> loop.system.input_labels, loop.system.output_labels
    (['xd[0]', 'xd[1]', 'ud[0]', 'eta[0]'], ['yhat[0]', 'u'])
    >>> loop.mean_square_error(initial_state=[-20, 0])[0, [0, 99]].round(2).tolist()
    [400.0, 3.53]
    """

    plant: Plant
    K: np.ndarray
    L: np.ndarray
    noise: OutputNoise | None
    Q: np.ndarray | None
    R: np.ndarray | None
    QN: np.ndarray | None
    RN: np.ndarray | None
    G: np.ndarray
    name: str
    N: np.ndarray | None = None
    form: str = "predictor"
    history: tuple = ()

    def __post_init__(self):
        if self.noise is not None:
            self.noise.check_plant(self.plant)

    @cached_property
    def dynamics(self):
        """The closed loop as one linear system of (x, xhat)."""
        return LoopDynamics.of(self.plant, self.K, self.L, self.form)

    @cached_property
    def cost_root(self):
        """H (n + m, n + m) with |H (x, u)|^2 = x'Q x + u'R u + 2 x'N u.

        Raises
        ------
        ValueError
            If the loop has no Q and R.
        """
        if self.Q is None or self.R is None:
            raise ValueError(
                "the loop has no cost: pass Q and R to private_loop, or a weight array to the design"
            )
        cross = np.zeros((len(self.Q), len(self.R))) if self.N is None else self.N
        return root(np.block([[self.Q, cross], [cross.T, self.R]])).T

    @property
    def guarantee(self):
        """The privacy guarantee of everything that the loop publishes over the horizon.

        Raises
        ------
        ValueError
            If the loop has no noise.
        """
        return self._private("a guarantee").guarantee

    def with_noise(self, noise):
        """The same loop with other noise (or None)."""
        return replace(self, noise=fitting_noise(self.plant, noise))

    @property
    def input_labels(self):
        """``xd[i]``, ``ud[i]``, ``eta[i]``."""
        count = {
            "xd": self.plant.order,
            "ud": self.plant.B.shape[1],
            "eta": self.noise.channels if self.noise else 0,
        }
        return [f"{name}[{i}]" for name, size in count.items() for i in range(size)]

    @property
    def output_labels(self):
        """``yhat[i]``, then the plant's input labels."""
        return [*(f"yhat[{i}]" for i in range(len(self.plant.C))), *self.plant.inputs]

    @property
    def state_labels(self):
        """The plant's labels, then ``xhat[i]``."""
        return [*self.plant.states, *(f"xhat[{i}]" for i in range(self.plant.order))]

    @property
    def system(self):
        """The loop as a plain python-control StateSpace.

        Inputs ``xd[i]``, ``ud[i]``, ``eta[i]``; outputs ``yhat[i]``, then the plant's inputs; states the plant's,
        ``xhat[i]``, and ``xi[i]`` of structured noise. For structured noise eta is its draw at sample 0 and zero
        after. It carries the noise model's poles too: use `closed_loop` for poles, Bode plots and norms.
        """
        public = self.closed_loop
        if self.noise is None:
            return public[:, : len(self.input_labels)]
        gate = create_channel_iosystem(self.noise)
        p, q = len(self.plant.C), len(self.input_labels) - self.noise.channels
        drive, tail = gate.B[:, p:], gate.D[:, p:]
        into, through = public.B[:, q:], public.D[:, q:]
        return ct.ss(
            np.block(
                [
                    [public.A, into @ gate.C],
                    [np.zeros((gate.nstates, public.nstates)), gate.A],
                ]
            ),
            np.block(
                [[public.B[:, :q], into @ tail], [np.zeros((gate.nstates, q)), drive]]
            ),
            np.hstack([public.C, through @ gate.C]),
            np.hstack([public.D[:, :q], through @ tail]),
            self.plant.dt,
            inputs=self.input_labels,
            outputs=self.output_labels,
            states=[*self.state_labels, *gate.state_labels],
            name=self.name,
        )

    @property
    def closed_loop(self):
        """The loop driven by ``xd[i]``, ``ud[i]`` and the output noise ``gamma[i]``, without the noise model."""
        drives = ("reference", "feedforward", "noise")
        labels = [label for label in self.input_labels if not label.startswith("eta")]
        return ct.ss(
            self.dynamics.A,
            np.hstack([self.dynamics.B[drive] for drive in drives]),
            self.dynamics.C,
            np.hstack([self.dynamics.D[drive] for drive in drives]),
            self.plant.dt,
            inputs=[*labels, *(f"gamma[{i}]" for i in range(len(self.plant.C)))],
            outputs=self.output_labels,
            states=self.state_labels,
            name=self.name,
        )

    def noise_weight(self, horizon):
        """The map from output noise to the cost that it adds over a horizon.

        Returns
        -------
        callable
            Takes output-noise columns (T p, r) to H columns with |H gamma|^2 = sum of x'Q x + u'R u + 2 x'N u, where x
            and u are the loop's response to gamma alone.

        Raises
        ------
        ValueError
            If the loop has no Q and R.
        """
        rows, start = self.cost_root, np.zeros((2 * self.plant.order, 1))

        def half(columns):
            gamma = np.asarray(columns).reshape(horizon, len(self.plant.C), -1)
            added = errors(self, rows, start, {"noise": gamma}, horizon)
            return added.reshape(-1, added.shape[2])

        return half

    def simulate(
        self,
        timepts=None,
        reference=None,
        *,
        feedforward=None,
        initial_state=None,
        initial_estimate=None,
        disturbance=None,
        measurement_noise=None,
        controller=None,
        trials=1,
        rng=None,
        executor=None,
        progress=False,
    ):
        """Monte-Carlo trials of the loop.

        Parameters
        ----------
        timepts : array_like, shape (T,), optional
            Time points 0, dt, 2 dt, ..; the noise's whole horizon by default.
        reference : array_like, shape (n,) or (n, T), optional
            xd, public; zero by default. It is followed where (xd, ud) is a trajectory of the plant: a constant xd
            needs the ud that holds it, see the example.
        feedforward : array_like, shape (m,) or (m, T), optional
            ud, public, and published as it is; zero by default. A secret signal w at input k enters as
            ``disturbance=plant.B[:, [k]] * w`` (with feedthrough also ``measurement_noise=plant.D[:, [k]] * w``), while
            row k of K is zero.
        initial_state : array_like, shape (n,), optional
            x(0), private; zero by default.
        initial_estimate : array_like, shape (n,), optional
            xhat(0), public; zero by default. Computed from x(0) it would void the guarantee.
        disturbance : array_like, shape (n, T) or (n, trials, T), or "design", optional
            Added to x(t+1); none by default, "design" draws it with covariance G QN G'.
        measurement_noise : array_like, shape (p, T) or (p, trials, T), or "design", optional
            Added to y(t) before the gate; none by default, "design" draws it with covariance RN.
        controller : callable, optional
            ``controller(t, xhat, xd)`` with the time t, the estimates (n, trials) (filtered in the filter form) and the
            reference (n, 1) returns the inputs (m, trials), or (m,) for all trials alike, in place of
            -K (xhat - xd) + ud. It is called for whole blocks of trials, and must not know the secret.
        trials : int, optional
        rng : None, int, SeedSequence or Generator, optional
        executor : concurrent.futures.Executor, optional
            Where blocks of trials run; the numbers do not depend on it.
        progress : bool, optional
            Show a progress bar.

        Returns
        -------
        PrivateResponse
            Arrays (signal, trial, time): outputs are exactly what is published, states the truth. ``yhat[i]`` is the
            plant's output i as published, and is found under that output's own label too; ``xd[i]`` and ``xhat[i]``
            belong to state i, ``ud[i]`` to input i.

        Raises
        ------
        ValueError
            If the loop has no noise, or the time points do not fit its step, do not start at 0, or exceed its horizon.
        control.ControlDimension
            If a signal has another shape.

        Warns
        -----
        PrivacyWarning
            If a feedforward is given for an input at which the noise hides a disturbance.

        Examples
        --------
        The equilibrium at which the output is 5, as reference and feedforward:

        >>> import control as ct, numpy as np, privcontrol as pc
        >>> tank = ct.ss([[0.9, 0.1], [0, 0.8]], [[0], [1]], [[1, 0]], 0, 0.1, states=["level", "valve"])
        >>> noise = pc.design_output_noise(tank, horizon=80, adjacency=pc.StateAdjacency({"level": 0.1}, times=0),
        ...                                budget=pc.PrivacyBudget(epsilon=1.0, delta=1e-2))
        >>> loop = pc.private_lqg(tank, Q=1, R=1, QN=1e-2, RN=1e-2, noise=noise)
        >>> rows = np.block([[tank.A - np.eye(2), tank.B], [tank.C, np.zeros((1, 1))]])
        >>> xd, ud = np.split(np.linalg.solve(rows, [0, 0, 5.0]), [2])
        >>> loop.simulate(reference=xd, feedforward=ud, trials=20, rng=0).mean()["level"][[0, 79]].round(2).tolist()
        [0.0, 5.0]
        """
        self._private("a simulation of what it publishes")
        signals = LoopSignals.of(
            self,
            timepts,
            reference,
            feedforward,
            initial_state,
            initial_estimate,
            disturbance,
            measurement_noise,
            trials,
        )
        return simulate(self, signals, controller, trials, rng, executor, progress)

    def mean_square_error(
        self,
        timepts=None,
        reference=None,
        *,
        feedforward=None,
        initial_state=None,
        initial_estimate=None,
        disturbance=None,
        measurement_noise=None,
    ):
        """Exact E (x_i(t) - xd_i(t))^2 as (n, T), in the squared units of the states.

        Parameters are those of `simulate`; disturbances are None, one array (n, T) for all trials, or "design".
        """
        signals = LoopSignals.of(
            self,
            timepts,
            reference,
            feedforward,
            initial_state,
            initial_estimate,
            disturbance,
            measurement_noise,
        )
        return mean_square_error(self, signals)

    def cost(
        self,
        timepts=None,
        reference=None,
        *,
        feedforward=None,
        initial_state=None,
        initial_estimate=None,
        disturbance=None,
        measurement_noise=None,
    ):
        """Exact expected cost: the sum over the samples of e'Q e + v'R v + 2 e'N v, e = x - xd and v = u - ud.

        Parameters are those of `simulate`; disturbances are None, one array (n, T) for all trials, or "design".

        Returns
        -------
        LoopCost
            The total, and its parts: regulation, disturbance, privacy.

        Raises
        ------
        ValueError
            If the loop has no Q and R.

        Examples
        --------
        >>> import privcontrol as pc
        >>> loop = pc.private_lqg(pc.plants.vehicle(), Q=1, R=1, QN=1e-4, RN=1e-2)
        >>> loop.cost(range(5) * np.float64(0.1), initial_state=[1.0, 0.0], disturbance="design").privacy
        0.0
        """
        signals = LoopSignals.of(
            self,
            timepts,
            reference,
            feedforward,
            initial_state,
            initial_estimate,
            disturbance,
            measurement_noise,
        )
        return expected_cost(self, signals)

    def _private(self, what):
        if self.noise is None:
            raise ValueError(
                f"the loop has no noise, and so no {what.removeprefix('a ')}: design some with design_output_noise and "
                "pass it to with_noise; the public loop is .system, for ct.forced_response"
            )
        return self.noise

    def __repr__(self):
        n, m, p = self.plant.order, self.plant.B.shape[1], len(self.plant.C)
        return f"PrivateLoop({self.name!r}: {n} states, {m} inputs, {p} outputs, noise={self.noise!r})"
