"""Secrets whose effect on the outputs of a plant decays.

In runs of any length noise of bounded size hides no other ones. A secret whose effect lasts
or grows is refused with the mode by name and with what to do.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ..numerics.thresholds import ROUNDED
from ..systems.linear import Plant
from .modes import largest_mode
from .secret import SecretInputs, keeping, seen_of
from .secrets import Secrets


def endless_secret(secret: Secrets, plant: Plant) -> SecretInputs:
    """Return a secret as inputs of a plant, refused if its effect does not decay."""
    if any(part.times is not None for part in secret.disturbances):
        raise ValueError(
            "times: without a horizon a disturbance may change at every sample; leave "
            "times out, or design for a finite horizon"
        )
    inputs = secret.entering(plant)
    kept = seen_of([inputs])
    is_moved = any(part.moved for part in secret.disturbances)
    is_either = any(part.moved and part.which for part in secret.disturbances)
    _check_forgotten(inputs, _names_of(inputs, plant), kept, is_moved, is_either)
    (found,) = keeping([inputs], kept)
    return found


def _names_of(inputs: SecretInputs, plant: Plant) -> tuple[str, ...]:
    """Return names of the states of a secret's system, the plant's own ones last."""
    if inputs.without_one:  # in coordinates of their own
        return tuple(f"mode[{k}]" for k in range(inputs.system.order))
    others = inputs.system.order - plant.order
    return (*(f"delayed[{k}]" for k in range(others)), *plant.states)


def _is_unseen(A: NDArray[np.float64], C: NDArray[np.float64]) -> bool:
    """Return whether no output sees any mode on the unit circle or outside it."""
    values, vectors = np.linalg.eig(A)
    is_lasting = np.abs(values) > 1 - ROUNDED
    shown = np.abs(C @ vectors[:, is_lasting])
    return shown.max() <= ROUNDED * np.abs(C).max()


def _check_forgotten(
    inputs: SecretInputs,
    names: tuple[str, ...],
    kept: NDArray[np.bool_],
    is_moved: bool,
    is_either: bool,
) -> None:
    """Refuse a secret whose kept states (n,) do not all decay, by the mode's name.

    It is events whose time is secret (``is_moved``), or time and signal (``is_either``).
    """
    system = inputs.system
    A = system.A[np.ix_(kept, kept)]
    values = np.linalg.eigvals(A)
    sizes = np.abs(values)
    radius = sizes.max(initial=0.0)
    if radius > 1 - ROUNDED:
        mode = largest_mode(A, tuple(np.array(names)[kept]))
        kind = "unstable mode" if radius > 1 + ROUNDED else "mode that never decays"
        is_unseen = _is_unseen(A, system.C[:, kept])
        is_one = np.all(np.abs(values[sizes > 1 - ROUNDED] - 1) <= ROUNDED)
        if is_unseen and is_moved and inputs.without_one and is_one:
            raise ValueError(
                "moved: the plant has a mode that is 1 but for rounding errors, as "
                "after sampling, so the effect of a moved event on it does not cancel "
                "exactly, as runs of any length require. Design for a finite horizon, or "
                "close a local loop around it (with_local_loop)"
            )
        if is_unseen:
            raise ValueError(
                f"horizon: the plant has the {kind} {mode}, which no output sees but for "
                "rounding errors; write the plant without it, for example with differences "
                "of states in place of the states"
            )
        if is_either:
            raise ValueError(
                f"which: which signal an event is on stays in the {kind} {mode}, or is "
                "not known to cancel there exactly, as runs of any length require. With "
                "moved= all modes that the signals drive have to decay: hide the time "
                "alone (which=False), design for a finite horizon, or close a local loop "
                "around the mode (with_local_loop)"
            )
        if is_moved:
            raise ValueError(
                f"moved: the time of an event stays in the {kind} {mode}, which the outputs "
                "see: only one simple pole at one, exactly, such as a tank's or a meter's, "
                "is no obstacle to runs of any length. A double integrator, an undamped or "
                "an unstable mode does not lose the time: design for a finite horizon, or "
                "close a local loop around it (with_local_loop)"
            )
        timed = ""
        if is_one and np.count_nonzero(sizes > 1 - ROUNDED) == 1:
            timed = (
                "hide when something enters, not whether (moved= of the adjacency); "
            )
        raise ValueError(
            f"horizon: the secret drives the {kind} {mode}, which the outputs see, and no "
            "noise of bounded size hides it in runs of any length. Design for a finite "
            f"horizon; {timed}protect an input whose effect decays, with duration= for a change "
            "that lasts; or stabilise the mode by a local loop and take the closed loop as "
            "the plant"
        )
