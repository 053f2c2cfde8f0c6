"""Exact first and second moments of a private loop, without a single draw."""

import numpy as np


def moments(loop, signals):
    """Yield, for t = 0 .. T-1, the mean (2n,) and the covariance (2n, 2n) of zeta = (x, xhat).

    The mean follows the signals that are the same in every trial. Structured noise contributes a rank-r term that is
    propagated as its factor; fresh noise and the design's disturbances enter the covariance recursion.
    """
    dynamics, noise = loop.dynamics, loop.noise
    A, n = dynamics.A, loop.plant.order
    mean = dynamics.respond(signals.initial, signals.deterministic(), signals.samples)[0][:, :, 0]
    fresh = np.zeros_like(A)
    if signals.disturbance == "design":
        fresh[:n, :n] += loop.G @ loop.QN @ loop.G.T
    if signals.measurement == "design":
        fresh += dynamics.B["measurement"] @ loop.RN @ dynamics.B["measurement"].T
    if noise is not None and noise.factor is None:
        fresh += noise.variance * (dynamics.B["noise"] * noise.scale**2) @ dynamics.B["noise"].T
    structured = noise is not None and noise.factor is not None
    factor = np.zeros((2 * n, noise.channels)) if structured else None
    drive = np.sqrt(noise.variance) * dynamics.B["noise"] @ noise.responses if structured else None
    covariance = np.zeros_like(A)
    moving = fresh.any()
    for t in range(signals.samples):
        yield mean[t], covariance + factor @ factor.T if structured else covariance
        if structured:
            factor = A @ factor + drive[t]
        if moving:
            covariance = A @ covariance @ A.T + fresh


def mean_square_error(loop, signals):
    """E (x_i(t) - xd_i(t))^2 as (n, T)."""
    n = loop.plant.order
    out = np.empty((n, signals.samples))
    for t, (mean, covariance) in enumerate(moments(loop, signals)):
        out[:, t] = (mean[:n] - signals.reference[t]) ** 2 + np.diag(covariance)[:n]
    return out
