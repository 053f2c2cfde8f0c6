"""Run and hold Monte-Carlo trials of a private loop or of private consensus.

Trials run in blocks, serially or on any ``concurrent.futures.Executor``. The numbers
depend on the seed alone. Every block has its own generator and is computed at full size,
for any executor, its workers and the number of trials asked for.

The axes of their arrays have names, as in ``states["position", "trial[3]"]``. A name is
looked up once, in the array that a response gives. What is taken out of it, or computed
from it, is a plain array.

A `PrivateResponse` holds what is published (outputs) and what is not (states), for all
trials. It makes no claim of its own. Its `guarantee` is that of the loop that made it, and
speaks about the outputs of one trial.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Executor, Future, wait
from contextlib import closing
from functools import cached_property
from itertools import islice, zip_longest
from types import ModuleType
from typing import TYPE_CHECKING, Any, Self

import control as ct
import numpy as np
from numpy.typing import ArrayLike, NDArray

from ._figures import (
    ESTIMATE,
    PUBLISHED,
    TALLEST,
    TRUE,
    AxesLike,
    Panel,
    Style,
    draw_panels,
    quantile_pair,
)
from .numerics.checks import (
    Seed,
    check_memory,
    generator,
    positive_integer,
    quoted,
    real_array,
)
from .numerics.labels import time_axis, with_units
from .numerics.progress import progress_bar
from .privacy.guarantee import SIMULATED, PrivacyGuarantee, released

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["PrivateResponse"]

Signals = str | Sequence[str] | None
Place = tuple[str, int]  # a group of signals, and the position of one in it
#: The position of each name along an axis.
Names = Mapping[str, int]


class TrialSignals(np.ndarray):
    """A view of an array whose axes have names in place of positions.

    The names of each axis come after the array, None for an axis without.

    Examples
    --------
    >>> trials = {f"trial[{k}]": k for k in range(20)}
    >>> signals = {"position": 0, "velocity": 1}
    >>> array = TrialSignals(np.zeros((2, 20, 9)), signals, trials)
    >>> array["position"].shape, array["velocity", "trial[7]", 2:].shape
    ((20, 9), (7,))
    """

    axis_names: tuple[Names | None, ...]

    def __new__(cls, array: ArrayLike, *names: Names | None) -> Self:
        named = np.asarray(array).view(cls)
        named.axis_names = names
        return named

    def __array_finalize__(self, source: object) -> None:
        self.axis_names = ()  # reshaping moves the axes

    def __getitem__(self, key: object) -> Any:
        parts = key if isinstance(key, tuple) else (key,)
        names = self.axis_names[: len(parts)]
        kinds = (int, np.integer, str, slice, list)
        if not all(isinstance(part, kinds) for part in parts):
            names = ()  # an array or ... may index several axes
        places = [_place(*each) for each in zip_longest(parts, names)]
        return np.asarray(self)[tuple(places)]

    def __array_wrap__(
        self, array: NDArray[Any], context: object = None, return_scalar: bool = False
    ) -> Any:
        return array[()] if return_scalar else np.asarray(array)

    def __repr__(self) -> str:
        text = repr(np.asarray(self))
        for names in self.axis_names:
            if names is not None:
                text += f",\n{abbreviated(list(names))}"
        return f"TrialSignals(\n{text})"


def _place(key: object, names: Names | None) -> Any:
    """The key with every name replaced by its position."""
    if isinstance(key, list):
        return [_place(part, names) for part in key]
    if not isinstance(key, str):
        return key
    if names is None:
        raise ValueError(
            f"name {key!r}: this axis carries no names (reshaping, masks and ... lose "
            "them); index the response's states, outputs or inputs as "
            "[signal, trial, time]"
        )
    if key not in names:
        raise ValueError(
            f"unknown signal name {key!r}: expected one of {abbreviated(list(names))}"
        )
    return names[key]


def positions(labels: Sequence[str]) -> dict[str, int]:
    """The position of each of some distinct labels."""
    return {label: k for k, label in enumerate(labels)}


def abbreviated(labels: Sequence[str], shown: int = 8) -> str:
    """The first few labels, and how many there are."""
    text = ", ".join(map(str, labels[:shown]))
    if len(labels) > shown:
        text += f", ... {len(labels)} in all"
    return f"[{text}]"


class PrivateResponse(ct.TimeResponseData):
    """Trials of a private loop, as a ``ct.TimeResponseData`` with one trace per trial.

    Every array is (signal, trial, time), also for one signal or one trial, unless
    ``response(squeeze=True)`` asks for less. Arrays are read-only views of what was given.
    Signals and trials are indexed by name, ``response.states["position", "trial[3]"]``.

    Parameters
    ----------
    time : array_like, (T,)
        Sample times in seconds.
    outputs : ndarray, (p, trials, T)
        Exactly what is published.
    states : ndarray, (n_x, trials, T), optional
        The private truth, the plant's n states before what else the loop holds.
    inputs : ndarray or sequence of ndarray, optional
        Inputs of the simulated system, (m, trials, T), or blocks of them, which may have
        one trial for all, and are zero after their last sample.
    state_labels, output_labels, input_labels : sequence of str, optional
        Signal names, by default ``x[i]``, ``y[i]``, ``u[i]``.
    aliases : mapping of str to str, optional
        Other names of outputs, to their labels, which go before them.
    plant_states : int, optional
        Number n of leading states that are the plant's own, all of them by default.
    reference : array_like, (n,) or (n, T), optional
        The public reference of the plant's states.
    guarantee : PrivacyGuarantee, optional
        What the outputs of one trial guarantee. Publishing k trials of the same secret is k
        releases.
    sysname, time_label : str, optional
        Name of the system, and label of the time axis of plots.
    output_references : mapping of int to array, optional
        References (T,) that outputs follow, by the position of the output.

    Attributes
    ----------
    left_region : ndarray of bool, (trials,), or None
        Which trials of a nonlinear plant left the region in which the guarantee holds.

    Raises
    ------
    ValueError
        If shapes or numbers of labels do not fit, or a label occurs twice in a group.

    See Also
    --------
    PrivateLoop.simulate, consensus.ConsensusResponse

    Examples
    --------
    >>> import numpy as np
    >>> from privcontrol.response import PrivateResponse
    >>> x = np.random.default_rng(0).standard_normal((500, 2, 30)).transpose(1, 0, 2)
    >>> response = PrivateResponse(
    ...     np.arange(30), states=x, outputs=x[:1], state_labels=["position", "velocity"])
    >>> response.states["velocity", "trial[7]"].shape, response.mean().shape
    ((30,), (2, 30))
    """

    _plots_states = True
    #: Word in front of names that are numbers, in plots.
    _numbered = "signal"

    def __init__(
        self,
        time: ArrayLike,
        *,
        outputs: ArrayLike,
        states: ArrayLike | None = None,
        inputs: ArrayLike | tuple[ArrayLike, ...] | None = None,
        state_labels: Sequence[str] | None = None,
        output_labels: Sequence[str] | None = None,
        input_labels: Sequence[str] | None = None,
        aliases: Mapping[str, str] | None = None,
        plant_states: int | None = None,
        reference: ArrayLike | None = None,
        guarantee: PrivacyGuarantee | None = None,
        sysname: str | None = None,
        time_label: str = "Time [s]",
        output_references: Mapping[int, NDArray[np.float64]] | None = None,
    ) -> None:
        self.t = real_array(time, "time", ndim=1)
        self.y = trial_array(outputs, "outputs", (self.t.size,))
        self.noutputs, self.ntraces = self.y.shape[:2]
        self.x: NDArray[np.float64] | None = None
        self.nstates = 0
        if states is not None:
            self.x = trial_array(states, "states", self.y.shape[1:])
            self.nstates = len(self.x)
        self._blocks = input_blocks(inputs, self.ntraces, self.t.size)
        self._u: NDArray[np.float64] | None = None
        self.ninputs = sum(map(len, self._blocks))
        self.state_labels = distinct_labels(
            state_labels, "state_labels", "x", self.nstates
        )
        self.input_labels = distinct_labels(
            input_labels, "input_labels", "u", self.ninputs
        )
        self.output_labels = distinct_labels(
            output_labels, "output_labels", "y", self.noutputs
        )
        taken = [*self.output_labels, *self.state_labels, *self.input_labels]
        self.aliases = dict(aliases or {})
        for alias in set(self.aliases).intersection(taken):
            del self.aliases[alias]
        self.plant_states = self._plant_states(plant_states, reference)
        self.reference: NDArray[np.float64] | None = None
        if reference is not None:
            self.reference = reference_rows(reference, self.plant_states, self.t.size)
        self.output_references = dict(output_references or {})
        self.left_region: NDArray[np.float64] | None = None
        self.guarantee = guarantee
        if isinstance(guarantee, PrivacyGuarantee):
            self.guarantee = released(guarantee, SIMULATED)
        self.sysname = sysname
        self.title = None
        self.time_label = time_label
        # what python-control's own functions read
        self.issiso = False
        self.squeeze = False
        self.transpose = False
        self.return_x = False
        self.trace_types = [None] * self.ntraces
        self.plot_inputs = False
        self.params = None
        self.success = True
        self.message = None

    def _plant_states(self, count: int | None, reference: ArrayLike | None) -> int:
        """Count the plant's own states, by default all, or those of the reference."""
        if count is None:
            known = 1 if reference is None else len(np.atleast_1d(reference))
            return self.nstates or known
        known = self.nstates or count
        if positive_integer(count, "plant_states", zero=True) > known:
            raise ValueError(
                f"plant_states: expected at most the {self.nstates} states, got {count}"
            )
        return count

    @cached_property
    def trace_labels(self) -> list[str]:
        """Labels ``trial[0]``, ``trial[1]``, ..."""
        return [f"trial[{k}]" for k in range(self.ntraces)]

    @property
    def u(self) -> NDArray[np.float64]:
        """Inputs (m, trials, T), built from their blocks when first read and not pickled."""
        if self._u is None:
            whole = np.zeros((self.ninputs, self.ntraces, self.t.size))
            start = 0
            for block in self._blocks:
                stop = start + len(block)
                whole[start:stop, :, : block.shape[2]] = block
                start = stop
            whole.flags.writeable = False
            self._u = whole
        return self._u

    @property
    def outputs(self) -> TrialSignals:
        """Published outputs (output, trial, time), indexed by name."""
        return self._named(self.y, "outputs")

    @property
    def states(self) -> TrialSignals:
        """Private states of the plant, then of the loop, as (state, trial, time)."""
        return self._named(self._kept_states(), "states")

    @property
    def inputs(self) -> TrialSignals:
        """Inputs of the simulated system, (input, trial, time), indexed by name."""
        return self._named(self.u, "inputs")

    @property
    def _legacy_states(self) -> TrialSignals:
        return self.states

    def _kept_states(self) -> NDArray[np.float64]:
        if self.x is None:
            raise ValueError(
                "states: this response holds none; simulate with keep_states=True, or read "
                "the outputs"
            )
        return self.x

    def _named(self, array: NDArray[np.float64], group: str) -> TrialSignals:
        """The array with names, squeezed and transposed as ``response(...)`` asked."""
        axes = [self._names.get(group), positions(self.trace_labels), None]
        if self.squeeze:
            axes = [
                axis
                for axis, length in zip(axes, array.shape, strict=True)
                if length != 1
            ]
            array = array.squeeze()
        if self.transpose and array.ndim:
            axes = axes[-1:] + axes[:-1]
            array = np.moveaxis(array, -1, 0)
        return TrialSignals(array, *axes)

    def __getstate__(self) -> dict[str, Any]:
        state = self.__dict__ | {"_u": None}
        state.pop("trace_labels", None)
        return state

    def __repr__(self) -> str:
        if "output_labels" not in self.__dict__:  # a traceback may show it half made
            return f"{type(self).__name__}(not made yet)"
        name = "" if self.sysname is None else f"{self.sysname!r}, "
        trials = f"{self.ntraces} trial{'s' * (self.ntraces != 1)}"
        samples = f"{self.t.size} sample{'s' * (self.t.size != 1)}"
        outputs = abbreviated(self.output_labels, 4)
        return f"{type(self).__name__}({name}{trials} of {samples}, outputs {outputs})"

    @property
    def published(self) -> ct.TimeResponseData:
        """The outputs (output, trial, time) alone, which may be stored or sent."""
        return ct.TimeResponseData(
            np.array(self.t),
            np.array(self.y),
            None,
            None,
            issiso=False,
            output_labels=list(self.output_labels),
            trace_labels=self.trace_labels,
            sysname=self.sysname,
            title=self.title,
            squeeze=False,
        )

    @property
    def _names(self) -> dict[str, dict[str, int]]:
        """Where the names of each group of signals stand in it."""
        outputs = positions(self.output_labels)
        for alias, label in self.aliases.items():
            outputs[alias] = outputs[label]
        inputs, states = positions(self.input_labels), positions(self.state_labels)
        groups = {"inputs": inputs, "outputs": outputs, "states": states}
        return {group: names for group, names in groups.items() if names}

    def _find(self, signals: Signals) -> list[Place]:
        """Places of the named signals, by default of the plant's states.

        A name is a label, a group (``"outputs"``) or both (``"outputs.y[0]"``).
        """
        if signals is None:
            self._kept_states()
            return [("states", index) for index in range(self.plant_states)]
        names = [signals] if isinstance(signals, str) else signals
        if not isinstance(names, (list, tuple)):
            raise TypeError(
                f"signals: expected a name or a list of names, got {type(names).__name__}"
            )
        if not names:
            raise ValueError("signals: expected at least one name, got none")
        places = []
        for name in names:
            if not isinstance(name, str):
                raise TypeError(
                    f"signals: expected names as text, got a {type(name).__name__}"
                )
            places += self._places(name)
        return places

    def _whole(self, group: str) -> list[Place]:
        """Places of all signals of a group, whatever they are called."""
        count = len(getattr(self, f"{group[:-1]}_labels"))
        return [(group, index) for index in range(count)]

    def _places(self, name: str) -> list[Place]:
        groups = self._names
        known: dict[str, list[Place]] = {}
        for group, names in groups.items():
            for label, index in names.items():
                known.setdefault(label, []).append((group, index))
                known[f"{group}.{label}"] = [(group, index)]
        found = known.get(name, [])
        if len(found) > 1:
            choices = " or ".join(repr(f"{group}.{name}") for group, _ in found)
            raise ValueError(
                f"signal {name!r}: expected a name that occurs once; write {choices}"
            )
        if not found and name in groups:
            return self._whole(name)
        if not found:
            lists = [f"{group} {abbreviated(list(groups[group]))}" for group in groups]
            raise ValueError(
                f"unknown signal {name!r}: expected a label or a group among "
                f"{'; '.join(lists)}"
            )
        return found

    def _labels(
        self, places: Sequence[Place], reserved: Iterable[str] = ()
    ) -> list[str]:
        """One label for each place, behind its group if it would occur twice."""
        labels = [getattr(self, f"{group[:-1]}_labels")[k] for group, k in places]
        count = Counter([*labels, *reserved])
        shown = []
        for (group, _), label in zip(places, labels, strict=True):
            shown.append(f"{group}.{label}" if count[label] > 1 else label)
        return shown

    def _traces(self, place: Place) -> NDArray[np.float64]:
        group, index = place
        if group == "states":
            return self._kept_states()[index]
        return (self.y if group == "outputs" else self.u)[index]

    def _over_trials(
        self,
        signals: Signals,
        statistic: Callable[[NDArray[np.float64]], NDArray[np.float64]],
    ) -> TrialSignals:
        """The statistic of every signal's (trials, T), stacked before the time axis."""
        places = self._find(signals)
        rows = [statistic(self._traces(place)) for place in places]
        stacked = np.stack(rows, axis=-2)
        unnamed = [None] * (stacked.ndim - 2)
        return TrialSignals(stacked, *unnamed, positions(self._labels(places)))

    def mean(self, signals: Signals = None) -> TrialSignals:
        """Return the mean over the trials (signals, T), indexed by name.

        ``signals`` are labels, groups (``"outputs"``) or both (``"outputs.y[0]"``), one or a
        list; the plant's states by default.

        Parameters
        ----------
        signals : str or sequence of str, optional
            Labels, groups (``"outputs"``) or both (``"outputs.y[0]"``); the plant's states by
            default.

        Returns
        -------
        TrialSignals, shape (signals, T)
            In the units of the signals.

        Examples
        --------
        >>> import numpy as np, privcontrol as pc
        >>> budget = pc.PrivacyBudget(epsilon=1.0, delta=1e-2)
        >>> noise = pc.design_output_noise(pc.plants.vehicle(), horizon=5, budget=budget,
        ...     adjacency=pc.StateAdjacency({"position": 1.0}), models="exact")
        >>> loop = pc.private_lqg(pc.plants.vehicle(), 1, 1, 1e-4, 1e-2, noise)
        >>> run = loop.simulate(np.arange(5) * 0.1, trials=3, rng=0)
        >>> run.mean().shape, run.mean("outputs").shape
        ((2, 5), (2, 5))
        """
        return self._over_trials(signals, lambda traces: traces.mean(axis=0))

    def quantile(self, q: ArrayLike, signals: Signals = None) -> TrialSignals:
        """Return quantiles over the trials, (signals, T) or (len(q), signals, T).

        ``signals`` are as for `mean`.

        Parameters
        ----------
        q : float or array_like
            In [0, 1].
        signals : str or sequence of str, optional
            As for `mean`.

        Returns
        -------
        TrialSignals, shape (signals, T) or (len(q), signals, T)
            In the units of the signals.

        Examples
        --------
        >>> import numpy as np
        >>> from privcontrol.response import PrivateResponse
        >>> x = np.arange(11.0)[None, :, None] * np.ones((1, 11, 4))
        >>> PrivateResponse(range(4), outputs=x, states=x).quantile([0.1, 0.9])[:, 0, 0]
        array([1., 9.])
        """
        levels = real_array(q, "q")
        if levels.ndim > 1 or (levels < 0).any() or (levels > 1).any():
            raise ValueError(
                "q: expected a number or a sequence of numbers from 0 to 1, got shape "
                f"{levels.shape}"
            )
        return self._over_trials(
            signals, lambda traces: np.quantile(traces, levels, axis=0)
        )

    def mse(
        self,
        reference: ArrayLike | None = None,
        *,
        signals: Signals = None,
    ) -> TrialSignals:
        """Return the mean squared distance to the reference (signals, T).

        ``reference`` is a number, (signals,) or (signals, T), the response's own by
        default. ``signals`` are as for `mean`; with signals of your own, pass the
        reference too. `ValueError` if there is none or its shape does not fit.

        Parameters
        ----------
        reference : float or array_like, shape (signals,) or (signals, T), optional
            The response's own by default.
        signals : str or sequence of str, optional
            As for `mean`; with signals of your own, pass the reference too.

        Returns
        -------
        TrialSignals, shape (signals, T)
            In the squared units of the signals.

        Examples
        --------
        >>> import numpy as np, privcontrol as pc
        >>> budget = pc.PrivacyBudget(epsilon=1.0, delta=1e-2)
        >>> noise = pc.design_output_noise(pc.plants.vehicle(), horizon=5, budget=budget,
        ...     adjacency=pc.StateAdjacency({"position": 1.0}), models="exact")
        >>> loop = pc.private_lqg(pc.plants.vehicle(), 1, 1, 1e-4, 1e-2, noise)
        >>> run = loop.simulate(np.arange(5) * 0.1, [1.0, 0.0], trials=3, rng=0)
        >>> run.mse().shape
        (2, 5)
        """
        if reference is None and signals is None:
            reference = self.reference
        if reference is None:
            raise ValueError(
                "mse: expected a reference, got none; pass reference=..., 0 for the origin "
                "(the errors of consensus are in squared_error and mean_square_error)"
            )
        places = self._find(signals)
        goals = reference_rows(reference, len(places), self.t.size)
        rows = []
        for place, goal in zip(places, goals, strict=True):
            error = self._traces(place) - goal
            rows.append(np.einsum("kt,kt->t", error, error) / self.ntraces)
        return TrialSignals(np.stack(rows), positions(self._labels(places)))

    def to_pandas(self) -> pd.DataFrame:
        """Return all signals as a data frame, one row per trial and sample.

        Columns are ``time``, ``trace`` (categories ``trial[k]``), then inputs, outputs and
        states by label. A label that occurs twice stands behind its group, as in
        ``states.a`` and ``outputs.a``. It needs pandas.

        Returns
        -------
        pandas.DataFrame

        Examples
        --------
        >>> import numpy as np, privcontrol as pc
        >>> budget = pc.PrivacyBudget(epsilon=1.0, delta=1e-2)
        >>> noise = pc.design_output_noise(pc.plants.vehicle(), horizon=5, budget=budget,
        ...     adjacency=pc.StateAdjacency({"position": 1.0}), models="exact")
        >>> loop = pc.private_lqg(pc.plants.vehicle(), 1, 1, 1e-4, 1e-2, noise)
        >>> run = loop.simulate(np.arange(5) * 0.1, trials=3, rng=0)
        >>> run.to_pandas().shape
        (15, 12)
        """
        package = pandas()
        places = [place for group in self._names for place in self._whole(group)]
        trials = np.repeat(np.arange(self.ntraces), self.t.size)
        names = self.trace_labels
        trace = package.Categorical.from_codes(trials, categories=names)
        data = {"time": np.tile(self.t, self.ntraces), "trace": trace}
        for label, place in zip(
            self._labels(places, reserved=data), places, strict=True
        ):
            data[label] = self._traces(place).reshape(-1)
        return package.DataFrame(data)

    def plot(
        self,
        signals: Signals = None,
        *,
        samples: int = 3,
        quantiles: Sequence[float] = (0.05, 0.95),
        reference: bool = True,
        label: str | None = None,
        ax: AxesLike = None,
        time_unit: str | None = None,
        units: Mapping[str, str] | None = None,
    ) -> ct.ControlPlot:
        """Plot median, band of quantiles, a few single trials and the reference.

        With too few trials for the quantiles (20 for 5 % and 95 %) single trials are drawn
        instead. For python-control's own layout call ``ct.time_response_plot(response)``.

        Parameters
        ----------
        signals : str or sequence of str, optional
            As for `mean`, one panel each; the plant's states next to the outputs by default,
            without the states of a delay.
        samples : int, optional
            How many single trials to draw, from the first.
        quantiles : (float, float), optional
            Lower and upper end of the band.
        reference : bool, optional
            Draw the reference over the states or outputs that follow it.
        label : str, optional
            Legend prefix, to distinguish responses on the same axes.
        ax : Axes or array of Axes, optional
            Axes to draw on, such as the `axes` of an earlier plot.
        time_unit : str, optional
            Unit in which dt is counted, such as ``"h"``; seconds by default. A label only.
        units : mapping of str to str, optional
            Units of signals by name, such as ``{"y": "K"}``. Labels only.

        Returns
        -------
        control.ControlPlot

        Examples
        --------
        >>> import numpy as np, privcontrol as pc
        >>> budget = pc.PrivacyBudget(epsilon=1.0, delta=1e-2)
        >>> noise = pc.design_output_noise(pc.plants.vehicle(), horizon=5, budget=budget,
        ...     adjacency=pc.StateAdjacency({"position": 1.0}), models="exact")
        >>> loop = pc.private_lqg(pc.plants.vehicle(), 1, 1, 1e-4, 1e-2, noise)
        >>> run = loop.simulate(np.arange(5) * 0.1, trials=3, rng=0)
        >>> run.plot("outputs").axes.size
        2
        """
        if not isinstance(samples, int) or samples < 0:
            raise ValueError(
                f"samples: expected an integer >= 0, got {quoted(samples)}"
            )
        style = Style(quantile_pair(quantiles), samples, label)
        columns = self._columns(signals, reference, units)
        clock = time_axis(self.time_label, time_unit)
        return draw_panels(self.t, columns, style, ax, time_label=clock)

    def band_plot(
        self,
        signals: Signals = None,
        *,
        quantiles: Sequence[float] = (0.05, 0.95),
        reference: bool = True,
        label: str | None = None,
        ax: AxesLike = None,
        time_unit: str | None = None,
        units: Mapping[str, str] | None = None,
    ) -> ct.ControlPlot:
        """Plot median and quantile band of named signals, one panel each.

        Parameters as for `plot`, by default with the states that it draws, or the
        outputs if it draws none.

        Parameters
        ----------
        signals, quantiles, reference, label, ax, time_unit, units : optional
            As for `plot`.

        Returns
        -------
        control.ControlPlot

        Examples
        --------
        >>> import numpy as np, privcontrol as pc
        >>> budget = pc.PrivacyBudget(epsilon=1.0, delta=1e-2)
        >>> noise = pc.design_output_noise(pc.plants.vehicle(), horizon=5, budget=budget,
        ...     adjacency=pc.StateAdjacency({"position": 1.0}), models="exact")
        >>> loop = pc.private_lqg(pc.plants.vehicle(), 1, 1, 1e-4, 1e-2, noise)
        >>> run = loop.simulate(np.arange(5) * 0.1, trials=3, rng=0)
        >>> run.band_plot("outputs").axes.size
        2
        """
        if signals is None:
            shown = [self.state_labels[index] for _, index in self._shown_states()]
            group = "states" if shown else "outputs"
            signals = [f"{group}.{label}" for label in shown or self.output_labels]
        return self.plot(
            signals,
            samples=0,
            quantiles=quantiles,
            reference=reference,
            label=label,
            ax=ax,
            time_unit=time_unit,
            units=units,
        )

    def _columns(
        self, signals: Signals, reference: bool, units: Mapping[str, str] | None
    ) -> dict[str, list[Panel]]:
        """Headings and panels of a plot."""
        if signals is not None:
            return {"": self._panels(self._find(signals), reference, units)}
        groups = {"Published outputs": self._whole("outputs")}
        states = self._shown_states()
        if states:
            groups = {"States (private)": states, **groups}
        columns = {}
        for heading, places in groups.items():
            if len(places) > TALLEST:
                heading += f", first {TALLEST} of {len(places)}"
            columns[heading] = self._panels(places[:TALLEST], reference, units)
        return columns

    def _color(self, group: str, index: int) -> str | None:
        """The colour of what is published, true, or estimated; None for all else."""
        if group == "outputs":
            return PUBLISHED
        if group != "states":
            return None
        is_estimate = self.state_labels[index].startswith("xhat[")
        return ESTIMATE if is_estimate else TRUE

    def _shown_states(self) -> list[Place]:
        """The plant's states that a plot draws by default."""
        if self.x is None or not self._plots_states:
            return []
        return [place for place in self._find(None) if not self._is_past(place[1])]

    def _is_past(self, state: int) -> bool:
        """Return whether `with_delays` made the state, which holds a past input or output."""
        signal, _, age = self.state_labels[state].rpartition("_")
        return age.isdigit() and signal in self.output_labels

    def _panels(
        self, places: Sequence[Place], reference: bool, units: Mapping[str, str] | None
    ) -> list[Panel]:
        """One panel for each place, with the reference over what follows it."""
        aliases = {label: name for name, label in self.aliases.items()}
        labels = self._labels(places)
        names = [aliases.get(label, label) for label in labels]
        known = [*self.output_labels, *aliases.values(), *self.state_labels]
        known += self.input_labels
        shown = with_units(names, units, [*known, *names])
        panels = []
        for place, name, label in zip(places, names, shown, strict=True):
            group, index = place
            if name.isdecimal():
                label = f"{self._numbered} {label}"
            if group == "outputs" and self.output_labels[index] in aliases:
                label = f"published\n{label}"
            goal = self._reference_of(group, index) if reference is True else None
            color = self._color(group, index)
            panels.append(Panel(label, self._traces(place), goal, color=color))
        return panels

    def _reference_of(self, group: str, index: int) -> NDArray[np.float64] | None:
        """The reference (T,) that a signal follows."""
        if group == "outputs":
            return self.output_references.get(index)
        follows = group == "states" and index < self.plant_states
        if self.reference is None or not follows:
            return None
        return np.asarray(self.reference[index])


# -- checks ----------------------------------------------------------------------------


def trial_array(
    array: ArrayLike, name: str, shape: tuple[int, ...]
) -> NDArray[np.float64]:
    """A read-only view of a (signals, trials, T) array, whose last lengths may be known."""
    view = np.asarray(array).view()
    if view.dtype.kind not in "iuf":
        raise TypeError(f"{name}: expected real numbers, got dtype {view.dtype}")
    view.flags.writeable = False
    known = len(shape)
    if view.ndim != 3 or view.shape[3 - known :] != shape:
        words = [*("signals", "trials")[: 3 - known], *map(str, shape)]
        raise ValueError(
            f"{name}: expected shape ({', '.join(words)}), got {view.shape}"
        )
    return view


def input_blocks(
    inputs: ArrayLike | tuple[ArrayLike, ...] | None, trials: int, samples: int
) -> list[NDArray[np.float64]]:
    """Blocks (signals, trials or 1, T or fewer) of inputs, from one array or several."""
    if inputs is None:
        return []
    every = inputs if isinstance(inputs, (list, tuple)) else [inputs]
    blocks = [trial_array(block, "inputs", ()) for block in every]
    for block in blocks:
        if block.shape[1] not in (1, trials) or block.shape[2] > samples:
            raise ValueError(
                f"inputs: expected blocks (signals, {trials} or 1, {samples} or fewer), "
                f"got shape {block.shape}"
            )
    return blocks


def distinct_labels(
    labels: Sequence[str] | None, name: str, prefix: str, count: int
) -> list[str]:
    """So many distinct labels as a list, ``prefix[i]`` for None."""
    if labels is None:
        labels = [f"{prefix}[{i}]" for i in range(count)]
    if isinstance(labels, str):
        labels = [labels]
    labels = list(labels)
    if len(labels) != count or not all(isinstance(label, str) for label in labels):
        raise ValueError(f"{name}: expected {count} strings, got {abbreviated(labels)}")
    if len(set(labels)) < count:
        raise ValueError(f"{name}: expected distinct labels, got {abbreviated(labels)}")
    return labels


def reference_rows(values: ArrayLike, count: int, samples: int) -> NDArray[np.float64]:
    """A reference, a number, (count,) or (count, T), as a read-only (count, T) array."""
    array = real_array(values, "reference")
    if array.ndim == 1:
        array = array[:, None]
    if array.shape not in ((), (count, 1), (count, samples)):
        raise ValueError(
            f"reference: expected a number, ({count},) or ({count}, {samples}), got shape "
            f"{np.shape(values)}"
        )
    return np.broadcast_to(array, (count, samples))


def pandas() -> ModuleType:
    """The optional package, loaded when a table is asked for."""
    try:
        import pandas as package
    except ImportError as error:
        raise ImportError("to_pandas needs pandas: pip install pandas") from error
    return package


# -- runs ------------------------------------------------------------------------------

#: Speed: workers of an executor that does not say how many it has.
_MANY_WORKERS = 64


def run_trials(
    task: Callable[..., Any],
    trials: int,
    *,
    rng: Seed = None,
    executor: Executor | None = None,
    progress: bool = False,
    block: int = 256,
    data: Mapping[str, NDArray[np.float64]] | None = None,
) -> dict[str, Any]:
    """Run trials of a task in blocks, with the same numbers on every executor.

    Block i draws from child i of one seed, so ``trials=k`` is bit for bit the
    beginning of ``trials=n``. The first exception cancels the blocks that have not
    started, and the executor stays open.

    ``task(generator, block, keep)`` returns arrays by name with the trials on axis 0, or
    None for an absent one. The first ``keep`` trials count, with the bits that they have in
    a whole block. Process pools pickle the task. Each block gets its part of the arrays in
    ``data`` as a keyword.

    A task with ``shapes`` (of arrays of one trial, by name) is also given ``out``, their
    places in the answer, where the blocks follow each other in this process. They lie in
    memory with the trials last if the task is ``time_first``.

    Other sizes of ``block`` are other numbers, so it must depend on the problem, never
    on ``trials`` or the workers.

    Examples
    --------
    >>> def task(generator, block, keep):
    ...     return {"eta": generator.standard_normal((block, 2))}
    >>> run_trials(task, 500, rng=0)["eta"].shape
    (500, 2)
    """
    trials = positive_integer(trials, "trials")
    entropy = generator(rng).integers(2**32, size=4, dtype=np.uint32).tolist()
    client = getattr(executor, "_client", None)
    if client is not None:  # dask's workers find the task, who else get it every time
        task = client.scatter([task], broadcast=True, hash=False)[0]

    placed = _places(task, trials) if executor is None else {}

    def made() -> Iterator[tuple[Any, ...]]:
        for index, start in enumerate(range(0, trials, block)):
            keep = min(block, trials - start)
            within = slice(start, start + keep)
            parts: dict[str, Any] = {}
            if placed:
                parts["out"] = {name: array[within] for name, array in placed.items()}
            for name, array in (data or {}).items():
                parts[name] = array[within]
            yield task, entropy, block, keep, index, parts

    jobs = made()
    results: Generator[tuple[int, Any]]
    if executor is None:
        results = ((index, _run_block(*job)) for index, job in enumerate(jobs))
    else:
        results = _in_flight(jobs, checked_executor(executor))
    found: dict[str, Any] = {}
    with progress_bar(trials, progress) as bar, closing(results):
        for index, arrays in results:
            start = index * block
            keep = min(block, trials - start)
            others = {name: arrays[name] for name in arrays if name not in placed}
            _collect(found, others, slice(start, start + keep), trials)
            del arrays, others  # before the next block needs the memory
            bar.update(keep)
    return placed | found


def _places(task: Callable[..., Any], trials: int) -> dict[str, NDArray[np.float64]]:
    """Return arrays for what a task writes into its place, by name."""
    places = {}
    for name, shape in getattr(task, "shapes", {}).items():
        check_memory(trials * math.prod(shape), "trials")
        if getattr(task, "time_first", False):
            places[name] = np.empty((*shape[::-1], trials)).T
        else:
            places[name] = np.empty((trials, *shape))
    return places


def _collect(
    found: dict[str, Any],
    arrays: Mapping[str, NDArray[Any] | None],
    within: slice,
    trials: int,
) -> None:
    """Put arrays of a block where its trials are in those of all."""
    for name, array in arrays.items():
        if array is None or len(array) == trials:
            found[name] = array  # absent, or the only block
            continue
        if name not in found:
            shape = (trials, *array.shape[1:])
            check_memory(math.prod(shape), "trials")
            found[name] = np.empty_like(array, shape=shape)
        found[name][within] = array[: within.stop - within.start]


def _run_block(
    task: Callable[..., Any],
    entropy: list[int],
    block: int,
    keep: int,
    index: int,
    data: Mapping[Any, Any],
) -> dict[str, NDArray[Any] | None]:
    """Run the task with child ``index`` of ``SeedSequence(entropy)``."""
    child = np.random.SeedSequence(entropy, spawn_key=(index,))
    return task(np.random.default_rng(child), block, keep, **data)


def _in_flight(
    jobs: Iterable[tuple[Any, ...]], executor: Executor
) -> Generator[tuple[int, Any]]:
    """Yield blocks as they complete, a few for each worker at a time.

    Those not started are cancelled when one fails or the consumer stops.
    """
    workers = getattr(executor, "_max_workers", None) or _MANY_WORKERS
    limit = 2 * workers + 1
    queue = iter(enumerate(jobs))
    pending: dict[Future[Any], int] = {}
    try:
        while True:
            for index, job in islice(queue, limit - len(pending)):
                pending[executor.submit(_run_block, *job)] = index
            if not pending:
                return
            done, _ = wait(pending, return_when=FIRST_COMPLETED)
            while done:
                future = done.pop()
                yield pending.pop(future), future.result()
    finally:
        for future in pending:
            future.cancel()


def checked_executor(executor: object) -> Executor:
    if isinstance(executor, Executor):
        return executor
    hint = "ProcessPoolExecutor(max_workers=2)"
    if hasattr(executor, "get_executor"):
        hint = "its get_executor()"
    raise TypeError(
        "executor: expected a concurrent.futures.Executor, got "
        f"{type(executor).__name__}; pass e.g. {hint}"
    )
