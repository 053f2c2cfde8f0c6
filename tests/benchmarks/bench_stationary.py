"""Noise without a horizon: its cost by order, against other noises, the time of its design and of its stream."""

import itertools
import time
import tracemalloc
import warnings

import control as ct
import numpy as np
import pytest
from benchmarks.measure import duration
from scipy.signal import fftconvolve

import privcontrol as pc

BUDGET = pc.PrivacyBudget(epsilon=1.0, delta=1e-2)


def endless(sys, adjacency, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", pc.PrivacyWarning)
        return pc.design_output_noise(
            sys, horizon=np.inf, budget=BUDGET, adjacency=adjacency, **options
        )


def lag(pole):
    return ct.ss(pole, 1, 1, 0, 1, states=["x"], inputs=["w"], outputs=["y"])


def ladder(states, outputs, rng):
    """Rooms in a row: heat flows between neighbours and outdoors; the inputs are heat and people."""
    conductance = rng.uniform(0.02, 0.3, states + 1)
    A = np.diag(1 - conductance[:-1] - conductance[1:])
    for k in range(states - 1):
        A[k, k + 1] = A[k + 1, k] = conductance[k + 1]
    A -= 0.02 * np.eye(states)
    spots = np.linspace(0, states - 1, outputs).astype(int)
    C = np.eye(states)[spots]
    heat = rng.uniform(0.0, 0.2, (states, 1))
    people = np.eye(states)[:, spots] * 0.1
    names = [f"people{k}" for k in range(outputs)]
    return ct.ss(A, np.hstack([heat, people]), C, 0, 300.0, inputs=["heat", *names])


def people_of(sys, **options):
    return pc.DisturbanceAdjacency(dict.fromkeys(sys.input_labels[1:], 1.0), **options)


def test_gap_by_order(benchmark, table):
    out = table(
        "Noise without a horizon for a lag 1/(z - a), by its order",
        "Cost above the lower bound of any Gaussian noise, relatively; (epsilon, delta) = (1, 1e-2), one event of size "
        "one. Driven noise is the plant's response to white noise.",
        *("a", "lower bound", "order 1", "2", "3", "4", "driven", "white"),
    )
    for pole in (0.5, 0.9, 0.99, 0.999):
        secret = pc.DisturbanceAdjacency(1.0)
        found = [endless(lag(pole), secret, order=k).design for k in (1, 2, 3, 4)]
        driven = endless(lag(pole), pc.DisturbanceAdjacency(1.0, norm="l2")).design
        white = endless(lag(pole), secret, family="iid-gaussian").design
        bound = found[0].lower_bound
        gaps = [design.gap for design in found]
        rest = (driven.cost / bound - 1, white.cost / bound - 1)
        out.add(f"{pole:g}", f"{bound:.6f}", *gaps, *rest)
    benchmark.pedantic(lambda: endless(lag(0.9), secret), rounds=3)


def test_cost_against_driven_and_white_noise(benchmark, table):
    out = table(
        "Cost of a loop with noise without a horizon, against driven and white noise",
        "Rooms in a row with heating and people; the cost is the steady-state LQ cost that the noise adds to one and "
        "the same loop. The loop of the last column is the best one of each noise, its total cost relative to ours.",
        *(
            "plants",
            "states",
            "outputs",
            "driven / ours, median",
            "least",
            "white / ours, median",
            "least",
            "total",
        ),
    )
    for states, outputs in ((4, 1), (6, 1), (8, 2), (12, 2)):
        ratios = []
        for seed in range(5):
            sys = ladder(states, outputs, np.random.default_rng(seed))
            tuning = {"Q": 1.0, "R": 1.0, "QN": 1e-3, "RN": 1e-3, "controls": ["heat"]}
            loop = pc.private_lqg(sys, **tuning)
            ours = endless(sys, people_of(sys), weight=loop)
            driven = endless(sys, people_of(sys, norm="l2"))
            white = endless(sys, people_of(sys), family="iid-gaussian")
            same = [
                loop.with_noise(noise).steady_state_cost().privacy
                for noise in (ours, driven, white)
            ]
            best = [
                pc.private_lqg(sys, **tuning, noise=noise).steady_state_cost().total
                for noise in (ours, white)
            ]
            ratios.append([same[1] / same[0], same[2] / same[0], best[1] / best[0]])
        middle, least = np.median(ratios, axis=0), np.min(ratios, axis=0)
        row = (middle[0], least[0], middle[1], least[1], middle[2])
        out.add(5, states, outputs, *row)
    benchmark.pedantic(lambda: loop.with_noise(ours).steady_state_cost(), rounds=3)


def test_design_time(benchmark, table):
    out = table(
        "Time of a design without a horizon",
        "Random plants with as many secrets as outputs, spectral radius 0.95, gap 1 %. Goals: 0.1, 0.5, 2 and 20 s.",
        *("states", "outputs", "order", "gap", "time"),
    )
    for states, outputs in ((2, 1), (6, 2), (12, 2), (40, 3)):
        rng = np.random.default_rng(states)
        A = rng.standard_normal((states, states))
        A *= 0.95 / np.abs(np.linalg.eigvals(A)).max()
        B = rng.standard_normal((states, outputs))
        C = rng.standard_normal((outputs, states))
        sys = ct.ss(A, B, C, 0, 1)
        times = []
        for _ in range(3):
            start = time.process_time()
            noise = endless(sys, pc.DisturbanceAdjacency(1.0))
            times.append(time.process_time() - start)
        design = noise.design
        order = noise.system.nstates
        out.add(states, outputs, order, design.gap, duration(float(np.median(times))))
    benchmark.pedantic(
        lambda: endless(lag(0.9), pc.DisturbanceAdjacency(1.0)), rounds=3
    )


def test_long_finite_runs(benchmark, table):
    out = table(
        "Designs for disturbances over finite horizons",
        "One room with people. From 300 samples on noise of low order is used where it is within 1 %.",
        *("samples", "noise", "gap", "time"),
    )
    room = ladder(2, 1, np.random.default_rng(0))
    for samples in (100, 200, 500, 1000, 2000):
        start = time.process_time()
        noise = pc.design_output_noise(
            room, horizon=samples, budget=BUDGET, adjacency=people_of(room)
        )
        seconds = time.process_time() - start
        kind = noise.parts[0].label(True)
        out.add(samples, kind, noise.design.gap, duration(seconds))
    benchmark.pedantic(lambda: noise.sample(rng=0), rounds=3)


def test_stream(benchmark, table):
    out = table(
        "A stream of noise without a horizon",
        "Processor time of a sample, over ten million samples, and the largest memory that the stream itself takes "
        "over a million. Goal: 2 us and constant memory.",
        *("order", "outputs", "time a sample", "memory"),
    )
    for sys in (lag(0.9), ladder(8, 2, np.random.default_rng(0))):
        secret = pc.DisturbanceAdjacency(1.0) if sys.ninputs == 1 else people_of(sys)
        noise = endless(sys, secret)
        stream = noise.stream(rng=0)
        next(stream)
        start = time.process_time()
        for _ in itertools.islice(stream, 10_000_000):
            pass
        seconds = (time.process_time() - start) / 1e7
        tracemalloc.start()
        for _ in itertools.islice(noise.stream(rng=0), 1_000_000):
            pass
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        size = f"{peak / 1e3:.0f} kB"
        out.add(noise.system.nstates, noise.process.outputs, duration(seconds), size)
    benchmark.pedantic(lambda: next(stream), rounds=100)


def impulse(A, B, C, D, length):
    """Impulse response of a system with one input, one output and distinct poles."""
    poles, vectors = np.linalg.eig(A)
    residues = (C @ vectors).ravel() * np.linalg.solve(vectors, B).ravel()
    out = np.zeros(length)
    out[0] = D.item()
    steps = np.arange(length - 1)
    for pole, residue in zip(poles, residues):
        out[1:] += np.real(residue * np.exp(np.log(pole + 0j) * steps))
    return out


def factors_of_noise(system, workload):
    """B and C with B C = workload: the system from rest, and what it must hide."""
    out = impulse(system.A, system.B, system.C, system.D, len(workload))
    through = 1 / system.D
    onto = system.B @ through
    whiten = impulse(
        system.A - onto @ system.C, onto, -through @ system.C, through, len(workload)
    )
    if np.all(workload == 1):
        return out, np.cumsum(whiten)
    return out, fftconvolve(whiten, workload)[: len(workload)]


def errors(factors, workload, shift):
    """Root-mean-square and largest standard deviation over a run, at a shift."""
    out, hidden = factors
    product = fftconvolve(out, hidden)[: len(workload)]
    assert np.abs(product - workload).max() < 1e-6
    variances = np.cumsum(out**2)
    sensitivity = np.linalg.norm(hidden) / shift
    return sensitivity * np.sqrt(variances.mean()), sensitivity * np.sqrt(variances[-1])


def blt_factors(blt, workload):
    """B and C of a buffered linear Toeplitz mechanism for a workload."""
    size = len(workload)
    inverse = np.asarray(blt.inverse().toeplitz_coefs(size))
    hidden = np.asarray(blt.toeplitz_coefs(size))
    if np.all(workload == 1):
        return np.cumsum(inverse), hidden
    return fftconvolve(inverse, workload)[:size], hidden


def blt_for_lag(peer, pole, size, buffers):
    """The peer's mechanism, optimised by the peer for the largest error of a lag."""
    import jax.numpy as jnp

    steps = np.arange(size)
    powers = pole**steps

    def last_error(inverse):
        decays = inverse.buf_decay
        shared = powers[:, None] - decays ** steps[:, None]
        out = powers + (shared / (pole - decays)) @ inverse.output_scale
        return jnp.sum(out**2)

    def sensitivity(blt):
        return jnp.sum(blt.toeplitz_coefs(size) ** 2)

    loss = peer.LossFn(last_error, sensitivity, size, 1, 1)
    return peer.optimize_loss(loss, num_buffers=buffers)[0]


SIZES = {1_000: 3, 10_000: 4, 100_000: 5, 1_000_000: 5}


@pytest.mark.peers
def test_toeplitz_mechanisms(benchmark, table):
    jax = pytest.importorskip("jax")
    peer = pytest.importorskip("jax_privacy.matrix_factorization.buffered_toeplitz")
    before = jax.config.read("jax_enable_x64")
    jax.config.update("jax_enable_x64", True)
    try:
        _prefix_sums(table, peer)
        _lags(table, peer)
    finally:
        jax.config.update("jax_enable_x64", before)
    system = endless(lag(0.9), pc.DisturbanceAdjacency(1.0)).system
    workload = 0.9 ** np.arange(1_000)
    benchmark.pedantic(lambda: factors_of_noise(system, workload), rounds=3)


def _prefix_sums(table, peer):
    out = table(
        "Prefix sums: noise of low order against buffered linear Toeplitz mechanisms",
        "Standard deviation of the released sums at (epsilon, delta) = (1, 1e-2), one number of the data moving by "
        "one: root mean square over the n sums, and the largest. Ours is the noise for a leaky sum, 1/(z - 1 + 1/(2 n)), "
        "begun at rest and sized here for the true sums. The peer is optimised for the largest error at this n.",
        *("n", "noise", "order", "rms", "largest", "ours / peer, rms", "design time"),
    )
    shift = BUDGET.shift()
    for size, buffers in SIZES.items():
        sums = np.ones(size)
        start = time.process_time()
        blt = peer.optimize(n=size, min_buffers=buffers, max_buffers=buffers)
        seconds = time.process_time() - start
        theirs = errors(blt_factors(blt, sums), sums, shift)
        start = time.process_time()
        noise = endless(lag(1 - 0.5 / size), pc.DisturbanceAdjacency(1.0))
        own_seconds = time.process_time() - start
        leaky = errors(factors_of_noise(noise.system, sums), sums, shift)
        if size <= 1_000:
            _finite_design(out, size, theirs)
        ratio = leaky[0] / theirs[0]
        states = noise.system.nstates
        own = (states, *leaky, ratio, duration(own_seconds))
        out.add(size, "privcontrol, leaky sum", *own)
        out.add(size, "jax_privacy, BLT", buffers, *theirs, None, duration(seconds))
        root = square_root(size)
        out.add(
            size, "square root", None, *errors((root, root), sums, shift), None, None
        )


def _finite_design(out, size, theirs):
    """A row for the design for exactly this many sums, certified to be the best."""
    integrator = ct.ss(1, 1, 1, 0, 1)
    start = time.process_time()
    noise = pc.design_output_noise(
        integrator, horizon=size, budget=BUDGET, adjacency=pc.DisturbanceAdjacency(1.0)
    )
    seconds = duration(time.process_time() - start)
    rms = float(np.sqrt(noise.design.cost / size))
    largest = float(noise.std.max())
    ratio = rms / theirs[0]
    out.add(size, "privcontrol, finite", None, rms, largest, ratio, seconds)


def _lags(table, peer):
    out = table(
        "A lag: noise without a horizon against buffered linear Toeplitz mechanisms",
        "Standard deviation of the released output of 1/(z - a), as above. Ours holds for every n at once and starts in "
        "its stationary law, so it is the same at all times. The peer begins at rest and is optimised, with its own "
        "optimiser, for the largest error of this lag over 1,000 samples, then sized for n.",
        *("a", "n", "noise", "order", "rms", "largest", "ours / peer, largest"),
    )
    shift = BUDGET.shift()
    for pole in (0.9, 0.99):
        noise = endless(lag(pole), pc.DisturbanceAdjacency(1.0))
        order = noise.system.nstates
        blt = blt_for_lag(peer, pole, 1_000, order)
        std = float(np.sqrt(noise.design.cost))
        for size in SIZES:
            workload = pole ** np.arange(size)
            theirs = errors(blt_factors(blt, workload), workload, shift)
            own = (std, std, std / theirs[1])
            out.add(f"{pole:g}", size, "privcontrol", order, *own)
            out.add(f"{pole:g}", size, "jax_privacy, BLT", order, *theirs, None)
            root = square_root(size) * workload
            closed = errors((root, root), workload, shift)
            out.add(f"{pole:g}", size, "square root", None, *closed, None)


def square_root(size):
    """Coefficients of (1 - z)^(-1/2), the closed form for the prefix sums."""
    steps = np.arange(1, size)
    return np.cumprod(np.concatenate([[1.0], 1 - 0.5 / steps]))
