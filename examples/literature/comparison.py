"""What the methods of the literature share: the loop they serve, and one table of them.

A method is a module with three names. ``SOURCE`` says where it comes from, against whom
it protects and which secret. ``design(plant, secret, budget)`` returns an `Entry`, or
raises with the reason why it does not apply. ``golden()`` recomputes numbers that are
known. `compare` puts methods side by side. A release is always read by the best filter
for it, so what differs is what is published, not how well it is read.
"""

import time
from dataclasses import dataclass, replace
from functools import cached_property

import control as ct
import matplotlib.pyplot as plt
import numpy as np
import scipy.linalg

import privcontrol as pc


@dataclass(frozen=True)
class Entry:
    """A method's answer to one request.

    Attributes
    ----------
    cost : float
        Expected cost over the horizon, or mean-square error.
    std : float
        Root mean square of the noise, in the units of what is published.
    guarantee : pc.PrivacyGuarantee, optional
        None where the method promises no differential privacy.
    instead : str
        What it promises instead, or what its guarantee counts on.
    bound : float
        No linear Gaussian gate of the same guarantee costs less, where that is known.
    """

    cost: float
    std: float
    guarantee: pc.PrivacyGuarantee | None = None
    instead: str = ""
    bound: float = np.nan


def bounded(entry, bound):
    """The entry with a lower bound of what any linear Gaussian gate costs."""
    return replace(entry, bound=bound, instead=f"nothing below {bound:.5g}")


@dataclass(frozen=True)
class LinearLoop:
    """A plant x+ = A x + B u + w, y = C x + v, and what its inputs and states cost.

    A release z = H y + noise over T samples, H causal, costs the sum of tr(N_t Sigma_t)
    more than the states revealed exactly: N_t the LQ weights of estimation errors, Sigma_t
    the covariance of x(t) given z up to t. The first inputs are the controls that R
    prices; others may carry secrets. With L in place of Q and R it filters L x, N = L'L.
    """

    sys: ct.StateSpace
    horizon: int
    QN: np.ndarray
    RN: np.ndarray
    P0: np.ndarray
    Q: np.ndarray | None = None
    R: np.ndarray | None = None
    L: np.ndarray | None = None

    @cached_property
    def regulator(self):
        """Cost with known states, and W_t (T, q, n) with N_t = W_t'W_t."""
        if self.L is not None:
            return 0.0, np.repeat(self.L[None], self.horizon, axis=0)
        A = self.sys.A
        B = self.sys.B[:, : len(self.R)]
        S = np.zeros_like(A)
        known = 0.0
        roots = []
        for _ in range(self.horizon):
            known += np.sum(S * self.QN)
            price = self.R + B.T @ S @ B
            K = np.linalg.solve(price, B.T @ S @ A)
            roots.append(np.linalg.cholesky(price).T @ K)
            S = self.Q + A.T @ S @ A - K.T @ price @ K
            S = (S + S.T) / 2
        return known + np.sum(S * self.P0), np.array(roots[::-1])

    @cached_property
    def covariances(self):
        """Covariances of x(t), (T, n, n), of all readings, and of readings with x(t)."""
        A = self.sys.A
        T, n = self.horizon, len(A)
        C = self.sys.C
        variances = [np.asarray(self.P0, float)]
        for _ in range(T - 1):
            variances.append(A @ variances[-1] @ A.T + self.QN)
        states = np.zeros((T, n, T, n))
        for t, P in enumerate(variances):
            states[t, :, t] = P
            for later in range(t + 1, T):
                P = A @ P
                states[later, :, t] = P
                states[t, :, later] = P.T
        cross = np.einsum("pn,snti->spti", C, states).reshape(-1, T, n)
        outputs = np.einsum("stn,pn->stp", cross, C).reshape(len(cross), -1)
        return np.array(variances), outputs + np.kron(np.eye(T), self.RN), cross

    def innovations(self, H, noise):
        """Cholesky factor of Cov(z), and the causal weights (r, T, n) of x(t) in it."""
        _, outputs, cross = self.covariances
        if H is not None:
            outputs = H @ outputs @ H.T
            cross = np.tensordot(H, cross, 1)
        total = outputs + noise
        large = np.abs(noise).max()
        try:
            if large > 1e14 * np.abs(outputs).max():
                raise np.linalg.LinAlgError
            lower = np.linalg.cholesky((total + total.T) / 2)
        except np.linalg.LinAlgError:
            raise ValueError(
                "doubles do not resolve the readings under noise of up to "
                f"{np.sqrt(large):.2g}"
            ) from None
        flat = cross.reshape(len(cross), -1)
        weights = scipy.linalg.solve_triangular(lower, flat, lower=True)
        weights = weights.reshape(cross.shape)
        width = len(weights) // self.horizon
        for t in range(self.horizon):
            weights[(t + 1) * width :, t] = 0.0
        return lower, weights

    def cost(self, noise, H=None):
        """Least expected cost that z = H y + noise of this covariance allows."""
        known, roots = self.regulator
        weights = self.innovations(H, noise)[1]
        variances = self.covariances[0]
        total = known
        for t, W in enumerate(roots):
            total += np.sum((W @ variances[t]) * W) - np.sum((weights[:, t] @ W.T) ** 2)
        return float(total)

    @cached_property
    def filter(self):
        """The map (T q, T p) from exact readings to W_t E[x(t) | y(0..t)]."""
        outputs = self.covariances[1]
        lower, weights = self.innovations(None, np.zeros_like(outputs))
        roots = self.regulator[1]
        rows = np.einsum("tqn,rtn->tqr", roots, weights).reshape(-1, len(lower))
        return scipy.linalg.solve_triangular(lower, rows.T, lower=True, trans=1).T

    def query(self, secret):
        """The readings as a query that knows how the secret moves them."""
        white = pc.design_output_noise(
            self.sys,
            horizon=self.horizon,
            budget=pc.PrivacyBudget(gdp=1.0),
            adjacency=secret,
            family="iid-gaussian",
            max_std=np.inf,
        )
        return white.design.mechanism.query

    def guarantee(self, secret, factor, H=None):
        """The exact guarantee of H y + factor @ standard noise, the worst of secrets."""
        worst = None
        for one in secret if isinstance(secret, list) else [secret]:
            query = self.query(one)
            matrix = query.matrix if H is None else H @ query.matrix
            released = pc.LinearQuery(matrix, query.manifold)
            mechanism = pc.Mechanism(released, pc.GaussianNoise(factor))
            found = mechanism.guarantee(one)
            if worst is None or found.gdp > worst.gdp:
                worst = found
        return worst

    def sensitivity(self, secret):
        """The largest l2 norm by which the secret moves the readings."""
        secrets = secret if isinstance(secret, list) else [secret]
        return max(self.query(one).sensitivity(one) for one in secrets)

    def released(self, secret, budget, factor=None, H=None, instead=""):
        """The entry of H y + noise of this shape, scaled until it meets the budget."""
        rows = self.horizon * len(self.sys.C) if H is None else len(H)
        shape = np.eye(rows) if factor is None else factor
        scale = self.guarantee(secret, shape, H).gdp / budget.shift() * (1 + 1e-9)
        return self.evaluated(secret, scale * shape, H, instead)

    def evaluated(self, secret, factor, H=None, instead="", known=None):
        """The entry of H y + noise of this factor, with its guarantee if that is known."""
        noise = factor @ factor.T
        return Entry(
            cost=self.cost(noise, H),
            std=float(np.sqrt(np.trace(noise) / len(noise))),
            guarantee=known or self.guarantee(secret, factor, H),
            instead=instead,
        )


def name_of(method):
    """The method's name, the first line of its module."""
    return method.__doc__.strip().splitlines()[0].rstrip(".")


def answer(method, plant, secret, budget):
    """(entry, cause of a refusal, seconds) of one method."""
    begun = time.perf_counter()
    try:
        entry, cause = method.design(plant, secret, budget), ""
    except (pc.PrivacyError, ValueError, NotImplementedError) as refusal:
        entry, cause = None, str(refusal).split("\n")[0]
    return entry, cause, time.perf_counter() - begun


def compare(plant, secret, budget, methods, ax=None):
    """Print one line for each method, draw one bar for each, and return the entries."""
    entries = {}
    delta = 1e-5 if budget.delta is None else budget.delta
    print(f"{'method':40} {'cost':>8} {'noise':>7} {'epsilon':>8}  what else")
    for method in methods:
        name = name_of(method)
        entry, cause, _ = answer(method, plant, secret, budget)
        if entry is None:
            print(f"{name:40} {'refused':>8} {'':>7} {'':>8}  {cause}")
            continue
        entries[name] = entry
        promise = "none"
        if entry.guarantee is not None:
            promise = f"{entry.guarantee.epsilon(delta):.4f}"
        numbers = f"{entry.cost:8.5g} {entry.std:7.4g} {promise:>8}"
        print(f"{name:40} {numbers}  {entry.instead}")
    if ax is not None:
        draw(entries, ax)
    return entries


def draw(entries, ax):
    """Bars of the costs; pale where no differential privacy is promised."""
    names = list(entries)[::-1]
    for name in names:
        private = entries[name].guarantee is not None
        cost = entries[name].cost
        bar = ax.barh(name, cost, color="#009E73" if private else "#B0C4DE")
        ax.bar_label(bar, [f"{cost:.4g}"], padding=3, fontsize="small")
    ax.set(xlabel="Expected cost over the horizon")
    ax.margins(x=0.12)
    ax.spines[["top", "right"]].set_visible(False)


def main(method):
    """Print what a method's file is about and its golden numbers."""
    print(name_of(method))
    print(method.SOURCE)
    for what, found, known in method.golden():
        print(f"  {what:58} {found:.10g}  (known: {known})")
    plt.close("all")
