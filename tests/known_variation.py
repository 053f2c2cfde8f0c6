"""Plants that vary in a known way, and what dense linear algebra says of them.

Nothing here calls the code that it checks: transition matrices are products of doubles, or
of mpmath numbers where they are inverted.
"""

import control as ct
import mpmath as mp
import numpy as np

from privcontrol.systems.linear import Plant
from privcontrol.systems.varying import VaryingPlant


def random_plants(rng, horizon, states=None, outputs=None, inputs=None, growth=None):
    """A list of StateSpaces with unstable stretches; some readings miss at some samples.

    A_t are near to turns, so transition matrices over 200 samples stay within some decades.
    """
    n = states or int(rng.integers(1, 7))
    p = outputs or int(rng.integers(1, 4))
    m = inputs or int(rng.integers(1, 3))
    names = {
        "states": [f"x{k}" for k in range(n)],
        "inputs": [f"u{k}" for k in range(m)],
        "outputs": [f"y{k}" for k in range(p)],
    }
    spread = 0.3 / np.sqrt(horizon) if growth is None else growth
    turn = np.linalg.qr(rng.normal(size=(n, n)))[0]
    stretch = int(rng.integers(horizon)) if horizon > 1 else 0
    plants = []
    for t in range(horizon):
        A = turn @ (np.eye(n) + spread * rng.normal(size=(n, n)))
        if stretch <= t < stretch + 8:
            A = 1.15 * A  # unstable for a while
        elif stretch + 8 <= t < stretch + 16:
            A = A / 1.15
        B = rng.normal(size=(n, m))
        C = rng.normal(size=(p, n))
        C[:, 0] += 1.0
        if p > 1:
            C[rng.random(p) < 0.2] = 0.0
        plants.append(ct.ss(A, B, C, np.zeros((p, m)), 1.0, **names))
    return plants


def as_varying(sys, horizon):
    """A constant plant as the code for plants that vary sees it."""
    plant = Plant.of(sys)
    along = tuple(np.stack([matrix] * horizon) for matrix in plant.matrices)
    return VaryingPlant(
        along=along,
        dt=plant.dt,
        name=plant.name,
        states=plant.states,
        inputs=plant.inputs,
        outputs=plant.outputs,
    )


def transitions(plants):
    """Phi(t, 0) for t = 0 .. T-1, shape (T, n, n)."""
    found = [np.eye(len(plants[0].A))]
    for plant in plants[:-1]:
        found.append(plant.A @ found[-1])
    return np.array(found)


def observability(plants):
    """[C_0; C_1 Phi(1, 0); ...], shape (T p, n)."""
    every = transitions(plants)
    return np.vstack([plant.C @ phi for plant, phi in zip(plants, every)])


def state_moves(plants, radii, times, digits=60):
    """mu_k Phi(j, 0)^-1 e_k as columns of doubles (n, M), inverted in many digits."""
    with mp.workdps(digits):
        phi = mp.eye(len(radii))
        moves = []
        for t in range(max(times) + 1):
            if t in times:
                inverse = phi**-1
                for k, mu in enumerate(radii):
                    if mu:
                        moves.append(
                            [float(mu * inverse[i, k]) for i in range(phi.rows)]
                        )
            phi = mp.matrix(plants[t].A.tolist()) * phi
        return np.array(moves).T


def forced(plants, inputs=None):
    """The map (T p, T m) from inputs to outputs."""
    T, (p, m) = len(plants), plants[0].D.shape
    chosen = list(range(m)) if inputs is None else inputs
    every = np.zeros((T, p, T, len(chosen)))
    for s in range(T):
        state = plants[s].B[:, chosen]
        every[s, :, s] = plants[s].D[:, chosen]
        for t in range(s + 1, T):
            every[t, :, s] = plants[t].C @ state
            state = plants[t].A @ state
    return every.reshape(T * p, T * len(chosen))


def covariance(noise):
    """Covariance (T p, T p) of output noise, from samples' responses to its entries."""
    T, p = noise.horizon, noise.process.outputs
    rows = noise.process.responses.reshape(T * p, -1)
    white = np.diag(np.tile(noise.process.total.white**2, T))
    return noise.process.law.unit_variance * (rows @ rows.T + white)


def shift(total, images):
    """sup sqrt(s' Gamma^+ s) over columns s, each in the units of its output."""
    sizes = np.sqrt(np.diag(total))
    units = np.where(sizes > 0, sizes, 1.0)
    scaled = total / units / units[:, None]
    values, vectors = np.linalg.eigh(scaled)
    kept = values > 1e-11 * values[-1]
    coordinates = vectors[:, kept].T @ (images / units[:, None])
    left = images / units[:, None] - vectors[:, kept] @ coordinates
    assert np.abs(left).max() <= 1e-5 * np.abs(images / units[:, None]).max()
    return float(np.sqrt((coordinates**2 / values[kept, None]).sum(axis=0).max()))


def random_weights(rng, plants, *, varying):
    """Weights and covariances of an LQG loop, one of each or a list of T."""
    n, m, p = len(plants[0].A), plants[0].ninputs, plants[0].noutputs

    def definite(size, scale=1.0):
        root = rng.normal(size=(size, size))
        return scale * (root @ root.T / size + 0.2 * np.eye(size))

    def given(size, scale=1.0):
        if varying:
            return [definite(size, scale) for _ in plants]
        return definite(size, scale)

    return {"Q": given(n), "R": given(m), "QN": given(n, 0.1), "RN": given(p, 0.3)}


def lqg_cost(plants, weights, total, P0, terminal):
    """The least cost of all controllers, with errors by dense conditioning.

    Without a controller all signals are linear in (x(0), w, v, noise), and what is known of
    x(t) is its regression on all readings up to t. ``total`` (T p, T p) is the noise's
    covariance.
    """
    T, n, p = len(plants), len(P0), plants[0].noutputs

    def at(name, t):
        value = weights[name]
        return np.asarray(value[t] if np.ndim(value) == 3 else value)

    states = np.zeros((T + 1, n, T + 1, n))  # from x(0), then w(0), w(1), ..
    states[0, :, 0] = np.eye(n)
    for t in range(T):
        states[t + 1] = np.tensordot(plants[t].A, states[t], 1)
        states[t + 1, :, t + 1] = np.eye(n)
    sources = np.zeros((T + 1, n, T + 1, n))
    sources[0, :, 0] = P0
    for t in range(T):
        sources[t + 1, :, t + 1] = at("QN", t)
    spread = sources.reshape((T + 1) * n, -1)
    flat = states.reshape(T + 1, n, -1)
    rows = np.vstack([plants[t].C @ flat[t] for t in range(T)])
    read = rows @ spread @ rows.T + total
    for t in range(T):
        read[t * p : (t + 1) * p, t * p : (t + 1) * p] += at("RN", t)
    value = np.asarray(terminal)
    prices = []
    cost = 0.0
    for t in reversed(range(T)):
        A, B, N = plants[t].A, plants[t].B, at("N", t) if "N" in weights else 0.0
        cost += np.trace(value @ at("QN", t))
        by_input = at("R", t) + B.T @ value @ B
        K = np.linalg.solve(by_input, B.T @ value @ A + np.transpose(N))
        prices.append(K.T @ by_input @ K)
        value = at("Q", t) + A.T @ value @ A - K.T @ by_input @ K
    cost += np.trace(value @ P0)
    for t, price in enumerate(reversed(prices)):
        seen = rows[: (t + 1) * p]
        cross = flat[t] @ spread @ seen.T
        told = cross @ np.linalg.solve(read[: (t + 1) * p, : (t + 1) * p], cross.T)
        error = flat[t] @ spread @ flat[t].T - told
        cost += np.trace(price @ error)
    return cost
