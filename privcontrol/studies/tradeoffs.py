"""A trade-off: a loop's cost and errors against epsilon, and which to take."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import control as ct
import numpy as np
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from numpy.typing import NDArray

from .._figures import COLORS, finished_plot, own_axes
from ..loop.loop import PrivateLoop
from ..loop.moments import Expected, LoopCost
from ..numerics.checks import one_of, positive_number
from ..numerics.labels import time_axis
from ..privacy.budget import PrivacyBudget
from ..privacy.horizon import Horizon
from ..privacy.loss import decimal, scaled
from ..response import pandas
from ..systems.linear import Plant
from .allowed import Allowed
from .candidates import OTHER_LAWS, is_shaped, of_shape, of_size, with_budget

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
#: A loop without measurements that costs more than this many times the dearest private
#: one is off the plot.
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
        The law over which costs are expected.

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

    epsilons: NDArray[np.float64]
    delta: float
    horizon: Horizon
    costs: dict[str, tuple[LoopCost, ...]]
    public: LoopCost
    open_loop: LoopCost
    loops: dict[str, tuple[PrivateLoop, ...]]
    expected: Expected = field(repr=False)

    def total(self, design: str) -> NDArray[np.float64]:
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

    def rms(self, design: str, state: str) -> NDArray[np.float64]:
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

    def detections(self, design: str, false_alarm: float) -> NDArray[np.float64]:
        """Largest detection rates (E,) of tests with a rate of false alarms.

        They are for one ``design``, at a rate ``false_alarm``.

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
            allowed = Allowed.of(self.expected, None, rms, self._plant.states)
            tried = []
            if design in OTHER_LAWS:
                tried += [of_size(known, epsilon) for known in parts]
            else:
                shaped = [known for known in parts if is_shaped(known)]
                tried += [of_shape(known, epsilon) for known in shaped]
            if epsilon.epsilon or design not in OTHER_LAWS:
                tried += [with_budget(known, design, epsilon) for known in parts]
            ranked = []
            for loop in tried:
                exceeds = not allowed.keeps(loop)
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
            are given, `ValueError` if a design or state is unknown, or no loop at the
            trade-off's epsilons stays within the limits.
        """
        has_errors = rms is not None and not (isinstance(rms, Mapping) and not rms)
        if cost is None and not has_errors:
            raise TypeError(
                "budget_at: expected a cost, or errors such as rms={'position': 0.5}"
            )
        allowed = Allowed.of(self.expected, cost, rms, self._plant.states)
        designs = tuple(self.costs)
        if design is not None:
            designs = (one_of(design, "design", designs),)
        losses = []
        for name in designs:
            delta = 0.0 if name == "laplace" else self.delta
            for epsilon, loop in zip(self.epsilons, self.loops[name], strict=True):
                size = allowed.largest(loop.data)
                if size == math.inf:
                    losses.append((float(epsilon), delta))
                elif size > 0:
                    loss = scaled(loop.guarantee.loss, 1 / decimal(size))
                    losses.append((loss.epsilon(delta), delta))
        if losses:
            least, delta = min(losses)
            return PrivacyBudget(epsilon=least, delta=delta)
        raise ValueError(self._out_of_reach(allowed, designs, rms or {}))

    def _out_of_reach(
        self, allowed: Allowed, designs: Sequence[str], rms: Mapping[str, float]
    ) -> str:
        """Say how near the loops of some designs come to what is allowed."""
        names = ", ".join(designs)
        widest = (
            f"larger epsilons than {np.max(self.epsilons):g} may: pass some to tradeoff"
        )
        if not rms:
            cheapest = min(self.total(name).min() for name in designs)
            way = f"the loop without privacy costs {self.public.total:.6g}"
            if allowed.cost > self.public.total:
                way += f", so {widest}"
            return (
                f"cost: no loop of {names} costs as little as {allowed.cost:g} at these "
                f"epsilons; the cheapest one costs {cheapest:.6g}, and {way}"
            )
        errors = []
        for state in rms:
            lowest = min(self.rms(name, state).min() for name in designs)
            errors.append(f"{state} {lowest:.6g}")
        return (
            f"rms: no loop of {names} stays within these errors (and the cost) at these "
            f"epsilons; the least are {', '.join(errors)}; {widest}"
        )

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
        lines: list[Line2D] = []
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
        price = f"Expected cost\n{self.horizon.costs}\n[units of x'Qx + u'Ru]"
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
