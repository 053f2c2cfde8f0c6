"""The closed loop as one linear system: plant and observer driven by references, output noise and disturbances."""

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class LoopDynamics:
    """zeta+ = A zeta + B_. (.), published = C zeta + D_. (.), with zeta = (x, xhat) and xhat the one-step prediction.

    With the innovation i = yhat - C xhat - D u, the feedback acts on the estimate xhat + `correct` i and the
    prediction moves on by xhat+ = A xhat + B u + `advance` i. The drives are ``reference`` xd (n), ``feedforward`` ud
    (m), ``noise`` gamma (p), ``disturbance`` w (n), added to x+, and ``measurement`` v (p), added to y. Published are
    yhat (p), then u (m).
    """

    A: np.ndarray
    C: np.ndarray
    B: dict
    D: dict
    correct: np.ndarray
    advance: np.ndarray

    @classmethod
    def of(cls, plant, K, L, form):
        """The loop of a state feedback K and an observer gain L of the form "predictor" (DPAM eq. (24)) or "filter"."""
        A, B, C, D = plant.A, plant.B, plant.C, plant.D
        n, m, p = len(A), B.shape[1], len(C)
        correct, advance = (L, A @ L) if form == "filter" else (np.zeros((n, p)), L)
        # i = C (x - xhat) + gamma + v: the feedthrough cancels in the innovation
        state = np.block([[A, np.zeros((n, n))], [advance @ C, A - advance @ C]])
        onto = {
            "reference": K,
            "feedforward": np.eye(m),
            "noise": -K @ correct,
            "measurement": -K @ correct,
        }
        act = np.hstack([-K @ correct @ C, -K + K @ correct @ C])  # u of zeta
        drives = {
            drive: np.vstack([B @ gain, B @ gain]) for drive, gain in onto.items()
        }
        outputs = {drive: np.vstack([D @ gain, gain]) for drive, gain in onto.items()}
        for drive in ("noise", "measurement"):
            drives[drive][n:] += advance
            outputs[drive][:p] += np.eye(p)
        drives["disturbance"] = np.vstack([np.eye(n), np.zeros((n, n))])
        outputs["disturbance"] = np.zeros((p + m, n))
        publish = np.vstack([np.hstack([C, np.zeros((p, n))]) + D @ act, act])
        return cls(
            state + np.vstack([B @ act, B @ act]),
            publish,
            drives,
            outputs,
            correct,
            advance,
        )

    def respond(self, initial, drives, samples):
        """States (T, 2n, q) and published signals (T, p + m, q) of a few runs side by side, without a loop over time.

        ``drives`` maps names to arrays (T, size, q or 1); what is left out is zero. The sums over the past are formed
        by doubling: after k passes every sample holds the last 2^k terms.
        """
        runs = max([initial.shape[1]] + [drive.shape[2] for drive in drives.values()])
        states = np.zeros((samples, runs, len(self.A)))
        states[0] = initial.T
        for name, drive in drives.items():
            states[1:] += _applied(self.B[name], drive[: samples - 1])
        step, power = 1, self.A
        while step < samples:
            states[step:] += _applied(power, states[:-step].swapaxes(1, 2))
            step, power = 2 * step, power @ power if 2 * step < samples else power
        published = _applied(self.C, states.swapaxes(1, 2))
        for name, drive in drives.items():
            published += _applied(self.D[name], drive[:samples])
        return states.swapaxes(1, 2), published.swapaxes(1, 2)

    def step(self, initial, drives, samples):
        """The same for many runs, sample by sample."""
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


def _applied(matrix, signal):
    """A matrix (a, b) on a signal (T, b, q), as (T, q, a): one product for all samples and runs."""
    samples, size, runs = signal.shape
    return (signal.swapaxes(1, 2).reshape(samples * runs, size) @ matrix.T).reshape(
        samples, runs, len(matrix)
    )
