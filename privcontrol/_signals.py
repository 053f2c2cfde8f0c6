"""Name the axes of Monte-Carlo trials, as in ``states["position", "trial[3]"]``.

A name is looked up once, in the array that a response gives. What is taken out of it, or
computed from it, is a plain array.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import zip_longest
from types import ModuleType
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .core._linalg import real_array

#: The position of each name along an axis.
Names = Mapping[str, int]


class TrialSignals(np.ndarray):
    """A view of an array whose axes have names, which stand for their positions.

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

    def __getitem__(self, key: Any) -> Any:
        parts = key if isinstance(key, tuple) else (key,)
        names = self.axis_names[: len(parts)]
        if not all(isinstance(part, (int, str, slice, list)) for part in parts):
            names = ()  # an array or ... may stand for several axes
        places = [_place(*each) for each in zip_longest(parts, names)]
        return np.asarray(self)[tuple(places)]

    def __array_wrap__(
        self, array: NDArray, context: object = None, return_scalar: bool = False
    ) -> Any:
        return array[()] if return_scalar else np.asarray(array)

    def __repr__(self) -> str:
        text = repr(np.asarray(self))
        for names in self.axis_names:
            if names is not None:
                text += f",\n{abbreviated(list(names))}"
        return f"TrialSignals(\n{text})"


def _place(key: Any, names: Names | None) -> Any:
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


# -- checks ------------------------------------------------------------------------------


def trial_array(array: ArrayLike, name: str, shape: tuple[int, ...]) -> NDArray:
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


def input_blocks(inputs: Any, trials: int, samples: int) -> list[NDArray]:
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
