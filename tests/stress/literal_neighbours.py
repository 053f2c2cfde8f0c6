"""Runs that are neighbours by the words of a promise, against what it claims.

    python tests/stress/literal_neighbours.py 200        # random requests, so many
    python tests/stress/literal_neighbours.py 200 1000   # others, from this seed on

Secrets are changes and events of every kind: levels, any shape, profiles, several signals
together, moved ones, ones on another signal, several of them with and without a separation.
Two runs are drawn as the words say it, without the package's own list of moves: where
events are moved, each run keeps the separation, and the events may change places. The shift
of their outputs follows from the noise's covariance by a dense solve. It is compared with the
claim for the nominal plant and for models, with `guarantee.repeated` and with
`guarantee.any_shape`. The exit status is 1 if anything shows more than is claimed.
"""

import sys
import warnings
from itertools import pairwise

import control as ct
import numpy as np

import privcontrol as pc

REFUSALS = (ValueError, pc.PrivacyError)
#: Pairs of runs for each claim.
PAIRS = 300
#: What rounding and the dense solve may add.
SLACK = 1e-7
#: Samples of a run without a horizon that are looked at.
LOOKED_AT = 9
FURTHER = [(2, None), (2, 1), (2, 3), (3, 2), (3, 4)]


def drawn_plant(rng, is_endless):
    """A plant with poles that decay, repeat, stay or grow, and sometimes a feedthrough."""
    n, q, p = (int(rng.integers(1, most)) for most in (4, 4, 3))
    A = rng.normal(size=(n, n))
    A *= rng.choice([0.3, 0.7, 0.95]) / max(np.abs(np.linalg.eigvals(A)).max(), 1e-9)
    kind = rng.integers(5)
    if kind == 0:
        A = np.eye(n, k=1)
    if kind == 1:
        A = 0.8 * np.eye(n) + 0.5 * np.eye(n, k=1)
    if kind == 2 and not is_endless:
        A = float(rng.choice([1.0, 1.2])) * np.eye(n)
    B, C, D = (rng.normal(size=shape).round(2) for shape in ((n, q), (p, n), (p, q)))
    D *= rng.integers(2)
    if q > 1 and rng.random() < 0.1:
        B[:, 0], D[:, 0] = B[:, 1], D[:, 1]
    names = {"inputs": [f"u{k}" for k in range(q)]}
    return ct.ss(A.round(3), B, C, D, True, **names)


def drawn_secret(rng, plant, horizon):
    """Changes or events of some of the plant's inputs, None where options do not fit."""
    names = rng.permutation(plant.input_labels)[: rng.integers(1, plant.ninputs + 1)]
    radii = {str(name): float(rng.choice([0.5, 1.0, 2.0])) for name in names}
    length, moved = int(rng.integers(1, 4)), int(rng.integers(1, 4))
    level = {"duration": length, "shape": "level"}
    profiles = [rng.normal(size=rng.integers(1, 4)).round(2) for _ in range(2)]
    options = [
        {},
        level,
        {"duration": length},
        {"duration": length, "together": True},
        {"profiles": profiles},
        {"moved": moved},
        {"which": True},
        {"moved": moved, "which": True},
        {"moved": moved, **level},
        {"which": True, **level},
    ][rng.integers(10)]
    is_endless = horizon == np.inf
    if rng.random() < 0.5:
        options["events"] = int(rng.integers(2, 4))
        options["separation"] = int(rng.integers(0 if is_endless else 1, 5))
    if not is_endless and "moved" not in options and rng.random() < 0.25:
        count = rng.integers(1, horizon + 1)
        options["times"] = sorted(rng.permutation(horizon)[:count].tolist())
    try:
        return pc.DisturbanceAdjacency(radii, **options)
    except ValueError:
        return None


def are_apart(starts, separation):
    ordered = sorted(starts)
    return all(b - a >= separation for a, b in pairwise(ordered))


def drawn_starts(rng, secret, count, samples):
    """Samples at which the events of one run start, None where they have no room."""
    allowed = range(samples) if secret.times is None else secret.times
    for _ in range(20):
        starts = sorted(int(t) for t in rng.choice(list(allowed), size=count))
        if are_apart(starts, secret.separation):
            return starts
    return None


def moved_starts(rng, secret, starts):
    """When each of them starts in the other run, None where that run does not fit."""
    others = list(starts)
    if secret.moved and rng.random() < 0.3:
        others = rng.permutation(others).tolist()
    elif secret.moved:
        steps = rng.integers(-secret.moved, secret.moved + 1, size=len(starts))
        others = [t + step for t, step in zip(starts, steps.tolist())]
    far = max(abs(a - b) for a, b in zip(starts, others))
    fits = min(others) >= 0 and are_apart(others, secret.separation)
    return others if fits and far <= secret.moved else None


def drawn_difference(rng, secret, names, samples):
    """The secret signals (T, q) of one run less those of a neighbour, None for none."""
    places = [names.index(name) for name in secret.radius]
    radii = list(secret.radius.values())
    count = (
        secret.events if rng.random() < 0.7 else int(rng.integers(1, secret.events + 1))
    )
    starts = drawn_starts(rng, secret, count, samples)
    if starts is None:
        return None
    change = np.zeros((2 * samples + 16, len(names)))
    signals = rng.integers(len(places), size=count)
    signs = rng.choice([-1.0, 1.0], size=count)
    lasts = rng.integers(1, secret.duration + 1, size=count)
    if secret.moved or secret.which:
        others = moved_starts(rng, secret, starts)
        if others is None:
            return None
        for t, s, one, sign, length in zip(starts, others, signals, signs, lasts):
            other = rng.integers(len(places)) if secret.which else one
            change[t : t + length, places[one]] += sign * radii[one]
            change[s : s + length, places[other]] -= sign * radii[other]
        return change[:samples]
    alike = starts if secret.together else list(zip(starts, signals.tolist()))
    if not secret.separation and len(set(alike)) < count:
        return None
    for t, one, sign, length in zip(starts, signals, signs, lasts):
        if secret.profiles is not None:
            shape = secret.profiles[rng.integers(len(secret.profiles))]
            change[t : t + len(shape), places[one]] += sign * radii[one] * shape
        elif secret.shape == "level" and not secret.together:
            change[t : t + length, places[one]] += sign * radii[one]
        else:
            for k in range(len(places)) if secret.together else [one]:
                values = rng.choice([-1.0, 1.0], size=secret.duration)
                change[t : t + secret.duration, places[k]] += values * radii[k]
    return change[:samples]


def responses_of(plant, samples):
    """The outputs' response (T p, T q) to the inputs at every sample."""
    p, q = plant.noutputs, plant.ninputs
    markov = [plant.D]
    state = plant.B
    for _ in range(samples - 1):
        markov.append(plant.C @ state)
        state = plant.A @ state
    every = np.zeros((samples, p, samples, q))
    for t in range(samples):
        for s in range(t + 1):
            every[t, :, s] = markov[t - s]
    return every.reshape(samples * p, samples * q)


def whitening(noise, samples):
    """What makes the noise white, and the directions (T p, k) in which it has none."""
    every = range(samples)
    covariance = np.block([[noise.covariance(t, s) for s in every] for t in every])
    values, vectors = np.linalg.eigh((covariance + covariance.T) / 2)
    noisy = values > 1e-13 * values.max()
    return (vectors[:, noisy] / np.sqrt(values[noisy])).T, vectors[:, ~noisy].T


def shown(rng, secret, noise, plants, samples):
    """The largest shift of neighbours that were drawn, inf where one is not covered."""
    white, bare = whitening(noise, samples)
    found = 0.0
    drawn = [
        drawn_difference(rng, secret, plants[0].input_labels, samples)
        for _ in range(PAIRS)
    ]
    changes = [each.ravel() for each in drawn if each is not None]
    if not changes:
        return 0.0
    for plant in plants:
        moved = responses_of(plant, samples) @ np.array(changes).T
        if bare.size and np.abs(bare @ moved).max() > 1e-8 * np.abs(moved).max():
            return np.inf
        found = max(found, np.linalg.norm(white @ moved, axis=0).max())
    return found


def again(secret, events, separation):
    """The same secret so many times in a run."""
    kept = ("duration", "profiles", "times", "shape", "together", "moved", "which")
    options = {name: getattr(secret, name) for name in kept}
    return pc.DisturbanceAdjacency(
        secret.radius, events=events, separation=separation, **options
    )


def compared(rng):
    """Yield each claim of a random request, what it is of, and what is shown."""
    horizon = float(np.inf) if rng.random() < 0.3 else int(rng.choice([1, 2, 3, 5, 8]))
    samples = LOOKED_AT if horizon == np.inf else horizon
    plant = drawn_plant(rng, horizon == np.inf)
    secret = drawn_secret(rng, plant, horizon)
    if secret is None:
        return
    options = {"family": str(rng.choice(["gaussian", "iid-gaussian"]))}
    plants = [plant]
    if rng.random() < 0.2:
        names = {"inputs": plant.input_labels}
        other = ct.ss(0.97 * plant.A, 1.05 * plant.B, plant.C, plant.D, True, **names)
        plants.append(other)
        options["models"] = [other]
    if options["family"] == "gaussian" and rng.random() < 0.3:
        options["floor"] = 0.5
    try:
        noise = pc.design_output_noise(
            plant,
            horizon=horizon,
            budget=pc.PrivacyBudget(gdp=1.0),
            adjacency=secret,
            max_std=np.inf,
            gap=0.3,
            **options,
        )
    except REFUSALS:
        return
    first = noise.over(samples) if horizon == np.inf else noise
    promise = noise.guarantee
    yield "promise", promise.gdp, shown(rng, secret, first, plants, samples)
    for count, apart in FURTHER:
        more = again(secret, count, apart or 0)
        claim = promise.repeated(count, separation=apart).gdp
        yield f"repeated {count}", claim, shown(rng, more, first, plants, samples)
    if promise.scope.change.varying:
        shapes = pc.DisturbanceAdjacency(
            secret.radius,
            duration=secret.duration,
            times=secret.times,
            events=secret.events,
            separation=secret.separation,
        )
        claim = promise.any_shape().gdp
        yield "any shape", claim, shown(rng, shapes, first, plants, samples)


def main(count, seed=0):
    warnings.simplefilter("ignore")
    total = wrong = 0
    closest = {}
    for k in range(seed, seed + count):
        for what, claim, found in compared(np.random.default_rng(k)):
            total += 1
            closest[what] = max(closest.get(what, 0.0), found / claim)
            if found > claim * (1 + SLACK):
                wrong += 1
                print(f"seed {k}, {what}: {found:.9g} is shown, {claim:.9g} is claimed")
    for what, share in sorted(closest.items()):
        print(f"{what}: at most {share:.6f} of what is claimed")
    print(f"{total} claims, {wrong} of them wrong")
    return wrong


if __name__ == "__main__":
    sys.exit(bool(main(*map(int, sys.argv[1:] or ["200"]))))
