"""The user's own code on private values: whatever it raises, the text stays behind, since it may show them.

The error that is raised instead has neither cause nor context, and no frame of the user's code in its traceback.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ._linalg import real_array


def answer(
    function: Callable, what: str, advice: str, *inputs: Any, **options: Any
) -> Any:
    """``function(*inputs, **options)``; an exception of it becomes a ``RuntimeError`` without its text.

    Parameters
    ----------
    function : callable
    what : str
        Its name in the message.
    advice : str
        What to do, the end of the message.
    *inputs : array_like
        Their shapes are said.
    **options
        Passed on, and not mentioned.

    Raises
    ------
    RuntimeError
        If the function raised an exception.
    """
    try:
        return function(*inputs, **options)
    except Exception as error:
        kind = type(error).__name__
    shapes = " and ".join(str(np.shape(x)) for x in inputs)
    raise RuntimeError(
        f"{what}: raised {kind} on an input of shape {shapes}; its text is withheld, it may show the input. {advice}"
    )


def private_array(value: Any, name: str) -> NDArray:
    """A new, finite array of real numbers from whatever a user holds; no error shows an entry, or keeps one.

    Raises
    ------
    TypeError, ValueError
        As for `real_array`, and where the value cannot be read at all.
    """
    return real_array(value, name)
