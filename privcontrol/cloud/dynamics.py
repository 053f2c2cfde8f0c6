"""The closed loop as one linear system: plant and observer driven by references, output noise and disturbances."""

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class LoopDynamics:
    """zeta+ = A zeta + B_. (.), published = C zeta + D_. (.), with zeta = (x, xhat).

    The drives are ``reference`` xd (n), ``feedforward`` ud (m), ``noise`` gamma (p), ``disturbance`` w (n), added to
    x+, and ``measurement`` v (p), added to y. Published are yhat (p), then u (m).
    """

    A: np.ndarray
    C: np.ndarray
    B: dict
    D: dict

    @classmethod
    def predictor(cls, plant, K, L):
        """u = -K (xhat - xd) + ud, xhat+ = A xhat + B u + L (yhat - C xhat - D u) (DPAM eq. (24))."""
        A, B, C, D = plant.A, plant.B, plant.C, plant.D
        n, m, p = len(A), B.shape[1], len(C)
        control = {"estimate": -K, "reference": K, "feedforward": np.eye(m)}
        actuate = {drive: np.vstack([B @ gain, B @ gain]) for drive, gain in control.items()}
        read = {drive: np.vstack([D @ gain, gain]) for drive, gain in control.items()}
        # yhat - C xhat - D u = C (x - xhat) + gamma + v: the feedthrough cancels in the innovation
        state = np.block([[A, np.zeros((n, n))], [L @ C, A - L @ C]])
        state[:, n:] += actuate.pop("estimate")
        publish = np.hstack([np.vstack([C, np.zeros((m, n))]), read.pop("estimate")])
        inject, add = np.vstack([np.zeros((n, p)), L]), np.vstack([np.eye(p), np.zeros((m, p))])
        drives = actuate | {
            "noise": inject,
            "disturbance": np.vstack([np.eye(n), np.zeros((n, n))]),
            "measurement": inject,
        }
        outputs = read | {"noise": add, "disturbance": np.zeros((p + m, n)), "measurement": add}
        return cls(state, publish, drives, outputs)

    def respond(self, initial, drives, samples):
        """States (T, 2n, q) and published signals (T, p + m, q) of q runs side by side.

        ``drives`` maps names to arrays (T, size, q or 1); what is left out is zero.
        """
        runs = max([initial.shape[1]] + [drive.shape[2] for drive in drives.values()])
        states = np.empty((samples, len(self.A), runs))
        published = np.empty((samples, len(self.C), runs))
        states[0] = initial
        for t in range(samples):
            published[t] = self.C @ states[t]
            for name, drive in drives.items():
                published[t] += self.D[name] @ drive[t]
            if t + 1 < samples:
                following = self.A @ states[t]
                for name, drive in drives.items():
                    following += self.B[name] @ drive[t]
                states[t + 1] = following
        return states, published
