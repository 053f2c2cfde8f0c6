"""Certify how far output noise separates the runs that a secret makes possible.

The shift y of a hidden move is its effect on the outputs once the noise is whitened, in
standard deviations of white noise. Three routes certify it. Moves of a state under
structured noise and a floor need n x n matrices in balls, for any horizon. Other noise of a
run is a dense triangular root. Runs of any length, and plants that vary, need the
energy over all times, in balls or by linear matrix inequalities.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from ..core.adjacency import Adjacency
from ..core.manifold import Moves, attaining
from ..numerics.errors import NotRealizableError, UncertifiableError
from ..numerics.linalg import float_above, one_thread
from ..numerics.thresholds import CERTAIN
from ..privacy.horizon import horizon_of
from ..privacy.loss import PrivacyLoss
from ..secrets.hiding import LEAVES, NoiseForm
from ..secrets.secret import SecretInputs
from ..secrets.secrets import Secrets
from ..secrets.squares import squares_of
from ..systems.linear import Plant
from ._patterns import MOST_EXACT
from ._varying import inverted_at_entry, shift_between
from .fleet import shift_of_fleet
from .parts import Driven, Filtered, NoisePart, PartSum
from .whitened import dense_root, shift_sizes


@dataclass(frozen=True, eq=False)
class Shift:
    """Hold how far the worst hidden move shifts Gaussian noise.

    Attributes
    ----------
    value : float
        A number that no privacy shift exceeds.
    exact : bool
        Whether some move attains it.
    squares : ndarray, shape (M,)
        Bounds of y^2 for each move and each ball, where they are distinguished.
    single : bool
        Whether the squares are those of the adjacency's moves in order, one for each.
    """

    value: float
    exact: bool = False
    squares: NDArray[np.float64] = field(default_factory=lambda: np.zeros(0))
    single: bool = False

    def __post_init__(self) -> None:
        """Refuse NaN, which no comparison would notice later."""
        if not self.value >= 0:
            raise UncertifiableError(
                "no bound of the shift is verified: in double precision it is no number; "
                "rescale the plant, or shorten the horizon"
            )

    @classmethod
    def joined(cls, found: Sequence[Shift]) -> Shift:
        """Return the largest shift under several plants."""
        if len(found) == 1:
            return found[0]
        value = max(each.value for each in found)
        exact = all(each.exact for each in found)
        return cls(value, exact, np.concatenate([each.squares for each in found]))

    @classmethod
    def of_squares(
        cls, squares: NDArray[np.float64], exact: bool, single: bool = False
    ) -> Shift:
        """Return the largest shift of moves of certified squares."""
        largest = math.sqrt(squares.max())
        return cls(float_above(largest), exact, squares, single)

    @property
    def moves(self) -> tuple[int, ...]:
        """Indices of the moves that attain the shift, as far as they are known."""
        if not (self.exact and self.single and self.value):
            return ()
        return attaining(np.sqrt(self.squares))

    def beside_grid(self, grid: float) -> PrivacyLoss:
        """Return the loss, with a sensor grid's contribution to every shift."""
        if grid == 0:
            return PrivacyLoss.gaussian(self.value, self.moves, self.exact)
        shift = float_above(self.value + grid)
        return PrivacyLoss.gaussian(shift, (), False)


@one_thread
def certified_shift(
    parts: Sequence[NoisePart],
    adjacency: Adjacency,
    plants: Sequence[Plant],
    horizon: float,
    *,
    varying: bool = False,
    largest: float = math.inf,
) -> Shift:
    """Return how far Gaussian noise, as it is, hides a secret of some plants.

    Parameters
    ----------
    parts : sequence of NoisePart
        Their sum is the noise.
    adjacency : Adjacency
    plants : sequence of Plant
        One of them is the true one. With ``varying`` the true one may be another weighted
        mean of them at every sample.
    horizon : int or inf
    largest : float, optional
        A bound above it is of no use, and may be given as inf.

    Raises
    ------
    NotRealizableError
        If a move leaves what the noise covers.
    UncertifiableError
        If no bound is verified.
    ValueError
        If the noise or the secret has no such bound, with the reason.
    """
    secret = Secrets(adjacency)
    horizon = horizon_of(horizon)
    lasting = not horizon.ends or any(isinstance(part, Filtered) for part in parts)
    if not (varying or lasting):
        run = int(horizon)
        return Shift.joined([_of_run(parts, secret, each, run) for each in plants])
    length = horizon if varying else math.inf
    each = [plants] if varying else [[plant] for plant in plants]
    bounds = []
    entered = []
    for those in each:
        fleet = None if varying else shift_of_fleet(parts, adjacency, those[0])
        if fleet is None:
            entered.append(secret.under(those))
            bounds.append(shift_between(parts, entered[-1], length, largest))
        else:
            bounds.append(fleet)
    exact = False
    if not horizon.ends and len(plants) == 1 and entered:
        ((inputs,),) = entered
        exact = _is_attained(parts, secret, inputs)
    return Shift(float(np.max(bounds)), exact)


def _is_attained(
    parts: Sequence[NoisePart], secret: Secrets, inputs: SecretInputs
) -> bool:
    """Return whether some hidden change has the shift of lasting noise, rather than less.

    A floor hides too, and an l2 gain is a bound. A state at the start is also hidden by
    what the noise was before, which nobody has seen.
    """
    if len(parts) > 1 or inputs.several or secret.is_covered or secret.hides_start:
        return False
    if any(part.events > 1 and part.separation for part in secret.disturbances):
        return False
    if any(window.size > MOST_EXACT for window in inputs.windows):
        return False
    entered, _ = parts[0].drive or (None, None)
    return entered is None or inputs.energies is not None


# -- over a horizon ----------------------------------------------------------------------


def _of_run(
    parts: Sequence[NoisePart], secret: Secrets, plant: Plant, horizon: int
) -> Shift:
    """Certify how far noise hides the moves of a run of one plant."""
    form = PartSum(parts).form(plant, horizon)
    if form is not None and not secret.disturbances:
        return _of_form(form, secret.moves(plant, horizon), plant)
    is_alone = len(parts) == len(secret.disturbances) == len(secret.parts) == 1
    if is_alone and not plant.varies:
        own = inverted_at_entry(parts[0], secret.entering(plant))
        if own is not None:
            square = own.shift(horizon) ** 2
            exact = isinstance(parts[0], Driven) and not secret.is_covered
            return Shift.of_squares(np.array([square * (1 + 1e-15)]), exact)
    responses = secret.responses([plant], horizon)
    if not responses.moved.any():
        return Shift.of_squares(np.zeros(1), True)
    root, error_bound = dense_root(parts, horizon)
    if root is None:
        raise NotRealizableError(LEAVES.format(name=plant.name))
    sizes = shift_sizes(root, responses) * (1 + error_bound)
    exact = responses.exact and error_bound < CERTAIN
    single = not (responses.balls or responses.apart or responses.windows)
    return Shift.of_squares(sizes**2 * (1 + 1e-15), exact, single)


def _of_form(form: NoiseForm, moves: Sequence[Moves], plant: Plant) -> Shift:
    """Certify how far structured noise, a floor, or both hide moves of the state."""
    every = [squares_of(form, each, plant) for each in moves]
    exact = all(each.exact for each in moves) and form.attains(plant)
    single = not any(each.is_ball for each in moves)
    return Shift.of_squares(np.concatenate(every), exact, single)
