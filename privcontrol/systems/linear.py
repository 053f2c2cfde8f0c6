"""Linear systems as four matrices of doubles, of balls or of rationals, and plants.

Everything in the package that is a linear system is one of these: a plant, what shapes
noise, what is left of a secret. python-control's systems carry names and time bases, which
a product of two of them loses. These have none, except for a `Plant`, which can be pickled
and never changes.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import compress
from typing import Any, Self, TypeAlias

import control as ct
import numpy as np
import scipy.linalg
from numpy.typing import ArrayLike, NDArray

from ..numerics.balls import Ball, BallMatrix, ball_matrix, block_balls, submatrix
from ..numerics.checks import real_array
from ..numerics.objects import ByContent
from ..numerics.saved import Saved, check_fields, digest_of, encode
from ..numerics.thresholds import BLOCK, CACHED, DOUBLINGS, NEGLIGIBLE

#: An array, a ball matrix or a rational matrix.
Matrix: TypeAlias = Any
#: A, B, C and D, with a leading axis of samples.
Stacks: TypeAlias = tuple[
    NDArray[np.float64], NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]
]

#: Samples that are computed together. A^64 of a plant has no modes that leave the range of
#: doubles.
LEAP = 64
#: Speed: columns of states from which the rows C A^t are moved on in their place, and
#: how many times as many there are.
_WIDE = 40
_MANY = 2


@dataclass(frozen=True, eq=False)
class LinearSystem(ByContent, Saved):
    """A system x(t+1) = A x(t) + B u(t), y(t) = C x(t) + D u(t).

    The matrices are arrays, and those of `in_balls` are ball matrices. Products, inverses
    and sums are those of either kind; responses, Gramians and poles are of arrays.
    """

    A: Matrix
    B: Matrix
    C: Matrix
    D: Matrix

    @classmethod
    def gain(cls, D: NDArray[np.float64]) -> LinearSystem:
        """Return the system without states y = D u."""
        D = np.atleast_2d(np.asarray(D, float))
        outputs, inputs = D.shape
        return LinearSystem(
            np.zeros((0, 0)), np.zeros((0, inputs)), np.zeros((outputs, 0)), D
        )

    @classmethod
    def _restored(cls, saved: dict[str, Any]) -> Self:
        system = super()._restored(saved)
        system._check_matrices()
        return system

    def _check_matrices(self) -> None:
        """Refuse matrices that a file may hold and no system has."""
        _check_fit(self.matrices, axes=2)

    @property
    def matrices(self) -> tuple[Matrix, Matrix, Matrix, Matrix]:
        """A, B, C and D."""
        return self.A, self.B, self.C, self.D

    @property
    def order(self) -> int:
        """Number of states n."""
        return _shape(self.A)[0]

    @property
    def input_count(self) -> int:
        """Number of inputs q."""
        return _shape(self.B)[1]

    @property
    def output_count(self) -> int:
        """Number of outputs p."""
        return _shape(self.C)[0]

    #: Whether the matrices vary from sample to sample.
    varies = False

    def at(self, t: int) -> LinearSystem:
        """Return the system at sample t, which is always this one."""
        return self

    # -- numbers -----------------------------------------------------------------------

    def in_balls(self, rounded: Collection[int] = ()) -> LinearSystem:
        """Return the system in balls at the working precision.

        The doubles are exact, but the columns of B and D of ``rounded`` inputs, which have
        the radius of their last place.
        """
        return LinearSystem(
            ball_matrix(self.A),
            _rounded_columns(self.B, rounded),
            ball_matrix(self.C),
            _rounded_columns(self.D, rounded),
        )

    # -- systems of systems ------------------------------------------------------------

    def after(self, first: LinearSystem) -> LinearSystem:
        """Return the product with a system whose outputs enter here."""
        corner = _zeros(self.A, first.order, self.order)
        entering_state = _product(self.B, first.C)
        entering = _product(self.B, first.D)
        passing = _product(self.D, first.C)
        return LinearSystem(
            _blocks([[first.A, corner], [entering_state, self.A]]),
            _blocks([[first.B], [entering]]),
            _blocks([[passing, self.C]]),
            _product(self.D, first.D),
        )

    def inverse(self) -> LinearSystem:
        """Return the inverse of a square system with a nonsingular D.

        A ``ZeroDivisionError`` says that D in balls is not proven nonsingular.
        """
        D = np.linalg.inv(self.D) if isinstance(self.D, np.ndarray) else self.D.inv()
        B = _product(self.B, D)
        closed = self.A - _product(B, self.C)
        return LinearSystem(closed, B, _product(-1 * D, self.C), D)

    def scaled(self, factor: float | Ball) -> LinearSystem:
        """Return the system with its outputs multiplied by a number."""
        return LinearSystem(self.A, self.B, self.C * factor, self.D * factor)

    def entered_by(self, inputs: Sequence[int]) -> LinearSystem:
        """Return the system with some of its inputs, in the given order."""
        B = _columns(self.B, inputs)
        D = _columns(self.D, inputs)
        return LinearSystem(self.A, B, self.C, D)

    # -- responses over time -----------------------------------------------------------

    def free_response(
        self, states: NDArray[np.float64], samples: int
    ) -> NDArray[np.float64]:
        """Return C A^t X (T p, r), time-major, for columns X (n, r) of initial states.

        It goes one step at a time up to `LEAP` samples, and from there on by so many at
        once. Where there are many states to move on, the rows C A^t are.
        """
        if not states.any():
            return np.zeros((samples * len(self.C), states.shape[1]))
        if states.shape[1] > _MANY * len(self.C) and states.shape[1] >= _WIDE:
            every = np.eye(self.order)
            turned = LinearSystem(self.A.T, self.B[:0], every, every[:0])
            seen = turned.free_response(self.C.T, samples)
            seen = seen.reshape(samples, self.order, -1).swapaxes(1, 2)
            return seen.reshape(-1, self.order) @ states
        block = [states]
        for _ in range(min(samples, LEAP) - 1):
            block.append(self.A @ block[-1])
        following = np.concatenate(block, axis=1)
        leap = np.linalg.matrix_power(self.A, len(block))
        rows, columns, length = len(self.C), states.shape[1], len(block)
        whole, rest = divmod(samples, length)
        outputs = np.empty((samples, rows, columns))
        framed = outputs[: whole * length].reshape(whole, length, rows, columns)
        at_once = max(1, min(whole, CACHED // max(1, following.size)))
        group = np.empty((at_once, *following.shape))
        for first in range(0, whole, at_once):
            blocks = group[: whole - first]
            for one in blocks:
                one[:] = following
                np.matmul(leap, one, out=following)
            frames = (self.C @ blocks).reshape(len(blocks), rows, length, columns)
            framed[first : first + len(blocks)] = frames.swapaxes(1, 2)
        if rest:
            frames = self.C @ following[:, : rest * columns]
            frames = frames.reshape(rows, rest, columns)
            outputs[whole * length :] = frames.swapaxes(0, 1)
        return outputs.reshape(samples * rows, columns)

    def impulse_response(self, samples: int) -> NDArray[np.float64]:
        """Return D, C B, C A B, ..., shape (samples, p, q)."""
        later = self.free_response(self.B, samples - 1)
        return np.vstack([self.D, later]).reshape(samples, *self.D.shape)

    def run(
        self, start: NDArray[np.float64], inputs: NDArray[np.float64], first: int = 0
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return outputs (runs, T, p), and the states (runs, n) after the last sample.

        ``start`` (runs, n) are states before the first of the ``inputs`` (runs, T, q),
        which enters at sample ``first``. The bits of a run do not depend on the number of
        runs.
        """
        driven = mapped(self.B, inputs)
        states = np.empty_like(driven)
        for t in range(inputs.shape[1]):
            states[:, t] = start
            start = mapped(self.A, start) + driven[:, t]
        from_states = mapped(self.C, states)
        at_once = mapped(self.D, inputs)
        return from_states + at_once, start


@dataclass(frozen=True, eq=False)
class Autoregression(LinearSystem):
    """y(t) = -a_1 y(t-1) - ... - a_p y(t-p) + s u(t), whose inverse has a finite response.

    The states are the last p outputs.
    """

    @classmethod
    def of(cls, coefficients: NDArray[np.float64], std: float) -> Self:
        """Return that of coefficients (p,) a_1, ..., a_p and the size s > 0 of its input."""
        order = len(coefficients)
        A = np.eye(order, k=-1)
        A[:1] = -coefficients
        C = -np.atleast_2d(coefficients)
        return cls(A, std * np.eye(order, 1), C, np.array([[std]]))

    @property
    def coefficients(self) -> NDArray[np.float64]:
        """a_1, ..., a_p."""
        return -self.C[0]

    @property
    def std(self) -> float:
        """The size s of the input."""
        return float(self.D[0, 0])

    def scaled(self, factor: float | Ball) -> LinearSystem:
        if isinstance(factor, Ball):
            return super().scaled(factor)
        return Autoregression.of(self.coefficients, self.std * factor)

    def _saved_fields(self) -> dict[str, object]:
        return {"coefficients": self.coefficients, "std": self.std}

    @classmethod
    def _restored(cls, saved: dict[str, Any]) -> Self:
        coefficients = real_array(saved["coefficients"], "coefficients", ndim=1)
        std = float(saved["std"])
        if not (len(coefficients) and 0 < std < math.inf):
            raise ValueError("std: expected coefficients and a size above 0")
        return cls.of(coefficients, std)


@dataclass(frozen=True, eq=False)
class VaryingSystem(LinearSystem):
    """A system x(t+1) = A_t x + B_t u, y = C_t x + D_t u for t = 0 .. T-1.

    It has no matrix A, B, C or D of its own: what asks for one is refused, so no route for
    constant systems takes it by mistake. The matrices of a sample are those of `at`.

    Attributes
    ----------
    along : tuple of ndarray, shapes (T, n, n), (T, n, q), (T, p, n), (T, p, q)
        A_t, B_t, C_t and D_t.
    """

    A: Matrix = field(init=False, repr=False, compare=False)
    B: Matrix = field(init=False, repr=False, compare=False)
    C: Matrix = field(init=False, repr=False, compare=False)
    D: Matrix = field(init=False, repr=False, compare=False)
    along: Stacks

    varies = True

    @classmethod
    def of_samples(cls, systems: Sequence[LinearSystem]) -> VaryingSystem:
        """Return the system that is each of some in turn."""
        every = zip(*(system.matrices for system in systems), strict=True)
        A, B, C, D = (np.stack(matrices) for matrices in every)
        return VaryingSystem((A, B, C, D))

    def __getattr__(self, name: str) -> Any:
        if name not in ("A", "B", "C", "D"):
            raise AttributeError(name)
        raise ct.ControlArgument(
            f"sys: its {name} varies from sample to sample, since it is a list of plants, "
            "and this is for a plant that stays the same; pass one StateSpace"
        )

    def _check_matrices(self) -> None:
        _check_fit(self.along, axes=3)

    @property
    def samples(self) -> int:
        """Number of samples T."""
        return len(self.along[0])

    @property
    def order(self) -> int:
        return self.along[0].shape[1]

    @property
    def input_count(self) -> int:
        return self.along[1].shape[2]

    @property
    def output_count(self) -> int:
        return self.along[2].shape[1]

    def at(self, t: int) -> LinearSystem:
        """Return the system at sample t."""
        return LinearSystem(*(matrices[t] for matrices in self.along))

    def entered_by(self, inputs: Sequence[int]) -> VaryingSystem:
        A, B, C, D = self.along
        chosen = list(inputs)
        return VaryingSystem((A, B[:, :, chosen], C, D[:, :, chosen]))

    def free_response(
        self, states: NDArray[np.float64], samples: int
    ) -> NDArray[np.float64]:
        """Return C_t Phi(t, 0) X (T p, r), time-major, for columns X (n, r)."""
        outputs = np.empty((samples, self.output_count, states.shape[1]))
        A, _, C, _ = self.along
        for t in range(samples):
            outputs[t] = C[t] @ states
            states = A[t] @ states
        return outputs.reshape(samples * self.output_count, states.shape[1])

    def impulse_response(self, samples: int) -> NDArray[np.float64]:
        """Refuse inputs, whose responses differ by the sample at which they enter."""
        if self.input_count:
            raise ct.ControlArgument(
                "sys: a system that varies has another impulse response at each sample"
            )
        return np.zeros((samples, self.output_count, 0))

    def run(
        self, start: NDArray[np.float64], inputs: NDArray[np.float64], first: int = 0
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        outputs = np.empty((*inputs.shape[:2], self.output_count))
        for k in range(inputs.shape[1]):
            A, B, C, D = (matrices[first + k] for matrices in self.along)
            outputs[:, k] = mapped(C, start) + mapped(D, inputs[:, k])
            start = mapped(A, start) + mapped(B, inputs[:, k])
        return outputs, start


def stacks_of(system: LinearSystem) -> Stacks:
    """Return A, B, C and D, with a leading axis of samples where they vary."""
    return system.along if isinstance(system, VaryingSystem) else system.matrices


def by_sample(
    combined: Callable[..., LinearSystem], *systems: LinearSystem
) -> LinearSystem:
    """Return what some systems make together, sample by sample where one of them varies."""
    lengths = [each.samples for each in systems if isinstance(each, VaryingSystem)]
    if not lengths:
        return combined(*systems)
    every = []
    for t in range(min(lengths)):
        every.append(combined(*(each.at(t) for each in systems)))
    return VaryingSystem.of_samples(every)


# -- systems made of others --------------------------------------------------------------


def queue_of(length: int) -> LinearSystem:
    """Return a queue of values without inputs, of which the first state leaves next.

    The free response of ``system.after(queue)`` to values in the queue is the response of
    a system with one input to these values.
    """
    return LinearSystem(
        np.eye(length, k=1), np.zeros((length, 0)), np.eye(1, length), np.zeros((1, 0))
    )


def sum_of(first: LinearSystem, second: LinearSystem) -> LinearSystem:
    """Return the sum of the outputs of two systems, each with inputs of its own."""
    if not (first.varies or second.varies):
        return _sum_of(first, second)
    both = (first, second)
    samples = min(each.samples for each in both if isinstance(each, VaryingSystem))
    ours, theirs = _along(first, samples), _along(second, samples)
    A, B, C, D = (
        _diagonal(one, other) for one, other in zip(ours, theirs, strict=True)
    )
    p = first.output_count
    return VaryingSystem((A, B, C[:, :p] + C[:, p:], D[:, :p] + D[:, p:]))


def _along(system: LinearSystem, samples: int) -> list[NDArray[np.float64]]:
    """Return the matrices of a system at so many samples."""
    if isinstance(system, VaryingSystem):
        return [matrices[:samples] for matrices in system.along]
    return [np.broadcast_to(one, (samples, *one.shape)) for one in system.matrices]


def _diagonal(
    first: NDArray[np.float64], second: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return stacks of matrices (T, a, b) and (T, c, d) as blocks on a diagonal."""
    samples, rows, columns = first.shape
    _, below, beyond = second.shape
    every = np.zeros((samples, rows + below, columns + beyond))
    every[:, :rows, :columns] = first
    every[:, rows:, columns:] = second
    return every


def _sum_of(first: LinearSystem, second: LinearSystem) -> LinearSystem:
    both = beside(first, second)
    C = _blocks([[first.C, second.C]])
    return LinearSystem(both.A, both.B, C, _blocks([[first.D, second.D]]))


def beside(first: LinearSystem, second: LinearSystem) -> LinearSystem:
    """Return two systems, each with inputs and outputs of its own."""
    matrices = []
    for one, other in zip(first.matrices, second.matrices, strict=True):
        rows, columns = _shape(one)
        below, beyond = _shape(other)
        right = _zeros(one, rows, beyond)
        left = _zeros(one, below, columns)
        matrices.append(_blocks([[one, right], [left, other]]))
    return LinearSystem(*matrices)


def transformed(system: LinearSystem, basis: BallMatrix) -> LinearSystem:
    """Return a system in coordinates x = basis x', in balls."""
    back = basis.inv()
    A = back * system.A * basis
    return LinearSystem(A, back * system.B, system.C * basis, system.D)


def to_states(system: LinearSystem) -> LinearSystem:
    """Return the system whose outputs are the states."""
    return by_sample(_to_states, system)


def _to_states(system: LinearSystem) -> LinearSystem:
    n = system.order
    still = np.zeros((n, system.input_count))
    return LinearSystem(system.A, system.B, np.eye(n), still)


# -- what systems of arrays do -----------------------------------------------------------


def orbit(
    system: LinearSystem, states: NDArray[np.float64], samples: int
) -> NDArray[np.float64]:
    """Return A^t X (T, n, r) for columns X (n, r) of initial states."""
    stacked = to_states(system).free_response(states, samples)
    return stacked.reshape(samples, system.order, -1)


def response_from_rest(
    system: LinearSystem, inputs: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return outputs (T, p, r) from rest, for inputs (T, q, r) side by side."""
    if system.varies:
        rest = np.zeros((inputs.shape[2], system.order))
        outputs, _ = system.run(rest, inputs.transpose(2, 0, 1))
        return outputs.transpose(1, 2, 0)
    outputs = system.D @ inputs
    state = np.zeros((system.order, inputs.shape[2]))
    for t, now in enumerate(inputs):
        outputs[t] += system.C @ state
        state = system.A @ state + system.B @ now
    return outputs


def poles_of(system: LinearSystem) -> NDArray[np.inexact]:
    """Return the eigenvalues of A (n,)."""
    return np.linalg.eigvals(system.A)


def spectral_radius(system: LinearSystem) -> float:
    """Return the largest modulus of a pole, zero without states."""
    return float(np.abs(poles_of(system)).max(initial=0.0))


def frequency_response(
    system: LinearSystem, points: NDArray[np.complex128]
) -> NDArray[np.complex128]:
    """Return C (z I - A)^-1 B + D at complex points z (N,), shape (N, p, q)."""
    if len(points) > system.order:
        return _triangular_response(system, points)
    identity = np.eye(system.order)
    entering = system.B.astype(complex)
    block = max(1, BLOCK // max(1, system.order) ** 2)
    responses = []
    for start in range(0, len(points), block):
        z = points[start : start + block, None, None]
        states = np.linalg.solve(z * identity - system.A, entering)
        responses.append(system.C @ states + system.D)
    return np.concatenate(responses)


def _triangular_response(
    system: LinearSystem, points: NDArray[np.complex128]
) -> NDArray[np.complex128]:
    """`frequency_response` at many points, behind one Schur form A = Q T Q^*.

    Substitution takes O(n^2) operations at each point. The states have units that balance
    A.
    """
    sizes, balanced = _balanced(system.A)
    triangle, basis = scipy.linalg.schur(balanced, output="complex")
    entering = basis.conj().T @ (system.B / sizes[:, None])
    reading = system.C * sizes @ basis
    states = np.empty((system.order, len(points), system.input_count), complex)
    for k in reversed(range(system.order)):
        known = np.tensordot(triangle[k, k + 1 :], states[k + 1 :], 1)
        distance = points - triangle[k, k]
        states[k] = (entering[k] + known) / distance[:, None]
    return np.einsum("pk,knq->npq", reading, states) + system.D


def reachability_gramian(system: LinearSystem) -> NDArray[np.float64]:
    """Return P = A P A^T + B B^T of a stable system, its covariance in white noise."""
    return _gramian(system.A, system.B)


def observability_gramian(system: LinearSystem) -> NDArray[np.float64]:
    """Return Q = A^T Q A + C^T C of a stable system, the energy x^T Q x of a state."""
    return _gramian(system.A.T, system.C.T)


def _balanced(
    A: NDArray[np.float64],
) -> tuple[NDArray[np.floating], NDArray[np.float64]]:
    """Return units (n,) of the states that balance A, and A in these units."""
    _, (sizes, _) = scipy.linalg.matrix_balance(A, permute=False, separate=True)
    return sizes, A / sizes[:, None] * sizes


def _gramian(A: NDArray[np.float64], B: NDArray[np.float64]) -> NDArray[np.float64]:
    """The solution of P = A P A^T + B B^T, with states in units that balance A."""
    sizes, balanced = _balanced(A)
    units = np.outer(sizes, sizes)
    return units * scipy.linalg.solve_discrete_lyapunov(balanced, B @ B.T / units)


def impulse_energies(system: LinearSystem) -> NDArray[np.float64]:
    """Return the energy (q,) of the response to an impulse at each input."""
    later = np.sum(system.B * (observability_gramian(system) @ system.B), axis=0)
    return later + np.sum(system.D**2, axis=0)


def output_variances(system: LinearSystem) -> NDArray[np.float64]:
    """Return variances (p,) of the outputs of a stable system in white noise.

    A root of the states' covariance is summed, so large states that cancel in an output
    leave it its digits.
    """
    root = system.B
    power = system.A
    for _ in range(DOUBLINGS):
        later = power @ root
        root = narrowed(np.hstack([root, later]))
        if not later.any():
            break
        power = power @ power
    return np.sum((system.C @ root) ** 2, axis=1) + np.sum(system.D**2, axis=1)


def reached_states(
    links: NDArray[np.bool_], start: NDArray[np.bool_], steps: int | None = None
) -> NDArray[np.bool_]:
    """Return the mask (n,) of states that a path of so many links leads to from a start.

    ``links[i, j]`` says that state j enters state i. By default paths have any length.
    """
    reached = start
    for _ in range(len(links) if steps is None else steps):
        further = reached | links[:, reached].any(axis=1)
        if (further == reached).all():
            break
        reached = further
    return reached


# -- covariances and prices ---------------------------------------------------------------


def semidefinite(
    value: ArrayLike, name: str, size: int, hint: str = ""
) -> NDArray[np.float64]:
    """A symmetric positive semidefinite matrix (size, size).

    It is made of itself, its diagonal, or a multiple of the identity. ``hint`` ends the
    message about another shape.
    """
    array = real_array(value, name)
    if array.shape in ((), (size,)):
        array = np.diag(np.broadcast_to(array, size))
    if array.shape != (size, size):
        raise ct.ControlDimension(
            f"{name}: expected shape ({size}, {size}), got {array.shape}{hint}"
        )
    if not size:
        return array
    largest = np.abs(array).max()
    if np.abs(array - array.T).max() > 1e-10 * largest:
        raise ValueError(
            f"{name}: expected a symmetric matrix; pass ({name} + {name}.T) / 2"
        )
    smallest = scipy.linalg.eigvalsh(array)[0]
    if smallest < -1e-10 * largest:
        raise ValueError(
            f"{name}: expected a positive semidefinite matrix, got smallest eigenvalue "
            f"{smallest:.3g}"
        )
    return array


def narrowed(root: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return a root M with the same M M^T, with at most as many columns as rows."""
    if root.shape[1] <= len(root):
        return root
    return np.linalg.qr(root.T).R.T


def root(covariance: NDArray[np.float64]) -> NDArray[np.float64]:
    """A square root M (size, size) with M M^T = covariance.

    It is that of the correlations, so it is as precise for entries in units far apart.
    """
    return _root(covariance, 0.0)


def singular_root(covariance: NDArray[np.float64]) -> NDArray[np.float64]:
    """A `root` in which a direction is zero whose variance is that of rounding.

    For covariances that say what is known exactly. Rounding of 1e-16 has a root of 1e-8,
    which would pass for knowledge.
    """
    return _root(covariance, NEGLIGIBLE)


def _root(covariance: NDArray[np.float64], least: float) -> NDArray[np.float64]:
    """A root without what is below some part of the largest correlation."""
    sizes = np.sqrt(np.maximum(np.diag(covariance), 0.0))
    if len(sizes) == 1:
        return sizes[:, None]
    units = np.where(sizes > 0, sizes, np.inf)
    correlation = np.clip(covariance / units[:, None] / units, -1.0, 1.0)
    np.fill_diagonal(correlation, 1.0)
    values, vectors = scipy.linalg.eigh(correlation)
    values = np.where(values > least * values.max(initial=0.0), values, 0.0)
    return sizes[:, None] * vectors * np.sqrt(values)


# -- matrices of either kind -------------------------------------------------------------


def _check_fit(matrices: Sequence[Matrix], *, axes: int) -> None:
    """Refuse matrices A, B, C, D, or stacks of them, that are no system."""
    for matrix in matrices:
        is_one = isinstance(matrix, np.ndarray) and matrix.ndim == axes
        if not (is_one and np.isfinite(matrix).all()):
            raise ValueError("path: expected finite matrices of a system")
    *many, n, q = matrices[1].shape
    p = matrices[2].shape[-2]
    expected = [(*many, n, n), (*many, n, q), (*many, p, n), (*many, p, q)]
    if [matrix.shape for matrix in matrices] != expected:
        raise ValueError("path: the matrices of a system do not fit each other")


def _shape(matrix: Matrix) -> tuple[int, int]:
    if isinstance(matrix, np.ndarray):
        return matrix.shape
    return matrix.nrows(), matrix.ncols()


def _product(left: Matrix, right: Matrix) -> Matrix:
    return left @ right if isinstance(left, np.ndarray) else left * right


def _zeros(like: Matrix, rows: int, columns: int) -> Matrix:
    if isinstance(like, np.ndarray):
        return np.zeros((rows, columns))
    return BallMatrix(rows, columns)


def _blocks(blocks: list[list[Matrix]]) -> Matrix:
    if isinstance(blocks[0][0], np.ndarray):
        return np.block(blocks)
    return block_balls(blocks)


def _columns(matrix: Matrix, index: Sequence[int]) -> Matrix:
    if isinstance(matrix, np.ndarray):
        return matrix[:, list(index)]
    return submatrix(matrix, range(matrix.nrows()), index)


def _rounded_columns(
    array: NDArray[np.float64], rounded: Collection[int]
) -> BallMatrix:
    matrix = ball_matrix(array)
    for j in rounded:
        for i in range(matrix.nrows()):
            value = float(array[i, j])
            matrix[i, j] = Ball(value, math.ldexp(abs(value), -52))
    return matrix


def mapped(
    matrix: NDArray[np.float64], vectors: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return a matrix times vectors (..., k), in bits that do not depend on their number."""
    return np.einsum("ij,...j->...i", matrix, vectors)


@dataclass(frozen=True, eq=False, kw_only=True)
class SampledSystem(ByContent):
    """Sampling time and names of a plant in discrete time, linear or not."""

    dt: float | bool
    states: tuple[str, ...]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    name: str = field(compare=False)

    @property
    def order(self) -> int:
        """Number of states n."""
        return len(self.states)

    @property
    def step(self) -> float:
        """Length of one sample in seconds, one for ``dt=True``."""
        return 1.0 if self.dt is True else float(self.dt)

    @property
    def time_label(self) -> str:
        """Label of time axes in seconds, or in samples for ``dt=True``."""
        return "Time [samples]" if self.dt is True else "Time [s]"


@dataclass(frozen=True, eq=False)
class Plant(SampledSystem, LinearSystem):
    """A linear system of arrays with a sampling time and names."""

    @classmethod
    def of(cls, sys: ct.StateSpace | Plant) -> Plant:
        """The plant of a discrete-time StateSpace.

        Raises
        ------
        control.ControlArgument
            For transfer functions, nonlinear systems and continuous or unspecified time.
            The message says what to call.
        ValueError
            If a matrix is not finite, the sampling time is not positive and finite, the
            system has no output, or two states, inputs or outputs have one
            name.
        """
        if isinstance(sys, Plant):
            return sys
        check_discrete(sys)
        if not sys.noutputs:
            raise ValueError("sys: expected at least one output, got 0")
        # python-control keeps only one of two equal names
        counts = {"state": sys.nstates, "input": sys.ninputs, "output": sys.noutputs}
        for kind, count in counts.items():
            if len(getattr(sys, f"{kind}_labels")) != count:
                raise ValueError(
                    f"sys: expected {count} different {kind} names, got fewer; "
                    f"rename the {kind}s"
                )
        return cls(
            A=real_array(sys.A, "sys.A", ndim=2),
            B=real_array(sys.B, "sys.B", ndim=2),
            C=real_array(sys.C, "sys.C", ndim=2),
            D=real_array(sys.D, "sys.D", ndim=2),
            dt=sys.dt,
            states=tuple(sys.state_labels),
            inputs=tuple(sys.input_labels),
            outputs=tuple(sys.output_labels),
            name=sys.name,
        )

    def _saved_fields(self) -> dict[str, object]:
        return super()._saved_fields() | {"fingerprint": self.signature}

    @classmethod
    def _restored(cls, saved: dict[str, Any]) -> Self:
        fingerprint = saved.pop("fingerprint")
        plant = super()._restored(saved)
        check_fields(plant)
        names = (plant.states, plant.inputs, plant.outputs)
        A, B, C, _ = plant.at(0).matrices
        sizes = (len(A), B.shape[1], len(C))
        if sizes != tuple(len(set(each)) for each in names) or not plant.outputs:
            raise ValueError("path: expected a name for each signal of a plant")
        if not (plant.dt is True or 0 < plant.dt < math.inf):
            raise ValueError("path: expected the sampling time of a plant above 0")
        # files of schema 2 have that of Python's texts
        if fingerprint not in (plant.signature, plant.fingerprint):
            raise ValueError("path: a plant of the file does not match its fingerprint")
        return plant

    def statespace(self) -> ct.StateSpace:
        """Return the plant as a python-control system."""
        B, D = self.B, self.D
        if not self.inputs:  # python-control makes none of matrices without columns
            B = np.zeros((self.order, 1))
            D = np.zeros((len(self.outputs), 1))
        system = ct.ss(
            self.A,
            B,
            self.C,
            D,
            self.dt,
            states=list(self.states),
            inputs=list(self.inputs) or None,
            outputs=list(self.outputs),
            name=self.name,
        )
        if not self.inputs:
            system.B, system.D = self.B, self.D
            system.set_inputs(0)
        return system

    @property
    def signature(self) -> str:
        """The digest of all that a design file holds of the plant but its own name."""
        fields = super()._saved_fields()
        del fields["name"]
        return digest_of(encode(fields))

    @cached_property
    def fingerprint(self) -> str:
        """Twelve hexadecimal digits that distinguish plants.

        The start of a SHA-256 sum of A, B, C, D, the sampling time and the names of
        states, inputs and outputs. The name of the system itself does not count.
        """
        digest = hashlib.sha256()
        for matrix in self.matrices:
            unsigned = np.ascontiguousarray(matrix + 0.0)  # -0.0 is 0.0
            digest.update(repr(matrix.shape).encode())
            digest.update(unsigned.tobytes())
        named = (self.dt, self.states, self.inputs, self.outputs)
        digest.update(repr(named).encode())
        return digest.hexdigest()[:12]

    def without_signs(self) -> Plant:
        """Return the plant with the sizes of the entries of A."""
        return replace(self, A=np.abs(self.A))

    def elsewhere(self, name: object) -> str:
        """Say what a name is in this plant, for errors that looked for something else."""
        if name in self.states:
            of = _listed(self.outputs, self.C[:, self.states.index(name)])
            found = f"the outputs that read it: {of}" if of else "no output reads it"
            return f"; {name} is a state ({found})"
        if name in self.outputs:
            of = _listed(self.states, self.C[self.outputs.index(name)])
            found = f"the states that it reads: {of}" if of else "it reads no state"
            return f"; {name} is an output ({found})"
        return f"; {name} is an input" if name in self.inputs else ""

    def check_outputs(self, names: Collection[object], argument: str) -> None:
        """Refuse names that are no outputs, with a ``ValueError`` that says what they are."""
        unknown = [str(name) for name in names if name not in self.outputs]
        if unknown:
            raise ValueError(
                f"{argument}: {', '.join(unknown)} is no output of the plant; known "
                f"outputs: {', '.join(self.outputs)}{self.elsewhere(unknown[0])}"
            )

    def differences(self, other: Plant) -> list[str]:
        """List the matrices, times and names in which another plant differs."""
        found = []
        for name in ("A", "B", "C", "D"):
            if not np.array_equal(getattr(self, name), getattr(other, name)):
                found.append(name)
        if self.dt != other.dt:
            found.append(f"dt ({self.dt} in place of {other.dt})")
        for kind in ("states", "inputs", "outputs"):
            mine = getattr(self, kind)
            theirs = getattr(other, kind)
            if mine != theirs:
                found.append(
                    f"naming of {kind} ({', '.join(mine)} in place of "
                    f"{', '.join(theirs)})"
                )
        return found

    def check_model_of(self, nominal: Plant) -> None:
        """Make sure that outputs and sampling time of a model are those of a plant.

        Raises
        ------
        control.ControlDimension
            If they are not.
        """
        if self.outputs != nominal.outputs or self.dt != nominal.dt:
            raise ct.ControlDimension(
                f"models: expected plants with outputs {', '.join(nominal.outputs)} and "
                f"dt = {nominal.dt}, got outputs {', '.join(self.outputs)} and "
                f"dt = {self.dt}"
            )


def _listed(names: Sequence[str], entries: NDArray[np.float64]) -> str:
    """Return the names whose entries are not zero, as a list in words."""
    return ", ".join(compress(names, entries != 0))


#: What to do with other systems.
_WAYS_TO_A_PLANT = {
    list: (
        "a list of plants, one a sample, is for functions with a horizon "
        "(design_output_noise, private_lqg, trajectory_manifold); pass one plant here"
    ),
    ct.TransferFunction: (
        "convert it with ct.ss(sys); to hide a state, write the plant with states that "
        "have a meaning, ct.ss(A, B, C, D, dt, states=[...])"
    ),
    ct.FrequencyResponseData: (
        "fit a model to the frequency responses (FRD) first, or to recorded data with "
        "identify_outputs"
    ),
    ct.NonlinearIOSystem: (
        "for a nonlinear system pass box.nominal, and models=box to the design of its "
        "noise, with box = jacobian_polytope(sys, region): a linearisation alone hides "
        "nothing"
    ),
}


def check_discrete(sys: object) -> None:
    """Refuse everything but a discrete-time StateSpace."""
    if not isinstance(sys, ct.StateSpace):
        way = "make one with ct.ss(A, B, C, D, dt, states=[...], inputs=[...], outputs=[...])"
        for kind, advice in _WAYS_TO_A_PLANT.items():
            if isinstance(sys, kind):
                way = advice
        raise ct.ControlArgument(
            f"sys: expected a StateSpace, got {type(sys).__name__}; {way}"
        )
    unspecified = {0: "continuous time (dt = 0)", None: "unspecified time (dt = None)"}
    if sys.dt in unspecified:
        raise ct.ControlArgument(
            f"sys: expected a discrete-time system, got {unspecified[sys.dt]}; "
            "discretise it with sys.sample(Ts), or state dt in ct.ss"
        )
    if sys.dt is not True and not 0 < sys.dt < np.inf:
        raise ct.ControlArgument(
            f"sys: expected a positive finite sampling time, got dt = {sys.dt}"
        )
