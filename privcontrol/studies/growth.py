"""How the noise that a horizon demands grows with its length."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import ROUND_FLOOR

import control as ct
import numpy as np
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from numpy.typing import NDArray

from .._figures import finished_plot, own_axes
from ..core.adjacency import Adjacency
from ..loop.side import known_keywords
from ..numerics.checks import real_array
from ..numerics.errors import UncertifiableError
from ..numerics.labels import time_axis, with_units
from ..privacy.guarantee import counted, shown
from ..secrets.modes import Mode, modes
from ..secrets.secrets import Secrets
from ..secrets.trajectory import output_query
from ..systems.linear import Plant
from ..systems.varying import Plants, VaryingPlant, plant_of

#: Line style of each kind of mode.
_MODES = {"contracting": "--", "chain": "-.", "unstable": ":", "bounded": "-"}


@dataclass(frozen=True)
class HorizonGrowth:
    """Sizes of the noise that an adjacency needs over horizons, for a shift of one.

    They are in the outputs' units. Noise for a budget has 1/y times these sizes,
    y = ``kappa_inverse(epsilon, delta)``.

    Attributes
    ----------
    horizons : ndarray, shape (H,)
    least_noise : ndarray, shape (H,)
        Root mean square over samples and outputs below which no Gaussian noise hides
        the adjacency; infinite where it exceeds double precision.
    modes : tuple of Mode
        The modes that protected moves excite and outputs see, the largest first, each
        with its ``sizes`` (H,) and ``kind``. For an unstable mode they are also the
        true error that the noise causes at the end of the horizon, for any controller.
    step : float
        The plant's dt, and 1 where that is not known.
    outputs : tuple of str
        Names of the plant's outputs.

    See Also
    --------
    horizon_growth

    Examples
    --------
    >>> import privcontrol as pc
    >>> adjacency = pc.StateAdjacency({"position": 1.0})
    >>> pc.horizon_growth(pc.plants.vehicle(), adjacency, [1, 10]).least_noise
    array([1., 1.])
    """

    horizons: NDArray[np.intp]
    least_noise: NDArray[np.float64]
    modes: tuple[Mode, ...]
    step: float
    outputs: tuple[str, ...]

    @property
    def explanations(self) -> tuple[str, ...]:
        """One sentence for each growing mode: what grows, why, what would help."""
        last = int(self.horizons[-1])
        sentences = []
        for mode in self.modes:
            if mode.kind != "bounded" and mode.growth > 2:
                sentences.append(mode.explanation(last))
        return tuple(sentences)

    def plot(
        self,
        ax: Axes | None = None,
        *,
        time_unit: str | None = None,
        units: Mapping[str, str] | None = None,
    ) -> ct.ControlPlot:
        """Plot the sizes over the horizon on logarithmic axes, or on ``ax``.

        With ``time_unit="h"`` horizons are lengths of runs in the unit that dt is
        counted in. ``units={"y": "K"}`` labels the sizes, if all outputs have one unit.

        Parameters
        ----------
        ax : Axes, optional
            A new one by default.
        time_unit, units : optional
            Labels, as in `PrivateResponse.plot`.

        Returns
        -------
        control.ControlPlot

        Examples
        --------
        >>> import privcontrol as pc
        >>> adjacency = pc.StateAdjacency({"position": 1.0})
        >>> growth = pc.horizon_growth(pc.plants.vehicle(), adjacency, [1, 10])
        >>> growth.plot().axes.size
        1
        """
        ax = own_axes(ax)
        lengths = self.horizons.astype(float)
        clock = "samples"
        if time_unit is not None:
            lengths = self.step * lengths
            time_axis("", time_unit)  # refuses what is no text
            clock = time_unit
        with_units(self.outputs, units)  # refuses names that are unknown
        unit = "units of the outputs"
        given = {(units or {}).get(name, unit) for name in self.outputs}
        if len(given) == 1:
            (unit,) = given
        curves = [(self.least_noise, "k", "least noise (root mean square)")]
        for mode in self.modes:
            curves.append(
                (mode.sizes, _MODES[mode.kind], f"{mode.kind} mode {mode.name}")
            )
        lines: list[Line2D] = []
        for curve, style, label in curves:
            shown = np.isfinite(curve) & (curve > 0)
            lines += ax.loglog(lengths[shown], curve[shown], style, label=label)
        lines[0].set_linewidth(2)
        ax.set(
            xlabel=f"Horizon T [{clock}]",
            ylabel=f"Output noise for\nprivacy shift y = 1 [{unit}]",
        )
        return finished_plot(ax, lines)

    def __repr__(self) -> str:
        first = self.horizons[0]
        last = self.horizons[-1]
        named = []
        for mode in self.modes:
            size = mode.sizes[-1]
            named.append(f"{mode.kind} {mode.name}: {size:.3g}")
        return f"HorizonGrowth(T = {first} .. {last}: {'; '.join(named)})"

    def __str__(self) -> str:
        lines = [
            "No Gaussian noise hides the secret with a shift of one that is below (root "
            "mean square, in the outputs' units)"
        ]
        for count, size in zip(self.horizons, self.least_noise, strict=True):
            least = shown(float(size), ROUND_FLOOR)
            lines.append(f"  {least} over {counted(count, 'sample')}")
        lines += [f"Mode {mode.name}, {mode.kind}." for mode in self.modes]
        lines += [f"Note: {sentence}." for sentence in self.explanations]
        return "\n".join(lines)


@known_keywords
def horizon_growth(
    sys: Plants, adjacency: Adjacency, horizons: int | Sequence[int]
) -> HorizonGrowth:
    """Show how noise that hides an adjacency grows with the horizon, by which modes.

    Noise of bounded size hides a move at every time j of any horizon if and only if
    A^-j v stays bounded, as far as outputs see it: not if v excites a contracting mode,
    nor along a growing chain of integrators. An unstable mode that the noise excites
    makes the true error grow like A^t xi, since the observer cannot distinguish the
    noise from the state.

    Parameters
    ----------
    sys : control.StateSpace or list of control.StateSpace
        Discrete-time plant, or one for each sample of the longest horizon. A list has
        least noise, and no modes.
    adjacency : StateAdjacency or InitialStateAdjacency
        On the plant's trajectories.
    horizons : int or sequence of int
        Increasing numbers of samples T.

    Returns
    -------
    HorizonGrowth
        Least noise and modes over the horizons, to print and to plot.

    Raises
    ------
    control.ControlArgument, TypeError, ValueError
        If ``sys`` is not a discrete-time StateSpace, the adjacency is not about the
        plant's state, or the horizons do not increase.

    See Also
    --------
    options, tradeoff, studies.HorizonGrowth

    Examples
    --------
    >>> import control as ct, privcontrol as pc
    >>> lag = ct.ss(0.5, 1, 1, 0, 1, states=["level"])
    >>> pc.horizon_growth(lag, pc.StateAdjacency(1.0), [1, 11, 21])
    HorizonGrowth(T = 1 .. 21: contracting 0.5 (level): 1.05e+06)
    """
    if not isinstance(sys, list | tuple):
        Plant.of(sys)
    if not isinstance(adjacency, Adjacency):
        raise TypeError(
            "adjacency: expected an Adjacency such as StateAdjacency, got "
            f"{type(adjacency).__name__}"
        )
    if Secrets(adjacency).disturbances:
        raise TypeError(
            "adjacency: expected a StateAdjacency or an InitialStateAdjacency, got one "
            "about a disturbance, of which modes of the state say little; options(sys, "
            "horizon=..., budget=..., adjacency=...) compares its noise over a horizon, "
            "over twice as many samples, and without one"
        )
    counts = np.atleast_1d(real_array(horizons, "horizons"))
    whole = (counts == counts.round()).all() and counts.min(initial=1) >= 1
    if counts.ndim != 1 or not counts.size or (np.diff(counts) <= 0).any() or not whole:
        raise ValueError(
            "horizons: expected increasing numbers of samples, such as [10, 100, 1000]"
        )
    samples = counts.astype(int)
    plant = plant_of(sys, int(samples[-1]))
    least = [_least_noise(plant, adjacency, count) for count in samples.tolist()]
    known = [] if plant.varies else modes(plant, adjacency, samples)
    largest_first = sorted(known, key=lambda mode: -mode.sizes[-1])
    return HorizonGrowth(
        samples, np.array(least), tuple(largest_first), plant.step, plant.outputs
    )


def _least_noise(plant: Plant, adjacency: Adjacency, horizon: int) -> float:
    """sup ||O_T z|| / sqrt(T p), below which no noise has a shift of one."""
    if isinstance(plant, VaryingPlant):
        plant = plant.over(horizon)
    query = output_query(plant, horizon)
    try:
        largest = query.sensitivity(adjacency)
    except UncertifiableError:
        return np.inf
    return largest / np.sqrt(horizon * plant.output_count)
