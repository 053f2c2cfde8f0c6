"""A guarantee when the plant is not exactly the model: the worst over several plants, for the noise as it was designed.

The noise is drawn from the nominal plant; the secret's response is the true plant's. What leaves the column space of
structured noise is published, unless there is a white floor.
"""

from dataclasses import replace

import numpy as np
from flint import arb_mat, fmpq, fmpq_mat

from ..core._balls import ball_matrix, largest_eigenvalue, upper_bounds, working_bits
from ..core._linalg import round_up
from ..core.errors import NotRealizableError
from ..core.guarantee import PrivacyGuarantee, Scope
from ..core.loss import GaussianLoss, LaplaceLoss
from ..core.moves import EllipsoidMoves
from ..trajectory._forms import NoiseForm, certified, moved
from ..trajectory.adjacency import StateAdjacency
from ..trajectory.disturbance import JointAdjacency
from ..trajectory.manifold import trajectory_manifold
from ..trajectory.plant import Plant
from ._common import ASSUMPTIONS, model_clause
from ._images import Images, dense_root, disturbances, query_of, shift_sizes
from .boxes import PlantBox, largest_shift
from .parts import Structured, White

_LEAVES = (
    "under the model {name} a hidden move leaves the column space of the noise, which covers the nominal plant's free "
    "responses alone, or may do so: it would be published exactly. Add a white floor (design_output_noise(..., floor=...)), which "
    "covers every direction"
)


def models_guarantee(noise, models, *, adjacency=None):
    """The guarantee of a noise when the true plant is any of several models.

    For each model and each hidden move, y^2 = s^T Gamma^-1 s with s the model's response to its own move and Gamma the
    covariance of the noise, as it was designed for the nominal plant. It is exact, and computed with n x n matrices in
    ball arithmetic, whatever the horizon.

    Parameters
    ----------
    noise : OutputNoise
        From `design_output_noise`.
    models : StateSpace, sequence of StateSpace, or PlantBox
        Plants with the nominal plant's outputs, and its state and input labels as far as the adjacency names them. The
        nominal plant is covered only if it is among them. For a `PlantBox` the result is a certified upper bound, at
        most 0.1 % above what some plant in it attains.
    adjacency : Adjacency, optional
        Another secret than the one that the noise was designed for.

    Returns
    -------
    PrivacyGuarantee
        For the adjacency that the noise was designed for, assuming that the plant is one of the models.

    Raises
    ------
    NotRealizableError
        If a model's moves leave the column space of noise without a floor; that is decided exactly.

    Examples
    --------
    >>> import control as ct, privcontrol as pc
    >>> vehicle, wrong = pc.plants.vehicle(), pc.plants.vehicle()
    >>> wrong.A[0, 0] = 0.999
    >>> request = dict(horizon=100, adjacency=pc.StateAdjacency({"position": 1.0}),
    ...                budget=pc.PrivacyBudget(epsilon=1.0, delta=1e-2))
    >>> try:
    ...     pc.design_output_noise(vehicle, **request).guarantee_for([wrong])
    ... except pc.NotRealizableError:
    ...     print("published exactly")
    published exactly
    >>> noise = pc.design_output_noise(vehicle, floor=1.0, **request)
    >>> round(noise.guarantee_for([wrong]).gdp, 4)
    0.6368

    References
    ----------
    DPAM Theorem 1 for a Gaussian query on a manifold.
    """
    if noise.request is None and adjacency is None:
        raise ValueError(
            "adjacency: the noise does not say what it hides; say what is to be hidden"
        )
    adjacency = noise.request.adjacency if adjacency is None else adjacency
    if isinstance(models, PlantBox):
        loss = GaussianLoss(largest_shift(noise, models, adjacency), (), False)
        return _guarantee(
            noise,
            loss,
            adjacency,
            (models.fingerprint,),
            f"A and C within a box of {len(models.entries)} intervals",
        )
    models = [
        Plant.of(model)
        for model in (models if isinstance(models, (list, tuple)) else [models])
    ]
    if not models:
        raise ValueError("models: expected at least one plant")
    if noise.family == "laplace":
        loss = _laplace_loss(noise, models, adjacency)
    else:
        found = [_squares(noise, model, adjacency) for model in models]
        worst = max(float(squares.max()) for squares, _ in found)
        loss = GaussianLoss(
            float(round_up(np.sqrt(worst))), (), all(exact for _, exact in found)
        )
    fingerprints = tuple(sorted({model.fingerprint for model in models}))
    return _guarantee(noise, loss, adjacency, fingerprints, model_clause(len(models)))


def _guarantee(noise, loss, adjacency, fingerprints, assumption):
    assumptions, old = (assumption, *ASSUMPTIONS[1:]), noise.guarantee
    if noise.request is not None and adjacency == noise.request.adjacency:
        scope = replace(old.scope, assumptions=assumptions, models=fingerprints)
        return replace(old, loss=loss, scope=scope)
    manifold = query_of(noise.plant, noise.horizon, adjacency).manifold
    return PrivacyGuarantee(
        loss,
        Scope.of(adjacency, manifold, assumptions=assumptions, models=fingerprints),
        1,
        old.quoted_delta,
    )


def _squares(noise, model, adjacency):
    """Upper bounds of y^2 of the moves under a model, and whether they are attained."""
    if noise.consists_of(Structured, White) and not disturbances(adjacency):
        if noise.scale is None:
            return _exact_squares(noise, model, adjacency)
        form = NoiseForm(noise.plant, noise.horizon, noise.factor, noise.scale)
        return _form_squares(form, adjacency, model, noise.horizon)
    root, doubt = dense_root(noise)
    if root is None:
        raise NotRealizableError(_LEAVES.format(name=model.name))
    images = Images.of(adjacency, model, noise.horizon)
    return (shift_sizes(root, images) * (1 + doubt)) ** 2 * (1 + 1e-15), images.exact


def state_sizes(plant, request, factor, model):
    """Upper bounds of y^2 under a model for the floor of a request and a structured factor, and whether attained."""
    form = NoiseForm(plant, request.horizon, factor, request.floor)
    return _form_squares(form, request.adjacency, model, request.horizon)


def _form_squares(form, adjacency, model, horizon):
    squares, exact = [], True
    for part in (
        adjacency.parts if isinstance(adjacency, JointAdjacency) else (adjacency,)
    ):
        manifold = trajectory_manifold(model, horizon)
        images, bits = moved(part, manifold, 0, horizon)
        moves = part.moves(manifold)
        exact &= moves.exact
        if isinstance(moves, EllipsoidMoves):
            gram = lambda Z=images: [largest_eigenvalue(form.gram(Z, model.A, model.C))]  # noqa: E731
            squares.append(certified(gram, bits))
        else:
            squares.append(
                certified(lambda Z=images: form.squares(Z, model.A, model.C), bits)
            )
    return np.concatenate(squares), exact


def _exact_squares(noise, model, adjacency):
    """y^2 without a floor: the moves' shifts, after membership in the column space has been decided in rationals."""
    shifts, ball, exact = _exact_shifts(noise, model, adjacency)
    if ball:
        return np.array([np.linalg.norm(shifts, 2) ** 2 * (1 + 1e-13)]), exact
    return np.sum(shifts**2, axis=0) * (1 + 1e-14), exact


def _laplace_loss(noise, models, adjacency):
    if noise.factor is None:
        raise ValueError(
            "models: independent Laplace noise is not specific to a model; redesign with models=[...]"
        )
    found = [_exact_shifts(noise, model, adjacency) for model in models]
    if any(ball for _, ball, _ in found):
        raise ValueError(
            "models: expected an adjacency of single moves for Laplace noise"
        )
    return LaplaceLoss.of(np.hstack([shifts for shifts, _, _ in found]), exact=False)


def _exact_shifts(noise, model, adjacency):
    """Shifts (r, M) of structured noise under a model, rounded up.

    n + n' samples decide: two plants of orders n and n' whose outputs agree for so long agree for ever.
    """
    nominal = noise.plant
    samples = nominal.order + model.order
    own = _rational_outputs(nominal, _rational(noise.factor), samples)
    manifold = trajectory_manifold(model, noise.horizon)
    spans = _rational_outputs(model, _spanning_moves(adjacency, manifold), samples)
    both = fmpq_mat([left + right for left, right in zip(own.table(), spans.table())])
    if both.rank() > own.rank():
        raise NotRealizableError(_LEAVES.format(name=model.name))
    rows = _independent_rows(own)
    inverse = fmpq_mat([own.table()[row] for row in rows]).inv()
    images, bits = moved(adjacency, manifold, 0, noise.horizon)
    moves = adjacency.moves(manifold)
    with working_bits(bits):
        outputs, power = [], images
        for _ in range(samples):
            outputs += (ball_matrix(model.C) * power).tolist()
            power = ball_matrix(model.A) * power
        chosen = arb_mat([outputs[row] for row in rows])
        shifts = upper_bounds(arb_mat(inverse) * chosen)
    return shifts, isinstance(moves, EllipsoidMoves), moves.exact


def _rational(array):
    return fmpq_mat(
        [[fmpq(*float(x).as_integer_ratio()) for x in row] for row in array]
    )


def _rational_outputs(plant, states, samples):
    A, C, rows = _rational(plant.A), _rational(plant.C), []
    for _ in range(samples):
        rows += (C * states).table()
        states = A * states
    return fmpq_mat(rows)


def _spanning_moves(adjacency, manifold):
    """Rational columns (n, k) whose span holds every move; for state moves a Krylov space of the inverse."""
    if not isinstance(adjacency, StateAdjacency):
        moves = adjacency.moves(manifold)
        return _rational(
            moves.factor if isinstance(moves, EllipsoidMoves) else moves.columns
        )
    moves = adjacency.moves(manifold)
    first, last = int(moves.times.min()), int(moves.times.max())
    A, start = _rational(manifold.plant.A), _rational(moves.axes)
    columns = []
    if last:
        inverse = A.inv()
        for _ in range(first):
            start = inverse * start
    for k in range(min(manifold.plant.order, last - first + 1)):
        columns.append(start)
        if k + 1 < min(manifold.plant.order, last - first + 1):
            start = inverse * start
    tables = [column.table() for column in columns]
    return fmpq_mat(
        [
            [entry for table in tables for entry in table[row]]
            for row in range(manifold.plant.order)
        ]
    )


def _independent_rows(matrix):
    """Indices of rows that form a nonsingular square matrix; the columns are independent."""
    rows, _ = matrix.transpose().rref()
    pivots, table = [], rows.table()
    for line in table:
        pivot = next((column for column, entry in enumerate(line) if entry != 0), None)
        if pivot is not None:
            pivots.append(pivot)
    return pivots
