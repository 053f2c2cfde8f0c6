"""Curves to decide by: a loop's cost against epsilon, noise against the horizon.

Structured and independent noise are comparable over the same horizon and for the same
gains only. Of two given gains every design takes the better. How the noise that privacy
needs grows with the horizon is shown mode by mode.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import product
from typing import TYPE_CHECKING

import control as ct
import numpy as np
from matplotlib.axes import Axes
from numpy.typing import ArrayLike, NDArray

from .._figures import COLORS, finished_plot, own_axes
from ..core.adjacency import Adjacency
from ..core.ball_noise import RADIAL_LAWS
from ..designs.request import Request, joined
from ..loop.assembly import private_lqg
from ..loop.data import LoopData
from ..loop.loop import PrivateLoop
from ..loop.lqg import constant_filter
from ..loop.moments import Expected, InSteadyState, LoopCost, OverRun
from ..numerics.arguments import helpful_arguments
from ..numerics.checks import one_of, positive_number, real_array
from ..numerics.labels import time_axis
from ..numerics.progress import progress_bar
from ..numerics.thresholds import ROUNDED
from ..privacy.budget import PrivacyBudget, kappa_inverse
from ..privacy.horizon import Horizon, horizon_of
from ..privacy.loss import PrivacyLoss, decimal, scaled
from ..response import checked_executor, pandas
from ..secrets.modes import warn_of_costly_modes
from ..systems.linear import Plant, semidefinite
from .candidates import (
    Result,
    evaluated,
    is_shaped,
    let_fall,
    louder,
    of_shape,
    unmeasured,
    with_budget,
)

if TYPE_CHECKING:
    import pandas as pd

#: What the legend calls each design of a trade-off.
DESIGNS = {
    "trace": "structured, least variance",
    "loop": "structured, least loop cost",
    "iid": "independent",
    "codesign": "structured, gains and noise co-designed",
    "laplace": "structured Laplace, \N{GREEK SMALL LETTER DELTA} = 0",
    "ball": "structured radial",
    "truncated": "structured radial, cut off",
    "auto": "structured, best law",
}
_GREEN, _PURPLE, _YELLOW, _SKY, _GREY = COLORS
#: Colour and line of each design, in every figure the same. Of two designs of equal cost
#: the later one has gaps.
_LINES = {
    "trace": (_GREEN, "-"),
    "loop": (_SKY, "--"),
    "iid": (_PURPLE, ":"),
    "codesign": (_YELLOW, "-."),
    "laplace": (_GREY, (0, (1, 3))),
    "ball": (_GREY, "-"),
    "truncated": (_PURPLE, "--"),
    "auto": (_YELLOW, ":"),
}
#: Designs that promise epsilon and delta by radial noise, or by the cheapest law of all.
_OTHER_LAWS = (*RADIAL_LAWS, "auto")
#: A loop without measurements that costs more than this many times the dearest private
#: one is off the plot.
_FAR = 3.0
#: The designs of loops that never stop.
ENDLESS_DESIGNS = ("trace", "loop", "iid", "codesign")


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
        By design, one for each epsilon.
    public : LoopCost
        Of the loop without privacy noise, with the gains of ``ct.dlqr`` and
        ``ct.dlqe``.
    open_loop : LoopCost
        Of the loop that uses no measurement, L = 0: where a design costs as much, its
        measurements are of no use.
    loops : dict of str to tuple of PrivateLoop
        By design, the loop behind each cost.
    expected : Expected
        What the costs are expected over.

    See Also
    --------
    tradeoff, PrivateLoop

    Examples
    --------
    >>> import privcontrol as pc
    >>> result = pc.tradeoff(pc.plants.vehicle(), 20, 1, 1, 1e-2, horizon=20,
    ...                      delta=1e-2, epsilons=[0.1, 1.0], designs=("loop",),
    ...                      adjacency=pc.StateAdjacency({"position": 1.0}))
    >>> metres = result.rms("loop", "position")[1]
    >>> round(result.budget_at(rms={"position": metres}).epsilon, 6)
    1.0
    """

    epsilons: NDArray
    delta: float
    horizon: Horizon
    costs: dict[str, tuple[LoopCost, ...]]
    public: LoopCost
    open_loop: LoopCost
    loops: dict[str, tuple[PrivateLoop, ...]]
    expected: Expected = field(repr=False)

    def total(self, design: str) -> NDArray:
        """Total costs (E,) of a ``design``. `ValueError` if it was not asked for.

        Parameters
        ----------
        design : str
            Which was asked for.

        Returns
        -------
        ndarray, shape (E,)
            In the unit of the cost.

        Examples
        --------
        >>> import privcontrol as pc
        >>> result = pc.tradeoff(pc.plants.vehicle(), 20, 1, 1, 1e-2, horizon=20,
        ...                  delta=1e-2, epsilons=[0.1, 1.0], designs=("loop",),
        ...                  adjacency=pc.StateAdjacency({"position": 1.0}))
        >>> bool(result.total("loop")[0] > result.total("loop")[1])
        True
        """
        costs = self.costs[one_of(design, "design", tuple(self.costs))]
        return np.array([cost.total for cost in costs])

    def _loops(self, design: str) -> tuple[PrivateLoop, ...]:
        return self.loops[one_of(design, "design", tuple(self.loops))]

    @property
    def _plant(self) -> Plant:
        return next(iter(self.loops.values()))[0].data.side.plant

    def rms(self, design: str, state: str) -> NDArray:
        """Largest root-mean-square errors (E,) of a ``state`` over the run, in its unit.

        They count everything that the costs of the ``design`` count.

        Parameters
        ----------
        design : str
            Which was asked for.
        state : str
            Name of a state.

        Returns
        -------
        ndarray, shape (E,)
        """
        states = self._plant.states
        place = states.index(one_of(state, "state", states))
        errors = [
            np.add(*self.expected.errors(loop.data)) for loop in self._loops(design)
        ]
        return np.sqrt(np.max(errors, axis=2)[:, place])

    def detections(self, design: str, false_alarm: float) -> NDArray:
        """Largest detection rates (E,) of tests with a rate of false alarms.

        They are those of a ``design``, at a rate ``false_alarm``.

        Parameters
        ----------
        design : str
            Which was asked for.
        false_alarm : float
            Rate at which the test finds a move that was not made, in (0, 1).

        Returns
        -------
        ndarray, shape (E,)
            Probabilities, rounded up.

        Examples
        --------
        >>> import privcontrol as pc
        >>> result = pc.tradeoff(pc.plants.vehicle(), 20, 1, 1, 1e-2, horizon=20,
        ...                  delta=1e-2, epsilons=[0.1, 1.0], designs=("loop",),
        ...                  adjacency=pc.StateAdjacency({"position": 1.0}))
        >>> result.detections("loop", 0.05).shape
        (2,)
        """
        guarantees = [loop.guarantee for loop in self._loops(design)]
        return np.array([one.detection(false_alarm) for one in guarantees])

    def loop(
        self,
        design: str,
        epsilon: float | PrivacyBudget,
        *,
        rms: Mapping[str, float] | None = None,
    ) -> PrivateLoop:
        """The `PrivateLoop` of a design at one of the epsilons, or for a budget.

        For a budget, as `budget_at` gives, the noise is designed again for the gains
        behind each cost. The cheapest loop is returned, of those whose errors are
        within ``rms`` if there are any. `ValueError` if the ``design`` or the
        ``epsilon`` was not asked for.

        Parameters
        ----------
        design : str
            Which was asked for.
        epsilon : float or PrivacyBudget
            One of ``epsilons``, or a budget.
        rms : mapping of str to float, optional
            Largest root-mean-square error of states by name, in their units.

        Returns
        -------
        PrivateLoop

        Examples
        --------
        >>> import privcontrol as pc
        >>> result = pc.tradeoff(pc.plants.vehicle(), 20, 1, 1, 1e-2, horizon=20,
        ...                  delta=1e-2, epsilons=[0.1, 1.0], designs=("loop",),
        ...                  adjacency=pc.StateAdjacency({"position": 1.0}))
        >>> loop = result.loop("loop", 1.0)
        >>> loop.noise.horizon
        20
        """
        loops = self._loops(design)
        if isinstance(epsilon, PrivacyBudget):
            parts = [known.data for known in loops]
            limits = self._limits(math.inf, rms)
            tried = [with_budget(known, design, epsilon) for known in parts]
            tried += [of_shape(known, epsilon) for known in parts if is_shaped(known)]
            ranked = []
            for loop in tried:
                exceeds = self._room(loop, limits) < 1 - ROUNDED
                ranked.append((exceeds, self.expected.cost(loop).total, loop))
            return PrivateLoop(min(ranked, key=lambda one: one[:2])[2])
        wanted = positive_number(epsilon, "epsilon")
        places = np.flatnonzero(np.isclose(self.epsilons, wanted, rtol=1e-6, atol=0))
        if not places.size:
            listed = ", ".join(f"{value:g}" for value in self.epsilons)
            raise ValueError(f"epsilon: expected one of {listed}, got {epsilon:g}")
        return loops[places[0]]

    def budget_at(
        self,
        cost: float | None = None,
        *,
        rms: Mapping[str, float] | None = None,
        design: str | None = None,
    ) -> PrivacyBudget:
        """Find the strictest budget at which a loop costs, or errs, no more than this.

        The noise of every loop of the trade-off is scaled up until that is used up.
        Costs and mean square errors grow with the square of the noise, so the budget is
        exact for that loop. A loop that uses no measurement costs the same with any
        noise, and counts at its own epsilon. Loops that know their noise get the best
        filter for the larger noise: they cost no more, and their errors are counted
        with that filter.

        Parameters
        ----------
        cost : float, optional
            The total cost that is allowed, in the units of the weights.
        rms : mapping of str to float, optional
            The root-mean-square errors that are allowed at every sample, by state, in
            the states' units.
        design : str, optional
            One of the designs; the best of all by default.

        Returns
        -------
        PrivacyBudget
            With the trade-off's delta (delta = 0 for ``"laplace"``). ``loop(design,
            budget, rms=rms)`` makes the loop. `TypeError` if neither a cost nor errors
            are given, `ValueError` if a design or state is unknown, or no loop stays
            within what is allowed, for any noise.
        """
        has_errors = rms is not None and not (isinstance(rms, Mapping) and not rms)
        if cost is None and not has_errors:
            raise TypeError(
                "budget_at: expected a cost, or errors such as rms={'position': 0.5}"
            )
        allowed = math.inf if cost is None else positive_number(cost, "cost")
        limits = self._limits(allowed, rms)
        designs = tuple(self.costs)
        if design is not None:
            designs = (one_of(design, "design", designs),)
        losses = []
        for name in designs:
            for epsilon, loop in zip(self.epsilons, self.loops[name], strict=True):
                size = self._largest(loop.data, limits)
                if size > 0:
                    losses.append(
                        (self._scaled(name, float(epsilon), size, loop), name)
                    )
        if losses:
            loss, name = min(losses)
            delta = 0.0 if name == "laplace" else self.delta
            return PrivacyBudget(epsilon=loss, delta=delta)
        names = ", ".join(designs)
        if not rms:
            cheapest = min(self.total(name).min() for name in designs)
            raise ValueError(
                f"cost: no loop of {names} costs as little as {allowed:g}, with any "
                f"noise; the cheapest one here costs {cheapest:.6g}"
            )
        least = []
        for state in rms:
            smallest = min(self.rms(name, state).min() for name in designs)
            least.append(f"{state} {smallest:.6g}")
        raise ValueError(
            f"rms: no loop of {names} stays within these errors (and the cost), with "
            f"any noise; the least here are {', '.join(least)}"
        )

    def _limits(
        self, cost: float, rms: Mapping[str, float] | None
    ) -> tuple[float, NDArray]:
        """The largest cost, and largest mean square errors (n, 1) of the states."""
        if not isinstance(rms, Mapping | None):
            raise TypeError(
                "rms: expected a mapping of states to errors, such as "
                f"{{'position': 0.5}}, got {type(rms).__name__}"
            )
        states = self._plant.states
        squares = np.full((len(states), 1), np.inf)
        for state, error in (rms or {}).items():
            limit = positive_number(error, f"rms[{state!r}]")
            squares[states.index(one_of(state, "rms", states))] = limit**2
        return cost, squares

    def _largest(self, loop: LoopData, limits: tuple[float, NDArray]) -> float:
        """Return the factor that a loop's noise may grow by, 0 where none was found.

        A filter that knows the noise is another one for larger noise. It is better for
        the cost, and may be worse for a single state.
        """
        size = self._room(loop, limits)
        has_errors = np.isfinite(limits[1]).any()
        if size in (0, math.inf) or not has_errors or not loop.knows_noise:
            return size

        def keeps(factor: float) -> bool:
            return self._room(louder(loop, factor), limits) >= 1 - ROUNDED

        if keeps(size):
            return size
        low = min(size, 1.0)
        while not keeps(low):
            low /= 2
            if low < ROUNDED * size:
                return 0.0
        high = size
        while high > low * (1 + ROUNDED):
            between = math.sqrt(low * high)
            if keeps(between):
                low = between
            else:
                high = between
        return low

    def _room(self, loop: LoopData, limits: tuple[float, NDArray]) -> float:
        """Return the factor that the noise may grow by with the filter as it is.

        It is 0 where no size is allowed.
        """
        allowed, squares = limits
        cost = self.expected.cost(loop)
        quiet, noisy = self.expected.errors(loop)
        left = np.append(squares - quiet, allowed - cost.regulation - cost.disturbance)
        added = np.append(noisy, cost.privacy)
        if left.min() < 0:
            return 0.0
        used = added > 0
        return math.sqrt(np.min(left[used] / added[used], initial=math.inf))

    def _scaled(
        self, design: str, epsilon: float, size: float, loop: PrivateLoop
    ) -> float:
        """The epsilon of noise for an epsilon that is made ``size`` times as large."""
        if size == math.inf:
            return epsilon
        if design == "laplace":
            return epsilon / size
        if design in _OTHER_LAWS:
            loss = scaled(loop.guarantee.loss, 1 / decimal(size))
            return loss.epsilon(self.delta)
        shift = float(kappa_inverse(epsilon, self.delta)) / size
        return PrivacyLoss.gaussian(shift).epsilon(self.delta)

    def plot(
        self, ax: Axes | None = None, *, time_unit: str | None = None
    ) -> ct.ControlPlot:
        """Plot the total cost against epsilon, both axes logarithmic.

        It is drawn on ``ax`` or a new figure. The costs of no privacy and of no
        measurement are level lines. With ``time_unit="h"`` the length of the run is
        labelled in the unit that dt is counted in.

        Parameters
        ----------
        ax : Axes, optional
            A new one by default.
        time_unit : str, optional
            Unit in which dt is counted, such as ``"h"``. A label only.

        Returns
        -------
        control.ControlPlot

        Examples
        --------
        >>> import privcontrol as pc
        >>> result = pc.tradeoff(pc.plants.vehicle(), 20, 1, 1, 1e-2, horizon=20,
        ...                  delta=1e-2, epsilons=[0.1, 1.0], designs=("loop",),
        ...                  adjacency=pc.StateAdjacency({"position": 1.0}))
        >>> result.plot().axes.size
        1
        """
        ax = own_axes(ax)
        lines: list = []
        dearest = 0.0
        for design in self.costs:
            totals = self.total(design)
            dearest = max(dearest, totals.max())
            color, style = _LINES[design]
            line = {"color": color, "ls": style, "lw": 2, "label": DESIGNS[design]}
            lines += ax.loglog(self.epsilons, totals, ".", **line)
        levels = {"no privacy": (self.public.total, "-")}
        if self.open_loop.total < _FAR * dearest:
            open_loop = (self.open_loop.total, ":")
            levels["no measurements (open loop)"] = open_loop
        for label, (level, style) in levels.items():
            lines.append(
                ax.axhline(level, color="black", lw=0.8, ls=style, label=label)
            )
        price = f"Expected cost {self.horizon.costs}\n[units of x'Qx + u'Ru]"
        ax.set(
            xlabel=(
                f"\N{GREEK SMALL LETTER EPSILON} [nats]  (\N{GREEK SMALL LETTER DELTA} "
                f"= {self.delta:g}, {self._span(time_unit)})"
            ),
            ylabel=price,
        )
        return finished_plot(ax, lines)

    def to_pandas(self) -> pd.DataFrame:
        """One row per design and epsilon with the total cost and its parts.

        It needs pandas.

        Returns
        -------
        pandas.DataFrame

        Examples
        --------
        >>> import privcontrol as pc
        >>> result = pc.tradeoff(pc.plants.vehicle(), 20, 1, 1, 1e-2, horizon=20,
        ...                  delta=1e-2, epsilons=[0.1, 1.0], designs=("loop",),
        ...                  adjacency=pc.StateAdjacency({"position": 1.0}))
        >>> result.to_pandas().shape
        (2, 7)
        """
        package = pandas()
        rows = []
        for design, costs in self.costs.items():
            for epsilon, cost in zip(self.epsilons, costs, strict=True):
                row = {"design": design, "epsilon": epsilon, "total": cost.total}
                rows.append(row | vars(cost))
        return package.DataFrame(rows)

    def __repr__(self) -> str:
        return (
            f"Tradeoff({', '.join(self.costs)}; epsilon {self.epsilons.min():g} .. "
            f"{self.epsilons.max():g}, delta {self.delta:g}, {self._span()})"
        )

    def _span(self, time_unit: str | None = None) -> str:
        """The horizon in words, and its length in a unit."""
        if time_unit is None:
            return self.horizon.samples
        clock = time_axis("", time_unit).removeprefix("Time ").strip("[]")
        return self.horizon.lasts(self._plant.step, clock)


@partial(
    helpful_arguments,
    advice="it takes the plant and the weights of private_lqg, and no loop",
)
def tradeoff(
    sys: ct.StateSpace,
    Q: ArrayLike,
    R: ArrayLike,
    QN: ArrayLike,
    RN: ArrayLike,
    *,
    horizon: float,
    adjacency: Adjacency | Sequence[Adjacency],
    epsilons: ArrayLike,
    delta: float,
    designs: Sequence[str] = ("trace", "loop", "iid"),
    controls: Sequence[str | int] | None = None,
    G: ArrayLike | None = None,
    N: ArrayLike | None = None,
    form: str | None = None,
    P0: ArrayLike | None = None,
    estimator: str | None = None,
    reference: ArrayLike | None = None,
    initial_state: ArrayLike | None = None,
    executor: Executor | None = None,
    progress: bool = False,
) -> Tradeoff:
    """Compute the exact cost of a private LQG loop against epsilon, by design of noise.

    The cost counts reference, initial state, disturbances of QN and RN, and privacy
    noise. Every design is computed for the Kalman gain of ``ct.dlqe``, for the gain
    re-tuned to the independent noise of the same budget, for the gains of stricter
    budgets, and without measurements (L = 0) unless the plant is strictly unstable; the
    best one is kept. So, without a reference, no design costs more than the open loop
    unless the plant is strictly unstable, and no cost rises with epsilon.

    Parameters
    ----------
    sys, Q, R, QN, RN, controls, G, N, form
        The loop, as in `private_lqg`.
    horizon : int or inf
        Number of samples T, the same for all designs. With ``np.inf`` the costs are
        those of a sample in steady state: of the designs there are "trace", "loop",
        "iid" and "codesign", each with the observer that knows its noise, and
        reference, initial state and ``P0`` do not count.
    adjacency : Adjacency or list of them
        What must be hidden, as in `design_output_noise`.
    epsilons : array_like, shape (E,)
        Privacy losses in nats.
    delta : float
        In (0, 1).
    designs : sequence of str, optional
        ``"trace"``: structured noise of least variance; ``"loop"``: structured noise
        that costs this loop least with the filter of the public loop; ``"iid"``:
        independent noise; ``"codesign"``: noise and filter chosen together, which over a
        horizon needs ``P0``, see `private_lqg`; ``"laplace"``: structured Laplace noise for this loop, which
        promises epsilon at delta = 0, not for a disturbance; ``"ball"``, ``"truncated"``:
        structured radial noise of this law, of least variance, with the same epsilon and
        delta; ``"auto"``: structured noise of the law of least variance, Gaussian noise
        among them.
    P0 : array_like, shape (n, n), optional
        Covariance of the initial state; the steady-state covariance of the Kalman
        filter by default. If it is given, it is public, and every design has the filter
        that knows it and the gains of least cost over the horizon, see `private_lqg`
        with ``terminal=0``.
    estimator : {"kalman", "observer"}, optional
        "observer" keeps the gains of the papers with ``P0``.
    reference, initial_state : array_like, optional
        Public reference and mean of the initial state, as in `PrivateLoop.simulate`;
        zero by default.
    executor : concurrent.futures.Executor, optional
        Where designs are computed; the numbers do not depend on it.
    progress : bool, optional
        Show a tqdm bar with the time that is left.

    Returns
    -------
    Tradeoff

    Raises
    ------
    ValueError, TypeError
        If a design is unknown, an epsilon or delta is out of range, or "codesign" over a
        horizon has no P0. Errors of the loop are those of `private_lqg`, of the noise
        those of `design_output_noise`.

    See Also
    --------
    horizon_growth, options, studies.Tradeoff

    Examples
    --------
    >>> import privcontrol as pc
    >>> result = pc.tradeoff(pc.plants.vehicle(), 20, 1, 1, 1e-2, horizon=20,
    ...                      delta=1e-2, epsilons=[0.1, 1.0],
    ...                      adjacency=pc.StateAdjacency({"position": 1.0}))
    >>> result
    Tradeoff(trace, loop, iid; epsilon 0.1 .. 1, delta 0.01, 20 samples)
    >>> bool((result.total("loop") <= result.total("iid")).all())
    True
    """
    if isinstance(sys, list | tuple):
        raise ct.ControlArgument(
            "sys: the loops that are compared begin with the constant gains of one plant, "
            "got a list of plants; for noise of each epsilon call private_lqg(sys, ..., "
            "P0=..., noise=noise).cost(disturbance='design', measurement_noise='design', "
            "initial_state='design')"
        )
    if isinstance(designs, str):
        designs = (designs,)
    if not isinstance(designs, Sequence) or not designs:
        raise TypeError(
            f"designs: expected names among {', '.join(DESIGNS)}, got "
            f"{type(designs).__name__}"
        )
    samples = horizon_of(horizon)
    known = tuple(DESIGNS) if samples.ends else ENDLESS_DESIGNS
    names = [one_of(design, "designs", known) for design in designs]
    secret = joined(adjacency)
    losses = np.atleast_1d(real_array(epsilons, "epsilons"))
    if losses.ndim != 1 or not losses.size:
        raise ValueError(
            "epsilons: expected one or more numbers, such as [0.1, 1.0], got shape "
            f"{losses.shape}"
        )
    delta = positive_number(delta, "delta")
    budgets = [PrivacyBudget(epsilon=float(loss), delta=delta) for loss in losses]
    if executor is not None:
        executor = checked_executor(executor)
    knows_prior = P0 is not None and samples.ends and estimator != "observer"
    if "codesign" in names and samples.ends and not knows_prior:
        raise ValueError(
            "designs: over a horizon the co-designed noise depends on what is known of "
            "x(0); pass its public covariance P0"
        )
    public = private_lqg(
        sys,
        Q,
        R,
        QN,
        RN,
        controls=controls,
        G=G,
        N=N,
        form=form,
        estimator=estimator,
        P0=P0 if knows_prior else None,
        initial_state=initial_state if knows_prior else None,
    ).data
    plant = public.side.plant
    if knows_prior:
        # the costs count no state after the run
        pure = replace(
            public.known_design, terminal=np.zeros((plant.order, plant.order))
        )
        public = replace(public, design=pure)
    if P0 is None:
        P0 = constant_filter(public.side, public.weights, None).covariance
    expected: Expected = InSteadyState()
    if samples.ends:
        prior = semidefinite(P0, "P0", plant.order)
        times = plant.step * np.arange(samples)
        expected = OverRun(prior, times, reference, initial_state)
        kinds = ("contracting", "chain", "unstable")
        warn_of_costly_modes(plant, secret, int(samples), kinds)
    with np.errstate(over="ignore", invalid="ignore"):  # an unstable plant
        open_cost = expected.cost(unmeasured(public))
    requests = [Request(samples, budget, secret) for budget in budgets]
    tasks = [(public, expected, *one) for one in product(names, requests)]
    spread = map if executor is None else executor.map
    results: list[Result] = []
    faster = "pass fewer epsilons or designs, or progress=True"
    with progress_bar(len(tasks), progress, "design", faster) as bar:
        for result in spread(evaluated, tasks):
            results.append(result)
            bar.update(1)
    costs = {}
    loops = {}
    for k, name in enumerate(names):
        found = results[k * len(budgets) : (k + 1) * len(budgets)]
        let_fall(found, losses, expected, name)
        costs[name], cheapest = zip(*found, strict=True)
        loops[name] = tuple(map(PrivateLoop, cheapest))
    public_cost = expected.cost(public)
    return Tradeoff(
        losses, delta, samples, costs, public_cost, open_cost, loops, expected
    )
