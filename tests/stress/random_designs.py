"""How long random designs take, and whether each of them ends.

    python tests/stress/random_designs.py            # 435 without models, 125 with them
    python tests/stress/random_designs.py 20 8 4     # and 100 of a wider kind, so many

Plants have up to 8 states and 3 outputs, runs up to 200 samples. Secrets are states at the
start or at all times, balls of initial states, disturbances that are single, last or have
bounded energy, and pairs of these. Noise is alone, beside a floor, independent or for
readings on a grid; models are lists, boxes, plants that vary and identified ones. Wider
requests have up to 30 states and 8 outputs, sampled plants, no horizon, profiles, changes
at a distance, prices and loops with the best noise. A refusal with a reason counts
as an end. Each design runs in a process of its own with a limit of
processor time. The exit status is 1 if a design fails or has no end within 60 s.
"""

import multiprocessing
import resource
import signal
import sys
import time
import warnings
from pathlib import Path

import control as ct
import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))

import cases

import privcontrol as pc

GOAL, LIMIT = 2, 60  # seconds of processor time
REFUSALS = (ValueError, pc.PrivacyError, pc.UncertifiableError, MemoryError)


def drawn_secret(rng, plant):
    """One kind of secret of a plant."""
    state = {str(rng.choice(plant.state_labels)): rng.uniform(0.1, 1)}
    entered = {str(rng.choice(plant.input_labels)): rng.uniform(0.1, 1)}
    kind = rng.integers(6)
    if kind < 2:
        return pc.StateAdjacency(state, times=0 if kind else None)
    if kind == 2:
        return pc.InitialStateAdjacency(rng.uniform(0.1, 1))
    if kind == 3:
        return pc.DisturbanceAdjacency(entered)
    if kind == 4:
        return pc.DisturbanceAdjacency(
            entered, duration=int(rng.integers(2, 12)), shape="level"
        )
    return pc.DisturbanceAdjacency(entered, norm="l2")


def identified(rng, plant):
    """The plant, as 400 samples tell it."""
    states = np.zeros((plant.nstates, 401))
    inputs = rng.normal(size=(plant.ninputs, 401))
    for t in range(400):
        driven = plant.A @ states[:, t] + plant.B @ inputs[:, t]
        states[:, t + 1] = driven + 0.01 * rng.normal(size=plant.nstates)
    return pc.identify_states(plant, states, inputs, confidence=0.999)


def drawn_models(rng, plant):
    """Models of a plant, and the plant that noise is designed for."""
    kind = rng.integers(4)
    if kind == 3:
        found = identified(rng, plant)
        return found, found.system
    box = pc.PlantBox.around(plant, relative=10 ** rng.uniform(-4, -2))
    if kind == 0:
        return box.sampled(3, rng=0)[-3:], plant
    if kind == 1:
        return box, plant
    vertices = box.sampled(3, rng=0)[-3:]
    return pc.PlantPolytope([plant, *vertices], varying=True), plant


def design(seed, with_models):
    """Design the noise of a seed."""
    rng = np.random.default_rng(seed)
    plant = cases.random_plant(
        seed,
        states=int(rng.integers(1, 5 if with_models else 9)),
        inputs=int(rng.integers(1, 3)),
        outputs=int(rng.integers(1, 4)),
        radius=rng.uniform(0.5, 1.0),
    )
    secret = drawn_secret(rng, plant)
    if rng.random() < 0.2:
        secret = [secret, drawn_secret(rng, plant)]
    options = {"models": "exact"}
    if with_models:
        options["models"], plant = drawn_models(rng, plant)
        options["floor"] = "auto" if rng.random() < 0.5 else 0.3
    else:
        kind = rng.integers(4)
        if kind == 1:
            options["floor"] = 0.3
        elif kind == 2:
            options["family"] = "iid-gaussian"
        elif kind == 3:
            options |= {"resolution": 0.01, "floor": 0.3}
    pc.design_output_noise(
        plant,
        horizon=int(rng.integers(5, 60 if with_models else 201)),
        budget=pc.PrivacyBudget(epsilon=1.0, delta=1e-2),
        adjacency=secret,
        max_std=np.inf,
        **options,
    )


def wide_secret(rng, plant, horizon):
    """One kind of secret of a plant, for any horizon."""
    entered = {str(rng.choice(plant.input_labels)): rng.uniform(0.1, 1)}
    kind = rng.integers(5)
    if kind == 0:
        return pc.StateAdjacency(rng.uniform(0.1, 1), times=0)
    if kind == 1:
        return pc.InitialStateAdjacency(rng.uniform(0.1, 1), norm=1)
    if kind == 2:
        longest = int(min(horizon, 12))
        shapes = [rng.normal(size=rng.integers(1, longest + 1)) for _ in range(2)]
        return pc.DisturbanceAdjacency(entered, profiles=shapes)
    if kind == 3:
        separation = int(rng.integers(1, 20))
        return pc.DisturbanceAdjacency(entered, events=3, separation=separation)
    return pc.DisturbanceAdjacency(entered, norm="l2")


def wide_design(seed):
    """Design the noise of a seed, or a loop."""
    rng = np.random.default_rng([seed, 1])
    states = int(rng.integers(1, 31))
    outputs = int(rng.integers(1, 9))
    plant = cases.random_plant(
        seed, states, int(rng.integers(1, 4)), outputs, rng.uniform(0.5, 1.02)
    )
    if rng.random() < 0.3:
        A = rng.normal(size=(states, states))
        A -= (np.linalg.eigvals(A).real.max() + 0.1) * np.eye(states)
        labels = dict(states=plant.state_labels, inputs=plant.input_labels)
        plant = ct.ss(A, plant.B, plant.C, 0, **labels).sample(0.1)
    horizon = np.inf if rng.random() < 0.3 else int(10 ** rng.uniform(0, 2.3))
    budget = pc.PrivacyBudget(gdp=10 ** rng.uniform(-1, 0.5))
    secret = wide_secret(rng, plant, horizon)
    if rng.random() < 0.2:
        secret = [secret, wide_secret(rng, plant, horizon)]
    options = {"weight": rng.uniform(0.1, 10, outputs), "max_std": np.inf}
    if rng.random() < 0.4:
        options["floor"] = rng.uniform(0.05, 1, outputs)
    noise = pc.design_output_noise(
        plant, horizon=horizon, budget=budget, adjacency=secret, **options
    )
    if rng.random() < 0.2 and horizon < 100:
        given = dict(Q=1.0, R=1.0, QN=0.01, RN=0.01, P0=np.eye(states))
        pc.private_lqg(plant, **given, noise=noise, codesign=True)


def limited(seed, kind, pipe):
    """The same within the limit, and how it ended."""
    warnings.simplefilter("ignore")
    resource.setrlimit(resource.RLIMIT_CPU, (LIMIT, LIMIT + 5))
    signal.signal(signal.SIGXCPU, signal.SIG_DFL)
    start = time.process_time()
    end = "designed"
    try:
        if kind == "wide designs":
            wide_design(seed)
        else:
            design(seed, kind == "model designs")
    except REFUSALS as refusal:
        end = f"refused: {refusal}"
    except Exception as error:
        end = f"failed: {error!r}"
    pipe.send((time.process_time() - start, end))


def measured(seed, kind):
    """Processor seconds of a seed, and how it ended."""
    here, there = multiprocessing.Pipe(duplex=False)
    process = multiprocessing.get_context("fork").Process(
        target=limited, args=(seed, kind, there)
    )
    process.start()
    there.close()
    try:
        return here.recv()
    except EOFError:
        return float(LIMIT), "no end"
    finally:
        process.join()


def told(count, kind, seconds, ends):
    """Print how many requests ended, and the times that half and most of them took."""
    middle, most = np.percentile(seconds, [50, 90])
    endless = ends.count("no end")
    failed = sum(end.startswith("failed") for end in ends)
    print(
        f"{count} {kind}: {ends.count('designed')} designed, {failed} failed, "
        f"{endless} without an end within {LIMIT} s; "
        f"p50 {middle:.2g} s, p90 {most:.2g} s, longest {max(seconds):.1f} s",
        flush=True,
    )
    return endless + failed


def main(finite=435, of_models=125, wide=100):
    for public in pc.__all__:
        getattr(pc, public)  # imported once
    bad = 0
    all_seconds = []
    all_ends = []
    kinds = {"finite designs": finite, "model designs": of_models, "wide designs": wide}
    for kind, count in kinds.items():
        if not count:
            continue
        seconds, ends = zip(*(measured(seed, kind) for seed in range(count)))
        bad += told(count, kind, seconds, ends)
        for seed, (each, end) in enumerate(zip(seconds, ends)):
            if each > GOAL or end.startswith("failed"):
                print(f"  seed {seed}: {each:.1f} s, {end}")
        all_seconds += seconds
        all_ends += ends
    told(len(all_ends), "designs in all", all_seconds, all_ends)
    sys.exit(bad > 0)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
