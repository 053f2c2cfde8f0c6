"""Say how far noise hides a secret of a plant that changes from sample to sample.

Structured noise, which is drawn once, hides nothing of a plant that may vary. A white
floor, filtered noise, and noise that enters the plant with the secret do. Let
z+ = A z + B w, v = C z + D w be what is left of a secret w after such noise is inverted, with
matrices that may be those of any vertex at any sample. If a matrix P >= 0 obeys
P >= A^T P A + C^T C at every vertex, then the energy of v after a state z is at most
z^T P z, for any sequence of vertices, and so it is for everything between them (the
right side is convex in the matrices). Semidefinite programs find P. Ball arithmetic
verifies every inequality, and only what is verified is returned.
"""

from __future__ import annotations

import math
import warnings
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

from ..numerics.balls import (
    CERTIFICATE_BITS,
    Ball,
    BallMatrix,
    ball_matrix,
    block_balls,
    diagonal_balls,
    identity_balls,
    is_positive_definite,
    largest_eigenvalue,
    midpoints,
    submatrix,
    upper_float,
    working_bits,
)
from ..numerics.errors import UncertifiableError
from ..numerics.linalg import EPS, float_above
from ..numerics.objects import ByContent
from ..numerics.saved import Saved
from ..numerics.thresholds import NEGLIGIBLE, ROUNDED
from ..privacy.repetition import growth_apart
from ..secrets.secret import SecretInputs, SignalMoves, WindowMoves
from ..systems.linear import (
    Autoregression,
    LinearSystem,
    beside,
    impulse_energies,
    observability_gramian,
    queue_of,
    reachability_gramian,
    spectral_radius,
    sum_of,
    transformed,
)
from ._autoregression import hides_by_correlations, shift_behind_autoregression
from ._endless import joint_shift, shift_behind, shift_of_system
from .parts import NoisePart, PartSum

if TYPE_CHECKING:
    from cvxpy import Expression, Problem, Variable

#: Samples times vertices up to which a bound for the finite horizon alone is tried as well.
_SHORT = 1000
#: What every inequality is solved with to spare, in coordinates in which the mean plant has
#: the P of ones, and a privacy shift of one. The first one is above most solvers' errors.
_MARGINS = (1e-7, 1e-9, 1e-5)
#: Size of directions of the state that the noise hardly lets through, in the coordinates.
_FAINT = 1e-7
#: Bounds of Y for the gains of free inputs.
_LARGEST = (1e5, 1e7, 1e4, 1e2)
#: Size of faint directions in the coordinates in which these gains are found.
_FAINT_OF_GAINS = 1e-2
#: So many demands alike are asked for at once, and one where there are more.
_MOST_ASKED = 4
#: Cubes of the entries of matrices asked for, for which the solver takes half a minute.
_MOST_WORK = 2e9
#: Samples for which what is left of a change is followed one by one.
_MOST_FADING = 64

_ENTERS_ANOTHER = (
    "models: the noise enters another plant than the secret, or elsewhere, and without a "
    "white floor nothing says how far it hides it there; add a floor (floor=...)"
)
_DRAWN_ONCE = (
    "models: the noise needs a part that is drawn again at every sample and reaches every "
    "output, since noise that is drawn once is known after some samples and hides nothing "
    "of a plant that varies; add a white floor (floor=...)"
)
_UNSTABLE = (
    "models: no bound for runs of any length exists or was found: the plant may vary so "
    "that a hidden change does not decay. Narrow the models, take out those that are "
    "unstable, or protect over a finite horizon with a white floor"
)
_TOO_LARGE = (
    "models: the search for a bound would take minutes or more; protect shorter changes, "
    "or take models with fewer states"
)
_TOO_LONG = "models: the {} within the horizon; shorten the horizon"


# -- noise that is inverted --------------------------------------------------------------


def shift_between(
    parts: Sequence[NoisePart],
    secrets: Sequence[SecretInputs],
    horizon: float,
    largest: float = math.inf,
) -> float:
    """Return a number that no privacy shift exceeds, for any sequence of vertices.

    ``secrets`` is one secret under each vertex of the plant. Noise that enters every
    vertex with the secret hides it there. A white floor next to filtered noise hides as well.
    One above ``largest`` is of no use, and may be given as inf.

    Raises
    ------
    ValueError
        If no part is drawn again at every sample and reaches every output.
    UncertifiableError
        If no bound is verified.
    """
    own, floor = inverted(parts, secrets)
    if own is None:
        if floor is None:
            enters = any(part.drive is not None for part in parts)
            raise ValueError(_ENTERS_ANOTHER if enters else _DRAWN_ONCE)
        return floor.shift(horizon, largest)
    if floor is None or own.response is not None:
        return own.shift(horizon, largest)
    shift = own.shift(horizon)
    try:
        return joint_shift(shift, floor.shift(horizon))
    except UncertifiableError:  # independent noise does not follow the plant
        return shift


def inverted(
    parts: Sequence[NoisePart], secrets: Sequence[SecretInputs]
) -> tuple[Inverted | None, Inverted | None]:
    """Return how filtered noise is inverted, and a floor, each None if there is none."""
    by_system = {secret.system: secret for secret in secrets}
    different = tuple(by_system.values())
    white = PartSum(parts).white
    floor = None
    if white.all():
        floor = Inverted(LinearSystem.gain(np.diag(white)), different)
    every = (_inverted(part, different, floor) for part in parts)
    return next(filter(None, every), None), floor


def _inverted(
    part: NoisePart, secrets: tuple[SecretInputs, ...], floor: Inverted | None
) -> Inverted | None:
    """Return how a part other than a floor is inverted, None if it cannot be."""
    if part.drive is None:
        return None
    response, shaping = part.drive
    if response is None:
        return Inverted(shaping, secrets)
    entering = inverted_at_entry(part, secrets[0])
    if entering is not None and len(secrets) == 1:
        return entering
    if floor is None:
        return None
    return Inverted(beside(shaping, floor.square), secrets, response)


def inverted_at_entry(part: NoisePart, secret: SecretInputs) -> Inverted | None:
    """Undo noise that enters the plant where a secret does, whatever the plant's zeros.

    The secret's inputs are taken to be those of the noise, without what is between them
    and the outputs. None if there is no such part, or the secret enters elsewhere.
    """
    response, shaping = part.drive or (None, None)
    system = secret.system
    if response is None or shaping is None or secret.origin is not None:
        return None
    same_states = np.array_equal(system.A, response.A)
    if not same_states or not np.array_equal(system.C, response.C):
        return None
    noisy = np.vstack([response.B, response.D])
    hidden = np.vstack([system.B, system.D])
    is_equal = noisy[:, :, None] == hidden[:, None, :]
    alike = is_equal.all(axis=0)
    # of entries that enter alike each takes a share, by its variance
    variances = np.sum(shaping.D**2, axis=1)
    shares = variances[:, None] * alike
    if not shares.any(axis=0).all():
        return None
    entry = LinearSystem.gain(shares / shares.sum(axis=0))
    return Inverted(shaping, (replace(secret, system=entry),))


@dataclass(frozen=True, eq=False)
class Inverted(ByContent, Saved):
    """Noise that is inverted, and a secret under each vertex of a plant.

    Attributes
    ----------
    square : LinearSystem
        M, square with a nonsingular D, from white entries of the noise.
    secrets : tuple of SecretInputs
        Of different systems.
    response : LinearSystem or None
        The plant in the noise, if the noise enters it. Then M comes before it, and its
        last inputs are the floor's.
    """

    square: LinearSystem
    secrets: tuple[SecretInputs, ...]
    response: LinearSystem | None = None

    def whitened(self) -> LinearSystem:
        """Return what is left of the secret under a single plant, in balls."""
        return self._left(None).vertices[0]

    def shift(self, horizon: float, largest: float = math.inf) -> float:
        """Bound every privacy shift, for any sequence of vertices."""
        if self.response is None:
            return self._shift(horizon, None, largest)
        bounds = []
        for k, gains in enumerate(self._choices()):
            try:
                bounds.append(self._shift(horizon, gains, largest))
            except UncertifiableError as error:
                refusal = error
                continue
            if k:
                break
        if not bounds:
            raise refusal
        return min(bounds)

    def fading(self) -> Fading:
        """Return what fades of a change with the `shift` over runs of any length.

        Raises
        ------
        UncertifiableError
            If no bound is verified.
        """
        found = []
        for k, gains in enumerate(self._choices()):
            try:
                found.append(self._fading(gains))
            except UncertifiableError as error:
                refusal = error
                continue
            if k:
                break
        if not found:
            raise refusal
        return min(found, key=lambda each: each.shift)

    def _fading(self, gains: list[NDArray] | None) -> Fading:
        """Return what fades of one change, for given gains of the free inputs."""
        with working_bits(CERTIFICATE_BITS):
            left = self._once._left(gains)
        return fading(left)

    @property
    def _once(self) -> Inverted:
        """The same with one change in a run."""
        return replace(self, secrets=tuple(secret.once for secret in self.secrets))

    def _choices(self) -> Iterator[list[NDArray] | None]:
        """Yield gains of the free inputs, the plain ones first, None where nothing is free."""
        if self.response is None:
            yield None
            return
        with working_bits(CERTIFICATE_BITS):
            left = self._left(None)
        followed = np.eye(left.free, left.inputs)
        unseen = np.zeros((left.free, left.order))
        plain = [np.hstack([unseen, followed])] * len(self.secrets)
        yield plain
        yield from good_gains(left, plain)

    def _shift(
        self, horizon: float, gains: list[NDArray] | None, largest: float
    ) -> float:
        """Return the certified shift for given gains of the free inputs."""
        first = self.secrets[0]
        if len(self.secrets) == 1 and isinstance(self.square, Autoregression):
            if gains is None and hides_by_correlations(first):
                return shift_behind_autoregression(self.square, first)
        if len(self.secrets) == 1 and spectral_radius(first.system) < 1:
            if first.energies is None:
                return shift_of_system(lambda: self._left(gains).vertices[0], first)
            if self.square.order == 0 and gains is None:
                return shift_behind(self.square, first)
        if first.several_apart:
            with suppress(UncertifiableError):
                return self._of_several(horizon, gains, largest)
        with working_bits(CERTIFICATE_BITS):
            left = self._left(gains)
        ends = first.energies is None and horizon < math.inf and not first.windows
        try:
            bound = varying_shift(left, largest)
        except UncertifiableError:
            if not ends:
                raise
            return varying_shift_within(left, int(horizon), largest)
        if ends and horizon * len(self.secrets) <= _SHORT:
            least = min(bound, largest)
            bound = min(bound, varying_shift_within(left, int(horizon), least))
        return bound

    def _of_several(
        self, horizon: float, gains: list[NDArray] | None, largest: float
    ) -> float:
        """Return the certified shift of changes at a distance, from how one of them fades."""
        shift = self._once._shift(horizon, gains, largest)
        if shift > largest:
            return math.inf
        faded = self._fading(gains)
        faded = replace(faded, shift=min(faded.shift, shift))
        secret = self.secrets[0]
        every: list[SignalMoves | WindowMoves] = [*secret.signals, *secret.windows]
        found = [shift]
        for moves in every:
            if moves.separation:
                found.append(faded.of_several(moves.events, moves.separation))
            else:
                found.append(shift * moves.events)
        return float_above(max(found), 4)

    def _left(self, gains: list[NDArray] | None) -> VaryingSecret:
        """Return what is left of the secret when the noise is inverted, in balls.

        Noise that enters the plant leaves what its entries and the floor are shifted by.
        Any split of a change between the two bounds the shift. Signals that the noise's
        plant is given are the split's free inputs, unless their gains are given.
        """
        inverse = self.square.in_balls().inverse()
        systems = [secret.in_balls() for secret in self.secrets]
        free = 0
        if self.response is not None:
            response = self.response.in_balls()
            systems = [_split(system, response) for system in systems]
            free = response.input_count
        vertices = tuple(inverse.after(system) for system in systems)
        left = VaryingSecret(vertices, self.secrets[0], free)
        return left if gains is None else left.closed(gains)


def _split(secret: LinearSystem, response: LinearSystem) -> LinearSystem:
    """Map the secret and the signals of the noise's plant to the traces of both.

    The first outputs are the signals that the noise's plant is given, which its entries
    hide. The others are what its outputs do not follow of the secret's, for the floor.
    """
    left = sum_of(secret, response.scaled(-1))
    given = response.input_count
    passed = block_balls(
        [[BallMatrix(given, secret.input_count), identity_balls(given)]]
    )
    unseen = BallMatrix(given, left.order)
    C = block_balls([[unseen], [left.C]])
    D = block_balls([[passed], [left.D]])
    return LinearSystem(left.A, left.B, C, D)


@dataclass(frozen=True, eq=False)
class VaryingSecret:
    """Hold what is left of a secret after noise is inverted, at each vertex.

    Attributes
    ----------
    vertices : tuple of LinearSystem
        In balls, with the same sizes.
    secret : SecretInputs
        Changes of their inputs.
    free : int
        Number of last inputs that may be chosen to leave least of the secret. They enter
        alike at all vertices.
    """

    vertices: tuple[LinearSystem, ...]
    secret: SecretInputs
    free: int = 0

    @property
    def order(self) -> int:
        return self.vertices[0].order

    @property
    def inputs(self) -> int:
        """Number of inputs of the secret."""
        return self.vertices[0].input_count - self.free

    @property
    def radii(self) -> NDArray:
        """Sizes (q,) of what is hidden at each input, one where any impulse is."""
        if self.secret.energies is not None:
            return self.secret.energies
        radii = np.ones(self.inputs)
        for moves in self.secret.signals:
            largest = max(map(np.linalg.norm, moves.shapes))
            radii[moves.column] = moves.radius * moves.events * largest
        for window in self.secret.windows:
            most = window.events * math.sqrt(window.longest)
            radii[list(window.columns)] = most * window.radii
        return radii

    @property
    def mean(self) -> LinearSystem:
        """The mean of the vertices in doubles."""
        every = []
        for alike in zip(*(vertex.matrices for vertex in self.vertices), strict=True):
            matrices = [midpoints(matrix) for matrix in alike]
            every.append(np.mean(matrices, axis=0))
        return LinearSystem(*every)

    def closed(self, gains: Sequence[NDArray]) -> VaryingSecret:
        """Close the free inputs with gains (f, n + q) of the state and the inputs.

        Each vertex has gains of its own. Between vertices the free inputs are the same
        convex combinations as the matrices, so they still bound what is left.
        """
        inputs = self.inputs
        vertices = []
        for vertex, gain in zip(self.vertices, gains, strict=True):
            A, B, C, D = vertex.entered_by(range(inputs)).matrices
            free = vertex.entered_by(range(inputs, inputs + self.free))
            of_state = ball_matrix(gain[:, : self.order])
            of_secret = ball_matrix(gain[:, self.order :])
            closed = LinearSystem(
                A + free.B * of_state,
                B + free.B * of_secret,
                C + free.D * of_state,
                D + free.D * of_secret,
            )
            vertices.append(closed)
        return VaryingSecret(tuple(vertices), self.secret)

    def transformed(self, basis: NDArray, size: float) -> VaryingSecret:
        """Change to coordinates z = basis z', and divide all sizes by ``size``."""
        into = ball_matrix(basis)
        unit = 1 / Ball(size)
        vertices = []
        for vertex in self.vertices:
            moved = transformed(vertex, into)
            vertices.append(moved.scaled(unit))
        return replace(self, vertices=tuple(vertices))


# -- free inputs -------------------------------------------------------------------------


def good_gains(secret: VaryingSecret, start: list[NDArray]) -> Iterator[list[NDArray]]:
    """Yield gains of the free inputs, for each vertex, that leave little of a secret.

    They are those of H-infinity control with the state and the secret known. With P the
    inverse of Y and W = K Y, K the gains of the state, the demands are linear in Y, W and
    the gains L of the secret. Later ones are for a solver that had trouble with the first.
    ``start`` are gains that choose the coordinates.
    """
    closed = secret.closed(start)
    mean = closed.mean
    if not _is_stable(mean.A):
        return
    radii = LinearSystem.gain(np.diag(closed.radii))
    weighted = mean.after(radii)
    sizes = _root_diagonal(reachability_gramian(weighted))
    basis = _orthonormal(observability_gramian(mean), sizes, _FAINT_OF_GAINS)
    at_once = float(np.linalg.norm(weighted.D, 2))
    tiny = float(np.finfo(float).tiny)
    scaled = secret.transformed(basis, max(at_once, tiny))
    cp: ModuleType = import_module("cvxpy")  # takes seconds
    Y = cp.Variable((secret.order, secret.order), symmetric=True)
    square = cp.Variable()
    constraints = []
    unknown = []
    for vertex in scaled.vertices:
        W = cp.Variable((secret.free, secret.order))
        L = cp.Variable((secret.free, secret.inputs))
        unknown.append((W, L))
        constraints += _demands_on_gains(secret, vertex, (Y, W, L), square)
    if _takes_minutes(each.shape[0] for each in constraints):
        return
    for largest in _LARGEST:
        bound = Y << largest * np.eye(secret.order)
        problem = cp.Problem(cp.Minimize(square), [*constraints, bound])
        if _solve(problem, 1e-8):
            into = np.linalg.inv(basis @ Y.value)
            gains = []
            for W, L in unknown:
                gains.append(np.hstack([W.value @ into, L.value]))
            yield gains


def _demands_on_gains(
    secret: VaryingSecret,
    vertex: LinearSystem,
    unknown: tuple[Any, Any, Any],
    square: Variable,
) -> list[Any]:
    """Demand of Y, W and L at a vertex to leave at most ``square`` of the secret."""
    cp: ModuleType = import_module("cvxpy")
    Y, W, L = unknown
    A, B, C, D = map(midpoints, vertex.matrices)
    inputs = secret.inputs
    through = np.vstack([B, D])
    free = through[:, inputs:]
    radii = np.diag(secret.radii)
    onward = np.vstack([A, C])
    of_state = onward @ Y + free @ W
    of_secret = (through[:, :inputs] + free @ L) @ radii
    energy = square * np.eye(inputs)

    def both(first: Expression, second: Expression | NDArray) -> Expression:
        rows, _ = first.shape
        columns, _ = second.shape
        corner = np.zeros((rows, columns))
        return cp.bmat([[first, corner], [corner.T, second]])

    after = both(Y, np.eye(len(C)))
    steps = [(Y, of_state), (energy, of_secret)]
    if secret.secret.energies is not None:
        step = cp.hstack([of_state, of_secret])
        steps = [(both(Y, energy), step)]
    demands = []
    for start, step in steps:
        whole = cp.bmat([[start, step.T], [step, after]])
        demands.append(whole >> 0)
    return demands


# -- runs of any length ------------------------------------------------------------------


def varying_shift(secret: VaryingSecret, largest: float) -> float:
    """Return a number that no privacy shift exceeds, over runs of any length.

    It is inf if the search finds out that it would be above ``largest``.

    Raises
    ------
    UncertifiableError
        If no bound is verified.
    """
    with working_bits(CERTIFICATE_BITS):
        try:
            return _bounded(secret, largest).shift
        except _GivenUp:
            return math.inf


class _Bounded(NamedTuple):
    """A verified bound of the shift, and the P that shows it."""

    shift: float
    scaled: VaryingSecret  # in the coordinates and units of P
    size: float  # the unit
    form: NDArray  # P


def _bounded(secret: VaryingSecret, largest: float) -> _Bounded:
    """Return a verified bound of the privacy shift.

    Raises
    ------
    _GivenUp
        If it would be above ``largest``.
    UncertifiableError
        If no bound is verified.
    """
    mean = secret.mean
    matrices = [midpoints(vertex.A) for vertex in secret.vertices]
    if not all(map(_is_stable, [mean.A, *matrices])):
        raise UncertifiableError(_UNSTABLE)
    # coordinates in which the mean plant has P = I, and its privacy shift
    gramian = observability_gramian(mean)
    basis = _orthonormal(gramian, 1 / _root_diagonal(gramian), _FAINT)
    energies = impulse_energies(mean) * secret.radii**2
    size = float(np.sqrt(energies.max())) or 1.0
    scaled = secret.transformed(basis * size, size)
    program = replace(Program.of(scaled), most=(largest / size) ** 2)
    for margin in _MARGINS:
        found = _solved(program, margin)
        square = None if found is None else program.verified(found)
        if found is not None and square is not None:
            shift = Ball(square).sqrt() * Ball(size)
            bound = float_above(upper_float(shift))
            return _Bounded(bound, scaled, size, found["P"])
    raise UncertifiableError(_UNSTABLE)


@dataclass(frozen=True, eq=False)
class Fading(ByContent, Saved):
    """Bound what is left of a change, sample by sample after it began, where a plant varies.

    Attributes
    ----------
    shift : float
        No change is shifted by more.
    whole : float
        The largest shift of an impulse of the radius.
    impulses : ndarray, shape (N,)
        The shift by what comes later than m samples after it, for m = 0 .. N - 1. Falling.
    factor : float
        What comes another N samples later shifts by so much less.
    values : ndarray, shape (L,)
        The largest values of a change, relative to the radius.
    """

    shift: float
    whole: float
    impulses: NDArray
    factor: float
    values: NDArray

    def after(self, lag: int) -> float:
        """Bound the shift by what comes ``lag`` samples after a change began, or later.

        What two changes share is at most that times the shift of the second one.
        """
        passed = lag - np.arange(len(self.values))
        sizes = np.where(passed > 0, self._after_impulse(passed - 1), self.whole)
        left = float(self.values @ sizes) * (1 + len(sizes) * EPS)
        return min(left, self.shift)

    def of_several(self, count: int, separation: int) -> float:
        """Bound the shift of several changes at a distance."""

        def correlation(lag: int) -> float:
            return self.after(lag) / self.shift

        return self.shift * growth_apart(count, separation, correlation)

    @property
    def of_any_shape(self) -> float:
        """A bound of the shift of a change with any values within the largest one."""
        count = len(self.values)
        lags = np.arange(1, count)
        shared = (count - lags) @ self._after_impulse(lags - 1)
        square = self.whole * (count * self.whole + 2 * float(shared))
        return math.sqrt(square) * float(self.values.max()) * (1 + 2 * count * EPS)

    def _after_impulse(self, lags: NDArray) -> NDArray:
        """Return bounds for numbers of samples, falling: F^q times those of the first N."""
        times, places = np.divmod(np.maximum(lags, 0), len(self.impulses))
        bounds = self.factor**times * self.impulses[places]
        is_later = times > 0
        last = self.impulses[-1] * self.factor ** (times[is_later] - 1)
        bounds[is_later] = np.minimum(bounds[is_later], last)
        return bounds * (1 + ROUNDED)


def fading(secret: VaryingSecret) -> Fading:
    """Bound what is left of a change of a secret, over runs of any length.

    With P >= A^T P A + C^T C and P_0 = P, matrices P_(m+1) >= A^T P_m A at every vertex bound
    the energy that comes m samples later by z^T P_m z. From P_N <= F^2 P on they bound it by
    F^2 times what came N samples earlier.

    Raises
    ------
    UncertifiableError
        If no bound is verified.
    """
    with working_bits(CERTIFICATE_BITS):
        found = _bounded(secret, math.inf)
        vertices = found.scaled.vertices
        plain = [midpoints(vertex.A) for vertex in vertices]
        form = found.form
        impulses: list[float] = []
        while True:
            impulses.append(found.size * _largest_impulse(found.scaled, form, False))
            right = _envelope([A.T @ form @ A for A in plain])
            later = right + NEGLIGIBLE * np.trace(right) * np.eye(len(right))
            after, before = ball_matrix(later), ball_matrix(form)
            nothing = BallMatrix(1, secret.order)
            if not all(_is_proven(after, before, each.A, nothing) for each in vertices):
                break
            form = later
            if len(impulses) == _MOST_FADING:
                break
        factor = _proven_factor(form, found.form) if len(impulses) > 1 else 1.0
        whole = found.size * _largest_impulse(found.scaled, found.form, True)
    falling = np.minimum.accumulate(impulses) * (1 + 2 * EPS)
    return Fading(found.shift, whole, falling, factor, _largest_values(secret.secret))


def _largest_impulse(left: VaryingSecret, form: NDArray, at_once: bool) -> float:
    """Return the largest root of b^T P b of impulses of the radius, and of d^T d at once."""
    value = ball_matrix(form)
    found = []
    for columns, radii in _impulses(left.secret):
        total = Ball(0)
        for column, radius in zip(columns, radii, strict=True):
            squares = []
            for vertex in left.vertices:
                _, b, _, d = vertex.entered_by([column]).matrices
                square = (b.transpose() * value * b)[0, 0]
                if at_once:
                    square += (d.transpose() * d)[0, 0]
                squares.append(upper_float(square.abs_upper().sqrt()))
            total += Ball(max(squares)) * Ball(radius)
        found.append(upper_float(total))
    return float_above(max(found), 2)


def _impulses(secret: SecretInputs) -> list[tuple[list[int], list[float]]]:
    """Return the inputs of impulses that come together, and their radii."""
    alone = [([moves.column], [float(moves.radius)]) for moves in secret.signals]
    several = [
        (list(window.columns), np.asarray(window.radii).tolist())
        for window in secret.windows
    ]
    return [*alone, *several]


def _largest_values(secret: SecretInputs) -> NDArray:
    """Return the largest size of each value of a change, relative to the radius."""
    values = np.zeros(secret.longest)
    for moves in secret.signals:
        for shape in moves.shapes:
            first = values[: len(shape)]
            np.maximum(first, np.abs(shape), out=first)
    for window in secret.windows:
        values[: window.longest] = np.maximum(values[: window.longest], 1.0)
    return values


def _proven_factor(later: NDArray, form: NDArray) -> float:
    """Return an F below one with P_N <= F^2 P, or one where none is proven."""
    try:
        largest = float(scipy.linalg.eigh(later, form, eigvals_only=True)[-1])
    except np.linalg.LinAlgError:
        return 1.0
    factor = math.sqrt(max(largest, 0.0)) * (1 + ROUNDED) + ROUNDED
    if not factor < 1:
        return 1.0
    spare = ball_matrix(form) * Ball(factor) ** 2 - ball_matrix(later)
    return factor if is_positive_definite(spare) else 1.0


@dataclass(frozen=True, eq=False)
class _Demand:
    """V >= X^T W X + Y^T Y, for symmetric matrices named ``held`` and ``value``.

    Where V is smaller than that, or there is none, t times the identity goes on with its
    diagonal, or the numbers of the names ``weights``.
    """

    held: str | None
    value: str
    X: BallMatrix
    Y: BallMatrix
    weights: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False)
class Program:
    """Demands on symmetric matrices, of which t, the squared shift, is to be least.

    It is solved in numbers of nine places, and those with the same ones are equal: what
    solves one is verified for noise of another size. The search for a t that must be above ``most`` is given up. It is at
    least each of the ``sums`` of numbers.
    """

    sizes: dict[str, int]
    demands: tuple[_Demand, ...]
    most: float = math.inf
    sums: tuple[tuple[str, ...], ...] = ()

    @classmethod
    def of(cls, left: VaryingSecret) -> Program:
        sizes = {"P": left.order}
        demands = []
        secret = left.secret
        for vertex in left.vertices:
            A, B, C, D = vertex.matrices
            X, Y = A, C
            if secret.energies is not None:
                radii = diagonal_balls(secret.energies.tolist())
                X = block_balls([[A, B * radii]])
                Y = block_balls([[C, D * radii]])
            demands.append(_Demand("P", "P", X, Y))
        for index in secret.balls:
            for vertex in left.vertices:
                _, B, _, D = vertex.entered_by(index).matrices
                demands.append(_Demand(None, "P", B, D))
        for k, moves in enumerate(secret.signals):
            for i, shape in enumerate(moves.shapes):
                name = f"Q{k}.{i}."
                demands += _of_shape(left, moves, shape, name, sizes)
        sums = []
        for k, window in enumerate(secret.windows):
            found, weights = _of_window(left, window, f"W{k}.", sizes)
            demands += found
            sums.append(weights)
        return cls(sizes, tuple(demands), sums=tuple(sums))

    @cached_property
    def _entries(self) -> NDArray:
        """All numbers of the demands, as they are solved."""
        blocks = [block for each in self.demands for block in (each.X, each.Y)]
        return np.concatenate([_in_places(block).ravel() for block in blocks])

    def __hash__(self) -> int:
        return hash(tuple(self.sizes))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Program) or self.sizes != other.sizes:
            return False
        return np.array_equal(self._entries, other._entries)

    def _target(self, demand: _Demand) -> tuple[NDArray, NDArray]:
        """Return E and F with the larger side E V E^T + t F of a demand."""
        size = demand.X.ncols()
        held = self.sizes.get(demand.held or "", 0)
        rest = np.eye(size)
        rest[:held] = 0.0
        return np.eye(size, held), rest

    def solve(self, margin: float) -> dict[str, NDArray] | None:
        """Find matrices that meet every demand with so much to spare.

        Of many demands alike one is asked for. Among the others, the one that the answer
        meets least is asked for as well until all are met.

        Raises
        ------
        _GivenUp
            If even some of the demands need a t above ``most``.
        UncertifiableError
            If it would take minutes or more.
        """
        alike = defaultdict(list)
        for k, demand in enumerate(self.demands):
            kind = (demand.held, demand.value, demand.X.ncols(), demand.weights)
            alike[kind].append(k)
        asked: set[int] = set()
        for group in alike.values():
            asked.update(group if len(group) <= _MOST_ASKED else group[:1])
        while True:
            demands = [self.demands[k] for k in sorted(asked)]
            if _takes_minutes(each.X.ncols() for each in demands):
                raise UncertifiableError(_TOO_LARGE)
            found = self._meeting(demands, margin)
            if found is None:
                return None
            if found["t"][0, 0] > self.most:
                raise _GivenUp
            lacking: list[int] = []
            for group in alike.values():
                left = {self._spare(k, found): k for k in group if k not in asked}
                if left and min(left) < margin / 2:
                    lacking.append(left[min(left)])
            if not lacking:
                return found
            asked.update(lacking)

    def _rest(self, demand: _Demand, known: Mapping[str, Any]) -> Any:
        """Return what the larger side of a demand exceeds the other one by."""
        E, F = self._target(demand)
        X = _in_places(demand.X)
        Y = _in_places(demand.Y)
        later = X.T @ known[demand.value] @ X
        rest = known["t"][0, 0] * F - later - Y.T @ Y
        if demand.weights:
            rest = -later - Y.T @ Y
            for place, name in zip(
                np.flatnonzero(F.any(axis=0)), demand.weights, strict=True
            ):
                rest = rest + known[name][0, 0] * np.outer(F[place], F[place])
        if demand.held is not None:
            rest = rest + E @ known[demand.held] @ E.T
        return rest

    def _spare(self, k: int, found: dict[str, NDArray]) -> float:
        """Return what a demand has to spare."""
        rest = self._rest(self.demands[k], found)
        return float(np.linalg.eigvalsh(rest)[0])

    def _meeting(
        self, asked: Sequence[_Demand], margin: float
    ) -> dict[str, NDArray] | None:
        """Find matrices of least t that meet some demands with so much to spare."""
        cp: ModuleType = import_module("cvxpy")  # takes seconds
        unknown: dict[str, Any] = {"t": cp.Variable((1, 1))}
        constraints = []
        for name, size in self.sizes.items():
            unknown[name] = cp.Variable((size, size), symmetric=True)
            constraints.append(unknown[name] >> margin * np.eye(size))
        for demand in asked:
            rest = self._rest(demand, unknown)
            size, _ = rest.shape
            constraints.append(rest >> margin * np.eye(size))
        square = unknown["t"][0, 0]
        for names in self.sums:
            total = sum(unknown[name][0, 0] for name in names)
            constraints.append(square >= total * (1 + margin))
        problem = cp.Problem(cp.Minimize(square), constraints)
        if not _solve(problem, 1e-11):
            return None
        return {name: _symmetric(matrix.value) for name, matrix in unknown.items()}

    def verified(self, found: dict[str, NDArray]) -> float | None:
        """Return t, if the matrices are proven to meet every demand."""
        square = float(found["t"][0, 0])
        balls = {name: ball_matrix(found[name]) for name in self.sizes}
        if not all(map(is_positive_definite, balls.values())):
            return None
        for demand in self.demands:
            E, F = self._target(demand)
            target = ball_matrix(F) * Ball(square)
            if demand.weights:
                numbers = np.zeros(len(F))
                found_weights = [float(found[name][0, 0]) for name in demand.weights]
                numbers[F.any(axis=0)] = found_weights
                target = diagonal_balls(numbers.tolist())
            if demand.held is not None:
                onto = ball_matrix(E)
                target += onto * balls[demand.held] * onto.transpose()
            value = balls[demand.value]
            if not _is_proven(target, value, demand.X, demand.Y):
                return None
        for names in self.sums:
            total = math.fsum(float(found[name][0, 0]) for name in names)
            square = max(square, float_above(total))
        return square


def _in_places(block: BallMatrix) -> NDArray:
    """Return numbers with nine places, so that rounding does not change what is solved."""
    return np.round(midpoints(block) / ROUNDED) * ROUNDED


class _GivenUp(Exception):
    """The answer of a program is found to be of no use before it is known."""


@lru_cache(maxsize=8)
def _solved(program: Program, margin: float) -> dict[str, NDArray] | None:
    """Return what `Program.solve` finds, for noise of another size again."""
    return program.solve(margin)


def _of_shape(
    left: VaryingSecret,
    moves: SignalMoves,
    shape: NDArray,
    name: str,
    sizes: dict[str, int],
) -> list[_Demand]:
    """Return demands for a change of one shape.

    The energy that is still to come with j values of the change left is a quadratic
    function of (z, 1), from j = 0, which is z^T P z, up to the start, where z = 0. Every
    stage where a change may start bounds t.
    """
    demands = []
    goes_on = [BallMatrix(1, left.order), identity_balls(1)]
    value = "P"
    last = len(shape)
    for j, amplitude in enumerate(shape[::-1].tolist(), start=1):
        size = Ball(amplitude * moves.radius * moves.events)
        own = f"{name}{j}"
        for vertex in left.vertices:
            entered = vertex.entered_by([moves.column])
            D = entered.D * size
            rows = [[vertex.A, entered.B * size]]
            if j > 1:
                rows.append(goes_on)
            step = block_balls(rows)
            if moves.lasting or j == last:
                start = submatrix(step, range(step.nrows()), [left.order])
                demands.append(_Demand(None, value, start, D))
            if j < last:
                read = block_balls([[vertex.C, D]])
                demands.append(_Demand(own, value, step, read))
        if j < last:
            sizes[own] = left.order + 1
            value = own
    return demands


def _of_window(
    left: VaryingSecret, window: WindowMoves, name: str, sizes: dict[str, int]
) -> tuple[list[_Demand], tuple[str, ...]]:
    """Return demands for a change of any shape, and the names of the weights d of its values.

    With j values left the energy that is still to come is below z^T P_j z + sum d w^2,
    with P_0 = P: blkdiag(P_j, d_j) >= [A B]^T P_{j-1} [A B] + [C D]^T [C D].
    """
    demands = []
    names = []
    later = "P"
    sizes_of_changes = (window.events * np.asarray(window.radii)).tolist()
    for j in range(1, window.longest + 1):
        own = tuple(f"{name}{j}.d{i}" for i in range(len(window.columns)))
        names += list(own)
        is_first = j == window.longest  # it begins at rest
        held = None if is_first else f"{name}{j}"
        for vertex in left.vertices:
            A, B, C, D = vertex.entered_by(list(window.columns)).matrices
            radii = diagonal_balls(sizes_of_changes)
            X, Y = B * radii, D * radii
            if not is_first:
                X, Y = block_balls([[A, X]]), block_balls([[C, Y]])
            demands.append(_Demand(held, later, X, Y, own))
        sizes |= dict.fromkeys(own, 1)
        if held is not None:
            sizes[held] = left.order
            later = held
    return demands, tuple(names)


def _takes_minutes(sizes: Iterable[int]) -> bool:
    """Return whether the solver takes so long for matrices of these sizes."""
    return sum((size * (size + 1) / 2) ** 3 for size in sizes) > _MOST_WORK


def _is_proven(
    target: BallMatrix, value: BallMatrix, X: BallMatrix, Y: BallMatrix
) -> bool:
    """Return whether target > X^T value X + Y^T Y is certain."""
    later = X.transpose() * value * X
    now = Y.transpose() * Y
    return is_positive_definite(target - later - now)


def _solve(problem: Problem, tolerance: float) -> bool:
    """Return whether the solver of semidefinite programs returns numbers, good or not.

    What it calls inaccurate is verified, or solved again.
    """
    cp: ModuleType = import_module("cvxpy")
    asked = dict(tol_gap_abs=tolerance, tol_gap_rel=tolerance, tol_feas=tolerance)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Solution may be inaccurate", UserWarning)
        try:
            problem.solve(solver=cp.CLARABEL, max_iter=200, **asked)  # type: ignore[no-untyped-call]
        except cp.SolverError:
            return False
    return problem.value is not None and np.isfinite(problem.value)


# -- finite horizons ---------------------------------------------------------------------


def varying_shift_within(left: VaryingSecret, horizon: int, largest: float) -> float:
    """Bound every privacy shift over so many samples, for any sequence of vertices.

    It is inf as soon as it is above ``largest``. Matrices P_j bound the energy of the
    last j samples, P_j >= A^T P_(j-1) A + C^T C at every vertex. Each is the last right
    side plus what the other ones exceed it by, in coordinates in which all states of the
    mean plant are alike.

    Raises
    ------
    UncertifiableError
        If an inequality is not verified.
    ValueError
        For signals of bounded energy.
    """
    if left.secret.energies is not None:
        raise ValueError(
            'adjacency: norm="l2" under a time-varying plant needs modes that decay; '
            "protect single changes or a duration, or narrow the models"
        )
    bound = 0.0
    with working_bits(CERTIFICATE_BITS):
        for moves in left.secret.signals:
            # the move of a state is an impulse one sample before the run
            samples = horizon + 1 if moves.rounded else horizon
            entered = [vertex.entered_by([moves.column]) for vertex in left.vertices]
            for shape in moves.shapes:
                # the values of a change that are still to come wait in a queue
                queue = queue_of(len(shape)).in_balls()
                queued = tuple(vertex.after(queue) for vertex in entered)
                changes = moves.beginnings(shape)
                order = queued[0].order
                starts = np.zeros((order, len(changes)))
                for k, values in enumerate(changes):
                    starts[: len(values), k] = values
                size = Ball(moves.radius) * moves.events
                columns = ball_matrix(starts) * size
                for form in _energies(queued, columns, samples):
                    squares = [form[k, k] for k in range(len(changes))]
                    worst = max(squares, key=upper_float)
                    bound = max(bound, float_above(upper_float(worst.sqrt())))
                    if bound > largest:
                        return math.inf
        for index in left.secret.balls:
            columns = left.vertices[0].entered_by(index).B
            *_, form = _energies(left.vertices, columns, horizon)
            size = largest_eigenvalue(form).sqrt()
            bound = max(bound, float_above(upper_float(size)))
    return bound


def _energies(
    vertices: tuple[LinearSystem, ...], columns: BallMatrix, samples: int
) -> Iterator[BallMatrix]:
    """Yield verified X^T P_j X for j = 1 .. samples, of columns X (n, k) of states.

    The coordinates are those in which the states of the mean plant after X have the
    identity as their sum of squares, up to faint directions.
    """
    left = VaryingSecret(vertices, SecretInputs(vertices[0]))
    states = midpoints(columns)
    A = left.mean.A
    reached = np.zeros_like(A)
    for _ in range(samples):
        reached = reached + states @ states.T
        states = A @ states
        if not np.isfinite(states).all():
            raise UncertifiableError(_TOO_LONG.format("free response exceeds 1e308"))
    vectors, roots = _principal_axes(reached, _FAINT)
    basis = vectors * roots
    scaled = left.transformed(basis, 1.0).vertices
    moved = ball_matrix(basis).inv() * columns
    plain = []
    for vertex in scaled:
        plain.append((midpoints(vertex.A), midpoints(vertex.C)))
    P = np.zeros_like(A)
    for _ in range(samples):
        before = ball_matrix(P)
        rights = [A.T @ P @ A + C.T @ C for A, C in plain]
        upper = _envelope(rights)
        padding = NEGLIGIBLE * np.trace(upper)
        P = upper + padding * np.eye(len(P))
        after = ball_matrix(P)
        if not all(_is_proven(after, before, each.A, each.C) for each in scaled):
            raise UncertifiableError(_TOO_LONG.format("bound is lost to rounding"))
        yield moved.transpose() * after * moved


def _envelope(matrices: Sequence[NDArray]) -> NDArray:
    """Return a symmetric matrix that is at least each of several ones."""
    upper, *others = matrices
    for matrix in others:
        values, vectors = np.linalg.eigh(_symmetric(matrix - upper))
        beyond = np.maximum(values, 0.0)
        upper = upper + (vectors * beyond) @ vectors.T
    return _symmetric(upper)


# -- coordinates -------------------------------------------------------------------------


def _is_stable(A: NDArray) -> bool:
    """Return whether all eigenvalues lie inside the unit circle, in doubles."""
    if not np.isfinite(A).all():
        return False
    sizes = np.abs(np.linalg.eigvals(A))
    return bool(sizes.max() < 1)


def _root_diagonal(form: NDArray) -> NDArray:
    """Return roots (n,) of the diagonal of a quadratic form, one where it is zero."""
    diagonal = np.maximum(np.diag(form), 0.0)
    return np.where(diagonal > 0, np.sqrt(diagonal), 1.0)


def _orthonormal(form: NDArray, sizes: NDArray, faint: float) -> NDArray:
    """Return coordinates (n, n) in which a form is the identity, but faint directions.

    States of given sizes (n,) are alike. A form of another size has the same coordinates,
    up to their size.
    """
    scaled = form * np.outer(sizes, sizes)
    vectors, roots = _principal_axes(scaled, faint)
    return sizes[:, None] * (vectors / roots) @ vectors.T


def _principal_axes(form: NDArray, faint: float) -> tuple[NDArray, NDArray]:
    """Return a form's directions (n, n) and its roots (n,), faint ones made larger."""
    values, vectors = scipy.linalg.eigh(_symmetric(form))
    raised = np.maximum(values, faint * values[-1])
    return vectors, np.sqrt(raised)


def _symmetric(matrix: NDArray) -> NDArray:
    return (matrix + matrix.T) / 2
