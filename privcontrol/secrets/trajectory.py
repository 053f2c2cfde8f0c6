"""The manifold of a plant's trajectories, and what is published of them.

The data are x(0), ..., x(T-1), time-major. Their tangent space is that of the initial
state, so everything is computed with n columns.

The circuits of trajectories x(t) = A^t z are exact; moves are rounded once. For a
nonsingular A the circuit of a set of entries that starts at time 0 is v(t) = A^t z for all
t. Its shift by s is the window -s, ..., T-1-s of the same v, so all shifts share one pass.
A singular A has no such shifts, and its circuits are enumerated plainly.
"""

from __future__ import annotations

import hashlib
import operator
from collections.abc import Iterable
from functools import cached_property
from itertools import accumulate, combinations
from math import comb

import control as ct
import numpy as np
import scipy.sparse
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import ArrayLike, NDArray

from ..core.manifold import (
    AffineManifold,
    Component,
    FiniteMoves,
    chart_moves,
    null_vector,
    refuse_long,
    refuse_range,
    rounded,
    stretched,
)
from ..core.query import LinearQuery
from ..numerics.balls import (
    Ball,
    Integer,
    IntegerMatrix,
    RationalMatrix,
    rational_matrix,
    working_bits,
)
from ..numerics.checks import real_array, sample_count
from ..numerics.linalg import EPS
from ..numerics.objects import array_identity
from ..numerics.thresholds import PATIENCE, ROUNDED
from ..privacy.horizon import Run
from ..systems.linear import Plant, orbit, response_from_rest, stacks_of, to_states
from ..systems.powers import exact_response
from ..systems.transitions import stack_of_run
from ..systems.varying import Plants, VaryingPlant, plant_of

#: Assumption of every guarantee about the outputs of a run.
PUBLIC_LOOP = (
    "controller, reference, inputs and initial estimate computed without the secret"
)
RUN_ASSUMPTIONS = (Run.drawn, PUBLIC_LOOP)


class PlantManifold(AffineManifold):
    """Data of a run of a plant over a horizon."""

    plant: Plant
    horizon: int

    @property
    def models(self) -> tuple[str, ...]:
        """The plant's fingerprint, for the scope of a guarantee."""
        return (self.plant.fingerprint,)


class TrajectoryManifold(PlantManifold):
    """The trajectories x(t+1) = A x(t) + B u(t) for public inputs u (DPAM eqs. (19)-(21)).

    The kernel is [I; A; ...; A^(T-1)], and the tangent coordinates are the initial state.
    """

    _inputs: np.ndarray

    def __init__(self, plant: Plant, horizon: int, inputs: NDArray[np.float64]) -> None:
        self._set(plant=plant, horizon=horizon, _inputs=inputs)

    def _identity(self) -> tuple[object, ...]:
        return (self.domain, self._inputs.tobytes())

    @property
    def size(self) -> int:
        return self.horizon * self.plant.order

    @property
    def dimension(self) -> int:
        return self.plant.order

    def __repr__(self) -> str:
        return f"TrajectoryManifold({self.dimension} states, horizon {self.horizon})"

    @cached_property
    def labels(self) -> tuple[str, ...]:  # type: ignore[override]
        """Names such as ``position(0)``, time-major."""
        return tuple(
            f"{state}({t})" for t in range(self.horizon) for state in self.plant.states
        )

    @cached_property
    def kernel(self) -> NDArray[np.float64]:  # type: ignore[override]
        """The powers of A below each other, shape (T n, n)."""
        order = self.plant.order
        powers = orbit(self.plant, np.eye(order), self.horizon)
        return real_array(powers.reshape(-1, order), "A^t", copy=False)

    @cached_property
    def origin(self) -> NDArray[np.float64]:  # type: ignore[override]
        """The trajectory (T n,) from x(0) = 0 under the public inputs."""
        return response_from_rest(
            to_states(self.plant), self._inputs.T[:, :, None]
        ).ravel()

    @cached_property
    def _equations(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Trajectories obey A x(t) - x(t+1) + B u(t) = 0, t = 0 .. T-2 (DPAM eq. (20))."""
        steps = self.horizon - 1
        now = np.eye(steps, self.horizon)
        after = np.eye(steps, self.horizon, 1)
        if isinstance(self.plant, VaryingPlant):
            return self._varying_equations(now, after)
        D = np.kron(now, self.plant.A) - np.kron(after, np.eye(self.plant.order))
        forced = self.plant.B @ self._inputs[:, :-1]
        return real_array(D, "D"), real_array(forced.T.reshape(-1), "b")

    def _varying_equations(
        self, now: NDArray[np.float64], after: NDArray[np.float64]
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return the manifold's `_equations` with A_t and B_t (DPAM Definition 3)."""
        order = self.plant.order
        D = -np.kron(after, np.eye(order))
        forced = np.zeros((len(now), order))
        for t in range(len(now)):
            A, B, _, _ = self.plant.at(t).matrices
            D[t * order : (t + 1) * order, t * order : (t + 1) * order] = A
            forced[t] = B @ self._inputs[:, t]
        return real_array(D, "D"), real_array(forced.ravel(), "b")

    @cached_property
    def pinned(self) -> tuple[str, ...]:  # type: ignore[override]
        """Public entries that no initial state can move, such as delays."""
        still = np.flatnonzero(~self.kernel.any(axis=1))
        return tuple(self.labels[i] for i in still)

    def tangent(self, moves: NDArray[np.float64]) -> NDArray[np.float64]:
        initial = moves[: self.plant.order]
        size = np.abs(self.kernel) @ np.abs(initial)
        defect = np.abs(moves - self.kernel @ initial)
        bad = np.flatnonzero((defect > ROUNDED * size + EPS).any(axis=0))
        if len(bad):
            raise ValueError(
                f"directions: column {bad[0]} is no difference of two trajectories of "
                f"{self.plant.name}: it must be [z; A z; A^2 z; ...]"
            )
        return initial

    def circuit_moves(
        self, radii: NDArray[np.float64], charts: str | Iterable[Iterable[int]] = "all"
    ) -> FiniteMoves:
        sizes = self._sizes(radii).reshape(self.horizon, -1)
        if isinstance(self.plant, VaryingPlant):
            return varying_circuit_moves(self.plant, self.horizon, sizes, charts)
        return trajectory_circuit_moves(self.plant.A, self.horizon, sizes, charts)

    def ball_vertices(self, radii: NDArray[np.float64]) -> FiniteMoves | None:
        return None

    @cached_property
    def domain(self) -> str:
        A = stacks_of(self.plant)[0]
        source = np.ascontiguousarray(A).tobytes()
        source += repr(self.plant.states).encode()
        digest = hashlib.sha256(source).hexdigest()
        return (
            f"trajectories of a plant with {self.dimension} states over {self.horizon} "
            f"samples [{digest[:12]}]"
        )


class PlantQuery(LinearQuery):
    """Hold what a plant publishes of the data of a run."""

    plant: Plant
    manifold: PlantManifold

    def __init__(self, manifold: PlantManifold) -> None:
        self._set(plant=manifold.plant, manifold=manifold)

    def _identity(self) -> tuple[object, ...]:
        return (self.manifold, array_identity(stacks_of(self.plant)[2]))

    @property
    def size(self) -> int:
        return self.manifold.horizon * self.plant.output_count


class OutputQuery(PlantQuery):
    """The outputs y(t) = C x(t) of a trajectory (DPAM eq. (18))."""

    @property
    def assumptions(self) -> tuple[str, ...]:
        return ("A and C exact", *RUN_ASSUMPTIONS)

    @cached_property
    def matrix(self) -> scipy.sparse.csr_array:
        """F = I_T (x) C, sparse, shape (T p, T n); of C_t where they vary."""
        if isinstance(self.plant, VaryingPlant):
            return scipy.sparse.block_diag(self.plant.along[2], format="csr")
        return scipy.sparse.kron(
            scipy.sparse.eye_array(self.manifold.horizon), self.plant.C, format="csr"
        )

    @cached_property
    def response(self) -> NDArray[np.float64]:
        """The observability stack, shape (T p, n)."""
        stack = observability_stack(self.plant, self.manifold.horizon)
        return real_array(stack, "C A^t", copy=False)

    @cached_property
    def rounding(self) -> NDArray[np.float64]:
        horizon = self.manifold.horizon
        order = self.plant.order
        powers = np.abs(self.manifold.kernel)
        frames = powers.reshape(horizon, order, -1)
        C = stacks_of(self.plant)[2]
        sizes = np.abs(C) @ frames
        operations = np.arange(horizon) + 2 * order + 4
        roundoff = 2 * EPS * operations
        errors = roundoff[:, None, None] * sizes
        return errors.reshape(self.size, -1)


def trajectory_manifold(
    sys: Plants | Plant,
    horizon: int,
    inputs: ArrayLike | None = None,
    *,
    period: int | None = None,
) -> TrajectoryManifold:
    """Return the affine manifold on which a plant's state trajectory lies.

    An eavesdropper who sees the inputs knows it. Entries are time-major and labelled
    ``position(0)``, and the dimension is the number n of states.

    Parameters
    ----------
    sys : control.StateSpace or list of control.StateSpace
        Discrete-time plant with n states and m inputs. A list has the plant of each
        sample (DPAM Definition 3), all with the same names and sampling time.
    horizon : int
        Number of samples T, t = 0 .. T-1.
    inputs : array_like, shape (m, T), optional
        The public input signal, zero by default. It shifts the manifold and never enters a
        guarantee.
    period : int, optional
        Number of plants in a list that is repeated until the horizon.

    Returns
    -------
    TrajectoryManifold
        In T n entries.

    Raises
    ------
    control.ControlArgument
        If ``sys`` is not a discrete-time StateSpace, or a list of them with one dt.
    control.ControlDimension
        If ``inputs`` has another shape, or plants of a list have other names.
    ValueError
        If a list has not one plant for each sample.

    See Also
    --------
    output_query, observability_stack, AffineManifold

    Examples
    --------
    >>> import control as ct, privcontrol as pc
    >>> vehicle = ct.ss([[1, 0.1], [0, 1]], [[0.005], [0.1]], [[1, 0]], 0, 0.1, states=["position", "velocity"])
    >>> pc.trajectory_manifold(vehicle, 3).labels
    ('position(0)', 'velocity(0)', 'position(1)', 'velocity(1)', 'position(2)', 'velocity(2)')
    """
    horizon = sample_count(horizon, "horizon")
    plant = plant_of(sys, horizon, period)
    shape = (plant.input_count, horizon)
    if inputs is None:
        no_inputs = np.zeros(shape)
        no_inputs.flags.writeable = False
        return TrajectoryManifold(plant, horizon, no_inputs)
    if np.shape(inputs) != shape:
        raise ct.ControlDimension(
            f"inputs: expected shape {shape} (inputs, horizon), got {np.shape(inputs)}"
        )
    return TrajectoryManifold(plant, horizon, real_array(inputs, "inputs", shape=shape))


def observability_stack(
    sys: Plants | Plant, horizon: int, *, period: int | None = None
) -> NDArray[np.float64]:
    """Return O_T = [C; C A; ...; C A^(T-1)] (T p, n), time-major (DPAM section 5.2).

    For a list of plants it is [C_0; C_1 A_0; C_2 A_1 A_0; ...]. Parameters and errors
    as for `trajectory_manifold`.

    Parameters
    ----------
    sys, horizon, period
        As for `trajectory_manifold`.

    Returns
    -------
    ndarray, shape (T p, n)
        In units of an output per unit of a state.

    See Also
    --------
    output_query, trajectory_manifold

    Examples
    --------
    >>> import control as ct, privcontrol as pc
    >>> pc.observability_stack(ct.ss([[1, 1], [0, 1]], [[0], [1]], [[1, 0]], 0, 1), 3)
    array([[1., 0.],
           [1., 1.],
           [1., 2.]])
    """
    horizon = sample_count(horizon, "horizon")
    plant = plant_of(sys, horizon, period)
    return plant.free_response(np.eye(plant.order), horizon)


def output_query(
    sys: Plants | Plant, horizon: int, *, period: int | None = None
) -> OutputQuery:
    """Return the query that publishes y(t) = C x(t) over a horizon.

    A feedthrough D u(t) is public and left out. Parameters and errors as for
    `trajectory_manifold`.

    Parameters
    ----------
    sys, horizon, period
        As for `trajectory_manifold`.

    Returns
    -------
    OutputQuery
        From T n entries of the trajectory to T p outputs, time-major.

    See Also
    --------
    trajectory_manifold, observability_stack, LinearQuery

    Examples
    --------
    >>> import control as ct, privcontrol as pc
    >>> lag = ct.ss(0.5, 1, 1, 0, 1, states=["level"])
    >>> round(pc.output_query(lag, 2).sensitivity(pc.StateAdjacency(1.0)), 6)
    2.236068
    """
    return OutputQuery(trajectory_manifold(sys, horizon, period=period))


def trajectory_circuit_moves(
    A: NDArray[np.float64],
    horizon: int,
    radii: NDArray[np.float64],
    charts: str | Iterable[Iterable[int]] = "all",
) -> FiniteMoves:
    """Return the worst moves of Definition 4 over trajectories of x(t+1) = A x(t) + input.

    There are about C(T n, n - 1) of them, as moves of x(0). Entry m of x(t) has the index
    t n + m. The doubles of A (n, n) are taken as exact. ``radii`` (T, n) that vary in time
    are slower. ``charts`` are free sets of entries, or "all" of them. A ``ValueError``
    refuses what takes more than 10 s.

    Examples
    --------
    In DPAM's vehicle the positions at two successive times tie the velocity:

    >>> A = np.array([[1, 0.125], [0, 1]])
    >>> found = trajectory_circuit_moves(A, 100, np.ones((100, 2)))
    >>> float(abs(found.columns[1]).max())  # doctest: +ELLIPSIS
    8.0000000...
    """
    n = len(A)
    size = n * horizon
    exact = rational_matrix(A)
    every = isinstance(charts, str)
    is_shared = every and n > 1 and exact.det() != 0 and (radii == radii[0]).all()
    # an estimate; integers grow with the horizon
    seconds = 2e-8 * size**2
    sets = comb(size, n - 1)
    if is_shared:
        sets -= comb(size - n, n - 1)
        seconds += sets * size * (4e-6 + 5e-8 * horizon)
    if seconds > PATIENCE:
        raise ValueError(
            f"the circuits of {n} states over {horizon} samples ({sets:,} sets of "
            f"entries) would take more than {PATIENCE:g} seconds: use a shorter "
            'horizon, or the block charts of StateAdjacency(..., charts="times")'
        )
    if is_shared:
        columns = _shared_moves(exact, horizon, radii[0])
        return FiniteMoves(columns, errors=8 * EPS * np.abs(columns))
    stack = exact_response(exact, exact**0, exact**0, horizon)
    return _moves_on(stack, radii, charts)


def varying_circuit_moves(
    plant: VaryingPlant,
    horizon: int,
    radii: NDArray[np.float64],
    charts: str | Iterable[Iterable[int]],
) -> FiniteMoves:
    """Return `trajectory_circuit_moves` of a plant that varies, whose circuits share nothing."""
    n = plant.order
    size = n * horizon
    seconds = 2e-8 * size**2 + comb(size, n - 1) * size * (4e-6 + 5e-8 * horizon)
    if isinstance(charts, str) and seconds > PATIENCE:
        raise ValueError(
            f"the circuits of {n} states over {horizon} samples would take more than "
            f"{PATIENCE:g} seconds: use a shorter horizon, or the block charts of "
            'StateAdjacency(..., charts="times")'
        )
    return _moves_on(stack_of_run(plant, horizon), radii, charts)


def _moves_on(
    stack: RationalMatrix,
    radii: NDArray[np.float64],
    charts: str | Iterable[Iterable[int]],
) -> FiniteMoves:
    """Return the worst moves, as those of x(0), of all entries of a stack (T n, n)."""
    size, n = stack.nrows(), stack.ncols()
    if isinstance(charts, str):
        whole = Component(np.arange(size), stack, True, n)
        refuse_long([whole])
        moves = stretched(whole.circuits(), radii.ravel())
        columns = rounded(moves, size)[0][:n]
    else:
        columns = rounded(chart_moves(stack, radii.ravel(), charts), n)[0]
    return FiniteMoves(columns, errors=EPS * np.abs(columns))


def _shared_moves(
    A: RationalMatrix, horizon: int, radius: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return the worst moves (n, M) of all shifts of the sets that start at time 0."""
    n = A.nrows()
    future = _powers(A, horizon)
    rows = [row for whole, _ in future for row in whole.tolist()]
    last = []
    directions = []
    for held in combinations(range(n * horizon), n - 1):
        if held[0] >= n:
            break
        direction = null_vector([rows[i] for i in held], n)
        if direction is not None:
            last.append(held[-1] // n)
            directions.append(direction)
    states = _states([*_powers(A.inv(), horizon)[:0:-1], *future], directions)
    protected = states[:, radius > 0]
    with np.errstate(over="ignore", under="ignore"):
        loads = np.abs(protected) / radius[radius > 0, None]
        refuse_range(loads[protected != 0])
        loads[protected == 0] = np.inf
        least = loads.min(axis=1, initial=np.inf)
        # row s of each is about the window from -s to horizon - 1 - s
        smallest = sliding_window_view(least, horizon, axis=0).min(axis=2)[::-1]
        shifts = np.arange(horizon)[:, None]
        seen = (np.array(last) + shifts < horizon) & (smallest < np.inf)
        first = states[horizon - 1 :: -1].swapaxes(0, 1)[:, seen]
        moves = first * ((1 + 2 * EPS) / smallest[seen])
        refuse_range(moves[first != 0])
    return moves


def _powers(A: RationalMatrix, count: int) -> list[tuple[IntegerMatrix, Integer]]:
    """Return the powers A^0, A^1, ... as integers and their common denominators."""
    step, denominator = A.numer_denom()
    wholes = accumulate([step] * (count - 1), operator.mul, initial=step**0)
    return [(whole, denominator**t) for t, whole in enumerate(wholes)]


def _states(
    powers: list[tuple[IntegerMatrix, Integer]], directions: list[list[int]]
) -> NDArray[np.float64]:
    """Return the states A^t z (times, n, M) in units of the largest entry of each z."""
    columns = IntegerMatrix(directions).transpose()
    largest = [max(map(abs, z)) for z in directions]
    values = []
    with working_bits(64):
        for whole, common in powers:
            units = [1 / Ball(common * size) for size in largest] * columns.nrows()
            entries = (whole * columns).entries()
            states = np.array(
                [float(x * unit) for x, unit in zip(entries, units, strict=True)]
            )
            refuse_range(states[[bool(x) for x in entries]])
            values.append(states.reshape(-1, len(directions)))
    return np.array(values)
