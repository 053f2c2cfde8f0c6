"""The filter that knows noise without a finite state: it recalls all readings of a run."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

from ..noise.process import NoiseProcess
from ..numerics.thresholds import MOST_HELD
from ..privacy.horizon import Horizon
from ..systems.linear import (
    Plant,
)
from .controller import Gains
from .side import Weights, at_sample, present


@dataclass(frozen=True, eq=False)
class DenseKnowledge:
    """Hold what all readings of a run reveal, where the noise has no finite state.

    The rows of the Cholesky factor L of Cov(s) are the causal innovations, s = L nu.

    Attributes
    ----------
    plant : Plant
    lower : ndarray, shape (T p, T p)
        L.
    onto : ndarray, shape (T, n, T p)
        Covariance of x(t) with nu(0), .., nu(t).
    variances : ndarray, shape (T, n, n)
        Of x(t), before any reading.
    """

    plant: Plant
    lower: NDArray[np.float64]
    onto: NDArray[np.float64]
    variances: NDArray[np.float64]

    @classmethod
    def of(
        cls,
        plant: Plant,
        weights: Weights,
        noise: NDArray[np.float64],
        P0: NDArray[np.float64] | None,
    ) -> DenseKnowledge:
        """Take what is known of x(0), covariance P0, and noise of covariance (T p, T p).

        `ValueError` without P0, or if the readings are singular.
        """
        n = plant.order
        p = plant.output_count
        size = len(noise)
        samples = size // p
        if P0 is None:
            raise ValueError(
                "P0: this noise is correlated over the whole horizon; the filter that "
                "knows it needs a covariance of x(0)"
            )
        roots = weights.drive_roots
        variances = np.empty((samples, n, n))
        free = np.empty((samples, p, samples, p))
        sensed = []
        seen = np.zeros((samples, n, samples, p))
        now = P0
        for t in range(samples):
            A, _, C, _ = plant.at(t).matrices
            disturbed = at_sample(roots["disturbance"], t)
            variances[t] = now
            if t:
                before = plant.at(t - 1).A
                seen[t, :, :t] = np.tensordot(before, seen[t - 1, :, :t], 1)
            seen[t, :, t] = now @ C.T
            free[t] = np.tensordot(C, seen[t], 1)
            sensed.append(at_sample(present(weights.RN, "RN"), t))
            now = A @ now @ A.T + disturbed @ disturbed.T
        read = free.reshape(size, size)
        read += noise + scipy.linalg.block_diag(*sensed)
        try:
            lower = scipy.linalg.cholesky(read, lower=True)
        except np.linalg.LinAlgError:
            raise ValueError(
                "RN: the readings are singular together with this noise; pass RN > 0"
            ) from None
        columns = seen.reshape(samples * n, size).T
        solved = scipy.linalg.solve_triangular(lower, columns, lower=True)
        onto = solved.T.reshape(samples, n, size).copy()
        for t in range(samples):
            onto[t, :, (t + 1) * p :] = 0.0
        return cls(plant, lower, onto, variances)

    def gains(self, samples: Horizon) -> Gains:
        """Return the observer, which recalls all innovations."""
        count, n, size = self.onto.shape
        p = size // count
        correct = np.empty((count, n, p))
        recall = np.zeros((count, p, size))
        lower = self.lower.copy()
        onto = self.onto.copy()
        for t in range(count):
            own = slice(t * p, (t + 1) * p)
            past = slice(0, t * p)
            # from innovations as they are to those of size one
            whiten = np.linalg.inv(self.lower[own, own])
            lower[:, own] = self.lower[:, own] @ whiten
            onto[..., own] = self.onto[..., own] @ whiten
            correct[t] = onto[t, :, own]
            readout = self.plant.at(t).C
            recall[t, :, past] = lower[own, past] - readout @ onto[t, :, past]
        return Gains.of(self.plant, correct, recall=recall)

    def covariances(
        self, samples: float, *, predicted: bool = False
    ) -> NDArray[np.float64]:
        """Error covariances (T, n, n) of x after the reading at t, or before it."""
        samples = int(samples)
        found = np.empty_like(self.variances[:samples])
        p = self.onto.shape[2] // len(self.onto)
        for t in range(samples):
            count = t * p if predicted else (t + 1) * p
            told = self.onto[t, :, :count]
            found[t] = self.variances[t] - told @ told.T
        return found


def is_dense(noise: NoiseProcess) -> bool:
    """Return whether a part of the noise has no finite state."""
    return any(part.model is None for part in noise.parts)


def noise_covariance(noise: NoiseProcess) -> NDArray[np.float64]:
    """Covariance (T p, T p) of all samples.

    `ValueError` if it takes too much memory.
    """
    size = noise.samples * noise.outputs
    most = math.isqrt(MOST_HELD)
    if size > most:
        raise ValueError(
            "noise: it is correlated over the whole horizon, and a filter that knows "
            f"it takes matrices of ({size}, {size}); at most {most} are taken. Design "
            'noise of low order (horizon=np.inf), or pass estimator="observer"'
        )
    responses = noise.responses.reshape(size, -1)
    white = np.diag(np.tile(noise.total.white**2, noise.samples))
    return noise.law.unit_variance * (responses @ responses.T + white)
