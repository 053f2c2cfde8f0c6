"""Adjacent moves and what they do to the outputs, from definitions and dense matrices.

The second route of the contract: plain recursions over public fields of adjacencies, no
code of the package.
"""

from collections.abc import Iterator, Sequence
from itertools import combinations, product

import control as ct
import numpy as np
from numpy.typing import NDArray

import privcontrol as pc

Sequences = Sequence[ct.StateSpace]


def run(plants: Sequences, start: NDArray, entering: dict[int, tuple]) -> NDArray:
    """Outputs (T p,) of a run from a state, which E w enters and F w passes.

    ``plants`` has the plant of each sample, ``entering`` (E w, F w) by sample.
    """
    state = np.array(start, float)
    outputs = []
    for t, plant in enumerate(plants):
        into, past = entering.get(t, (0.0, 0.0))
        outputs.append(plant.C @ state + past)
        state = plant.A @ state + into
    return np.concatenate(outputs)


def _radii(adjacency, labels: Sequence[str], chosen) -> dict[str, float]:
    """The radius of each protected signal by its name."""
    radius = adjacency.radius
    if hasattr(radius, "items"):
        return dict(radius)
    names = list(labels) if chosen is None else chosen
    names = [labels[name] if isinstance(name, int) else name for name in names]
    each = np.broadcast_to(np.asarray(radius, float), len(names))
    return dict(zip(names, each.tolist()))


def _state_moves(adjacency, plants: Sequences, own: int | None) -> NDArray:
    """Moves (n, M) of x(0): a state at a time, the others then held.

    After the first ``own`` states are those of delays. Delayed inputs do not differ,
    delayed outputs differ as the other states did before. A move at t = 0 may also find
    them held.
    """
    plant = plants[0]
    radii = _radii(adjacency, plant.state_labels, adjacency.states)
    times = range(len(plants)) if adjacency.times is None else adjacency.times
    own = own or plant.nstates
    A = plant.A[:own, :own]
    delayed = plant.A[own:, :own]  # of an output that is read one sample late
    columns = []
    back = np.eye(own)
    for t in range(max(times) + 1):
        if t in times:
            for name, mu in radii.items():
                place = plant.state_labels.index(name)
                move = np.linalg.solve(back, mu * np.eye(own)[place])
                if t == 0:
                    columns.append(np.append(move, np.zeros(len(delayed))))
                if len(delayed):
                    read = delayed @ np.linalg.solve(A, move)
                    columns.append(np.append(move, read))
                elif t > 0:
                    columns.append(move)
        back = A @ back
    return np.column_stack(columns)


def _chart_moves(adjacency, plant: ct.StateSpace, horizon: int) -> NDArray:
    """Moves (n, M) of x(0) of Definition 4: every free set, by brute force."""
    radii = _radii(adjacency, plant.state_labels, adjacency.states)
    powers = [np.linalg.matrix_power(plant.A, t) for t in range(horizon)]
    rows = np.vstack(powers)
    sizes = [radii.get(name, 0.0) for name in plant.state_labels] * horizon
    columns = []
    for free in combinations(range(len(rows)), plant.nstates):
        chart = rows[list(free)]
        if abs(np.linalg.det(chart)) < 1e-12:
            continue
        columns += [
            np.linalg.solve(chart, sizes[entry] * np.eye(plant.nstates)[k])
            for k, entry in enumerate(free)
        ]
    return np.column_stack(columns)


def _ball(adjacency, plant: ct.StateSpace) -> NDArray:
    """Axes mu_k e_k (n, q) of a ball of initial states."""
    radii = _radii(adjacency, plant.state_labels, adjacency.states)
    places = [plant.state_labels.index(name) for name in radii]
    return np.eye(plant.nstates)[:, places] * list(radii.values())


def _ball_of_data(adjacency, plant: ct.StateSpace, horizon: int) -> NDArray:
    """Axes (n, n) of the initial states whose trajectories have a norm of one."""
    powers = [np.linalg.matrix_power(plant.A, t) for t in range(horizon)]
    _, triangle = np.linalg.qr(np.vstack(powers))
    return adjacency.radius * np.linalg.inv(triangle)


def _entry(plant: ct.StateSpace, name: str) -> tuple[NDArray, NDArray]:
    """The columns E and F of a signal."""
    if name in plant.input_labels:
        column = plant.input_labels.index(name)
        return plant.B[:, column], plant.D[:, column]
    place = plant.state_labels.index(name)
    return np.eye(plant.nstates)[place], np.zeros(plant.noutputs)


def _entering(adjacency, plants: Sequences) -> tuple[NDArray, NDArray]:
    """Outputs (T p, M) of each change of a signal, and the samples (M,) of their starts."""
    horizon = len(plants)
    radii = _radii(adjacency, plants[0].input_labels, adjacency.inputs)
    times = range(horizon) if adjacency.times is None else adjacency.times
    shapes = adjacency.profiles
    if shapes is None:
        shapes = [np.ones(k + 1) for k in range(adjacency.duration)]
    columns, starts = [], []
    for name, mu in radii.items():
        for start in times:
            for shape in shapes:
                entering = {}
                for k, value in enumerate(mu * np.asarray(shape)):
                    if start + k < horizon:
                        into, past = _entry(plants[start + k], name)
                        entering[start + k] = (into * value, past * value)
                columns.append(run(plants, np.zeros(plants[0].nstates), entering))
                starts.append(start)
    return np.column_stack(columns), np.array(starts)


def responses(
    adjacency, plants: Sequences, own: int | None = None
) -> tuple[str, NDArray]:
    """What moves do to the outputs: ("points" or "ball", columns (T p, M)).

    The moves are the columns, or all combinations of them whose coefficients have a
    2-norm of at most one.
    """
    if isinstance(adjacency, pc.DisturbanceAdjacency):
        kind = "ball" if adjacency.norm == "l2" else "points"
        columns, starts = _entering(adjacency, plants)
        if adjacency.events > 1:
            columns = _several(columns, starts, adjacency)
        return kind, columns
    kind = "points"
    if isinstance(adjacency, pc.ManifoldAdjacency):
        everywhere = pc.StateAdjacency(adjacency.radius, charts="all")
        starts = _chart_moves(everywhere, plants[0], len(plants))
    elif isinstance(adjacency, pc.DirectionAdjacency):
        starts = adjacency.directions[: plants[0].nstates]
    elif isinstance(adjacency, pc.BallAdjacency):
        kind = "ball"
        starts = _ball_of_data(adjacency, plants[0], len(plants))
    elif isinstance(adjacency, pc.StateAdjacency):
        if adjacency.charts == "all":
            starts = _chart_moves(adjacency, plants[0], len(plants))
        else:
            starts = _state_moves(adjacency, plants, own)
    else:
        starts = _ball(adjacency, plants[0])
        if adjacency.norm == 2:
            kind = "ball"
        if adjacency.norm == np.inf:
            signs = np.indices((2,) * starts.shape[1]).reshape(starts.shape[1], -1)
            starts = starts @ (2 * signs - 1)
    return kind, np.column_stack([run(plants, start, {}) for start in starts.T])


def _several(columns: NDArray, starts: NDArray, adjacency) -> NDArray:
    """Sums of so many changes that keep their distance, each with either sign."""
    sums, events = [columns], adjacency.events
    for chosen in combinations(range(columns.shape[1]), events):
        apart = np.diff(np.sort(starts[list(chosen)]))
        if (apart < adjacency.separation).any():
            continue
        sums.extend(
            columns[:, chosen] @ np.array(signs)[:, None]
            for signs in product((1.0, -1.0), repeat=events)
        )
    return np.hstack(sums)


def sequences(
    models: Sequences, horizon: int, varying: bool, rng: np.random.Generator
) -> Iterator[list[ct.StateSpace]]:
    """The plant of each sample: each model for the whole run, then models that change."""
    for plant in models:
        yield [plant] * horizon
    if not varying:
        return
    for _ in range(20):
        held = rng.integers(1, horizon + 1)
        drawn = rng.integers(len(models), size=horizon)
        yield [models[drawn[t // held]] for t in range(horizon)]
