"""Plants that are identified from recorded data, with a region that holds them.

With Gaussian noise, recorded data give intervals that hold all entries of the true plant
together, for any finite number of samples: those of regressions y = Phi theta + e with
white Gaussian e of unknown size. `independent_intervals` are for Phi independent of e,
`sequential_intervals` for rows of Phi that come from what was recorded before their e, as
in a feedback loop. Noise that is designed for
this box hides the secret under the true plant, but for the probability that the box
misses it. That probability is added to delta.

The recorded data are not protected. Whoever learns the model learns something of them, so
that they have to be public, or of runs whose secrets nobody needs to keep.

References
----------
Z. Sidak, J. Am. Stat. Assoc. 62 (1967). L. Wasserman, A. Ramdas, S. Balakrishnan,
PNAS 117 (2020).
"""

from __future__ import annotations

import math
import os
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import control as ct
import numpy as np
import scipy.linalg
from numpy.typing import ArrayLike, NDArray
from scipy.special import gammaln
from scipy.stats import beta, t as student

from ..numerics.arguments import helpful_arguments
from ..numerics.checks import (
    one_of,
    positive_integer,
    positive_number,
    real_array,
    sequence_of,
)
from ..numerics.linalg import float_above
from ..numerics.objects import ByContent
from ..numerics.thresholds import CERTAIN, ROUNDED
from ..privacy.hidden import rounded_down
from ..systems.linear import Plant
from .region import PlantBox, matrix_of, with_matrix

if TYPE_CHECKING:
    import pandas as pd

#: Samples from which a column that grows evenly is taken for a clock.
_CLOCKED = 10
#: Names of columns that hold the times of their rows, in small letters.
_TIMES = ("time", "timestamp", "datetime")

#: Share of the error probability with which the bound of the noise's energy may fail.
_ENERGY_SHARE = 0.01
#: Weights are planned again after this share of the samples that are left.
_REPLANNED = 0.1
#: Condition number from which on regressors do not tell the parameters.
_MOST_CONDITION = 1e7

_WHITE = "white Gaussian noise of constant size in the recorded data"
#: How the data were recorded, and the assumption of a guarantee then.
_ASSUMPTIONS = {
    "feedback": _WHITE,
    "open-loop": _WHITE,
    "independent": (
        f"{_WHITE}, and states and inputs before each step independent of the noise"
    ),
}


@dataclass(frozen=True, eq=False, repr=False)
class IdentifiedPlant(ByContent):
    """A plant from recorded data with a box that holds the true one.

    Made by `identify_states` and `identify_outputs`. Pass it as ``models`` to
    `design_output_noise`, with `system` as the plant.

    Attributes
    ----------
    box : PlantBox
        Intervals for all entries that were identified.
    samples : int
        Number of steps that were recorded.
    data : {"feedback", "open-loop", "independent"}
        How they were recorded.

    See Also
    --------
    identify_outputs, identify_states, PlantBox

    Examples
    --------
    >>> import control as ct, numpy as np, privcontrol as pc
    >>> rng = np.random.default_rng(0)
    >>> truth = ct.ss([[0.9]], [[0.5]], [[1.0]], 0, 1.0)
    >>> x, u = np.zeros((1, 400)), rng.normal(size=(1, 400))
    >>> for t in range(399):
    ...     x[:, t + 1] = 0.9 * x[:, t] + 0.5 * u[:, t] + 0.1 * rng.normal()
    >>> room = pc.identify_states(truth, x, u, confidence=0.95, data="open-loop")
    >>> room.contains(truth), round(room.miss, 3)
    (True, 0.05)
    """

    box: PlantBox
    samples: int
    data: str

    @property
    def plant(self) -> Plant:
        """The middle of the box."""
        return self.box.plant_data

    @property
    def miss(self) -> float:
        """Probability, over the recorded data, that the true plant is not in the box."""
        return self.box.miss

    @property
    def system(self) -> ct.StateSpace:
        """The middle of the box as a python-control system."""
        return self.plant.statespace()

    def contains(self, sys: ct.StateSpace) -> bool:
        """Return whether A and B of a plant are in the box, for any names.

        Parameters
        ----------
        sys : control.StateSpace

        Returns
        -------
        bool
        """
        plant = Plant.of(sys)
        middle = self.plant
        if plant.B.shape != middle.B.shape:
            raise ct.ControlDimension(
                f"sys: expected {middle.order} states and {middle.B.shape[1]} inputs, got "
                f"{plant.order} and {plant.B.shape[1]}"
            )
        renamed = matrix_of(middle)
        renamed[: middle.order] = np.hstack([plant.A, plant.B])
        return self.box.contains(with_matrix(middle, renamed))

    def __repr__(self) -> str:
        return (
            f"IdentifiedPlant({len(self.box.widths)} entries from {self.samples} samples, data "
            f"{self.data!r}, confidence {rounded_down(1 - self.miss)})"
        )


@helpful_arguments
def identify_states(
    sys: ct.StateSpace,
    states: ArrayLike | Sequence[ArrayLike],
    inputs: ArrayLike | Sequence[ArrayLike] | None = None,
    *,
    confidence: float = 0.99,
    data: str = "feedback",
    A: ArrayLike | None = None,
    B: ArrayLike | None = None,
) -> IdentifiedPlant:
    """Identify a plant from measured states and inputs, with a region that holds it.

    The data obey x(t+1) = A x(t) + B u(t) + w(t). The states are measured without error,
    and w is white Gaussian noise of any size, with any correlation of its entries. Each of
    the rows with unknown entries has an equal share of 1 - confidence.

    Parameters
    ----------
    sys : control.StateSpace
        Gives names, sampling time, C and D, and the entries of A and B that are known.
    states : array_like, shape (n, T), pandas.DataFrame, or a list of them
        One recorded run, or several. A table has a row for each sample, and its columns
        are found by the names of the states. Where its index, or a column of times that
        is no signal, says that a row is missing, the table is refused.
    inputs : array_like, shape (m, T), pandas.DataFrame, or a list of them, optional
        The inputs at the same samples; may be left out if the plant has none, if B is
        known to be zero, or if the tables of the states have columns for them.
    confidence : float, optional
        Probability with which the box holds the true plant.
    data : {"feedback", "open-loop", "independent"}, optional
        How the data were recorded.

        - "feedback": inputs and readings before a step may depend on all earlier noise.
          Several runs count as recorded one after the other.
        - "open-loop": the same, since feedback costs nothing here.
        - "independent": states and inputs before a step are independent of the noise of
          all steps, as where each run is one step from a state that was set. The
          intervals come from least squares, and are slightly smaller.
    A, B : array_like of bool, shapes (n, n) and (n, m), optional
        Which entries are unknown; all of them by default. The others equal the entries
        of ``sys``.

    Returns
    -------
    IdentifiedPlant

    Raises
    ------
    ValueError
        If there are too few samples, rows of a table are missing, the data do not
        determine the unknown entries, or there is no noise in them.

    See Also
    --------
    identify_outputs, PlantBox, regions.IdentifiedPlant

    Notes
    -----
    Where past states are regressors, intervals of least squares hold too seldom, least
    of all for slow plants. Here each entry has an instrumental variable from earlier
    samples, whose interval is exact. With three unknowns it is some 15 % wider than the
    interval of least squares from 300 samples, and 6 % from 1000.

    Examples
    --------
    >>> import control as ct, numpy as np, privcontrol as pc
    >>> rng = np.random.default_rng(0)
    >>> truth = ct.ss([[0.9]], [[0.5]], [[1.0]], 0, 1.0, states=["temperature"])
    >>> x, u = np.zeros((1, 400)), rng.normal(size=(1, 400))
    >>> for t in range(399):
    ...     x[:, t + 1] = 0.9 * x[:, t] + 0.5 * u[:, t] + 0.1 * rng.normal()
    >>> room = pc.identify_states(truth, x, u, data="open-loop")
    >>> room
    IdentifiedPlant(2 entries from 399 samples, data 'open-loop', confidence 0.99)
    >>> room.contains(truth)
    True
    """
    plant = Plant.of(sys)
    one_of(data, "data", tuple(_ASSUMPTIONS))
    in_A = _mask(A, plant.A.shape, "A")
    in_B = _mask(B, plant.B.shape, "B")
    unknown = np.hstack([in_A, in_B])
    known = np.hstack([plant.A, plant.B])
    n, m = plant.B.shape
    steps = []
    tables = _tables(states)
    if tables and inputs is None and _have(tables, plant.inputs):
        inputs = tables
    measured = _signals(states, plant.states, "states")
    applied = _signals(inputs, plant.inputs, "inputs")
    for x, u in _runs(measured, applied, n, m, "states"):
        driven = np.vstack([x, u])
        steps.append((driven[:, :-1].T, x[:, 1:].T))
    places = np.indices(unknown.shape)
    return _identified(steps, data, confidence, plant, known, unknown, places)


@partial(helpful_arguments, advice="it takes no plant, but output_names, input_names")
def identify_outputs(
    outputs: ArrayLike | Sequence[ArrayLike],
    inputs: ArrayLike | Sequence[ArrayLike] | None = None,
    *,
    order: int,
    dt: float | bool,
    confidence: float = 0.99,
    data: str = "feedback",
    output_names: Sequence[str] | None = None,
    input_names: Sequence[str] | None = None,
) -> IdentifiedPlant:
    """Identify a plant from measured outputs and inputs, with a region that holds it.

    The data obey the ARX form y(t) = A_1 y(t-1) + .. + A_k y(t-k) + B_1 u(t-1) + .. +
    B_k u(t-k) + e(t) of order k, with white Gaussian e. The plant is its realisation in
    observer form, with p k states: the outputs as they are predicted from the past,
    named like the outputs, then the past's contribution to later ones.

    Parameters
    ----------
    outputs : array_like, shape (p, T), pandas.DataFrame, or a list of them
        One recorded run, or several. A table has a row for each sample. Its columns are
        the outputs, without those in ``input_names``, or those in ``output_names``.
        A table that lacks rows is refused as by `identify_states`.
    inputs : array_like, shape (m, T), pandas.DataFrame, or a list of them, optional
        The inputs at the same samples. By default they are the columns in
        ``input_names`` of the tables of the outputs; without those there is one
        that stays zero.
    order : int
        Number of past samples k.
    dt : float or True
        Sampling time in seconds.
    confidence, data : optional
        As for `identify_states`. Past outputs are never independent of past noise.
    output_names, input_names : sequence of str, optional

    Returns
    -------
    IdentifiedPlant
        Intervals are for the first p columns of A and for B. In its realisation the
        noise e enters the states and the output; that takes nothing from a guarantee.

    Raises
    ------
    ValueError
        As for `identify_states`.

    See Also
    --------
    identify_states, PlantBox, regions.IdentifiedPlant

    Examples
    --------
    >>> import numpy as np, privcontrol as pc
    >>> rng = np.random.default_rng(0)
    >>> y, u = np.zeros((1, 500)), rng.normal(size=(1, 500))
    >>> for t in range(2, 500):
    ...     past = 1.5 * y[:, t - 1] - 0.6 * y[:, t - 2] + u[:, t - 1]
    ...     y[:, t] = past + 0.1 * rng.normal()
    >>> tank = pc.identify_outputs(
    ...     y, u, order=2, dt=1.0, output_names=["level"], data="open-loop"
    ... )
    >>> tank.system.A.round(1)
    array([[ 1.5,  1. ],
           [-0.6,  0. ]])
    """
    order = positive_integer(order, "order")
    one_of(data, "data", ("feedback", "open-loop"))
    if isinstance(outputs, ct.InputOutputSystem):
        raise TypeError(
            f"outputs: expected recorded outputs, got a {type(outputs).__name__}; no plant "
            "is needed: identify_outputs(outputs, inputs, order=..., dt=sys.dt, "
            "output_names=sys.output_labels, input_names=sys.input_labels)"
        )
    for argument, names in (
        ("output_names", output_names),
        ("input_names", input_names),
    ):
        if names is not None:
            sequence_of(names, argument, "names")
    tables = _tables(outputs)
    if tables and inputs is None and input_names is not None:
        inputs = tables
    elif input_names is None and _tables(inputs):
        input_names = list(_tables(inputs)[0].columns)
    if tables and output_names is None:
        beside = () if input_names is None else list(input_names)
        output_names = [name for name in tables[0].columns if name not in beside]
        _refuse_clock(tables[0], output_names)
    measured = _signals(outputs, output_names, "outputs")
    applied = _signals(inputs, input_names, "inputs")
    runs = _runs(measured, applied, None, None, "outputs")
    steps = [_arx_steps(y, u, order) for y, u in runs]
    p, m = map(len, runs[0])
    driven = max(m, 1)  # without inputs there is one that stays zero
    names = _names(output_names, "y", p, "output_names")
    later = [f"{name}_{k}" for k in range(1, order) for name in names]
    width = order * p
    empty = ct.ss(
        np.eye(width, k=p),
        np.zeros((width, driven)),
        np.eye(p, width),
        0,
        dt if dt is True else positive_number(dt, "dt"),
        states=[*names, *later],
        inputs=_names(input_names, "u", driven, "input_names"),
        outputs=names,
        name="identified",
    )
    places = _arx_places(p, m, order)
    _, *shape = places.shape
    unknown = np.ones(shape, dtype=bool)
    plant = Plant.of(empty)
    known = np.zeros(shape)
    return _identified(steps, data, confidence, plant, known, unknown, places)


def _identified(
    steps: Sequence[tuple[NDArray[np.float64], NDArray[np.float64]]],
    data: str,
    confidence: float,
    plant: Plant,
    known: NDArray[np.float64],
    unknown: NDArray[np.bool_],
    places: NDArray[np.intp],
) -> IdentifiedPlant:
    """The plant whose [A B] holds the coefficients (p, k) at their places (2, p, k).

    They are those of regressors (N, k) and targets (N, p), the ``steps`` of each run.
    Coefficients that are not ``unknown`` are those of ``known``.
    """
    confidence = positive_number(confidence, "confidence")
    if not 0.5 <= confidence < 1:
        raise ValueError(
            f"confidence: expected a probability of at least 0.5 below 1, got {confidence}"
        )
    miss = min(float_above(1 - confidence), 0.5)  # 1 - 0.5 needs no rounding
    regressors, targets = map(np.vstack, zip(*steps, strict=True))
    count = len(targets)
    most = int(unknown.sum(axis=1).max())
    if not most:
        raise ValueError("A, B: expected at least one unknown entry, got none")
    if count < least_samples(most):
        raise ValueError(
            f"states, outputs: expected at least {least_samples(most)} steps for "
            f"{most} unknown entries of one row, got {count}"
        )
    intervals = sequential_intervals
    if data == "independent":
        intervals = independent_intervals
    matrix = matrix_of(plant)
    middle = matrix[: plant.order]
    widths = np.zeros(middle.shape)
    rows = np.flatnonzero(unknown.any(axis=1))
    for i in rows:
        mask = unknown[i]
        rest = targets[:, i] - regressors[:, ~mask] @ known[i, ~mask]
        place = tuple(places[:, i, mask])
        found = intervals(regressors[:, mask], rest, miss / len(rows))
        middle[place], widths[place] = found
    n = plant.order
    box = PlantBox(
        with_matrix(plant, matrix),
        A=widths[:, :n],
        B=widths[:, n:],
        assumptions=(
            f"{count} recorded samples that need no protection, since the model is made "
            "of them",
            _ASSUMPTIONS[data],
        ),
        miss=miss,
    )
    return IdentifiedPlant(box, count, data)


def _arx_places(p: int, m: int, order: int) -> NDArray[np.intp]:
    """Places (2, p, order (p + m)) of the coefficients in the observer form's [A B].

    For output i, lag k of output or input j enters row k p + i.
    """
    places = []
    for i in range(p):
        for first, count in ((0, p), (order * p, m)):
            for k in range(order):
                for j in range(count):
                    places.append((k * p + i, first + j))
    return np.array(places).T.reshape(2, p, -1)


def _mask(
    given: ArrayLike | None, shape: tuple[int, int], name: str
) -> NDArray[np.bool_]:
    """Which entries are unknown; all of them by default."""
    if given is None:
        return np.ones(shape, dtype=bool)
    mask = real_array(given, name, shape=shape)
    if not np.isin(mask, (0.0, 1.0)).all():
        raise ValueError(f"{name}: expected True for unknown entries, False for others")
    return mask.astype(bool)


def _names(
    given: Sequence[str] | None, letter: str, count: int, what: str
) -> list[str]:
    """Names of signals, numbered ones by default."""
    if given is None:
        return [f"{letter}{k}" for k in range(count)]
    names = sequence_of(given, what, "names")
    if len(names) != count or not all(isinstance(name, str) for name in names):
        raise ValueError(f"{what}: expected {count} names as text, got others")
    return names


def _runs(
    signals: object,
    inputs: object,
    width: int | None,
    input_width: int | None,
    name: str,
) -> list[tuple[NDArray[np.float64], NDArray[np.float64]]]:
    """Runs as pairs of signals (p, T) and inputs (m, T)."""
    each = signals if isinstance(signals, (list, tuple)) else [signals]
    if not len(each):
        raise ValueError(f"{name}: expected at least one recorded run, got none")
    of_inputs = inputs if isinstance(inputs, (list, tuple)) else [inputs] * len(each)
    if inputs is not None and len(of_inputs) != len(each):
        raise ValueError(
            f"inputs: expected {len(each)} runs as for {name}, got {len(of_inputs)}"
        )
    runs = []
    for signal, driven in zip(each, of_inputs, strict=True):
        one: Any
        for argument, one in ((name, signal), ("inputs", driven)):
            if isinstance(one, str | os.PathLike):
                raise TypeError(
                    f"{argument}: expected recorded numbers, got the {type(one).__name__} "
                    "of a file; read it first, such as by pandas.read_csv(path)"
                )
            if isinstance(one, np.ndarray) and _lacks(one):
                raise ValueError(
                    f"{argument}: a sample is missing (NaN); pass the runs between the "
                    "gaps as a list: without their rows two samples would count as one "
                    "step of the plant, and filled ones are not the plant's"
                )
            if getattr(one, "ndim", None) == 1:
                raise ValueError(
                    f"{argument}: expected a row for each signal and a column for each "
                    f"sample, got shape ({len(one)},); pass one signal as a row, "
                    "y[np.newaxis]"
                )
        found = real_array(signal, name, shape=(width, None))
        count = found.shape[1]
        if driven is None:
            of_run = np.zeros((input_width or 0, count))
        else:
            of_run = real_array(driven, "inputs", shape=(input_width, count))
        runs.append((found, of_run))
    return runs


def _lacks(values: NDArray[np.float64]) -> bool:
    """Return whether an array has an entry that is no number."""
    return values.dtype.kind == "f" and bool(np.isnan(values).any())


def _tables(signals: object) -> list[Any]:
    """Return the pandas tables that a run or several are given as, none if they are not."""
    each = signals if isinstance(signals, (list, tuple)) else [signals]
    is_table = [hasattr(one, "columns") and hasattr(one, "to_numpy") for one in each]
    return list(each) if each and all(is_table) else []


def _have(tables: list[Any], names: Sequence[str]) -> bool:
    """Return whether each table has a column for each of some names."""
    return bool(names) and all(set(names) <= set(table.columns) for table in tables)


def _signals(given: object, names: Sequence[str] | None, argument: str) -> object:
    """Return runs as arrays (k, T), those of tables from the columns of their names."""
    tables = _tables(given)
    if not tables:
        return given
    wanted = [] if names is None else sequence_of(names, argument, "names")
    if not _have(tables, wanted):
        raise ValueError(
            f"{argument}: expected tables with a column for each of "
            f"{', '.join(map(str, wanted)) or 'some names'}, got others; rename the "
            "columns, or pass arrays with a row for each signal"
        )
    for table in tables:
        _check_steps(table, wanted, argument)
    return [table[wanted].to_numpy().T for table in tables]


def _check_steps(table: pd.DataFrame, names: Sequence[str], argument: str) -> None:
    """Refuse a table whose rows do not follow each other, by its index or its times.

    A row that is left out would count as a step of the plant that it never took.
    """
    clocks = {"the index": getattr(table, "index", ())}
    for name in table.columns:
        if name not in names and _is_time(table[name], name):
            clocks[f"the column {name!r}"] = table[name]
    for where, clock in clocks.items():
        steps = np.diff(_moments(clock))
        if not len(steps):
            continue
        usual = np.median(steps)
        follows = np.zeros(len(steps), dtype=bool)
        if usual > 0:
            follows = np.rint(steps / usual) == 1
        if follows.all():
            continue
        raise ValueError(
            f"{argument}: {where} does not grow by one step from row to row, first from "
            f"row {np.argmin(follows)} of the table to the next (the first is row 0): "
            "samples are missing, come twice or are out of order, and two rows would "
            "count as one step of the plant. Sort the table, and pass the runs between "
            "the gaps as a list of tables. If the rows do follow each other, leave that "
            "column out, or number the rows by reset_index(drop=True)"
        )


def _is_time(column: object, name: object) -> bool:
    """Return whether a column of a table holds the times of its rows."""
    values = np.asarray(column)
    return values.ndim == 1 and (
        values.dtype.kind in "mM" or str(name).lower() in _TIMES
    )


def _moments(clock: object) -> NDArray[np.float64]:
    """Return times, or numbers of rows, as floats; none where they are neither."""
    values = np.asarray(clock)
    if values.ndim != 1 or values.dtype.kind not in "mMiufO":
        return np.empty(0)
    if values.dtype.kind == "O":
        with warnings.catch_warnings():  # times with a zone become those of UTC
            warnings.simplefilter("ignore")
            try:
                values = values.astype("datetime64[ns]")
            except (ValueError, TypeError):
                return np.empty(0)
    if values.dtype.kind in "mM":
        values = values.astype("int64")
    return values.astype(float)


def _refuse_clock(table: pd.DataFrame, names: Sequence[str]) -> None:
    """Refuse a column that counts samples or their time, taken for an output untold."""
    for name in names:
        column = table[name]
        if _is_time(column, name):
            raise ValueError(
                f"outputs: the column {name!r} holds times, and would be taken for an "
                "output; name the outputs, output_names=[...], or drop the column"
            )
        if len(column) < _CLOCKED:
            continue
        if column.dtype.kind not in "iuf":
            continue
        steps = np.diff(column.to_numpy(dtype=float))
        level = float(np.max(np.abs(steps)))
        if level > 0 and np.ptp(steps) <= 1e-6 * level:
            raise ValueError(
                f"outputs: the column {name!r} grows by the same step at every sample, as "
                "a clock does, and would be taken for an output; name the outputs, "
                "output_names=[...], or drop the column"
            )


def _arx_steps(
    y: NDArray[np.float64], u: NDArray[np.float64], order: int
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Regressors [y(t-1) .. y(t-k), u(t-1) .. u(t-k)] and targets y(t), one row a step."""
    count = y.shape[1]
    if count <= order:
        raise ValueError(
            f"outputs: expected runs of more than {order} samples, got one of {count}; "
            "an array has a row for each output and a column for each sample, so pass "
            "y.T where each sample is a row"
        )
    past = []
    for signal in (y, u):
        for lag in range(1, order + 1):
            past.append(signal[:, order - lag : count - lag].T)
    return np.hstack(past), y[:, order:].T


# -- intervals of regressions ------------------------------------------------------------


def independent_intervals(
    regressors: NDArray[np.float64], targets: NDArray[np.float64], miss: float
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Centres and half-widths (k,) if the regressors (N, k) are independent of the noise.

    They are those of least squares. Each ratio of an error to its estimated size has
    Student's distribution.
    """
    count, unknowns = regressors.shape
    centre, residue = _least_squares(regressors, targets)
    freedom = count - unknowns
    units = np.linalg.norm(regressors, axis=0)
    scaled = regressors / units
    inverse = np.linalg.inv(scaled.T @ scaled)
    variance = residue / freedom
    sizes = np.sqrt(variance * np.diag(inverse)) / units
    reach = _largest_t(unknowns, freedom, miss)
    return centre, reach * sizes * (1 + CERTAIN)


def sequential_intervals(
    regressors: NDArray[np.float64], targets: NDArray[np.float64], miss: float
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Centres and half-widths (k,) if regressors (N, k) come from earlier targets (N,).

    The columns w of `predictable_weights` have norm one, and each entry comes from what
    was recorded before its e. Hence (w^T e)^2 / e^T e has exactly the beta distribution
    that it has for constant w, since E exp(s w_t e_t - r e_t^2) given the past depends on
    w_t^2 alone, and the squares add up to one. The energy e^T e is bounded by
    `energy_bound`. What is left is a parallelotope W^T (y - Phi theta), whose sides are
    nearly parallel to the axes, and the smallest box around it.
    """
    count, unknowns = regressors.shape
    first = first_samples(regressors)
    energy_share = _ENERGY_SHARE * miss
    energy = energy_bound(regressors, targets, first, energy_share)
    units = np.linalg.norm(regressors, axis=0)
    scaled = regressors / units
    weights = predictable_weights(scaled, first)
    slopes = weights.T @ scaled[first:]
    if not np.linalg.cond(slopes) < _MOST_CONDITION:
        raise ValueError(_TOO_LITTLE.format(count, unknowns))
    inverse = np.linalg.inv(slopes)
    centre = inverse @ (weights.T @ targets[first:])
    each = (miss - energy_share) / unknowns
    reach = beta.isf(each, 0.5, (count - first - 1) / 2) * energy
    widths = math.sqrt(reach) * np.abs(inverse).sum(axis=1)
    return centre / units, widths / units * (1 + CERTAIN)


def predictable_weights(
    regressors: NDArray[np.float64], first: int
) -> NDArray[np.float64]:
    """Weights (N - first, k) for the samples from ``first`` on, with columns of norm one.

    Weights at a sample depend on the regressors (N, k) up to that sample alone. Column j
    follows the plan w = c^T phi that, if the samples to come are like those that were, is
    orthogonal to all regressors but j, and spends its norm. The plan is made again and
    again, so what it missed is made good. The last weight spends the rest.
    """
    count, unknowns = regressors.shape
    energy = regressors[:first].T @ regressors[:first]
    summed = np.zeros((unknowns, unknowns))  # regressors times weights so far
    rest = np.ones(unknowns)
    every = []
    start = first
    while start < count:
        left = count - start
        stop = start + max(1, int(left * _REPLANNED))
        block = regressors[start:stop]
        # least c with left energy c / start = gain I - summed, and the largest gain
        inverse = np.linalg.inv(energy / start)
        owed = inverse @ summed
        slope = np.diag(inverse)
        shift = np.diag(owed)
        offset = np.sum(summed * owed, axis=0) - left * rest
        gain = (shift + np.sqrt(np.maximum(shift**2 - slope * offset, 0))) / slope
        weights = block @ ((inverse * gain - owed) / left)
        if left == 1:
            weights = np.where(weights < 0, -np.sqrt(rest), np.sqrt(rest))
        else:
            spent = np.cumsum(weights**2, axis=0) - weights**2
            limit = np.sqrt(np.maximum(rest - spent, 0))
            weights = np.clip(weights, -limit, limit)
        every.append(weights)
        summed = summed + block.T @ weights
        rest = np.maximum(rest - np.sum(weights**2, axis=0), 0)
        energy = energy + block.T @ block
        start = stop
    return np.vstack(every)


def energy_bound(
    regressors: NDArray[np.float64],
    targets: NDArray[np.float64],
    first: int,
    miss: float,
) -> float:
    """A bound of the noise's energy from sample ``first`` on, wrong with ``miss`` at most.

    The first samples give a first estimate. From there on each target is predicted from
    all earlier ones (Student's t of the conjugate prior). The product of the predicted
    densities over the likelihood of the true parameters has expectation one, so it
    exceeds 1 / miss with probability at most ``miss`` (Markov). The likelihood is bounded
    by its maximum over the size of the noise, which its energy tells.
    """
    count, unknowns = regressors.shape
    rest = count - first
    _, residue_before = _least_squares(regressors[:first], targets[:first])
    _, residue_after = _least_squares(regressors, targets)
    before = (first - unknowns) / 2
    after = (count - unknowns) / 2
    predicted = (
        0.5 * _log_volume(regressors[:first])
        - 0.5 * _log_volume(regressors)
        + before * math.log(residue_before / 2)
        - after * math.log(residue_after / 2)
        + gammaln(after)
        - gammaln(before)
        - rest / 2 * math.log(2 * math.pi)
    )
    exponent = -1 - 2 / rest * (math.log(miss) + predicted)
    return rest / (2 * math.pi) * math.exp(exponent)


def first_samples(regressors: NDArray[np.float64]) -> int:
    """Count the samples at the start that give a first estimate.

    They are a twentieth, and enough of them to tell all parameters.
    """
    count, unknowns = regressors.shape
    first = max(count // 20, 2 * unknowns + 4)
    while first < count // 2 and not _tells(regressors[:first]):
        first = min(2 * first, count // 2)
    return first


def least_samples(unknowns: int) -> int:
    """The least number of samples from which intervals are computed."""
    return 4 * (2 * unknowns + 4)


_TOO_LITTLE = (
    "data: {} samples do not identify {} parameters of one row; vary the inputs more, from "
    "the start on, record more samples, or name the entries that are known"
)


def _tells(regressors: NDArray[np.float64]) -> bool:
    """Return whether regressors (N, k) tell all parameters."""
    sizes = np.linalg.norm(regressors, axis=0)
    if not sizes.all():
        return False
    return bool(np.linalg.cond(regressors / sizes) < _MOST_CONDITION)


def _least_squares(
    regressors: NDArray[np.float64], targets: NDArray[np.float64]
) -> tuple[NDArray[np.float64], float]:
    """The estimate (k,) and the energy of its residuals.

    Raises
    ------
    ValueError
        If the regressors do not tell the parameters, or nothing but rounding is left.
    """
    if not _tells(regressors):
        raise ValueError(_TOO_LITTLE.format(*regressors.shape))
    Q, triangle = scipy.linalg.qr(regressors, mode="economic")
    estimate = scipy.linalg.solve_triangular(triangle, Q.T @ targets)
    residue = float(np.sum((targets - regressors @ estimate) ** 2))
    parts = np.abs(regressors) @ np.abs(estimate) + np.abs(targets)
    if not residue > ROUNDED**2 * float(np.sum(parts**2)):
        raise ValueError(
            "data: they follow the model to the last digits, so there is no noise to "
            "judge an error by; pass a PlantBox with bounds of yours"
        )
    return estimate, residue


def _log_volume(regressors: NDArray[np.float64]) -> float:
    """log det(Phi^T Phi)."""
    triangle = np.linalg.qr(regressors, mode="r")
    return float(2 * np.sum(np.log(np.abs(np.diag(triangle)))))


def _largest_t(unknowns: int, freedom: int, miss: float) -> float:
    """A bound of the largest of several t ratios that fails with probability ``miss``.

    It is exact for uncorrelated ratios, and safe for others (Sidak 1967).
    """
    each = -math.expm1(math.log1p(-miss) / unknowns)
    return float(student.isf(each / 2, freedom))
