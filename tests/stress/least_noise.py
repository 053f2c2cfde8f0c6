"""Laws of noise at full size; each part prints what it finds.

python tests/stress/least_noise.py table            std of the ball law over Gaussian, closed form and draws
python tests/stress/least_noise.py budgets [1e4]    delta of ball_rate by mpmath, never above delta
python tests/stress/least_noise.py plants [100]     "auto" against Gaussian and Laplace, median ratio by r and budget
python tests/stress/least_noise.py moves [200]      all moves of random plants by draws of the hockey stick
python tests/stress/least_noise.py releases         1 to 16 releases against a convolution by another code
python tests/stress/least_noise.py exact [1e5]      rounded values of exact samples against mpmath
python tests/stress/least_noise.py speed            a design's time, and publish of a gateway
"""

import itertools
import math
import random
import statistics
import sys
import tempfile
import time
from pathlib import Path

import control as ct
import mpmath
import numpy as np
from scipy import integrate, special

import privcontrol as pc
from privcontrol.core import ball_rate, kappa_inverse
from privcontrol.deploy import Gateway
from privcontrol.noise.exact import ExactNoise
from privcontrol.privacy.law import BallLaw
from privcontrol.privacy.least_variance import least_variance
from privcontrol.privacy.loss import PrivacyLoss

BUDGETS = [(1, 1e-2), (1, 1e-5), (0.3, 1e-2), (3, 1e-5), (0.3, 1e-5)]
VEHICLE = pc.plants.vehicle()
POSITION = pc.StateAdjacency({"position": 1.0})


def closed_delta(epsilon, rate, dimension, nodes=200):
    """THEORY F31 (d): an expectation over |eta| of an integral over the loss."""
    at, weights = np.polynomial.legendre.leggauss(nodes)
    t = epsilon / rate + (1 - epsilon / rate) * (at + 1) / 2
    by_t = rate * np.exp(epsilon - rate * t) * weights * (1 - epsilon / rate) / 2

    def given(a):
        cosines = np.clip((1 - 2 * a * t - t**2) / (2 * a), -1, 1)
        half = (dimension - 1) / 2
        if dimension == 1:
            below = np.where(cosines >= 1, 1.0, np.where(cosines > -1, 0.5, 0.0))
        else:
            below = special.betainc(half, half, (1 + cosines) / 2)
        density = (rate * a) ** (dimension - 1) * math.exp(-rate * a)
        return rate * density / math.gamma(dimension) * float(by_t @ below)

    far = (dimension + 45) / rate
    value, _ = integrate.quad(given, 0, far, limit=2000, epsabs=1e-14, epsrel=1e-9)
    return value


def table(draws=4_000_000):
    rng = np.random.default_rng(0)
    for (epsilon, delta), r in itertools.product(BUDGETS, range(1, 7)):
        rate = ball_rate(epsilon, delta, r)
        std = math.sqrt(r + 1) / rate
        ratio = std * kappa_inverse(epsilon, delta)
        closed = (
            closed_delta(epsilon, rate, r)
            if r > 1
            else -math.expm1((epsilon - rate) / 2)
        )
        eta = BallLaw(r).standard(rng, (draws, r)) / rate
        moved = eta.copy()
        moved[:, 0] -= 1.0
        losses = rate * (np.linalg.norm(moved, axis=1) - np.linalg.norm(eta, axis=1))
        excess = np.maximum(-np.expm1(epsilon - losses), 0.0)
        error = excess.std() / math.sqrt(draws)
        print(
            f"({epsilon}, {delta:g}) r {r}: std {std:.5f}, over Gaussian {ratio:.3f}, "
            f"delta closed {closed / delta:.6f}, drawn {excess.mean() / delta:.4f} "
            f"+- {error / delta:.4f}, V_1 {math.sqrt(least_variance(epsilon, delta)):.5f}"
        )
        assert std**2 >= least_variance(epsilon, delta)
        assert abs(excess.mean() - delta) <= 5 * error + 1e-12


def mp_delta(epsilon, rate, r):
    """delta of one shift by mpmath: the density of the loss by Bessel functions."""
    s = mpmath.mpf(rate)
    constant = (
        (s / 2) ** r / mpmath.factorial(r - 1) / mpmath.beta(0.5, mpmath.mpf(r - 1) / 2)
    )

    def moment(order):
        bessel = mpmath.besselk(order, s / 2)
        return (
            mpmath.gamma(order + 0.5)
            / mpmath.sqrt(mpmath.pi)
            * (4 / s) ** order
            * bessel
        )

    wide, narrow = moment(mpmath.mpf(r) / 2), moment(mpmath.mpf(r) / 2 - 1)
    end = mpmath.acos(mpmath.mpf(epsilon) / s)

    def density(angle):
        sine, loss = mpmath.sin(angle), s * mpmath.cos(angle)
        mass = wide * sine ** (r - 2) + narrow * sine**r
        return mass * mpmath.exp(loss / 2) * (1 - mpmath.exp(epsilon - loss))

    return constant * mpmath.quad(density, [0, end / 2, end])


def budgets(count=10_000):
    random.seed(1)
    worst, least = 0.0, 2.0
    with mpmath.workdps(30):
        for _ in range(int(count)):
            epsilon = 10 ** random.uniform(-2, 1)
            delta = 10 ** random.uniform(-10, -1)
            r = random.randint(1, 10)
            rate = ball_rate(epsilon, delta, r)
            if rate <= epsilon:
                continue
            found = (
                1 - mpmath.exp((mpmath.mpf(epsilon) - rate) / 2)
                if r == 1
                else mp_delta(epsilon, rate, r)
            )
            share = float(found / delta)
            worst, least = max(worst, share), min(least, share)
            assert share <= 1, (epsilon, delta, r, share)
    print(
        f"{int(count)} budgets: delta over budget at most {worst!r}, at least {least!r}"
    )


def random_plant(rng):
    states, outputs = int(rng.integers(1, 6)), int(rng.integers(1, 3))
    A = rng.standard_normal((states, states))
    A *= rng.uniform(0.5, 1.0) / np.abs(np.linalg.eigvals(A)).max()
    names = [f"x{k}" for k in range(states)]
    C = rng.standard_normal((outputs, states))
    plant = ct.ss(A, np.ones((states, 1)), C, np.zeros((outputs, 1)), 1.0, states=names)
    if rng.random() < 0.5:
        return plant, pc.InitialStateAdjacency(float(rng.uniform(0.5, 2)))
    kept = names[: int(rng.integers(1, states + 1))]
    radii = {name: float(rng.uniform(0.3, 2)) for name in kept}
    return plant, pc.StateAdjacency(radii, times=[0])


def plants(count=100):
    rng = np.random.default_rng(2)
    ratios = {}
    shares = {"gaussian": 0, "laplace": 0, "ball": 0, "truncated": 0}
    for _ in range(int(count)):
        plant, adjacency = random_plant(rng)
        epsilon, delta = BUDGETS[rng.integers(4)]
        budget = pc.PrivacyBudget(epsilon=float(epsilon), delta=delta)
        options = dict(horizon=15, budget=budget, adjacency=adjacency, max_std=np.inf)
        costs = {}
        for family in ("gaussian", "laplace", "auto"):
            noise = pc.design_output_noise(
                plant, family=family, models="exact", **options
            )
            costs[family] = noise.design.cost
            assert noise.design.universal_bound <= noise.design.cost
        least = min(costs["gaussian"], costs["laplace"])
        assert costs["auto"] <= least * (1 + 2e-6), (costs, adjacency)
        shares[noise.family] += 1
        key = (epsilon, delta), noise.design.noise.factor.shape[-1]
        ratios.setdefault(key, []).append(costs["auto"] / costs["gaussian"])
    print(f"{int(count)} plants: auto never dearer; laws taken {shares}")
    for (budget, r), found in sorted(ratios.items()):
        print(
            f"{budget} r {r}: median cost of auto over Gaussian {statistics.median(found):.3f} ({len(found)})"
        )


def moves(count=200, draws=1_000_000):
    rng = np.random.default_rng(3)
    worst = 0.0
    for _ in range(int(count)):
        plant, adjacency = random_plant(rng)
        epsilon, delta = BUDGETS[rng.integers(2)]
        budget = pc.PrivacyBudget(epsilon=float(epsilon), delta=delta)
        options = dict(horizon=10, budget=budget, adjacency=adjacency, max_std=np.inf)
        for family in ("ball", "truncated"):
            try:
                noise = pc.design_output_noise(
                    plant, family=family, models="exact", **options
                )
            except ValueError:
                continue
            (part,) = noise.parts
            responses = part.responses(10).reshape(-1, part.once)
            query = noise.design.mechanism.query
            hidden = adjacency.moves(query.manifold)
            shifts = np.linalg.lstsq(
                responses, query.response @ hidden.vectors, rcond=None
            )[0]
            if hidden.is_ball:
                shifts = shifts @ np.linalg.svd(shifts)[2].T
            eta = part.law.standard(rng, (draws, part.once))
            lengths = np.linalg.norm(eta, axis=1)
            for shift in shifts.T:
                for scale in (1.0, 0.5):
                    moved = np.linalg.norm(eta - scale * shift, axis=1)
                    losses = np.where(moved > part.bound, np.inf, moved - lengths)
                    excess = np.maximum(-np.expm1(epsilon - losses), 0.0)
                    error = excess.std() / math.sqrt(draws)
                    assert excess.mean() <= delta + 5 * error + 1e-15, (family, shift)
                    worst = max(worst, (excess.mean() - delta) / max(error, 1e-300))
    print(
        f"{int(count)} plants: no move above delta; the largest is {worst:.2f} standard errors above"
    )


def convolved(rate, count, epsilon, step=1e-4):
    """delta of releases of one number, its loss on a fine grid by FFT: another code.

    The loss of Laplace noise has mass 1/2 at its largest value, mass e^-s/2 at the
    least, and the density e^((v-s)/2) / 4 in between.
    """
    last = round(rate / step)
    step = rate / last
    values = step * np.arange(-last, last + 1)
    # the distribution function between the two atoms is e^((v-s)/2) / 2
    edges = values[1:] - step / 2
    below = np.concatenate([[0.0], np.exp((edges - rate) / 2) / 2, [1.0]])
    masses = np.diff(below)
    size = count * (len(masses) - 1) + 1
    spectrum = np.fft.rfft(masses, 2 * size) ** count
    total = np.fft.irfft(spectrum, 2 * size)[:size]
    losses = step * (np.arange(size) - count * last)
    return float(np.maximum(-np.expm1(epsilon - losses), 0.0) @ total)


def releases():
    for count in (1, 2, 4, 8, 16):
        rate = 0.4
        loss = PrivacyLoss.radial(rate, 1).released(count)
        epsilon = 0.5 * rate * count
        ours, theirs = loss.delta(epsilon), convolved(rate, count, epsilon)
        print(
            f"{count} releases: delta {ours:.8f}, by FFT {theirs:.8f}, ratio {ours / theirs:.6f}"
        )
        assert theirs * (1 - 1e-3) <= ours <= theirs * 1.02
    for k in (6, 7, 8):
        budget = pc.PrivacyBudget(epsilon=1.0, delta=1e-5)
        stds = {}
        for family in ("gaussian", "ball"):
            noise = pc.design_output_noise(
                VEHICLE,
                horizon=5,
                budget=budget,
                adjacency=POSITION,
                family=family,
                releases=k,
                models="exact",
            )
            stds[family] = noise.std[0]
        print(
            f"{k} releases at (1, 1e-5): ball over Gaussian {stds['ball'] / stds['gaussian']:.3f}"
        )


def exact(count=100_000):
    """The nearest double of gamma(0) from the entries' own bits, in 60 digits."""
    budget = pc.PrivacyBudget(epsilon=1.0, delta=1e-2)
    noise = pc.design_output_noise(
        VEHICLE,
        horizon=5,
        budget=budget,
        adjacency=POSITION,
        family="ball",
        models="exact",
    )
    drawn = ExactNoise(noise)
    factor = mpmath.mpf(float(noise.factor[0, 0]))
    wrong = 0
    with mpmath.workdps(60):
        for _ in range(int(count)):
            drawn.entries = drawn.draw(range(drawn.once))
            (ball,) = drawn.sample(0)
            numbers = []
            for number in range(3):
                entry = drawn.entries[number]
                u = (mpmath.mpf(entry.value) + 0.5) / mpmath.mpf(2) ** entry.count
                numbers.append(mpmath.sqrt(2) * mpmath.erfinv(2 * u - 1))
            oracle = (
                factor * numbers[0] * mpmath.sqrt(numbers[1] ** 2 + numbers[2] ** 2)
            )
            wrong += float(oracle) != float(ball.mid())
    print(f"{int(count)} rounded values: {wrong} differ from the oracle's")


def speed(count=3000):
    budget = pc.PrivacyBudget(epsilon=1.0, delta=1e-2)
    for family in ("gaussian", "ball", "truncated"):
        options = dict(
            horizon=count,
            budget=budget,
            adjacency=POSITION,
            family=family,
            models="exact",
        )
        times = []
        for _ in range(9):
            begin = time.perf_counter()
            noise = pc.design_output_noise(VEHICLE, **options)
            times.append(time.perf_counter() - begin)
        published = []
        with (
            tempfile.TemporaryDirectory() as folder,
            Gateway(noise, path=Path(folder) / "s.json", resolution=1e-3) as gateway,
        ):
            for _ in range(count):
                begin = time.perf_counter()
                gateway.publish([0.25])
                published.append(time.perf_counter() - begin)
        print(
            f"{family}: design {1e3 * statistics.median(times):.1f} ms, publish p50 "
            f"{1e6 * statistics.median(published):.1f} us, p99 {1e6 * np.quantile(published, 0.99):.1f} us"
        )


PARTS = {f.__name__: f for f in (table, budgets, plants, moves, releases, exact, speed)}

if __name__ == "__main__":
    name, *sizes = sys.argv[1:] or ["table"]
    PARTS[name](*(int(float(size)) for size in sizes))
