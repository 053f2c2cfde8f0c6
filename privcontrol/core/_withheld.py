"""Running the user's own code on private values, whose errors may show them.

The error that is raised instead has neither cause nor context, and no frame of the user's
code in its traceback.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np


def answer(
    function: Callable, what: str, advice: str, *inputs: Any, **options: object
) -> Any:
    """Return ``function(*inputs, **options)``, or raise an error without its text.

    The ``RuntimeError`` names the function as ``what``, says the shapes of the inputs and
    ends with the ``advice``.
    """
    try:
        return function(*inputs, **options)
    except Exception as error:
        kind = type(error).__name__
    shapes = " and ".join(str(np.shape(x)) for x in inputs)
    raise RuntimeError(
        f"{what}: raised {kind} on an input of shape {shapes}; its text is withheld, it "
        f"may show the input. {advice}"
    )
