"""Compute with linear systems as four matrices, for noise without a horizon.

python-control's systems carry names and time bases, which a product of two of them loses.
This class has no names. It computes responses, inverses, products and Gramians.
"""

from dataclasses import dataclass

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

from ..core._frozen import ByContent

#: Entries of the stacks of matrices that are solved at once: 32 MB of complex numbers.
_STACK = 2**21


@dataclass(frozen=True, eq=False)
class LinearSystem(ByContent):
    """A system x(t+1) = A x(t) + B u(t), y(t) = C x(t) + D u(t) without names."""

    A: NDArray
    B: NDArray
    C: NDArray
    D: NDArray

    @classmethod
    def gain(cls, D: NDArray) -> "LinearSystem":
        """The system without states y = D u."""
        D = np.atleast_2d(np.asarray(D, float))
        outputs, inputs = D.shape
        return cls(np.zeros((0, 0)), np.zeros((0, inputs)), np.zeros((outputs, 0)), D)

    @property
    def matrices(self) -> tuple[NDArray, NDArray, NDArray, NDArray]:
        """A, B, C and D."""
        return self.A, self.B, self.C, self.D

    @property
    def order(self) -> int:
        """Number of states n."""
        return len(self.A)

    @property
    def poles(self) -> NDArray:
        """Eigenvalues of A (n,)."""
        return np.linalg.eigvals(self.A)

    @property
    def spectral_radius(self) -> float:
        """Largest modulus of a pole, zero without states."""
        return float(np.abs(self.poles).max(initial=0.0))

    def after(self, first: "LinearSystem") -> "LinearSystem":
        """The product with a system whose outputs enter here."""
        corner = np.zeros((first.order, self.order))
        entering_state = self.B @ first.C
        entering = self.B @ first.D
        passing = self.D @ first.C
        blocks = [[first.A, corner], [entering_state, self.A]]
        A = np.block(blocks)
        B = np.vstack([first.B, entering])
        C = np.hstack([passing, self.C])
        D = self.D @ first.D
        return LinearSystem(A, B, C, D)

    def inverse(self) -> "LinearSystem":
        """The inverse of a square system with a nonsingular D."""
        D = np.linalg.inv(self.D)
        B = self.B @ D
        return LinearSystem(self.A - B @ self.C, B, -D @ self.C, D)

    def scaled(self, factor: float) -> "LinearSystem":
        """The system with its outputs multiplied by a number."""
        return LinearSystem(self.A, self.B, self.C * factor, self.D * factor)

    def frequency_response(self, points: NDArray) -> NDArray:
        """C (z I - A)^-1 B + D at complex points z (N,), shape (N, p, q)."""
        identity = np.eye(self.order)
        entering = self.B.astype(complex)
        block = max(1, _STACK // max(1, self.order) ** 2)
        responses = []
        for start in range(0, len(points), block):
            z = points[start : start + block, None, None]
            resolvent = z * identity - self.A
            states = np.linalg.solve(resolvent, entering)
            responses.append(self.C @ states + self.D)
        return np.concatenate(responses)

    def impulse_response(self, samples: int) -> NDArray:
        """D, C B, C A B, ..., shape (samples, p, q)."""
        response = np.empty((samples, *self.D.shape))
        response[0] = self.D
        states = self.B
        for t in range(1, samples):
            response[t] = self.C @ states
            states = self.A @ states
        return response

    def respond(self, inputs: NDArray) -> NDArray:
        """Outputs (T, p, r) from rest, for inputs (T, q, r) side by side."""
        outputs = self.D @ inputs
        state = np.zeros((self.order, inputs.shape[2]))
        for t, entering in enumerate(inputs):
            outputs[t] += self.C @ state
            state = self.A @ state + self.B @ entering
        return outputs

    def reachability_gramian(self) -> NDArray:
        """P = A P A^T + B B^T of a stable system, its covariance under white noise."""
        return scipy.linalg.solve_discrete_lyapunov(self.A, self.B @ self.B.T)

    def energies(self) -> NDArray:
        """Energy (q,) of the response to an impulse at each input of a stable system."""
        gramian = scipy.linalg.solve_discrete_lyapunov(self.A.T, self.C.T @ self.C)
        later = np.sum(self.B * (gramian @ self.B), axis=0)
        return later + np.sum(self.D**2, axis=0)

    def variances(self) -> NDArray:
        """Variances (p,) of the outputs of a stable system under white noise."""
        later = np.sum(self.C * (self.C @ self.reachability_gramian()), axis=1)
        return later + np.sum(self.D**2, axis=1)
