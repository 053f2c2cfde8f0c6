"""Arrays of Monte-Carlo trials that are indexed by name: signals by their label, trials as ``trial[k]``.

Names are kept only where they are certain: arithmetic and reshaping give arrays without names, which refuse a name
instead of guessing its place. Inputs that repeat over trials or time are held once.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import Any, Self

import numpy as np
from control.iosys import NamedSignal
from numpy.typing import ArrayLike, NDArray

from .core._linalg import positive_integer, real_array


class TrialLabels(Sequence):
    """The labels ``trial[0]``, ``trial[1]``, ... made when they are read, so that a million trials cost nothing.

    Examples
    --------
    >>> labels = TrialLabels(range(20000))
    >>> labels[-1], labels.index("trial[17]"), list(labels[5:7])
    ('trial[19999]', 17, ['trial[5]', 'trial[6]'])
    """

    def __init__(self, numbers: range) -> None:
        self.numbers = numbers

    def __len__(self) -> int:
        return len(self.numbers)

    def __getitem__(self, key: Any) -> Any:
        return (
            TrialLabels(self.numbers[key])
            if isinstance(key, slice)
            else f"trial[{self.numbers[key]}]"
        )

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and list(self) == list(other)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return abbreviated(self)

    def __contains__(self, label: object) -> bool:
        match: Any = (
            re.fullmatch(r"trial\[(0|[1-9]\d*)\]", label)
            if isinstance(label, str)
            else None
        )
        return bool(match) and int(match[1]) in self.numbers

    def index(self, label: Any) -> int:  # type: ignore[override]
        """Position of a label.

        Raises
        ------
        ValueError
            If there is no such trial.
        """
        if label not in self:
            raise ValueError(f"expected a trial among {self!r}, got {label!r}")
        return self.numbers.index(int(label[len("trial[") : -1]))


class TrialSignals(NamedSignal):
    """A view of an array whose axes may be labelled; the labels follow integers, slices and one list.

    Parameters
    ----------
    array : ndarray
    *labels : sequence of str or None
        The labels of each axis, None for an axis without.

    Examples
    --------
    >>> array = TrialSignals(np.zeros((2, 20, 9)), ["position", "velocity"], TrialLabels(range(20)), None)
    >>> array["position"].shape, array["velocity", "trial[3]"].shape, array[:, 5:]["position", "trial[7]"].shape
    ((20, 9), (9,), (9,))
    """

    def __new__(cls, array: ArrayLike, *labels: Sequence[str] | None) -> Self:
        named: Any = np.asarray(array).view(cls)
        named.axis_labels = labels
        return named

    def __array_finalize__(self, source: Any) -> None:
        self.axis_labels: tuple = ()

    # What python-control's own class calls the labels.
    signal_labels = property(
        lambda self: self.axis_labels[0] if self.axis_labels else None
    )
    trace_labels = property(
        lambda self: self.axis_labels[1] if len(self.axis_labels) > 1 else None
    )
    data_shape = property(lambda self: self.shape)

    def __getitem__(self, key: Any) -> Any:
        keys = key if isinstance(key, tuple) else (key,)
        index = tuple(
            self._position(part, axis if all(map(_one_axis, keys[:axis])) else None)
            for axis, part in enumerate(keys)
        )
        result = np.asarray(self)[index if isinstance(key, tuple) else index[0]]
        return (
            TrialSignals(result, *self._labels_after(index))
            if isinstance(result, np.ndarray)
            else result
        )

    def _position(self, key: Any, axis: int | None) -> Any:
        """The key with every name replaced by its place on the axis; None is an axis that is not certain."""
        if isinstance(key, list):
            return [self._position(part, axis) for part in key]
        if not isinstance(key, str):
            return key
        labels = (
            self.axis_labels[axis]
            if axis is not None and axis < len(self.axis_labels)
            else None
        )
        if labels is None:
            raise ValueError(
                f"name {key!r}: this axis carries no names (arithmetic, reshaping, masks and ... lose them); "
                "index the response's states, outputs or inputs as [signal, trial, time]"
            )
        if key not in labels:
            raise ValueError(
                f"unknown signal name {key!r}: expected one of {abbreviated(labels)}"
            )
        return labels.index(key)

    def _labels_after(self, index: tuple) -> tuple:
        """Labels of the axes that are left; none after masks, index arrays, or a list beside a list or a number."""
        lists = sum(isinstance(part, list) for part in index)
        if (
            not all(map(_one_axis, index))
            or lists > 1
            or (lists and any(map(_is_number, index)))
        ):
            return ()
        kept = [
            _selected(labels, part)
            for labels, part in zip(self.axis_labels, index)
            if not _is_number(part)
        ]
        return (*kept, *self.axis_labels[len(index) :])

    def __array_wrap__(
        self, array: Any, context: Any = None, return_scalar: bool = False
    ) -> Any:
        return array[()] if return_scalar else super().__array_wrap__(array, context)

    def __repr__(self) -> str:
        named = zip(("signal_labels", "trace_labels"), self.axis_labels)
        names = [
            f",\n{name}={abbreviated(labels)}"
            for name, labels in named
            if labels is not None
        ]
        return f"TrialSignals(\n{np.asarray(self)!r}{''.join(names)})"


def _is_number(part: object) -> bool:
    return isinstance(part, (int, np.integer)) and not isinstance(part, bool)


def _one_axis(part: object) -> bool:
    """Whether the key takes exactly one axis: a number, a name, a slice or a flat list of numbers and names."""
    if isinstance(part, list):
        return all(_is_number(entry) or isinstance(entry, str) for entry in part)
    return _is_number(part) or isinstance(part, (str, slice))


def _selected(labels: Sequence[str] | None, part: Any) -> Sequence[str] | None:
    if labels is None or isinstance(part, slice):
        return labels if labels is None else labels[part]
    return [labels[entry] for entry in part]


def abbreviated(labels: Sequence, shown: int = 8) -> str:
    """The labels as a short list: the first few and how many there are."""
    text = ", ".join(map(str, labels[:shown]))
    return (
        f"[{text}]" if len(labels) <= shown else f"[{text}, ... {len(labels)} in all]"
    )


class SignalGroups:
    """Finds signals by label, by group and label (``"outputs.y[0]"``), or as a whole group (``"outputs"``).

    Parameters
    ----------
    **groups : sequence of str or None
        The labels of each group; None for a group that is absent.
    """

    def __init__(self, **groups: Sequence[str] | None) -> None:
        self.groups = {
            group: labels for group, labels in groups.items() if labels is not None
        }

    def find(self, signals: Any) -> list[tuple[str, int]]:
        """The (group, index) of every signal of a name or a sequence of names.

        Raises
        ------
        ValueError
            If a name is unknown, or a label occurs in two groups and does not say which is meant.
        """
        names = [signals] if isinstance(signals, str) else signals
        if not isinstance(names, (list, tuple)):
            raise TypeError(
                f"signals: expected a name or a list of names, got {type(names).__name__}"
            )
        for name in names:
            if not isinstance(name, str):
                raise TypeError(f"signals: expected names, got {type(name).__name__}")
        if not names:
            raise ValueError("signals: expected at least one name, got none")
        return [place for name in names for place in self._places(name)]

    def _places(self, name: str) -> list[tuple[str, int]]:
        places = [
            (group, labels.index(name))
            for group, labels in self.groups.items()
            if name in labels
        ]
        if len(places) > 1:
            choices = " or ".join(repr(f"{group}.{name}") for group, _ in places)
            raise ValueError(
                f"signal {name!r}: expected a name that occurs once; write {choices}"
            )
        if not places and name in self.groups:
            return [(name, index) for index in range(len(self.groups[name]))]
        if not places:
            group, _, label = str(name).partition(".")
            if label not in self.groups.get(group, ()):
                known = "; ".join(
                    f"{group} {abbreviated(labels)}"
                    for group, labels in self.groups.items()
                )
                raise ValueError(
                    f"unknown signal {name!r}: expected a label or a group among {known}"
                )
            places = [(group, self.groups[group].index(label))]
        return places

    def labels(
        self, places: Iterable[tuple[str, int]], reserved: Iterable[str] = ()
    ) -> list[str]:
        """One distinct label per place: the group stands before labels that would occur twice."""
        labels = [self.groups[group][index] for group, index in places]
        taken = Counter([*labels, *reserved])
        return [
            f"{group}.{label}" if taken[label] > 1 else label
            for (group, _), label in zip(places, labels)
        ]


@dataclass(frozen=True, eq=False)
class Pulse:
    """Inputs that are `values`, (signals, trials), at the first sample and zero after, held without the zeros."""

    values: np.ndarray


class InputBlocks:
    """Blocks of input signals, each (signals, trials or 1, T or 1) or a `Pulse`, stacked only when they are read.

    Parameters
    ----------
    inputs : None, ndarray, Pulse or sequence of them
        The blocks, from the first signal to the last.
    trials, samples : int
        Shape of the whole array beside its signals.
    """

    def __init__(self, inputs: Any, trials: int, samples: int) -> None:
        parts = (
            ()
            if inputs is None
            else inputs
            if isinstance(inputs, (list, tuple))
            else (inputs,)
        )
        self.shape, self.blocks = (trials, samples), []
        for part in parts:
            pulse = isinstance(part, Pulse)
            array = readonly(
                np.asarray(part.values)[..., None] if pulse else part, "inputs"
            )
            if (
                array.ndim != 3
                or array.shape[1] not in (1, trials)
                or array.shape[2] not in (1, samples)
            ):
                raise ValueError(
                    f"inputs: expected blocks (signals, {trials} or 1, {samples} or 1), or a Pulse of "
                    f"(signals, {trials} or 1), got shape {array.shape[:-1] if pulse else array.shape}"
                )
            self.blocks.append((array, pulse))

    def __len__(self) -> int:
        return sum(len(array) for array, _ in self.blocks)

    def stacked(self) -> NDArray:
        """All inputs, (signals, trials, T), read-only; one block is not copied."""
        if len(self.blocks) == 1 and not self.blocks[0][1]:
            return np.broadcast_to(self.blocks[0][0], (len(self), *self.shape))
        trials, samples = self.shape
        whole = np.zeros((trials, len(self), samples)).transpose(1, 0, 2)
        start = 0
        for array, pulse in self.blocks:
            whole[start : start + len(array), :, : 1 if pulse else None] = array
            start += len(array)
        return readonly(whole, "inputs")


def readonly(array: ArrayLike, name: str) -> NDArray:
    """A read-only view of a real array, without a copy and without a look at its entries."""
    view = np.asarray(array).view()
    if view.dtype.kind not in "iuf":
        raise TypeError(f"{name}: expected real numbers, got dtype {view.dtype}")
    view.flags.writeable = False
    return view


def trial_array(array: ArrayLike, name: str, shape: tuple[int | None, ...]) -> NDArray:
    """A read-only view of a (signals, trials, T) array; None is a free length."""
    view = readonly(array, name)
    if (
        view.ndim != 3
        or any(want not in (None, got) for want, got in zip(shape, view.shape))
        or 0 in view.shape
    ):
        want = ", ".join(
            word if length is None else str(length)
            for word, length in zip(("signals", "trials", "T"), shape)
        )
        raise ValueError(f"{name}: expected shape ({want}), got {view.shape}")
    return view


def distinct_labels(labels: Any, name: str, prefix: str, count: int) -> list[str]:
    """`count` distinct labels as a list, ``prefix[i]`` for None."""
    labels = [f"{prefix}[{i}]" for i in range(count)] if labels is None else labels
    labels = [labels] if isinstance(labels, str) else list(labels)
    if len(labels) != count or not all(isinstance(label, str) for label in labels):
        raise ValueError(f"{name}: expected {count} strings, got {abbreviated(labels)}")
    if len(set(labels)) < count:
        raise ValueError(f"{name}: expected distinct labels, got {abbreviated(labels)}")
    return labels


class AliasedLabels(list):
    """Labels that are found under other names as well, such as those of the measurements behind what is published."""

    def __init__(self, labels: Iterable[str], aliases: Mapping[str, str]) -> None:
        super().__init__(labels)
        self.aliases = dict(aliases)

    def __contains__(self, name: Any) -> bool:
        return super().__contains__(self.aliases.get(name, name))

    def index(self, name: Any) -> int:  # type: ignore[override]
        """Position of a label or of another name for it."""
        return super().index(self.aliases.get(name, name))


def aliased(
    labels: Sequence[str],
    aliases: Mapping[str, str] | None,
    *others: Iterable[str] | None,
) -> Sequence[str]:
    """The labels, found under aliases as well that no label of their own group or of another one is."""
    taken = {*labels, *(label for group in others for label in group or ())}
    free = {name: label for name, label in (aliases or {}).items() if name not in taken}
    return AliasedLabels(labels, free) if free else labels


def signal_rows(values: ArrayLike, count: int, samples: int, name: str) -> NDArray:
    """A number, (count,) or (count, T) as a read-only (count, T) array."""
    array = real_array(values, name)
    array = array[:, None] if array.ndim == 1 else array
    if array.shape not in ((), (count, 1), (count, samples)):
        raise ValueError(
            f"{name}: expected a number, ({count},) or ({count}, {samples}), got shape {np.shape(values)}"
        )
    return np.broadcast_to(array, (count, samples))


def plant_part(
    count: int | None, reference: ArrayLike | None, states: int | None, samples: int
) -> tuple[int, NDArray | None]:
    """Number of plant states among the states (None: not kept), and their reference as (n, T) or None."""
    if count is None:
        count = (
            len(np.atleast_1d(0 if reference is None else reference))
            if states is None
            else states
        )
    elif positive_integer(count, "plant_states") > (
        count if states is None else states
    ):
        raise ValueError(
            f"plant_states: expected at most the {states} states, got {count}"
        )
    return count, None if reference is None else signal_rows(
        reference, count, samples, "reference"
    )


def pandas() -> ModuleType:
    """The optional package, loaded when a table is asked for."""
    try:
        import pandas as package
    except ImportError as error:
        raise ImportError("to_pandas needs pandas: pip install pandas") from error
    return package
