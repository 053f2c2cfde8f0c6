"""Certified shifts of varying and nonlinear plants against a million sampled pairs of runs.

A pair are two runs with the same inputs that differ by one hidden change. Linear plants
move between the vertices of a polytope from sample to sample, at random, fast and
slowly. Nonlinear plants run from random states under random inputs within the
region of their Jacobians. The shift of a pair is the norm of M^-1 applied to what the
outputs differ by, for the noise M nu of the design. It must never exceed the certificate.

A last table is about signals of bounded energy that enter with the noise, beside a floor:
the certificate over the largest gain of dense maps, for several spreads of an entry.

    python tests/stress/varying_plants.py [pairs]
"""

import sys
import time
from pathlib import Path

import control as ct
import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))
from varying_cases import worst_energy

import privcontrol as pc

BUDGET = pc.PrivacyBudget(epsilon=1.0, delta=1e-2)
SAMPLES = 60
BATCH = 20_000


def undone(noise, outputs):
    """M^-1 applied to outputs (pairs, T, p), from rest."""
    shaping = noise.parts[0].shaping
    inverse = shaping.inverse()
    state = np.zeros((len(outputs), inverse.order))
    total = np.zeros(len(outputs))
    for t in range(outputs.shape[1]):
        left = state @ inverse.C.T + outputs[:, t] @ inverse.D.T
        state = state @ inverse.A.T + outputs[:, t] @ inverse.B.T
        total += np.sum(left**2, axis=1)
    return np.sqrt(total)


def linear_pairs(polytope, column, radius, count, rng):
    """What the outputs of pairs differ by after a change of an input at the first sample."""
    A, B, C, D = (np.array([getattr(v, n) for v in polytope.vertices]) for n in "ABCD")
    # each pair keeps a vertex for a random while: fast, slow and no changes
    change = rng.random(count) ** 3
    chosen = rng.integers(len(A), size=count)
    state = np.zeros((count, A.shape[1]))
    outputs = np.empty((count, SAMPLES, C.shape[1]))
    for t in range(SAMPLES):
        w = radius if t == 0 else 0.0
        outputs[:, t] = np.einsum("kij,kj->ki", C[chosen], state)
        outputs[:, t] += D[chosen][:, :, column] * w
        state = np.einsum("kij,kj->ki", A[chosen], state) + B[chosen][:, :, column] * w
        again = rng.random(count) < change
        chosen = np.where(again, rng.integers(len(A), size=count), chosen)
    return outputs


def report(name, certified, worst, pairs):
    print(
        f"{name:34s} pairs {pairs:8d}  certified {certified:.6f}  worst {worst:.6f}  "
        f"tightness {worst / certified:.3f}"
    )
    assert worst <= certified * (1 + 1e-9), "a sampled pair exceeds the certificate"


def room(share):
    """A room with a wall whose exchange of heat with the air varies."""
    names = dict(states=["air", "wall"], inputs=["people"], outputs=["temperature"])

    def plant(k):
        A = [[0.85 - k, k], [0.02, 0.97]]
        return ct.ss(A, [[0.3], [0.0]], [[1.0, 0.0]], 0, 300.0, **names)

    return pc.PlantPolytope([plant(0.1 * (1 - share)), plant(0.1 * (1 + share))])


def vehicle(share):
    """A vehicle on a spring, whose damping and mass vary, with its position measured."""
    names = dict(states=["position", "velocity"], inputs=["force"], outputs=["y"])

    def plant(damping, mass):
        A = [[1, 0.1], [-0.2 / mass, 1 - 0.1 * damping / mass]]
        return ct.ss(A, [[0], [0.1 / mass]], [[1, 0]], 0, 0.1, **names)

    values = [(3.0 * (1 + a * share), 1 + b * share) for a in (-1, 1) for b in (-1, 1)]
    return pc.PlantPolytope([plant(*value) for value in values])


def of_polytope(name, polytope, radius, pairs):
    start = time.time()
    inputs = polytope.nominal.input_labels
    secret = pc.DisturbanceAdjacency({inputs[0]: radius})
    noise = pc.design_output_noise(
        polytope.nominal,
        horizon=np.inf,
        budget=BUDGET,
        adjacency=secret,
        models=polytope,
    )
    took = time.time() - start
    rng = np.random.default_rng(0)
    worst = 0.0
    for _ in range(max(1, pairs // BATCH)):
        outputs = linear_pairs(polytope, 0, radius, min(BATCH, pairs), rng)
        worst = max(worst, float(undone(noise, outputs).max()))
    report(name, noise.guarantee.gdp, worst, pairs)
    print(f"{'':34s} designed in {took:.1f} s, {noise!r}, gap {noise.design.gap:.3f}")


def tank(pairs):
    """A tank that drains by the root of its level: pairs of nonlinear runs."""
    rates = ct.nlsys(
        lambda t, x, u, params: [u[0] - np.sqrt(x[0])],
        None,
        states=["level"],
        inputs=["flow"],
        outputs=["level"],
    )
    step, radius = 0.1, 0.2
    system = pc.sample_nonlinear(rates, step, method="euler")
    low, high = 1.0, 2.0
    region = {"level": (low, high), "flow": (low**0.5 - radius, high**0.5 + radius)}
    polytope = pc.jacobian_polytope(system, region)
    noise = pc.design_output_noise(
        polytope.nominal,
        horizon=np.inf,
        budget=BUDGET,
        adjacency=pc.DisturbanceAdjacency({"flow": radius}),
        models=polytope,
    )
    rng = np.random.default_rng(1)
    worst = 0.0
    for _ in range(max(1, pairs // BATCH)):
        count = min(BATCH, pairs)
        # with such flows the levels stay in the region
        first = rng.uniform(low + 0.03, high - 0.03, count)
        second = first.copy()
        outputs = np.empty((count, SAMPLES, 1))
        lazy = rng.random(count) ** 2
        flow = rng.uniform(low**0.5, high**0.5, count)
        sign = rng.choice([-1.0, 1.0], count)
        for t in range(SAMPLES):
            outputs[:, t, 0] = first - second
            change = sign * radius if t == 0 else 0.0
            first = first + step * (flow + change - np.sqrt(first))
            second = second + step * (flow - np.sqrt(second))
            drawn = rng.uniform(low**0.5, high**0.5, count)
            flow = np.where(rng.random(count) < lazy, drawn, flow)
        assert low <= min(first.min(), second.min())
        assert max(first.max(), second.max()) <= high
        worst = max(worst, float(undone(noise, outputs).max()))
    report("nonlinear tank, 1 m to 2 m", noise.guarantee.gdp, worst, pairs)


def lag(pole):
    names = dict(states=["air"], inputs=["people"], outputs=["temperature"])
    return ct.ss(pole, 1.0, 1.0, 0.0, 300.0, **names)


def beside_floors():
    """Ratios of certified shifts to what sampled sequences attain, for driven noise."""
    print(
        "\n| pole | floor | 0 % | 2 % | 10 % | 20 % |\n| --- | --- | --- | --- | --- | --- |"
    )
    secret = pc.DisturbanceAdjacency({"people": 1.0}, norm="l2")
    for pole in (0.5, 0.8):
        for floor in (0.1, 0.4, 1.5):
            noise = pc.design_output_noise(
                lag(pole),
                horizon=np.inf,
                budget=BUDGET,
                adjacency=secret,
                floor=floor,
            )
            ratios = []
            for share in (0.0, 0.02, 0.1, 0.2):
                vertices = [lag(pole * (1 - share)), lag(pole * (1 + share))]
                region = pc.PlantPolytope(vertices)
                certified = noise.guarantee_for(region).gdp
                ratios.append(certified / worst_energy(noise, vertices, SAMPLES))
            shown = " | ".join(f"{ratio:.5f}" for ratio in ratios)
            print(f"| {pole} | {floor} | {shown} |")


def main(pairs):
    for share in (0.02, 0.1, 0.2):
        of_polytope(f"room, exchange +-{share:.0%}", room(share), 0.1, pairs)
        of_polytope(f"vehicle, damping, mass +-{share:.0%}", vehicle(share), 1.0, pairs)
    tank(pairs)
    beside_floors()


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000)
