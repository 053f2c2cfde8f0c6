"""Le Ny, Pappas 2014, zero-forcing.

A pre-filter G, white noise, and the post-filter F/G. For one signal and one event the
best |G|^2 is proportional to |F|. Over a horizon G is the causal factor of
(F'F)^(1/2); the post-filter is the best one.
"""

import sys

import comparison
import control as ct
import numpy as np
from output_perturbation import toeplitz
from scipy.special import ellipk

SOURCE = """Differentially private filtering, IEEE TAC 59(2), 341-354 (arXiv 1407.5553)
adjacency: one sample of one signal; adversary: sees all that is published"""


def design(plant, secret, budget):
    return plant.released(secret, budget, H=causal_root(plant.filter))


def causal_root(F):
    """The lower triangular G with G'G = (F'F)^(1/2)."""
    squares, vectors = np.linalg.eigh(F.T @ F)
    sizes = np.sqrt(np.maximum(squares, 0.0))
    floor = 1e-6 * sizes[-1]  # a direction that nobody reads still needs a number
    root = (vectors * np.maximum(sizes, floor)) @ vectors.T
    flipped = root[::-1, ::-1]
    return np.linalg.cholesky((flipped + flipped.T) / 2).T[::-1, ::-1]


def golden():
    """kappa = rho = 1, F = 1/(1 - 0.8 z^-1): ((1/2 pi) int |F|)^2, against a horizon."""
    grid = np.exp(2j * np.pi * np.arange(4096) / 4096)
    gains = np.abs(1 / (1 - 0.8 / grid))
    T = 400
    F = toeplitz(ct.ss(0.8, 1, 0.8, 1, 1), T)
    G = causal_root(F)
    sensitivity = np.linalg.norm(G, axis=0)[T // 2]
    noise = np.linalg.norm(F @ np.linalg.inv(G), axis=1)[T // 2]
    return [
        ("mean-square error by the integral", gains.mean() ** 2,
         float((2 / np.pi * ellipk(0.64)) ** 2)),
        ("the same by factors over 400 samples", (sensitivity * noise) ** 2,
         "1.6135"),
        ("input perturbation: ||F||_2^2", np.mean(gains**2), "2.7778"),
    ]  # fmt: skip


if __name__ == "__main__":
    comparison.main(sys.modules[__name__])
