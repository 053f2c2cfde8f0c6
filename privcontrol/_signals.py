"""Name the axes of Monte-Carlo trials, as in ``states["position", "trial[3]"]``.

Names are kept only where they are certain. Arithmetic and reshaping give arrays without
names, which refuse a name instead of guessing its place. Inputs that repeat over trials or
time are held once.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import Any, Self

import numpy as np
from control.iosys import NamedSignal
from numpy.typing import ArrayLike, NDArray

from .core._linalg import real_array

Place = tuple[str, int]  # a group of signals, and the position of one in it


# -- arrays with names -------------------------------------------------------------------


class AliasedLabels(list):
    """Labels that are found under other names too, such as those of the measurements."""

    def __init__(self, labels: Iterable[str]) -> None:
        super().__init__(labels)
        self.aliases: dict[str, str] = {}

    def __contains__(self, name: object) -> bool:
        return super().__contains__(self.aliases.get(str(name), name))

    def index(self, name: str) -> int:  # type: ignore[override]
        return super().index(self.aliases.get(name, name))


class TrialSignals(NamedSignal):
    """A view of an array whose axes have labels, which follow numbers, names and slices.

    The labels of each axis come after the array, None for an axis without.

    Examples
    --------
    >>> trials = [f"trial[{k}]" for k in range(20)]
    >>> array = TrialSignals(np.zeros((2, 20, 9)), ["position", "velocity"], trials, None)
    >>> array["position"].shape, array[:, 5:]["velocity", "trial[7]"].shape
    ((20, 9), (9,))
    """

    def __new__(cls, array: ArrayLike, *labels: Sequence[str] | None) -> Self:
        named: Any = np.asarray(array).view(cls)
        named.axis_labels = labels
        return named

    def __array_finalize__(self, source: object) -> None:
        self.axis_labels: tuple = ()

    # the names that python-control's own class has for these
    signal_labels = property(lambda self: self._labels_of(0))
    trace_labels = property(lambda self: self._labels_of(1))
    data_shape = property(lambda self: self.shape)

    def _labels_of(self, axis: int) -> Any:
        if axis < len(self.axis_labels):
            return self.axis_labels[axis]
        return None

    def __getitem__(self, key: Any) -> Any:
        parts = key if isinstance(key, tuple) else (key,)
        places = []
        left: list[Any] = []
        certain = True
        for axis, part in enumerate(parts):
            labels = self._labels_of(axis) if certain else None
            place = _without_names(part, labels)
            places.append(place)
            certain = certain and _takes_one_axis(part)
            if isinstance(place, slice):
                left.append(labels and labels[place])
        result = np.asarray(self)[tuple(places)]
        if not isinstance(result, np.ndarray):
            return result
        if not certain or any(isinstance(place, list) for place in places):
            return TrialSignals(result)
        return TrialSignals(result, *left, *self.axis_labels[len(parts) :])

    def __array_wrap__(
        self, array: NDArray, context: object = None, return_scalar: bool = False
    ) -> Any:
        if return_scalar:
            return array[()]
        return super().__array_wrap__(array, context)

    def __repr__(self) -> str:
        text = repr(np.asarray(self))
        for axis, name in enumerate(("signal_labels", "trace_labels")):
            labels = self._labels_of(axis)
            if labels is not None:
                text += f",\n{name}={abbreviated(labels)}"
        return f"TrialSignals(\n{text})"


def _without_names(key: Any, labels: Sequence[str] | None) -> Any:
    """The key with every name replaced by its position, if the labels are known."""
    if isinstance(key, list):
        return [_without_names(part, labels) for part in key]
    if not isinstance(key, str):
        return key
    if labels is None:
        raise ValueError(
            f"name {key!r}: this axis carries no names (arithmetic, reshaping, masks and "
            "... lose them); index the response's states, outputs or inputs as "
            "[signal, trial, time]"
        )
    if key not in labels:
        raise ValueError(
            f"unknown signal name {key!r}: expected one of {abbreviated(labels)}"
        )
    return labels.index(key)


def _is_number(part: object) -> bool:
    return isinstance(part, (int, np.integer)) and not isinstance(part, bool)


def _takes_one_axis(part: object) -> bool:
    """Whether the key is a number, a name, a slice or a flat list of numbers and names."""
    if isinstance(part, list):
        return all(_is_number(entry) or isinstance(entry, str) for entry in part)
    return _is_number(part) or isinstance(part, (str, slice))


def abbreviated(labels: Sequence, shown: int = 8) -> str:
    """The first few labels, and how many there are."""
    text = ", ".join(map(str, labels[:shown]))
    if len(labels) > shown:
        text += f", ... {len(labels)} in all"
    return f"[{text}]"


# -- groups of signals -------------------------------------------------------------------


class SignalGroups:
    """Labels of the groups of signals that a response has."""

    def __init__(self, **groups: Sequence[str] | None) -> None:
        self.groups = {name: labels for name, labels in groups.items() if labels}

    def find(self, signals: object) -> list[Place]:
        """Places of the signals of one name or several.

        A name is a label, a group (``"outputs"``) or both (``"outputs.y[0]"``). A
        ``ValueError`` says that it is unknown, or stands for signals of two groups.
        """
        names = [signals] if isinstance(signals, str) else signals
        if not isinstance(names, (list, tuple)):
            raise TypeError(
                f"signals: expected a name or a list of names, got {type(names).__name__}"
            )
        if not names:
            raise ValueError("signals: expected at least one name, got none")
        places = []
        for name in names:
            places += self._places(str(name))
        return places

    def _places(self, name: str) -> list[Place]:
        having = [group for group, labels in self.groups.items() if name in labels]
        if len(having) > 1:
            choices = " or ".join(repr(f"{group}.{name}") for group in having)
            raise ValueError(
                f"signal {name!r}: expected a name that occurs once; write {choices}"
            )
        if name in self.groups:
            return [(name, index) for index in range(len(self.groups[name]))]
        group, _, label = name.partition(".")
        if having:
            group = having[0]
            label = name
        if label in self.groups.get(group, ()):
            return [(group, self.groups[group].index(label))]
        known = [f"{group} {abbreviated(self.groups[group])}" for group in self.groups]
        raise ValueError(
            f"unknown signal {name!r}: expected a label or a group among "
            f"{'; '.join(known)}"
        )

    def labels(
        self, places: Sequence[Place], reserved: Iterable[str] = ()
    ) -> list[str]:
        """One label for each place, behind its group if it would occur twice."""
        labels = [self.groups[group][index] for group, index in places]
        count = Counter([*labels, *reserved])
        for k, (group, _) in enumerate(places):
            label = labels[k]
            if count[label] > 1:
                labels[k] = f"{group}.{label}"
        return labels


# -- inputs ------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Pulse:
    """Inputs that are `values` (signals, trials) at the first sample and zero after."""

    values: np.ndarray


class InputBlocks:
    """Blocks of input signals, stacked only when they are read.

    Each is a `Pulse`, or of shape (signals, trials or 1, T or 1).
    """

    def __init__(self, inputs: Any, trials: int, samples: int) -> None:
        self.shape = (trials, samples)
        self.blocks: list[tuple[NDArray, int]] = []  # with their number of samples
        if inputs is None:
            inputs = ()
        if not isinstance(inputs, (list, tuple)):
            inputs = (inputs,)
        for part in inputs:
            length = samples
            if isinstance(part, Pulse):
                length = 1
                part = np.asarray(part.values)[..., None]
            block = readonly(part, "inputs")
            fits = block.ndim == 3 and block.shape[1] in (1, trials)
            if not fits or block.shape[2] not in (1, length):
                raise ValueError(
                    f"inputs: expected blocks (signals, {trials} or 1, {samples} or 1), "
                    f"or a Pulse of (signals, {trials} or 1), got shape {block.shape}"
                )
            self.blocks.append((block, length))

    def __len__(self) -> int:
        return sum(len(block) for block, _ in self.blocks)

    def stacked(self) -> NDArray:
        """All inputs (signals, trials, T), read-only, without a copy of a single block."""
        trials, samples = self.shape
        if len(self.blocks) == 1 and self.blocks[0][1] == samples:
            return np.broadcast_to(self.blocks[0][0], (len(self), trials, samples))
        whole = np.zeros((trials, len(self), samples)).transpose(1, 0, 2)
        start = 0
        for block, length in self.blocks:
            stop = start + len(block)
            whole[start:stop, :, :length] = block
            start = stop
        return readonly(whole, "inputs")


# -- checks ------------------------------------------------------------------------------


def readonly(array: ArrayLike, name: str) -> NDArray:
    """A read-only view of a real array, without a copy or a look at its entries."""
    view = np.asarray(array).view()
    if view.dtype.kind not in "iuf":
        raise TypeError(f"{name}: expected real numbers, got dtype {view.dtype}")
    view.flags.writeable = False
    return view


def trial_array(array: ArrayLike, name: str, shape: tuple) -> NDArray:
    """A read-only view of a (signals, trials, T) array, whose last lengths may be known."""
    view = readonly(array, name)
    known = len(shape)
    if view.ndim != 3 or not view.size or view.shape[3 - known :] != shape:
        words = [*("signals", "trials")[: 3 - known], *map(str, shape)]
        raise ValueError(
            f"{name}: expected shape ({', '.join(words)}), got {view.shape}"
        )
    return view


def distinct_labels(labels: Any, name: str, prefix: str, count: int) -> list[str]:
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


def signal_rows(values: ArrayLike, count: int, samples: int, name: str) -> NDArray:
    """A number, (count,) or (count, T) as a read-only (count, T) array."""
    array = real_array(values, name)
    if array.ndim == 1:
        array = array[:, None]
    if array.shape not in ((), (count, 1), (count, samples)):
        raise ValueError(
            f"{name}: expected a number, ({count},) or ({count}, {samples}), got shape "
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
