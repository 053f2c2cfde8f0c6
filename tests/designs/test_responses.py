"""What double precision takes from the certificate of correlated noise is counted in it."""

import cases
import control as ct
import mpmath
import numpy as np
import pytest
from repeats import few

import privcontrol as pc


def exact_shift(noise, plant, radius):
    """The shift of the worst change, of the noise as the doubles that it is, in 60 digits."""
    root = noise.process.responses.reshape(noise.horizon, -1)
    with mpmath.workdps(60):
        A, B, C = (mpmath.matrix(np.asarray(each).tolist()) for each in plant)
        # a change at the last sample is never seen; the others differ in their length
        impulse, state = [], B
        for _ in range(noise.horizon - 1):
            impulse.append((C * state)[0])
            state = A * state
        inverse = mpmath.inverse(mpmath.matrix(root[1:, 1:].tolist()))
        worst = mpmath.mpf(0)
        for start in range(noise.horizon - 1):
            moved = [mpmath.mpf(0)] * start + impulse[: noise.horizon - 1 - start]
            worst = max(worst, mpmath.norm(inverse * mpmath.matrix(moved)))
        return radius * worst


@pytest.mark.parametrize("seed", few(range(12), of=3))
def test_certified_shifts_are_above_the_true_ones_in_sixty_digits(seed):
    rng = np.random.default_rng(seed)
    A = rng.normal(size=(2, 2))
    A *= rng.uniform(0.2, 1.05) / np.abs(np.linalg.eigvals(A)).max()
    B, C = rng.normal(size=(2, 1)), rng.normal(size=(1, 2))
    secret = pc.DisturbanceAdjacency(float(10 ** rng.uniform(-3, 3)))
    noise = pc.design_output_noise(
        ct.ss(A, B, C, 0, 1),
        horizon=int(rng.integers(3, 14)),
        budget=cases.BUDGET,
        adjacency=secret,
        max_std=np.inf,
    )
    assert "correlated" in repr(noise)
    exact = exact_shift(noise, (A, B, C), secret.radius)
    claimed = mpmath.mpf(noise.guarantee.gdp)
    assert exact <= claimed <= exact * (1 + mpmath.mpf(1e-6))
