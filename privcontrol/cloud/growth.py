"""How the noise that privacy needs, and the error that it causes, grow with the horizon, mode by mode."""

from dataclasses import dataclass

import control as ct
import matplotlib.pyplot as plt
import numpy as np

from .._bands import readable_log_ticks
from .._signals import pandas
from ..channel._images import disturbances
from ..core._linalg import positive_integer
from ..core.adjacency import Adjacency
from ..core.errors import UncertifiableError
from ..trajectory.manifold import output_query
from ..trajectory.modes import modes
from ..trajectory.plant import Plant

_STYLES = {"contracting": "--", "chain": "-.", "unstable": ":", "bounded": "-"}


@dataclass(frozen=True)
class HorizonGrowth:
    """Sizes of the noise that an adjacency needs over horizons, in the outputs' units, for a privacy shift of one.

    Noise for a budget has 1/y times these sizes, y = ``kappa_inverse(epsilon, delta)``.

    Attributes
    ----------
    horizons : ndarray, shape (H,)
    least_noise : ndarray, shape (H,)
        Root mean square over samples and outputs below which no Gaussian noise hides the adjacency; infinite where it
        exceeds double precision.
    modes : tuple of Mode
        The modes that protected moves excite and outputs see, the largest first, each with its ``sizes`` (H,) and
        ``kind``. For an unstable mode they are also the true error that the noise causes at the end of the horizon,
        whatever the controller.

    Examples
    --------
    >>> import control as ct, privcontrol as pc
    >>> lag = ct.ss(0.5, 1, 1, 0, 1, states=["level"])
    >>> growth = pc.horizon_growth(lag, pc.StateAdjacency(1.0), [1, 11, 21])
    >>> growth.least_noise.round(1).tolist()
    [1.0, 356.5, 264216.3]
    """

    horizons: np.ndarray
    least_noise: np.ndarray
    modes: tuple

    @property
    def explanations(self):
        """What grows, why, and what to do about it: one sentence for each mode that is not bounded and grows."""
        last = int(self.horizons[-1])
        return tuple(
            mode.explanation(last)
            for mode in self.modes
            if mode.kind != "bounded" and mode.growth > 2
        )

    def plot(self, ax=None):
        """Plot the sizes over the horizon, both axes logarithmic.

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
        shown = np.isfinite(self.least_noise) & (self.least_noise > 0)
        lines = ax.loglog(
            self.horizons[shown],
            self.least_noise[shown],
            "k",
            lw=2,
            label="least noise (root mean square)",
        )
        for mode in self.modes:
            shown = np.isfinite(mode.sizes) & (mode.sizes > 0)
            label = f"{mode.kind} mode {mode.name}"
            lines += ax.loglog(
                self.horizons[shown], mode.sizes[shown], _STYLES[mode.kind], label=label
            )
        ax.set(
            xlabel="horizon T [samples]",
            ylabel="output noise for privacy shift y = 1\n[units of the outputs]",
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
        """One row per horizon: ``least_noise`` and each mode by name.

        Raises
        ------
        ImportError
            If pandas is not installed.
        """
        pd = pandas()
        columns = {"least_noise": self.least_noise} | {
            mode.name: mode.sizes for mode in self.modes
        }
        return pd.DataFrame(columns, index=pd.Index(self.horizons, name="horizon"))

    def __repr__(self):
        named = "; ".join(
            f"{mode.kind} {mode.name}: {mode.sizes[-1]:.3g}" for mode in self.modes
        )
        return f"HorizonGrowth(T = {self.horizons[0]} .. {self.horizons[-1]}: {named})"


def horizon_growth(sys, adjacency, horizons):
    """How noise that hides an adjacency grows with the horizon, and which modes make it grow.

    Noise of bounded size hides a move at every time j of any horizon if and only if A^-j v stays bounded, modulo what
    outputs cannot see: not if v excites a contracting mode, nor along a growing chain of integrators. An unstable mode
    that the noise excites makes the true error grow like A^t xi: the observer cannot tell the noise from the state.

    Parameters
    ----------
    sys : control.StateSpace
        Discrete-time plant.
    adjacency : StateAdjacency or InitialStateAdjacency
        On the plant's trajectories.
    horizons : int or sequence of int
        Increasing numbers of samples T.

    Returns
    -------
    HorizonGrowth

    Raises
    ------
    control.ControlArgument
        If ``sys`` is not a discrete-time StateSpace.
    TypeError
        If the adjacency is not about the plant's state.
    ValueError
        If the horizons do not increase, or the adjacency does not fit them.

    Examples
    --------
    >>> import control as ct, privcontrol as pc
    >>> lag = ct.ss(0.5, 1, 1, 0, 1, states=["level"])
    >>> pc.horizon_growth(lag, pc.StateAdjacency(1.0), [1, 11, 21])
    HorizonGrowth(T = 1 .. 21: contracting 0.5 (level): 1.05e+06)
    """
    plant = Plant.of(sys)
    if not isinstance(adjacency, Adjacency):
        raise TypeError(
            f"adjacency: expected an Adjacency such as StateAdjacency, got {type(adjacency).__name__}"
        )
    if disturbances(adjacency):
        raise TypeError(
            "adjacency: expected a StateAdjacency or an InitialStateAdjacency, got one about a disturbance, of which modes of "
            "the state say little; for it there is noise without a horizon, design_output_noise(..., horizon=np.inf)"
        )
    horizons = np.array(
        [positive_integer(T, "horizons") for T in np.atleast_1d(horizons).tolist()]
    )
    if not horizons.size or (np.diff(horizons) <= 0).any():
        raise ValueError(
            "horizons: expected increasing numbers of samples, such as [10, 100, 1000]"
        )
    found = sorted(modes(plant, adjacency, horizons), key=lambda mode: -mode.sizes[-1])
    return HorizonGrowth(
        horizons,
        np.array([_least_noise(plant, adjacency, int(T)) for T in horizons]),
        tuple(found),
    )


def _least_noise(plant, adjacency, horizon):
    """sup ||O_T z|| / sqrt(T p): tr Gamma is at least the square of the supremum, for a shift of one."""
    try:
        return output_query(plant, horizon).sensitivity(adjacency) / np.sqrt(
            horizon * len(plant.C)
        )
    except UncertifiableError:
        return np.inf
