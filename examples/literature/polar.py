"""STAMP 2026, the polar mechanism for directions.

A unit vector x is published as a draw from the von Mises-Fisher law around it, density
prop. to exp(kappa x'v). Two vectors at an angle theta have log-densities at most kappa
times their chord 2 sin(theta / 2) apart, which is less than kappa theta.
"""

import sys

import comparison
import numpy as np

import privcontrol as pc

SOURCE = """EACL 2026 (arXiv 2603.12237)
adjacency: two directions at most an angle apart; adversary: sees the released direction"""


def concentration(epsilon, angle):
    """The kappa of pure epsilon at an angle: epsilon over the chord."""
    return epsilon / (2 * np.sin(angle / 2))


def mean_cosine(kappa):
    """E x'v in three dimensions, coth kappa - 1 / kappa."""
    return 1 / np.tanh(kappa) - 1 / kappa


def directions_with_noise(epsilon, angle, draws, rng):
    """Cosines of (1, 0, 0) plus radial noise of the same epsilon, normalised."""
    chord = 2 * np.sin(angle / 2)
    noise = pc.core.BallNoise(np.eye(3), rate=epsilon / chord).sample(draws, rng=rng)
    published = np.array([1.0, 0, 0]) + noise
    return published[:, 0] / np.linalg.norm(published, axis=1)


def design(plant, secret, budget):
    raise ValueError("expected directions on a sphere, got trajectories")


def golden():
    """Pure epsilon = 2 at 60 degrees, on the sphere of three dimensions."""
    angle = np.pi / 3
    kappa = concentration(2.0, angle)
    rng = np.random.default_rng(0)
    v = rng.normal(size=(4000, 3))
    v /= np.linalg.norm(v, axis=1, keepdims=True)
    other = np.array([np.cos(angle), np.sin(angle), 0.0])
    apart = np.abs(kappa * v @ (np.array([1.0, 0, 0]) - other)).max()
    ours = directions_with_noise(2.0, angle, 200_000, 1).mean()
    return [
        ("kappa by the chord", kappa, "2.0000"),
        ("kappa by the angle, epsilon / theta", 2.0 / angle, "1.9099"),
        ("largest log-ratio of densities seen is at most 2", max(apart, 2.0), "2.00"),
        ("mean cosine of the polar mechanism", mean_cosine(kappa), "0.5373"),
        ("of radial noise of the same epsilon, normalised", ours, "0.54"),
    ]  # fmt: skip


if __name__ == "__main__":
    comparison.main(sys.modules[__name__])
