"""What somebody outside computes to find a visit, who knows all but who is there."""

import numpy as np
import scipy.linalg
from design import DRAUGHT, ROOMS, SENSOR, STAY

WINDOW = STAY + 2  # samples that a score looks back
ALARM = 1.645  # 5 % of the scores of an empty room are above


class Detector:
    """Matched filters for a visit to each room that has just ended.

    The readings are whitened by the stationary Kalman filter of rooms and noise, with the
    heat known. Of an empty house a score is standard normal. A sample that was lost adds
    nothing to it.

    Parameters
    ----------
    rooms : control.StateSpace
    noise : control.StateSpace or None
        What the gate adds; None for the readings before it.
    """

    def __init__(self, rooms, noise):
        self._heat, people = rooms.B[:, ::2], rooms.B[:, 1::2]
        self._A, self._C = rooms.A, rooms.C
        entering = [np.diag(DRAUGHT), np.zeros((4, 2))]
        through = [np.zeros((2, 4)), SENSOR * np.eye(2)]
        if noise is not None:
            self._A = scipy.linalg.block_diag(rooms.A, noise.A)
            self._C = np.hstack([rooms.C, noise.C])
            entering = [scipy.linalg.block_diag(np.hstack(entering), noise.B)]
            through.append(noise.D)
        entering, through = np.hstack(entering), np.hstack(through)
        P = scipy.linalg.solve_discrete_are(
            self._A.T,
            self._C.T,
            entering @ entering.T,
            through @ through.T,
            s=entering @ through.T,
        )
        innovation = self._C @ P @ self._C.T + through @ through.T
        both = self._A @ P @ self._C.T + entering @ through.T
        self._gain = both @ np.linalg.inv(innovation)
        self._whiten = np.linalg.inv(np.linalg.cholesky(innovation))
        shown = [self._left_of(rooms, column) for column in people.T]
        self._templates = [one / np.linalg.norm(one) for one in shown]
        self._guess = np.zeros(len(self._A))
        self._seen = np.zeros((WINDOW, 2))
        self.scores = []  # (T, 2)

    def _left_of(self, rooms, people):
        """What a visit leaves in the whitened readings of the window (WINDOW, 2)."""
        state, guess, left = np.zeros(4), np.zeros(len(self._A)), []
        for t in range(WINDOW):
            surprise = rooms.C @ state - self._C @ guess
            left.append(self._whiten @ surprise)
            guess = self._A @ guess + self._gain @ surprise
            state = rooms.A @ state + people * (t < STAY)
        return np.array(left)

    def see(self, readings, heat):
        """Take the readings (2,) of a sample, NaN for lost ones, and the heat (2,)."""
        surprise = readings - self._C @ self._guess
        if not np.isfinite(surprise).all():
            surprise = np.zeros(len(ROOMS))
        self._seen = np.vstack([self._seen[1:], self._whiten @ surprise])
        self._guess = self._A @ self._guess + self._gain @ surprise
        self._guess[:4] += self._heat @ heat
        self.scores.append([np.sum(one * self._seen) for one in self._templates])
