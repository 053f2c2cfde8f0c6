"""What privacy costs: the exact cost of an LQG loop against epsilon, for several noise designs over one horizon.

Structured and independent noise are comparable over the same horizon only, and for the same gains only: of two given
gains every design takes the better.
"""

import math
from dataclasses import dataclass, replace

import control as ct
import matplotlib.pyplot as plt
import numpy as np

from .._bands import readable_log_ticks
from .._signals import pandas
from .._trials import _checked_executor
from ..channel.design import NoiseRequest, joined, warn_of_modes
from ..core._linalg import one_of
from ..core.budget import PrivacyBudget
from ..trajectory.plant import Plant
from .checks import root, semidefinite
from .codesign import codesigned
from .lqg import observer_gain, private_lqg
from .moments import LoopCost
from .steady import codesigned_without_horizon, lqg_without_horizon

DESIGNS = {
    "trace": "structured, least variance",
    "loop": "structured, least loop cost",
    "iid": "independent",
    "codesign": "structured, gains and noise co-designed",
    "laplace": "structured Laplace, \N{GREEK SMALL LETTER DELTA} = 0",
}
#: The designs of loops that never stop.
ENDLESS_DESIGNS = ("trace", "loop", "iid", "codesign")
#: A loop without measurements that costs more than this many times the dearest private one is off the plot.
_FAR = 3.0


@dataclass(frozen=True)
class Tradeoff:
    """Exact costs of a loop against epsilon.

    Attributes
    ----------
    epsilons : ndarray, shape (E,)
    delta : float
    horizon : int or inf
        Samples T over which cost and guarantee are counted, the same for all designs.
    costs : dict of str to tuple of LoopCost
        By design, one for each epsilon. ``regulation`` is that of reference and initial state.
    public : LoopCost
        Of the loop without privacy noise, with the gains of ``ct.dlqr`` and ``ct.dlqe``.
    open_loop : LoopCost
        Of the loop that uses no measurement, L = 0: where a design costs as much, its measurements are of no use.
    loops : dict of str to tuple of PrivateLoop
        By design, the loop behind each cost, with its noise and its guarantee.

    Examples
    --------
    >>> import privcontrol as pc
    >>> result = pc.tradeoff(pc.plants.vehicle(), 20, 1, 1e-3, 1e-2, horizon=20, delta=1e-2, epsilons=[0.1, 1.0],
    ...                      adjacency=pc.StateAdjacency({"position": 1.0}), designs=("loop",))
    >>> costs = result.total("loop")
    >>> bool(costs[0] > costs[1] > result.public.total)
    True
    """

    epsilons: np.ndarray
    delta: float
    horizon: int
    costs: dict
    public: object
    open_loop: object
    loops: dict

    def total(self, design):
        """Total costs (E,) of a design.

        Raises
        ------
        ValueError
            If the design was not asked for.
        """
        return np.array(
            [
                cost.total
                for cost in self.costs[one_of(design, "design", tuple(self.costs))]
            ]
        )

    def loop(self, design, epsilon):
        """The `PrivateLoop` of a design at one of the epsilons: to simulate, to publish from, to compare gains.

        Raises
        ------
        ValueError
            If the design or the epsilon was not asked for.

        Examples
        --------
        >>> import privcontrol as pc
        >>> result = pc.tradeoff(pc.plants.vehicle(), 20, 1, 1e-3, 1e-2, horizon=20, delta=1e-2, epsilons=[0.1, 1.0],
        ...                      adjacency=pc.StateAdjacency({"position": 1.0}), designs=("loop",))
        >>> loop = result.loop("loop", 1.0)
        >>> loop.guarantee.satisfies(pc.PrivacyBudget(epsilon=1.0, delta=1e-2))
        True
        """
        loops = self.loops[one_of(design, "design", tuple(self.loops))]
        found = np.flatnonzero(np.isclose(self.epsilons, epsilon, rtol=1e-6, atol=0))
        if not found.size:
            known = ", ".join(f"{value:g}" for value in self.epsilons)
            raise ValueError(f"epsilon: expected one of {known}, got {epsilon:g}")
        return loops[found[0]]

    def plot(self, ax=None):
        """Plot the total cost against epsilon, both axes logarithmic, with the costs of no privacy and of no measurement.

        The latter is left out where it is more than three times the dearest private loop.

        Parameters
        ----------
        ax : Axes, optional
            Where to draw; a new figure by default.

        Returns
        -------
        control.ControlPlot
        """
        if ax is None:
            ax = plt.subplots(figsize=(6.4, 4.0), layout="constrained")[1]
        lines = []
        for design, style in zip(self.costs, ("o-", "s--", "^-", "d-", "v-")):
            lines += ax.loglog(
                self.epsilons, self.total(design), style, ms=4, label=DESIGNS[design]
            )
        if self.public.total > 0:
            lines.append(
                ax.axhline(self.public.total, color="black", ls=":", label="no privacy")
            )
        if (
            0
            < self.open_loop.total
            < _FAR * max(self.total(design).max() for design in self.costs)
        ):
            lines.append(
                ax.axhline(
                    self.open_loop.total,
                    color="black",
                    ls="-.",
                    lw=1,
                    label="no measurements (open loop)",
                )
            )
        ax.set(
            xlabel=f"privacy loss \N{GREEK SMALL LETTER EPSILON} "
            f"(\N{GREEK SMALL LETTER DELTA} = {self.delta:g}, {self._span})",
            ylabel=self._price,
        )
        readable_log_ticks(ax)
        ax.grid(alpha=0.3, which="major")
        legend = ax.legend(fontsize="small")
        return ct.ControlPlot(
            np.array([[lines]], dtype=object),
            np.array([[ax]]),
            ax.figure,
            legend=legend,
        )

    def to_pandas(self):
        """One row per design and epsilon: ``total``, ``regulation``, ``disturbance`` and ``privacy``.

        Raises
        ------
        ImportError
            If pandas is not installed.
        """
        pd = pandas()
        rows = [
            {"design": design, "epsilon": epsilon, "total": cost.total} | vars(cost)
            for design, costs in self.costs.items()
            for epsilon, cost in zip(self.epsilons, costs)
        ]
        return pd.DataFrame(rows)

    def __repr__(self):
        span = f"epsilon {self.epsilons.min():g} .. {self.epsilons.max():g}"
        return f"Tradeoff({', '.join(self.costs)}; {span}, delta {self.delta:g}, {self._span})"

    @property
    def _span(self):
        return "no horizon" if self.horizon == math.inf else f"{self.horizon} samples"

    @property
    def _price(self):
        if self.horizon == math.inf:
            return "expected LQ cost of a sample, steady state"
        return "expected LQ cost over the horizon"


def tradeoff(
    sys,
    Q,
    R,
    QN,
    RN,
    *,
    horizon,
    adjacency,
    epsilons,
    delta,
    designs=("trace", "loop", "iid"),
    G=None,
    N=None,
    form="predictor",
    P0=None,
    reference=None,
    initial_state=None,
    executor=None,
    progress=False,
):
    """The exact expected cost of a private LQG loop against epsilon, for several designs of its noise.

    The cost counts reference, initial state, disturbances of QN and RN, and privacy noise. Every design but the
    co-design is computed for two Kalman gains, that of ``ct.dlqe`` and that re-tuned to the independent noise of the
    same budget, and the better one is kept. Loop-optimal noise is then never above the other Gaussian ones, to its
    certified gap. `Tradeoff.loop` hands back the loop behind each cost.

    Parameters
    ----------
    sys, Q, R, QN, RN, G, N, form
        The loop, as in `private_lqg`.
    horizon : int or inf
        Number of samples T, the same for all designs. With ``np.inf`` the costs are those of a sample in steady state:
        of the designs there are "trace", "loop", "iid" and "codesign", each with the observer that knows its noise, and
        reference, initial state and ``P0`` do not count.
    adjacency : StateAdjacency, InitialStateAdjacency, DisturbanceAdjacency, or a list of them
        What must be hidden, as in `design_output_noise`, whose time for a disturbance each design takes.
    epsilons : array_like, shape (E,)
        Privacy losses in nats.
    delta : float
        In (0, 1).
    designs : sequence of str, optional
        ``"trace"``: structured noise of least variance; ``"loop"``: structured noise that costs this loop least;
        ``"iid"``: independent noise; ``"codesign"``: gains and noise chosen for each other, see `private_lqg`, for zero
        reference and initial state of mean zero; ``"laplace"``: structured Laplace noise for this loop, which promises
        epsilon at delta = 0, not for a disturbance.
    P0 : array_like, shape (n, n), optional
        Covariance of the initial state; the steady-state covariance of the Kalman filter by default.
    reference, initial_state : array_like, optional
        Public reference and mean of the initial state, as in `PrivateLoop.simulate`; zero by default.
    executor : concurrent.futures.Executor, optional
        Where designs are computed; the numbers do not depend on it.
    progress : bool, optional
        Show a tqdm bar.

    Returns
    -------
    Tradeoff

    Raises
    ------
    ValueError
        If a design is unknown, or an epsilon or delta is out of range.

    Examples
    --------
    >>> import privcontrol as pc
    >>> result = pc.tradeoff(pc.plants.vehicle(), 20, 1, 1e-3, 1e-2, horizon=20, delta=1e-2, epsilons=[0.1, 1.0],
    ...                      adjacency=pc.StateAdjacency({"position": 1.0}))
    >>> result
    Tradeoff(trace, loop, iid; epsilon 0.1 .. 1, delta 0.01, 20 samples)
    >>> bool((result.total("loop") <= result.total("iid")).all())
    True
    """
    plant, designs, adjacency = Plant.of(sys), tuple(designs), joined(adjacency)
    for design in designs:
        one_of(design, "designs", tuple(DESIGNS))
    epsilons = np.atleast_1d(np.asarray(epsilons, float))
    request = NoiseRequest(horizon, PrivacyBudget(epsilon=1.0, delta=delta), adjacency)
    public = private_lqg(plant, Q, R, QN, RN, G=G, N=N, form=form)
    if P0 is None:
        P0 = observer_gain(plant, public.weights, None, form)[1]
    expected: _Expected | _SteadyState
    if horizon == math.inf:
        expected = _SteadyState()
        for design in designs:
            one_of(design, "designs", ENDLESS_DESIGNS)
    else:
        given = {
            "reference": reference,
            "initial_state": initial_state,
            "timepts": plant.step * np.arange(horizon),
        }
        expected = _Expected(semidefinite(P0, "P0", plant.order), given)
        warn_of_modes(plant, adjacency, horizon, ("contracting", "chain", "unstable"))
    tasks = [
        (
            public,
            expected,
            design,
            replace(request, budget=PrivacyBudget(epsilon=float(epsilon), delta=delta)),
        )
        for design in designs
        for epsilon in epsilons
    ]
    found = (
        map(_evaluated, tasks)
        if executor is None
        else _checked_executor(executor).map(_evaluated, tasks)
    )
    found = list(_with_bar(found, len(tasks)) if progress else found)
    parts = {
        design: found[i * len(epsilons) : (i + 1) * len(epsilons)]
        for i, design in enumerate(designs)
    }
    costs, loops = (
        {design: tuple(pair[k] for pair in part) for design, part in parts.items()}
        for k in (0, 1)
    )
    with np.errstate(over="ignore", invalid="ignore"):  # an unstable plant
        open_loop = expected.cost(public.with_gains(public.K, np.zeros_like(public.L)))
    return Tradeoff(
        epsilons,
        float(delta),
        horizon,
        costs,
        expected.cost(public),
        open_loop,
        loops,
    )


@dataclass(frozen=True)
class _Expected:
    """What the loops are exposed to: an initial state of covariance P0, and the signals given to `PrivateLoop.cost`."""

    P0: np.ndarray
    given: dict

    def cost(self, loop):
        cost = loop.cost(**self.given, disturbance="design", measurement_noise="design")
        starts = (
            loop.cost(self.given["timepts"], initial_state=column).regulation
            for column in root(self.P0).T
        )
        return replace(cost, regulation=cost.regulation + sum(starts))


@dataclass(frozen=True)
class _SteadyState:
    """Loops that never stop, with disturbances of QN and RN acting."""

    def cost(self, loop):
        radius = np.abs(loop.poles()).max(initial=0.0)
        if radius >= 1:
            return LoopCost(0.0, math.inf, 0.0)
        return loop.steady_state_cost()


def _evaluated_endless(public, design, request):
    """The same for noise without a horizon, each with the observer that knows it."""
    if design == "iid":
        request = replace(request, family="iid-gaussian")
    noise = request.design(public.plant)
    loop = lqg_without_horizon(public, noise)
    if design == "codesign":
        loop = codesigned_without_horizon(public, noise, 1e-3)
    if design == "loop":
        shaped = request.design(public.plant, weight=loop)
        better = lqg_without_horizon(public, shaped)
        pair = (loop, better)
        loop = min(pair, key=lambda each: each.steady_state_cost().total)
    return loop.steady_state_cost(), loop


def _evaluated(task):
    """The cost of one design for one budget, and its loop; runs in workers."""
    public, expected, design, request = task
    if request.horizon == math.inf:
        return _evaluated_endless(public, design, request)
    plant, independent = (
        public.plant,
        request.design(public.plant, family="iid-gaussian"),
    )
    if design == "codesign":
        noisy = replace(public, noise=request.design(plant, weight=public))
        loop = codesigned(noisy, expected.P0, observer_gain)
        return expected.cost(loop), loop
    if design == "laplace":
        request = replace(
            request, family="laplace", budget=replace(request.budget, delta=0.0)
        )
    retuned = observer_gain(plant, public.weights, independent, public.form)[0]
    noise = (
        independent
        if design == "iid"
        else request.design(plant)
        if design == "trace"
        else None
    )
    found = []
    for loop in (public, public.with_gains(public.K, retuned)):
        private = replace(
            loop, noise=request.design(plant, weight=loop) if noise is None else noise
        )
        found.append((expected.cost(private), private))
    return min(found, key=lambda pair: pair[0].total)


def _with_bar(results, total):
    try:
        from tqdm.auto import tqdm
    except ImportError as error:
        raise ImportError(
            "progress=True draws a tqdm bar: pip install tqdm, or leave progress=False"
        ) from error
    return tqdm(results, total=total, unit="design")
