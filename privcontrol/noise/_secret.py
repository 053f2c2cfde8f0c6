"""Secrets of a run that never ends.

Noise of bounded size hides what the plant forgets. A secret that the plant remembers for ever,
or that grows in it, is refused with the mode by name and with what to do.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from ..core.adjacency import Adjacency
from ..core.errors import PrivacyError
from ..secrets.disturbance import disturbances
from ..secrets.modes import growing_mode
from ..secrets.secret import SecretInputs, as_secret, secret_inputs, seen_of
from ..systems.plant import Plant

_LATER_STATES = (
    "models: a state at a later time fixes what came before it through the inverse of the "
    "plant, which is not known if the plant may vary; protect the initial state "
    "(StateAdjacency(..., times=0)), or what enters during the run with a "
    "DisturbanceAdjacency"
)
#: Distance from the unit circle below which a mode counts as one that does not decay.
_UNDAMPED = 1e-9


def endless_secret(adjacency: Adjacency, plant: Plant) -> SecretInputs:
    """The secret that an adjacency describes, refused if the plant never forgets it."""
    if any(part.times is not None for part in disturbances(adjacency)):
        raise ValueError(
            "times: without a horizon a disturbance may change at any time; leave "
            "times out, or design for a finite horizon"
        )
    inputs = secret_inputs(adjacency, plant)
    kept = seen_of([inputs])
    _check_forgotten(plant, kept)
    secret = inputs.keeping(kept)
    if not (secret.system.D.any() or secret.system.order):
        raise PrivacyError(
            "no hidden move changes what is published: no noise is needed for this "
            "adjacency"
        )
    return secret


def secrets_of(
    adjacency: Adjacency, vertices: Sequence[Plant]
) -> tuple[SecretInputs, ...]:
    """The secret under each vertex, with the same states in all.

    Raises
    ------
    ValueError
        If a state at a later time is secret.
    PrivacyError
        If no output depends on the secret.
    """
    if not all(as_secret(part).suits_any_plant for part in adjacency.parts):
        raise ValueError(_LATER_STATES)
    every = [secret_inputs(adjacency, plant) for plant in vertices]
    kept = seen_of(every)
    if not kept.any():  # a plant whose secret no output sees has one state at zero
        kept[0] = True
    secrets = tuple(inputs.keeping(kept) for inputs in every)
    if not any(secret.system.C.any() or secret.system.D.any() for secret in secrets):
        raise PrivacyError(
            "no hidden move changes what is published: no noise is needed for this "
            "adjacency"
        )
    return secrets


def _is_unseen(A: NDArray, C: NDArray) -> bool:
    """Return whether no output sees any mode on the unit circle or outside it."""
    values, vectors = np.linalg.eig(A)
    lasting = vectors[:, np.abs(values) > 1 - _UNDAMPED]
    return np.abs(C @ lasting).max() <= _UNDAMPED * np.abs(C).max()


def _check_forgotten(plant: Plant, kept: NDArray) -> None:
    """Refuse a plant some of whose kept states (n,) do not decay, by the mode's name."""
    A = plant.A[np.ix_(kept, kept)]
    radius = np.abs(np.linalg.eigvals(A)).max(initial=0.0)
    if radius > 1 - _UNDAMPED:
        states = tuple(np.array(plant.states)[kept])
        mode = growing_mode(replace(plant, A=A, states=states))
        kind = "unstable mode" if radius > 1 + _UNDAMPED else "mode that never decays"
        if _is_unseen(A, plant.C[:, kept]):
            raise ValueError(
                f"horizon: the plant has the {kind} {mode}, which no output sees but for "
                "rounding errors; write the plant without it, for example with differences "
                "of states in place of the states"
            )
        raise ValueError(
            f"horizon: the secret drives the {kind} {mode}, which the outputs see, and no "
            "noise of bounded size hides it for ever. Design for a finite horizon; protect "
            "an input that the plant forgets, with duration= for a change that lasts; or "
            "stabilise the mode by a local loop and take the closed loop as the plant"
        )
